"""`ckpt show` and `ckpt stats`: what the contract's documents hold, against numpy and the manifest."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from ckpt_cli.operations.look.stats import statistics
from ckpt_cli.operations.select.slices import SliceError, parse_index
from formats import TensorSpec, create_checkpoint, open_checkpoint
from formats.core import dtypes
from formats.known.tf_object import GRAPH_KEY
from tests.support import data_path, numbers, strings, write_bundle

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CKPT = data_path("guide_adam_legacy", "tf_ckpts", "ckpt-10")
KERNEL = "net/l1/kernel/.ATTRIBUTES/VARIABLE_VALUE"


def test_a_summary_counts_by_kind_and_dtype(ckpt: Callable) -> None:
    found = ckpt("show", "--json", CKPT).json
    assert (found["schema"], found["format"], found["step"], found["producer"]) == (1, "tf-object", 10, None)
    assert found["files"] == [
        {"name": "ckpt-10.index", "nbytes": os.path.getsize(CKPT + ".index")},
        {"name": "ckpt-10.data-00000-of-00001", "nbytes": 2600},
    ]
    assert found["kinds"]["slot"] == {"tensors": 4, "nbytes": 80}
    assert found["dtypes"]["int64"] == {"tensors": 2, "nbytes": 16}
    assert sum(kind["tensors"] for kind in found["kinds"].values()) == 15
    assert found["metadata"] == {}


def test_a_tensor_has_statistics_and_values(ckpt: Callable) -> None:
    found = ckpt("show", "--json", CKPT, "net/l1/kernel").json
    values = np.array(found["values"], np.float32)
    assert (found["key"], found["dtype"], found["shape"], found["nbytes"]) == (KERNEL, "float32", [1, 5], 20)
    assert found["kind"] == "variable"
    stats = found["stats"]
    assert stats["min"] == values.min()
    assert stats["l2"] == pytest.approx(math.sqrt((values.astype(float) ** 2).sum()), rel=1e-15)
    assert list(stats) == ["min", "max", "mean", "std", "l2", "zeros", "nan", "inf"]


@pytest.mark.parametrize("text", ["[0,1:3]", "[:, 1:3]", "[-1]", "[..., ::2]", "[0:1]"])
def test_a_slice_is_numpys(text: str, ckpt: Callable) -> None:
    whole = np.array(ckpt("show", "--json", CKPT, "net/l1/kernel").json["values"])
    found = ckpt("show", "--json", CKPT, "net/l1/kernel" + text).json
    expected = eval(f"whole{text}", {"whole": whole})
    assert found["values"] == expected.tolist()
    assert found["shape"] == list(expected.shape)
    assert found["nbytes"] == 4 * expected.size


@pytest.mark.parametrize("text", ["[5]", "[0,0,0]", "[::-1]", "[a]", "[0,]x"])
def test_a_slice_that_does_not_fit_is_one_line(text: str, ckpt: Callable) -> None:
    result = ckpt("show", CKPT, "net/l1/kernel" + text)
    assert result.code in (1, 3)
    assert result.err.startswith("ckpt: error: ")
    assert result.out == ""


def test_a_key_with_brackets_wins_over_a_slice(tmp_path: Path, ckpt: Callable) -> None:
    prefix = str(tmp_path / "m-1")
    write_bundle(prefix, {"w[0]": np.float32(7), "w": np.arange(3, dtype=np.float32)})
    assert ckpt("show", "--json", prefix, "w[0]").json["values"] == 7
    assert ckpt("show", "--json", prefix, "w[1]").json["values"] == 1


def test_values_as_json_has_them(tmp_path: Path, ckpt: Callable) -> None:
    prefix = str(tmp_path / "m-1")
    tensors = {
        "c": np.array([1 + 2j], np.complex64),
        "b": np.array([1.5, -2], ml_dtypes.bfloat16),
        "i": numbers(np.array([-1, 7], ml_dtypes.int4)),
        "n": np.array([np.nan, np.inf, -np.inf], np.float32),
        "s": strings([b"caf\xc3\xa9", b"\xff\x00"]),
    }
    write_bundle(prefix, tensors)

    def values(key: str) -> object:
        return ckpt("show", "--json", prefix, key).json["values"]

    assert values("c") == [[1.0, 2.0]]
    assert values("b") == [1.5, -2.0]
    assert values("i") == [-1, 7]
    assert values("n") == ["nan", "inf", "-inf"]
    assert values("s") == ["café", {"base64": "/wA="}]
    assert ckpt("show", "--json", prefix, "s").json["stats"] is None
    assert ckpt("show", "--json", "--max-values", "2", prefix, "n").json["values"] is None


def test_variants_have_no_values(ckpt: Callable) -> None:
    found = ckpt("show", "--json", CKPT, "iterator").json
    assert (found["dtype"], found["stats"], found["values"]) == ("variant", None, None)


def test_more_than_one_match_is_rejected(ckpt: Callable) -> None:
    result = ckpt("show", CKPT, "net/*")
    assert result.code == 1
    assert "6 tensors match 'net/*'; expected one" in result.err


def test_stats_of_every_number(ckpt: Callable) -> None:
    found = ckpt("stats", "--json", CKPT).json
    assert len(found["tensors"]) == 13  # not the graph, not the iterator
    kernel = next(row for row in found["tensors"] if row["key"] == KERNEL)
    assert kernel["shape"] == [1, 5]
    rows = ckpt("stats", CKPT, "net/l1/kernel").rows
    assert rows[0][:3] == [KERNEL, "float32", "1,5"]
    assert [float(cell) for cell in rows[0][3:]] == [kernel[name] for name in list(kernel)[3:]]


def test_strings_and_variants_alone_have_no_statistics(ckpt: Callable) -> None:
    result = ckpt("stats", CKPT, "iterator", "_CHECKPOINTABLE_OBJECT_GRAPH")
    assert (result.code, result.out) == (0, "")
    assert result.err == "note: there are no statistics, because all tensors are strings or variants\n"


def test_a_run_that_turned_nan_fails_ci(ckpt: Callable) -> None:
    path = data_path("pairs", "name_based_nan")
    result = ckpt("stats", path, "--fail-on", "nan,inf")
    assert result.code == 1
    assert "enc/bias: 2 values are nan or inf" in result.err
    assert ckpt("stats", path).code == 0
    assert ckpt("stats", data_path("pairs", "name_based"), "--fail-on", "nan,inf").code == 0
    assert ckpt("stats", path, "--fail-on", "zero").code == 2


def test_a_terminal_shows_a_histogram(terminal: Callable) -> None:
    path = data_path("bert_tiny", "bert_model.ckpt-2")
    out = terminal("show", path, "bert/encoder/layer_0/attention/self/query/kernel").out
    assert "█" in out
    assert "\x1b[48;2;" in out  # the heat map
    assert "6.5 kB model, 13.0 kB optimizer slots" in terminal("show", path, NO_COLOR="1").out


@given(
    npst.arrays(st.sampled_from([np.float32, np.float64, np.int16, np.uint8]), npst.array_shapes(max_side=40))
)
def test_statistics_are_numpys(array: np.ndarray) -> None:
    pieces = np.array_split(array.reshape(-1), 3)
    found = statistics(pieces, dtypes.from_numpy(array.dtype))
    assert found is not None
    assert found.nan == np.isnan(array).sum()
    assert found.inf == np.isinf(array).sum()
    assert found.zeros == (array == 0).sum()
    values = array[~np.isnan(array)].astype(np.float64)
    if not values.size:
        assert (found.min, found.max, found.mean, found.std, found.l2) == (None,) * 5
        return
    assert (found.min, found.max) == (values.min(), values.max())
    if np.isfinite(values).all() and np.abs(values).max() < 1e150:
        scale = max(1e-300, np.abs(values).max())
        assert found.mean == pytest.approx(values.mean(), abs=1e-12 * scale)
        assert found.std == pytest.approx(values.std(), abs=1e-7 * scale)
        assert found.l2 == pytest.approx(math.sqrt((values * values).sum()), rel=1e-7, abs=1e-7 * scale)


@pytest.mark.parametrize(
    ("bounds", "mean"),
    [((1, math.inf), math.inf), ((-math.inf, 1), -math.inf), ((-math.inf, math.inf), math.nan)],
)
def test_infinite_values_have_numpys_mean(bounds: tuple[float, float], mean: float) -> None:
    values = np.array([*bounds, 1.0])
    found = statistics(np.array_split(values, 2), dtypes.BY_NAME["float64"])
    assert found is not None
    with np.errstate(invalid="ignore"):
        np.testing.assert_equal(mean, values.mean())
    np.testing.assert_equal((found.mean, found.std, found.l2), (mean, math.nan, math.inf))
    assert (found.min, found.max) == bounds


def test_tiny_values_keep_their_mean() -> None:
    found = statistics([np.full(3, 1e-30), np.full(3, 3e-30)], dtypes.BY_NAME["float64"])
    assert found is not None
    assert found.mean == pytest.approx(2e-30, rel=1e-12)
    assert found.std == pytest.approx(1e-30, rel=1e-12)


def test_the_variance_of_values_far_from_zero_is_kept() -> None:
    values = 1e9 + np.array([1.0, 2.0, 3.0, 4.0] * 1000)
    found = statistics(np.array_split(values, 7), dtypes.BY_NAME["float64"])
    assert found is not None
    assert found.std == pytest.approx(np.std([1.0, 2, 3, 4]), rel=1e-9)


def test_an_index_of_too_many_dimensions_names_the_shape() -> None:
    spec = TensorSpec("w", dtypes.BY_NAME["float32"], (2, 3))
    assert parse_index("1:, ...", spec, "x")[0] == (slice(1, 2, 1), slice(0, 3, 1))
    with pytest.raises(SliceError, match=r"3 dimensions, but the tensor has 2; the shape is \[2, 3\]"):
        parse_index("0,0,0", spec, "x")


def test_the_layout_of_a_keras_file_is_for_scripts(ckpt: Callable) -> None:
    path = data_path("keras3_mlp", "mlp.keras")
    assert ckpt("show", "--json", path).json["metadata"]["groups"]
    assert {row[0] for row in ckpt("show", path).rows}.isdisjoint(
        {"group", "groups", "object_names", "asset"}
    )


@pytest.mark.parametrize("command", ["show", "ls", "stats"])
def test_an_object_path_that_a_damaged_graph_hides_is_not_called_absent(
    ckpt: Callable, tmp_path: Path, command: str
) -> None:
    prefix = str(tmp_path / "ckpt-1")
    graph = open_checkpoint(CKPT)[GRAPH_KEY].read().item()
    write_bundle(prefix, {GRAPH_KEY: strings([graph[:-1]], ()), "w/.ATTRIBUTES/VARIABLE_VALUE": np.ones(2)})
    result = ckpt(command, prefix, "w")
    assert (result.code, result.out) == (3, "")
    assert result.err.startswith(
        f"ckpt: error: {prefix}.data-00000-of-00001: offset 0: the object graph cannot be decoded: "
    )
    assert "; ckpt cannot tell whether 'w' is an object path\n" in result.err
    assert f"hint: to list the keys: ckpt ls -1 {prefix}\n" in result.err
    assert ckpt(command, prefix, "w/.ATTRIBUTES/VARIABLE_VALUE").code == 0


def test_the_state_of_an_iterator_is_decoded(ckpt: Callable) -> None:
    found = ckpt("show", "--json", CKPT, "iterator").json["iterator"]
    assert found["pipeline"] == "Prefetch(BatchV2(ForeverRepeat(TensorSlice)))"
    assert found["position"] == {"passes": [19], "unit": "element", "next": 8, "step": "TensorSlice"}
    assert not found["has_ended"]
    assert [(step["step"], step["depth"], step["numbers"]) for step in found["steps"]] == [
        ("Prefetch", 0, {"buffer_size": 1}),
        ("BatchV2", 1, {"input_impl_empty": 0}),
        ("ForeverRepeat", 2, {"i": 19, "input_impl_empty": 0}),
        ("TensorSlice", 3, {"index": 10}),
    ]
    held = [[{"dtype": "float32", "shape": [2, 1]}, {"dtype": "float32", "shape": [2, 5]}]]
    assert [step["held"] for step in found["steps"]] == [held, [], [], []]
    rows = [line.split("\t") for line in ckpt("show", CKPT, "iterator").out.splitlines()]
    assert ["next", "pass 20, element 8 of TensorSlice"] in rows
    assert ["step", "2", "ForeverRepeat", "i 19", ""] in rows
    assert ["step", "0", "Prefetch", "buffer_size 1", "1 element: float32 [2, 1], float32 [2, 5]"] in rows


def test_a_terminal_shows_an_iterators_steps(terminal: Callable) -> None:
    out = terminal("show", CKPT, "iterator", NO_COLOR="1").out
    assert "next: pass 20, element 8 of TensorSlice" in out
    assert "      TensorSlice  index 10" in out


def test_variants_of_another_type_are_bytes(ckpt: Callable, tmp_path: Path) -> None:
    variants = np.empty(2, object)
    variants[:] = [b"\x0a\x03abc", b""]
    path = str(tmp_path / "ckpt")
    specs = [TensorSpec("v", dtypes.VARIANT, (2,))]
    with create_checkpoint(path, format="tf-name", specs=specs) as writer:
        writer.write("v", variants)
    assert "iterator" not in ckpt("show", "--json", path, "v").json
    result = ckpt("show", path, "v")
    assert (result.code, "variants of this type are not decoded" in result.err) == (0, True)
    assert "iterator" not in ckpt("show", "--json", CKPT, "iterator[0:1]").json


def test_the_identity_is_one_line(ckpt: Callable, tmp_path: Path) -> None:
    done = ckpt("show", CKPT, "--digest")
    assert (done.code, len(done.rows), done.err) == (0, 1, "")
    assert done.out.startswith("sha256:")
    found = ckpt("show", CKPT, "--digest", "--json").json
    assert found["identity"] == done.out.strip()
    assert found["format"] == "tf-object"
    for name in ("a.npz", "a.safetensors", "a.pt", "a.h5"):
        assert ckpt("convert", CKPT, tmp_path / name, "-q", *["--to", "hdf5"] * (name == "a.h5")).code == 0
        assert ckpt("show", tmp_path / name, "--digest").out == done.out
    wrong = ckpt("show", CKPT, KERNEL, "--digest")
    assert (wrong.code, "--digest does nothing with KEY" in wrong.err) == (2, True)


def test_a_listing_with_sha256_has_the_identity_of_what_it_lists(ckpt: Callable, tmp_path: Path) -> None:
    for digest in ("sha256", "crc32c"):
        listing = ckpt("ls", CKPT, "--json", "-l", "--digest", digest).out
        (tmp_path / f"{digest}.lock").write_text(listing)
    assert ckpt("show", tmp_path / "sha256.lock", "--digest").out == ckpt("show", CKPT, "--digest").out
    refused = ckpt("show", tmp_path / "crc32c.lock", "--digest")
    assert (refused.code, refused.out, "--digest sha256" in refused.err) == (3, "", True)


def test_a_name_that_hdf5_respells_counts_as_it_was(ckpt: Callable, tmp_path: Path) -> None:
    arrays = {"v": numbers(np.array([1.0], np.float32)), "v/Adam": numbers(np.array([2.0], np.float32))}
    write_bundle(str(tmp_path / "m-1"), arrays)
    assert ckpt("convert", tmp_path / "m-1", tmp_path / "m.h5", "--to", "hdf5", "-q").code == 0
    assert ckpt("show", tmp_path / "m.h5", "--digest").out == ckpt("show", tmp_path / "m-1", "--digest").out


def test_a_histogram_is_of_the_finite_values(terminal: Callable, tmp_path: Path) -> None:
    prefix = str(tmp_path / "c-1")
    both = np.array([1, 3, np.inf, np.nan, -np.inf, 2], np.float32)
    write_bundle(prefix, {"both": both, "none": both[2:5], "high": both[:3]})
    for key in ("both", "high"):
        (line,) = (
            line for line in terminal("show", prefix, key, NO_COLOR="1").out.splitlines() if "█" in line
        )
        assert (line.split()[0], line.split()[-1]) == ("1", "3")
    assert "█" not in terminal("show", prefix, "none", NO_COLOR="1").out
