"""Pairs proposed from structure: which evidence decides, and what is left open."""

from __future__ import annotations

from ckpt_cli.operations.select.proposal import Candidate, propose
from formats.core.dtypes import BY_NAME
from formats.core.spec import TensorSpec


def candidates(shapes: dict[str, tuple[int, ...]]) -> list[Candidate]:
    return [
        Candidate(f"key of {path}", path, TensorSpec(path, BY_NAME["float32"], shape))
        for path, shape in shapes.items()
    ]


def proposed(
    sources: dict[str, tuple[int, ...]], targets: dict[str, tuple[int, ...]]
) -> dict[str, tuple[str, str]]:
    found = propose(candidates(sources), candidates(targets))
    assert (
        len({proposal.source for proposal in found})
        == len({proposal.target for proposal in found})
        == len(found)
    )
    strip = len("key of ")
    return {proposal.source[strip:]: (proposal.target[strip:], proposal.why) for proposal in found}


def pairs(sources: dict[str, tuple[int, ...]], targets: dict[str, tuple[int, ...]]) -> dict[str, str]:
    return {source: target for source, (target, _) in proposed(sources, targets).items()}


def test_a_shape_that_occurs_once_shows() -> None:
    found = proposed({"a/w": (2, 3), "b/w": (4,)}, {"x/y": (4,), "x/z": (5,)})
    assert found == {"b/w": ("x/y", "the only float32 [4]")}


def test_layers_are_counted_not_read() -> None:
    """One counts from 1, the other from 0, and ten comes after nine."""
    source = {f"enc/layer_{n}/kernel": (2, 2) for n in range(1, 13)}
    target = {f"model/blocks/{n}/w": (2, 2) for n in range(12)}
    assert pairs(source, target) == {f"enc/layer_{n + 1}/kernel": f"model/blocks/{n}/w" for n in range(12)}


def test_the_first_of_keras_layers_has_no_number() -> None:
    source = {"dense/kernel": (3, 3), "dense_1/kernel": (3, 3), "dense_2/kernel": (3, 3)}
    target = {f"layers/{n}/kernel": (3, 3) for n in (4, 6, 9)}
    assert pairs(source, target) == {
        "dense/kernel": "layers/4/kernel",
        "dense_1/kernel": "layers/6/kernel",
        "dense_2/kernel": "layers/9/kernel",
    }


def test_a_rare_word_shows_more_than_a_common_one() -> None:
    source = {"self/attention/query/kernel": (2, 2), "self/attention/key/kernel": (2, 2)}
    target = {"attention/key_projection/kernel": (2, 2), "attention/query_projection/kernel": (2, 2)}
    found = proposed(source, target)
    assert found["self/attention/query/kernel"][0] == "attention/query_projection/kernel"
    assert found["self/attention/key/kernel"][0] == "attention/key_projection/kernel"
    assert any("by words: " in why for _, why in found.values())


def test_a_gamma_is_never_proposed_for_a_beta() -> None:
    assert pairs({"norm/gamma": (8,)}, {"ln/beta": (8,)}) == {}


def test_weights_are_a_kernel() -> None:
    assert pairs({"out/output_weights": (2, 8), "x/bias": (2, 8)}, {"head/kernel": (2, 8)}) == {
        "out/output_weights": "head/kernel"
    }


def test_what_nothing_distinguishes_is_paired_by_order_and_says_so() -> None:
    found = proposed({"a": (2,), "b": (2,)}, {"x": (2,), "y": (2,)})
    assert found["a"] == ("x", "of 2 float32 [2], only by their order")


def test_what_nothing_distinguishes_is_left_where_numbers_differ() -> None:
    assert pairs({"a": (2,), "b": (2,)}, {"x": (2,), "y": (2,), "z": (2,)}) == {}


def test_a_crowd_of_equals_is_left_alone() -> None:
    """Each is compared with each: not thousands of them."""
    crowd = {f"{'ab'[n % 2]}{'x' * n}/w": (2,) for n in range(1200)}
    assert pairs(crowd, {f"m/{path}": shape for path, shape in crowd.items()}) == {}
