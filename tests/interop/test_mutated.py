"""Bundles and V1 files changed by their structure, checksums made right, as TensorFlow reads them.

If both read a file, the values are equal; `verify` finds the files that TensorFlow rejects. Three differences
are expected. A release does not know the dtypes of later ones. Its Python joins no slices of V1 files of some
dtypes. Slots have fewer slices than their shape, as its optimizers write them.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import formats
from ckpt_cli.operations.look.verify import verify_one
from formats.find.opening import locate
from formats.location import parse_location
from tests.counts import count
from tests.hostile.targets import TARGETS, copy_shards
from tests.sampling import seeds
from tests.support import digest

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import TensorFlow

FEW, WHOLE = 150, 4000
EXCUSED = ("does not correspond to a valid", "UnimplementedError", "Does not have sufficient slices")


def written(seed: int, directory: Path) -> str:
    """Write the mutated file of a seed, with what belongs to it, and return its path."""
    directory.mkdir()
    name = "v1" if seed % 4 == 3 else "bundle"
    data = next(target for target in TARGETS if target.name == name).case(random.Random(seed))
    if name == "bundle":
        copy_shards(data[0], str(directory))
        data = data[1:]
    path = directory / ("b.index" if name == "bundle" else "b")
    path.write_bytes(data)
    return str(path).removesuffix(".index")


def read(path: str) -> dict[str, str]:
    """Return a digest of each tensor that can be read."""
    found = {}
    try:
        with formats.open_checkpoint(path) as reader:
            for key, spec in reader.specs.items():
                if spec.dtype.name == "variant":
                    continue
                try:
                    found[key] = digest(reader[key].read())
                except formats.CheckpointError:
                    continue
    except formats.CheckpointError:
        pass
    return found


def test_values_are_those_of_tensorflow_and_what_it_refuses_is_found(
    tensorflow: TensorFlow, tmp_path: Path
) -> None:
    paths = {str(seed): written(seed, tmp_path / str(seed)) for seed in seeds(FEW, WHOLE)}
    for seed, (theirs, errors) in tensorflow.ask("mutated", "values", paths=paths).items():
        ours = read(paths[seed])
        both = ours.keys() & theirs.keys()
        assert {key: ours[key] for key in both} == {key: theirs[key] for key in both}, seed
        count("values of mutated files that TensorFlow reads alike", len(both))
        refused = [error for _, error in errors if not any(text in error for text in EXCUSED)]
        result = verify_one(locate(parse_location(paths[seed])))
        assert not (result.ok and refused), (seed, refused)
