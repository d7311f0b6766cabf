"""Files of torch.onnx, and of the gguf package in llama.cpp's manner, next to what they were made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import formats
from ckpt_cli.operations.origin.verdicts import judge
from tests.support import data_path

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ckpt_cli.operations.origin.records import Origins

    Array = np.ndarray[Any, Any]

GOLDENS = (
    *("conv.script.onnx", "rnn.script.onnx", "tokens.dynamo.onnx", "llama.Q8_0.gguf", "llama.Q4_0.gguf"),
    *("gemma.Q8_0.gguf", "gpt2.Q8_0.gguf", "bloom.Q8_0.gguf", "k.Q4_K.gguf"),
)


def golden(name: str) -> str:
    return str(data_path("origin", name))


def read(name: str) -> dict[str, Array]:
    with formats.open_checkpoint(golden(f"{name.partition('.')[0]}.safetensors")) as reader:
        return {key: reader[key].read() for key in reader.specs}


def judged(name: str, weights: dict[str, Array], folder: Path) -> Origins:
    """Return verdicts with another source, in float32, which holds bfloat16 exactly."""
    wide = {key: each.astype(np.float32) if each.dtype.kind != "i" else each for key, each in weights.items()}
    np.savez(folder / "source.npz", **wide)
    with (
        formats.open_checkpoint(golden(name)) as export,
        formats.open_checkpoint(folder / "source.npz") as one,
    ):
        return judge(export, one)


def other_of(found: Origins, key: str) -> set[str]:
    """Return the verdicts on the weights that a key of the source has a part in."""
    return {one.verdict for one in found.weights if key in one.sources}


@pytest.mark.parametrize("name", GOLDENS)
def test_every_weight_is_proved(name: str) -> None:
    source = golden(f"{name.partition('.')[0]}.safetensors")
    with formats.open_checkpoint(golden(name)) as export, formats.open_checkpoint(source) as one:
        found = judge(export, one)
    assert [one for one in found.weights if one.verdict not in ("equal", "within")] == []
    assert set(found.unused) <= {"head.weight", "emb.weight"}  # one is the other
    assert found.constants + len(found.weights) == len(export.specs)


@pytest.mark.parametrize("name", GOLDENS)
def test_no_weight_of_another_seed_is_proved(name: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(11)
    weights = {key: np.abs(rng.normal(size=one.shape)) + 0.1 for key, one in read(name).items()}
    found = judged(name, weights, tmp_path)
    assert {one.verdict for one in found.weights} <= {"other", "unpaired"}


def rolled(weights: dict[str, Array], key: str) -> dict[str, Array]:
    return weights | {key: np.roll(weights[key], 1, 0)}


def perturbed(weights: dict[str, Array], key: str) -> dict[str, Array]:
    changed = weights[key].astype(np.float32)
    changed.reshape(-1)[7] += np.float32(np.abs(changed).max())
    return weights | {key: changed}


@pytest.mark.parametrize("change", [rolled, perturbed])
@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("conv.script.onnx", "stem.weight"),
        ("conv.script.onnx", "bn_a.running_mean"),
        ("rnn.script.onnx", "lstm.weight_hh_l1_reverse"),
        ("rnn.script.onnx", "gru.bias_ih_l0"),
        ("tokens.dynamo.onnx", "q.weight"),
        ("llama.Q8_0.gguf", "model.layers.0.self_attn.q_proj.weight"),
        ("llama.Q4_0.gguf", "model.layers.0.mlp.up_proj.weight"),
        ("gemma.Q8_0.gguf", "model.norm.weight"),
        ("gpt2.Q8_0.gguf", "h.0.attn.c_proj.weight"),
        ("bloom.Q8_0.gguf", "transformer.h.0.self_attention.query_key_value.weight"),
        ("k.Q4_K.gguf", "model.layers.0.self_attn.k_proj.weight"),
    ],
)
def test_a_changed_weight_is_not_proved(
    name: str, key: str, change: Callable[..., dict[str, Array]], tmp_path: Path
) -> None:
    found = judged(name, change(read(name), key), tmp_path)
    assert not other_of(found, key) & {"equal", "within"}
    changed = [one for one in found.weights if one.verdict not in ("equal", "within")]
    assert 1 <= len(changed) <= 2  # a kernel and its bias, where a mean is folded into both


def test_kernels_of_one_shape_that_were_swapped_are_not_proved(tmp_path: Path) -> None:
    for name, one, other in (
        ("rnn.script.onnx", "rnn.weight_ih_l0", "rnn.weight_hh_l0"),
        ("rnn.script.onnx", "lstm.weight_hh_l0", "lstm.weight_hh_l1"),
        ("tokens.dynamo.onnx", "q.weight", "v.weight"),
        ("llama.Q8_0.gguf", "model.layers.0.mlp.up_proj.weight", "model.layers.0.mlp.gate_proj.weight"),
    ):
        weights = read(name)
        found = judged(name, weights | {one: weights[other], other: weights[one]}, tmp_path)
        assert not (other_of(found, one) | other_of(found, other)) & {"equal", "within"}, name


def test_rules_say_what_was_done_and_what_does_not_show() -> None:
    rules = {}
    for name in GOLDENS:
        source = golden(f"{name.partition('.')[0]}.safetensors")
        with formats.open_checkpoint(golden(name)) as export, formats.open_checkpoint(source) as one:
            rules[name] = {each.key: each.rule for each in judge(export, one).weights}
    again = "quantized to Q8_0 again, with the same blocks"
    assert rules["llama.Q8_0.gguf"]["blk.0.attn_q.weight"] == f"halves of each head interleaved; {again}"
    assert rules["gemma.Q8_0.gguf"]["output_norm.weight"] == "plus 1"
    assert rules["gpt2.Q8_0.gguf"]["blk.0.ffn_up.weight"] == f"transposed (1, 0); {again}"
    assert rules["bloom.Q8_0.gguf"]["blk.0.attn_qkv.weight"] == f"q, k and v of all heads apart; {again}"
    assert rules["k.Q4_K.gguf"]["blk.0.attn_k.weight"].endswith("smaller differences cannot be detected")
    told = [rule for key, rule in rules["rnn.script.onnx"].items() if key.startswith("onnx::LSTM")]
    assert "gates 1, 4, 2, 3, directions stacked, both biases in a row" in told
    one_gate = [rule for key, rule in rules["rnn.script.onnx"].items() if key.startswith("onnx::RNN")]
    assert one_gate == ["unchanged", "unchanged", "both biases in a row"]
    assert rules["tokens.dynamo.onnx"]["val_2"] == "transposed (1, 0)"


def test_without_the_layer_a_weight_is_unpaired(tmp_path: Path) -> None:
    weights = read("llama.Q8_0.gguf")
    del weights["model.layers.0.mlp.down_proj.weight"]
    found = {one.key: one.verdict for one in judged("llama.Q8_0.gguf", weights, tmp_path).weights}
    assert found["blk.0.ffn_down.weight"] == "unpaired"
