"""The layers of `oracle_layouts` in PyTorch, with weights from safetensors files; run by PyTorch's Python.

A module has the layer's name, so that strict `load_state_dict` reports missing and unexpected keys.
"""

import json
import os

import numpy as np
import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional as F


class Holder(nn.Module):
    """Modules by the names of Keras' layers; a name with a dot is one within another."""

    def __init__(self, **modules):
        super().__init__()
        for name, module in modules.items():
            self.add_module(name, module)


class Separable(nn.Module):
    def __init__(self, depthwise, pointwise):
        super().__init__()
        self.depthwise, self.pointwise = depthwise, pointwise

    def forward(self, x):
        return self.pointwise(self.depthwise(x))


def _first(layer):
    """Run a layer that has channels first on what has them last."""

    def run(holder, x):
        return holder.layer(x.movedim(-1, 1)).movedim(1, -1)

    return lambda: (Holder(layer=layer()), run)


def _last(layer):
    return lambda: (Holder(layer=layer()), lambda holder, x: holder.layer(x))


def _recurrent(layer):
    return lambda: (Holder(layer=layer()), lambda holder, x: holder.layer(x)[0])


def _attention(**options):
    layer = nn.MultiheadAttention(8, 2, batch_first=True, **options)
    return Holder(layer=layer), lambda holder, x: holder.layer(x, x, x)[0]


def _mlp():
    return Holder(a=nn.Linear(6, 6), b=nn.Linear(6, 3)), lambda holder, x: holder.b(F.relu(holder.a(x)))


def _conv_net():
    holder = Holder(
        conv_a=nn.Conv2d(3, 4, 3, padding=1, bias=False),
        bn_a=nn.BatchNorm2d(4, eps=1e-3),
        conv_b=nn.Conv2d(4, 5, 3, stride=2),
        bn_b=nn.BatchNorm2d(5, eps=1e-4),
        logits=nn.Linear(80, 2),
    )

    def run(holder, x):
        h = F.relu(holder.bn_a(holder.conv_a(x.movedim(-1, 1))))
        h = holder.bn_b(holder.conv_b(F.pad(h, (0, 1, 0, 1))))
        return holder.logits(h.permute(0, 2, 3, 1).flatten(1))

    return holder, run


def _stacked():
    holder = Holder(emb=nn.Embedding(11, 4), lstm=nn.LSTM(4, 5, batch_first=True), out=nn.Linear(5, 2))
    return holder, lambda holder, x: holder.out(holder.lstm(holder.emb(x))[0])


def _nested():
    tower = Holder(square=nn.Linear(5, 5), ln=nn.LayerNorm(5, eps=1e-3))
    holder = Holder(tower=tower, last=nn.Linear(5, 5))
    return holder, lambda holder, x: holder.last(holder.tower.ln(holder.tower.square(x)))


MODULES = {
    "Dense": _last(lambda: nn.Linear(7, 5)),
    "Dense square": _last(lambda: nn.Linear(6, 6)),
    "Dense bare": _last(lambda: nn.Linear(6, 6, bias=False)),
    "Conv1D": _first(lambda: nn.Conv1d(3, 4, 3)),
    "Conv2D": _first(lambda: nn.Conv2d(3, 4, (2, 3))),
    "Conv2D square": _first(lambda: nn.Conv2d(3, 3, 3)),
    "Conv2D groups": _first(lambda: nn.Conv2d(4, 6, 3, groups=2)),
    "Conv3D": _first(lambda: nn.Conv3d(3, 4, (2, 3, 2))),
    "Conv1DTranspose": _first(lambda: nn.ConvTranspose1d(3, 4, 3)),
    "Conv2DTranspose": _first(lambda: nn.ConvTranspose2d(3, 4, (2, 3))),
    "Conv3DTranspose": _first(lambda: nn.ConvTranspose3d(3, 4, (2, 3, 2))),
    "DepthwiseConv1D": _first(lambda: nn.Conv1d(3, 6, 3, groups=3)),
    "DepthwiseConv2D": _first(lambda: nn.Conv2d(3, 6, (2, 3), groups=3)),
    "SeparableConv1D": _first(
        lambda: Separable(nn.Conv1d(3, 6, 2, groups=3, bias=False), nn.Conv1d(6, 4, 1))
    ),
    "SeparableConv2D": _first(
        lambda: Separable(nn.Conv2d(3, 3, 2, groups=3, bias=False), nn.Conv2d(3, 4, 1))
    ),
    "BatchNormalization": _first(lambda: nn.BatchNorm2d(3, eps=1e-3)),
    "BatchNormalization bare": _first(lambda: nn.BatchNorm1d(3, eps=1e-3, affine=False)),
    "BatchNormalization shifted": _first(lambda: nn.BatchNorm1d(3, eps=1e-3)),
    "LayerNormalization": _last(lambda: nn.LayerNorm(6, eps=1e-3)),
    "LayerNormalization scaled": _last(lambda: nn.LayerNorm(6, eps=1e-3)),
    "GroupNormalization": _first(lambda: nn.GroupNorm(2, 6, eps=1e-3)),
    "PReLU": _last(lambda: nn.PReLU(6)),
    "PReLU channels": _first(lambda: nn.PReLU(3)),
    "PReLU steps": _first(lambda: nn.PReLU(4)),
    "PReLU shared": _first(nn.PReLU),
    "Embedding": _last(lambda: nn.Embedding(11, 4)),
    "LSTM": _recurrent(lambda: nn.LSTM(3, 4, batch_first=True)),
    "LSTM square": _recurrent(lambda: nn.LSTM(3, 3, batch_first=True, bias=False)),
    "GRU": _recurrent(lambda: nn.GRU(3, 4, batch_first=True)),
    "GRU bare": _recurrent(lambda: nn.GRU(3, 4, batch_first=True, bias=False)),
    "SimpleRNN": _recurrent(lambda: nn.RNN(3, 4, batch_first=True)),
    "Bidirectional LSTM": _recurrent(lambda: nn.LSTM(3, 4, batch_first=True, bidirectional=True)),
    "Bidirectional GRU": _recurrent(lambda: nn.GRU(3, 4, batch_first=True, bidirectional=True)),
    "TimeDistributed": _last(lambda: nn.Linear(3, 4)),
    "MultiHeadAttention": _attention,
    "MultiHeadAttention bare": lambda: _attention(bias=False),
    "MLP": _mlp,
    "convolution net": _conv_net,
    "stacked": _stacked,
    "nested": _nested,
}


def _weights(folder, number):
    """Return a state dict, with the names of modules where layers were saved under others."""
    weights = load_file(os.path.join(folder, f"{number}.safetensors"))
    renamed = os.path.join(folder, f"{number}.names.json")
    if not os.path.exists(renamed):
        return weights
    with open(renamed) as file:
        paths = json.load(file)
    owners = {key: next(old for old in paths if key.startswith(f"{old}.")) for key in weights}
    return {f"{paths[old]}{key.removeprefix(old)}": weights[key] for key, old in owners.items()}


def answers(folder, names):
    """Return how far each module's answer is from the one in `<number>.npz`, relative to the largest."""
    found = {}
    for number, name in enumerate(names):
        holder, run = MODULES[name]()
        holder.load_state_dict(_weights(folder, number), strict=True)
        holder.eval()
        with np.load(os.path.join(folder, f"{number}.npz")) as truth, torch.no_grad():
            y = run(holder, torch.from_numpy(truth["x"])).numpy()
            assert y.shape == truth["y"].shape, (name, y.shape, truth["y"].shape)
            found[name] = float(np.abs(y - truth["y"]).max() / np.abs(truth["y"]).max())
    return found


def trained(folder):
    """Return how far the answer of the model in `net.safetensors` is from the one in `net.npz`."""
    net = Holder(
        wide=nn.Linear(3, 5),
        narrow=nn.Linear(5, 4),
        bn=nn.BatchNorm1d(4, eps=1e-3),
        memory=nn.LSTM(4, 6, batch_first=True),
        gru=nn.GRU(6, 5, batch_first=True),
        out=nn.Linear(5, 2),
    )
    Holder(net=net).load_state_dict(load_file(os.path.join(folder, "net.safetensors")), strict=True)
    net.eval()
    with np.load(os.path.join(folder, "net.npz")) as truth, torch.no_grad():
        h = net.narrow(net.wide(torch.from_numpy(truth["x"])))
        h = net.bn(h.movedim(-1, 1)).movedim(1, -1)
        y = net.out(net.gru(net.memory(h)[0])[0][:, -1]).numpy()
        assert y.shape == truth["y"].shape
        return float(np.abs(y - truth["y"]).max() / np.abs(truth["y"]).max())
