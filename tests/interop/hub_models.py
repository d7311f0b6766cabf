"""Small configurations of transformers' models: what all have in common, then what differs by type."""

COMMON = {
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "emb_dim", "d_embed"), 16),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers"), 2),
    **dict.fromkeys(("encoder_layers", "decoder_layers", "num_decoder_layers"), 2),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads"), 2),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 2),
    **dict.fromkeys(("intermediate_size", "d_ff", "ffn_dim", "encoder_ffn_dim", "decoder_ffn_dim"), 20),
    **dict.fromkeys(("hidden_dim", "d_inner", "n_inner", "dff"), 20),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "n_ctx"), 40),
    "vocab_size": 99,
    "type_vocab_size": 2,
    "embedding_size": 8,
    "image_size": 32,
    "patch_size": 8,
    "d_kv": 8,
    "d_head": 8,
    "word_embed_proj_dim": 12,
    "num_labels": 3,
    "max_2d_position_embeddings": 32,
    "num_hidden_groups": 1,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
    "attention_window": 4,
}
"""Values of those of these attributes that a configuration has."""

_T5 = {"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0}
_SPEECH = {
    "conv_dim": [8, 8],
    "conv_kernel": [4, 3],
    "conv_stride": [2, 2],
    "num_conv_pos_embeddings": 8,
    "num_conv_pos_embedding_groups": 2,
    "num_feat_extract_layers": 2,
    "vocab_size": 32,
}
_CONVOLUTIONS = {"hidden_sizes": [8, 16], "depths": [2, 1], "num_stages": 2}
_RESIDUAL = {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [2, 1]}
_RELATIVE = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "max_relative_positions": 8}

SPECIAL = {
    "gpt2": {"bos_token_id": 1, "eos_token_id": 2},
    "gptj": {"rotary_dim": 4},
    "t5": _T5,
    "mt5": {**_T5, "tie_word_embeddings": False},
    "longt5": {**_T5, "local_radius": 4, "global_block_size": 4},
    "swin": {
        "embed_dim": 16,
        "depths": [1, 2],
        "num_heads": [2, 4],
        "window_size": 2,
        "patch_size": 2,
        "hidden_size": 32,
        "num_layers": None,
    },
    "convnext": _CONVOLUTIONS,
    "convnextv2": _CONVOLUTIONS,
    "resnet": _RESIDUAL,
    "regnet": {**_RESIDUAL, "groups_width": 8},
    "segformer": {
        "hidden_sizes": [8, 16],
        "depths": [1, 2],
        "num_encoder_blocks": 2,
        "sr_ratios": [2, 1],
        "patch_sizes": [7, 3],
        "strides": [4, 2],
        "num_attention_heads": [1, 2],
        "mlp_ratios": [2, 3],
        "decoder_hidden_size": 12,
    },
    "whisper": {
        "num_mel_bins": 8,
        "max_source_positions": 30,
        "max_target_positions": 20,
        "suppress_tokens": None,
        "begin_suppress_tokens": None,
    },
    "wav2vec2": _SPEECH,
    "hubert": _SPEECH,
    "xlnet": {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 5},
    "funnel": {"block_sizes": [1, 2], "num_decoder_layers": 1},
    "deberta": {**_RELATIVE, "position_biased_input": True},
    "deberta-v2": {
        **_RELATIVE,
        "position_biased_input": False,
        "conv_kernel_size": 3,
        "conv_act": "gelu",
        "share_att_key": True,
        "norm_rel_ebd": "layer_norm",
        "position_buckets": 4,
    },
    "albert": {"inner_group_num": 1},
    "mobilebert": {
        "embedding_size": 16,
        "intra_bottleneck_size": 8,
        "num_feedforward_networks": 2,
        "true_hidden_size": 8,
    },
    "convbert": {"head_ratio": 2, "conv_kernel_size": 3, "num_groups": 2, "num_attention_heads": 4},
    "layoutlmv3": {
        "coordinate_size": 3,
        "shape_size": 4,
        "input_size": 32,
        "rel_pos_bins": 8,
        "max_rel_pos": 16,
        "rel_2d_pos_bins": 8,
        "max_rel_2d_pos": 16,
        "hidden_size": 20,
    },
    "lxmert": {
        "l_layers": 1,
        "x_layers": 1,
        "r_layers": 1,
        "visual_feat_dim": 12,
        "num_qa_labels": 5,
        "num_object_labels": 6,
        "num_attr_labels": 4,
    },
    "led": {"max_encoder_position_embeddings": 40, "max_decoder_position_embeddings": 30},
    "xlm": {"n_langs": 2, "pad_index": 1, "use_lang_emb": True},
    "flaubert": {"n_langs": 1, "pad_index": 1},
    "esm": {"vocab_size": 33, "mask_token_id": 2, "position_embedding_type": "absolute"},
    "rembert": {"input_embedding_size": 8, "output_embedding_size": 24},
    "speech_to_text": {
        "input_feat_per_channel": 8,
        "input_channels": 1,
        "num_conv_layers": 2,
        "conv_channels": 16,
        "conv_kernel_sizes": [5, 5],
        "max_source_positions": 40,
        "max_target_positions": 30,
    },
    "xglm": {"attention_heads": 2},
    "mobilevit": {
        "hidden_sizes": [16, 20, 24],
        "neck_hidden_sizes": [8, 8, 8, 8, 8, 8, 16],
        "image_size": 64,
        "patch_size": 2,
        "last_hidden_size": 16,
    },
    "efficientformer": {
        "depths": [1, 1, 1, 2],
        "hidden_sizes": [4, 8, 12, 16],
        "num_meta3d_blocks": 1,
        "key_dim": 4,
        "resolution": 2,
        "image_size": 64,
        "attention_ratio": 2,
    },
    "swiftformer": {"depths": [1, 1, 1, 1], "embed_dims": [8, 8, 12, 16], "image_size": 64},
    "data2vec-vision": {"num_hidden_layers": 4, "out_indices": [1, 2, 3, 4], "pool_scales": [1, 2]},
    "vit_mae": {
        "decoder_hidden_size": 16,
        "decoder_num_attention_heads": 2,
        "decoder_num_hidden_layers": 1,
        "decoder_intermediate_size": 20,
    },
    "tapas": {"type_vocab_sizes": [3, 10, 6, 2, 2, 5, 5]},
    "dpr": {"projection_dim": 0},
    "big_bird": {"block_size": 4, "num_random_blocks": 1, "attention_type": "original_full"},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "window_size": 4},
    "llama": {"num_key_value_heads": 1},
    "mistral": {"num_key_value_heads": 1},
    "gemma": {"num_key_value_heads": 1, "head_dim": 8},
}

_STABLE = {"do_stable_layer_norm": True, "feat_extract_norm": "layer", "conv_bias": True}
_POSITIONS = {
    "use_relative_position_bias": True,
    "use_mask_token": True,
    "use_absolute_position_embeddings": True,
}
VARIANTS = {
    "t5": {"gated": {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}},
    "opt": {"postnorm": {"do_layer_norm_before": False, "word_embed_proj_dim": 16}},
    "wav2vec2": {"stable": _STABLE},
    "hubert": {"stable": _STABLE},
    "albert": {"groups": {"num_hidden_groups": 2, "inner_group_num": 2}},
    "regnet": {"x": {"layer_type": "x"}},
    "resnet": {"basic": {"layer_type": "basic"}},
    "deberta-v2": {
        "noconv": {"conv_kernel_size": 0, "position_biased_input": True},
        "unshared": {"share_att_key": False},
    },
    "deberta": {"plain": {"relative_attention": False, "pos_att_type": None}},
    "electra": {"same": {"embedding_size": 16}},
    "roformer": {"same": {"embedding_size": 16}},
    "data2vec-vision": {"rel": _POSITIONS},
    "beit": {"rel": _POSITIONS},
    "longt5": {
        "tglobal": {
            "encoder_attention_type": "transient-global",
            "feed_forward_proj": "gated-gelu",
            "tie_word_embeddings": False,
        }
    },
}
"""Other configurations of an architecture that have other tensors."""

_TEXT = {
    "hidden_size": 16,
    "intermediate_size": 20,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "vocab_size": 99,
    "max_position_embeddings": 40,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
}
_VISION = {
    "hidden_size": 12,
    "intermediate_size": 20,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "image_size": 32,
    "patch_size": 8,
}
_TWO_MODELS = {
    "clip": (_TEXT, _VISION),
    "blip": ({**_TEXT, "encoder_hidden_size": 12, "sep_token_id": 2}, {**_VISION, "num_channels": 3}),
    "groupvit": (
        _TEXT,
        {
            **_VISION,
            "depths": [1, 1, 1],
            "num_hidden_layers": 3,
            "num_group_tokens": [4, 2, 0],
            "num_output_groups": [4, 2, 0],
        },
    ),
}


def small_config(config_class, variant):
    """Return a small configuration of a class, with what a variant changes."""
    model_type = config_class.model_type
    for root, (text, vision) in _TWO_MODELS.items():
        if model_type == root:
            return config_class(text_config=dict(text), vision_config=dict(vision), projection_dim=8)
        if model_type == f"{root}_text_model":
            return config_class(**text, projection_dim=8)
        if model_type == f"{root}_vision_model":
            return config_class(**vision, projection_dim=8)
    default = config_class()
    aliases = dict(getattr(default, "attribute_map", {}))
    known = set(default.to_dict()) | set(aliases)
    special = SPECIAL.get(model_type, {})
    lists = {key for key in known if isinstance(getattr(default, key, None), list | tuple)}
    found = {key: value for key, value in COMMON.items() if key in known and key not in lists}
    if model_type in ("led", "longformer"):
        found["attention_window"] = 4
    found = {key: value for key, value in {**found, **special, **variant}.items() if value is not None}
    for alias, real in aliases.items():
        if alias in found and real in found:
            del found[alias]
    return config_class(**found)
