"""One HTML file that holds all it shows: text that is readable as it is, data, and a script that draws them.

Nothing in it leads outside, and its Content-Security-Policy lets nothing come from there: the one style
and the one script are allowed by their hashes.  Names come from files and can be anything.  In the text
they are escaped; the data are compressed and spelled in base64, so that nothing in them means anything
to HTML; and the script makes text of them, never markup.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import operator
import os
import zlib
from collections import Counter
from html import escape as escape_markup
from typing import TYPE_CHECKING, Any

from formats.core.words import counted, natural_order

from ..operations.look.listing import TOP_LEVEL, split_layer
from . import base as render
from .matrix import percent

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence


_FOLDER = os.path.join(os.path.dirname(__file__), "web")
_SCRIPTS = (
    "tools.js",
    "names.js",
    "links.js",
    "rows.js",
    "charts.js",
    "tensors.js",
    "graph.js",
    "checkpoint.js",
    "two.js",
    "several.js",
    "origins.js",
    "run.js",
    "drawing.js",
    "start.js",
)
_MOST_ROWS = 200
"""The most rows of a table without the script; longer ones are unreadable."""

_DISTANCE = "‖a-b‖ / ‖b‖"
_LONGEST = 300
"""Characters of a name in such a table."""


def page(
    document: dict[str, Any], version: str, *, still: str | None = None, styles: Sequence[str] = ()
) -> bytes:
    """Return the file that shows a document of `operations.look.report`, and of those like it.

    `still` is what is there without the script, of a document that has its own, and `styles` are those
    of its elements.
    """
    style, script = _read("page.css"), _script()
    allowed = " ".join(f"'{_hash(each)}'" for each in (style, *styles))
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src {allowed}; img-src data:; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
    )
    data = json.dumps({**document, "version": version}, allow_nan=False, separators=(",", ":"))
    packed = base64.b64encode(zlib.compress(data.encode(), 6)).decode()
    title = text(f"{document['name']} - ckpt {'graph' if document['what'] == 'graph' else 'report'}")
    made_by = (document.get("made"), f"ckpt {version}", document.get("command"))
    made = f"<p>{text(' · '.join(filter(None, made_by)), 2000)}</p>\n"
    parts = [
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        f'<link rel="icon" href="data:,">\n<title>{title}</title>\n<style>{style}</style>\n</head>\n<body>',
        f'<main id="still">\n{_STILL[document["what"]](document) if still is None else still}\n{made}</main>',
        f'<script type="text/plain" id="data">{packed}</script>\n<script>{script}</script>\n</body>\n</html>',
        "",
    ]
    return "\n".join(parts).encode()


def _script() -> str:
    return "\n".join(['"use strict";', *map(_read, _SCRIPTS)])


def _read(name: str) -> str:
    with open(os.path.join(_FOLDER, name), encoding="utf-8") as file:
        return file.read()


def _hash(content: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}"


def text(value: object, longest: int = _LONGEST) -> str:
    """Return a value as HTML text: invisible characters spelled out, the end cut off."""
    shown = str(value)
    more = f"… ({len(shown):,} characters)" if len(shown) > longest else ""
    return escape_markup(render.escape(shown[:longest]) + more)


# The page without the script ------------------------------------------------------


def _checkpoint(document: dict[str, Any]) -> str:
    return "\n".join([*_heading(document["name"], document["path"]), *_contents(document)])


def _contents(document: dict[str, Any]) -> list[str]:
    """Return what is in a checkpoint: facts, damage, layers and tensors."""
    tensors = document["tensors"]
    names = [name or key for name, key in zip(tensors["names"], tensors["keys"], strict=True)]
    sizes = [size or 0 for size in tensors["nbytes"]]
    order = sorted(range(len(names)), key=lambda at: -sizes[at])
    return [
        _facts(document),
        *_warnings(document),
        *_alarm(document["broken"].values()),
        "<h2>Sizes by layer</h2>",
        _layers(names, sizes),
        f"<h2>{counted(len(names), 'tensor')}, largest first</h2>",
        _table(
            ("name", "dtype", "shape", "size", "min", "max", "mean", "std", "NaN", "inf"),
            [_tensor_cells(document, names, at) for at in order[:_MOST_ROWS]],
            len(names),
        ),
    ]


def _heading(name: str, path: str) -> list[str]:
    return [
        f"<h1>{text(name)}</h1>",
        f"<p>{text(path)}</p>",
        "<noscript><p>" + _NO_SCRIPT + "</p></noscript>",
    ]


_NO_SCRIPT = (
    "This is the page without JavaScript. Turn JavaScript on for search, pictures and the tensor tree;"
    " the script is in this file."
)


def _facts(document: dict[str, Any]) -> str:
    rows = [("format", f"{document['format']} ({document['title']})")]
    rows += [(name, document[name]) for name in ("producer", "step") if document[name] is not None]
    found = document["total"]
    rows += [("tensors", f"{found['tensors']:,}, {render.human_size(found['nbytes'])}")]
    rows += [("parameters", f"{found['parameters']:,}")]
    rows += [(kind, _sized(counts)) for kind, counts in document["kinds"].items()]
    rows += [(name, _sized(counts)) for name, counts in document["dtypes"].items()]
    rows += [("file", f"{file['name']} ({render.human_size(file['nbytes'])})") for file in document["files"]]
    return _definitions(rows)


def _definitions(rows: Iterable[tuple[str, object]]) -> str:
    return "<dl>" + "".join(f"<dt>{text(name)}</dt><dd>{text(value)}</dd>" for name, value in rows) + "</dl>"


def _sized(counts: dict[str, int]) -> str:
    return f"{counted(counts['tensors'], 'tensor')}, {render.human_size(counts['nbytes'])}"


def _warnings(document: dict[str, Any]) -> list[str]:
    missing = [f"{path}: missing" for path in document["missing"]]
    return _alarm([*document["findings"], *missing])


def _alarm(messages: Collection[str]) -> list[str]:
    if not messages:
        return []
    items = "".join(f"<li>{text(message)}</li>" for message in list(messages)[:_MOST_ROWS])
    return [f'<ul class="warnings">{items}</ul>', *_left_out(len(messages))]


def _layers(names: Sequence[str], sizes: Sequence[int]) -> str:
    """Return the sizes of layers: the part of a name before the last, or that of a slot's variable."""
    layers: dict[str, list[int]] = {}
    for name, size in zip(names, sizes, strict=True):
        found = layers.setdefault(split_layer(name)[0], [0, 0])
        found[0] += 1
        found[1] += size
    order = sorted(layers, key=lambda layer: (-layers[layer][1], natural_order(layer)))
    rows = [
        [layer or TOP_LEVEL, f"{layers[layer][0]:,}", render.human_size(layers[layer][1])]
        for layer in order[:_MOST_ROWS]
    ]
    return _table(("layer", "tensors", "size"), rows, len(order))


def _tensor_cells(document: dict[str, Any], names: Sequence[str], at: int) -> list[object]:
    tensors = document["tensors"]
    dtype, shape = tensors["specs"][tensors["spec"][at]]
    head = [names[at], dtype or "unknown", str(shape), render.human_size(tensors["nbytes"][at])]
    if at in document["broken"]:
        return [*head, "damaged"]
    found = tensors["statistics"]
    return [*head, *(_figure(found[name][at]) for name in ("min", "max", "mean", "std", "nan", "inf"))]


def _figure(value: float | str | None) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return f"{value:,}" if isinstance(value, int) else f"{value:.5g}"


def _table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], total: int, *, sort: str = "wide"
) -> str:
    head = "".join(f"<th>{name}</th>" for name in columns)
    body = "\n".join("<tr>" + "".join(f"<td>{text(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return "\n".join([f'<div class="{sort}"><table><tr>{head}</tr>\n{body}</table></div>', *_left_out(total)])


def _left_out(total: int) -> list[str]:
    return [f"<p>{total - _MOST_ROWS:,} more are not shown.</p>"] if total > _MOST_ROWS else []


def _far(row: dict[str, Any]) -> list[str]:
    """Return how far values are apart: the distance in percent, and the cosine."""
    far = row.get("rel_l2")
    return [percent(None if far is None else float(far)), _figure(row.get("cosine"))]


def _two(document: dict[str, Any]) -> str:
    entries = sorted(document["entries"], key=operator.itemgetter("rank"))
    rows = [
        [
            entry.get("name") or entry["key"],
            entry["change"],
            *_far(entry),
            _figure(entry.get("max_abs")),
            _figure(entry.get("differing")),
            f"{(entry.get('right') or entry['left'])[3]:,}",
        ]
        for entry in entries[:_MOST_ROWS]
    ]
    counts = Counter(entry["layer"] for entry in entries)
    layers = [
        [layer["name"] or TOP_LEVEL, f"{counts[at]:,}", *_far(layer)]
        for at, layer in enumerate(document["layers"][:_MOST_ROWS])
    ]
    return "\n".join(
        [
            *_heading(document["name"], f"{document['path']} → {document['other']}"),
            *_warnings(document["left"]),
            *_warnings(document["right"]),
            *_alarm(document["broken"].values()),
            _definitions(_two_facts(document)),
            "<h2>Layers, the largest change first</h2>",
            _table(("layer", "tensors", _DISTANCE, "cosine"), layers, len(document["layers"])),
            f"<h2>{counted(len(entries), 'tensor')} changed</h2>",
            _table(
                ("name", "change", _DISTANCE, "cosine", "largest |a-b|", "differing", "elements"),
                rows,
                len(entries),
            ),
        ]
    )


def _two_facts(document: dict[str, Any]) -> list[tuple[str, object]]:
    far, cosine = _far(document["apart"])
    changes = Counter(entry["change"] for entry in document["entries"])
    facts = [(_DISTANCE, far), ("cosine", cosine), *((change, f"{n:,}") for change, n in changes.items())]
    return [fact for fact in (*facts, ("unchanged", f"{document['same']:,}")) if fact[1]]


def _origins(document: dict[str, Any]) -> str:
    weights, unused = document["weights"], document["unused"]
    rows = [
        [
            each["key"],
            " + ".join(each["from"]),
            each["rule"],
            each["verdict"],
            _figure(each["max_error"]),
            _figure(each["allowed"]),
        ]
        for each in weights[:_MOST_ROWS]
    ]
    facts = [(verdict, f"{count:,}") for verdict, count in document["verdicts"].items()]
    facts += (
        [("constants that were not compared", f"{document['constants']:,}")] if document["constants"] else []
    )
    out = [
        *_heading(document["name"], f"{document['path']}, compared with {document['other']}"),
        *_warnings(document["export"]),
        *_warnings(document["source"]),
        _definitions(facts),
        f"<h2>{counted(len(weights), 'weight')}, unproved ones first</h2>",
        _table(
            ("weight", "made from", "rule", "verdict", "largest error", "allowed"),
            rows,
            len(weights),
            sort="wide prose",
        ),
    ]
    if unused:
        names = [[key] for key in unused[:_MOST_ROWS]]
        out += ["<h2>Source tensors that no weight was made from</h2>", _table(("name",), names, len(unused))]
    return "\n".join(out)


def _several(document: dict[str, Any]) -> str:
    names, tensors = document["names"], document["tensors"]
    columns = ["", *(f"{at}" for at in range(1, len(names) + 1))]
    rows = [
        [f"{at} {name}", *(percent(None if cell is None else float(cell)) for cell in row)]
        for at, (name, row) in enumerate(zip(names, document["rel_l2"], strict=True), 1)
    ]
    norms = [[each["name"], str(each["shape"]), *map(_figure, each["l2"])] for each in tensors[:_MOST_ROWS]]
    return "\n".join(
        [
            *_heading(document["name"], ", ".join([document["path"], *document["others"]])),
            _definitions([("checkpoints", len(names)), ("tensors compared", f"{len(tensors):,}")]),
            "<h2>Distances: ‖row - column‖ / ‖column‖</h2>",
            _table(columns, rows, len(rows)),
            '<div class="remarks">',
            *(f"<p>{text(remark)}</p>" for remark in document["remarks"]),
            "</div>",
            "<h2>By layer: ‖x - first‖ / ‖first‖, the largest first</h2>",
            _table(["layer", *columns[2:]], _several_layers(document), len(document["groups"])),
            f"<h2>Norms of {counted(len(tensors), 'tensor')}</h2>",
            _table(["tensor", "shape", *columns[1:]], norms, len(tensors)),
        ]
    )


def _several_layers(document: dict[str, Any]) -> list[list[str]]:
    """Return how far each layer is from its first version."""
    groups = [(each["prefix"], [row[0] for row in each["rel_l2"][1:]]) for each in document["groups"]]

    def farthest(cells: Sequence[float | str | None]) -> float:
        known = [float(cell) for cell in cells if cell is not None]
        return max((math.inf if math.isnan(each) else each for each in known), default=0.0)

    groups.sort(key=lambda group: farthest(group[1]), reverse=True)
    return [
        [prefix or TOP_LEVEL, *(percent(None if cell is None else float(cell)) for cell in cells)]
        for prefix, cells in groups[:_MOST_ROWS]
    ]


def _run(document: dict[str, Any]) -> str:
    fields = ("name", "step", "modified", "changed", "tensors", "l2", "ratio", "nan", "inf", "loss")
    titles = ("name", "step", "modified", "changed", "tensors", "norm", "update ratio", "NaN", "inf", "loss")
    points, frozen = document["checkpoints"], document["frozen"]
    rows = [[_figure(point[field]) for field in fields] for point in points[-_MOST_ROWS:]]
    bad = next((point for point in points if point["nan"]), None)
    out = [*_heading(document["name"], document["path"]), *_alarm(document["findings"])]
    out += [f"<p>First NaN: {text(bad['name'])}, {text(bad['first_nan'])}</p>"] if bad else []
    last = points[-1]
    facts = [
        ("latest", last["name"]),
        ("update ratio", _figure(last["ratio"])),
        ("norm", _figure(last["l2"])),
    ]
    out += [_definitions((name, value) for name, value in facts if value)]
    out += [f"<h2>{counted(len(points), 'checkpoint')}</h2>", _table(titles, rows, len(points))]
    if frozen:
        names = [[key] for key in frozen[:_MOST_ROWS]]
        out += ["<h2>Weights that never changed</h2>", _table(("name",), names, len(frozen))]
    if document["latest"] is not None:
        out += [f"<h2>Latest: {text(document['latest']['name'])}</h2>", *_contents(document["latest"])]
    return "\n".join(out)


_STILL: dict[str, Callable[[dict[str, Any]], str]] = {
    "checkpoint": _checkpoint,
    "two": _two,
    "origins": _origins,
    "several": _several,
    "run": _run,
}
