"""Three more steps of PyTorch's optimizers, from checkpoints that were converted; run by PyTorch's Python."""

import os

import numpy as np
import torch
from torch import nn

STEPS = 3
NAMES = {"kernel": "weight", "bias": "bias", "gamma": "weight", "beta": "bias"}
GATES = {"kernel": "gru.weight_ih_l0", "recurrent_kernel": "gru.weight_hh_l0"}
PARTS = ("query", "key", "value")


class Net(nn.Module):
    """The layers in another order than the model's, which `param_names` makes up for."""

    def __init__(self):
        super().__init__()
        self.mha = nn.MultiheadAttention(4, 2, batch_first=True)
        self.conv = nn.Conv1d(2, 3, 2)
        self.bn = nn.BatchNorm1d(4, eps=1e-3)
        self.gru = nn.GRU(2, 4, batch_first=True)
        self.b = nn.Linear(4, 4, bias=False)
        self.a = nn.Linear(4, 4)


def _in_pytorch(arrays):
    """Return arrays of Keras' variables, by name, as PyTorch's parameters."""
    found, parts = {}, {}
    for key, array in arrays.items():
        layer, *inner, weight = key.split("/")
        if layer == "gru":
            update, reset, new = np.split(array, 3, -1)
            gated = np.concatenate([reset, update, new], -1)
            if weight == "bias":
                found["gru.bias_ih_l0"], found["gru.bias_hh_l0"] = gated
            else:
                found[GATES[weight]] = gated.T
        elif layer == "mha" and inner[-1] in PARTS:
            parts[inner[-1], weight] = array.reshape(4, 4).T if weight == "kernel" else array.reshape(4)
        elif layer == "mha":
            found[f"mha.out_proj.{NAMES[weight]}"] = array.reshape(-1, 4).T if weight == "kernel" else array
        else:
            found[f"{layer}.{NAMES[weight]}"] = array.T
    for weight in ("kernel", "bias"):
        found[f"mha.in_proj_{NAMES[weight]}"] = np.concatenate([parts[part, weight] for part in PARTS])
    return {name: torch.from_numpy(array.copy()) for name, array in found.items()}


def _read(saved, prefix):
    arrays = {key.removeprefix(prefix): saved[key] for key in saved if key.startswith(prefix)}
    return _in_pytorch(arrays)


def _step(net, optimizer, drawn):
    for step in range(STEPS):
        for name, gradient in _read(drawn, f"gradient/{step}/").items():
            net.get_parameter(name).grad = gradient
        optimizer.step()


def _farthest(found, wanted, before):
    """Return how far parameters are apart at most, relative to what changed them."""
    distances = []
    for name, value in wanted.items():
        change = (value - before[name]).abs().max()
        assert change > 1e-4, (name, change)
        distances.append(float((found[name] - value).abs().max() / change))
    return max(distances)


def _parameters(net):
    return {name: parameter.detach().clone() for name, parameter in net.named_parameters()}


def gone_on(folder, classes):
    """Return by number how far weights are from Keras' after three more steps, relative to the changes.

    `<number>_on.pt` is what is then saved, `<number>_torch.pt` the weights after three more.
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
        before = _parameters(net)
        with np.load(os.path.join(folder, f"{number}.npz")) as truth:
            wanted = _read(truth, "after/")
            assert sorted(wanted) == sorted(names)
            _step(net, optimizer, truth)
            found[number] = _farthest(_parameters(net), wanted, before)
            state = {"model": net.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save(state, os.path.join(folder, f"{number}_on.pt"))
            _step(net, optimizer, truth)
        torch.save(_parameters(net), os.path.join(folder, f"{number}_torch.pt"))
    return found


def compared(folder, count):
    """Return by number how far what Keras continued to is from what PyTorch did, relative to the changes."""
    found = {}
    for number in range(count):
        wanted = torch.load(os.path.join(folder, f"{number}_torch.pt"), weights_only=True)
        with np.load(os.path.join(folder, f"{number}_keras.npz")) as saved:
            found[number] = _farthest(_read(saved, "after/"), wanted, _read(saved, "before/"))
    return found
