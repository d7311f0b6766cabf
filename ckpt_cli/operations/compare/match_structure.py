"""Pair the weights of an Orbax or Flax tree with those of a TensorFlow or Keras checkpoint, by structure.

    params/Dense_1/kernel    float32 [5, 3]    dense_1/kernel of a .keras file

No library restores one from the other, and no name is the same.  Shapes, numbers of layers and words of names
propose the pairs, which a map for `convert --like` then has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.core.dtypes import BY_NAME
from formats.model.reader import Family

from ..convert.keras.sides import side_of
from ..convert.optimizers import OptimizerOptions
from ..select.proposal import Candidate, propose
from .match import BY_STRUCTURE, Match, Mismatch, RestoredPair

if TYPE_CHECKING:
    from formats.model.reader import FormatReader

    from ..select.proposal import Proposal

_WORDS = {"scale": "gamma", "var": "variance"}
"""What Keras calls weights of Flax."""

_MODELS = (Family.KERAS, Family.TENSORFLOW)
_FLOAT = BY_NAME["float32"]
"""Represents every floating-point dtype: training in another one changes no structure."""


def is_tree_with_model(checkpoint: FormatReader, target: FormatReader) -> bool:
    """Whether one is a tree of arrays, and the other a checkpoint of TensorFlow or Keras."""
    sides = (checkpoint.format, target.format)
    return any(one.is_tree for one in sides) and any(one.family in _MODELS for one in sides)


def match_by_structure(checkpoint: FormatReader, target: FormatReader) -> tuple[Match, list[Proposal]]:
    """Return the weights that are paired, where nothing else fits as well, and every pair with its reason."""
    mine, theirs = _weights(checkpoint), _weights(target)
    proposals = propose(mine, theirs)
    pairs = [(pair.source, pair.target) for pair in proposals if not pair.ambiguous]
    dtypes = [
        Mismatch(key, checkpoint.specs[source].dtype.name, target.specs[key].dtype.name)
        for source, key in pairs
        if checkpoint.specs[source].dtype is not target.specs[key].dtype
    ]
    used, given = ({pair[side] for pair in pairs} for side in (0, 1))
    unmatched = sorted(each.key for each in theirs if each.key not in given)
    unused = [each.key for each in mine if each.key not in used]
    differ = {found.key for found in dtypes}
    restored = [RestoredPair(key, source) for source, key in pairs if key not in differ]
    existing = not unmatched and not dtypes
    found = Match(
        checkpoint.location.path,
        target.location.path,
        existing and not unused,
        existing,
        sorted(restored, key=lambda pair: pair.checkpoint),
        unmatched,
        unused,
        [],
        sorted(dtypes),
        [],
        by=BY_STRUCTURE,
    )
    return found, proposals


def _weights(reader: FormatReader) -> list[Candidate]:
    """Return the weights of a checkpoint by the names that tell most: of a Keras file its model's."""
    side = None if reader.format.is_tree else side_of(reader, OptimizerOptions())
    names = reader.full_names if side is None else side.full_names
    paths, kinds = reader.object_paths, reader.kinds
    found = []
    for key, spec in reader.specs.items():
        if kinds.get(key) == "variable":
            plain = spec._replace(dtype=_FLOAT) if spec.dtype.is_floating else spec
            name = names.get(key) or paths.get(key) or key
            found.append(Candidate(key, _in_keras(name, reader) if reader.format.is_tree else name, plain))
    return found


def _in_keras(name: str, reader: FormatReader) -> str:
    """Return a tree's name of a weight in Keras' words; a bias next to a scale is beta there."""
    parts = name.split("/")
    at = len(parts) - 1 - (parts[-1] == "value" and len(parts) > 1)
    beside = "/".join([*parts[:at], "scale", *parts[at + 1 :]])
    word = "beta" if parts[at] == "bias" and beside in reader.specs else _WORDS.get(parts[at], parts[at])
    return "/".join([*parts[:at], word])
