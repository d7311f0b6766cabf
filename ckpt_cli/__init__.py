"""What a person does with checkpoints: the `ckpt` command and the live side in `runtime`."""

from .memory import install as _look_for_memory
from .own_formats import install as _install

_install()
_look_for_memory()
