"""The formats there are: every module of `formats.known`.

A module is imported when its format is needed: for a given name, or when the sniffers
before it said no.  The cheap and common ones come first; since formats exclude each
other, that order decides nothing but how much is imported.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import TYPE_CHECKING

from ..errors import CorruptCheckpointError, UnknownFormatError
from ..model.foreign import recognise
from ..model.probe import Probe

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..model.checkpoint_files import CheckpointLocation
    from ..model.reader import Format


_FIRST = ("tf_object", "tf_name", "tf_v1", "keras_h5", "keras_weights", "hdf5", "keras", "npz", "safetensors")


@cache
def _module_names() -> tuple[str, ...]:
    """Return the modules that hold a format each."""
    from formats import known

    names = [module.name for module in pkgutil.iter_modules(known.__path__)]
    first = tuple(name for name in _FIRST if name in names)
    return (*first, *sorted(name for name in names if name not in _FIRST))


def all_formats() -> Iterator[Format]:
    """Yield every format."""
    for name in _module_names():
        yield importlib.import_module(f"formats.known.{name}").FORMAT


def format_named(name: str) -> Format:
    """Return the format with this id; UnknownFormatError where there is none."""
    for found in all_formats():
        if found.name == name:
            return found
    known = ", ".join(found.name for found in all_formats())
    raise UnknownFormatError(f"no format {name!r}; there are {known}")


def detect(probe: Probe) -> Format:
    """Return the format of a file, by its content.

    Raises UnknownFormatError, which says what it is instead, where none fits.
    """
    for found in all_formats():
        if found.sniff(probe):
            return found
    location = probe.location
    foreign = recognise(probe)
    if foreign is not None:
        raise UnknownFormatError(foreign.what, path=location.head, code="footer", hints=(foreign.hint,))
    if location.head.endswith(".index"):
        message = (
            f"not a table: the file ends in {probe.tail[-8:].hex(' ')}, expected 57 fb 80 8b 24 75 47 db"
        )
        raise CorruptCheckpointError(
            message, path=location.head, offset=max(0, probe.size - 8), code="footer", hints=_TRUNCATED
        )
    if probe.head.startswith(b"\0\0") and b"\x0a" in probe.head[:16]:
        message = "begins like a V1 checkpoint, but its footer is missing"
        raise CorruptCheckpointError(
            message, path=location.head, offset=probe.size, code="footer", hints=_TRUNCATED
        )
    known = ", ".join(found.name for found in all_formats())
    message = "no checkpoint format that is known here"
    raise UnknownFormatError(message, path=location.head, hints=(f"known are {known}",))


_TRUNCATED = ("the file was cut off or overwritten; copy it again from where it came from",)


def detect_format(location: CheckpointLocation) -> str:
    """Return the format id of what lies at a location."""
    with Probe(location) as probe:
        return detect(probe).name
