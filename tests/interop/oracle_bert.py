"""docs/bert.py with the optimizer that Google's BERT has, whose moments are variables of its own.

The new program's AdamW corrects bias, the old one does not: after many steps that is the same.
Run by TensorFlow's Python.
"""

import contextlib
import importlib.util
import os

import tensorflow as tf
from oracle_optimizers import AdamWeightDecay

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(os.path.dirname(os.path.dirname(HERE)), "docs", "bert.py")


def losses(folder, command, path=None, *, google=False):
    """Run a command of the program in a folder; return the steps and losses that it prints."""
    spec = importlib.util.spec_from_file_location("bert", PROGRAM)
    bert = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bert)
    if google:
        bert.old_optimizer = AdamWeightDecay
        bert.new_optimizer = lambda: tf.keras.optimizers.AdamW(0.01, weight_decay=0.01, epsilon=1e-6)
    os.makedirs(folder, exist_ok=True)
    with contextlib.chdir(folder):
        return list(getattr(bert, command)(*([path] if path else [])))
