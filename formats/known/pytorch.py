"""PyTorch: what `torch.save` writes of state dicts and training checkpoints.

NAME.pt, .pth, .bin       see `formats.torch.storages`

NAME.bin.index.json       see `formats.model.shards`
NAME-00001-of-00002.bin
NAME-00002-of-00002.bin

Content is data here: `formats.torch.pickle` decodes a pickle and calls nothing. Names other than those that
`torch.load(weights_only=True)` accepts are rejected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..model.checkpoint_files import TORCH_INDEX_SUFFIX
from ..model.foreign import AS_STATE_DICT, Foreign
from ..model.reader import Family, Format
from ..model.shards import broken_index, refuse_without_index
from ..model.weight_map import PYTORCH, shard_suffix
from ..torch.objects import CARRIED, DTYPES_READ
from ..torch.storages import is_torch

if TYPE_CHECKING:
    from ..errors import CheckpointError
    from ..model.probe import Probe
    from ..model.reader import FormatReader
    from ..model.verification import Finding
    from ..model.writer import FormatWriter, WriteTarget


def _sniff(probe: Probe) -> bool:
    if is_torch(probe):
        refuse_without_index(probe.location)
        return True
    return not probe.is_table and shard_suffix(probe.json, probe.location.head) == PYTORCH


def _open(probe: Probe, lenient: bool) -> FormatReader:
    from ..torch.reader import open_torch

    if is_torch(probe):
        return open_torch(probe, FORMAT, lenient=lenient)
    from ..torch.shards import TorchShards

    return TorchShards(probe, FORMAT, lenient=lenient)


def _salvage(probe: Probe, finding: Finding) -> FormatReader | None:
    from ..model.zip_salvage import read_zip_remains

    return read_zip_remains(probe, finding, FORMAT)


_FROM_SCRIPT = "to save its state dict, run in Python: torch.save(torch.jit.load(PATH).state_dict(), OUT)"


def _refusal(probe: Probe) -> CheckpointError | None:
    """Name what PyTorch's programs save and this does not read."""
    path = probe.location.head
    names = {name.rpartition("/")[2] for name in probe.zip.names} if probe.zip is not None else set()
    if {"data.pkl", "constants.pkl"} <= names:
        return Foreign("this is a TorchScript archive, which is not supported", _FROM_SCRIPT).error(path)
    if "data.pkl" in names:
        return Foreign("this is a zip archive with a Python pickle, not a PyTorch file", AS_STATE_DICT).error(
            path
        )
    return broken_index(path, TORCH_INDEX_SUFFIX)


def _create(target: WriteTarget) -> FormatWriter:
    from ..torch.writer import TorchWriter

    return TorchWriter(FORMAT, target)


FORMAT = Format(
    "pytorch",
    "PyTorch state dict or training checkpoint, or its shards",
    Family.ARRAYS,
    (".pt", ".pth", ".bin", TORCH_INDEX_SUFFIX),
    _sniff,
    _open,
    _create,
    DTYPES_READ,
    _salvage,
    _refusal,
    carries=CARRIED,
    keeps_structure=True,
)
