"""tf.compat.v1.train's optimizers: slots under their variable's name.

    dnn/hiddenlayer_0/kernel/Adagrad     the first slot, `<variable>/<optimizer's name>`
    v/Adam v/Adam_1                      m and v
    beta1_power beta2_power              Adam's, beside the variables

They differentiate what the graph that is open has recorded, without a tape of the program's.
tensorflow/python/training/optimizer.py, slot_creator.py
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .. import graphs
from ..deferred import control
from ..indexed_slices import dense
from ..keras.optimizers.arguments import check_ftrl
from ..keras.optimizers.gradients import apply_by_rows, computed, present
from ..names import name_scope
from ..tensor import OPERATIONS
from ..variable import Variable

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "AdagradOptimizer", "AdamOptimizer", "FtrlOptimizer", "GradientDescentOptimizer", "MomentumOptimizer",
    "Optimizer", "RMSPropOptimizer",
]  # fmt: skip


_op = OPERATIONS


class Optimizer:
    """Base; a subclass makes its slots and applies one gradient to one variable."""

    slot_infix = ""
    """The text between variable and optimizer in a slot's name: `t_0/` in canned Estimators.

    They partition each variable, into one part, and minimize within a scope; the part's slot
    is named after the end of the part's name that is as long as the scope's (formats.md 13.1).
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._slots: dict[tuple[int, str], tuple[Any, Variable]] = {}
        self._others: dict[tuple[int, str], Variable] = {}

    def get_name(self) -> str:
        return self._name

    def get_slot(self, var: Any, name: str) -> Any:
        """Return a variable's slot, None where there is none."""
        return self._slots.get((id(var), name), (None, None))[1]

    def get_slot_names(self) -> list[str]:
        return sorted({name for _, name in self._slots})

    def _slot(self, variable: Any, name: str, initial: float = 0.0, named: str | None = None) -> Variable:
        slot = self.get_slot(variable, name)
        if slot is None:
            with name_scope(None):
                slot = Variable(
                    np.full_like(variable._value, initial),
                    trainable=False,
                    name=f"{variable._shared_name}/{self.slot_infix}{named or self._name}",
                )
            self._slots[id(variable), name] = (variable, slot)
        return slot

    def _other(self, name: str, initial: float) -> Variable:
        """Return a variable that belongs to no other, one for each graph."""
        key = (id(graphs.current()), name)
        if key not in self._others:
            self._others[key] = Variable(np.float32(initial), trainable=False, name=name)
        return self._others[key]

    def compute_gradients(
        self, loss: Any, var_list: Any = None, gate_gradients: int = 1, aggregation_method: Any = None,
        colocate_gradients_with_ops: bool = False, grad_loss: Any = None,
    ) -> list[tuple[Any, Any]]:  # fmt: skip
        """Return gradients and variables; by default those of all trainable variables in the graph."""
        graph = graphs.current()
        if callable(loss):
            if var_list is None:
                raise ValueError("var_list is needed where loss is a function")
            return computed(loss, var_list, None, grad_loss)
        if graph is None or graph.tape is None:
            raise RuntimeError("`loss` passed to Optimizer.compute_gradients should be a function when eager "
                               "execution is enabled.")  # fmt: skip
        variables = list(var_list or [one for one in graph.global_variables() if one.trainable])
        return list(zip(graph.tape.gradient(loss, variables, grad_loss), variables, strict=True))

    def apply_gradients(
        self, grads_and_vars: Iterable[tuple[Any, Any]], global_step: Any = None, name: str | None = None
    ) -> Any:
        """Take one step, and count it in `global_step`."""
        graph, pairs = graphs.current() or graphs.DEFAULT, present(grads_and_vars)
        mark = graph.mark()
        with control(()):
            self._prepare([variable for _, variable in pairs])
            for gradient, variable in pairs:
                self._update(gradient, variable)
            self._finish()
            if global_step is not None:
                global_step.assign_add(1)
        return graphs.Done(graph._changes_since(mark))

    def minimize(
        self, loss: Any, global_step: Any = None, var_list: Any = None, gate_gradients: int = 1,
        aggregation_method: Any = None, colocate_gradients_with_ops: bool = False, name: str | None = None,
        grad_loss: Any = None,
    ) -> Any:  # fmt: skip
        return self.apply_gradients(self.compute_gradients(loss, var_list, grad_loss=grad_loss), global_step)

    def _prepare(self, variables: list[Any]) -> None:
        """Make what is needed, slot after slot for all variables."""

    def _update(self, gradient: Any, variable: Any) -> None:
        raise NotImplementedError

    def _finish(self) -> None:
        """Change what changes once for each step."""


def _now(value: Any) -> Any:
    """Return a hyperparameter as it is in this step: functions are called."""
    return (graphs.current() or graphs.DEFAULT).held(_called(value))


def _called(value: Any) -> Any:
    return value() if callable(value) else value


class GradientDescentOptimizer(Optimizer):
    def __init__(self, learning_rate: Any, use_locking: bool = False, name: str = "GradientDescent") -> None:
        super().__init__(name)
        self._rate = learning_rate

    def _update(self, gradient: Any, variable: Any) -> None:
        variable.assign_sub(_called(self._rate) * dense(gradient))


class MomentumOptimizer(Optimizer):
    def __init__(
        self, learning_rate: Any, momentum: Any, use_locking: bool = False, name: str = "Momentum",
        use_nesterov: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(name)
        self._rate, self._momentum, self._is_nesterov = learning_rate, momentum, use_nesterov

    def _prepare(self, variables: list[Any]) -> None:
        for variable in variables:
            self._slot(variable, "momentum")

    def _update(self, gradient: Any, variable: Any) -> None:
        slot = self.get_slot(variable, "momentum")
        apply_by_rows(
            "apply_train_momentum", gradient, variable=variable, accumulator=slot, lr=_now(self._rate),
            momentum=_now(self._momentum), nesterov=self._is_nesterov,
        )  # fmt: skip


class AdagradOptimizer(Optimizer):
    def __init__(
        self, learning_rate: Any, initial_accumulator_value: float = 0.1, use_locking: bool = False,
        name: str = "Adagrad",
    ) -> None:  # fmt: skip
        if initial_accumulator_value <= 0.0:
            raise ValueError(f"initial_accumulator_value must be positive: {initial_accumulator_value}")
        super().__init__(name)
        self._rate, self._initial = learning_rate, initial_accumulator_value

    def _prepare(self, variables: list[Any]) -> None:
        for variable in variables:
            self._slot(variable, "accumulator", self._initial)

    def _update(self, gradient: Any, variable: Any) -> None:
        apply_by_rows(
            "apply_adagrad", gradient, variable=variable, accumulator=self.get_slot(variable, "accumulator"),
            lr=_now(self._rate), step=None, decay=None, epsilon=0.0, inside=False,
        )  # fmt: skip


class AdamOptimizer(Optimizer):
    def __init__(
        self, learning_rate: Any = 0.001, beta1: Any = 0.9, beta2: Any = 0.999, epsilon: float = 1e-8,
        use_locking: bool = False, name: str = "Adam",
    ) -> None:  # fmt: skip
        super().__init__(name)
        self._rate, self._beta1, self._beta2, self._epsilon = learning_rate, beta1, beta2, epsilon

    def _prepare(self, variables: list[Any]) -> None:
        self._power1 = self._other("beta1_power", _now(self._beta1))
        self._power2 = self._other("beta2_power", _now(self._beta2))
        for variable in variables:
            self._slot(variable, "m")
            self._slot(variable, "v")

    def _update(self, gradient: Any, variable: Any) -> None:
        _op["apply_train_adam"](
            dense(gradient), variable=variable, m=self.get_slot(variable, "m"),
            v=self.get_slot(variable, "v"), powers=(self._power1, self._power2), lr=_now(self._rate),
            betas=(_now(self._beta1), _now(self._beta2)), epsilon=_now(self._epsilon),
        )  # fmt: skip

    def _finish(self) -> None:
        self._power1.assign(self._power1 * _called(self._beta1))
        self._power2.assign(self._power2 * _called(self._beta2))


class FtrlOptimizer(Optimizer):
    def __init__(
        self, learning_rate: Any, learning_rate_power: float = -0.5, initial_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0, l2_regularization_strength: float = 0.0,
        use_locking: bool = False, name: str = "Ftrl", accum_name: str | None = None,
        linear_name: str | None = None, l2_shrinkage_regularization_strength: float = 0.0, beta: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(name)
        self._rate, self._names = learning_rate, (accum_name, linear_name)
        self._initial = initial_accumulator_value
        self._options = {
            "learning_rate_power": learning_rate_power,
            "l1_regularization_strength": l1_regularization_strength,
            "l2_regularization_strength": l2_regularization_strength,
            "l2_shrinkage_regularization_strength": l2_shrinkage_regularization_strength,
            "beta": beta or 0.0,
        }
        check_ftrl({**self._options, "initial_accumulator_value": initial_accumulator_value})

    def _prepare(self, variables: list[Any]) -> None:
        for variable in variables:
            self._slot(variable, "accum", self._initial, self._names[0])
            self._slot(variable, "linear", 0.0, self._names[1])

    def _update(self, gradient: Any, variable: Any) -> None:
        apply_by_rows(
            "apply_ftrl", gradient, variable=variable, accumulator=self.get_slot(variable, "accum"),
            linear=self.get_slot(variable, "linear"), lr=_now(self._rate), step=None, decay=None,
            **self._options,
        )  # fmt: skip


class RMSPropOptimizer(Optimizer):
    def __init__(
        self, learning_rate: Any, decay: Any = 0.9, momentum: Any = 0.0, epsilon: Any = 1e-10,
        use_locking: bool = False, centered: bool = False, name: str = "RMSProp",
    ) -> None:  # fmt: skip
        super().__init__(name)
        self._rate, self._decay, self._momentum, self._epsilon = learning_rate, decay, momentum, epsilon
        self._slots_made = {"rms": 1.0, **({"mg": 0.0} if centered else {}), "momentum": 0.0}

    def _prepare(self, variables: list[Any]) -> None:
        for variable in variables:
            for name, initial in self._slots_made.items():
                self._slot(variable, name, initial)

    def _update(self, gradient: Any, variable: Any) -> None:
        apply_by_rows(
            "apply_rmsprop", gradient, variable=variable, rms=self.get_slot(variable, "rms"),
            velocity=self.get_slot(variable, "momentum"), mg=self.get_slot(variable, "mg"),
            lr=_now(self._rate), step=None, decay=None, rho=_now(self._decay),
            momentum=_now(self._momentum), epsilon=_now(self._epsilon), inside=True,
        )  # fmt: skip
