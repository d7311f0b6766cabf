"""`ckpt rename`, as a script and a person see it."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from formats import open_checkpoint
from formats.location import parse_location
from formats.model.checkpoint_files import data_shards
from formats.tf.bundle.reader import BundleReader, BundleTensor
from tests.support import data_path, partitioned, same, shard_path, strings, write_bundle
from tests.writing import files, read_all, save

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Result

    Ckpt = Callable[..., Result]

OBJECTS = data_path("guide_adam_legacy", "tf_ckpts", "ckpt-10")
NAMES = data_path("name_based", "adam", "model.ckpt-5")
VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"


def copied(source: str, directory: Path, name: str = "c-1") -> str:
    """Copy a bundle into a directory under another name; return its prefix there."""
    for path in [f"{source}.index", *data_shards(parse_location(source))]:
        shutil.copy(path, directory / (name + path.removeprefix(source)))
    return str(directory / name)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A directory with an object-based checkpoint, `ckpt-10`."""
    copied(OBJECTS, tmp_path, "ckpt-10")
    return tmp_path


def test_json_is_the_document_of_conversions(ckpt: Ckpt, run: Path) -> None:
    result = ckpt("rename", run / "ckpt-10", run / "out-1", "--sub", "^net=>model", "--json")
    wrote = f"wrote {run / 'out-1'} (tf-object, 15 tensors, 2.6 kB), verified\n"
    assert (result.code, result.err) == (0, wrote)
    found = result.json
    assert {name: value for name, value in found.items() if name != "tensors"} == {
        "schema": 1,
        "source": str(run / "ckpt-10"),
        "target": str(run / "out-1"),
        "format": "tf-object",
        "dropped": [],
        "verified": True,
        "verification": "full",
    }
    assert {
        "from": f"net/l1/bias{VALUE}",
        "to": f"model/l1/bias{VALUE}",
        "dtype": "float32",
        "shape": [5],
    } in found["tensors"]
    with open_checkpoint(run / "out-1") as reader:
        assert sorted(row["to"] for row in found["tensors"]) == sorted(reader.specs)
    with open_checkpoint(run / "ckpt-10") as reader:
        assert sorted(row["from"] for row in found["tensors"]) == sorted(reader.specs)


def test_piped_it_says_what_was_written(ckpt: Ckpt, run: Path) -> None:
    result = ckpt("rename", run / "ckpt-10", run / "out-1", "--sub", "^net=>model")
    assert (result.code, result.out) == (0, "")
    last = f"wrote {run / 'out-1'} (tf-object, 15 tensors, 2.6 kB), verified"
    assert result.err.splitlines() == ["note: 6 of 15 keys changed", last]


def test_piped_a_dry_run_prints_old_and_new(ckpt: Ckpt, run: Path) -> None:
    result = ckpt("rename", "-n", run / "ckpt-10", run / "out-1", "--sub", "^net=>model")
    assert [f"net/l1/bias{VALUE}", f"model/l1/bias{VALUE}", "float32", "5"] in result.rows


@pytest.mark.parametrize(
    ("options", "verified", "verification"),
    [
        (["out-1"], True, "full"),
        (["out-1", "--link"], True, "linked"),
        (["--in-place"], True, "linked"),
        (["out-1", "--link", "--no-verify"], False, "none"),
        (["out-1", "--link", "--dry-run"], False, "none"),
    ],
)
@pytest.mark.parametrize("source", [OBJECTS, NAMES], ids=os.path.basename)
def test_json_says_how_the_result_was_compared(
    ckpt: Ckpt, tmp_path: Path, source: str, options: list[str], verified: bool, verification: str
) -> None:
    copied(source, tmp_path)
    target = [tmp_path / word if word == "out-1" else word for word in options]
    found = ckpt("rename", tmp_path / "c-1", *target, "--add-prefix", "x/", "--json").json
    assert (found["verified"], found["verification"]) == (verified, verification)


def test_an_old_graph_in_a_shard_of_its_own_is_not_copied_and_not_compared(ckpt: Ckpt, run: Path) -> None:
    assert ckpt("rename", run / "ckpt-10", run / "a-1", "--sub", "^net=>model").code == 0
    done = ckpt("rename", run / "a-1", run / "b-1", "--sub", "^model=>net", "--json")
    assert (done.code, done.json["verification"]) == (0, "full")
    assert len(data_shards(parse_location(str(run / "b-1")))) == 2
    assert ckpt("diff", run / "ckpt-10", run / "b-1", "--exclude", "_CHECKPOINTABLE*").code == 0


def partitioned_bundle(prefix: Path) -> str:
    pieces = partitioned(np.eye(3, dtype=np.float32), [((0, 2), (0, -1)), ((2, 1), (0, -1))])
    write_bundle(str(prefix), {"w": pieces, "s": strings([b"a", b""])})
    return str(prefix)


@pytest.mark.parametrize("source", [OBJECTS, NAMES, None], ids=["objects", "names", "partitioned"])
def test_a_damaged_tensor_is_not_copied_and_called_verified(
    ckpt: Ckpt, tmp_path: Path, source: str | None
) -> None:
    (tmp_path / "run").mkdir()
    prefix = copied(source or partitioned_bundle(tmp_path / "w-1"), tmp_path / "run")
    with open_checkpoint(prefix) as reader:
        assert isinstance(reader, BundleReader)
        key = next(key for key, spec in reader.specs.items() if spec.dtype.name == "float32")
        piece = next((tensor for _, tensor in reader.tensor(key).pieces()), reader.tensor(key))
        assert isinstance(piece, BundleTensor)
        path, offset = reader.data_place(key, piece.entry)
        assert offset is not None
    with open(path, "r+b") as file:
        file.seek(offset + 1)
        file.write(b"\x55")
    new = tmp_path / "new"
    rename = "rename", prefix, new / "c-1", "--add-prefix", "x/"
    done = ckpt(*rename)
    assert done.code == 3
    assert done.err.startswith(f"ckpt: error: {path}: tensor {key!r}: ")
    assert "checksum 0x" in done.err
    assert "hint: to copy it with the damage, pass --no-verify" in done.err
    assert not new.exists()
    for option in ("--no-verify", "--link"):
        assert ckpt(*rename, option).code == 0
        assert ckpt("verify", new / "c-1").code == 1  # its checksum was copied, and still shows the damage
        shutil.rmtree(new)


def test_on_a_terminal_it_says_what_was_done(terminal: Ckpt, run: Path) -> None:
    result = terminal("rename", run / "ckpt-10", run / "out-1", "--sub", "^net=>model", NO_COLOR="1")
    assert result.code == 0
    assert result.out == ""
    assert f"note: 6 of 15 keys changed\nwrote {run / 'out-1'} (tf-object" in result.err


def test_dry_run_prints_the_plan_and_writes_nothing(ckpt: Ckpt, run: Path) -> None:
    before = files(run)
    planned = ckpt("rename", "-n", run / "ckpt-10", run / "sub" / "out-1", "--strip-prefix", "net/", "--json")
    assert files(run) == before
    assert planned.json["verified"] is False
    done = ckpt("rename", run / "ckpt-10", run / "sub" / "out-1", "--strip-prefix", "net/", "--json")
    assert planned.json["tensors"] == done.json["tensors"]


def test_in_place(ckpt: Ckpt, run: Path) -> None:
    result = ckpt("rename", "--in-place", run / "ckpt-10", "--map", _map(run, "net/l1/kernel\tnet/l1/w\n"))
    assert result.code == 0
    assert f"net/l1/w{VALUE}" in read_all(run / "ckpt-10")
    assert ckpt("verify", run / "ckpt-10").code == 0


def _map(directory: Path, text: str) -> Path:
    path = directory / "names.tsv"
    path.write_text(text)
    return path


def test_in_place_a_directory_is_its_latest(ckpt: Ckpt, run: Path) -> None:
    result = ckpt("rename", "--in-place", run, "--sub", "^net=>model")
    assert result.code == 0
    assert "ckpt-10" in result.err
    assert f"model/l1/bias{VALUE}" in read_all(run / "ckpt-10")


@pytest.mark.parametrize("name", ["out-1", "out-1.index", "out-1.data-00000-of-00001"])
def test_any_file_of_the_target_names_it(ckpt: Ckpt, run: Path, name: str) -> None:
    result = ckpt("rename", run / "ckpt-10", run / name, "--sub", "^net=>model", "--json")
    assert result.json["target"] == str(run / "out-1")
    assert os.path.isfile(run / "out-1.index")


def test_the_state_file_is_left_alone_unless_requested(ckpt: Ckpt, run: Path) -> None:
    ckpt("rename", run / "ckpt-10", run / "out-1", "--add-prefix", "x/")
    assert not os.path.exists(run / "checkpoint")
    ckpt("rename", run / "ckpt-10", run / "out-2", "--add-prefix", "x/", "--update-state")
    assert ckpt("ls", run, "--json").json["latest"] == "out-2"


def test_full_names_need_an_object_graph(ckpt: Ckpt, tmp_path: Path) -> None:
    result = ckpt("rename", NAMES, tmp_path / "new-1", "--sub", "^=>x/", "--full-names", "-n")
    assert (result.code, result.out) == (3, "")
    assert result.err == (
        f"ckpt: error: {NAMES}: tf-name has no object graph, so there are no full names to change\n"
        "hint: remove --full-names\n"
    )


def test_full_names_change_with_full_names(ckpt: Ckpt, run: Path) -> None:
    for options, expected in (((), "net/dense/kernel"), (("--full-names",), "model/dense/kernel")):
        ckpt("rename", run / "ckpt-10", run / "out-1", "--sub", "^net=>model", "--overwrite", *options)
        with open_checkpoint(run / "out-1") as reader:
            assert reader.full_names[f"model/l1/kernel{VALUE}"] == expected


def test_a_graph_of_the_old_names_is_spoken_of(ckpt: Ckpt, tmp_path: Path) -> None:
    save(tmp_path / "ckpt-1", {"v": np.arange(3)})
    (tmp_path / "ckpt-1.meta").write_bytes(b"")
    result = ckpt("rename", "--in-place", tmp_path / "ckpt-1", "--add-prefix", "x/")
    assert result.code == 0
    assert "ckpt-1.meta is unchanged: this graph still has the old names" in result.err


# Other formats --------------------------------------------------------------------


@pytest.mark.parametrize("in_place", [False, True])
def test_v1_checkpoints_are_written_again(ckpt: Ckpt, tmp_path: Path, in_place: bool) -> None:
    arrays = {"net/v": np.arange(6.0).reshape(2, 3), "net/v/Adam": np.ones((2, 3)), "s": np.array(3)}
    source = tmp_path / "v1.ckpt"
    save(source, arrays, "tf-v1", slices={"net/v": [((0, 1), (0, -1)), ((1, 1), (0, -1))]})
    target = source if in_place else tmp_path / "out" / "v1.ckpt"
    places = ("--in-place", source) if in_place else (source, target)
    result = ckpt("rename", *places, "--sub", "^net/v$=>model/w", "--json", "--link")
    assert result.code == 0, result.err
    assert "note: tf-v1 has no data shards to share" in result.err
    assert result.json["verified"] is True
    found = read_all(target)
    assert sorted(found) == ["model/w", "model/w/Adam", "s"]
    assert same(found["model/w"], arrays["net/v"])
    with open_checkpoint(target) as reader:
        assert len(reader["model/w"].pieces()) == 2


def test_v1_checkpoints_in_shards_are_not_renamed_in_place(ckpt: Ckpt, tmp_path: Path) -> None:
    pattern = next(
        os.path.join(at, name)
        for at, _, names in os.walk(data_path("v1_format"))
        for name in sorted(names)
        if name.endswith("-of-00002")
    )
    directory = os.path.dirname(pattern)
    shutil.copytree(directory, tmp_path / "v1")
    source = tmp_path / "v1" / os.path.basename(pattern)
    before = files(tmp_path)
    result = ckpt("rename", "--in-place", source, "--add-prefix", "x/")
    assert result.code == 3
    assert "2 files" in result.err
    assert files(tmp_path) == before
    assert ckpt("rename", source, tmp_path / "out", "--add-prefix", "x/").code == 0
    assert all(key.startswith("x/") for key in read_all(tmp_path / "out"))


def test_formats_that_are_not_written_are_named(ckpt: Ckpt, tmp_path: Path) -> None:
    listing = tmp_path / "listing.json"
    listing.write_text(ckpt("ls", "--json", "-l", NAMES).out)
    result = ckpt("rename", listing, tmp_path / "out.json", "--add-prefix", "x/")
    assert result.code == 3
    assert "listing" in result.err
    assert not os.path.exists(tmp_path / "out.json")


# Refusals -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["SRC", "DST"], 2, "nothing to change"),
        (["SRC", "--add-prefix", "x/"], 2, "--in-place"),
        (["--in-place", "SRC", "DST", "--add-prefix", "x/"], 2, "DST cannot be passed"),
        (["SRC", "DST", "--sub", "abc"], 2, "REGEX=>REPLACEMENT"),
        (["SRC", "DST", "--map", "nowhere"], 3, "nowhere: no such file"),
        (["SRC", "DST", "--sub", "nothing_like_it=>x"], 1, "matches no object path or key"),
        (["SRC", "DST", "--sub", "kernel$=>bias"], 3, "both become"),
        (["SRC", "DST", "--sub", "kernel$=>a//b"], 3, "an edge needs a name"),
        (["SRC", "SRC", "--sub", "kernel$=>w"], 3, "already exists"),
        (["SRC", "out/", "--sub", "kernel$=>w"], 3, "named by the common prefix of its files"),
        (["SRC", "out.npz", "--sub", "kernel$=>w"], 3, "rename keeps the format"),
        (["nowhere", "DST", "--sub", "kernel$=>w"], 3, "no such file"),
    ],
)
def test_refusals_say_why_and_write_nothing(
    ckpt: Ckpt, run: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, words: str
) -> None:
    monkeypatch.chdir(run)
    before = files(run)
    names = {"SRC": "ckpt-10", "DST": "new/out-1"}
    result = ckpt("rename", *(names.get(argument, argument) for argument in arguments))
    assert (result.code, result.out) == (code, "")
    assert words in result.err
    assert files(run) == before


def test_an_existing_target_is_replaced_when_asked(ckpt: Ckpt, run: Path) -> None:
    save(run / "out-1", {"other": np.arange(3)}, shard_size=1)
    refused = ckpt("rename", run / "ckpt-10", run / "out-1", "--sub", "^net=>model")
    assert refused.code == 3
    assert "--overwrite" in refused.err
    assert list(read_all(run / "out-1")) == ["other"]
    assert ckpt("rename", run / "ckpt-10", run / "out-1", "--sub", "^net=>model", "--overwrite").code == 0
    assert f"model/l1/bias{VALUE}" in read_all(run / "out-1")
    assert ckpt("verify", run / "out-1").code == 0


def test_lines_of_a_map_that_match_nothing_are_noted(ckpt: Ckpt, run: Path) -> None:
    path = _map(run, "net/l1/kernel\tw\nnope\tx\n")
    result = ckpt("rename", run / "ckpt-10", run / "out-1", "--map", path)
    assert result.code == 0
    assert "note: 1 of 2 lines of the map match no tensor, such as 'nope'" in result.err


def test_values_and_specs_are_the_same(ckpt: Ckpt, tmp_path: Path) -> None:
    for number, source in enumerate((NAMES, OBJECTS, data_path("shards", "merged"))):
        target = tmp_path / f"out-{number}"
        result = ckpt("rename", source, target, "--add-prefix", "x/", "--json")
        assert result.code == 0, result.err
        before, after = read_all(source), read_all(target)
        for row in result.json["tensors"]:
            if row["to"] != "_CHECKPOINTABLE_OBJECT_GRAPH":
                assert same(after[row["to"]], before[row["from"]])


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        ({"offset": 1 << 20}, "the tensor ends at byte 1048624, but the shard has only 80 bytes"),
        ({"size": 47}, "the tensor has 47 stored bytes, but float64 of shape [6] needs 48"),
    ],
    ids=["place", "size"],
)
def test_places_that_cannot_be_are_not_linked(
    ckpt: Ckpt, tmp_path: Path, edit: dict[str, int], said: str
) -> None:
    """It exited 0, and what it had made could not be read."""

    def misplace(entries: dict[bytes, Any]) -> None:
        for field, value in edit.items():
            setattr(entries[b"w"], field, value)

    source = str(tmp_path / "c-1")
    write_bundle(source, {"v": np.arange(4.0), "w": np.arange(6.0)}, edit=misplace)
    new = tmp_path / "new"
    rename = "rename", source, new / "c-1", "--add-prefix", "x/", "--link"
    done = ckpt(*rename)
    assert (done.code, done.out) == (3, "")
    assert said in done.err
    assert f"hint: to list all damage, run: ckpt verify {source}" in done.err
    assert not new.exists()
    assert ckpt(*rename, "--no-verify").code == 0
    assert ckpt("verify", new / "c-1").code == 1


@pytest.mark.parametrize("shard", [1, 7])
def test_an_entry_in_a_shard_that_is_not_counted_is_not_linked(
    ckpt: Ckpt, tmp_path: Path, shard: int
) -> None:
    def misplace(entries: dict[bytes, Any]) -> None:
        entries[b"w"].shard_id = shard

    source = str(tmp_path / "c-1")
    write_bundle(source, {"v": np.arange(4.0), "w": np.arange(6.0)}, edit=misplace)
    done = ckpt("rename", source, tmp_path / "new" / "c-1", "--add-prefix", "x/", "--link", "--no-verify")
    assert (done.code, done.out) == (3, "")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("option", [[], ["--link"]])
@pytest.mark.parametrize(
    ("put", "said"),
    [
        (os.mkfifo, "this is a pipe, not a regular file"),
        (os.mkdir, "this is a directory, not a regular file"),
        (lambda path: os.symlink("nowhere", path), "this is a broken symbolic link"),
    ],
    ids=["pipe", "directory", "link"],
)
def test_a_shard_that_is_not_a_file_is_named(
    ckpt: Ckpt, tmp_path: Path, put: Callable[[str], None], said: str, option: list[str]
) -> None:
    """With --link it waited for a pipe without end, and said of others that DST could not be written."""
    source = str(tmp_path / "c-1")
    write_bundle(source, {"w": np.arange(4.0)})
    os.unlink(shard_path(source))
    put(shard_path(source))
    done = ckpt("rename", source, tmp_path / "new" / "c-1", "--add-prefix", "x/", *option)
    assert (done.code, done.err.splitlines()[0]) == (3, f"ckpt: error: {shard_path(source)}: {said}")
    assert not (tmp_path / "new").exists()
