"""The process that holds a lock, in a form that other machines can print and this one can look up.

proc_pid_stat(5), pid_namespaces(7)
"""

from __future__ import annotations

import os
from typing import NamedTuple


class Process(NamedTuple):
    """A process: `machine` names the kernel and the namespace that its number counts in."""

    pid: int
    host: str
    machine: str
    started: str

    @classmethod
    def own(cls) -> Process:
        return cls(os.getpid(), os.uname().nodename, machine(), started(os.getpid()))

    @property
    def has_ended(self) -> bool:
        """Whether it is known to have ended; False of a process of another machine."""
        return bool(self.machine) and self.machine == machine() and started(self.pid) != self.started

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


def machine() -> str:
    """Return the machine and PID namespace, or an empty string if the system does not show them."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return f"{file.read().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:  # not Linux
        return ""


def started(pid: int) -> str:
    """Return when a process of this machine started, in ticks; empty if there is none, or it is over."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]
