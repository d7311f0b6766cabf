"""The names that a PyTorch file may use, and their results: records of storages and of views of them.

    persistent id:      ("storage", type of its elements, key, device, elements[, view of it])
    _rebuild_tensor_v2: (storage, first element, shape, strides, requires_grad, hooks[, {"conj", "neg"}])
    _rebuild_tensor_v3: the same with the dtype before the last, over a storage of bytes

The list is that of `torch.load(weights_only=True)`, without classes of tensors, which no file since torch 0.4
names. No tensor is made here, and no storage read: a tensor is a record of the position of its elements.
Tensors that cannot be read here (quantized, sparse, nested, meta, dtypes that checkpoints elsewhere lack)
also become records, which say why. torch/_weights_only_unpickler.py, torch/_utils.py, torch/serialization.py
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ..core.dtypes import BY_NAME, DType, unmapped
from .values import Bag, Global, Made, Pairs

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_DIMENSIONS = 254
_LONGEST_STORAGE_KEY = 512
_LARGEST = 1 << 62

_STORAGES = {
    "Double": "float64",
    "Float": "float32",
    "Half": "float16",
    "BFloat16": "bfloat16",
    "Long": "int64",
    "Int": "int32",
    "Short": "int16",
    "Char": "int8",
    "Byte": "uint8",
    "Bool": "bool",
    "ComplexFloat": "complex64",
    "ComplexDouble": "complex128",
}
"""Torch's names for the storages of a dtype, on the CPU and on a GPU."""

_PLAIN = (*_STORAGES.values(), "uint16", "uint32", "uint64")
_FLOAT8 = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu")
DTYPES_READ = frozenset((*_PLAIN, *_FLOAT8))
"""PyTorch's dtypes whose values are read; they are called as TensorFlow's are."""

STORAGE_OF = {dtype: f"torch.{name}Storage" for name, dtype in _STORAGES.items()}
"""By dtype, what a storage of its elements is called; others are read and written as bytes, UNTYPED."""

UNTYPED = "torch.storage.UntypedStorage"
_SIZE, _LAYOUT = "torch.Size", "torch.serialization._get_layout"

_QUANTIZED_STORAGES = {
    "QInt8": "qint8",
    "QUInt8": "quint8",
    "QInt32": "qint32",
    "QUInt4x2": "quint4x2",
    "QUInt2x4": "quint2x4",
}
_WITHOUT_VALUES = {
    "complex32": 4,
    **dict.fromkeys(("qint8", "quint8", "quint4x2", "quint2x4", "float4_e2m1fn_x2"), 1),
    "qint32": 4,
    **dict.fromkeys(("bits8", "bits1x8", "bits2x4", "bits4x2"), 1),
    "bits16": 2,
    **{f"{sign}int{bits}": 1 for sign in ("", "u") for bits in range(1, 8)},
}
"""Its other dtypes, and the bytes of an element."""

CARRIED = frozenset(_WITHOUT_VALUES) - frozenset(_QUANTIZED_STORAGES.values())
"""Those whose tensors are written back as they were read: of quantized ones the scale would be lost."""


class ElementType(NamedTuple):
    """A dtype of torch's: `values` is an unmapped one where there is no such dtype here."""

    name: str
    itemsize: int
    values: DType


def _element_type(name: str) -> ElementType:
    if name in DTYPES_READ:
        values = BY_NAME[name]
        return ElementType(name, values.itemsize or 1, values)
    return ElementType(name, _WITHOUT_VALUES[name], unmapped(name))


_TYPES = {name: _element_type(name) for name in (*DTYPES_READ, *_WITHOUT_VALUES)}
BYTES = _TYPES["uint8"]


class Storage(NamedTuple):
    """Elements in one piece of the file, by their key in it; `begin` is where a view of it begins.

    An `untyped` one is bytes, and each tensor has its own type.
    """

    key: str
    type: ElementType
    elements: int
    begin: int = 0
    whole: int = 0
    untyped: bool = False

    @property
    def nbytes(self) -> int:
        """Its whole size in bytes, also if a tensor uses only a part of it."""
        return self.whole * self.type.itemsize


class View(NamedTuple):
    """A tensor: the position of its elements in a storage, counted in elements of `type`.

    `lack` says why there are no values; then there may be no storage.
    """

    storage: Storage | None
    type: ElementType
    first: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    conjugated: bool = False
    negated: bool = False
    lack: str | None = None


class TensorPosition(NamedTuple):
    """The position of a key's tensor in an object to write."""

    key: str


def storage_of(saved: Any) -> Storage:
    """Return the storage of a persistent id; ValueError if it is none."""
    if type(saved) is not tuple or not 5 <= len(saved) <= 6 or saved[0] != "storage":
        if type(saved) is tuple and saved[:1] == ("module",):
            raise ValueError("it contains a module with its source, not only a state dict")
        raise ValueError("a persistent ID is not a storage")
    _, kind, key, _, elements, *view = saved
    if type(kind) is not Global or kind.name not in _STORAGE_TYPES:
        raise ValueError("a storage has no known type")
    if type(key) is not str or not _is_count(elements):
        raise ValueError("a storage has no key or no size")
    if len(key) > _LONGEST_STORAGE_KEY:  # Every tensor in it looks for it by this key.
        raise ValueError(f"the key of a storage has {len(key)} characters; expected a number")
    is_untyped = kind.name == UNTYPED
    found = Storage(key, _STORAGE_TYPES[kind.name], elements, 0, elements, is_untyped)
    if not view or view[0] is None:
        return found
    return _part_of(found, view[0])


def _part_of(storage: Storage, view: Any) -> Storage:
    """Return the part of a storage that is one by itself, as files from before torch 0.4 have them."""
    if type(view) is not tuple or len(view) != 3 or not _is_count(view[1]) or not _is_count(view[2]):
        raise ValueError("a view of a storage is invalid")
    if view[1] + view[2] > storage.elements:
        raise ValueError("a view reaches past the end of its storage")
    return storage._replace(begin=view[1], elements=view[2])


def view_of_all(storage: Storage) -> View:
    """Return a lone storage as the tensor of its elements."""
    return _view(storage, storage.type, (0, (storage.elements,), (1,)))


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < _LARGEST


def counts(value: Any, what: str) -> tuple[int, ...]:
    if type(value) is Made and value.name == _SIZE:
        (value,) = value.arguments
    if type(value) is list:
        value = tuple(value)
    if type(value) is not tuple or len(value) > MOST_DIMENSIONS:
        raise ValueError(f"invalid {what}")
    for each in value:
        if type(each) is not int or not 0 <= each < _LARGEST:
            raise ValueError(f"invalid {what}")
    found: tuple[int, ...] = value
    return found


def _view(storage: Any, kind: ElementType, place: tuple[Any, Any, Any], flags: Any = None) -> View:
    """Return a tensor; `place` is where it begins, its shape and its strides."""
    first = place[0]
    shape, strides = counts(place[1], "shape"), counts(place[2], "strides")
    if type(storage) is not Storage or not _is_count(first) or len(shape) != len(strides):
        raise ValueError("a tensor is not a view of a storage")
    set_flags = _flags(flags)
    lack = f"{kind.name} cannot be negated or conjugated" if set_flags and kind.values.is_unmapped else None
    if "neg" in set_flags and kind.name == "bool":
        raise ValueError("a bool tensor is marked as negated")
    return View(storage, kind, first, shape, strides, "conj" in set_flags, "neg" in set_flags, lack)


def _flags(metadata: Any) -> set[str]:
    """Return the flags of a tensor's elements. Raises ValueError for unknown ones."""
    if metadata is None:
        return set()
    if type(metadata) is not Pairs or not all(type(key) is str for key, _ in metadata.items):
        raise ValueError("the metadata of a tensor is not a dictionary")
    unknown = {key for key, _ in metadata.items} - {"conj", "neg"}
    if unknown:
        raise ValueError(f"a tensor has the unknown flag {min(unknown)!r:.60}")
    return {key for key, value in metadata.items if value is True}


def _arguments(arguments: tuple[Any, ...], least: int, most: int) -> tuple[Any, ...]:
    """Return arguments, None for those that are left out."""
    if not least <= len(arguments) <= most:
        raise ValueError(f"a call has {len(arguments)} arguments; expected {least}")
    return (*arguments, *[None] * (most - len(arguments)))


def _storage_type(storage: Any) -> ElementType:
    if type(storage) is not Storage:
        raise ValueError("a tensor has no storage")
    return storage.type


def _tensor(arguments: tuple[Any, ...]) -> View:
    storage, first, shape, strides = _arguments(arguments, 4, 4)
    return _view(storage, _storage_type(storage), (first, shape, strides))


def _tensor_v2(arguments: tuple[Any, ...]) -> View:
    storage, first, shape, strides, _, _, flags = _arguments(arguments, 6, 7)
    return _view(storage, _storage_type(storage), (first, shape, strides), flags)


def _tensor_v3(arguments: tuple[Any, ...]) -> View:
    storage, first, shape, strides, _, _, dtype, flags = _arguments(arguments, 7, 8)
    return _view(storage, element_type(dtype), (first, shape, strides), flags)


def element_type(value: Any) -> ElementType:
    found = _TYPES.get(value.name.removeprefix("torch.")) if type(value) is Global else None
    if found is None:
        raise ValueError("a tensor has no known dtype")
    return found


def _quantized(arguments: tuple[Any, ...]) -> View:
    storage, first, shape, strides, *_ = _arguments(arguments, 7, 7)
    found = _view(storage, _storage_type(storage), (first, shape, strides))
    return found._replace(
        lack=f"a quantized tensor ({found.type.name}) is not supported, because its scale would be lost"
    )


def _parameter(arguments: tuple[Any, ...]) -> View:
    return _as_view(_arguments(arguments, 3, 4)[0])


def _as_view(value: Any) -> View:
    if type(value) is not View:
        raise ValueError("a parameter is not a tensor")
    return value


def _from_type(arguments: tuple[Any, ...]) -> View:
    """Return the tensor that another of these functions makes, here without its attributes."""
    function, _, inner, _ = _arguments(arguments, 4, 4)
    if type(function) is not Global or function.make is None or type(inner) is not tuple:
        raise ValueError("no known function makes this tensor")
    if function.make is _from_type:
        raise ValueError("a tensor with attributes contains another one")
    return _as_view(function.make(inner))


def _moved(arguments: tuple[Any, ...]) -> View:
    value, dtype, _, _ = _arguments(arguments, 4, 4)
    view = _as_view(value)
    if view.lack is None and element_type(dtype) != view.type:
        return view._replace(lack=f"saved as {view.type.name} but declared as {element_type(dtype).name}")
    return view


def _sparse(arguments: tuple[Any, ...]) -> View:
    """Return a record of a sparse tensor: the dtype of its values, and its shape."""
    layout, parts = _arguments(arguments, 2, 2)
    if type(layout) is not Made or layout.name != _LAYOUT or type(parts) is not tuple or len(parts) < 3:
        raise ValueError("a sparse tensor is incomplete")
    (kind,) = layout.arguments
    shape = parts[2] if kind == "torch.sparse_coo" else parts[-1]
    views = [part for part in parts if type(part) is View]
    if not views:
        raise ValueError("a sparse tensor has no values")
    lack = f"a sparse tensor ({kind[:40]}) is not supported; save its to_dense() instead"
    return _absent(lack, shape, views[-1].type, "sparse")


def _absent(lack: str, shape: Any = (), kind: ElementType = BYTES, sort: str = "") -> View:
    dims = counts(shape, "shape")
    name = f"{sort} {kind.name}".strip()
    kind = ElementType(name, kind.itemsize, unmapped(name))
    return View(None, kind, 0, dims, (0,) * len(dims), lack=lack)


def _meta(arguments: tuple[Any, ...]) -> View:
    dtype, shape, *_ = _arguments(arguments, 4, 4)
    return _absent("a tensor on the meta device has no values", shape, element_type(dtype), "meta")


def _nested(_: tuple[Any, ...]) -> View:
    return _absent("a nested tensor is not supported: its parts have different shapes", sort="nested")


def _wrapper(arguments: tuple[Any, ...]) -> View:
    _, dtype, shape, *_ = _arguments(arguments, 8, 8)
    return _absent("a tensor subclass is not supported", shape, element_type(dtype), "subclass of")


def _dictionary(name: str, arguments: tuple[Any, ...]) -> Pairs:
    """Return a new dictionary, of the pairs that are given where Python 2 gave them."""
    (given,) = _arguments(arguments, 0, 1)
    found = Pairs(name=name)
    if type(given) is Pairs:
        found.items = list(given.items)
    elif given is not None:
        if type(given) is not list or not all(
            type(each) in (list, tuple) and len(each) == 2 for each in given
        ):
            raise ValueError("a dictionary is not made of pairs")
        found.items = [(key, value) for key, value in given]
    return found


def _layout(arguments: tuple[Any, ...]) -> Made:
    (name,) = _arguments(arguments, 1, 1)
    if type(name) is not str:
        raise ValueError("a layout has no name")
    return Made(_LAYOUT, arguments)


def _size(arguments: tuple[Any, ...]) -> Made:
    return Made(_SIZE, (tuple(_elements(arguments)),))


def _elements(arguments: tuple[Any, ...]) -> list[Any]:
    (given,) = _arguments(arguments, 0, 1)
    if given is not None and type(given) not in (list, tuple):
        raise ValueError("the elements are not in a list")
    return list(given or ())


def _set(arguments: tuple[Any, ...]) -> Bag:
    return Bag(_elements(arguments))


def _encoded(arguments: tuple[Any, ...]) -> bytes:
    """Return bytes that are spelled as text, which is how protocol 2 holds them."""
    text, encoding = _arguments(arguments, 2, 2)
    if type(text) is not str or encoding != "latin1":
        raise ValueError("bytes are not encoded as latin1")
    try:
        return text.encode("latin1")
    except UnicodeEncodeError as error:
        raise ValueError("bytes are not encoded as latin1") from error


def _complex(arguments: tuple[Any, ...]) -> complex:
    real, imaginary = _arguments(arguments, 2, 2)
    if type(real) is not float or type(imaginary) is not float:
        raise ValueError("a complex number is not made of floats")
    return complex(real, imaginary)


_FUNCTIONS: dict[str, Callable[[tuple[Any, ...]], Any]] = {
    **{name: partial(_dictionary, name) for name in ("collections.OrderedDict", "collections.Counter")},
    **{name: partial(Made, name) for name in ("builtins.bytearray", "torch.device")},
    _LAYOUT: _layout,
    _SIZE: _size,
    "builtins.set": _set,
    "builtins.complex": _complex,
    "_codecs.encode": _encoded,
    "torch._tensor._rebuild_from_type_v2": _from_type,
    "torch._utils._rebuild_tensor": _tensor,
    "torch._utils._rebuild_tensor_v2": _tensor_v2,
    "torch._utils._rebuild_tensor_v3": _tensor_v3,
    "torch._utils._rebuild_parameter": _parameter,
    "torch._utils._rebuild_parameter_with_state": _parameter,
    "torch._utils._rebuild_qtensor": _quantized,
    "torch._utils._rebuild_sparse_tensor": _sparse,
    "torch._utils._rebuild_nested_tensor": _nested,
    "torch._utils._rebuild_meta_tensor_no_storage": _meta,
    "torch._utils._rebuild_device_tensor_from_cpu_tensor": _moved,
    "torch._utils._rebuild_wrapper_subclass": _wrapper,
}

_STORAGE_TYPES = {
    **{f"torch.{name}Storage": _TYPES[dtype] for name, dtype in (_STORAGES | _QUANTIZED_STORAGES).items()},
    **{f"torch.cuda.{name}Storage": _TYPES[dtype] for name, dtype in _STORAGES.items()},
    UNTYPED: BYTES,
}

_SCHEMES = ("per_tensor_affine", "per_tensor_symmetric", "per_channel_affine", "per_channel_symmetric")
_CONSTANTS = (
    *_STORAGE_TYPES,
    *(f"torch.{name}" for name in _TYPES),
    *(f"torch.{name}" for name in (*_SCHEMES, "per_channel_affine_float_qparams", "Tensor")),
    "torch.nn.parameter.Parameter",
    "torch.storage.TypedStorage",
)

_OBJECTS_OF_TENSOR = 5
"""The charge for a tensor: its key, its record and its spec take more memory than another object."""

GLOBALS = {name: Global(name) for name in _CONSTANTS} | {
    name: Global(name, make, _OBJECTS_OF_TENSOR if "_rebuild_" in name else 1)
    for name, make in _FUNCTIONS.items()
}
"""The names that a file may use; any other is rejected by name."""
