"""A tensor without its values: key, dtype, shape, and the placement of its bytes.

Keys are text. Bytes that are not UTF-8 become lone surrogates (`os.fsdecode`'s surrogateescape), so that
distinct keys of a file are distinct texts; `key_bytes` returns the bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .dtypes import DType


KINDS = ("variable", "slot", "optimizer", "state", "graph")


def key_text(key: bytes) -> str:
    """Return a stored key as text; bytes that are not UTF-8 become lone surrogates."""
    return key.decode("utf-8", "surrogateescape")


def key_bytes(key: str) -> bytes:
    """Return the bytes of a key as stored."""
    return key.encode("utf-8", "surrogateescape")


def is_utf8(text: str) -> bool:
    """Whether text from a file was UTF-8 there: it has no lone surrogates, which stand for other bytes."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class StoredType(NamedTuple):
    """The type as which values are stored that are read as another: quantized, or several in a byte.

    A value is `scale * (stored - zero_point)`, or `scale * stored + minimum`.  There is one scale, or one for
    each index along `axis`.  Block types, which keep scales among the values, have neither.
    """

    name: str
    scale: tuple[float, ...] = ()
    zero_point: tuple[int, ...] = ()
    axis: int | None = None
    minimum: float | None = None

    def document(self) -> dict[str, Any]:
        """Return it as JSON shows it; what a tensor has once is a number, not a list."""
        fields: dict[str, Any] = {"dtype": self.name}
        if self.scale:
            fields["scale"] = self.scale[0] if self.axis is None else [*self.scale]
        if self.zero_point:
            fields["zero_point"] = self.zero_point[0] if self.axis is None else [*self.zero_point]
        if self.axis is not None:
            fields["axis"] = self.axis
        if self.minimum is not None:
            fields["minimum"] = self.minimum
        return fields

    def __str__(self) -> str:
        """Return it in a few words: `int8, scale 0.02, zero point 3`."""
        words = [self.name]
        for name, values in (("scale", self.scale), ("zero point", self.zero_point)):
            low, high = (min(values), max(values)) if values else (0, 0)
            if values and (low or high):
                words.append(f"{name} {low:.6g}" + (f" to {high:.6g}" if low != high else ""))
        if self.axis is not None:
            words.append(f"axis {self.axis}")
        if self.minimum is not None:
            words.append(f"minimum {self.minimum:.6g}")
        return ", ".join(words)


def stored_type(document: Mapping[str, Any]) -> StoredType:
    """Return a type from its JSON form."""
    axis = document.get("axis")
    numbers = (document.get(name, ()) for name in ("scale", "zero_point"))
    scale, zero = (tuple(each) if isinstance(each, list | tuple) else (each,) for each in numbers)
    return StoredType(document["dtype"], scale, zero, axis, document.get("minimum"))


class TensorSpec(NamedTuple):
    """A tensor without its values: key, dtype, shape.

    `stored` is its size in bytes on disk, where that does not follow from the
    shape (strings, variants, types that are not mapped, quantized ones).  `dtype` is INVALID where the file's
    entry cannot be decoded, and an `unmapped` one where its type has no dtype here.
    `stored_as` is the type on disk, where reading makes values of `dtype` of another one.
    """

    key: str
    dtype: DType
    shape: tuple[int, ...]
    stored: int | None = None
    stored_as: StoredType | None = None

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        size = 1
        for dim in self.shape:
            size *= dim
        return size

    @property
    def nbytes(self) -> int | None:
        """Bytes: elements times item size, or what is stored; None if the dtype is unknown."""
        itemsize = self.dtype.itemsize
        return self.stored if itemsize is None or self.dtype.is_unmapped else self.size * itemsize

    @property
    def stored_nbytes(self) -> int | None:
        """Bytes on disk, which are fewer than those of the values where the type there is another."""
        return self.nbytes if self.stored_as is None else self.stored

    @property
    def plain(self) -> TensorSpec:
        """The spec of its values once they are read, and written elsewhere."""
        return self if self.stored_as is None else self._replace(stored=None, stored_as=None)

    @property
    def dtype_name(self) -> str | None:
        """The dtype's name; None if the entry cannot be decoded, or its type is not mapped."""
        return self.dtype.name if self.dtype.is_mapped else None

    @property
    def type_name(self) -> str | None:
        """The type to show: the dtype's name, or the format's own name; None if it cannot be decoded."""
        return self.dtype.name if self.dtype.family != "none" else None

    @property
    def stored_document(self) -> dict[str, Any]:
        """The JSON field `stored` of a type that is quantized or not mapped; empty for every other type."""
        if self.stored_as is not None:
            return {"stored": {**self.stored_as.document(), "nbytes": self.stored}}
        if not self.dtype.is_unmapped:
            return {}
        return {"stored": {"dtype": self.dtype.name, "nbytes": self.nbytes}}

    def _repr_html_(self) -> str:
        from .notebook import table

        return table(("key", "dtype", "shape"), [(self.key, self.dtype, list(self.shape))], 1)

    def __lt__(self, other: tuple[Any, ...]) -> bool:
        return key_bytes(self.key) < key_bytes(other[0])


class SpecColumns(NamedTuple):
    """Specs in columns: keys, and for each the number of the one among `specs` that has all but the key.

    Dtypes and shapes repeat across tensors. `specs` grows from one of these to the next. `checksums` are the
    stored, masked ones, of bytes in little-endian order. An entry is -1 if the tensor has no checksum as a
    whole. `checksums` is None if they were not read.
    """

    keys: list[str]
    numbers: Sequence[int]
    specs: list[TensorSpec]
    checksums: Sequence[int] | None = None


def spec_columns(specs: Iterable[TensorSpec], before: Iterable[TensorSpec] = ()) -> SpecColumns:
    """Return specs in columns; `before` are the `specs` of the columns that came before these."""
    numbers = {spec[1:]: number for number, spec in enumerate(before)}
    keys, column = [], []
    for spec in specs:
        keys.append(spec.key)
        column.append(numbers.setdefault(spec[1:], len(numbers)))
    return SpecColumns(keys, column, [TensorSpec("", *behind) for behind in numbers])


class Stored(NamedTuple):
    """The placement of a contiguous tensor: shard number, offset, masked CRC-32C.

    A field is None if the format has no such thing, and for tensors stored in slices. The checksum is of the
    stored bytes, so it depends on `big_endian`.
    """

    shard: int | None = None
    offset: int | None = None
    crc32c: int | None = None
    big_endian: bool = False
