"""Two number columns of the same rows, put on [-1, 1] each, and their exact moments."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from unacorda.errors import InvalidParameter
from unacorda.query.aggregates.aggregate import Single
from unacorda.query.aggregates.answers import Assume
from unacorda.query.aggregates.arguments import bounds_of, expression_of
from unacorda.query.aggregates.strategies import moment_clamp
from unacorda.query.aggregates.sums import Clamp, clamping_note
from unacorda.query.expressions.types import Expression
from unacorda.query.schema.facts import interval
from unacorda.query.schema.table import Scope

__all__ = ["OfTwo", "Pair", "Side", "assumed_pairs", "present", "refuse_negative"]

Floats = NDArray[np.float64]

_EVEN = 201  # values of a column that are assumed where none are given


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two columns with its public range."""

    tag: ClassVar[str] = "side"

    column: str
    lower: Fraction | None
    upper: Fraction | None

    @staticmethod
    def of(argument: str, column: str, bounds: object) -> Side:
        """As the caller wrote it; bounds are (lower, upper), or None for those declared."""
        if bounds is None:
            return Side(column=column, lower=None, upper=None)
        if not isinstance(bounds, tuple | list) or len(bounds) != 2:
            raise InvalidParameter(argument, bounds, expected="a pair (lower, upper), or None")
        low, high = interval(*bounds)
        return Side(column=column, lower=low, upper=high)

    def bound_to(self, scope: Scope) -> tuple[Side, Expression]:
        """The same with its bounds known, and what it is of."""
        expression = expression_of(self.column, scope)
        lower, upper = bounds_of(self.column, expression, self.lower, self.upper)
        return dataclasses.replace(self, lower=lower, upper=upper), expression

    @property
    def note(self) -> str:
        """The sentence that names clamping."""
        return f"{self.column}: {clamping_note(self.lower, self.upper)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OfTwo(Single):
    """What is made of two number columns, values clamped, over rows in which both are present."""

    sides: tuple[Side, Side]

    def bound_to(self, scope: Scope) -> Self:
        """The same, its columns looked up and their bounds known."""
        (x, first), (y, second) = (side.bound_to(scope) for side in self.sides)
        return dataclasses.replace(self, expressions=(first, second), sides=(x, y))

    @property
    def assumes(self) -> tuple[str, ...]:
        """Its columns."""
        return tuple(side.column for side in self.sides)

    @property
    def clamping(self) -> tuple[str, ...]:
        """The sentences that name clamping."""
        return tuple(side.note for side in self.sides)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """The ranges of both columns in integers, and their names."""

    columns: tuple[str, str]
    x: Clamp
    y: Clamp

    @staticmethod
    def of(sides: tuple[Side, Side], expressions: Sequence[Expression]) -> Pair:
        """The pair of two columns whose bounds are known."""
        first, second = (
            moment_clamp(expression, side.lower, side.upper)
            for side, expression in zip(sides, expressions, strict=True)
        )
        return Pair(columns=(sides[0].column, sides[1].column), x=first, y=second)

    @property
    def widths(self) -> tuple[int, int]:
        """Of both ranges in their units."""
        return self.x.upper - self.x.lower, self.y.upper - self.y.lower

    @property
    def halves(self) -> tuple[float, float]:
        """Half the widths, absolute."""
        first, second = self.widths
        return self.x.absolute(Fraction(first, 2)), self.y.absolute(Fraction(second, 2))

    def measures(self, values: Sequence[str], *, squares: bool) -> tuple[str, ...]:
        """SQL of counts and sums over the rows in which both are present."""
        x, y = values
        first = f"({self.x.sql(x)} - ({self.x.lower}))"
        second = f"({self.y.sql(y)} - ({self.y.lower}))"
        summed = [first, second, f"{first} * {second}"]
        summed += [f"{first} * {first}", f"{second} * {second}"] if squares else []
        sums = (f"sum({present(values, value)})" for value in summed)
        return (f"count({present(values, '1')})", *sums)

    def moments(self, sums: Sequence[Sequence[int]]) -> list[list[int]]:
        """Of 1, u, v and u v in units of 1 / (a b), a and b the widths, a list of cells for each.

        With sums of squares, of 1, u, v, u^2, v^2 and u v in units of 1 / (a b)^2.
        """
        a, b = self.widths
        found: list[list[int]] = []
        for rows, first, second, product, *squares in zip(*sums, strict=True):
            u, v = 2 * first - rows * a, 2 * second - rows * b
            uv = 4 * product - 2 * b * first - 2 * a * second + rows * a * b
            cell = [rows * a * b, u * b, v * a]
            if squares:
                uu = 4 * squares[0] - 4 * a * first + rows * a * a
                vv = 4 * squares[1] - 4 * b * second + rows * b * b
                cell = [value * a * b for value in cell]
                found.append([*cell, uu * b * b, vv * a * a, uv * a * b])
            else:
                found.append([*cell, uv])
        return [list(column) for column in zip(*found, strict=True)]

    def assumed(self, assume: Assume) -> tuple[Floats, Floats]:
        """Values on [-1, 1] that are assumed, in pairs; without any, spread evenly over both."""
        given = assumed_pairs(assume, self.columns)
        if given is None:
            even = np.linspace(-1.0, 1.0, _EVEN)
            first, second = np.meshgrid(even, even)
            return first.ravel(), second.ravel()
        found = []
        for values, clamp, half in zip(given, (self.x, self.y), self.halves, strict=True):
            found.append(np.clip((values - clamp.absolute(clamp.lower)) / half - 1, -1.0, 1.0))
        return found[0], found[1]


def present(values: Sequence[str], result: str) -> str:
    """SQL of a result over rows in which all values are present, NULL elsewhere."""
    both = " AND ".join(f"{value} IS NOT NULL" for value in values)
    return f"CASE WHEN {both} THEN {result} END"


def refuse_negative(argument: str, side: Side, *, reason: str = "") -> None:
    """Raise InvalidParameter where the column of known bounds may be below 0."""
    assert side.lower is not None
    if side.lower < 0:
        raise InvalidParameter(
            argument, float(side.lower), expected=f"a lower bound of at least 0{reason}"
        )


def assumed_pairs(assume: Assume, columns: tuple[str, ...]) -> tuple[Floats, Floats] | None:
    """The assumed values of two columns, in pairs; None where there are none of either.

    Raises InvalidParameter where there are values of one alone, or not as many of both.
    """
    first, second = (assume.of(column) for column in columns)
    if first is None and second is None:
        return None
    if first is None or second is None or len(first) != len(second):
        raise InvalidParameter(
            "assuming",
            "...",
            expected=f"as many values of {columns[0]!r} as of {columns[1]!r}: the first of the one "
            "goes with the first of the other",
        )
    return first, second
