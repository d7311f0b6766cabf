"""Holding a checkpoint against a signed statement: whether these are those tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.core.words import counted, first_of
from formats.model.identity import canonical_names
from formats.model.object_names import plain_key
from formats.model.verification import Finding
from formats.store.work.workers import SERIAL, Workers

from ..look.contract import Contract
from ..select.view import DerivedReader
from .envelope import PAYLOAD_TYPE, Envelope, read_envelope
from .statement import Statement, read_statement

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from formats.location import Location
    from formats.model.checkpoint_files import CheckpointLocation
    from formats.model.reader import FormatReader

    from .keys import PublicKey

    View = Callable[[FormatReader], tuple[FormatReader, Mapping[str, str]]]

_NOTHING = Statement({}, {}, "", "")


class SignedContract(Contract):
    """The tensors of a signed statement, and whether a key proves it.

    `view` returns a checkpoint in the names and layout that were signed, and new names for its keys. Raises
    UnsupportedFeatureError if `path` is not an envelope.
    """

    def __init__(self, path: Location, key: PublicKey, view: View) -> None:
        self._flaw, statement = _proved(read_envelope(path), key)
        super().__init__(path, statement.specs, statement.digests)
        self._source = statement.source
        self._as_signed = view
        self._renamed: Mapping[str, str] = {}
        self._remarks: list[str] = []
        self._is_of_this = True

    def findings(
        self,
        location: CheckpointLocation,
        workers: Workers = SERIAL,
        advance: Callable[[int], None] = lambda _: None,
        *,
        damage: Collection[Finding] = (),
    ) -> list[Finding]:
        """Return why the signature proves nothing, or in what a checkpoint is another than was signed."""
        if self._flaw:
            return [Finding("error", "signature", self._flaw, None, self.path)]
        found = super().findings(location, workers, advance, damage=damage)
        if found and not self._is_of_this:
            message = (
                f"this is the signature of another checkpoint, {self._source[:80]!a}; none of its "
                "tensors is here"
            )
            return [Finding("error", "signature", message, None, self.path)]
        return found

    @property
    def remark(self) -> str:
        return "; ".join(
            (f"{counted(len(self.specs), 'tensor matches', 'tensors match')} {self.path}", *self._remarks)
        )

    def _view(self, reader: FormatReader) -> FormatReader:
        found, self._renamed = self._as_signed(reader)
        self._remarks = _changes(found, self._renamed)
        return found

    def _names_in(self, reader: FormatReader) -> tuple[dict[str, str], Collection[str]]:
        """Return the key of each tensor that was signed, and the keys of the tensors that signing covers."""
        names = canonical_names(reader, self._renamed)
        keys = {name: key for key, name in names.items()}
        self._is_of_this = not keys.keys().isdisjoint(self.specs)
        return {name: keys.get(name, name) for name in self.specs}, names.keys()


def _changes(view: FormatReader, renamed: Mapping[str, str]) -> list[str]:
    """Return which tensors were renamed, transposed or computed to match the signed names and axes."""
    moved, made = dict(renamed), []
    if isinstance(view, DerivedReader):
        moved |= {key: name for name, (key, *others) in _joined(view) if not others and key != name}
        made = [f"{' + '.join(keys)} -> {name}: {view.operations[name]}" for name, keys in _joined(view)]
        made = [text for text in made if not text.endswith(": ")]
    changes_made = []
    if moved:
        names = [f"{plain_key(old)} -> {plain_key(new)}" for old, new in moved.items()]
        changes_made.append(f"{len(names):,} were renamed: {first_of(names)}")
    if made:
        changes_made.append(f"{len(made):,} have other axes: {first_of(made)}")
    return changes_made


def _joined(view: DerivedReader) -> list[tuple[str, tuple[str, ...]]]:
    return [(name, keys) for name, keys in view.origins.items() if keys]


def _proved(envelope: Envelope, key: PublicKey) -> tuple[str, Statement]:
    """Return why an envelope proves nothing, or nothing and its statement.

    The payload is read only once the signature is known to be the key's.
    """
    if envelope.payload_type != PAYLOAD_TYPE:
        kind = ascii(envelope.payload_type[:80])
        return f"the signature has a payload of type {kind}; expected {PAYLOAD_TYPE!r}", _NOTHING
    if not envelope.signatures:
        return "this file has no signature", _NOTHING
    if not envelope.is_signed_by(key):
        return f"this file was not signed with the key {key.path}", _NOTHING
    try:
        return "", read_statement(envelope.payload)
    except ValueError as error:
        return f"the signed payload does not describe the tensors of a checkpoint: {error}", _NOTHING
