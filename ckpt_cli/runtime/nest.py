"""Nested structures: lists, tuples, named tuples and dicts of anything; `tf.nest`.

Dicts are walked in sorted order of keys, not in order of insertion.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from .unknown import accept

__all__ = ["assert_same_structure", "flatten", "is_nested", "map_structure", "pack_sequence_as"]


_SEQUENCES = (list, tuple)


def _is_sequence(value: Any) -> bool:
    return isinstance(value, _SEQUENCES)


_LEAF, _SEQUENCE, _MAPPING = range(3)


@lru_cache(maxsize=1024)
def _nesting(kind: type) -> int:
    """Return what values of a class are; asking an abstract class takes as long as all else for a leaf."""
    return _MAPPING if issubclass(kind, Mapping) else _SEQUENCE if issubclass(kind, _SEQUENCES) else _LEAF


def is_nested(seq: Any) -> bool:
    return _is_sequence(seq) or isinstance(seq, Mapping)


def flatten(structure: Any, expand_composites: bool = False) -> list[Any]:
    """Return the leaves; a value that is not a structure is its own only leaf."""
    nesting = _nesting(structure.__class__)
    if nesting == _LEAF:
        return [structure]
    leaves: list[Any] = []
    for part in structure if nesting == _SEQUENCE else [structure[key] for key in sorted(structure)]:
        if _nesting(part.__class__) == _LEAF:
            leaves.append(part)
        else:
            leaves += flatten(part)
    return leaves


def _like(structure: Any, parts: list[Any]) -> Any:
    """Return a sequence of the kind of `structure`."""
    if structure.__class__ is list:
        return parts
    if hasattr(structure, "_fields"):
        return type(structure)(*parts)
    return tuple(parts) if isinstance(structure, tuple) else parts


def map_structure(func: Callable[..., Any], *structure: Any, **kwargs: Any) -> Any:
    """Return the same structure with `func` of the leaves in each place."""
    accept("map_structure", kwargs, "check_types expand_composites")
    function, structures = func, structure
    first = structures[0]
    if len(structures) == 1:
        return _mapped(function, first)
    for other in structures[1:]:
        assert_same_structure(first, other, kwargs.get("check_types", True))
    return map_up_to(function, *structures)


def map_up_to(function: Callable[..., Any], *structures: Any) -> Any:
    """Return what `map_structure` returns where the structures after the first may go deeper."""
    first = structures[0]
    if isinstance(first, Mapping):
        filled = {key: map_up_to(function, *(one[key] for one in structures)) for key in sorted(first)}
        return {key: filled[key] for key in first}
    if _is_sequence(first):
        return _like(first, [map_up_to(function, *parts) for parts in zip(*structures, strict=True)])
    return function(*structures)


def _mapped(function: Callable[..., Any], structure: Any) -> Any:
    """Return what `map_structure` returns for one structure, which is what most steps of a dataset ask."""
    nesting = _nesting(structure.__class__)
    if nesting == _MAPPING:
        filled = {key: _mapped(function, structure[key]) for key in sorted(structure)}
        return {key: filled[key] for key in structure}
    if nesting == _SEQUENCE:
        return _like(structure, [_mapped(function, part) for part in structure])
    return function(structure)


def pack_sequence_as(structure: Any, flat_sequence: list[Any], expand_composites: bool = False) -> Any:
    """Return leaves packed into the structure they were flattened from."""
    leaves, places = list(flat_sequence), len(flatten(structure))
    if len(leaves) != places:
        raise ValueError(
            f"Could not pack sequence. Structure had {places} atoms, but flat_sequence had {len(leaves)}."
        )
    return _packed(structure, iter(leaves))


def _packed(structure: Any, leaves: Iterator[Any]) -> Any:
    nesting = _nesting(structure.__class__)
    if nesting == _LEAF:
        return next(leaves)
    if nesting == _SEQUENCE:
        parts = []
        for part in structure:
            parts.append(next(leaves) if _nesting(part.__class__) == _LEAF else _packed(part, leaves))
        return _like(structure, parts)
    filled = {}
    keys = sorted(structure)
    for key in keys:
        part = structure[key]
        filled[key] = next(leaves) if _nesting(part.__class__) == _LEAF else _packed(part, leaves)
    return filled if keys == list(structure) else {key: filled[key] for key in structure}


def assert_same_structure(
    nest1: Any, nest2: Any, check_types: bool = True, expand_composites: bool = False
) -> None:
    """Raise ValueError where two structures have other places, TypeError where those are of other kinds."""
    if is_nested(nest1) != is_nested(nest2):
        raise ValueError(f"The two structures don't have the same nested structure: {nest1!r} and {nest2!r}")
    if not is_nested(nest1):
        return
    if check_types and _kind(nest1) is not _kind(nest2):
        raise TypeError(
            "The two structures don't have the same sequence type. First structure has type "
            f"{type(nest1)}, while second structure has type {type(nest2)}."
        )
    if len(nest1) != len(nest2):
        raise ValueError(f"The two structures don't have the same number of elements: {nest1!r}, {nest2!r}")
    if isinstance(nest1, Mapping) and set(nest1) != set(nest2):
        raise ValueError(f"The two dictionaries don't have the same set of keys: {nest1!r} and {nest2!r}")
    places = sorted(nest1) if isinstance(nest1, Mapping) else range(len(nest1))
    for place in places:
        assert_same_structure(nest1[place], nest2[place], check_types)


def _kind(structure: Any) -> type:
    """Return what a structure counts as: a wrapper is what it wraps, and any mapping a dict."""
    if isinstance(structure, Mapping):
        return dict
    kind = type(structure)
    return next(base for base in kind.__mro__ if base in (list, tuple) or "_fields" in vars(base))
