"""Pairing within a layer: what `--like` knows of an HDF5 file beyond names.

A layer of keras-h5 is one object.  So where some of its weights are paired, all of it lies
at or below one path of the object graph, and a weight whose full name is not unique in the
whole model may be so there: each of two blocks has a variable named `scale`.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from formats.model.reader import CheckpointReader


def pairs_within_layers(
    h5: CheckpointReader, objects: CheckpointReader, paired: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield (key in `h5`, key in `objects`) of weights that their layer and full name tell apart.

    `paired` gives the key in `objects` for each key of `h5` that has one already.
    """
    taken = set(paired.values())
    paths = objects.object_paths
    for layer in h5.metadata["layers"]:
        held = [paths[paired[key]] for key in layer["weights"] if key in paired]
        if not held:
            continue
        above = _common([path.split("/")[:-1] for path in held])
        for key in layer["weights"]:
            if key in paired:
                continue
            name = h5.full_names[key]
            below = [
                other
                for other, full_name in objects.full_names.items()
                if full_name == name and other not in taken and _is_below(paths.get(other, ""), above)
            ]
            same = [other for other in layer["weights"] if h5.full_names[other] == name]
            if len(below) == len(same) == 1:
                yield key, below[0]


def _common(paths: Sequence[Sequence[str]]) -> str:
    """Return the path that all of these begin with."""
    shared = itertools.takewhile(lambda names: len(set(names)) == 1, zip(*paths, strict=False))
    return "/".join(names[0] for names in shared)


def _is_below(path: str, above: str) -> bool:
    return not above or path.startswith(f"{above}/")
