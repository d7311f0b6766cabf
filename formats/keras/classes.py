"""The Keras classes of a graph's objects, as far as the names of their weights show them.

    gamma, beta, moving_mean, moving_variance          BatchNormalization
    kernel (I, O), bias (O)                            Dense
    cell: kernel (I, 4*U), recurrent_kernel (U, 4*U)   LSTM

An object is compared with every class of `layers`: it has weights with exactly these names, as Keras 2 or 3
spells them, and their sizes agree with one another. If several classes with different layouts in PyTorch
remain, the layer's own name decides, if it is one that Keras generates for a class (`dense_3`). Otherwise the
class is unknown, which is an error: in Keras 3 only that name distinguishes a Dense from an EinsumDense with
as many inputs as outputs.

That is enough for Keras' own layers. A user's class whose weights have Keras' names is taken for Keras', so
the assumed classes are printed.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from ..core.words import counted, first_of
from ..errors import ConversionError
from ..model.object_graph import ROOT, most_path_characters, optimizer_nodes
from .config import snake_case
from .in_pytorch import LAYERS_IN_PYTORCH, filled_in
from .layers import LAYERS, WEIGHTS, is_seed
from .model import Edge, ModelError, Unit, Variable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from ..core.axes import Shape
    from ..model.reader import FormatReader
    from .layers import LayerRow, WeightRow


_RECURRENT = {row.cell: name for name, row in LAYERS.items() if row.cell}
_BY_OWN_NAME = {snake_case(name): name for name in LAYERS}
_EINSUM, _ATTENTION, _BOTH_WAYS = "EinsumDense", "MultiHeadAttention", "Bidirectional"
_LOCAL = "LocallyConnected1D"
_PROJECTIONS = [part for part in LAYERS[_ATTENTION].parts if part.class_name == _EINSUM]
_OF_KERAS_2 = re.compile(r"layer_with_weights-\d+")
_PRIVATE = ("kernel", "embeddings")
"""Weights that layers of Keras 3 hold behind an underscore, some of them in some releases."""

_LISTS = frozenset(("variables", "trainable_variables", "keras_api"))
"""Edges of a SavedModel to lists of what layers hold, too."""

_ALL, _KERAS_2 = slice(None), slice(1)
_MOST_DEEP = 128
"""Edges that lead to a layer at most; what is deeper, no program has written."""

_NUMBERED = re.compile(r"layer(_with_weights)?-\d+|_functional|_operations")
"""Edges of a Sequential or Functional model, behind which its layers have numbers."""


def model_in(source: FormatReader, wanted: Collection[str], *, whole: bool = True) -> tuple[Unit, str]:
    """Return the layers of an object graph that have the wanted variables, and for people what they are.

    A layer is named by the attributes that lead to it, joined by dots; if it is a number in a model of Keras,
    by its own name. Raises ConversionError, with the variable's key, if the names do not show the class of
    its layer; such a layer is left out unless the `whole` model is needed. Raises ModelError if the graph
    cannot be walked.
    """
    return _ClassFinder(source).model(wanted, whole=whole)


# One object ---------------------------------------------------------------------------


class _Fit(NamedTuple):
    """A class that an object can be of: the weight behind each edge, and options that sizes tell."""

    class_name: str
    weights: Mapping[str, WeightRow]
    config: Mapping[str, Any]
    title: str
    known: bool = True
    """Whether PyTorch's layer has the weights as `LAYERS_IN_PYTORCH` says."""

    @property
    def layout(self) -> object:
        """The layout of the weights in PyTorch; two unknown ones are never equal."""
        rows = LAYERS_IN_PYTORCH.get(self.class_name)
        if rows is None or not self.known:
            return self.title
        laid = {row.weight: (row.name, filled_in(row.steps, self.config)) for row in rows}
        return [(edge, laid.get(weight.name)) for edge, weight in sorted(self.weights.items())]


def _spellings(weight: WeightRow) -> tuple[str, ...]:
    """Return the edges to a weight in Keras 2, which is the first one, and in Keras 3."""
    private = (f"_{weight.name}",) if weight.name in _PRIVATE else ()
    return (weight.name, *private, *((weight.in_keras_3,) if weight.in_keras_3 else ()))


def _fits(class_name: str, row: LayerRow, shapes: Mapping[str, Shape], among: slice = _ALL) -> _Fit | None:
    """Return how an object with weights of these shapes is of a class; None if it is not.

    Edges are spelled as `among` the spellings of each weight.
    """
    if len(shapes) > len(row.weights):
        return None
    found: dict[str, WeightRow] = {}
    sizes: dict[str, int] = {}
    rank = _rank(class_name)
    if not rank and any("..." in (weight.shape or "") for weight in row.weights):
        return None  # the class does not tell how many sizes there are
    called = {edge: [one for one in row.weights if edge in _spellings(one)[among]] for edge in shapes}
    if not all(called.values()):
        return None
    # Products last, because the others determine their factors.
    for edge in sorted(shapes, key=lambda edge: any("*" in (one.shape or "") for one in called[edge])):
        fitting = (one for one in called[edge] if _agree(one.shape, shapes[edge], rank, sizes))
        weight = next(fitting, None)
        if weight is None or weight.name in {other.name for other in found.values()}:
            return None
        found[edge] = weight
    held = {weight.name for weight in found.values()}
    if not found or any(not weight.when and weight.name not in held for weight in row.weights):
        return None
    return _Fit(class_name, found, _options(found, sizes, rank), class_name)


def _rank(class_name: str) -> int:
    rank = re.search(r"([123])D", class_name)
    return int(rank[1]) if rank else 0


def _agree(words: str | None, shape: Shape, rank: int, sizes: dict[str, int]) -> bool:
    """Whether a shape is as a row of `layers` spells it; `sizes` are what its words stand for."""
    if words is None:
        return True
    spelled: list[str] = []
    for word in words.split():
        if word == "AXES":
            spelled += [f"{word} {at}" for at in range(len(shape))]
        else:
            spelled += [f"{word} {at}" for at in range(rank)] if word.endswith("...") else [word]
    if len(spelled) != len(shape):
        return False
    bound = dict(sizes)
    if not all(_equals(word, size, bound) for word, size in zip(spelled, shape, strict=True)):
        return False
    sizes.update(bound)
    return True


def _equals(word: str, size: int, sizes: dict[str, int]) -> bool:
    """Whether a word, a product of numbers and words, is a size, or can be: what is free is bound by it."""
    factors = word.split("*")
    free = [factor for factor in factors if not factor.isdigit() and factor not in sizes]
    known = math.prod(int(each) if each.isdigit() else sizes[each] for each in factors if each not in free)
    if not free:
        return size == known
    if len(free) > 1 or not known or size % known:
        return len(free) > 1
    sizes[free[0]] = size // known
    return True


def _options(weights: Mapping[str, WeightRow], sizes: Mapping[str, int], rank: int) -> dict[str, Any]:
    """Return the options of a configuration that weights and their sizes tell."""
    options: dict[str, Any] = {name: size for name, size in sizes.items() if name.isidentifier()}
    options["kernel_size"] = [sizes.get(f"kernel_size... {at}", 0) for at in range(rank)]
    options["use_bias"] = any(weight.name == "bias" for weight in weights.values())
    for weight in weights.values():
        options |= {option.lstrip("!"): not option.startswith("!") for option in weight.when.split()}
    return options


# All of them --------------------------------------------------------------------------


class _LayerFacts(NamedTuple):
    """An identified layer, also for messages; how many names full names have after its own; edges to it."""

    unit: Unit
    title: str
    depth: int = 1
    path: tuple[str, ...] = ()


class _ClassFinder:
    """An object graph, gone through from its root."""

    def __init__(self, source: FormatReader) -> None:
        graph = source.object_graph
        if graph is None:
            raise ModelError("its object graph cannot be read")
        self._source = source
        self._keys = {
            node: key
            for key, (node, _, _) in graph.tensors(source.specs).items()
            if source.kinds.get(key) == "variable" and not is_seed(source.specs[key])
        }
        optimizers = optimizer_nodes(graph)
        self._children = {
            number: {
                name: child
                for name, child in graph.children(number)
                if child not in optimizers and name not in _LISTS
            }
            for number in range(len(graph.nodes))
            if number not in optimizers
        }
        self._holding = self._above_variables()
        self._full_names = Counter(source.full_names.get(key, "") for key in self._keys.values())
        self._of_keras_2 = any(
            _OF_KERAS_2.fullmatch(name) for children in self._children.values() for name in children
        )

    def _above_variables(self) -> set[int]:
        """Return the nodes from which edges lead to a variable."""
        parents: dict[int, list[int]] = {}
        for number, children in self._children.items():
            for child in children.values():
                parents.setdefault(child, []).append(number)
        found: set[int] = set()
        waiting = [*self._keys]
        while waiting:
            above = [parent for parent in parents.get(waiting.pop(), ()) if parent not in found]
            found.update(above)
            waiting += above
        return found

    def model(self, wanted: Collection[str], *, whole: bool) -> tuple[Unit, str]:
        layers: list[_LayerFacts] = []
        unknown_keys: dict[str, str] = {}
        seen = {ROOT}
        queue: list[tuple[int, tuple[str, ...]]] = [(ROOT, ())]
        left = most_path_characters(len(self._children))
        for node, path in queue:
            left -= sum(map(len, path))
            if len(path) > _MOST_DEEP or left < 0:
                raise ModelError(
                    f"its objects are nested more than {_MOST_DEEP} deep, or their names are too long"
                )
            unit = self._composed(node, seen) or self._plain(node)
            if isinstance(unit, _LayerFacts):
                layers.append(unit._replace(path=path))
                continue
            unknown_keys |= {key: unit for key in self._own(node).values() if key not in unknown_keys}
            for edge in self._below(node):
                child = self._children[node][edge]
                if child not in seen:
                    seen.add(child)
                    queue.append((child, (*path, edge)))
        self._refuse_unknown_keys(unknown_keys if whole else {}, layers, wanted)
        chosen = [layer for layer in layers if any(one.key in wanted for one in layer.unit.all_variables())]
        titles: dict[str, list[str]] = {}
        for layer, name in zip(chosen, self._names(chosen), strict=True):
            layer.unit.name = name
            titles.setdefault(layer.title, []).append(name)
        guesses = "; ".join(f"{title}: {first_of(names)}" for title, names in sorted(titles.items()))
        return Unit(layers=[layer.unit for layer in chosen], is_model=True), guesses

    def _refuse_unknown_keys(
        self, unknown_keys: Mapping[str, str], layers: Sequence[_LayerFacts], wanted: Collection[str]
    ) -> None:
        owners: dict[str | None, _LayerFacts] = {}
        for layer in layers:
            for variable in layer.unit.all_variables():
                other = owners.setdefault(variable.key, layer)
                if other is not layer and variable.key in wanted:
                    both = " and ".join(repr("/".join(each.path)) for each in (other, layer))
                    raise ConversionError(f"this tensor belongs to two layers, {both}", key=variable.key)
        left = [key for key in unknown_keys if key in wanted and key not in owners]
        if left:
            left.sort(key=lambda key: -len(self._source.specs[key].shape))  # kernels before biases
            count = counted(len(left) - 1, "more tensor has", "more tensors have")
            more = f"; {count} the same problem" if len(left) > 1 else ""
            raise ConversionError(f"{unknown_keys[left[0]]}{more}", key=left[0])

    def _own(self, node: int) -> dict[str, str]:
        """Return the keys of an object's own variables by their edges."""
        return {
            edge: self._keys[child] for edge, child in self._children[node].items() if child in self._keys
        }

    def _below(self, node: int) -> list[str]:
        """Return the edges of an object to others that have variables."""
        return [
            edge
            for edge, child in self._children[node].items()
            if child in self._holding and child not in self._keys and child != node
        ]

    # What a layer is ----------------------------------------------------------------------

    def _plain(self, node: int) -> _LayerFacts | str:
        """Return the layer of an object with weights, or why it is unknown."""
        own = self._own(node)
        shapes = {edge: self._source.specs[key].shape for edge, key in own.items()}
        if self._below(node):
            return (
                "this tensor belongs to an object that contains layers, but no Keras layer has such a weight"
            )
        among = _KERAS_2 if self._of_keras_2 else _ALL
        every = (_fits(name, row, shapes, among) for name, row in LAYERS.items() if row.weights)
        fits = [fit for fit in every if fit is not None]
        lists = set(self._children[node]) - set(own)
        fits = [fit for fit in fits if lists & set(LAYERS[fit.class_name].lists)] or fits
        fits = self._named_so(own, [*fits, *self._variants(fits)])
        fits = [fit for fit in fits if not self._is_not_einsum(fit, shapes, lists)]
        if not fits:
            some = ", ".join(f"{edge} {list(shape)}" for edge, shape in shapes.items())
            return f"no Keras layer has weights with these names and sizes: {some:.200}"
        titles = " or ".join(sorted(fit.title for fit in fits))
        if any(fit.layout != fits[0].layout for fit in fits):
            return f"names and sizes alone do not show whether its layer is {titles}"
        return _LayerFacts(self._unit(fits[0], own), titles)

    def _unit(self, fit: _Fit, own: Mapping[str, str]) -> Unit:
        unit = Unit(class_name=fit.class_name, config=fit.config)
        for edge, weight in fit.weights.items():
            key = own[edge]
            variable = Variable(weight.name, weight.trainable, self._source.full_names.get(key, ""), key)
            variable.path = self._source.object_paths.get(key, "")
            unit.edges.append(Edge(edge, variable, edge))
        return unit

    def _variants(self, fits: Sequence[_Fit]) -> Iterator[_Fit]:
        """Yield alternatives with the same weights that are not rows of `layers`: other classes, other
        options.
        """
        for fit in fits:
            names = {weight.name for weight in fit.weights.values()}
            if fit.class_name in ("Conv1D", "Conv2D") and "bias" not in names:
                yield fit._replace(class_name=_LOCAL, title=_LOCAL, known=False)
            if fit.class_name == "LayerNormalization" and names == {"gamma"} and not self._of_keras_2:
                yield fit._replace(title=f"{fit.title} with rms_scaling", known=False)
            if fit.class_name == "GRUCell" and "bias" not in names:
                yield fit._replace(title=f"{fit.title} with reset_after=False", known=False)

    def _named_so(self, own: Mapping[str, str], fits: list[_Fit]) -> list[_Fit]:
        """Return those of a class whose name, as Keras gives it, the layer has; all where there are none.

        A name that several have is not the layer's: subclasses of Keras 3's models give their own to all.
        """
        names = {self._full_name(key, 1)[-1:] if self._is_unique(key) else () for key in own.values()}
        called = names.pop() if len(names) == 1 else ()
        class_name = _BY_OWN_NAME.get(re.sub(r"_\d+$", "", called[0])) if called else None
        return [fit for fit in fits if fit.class_name == class_name] or fits

    def _is_not_einsum(self, fit: _Fit, shapes: Mapping[str, Shape], lists: set[str]) -> bool:
        """Whether what could be an EinsumDense is none, or one that is laid out as a Dense is.

        In Keras 2 it has lists next to its weights. If two axes differ, a bias with the size of the last one
        shows that this is the output.
        """
        if fit.class_name != _EINSUM or lists.issuperset(LAYERS[_EINSUM].lists):
            return False
        kernel, bias = (
            next((shapes[edge] for edge, weight in fit.weights.items() if weight.name == name), ())
            for name in ("kernel", "bias")
        )
        return self._of_keras_2 or (len(kernel) == 2 and kernel[0] != kernel[1] and bias == kernel[1:])

    def _composed(self, node: int, seen: set[int]) -> _LayerFacts | None:
        """Return the layer that an object without weights of its own is by those below it; None for none."""
        children, below = self._children[node], set(self._below(node))
        if self._own(node):
            return None
        found = None
        if below == {"cell"}:
            found = self._recurrent(children["cell"])
        elif below == {"forward_layer", "backward_layer"}:
            found = self._both_ways(node)
        elif len(below) == len(_PROJECTIONS):
            found = self._attention(node, below)
        if found is not None:
            seen.update(children[edge] for edge in below)
        return found

    def _recurrent(self, cell: int) -> _LayerFacts | None:
        inner = self._plain(cell)
        if not isinstance(inner, _LayerFacts) or inner.unit.class_name not in _RECURRENT:
            return None
        class_name = _RECURRENT[inner.unit.class_name]
        inner.unit.name = snake_case(inner.unit.class_name)
        unit = Unit(class_name=class_name, edges=[Edge("cell", inner.unit, "cell")], config=inner.unit.config)
        return _LayerFacts(unit, class_name, 2)

    def _both_ways(self, node: int) -> _LayerFacts | None:
        edges: list[tuple[str, Unit, str]] = []
        for name in ("forward_layer", "backward_layer"):
            layer = self._children[node][name]
            found = self._recurrent(self._children[layer]["cell"]) if self._below(layer) == ["cell"] else None
            if found is None or self._own(layer):
                return None
            found.unit.name = name
            edges.append((name, found.unit, name))
        classes = " and ".join(dict.fromkeys(unit.class_name for _, unit, _ in edges))
        unit = Unit(class_name=_BOTH_WAYS, edges=[Edge(*edge) for edge in edges])
        return _LayerFacts(unit, f"{_BOTH_WAYS} {classes}", 3)

    def _attention(self, node: int, below: set[str]) -> _LayerFacts | None:
        edges = []
        heads: tuple[int, ...] = ()
        for part in _PROJECTIONS:
            edge = next((name for name in (part.edge, part.attribute) if name in below), None)
            if edge is None or self._below(self._children[node][edge]):
                return None
            own = self._own(self._children[node][edge])
            shapes = {name: self._source.specs[key].shape for name, key in own.items()}
            fit = _fits(_EINSUM, LAYERS[_EINSUM], shapes)
            kernel = next((shapes[name] for name in ("kernel", "_kernel") if name in shapes), ())
            if fit is None or len(kernel) != 3:
                return None
            heads = heads or kernel[1:]
            unit = self._unit(fit, own)
            unit.name = part.name
            edges.append(Edge(part.edge, unit, part.attribute))
        config = {"num_heads": heads[0], "key_dim": heads[1], "use_bias": len(own) > 1}
        return _LayerFacts(Unit(class_name=_ATTENTION, edges=edges, config=config), _ATTENTION, 2)

    # What it is called ----------------------------------------------------------------------

    def _full_name(self, key: str | None, depth: int) -> tuple[str, ...]:
        """Return a layer's own name, and those before it, in the full name of a weight `depth` below."""
        names = tuple(self._source.full_names.get(key or "", "").split("/"))
        return names[:-depth] if names[-1] in WEIGHTS else ()

    def _is_unique(self, key: str) -> bool:
        return self._full_names[self._source.full_names.get(key, "")] == 1

    def _names(self, layers: Sequence[_LayerFacts]) -> list[str]:
        names = [self._name(layer) for layer in layers]
        counts = Counter(names)
        found = [
            name if counts[name] == 1 else ".".join(layer.path)
            for name, layer in zip(names, layers, strict=True)
        ]
        if "" in found:
            raise ModelError("its root is a layer, and the name of this layer is unknown")
        return found

    def _name(self, layer: _LayerFacts) -> str:
        """Return a layer's name: attributes, and its own in place of a number."""
        *above, last = layer.path or ("layer-0",)
        is_numbered = _NUMBERED.fullmatch(last) or (last.isdigit() and above[-1:] == ["_operations"])
        if not is_numbered:
            return ".".join(layer.path)
        own = {self._full_name(one.key, layer.depth)[-1:] for one in layer.unit.all_variables()}
        called = own.pop() if len(own) == 1 else ()
        first = next((at for at, edge in enumerate(above) if _NUMBERED.fullmatch(edge)), len(above))
        return ".".join((*above[:first], *called) if called else layer.path)
