"""The table of architectures: what is known of each `model_type` of a config.json.

    classes.tsv   model_type, library, prefix of the base model, classes with it, classes without it; made by
                  `tests.hub` of the models that transformers 4.41 and ckpt convert alike
    rules.tsv     model_types, library, regular expression, replacement, operations: where an architecture
                  differs from the general rules (`names`)
    back.tsv      library, model_type, rank, classes, name: the variables of each class, for the way back

A rule is searched in the name that the general rules give, with the prefix.  The replacement `=` keeps the
name. `-` leaves the tensor out, because PyTorch ties it to another one or computes it. `-tied` does so unless
the configuration says that embeddings are not tied, and `-headed` unless the class is the base model. `!`
rejects the tensor.  The operation `squeeze` removes axes of length 1; the others are those of maps. A rule
that leaves a tensor out has, instead of operations, the PyTorch name of the tensor it is tied to.
"""

from __future__ import annotations

import os
import re
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from formats.location import local_location

if TYPE_CHECKING:
    from collections.abc import Iterator

_HERE = local_location(os.path.dirname(__file__))
KEEP, REJECT = "=", "!"
DROP, DROP_TIED, DROP_HEADED = "-", "-tied", "-headed"
SQUEEZE = "squeeze"


class ExceptionRow(NamedTuple):
    """Where an architecture differs."""

    pattern: re.Pattern[str]
    new: str
    last: str = ""
    """Operations, or the tensor to which one that is left out is tied."""

    def drops(self, *, ties: bool, is_headed: bool) -> bool:
        """Whether a tensor is left out of a model that ties its embeddings, or has a head, or does not."""
        return self.new == DROP or (self.new == DROP_TIED and ties) or (self.new == DROP_HEADED and is_headed)

    @property
    def rejects(self) -> bool:
        return self.new == REJECT

    @property
    def may_drop(self) -> bool:
        return self.new in (DROP, DROP_TIED, DROP_HEADED)

    @property
    def operations(self) -> str:
        return "" if self.may_drop else self.last

    @property
    def partner(self) -> str:
        """The PyTorch name of the tensor to which one that is left out is tied; empty if it is to none."""
        return self.last if self.may_drop else ""

    def renamed(self, name: str) -> str:
        """Return the name of a tensor that the rule is about."""
        return name if self.new == KEEP or self.may_drop else self.pattern.sub(self.new, name)


class Architecture(NamedTuple):
    """A `model_type` in one library: its classes, and the rules for its names."""

    model_type: str
    library: str
    prefix: str
    headed: frozenset[str]
    """Classes whose tensors have the prefix of the base model."""

    bare: frozenset[str]
    """Classes whose tensors are those of the base model."""

    rules: tuple[ExceptionRow, ...] = ()

    @property
    def classes(self) -> frozenset[str]:
        return self.headed | self.bare

    def rule(self, name: str) -> ExceptionRow | None:
        """Return the first rule about a tensor of this name."""
        return next((rule for rule in self.rules if rule.pattern.search(name)), None)


def lines_of(name: str) -> Iterator[list[str]]:
    """Yield the columns of each line of a table."""
    with (_HERE / name).open() as file:
        text = file.read(0, file.size).decode()
    for line in text.splitlines():
        if line and not line.startswith("#"):
            yield line.split("\t")


@cache
def architectures() -> dict[tuple[str, str], list[Architecture]]:
    """Return the architectures by model_type and library; several where classes have different prefixes."""
    rules: dict[tuple[str, str], list[ExceptionRow]] = {}
    for model_types, library, pattern, new, *operations in lines_of("rules.tsv"):
        for model_type in model_types.split(","):
            rule = ExceptionRow(re.compile(pattern), new, "".join(operations))
            rules.setdefault((model_type, library), []).append(rule)
    out: dict[tuple[str, str], list[Architecture]] = {}
    for model_type, library, prefix, headed, bare in lines_of("classes.tsv"):
        key = (model_type, library)
        its = (*rules.get(key, ()), *rules.get(("*", library), ()))
        found = Architecture(*key, prefix, _split(headed), _split(bare), its)
        out.setdefault(key, []).append(found)
    return out


def _split(column: str) -> frozenset[str]:
    return frozenset(filter(None, column.split(",")))
