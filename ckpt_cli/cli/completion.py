r"""Shell completion after `ckpt`: commands, options, checkpoints, keys.

A script in the shell (`ckpt completion SHELL` prints it) runs `ckpt` with two variables:

    _CKPT_COMPLETE   bash_complete, zsh_complete or fish_complete
    COMP_WORDS       the words up to the cursor, a line each, the unfinished one last

click finds out what is being completed and asks the parameter; what it answers comes
back a line each, `type TAB value TAB help`, in which the type says what follows the value:

    plain   a space           path   a space, and the value is quoted as a file's name
    part    nothing: more can come                  dir    a slash

Checkpoints are offered by the names people give them: of a bundle the prefix, not its
index and shards.  Of a hundred keys, the next component of their paths is offered.
Completing never says anything on stderr: what cannot be read has nothing to offer.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem, ShellComplete, add_completion_class, split_arg_string

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from formats.location import Location


_SUFFIXES = (
    ".h5",
    ".hdf5",
    ".keras",
    ".npz",
    ".safetensors",
    ".safetensors.index.json",
    ".sft",
    ".weights.json",
)
_PATIENCE = 1.0
"""The most seconds to wait for a server's listing."""

_MOST_KEYS = 100
"""Keys that are offered whole; of more, the next component."""

Items = list["CompletionItem[str]"]


# What parameters offer ------------------------------------------------------------


def commands(names: Iterable[str], incomplete: str) -> Items:
    """Offer subcommands."""
    return [_item(name, "plain") for name in names if name.startswith(incomplete)]


def _meant(path: str) -> Location:
    """Return the path that is meant by what is typed; what is secret in a URL goes to its server."""
    from formats.location import local_location, parse_location

    path = os.path.expanduser(path)
    return parse_location(path) if "://" in path else local_location(path)


def checkpoints(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:  # noqa: ARG001
    """Offer checkpoints by their prefixes or files, and directories."""
    head, names = _listing(incomplete)
    found = [_item(head + name, "path") for name in _checkpoint_names(_meant(head), names)]
    below = _directories(head, names)
    if not found and not below:
        # A checkpoint may have a name without a known suffix.
        found = [_item(head + name, "path") for name in names]
    return sorted(found + below, key=lambda item: item.value)


def paths(incomplete: str) -> Items:
    """Offer everything a path can name: checkpoints, other files, directories."""
    from formats.model.checkpoint_files import is_part

    head, names = _listing(incomplete)
    files = [name for name in names if _meant(head + name).is_file() and not is_part(name)]
    named = {*_checkpoint_names(_meant(head), names), *files}
    return [*(_item(head + name, "path") for name in sorted(named)), *_directories(head, names)]


def directories(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:  # noqa: ARG001
    """Offer directories."""
    return _directories(*_listing(incomplete))


def checkpoints_of_directory(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:  # noqa: ARG001
    """Offer the checkpoints of the directory that is named before, or of the current one."""
    directory = _meant(_named_before(ctx) or ".")
    names = [name for name in _names_in(directory) if name.startswith(incomplete)]
    return [_item(name, "plain") for name in _checkpoint_names(directory, names)]


def keys(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """Offer the tensors of the checkpoint that is named before, by object path or key."""
    from formats.errors import CheckpointError
    from formats.find.opening import open_reader

    path = _named_before(ctx)
    if path is None:
        return []
    try:
        with open_reader(_meant(path)) as reader:
            paths, every = reader.object_paths, list(reader.specs)
    except (CheckpointError, OSError):
        return []
    shown = sorted({paths.get(key) or key for key in every})
    matching = _typable(shown, incomplete) or _typable(every, incomplete)
    if not matching and ctx.command.name == "ls" and isinstance(param, click.Argument):  # or another path
        return checkpoints(ctx, param, incomplete)
    return _by_component(matching, len(incomplete))


def dtypes(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:  # noqa: ARG001
    from formats.core.dtypes import BY_NAME

    return [_item(name, "plain") for name in sorted(BY_NAME) if name.startswith(incomplete)]


def cast_targets(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:  # noqa: ARG001
    from formats.core.dtypes import CAST_TARGETS

    return [_item(name, "plain") for name in sorted(CAST_TARGETS) if name.startswith(incomplete)]


def executors(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:  # noqa: ARG001
    names = ("dask", "dask://", "processes", "threads")
    return [_item(name, "plain") for name in names if name.startswith(incomplete)]


def formats(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:  # noqa: ARG001
    """Offer formats that can be written, by their ids and short names; for a round trip those with values."""
    from formats.find.registry import all_formats

    from ..operations.convert.planner import ALIASES

    able = [found for found in all_formats() if found.writer is not None]
    ids = sorted(found.name for found in able if found.has_values or "--to" in param.opts)
    return [_item(name, "plain") for name in (*ids, *ALIASES) if name.startswith(incomplete)]


def maps(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:  # noqa: ARG001
    """Offer the maps that come with ckpt, and files."""
    from ..operations.select.name_map import packs

    return [*(_item(name, "plain") for name in packs() if name.startswith(incomplete)), *paths(incomplete)]


def kinds(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:  # noqa: ARG001
    from formats.core.spec import KINDS

    return _behind_comma(KINDS, incomplete)


def changes(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:  # noqa: ARG001
    from ..operations.compare.diff import CHANGES

    return _behind_comma(CHANGES, incomplete)


def failures(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:  # noqa: ARG001
    return _behind_comma(("nan", "inf"), incomplete)


def _behind_comma(words: Iterable[str], incomplete: str) -> Items:
    """Complete the last word of a list that commas separate, without repetition."""
    before, comma, last = incomplete.rpartition(",")
    left = (word for word in words if word not in before.split(","))
    return [_item(before + comma + word, "part") for word in left if word.startswith(last)]


def _item(value: str, kind: str, text: str | None = None) -> CompletionItem[str]:
    return CompletionItem(value, type=kind, help=text)


def _names_in(directory: str) -> list[str]:
    """Return the names in a directory as they are typed: in a web server's URL `%23` stands for `#`."""
    from formats.errors import CheckpointError

    folder = _meant(directory)
    try:
        names = [name for name, _ in folder.listing() if name.isprintable()]
        return [(folder / name).rpartition("/")[2] for name in names] if "://" in folder else names
    except CheckpointError:
        return []


def _listing(incomplete: str) -> tuple[str, list[str]]:
    """Return the directory of an unfinished path as it is typed, and the names in it that could follow."""
    base = os.path.basename(incomplete)
    head = incomplete[: len(incomplete) - len(base)]
    names = [name for name in _names_in(head or ".") if name.startswith(base)]
    return head, [name for name in names if base.startswith(".") or not name.startswith(".")]


def _directories(head: str, names: list[str]) -> Items:
    from formats.model.checkpoint_files import is_leftover

    return [
        _item(head + name, "dir")
        for name in names
        if _meant(head + name).is_folder() and not is_leftover(name, directory=True)
    ]


def _checkpoint_names(directory: Location, names: list[str]) -> list[str]:
    """Return what is a checkpoint of these names, by its content where the name does not say."""
    from formats.model.checkpoint_files import has_index_file, is_leftover, is_part
    from formats.store.siblings import V1_SHARD

    found: dict[str, None] = {}
    for name in names:
        path = directory / name
        shard = V1_SHARD.fullmatch(name)
        if name.endswith(".index"):
            found[name.removesuffix(".index")] = None
        elif (
            is_part(name) or is_leftover(name, directory=False) or not path.is_file() or has_index_file(path)
        ):
            continue
        elif name.endswith(_SUFFIXES) or _looks_like_one(path):
            found[shard["prefix"] if shard else name] = None
    return list(found)


def _looks_like_one(path: Location) -> bool:
    """Whether a file is a table, as V1 checkpoints are, or a listing; on servers files are not read for
    this.
    """
    if "://" in path:
        return False
    from formats.errors import CheckpointError
    from formats.wire.sstable import MAGIC

    try:
        with path.open() as file:
            if path.endswith(".json"):
                return b'"schema"' in file.read(0, 64)
            return file.read(max(0, file.size - len(MAGIC)), len(MAGIC)) == MAGIC
    except CheckpointError:
        return False


def _named_before(ctx: click.Context) -> str | None:
    """Return the path that the command line has so far, the last where there are several."""
    if ctx.args:
        # Behind an option without its value, click leaves arguments as they are.
        return ctx.args[0]
    for param in ctx.command.params:
        if isinstance(param, click.Argument) and isinstance(param.type, click.Path):
            value: Any = ctx.params.get(param.name or "")
            if isinstance(value, tuple):
                value = value[-1] if value else None
            return value if isinstance(value, str) else None
    return None


def _typable(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete) and name.isprintable()]


def _by_component(names: list[str], typed: int) -> Items:
    """Offer names; if there are many, only up to the next slash."""
    if len(names) > _MOST_KEYS:
        ends = {name: name.find("/", typed) + 1 for name in names}
        parts = dict.fromkeys(name[:end] if (end := ends[name]) else name for name in names)
        complete = set(names)
        return [_item(part, "plain" if part in complete else "part") for part in parts]
    return [_item(name, "plain") for name in names]


# The shells -----------------------------------------------------------------------


class _Completion(ShellComplete):
    """The common part of the shells: how words arrive and answers leave."""

    def get_completion_args(self) -> tuple[list[str], str]:
        words = [_unquoted(word) for word in os.environ["COMP_WORDS"].split("\n")]
        return words[1:-1], words[-1]

    def get_completions(self, args: list[str], incomplete: str) -> Items:
        if any("://" in word for word in (*args, incomplete)):
            return _in_time(lambda: self._completions(args, incomplete))
        return self._completions(args, incomplete)

    def _completions(self, args: list[str], incomplete: str) -> Items:
        found = super().get_completions(args, incomplete)
        # Of parameters that do not say what they offer, click leaves files to the shell.
        return [more for item in found for more in (paths(item.value) if item.type == "file" else [item])]

    def complete(self) -> str:
        args, incomplete = self.get_completion_args()
        return "\n".join(map(self.format_completion, self.get_completions(args, incomplete)))

    def format_completion(self, item: CompletionItem[str]) -> str:
        return f"{item.type}\t{item.value}\t{_in_short(item)}"


def _in_time(find: Callable[[], Items]) -> Items:
    """Return the servers that answer within a second; nothing if none does."""
    import threading

    from formats.errors import CheckpointError

    found: Items = []

    def fill() -> None:
        with suppress(CheckpointError, ValueError):  # ValueError: not a complete URL yet
            found.extend(find())

    thread = threading.Thread(target=fill, daemon=True)
    thread.start()
    thread.join(_PATIENCE)
    return list(found)


def _in_short(item: CompletionItem[str]) -> str:
    """Return an item's help text as one line, as its command's help has it."""
    return " ".join((item.help or "").partition("\f")[0].split())


def _unquoted(word: str) -> str:
    """Return a word as the program will get it; a quote may still be open."""
    parts = split_arg_string(word)
    return " ".join(parts)


class BashCompletion(_Completion):
    """bash also splits words at `:` and `=`, and replaces only the text after the last of them."""

    name = "bash"

    def get_completion_args(self) -> tuple[list[str], str]:
        merged: list[str] = []
        open_end = False
        for word in os.environ["COMP_WORDS"].split("\n"):
            is_break = bool(word) and not word.strip(":=")
            if merged and (is_break or open_end):
                merged[-1] += word
            else:
                merged.append(word)
            open_end = is_break
        last = merged[-1]
        self.cut = 0 if last.startswith(("'", '"')) else max(last.rfind(":"), last.rfind("=")) + 1
        if last.startswith("--") and "=" in last:
            # click completes the text after the first `=`, so the part before it is not repeated.
            self.cut = max(0, self.cut - last.index("=") - 1)
        words = [_unquoted(word) for word in merged]
        return words[1:-1], words[-1]

    def format_completion(self, item: CompletionItem[str]) -> str:
        return f"{item.type}\t{item.value[self.cut :]}"

    source_template = r"""# bash completion for %(prog_name)s, made by `%(prog_name)s completion bash`
%(complete_func)s() {
    local type value word="${COMP_WORDS[COMP_CWORD]}"
    local words=("${COMP_WORDS[@]:0:COMP_CWORD}" "${word}")
    COMPREPLY=()
    while IFS=$'\t' read -r type value; do
        case ${type} in
            '') continue ;; # nothing is offered
            path | dir) compopt -o filenames ;;
            part) compopt -o nospace ;;&
            *) [[ ${word} == [\'\"]* ]] || printf -v value '%%q' "${value}" ;;
        esac
        COMPREPLY+=("${value}")
    done < <(
        IFS=$'\n'
        env COMP_WORDS="${words[*]}" %(complete_var)s=bash_complete "${COMP_WORDS[0]}" 2>/dev/null
    )
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""


class ZshCompletion(_Completion):
    name = "zsh"
    source_template = r"""#compdef %(prog_name)s
# zsh completion for %(prog_name)s, made by `%(prog_name)s completion zsh`
%(complete_func)s() {
    local type value text
    local -a plain shown parts paths dirs
    while IFS=$'\t' read -r type value text; do
        case ${type} in
            '') ;; # nothing is offered
            path) paths+=("${value}") ;;
            dir) dirs+=("${value}") ;;
            part) parts+=("${value}") ;;
            *) plain+=("${value}"); shown+=("${value}${text:+  -- ${text}}") ;;
        esac
    done < <(
        COMP_WORDS="${(F)words[1,CURRENT-1]}"$'\n'"${PREFIX}" \
            %(complete_var)s=zsh_complete "${words[1]}" 2>/dev/null
    )
    (( ${#plain} )) && compadd -V commands -l -d shown -a plain
    (( ${#parts} )) && compadd -S '' -a parts
    (( ${#paths} )) && compadd -a paths # not -f: a prefix is no file, and would get no space
    (( ${#dirs} )) && compadd -f -q -S / -a dirs
}

if [[ ${funcstack[1]} == _%(prog_name)s ]]; then # found in fpath: all of this is the function
    %(complete_func)s "$@"
else
    compdef %(complete_func)s %(prog_name)s
fi
"""


class FishCompletion(_Completion):
    name = "fish"

    def get_completion_args(self) -> tuple[list[str], str]:
        # `string join` ends with a newline, which `-N` keeps: without it, an empty last word would be lost.
        *words, last = os.environ["COMP_WORDS"].removesuffix("\n").split("\n")
        return words[1:], _unquoted(last)

    def format_completion(self, item: CompletionItem[str]) -> str:
        # fish writes no space behind a slash.
        value = item.value + ("/" if item.type == "dir" else "")
        return value + (f"\t{_in_short(item)}" if item.help else "")

    source_template = r"""# fish completion for %(prog_name)s, made by `%(prog_name)s completion fish`
function %(complete_func)s
    set -lx COMP_WORDS (string join \n -- (commandline -opc) (commandline -ct) | string collect -N)
    %(complete_var)s=fish_complete %(prog_name)s 2>/dev/null | string match --regex .+
end

complete --command %(prog_name)s --no-files --arguments '(%(complete_func)s)'
"""


SHELLS = {found.name: found for found in (BashCompletion, ZshCompletion, FishCompletion)}

for _shell in SHELLS.values():
    add_completion_class(_shell)


def script(shell: str, program: click.Command) -> str:
    """Return the completion script of a shell for `ckpt`."""
    return SHELLS[shell](program, {}, "ckpt", "_CKPT_COMPLETE").source()
