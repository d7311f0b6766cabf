"""A sparse tensor of ONNX, read as the dense one that it stands for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..core.slicing import allocate
from ..errors import CorruptCheckpointError
from ..model.tensor import LazyTensor

if TYPE_CHECKING:
    import numpy as np

    from ..core.region import Index
    from ..core.spec import TensorSpec
    from .stored import StoredRanges


class SparseTensor(LazyTensor):
    """Values and where they are: numbers of elements, or an index of each dimension; all others are zero."""

    def __init__(
        self, spec: TensorSpec, data: StoredRanges, parts: tuple[LazyTensor, LazyTensor | None]
    ) -> None:
        super().__init__(spec)
        self._data = data
        self._parts = parts

    def read(self) -> np.ndarray[Any, Any]:
        import numpy as np

        out = allocate(self.spec, self.spec.shape, self._data.path)
        out.reshape(-1).view(np.uint8)[...] = 0
        values = self._parts[0].read().reshape(-1)
        places = np.zeros(0, np.int64) if self._parts[1] is None else self._parts[1].read()
        where = places.T if places.ndim == 2 else places[None]
        shape = self.spec.shape if places.ndim == 2 else (out.size,)
        sizes = np.array(shape, np.int64)[:, None]
        if where.shape != (len(shape), values.size) or ((where < 0) | (where >= sizes)).any():
            message = f"the indices have shape {list(places.shape)}, which does not fit {values.size} values"
            raise CorruptCheckpointError(message, path=self._data.path, key=self.spec.key, code="entry")
        if values.size:
            out.reshape(shape)[tuple(where.astype(np.int64))] = values
        return out

    def read_region(self, index: Index) -> np.ndarray[Any, Any]:
        where: tuple[Any, ...] = (*index, ...)
        found: np.ndarray[Any, Any] = self.read()[where]
        return found
