"""`config.json`: the description of a model in a folder of Hugging Face's libraries, next to its weights.

It is shown, and nothing is made by it.  A file of this name that speaks of no such model is another's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import CheckpointError
from ..store.content_cache import whole
from ..wire.jsontext import parse_object
from .checkpoint_files import HUB_INDEXES

if TYPE_CHECKING:
    from ..location import Location
    from .checkpoint_files import CheckpointLocation

_NAME = "config.json"
_LARGEST = 1 << 20
_WHOLE = ("model.safetensors", "pytorch_model.bin", "tf_model.h5", "flax_model.msgpack")
"""The names of a folder's weights if they are in one file."""

_MARKS = ("model_type", "architectures", "_class_name")
_OF_GOOGLE = "vocab_size"
"""A field of Google's configurations in the manner of transformers, which do not name the architecture."""


class HubConfig(NamedTuple):
    """A configuration of Hugging Face's libraries, or of Google's models, and its path."""

    content: dict[str, Any]
    path: Location


def read_hub_config(path: Location) -> HubConfig | None:
    """Return the configuration in a file; None for a file of another kind, such as Keras' configuration."""
    with path.open() as file:
        if file.size > _LARGEST or not file.read(0, 64).lstrip().startswith(b"{"):
            return None
        content = whole(file)
    try:
        found = parse_object(content)
    except ValueError:  # no JSON
        return None
    if "class_name" in found:
        return None
    return HubConfig(found, path) if any(mark in found for mark in (*_MARKS, _OF_GOOGLE)) else None


def hub_config(location: CheckpointLocation) -> dict[str, Any] | None:
    """Return the configuration next to a model's weights, or None if there is none, or it cannot be read."""
    name = location.head.name
    if not name.endswith(HUB_INDEXES) and name not in _WHOLE:
        return None
    path = location.head.parent / _NAME
    if not path.is_file():
        return None
    try:
        with path.open() as file:
            found = parse_object(whole(file)) if file.size <= _LARGEST else None
    except (CheckpointError, ValueError):  # ValueError: no JSON
        return None
    return found if found is not None and any(mark in found for mark in _MARKS) else None
