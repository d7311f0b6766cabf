"""A process that reads a checkpoint: where a library crashes or hangs, only this process is lost."""

from __future__ import annotations

import multiprocessing
import signal
from typing import TYPE_CHECKING, Any

from formats.errors import MEMORY
from formats.model.probe import Probe

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from formats.model.checkpoint_files import CheckpointLocation


class ChildLostError(Exception):
    """The process gave no answer: what became of it, and the code of a finding."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


class ReadingChild:
    """Runs `work(sender, *arguments)` in another process, which ends with the block at the latest."""

    def __init__(self, location: CheckpointLocation, work: Callable[..., None], *arguments: object) -> None:
        method = "fork" if location.store.forks else "spawn"
        context = multiprocessing.get_context(method)
        self._location = location
        self._receiver, sender = context.Pipe(duplex=False)
        self._process = context.Process(target=work, args=(sender, *arguments))  # type: ignore[attr-defined]
        self._process.start()
        sender.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.join()
        self._receiver.close()

    def receive(self, patience: float) -> Any:
        """Return what the process sends next; ChildLostError if it ends or takes longer than some seconds."""
        try:
            if self._receiver.poll(patience):
                return self._receiver.recv()
        except EOFError:
            self._process.join()
            raise ChildLostError(*_end(self._process.exitcode or 0, self._location)) from None
        raise ChildLostError(f"reading took longer than {patience:.0f} s, so ckpt stopped it", "hdf5-read")


def _end(code: int, location: CheckpointLocation) -> tuple[str, str]:
    """Return what became of a process that gave no answer, and the code of the finding.

    A crash counts as damage of the checkpoint; the cause of any other end is unknown.
    """
    if code >= 0:
        return f"the process that read this checkpoint ended with exit code {code}", MEMORY
    if -code == signal.SIGKILL:
        return "the process that read this checkpoint was killed, perhaps because memory ran out", MEMORY
    with Probe(location) as probe:
        is_hdf5 = probe.head.startswith(b"\x89HDF")
    library = "the HDF5 library" if is_hdf5 else "the process that read this checkpoint"
    return f"{library} crashed with signal {-code}", "hdf5-read"
