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


def _step(net, optimizer, names, drawn):
    for step in range(STEPS):
        for key, name in names.items():
            net.get_parameter(name).grad = _turned(drawn[f"gradient/{step}/{key}"])
        optimizer.step()


def gone_on(folder, classes):
    """Return by number how far weights are from Keras' after three more steps, relative to the changes.

    `<number>_on.pt` is what is then saved, `<number>_torch.npz` the weights after three more, in Keras' axes.
    """
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
            _step(net, optimizer, of, truth)
            distances = []
            for key in keys:
                after = _turned(truth[f"after/{key}"])
                change = (after - before[of[key]]).abs().max()
                assert change > 1e-4, (name, key, change)
                distances.append(float((net.get_parameter(of[key]) - after).abs().max() / change))
            found[number] = max(distances)
            state = {"model": net.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save(state, os.path.join(folder, f"{number}_on.pt"))
            _step(net, optimizer, of, truth)
        weights = {key: net.get_parameter(name).detach().numpy().transpose() for key, name in of.items()}
        np.savez(os.path.join(folder, f"{number}_torch.npz"), **weights)
    return found
