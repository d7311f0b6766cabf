"""Expressions that choose rows by their columns: `size>1M and not (kind=slot or dtype=float16)`.

    expression = term {"or" term}
    term       = factor {"and" factor}
    factor     = "not" factor | "(" expression ")" | COLUMN operator value
    operator   = "<" | "<=" | ">" | ">=" | "=" | "==" | "!="
    value      = a number, perhaps with k, M, G or %; a bare word; text in quotes

Unknown values and NaN make every comparison false.
"""

from __future__ import annotations

import math
import operator
import re
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

from .columns import ALIASES, FLAG, NUMBER, TEXT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
}
_TOKEN = re.compile(
    r"""\s*(?:(?P<operator><=|>=|!=|==|<|>|=)|(?P<parenthesis>[()])
    |(?P<quoted>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|(?P<word>[^\s()<>=!'"]+)|(?P<end>$))""",
    re.VERBOSE | re.DOTALL,
)
_NUMBER = re.compile(r"(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?P<unit>[kMG%]?)", re.ASCII)
_UNITS = {
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "%": Fraction("0.01"),
}
_DEEPEST = 100
"""Parentheses and `not` inside each other."""

_LONGEST_NUMBER = 400
"""Characters of a number: exact arithmetic with more could take long."""


_SHOWN = 60
"""Characters of an expression that a message shows."""


class WhereError(ValueError):
    """An expression that makes no sense, and the place of the mistake in its text."""

    def __init__(self, message: str, text: str, position: int) -> None:
        super().__init__(message)
        self.text = text
        self.position = position

    @property
    def excerpt(self) -> tuple[str, int]:
        """The part of the expression around the mistake that fits on a line, and the position in it."""
        begin = max(0, self.position - _SHOWN // 2) if len(self.text) > _SHOWN else 0
        end = begin + _SHOWN
        before, after = "..." if begin else "", "..." if end < len(self.text) else ""
        return before + self.text[begin:end] + after, len(before) + self.position - begin


class _Token(NamedTuple):
    kind: str
    text: str
    position: int

    @property
    def shown(self) -> str:
        return "the end" if self.kind == "end" else repr(self.text)


class _Comparison(NamedTuple):
    """A column, an operator and a value."""

    column: str
    compare: Callable[[Any, Any], bool]
    value: Any

    def verdict(self, row: Mapping[str, Any]) -> bool | None:
        if self.column not in row:
            return None
        found = row[self.column]
        if found is None or found != found or self.value != self.value:  # noqa: PLR0124  NaN
            return False
        return self.compare(tuple(found) if isinstance(self.value, tuple) else found, self.value)


class _Not(NamedTuple):
    inner: _Node

    def verdict(self, row: Mapping[str, Any]) -> bool | None:
        found = self.inner.verdict(row)
        return None if found is None else not found


class _Several(NamedTuple):
    """An `and` (`decisive` is False: one false part decides) or an `or` (`decisive` is True)."""

    decisive: bool
    parts: tuple[_Node, ...]

    def verdict(self, row: Mapping[str, Any]) -> bool | None:
        found: bool | None = not self.decisive
        for part in self.parts:
            one = part.verdict(row)
            if one is self.decisive:
                return one
            found = None if one is None else found
        return found


_Node = _Comparison | _Not | _Several


class Where(NamedTuple):
    """A parsed expression, with the columns it names and the first position of each in its text."""

    text: str
    node: _Node
    columns: Mapping[str, int]

    def may_hold(self, row: Mapping[str, Any]) -> bool:
        """Whether a row is chosen, as far as the columns tell that it has already."""
        return self.node.verdict(row) is not False

    def holds(self, row: Mapping[str, Any]) -> bool:
        """Whether a row is chosen; a column that it does not have is unknown, which chooses nothing."""
        return bool(self.node.verdict(row))

    def require(self, known: Iterable[str], what: str) -> None:
        """Raise WhereError if a column is not one of those known, which are those of `what`."""
        names = set(known)
        for column, position in self.columns.items():
            if column not in names:
                raise WhereError(f"{what} has no column {column!r}", self.text, position)


def parse_where(text: str, columns: Mapping[str, str], aliases: Mapping[str, str] = ALIASES) -> Where:
    """Parse an expression over columns of certain types.

    Raises WhereError with the mistake and its position.
    """
    parser = _Parser(text, columns, aliases)
    node = parser.expression(0)
    parser.take("end", "'and', 'or' or the end")
    return Where(text, node, parser.positions)


class _Parser:
    def __init__(self, text: str, columns: Mapping[str, str], aliases: Mapping[str, str]) -> None:
        self._text, self._columns, self._aliases = text, columns, aliases
        self._tokens = _tokens(text)
        self._next = next(self._tokens)
        self.positions: dict[str, int] = {}

    def take(self, kind: str, expected: str) -> _Token:
        """Return the next token, which must be of a kind, and advance."""
        token = self._next
        if token.kind != kind:
            raise self._error(f"expected {expected}, found {token.shown}", token)
        if kind != "end":
            self._next = next(self._tokens)
        return token

    def expression(self, depth: int) -> _Node:
        return self._joined("or", depth)

    def _joined(self, word: str, depth: int) -> _Node:
        """Return parts that `and` or `or` joins, or the only one."""

        def part() -> _Node:
            return self._joined("and", depth) if word == "or" else self._factor(depth)

        parts = [part()]
        while self._next.kind == "word" and self._next.text == word:
            self.take("word", word)
            parts.append(part())
        return _Several(word == "or", tuple(parts)) if len(parts) > 1 else parts[0]

    def _factor(self, depth: int) -> _Node:
        token = self._next
        if depth > _DEEPEST:
            raise self._error(f"parentheses and nots are nested more than {_DEEPEST} deep", token)
        if token.kind == "word" and token.text == "not":
            self.take("word", "not")
            return _Not(self._factor(depth + 1))
        if token.text == "(" and token.kind == "parenthesis":
            self.take("parenthesis", "(")
            node = self.expression(depth + 1)
            closing = self._next
            if closing.kind != "parenthesis" or closing.text != ")":
                raise self._error(f"expected 'and', 'or' or ')', found {closing.shown}", closing)
            self.take("parenthesis", ")")
            return node
        return self._comparison()

    def _comparison(self) -> _Node:
        name = self.take("word", "a column, 'not' or '('")
        column = self._aliases.get(name.text, name.text)
        if column not in self._columns:
            raise self._error(self._no_column(name.text), name)
        self.positions.setdefault(column, name.position)
        sign = self.take("operator", f"an operator (< <= > >= = !=) after {name.text!r}")
        value = self._next
        if value.kind not in ("word", "quoted"):
            raise self._error(f"expected a value after {sign.text!r}, found {value.shown}", value)
        self.take(value.kind, "a value")
        return _Comparison(column, _COMPARE[sign.text], self._value(self._columns[column], name, sign, value))

    def _value(self, kind: str, name: _Token, sign: _Token, value: _Token) -> Any:
        """Return what a column of a kind is compared with."""
        if kind == NUMBER:
            return self._number(name, value)
        text = re.sub(r"\\(['\"\\])", r"\1", value.text[1:-1]) if value.kind == "quoted" else value.text
        if kind == TEXT:
            return text
        if sign.text not in ("=", "==", "!="):
            raise self._error(f"{name.text} can only be compared with = and !=", sign)
        if kind == FLAG:
            if text not in ("true", "false"):
                raise self._error(f"{name.text} is true or false, not {value.text!r}", value)
            return text == "true"
        sizes = [size.strip() for size in text.strip().removeprefix("[").removesuffix("]").split(",")]
        if sizes == [""]:
            return ()
        if not all(size.isascii() and size.isdigit() and len(size) < 20 for size in sizes):
            raise self._error(f"{value.text!r} is not a shape such as 3,4", value)
        return tuple(map(int, sizes))

    def _number(self, name: _Token, value: _Token) -> float:
        if value.kind == "word" and value.text in ("nan", "inf", "-inf"):
            return float(value.text)
        found = _NUMBER.fullmatch(value.text) if len(value.text) <= _LONGEST_NUMBER else None
        if found is None or math.isinf(float(found["number"])):
            message = (
                f"expected a number for {name.text}, found {value.text!r}; a number may end in k, M, G or %"
            )
            raise self._error(message, value)
        unit = _UNITS[found["unit"]]
        if "e" in found["number"].lower():
            return float(found["number"]) * float(unit)
        exact = Fraction(found["number"]) * unit
        return exact.numerator if exact.denominator == 1 else float(exact)

    def _no_column(self, name: str) -> str:
        import difflib

        known = sorted({*self._columns, *self._aliases} - {*self._aliases.values()})
        close = difflib.get_close_matches(name, known, 1)
        way = f"did you mean {close[0]}? Use" if close else "use"
        return f"there is no column {name!r}; {way} one of {', '.join(known)}"

    def _error(self, message: str, token: _Token) -> WhereError:
        return WhereError(message, self._text, token.position)


def _tokens(text: str) -> Iterator[_Token]:
    """Yield the tokens of an expression, and one for its end."""
    at = 0
    while True:
        found = _TOKEN.match(text, at)
        if found is None:
            at += len(text[at:]) - len(text[at:].lstrip())
            quoted = text[at] in "'\""
            raise WhereError(
                "this quote is not closed" if quoted else f"{text[at]!r} is not an operator", text, at
            )
        kind = found.lastgroup or "end"
        yield _Token(kind, found[kind], found.start(kind))
        at = found.end()
