"""Buckets of servers that speak as Amazon's, Google's and Azure's do: every format, every fixture once."""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import formats
from formats import CheckpointError
from formats.location import reachable
from formats.store.remote import bucket_objects
from formats.store.remote.server import ServerFile
from tests.cli.anywhere import forget
from tests.cli.conftest import ROOT
from tests.formats.contract import ReaderContract
from tests.formats.test_contract import GOLDENS
from tests.servers.programs import SECRET
from tests.support import FORMAT_IDS, data_path, manifest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from formats.model.reader import FormatReader
    from formats.store.base import Entry
    from tests.cli.conftest import Result

pytestmark = pytest.mark.servers


class _InBucket(ReaderContract):
    @pytest.fixture(params=GOLDENS, ids=" ".join)
    def golden(self, request: pytest.FixtureRequest) -> tuple[str, str]:
        return request.param

    def open_files(self, reader: FormatReader) -> set[str]:
        files = [each for each in gc.get_objects() if isinstance(each, ServerFile)]
        return set(reader.files()) & {each.path for each in files if not each.closed}


class TestReadersOverS3(_InBucket):
    @pytest.fixture
    def path(self, golden: tuple[str, str], s3: str) -> str:
        return f"{s3}/{golden[1]}"


class TestReadersOverGoogle(_InBucket):
    @pytest.fixture
    def path(self, golden: tuple[str, str], gs: str) -> str:
        return f"{gs}/{golden[1]}"


class TestReadersOverAzure(_InBucket):
    @pytest.fixture
    def path(self, golden: tuple[str, str], az: str) -> str:
        return f"{az}/{golden[1]}"


RECORDED = [entry for entry in manifest()["checkpoints"] if entry["format"] in FORMAT_IDS]


@pytest.mark.parametrize("entry", RECORDED, ids=[entry["path"] for entry in RECORDED])
def test_every_fixture_is_read_as_from_a_disk(entry: dict[str, Any], s3: str) -> None:
    path = entry["path"]
    with formats.open_checkpoint(f"{s3}/{path}") as there, formats.open_checkpoint(data_path(path)) as here:
        assert there.format is here.format
        assert dict(there.specs) == dict(here.specs)
        for key in here:
            assert _values(there, key) == _values(here, key)


def _values(reader: FormatReader, key: str) -> object:
    """Return what can be compared of a tensor: its values, or why there are none."""
    try:
        array = reader[key].read()
    except CheckpointError as error:
        return type(error), error.message
    return array.dtype, array.shape, array.tolist() if array.dtype == object else array.tobytes()


def _ckpt(*args: str, **environment: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "ckpt_cli", *args], cwd=ROOT, capture_output=True, text=True, check=False,
        env={**os.environ, **environment},
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


SMALL = "s3://bucket/guide_adam_legacy/tf_ckpts"

REQUESTS = {
    "ls s3://bucket/run/ckpt-1": (2, 1, 0),
    "ls s3://bucket/run": (3, 1, 0),
    "ls s3://bucket/hf": (6, 4, 0),
    "show s3://bucket/run/ckpt-1": (2, 1, 0),
    "show s3://bucket/run/ckpt-1 layer_7/kernel": (3, 2, 1),
    "diff s3://bucket/run/ckpt-1 s3://bucket/run/ckpt-1": (2, 1, 0),
    "match s3://bucket/run/ckpt-1 s3://bucket/run/ckpt-1": (2, 1, 0),
    "stats s3://bucket/run/ckpt-1 layer_7/kernel": (3, 2, 1),
    "verify s3://bucket/run/ckpt-1": (12, 2, 40),
    "verify s3://bucket/keras_mlp/mlp.with_optimizer.h5": (4, 1, 0),
    "extract s3://bucket/run/ckpt-1 layer_7/kernel -o k.npy": (3, 2, 1),
    "convert s3://bucket/run/ckpt-1 c-1": (26, 2, 40),
    "average s3://bucket/run/ckpt-1 s3://bucket/run/ckpt-1 -o a-1": (26, 2, 40),
    "rename s3://bucket/run/ckpt-1 r-1 --sub layer=>block": (12, 2, 40),
    "rescue s3://bucket/run/ckpt-1 s-1": (20, 2, 40),
    f"graph {SMALL}/ckpt-10": (3, 2, 0),
    f"log {SMALL}": (9, 7, 0),
    f"state {SMALL}": (6, 4, 0),
    f"convert {SMALL}/ckpt-10 s3://bucket/counted/c-1": (20, 2, 0),
}
"""Lines: how many requests they take at most, of how many files; how many tensors of 1.2 MB are fetched.

The two threads of `convert` and `average` share one stream of reads, so they make 19 to 22 requests.
With one thread it is 14 and 15; one request for each tensor would be 42.
"""

TENSOR = 1_200_000


def _counted() -> list[Entry]:
    """Return what is where a line has written."""
    store = next(each for each in bucket_objects.STORES if each.scheme == "s3")
    names = store.list("s3://bucket/counted")
    found = [store.stat(f"s3://bucket/counted/{each.name}") for each in names]
    return [each for each in found if each is not None]


@pytest.mark.parametrize("line", REQUESTS)
def test_a_line_takes_few_requests(
    line: str, s3: str, ckpt: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    forget(bucket_objects.STORES)
    done = ckpt(*line.split(), "-v")
    assert done.code == 0, done.err
    told = re.search(r"servers: ([\d,]+) bytes from (\d+) files? in (\d+) requests", done.err)
    assert told is not None
    if " s3://bucket/counted" in line:
        sent = re.search(r"requests, ([\d,]+) bytes sent", done.err)
        assert sent is not None
        objects = sum(each.size for each in _counted())
        assert objects < int(sent[1].replace(",", "")) < objects + 2_000, "the lock is sent three times"
    requests, files, tensors = REQUESTS[line]
    found = int(told[1].replace(",", ""))
    assert (int(told[3]), int(told[2])) <= (requests, files)
    assert tensors * TENSOR <= found <= tensors * TENSOR + (200 << 10)


WRONG = {"AWS_SECRET_ACCESS_KEY": "topsecretwrong"}
SESSION = {"AWS_SESSION_TOKEN": "topsecrettoken"}

SAYING = (
    ("ls -v s3://bucket/run/ckpt-1", {}),
    ("ls s3://bucket/run/nothing", {}),
    ("ls s3://nosuchbucket/x", {}),
    ("ls s3://bucket/run/ckpt-1", WRONG),
    ("ls s3://bucket/run/ckpt-1", {"AWS_ACCESS_KEY_ID": "topsecretother"}),
    ("verify --json s3://bucket/run/ckpt-1", SESSION),
    ("stats -v --json s3://bucket/run/ckpt-1", SESSION),
    ("diff -v s3://bucket/run/ckpt-1 s3://bucket/run/nothing", WRONG),
    ("show --json s3://bucket/run/ckpt-1 layer_7/kernel", {"AWS_PROFILE": "topsecretprofile"}),
    ("convert --json s3://bucket/run/ckpt-1 s3://bucket/new -n", WRONG),
    ("state s3://bucket/run", WRONG),
    ("convert -v s3://bucket/run/ckpt-1 s3://bucket/new/c-1 --overwrite", SESSION),
    ("convert s3://bucket/run/ckpt-1 s3://bucket/new/c-1 --like s3://bucket/run/no", SESSION),
    ("rename s3://bucket/run/ckpt-1 x-1 --map s3://bucket/run/ckpt-1.index", SESSION),
    ("extract s3://bucket/run/ckpt-1 layer_7/kernel -o s3://bucket/new/k.npy", WRONG),
    ("average s3://bucket/run/ckpt-1 -o s3://bucket/new/a-1", {"AWS_ENDPOINT_URL": "http://topsecretuser:a/topsecret@127.0.0.1"}),
    ("ls s3://bucket/run", {"AWS_ENDPOINT_URL": "http://topsecretuser:topsecretword@127.0.0.1:99999"}),
    ("ls s3://bucket/run", {"http_proxy": "http://topsecretuser:topsecretword@127.0.0.1:1"}),
    ("ls s3://bucket/run/ckpt-1", {"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}),
    ("ls s3://bucket/run/ckpt-1", {"AWS_ENDPOINT_URL": "http://topsecretuser:topsecretword@127.0.0.1:1"}),
    ("ls s3://bucket/run/ckpt-1", {"AWS_ALLOW_HTTP": "false"}),
    ("ls s3://topsecretuser:topsecretword@bucket/run", {}),
    ("ls gs://bucket/x", {"GOOGLE_SERVICE_ACCOUNT_KEY": '{"private_key": "topsecretkey"}'}),
    ("ls az://bucket/x", {"AZURE_STORAGE_ACCOUNT_NAME": "a", "AZURE_STORAGE_SAS_TOKEN": "sig=topsecretsas",
                          "AZURE_STORAGE_ENDPOINT": "http://127.0.0.1:1"}),
)  # fmt: skip


@pytest.mark.parametrize("debug", ["", "1"])
@pytest.mark.parametrize("at", range(len(SAYING)))
def test_nothing_that_is_printed_holds_a_secret(at: int, debug: str, s3: str) -> None:
    line, environment = SAYING[at]
    code, out, err = _ckpt(*line.split(), CKPT_DEBUG=debug, **environment)
    assert code in (0, 3) or debug
    assert "topsecret" not in out + err
    assert "panicked" not in err
    if not debug:
        assert "Traceback" not in err


def test_a_public_bucket_is_read_by_who_has_no_key(
    s3: str, ckpt: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a bucket that may not be listed, checkpoints have names, and a folder is not reported as missing."""
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    forget(bucket_objects.STORES)
    assert ckpt("verify", f"{s3}/run/ckpt-1").code == 0
    done = ckpt("ls", f"{s3}/run")
    assert done.code == 3
    assert "may exist, but the server answered 403, AccessDenied" in done.err
    forget(bucket_objects.STORES)


def test_completion_prints_no_secret(s3: str) -> None:
    for secret in ("topsecretwrong", SECRET):
        code, out, err = _ckpt(
            COMP_WORDS="ckpt\nls\ns3://bucket/run/",
            _CKPT_COMPLETE="zsh_complete",
            AWS_SECRET_ACCESS_KEY=secret,
        )
        assert (code, err) == (0, "")
        assert ("ckpt-1" in out) == (secret == SECRET)


def test_an_object_that_changes_is_an_error(s3: str) -> None:
    import obstore
    from obstore.store import S3Store

    client = S3Store("bucket", client_options={"allow_http": True})
    obstore.put(client, "changing/x", b"0" * 200_000)
    store = next(each for each in bucket_objects.STORES if each.scheme == "s3")
    with store.open("s3://bucket/changing/x") as file:
        assert file.read(0, 3) == b"000"
        obstore.put(client, "changing/x", b"1" * 200_000)
        with pytest.raises(formats.CheckpointError, match="this file changed since it was opened"):
            file.read(150_000, 3)
    with store.open("s3://bucket/changing/x") as file:
        assert file.read(150_000, 3) == b"111"


def test_odd_keys_are_names(s3: str) -> None:
    import obstore
    from obstore.store import S3Store

    client = S3Store("bucket", client_options={"allow_http": True})
    names = ["a b", "a%20b", "a?b#c", "ä", "a+b&c=d", "[x]*"]
    for name in names:
        obstore.put(client, f"odd/{name}/v", name.encode())
    store = next(each for each in bucket_objects.STORES if each.scheme == "s3")
    with reachable(store):
        assert [name for name, _ in store.list("s3://bucket/odd")] == sorted(names)
        for name in names:
            path = store.join(store.join("s3://bucket/odd", name), "v")
            with store.open(path) as file:
                assert file.read(0, 99).decode() == name
