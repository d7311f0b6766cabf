"""PyTorch's distributed checkpoints: what `torch.distributed.checkpoint.save` writes, read as one.

DIR/.metadata         see `formats.torch.dcp`
DIR/__0_0.distcp

Content is data here, as in PyTorch's other files: names in it are never imported or called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..model.checkpoint_files import is_dcp_metadata
from ..model.reader import Family, Format
from ..torch.objects import DTYPES_READ

if TYPE_CHECKING:
    from ..model.probe import Probe
    from ..model.reader import FormatReader


def _sniff(probe: Probe) -> bool:
    return is_dcp_metadata(probe.head)


def _open(probe: Probe, lenient: bool) -> FormatReader:
    from ..torch.dcp import DcpReader

    return DcpReader(probe, FORMAT, lenient=lenient)


FORMAT = Format(
    "pytorch-dcp",
    "PyTorch distributed checkpoint",
    Family.ARRAYS,
    (),
    _sniff,
    _open,
    None,
    DTYPES_READ,
    index_last=True,
)
