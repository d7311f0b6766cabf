"""The weights layout of `.weights.h5`, alone, in shards, or within a `.keras` archive.

    /<object>/.../vars/<N>       the N-th variable of the object at that path of attributes
    /<object>/.../vars           in Keras 3, attribute name: the layer's or optimizer's name
    /optimizer/vars/<N>          iteration, in Keras 3 the learning rate, then the slots
    /metrics/...                 in Keras 2 only

A key is the dataset's path.  HDF5 lists `10` before `2`; the order of numbers is meant.
keras/src/saving/saving_lib.py: H5IOStore
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from ..errors import CorruptCheckpointError
from ..keras.facts import IN_WEIGHTS, KerasFacts, is_number, variables_by_group
from ..model.verification import Finding
from .library.damage import damage
from .names import has, text
from .reader import KerasFileReader, read_attribute

if TYPE_CHECKING:
    from ..core.spec import TensorSpec
    from ..model.checkpoint_files import CheckpointLocation
    from ..model.reader import Format
    from .safe import H5File


class WeightsReader(KerasFileReader):
    """The variables of a model by their objects' paths, in one file or several."""

    def __init__(
        self, location: CheckpointLocation, format_: Format, files: list[H5File], *, lenient: bool
    ) -> None:
        super().__init__(location, files, lenient=lenient)
        self.format = format_
        self._named_groups: list[tuple[H5File, str]] = []
        self.groups: list[str] = []
        for file in files:
            self._add_file(file)
        self.seal()

    def _add_file(self, file: H5File) -> None:
        for path, found in file.walk(self.flaw):
            if found.is_dataset:
                self.add(path, file, path, found)
            elif path == "vars" or path.endswith("/vars"):
                self.groups.append(path)
                with damage(file.path, f"group {path!r}"):
                    if has(found, "name", in_parts=False):
                        self._named_groups.append((file, path))

    @cached_property
    def object_names(self) -> dict[str, str]:
        """The names of objects by the path of their `vars`; read on demand."""
        names: dict[str, str] = {}
        for file, path in self._named_groups:
            try:
                group = file.find(path)
                name = read_attribute(file, group, "name", text) if group is not None else None
            except CorruptCheckpointError as error:
                self.unread(Finding.of(error))
                continue
            if name is not None:
                names[path] = name
        return names

    @property
    def is_keras_3(self) -> bool:
        """Whether Keras 3 wrote this: it alone names the objects."""
        return bool(self._named_groups)

    def kind(self, key: str, spec: TensorSpec) -> str:
        top, _, rest = key.partition("/")
        if top == "metrics":
            return "state"
        if top != "optimizer":
            return super().kind(key, spec)
        group, _, number = rest.rpartition("/")
        first_slot = 2 if self.is_keras_3 else 1
        is_scalar = is_number(number) and int(number) < first_slot and not spec.shape
        # An optimizer within another (loss scaling) keeps the slots; the outer one has scalars only.
        outer = group == "vars" and any(key.startswith("optimizer/inner_optimizer/") for key in self._specs)
        return "optimizer" if is_scalar or outer else "slot"

    def variables(self, group: str) -> list[str]:
        """Return the keys of the variables in a `vars` group, in the order of their numbers."""
        return self.by_group.get(group, [])

    @cached_property
    def by_group(self) -> dict[str, list[str]]:
        return variables_by_group(self._specs)

    @cached_property
    def facts(self) -> KerasFacts:
        version = "3" if self.is_keras_3 else None
        return KerasFacts(IN_WEIGHTS, version, object_names=self.object_names, groups=tuple(self.groups))
