"""The same checkpoint under other keys: what becomes what, and how it is written.

A bundle gets a new index and keeps its data shards (`formats.tf.bundle.rename`); any other format is
rewritten. Both results are next to the target until everything is verified.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from formats.core.words import command_line
from formats.errors import CheckpointExistsError, ConversionError, UnsupportedFeatureError
from formats.find.suffixes import refuse_false_suffix
from formats.model.facts import Nothing, rekeyed
from formats.model.writer import WriteTarget
from formats.store.work.workers import SERIAL, Workers
from formats.tf.bundle.reader import BundleReader
from formats.tf.bundle.rename import BundleRename
from formats.tf.bundle.writer import BundleWriter, bundle_target

from ..select.keys import Renamed, renamed
from .execute import execute
from .plan import FULL, NONE, Move, Outcome, Plan

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from formats.location import Location
    from formats.model.reader import FormatReader

    from ..select.keys import Rules


class Rename(NamedTuple):
    """A renaming that is ready to be carried out; `plan` is what it does, for people and programs."""

    plan: Plan
    changed: dict[str, str]
    bundle: BundleRename | None
    nbytes: int

    def run(
        self,
        *,
        overwrite: bool = False,
        proof: str = FULL,
        dry_run: bool = False,
        workers: Workers = SERIAL,
        advance: Callable[[int], None] = lambda _: None,
    ) -> Outcome:
        """Carry it out."""
        if self.bundle is not None:
            if dry_run:
                return Outcome([*self.plan.notes, *self.bundle.rehearse()])
            notes = self.bundle.run(
                overwrite=overwrite, verify=proof != NONE, workers=workers, advance=advance
            )
            return Outcome([*self.plan.notes, *notes], self.bundle.shares)
        return execute(
            self.plan,
            overwrite=overwrite,
            proof=proof,
            dry_run=dry_run,
            workers=workers,
            advance=advance,
        )


def plan_rename(
    reader: FormatReader,
    target: Location | None,
    rules: Rules,
    *,
    overwrite: bool = False,
    link: bool = False,
    full_names: bool = False,
) -> Rename:
    """Return the renaming of a checkpoint to `target`, or in place where that is None.

    Every rejection happens here: keys that collide, an impossible object graph, an existing target, a
    read-only format.
    """
    _refuse_saved_model(reader)
    _refuse_only_read(reader)
    names = renamed(reader, rules, full_names=full_names)
    if full_names and reader.object_graph is None:
        message = f"{reader.format.name} has no object graph, so there are no full names to change"
        raise ConversionError(message, path=reader.location.path, hints=("remove --full-names",))
    path = reader.location.path if target is None else target
    if isinstance(reader, BundleReader):
        if target is not None:
            _refuse_store(target)
            path = _bundle_prefix(reader, path)
        bundle = BundleRename(reader, path, names.keys, names.object_graph, link=link)
        names.object_graph = None  # It is encoded now, and may be large.
        found = [] if target is None or overwrite else BundleWriter.existing(path)
        _refuse_existing(found)
        return Rename(_plan(reader, path, names), names.changed, bundle, bundle.nbytes)
    if target is None and len(reader.files()) > 1:
        message = f"this checkpoint has {len(reader.files())} files, so it cannot be renamed in place"
        hints = ("to write a new checkpoint, pass DST instead of --in-place",)
        raise ConversionError(message, path=path, hints=hints)
    _refuse_suffix(reader, path)
    _refuse_existing([path] if target is not None and not overwrite and path.exists() else [])
    plan = _plan(reader, path, names)
    if link:
        plan = plan._replace(notes=(*plan.notes, f"{reader.format.name} has no data shards to share"))
    return Rename(plan, names.changed, None, plan.nbytes)


def _plan(reader: FormatReader, path: Location, names: Renamed) -> Plan:
    is_bundle = reader.format.is_bundle  # its values stay in place
    _refuse_unread(reader)
    moves = [
        Move(reader.specs[old]._replace(key=new), old, None if is_bundle else reader[old])
        for old, new in names.keys.items()
    ]
    pieces = {} if is_bundle else {new: reader[old].pieces() for old, new in names.keys.items()}
    return Plan(
        reader.location.path,
        path,
        reader.format.name,
        tuple(sorted(moves, key=lambda move: move.spec)),
        sources=(reader,),
        slices={key: [extents for extents, _ in found] for key, found in pieces.items() if found},
        facts=Nothing() if is_bundle else rekeyed(reader.proved_facts(), names.keys),
        notes=tuple(names.notes),
    )


def _refuse_unread(reader: FormatReader) -> None:
    """Refuse tensors whose bytes cannot be carried, which no option leaves out here."""
    holds, specs = reader.format.holds, reader.specs
    left = [] if reader.format.is_bundle else [key for key in specs if specs[key].dtype.is_unmapped]
    left = [key for key in left if reader.is_unread(key) or not holds(specs[key].dtype)]
    if not left:
        return
    key = left[0]
    message = f"{reader.format.name} cannot be written with dtype {specs[key].dtype}"
    if reader.is_unread(key):
        message = reader.undecoded(key).message
    # Not convert: it may ask for a configuration, and writes no file of Keras's that lacks a tensor.
    rescue = command_line("rescue", reader.location.path)
    hints = (f"to save the other tensors and rename the result: {rescue} OUT",)
    raise UnsupportedFeatureError(message, path=reader.location.path, key=key, hints=hints)


def _refuse_saved_model(reader: FormatReader) -> None:
    directory, name = reader.location.path.absolute().split_name()
    is_named_so = (directory.name, name) == ("variables", "variables")
    if is_named_so and directory.beside("saved_model.pb").is_file():
        message = "these are the variables of a SavedModel, and its saved_model.pb finds them by key"
        hints = ("to write a new checkpoint, pass the same rules to convert",)
        raise ConversionError(message, path=reader.location.path, hints=hints)


def _bundle_prefix(reader: FormatReader, target: Location) -> Location:
    prefix = bundle_target(WriteTarget(target, ())).path
    _refuse_suffix(reader, target)
    return prefix


_CONVERT = "to write another format, pass the same rules to convert"


def _refuse_only_read(reader: FormatReader) -> None:
    """Reject a read-only format for every target."""
    if reader.format.writer is None:
        message = f"rename keeps the format, and ckpt does not write {reader.format.name}"
        raise ConversionError(message, path=reader.location.path, hints=(_CONVERT,))


def _refuse_suffix(reader: FormatReader, target: Location) -> None:
    refuse_false_suffix(reader.format, target, f"rename keeps the format, {reader.format.name}", _CONVERT)


def _refuse_store(target: Location) -> None:
    """Refuse to bring data shards to a store as they are: a conversion copies, by the same rules."""
    if target.is_object():
        hints = ("to write to a bucket, pass the same rules to convert",)
        message = "data shards can only be renamed on a local disk"
        raise UnsupportedFeatureError(message, path=target, hints=hints)


def _refuse_existing(found: Sequence[Location]) -> None:
    if found:
        hints = ("pass --overwrite to replace this checkpoint", "pass --in-place to change SRC itself")
        raise CheckpointExistsError("this path already exists", path=found[0], hints=hints)
