"""The JSON schemas of docs/schemas: what each command prints with --json.

`python -m tests.schemas` writes the current ones. A test fails if they are stale, and another if a command
prints something else. Fields are always present, except those in `beside`.
"""

from __future__ import annotations

import json
import os
from typing import Any

from tests.test_architecture import ROOT

FOLDER = os.path.join(ROOT, "docs", "schemas")
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_PLACE = "https://github.com/ckpt-tools/ckpt/blob/main/docs/schemas/{}.schema.json"

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
FLAG: Schema = {"type": "boolean"}
COUNT: Schema = {"type": "integer", "minimum": 0}
INTEGER: Schema = {"type": "integer"}
NUMBER: Schema = {"anyOf": [{"type": "number"}, {"enum": ["nan", "inf", "-inf"]}]}
NAME: Schema = {"type": "string", "description": "a key: UTF-8, other bytes as lone surrogates"}
DTYPE: Schema = {"type": "string", "description": "TensorFlow's name"}
IDENTITY: Schema = {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"}
TIME: Schema = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$"}


def maybe(schema: Schema) -> Schema:
    """Return a schema of what may be unknown, which is null."""
    if set(schema) == {"type"}:
        return {"type": [schema["type"], "null"]}
    return {"anyOf": [schema, {"type": "null"}]}


def listed(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


def one_of(*words: str) -> Schema:
    return {"enum": list(words)}


def by_name(schema: Schema) -> Schema:
    """Return a schema of an object whose keys are names."""
    return {"type": "object", "additionalProperties": schema}


def fields(found: dict[str, Schema], beside: dict[str, Schema] | None = None) -> Schema:
    """Return a schema of an object that has these fields, may have those in `beside`, and has no others."""
    return {
        "type": "object",
        "properties": found | (beside or {}),
        "required": list(found),
        "additionalProperties": False,
    }


def document(found: dict[str, Schema], beside: dict[str, Schema] | None = None) -> Schema:
    """Return a schema of a document: what it is, and the number of its own schema."""
    return fields({"schema": {"const": 1}, **found}, beside)


SHAPE = listed(COUNT)
DISTANCES = listed(listed(maybe(NUMBER)))
SPEC = {"dtype": DTYPE, "shape": SHAPE}
STORED_SPEC = {"dtype": maybe(DTYPE), "shape": SHAPE}
QUANTIZED: dict[str, Schema] = {
    "scale": {"anyOf": [NUMBER, listed(NUMBER)]},
    "zero_point": {"anyOf": [{"type": "integer"}, listed({"type": "integer"})]},
    "axis": COUNT,
    "minimum": NUMBER,
}
STORED = {"stored": fields({"dtype": TEXT, "nbytes": maybe(COUNT)}, QUANTIZED)}
KIND = one_of("variable", "slot", "optimizer", "state", "graph")
SIZED = {"tensors": COUNT, "nbytes": COUNT}
STATISTICS = {
    **dict.fromkeys(("min", "max", "mean", "std", "l2"), maybe(NUMBER)),
    **dict.fromkeys(("zeros", "nan", "inf"), COUNT),
}

# Writing ----------------------------------------------------------------------------

MOVE = {"from": maybe(NAME), "to": NAME, **STORED_SPEC}
WRITTEN = {
    "source": TEXT,
    "target": TEXT,
    "format": TEXT,
    "tensors": listed(fields(MOVE, {"also": listed(NAME), "operations": TEXT, **STORED})),
    "dropped": listed(fields({"key": NAME, "reason": TEXT})),
    "verified": FLAG,
    "verification": one_of("none", "linked", "sent", "full"),
}
LOST = {
    "key": maybe(NAME),
    "dtype": maybe(DTYPE),
    "shape": maybe(SHAPE),
    "reason": TEXT,
    "code": TEXT,
    "file": maybe(TEXT),
    "offset": maybe(COUNT),
}
RESCUED = {
    **WRITTEN,
    "format": maybe(TEXT),
    "tensors": listed(fields({**MOVE, "proof": maybe(one_of("checksum", "sibling"))}, STORED)),
    "lost": listed(fields(LOST)),
    "unproved": listed(fields({"key": NAME, "reason": TEXT})),
    "graph": maybe(one_of("kept", "trimmed", "sibling", "rebuilt")),
    "sibling": maybe(TEXT),
}

# Listing ----------------------------------------------------------------------------

TOTAL = {"tensors": COUNT, "parameters": COUNT, "nbytes": COUNT}
TENSOR = {
    "key": NAME,
    "dtype": maybe(DTYPE),
    "shape": SHAPE,
    "nbytes": maybe(COUNT),
    "kind": maybe(KIND),
}
LONG = {
    "object_path": maybe(TEXT),
    "full_name": maybe(NAME),
    "shard": maybe(COUNT),
    "offset": maybe(COUNT),
    "crc32c": maybe(COUNT),
    "trainable": maybe(FLAG),
}
DIGEST: Schema = {
    "type": "string",
    "pattern": "^((crc32c|stored|slices):[0-9a-f]{8}|sha256:[0-9a-f]{64})$",
}
LISTING = document(
    {
        "path": TEXT,
        "format": TEXT,
        "tensors": listed(fields(TENSOR, {**LONG, **STORED, "digest": maybe(DIGEST)})),
        "total": fields(TOTAL),
    },
    {
        "graph": maybe(TEXT),
        "prefixes": listed(fields({"prefix": TEXT, **TOTAL})),
    },
)
MEMBER = {
    "name": TEXT,
    "path": TEXT,
    "format": maybe(TEXT),
    "step": maybe(INTEGER),
    "tensors": maybe(COUNT),
    "nbytes": maybe(COUNT),
    "modified": maybe(TIME),
    "kept": maybe(FLAG),
    "shared_with": listed(TEXT),
    "shared_nbytes": COUNT,
    "incomplete": FLAG,
}
FILE = {"name": TEXT, "nbytes": COUNT, "modified": maybe(TIME)}
DIRECTORY = {
    "directory": TEXT,
    "latest": maybe(TEXT),
    "checkpoints": listed(
        fields(MEMBER, {"stored_step": maybe(INTEGER), "identity": maybe(IDENTITY), "copies": listed(TEXT)})
    ),
    "events": listed(fields(FILE)),
    "graphs": listed(fields(FILE)),
}

# Looking ----------------------------------------------------------------------------

VALUES: Schema = {
    "description": "nested lists of the tensor's shape; complex numbers as pairs",
    "anyOf": [
        NUMBER,
        FLAG,
        TEXT,
        fields({"base64": TEXT}),
        {"type": "array", "items": {"$ref": "#/$defs/values"}},
    ],
}
SUMMARY = {
    "path": TEXT,
    "format": TEXT,
    "producer": maybe(TEXT),
    "step": maybe(INTEGER),
    "files": listed(fields({"name": TEXT, "nbytes": maybe(COUNT)})),
    "shared": listed(fields({"name": TEXT, "with": listed(TEXT)})),
    "kinds": by_name(fields(SIZED)),
    "dtypes": by_name(fields(SIZED)),
    "metadata": {"type": "object", "description": "what the checkpoint says of itself, by its format"},
}
SHOWN = {
    "path": TEXT,
    "key": NAME,
    **STORED_SPEC,
    "nbytes": maybe(COUNT),
    "kind": maybe(KIND),
    "stats": maybe(fields(STATISTICS)),
    "values": maybe({"$ref": "#/$defs/values"}),
}
ITERATOR = fields(
    {
        "pipeline": TEXT,
        "has_ended": FLAG,
        "position": maybe(
            fields(
                {
                    "passes": listed(COUNT),
                    "unit": one_of("element", "value"),
                    "next": INTEGER,
                    "step": TEXT,
                }
            )
        ),
        "steps": listed(
            fields(
                {
                    "step": TEXT,
                    "depth": COUNT,
                    "numbers": by_name(INTEGER),
                    "held": listed(listed(fields(SPEC))),
                }
            )
        ),
    }
)
STATS = document({"path": TEXT, "tensors": listed(fields({"key": NAME, **SPEC, **STATISTICS}))})
POINT = {
    "name": TEXT,
    "path": TEXT,
    "format": maybe(TEXT),
    "step": maybe(INTEGER),
    "modified": maybe(TIME),
    **dict.fromkeys(("tensors", "changed", "unchanged", "added", "removed", "uncompared"), maybe(COUNT)),
    "l2": maybe(NUMBER),
    "nan": maybe(COUNT),
    "inf": maybe(COUNT),
    "first_nan": maybe(NAME),
    "global_step": maybe(INTEGER),
    "loss": maybe(NUMBER),
    "loss_step": maybe(INTEGER),
    "untrained_l2": maybe(NUMBER),
    "metrics": maybe(by_name(NUMBER)),
}
LOG = document(
    {
        "directory": TEXT,
        "latest": maybe(TEXT),
        "checkpoints": listed(fields(POINT)),
        "frozen": listed(NAME),
        "events": fields({"files": listed(TEXT), "tag": maybe(TEXT), "tags": listed(TEXT)}),
    }
)
NODE = {
    "id": COUNT,
    "object_path": maybe(TEXT),
    "kind": maybe(KIND),
    "key": maybe(NAME),
    "children": listed(fields({"name": TEXT, "id": COUNT})),
    "slots": listed(fields({"variable": COUNT, "name": TEXT, "id": COUNT})),
    "keys": listed(NAME),
    "dtype": maybe(DTYPE),
    "shape": maybe(SHAPE),
    "nbytes": COUNT,
}
FINDING = {
    "severity": one_of("error", "warning"),
    "code": TEXT,
    "message": TEXT,
    "key": maybe(NAME),
    "file": maybe(TEXT),
    "offset": maybe(COUNT),
}
VERIFIED = fields(
    {
        "path": TEXT,
        "format": maybe(TEXT),
        "ok": FLAG,
        "checked": fields(SIZED),
        "findings": listed(fields(FINDING)),
    },
    {
        "outputs": fields(
            {
                "like": TEXT,
                "input": maybe(TEXT),
                "elements": COUNT,
                "differing": COUNT,
                "max_abs": NUMBER,
                "max_rel": NUMBER,
            }
        ),
        "made_from": fields(
            {
                "source": TEXT,
                "weights": listed(
                    fields(
                        {
                            "key": NAME,
                            "from": listed(NAME),
                            "rule": TEXT,
                            "verdict": {"enum": ["equal", "within", "other", "unpaired"]},
                            "max_error": maybe(NUMBER),
                            "allowed": maybe(NUMBER),
                        }
                    )
                ),
            }
        ),
        "training": fields(
            {
                "like": TEXT,
                "variables": COUNT,
                "differing": COUNT,
                "first": maybe(NAME),
                "optimizer": TEXT,
            }
        ),
    },
)

# Comparing --------------------------------------------------------------------------

CHANGE = {
    "key": NAME,
    "change": one_of("added", "removed", "renamed", "dtype", "shape", "value", "same"),
    "from": maybe(NAME),
    "left": maybe(fields(STORED_SPEC, STORED)),
    "right": maybe(fields(STORED_SPEC, STORED)),
    "max_abs": maybe(NUMBER),
    "max_rel": maybe(NUMBER),
    "differing": maybe(COUNT),
}
DIFFERENCES = {
    "left": TEXT,
    "right": TEXT,
    "summary": fields(dict.fromkeys(("same", "changed", "added", "removed", "renamed"), COUNT)),
    "entries": listed(
        fields(CHANGE, {"apart": TEXT, "rel_l2": NUMBER, "cosine": maybe(NUMBER), "l2": NUMBER})
    ),
}
DIFF = document(DIFFERENCES)
UNLIKE = {"key": NAME, "checkpoint": {"anyOf": [SHAPE, DTYPE]}, "target": {"anyOf": [SHAPE, DTYPE]}}
MATCH = {
    "checkpoint": TEXT,
    "target": TEXT,
    "assert_consumed": FLAG,
    "assert_existing_objects_matched": FLAG,
    "restored": listed(fields({"target": maybe(NAME), "checkpoint": NAME})),
    "unmatched_target": listed(NAME),
    "unused_checkpoint": listed(NAME),
    "shape_mismatch": listed(fields(UNLIKE)),
    "dtype_mismatch": listed(fields(UNLIKE)),
    "failures": listed(TEXT),
    "remedy": maybe(TEXT),
    "likely_renames": listed(fields({"target": NAME, "checkpoint": NAME})),
    "proposed": listed(fields({"source": NAME, "target": NAME, "why": TEXT, "ambiguous": FLAG})),
    "harmless": listed(fields({"side": one_of("checkpoint", "target"), "key": NAME})),
    "optimizers": listed(
        fields(
            {
                "optimizer": TEXT,
                "target": maybe(TEXT),
                "slots": COUNT,
                "lost": COUNT,
                "mistaken": COUNT,
                "why": maybe(TEXT),
            }
        )
    ),
    "fix": maybe(TEXT),
    "fix_keeps": listed(NAME),
}

# Runs -------------------------------------------------------------------------------

STATE = {
    "directory": TEXT,
    "latest": maybe(TEXT),
    "checkpoints": listed(
        fields({"name": TEXT, "path": TEXT, "timestamp": maybe(NUMBER), "exists": FLAG, "listed": TEXT})
    ),
    "unlisted": listed(TEXT),
    "leftovers": listed(TEXT),
    "changes": listed(fields({"action": TEXT, "name": TEXT, "why": TEXT, "nbytes": COUNT})),
}
RUN = {
    "directory": TEXT,
    "learning_rate": NUMBER,
    "steps": maybe(COUNT),
    "loss": maybe(NUMBER),
    "checkpoints": listed(TEXT),
}
EXPLAINED = {"title": TEXT, "meaning": TEXT, "commands": listed(TEXT)}

SCHEMAS: dict[str, tuple[Schema, ...]] = {
    "average": (document(WRITTEN),),
    "completion": (
        document({"shell": one_of("bash", "zsh", "fish"), "script": TEXT, "installed": maybe(TEXT)}),
    ),
    "convert": (document(WRITTEN), document({"directory": TEXT, "checkpoints": listed(fields(WRITTEN))})),
    "demo": (document({"directory": TEXT, "runs": listed(fields(RUN)), "try": listed(TEXT)}),),
    "diff": (
        DIFF,
        document(
            {
                "pairs": listed(document({"name": TEXT, **DIFFERENCES})),
                "only_left": listed(TEXT),
                "only_right": listed(TEXT),
            }
        ),
        document(
            {
                "paths": listed(TEXT),
                "rel_l2": DISTANCES,
                "groups": listed(fields({"prefix": TEXT, "rel_l2": DISTANCES})),
            }
        ),
    ),
    "explain": (
        document(
            {"matches": listed(fields(EXPLAINED))},
            {"topics": listed(fields({"name": TEXT, "title": TEXT}))},
        ),
    ),
    "extract": (document(WRITTEN),),
    "graph": (document({"path": TEXT, "nodes": listed(fields(NODE))}),),
    "help": (document({"command": TEXT, "help": TEXT}),),
    "log": (LOG, document({"results": listed(LOG)})),
    "ls": (
        LISTING,
        document(DIRECTORY),
        document({"directories": listed(fields(DIRECTORY))}),
        document({"results": listed({"anyOf": [LISTING, document(DIRECTORY)]})}),
    ),
    "match": (document(MATCH),),
    "rename": (document(WRITTEN),),
    "report": (
        document(
            {"path": TEXT, "other": maybe(TEXT), "output": TEXT, "nbytes": COUNT}, {"others": listed(TEXT)}
        ),
    ),
    "rescue": (document(RESCUED),),
    "show": (
        document(SUMMARY, {"identity": IDENTITY}),
        document(SHOWN, {"slice": TEXT, "iterator": ITERATOR}),
    ),
    "sign": (
        document(
            {"path": TEXT, "output": TEXT, "tensors": COUNT, "sha256": maybe(TEXT), "identity": IDENTITY}
        ),
    ),
    "state": (document(STATE),),
    "stats": (STATS, document({"results": listed(STATS)})),
    "verify": (document({"ok": FLAG, "results": listed(VERIFIED)}),),
}
"""Of each command the documents it prints: of one thing, of several."""


def schema(command: str) -> Schema:
    """Return the schema of what a command prints."""
    documents = SCHEMAS[command]
    found: Schema = {
        "$schema": _DIALECT,
        "$id": _PLACE.format(command),
        "title": f"ckpt {command} --json",
        **(documents[0] if len(documents) == 1 else {"oneOf": list(documents)}),
    }
    if "#/$defs/values" in json.dumps(found):
        found["$defs"] = {"values": VALUES}
    return found


def text(command: str) -> str:
    return json.dumps(schema(command), indent=1) + "\n"


def path(command: str) -> str:
    return os.path.join(FOLDER, f"{command}.schema.json")


def main() -> None:
    os.makedirs(FOLDER, exist_ok=True)
    for command in SCHEMAS:
        with open(path(command), "w", encoding="utf-8") as file:
            file.write(text(command))


if __name__ == "__main__":
    main()
