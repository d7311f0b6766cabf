"""transformers' own conversions of some architectures: the records of the tests are true, and ckpt agrees."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import ckpt_cli
import formats
from tests import hub

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import TensorFlow

SAMPLE = [("tensorflow", "bert"), ("tensorflow", "gpt2"), ("tensorflow", "resnet"), ("flax", "t5")]


@pytest.mark.parametrize(("library", "model_type"), SAMPLE, ids=map("-".join, SAMPLE))
def test_the_records_are_what_transformers_does(
    old_transformers: TensorFlow, library: str, model_type: str, tmp_path: Path
) -> None:
    found = old_transformers.ask(
        "hub", "converted", library=library, model_type=model_type, folder=str(tmp_path)
    )
    for called, record in dict(hub.records(library))[model_type].items():
        assert "rejected" in record or found[called]["tensors"] == record["tensors"], called
        assert found[called]["stored"] == record["stored"], called
        if "rejected" not in record:
            _converts_the_file(tmp_path / called, library)


def _converts_the_file(folder: Path, library: str) -> None:
    """Convert the very file that the library wrote; transformers reinitialises statistics."""
    ckpt_cli.convert(folder / _FILES[library], folder / "out.safetensors", layout="pytorch")
    with formats.open_checkpoint(folder / "pt" / "model.safetensors") as truth:
        anew = [key for key in truth if library == "tensorflow" and hub.NOT_LOADED.search(key)]
    found = ckpt_cli.diff(folder / "out.safetensors", folder / "pt" / "model.safetensors", exclude=anew)
    assert found.same, found.to_dict()


_FILES = {"tensorflow": "tf_model.h5", "flax": "flax_model.msgpack"}
