"""Names that programs rarely give, made into objects here: TensorFlow finds and restores each of them."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import numpy as np
import pytest

import formats
from ckpt_cli.operations.convert.execute import execute
from ckpt_cli.operations.convert.planner import plan_conversion
from ckpt_cli.operations.convert.source import Settings
from formats.find.registry import format_named
from formats.location import parse_location
from formats.model.object_names import object_name
from tests.names import KNOWN, PARTS
from tests.sampling import seeds
from tests.support import digest
from tests.writing import save

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import TensorFlow

FEW_SETS, ALL_SETS = 30, 400


def random_names(seed: int) -> list[str]:
    chosen = random.Random(seed)
    names = ["/".join(chosen.choices(PARTS, k=chosen.randint(1, 3))) for _ in range(5)]
    names += [f"{name}/{chosen.choice(PARTS)}" for name in names[:3]]
    return [name for name in dict.fromkeys(names) if _is_name(name)]


def _is_name(name: str) -> bool:
    """Whether it is a name alone; what is spelled as an object's key becomes that object."""
    return name not in ("", "_CHECKPOINTABLE_OBJECT_GRAPH") and object_name(name).path == name


SETS = [names for names in KNOWN if "_CHECKPOINTABLE_OBJECT_GRAPH" not in names]
SETS += [random_names(seed) for seed in seeds(FEW_SETS, ALL_SETS)]


def told(array: np.ndarray) -> list[object]:
    return [formats.core.dtypes.from_numpy(array.dtype).name, list(array.shape), digest(array)]


@pytest.mark.parametrize("names", SETS, ids=lambda names: str(SETS.index(names)))
def test_every_name_has_a_way_that_leads_to_it(
    tensorflow: TensorFlow, names: list[str], tmp_path: Path
) -> None:
    arrays = {name: np.full(2, number + 1, np.float32) for number, name in enumerate(names)}
    source, target = str(tmp_path / "names"), str(tmp_path / "c-7")
    save(source, arrays)
    with formats.open_checkpoint(source) as reader:
        plan = plan_conversion(
            reader, list(reader.specs), parse_location(target), format_named("tf-object"), Settings()
        )
        execute(plan)
    expected = {name: told(array) for name, array in arrays.items()}
    found = tensorflow.ask("names", "names", path=target)
    assert {name: value for name, (_, value) in found.items()} == expected
    ways = [way for way, _ in found.values()]
    assert all(ways)
    assert len({tuple(way) for way in ways if None not in way}) == sum(None not in way for way in ways)
    counter, restored = tensorflow.ask("names", "restore", path=target)
    assert counter == 7
    slots = {name for name, (way, _) in found.items() if None in way}
    assert restored == {name: value for name, value in expected.items() if name not in slots}
