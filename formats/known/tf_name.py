"""tf-name: TensorFlow 1's name-based checkpoints in V2 form, a bundle whose keys are variables' names.

bundle              see formats.tf.bundle.index
<variable's name>   `dense/kernel`; slots by their optimizer's name, see formats.model.name_kinds
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from ..errors import ConversionError
from ..model.name_kinds import name_kinds
from ..model.object_keys import GRAPH_KEY
from ..model.reader import Family, Format
from ..tf.bundle.index import BUNDLE_DTYPES, OBJECT_GRAPH_KEY
from ..tf.bundle.reader import BundleReader

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..model.probe import Probe
    from ..model.writer import FormatWriter, WriteTarget


class NameReader(BundleReader):
    """A name-based checkpoint: each key is its variable's full name."""

    @property
    def format(self) -> Format:  # type: ignore[override]
        return FORMAT

    @cached_property
    def full_names(self) -> Mapping[str, str]:
        return {key: key for key in self.specs}

    @cached_property
    def kinds(self) -> Mapping[str, str]:
        return name_kinds(self.specs)


def _sniff(probe: Probe) -> bool:
    return probe.is_bundle and not probe.has_key(OBJECT_GRAPH_KEY)


def _open(probe: Probe, lenient: bool) -> NameReader:
    return NameReader(probe, lenient=lenient)


def _create(target: WriteTarget) -> FormatWriter:
    from ..tf.bundle.writer import BundleWriter, bundle_target

    target = bundle_target(target)
    if target.object_graph is not None or any(spec.key == GRAPH_KEY for spec in target.specs):
        message = "an object graph would make this an object-based checkpoint"
        raise ConversionError(
            message, path=target.path, key=GRAPH_KEY, hints=("to keep the object graph, pass --to tf-object",)
        )
    return BundleWriter(FORMAT, target)


FORMAT = Format(
    "tf-name",
    "TensorFlow 1 name-based checkpoint",
    Family.TENSORFLOW,
    (".index",),
    _sniff,
    _open,
    _create,
    BUNDLE_DTYPES,
    is_bundle=True,
    index_last=True,
)
