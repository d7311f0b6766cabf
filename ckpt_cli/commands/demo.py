"""`ckpt demo`: run directories to try everything on."""

from __future__ import annotations

import os
import shlex
from typing import Any

import click

from formats.errors import CheckpointExistsError

from ..options import color_option, completing, dry_run_option, json_option, overwrite_option, path_argument
from ..render import base as render

RUNS = {"tf_ckpts": 0.1, "tf_ckpts_slower": 0.02}
"""Each run's directory and its learning rate: the guide's, and another."""

_TRY = (
    ("ls", "{first}"),
    ("ls", "{first}/ckpt-5"),
    ("show", "{first}", "net/l1/kernel"),
    ("stats", "{first}", "--kind", "variable,slot"),
    ("verify", "{first}"),
    ("verify", "{first}/ckpt-5", "--roundtrip", "name"),
    ("diff", "{first}/ckpt-4", "{first}/ckpt-5"),
    ("diff", "{first}", "{second}", "--kind", "variable"),
    ("graph", "{first}"),
    ("match", "{first}", "{second}"),
    ("log", "{first}"),
    ("convert", "{first}", "{directory}/weights.safetensors", "--weights-only"),
)


@click.command("demo")
@path_argument("directory", metavar="DIR", shell_complete=completing("directories"))
@overwrite_option("Replace the runs that an earlier demo left.")
@dry_run_option("Print what would be written, and train nothing.")
@json_option
@color_option
def command(directory: str, *, overwrite: bool, dry_run: bool, as_json: bool) -> int:
    """Train a small model, for run directories to try things on.

    The model and the loop are those of TensorFlow's checkpoint guide: one Dense layer,
    Adam, 50 steps, a checkpoint every tenth, the three latest kept.  DIR/tf_ckpts is
    the guide's run, DIR/tf_ckpts_slower the same from the same first values with a
    lower learning rate.  Prints commands to go on with.

    \b
      ckpt demo playground
    """
    places = {name: os.path.join(directory, name) for name in RUNS}
    for path in places.values():
        if os.path.lexists(path) and not overwrite:
            raise CheckpointExistsError("exists already", path=path, hints=("--overwrite replaces it",))
    runs = [
        {"directory": path, "learning_rate": RUNS[name], **_run(path, RUNS[name], dry_run=dry_run)}
        for name, path in places.items()
    ]
    commands = [shlex.join(words) for words in _next_steps(directory, list(places.values()))]
    if as_json:
        render.document({"directory": directory, "runs": runs, "try": commands})
        return 0
    verb = "would write" if dry_run else "wrote"
    for run in runs:
        loss = "" if run["loss"] is None else f", loss {run['loss']:.2f}"
        names = ", ".join(run["checkpoints"])
        detail = f"{names or 'three checkpoints'}: learning rate {run['learning_rate']}{loss}"
        render.note(f"{verb} {run['directory']}: {detail}")
    if not dry_run:
        render.note("try:")
        render.lines(render.escape(line) for line in commands)
    return 0


def _run(path: str, learning_rate: float, *, dry_run: bool) -> dict[str, Any]:
    if dry_run:
        return {"steps": None, "loss": None, "checkpoints": []}
    from formats.store.links import followed
    from formats.store.staging import Staging

    from ..runtime.guide import train

    path = followed(path)
    name = os.path.basename(path)
    staging = Staging(path)
    try:
        training = train(staging.path(name), learning_rate)
        staging.sync()
        is_replacing = os.path.lexists(path)
        if is_replacing:
            staging.set_aside([name])
        staging.move_in()
        if is_replacing:
            staging.forget_aside()
    finally:
        staging.remove()
    return {"steps": training.steps, "loss": training.loss, "checkpoints": list(training.checkpoints)}


def _next_steps(directory: str, runs: list[str]) -> list[list[str]]:
    """Return commands on what was written, of those that this program has."""
    here = os.path.dirname(os.path.abspath(__file__))
    names = {"directory": directory, "first": runs[0], "second": runs[1]}
    return [
        ["ckpt", *(word.format_map(names) for word in words)]
        for words in _TRY
        if os.path.exists(os.path.join(here, f"{words[0]}.py"))
    ]
