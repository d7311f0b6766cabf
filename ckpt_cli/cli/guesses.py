"""Hints for wrong guesses: what other programs call the commands and options of `ckpt`."""

from __future__ import annotations

import difflib
import os
import re
import shlex
from itertools import pairwise
from typing import TYPE_CHECKING

import click

from formats.core.words import command_line
from formats.errors import CheckpointError, CheckpointNotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["NoCommandError", "hints_for", "no_command"]

_SIMILAR = 0.8
"""How alike a mistyped word of another program has to be."""

_COMMANDS: dict[str, tuple[tuple[str, str], ...]] = {
    "prune gc expire trim rm remove delete del": (
        ("to delete all but the latest checkpoints (-n is a dry run)", "state --keep 3 -n DIR"),
    ),
    "clean cleanup tidy": (
        ("to remove leftovers of interrupted saves (-n is a dry run)", "state --fix -n DIR"),
    ),
    "status latest": (("to see which checkpoint is the latest", "state DIR"),),
    "checkout reset rollback switch": (
        (
            "to make a checkpoint the latest of its directory (-n is a dry run)",
            "state --set NAME -n DIR",
        ),
    ),
    "strip slim shrink freeze": (("to write only the weights", "convert PATH DST --weights-only"),),
    "dump h5dump cat print head less": (
        ("to see a summary, or a tensor", "show PATHS"),
        ("to write tensors to a file", "extract PATHS -o tensors.npz"),
    ),
    "view info inspect inspect_checkpoint summary describe config load": (
        ("to see a summary, or a tensor", "show PATHS"),
    ),
    "merge": (
        ("to average checkpoints", "average PATH MORE -o mean"),
        ("to write partitioned tensors as whole tensors", "convert PATH merged --merge-slices"),
    ),
    "mean avg average_checkpoints swa ema": (("to average checkpoints", "average PATH MORE -o mean"),),
    "copy cp sync upload download push pull clone": (
        ("to copy a checkpoint and verify the copy", "convert PATH DST"),
    ),
    "mv move": (
        ("to copy a checkpoint to another path", "convert PATH DST"),
        ("to rename its tensors", "help rename"),
    ),
    "export save write import transform": (
        ("to convert a checkpoint to the format of DST's suffix", "convert PATH DST"),
        ("to write some of its tensors to a file", "extract PATH -o tensors.npz"),
    ),
    "get": (("to write tensors to a file", "extract PATHS -o tensors.npz"),),
    "restore": (
        ("to see what restoring one checkpoint into another would do", "match PATH MORE"),
        ("to save the intact part of a damaged checkpoint", "rescue PATH DST"),
    ),
    "recover repair": (("to save the intact part of a damaged checkpoint", "rescue PATH DST"),),
    "fix": (
        ("to save the intact part of a damaged checkpoint", "rescue PATH DST"),
        ("to make the state file match its directory (-n is a dry run)", "state --fix -n DIR"),
    ),
    "quantize half cast fp16 float16 astype": (("to change the dtype", "convert PATH DST --cast float16"),),
    "dir h5ls list keys list_variables size du": (("to list tensors and their sizes", "ls PATHS"),),
    "tree": (("to list tensors as a tree", "ls --tree PATH"),),
    "grep find search": (("to find keys that contain a word", "ls MORE PATH"),),
    "hash digest checksum sha256sum md5sum lock": (
        ("to list tensors with digests of their values", "ls --digest sha256 PATHS"),
    ),
    "nan nans isnan check_numerics": (("to look for NaN and infinities", "stats PATHS --fail-on nan,inf"),),
    "check fsck test validate lint doctor": (("to check every byte", "verify PATHS"),),
    "compare cmp": (("to compare two checkpoints", "diff PATH MORE"),),
    "history runs reflog blame tensorboard": (("to see a run over time", "log DIR"),),
    "html page plot ui open": (("to write a page with charts", "report PATH"),),
    "draw netron visualize": (("to see the object graph", "graph PATH"),),
    "example train init": (("to train a small model to try ckpt on", "demo PATH"),),
    "version": (("to see the version", "--version"),),
}
"""Words that other programs have for commands: what the user wants, and the command that does it.

PATH is the first argument of the command line, MORE the ones after it, PATHS all of them, DIR the directory
of the first, and NAME its last part. DST is the second argument, or stays DST.
"""

_OPTIONS: dict[str, tuple[str, str]] = {
    "-f --force --yes -y --clobber": ("--overwrite", "to replace an existing target"),
    "--half --fp16 --float16": ("--cast float16", "to change the dtype"),
    "--bf16 --bfloat16": ("--cast bfloat16", "to change the dtype"),
    "--precision --to-dtype --astype": ("--cast", "to change the dtype"),
    "--include --filter --pattern --glob --grep": ("--match", "to select tensors by a pattern"),
    "--ignore --skip": ("--exclude", "to leave tensors out"),
    "--no-optimizer --strip-optimizer --no-slots --weights --model-only": (
        "--weights-only",
        "to leave out the optimizer state",
    ),
    "--output-format --format --to-format --target-format": ("--to", "to choose the format"),
    "--threads --workers --num-workers --num-threads --parallel -p": ("--jobs", "to work in parallel"),
    "--human-readable --summarize --summary": ("--depth 1", "to see totals"),
    "--follow-symlinks --all -a": ("--recursive", "to include subdirectories"),
    "--dryrun --dry --what-if --simulate": ("--dry-run", "to see the plan without writing"),
    "--fail-fast --check --nan --inf": ("--fail-on nan,inf", "to look for NaN and infinities"),
    "--limit --head --max-rows": ("--top", "to show only the first rows"),
    "--query --select --condition": ("--where", "to choose rows by their columns"),
    "--order-by --sort-by --order": ("--sort", "to choose the order"),
    "--name-only --name-status --stat-only": ("--stat", "to see one line per tensor"),
    "--tolerance --tol --epsilon": ("--atol", "to allow small differences"),
    "--no-color --no-colour --nocolor": ("--color never", "to print without colour"),
}
"""Options of other programs: what means the same here, if the command has it, and what for."""

_HUB_NAME = re.compile(r"[\w-]+/(?![\w-]*(?i:ckpt|checkpoint|step|epoch|model|weights))[\w-]+")
"""ORG/NAME of the Hugging Face Hub, but what programs call checkpoints."""

_NAMES_A_TENSOR = "--tensor_name --tensor --tensor-name --key --keys --variable --var --name"
_NAMES_A_PATH = "--file_name --file --checkpoint --ckpt --path --input --src --source --ckpt_path"
_NAMES_A_TARGET = "-o --output --out --dst --target --dest --output-file --outfile"
_IS_ENVIRONMENT = "--endpoint-url --endpoint --profile --region --no-sign-request --token --credentials"
_COMPARES_SHAPES = "--no-values --shapes --shapes-only --shape-only --no-digest --specs"


class NoCommandError(click.UsageError):
    """The first word is not a command; hints name the commands that do what it says."""

    def __init__(self, message: str, context: click.Context, hints: tuple[str, ...] = ()) -> None:
        super().__init__(message, context)
        self.hints = hints


def no_command(args: Sequence[str], names: list[str], context: click.Context) -> NoCommandError:
    """Return the error for a command line whose first word is not a command."""
    word, *rest = args
    message = f"no command {word!r}"
    if "://" in word or os.path.exists(word) or os.path.exists(f"{word}.index"):
        return NoCommandError(f"{message}; did you mean {command_line('ls', word)}?", context)
    known = {name: hints for words, hints in _COMMANDS.items() for name in words.split()}
    spelled = word.lower().replace("-", "_")
    if spelled not in known:
        close = difflib.get_close_matches(word, names, 1)
        if close:
            return NoCommandError(f"{message}; did you mean {close[0]}?", context)
        spelled = next(iter(difflib.get_close_matches(spelled, known, 1, _SIMILAR)), spelled)
    paths = [one for one in rest if not one.startswith("-")]
    meant = known.get(spelled, ())
    if meant:
        message += f"; did you mean {' or '.join(dict.fromkeys(line.split()[0] for _, line in meant))}?"
    return NoCommandError(message, context, tuple(f"{why}: {_filled(line, paths)}" for why, line in meant))


def _filled(template: str, paths: Sequence[str]) -> str:
    """Return a command with the arguments of the command line in it; its help where they are too few."""
    words = template.split()
    needed = 2 if "MORE" in words else 1 if {"PATH", "PATHS", "DIR", "NAME"} & set(words) else 0
    if len(paths) < needed:
        return command_line("help", words[0])
    first = paths[0] if paths else ""
    is_checkpoint = _looks_like_path(first) and not os.path.isdir(first)
    directory = os.path.dirname(first) or "." if is_checkpoint and "://" not in first else first
    stand_ins = {
        "PATH": [first],
        "PATHS": list(paths),
        "MORE": list(paths[1:]),
        "DIR": [directory],
        "NAME": [os.path.basename(first.rstrip("/")).removesuffix(".index")],
        "DST": [paths[1] if len(paths) > 1 else "DST"],
    }
    return command_line(*(new for word in words for new in stand_ins.get(word, [word])))


def hints_for(error: Exception, words: Sequence[str]) -> tuple[str, ...]:
    """Return hints for the error of a command line that is probably a wrong guess."""
    found: tuple[str, ...] = getattr(error, "hints", ()) if isinstance(error, NoCommandError) else ()
    for kind, guess in _GUESSES:
        if isinstance(error, kind):
            found += tuple(guess(error, list(words)))
    return found


# Options --------------------------------------------------------------------------------


def _of_option(error: click.NoSuchOption, words: list[str]) -> Iterator[str]:
    """Yield what an option of another program is called here, or what does its work."""
    name = error.option_name
    if error.ctx is None or words[:1] != [error.ctx.command.name]:
        return
    own = {option for param in error.ctx.command.params for option in param.opts}
    line = _option_line(name, words, own)
    if line is not None:
        yield line


def _option_line(name: str, words: list[str], own: set[str]) -> str | None:
    """Return the hint for an option that the command does not have."""
    if name in _IS_ENVIRONMENT.split():
        return f"set credentials and endpoints in the environment: {command_line('explain', 'environment')}"
    if name in _COMPARES_SHAPES.split() and "--against" in words[:-1]:
        return _compare_shapes(words)
    if "--output" not in own and name in f"{_NAMES_A_TARGET} --format".split():
        found = _output_line(name, words)
        if found is not None:
            return found
    if name in _NAMES_A_TENSOR.split():
        return _as_argument("pass the tensor as an argument", name, words)
    if name in _NAMES_A_PATH.split():
        return _as_argument("pass the path as an argument", name, words, at=1)
    for names, (option, why) in _OPTIONS.items():
        if name in names.split() and option.split()[0] in own:
            return f"{why}, pass {option}"
    return None


def _output_line(name: str, words: list[str]) -> str | None:
    """Return the hint for an option that says where to write, or in which form, in other programs."""
    rest, value = without(name, words)
    if value in (["json"], ["JSON"]):
        return f"to print JSON: {command_line(*rest, '--json')}"
    if words[0] in ("convert", "rename", "rescue"):
        return None if name == "--format" else _as_argument("pass the target as an argument", name, words)
    if not value or name == "--format":
        return None
    return f"redirect the output to a file: {command_line(*rest)} > {shlex.quote(value[0])}"


def _as_argument(what: str, name: str, words: list[str], at: int | None = None) -> str:
    """Return a command line in which an option's value is an argument, the last unless `at` says where."""
    rest, value = without(name, words)
    place = len(rest) if at is None else at
    return f"{what}: {command_line(*rest[:place], *value, *rest[place:])}"


def without(name: str, words: list[str]) -> tuple[list[str], list[str]]:
    """Return a command line without an option, and the option's value."""
    for at, word in enumerate(words):
        if word == name:
            return words[:at] + words[at + 2 :], words[at + 1 : at + 2]
        if word.startswith(f"{name}="):
            return words[:at] + words[at + 1 :], [word.partition("=")[2]]
    return words, []


def _of_value(error: click.BadParameter, words: list[str]) -> Iterator[str]:
    """Yield the command line with a number inserted after an option that took a path as its number."""
    param = error.param
    if not isinstance(param, click.Option) or not isinstance(param.type, click.IntRange):
        return
    alone = not _arguments(error, words)
    for at, word in enumerate(words[:-1]):
        value = words[at + 1]
        if word in param.opts and not value.lstrip("-").isdigit() and (alone or _looks_like_path(value)):
            harmless = ["-n"] if word == "--keep" else []
            line = command_line(*words[: at + 1], "3", *harmless, *words[at + 1 :])
            yield f"pass a number after {word}: {line}"


def _looks_like_path(word: str) -> bool:
    return "/" in word or os.path.lexists(word) or os.path.lexists(f"{word}.index")


# Arguments ------------------------------------------------------------------------------


def _arguments(error: click.UsageError, words: list[str]) -> list[str]:
    """Return the words of a command line that are neither its command, nor options or their values."""
    params = error.ctx.command.params if error.ctx is not None else []
    valued = {
        name
        for param in params
        if isinstance(param, click.Option) and not param.is_flag
        for name in param.opts
    }
    return [word for before, word in pairwise(words) if not word.startswith("-") and before not in valued]


def _of_missing(error: click.MissingParameter, words: list[str]) -> Iterator[str]:
    """Yield what a command with one argument too few may have been meant to be."""
    name, paths = words[0] if words else "", _arguments(error, words)
    if isinstance(error.param, click.Option) and "-o" in error.param.opts and paths:
        yield f"name the output with -o: {_with_output(words, paths[-1] if len(paths) > 1 else '')}"
    if len(paths) != 1:
        return
    left, dots, right = paths[0].partition("..")
    if name == "diff" and dots and left and right.lstrip("."):
        yield f"pass the checkpoints as two arguments: {command_line('diff', left, right.lstrip('.'))}"
    elif name == "diff":
        yield f"to see how a run changed over time: {_filled('log DIR', paths)}"
    elif name in ("convert", "rescue") and isinstance(error.param, click.Argument):
        yield f"name the target, such as DST: {command_line(*words, 'DST')}"


def _with_output(words: list[str], last: str) -> str:
    """Return a command line in which the last argument is the output, if it names nothing that is there."""
    if not last or (_looks_like_path(last) and not os.path.splitext(last)[1]):
        return command_line(*words, "-o", "tensors.npz" if words[0] == "extract" else "DST")
    at = len(words) - 1 - words[::-1].index(last)
    return command_line(*words[:at], "-o", *words[at:])


def _of_usage(error: click.UsageError, words: list[str]) -> Iterator[str]:
    """Yield what takes several tensors, where `show` was given more than one, and what `--dtype` is not."""
    if words[:1] == ["show"] and error.message.startswith("Got unexpected extra argument"):
        yield f"to see several tensors: {command_line('stats', *words[1:])}"
    if (
        words[:1] == ["graph"]
        and error.message.startswith("Got unexpected extra argument")
        and len(words) > 2
    ):
        yield f"name the output with -o: {_with_output(words, words[-1])}"
    if words[:1] in (["convert"], ["extract"]) and "--dtype" in words and "dtype" in error.message:
        yield "to change the dtype of tensors, pass --cast instead of --dtype"


def _mark_where_error(error: click.UsageError, words: list[str]) -> Iterator[str]:
    """Yield the expression of --where with a mark below the mistake, or a command that has the column."""
    cause: BaseException | None = error
    while cause is not None and not hasattr(cause, "excerpt"):
        cause = cause.__cause__
    text, position = getattr(cause, "excerpt", ("", 0))
    if text:
        from ..render.base import printable, width

        yield f"correct the expression at the mark:\n{text}\n{' ' * width(printable(text[:position]))}^"
        if words[:1] == ["ls"] and error.ctx is not None:
            yield from _with_stats(error.ctx, words, getattr(cause, "text", ""))


def _with_stats(context: click.Context, words: list[str], expression: str) -> Iterator[str]:
    """Yield the command that chooses tensors by their values, which `ls` does not read."""
    from ..operations.look.stats import COLUMNS
    from ..operations.select.where import WhereError, parse_where

    try:
        parse_where(expression, COLUMNS)
    except WhereError:
        return
    root = context.find_root()
    command = root.command.get_command(root, "stats") if isinstance(root.command, click.Group) else None
    if command is None:
        return
    flags = {
        name: isinstance(param, click.Option) and param.is_flag
        for program in (context.command, command)
        for param in program.params
        for name in param.opts
    }
    own = {name for param in command.params for name in param.opts}
    kept: list[str] = []
    rest = iter(words[1:])
    for word in rest:
        name = word.partition("=")[0]
        is_whole = not word.startswith("-") or "=" in word or flags.get(name, True)
        taken = [word] if is_whole else [word, next(rest, "")]
        kept += taken if not word.startswith("-") or name in own else []
    yield f"stats reads values: {command_line('stats', *kept)}"


# Missing paths ----------------------------------------------------------------------


def _of_path(error: CheckpointNotFoundError, words: list[str]) -> Iterator[str]:
    """Yield what a missing path may mean: a quoted wildcard, or a path with a tensor, as for `h5ls`."""
    if error.path not in words:
        return
    word = str(error.path)
    at = words.index(word)
    if "*" in word or "?" in word:
        shown = " ".join(one if one == word else shlex.quote(one) for one in ("ckpt", *words))
        yield f"remove the quotes, so that the shell expands the pattern: {shown}"
    if words[0] == "report" and word.endswith((".html", ".htm")):
        yield f"name the output with -o: {_with_output(words, word)}"
    if _HUB_NAME.fullmatch(word) and not os.path.exists(os.path.dirname(word)):
        line = command_line(*words[:at], f"hf://{word}", *words[at + 1 :])
        yield f"to read a model from the Hugging Face Hub: {line}"
    ends = [match.start() for match in re.finditer("[:/]", word)]
    for end in reversed(ends):
        path, key = word[:end], word[end + 1 :].lstrip("/")
        if key and (os.path.isfile(path) or os.path.isfile(f"{path}.index")):
            line = command_line(*words[:at], path, key, *words[at + 1 :])
            yield f"pass the tensor as a separate argument: {line}"
            return


def _of_selection(error: CheckpointError, words: list[str]) -> Iterator[str]:
    """Yield `--cast` where `--dtype` was taken for it, and `diff` where a listing has no digests."""
    from ..operations.select.selection import NothingSelectedError

    if (
        isinstance(error, NothingSelectedError)
        and words[0] in ("convert", "extract")
        and "--dtype" in words[:-1]
    ):
        rest, value = without("--dtype", words)
        yield f"to change the dtype of tensors: {command_line(*rest, '--cast', *value)}"
    if (
        isinstance(error, NothingSelectedError)
        and words[0] == "stats"
        and "--files" not in words
        and any(map(os.path.lexists, words[2:]))
    ):
        yield f"to treat every argument as a path: {command_line('stats', '--files', *words[1:])}"
    if "--against" in words[:-1] and "has no digest" in error.message:
        yield _compare_shapes(words)


def _compare_shapes(words: list[str]) -> str:
    """Return the command that compares with a listing without values."""
    rest, listing = without("--against", words)
    paths = [word for word in rest[1:] if not word.startswith("-")] or ["."]
    line = command_line("diff", *listing, paths[0], "--no-values")
    return f"to compare only keys, dtypes and shapes: {line}"


_GUESSES: tuple[tuple[type[Exception], Callable[..., Iterator[str]]], ...] = (
    (click.NoSuchOption, _of_option),
    (click.MissingParameter, _of_missing),
    (click.BadParameter, _of_value),
    (click.UsageError, _of_usage),
    (click.UsageError, _mark_where_error),
    (CheckpointNotFoundError, _of_path),
    (CheckpointError, _of_selection),
)
