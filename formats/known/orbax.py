"""Orbax: what JAX's programs and `keras.callbacks.OrbaxCheckpoint` save, a folder for each tree.

DIR/_METADATA               see `formats.orbax.tree`
DIR/manifest.ocdbt          see `formats.orbax.values`
DIR/NAME/.zarray            see `formats.orbax.zarr`

STEP/_CHECKPOINT_METADATA   see `formats.model.orbax_files`
STEP/ITEM/_METADATA
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.dtypes import DTYPES
from ..model.orbax_files import is_orbax
from ..model.reader import Family, Format

if TYPE_CHECKING:
    from ..model.probe import Probe
    from ..model.reader import FormatReader
    from ..model.writer import FormatWriter, WriteTarget


def _sniff(probe: Probe) -> bool:
    return is_orbax(probe.location)


def _open(probe: Probe, lenient: bool) -> FormatReader:
    from ..orbax.reader import OrbaxReader

    return OrbaxReader(probe, FORMAT, lenient=lenient)


def _create(target: WriteTarget) -> FormatWriter:
    from ..orbax.orbax_writer import OrbaxWriter

    return OrbaxWriter(FORMAT, target)


_REFUSED = frozenset(("uint4", "uint2"))
"""Types that Orbax does not restore."""

FORMAT = Format(
    "orbax",
    "Orbax checkpoint",
    Family.ARRAYS,
    (),
    _sniff,
    _open,
    _create,
    frozenset(dtype.name for dtype in DTYPES if dtype.is_number and not dtype.is_quantized) - _REFUSED,
    is_tree=True,
    index_last=True,
)
"""A folder is known by its location: `formats.model.orbax_files` looks into it."""
