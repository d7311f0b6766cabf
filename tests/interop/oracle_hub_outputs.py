"""Models of transformers, built, saved, loaded and run: with the old release, and with the new one.

Names of classes begin with TF or Flax, as transformers' do.  Configurations are small, weights are random.
"""

import importlib.util
import os

import numpy as np
from oracle_packs import with_torchvision


def saved(class_name, folder, variant=None, **how):
    """Build a model with random weights, and save it."""
    import transformers
    from hub_models import small_config

    transformers.logging.set_verbosity_error()
    model_class = getattr(transformers, class_name)
    config = small_config(model_class.config_class, variant or {})
    if class_name.startswith("Flax"):
        model = model_class(config, seed=0)
    elif class_name.startswith("TF"):
        transformers.set_seed(0)
        model = model_class(config)
        model.build_in_name_scope()
    else:
        import torch

        torch.manual_seed(0)
        model = model_class(config)
    model.save_pretrained(folder, **how)
    return sorted(os.listdir(folder))


def outputs(class_name, folder):
    """Load a model, and return its first output on random tokens; what the file lacks is an error."""
    if importlib.util.find_spec("torchvision") is not None:
        with_torchvision()
    import transformers

    transformers.logging.set_verbosity_error()
    model_class = getattr(transformers, class_name)
    if class_name.startswith("Flax"):
        model = model_class.from_pretrained(folder)
        return _listed(model(**_inputs(model.config)))
    if class_name.startswith("TF"):
        model, info = model_class.from_pretrained(folder, output_loading_info=True)
        assert not info["missing_keys"], info
        return _listed(model(_inputs(model.config)))
    import torch

    model, info = model_class.from_pretrained(folder, output_loading_info=True)
    assert not info["missing_keys"], info
    with torch.no_grad():
        given = {name: torch.from_numpy(array) for name, array in _inputs(model.config).items()}
        return _listed(model.eval()(**given))


def _inputs(config):
    tokens = np.random.RandomState(0).randint(3, 90, size=(2, 7)).astype(np.int64)
    if getattr(config, "is_encoder_decoder", False):
        return {"input_ids": tokens, "decoder_input_ids": tokens[:, :4]}
    return {"input_ids": tokens}


def _listed(found):
    return np.asarray(found[0]).astype(np.float64).ravel().tolist()
