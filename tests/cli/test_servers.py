"""Commands on a web server: the number of requests, and the parts of a URL that stay secret."""

from __future__ import annotations

import itertools
import os
import re
import shlex
import shutil
import threading
import traceback
from typing import TYPE_CHECKING

import numpy as np
import pytest

from formats import CheckpointError, TensorSpec, create_checkpoint
from formats.core.dtypes import BY_NAME
from formats.location import parse_location
from formats.model.checkpoint_files import hub_shard, lone_shards, v1_shards
from formats.store import content_cache
from formats.store.remote import http, transport
from formats.store.remote import hub as hub_store
from tests.servers.hub import Hub, serving_hub
from tests.servers.web import Handler, Web, serving
from tests.support import data_path, numbers, write_bundle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.cli.conftest import Result

KEYS = 400


@pytest.fixture(autouse=True)
def anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "pause", lambda _: None)
    content_cache._kept.files.clear()
    for store in http.STORES:
        store.forget()


@pytest.fixture(scope="module")
def laid_out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run of two checkpoints of 401 tensors, one of them 6 MB large."""
    directory = tmp_path_factory.mktemp("laid") / "run"
    directory.mkdir()
    for step in range(2):
        tensors = {f"layer_{number:04d}/kernel": np.full(8, number, np.float32) for number in range(KEYS)}
        large = np.arange(1_500_000, dtype=np.float32)
        write_bundle(str(directory / f"ckpt-{step}"), {**tensors, "large": large})
    (directory / "checkpoint").write_text('model_checkpoint_path: "ckpt-1"\n')
    return directory


@pytest.fixture(scope="module")
def served(laid_out: Path) -> dict[str, bytes]:
    """Return what each server of these tests has: the run, and files of other formats."""
    found = Web()
    for directory in (str(laid_out), *map(data_path, ("hf", "interop", "keras_mlp", "keras3_rnn"))):
        found.put_tree(directory)
    return found.files


@pytest.fixture
def web(served: dict[str, bytes]) -> Iterator[Web]:
    found = Web()
    found.files.update(served)
    with serving(found):
        yield found


LINES = {
    "ls URL/run/ckpt-1.index": (1, 1, 0),
    "ls URL/run/ckpt-1": (1, 1, 0),
    "ls -l URL/run/ckpt-1": (2, 2, 0),
    "ls --json URL/run/ckpt-1": (1, 1, 0),
    "show URL/run/ckpt-1": (3, 1, 0),
    "show URL/run/ckpt-1 layer_0007/kernel": (2, 2, 1 << 16),
    "show URL/run/ckpt-1 large": (2, 2, 6_000_000),
    "diff URL/run/ckpt-0 URL/run/ckpt-1": (2, 2, 0),
    "diff URL/run/ckpt-0 URL/run/ckpt-1 --exact -j1": (4, 6, 12_025_600),
    "match URL/run/ckpt-0 URL/run/ckpt-1": (2, 2, 0),
    "verify URL/run/ckpt-1 -j1": (2, 2, 6_012_800),
    "stats URL/run/ckpt-1 -j1": (2, 3, 6_012_800),
    "ls URL/interop/weights.safetensors": (2, 1, None),
    "ls URL/interop/weights.npz": (2, 1, None),
    "ls URL/keras_mlp/mlp.with_optimizer.h5": (2, 1, None),
    "verify URL/keras_mlp/mlp.with_optimizer.h5": (2, 1, None),
    "ls URL/keras3_rnn/rnn.keras": (2, 1, None),
    "verify URL/keras3_rnn/rnn.keras": (2, 1, None),
    "ls URL/hf/model.safetensors.index.json": (5, 4, None),
    "verify URL/hf/model.safetensors.index.json": (5, 4, None),
}
"""Lines: how many HEADs and GETs each takes, and how many bytes of data shards."""


@pytest.mark.parametrize("line", LINES)
def test_a_line_takes_few_requests(line: str, web: Web, ckpt: Callable[..., Result]) -> None:
    heads, gets, nbytes = LINES[line]
    done = ckpt(*line.replace("URL", web.url).split(), "-v")
    assert done.code in (0, 1), done.err
    assert (len(web.asked("HEAD")), len(web.asked("GET"))) == (heads, gets), web.asked()
    told = re.search(r"servers: ([\d,]+) bytes from \d+ files? in (\d+) requests\n", done.err)
    assert told is not None
    assert (int(told[1].replace(",", "")), int(told[2])) == (web.sent, len(web.requests))
    if nbytes is not None:
        assert sum(each.sent for each in web.requests if ".data-" in each.path) == nbytes


@pytest.mark.parametrize(
    ("body", "message", "hint"),
    [
        (b"<!DOCTYPE html><html>Sign in</html>", "an HTML page, not", "use the URL of the file itself"),
        (
            b"version https://git-lfs.github.com/spec/v1\n",
            "a Git LFS pointer, not",
            "use the file's own URL: hf://ORG/REPO/PATH on the Hub",
        ),
    ],
)
def test_what_a_server_has_in_place_of_a_file_is_reported(
    body: bytes, message: str, hint: str, web: Web, ckpt: Callable[..., Result]
) -> None:
    """The hint fits a URL: nothing was downloaded that could be downloaded again."""
    web.files["/page.h5"] = body
    done = ckpt("ls", f"{web.url}/page.h5")
    assert (done.code, done.out) == (3, "")
    error, advice = done.err.splitlines()
    assert message in error
    assert advice.startswith("hint: ")
    assert hint in advice
    assert "download" not in advice


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("s3:/bucket/run", "did you mean s3://bucket/run?"),
        ("S3:bucket/run", "did you mean s3://bucket/run?"),
        ("http//host/run", "did you mean http://host/run?"),
        ("file:/run/ckpt-1", "did you mean file:///run/ckpt-1?"),
        (
            "htp://host/run",
            "use a URL that begins with abfs://, az://, file://, gcs://, gs://, hf://, http",
        ),
        ("http://user:a/b@host/run", "write @ in a path as %40, and / in a password as %2F"),
        ("nosuch:run/ckpt-1", "git finds no revision 'nosuch' here"),
    ],
)
def test_a_url_that_is_nearly_one_is_taken_for_one(
    typed: str, hint: str, ckpt: Callable[..., Result]
) -> None:
    """A URL without a slash or a colon was reported as no revision of a git repository."""
    done = ckpt("ls", typed)
    assert (done.code, done.out) == (3, "")
    assert f"hint: {hint}" in done.err


@pytest.mark.parametrize("typed", ["http:/", "http:", "https//"])
@pytest.mark.parametrize("line", ["ls {}", "verify --json {}", "convert {} to-1", "convert hf {}"])
def test_what_is_secret_in_nearly_a_url_is_not_printed(
    typed: str, line: str, ckpt: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was a path of this machine, and printed as such."""
    monkeypatch.chdir(tmp_path)
    done = ckpt(*line.format(f"{typed}user:topsecret@host/run?sig=topsecret").split())
    assert (done.code, done.out) == (3, "")
    assert f"{typed}***" in done.err
    assert "topsecret" not in done.err
    (tmp_path / typed.partition("/")[0]).mkdir(exist_ok=True)  # an existing directory of that name is meant
    assert "did you mean" not in ckpt("ls", f"{typed}/run").err


def test_shards_are_requested_by_the_count_that_is_known(
    web: Web, tmp_path: Path, ckpt: Callable[..., Result]
) -> None:
    """More than would be guessed: the index says how many there are, or the name of one of them."""
    tensors = {f"k{shard}": numbers(np.full(8, shard, np.float32), shard=shard) for shard in range(12)}
    write_bundle(str(tmp_path / "many-1"), tensors, num_shards=12)
    other = set(web.files)
    for name in os.listdir(tmp_path):
        web.files[f"/{name}"] = (tmp_path / name).read_bytes()
    assert len(ckpt("show", "--json", f"{web.url}/many-1").json["files"]) == 13
    done = ckpt("verify", "--json", f"{web.url}/many-1")
    assert (done.code, done.json["results"][0]["findings"]) == (0, [])
    assert {path for _, path in web.asked()} == {"/many-1.meta", *web.files} - other
    shard = "/many-1.data-00009-of-00012"
    del web.files[shard]
    for store in http.STORES:
        store.forget()
    done = ckpt("verify", "--json", f"{web.url}/many-1")
    assert done.code == 1
    assert {(each["code"], each["file"]) for each in done.json["results"][0]["findings"]} == {
        ("shard-missing", web.url + shard)
    }


def test_shards_without_an_index_are_requested_by_their_name(web: Web) -> None:
    for shard in range(12):
        web.files[f"/v1-{shard:05d}-of-00012"] = web.files[f"/m-{shard + 1:05d}-of-00012.safetensors"] = b""
    assert len(v1_shards(parse_location(f"{web.url}/v1-00003-of-00012"))) == 12
    shard = parse_location(f"{web.url}/m-00003-of-00012.safetensors")
    assert len(lone_shards(shard, hub_shard(shard))) == 12
    assert v1_shards(parse_location(f"{web.url}/v1")) == []
    assert v1_shards(parse_location(f"{web.url}/v1-00000-of-00002")) == []


def test_verbose_shows_files_requests_and_bytes(web: Web, ckpt: Callable[..., Result]) -> None:
    done = ckpt("ls", "-v", f"{web.url}/run/ckpt-1.index")
    size = len(web.files["/run/ckpt-1.index"])
    assert f"read {web.url}/run/ckpt-1.index: {size:,} bytes in 2 requests\n" in done.err
    told = re.search(r"servers: ([\d,]+) bytes from 1 file in (\d+) requests\n", done.err)
    assert told is not None
    assert int(told[1].replace(",", "")) == web.sent == size
    assert int(told[2]) == len(web.requests)


def test_a_run_is_read_where_the_server_lists(web: Web, laid_out: Path, ckpt: Callable[..., Result]) -> None:
    web.lists = True
    there, here = ckpt("ls", "--json", f"{web.url}/run"), ckpt("ls", "--json", str(laid_out))
    assert [each["name"] for each in there.json["checkpoints"]] == ["ckpt-0", "ckpt-1"]
    assert there.json["latest"] == here.json["latest"] == "ckpt-1"
    assert ckpt("diff", f"{web.url}/run", str(laid_out)).code == 0
    for command in ("log", "stats", "verify"):
        assert ckpt(command, f"{web.url}/run").code == 0


def test_a_folder_that_is_not_listed_says_so(web: Web, ckpt: Callable[..., Result]) -> None:
    done = ckpt("ls", f"{web.url}/run")
    assert done.code == 3
    assert "/run: this URL cannot be listed: the server does not answer with JSON" in done.err
    assert "hint: name a checkpoint or a file in it" in done.err
    done = ckpt("ls", f"{web.url}/run/ckpt-7")
    assert done.code == 3
    assert "/run/ckpt-7: no such file, prefix or directory" in done.err


def test_a_state_file_leads_to_the_latest_where_nothing_is_listed(
    web: Web, ckpt: Callable[..., Result]
) -> None:
    done = ckpt("ls", "--json", f"{web.url}/run/checkpoint")
    assert done.code == 0, done.err
    assert done.json["path"] == f"{web.url}/run/ckpt-1"
    assert not any(path.endswith("/") for _, path in web.asked())


@pytest.mark.parametrize("lists", [True, False])
@pytest.mark.parametrize(
    "name", ["checkpoint", "model.ckpt-1-?????-of-00002", "model.ckpt-1-%3F%3F%3F%3F%3F-of-00002"]
)
def test_a_sharded_v1_checkpoint_is_found_by_its_pattern(
    name: str, lists: bool, web: Web, ckpt: Callable[..., Result]
) -> None:
    """The state file has the pattern, and it is what is printed; `?` begins no query in it."""
    web.lists = lists
    folder = f"{web.put_tree(data_path('v1_format'))}/sharded"
    pattern = "model.ckpt-1-?????-of-00002"
    done = ckpt("ls", "--json", f"{folder}/{name}")
    assert done.code == 0, done.err
    assert done.json["path"] == f"{folder}/{pattern}"
    done = ckpt("ls", "--json", f"{folder}/{name}?token=secret")
    assert "secret" not in done.out + done.err
    if lists:
        listed = ckpt("ls", "--json", folder).json
        assert (listed["latest"], listed["checkpoints"][0]["kept"]) == (pattern, True)


def test_a_run_on_a_web_server_has_its_state_shown_and_not_changed(
    web: Web, laid_out: Path, ckpt: Callable[..., Result]
) -> None:
    web.lists = True
    there, here = ckpt("state", f"{web.url}/run"), ckpt("state", laid_out)
    assert (there.code, there.out) == (here.code, here.out) == (0, here.out)
    assert there.err == f"note: {web.url}/run: 1 checkpoint is not listed\n"
    assert "to fix this: ckpt state --fix" in here.err
    assert ckpt("state", f"{web.url}/run/checkpoint").out == here.out
    for wish in (["--fix"], ["--set", "ckpt-0"], ["--keep", "1"], ["--fix", "-n"]):
        done = ckpt("state", *wish, f"{web.url}/run")
        assert (done.code, done.out) == (3, "")
        assert "/run: http:// can be read, but not written\n" in done.err


def test_a_checkpoint_of_another_folder_is_listed_and_none_that_was_forgotten(
    web: Web, ckpt: Callable[..., Result]
) -> None:
    """By its URL, because it is outside the run; `state --fix` would have listed it a second time."""
    web.lists = True
    for name in ("ckpt-1.index", "ckpt-1.data-00000-of-00001"):
        web.files[f"/other/{name}"] = web.files[f"/run/{name}"]
        del web.files[f"/run/{name}"]
    web.files["/run/checkpoint"] = b'model_checkpoint_path: "../other/ckpt-1"\n'
    done = ckpt("state", f"{web.url}/run")
    assert [row[:2] for row in done.rows] == [
        ["latest", f"{web.url}/other/ckpt-1"],
        ["unlisted", "ckpt-0"],
    ]


def test_a_shard_that_a_server_refuses_is_not_missing(web: Web, ckpt: Callable[..., Result]) -> None:
    """It may exist: the checkpoint is not readable with these credentials, and not damaged."""
    web.fault = lambda handler, _: ".data-" in handler.place and (handler.say(403) or True)
    done = ckpt("verify", "--json", f"{web.url}/run/ckpt-1")
    assert done.code == 1
    findings = done.json["results"][0]["findings"]
    assert [(each["code"], each["message"]) for each in findings] == [
        ("unreadable", "the server answered 403 Forbidden")
    ]
    assert "missing" not in done.err
    done = ckpt("show", "--json", f"{web.url}/run/ckpt-1")
    assert "missing" not in done.err
    assert "403 Forbidden" in ckpt("stats", f"{web.url}/run/ckpt-1").err


def test_maps_and_templates_are_read_from_servers(
    web: Web, laid_out: Path, tmp_path: Path, ckpt: Callable[..., Result]
) -> None:
    web.files["/map.tsv"] = b"large\tsmall\n"
    done = ckpt("rename", f"{web.url}/run/ckpt-1", tmp_path / "a-1", "--map", f"{web.url}/map.tsv")
    assert done.code == 0, done.err
    done = ckpt(
        "convert",
        tmp_path / "a-1",
        tmp_path / "b-1",
        "--like",
        f"{web.url}/run/ckpt-0",
        "--sub",
        "small=>large",
    )
    assert done.code == 0, done.err
    assert ckpt("diff", tmp_path / "b-1", laid_out / "ckpt-1").code == 0


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, laid_out: Path) -> Iterator[Hub]:
    hub_store.STORES[0].forget()
    found = Hub()
    found.token = "hf_tokensecret"
    monkeypatch.setenv("HF_TOKEN", found.token)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    for path in laid_out.iterdir():
        found.files[f"run/{path.name}"] = path.read_bytes()
    with serving_hub(found):
        monkeypatch.setenv("HF_ENDPOINT", found.web.url)
        yield found


def test_a_run_on_the_hub_is_listed_by_few_requests(
    hub: Hub, laid_out: Path, ckpt: Callable[..., Result]
) -> None:
    done = ckpt("ls", "--json", "hf://org/repo/run")
    assert done.code == 0, done.err
    assert [each["name"] for each in done.json["checkpoints"]] == ["ckpt-0", "ckpt-1"]
    assert [each["modified"] for each in done.json["checkpoints"]] == [None, None]
    assert sum("/tree/" in path for _, path in hub.web.asked()) <= 2
    assert ckpt("diff", "hf://org/repo/run", str(laid_out)).code == 0
    assert ckpt("verify", "hf://org/repo/run/ckpt-0").code == 0


@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize("fault", ["", "token", "signature", "redirect"])
def test_nothing_that_is_printed_holds_a_token_or_a_signature(
    fault: str, debug: bool, hub: Hub, ckpt: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    if debug:
        monkeypatch.setenv("CKPT_DEBUG", "1")
    if fault == "token":
        hub.token = "hf_another"
    elif fault == "signature":
        hub.storage.fault = lambda handler, _: handler.say(403) or True
    elif fault == "redirect":
        hub.redirect = "ftp://host/x?signedsecret"
    for line in ("ls -v -l --json {}", "verify --json {}", "show -v {} large"):
        try:
            done = ckpt(*line.format("hf://org/repo/run/ckpt-1").split())
            assert (done.code == 0) == (not fault)
            texts = [done.out, done.err]
        except CheckpointError as error:
            assert debug
            texts = traceback.format_exception(error)
        for text in texts:
            assert "signedsecret" not in text
            assert "hf_tokensecret" not in text


def test_what_is_missing_on_the_hub_is_reported(hub: Hub, ckpt: Callable[..., Result]) -> None:
    for url, message in {
        "hf://org/repo@nosuch/run/ckpt-1": "the repository has no such revision",
        "hf://org/repo@nosuch": "the repository has no such revision",
        "hf://org/other/run": "the Hub has no such repository, or it is private",
        "hf://org/repo/nosuch/ckpt-1": "no such file, prefix or directory",
    }.items():
        for command in ("ls", "show", "verify"):
            done = ckpt(command, url)
            assert (done.code, done.err.split("\n")[0]) == (3, f"ckpt: error: {url}: {message}")


def test_targets_that_are_not_written_need_no_request(
    hub: Hub, web: Web, ckpt: Callable[..., Result]
) -> None:
    for url in ("hf://org/repo/run/ckpt-1", f"{web.url}/run/ckpt-1"):
        done = ckpt("rename", "--in-place", url, "--sub", "large=>small")
        assert done.code == 3
        assert "can be read, but not written" in done.err
    assert not web.requests
    assert not hub.web.requests


def test_paths_and_keys_of_servers_are_completed(
    hub: Hub, web: Web, offered: Callable[..., list[str]]
) -> None:
    assert offered("ls", "hf://org/repo/r") == ["hf://org/repo/run"]
    assert offered("ls", "hf://org/repo/run/ck") == ["hf://org/repo/run/ckpt-0", "hf://org/repo/run/ckpt-1"]
    assert offered("show", "hf://org/repo/run/ckpt-1", "lar") == ["large"]
    assert offered("show", f"{web.url}/run/ckpt-1", "lar") == ["large"]
    assert offered("ls", f"{web.url}/run/ck") == []


def test_names_of_a_server_are_completed_by_what_proves_the_caller(
    web: Web, offered: Callable[..., list[str]]
) -> None:
    """Paths were completed without it, and a folder was requested with two slashes."""
    web.lists = True
    web.fault = lambda handler, _: "Authorization" not in handler.headers and (handler.say(401) or True)
    folder = f"{web.url}/run/".replace("://", "://user:secret@")
    assert offered("ls", f"{folder}ck") == [f"{folder}ckpt-0", f"{folder}ckpt-1"]
    assert all("//" not in path for _, path in web.asked())


@pytest.mark.parametrize(
    ("typed", "name"), [("a#b", "a%23b"), ("50%", "50%25"), ("a b?", "a%20b%3F"), ("ä", "%C3%A4")]
)
def test_names_are_completed_as_a_url_has_them(
    typed: str, name: str, web: Web, offered: Callable[..., list[str]], ckpt: Callable[..., Result]
) -> None:
    web.lists = True
    for suffix in (".index", ".data-00000-of-00001"):
        web.files[f"/odd/{typed}{suffix}"] = web.files[f"/run/ckpt-1{suffix}"]
    web.files["/odd/a folder/x"] = b""
    there = f"{web.url}/odd"
    assert offered("ls", f"{there}/") == sorted([f"{there}/{name}", f"{there}/a%20folder"])
    assert offered("ls", f"{there}/{name[:-1]}") == [f"{there}/{name}"]
    assert ckpt("ls", f"{there}/{name}").code == 0


@pytest.mark.parametrize("url", ["hf://", "hf://org", "s3://a b/", "ftp://host/x", "http://[/x", "https:///"])
def test_nothing_is_completed_of_what_is_none(url: str, hub: Hub, offered: Callable[..., list[str]]) -> None:
    assert offered("ls", url) == []
    assert offered("show", url, "x") == []


def test_completion_waits_for_no_server(
    web: Web, offered: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    from ckpt_cli.cli import completion

    monkeypatch.setattr(completion, "_PATIENCE", 0.01)
    ended = threading.Event()
    web.fault = lambda *_: not ended.wait(60)
    assert offered("show", f"{web.url}/run/ckpt-1", "lar") == []
    ended.set()


def _cut(handler: Handler, data: bytes) -> None:
    begin, end = (int(each) for each in handler.headers["Range"].removeprefix("bytes=").split("-"))
    told = {**handler.headers_of(data), "Content-Range": f"bytes {begin}-{end}/{len(data)}"}
    handler.say(206, data[begin : begin + (end - begin) // 2], told, end - begin + 1)
    handler.close_connection = True


def _shorten(handler: Handler, data: bytes) -> None:
    begin, end = (int(each) for each in handler.headers["Range"].removeprefix("bytes=").split("-"))
    end = begin + (end - begin) // 2
    told = {**handler.headers_of(data), "Content-Range": f"bytes {begin}-{end}/{len(data)}"}
    handler.say(206, data[begin : end + 1], told)


def _say_of(handler: Handler, data: bytes, told: dict[str, str] = {}) -> None:  # noqa: B006  never changed
    begin, end = (int(each) for each in handler.headers["Range"].removeprefix("bytes=").split("-"))
    ranged = {**handler.headers_of(data[:-1]), "Content-Range": f"bytes {begin}-{end}/{len(data)}", **told}
    handler.say(206, data[begin : end + 1], ranged)


def _hang_up(handler: Handler, _: bytes) -> None:
    handler.close_connection = True


def _change(handler: Handler, _: bytes) -> None:
    handler.web.files[handler.place] += b"!"
    handler.answer(handler.web.files[handler.place])


PASSING: dict[str, Callable[[Handler, bytes], None]] = {
    "cut": _cut,
    "short": _shorten,
    "hung up": _hang_up,
    "busy": lambda handler, _: handler.say(429, b"", {"Retry-After": "1"}),
    "failing": lambda handler, _: handler.say(500),
    "gone for a moment": lambda handler, _: handler.say(503),
}
_TWO_TONGUES = "the server answers HEAD and GET differently"

LASTING: dict[str, tuple[Callable[[Handler, bytes], None], str]] = {
    "hung up": (_hang_up, "the connection was cut (5 attempts)"),
    "failing": (lambda handler, _: handler.say(500), "500 Internal Server Error (5 attempts)"),
    "forbidden": (lambda handler, _: handler.say(403), "the server answered 403 Forbidden"),
    "changing": (_change, "this file changed since it was opened"),
    "gone": (lambda handler, _: handler.say(404), _TWO_TONGUES),
    "of another size": (lambda handler, data: _say_of(handler, data + b"!"), _TWO_TONGUES),
    "of another time": (lambda handler, data: _say_of(handler, data, {"ETag": '"another"'}), _TWO_TONGUES),
    "compressed": (
        lambda handler, data: handler.say(206, data, {"Content-Encoding": "br"}),
        "sends the file with content encoding",
    ),
}
READING = (
    "ls -l URL/run/ckpt-1",
    "stats URL/run/ckpt-1",
    "show URL/run/ckpt-1 large",
    "verify URL/run/ckpt-1",
    "stats URL/interop/weights.npz",
    "stats URL/keras_mlp/mlp.with_optimizer.h5",
    "verify URL/keras3_rnn/rnn.keras",
    "stats URL/hf/model.safetensors.index.json",
)


@pytest.mark.parametrize("fault", PASSING)
@pytest.mark.parametrize("line", READING)
def test_what_passes_changes_no_answer(line: str, fault: str, web: Web, ckpt: Callable[..., Result]) -> None:
    words = line.replace("URL", web.url).split()
    sound = ckpt(*words)
    assert sound.code == 0, sound.err
    for store in http.STORES:
        store.forget()
    content_cache._kept.files.clear()
    lock, count = threading.Lock(), [0]

    def every_other(handler: Handler, data: bytes | None) -> bool:
        with lock:
            count[0] += data is not None and handler.command == "GET"
            is_hit = data is not None and handler.command == "GET" and count[0] % 2 == 1
        if is_hit and data is not None:
            PASSING[fault](handler, data)
        return is_hit

    web.fault = every_other
    assert ckpt(*words) == sound
    assert count[0] > 1


@pytest.mark.parametrize("fault", LASTING)
@pytest.mark.parametrize("line", READING)
def test_what_lasts_is_one_clear_line(line: str, fault: str, web: Web, ckpt: Callable[..., Result]) -> None:
    does, message = LASTING[fault]

    def always(handler: Handler, data: bytes | None) -> bool:
        is_hit = data is not None and handler.command == "GET"
        if is_hit and data is not None:
            does(handler, data)
        return is_hit

    web.fault = always
    done = ckpt(*line.replace("URL", web.url).split())
    assert done.code in (1, 3)
    assert message in done.out + done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize("line", READING)
def test_a_server_without_ranges_gives_the_same_answers(
    line: str, web: Web, ckpt: Callable[..., Result]
) -> None:
    words = line.replace("URL", web.url).split()
    sound = ckpt(*words)
    for store in http.STORES:
        store.forget()
    content_cache._kept.files.clear()
    web.knows_ranges = False
    assert ckpt(*words) == sound


SECRETS = ("topsecretuser", "topsecretword", "topsecretsignature", "dG9wc2VjcmV0")
"""The secrets in URLs, and their forms in a header."""

SAYING = (
    "ls URL/run/ckpt-1.index?QUERY",
    "ls -v URL/run/ckpt-1?QUERY",
    "ls --json -l URL/run/ckpt-1?QUERY",
    "ls URL/run?QUERY",
    "ls URL/run/nothing?QUERY",
    "ls URL/broken.h5?QUERY",
    "ls URL/moved?QUERY",
    "ls URL/busy?QUERY",
    "show --json URL/run/ckpt-1?QUERY",
    "show URL/run/ckpt-1?QUERY nothing",
    "verify --json URL/run/ckpt-1?QUERY",
    "verify URL/broken.h5?QUERY",
    "diff --json URL/run/ckpt-0?QUERY URL/run/ckpt-1?QUERY",
    "convert URL/run/ckpt-1?QUERY URL/run/new?QUERY",
    "convert --json -n URL/run/ckpt-1?QUERY x-1",
    "convert URL/failing/ckpt-1?QUERY kept-1",
    "average URL/run/ckpt-0?QUERY URL/run/ckpt-1?QUERY -o mean-1",
    "average -v URL/run/ckpt-0?QUERY URL/failing/ckpt-1?QUERY -o mean-1",
    "extract -v URL/run/ckpt-1?QUERY large -o large.npy",
    "extract --json URL/failing/ckpt-1?QUERY -o kept.npz",
    "rename --json URL/run/ckpt-1?QUERY r-1 --sub large=>small",
    "rescue URL/failing/ckpt-1?QUERY saved-1",
    "stats -v --json URL/run/ckpt-1?QUERY large",
    "log -v URL/run?QUERY",
    "convert URL/run/ckpt-1?QUERY l-1 --like URL/run/ckpt-0?QUERY --map URL/run/nothing?QUERY",
    "convert URL/run/ckpt-1?QUERY x.h5 --config URL/run/checkpoint?QUERY",
    "explain URL/run/x?QUERY",
    "state URL/run?QUERY",
    "demo URL/run?QUERY",
    "graph URL/run/ckpt-1?QUERY",
    "match URL/run/ckpt-0?QUERY URL/run/ckpt-1?QUERY --save-map URL/x?QUERY",
    "ls ftp://USER@host/run/x?QUERY",
    "ls http://USER@/run/x?QUERY",
    "ls http://USER@[/run/x?QUERY",
    "ls http://USER@127.0.0.1:1/run/x?QUERY",
)


@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize("line", SAYING)
def test_nothing_that_is_printed_holds_a_secret(
    line: str,
    debug: bool,
    web: Web,
    ckpt: Callable[..., Result],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    if debug:
        monkeypatch.setenv("CKPT_DEBUG", "1")
    monkeypatch.chdir(tmp_path)
    web.files["/broken.h5"] = b"\x89HDF\r\n\x1a\n" + bytes(100)

    for suffix in (".index", ".data-00000-of-00001"):
        web.files[f"/failing/ckpt-1{suffix}"] = web.files[f"/run/ckpt-1{suffix}"]
    count = [0]

    def fault(handler: object, data: bytes | None) -> bool:
        place = handler.place  # type: ignore[attr-defined]
        if place == "/moved":
            handler.say(302, b"", {"Location": "ftp://host/x?topsecretsignature"})  # type: ignore[attr-defined]
        if place == "/busy":
            handler.say(503)  # type: ignore[attr-defined]
        if place.startswith("/failing/ckpt-1.data"):  # when some of it has come
            count[0] += handler.command == "GET"  # type: ignore[attr-defined]
            if count[0] > 2:
                handler.say(403)  # type: ignore[attr-defined]
                return True
        return place in ("/moved", "/busy")

    web.fault = fault
    url = web.url.replace("http://", "http://USER@")
    words = line.replace("URL", url).replace("USER", "topsecretuser:topsecretword")
    words = words.replace("QUERY", "sig=topsecretsignature")
    try:
        done = ckpt(*words.split())
        texts = [done.out, done.err]
        assert done.code in (0, 1, 2, 3)
    except CheckpointError as error:
        assert debug
        texts = traceback.format_exception(error)
    for text in (
        *texts,
        *(path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file()),
    ):
        assert not any(secret in text for secret in SECRETS)


@pytest.mark.parametrize("end", ["", "?sig=topsecretsignature"])
def test_a_url_is_not_named_without_what_was_cut_out_of_it(
    end: str, web: Web, ckpt: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The command to resume was one that the server rejects."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(http, "_secrets", {})
    count = itertools.count()
    web.fault = lambda handler, _: ".data-" in handler.path and next(count) > 1 and (handler.say(403) or True)
    words = ("convert", f"{web.url}/run/ckpt-1.index{end}", "kept-1", "--resume", "--jobs=1")
    done = ckpt(*words)
    assert done.code == 3
    *_, about, last = done.err.splitlines()
    shown = words[1] if not end else words[1].replace("://", "://***@").removesuffix(end)
    assert last == f"hint: to resume: ckpt convert {shlex.quote(shown)} kept-1 --resume --jobs=1"
    assert ("replace *** with the hidden part of the URL" in about) is bool(end)
    web.fault = lambda _, __: False
    assert "were already written" in ckpt(*words).err


NEW = data_path("guide_adam_legacy/tf_ckpts/ckpt-10")
NAMED = (
    "ls URL",
    "ls -v --json URL",
    "show URL",
    "stats URL",
    "diff {new} URL",
    "extract {new} -o URL",
    "rename {new} URL --sub net=>n",
    "rename --in-place URL --sub net=>n",
    "rename {new} new-1 --map URL",
    "convert {new} URL",
    "convert --json -n {new} URL",
    "convert {new} new-1 --like URL",
    "convert {new} new-1 --like {new} --save-map URL",
    "convert {new} new.h5 --config URL",
    "average {new} -o URL",
    "average URL -o new-1",
    "verify {new} --outputs-like URL",
    "match {new} URL",
    "graph {new} -o URL",
    "log URL",
    "state URL",
    "state --set ckpt-9 URL",
    "rescue {new} URL",
    "demo URL",
)
"""Lines that name a URL in every place where one can be named."""

UNFIT = {
    "s3 query": "s3://bucket/x?X-Amz-Signature=topsecretsignature",
    "gs query": "gs://bucket/x/?a=1&X-Goog-Signature=topsecretsignature",
    "az query": "abfs://container/x.h5?sv=1&sig=topsecretsignature",
    "hub query": "hf://org/repo/x?Signature=topsecretsignature",
    "bucket": "s3://topsecretuser:topsecretword@bucket/x",
    "bucket, slash": "s3://topsecretuser:a/topsecretword@bucket/x",
    "bucket, question": "s3://topsecretuser:a?topsecretword@bucket/x",
    "slash": "https://topsecretuser:a/topsecretword@host.org/x",
    "number": "https://topsecretuser:12/topsecretword@host.org/x",
    "token": "https://topsecretuser/topsecretword@host.org/x",
    "hash": "https://topsecretuser:1#topsecretword@host.org/x",
    "port": "https://topsecretuser:topsecretword@host.org:99999/x?sig=topsecretsignature",
    "unknown": "ftp://topsecretuser:a/topsecretword@host.org/x?sig=topsecretsignature",
    "file": "file://topsecretuser:a/topsecretword@host.org/x",
}


@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize("url", UNFIT)
def test_what_is_not_a_url_is_rejected_without_its_secrets(
    url: str, debug: bool, ckpt: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    if debug:
        monkeypatch.setenv("CKPT_DEBUG", "1")
    for line in NAMED:
        words = line.replace("URL", UNFIT[url]).format(new=NEW).split()
        try:
            done = ckpt(*words)
            texts = [done.out, done.err]
            assert (done.code, done.err.count("ckpt: error: ")) == (3, 1), line
        except CheckpointError as error:
            assert debug
            texts = traceback.format_exception(error)
        for text in texts:
            assert not any(secret in text for secret in SECRETS), line
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("url", UNFIT)
def test_completion_says_nothing_of_what_is_not_a_url(url: str, offered: Callable[..., list[str]]) -> None:
    assert offered("ls", UNFIT[url]) == []
    assert offered("show", UNFIT[url], "x") == []


@pytest.fixture
def model(hub: Hub, tmp_path: Path) -> Path:
    """Return a folder as it was downloaded: sharded safetensors, with other files."""
    folder = tmp_path / "model"
    shutil.copytree(data_path("hf"), folder)
    (folder / "sub").mkdir()
    (folder / "sub" / "vocab.txt").write_bytes(b"a\nb\n")
    for path in folder.rglob("*"):
        if path.is_file():
            hub.files[str(path.relative_to(folder))] = path.read_bytes()
    hub.files["README.md"] = b"read me"
    hub.files["onnx/model.onnx"] = b"another export"
    (folder / "mine.txt").write_bytes(b"notes")
    return folder


def test_local_files_have_the_sums_of_the_hub(hub: Hub, model: Path, ckpt: Callable[..., Result]) -> None:
    hub.web.asked().clear()
    done = ckpt("verify", model, "--against", "hf://org/repo")
    assert (done.code, len(done.rows)) == (0, 1), done
    assert "files are the same as in hf://org/repo" in done.err
    assert "were not compared: README.md (only in hf://org/repo)" in done.err
    assert "mine.txt" in done.err
    assert not any("resolve" in path for _, path in hub.web.asked())
    assert hub.storage.asked() == []
    assert hub.token not in done.out + done.err


@pytest.mark.parametrize("name", ["sub/vocab.txt", "model.safetensors.index.json", "shard"])
@pytest.mark.parametrize("change", ["content", "size", "there"])
def test_a_file_with_another_sum_is_named(
    name: str, change: str, hub: Hub, model: Path, ckpt: Callable[..., Result]
) -> None:
    if name == "shard":
        name = min(path.name for path in model.glob("*.safetensors"))
    data = hub.files[name]
    if change == "there":
        del hub.files[name]
    else:
        hub.files[name] = data[:-1] + (b"" if change == "size" else bytes([data[-1] ^ 1]))
    done = ckpt("verify", model, "--against", "hf://org/repo", "--json")
    findings = done.json["results"][0]["findings"]
    if name == "sub/vocab.txt" and change == "there":
        assert (done.code, findings) == (0, [])  # no file of the checkpoint, and the Hub does not have it
        return
    (finding,) = findings
    assert (done.code, finding["code"], finding["file"]) == (1, "contract", str(model / name))
    words = {
        "content": "content differs",
        "size": "bytes, but hf://org/repo has",
        "there": "hf://org/repo does not have this file",
    }
    assert words[change] in finding["message"]


def test_a_shard_that_the_index_names_is_missing(hub: Hub, model: Path, ckpt: Callable[..., Result]) -> None:
    name = min(path.name for path in model.glob("*.safetensors"))
    (model / name).unlink()
    done = ckpt("verify", model, "--against", "hf://org/repo", "--json")
    (finding,) = [one for one in done.json["results"][0]["findings"] if one["code"] == "contract"]
    assert (done.code, finding["file"]) == (1, str(model / name))
    assert finding["message"] == "this file is missing, but hf://org/repo has it"


def test_a_saved_model_is_compared_with_a_revision(
    hub: Hub, tmp_path: Path, ckpt: Callable[..., Result]
) -> None:
    folder = tmp_path / "saved"
    shutil.copytree(data_path("saved_model", "keras_model"), folder)
    hub.revision, hub.files = "refs%2Fpr%2F1", {}
    for path in folder.rglob("*"):
        if path.is_file():
            hub.files[str(path.relative_to(folder))] = path.read_bytes()
    url = "hf://org/repo@refs%2Fpr%2F1"
    for path in (folder, folder / "variables" / "variables"):
        done = ckpt("verify", path, "--against", url)
        assert (done.code, f"{len(hub.files)} files are the same as in {url}" in done.err) == (0, True), done
    hub.files["saved_model.pb"] += b" "
    hub_store.STORES[0].forget()
    done = ckpt("verify", folder, "--against", url, "--json")
    (finding,) = done.json["results"][0]["findings"]
    assert (done.code, finding["file"]) == (1, str(folder / "saved_model.pb"))
    assert ckpt("verify", folder, "--against", "hf://org/repo@v1").code == 3


def test_a_repository_that_is_missing_is_an_error(hub: Hub, model: Path, ckpt: Callable[..., Result]) -> None:
    done = ckpt("verify", model, "--against", "hf://org/other")
    assert (done.code, done.out) == (3, "")
    assert done.err.startswith("ckpt: error: hf://org/other: ")


def test_copies_on_the_hub_are_compared_by_their_sums(
    hub: Hub, model: Path, ckpt: Callable[..., Result]
) -> None:
    values = np.arange(1 << 20, dtype=np.float32)
    spec = TensorSpec("w", BY_NAME["float32"], values.shape)
    with create_checkpoint(str(model / "large.safetensors"), format="safetensors", specs=[spec]) as writer:
        writer.write("w", values)
    large = (model / "large.safetensors").read_bytes()
    hub.files |= {"a/m.safetensors": large, "b/m.safetensors": large, "c/m.safetensors": large[:-1] + b"!"}
    done = ckpt("diff", "hf://org/repo/a/m.safetensors", "hf://org/repo/b/m.safetensors", "-v")
    assert (done.code, done.out) == (0, "")
    sent = int(re.findall(r"([\d,]+) bytes", done.err.splitlines()[-1])[0].replace(",", ""))
    assert sent < len(large) / 4, done.err
    other = ckpt("diff", "hf://org/repo/a/m.safetensors", "hf://org/repo/c/m.safetensors")
    assert (other.code, other.rows[0][0]) == (1, "value")


def test_verify_on_the_hub_checks_the_sums_of_what_it_reads(
    hub: Hub, model: Path, ckpt: Callable[..., Result]
) -> None:
    shards = sorted(path.name for path in model.glob("*.safetensors"))
    done = ckpt("verify", "hf://org/repo", "-v")
    assert (done.code, len(done.rows)) == (0, 1), done
    (note,) = [line for line in done.err.splitlines() if "checksums that the Hub lists" in line]
    assert "git blob of model.safetensors.index.json" in note
    assert f"{len(shards) + 1} files have" in note
    assert shards[0] in note
    assert "stores no checksums" not in done.err
    assert hub.token not in done.out + done.err


@pytest.mark.parametrize("name", ["m.safetensors", "m.npz", "m.h5", "m-1.index"])
def test_what_comes_from_the_hub_with_another_sum_is_named(
    name: str, hub: Hub, tmp_path: Path, ckpt: Callable[..., Result]
) -> None:
    values = np.arange(1 << 20, dtype=np.float32)
    spec = TensorSpec("w", BY_NAME["float32"], values.shape)
    formats = {"m.npz": "npz", "m.h5": "hdf5", "m-1.index": "tf-name"}
    target = tmp_path / name.removesuffix(".index")
    with create_checkpoint(str(target), format=formats.get(name, "safetensors"), specs=[spec]) as writer:
        writer.write("w", values)
    hub.files.update({path.name: path.read_bytes() for path in tmp_path.glob("m*") if path.is_file()})
    sound = ckpt("verify", f"hf://org/repo/{name}", "-v")
    assert (sound.code, "the checksums that the Hub lists" in sound.err) == (0, True), sound
    sent = int(re.findall(r"([\d,]+) bytes", sound.err.splitlines()[-1])[0].replace(",", ""))
    # They are downloaded once, except by the child process of verify.
    assert sent < (2.1 if name in {"m.h5", "m.npz"} else 1.1) * values.nbytes, sound.err
    if name != "m.safetensors":
        return
    hub_store.STORES[0].forget()
    serve = hub.storage.fault

    def spoil(handler: Handler, data: bytes | None) -> bool:
        hub.storage.files = {
            path: data[:-1] + bytes([data[-1] ^ 1]) for path, data in hub.storage.files.items()
        }
        hub.storage.fault = serve
        return serve(handler, data)

    hub.storage.fault = spoil
    done = ckpt("verify", f"hf://org/repo/{name}", "--json")
    (finding,) = done.json["results"][0]["findings"]
    assert (done.code, finding["code"], finding["file"]) == (1, "contract", f"hf://org/repo/{name}")
    assert finding["message"].startswith("content differs: sha256 ")
    assert hub.token not in done.out + done.err
    assert "signedsecret" not in done.out + done.err
