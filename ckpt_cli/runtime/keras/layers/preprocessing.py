"""Layers that prepare data: scales from statistics, bins, and numbers of words.

Vocabularies and bins are arguments, so configurations have them. keras/src/layers/preprocessing
"""

from __future__ import annotations

import math
import string
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from formats.location import parse_location

from ... import dtypes
from ...data.dataset import Dataset
from ...errors import FailedPreconditionError, InvalidArgumentError, UnimplementedError
from ...functions import moments
from ...ops.elementwise import cast
from ...tensor import OPERATIONS, Tensor, as_tensor
from ...unknown import refuse
from ..base_layer import Layer
from .core import encoded

if TYPE_CHECKING:
    from ...variable import Variable

__all__ = ["Discretization", "IntegerLookup", "Normalization", "StringLookup", "TextVectorization"]

_op = OPERATIONS
_EPSILON = 1e-7
_BATCH = 32


class Normalization(Layer):
    """(x - mean) / √variance, of given numbers or of data that the layer adapted to."""

    _refused = ()
    adapt_mean: Variable
    adapt_variance: Variable
    count: Variable

    def _configure(self) -> None:
        mean, variance = self._options["mean"], self._options["variance"]
        if (mean is None) != (variance is None):
            raise ValueError(
                "When setting values directly, both `mean` and `variance` must be set. Got mean: "
                f"{mean} and variance: {variance}"
            )
        axis = self._options["axis"]
        places = () if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
        self._put("axis", places)

    def build(self, input_shape: Any) -> None:
        rank = len(input_shape)
        if any(not -rank <= axis < rank for axis in self.axis):
            raise ValueError(
                f"All `axis` values must be in the range [-ndim, ndim). Found ndim: `{rank}`, "
                f"axis: {self.axis}"
            )
        kept = sorted(axis % rank for axis in self.axis)
        if any(input_shape[axis] is None for axis in kept):
            raise ValueError(
                f"All `axis` values to be kept must have known shape. Got axis: {self.axis}, input shape: "
                f"{list(input_shape)}"
            )
        self._keep_axis: Any = tuple(kept)
        self._reduce_axis: Any = tuple(axis for axis in range(rank) if axis not in kept)
        self._reduce_axis_mask: Any = [int(axis not in kept) for axis in range(rank)]
        self._broadcast_shape: Any = [input_shape[axis] if axis in kept else 1 for axis in range(rank)]
        shape = tuple(input_shape[axis] for axis in kept)
        if self._options["mean"] is None:
            self.adapt_mean = self.add_weight("mean", shape, initializer="zeros", trainable=False)
            self.adapt_variance = self.add_weight("variance", shape, initializer="ones", trainable=False)
            self.count = self.add_weight("count", (), "int64", "zeros", trainable=False)
        else:
            told = [np.asarray(self._options[name]) * np.ones(shape) for name in ("mean", "variance")]
            self._put("_told", [as_tensor(one.astype(self.dtype)) for one in told])
        self._put("built", True)

    @property
    def mean(self) -> Any:
        return self._statistics()[0] if self.built else self._options["mean"]

    @property
    def variance(self) -> Any:
        return self._statistics()[1] if self.built else self._options["variance"]

    def _statistics(self) -> list[Any]:
        is_told = self._options["mean"] is not None
        both = self._told if is_told else [one.read_value() for one in (self.adapt_mean, self.adapt_variance)]
        return [_op["reshape"](one, shape=tuple(self._broadcast_shape)) for one in both]

    def adapt(self, data: Any, batch_size: int | None = None, steps: int | None = None) -> None:
        """Take mean and variance of data: an array, in batches, or a dataset of batches."""
        if self._options["mean"] is not None:
            raise ValueError(
                "Cannot `adapt` a Normalization layer that is initialized with static `mean` and `variance`, "
                "you passed mean {self.input_mean} and variance {self.input_variance}."
            )
        if not isinstance(data, Dataset):
            values = np.asarray(data)
            size = batch_size or _BATCH
            data = [values[at : at + size] for at in range(0, len(values), size)]
        first = True
        for number, batch in enumerate(data):
            if steps is not None and number >= steps:
                break
            self._learn(cast(as_tensor(batch), self._dtype), first)
            first = False

    def _learn(self, batch: Tensor, is_first: bool) -> None:
        if not self.built:
            shape = (None, *batch.shape[1:]) if batch.ndim else ()
            self.build(shape)
        if is_first:
            for variable, value in ((self.adapt_mean, 0), (self.adapt_variance, 1), (self.count, 0)):
                variable.assign(np.full(variable.shape, value, variable.dtype.numpy_dtype))
        mean, variance = moments(batch, list(self._reduce_axis))
        count = math.prod(batch.shape[axis] for axis in self._reduce_axis)
        total = count + int(self.count.numpy())
        share = np.float32(np.float32(count) / np.float32(total))
        before = np.float32(1) - share
        joined = self.adapt_mean * before + mean * share
        spread = (self.adapt_variance + (self.adapt_mean - joined) ** 2) * before
        self.adapt_variance.assign(spread + (variance + (mean - joined) ** 2) * share)
        self.adapt_mean.assign(joined)
        self.count.assign(np.int64(total))

    def call(self, inputs: Any) -> Tensor:
        inputs = cast(as_tensor(inputs), self._dtype)
        mean, variance = self._statistics()
        scale = _op["maximum"](_op["sqrt"](variance), _EPSILON)
        return mean + inputs * scale if self.invert else (inputs - mean) / scale


class _Categories(Layer):
    """Base of layers that give each element a number, and may encode numbers as rows."""

    _modes: ClassVar[tuple[str, ...]] = ("int", "one_hot", "multi_hot", "count", "tf_idf")
    _refused = ("sparse", "ragged")

    def _begin(self, *args: Any, **kwargs: Any) -> None:
        self._put("_has_dtype", kwargs.get("dtype") is not None)
        super()._begin(*args, **kwargs)

    def _configure(self) -> None:
        if self.output_mode not in self._modes:
            raise ValueError(
                f"Unknown value for `output_mode` argument of layer {type(self).__name__}. Allowed values "
                f"are: {self._modes}. Received: {self.output_mode}"
            )
        if not self._has_dtype:
            self._put("_dtype", dtypes.as_dtype("int64" if self.output_mode == "int" else "float32"))

    def _converted(self, inputs: Any) -> Any:
        return inputs if isinstance(inputs, Tensor) else as_tensor(inputs)

    def adapt(self, data: Any, batch_size: int | None = None, steps: int | None = None) -> None:
        refuse(type(self).__name__, adapt=type(data).__name__, batch_size=batch_size, steps=steps)


class Discretization(_Categories):
    """The number of the bin of each element; the first bin is below the first boundary."""

    _modes = ("int", "one_hot", "multi_hot", "count")

    def _configure(self) -> None:
        super()._configure()
        if self.output_mode == "int" and not self._dtype.is_integer:
            self._put("_dtype", dtypes.as_dtype("int64"))
        boundaries = self.bin_boundaries
        if boundaries is None:
            refuse("Discretization", num_bins=self.num_bins or "given without bin_boundaries")
        elif self.num_bins is not None:
            raise ValueError(
                "Both `num_bins` and `bin_boundaries` should not be set. Received: "
                f"num_bins={self.num_bins} and bin_boundaries={boundaries}"
            )
        self._put("_bounds", np.asarray(boundaries, np.float32))

    def call(self, inputs: Any) -> Tensor:
        x = cast(as_tensor(inputs), "float32")._value
        found = Tensor(np.searchsorted(self._bounds, x, side="right").astype(np.int32))
        return encoded(found, self.output_mode, len(self._bounds) + 1, self._dtype)


class _Lookup(_Categories):
    """The place of each element in a vocabulary; others are out of it."""

    _key: ClassVar[Any] = np.int64
    vocabulary_dtype: Any

    def _configure(self) -> None:
        super()._configure()
        if self.output_mode == "int" and not self._dtype.is_integer:
            raise ValueError(
                f"When `output_mode='int'`, `dtype` should be an integer type. Received: dtype={self.dtype}"
            )
        _check_lookup(self)
        given = self._options["vocabulary"]
        self._put("_tokens", [])
        if given is not None:
            self._put("_tokens", self._checked(self._read(given)))
        weights = self._options["idf_weights"]
        if self.output_mode == "tf_idf" and given is not None:
            if weights is None:
                raise ValueError("`idf_weights` must be set if output_mode is TF_IDF.")
            if len(weights) != len(self._tokens):
                raise ValueError("`idf_weights` must be the same length as vocabulary.")
            values = np.asarray(weights, np.float32)
            front = np.full(self._first(), values.mean(), np.float32)
            values = np.concatenate([front, values])
            self._put("_idf", np.pad(values, (0, self._depth() - len(values))))
        self._options["vocabulary_size"] = self.vocabulary_size() if given is not None else None
        self._put("_table", {token: at for at, token in enumerate(self._tokens, self._first())})

    def _read(self, given: Any) -> list[Any]:
        if isinstance(given, str):
            with parse_location(given).open() as file:
                given = file.read(0, file.size).decode().splitlines()
        return [self._plain(one) for one in np.asarray(given).tolist()]

    def _plain(self, token: Any) -> Any:
        return int(token)

    def _special(self) -> list[Any]:
        masks = [self.mask_token] if self._mask_place() else []
        return masks + [self.oov_token] * self.num_oov_indices

    def _mask_place(self) -> int:
        """Return how many numbers stand for the mask."""
        return int(self.mask_token is not None and self.output_mode == "int")

    def _first(self) -> int:
        return self._mask_place() + self.num_oov_indices

    def _checked(self, tokens: list[Any]) -> list[Any]:
        special = self._special()
        if special and tokens[: len(special)] == special:
            tokens = tokens[len(special) :]
        if not tokens:
            raise ValueError(f"Cannot set an empty vocabulary, you passed {tokens}.")
        if len(set(tokens)) != len(tokens):
            repeated = [token for token in dict.fromkeys(tokens) if tokens.count(token) > 1]
            raise ValueError(
                "The passed vocabulary has at least one repeated term. Please uniquify your dataset. The "
                f"repeated terms are {repeated}"
            )
        for name in ("mask_token", "oov_token"):
            if getattr(self, name) is not None and getattr(self, name) in tokens:
                raise ValueError(f"Found reserved {name} in the passed vocabulary at an unexpected location.")
        if self.max_tokens is not None and self._first() + len(tokens) > self.max_tokens:
            raise ValueError(
                "Attempted to set a vocabulary larger than the maximum vocab size. Passed vocab size is "
                f"{self._first() + len(tokens)}, max vocab size is {self.max_tokens}."
            )
        return tokens

    def get_vocabulary(self, include_special_tokens: bool = True) -> list[Any]:
        """Return the words in the order of their numbers."""
        return [*(self._special() if include_special_tokens else ()), *self._tokens]

    def vocabulary_size(self) -> int:
        return self._first() + len(self._tokens)

    def _depth(self) -> int:
        return self.max_tokens if self.pad_to_max_tokens else self.vocabulary_size()

    def call(self, inputs: Any) -> Any:
        x = as_tensor(inputs)
        if self.output_mode != "int" and not (self.pad_to_max_tokens or self._tokens):
            raise RuntimeError(
                f"When using `output_mode={self.output_mode}` and `pad_to_max_tokens=False`, you must set "
                "the layer's vocabulary before calling it."
            )
        if not self._tokens:
            raise FailedPreconditionError(f"{self.name}: Table not initialized.")
        if self.invert:
            return self._words(cast(x, "int64")._value)
        keys = self._keys(x)
        found = np.array([self._place(one) for one in keys.ravel().tolist()], np.int64).reshape(keys.shape)
        if (found == -1).any():
            raise InvalidArgumentError(
                "When `num_oov_indices=0` all inputs should be in vocabulary, found OOV values "
                f"{keys[found == -1].tolist()[:3]}, consider setting `num_oov_indices=1`."
            )
        idf = self._idf if self.output_mode == "tf_idf" else None
        return encoded(Tensor(found), self.output_mode, self._depth(), self._dtype, idf)

    def _words(self, numbers: Any) -> Tensor:
        words = [self._given(one) for one in self.get_vocabulary()]
        other = self._given(self.oov_token)
        out = np.empty(numbers.shape, self._key)
        for at in np.ndindex(numbers.shape):
            out[at] = words[numbers[at]] if 0 <= numbers[at] < len(words) else other
        return Tensor(out)

    def _given(self, token: Any) -> Any:
        return token

    def _keys(self, x: Tensor) -> Any:
        return cast(x, "int64")._value

    def _place(self, key: Any) -> int:
        if self.mask_token is not None and key == self.mask_token:
            return 0 if self.output_mode == "int" else np.iinfo(np.int64).max
        found = self._table.get(key)
        if found is not None:
            return found
        return self._mask_place() + self._bucket(key) if self.num_oov_indices else -1

    def _bucket(self, key: Any) -> int:
        return int(key % self.num_oov_indices)


def _check_lookup(layer: Any) -> None:
    """Raise ValueError for numbers of a lookup that contradict each other."""
    if layer.max_tokens is not None and layer.max_tokens <= 1:
        raise ValueError(
            f"If set, `max_tokens` must be greater than 1. Received: max_tokens={layer.max_tokens}"
        )
    if layer.pad_to_max_tokens and layer.max_tokens is None:
        raise ValueError("If pad_to_max_tokens is True, must set `max_tokens`. Received: max_tokens=None")
    if layer.num_oov_indices < 0:
        raise ValueError("`num_oov_indices` must be greater than or equal to 0.")
    if layer.invert and layer.output_mode != "int":
        raise ValueError(f"`output_mode` must be `'int'` when `invert` is true: {layer.output_mode}")
    if layer._options["idf_weights"] is not None and layer.output_mode != "tf_idf":
        raise ValueError("`idf_weights` should only be set if `output_mode` is `'tf_idf'`.")


class IntegerLookup(_Lookup):
    pass


class StringLookup(_Lookup):
    _key = object

    def _configure(self) -> None:
        super()._configure()
        several = self.num_oov_indices if self.num_oov_indices > 1 else None
        refuse("StringLookup", num_oov_indices=several)

    def _plain(self, token: Any) -> Any:
        return token.decode(self.encoding) if isinstance(token, bytes) else str(token)

    def _given(self, token: Any) -> Any:
        return token.encode(self.encoding)

    def _keys(self, x: Tensor) -> Any:
        if x._value.dtype != object:
            raise UnimplementedError(f"Cast {x.dtype.name} to string is not supported")
        return _each(x._value, lambda one: one.decode(self.encoding, "surrogateescape"))

    def _bucket(self, key: Any) -> int:
        return 0


def _each(strings: Any, function: Any) -> Any:
    out = np.empty(strings.shape, object)
    for at in np.ndindex(out.shape):
        out[at] = function(strings[at])
    return out


class TextVectorization(_Categories):
    """Texts as the numbers of their words, or as counts of them."""

    def _begin(self, *args: Any, **kwargs: Any) -> None:
        super()._begin(*args, **{**kwargs, "dtype": None})
        self._put("_dtype", dtypes.as_dtype("string"))

    def _configure(self) -> None:
        options = self._options
        known = "lower_and_strip_punctuation", "lower", "strip_punctuation", None
        if options["standardize"] not in known and not callable(options["standardize"]):
            raise ValueError(f"Unknown value for `standardize`: {options['standardize']}")
        if options["split"] not in ("whitespace", "character", None):
            refuse("TextVectorization", split=options["split"])
        length = options["output_sequence_length"]
        if length is not None and not (isinstance(length, int) and length >= 0):
            raise ValueError(f"`output_sequence_length` must be either None or an integer > 0: {length}")
        if length is not None and options["output_mode"] != "int":
            raise ValueError("`output_sequence_length` must not be set if `output_mode` is not 'int'.")
        widths = options["ngrams"]
        self._put("_widths", tuple(range(1, widths + 1)) if isinstance(widths, int) else widths)
        taken = ("max_tokens", "vocabulary", "idf_weights", "pad_to_max_tokens", "encoding", "output_mode")
        own = {name: options[name] for name in taken}
        self._lookup_layer = StringLookup(mask_token="", **own)
        options["vocabulary_size"] = self._lookup_layer.vocabulary_size()

    def get_vocabulary(self, include_special_tokens: bool = True) -> list[Any]:
        return self._lookup_layer.get_vocabulary(include_special_tokens)

    def vocabulary_size(self) -> int:
        return self._lookup_layer.vocabulary_size()

    def call(self, inputs: Any) -> Any:
        x = as_tensor(inputs)
        texts = _each(x._value, self._standardized)
        if callable(self.standardize):
            texts = as_tensor(self.standardize(Tensor(texts)))._value
        if self.split is not None:
            texts = self._split_texts(texts)
        found = self._lookup_layer(Tensor(texts))
        length = self.output_sequence_length
        if length is None:
            return found
        cut = found._value[..., :length]
        margins = [(0, 0)] * (cut.ndim - 1) + [(0, length - cut.shape[-1])]
        return Tensor(np.pad(cut, margins))

    def _standardized(self, text: bytes) -> bytes:
        how = str(self.standardize)
        text = text.lower() if how.startswith("lower") else text
        return text.translate(None, string.punctuation.encode()) if how.endswith("punctuation") else text

    def _split_texts(self, texts: Any) -> Any:
        """Return a row of words for each text, filled up with empty ones, which are masks."""
        if texts.ndim > 1 and texts.shape[-1] != 1:
            raise ValueError(
                "When using `TextVectorization` to tokenize strings, the input rank must be 1 or the last "
                f"shape dimension must be 1. Received: inputs.shape={texts.shape} with rank={texts.ndim}"
            )
        if texts.ndim > 1:
            texts = texts[..., 0]
        rows = [self._words(text) for text in texts.ravel().tolist()]
        out = np.full((len(rows), max(map(len, rows), default=0)), b"", object)
        for row, words in zip(out, rows, strict=True):
            row[: len(words)] = words
        return out.reshape(*texts.shape, out.shape[1])

    def _words(self, text: bytes) -> list[bytes]:
        is_character = self.split == "character"
        words = [one.encode() for one in text.decode("utf-8", "replace")] if is_character else text.split()
        if self._widths is None:
            return words
        return [
            b" ".join(words[at : at + width])
            for width in self._widths
            for at in range(len(words) - width + 1)
        ]
