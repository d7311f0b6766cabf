"""`ckpt.verify`: is every byte sound?"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.core.words import counted
from formats.find.opening import open_location
from formats.model.verification import Finding, by_cause
from formats.store.work.forked import Forked
from formats.store.work.workers import can_fork

from ..operations.convert.origin import compare_origin, preferred_of
from ..operations.look.contract import Contract
from ..operations.look.verify import Result, check_contract, expand, verify_one
from ..operations.reporting import opened
from .calls import collecting, format_id, lent, location, public
from .changing import key_changes
from .rules import SHARING_RULES, excludes, needs
from .tables import ResultTable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from formats.location import Location
    from formats.model.checkpoint_files import CheckpointLocation
    from formats.model.reader import FormatReader
    from formats.store.work.workers import Workers

    from ..operations.reporting import Reporter
    from .calls import PathLike
    from .changing import KeyChanges

__all__ = [
    "RULES",
    "CheckedCheckpoint",
    "VerifyOptions",
    "VerifyResult",
    "contract_at",
    "signed_contract",
    "verify",
    "verify_each",
]

_THERE_AND_BACK = ("writing", "verifying", "writing back", "verifying back")
"""The stages of a round trip; each reads every byte."""

_SMALL = 64 << 20
"""Bytes of a checkpoint up to which one process reads it alone, where others read others."""

_MANY = 100
_FEWEST_EACH = 4
"""Checkpoints that make processes worth it, however small, and those that each process has at least."""

RULES = (
    needs("--input", "--outputs-like"),
    excludes("--locked", "--against"),
    needs("--signature", "--public-key"),
    needs("--public-key", "--signature"),
    needs("--layout", "--signature"),
    needs("--map", "--signature", "--made-from"),
    needs("--config", "--layout", "--map"),
)


class VerifyOptions(NamedTuple):
    """The checks besides the checkpoint's own structure and checksums."""

    recursive: bool = False
    roundtrip: str | None = None
    outputs_like: Location | None = None
    input: Location | None = None
    trains_like: Location | None = None
    contracts: tuple[Contract, ...] = ()
    locked: bool = False
    made_from: Location | None = None
    changes: KeyChanges | None = None
    """The rules that make the keys, and axes, of `made_from` those of the export."""


def verify_each(
    paths: Sequence[Location], options: VerifyOptions, workers: Workers, reporter: Reporter
) -> list[Result]:
    """Verify the checkpoints at some paths, each once, and continue after findings."""
    places = _places(paths, options, workers.jobs, reporter)
    known = _verify_small(places, workers, reporter)
    found = [
        _verify(place, options, workers, reporter, known.get(number)) for number, place in enumerate(places)
    ]
    found = _with_origins(places, found, reporter)
    # Each tensor of a missing shard is a finding until here: a contract asks which are damaged.
    return [result._replace(findings=by_cause(result.findings)) for result in found]


def _verify_small(
    places: Sequence[CheckpointLocation | Result], workers: Workers, reporter: Reporter
) -> dict[int, Result]:
    """Return the results of small checkpoints by their numbers, if they are many: processes share them."""
    if len(places) < _FEWEST_EACH * workers.jobs or workers.jobs == 1 or not can_fork():
        return {}
    sizes = {
        number: place.nbytes()
        for number, place in enumerate(places)
        if not isinstance(place, Result) and place.store.forks and place.store.scheme != "hf"
    }
    small = {number: nbytes for number, nbytes in sizes.items() if nbytes <= _SMALL}
    if len(small) < _FEWEST_EACH * workers.jobs or (len(small) < _MANY and sum(small.values()) < _SMALL):
        return {}
    chosen = [place for place in map(places.__getitem__, small) if not isinstance(place, Result)]
    results: Forked[CheckpointLocation, Result] = Forked(verify_one, chosen, workers.jobs)
    found = {}
    what = counted(len(small), "checkpoint")
    with reporter.progress(sum(small.values()), what, ("verifying",)) as advance:
        for (number, nbytes), result in zip(small.items(), results, strict=True):
            found[number] = result
            workers.keep(result.nbytes, result.tensors)
            advance(nbytes)
    return found


def _with_origins(
    places: Sequence[CheckpointLocation | Result], found: Sequence[Result], reporter: Reporter
) -> list[Result]:
    """Return results with what differs between a folder's weights of several libraries, if they are sound."""
    sound = {
        place: result.ok for place, result in zip(places, found, strict=True) if not isinstance(place, Result)
    }
    out = []
    for place, result in zip(places, found, strict=True):
        torch = None if isinstance(place, Result) else preferred_of([*sound], place)
        if torch is not None and not isinstance(place, Result) and result.ok and sound[torch]:
            more = compare_origin(place, torch, reporter)
            out.append(result._replace(findings=(*result.findings, *more)))
        else:
            out.append(result)
    return out


def _places(
    paths: Sequence[Location], options: VerifyOptions, jobs: int, reporter: Reporter
) -> list[CheckpointLocation | Result]:
    """Return what to verify; if only `locked` ones are wanted, the checkpoints with a lock file next to
    them.
    """
    if options.locked:
        paths = [path.removesuffix(".lock") for path in paths]
    places, notes = expand(paths, recursive=options.recursive, jobs=jobs)
    if options.locked:
        places = [place for place in places if isinstance(place, Result) or _lock_of(place)]
    for text in (*notes, *(place.note for place in places if not isinstance(place, Result) and place.note)):
        reporter.note(text)
    return places


def _lock_of(place: CheckpointLocation) -> str:
    """Return the lock file next to a checkpoint, or ""."""
    locks = (path + ".lock" for path in (place.head, place.path))
    return next((path for path in locks if path.is_file()), "")


def _verify(
    place: CheckpointLocation | Result,
    options: VerifyOptions,
    workers: Workers,
    reporter: Reporter,
    result: Result | None,
) -> Result:
    """Do all checks of `options`; `result` is that of reading the checkpoint, if it has been read already."""
    if isinstance(place, Result):
        return place
    if result is not None and options == VerifyOptions(options.recursive):
        return result
    total = place.nbytes()
    result = result or _verify_summed(place, workers.expecting(total), total, reporter)
    is_sound = result.ok
    locks = (Contract.listed(_lock_of(place)),) if options.locked else ()
    for contract in (*locks, *options.contracts):
        before = len(result.findings)
        with reporter.progress(total, f"{place.name} against {contract.path}") as advance:
            result = check_contract(result, place, contract, workers, advance)
        if result.ok and len(result.findings) == before and contract.remark:
            reporter.note(f"{result.path}: {contract.remark}")
    if not is_sound:
        return result  # what is damaged proves nothing further
    if options.roundtrip is not None:
        from ..operations.convert.roundtrip import roundtrip

        with reporter.progress(total, place.name, _THERE_AND_BACK) as advance:
            found = roundtrip(place, options.roundtrip, advance)
        result = result._replace(findings=(*result.findings, *found))
    if options.outputs_like is not None:
        result = _compare_outputs(result, options.outputs_like, options.input, reporter)
    if options.trains_like is not None:
        result = _compare_steps(result, options.trains_like, reporter)
    if options.made_from is not None:
        result = _compare_source(result, place, options, reporter)
    return result


def _compare_source(
    result: Result, place: CheckpointLocation, options: VerifyOptions, reporter: Reporter
) -> Result:
    """Return the result with the verdict on each weight: whether it was made of the source's."""
    from ..operations.origin.verdicts import judge

    source = options.made_from
    assert source is not None
    with (
        reporter.progress(place.nbytes(), f"{place.name} made from {source}") as advance,
        opened(source, reporter) as other,
        open_location(place) as export,
    ):
        changed, sources = _given_sources(options.changes, other)
        found = judge(export, changed, advance, sources)
    findings = found.findings(str(place.head))
    if not any(finding.severity == "error" for finding in findings):
        reporter.note(f"{result.path}: {found.summary}")
    computed = {**result.computed, "made_from": found.document()}
    return result._replace(findings=(*result.findings, *findings), computed=computed)


def _verify_summed(place: CheckpointLocation, workers: Workers, total: int, reporter: Reporter) -> Result:
    """Verify one checkpoint and, on the Hub, the sums of its files."""
    if place.store.scheme != "hf":
        with reporter.progress(total, place.name, ("verifying",)) as advance:
            return verify_one(place, workers, advance)
    from ..operations.look.hub_contract import summing

    with summing(place) as sums, reporter.progress(total, place.name, ("verifying",)) as advance:
        result = verify_one(place, workers, advance)
        if not result.listed:
            return result
        found = sums.findings(place)
        if not found:
            reporter.note(f"{result.path}: {sums.remark}")
        return result._replace(findings=(*result.findings, *found), has_checksums=True)


def _compare_steps(result: Result, like: str, reporter: Reporter) -> Result:
    """Return the result with what a training step from both checkpoints left."""
    from ..runtime.steps import compare_steps

    found = compare_steps(result.path, like)
    findings = result.findings
    if found.differing:
        message = (
            f"after one step of {found.optimizer}, {found.differing:,} of {found.variables:,} variables "
            f"differ from those of {like}"
        )
        findings = (*findings, Finding("error", "training", message, None, result.path))
    else:
        what = f"{counted(found.variables, 'variable equals that', 'variables equal those')} of {like}"
        reporter.note(f"{result.path}: after one step of {found.optimizer}, {what}")
    fields = {"like": like, **found._asdict()}
    return result._replace(findings=findings, computed={**result.computed, "training": fields})


def _compare_outputs(result: Result, like: str, input_file: Location | None, reporter: Reporter) -> Result:
    """Return the result with what running the model on both checkpoints gave."""
    from ..runtime.outputs import compare_outputs, read_input

    given = None if input_file is None else read_input(input_file)
    found = compare_outputs(result.path, like, given)
    fields = {"like": like, "input": input_file, **found._asdict()}
    findings = result.findings
    if found.differing:
        message = (
            f"{found.differing:,} of {found.elements:,} outputs differ from those of {like}, "
            f"by up to {found.max_abs:.3g}"
        )
        findings = (*findings, Finding("error", "outputs", message, None, result.path))
    else:
        reporter.note(
            f"{result.path}: {counted(found.elements, 'output equals that', 'outputs equal those')} of {like}"
        )
    return result._replace(findings=findings, computed={**result.computed, "outputs": fields})


def contract_at(path: Location) -> Contract:
    """Return what a saved listing, or a repository of the Hub, says."""
    if path.store.scheme == "hf":
        from ..operations.look.hub_contract import HubContract, is_repository

        if is_repository(path):
            return HubContract(path)
    return Contract.listed(path)


def signed_contract(signature: Location, public_key: Location, changes: KeyChanges) -> Contract:
    """Return what a signature proves; the changes make of a checkpoint what was signed."""
    from ..operations.signing.contract import SignedContract
    from ..operations.signing.keys import public_key as read_key

    return SignedContract(signature, read_key(public_key), partial(_as_signed, changes))


def _given_sources(
    changes: KeyChanges | None, source: FormatReader
) -> tuple[FormatReader, Mapping[str, str]]:
    """Return a source with the axes that a map says, and its key by that of the export."""
    if changes is None:
        return source, {}
    changed, names = _as_signed(changes, source)
    return changed, {new: old for old, new in names.items()} or {key: key for key in changed.specs}


def _as_signed(changes: KeyChanges, reader: FormatReader) -> tuple[FormatReader, Mapping[str, str]]:
    """Return a checkpoint in the layout that was signed, and new names of its keys."""
    layout = changes.framework_layout()
    if layout is not None:
        from formats.model.identity import canonical_names

        from ..operations.convert.framework_layout import lay_out

        return lay_out(reader, [*canonical_names(reader)], layout).reader, {}
    rules = changes.rules()
    if not rules:
        return reader, {}
    from ..operations.select.keys import renamed

    return reader, renamed(reader, rules).changed


# The function -----------------------------------------------------------------------------


class CheckedCheckpoint(NamedTuple):
    """The result of verifying one checkpoint.

    `tensors` and `nbytes` count what was read and found sound. Each finding has `severity` (error or
    warning), `code`, `message`, `key`, `file` and `offset`. `hints` are next steps.
    """

    path: str
    format: str | None
    ok: bool
    tensors: int
    nbytes: int
    findings: tuple[Finding, ...]
    hints: tuple[str, ...]


class VerifyResult(ResultTable[CheckedCheckpoint]):
    """The result of `verify`: a sequence with a `CheckedCheckpoint` for each checkpoint.

    `ok` is True if no finding is an error. `findings` are those of all checkpoints. `to_dict()` is the
    document of `ckpt verify --json`.
    """

    def __init__(self, results: Sequence[Result], notes: Sequence[str], warnings: Sequence[str]) -> None:
        self._found = results
        self._results = [
            CheckedCheckpoint(
                str(one.path), one.format, one.ok, one.tensors, one.nbytes, one.findings, one.hints
            )
            for one in results
        ]
        self.ok = all(one.ok for one in results)
        self.findings = tuple(finding for one in results for finding in one.findings)
        self.notes, self.warnings = tuple(notes), tuple(warnings)

    def to_dict(self) -> dict[str, Any]:
        """Return the document of `ckpt verify --json`, without `schema`."""
        return {"ok": self.ok, "results": [result.document() for result in self._found]}

    def _title(self) -> str:
        sound = sum(one.ok for one in self)
        return f"{sound:,} of {counted(len(self), 'checkpoint')} intact"

    def _names(self) -> Sequence[str]:
        return ("path", "ok", "format", "tensors", "nbytes", "code", "key", "message")

    def _rows(self) -> Iterator[Sequence[Any]]:
        for one in self:
            head = (one.path, one.ok, one.format, one.tensors, one.nbytes)
            for finding in one.findings or (None,):
                yield (*head, *((finding.code, finding.key, finding.message) if finding else (None,) * 3))

    def _count(self) -> int:
        return sum(max(1, len(one.findings)) for one in self)


@public(*RULES, *SHARING_RULES)
def verify(
    *paths: PathLike,
    roundtrip: str | None = None,
    outputs_like: PathLike | None = None,
    input: PathLike | None = None,  # noqa: A002  the option's name
    trains_like: PathLike | None = None,
    against: PathLike | None = None,
    locked: bool = False,
    signature: PathLike | None = None,
    public_key: PathLike | None = None,
    made_from: PathLike | None = None,
    layout: str | None = None,
    map: PathLike | Mapping[str, str] | None = None,  # noqa: A002  the option's name
    config: PathLike | None = None,
    recursive: bool = False,
    jobs: int | None = None,
    executor: str | None = None,
) -> VerifyResult:
    """Check that checkpoints are sound, to the last byte.

    Checks the structure first, then compares every tensor with its stored checksum. A directory means all
    of its checkpoints, and with `recursive` those in subdirectories too. Without `paths`, verifies the
    current directory. Damage is a finding, not an exception, and so is a file that cannot be opened. The
    table has a row for each finding, and for each checkpoint without findings.

    `roundtrip` is a format: converts there and back, and compares. `outputs_like` and `trains_like` are
    other checkpoints of the same model: compares the model's outputs, on the array in the file `input` or
    on seeded numbers, or the weights after one training step. `against` is a saved listing to compare
    with, or a repository of the Hub, `hf://ORG/REPO`: compares files with its sizes and checksums;
    `locked` uses the `.lock` file next to each checkpoint. `signature` is a file of `ckpt.sign`, and
    `public_key` proves it: compares the tensors with those that were signed. `layout`, `map` and
    `config` give the checkpoint the signed names and axes, as in `ckpt.diff`. `made_from` is the
    checkpoint that an exported model was made of: compares each weight with what the source gives.
    `jobs` and `executor` control parallel work.

    Raises CheckpointError if a listing or the other checkpoint cannot be used, and ValueError for invalid
    arguments.

    ```python
    found = ckpt.verify("run")
    assert found.ok, found.findings
    print(found)
    ```
    """
    other, array, trained, listing, source = (
        None if path is None else location(path)
        for path in (outputs_like, input, trains_like, against, made_from)
    )
    contracts: tuple[Contract, ...] = () if listing is None else (contract_at(listing),)
    changes = key_changes(map=map, layout=layout, config=config)
    if signature is not None and public_key is not None:
        contracts += (signed_contract(location(signature), location(public_key), changes),)
    options = VerifyOptions(
        recursive,
        None if roundtrip is None else format_id(roundtrip),
        other,
        array,
        trained,
        contracts,
        locked,
        source,
        changes if map is not None else None,
    )
    with collecting() as collected, lent(jobs, executor) as workers:
        results = verify_each([location(path) for path in paths or (".",)], options, workers, collected)
        return VerifyResult(results, collected.notes, collected.warnings)
