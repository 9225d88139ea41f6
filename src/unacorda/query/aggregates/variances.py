"""Variances, covariances and correlations.

Variances and standard deviations come from three noisy sums with a low joint sensitivity.

The sums are those of `moment_strategies.SQUARED`, of the values scaled to [-1, 1]. They give noisy
N = number of rows, S = sum of u and Q = sum of u^2, and with m = S / N the variance (Q - 2 m S +
m^2 N) / (N - ddof), in squares of half the width of the range.

Its error is that of the sum of (u - m)^2 - v, v the variance: at -1, 0 and 1 this polynomial is
(1 + m)^2 - v, m^2 - v and (1 - m)^2 - v. For values in the middle of their range, m = 0, normal
noise gives tau sqrt(2 (1 - v)^2 + v^2) / N, where noisy counts, sums and sums of squares with a
third of the budget each give tau sqrt(3 (1 + v^2)) / N (under Laplace noise 2 (1 - v)^2 + 4 v^2 in
place of 9 (1 + v^2)). These are sums about the middle of the range. Sums about 0, as is common,
have errors several times as large if 0 is an end of the range.

The interval is of the kind in `moment_strategies`, with the mean in its box.

Covariances and correlations of two columns, over rows in which both are present.

A covariance follows from the sums of `moment_strategies.PAIRED`, a correlation from those of
`CROSSED`, of both columns scaled to [-1, 1]. Errors are to first order those of sums over rows of

    (u - a) (v - b) - kappa                                                     for a covariance,
    (u - a) (v - b) - (rho / 2) (lambda (u - a)^2 + (v - b)^2 / lambda)         for a correlation

divided by n, and by n times both deviations; a, b are the means and lambda the deviation of v over
that of u. Both sums are 0 at the true numbers, and small errors of a, b or lambda change them only
in the second order. The intervals are computed from them as in `moment_strategies`, with a, b and
lambda in boxes. If the sign of a deviation is uncertain, the interval of a correlation is [-1, 1].
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unacorda import checks
from unacorda.checks import Number
from unacorda.query.aggregates.base import (
    Answer,
    Assumption,
    OfColumn,
    answer_of,
    given_bounds,
    weight_of,
    widened,
)
from unacorda.query.aggregates.grid import Flags, Floats
from unacorda.query.aggregates.measures import (
    Clamp,
    Clamped,
    Measure,
    PresentCount,
    RowTerm,
    SumOf,
    Times,
    clamping_note,
)
from unacorda.query.aggregates.moment_strategies import (
    CROSSED,
    MAIN,
    PAIRED,
    SQUARED,
    Noisy,
    OfMoments,
    Strategies,
    ends,
    linear_ends,
    mean_box,
    moment_clamp,
)
from unacorda.query.aggregates.ratios import OfTwo, RatioSide
from unacorda.query.expressions.language import Written, written
from unacorda.query.noise.additive import noise_quantile

Range = tuple[Floats, Floats]

_EVEN = 201  # values of a column that are assumed where none are given


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedVariance(OfColumn, OfMoments):
    """The variance of a number column over rows where it is present, or its root.

    ddof: subtracted from the number of rows in the divisor. root: the standard deviation.
    """

    tag: ClassVar[str] = "variance"
    functions: ClassVar[tuple[str, ...]] = ("variance", "stdev")
    renamed: ClassVar[Mapping[str, str]] = {"root": ""}
    even: ClassVar[str] = "the errors by rows are for values spread evenly over the range"
    strategies: ClassVar[Strategies] = SQUARED

    ddof: int
    root: bool

    @property
    def function(self) -> str:
        return "stdev" if self.root else "variance"

    @property
    def clamp(self) -> Clamp:
        """The public range in integers."""
        return moment_clamp(self.expression, self.lower, self.upper)

    @property
    def clamping(self) -> tuple[str, ...]:
        return (clamping_note(self.lower, self.upper),)

    @property
    def one(self) -> int:
        """Values are whole multiples of 1 / width."""
        return self.clamp.width**2

    @property
    def numbers(self) -> str:
        return f"three sums, to which a row adds up to {2 * self.unit:.6g}"

    @property
    def scale(self) -> float:
        """Half the width of the range, or its square."""
        return self.clamp.half if self.root else self.clamp.half**2

    def measures(self, values: Sequence[str]) -> tuple[Measure, ...]:
        (value,) = values
        above = Clamped(value, self.clamp, above=True)
        return (PresentCount((value,)), SumOf(above), SumOf(Times(above, above)))

    def moments(self, sums: Sequence[Sequence[int]]) -> list[list[int]]:
        """The sums of 1, u and u^2 in units of 1 / width^2."""
        width = self.clamp.width
        moments: list[list[int]] = [[], [], []]
        for rows, total, squares in zip(*sums, strict=True):
            # z = 2 (x - lower) - width is u in units of 1 / width.
            moments[0].append(rows * width**2)
            moments[1].append((2 * total - rows * width) * width)
            moments[2].append(4 * squares - 4 * width * total + rows * width**2)
        return moments

    def estimates(self, noisy: Noisy) -> tuple[Floats, Floats]:
        values, errors = self._variances(noisy)
        if not self.root:
            return values, errors
        at_least = np.maximum(values, 0.0)
        return np.sqrt(at_least), np.sqrt(at_least + errors) - np.sqrt(at_least)

    def _variances(self, noisy: Noisy) -> tuple[Floats, Floats]:
        n, s, q = noisy.moments.T
        mean = np.clip(s / np.maximum(n, 1.0), -1, 1)
        rows = np.maximum(n - self.ddof, 1.0)
        values = np.asarray((q - 2 * mean * s + mean**2 * n) / rows)
        weights = _weights(mean, np.clip(values, 0, 1.0 + self.ddof))
        return values, noisy.errors(weights) / rows

    def answer(self, noisy: Noisy, *, laplace: bool) -> Answer:
        values, errors = self._variances(noisy)
        box = mean_box(noisy, 1, z=noise_quantile(0.05 - MAIN, laplace=laplace))
        z, most = noise_quantile(MAIN, laplace=laplace), 1.0 + self.ddof
        found = variance_ends(noisy, (1, 2), box=box, z=z, ddof=self.ddof)
        low, high = widened(values, z * errors, found, (0.0, most))
        if self.root:
            low, high, most = np.sqrt(low), np.sqrt(high), math.sqrt(most)
        values, errors = self.estimates(noisy)
        scale = self.scale
        ends = low * scale, high * scale
        return answer_of(values * scale, errors * scale, ends, (0.0, scale * most))

    def expected(self, assume: Assumption) -> tuple[Floats, float]:
        """By default values are assumed to be spread evenly."""
        values, rows = assume.of(self.column), assume.rows
        u = np.linspace(-1.0, 1.0, 1_001) if values is None else self.clamp.centered(values)
        true = u.var() * rows / (rows - self.ddof) if rows > self.ddof else 0.0
        return np.array([1.0, u.mean(), (u**2).mean()]), math.sqrt(true) if self.root else true

    def first_order(self, still: Noisy, rows: int, assume: Assumption | None) -> float:
        """Of values spread evenly, whose variance is 1/3."""
        weights = _weights(np.array(0.0), np.array(1 / 3))
        error = still.deviation * float(np.linalg.norm(weights @ still.inverse))
        return min((error / (2 * math.sqrt(1 / 3)) if self.root else error) / rows, 1.0)


def variance(
    column: Written,
    lower: Number | None = None,
    upper: Number | None = None,
    *,
    ddof: int = 1,
    weight: Number = 1,
) -> BoundedVariance:
    """Estimate the variance of a number column over rows where it is present, clamped to a range.

    Of fewer rows than it needs, the exact variance counts as 0.

    Parameters
    ----------
    column
        A column or an expression of numbers.
    lower, upper
        Public clamping bounds in the column's unit, lower < upper. Left out, they are those
        declared of the column.
    ddof
        1 for the sample variance, divided by n - 1, as SQL's VAR_SAMP; 0 for the population
        variance, divided by n.
    weight
        As in `count`.

    Returns
    -------
    BoundedVariance
        An aggregate, for `Query.agg`.

    Raises
    ------
    InvalidParameter
        For bounds that are no range, another ddof, and a weight that is not above 0.
    MissingBound
        Where one bound is given without the other.

    Examples
    --------
    >>> variance("age", 0, 120).ddof
    1
    """
    low, high = given_bounds(lower, upper)
    part = weight_of(weight)
    return BoundedVariance(
        column=written(column), lower=low, upper=high, ddof=_given(ddof), root=False, weight=part
    )


def stdev(
    column: Written,
    lower: Number | None = None,
    upper: Number | None = None,
    *,
    ddof: int = 1,
    weight: Number = 1,
) -> BoundedVariance:
    """Estimate the standard deviation of a number column: the root of `variance`, at least 0.

    The root is taken after noise is added. If the deviation is small compared with the noise, it is
    too large on average; the interval is still valid.

    Parameters
    ----------
    column, lower, upper, ddof, weight
        As in `variance`.

    Returns
    -------
    BoundedVariance
        An aggregate, for `Query.agg`.

    Raises
    ------
    InvalidParameter
        For bounds that are no range, another ddof, and a weight that is not above 0.
    MissingBound
        Where one bound is given without the other.

    Examples
    --------
    >>> stdev("age", 0, 120, ddof=0).root
    True
    """
    squared = variance(column, lower, upper, ddof=ddof, weight=weight)
    return dataclasses.replace(squared, root=True)


def _given(ddof: object) -> int:
    fits = not isinstance(ddof, bool) and ddof in (0, 1)
    checks.demand(fits, "ddof", ddof, expected="1 (divide by n - 1) or 0 (divide by n)")
    return int(ddof == 1)


def _weights(mean: Floats, variance: Floats) -> Floats:
    """Of the moments 1, u, u^2 in the sum of (u - mean)^2 - variance."""
    return np.stack([mean**2 - variance, -2 * mean, np.ones_like(mean)], axis=-1)


def variance_ends(
    noisy: Noisy, at: tuple[int, int], *, box: tuple[Floats, Floats], z: float, ddof: int
) -> tuple[Floats, Floats]:
    """Limits of the variance of values on [-1, 1] whose mean is in a box.

    at: the positions of the sums of u and of u^2 among the moments (the first is that of 1); z: the
    quantile of the noise.
    """
    n, s, q = noisy.moments[:, 0], noisy.moments[:, at[0]], noisy.moments[:, at[1]]
    low, high = box
    at_ends = [q - 2 * m * s + m**2 * n for m in (low, high)]
    turn = np.divide(s, n, out=np.zeros_like(s), where=n != 0)
    inside = (low < turn) & (turn < high)
    at_turn = np.where(inside, q - s * turn, at_ends[0])
    squares = np.where((low < 0) & (high > 0), 0, np.minimum(low**2, high**2))
    corners = [(m, p) for m in (low, high) for p in (squares, np.maximum(low**2, high**2))]

    weights = []
    for mean, square in corners:
        weights.append(np.zeros_like(noisy.moments))
        weights[-1][:, 0], weights[-1][:, at[0]] = square, -2 * mean
        weights[-1][:, at[1]] = 1.0
    return linear_ends(
        noisy,
        weights,
        [*at_ends, at_turn],
        np.asarray((q - s * turn) / np.maximum(n - ddof, 1.0)),
        rows=n - ddof,
        z=z,
        limits=(0.0, 1.0 + ddof),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Paired(OfTwo, OfMoments):
    """What follows from products of both columns. squares: and from their squares."""

    even: ClassVar[str] = "the errors by rows are for values spread evenly over both ranges"
    squares: ClassVar[bool]

    @property
    def one(self) -> int:
        """Values are whole multiples of 1 / width."""
        x, y = self.clamps
        return (x.width * y.width) ** (2 if self.squares else 1)

    def measures(self, values: Sequence[str]) -> tuple[Measure, ...]:
        both = tuple(values)
        first, second = (
            Clamped(value, clamp, above=True)
            for value, clamp in zip(values, self.clamps, strict=True)
        )
        terms: list[RowTerm] = [first, second, Times(first, second)]
        terms += [Times(first, first), Times(second, second)] if self.squares else []
        return (PresentCount(both), *(SumOf(term, present=both) for term in terms))

    def moments(self, sums: Sequence[Sequence[int]]) -> list[list[int]]:
        """Of 1, u, v and u v in units of 1 / (a b), a and b the widths.

        With sums of squares, of 1, u, v, u^2, v^2 and u v in units of 1 / (a b)^2.
        """
        a, b = (clamp.width for clamp in self.clamps)
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

    def values(self, assume: Assumption) -> tuple[Floats, Floats]:
        """Values on [-1, 1] that are assumed, in pairs; without any, spread evenly over both."""
        given = self.assumed(assume)
        if given is None:
            even = np.linspace(-1.0, 1.0, _EVEN)
            first, second = np.meshgrid(even, even)
            return first.ravel(), second.ravel()
        first, second = (
            clamp.centered(values) for clamp, values in zip(self.clamps, given, strict=True)
        )
        return first, second


@dataclass(frozen=True, slots=True, kw_only=True)
class Covariance(_Paired):
    """The covariance of two number columns, values clamped.

    ddof: subtracted from the number of rows in the divisor.
    """

    tag: ClassVar[str] = "covariance"
    functions: ClassVar[tuple[str, ...]] = ("covariance",)
    strategies: ClassVar[Strategies] = PAIRED
    squares: ClassVar[bool] = False
    numbers: ClassVar[str] = "four sums of products of x and y"

    ddof: int

    @property
    def scale(self) -> float:
        x, y = self.clamps
        return x.half * y.half

    def estimates(self, noisy: Noisy) -> tuple[Floats, Floats]:
        n, u, v, uv = noisy.moments.T
        a, b = (np.clip(s / np.maximum(n, 1.0), -1, 1) for s in (u, v))
        rows = np.maximum(n - self.ddof, 1.0)
        values = np.asarray((uv - a * v - b * u + a * b * n) / rows)
        most = 1.0 + self.ddof
        weights = _covariance_weights(a, b, np.clip(values, -most, most))
        return values, noisy.errors(weights) / rows

    def answer(self, noisy: Noisy, *, laplace: bool) -> Answer:
        n, u, v, uv = noisy.moments.T
        z_box = noise_quantile((0.05 - MAIN) / 2, laplace=laplace)
        corners = list(itertools.product(*(mean_box(noisy, at, z=z_box) for at in (1, 2))))
        values, errors = self.estimates(noisy)
        most = 1.0 + self.ddof
        found = linear_ends(
            noisy,
            [_covariance_weights(a, b, np.zeros_like(n)) for a, b in corners],
            [uv - a * v - b * u + a * b * n for a, b in corners],
            values,
            rows=n - self.ddof,
            z=noise_quantile(MAIN, laplace=laplace),
            limits=(-most, most),
        )
        half = errors * noise_quantile(0.05, laplace=laplace)
        ends = widened(values, half, found, (-most, most))
        x, y = self.clamps
        values, errors, low, high = (one * x.half * y.half for one in (values, errors, *ends))
        return answer_of(values, errors, (low, high), (-self.scale * most, self.scale * most))

    def expected(self, assume: Assumption) -> tuple[Floats, float]:
        (u, v), rows = self.values(assume), assume.rows
        kappa = np.mean(u * v) - u.mean() * v.mean()
        true = float(kappa * rows / (rows - self.ddof)) if rows > self.ddof else 0.0
        return np.array([1.0, u.mean(), v.mean(), np.mean(u * v)]), true

    def first_order(self, still: Noisy, rows: int, assume: Assumption | None) -> float:
        """Of values spread evenly: that of the sum of products."""
        return min(still.deviation * float(np.linalg.norm(still.inverse[-1])) / rows, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Correlation(_Paired):
    """Pearson's correlation of two number columns, values clamped."""

    tag: ClassVar[str] = "correlation"
    functions: ClassVar[tuple[str, ...]] = ("correlation",)
    strategies: ClassVar[Strategies] = CROSSED
    squares: ClassVar[bool] = True
    numbers: ClassVar[str] = "six sums of products and squares of x and y"
    scale: ClassVar[float] = 1.0

    def estimates(self, noisy: Noisy) -> tuple[Floats, Floats]:
        """Correlations; their errors are at most 1."""
        n, u, v, uu, vv, uv = noisy.moments.T
        a, b = (np.clip(s / np.maximum(n, 1.0), -1, 1) for s in (u, v))
        first, second = uu - 2 * a * u + a**2 * n, vv - 2 * b * v + b**2 * n
        known = (first > 0) & (second > 0)
        first, second = np.where(known, first, 1.0), np.where(known, second, 1.0)
        product, ratio = np.sqrt(first) * np.sqrt(second), np.sqrt(second / first)
        values = np.where(known, np.clip((uv - a * v - b * u + a * b * n) / product, -1, 1), 0.0)
        fixed, sloped = _correlation_weights((a, a), (b, b), (ratio, ratio), (1 / ratio, 1 / ratio))
        errors = noisy.errors(fixed[0] + values[:, None] * sloped[0]) / product
        return np.asarray(values), np.where(known, np.minimum(errors, 1.0), 1.0)

    def answer(self, noisy: Noisy, *, laplace: bool) -> Answer:
        values, errors = self.estimates(noisy)
        found = _correlation_ends(noisy, values, laplace=laplace)
        half = errors * noise_quantile(0.05, laplace=laplace)
        return answer_of(values, errors, widened(values, half, found, (-1.0, 1.0)), (-1.0, 1.0))

    def expected(self, assume: Assumption) -> tuple[Floats, float]:
        """Of all assumed pairs; 0 where a column does not vary."""
        u, v = self.values(assume)
        spread = float(u.std() * v.std())
        kappa = float(np.mean(u * v) - u.mean() * v.mean())
        moments = np.array([np.mean(f) for f in (u**0, u, v, u * u, v * v, u * v)])
        return moments, kappa / spread if spread > 0 else 0.0

    def first_order(self, still: Noisy, rows: int, assume: Assumption | None) -> float:
        """Of values spread evenly, whose variance is 1/3: that of the sum of products."""
        return min(3 * still.deviation * float(np.linalg.norm(still.inverse[-1])) / rows, 1.0)


def covariance(
    x: Written,
    y: Written,
    x_bounds: tuple[Number, Number] | None = None,
    y_bounds: tuple[Number, Number] | None = None,
    *,
    ddof: int = 1,
    weight: Number = 1,
) -> Covariance:
    """Estimate the covariance of two number columns over rows where both are present, clamped.

    Of fewer rows than it needs, the exact covariance counts as 0.

    Parameters
    ----------
    x, y
        Columns or expressions of numbers.
    x_bounds, y_bounds
        Public clamping bounds (lower, upper) of each, in its unit, by default as declared.
    ddof
        1 divides by n - 1, as SQL's COVAR_SAMP; 0 by n, as COVAR_POP.
    weight
        As in `count`.

    Returns
    -------
    Covariance
        An aggregate, for `Query.agg`.

    Raises
    ------
    InvalidParameter
        For bounds that are no range, another ddof, and a weight that is not above 0.

    Examples
    --------
    >>> covariance("age", "income", (0, 120), (0, 200_000)).ddof
    1
    """
    divisor = _given(ddof)
    sides = (RatioSide.of("x_bounds", x, x_bounds), RatioSide.of("y_bounds", y, y_bounds))
    return Covariance(sides=sides, ddof=divisor, weight=weight_of(weight))


def correlation(
    x: Written,
    y: Written,
    x_bounds: tuple[Number, Number] | None = None,
    y_bounds: tuple[Number, Number] | None = None,
    *,
    weight: Number = 1,
) -> Correlation:
    """Estimate Pearson's correlation of two clamped number columns over rows with both.

    It is always in [-1, 1], and 0 if a noisy variance is not above 0. If a column does not vary,
    the exact correlation is not defined.

    Parameters
    ----------
    x, y, x_bounds, y_bounds, weight
        As in `covariance`.

    Returns
    -------
    Correlation
        An aggregate, for `Query.agg`.

    Raises
    ------
    InvalidParameter
        For bounds that are no range, and a weight that is not above 0.

    Examples
    --------
    >>> correlation("age", "income", (0, 120), (0, 200_000)).sides[0].column
    'age'
    """
    sides = (RatioSide.of("x_bounds", x, x_bounds), RatioSide.of("y_bounds", y, y_bounds))
    return Correlation(sides=sides, weight=weight_of(weight))


def _covariance_weights(a: Floats, b: Floats, kappa: Floats) -> Floats:
    """Of the moments 1, u, v, u v in the sum of (u - a) (v - b) - kappa."""
    return np.stack([a * b - kappa, -b, -a, np.ones_like(a)], axis=-1)


def _correlation_ends(noisy: Noisy, guess: Floats, *, laplace: bool) -> tuple[Floats, Floats]:
    """95% intervals of correlations."""
    n, u, v, uu, vv, uv = noisy.moments.T
    part = (0.05 - MAIN) / 4
    z_box = noise_quantile(part, laplace=laplace)
    a, b = (mean_box(noisy, at, z=z_box) for at in (1, 2))
    first = variance_ends(noisy, (1, 3), box=a, z=z_box, ddof=0)
    second = variance_ends(noisy, (2, 4), box=b, z=z_box, ddof=0)
    known = (first[0] > 0) & (second[0] > 0) & (n > 0)
    first, second = _known(first, known), _known(second, known)
    ratio = np.sqrt(second[0] / first[1]), np.sqrt(second[1] / first[0])
    inverse = 1 / ratio[1], 1 / ratio[0]

    products = [uv - x * v - y * u + x * y * n for x, y in itertools.product(a, b)]
    least, most = np.min(products, axis=0), np.max(products, axis=0)
    squares = _spread_range(n, u, uu, a), _spread_range(n, v, vv, b)
    known &= (squares[0][0] > 0) & (squares[1][0] > 0)
    (p_low, p_high), (q_low, q_high) = (_known(s, known) for s in squares)
    turn = np.clip(np.sqrt(q_low / p_low), *ratio)
    both_low = turn * p_low + q_low / turn
    both_high = np.max([r * p_high + q_high / r for r in ratio], axis=0)

    fixed, sloped = _correlation_weights(a, b, ratio, inverse)
    lengths = _image(fixed, noisy.inverse), _image(sloped, noisy.inverse)
    z = noise_quantile(MAIN, laplace=laplace) * noisy.deviation

    def width(rho: Floats) -> Floats:
        slopes = [rho[:, None] * side for side in lengths[1]]
        low = lengths[0][0] + np.minimum(*slopes)
        high = lengths[0][1] + np.maximum(*slopes)
        return np.asarray(z * np.linalg.norm(np.maximum(np.abs(low), np.abs(high)), axis=-1))

    def pulled(rho: Floats) -> Range:
        sides = rho / 2 * both_low, rho / 2 * both_high
        return np.minimum(*sides), np.maximum(*sides)

    low, high = ends(
        lambda rho: most - pulled(rho)[0] + width(rho),
        lambda rho: pulled(rho)[1] - least + width(rho),
        guess,
        limits=(-1.0, 1.0),
    )
    return np.where(known, low, -1.0), np.where(known, high, 1.0)


def _known(found: Range, known: Flags) -> Range:
    return np.where(known, found[0], 1.0), np.where(known, found[1], 1.0)


def _spread_range(n: Floats, s: Floats, q: Floats, box: Range) -> Range:
    """The least and the largest sum of (u - m)^2 over means m in a box; n is above 0."""
    found = [q - 2 * m * s + m**2 * n for m in box]
    turn = np.clip(np.divide(s, n, out=np.zeros_like(s), where=n > 0), *box)
    return np.min([*found, q - 2 * turn * s + turn**2 * n], axis=0), np.max(found, axis=0)


def _correlation_weights(a: Range, b: Range, ratio: Range, inverse: Range) -> tuple[Range, Range]:
    """Ranges of the weights of moments in the sum that a correlation solves: fixed + rho sloped."""
    one = np.ones_like(a[0])
    zero, whole = (0 * one, 0 * one), (one, one)
    squares = _times(ratio, _square(a)), _times(inverse, _square(b))
    both = -(squares[0][1] + squares[1][1]) / 2, -(squares[0][0] + squares[1][0]) / 2
    fixed = [_times(a, b), (-b[1], -b[0]), (-a[1], -a[0]), zero, zero, whole]
    sloped = [
        both,
        _times(ratio, a),
        _times(inverse, b),
        (-ratio[1] / 2, -ratio[0] / 2),
        (-inverse[1] / 2, -inverse[0] / 2),
        zero,
    ]
    return _stacked(fixed), _stacked(sloped)


def _stacked(ranges: list[Range]) -> Range:
    low, high = zip(*ranges, strict=True)
    return np.stack(low, axis=-1), np.stack(high, axis=-1)


def _times(first: Range, second: Range) -> Range:
    found = [x * y for x, y in itertools.product(first, second)]
    return np.min(found, axis=0), np.max(found, axis=0)


def _square(found: Range) -> Range:
    low, high = found[0] ** 2, found[1] ** 2
    straddles = (found[0] < 0) & (found[1] > 0)
    return np.where(straddles, 0.0, np.minimum(low, high)), np.maximum(low, high)


def _image(weights: Range, inverse: Floats) -> Range:
    """The range of g @ inverse for weights g in a range."""
    up, down = np.maximum(inverse, 0), np.minimum(inverse, 0)
    return weights[0] @ up + weights[1] @ down, weights[1] @ up + weights[0] @ down
