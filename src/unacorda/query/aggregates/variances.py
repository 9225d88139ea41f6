"""Variances, covariances and correlations.

Variances and standard deviations: from three noisy sums of which no row moves all far.

The sums are those of `moment_strategies.SQUARED`, of the values put on [-1, 1]. From them follow
noisy N = number of rows, S = sum of u and Q = sum of u^2, and with m = S / N the variance (Q - 2 m
S + m^2 N) / (N - ddof), in squares of half the width of the range.

Its error is that of the sum of (u - m)^2 - v, v the variance: at -1, 0 and 1 this polynomial is
(1 + m)^2 - v, m^2 - v and (1 - m)^2 - v. For values in the middle of their range, m = 0, normal
noise gives tau sqrt(2 (1 - v)^2 + v^2) / N, where noisy counts, sums and sums of squares with a
third of the budget each give tau sqrt(3 (1 + v^2)) / N (under Laplace noise 2 (1 - v)^2 + 4 v^2 in
place of 9 (1 + v^2)). These are sums about the middle of the range; about 0, as they are commonly
taken, they err by several times as much where 0 is an end.

The interval is of the kind in `moment_strategies`, with the mean in its box.

Covariances and correlations of two columns, over rows in which both are present.

A covariance follows from the sums of `moment_strategies.PAIRED`, a correlation from those of
`CROSSED`, of both columns put on [-1, 1]. Errors are to first order those of sums over rows of

    (u - a) (v - b) - kappa                                                     for a covariance,
    (u - a) (v - b) - (rho / 2) (lambda (u - a)^2 + (v - b)^2 / lambda)         for a correlation

divided by n, and by n times both deviations; a, b are the means and lambda the deviation of v over
that of u. Both sums are 0 at the true numbers, and change in the second order alone where a, b or
lambda are a little off. The intervals are made from them as in `moment_strategies`, with a, b and
lambda in boxes; where the sign of a deviation is not sure, a correlation may be anything.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from unacorda.bits import RandomBits
from unacorda.checks import Number
from unacorda.errors import InvalidParameter
from unacorda.query.aggregates.base import (
    Answer,
    Assumption,
    Exact,
    Forecast,
    OfColumn,
    Single,
    answer_of,
    given_bounds,
    weight_of,
    widened,
)
from unacorda.query.aggregates.measures import (
    Clamp,
    Clamped,
    Measure,
    PresentCount,
    SumOf,
    Times,
    clamping_note,
)
from unacorda.query.aggregates.moment_strategies import (
    CROSSED,
    MAIN,
    PAIRED,
    SQUARED,
    MomentLengths,
    Noisy,
    ends,
    mean_box,
    moment_clamp,
    simulated_error,
)
from unacorda.query.aggregates.ratios import TABLE_ROWS, OfTwo, Pair, RatioSide
from unacorda.query.noise.additive import AdditiveNoise, Share, noise_quantile
from unacorda.query.schema.units import Reach

__all__ = [
    "Correlation",
    "Covariance",
    "Variance",
    "correlation",
    "covariance",
    "stdev",
    "variance",
    "variance_ends",
]

Floats = NDArray[np.float64]

_EVENLY = "the errors by rows are for values spread evenly over the range"


@dataclass(frozen=True, slots=True, kw_only=True)
class Variance(OfColumn, Single):
    """The variance of a number column over rows where it is present, or its root.

    ddof: what is taken from the number of rows before it divides. root: the standard deviation.
    """

    tag: ClassVar[str] = "variance"

    ddof: int
    root: bool

    @property
    def clamp(self) -> Clamp:
        """The public range in integers."""
        return moment_clamp(self.expression, self.lower, self.upper)

    def measures(self, values: Sequence[str]) -> tuple[Measure, ...]:
        """The number of values, their sum and that of their squares, above the lower bound."""
        (value,) = values
        above = Clamped(value, self.clamp, above=True)
        return (PresentCount((value,)), SumOf(above), SumOf(Times(above, above)))

    @property
    def _width(self) -> int:
        return self.clamp.upper - self.clamp.lower

    @property
    def _half(self) -> float:
        return self.clamp.absolute(Fraction(self._width, 2))

    def noise(self, share: Share, reach: Reach) -> AdditiveNoise:
        """The least noise within the share, for the three sums."""
        return SQUARED.noise(share, reach, one=self._width**2)

    def release(self, exact: Exact, noise: AdditiveNoise, bits: RandomBits) -> Answer:
        """Noisy variances with their errors."""
        width = self._width
        moments: list[list[int]] = [[], [], []]
        for rows, total, squares in zip(*exact.sums, strict=True):
            # z = 2 (x - lower) - width is u in units of 1 / width.
            moments[0].append(rows * width**2)
            moments[1].append((2 * total - rows * width) * width)
            moments[2].append(4 * squares - 4 * width * total + rows * width**2)
        noisy = SQUARED.release(moments, noise, one=width**2, bits=bits)
        values, errors = _estimates(noisy, ddof=self.ddof)
        box = mean_box(noisy, 1, z=noise_quantile(0.05 - MAIN, laplace=noise.laplace))
        z = noise_quantile(MAIN, laplace=noise.laplace)
        low, high = variance_ends(noisy, (1, 2), box=box, z=z, ddof=self.ddof)
        low, high = widened(values, z * errors, (low, high), (0.0, _most(self.ddof)))
        if self.root:
            at_least = np.maximum(values, 0.0)
            values, low, high = np.sqrt(at_least), np.sqrt(low), np.sqrt(high)
            errors = np.sqrt(at_least + errors) - values
        scale = self._half if self.root else self._half**2
        most = _most(self.ddof)
        limits = 0.0, scale * (math.sqrt(most) if self.root else most)
        return answer_of(values * scale, errors * scale, (low * scale, high * scale), limits)

    def forecast(self, noise: AdditiveNoise, reach: Reach, assume: Assumption | None) -> Forecast:
        """The error: a table over the number of rows, or a number under assumptions."""
        one = self._width**2
        still, largest = SQUARED.still(noise, one=one), 2 * SQUARED.scale(one)
        unit = self._half if self.root else self._half**2
        error, even = None, _first_order(still, mean=0.0, variance=1 / 3)
        if self.root:
            even /= 2 * math.sqrt(1 / 3)
        if assume is not None:
            error = unit * self._simulated(still, assume, laplace=noise.laplace)
        return Forecast(
            noise=f"{noise} on each of three sums, to which a row adds up to {largest:.6g}",
            sensitivity=SQUARED.of(laplace=noise.laplace).sensitivity(reach, one=one).reason,
            standard_error=error,
            assumed_rows=None if assume is None else assume.rows,
            table=tuple((n, unit * min(even / n, 1.0)) for n in TABLE_ROWS),
            notes=(clamping_note(self.lower, self.upper), *([] if assume else [_EVENLY])),
        )

    def _simulated(self, still: Noisy, assume: Assumption, *, laplace: bool) -> float:
        """The error of values on [-1, 1]; where none are assumed, they are spread evenly."""
        values, low = assume.of(self.column), self.clamp.absolute(self.clamp.lower)
        u = np.linspace(-1.0, 1.0, 1_001)
        if values is not None:
            u = np.clip((values - low) / self._half - 1, -1.0, 1.0)
        rows = assume.rows
        true = u.var() * rows / (rows - self.ddof) if rows > self.ddof else 0.0

        def found(noisy: Noisy) -> Floats:
            values, _ = _estimates(noisy, ddof=self.ddof)
            return np.sqrt(np.maximum(values, 0.0)) if self.root else values

        return simulated_error(
            still,
            rows * np.array([1.0, u.mean(), (u**2).mean()]),
            found,
            true=math.sqrt(true) if self.root else true,
            laplace=laplace,
        )


def variance(
    column: str,
    lower: Number | None = None,
    upper: Number | None = None,
    *,
    ddof: int = 1,
    weight: Number = 1,
) -> Variance:
    """The variance of a number column over rows where it is present, values clamped to a range.

    ddof: 1 for the sample's variance, divided by n - 1, as SQL's VAR_SAMP; 0 for the population's,
    divided by n. Of fewer rows than it needs, the exact variance counts as 0. Left out, the bounds
    are those declared of the column. Weight as in `count`.

    >>> variance("age", 0, 120).ddof
    1
    """
    return _variance(column, lower, upper, ddof=ddof, weight=weight, root=False)


def stdev(
    column: str,
    lower: Number | None = None,
    upper: Number | None = None,
    *,
    ddof: int = 1,
    weight: Number = 1,
) -> Variance:
    """The standard deviation of a number column: the root of `variance`, 0 where that is below.

    The root is taken after the noise. Where the deviation is small beside the noise it comes out
    too large on average; the interval holds all the same. Arguments as in `variance`.

    >>> stdev("age", 0, 120, ddof=0).root
    True
    """
    return _variance(column, lower, upper, ddof=ddof, weight=weight, root=True)


def _variance(
    column: str,
    lower: Number | None,
    upper: Number | None,
    *,
    ddof: int,
    weight: Number,
    root: bool,
) -> Variance:
    _check_ddof(ddof)
    low, high = given_bounds(lower, upper)
    return Variance(
        column=column, lower=low, upper=high, ddof=int(ddof), root=root, weight=weight_of(weight)
    )


def _check_ddof(ddof: object) -> None:
    if isinstance(ddof, bool) or ddof not in (0, 1):
        raise InvalidParameter("ddof", ddof, expected="1 (divide by n - 1) or 0 (divide by n)")


def _most(ddof: int) -> float:
    """The largest variance of values in [-1, 1]: of two rows at both ends."""
    return 1.0 + ddof


def _weights(mean: Floats, variance: Floats) -> Floats:
    """Of the moments 1, u, u^2 in the sum of (u - mean)^2 - variance."""
    return np.stack([mean**2 - variance, -2 * mean, np.ones_like(mean)], axis=-1)


def _first_order(noisy: Noisy, *, mean: float, variance: float) -> float:
    """The standard deviation of the noise in a variance, times the number of rows."""
    weights = _weights(np.array(mean), np.array(variance))
    return noisy.deviation * float(np.linalg.norm(weights @ noisy.inverse))


def _estimates(noisy: Noisy, *, ddof: int) -> tuple[Floats, Floats]:
    """Variances of values on [-1, 1], and the standard deviations of their noise."""
    n, s, q = noisy.moments.T
    mean = np.clip(s / np.maximum(n, 1.0), -1, 1)
    rows = np.maximum(n - ddof, 1.0)
    values = (q - 2 * mean * s + mean**2 * n) / rows
    weights = _weights(mean, np.clip(values, 0, _most(ddof)))
    errors = noisy.deviation * np.linalg.norm(weights @ noisy.inverse, axis=-1) / rows
    return np.asarray(values), np.asarray(errors)


def variance_ends(
    noisy: Noisy, at: tuple[int, int], *, box: tuple[Floats, Floats], z: float, ddof: int
) -> tuple[Floats, Floats]:
    """Ends of the variances of values on [-1, 1] whose mean is in a box.

    at: the places of the sums of u and of u^2 among the moments, that of 1 is the first; z: the
    quantile of the noise.
    """
    n, s, q = noisy.moments[:, 0], noisy.moments[:, at[0]], noisy.moments[:, at[1]]
    low, high = box
    at_ends = [q - 2 * m * s + m**2 * n for m in (low, high)]
    turn = np.divide(s, n, out=np.zeros_like(s), where=n != 0)
    inside = (low < turn) & (turn < high)
    at_turn = np.where(inside, q - s * turn, at_ends[0])
    least, most = np.min([*at_ends, at_turn], axis=0), np.max([*at_ends, at_turn], axis=0)
    squares = np.where((low < 0) & (high > 0), 0, np.minimum(low**2, high**2))
    corners = [(m, p) for m in (low, high) for p in (squares, np.maximum(low**2, high**2))]

    weights = []
    for mean, square in corners:
        weights.append(np.zeros_like(noisy.moments))
        weights[-1][:, 0], weights[-1][:, at[0]] = square, -2 * mean
        weights[-1][:, at[1]] = 1.0
    lengths = MomentLengths.of(weights, noisy)

    def width(v: Floats) -> Floats:
        return z * noisy.deviation * lengths.largest(v)

    rows = np.maximum(n - ddof, 1.0)
    return ends(
        lambda v: most - (n - ddof) * v + width(v),
        lambda v: (n - ddof) * v - least + width(v),
        np.asarray((q - s * turn) / rows),
        low=0.0,
        high=_most(ddof),
    )


Range = tuple[Floats, Floats]

_EVENLY_OF_TWO = "the errors by rows are for values spread evenly over both ranges"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Paired(OfTwo, Single):
    """What follows from products of both columns."""

    @property
    def pair(self) -> Pair:
        """Both columns in integers."""
        return Pair.of(self.sides, self.expressions)

    def notes(self, assume: Assumption | None) -> tuple[str, ...]:
        """What a reader of its forecast should know."""
        return (*self.clamping, *([] if assume else [_EVENLY_OF_TWO]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Covariance(_Paired):
    """The covariance of two number columns, values clamped.

    ddof: what is taken from the number of rows before it divides.
    """

    tag: ClassVar[str] = "covariance"

    ddof: int

    @property
    def _one(self) -> int:
        first, second = self.pair.widths
        return first * second

    def measures(self, values: Sequence[str]) -> tuple[Measure, ...]:
        """Counts and sums over the rows in which both are present."""
        return self.pair.measures(values, squares=False)

    def noise(self, share: Share, reach: Reach) -> AdditiveNoise:
        """The least noise within the share, for the four sums."""
        return PAIRED.noise(share, reach, one=self._one)

    def release(self, exact: Exact, noise: AdditiveNoise, bits: RandomBits) -> Answer:
        """Noisy covariances with their errors."""
        noisy = PAIRED.release(self.pair.moments(exact.sums), noise, one=self._one, bits=bits)
        values, errors = _covariances(noisy, ddof=self.ddof)
        low, high = _covariance_ends(noisy, values, ddof=self.ddof, laplace=noise.laplace)
        limit = 1.0 + self.ddof
        half = errors * noise_quantile(0.05, laplace=noise.laplace)
        low, high = widened(values, half, (low, high), (-limit, limit))
        first, second = self.pair.halves
        most = first * second * limit
        values, errors, low, high = (one * first * second for one in (values, errors, low, high))
        return answer_of(values, errors, (low, high), (-most, most))

    def forecast(self, noise: AdditiveNoise, reach: Reach, assume: Assumption | None) -> Forecast:
        """The error: a table over the number of rows, or a number under assumptions."""
        still = PAIRED.still(noise, one=self._one)
        first, second = self.pair.halves
        error = None
        if assume is not None:
            rows = assume.rows
            u, v = self.pair.assumed(assume)
            kappa = np.mean(u * v) - u.mean() * v.mean()
            error = (
                first
                * second
                * simulated_error(
                    still,
                    rows * np.array([1.0, u.mean(), v.mean(), np.mean(u * v)]),
                    lambda noisy: _covariances(noisy, ddof=self.ddof)[0],
                    true=float(kappa * rows / (rows - self.ddof)) if rows > self.ddof else 0.0,
                    laplace=noise.laplace,
                )
            )
        even = still.deviation * float(np.linalg.norm(still.inverse[-1]))
        return Forecast(
            noise=f"{noise} on each of four sums of products of x and y",
            sensitivity=PAIRED.of(laplace=noise.laplace).sensitivity(reach, one=self._one).reason,
            standard_error=error,
            assumed_rows=None if assume is None else assume.rows,
            table=tuple((n, first * second * min(even / n, 1.0)) for n in TABLE_ROWS),
            notes=self.notes(assume),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Correlation(_Paired):
    """Pearson's correlation of two number columns, values clamped."""

    tag: ClassVar[str] = "correlation"

    @property
    def _one(self) -> int:
        first, second = self.pair.widths
        return (first * second) ** 2

    def measures(self, values: Sequence[str]) -> tuple[Measure, ...]:
        """Counts and sums over the rows in which both are present."""
        return self.pair.measures(values, squares=True)

    def noise(self, share: Share, reach: Reach) -> AdditiveNoise:
        """The least noise within the share, for the six sums."""
        return CROSSED.noise(share, reach, one=self._one)

    def release(self, exact: Exact, noise: AdditiveNoise, bits: RandomBits) -> Answer:
        """Noisy correlations with their errors."""
        noisy = CROSSED.release(self.pair.moments(exact.sums), noise, one=self._one, bits=bits)
        values, errors = _correlations(noisy)
        low, high = _correlation_ends(noisy, values, laplace=noise.laplace)
        half = errors * noise_quantile(0.05, laplace=noise.laplace)
        found = widened(values, half, (low, high), (-1.0, 1.0))
        return answer_of(values, errors, found, (-1.0, 1.0))

    def forecast(self, noise: AdditiveNoise, reach: Reach, assume: Assumption | None) -> Forecast:
        """The error: a table over the number of rows, or a number under assumptions."""
        still = CROSSED.still(noise, one=self._one)
        error = None
        if assume is not None:
            u, v = self.pair.assumed(assume)
            spread = float(u.std() * v.std())
            kappa = float(np.mean(u * v) - u.mean() * v.mean())
            error = simulated_error(
                still,
                assume.rows * np.array([np.mean(f) for f in (u**0, u, v, u * u, v * v, u * v)]),
                lambda noisy: _correlations(noisy)[0],
                true=kappa / spread if spread > 0 else 0.0,
                laplace=noise.laplace,
            )
        # Values spread evenly have variance 1/3.
        even = 3 * still.deviation * float(np.linalg.norm(still.inverse[-1]))
        return Forecast(
            noise=f"{noise} on each of six sums of products and squares of x and y",
            sensitivity=CROSSED.of(laplace=noise.laplace).sensitivity(reach, one=self._one).reason,
            standard_error=error,
            assumed_rows=None if assume is None else assume.rows,
            table=tuple((n, min(even / n, 1.0)) for n in TABLE_ROWS),
            notes=self.notes(assume),
        )


def covariance(
    x: str,
    y: str,
    x_bounds: tuple[Number, Number] | None = None,
    y_bounds: tuple[Number, Number] | None = None,
    *,
    ddof: int = 1,
    weight: Number = 1,
) -> Covariance:
    """The covariance of two number columns over rows where both are present, values clamped.

    x_bounds, y_bounds: (lower, upper) of each, by default as declared. ddof: 1 divides by n - 1, as
    SQL's COVAR_SAMP; 0 by n, as COVAR_POP. Of fewer rows than it needs, the exact covariance counts
    as 0. Weight as in `count`.

    >>> covariance("age", "income", (0, 120), (0, 200_000)).ddof
    1
    """
    _check_ddof(ddof)
    sides = (RatioSide.of("x_bounds", x, x_bounds), RatioSide.of("y_bounds", y, y_bounds))
    return Covariance(sides=sides, ddof=int(ddof), weight=weight_of(weight))


def correlation(
    x: str,
    y: str,
    x_bounds: tuple[Number, Number] | None = None,
    y_bounds: tuple[Number, Number] | None = None,
    *,
    weight: Number = 1,
) -> Correlation:
    """Pearson's correlation of two number columns over rows where both are present, clamped.

    Always in [-1, 1]; 0 where the noise leaves a variance that is not above 0. Where a column does
    not vary, the exact correlation is not defined. Bounds and weight as in `covariance`.

    >>> correlation("age", "income", (0, 120), (0, 200_000)).sides[0].column
    'age'
    """
    sides = (RatioSide.of("x_bounds", x, x_bounds), RatioSide.of("y_bounds", y, y_bounds))
    return Correlation(sides=sides, weight=weight_of(weight))


def _covariances(noisy: Noisy, *, ddof: int) -> tuple[Floats, Floats]:
    """Covariances of values on [-1, 1], and the standard deviations of their noise."""
    n, u, v, uv = noisy.moments.T
    a, b = (np.clip(s / np.maximum(n, 1.0), -1, 1) for s in (u, v))
    rows, most = np.maximum(n - ddof, 1.0), 1.0 + ddof
    values = (uv - a * v - b * u + a * b * n) / rows
    weights = _covariance_weights(a, b, np.clip(values, -most, most))
    errors = noisy.deviation * np.linalg.norm(weights @ noisy.inverse, axis=-1) / rows
    return np.asarray(values), np.asarray(errors)


def _covariance_weights(a: Floats, b: Floats, kappa: Floats) -> Floats:
    """Of the moments 1, u, v, u v in the sum of (u - a) (v - b) - kappa."""
    return np.stack([a * b - kappa, -b, -a, np.ones_like(a)], axis=-1)


def _covariance_ends(
    noisy: Noisy, guess: Floats, *, ddof: int, laplace: bool
) -> tuple[Floats, Floats]:
    """95% intervals of the covariances of values on [-1, 1]."""
    n, u, v, uv = noisy.moments.T
    z_box = noise_quantile((0.05 - MAIN) / 2, laplace=laplace)
    boxes = [mean_box(noisy, at, z=z_box) for at in (1, 2)]
    corners = list(itertools.product(*boxes))
    products = [uv - a * v - b * u + a * b * n for a, b in corners]
    least, most = np.min(products, axis=0), np.max(products, axis=0)
    z = noise_quantile(MAIN, laplace=laplace) * noisy.deviation

    nothing = np.zeros_like(n)
    lengths = MomentLengths.of([_covariance_weights(a, b, nothing) for a, b in corners], noisy)

    def width(kappa: Floats) -> Floats:
        return z * lengths.largest(kappa)

    return ends(
        lambda kappa: most - (n - ddof) * kappa + width(kappa),
        lambda kappa: (n - ddof) * kappa - least + width(kappa),
        guess,
        low=-(1.0 + ddof),
        high=1.0 + ddof,
    )


def _correlations(noisy: Noisy) -> tuple[Floats, Floats]:
    """Correlations, and the standard deviations of their noise, at most 1."""
    n, u, v, uu, vv, uv = noisy.moments.T
    a, b = (np.clip(s / np.maximum(n, 1.0), -1, 1) for s in (u, v))
    first, second = uu - 2 * a * u + a**2 * n, vv - 2 * b * v + b**2 * n
    known = (first > 0) & (second > 0)
    first, second = np.where(known, first, 1.0), np.where(known, second, 1.0)
    product, ratio = np.sqrt(first) * np.sqrt(second), np.sqrt(second / first)
    values = np.where(known, np.clip((uv - a * v - b * u + a * b * n) / product, -1, 1), 0.0)
    fixed, sloped = _correlation_weights((a, a), (b, b), (ratio, ratio), (1 / ratio, 1 / ratio))
    weights = fixed[0] + values[:, None] * sloped[0]
    noise = noisy.deviation * np.linalg.norm(weights @ noisy.inverse, axis=-1)
    errors = np.where(known, np.minimum(noise / product, 1.0), 1.0)
    return np.asarray(values), np.asarray(errors)


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
        low=-1.0,
        high=1.0,
    )
    return np.where(known, low, -1.0), np.where(known, high, 1.0)


def _known(found: Range, known: NDArray[np.bool_]) -> Range:
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
