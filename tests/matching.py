"""Matching the object graphs of two checkpoints, as tests and hostile inputs do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.model.object_graph import ROOT
from formats.tf.graph.matching import GraphTarget, Matching

if TYPE_CHECKING:
    from formats.model.object_graph import ObjectGraph


def match_graphs(checkpoint: ObjectGraph, target: ObjectGraph) -> tuple[Matching[int], GraphTarget]:
    """Match a checkpoint's graph against another checkpoint's, root with root."""
    other = GraphTarget(target)
    matching: Matching[int] = Matching(checkpoint, other, {})
    for _ in matching.match(ROOT, ROOT):
        pass
    return matching, other
