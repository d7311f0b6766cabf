"""The public functions of `import ckpt_cli`; the commands call the same functions."""
