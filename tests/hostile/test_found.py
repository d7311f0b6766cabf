"""Findings of the fuzzer: a test for each, with the smallest file that showed it.

Files that cost too much memory or time are in `tests.hostile.bombs` instead.
"""

from __future__ import annotations

import gc
import io
import json
import os
import shutil
import warnings
import zipfile
from typing import TYPE_CHECKING

import h5py
import numpy as np
import pytest

import formats
from ckpt_cli.operations.look.verify import verify_one
from ckpt_cli.render.base import escape
from formats.core import region
from formats.find.opening import locate
from formats.location import parse_location
from formats.wire.jsontext import parse_object
from tests.hostile.commands import arguments, run_command
from tests.hostile.mutation import pack_zip, unpack_zip
from tests.support import data_path, partitioned, write_bundle

if TYPE_CHECKING:
    from pathlib import Path


def safetensors(path: Path, header: str) -> str:
    data = header.encode()
    path.write_bytes(len(data).to_bytes(8, "little") + data)
    return str(path)


def npz_members() -> dict[str, bytes]:
    with open(data_path("interop", "weights.npz"), "rb") as file:
        return unpack_zip(file.read())


@pytest.mark.parametrize("half", ["\\ud800", "\\udcff"])
def test_half_a_character_in_a_header_is_an_error(half: str, tmp_path: Path) -> None:
    """It was a UnicodeEncodeError when keys were put in order, or taken where libraries reject it."""
    row = '{"dtype":"F32","shape":[0],"data_offsets":[0,0]}'
    path = safetensors(tmp_path / "w.safetensors", f'{{"{half}":{row},"v":{row}}}')
    with pytest.raises(formats.CorruptCheckpointError, match="half of a surrogate pair"):
        formats.open_checkpoint(path)


def test_a_byte_that_is_not_utf8_stays_a_key_in_json() -> None:
    assert parse_object('{"\\udcff": 1}') == {"\udcff": 1}


def test_nesting_that_would_exhaust_who_goes_through_it_is_an_error(tmp_path: Path) -> None:
    """It was a RecursionError in `show`, which makes JSON of it again."""
    deep = json.dumps({"schema": 1, "tensors": [], "path": "X"}).replace('"X"', "[" * 400 + "]" * 400)
    with pytest.raises(ValueError, match="the JSON is nested too deeply"):
        parse_object(deep)
    (tmp_path / "l.json").write_text(deep)
    assert run_command(["show", "--json", str(tmp_path / "l.json")]).code == 3


def test_a_member_without_a_name_is_one(tmp_path: Path) -> None:
    """It was an IndexError when asked whether it is a directory."""
    held = npz_members()
    data = pack_zip([("x", next(iter(held.values())))])
    # The name is taken away where it is: in front of the data, and in the directory.
    data = data.replace(b"\1\0\0\0x\x93NUMPY", b"\0\0\0\0\x93NUMPY")
    (tmp_path / "a.npz").write_bytes(data.replace(b"\1\0\0\0\0\0", b"\0\0\0\0\0\0"))
    with pytest.raises(formats.CheckpointError):
        formats.open_checkpoint(str(tmp_path / "a.npz"))


def test_a_member_that_swallows_others_is_noticed(tmp_path: Path) -> None:
    """A flipped bit in the length of a comment, and three of four tensors were gone silently."""
    with open(data_path("interop", "weights.npz"), "rb") as file:
        data = bytearray(file.read())
    first = data.index(b"PK\1\2")
    data[first + 33] ^= 1
    (tmp_path / "a.npz").write_bytes(data)
    with pytest.raises(
        formats.CorruptCheckpointError,
        match="the central directory lists 1 members, but its end record says 4",
    ):
        formats.open_checkpoint(str(tmp_path / "a.npz"))


def test_a_member_by_another_name_is_noticed(tmp_path: Path) -> None:
    """No checksum covers a name: the tensor was read under another key."""
    with open(data_path("interop", "weights.npz"), "rb") as file:
        data = bytearray(file.read())
    data[data.rindex(b"enc/kernel")] ^= 1
    (tmp_path / "a.npz").write_bytes(data)
    with formats.open_checkpoint(str(tmp_path / "a.npz")) as reader:
        assert "enc/kernel" not in reader
        assert [finding.message for finding in reader.findings] == [
            "member 'dnc/kernel.npy' has another name in its local header"
        ]
        with pytest.raises(formats.CorruptCheckpointError):
            reader["dnc/kernel"].read()


def test_archives_of_very_many_members_are_counted_by_zip64(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for number in range(65_536):
            archive.writestr(zipfile.ZipInfo(str(number)), b"")
    from formats.store.archive.reader import Archive

    assert len(Archive(parse_location(str(tmp_path / "a.zip"))).names) == 65_536


def test_a_deflated_archive_that_fails_to_open_leaves_no_file_open(tmp_path: Path) -> None:
    with open(data_path("keras3_mlp", "mlp.keras"), "rb") as file:
        members = unpack_zip(file.read())
    members["model.weights.h5"] = b"no HDF5 at all"
    (tmp_path / "m.keras").write_bytes(pack_zip(list(members.items()), deflated=True))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(formats.CorruptCheckpointError, match="this is not an HDF5 file"):
            formats.open_checkpoint(str(tmp_path / "m.keras"))
        gc.collect()


def test_errors_are_coloured_as_asked(tmp_path: Path) -> None:
    """They are printed when the command is over, and forgot --color."""
    missing = str(tmp_path / "missing")
    assert "\x1b" not in run_command(["ls", missing]).err
    assert "\x1b[31m" in run_command(["ls", missing], color="always").err


def test_keys_that_hdf5_cannot_name_are_rejected(tmp_path: Path) -> None:
    """It was a UnicodeDecodeError within h5py."""
    write_bundle(str(tmp_path / "b-1"), {b"a/\xff": np.float32(1)})
    ended = run_command(["convert", str(tmp_path / "b-1"), str(tmp_path / "o.h5"), "--to", "hdf5"])
    assert ended.code == 3
    assert "not UTF-8" in ended.err


@pytest.mark.parametrize("command", ["rescue", "convert"])
@pytest.mark.parametrize("suffix", [".weights.h5", ".keras"])
@pytest.mark.parametrize("variables", [0, 1])
def test_groups_that_hdf5_cannot_name_are_rejected(
    variables: int, suffix: str, command: str, tmp_path: Path
) -> None:
    """A flipped bit in the name of a layer was a UnicodeDecodeError within h5py."""
    weights = io.BytesIO()
    with h5py.File(weights, "w") as file:
        file["layers/dense/vars/0"] = [1.0]
        odd = file.create_group(b"layers/d\xecnse/vars")
        for number in range(variables):
            odd[str(number)] = [2.0]
    config = b'{"class_name": "Sequential", "config": {"name": "s", "layers": []}}'
    members = [("metadata.json", b"{}"), ("config.json", config), ("model.weights.h5", weights.getvalue())]
    source, target = tmp_path / f"w{suffix}", str(tmp_path / f"o{suffix}")
    source.write_bytes(weights.getvalue() if suffix == ".weights.h5" else pack_zip(members))
    ended = run_command([command, str(source), target])
    assert ended.code == 3
    assert "not UTF-8" in ended.err


@pytest.mark.parametrize("name", ["training_config", "model_config", "keras_version"])
def test_what_a_model_says_of_itself_is_not_lost(name: str, tmp_path: Path) -> None:
    """If a model's configuration is damaged, `verify` said ok, and `convert` left it out with a warning."""
    with open(data_path("keras_mlp", "mlp.with_optimizer.h5"), "rb") as file:
        data = bytearray(file.read())
    stored = name.encode() + b"\0"
    space = data.index(stored) + -(-len(stored) // 8) * 8 + 24
    data[space] ^= 1  # the version of the attribute's dataspace
    path, other = str(tmp_path / "m.h5"), data_path("keras_mlp", "mlp.with_optimizer.h5")
    (tmp_path / "m.h5").write_bytes(data)
    assert run_command(["verify", path]).code == 1
    assert f"attribute '{name}'" in run_command(["show", path]).err
    for command in (
        ["convert", path, str(tmp_path / "o.h5")],
        ["convert", path, str(tmp_path / "o-1")],
        ["rename", path, str(tmp_path / "o.h5"), "--add-prefix", "x/"],
        ["average", other, path, "-o", str(tmp_path / "o.h5")],
    ):
        ended = run_command(command)
        assert ended.code == 3, command
        assert f"attribute '{name}'" in ended.err
    assert os.listdir(tmp_path) == ["m.h5"]
    assert run_command(["extract", path, "-o", str(tmp_path / "o.npz")]).code == 0
    rescued = run_command(["rescue", path, str(tmp_path / "r.h5")])
    assert rescued.code == 1
    assert f"attribute '{name}'" in rescued.out + rescued.err


@pytest.mark.parametrize(
    "character", ["\u06dd", "\u200b", "\u00ad", "\ufeff", "\u2060", "\U000e0041", "\u3000"]
)
def test_characters_that_cannot_be_seen_are_escaped(character: str) -> None:
    assert escape(f"a{character}b").isascii()


def test_a_v1_file_may_be_called_index(tmp_path: Path) -> None:
    """It was an AssertionError: a bundle's name, and a V1 file's content."""
    shutil.copy(data_path("v1_format", "plain", "model.ckpt-1"), tmp_path / "b.index")
    with formats.open_checkpoint(str(tmp_path / "b.index")) as reader:
        assert reader.format.name == "tf-v1"
        assert len(reader) > 0


def test_digits_of_other_scripts_number_no_variables(tmp_path: Path) -> None:
    """`int("²")` is a ValueError although "²" is a digit, and so is a number of 5000 digits."""
    path = str(tmp_path / "w.weights.h5")
    with h5py.File(path, "w") as file:
        file["layers/plain/vars/0"] = 1.0
        for name in ("0", "²", "9" * 5000):
            file[f"optimizer/vars/{name}"] = 1.0
            file[f"layers/d/vars/{name}"] = 1.0
    with formats.open_checkpoint(path) as reader:
        assert len(reader.kinds) == 7
        assert reader.variables("layers/d/vars") == ["layers/d/vars/0"]


def test_slices_too_many_to_compare_are_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They ended the verification of all checkpoints."""
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    halves = [((0, 3), (0, 2)), ((0, 3), (2, 2))]
    write_bundle(str(tmp_path / "b-1"), {"p": partitioned(array, halves), "v": np.float32(1)})
    monkeypatch.setattr(region, "_MOST_CORNERS", 0)
    found = verify_one(locate(parse_location(str(tmp_path / "b-1"))))
    assert [finding.key for finding in found.findings] == ["p"]
    assert found.tensors == 1


def test_kinds_are_worked_out_once() -> None:
    """For each row of `ls -l` they were worked out again: a minute for 3,000 arrays."""
    for path in (
        ("interop", "weights.npz"),
        ("interop", "weights.safetensors"),
        ("interop", "weights.weights.h5"),
    ):
        with formats.open_checkpoint(data_path(*path)) as reader:
            assert reader.kinds is reader.kinds


def test_a_compressed_configuration_is_compared_with_what_is_stored(tmp_path: Path) -> None:
    with open(data_path("keras3_mlp", "mlp.keras"), "rb") as file:
        members = unpack_zip(file.read())
    members["config.json"] = members["config.json"] + b" " * (17 << 20)
    (tmp_path / "m.keras").write_bytes(pack_zip(list(members.items()), deflated=True))
    with formats.open_checkpoint(str(tmp_path / "m.keras"), lenient=True) as reader:
        assert reader.facts.document()["config"] is None
        assert any("at most" in finding.message for finding in reader.findings)


def test_a_plug_in_is_not_even_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A filter that is not the library's own is rejected before the library searches for it."""
    held = io.BytesIO()
    with h5py.File(held, "w") as file:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk((4,))
        plist.set_filter(32015, h5py.h5z.FLAG_OPTIONAL, ())
        h5py.h5d.create(file.id, b"x", h5py.h5t.NATIVE_FLOAT, h5py.h5s.create_simple((4,)), plist)
    (tmp_path / "f.h5").write_bytes(held.getvalue())
    asked: list[int] = []
    monkeypatch.setattr(h5py.h5z, "filter_avail", asked.append)
    with (
        formats.open_checkpoint(str(tmp_path / "f.h5")) as reader,
        pytest.raises(formats.UnsupportedFeatureError, match="filter 32015"),
    ):
        reader["x"].read()
    assert asked == []
    assert os.listdir(tmp_path) == ["f.h5"]


def test_v1_slices_may_be_listed_in_any_order(tmp_path: Path) -> None:
    """Copying them in that order was a ValueError: a table takes ascending keys."""
    from tests.hostile.bombs import v1_pieces_that_take_turns

    path = v1_pieces_that_take_turns(str(tmp_path))
    ended = run_command(["rename", path, str(tmp_path / "new"), "--add-prefix", "x/"])
    assert ended.code == 0
    with formats.open_checkpoint(str(tmp_path / "new")) as reader:
        assert reader["x/v"].read().shape == (4000,)


def test_deep_keys_and_chains_are_rejected_in_time(tmp_path: Path) -> None:
    """A million components, each with all before it, were terabytes of text."""
    write_bundle(str(tmp_path / "b-1"), {b"/a" * 20_000: np.float32(1), "v": np.float32(1)})
    for command in ("extract {} -o +.h5", "convert {} +.h5 --to hdf5", "convert {} + --to tf-object"):
        ended = run_command(arguments(command.split(), str(tmp_path / "b-1"), str(tmp_path / "new")))
        assert ended.code == 3, command
    assert run_command(["ls", "--tree", str(tmp_path / "b-1")]).code == 0


def test_a_collection_with_two_keys_is_the_last_of_them(tmp_path: Path) -> None:
    """It was a KeyError: the first key was of a collection that is read, the last one not."""
    from formats.tf.run.meta_graph import read_meta_graph

    version = b"\x0a\x08\x2a\x062.15.1"
    entry = b"\x0a\x09variables" + b"\x0a\x01x"
    (tmp_path / "m.meta").write_bytes(version + b"\x22" + bytes((len(entry),)) + entry)
    assert read_meta_graph(parse_location(str(tmp_path / "m.meta"))).variables == {}


def test_a_damaged_template_is_an_error(tmp_path: Path) -> None:
    """A tensor without a range in the file caused a KeyError."""
    held = npz_members()
    held["enc/bias.npy"] = b"no header"
    (tmp_path / "t.npz").write_bytes(pack_zip(list(held.items())))
    source = data_path("interop", "weights.npz")
    ended = run_command(["convert", source, str(tmp_path / "o.npz"), "--like", str(tmp_path / "t.npz")])
    assert ended.code == 3
    assert "enc/bias" in ended.err


def test_an_average_of_slices_with_gaps_is_rejected(tmp_path: Path) -> None:
    """It was a ValueError of the writer, which cannot cut what is whole into slices that do not cover it."""
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    write_bundle(str(tmp_path / "b-1"), {"p": partitioned(array, [((0, 3), (0, 2))])})
    path = str(tmp_path / "b-1")
    ended = run_command(["average", path, path, "-o", str(tmp_path / "mean")])
    assert ended.code == 3
    assert "'p'" in ended.err
