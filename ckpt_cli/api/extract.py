"""`ckpt.extract`: tensors of a checkpoint into files that other programs read."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ..operations.convert.extract import Output, output_of, plan_extract, write
from ..operations.convert.framework_layout import lay_out
from ..operations.convert.plan import NONE, SENT
from ..operations.reporting import opened
from ..operations.select.selection import Selection
from ..operations.select.slices import TensorSlice, find_parts, whole
from .calls import collecting, floating, lent, location, public, selection, target_location
from .changing import KeyChanges, keeps_stored, key_changes
from .rules import CHOOSING_RULES, PLAIN, OptionError, needs
from .writing import Job, WriteOptions, WriteResult, carry_out, note_cast

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from formats.core.dtypes import DType
    from formats.location import Location

    from ..operations.reporting import Reporter
    from .calls import PathLike

__all__ = ["RULES", "ExtractOptions", "extract", "output_named", "planned_extract"]

RULES = (needs("--config", "--layout", "--map"),)


class ExtractOptions(NamedTuple):
    """The options of an extraction: tensors, parts, names and format; `selection` lacks the `keys`."""

    keys: tuple[str, ...] = ()
    selection: Selection = Selection()
    changes: KeyChanges = KeyChanges()
    cast: DType | None = None
    stored_keys: bool = False
    """Whether keys of objects keep their suffix."""

    write: WriteOptions = WriteOptions()


def output_named(target: Location) -> Output:
    """Return the kind of output for a target. Raises OptionError if its name does not show it."""
    try:
        return output_of(target)
    except ValueError as error:
        raise OptionError(str(error)) from error


@contextmanager
def planned_extract(
    path: Location, output: Output, options: ExtractOptions, reporter: Reporter
) -> Iterator[Job]:
    """Yield what writes the chosen tensors."""
    chosen = options.selection
    layout = options.changes.framework_layout(every_map=True)
    with opened(path, reporter) as reader:
        parts = find_parts(reader, options.keys, chosen)
        by_name = bool(options.keys or chosen.keep or chosen.kinds or chosen.dtype)
        laid = lay_out(reader, whole(parts, path), layout) if layout is not None else None
        if laid is not None:
            parts = [TensorSlice(key, spec) for key, spec in laid.reader.specs.items()]
        plan = plan_extract(
            laid.reader if laid else reader,
            parts,
            output,
            cast=options.cast,
            by_name=by_name,
            stored_keys=options.stored_keys,
        )
        plan = laid.source_plan(plan) if laid else plan
        note_cast(plan, options.cast, reporter)
        how = options.write.how(plan.target)
        how = how._replace(proof=how.proof if output.is_proven or how.proof == SENT else NONE)
        yield Job(plan, partial(write, plan, output), how)


@public(*CHOOSING_RULES, *RULES)
def extract(
    path: PathLike,
    *keys: str,
    output: PathLike,
    match: str | Iterable[str] = (),
    exclude: str | Iterable[str] = (),
    regex: bool = False,
    ignore_case: bool = False,
    dtype: str | None = None,
    kind: str | Iterable[str] | None = None,
    cast: str | None = None,
    map: PathLike | Mapping[str, str] | None = None,  # noqa: A002  the option's name
    config: PathLike | None = None,
    layout: str | None = None,
    key_names: str = PLAIN,
    overwrite: bool = False,
    dry_run: bool = False,
    jobs: int | None = None,
) -> WriteResult:
    """Write tensors, or parts of them, to files for other programs.

    `output` ends in `.npy` (one tensor), `.npz`, `.safetensors`, `.h5` or `.json`, or in `/` for a
    directory with one `.npy` file per tensor. A KEY may have a slice, as in `kernel[0:10,:]`. `keys` to
    `kind` select tensors as on the command line. `cast` is the dtype of floating-point tensors. `map`,
    `layout` and `config` give the names and axes of another framework. With the `key_names` plain, keys of
    objects lose `/.ATTRIBUTES/VARIABLE_VALUE`; stored keeps it.

    Raises CheckpointExistsError if `output` exists and `overwrite` is false, ConversionError if the format of
    `output` cannot store a tensor, other CheckpointErrors, and ValueError for invalid arguments.

    ```python
    done = ckpt.extract("run/ckpt-10", kind="variable", output="weights.npz")
    print([(tensor.key, tensor.dtype, tensor.shape) for tensor in done.tensors])
    ```
    """
    where = location(path)
    target = output_named(target_location(output))
    with collecting() as collected, lent(jobs) as workers:
        options = ExtractOptions(
            keys,
            selection((), match, exclude, regex=regex, ignore_case=ignore_case, dtype=dtype, kind=kind),
            key_changes(map=map, layout=layout, config=config),
            None if cast is None else floating(cast),
            keeps_stored(key_names),
            WriteOptions(workers, overwrite, dry_run),
        )
        with planned_extract(where, target, options, collected) as job:
            written = carry_out(job, collected)
        return WriteResult(written, [*collected.notes, *written.outcome.notes], collected.warnings)
