"""Determine which of the HDF5 layouts a file has.

    keras-h5        attribute `layer_names` at the root, or a group `model_weights`
    keras-weights   no `layer_names`, and some group `vars`
    hdf5            anything else

The order of the checks makes the three exclusive. A group `vars` is searched in the order in which Keras
nests it, and the search ends after a bounded number of groups.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from ..keras.facts import MODEL_WEIGHTS
from .library.damage import damage
from .names import has
from .native.superblock import Superblock
from .safe import open_h5

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..errors import CheckpointError
    from ..model.probe import Probe
    from .node import Node
    from .safe import H5File


_MOST_GROUPS_LOOKED_AT = 10_000


class H5Facts:
    """An open file, and its layout as the sniffers need it."""

    def __init__(self, file: H5File) -> None:
        self.file = file

    def close(self) -> None:
        self.file.close()

    @cached_property
    def model_group(self) -> Node | None:
        """The group that `layer_names` belongs to, if this is Keras' HDF5 of versions 1 and 2."""
        with damage(self.file.path, "the root group"):
            if has(self.file.root, "layer_names"):
                return self.file.root
            group = self.file.find(MODEL_WEIGHTS)
            return group if group is not None and group.is_group and has(group, "layer_names") else None

    @cached_property
    def is_keras_h5(self) -> bool:
        return self.model_group is not None

    @cached_property
    def is_keras_weights(self) -> bool:
        return not self.is_keras_h5 and any(self._vars_groups())

    def _vars_groups(self) -> Iterator[bool]:
        """Yield once for each group named `vars` that holds numbered datasets or nothing."""

        def pass_over(error: CheckpointError) -> None:
            """Leave damage and rejections to the reader, which reports them."""

        for count, (path, found) in enumerate(self.file.walk(pass_over)):
            if count > _MOST_GROUPS_LOOKED_AT:
                return
            if path.rpartition("/")[2] == "vars" and found.is_group:
                names = [name for name, _ in self.file.links(found, path)]
                if all(name.isdigit() for name in names):
                    yield True


def h5_facts(probe: Probe) -> H5Facts | None:
    """Return the open HDF5 file of a probe, for `Probe.result_of`; None if it is none.

    Raises CorruptCheckpointError if it is one that cannot be opened.
    """
    superblock = Superblock.find(probe.head)
    if superblock is None or probe.is_table:
        return None
    return H5Facts(open_h5(probe.location.head, probe.size, superblock))
