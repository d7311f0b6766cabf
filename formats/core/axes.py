"""Operations on the axes of tensors, and their inverses, as maps spell them.

    T                           axes in reverse order
    perm(3,2,0,1)               axes in this order, as numpy.transpose takes it
    reshape(*,8,64 -> *,512)    another shape; `*`, once on each side, is what is left
    reshape(*,512)              the same, where the way back is not asked for
    gates(1,0,2)                equal parts of the last axis in another order
    concat(0)  split(0,3)       several tensors one behind the other on an axis; one cut into as many
    stack(0)   unstack(0)       several tensors one above the other on a new axis; one taken apart
    sum        addends(2)       the sum of several tensors; one as itself and zeros

The first four turn one tensor into one. The others join or cut; a sequence has at most one of them.
Operations before it apply to each incoming tensor, operations after it to each outgoing one. Axes are counted
from 0 and from the end, as in numpy.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np

    Array: TypeAlias = np.ndarray[Any, Any]

Shape: TypeAlias = tuple[int, ...]

MOST_PARTS = 1 << 16
"""The most parts of a cut tensor; no model has more."""

_MOST_OPERATIONS = 16
_MOST_NUMBERS = 64
_LARGEST = 1 << 62


class Permute(NamedTuple):
    """Axes in another order; in reverse where none is given."""

    order: tuple[int, ...] | None = None

    def _order(self, rank: int) -> tuple[int, ...]:
        if self.order is None:
            return tuple(reversed(range(rank)))
        if sorted(self.order) != list(range(rank)):
            raise ValueError(f"{self} needs {len(self.order)} dimensions, found {rank}")
        return self.order

    def shape(self, shape: Shape) -> Shape:
        return tuple(shape[axis] for axis in self._order(len(shape)))

    def apply(self, array: Array) -> Array:
        return array.transpose(self._order(array.ndim))

    def inverse(self) -> Permute:
        if self.order is None:
            return self
        return Permute(tuple(self.order.index(axis) for axis in range(len(self.order))))

    def __str__(self) -> str:
        return "T" if self.order is None else f"perm({_spelled(self.order)})"


class Reshape(NamedTuple):
    """Another shape, elements in their order; None stands for what is left of them."""

    want: tuple[int | None, ...]
    have: tuple[int | None, ...] | None = None

    def shape(self, shape: Shape) -> Shape:
        if self.have is not None:
            fits = len(shape) == len(self.have)
            if not fits or any(dim not in (None, is_) for dim, is_ in zip(self.have, shape, strict=True)):
                raise ValueError(f"{self} does not fit shape {list(shape)}")
        size = math.prod(shape)
        known = math.prod(dim for dim in self.want if dim is not None)
        left = size // known if known else 0
        made = tuple(left if dim is None else dim for dim in self.want)
        if math.prod(made) != size or (None in self.want and not known):
            raise ValueError(f"{self} does not fit shape {list(shape)}")
        return made

    def apply(self, array: Array) -> Array:
        return array.reshape(self.shape(array.shape))

    def inverse(self) -> Reshape:
        if self.have is None:
            after = _spelled(self.want)
            raise ValueError(
                f"{self} does not give the original shape; write for example reshape(8,64 -> {after})"
            )
        return Reshape(self.have, self.want)

    def __str__(self) -> str:
        before = "" if self.have is None else f"{_spelled(self.have)} -> "
        return f"reshape({before}{_spelled(self.want)})"


class Gates(NamedTuple):
    """Equal parts of the last axis in another order: those of a recurrent layer's gates."""

    order: tuple[int, ...]

    def shape(self, shape: Shape) -> Shape:
        if not shape or shape[-1] % len(self.order):
            raise ValueError(f"{self} does not fit shape {list(shape)}")
        return shape

    def apply(self, array: Array) -> Array:
        import numpy as np

        self.shape(array.shape)
        parts = np.split(array, len(self.order), axis=-1)
        return np.concatenate([parts[part] for part in self.order], axis=-1)

    def inverse(self) -> Gates:
        return Gates(tuple(self.order.index(part) for part in range(len(self.order))))

    def __str__(self) -> str:
        return f"gates({_spelled(self.order)})"


class Join(NamedTuple):
    """Makes one tensor of several: `concat`, `stack` or `sum`; `parts` is their number where it is known."""

    kind: str
    axis: int = 0
    parts: int | None = None

    def shapes(self, shapes: Sequence[Shape]) -> list[Shape]:
        first = shapes[0]
        if any(shape != first for shape in shapes):
            unlike = next(shape for shape in shapes if shape != first)
            message = f"{self} needs parts of the same shape, found {list(first)} and {list(unlike)}"
            raise ValueError(f"{message}; the result could not be split again")
        if self.kind == "sum":
            return [first]
        axis = _axis(self.axis, len(first) + (self.kind == "stack"), self)
        if self.kind == "stack":
            return [(*first[:axis], len(shapes), *first[axis:])]
        return [(*first[:axis], first[axis] * len(shapes), *first[axis + 1 :])]

    def apply(self, arrays: Sequence[Array]) -> list[Array]:
        import numpy as np

        self.shapes([array.shape for array in arrays])
        if self.kind == "sum":
            return [_sum(arrays)]
        join = np.stack if self.kind == "stack" else np.concatenate
        return [join(arrays, axis=self.axis)]

    def inverse(self) -> Cut:
        if self.kind == "concat" and self.parts is None:
            raise ValueError(
                f"{self} does not give the number of parts; write for example concat({self.axis},3)"
            )
        return Cut(_CUT_OF[self.kind], self.axis, self.parts)

    def __str__(self) -> str:
        if self.kind == "sum":
            return self.kind
        parts = self.kind == "concat" and self.parts is not None
        return f"{self.kind}({self.axis},{self.parts})" if parts else f"{self.kind}({self.axis})"


class Cut(NamedTuple):
    """Makes several tensors of one: `split`, `unstack` or `addends`."""

    kind: str
    axis: int = 0
    parts: int | None = None

    def count(self, shape: Shape) -> int:
        """Return how many tensors there are of one of this shape; ValueError if it does not fit."""
        if self.kind == "addends":
            return self.parts or 2
        size = shape[_axis(self.axis, len(shape), self)]
        if self.kind == "split" and (not self.parts or size % self.parts):
            raise ValueError(f"{self} does not fit shape {list(shape)}")
        parts = self.parts if self.kind == "split" and self.parts else size
        if parts > MOST_PARTS:
            raise ValueError(f"{self} makes {parts} tensors, at most {MOST_PARTS} are supported")
        if self.parts is not None and parts != self.parts:
            raise ValueError(f"{self} makes {self.parts} tensors, but shape {list(shape)} gives {size}")
        return parts

    def shapes(self, shapes: Sequence[Shape]) -> list[Shape]:
        (shape,) = shapes
        count = self.count(shape)
        if self.kind == "addends":
            return [shape] * count
        axis = _axis(self.axis, len(shape), self)
        size = () if self.kind == "unstack" else (shape[axis] // count,)
        return [(*shape[:axis], *size, *shape[axis + 1 :])] * count

    def apply(self, arrays: Sequence[Array]) -> list[Array]:
        import numpy as np

        (array,) = arrays
        count = self.count(array.shape)
        if self.kind == "addends":
            return [array, *(np.zeros_like(array) for _ in range(count - 1))]
        if self.kind == "unstack":
            return list(np.moveaxis(array, self.axis, 0))
        return np.split(array, count, axis=self.axis)

    def inverse(self) -> Join:
        return Join(_JOIN_OF[self.kind], self.axis, self.parts)

    def __str__(self) -> str:
        if self.kind == "unstack":
            return f"unstack({self.axis})"
        return f"split({self.axis},{self.parts})" if self.kind == "split" else f"addends({self.parts})"


_CUT_OF = {"concat": "split", "stack": "unstack", "sum": "addends"}
_JOIN_OF = {cut: join for join, cut in _CUT_OF.items()}

Change: TypeAlias = Permute | Reshape | Gates
Operation: TypeAlias = Change | Join | Cut


def _sum(arrays: Sequence[Array]) -> Array:
    """Return the sum of tensors; of one and zeros that one, bit for bit: -0 + 0 would be another."""
    held = [array for array in arrays if array.any()]
    if len(held) < 2:
        return held[0] if held else arrays[0]
    total = held[0]
    for array in held[1:]:
        total = total + array
    return total


def _axis(axis: int, rank: int, operation: Operation) -> int:
    if not -rank <= axis < rank:
        raise ValueError(f"{operation} needs an axis that a tensor with {rank} dimensions does not have")
    return axis % rank


class AxisOperations(NamedTuple):
    """Operations in their order: to each tensor that comes, from several to others, to each that goes."""

    before: tuple[Change, ...] = ()
    turn: Join | Cut | None = None
    after: tuple[Change, ...] = ()

    @classmethod
    def of(cls, operations: Sequence[Operation]) -> AxisOperations:
        """Return operations in a row as steps; ValueError where two of them join or cut."""
        turns = [at for at, operation in enumerate(operations) if isinstance(operation, Join | Cut)]
        if len(turns) > 1:
            names = " and ".join(str(operations[at]) for at in turns[:2])
            raise ValueError(f"found {names}; expected only one operation that joins or splits tensors")
        at = turns[0] if turns else len(operations)
        changes = [each for each in operations if not isinstance(each, Join | Cut)]
        turn = operations[at] if turns else None
        assert not isinstance(turn, Permute | Reshape | Gates)
        return cls(tuple(changes[:at]), turn, tuple(changes[at:]))

    def shapes(self, shapes: Sequence[Shape]) -> list[Shape]:
        """Return the shapes of what is made; ValueError if an operation does not fit."""
        found = [_through(self.before, shape, lambda change, at: change.shape(at)) for shape in shapes]
        found = self.turn.shapes(found) if self.turn is not None else found
        return [_through(self.after, shape, lambda change, at: change.shape(at)) for shape in found]

    def apply(self, arrays: Sequence[Array]) -> list[Array]:
        """Return what is made of arrays; views of them where that is enough."""
        found = [_through(self.before, array, lambda change, at: change.apply(at)) for array in arrays]
        found = self.turn.apply(found) if self.turn is not None else found
        return [_through(self.after, array, lambda change, at: change.apply(at)) for array in found]

    def inverse(self) -> AxisOperations:
        """Return what undoes this; ValueError if an operation does not say enough for that."""
        return AxisOperations(
            tuple(change.inverse() for change in reversed(self.after)),
            self.turn.inverse() if self.turn is not None else None,
            tuple(change.inverse() for change in reversed(self.before)),
        )

    @property
    def operations(self) -> tuple[Operation, ...]:
        return (*self.before, *((self.turn,) if self.turn is not None else ()), *self.after)

    def __str__(self) -> str:
        return " ".join(map(str, self.operations))


NOTHING = AxisOperations()


def _through(changes: Sequence[Change], value: Any, step: Callable[[Change, Any], Any]) -> Any:
    for change in changes:
        value = step(change, value)
    return value


# Spelling -----------------------------------------------------------------------------

_OPERATION = re.compile(r"\s*([A-Za-z_]+)(?:\(([^()]*)\))?(?=\s|$)")


def parse_steps(text: str) -> AxisOperations:
    """Return the operations in a text, which blanks separate. Raises ValueError."""
    operations: list[Operation] = []
    at = 0
    while text[at:].strip():
        match = _OPERATION.match(text, at)
        if match is None:
            raise ValueError(f"{text[at:].strip()!r:.60} is not an operation; expected one of {_KNOWN}")
        operations.append(_operation(match[1], match[2]))
        if len(operations) > _MOST_OPERATIONS:
            raise ValueError(f"more than {_MOST_OPERATIONS} operations")
        at = match.end()
    return AxisOperations.of(operations)


def _operation(name: str, inside: str | None) -> Operation:
    make = _OPERATIONS.get(name)
    if make is None or (inside is None) != (name in _BARE):
        raise ValueError(
            f"{name if inside is None else f'{name}({inside})'!r:.60} is not an operation; "
            f"expected one of {_KNOWN}"
        )
    try:
        return make(inside or "")
    except ValueError as error:
        raise ValueError(f"{name}({inside}): {error}" if inside is not None else str(error)) from error


def _numbers(text: str) -> tuple[int, ...]:
    words = [word.strip() for word in text.split(",")]
    if len(words) > _MOST_NUMBERS or not all(re.fullmatch(r"-?[0-9]{1,18}", word) for word in words):
        raise ValueError(f"expected at most {_MOST_NUMBERS} numbers separated by commas")
    return tuple(map(int, words))


def _order(text: str) -> tuple[int, ...]:
    order = _numbers(text)
    if sorted(order) != list(range(len(order))):
        raise ValueError(f"expected each number from 0 to {len(order) - 1} once")
    return order


def _dims(text: str) -> tuple[int | None, ...]:
    words = [word.strip() for word in text.split(",")] if text.strip() else []
    if words.count("*") > 1:
        raise ValueError("expected at most one *")
    known = iter(_numbers(",".join(word for word in words if word != "*")) if set(words) - {"*"} else ())
    dims = tuple(None if word == "*" else next(known) for word in words)
    if math.prod(abs(dim) for dim in dims if dim) > _LARGEST or any(
        dim is not None and dim < 0 for dim in dims
    ):
        raise ValueError("not a valid tensor shape")
    return dims


def _reshape(text: str) -> Reshape:
    before, arrow, after = text.partition("->")
    if not arrow:
        return Reshape(_dims(before))
    have, want = _dims(before), _dims(after)
    known = [math.prod(dim for dim in dims if dim is not None) for dims in (have, want)]
    if (None in have) != (None in want) or (None not in have and known[0] != known[1]):
        raise ValueError("expected the same number of elements on both sides, and a * on both or neither")
    return Reshape(want, have)


def _join(kind: str) -> Callable[[str], Join]:
    def make(text: str) -> Join:
        axis, *more = _numbers(text)
        if len(more) > (kind == "concat"):
            raise ValueError("expected an axis")
        return Join(kind, axis, _parts(more[0]) if more else None)

    return make


def _split(text: str) -> Cut:
    axis, *more = _numbers(text)
    if len(more) != 1:
        raise ValueError("expected an axis and a number of parts")
    return Cut("split", axis, _parts(more[0]))


def _unstack(text: str) -> Cut:
    (axis, *more) = _numbers(text)
    if more:
        raise ValueError("expected an axis")
    return Cut("unstack", axis)


def _addends(text: str) -> Cut:
    if _numbers(text) != (2,):
        raise ValueError("expected 2 as the number of addends")
    return Cut("addends", 0, 2)


def _parts(number: int) -> int:
    if not 1 <= number <= MOST_PARTS:
        raise ValueError(f"expected 1 to {MOST_PARTS} parts")
    return number


_OPERATIONS: dict[str, Callable[[str], Operation]] = {
    "T": lambda _: Permute(),
    "perm": lambda text: Permute(_order(text)),
    "reshape": _reshape,
    "gates": lambda text: Gates(_order(text)),
    "concat": _join("concat"),
    "stack": _join("stack"),
    "sum": lambda _: Join("sum"),
    "split": _split,
    "unstack": _unstack,
    "addends": _addends,
}
_BARE = ("T", "sum")
_KNOWN = ", ".join(name if name in _BARE else f"{name}(...)" for name in _OPERATIONS)


def _spelled(numbers: Sequence[int | None]) -> str:
    return ",".join("*" if number is None else str(number) for number in numbers)
