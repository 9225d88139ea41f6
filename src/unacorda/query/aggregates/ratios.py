"""Aggregates of two columns, and ratios of their sums.

Ratios of two sums come from two noisy numbers, which are chosen from the bounds alone.

Let x and y be in units of their largest possible size. The noise is added to two sums: of x and of
y, or of x - y and of a multiple of x + y. (If both have one sign, one of the latter is small when
the other is large.) To first order, a ratio theta has the error of the sum of x - theta y. The
chosen pair has the least mean logarithm of that error over ratios of about 1 in these units. The
interval is Fieller's (1954): all theta for which the noise of Sx - theta Sy can explain the
released values.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from unacorda import checks
from unacorda.checks import Number
from unacorda.errors import InvalidParameter
from unacorda.query.aggregates.base import (
    Aggregate,
    Answer,
    Assumption,
    answer_of,
    bounds_of,
    expression_of,
    weight_of,
    widened,
)
from unacorda.query.aggregates.grid import Floats
from unacorda.query.aggregates.measures import (
    Clamp,
    Clamped,
    Measure,
    SumOf,
    clamp_of,
    clamping_note,
)
from unacorda.query.aggregates.moment_strategies import (
    Noisy,
    OfMoments,
    Strategies,
    Strategy,
    moment_clamp,
)
from unacorda.query.expressions.language import Expression, Written, written
from unacorda.query.noise.additive import noise_quantile
from unacorda.query.schema.table import TableSchema, interval


@dataclass(frozen=True, slots=True, kw_only=True)
class RatioSide:
    """One of the two columns with its public range."""

    tag: ClassVar[str] = "side"

    column: str
    lower: Fraction | None
    upper: Fraction | None

    @staticmethod
    def of(argument: str, column: Written, bounds: object) -> RatioSide:
        """Make one side; bounds are (lower, upper), or None for the declared ones."""
        if bounds is None:
            return RatioSide(column=written(column), lower=None, upper=None)
        if not isinstance(bounds, tuple | list) or len(bounds) != 2:
            raise InvalidParameter(argument, bounds, expected="a pair (lower, upper), or None")
        low, high = interval(*bounds)
        return RatioSide(column=written(column), lower=low, upper=high)

    def bound_to(self, scope: TableSchema) -> tuple[RatioSide, Expression]:
        """The same with its bounds and its expression known."""
        expression = expression_of(self.column, scope)
        lower, upper = bounds_of(self.column, expression, self.lower, self.upper)
        return dataclasses.replace(self, lower=lower, upper=upper), expression


def _range(side: RatioSide) -> tuple[float, float]:
    assert side.lower is not None
    assert side.upper is not None
    return float(side.lower), float(side.upper)


@dataclass(frozen=True, slots=True, kw_only=True)
class OfTwo(Aggregate):
    """An aggregate of two number columns, clamped, over rows in which both are present.

    named: the arguments with the columns, and those with their bounds.
    """

    named: ClassVar[tuple[tuple[str, str], ...]] = (("x", "x_bounds"), ("y", "y_bounds"))
    renamed: ClassVar[Mapping[str, str]] = {"sides": ""}

    sides: tuple[RatioSide, RatioSide]

    def arguments(self) -> dict[str, Any]:
        found = Aggregate.arguments(self)
        for (column, bounds), side in zip(self.named, self.sides, strict=True):
            found[column] = side.column
            if side.lower is not None:
                found[bounds] = (side.lower, side.upper)
        return found

    def bound_to(self, scope: TableSchema) -> Self:
        (x, first), (y, second) = (side.bound_to(scope) for side in self.sides)
        return dataclasses.replace(self, expressions=(first, second), sides=(x, y))

    @property
    def assumes(self) -> tuple[str, ...]:
        return tuple(side.column for side in self.sides)

    @property
    def clamps(self) -> tuple[Clamp, Clamp]:
        """The public ranges in integers; products and squares fit in 63 bits."""
        (x, y), (first, second) = self.sides, self.expressions
        return moment_clamp(first, x.lower, x.upper), moment_clamp(second, y.lower, y.upper)

    @property
    def clamped(self) -> tuple[tuple[str, float, float], ...]:
        return tuple((side.column, *_range(side)) for side in self.sides)

    @property
    def clamping(self) -> tuple[str, ...]:
        """The sentences that name clamping."""
        return tuple(
            f"{side.column}: {clamping_note(side.lower, side.upper)}" for side in self.sides
        )

    def assumed(self, assume: Assumption) -> tuple[Floats, Floats] | None:
        """The assumed values of both, clamped, in pairs; None where there are none of either.

        Raises InvalidParameter if only one has values, or if their numbers differ.
        """
        (first, second), (x, y) = map(assume.of, self.assumes), self.clamps
        if first is None and second is None:
            return None
        if first is None or second is None or len(first) != len(second):
            raise InvalidParameter(
                "assuming",
                "...",
                expected="as many values of {!r} as of {!r}: the first of the one goes with the "
                "first of the other".format(*self.assumes),
            )
        return np.clip(first, *x.range), np.clip(second, *y.range)


def refuse_negative(argument: str, side: RatioSide, *, reason: str = "") -> None:
    """Raise InvalidParameter if the column's bounds allow values below 0."""
    assert side.lower is not None
    expected = f"a lower bound of at least 0{reason}"
    checks.demand(side.lower >= 0, argument, float(side.lower), expected=expected)


_LIKELY = (0.25, 0.5, 1.0, 2.0)  # ratios of x to y, each in units of its largest
_COMBINATIONS = (
    ((1, 0), (0, 1)),
    *(
        ((one, -sign * one), (part, sign * part))
        for sign in (1, -1)
        for one, part in ((1, 1), (3, 2), (7, 4), (2, 1), (3, 1))
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio(OfTwo, OfMoments):
    """The sum of one number column over that of another, both clamped."""

    tag: ClassVar[str] = "ratio"
    functions: ClassVar[tuple[str, ...]] = ("ratio",)
    named: ClassVar[tuple[tuple[str, str], ...]] = (
        ("numerator", "numerator_bounds"),
        ("denominator", "denominator_bounds"),
    )
    even: ClassVar[str] = "the errors by rows are for values in the middle of both"
    numbers: ClassVar[str] = "two sums of combinations of both"

    def bound_to(self, scope: TableSchema) -> Ratio:
        found = OfTwo.bound_to(self, scope)
        reason = ": the sign of what divides must be known"
        refuse_negative("denominator_bounds", found.sides[1], reason=reason)
        return found

    @property
    def clamps(self) -> tuple[Clamp, Clamp]:
        (x, y), (first, second) = self.sides, self.expressions
        return clamp_of(first, x.lower, x.upper), clamp_of(second, y.lower, y.upper)

    @property
    def _largest(self) -> tuple[int, int]:
        first, second = self.clamps
        return max(abs(first.lower), abs(first.upper)), second.upper

    @property
    def one(self) -> int:
        """The unit of both: the largest possible size."""
        return math.prod(self._largest)

    @property
    def strategies(self) -> Strategies:
        """The combinations of x and y that get noise, in units of 1 / `one`."""
        (x, y), (a, b) = self.clamps, self._largest
        ends = tuple((p * b, q * a) for p in (x.lower, x.upper) for q in (y.lower, y.upper))
        return Strategies(
            l1=_least(ends, unit=self.one, power=1), l2=_least(ends, unit=self.one, power=2)
        )

    def measures(self, values: Sequence[str]) -> tuple[Measure, ...]:
        terms = map(Clamped, values, self.clamps)
        return tuple(SumOf(term, present=tuple(values)) for term in terms)

    def moments(self, sums: Sequence[Sequence[int]]) -> list[list[int]]:
        """Both sums in units of 1 / `one`."""
        (first, second), (a, b) = sums, self._largest
        return [[p * b for p in first], [q * a for q in second]]

    def estimates(self, noisy: Noisy) -> tuple[Floats, Floats]:
        """Ratios on the scale of the noise."""
        x, y = noisy.moments.T
        divisor = np.maximum(y, 1.0)
        values = np.asarray(x / divisor)
        weights = np.stack([np.ones_like(values), -values], axis=-1)
        return values, noisy.errors(weights) / divisor

    def answer(self, noisy: Noisy, *, laplace: bool) -> Answer:
        """Fieller's intervals; None for an unbounded end."""
        values, errors = self.estimates(noisy)
        z = noise_quantile(0.05, laplace=laplace)
        scale, limits = self.scale, self._limits
        low, high = (np.clip(end * scale, *limits) for end in _fieller(noisy, z=z))
        found = widened(values * scale, z * errors * scale, (low, high), limits)
        lower, upper = ([None if math.isinf(v) else v for v in end.tolist()] for end in found)
        answer = answer_of(values * scale, errors * scale, found, limits)
        return dataclasses.replace(answer, lower=lower, upper=upper)

    @property
    def scale(self) -> float:
        """One unit of the ratio on the scale of the noise."""
        (x, y), (a, b) = self.clamps, self._largest
        return x.absolute(a) / y.absolute(b)

    @property
    def _limits(self) -> tuple[float, float]:
        """Between which a ratio lies, whatever the data."""
        (low, high), (least, most) = (clamp.range for clamp in self.clamps)

        def over(numerator: float, divisor: float) -> float:
            if numerator == 0:
                return 0.0
            return numerator / divisor if divisor > 0 else math.copysign(math.inf, numerator)

        return over(low, least if low < 0 else most), over(high, least if high > 0 else most)

    def expected(self, assume: Assumption) -> tuple[Floats, float]:
        x, y = means = self._means(assume)
        return means, float(x / y) if y > 0 else 0.0

    def first_order(self, still: Noisy, rows: int, assume: Assumption | None) -> float:
        x, y = self._means(assume)
        if y <= 0:
            return math.inf
        length = float(np.linalg.norm(np.array([1.0, -x / y]) @ still.inverse))
        return still.deviation * length / (rows * float(y))

    def _means(self, assume: Assumption | None) -> Floats:
        """Of both, where no values are assumed in the middle of their ranges."""
        pair = None if assume is None else self.assumed(assume)
        (x, y), (a, b) = self.clamps, self._largest
        if pair is None:
            return np.array([(x.lower + x.upper) / (2 * a), (y.lower + y.upper) / (2 * b)])
        return np.array([pair[0].mean() / x.absolute(a), pair[1].mean() / y.absolute(b)])


def ratio(
    numerator: Written,
    denominator: Written,
    numerator_bounds: tuple[Number, Number] | None = None,
    denominator_bounds: tuple[Number, Number] | None = None,
    *,
    weight: Number = 1,
) -> Ratio:
    """Divide the sum of one number column by that of another, over rows where both are present.

    An end of an interval is None if the noise is too large to bound it.

    Parameters
    ----------
    numerator, denominator
        Columns or expressions of numbers.
    numerator_bounds, denominator_bounds
        Public clamping bounds (lower, upper) of each, in its unit, by default as declared; the
        denominator's lower bound is 0 or above.
    weight
        As in `count`.

    Returns
    -------
    Ratio
        An aggregate, for `Query.agg`.

    Raises
    ------
    InvalidParameter
        For bounds that are no range, a denominator below 0, and a weight that is not above 0.

    Examples
    --------
    >>> ratio("spent", "earned", (0, 5_000), (0, 10_000)).assumes
    ('spent', 'earned')
    """
    return Ratio(
        sides=(
            RatioSide.of("numerator_bounds", numerator, numerator_bounds),
            RatioSide.of("denominator_bounds", denominator, denominator_bounds),
        ),
        weight=weight_of(weight),
    )


@functools.lru_cache(maxsize=64)
def _least(ends: tuple[tuple[int, int], ...], *, unit: int, power: int) -> Strategy:
    """The combinations under which ratios err least.

    ends: the corners of what rows can be, in units of 1 / unit.
    """
    sign = -1.0 if all(x <= 0 for x, _ in ends) else 1.0

    def log_scale(matrix: tuple[tuple[int, int], ...]) -> float:
        moved = np.array([[p * x + q * y for p, q in matrix] for x, y in ends], dtype=object) / unit
        length = float(np.max(np.sum(np.abs(moved.astype(float)) ** power, axis=1))) ** (1 / power)
        inverse = np.linalg.inv(np.array(matrix, dtype=float))
        weights = [np.array([1.0, -sign * likely]) for likely in _LIKELY]
        return math.fsum(math.log(length * float(np.linalg.norm(g @ inverse))) for g in weights)

    matrix = min(_COMBINATIONS, key=log_scale)
    corners = tuple(tuple(p * x + q * y for p, q in matrix) for x, y in ends)
    return Strategy(matrix=matrix, removed=corners, replaced=corners, fine=unit)


def _fieller(noisy: Noisy, *, z: float) -> tuple[Floats, Floats]:
    """All ratios t with (x - t y)^2 <= z^2 variance(x - t y); without ends where that is open."""
    x, y = noisy.moments.T
    # In a unit of its own for each cell, so that no fourth power leaves the range of doubles.
    unit = np.maximum(np.maximum(np.abs(x), np.abs(y)), noisy.deviation)
    x, y, noise = x / unit, y / unit, (z * noisy.deviation / unit) ** 2
    gram = noisy.inverse @ noisy.inverse.T
    square, half = y**2 - gram[1, 1] * noise, x * y - gram[0, 1] * noise
    inside = half**2 - square * (x**2 - gram[0, 0] * noise)
    known = (square > 0) & (y > 0)
    # Rounding: the root of a difference of numbers of the size of 1.
    root = np.sqrt(np.maximum(np.where(known, inside, 0.0), 0.0)) + 1e-7 * x**2
    divisor = np.where(known, square, 1.0)
    low, high = (half - root) / divisor, (half + root) / divisor
    return np.where(known, low, -np.inf), np.where(known, high, np.inf)
