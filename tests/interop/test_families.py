"""Families of models in every form that Keras saves: converted, loaded and trained on.

`families/known.json` names what does not continue yet; everything else has to.  `python -m
tests.interop.families --record` rewrites it; `--help` explains how to try one family or direction.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.interop.families import drive
from tests.sampling import seeds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from conftest import TensorFlow

    from tests.cli.running import Starter

FEW = 3
"""Families of a generation for each run; `make interop-all` takes all of them."""


@pytest.fixture(scope="module")
def starter() -> Iterator[Starter]:
    with drive.starting() as starter:
        yield starter


@pytest.fixture(scope="module")
def families(tensorflow: TensorFlow, tmp_path_factory: pytest.TempPathFactory) -> Iterator[drive.Families]:
    """Use a process of their own: they set the number of threads, for which it is too late after any work."""
    generation = "keras2" if tensorflow.is_old else "keras3"
    own = type(tensorflow)(tensorflow.release)
    yield drive.Families(own, generation, str(tmp_path_factory.mktemp("families")))
    own.close()


def test_training_continues_from_what_is_converted(families: drive.Families, starter: Starter) -> None:
    """No case does worse than is known; where all families are tried, none does better, either."""
    known, found = drive.Known.read(), []
    for name in _sample(known.families[families.generation]):
        found += [families.judge(case, starter) for case in families.cases(name)]
    worse = [f"{known.verdict(each)} -> {drive.told(each)}" for each in found if known.is_worse(each)]
    assert not worse, "\n".join(worse)
    if os.environ.get("CKPT_WHOLE"):
        stale = [drive.told(each) for each in found if known.is_stale(each)]
        assert not stale, "these do better than known.json says:\n" + "\n".join(stale)


def test_families_tell_whether_the_optimizer_was_carried(families: drive.Families) -> None:
    """A family's next losses are others where the optimizer begins again, except for those that begin."""
    names = drive.Known.read().families[families.generation]
    for name in _sample(names):
        assert families.truth(name).blind == (name in drive.BLIND), name


def _sample(names: Sequence[str]) -> list[str]:
    return [names[number] for number in seeds(FEW, len(names))]


def test_what_is_known_is_in_order() -> None:
    known = drive.Known.read()
    with open(drive.KNOWN, encoding="utf-8") as file:
        assert file.read() == known.text()
    assert not {drive.GOES_ON, drive.CRASHED} & set(known.as_json()["verdicts"])
