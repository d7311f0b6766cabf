"""`ckpt demo`: run directories to try everything on."""

from __future__ import annotations

import os
import shlex
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from formats.errors import CheckpointExistsError
from formats.location import Location, local_location

from ..cli.help import subcommand
from ..cli.options import (
    color_option,
    completing,
    dry_run_option,
    json_option,
    overwrite_option,
    path_argument,
)
from ..render import base as render

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from formats.store.local.staging import Staging


RUNS = {"tf_ckpts": 0.1, "tf_ckpts_slower": 0.02}
"""Each run's directory and its learning rate: the guide's, and another."""

_UNTRAINED: dict[str, Any] = {"steps": None, "loss": None, "checkpoints": []}
"""The facts of a run before its training."""

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


@subcommand("demo")
@path_argument("directory", metavar="DIR", shell_complete=completing("directories"))
@overwrite_option("Replace the runs of an earlier demo.")
@dry_run_option("Print what would be written, without training.")
@json_option
@color_option
def command(directory: Location, *, overwrite: bool, dry_run: bool, as_json: bool) -> int:
    """Train a small model and save checkpoints to try ckpt on.

    demo uses the model and the training loop of TensorFlow's checkpoint guide. It trains one Dense
    layer with Adam for 50 steps. It saves a checkpoint every 10 steps, and keeps the three latest.
    DIR/tf_ckpts is the run of the guide. DIR/tf_ckpts_slower starts from the same values with a
    lower learning rate. At the end, demo prints commands to try next.

    \b
      ckpt demo playground
    """
    places = {name: directory / name for name in RUNS}
    for path in places.values():
        if path.exists() and not overwrite:
            raise CheckpointExistsError(
                "this path already exists", path=path, hints=("pass --overwrite to replace it",)
            )
    found = dict.fromkeys(places.values(), _UNTRAINED) if dry_run else _train(places)
    runs = [{"directory": path, "learning_rate": RUNS[name], **found[path]} for name, path in places.items()]
    commands = [shlex.join(words) for words in _next_steps(directory, list(places.values()))]
    if as_json:
        render.document({"directory": directory, "runs": runs, "try": commands})
        return 0
    verb = "would write" if dry_run else "wrote"
    for run in runs:
        loss = "" if run["loss"] is None else f", loss {run['loss']:.2f}"
        names = ", ".join(run["checkpoints"])
        detail = f"{names or 'three checkpoints'} with learning rate {run['learning_rate']}{loss}"
        render.note(f"{verb} {run['directory']}: {detail}")
    if not dry_run:
        render.note("try:")
        render.lines(render.escape(line) for line in commands)
    return 0


def _train(places: Mapping[str, Location]) -> dict[Location, dict[str, Any]]:
    """Train every run next to its final path; once all are complete, the first one is moved."""
    from formats.store.local.links import followed
    from formats.store.local.staging import Staging

    from ..runtime.guide import train

    found, staged = {}, []
    with ExitStack() as stack:
        for name, path in places.items():
            staging = Staging(followed(path))
            stack.callback(staging.remove)
            staged.append(staging)
            training = train(staging.path(staging.target.name), RUNS[name])
            staging.sync()
            checkpoints = list(training.checkpoints)
            found[path] = {"steps": training.steps, "loss": training.loss, "checkpoints": checkpoints}
        for staging in staged:
            _move_in(staging)
    return found


def _move_in(staging: Staging) -> None:
    is_replacing = staging.target.exists()
    if is_replacing:
        staging.move_old_aside([staging.target.name])
    staging.move_in()
    if is_replacing:
        staging.discard_old_set()


def _next_steps(directory: str, runs: Sequence[str]) -> list[list[str]]:
    """Return commands on what was written, of those that this program has."""
    here = local_location(os.path.dirname(__file__))
    names = {"directory": directory, "first": runs[0], "second": runs[1]}
    return [
        ["ckpt", *(word.format_map(names) for word in words)]
        for words in _TRY
        if (here / f"{words[0]}.py").is_file()
    ]
