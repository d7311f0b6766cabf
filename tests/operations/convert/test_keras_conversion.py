"""Conversions between Keras' layouts and TensorFlow's objects; Keras itself judges in tests/interop."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

import formats
from ckpt_cli.operations.convert import execute, planner
from ckpt_cli.operations.convert.keras import models
from ckpt_cli.operations.convert.keras.plan import read_config
from formats import ConversionError
from formats.find.registry import format_named
from formats.keras.facts import KerasFacts, keras_facts
from formats.keras.optimizers import KERAS3
from formats.location import parse_location
from tests.support import data_path, same
from tests.writing import files, h5_objects, read_all, save

if TYPE_CHECKING:
    from pathlib import Path

    from ckpt_cli.operations.convert.plan import Plan

MODELS = [
    ("keras_mlp", "mlp"),
    ("keras_conv", "conv"),
    ("keras_rnn", "rnn"),
    ("keras_attention", "attn"),
    ("keras_nested", "nest"),
]


def planned(
    source: str, target: object, to: str, config: KerasFacts | None = None, generation: str | None = None
) -> Plan:
    with formats.open_checkpoint(source) as reader:
        settings = planner.Settings(config=config, generation=generation)
        return planner.plan_conversion(
            reader, list(reader.specs), parse_location(str(target)), format_named(to), settings
        )


def converted(
    source: object, target: Path, to: str, config: KerasFacts | None = None, generation: str | None = None
) -> Plan:
    with formats.open_checkpoint(str(source)) as reader:
        settings = planner.Settings(config=config, generation=generation)
        keys = list(reader.specs)
        plan = planner.plan_conversion(reader, keys, parse_location(str(target)), format_named(to), settings)
        execute.execute(plan)
    return plan


def refused(
    source: str, to: str, config: KerasFacts | str | None = None, generation: str | None = None
) -> ConversionError:
    facts = KerasFacts(config=config) if isinstance(config, str) else config
    with pytest.raises(ConversionError) as caught:
        planned(source, "/nowhere/x", to, facts, generation)
    return caught.value


@pytest.mark.parametrize(("folder", "name"), MODELS[1:])
def test_a_whole_model_becomes_the_bytes_that_save_weights_writes(
    folder: str, name: str, tmp_path: Path
) -> None:
    plan = converted(data_path(folder, f"{name}.full.h5"), tmp_path / name, "tf-object")
    assert not plan.dropped
    written = files(tmp_path)
    assert set(written) == {f"{name}.index", f"{name}.data-00000-of-00001"}
    for file, content in written.items():
        with open(data_path(folder, file), "rb") as golden:
            assert content == golden.read(), file


def test_of_a_trained_model_only_the_compiled_functions_are_missing(tmp_path: Path) -> None:
    """save_weights leaves nodes without values of them."""
    converted(data_path("keras_mlp", "mlp.with_optimizer.h5"), tmp_path / "mlp", "tf-object")
    mine, theirs = read_all(tmp_path / "mlp"), read_all(data_path("keras_mlp", "mlp"))
    graph = "_CHECKPOINTABLE_OBJECT_GRAPH"
    assert set(mine) == set(theirs)
    assert all(same(mine[key], theirs[key]) for key in mine if key != graph)
    with (
        formats.open_checkpoint(str(tmp_path / "mlp")) as made,
        formats.open_checkpoint(data_path("keras_mlp", "mlp")) as saved,
    ):
        assert made.object_paths == saved.object_paths
        assert made.full_names == saved.full_names
        assert made.kinds == saved.kinds
        assert saved.object_graph
        assert made.object_graph
        names = {edge for edge, _ in saved.object_graph.children(0)}
        assert names - {edge for edge, _ in made.object_graph.children(0)} == {
            "train_function",
            "train_tf_function",
        }


@pytest.mark.parametrize(("folder", "name"), MODELS)
@pytest.mark.parametrize("kind", ["full", "weights_only"])
def test_an_h5_file_comes_back_from_objects_bit_for_bit(
    folder: str, name: str, kind: str, tmp_path: Path
) -> None:
    """Without a configuration, names identify layers, and the result is the same."""
    source = data_path(folder, f"{name}.{kind}.h5")
    config = read_config(parse_location(data_path(folder, f"{name}.full.h5")))
    converted(source, tmp_path / "objects", "tf-object")
    converted(tmp_path / "objects", tmp_path / "back.h5", "keras-h5", config)
    if kind == "full":
        assert h5_objects(tmp_path / "back.h5") == h5_objects(source)
    mine, theirs = read_all(tmp_path / "back.h5"), read_all(source)
    assert {key: array.tobytes() for key, array in mine.items()} == {
        key: array.tobytes() for key, array in theirs.items()
    }


@pytest.mark.parametrize(("folder", "name"), MODELS)
def test_an_h5_file_comes_back_from_weights_of_keras_3(folder: str, name: str, tmp_path: Path) -> None:
    source = data_path(folder, f"{name}.full.h5")
    config = read_config(parse_location(source))
    converted(source, tmp_path / "m.weights.h5", "keras-weights", generation=KERAS3)
    converted(tmp_path / "m.weights.h5", tmp_path / "back.h5", "keras-h5", config)
    mine, theirs = read_all(tmp_path / "back.h5"), read_all(source)
    assert {key: array.tobytes() for key, array in mine.items()} == {
        key: array.tobytes() for key, array in theirs.items()
    }


@pytest.mark.parametrize(
    ("folder", "name"), [("keras3_mlp", "mlp"), ("keras3_conv", "conv"), ("keras3_rnn", "rnn")]
)
@pytest.mark.parametrize("source", ["{}.keras", "{}_ckpt"])
def test_weights_are_those_that_keras_3_saves(folder: str, name: str, source: str, tmp_path: Path) -> None:
    """Objects are called by their classes and counted, and bear their names."""
    config = read_config(parse_location(data_path(folder, f"{name}.keras")))
    target = tmp_path / "m.weights.h5"
    converted(data_path(folder, source.format(name)), target, "keras-weights", config)
    golden = data_path(folder, f"{name}.weights.h5")
    mine, theirs = read_all(target), read_all(golden)
    assert {key: array.tobytes() for key, array in mine.items()} == {
        key: array.tobytes() for key, array in theirs.items()
    }
    with formats.open_checkpoint(str(target)) as made, formats.open_checkpoint(golden) as saved:
        assert made.facts.document()["object_names"] == saved.facts.document()["object_names"]
        assert sorted(made.facts.document()["groups"]) == sorted(saved.facts.document()["groups"])


def test_a_configuration_stays_as_it_is(tmp_path: Path) -> None:
    config = read_config(parse_location(data_path("keras3_conv", "conv.keras")))
    converted(data_path("keras3_conv", "conv.weights.h5"), tmp_path / "m.keras", "keras", config)
    assert read_config(parse_location(str(tmp_path / "m.keras"))) == config


@pytest.mark.parametrize(
    ("source", "given", "target"),
    [
        ("keras3_mlp/mlp.keras", "keras_mlp/mlp.with_optimizer.h5", "m.h5"),
        ("keras_mlp/mlp.with_optimizer.h5", "keras_mlp/mlp.with_optimizer.h5", "m.h5"),
        ("keras_mlp/mlp_ckpt-1", "keras_mlp/mlp.with_optimizer.h5", "m.h5"),
    ],
)
def test_compilation_and_version_come_with_the_configuration(
    source: str, given: str, target: str, tmp_path: Path
) -> None:
    config = read_config(parse_location(data_path(given)))
    assert config.training_config is not None
    converted(data_path(source), tmp_path / target, "keras-h5", config)
    with formats.open_checkpoint(tmp_path / target) as reader:
        facts = keras_facts(reader.facts)
    assert (facts.training_config, facts.version) == (config.training_config, config.version)


def test_an_archive_shows_an_h5_file_how_it_is_compiled(tmp_path: Path) -> None:
    archive = data_path("keras3_mlp", "mlp.keras")
    converted(archive, tmp_path / "m.h5", "keras-h5")
    told = json.loads(str(read_config(parse_location(archive)).config))["compile_config"]
    found = json.loads(str(read_config(parse_location(str(tmp_path / "m.h5"))).training_config))
    assert found["optimizer_config"] == {key: told["optimizer"][key] for key in ("class_name", "config")}
    assert found["loss"] == told["loss"]


def test_an_h5_file_spells_the_configuration_of_an_archive_its_own_way(tmp_path: Path) -> None:
    archive = read_config(parse_location(data_path("keras3_mlp", "mlp.keras")))
    converted(data_path("keras3_mlp", "mlp.legacy.h5"), tmp_path / "m.h5", "keras-h5", archive)
    assert json.loads(str(read_config(parse_location(str(tmp_path / "m.h5"))).config)).keys() == {
        "class_name",
        "config",
    }


# Missing weights, and weights of other shapes ------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "to"),
    [
        ("keras_conv/conv", "keras-h5"),
        ("keras_conv/conv", "keras-weights"),
        ("keras_conv/conv", "keras"),
        ("keras_conv/conv.weights_only.h5", "keras-weights"),
        ("keras3_conv/conv.weights.h5", "keras-h5"),
        ("keras3_conv/conv.weights.h5", "tf-object"),
        ("interop/weights.npz", "keras-h5"),
    ],
)
def test_a_missing_configuration_is_named_with_what_gives_one(source: str, to: str) -> None:
    error = refused(data_path(source), to)
    assert "configuration" in error.message
    assert any("--config" in hint for hint in error.hints)
    assert any("--like" in hint for hint in error.hints)


@pytest.mark.parametrize(
    ("source", "to"),
    [
        ("keras_conv/conv", "keras-h5"),
        ("keras_conv/conv.weights_only.h5", "keras-weights"),
        ("keras3_conv/conv.weights.h5", "keras-h5"),
    ],
)
@pytest.mark.parametrize("other", ["keras_mlp/mlp.full.h5", "keras_nested/nest.full.h5"])
def test_the_configuration_of_another_model_is_rejected(source: str, to: str, other: str) -> None:
    error = refused(data_path(source), to, read_config(parse_location(data_path(other))))
    assert "does not fit the model" in error.message


def test_shapes_that_contradict_the_configuration_are_rejected() -> None:
    config = json.loads(str(read_config(parse_location(data_path("keras_mlp", "mlp.full.h5"))).config))
    config["config"]["layers"][1]["config"]["units"] = 9
    error = refused(data_path("keras_mlp", "mlp"), "keras-h5", json.dumps(config))
    assert "kernel" in error.message
    assert "9" in error.message


def test_subclassed_models_want_a_template() -> None:
    error = refused(data_path("keras_nested", "tower.weights_only.h5"), "tf-object")
    assert "'block'" in error.message
    assert any("--like" in hint for hint in error.hints)
    config = json.dumps({"class_name": "Tower", "config": {"name": "tower"}})
    assert (
        "not a Sequential or Functional"
        in refused(data_path("keras_nested", "tower.weights_only.h5"), "keras-weights", config).message
    )


def test_an_archive_is_not_made_of_the_configuration_of_an_h5_file() -> None:
    error = refused(data_path("keras_conv", "conv.full.h5"), "keras")
    assert "config.json" in error.hints[0]


@pytest.mark.parametrize(
    "config",
    [
        "[]",
        "{",
        '{"class_name": 1}',
        '{"class_name": "Sequential", "config": {"layers": [{"class_name": "Bidirectional", "config": {}}]}}',
        '{"class_name": "Sequential", "config": {"layers": [{"class_name": "LSTM", "config": {}}]}}',
    ],
)
def test_malformed_configurations(config: str) -> None:
    assert "does not fit the model" in refused(data_path("keras_conv", "conv"), "keras-h5", config).message


def test_slots_without_a_place_in_the_target_are_rejected(tmp_path: Path) -> None:
    """Without momentum an SGD of Keras 2.11 keeps one all the same; that is left out, other slots are not."""
    arrays = {
        "d/kernel": np.ones((2, 1), np.float32),
        "optimizer_weights/iteration": np.int64(3),
        "optimizer_weights/Mine/m/d/kernel": np.ones((2, 1), np.float32),
    }
    layer = {"class_name": "Dense", "config": {"name": "d", "units": 1, "use_bias": False}}
    config = json.dumps({"class_name": "Sequential", "config": {"name": "m", "layers": [layer]}})
    save(tmp_path / "m.h5", arrays, "keras-h5", facts=KerasFacts(config=config))
    error = refused(str(tmp_path / "m.h5"), "keras-weights", generation=KERAS3)
    assert "cannot store 1 slot of Mine (Keras 2.11 to 2.15)" in error.message
    assert "--weights-only" in error.hints[0]
    whole = converted(tmp_path / "m.h5", tmp_path / "m", "tf-object")
    assert not whole.dropped
    settings = {"momentum": 0.0, "learning_rate": 0.5}
    told = json.dumps({"optimizer_config": {"class_name": "SGD", "config": settings}})
    idle = {key.replace("Mine", "SGD"): array for key, array in arrays.items()}
    save(tmp_path / "idle.h5", idle, "keras-h5", facts=KerasFacts(config=config, training_config=told))
    plan = converted(tmp_path / "idle.h5", tmp_path / "idle.weights.h5", "keras-weights", generation=KERAS3)
    assert [dropped.key for dropped in plan.dropped] == ["optimizer_weights/SGD/m/d/kernel"]


def test_a_layer_left_incomplete_is_rejected() -> None:
    with formats.open_checkpoint(data_path("keras_conv", "conv.full.h5")) as reader:
        keys = [key for key in reader.specs if key != "conv_a/bias"]
        target = format_named("keras-weights")
        with pytest.raises(ConversionError, match="all weights") as caught:
            planner.plan_conversion(reader, keys, parse_location("/nowhere/x"), target, planner.Settings())
        assert caught.value.key == "conv_a/bias"
        plan = planner.plan_conversion(
            reader, keys, parse_location("/nowhere/x"), format_named("tf-object"), planner.Settings()
        )
        assert len(plan.moves) == len(keys)


@pytest.mark.parametrize("to", ["tf-object", "keras-weights"])
def test_the_state_of_an_optimizer_is_carried_whole_or_not_at_all(to: str) -> None:
    with formats.open_checkpoint(data_path("keras_mlp", "mlp.with_optimizer.h5")) as reader:
        into = format_named(to)
        settings = planner.Settings(generation=KERAS3)
        weights = [key for key in reader.specs if reader.kinds[key] == "variable"]
        plan = planner.plan_conversion(reader, weights, parse_location("/nowhere/x"), into, settings)
        assert len(plan.moves) == len(weights)
        part = [*weights, "optimizer_weights/iteration"]
        with pytest.raises(ConversionError, match="whole") as caught:
            planner.plan_conversion(reader, part, parse_location("/nowhere/x"), into, settings)
        assert "--weights-only" in caught.value.hints[0]


@pytest.mark.parametrize(
    "training_config",
    [
        "{",
        "[]",
        "{}",
        '{"optimizer_config": 5}',
        '{"optimizer_config": {"class_name": 5, "config": []}}',
        '{"optimizer_config": {"class_name": "Adam", "config": {"learning_rate": 1e300}}}',
        f'{{"optimizer_config": {{"config": {{"learning_rate": 1{"0" * 400}}}}}}}',
        "[" * 100_000,
    ],
)
def test_without_a_learning_rate_objects_hold_the_slots_and_keras_3_does_not(
    training_config: str, tmp_path: Path
) -> None:
    """A text may be anything; Keras 3 needs the rate, objects do not."""
    source = trained_by(training_config, tmp_path)
    plan = planned(source, "/nowhere/x", "tf-object")
    assert not plan.dropped
    assert len(plan.moves) == 27
    error = refused(source, "keras-weights", generation=KERAS3)
    assert "cannot store 16 slots of Adam (Keras 2.11 to 2.15)" in error.message
    assert "learning rate" in error.message
    plan = planned(source, "/nowhere/x", "keras-weights", read_config(parse_location(source)))
    assert not plan.dropped


def test_where_a_schedule_makes_the_rate_the_list_of_keras_3_has_none(tmp_path: Path) -> None:
    schedule = {"class_name": "Decay"}
    config = {"optimizer_config": {"class_name": "Adam", "config": {"learning_rate": schedule}}}
    source = trained_by(json.dumps(config), tmp_path)
    plan = planned(source, "/nowhere/x", "keras-weights", generation=KERAS3)
    listed = [move.spec for move in plan.moves if move.spec.key.startswith("optimizer/")]
    assert [len(spec.shape) for spec in listed[:1]] == [0]  # the count of steps
    assert len(listed) == 1 + 16
    assert not plan.dropped


def trained_by(training_config: str, directory: Path) -> str:
    """Return a file of Keras 2 whose training configuration is that text."""
    source = directory / "m.h5"
    with formats.open_checkpoint(data_path("keras_mlp", "mlp.with_optimizer.h5")) as reader:
        facts = keras_facts(reader.facts)._replace(training_config=training_config)
        with formats.create_checkpoint(source, format="keras-h5", specs=reader.specs, facts=facts) as writer:
            for key in reader:
                writer.write(key, reader[key].chunks())
    return str(source)


def test_an_object_graph_with_fewer_layers_is_rejected() -> None:
    config = json.loads(str(read_config(parse_location(data_path("keras3_mlp", "mlp.keras"))).config))
    config["config"]["layers"] *= 2
    error = refused(data_path("keras3_mlp", "mlp_ckpt"), "keras-weights", json.dumps(config))
    assert "differ from its configuration" in error.message


def test_a_vocabulary_in_a_table_is_rejected_where_keras_2_counts_it_as_a_weight(tmp_path: Path) -> None:
    """Later weights had other numbers than Keras 2 expects, and nothing was restored."""
    dense = {"class_name": "Dense", "config": {"name": "d", "units": 1, "use_bias": False}}
    for vocabulary in (None, ["a", "b"]):
        lookup = {"class_name": "StringLookup", "config": {"name": "words", "vocabulary": vocabulary}}
        layers = [{"class_name": "InputLayer", "config": {"batch_input_shape": [None, 2]}}, lookup, dense]
        config = json.dumps({"class_name": "Sequential", "config": {"name": "m", "layers": layers}})
        path = tmp_path / f"{vocabulary is None}.h5"
        save(path, {"d/kernel": np.ones((2, 1), np.float32)}, "keras-h5", facts=KerasFacts(config=config))
        if vocabulary is None:
            error = refused(str(path), "tf-object")
            assert "layer 'words' keeps its vocabulary in a table" in error.message
            assert "--like TEMPLATE" in error.hints[0]
        else:
            assert not converted(path, tmp_path / "m", "tf-object").dropped


def test_layers_that_no_table_knows_are_not_laid_out_by_guess(tmp_path: Path) -> None:
    """Keras 3 looked for the weights within such a layer below it, and loaded nothing that was written."""
    layer = {"class_name": "Unheard", "config": {"name": "d"}}
    layers = [{"class_name": "InputLayer", "config": {"batch_shape": [None, 2]}}, layer]
    config = json.dumps({"class_name": "Sequential", "config": {"name": "m", "layers": layers}})
    kernel = {"d/kernel": np.ones((2, 1), np.float32)}
    save(tmp_path / "m.h5", kernel, "keras-h5", facts=KerasFacts(config=config))
    error = refused(str(tmp_path / "m.h5"), "keras-weights", generation=KERAS3)
    assert (
        "layer 'd' is of class Unheard; ckpt does not know its attributes, which keras-weights needs"
        in error.message
    )
    dense = {"class_name": "Dense", "config": {"name": "d", "units": 1, "use_bias": False, "lora_rank": 2}}
    text = json.dumps(
        {"module": "keras", "class_name": "Sequential", "config": {"layers": [layers[0], dense]}}
    )
    save(tmp_path / "m.weights.h5", {"layers/dense/vars/0": kernel["d/kernel"]}, "keras-weights")
    (tmp_path / "config.json").write_text(text)
    config_of = read_config(parse_location(str(tmp_path / "config.json")))
    with pytest.raises(ConversionError, match="layer 'd' has other weights with 'lora_rank'"):
        planned(str(tmp_path / "m.weights.h5"), "/nowhere/x", "keras-h5", config_of)


class Shapes:
    """A side of a conversion whose layers have a kernel of another shape each."""

    def shapes(self, layer: models._LayerKeys) -> dict[str, tuple[int, ...]]:
        return {"kernel": (int(layer.weights["kernel"].removeprefix("key")),)}


@pytest.mark.parametrize(
    ("count", "said"), [(1, "'a0' is 'b0'"), (5, "'a4' is 'b4'"), (6, "'a4' is 'b4' and 1 more")]
)
def test_layers_of_other_names_are_listed_up_to_five(count: int, said: str) -> None:
    mine, theirs = (
        [models._LayerKeys(f"{name}{number}", {"kernel": f"key{number}"}) for number in range(count)]
        for name in "ab"
    )
    notes: list[str] = []
    pairs = models._of_layers(Shapes(), mine, Shapes(), theirs, notes)  # type: ignore[arg-type]
    assert pairs == {f"key{number}": f"key{number}" for number in range(count)}
    assert len(notes) == 1
    assert notes[0].startswith("layers are paired by their order, because their names differ: 'a0' is 'b0'")
    assert notes[0].endswith(said)
