"""A checkpoint in another layout: a reader whose tensors are made of another's, one at a time.

Its users see the other layout's keys, shapes and values, so that every operation on a checkpoint works on it,
too. Tensors that are only renamed are read as before; a permuted, joined or cut tensor is in memory together
with its sources.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from formats.core.chunks import PIECE
from formats.core.dtypes import BY_NAME
from formats.core.spec import Stored, TensorSpec, key_bytes
from formats.core.words import FirstNames
from formats.errors import ConversionError, DuplicateKeyError
from formats.model.facts import Nothing
from formats.model.reader import Family, FormatReader
from formats.model.tensor import LazyTensor
from formats.orbax.facts import TreeFacts
from formats.store.work.workers import SERIAL
from formats.torch.facts import TorchFacts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy as np

    from formats.core.chunks import Chunk
    from formats.core.region import Extents, Index
    from formats.keras.training_state import TrainingState
    from formats.location import Location
    from formats.model.facts import Facts
    from formats.model.reader import Format
    from formats.model.verification import Finding, Verification
    from formats.store.ranges import DecodedRange, FileRange
    from formats.store.work.workers import Workers

    from .relations import Relation


_SCALABLE = frozenset(("float16", "float32", "float64"))


class Constant(NamedTuple):
    """A tensor of the target that no tensor is the source of: one value in all of its elements."""

    key: str
    value: float
    shape: tuple[int, ...]
    dtype: str


class DerivedReader(FormatReader):
    """A reader of what relations make of another reader's tensors.

    Raises DuplicateKeyError where two of them have one key, ConversionError where parts
    that are joined are not of one dtype, and for a listing.  Tensors `of_keras` have the names
    that a model gives its variables, and a configuration explains them.
    """

    states: Sequence[TrainingState] = ()
    """The state of optimizers whose slots are among the tensors, by the keys that these have here."""

    origins: Mapping[str, tuple[str, ...]]
    """The keys that each tensor is made of; of a constant there are none."""

    def __init__(
        self,
        reader: FormatReader,
        relations: Sequence[Relation],
        constants: Sequence[Constant] = (),
        *,
        of_keras: bool = False,
        keeps_facts: bool = False,
    ) -> None:
        if not reader.format.has_values:
            raise ConversionError("this is a listing, which stores no values", path=reader.location.path)
        self.location = reader.location
        self.format = reader.format._replace(
            name="layout",
            family=Family.KERAS if of_keras else Family.ARRAYS,
            has_object_graph=False,
            is_bundle=False,
            names_layers=False,
            nests_keys=False,
        )
        self.findings = []
        self._reader = reader
        self._keeps_facts = keeps_facts
        made = [tensor for relation in relations for tensor in self._made(relation)]
        self.origins = {tensor.spec.key: tensor.sources for tensor in made}
        self.operations = {
            target: _spelled(relation) for relation in relations for target in relation.targets
        }
        tensors: list[LazyTensor] = [*made, *map(_Filled, constants)]
        self._tensors = {
            tensor.spec.key: tensor for tensor in sorted(tensors, key=lambda one: key_bytes(one.spec.key))
        }
        if len(self._tensors) != len(tensors):
            twice = next(constant.key for constant in constants if constant.key in self.origins)
            raise DuplicateKeyError("two tensors would become this key", path=self.location.path, key=twice)
        self._specs = {key: tensor.spec for key, tensor in self._tensors.items()}

    def _made(self, relation: Relation) -> Iterator[_Made | _Renamed]:
        origins = [self._reader[source] for source in relation.sources]
        dtypes = {origin.spec.dtype.name for origin in origins}
        if len(dtypes) > 1:
            message = f"this tensor combines {' and '.join(sorted(dtypes))}; expected one dtype"
            raise ConversionError(message, path=self.location.path, key=relation.targets[0])
        if not relation.steps.operations and relation.scale == 1:
            yield _Renamed(origins[0], relation.targets[0])
            return
        if relation.scale != 1 and not dtypes <= _SCALABLE:
            message = (
                f"this tensor must be multiplied, which needs {', '.join(sorted(_SCALABLE))}; "
                f"found {dtypes.pop()}"
            )
            raise ConversionError(message, path=self.location.path, key=relation.sources[0])
        shapes = relation.steps.shapes([origin.spec.shape for origin in origins])
        dtype = origins[0].spec.dtype
        for number, (target, shape) in enumerate(zip(relation.targets, shapes, strict=True)):
            yield _Made(TensorSpec(target, dtype, shape), origins, relation, number)

    @property
    def specs(self) -> Mapping[str, TensorSpec]:
        return self._specs

    @property
    def kinds(self) -> Mapping[str, str]:
        kinds = self._reader.kinds
        return {
            key: kinds.get(self.origins[key][0], "variable") if key in self.origins else "state"
            for key in self._specs
        }

    @property
    def full_names(self) -> Mapping[str, str]:
        """The names themselves: a template's variables of these full names are meant."""
        return {key: key for key in self._specs}

    @property
    def facts(self) -> Facts:
        """The values and containers around the tensors, if `keeps_facts`: those of a tree or of PyTorch."""
        facts = self._reader.facts
        if not self._keeps_facts or not isinstance(facts, (TreeFacts, TorchFacts)):
            return Nothing()
        keys, parts = self._new_keys()
        if isinstance(facts, TreeFacts):
            return facts.rekeyed(keys).split(parts)
        return Nothing() if self._is_flat(keys, parts) else facts.rekeyed(keys)

    def _new_keys(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return the first new key of each old one, and by each other new key of an old one the first."""
        keys: dict[str, str] = {}
        parts: dict[str, str] = {}
        for key, origins in self.origins.items():
            for origin in origins:
                first = keys.setdefault(origin, key)
                if first != key:
                    parts[key] = first
        return keys, parts

    def _is_flat(self, keys: Mapping[str, str], parts: Mapping[str, str]) -> bool:
        """Whether tensors are joined or split, so that the containers of PyTorch have no place for them."""
        return bool(parts) or len(set(keys.values())) < len(keys)

    def left_out(self) -> Iterator[str]:
        """Yield a note on the values of a PyTorch file that go because its tensors are joined or split."""
        facts = self._reader.facts
        if self._keeps_facts and isinstance(facts, TorchFacts) and self._is_flat(*self._new_keys()):
            names = FirstNames(facts.beside())
            if names.count:
                yield f"left out {names}: after tensors are joined or split, only tensors are written"

    @property
    def source_format(self) -> Format:
        return self._reader.source_format

    def facts_findings(self) -> Sequence[Finding]:
        return self._reader.facts_findings() if self._keeps_facts else ()

    def tensor(self, key: str) -> LazyTensor:
        return self._tensors[key]

    def prove_specs(self, keys: Any = None) -> None:
        held = self.origins if keys is None else [key for key in keys if key in self.origins]
        self._reader.prove_specs({origin for key in held for origin in self.origins[key]})

    def files(self) -> Sequence[Location]:
        return self._reader.files()

    def verify(self, workers: Workers = SERIAL) -> Iterator[Verification]:
        return self._reader.verify(workers)

    def has_changed(self) -> bool:
        return self._reader.has_changed()

    def check_unchanged(self) -> None:
        self._reader.check_unchanged()


def _spelled(relation: Relation) -> str:
    """Return the operations on a tensor, including a scale, which maps cannot spell."""
    scale = f"scale({relation.scale:.9g})" if relation.scale != 1 else ""
    return f"{relation.steps} {scale}".strip()


class _Renamed(LazyTensor):
    """A tensor under another key, read as it is."""

    def __init__(self, origin: LazyTensor, key: str) -> None:
        super().__init__(origin.spec._replace(key=key))
        self._origin = origin
        self.sources = (origin.spec.key,)

    @property
    def stored(self) -> Stored:
        return self._origin.stored

    def read(self) -> np.ndarray[Any, Any]:
        return self._origin.read()

    def read_region(self, index: Index) -> np.ndarray[Any, Any]:
        return self._origin.read_region(index)

    def region_chunks(self, index: Index, max_bytes: int = PIECE) -> Iterator[Chunk]:
        return self._origin.region_chunks(index, max_bytes)

    def chunks(self, max_bytes: int = PIECE) -> Iterator[Chunk]:
        return self._origin.chunks(max_bytes)

    def file_range(self) -> FileRange | None:
        return self._origin.file_range()

    def decoded_range(self) -> DecodedRange | None:
        return self._origin.decoded_range()

    def shard_range(self) -> FileRange | None:
        return self._origin.shard_range()

    def pieces(self) -> list[tuple[Extents, LazyTensor]]:
        return self._origin.pieces()


class _Made(LazyTensor):
    """A tensor made of others."""

    def __init__(
        self, spec: TensorSpec, origins: Sequence[LazyTensor], relation: Relation, number: int
    ) -> None:
        super().__init__(spec)
        self._origins = origins
        self._relation = relation
        self._number = number
        self.sources = tuple(origin.spec.key for origin in origins)

    def read(self) -> np.ndarray[Any, Any]:
        import numpy as np

        made = self._relation.steps.apply([origin.read() for origin in self._origins])[self._number]
        return np.array(self._scaled(made) if self._relation.scale != 1 else made, order="C")

    def _scaled(self, made: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return it multiplied; ConversionError if a number is then more than its dtype holds."""
        import numpy as np

        wide = made.astype(np.float64) * self._relation.scale
        with np.errstate(over="ignore"):
            scaled = wide.astype(made.dtype)
        if not np.array_equal(np.isinf(scaled), np.isinf(made)):
            message = (
                f"the tensor is too large for {self.spec.dtype} after multiplication by "
                f"{self._relation.scale:.6g}"
            )
            raise ConversionError(message, key=self.spec.key)
        return scaled

    def read_region(self, index: Index) -> np.ndarray[Any, Any]:
        return self.read()[index]


class _Filled(LazyTensor):
    """A tensor of one value."""

    def __init__(self, constant: Constant) -> None:
        super().__init__(TensorSpec(constant.key, BY_NAME[constant.dtype], constant.shape))
        self._value = constant.value

    def read(self) -> np.ndarray[Any, Any]:
        import numpy as np

        return np.full(self.spec.shape, self._value, self.spec.dtype.numpy)

    def read_region(self, index: Index) -> np.ndarray[Any, Any]:
        return self.read()[index]
