"""The verdict on each weight of an export: paired by name, or by order and shape, and proved by value."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from .bounds import is_bounded
from .connections import folded_by_names
from .epsilons import fitted, with_epsilon
from .flow import Flow, Use
from .gates import STATES
from .gguf_rules import GgufRules
from .naming import LayerNames
from .order import Paired, in_order, of_calls, of_partners
from .proving import Proof, Prover
from .records import EQUAL, OTHER, PROVED, UNPAIRED, WITHIN, Derivation, Origins, Target, WeightOrigin
from .roles import is_open, named_roles, of_family, of_row
from .rules import DerivationRules, cut_off
from .source import SourceLayer, source_layers
from .values import Values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy as np

    from formats.core.spec import StoredType, TensorSpec
    from formats.model.reader import FormatReader

    Array = np.ndarray[Any, Any]

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


_LOOKUPS = frozenset(("GATHER", "Gather"))
"""Operations whose outputs are rows of the weight, so that a calibration on some rows cuts off others."""

_INTEGERS = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767)}

_SHAPING = frozenset(("Expand", "Slice"))
"""Operations that shape the state of a recurrent layer before the first step."""

_ASSUMED = (", assumed)", ", assumed), without a bias")
_MOST_FITTED = 4
"""Ways for which an epsilon is computed: the nearest."""

_SMALL = 1 << 20
"""Elements of a tensor that may be a constant of the graph."""


class Attempt(NamedTuple):
    """Ways to make a weight, and whether its name, or that of its operation, names their layer."""

    ways: list[Derivation]
    is_named: bool = True
    is_guess: bool = False
    """Whether these are layers that no name mentions, although some are mentioned."""

    behind: frozenset[int] = frozenset()
    """The layers that only operations behind that of the weight mention: its own, or the next."""


class Judge:
    """Compares the weights of an export with a source.

    `given_sources` says of keys of the export which key of the source they are made of.
    """

    def __init__(
        self, export: FormatReader, source: FormatReader, given_sources: Mapping[str, str] | None = None
    ) -> None:
        self._export = export
        self._source = source
        self._given_sources = given_sources or {}
        self._values = Values(source)
        self._prover = Prover(export, self._values)
        self._layers = source_layers(source)
        normalizing = [one for one in self._layers if one.is_batch_normalization]
        scales = [one for one in self._layers if {"gamma", "beta"} == one.weights.keys()]
        biased = [
            one._replace(weights={"bias": one.weights["bias"]})
            for one in self._layers
            if {"kernel", "bias"} <= one.weights.keys()
        ]
        self._rules = DerivationRules(source.specs, normalizing, scales, biased)
        self._gguf = GgufRules(export, source)
        self._uses = Flow(export.nodes()).uses()
        self._called = {key: export.full_names.get(key) or key for key in export.specs}
        names = [*self._called.values(), *(name for use in self._uses.values() for name in use.names)]
        self._names = LayerNames(self._layers, names)

    def judge(self, advance: Callable[[int], None] = lambda _: None) -> Origins:
        """Return the verdict on every weight; `advance` is called with the number of compared bytes."""
        found: dict[str, Paired] = {}
        constants = 0
        for key, spec in self._export.specs.items():
            pair = self._pair(key, spec) if self._is_weight(key, spec) else None
            if pair is None:
                constants += 1
            else:
                found[key] = pair
            advance(spec.stored_nbytes or 0)
        checked = of_calls(found, in_order(found, self._uses, self._layers), self._layers)
        checked |= of_partners(found, checked, self._uses, self._layers)
        weights = tuple(checked[key] for key in found)
        made = {source for one in weights if one.verdict in PROVED for source in one.sources}
        held = {key: None for layer in self._layers for key in layer.weights.values()}
        unused = tuple(key for key in held if key not in made and not self._is_counter(key))
        return Origins(self._source.location.path, weights, unused, constants)

    def _is_counter(self, key: str) -> bool:
        """Whether a tensor of the source counts batches or steps, which no export has."""
        spec = self._source.specs[key]
        return spec.size == 1 and not spec.dtype.is_floating

    def _is_weight(self, key: str, spec: TensorSpec) -> bool:
        """Whether a tensor is a weight, rather than a shape, an axis or a number in a formula."""
        if spec.dtype.is_unmapped or key in self._source.specs or key in self._given_sources:
            return True
        if self._export.kinds.get(key) in ("slot", "optimizer", "graph") or self._gguf.is_made(key):
            return False
        if not spec.dtype.is_floating:
            return spec.dtype.name in ("int8", "uint8", "int4", "uint4") and spec.size > 1
        use = self._uses.get(key)
        if use is not None and (use.is_shape or use.position in STATES.get(use.operation, ())):
            return False
        if spec.size > 1 or (use is not None and use.operation in _WEIGHTED):
            return True
        mentions = self._names.mentioned(self._called[key])
        specs = self._source.specs
        return any(specs[each].size == 1 for one in mentions for each in one.layer.weights.values())

    def _pair(self, key: str, spec: TensorSpec) -> Paired | None:
        """Return a weight with its verdict; None if it is a constant of the graph."""
        if spec.dtype.is_unmapped:
            return Paired(WeightOrigin(key, (), f"ckpt cannot read values of {spec.dtype}", UNPAIRED))
        tried: list[Proof] = []
        is_sure = is_fitting = False
        candidates: frozenset[int] = frozenset()
        for attempt in self._attempts(key, spec):
            if not attempt.ways:
                continue
            proofs = self._prover.proofs(key, attempt.ways)
            proved = [proof for proof in proofs if proof.found.is_proved]
            if proved:
                return self._proved(key, spec, proved, attempt)
            if not tried:
                is_sure = (attempt.is_named or _is_only(attempt.ways)) and not attempt.behind
                tried = proofs
                is_fitting = not attempt.is_guess
                candidates = self._candidates(attempt)
                candidates = candidates if attempt.is_named or len(candidates) > 1 else frozenset()
        is_state = key in self._uses and self._uses[key].operation in _SHAPING
        if (is_state or not is_fitting) and self._is_constant(key, spec):
            return None
        if not tried:
            return Paired(WeightOrigin(key, (), "no tensor of the source has a matching shape", UNPAIRED))
        if spec.stored_as is not None and not is_bounded(spec.stored_as):
            rule = f"ckpt knows no error bound for {spec.stored_as.name}"
            return Paired(WeightOrigin(key, (), rule, UNPAIRED))
        nearest = min(tried, key=lambda proof: proof.found.max_error)
        rule = self._open_question(key, spec, tried)
        if rule:
            return Paired(WeightOrigin(key, (), rule, UNPAIRED))
        refuted = _refuted(key, nearest, is_sure=is_sure)
        return Paired(refuted, (), candidates, spec.shape, nearest.way.signature)

    def _open_question(self, key: str, spec: TensorSpec, tried: Sequence[Proof]) -> str:
        """Return what is unknown and would give the values; nothing if a map says how the weight was made."""
        if key in self._given_sources:
            return ""
        layers = {proof.way.layer for proof in tried}
        return self._turned(key, spec, layers) or self._epsilon(key, spec, tried)

    def _turned(self, key: str, spec: TensorSpec, layers: set[int]) -> str:
        """Return that axes in another order would give a weight, if nothing says which order is right."""
        target = self._target(key, spec)
        ways = [way for number in sorted(layers) for way in self._rules.turned(self._layers[number], target)]
        ways = self._of_role(key, ways) if ways else []
        proofs = self._prover.proofs(key, ways) if ways else []
        found = next((proof.way for proof in proofs if proof.found.is_proved), None)
        if found is None:
            return ""
        words = (
            f"has the values of {found.sources[0]!r} {found.rule}, but no operation says whether its axes "
        )
        return words + "are in that order; --map can say it"

    def _epsilon(self, key: str, spec: TensorSpec, tried: Sequence[Proof]) -> str:
        """Return that an unusual epsilon would give a weight; nothing if none does."""
        target = self._target(key, spec)
        assumed = {
            (proof.way.layer, proof.way.signature, proof.way.partner): proof.way
            for proof in sorted(tried, key=lambda proof: -proof.found.max_error)
            if proof.way.rule.endswith(_ASSUMED) and spec.size <= _SMALL
        }
        for way in list(assumed.values())[-_MOST_FITTED:]:
            ways_with = partial(with_epsilon, self._rules, self._layers, way, target)
            found = fitted(ways_with, partial(self._prover.proofs, key), partial(self._prover.distance, key))
            if found is not None:
                words = found[1].way.rule.rpartition(" (epsilon")[0]
                return f"{words} with epsilon {found[0]:.3g} gives its values, but no configuration says so"
        return ""

    def _target(self, key: str, spec: TensorSpec) -> Target:
        use = self._uses.get(key)
        return Target(spec.shape, use.operation, use.position) if use else Target(spec.shape)

    def _attempts(self, key: str, spec: TensorSpec) -> Iterator[Attempt]:
        """Yield ways to make a weight, the likeliest first."""
        if key in self._given_sources:
            yield Attempt(list(self._rules.of_key(self._given_sources[key], spec.shape)))
            return
        known = self._gguf.ways(key)
        if known:
            yield Attempt(known)
            return
        use = self._uses.get(key)
        target = self._target(key, spec)
        own = [mention.layer for mention in self._names.mentioned(self._called[key])]
        found = False
        is_decided = any(not layer.is_batch_normalization and [*self._ways([layer], target)] for layer in own)
        linked = [] if is_decided else self._linked(use, own)
        for layers, is_named in ((own, True), (linked, bool(own) or len(linked) == 1)):
            ways = self._of_role(key, list(self._ways(layers, target)))
            found = found or bool(ways)
            yield Attempt(ways, is_named)
            if layers:
                yield Attempt(self._rare(key, spec, layers, target, ways), is_named)
        if found:
            return
        layers = [] if own or linked or use is None else self._first_mentioned(use.behind)
        behind = frozenset(layer.number for layer in layers)
        yield Attempt(self._of_role(key, list(self._ways(layers, target))), len(layers) == 1, True, behind)
        ways = self._of_role(key, list(self._ways(self._layers, target)))
        yield Attempt(ways, is_named=False, is_guess=bool(own or linked), behind=behind)

    def _rare(
        self,
        key: str,
        spec: TensorSpec,
        layers: Sequence[SourceLayer],
        target: Target,
        ways: Sequence[Derivation],
    ) -> list[Derivation]:
        """Return ways that are tried if the usual ones do not give a weight."""
        rare = [way for layer in layers for way in self._rules.of_layer_behind(layer, target)]
        stored = spec.stored_as
        if target.operation in _LOOKUPS and stored is not None and stored.scale and stored.axis is None:
            least, most = _range(stored)
            rare += [cut_off(way, least, most) for way in ways]
        return self._of_role(key, rare)

    def _linked(self, use: Use | None, own: Sequence[SourceLayer]) -> list[SourceLayer]:
        """Return the layers that a weight's name mentions, and those that its operation's name mentions."""
        if use is None:
            return []
        found = {layer.number: layer for layer in own}
        names = (*use.names, *(self._called.get(other, "") for other in use.others))
        if not own:
            return self._first_mentioned(use.names)
        for name in names:
            found.update((mention.layer.number, mention.layer) for mention in self._names.mentioned(name))
        return list(found.values()) if len(found) > len(own) else []

    def _first_mentioned(self, names: Sequence[str]) -> list[SourceLayer]:
        """Return the layers that the first of these names mentions that mentions any."""
        found = (self._names.mentioned(name) for name in names)
        return [mention.layer for mention in next(filter(None, found), [])]

    def _of_role(self, key: str, ways: list[Derivation]) -> list[Derivation]:
        """Return the ways that make the weight of the role that a key names, if it names one."""
        use = self._uses.get(key)
        ways = of_family(ways, use, self._source.specs)
        if use is not None:
            beside = (*use.names, *(self._called.get(other, "") for other in use.others))
            ways = of_row(ways, self._called[key], beside, self._names)
        roles = named_roles(self._names.mentioned(self._called[key]))
        return [way for way in ways if way.signature[1] in roles] or ways

    def _ways(self, layers: Sequence[SourceLayer], target: Target) -> Iterator[Derivation]:
        for layer in layers:
            yield from self._rules.of_layer(layer, target, layers if len(layers) < len(self._layers) else ())

    def _kernels(self, ways: Sequence[Derivation]) -> set[int]:
        """Return the layers of some ways; of a layer and the BatchNormalization behind it, that layer."""
        layers = {way.layer for way in ways}
        return {layer for layer in layers if not self._layers[layer].is_batch_normalization} or layers

    def _proved(self, key: str, spec: TensorSpec, proved: Sequence[Proof], attempt: Attempt) -> Paired:
        best = next((proof for proof in proved if proof.found.is_equal), proved[0])
        if best.found.is_coarse:
            rule = f"all values of {best.way.sources[0]!r} are smaller than one step of the quantization"
            return Paired(WeightOrigin(key, (), rule, UNPAIRED, best.found.max_error, best.found.allowed))
        if spec.stored_as is not None and self._differ(proved, spec.shape):
            rule = f"the values of {_sources(proved)} all fit within one step of the quantization"
            return Paired(WeightOrigin(key, (), rule, UNPAIRED))
        signature = best.way.signature
        doubt = self._doubt(key, best.way, attempt)
        if doubt:
            rule = f"has the values of {best.way.sources[0]!r}, but {doubt}"
            candidates = self._candidates(attempt)
            return Paired(WeightOrigin(key, (), rule, UNPAIRED), (), candidates, spec.shape, signature)
        found = tuple(proof.way for proof in proved if proof.way.signature == signature)
        origin, partners = _origin(key, best, spec), self._partners(key, best.way, attempt.ways)
        return Paired(origin, found, self._candidates(attempt), spec.shape, signature, partners)

    def _doubt(self, key: str, best: Derivation, attempt: Attempt) -> str:
        """Return why a way that gives the values is not sure to be the right one; nothing if it is."""
        if attempt.behind and best.layer not in attempt.behind:
            names = " or ".join(self._layers[number].name for number in sorted(attempt.behind))
            return f"the operation behind its own is of {names}"
        roles = is_open(best, attempt.ways)
        if roles:
            known = " or ".join([best.signature[1], *sorted(roles)])
            return f"nothing says whether it is {known}; --map can say it"
        use = self._uses.get(key)
        is_front = best.signature[0] == "front" and use is not None and use.front
        return self._doubt_of_front(best, use) if is_front and use is not None else ""

    def _partners(self, key: str, best: Derivation, ways: Sequence[Derivation]) -> frozenset[int]:
        """Return the layers that may be folded into a weight, if neither names nor the graph say which is."""
        layer, use = self._layers[best.layer], self._uses.get(key)
        alike = {way.partner for way in ways if way.layer == best.layer and way.signature == best.signature}
        if len(alike) < 2 or layer.behind is not None:
            return frozenset()
        if best.signature[0] == "front" and use is not None and use.front:
            return frozenset()
        names = (self._called[key], *((*use.names, *use.front, *use.behind) if use is not None else ()))
        mentioned = {one.layer.number for name in names for one in self._names.mentioned(name)} & alike
        others = [self._layers[number] for number in sorted(alike)]
        named = {one.number for one in folded_by_names(layer, others, self._layers)}
        found = (mentioned & named) or mentioned or named
        return frozenset() if found == {best.partner} else frozenset(found or alike)

    def _doubt_of_front(self, best: Derivation, use: Use) -> str:
        """Return why a layer may not be in front of an operation; nothing if it is."""
        partner = self._layers[best.partner]
        before = [one.layer for name in (*use.names, *use.front) for one in self._names.mentioned(name)]
        is_behind = any(one.behind is not None and one.leads_to(partner) for one in before)
        if is_behind or partner.number in {one.number for one in before}:
            return ""
        return f"{partner.name} is not in front of its operation"

    def _candidates(self, attempt: Attempt) -> frozenset[int]:
        """Return the layers that a name leaves open."""
        layers = {way.layer for way in attempt.ways}
        return frozenset(self._kernels(attempt.ways) if attempt.is_named else layers)

    def _is_constant(self, key: str, spec: TensorSpec) -> bool:
        """Whether all elements of a tensor are 0, or all 1."""
        if spec.size > _SMALL or not spec.size:
            return False
        values = self._export[key].read()
        first = values.reshape(-1)[0]
        return bool(first in (0, 1) and (values == first).all())

    def _differ(self, proofs: Sequence[Proof], shape: tuple[int, ...]) -> bool:
        """Whether several sources are within the bound that are not the same values."""
        several = {proof.way.sources: proof.way for proof in proofs}
        if len(several) < 2 or math.prod(shape) > _SMALL:
            return False
        values = [way.compute(self._values, None).values.astype("f8") for way in several.values()]
        first = values[0].reshape(shape)
        return any((abs(first - other) > 1e-6 * abs(first).max(initial=0)).any() for other in values[1:])


def _range(stored: StoredType) -> tuple[float, float]:
    """Return the least and the largest value that a quantization with one scale can hold."""
    low, high = _INTEGERS.get(stored.name, (0, 0))
    zero = stored.zero_point[0] if stored.zero_point else 0
    return stored.scale[0] * (low - zero), stored.scale[0] * (high - zero)


def _is_only(ways: Sequence[Derivation]) -> bool:
    return len({way.sources for way in ways}) == 1


def _sources(proofs: Sequence[Proof]) -> str:
    return " and ".join(sorted({repr(proof.way.sources[0]) for proof in proofs})[:3])


def _origin(key: str, proof: Proof, spec: TensorSpec) -> WeightOrigin:
    """Return the verdict on a weight that a rule gives."""
    way, found = proof
    rule = way.rule
    if found.words:
        rule = f"{rule}; {found.words}"
    elif spec.stored_as is not None and found.step:
        rule = f"{rule}, dequantized from {spec.stored_as.name}; "
        rule += f"differences below {found.step / 2:.2g} cannot be detected"
    verdict = EQUAL if found.is_equal else WITHIN
    return WeightOrigin(key, way.sources, rule, verdict, found.max_error, found.allowed)


def _refuted(key: str, nearest: Proof, *, is_sure: bool) -> WeightOrigin:
    """Return the verdict on a weight that no rule gives; it names the nearest."""
    way, found = nearest
    if not is_sure:
        rule = f"no tensor with this shape has these values; the nearest is {way.sources[0]!r}"
        return WeightOrigin(key, (), rule, UNPAIRED, found.max_error, found.allowed)
    rule = f"{way.rule}; {found.words}" if found.words else way.rule
    return WeightOrigin(key, way.sources, rule, OTHER, found.max_error, found.allowed)


def judge(
    export: FormatReader,
    source: FormatReader,
    advance: Callable[[int], None] = lambda _: None,
    given_sources: Mapping[str, str] | None = None,
) -> Origins:
    """Return what each weight of an export was made of."""
    return Judge(export, source, given_sources).judge(advance)
