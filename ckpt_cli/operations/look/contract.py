"""Holding a checkpoint against a listing that was saved of it: a contract file, `model.lock`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.core.dtypes import INVALID
from formats.core.spec import key_bytes
from formats.errors import UnsupportedFeatureError
from formats.find.opening import open_checkpoint, open_location
from formats.model.digest import digests_like
from formats.model.verification import Finding
from formats.store.workers import SERIAL, Workers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from formats.core.spec import TensorSpec
    from formats.model.location import Location


class Contract:
    """What a listing says that tensors are; read once, for all checkpoints that are held against it.

    Raises UnsupportedFeatureError where `path` is no listing, or one without digests.
    """

    def __init__(self, path: str) -> None:
        hints = ("to make one: ckpt ls PATH --json -l --digest sha256 > model.lock",)
        with open_checkpoint(path) as reader:
            self.path = reader.location.path
            if reader.format.has_values:
                message = f"this is a checkpoint ({reader.format.name}), expected a saved listing"
                raise UnsupportedFeatureError(message, path=self.path, hints=hints)
            self.specs: Mapping[str, TensorSpec] = dict(reader.specs)
            self.digests: dict[str, str] = {}
            for key, spec in self.specs.items():
                digest = None if spec.dtype is INVALID else reader[key].listed_digest
                if digest is None:
                    message = "the listing has no digest of it; it was made without --digest"
                    raise UnsupportedFeatureError(message, path=self.path, key=key, hints=hints)
                self.digests[key] = digest

    def findings(
        self, location: Location, workers: Workers = SERIAL, advance: Callable[[int], None] = lambda _: None
    ) -> list[Finding]:
        """Return in what a checkpoint is another than the listing says, in the order of keys.

        `advance` is told how many bytes were gone through.  What keeps a tensor from being read
        is a finding of it.
        """
        found: dict[str, Finding] = {}
        with open_location(location) as reader:

            def differs(key: str, message: str) -> None:
                found[key] = Finding("error", "contract", message, key, location.head)

            for key in self.specs.keys() | reader.specs.keys():
                message = self._spec_flaw(key, reader.specs.get(key))
                if message is not None:
                    differs(key, message)
            listed = {key: text for key, text in self.digests.items() if key not in found}
            for key, text in digests_like(reader, listed, workers):
                advance(reader.specs[key].nbytes or 0)
                if text != listed[key]:
                    differs(key, f"other values: {text}, {self.path} has {listed[key]}")
            reader.check_unchanged()
        return [found[key] for key in sorted(found, key=key_bytes)]

    def _spec_flaw(self, key: str, spec: TensorSpec | None) -> str | None:
        """Return what dtype and shape, or their absence, say against a tensor."""
        listed = self.specs.get(key)
        if listed is None:
            return f"new: {self.path} does not have it"
        if spec is None:
            return f"missing: {self.path} has it, {listed.dtype} of shape {list(listed.shape)}"
        if spec.shape != listed.shape:
            return f"shape {list(spec.shape)}, {self.path} has {list(listed.shape)}"
        if spec.dtype is not listed.dtype:
            return f"dtype {spec.dtype}, {self.path} has {listed.dtype}"
        return None
