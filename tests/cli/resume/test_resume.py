"""`ckpt convert --resume`: what holds of conversions into directories and into buckets."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from formats.core.version import VERSION
from formats.store.journal import JOURNAL
from tests.cli.resume.interrupting import BUNDLE, LOOSE, ORBAX, Bucket, Directory, refused_as_it_is
from tests.support import data_path

if TYPE_CHECKING:
    from tests.cli.resume.interrupting import Ckpt, Words

    Place = Bucket | Directory


@pytest.fixture(params=["directory", "bucket"])
def place(request: pytest.FixtureRequest) -> Place:
    found: Place = request.getfixturevalue(request.param)
    return found


FINISHED = [
    *(("directory", words) for words in Directory.targets.values()),
    ("directory", (data_path("keras_mlp", "mlp.with_optimizer.h5"), "out/w.weights.h5")),
    ("directory", (ORBAX, "out/tree", "--to", "orbax")),
    ("directory", (ORBAX, "out/tree", "--to", "flax")),
    *(("bucket", words) for words in Bucket.targets.values()),
]


@pytest.mark.parametrize(("place", "words"), FINISHED, indirect=["place"])
def test_what_is_finished_is_known_without_its_journal(place: Place, words: Words, ckpt: Ckpt) -> None:
    """A kill can come when the journal is gone, and the command has not ended yet."""
    assert ckpt("convert", *words, "--resume").code == 0
    made = place.content()
    for _ in range(2):
        done = ckpt("convert", *words, "--resume")
        assert done.code == 0, done.err
        assert "already finished" in done.err
        assert place.content() == made
        for name, data in made.items():  # another file or object of the same content is as good
            place.put(name, data)
    assert ckpt("convert", *words).code == 3
    for size in ("300", "1000") if "--shard-size" in words else ():
        refused_as_it_is(place, ckpt, *words, "--shard-size", size)
    if "orbax" in words:
        refused_as_it_is(place, ckpt, *words, "--compress", "zstd")


@pytest.mark.parametrize(
    ("place", "target"),
    [(place.__name__.lower(), target) for place in (Directory, Bucket) for target in place.one_piece],
    indirect=["place"],
)
def test_what_is_written_in_one_piece_is_rejected(place: Place, target: str, ckpt: Ckpt) -> None:
    to = {"w.v1": "v1", "w.hdf5": "hdf5", "w.json": "listing"}.get(os.path.basename(target))
    for more in ((), ("-n",)):
        words = (BUNDLE, target, "--exclude", "text", *(("--to", to) if to else ()), "--resume", *more)
        done = ckpt("convert", *words)
        assert done.code == 3
        is_object = target.startswith("mem:") and target.endswith(".safetensors")
        what = "is one object, whose upload" if is_object else "is written in one piece and"
        assert f"{what} cannot be resumed" in done.err
        assert "--resume" in done.err
        assert place.content() == {}
        assert not os.path.exists("out")


def test_another_source_or_option_or_version_is_named(
    place: Place, ckpt: Ckpt, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = place.targets["cast"]
    dtype = words[-1]
    kept = place.interrupt(words)
    before = place.content()
    for now, what in (
        ((LOOSE, *words[1:]), "was one of its sources"),
        ((*words[:-1], "float8_e5m2"), f"started with --cast {dtype}, but now --cast is float8_e5m2"),
        (words[:-2], "started with --cast"),
        ((*words, "--exclude", "n"), "started without --exclude"),
    ):
        done = ckpt("convert", *now, "--resume")
        assert (done.code, done.out) == (3, "")
        assert what in done.err
    with monkeypatch.context() as patch:
        patch.setattr("ckpt_cli.operations.convert.resume.VERSION", "0.0.7")
        done = ckpt("convert", *words, "--resume")
        assert done.code == 3
        assert f"ckpt {VERSION} started it, but this is ckpt 0.0.7" in done.err
    os.utime(f"{BUNDLE}.index", ns=(1, 1))
    done = ckpt("convert", *words, "--resume")
    assert done.code == 3
    assert f"the source {os.path.abspath(BUNDLE)}.index has changed since" in done.err
    assert kept in done.err
    assert place.content() == before


def test_a_target_that_has_appeared_is_not_replaced(place: Place, ckpt: Ckpt) -> None:
    words = place.targets["bundle"]
    place.interrupt(words)
    place.put("c-1.index", b"another's")
    before = place.content()
    done = ckpt("convert", *words, "--resume")
    assert done.code == 3
    assert "already exists" in done.err
    assert place.content() == before
    done = ckpt("convert", *words, "--resume", "--overwrite")
    assert done.code == 0, done.err
    assert "were already written" in done.err
    assert ckpt("verify", words[1]).code == 0
    assert ckpt("diff", BUNDLE, words[1]).code == 0


def test_nothing_secret_is_written_or_printed(
    place: Place, ckpt: Ckpt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "geheim-1")
    monkeypatch.setenv("HF_TOKEN", "geheim-2")
    place.interrupt(place.targets["bundle"])
    (text,) = [data for name, data in place.content().items() if name.endswith(JOURNAL)]
    assert b"geheim" not in text
    assert os.path.abspath(BUNDLE).encode() in text
