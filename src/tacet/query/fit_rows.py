"""Which numbers of which rows a fit is about: features, a target, and a weight where it has one."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from tacet.errors import InvalidParameter, UnsafeExpression
from tacet.query.aggregates.arguments import expression_of
from tacet.query.aggregates.vectors import VectorSum
from tacet.query.compile import Statement, compile_query
from tacet.query.engines.protocol import Engine, Held
from tacet.query.expressions.types import Expression
from tacet.query.fit_sums import Relation
from tacet.query.plan import Query
from tacet.query.units import Person

__all__ = ["Rows", "rows_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """The rows of a question, each with features and a target, and perhaps a weight.

    query: of all of them together; found: the expressions of the features, and at last that of the
    target; weight: that of the weight.
    """

    query: Query
    features: tuple[str, ...]
    found: tuple[Expression, ...]
    weight: Expression | None

    @property
    def relation(self) -> Relation:
        """The bounded rows that have all their numbers; the weight may be missing."""
        numbers = [self._held_in(one) for one in self.found]
        weight = None if self.weight is None else self._held_in(self.weight)
        return Relation.bounded(numbers, weight=weight)

    def _held_in(self, expression: Expression) -> str:
        """The column of the bounded rows that holds an expression."""
        return f"v{self.query.inputs.index(expression.sql)}"

    def statement(self, engine: Engine, *, salt: int) -> Statement:
        """The SQL of the bounded rows."""
        return compile_query(
            self.query,
            unit=self.query.limited,
            scan=engine.scan,
            salt=salt,
            narrow=engine.narrow,
            once=engine.once,
        )

    def held(self, engine: Engine, *, salt: int) -> Held:
        """The bounded rows in an engine; EngineFailed. To bind people takes long, rows nothing."""
        keep = isinstance(self.query.limited, Person) and engine.room > 0
        return engine.hold(self.statement(engine, salt=salt).bounded, keep=keep)


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
    fault: InvalidParameter
    try:
        return expression_of(column, query.scope)
    except UnsafeExpression:
        raise
    except InvalidParameter as error:
        fault = error
    raise InvalidParameter(argument, column, expected=fault.expected)
