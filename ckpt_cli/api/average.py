"""`ckpt.average`: the element-wise mean of checkpoints."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from formats.errors import ConversionError
from formats.find.opening import is_directory, locate
from formats.find.resolve import spelling
from formats.find.suffixes import refuse_false_suffix

from ..operations.convert.average import last_of, plan_average
from ..operations.convert.execute import execute
from ..operations.reporting import opened
from ..operations.select.arguments import each_once
from .calls import collecting, counting, lent, location, public, target_location
from .rules import SHARING_RULES, VERIFY_RULES, OptionError
from .writing import Job, WriteOptions, WriteResult, carry_out, verify_choice

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from formats.location import Location
    from formats.model.checkpoint_files import CheckpointLocation

    from ..operations.reporting import Reporter
    from .calls import PathLike

__all__ = ["average", "planned_average"]


@contextmanager
def planned_average(
    sources: Sequence[Location], target: Location, last: int | None, options: WriteOptions, reporter: Reporter
) -> Iterator[Job]:
    """Yield what writes the mean of checkpoints, or of the `last` ones of a directory."""
    locations = _locate(sources, last, target, reporter)
    with ExitStack() as stack:
        readers = [stack.enter_context(opened(one, reporter, noted=False)) for one in locations]
        own = readers[-1].format
        why = f"averaging keeps the format, {own.name}"
        if own.writer is None:
            hints = ("convert the sources first, for example to .safetensors",)
            raise ConversionError(f"{why}, and ckpt does not write this format", path=target, hints=hints)
        refuse_false_suffix(own, target, why, "convert the sources or the result to change the format")
        plan = plan_average(readers, target)
        yield Job(plan, partial(execute, plan), options.how(target), f"mean of {len(readers)}")


def _locate(
    sources: Sequence[Location], last: int | None, target: Location, reporter: Reporter
) -> list[CheckpointLocation]:
    """Return what to average: the sources, each once, or the newest of a directory."""
    notes: list[str] = []
    if last is None:
        if len(sources) == 1:
            what = (
                "; to average the newest checkpoints of a directory, pass --last N DIR"
                if is_directory(sources[0])
                else ""
            )
            raise OptionError(f"expected several checkpoints; found one{what}")
        locations, notes = each_once([locate(source) for source in sources])
    else:
        if len(sources) != 1 or not is_directory(sources[0]):
            raise OptionError("--last needs exactly one directory")
        from formats.find.directory import Directory

        locations = last_of(Directory(sources[0]), last, target)
    for text in notes:
        reporter.note(text)
    for found in locations:
        reporter.note(found.note if last is None and found.note else f"averaging {spelling(found)}")
    return locations


@public(*SHARING_RULES, *VERIFY_RULES)
def average(
    *sources: PathLike,
    output: PathLike,
    last: int | None = None,
    verify: str | None = None,
    no_verify: bool = False,
    update_state: bool = False,
    overwrite: bool = False,
    dry_run: bool = False,
    jobs: int | None = None,
    executor: str | None = None,
) -> WriteResult:
    """Write the mean of checkpoints, element by element, in the format of the last one.

    Floating-point tensors are averaged in float64 and rounded once to their own dtype. Everything else comes
    from the last source. With `last`, pass one directory as source; its `last` newest checkpoints are
    averaged. All sources must have the same keys, dtypes and shapes.

    Raises CheckpointExistsError if `output` exists and `overwrite` is false, ConversionError if the sources
    differ, other CheckpointErrors, and ValueError for invalid arguments.

    ```python
    done = ckpt.average("run", last=2, output="run/average-10")
    print(done.target, done.notes)
    ```
    """
    if not sources:
        raise OptionError("missing argument SRC")
    counting("last", last)
    places = [location(source) for source in sources]
    with collecting() as collected, lent(jobs, executor) as workers:
        verify_mode = verify_choice(verify, no_verify=no_verify)
        options = WriteOptions(workers, overwrite, dry_run, verify_mode, update_state)
        with planned_average(places, target_location(output), last, options, collected) as job:
            written = carry_out(job, collected)
        return WriteResult(written, [*collected.notes, *written.outcome.notes], collected.warnings)
