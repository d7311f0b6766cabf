"""TensorFlow's rewriting of a pipeline before it runs: the recipe whose state is saved.

    map(lambda x: x)        left out, as is the function that returns all it is given, in order
    map, batch              MapAndBatch
    shuffle, repeat         ShuffleAndRepeat
    map                     ParallelMapV2, but for functions' pipelines
    at the end              Prefetch, but after one and whatever runs ahead itself

These are the rewritings that are on by default. `tf.data.Options` can turn some of them off. The names in a
state show its recipe, so each of them is tried. tensorflow/core/grappler/optimizers/data
"""

from __future__ import annotations

from dataclasses import replace

from .ahead import Ahead, Mapped, MappedAhead, MappedBatches, Prefetched, Repacked
from .batching import Batched
from .interleaving import InterleavedAhead
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
        return Step(Repacked, (source,), step.settings)
    # two steps become one, for any structure of their components in between
    packing = [source] if source.kind is Repacked else []
    while packing and packing[-1].inputs[0].kind is Repacked:
        packing.append(packing[-1].inputs[0])
    within = packing[-1].inputs[0] if packing else source
    if step.kind is Batched and within.kind is Mapped:
        function = within.settings[0]
        for one in reversed(packing):
            function = function.then(one.settings[0])
        return Step(MappedBatches, within.inputs, (function, *step.settings))
    if step.kind in (Repeated, RepeatedForever) and within.kind is Shuffled:
        times = step.settings or (-1,)
        made = Step(ShuffledRepeatedly, within.inputs, within.settings + times)
        for one in reversed(packing):
            made = replace(one, inputs=(made,))
        return made
    return step


def _ahead(step: Step) -> Step:
    return replace(step, kind=MappedAhead) if step.kind is Mapped else step


def _prefetched(step: Step) -> Step:
    if step.kind is Repacked:
        return replace(step, inputs=(_prefetched(step.inputs[0]),))
    if issubclass(step.kind, (Ahead, InterleavedAhead)):
        return step
    return Step(Prefetched, (step,))
