"""The variables that Keras 3's `export` stores twice; a conversion by meaning takes each once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.keras.exported import variable_copies

from ..plan import Dropped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from formats.model.reader import FormatReader


def without_copies(reader: FormatReader, keys: Sequence[str]) -> tuple[list[str], list[Dropped]]:
    """Return keys without those of second copies, and the copies that are left out."""
    copies = variable_copies(reader)
    dropped = [Dropped(key, "another tensor stores the same variable") for key in keys if key in copies]
    return [key for key in keys if key not in copies], dropped
