"""Models of two libraries for each of ckpt's own maps: what one saves, and what the other answers with it.

Run by the Python of an environment that has both: TensorFlow 2.15 with bert-tensorflow and
tf-models-official, PyTorch with transformers and timm.  Weights are random.
"""

import functools
import os
import sys
import types

import numpy as np

HERE = {"vocab_size": 30, "max_positions": 16}
RANDOM = np.random.RandomState(11)
IDS = RANDOM.randint(1, 30, [2, 7]).astype("int32")
TYPES = RANDOM.randint(0, 2, [2, 7]).astype("int32")
MASK = np.array([[1] * 7, [1] * 5 + [0] * 2], "int32")
SIZES = {
    "bert": (24, 4, 40),
    "bert-pretraining": (24, 4, 40),
    "bert-tf2-base": (768, 12, 64),
    "bert-tf2-large": (1024, 16, 64),
}
"""Width, heads, and width within a block."""

BLOCKS = 2


def _values(shape, name, width):
    spread = width**-0.5  # so that sums over the width stay as large as what they are of
    low, high = (0.5, 1.5) if "gamma" in name else (-spread, spread)
    return RANDOM.uniform(low, high, shape).astype("f")


# TensorFlow ---------------------------------------------------------------------------------


def _with_contrib(tf):
    """Give Google's BERT the one function that it takes from tf.contrib, which is no longer there."""

    def layer_norm(inputs, begin_norm_axis, begin_params_axis, scope):
        assert begin_norm_axis == begin_params_axis == -1
        with tf.variable_scope(scope, "LayerNorm"):
            width = inputs.shape.as_list()[-1]
            beta = tf.get_variable("beta", [width], initializer=tf.zeros_initializer())
            gamma = tf.get_variable("gamma", [width], initializer=tf.ones_initializer())
            mean, variance = tf.nn.moments(inputs, [-1], keep_dims=True)
            return tf.nn.batch_normalization(inputs, mean, variance, beta, gamma, 1e-12)

    contrib = types.ModuleType("tensorflow.contrib")
    contrib.layers = types.SimpleNamespace(layer_norm=layer_norm)
    sys.modules["tensorflow.contrib"] = contrib


def _tf1(folder, name):
    import tensorflow.compat.v1 as tf

    _with_contrib(tf)
    from bert import modeling

    width, heads, inner = SIZES[name]
    config = modeling.BertConfig(
        HERE["vocab_size"],
        width,
        BLOCKS,
        heads,
        inner,
        max_position_embeddings=HERE["max_positions"],
        type_vocab_size=2,
    )
    with tf.Graph().as_default(), tf.Session() as session:
        given = (tf.constant(IDS), tf.constant(MASK), tf.constant(TYPES))
        model = modeling.BertModel(config, False, *given, use_one_hot_embeddings=False)
        answers = [model.get_sequence_output(), model.get_pooled_output()]
        if name == "bert-pretraining":
            answers = _heads(tf, modeling, config, model)
        for variable in tf.global_variables():
            variable.load(_values(variable.shape, variable.name, width), session)
        found = session.run(answers)
        tf.train.Saver().save(session, os.path.join(folder, name), write_meta_graph=False)
    return found


def _heads(tf, modeling, config, model):
    """Compute the logits of the heads by Google's own functions of run_pretraining."""
    from bert import run_pretraining

    positions = tf.constant([[1, 3], [0, 2]])
    nothing = tf.zeros([2, 2])
    _, _, log_probs = run_pretraining.get_masked_lm_output(
        config,
        model.get_sequence_output(),
        model.get_embedding_table(),
        positions,
        tf.zeros([2, 2], tf.int32),
        nothing,
    )
    _, _, next_log_probs = run_pretraining.get_next_sentence_output(
        config, model.get_pooled_output(), tf.zeros([2, 1], tf.int32)
    )
    return [log_probs, next_log_probs]


def _tf2(folder, name):
    import tensorflow as tf
    from official.nlp.modeling.networks.bert_encoder import BertEncoder

    width, heads, inner = SIZES[name]
    encoder = BertEncoder(
        HERE["vocab_size"],
        hidden_size=width,
        num_layers=BLOCKS,
        num_attention_heads=heads,
        inner_dim=inner,
        inner_activation=lambda x: tf.keras.activations.gelu(x, approximate=True),
        max_sequence_length=HERE["max_positions"],
        type_vocab_size=2,
        dict_outputs=True,
    )
    encoder.set_weights([_values(w.shape, w.name, width) for w in encoder.weights])
    given = {"input_word_ids": IDS, "input_mask": MASK, "input_type_ids": TYPES}
    found = encoder(given, training=False)
    tf.train.Checkpoint(encoder=encoder).write(os.path.join(folder, name))
    return [np.asarray(found["sequence_output"]), np.asarray(found["pooled_output"])]


def _mobilenet(folder, name):
    import tensorflow as tf

    model = tf.keras.applications.MobileNetV2(weights=None, classifier_activation=None)
    random = np.random.RandomState(3)
    model.set_weights(
        [
            random.uniform(0.5, 1.5, w.shape).astype("f")
            if "variance" in w.name or "gamma" in w.name
            else random.uniform(-0.2, 0.2, w.shape).astype("f")
            for w in model.weights
        ]
    )
    x = random.randn(1, 224, 224, 3).astype("f")
    np.save(os.path.join(folder, "image.npy"), x)
    model.save_weights(os.path.join(folder, f"{name}.h5"))
    return [np.asarray(model(x, training=False))]


_SAVED = {
    "bert": _tf1,
    "bert-pretraining": _tf1,
    "bert-tf2-base": _tf2,
    "bert-tf2-large": _tf2,
    "mobilenetv2": _mobilenet,
}


def saved(folder, name):
    """Save a model of the first library, and its answers next to it."""
    found = _SAVED[name](folder, name)
    np.savez(os.path.join(folder, f"{name}.answers.npz"), **{str(at): each for at, each in enumerate(found)})


# PyTorch ------------------------------------------------------------------------------------


@functools.cache  # its operators are defined once, and as long as the library is kept
def with_torchvision():
    """Let torchvision be imported without its compiled part, whose operators these models do not use."""
    import torch

    library = torch.library.Library("torchvision", "DEF")
    for operator in ("nms", "qnms"):
        library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return library


def _transformers(name, weights):
    import torch
    import transformers

    width, heads, inner = SIZES[name]
    config = transformers.BertConfig(
        vocab_size=HERE["vocab_size"],
        hidden_size=width,
        num_hidden_layers=BLOCKS,
        num_attention_heads=heads,
        intermediate_size=inner,
        max_position_embeddings=HERE["max_positions"],
        hidden_act="gelu_new",
        attn_implementation="eager",
    )
    whole = name == "bert-pretraining"
    model = (transformers.BertForPreTraining if whole else transformers.BertModel)(config).eval()
    missing, surplus = model.load_state_dict(weights, strict=not whole)
    # These are tied to the embeddings and to cls.predictions.bias.
    assert set(missing) <= {"cls.predictions.decoder.weight", "cls.predictions.decoder.bias"}
    assert not surplus
    given = {"input_ids": IDS, "attention_mask": MASK, "token_type_ids": TYPES}
    found = model(**{key: torch.from_numpy(value).long() for key, value in given.items()})
    if not whole:
        return [found.last_hidden_state, found.pooler_output]
    at = torch.tensor([[1, 3], [0, 2]])
    rows = found.prediction_logits[torch.arange(2)[:, None], at].reshape(4, -1)
    return [rows.log_softmax(-1), found.seq_relationship_logits.log_softmax(-1)]


def _timm(name, weights, folder):
    import timm
    import torch

    assert name == "mobilenetv2"
    model = timm.create_model("mobilenetv2_100", pad_type="same", bn_eps=1e-3).eval()
    model.load_state_dict(weights, strict=True)
    return [model(torch.from_numpy(np.load(os.path.join(folder, "image.npy"))).movedim(-1, 1))]


def answers(folder, name):
    """Return how far the second library's answers are from the first's, relative to the largest of each."""
    with_torchvision()
    import torch
    from safetensors.torch import load_file

    weights = load_file(os.path.join(folder, f"{name}.safetensors"))
    with torch.no_grad():
        found = _timm(name, weights, folder) if name == "mobilenetv2" else _transformers(name, weights)
    with np.load(os.path.join(folder, f"{name}.answers.npz")) as truth:
        assert len(truth) == len(found)
        return [
            float(np.abs(each.numpy() - truth[str(at)]).max() / np.abs(truth[str(at)]).max())
            for at, each in enumerate(found)
        ]
