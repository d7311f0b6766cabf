"""The common frame of all functions of the API: check arguments, and collect notes."""

from __future__ import annotations

import functools
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from formats.core import notices
from formats.errors import CheckpointError
from formats.location import Location, parse_location

from ..operations.reporting import Collected
from ..operations.select.selection import Selection
from .rules import OptionError, check

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from formats.core.dtypes import DType
    from formats.store.work.workers import Workers

    from .rules import Rule

__all__ = [
    "PathLike",
    "choice",
    "collecting",
    "counting",
    "floating",
    "format_id",
    "hinted",
    "lent",
    "location",
    "public",
    "selection",
    "several",
    "target_location",
]

P = ParamSpec("P")
R = TypeVar("R")

PathLike = str | os.PathLike[str]

_GUARD = 'put the code of your program below: if __name__ == "__main__": (each worker process imports it)'


def hinted(function: Callable[P, R]) -> Callable[P, R]:
    """Have a traceback of a CheckpointError show its hints, as the command line does."""

    @functools.wraps(function)
    def call(*args: P.args, **named: P.kwargs) -> R:
        try:
            return function(*args, **named)
        except CheckpointError as error:
            messages = (
                *(f"note: {fact}" for fact in error.facts),
                *(f"hint: {hint}" for hint in error.hints),
            )
            for text in messages:
                if text not in getattr(error, "__notes__", ()):
                    error.add_note(text)
            raise

    return call


def public(*rules: Rule) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a function one of the API: its arguments obey the rules of the command's options.

    Keyword arguments are called as the options, with underscores; positional ones after the path are KEYs.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def call(*args: P.args, **named: P.kwargs) -> R:
            import inspect

            signature = inspect.signature(function)
            bound = signature.bind(*args, **named)
            check(rules, set(_given(signature.parameters, bound.arguments)))
            return function(*args, **named)

        return hinted(call)

    return decorate


def _given(parameters: Mapping[str, Any], arguments: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of arguments that say something, as the command line has them."""
    for name, value in arguments.items():
        if name == "keys" and value:
            yield "KEY"
        elif value not in (parameters[name].default, None, ()):
            yield f"--{name.rstrip('_').replace('_', '-')}"


@contextmanager
def collecting() -> Iterator[Collected]:
    """Collect notes and warnings, including those from reading and writing files."""
    collected = Collected()
    with notices.listening(collected.note, collected.warning):
        yield collected


def several(value: str | Iterable[str]) -> tuple[str, ...]:
    """Return one text, or several, as a tuple."""
    return (value,) if isinstance(value, str) else tuple(value)


def selection(
    keys: Sequence[str] = (),
    match: str | Iterable[str] = (),
    exclude: str | Iterable[str] = (),
    *,
    regex: bool = False,
    ignore_case: bool = False,
    dtype: str | None = None,
    kind: str | Iterable[str] | None = None,
) -> Selection:
    """Return the selection that the arguments of a function describe; OptionError for nonsense."""
    kinds = ",".join(several(kind)) if kind is not None else None
    try:
        return Selection.make(
            (*keys, *several(match)),
            several(exclude),
            regex=regex,
            dtype=dtype,
            kinds=kinds,
            ignore_case=ignore_case,
        )
    except ValueError as error:
        raise OptionError(str(error)) from error


def choice(name: str, value: str, choices: Iterable[str]) -> None:
    """Raise OptionError if an argument is not one of its choices."""
    if value not in (known := tuple(choices)):
        raise OptionError(f"--{name}: {value!r} is not one of {', '.join(map(repr, known))}")


def format_id(name: str) -> str:
    """Return the id of a format, named by its id or its short name; OptionError for none."""
    from formats.find.registry import all_formats

    from ..operations.convert.planner import ALIASES

    known = {found.name for found in all_formats()}
    if (own := ALIASES.get(name, name)) in known:
        return own
    if name.lower() in _ONLY_READ:
        message = f"the format {name!r} cannot be written; use"
    else:
        meant = next((to for names, to in _FORMATS_ELSEWHERE.items() if name.lower() in names.split()), None)
        message = f"the format {name!r} is unknown; " + (f"did you mean {meant}? Use" if meant else "use")
    raise OptionError(f"{message} one of {', '.join(_writable())}")


_FORMATS_ELSEWHERE = {
    "torch pt pth bin py-torch": "pytorch",
    "tf tf2 tensorflow tensorflow2 tf-checkpoint checkpoint ckpt bundle": "object",
    "tf1 tensorflow1 saver": "name",
    "keras2 hdf h5py": "h5",
    "keras3": "keras",
    "hf huggingface transformers st sft": "safetensors",
    "numpy np": "npz",
    "json": "listing",
    "fp16 half bf16 float16 bfloat16 fp32 float32 f16": "--cast",
}
"""Other programs' names for formats, and an option that is sometimes taken for one."""

_ONLY_READ = (
    *("savedmodel", "saved_model", "saved-model", "onnx", "tflite", "gguf", "graphdef", "pb", "tfjs"),
    *("orbax", "flax", "msgpack", "coreml", "dcp", "pytorch-dcp"),
)


def _writable() -> list[str]:
    """Return the formats that can be written, by their short names where they have one."""
    from formats.find.registry import all_formats

    from ..operations.convert.planner import ALIASES

    short = {own: name for name, own in ALIASES.items()}
    able = [found.name for found in all_formats() if found.writer is not None and found.has_values]
    return [short.get(name, name) for name in able]


def floating(name: str) -> DType:
    """Return the dtype that floating tensors are cast to; OptionError for a name of another one."""
    from formats.core.dtypes import CAST_TARGETS, dtype_named

    try:
        dtype = dtype_named(name)
    except ValueError as error:
        raise OptionError(str(error)) from error
    if dtype.name not in CAST_TARGETS:
        what = "has no zero and no negative numbers" if dtype.is_floating else "is not a floating-point dtype"
        raise OptionError(f"{name!r} {what}; use one of {', '.join(CAST_TARGETS)}")
    return dtype


def counting(name: str, value: int | None, least: int = 1) -> None:
    """Raise OptionError if a number is less than the least there can be."""
    if value is not None and value < least:
        raise OptionError(f"--{name}: {value} is less than {least}")


def location(path: PathLike) -> Location:
    """Return the location of a path, read again. Raises OptionError for a path that names nothing."""
    where = path if isinstance(path, Location) else _parsed(path)
    where.store.forget_listings()
    return where


def target_location(path: PathLike) -> Location:
    """Return where to write; a URL that ends in `/` means a directory."""
    where = _parsed(path)
    is_directory = where.is_object() and os.fsdecode(path).endswith("/")
    return where.of(where.rstrip("/") + "/") if is_directory else where


def _parsed(path: PathLike) -> Location:
    if not os.fsdecode(path):
        raise OptionError("the path is empty")
    if os.fsdecode(path) == "-":
        raise OptionError("stdin and stdout are not supported here; for a file named -, write ./-")
    return parse_location(path)


@contextmanager
def lent(jobs: int | None, executor: str | None = None) -> Iterator[Workers]:
    """Yield who does the work: `jobs` threads, or those that an executor names."""
    from contextlib import closing

    from formats.store.work.workers import workers

    counting("jobs", jobs)
    if executor is None:
        with workers(jobs) as pool:
            yield pool
        return
    from formats.store.work.executors import workers_named

    try:
        pool = workers_named(executor)
    except ValueError as error:
        raise OptionError(str(error)) from error
    from concurrent.futures import BrokenExecutor

    with closing(pool):
        try:
            yield pool
        except CheckpointError as error:
            if isinstance(error.__cause__, BrokenExecutor):
                error.hints = (*error.hints, _GUARD)
            raise
