"""Three more steps of PyTorch's optimizers, from checkpoints that were converted; run by PyTorch's Python."""

import os

import numpy as np
import torch
from torch import nn

STEPS = 3
NAMES = {"kernel": "weight", "bias": "bias", "gamma": "weight", "beta": "bias"}


class Net(nn.Module):
    """The layers in another order than the model's, which `param_names` makes up for."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(2, 3, 2)
        self.bn = nn.BatchNorm1d(4, eps=1e-3)
        self.b = nn.Linear(4, 4, bias=False)
        self.a = nn.Linear(4, 4)


def _turned(array):
    return torch.from_numpy(array.transpose().copy())


def gone_on(folder, classes):
    """Return by number how far weights are from Keras' after three more steps, relative to the changes."""
    found = {}
    for number, (name, defaults) in enumerate(classes):
        saved = torch.load(os.path.join(folder, f"{number}.pt"), weights_only=True)
        net = Net()
        net.load_state_dict(saved["model"], strict=True)
        names = saved["optimizer"]["param_groups"][0]["param_names"]
        optimizer = getattr(torch.optim, name)([net.get_parameter(each) for each in names], **defaults)
        assert optimizer.param_groups[0].keys() <= saved["optimizer"]["param_groups"][0].keys()
        optimizer.load_state_dict(saved["optimizer"])
        before = {each: parameter.detach().clone() for each, parameter in net.named_parameters()}
        with np.load(os.path.join(folder, f"{number}.npz")) as truth:
            keys = [key.removeprefix("after/") for key in truth if key.startswith("after/")]
            of = {key: f"{key.split('/')[0]}.{NAMES[key.split('/')[1]]}" for key in keys}
            assert sorted(of.values()) == sorted(names)
            for step in range(STEPS):
                for key in keys:
                    net.get_parameter(of[key]).grad = _turned(truth[f"gradient/{step}/{key}"])
                optimizer.step()
            distances = []
            for key in keys:
                after = _turned(truth[f"after/{key}"])
                change = (after - before[of[key]]).abs().max()
                assert change > 1e-4, (name, key, change)
                distances.append(float((net.get_parameter(of[key]) - after).abs().max() / change))
            found[number] = max(distances)
    return found
