"""Train with optax, save with Orbax and continue from conversions; run by the Python of Orbax."""

import logging

import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp
from data_for_optax import RATE, drawn

logging.disable(logging.WARNING)

TRANSFORMATIONS = {
    "sgd": lambda: optax.sgd(RATE),
    "momentum": lambda: optax.sgd(RATE, momentum=0.9),
    "nesterov": lambda: optax.sgd(RATE, momentum=0.9, nesterov=True),
    "adam": lambda: optax.adam(RATE, eps=1e-7),
    "adamw": lambda: optax.adamw(RATE, eps=1e-7, weight_decay=0.01),
    "adamax": lambda: optax.adamax(RATE, eps=1e-7),
    "rmsprop": lambda: optax.rmsprop(RATE, eps=1e-7),
    "rmsprop momentum": lambda: optax.rmsprop(RATE, eps=1e-7, momentum=0.9),
    "rmsprop centered": lambda: optax.rmsprop(RATE, eps=1e-7, momentum=0.9, centered=True),
    "rmsprop as torch": lambda: optax.rmsprop(RATE, eps=1e-7, momentum=0.9, eps_in_sqrt=False),
    "adagrad": lambda: optax.adagrad(RATE),
    "adadelta": lambda: optax.adadelta(RATE, rho=0.95, eps=1e-7),
    "lion": lambda: optax.lion(RATE / 10, weight_decay=0.0),
    "clip": lambda: optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(RATE, momentum=0.9)),
    "schedule": lambda: optax.rmsprop(optax.constant_schedule(RATE), eps=1e-7, momentum=0.9),
    "inject": lambda: optax.inject_hyperparams(optax.adam)(learning_rate=RATE, eps=1e-7),
    "finite": lambda: optax.apply_if_finite(optax.adam(RATE, eps=1e-7), 5),
    "steps": lambda: optax.MultiSteps(optax.adam(RATE, eps=1e-7), 2).gradient_transformation(),
    "masked": lambda: optax.masked(optax.adam(RATE), {"d0": {"bias": False, "kernel": True}, "d1": True}),
    "two": lambda: optax.multi_transform(
        {"a": optax.adam(RATE), "b": optax.adam(0.1)}, {"d0": "a", "d1": "b"}
    ),
    "average": lambda: optax.chain(optax.ema(0.9), optax.sgd(RATE)),
    "corrected": lambda: optax.rmsprop(RATE, bias_correction=True),
    "amsgrad": lambda: optax.amsgrad(RATE),
    "nadam": lambda: optax.nadam(RATE),
    "adafactor": lambda: optax.adafactor(RATE, min_dim_size_to_factor=2),
}
HALF = ("steps",)
"""Those that take a step for every second batch."""


def _loss(params, x, y):
    hidden = jnp.tanh(x @ params["d0"]["kernel"] + params["d0"]["bias"])
    return jnp.mean((hidden @ params["d1"]["kernel"] + params["d1"]["bias"] - y) ** 2)


def _run(name, state, steps):
    """Return the state after some steps, and the loss before each."""
    x, y, _ = drawn()
    transformation, losses = TRANSFORMATIONS[name](), []
    for _ in range(steps * (2 if name in HALF else 1)):
        loss, gradients = jax.value_and_grad(_loss)(state["params"], x, y)
        updates, kept = transformation.update(gradients, state["opt_state"], state["params"])
        params = optax.apply_updates(state["params"], updates)
        state = {"params": params, "opt_state": kept, "step": state["step"] + 1}
        losses.append(float(loss))
    return state, losses[:: 2 if name in HALF else 1]


def _fresh(name):
    weights = drawn()[2]
    params = {f"d{n}": {"kernel": weights[2 * n], "bias": weights[2 * n + 1]} for n in range(2)}
    params = jax.tree.map(jnp.asarray, params)
    return {"params": params, "opt_state": TRANSFORMATIONS[name]().init(params), "step": jnp.int32(0)}


def trained(paths, steps):
    """Save one state for each name; return the next losses of each."""
    found = {}
    for name, path in paths.items():
        state, _ = _run(name, _fresh(name), steps)
        with ocp.StandardCheckpointer() as checkpointer:
            checkpointer.save(path, state)
        found[name] = _run(name, state, 3)[1]
    return found


def gone_on(paths):
    """Return the step and the next losses of what Orbax restores into the program's own state."""
    found = {}
    for name, path in paths.items():
        with ocp.StandardCheckpointer() as checkpointer:
            state = checkpointer.restore(path, _fresh(name))
        found[name] = [int(np.asarray(state["step"])), _run(name, state, 3)[1]]
    return found
