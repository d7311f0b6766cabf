"""The names of GGUF's tensors, and those of Hugging Face's models that they are made of.

https://github.com/ggml-org/llama.cpp, gguf-py/gguf/tensor_mapping.py
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

_WHOLE = {
    "token_embd": (
        *("model.embed_tokens", "embed_tokens", "transformer.wte", "wte", "tok_embeddings"),
        *("transformer.word_embeddings", "word_embeddings", "gpt_neox.embed_in", "backbone.embeddings"),
        *("bert.embeddings.word_embeddings", "embeddings.word_embeddings"),
        *("model.language_model.embed_tokens", "language_model.model.embed_tokens"),
    ),
    "token_embd_norm": (
        *("transformer.word_embeddings_layernorm", "word_embeddings_layernorm"),
        *("bert.embeddings.LayerNorm", "embeddings.LayerNorm"),
    ),
    "token_types": ("bert.embeddings.token_type_embeddings", "embeddings.token_type_embeddings"),
    "position_embd": (
        *("transformer.wpe", "wpe"),
        *("bert.embeddings.position_embeddings", "embeddings.position_embeddings"),
    ),
    "output_norm": (
        *("model.norm", "norm", "transformer.ln_f", "ln_f", "gpt_neox.final_layer_norm", "backbone.norm_f"),
        *("model.final_layernorm", "model.language_model.norm", "language_model.model.norm"),
    ),
    "output": ("lm_head", "embed_out", "output", "language_model.lm_head"),
}
"""By name, the names of layers that are once in a model."""

_LAYERS = (
    *("model.layers.", "layers.", "transformer.h.", "h.", "gpt_neox.layers.", "backbone.layers."),
    *(
        "bert.encoder.layer.",
        "encoder.layer.",
        "model.language_model.layers.",
        "language_model.model.layers.",
    ),
)

_IN_LAYER = {
    "attn_norm": ("input_layernorm", "ln_1", "attention_norm", "norm"),
    "attn_q": ("self_attn.q_proj", "attention.wq", "attention.self.query"),
    "attn_k": ("self_attn.k_proj", "attention.wk", "attention.self.key"),
    "attn_v": ("self_attn.v_proj", "attention.wv", "attention.self.value"),
    "attn_qkv": (
        *("attn.c_attn", "self_attn.qkv_proj", "self_attention.query_key_value"),
        "attention.query_key_value",
    ),
    "attn_output": (
        *("self_attn.o_proj", "attn.c_proj", "self_attn.dense", "self_attention.dense", "attention.dense"),
        *("attention.wo", "attention.output.dense"),
    ),
    "attn_q_norm": ("self_attn.q_norm", "self_attn.q_layernorm"),
    "attn_k_norm": ("self_attn.k_norm", "self_attn.k_layernorm"),
    "attn_output_norm": ("attention.output.LayerNorm",),
    "post_attention_norm": ("post_attention_layernorm",),
    "post_ffw_norm": ("post_feedforward_layernorm",),
    "ffn_norm": ("pre_feedforward_layernorm", "post_attention_layernorm", "ln_2", "ffn_norm"),
    "ffn_gate": ("mlp.gate_proj", "feed_forward.w1"),
    "ffn_up": (
        *("mlp.up_proj", "mlp.gate_up_proj", "mlp.c_fc", "mlp.dense_h_to_4h", "mlp.fc1", "feed_forward.w3"),
        "intermediate.dense",
    ),
    "ffn_down": (
        *("mlp.down_proj", "mlp.c_proj", "mlp.dense_4h_to_h", "mlp.fc2", "feed_forward.w2"),
        "output.dense",
    ),
    "layer_output_norm": ("output.LayerNorm",),
    "ffn_gate_inp": ("block_sparse_moe.gate", "mlp.gate"),
    "ssm_in": ("mixer.in_proj",),
    "ssm_conv1d": ("mixer.conv1d",),
    "ssm_x": ("mixer.x_proj",),
    "ssm_dt": ("mixer.dt_proj",),
    "ssm_out": ("mixer.out_proj",),
    "ssm_a": ("mixer.A_log",),
    "ssm_d": ("mixer.D",),
}
"""By name, the names of layers within a block."""

_EXPERTS = {
    "ffn_gate_exps": ("block_sparse_moe.experts.{}.w1", "mlp.experts.{}.gate_proj"),
    "ffn_up_exps": ("block_sparse_moe.experts.{}.w3", "mlp.experts.{}.up_proj"),
    "ffn_down_exps": ("block_sparse_moe.experts.{}.w2", "mlp.experts.{}.down_proj"),
}
"""By name, the names of the experts that are stacked."""

_TIED = {"output.weight": "token_embd.weight"}
"""A layer that has the weight of another one, if a model lacks its own."""

MADE = frozenset(("rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"))
"""Tensors that a converter computes from the configuration."""

_BLOCK = re.compile(r"blk\.([0-9]{1,6})\.([a-z0-9_]+)((?:\.weight|\.bias)?)\Z")
_MOST_EXPERTS = 4096


def block_role(key: str) -> str:
    """Return the name of a tensor without the number of its block: `attn_q.weight`."""
    found = _BLOCK.match(key)
    return key if found is None else found[2] + found[3]


def origin_of(key: str, held: Container[str]) -> tuple[str, ...]:
    """Return the keys of a source that a tensor is made of; several where they are stacked."""
    if key in held:
        return (key,)
    found = _BLOCK.match(key)
    names = _once(key) if found is None else _in_block(found[1], found[2], found[3])
    for name in names:
        if name in held:
            return (name,)
    experts = () if found is None else _stacked(found[2] + found[3], found[1], held)
    return experts or (origin_of(_TIED[key], held) if key in _TIED else ())


def _once(key: str) -> Iterator[str]:
    stem, _, end = key.rpartition(".")
    yield from (f"{name}.{end}" for name in _WHOLE.get(stem, ()))


def _in_block(number: str, stem: str, end: str) -> Iterator[str]:
    for layer in _LAYERS:
        yield from (f"{layer}{number}.{name}{end}" for name in _IN_LAYER.get(stem, ()))


def _stacked(role: str, number: str, held: Container[str]) -> tuple[str, ...]:
    stem, dot, end = role.partition(".")
    for layer in _LAYERS:
        for name in _EXPERTS.get(stem, ()):
            pattern = f"{layer}{number}.{name}{dot}{end}"
            found: list[str] = []
            while len(found) < _MOST_EXPERTS and (key := pattern.format(len(found))) in held:
                found.append(key)
            if found:
                return tuple(found)
    return ()
