"""`ckpt.convert`: the same tensors in another format, or in another checkpoint's structure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from formats.errors import CheckpointError
from formats.model.writer import COMPRESSIONS

from ..operations.convert.optimizers import GENERATIONS, OptimizerOptions, known_optimizer
from ..operations.convert.resume import Resume
from ..operations.reporting import opened
from .calls import (
    choice,
    collecting,
    counting,
    floating,
    format_id,
    lent,
    location,
    public,
    selection,
    target_location,
)
from .changing import keeps_stored, key_changes
from .conversion import LARGEST_RATE, MOST_STEPS, RULES, ConvertOptions, convert_one
from .rules import CHOOSING_RULES, PLAIN, SHARING_RULES, VERIFY_RULES, OptionError
from .run_conversion import convert_run
from .tables import ResultTable
from .writing import WriteOptions, WriteResult, verify_choice

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from formats.location import Location

    from ..operations.reporting import Collected
    from .calls import PathLike
    from .writing import Written

__all__ = ["RunConversion", "convert"]


class RunConversion(ResultTable[WriteResult]):
    """A converted run directory: a sequence with a `WriteResult` for each checkpoint.

    `errors` lists the damaged checkpoints, which were not converted. `to_dict()` is the document of
    `ckpt convert --each --json`.
    """

    def __init__(
        self, directory: str, results: Sequence[WriteResult], errors: Sequence[CheckpointError]
    ) -> None:
        self.directory = str(directory)
        self.errors = tuple(errors)
        self.notes: tuple[str, ...] = ()
        self.warnings: tuple[str, ...] = ()
        self._results = results

    def to_dict(self) -> dict[str, Any]:
        """Return the document of `ckpt convert --each --json`, without `schema`."""
        return {"directory": self.directory, "checkpoints": [result.to_dict() for result in self]}

    def _title(self) -> str:
        return f"{self.directory}: {len(self):,} checkpoints"

    def _names(self) -> Sequence[str]:
        return ("source", "target", "format", "tensors", "verification")

    def _rows(self) -> Iterator[Sequence[Any]]:
        return ((one.source, one.target, one.format, len(one.tensors), one.verification) for one in self)


@public(*CHOOSING_RULES, *SHARING_RULES, *VERIFY_RULES, *RULES)
def convert(
    source: PathLike,
    target: PathLike,
    *keys: str,
    match: str | Iterable[str] = (),
    exclude: str | Iterable[str] = (),
    regex: bool = False,
    ignore_case: bool = False,
    dtype: str | None = None,
    kind: str | Iterable[str] | None = None,
    sub: str | Iterable[str] = (),
    strip_prefix: str | None = None,
    add_prefix: str | None = None,
    map: PathLike | Mapping[str, str] | None = None,  # noqa: A002  the option's name
    to: str | None = None,
    like: PathLike | None = None,
    config: PathLike | None = None,
    layout: str | None = None,
    key_names: str = PLAIN,
    pair_by_shape: bool = False,
    partial: bool = False,
    keep_optimizer: bool = False,
    save_map: PathLike | None = None,
    iterations: int | None = None,
    learning_rate: float | None = None,
    optimizer: str | None = None,
    generation: str | None = None,
    weights_only: bool = False,
    cast: str | None = None,
    shard_size: int | None = None,
    compress: str | None = None,
    merge_slices: bool = False,
    link: bool = False,
    resume: bool = False,
    verify: str | None = None,
    no_verify: bool = False,
    update_state: bool = False,
    overwrite: bool = False,
    dry_run: bool = False,
    each: bool = False,
    jobs: int | None = None,
    executor: str | None = None,
) -> WriteResult | RunConversion:
    """Convert a checkpoint to another format, or to the structure of another checkpoint.

    `to` is the id or short name of a format; without it, the suffix of `target` decides. `like` is a
    checkpoint that gives keys, object graph and layout; the values of `source` are paired with it by name.
    `pair_by_shape`, `partial`, `keep_optimizer` and `save_map` control the pairing. `config` is a Keras
    model configuration. `layout` is pytorch, tensorflow or flax. `keys` to `kind` and `weights_only` select
    tensors. `sub` to `map` change keys. With the `key_names` plain, keys of objects lose
    `/.ATTRIBUTES/VARIABLE_VALUE` in formats without objects; stored keeps it.

    `iterations` and `learning_rate` give what an optimizer state needs and `source` lacks, `optimizer` its
    class. `generation` is keras2 or keras3, the Keras that restores a `tf-object` or `keras-weights`
    target. `cast` is the dtype of floating-point tensors. `shard_size` limits the bytes per data shard.
    `compress` is zstd, for orbax targets. `link` shares files with `source`. `resume` keeps progress if the
    call fails, and continues if you repeat it. `verify` is full, sent or none. With `each`, `source` and
    `target` are run directories, and the result is a `RunConversion`. With `dry_run` nothing is written.
    `jobs` and `executor` control parallel work.

    Raises CheckpointExistsError if `target` exists and `overwrite` is false, ConversionError if the target
    format cannot store a tensor, other CheckpointErrors, and ValueError for invalid arguments.

    ```python
    done = ckpt.convert("run/ckpt-10", "weights.safetensors", weights_only=True)
    print(done.target, done.verified, [(tensor.source, tensor.key) for tensor in done.tensors])
    ```
    """
    _check_numbers(iterations, learning_rate, shard_size)
    if generation is not None:
        choice("generation", generation, GENERATIONS)
    if compress is not None:
        choice("compress", compress, COMPRESSIONS)
    with collecting() as collected, lent(jobs, executor) as workers:
        verify_mode = verify_choice(verify, no_verify=no_verify)
        options = ConvertOptions(
            selection(
                keys,
                match,
                exclude,
                regex=regex,
                ignore_case=ignore_case,
                dtype=dtype,
                kind="variable" if weights_only else kind,
            ),
            key_changes(sub, strip_prefix, add_prefix, map, layout=layout, config=config),
            None if to is None else format_id(to),
            None if like is None else location(like),
            pair_by_shape,
            partial,
            keep_optimizer,
            None if save_map is None else target_location(save_map),
            OptimizerOptions(iterations, learning_rate, None if optimizer is None else _optimizer(optimizer)),
            keeps_stored(key_names),
            None if cast is None else floating(cast),
            generation,
            shard_size,
            compress,
            merge_slices,
            link,
            None,
            WriteOptions(workers, overwrite, dry_run, verify_mode, update_state),
        )
        if resume:
            options = options._replace(resume=Resume(_resumed_by(options)))
        return _convert(location(source), target_location(target), options, collected, each=each)


def _check_numbers(iterations: int | None, learning_rate: float | None, shard_size: int | None) -> None:
    counting("iterations", iterations, 0)
    counting("shard-size", shard_size)
    if iterations is not None and iterations > MOST_STEPS:
        raise OptionError(f"--iterations: {iterations} is too large; expected at most {MOST_STEPS}")
    if learning_rate is not None and not 0 < learning_rate <= LARGEST_RATE:
        raise OptionError(
            f"--learning-rate: {learning_rate} is not valid; expected a positive number up to {LARGEST_RATE}"
        )


def _optimizer(name: str) -> str:
    try:
        return known_optimizer(name)
    except ValueError as error:
        raise OptionError(f"--optimizer: {error}") from error


def _resumed_by(options: ConvertOptions) -> dict[str, str]:
    """Return the options that the bytes depend on, as text, by which a conversion is found again."""
    kept = options._replace(save_map=None, write=WriteOptions(), resume=None)
    plain = ConvertOptions()
    return {
        name: str(value)
        for name, value, default in zip(kept._fields, kept, plain, strict=True)
        if value != default
    }


def _convert(
    source: Location, target: Location, options: ConvertOptions, collected: Collected, *, each: bool
) -> WriteResult | RunConversion:
    results: list[WriteResult] = []

    def report(written: Written) -> None:
        results.append(WriteResult(written, [*collected.notes, *written.outcome.notes], collected.warnings))

    try:
        if each:
            found = convert_run(source, target, options, collected, report)
        else:
            with opened(source, collected) as reader:
                convert_one(reader, target, options, collected, report)
    except CheckpointError as error:
        if options.resume is not None and options.resume.has_kept:
            error.hints = (*error.hints, "to resume, repeat the call with resume=True")
        raise
    if options.resume is not None:
        options.resume.forget()
    if not each:
        (result,) = results
        result.warnings = tuple(collected.warnings)  # includes those about the source
        return result
    errors = [member.error for member in found.damaged if member.error is not None]
    run = RunConversion(found.target, results, errors)
    run.notes, run.warnings = tuple(collected.notes), tuple(collected.warnings)
    return run
