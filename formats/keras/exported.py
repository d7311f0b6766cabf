"""The variables of a model that Keras 3's `export` saved: lists, and no layers.

    variables/N         the variables in the order of `model.variables`
    _all_variables/N    those that the signatures use, in any order: each is stored a second time

The full name of a variable is its path in the model: `dense/kernel`, or in a Sequential
`sequential/dense/kernel`. With another backend than TensorFlow it is `kernel` alone, and only the order
identifies variables. keras/src/export/saved_model.py
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from ..core.chunks import same_bytes
from ..core.words import counted
from ..errors import CorruptCheckpointError
from ..model.object_graph import ROOT
from .layers import edge_spellings, is_seed
from .model import ModelError, Unit, Variable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..model.object_graph import ObjectGraph
    from ..model.reader import FormatReader

_LIST, _TRAINED, _COPIES = "variables", "trainable_variables", "_all_variables"


def _listed(source: FormatReader, graph: ObjectGraph, name: str) -> list[str]:
    """Return the keys of the variables in a list of the root, in order; none if there is no such list."""
    edges = dict(graph.children(ROOT))
    if name not in edges:
        return []
    keys = {node: key for key, (node, _, _) in graph.tensors(source.specs).items()}
    numbered = {
        int(edge): keys[node]
        for edge, node in graph.children(edges[name])
        if edge.isascii() and edge.isdigit() and len(edge) < 10 and node in keys
    }
    return [numbered[number] for number in sorted(numbered)]


def exported_layers(source: FormatReader) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return the layers of an export of Keras 3, each with (key, full name) of its weights.

    Weights that are trained come first.  A layer is the first component of the full names that these
    do not all share.  Returns nothing for any other checkpoint.
    """
    graph = source.object_graph
    if graph is None or not {_LIST, _COPIES} <= dict(graph.children(ROOT)).keys():
        return []
    names, trained = source.full_names, set(_listed(source, graph, _TRAINED))
    listed = [
        key
        for key in _listed(source, graph, _LIST)
        if source.kinds.get(key) == "variable" and not is_seed(source.specs[key], names.get(key, ""))
    ]
    split = [names.get(key, "").split("/") for key in listed]
    shared = itertools.takewhile(
        lambda parts: len(set(parts)) == 1, zip(*(parts[:-2] for parts in split), strict=False)
    )
    above = len(list(shared))
    layers: dict[str, list[tuple[str, str]]] = {}
    for key, parts in sorted(zip(listed, split, strict=True), key=lambda each: each[0] not in trained):
        layers.setdefault(parts[above], []).append((key, "/".join(parts[above:])))
    order = dict.fromkeys(parts[above] for parts in split)
    return [(name, layers[name]) for name in order]


def variable_copies(source: FormatReader) -> dict[str, str]:
    """Return, for each second copy of a variable in an export of Keras 3, the key of the first one.

    Values are compared.  Raises CorruptCheckpointError if a copy has other values.
    """
    graph = source.object_graph if source.format.has_object_graph else None
    if graph is None:
        return {}
    copies = _listed(source, graph, _COPIES)
    names: dict[str, list[str]] = {}
    for key in _listed(source, graph, _LIST) if copies else ():
        names.setdefault(source.full_names.get(key, ""), []).append(key)
    found = {}
    for copy in copies:
        name, spec = source.full_names.get(copy, ""), source.specs[copy]
        same = [
            key
            for key in names.get(name, ())
            if key != copy and source.specs[key]._replace(key=copy) == spec and _is_same(source, key, copy)
        ]
        if same:
            found[copy] = same[0]
        elif len(names.get(name, ())) == 1 and copy not in names[name]:
            message = f"this tensor has the full name of {names[name][0]!r}, {name!r}, but different values"
            raise CorruptCheckpointError(message, path=source.location.path, key=copy, code="entry")
    return found


def _is_same(source: FormatReader, key: str, copy: str) -> bool:
    return same_bytes(source[key].chunks(), source[copy].chunks())


def fill_from_lists(model: Unit, source: FormatReader, graph: ObjectGraph) -> bool:
    """Give every variable of the model its key in an export of Keras 3; False if it is no such export.

    Full names tell which variable is which; where they do not, the order does, as long as the last
    components of the names agree.  Raises ModelError where variables and configuration do not fit.
    """
    names, specs = source.full_names, source.specs
    listed = [key for key in _listed(source, graph, _LIST) if not is_seed(specs[key], names.get(key, ""))]
    if not listed:
        return False
    places = list(_places(model, ()))
    found = _by_names(places, source, listed) or _by_order(places, source, listed)
    for (variable, _), key in zip(places, found, strict=True):
        variable.key = key
    return True


def _places(unit: Unit, above: tuple[str, ...]) -> Iterator[tuple[Variable, tuple[str, ...]]]:
    """Yield variables in the order of `model.variables`, each with the names of the units that it is in.

    A unit has first what is trained of its own, and then what is not; names of models are left out.
    """
    path = above if unit.is_model else (*above, unit.name)
    for variable in sorted(unit.variables(), key=lambda variable: not variable.trainable):
        yield variable, path
    for child in unit.children():
        yield from _places(child, path)


def _by_names(
    places: Sequence[tuple[Variable, tuple[str, ...]]], source: FormatReader, listed: Sequence[str]
) -> list[str]:
    """Return the key for each place by the end of its full name; nothing where these do not tell all."""
    endings: dict[tuple[str, ...], list[str]] = {}
    for key in listed:
        parts = tuple(source.full_names.get(key, "").split("/"))
        for at in range(len(parts)):
            endings.setdefault(parts[at:], []).append(key)
    found = []
    for variable, path in places:
        keys = {key for name in edge_spellings(variable.name) for key in endings.get((*path, name), ())}
        if len(keys) != 1:
            return []
        found.append(keys.pop())
    return found if len(set(found)) == len(found) == len(listed) else []


def _by_order(
    places: Sequence[tuple[Variable, tuple[str, ...]]], source: FormatReader, listed: Sequence[str]
) -> list[str]:
    if len(listed) != len(places):
        has = counted(len(listed), "variable")
        raise ModelError(f"the export has {has}, but the configuration requires {len(places)}")
    for (variable, path), key in zip(places, listed, strict=True):
        name = source.full_names.get(key, "")
        if name.rpartition("/")[2] not in edge_spellings(variable.name):
            wanted = "/".join((*path, variable.name))
            raise ModelError(f"the export has {name!r} where the configuration has {wanted!r}")
    return list(listed)
