"""The rest of an HDF5 file that was cut off, or whose signature is damaged."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..model.probe import Probe

if TYPE_CHECKING:
    from ..model.reader import Format, FormatReader
    from .library.cut import CutFile


class _Mended(NamedTuple):
    probe: Probe
    cut: CutFile

    def close(self) -> None:
        self.probe.close()


def _mended(probe: Probe) -> _Mended | None:
    """Return a probe of the file padded with zeros, for `Probe.result_of`, or None if it is not HDF5."""
    from .facts import H5Facts, h5_facts
    from .library.cut import CutFile, find_damaged_superblock
    from .safe import open_h5

    superblock = find_damaged_superblock(probe.head)
    if superblock is None:
        return None
    path = probe.location.head
    cut = CutFile(path.open(), superblock)
    file = open_h5(path, cut.size, superblock, cut.source, natively=False)
    return _Mended(Probe(probe.location, {h5_facts: H5Facts(file)}), cut)


def read_h5_remains(probe: Probe, format: Format) -> FormatReader | None:  # noqa: A002  the word of the field
    """Return a reader of a format's file, which knows its gap; None if the file is another's."""
    mended = probe.result_of(_mended)
    if mended is None or not format.sniff(mended.probe):
        return None
    reader = format.reader(mended.probe, True)
    reader.gap = mended.cut
    return reader
