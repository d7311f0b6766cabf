"""The way back: PyTorch weights under the names of transformers' TensorFlow and Flax models.

The table `back.tsv` has the variables of each class. `layout` computes what each becomes in PyTorch, and this
module inverts that. `{model}` in a name stands for the model's own scope, `{n}` for the number of a layer.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from formats.core.axes import NOTHING
from formats.core.words import counted
from formats.errors import ConversionError, leave_out
from formats.keras.config import snake_case
from formats.keras.facts import IN_H5, KerasFacts, WeightGroup

from ...select.name_map import MapRow, Name, NameMap
from ...select.relations import Relation, inverted, relate
from ..plan import Dropped
from .architectures import lines_of
from .names import TENSORFLOW
from .ties import Tie, warn_of_unequal_ties

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from formats.model.reader import FormatReader

    from .layout import HubModel

_OLD_LAST = {"gamma": "weight", "beta": "bias"}
"""The names of LayerNorm's parameters in old PyTorch files."""

_BUFFERS = re.compile(r"(^|\.)embeddings\.position_ids$|\.attn\.(masked_)?bias$")
_SCOPE = "{model}"
_MOST_SHOWN = 5
_VERSION = "2.15.0"
"""Of the Keras that transformers 4.41 uses."""


class ClassVariable(NamedTuple):
    """A variable that some classes have; a class with several configurations is there once for each."""

    name: str
    rank: int
    variants: frozenset[str]


class _TiedRow(NamedTuple):
    """A PyTorch tensor that the other libraries do not have, because it is another one of the model."""

    name: str
    partner: str
    by_configuration: bool = False
    """Whether the configuration may say that they are not tied."""


_WORDS = "bert.embeddings.word_embeddings.weight"
_TIED = {
    "bert": (
        _TiedRow("cls.predictions.decoder.weight", _WORDS),
        _TiedRow("cls.predictions.decoder.bias", "cls.predictions.bias"),
    ),
    "gpt2": (_TiedRow("lm_head.weight", "transformer.wte.weight"),),
    "t5": (
        _TiedRow("encoder.embed_tokens.weight", "shared.weight"),
        _TiedRow("decoder.embed_tokens.weight", "shared.weight"),
        _TiedRow("lm_head.weight", "shared.weight", by_configuration=True),
    ),
}


@cache
def class_variables() -> dict[tuple[str, str], list[ClassVariable]]:
    """Return the variables of architectures, by model_type and library."""
    out: dict[tuple[str, str], list[ClassVariable]] = {}
    for library, model_type, rank, variants, name in lines_of("back.tsv"):
        row = ClassVariable(name, int(rank), frozenset(variants.split(",")))
        out.setdefault((model_type, library), []).append(row)
    return out


_SHARED = {
    "bert": {"mlm___cls": "{model}/bert/embeddings/"},
    "t5": {"encoder": "shared/", "decoder": "shared/"},
}
"""Layers of TensorFlow that hold variables of another layer, too, by the beginnings of the names of these."""


class WayBack(NamedTuple):
    """The sources of another library's tensors, and the tensors of PyTorch that have no place there."""

    relations: list[Relation]
    names: NameMap
    dropped: list[Dropped]
    facts: KerasFacts | None
    """How TensorFlow's file groups the variables by layer."""


def way_back(
    reader: FormatReader, keys: Sequence[str], model: HubModel, like: FormatReader | None = None
) -> WayBack:
    """Return the weights of a PyTorch model under the names of a library, with the keys of a file like it.

    Raises ConversionError if a tensor has no place, and if one that the class needs is missing.
    """
    variables = _variables_of(model)
    scope = _scope_in(like) or snake_case("TF" + model.class_name)
    names = NameMap(list(_rows(model, variables, scope)))
    called = _pytorch_names(keys, model)
    dropped, held = _without_ties(reader, called, model)
    shapes = {name: reader.specs[key].shape for name, key in held.items()}
    related = relate(inverted(names), shapes)
    if related.left:
        _refuse_left([held[name] for name in related.left], model)
    relations = [
        relation._replace(sources=tuple(held[source] for source in relation.sources))
        for relation in related.relations
    ]
    made = {target for relation in relations for target in relation.targets}
    _refuse_missing(made, _needed(model, variables, names, scope), model)
    if model.architecture.library != TENSORFLOW:
        return WayBack(relations, names, dropped, None)
    layers = _layers(made, variables, scope)
    shared = _shared(layers, model, scope)
    if like is not None:  # it may store them once
        shared = {name: its for name, its in shared.items() if name not in like.specs}
    relations = [one for relation in relations for one in _repeated(relation, shared)]
    return WayBack(relations, names, dropped, _facts(layers, shared))


def _scope_in(like: FormatReader | None) -> str | None:
    """Return the scope of the model's variables in a file; None if it has several."""
    names = () if like is None else like.full_names.values()
    scopes = {name.partition("/")[0] for name in names} - {"shared"}
    return scopes.pop() if len(scopes) == 1 else None


def _variables_of(model: HubModel) -> list[ClassVariable]:
    key = model.architecture.model_type, model.architecture.library
    found = class_variables().get(key)
    if found is None:
        known = ", ".join(sorted(name for name, library in class_variables() if library == key[1]))
        message = f"ckpt does not know the names of {key[0]} in {key[1]}, so it cannot convert to them"
        raise ConversionError(message, hints=(f"use a model_type that ckpt knows in {key[1]}: {known}",))
    own = [row for row in found if model.class_name in _classes(row)]
    # A file may have the head of another class, too.
    return own + [row for row in found if row not in own]


def _classes(row: ClassVariable) -> set[str]:
    return {variant.partition("+")[0] for variant in row.variants}


def _rows(model: HubModel, variables: Iterable[ClassVariable], scope: str) -> Iterable[MapRow]:
    taken: set[str] = set()
    shapes = {variable.name.replace(_SCOPE, scope): (1,) * variable.rank for variable in variables}
    for row in model.rows(shapes):
        old, new = row.old.text, row.new.text
        if new not in taken:
            taken.add(new)
            yield row._replace(old=Name.parse(old.encode()), new=Name.parse(new.encode()))


def _pytorch_names(keys: Iterable[str], model: HubModel) -> dict[str, str]:
    """Return keys by the names that they have in the class: with the prefix of the base model, or without."""
    names: dict[str, str] = {}
    for key in keys:
        above, dot, last = key.rpartition(".")
        name = above + dot + (_OLD_LAST.get(last, last) if above.endswith("LayerNorm") else last)
        if names.setdefault(name, key) != key:
            message = f"{names[name]!r} and {key!r} are the same tensor of the model"
            raise ConversionError(message, key=key, hints=(leave_out(key),))
    prefix = model.architecture.prefix + "."
    has_prefix = any(name.startswith(prefix) for name in names)
    if model.is_bare and has_prefix:
        return {name.removeprefix(prefix): key for name, key in names.items()}
    if not (model.is_bare or has_prefix):
        return {prefix + name: key for name, key in names.items()}
    return names


def _without_ties(
    reader: FormatReader, called: Mapping[str, str], model: HubModel
) -> tuple[list[Dropped], dict[str, str]]:
    """Return what the other library does not store, and the rest."""
    held = dict(called)
    dropped = [
        Dropped(held.pop(name), "only PyTorch stores such buffers")
        for name in called
        if _BUFFERS.search(name)
    ]
    ties = []
    for row in _TIED.get(model.architecture.model_type, ()):
        if row.name in held and (model.ties_embeddings or not row.by_configuration):
            ties.append(Tie(Relation((held.pop(row.name),), (row.name,), NOTHING), row.partner))
    relations = [Relation((key,), (name,), NOTHING) for name, key in held.items()]
    warn_of_unequal_ties(reader, relations, ties)
    dropped += [Dropped(tie.source, f"it is tied to {tie.partner!r}") for tie in ties]
    return dropped, held


def _refuse_left(keys: Sequence[str], model: HubModel) -> None:
    some = ", ".join(map(repr, keys[1:_MOST_SHOWN]))
    count = counted(len(keys) - 1, "more tensor has", "more tensors have")
    more = f"; {count} the same problem, such as {some}" if len(keys) > 1 else ""
    message = f"{model.architecture.model_type} has no such variable in {model.architecture.library}{more}"
    raise ConversionError(message, key=keys[0], hints=(leave_out(keys[0]),))


def _needed(
    model: HubModel, variables: Iterable[ClassVariable], names: NameMap, scope: str
) -> list[set[str]]:
    """Return the names that the class has in each of its configurations.

    Whether one is there that may be tied is not up to these, but to the model's own configuration.
    """
    may_be_tied = {row.name for row in _TIED.get(model.architecture.model_type, ()) if row.by_configuration}
    untied = {row.old.text for row in names.rows if row.new.text in may_be_tied}
    out: dict[str, set[str]] = {}
    for row in variables:
        for variant in row.variants:
            if variant.partition("+")[0] == model.class_name:
                out.setdefault(variant, set()).add(row.name.replace(_SCOPE, scope))
    its = set().union(*out.values()) & untied if not model.ties_embeddings else set()
    return [(found - untied) | its for found in out.values()]


def _refuse_missing(made: set[str], needed: Sequence[set[str]], model: HubModel) -> None:
    """Refuse a model that lacks variables of its class; of several configurations the nearest one counts."""
    lacking = min((_lacking(made, names) for names in needed), key=len)
    if lacking:
        shown = ", ".join(map(repr, lacking[:_MOST_SHOWN]))
        message = (
            f"{counted(len(lacking), 'tensor', 'tensors')} of {model.class_name} "
            f"{'is' if len(lacking) == 1 else 'are'} missing: {shown}"
        )
        raise ConversionError(message, hints=(_CLASS,))


_CLASS = 'in config.json, name the class of these weights in "architectures"'


def _lacking(made: set[str], names: Iterable[str]) -> list[str]:
    templates = [Name.parse(name.encode()) for name in sorted(names)]
    layers: dict[str, int] = {}
    for template in templates:
        if template.captures:
            numbers = [int(found["n"]) for name in made if (found := template.match(name)) is not None]
            stack = template.literals[0]
            layers[stack] = max([layers.get(stack, 1), *(number + 1 for number in numbers)])
    out = []
    for template in templates:
        count = layers[template.literals[0]] if template.captures else 1
        filled = (template.fill({"n": str(number)}) for number in range(count))
        out += [name for name in filled if name not in made]
    return out


def _layers(made: set[str], variables: Iterable[ClassVariable], scope: str) -> dict[str, list[str]]:
    """Return the variables of each layer of a TensorFlow model."""
    left = dict.fromkeys(sorted(made))
    layers: dict[str, list[str]] = {}
    for variable in variables:
        template = Name.parse(variable.name.replace(_SCOPE, scope).encode())
        for name in [name for name in left if template.match(name) is not None]:
            layers.setdefault(name.split("/")[1], []).append(name)
            del left[name]
    return layers


def _shared(layers: Mapping[str, Sequence[str]], model: HubModel, scope: str) -> dict[str, list[str]]:
    """Return the layers of each variable that several hold."""
    holders = {
        layer: beginning.replace(_SCOPE, scope)
        for layer, beginning in _SHARED.get(model.architecture.model_type, {}).items()
        if layer in layers
    }
    out: dict[str, list[str]] = {}
    for own, names in layers.items():
        for name in names:
            others = [layer for layer, beginning in holders.items() if name.startswith(beginning)]
            if others:
                out[name] = [own, *others]
    return out


def _repeated(relation: Relation, shared: Mapping[str, Sequence[str]]) -> Iterable[Relation]:
    """Yield a relation once for each layer that holds the variable, with the keys that the file then has."""
    (name,) = relation.targets
    if name not in shared:
        yield relation
    for layer in shared.get(name, ()):
        yield relation._replace(targets=(f"{layer}/{name}",))


def _facts(layers: Mapping[str, Sequence[str]], shared: Mapping[str, Sequence[str]]) -> KerasFacts:
    groups = []
    for layer, names in layers.items():
        weights = [(f"{layer}/{name}" if name in shared else name, f"{name}:0") for name in names]
        weights += [
            (f"{layer}/{name}", f"{name}:0")
            for name, its in shared.items()
            if layer in its and name not in names
        ]
        groups.append(WeightGroup(layer, tuple(weights)))
    return KerasFacts(IN_H5, version=_VERSION, backend=TENSORFLOW, layers=tuple(groups))
