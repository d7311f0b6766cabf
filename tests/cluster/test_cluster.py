"""Processes of dask.distributed share the work; any may be killed, or have other files."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

from formats.core.version import VERSION
from tests.cluster.programs import ENVIRONMENT, OLDER, ROOT, SLOWLY, Cluster, cluster, wait_for
from tests.executing import GOLDENS, LINES, came_of, lay_out
from tests.servers.programs import KEY, SECRET, seaweed
from tests.servers.web import certified
from tests.support import shard_path, write_bundle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = [pytest.mark.cluster, pytest.mark.filterwarnings("default")]

MIB = 1 << 20


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Return a cluster of two workers that are not killed."""
    with cluster(tmp_path_factory.mktemp("two")) as found:
        for _ in range(2):
            found.worker()
        yield found


@pytest.fixture(scope="module")
def laid_out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("laid")
    lay_out(directory)
    return directory


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a bundle of forty tasks."""
    prefix = str(tmp_path_factory.mktemp("large") / "a-1")
    generator = np.random.default_rng(0)
    tensors = {
        f"layer_{n:02}/kernel": generator.standard_normal(16 * MIB // 4 + n).astype(np.float32)
        for n in range(20)
    }
    write_bundle(prefix, tensors)
    return prefix


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[Cluster]:
    """Return a cluster of two workers that take their time, so that they can be killed at their work."""
    with cluster(tmp_path / "slow") as found:
        for _ in range(2):
            found.worker(None, SLOWLY)
        yield found


def same_bytes(prefix: str, other: Path) -> bool:
    with open(shard_path(prefix), "rb") as one, open(shard_path(str(other)), "rb") as two:
        return one.read() == two.read()


def staged(directory: Path) -> int:
    """Return how many bytes of what is being written have been written."""
    found = directory.glob("*_temp_*/shard-*")
    return sum(path.stat().st_blocks * 512 for path in found)


# What comes of it ------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*GOLDENS, "mixed"])
def test_the_result_does_not_depend_on_who_works(
    name: str, laid_out: Path, two: Cluster, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of each command that shares its work, and of each format."""
    monkeypatch.chdir(laid_out)
    for command in LINES:
        alone = came_of(ckpt, laid_out, name, command, "-j", "1")
        assert came_of(ckpt, laid_out, name, command, "--executor", two.executor) == alone, command


def test_a_cluster_of_its_own(large: str, tmp_path: Path, ckpt: Callable) -> None:
    done = ckpt("convert", large, tmp_path / "b-1", "--executor", "dask", "-v")
    assert done.code == 0, done.err
    assert "sent to workers: 39 tasks, " in done.err
    assert same_bytes(large, tmp_path / "b-1")
    assert sorted(os.listdir(tmp_path)) == ["b-1.data-00000-of-00001", "b-1.index"]


# Who sees what ---------------------------------------------------------------------------

HERE = "/proc/self/cwd/run/a-1"
"""A path that is another for every process, as a directory is that hosts mount from elsewhere, or do not."""


@pytest.mark.parametrize("other", ["the same files", "nothing", "a copy"])
def test_hosts_that_see_other_things_under_a_path(other: str, tmp_path: Path) -> None:
    """Two workers; one sees other files, as a worker on another host does."""
    one, two = tmp_path / "one", tmp_path / "two"
    for directory in (one, two):
        directory.mkdir()
    (one / "run").mkdir()
    write_bundle(str(one / "run/a-1"), {"a": np.arange(5 * MIB, dtype=np.float32)})
    if other == "the same files":
        os.symlink(one / "run", two / "run")
    elif other == "a copy":
        shutil.copytree(one / "run", two / "run")
    with cluster(tmp_path / "cluster") as found:
        found.worker(two)
        done = found.run("convert", HERE, "/proc/self/cwd/run/b-1", cwd=one)
    if other == "the same files":
        assert done.code == 0, done.err
        assert same_bytes(str(one / "run/a-1"), one / "run/b-1")
        return
    assert (done.code, done.out) == (3, "")
    says = (
        "cannot see it: no such file"
        if other == "nothing"
        else "this file changed since it was opened: the worker on"
    )
    assert says in done.err
    assert f"{HERE}.data-00000-of-00001: " in done.err
    assert "hint: " in done.err
    assert sorted(os.listdir(one / "run")) == ["a-1.data-00000-of-00001", "a-1.index"]


def test_a_worker_that_cannot_see_where_to_write(large: str, tmp_path: Path) -> None:
    """Nothing is made where it would look for it."""
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    (two / "run").mkdir(parents=True)
    (one / "run").mkdir()
    with cluster(tmp_path / "cluster") as found:
        found.worker(two)
        done = found.run("convert", large, "/proc/self/cwd/run/b-1", cwd=one)
    assert (done.code, done.out) == (3, "")
    assert "cannot see it: no such file" in done.err
    assert os.listdir(one / "run") == os.listdir(two / "run") == []


def test_a_worker_of_another_version(large: str, tmp_path: Path) -> None:
    with cluster(tmp_path / "cluster") as found:
        found.worker(None, OLDER)
        done = found.run("verify", large)
    assert (done.code, done.out) == (3, "")
    assert f"has ckpt 0.0.9; expected {VERSION}\n" in done.err


def test_no_worker_there(large: str, tmp_path: Path, ckpt: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CKPT_TIMEOUT", "1")
    done = ckpt("verify", large, "--executor", "dask://127.0.0.1:9")
    assert (done.code, done.out) == (3, "")
    assert "dask://127.0.0.1:9: no scheduler answers at this address" in done.err
    with socket.create_server(("127.0.0.1", 0)) as silent:
        name = f"dask://127.0.0.1:{silent.getsockname()[1]}"
        done = ckpt("verify", large, "--executor", name)
    assert (done.code, done.out) == (3, "")
    assert f"{name}: no scheduler answers at this address" in done.err
    with cluster(tmp_path / "cluster") as found:
        done = ckpt("verify", large, "--executor", found.executor)
    assert (done.code, done.out) == (3, "")
    assert "the scheduler has no worker after 1 s" in done.err


def test_a_cluster_with_certificates(large: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dask's own configuration says which; without it the scheduler does not answer."""
    certified("127.0.0.1", tmp_path)
    words = {"REQUIRE_ENCRYPTION": "true", "TLS__CA_FILE": str(tmp_path / "cert.pem")}
    for role in ("SCHEDULER", "WORKER", "CLIENT"):
        words |= {f"TLS__{role}__{what.upper()}": str(tmp_path / f"{what}.pem") for what in ("cert", "key")}
    with monkeypatch.context() as patch:
        for name, value in words.items():
            patch.setenv(f"DASK_DISTRIBUTED__COMM__{name}", value)
        found = Cluster(tmp_path)
        try:
            found.worker()
            assert found.address.startswith("tls://")
            done = found.run("convert", large, tmp_path / "b-1")
            assert done.code == 0, done.err
            assert same_bytes(large, tmp_path / "b-1")
            patch.undo()
            done = found.run("verify", large, CKPT_TIMEOUT="2")
            assert (done.code, done.out) == (3, "")
            assert "no scheduler answers at this address" in done.err
            assert "TLS" in done.err
        finally:
            found.close()


# Who is killed ---------------------------------------------------------------------------


def begun(large: str, out: Path, found: Cluster, seed: int = 0) -> subprocess.Popen[str]:
    """Return a conversion that has written for some time, which a seed decides."""
    out.mkdir()
    process = found.begin("convert", large, out / "b-1")
    enough = random.Random(seed).randrange(1, 250) * MIB
    wait_for(lambda: staged(out) > enough or process.poll() is not None, "what is written")
    return process


def test_a_worker_is_killed(large: str, slow: Cluster, tmp_path: Path) -> None:
    process = begun(large, tmp_path / "out", slow)
    slow.processes[1].send_signal(signal.SIGKILL)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert err.startswith(f"wrote {tmp_path / 'out/b-1'} (tf-name, 20 tensors, ")
    assert len(err.splitlines()) == 1
    assert same_bytes(large, tmp_path / "out/b-1")


def test_all_workers_are_killed_and_one_comes(large: str, slow: Cluster, tmp_path: Path) -> None:
    process = begun(large, tmp_path / "out", slow)
    for worker in slow.processes[1:3]:
        worker.send_signal(signal.SIGKILL)
    slow.worker()
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert same_bytes(large, tmp_path / "out/b-1")


def test_the_scheduler_is_killed(large: str, slow: Cluster, tmp_path: Path) -> None:
    process = begun(large, tmp_path / "out", slow)
    slow.scheduler.send_signal(signal.SIGKILL)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (3, "")
    line, hint = err.splitlines()
    assert line == f"ckpt: error: {slow.executor}: the scheduler has ended, or can no longer be reached"
    assert hint == "hint: read the scheduler's output to see why"
    assert os.listdir(tmp_path / "out") == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_is_interrupted(number: int, large: str, slow: Cluster, tmp_path: Path) -> None:
    process = begun(large, tmp_path / "out", slow)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err.strip()) == (128 + number, "", "")
    assert os.listdir(tmp_path / "out") == []
    done = slow.run("verify", large)
    assert done.code == 0, "the cluster is as it was"


@pytest.mark.parametrize("seed", range(3))
def test_the_command_is_killed(seed: int, large: str, slow: Cluster, tmp_path: Path, ckpt: Callable) -> None:
    process = begun(large, tmp_path / "out", slow, seed)
    process.kill()
    process.communicate()
    done = slow.run("convert", large, tmp_path / "out" / "b-1")
    assert done.code == 0, done.err
    assert same_bytes(large, tmp_path / "out/b-1")
    assert any("_temp_" in name for name in os.listdir(tmp_path / "out"))
    assert ckpt("state", tmp_path / "out", "--fix").code == 0
    assert not any("_temp_" in name for name in os.listdir(tmp_path / "out"))


def test_a_killed_command_continues(large: str, slow: Cluster, tmp_path: Path) -> None:
    """With --resume, for which workers look at the existing files."""
    (tmp_path / "out").mkdir()
    line = ("convert", large, tmp_path / "out/b-1", "--resume")
    process = slow.begin(*line)
    wait_for(lambda: staged(tmp_path / "out") > 150 * MIB or process.poll() is not None, "what is written")
    process.kill()
    process.communicate()
    done = slow.run(*line)
    assert done.code == 0, done.err
    assert same_bytes(large, tmp_path / "out/b-1")
    assert sorted(os.listdir(tmp_path / "out")) == ["b-1.data-00000-of-00001", "b-1.index"]


def test_a_worker_without_ckpt(large: str, tmp_path: Path) -> None:
    nothing = tmp_path / "ckpt_cli.py"  # found before the ckpt of the environment
    nothing.write_text("raise ImportError('there is none')\n")
    with cluster(tmp_path / "cluster") as found:
        found.worker(None, PYTHONPATH=str(tmp_path), PYTHONSAFEPATH="1")
        done = found.run("verify", large)
        assert (done.code, done.out) == (3, "")
        assert f" has no ckpt (there is none); expected {VERSION}\n" in done.err
        assert found.processes[1].poll() is None, "it goes on for others"


def test_workers_next_to_a_formats_of_the_users(large: str, tmp_path: Path) -> None:
    """On a running scheduler, and on a cluster of the command's own; a worker that has imported it is
    rejected.
    """
    (tmp_path / "formats.py").write_text("VERSION = 'of the user'\n")
    (tmp_path / "greedy.py").write_text("import formats\n\ndef dask_setup(_):\n    pass\n")
    beside = {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    with cluster(tmp_path / "cluster") as found:
        found.worker(**beside)
        done = found.run("convert", large, tmp_path / "b-1", **beside)
        assert done.code == 0, done.err
        assert same_bytes(large, tmp_path / "b-1")
    command = [sys.executable, "-m", "ckpt_cli", "verify", large, "--executor", "dask", "-v"]
    environment = {**os.environ, **ENVIRONMENT, **beside}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "sent to workers: " in done.stderr
    with cluster(tmp_path / "greedy") as found:
        found.worker(tmp_path, "greedy", **beside)
        done = found.run("verify", large)
        assert (done.code, done.out) == (3, "")
        assert " has no ckpt (ckpt_cli needs its own package 'formats' " in done.err
        assert f"has already imported another module of that name: {tmp_path}/formats.py. Rename " in done.err


# Buckets ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the URL of a bucket; credentials are in the environment, which workers share."""
    import obstore
    from obstore.store import S3Store

    with seaweed(tmp_path_factory.mktemp("s3")) as url, pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_ENDPOINT_URL": url,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
        }.items():
            patch.setenv(name, value)
        obstore.put(S3Store("bucket", client_options={"allow_http": True}), "first", b"makes the bucket")
        yield "s3://bucket"


def test_to_a_bucket_and_from_it(large: str, bucket: str, tmp_path: Path, ckpt: Callable) -> None:
    """Workers send their own requests; without credentials they are rejected."""
    with cluster(tmp_path / "cluster") as found:
        for _ in range(2):
            found.worker()
        done = found.run("convert", large, f"{bucket}/b-1", "--shard-size", 100 * MIB, "-v")
        assert done.code == 0, done.err
        assert "sent to workers: 4 tasks, " in done.err, "one object each"
        done = found.run("verify", f"{bucket}/b-1", "-v")
        assert done.code == 0, done.err
        assert "sent to workers: 39 tasks, 335,545,080 bytes" in done.err
        assert found.run("diff", large, f"{bucket}/b-1", "--exact", "--all").code == 0
        # A file that must be complete before it is sent is in a directory of this machine alone.
        done = found.run("convert", large, f"{bucket}/one.npz", "--exclude", "layer_0*", "-v")
        assert (done.code, "processed locally: " in done.err) == (0, True), done.err
    with cluster(tmp_path / "nobody") as found:
        found.worker(AWS_SECRET_ACCESS_KEY="wrong")
        done = found.run("verify", f"{bucket}/b-1")
    assert done.code != 0
    assert "cannot see it" in done.err
    assert SECRET not in done.err


# The page of documentation ---------------------------------------------------------------


def test_the_commands_of_the_page(tmp_path: Path) -> None:
    with open(os.path.join(ROOT, "docs", "explanations", "clusters.md"), encoding="utf-8") as file:
        (block,) = re.findall(r"<!-- run with a cluster -->\n```bash\n(.*?)```", file.read(), re.DOTALL)
    shutil.copytree(os.path.join(ROOT, "tests/data/guide_adam_legacy/tf_ckpts"), tmp_path / "run")
    programs = os.path.dirname(sys.executable)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    commands = re.sub(r"^ckpt ", f"{sys.executable} -m ckpt_cli ", block, flags=re.MULTILINE)
    script = "set -e\ntrap 'kill $(jobs -p)' EXIT\n" + commands
    script = script.replace("8786", str(port))
    environment = {**os.environ, **ENVIRONMENT, "PATH": f"{programs}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run/average-10.index").exists()
