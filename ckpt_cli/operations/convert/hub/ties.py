"""Weights tied to other ones, which are left out: the warning if their values differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from formats.core import notices
from formats.core.chunks import same_bytes
from formats.errors import ConversionError, leave_out

from ...select.view import DerivedReader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from formats.model.reader import FormatReader

    from ...select.relations import Relation


class Tie(NamedTuple):
    """A tensor that is left out: what it would be in PyTorch, and the tensor to which it is tied there."""

    relation: Relation
    partner: str

    @property
    def source(self) -> str:
        return self.relation.sources[0]


def warn_of_unequal_ties(reader: FormatReader, relations: Sequence[Relation], ties: Sequence[Tie]) -> None:
    """Warn of each tensor whose values are not those of the tensor to which it is tied.

    transformers ties the two when it loads a model, and so ignores them.  Raises ConversionError if the
    other tensor is missing.
    """
    if not ties:
        return
    laid = DerivedReader(reader, [*relations, *(tie.relation for tie in ties)])
    for tie in ties:
        if tie.partner not in laid.specs:
            message = f"this tensor is tied to {tie.partner!r}, which is missing"
            raise ConversionError(message, key=tie.source, hints=(leave_out(tie.source),))
        mine, other = laid[tie.relation.targets[0]], laid[tie.partner]
        if mine.spec[1:3] != other.spec[1:3] or not same_bytes(mine.chunks(), other.chunks()):
            notices.warn(
                f"{reader.location.path}: left out {tie.source!r}, although its values differ "
                f"from those of {tie.partner!r}; transformers ties the two tensors and "
                "ignores these values"
            )
