"""Writing to buckets of servers that speak as Amazon's and Azure's do: kills, faults, secrets, memory."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import numpy as np
import pytest

import formats
from formats.location import parse_location
from formats.store.remote.objects import ANYTHING
from tests.cli.conftest import ROOT
from tests.servers.google import Google, google
from tests.servers.programs import KEY, SECRET
from tests.servers.proxy import Asked, proxied
from tests.support import data_path, write_bundle

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

pytestmark = pytest.mark.servers

RUN = data_path("guide_adam_legacy/tf_ckpts")
OLD, NEW = f"{RUN}/ckpt-9", f"{RUN}/ckpt-10"
_PIECE = 9 << 20
"""Bytes of a tensor that is sent in two parts."""


@pytest.fixture(scope="module")
def google_server() -> Iterator[Google]:
    with google() as store, pytest.MonkeyPatch.context() as patch:
        patch.setenv("STORAGE_EMULATOR_HOST", store.url)
        yield store


@pytest.fixture(scope="module")
def written_gs(google_server: Google) -> str:
    """Return a bucket of a server that takes objects as Google's does, with nothing in it."""
    assert google_server.url
    return "gs://bucket"


@pytest.fixture(params=["s3", "az", "written_gs"])
def bucket(request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue(request.param)
    return f"{found}/written"


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a bundle whose tensors are all uploaded in parts."""
    prefix = str(tmp_path_factory.mktemp("large") / "c-1")
    write_bundle(prefix, {f"v{at}": np.full(_PIECE, at, np.uint8) for at in range(3)})
    return prefix


def _ckpt(*args: str, **environment: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "ckpt_cli", *args], cwd=ROOT, capture_output=True, text=True, check=False,
        env={**os.environ, **environment},
    )  # fmt: skip
    assert "topsecret" not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr or environment.get("CKPT_DEBUG")
    return done


def _values(path: str) -> dict[str, object]:
    with formats.open_checkpoint(path) as reader:
        return {key: np.asarray(reader[key].read()).tolist() for key in reader}


@pytest.fixture(autouse=True)
def _forget() -> None:
    """Forget what servers said, as each command does."""
    _ask_anew()


def _ask_anew() -> None:
    from formats.store.remote.bucket_objects import STORES

    for store in STORES:
        store.forget()


def _uploads(prefix: str) -> list[str]:
    """Return the keys of unfinished uploads in Amazon's bucket, by a request that is signed here."""
    host, when = (
        urlsplit(os.environ["AWS_ENDPOINT_URL"]).netloc,
        time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()),
    )
    scope = f"{when[:8]}/us-east-1/s3/aws4_request"
    empty = hashlib.sha256(b"").hexdigest()
    names = "host;x-amz-content-sha256;x-amz-date"
    headers = f"host:{host}\nx-amz-content-sha256:{empty}\nx-amz-date:{when}\n"
    asked = hashlib.sha256(f"GET\n/bucket\nuploads=\n{headers}\n{names}\n{empty}".encode()).hexdigest()
    key = f"AWS4{SECRET}".encode()
    for each in (*scope.split("/"), f"AWS4-HMAC-SHA256\n{when}\n{scope}\n{asked}"):
        key = hmac.digest(key, each.encode(), "sha256")
    proof = f"AWS4-HMAC-SHA256 Credential={KEY}/{scope}, SignedHeaders={names}, Signature={key.hex()}"
    connection = http.client.HTTPConnection(host)
    told = {"x-amz-date": when, "x-amz-content-sha256": empty, "Authorization": proof}
    connection.request("GET", "/bucket?uploads=", headers=told)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    assert answer.status == 200, text
    return [key for key in re.findall(r"<Key>([^<]*)</Key>", text) if key.startswith(prefix)]


def test_parts_go_by_their_md5_and_all_else_is_signed(s3: str, large: str) -> None:
    with proxied(os.environ["AWS_ENDPOINT_URL"]) as proxy:
        done = _ckpt("convert", large, f"{s3}/unsigned/c-1", AWS_ENDPOINT_URL=proxy.url)
        assert done.returncode == 0, done.stderr
    sent = [
        (each.target, each.body, each.headers["x-amz-content-sha256"]) for each in proxy.asked if each.body
    ]
    parts = [target for target, _, sha256 in sent if sha256 == "UNSIGNED-PAYLOAD" and "partNumber=" in target]
    assert len(parts) == 4
    (index,) = (each for each in sent if each[0].endswith("c-1.index"))
    assert index[2] == hashlib.sha256(index[1]).hexdigest()


TARGETS: dict[str, tuple[str, ...]] = {
    "c-1": (),
    "s-1": ("--shard-size", str(_PIECE)),
    "x.safetensors": (),
    "y.safetensors": ("--shard-size", str(_PIECE)),
    "z.npz": (),
    "v1": ("--to", "v1"),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("proof", ["sent"])
def test_there_and_back_is_the_same(target: str, proof: str, bucket: str, large: str, tmp_path: Path) -> None:
    there = f"{bucket}/{proof}/{target}"
    done = _ckpt("convert", large, there, *TARGETS[target], "--verify", proof, "--json")
    assert done.returncode == 0, done.stderr
    assert f'"verification": "{proof}"' in done.stdout
    assert _ckpt("convert", large, there, *TARGETS[target]).returncode == 3
    assert _ckpt("convert", large, there, *TARGETS[target], "--overwrite").returncode == 0
    assert _ckpt("verify", there).stdout.count("\n") == 1  # no surplus shards
    copy = f"{bucket}/{proof}/copy/{target}"
    assert _ckpt("convert", there, copy).returncode == 0
    back = str(tmp_path / "back-1")
    assert _ckpt("convert", copy, back, "--to", "tf-name").returncode == 0
    assert _ckpt("diff", "--exact", large, back).returncode == 0


def test_state_and_index_are_put_alone(bucket: str) -> None:
    run = f"{bucket}/run"
    assert _ckpt("convert", RUN, run, "--each", "--to", "name").returncode == 0
    assert _ckpt("state", "--set", "ckpt-8", run).returncode == 0
    assert '"latest": "ckpt-8"' in _ckpt("ls", "--json", run).stdout
    done = _ckpt("rename", "--in-place", f"{run}/ckpt-9", "--sub", "net=>model")
    assert done.returncode == 0, done.stderr
    assert "model/dense/kernel" in _ckpt("ls", "-1", f"{run}/ckpt-9").stdout


@pytest.mark.parametrize("seed", range(8))
def test_a_kill_at_any_time_leaves_the_old_or_the_new(seed: int, s3: str, large: str) -> None:
    target = f"{s3}/killed/{seed}/c-1"
    assert _ckpt("convert", OLD, target).returncode == 0
    old = _values(target)
    words = ("convert", large, target, "--shard-size", str(_PIECE), "--overwrite")
    began = time.monotonic()
    assert _ckpt(*words).returncode == 0
    took = time.monotonic() - began
    _ask_anew()
    new = _values(target)
    assert _ckpt("convert", OLD, target, "--overwrite").returncode == 0
    process = subprocess.Popen(
        [sys.executable, "-m", "ckpt_cli", *words], cwd=ROOT, stdout=subprocess.DEVNULL
    )
    time.sleep(took * (seed + 1) / 9)
    process.send_signal(signal.SIGKILL)
    process.wait()
    _ask_anew()
    assert _values(target) in (old, new)
    done = _ckpt(*words)  # the other's leftovers do not matter
    assert done.returncode == 0, done.stderr
    _ask_anew()
    assert _values(target) == new
    assert _ckpt("verify", target).stdout.count("\n") == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_nothing(number: int, s3: str, large: str) -> None:
    target = f"{s3}/ended/{number}/c-1"
    process = subprocess.Popen(
        [sys.executable, "-m", "ckpt_cli", "convert", large, target, "--shard-size", str(2 * _PIECE)],
        cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while not _uploads(f"ended/{number}/") and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(number)
    _, err = process.communicate()
    assert process.returncode == 128 + number, err
    assert not _uploads(f"ended/{number}/")
    assert _ckpt("ls", f"{s3}/ended/{number}").returncode in (1, 3)
    _ask_anew()
    with pytest.raises(formats.CheckpointNotFoundError):
        formats.open_checkpoint(target)


HANGS = {
    "each part": ("PUT .*partNumber=", "convert", "{large}", "{there}/c-1"),
    "the second part": ("PUT .*partNumber=2", "convert", "{large}", "{there}/c-1"),
    "parts of processes": (
        "PUT .*partNumber=1", "convert", "{large}", "{there}/c-1",
        "--executor", "processes:2", "--shard-size", str(2 * _PIECE),
    ),
    "the beginning": ("HEAD ", "convert", "{large}", "{there}/c-1"),
    "the lock": ("PUT .*ckpt.lock", "convert", "{large}", "{there}/c-1"),
    "a listing": ("GET .*list-type", "ls", "{source}"),
    "an index": ("GET .*[.]index", "ls", "{source}/c-1"),
    "data": ("GET .*[.]data-", "verify", "{source}/c-1"),
    "data of one thread": ("GET .*[.]data-", "verify", "{source}/c-1", "-j", "1"),
    "data of processes": ("GET .*[.]data-", "stats", "{source}/c-1", "--executor", "processes:2"),
}  # fmt: skip


@pytest.fixture(scope="module")
def source(s3: str, large: str) -> str:
    assert _ckpt("convert", large, f"{s3}/hanging/c-1").returncode == 0
    return f"{s3}/hanging"


def _ended(pattern: str, words: list[str], number: int) -> tuple[int, str, float]:
    """Return how a command ends by a signal when requests hang: its code, what it says, seconds."""
    with proxied(os.environ["AWS_ENDPOINT_URL"]) as proxy:
        hung = threading.Event()

        def hangs(asked: Asked) -> bool:
            is_met = re.match(pattern, f"{asked.method} {asked.target}") is not None
            if is_met:
                hung.set()
            return is_met

        proxy.hangs = hangs
        process = _begun(*words, AWS_ENDPOINT_URL=proxy.url)
        assert hung.wait(60)
        time.sleep(0.3)
        began = time.monotonic()
        process.send_signal(number)
        said = process.communicate(timeout=30)[1]
        return process.returncode, said.strip(), time.monotonic() - began


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("name", HANGS)
def test_a_signal_ends_what_waits_for_a_server(
    name: str, number: int, s3: str, source: str, large: str
) -> None:
    """Within a second, and nothing is left; a machine that is busy gets another second, and three tries."""
    pattern, *words = HANGS[name]
    for attempt in range(3):
        folder = f"hung/{number:d}/{name.replace(' ', '-')}/{attempt}"
        line = [word.format(large=large, there=f"{s3}/{folder}", source=source) for word in words]
        code, said, took = _ended(pattern, line, number)
        assert (code, took < 2) == (128 + number, True)
        if not said:
            break
        assert "warning: " in said, "what is left is named"
    assert not said
    assert not _uploads(folder)
    _ask_anew()
    with suppress(formats.CheckpointNotFoundError):
        assert not _names(f"{s3}/{folder}/c-1")


def test_an_index_that_may_appear_keeps_its_shards(s3: str, large: str) -> None:
    """The server has the index, and has not said so when the command ends."""
    target = f"{s3}/unanswered/c-1"
    with proxied(os.environ["AWS_ENDPOINT_URL"]) as proxy:
        put = threading.Event()

        def hangs(asked: Asked) -> bool:
            if asked.method == "PUT" and asked.target.endswith("c-1.index"):
                proxy.hand_on(asked)
                put.set()
            return put.is_set() and asked.target.endswith("c-1.index")

        proxy.hangs = hangs
        process = _begun("convert", large, target, AWS_ENDPOINT_URL=proxy.url)
        assert put.wait(60)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=30)[1]
    assert process.returncode == 130
    assert f"warning: {target}.index: the server did not confirm the upload" in said
    _ask_anew()
    assert _ckpt("verify", target).returncode == 0


def test_memory_does_not_grow_with_the_checkpoint(s3: str, tmp_path: Path) -> None:
    """Six parts of 8 MiB on their way, two that are filled and summed, and 100 MB for the program itself."""
    peaks = []
    for at, count in enumerate((2, 8)):
        prefix = str(tmp_path / f"c-{at}")
        write_bundle(prefix, {f"v{n}": np.full(32 << 20, n, np.uint8) for n in range(count)})
        done = subprocess.run(
            [sys.executable, "-c", _PEAK, "convert", prefix, f"{s3}/memory/c-{at}"],
            cwd=ROOT, capture_output=True, text=True, check=True,
        )  # fmt: skip
        peaks.append(int(done.stderr.split()[-2]) >> 10)
    assert peaks[1] <= 8 * 8 + 100
    assert peaks[1] <= peaks[0] + 24


_PEAK = """
import atexit, sys
def told():
    print(*[line for line in open("/proc/self/status") if line.startswith("VmHWM")], file=sys.stderr)
atexit.register(told)
from ckpt_cli.cli.main import main
main(sys.argv[1:])
"""

REFUSED: dict[str, tuple[Any, ...]] = {
    "wrong secret": ("s3://bucket/no/c-1", {"AWS_SECRET_ACCESS_KEY": "topsecretwrong"}),
    "unknown": ("s3://bucket/no/c-1", {"AWS_ACCESS_KEY_ID": "topsecretother"}),
    "nobody there": ("s3://bucket/no/c-1", {"AWS_ENDPOINT_URL": "http://topsecretuser:topsecretword@127.0.0.1:1"}),
    "no azure": ("az://container/c-1", {"AZURE_STORAGE_ACCOUNT_NAME": "a",
                 "AZURE_STORAGE_SAS_TOKEN": "sig=topsecretsas", "AZURE_STORAGE_ENDPOINT": "http://127.0.0.1:1"}),
}  # fmt: skip


@pytest.mark.parametrize("debug", ["", "1"])
@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("suffix", ["", ".safetensors", ".npz"])
def test_what_is_rejected_is_reported_without_secrets(name: str, suffix: str, debug: str, s3: str) -> None:
    target, environment = REFUSED[name]
    words = ("convert", NEW, target + suffix, "--weights-only", "-v")
    done = _ckpt(*words, CKPT_DEBUG=debug, CKPT_TIMEOUT="5", **environment)
    assert done.returncode == 3 or debug
    assert debug or done.stderr.count("ckpt: error: ") == 1


@pytest.mark.parametrize("name", ["c-1", "x.safetensors", "x.npz", "large-1"])
def test_a_bucket_that_is_missing_is_marked_as(name: str, az: str, large: str) -> None:
    assert az
    source = large if name.startswith("large") else NEW
    done = _ckpt("convert", source, f"az://nosuchcontainer/{name}", "--weights-only")
    assert done.returncode == 3
    assert "az://nosuchcontainer does not exist" in done.stderr


@pytest.mark.parametrize("bucket", ["s3://nosuchbucket", "az://nosuchcontainer"])
@pytest.mark.parametrize(
    "line", ["convert NEW {}/c-1 -n", "extract NEW net/l1/kernel -o {}/k.npy -n", "ls {}/run", "state {}/run"]
)
def test_a_missing_bucket_is_reported_where_nothing_is_put(bucket: str, line: str, s3: str, az: str) -> None:
    assert s3
    assert az
    done = _ckpt(*line.replace("NEW", NEW).format(bucket).split())
    assert done.returncode == 3
    assert f"{bucket} does not exist" in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("state", "{}/run"),
        ("state", "--set", "ckpt-9", "{}/run"),
        ("log", "{}/run"),
        ("ls", "--recursive", "{}/run"),
        ("convert", "{}/run", "{}/refused", "--each"),
        ("convert", NEW, "{}/refused/c-1", "--dry-run"),
        ("extract", NEW, "net/l1/kernel", "-o", "{}/refused/k.npy", "--dry-run"),
    ],
)
def test_a_rejected_request_is_reported(words: tuple[str, ...], s3: str) -> None:
    done = _ckpt(*(word.format(s3) for word in words), AWS_SECRET_ACCESS_KEY="topsecretwrong")
    assert done.returncode == 3
    assert "the server answered 403" in done.stderr


def test_a_server_that_is_busy_is_sent_to_again(google_server: Google, large: str, tmp_path: Path) -> None:
    asked: list[str] = []

    def busy(method: str, path: str, _: Mapping[str, str]) -> int | None:
        asked.append(path)
        return 503 if len(asked) % 4 == 0 else None

    google_server.fault = busy
    done = _ckpt("convert", large, "gs://bucket/busy/c-1", "--shard-size", str(_PIECE))
    google_server.fault = lambda *_: None
    assert done.returncode == 0, done.stderr
    assert not google_server.uploads
    assert _ckpt("diff", "--exact", large, "gs://bucket/busy/c-1").returncode == 0


@pytest.mark.parametrize("at", ["uploads", "partNumber=2", "uploadId", "c-1.index"])
def test_what_never_comes_through_leaves_nothing(at: str, google_server: Google, large: str) -> None:
    def refuse(method: str, path: str, _: Mapping[str, str]) -> int | None:
        is_met = at in unquote(path) and (method == "POST" if at == "uploadId" else method in ("PUT", "POST"))
        return 403 if is_met else None

    google_server.fault = refuse
    done = _ckpt("convert", large, "gs://bucket/refused/c-1", "--shard-size", str(2 * _PIECE))
    google_server.fault = lambda *_: None
    assert done.returncode == 3
    assert "the server answered 403" in done.stderr
    assert not google_server.uploads
    assert not [path for path in google_server.objects if "/refused/" in path]


def test_a_server_without_conditions_is_written_to(google_server: Google) -> None:
    def refuse(method: str, path: str, headers: Mapping[str, str]) -> int | None:
        return 501 if any(name.lower() == "x-goog-if-generation-match" for name in headers) else None

    google_server.fault = refuse
    done = [
        _ckpt("convert", source, "gs://bucket/plain/c-1", "-q", *more)
        for source, more in ((OLD, ()), (OLD, ()), (NEW, ("--overwrite",)))
    ]
    google_server.fault = lambda *_: None
    assert [each.returncode for each in done] == [0, 3, 0]
    warned = [
        each.stderr.count("warning: gs://bucket: this server ignores conditional requests") for each in done
    ]
    assert warned == [1, 0, 1]
    assert not [path for path in google_server.objects if path.endswith("ckpt.lock")]
    assert _ckpt("diff", "--exact", NEW, "gs://bucket/plain/c-1").returncode == 0


def test_a_small_checkpoint_takes_few_requests(s3: str) -> None:
    """A listing, a HEAD of the index, PUT of the shard, a listing, PUT of the index, and a listing.

    The lock object takes six more: PUT, a second PUT, which fails, a HEAD of the index, then HEAD, PUT and
    DELETE of the lock object.
    """
    target = f"{s3}/few/c-1"
    assert _servers(_ckpt("convert", NEW, target, "-v").stderr) == 12
    # Once more, with a shard that is empty, for the names of one are taken, and the old shard deleted.
    assert _servers(_ckpt("convert", NEW, target, "-v", "--overwrite").stderr) == 14


def _servers(said: str) -> int:
    (line,) = [line for line in said.splitlines() if line.startswith("servers: ")]
    found = re.search(r" in (\d+) requests", line)
    assert found is not None
    return int(found[1])


PAGES = {
    "checkpoint": (NEW,),
    "run": (RUN,),
    "two": (OLD, NEW),
}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_put_whole(name: str, bucket: str, tmp_path: Path) -> None:
    here = tmp_path / "page.html"
    again = {"SOURCE_DATE_EPOCH": "1700000000"}  # a page says when it was made
    assert _ckpt("report", *PAGES[name], "-o", str(here), **again).returncode == 0
    there = f"{bucket}/pages/{name}.html"
    for more, code in (((), 0), ((), 3), (("--overwrite",), 0)):
        done = _ckpt("report", *PAGES[name], "-o", there, *more, **again)
        assert done.returncode == code, done.stderr
    assert "already exists" in _ckpt("report", *PAGES[name], "-o", there).stderr
    _ask_anew()
    with parse_location(there).open() as file:
        assert file.read_exactly(0, file.size) == here.read_bytes()


# Two at once ---------------------------------------------------------------------------


def _begun(*words: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "ckpt_cli", *words], cwd=ROOT, env={**os.environ, **environment},
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.mark.parametrize("more", [(), ("--overwrite",), ("--resume",)])
def test_of_two_that_write_one_checkpoint_at_once_one_is_reported_for_the_other(
    more: tuple[str, ...], bucket: str, large: str
) -> None:
    for number in range(3):
        target = f"{bucket}/race{''.join(more)}/{number}/c-1"
        words = ("convert", large, target, "--shard-size", str(_PIECE), *more)
        both = [_begun(*words) for _ in range(2)]
        said = [each.communicate(timeout=120)[1] for each in both]
        codes = sorted(each.returncode for each in both)
        assert codes == [0, 3] or (codes == [0, 0] and more), said
        _ask_anew()
        assert _ckpt("verify", target).returncode == 0
        assert _ckpt("diff", "--exact", large, target).returncode == 0
        assert "ckpt.lock" not in "".join(_names(target))
        errors = [line for text in said for line in text.splitlines() if "error: " in line]
        expected = (
            "is writing this checkpoint",
            "another program created this path in the meantime, written by process",
            "already exists",
        )
        assert all(any(each in line for each in expected) for line in errors)


def _names(target: str) -> list[str]:
    """Return the names of all objects in the folder of a target, and below it."""
    folder = target.rpartition("/")[0]
    found = []
    for name, is_folder in parse_location(folder).names():
        found += _names(f"{folder}/{name}/x") if is_folder else [f"{folder}/{name}"]
    return found


_ENDPOINTS = {"s3": "AWS_ENDPOINT_URL", "az": "AZURE_STORAGE_ENDPOINT", "gs": "STORAGE_EMULATOR_HOST"}


def test_the_lock_of_a_killed_command_is_taken_over(bucket: str, large: str) -> None:
    target = f"{bucket}/left/c-1"
    words = ("convert", large, target, "--shard-size", str(_PIECE))
    name = _ENDPOINTS[target.partition(":")[0]]
    with proxied(os.environ[name]) as proxy:
        proxy.delay = 0.3
        process = _begun(*words, **{name: proxy.url + urlsplit(os.environ[name]).path})
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            _ask_anew()
            with suppress(formats.CheckpointNotFoundError):
                if any(".data-" in name for name in _names(target)):
                    break
        process.kill()
        process.communicate()
    _ask_anew()
    (lock,) = (name for name in _names(target) if name.endswith("ckpt.lock"))
    # As if that process had been one of another machine.
    store = parse_location(lock).object_store
    found = store.get(lock, 4096)
    assert found is not None
    said = json.loads(found[0]) | {"machine": "another", "host": "other"}
    store.put(lock, json.dumps(said).encode(), ANYTHING)
    began = time.monotonic()
    rivals = [_begun(*words, "--overwrite", CKPT_LOCK_TIMEOUT="8") for _ in range(3)]
    told = [each.communicate(timeout=120)[1] for each in rivals]
    assert time.monotonic() - began > 8, told
    codes = {each.returncode for each in rivals}
    assert 0 in codes, told
    assert codes <= {0, 3}, told
    assert sum("waiting up to 8 s" in text for text in told) == len(rivals)
    _ask_anew()
    assert _ckpt("diff", "--exact", large, target).returncode == 0
    assert not any(name.endswith("ckpt.lock") for name in _names(target))


def test_a_run_in_a_bucket_is_followed(bucket: str) -> None:
    """A checkpoint is a line once its index is there; Ctrl-C ends the wait with 130 and no message."""
    run = f"{bucket}/followed"
    assert _ckpt("convert", OLD, f"{run}/ckpt-9").returncode == 0
    words = [sys.executable, "-m", "ckpt_cli", "log", run, "--follow", "--interval", "0.2", "--json"]
    follower = subprocess.Popen(
        words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ)
    )
    try:
        assert follower.stdout is not None
        names = [json.loads(follower.stdout.readline())["checkpoints"][0]["name"]]
        assert _ckpt("convert", NEW, f"{run}/ckpt-10").returncode == 0
        names.append(json.loads(follower.stdout.readline())["checkpoints"][0]["name"])
        follower.send_signal(signal.SIGINT)
        rest, said = follower.communicate(timeout=60)
    finally:
        follower.kill()
    assert names == ["ckpt-9", "ckpt-10"]
    assert (follower.returncode, rest) == (130, "")
    assert "Traceback" not in said
    assert "error" not in said
