"""Converting a checkpoint: `ckpt convert` and `ckpt.convert`."""

from __future__ import annotations

import os
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from formats.find.registry import format_named
from formats.find.suffixes import format_of_suffix, refuse_false_suffix
from formats.keras.facts import keras_facts
from formats.model.reader import Family
from formats.tf.bundle.shards import CLONE, LINK

from ..operations.convert import execute, pairing, planner
from ..operations.convert.framework_layout import lay_out
from ..operations.convert.hub.files import copy_configs
from ..operations.convert.hub.layout import layout_note
from ..operations.convert.keras.assets import with_learned
from ..operations.convert.keras.copying import have_one_layout, plan_by_structure
from ..operations.convert.keras.exports import without_copies
from ..operations.convert.keras.orbax_step import keras_step
from ..operations.convert.keras.plan import read_config, structure_in
from ..operations.convert.optimizers import OptimizerOptions
from ..operations.convert.requested_layout import TENSORFLOW, check_target, holds_optimizer
from ..operations.convert.source import Settings
from ..operations.reporting import opened
from ..operations.select.keys import renamed
from ..operations.select.name_map import row_of
from ..operations.select.selection import Selection, choose
from .changing import KeyChanges
from .rules import OptionError, excludes, needs
from .writing import Job, WriteOptions, Written, carry_out, note_cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from formats.core.dtypes import DType
    from formats.location import Location
    from formats.model.reader import Format, FormatReader

    from ..operations.convert.keras.orbax_step import KerasStep
    from ..operations.convert.plan import Dropped, Plan
    from ..operations.convert.requested_layout import FrameworkLayout
    from ..operations.convert.resume import Resume
    from ..operations.reporting import Reporter
    from ..operations.select.keys import Renamed
    from ..operations.select.name_map import MapRow

__all__ = ["RULES", "WITHOUT_EFFECT", "ConvertOptions", "convert_one"]

RULES = (
    needs("--save-map", "--like", "--layout"),
    needs("--pair-by-shape", "--like"),
    needs("--partial", "--like"),
    needs("--keep-optimizer", "--like"),
    excludes("--iterations", "--keep-optimizer"),
    excludes("--learning-rate", "--keep-optimizer"),
    excludes("--optimizer", "--keep-optimizer"),
    excludes("--generation", "--like"),
    excludes("--config", "--like"),
    excludes("--keys", "--like"),
    excludes("--weights-only", "--kind"),
    excludes("--shard-size", "--link"),
    excludes("--update-state", "--each"),
)

WITHOUT_EFFECT = frozenset(
    [
        *("SRC", "DST", "--jobs", "--executor", "--json", "--color", "--quiet", "--verbose", "--verify"),
        *("--no-verify", "--update-state", "--overwrite", "--dry-run", "--resume", "--save-map"),
    ]
)
"""Parameters that may differ when a conversion is resumed: staged bytes do not depend on them, or sources
tell them."""

MOST_STEPS = (1 << 63) - 1
"""Steps that a counter of TensorFlow's holds."""

LARGEST_RATE = 1e38
"""A learning rate that float32 holds."""


class ConvertOptions(NamedTuple):
    """The options of a conversion."""

    selection: Selection = Selection()
    changes: KeyChanges = KeyChanges()
    to: str | None = None
    """The id of the format; without one the target's suffix decides."""

    like: Location | None = None
    """TEMPLATE, which gives keys, graph and layout."""

    pair_by_shape: bool = False
    partial: bool = False
    keep_optimizer: bool = False
    save_map: Location | None = None
    given: OptimizerOptions = OptimizerOptions()
    stored_keys: bool = False
    """Whether keys of objects keep their suffix in formats without objects."""

    cast: DType | None = None
    generation: str | None = None
    shard_size: int | None = None
    compress: str | None = None
    merge_slices: bool = False
    link: bool = False
    resume: Resume | None = None
    write: WriteOptions = WriteOptions()

    @property
    def strictness(self) -> pairing.Strictness:
        """The changes that pairing with TEMPLATE allows; weights alone leave its optimizer unchanged."""
        keeps = self.keep_optimizer or self.selection.kinds == ("variable",)
        return pairing.Strictness(self.pair_by_shape, self.partial, keeps, self.cast, self.given)


# One checkpoint ---------------------------------------------------------------------------


@contextmanager
def planned_conversion(
    reader: FormatReader, target: Location, options: ConvertOptions, reporter: Reporter
) -> Iterator[Job]:
    """Yield what converts one checkpoint."""
    keys, copies = _chosen(reader, target, options)
    if options.like is None:
        into = planner.target_format(reader, target, options.to)
        path = options.changes.config if options.changes.framework_layout() is None else None
        with structure_in(path, into) as structure:
            if structure is None or have_one_layout(reader.format, into):
                plan = _plan(reader, keys, target, options, reporter)
            else:
                rules = options.strictness
                plan = plan_by_structure(reader, keys, structure, target, into, rules)
            yield _job(plan._replace(dropped=(*copies, *plan.dropped)), reader, options)
        return
    with opened(options.like, reporter) as template:
        plan = _plan_like(reader, keys, _Template(template, target), options, reporter)
        yield _job(plan._replace(dropped=(*copies, *plan.dropped)), reader, options)


def _chosen(
    reader: FormatReader, target: Location, options: ConvertOptions
) -> tuple[list[str], list[Dropped]]:
    """Return the keys of the chosen tensors, and what is left out of them: second copies, which no model has.

    A layout leaves them out itself.
    """
    keys = choose(reader, options.selection)
    is_by_meaning = options.like is not None or (
        planner.target_format(reader, target, options.to).family is Family.KERAS
    )
    if not is_by_meaning or options.changes.framework_layout() is not None:
        return keys, []
    return without_copies(reader, keys)


def convert_one(
    reader: FormatReader,
    target: Location,
    options: ConvertOptions,
    reporter: Reporter,
    report: Callable[[Written], None] = lambda _: None,
) -> Written:
    """Convert one checkpoint; `by_suffix` is called while its sources are still open."""
    with planned_conversion(reader, target, options, reporter) as job:
        written = carry_out(job, reporter)
        if not job.how.dry_run:
            copy_configs(job.plan, reporter)
        for text in job.plan.warnings:
            reporter.warning(text)
        note_cast(job.plan, options.cast, reporter)
        report(written)
        return written


def _job(plan: Plan, source: FormatReader, options: ConvertOptions) -> Job:
    plan = with_learned(plan, source, partial=options.partial)
    ways = (CLONE, LINK) if options.link else ()
    run = partial(execute.execute, plan, shard_size=options.shard_size, ways=ways, resume=options.resume)
    return Job(plan, partial(run, compression=options.compress), options.write.how(plan.target))


def _plan(
    reader: FormatReader,
    keys: list[str],
    target: Location,
    options: ConvertOptions,
    reporter: Reporter,
) -> Plan:
    given = options.given
    into = planner.target_format(reader, target, options.to)
    suffix = planner.unknown_suffix(target) if options.to is None else None
    if suffix is not None:
        reporter.note(
            f"{target}: {suffix} is not the suffix of a format, so ckpt writes a TensorFlow checkpoint"
        )
    if options.stored_keys and into.has_values and into.family is not Family.ARRAYS:
        raise OptionError(f"--keys does nothing for {into.name}, which has names of its own")
    layout, laid = options.changes.framework_layout(), None
    if layout is None and into.family is Family.ARRAYS and (text := layout_note(reader)) is not None:
        reporter.note(text)
    if layout is not None:
        layout = layout._replace(nests=holds_optimizer(into, layout), given=given)
        laid = lay_out(reader, keys, layout)
        check_target(into, layout, target)
        if options.save_map:
            _save_map(options.save_map, laid.names.rows, options)
        reader, keys = laid.reader, list(laid.reader.specs)
        given = OptimizerOptions() if laid.holds_optimizer else given  # the layout has consumed the options
    is_for_keras = layout is None and (into.family is Family.KERAS or into.has_object_graph)
    step, chosen = keras_step(reader, keys) if is_for_keras else None, keys
    if step is not None:
        reader, keys = step, step.named(keys)
    names = _renamed(reader, layout, options, reporter)
    config = layout.config if layout is not None else None
    if layout is None and options.changes.config:
        config = read_config(options.changes.config)
    optimizer = laid.optimizer if laid is not None else None
    own = laid.own_facts if laid is not None else None
    stored = options.stored_keys
    settings = Settings(
        options.cast, options.merge_slices, names, given, config, optimizer, options.generation, stored, own
    )
    plan = planner.plan_conversion(reader, keys, target, into, settings)
    if step is not None:
        return step.source_plan(plan, chosen)
    return plan if laid is None else laid.source_plan(plan)


class _Template(NamedTuple):
    """TEMPLATE, and where a conversion into its structure goes."""

    reader: FormatReader
    target: Location


def _plan_like(
    reader: FormatReader,
    keys: list[str],
    into: _Template,
    options: ConvertOptions,
    reporter: Reporter,
) -> Plan:
    """Return the plan of a conversion into the structure of TEMPLATE."""
    template, target = into
    layout, laid = options.changes.framework_layout(), None
    if layout is not None:
        if layout.way == TENSORFLOW and layout.config is None and template.object_graph is not None:
            layout = layout._replace(like=template)  # it also identifies the model
        config_path = reader.format.is_tree != template.format.is_tree
        keeps = options.strictness.keep_optimizer
        if config_path and keeps:
            keys = [key for key in keys if reader.kinds.get(key) not in ("slot", "optimizer")]
        laid = lay_out(reader, keys, layout._replace(given=options.given, carries=config_path and not keeps))
        reader, keys = laid.reader, list(laid.reader.specs)
    names = _renamed(reader, layout, options, reporter)
    template.prove_specs()  # usually only the specs of TEMPLATE are used
    _check_format(template, reader, target, options.to)
    strictness = options.strictness
    step = None if reader.format.is_tree or names is not None else keras_step(template, list(template.specs))
    if step is not None and (reader.format.family is Family.KERAS or reader.object_graph is not None):
        return _filled_step(reader, keys, (step, target), options)
    takes_keras = template.format.family is Family.KERAS or template.object_graph is not None
    is_plain = laid is None and names is None
    source, chosen = keras_step(reader, keys) if takes_keras and is_plain else None, keys
    if source is not None:
        reader, keys = source, source.named(keys)
    if options.save_map:
        # Before the plan, which rejects missing pairs: the map is there to add them.
        pairs = pairing.pair(reader, keys, template, strictness._replace(partial=True), names)
        rows = (row_of(mine, theirs) for theirs, mine in pairs.rows().items())
        _save_map(options.save_map, rows, options)
    plan, _ = pairing.plan_like(reader, keys, template, target, strictness, names)
    if options.merge_slices:
        plan = plan._replace(slices={})
    if source is not None:
        return source.source_plan(plan, chosen)
    return plan if laid is None else laid.source_plan(plan)


def _filled_step(
    reader: FormatReader, keys: list[str], into: tuple[KerasStep, Location], options: ConvertOptions
) -> Plan:
    """Return the plan of writing the values of a model of Keras into a step that Keras saved with Orbax."""
    step, target = into
    if options.save_map:
        raise OptionError("--save-map has no effect, because the configuration in TEMPLATE pairs the tensors")
    if options.pair_by_shape:
        raise OptionError(
            "--pair-by-shape has no effect, because the configuration in TEMPLATE pairs the tensors"
        )
    rules = options.strictness
    if rules.keep_optimizer:
        keys = [key for key in keys if reader.kinds.get(key) not in ("slot", "optimizer")]
    settings = Settings(options.cast, given=options.given, config=keras_facts(step.facts))
    plan = planner.plan_conversion(reader, keys, target, format_named("keras-weights"), settings)
    return step.filled(plan, partial=rules.partial, keep_optimizer=rules.keep_optimizer, cast=options.cast)


def _renamed(
    reader: FormatReader, layout: FrameworkLayout | None, options: ConvertOptions, reporter: Reporter
) -> Renamed | None:
    rules = options.changes.rules(layout)
    names = renamed(reader, rules) if rules else None
    for text in names.notes if names else ():
        reporter.note(text)
    return names


def _save_map(path: Location, rows: Iterable[MapRow], options: ConvertOptions) -> None:
    from ..render.name_map import map_lines, save_map

    hints = ("to replace the map, pass --overwrite", "to use the pairs of the map, pass --map")
    save_map(path, map_lines(rows), overwrite=options.write.overwrite, hints=hints)


def _check_format(template: FormatReader, reader: FormatReader, target: Location, to: str | None) -> None:
    """Reject another format than TEMPLATE's, from an option or from DST's suffix."""
    own: Format = template.format
    if to is not None:
        into, what = planner.target_format(reader, target, to), "--to means"
    else:
        by_suffix = None if target.endswith(own.suffixes) else format_of_suffix(target)
        into = own if by_suffix is None or by_suffix.writer is None else by_suffix
        what = f"the suffix of {os.path.basename(target)} means"
    if into.name != own.name:
        raise OptionError(f"--like writes the format of TEMPLATE, {own.name}, but {what} {into.name}")
    refuse_false_suffix(own, target)
