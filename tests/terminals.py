"""A process on a pseudo-terminal, and all that it printed there."""

from __future__ import annotations

import os
import pty
import subprocess
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_END = b"\0end of the output\0"


def run_on_terminal(
    command: Sequence[str], environment: Mapping[str, str], **options: Any
) -> tuple[int, str, str]:
    """Return the exit code of a process, what it printed on a terminal, and its stderr if that is a pipe.

    If the last side of a terminal is closed, Linux may drop output that has not been read. So this side stays
    open, and prints a mark after the process has ended.
    """
    master, slave = pty.openpty()
    streams = {name: options.pop(name, slave) for name in ("stdout", "stderr")}
    process = subprocess.Popen(command, stdin=slave, env=environment, **streams, **options)
    errors: list[bytes] = []

    def end() -> None:
        errors.append(process.communicate()[1] or b"")
        os.write(slave, _END)

    ending = threading.Thread(target=end)
    ending.start()
    out = b""
    while not out.endswith(_END):
        out += os.read(master, 65536)
    ending.join()
    os.close(master)
    os.close(slave)
    text = out.removesuffix(_END).decode().replace("\r\n", "\n")
    return process.returncode, text, errors[0].decode()
