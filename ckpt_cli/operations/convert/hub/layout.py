"""Tensors of transformers' TensorFlow and Flax models as PyTorch names and lays them out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from formats.core.axes import NOTHING, AxisOperations, Reshape, parse_steps
from formats.errors import ConversionError
from formats.model.checkpoint_files import (
    FLAX_INDEX_SUFFIX,
    H5_INDEX_SUFFIX,
    INDEX_SUFFIX,
    TORCH_INDEX_SUFFIX,
)
from formats.model.hub_config import HubConfig, hub_config
from formats.orbax.names import parts_of

from ...select.name_map import MapRow, Name
from .architectures import SQUEEZE, Architecture, ExceptionRow, architectures
from .names import FLAX, TENSORFLOW, of_flax, of_tensorflow

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from formats.core.axes import Change, Shape
    from formats.model.reader import FormatReader

_MODEL_TYPE, _ARCHITECTURES = "model_type", "architectures"
_PYTORCH = "pytorch"
_SUFFIXES = {
    TENSORFLOW: (".h5", H5_INDEX_SUFFIX),
    FLAX: (".msgpack", FLAX_INDEX_SUFFIX),
    _PYTORCH: (".safetensors", ".bin", INDEX_SUFFIX, TORCH_INDEX_SUFFIX),
}
_CLASS_PREFIXES = {TENSORFLOW: "TF", FLAX: "Flax"}
CONFIG = "config.json"
TIED = "PyTorch ties it to another tensor, or computes it"
"""Why a tensor is left out."""

_TITLES = {TENSORFLOW: "TensorFlow", FLAX: "Flax"}


class HubModel(NamedTuple):
    """A model of transformers: its configuration, and what is known of its architecture."""

    architecture: Architecture
    class_name: str
    ties_embeddings: bool = True
    """Whether the output of the model ties its weights to the embeddings."""

    @property
    def is_bare(self) -> bool:
        return self.class_name in self.architecture.bare

    def rows(self, shapes: Mapping[str, Shape]) -> Iterator[MapRow]:
        """Yield what becomes of tensors of these names and shapes; nothing for those that PyTorch ties."""
        return (row for row, rule in self._rows(shapes) if not self._drops(rule))

    def ties(self, shapes: Mapping[str, Shape]) -> Iterator[tuple[MapRow, str]]:
        """Yield what would become of tensors that are left out, and to which tensor each is tied."""
        for row, rule in self._rows(shapes):
            if rule is not None and rule.partner and self._drops(rule):
                yield row, rule.partner

    def _drops(self, rule: ExceptionRow | None) -> bool:
        return rule is not None and rule.drops(ties=self.ties_embeddings, is_headed=not self.is_bare)

    def _rows(self, shapes: Mapping[str, Shape]) -> Iterator[tuple[MapRow, ExceptionRow | None]]:
        adds = self.architecture.library == FLAX and self._lacks_prefix(shapes)
        return (self._row(old, shape, adds=adds) for old, shape in shapes.items())

    def _lacks_prefix(self, names: Mapping[str, Shape]) -> bool:
        """Whether Flax' tensors are those of a base model, and PyTorch's are to have its prefix."""
        if self.is_bare or not self.architecture.prefix:
            return False
        return all(self.architecture.prefix not in parts_of(name)[:2] for name in names)

    def _row(self, old: str, shape: Shape, *, adds: bool) -> tuple[MapRow, ExceptionRow | None]:
        is_flax = self.architecture.library == FLAX
        name, changes = (
            of_flax(tuple(parts_of(old)), len(shape)) if is_flax else of_tensorflow(old, len(shape))
        )
        rule = self.architecture.rule(name)
        if rule is not None:
            if rule.rejects:
                message = "transformers 4.41 does not load this tensor, so ckpt does not know its meaning"
                raise ConversionError(message, key=old, hints=(_MAP,))
            name, changes = rule.renamed(name), (*changes, *_changes(rule.operations, changes, shape))
        prefix = self.architecture.prefix + "."
        if adds:
            name = prefix + name
        elif self.is_bare and not is_flax:
            name = name.replace(prefix, "", 1)
        elif self.is_bare:
            name = name.removeprefix(prefix)
        steps = AxisOperations(changes) if changes else NOTHING
        return MapRow(Name((old,)), Name((name,)), steps, repr(old)), rule


def _changes(operations: str, before: Sequence[Change], shape: Shape) -> tuple[Change, ...]:
    if not operations:
        return ()
    for change in before:
        shape = change.shape(shape)
    if operations == SQUEEZE:
        squeezed = tuple(size for size in shape if size != 1)
        return (Reshape(squeezed, shape),) if squeezed != shape else ()
    return parse_steps(operations).before


def hub_model(reader: FormatReader, given: HubConfig | None = None) -> HubModel | None:
    """Return the model that config.json, next to the file, or another one that is given describes.

    None if there is no such file.  Raises ConversionError for an architecture that is not in the table.
    """
    library = _library_of(reader)
    config = config_of(reader, given)
    if library not in _TITLES or config is None:
        return None
    return model_of(config.content, library, config.path)


def hub_model_back(reader: FormatReader, library: str, given: HubConfig | None = None) -> HubModel | None:
    """Return the model of a library whose weights PyTorch's are to become again."""
    config = config_of(reader, given) if _library_of(reader) == _PYTORCH else None
    return None if config is None else model_of(config.content, library, config.path)


def layout_note(reader: FormatReader) -> str | None:
    """Return what a person should know who converts such a model's weights, and keeps their names."""
    library = _library_of(reader)
    if library not in _TITLES or config_of(reader) is None:
        return None
    return (
        f"{reader.location.path}: names and axes stay those of {_TITLES[library]}; to convert "
        "them for PyTorch, as transformers loads them, pass --layout pytorch"
    )


def _library_of(reader: FormatReader) -> str:
    """Return the library that wrote a file, by its suffix; empty if that does not tell."""
    head = reader.location.head
    return next((name for name, suffixes in _SUFFIXES.items() if head.endswith(suffixes)), "")


def config_of(reader: FormatReader, given: HubConfig | None = None) -> HubConfig | None:
    """Return the configuration of transformers that is given, or is next to a file."""
    if given is not None:
        return given
    found = hub_config(reader.location) if _library_of(reader) else None
    if found is None or not isinstance(found.get(_MODEL_TYPE), str):
        return None
    return HubConfig(found, reader.location.head.parent / CONFIG)


def model_of(config: dict[str, Any], library: str, path: str) -> HubModel:
    """Return the model of a library that a configuration at `path` describes."""
    model_type, listed = config.get(_MODEL_TYPE), config.get(_ARCHITECTURES)
    found = architectures().get((str(model_type), library))
    title = _TITLES[library]
    if found is None:
        message = f"ckpt does not know how the {title} weights of model_type {model_type!r} map to PyTorch"
        known = sorted({name for name, its in architectures() if its == library})
        raise ConversionError(
            message,
            path=path,
            hints=(f"use a model_type that ckpt knows in {title}: {', '.join(known)}", _MAP),
        )
    known = sorted(name for one in found for name in one.classes)
    if not isinstance(listed, list) or len(listed) != 1 or not isinstance(listed[0], str):
        message = f"{_ARCHITECTURES} must be a list of one class, which determines the prefix of names"
        raise ConversionError(
            message, path=path, hints=(f"in config.json, name one of these classes: {', '.join(known)}",)
        )
    class_name = listed[0].removeprefix(_CLASS_PREFIXES[library])
    chosen = next((one for one in found if class_name in one.classes), None)
    if chosen is None:
        message = f"ckpt does not know how the {title} weights of {class_name} map to PyTorch"
        hints = (f"use a class that ckpt knows for {model_type} in {title}: {', '.join(known)}", _MAP)
        raise ConversionError(message, path=path, hints=hints)
    return HubModel(chosen, class_name, config.get("tie_word_embeddings") is not False)


_MAP = (
    "pass --map FILE; each line of FILE has a TensorFlow, Keras or Flax key, its PyTorch key, "
    "and operations such as T"
)
