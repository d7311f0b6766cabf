"""`ckpt verify` says of bundles that contradict themselves what TensorFlow does with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ckpt_cli.operations.look.verify import verify_one
from formats.find.opening import locate
from formats.location import parse_location
from tests.formats.tf.contradictions import REFUSED, SOUND

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import TensorFlow


def test_verify_finds_what_tensorflow_refuses(tensorflow: TensorFlow, tmp_path: Path) -> None:
    paths = {name: str(tmp_path / name) for name in (*REFUSED, *SOUND)}
    for name, make in (REFUSED | SOUND).items():
        make(paths[name])
    theirs = tensorflow.ask("verdicts", "refusals", paths=paths)
    assert theirs == {name: name in REFUSED for name in paths}
    assert theirs == {
        name: not verify_one(locate(parse_location(path + ".index"))).ok for name, path in paths.items()
    }
