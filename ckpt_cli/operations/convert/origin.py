"""Whether a folder's TensorFlow or Flax weights are the same weights as its PyTorch ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.core.chunks import same_bytes
from formats.errors import ConversionError
from formats.find.opening import open_location
from formats.find.resolve import HUB_WEIGHTS
from formats.model.verification import Finding

from .framework_layout import lay_out
from .hub.layout import layout_note
from .requested_layout import PYTORCH, FrameworkLayout

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from formats.model.checkpoint_files import CheckpointLocation
    from formats.model.reader import FormatReader

    from ..reporting import Reporter

_OF_PYTORCH = (".safetensors", ".bin", ".safetensors.index.json", ".bin.index.json")
_OLD_NAMES = ((".gamma", ".weight"), (".beta", ".bias"))
"""Names of LayerNorm's parameters in old PyTorch files."""


def preferred_of(
    places: Sequence[CheckpointLocation], other: CheckpointLocation
) -> CheckpointLocation | None:
    """Return the PyTorch weights in the folder of other weights, if there are any."""
    if other.name not in HUB_WEIGHTS or other.name.endswith(_OF_PYTORCH):
        return None
    folder = other.head.parent
    there = {
        place.name: place
        for place in places
        if place.head.parent == folder and place.name in HUB_WEIGHTS and place.name.endswith(_OF_PYTORCH)
    }
    return there[min(there, key=HUB_WEIGHTS.index)] if there else None


def compare_origin(
    other: CheckpointLocation, torch: CheckpointLocation, reporter: Reporter
) -> Iterator[Finding]:
    """Yield the tensors that differ between two libraries; a note says why weights cannot be compared."""
    with open_location(other) as left, open_location(torch) as right:
        if layout_note(left) is None:
            return
        try:
            laid = lay_out(left, list(left.specs), FrameworkLayout(PYTORCH)).reader
        except ConversionError as error:
            reporter.note(f"{other.path} was not compared with {torch.name}: {error.message}")
            return
        found = list(_differences(laid, right))
        if not found:
            reporter.note(f"{other.path} has the same weights as {torch.name}")
        for key, message in found:
            yield Finding("warning", "origin", f"{message} {torch.name}", key, other.path)


def _differences(left: FormatReader, right: FormatReader) -> Iterator[tuple[str, str]]:
    """Yield keys and what is different; what PyTorch ties or computes may be on one side alone."""
    theirs = {_new_name(key): key for key in right.specs}
    for key, spec in left.specs.items():
        if key not in theirs:
            if left.kinds.get(key) == "variable":
                yield key, "the tensor is missing in"
            continue
        other = right.specs[theirs[key]]
        if (spec.dtype, spec.shape) != (other.dtype, other.shape):
            found = f"{spec.dtype} {list(spec.shape)} here, but {other.dtype} {list(other.shape)}"
            yield key, f"the tensor is {found} in"
        elif not same_bytes(left[key].chunks(), right[theirs[key]].chunks()):
            yield key, "the values differ from those in"
    shared = [right[theirs[key]] for key in left.specs if key in theirs]
    for name, key in theirs.items():
        tensor = right[key]
        if name in left.specs or not tensor.spec.dtype.is_floating:
            continue
        twins = [one for one in shared if one.spec[1:3] == tensor.spec[1:3]]
        if not any(same_bytes(one.chunks(), tensor.chunks()) for one in twins):
            yield name, "the tensor exists only in"


def _new_name(key: str) -> str:
    for old, new in _OLD_NAMES:
        if key.endswith(old):
            return key.removesuffix(old) + new
    return key
