"""To another format and back: does a checkpoint survive the journey?

Both conversions are those of `ckpt convert`, into a temporary folder. If names alone are not enough, as for
an object graph or a Keras layout, the second conversion fills the structure of the checkpoint itself
(`--like`). Then every tensor is compared with the original under its own key, bit for bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.errors import CheckpointError, ConversionError
from formats.find.opening import open_location, open_reader
from formats.find.registry import format_named
from formats.keras.facts import keras_facts
from formats.location import Location, local_location
from formats.model.checkpoint_files import step_of
from formats.model.reader import Family, Format
from formats.model.verification import Finding
from formats.store.local.removing import scratch_directory

from .execute import execute, same_tensor
from .keras.orbax_step import KerasStep, keras_step
from .keras.plan import PLAIN
from .optimizers import OptimizerOptions
from .pairing import Strictness, plan_like
from .plan import Move
from .planner import plan_conversion, target_format
from .source import Settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from formats.model.checkpoint_files import CheckpointLocation
    from formats.model.reader import FormatReader

    from .plan import Plan


_CODE = "roundtrip"
_BY_KEY = "to verify the tensors by key instead, pass --roundtrip hdf5"


def roundtrip(
    location: CheckpointLocation, to: str, advance: Callable[[int], None] = lambda _: None
) -> tuple[Finding, ...]:
    """Return what a checkpoint loses or changes on its way to format `to` and back.

    A part that a format cannot hold by its nature (an object graph, an iterator's state) is a warning;
    everything else is an error. Raises ConversionError if a conversion is impossible.
    """
    with open_location(location) as source, scratch_directory() as made:
        folder = local_location(made)
        into = target_format(source, folder, to)
        middle = folder / _name(location, into)
        # A count of steps that is added to TensorFlow 1's state stays on the way: any will do.
        counted = into.has_object_graph and source.object_graph is None
        keys = list(source.specs)
        is_for_keras = into.family is Family.KERAS or into.has_object_graph
        step = keras_step(source, keys) if is_for_keras else None
        counted = counted and step is None and source.format.family is not Family.KERAS
        settings = Settings(
            given=OptimizerOptions(iterations=0, allows_missing=True) if counted else OptimizerOptions()
        )
        try:
            if step is not None:
                chosen = step.named(keys)
                there = step.source_plan(plan_conversion(step, chosen, middle, into, settings), keys)
            else:
                there = plan_conversion(source, keys, middle, into, settings)
            execute(there, advance=advance)
        except ConversionError as error:
            error.path = location.path  # the temporary folder means nothing to the user
            error.hints = tuple(_BY_KEY if hint == PLAIN else hint for hint in error.hints)
            raise
        with open_reader(middle) as between:
            back_path = folder / "back" / _name(location, source.format)
            try:
                back = _plan_back(between, step or source, back_path)
                execute(back, advance=advance)
            except CheckpointError as error:
                message = f"this checkpoint cannot be converted back from {into.name}: {error.message}"
                return (Finding("error", _CODE, message, error.key, location.path),)
        with open_reader(back_path) as returned:
            return (*_dropped(there), *_compare(source, there, back, returned))


def _name(location: CheckpointLocation, into: Format) -> str:
    """Return the file name of a checkpoint in a format: the step stays, as save counters follow it."""
    suffix = into.suffixes[0] if into.suffixes and into.suffixes[0] != ".index" else ""
    return f"ckpt-{step_of(location.name) or 1}{suffix}"


def _plan_back(between: FormatReader, source: FormatReader, path: Location) -> Plan:
    keys = list(between.specs)
    facts = keras_facts(source.facts)
    if isinstance(source, KerasStep):
        into = format_named("keras-weights")
        # The metrics, which a step alone has, were left out on the way there.
        return source.filled(plan_conversion(between, keys, path, into, Settings(config=facts)))
    if facts.config is not None and (
        between.format.family is Family.KERAS or between.format.has_object_graph
    ):
        return plan_conversion(between, keys, path, source.format, Settings(config=facts))
    if source.object_graph is None and source.format.family is not Family.KERAS:
        return plan_conversion(between, keys, path, source.format, Settings())
    # slots that became ambiguous have no value, which the comparison finds
    return plan_like(between, keys, source, path, Strictness(partial=True))[0]


def _dropped(there: Plan) -> list[Finding]:
    return [
        Finding("warning", _CODE, f"the tensor was left out: {one.reason}", one.key) for one in there.dropped
    ]


def _compare(source: FormatReader, there: Plan, back: Plan, returned: FormatReader) -> list[Finding]:
    began_as = {move.spec.key: move.source for move in there.moves}
    ended_as = {began_as[move.source]: move.spec.key for move in back.moves if move.source in began_as}
    dropped = {one.key for one in there.dropped}
    findings = []
    for key, spec in source.specs.items():
        if key in dropped or source.kinds.get(key) == "graph":
            continue
        message = None
        if key not in ended_as:
            message = f"the tensor was lost when {there.format} was converted back"
        elif ended_as[key] != key:
            message = f"the tensor came back as {ended_as[key]!r}"
        elif returned.specs[key][:3] != spec[:3]:
            message = f"the tensor was {spec.dtype} {list(spec.shape)}, but came back as {returned[key]!r}"
        elif not same_tensor(returned[key], Move(spec, key, source[key])):
            message = "the values changed"
        if message is not None:
            findings.append(Finding("error", _CODE, message, key, source.location.path))
    return findings
