"""What Keras files say of themselves beside their tensors: layers in order, names as stored.

layers       {"name", "weights": [key, ...], "weight_names": [name as stored, ...]}
optimizer    {"weights": [key, ...], "weight_names": [...]}
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


OPTIMIZER_WEIGHTS = "optimizer_weights"
TOP_LEVEL = "top_level_model_weights"


class Weight(NamedTuple):
    """One weight: its layer, its name as stored, the path of its dataset."""

    layer: str
    name: str
    path: str


def weight_keys(weights: list[Weight]) -> list[str]:
    """Return the key of each weight: its name without `:0`, with its layer where that is not unique.

    A name may equal what another becomes with its layer, so this goes on until nothing
    changes; what even the layer does not tell apart goes by its path.
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

    def document(self) -> dict[str, Any]:
        """Return the group as metadata tell it."""
        keys, names = [key for key, _ in self.weights], [name for _, name in self.weights]
        return {"name": self.name, "weights": keys, "weight_names": names}


def rekeyed(metadata: Mapping[str, Any], keys: Mapping[str, str]) -> dict[str, Any]:
    """Return what a Keras file says of itself after its keys have changed: `keys` gives the new ones.

    A layer whose weights all bear its name, and then another, has that name from then on.
    """
    out = dict(metadata)
    taken = {group["name"] for group in metadata.get("layers") or ()}
    layers = []
    for group in metadata.get("layers") or ():
        weights = [keys.get(key, key) for key in group["weights"]]
        name, new = group["name"], {key.partition("/")[0] for key in weights if "/" in key}
        ours = all(key.startswith(f"{name}/") for key in group["weights"])
        follows = weights and ours and len(new) == 1 and not new & taken
        name = new.pop() if follows else name
        taken.add(name)
        layers.append({**group, "name": name, "weights": weights})
    if "layers" in metadata:
        out["layers"] = layers
    if metadata.get("optimizer"):
        weights = [keys.get(key, key) for key in metadata["optimizer"]["weights"]]
        out["optimizer"] = {**metadata["optimizer"], "weights": weights}
    moved = {old.rpartition("/")[0]: new.rpartition("/")[0] for old, new in keys.items()}
    if "groups" in metadata:
        out["groups"] = [moved.get(group, group) for group in metadata["groups"]]
        names = metadata.get("object_names") or {}
        out["object_names"] = {moved.get(group, group): name for group, name in names.items()}
    return out


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
