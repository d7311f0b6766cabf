"""What a person does with checkpoints: the `ckpt` command and the live side in `runtime`."""

from .own_formats import install as _install

_install()
