"""What TensorFlow makes of a pipeline before it runs: the recipe whose state is saved.

    map(lambda x: x)        left out, as is the function that returns all its arguments
    map, batch              MapAndBatch
    shuffle, repeat         ShuffleAndRepeat
    map                     ParallelMapV2, but for functions' pipelines
    at the end              Prefetch, but after one, ParallelMapV2 and MapAndBatch

These are the rewritings that are on by default.  With `tf.data.Options` some of them can be
turned off; a state of such a pipeline is told by the names in it, so it is tried with each
of the recipes.
tensorflow/core/grappler/optimizers/data
"""

from __future__ import annotations

from dataclasses import replace

from .ahead import Mapped, MappedAhead, MappedBatches, Prefetched
from .batching import Batched
from .nesting import Nesting
from .passing import Repeated, RepeatedForever
from .recipe import Step
from .shuffling import Shuffled, ShuffledRepeatedly

__all__ = ["as_it_is", "fused", "rewritings", "rewritten"]


def rewritten(step: Step) -> Step:
    """Return what TensorFlow makes of a pipeline by default."""
    return _prefetched(fused(step).rebuilt(_ahead))


def rewritings(step: Step) -> list[Step]:
    """Return the recipes that a pipeline can have been run as, that of TensorFlow's defaults first."""
    return [rewritten(step), fused(step).rebuilt(_ahead), _prefetched(fused(step)), fused(step), step]


def as_it_is(step: Step) -> Step:
    """Return what TensorFlow makes of a pipeline where its rewritings are turned off."""
    return step


def fused(step: Step) -> Step:
    """Return what TensorFlow makes of a pipeline within a function."""
    return step.rebuilt(_fused)


def _fused(step: Step) -> Step:
    if issubclass(step.kind, Nesting):
        function, _, *settings = step.settings
        return replace(step, settings=(function, fused, *settings))
    if not step.inputs:
        return step
    source = step.inputs[0]
    if step.kind is Mapped and step.settings[0].is_identity(source):
        return source
    if step.kind is Batched and source.kind is Mapped:
        return Step(MappedBatches, source.inputs, source.settings + step.settings)
    if step.kind in (Repeated, RepeatedForever) and source.kind is Shuffled:
        times = step.settings or (-1,)
        return Step(ShuffledRepeatedly, source.inputs, source.settings + times)
    return step


def _ahead(step: Step) -> Step:
    return replace(step, kind=MappedAhead) if step.kind is Mapped else step


def _prefetched(step: Step) -> Step:
    if issubclass(step.kind, (Prefetched, MappedAhead, MappedBatches)):
        return step
    return Step(Prefetched, (step,))
