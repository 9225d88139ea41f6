"""Read an expression: text and columns in, safe SQL with its kind and range out."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from unacorda.errors import InvalidParameter
from unacorda.query.expressions import errors
from unacorda.query.expressions.dates import DATES
from unacorda.query.expressions.logic import CHOICES, CONVERSIONS, PREDICATES
from unacorda.query.expressions.numbers import ARITHMETIC, CURVES
from unacorda.query.expressions.ranges import EVERYTHING, Range
from unacorda.query.expressions.reader import Reader
from unacorda.query.expressions.syntax import condition, refuse_lost
from unacorda.query.expressions.texts import TEXTS
from unacorda.query.expressions.tree import Literal, Name, Node, Operation, names, text_of
from unacorda.query.expressions.types import Column, Expression, Kind
from unacorda.query.expressions.values import (
    KindMismatch,
    Value,
    as_kind,
    constant,
    numeric,
    of_kind,
    quoted,
    settled,
)

__all__ = ["parse"]

_RULES = {**ARITHMETIC, **CURVES, **TEXTS, **DATES, **CHOICES, **CONVERSIONS, **PREDICATES}


def parse(
    text: str,
    *,
    columns: Mapping[str, Column],
    argument: str = "where",
    expect: Kind | None = None,
) -> Expression:
    """The row-wise expression a text means over these columns.

    columns: by the name the text uses; a name is matched exactly, or else without regard to case
    if that leaves one. argument: the caller's word for the text, for messages. expect: the kind
    the expression must give; NUMBER also takes integers, and booleans as 1 and 0.

    The result is total: evaluating its sql raises on no row. Arithmetic is in doubles; division
    and remainder by zero, roots and logarithms outside their domain, and NaN give NULL; overflow
    gives an infinity. CAST means TRY_CAST. See docs/sql.md for the language.

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
    tree = condition(text, argument=argument)
    node = Reader(text=text).read(tree)
    refuse_lost(text, tree)
    scope = _Scope(columns=columns, argument=argument, text=text)
    fault: str | None = None
    try:
        value = _expected(scope.value(node), expect)
    except KindMismatch as mismatch:
        fault = str(mismatch)
    except RecursionError:
        raise errors.too_deep(text) from None
    if fault is not None:
        raise InvalidParameter(argument, text, expected=fault)
    return _finished(value, node, scope)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scope:
    columns: Mapping[str, Column]
    argument: str
    text: str

    def value(self, node: Node) -> Value:
        match node:
            case Literal():
                return constant(node)
            case Name(name):
                column = self.column(name)
                return Value(
                    sql=quoted(column.name, '"'),
                    kind=column.kind,
                    range=Range(column.lower, column.upper),
                    node=node,
                )
            case Operation(name=name, operands=operands):
                return _RULES[name](node, tuple(self.value(operand) for operand in operands))

    def column(self, name: str) -> Column:
        if name in self.columns:
            return self.columns[name]
        alike = [known for known in self.columns if known.casefold() == name.casefold()]
        if len(alike) == 1:
            return self.columns[alike[0]]
        known = list(self.columns)
        if alike:
            hint = f"one column: {name!r} could be any of {', '.join(alike)}; write its own case"
        else:
            shown = ", ".join(known[:50]) + (", ..." if len(known) > 50 else "")
            question = errors.resembling(name, known).strip()
            hint = f"a column of the table, and {name[:60]!r} is none of them: {shown}. {question}"
            if f'"{name}"' in self.text:
                hint += f" Text takes single quotes: '{name[:60]}'."
        raise InvalidParameter(self.argument, self.text, expected=hint.strip().rstrip("."))


def _expected(value: Value, expect: Kind | None) -> Value:
    if value.kind is None and expect is None:
        raise KindMismatch("something other than NULL alone; write TRY_CAST(NULL AS DOUBLE)")
    if expect is None:
        return value
    if value.kind is None:
        return as_kind(value, expect)
    return numeric(value) if expect == Kind.NUMBER else of_kind(value, expect)


def _finished(value: Value, node: Node, scope: _Scope) -> Expression:
    value, kind = settled(value), value.kind
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
        columns=frozenset(scope.column(name).name for name in names(node)),
        text=text_of(node),
    )
