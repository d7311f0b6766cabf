"""`ckpt convert --resume` into a directory: what an interrupt or a kill keeps, and which parts count."""

from __future__ import annotations

import errno
import io
import json
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from ckpt_cli.cli.main import main
from formats.location import parse_location
from formats.store.journal import JOURNAL
from formats.store.local import staging_journal as interrupting
from formats.store.local.locks import lock
from formats.store.local.refusals import refusing
from formats.store.local.staged_file import StagedFile
from formats.store.local.staging_journal import read_journal
from formats.wire.crc32c import crc32c
from tests.cli.resume.interrupting import (
    BUNDLE,
    LOOSE,
    Directory,
    Interrupted,
    arrays,
    interrupted,
    lines,
    refused_as_it_is,
    staged,
    whole,
)
from tests.cli.running import ROOT, run_ckpt
from tests.counts import count
from tests.faults.steps import exit_after, exit_before, steps
from tests.sampling import seeds, turn
from tests.support import data_path, shard_path
from tests.writing import files, save

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.resume.interrupting import Ckpt

TARGETS = Directory.targets

STREAMED = {"merged slices": 1}


# The same bytes ----------------------------------------------------------------------


@pytest.mark.parametrize("name", TARGETS)
def test_resuming_makes_the_bytes_of_one_run_and_writes_the_rest_alone(
    name: str, ckpt: Ckpt, here: Path, places: Interrupted
) -> None:
    words = TARGETS[name]
    expected = whole(ckpt, words)
    total = list(places.written)
    for at in turn(range(2, len(total) + 1), 2, list(TARGETS).index(name)):
        kept = interrupted(ckpt, places, words, at)
        assert ckpt("convert", *words, "-n", "--resume").code == 0
        again = ckpt("convert", *words, "--resume", "-j", "1")
        assert again.code == 0, again.err
        assert "were already written" in again.err
        again_as_well = STREAMED.get(name, 0)  # data that is not read in ranges counts only when complete
        assert len(places.written) <= len(total) - (at - 1) + again_as_well, "it is written again"
        assert not os.path.exists(kept)
        made = files("out")
        assert made.keys() == expected.keys()
        assert made == expected
        shutil.rmtree("out")
        count("conversions that were gone on with")


def test_a_part_of_a_large_tensor_counts(
    ckpt: Ckpt, here: Path, places: Interrupted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("formats.store.work.workers.TASK_BYTES", 1 << 12)
    save("source/large-1", {"w": np.arange(1 << 16, dtype=np.float32)})
    words = ("source/large-1", "out/c-1", "--cast", "float16")
    expected = whole(ckpt, words)
    total = len(places.written)
    interrupted(ckpt, places, words, total - 1)
    assert ckpt("convert", *words, "--resume").code == 0
    assert len(places.written) == 2 < total
    assert files("out") == expected


def test_without_the_option_all_is_removed(ckpt: Ckpt, here: Path, places: Interrupted) -> None:
    places.start(5)
    done = ckpt("convert", BUNDLE, "out/c-1", "-j", "1")
    assert (done.code, done.err.strip()) == (130, "")
    assert not os.path.exists("out")


def in_archive(data: bytes) -> bytes:
    """Return an archive that says another time at which it was saved."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(made, "w") as archive:
        for member in old.infolist():
            archive.writestr(member, old.read(member).replace(b'"date_saved": "2', b'"date_saved": "1'))
    return made.getvalue()


def other_word(word: bytes, instead: bytes = b"") -> Callable[[bytes], bytes]:
    def change(data: bytes) -> bytes:
        assert word in data
        return data.replace(word, instead or bytes([word[0] ^ 1]) + word[1:], 1)

    return change


HEADS = ("bundle", "safetensors", "sharded safetensors", "Keras 3 weights", "Keras archive")
OTHERS: list[tuple[str, Callable[[bytes], bytes]]] = [
    *(
        (name, lambda _, content=content: content)
        for name in HEADS
        for content in (b"", b"{", b"else\n" * 27)
    ),
    *(("sharded safetensors", other_word(word)) for word in (b"total_size", b"metadata", b"1440")),
    ("Keras 2 weights", other_word(b"Adam", b"Adem")),
    ("Keras 3 weights", other_word(b"dense", b"danse")),
    ("Keras archive", in_archive),
]
"""Files that are not a checkpoint, and the same weights with one more value."""


@pytest.mark.parametrize(("name", "change"), OTHERS)
def test_a_file_that_says_something_else_is_not_taken_for_it(
    name: str, change: Callable[[bytes], bytes], ckpt: Ckpt, here: Path, directory: Directory
) -> None:
    """A shard index that is not JSON caused a traceback."""
    assert ckpt("convert", *TARGETS[name], "--resume").code == 0
    made = sorted(path for path in (here / "out").rglob("*") if path.is_file())
    head = next((path for path in made if "index" in path.name), made[0])
    head.write_bytes(change(head.read_bytes()))
    refused_as_it_is(directory, ckpt, *TARGETS[name])


def test_where_nothing_was_finished_nothing_is_kept(ckpt: Ckpt, here: Path, places: Interrupted) -> None:
    places.start(1)
    assert ckpt("convert", BUNDLE, "out/c-1", "-j", "1", "--resume").code == 130
    assert not os.path.exists("out")


def test_an_interrupt_before_the_journal_is_written_now_and_then(
    ckpt: Ckpt, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that writes it was made, and not started yet: it was waited for, which was a traceback."""

    class Interrupting(threading.Thread):
        def start(self) -> None:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(interrupting.threading, "Thread", Interrupting)
        assert ckpt("convert", *TARGETS["bundle"], "-j", "1", "--resume").code == 130
    assert ckpt("convert", *TARGETS["bundle"], "--resume").code == 0


def test_two_interrupts_lose_nothing(ckpt: Ckpt, here: Path, places: Interrupted) -> None:
    expected = whole(ckpt, TARGETS["bundle"])
    interrupted(ckpt, places, TARGETS["bundle"], 7)
    interrupted(ckpt, places, TARGETS["bundle"], 2)
    assert ckpt("convert", *TARGETS["bundle"], "--resume").code == 0
    assert len(places.written) == 3
    assert files("out") == expected


@pytest.mark.parametrize("name", ["Keras archive", "like"])
def test_another_process_finds_it(name: str, ckpt: Ckpt, here: Path, places: Interrupted) -> None:
    """A digest identifies the conversion, independent of the order of sets, which differs between
    processes.
    """
    kept = interrupted(ckpt, places, TARGETS[name], 3)
    done = run_ckpt("convert", *TARGETS[name], "--resume", PYTHONHASHSEED="7")
    assert done.code == 0, done.err
    assert "were already written" in done.err
    assert not os.path.exists(kept)


def test_each_checkpoint_of_a_directory(ckpt: Ckpt, here: Path, places: Interrupted) -> None:
    """Work finished before the interrupt is neither rejected nor repeated."""
    run = data_path("guide_adam_legacy", "tf_ckpts")
    words = (run, "out", "--each", "--to", "name")
    expected = whole(ckpt, words)
    total = len(places.written)
    places.start(total - 2)
    assert ckpt("convert", *words, "-j", "1", "--resume").code == 130
    places.start()
    done = ckpt("convert", *words, "-j", "1", "--resume")
    assert done.code == 0, done.err
    assert done.err.count("already finished") == 2
    assert len(places.written) == 3
    assert files("out") == expected


# What is rejected -----------------------------------------------------------------------


# A source of the same inode, size and time ------------------------------------------------


def put_in_place(path: str, data: bytes) -> None:
    """Have other bytes in a file that keeps its inode, size and time, as one that was given its inode has."""
    before = os.stat(path)
    with open(path, "r+b") as file:
        file.write(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = os.stat(path)
    assert (after.st_ino, after.st_size, after.st_mtime_ns) == (
        before.st_ino,
        before.st_size,
        before.st_mtime_ns,
    )


def save_alike(name: str) -> tuple[bytes, bytes]:
    """Save a source; return its bytes, and those of another with the same header, size and ends.

    The difference is farther from both ends than the digest covers.
    """
    found = []
    for factor in (2, 1):
        small = np.ones(1, np.float32)
        between = {f"b{at}": np.full(40_000, at * factor, np.float32) for at in range(6)}
        equal = {f"{name}{at}": np.full(40_000, at, np.float32) for at in range(2) for name in "ac"}
        arrays = {**equal, **between, "d": small}
        if name.endswith(".npz"):
            np.savez(name, **dict(sorted(arrays.items())))
        else:
            save(name, dict(sorted(arrays.items())), "safetensors", overwrite=True)
        with open(name, "rb") as file:
            found.append(file.read())
    new, old = found
    return old, new


@pytest.mark.parametrize("more", [(), ("--cast", "float16")])
@pytest.mark.parametrize("source", ["source/x.safetensors", "source/x.npz"])
def test_a_source_that_was_given_the_inode_of_the_first_makes_no_mixture(
    source: str, more: tuple[str, ...], ckpt: Ckpt, here: Path, places: Interrupted
) -> None:
    """With --no-verify nothing else would notice it."""
    _, new = save_alike(source)
    words = (source, "out/c-1", "--to", "name", "--no-verify", *more)
    shutil.copy2(source, "kept")
    put_in_place(source, new)
    expected = whole(ckpt, words)
    with open("kept", "rb") as file:
        put_in_place(source, file.read())
    interrupted(ckpt, places, words, 8)
    put_in_place(source, new)
    if source.endswith(".safetensors"):
        interrupted(ckpt, places, words, 2)  # and the next command reports it, too
    done = ckpt("convert", *words, "--resume")
    if source.endswith(".npz"):  # whose end has checksums
        assert (done.code, f"the source {os.path.abspath(source)} has changed since" in done.err) == (3, True)
    else:
        assert done.code == 0, done.err
        assert files("out") == expected


def end_of_loose() -> None:
    with open(LOOSE, "rb") as file:
        data = bytearray(file.read())
    data[-1] ^= 1
    put_in_place(LOOSE, data)


CHANGES: dict[str, tuple[tuple[str, ...], str, Callable[[Ckpt], object]]] = {
    "time of a shard": (
        TARGETS["bundle"],
        shard_path(BUNDLE),
        lambda _: os.utime(shard_path(BUNDLE), ns=(1, 1)),
    ),
    "an index edited in place": (
        TARGETS["bundle"],
        f"{BUNDLE}.index",
        lambda ckpt: ckpt("rename", BUNDLE, "--in-place", "--sub", "^v0=>w0"),
    ),
    "another file of the same bytes, size and time": (
        (LOOSE, "out/c-1", "--to", "name", "--no-verify"),
        LOOSE,
        lambda _: os.replace(shutil.copy2(LOOSE, "other"), LOOSE),
    ),
    "the last byte of a short file": (
        (LOOSE, "out/c-1", "--to", "name", "--no-verify"),
        LOOSE,
        lambda _: end_of_loose(),
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_source_that_changed_is_named(name: str, ckpt: Ckpt, here: Path, places: Interrupted) -> None:
    words, source, change = CHANGES[name]
    kept = interrupted(ckpt, places, words, 5)
    before = files(kept)
    change(ckpt)
    for more in ((), ("-n",)):
        done = ckpt("convert", *words, "--resume", *more)
        assert (done.code, done.out) == (3, "")
        assert f"the source {os.path.abspath(source)} has changed since" in done.err
        assert f"rm -r {kept}" in done.err
    assert files(kept) == before
    shutil.rmtree(kept)
    assert ckpt("convert", *words, "--resume").code == 0


@pytest.mark.parametrize("name", ["bundle", "cast", "safetensors", "from a compressed file", "linked"])
@pytest.mark.parametrize("how", ["chmod", "link", "renamed there and back"])
def test_what_changes_nothing_but_the_time_of_change_is_resumed(
    how: str, name: str, ckpt: Ckpt, here: Path, places: Interrupted
) -> None:
    words = TARGETS[name]
    expected = whole(ckpt, words)
    total = len(places.written)
    interrupted(ckpt, places, words, 5)
    for path in os.scandir("source"):
        before = os.stat(path.path).st_ctime_ns
        while os.stat(path.path).st_ctime_ns == before:  # within a tick of the clock it is the same
            if how == "chmod":
                os.chmod(path.path, 0o640)
            elif how == "link":
                os.link(path.path, "other")
                os.unlink("other")
            else:
                os.rename(path.path, "other")
                os.rename("other", path.path)
    done = ckpt("convert", *words, "--resume", "-j", "1")
    assert done.code == 0, done.err
    assert "were already written" in done.err
    assert len(places.written) <= total - 4
    assert files("out") == expected


def test_a_source_that_another_command_linked_is_resumed(ckpt: Ckpt, here: Path, places: Interrupted) -> None:
    words = TARGETS["bundle"]
    expected = whole(ckpt, words)
    interrupted(ckpt, places, words, 5)
    assert ckpt("convert", BUNDLE, "linked/c-1", "--link").code == 0
    assert ckpt("convert", *words, "--resume").code == 0
    assert files("out") == expected


def test_what_was_finished_of_another_source_is_not_called_finished(
    ckpt: Ckpt, here: Path, places: Interrupted
) -> None:
    os.mkdir("run")
    old, new = save_alike("run/w-1.safetensors")
    put_in_place("run/w-1.safetensors", old)
    shutil.copy("run/w-1.safetensors", "run/w-2.safetensors")
    words = ("run", "out", "--each", "--to", "name", "--no-verify")
    whole(ckpt, words)
    places.start(len(places.written) - 2)
    assert ckpt("convert", *words, "-j", "1", "--resume").code == 130
    places.start()
    put_in_place("run/w-1.safetensors", new)
    done = ckpt("convert", *words, "--resume")
    assert done.code == 3
    assert "the source run/w-1.safetensors may have been replaced" in done.err


def test_a_file_that_an_option_names_may_not_change(ckpt: Ckpt, here: Path, places: Interrupted) -> None:
    (here / "names.tsv").write_text("v0\tw0\n")
    words = (BUNDLE, "out/c-1", "--map", "names.tsv")
    interrupted(ckpt, places, words, 5)
    (here / "names.tsv").write_text("v0\tw1\n")
    done = ckpt("convert", *words, "--resume")
    assert done.code == 3
    assert "--map" in done.err


def test_two_at_once(ckpt: Ckpt, here: Path, places: Interrupted) -> None:
    kept = interrupted(ckpt, places, TARGETS["bundle"], 5)
    held = lock(kept)
    try:
        for more in ((), ("-n",), ("--cast", "float16")):
            done = ckpt("convert", BUNDLE, "out/c-1", "--resume", *more)
            assert done.code == 3
            assert "is already running this conversion" in done.err
    finally:
        os.close(held)
    assert ckpt("convert", BUNDLE, "out/c-1", "--resume").code == 0


def test_another_users_directory_is_not_believed(
    ckpt: Ckpt, here: Path, places: Interrupted, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = interrupted(ckpt, places, TARGETS["bundle"], 5)
    before = files(kept)
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    done = ckpt("convert", BUNDLE, "out/c-1", "--resume")
    assert done.code == 3
    assert "is not your own directory" in done.err
    assert files(kept) == before


def test_what_is_there_is_listed_with_its_age_and_size_and_removed(
    ckpt: Ckpt, here: Path, places: Interrupted
) -> None:
    save("out/c-0", {"v": np.arange(3)})
    kept = interrupted(ckpt, places, TARGETS["bundle"], 5)
    for path in (kept, *(os.path.join(kept, name) for name in os.listdir(kept))):
        os.utime(path, (time.time() - 7300,) * 2)
    size = sum(os.path.getsize(os.path.join(kept, name)) for name in os.listdir(kept))
    what = "an interrupted conversion to c-1, 664 of 1,455 bytes done; to continue it, pass --resume"
    listed = ckpt("ls", "out")
    assert listed.code == 0
    assert [row[0] for row in listed.rows] == ["c-0"]
    assert f"{kept}: {what} (2 hours old, {size:,} bytes; to remove it: ckpt state --fix out)" in listed.err
    assert ["leftover", os.path.basename(kept), "", what] in ckpt("state", "out").rows
    held = lock(kept)
    try:
        assert "a program is writing it" in ckpt("ls", "out").err
        assert "a program is writing it" in ckpt("state", "--fix", "out").err
        assert os.path.isdir(kept)
    finally:
        os.close(held)
    done = ckpt("state", "--fix", "out")
    assert [os.path.basename(kept), f"2 hours old: {what}", str(size)] in [row[1:] for row in done.rows]
    assert not os.path.exists(kept)


def test_a_clock_that_goes_backwards(ckpt: Ckpt, here: Path, places: Interrupted) -> None:
    expected = whole(ckpt, TARGETS["bundle"])
    kept = interrupted(ckpt, places, TARGETS["bundle"], 5)
    for path in (kept, *(os.path.join(kept, name) for name in os.listdir(kept))):
        os.utime(path, (time.time() + 86400,) * 2)
    assert f"{kept}: an interrupted conversion to c-1" in ckpt("ls", "out").err
    assert "(0 seconds old" in ckpt("ls", "out").err
    assert ckpt("convert", *TARGETS["bundle"], "--resume").code == 0
    assert len(places.written) == 6
    assert files("out") == expected


# What is there is hostile --------------------------------------------------------------


def claim(value: object) -> bytes:
    text = json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
    return b"%08x %s\n" % (crc32c(text), text)


def flip(path: str, at: int) -> None:
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1]))


def shard(kept: str) -> str:
    return os.path.join(kept, "shard-0")


def cut(kept: str) -> None:
    os.truncate(shard(kept), 100)


def lengthen(kept: str) -> None:
    with open(shard(kept), "ab") as file:
        file.write(b"more" * 10_000)


def link(kept: str) -> None:
    """A user's file has a second name there: it must not be written to."""
    os.rename(shard(kept), "precious")
    os.link("precious", shard(kept))


def symlink(kept: str) -> None:
    os.rename(shard(kept), "precious")
    os.symlink(os.path.abspath("precious"), shard(kept))


def surplus(kept: str) -> None:
    os.mkdir(os.path.join(kept, "folder"))
    for name in ("shard-1", "c-1.index", "before.index", "held-0", "folder/file"):
        with open(os.path.join(kept, name), "wb") as file:
            file.write(b"something")


DAMAGE: dict[str, Callable[[str], None]] = {
    "a flipped bit": lambda kept: flip(shard(kept), 30),
    "a file cut off": cut,
    "a longer file": lengthen,
    "a file that is gone": lambda kept: os.unlink(shard(kept)),
    "another's file": link,
    "a link to another's file": symlink,
    "other files": surplus,
}

REWRITTEN: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "cut off": lambda found: [*found[:-1], found[-1][:-7]],
    "no end of line": lambda found: [*found[:-1], found[-1][:-1]],
    "twice": lambda found: [found[0], *found[1:], *found[1:]],
    "reversed": lambda found: [found[0], *reversed(found[1:])],
    "flipped": lambda found: [*found[:-1], found[-1].replace(b"shard", b"shark")],
    "no header": lambda found: found[1:],
    "another's header": lambda found: [claim({"journal": 1, "target": "c-1"}), *found[1:]],
    "empty": lambda _: [],
    "zeros": lambda found: [*found, bytes(5000)],
    "no checksum": lambda found: [*found, b"hello\n"],
    "overlapping": lambda found: [*found, claim(["filled", "shard-0", 0, [[100, 1], [60, 2]]])],
    "wrong": lambda found: [found[0], claim(["filled", "shard-0", 0, [[160, 1], [164, 2]]])],
    "huge": lambda found: [*found, claim(["filled", "shard-0", 1 << 62, [[1 << 62, 1]]])],
    "too large": lambda found: [*found, claim(["filled", "shard-0", 0, [[1 << 70, 1]]])],
    "negative": lambda found: [*found, claim(["filled", "shard-0", -4, [[4, -1]]])],
    "elsewhere": lambda found: [*found, claim(["filled", "../../source/c-1.index", 0, [[4, 1]]])],
    "deep": lambda found: [*found, b"%08x %s\n" % (crc32c(b"[" * 9999), b"[" * 9999)],
    "a move from elsewhere": lambda found: [*found, claim(["moved", "x", "../source/c-1.index", [1, 2, 3]])],
    "a name that leads out": lambda found: [*found, claim(["renamed", "../x", "shard-0"])],
    "long": lambda found: [*found, claim(["filled", "shard-0", 0, [[1, 1]] * 100_000])],
}


@pytest.mark.parametrize("name", [*DAMAGE, *REWRITTEN])
def test_what_is_damaged_is_done_again(name: str, ckpt: Ckpt, here: Path, places: Interrupted) -> None:
    expected, source = whole(ckpt, TARGETS["bundle"]), files("source")
    kept = interrupted(ckpt, places, TARGETS["bundle"], 7)
    precious = files(kept)["shard-0"]
    if name in DAMAGE:
        DAMAGE[name](kept)
    else:
        changed = REWRITTEN[name](lines(kept))
        with open(os.path.join(kept, JOURNAL), "wb") as file:
            file.writelines(changed)
    done = ckpt("convert", *TARGETS["bundle"], "--resume")
    assert done.code == 0, done.err
    assert files("out") == expected
    assert files("source") == source
    if os.path.exists("precious"):
        assert files(".")["precious"] == precious
    assert ("journal is damaged" in done.err) == (name in ("no header", "another's header", "empty"))


def test_a_journal_moves_nothing_but_shards_of_the_target(
    ckpt: Ckpt, here: Path, places: Interrupted
) -> None:
    kept = interrupted(ckpt, places, TARGETS["bundle"], 7)
    names = ("c-1.safetensors", "c-1-best.index", "c-10.data-00000-of-00001", "other")
    for name in names:
        (here / "out" / name).write_bytes(name.encode())
        status = os.stat(here / "out" / name)
        identity = [status.st_ino, status.st_size, status.st_mtime_ns]
        with open(os.path.join(kept, JOURNAL), "ab") as file:
            file.write(claim(["moved", name, name, identity]))
    assert ckpt("convert", *TARGETS["bundle"], "--resume").code == 0
    for name in names:
        assert (here / "out" / name).read_bytes() == name.encode()


@pytest.mark.parametrize("kind", ["directory", "link", "pipe"])
def test_a_journal_that_is_not_a_file(kind: str, ckpt: Ckpt, here: Path, places: Interrupted) -> None:
    kept = interrupted(ckpt, places, TARGETS["bundle"], 7)
    path = os.path.join(kept, JOURNAL)
    os.rename(path, "elsewhere")
    make = {"directory": os.mkdir, "pipe": os.mkfifo, "link": lambda to: os.symlink(here / "elsewhere", to)}
    make[kind](path)
    before = (here / "elsewhere").read_bytes()
    done = ckpt("convert", *TARGETS["bundle"], "--resume")
    assert done.code in (0, 3)
    assert "Traceback" not in done.err
    assert (here / "elsewhere").read_bytes() == before


# Disks that fail ------------------------------------------------------------------------


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("after", [0, 1, 2])
def test_a_journal_that_cannot_be_written(
    number: int, after: int, ckpt: Ckpt, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = whole(ckpt, TARGETS["bundle"])
    real, calls = interrupting._write, iter(range(1_000_000))

    def write(fd: int, data: bytes) -> None:
        if next(calls) >= after:
            os.write(fd, data[:20])
            raise OSError(number, os.strerror(number))
        real(fd, data)

    monkeypatch.setattr(interrupting, "_write", write)
    monkeypatch.setattr(interrupting, "_EVERY", 0)
    done = ckpt("convert", *TARGETS["bundle"], "-j", "1", "--resume")
    assert done.code == 3
    assert "out/c-1: cannot be written" in done.err
    assert "Traceback" not in done.err
    monkeypatch.setattr(interrupting, "_write", real)
    assert ckpt("convert", *TARGETS["bundle"], "--resume").code == 0
    assert files("out") == expected


def test_a_full_disk_names_the_command_that_continues(
    ckpt: Ckpt, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = StagedFile.write_at

    def write_at(file: StagedFile, offset: int, data: Any) -> None:
        if offset > 600:
            with refusing(parse_location("out/c-1")):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(file, offset, data)

    with monkeypatch.context() as patch:
        patch.setattr(StagedFile, "write_at", write_at)
        done = ckpt("convert", *TARGETS["bundle"], "-j", "1", "--resume")
    assert done.code == 3
    assert "no space left" in done.err
    last = done.err.splitlines()[-1]
    assert last.endswith(f"ckpt convert {shlex.join(TARGETS['bundle'])} -j 1 --resume")
    again = ckpt("convert", *TARGETS["bundle"], "--resume")
    assert again.code == 0
    assert "were already written" in again.err


def test_a_damaged_source_cannot_be_resumed(ckpt: Ckpt, here: Path) -> None:
    flip(shard_path(BUNDLE), 300)
    done = ckpt("convert", *TARGETS["bundle"], "--resume")
    assert done.code == 3
    assert "checksum" in done.err
    assert "--resume" not in done.err
    assert not os.path.exists("out")


# Kills ----------------------------------------------------------------------------------


def killed(words: tuple[str, ...], at: int, act: Callable[..., Any]) -> int:
    """Run a conversion in a process that is killed at a step; return its exit code."""
    child = os.fork()
    if child == 0:
        interrupting._EVERY = 0.0
        with open(os.devnull, "w", encoding="utf-8") as null, steps(at, act):
            os.dup2(null.fileno(), 1)
            os.dup2(null.fileno(), 2)
            try:
                main(["convert", *words, "--resume"])
            except SystemExit as exit_:
                os._exit(int(exit_.code or 0))
        os._exit(99)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def steps_of(words: tuple[str, ...]) -> int:
    with steps(0, exit_before) as made, pytest.raises(SystemExit):
        main(["convert", *words, "--resume"])
    return len(made)


KILLED = {
    "bundle": ("out/c-1",),
    "shards": ("out/c-1", "--shard-size", "500"),
    "shards over shards": ("over/c-1", "--shard-size", "500", "--overwrite"),
    "Orbax in chunks": ("out/7", "--exclude", "text", "--to", "orbax", "--shard-size", "100"),
    "Orbax over a tree": ("over/tree", "--exclude", "text", "--to", "orbax", "--overwrite"),
    "compressed Orbax over a tree": (
        *("over/tree", "--exclude", "text", "--to", "orbax", "--overwrite", "--compress", "zstd"),
    ),
    "safetensors over one": ("over/w.safetensors", "--exclude", "text", "--shard-size", "500", "--overwrite"),
}


def lay_out() -> None:
    """Create the files that some of these conversions replace."""
    shutil.rmtree("over", ignore_errors=True)
    shutil.rmtree("out", ignore_errors=True)
    save("over/c-1", {**arrays(), "v0": np.ones(400)}, shard_size=500)
    save("over/w.safetensors", {"old": np.ones(400)}, "safetensors")
    save("over/tree", {"old": np.ones(400)}, "orbax")


def results() -> dict[str, bytes]:
    return {**files("over"), **(files("out") if os.path.isdir("out") else {})}


KILLS = 50


@pytest.mark.parametrize("name", KILLED)
def test_killed_at_random_and_resumed_each_time(name: str, here: Path, capfd: object) -> None:
    words = (BUNDLE, *KILLED[name])
    lay_out()
    total = steps_of(words)
    made = results()
    lay_out()
    kills = 0
    for seed in seeds(4, KILLS):
        chance = random.Random(seed)
        code = killed(words, chance.randint(1, total), chance.choice([exit_before, exit_after]))
        if code == -signal.SIGKILL & 0xFF:
            kills += 1
            continue
        assert code == 0
        assert results() == made
        lay_out()
    code = killed(words, 0, exit_before)
    assert code == 0
    assert results() == made
    assert kills
    count("kills that were gone on from", kills)


SLOW = """
    import sys, time
    from ckpt_cli.cli.main import main
    from formats.model.writer import Placement

    def write(place, at, data, write=Placement.write):
        time.sleep(0.02)
        write(place, at, data)
        print(place.offset + at, time.monotonic(), flush=True)

    Placement.write = write
    main(sys.argv[1:])
"""


@pytest.mark.fuzz
def test_a_kill_loses_two_seconds_and_one_task_at_most(here: Path) -> None:
    """The killed process reports when a task was done, and its journal what is kept."""
    save("source/many-1", {f"v{at:04}": np.full(64, at, np.float32) for at in range(400)})
    words = ("convert", "source/many-1", "out/c-1", "--resume", "-j", "1")
    command = [sys.executable, "-c", textwrap.dedent(SLOW), *words]
    settings = {**os.environ, "PYTHONPATH": ROOT}
    for seed in seeds(1, 5):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=settings) as process:
            assert process.stdout is not None
            written = [process.stdout.readline().split()]
            time.sleep(random.Random(seed).uniform(2.5, 6))
            end = time.monotonic()
            process.kill()
            written += [line.split() for line in process.stdout.read().splitlines()]
        (kept,) = staged()
        done = sum(len(json.loads(line[9:])[3]) for line in read_journal(parse_location(kept)).claims)
        before = sum(float(when) < end - 2 for _, when in written)
        assert before > 5
        assert done >= before - 1
        count("kills whose loss was measured")
        shutil.rmtree(kept)
