"""The fields of messages that `make test` compares with are those of both releases."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.support import data_path

if TYPE_CHECKING:
    from conftest import TensorFlow


def test_recorded_fields_are_tensorflows(tensorflow: TensorFlow) -> None:
    with open(data_path("messages.json"), encoding="utf-8") as file:
        recorded = json.load(file)
    found = tensorflow.ask("messages", "fields", names=list(recorded))
    for name, fields in recorded.items():
        assert fields.items() <= found[name].items()  # later releases add some
