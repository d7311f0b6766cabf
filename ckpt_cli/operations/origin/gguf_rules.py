"""The changes that converters to GGUF make to weights, by the architecture that the file names."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from formats.exports.gguf import GgufFacts

from .gguf_names import MADE, block_role, origin_of
from .records import Derivation, Expected

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from formats.core.spec import TensorSpec
    from formats.model.reader import FormatReader

    from .values import Rows, Values

    Array = np.ndarray[Any, Any]

_ROTATED = frozenset(
    (
        *("llama", "llama4", "deci", "granite", "granitemoe", "minicpm", "arctic", "baichuan", "xverse"),
        *("smollm3", "mistral3", "apertus", "ernie4_5", "refact"),
    )
)
"""Architectures whose q and k have the two halves of each head interleaved, for rope on neighbours."""

_SHIFTED = ("gemma", "nemotron")
"""How the names of architectures begin whose norms may be stored plus 1."""

_CONV1D = frozenset(("attn_qkv.weight", "attn_output.weight", "ffn_up.weight", "ffn_down.weight"))
"""Weights that GPT-2 keeps with inputs first."""

_HALF_SLACK = 2.0**-10
"""How far arithmetic in float16 may be off, which converters do not widen."""

_INTERMEDIATE = ("float16", "bfloat16")
"""Types of the files that most quantized ones are made from."""


class Recipe(NamedTuple):
    """The change to a source tensor, in words, and how many rows are computed together."""

    words: str
    apply: Callable[[Array], Array]
    granule: int | None = 1
    slack: float = 0.0
    """How far arithmetic may be off, relative to the values."""


class GgufRules:
    """Makes derivations for the tensors of a GGUF file."""

    def __init__(self, export: FormatReader, source: FormatReader) -> None:
        facts = export.facts
        self._metadata: Mapping[str, Any] = facts.metadata if isinstance(facts, GgufFacts) else {}
        self._is_gguf = isinstance(facts, GgufFacts)
        self._architecture = str(self._metadata.get("general.architecture", ""))
        self._specs = source.specs
        self._exported = export.specs

    def is_made(self, key: str) -> bool:
        """Whether a tensor is computed from the configuration."""
        return self._is_gguf and key in MADE and key not in self._specs

    def ways(self, key: str) -> list[Derivation]:
        """Return the ways to make a tensor; none if its name is not known."""
        keys = origin_of(key, self._specs) if self._is_gguf else ()
        if not keys:
            return []
        spec, number = self._exported[key], len(keys)
        if number > 1 or block_role(key).partition(".")[0].endswith("_exps"):
            found = [_stack(key, keys)] if self._is_stack(keys, spec.shape) else []
            return [
                *found,
                *(more for way in found for more in _intermediate(way, spec, self._specs[keys[0]])),
            ]
        found = [
            Derivation(keys, recipe.words, 0, ("gguf", key), partial(_made, keys[0], recipe), recipe.granule)
            for recipe in self._recipes(key, self._specs[keys[0]].shape, spec.shape)
        ]
        return [*found, *(more for way in found for more in _intermediate(way, spec, self._specs[keys[0]]))]

    def _is_stack(self, keys: tuple[str, ...], shape: tuple[int, ...]) -> bool:
        return all((len(keys), *self._specs[key].shape) == shape for key in keys)

    def _recipes(self, key: str, before: tuple[int, ...], after: tuple[int, ...]) -> Iterator[Recipe]:
        role = block_role(key)
        if key in self._specs and before == after:
            yield Recipe("unchanged", _same)
            return
        if role == "ssm_a" and before == after:
            yield Recipe("the negative exponential", _negative_exponential, slack=4 * 2.0**-24)
            return
        if self._architecture == "gpt2" and role in _CONV1D:
            if before[::-1] == after:
                yield Recipe("transposed (1, 0)", np.transpose, None)
            return
        if self._architecture == "bloom" and role.startswith("attn_qkv.") and before == after:
            yield from self._regrouped(before)
            return
        if before != after:
            if [size for size in before if size != 1] == [size for size in after if size != 1]:
                yield Recipe(f"reshaped to {list(after)}", partial(np.reshape, shape=after), None)
            return
        yield from self._usual(role, before)

    def _usual(self, role: str, shape: tuple[int, ...]) -> Iterator[Recipe]:
        heads = self._heads(role)
        is_rotated = self._architecture in _ROTATED and heads is not None
        if is_rotated and heads and shape[0] % (2 * heads) == 0:
            size = shape[0] // heads
            yield Recipe("halves of each head interleaved", partial(_interleaved, size=size), size)
            return
        yield Recipe("unchanged", _same)
        if self._architecture.startswith(_SHIFTED) and "norm" in role and role.endswith("weight"):
            yield Recipe("plus 1", _plus_one)

    def _heads(self, role: str) -> int | None:
        """Return the number of heads of q or k; None of other tensors."""
        name = {"attn_q": "head_count", "attn_k": "head_count_kv"}.get(role.partition(".")[0])
        if name is None:
            return None
        prefix = f"{self._architecture}.attention."
        count = self._metadata.get(prefix + name, self._metadata.get(prefix + "head_count"))
        return count if type(count) is int and count > 0 else None

    def _regrouped(self, shape: tuple[int, ...]) -> Iterator[Recipe]:
        heads = self._heads("attn_q")
        if heads and shape and shape[0] % (3 * heads) == 0:
            yield Recipe("q, k and v of all heads apart", partial(_distance, heads=heads), None)


def _made(key: str, recipe: Recipe, read: Values, rows: Rows | None) -> Expected:
    source = read.part(key, 0, rows)
    values = recipe.apply(source)
    if not recipe.slack:
        return Expected(values)
    return Expected(values, np.abs(values) * (_HALF_SLACK if source.dtype == np.float16 else recipe.slack))


def _stack(key: str, keys: tuple[str, ...]) -> Derivation:
    return Derivation(keys, "experts stacked", 0, ("gguf", key), partial(_experts, keys), 1)


def _experts(keys: tuple[str, ...], read: Values, rows: Rows | None) -> Expected:
    chosen = keys if rows is None else keys[rows.start : rows.stop]
    return Expected(np.stack([read(key) for key in chosen]))


def _intermediate(way: Derivation, spec: TensorSpec, source: TensorSpec) -> Iterator[Derivation]:
    """Yield the ways through a file of half the size, which is what most are quantized from."""
    if spec.stored_as is None or len(spec.shape) < 2:
        return
    for name in _INTERMEDIATE:
        if source.dtype.name != name and source.dtype.is_floating:
            rule = f"{way.rule}, cast to {name}"
            yield way._replace(rule=rule, compute=partial(_cast, way, name))


def _cast(way: Derivation, name: str, read: Values, rows: Rows | None) -> Expected:
    from formats.core.dtypes import dtype_named

    found = way.compute(read, rows)
    with np.errstate(over="ignore"):
        return found._replace(values=found.values.astype(dtype_named(name).numpy))


def _same(array: Array) -> Array:
    return array


def _plus_one(array: Array) -> Array:
    wide = array if array.dtype == np.float16 else array.astype(np.float32)
    found: Array = wide + wide.dtype.type(1)
    return found


def _negative_exponential(array: Array) -> Array:
    with np.errstate(over="ignore"):
        found: Array = -np.exp(array.astype(np.float64))
    return found


def _interleaved(array: Array, size: int) -> Array:
    rest = array.shape[1:]
    return array.reshape(-1, 2, size // 2, *rest).swapaxes(1, 2).reshape(array.shape)


def _distance(array: Array, heads: int) -> Array:
    rest = array.shape[1:]
    return array.reshape(heads, 3, array.shape[0] // heads // 3, *rest).swapaxes(0, 1).reshape(array.shape)
