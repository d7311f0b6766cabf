"""`python -m ckpt_cli` is `ckpt`."""

from .main import main

main()
