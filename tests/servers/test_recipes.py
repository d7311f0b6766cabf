"""The lines of docs/recipes/remote.md, on servers that speak as Amazon's, Google's and Azure's do."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.servers.google import google
from tests.support import data_path
from tests.test_architecture import ROOT

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.servers


def _lines() -> list[str]:
    """Return the lines that name buckets; the Hub and a host of the reader's own are not here."""
    with open(os.path.join(ROOT, "docs", "recipes", "remote.md"), encoding="utf-8") as file:
        blocks = re.findall(r"```text\n(.*?)```", file.read(), re.DOTALL)
    lines = [line.partition("  #")[0] for block in blocks for line in block.splitlines()]
    return [line for line in lines if not re.search(r"hf://|https://", line)]


def test_the_lines_for_buckets_do_what_they_say(tmp_path: Path, s3: str, az: str) -> None:
    shutil.copytree(data_path("guide_adam_legacy", "tf_ckpts"), tmp_path / "run")
    with google() as server:
        environment = {**os.environ, "STORAGE_EMULATOR_HOST": server.url, "PYTHONPATH": ROOT}
        stores = {
            "s3://bucket/": f"{s3}/page/",
            "az://container/": f"{az}/page/",
            "gs://bucket/": "gs://bucket/page/",
        }

        def run(line: str) -> None:
            for theirs, ours in stores.items():
                line = line.replace(theirs, ours)
            words = [sys.executable, "-m", "ckpt_cli", *shlex.split(line)[1:]]
            done = subprocess.run(
                words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, (line, done.stderr)

        run("ckpt convert run/ckpt-9 s3://bucket/run/ckpt-9")
        run("ckpt convert run/ckpt-10 gs://bucket/run/ckpt-10")
        run("ckpt convert run/ckpt-9 az://container/run/ckpt-9")
        lines = _lines()
        assert len(lines) == 7
        for line in lines:
            run(line)
