"""`convert --like` for models of classes that no table knows: structure pairs their variables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import formats
from tests.support import data_path

if TYPE_CHECKING:
    from collections.abc import Callable

FORMS = ("ckpt", "model.weights.h5", "model.keras", "model.h5")
NAMELESS = ("keras2_blocks", "keras2_custom", "keras2_dictionary")
"""Models of Keras 2, whose `.weights.h5` does not name the class of its optimizer."""


def directions() -> list[tuple[str, str, str]]:
    """Return each model with two of its forms."""
    root = Path(data_path("structure"))
    return [
        (model.name, one, other)
        for model in sorted(root.iterdir())
        for one in FORMS
        for other in FORMS
        if one != other and all(any((model / "fresh").glob(f"{form}*")) for form in (one, other))
    ]


def differing(one: Path, other: str) -> list[str]:
    """Return the keys of weights, slots and counts whose values are not those of another checkpoint."""
    with formats.open_checkpoint(str(one)) as mine, formats.open_checkpoint(other) as theirs:
        wanted = [key for key, kind in theirs.kinds.items() if kind in ("variable", "slot", "optimizer")]
        return [key for key in wanted if not np.array_equal(mine[key].read(), theirs[key].read())]


@pytest.mark.parametrize(("model", "one", "other"), directions())
def test_custom_classes_go_from_form_to_form(
    ckpt: Callable, tmp_path: Path, model: str, one: str, other: str
) -> None:
    """Every weight and slot gets the value that the program itself saved in that form."""
    source, native, template = (
        data_path("structure", model, *parts)
        for parts in (("trained", one), ("trained", other), ("fresh", other))
    )
    more = ("--optimizer", "Adam") if model in NAMELESS and "model.weights.h5" in (one, other) else ()
    result = ckpt("convert", source, tmp_path / other, "--like", template, *more)
    assert (result.code, result.out) == (0, ""), result.err
    assert differing(tmp_path / other, native) == []


def test_an_optimizer_without_a_class_is_named_by_an_option(ckpt: Callable, tmp_path: Path) -> None:
    source = data_path("structure", "keras2_blocks", "trained", "ckpt")
    template = data_path("structure", "keras2_blocks", "fresh", "model.weights.h5")
    command = ("convert", source, tmp_path / "model.weights.h5", "--like", template)
    result = ckpt(*command)
    assert (result.code, result.out) == (3, "")
    assert "hint: if TEMPLATE has the same optimizer as SRC, pass --optimizer Adam\n" in result.err
    result = ckpt(*command, "--optimizer", "RMSprop")
    assert (result.code, result.out) == (3, "")
    assert "--optimizer says RMSprop, but the optimizer of SRC is Adam" in result.err
    result = ckpt(*command, "--optimizer", "Adm")
    assert (result.code, result.out) == (2, "")
    assert "'Adm' is not a known optimizer; expected one of Adam, AdamW" in result.err
    assert ckpt(*command, "--optimizer", "adam").code == 0


def test_an_optimizers_class_changes_nothing_without_keras(ckpt: Callable, tmp_path: Path) -> None:
    source = data_path("structure", "keras2_blocks", "trained", "ckpt")
    result = ckpt("convert", source, tmp_path / "all.npz", "--optimizer", "Adam")
    assert (result.code, result.out) == (3, "")
    assert "--optimizer has no effect" in result.err


def test_another_program_is_rejected_with_the_layer(ckpt: Callable, tmp_path: Path) -> None:
    """A checkpoint of other layers pairs with none of the template's."""
    source = data_path("structure", "keras2_custom", "trained", "ckpt")
    template = data_path("structure", "keras2_blocks", "fresh", "model.weights.h5")
    result = ckpt("convert", source, tmp_path / "model.weights.h5", "--like", template)
    assert (result.code, result.out) == (3, "")
    assert "get no value" in result.err
    assert "\nnote: pairing by structure failed: " in result.err


def test_an_archives_weights_are_copied(ckpt: Callable, tmp_path: Path) -> None:
    """Between a `.keras` archive and a `.weights.h5` file no dataset changes, nor its path."""
    archive, weights = (data_path("structure", "keras2_blocks", "trained", name) for name in FORMS[2:0:-1])
    there, back = tmp_path / "model.weights.h5", tmp_path / "model.keras"
    assert ckpt("convert", archive, there).code == 0
    assert ckpt("convert", weights, back, "--config", archive).code == 0
    for made, native in ((there, weights), (back, archive)):
        assert differing(made, native) == []
        with formats.open_checkpoint(str(made)) as mine, formats.open_checkpoint(native) as theirs:
            assert mine.specs.keys() == theirs.specs.keys()  # metrics, too: Keras 2 wants them back


def test_a_part_of_an_archives_weights_is_not_copied(ckpt: Callable, tmp_path: Path) -> None:
    archive = data_path("structure", "keras2_blocks", "trained", "model.keras")
    result = ckpt("convert", archive, tmp_path / "m.weights.h5", "--exclude", "layers/dense/vars/0")
    assert (result.code, result.out) == (3, "")
    assert (
        "'layers/dense/vars/0': keras-weights needs all weights of a model, but this weight is left out"
        in result.err
    )


@pytest.mark.parametrize("other", FORMS[1:3])
def test_a_file_given_for_its_configuration_shows_the_places_of_weights(
    ckpt: Callable, tmp_path: Path, other: str
) -> None:
    """No table knows the classes, but the `.keras` file of `--config` holds weights of the same program."""
    source, native = (data_path("structure", "keras2_blocks", "trained", name) for name in ("ckpt", other))
    config = data_path("structure", "keras2_blocks", "fresh", "model.keras")
    result = ckpt("convert", source, tmp_path / other, "--config", config)
    assert (result.code, result.out) == (0, ""), result.err
    assert differing(tmp_path / other, native) == []


def test_an_optimizer_of_the_configurations_file_does_not_come_along(ckpt: Callable, tmp_path: Path) -> None:
    source = data_path("structure", "keras2_blocks", "trained", "ckpt")
    config = data_path("structure", "keras2_blocks", "fresh", "model.keras")
    target = tmp_path / "model.weights.h5"
    assert ckpt("convert", source, target, "--config", config, "--weights-only").code == 0
    with formats.open_checkpoint(str(target)) as made:
        assert not {"slot", "optimizer"} & set(made.kinds.values())


def test_attributes_of_an_unknown_class_are_not_guessed(ckpt: Callable, tmp_path: Path) -> None:
    """An object graph goes by attributes, which no file of Keras holds."""
    source = data_path("structure", "keras2_custom", "trained", "model.h5")
    result = ckpt("convert", source, tmp_path / "ckpt", "--to", "object")
    assert (result.code, result.out) == (3, "")
    assert "layer 'custom' is of class " in result.err
    assert "hint: pass --like TEMPLATE, a checkpoint that the same program saved\n" in result.err


def edges_of(path: Path | str) -> set[str]:
    """Return the paths by which variables of an object graph are reached, all of them."""
    with formats.open_checkpoint(str(path)) as reader:
        graph = reader.object_graph
        assert graph is not None
        holders = {node for node, _, _ in graph.tensors(reader.specs).values()}
        found, waiting = set(), [(0, "", frozenset({0}))]
        while waiting:
            node, at, seen = waiting.pop()
            if node in holders:
                found.add(at.removeprefix("model/"))
            for name, child in graph.children(node):
                if child not in seen:
                    waiting.append((child, f"{at}/{name}".lstrip("/"), seen | {child}))
        return found


@pytest.mark.parametrize("name", ["conv", "mlp", "rnn"])
def test_objects_are_those_of_the_configurations_keras(ckpt: Callable, tmp_path: Path, name: str) -> None:
    """Keras 3 looks for other edges than Keras 2; all that it saves itself are there."""
    source, native = (data_path(f"keras3_{name}", f"{name}{rest}") for rest in (".keras", "_ckpt"))
    result = ckpt("convert", source, tmp_path / "three", "--to", "object")
    assert (result.code, result.out) == (0, "")
    assert (
        "note: the object graph is written for Keras 3; to choose another Keras, pass --generation"
        in result.err
    )
    missing = edges_of(native) - edges_of(tmp_path / "three")
    assert {path for path in missing if "seed_generator" not in path and path != "save_counter"} == set()
    assert ckpt("convert", source, tmp_path / "two", "--to", "object", "--generation", "keras2").code == 0
    assert any(path.startswith("layer_with_weights-0/") for path in edges_of(tmp_path / "two"))


def test_a_generation_changes_nothing_without_objects(ckpt: Callable, tmp_path: Path) -> None:
    source = data_path("keras3_mlp", "mlp.keras")
    result = ckpt("convert", source, tmp_path / "m.weights.h5", "--generation", "keras2")
    assert (result.code, result.out) == (3, "")
    assert "--generation has no effect" in result.err


def test_bins_of_other_data_are_not_taken_for_srcs(ckpt: Callable, tmp_path: Path) -> None:
    """A Discretization has learned its bins from data: its configuration holds them, and no tensor."""
    source = data_path("keras3_mlp", "mlp.keras")
    with formats.open_checkpoint(source) as reader:
        text = reader.facts.config  # type: ignore[attr-defined]
    config = json.loads(text)
    layer = config["config"]["layers"][-1]["config"]
    configs = []
    for bins in ([0.0, 1.0], [0.0, 2.0]):
        layer["bin_boundaries"] = bins
        configs.append(tmp_path / f"{bins[1]}.json")
        configs[-1].write_text(json.dumps(config))
    one = tmp_path / "one.keras"
    assert ckpt("convert", source, one, "--config", configs[0]).code == 0
    assert ckpt("convert", one, tmp_path / "same.weights.h5", "--config", configs[0]).code == 0
    result = ckpt("convert", one, tmp_path / "other.weights.h5", "--config", configs[1])
    assert (result.code, result.out) == (3, "")
    assert f"bin_boundaries of layer '{layer['name']}' differ between the configurations" in result.err
