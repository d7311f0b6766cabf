"""The formats there are: every module of `formats.known`.

A module is imported when its format is needed: for a given name, or when the sniffers
before it said no.  The cheap and common ones come first; since formats exclude each
other, that order decides nothing but how much is imported.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import TYPE_CHECKING

from ..core.words import spelled_bytes
from ..errors import UnknownFormatError
from ..model.checkpoint_files import FILE_SUFFIXES
from ..model.foreign import Foreign, recognise
from ..model.orbax_files import is_orbax
from ..model.probe import Probe

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from ..errors import CheckpointError
    from ..model.checkpoint_files import CheckpointLocation
    from ..model.reader import Format


_FIRST = ("tf_object", "tf_name", "tf_v1", "keras_h5", "keras_weights", "hdf5", "keras", "npz", "safetensors")


@cache
def _further_names() -> tuple[str, ...]:
    """Return the other modules that hold a format each."""
    import pkgutil

    from formats import known

    names = (module.name for module in pkgutil.iter_modules(known.__path__))
    return tuple(sorted(name for name in names if name not in _FIRST))


def all_formats(*first: str) -> Iterator[Format]:
    """Yield every format; those of the modules `first` before the others, and again."""
    for name in (*first, *_FIRST):
        yield importlib.import_module(f"formats.known.{name}").FORMAT
    for name in _further_names():
        yield importlib.import_module(f"formats.known.{name}").FORMAT


def format_named(name: str) -> Format:
    """Return the format with this id; UnknownFormatError if there is none."""
    for found in all_formats():
        if found.name == name:
            return found
    known = ", ".join(found.name for found in all_formats())
    raise UnknownFormatError(f"the format {name!r} is unknown; expected one of {known}")


def detect(probe: Probe) -> Format:
    """Return the format of a file, by its content.

    Raises UnknownFormatError, which says what it is instead, where none fits.
    """
    for found in all_formats(*(("orbax",) if is_orbax(probe.location) else ())):
        if found.sniff(probe):
            return found
    raise _refusal(probe)


def _refusal(probe: Probe) -> CheckpointError:
    """Return why a file is read by no format."""
    path = probe.location.head
    foreign = recognise(probe)
    if foreign is not None:
        return foreign.error(path)
    for found in all_formats():
        error = found.refusal(probe) if found.refusal is not None else None
        if error is not None:
            return error
    foreign = _archive(probe.zip.names) if probe.zip is not None else _misnamed(probe)
    if foreign is not None:
        return foreign.error(path)
    known = ", ".join(found.name for found in all_formats())
    message = "this is not a known checkpoint format"
    return UnknownFormatError(message, path=path, hints=(f"known formats: {known}",))


def _archive(names: Collection[str]) -> Foreign | None:
    """Return what a zip archive is that no format reads."""
    if not names:
        return Foreign(
            "this is an empty zip archive",
            ("save the model again; the save had nothing to write, or was interrupted"),
        )
    held = [name for name in names if name.endswith((".index", *FILE_SUFFIXES))]
    return (
        Foreign(f"this is a zip archive that contains {held[0]}", "unpack it first: unzip") if held else None
    )


def _misnamed(probe: Probe) -> Foreign | None:
    """Return what a file is not, though its suffix says so."""
    name = probe.location.head.lower()
    expected = (found.magic for found in all_formats() if found.magic and name.endswith(found.suffixes))
    for what, magic in expected:
        found = probe.head[: len(magic)]
        if found != magic:
            return Foreign(
                f"this is not {what}: it begins with {spelled_bytes(found)}; expected {spelled_bytes(magic)}",
                "copy the file again; if that does not help, check that this is the right file",
            )
    return None


def detect_format(location: CheckpointLocation) -> str:
    """Return the format id of the checkpoint at a location."""
    with Probe(location) as probe:
        return detect(probe).name
