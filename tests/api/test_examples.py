"""The examples in the docstrings of the public functions, and in docs/recipes/python.md, run."""

from __future__ import annotations

import os
import re
import shutil
import textwrap
from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

import ckpt_cli as ckpt
from tests.support import data_path
from tests.test_architecture import ROOT

if TYPE_CHECKING:
    from pathlib import Path

FUNCTIONS = sorted(name for name in ckpt.__all__ if name[0].islower())


def _blocks(text: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", textwrap.dedent(text), re.DOTALL)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create the files of the examples in the current directory."""
    shutil.copytree(data_path("guide_adam_legacy", "tf_ckpts"), tmp_path / "run")
    key = Ed25519PrivateKey.from_private_bytes(bytes(32))
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "private.pem").write_bytes(pem)
    (tmp_path / "private.pem").chmod(0o600)
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (tmp_path / "public.pem").write_bytes(public)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_function_has_an_example_that_runs(
    name: str, place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    function = getattr(ckpt, name)
    blocks = _blocks(f"    {function.__doc__}")
    assert blocks
    quiet = re.sub(r"\bprint\(", "str((", "\n".join(blocks)).replace("str((", "(lambda *_: None)(")
    exec(quiet, {"ckpt": ckpt})
    assert capfd.readouterr() == ("", ""), "no function prints"


def test_each_public_name_is_in_the_documentation() -> None:
    with open(os.path.join(ROOT, "docs", "api.md"), encoding="utf-8") as file:
        documented = re.findall(r"^::: (\S+)$", file.read(), re.MULTILINE)
    homes = {f"{ckpt._HOMES[name]}.{name}" for name in ckpt.__all__ if name != "CheckpointError"}
    assert homes <= set(documented)
    assert "formats.CheckpointError" in documented


def test_the_examples_of_the_page_run(place: Path) -> None:
    with open(os.path.join(ROOT, "docs", "recipes", "python.md"), encoding="utf-8") as file:
        blocks = _blocks(file.read())
    scope: dict[str, object] = {}
    for block in blocks:
        if "to_frame" not in block and "pandas" not in block:  # tests/recipes runs these, which has pandas
            exec(block, scope)
    assert os.path.exists("weights.safetensors")
    with ckpt.open("out/ckpt-1") as written, ckpt.open("run/ckpt-10") as source:
        assert (written["net/kernel"][:] == source["net/l1/kernel"][:]).all()
    assert os.path.exists("model_dir/model.ckpt-200.index")
