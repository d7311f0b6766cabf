"""Files of a commit, `REV:PATH`, in the git repository of the current directory, without a checkout.

    HEAD~1:run/ckpt-10      of a tree-ish, from the top of the repository
    HEAD~1:./ckpt-10        from the working directory

Only git's plumbing is used, which runs no hook, filter, pager or alias: `rev-parse` for the tree, `ls-tree`
for one folder at a time, `cat-file` for blobs. REV is the only argument from the user, and follows
`--end-of-options`; all names come from git's own output. A repository may be hostile: missing objects are not
fetched, because fetching would run commands from its configuration.

A blob never changes, so its name is its identity. Git cannot read at an offset, so a blob is copied to a
temporary file at its first read. The file is deleted afterwards.
"""

from __future__ import annotations

import os
import posixpath
import subprocess
import tempfile
import threading
from functools import lru_cache
from typing import IO, TYPE_CHECKING, NamedTuple

from ..errors import CheckpointError, CheckpointNotFoundError, InaccessibleError
from .base import CLOSED, FILE, FOLDER, LINK, OTHER, Entry, File, Listed, Store

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

_HELD = 1 << 20
"""Bytes of a blob that are kept in memory; a larger one goes to a file in TMPDIR."""

_MOST_LINKS = 20
_KINDS = {"100644": FILE, "100755": FILE, "100664": FILE, "040000": FOLDER, "120000": LINK}

_OBSTACLES = {
    LINK: "a symbolic link whose target is not in this commit",
    OTHER: "a submodule; read the checkpoint from the submodule's own checkout",
}

_SETTINGS = {
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
"""Git does not complete a partial clone, writes nothing, and prompts for nothing."""


class _TreeEntry(NamedTuple):
    """A tree's entry for a name: its kind, the object, and the size of a blob in bytes."""

    kind: str
    name: str
    size: int

    @property
    def entry(self) -> Entry:
        return Entry(self.kind, self.size, 0.0, (self.name,))


def _git_output(*words: str, git_dir: str | None = None) -> bytes | None:
    """Return git's output, or None if git fails or is not installed."""
    where = [] if git_dir is None else [f"--git-dir={git_dir}"]
    try:
        done = subprocess.run(  # noqa: S603  plumbing; only REV comes from the user
            ["git", "--no-pager", *where, *words],  # noqa: S607  where a person's own git is
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            env={**os.environ, **_SETTINGS},
        )
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None


def split_revision(path: str) -> tuple[str, str]:
    """Return REV and PATH of `REV:PATH`, as git parts them: a colon in braces belongs to REV.

    Both are empty if this is nothing of the kind.
    """
    depth = 0
    for at, character in enumerate(path):
        depth += (character == "{") - (character == "}")
        if character == ":" and depth <= 0:
            return (path[:at], path[at + 1 :]) if at else ("", "")
    return "", ""


def find(path: str) -> tuple[str, GitStore] | None:
    """Return the path by which something of a commit is called, and its store; None where REV is none."""
    revision, inside = split_revision(path)
    if not revision or "\0" in path:
        return None
    try:
        directory = os.getcwd()
    except OSError:  # it was removed, and is in no repository
        return None
    found = _repository(directory)
    if found is None:
        _repository.cache_clear()  # a program may make one later
        return None
    git_dir, prefix = found
    tree = _git_output(
        "rev-parse", "--verify", "--quiet", "--end-of-options", revision + "^{tree}", git_dir=git_dir
    )
    if not tree:
        return None
    if inside.startswith(("./", "../")) or inside in (".", ".."):
        inside = posixpath.normpath(posixpath.join(prefix, inside))
    store = GitStore(revision, tree.decode().strip(), git_dir)
    return store.path(posixpath.normpath(inside) if inside else ""), store


def why_not_found(revision: str) -> str:
    """Return a hint for a REV that `find` does not find."""
    if _repository(os.getcwd()) is None:
        _repository.cache_clear()
        return "run ckpt inside a git repository to use REV:PATH"
    if (_git_output("rev-parse", "--is-shallow-repository") or b"").strip() == b"true":
        return f"git finds no revision {revision!r} here; to fetch older ones: git fetch --unshallow"
    return f"git finds no revision {revision!r} here; to list commits: git log --all --oneline"


@lru_cache(1)
def _repository(directory: str) -> tuple[str, str] | None:
    """Return the repository that contains a directory, and the path to the directory from its top."""
    del directory  # git looks in the current directory
    answer = _git_output("rev-parse", "--absolute-git-dir", "--show-prefix")
    if answer is None:
        return None
    git_dir, prefix = os.fsdecode(answer).split("\n")[:2]
    return git_dir, prefix


@lru_cache(256)
def _tree(git_dir: str, tree: str) -> dict[str, _TreeEntry]:
    """Return the entries of a folder by name."""
    answer = _git_output("ls-tree", "-l", "-z", "--full-tree", tree, git_dir=git_dir)
    if answer is None:
        raise _unread("tree", tree, git_dir)
    found = {}
    for row in answer.split(b"\0")[:-1]:
        facts, _, name = row.partition(b"\t")
        mode, _, object_name, size = facts.decode().split()
        nbytes = int(size) if size.isdigit() else 0
        found[os.fsdecode(name)] = _TreeEntry(_KINDS.get(mode, OTHER), object_name, nbytes)
    return found


def _unread(what: str, name: str, path: str) -> InaccessibleError:
    hints = ("if this is a partial clone, fetch the missing objects: git fetch --refetch --no-filter",)
    error = InaccessibleError(f"git cannot read the {what} {name}", path=path)
    error.hints = hints
    return error


class GitFile(File):
    """A blob, copied to a temporary file at its first read, so that it can be read at any offset."""

    store: GitStore

    def __init__(self, store: GitStore, path: str, node: _TreeEntry) -> None:
        super().__init__(store, path, node.size, (node.name,))
        self._node = node
        self._copy: IO[bytes] | None = None
        self._lock = threading.Lock()
        self._closed = False

    def read(self, offset: int, size: int) -> bytes:
        with self._lock:
            if self._closed:
                raise CheckpointError(CLOSED, path=self.path)
            if self._copy is None:
                self._copy = self._fetched()
            size = max(0, min(size, self.size - offset)) if offset >= 0 else 0
            self._copy.seek(max(0, offset))
            data = self._copy.read(size)
        if self._tally is not None:
            self._tally.add(len(data))
        return data

    def _fetched(self) -> IO[bytes]:
        try:
            return self._copied()
        except OSError as error:
            message = f"this file cannot be copied to a temporary file: {error.strerror or error}"
            raise InaccessibleError(message, path=self.path) from error

    def _copied(self) -> IO[bytes]:
        copy: IO[bytes] = tempfile.SpooledTemporaryFile(_HELD)  # noqa: SIM115  closed with this
        command = [
            "git",
            "--no-pager",
            f"--git-dir={self.store.git_dir}",
            "cat-file",
            "blob",
            self._node.name,
        ]
        with subprocess.Popen(  # noqa: S603  as above
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **_SETTINGS},
        ) as process:
            assert process.stdout is not None
            left = self.size
            while piece := process.stdout.read(min(_HELD, left + 1)):
                left -= len(piece)
                if left < 0:
                    process.kill()
                    break
                copy.write(piece)
        if left or process.returncode:
            copy.close()
            raise _unread("blob", self._node.name, self.path)
        return copy

    @property
    def closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        with self._lock:
            self._closed = True
            if self._copy is not None:
                self._copy.close()
                self._copy = None


class GitStore(Store):
    """The files of a tree-ish.  Its paths are `REV:PATH`, as they are typed."""

    scheme = "git"

    def __init__(self, revision: str, tree: str, git_dir: str) -> None:
        self.revision = revision
        self.tree = tree
        self.git_dir = git_dir

    def path(self, inside: str) -> str:
        """Return the path of an entry inside the tree."""
        return f"{self.revision}:{'' if inside == '.' else inside}"

    def _inside(self, path: str) -> str:
        return path.removeprefix(f"{self.revision}:").strip("/")

    def open(self, path: str) -> File:
        node = self._find(self._inside(path))
        if node is None:
            raise CheckpointNotFoundError("no such file", path=path)
        if node.kind == FOLDER:
            raise InaccessibleError("this is a directory, not a regular file", path=path)
        if node.kind != FILE:
            raise InaccessibleError("this is not a regular file", path=path)
        return GitFile(self, path, node)

    def stat(self, path: str, *, follow: bool = True) -> Entry | None:
        node = self._find(self._inside(path), follow=follow)
        return None if node is None else node.entry

    def obstacle(self, path: str) -> str | None:
        names = self._inside(path).split("/")
        for count in range(1, len(names) + 1):
            place = "/".join(names[:count])
            itself = self._find(place, follow=False)
            if itself is None:
                return None
            what = _OBSTACLES.get(itself.kind)
            if what is not None and (itself.kind != LINK or self._find(place) is None):
                return f"this is {what}" if count == len(names) else f"{self.path(place)} is {what}"
        return None

    def list(self, folder: str) -> Sequence[Listed]:
        node = self._find(self._inside(folder))
        if node is None or node.kind != FOLDER:
            raise CheckpointNotFoundError("no such directory", path=folder)
        return sorted(Listed(name, each.kind) for name, each in _tree(self.git_dir, node.name).items())

    def stamp(self, folder: str) -> Hashable | None:  # noqa: ARG002  a tree never changes
        return self.tree

    def _find(self, inside: str, *, follow: bool = True, links: int = 0) -> _TreeEntry | None:
        """Return the entry at a path in the tree. A link that leads out of the tree has no entry."""
        node = _TreeEntry(FOLDER, self.tree, 0)
        names = [name for name in inside.split("/") if name]
        for number, name in enumerate(names):
            below = _tree(self.git_dir, node.name).get(name) if node.kind == FOLDER else None
            if below is None:
                return None
            node = below
            is_last = number == len(names) - 1
            if node.kind == LINK and (follow or not is_last):
                target = self._target("/".join(names[:number]), node)
                if target is None or links == _MOST_LINKS:
                    return None
                rest = "/".join([target, *names[number + 1 :]])
                return self._find(rest, follow=follow, links=links + 1)
        return node

    def _target(self, folder: str, link: _TreeEntry) -> str | None:
        """Return where in the tree a link leads; None if that is elsewhere."""
        if link.size > _HELD:
            return None
        with GitFile(self, self.path(folder), link) as file:
            text = os.fsdecode(file.read(0, link.size))
        target = posixpath.normpath(posixpath.join(folder, text))
        return None if target.startswith(("/", "../")) or target == ".." else target.removeprefix("./")

    # Paths -----------------------------------------------------------------------

    def join(self, folder: str, name: str) -> str:
        if name.startswith(f"{self.revision}:"):
            return name
        inside = self._inside(folder)
        return self.path(f"{inside}/{name.lstrip('/')}" if inside else name.lstrip("/"))

    def split(self, path: str) -> tuple[str, str]:
        folder, _, name = self._inside(path).rpartition("/")
        return self.path(folder), name

    def absolute(self, path: str) -> str:
        inside = self._inside(path)
        return self.path(posixpath.normpath(inside) if inside else "")

    def relative(self, path: str, folder: str) -> str:
        inside = self._inside(self.absolute(folder))
        return self._inside(self.absolute(path)).removeprefix(f"{inside}/" if inside else "")
