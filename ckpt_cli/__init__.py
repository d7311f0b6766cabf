"""What a person does with checkpoints: the `ckpt` command and the live side in `runtime`."""
