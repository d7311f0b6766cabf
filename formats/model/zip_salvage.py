"""The rest of a zip whose directory is damaged: the complete members before it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..wire.magic import ZIP
from .probe import Probe, zip_archive

if TYPE_CHECKING:
    from ..store.archive.reader import Archive
    from .reader import Format, FormatReader
    from .verification import Finding


def mended_zip(probe: Probe) -> Archive | None:
    """Return the archive that the members make, for `Probe.result_of`; None where none is left."""
    if not probe.head.startswith(ZIP):
        return None
    from ..store.archive.reader import Archive

    archive = Archive.salvaged(probe.location.head)
    return archive if archive.names else None


def read_zip_remains(probe: Probe, finding: Finding, format: Format) -> FormatReader | None:  # noqa: A002  the word of the field
    """Return a reader of the members, or None if they are of another format.

    The error that prevented opening the file is a finding of the reader, unless all members are there.
    """
    archive = probe.result_of(mended_zip)
    if archive is None:
        return None
    mended = Probe(probe.location, {zip_archive: archive})
    if not format.sniff(mended):
        return None
    reader = format.reader(mended, True)
    if not archive.is_complete:
        reader.findings.append(finding)
    return reader
