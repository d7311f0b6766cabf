"""tf.train.ExponentialMovingAverage: averages of variables, stored in additional variables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import graphs
from .functions import group
from .names import name_scope
from .ops.elementwise import cast, minimum
from .tensor import Tensor, as_tensor
from .unknown import refuse
from .variable import Variable

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["ExponentialMovingAverage"]


def _trained() -> list[Variable]:
    """Return the variables that are trained of the graph that is open: eagerly none, as in TensorFlow."""
    return [one for one in (graphs.current() or graphs.DEFAULT).global_variables() if one.trainable]


class ExponentialMovingAverage:
    """Keeps an average of each variable: `average -= (1 - decay) * (average - variable)`."""

    def __init__(
        self, decay: Any, num_updates: Any = None, zero_debias: bool = False,
        name: str = "ExponentialMovingAverage",
    ) -> None:  # fmt: skip
        refuse("ExponentialMovingAverage", zero_debias=zero_debias)
        self._decay, self._num_updates, self._name = decay, num_updates, name
        self._averages: dict[int, tuple[Variable, Variable]] = {}

    @property
    def name(self) -> str:
        return self._name

    def apply(self, var_list: Iterable[Any] | None = None) -> Any:
        """Take in the values of variables; the first call makes their averages."""
        given = list(_trained() if var_list is None else var_list)
        for variable in given:
            if isinstance(variable, Tensor):
                raise TypeError(
                    "tf.train.ExponentialMovingAverage does not support non-Variable tensors when eager "
                    "execution is enabled."
                )
            if not variable.dtype.is_floating:
                raise TypeError(f"The variables must be half, float, or double: {variable.name}")
            if id(variable) not in self._averages:
                with name_scope(None):
                    first = (graphs.current() or graphs.DEFAULT).first(variable)
                    made = Variable(first, trainable=False, name=self.average_name(variable))
                self._averages[id(variable)] = variable, made
        decay = cast(as_tensor(self._decay), "float32")
        if self._num_updates is not None:
            count = cast(self._num_updates, "float32")
            decay = minimum(decay, (1.0 + count) / (10.0 + count))
        changes: list[Any] = []
        for variable in given:
            average = self.average(variable)
            assert average is not None
            changes.append(average.assign_sub((average - variable) * cast(1.0 - decay, variable.dtype)))
        return group(*changes)

    def average(self, var: Any) -> Variable | None:
        """Return the variable with the average of a variable, None for one without."""
        found = self._averages.get(id(var))
        return None if found is None else found[1]

    def average_name(self, var: Any) -> str:
        average = self.average(var)
        return f"{var.name.removesuffix(':0')}/{self._name}" if average is None else average.name[:-2]

    def variables_to_restore(self, moving_avg_variables: Iterable[Any] | None = None) -> dict[str, Any]:
        """Return the variables by the names under which a Saver finds their averages, or themselves."""
        graph = graphs.current() or graphs.DEFAULT
        averaged = list(_trained() if moving_avg_variables is None else moving_avg_variables)
        found = {self.average_name(one): one for one in averaged}
        names = {one.name for one in averaged}
        others = {one.name[:-2]: one for one in graph.global_variables() if one.name not in names}
        return {**others, **found}
