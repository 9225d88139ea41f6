"""What a caller gives `per_person`: `max_("value")`, `last_("value", by="days")` and seven others.

The names end in `_`, as those of Python's own functions would be hidden otherwise; `unacorda.max`
without it is a private answer about all rows.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from unacorda.checks import Number
from unacorda.errors import InvalidParameter
from unacorda.query.aggregates.base import given_bounds
from unacorda.query.expressions.columns import ColumnExpression, Written, written
from unacorda.query.plan.person_values import (
    PersonCount,
    PersonExtreme,
    PersonFirst,
    PersonMean,
    PersonSum,
)

__all__ = [
    "all_",
    "any_",
    "count_",
    "first_",
    "last_",
    "max_",
    "mean_",
    "min_",
    "sum_",
]


def _text(argument: str, value: object, expected: str = "a column or an expression") -> str:
    value = written(value) if isinstance(value, ColumnExpression) else value
    if not isinstance(value, str) or not value:
        raise InvalidParameter(argument, value, expected=f"{expected}, as text")
    return value


def max_(column: Written) -> PersonExtreme:
    """Take the greatest value of each person's rows: `per_person(highest=max_("value"))`.

    Of numbers, texts (by code point), dates, instants or truth values.

    >>> print(max_("value"))
    max_('value')
    """
    return PersonExtreme(function="max", column=_text("column", column))


def min_(column: Written) -> PersonExtreme:
    """Take the least value of each person's rows; see `max_`.

    >>> print(min_("value"))
    min_('value')
    """
    return PersonExtreme(function="min", column=_text("column", column))


def any_(condition: Written) -> PersonExtreme:
    """Take whether a condition holds in any of a person's rows; NULL where it never is known.

    >>> print(any_("test = 'smoke'"))
    any_("test = 'smoke'")
    """
    return PersonExtreme(function="any", column=_text("condition", condition, "a condition"))


def all_(condition: Written) -> PersonExtreme:
    """Take whether a condition holds in all of a person's rows in which it is known.

    >>> print(all_("value < 60"))
    all_('value < 60')
    """
    return PersonExtreme(function="all", column=_text("condition", condition, "a condition"))


def first_(column: Written, *, by: Written) -> PersonFirst:
    """Take the value of the first of a person's rows, in the order of another column.

    Rows in which one of the two is missing are passed over. Of several rows at the first time the
    least value is taken.

    >>> print(first_("value", by="days"))
    first_('value', by='days')
    """
    names = {"column": _text("column", column), "by": _text("by", by)}
    return PersonFirst(function="first", **names)


def last_(column: Written, *, by: Written) -> PersonFirst:
    """Take the value of the last of a person's rows, in the order of another column.

    Rows in which one of the two is missing are passed over. Of several rows at the last time the
    greatest value is taken.

    >>> print(last_("value", by="days"))
    last_('value', by='days')
    """
    names = {"column": _text("column", column), "by": _text("by", by)}
    return PersonFirst(function="last", **names)


def count_(column: Written | None = None) -> PersonCount:
    """Count each person's rows, or those in which a column is present.

    >>> print(count_(), count_("value"))
    count_() count_('value')
    """
    return PersonCount(column=None if column is None else _text("column", column))


def sum_(column: Written, lower: Number | None = None, upper: Number | None = None) -> PersonSum:
    """Sum each person's numbers, every row clamped first to public bounds.

    lower, upper: of one row. They may be left out where they are declared of the column, or follow
    from the expression, and for whole numbers.

    >>> print(sum_("dose", 0, 50))
    sum_('dose', 0, 50)
    """
    low, high = given_bounds(lower, upper)
    return PersonSum(column=_text("column", column), lower=low, upper=high)


def mean_(column: Written, lower: Number | None = None, upper: Number | None = None) -> PersonMean:
    """Take the mean of each person's numbers, every row clamped first to public bounds.

    lower, upper: of one row. They may be left out where they are declared of the column, or follow
    from the expression.

    >>> print(mean_("value", 0, 300))
    mean_('value', 0, 300)
    """
    low, high = given_bounds(lower, upper)
    return PersonMean(column=_text("column", column), lower=low, upper=high)
