"""The verdict on each weight of an export: pair it by name, else by order and shape, and prove it by value.

A value alone proves nothing where layers of one shape could have changed places: names tell which is which,
or the order in which the operations of both use them.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from .bounds import Closeness, closeness, is_bounded
from .naming import LayerNames
from .records import EQUAL, OTHER, PROVED, UNPAIRED, WITHIN, Derivation, Origins, WeightOrigin
from .rules import DerivationRules, Target
from .source import SourceLayer, source_layers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy as np

    from formats.core.spec import TensorSpec
    from formats.model.operation_nodes import OperationNode
    from formats.model.reader import FormatReader

    Array = np.ndarray[Any, Any]

_MOST_HELD = 1 << 28
"""Bytes of source tensors that are kept for the next weight."""

_WEIGHTED = frozenset(
    (
        *(
            "CONV_2D",
            "DEPTHWISE_CONV_2D",
            "FULLY_CONNECTED",
            "TRANSPOSE_CONV",
            "UNIDIRECTIONAL_SEQUENCE_LSTM",
        ),
        *("Conv", "ConvTranspose", "Gemm", "Gemm(transB)", "LSTM", "GRU", "RNN", "BatchNormalization"),
    )
)
"""Operations whose stored inputs are weights, even if they are one number."""


_NEVER = {
    **dict.fromkeys(("MUL", "Mul"), ("beta", "bias")),
    **dict.fromkeys(("ADD", "Add", "SUB", "Sub"), ("gamma",)),
}
"""The roles of weights that an operation does not use."""


class Use(NamedTuple):
    """Where a weight is used first: the number of the operation, the operation, and as which input."""

    order: int
    operation: str
    position: int
    names: tuple[str, ...]


class Proof(NamedTuple):
    """A derivation with what comparing it gave."""

    way: Derivation
    found: Closeness


class Paired(NamedTuple):
    """A weight with its verdict, and whether its name alone tells which layer it belongs to."""

    origin: WeightOrigin
    way: Derivation | None = None
    is_named: bool = True
    shape: tuple[int, ...] = ()


class Values:
    """Source tensors that were read; the last ones are kept."""

    def __init__(self, reader: FormatReader) -> None:
        self._reader = reader
        self._held: dict[str, Array] = {}

    def __call__(self, key: str) -> Array:
        if key not in self._held:
            array = self._reader[key].read()
            if sum(each.nbytes for each in self._held.values()) + array.nbytes > _MOST_HELD:
                self._held.clear()
            self._held[key] = array
        return self._held[key]


class Judge:
    """Holds the weights of an export against a source."""

    def __init__(self, export: FormatReader, source: FormatReader) -> None:
        self._export = export
        self._source = source
        self._values = Values(source)
        self._layers = source_layers(source)
        normalizing = [one for one in self._layers if one.is_batch_normalization]
        scales = [one for one in self._layers if {"gamma", "beta"} == one.weights.keys()]
        self._rules = DerivationRules(source.specs, normalizing, scales)
        self._uses = _uses(export.nodes())
        names = [*export.specs, *(name for use in self._uses.values() for name in use.names)]
        self._names = LayerNames(self._layers, names)

    def judge(self, advance: Callable[[int], None] = lambda _: None) -> Origins:
        """Return the verdict on every weight; `advance` is told how many bytes were compared."""
        found: dict[str, Paired] = {}
        constants = 0
        for key, spec in self._export.specs.items():
            if self._is_weight(key, spec):
                found[key] = self._pair(key, spec)
            else:
                constants += 1
            advance(spec.stored_nbytes or 0)
        checked = _in_order(found, self._uses, self._layers)
        weights = tuple(checked[key] for key in found)
        made = {source for one in weights if one.verdict in PROVED for source in one.sources}
        held = {key: None for layer in self._layers for key in layer.weights.values()}
        unused = tuple(key for key in held if key not in made)
        return Origins(self._source.location.path, weights, unused, constants)

    def _is_weight(self, key: str, spec: TensorSpec) -> bool:
        """Whether a tensor is a weight, rather than a shape, an axis or a number in a formula."""
        if spec.dtype.is_unmapped or key in self._source.specs:
            return True
        if self._export.kinds.get(key) in ("slot", "optimizer", "graph"):
            return False
        if not spec.dtype.is_floating:
            return spec.dtype.name in ("int8", "uint8", "int4", "uint4") and spec.size > 1
        use = self._uses.get(key)
        if spec.size > 1 or (use is not None and use.operation in _WEIGHTED):
            return True
        mentions = self._names.mentioned(key)
        specs = self._source.specs
        return any(specs[each].size == 1 for one in mentions for each in one.layer.weights.values())

    def _pair(self, key: str, spec: TensorSpec) -> Paired:
        if spec.dtype.is_unmapped:
            return Paired(WeightOrigin(key, (), f"values of {spec.dtype} cannot be read", UNPAIRED))
        use = self._uses.get(key)
        target = Target(spec.shape, use.operation, use.position) if use else Target(spec.shape)
        layers, is_named = self._mentioned(key, use)
        ways = self._of_role(key, list(self._ways(layers, target)))
        if not ways and is_named:
            layers, is_named = self._layers, False
            ways = list(self._ways(layers, target))
        if not ways:
            return Paired(WeightOrigin(key, (), "no tensor of the source has a fitting shape", UNPAIRED))
        proofs = self._proofs(key, spec, ways)
        proved = [proof for proof in proofs if proof.found.is_proved]
        if not proved and spec.stored_as is not None and not is_bounded(spec.stored_as):
            rule = f"no bound is known for {spec.stored_as.name}"
            return Paired(WeightOrigin(key, (), rule, UNPAIRED))
        if not proved:
            return Paired(_refuted(key, proofs, is_sure=is_named or _is_only(ways)))
        best = next((proof for proof in proved if proof.found.is_equal), proved[0])
        if spec.stored_as is not None and self._differ(proved, target):
            rule = f"values of {_sources(proved)} are all within the quantization"
            return Paired(WeightOrigin(key, (), rule, UNPAIRED))
        sure = len(self._kernels(ways)) == 1 if is_named else len({way.layer for way in ways}) == 1
        return Paired(_proved(key, best, spec), best.way, sure, spec.shape)

    def _mentioned(self, key: str, use: Use | None) -> tuple[Sequence[SourceLayer], bool]:
        """Return the layers that may have made a weight, and whether the weight's own name tells them."""
        own = [mention.layer for mention in self._names.mentioned(key)]
        if own:
            return own, True
        for name in use.names if use else ():
            found = [mention.layer for mention in self._names.mentioned(name)]
            if found:
                return found, len(found) == 1
        return self._layers, False

    def _of_role(self, key: str, ways: list[Derivation]) -> list[Derivation]:
        """Return the ways that make the weight of the role that a key names, if it names one."""
        roles = {part for one in self._names.mentioned(key) for part in one.rest if part in one.layer.weights}
        found = [way for way in ways if way.signature[1] in roles]
        operation = self._uses[key].operation if key in self._uses else ""
        return found or [way for way in ways if way.signature[1] not in _NEVER.get(operation, ())]

    def _kernels(self, ways: Sequence[Derivation]) -> set[int]:
        """Return the layers of some ways; of a layer and the BatchNormalization behind it, that layer."""
        layers = {way.layer for way in ways}
        return {layer for layer in layers if not self._layers[layer].is_batch_normalization} or layers

    def _ways(self, layers: Sequence[SourceLayer], target: Target) -> Iterator[Derivation]:
        for layer in layers:
            yield from self._rules.of_layer(layer, target, layers if len(layers) < len(self._layers) else ())

    def _proofs(self, key: str, spec: TensorSpec, ways: Sequence[Derivation]) -> list[Proof]:
        array = self._export[key].read()
        return [Proof(way, closeness(spec, array, way.compute(self._values))) for way in ways]

    def _differ(self, proofs: Sequence[Proof], target: Target) -> bool:
        """Whether several sources are within the bound that are not the same values."""
        several = {proof.way.sources: proof.way for proof in proofs}
        if len(several) < 2:
            return False
        values = [way.compute(self._values).values.astype("f8") for way in several.values()]
        first = values[0].reshape(target.shape)
        return any((abs(first - other) > 1e-6 * abs(first).max(initial=0)).any() for other in values[1:])


def _uses(nodes: Iterator[OperationNode]) -> dict[str, Use]:
    found: dict[str, Use] = {}
    for order, node in enumerate(nodes):
        for position, key in enumerate(node.inputs):
            if key:
                found.setdefault(key, Use(order, node.operation, position, node.names))
    return found


def _is_only(ways: Sequence[Derivation]) -> bool:
    return len({way.sources for way in ways}) == 1


def _sources(proofs: Sequence[Proof]) -> str:
    return " and ".join(sorted({repr(proof.way.sources[0]) for proof in proofs})[:3])


def _proved(key: str, proof: Proof, spec: TensorSpec) -> WeightOrigin:
    way, found = proof
    rule = way.rule
    if spec.stored_as is not None and found.step:
        rule = f"{rule}, dequantized from {spec.stored_as.name}; "
        rule += f"differences below {found.step / 2:.2g} do not show"
    verdict = EQUAL if found.is_equal else WITHIN
    return WeightOrigin(key, way.sources, rule, verdict, found.max_error, found.allowed)


def _refuted(key: str, proofs: Sequence[Proof], *, is_sure: bool) -> WeightOrigin:
    """Return the verdict on a weight that no rule gives; it names the nearest."""
    nearest = min(proofs, key=lambda proof: proof.found.max_error)
    way, found = nearest
    if not is_sure:
        rule = f"no tensor of its shape has its values; the nearest is {way.sources[0]!r}"
        return WeightOrigin(key, (), rule, UNPAIRED, found.max_error, found.allowed)
    return WeightOrigin(key, way.sources, way.rule, OTHER, found.max_error, found.allowed)


def _in_order(
    found: Mapping[str, Paired], uses: Mapping[str, Use], layers: Sequence[SourceLayer]
) -> dict[str, WeightOrigin]:
    """Return verdicts, less those on weights that names do not tell and whose order is another's."""
    groups: dict[tuple[Any, ...], list[tuple[int, str, int]]] = defaultdict(list)
    for key, one in found.items():
        if one.way is not None and not one.is_named:
            order = uses[key].order if key in uses else -1
            groups[one.way.signature, one.shape].append((order, key, one.way.layer))
    origins = {key: one.origin for key, one in found.items()}
    for members in groups.values():
        for key, layer in _misplaced(sorted(members)).items():
            name = layers[layer].name
            rule = f"has the values of {name}, but neither its name nor its place says that it belongs there"
            origins[key] = WeightOrigin(key, (), rule, UNPAIRED)
    return origins


def _misplaced(members: Sequence[tuple[int, str, int]]) -> dict[str, int]:
    """Return the weights whose order contradicts that of the layers they have the values of."""
    found: dict[str, int] = {}
    for at, (order, key, layer) in enumerate(members):
        before, after = members[:at], members[at + 1 :]
        if (
            order < 0
            or any(other >= layer for _, _, other in before)
            or any(other <= layer for _, _, other in after)
        ):
            found[key] = layer
    return found


def judge(
    export: FormatReader, source: FormatReader, advance: Callable[[int], None] = lambda _: None
) -> Origins:
    """Return what each weight of an export was made of."""
    return Judge(export, source).judge(advance)
