"""Arguments and options that more than one command has: the same name, the same meaning."""

from __future__ import annotations

import functools
import os
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..api.rules import CHOOSING_RULES, KEY_NAMES, PLAIN, SHARING_RULES, VERIFY_RULES
from .option_rules import excludes, option_rules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from formats.core.dtypes import DType
    from formats.store.work.workers import Workers

    from ..api.changing import KeyChanges
    from ..api.writing import WriteOptions
    from ..operations.select.selection import Selection
    from ..operations.select.where import Where


F = TypeVar("F", bound="Callable[..., Any]")


class NumberRange(click.FloatRange):
    """A number within bounds. NaN is none: every comparison with it is false, so a range lets it pass."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number: float = super().convert(value, param, ctx)
        if number != number:  # noqa: PLR0124  NaN
            self.fail(f"{value!r} is not a number", param, ctx)
        return number


class LocalPath(click.Path):
    """A path, taken literally, or a URL of a store.

    Other URLs are rejected, so that they are never taken for paths.

    A path that cannot be read is an error when it is opened, not a usage error.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(readable=False, **settings)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from formats.location import parse_location

        if not value:
            self.fail("the path is empty", param, ctx)
        if value == "-" and not self.allow_dash:
            self.fail(
                "stdin and stdout are not supported here; to name a file called -, write ./-", param, ctx
            )
        return super().convert(parse_location(os.fsdecode(value)), param, ctx)


class TargetPath(LocalPath):
    """A path to write to; a URL of a read-only store is rejected before any request.

    A URL of a store keeps the `/` at its end, which says that a directory is meant.
    """

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = super().convert(value, param, ctx)
        is_directory = path.is_object() and os.fsdecode(value).endswith("/")
        return path.of(path.rstrip("/") + "/") if is_directory else path


def completing(what: str) -> Callable[[click.Context, click.Parameter, str], list[Any]]:
    """Return what a parameter's `shell_complete` shall be: a function of `ckpt_cli.cli.completion`."""

    def offer(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        from . import completion as functions

        found: list[Any] = getattr(functions, what)(ctx, param, incomplete)
        return found

    return offer


def _set_color(_: click.Context, __: click.Parameter, value: str | None) -> None:
    if value is not None:
        from ..render.base import choose_color

        choose_color(value)


color_option = click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    expose_value=False,
    callback=_set_color,
    help="Choose when to use colour. [default: auto]\fauto uses colour on a terminal, unless NO_COLOR is "
    "set or "
    "TERM is dumb.",
)


def set_quiet(_: click.Context, __: click.Parameter, value: bool) -> bool:
    """Silence notes and progress, where --quiet says so."""
    if value:
        from ..render.base import choose_quiet

        choose_quiet(True)
    return value


_VERBOSE = "ckpt.verbose"
"""The key in a command's context that records -v."""


def _set_verbose(context: click.Context, __: click.Parameter, value: bool) -> None:
    """Say what was read when the command has ended, however it ends."""
    if not value or context.resilient_parsing:
        return
    from formats.core.words import counted
    from formats.store.urls import scheme_of
    from formats.store.work.counters import count_reads

    from ..render.base import choose_verbose, remark

    choose_verbose(True)
    tallies = count_reads()
    context.meta[_VERBOSE] = True

    def report_usage() -> None:
        remote = [tally for path, tally in tallies.items() if scheme_of(path)]
        for path, tally in tallies.items():
            if tally.nbytes or tally not in remote:
                times = counted(tally.reads, "request" if tally in remote else "read")
                remark(f"read {path}: {tally.nbytes:,} bytes in {times}")
        if remote:
            files = counted(sum(tally.nbytes > 0 for tally in remote), "file")
            requests = counted(sum(tally.reads for tally in remote), "request")
            sent = sum(tally.sent for tally in remote)
            more = f", {sent:,} bytes sent" if sent else ""
            remark(
                f"servers: {sum(tally.nbytes for tally in remote):,} bytes from {files} in {requests}{more}"
            )

    context.call_on_close(report_usage)


GENERAL = (
    click.Option(
        ["-q", "--quiet"],
        is_flag=True,
        expose_value=False,
        callback=set_quiet,
        help="Hide notes and progress, but not warnings and errors.",
    ),
    click.Option(
        ["-v", "--verbose"],
        is_flag=True,
        expose_value=False,
        callback=_set_verbose,
        help="Print what was read, and progress every 30 s.\fLines of progress appear only if there is no "
        "progress bar.",
    ),
)
"""The options that all commands have, unless a command has one of the name for itself."""


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
FORMS = ("text", "json", "sarif", "junit", "markdown", "github", "gitlab")
"""How findings are shown; those behind the first two are modules of `ckpt_cli.render.findings`."""


def form_option(function: F) -> F:
    """Add the option for the format of findings; --json is a short form of it."""
    function = click.option(
        "--format",
        "form",
        type=click.Choice(FORMS),
        default="text",
        metavar="FORM",
        help="Print text, json, sarif, junit, markdown, github or gitlab.\f[default: text] json is the same "
        "as --json. The others report findings in a format that CI services read.",
    )(function)
    return option_rules(excludes("--format", "--json"))(function)


update_state_option = click.option(
    "--update-state", is_flag=True, help="Make DST the latest checkpoint in the state file of its directory."
)


def _with_threads(context: click.Context, _: click.Parameter, value: int | None) -> Workers | None:
    """Return that many threads, for as long as the command runs."""
    from formats.store.work.workers import workers

    return None if context.resilient_parsing else context.with_resource(workers(value))


jobs_option = click.option(
    "-j",
    "--jobs",
    "workers",
    type=click.IntRange(1),
    metavar="N",
    callback=_with_threads,
    help="Run N tasks in parallel. [default: one per CPU, at most 8]\fThe default is lower if less than "
    "64 MB of memory are available per task. The result does not depend on N.",
)


def _workers(context: click.Context, param: click.Parameter, value: str | None) -> Workers | None:
    """Return the workers that --executor names, who are looked for when there is work."""
    if value is None or context.resilient_parsing:
        return None
    from formats.store.work.executors import workers_named

    try:
        return workers_named(value)
    except ValueError as error:
        raise click.BadParameter(str(error), context, param) from error


def sharing_options(function: F) -> F:
    """Add the options that say who does the work; the command knows them as `workers`."""

    @option_rules(*SHARING_RULES)
    @functools.wraps(function)
    def shared(*args: Any, executor: Workers | None, **options: Any) -> Any:
        if executor is not None:
            from contextlib import closing

            context = click.get_current_context()
            options["workers"] = context.with_resource(closing(executor))
            if _VERBOSE in context.meta:
                context.call_on_close(partial(_report_shares, executor))
        return function(*args, **options)

    added = click.option(
        "--executor",
        callback=_workers,
        metavar="E",
        shell_complete=completing("executors"),
        help="Run tasks in threads[:N], processes[:N], dask or dask://HOST:PORT.\fdask starts a cluster on "
        "this "
        "machine. The result does not depend on the executor.",
    )(shared)
    return jobs_option(added)  # type: ignore[return-value]


def _report_shares(workers: Workers) -> None:
    """Say what was handed out, and what this process did itself."""
    from formats.core.words import counted

    from ..render.base import remark

    remark(f"sent to workers: {counted(workers.sent[0], 'task')}, {workers.sent[1]:,} bytes")
    tensors, nbytes = workers.kept
    if tensors:
        why = "strings, slices to join, compressed values, zip and HDF5 containers"
        remark(f"processed locally: {counted(tensors, 'tensor')}, {nbytes:,} bytes ({why})")


def recursive_option(
    help: str = "Include the checkpoints in subdirectories.",  # noqa: A002  click's word
) -> Callable[[F], F]:
    """Return the option that includes subdirectories."""
    return click.option("-R", "--recursive", is_flag=True, help=help)


def output_option(
    metavar: str,
    help: str,  # noqa: A002
    *,
    allow_dash: bool = False,
    **settings: Any,
) -> Callable[[F], F]:
    """Return the option that says where to write; the command knows it as `target`."""
    path = TargetPath(allow_dash=allow_dash)
    return click.option("-o", "--output", "target", type=path, metavar=metavar, help=help, **settings)


def each_option(help: str) -> Callable[[F], F]:  # noqa: A002
    """Return the option that takes all checkpoints of a directory, where one is taken otherwise."""
    return click.option("--each", is_flag=True, help=help)


def depth_option(help: str) -> Callable[[F], F]:  # noqa: A002
    """Return the option that says how deep to go."""
    return click.option("--depth", type=click.IntRange(1), metavar="N", help=help)


def exact_option(help: str) -> Callable[[F], F]:  # noqa: A002
    """Return the option with which stored checksums are not enough."""
    return click.option("--exact", is_flag=True, help=help)


def no_values_option(help: str) -> Callable[[F], F]:  # noqa: A002
    """Return the option with which indexes alone are read."""
    return click.option("--no-values", is_flag=True, help=help)


def sort_option(names: Iterable[str], help: str, **settings: Any) -> Callable[[F], F]:  # noqa: A002
    """Return the option that says in which order rows are shown."""
    return click.option("--sort", type=click.Choice([*names]), help=help, **settings)


def table_options(columns: Mapping[str, str], aliases: Mapping[str, str] | None = None) -> Callable[[F], F]:
    """Return the options that choose and show rows of a table with these columns."""

    def parse(context: click.Context, _: click.Parameter, value: str | None) -> Where | None:
        if value is None or context.resilient_parsing:
            return None
        from ..api.rules import OptionError
        from ..api.where import parsed
        from ..operations.select.columns import ALIASES

        try:
            return parsed(value, columns, ALIASES if aliases is None else aliases)
        except OptionError as error:
            raise click.UsageError(str(error), context) from error

    def add(function: F) -> F:
        function = click.option("--csv", "as_csv", is_flag=True, help="Print CSV with a header line.")(
            function
        )
        function = click.option(
            "--top",
            type=click.IntRange(1),
            metavar="N",
            help="Show only the first N rows.\fSummaries, the exit code and --json still cover all rows.",
        )(function)
        return click.option(
            "--where",
            metavar="EXPR",
            callback=parse,
            help="Keep rows for which EXPR is true, as in 'size>1M'.\fEXPR compares columns with numbers "
            "or text by < <= > >= = !=. A number can end in k, M, G or %. Join comparisons with and, or, "
            f"not and parentheses. The columns are {', '.join(columns)}. size is the same as nbytes. A "
            "comparison with an unknown value or NaN is false.",
        )(function)

    return add


def fail_on_option(help: str, **settings: Any) -> Callable[[F], F]:  # noqa: A002
    """Return the option that says what ends a command with exit code 1."""
    return click.option("--fail-on", help=help, **settings)


def failures(_: click.Context, __: click.Parameter, value: str | None) -> tuple[str, ...]:
    """Parse the kinds of values in `--fail-on nan,inf`."""
    names = tuple(value.split(",")) if value else ()
    for name in names:
        if name not in ("nan", "inf"):
            raise click.BadParameter(f"expected nan or inf, found {name!r}")
    return names


def save_map_option(help: str) -> Callable[[F], F]:  # noqa: A002
    """Return the option that names a file for pairs of keys, as --map takes it."""
    return click.option(
        "--save-map",
        type=TargetPath(allow_dash=True),
        metavar="FILE",
        help=help + "\fUse - to print the pairs to stdout.",
    )


def check_stdout(options: dict[str, Any]) -> None:
    """Raise UsageError where `--save-map -` is not alone in printing to stdout."""
    for name, option in (("as_json", "--json"), ("dry_run", "--dry-run")):
        if options["save_map"] == "-" and options.get(name):
            raise click.UsageError(
                f"--save-map - and {option} both write to stdout", click.get_current_context()
            )


def overwrite_option(help: str = "Replace DST if it exists.") -> Callable[[F], F]:  # noqa: A002
    """Return the option without which nothing that is there is replaced."""
    return click.option("--overwrite", is_flag=True, help=help)


def dry_run_option(help: str = "Print the plan and write nothing.") -> Callable[[F], F]:  # noqa: A002
    """Return the option that prints the plan of a command."""
    return click.option("-n", "--dry-run", is_flag=True, help=help)


def verify_options(other: str = "SRC") -> Callable[[F], F]:
    """Return the options for comparing the written output with `other`."""

    def add(function: F) -> F:
        function = click.option(
            "--no-verify", is_flag=True, help="Do not verify DST, as with --verify none."
        )(function)
        function = click.option(
            "--verify",
            type=click.Choice(["full", "sent", "none"]),
            help="Choose how to verify DST. [default: full; for URLs, sent]\fThe value full reads DST back "
            f"and compares it with {other}. The value sent compares the checksums of the bytes that were "
            "sent with the checksums that "
            "the store reports.",
        )(function)
        return option_rules(*VERIFY_RULES)(function)

    return add


def link_option() -> Callable[[F], F]:
    """Return the option that has a bundle take its source's files for data shards."""
    return click.option(
        "--link", is_flag=True, help="Share SRC's data files if possible, and write only what differs."
    )


def path_argument(name: str = "path", **settings: Any) -> Callable[[F], F]:
    """Return an argument that names a checkpoint; it is taken literally, and need not exist as a file."""
    usual = {"type": LocalPath(), "shell_complete": completing("checkpoints")}
    return click.argument(name, **{**usual, **settings})


def target_argument(metavar: str, **settings: Any) -> Callable[[F], F]:
    """Return the argument that says where to write; the command knows it as `target`."""
    return path_argument("target", metavar=metavar, type=TargetPath(), **settings)


def match_option(help: str) -> Callable[[F], F]:  # noqa: A002
    """Return the option of patterns that keys match; the command knows them as `matches`."""
    return click.option(
        "--match",
        "matches",
        multiple=True,
        metavar="GLOB",
        help=help,
        shell_complete=completing("keys"),
    )


ignore_case_option = click.option("-i", "--ignore-case", is_flag=True, help="Ignore case when matching keys.")

_CHOOSING = (
    click.argument("keys", nargs=-1, metavar="[KEY]...", shell_complete=completing("keys")),
    match_option("Keep keys that match GLOB; * also matches /."),
    click.option(
        "--exclude",
        "excludes",
        multiple=True,
        metavar="GLOB",
        help="Drop keys that match GLOB.",
        shell_complete=completing("keys"),
    ),
    click.option("--regex", is_flag=True, help="Treat KEY, --match and --exclude as regular expressions."),
    ignore_case_option,
    click.option(
        "--dtype",
        "dtype",
        metavar="NAME",
        help="Keep tensors of this dtype.",
        shell_complete=completing("dtypes"),
    ),
    click.option(
        "--kind",
        "kind",
        metavar="KIND[,KIND]",
        help="Keep these kinds: variable, slot, optimizer, state, graph.",
        shell_complete=completing("kinds"),
    ),
)


def choosing(function: F) -> F:
    """Add KEY arguments and the options that choose tensors; `selection_of` takes what they give."""
    for option in reversed(_CHOOSING):
        function = option(function)
    return option_rules(*CHOOSING_RULES)(function)


def selection_of(options: dict[str, Any], *, words: bool = False) -> Selection:
    """Return the selection that the options of `choosing` describe; UsageError if they make no sense.

    With `words` a KEY argument may be part of a key.
    """
    from ..operations.select.selection import Selection

    try:
        found = Selection.make(
            (*options["keys"], *options["matches"]),
            options["excludes"],
            regex=options["regex"],
            dtype=options["dtype"],
            kinds=options["kind"],
            ignore_case=options["ignore_case"],
        )
    except ValueError as error:
        raise click.UsageError(str(error), click.get_current_context()) from error
    return found._replace(words=tuple(options["keys"])) if words else found


def format_option(name: str, help: str) -> Callable[[F], F]:  # noqa: A002
    """Return the option that names a format to write; the command knows it as `to`."""
    return click.option(
        name, "to", callback=known_format, metavar="FORMAT", help=help, shell_complete=completing("formats")
    )


def known_format(context: click.Context, _: click.Parameter, value: str | None) -> str | None:
    """Return the id of the format that an option names, by its id or its short name; UsageError for none."""
    if value is None:
        return None
    from ..api.calls import format_id

    try:
        return format_id(value)
    except ValueError as error:
        raise click.UsageError(str(error), context) from error


def _floating(_: click.Context, __: click.Parameter, value: str | None) -> DType | None:
    if value is None:
        return None
    from ..api.calls import floating

    try:
        return floating(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


cast_option = click.option(
    "--cast",
    callback=_floating,
    metavar="DTYPE",
    help="Cast floating-point tensors to DTYPE.",
    shell_complete=completing("cast_targets"),
)


map_option = click.option(
    "--map",
    "map_file",
    type=LocalPath(),
    metavar="FILE",
    help="Read new keys from FILE: lines of OLD, TAB, NEW, or JSON.\fA third column may contain operations "
    "on values.",
    shell_complete=completing("maps"),
)

_CHANGING = (
    click.option(
        "--sub",
        "subs",
        multiple=True,
        metavar="REGEX=>REPLACEMENT",
        help="Replace matches in keys, as re.sub does. You can repeat it.\fSeveral --sub apply in the given "
        "order.",
    ),
    click.option("--strip-prefix", metavar="P", help="Remove P from the start of keys."),
    click.option("--add-prefix", metavar="P", help="Add P to the start of every key."),
    map_option,
)


def changing(function: F) -> F:
    """Add the options that change keys; `changes_of` takes what they give."""
    for option in reversed(_CHANGING):
        function = option(function)
    return function


def changes_of(options: dict[str, Any]) -> KeyChanges:
    """Return what the options of `changing`, and those of layouts, say of keys."""
    from ..api.changing import KeyChanges

    return KeyChanges(
        options.get("subs", ()),
        options.get("strip_prefix"),
        options.get("add_prefix"),
        options["map_file"],
        options.get("layout"),
        options.get("config"),
    )


# Layouts ------------------------------------------------------------------------------


def writing_of(options: dict[str, Any]) -> WriteOptions:
    """Return what the options of a writing command say of how it writes."""
    from ..api.writing import WriteOptions

    return WriteOptions(
        options["workers"],
        options["overwrite"],
        options["dry_run"],
        "none" if options.get("no_verify") else options.get("verify"),
        options.get("update_state", False),
    )


layout_option = click.option(
    "--layout",
    type=click.Choice(["pytorch", "tensorflow", "flax"]),
    metavar="LIBRARY",
    help="Use the names and axes of pytorch, tensorflow or flax."
    "\fNames and axes come from the model configuration, the object graph or --map.",
)
keys_option = click.option(
    "--keys",
    "key_names",
    type=click.Choice(KEY_NAMES),
    default=PLAIN,
    help="Drop or keep /.ATTRIBUTES/VARIABLE_VALUE in keys. [default: plain]"
    "\fplain drops this suffix if the target format has no objects. stored keeps it.",
)
config_option = click.option(
    "--config",
    type=LocalPath(),
    metavar="FILE",
    help="Read the model configuration from a JSON or Keras model file.",
)
