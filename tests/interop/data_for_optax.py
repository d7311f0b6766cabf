"""The data and the first weights of the model that optax, Keras and PyTorch train in `test_optax.py`."""

import numpy as np

RATE = 0.05


def drawn():
    """Return inputs, targets, and kernel and bias of two dense layers."""
    dice = np.random.RandomState(0)
    x, y = dice.randn(32, 6), dice.randn(32, 3)
    weights = [dice.randn(6, 5) / 2, dice.randn(5) / 10, dice.randn(5, 3) / 2, dice.randn(3) / 10]
    return x.astype(np.float32), y.astype(np.float32), [each.astype(np.float32) for each in weights]
