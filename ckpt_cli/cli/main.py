"""The `ckpt` command: finds subcommands by file name, turns errors into messages and exit codes."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import signal
import sys
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import click

from ..render.base import (
    choose_color,
    choose_quiet,
    choose_verbose,
    error_lines,
    has_printed_all,
    note,
    remark,
    warning,
)
from .options import color_option
from .signals import EndedBySignal, ending_by_signals, exit_code
from .version import version_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from click.shell_completion import CompletionItem

__all__ = ["cli", "main"]

COMMANDS = os.path.join(os.path.dirname(os.path.dirname(__file__)), "commands")

ANSWER_IS_NO, USAGE, CANNOT = 1, 2, 3

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
"""What only writing runs into.  An error of a file's has its name; what has none is of what is printed."""


class ReaderGoneError(Exception):
    """The reader of our output went away before the command had its answer (click makes an OSError a 1)."""


class CommandsByFile(click.Group):
    """A group whose subcommands are the modules of `ckpt_cli.commands`, imported when called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        names = os.listdir(COMMANDS)
        return sorted(name[:-3] for name in names if name.endswith(".py") and not name.startswith("_"))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        import importlib

        from formats.core import notices  # every command imports it, and completion does not

        notices.listen(note, warning)
        command: click.Command = importlib.import_module(f"ckpt_cli.commands.{cmd_name}").command
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise ReaderGoneError from error

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing:
            from formats.location import local_location

            from .welcome import next_steps

            steps = next_steps(local_location("."))
            if not steps:
                click.echo(ctx.get_help(), err=True)
                ctx.exit(USAGE)
            for text in reversed(steps):  # what is called last comes first
                ctx.call_on_close(partial(note, text))
            args = ["ls"]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = not args or args[0].startswith("-") or args[0] in self.list_commands(ctx)
        if not known and not ctx.resilient_parsing:
            from .guesses import no_command

            raise no_command(args, self.list_commands(ctx), ctx)
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Offer commands by name: what each does would take importing all of them."""
        from .completion import commands

        names = commands(self.list_commands(ctx), incomplete)
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]


def _show_version(context: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not context.resilient_parsing:
        click.echo("\n".join(version_lines(verbose=context.params["verbose"])))
        context.exit()


@click.group(
    cls=CommandsByFile, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.option(
    "-V",
    "--version",
    is_flag=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit. With -v, also show Python and packages.",
)
@click.option(
    "-v",
    "--verbose",
    is_flag=True,
    is_eager=True,  # before --version, which then prints more
    help="With --version, show more. Each command has its own --verbose.",
)
@color_option
@click.pass_context
def cli(context: click.Context, *, verbose: bool) -> None:
    """Inspect, compare, verify and convert checkpoints of TensorFlow, Keras, PyTorch, Orbax and Flax.

    None of these libraries has to be installed.

    Name a checkpoint by its prefix (run/ckpt-10), by any of its files, or by its
    directory, which means the latest checkpoint in it.
    """
    if verbose:
        raise click.UsageError(
            "--verbose works here only with --version; for a command, put it after the command's name",
            context,
        )


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run `ckpt`.  This is where exceptions become messages and exit codes, and the only place."""
    if not _have_streams():
        _discard_output()
        sys.exit(CANNOT)
    _prepare()
    try:
        code = _run(sys.argv[1:] if args is None else list(args))
    except Exception as error:
        if os.environ.get("CKPT_DEBUG") or not _is_exhausted(error):
            raise
        code = _report_exhausted(error)
    if not has_printed_all() and code in (0, None, ANSWER_IS_NO, USAGE):
        code = CANNOT  # A result is none if its explanation could not be written.
    _discard_output()
    # Only freeing memory would be left at exit, and the system does that faster.
    sys.exit(code or 0)


def _prepare() -> None:
    """Have streams, colors and threads be as every command wants them."""
    for stream in (sys.stdout, sys.stderr):
        # Characters that the locale cannot show are escaped, never an error.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    choose_color("auto")
    choose_quiet(False)
    choose_verbose(False)
    # numpy's linear algebra would start a thread for each processor, busy waiting for a tenth of a second.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    _have_threads_end_quietly()
    if "_CKPT_COMPLETE" in os.environ:
        # A shell asks what could come next; click answers, by the classes this registers.
        from . import completion  # noqa: F401


def _run(words: list[str]) -> int | None:
    """Run a command line, and return its exit code."""
    code = exit_code(signal.SIGPIPE)
    try:
        with ending_by_signals():
            code = cli.main(words, prog_name="ckpt", standalone_mode=False, obj=words)
            sys.stdout.flush()
    except (BrokenPipeError, ReaderGoneError):
        # The reader of our output has seen enough. An answer that is already known is kept; without one the
        # exit code is neither yes nor no.
        pass
    except (KeyboardInterrupt, click.Abort, EndedBySignal) as error:
        _remove_unfinished()
        if os.environ.get("CKPT_DEBUG"):
            raise
        return _report_interrupt(error)
    except (click.ClickException, OSError, _checkpoint_error()) as error:
        if os.environ.get("CKPT_DEBUG"):
            raise
        return _report(error, words)
    return code


def _report_interrupt(error: BaseException) -> int:
    """Say how to resume after Ctrl-C or another signal, and return the exit code for it."""
    # click raises an error of its own in place of an interrupt; some of its versions name no cause.
    interrupt = error.__context__ if isinstance(error, click.Abort) else error
    with contextlib.suppress(BrokenPipeError):  # stderr has no reader; the exit code stays
        for line in getattr(interrupt, "__notes__", ()):  # the command that resumes
            remark(line)
    return exit_code(error.number if isinstance(error, EndedBySignal) else signal.SIGINT)


def _is_exhausted(error: BaseException) -> bool:
    from formats.errors import is_exhausted

    return is_exhausted(error)


def _report_exhausted(error: Exception) -> int:
    """Report a lack of memory, or of stack, if the file that caused it is unknown."""
    from formats.errors import exhausted

    found = exhausted(error)
    error_lines(str(found), found.hints)
    return CANNOT


def _have_threads_end_quietly() -> None:
    """Have no traceback printed of a helper thread, or of clearing up, that finds no memory.

    The caller that waits for the thread gets the error, or continues without a progress bar.
    """
    default_thread_hook, default_unraisable = threading.excepthook, sys.unraisablehook
    if __name__ in (default_thread_hook.__module__, default_unraisable.__module__):
        return  # A program that runs many commands would wrap a hook in itself, a thousand deep in the end.

    def end_thread(hook_args: threading.ExceptHookArgs) -> None:
        if hook_args.exc_value is None or not _is_exhausted(hook_args.exc_value):
            default_thread_hook(hook_args)

    def clear_up(hook_args: sys.UnraisableHookArgs) -> None:
        if hook_args.exc_value is None or not _is_exhausted(hook_args.exc_value):
            default_unraisable(hook_args)

    if not os.environ.get("CKPT_DEBUG"):
        threading.excepthook, sys.unraisablehook = end_thread, clear_up


def _discard_output() -> None:
    """Have what cannot be printed go nowhere: Python would try again, complain, and exit with 120."""
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _remove_unfinished() -> None:
    """Remove what writers have begun.  Importing the module now, where that was just cut off, could fail."""
    unfinished = sys.modules.get("formats.store.work.unfinished")
    remove = getattr(
        unfinished, "remove_unfinished", None
    )  # a module that was not yet read to its end has none
    if remove is not None:
        remove()


def _have_streams() -> bool:
    """Whether there is a stdout to write to.  Python has no object for a stream that was closed (`>&-`)."""
    _fill_closed()
    if sys.stderr is None:
        # Open as long as the program runs; line by line, as stderr is.
        sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
    if sys.stdout is None:
        _complain("standard output is closed")
        return False
    return True


def _fill_closed() -> None:
    """Take the numbers of closed standard streams: libraries write their complaints to 2.

    Otherwise the next file that is opened would get them.  Writing there still fails.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDONLY)  # the lowest number that is free, which is this one


def _checkpoint_error() -> type[Exception]:
    from formats.errors import CheckpointError

    return CheckpointError


def _report(error: Exception, words: list[str]) -> int:
    from formats.errors import CheckpointError, NoCheckpointsError

    from ..operations.select.selection import NothingSelectedError
    from .guesses import hints_for
    from .hints import usable_hints

    hints = hints_for(error, words)
    if isinstance(error, click.ClickException):
        # If a hint names the right option, similar spellings are left out.
        message_text = (
            _of_option(error, hints) if isinstance(error, click.NoSuchOption) else error.format_message()
        )
        message, code = _of_click(" ".join(message_text.split())), USAGE
        context = getattr(error, "ctx", None)
        if not hints and context is not None:
            hints = (f"see {context.command_path} --help",)
    elif isinstance(error, CheckpointError):
        message, hints = str(error), (*hints, *error.hints)
        is_answer = isinstance(error, NothingSelectedError | NoCheckpointsError | KeyError)
        code = ANSWER_IS_NO if is_answer else CANNOT
    else:
        assert isinstance(error, OSError)
        place = error.filename or ("standard output" if error.errno in _FULL else None)
        message, code = (error.strerror or str(error)).lower(), CANNOT
        message = message if place is None else f"{place}: {message}"
    _complain(message, usable_hints(hints, words, cli), getattr(error, "facts", ()))
    return code


_ALIKE = 0.7

_CLICK_SAYS = (
    (re.compile(r"not a valid integer range"), "not an integer"),
    (re.compile(r"not a valid float range"), "not a number"),
    (re.compile(r"is not in the range x>=(\S+?)\.?$"), r"is less than \1"),
    (re.compile(r"^Missing argument 'RIGHT'\.$"), "missing argument RIGHT; diff compares two checkpoints"),
)
"""click's words about a value, and ours."""


def _of_option(error: click.NoSuchOption, hints: tuple[str, ...]) -> str:
    """Return click's words without options that are hardly alike: it proposes `--match` for `--last`."""
    import difflib

    given = error.option_name.lstrip("-")
    known = [name for name in error.possibilities or () if not hints]
    alike = [
        repr(name)
        for name in known
        if difflib.SequenceMatcher(None, given, name.lstrip("-")).ratio() >= _ALIKE
    ]
    return error.message + (f" Did you mean {' or '.join(alike)}?" if alike else "")


def _of_click(text: str) -> str:
    for pattern, ours in _CLICK_SAYS:
        text = pattern.sub(ours, text)
    return text


def _complain(message: str, hints: tuple[str, ...] = (), facts: tuple[str, ...] = ()) -> None:
    """Print an error. If stderr has no reader, only the exit code remains."""
    with contextlib.suppress(BrokenPipeError):
        error_lines(message, hints, facts)
