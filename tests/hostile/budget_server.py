"""Runs commands one by one in processes of limited memory and time, and reports the cost of each.

    python -m tests.hostile.budget_server

Each line of the input is a JSON list of arguments, each line of the output a JSON object: `{"code", "signal",
"seconds", "grown", "out", "err"}`. `grown` is the largest resident size, less that of an idle process, in
bytes. `seconds` is CPU time. Everything is imported once, so the cost is that of the file.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import resource
import sys

import h5py
import numpy as np

import ckpt_cli.commands
import ckpt_cli.operations
import formats
from ckpt_cli.cli.main import main

ADDRESS_SPACE = 3 << 30
SECONDS = 60
_SHOWN = 2000


def import_all() -> None:
    """Import every module of the program, and the libraries that it waits with."""
    for package in (formats, ckpt_cli.commands, ckpt_cli.operations):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    assert h5py
    assert np


def _child(line: list[str], out: int, err: int) -> None:
    os.dup2(out, 1)
    os.dup2(err, 2)
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if line:
        main(line)


def measure(line: list[str]) -> dict[str, object]:
    """Run `ckpt` with these arguments, nothing where there are none; return what it cost."""
    files = [os.memfd_create(name) for name in ("out", "err")]
    child = os.fork()
    if not child:
        try:
            _child(line, *files)
        except SystemExit as ended:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(int(ended.code or 0))
        except BaseException:
            sys.excepthook(*sys.exc_info())
            sys.stderr.flush()
            os._exit(99)
        os._exit(0)
    _, status, usage = os.wait4(child, 0)
    texts = []
    for file in files:
        texts.append(os.pread(file, _SHOWN, 0).decode("utf-8", "replace"))
        os.close(file)
    return {
        "code": os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
        "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else None,
        "seconds": usage.ru_utime + usage.ru_stime,
        "resident": usage.ru_maxrss << 10,
        "out": texts[0],
        "err": texts[1],
    }


def serve() -> None:
    import_all()
    nothing = measure([])["resident"]
    assert isinstance(nothing, int)
    for line in sys.stdin:
        found = measure(json.loads(line))
        resident = found.pop("resident")
        assert isinstance(resident, int)
        print(json.dumps({**found, "grown": resident - nothing}), flush=True)


if __name__ == "__main__":
    serve()
