"""Aggregates of two columns, and ratios of their sums.

Ratios of two sums: two noisy numbers, chosen from the bounds alone.

With x and y in units of the largest there can be, the noise is added to two sums of
combinations of x and y that are chosen from the bounds alone: x and y themselves, or x - y and a
part of x + y (where both have one sign, one of these is small while the other is large). A ratio
theta has, to first order, the error of the sum of x - theta y; the pair is taken whose mean
logarithm of that error, over ratios of about 1 in these units, is least. The interval is Fieller's
(1954): all theta for which the noise of Sx - theta Sy can explain what was seen.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from unacorda.bits import RandomBits
from unacorda.checks import Number
from unacorda.errors import InvalidParameter
from unacorda.query.aggregates.base import (
    Aggregate,
    Answer,
    Assumption,
    Exact,
    Forecast,
    Single,
    bounds_of,
    expression_of,
    weight_of,
    widened,
)
from unacorda.query.aggregates.measures import (
    Clamp,
    Clamped,
    Measure,
    PresentCount,
    RowTerm,
    SumOf,
    Times,
    clamp_of,
    clamping_note,
)
from unacorda.query.aggregates.moment_strategies import (
    Noisy,
    Strategies,
    Strategy,
    moment_clamp,
    simulated_error,
)
from unacorda.query.expressions.types import Expression
from unacorda.query.noise.additive import AdditiveNoise, Share, noise_quantile
from unacorda.query.schema.facts import interval
from unacorda.query.schema.table import TableSchema
from unacorda.query.schema.units import Reach

__all__ = [
    "TABLE_ROWS",
    "OfTwo",
    "Pair",
    "Ratio",
    "RatioSide",
    "assumed_pairs",
    "ratio",
    "refuse_negative",
]

Floats = NDArray[np.float64]

TABLE_ROWS = (100, 1_000, 10_000, 100_000, 1_000_000)
"""For which numbers of rows a forecast lists the error."""

_EVEN = 201  # values of a column that are assumed where none are given


@dataclass(frozen=True, slots=True, kw_only=True)
class RatioSide:
    """One of the two columns with its public range."""

    tag: ClassVar[str] = "side"

    column: str
    lower: Fraction | None
    upper: Fraction | None

    @staticmethod
    def of(argument: str, column: str, bounds: object) -> RatioSide:
        """As the caller wrote it; bounds are (lower, upper), or None for those declared."""
        if bounds is None:
            return RatioSide(column=column, lower=None, upper=None)
        if not isinstance(bounds, tuple | list) or len(bounds) != 2:
            raise InvalidParameter(argument, bounds, expected="a pair (lower, upper), or None")
        low, high = interval(*bounds)
        return RatioSide(column=column, lower=low, upper=high)

    def bound_to(self, scope: TableSchema) -> tuple[RatioSide, Expression]:
        """The same with its bounds known, and what it is of."""
        expression = expression_of(self.column, scope)
        lower, upper = bounds_of(self.column, expression, self.lower, self.upper)
        return dataclasses.replace(self, lower=lower, upper=upper), expression

    @property
    def note(self) -> str:
        """The sentence that names clamping."""
        return f"{self.column}: {clamping_note(self.lower, self.upper)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OfTwo(Aggregate):
    """What is made of two number columns, values clamped, over rows in which both are present."""

    sides: tuple[RatioSide, RatioSide]

    def bound_to(self, scope: TableSchema) -> Self:
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
    def of(sides: tuple[RatioSide, RatioSide], expressions: Sequence[Expression]) -> Pair:
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

    def measures(self, values: Sequence[str], *, squares: bool) -> tuple[Measure, ...]:
        """Counts and sums over the rows in which both are present."""
        (x, y), both = values, tuple(values)
        first, second = Clamped(x, self.x, above=True), Clamped(y, self.y, above=True)
        terms: list[RowTerm] = [first, second, Times(first, second)]
        terms += [Times(first, first), Times(second, second)] if squares else []
        return (PresentCount(both), *(SumOf(term, present=both) for term in terms))

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

    def assumed(self, assume: Assumption) -> tuple[Floats, Floats]:
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


def refuse_negative(argument: str, side: RatioSide, *, reason: str = "") -> None:
    """Raise InvalidParameter where the column of known bounds may be below 0."""
    assert side.lower is not None
    if side.lower < 0:
        raise InvalidParameter(
            argument, float(side.lower), expected=f"a lower bound of at least 0{reason}"
        )


def assumed_pairs(assume: Assumption, columns: tuple[str, ...]) -> tuple[Floats, Floats] | None:
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
class Ratio(OfTwo, Single):
    """The sum of one number column over that of another, both clamped."""

    tag: ClassVar[str] = "ratio"

    def bound_to(self, scope: TableSchema) -> Ratio:
        """The same, its columns looked up and their bounds known."""
        found = OfTwo.bound_to(self, scope)
        reason = ": the sign of what divides must be known"
        refuse_negative("denominator_bounds", found.sides[1], reason=reason)
        return found

    @property
    def clamps(self) -> tuple[Clamp, Clamp]:
        """The public ranges in integers."""
        (x, y), (first, second) = self.sides, self.expressions
        return clamp_of(first, x.lower, x.upper), clamp_of(second, y.lower, y.upper)

    @property
    def _largest(self) -> tuple[int, int]:
        first, second = self.clamps
        return max(abs(first.lower), abs(first.upper)), second.upper

    @property
    def _one(self) -> int:
        return math.prod(self._largest)

    @property
    def strategies(self) -> Strategies:
        """Which combinations of x and y are noised, in units of 1 / `_one`."""
        (x, y), (a, b) = self.clamps, self._largest
        ends = tuple((p * b, q * a) for p in (x.lower, x.upper) for q in (y.lower, y.upper))
        return Strategies(
            l1=_least(ends, unit=self._one, power=1), l2=_least(ends, unit=self._one, power=2)
        )

    def measures(self, values: Sequence[str]) -> tuple[Measure, ...]:
        """The sums of both over the rows in which both are present."""
        terms = map(Clamped, values, self.clamps)
        return tuple(SumOf(term, present=tuple(values)) for term in terms)

    def noise(self, share: Share, reach: Reach) -> AdditiveNoise:
        """The least noise within the share, for the two sums."""
        return self.strategies.noise(share, reach, one=self._one)

    def release(self, exact: Exact, noise: AdditiveNoise, bits: RandomBits) -> Answer:
        """Noisy ratios with their errors."""
        a, b = self._largest
        moments = [[p * b for p in exact.sums[0]], [q * a for q in exact.sums[1]]]
        noisy = self.strategies.release(moments, noise, one=self._one, bits=bits)
        values, errors = _ratios(noisy)
        z = noise_quantile(0.05, laplace=noise.laplace)
        scale, limits = self._scale, self._limits
        low, high = (np.clip(end * scale, *limits) for end in _fieller(noisy, z=z))
        found = widened(values * scale, z * errors * scale, (low, high), limits)
        ends = ([None if math.isinf(v) else v for v in end.tolist()] for end in found)
        return Answer(
            values=(values * scale).tolist(),
            standard_errors=(errors * scale).tolist(),
            lower=next(ends),
            upper=next(ends),
            limits=limits,
        )

    @property
    def _scale(self) -> float:
        """What one unit of the ratio on the scale of the noise is."""
        (x, y), (a, b) = self.clamps, self._largest
        return x.absolute(a) / y.absolute(b)

    @property
    def _limits(self) -> tuple[float, float]:
        """Between which a ratio lies, whatever the data."""
        x, y = self.clamps
        low, high = x.absolute(x.lower), x.absolute(x.upper)
        least, most = y.absolute(y.lower), y.absolute(y.upper)

        def over(numerator: float, divisor: float) -> float:
            if numerator == 0:
                return 0.0
            return numerator / divisor if divisor > 0 else math.copysign(math.inf, numerator)

        return over(low, least if low < 0 else most), over(high, least if high > 0 else most)

    def forecast(self, noise: AdditiveNoise, reach: Reach, assume: Assumption | None) -> Forecast:
        """The error: a table over the number of rows, or a number under assumptions."""
        strategies, one = self.strategies, self._one
        still = strategies.still(noise, one=one)
        (x, y), (a, b) = self.clamps, self._largest
        means = np.array([(x.lower + x.upper) / (2 * a), (y.lower + y.upper) / (2 * b)])
        even = dataclasses.replace(still, moments=np.atleast_2d(means))
        error = None
        if assume is not None:
            pair = assumed_pairs(assume, self.assumes)
            if pair is not None:
                for at, (clamp, most) in enumerate(((x, a), (y, b))):
                    low, high = clamp.absolute(clamp.lower), clamp.absolute(clamp.upper)
                    inside = np.clip(pair[at], low, high)
                    means[at] = inside.mean() / clamp.absolute(most)
            error = self._scale * simulated_error(
                still,
                assume.rows * means,
                lambda noisy: _ratios(noisy)[0],
                true=float(means[0] / means[1]) if means[1] > 0 else 0.0,
                laplace=noise.laplace,
            )
        return Forecast(
            noise=f"{noise} on each of two sums of combinations of both",
            sensitivity=strategies.of(laplace=noise.laplace)
            .sensitivity(reach, one=self._one)
            .reason,
            standard_error=error,
            assumed_rows=None if assume is None else assume.rows,
            table=tuple((n, self._scale * _first_order(even, rows=n)) for n in TABLE_ROWS),
            notes=(
                *self.clamping,
                *([] if assume else ["the errors by rows are for values in the middle of both"]),
            ),
        )


def ratio(
    numerator: str,
    denominator: str,
    numerator_bounds: tuple[Number, Number] | None = None,
    denominator_bounds: tuple[Number, Number] | None = None,
    *,
    weight: Number = 1,
) -> Ratio:
    """The sum of one number column over the sum of another, over rows where both are present.

    Bounds are (lower, upper) of each, by default as declared; the denominator's lower bound is 0 at
    least. An end of an interval is None where the noise leaves it open. Weight as in `count`.

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


def _first_order(noisy: Noisy, *, rows: int) -> float:
    """The standard deviation of the noise of a ratio of so many rows with these means."""
    x, y = noisy.moments[0]
    length = float(np.linalg.norm(np.array([1.0, -x / y]) @ noisy.inverse))
    return noisy.deviation * length / (rows * float(y))


def _ratios(noisy: Noisy) -> tuple[Floats, Floats]:
    """Ratios on the scale of the noise, and the standard deviations of their noise."""
    x, y = noisy.moments.T
    divisor = np.maximum(y, 1.0)
    values = x / divisor
    weights = np.stack([np.ones_like(values), -values], axis=-1)
    errors = noisy.deviation * np.linalg.norm(weights @ noisy.inverse, axis=-1) / divisor
    return np.asarray(values), np.asarray(errors)


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
