"""Optimizers' state by what it means: slots, counts and rates from one generation to the next."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest

import formats
from formats.core.dtypes import BY_NAME
from formats.keras.facts import keras_facts
from formats.keras.optimizers import OPTIMIZERS, candidates, named
from formats.tf.graph.states import states_of
from tests.support import data_path

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"
KERAS_2 = data_path("optimizers", "new", "adam", "model.h5")


def trained(name: str) -> str:
    return data_path("optimizers", *name.split("/"), "ckpt-3")


def fresh(name: str) -> str:
    return data_path("optimizers", *name.split("/"), "fresh-1")


def slots(path: str) -> dict[tuple[str, str], Any]:
    """Return the values of all slots by (the shape of its variable and its place there, meaning)."""
    found = {}
    with formats.open_checkpoint(path) as reader:
        (state,) = states_of(reader) or ()
        meanings = state.known[0].meanings(state.generation)
        for (variable, name), key in state.slots.items():
            found[reader[variable].read().tobytes(), meanings[name]] = reader[key].read()
    return found


def tobytes(values: Any) -> bytes:
    return bytes(values.tobytes())


def number(path: str, name: str) -> float:
    with formats.open_checkpoint(path) as reader:
        (state,) = states_of(reader) or ()
        return float(reader[state.numbers[name][0]].read())


@pytest.mark.parametrize("target", ["legacy", "new", "k3"])
@pytest.mark.parametrize("source", ["tf1", "legacy", "new", "k3"])
def test_slots_of_adam_follow_their_variables(
    source: str, target: str, ckpt: Callable, tmp_path: Path
) -> None:
    """A slot is identified by its variable's values, which are unique."""
    path = tmp_path / "ckpt-3"
    result = ckpt("convert", trained(f"{source}/adam"), path, "--like", fresh(f"{target}/adam"))
    assert result.code == 0, result.err
    before, after = slots(trained(f"{source}/adam")), slots(str(path))
    assert len(after) == 12
    assert {slot: value.tobytes() for slot, value in after.items()} == {
        slot: value.tobytes() for slot, value in before.items()
    }
    assert number(str(path), "iterations") == 3


@pytest.mark.parametrize(("source", "target"), [("new", "k3"), ("k3", "new")])
def test_averages_of_variables_are_slots(source: str, target: str, ckpt: Callable, tmp_path: Path) -> None:
    """The averages of `use_ema`, in addition to Adam's own slots."""
    path = tmp_path / "ckpt-3"
    result = ckpt("convert", trained(f"{source}/averaged"), path, "--like", fresh(f"{target}/averaged"))
    assert result.code == 0, result.err
    before, after = slots(trained(f"{source}/averaged")), slots(str(path))
    assert sorted(meaning for _, meaning in after) == sorted(["average", "m", "v"] * 6)
    assert {slot: value.tobytes() for slot, value in after.items()} == {
        slot: value.tobytes() for slot, value in before.items()
    }


@pytest.mark.parametrize(
    ("source", "template"),
    [("new/averaged", "k3/adam"), ("tf1/adam", "k3/averaged"), ("k3/adam", "new/averaged")],
)
def test_averages_that_one_side_alone_keeps_are_rejected_by_name(
    source: str, template: str, ckpt: Callable, tmp_path: Path
) -> None:
    result = ckpt("convert", trained(source), tmp_path / "ckpt-3", "--like", fresh(template))
    assert (result.code, result.out) == (3, "")
    assert "keeps '_model_variables_moving_average'" in result.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("target", ["legacy", "new", "k3"])
def test_momentum_is_turned_by_the_rate(target: str, ckpt: Callable, tmp_path: Path) -> None:
    path, back = tmp_path / "ckpt-3", tmp_path / "back-3"
    result = ckpt("convert", trained("tf1/momentum"), path, "--like", fresh(f"{target}/momentum"))
    assert "converted with the learning rate of TEMPLATE, 0.01" in result.err
    sums = slots(trained("tf1/momentum"))
    turned = {slot: value * np.float32(-0.01) for slot, value in sums.items()}
    assert {slot: value.tobytes() for slot, value in slots(str(path)).items()} == {
        slot: value.tobytes() for slot, value in turned.items()
    }
    assert ckpt("convert", path, back, "--like", fresh("tf1/momentum")).code == 0
    for slot, value in slots(str(back)).items():
        np.testing.assert_allclose(value, sums[slot], rtol=1e-6)


@pytest.mark.parametrize("source", ["legacy", "new", "k3"])
def test_gradient_descent_of_tensorflow_1_continues_at_the_step(
    source: str, ckpt: Callable, tmp_path: Path
) -> None:
    """It leaves nothing in a checkpoint, and its program counts by the global step."""
    target, like = tmp_path / "ckpt-3", ["--like", fresh("tf1/sgd")]
    assert ckpt("convert", trained(f"{source}/sgd"), target, *like).code == 0
    with formats.open_checkpoint(str(target)) as reader:
        assert int(reader["global_step"].read()) == 3
    again = ckpt("convert", trained(f"{source}/sgd"), tmp_path / "ckpt-9", *like, "--iterations", "9")
    assert again.code == 0
    with formats.open_checkpoint(str(tmp_path / "ckpt-9")) as reader:
        assert int(reader["global_step"].read()) == 9


def test_what_may_be_one_or_the_other_is_reported(ckpt: Callable, tmp_path: Path) -> None:
    """Lists of SGD and of Lion are called alike where Keras 2.11 built them before the first step."""
    result = ckpt("convert", trained("new/momentum"), tmp_path / "ckpt-3", "--like", fresh("k3/momentum"))
    assert result.code == 0
    assert "SRC does not name the class of SGD or Lion (Keras 2.11 to 2.15); ckpt uses SGD" in result.err


def test_a_rate_that_is_given_is_the_rate(ckpt: Callable, tmp_path: Path) -> None:
    path = tmp_path / "ckpt-3"
    like = ["--like", fresh("legacy/momentum"), "--learning-rate", "0.5"]
    assert ckpt("convert", trained("tf1/momentum"), path, *like).code == 0
    assert number(str(path), "learning_rate") == 0.5
    for slot, value in slots(trained("tf1/momentum")).items():
        assert (slots(str(path))[slot] == value * np.float32(-0.5)).all()


def test_momentum_without_a_rate_is_rejected_by_the_option(ckpt: Callable, tmp_path: Path) -> None:
    """A program with a schedule saves no rate."""
    template = tmp_path / "fresh-1"
    done = ckpt("rename", fresh("legacy/momentum"), template, "--sub", "^optimizer/learning_rate=>rate")
    assert done.code == 0, done.err
    done = ckpt("convert", trained("tf1/momentum"), tmp_path / "ckpt-3", "--like", template)
    assert (done.code, done.out) == (3, "")
    assert "--learning-rate R" in done.err
    assert "1 tensor of TEMPLATE gets no value: 'rate'" in done.err


def changed(ckpt: Callable, source: str, path: Path, **values: Any) -> str:
    """Write a name-based checkpoint again with other values of some keys, and return its path."""
    with formats.open_checkpoint(source) as reader:
        arrays = {key: reader[key].read() for key in reader.specs}
        specs = dict(reader.specs)
    arrays.update({key: np.array(value, arrays[key].dtype) for key, value in values.items()})
    with formats.create_checkpoint(str(path), format="tf-name", specs=list(specs.values())) as writer:
        for key, array in arrays.items():
            writer.write(key, array)
    return str(path)


def powers(steps: int) -> dict[str, Any]:
    """Return what TensorFlow 1 has after so many steps: powers multiplied in float32, denormals and all."""
    one, two = np.float32(0.9), np.float32(0.999)
    for _ in range(steps):
        one, two = one * np.float32(0.9), two * np.float32(0.999)
    return {"beta1_power": one, "beta2_power": two}


@pytest.mark.parametrize(
    ("steps", "told_by"),
    [(3, "beta1_power"), (700, "beta1_power"), (2_000, "beta2_power"), (120_000, "global_step")],
)
def test_steps_are_identified_by_what_still_can(
    steps: int, told_by: str, ckpt: Callable, tmp_path: Path
) -> None:
    source = changed(ckpt, trained("tf1/adam"), tmp_path / "c-1", global_step=steps, **powers(steps))
    target = tmp_path / "ckpt-1"
    result = ckpt("convert", source, target, "--like", fresh("k3/adam"))
    assert result.code == 0, result.err
    assert number(str(target), "iterations") == pytest.approx(steps, abs=steps / 10_000)
    assert re.search(rf"the step count is set to \d+, computed from {told_by}", result.err), result.err


def test_contradictions_name_both_and_the_option(ckpt: Callable, tmp_path: Path) -> None:
    source = changed(ckpt, trained("tf1/adam"), tmp_path / "c-1", global_step=5)
    like = ["--like", fresh("legacy/adam")]
    result = ckpt("convert", source, tmp_path / "ckpt-1", *like)
    assert (result.code, result.out) == (3, "")
    for word in ("beta1_power", "says 3 steps", "global_step says 5", "--iterations N"):
        assert word in result.err
    assert ckpt("convert", source, tmp_path / "ckpt-1", *like, "--iterations", "5").code == 0
    assert number(str(tmp_path / "ckpt-1"), "iterations") == 5


def test_a_count_below_zero_shows_nothing(ckpt: Callable, tmp_path: Path) -> None:
    """Training continued from step -4, for which there is no bias correction."""
    told = {"global_step": -4, "beta1_power": 0, "beta2_power": 0}
    source = changed(ckpt, trained("tf1/adam"), tmp_path / "c-1", **told)
    result = ckpt("convert", source, tmp_path / "ckpt-1", "--like", fresh("k3/adam"))
    assert (result.code, result.out) == (3, "")
    assert "SRC does not store the step count of" in result.err


def test_powers_of_another_base_are_rejected(ckpt: Callable, tmp_path: Path) -> None:
    source = changed(ckpt, trained("tf1/adam"), tmp_path / "c-1", beta1_power=0.85**4)
    result = ckpt("convert", source, tmp_path / "ckpt-1", "--like", fresh("legacy/adam"))
    assert result.code == 3
    assert "not a power of beta_1" in result.err


@pytest.mark.parametrize(
    ("source", "template", "words"),
    [
        ("tf1/momentum", "legacy/adam", ("Momentum (TensorFlow 1)", "Adam (legacy Keras)")),
        ("new/adam", "new/rmsprop", ("Adam", "RMSprop (Keras 2.11 to 2.15)")),
        ("new/rmsprop", "new/adam", ("RMSprop", "Adam")),
        ("k3/adam", "new/momentum", ("Adam (Keras 3)", "SGD")),
        ("legacy/nadam", "k3/nadam", ("decays the momentum",)),
    ],
)
def test_another_optimizer_is_rejected(
    source: str, template: str, words: tuple[str, ...], ckpt: Callable, tmp_path: Path
) -> None:
    result = ckpt("convert", trained(source), tmp_path / "ckpt-3", "--like", fresh(template))
    assert (result.code, result.out) == (3, "")
    for word in words:
        assert word in result.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("source", ["tf1/adam", "legacy/adam", "new/adam", "k3/adam", "legacy/momentum"])
def test_slots_without_a_place_in_template_are_rejected(source: str, ckpt: Callable, tmp_path: Path) -> None:
    """A program without an optimizer has no use for one's state: that is for its user to say."""
    template, target = tmp_path / "weights-1", tmp_path / "ckpt-3"
    assert ckpt("convert", fresh(source), template, "--weights-only").code == 0
    result = ckpt("convert", trained(source), target, "--like", template)
    assert (result.code, result.out) == (3, "")
    assert re.search(r"\d+ slots of .* have no counterpart in TEMPLATE", result.err)
    assert "--keep-optimizer" in result.err
    assert "--exclude" in result.err
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("ckpt-3")]
    for option in ("--keep-optimizer", "--weights-only"):
        done = ckpt("convert", trained(source), target, "--like", template, option, "--overwrite")
        assert done.code == 0, done.err
    assert ckpt("diff", "--kind", "variable", trained(source), target, "--exclude", "global_step").code == 0


def test_slots_by_number_are_not_another_classs(ckpt: Callable, tmp_path: Path) -> None:
    """Adam's velocity and Adamax's norm have one number in a file of Keras 3."""
    mine, theirs = (data_path("optimizers", "k3", name, "model.weights.h5") for name in ("adam", "adamax"))
    target = tmp_path / "model.weights.h5"
    result = ckpt("convert", mine, target, "--like", theirs)
    assert (result.code, result.out) == (3, "")
    assert "SRC's optimizer is Adam (Keras 3), but TEMPLATE's is Adamax (Keras 3)" in result.err
    assert list(tmp_path.iterdir()) == []
    result = ckpt("convert", mine, target, "--like", theirs, "--partial")
    assert (result.code, "TEMPLATE's own state is kept" in result.err) == (0, True)
    with formats.open_checkpoint(str(target)) as reader, formats.open_checkpoint(theirs) as template:
        slots = [key for key, kind in reader.kinds.items() if kind in ("slot", "optimizer")]
        assert len(slots) == 14
        assert all((reader[key].read() == template[key].read()).all() for key in slots)
    assert ckpt("convert", mine, target, "--like", mine, "--overwrite").code == 0


def test_slots_without_a_place_in_a_file_are_rejected(ckpt: Callable, tmp_path: Path) -> None:
    """Nadam of another generation decays its momentum otherwise, so its slots go into no file of Keras 3."""
    config = ["--config", data_path("optimizers", "k3", "nadam", "model.keras")]
    target = tmp_path / "model.keras"
    result = ckpt("convert", trained("legacy/nadam"), target, *config)
    assert (result.code, result.out) == (3, "")
    assert "keras cannot store 12 slots of Nadam (legacy Keras)" in result.err
    assert "--weights-only" in result.err
    assert list(tmp_path.iterdir()) == []
    assert ckpt("convert", trained("legacy/nadam"), target, *config, "--weights-only").code == 0


FILES = ["legacy/adam/model.h5", "new/adam/model.h5", "k3/nadam/model.keras"]


@pytest.mark.parametrize(
    ("file", "target"),
    [
        (file, target)
        for file in FILES
        for target in ("legacy", "new", "k3")
        if "nadam" not in file or target == "k3"
    ],
)
def test_files_of_keras_continue_as_checkpoints(
    file: str, target: str, ckpt: Callable, tmp_path: Path
) -> None:
    """A file's configuration identifies its slots, which have numbers for names in .keras."""
    family, optimizer, _ = file.split("/")
    path = tmp_path / "ckpt-3"
    source, template = data_path("optimizers", *file.split("/")), fresh(f"{target}/{optimizer}")
    result = ckpt("convert", source, path, "--like", template)
    assert result.code == 0, result.err
    expected, found = slots(trained(f"{family}/{optimizer}")), slots(str(path))
    assert found.keys() == expected.keys()
    assert all((found[at] == expected[at]).all() for at in expected)
    assert number(str(path), "iterations") == 3
    assert number(str(path), "learning_rate") == pytest.approx(0.01)


@pytest.mark.parametrize("source", ["tf1", "legacy", "new", "k3"])
@pytest.mark.parametrize("family", ["legacy", "new"])
def test_checkpoints_continue_as_files_of_keras(
    source: str, family: str, ckpt: Callable, tmp_path: Path
) -> None:
    """Those of TensorFlow 1, too, which no configuration lays out: TEMPLATE does."""
    template, path, back = (tmp_path / name for name in ("fresh.h5", "model.h5", "ckpt-3"))
    config = data_path("optimizers", family, "adam", "model.h5")
    assert ckpt("convert", fresh(f"{family}/adam"), template, "--config", config).code == 0
    result = ckpt("convert", trained(f"{source}/adam"), path, "--like", template)
    assert result.code == 0, result.err
    assert ckpt("convert", path, back, "--like", fresh("k3/adam")).code == 0
    expected, found = slots(trained(f"{source}/adam")), slots(str(back))
    assert found.keys() == expected.keys()
    assert all((found[at] == expected[at]).all() for at in expected)
    assert number(str(back), "iterations") == 3


@pytest.mark.parametrize(
    ("source", "changed", "why"),
    [
        ("model", {"class_name": "Adamax"}, "the configuration's optimizer is Adamax"),
        ("ckpt-3", {"class_name": "Adamax"}, "the configuration's optimizer is Adamax"),
        ("model", {"config": {"amsgrad": True}}, "the configuration's Adam keeps vhat, but SRC does not"),
        (
            "ckpt-3",
            {"config": {"use_ema": True}},
            "the configuration's Adam keeps average, but SRC does not",
        ),
        (
            "model",
            {"class_name": "LossScaleOptimizerV3"},
            "the configuration's optimizer is inside a LossScaleOptimizer, but SRC's is not",
        ),
    ],
)
def test_the_optimizer_of_the_configuration_decides_which_slots_a_file_may_have(
    source: str, changed: dict[str, Any], why: str, ckpt: Callable, tmp_path: Path
) -> None:
    """Keras reads a list by what it compiles: of Adamax it took Adam's velocity for the norm, with exit 0."""
    config, target = tmp_path / "program.h5", tmp_path / "model.h5"
    shutil.copy(KERAS_2, config)
    with h5py.File(config, "r+") as file:
        told = json.loads(file.attrs["training_config"])
        optimizer = told["optimizer_config"]
        optimizer["config"].update(changed.get("config", {}))
        optimizer["class_name"] = changed.get("class_name", optimizer["class_name"])
        file.attrs["training_config"] = json.dumps(told)
    path = KERAS_2 if source == "model" else trained("k3/adam")
    result = ckpt("convert", path, target, "--config", config)
    assert (result.code, result.out) == (3, "")
    assert why in result.err
    assert not target.exists()
    assert ckpt("convert", path, target, "--config", config, "--weights-only").code == 0


def test_partial_keeps_the_state_of_another_optimizer_as_it_is(ckpt: Callable, tmp_path: Path) -> None:
    """Momentum of Keras 2.11 is `m/<variable>`, as the first moment of its Adam is."""
    path = tmp_path / "ckpt-3"
    result = ckpt("convert", trained("new/momentum"), path, "--like", fresh("new/adam"), "--partial")
    assert result.code == 0
    assert "TEMPLATE's own state is kept" in result.err
    with formats.open_checkpoint(str(path)) as reader, formats.open_checkpoint(fresh("new/adam")) as template:
        for key in (key for key, kind in reader.kinds.items() if kind in ("slot", "optimizer")):
            assert (reader[key].read() == template[key].read()).all()


def by_kind(path: str | Path, *kinds: str) -> dict[str, Any]:
    with formats.open_checkpoint(str(path)) as reader:
        return {key: reader[key].read() for key in reader.specs if reader.kinds[key] in kinds}


@pytest.mark.parametrize(
    ("source", "template"),
    [
        (trained("new/momentum"), fresh("new/adam")),
        (trained("legacy/adam"), fresh("legacy/momentum")),
        (trained("tf1/momentum"), fresh("legacy/adam")),
        (
            data_path("optimizers", "k3", "adam", "model.weights.h5"),
            data_path("optimizers", "k3", "adamax", "model.weights.h5"),
        ),
    ],
)
def test_an_optimizer_that_cannot_continue_is_kept_by_the_option_of_the_hint(
    source: str, template: str, ckpt: Callable, tmp_path: Path
) -> None:
    target = tmp_path / ("m.weights.h5" if template.endswith(".h5") else "ckpt-3")
    line = ("convert", source, target, "--like", template)
    refused = ckpt(*line)
    assert refused.code == 3
    assert "hint: pass --keep-optimizer to convert the weights and keep TEMPLATE's optimizer state" in (
        refused.err.splitlines()
    )
    for option in ("--keep-optimizer", "--weights-only"):
        done = ckpt(*line, option, "--overwrite")
        assert (done.code, "warning:" in done.err) == (0, False), done.err
        assert "note: TEMPLATE keeps its own optimizer state: " in done.err
        state = by_kind(template, "slot", "optimizer")
        assert state
        for key, value in by_kind(target, "slot", "optimizer").items():
            assert tobytes(value) == tobytes(state[key])
        mine, theirs = (by_kind(path, "variable").values() for path in (source, target))
        assert sorted(map(tobytes, theirs)) == sorted(map(tobytes, mine))


def test_with_the_optimizer_kept_every_weight_must_be_there(ckpt: Callable, tmp_path: Path) -> None:
    line = ("convert", trained("new/momentum"), tmp_path / "ckpt-3", "--like", fresh("new/adam"))
    left_out = ("--keep-optimizer", "--exclude", "*/kernel*")
    refused = ckpt(*line, *left_out)
    assert refused.code == 3
    assert "of TEMPLATE get" in refused.err
    assert "hint: to keep TEMPLATE's values for these tensors, pass --partial" in refused.err
    kept = ckpt(*line, *left_out, "--partial", "-q")
    (warning,) = kept.err.splitlines()
    assert re.match(r"warning: \d weights? of TEMPLATE keeps? .*kernel'", warning)
    for option in ("--iterations", "--learning-rate"):
        assert ckpt(*line, "--keep-optimizer", option, "3").code == 2


@pytest.mark.parametrize(
    ("source", "target"), [("legacy/nadam_decay_1", "k3/nadam"), ("k3/nadam", "legacy/nadam_decay_1")]
)
def test_nadam_continues_where_its_momentum_decays_alike(
    source: str, target: str, ckpt: Callable, tmp_path: Path
) -> None:
    """With a decay of 1 the schedules are one; by TensorFlow's next two steps the difference is 6e-8."""
    path = tmp_path / "ckpt-3"
    result = ckpt("convert", trained(source), path, "--like", fresh(target))
    assert result.code == 0, result.err
    assert slots(str(path)).keys() == slots(trained(source)).keys()
    for name in ("iterations", "momentum_product"):
        assert number(str(path), name) == number(trained(source), name)
    assert ckpt("verify", path, "--trains-like", trained(source)).code == 0


def test_nadam_continues_where_its_momentum_has_decayed(ckpt: Callable, tmp_path: Path) -> None:
    """After 400,000 steps nothing is left of either schedule's power."""
    like = ["--like", fresh("k3/nadam"), "--iterations"]
    path = tmp_path / "ckpt-3"
    assert ckpt("convert", trained("legacy/nadam"), path, *like, "20000").code == 3
    assert ckpt("convert", trained("legacy/nadam"), path, *like, "400000").code == 0


def test_names_of_slots_are_distinguished_from_another_in_each_generation() -> None:
    for row in OPTIMIZERS:
        for generation in ("tf1", *row.generations):
            names = [slot.name(generation) for slot in row.slots if slot.name(generation)]
            assert len(set(names)) == len(names)
        assert {slot.meaning for slot in row.slots} == {name for group in row.order for name in group}


def test_optimizers_are_known_by_any_of_their_names() -> None:
    for called, name in (
        ("rm_sprop_1", "RMSprop"),
        ("adam_w", "AdamW"),
        ("Momentum", "SGD"),
        ("RMSProp", "RMSprop"),
    ):
        row = named(called)
        assert row is not None
        assert row.name == name
    assert named("lamb") is None
    assert named("") is None
    assert [row.name for row in candidates("keras3", {"_momentums", "_velocities", "_velocity_hats"})] == [
        "Adam",
        "AdamW",
    ]


def test_objects_made_of_names_count_steps_and_go_back_to_the_same_names(
    ckpt: Callable, tmp_path: Path
) -> None:
    source, objects, back = trained("tf1/adam"), tmp_path / "objects-3", tmp_path / "back-3"
    assert ckpt("convert", source, objects, "--to", "object").code == 0
    assert number(str(objects), "iterations") == 3
    assert ckpt("convert", objects, back, "--to", "name").code == 0
    assert ckpt("diff", source, back).code == 0
    given = tmp_path / "given-3"
    assert ckpt("convert", source, given, "--to", "object", "--iterations", "7").code == 0
    assert number(str(given), "iterations") == 7
    legacy = tmp_path / "legacy-3"
    assert ckpt("convert", objects, legacy, "--like", fresh("legacy/adam")).code == 0
    assert number(str(legacy), "iterations") == 3


def test_objects_made_of_momentum_do_not_count_steps(ckpt: Callable, tmp_path: Path) -> None:
    """Keras' SGD would take a sum of gradients for its momentum; without the count its restore says so."""
    assert ckpt("convert", trained("tf1/momentum"), tmp_path / "o-3", "--to", "object").code == 0
    with formats.open_checkpoint(str(tmp_path / "o-3")) as reader:
        (state,) = states_of(reader) or ()
        assert (state.generation, dict(state.numbers)) == ("tf1", {})


def test_objects_made_of_momentum_say_what_keras_would_take_it_for(ckpt: Callable, tmp_path: Path) -> None:
    done = ckpt("convert", trained("tf1/momentum"), tmp_path / "o-3", "--to", "object")
    assert done.code == 0
    assert "momentum is written as the sum of gradients" in done.err
    assert "--learning-rate R" in done.err


def test_objects_made_of_momentum_are_of_keras_by_a_learning_rate(ckpt: Callable, tmp_path: Path) -> None:
    """Slots, names and count are those of legacy Keras' SGD, so that no conversion turns them again."""
    source, objects = trained("tf1/momentum"), tmp_path / "o-3"
    done = ckpt("convert", source, objects, "--to", "object", "--learning-rate", "0.5")
    assert (done.code, "SGD/iter is set to 3, computed from global_step" in done.err) == (0, True), done.err
    with formats.open_checkpoint(source) as old, formats.open_checkpoint(str(objects)) as reader:
        (state,) = states_of(reader) or ()
        assert (state.generation, state.title, len(state.slots)) == ("legacy", "SGD", 6)
        for (variable, _), key in state.slots.items():
            sums = old[f"{reader.full_names[variable]}/Momentum"].read()
            np.testing.assert_array_equal(reader[key].read(), sums * np.float32(-0.5))
    assert number(str(objects), "iterations") == 3
    back, again, keras_3 = (tmp_path / name for name in ("back-3", "again-3", "k3-3"))
    assert ckpt("convert", objects, back, "--to", "name").code == 0
    assert ckpt("convert", back, again, "--to", "object").code == 0
    assert ckpt("diff", objects, again, "--kind", "slot").code == 0
    assert ckpt("convert", objects, keras_3, "--like", fresh("k3/momentum")).code == 0
    assert sorted(map(tobytes, slots(str(keras_3)).values())) == sorted(
        map(tobytes, slots(str(objects)).values())
    )


@pytest.mark.parametrize(
    ("options", "steps"), [(["--exclude", "global_step"], 3), (["--iterations", "77"], 77)], ids=str
)
def test_momentum_of_keras_has_a_count(
    options: list[str], steps: int, ckpt: Callable, tmp_path: Path
) -> None:
    """Without one it were TensorFlow 1's, and turned once more."""
    rate = ("--to", "object", "--learning-rate", "0.5")
    assert ckpt("convert", trained("tf1/momentum"), tmp_path / "o-3", *rate, *options).code == 0
    assert number(str(tmp_path / "o-3"), "iterations") == steps


@pytest.mark.parametrize(("source", "target"), [("legacy", "new"), ("legacy", "keras3"), ("new", "keras3")])
def test_match_proposes_what_convert_does(source: str, target: str, ckpt: Callable, tmp_path: Path) -> None:
    """The same optimizer of another generation continues completely."""
    mine, theirs = (data_path(f"guide_adam_{name}", "tf_ckpts", "ckpt-10") for name in (source, target))
    line = ckpt("match", mine, theirs, "--json").json["fix"]
    assert "--partial" not in line
    _, command, path, _, *options = shlex.split(line)
    assert ckpt(command, path, tmp_path / "fixed-10", *options).code == 0
    assert number(str(tmp_path / "fixed-10"), "iterations") == number(mine, "iterations")
    assert ckpt("match", tmp_path / "fixed-10", theirs, "--allow-unused").code == 0


def layered(name: str) -> str:
    return data_path("layer_names", *f"{name}-1".split("/"))


@pytest.mark.parametrize(
    ("source", "target", "said"),
    [
        ("keras2/unlike", "keras3/unlike", "'a' is 'x', 'b' is 'y'"),
        ("keras3/unlike", "keras2/unlike", "'x' is 'a', 'y' is 'b'"),
        ("keras2/counted", "keras3/counted", "'dense' is 'dense_2', 'dense_1' is 'dense_3'"),
        ("keras2/ab", "keras3/ab", ""),
    ],
)
def test_layers_that_are_paired_by_order_are_reported(
    source: str, target: str, said: str, ckpt: Callable, tmp_path: Path
) -> None:
    result = ckpt("convert", layered(source), tmp_path / "ckpt-1", "--like", layered(target))
    assert result.code == 0
    assert ("layers are paired by their order" in result.err) == bool(said)
    assert said in result.err
    assert slots(str(tmp_path / "ckpt-1")).keys() == slots(layered(source)).keys()


@pytest.mark.parametrize(("source", "target"), [("keras2", "keras3"), ("keras3", "keras2")])
def test_scalars_of_layers_are_paired_by_their_names(
    source: str, target: str, ckpt: Callable, tmp_path: Path
) -> None:
    """Normalization counts its examples, and keeps one mean over all axes: all of these were rejected."""
    mine, path = layered(f"{source}/scalars"), tmp_path / "ckpt-1"
    result = ckpt("convert", mine, path, "--like", layered(f"{target}/scalars"))
    assert result.code == 0, result.err

    def values(of: str) -> dict[str, bytes]:
        with formats.open_checkpoint(of) as reader:
            names = {key: reader.full_names.get(key, "").removeprefix("m/") for key in reader.specs}
            return {
                name: reader[key].read().tobytes() for key, name in names.items() if name.startswith("norm")
            }

    assert values(str(path)) == values(mine)
    assert len(values(mine)) == 6


@pytest.mark.parametrize("target", ["keras3/xy", "keras3/bc"])
def test_layers_that_could_be_swapped_are_rejected(target: str, ckpt: Callable, tmp_path: Path) -> None:
    path = tmp_path / "ckpt-1"
    result = ckpt("convert", layered("keras2/ab"), path, "--like", layered(target))
    assert (result.code, result.out) == (3, "")
    names = "'x' and 'y'" if target == "keras3/xy" else "'b' and 'c'"
    assert f"layers 'a' and 'b' of SRC have the shapes of {names} of TEMPLATE" in result.err
    assert "--map FILE" in result.err
    crossed = tmp_path / "crossed.tsv"
    crossed.write_text(
        "".join(
            f"model/layer_with_weights-{mine}/{weight}\toptimizer/_trainable_variables/{at}\n"
            for mine, weight, at in ((0, "kernel", 2), (0, "bias", 3), (1, "kernel", 0), (1, "bias", 1))
        )
    )
    done = ckpt("convert", layered("keras2/ab"), path, "--like", layered(target), "--map", crossed)
    assert done.code == 0, done.err
    assert slots(str(path)).keys() == slots(layered("keras2/ab")).keys()


# Names of TensorFlow 1 ------------------------------------------------------------------


@pytest.mark.parametrize("name", ["adam", "momentum"])
def test_keras_gets_the_very_names_of_tensorflow_1(name: str, ckpt: Callable, tmp_path: Path) -> None:
    """TensorFlow 1's tensors are unchanged after a conversion to Keras 3 and back; a saver ignores the
    rest.
    """
    objects, names = tmp_path / "objects-3", tmp_path / "names-3"
    assert ckpt("convert", trained(f"tf1/{name}"), objects, "--like", fresh(f"k3/{name}")).code == 0
    result = ckpt("convert", objects, names, "--to", "name")
    assert result.code == 0, result.err
    assert "(Keras 3) is written under the names of" in result.err
    with (
        formats.open_checkpoint(trained(f"tf1/{name}")) as first,
        formats.open_checkpoint(str(names)) as back,
    ):
        assert set(back.specs) - set(first.specs) == {
            f"{'adam' if name == 'adam' else 'sgd'}/{number}" for number in ("iteration", "learning_rate")
        }
        for key in first.specs:
            assert first.specs[key][:3] == back.specs[key][:3]
            np.testing.assert_allclose(back[key].read(), first[key].read(), rtol=1e-6)
    assert ckpt("convert", names, tmp_path / "again-3", "--like", fresh(f"k3/{name}")).code == 0


def test_names_of_rmsprop_are_those_of_tensorflow_1(ckpt: Callable, tmp_path: Path) -> None:
    """It has a momentum, though it were 0, and without need of one the slot is made."""
    source, objects = trained("tf1/rmsprop"), tmp_path / "objects-3"
    assert ckpt("convert", source, objects, "--like", fresh("new/rmsprop")).code == 0
    assert ckpt("convert", objects, tmp_path / "names-3", "--to", "name").code == 0
    with (
        formats.open_checkpoint(source) as first,
        formats.open_checkpoint(str(tmp_path / "names-3")) as back,
    ):
        for key in (key for key, kind in first.kinds.items() if kind == "slot"):
            assert (back[key.removeprefix("net/")].read() == first[key].read()).all()


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("k3/nadam", "TensorFlow 1 has no counterpart for Nadam (Keras 3) and its 12 slots"),
        ("new/momentum", "SRC does not name the class of its optimizer: SGD or Lion (Keras 2.11 to 2.15)"),
    ],
)
def test_what_tensorflow_1_has_not_gets_no_names(
    source: str, said: str, ckpt: Callable, tmp_path: Path
) -> None:
    result = ckpt("convert", trained(source), tmp_path / "names-3", "--to", "name")
    assert (result.code, result.out) == (3, "")
    assert said in result.err
    assert "--weights-only" in result.err
    assert list(tmp_path.iterdir()) == []
    assert ckpt("convert", trained(source), tmp_path / "names-3", "--to", "name", "--weights-only").code == 0


def test_legacy_names_are_those_of_a_graph(ckpt: Callable, tmp_path: Path) -> None:
    """A legacy optimizer has names of its own in TensorFlow 1, which are its full names."""
    assert ckpt("convert", trained("legacy/adam"), tmp_path / "names-3", "--to", "name").code == 0
    with formats.open_checkpoint(str(tmp_path / "names-3")) as reader:
        assert {"Adam/d0/kernel/m", "Adam/d0/kernel/v", "Adam/iter"} <= set(reader.specs)


def test_names_of_momentum_take_the_rate_that_is_given(ckpt: Callable, tmp_path: Path) -> None:
    target = tmp_path / "names-3"
    done = ckpt("convert", trained("k3/momentum"), target, "--to", "name", "--learning-rate", "0.5")
    assert done.code == 0, done.err
    with formats.open_checkpoint(str(target)) as back:
        for (variable, _), value in slots(trained("k3/momentum")).items():
            found = next(
                back[f"{key}/Momentum"].read()
                for key in back.specs
                if f"{key}/Momentum" in back.specs and back[key].read().tobytes() == variable
            )
            np.testing.assert_allclose(found, value / np.float32(-0.5), rtol=1e-6)


# What no file says ----------------------------------------------------------------------


def test_a_rate_that_no_file_has_is_given(ckpt: Callable, tmp_path: Path) -> None:
    """Keras 3 lists the rate with the state; Keras 2 has it in a training configuration, or nowhere."""
    source, target = data_path("optimizers", "new", "adam", "model.h5"), tmp_path / "model.weights.h5"
    result = ckpt("convert", source, target, "--learning-rate", "0.25", "--iterations", "77")
    assert result.code == 3
    assert (
        "hint: to write for Keras 3, pass --generation keras3; Keras 3 stores this value there" in result.err
    )
    told = ("--learning-rate", "0.25", "--iterations", "77", "--generation", "keras3")
    result = ckpt("convert", source, target, *told)
    assert result.code == 0, result.err
    with formats.open_checkpoint(str(target)) as reader:
        assert float(reader["optimizer/vars/1"].read()) == 0.25
        assert int(reader["optimizer/vars/0"].read()) == 77
        assert reader.specs["optimizer/vars/0"].dtype.name == "int64"


@pytest.mark.parametrize(
    ("source", "target", "option", "why"),
    [
        ("k3/adam", "a.npz", ["--learning-rate", "0.5"], "copies all tensors unchanged"),
        ("k3/adam", "a.npz", ["--iterations", "5"], "copies all tensors unchanged"),
        (
            "k3/adam",
            "a.h5",
            ["--config", KERAS_2, "--learning-rate", "0.5"],
            "stores no such value for this model",
        ),
        ("k3/adam", "a-1", ["--to", "object", "--iterations", "5"], "copies all tensors unchanged"),
        ("tf1/adam", "a-1", ["--to", "object", "--learning-rate", "0.5"], "no momentum of TensorFlow 1"),
        ("tf1/momentum", "a-1", ["--to", "object", "--iterations", "5"], "no optimizer among these names"),
    ],
)
def test_what_would_change_nothing_is_rejected(
    source: str, target: str, option: list[str], why: str, ckpt: Callable, tmp_path: Path
) -> None:
    result = ckpt("convert", trained(source), tmp_path / target, *option)
    assert (result.code, result.out) == (3, "")
    assert "has no effect" in result.err
    assert why in result.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("source", "target"), [("legacy", "new"), ("new", "legacy")])
def test_files_list_slots_as_the_generation_of_the_configuration_does(
    source: str, target: str, ckpt: Callable, tmp_path: Path
) -> None:
    """Both are .h5 of Keras 2: the legacy ones list all m, then all v, the newer m and v of each variable."""
    held, config = (data_path("optimizers", name, "adam", "model.h5") for name in (source, target))
    path = tmp_path / "x.h5"
    assert ckpt("convert", held, path, "--config", config).code == 0
    with formats.open_checkpoint(str(path)) as reader, formats.open_checkpoint(config) as like:
        told = [keras_facts(one.facts).optimizer for one in (reader, like)]
        names = [[name.removeprefix("Adam/") for _, name in group.names] for group in told if group]
    assert names[0] == names[1]


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--iterations", "9223372036854775808", "expected a number up to 9223372036854775807"),
        ("--learning-rate", "nan", "expected a number up to 1e+38, found nan"),
        ("--learning-rate", "inf", "expected a number up to 1e+38, found inf"),
        ("--learning-rate", "1e39", "expected a number up to 1e+38, found 1e+39"),
    ],
)
def test_numbers_that_no_checkpoint_holds_are_rejected(
    option: str, value: str, said: str, ckpt: Callable, tmp_path: Path
) -> None:
    """Momentum became NaN with exit 0, and a count too large a traceback."""
    like = ("--like", fresh("legacy/momentum"))
    result = ckpt("convert", trained("tf1/momentum"), tmp_path / "a-1", *like, option, value)
    assert (result.code, result.out, said in result.err) == (2, "", True), result.err
    assert list(tmp_path.iterdir()) == []


def test_a_count_that_the_template_cannot_hold_is_rejected(ckpt: Callable, tmp_path: Path) -> None:
    narrow = tmp_path / "narrow-1"
    with formats.open_checkpoint(fresh("tf1/adam")) as reader:
        specs = {
            key: spec._replace(dtype=BY_NAME["int32"], stored=None) if key == "global_step" else spec
            for key, spec in reader.specs.items()
        }
        with formats.create_checkpoint(str(narrow), format="tf-name", specs=specs) as writer:
            for key, spec in specs.items():
                writer.write(key, reader[key].read().astype(spec.dtype.numpy))
    done = ckpt("convert", trained("k3/adam"), tmp_path / "a-3", "--like", narrow, "--iterations", 1 << 31)
    assert (done.code, "the step count 2147483648 does not fit into int32" in done.err) == (3, True), done.err


# Several optimizers, and wrapped ones ---------------------------------------------------


def of_several(name: str) -> str:
    return data_path("several_optimizers", *f"{name}-1".split("/"))


def every_slot(path: str) -> dict[tuple[bytes, str, str], bytes]:
    """Return the slots of all optimizers by (their variable's bytes, optimizer, meaning)."""
    found = {}
    with formats.open_checkpoint(path) as reader:
        for state in states_of(reader) or ():
            meanings = state.known[0].meanings(state.generation)
            for (variable, name), key in state.slots.items():
                of = reader[variable].read().tobytes(), state.known[0].name, meanings[name]
                found[of] = reader[key].read().tobytes()
    return found


def every_count(path: str) -> list[int]:
    with formats.open_checkpoint(path) as reader:
        counts = [key for state in states_of(reader) or () for key in state.numbers["iterations"][:1]]
        return sorted(int(reader[key].read()) for key in counts)


@pytest.mark.parametrize(
    ("program", "slots", "counts"), [("scaled", 8, [3]), ("three", 7, [3, 6, 9]), ("gan", 12, [3, 3])]
)
@pytest.mark.parametrize("target", ["legacy", "new", "k3"])
@pytest.mark.parametrize("source", ["legacy", "new", "k3"])
def test_each_optimizer_continues_with_its_own_state(
    source: str, target: str, program: str, slots: int, counts: list[int], ckpt: Callable, tmp_path: Path
) -> None:
    """Kernels and biases of all layers have one shape: only the optimizer identifies a slot."""
    mine, path = of_several(f"{source}/{program}_trained"), tmp_path / "ckpt-3"
    result = ckpt("convert", mine, path, "--like", of_several(f"{target}/{program}_fresh"))
    assert result.code == 0, result.err
    assert len(every_slot(mine)) == slots
    assert every_slot(str(path)) == every_slot(mine)
    assert every_count(str(path)) == every_count(mine) == counts


@pytest.mark.parametrize("program", ["scaled", "three", "gan"])
@pytest.mark.parametrize("generation", ["legacy", "new", "k3"])
def test_within_a_generation_every_number_stays_what_it_is(
    generation: str, program: str, ckpt: Callable, tmp_path: Path
) -> None:
    """A LossScaleOptimizer of Keras 3 got the count and the learning rate of the optimizer within it."""
    mine, path = of_several(f"{generation}/{program}_trained"), tmp_path / "ckpt-3"
    result = ckpt("convert", mine, path, "--like", of_several(f"{generation}/{program}_fresh"))
    assert (result.code, "left out optimizer" in result.err) == (0, False), result.err
    changed = {row[1] for row in ckpt("diff", mine, path).rows}
    assert changed <= {"_CHECKPOINTABLE_OBJECT_GRAPH", "save_counter/.ATTRIBUTES/VARIABLE_VALUE"}


def test_several_optimizers_come_back_from_names(ckpt: Callable, tmp_path: Path) -> None:
    """Their counts have one full name, so names are object paths, and only these say whose a count is."""
    mine, names, path = of_several("new/gan_trained"), tmp_path / "names-3", tmp_path / "ckpt-3"
    assert ckpt("convert", mine, names, "--to", "name").code == 0
    result = ckpt("convert", names, path, "--like", of_several("new/gan_fresh"))
    assert (result.code, "iterations 0" in result.err) == (0, False), result.err
    assert ckpt("diff", mine, path).rows == []


def test_powers_of_several_optimizers_that_differ_are_rejected(ckpt: Callable, tmp_path: Path) -> None:
    """One Adam has taken 3 steps, the other 9: their names do not say whose a power of beta is."""
    names, path = tmp_path / "names-3", tmp_path / "ckpt-3"
    assert ckpt("convert", of_several("k3/three_trained"), names, "--to", "name").code == 0
    command = ("convert", names, path, "--like", of_several("k3/three_fresh"))
    result = ckpt(*command)
    assert (result.code, result.out) == (3, "")
    assert "says 3 steps, but beta1_power_1 (with beta_1 0.9) says 9" in result.err
    assert ckpt(*command, "--iterations", "3").code == 0
    assert every_count(str(path)) == [3, 3, 3]


@pytest.mark.parametrize(("source", "target"), [("legacy", "new"), ("new", "legacy")])
def test_slots_of_models_with_the_same_names_are_rejected(
    source: str, target: str, ckpt: Callable, tmp_path: Path
) -> None:
    """Keras 2.11 identifies slots by full names alone, which a generator and a discriminator share."""
    mine = of_several(f"{source}/twins_trained")
    result = ckpt("convert", mine, tmp_path / "ckpt-3", "--like", of_several(f"{target}/twins_fresh"))
    assert (result.code, result.out) == (3, "")
    assert "are unknown, so its state cannot be converted" in result.err
    assert list(tmp_path.iterdir()) == []
    same = of_several(f"{source}/twins_fresh")
    assert ckpt("convert", mine, tmp_path / "ckpt-3", "--like", same).code == 0


# What match says ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "target", "lost", "mistaken", "flag", "why"),
    [
        ("tf1/adam", "legacy/adam", 12, 0, None, None),
        ("legacy/adam", "new/adam", 12, 0, None, None),
        ("new/adam", "k3/adam", 6, 6, None, None),
        ("new/adam", "new/rmsprop", 8, 4, "--keep-optimizer", "TARGET's is RMSprop (Keras 2.11 to 2.15)"),
        ("legacy/adam", "legacy/momentum", 12, 0, "--keep-optimizer", "TARGET's is SGD (legacy Keras)"),
        ("k3/nadam", "legacy/nadam", 12, 0, "--keep-optimizer", "decays the momentum"),
    ],
)
def test_match_says_what_an_optimizer_would_lose(
    source: str,
    target: str,
    lost: int,
    mistaken: int,
    flag: str | None,
    why: str | None,
    ckpt: Callable,
) -> None:
    """And prints the command that loses nothing, where there is one."""
    document = ckpt("match", trained(source), fresh(target), "--json").json
    (fate,) = document["optimizers"]
    assert (fate["slots"], fate["lost"], fate["mistaken"]) == (12, lost, mistaken)
    assert (why or "") in (fate["why"] or "")
    assert bool(fate["why"]) == bool(why)
    assert [word for word in shlex.split(document["fix"]) if word.startswith("--") and word != "--like"] == (
        [flag] if flag else []
    )
    said = ckpt("match", trained(source), fresh(target)).err
    assert ("would be lost" in said, "restored into other slots" in said) == (bool(lost), bool(mistaken))
    assert ("with all of the optimizer's state" in said) == (flag is None)


def test_match_has_nothing_to_say_of_an_optimizer_that_continues(ckpt: Callable) -> None:
    assert ckpt("match", trained("k3/adam"), fresh("k3/adam"), "--json").json["optimizers"] == []


def test_match_proposes_the_weights_alone_where_target_has_no_optimizer(
    ckpt: Callable, tmp_path: Path
) -> None:
    template = tmp_path / "weights-1"
    assert ckpt("convert", fresh("legacy/adam"), template, "--weights-only").code == 0
    document = ckpt("match", trained("k3/adam"), template, "--json").json
    assert document["optimizers"][0]["target"] is None
    assert document["fix"].endswith("--weights-only")


def test_slots_of_variables_of_one_name_go_by_the_order_of_keras(ckpt: Callable, tmp_path: Path) -> None:
    """Keras lists a layer's own weights first, the graph behind the layers in it: only their names tell."""
    source, template = (data_path("equal_names", f"block_{name}-1") for name in ("new", "legacy"))
    path = tmp_path / "ckpt-1"
    result = ckpt("convert", source, path, "--like", template)
    assert result.code == 0, result.err
    with formats.open_checkpoint(str(path)) as reader, formats.open_checkpoint(template) as same:
        slots = [key for key, kind in reader.kinds.items() if kind == "slot"]
        assert len(slots) == 12
        for key in slots:
            np.testing.assert_allclose(reader[key].read(), same[key].read(), atol=1e-4)


@pytest.mark.parametrize("names", [("new", "legacy"), ("legacy", "new")])
def test_slots_of_variables_that_a_program_lists_as_it_likes_are_rejected(
    names: tuple[str, str], ckpt: Callable, tmp_path: Path
) -> None:
    """TensorFlow calls every variable `Variable`, and a tf.Module lists them by its attributes' names."""
    source, template = (data_path("equal_names", f"module_{name}-1") for name in names)
    result = ckpt("convert", source, tmp_path / "ckpt-1", "--like", template)
    assert (result.code, result.out) == (3, "")
    assert "the variables of 6 slots" in result.err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("source", "target"), [("keras2", "keras3"), ("keras3", "keras2")])
@pytest.mark.parametrize(("model", "weights"), [("nested", 20), ("conv", 11)])
def test_models_within_models_are_one_between_generations_of_keras(
    model: str, weights: int, source: str, target: str, ckpt: Callable, tmp_path: Path
) -> None:
    """Layers' names are unique here, and tell what is what."""

    def values(path: str) -> dict[str, Any]:
        with formats.open_checkpoint(path) as reader:
            (state,) = states_of(reader) or ()
            found = {}
            for key in reader.specs:
                if reader.kinds[key] == "variable":
                    name = "/".join(reader.full_names[key].split("/")[-2:])
                    name = name.replace("dw/depthwise_kernel", "dw/kernel")
                    found[name] = reader[key].read()
                    slot = state.slots.get((key, "momentums"))
                    found[f"momentum of {name}"] = slot and reader[slot].read()
            return found

    path = tmp_path / "ckpt-1"
    before, template = (data_path("nested_models", f"{model}_{name}-1") for name in (source, target))
    result = ckpt("convert", before, path, "--like", template)
    assert result.code == 0, result.err
    mine, theirs = values(before), values(str(path))
    assert len(mine) == 2 * weights
    assert mine.keys() == theirs.keys()
    for name, value in mine.items():
        np.testing.assert_array_equal(theirs[name], value)


@pytest.mark.parametrize("template", ["new", "k3"])
def test_an_optimizer_before_its_first_step_takes_no_state(
    template: str, ckpt: Callable, tmp_path: Path
) -> None:
    """It is not SGD without momentum, which differs in Keras 2.11 to 2.15 by unused slots."""
    path = data_path("unbuilt", f"{template}-1")
    result = ckpt("convert", data_path("unbuilt", "trained-1"), tmp_path / "ckpt-1", "--like", path)
    assert (result.code, result.out) == (3, "")
    assert "has no slots (perhaps it has not taken a step)" in result.err
    assert not list(tmp_path.iterdir())


def test_a_loss_scale_goes_along(ckpt: Callable, tmp_path: Path) -> None:
    """Keras 3's LossScaleOptimizer has four numbers of its own, and lists its optimizer a second time."""
    config = tmp_path / "config.json"
    layers = [
        {"class_name": "InputLayer", "config": {"name": "i", "batch_shape": [None, 3]}},
        *({"class_name": "Dense", "config": {"name": name, "units": 3}} for name in "ab"),
    ]
    model = {"class_name": "Sequential", "config": {"name": "net", "layers": layers}}
    inner = {"class_name": "Adam", "config": {"name": "adam", "learning_rate": 0.01}}
    scaler = {"class_name": "LossScaleOptimizer", "config": {"name": "scaled", "inner_optimizer": inner}}
    config.write_text(json.dumps({**model, "compile_config": {"optimizer": scaler}}))
    source = data_path("several_optimizers", "k3", "scaled_trained-1")
    target = tmp_path / "x.weights.h5"
    result = ckpt("convert", source, target, "--config", config)
    assert (result.code, result.out) == (0, ""), result.err
    with formats.open_checkpoint(source) as mine, formats.open_checkpoint(str(target)) as made:
        edges = ("_iterations", "_learning_rate", "step_counter", "dynamic_scale")
        outer = [f"optimizer/{name}" for name in edges]
        listed = [f"optimizer/inner_optimizer/{name}" for name in ("_iterations", "_learning_rate")]
        listed += [f"optimizer/inner_optimizer/_variables/{number}" for number in range(2, 10)]
        for group, keys in (("optimizer", [*outer, *listed]), ("optimizer/inner_optimizer", listed)):
            for number, key in enumerate(keys):
                wanted = mine[f"{key}/.ATTRIBUTES/VARIABLE_VALUE"].read()
                assert np.array_equal(made[f"{group}/vars/{number}"].read(), wanted)
    # In half precision `compile` makes the wrapper itself, and the configuration does not tell.
    half = {**model, "dtype": "mixed_float16", "compile_config": {"optimizer": inner}}
    config.write_text(json.dumps(half))
    again = tmp_path / "again"
    assert ckpt("convert", target, again, "--to", "object", "--config", config).code == 0
    result = ckpt("match", again, source, "--read")
    assert (result.code, result.err) == (0, ""), result.out


def test_a_file_whose_optimizer_scales_the_loss_takes_the_loss_scale_of_another_keras(
    ckpt: Callable, tmp_path: Path
) -> None:
    """Keras 3 lists the scale and its steps first; a list of another length it would leave out."""
    config = tmp_path / "config.json"
    layers = [
        {"class_name": "InputLayer", "config": {"name": "i", "batch_shape": [None, 3]}},
        *({"class_name": "Dense", "config": {"name": name, "units": 3}} for name in "ab"),
    ]
    model = {"class_name": "Sequential", "config": {"name": "net", "layers": layers}}
    compiled: dict[str, Any] = {
        "optimizer": {"class_name": "LossScaleOptimizer", "config": {"name": "scaled"}}
    }
    config.write_text(json.dumps({**model, "compile_config": compiled}))
    source = data_path("several_optimizers", "new", "scaled_trained-1")
    result = ckpt("convert", source, tmp_path / "x.weights.h5", "--config", config)
    assert (result.code, result.out) == (3, "")
    assert "the configuration's optimizer is LossScaleOptimizer" in result.err
    inner = {"class_name": "Adam", "config": {"name": "adam", "learning_rate": 0.01}}
    compiled["optimizer"]["config"] = {"name": "scaled", "inner_optimizer": inner}
    config.write_text(json.dumps({**model, "compile_config": compiled}))
    result = ckpt("convert", source, tmp_path / "x.weights.h5", "--config", config)
    assert (result.code, result.out) == (0, ""), result.err
    outer = {"step_counter": "optimizer/vars/2", "dynamic_scale": "optimizer/vars/3"}
    names = {"step_counter": "good_steps", "dynamic_scale": "current_loss_scale"}
    with (
        formats.open_checkpoint(source) as mine,
        formats.open_checkpoint(str(tmp_path / "x.weights.h5")) as made,
    ):
        for name, key in outer.items():
            wanted = mine[f"optimizer/loss_scale/{names[name]}/.ATTRIBUTES/VARIABLE_VALUE"].read()
            assert made[key].read() == wanted
        assert [made[f"optimizer/vars/{at}"].read() for at in range(2)] == [0, 0.0]
        assert made["optimizer/inner_optimizer/vars/0"].read() == 3


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_numbers_that_are_made_up_are_cast(dtype: str, ckpt: Callable, tmp_path: Path) -> None:
    """beta1_power and beta2_power, which Keras does not keep, caused a traceback."""
    path = tmp_path / "ckpt-3"
    result = ckpt("convert", trained("new/adam"), path, "--to", "name", "--cast", dtype)
    assert result.code == 0, result.err
    with formats.open_checkpoint(str(path)) as reader:
        power = reader["beta1_power"].read()
        assert power.dtype.name == dtype
        assert power == np.float32(0.9**4).astype(power.dtype)
