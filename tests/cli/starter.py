"""Starts `ckpt` in processes of its own, one by one, without importing it for each.

    python -m tests.cli.starter

Reads one order per line, in JSON: `{"arguments", "cwd", "environment"}`. Writes one line of JSON with the
result: exit code, stdout, stderr. That equals a start by a user, except for the time of imports.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, NoReturn

from ckpt_cli.__main__ import run
from tests.hostile.budget_server import import_all


def _become(order: dict[str, Any], out: int, err: int) -> NoReturn:
    for number, file in enumerate((os.open(os.devnull, os.O_RDONLY), out, err)):
        os.dup2(file, number)
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["environment"])
    sys.argv = ["ckpt", *order["arguments"]]
    code = 1
    try:
        run()
    except SystemExit as ended:
        code = int(ended.code or 0)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def started(order: dict[str, Any]) -> tuple[int, str, str]:
    files = [os.memfd_create(name) for name in ("out", "err")]
    child = os.fork()
    if not child:
        _become(order, *files)
    _, status = os.waitpid(child, 0)
    texts = []
    for number in files:
        with os.fdopen(number) as file:
            file.seek(0)
            texts.append(file.read())
    return os.waitstatus_to_exitcode(status), *texts


if __name__ == "__main__":
    import_all()
    for line in sys.stdin:
        print(json.dumps(started(json.loads(line))), flush=True)
