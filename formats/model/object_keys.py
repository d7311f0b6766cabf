"""How TensorFlow spells the keys of object-based checkpoints.

    variable:  <path>/.ATTRIBUTES/<attribute>
    slot:      <variable's path>/.OPTIMIZER_SLOT/<optimizer's path>/<slot>/.ATTRIBUTES/<attribute>

A path is edge names joined by `/`, each escaped: every `.` doubled, then every `/`
as `.S`.  So a component that begins with a single dot and a letter is TensorFlow's own.
Keys are read off the object graph, never taken apart: after an edit they may say
something else than the edges, and the edges decide.
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
"""What the keys of all variables end in; exports leave it out."""

SAVE_COUNTER = "save_counter"
"""The edge from the root to the number of saves that `tf.train.Checkpoint` counts."""

TABLE = "table"
"""The attribute of a hash table: two tensors of as many rows as it has entries, or buckets."""

TABLE_SUFFIXES = ("-keys", "-values")

SUFFIXES = ("_STATE", *TABLE_SUFFIXES)
"""What iterators and hash tables append to the key that the object graph gives them."""

_UNESCAPED = {"..": ".", ".S": "/"}
_ESCAPE = re.compile(r"\.[.S]")


def escape(name: str) -> str:
    """Return an edge name as it stands in a key."""
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
    """Return which half of a hash table a key of an object graph is, `-keys` or `-values`; else nothing."""
    return next((suffix for suffix in TABLE_SUFFIXES if key.endswith(f"/{ATTRIBUTES}/{TABLE}{suffix}")), "")


def looks_object_based(key: str) -> bool:
    """Whether a key is spelled like one of an object-based checkpoint."""
    return f"/{ATTRIBUTES}/" in key
