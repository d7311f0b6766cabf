"""Models of transformers 4.41 in TensorFlow and Flax, and what it makes of them in PyTorch.

Run by the Python of an environment with transformers 4.41.2, TensorFlow 2.15, Flax 0.8.3 and PyTorch.
The values of a tensor follow from its name (`tests.hub.values`), so that a test needs names alone.
"""

import hashlib
import json
import os
import warnings

import jax
import jax.numpy as jnp
import torch
import transformers
from flax.traverse_util import flatten_dict, unflatten_dict
from hub_models import VARIANTS, small_config
from hub_values import values
from transformers.modeling_tf_utils import keras

jax.config.update("jax_platforms", "cpu")
warnings.filterwarnings("ignore")
transformers.logging.set_verbosity_error()

_PREFIXES = {"tensorflow": "TF", "flax": "Flax"}
_BASES = {"tensorflow": transformers.TFPreTrainedModel, "flax": transformers.FlaxPreTrainedModel}
_OF_IMAGES = ("vit", "beit", "resnet", "regnet")


def _split(array, parts, axis=0):
    return jnp.split(array, parts, axis)


jax.core.Tracer.split = _split  # transformers was written for releases of JAX with it


def classes(library):
    """Return the classes of a library that have a sister in PyTorch, by model_type."""
    prefix, out = _PREFIXES[library], {}
    for name in dir(transformers):
        if not name.startswith(prefix) or "Pretrained" in name or name.endswith("PreTrainedModel"):
            continue
        found = getattr(transformers, name)
        if not isinstance(found, type) or not issubclass(found, _BASES[library]):
            continue
        if found.config_class is not None and hasattr(transformers, name.removeprefix(prefix)):
            out.setdefault(found.config_class.model_type, []).append(name)
    return out


def converted(library, model_type, folder):
    """Build the classes of an architecture, and return what transformers makes of each in PyTorch.

    Their files are kept in `folder`.  A model that cannot be built or copied gives the text of the error.
    """
    out = {}
    for name in classes(library).get(model_type, []):
        for label, variant in {"": {}, **VARIANTS.get(model_type, {})}.items():
            called = name.removeprefix(_PREFIXES[library]) + (f"+{label}" if label else "")
            where = os.path.join(folder, called)
            try:
                out[called] = _converted(library, name, variant, where)
            except Exception as error:
                out[called] = {"error": f"{type(error).__name__}: {error}"[:300]}
    return out


def _converted(library, name, variant, where):
    build = _tensorflow if library == "tensorflow" else _flax
    stored = build(getattr(transformers, name), variant, where)
    torch_class = getattr(transformers, name.removeprefix(_PREFIXES[library]))
    models = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        models.append(torch_class.from_pretrained(where, **{f"from_{_SHORT[library]}": True}))
    one, other = (model.state_dict() for model in models)
    models[0].save_pretrained(os.path.join(where, "pt"))
    parameters = dict(models[0].named_parameters(remove_duplicate=False))
    from safetensors.numpy import load_file

    saved = load_file(os.path.join(where, "pt", "model.safetensors"))
    return {
        "stored": stored,
        "prefix": models[0].base_model_prefix,
        "parameters": [key for key, _ in models[0].named_parameters()],
        "buffers": [key for key in one if key not in parameters],
        "random": [key for key in one if not torch.equal(one[key], other[key])],
        "tensors": [
            [key, list(value.shape), value.dtype.name, hashlib.sha256(value.tobytes()).hexdigest()[:16]]
            for key, value in sorted(saved.items())
        ],
    }


_SHORT = {"tensorflow": "tf", "flax": "flax"}


def _tensorflow(model_class, variant, where):
    keras.backend.clear_session()
    model = model_class(small_config(model_class.config_class, variant))
    model.build_in_name_scope()
    for weight in model.weights:
        if weight.dtype.is_floating:
            weight.assign(values(weight.name, tuple(weight.shape)))
    model.save_pretrained(where)
    return [[weight.name, list(weight.shape), weight.dtype.name] for weight in model.weights]


def _flax(model_class, variant, where):
    model_type = model_class.config_class.model_type
    more = {"input_shape": (1, 32, 32, 3)} if model_type in _OF_IMAGES else {}
    model = model_class(small_config(model_class.config_class, variant), _do_init=False, **more)
    shapes = jax.eval_shape(lambda key: model.init_weights(key, model.input_shape), jax.random.PRNGKey(0))
    shapes = flatten_dict(shapes.unfreeze() if hasattr(shapes, "unfreeze") else shapes)
    made = {key: values("/".join(key), leaf.shape) for key, leaf in shapes.items()}
    model.save_pretrained(where, params=unflatten_dict(made))
    return [["/".join(key), list(leaf.shape), leaf.dtype.name] for key, leaf in made.items()]


def main(folder, *model_types):
    """Build everything, and write what came of it to a file of each architecture."""
    for library in _PREFIXES:
        for model_type in model_types or sorted(classes(library)):
            found = converted(library, model_type, os.path.join(folder, library, model_type))
            path = os.path.join(folder, library, f"{model_type}.json")
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as file:
                json.dump(found, file)
            errors = [name for name, its in found.items() if "error" in its]
            print(library, model_type, len(found), "not built:", *errors or ["-"], flush=True)


if __name__ == "__main__":
    import sys

    main(*sys.argv[1:])
