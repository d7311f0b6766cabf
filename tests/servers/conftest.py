"""Buckets of servers of other people's, in each of which all of tests/data lies."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.servers.programs import AZURE_KEY, AZURITE, KEY, SECRET, azurite, fake_gcs, seaweed
from tests.support import DATA, write_bundle

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return a URL below which all of tests/data lies, and a run with a larger bundle."""
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
        for parent, _, names in os.walk(DATA):
            for name in names:
                path = os.path.join(parent, name)
                with open(path, "rb") as file:
                    obstore.put(client, os.path.relpath(path, DATA), file.read())
        prefix = str(folder / "ckpt-1")
        write_bundle(prefix, {f"layer_{n}/kernel": np.full(300_000, n, np.float32) for n in range(40)})
        for suffix in (".index", ".data-00000-of-00001"):
            with open(prefix + suffix, "rb") as file:
                obstore.put(client, f"run/ckpt-1{suffix}", file.read())
        yield "s3://bucket"


@pytest.fixture(scope="session")
def gs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("gs")
    shutil.copytree(DATA, folder / "files" / "bucket")  # links are not followed
    with fake_gcs(folder, folder / "files") as url, pytest.MonkeyPatch.context() as patch:
        patch.setenv("STORAGE_EMULATOR_HOST", url)
        yield "gs://bucket"


@pytest.fixture(scope="session")
def az(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if not os.path.exists(AZURITE):
        pytest.skip("Azurite comes by npm, which was not there when the environment was made")
    from azure.storage.blob import BlobServiceClient

    with azurite(tmp_path_factory.mktemp("az")) as url, pytest.MonkeyPatch.context() as patch:
        client = BlobServiceClient(url, credential=AZURE_KEY)
        client.create_container("container")
        for parent, _, names in os.walk(DATA):
            for name in names:
                path = os.path.join(parent, name)
                with open(path, "rb") as file:
                    client.get_blob_client("container", os.path.relpath(path, DATA)).upload_blob(file.read())
        patch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "devstoreaccount1")
        patch.setenv("AZURE_STORAGE_ACCOUNT_KEY", AZURE_KEY)
        patch.setenv("AZURE_STORAGE_ENDPOINT", url)
        patch.setenv("AZURE_ALLOW_HTTP", "true")
        yield "az://container"
