"""`ckpt.rename`: the same checkpoint under other keys."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from ..operations.convert.rename import Rename, plan_rename
from ..operations.reporting import opened
from .calls import collecting, lent, location, public, target_location
from .changing import KeyChanges, key_changes
from .rules import VERIFY_RULES, OptionError
from .writing import Job, WriteOptions, WriteResult, carry_out, verify_choice

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from formats.location import Location

    from ..operations.reporting import Reporter
    from .calls import PathLike

__all__ = ["RenameOptions", "check_places", "planned_rename", "rename"]


class RenameOptions(NamedTuple):
    """How keys change, and how the checkpoint is written."""

    changes: KeyChanges = KeyChanges()
    full_names: bool = False
    link: bool = False
    write: WriteOptions = WriteOptions()


def check_places(target: str | None, *, in_place: bool) -> None:
    """Raise OptionError if a target is missing, or there is one too many."""
    if in_place and target is not None:
        raise OptionError("--in-place changes SRC itself, so DST cannot be passed")
    if not in_place and target is None:
        raise OptionError("missing argument DST; to change SRC itself, pass --in-place")


@contextmanager
def planned_rename(
    source: Location, target: Location | None, options: RenameOptions, reporter: Reporter
) -> Iterator[tuple[Job, Rename]]:
    """Yield what gives a checkpoint other keys, in place where there is no target."""
    if target is None:
        source.is_object()  # raises for read-only stores, before any request
    rules = options.changes.rules()
    if not rules:
        raise OptionError("there is nothing to change; pass --sub, --strip-prefix, --add-prefix or --map")
    with opened(source, reporter) as reader:
        found = plan_rename(
            reader,
            target,
            rules,
            overwrite=options.write.overwrite,
            link=options.link,
            full_names=options.full_names,
        )
        how = options.write.how(found.plan.target)
        how = how._replace(overwrite=how.overwrite or target is None)
        yield Job(found.plan, found.run, how, nbytes=found.nbytes), found


@public(*VERIFY_RULES)
def rename(
    source: PathLike,
    target: PathLike | None = None,
    *,
    sub: str | Iterable[str] = (),
    strip_prefix: str | None = None,
    add_prefix: str | None = None,
    map: PathLike | Mapping[str, str] | None = None,  # noqa: A002  the option's name
    full_names: bool = False,
    in_place: bool = False,
    link: bool = False,
    verify: str | None = None,
    no_verify: bool = False,
    update_state: bool = False,
    overwrite: bool = False,
    dry_run: bool = False,
    jobs: int | None = None,
) -> WriteResult:
    """Rename the tensors of a checkpoint; keep format and values.

    `sub` is one `REGEX=>REPLACEMENT` or several. `map` is a file, or a mapping of old keys to new ones. In
    object-based checkpoints they apply to object paths. With `in_place`, `source` itself is changed, and
    there is no `target`. `link` shares data shards with `source`. `verify` is full, sent or none.

    Raises CheckpointExistsError if `target` exists and `overwrite` is false, ConversionError if two tensors
    get the same key, other CheckpointErrors, and ValueError for invalid arguments.

    ```python
    done = ckpt.rename("run/ckpt-10", "out/ckpt-10", sub="^net/=>model/")
    print(done.target, done.verified, [tensor.key for tensor in done.tensors])
    ```
    """
    check_places(None if target is None else str(target), in_place=in_place)
    where = None if target is None else target_location(target)
    changes = key_changes(sub, strip_prefix, add_prefix, map)
    with collecting() as collected, lent(jobs) as workers:
        verify_mode = verify_choice(verify, no_verify=no_verify)
        write = WriteOptions(workers, overwrite, dry_run, verify_mode, update_state)
        options = RenameOptions(changes, full_names, link, write)
        with planned_rename(location(source), where, options, collected) as (job, _):
            written = carry_out(job, collected)
        return WriteResult(written, [*collected.notes, *written.outcome.notes], collected.warnings)
