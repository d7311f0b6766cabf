"""Add a format, a layer, a command and a store to a copy of the checkout, as CONTRIBUTING.md says.

    a format     formats/known/NAME.py, its suffix, a golden, a line of GOLDENS
    a layer      a class in ckpt_cli/runtime/keras/layers, its row, its names in PyTorch
    a command    ckpt_cli/commands/NAME.py, a function in ckpt_cli/operations
    a store      formats/store/NAME.py

Nothing else of the copy is changed, so nothing else has to be.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.cli.running import Starter
from tests.formats.contract import ReaderContract
from tests.support import data_path
from tests.test_architecture import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cli.running import Finished

TRIALS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "adding")
GOLDEN = data_path("bert_template", "input.ids.npy")


class Copy:
    """A copy of the checkout, and what was put into it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.added: list[str] = []
        self.changed: list[str] = []
        self._starter: Starter | None = None
        for package in ("formats", "ckpt_cli"):
            shutil.copytree(os.path.join(ROOT, package), root / package)

    def add(self, source: str, place: str) -> None:
        path = self.root / place
        assert not path.exists()
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, path)
        self.added.append(place)

    def write(self, place: str, data: bytes) -> None:
        path = self.root / place
        assert not path.exists()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        self.added.append(place)

    def add_line(self, place: str, before: str, line: str) -> None:
        """Put a line before the first one that is `before`."""
        text = (self.root / place).read_text()
        assert text.count(f"\n{before}\n") == 1
        (self.root / place).write_text(text.replace(f"\n{before}\n", f"\n{line}\n{before}\n"))
        self.changed.append(place)

    def tests(self) -> None:
        """Copy the tests; the data are those of the checkout."""
        shutil.copy(os.path.join(ROOT, "pyproject.toml"), self.root)
        tests, data = self.root / "tests", self.root / "tests" / "data"
        shutil.copytree(
            os.path.join(ROOT, "tests"), tests, ignore=shutil.ignore_patterns("data", "__pycache__")
        )
        data.mkdir()
        for name in os.listdir(data_path()):
            os.symlink(data_path(name), data / name)

    def passes(self, chosen: str, *places: str) -> int:
        """Run tests of the copy, which must pass, and return how many there are."""
        done = self.python("-m", "pytest", "-q", "-p", "no:cacheprovider", *places, "-k", chosen)
        assert done.returncode == 0, done.stdout
        found = re.search(r"(\d+) passed", done.stdout)
        assert found is not None
        return int(found[1])

    def python(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": str(self.root)}
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self.root,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def ckpt(self, *arguments: str) -> Finished:
        """Run `ckpt` as it is in the copy when it is first run."""
        if self._starter is None:
            environment = {**os.environ, "PYTHONPATH": f"{self.root}:{ROOT}"}
            self._starter = Starter(cwd=self.root, env=environment)
        return self._starter.run(*arguments, cwd=self.root)

    def close(self) -> None:
        if self._starter is not None:
            self._starter.close()


@pytest.fixture
def copy(tmp_path: Path) -> Iterator[Copy]:
    made = Copy(tmp_path)
    yield made
    made.close()


FILE_SUFFIXES = "formats/model/checkpoint_files.py"
TEST_CONTRACT = "tests/formats/test_contract.py"
OF_ALL_FORMATS = "has_a_golden or suffixes_are_reported or no_other_file or has_a_specimen"


def test_a_format_that_is_only_read_is_a_file_a_golden_and_two_lines(copy: Copy) -> None:
    copy.tests()
    copy.add(os.path.join(TRIALS, "format_npy.py"), "formats/known/npy.py")
    copy.add_line(FILE_SUFFIXES, '    ".npz",', '    ".npy",')
    copy.add(GOLDEN, "tests/data/npy/ids-7.npy")
    copy.add_line(TEST_CONTRACT, "]", '    ("npy", "npy/ids-7.npy"),')
    assert (len(copy.added), len(copy.changed)) == (2, 2)

    contract = sum(name.startswith("test_") for name in dir(ReaderContract))
    found = copy.passes("npy or has_a_golden or suffixes_are_reported", TEST_CONTRACT)
    assert found == 3 * contract + 2  # on disk, in memory, and on a server

    golden = "tests/data/npy/ids-7.npy"
    shape = ",".join(map(str, np.load(GOLDEN).shape))
    assert copy.ckpt("ls", golden).out.split("\t")[:3] == ["array", str(np.load(GOLDEN).dtype), shape]
    assert copy.ckpt("convert", golden, "out.npz").code == 0
    assert np.array_equal(np.load(copy.root / "out.npz")["array"], np.load(GOLDEN))
    assert "array of numpy's (read-only)" in copy.ckpt("explain", "formats").out


def test_files_of_a_new_format_are_checkpoints_of_their_directory(copy: Copy) -> None:
    copy.add(os.path.join(TRIALS, "format_npy.py"), "formats/known/npy.py")
    copy.add_line(FILE_SUFFIXES, '    ".npz",', '    ".npy",')
    (copy.root / "run").mkdir()
    for step in (9, 10):
        np.save(copy.root / "run" / f"w-{step}.npy", np.full(3, step, np.float32))
    (copy.root / "run" / "w-11.npy").write_bytes(b"\x93NUMPY\1\0")
    members = json.loads(copy.ckpt("ls", "--json", "run").out)["checkpoints"]
    assert [(each["name"], each["step"]) for each in members] == [
        ("w-9.npy", 9),
        ("w-10.npy", 10),
        ("w-11.npy", 11),
    ]
    damaged = copy.ckpt("verify", "run")
    assert (damaged.code, "run/w-11.npy" in damaged.out) == (1, True), damaged


def test_a_format_that_is_written_too_is_the_same_files(copy: Copy) -> None:
    copy.tests()
    copy.add(os.path.join(TRIALS, "format_blob.py"), "formats/known/blob.py")
    copy.add_line(FILE_SUFFIXES, '    ".npz",', '    ".blob",')
    listed = b'BLOB1\n[["net/b", "int64", []], ["net/w", "float32", [2, 3]]]\n'
    golden = listed + np.int64(7).tobytes() + np.arange(6, dtype=np.float32).tobytes()
    copy.write("tests/data/blob/net.blob", golden)
    copy.add_line(TEST_CONTRACT, "]", '    ("blob", "blob/net.blob"),')
    assert (len(copy.added), len(copy.changed)) == (2, 2)

    of_data = "tests/formats/known/test_goldens_beyond_bundles.py"
    tests = (TEST_CONTRACT, of_data, "tests/cli/test_matrix.py", "tests/formats/find/test_suffixes.py")
    assert copy.passes(f"blob or {OF_ALL_FORMATS}", *tests) > 80

    np.savez(copy.root / "c.npz", w=np.zeros(3, np.float32))
    assert copy.ckpt("convert", "c.npz", "c.blob").code == 0
    assert copy.ckpt("diff", "c.npz", "c.blob").code == 0
    (copy.root / "d.blob").write_bytes(b"something else")
    refused = copy.ckpt("ls", "d.blob")
    assert (refused.code, refused.out) == (3, "")
    assert (
        "this is not a file of arrays: it begins with 'someth'; expected the bytes 42 4c 4f 42 31 0a"
        in refused.err
    )


def test_what_is_only_read_is_written_by_no_command(copy: Copy) -> None:
    copy.add(os.path.join(TRIALS, "format_npy.py"), "formats/known/npy.py")
    for name in ("a", "b"):
        np.save(copy.root / f"{name}.npy", np.zeros(3, np.float32))
    np.savez(copy.root / "c.npz", array=np.zeros(3, np.float32))
    before = sorted(os.listdir(copy.root))
    for line in (
        "convert c.npz new.npy",
        "convert c.npz new --to npy",
        "convert c.npz new --to npy --dry-run",
        "average a.npy b.npy -o new",
        "rename a.npy new --sub a=>b",
        "rescue a.npy new",
    ):
        done = copy.ckpt(*line.split())
        assert (done.code, done.out) == (3, ""), done
        said = {
            "convert c.npz new.npy": "ckpt does not write .npy files (npy)",
            "average a.npy b.npy -o new": "averaging keeps the format, npy, and ckpt does not write this",
            "rename a.npy new --sub a=>b": "rename keeps the format, and ckpt does not write npy",
        }
        assert said.get(line, "npy can be read, but not") in done.err
        assert sorted(os.listdir(copy.root)) == before
    for line in ("average c.npz c.npz -o new.npy", "rename c.npz new.npy --sub a=>b"):
        done = copy.ckpt(*line.split())
        assert (done.code, done.out) == (3, ""), done
        assert "ckpt does not write .npy files (npy)" in done.err
        assert "hint: use one of .h5, .keras, .msgpack, .npz" in done.err
        assert sorted(os.listdir(copy.root)) == before


LAYERS = "formats/keras/layers.py"
IN_PYTORCH = "formats/keras/in_pytorch.py"
ARGUMENTS = "ckpt_cli/runtime/keras/arguments.tsv"
RUNTIME = "ckpt_cli/runtime/keras/layers/__init__.py"

_RUN = """
import json, sys
import numpy as np
import ckpt_cli.runtime as tf
model = tf.keras.Sequential([tf.keras.layers.Input([3]), tf.keras.layers.ChannelScale(name="s")])
model.set_weights([np.array([2, 3, 5], "f")])
print(model(tf.constant([[1.0, 10.0, 100.0]])).numpy().tolist())
model.save_weights("w.weights.h5")
open("c.json", "w").write(model.to_json())
"""


def test_a_layer_is_a_class_a_row_and_its_names_in_pytorch(copy: Copy) -> None:
    row = '    "ChannelScale": LayerRow((WeightRow("factor", "INPUT"),), (), input_is_last=True),'
    copy.add_line(LAYERS, '    "Concatenate": LayerRow(options=("axis",)),', row)
    in_pytorch = '    "ChannelScale": (TorchRow("factor", "weight", "C"),),'
    copy.add_line(IN_PYTORCH, '    "Conv1D": _kernel("O I K", "perm(2,1,0)"),', in_pytorch)
    copy.add(os.path.join(TRIALS, "layer_scale.py"), "ckpt_cli/runtime/keras/layers/scaling.py")
    copy.add_line(ARGUMENTS, "Concatenate\taxis=-1", "ChannelScale\tfactor_initializer='ones'")
    copy.add_line(RUNTIME, "from .structural import *  # noqa: F403", "from .scaling import *  # noqa: F403")
    assert (len(copy.added), len(set(copy.changed))) == (1, 4)

    run = copy.python("-c", _RUN)
    assert (run.returncode, run.stdout) == (0, "[[2.0, 30.0, 500.0]]\n"), run.stderr
    laid = copy.ckpt("convert", "w.weights.h5", "m.safetensors", "--layout", "pytorch", "--config", "c.json")
    assert laid.code == 0, laid.err
    assert copy.ckpt("ls", "m.safetensors").out.split("\t")[:3] == ["s.weight", "float32", "3"]
    back = ("m.safetensors", "b.weights.h5", "--layout", "tensorflow", "--config", "c.json")
    assert copy.ckpt("convert", *back).code == 0
    assert copy.ckpt("diff", "w.weights.h5", "b.weights.h5", "--kind", "variable").code == 0

    np.savez(copy.root / "wrong.npz", **{"s.weight": np.ones((3, 3), np.float32)})
    refused = copy.ckpt("convert", "wrong.npz", "x.h5", "--layout", "tensorflow", "--config", "c.json")
    assert (refused.code, refused.out) == (3, "")
    words = "'s/factor' of layer 's' (ChannelScale): 's.weight' has shape [3, 3], PyTorch takes [C]"
    assert words in refused.err
    for name in ("w", "b"):
        model = copy.ckpt("convert", f"{name}.weights.h5", f"{name}.h5", "--config", "c.json")
        assert model.code == 0, model.err
    compared = copy.ckpt("verify", "w.h5", "--outputs-like", "b.h5")
    assert compared.code == 0, compared.err


def test_a_command_is_a_file_and_an_operation(copy: Copy) -> None:
    copy.add(os.path.join(TRIALS, "command_count.py"), "ckpt_cli/commands/count.py")
    copy.add(os.path.join(TRIALS, "operation_counting.py"), "ckpt_cli/operations/look/counting.py")
    assert (len(copy.added), len(copy.changed)) == (2, 0)

    npz = data_path("interop", "weights.npz")
    tensors = len(np.load(npz).files)
    assert copy.ckpt("count", npz).out == f"{tensors}\n"
    document = json.loads(copy.ckpt("count", "--json", npz).out)
    assert document == {"schema": 1, "path": npz, "tensors": tensors}
    assert copy.ckpt("count", str(copy.root / "nothing")).code == 3
    assert "Count the tensors" in copy.ckpt("--help").out
    assert "Hide notes and progress" in copy.ckpt("count", "--help").out
    assert "did you mean count?" in copy.ckpt("coutn", npz).err


def test_a_store_is_a_file(copy: Copy) -> None:
    copy.add(os.path.join(TRIALS, "store_zipped.py"), "formats/store/archived.py")
    assert (len(copy.added), len(copy.changed)) == (1, 0)
    for folder in ("guide_adam_legacy/tf_ckpts", "keras_mlp"):
        shutil.copytree(data_path(folder), copy.root / "runs" / os.path.basename(folder))
    shutil.make_archive(str(copy.root / "runs"), "zip", copy.root, "runs")

    for line in (
        "ls {}/tf_ckpts",
        "ls -l {}/tf_ckpts/ckpt-10",
        "show {}/tf_ckpts/ckpt-10 net/l1/kernel",
        "diff {}/tf_ckpts/ckpt-9 {}/tf_ckpts/ckpt-10",
        "verify {}/tf_ckpts",
        "verify {}/keras_mlp/mlp.full.h5",
        "stats {}/tf_ckpts --json",
        "convert {}/tf_ckpts/ckpt-10 new.npz --weights-only --overwrite",
    ):
        here, there = (copy.ckpt(*line.format(at, at).split()) for at in ("runs", "zip://runs.zip/runs"))
        assert there.code == here.code, there.err
        assert _without_times(there.out.replace("zip://runs.zip/", "")) == _without_times(here.out)
    assert copy.ckpt("ls", "zip://runs.zip/runs/tf_ckpts/ckpt-7").code == 3
    refused = copy.ckpt("convert", "runs/tf_ckpts", "zip://runs.zip/new")
    assert (refused.code, refused.out) == (3, "")
    assert "zip:// can be read, but not written" in refused.err


def _without_times(text: str) -> str:
    return re.sub(r"\d{4}-\d\d-\d\dT[\d:]+Z", "", text)
