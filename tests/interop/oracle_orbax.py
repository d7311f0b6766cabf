"""Read and write with Orbax, tensorstore and Flax, in the process of `oracle.py`."""

import hashlib
import logging
import os

import flax.serialization
import jax
import ml_dtypes
import numpy as np
import optax
import orbax.checkpoint as ocp

logging.disable(logging.WARNING)

IS_OLD = ocp.__version__.startswith("0.4.")
NARROW = ("int4", "uint4", "int2", "uint2")


def apis():
    """Return the names of the interfaces by which this release restores."""
    return ["pytree", "standard", "manager", "msgpack"] + ([] if IS_OLD else ["v1"])


def restore(path, api):
    """Return the leaves of a checkpoint, as `leaves` does; of a manager, the one of the step."""
    return leaves(_tree(path, api))


def _tree(path, api):
    if api == "msgpack":
        with open(path, "rb") as file:
            return flax.serialization.msgpack_restore(file.read())
    if api == "manager":
        directory, step = os.path.split(path)
        manager = ocp.CheckpointManager(directory, *([ocp.PyTreeCheckpointer()] if IS_OLD else []))
        assert int(step) in manager.all_steps(), manager.all_steps()
        return (
            manager.restore(int(step))
            if IS_OLD
            else manager.restore(int(step), args=ocp.args.PyTreeRestore())
        )
    if api == "v1":
        import orbax.checkpoint.experimental.v1 as v1

        return v1.load_pytree(path)
    checkpointer = ocp.StandardCheckpointer() if api == "standard" else ocp.PyTreeCheckpointer()
    return checkpointer.restore(path)


def leaves(tree, at=()):
    """Return the dtype, shape and SHA-256 of each leaf by its path, or the value if it is not an array."""
    if isinstance(tree, dict):
        found = {}
        for key, value in tree.items():
            found |= leaves(value, (*at, str(key)))
        return found or {"/".join(at): "empty"}
    if isinstance(tree, list | tuple):
        return leaves({str(number): value for number, value in enumerate(tree)}, at)
    if tree is None or isinstance(tree, str):
        return {"/".join(at): tree}
    is_key = isinstance(tree, jax.Array) and jax.dtypes.issubdtype(tree.dtype, jax.dtypes.prng_key)
    array = np.asarray(jax.random.key_data(tree) if is_key else tree)
    name = array.dtype.name
    if name in NARROW:
        array = array.astype(np.uint8 if name.startswith("u") else np.int8)
    digest = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
    return {"/".join(at): [name, list(array.shape), digest]}


def save(path, seed):
    """Save a tree that `seed` decides, by an interface that it decides; return its leaves."""
    dice = np.random.default_rng(seed)
    tree = _random_tree(dice, 3)
    kind = seed % (3 if IS_OLD else 4)
    if kind == 2:
        with open(path, "wb") as file:
            file.write(flax.serialization.to_bytes(tree))
    elif kind == 3:
        import orbax.checkpoint.experimental.v1 as v1

        v1.save_pytree(path, tree)
    else:
        handler = ocp.PyTreeCheckpointHandler(use_ocdbt=kind == 0, use_zarr3=bool(seed & 8) and not IS_OLD)
        checkpointer = ocp.Checkpointer(handler)
        checkpointer.save(path, tree)
    return leaves(tree)


_DTYPES = (
    "float32",
    "float16",
    "int8",
    "int32",
    "uint8",
    "int64",
    "float64",
    "bool",
    "bfloat16",
    "float8_e4m3fn",
)


def _random_tree(dice, depth):
    tree = {}
    for number in range(int(dice.integers(1, 5))):
        name = f"{'abc'[number % 3]}{number}"
        if depth and dice.random() < 0.4:
            tree[name] = _random_tree(dice, depth - 1)
            continue
        chosen = _DTYPES[int(dice.integers(len(_DTYPES)))]
        dtype = np.dtype(getattr(ml_dtypes, chosen, chosen))
        shape = tuple(int(each) for each in dice.integers(1, 9, int(dice.integers(0, 4))))
        values = dice.integers(0, 2 if dtype == np.bool_ else 100, shape)
        tree[name] = jax.numpy.asarray(values.astype(dtype)) if dtype.itemsize < 8 else values.astype(dtype)
    return tree


def verdict(checkpoint, target):
    """Return why a checkpoint is not restored into the tree of another; None where it is."""
    tree = jax.tree.map(jax.numpy.asarray, ocp.PyTreeCheckpointer().restore(target))
    args = ocp.checkpoint_utils.construct_restore_args(tree)
    try:
        ocp.PyTreeCheckpointer().restore(checkpoint, item=tree, restore_args=args)
    except ValueError as error:
        return str(error)[:500]
    return None


def _layers(stacked):
    """Return a trained state like MaxText's: layers one by one, or stacked on axis 1."""
    draw = np.random.default_rng(5)

    def normal(*shape):
        return draw.normal(size=shape).astype(np.float32)

    layers = [{"mlp": {"wi": {"kernel": normal(4, 6)}}, "norm": {"scale": normal(4)}} for _ in range(3)]
    rest = {"decoder_norm": {"scale": normal(4)}}
    if stacked:
        held = {"layers": jax.tree_util.tree_map(lambda *parts: np.stack(parts, axis=1), *layers)}
    else:
        held = {f"layers_{number}": layer for number, layer in enumerate(layers)}
    params = {"params": {"decoder": {**rest, **held}}}
    rule = optax.adamw(1e-3)
    gradients = jax.tree_util.tree_map(lambda array: array * 0.5, params)
    _, state = rule.update(gradients, rule.init(params), params)
    return {"step": np.asarray(1, np.int32), "params": params, "opt_state": state}


def save_layers(path, stacked):
    """Save that state by StandardCheckpointer."""
    checkpointer = ocp.StandardCheckpointer()
    checkpointer.save(path, _layers(stacked))
    checkpointer.wait_until_finished()


def restores_layers(path, stacked):
    """Return whether a new program of that kind restores this state, lists and empty states included."""
    wanted = _layers(stacked)
    found = ocp.StandardCheckpointer().restore(path, wanted)
    return bool(jax.tree_util.tree_all(jax.tree_util.tree_map(np.array_equal, found, wanted)))
