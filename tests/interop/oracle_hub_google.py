"""Google's TensorFlow 1 checkpoints with small shapes, and what transformers' scripts make of them.

python oracle_hub_google.py FOLDER    writes FOLDER/google/FAMILY.json, for `python -m tests.hub FOLDER`
"""

import hashlib
import importlib
import json
import os
import sys
from functools import partial

from hub_values import values

WORDS, HIDDEN, INNER, SMALL, POSITIONS, LAYERS, HEADS = 99, 16, 20, 8, 40, 2, 2
_COMMON = {
    "hidden_size": HIDDEN,
    "intermediate_size": INNER,
    "max_position_embeddings": POSITIONS,
    "num_attention_heads": HEADS,
    "num_hidden_layers": LAYERS,
    "type_vocab_size": 2,
    "vocab_size": WORDS,
    "hidden_act": "gelu",
}
CONFIGS = {
    "bert": _COMMON,
    "albert": {**_COMMON, "embedding_size": SMALL, "num_hidden_groups": 1, "inner_group_num": 1},
    "electra-discriminator": {
        **_COMMON,
        "model_type": "electra",
        "architectures": ["ElectraForPreTraining"],
        "embedding_size": SMALL,
    },
    "electra-generator": {
        **_COMMON,
        "model_type": "electra",
        "architectures": ["ElectraForMaskedLM"],
        "embedding_size": SMALL,
    },
    "t5": {
        "model_type": "t5",
        "d_model": HIDDEN,
        "d_kv": 8,
        "d_ff": INNER,
        "num_layers": LAYERS,
        "num_heads": HEADS,
        "vocab_size": WORDS,
        "feed_forward_proj": "relu",
    },
    "t5-gated": {
        "model_type": "t5",
        "d_model": HIDDEN,
        "d_kv": 8,
        "d_ff": INNER,
        "num_layers": LAYERS,
        "num_heads": HEADS,
        "vocab_size": WORDS,
        "feed_forward_proj": "gated-gelu",
        "tie_word_embeddings": False,
    },
}


def _dense(name, rows, columns):
    return {f"{name}/kernel": (rows, columns), f"{name}/bias": (columns,)}


def _norm(name, size):
    return {f"{name}/gamma": (size,), f"{name}/beta": (size,)}


def _embeddings(scope, size):
    return {
        f"{scope}/embeddings/word_embeddings": (WORDS, size),
        f"{scope}/embeddings/position_embeddings": (POSITIONS, size),
        f"{scope}/embeddings/token_type_embeddings": (2, size),
        **_norm(f"{scope}/embeddings/LayerNorm", size),
    }


def _layers(scope):
    out = {}
    for number in range(LAYERS):
        layer = f"{scope}/encoder/layer_{number}"
        for name in ("query", "key", "value"):
            out |= _dense(f"{layer}/attention/self/{name}", HIDDEN, HIDDEN)
        out |= _dense(f"{layer}/attention/output/dense", HIDDEN, HIDDEN)
        out |= _norm(f"{layer}/attention/output/LayerNorm", HIDDEN)
        out |= _dense(f"{layer}/intermediate/dense", HIDDEN, INNER)
        out |= _dense(f"{layer}/output/dense", INNER, HIDDEN)
        out |= _norm(f"{layer}/output/LayerNorm", HIDDEN)
    return out


def _heads(size):
    return {
        "cls/predictions/output_bias": (WORDS,),
        **_dense("cls/predictions/transform/dense", HIDDEN, size),
        **_norm("cls/predictions/transform/LayerNorm", size),
        "cls/seq_relationship/output_weights": (2, HIDDEN),
        "cls/seq_relationship/output_bias": (2,),
    }


def _bert():
    slots = {f"bert/pooler/dense/kernel/{name}": (HIDDEN, HIDDEN) for name in ("adam_m", "adam_v")}
    pooler = _dense("bert/pooler/dense", HIDDEN, HIDDEN)
    return {**_embeddings("bert", HIDDEN), **_layers("bert"), **pooler, **_heads(HIDDEN), **slots}


def _albert():
    group = "bert/encoder/transformer/group_0/inner_group_0"
    out = _embeddings("bert", SMALL)
    out |= _dense("bert/encoder/embedding_hidden_mapping_in", SMALL, HIDDEN)
    for name in ("query", "key", "value"):
        out |= _dense(f"{group}/attention_1/self/{name}", HIDDEN, HIDDEN)
    out |= _dense(f"{group}/attention_1/output/dense", HIDDEN, HIDDEN)
    out |= _norm(f"{group}/LayerNorm", HIDDEN) | _norm(f"{group}/LayerNorm_1", HIDDEN)
    out |= _dense(f"{group}/ffn_1/intermediate/dense", HIDDEN, INNER)
    out |= _dense(f"{group}/ffn_1/intermediate/output/dense", INNER, HIDDEN)
    return out | _dense("bert/pooler/dense", HIDDEN, HIDDEN) | _heads(SMALL)


def _electra():
    out = _embeddings("electra", SMALL)
    for scope in ("electra", "generator"):
        out |= _dense(f"{scope}/embeddings_project", SMALL, HIDDEN) | _layers(scope)
    out |= _dense("discriminator_predictions/dense", HIDDEN, HIDDEN)
    out |= _dense("discriminator_predictions/dense_1", HIDDEN, 1)
    out |= _dense("generator_predictions/dense", HIDDEN, SMALL)
    out |= _norm("generator_predictions/LayerNorm", SMALL)
    return out | {"generator_predictions/output_bias": (WORDS,)}


def _t5(gated):
    out = {"shared/embedding": (WORDS, HIDDEN)}
    for stack in ("encoder", "decoder"):
        attentions = ("SelfAttention", "EncDecAttention")[: 1 + (stack == "decoder")]
        for number in range(LAYERS):
            block = f"{stack}/block_{number:03d}"
            for at, attention in enumerate(attentions):
                for name in "qkvo":
                    shape = (HEADS * 8, HIDDEN) if name == "o" else (HIDDEN, HEADS * 8)
                    out[f"{block}/layer_{at:03d}/{attention}/{name}"] = shape
                out[f"{block}/layer_{at:03d}/layer_norm/scale"] = (HIDDEN,)
            last = f"{block}/layer_{len(attentions):03d}"
            for name in ("wi_0", "wi_1") if gated else ("wi",):
                out[f"{last}/DenseReluDense/{name}/kernel"] = (HIDDEN, INNER)
            out[f"{last}/DenseReluDense/wo/kernel"] = (INNER, HIDDEN)
            out[f"{last}/layer_norm/scale"] = (HIDDEN,)
        out[f"{stack}/block_000/layer_000/SelfAttention/relative_attention_bias"] = (HEADS, 32)
        out[f"{stack}/final_layer_norm/scale"] = (HIDDEN,)
    if gated:
        out["decoder/logits/kernel"] = (HIDDEN, WORDS)
    out["shared/embedding_slot_vr"] = (WORDS,)
    return out


NAMES = {
    "bert": _bert,
    "albert": _albert,
    "electra-discriminator": _electra,
    "electra-generator": _electra,
    "t5": partial(_t5, gated=False),
    "t5-gated": partial(_t5, gated=True),
}


def converted(family, folder):
    """Write a checkpoint of a family, and return what transformers' script makes of it."""
    import transformers

    transformers.logging.set_verbosity_error()
    os.makedirs(folder, exist_ok=True)
    stored = NAMES[family]()
    prefix = os.path.join(folder, "model.ckpt")
    _save(stored, prefix)
    name = "bert_config.json" if family == "bert" else "config.json"
    path = os.path.join(folder, "albert_config.json" if family == "albert" else name)
    with open(path, "w") as file:
        json.dump(CONFIGS[family], file)
    _converted_by_script(family.partition("-")[0], family, prefix, path, os.path.join(folder, "pt"))
    from safetensors.numpy import load_file

    made = load_file(os.path.join(folder, "pt", "model.safetensors"))
    return {
        "stored": [[key, list(shape), "float32"] for key, shape in sorted(stored.items())],
        "config": [os.path.basename(path), CONFIGS[family]],
        "tensors": [
            [key, list(value.shape), value.dtype.name, hashlib.sha256(value.tobytes()).hexdigest()[:16]]
            for key, value in sorted(made.items())
        ],
    }


def _save(stored, prefix):
    import tensorflow as tf

    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        for name, shape in stored.items():
            tf.compat.v1.get_variable(name, initializer=tf.constant(values(name, shape)))
        tf.compat.v1.get_variable("global_step", initializer=tf.constant(7, tf.int64))
        session.run(tf.compat.v1.global_variables_initializer())
        tf.compat.v1.train.Saver().save(session, prefix)


_CLASSES = {
    "bert": "BertForPreTraining",
    "albert": "AlbertForPreTraining",
    "electra-discriminator": "ElectraForPreTraining",
    "electra-generator": "ElectraForMaskedLM",
}


def _converted_by_script(model_type, family, prefix, config, target):
    import torch
    import transformers

    module = f"transformers.models.{model_type}.convert_{model_type}_original_tf_checkpoint_to_pytorch"
    script = importlib.import_module(module)
    if model_type == "t5":
        model = script.load_tf_weights_in_t5(_t5_model(config), None, prefix)
        for parameter in model.parameters():  # safetensors stores only contiguous tensors
            parameter.data = parameter.data.contiguous()
        model.save_pretrained(target)
        return
    more = [family.partition("-")[2]] if model_type == "electra" else []
    os.makedirs(target, exist_ok=True)
    dump = os.path.join(target, "dump.bin")
    script.convert_tf_checkpoint_to_pytorch(prefix, config, dump, *more)
    model_class = getattr(transformers, _CLASSES[family])
    model = model_class(model_class.config_class.from_json_file(config))
    model.load_state_dict(torch.load(dump))
    model.save_pretrained(target)  # stores a tied weight once


def _t5_model(config):
    import transformers

    return transformers.T5ForConditionalGeneration(transformers.T5Config.from_json_file(config))


def main(folder):
    """Write what comes of each family to a file."""
    os.makedirs(os.path.join(folder, "google"), exist_ok=True)
    for family in NAMES:
        found = converted(family, os.path.join(folder, "files", family))
        with open(os.path.join(folder, "google", f"{family}.json"), "w") as file:
            json.dump(found, file)


if __name__ == "__main__":
    main(sys.argv[1])
