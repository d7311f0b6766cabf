"""How TensorFlow spells the keys of object-based checkpoints.

    variable:  <path>/.ATTRIBUTES/<attribute>
    slot:      <variable's path>/.OPTIMIZER_SLOT/<optimizer's path>/<slot>/.ATTRIBUTES/<attribute>

A path is edge names joined by `/`, each escaped: every `.` doubled, then every `/` as `.S`. So a component
that begins with a single dot and a letter is TensorFlow's own. Keys are taken from the object graph, never
parsed: after an edit they may contradict the edges, and the edges decide.
tensorflow/python/checkpoint/trackable_view.py, python/trackable/trackable_utils.py
"""

from __future__ import annotations

import re

GRAPH_KEY = "_CHECKPOINTABLE_OBJECT_GRAPH"
"""The key of the object graph itself."""

VARIABLE_VALUE = "VARIABLE_VALUE"
ATTRIBUTES = ".ATTRIBUTES"
OPTIMIZER_SLOT = ".OPTIMIZER_SLOT"

VALUE_SUFFIX = f"/{ATTRIBUTES}/{VARIABLE_VALUE}"
"""The end of every variable's key; exports drop it."""

SAVE_COUNTER = "save_counter"
"""The edge from the root to the number of saves that `tf.train.Checkpoint` counts."""

TABLE = "table"
"""The attribute of a hash table: two tensors of as many rows as it has entries, or buckets."""

TABLE_SUFFIXES = ("-keys", "-values")

SUFFIXES = ("_STATE", *TABLE_SUFFIXES)
"""The suffixes that iterators and hash tables append to the key from the object graph."""

_UNESCAPED = {"..": ".", ".S": "/"}
_ESCAPE = re.compile(r"\.[.S]")


def escape(name: str) -> str:
    """Return an edge name as it is in a key."""
    return name.replace(".", "..").replace("/", ".S")


def unescape(name: str) -> str:
    """Return the edge name behind a component of a key."""
    return _ESCAPE.sub(lambda found: _UNESCAPED[found[0]], name)


def is_one_part(path: str) -> bool:
    """Whether a path as keys spell it has one part.  PyTorch separates parts by dots."""
    plain = _ESCAPE.sub("", path)
    return plain != "" and "/" not in plain and "." not in plain


def hides_attributes(edge: str) -> bool:
    """Whether TensorFlow restores nothing below an edge of this name.

    It takes what follows the first `.ATTRIBUTES/` of a key for the attribute's name, and
    finds that in the escaped edge `..ATTRIBUTES`, too.
    """
    return edge.endswith(ATTRIBUTES)


def table_part(key: str) -> str:
    """Return the half of a hash table that a key refers to, `-keys` or `-values`, or ""."""
    return next((suffix for suffix in TABLE_SUFFIXES if key.endswith(f"/{ATTRIBUTES}/{TABLE}{suffix}")), "")


def looks_object_based(key: str) -> bool:
    """Whether a key is spelled like one of an object-based checkpoint."""
    return f"/{ATTRIBUTES}/" in key
