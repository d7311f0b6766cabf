"""What a person does with checkpoints: the `ckpt` command and the live side in `runtime`."""

__version__ = "0.1.0"
