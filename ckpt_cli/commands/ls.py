"""`ckpt ls`: the checkpoints of a directory, or the tensors of a checkpoint."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from formats.errors import as_ours
from formats.find.opening import is_directory, locate

from ..api.listing import (
    DIGESTS,
    IDENTITY,
    RULES,
    SORTS,
    ListOptions,
    add_identities,
    arranged,
    arranged_directory,
    chosen_tensors,
    digests_of,
    directories_found,
    list_directory,
    lists_directory,
    no_checkpoint_where,
    refuse_not_a_folder,
    trainable_of,
    warn_of_missing,
)
from ..api.rules import OptionError
from ..cli.help import subcommand
from ..cli.option_rules import option_rules
from ..cli.options import (
    choosing,
    color_option,
    depth_option,
    exact_option,
    jobs_option,
    json_option,
    path_argument,
    recursive_option,
    selection_of,
    sort_option,
    table_options,
)
from ..operations.look.listing import Tensors, reads_only_index
from ..operations.select.arguments import each_once, paths_and_keys
from ..operations.select.columns import OF_CHECKPOINTS, OF_TENSORS
from ..render import base as render
from ..render import listing_tensors
from ..render.listing import Look
from ..render.report import SCREEN, kept, opened, print_empty, print_errors

if TYPE_CHECKING:
    from formats.errors import CheckpointError
    from formats.location import Location
    from formats.model.checkpoint_files import CheckpointLocation


_PIECE = 1 << 20


@subcommand("ls", paged=True)
@path_argument(default=".", metavar="[PATH]...")
@choosing
@click.option(
    "-l", "--long", is_flag=True, help="Add kind, shard, offset, stored crc32c, object path, full name."
)
@click.option("--tree", "as_tree", is_flag=True, help="Show keys as a tree.")
@depth_option("Show totals per prefix of N path components.")
@table_options(OF_TENSORS | OF_CHECKPOINTS)
@sort_option(
    SORTS,
    "Sort by COLUMN: largest number first, or a to z. [default: key]\fA directory is sorted by age unless "
    "you name one of "
    "its columns.",
    default="key",
    metavar="COLUMN",
)
@click.option("-r", "--reverse", is_flag=True, help="Reverse the order.")
@click.option("-1", "--keys", "keys_only", is_flag=True, help="Print only keys, one per line.")
@click.option("-0", "--null", is_flag=True, help="Print keys as stored, each followed by a NUL byte.")
@click.option(
    "--digest",
    type=click.Choice(DIGESTS),
    help="Add a digest of each tensor, and read values if none is stored."
    "\fFor a directory, sha256 adds one digest per checkpoint, its identity, and lists checkpoints that are "
    "copies.",
)
@exact_option("With --digest, also recompute stored digests.")
@recursive_option("Also list subdirectories.")
@jobs_option
@json_option
@color_option
@option_rules(*RULES)
def command(path: Location, keys: tuple[str, ...], **options: Any) -> int:
    """List checkpoints of a directory, or tensors of a checkpoint.

    For a directory, lists its checkpoints, oldest first. -l adds the stored training step if it
    differs from the number in the name. For a checkpoint, lists its tensors with dtype, shape and
    size. Only the index is read. For a TensorFlow 1 checkpoint, -l also reads its .meta file to
    find out which tensors are trainable. ls does not compare checksums; ckpt verify does.

    After the first PATH, a word that is a key of the checkpoint is a KEY. Other words are PATHs if
    they exist, and otherwise KEYs. With --regex, every word is a KEY. If a KEY has no wildcards and
    matches no key, ls lists every key that contains it. If several PATHs belong to one checkpoint,
    as in run/ckpt-*, it is listed once. With several PATHs, each line begins with its path.

    \b
      ckpt ls run/                         the checkpoints of a run
      ckpt ls run/ckpt-10 --kind variable  the weights, without optimizer slots
      ckpt ls run/ckpt-10 --depth 2        sizes per layer
      ckpt ls run/ckpt-10 kernel           keys that contain a word
      ckpt ls run/ckpt-10 --where 'size>1M and kind=variable' --sort size --top 10
      ckpt ls run/ --digest sha256         which checkpoints are copies of each other
      ckpt ls run/ckpt-10 --json -l --digest sha256 > model.lock   for ckpt verify --against
    """
    paths, options["keys"] = ([path], keys) if options["regex"] else paths_and_keys(path, keys)
    look = Look.of(options)
    parsed = ListOptions(
        selection_of(options, words=True),
        options["sort"],
        options["reverse"],
        look.digest,
        options["exact"],
        options["where"],
    )
    if len(paths) > 1:
        return _list_several(paths, parsed, look, options)
    if options["recursive"]:
        return _list_recursively(path, parsed, look, options["workers"].jobs)
    if is_directory(path) and lists_directory(parsed):
        return _list_directory(path, parsed, look, options)
    is_text = bool(look.digest) and not look.as_json and parsed.selection.everything
    if is_text and _show_pointer(path):
        return 0
    try:
        _list_checkpoint(locate(path), parsed, look, {**options, "path": path})
    except Exception as error:
        if not (is_text and _is_textconv()):
            raise
        _show_unread(path, as_ours(error, path))
    return 0


def _is_textconv() -> bool:
    """Whether git has this command make text of a file, and would end where it fails.

    Git sets GIT_PREFIX, for hooks that go with a commit GIT_INDEX_FILE, too.
    """
    return "GIT_PREFIX" in os.environ and "GIT_INDEX_FILE" not in os.environ and not render.is_terminal()


def _show_unread(path: Location, error: CheckpointError) -> None:
    """List a file that cannot be read on one line: why, its size and the checksum of all its bytes.

    Another file of the same damage is another line, and its path, which git makes up, is not part of it.
    """
    from formats.wire.crc32c import extend, spelled

    crc = 0
    with path.open() as file:
        for begin in range(0, file.size, _PIECE):
            crc = extend(crc, file.read(begin, _PIECE))
        row = (f"(cannot be read: {error.message})", None, None, file.size, spelled("crc32c", crc))
    render.tsv([row])
    render.warning(str(error))


def _show_pointer(path: Location) -> bool:
    """List what Git LFS left in place of a file, on one line; False where this is no such file."""
    from formats.model.foreign import lfs_pointer

    found = lfs_pointer(path)
    if found is not None:
        render.tsv([("(Git LFS pointer)", None, None, found.size, found.oid)])
    return found is not None


# Several paths --------------------------------------------------------------------


class _Folder(NamedTuple):
    """A directory among several paths, whose checkpoints are listed."""

    path: Location


def _list_several(paths: list[Location], parsed: ListOptions, look: Look, options: dict[str, Any]) -> int:
    """List what paths name, on past what cannot be listed; the last such error is raised in the end."""
    if options["recursive"]:
        raise OptionError("--recursive takes one directory")
    errors: list[CheckpointError] = []
    named: list[CheckpointLocation | _Folder] = []
    for path in paths:
        with kept(errors):
            named.append(_Folder(path) if lists_directory(parsed) and is_directory(path) else locate(path))
    places, notes = each_once(named)
    for text in notes:
        render.note(text)
    kinds = {isinstance(place, _Folder) for place in places}
    if look.as_csv and len(kinds) > 1:
        raise OptionError("--csv cannot list both tensors and directories, because their columns differ")
    documents: list[dict[str, Any]] = []
    has_header = True
    has_titles = render.is_terminal() and not (look.as_json or look.as_csv or look.null or look.keys_only)
    code = 0
    for number, place in enumerate(places):
        if has_titles:
            render.title(place.path, is_first=not number)
        with kept(errors):
            one = look._replace(prefix=(place.path,), documents=documents, has_header=has_header)
            if isinstance(place, _Folder):
                code = _list_directory(place.path, parsed, one, options) or code
            else:
                _list_checkpoint(place, parsed, one, options)
            has_header = False
    if look.as_json:
        render.document({"results": documents})
    print_errors(errors)
    return code


# A checkpoint ---------------------------------------------------------------------


def _list_checkpoint(
    location: CheckpointLocation, parsed: ListOptions, look: Look, options: dict[str, Any]
) -> None:
    in_columns = look.in_columns and parsed.is_plain
    with opened(location, listed=not look.digest, loaded=not in_columns) as reader:
        if in_columns:
            listing_tensors.show_columns(reader.columns(), look)
            warn_of_missing(reader, SCREEN)
            return
        columns = chosen_tensors(reader, parsed)
        of_index = look.digest == "crc32c" and reads_only_index(reader, options.get("path", ""))
        digests = None
        if look.digest:
            digests = digests_of(reader, columns, parsed, options["workers"], SCREEN, of_index=of_index)
        tensors = Tensors(reader, columns, digests)
        if look.long or "trainable" in parsed.columns:
            found = trainable_of(reader, SCREEN, names_graph=look.as_json)
            tensors = tensors._replace(trainable=found.marks, graph=found.graph)
        listing_tensors.show(arranged(tensors, parsed), look)
        if not of_index:
            warn_of_missing(reader, SCREEN)


# Directories ----------------------------------------------------------------------


def _list_directory(path: Location, parsed: ListOptions, look: Look, options: dict[str, Any]) -> int:
    from ..render import listing_directory  # not needed for a checkpoint

    jobs = options["workers"].jobs
    found = list_directory(path, SCREEN, reverse=parsed.reverse, long=look.long, jobs=jobs)
    if look.digest == IDENTITY:
        add_identities(found, options["workers"], SCREEN)
    for_tensors = _tensor_options(look, parsed.sort)
    if found["latest"] and for_tensors:
        import shlex

        latest = shlex.quote(path / found["latest"])
        render.note(
            f"{for_tensors} applies only to the tensors of one checkpoint, as in ckpt ls {for_tensors} "
            f"{latest}"
        )
    is_empty = not found["checkpoints"]
    found = arranged_directory(found, parsed)
    if parsed.where is not None and not (is_empty or found["checkpoints"]):
        raise no_checkpoint_where(parsed.where, path)
    if look.documents is not None:
        look.documents.append({"schema": 1, **found})
    elif look.as_json:
        render.document(found)
    if not look.as_json:
        listing_directory.show(found, look, by_path=bool(look.prefix))
    return 0 if found["checkpoints"] else print_empty(path)


def _list_recursively(path: Location, parsed: ListOptions, look: Look, jobs: int) -> int:
    from ..render import listing_directory

    refuse_not_a_folder(path)
    errors: list[CheckpointError] = []
    found = []
    for each in directories_found(path, long=look.long, jobs=jobs):
        with kept(errors):
            found.append(each.report(SCREEN, reverse=parsed.reverse))
    is_empty = not any(one["checkpoints"] for one in found)
    found = [one for one in (arranged_directory(one, parsed) for one in found) if one["checkpoints"]]
    if parsed.where is not None and not (is_empty or found):
        raise no_checkpoint_where(parsed.where, path)
    if look.as_json:
        render.document({"directories": found})
    for number, one in enumerate(found if not look.as_json else ()):
        if render.is_terminal() and not look.as_csv:
            render.title(one["directory"], is_first=not number)
        listing_directory.show(one, look._replace(has_header=not number), by_path=True)
    print_errors(errors)
    return 0 if found else print_empty(path)


def _tensor_options(look: Look, sort: str) -> str:
    """Return the options of a command line that say how tensors are listed, as they are typed."""
    words = [f"--digest {look.digest}"] if look.digest not in (None, IDENTITY) else []
    words += ["--tree"] if look.as_tree else []
    words += [f"--depth {look.depth}"] if look.depth else []
    is_for_tensors = sort not in ("key", "size", *OF_CHECKPOINTS)
    words += [f"--sort {sort}"] if is_for_tensors else []
    return " ".join(words)
