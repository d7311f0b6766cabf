"""Our writers' files, loaded by Keras 2 and Keras 3: the models have the same outputs as before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import formats
from ckpt_cli.operations.convert import execute, pairing, planner
from ckpt_cli.operations.convert.keras.plan import read_config
from formats.location import parse_location
from tests.support import data_path, facts

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import TensorFlow

KERAS_2 = {
    "mlp": "keras_mlp",
    "conv": "keras_conv",
    "rnn": "keras_rnn",
    "attn": "keras_attention",
    "nest": "keras_nested",
}
KERAS_3 = {"mlp": "keras3_mlp", "conv": "keras3_conv", "rnn": "keras3_rnn"}
KERAS_3_MODELS = {"rnn": "rnn_attention"}


def converted(source: str, target: Path, config: str | None = None, generation: str | None = None) -> str:
    """Convert a fixture, and return the path of the result; its suffix says the format."""
    with formats.open_checkpoint(source) as reader:
        into = planner.target_format(
            reader, parse_location(str(target)), None if target.suffix else "tf-object"
        )
        settings = planner.Settings(
            config=read_config(parse_location(config)) if config else None, generation=generation
        )
        plan = planner.plan_conversion(
            reader, list(reader.specs), parse_location(str(target)), into, settings
        )
        execute.execute(plan)
    return str(target)


def expected(folder: str, name: str) -> tuple[str, np.ndarray[Any, Any]]:
    """Return the path of a model's input, and what it answered."""
    return data_path(folder, f"{name}.input.npy"), np.load(data_path(folder, f"{name}.output.npy"))


def check(
    tensorflow: TensorFlow, folder: str, name: str, weights: str, *, model: str | None = None, **options: Any
) -> None:
    inputs, output = expected(folder, name)
    found = tensorflow.ask("keras", "outputs", model=model or name, weights=weights, inputs=inputs, **options)
    np.testing.assert_allclose(found, output, rtol=1e-5, atol=1e-6)


def check_loaded(tensorflow: TensorFlow, folder: str, name: str, path: str) -> None:
    inputs, output = expected(folder, name)
    found = tensorflow.ask("keras", "loaded", path=path, inputs=inputs)
    np.testing.assert_allclose(found, output, rtol=1e-5, atol=1e-6)


# From Keras 2 ---------------------------------------------------------------------------------


def test_a_model_of_keras_3_is_loaded_by_the_keras_of_the_configuration(
    old_tensorflow: TensorFlow, tmp_path: Path
) -> None:
    """The file's attributes are those of Keras 2, the training configuration included."""
    config = data_path("keras_mlp", "mlp.with_optimizer.h5")
    written = converted(data_path("keras3_mlp", "mlp.keras"), tmp_path / "m.h5", config)
    check_loaded(old_tensorflow, "keras3_mlp", "mlp", written)


def test_a_variable_that_two_edges_lead_to_is_one(tensorflow: TensorFlow, tmp_path: Path) -> None:
    """Normalization of Keras 2 has `mean` as `adapt_mean`, too; Keras 3 expects three variables."""
    folder = "normalization"
    written = converted(
        data_path(folder, "norm2"), tmp_path / "norm.weights.h5", data_path(folder, "norm.keras")
    )
    check(tensorflow, folder, "norm", written)


@pytest.mark.parametrize("name", KERAS_2)
def test_an_h5_file_written_again(tensorflow: TensorFlow, name: str, tmp_path: Path) -> None:
    folder = KERAS_2[name]
    weights = converted(data_path(folder, f"{name}.weights_only.h5"), tmp_path / "weights.h5")
    check(tensorflow, folder, name, weights)
    if tensorflow.is_old:
        whole = converted(data_path(folder, f"{name}.full.h5"), tmp_path / "whole.h5")
        check_loaded(tensorflow, folder, name, whole)


@pytest.mark.parametrize("name", KERAS_2)
def test_objects_become_an_h5_file(tensorflow: TensorFlow, name: str, tmp_path: Path) -> None:
    folder = KERAS_2[name]
    config = data_path(folder, f"{name}.full.h5")
    path = converted(data_path(folder, name), tmp_path / "model.h5", config)
    check(tensorflow, folder, name, path)
    if tensorflow.is_old:
        check_loaded(tensorflow, folder, name, path)


@pytest.mark.parametrize("kind", ["full", "weights_only"])
@pytest.mark.parametrize("name", KERAS_2)
def test_an_h5_file_becomes_objects(tensorflow: TensorFlow, name: str, kind: str, tmp_path: Path) -> None:
    """With a configuration and without; Keras 3 reads no TensorFlow checkpoints."""
    folder = KERAS_2[name]
    weights = converted(data_path(folder, f"{name}.{kind}.h5"), tmp_path / "weights")
    if tensorflow.is_old:
        check(tensorflow, folder, name, weights)
    else:
        inputs, _ = expected(folder, name)
        error = tensorflow.refuses("keras", "outputs", model=name, weights=weights, inputs=inputs)
        assert "File format not supported" in error


@pytest.mark.parametrize("name", KERAS_2)
def test_an_h5_file_becomes_weights_of_keras_3(tensorflow: TensorFlow, name: str, tmp_path: Path) -> None:
    folder = KERAS_2[name]
    weights = converted(data_path(folder, f"{name}.full.h5"), tmp_path / "m.weights.h5", generation="keras3")
    if tensorflow.is_old and name == "attn":
        inputs, _ = expected(folder, name)
        # Keras 2 looks for the parts of MultiHeadAttention under other names.
        error = tensorflow.refuses("keras", "outputs", model=name, weights=weights, inputs=inputs)
        assert "ValueError" in error
    else:
        check(tensorflow, folder, name, weights)
    again = converted(weights, tmp_path / "again.h5", data_path(folder, f"{name}.full.h5"))
    check(tensorflow, folder, name, again)


@pytest.mark.parametrize("target", ["tower", "tower.h5"])
def test_a_subclassed_model_by_a_template(tensorflow: TensorFlow, target: str, tmp_path: Path) -> None:
    sources = {"tower": "tower.weights_only.h5", "tower.h5": "tower"}
    source = data_path("keras_nested", sources[target])
    template = data_path("keras_nested", {"tower": "tower", "tower.h5": "tower.weights_only.h5"}[target])
    path = str(tmp_path / target)
    with formats.open_checkpoint(source) as reader, formats.open_checkpoint(template) as like:
        plan, pairs = pairing.plan_like(
            reader, list(reader.specs), like, parse_location(path), pairing.Strictness()
        )
        assert len(pairs.pairs) == 14
        execute.execute(plan)
    if tensorflow.is_old:
        check(tensorflow, "keras_nested", "tower", path)


# From Keras 3 ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "target"),
    [
        *((source, target) for source in ("{}.keras", "{}.weights.h5") for target in ("m", "m.h5")),
        *((source, "m.weights.h5") for source in ("{}.keras", "{}.weights.h5", "{}_ckpt")),
        *((source, "m.keras") for source in ("{}.keras", "{}.weights.h5", "{}_ckpt")),
        ("{}_ckpt", "m.h5"),
    ],
)
@pytest.mark.parametrize("name", KERAS_3)
def test_keras_3_files_become_each_other(
    tensorflow: TensorFlow, name: str, source: str, target: str, tmp_path: Path
) -> None:
    folder = KERAS_3[name]
    model = KERAS_3_MODELS.get(name, name)
    config = data_path(folder, f"{name}.keras")
    # TensorFlow 2.15 restores the objects, and those are of Keras 3 unless the command says otherwise.
    generation = "keras2" if target == "m" else None
    path = converted(data_path(folder, source.format(name)), tmp_path / target, config, generation)
    if target == "m":
        if tensorflow.is_old:
            # The state of an optimizer is there, and this model has none.
            check(tensorflow, folder, name, path, model=model, consumed=name != "mlp")
    elif target == "m.keras":
        if not tensorflow.is_old:
            check_loaded(tensorflow, folder, name, path)
    elif not (tensorflow.is_old and target == "m.weights.h5" and model == "rnn_attention"):
        check(tensorflow, folder, name, path, model=model)
        if target == "m.h5" and not tensorflow.is_old:
            check_loaded(tensorflow, folder, name, path)


# Optimizers -----------------------------------------------------------------------------------


def state_of(path: str, group: str) -> list[Any]:
    """Return the values of an optimizer in a Keras file, in the order in which it lists them."""
    with formats.open_checkpoint(path) as reader:
        return [reader[key].read().tolist() for key in reader.facts.document()[group]["weights"]]


def test_the_state_of_an_optimizer_becomes_objects_and_comes_back(
    tensorflow: TensorFlow, tmp_path: Path
) -> None:
    source = data_path("keras_mlp", "mlp.with_optimizer.h5")
    assert facts("keras_mlp")["optimizer_h5"] == "mlp.with_optimizer.h5"
    values = state_of(source, "optimizer")
    weights = converted(source, tmp_path / "mlp")
    back = converted(weights, tmp_path / "mlp.h5", source)
    assert state_of(back, "optimizer") == values
    if tensorflow.is_old:
        found = tensorflow.ask("keras", "optimizer_state", model="mlp", weights=weights)
        assert found["values"] == values
        assert found["rate"] == pytest.approx(0.01)


def test_the_state_of_adam_goes_from_keras_2_to_keras_3_and_back(
    tensorflow: TensorFlow, tmp_path: Path
) -> None:
    source = data_path("keras_mlp", "mlp.with_optimizer.h5")
    values = state_of(source, "optimizer")
    weights = converted(source, tmp_path / "mlp.weights.h5", generation="keras3")
    if not tensorflow.is_old:
        found = tensorflow.ask("keras", "optimizer_state", model="mlp", weights=weights)
        assert found["values"] == values
        assert found["rate"] == pytest.approx(0.01)
    back = converted(weights, tmp_path / "back.h5", source)
    assert state_of(back, "optimizer") == values


@pytest.mark.parametrize(
    ("optimizer", "options"),
    [
        ("Adam", {"amsgrad": True}),
        ("AdamW", {}),
        ("RMSprop", {"momentum": 0.5, "centered": True}),
        ("RMSprop", {"centered": True}),
        ("Adagrad", {}),
        ("SGD", {"momentum": 0.5}),
    ],
)
def test_the_state_of_other_optimizers_goes_from_keras_to_keras(
    old_tensorflow: TensorFlow,
    new_tensorflow: TensorFlow,
    optimizer: str,
    options: dict[str, Any],
    tmp_path: Path,
) -> None:
    """Each Keras loads, by the names and numbers of its own optimizer, what the other has written."""
    source = str(tmp_path / "old.h5")
    told = {"optimizer": optimizer, "options": options}
    state = old_tensorflow.ask("keras", "save_trained", path=source, **told)
    weights = converted(source, tmp_path / "new.weights.h5", generation="keras3")
    assert new_tensorflow.ask("keras", "optimizer_state", model="nest", weights=weights, **told) == state
    objects = converted(source, tmp_path / "objects")
    assert old_tensorflow.ask("keras", "optimizer_state", model="nest", weights=objects, **told) == state

    source = str(tmp_path / "new.h5")
    state = new_tensorflow.ask("keras", "save_trained", path=source, **told)
    objects = converted(source, tmp_path / "from_new", generation="keras2")
    assert old_tensorflow.ask("keras", "optimizer_state", model="nest", weights=objects, **told) == state
    again = converted(objects, tmp_path / "again.h5", source)
    with formats.open_checkpoint(source) as first, formats.open_checkpoint(again) as second:
        assert list(second.specs) == list(first.specs)


def test_the_state_of_keras_3_becomes_objects(tensorflow: TensorFlow, tmp_path: Path) -> None:
    source = data_path("keras3_mlp", "mlp.keras")
    weights = converted(source, tmp_path / "mlp", generation="keras2")
    with formats.open_checkpoint(source) as reader:
        values = [reader[f"optimizer/vars/{n}"].read().tolist() for n in (0, *range(2, 18))]
        rate = float(reader["optimizer/vars/1"].read())
    if tensorflow.is_old:
        found = tensorflow.ask("keras", "optimizer_state", model="mlp", weights=weights)
        assert found == {"values": values, "rate": rate}
    else:
        again = converted(source, tmp_path / "again.keras")
        found = tensorflow.ask("keras", "loaded_optimizer_state", path=again)
        assert found == {"values": values, "rate": rate}


def test_slots_of_a_legacy_optimizer(tensorflow: TensorFlow, tmp_path: Path) -> None:
    if not tensorflow.is_old:
        assert "legacy" in tensorflow.refuses("keras", "save_legacy", directory=str(tmp_path))
        return
    state = tensorflow.ask("keras", "save_legacy", directory=str(tmp_path))
    source = str(tmp_path / "nest.h5")
    assert state_of(source, "optimizer") == state["values"]
    weights = converted(source, tmp_path / "objects")
    with formats.open_checkpoint(weights) as mine, formats.open_checkpoint(str(tmp_path / "nest")) as theirs:
        assert list(mine.specs) == list(theirs.specs)
        assert mine.full_names == theirs.full_names
    found = tensorflow.ask("keras", "optimizer_state", model="nest", weights=weights, legacy=True)
    assert found == state
    back = converted(str(tmp_path / "nest"), tmp_path / "back.h5", source)
    assert state_of(back, "optimizer") == state["values"]
