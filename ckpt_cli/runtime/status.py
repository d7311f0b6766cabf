"""The result of `restore`: how well checkpoint and program matched."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from formats.tf.graph.matching import display_names
from formats.wire.protobuf import Message

from .containers import Container
from .custom_state import state_of

if TYPE_CHECKING:
    from .graph_view import GraphView
    from .restore import NameBasedRestore, Restore
    from .trackable import Trackable

__all__ = ["CheckpointLoadStatus", "InitializationOnlyStatus", "LoadStatus", "NameBasedSaverStatus"]

_MOST_SHOWN = 10


class LoadStatus(ABC):
    """Base of the statuses; each assertion returns the status, or raises AssertionError."""

    @abstractmethod
    def assert_consumed(self) -> Any:
        """Raise where a value of the checkpoint, or an object of the program, has no counterpart."""

    @abstractmethod
    def assert_existing_objects_matched(self) -> Any:
        """Raise where an object that the program has made so far got no value."""

    @abstractmethod
    def assert_nontrivial_match(self) -> Any:
        """Raise where nothing matched but the root."""

    def run_restore_ops(self, session: Any = None) -> None:  # noqa: B027  graphs had something to run here
        """Do nothing: values are restored at once."""

    def initialize_or_restore(self, session: Any = None) -> None:  # noqa: B027  graphs had something to run here
        """Do nothing: values are restored at once."""

    def expect_partial(self) -> Any:
        return self


class CheckpointLoadStatus(LoadStatus):
    """The status of an object-based restore; it stays true as objects arrive."""

    def __init__(self, restore: Restore, view: GraphView) -> None:
        self._restore = restore
        self._view = view

    def _unmatched(self) -> list[Trackable]:
        """Return the objects below the root that hold values and have no partner."""
        partners = {id(partner) for partner in self._restore.matching.bound.values()}
        found = list(self._restore.conflicts.values())
        for trackable in self._view.graph().objects:
            if not (isinstance(trackable, Container) and not trackable._trackable_children()):
                found.append(trackable)
        unique = {id(trackable): trackable for trackable in found if state_of(trackable)._restorable()}
        return [trackable for key, trackable in unique.items() if key not in partners]

    def assert_existing_objects_matched(self) -> CheckpointLoadStatus:
        """Assert that every object below the root that holds values was in the checkpoint."""
        restore = self._restore
        for number, partner in restore.matching.bound.items():
            if partner._update_uid < restore.restore_uid:
                raise AssertionError(
                    f"Object {text_format(restore.graph.nodes[number])} not assigned a value from checkpoint."
                )
        unmatched = self._unmatched()
        if unmatched:
            shown = unmatched[:_MOST_SHOWN]
            raise AssertionError(
                f"Found {len(unmatched)} Python objects that were not bound to checkpointed values, likely "
                "due to changes "
                f"in the Python program. Showing {len(shown)} of {len(unmatched)} unmatched objects: {shown}"
            )
        return self

    def assert_consumed(self) -> CheckpointLoadStatus:
        """Assert also that everything in the checkpoint was restored."""
        self.assert_existing_objects_matched()
        restore = self._restore
        names = display_names(restore.graph)
        for number, node in enumerate(restore.graph.nodes):
            if node.attributes and restore.matching.bound.get(number) is None:
                raise AssertionError(
                    f"Unresolved object in checkpoint {names.get(number, number)}: {text_format(node)}"
                )
        if restore.matching.slot_requests:
            raise AssertionError(f"Unresolved slot restorations: {restore.matching.slot_requests}")
        if restore.unused_attributes:
            lines = [
                f"{names.get(number, number)} ({restore.matching.bound.get(number)}): {attributes}"
                for number, attributes in restore.unused_attributes.items()
            ]
            raise AssertionError(
                "Unused attributes in these objects (the attributes exist in the checkpoint but were not "
                "restored):\n" + "\n".join(lines)
            )
        return self

    def assert_nontrivial_match(self) -> CheckpointLoadStatus:
        """Assert that the checkpoint matched more than the root."""
        if len(self._restore.matching.bound) <= 1:
            unmatched = self._unmatched()
            if unmatched:
                raise AssertionError(
                    "Nothing except the root object matched a checkpointed value. Typically this means "
                    "that the "
                    "checkpoint does not match the Python program. The following objects have no matching "
                    "checkpointed "
                    f"value: {unmatched}"
                )
            raise AssertionError(
                f"Nothing to load. No dependencies have been added to {self._view.root} yet."
            )
        return self

    def expect_partial(self) -> CheckpointLoadStatus:
        """Say nothing about values that are never restored."""
        self._restore.report.expects_partial = True
        return self


class InitializationOnlyStatus(LoadStatus):
    """The status of a restore from None: every assertion fails."""

    def _fail(self) -> Any:
        raise AssertionError("No checkpoint specified (save_path=None); nothing is being restored.")

    assert_consumed = assert_existing_objects_matched = assert_nontrivial_match = _fail

    def run_restore_ops(self, session: Any = None) -> None:
        raise AssertionError(
            "No checkpoint specified, so no restore ops are available (save_path=None to Saver.restore)."
        )


class NameBasedSaverStatus(LoadStatus):
    """The status of a restore by full names; there is one assertion to make."""

    def __init__(self, restore: NameBasedRestore, view: GraphView) -> None:
        self._restore = restore
        self._view = view
        self._optional: list[Trackable] = []

    def add_to_optionally_restored(self, variable: Trackable) -> None:
        """Let assertions pass over a variable."""
        self._optional.append(variable)

    def assert_consumed(self) -> NameBasedSaverStatus:
        """Assert that every variable's name was in the checkpoint."""
        optional = {id(variable) for variable in self._optional}
        missing: dict[int, tuple[Trackable, list[str]]] = {}
        for trackable, name in self._restore.missing:
            if id(trackable) not in optional:
                missing.setdefault(id(trackable), (trackable, []))[1].append(name)
        if missing:
            lines = "".join(f"\n    {trackable}: {names}" for trackable, names in missing.values())
            raise AssertionError(f"Some objects had attributes which were not restored: {lines}")
        for trackable in self._view.graph().objects:
            if trackable._update_uid < self._restore.restore_uid:
                raise AssertionError(f"Object not restored: {trackable}")
        return self

    assert_existing_objects_matched = assert_nontrivial_match = assert_consumed


def text_format(message: Message, indent: str = "") -> str:
    """Return a message as protobuf's text format prints it."""
    lines = []
    for name, field in message.FIELDS.items():
        value = getattr(message, name)
        for one in value if field.repeated else (value,):
            if isinstance(one, Message):
                lines.append(f"{indent}{name} {{\n{text_format(one, indent + '  ')}{indent}}}\n")
            elif isinstance(one, bool):
                lines += [f"{indent}{name}: true\n"] if one else []
            elif isinstance(one, str):
                lines += [f'{indent}{name}: "{_quoted(one)}"\n'] if one else []
            elif one:
                lines.append(f"{indent}{name}: {one}\n")
    return "".join(lines)


def _quoted(text: str) -> str:
    named = {0x0A: "\\n", 0x0D: "\\r", 0x09: "\\t", 0x22: '\\"', 0x27: "\\'", 0x5C: "\\\\"}
    return "".join(
        named.get(byte) or (chr(byte) if 0x20 <= byte < 0x7F else f"\\{byte:03o}")
        for byte in text.encode("utf-8", "surrogateescape")
    )
