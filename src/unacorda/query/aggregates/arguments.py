"""How the aggregates read what the caller wrote: weights, columns, bounds."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from fractions import Fraction

from unacorda import checks
from unacorda.checks import Number
from unacorda.errors import InvalidParameter, MissingBound
from unacorda.query.expressions.types import Expression, Kind
from unacorda.query.schema.facts import interval
from unacorda.query.schema.table import Scope

__all__ = ["bounds_of", "expression_of", "given_bounds", "weight_of"]


def weight_of(weight: Number) -> Fraction:
    """A weight as an exact number above zero."""
    value = checks.exact("weight", weight)
    if value <= 0:
        raise InvalidParameter("weight", weight, expected="a number above 0")
    return value


def expression_of(
    column: str, scope: Scope, *, numeric: bool = True, kind: Kind | None = None
) -> Expression:
    """A column by its name, or else an expression, as an expression.

    A name is taken whole, whatever signs it holds; an untyped column is read as its use needs: as
    a number, or as the kind that is given. Raises InvalidParameter for what is neither column nor
    expression, or of another kind.
    """
    text = column
    if checks.is_text(column) and column in scope:
        text = '"' + column.replace('"', '""') + '"'
    return scope.parse(text, argument="column", expect=kind or (Kind.NUMBER if numeric else None))


def given_bounds(
    lower: Number | None, upper: Number | None
) -> tuple[Fraction, Fraction] | tuple[None, None]:
    """Both bounds, checked, or neither."""
    if lower is None and upper is None:
        return None, None
    if lower is None or upper is None:
        name = "lower" if lower is None else "upper"
        raise MissingBound(name, None, expected="both a lower and an upper bound, or neither")
    return interval(lower, upper)


def bounds_of(
    column: str, expression: Expression, lower: Fraction | None, upper: Fraction | None
) -> tuple[Fraction, Fraction]:
    """The public range of an aggregate: as written with it, or else as declared of the column."""
    if lower is not None and upper is not None:
        return lower, upper
    if math.isfinite(expression.lower) and math.isfinite(expression.upper):
        low, high = Fraction(expression.lower), Fraction(expression.upper)
        if low < high:
            return interval(low, high)
    raise MissingBound(
        "lower",
        None,
        expected=f"public bounds for {column!r}: write them with the aggregate, such as "
        f"unacorda.mean({column!r}, 0, 100), or declare columns={{...: unacorda.Bounds(0, 100)}} "
        "for every column it is made of",
    )
