"""Keras' optimizers as PyTorch has them: what its groups of parameters say, and what has no equal there.

    Keras                           PyTorch
    learning_rate, beta_1, beta_2   lr, betas
    iterations                      state/<number>/step, of each parameter
    m of the variable               state/<number>/exp_avg, axes as the weight's

Slots are those of `optimizers.Slot.pytorch`. `GROUPS` has the whole group of each optimizer that was run:
`tests/interop/test_layout_optimizers.py` takes three more steps in both libraries. A setting without a
counterpart that is not off is rejected: it is a `lack_of`. Most add epsilon in another place, which
`remark_on` reports. torch/optim (PyTorch 2.13); keras/src/optimizers (Keras 2.15, 3.15)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from .optimizers import LEGACY

if TYPE_CHECKING:
    from collections.abc import Mapping


class Setting(NamedTuple):
    """Keras' name for a number or a switch of a group."""

    name: str


_RATE = Setting("learning_rate")
_EPSILON = Setting("epsilon")
_EVERY = {"maximize": False, "foreach": None, "differentiable": False}
_ADAM = {
    "lr": _RATE,
    "betas": (Setting("beta_1"), Setting("beta_2")),
    "eps": _EPSILON,
    "weight_decay": 0.0,
    "amsgrad": Setting("amsgrad"),
    **_EVERY,
    "capturable": False,
    "fused": None,
    "decoupled_weight_decay": False,
}

GROUPS: dict[str, dict[str, Any]] = {
    "Adam": _ADAM,
    "AdamW": {**_ADAM, "weight_decay": Setting("weight_decay"), "decoupled_weight_decay": True},
    "SGD": {
        "lr": _RATE,
        "momentum": Setting("momentum"),
        "dampening": 0.0,
        "weight_decay": 0.0,
        "nesterov": Setting("nesterov"),
        **_EVERY,
        "fused": None,
    },
    "RMSprop": {
        "lr": _RATE,
        "momentum": Setting("momentum"),
        "alpha": Setting("rho"),
        "eps": _EPSILON,
        "centered": Setting("centered"),
        "weight_decay": 0.0,
        **_EVERY,
        "capturable": False,
    },
    "Adagrad": {
        "lr": _RATE,
        "lr_decay": 0.0,
        "eps": _EPSILON,
        "weight_decay": 0.0,
        "initial_accumulator_value": Setting("initial_accumulator_value"),
        **_EVERY,
        "fused": None,
    },
}
"""The groups of parameters of torch.optim's classes, by the class in Keras."""

NO_STEP = "SGD"
"""The optimizer for which PyTorch keeps no step."""

_NO_MATTER = frozenset(("foreach", "differentiable", "capturable", "fused"))
"""Switches of a group that affect how a step is computed, but not its result."""

_OF_GROUPS = frozenset(
    ("params", "param_names", "initial_lr", "max_lr", "min_lr", "max_momentum", "base_momentum", "swa_lr")
)
"""Other entries of a group: its parameters, and the values of rate schedules."""

_OF_NO_EFFECT = frozenset(
    ("name", "is_legacy_optimizer", "jit_compile", "ema_momentum", "ema_overwrite_frequency", "dtype")
)
"""Settings without a place in PyTorch that change no step: those of averages do where `use_ema` is on."""


def settings_of(optimizer: str) -> set[str]:
    """Return what Keras calls all that the group of an optimizer says."""
    values = (each for value in GROUPS[optimizer].values() for each in _each(value))
    return {value.name for value in values if isinstance(value, Setting)}


def group_of(optimizer: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the group of an optimizer with these settings, without its parameters."""
    return {name: _filled_in(value, settings) for name, value in GROUPS[optimizer].items()}


def optimizer_of_group(group: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the optimizer in Keras whose group this is, and its settings, as Keras calls them.

    ValueError if it is none of `GROUPS`, or has on what Keras' has not.
    """
    lacks = []
    for name, known in GROUPS.items():
        if any(
            isinstance(each, Setting) for key in known.keys() - group.keys() for each in _each(known[key])
        ):
            continue
        all_keys = [*known, *(group.keys() - known.keys() - _OF_GROUPS)]
        odd = next(
            (key for key in all_keys if key not in _NO_MATTER and not _fits(known.get(key), group.get(key))),
            None,
        )
        if odd is None:
            return name, _settings_in(group, known)
        lacks.append(f"{odd} {group.get(odd)!r:.60}, which Keras' {name} does not support")
    raise ValueError(lacks[0] if lacks else f"a group that is none of {', '.join(GROUPS)}")


def _fits(known: Any, given: Any) -> bool:
    """Whether what a group says is a setting of Keras', or what Keras' optimizer does anyway."""
    if type(known) is tuple:
        return type(given) in (tuple, list) and len(given) == len(known)
    return isinstance(known, Setting) or bool(given) == bool(known)


def _settings_in(group: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key in known.keys() & group.keys():
        names, given = _each(known[key]), group[key]
        values = given if type(known[key]) is tuple else (given,)
        found |= {
            each.name: value for each, value in zip(names, values, strict=True) if isinstance(each, Setting)
        }
    return found


def lack_of(optimizer: str, settings: Mapping[str, Any]) -> str | None:
    """Return a setting that is on, and that PyTorch's optimizer does not have; None if there is none."""
    known = settings_of(optimizer) | _OF_NO_EFFECT
    return next((name for name, value in settings.items() if name not in known and value), None)


def remark_on(optimizer: str, generation: str, settings: Mapping[str, Any]) -> str | None:
    """Return how the two add epsilon, where that is not the same."""
    if not settings.get("epsilon"):
        return None
    if optimizer in ("Adam", "AdamW"):
        return (
            "PyTorch adds epsilon after bias correction, and Keras adds it before, so the first training "
            "steps differ slightly"
        )
    if generation == LEGACY and not settings.get("momentum"):
        return None
    where = "PyTorch adds epsilon outside the square root, but Keras inside it"
    return f"{where}, so steps differ where gradients are as small as the root of epsilon"


def _each(value: Any) -> tuple[Any, ...]:
    return value if type(value) is tuple else (value,)


def _filled_in(value: Any, settings: Mapping[str, Any]) -> Any:
    if isinstance(value, Setting):
        return settings[value.name]
    return tuple(_filled_in(each, settings) for each in value) if type(value) is tuple else value
