"""The model of `oracle_optax.py` in PyTorch; run by PyTorch's Python."""

import torch
from data_for_optax import RATE, drawn
from torch import nn

_ADAM = ("Adam", {"eps": 1e-7})
_RMSPROP = {"alpha": 0.9, "eps": 1e-7}
OPTIMIZERS = {
    "sgd": ("SGD", {}),
    "momentum": ("SGD", {"momentum": 0.9}),
    "nesterov": ("SGD", {"momentum": 0.9, "nesterov": True}),
    "adamw": ("AdamW", {"eps": 1e-7, "weight_decay": 0.01}),
    "rmsprop": ("RMSprop", _RMSPROP),
    "rmsprop as torch": ("RMSprop", {**_RMSPROP, "momentum": 0.9}),
    "rmsprop centered": ("RMSprop", {**_RMSPROP, "momentum": 0.9, "centered": True}),
    "adagrad": ("Adagrad", {"eps": 1e-7, "initial_accumulator_value": 0.1}),
}


def _fresh(name):
    model = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))
    weights = drawn()[2]
    for at in (0, 2):
        model[at].weight.data = torch.from_numpy(weights[at].T.copy())
        model[at].bias.data = torch.from_numpy(weights[at + 1])
    kind, more = OPTIMIZERS.get(name, _ADAM)
    return model, getattr(torch.optim, kind)(list(model.named_parameters()), RATE, **more)


def _losses(model, optimizer, steps):
    x, y = map(torch.from_numpy, drawn()[:2])
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        losses.append(loss.item())
        loss.backward()
        optimizer.step()
    return losses


def trained(paths, steps):
    """Save one training checkpoint for each name; return the next losses of each."""
    found = {}
    for name, path in paths.items():
        model, optimizer = _fresh(name)
        _losses(model, optimizer, steps)
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
        found[name] = _losses(model, optimizer, 3)
    return found


def gone_on(paths):
    """Return the step, None for SGD, and the next losses of each training checkpoint."""
    found = {}
    for name, path in paths.items():
        model, optimizer = _fresh(name)
        saved = torch.load(path)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        steps = {int(state["step"]) for state in optimizer.state.values() if "step" in state}
        found[name] = [max(steps, default=None), _losses(model, optimizer, 3)]
    return found


def odd(paths):
    """Save training checkpoints of Adam that name no parameters, have two groups, or count by integers."""
    for name, path in paths.items():
        model, optimizer = _fresh("adam")
        named = list(model.named_parameters())
        if name == "unnamed":
            optimizer = torch.optim.Adam(model.parameters(), RATE)
        elif name == "groups":
            groups = [{"params": named[:2], "lr": 0.1}, {"params": named[2:]}]
            optimizer = torch.optim.Adam(groups, RATE)
        elif name == "nadam":
            optimizer = torch.optim.NAdam(named, RATE)
        elif name == "amsgrad":
            optimizer = torch.optim.Adam(named, RATE, amsgrad=True)
        _losses(model, optimizer, 2)
        saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        for number, state in saved["optimizer"]["state"].items():
            if name == "integers":
                state["step"] = int(state["step"])
            elif name == "counts":
                state["step"] += number
        torch.save(saved, path)
