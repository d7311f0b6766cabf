"""`ckpt sign`: a signed statement of every tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from formats.core.words import counted

from ..api.sign import SignOptions, sign_tensors
from ..cli.help import subcommand
from ..cli.options import (
    LocalPath,
    color_option,
    dry_run_option,
    jobs_option,
    json_option,
    output_option,
    overwrite_option,
    path_argument,
)
from ..render import base as render
from ..render.report import SCREEN

if TYPE_CHECKING:
    from formats.location import Location
    from formats.store.work.workers import Workers


@subcommand("sign")
@path_argument()
@click.option(
    "--key",
    type=LocalPath(),
    metavar="PEM",
    help="Sign with this private key. [default: text in CKPT_SIGN_KEY]"
    "\fThe file must be readable only by its owner (mode 600).",
)
@output_option("FILE", "Write the signature to FILE.", required=True)
@overwrite_option("Replace FILE if it exists.")
@dry_run_option("Read and sign everything, but write nothing.")
@jobs_option
@json_option
@color_option
def command(path: Location, target: Location, workers: Workers, *, as_json: bool, **options: Any) -> int:
    """Sign the tensors of a checkpoint.

    Writes a signed statement with the name, dtype, shape and SHA-256 of every tensor. The
    signature is for the tensors, not for a file. So ckpt verify PATH --signature FILE accepts any
    copy or export of the checkpoint, in any format. Strings, variants and the save counter are not
    signed. PATH can also be a saved listing with SHA-256 digests.

    FILE is an in-toto statement in a DSSE envelope. Keys are Ed25519 or ECDSA P-256 in PEM format.
    SOURCE_DATE_EPOCH sets the time in the statement.

    \b
      ckpt sign run/ckpt-10 --key private.pem -o model.sig
      ckpt verify model.npz --signature model.sig --public-key public.pem
      openssl genpkey -algorithm ed25519 -out private.pem && chmod 600 private.pem
      openssl pkey -in private.pem -pubout -out public.pem
    """
    parsed = SignOptions(options["key"], options["overwrite"], options["dry_run"])
    done = sign_tensors(path, target, parsed, workers, SCREEN)
    if as_json:
        render.document(done.to_dict())
    elif render.is_terminal():
        what = "would write" if parsed.dry_run else "wrote"
        render.title(f"{what} {done.output}", f"{counted(done.tensors, 'tensor')}, {done.identity}")
    else:
        render.tsv([(done.output, done.tensors, done.identity)])
    return 0
