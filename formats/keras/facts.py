"""The metadata of Keras files: versions, configurations, layers in order.

    keras-h5         attributes of the file, and of the groups of its layers
    keras-weights    names of objects and the paths of all `vars`
    keras            members of the archive beside the weights

A weight's name as stored ends in `:0` where Keras 1 or 2 wrote it.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..model.facts import Facts


F = TypeVar("F", bound="Facts")

MODEL_WEIGHTS = "model_weights"
OPTIMIZER_WEIGHTS = "optimizer_weights"
TOP_LEVEL = "top_level_model_weights"


class Weight(NamedTuple):
    """One weight: its layer, its name as stored, the path of its dataset."""

    layer: str
    name: str
    path: str


def weight_keys(weights: list[Weight]) -> list[str]:
    """Return the key of each weight: its name without `:0`, with its layer where that is not unique.

    With its layer, a name may equal another, so this repeats until nothing changes; names that even the layer
    does not distinguish become paths.
    """
    keys = [weight.name.removesuffix(":0") for weight in weights]
    spellings = (
        [f"{weight.layer}/{weight.name.removesuffix(':0')}" for weight in weights],
        [weight.path for weight in weights],
    )
    level = [0] * len(weights)
    while True:
        counts = Counter(keys)
        changing = [at for at, key in enumerate(keys) if counts[key] > 1 and level[at] < len(spellings)]
        if not changing:
            return keys
        lowest = min(level[at] for at in changing)
        for at in changing:
            if level[at] == lowest:
                keys[at] = spellings[lowest][at]
                level[at] += 1


class WeightGroup(NamedTuple):
    """A layer, or what is stored as one: its name, and (key, name as stored) of its weights in order."""

    name: str
    weights: tuple[tuple[str, str], ...] = ()
    class_name: str | None = None
    """What the configuration says of it."""

    @property
    def keys(self) -> list[str]:
        return [key for key, _ in self.weights]

    @property
    def names(self) -> list[tuple[str, str]]:
        """Return (key, full name) of the weights."""
        return [(key, name.removesuffix(":0")) for key, name in self.weights]


class KerasFacts(NamedTuple):
    """The facts of a Keras file; the fields in `listed`, which `show` prints, are always present."""

    listed: tuple[str, ...] = ()
    version: str | None = None
    """Of Keras."""

    backend: str | None = None
    date_saved: str | None = None
    config: str | None = None
    """The model's configuration, a JSON text; nothing in it is run."""

    training_config: str | None = None
    layers: tuple[WeightGroup, ...] = ()
    optimizer: WeightGroup | None = None
    object_names: Mapping[str, str] = {}
    """The name of each object that has one, by the path of its `vars`."""

    groups: tuple[str, ...] = ()
    """The paths of all `vars`, those without variables, too."""

    assets: tuple[str, ...] = ()
    """The members of a `.keras` archive other than tensors, such as vocabularies."""

    contents: Mapping[str, bytes] = {}
    """The bytes of assets; only `proved_facts` of an archive has them."""

    @property
    def producer(self) -> str:
        return "keras"

    @property
    def major(self) -> str:
        """The major version of Keras, or 2 if unknown."""
        return "3" if (self.version or "").startswith("3") else "2"

    @property
    def writes_weights_h5(self) -> bool:
        """Whether this Keras has `.weights.h5` files: since 2.12."""
        numbers = [int(part) for part in (self.version or "").split(".")[:2] if is_number(part)]
        return len(numbers) == 2 and numbers >= [2, 12]

    def document(self) -> dict[str, Any]:
        """Return what is listed as plain data."""
        with_names = "optimizer" in self.listed
        found = {name: _plain(getattr(self, name), with_names=with_names) for name in self.listed}
        return {"producer": self.producer, "version": self.version, **found}

    def rekeyed(self, keys: Mapping[str, str]) -> KerasFacts:
        """Return it after its keys have changed: `keys` gives the new ones.

        A layer whose weights all bear its name, and then another, has that name from then on.
        """
        taken = {group.name for group in self.layers}
        layers = []
        for group in self.layers:
            weights = _renamed(group, keys)
            name, new = group.name, {key.partition("/")[0] for key, _ in weights if "/" in key}
            ours = all(key.startswith(f"{name}/") for key in group.keys)
            follows = weights and ours and len(new) == 1 and not new & taken
            name = new.pop() if follows else name
            taken.add(name)
            layers.append(group._replace(name=name, weights=weights))
        optimizer = self.optimizer
        moved = {old.rpartition("/")[0]: new.rpartition("/")[0] for old, new in keys.items()}
        return self._replace(
            layers=tuple(layers),
            optimizer=optimizer._replace(weights=_renamed(optimizer, keys)) if optimizer else None,
            groups=tuple(moved.get(group, group) for group in self.groups),
            object_names={moved.get(group, group): name for group, name in self.object_names.items()},
        )


IN_H5 = ("backend", "config", "training_config", "layers", "optimizer")
IN_WEIGHTS = ("config", "object_names", "groups")
IN_ARCHIVE = ("date_saved", "config", "layers", "object_names", "groups", "assets")


def _plain(value: Any, *, with_names: bool) -> Any:
    if isinstance(value, WeightGroup):
        names = {"weight_names": [name for _, name in value.weights]} if with_names else {}
        classes = {"class_name": value.class_name} if value.name != OPTIMIZER_WEIGHTS else {}
        return {"name": value.name, **classes, "weights": value.keys, **names}
    if isinstance(value, tuple):
        return [_plain(item, with_names=with_names) for item in value]
    return value


@runtime_checkable
class OfKerasModel(Protocol):
    """Facts of another format, which tell of a model of Keras, too."""

    @property
    def keras(self) -> KerasFacts: ...


def keras_facts(facts: Facts) -> KerasFacts:
    """Return what a checkpoint says of itself in Keras' terms: nothing, where Keras did not write it."""
    if isinstance(facts, KerasFacts):
        return facts
    return facts.keras if isinstance(facts, OfKerasModel) else KerasFacts()


def _renamed(group: WeightGroup, keys: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple((keys.get(key, key), name) for key, name in group.weights)


def is_number(text: str) -> bool:
    """Whether a name is a variable's number; other scripts' digits, or thousands of them, are just a name."""
    return text.isascii() and text.isdigit() and len(text) < 10


def variables_by_group(keys: Iterable[str]) -> dict[str, list[str]]:
    """Return the keys `<object>/vars/<N>` by their groups, `<object>/vars`, in the order of numbers."""
    out: dict[str, list[str]] = {}
    for key in keys:
        group, _, number = key.rpartition("/")
        if is_number(number):
            out.setdefault(group, []).append(key)
    for held in out.values():
        held.sort(key=lambda key: int(key.rpartition("/")[2]))
    return out
