"""A page of `ckpt report`: what it holds, and what becomes of it where something is wrong."""

from __future__ import annotations

import base64
import operator
import os
import shutil
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from formats import TensorSpec, create_checkpoint
from formats.core.dtypes import BY_NAME
from formats.location import reachable
from formats.store.memory import MemoryStore
from tests.operations.origin.test_verdicts import source
from tests.pages import HOSTILE, PageSource, shown
from tests.support import data_path, shard_path, write_bundle

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.conftest import Result

RUN = data_path("guide_adam_legacy", "tf_ckpts")
GUIDE = f"{RUN}/ckpt-10"


@pytest.fixture
def report(tmp_path: Path, ckpt: Callable[..., Result]) -> Callable[..., PageSource]:
    """Write a page, and return it."""

    def write(*arguments: object, code: int = 0) -> PageSource:
        target = tmp_path / "page.html"
        done = ckpt("report", *arguments, "-o", target, "--overwrite", "--json")
        assert done.code == code, done.err
        assert done.json == {
            "schema": 1,
            "path": str(arguments[0]),
            "other": None,
            "output": str(target),
            "nbytes": target.stat().st_size,
        }
        page = PageSource(target)
        page.assert_closed()
        return page

    return write


def close(value: Any) -> Any:
    return value if value is None or isinstance(value, str) else pytest.approx(value, rel=1e-7)


@pytest.mark.parametrize(
    "path",
    [
        GUIDE,
        data_path("keras_mlp/mlp.full.h5"),
        data_path("pairs/name_based_nan"),
        data_path("pytorch/dtypes.pt"),
    ],
)
def test_it_has_every_tensor_and_its_statistics(path: str, report: Callable, ckpt: Callable) -> None:
    page = report(path)
    found = page.document["tensors"]
    listed = ckpt("ls", "-l", "--json", path).json["tensors"]
    assert found["keys"] == [row["key"] for row in listed]
    assert [found["specs"][number] for number in found["spec"]] == [
        [row["dtype"], row["shape"]] for row in listed
    ]
    assert found["nbytes"] == [row["nbytes"] for row in listed]
    assert [found["kinds"][number] for number in found["kind"]] == [row["kind"] for row in listed]
    names = [name or key for name, key in zip(found["names"], found["keys"], strict=True)]
    assert names == [row["object_path"] or row["key"] for row in listed]
    statistics = {row["key"]: row for row in ckpt("stats", "--json", path).json["tensors"]}
    for at, key in enumerate(found["keys"]):
        for name, column in found["statistics"].items():
            assert column[at] == (
                close(statistics[key][name]) if key in statistics else {"zeros": None}.get(name)
            )
    assert all(shown(name)[:300] in page.still for name in names)


def test_what_is_drawn_is_read_in_the_same_pass(report: Callable) -> None:
    store = MemoryStore()
    with reachable(store):
        folder = store.put_tree("mem://tests", data_path("pairs"))
        page = report(f"{folder}/name_based")
        shard = f"{folder}/name_based.data-00000-of-00001"
        assert store.read_of(shard) == store.stat(shard).size  # type: ignore[union-attr]
    tensors = page.document["tensors"]
    for at, number in enumerate(tensors["spec"]):
        sketch, (_, shape) = page.document["sketches"][str(at)], tensors["specs"][number]
        assert sum(sketch["histogram"]["counts"]) == np.prod(shape)
        if np.prod(shape) > 1:
            cells = base64.b64decode(sketch["heat"]["cells"])
            assert len(cells) == sketch["heat"]["rows"] * sketch["heat"]["columns"] == np.prod(shape)


def test_the_largest_are_drawn_and_those_that_match(
    tmp_path: Path, report: Callable, ckpt: Callable[..., Result]
) -> None:
    tensors = {f"t/{number:03d}": np.zeros(4 + (number % 3 == 0), np.float32) for number in range(760)}
    prefix = str(tmp_path / "c-1")
    write_bundle(prefix, {**tensors, "small/bias": np.zeros(1, np.float32), "text": np.zeros(2, np.int8)})

    def drawn(page: PageSource) -> set[str]:
        keys = page.document["tensors"]["keys"]
        return {keys[int(at)] for at in page.document["sketches"]}

    largest = drawn(report(prefix))
    assert len(largest) == 500
    assert {key for key in tensors if int(key[2:]) % 3 == 0} <= largest
    assert drawn(report(prefix, "--match", "small/*", "--match", "text")) == largest | {"small/bias", "text"}
    done = ckpt("report", prefix, "-o", tmp_path / "none.html", "--match", "nothing*")
    assert (done.code, (tmp_path / "none.html").exists()) == (1, False)
    assert "no tensor matches 'nothing*'" in done.err


def test_the_object_graph_is_there(report: Callable) -> None:
    graph = report(GUIDE).document["graph"]
    below = {name: nodes for name, *nodes in graph["below"]["0"]}
    assert {"net", "optimizer", "step", "save_counter"} <= set(below)
    (optimizer,) = below["optimizer"]
    assert graph["palette"][graph["colors"][optimizer]] == "red"
    assert graph["words"][graph["told"][optimizer]] == "4 slots"
    assert sorted(name for slots in graph["slots"].values() for name, _ in slots) == ["m", "m", "v", "v"]
    assert report(data_path("keras_mlp/mlp.full.h5")).document["graph"] is None


def test_damage_is_shown_and_is_the_exit_code(
    tmp_path: Path, report: Callable, ckpt: Callable[..., Result]
) -> None:
    prefix = str(tmp_path / "c-1")
    write_bundle(prefix, {name: np.full((4, 4), 2, np.float32) for name in ("a", "b", "c")})
    with open(shard_path(prefix), "r+b") as file:
        file.seek(70)
        file.write(b"\x07")
    assert ckpt("stats", prefix).code == 3
    page = report(prefix, code=3)
    assert list(page.document["broken"]) == ["1"]
    assert "checksum" in page.document["broken"]["1"]
    assert page.document["tensors"]["statistics"]["mean"] == [2, None, 2]
    assert "damaged" in page.still
    done = ckpt("report", prefix, "-o", tmp_path / "page.html", "--overwrite")
    assert done.err.count("ckpt: error: ") == 1
    assert "checksum" in done.err


@pytest.mark.parametrize("sides", [1, 2])
def test_of_very_many_damaged_tensors_the_first_are_reported(
    sides: int, tmp_path: Path, ckpt: Callable[..., Result]
) -> None:
    prefixes = [str(tmp_path / f"{side}-1") for side in range(sides)]
    for side, prefix in enumerate(prefixes):
        write_bundle(prefix, {f"k{number:02}": np.full(4, side, np.float32) for number in range(30)})
    os.unlink(shard_path(prefixes[0]))
    page = tmp_path / "page.html"
    done = ckpt("report", *prefixes, "-o", page)
    assert done.code == 3
    assert done.err.count("ckpt: error: ") == 20
    assert "warning: 10 more tensors cannot be read; the page lists all\n" in done.err
    assert len(PageSource(page).document["broken"]) == 30


def test_hostile_names_are_inert_and_shown(tmp_path: Path, report: Callable) -> None:
    prefix = str(tmp_path / "c-1")
    write_bundle(prefix, {key: np.ones((2, 2), np.float32) for key in HOSTILE})
    page = report(prefix)
    for key in HOSTILE:
        assert shown(key)[:250] in page.still
    tags = {tag for tag, _ in page.elements}
    head, text = {"html", "head", "meta", "link", "title", "style", "script"}, {"h1", "h2", "p", "noscript"}
    assert tags <= head | text | {"body", "main", "dl", "dt", "dd", "div", "table", "tr", "th", "td"}
    assert "\u202e" not in page.source
    assert "\u2028" not in page.source


def test_values_that_json_has_not_are_there(tmp_path: Path, report: Callable) -> None:
    prefix = str(tmp_path / "c-1")
    write_bundle(prefix, {"a": np.array([np.nan, np.inf, 1e300]), "n": np.array([1 << 40], np.int64)})
    found = report(prefix).document["tensors"]["statistics"]
    assert (found["max"], found["nan"], found["inf"]) == (["inf", 1 << 40], [1, 0], [1, 0])


def test_what_is_there_stays_unless_it_must_be_replaced(tmp_path: Path, ckpt: Callable[..., Result]) -> None:
    target = tmp_path / "page.html"
    target.write_text("another")
    target.chmod(0o640)
    done = ckpt("report", GUIDE, "-o", target)
    assert (done.code, target.read_text()) == (3, "another")
    assert "already exists" in done.err
    assert "--overwrite" in done.err
    dry = ckpt("report", GUIDE, "-o", target, "--overwrite", "-n")
    assert (dry.code, target.read_text()) == (0, "another")
    done = ckpt("report", GUIDE, "-o", target, "--overwrite")
    assert done.rows == dry.rows == [[str(target), str(target.stat().st_size)]]
    assert target.stat().st_mode & 0o777 == 0o640
    assert os.listdir(tmp_path) == ["page.html"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-o", "page.txt"), "'page.txt' does not end in .html"),
        (("-o", "page.html", "--open", "-n"), "--open does nothing with --dry-run"),
    ],
)
def test_what_makes_no_sense_is_rejected(
    arguments: tuple[str, ...], message: str, ckpt: Callable[..., Result]
) -> None:
    done = ckpt("report", GUIDE, *arguments)
    assert done.code == 2
    assert message in done.err


def test_a_page_is_put_into_a_store(
    tmp_path: Path, ckpt: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    store = MemoryStore()
    with reachable(store):
        done = ckpt("report", GUIDE, "-o", "mem://b/page.html", "--open")
        assert done.code == 2
        assert "--open needs a local file" in done.err
        for arguments, code in (((), 0), ((), 3), (("--overwrite",), 0)):
            assert ckpt("report", GUIDE, "-o", "mem://b/page.html", *arguments).code == code
        assert ckpt("report", GUIDE, "-o", tmp_path / "page.html").code == 0
        with store.open("mem://b/page.html") as file:
            assert file.read(0, file.size) == (tmp_path / "page.html").read_bytes()


@pytest.mark.parametrize("opens", [True, False])
def test_a_browser_opens_the_page(
    opens: bool, tmp_path: Path, ckpt: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda url: asked.append(url) or opens)
    monkeypatch.chdir(tmp_path)
    done = ckpt("report", GUIDE, "-o", "a b#.html", "--open")
    assert done.code == 0
    assert asked == [f"file://{tmp_path}/a%20b%23.html"]
    assert ("found no browser" in done.err) == (not opens)


# Two ------------------------------------------------------------------------------


def test_of_two_it_has_what_diff_finds(tmp_path: Path, ckpt: Callable[..., Result]) -> None:
    target, pair = tmp_path / "page.html", (f"{RUN}/ckpt-9", GUIDE)
    done = ckpt("report", *pair, "-o", target, "--json")
    assert (done.code, done.json["path"], done.json["other"]) == (0, *pair)
    page = PageSource(target)
    page.assert_closed()
    found = page.document
    told = ckpt("diff", *pair, "--json").json
    assert found["same"] == told["summary"]["same"]
    for row, entry in zip(found["entries"], told["entries"], strict=True):
        assert (row["key"], row["change"], row.get("apart")) == (
            entry["key"],
            entry["change"],
            entry.get("apart"),
        )
        assert row.get("differing") == entry["differing"]
        assert row.get("max_abs") == close(entry["max_abs"])
        assert [row.get(name) for name in ("rel_l2", "cosine")] == [
            None if entry.get(name) is None else close(entry[name]) for name in ("rel_l2", "cosine")
        ]
        assert row["left"][:2] == [entry["left"]["dtype"], entry["left"]["shape"]]
        assert shown(row.get("name") or row["key"]) in page.still
    statistics = {row["key"]: row for row in ckpt("stats", "--json", GUIDE).json["tensors"]}
    for at, (_, right) in found["sketches"].items():
        key = found["entries"][int(at)]["key"]
        assert right["statistics"] == {name: close(statistics[key][name]) for name in right["statistics"]}
        assert sum(right["histogram"]["counts"]) == np.prod(found["entries"][int(at)]["right"][1])
    assert len(found["sketches"]) == 9


def test_of_two_the_layer_whose_values_are_farthest_apart_is_first(
    tmp_path: Path, ckpt: Callable[..., Result]
) -> None:
    """The largest |a-b| led, which is that of a counter; a slot was a part of its variable's layer."""
    ones = np.ones((4, 4), np.float32)
    left = {"near/w": 100 * ones, "near/w/adam_m": ones, "far/w": ones, "far/b": ones[0]}
    right = {"near/w": 101 * ones, "near/w/adam_m": ones * 5, "far/w": 2 * ones, "far/b": ones[0]}
    for name, tensors, step in (("a", left, 10), ("b", right, 5_000)):
        write_bundle(str(tmp_path / name), {**tensors, "global_step": np.int64(step)})
    assert ckpt("report", tmp_path / "a", tmp_path / "b", "-o", tmp_path / "page.html").code == 0
    page = PageSource(tmp_path / "page.html")
    far = {layer["name"]: (layer.get("rel_l2"), layer.get("cosine")) for layer in page.document["layers"]}
    assert [*far] == ["far", "near", "(slot)", "(state)"]
    assert far["far"] == (0.5, pytest.approx(1))
    assert far["near"] == (pytest.approx(1 / 101), pytest.approx(1))
    assert far["(slot)"] == (0.8, pytest.approx(1))
    assert far["(state)"] == (None, None)
    whole = np.hypot(4, 4) / np.hypot(404, 8)
    assert page.document["apart"]["rel_l2"] == pytest.approx(whole)
    ranked = sorted(page.document["entries"], key=operator.itemgetter("rank"))
    assert [row["key"] for row in ranked] == ["far/w", "near/w", "near/w/adam_m", "global_step"]
    assert [row["bar"] for row in ranked] == [1.0, pytest.approx(1 / 101 / 0.5, abs=1e-4), 1.0, 0.0]
    assert page.still.index("far") < page.still.index("near")
    assert "50%" in page.still


def test_of_two_damage_is_shown_next_to_what_is_not(tmp_path: Path, ckpt: Callable[..., Result]) -> None:
    for name, value in (("a-1", 1), ("b-1", 2)):
        tensors = {f"t{at}": np.full(8, value + (at > 6) * -value, np.float32) for at in range(9)}
        write_bundle(str(tmp_path / name), tensors)
    with open(shard_path(str(tmp_path / "b-1")), "r+b") as file:
        file.seek(3 * 32 + 1)
        file.write(b"\x07")
    done = ckpt("report", tmp_path / "a-1", tmp_path / "b-1", "-o", tmp_path / "page.html")
    assert done.code == 3
    assert "t3" in done.err
    page = PageSource(tmp_path / "page.html")
    changes = {entry["key"]: entry["change"] for entry in page.document["entries"]}
    assert changes == {**{f"t{at}": "value" for at in range(7)}, "t3": "damaged"}
    assert page.document["same"] == 2
    assert "checksum" in page.document["broken"]["t3"]
    assert "checksum" in page.still


def test_of_two_formats_what_pairs_is_found(tmp_path: Path, ckpt: Callable[..., Result]) -> None:
    pair = data_path("pairs/object_based"), data_path("pairs/name_based")
    assert ckpt("report", *pair, "-o", tmp_path / "page.html").code == 0
    found = PageSource(tmp_path / "page.html").document
    assert found["by"] == "object-path"
    assert found["same"] > 0


# An export and its source -----------------------------------------------------------


@pytest.fixture
def origins(tmp_path: Path, ckpt: Callable[..., Result]) -> Callable[..., PageSource]:
    """Write the page of a TFLite file and of these weights, and return it."""

    def write(name: str, weights: dict[str, Any]) -> PageSource:
        export, target = data_path(f"exports/tflite/{name}.tflite"), tmp_path / "page.html"
        np.savez(tmp_path / "source.npz", **weights)
        done = ckpt("report", export, tmp_path / "source.npz", "-o", target, "--overwrite", "--json")
        assert done.code == 0, done.err
        assert (done.json["path"], done.json["other"]) == (export, str(tmp_path / "source.npz"))
        page = PageSource(target)
        page.assert_closed()
        return page

    return write


@pytest.mark.parametrize("name", ["float", "int8"])
def test_of_an_export_it_has_the_verdicts_of_verify(
    name: str, tmp_path: Path, origins: Callable[..., PageSource], ckpt: Callable[..., Result]
) -> None:
    weights = source()
    page = origins(name, weights | {"fc/bias": weights["fc/bias"][::-1], "spare": np.ones(5, np.float32)})
    found = page.document
    export = data_path(f"exports/tflite/{name}.tflite")
    done = ckpt("verify", export, "--made-from", tmp_path / "source.npz", "--json")
    assert done.code == 1
    told = {each["key"]: each for each in done.json["results"][0]["made_from"]["weights"]}
    assert {each["key"] for each in found["weights"]} == set(told)
    for each in found["weights"]:
        expected = told[each["key"]]
        assert [each[field] for field in ("from", "rule", "verdict")] == [
            expected[field] for field in ("from", "rule", "verdict")
        ]
        assert (each["max_error"], each["allowed"]) == (
            close(expected["max_error"]),
            close(expected["allowed"]),
        )
        for text in (each["key"], " + ".join(each["from"]), each["rule"], each["verdict"]):
            assert shown(text) in page.still
    assert found["weights"][0]["verdict"] == "other"
    assert found["verdicts"] == Counter(each["verdict"] for each in told.values())
    assert sorted(found["unused"]) == ["fc/bias", "spare"]
    assert "spare" in page.still


def test_of_an_export_everything_can_be_proved(origins: Callable[..., PageSource]) -> None:
    found = origins("int8", source()).document
    assert (found["verdicts"], found["unused"]) == ({"within": 6}, [])


def test_two_exports_of_one_format_are_compared(tmp_path: Path, ckpt: Callable[..., Result]) -> None:
    pair = data_path("origin/llama.Q8_0.gguf"), data_path("origin/llama.Q4_0.gguf")
    assert ckpt("report", *pair, "-o", tmp_path / "page.html").code == 0
    assert PageSource(tmp_path / "page.html").document["what"] == "two"


def test_of_an_export_nothing_is_drawn(tmp_path: Path, ckpt: Callable[..., Result]) -> None:
    pair = data_path("origin/llama.Q8_0.gguf"), data_path("origin/llama.safetensors")
    done = ckpt("report", *pair, "-o", tmp_path / "page.html", "--match", "*")
    assert done.code == 2
    assert "--match" in done.err
    assert not (tmp_path / "page.html").exists()


# A run ----------------------------------------------------------------------------


def test_of_a_run_it_has_what_log_shows(tmp_path: Path, ckpt: Callable[..., Result]) -> None:
    run = data_path("estimator_iris/models/iris")
    done = ckpt("report", run, "-o", tmp_path / "page.html", "--json")
    assert (done.code, done.json["path"], done.json["other"]) == (0, run, None)
    page = PageSource(tmp_path / "page.html")
    page.assert_closed()
    told = ckpt("log", run, "--json").json
    for found, row in zip(page.document["checkpoints"], told["checkpoints"], strict=True):
        assert found.keys() == row.keys() | {"ratio"}
        assert all(found[name] == close(value) for name, value in row.items() if isinstance(value, float))
        assert all(found[name] == value for name, value in row.items() if not isinstance(value, float))
        assert row["name"] in page.still
    assert page.document["loss"]["tag"] == told["events"]["tag"]
    assert [step for step, _ in page.document["loss"]["points"]] == [1, 2, 102]


def test_layers_of_a_run_are_split_at_dots_where_no_name_has_a_slash(
    tmp_path: Path, ckpt: Callable[..., Result]
) -> None:
    (tmp_path / "run").mkdir()
    for step in (1, 2):
        tensors = {
            f"net.l{at}.{name}": np.full(3, float(step)) for at in (1, 2) for name in ("weight", "bias")
        }
        specs = [TensorSpec(key, BY_NAME["float64"], (3,)) for key in tensors]
        path = tmp_path / "run" / f"model-{step}.safetensors"
        with create_checkpoint(path, format="safetensors", specs=specs) as writer:
            for key, array in tensors.items():
                writer.write(key, array)
    assert ckpt("report", tmp_path / "run", "-o", tmp_path / "page.html").code == 0
    assert PageSource(tmp_path / "page.html").document["layers"] == ["net.l1", "net.l2"]


def test_of_a_run_layers_tell_what_changed_and_by_how_much(
    tmp_path: Path, ckpt: Callable[..., Result]
) -> None:
    (tmp_path / "run").mkdir()
    start = {
        f"net/l{at}/{name}": np.full((3, 4), at + 1.0) for at in (1, 2, 10) for name in ("kernel", "bias")
    }
    for step, suffix in enumerate(("-0", "-1", "-2")):
        tensors = {key: array.copy() for key, array in start.items()}
        tensors["net/l2/kernel"][0, 0] += step * 0.25
        if step == 2:
            tensors["net/l10/bias"][1] = np.nan
        write_bundle(str(tmp_path / "run" / f"ckpt{suffix}"), {**tensors, "global_step": np.int64(step)})
    assert ckpt("report", tmp_path / "run", "-o", tmp_path / "page.html").code == 0
    found = PageSource(tmp_path / "page.html").document
    assert found["layers"] == ["net/l1", "net/l2", "net/l10", "(state)"]
    by_layer = found["by_layer"]
    assert by_layer["changed"] == [[None, 0, 0], [None, 0.5, 0.5], [None, 0, 0.5], [None, 1, 1]]
    assert by_layer["bad"] == [[0, 0, 0], [0, 0, 0], [0, 0, 4], [0, 0, 0]]
    norms = [np.sqrt(24) * 3, np.hypot(np.sqrt(12) * 3, np.sqrt(11 * 9 + 3.25**2))]
    assert by_layer["norm"][1][:2] == pytest.approx(norms)
    assert by_layer["ratio"][0] == [None, 0, 0]
    assert by_layer["ratio"][1] == [None, close(0.25 / norms[0]), close(0.25 / norms[1])]
    assert by_layer["ratio"][2] == [None, 0, "nan"]
    assert [point["first_nan"] for point in found["checkpoints"]] == [None, None, "net/l10/bias"]
    assert sorted(found["frozen"]) == ["net/l1/bias", "net/l1/kernel", "net/l10/kernel", "net/l2/bias"]


def test_a_damaged_checkpoint_of_a_run_is_shown(tmp_path: Path, ckpt: Callable[..., Result]) -> None:
    (tmp_path / "run").mkdir()
    for step in range(3):
        write_bundle(str(tmp_path / "run" / f"ckpt-{step}"), {"w": np.full(8, step, np.float32)})
    with open(shard_path(str(tmp_path / "run" / "ckpt-1")), "r+b") as file:
        file.write(b"\x07")
    done = ckpt("report", tmp_path / "run", "-o", tmp_path / "page.html")
    assert done.code == 3
    page = PageSource(tmp_path / "page.html")
    assert "checksum" in page.document["findings"][0]
    assert "checksum" in page.still
    assert [point["l2"] is None for point in page.document["checkpoints"]] == [False, True, False]
    assert [row["ratio"] for row in page.document["checkpoints"]] == [None, None, None]


def test_the_latest_of_a_run_is_on_its_page(report: Callable[..., PageSource]) -> None:
    page = report(RUN)
    latest = page.document["latest"]
    alone = report(f"{RUN}/ckpt-10").document
    assert {name: alone[name] for name in latest if name != "what"} == {
        name: value for name, value in latest.items() if name != "what"
    }
    assert "net/l1/kernel" in page.still


def test_of_a_directory_with_one_checkpoint_it_is_the_page_of_that(
    tmp_path: Path, ckpt: Callable[..., Result]
) -> None:
    (tmp_path / "run").mkdir()
    write_bundle(str(tmp_path / "run" / "ckpt-1"), {"w": np.ones(3)})
    assert ckpt("report", tmp_path / "run", "-o", tmp_path / "page.html").code == 0
    document = PageSource(tmp_path / "page.html").document
    assert (document["what"], document["path"]) == ("checkpoint", f"{tmp_path}/run/ckpt-1")


@pytest.mark.parametrize(
    ("arguments", "name"),
    [([], "run.html"), (["."], "run.html"), (["ckpt-10"], "ckpt-10.html"), (["ckpt-9", "."], "ckpt-9.html")],
)
def test_without_a_name_the_page_is_named_after_what_it_is_of(
    arguments: list[str],
    name: str,
    tmp_path: Path,
    ckpt: Callable[..., Result],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shutil.copytree(RUN, tmp_path / "run")
    monkeypatch.chdir(tmp_path / "run")
    before = set(os.listdir("."))
    done = ckpt("report", *arguments)
    assert (done.code, done.rows[0][0]) == (0, name)
    assert set(os.listdir(".")) - before == {name}
    assert ckpt("report", *arguments).code == 3


def test_a_directory_without_checkpoints_has_no_page(tmp_path: Path, ckpt: Callable[..., Result]) -> None:
    (tmp_path / "empty").mkdir()
    done = ckpt("report", tmp_path / "empty", "-o", tmp_path / "page.html")
    assert (done.code, (tmp_path / "page.html").exists()) == (1, False)


def test_a_terminal_shows_what_was_written(tmp_path: Path, terminal: Callable[..., Result]) -> None:
    done = terminal("report", GUIDE, "-o", tmp_path / "page.html", "--color", "never")
    assert done.code == 0
    assert done.out.startswith(f"wrote {tmp_path}/page.html  ")
    assert done.out.endswith("kB, 13 tensors drawn\n")


def test_nothing_is_not_a_page(tmp_path: Path, ckpt: Callable[..., Result]) -> None:
    done = ckpt("report", tmp_path / "nothing", "-o", tmp_path / "page.html")
    assert (done.code, os.listdir(tmp_path)) == (3, [])


def test_match_chooses_what_the_page_of_a_run_is_of(report: Callable[..., PageSource]) -> None:
    counts = [
        {point["tensors"] for point in report(RUN, *options).document["checkpoints"]}
        for options in ([], ["--match", "net/*"], ["--match", "*/bias"])
    ]
    assert counts == [{15}, {6}, {1}]


def test_what_makes_a_page_smaller_is_reported_where_it_does(
    tmp_path: Path, ckpt: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    """--match draws more of a checkpoint; a message claimed that it makes every page smaller."""
    monkeypatch.setattr("ckpt_cli.commands.report._LARGE", 1000)
    target = ["-o", tmp_path / "page.html", "-n"]
    way = "to make it smaller, select fewer tensors with --match"
    assert way in ckpt("report", RUN, *target).err
    assert way in ckpt("report", GUIDE, "--match", "*", *target).err
    alone = ckpt("report", GUIDE, *target).err
    assert "page.html is " in alone
    assert "--match" not in alone


# Several checkpoints ----------------------------------------------------------------


def test_of_several_it_has_their_distances(tmp_path: Path, ckpt: Callable[..., Result]) -> None:
    paths = [f"{RUN}/ckpt-{step}" for step in (8, 9, 10)]
    target = tmp_path / "page.html"
    done = ckpt("report", *paths, "-o", target, "--json", "--match", "net/*")
    assert done.code == 0, done.err
    assert done.json["others"] == paths[1:]
    assert done.json["other"] is None
    page = PageSource(target)
    page.assert_closed()
    found = page.document
    distances = ckpt("diff", "--matrix", *paths, "--match", "net/*", "--json").json
    np.testing.assert_allclose(found["rel_l2"], distances["rel_l2"], rtol=1e-6)
    assert [group["prefix"] for group in found["groups"]] == [
        group["prefix"] for group in distances["groups"]
    ]
    assert (found["names"], found["xs"]) == (["ckpt-8", "ckpt-9", "ckpt-10"], [8, 9, 10])
    norms = {row["key"]: row["l2"] for row in ckpt("stats", "--json", paths[1]).json["tensors"]}
    tensors = {row["name"]: row for row in found["tensors"]}
    kernel = tensors["net/l1/kernel"]
    assert kernel["l2"][1] == close(norms["net/l1/kernel/.ATTRIBUTES/VARIABLE_VALUE"])
    assert all(len(row["l2"]) == 3 for row in tensors.values())
    for name in ("ckpt-8", "net/l1/kernel"):
        assert name in page.still


def test_of_several_it_names_damage_and_compares_the_rest(
    tmp_path: Path, ckpt: Callable[..., Result]
) -> None:
    prefixes = [str(tmp_path / f"c-{number}") for number in range(3)]
    for number, prefix in enumerate(prefixes):
        arrays = {name: np.full((4, 4), 2, np.float32) for name in ("a", "b")}
        write_bundle(prefix, {**arrays, "c": np.full(4, number + 1, np.float32), "n": np.arange(9)})
    for offset in (70, 160):  # b and n: a weight and integers, which are not compared
        with open(shard_path(prefixes[1]), "r+b") as file:
            file.seek(offset)
            file.write(b"\x07")
    target = tmp_path / "page.html"
    done = ckpt("report", *prefixes, "-o", target)
    assert done.code == 3
    assert done.err.count("ckpt: error: ") == 2
    page = PageSource(target)
    remarks = page.document["remarks"]
    assert [text for text in remarks if "checksum" in text] == remarks[:2]
    assert page.document["rel_l2"][0][2] > 0
    assert page.document["rel_l2"][0][1] > 0
    assert not any("every tensor is equal" in text for text in remarks)


def test_the_head_says_when_and_how_it_was_made(
    tmp_path: Path, ckpt: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    target = tmp_path / "page.html"
    ckpt("report", GUIDE, f"{RUN}/ckpt-9", "-o", target, "--match", "*kernel*")
    page = PageSource(target)
    command = f"ckpt report {GUIDE} {RUN}/ckpt-9 --match '*kernel*'"
    assert (page.document["made"], page.document["command"]) == ("2023-11-14T22:13:20Z", command)
    assert f"2023-11-14T22:13:20Z \u00b7 ckpt {page.document['version']}" in page.still
    before = target.read_bytes()
    ckpt("report", GUIDE, f"{RUN}/ckpt-9", "-o", target, "--match", "*kernel*", "--overwrite")
    assert target.read_bytes() == before


def test_two_of_one_name_are_distinguished_by_their_folders(
    tmp_path: Path, ckpt: Callable[..., Result]
) -> None:
    for run in ("a", "b"):
        (tmp_path / run).mkdir()
        write_bundle(str(tmp_path / run / "ckpt-6"), {"w": np.zeros(2, np.float32)})
    target = tmp_path / "page.html"
    ckpt("report", tmp_path / "a" / "ckpt-6", tmp_path / "b" / "ckpt-6", "-o", target)
    assert PageSource(target).document["name"] == "a/ckpt-6 \u2192 b/ckpt-6"
