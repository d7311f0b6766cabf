"""PyTorch: what `torch.save` writes of state dicts and training checkpoints.

NAME.pt, .pth, .bin     see `formats.torch.storages`

What is in it is data here: a pickle is gone through by `formats.torch.pickle`, which calls
nothing, and names beside those that `torch.load(weights_only=True)` takes are refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..model.reader import Family, Format
from ..torch.objects import DTYPES_READ
from ..torch.storages import LEGACY_MAGIC, pickle_of

if TYPE_CHECKING:
    from ..model.probe import Probe
    from ..model.reader import CheckpointReader


def _sniff(probe: Probe) -> bool:
    return probe.head.startswith(LEGACY_MAGIC) or (probe.zip is not None and pickle_of(probe.zip) is not None)


def _open(probe: Probe, lenient: bool) -> CheckpointReader:
    from ..torch.reader import open_torch

    return open_torch(probe, FORMAT, lenient=lenient)


FORMAT = Format(
    "pytorch",
    "PyTorch state dict or training checkpoint",
    Family.ARRAYS,
    (".pt", ".pth", ".bin"),
    _sniff,
    _open,
    None,
    DTYPES_READ,
)
