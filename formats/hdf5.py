"""hdf5: any HDF5 file that Keras did not write; its numeric and string datasets by path.

    <path>    a dataset; the path has no leading slash

A soft link to a dataset of the same file is one more name of it.  What leads out of the
file is refused, see formats.h5.safe.  Datasets of other types (compounds, references,
variable-length arrays) are named in `metadata["unlisted"]`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .dtypes import INVALID
from .h5.reader import H5Reader
from .h5.safe import MOST_SOFT_LINKS
from .model import Format

if TYPE_CHECKING:
    from .probe import Probe

__all__ = ["FORMAT", "Hdf5Reader"]


class Hdf5Reader(H5Reader):
    """Any HDF5 file's datasets."""

    format: Format

    def __init__(self, probe: Probe, *, lenient: bool) -> None:
        from h5py import h5d

        assert probe.hdf5 is not None
        file = probe.hdf5.file
        super().__init__(probe.location, [file], lenient=lenient)
        self.format = FORMAT
        for path, found in file.walk(self.flaw, soft=True):
            if isinstance(found, h5d.DatasetID):
                self.add(path, file, path, found, soft=MOST_SOFT_LINKS)
        damaged = {finding.key for finding in self.findings}
        self._unlisted = sorted(
            key for key, spec in self._specs.items() if spec.dtype is INVALID and key not in damaged
        )
        for key in self._unlisted:
            del self._specs[key]
        self.seal()

    @property
    def metadata(self) -> dict[str, Any]:
        return {"producer": None, "version": None, "unlisted": self._unlisted}


def _sniff(probe: Probe) -> bool:
    facts = probe.hdf5
    return facts is not None and not facts.is_keras_h5 and not facts.is_keras_weights


def _open(probe: Probe, lenient: bool) -> Hdf5Reader:
    return Hdf5Reader(probe, lenient=lenient)


FORMAT = Format("hdf5", "HDF5 file", (".h5", ".hdf5"), _sniff, _open)
