"""How transformers 4.41 renames the weights of its TensorFlow and Flax models, for all architectures.

transformers/modeling_tf_pytorch_utils.py: convert_tf_weight_name_to_pt_weight_name
transformers/modeling_flax_pytorch_utils.py: load_flax_weights_in_pytorch_model
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from formats.core.axes import Permute

if TYPE_CHECKING:
    from formats.core.axes import Change

TENSORFLOW, FLAX = "tensorflow", "flax"

_DOUBLED = re.compile(r"/[^/]*___([^/]*)/")
_CONVOLUTIONS = {3: Permute((2, 1, 0)), 4: Permute((3, 2, 0, 1))}
_TF_LAST = {
    "kernel": "weight",
    "embeddings": "weight",
    "gamma": "weight",
    "beta": "bias",
    "pointwise_kernel": "pointwise.weight",
    "depthwise_kernel": "depthwise.weight",
}
_TF_KERNELS = ("kernel", "pointwise_kernel", "depthwise_kernel")
_TRANSPOSED_LEVELS = ("emb_projs", "out_projs")
_FLAX_LAST = {"kernel": "weight", "scale": "weight", "embedding": "weight"}
_COLLECTIONS = ("params", "batch_stats")


class PyTorchName(NamedTuple):
    """The name of a tensor in PyTorch, and what is done to its axes."""

    name: str
    changes: tuple[Change, ...] = ()


def of_tensorflow(name: str, rank: int) -> PyTorchName:
    """Return what a variable of this full name is called in PyTorch."""
    name = _DOUBLED.sub(r"/\1/", name.removesuffix(":0"))
    levels = re.sub("//+", "/", name.replace("_._", "/")).split("/")
    if len(levels) > 1:  # otherwise it is a variable of the model itself, which has no scope
        levels = levels[1:]
    last = levels[-1]
    changes: tuple[Change, ...] = ()
    if last == "kernel" and rank in _CONVOLUTIONS:
        changes = (_CONVOLUTIONS[rank],)
    elif rank > 1 and (last in _TF_KERNELS or any(level in levels for level in _TRANSPOSED_LEVELS)):
        changes = (Permute(),)
    return PyTorchName(".".join([*levels[:-1], _TF_LAST.get(last, last)]), changes)


def of_flax(levels: tuple[str, ...], rank: int) -> PyTorchName:
    """Return what a leaf at the end of these levels is called in PyTorch."""
    if len(levels) > 1 and levels[0] in _COLLECTIONS:
        levels = levels[1:]
    last = levels[-1]
    changes: tuple[Change, ...] = ()
    if last == "kernel" and rank > 1:
        changes = (_CONVOLUTIONS[rank] if rank == 4 else Permute(),)
    if last in _FLAX_LAST:
        last = _FLAX_LAST[last]
    elif "mean" in last:
        last = "running_mean"
    elif "var" in last:
        last = "running_var"
    return PyTorchName(".".join((*levels[:-1], last)), changes)
