"""The data of a page about an export and its source: the verdict on each weight, unproved ones first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..look.flaws import Flaws
from ..look.report import Page, about, number
from .records import EQUAL, OTHER, UNPAIRED, WITHIN
from .verdicts import judge

if TYPE_CHECKING:
    from collections.abc import Callable

    from formats.core.spec import TensorSpec
    from formats.model.reader import FormatReader

    from .records import WeightOrigin

_ORDER = (OTHER, UNPAIRED, WITHIN, EQUAL)


def is_of_origins(export: FormatReader, source: FormatReader) -> bool:
    """Whether a page of two is about an export and its source: two files of one format are compared."""
    return export.format.is_export and source.format.name != export.format.name


def origins(
    export: FormatReader, source: FormatReader, advance: Callable[[int], None] = lambda _: None
) -> Page:
    """Return the page's data about an export and its source, with the verdicts of `verify --made-from`."""
    found = judge(export, source, advance)
    weights = sorted(found.weights, key=lambda each: _ORDER.index(each.verdict))
    counts = {verdict: sum(each.verdict == verdict for each in weights) for verdict in _ORDER}
    return Page(
        {
            "what": "origins",
            "name": f"{export.location.name} ← {source.location.name}",
            "path": export.location.path,
            "other": source.location.path,
            "export": about(export),
            "source": about(source),
            "verdicts": {verdict: count for verdict, count in counts.items() if count},
            "weights": [_weight(each, export.specs[each.key]) for each in weights],
            "unused": list(found.unused),
            "constants": found.constants,
            "sketches": {},
        },
        Flaws(),
    )


def _weight(found: WeightOrigin, spec: TensorSpec) -> dict[str, Any]:
    return {
        **found.document(),
        "max_error": number(found.max_error),
        "allowed": number(found.allowed),
        "spec": f"{spec.type_name} {list(spec.shape)}",
        "stored": spec.stored_as.name if spec.stored_as is not None else None,
    }
