"""The optimizers of TensorFlow and Keras: what each keeps, and what that is called in each generation.

    generation   what                            slots                              steps taken
    tf1          tf.compat.v1.train              `<variable>/Adam`, `..._1`         beta1_power, global_step
    legacy       Keras before 2.11, .legacy      slot variables `m`, `v`            iter
    keras2       Keras 2.11 to 2.15, tf_keras    lists `_momentums`, and all in     _iterations
                                                 one list `_variables`
    keras3       Keras 3                         the same, with other names         _iterations

A slot is known by its meaning, which is the same in all generations, and never by its
number in a list: `_variables/3` is another slot in each.  Its value is the same, too,
but where it `turns`: TensorFlow 1 keeps for momentum the sum of gradients, PyTorch as well,
Keras the step that follows of it, -learning_rate times that.

PyTorch keeps the same for each parameter, together with `step`, a float, and for NAdam `mu_product`; its SGD
keeps no step. Its programs differ from TensorFlow's in ways that no checkpoint shows. Adam adds epsilon after
the bias correction; RMSprop and Adagrad add it after the root. Adagrad's sum starts at 0. `weight_decay` is
part of the gradient, except in AdamW. NAdam is that of legacy Keras, whose momentum decays as slowly.
tensorflow/python/training/, keras/src/optimizers/legacy/ and keras/src/optimizers/ (Keras 2.15, 3.15),
torch/optim/ (PyTorch 2.13)
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator


TF1, LEGACY, KERAS2, KERAS3, PYTORCH, OPTAX = "tf1", "legacy", "keras2", "keras3", "pytorch", "optax"
TITLES = {
    TF1: "TensorFlow 1",
    LEGACY: "legacy Keras",
    KERAS2: "Keras 2.11 to 2.15",
    KERAS3: "Keras 3",
    PYTORCH: "PyTorch",
    OPTAX: "optax",
}
"""Generations, as messages name them, PyTorch and optax."""


_NUMBERED = re.compile(r"_\d+$")


class SlotKind(NamedTuple):
    """A value that an optimizer keeps for each variable, by its names; an empty name means that it is not
    kept.

    `keras2` begins a full name (`Adam/m/dense/kernel`), `keras3` ends one
    (`adam/dense_kernel_momentum`); `list2` and `list3` are the attributes in which those
    list it.  `made_by` is the setting without which it is not kept (amsgrad, centered, momentum).
    """

    meaning: str
    tf1: str = ""
    legacy: str = ""
    keras2: str = ""
    keras3: str = ""
    list2: str = ""
    list3: str = ""
    pytorch: str = ""
    made_by: str = ""
    optax: str = ""
    """The field of optax's state, empty if no state of optax has it or what it holds is another value."""

    turns: bool = False
    """Whether TensorFlow 1, PyTorch and optax keep the sum of gradients, Keras -learning_rate times that."""

    is_step: bool = False
    """Whether all generations keep PyTorch's times learning_rate, but optax -learning_rate times that."""

    idle_in: tuple[str, ...] = ()
    """Generations that make it without need, where momentum is 0."""

    def name(self, generation: str) -> str:
        """Return its name in a generation: of the slot, or of the list that holds it."""
        names = {TF1: self.tf1, LEGACY: self.legacy, KERAS2: self.list2, KERAS3: self.list3}
        return {**names, PYTORCH: self.pytorch, OPTAX: self.optax}[generation]

    def common_name(self, generation: str) -> str:
        """Return what a generation of Keras calls it in full names, and people do: `m`, `momentum`."""
        names = {LEGACY: self.legacy, KERAS2: self.keras2, KERAS3: self.keras3}
        return names[generation] or self.name(generation).strip("_")


class Optimizer(NamedTuple):
    """An optimizer: its class in Keras, and what it keeps.

    `order` says how Keras since 2.11 lists slots: for each variable those of the first
    group, then for each those of the next.  `state` is one name for all whose slots mean the
    same.
    """

    name: str
    slots: tuple[SlotKind, ...]
    order: tuple[tuple[str, ...], ...]
    tf1: str = ""
    state: str = ""
    counts: bool = False
    """Whether a step depends on how many came before."""

    corrects_bias: bool = True
    has_powers: bool = False
    """Whether TensorFlow 1 keeps beta1_power and beta2_power, from which the count follows."""

    pytorch: str = ""
    """Its class in torch.optim, where that has it."""

    interleaved: bool = False
    """Whether the legacy one lists its slots variable by variable, as the newer do; otherwise meaning by
    meaning.
    """

    generations: tuple[str, ...] = (LEGACY, KERAS2, KERAS3)

    def listed(self, generation: str) -> tuple[tuple[str, ...], ...]:
        """Return how a generation of Keras lists slots: `order`, or what the legacy one has instead."""
        if generation != LEGACY:
            return self.order
        groups = self.order if self.interleaved else tuple((slot.meaning,) for slot in self.slots)
        return tuple(group for group in groups if self.slot(group[0]).legacy)

    def tf1_order(self, meanings: Collection[str]) -> list[SlotKind]:
        """Return the slots that TensorFlow 1 makes where an optimizer keeps these, in its order."""
        kept = [slot for slot in self.slots if slot.tf1 and (slot.meaning in meanings or TF1 in slot.idle_in)]
        return sorted(kept, key=lambda slot: TF1 in slot.idle_in)

    def slot(self, meaning: str) -> SlotKind:
        return next(slot for slot in self.slots if slot.meaning == meaning)

    def meanings(self, generation: str) -> dict[str, str]:
        """Return the meaning of each of its slots' names in a generation."""
        return {slot.name(generation): slot.meaning for slot in self.slots if slot.name(generation)}

    def keeps(self, generation: str, names: Collection[str]) -> bool:
        """Whether slots of these names, and no others, are what it may have in a generation."""
        known = self.meanings(generation)
        needed = {
            slot.name(generation) for slot in self.slots if not slot.made_by or generation in slot.idle_in
        }
        return needed <= set(names) <= set(known)


_SLOTS = """
m,m,m,m,m,momentum,_momentums,=,exp_avg,-,mu
v,v,v,v,v,velocity,_velocities,=,exp_avg_sq,-,nu
vhat,vhat,-,vhat,vhat,velocity_hat,_velocity_hats,=,max_exp_avg_sq,amsgrad,-
adamax_m,m,-,m,m,momentum,_m,=,exp_avg,-,mu
adamax_u,u,-,v,u,norm,_u,=,exp_inf,-,nu
lion_m,m,-,-,m,momentum,momentums,_momentums,-,-,mu
sum,accumulator,accumulator,accumulator,accumulator,=,_accumulators,=,sum,-,sum_of_squares
momentum,momentum,momentum,momentum,m,momentum,momentums,=,momentum_buffer,momentum,trace
rms,rms,rms,rms,velocity,=,_velocities,=,square_avg,-,nu
step,momentum,momentum,momentum,momentum,=,_momentums,=,momentum_buffer,momentum,trace
mg,mg,mg,mg,average_gradient,=,_average_gradients,=,grad_avg,centered,mu
grad,accumulated_grad,accum,accum_grad,accumulated_grad,=,_accumulated_grads,=,square_avg,-,e_g
delta,accumulated_delta_var,accum_update,accum_var,accumulated_delta_var,=,_accumulated_delta_vars,=,acc_delta,-,e_x
ftrl,accumulator,accum,accumulator,accumulator,=,_accumulators,=,-,-,-
linear,linear,linear,linear,linear,=,_linears,=,-,-,-
average,average,-,-,average,=,_model_variables_moving_average,=,-,use_ema,-
accumulated,accumulated_gradient,-,-,-,gradient_accumulator,-,_accumulated_gradients,-,gradient_accumulation_steps,-
"""
"""The fields of each `SlotKind` up to `optax`, after its name here: `-` is empty, `=` the field before."""


def _kinds() -> dict[str, SlotKind]:
    kinds = {}
    for name, *fields in (row.split(",") for row in _SLOTS.split()):
        for at, field in enumerate(fields):
            fields[at] = fields[at - 1] if field == "=" else field.replace("-", "")
        kinds[name] = SlotKind._make((*fields, False, False, ()))
    kinds["momentum"] = kinds["momentum"]._replace(turns=True, idle_in=(KERAS2,))
    kinds["step"] = kinds["step"]._replace(is_step=True, idle_in=(TF1,))
    kinds |= {f"new_{name}": kinds[name]._replace(tf1="") for name in "mv"}
    return kinds


_KINDS = _kinds()

AVERAGE = _KINDS["average"].meaning
"""The moving average of the variable itself, which any optimizer of Keras since 2.11 may keep."""

ACCUMULATED = _KINDS["accumulated"].meaning
"""The sum of gradients that no step has taken yet, which Keras 3 lists behind the average."""


def _row(name: str, slots: str, order: str, **more: Any) -> Optimizer:
    """Return a row of the table; groups of the order are separated by `,`."""
    groups = tuple(tuple(group.split()) for group in order.split(","))
    return Optimizer(name, tuple(_KINDS[slot] for slot in slots.split()), groups, **more)


_SINCE_2_11 = (KERAS2, KERAS3)
_POWERS = {"counts": True, "has_powers": True}
_BERTS = {"state": "Adam", "corrects_bias": False, "generations": (LEGACY,)}
_ROWS = (
    _row("Adam", "m v vhat", "m v,vhat", tf1="Adam", pytorch="Adam", **_POWERS),
    _row(
        "AdamW", "m v vhat", "m v,vhat", state="Adam", counts=True, pytorch="AdamW", generations=_SINCE_2_11
    ),
    _row("AdamWeightDecay", "m v", "m v", tf1="AdamWeightDecay", **_BERTS),
    _row("Adamax", "adamax_m adamax_u", "m u", counts=True, pytorch="Adamax"),
    _row("Nadam", "new_m new_v", "m v", counts=True, pytorch="NAdam"),
    _row("SGD", "momentum", "momentum", tf1="Momentum", pytorch="SGD"),
    _row("Lion", "lion_m", "m", generations=_SINCE_2_11),
    _row("Adagrad", "sum", "accumulator", tf1="Adagrad", pytorch="Adagrad"),
    _row("ProximalAdagrad", "sum", "accumulator", tf1="ProximalAdagrad", state="Adagrad", generations=()),
    _row("RMSprop", "rms step mg", "rms,momentum,mg", tf1="RMSProp", pytorch="RMSprop"),
    _row(
        "Adadelta",
        "grad delta",
        "accumulated_grad accumulated_delta_var",
        tf1="Adadelta",
        pytorch="Adadelta",
    ),
    _row("Ftrl", "ftrl linear", "accumulator linear", tf1="Ftrl", interleaved=True),
)


def _averaging(row: Optimizer) -> Optimizer:
    """Return a row with the average of the variable, which Keras lists before the optimizer's own slots."""
    if KERAS2 not in row.generations:
        return row
    order = ((AVERAGE,), (ACCUMULATED,), *row.order)
    return row._replace(slots=(*row.slots, _KINDS["average"], _KINDS["accumulated"]), order=order)


OPTIMIZERS = tuple(map(_averaging, _ROWS))
"""The table. An optimizer outside it is converted between equals only, and otherwise rejected by name."""

BY_NAME = {optimizer.name: optimizer for optimizer in OPTIMIZERS}

OTHERS = frozenset(
    (
        "adafactor",
        "adagradda",
        "lamb",
        "muon",
        "schedulefreeadamw",
        "lazyadam",
        "radam",
        "rectifiedadam",
        "yogi",
        "novograd",
        "lars",
        "sgdw",
    )
)
"""Optimizers that are known not to be in the table although their slots may be called as another's are."""

NO_SLOTS = "GradientDescent"
"""The optimizer of TensorFlow 1 that leaves nothing in a checkpoint."""


def state_of(optimizer: Optimizer) -> str:
    """Return the one name of all optimizers that keep the same."""
    return optimizer.state or optimizer.name


def candidates(generation: str, names: Collection[str]) -> Iterator[Optimizer]:
    """Yield the optimizers that keep slots of just these names in a generation."""
    for optimizer in OPTIMIZERS:
        made = bool(optimizer.tf1) if generation == TF1 else generation in optimizer.generations
        if made and optimizer.keeps(generation, names):
            yield optimizer


def named(called: str) -> Optimizer | None:
    """Return the optimizer that a checkpoint calls so: by its class, or as TensorFlow 1 or snake case do."""
    plain = _plain(called)
    known = (row for row in OPTIMIZERS if plain in (_plain(row.name), _plain(row.tf1)))
    return next(known, None) if plain else None


def is_another(called: str) -> bool:
    """Whether a checkpoint calls an optimizer by the name of one that is not in the table."""
    return _plain(called) in OTHERS


def _plain(called: str) -> str:
    """Return a name without case, underscores and the number that makes it unique: `rm_sprop_1`."""
    return _NUMBERED.sub("", called).replace("_", "").lower().removesuffix("optimizer")
