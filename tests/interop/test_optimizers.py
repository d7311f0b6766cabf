"""Training continues from a converted checkpoint: TensorFlow and Keras take the next steps from it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.cli.running import run_ckpt
from tests.sampling import seeds

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import TensorFlow

TOLERANCE = 1e-5
TF1 = [
    "adadelta",
    "adagrad",
    "adam",
    "adam_weight_decay",
    "ftrl",
    "momentum",
    "nesterov",
    "proximal_adagrad",
    "rmsprop",
    "rmsprop_centered",
    "several",
    "sgd",
]
LEGACY = sorted({*TF1, "adamax", "amsgrad", "nadam"} - {"adam_weight_decay", "proximal_adagrad"})
NEWER = [*LEGACY, "adamw", "averaged", "averaged_sgd", "lion"]
OPTIMIZERS = {"tf1": TF1, "legacy": LEGACY, "new": NEWER, "k3": NEWER}
GOES_ON_AS = {"proximal_adagrad": "adagrad"}
"""Optimizers of TensorFlow 1 that continue as another optimizer of Keras with the same state."""


class Case(NamedTuple):
    """A conversion: the two families, the optimizer, and the optimizer that continues."""

    source: str
    target: str
    optimizer: str
    into: str

    def __str__(self) -> str:
        return f"{self.source}-{self.target}-{self.optimizer}"


def cases() -> list[Case]:
    """Return all conversions between families but those of AdamWeightDecay, which has a test of its own."""
    return [
        Case(source, target, optimizer, GOES_ON_AS.get(optimizer, optimizer))
        for source in OPTIMIZERS
        for target in OPTIMIZERS
        for optimizer in OPTIMIZERS[source]
        if source != target and GOES_ON_AS.get(optimizer, optimizer) in OPTIMIZERS[target]
        if optimizer != "adam_weight_decay"
        # Names of TensorFlow 1 do not tell which variables' steps beta1_power_1 counts.
        if (target, optimizer) != ("tf1", "several")
    ]


REFUSED = {
    case for case in cases() if case.optimizer == "nadam" and (case.source, case.target) != ("new", "k3")
}
"""Nadam of Keras 2.11 to 2.15 does not restore itself, and the legacy one decays its momentum otherwise."""


GOING_ON = [(case, seed) for case in cases() if case not in REFUSED for seed in range(3)]
"""Cases that continue, each with three sets of weights and data."""


@pytest.fixture(scope="session")
def trained(
    old_tensorflow: TensorFlow, new_tensorflow: TensorFlow, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., str]:
    """Return a function that trains an optimizer of a family, once, and returns the folder of it."""
    root = tmp_path_factory.mktemp("optimizers")

    def train(family: str, optimizer: str, seed: int = 0, steps: int = 3) -> str:
        folder = str(root / f"{family}-{optimizer}-{seed}-{steps}")
        if not os.path.isdir(folder):
            tensorflow = new_tensorflow if family == "k3" else old_tensorflow
            told = {"family": family, "optimizer": optimizer, "seed": seed, "steps": steps}
            tensorflow.ask("optimizers", "make", folder=folder, **told)
        return folder

    return train


@pytest.fixture(scope="session")
def goes_on(old_tensorflow: TensorFlow, new_tensorflow: TensorFlow) -> Callable[..., dict[str, Any]]:
    """Return a function that has a family restore, take two steps, and compare with the truth."""

    def judge(family: str, optimizer: str, path: str, folder: str, seed: int = 0) -> dict[str, Any]:
        tensorflow = new_tensorflow if family == "k3" else old_tensorflow
        truth = os.path.join(folder, "truth.npz")
        found: dict[str, Any] = tensorflow.ask(
            "optimizers", "go_on", family=family, optimizer=optimizer, seed=seed, path=path, truth=truth
        )
        return found

    return judge


def test_families_have_the_optimizers_that_are_converted(
    old_tensorflow: TensorFlow, new_tensorflow: TensorFlow
) -> None:
    for family, names in OPTIMIZERS.items():
        tensorflow = new_tensorflow if family == "k3" else old_tensorflow
        own = {"adam_weight_decay", "several_others"} if family != "tf1" else set()
        assert set(tensorflow.ask("optimizers", "names", family=family)) == set(names) | own


@pytest.mark.parametrize(("case", "seed"), [GOING_ON[number] for number in seeds(24, len(GOING_ON))], ids=str)
def test_training_continues_where_it_was(
    case: Case, seed: int, trained: Callable, goes_on: Callable, tmp_path: Any
) -> None:
    folder = trained(case.source, case.optimizer, seed)
    fresh, target = os.path.join(trained(case.target, case.into, seed), "fresh-1"), tmp_path / "ckpt-3"
    done = run_ckpt("convert", os.path.join(folder, "ckpt-3"), target, "--like", fresh)
    assert done.code == 0, done.err
    found = goes_on(case.target, case.into, str(target), folder, seed)
    assert found["matched"]
    assert found["iterations"] == 3
    assert found["difference"] <= TOLERANCE


@pytest.mark.parametrize("case", sorted(REFUSED), ids=str)
def test_nadam_continues_in_its_own_generation_only(case: Case, trained: Callable, tmp_path: Any) -> None:
    source = os.path.join(trained(case.source, "nadam"), "ckpt-3")
    fresh = os.path.join(trained(case.target, "nadam"), "fresh-1")
    done = run_ckpt("convert", source, tmp_path / "ckpt-3", "--like", fresh)
    assert done.code == 3
    assert "Nadam (" in done.err
    assert "cannot be converted to" in done.err
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("steps", [3, 2_000, 120_000])
@pytest.mark.parametrize(
    ("source", "target"),
    [("tf1", "legacy"), ("tf1", "new"), ("tf1", "k3"), ("legacy", "k3"), ("new", "legacy"), ("k3", "tf1")],
)
def test_adam_continues_after_many_steps(
    source: str, target: str, steps: int, trained: Callable, goes_on: Callable, tmp_path: Any
) -> None:
    """After 2,000 steps beta1_power is of no use, after 120,000 neither is beta2_power."""
    folder = trained(source, "adam", steps=steps)
    fresh, path = os.path.join(trained(target, "adam"), "fresh-1"), tmp_path / f"ckpt-{steps}"
    done = run_ckpt("convert", os.path.join(folder, f"ckpt-{steps}"), path, "--like", fresh)
    assert done.code == 0, done.err
    found = goes_on(target, "adam", str(path), folder)
    assert (found["matched"], found["iterations"]) == (True, steps)
    assert found["difference"] <= TOLERANCE


@pytest.mark.parametrize(("steps", "told_by"), [(3, "beta1_power"), (2_000, "beta2_power")])
def test_powers_alone_tell_the_steps(
    steps: int, told_by: str, trained: Callable, goes_on: Callable, tmp_path: Any
) -> None:
    folder = trained("tf1", "adam", steps=steps)
    source, fresh = (
        os.path.join(folder, f"ckpt-{steps}"),
        os.path.join(trained("k3", "adam"), "fresh-1"),
    )
    path = tmp_path / f"ckpt-{steps}"
    done = run_ckpt("convert", source, path, "--like", fresh, "--exclude", "global_step")
    assert (done.code, told_by in done.err) == (0, True), done.err
    found = goes_on("k3", "adam", str(path), folder)
    assert found["iterations"] == pytest.approx(steps, abs=1)
    assert found["difference"] <= TOLERANCE


@pytest.mark.parametrize("family", ["legacy", "new", "k3"])
def test_berts_optimizer_continues_where_bias_is_corrected_no_more(
    family: str, trained: Callable, goes_on: Callable, tmp_path: Any
) -> None:
    """Google's AdamWeightDecay corrects no bias, Keras' does: after few steps that matters."""
    folder = trained("tf1", "adam_weight_decay")
    source, fresh = (
        os.path.join(folder, "ckpt-3"),
        os.path.join(trained(family, "adam_weight_decay"), "fresh-1"),
    )
    refused = run_ckpt("convert", source, tmp_path / "ckpt-3", "--like", fresh)
    assert (refused.code, "bias" in refused.err) == (3, True)
    target = tmp_path / "ckpt-3"
    done = run_ckpt("convert", source, target, "--like", fresh, "--iterations", 200_000)
    assert done.code == 0, done.err
    found = goes_on(family, "adam_weight_decay", str(target), folder)
    assert (found["matched"], found["iterations"]) == (True, 200_000)
    assert found["difference"] <= TOLERANCE


@pytest.mark.parametrize("google", [False, True], ids=["adam", "adam_weight_decay"])
def test_the_loss_of_bert_continues_where_it_was(
    google: bool, old_tensorflow: TensorFlow, tmp_path: Any
) -> None:
    """From an Estimator with names as Google's into a Keras model, by the map that `match` proposes."""

    def losses(command: str, path: str | None = None) -> list[list[float]]:
        told: list[list[float]] = old_tensorflow.ask(
            "bert", "losses", folder=str(tmp_path), command=command, path=path, google=google
        )
        return told

    before, _ = losses("tf1"), losses("fresh")
    source, fresh, names = (
        tmp_path / "old" / "model.ckpt-3",
        tmp_path / "fresh" / "ckpt-1",
        tmp_path / "map.tsv",
    )
    assert run_ckpt("match", source, fresh, "--save-map", names).code == 1
    target = tmp_path / "tf2" / "bert-3"
    many = ["--iterations", 200_000] if google else []
    done = run_ckpt("convert", source, target, "--like", fresh, "--map", names, *many)
    assert done.code == 0, done.err
    after = losses("tf2", str(target))
    assert after[0][0] == (200_000 if google else 3)
    assert [loss for _, loss in after] == pytest.approx([loss for _, loss in before], abs=TOLERANCE)


@pytest.mark.parametrize(
    ("source", "target", "optimizer", "into"),
    [
        ("tf1", "legacy", "momentum", "adam"),
        ("legacy", "legacy", "momentum", "adam"),
        ("new", "new", "adam", "rmsprop"),
        ("new", "new", "rmsprop", "adam"),
        ("new", "k3", "adamax", "adam"),
        ("k3", "tf1", "adam", "adagrad"),
        ("legacy", "k3", "amsgrad", "adam"),
        ("k3", "new", "adam", "amsgrad"),
        ("k3", "tf1", "several", "several"),
        ("tf1", "k3", "several", "several_others"),
        ("k3", "legacy", "several", "several_others"),
    ],
)
def test_another_optimizer_is_rejected_by_name(
    source: str, target: str, optimizer: str, into: str, trained: Callable, tmp_path: Any
) -> None:
    path = os.path.join(trained(source, optimizer), "ckpt-3")
    fresh = os.path.join(trained(target, into), "fresh-1")
    done = run_ckpt("convert", path, tmp_path / "ckpt-3", "--like", fresh)
    assert (done.code, done.out) == (3, "")
    assert "TEMPLATE's" in done.err
    assert "of SRC" in done.err or "SRC's" in done.err
    assert "--keep-optimizer" in done.err
    anew = run_ckpt("convert", path, tmp_path / "ckpt-3", "--like", fresh, "--keep-optimizer")
    assert anew.code == 0, anew.err


@pytest.mark.parametrize("optimizer", [name for name in TF1 if name in NEWER and name != "several"])
def test_training_continues_by_the_names_of_tensorflow_1(
    optimizer: str, trained: Callable, goes_on: Callable, tmp_path: Any
) -> None:
    """No template is needed: Keras 3 stores all parts of TensorFlow 1's names."""
    folder, path = trained("k3", optimizer), tmp_path / "ckpt-3"
    done = run_ckpt("convert", os.path.join(folder, "ckpt-3"), path, "--to", "name")
    assert done.code == 0, done.err
    found = goes_on("tf1", optimizer, str(path), folder)
    assert found["iterations"] == 3
    assert found["difference"] <= TOLERANCE


@pytest.mark.parametrize(("optimizer", "options"), [("adam", []), ("momentum", ["--learning-rate", 0.01])])
def test_training_continues_in_objects_that_are_made_of_names(
    optimizer: str, options: list[Any], trained: Callable, goes_on: Callable, tmp_path: Any
) -> None:
    """No template is needed: a legacy optimizer of Keras finds all but the settings that the program has."""
    folder, path = trained("tf1", optimizer), tmp_path / "ckpt-3"
    rules = [
        f"--sub=^net/{name}/=>model/layer_with_weights-{number}/"
        for number, name in enumerate(("d0", "d1", "out"))
    ]
    source = os.path.join(folder, "ckpt-3")
    done = run_ckpt("convert", source, path, "--to", "object", *rules, *options)
    assert done.code == 0, done.err
    found = goes_on("legacy", optimizer, str(path), folder)
    assert found["iterations"] == 3
    assert found["difference"] <= TOLERANCE


class FileCase(NamedTuple):
    """A conversion between files of Keras, or from a checkpoint, by the configuration of a file."""

    source: str
    held: str
    target: str
    file: str
    optimizer: str

    def __str__(self) -> str:
        return f"{self.source}-{self.held}-{self.target}-{self.file}-{self.optimizer}"


FILES = {
    "legacy": ["model.h5"],
    "new": ["model.h5", "model.keras", "model.weights.h5"],
    "k3": ["model.h5", "model.keras", "model.weights.h5"],
}
"""The files in which a family saves an optimizer.  Keras 3 does not load its own .h5."""


def file_cases() -> list[FileCase]:
    return [
        FileCase(source, held, target, file, optimizer)
        for source, every in FILES.items()
        for held in ("ckpt-3", *every)
        for target, files in FILES.items()
        for file in files
        if (target, file) != ("k3", "model.h5")
        for optimizer in OPTIMIZERS[source]
        if optimizer in OPTIMIZERS[target] and optimizer != "several"
        # Keras 2 since 2.11 saves no Nadam in files, and no generation takes another's.
        if optimizer != "nadam" or source == target != "new"
    ]


@pytest.mark.parametrize("case", [file_cases()[number] for number in seeds(24, len(file_cases()))], ids=str)
def test_training_continues_from_files_of_keras(
    case: FileCase, trained: Callable, goes_on: Callable, tmp_path: Any
) -> None:
    folder, target = trained(case.source, case.optimizer), tmp_path / case.file
    told = "model.h5" if case.file == "model.h5" else "model.keras"
    config = os.path.join(trained(case.target, case.optimizer), told)
    done = run_ckpt("convert", os.path.join(folder, case.held), target, "--config", config)
    assert done.code == 0, done.err
    found = goes_on(case.target, case.optimizer, str(target), folder)
    assert found["iterations"] == 3
    assert found["difference"] <= TOLERANCE


LIKE = [
    (case, held)
    for case in cases()
    if case not in REFUSED and "several" not in case.optimizer
    for held in FILES.get(case.source, [])
    if held != "model.weights.h5" and (case.source, case.optimizer) != ("new", "nadam")
]
"""Cases that continue from a file of one family in a checkpoint of another."""


@pytest.mark.parametrize(("case", "held"), [LIKE[number] for number in seeds(12, len(LIKE))], ids=str)
def test_training_continues_from_a_file_in_the_checkpoint_of_a_program(
    case: Case, held: str, trained: Callable, goes_on: Callable, tmp_path: Any
) -> None:
    """TensorFlow 1's momentum takes the rate that the file's configuration has."""
    folder, target = trained(case.source, case.optimizer), tmp_path / "ckpt-3"
    fresh = os.path.join(trained(case.target, case.into), "fresh-1")
    done = run_ckpt("convert", os.path.join(folder, held), target, "--like", fresh)
    assert done.code == 0, done.err
    found = goes_on(case.target, case.into, str(target), folder)
    assert (found["matched"], found["iterations"]) == (True, 3)
    assert found["difference"] <= TOLERANCE


INTO = [
    (case, file)
    for case in cases()
    if case not in REFUSED and "several" not in case.optimizer
    for file in FILES.get(case.target, [])
    if file != "model.weights.h5" and (case.target, file) != ("k3", "model.h5")
]
"""Cases that continue from a checkpoint of one family, TensorFlow 1 included, in a file of another."""


@pytest.mark.parametrize(("case", "file"), [INTO[number] for number in seeds(12, len(INTO))], ids=str)
def test_training_continues_from_a_checkpoint_in_the_file_of_a_program(
    case: Case, file: str, trained: Callable, goes_on: Callable, tmp_path: Any
) -> None:
    folder, target = trained(case.source, case.optimizer), tmp_path / file
    template = os.path.join(trained(case.target, case.into, 1), file)
    done = run_ckpt("convert", os.path.join(folder, "ckpt-3"), target, "--like", template)
    assert done.code == 0, done.err
    found = goes_on(case.target, case.into, str(target), folder)
    assert (found["matched"], found["iterations"]) == (True, 3)
    assert found["difference"] <= TOLERANCE


@pytest.mark.parametrize("target", ["legacy", "new"])
def test_keras_3_steps_otherwise_by_slices_alone(
    target: str, old_tensorflow: TensorFlow, new_tensorflow: TensorFlow, tmp_path: Any
) -> None:
    """Of an embedding's gradient Keras 3's Adam lets the rows that a batch has not be; Keras 2's moves all.

    By the same gradients as tensors both continue alike, so that the difference is not the state's.
    """
    for dense in (True, False):
        ask = {"k3": new_tensorflow, target: old_tensorflow}
        losses = {
            family: tensorflow.ask(
                "optimizers",
                "embedding",
                family=family,
                path=str(tmp_path / f"{family}-{dense}"),
                dense=dense,
                template=str(tmp_path / f"fresh-{family}-{dense}"),
            )
            for family, tensorflow in ask.items()
        }
        for source, into in (("k3", target), (target, "k3")):
            path = tmp_path / f"{source}-{into}-{dense}"
            fresh = tmp_path / f"fresh-{into}-{dense}"
            done = run_ckpt("convert", tmp_path / f"{source}-{dense}", path, "--like", fresh)
            assert done.code == 0, done.err
            found = ask[into].ask("optimizers", "embedding", family=into, path=str(path), dense=dense)
            assert found[0] == pytest.approx(losses[source][0], rel=1e-6)
            assert (found == pytest.approx(losses[source], rel=1e-6)) == dense
