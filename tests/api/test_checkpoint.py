"""`ckpt.open`: names, tensors, slices, tables, and what a closed checkpoint does."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ckpt_cli as ckpt
import formats
from formats.errors import ChecksumError
from formats.store.work import counters
from tests.support import data_path, shard_path, write_bundle
from tests.test_architecture import ROOT
from tests.test_notebooks import HOSTILE, cells

RUN = data_path("guide_adam_legacy", "tf_ckpts")
KERNEL = "net/l1/kernel/.ATTRIBUTES/VARIABLE_VALUE"


def test_a_name_is_a_key_an_object_path_or_a_full_name() -> None:
    with ckpt.open(f"{RUN}/ckpt-10") as found, formats.open_checkpoint(f"{RUN}/ckpt-10") as reader:
        full_name = reader.full_names[KERNEL]
        assert full_name not in reader
        assert {found[name].key for name in (KERNEL, "net/l1/kernel", full_name)} == {KERNEL}
        assert KERNEL in found
        assert "net/l1/kernel" in found
        assert "net/l1" not in found
        assert 1 not in found
        assert list(found) == list(found.keys()) == list(reader.specs)
        assert len(found) == len(reader.specs)
        for key, tensor in found.items():
            spec = reader.specs[key]
            expected = (key, spec.shape, spec.dtype.name, spec.nbytes, spec.size, len(spec.shape))
            assert (
                tensor.key,
                tensor.shape,
                tensor.dtype,
                tensor.nbytes,
                tensor.size,
                tensor.ndim,
            ) == expected
            expected = (reader.object_paths.get(key), reader.full_names.get(key), reader.kinds[key])
            assert (tensor.object_path, tensor.full_name, tensor.kind) == expected
    assert (found.path, found.format, found.notes) == (f"{RUN}/ckpt-10", "tf-object", ())


def test_a_directory_stands_for_its_latest_checkpoint() -> None:
    with ckpt.open(Path(RUN)) as found:
        assert found.path == f"{RUN}/ckpt-10"
        assert found.notes == ()


def test_values_are_arrays() -> None:
    with ckpt.open(RUN) as found, formats.open_checkpoint(RUN) as reader:
        kernel, values = found["net/l1/kernel"], reader[KERNEL].read()
        for array in (kernel[...], kernel[:], np.asarray(kernel), np.array(list(kernel))):
            assert array.dtype == values.dtype
            np.testing.assert_array_equal(array, values)
        np.testing.assert_array_equal(kernel[0, 1:4], values[0, 1:4])
        assert type(kernel[0, 1]) is np.ndarray
        assert np.asarray(kernel, dtype=np.float64).dtype == np.float64
        assert (np.asarray(kernel) + 1).shape == values.shape
        assert len(kernel) == 1
        scalar = found["save_counter"]
        assert int(np.asarray(scalar)) == int(scalar[()])
        with pytest.raises(TypeError, match="scalar"):
            len(scalar)
        with pytest.raises(IndexError, match="dimension"):
            kernel[7]
        with pytest.raises(IndexError, match="the step must be positive"):
            kernel[::-1]
        with pytest.raises(ValueError, match="always a copy"):
            kernel.__array__(copy=False)


def test_types_that_numpy_has_not_are_named_as_tensorflow_does(tmp_path: Path) -> None:
    import ml_dtypes

    write_bundle(str(tmp_path / "a-1"), {b"half": np.ones(3, ml_dtypes.bfloat16)})
    with ckpt.open(tmp_path / "a-1") as found:
        assert (found["half"].dtype, np.asarray(found["half"]).dtype) == ("bfloat16", ml_dtypes.bfloat16)
    with ckpt.open(RUN) as found:
        graph = found["_CHECKPOINTABLE_OBJECT_GRAPH"]
        assert (graph.dtype, type(graph[()].item())) == ("string", bytes)


def test_an_unknown_name_is_a_key_error_that_names_similar_keys() -> None:
    with ckpt.open(RUN) as found:
        with pytest.raises(KeyError) as caught:
            found["net/l1/kernle"]
        assert isinstance(caught.value, ckpt.CheckpointError)
        assert "net/l1/kernel" in caught.value.hints[0]
        assert caught.value.__notes__ == [f"hint: {caught.value.hints[0]}"]
        assert found.get("net/l1/kernle") is None


def test_damage_is_an_error_before_a_value_is_seen(tmp_path: Path) -> None:
    path = str(tmp_path / "a-1")
    write_bundle(path, {b"v": np.arange(100, dtype=np.float32)})
    shard = Path(shard_path(path))
    data = bytearray(shard.read_bytes())
    data[-1] ^= 1
    shard.write_bytes(data)
    with ckpt.open(path) as found:
        assert found["v"].shape == (100,)
        for read in (lambda: found["v"][:1], lambda: np.asarray(found["v"])):
            with pytest.raises(ChecksumError):
                read()


def test_a_closed_checkpoint_says_so() -> None:
    with ckpt.open(RUN) as found:
        kernel = found["net/l1/kernel"]
    with pytest.raises(ckpt.CheckpointError, match="closed"), found:
        pass
    for ask in (
        lambda: found[KERNEL],
        lambda: len(found),
        lambda: list(found),
        lambda: KERNEL in found,
        lambda: kernel[:1],
        lambda: np.asarray(kernel),
        lambda: kernel.kind,
        found.to_frame,
    ):
        with pytest.raises(ckpt.CheckpointError, match="this checkpoint is closed"):
            ask()
    assert repr(found) == f"<Checkpoint {RUN}/ckpt-10: tf-object, closed>"
    assert (kernel.shape, repr(kernel)) == ((1, 5), f"<Tensor {KERNEL!r} float32 (1, 5)>")
    found.close()


def test_errors_of_opening() -> None:
    with pytest.raises(FileNotFoundError) as caught:
        ckpt.open(f"{RUN}/ckpt-99")
    assert isinstance(caught.value, ckpt.CheckpointError)
    with pytest.raises(ckpt.CheckpointError, match=r"test_checkpoint\.py: "):
        ckpt.open(__file__)


def test_a_slice_reads_no_more_than_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of formats without checksums; opening reads no values at all."""
    specs = [formats.TensorSpec("v", formats.core.dtypes.BY_NAME["float32"], (1000, 1000))]
    values = np.arange(1_000_000, dtype=np.float32).reshape(1000, 1000)
    for name, known in (("a.safetensors", "safetensors"), ("a.h5", "hdf5")):
        path = tmp_path / name
        with formats.create_checkpoint(path, format=known, specs=specs) as writer:
            writer.write("v", values)
        monkeypatch.setattr(counters, "_tallies", None)
        counted = counters.count_reads()
        with ckpt.open(path) as found:
            opening = sum(tally.nbytes for tally in counted.values())
            np.testing.assert_array_equal(found["v"][500:502, 10:20], values[500:502, 10:20])
        assert opening < 100_000
        assert 80 <= sum(tally.nbytes for tally in counted.values()) - opening < 100_000


def test_tables_are_short_and_escaped(tmp_path: Path) -> None:
    tensors = {b"v%03d" % number: np.zeros(3, np.float32) for number in range(300)}
    write_bundle(str(tmp_path / "many-1"), tensors)
    with ckpt.open(tmp_path / "many-1") as found:
        lines = repr(found).splitlines()
        assert lines[0] == f"<Checkpoint {tmp_path}/many-1: tf-name, 300 tensors>"
        assert lines[1].split() == ["KEY", "OBJECT_PATH", "DTYPE", "SHAPE", "NBYTES", "KIND"]
        assert lines[2].split() == ["v000", "float32", "[3]", "12", "B", "variable"]
        assert lines[-1] == "... 280 more"
        assert len(lines) == 23
        html = found._repr_html_()
        assert (len(cells(html)), html[-15:]) == (30 * 5, "<p>270 more</p>")
    write_bundle(str(tmp_path / "odd-1"), {HOSTILE: np.zeros(3, np.float32), b"\x1b[2J": np.zeros(())})
    with ckpt.open(tmp_path / "odd-1") as found:
        assert repr(found).isascii()
        assert "\x1b" not in repr(found)
        assert "<script>alert('&')</script>\\udcff" in cells(found._repr_html_())


def test_without_pandas_a_frame_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with ckpt.open(RUN) as found, pytest.raises(ImportError, match="pip install pandas"):
        found.to_frame()


# The door ---------------------------------------------------------------------------


def _imported(program: str) -> set[str]:
    code = f"import sys\nbefore = set(sys.modules)\n{program}\nprint(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_the_package_imports_nothing_else() -> None:
    found = _imported("import ckpt_cli")
    assert {name for name in found if not name.startswith("__")} <= {
        "ckpt_cli",
        "ckpt_cli.memory",
        "ckpt_cli.own_formats",
    }


def test_opening_imports_no_command_line() -> None:
    found = _imported(f"import ckpt_cli\nckpt_cli.open({f'{RUN}/ckpt-10'!r})[{KERNEL!r}].shape")
    assert not found & {"click", "rich", "numpy", "h5py", "pandas", "ckpt_cli.cli", "ckpt_cli.commands"}


def test_every_public_name_is_there() -> None:
    assert set(ckpt.__all__) == set(ckpt._HOMES)
    assert set(ckpt.__all__) <= set(dir(ckpt))
    assert [name for name in ckpt.__all__ if not getattr(ckpt, name).__doc__] == []
    assert ckpt.CheckpointError is formats.CheckpointError
    with pytest.raises(AttributeError, match="no attribute 'opne'"):
        ckpt.opne  # noqa: B018


def test_a_program_in_a_folder_with_a_run_can_import_everything(tmp_path: Path) -> None:
    shutil.copytree(RUN, tmp_path / "run")
    program = "from ckpt_cli import *; print(open('run')['net/l1/kernel'].shape)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={"PYTHONPATH": ROOT},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "(1, 5)\n"


_AT_ONCE = """
import sys, threading
import ckpt_cli as ckpt

sys.setswitchinterval(1e-6)
run, names = sys.argv[1], ("open", "ls", "diff", "verify", "stats", "log", "CheckpointError")
begin, failed = threading.Barrier(len(names)), []

def use(name):
    begin.wait()
    try:
        function = getattr(ckpt, name)
        if name != "CheckpointError":
            function(*[run] * (2 if name == "diff" else 1))
    except BaseException as error:
        failed.append(repr(error))

threads = [threading.Thread(target=use, args=(name,)) for name in names]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(failed)
"""


def test_threads_may_use_it_for_the_first_time_at_once() -> None:
    """Threads that import modules of a package while others import the package wait for each other."""
    for _ in range(3):
        words = [sys.executable, "-c", _AT_ONCE, RUN]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
        assert done.stdout == "[]\n"


def test_a_name_is_a_string() -> None:
    with ckpt.open(RUN) as found:
        for name in (5, None, b"net/l1/kernel"):
            assert found.get(name) is None  # type: ignore[call-overload]
            with pytest.raises(formats.TensorNotFoundError) as caught:
                found[name]  # type: ignore[index]
            assert caught.value.hints == ("pass the name as a string",)


def test_an_empty_path_names_nothing() -> None:
    with pytest.raises(ValueError, match="the path is empty"):
        ckpt.open("")


def test_the_error_says_how_to_begin_a_program_that_its_workers_would_run_again(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(f"import ckpt_cli as ckpt\nckpt.verify({RUN!r}, executor='processes:1')\n")
    words, environment = [sys.executable, str(program)], {"PYTHONPATH": ROOT}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith('hint: put the code of your program below: if __name__ == "__main__":')


def test_a_checkpoint_that_is_open_as_python_ends_is_not_a_traceback() -> None:
    """Something of another module still holds it, as a notebook's history does."""
    code = (
        "import sys, threading, ckpt_cli as ckpt\n"
        "threading.kept = ckpt.open(sys.argv[1])\n"
        "threading.kept['net/l1/kernel'][...]\n"
    )
    words = [sys.executable, "-c", code, RUN]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stderr == ""
