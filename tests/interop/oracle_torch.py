"""The state of PyTorch's optimizers after three steps, and after two more: `python oracle_torch.py PATH`.

Run by PyTorch's Python (2.13); the tests read the file that it wrote, tests/data/optimizers/torch.npz.
"""

import sys

import numpy as np
import torch

RATE = 0.01
SETTINGS = {
    "Adam": {},
    "Adam amsgrad": {"amsgrad": True},
    "AdamW": {"weight_decay": 0.01},
    "Adamax": {},
    "NAdam": {},
    "SGD": {"momentum": 0.9},
    "SGD nesterov": {"momentum": 0.9, "nesterov": True},
    "Adagrad": {},
    "RMSprop": {"alpha": 0.9},
    "RMSprop momentum": {"alpha": 0.9, "momentum": 0.5},
    "RMSprop centered": {"alpha": 0.9, "momentum": 0.5, "centered": True},
    "Adadelta": {"rho": 0.95},
}


def main(path):
    random = np.random.RandomState(0)
    gradients = random.randn(5, 2, 3).astype("f")
    arrays = {"gradients": gradients}
    for name, settings in SETTINGS.items():
        called = name.partition(" ")[0]
        # Where epsilon is added differs from TensorFlow's: this one is too small to matter.
        epsilon = {} if called == "SGD" else {"eps": 1e-12}
        weight = torch.nn.Parameter(torch.ones(2, 3))
        optimizer = getattr(torch.optim, called)([weight], lr=RATE, **epsilon, **settings)
        for number, gradient in enumerate(gradients, 1):
            weight.grad = torch.from_numpy(gradient)
            optimizer.step()
            if number == 3:
                arrays[f"{name}/before"] = weight.detach().numpy().copy()
                for slot, value in optimizer.state[weight].items():
                    arrays[f"{name}/state/{slot}"] = np.array(value)
        arrays[f"{name}/after"] = weight.detach().numpy().copy()
    np.savez(path, **arrays)


if __name__ == "__main__":
    main(sys.argv[1])
