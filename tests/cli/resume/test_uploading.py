"""`ckpt convert --resume` to a store of objects: what is finished there is known by its e_tag."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import numpy as np
import pytest

from formats.store.journal import line_of
from tests.cli.resume.interrupting import BUNDLE, LOOSE, Bucket, Cut, refused_as_it_is
from tests.counts import count
from tests.sampling import turn
from tests.writing import save

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.resume.interrupting import Ckpt

TARGETS = Bucket.targets


def whole(ckpt: Ckpt, store: Cut, words: tuple[str, ...], *more: str) -> tuple[dict[str, bytes], int]:
    done = ckpt("convert", *words, *more)
    assert done.code == 0, done.err
    made, total = store.content(), len(store.changes)
    store.clear()
    store.start()
    return made, total


def interrupted(ckpt: Ckpt, store: Cut) -> str:
    """Interrupt a conversion while the third shard is sent; return the path of its journal."""
    return Bucket(ckpt, store).interrupt(TARGETS["bundle"]) + "/ckpt.journal"


@pytest.mark.parametrize("dies", [False, True])
@pytest.mark.parametrize("name", TARGETS)
def test_objects_that_are_finished_are_not_sent_again(
    name: str, dies: bool, ckpt: Ckpt, store: Cut, here: Path
) -> None:
    words = TARGETS[name]
    expected, _ = whole(ckpt, store, words)
    _, total = whole(ckpt, store, words, "--resume")
    # The last one always: the steps after it clean up next to a complete target.
    for at in {*turn(range(2, total), 2, list(TARGETS).index(name) + 2 * dies), total}:
        store.start(at, dies=dies)
        done = ckpt("convert", *words, "--resume")
        assert done.code == 130, done.err
        last = store.changes[at - 1][1]
        finished = {path for path in store.names if not path.endswith(("ckpt.journal", "ckpt.lock"))}
        store.start()
        again = ckpt("convert", *words, "--resume")
        assert again.code == 0, again.err
        assert store.content() == expected
        sent_twice = finished & {path for what, path in store.changes if what in ("put", "finish")}
        # An object that was finished when its journal was not yet put is sent again.
        assert not sent_twice or (last.endswith("ckpt.journal") and len(sent_twice) == 1)
        store.clear()
        count("conversions into buckets that were gone on with")


def test_what_was_sent_is_not_read_again(ckpt: Ckpt, store: Cut, here: Path) -> None:
    interrupted(ckpt, store)
    done = ckpt("convert", *TARGETS["bundle"], "--resume", "-v")
    assert done.code == 0
    assert "were already written" in done.err
    line = next(line for line in done.err.splitlines() if f"read {BUNDLE}.data" in line)
    assert int(line.split(": ")[1].split()[0].replace(",", "")) < os.path.getsize(
        f"{BUNDLE}.data-00000-of-00001"
    )


def test_a_source_without_checksums_whose_time_of_change_differs_is_named(
    ckpt: Ckpt, store: Cut, here: Path
) -> None:
    """Sent objects are not read again, and so may come from another file."""
    save("loose.safetensors", {f"v{at}": np.full(400, at, np.float32) for at in range(6)}, "safetensors")
    words = ("loose.safetensors", "mem://b/c-1", "--to", "name", "--shard-size", "2000")
    assert ckpt("convert", *words, "--resume").code == 0
    at = next(at for at, (_, path) in enumerate(store.changes, 1) if ".data-00002" in path)
    store.clear()
    store.start(at)
    assert ckpt("convert", *words, "--resume").code == 130
    store.start()
    os.chmod("loose.safetensors", 0o640)
    done = ckpt("convert", *words, "--resume")
    assert (done.code, "loose.safetensors may have been replaced" in done.err) == (3, True)


@pytest.mark.parametrize("how", ["replaced", "gone", "same bytes"])
def test_an_object_that_changed_is_sent_again(how: str, ckpt: Ckpt, store: Cut, here: Path) -> None:
    expected, _ = whole(ckpt, store, TARGETS["bundle"])
    interrupted(ckpt, store)
    shard = min(name for name in store.names if ".data-" in name)
    if how == "gone":
        store.remove(shard)
    else:
        store.put(shard, store.content()[shard] if how == "same bytes" else b"other")
    store.start()
    done = ckpt("convert", *TARGETS["bundle"], "--resume", "--verify", "full")
    assert done.code == 0, done.err
    assert store.content() == expected


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "cut off": lambda data: data[:-9],
    "no header": lambda data: data[data.index(b"\n") + 1 :],
    "zeros": lambda data: bytes(len(data)),
    "other sums": lambda data: b"".join(map(other_sums, data.splitlines(keepends=True))),
}


def other_sums(line: bytes) -> bytes:
    """Return a line whose objects have tensors at other places than they have."""
    value = json.loads(line[9:])
    if isinstance(value, list) and value[0] == "sent":
        value[4] = [[offset + 1, size, crc] for offset, size, crc in value[4]]
        return line_of(value)
    return line


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_journal(name: str, ckpt: Ckpt, store: Cut, here: Path) -> None:
    expected, _ = whole(ckpt, store, TARGETS["bundle"])
    journal = interrupted(ckpt, store)
    store.put(journal, DAMAGE[name](store.content()[journal]))
    done = ckpt("convert", *TARGETS["bundle"], "--resume")
    if done.code:
        assert done.code == 3
        assert (
            "already exists" in done.err or "this path was uploaded before with different content" in done.err
        )
        assert not any(name.endswith(".index") for name in store.names)
        done = ckpt("convert", *TARGETS["bundle"], "--overwrite")
    assert done.code == 0, done.err
    made = {path: data for path, data in store.content().items() if not path.endswith("ckpt.journal")}
    assert set(made.values()) >= {data for path, data in expected.items() if ".data-" in path}


def test_a_running_command_reports_that_another_has_taken_over(ckpt: Ckpt, store: Cut, here: Path) -> None:
    expected, _ = whole(ckpt, store, TARGETS["bundle"])
    taken: list[int] = []

    def change(what: str, path: str) -> None:
        if what == "finish" and ".data-00002" in path and not taken:
            taken.append(1)
            (journal,) = [name for name in store.names if name.endswith("/ckpt.journal")]
            store.put(journal, store.content()[journal])

    store.before = change
    done = ckpt("convert", *TARGETS["bundle"], "--resume")
    assert done.code == 3
    assert "another command is running this conversion" in done.err
    assert ckpt("convert", *TARGETS["bundle"], "--resume").code == 0
    assert store.content() == expected


def test_what_is_there_is_listed(ckpt: Ckpt, store: Cut, here: Path) -> None:
    journal = interrupted(ckpt, store)
    store.put("mem://b/out/kept.safetensors", (here / LOOSE).read_bytes())
    done = ckpt("ls", "mem://b/out")
    assert done.code == 0, done.err
    assert f"{journal.removesuffix('/ckpt.journal')}: an interrupted conversion to c-1, " in done.err
    assert "to continue it, pass --resume" in done.err
    assert ckpt("convert", *TARGETS["bundle"], "--resume").code == 0
    assert "interrupted" not in ckpt("ls", "mem://b/out").err


def test_state_shows_what_was_sent_and_removes_it(ckpt: Ckpt, store: Cut, here: Path) -> None:
    journal = interrupted(ckpt, store)
    folder = journal.removesuffix("/ckpt.journal").removeprefix("mem://b/out/")
    own = {path: data for path, data in store.content().items() if ".data-" in path or path == journal}
    store.put("mem://b/out/kept.safetensors", (here / LOOSE).read_bytes())
    shown = ckpt("state", "mem://b/out", "--json").json
    assert shown["leftovers"] == [folder]
    assert "an interrupted conversion to c-1, " in ckpt("state", "mem://b/out").out
    (change,) = ckpt("state", "mem://b/out", "--fix", "--json", "-n").json["changes"]
    assert (change["action"], change["name"]) == ("remove", folder)
    assert change["nbytes"] == sum(map(len, own.values()))
    assert " days old: an interrupted conversion to c-1, " in change["why"]
    assert len(own) >= 2
    assert set(own) < set(store.names)
    assert ckpt("state", "mem://b/out", "--fix").code == 0
    assert store.names == ["mem://b/out/kept.safetensors"]
    assert ckpt("convert", *TARGETS["bundle"], "--resume").code == 0


def test_state_removes_an_object_that_was_finished_before_its_journal_was_put(
    ckpt: Ckpt, store: Cut, here: Path
) -> None:
    words = TARGETS["bundle"]
    assert ckpt("convert", *words, "--resume").code == 0
    changes = store.changes
    at = next(at for at, (what, path) in enumerate(changes, 1) if what == "finish" and ".data-00002" in path)
    assert changes[at][1].endswith("/ckpt.journal")
    store.clear()
    store.start(at + 1, dies=True)
    assert ckpt("convert", *words, "--resume").code == 130
    store.start()
    assert any(".data-00002" in path for path in store.names)
    done = ckpt("state", "mem://b/out", "--fix", "--json")
    assert (done.code, done.json["leftovers"]) == (0, [])
    assert store.names == []


@pytest.mark.parametrize("name", ["bundle", "safetensors"])
def test_state_removes_nothing_that_an_index_names(name: str, ckpt: Ckpt, store: Cut, here: Path) -> None:
    words = TARGETS[name]
    _, total = whole(ckpt, store, words, "--resume")
    store.start(total, dies=True)
    assert ckpt("convert", *words, "--resume").code == 130
    store.start()
    (journal,) = [path for path in store.names if path.endswith("/ckpt.journal")]
    made = {path: data for path, data in store.content().items() if path != journal}
    if name == "bundle":  # it names the same shards, and is no longer what the journal describes
        done = ckpt("rename", "--in-place", words[1], "--sub", "n=>m")
        assert done.code == 0, done.err
    assert ckpt("state", journal.rpartition("/")[0].rpartition("/")[0], "--fix").code == 0
    assert set(store.names) >= set(made)
    assert journal not in store.names
    assert ckpt("verify", words[1]).code == 0


def test_an_index_that_cannot_be_read_may_name_what_was_sent(ckpt: Ckpt, store: Cut, here: Path) -> None:
    interrupted(ckpt, store)
    store.put("mem://b/out/c-1.index", b"no index")
    before = store.content()
    done = ckpt("state", "mem://b/out", "--fix")
    assert "is kept, because " in done.err
    assert store.content() == before


def test_a_journal_leads_to_no_object_that_is_not_of_its_target(ckpt: Ckpt, store: Cut, here: Path) -> None:
    """A journal may be forged."""
    journal = interrupted(ckpt, store)
    assert ckpt("convert", BUNDLE, "mem://b/out/other-1").code == 0
    other = "mem://b/out/other-1.data-00000-of-00001"
    entry = store.current(other)
    assert entry is not None
    told = line_of(["sent", "other-1.data-00000-of-00001", entry.identity, entry.size, []])
    store.put(journal, store.content()[journal] + told)
    assert ckpt("state", "mem://b/out", "--fix").code == 0
    assert [path for path in store.names if ".data-" in path] == [other]
    assert not any(path.endswith(".journal") for path in store.names)


def test_another_checkpoint_in_its_place_is_not_taken_for_it(ckpt: Ckpt, store: Cut, bucket: Bucket) -> None:
    words = TARGETS["bundle"]
    for change in (("--cast", "float16"), ("--exclude", "n"), ("--sub", "n=>m")):
        assert ckpt("convert", *words, *change).code == 0
        refused_as_it_is(bucket, ckpt, *words)
        store.clear()
