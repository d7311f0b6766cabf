"""Places in a module where a mutant differs from it, and the text of the module with one of them changed."""

from __future__ import annotations

import ast
import copy
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Point", "mutated", "points_of", "probed"]


class Point(NamedTuple):
    """A place in a file, and what is there before and after."""

    path: str
    number: int
    line: int
    operator: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.operator}: {self.before}  ->  {self.after}"


_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
}
_TESTED = (ast.If, ast.While, ast.IfExp)


def points_of(path: str, text: str) -> list[Point]:
    """Return the points of a module, in the order of its syntax tree."""
    return [
        Point(path, number, node.lineno, operator, _shown(node), _shown(after))
        for number, (node, _, operator, after) in enumerate(_changes(ast.parse(text)))
    ]


def mutated(text: str, number: int) -> str:
    """Return the text of a module with one point changed."""
    tree = ast.parse(text)
    node, place, _, after = list(_changes(tree))[number]
    place.put(ast.copy_location(after, node))
    return ast.unparse(ast.fix_missing_locations(tree))


def probed(text: str, numbers: dict[int, int]) -> str:
    """Return the text of a module that reports the points that a program reaches.

    `numbers` has what each is called there.  An expression E becomes `probe(NUMBER) or E`, which is the same.
    """
    tree = ast.parse(text)
    changes = list(_changes(tree))
    for number, told in numbers.items():
        node, place, _, _ = changes[number]
        call = ast.Call(ast.Name(_PROBE, ast.Load()), [ast.Constant(told)], [])
        # A place that an earlier probe is at already has it before its own expression.
        place.put(ast.copy_location(ast.BoolOp(ast.Or(), [call, place.get()]), node))
    at = next(
        (n for n, each in enumerate(tree.body) if not isinstance(each, ast.Expr) and not _is_future(each)), 0
    )
    tree.body[at:at] = ast.parse(PROBE).body
    return ast.unparse(ast.fix_missing_locations(tree))


_PROBE = "__probe__"

PROBE = f"""
def {_PROBE}(number):
    import os, sys
    seen = sys.__dict__.setdefault("_mutants_seen", set())
    if number not in seen:
        seen.add(number)
        pid, _, path = os.environ.get("CKPT_MUTANTS_SEEN", "").partition(":")
        if path and os.getpid() != int(pid):
            file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(file, b"%d\\n" % number)
            os.close(file)
"""
"""Reports that a program has reached a point: in the process of the tests in a set, in others in a file."""


def _is_future(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


# Where something can be changed ----------------------------------------------------------


class _Place(NamedTuple):
    """A field of a node, or one of the nodes in it."""

    parent: ast.AST
    field: str
    index: int | None

    def get(self) -> ast.expr:
        held = getattr(self.parent, self.field)
        return held if self.index is None else held[self.index]  # type: ignore[no-any-return]

    def put(self, node: ast.expr) -> None:
        if self.index is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.index] = node


_Change = tuple[ast.expr, _Place, str, ast.expr]


def _changes(tree: ast.Module) -> Iterator[_Change]:
    """Yield the expressions that can be changed, each with its place, the operator and what it becomes."""
    for place in _places(tree):
        node = place.get()
        for operator, after in _variants(place, node):
            yield node, place, operator, after


def _places(parent: ast.AST) -> Iterator[_Place]:
    """Yield the places of all expressions that are computed, except for what a program asserts."""
    for field, value in ast.iter_fields(parent):
        if field in ("annotation", "returns", "decorator_list", "bases", "format_spec", "ctx"):
            continue
        for index, node in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if not isinstance(node, ast.AST) or _is_assumed(node):
                continue
            if isinstance(node, ast.expr) and isinstance(getattr(node, "ctx", None) or ast.Load(), ast.Load):
                yield _Place(parent, field, index)
            yield from _places(node)


def _is_assumed(node: ast.AST) -> bool:
    """Whether a node says what holds anyway: an assertion, `zip(..., strict=True)`, imports for types."""
    if isinstance(node, ast.keyword):
        return node.arg == "strict"
    is_for_types = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
    return is_for_types or isinstance(node, ast.Assert)


def _variants(place: _Place, node: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(node, ast.Compare):
        for at, op in enumerate(node.ops):
            after = copy.deepcopy(node)
            after.ops[at] = _COMPARISONS[type(op)]()
            yield "comparison", after
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        after = copy.deepcopy(node)
        after.op = _ARITHMETIC[type(node.op)]()
        yield "arithmetic", after
    if isinstance(node, ast.BoolOp):
        after = copy.deepcopy(node)
        after.op = ast.And() if isinstance(node.op, ast.Or) else ast.Or()
        yield "boolean", after
    if isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float):
        is_flag = isinstance(node.value, bool)
        yield "constant", ast.Constant(not node.value if is_flag else node.value + 1)
    if isinstance(place.parent, ast.Return) and not isinstance(node, ast.Constant):
        yield "return", ast.Constant(None)
    if _is_condition(place) and not _is_negated_by_comparison(node):
        yield "negated", ast.UnaryOp(ast.Not(), copy.deepcopy(node))


def _is_condition(place: _Place) -> bool:
    is_filter = isinstance(place.parent, ast.comprehension) and place.field == "ifs"
    return is_filter or (isinstance(place.parent, _TESTED) and place.field == "test")


def _is_negated_by_comparison(node: ast.expr) -> bool:
    ordered = ast.Lt | ast.LtE | ast.Gt | ast.GtE
    return isinstance(node, ast.Compare) and len(node.ops) == 1 and not isinstance(node.ops[0], ordered)


def _shown(node: ast.expr) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 100 else f"{text[:60]} ... {text[-35:]}"
