"""Buckets on third-party servers; each has all of tests/data."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.cli import conftest as fixtures
from tests.servers.programs import AZURE_KEY, AZURITE, KEY, SECRET, azurite, fake_gcs, seaweed
from tests.support import DATA, write_bundle

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ckpt, laid_out, offered, place = fixtures.ckpt, fixtures.laid_out, fixtures.offered, fixtures.place
"""The fixtures of tests/cli that run command lines."""


def _all_files(directory_of_lines: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the names in a bucket, and their bytes; links are followed to files alone."""
    for below, directory in (("", DATA), ("place", str(directory_of_lines))):
        for parent, _, names in os.walk(directory):
            for name in names:
                path = os.path.join(parent, name)
                with open(path, "rb") as file:
                    yield os.path.join(below, os.path.relpath(path, directory)), file.read()


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory, laid_out: Path) -> Iterator[str]:
    """Return a URL below which all of tests/data is, and a run with a larger bundle."""
    import obstore
    from obstore.store import S3Store

    folder = tmp_path_factory.mktemp("s3")
    with seaweed(folder) as url, pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", KEY)
        patch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        patch.setenv("AWS_ENDPOINT_URL", url)
        patch.setenv("AWS_ALLOW_HTTP", "true")
        patch.setenv("AWS_REGION", "us-east-1")
        client = S3Store("bucket", client_options={"allow_http": True})
        for name, data in _all_files(laid_out):
            obstore.put(client, name, data)
        prefix = str(folder / "ckpt-1")
        write_bundle(prefix, {f"layer_{n}/kernel": np.full(300_000, n, np.float32) for n in range(40)})
        for suffix in (".index", ".data-00000-of-00001"):
            with open(prefix + suffix, "rb") as file:
                obstore.put(client, f"run/ckpt-1{suffix}", file.read())
        yield "s3://bucket"


@pytest.fixture(scope="session")
def gs(tmp_path_factory: pytest.TempPathFactory, laid_out: Path) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("gs")
    shutil.copytree(DATA, folder / "files" / "bucket")  # links are not followed
    shutil.copytree(laid_out, folder / "files" / "bucket" / "place")
    with fake_gcs(folder, folder / "files") as url, pytest.MonkeyPatch.context() as patch:
        patch.setenv("STORAGE_EMULATOR_HOST", url)
        yield "gs://bucket"


@pytest.fixture(scope="session")
def az(tmp_path_factory: pytest.TempPathFactory, laid_out: Path) -> Iterator[str]:
    if not os.path.exists(AZURITE):
        pytest.skip("Azurite comes by npm, which was not there when the environment was made")
    from azure.storage.blob import BlobServiceClient

    with azurite(tmp_path_factory.mktemp("az")) as url, pytest.MonkeyPatch.context() as patch:
        client = BlobServiceClient(url, credential=AZURE_KEY)
        client.create_container("container")
        for name, data in _all_files(laid_out):
            client.get_blob_client("container", name).upload_blob(data)
        patch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "devstoreaccount1")
        patch.setenv("AZURE_STORAGE_ACCOUNT_KEY", AZURE_KEY)
        patch.setenv("AZURE_STORAGE_ENDPOINT", url)
        patch.setenv("AZURE_ALLOW_HTTP", "true")
        yield "az://container"
