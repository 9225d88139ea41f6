"""Which numbers of which rows a fit is about: features, a target, and a weight where it has one."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from unacorda.errors import InvalidParameter, UnsafeExpression
from unacorda.query.aggregates.arguments import expression_of
from unacorda.query.aggregates.vectors import VectorSum
from unacorda.query.engines.fit_sums import Relation
from unacorda.query.engines.protocol import Admitted, Held
from unacorda.query.expressions.types import Expression
from unacorda.query.plan.query import Query
from unacorda.query.plan.relation import Derive, Explode, Matched, Table, United
from unacorda.query.plan.relation import Rows as TableRows
from unacorda.query.schema.quoting import identifier
from unacorda.query.schema.units import Person

__all__ = ["Rows", "rows_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """The rows of a question, each with features and a target, and perhaps a weight.

    found: the expressions of the features, and at last that of the target; weight: that of the
    weight.
    """

    query: Query
    features: tuple[str, ...]
    found: tuple[Expression, ...]
    weight: Expression | None

    def relation(self) -> Relation:
        """The bounded rows that have all their numbers; the weight may be missing."""
        *features, target = [self._held_in(one) for one in self.found]
        weight = None if self.weight is None else self._held_in(self.weight)
        return Relation.bounded(features, target, weight=weight)

    def held(self, asked: Admitted) -> Held:
        """The bounded rows in an engine; EngineFailed. To bound people takes long, rows nothing."""
        keep = isinstance(self.query.limited, Person) and asked.engine.room > 0
        return asked.engine.hold(asked, keep=keep)

    def _held_in(self, expression: Expression) -> str:
        """The column of the bounded rows that holds an expression."""
        return f"v{self.query.inputs.index(expression.sql)}"


def rows_of(
    query: Query, *, features: Sequence[str], target: str, weight: str | None = None
) -> Rows:
    """The rows of a question that has no aggregates yet.

    Raises InvalidParameter for what is no number of its table, and for a weight whose public range
    says that it is more than 1.
    """
    if not query.begun:
        raise InvalidParameter(
            "table", query, expected="a table's name, or a question without groups and aggregates"
        )
    if isinstance(features, str) or not list(features):
        raise InvalidParameter("features", features, expected="a list of columns or expressions")
    found = [_number(one, query, argument="features") for one in features]
    found.append(_number(target, query, argument="target"))
    weighed = None if weight is None else _weight(weight, query)
    numbers = VectorSum(
        columns=(*features, target, *([] if weight is None else [weight])),
        norm=Fraction(1),
        expressions=(*found, *([] if weighed is None else [weighed])),
    )
    asked = dataclasses.replace(query, aggregates={}).agg(numbers=numbers)
    return Rows(query=asked, features=tuple(features), found=tuple(found), weight=weighed)


def _weight(weight: str, query: Query) -> Expression:
    """A weight, of which what is outside [0, 1] counts as its ends."""
    found = _number(weight, query, argument="weight")
    if 1 < found.upper < math.inf:
        raise InvalidParameter(
            "weight",
            weight,
            expected=f"numbers within [0, 1], as more counts as 1: by the bounds of its columns it "
            f"is up to {found.upper:g}. Divide by that, or write 'least({weight}, 1)'",
        )
    return found


def _number(column: str, query: Query, *, argument: str) -> Expression:
    """A column or an expression that is a number, or a condition, which is 1 or 0."""
    fault: InvalidParameter | None = None
    try:
        found = expression_of(column, query.scope)
    except UnsafeExpression:
        raise
    except InvalidParameter as error:
        fault = error
    if fault is not None:
        raise InvalidParameter(argument, column, expected=fault.expected)
    texts = sorted(set(_converted(query.rows, found.columns)))
    if texts:
        named = texts[0]
        raise InvalidParameter(
            argument,
            column,
            expected=f"numbers: {named!r} holds text, for all that is public. Of numbers that are "
            f"written as text, as in CSV, declare columns={{{named!r}: unacorda.Bounds(0, 100)}}, "
            f"or write TRY_CAST({identifier(named)} AS DOUBLE)",
        )
    return found


def _converted(rows: TableRows, names: Iterable[str]) -> Iterator[str]:
    """The columns of text, as their tables have them, that these are made of as something else."""
    needed = set(names)
    for step in reversed(rows.steps):
        if isinstance(step, Derive | Explode) and step.name in needed:
            needed |= step.expression.columns
    yield from (leaf.label for leaf in rows.scope.used(needed) if leaf.converts)
    match rows.source:
        case Matched(left=left, right=right, columns=columns):
            used = [columns[name] for name in needed if name in columns]
            yield from _converted(left, [name for name, of_right in used if not of_right])
            yield from _converted(right, [name for name, of_right in used if of_right])
        case United(left=left, right=right, columns=both):
            pairs = [both[name] for name in needed if name in both]
            yield from _converted(left, [one for one, _ in pairs])
            yield from _converted(right, [other for _, other in pairs])
        case Table():
            pass
