"""`ckpt.sign`: a signed statement of every tensor."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.errors import ConversionError

from ..operations.convert.single_file import refuse_single, write_single
from ..operations.reporting import opened
from .calls import collecting, lent, location, public, target_location
from .moment import moment
from .rules import OptionError

if TYPE_CHECKING:
    from formats.location import Location
    from formats.store.work.workers import Workers

    from ..operations.reporting import Reporter
    from .calls import PathLike

__all__ = ["SignOptions", "SignResult", "sign", "sign_tensors"]


class SignOptions(NamedTuple):
    """The key that signs, None for the one in CKPT_SIGN_KEY, and how the signature is written."""

    key: Location | None = None
    overwrite: bool = False
    dry_run: bool = False


class SignResult(NamedTuple):
    """What was signed.

    `tensors` counts the tensors, and `identity` is the one of `ckpt show --digest`. `sha256` is that of the
    file that was written, None with `dry_run`.
    """

    path: str
    output: str
    tensors: int
    sha256: str | None
    identity: str
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the document of `ckpt sign --json`, without `schema`."""
        return {name: getattr(self, name) for name in self._fields[:5]}


def sign_tensors(
    path: Location, target: Location, options: SignOptions, workers: Workers, reporter: Reporter
) -> SignResult:
    """Sign the tensors of a checkpoint, or those of a listing with SHA-256 digests."""
    from formats.model.identity import canonical_tensors, identity_of

    from ..operations.signing.envelope import LARGEST, sealed
    from ..operations.signing.keys import ENVIRONMENT, private_key
    from ..operations.signing.statement import payload_of

    if options.key is None and not os.environ.get(ENVIRONMENT):
        raise OptionError(f"no private key is given; pass --key PEM or set {ENVIRONMENT}")
    at = moment()
    key = private_key(options.key)
    refuse_single(target, overwrite=options.overwrite)
    with opened(path, reporter) as reader:
        total = sum(spec.nbytes or 0 for spec in reader.specs.values())
        with reporter.progress(total, reader.location.name) as advance:
            tensors = [*canonical_tensors(reader, workers.expecting(total), advance)]
        if not tensors:
            message = (
                "this checkpoint has no tensors to sign; strings, variants and the save counter do not count"
            )
            raise ConversionError(message, path=reader.location.path)
        envelope = sealed(payload_of(reader, tensors, at), key)
        if len(envelope) > LARGEST:
            message = (
                f"the signature would have {len(envelope):,} bytes, but at most {LARGEST:,} can be verified"
            )
            raise ConversionError(message, path=reader.location.path)
        if not options.dry_run:
            write_single(target, [envelope], overwrite=options.overwrite, prove=reader.check_unchanged)
        digest = None if options.dry_run else hashlib.sha256(envelope).hexdigest()
        where = str(reader.location.path)
    return SignResult(where, str(target), len(tensors), digest, identity_of(tensors))


@public()
def sign(
    path: PathLike,
    *,
    output: PathLike,
    key: PathLike | None = None,
    overwrite: bool = False,
    dry_run: bool = False,
    jobs: int | None = None,
) -> SignResult:
    """Sign the tensors of a checkpoint: write a statement of each tensor's dtype, shape and SHA-256.

    `key` is a PEM file with an Ed25519 or ECDSA P-256 private key that only its owner can read. Without it,
    the environment variable CKPT_SIGN_KEY has the PEM text. `output` is a DSSE envelope; `ckpt.verify`
    compares any copy or export of the checkpoint with it. `path` can also be a saved listing with SHA-256
    digests. With `dry_run`, everything is read and nothing is written.

    Raises CheckpointError, and ValueError for invalid arguments.

    ```python
    ckpt.sign("run/ckpt-10", output="model.sig", key="private.pem")
    assert ckpt.verify("run/ckpt-10", signature="model.sig", public_key="public.pem").ok
    ```
    """
    options = SignOptions(None if key is None else location(key), overwrite, dry_run)
    with collecting() as collected, lent(jobs) as workers:
        done = sign_tensors(location(path), target_location(output), options, workers, collected)
        return done._replace(notes=tuple(collected.notes), warnings=tuple(collected.warnings))
