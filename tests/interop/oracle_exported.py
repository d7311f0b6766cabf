"""SavedModels as Keras writes them, of models that have random weights; run by TensorFlow's Python.

Keras 2 saves one with the model and its optimizer, Keras 3 exports one for serving.
"""

import os

import numpy as np
from oracle_keras import MODELS, K, _answer, _optimizer_values
from oracle_saved import IS_KERAS_3


def save(folder, model, inputs, optimizer=None, legacy=False):
    """Save a model, and return what it answers and the state of its optimizer, if it has one.

    FOLDER/saved is the SavedModel, FOLDER/model.keras the whole model by Keras' own format.
    """
    K.backend.clear_session()
    K.utils.set_random_seed(3)
    built = MODELS[model]()
    random = np.random.RandomState(4)
    built.set_weights([_like(random, weight) for weight in built.get_weights()])
    state = None
    if optimizer is not None:
        optimizers = K.optimizers.legacy if legacy else K.optimizers
        built.compile(getattr(optimizers, optimizer)(0.125), "mse")
        x = np.load(inputs)
        built.fit(x, np.ones(np.asarray(built(x)).shape), epochs=2, verbose=0)
        state = _optimizer_values(built)
    path = os.path.join(folder, "saved")
    if IS_KERAS_3:
        built.export(path, verbose=False)
    else:
        built.save(path)
    built.save(os.path.join(folder, "model.keras"))
    return [_answer(built, inputs), state]


def _like(random, weight):
    if weight.dtype.kind != "f":
        return weight
    return np.abs(random.randn(*weight.shape)).astype(weight.dtype) + 0.1
