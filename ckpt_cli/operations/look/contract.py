"""Holding a checkpoint against a listing that was saved of it: a contract file, `model.lock`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.core.dtypes import INVALID
from formats.core.spec import key_bytes
from formats.core.words import command_line
from formats.errors import NOT_READ, CheckpointError, UnsupportedFeatureError
from formats.find.opening import open_location, open_reader
from formats.find.resolve import spelling
from formats.model.digest import digests_like
from formats.model.object_names import plain_key
from formats.model.reader import Family
from formats.model.verification import Finding
from formats.store.work.workers import SERIAL, Workers

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from formats.core.spec import TensorSpec
    from formats.location import Location
    from formats.model.checkpoint_files import CheckpointLocation
    from formats.model.reader import FormatReader


class Contract:
    """The tensors that a listing promises; read once for all checkpoints that are compared with it."""

    of_files = False
    """Whether files are compared, even if their tensors cannot be read."""

    def __init__(self, path: Location, specs: Mapping[str, TensorSpec], digests: Mapping[str, str]) -> None:
        self.path = path
        self.specs = specs
        self.digests = digests

    @classmethod
    def listed(cls, path: str) -> Contract:
        """Return what a saved listing says.

        Raises UnsupportedFeatureError if `path` is not a listing, or has no digests.
        """
        with open_reader(path) as reader:
            where = reader.location.path
            if reader.format.has_values:
                message = f"this is a checkpoint ({reader.format.name}); expected a saved listing"
                listed = command_line("ls", spelling(reader.location), "--json", "-l", "--digest", "sha256")
                hints = (f"to make a listing of this checkpoint: {listed} > model.lock",)
                raise UnsupportedFeatureError(message, path=where, hints=hints)
            digests: dict[str, str] = {}
            for key in reader.specs:
                digest = None if reader.is_unread(key) else reader[key].listed_digest
                if digest is None:
                    message = (
                        "the listing has no digest for this tensor, because it was made without --digest"
                    )
                    hints = ("make the listing again with --json -l --digest sha256",)
                    raise UnsupportedFeatureError(message, path=where, key=key, hints=hints)
                digests[key] = digest
            return cls(where, dict(reader.specs), digests)

    @property
    def remark(self) -> str:
        """The fact that the absence of findings proves, if that is worth a note."""
        return ""

    def findings(
        self,
        location: CheckpointLocation,
        workers: Workers = SERIAL,
        advance: Callable[[int], None] = lambda _: None,
        *,
        damage: Collection[Finding] = (),
    ) -> list[Finding]:
        """Return in what a checkpoint is another than the listing says, in the order of keys.

        `advance` is called with the number of read bytes. `damage` are the findings of verifying: the tensors
        that they name are not read again, and an error in reading another is a finding of that one.
        """
        found: dict[str, Finding] = {}
        named = {finding.key for finding in damage}
        with open_location(location, lenient=bool(damage)) as opened:
            reader = self._view(opened)

            def differs(key: str, message: str) -> None:
                found[key] = Finding("error", "contract", message, key, location.head)

            names, covered = self._names_in(reader)
            specs = {names[key]: spec for key, spec in self.specs.items()}
            for key in specs.keys() | covered:
                message = self._spec_flaw(specs.get(key), reader.specs[key] if key in covered else None)
                if message is not None:
                    differs(key, message + _spelled_out(key))
            digests = {names[key]: text for key, text in self.digests.items()}
            settled = found.keys() | named
            listed = {key: text for key, text in digests.items() if key not in settled}
            compared = _digests_one_by_one if damage else digests_like
            for key, text in compared(reader, listed, workers):
                advance(reader.specs[key].nbytes or 0)
                if isinstance(text, CheckpointError):
                    differs(key, f"the values cannot be compared: {text.message}")
                elif text != listed[key]:
                    differs(key, f"the values have digest {text}, but {self.path} has {listed[key]}")
            if not damage:  # otherwise verifying has reported it
                reader.check_unchanged()
        return [found[key] for key in sorted(found, key=key_bytes)]

    def _view(self, reader: FormatReader) -> FormatReader:
        """Return the tensors to compare: those of the checkpoint, as they are."""
        return reader

    def _names_in(self, reader: FormatReader) -> tuple[dict[str, str], Collection[str]]:
        """Return the key of each tensor of the listing, and the keys to compare, which here are all.

        An export of objects has plain keys.
        """
        plain = {}
        if reader.format.family is Family.ARRAYS:
            plain = {reader.own_keys.get(key, key): key for key in reader.specs}
        names = {key: key if key in reader.specs else plain.get(plain_key(key), key) for key in self.specs}
        return names, reader.specs.keys()

    def _spec_flaw(self, listed: TensorSpec | None, spec: TensorSpec | None) -> str | None:
        """Return what dtype and shape, or their absence, say against a tensor."""
        if listed is None:
            return f"the tensor is new: {self.path} does not list it"
        if spec is not None and spec.dtype is INVALID:
            return None  # damage, which verifying names
        if spec is None:
            return (
                f"the tensor is missing: {self.path} lists it as {listed.dtype} of shape {list(listed.shape)}"
            )
        if spec.shape != listed.shape:
            return f"the shape is {list(spec.shape)}, but {self.path} has {list(listed.shape)}"
        if spec.dtype is not listed.dtype and (spec.dtype_name, listed.dtype.name) != (None, ""):
            return f"the dtype is {spec.dtype}, but {self.path} has {listed.dtype}"
        return None


def _spelled_out(key: str) -> str:
    """Return how a key is spelled whose characters may look like others; nothing if all are ASCII."""
    return "" if key.isascii() else f" (spelled {key!a})"


def _digests_one_by_one(
    reader: FormatReader, listed: Mapping[str, str], workers: Workers
) -> Iterator[tuple[str, str | CheckpointError]]:
    """Yield digests as `digests_like` does, or what keeps a tensor from being read; the others are read on.

    A file that cannot be opened has no findings by tensor.
    """
    for key, text in listed.items():
        try:
            yield from digests_like(reader, {key: text}, workers)
        except CheckpointError as error:
            if error.code not in NOT_READ:
                yield key, error
