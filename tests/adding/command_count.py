"""`ckpt count`: how many tensors there are.

A trial: what CONTRIBUTING.md says of adding a command is followed with this file.
"""

from __future__ import annotations

from ..cli.help import subcommand
from ..cli.options import color_option, json_option, path_argument
from ..operations.look.counting import count_tensors
from ..render import base as render
from ..render.report import opened


@subcommand("count")
@path_argument()
@json_option
@color_option
def command(path: str, *, as_json: bool) -> int:
    """Count the tensors of a checkpoint.

    \b
      ckpt count run/ckpt-10
    """
    with opened(path) as reader:
        count = count_tensors(reader)
    if as_json:
        render.document({"path": path, "tensors": count})
    else:
        render.lines([f"{count:,}"])
    return 0
