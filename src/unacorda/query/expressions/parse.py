"""Read an expression: text and columns in, safe SQL with its kind and range out.

A column without a type, as of a CSV file, may be read in several ways. Each operation takes those
ways of its operands that fit together; of the ways in which a column is read that nothing outside
an operation uses, the best is kept for each kind that comes out. So the time that it takes grows
with the text and not with the number of combinations.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import functools
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from unacorda import checks
from unacorda.errors import InvalidParameter, UnsafeExpression
from unacorda.query.expressions import errors
from unacorda.query.expressions.arithmetic import DATES, NUMBERS
from unacorda.query.expressions.language import (
    DERIVED,
    FORMATS,
    Column,
    Expression,
    Kind,
    Literal,
    Name,
    Node,
    Operation,
    identifier,
    literal,
    names,
    text_of,
)
from unacorda.query.expressions.logic import LOGIC
from unacorda.query.expressions.ranges import EVERYTHING, FINISHED, Range
from unacorda.query.expressions.reader import Reader, condition, meaning, refuse_lost
from unacorda.query.expressions.values import (
    KindMismatch,
    Rule,
    Value,
    as_kind,
    constant,
    kept,
    number,
    numeric,
    of_kind,
)

_RULES: dict[str, Rule] = {**NUMBERS, **DATES, **LOGIC}
"""By operation what it means: of the node and the values of its operands."""
_MOST_WAYS = 10_000
_MOST_TREES = 4_096

_trees: dict[str, Node] = {}


def _tree_of(text: str, *, argument: str) -> Node:
    """What a text means before its columns are known; a text that was read is not read again."""
    found = _trees.get(text) if checks.is_text(text) else None
    if found is None:
        tree = condition(text, argument=argument)
        found = Reader(text=text).read(tree)
        refuse_lost(text, tree)
        remember(text, found)
    return found


def remember(text: str, node: Node) -> None:
    """Let a text mean the tree that it was written from."""
    _trees[text] = node
    if len(_trees) > _MOST_TREES:
        del _trees[next(iter(_trees))]


def parse(
    text: str,
    *,
    columns: Mapping[str, Column | Sequence[Column]],
    argument: str = "where",
    expect: Kind | None = None,
) -> Expression:
    """The row-wise expression a text means over these columns.

    columns: by the name the text uses; of one without a type the ways to read it, best first. A
    name is matched exactly, or else without regard to case if that leaves one. argument: the
    caller's word for the text, for messages. expect: the kind the expression must give; NUMBER also
    takes integers, and booleans as 1 and 0.

    The result is total: evaluating its sql raises on no row. Arithmetic is in doubles, which never
    overflow; division and remainder by zero, roots and logarithms outside their domain give NULL.
    CAST means TRY_CAST. See docs/expressions.md for the language.

    Raises UnsafeExpression for what is outside the language, InvalidParameter for unknown columns
    and kinds that do not fit.

    >>> age = Column("age", Kind.INTEGER, 0, 120)
    >>> adult = parse("AGE >= 18", columns={"age": age})
    >>> adult.sql, adult.kind, adult.text
    ('("age" >= 18.0e0)', <Kind.BOOLEAN: 'boolean'>, '"AGE" >= 18')
    >>> decade = parse("floor(age / 10) * 10", columns={"age": age}, argument="derive")
    >>> decade.lower, decade.upper, decade.kind.value
    (0.0, 120.0, 'integer')
    """
    try:
        node = _tree_of(text, argument=argument)
    except UnsafeExpression as unsafe:
        raise _unquoted(unsafe, columns) or unsafe from None
    try:
        known = {name: _known(name, columns, argument=argument, text=text) for name in names(node)}
        readings = {
            name: (found,) if isinstance(found := columns[name], Column) else tuple(found)
            for name in columns
            if name in known.values()
        }
        uses = Counter(known[name] for name in names(node))
        value, chosen = _Scope(columns=readings, known=known, uses=uses).read(node, expect)
    except KindMismatch as mismatch:
        raise InvalidParameter(argument, text, expected=str(mismatch)) from None
    except RecursionError:
        raise errors.too_deep(text) from None
    return _finished(value, node, chosen, text_of(node))


def _unquoted(error: UnsafeExpression, columns: Collection[str]) -> UnsafeExpression | None:
    """The error with another hint, where the text has a column's name that lacks its quotes."""
    for name in sorted(columns, key=len, reverse=True):
        if not name.isidentifier() and name in error.text and identifier(name) not in error.text:
            hint = f"Write the column's name in double quotes: {identifier(name)}."
            return UnsafeExpression(error.text, reason=error.reason, hint=hint, place=error.place)
    return None


def _known(name: str, columns: Collection[str], *, argument: str, text: str) -> str:
    """The column that a name means."""
    if name in columns:
        return name
    alike = [known for known in columns if known.casefold() == name.casefold()]
    if len(alike) == 1:
        return alike[0]
    if alike:
        hint = f"one column: {name!r} could be any of {', '.join(alike)}; write its own case"
    else:
        known = list(columns)
        shown = ", ".join(known[:50]) + (", ..." if len(known) > 50 else "")
        question = errors.resembling(name, known).strip()
        hint = f"a column of the table, and {name[:60]!r} is none of them: {shown}. {question}"
        if f'"{name}"' in text:
            hint += f" Text takes single quotes: '{name[:60]}'."
    raise InvalidParameter(argument, text, expected=hint.strip().rstrip("."))


_Picks = tuple[tuple[int, int], ...]
"""By the place of a column that can be read in several ways, which of them is taken."""


class _Way(NamedTuple):
    """One way to read a part."""

    value: Value
    picks: _Picks = ()

    @property
    def rank(self) -> tuple[int, _Picks]:
        """Readings that come first are better, all together and then by the order of columns."""
        return sum(pick for _, pick in self.picks), self.picks


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scope:
    """The columns of an expression: the ways to read each, and how often it is named.

    known: by the names in the expression, which column it is.
    """

    columns: Mapping[str, tuple[Column, ...]]
    known: Mapping[str, str]
    uses: Counter[str]

    def read(self, node: Node, expect: Kind | None) -> tuple[Value, frozenset[str]]:
        """The best way to read a tree as a kind, and the names of the columns that it reads.

        Raises KindMismatch from the first ways to read columns where none fits.
        """
        found = []
        for way in self.ways(node)[0]:
            with contextlib.suppress(KindMismatch):
                found.append(_Way(_expected(way.value, expect), way.picks))
        if not found:
            first = {
                name: _column(Name(name), self.columns[column][0])
                for name, column in self.known.items()
            }
            _expected(_meant(node, first), expect)
            raise KindMismatch("columns that can be read so together; declare what they are")
        value, picks = min(found, key=lambda way: way.rank)
        picked = dict(picks)
        columns = enumerate(self.columns.values())
        return value, frozenset(ways[picked.get(at, 0)].name for at, ways in columns)

    def ways(self, node: Node) -> tuple[list[_Way], Counter[str]]:
        """The ways to read a part, and how often it names each column."""
        if isinstance(node, Literal):
            return [_Way(constant(node))], Counter()
        if isinstance(node, Name):
            known = self.known[node.name]
            at, columns = list(self.columns).index(known), self.columns[known]
            values = [_column(node, column) for column in columns]
            if len(values) == 1:
                return [_Way(values[0])], Counter((known,))
            return [_Way(one, ((at, pick),)) for pick, one in enumerate(values)], Counter((known,))
        parts = [self.ways(operand) for operand in node.operands]
        named = sum((one for _, one in parts), Counter[str]())
        outer = {at for at, name in enumerate(self.columns) if named[name] < self.uses[name]}
        best: dict[object, _Way] = {}
        for picks, operands in _together([ways for ways, _ in parts]):
            with contextlib.suppress(KindMismatch):
                way = _Way(_applied(node, operands), picks)
                key = way.value.kind, tuple(pick for pick in picks if pick[0] in outer)
                best[key] = min(best.get(key, way), way, key=lambda way: way.rank)
        return list(best.values()), named


def _together(parts: Sequence[list[_Way]]) -> Iterator[tuple[_Picks, tuple[Value, ...]]]:
    """The ways of several operands that read each column alike."""
    found: list[tuple[dict[int, int], tuple[Value, ...]]] = [({}, ())]
    for ways in parts:
        found = [
            (picks | dict(way.picks), (*values, way.value))
            for picks, values in found
            for way in ways
            if all(picks.get(at, pick) == pick for at, pick in way.picks)
        ]
        if len(found) > _MOST_WAYS:
            raise KindMismatch(
                "fewer columns without a type in one operation; declare what they are"
            )
    return ((tuple(sorted(picks.items())), values) for picks, values in found)


def _applied(node: Operation, values: tuple[Value, ...]) -> Value:
    """An operation of values whose kinds are known: by its rule, or by what it is defined as."""
    if node.name in _RULES:
        value = _RULES[node.name](node, *values)
    else:
        operands, definition = DERIVED.get(node.name) or ("x layout", _formatted(node))
        value = _meant(meaning(definition), dict(zip(operands.split(), values, strict=True)))
    return replace(value, node=node)


_LETTERS = re.compile("(" + "|".join(map(re.escape, FORMATS)) + ")")


def _formatted(node: Operation) -> str:
    """What STRFTIME means of its date or instant x."""
    layout = node.operands[1]
    assert isinstance(layout, Literal)
    parts = [part for part in _LETTERS.split(str(layout.value)) if part]
    listed = ", ".join(FORMATS.get(part) or literal(part) for part in parts) or "''"
    return f"CASE WHEN x IS NOT NULL THEN CONCAT({listed}) END"


def _meant(node: Node, found: Mapping[str, Value]) -> Value:
    """What a tree gives for these values of its names."""
    match node:
        case Literal():
            return constant(node)
        case Name(name):
            return found[name]
        case Operation(operands=operands):
            return _applied(node, tuple(_meant(operand, found) for operand in operands))


@functools.lru_cache(maxsize=_MOST_TREES)
def _column(node: Name, column: Column) -> Value:
    sql, found = identifier(column.name), Range(column.lower, column.upper)
    if not column.kind.numeric:
        return Value(sql=sql, kind=column.kind, range=found, node=node)
    whole = column.kind is Kind.INTEGER
    return replace(number(sql, range=found, size=column.size, integer=whole), node=node)


def _expected(value: Value, expect: Kind | None) -> Value:
    if value.kind is None and expect is None:
        raise KindMismatch("something other than NULL alone; write TRY_CAST(NULL AS DOUBLE)")
    if expect in (None, value.kind):
        return value
    if value.kind is None:
        return as_kind(value, expect)
    return numeric(value) if expect == Kind.NUMBER else of_kind(value, expect)


@functools.lru_cache(maxsize=_MOST_TREES)
def _finished(value: Value, node: Node, columns: frozenset[str], text: str) -> Expression:
    """The expression of a tree; its text tells literals apart that are equal, such as 1 and 1.0."""
    value, kind = kept(value, FINISHED), value.kind
    assert kind is not None
    sql, found = value.sql, value.range
    if kind.numeric and isinstance(node, Operation):
        sql = f"({sql} + 0e0)"  # -0.0 becomes 0.0
    if not kind.numeric:
        found = EVERYTHING
    elif found.empty:
        found = Range(0.0, 0.0)
    return Expression(
        sql=sql,
        kind=kind,
        lower=found.lower + 0.0,
        upper=found.upper + 0.0,
        columns=columns,
        node=node,
        text=text,
        size=value.size,
    )
