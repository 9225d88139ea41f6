r"""Covariances and correlations of two columns, over rows in which both are present.

A covariance follows from the sums of `strategies.PAIRED`, a correlation from those of `CROSSED`, of
both columns put on [-1, 1]. Errors are to first order those of sums over rows of

    (u - a) (v - b) - kappa                                                     for a covariance,
    (u - a) (v - b) - (rho / 2) (lambda (u - a)^2 + (v - b)^2 / lambda)         for a correlation

divided by n, and by n times both deviations; a, b are the means and lambda the deviation of v over
that of u. Both sums are 0 at the true numbers, and change in the second order alone where a, b or
lambda are a little off. The intervals are made from them as told in `regions`, with a, b and lambda
in boxes; where the sign of a deviation is not sure, a correlation may be anything.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from unacorda.bits import RandomBits
from unacorda.checks import Number
from unacorda.errors import InvalidParameter
from unacorda.query.aggregates.answers import Answer, Assume, Exact, Forecast, widened
from unacorda.query.aggregates.arguments import weight_of
from unacorda.query.aggregates.pairs import OfTwo, Pair, Side
from unacorda.query.aggregates.regions import MAIN, Lengths, ends, mean_box, noise_quantile
from unacorda.query.aggregates.strategies import CROSSED, PAIRED, Noisy, simulated_error
from unacorda.query.aggregates.variances import variance_ends
from unacorda.query.noise.additive import AdditiveNoise, Share
from unacorda.query.schema.units import Reach, Unit

__all__ = ["Correlation", "Covariance", "correlation", "covariance"]

Floats = NDArray[np.float64]
Range = tuple[Floats, Floats]

_TABLE = (100, 1_000, 10_000, 100_000, 1_000_000)
_EVENLY = "the errors by rows are for values spread evenly over both ranges"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Paired(OfTwo):
    """What follows from products of both columns."""

    @property
    def pair(self) -> Pair:
        """Both columns in integers."""
        return Pair.of(self.sides, self.expressions)

    def notes(self, assume: Assume | None) -> tuple[str, ...]:
        """What a reader of its forecast should know."""
        return (*self.clamping, *([] if assume else [_EVENLY]))


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

    def measures(self, values: Sequence[str], unit: Unit) -> tuple[str, ...]:
        """SQL over the bounded rows, each an exact integer a cell."""
        del unit
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
        return Answer(
            values=(values * first * second).tolist(),
            standard_errors=(errors * first * second).tolist(),
            lower=(low * first * second).tolist(),
            upper=(high * first * second).tolist(),
            limits=(-most, most),
        )

    def forecast(self, noise: AdditiveNoise, reach: Reach, assume: Assume | None) -> Forecast:
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
            table=tuple((n, first * second * min(even / n, 1.0)) for n in _TABLE),
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

    def measures(self, values: Sequence[str], unit: Unit) -> tuple[str, ...]:
        """SQL over the bounded rows, each an exact integer a cell."""
        del unit
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
        low, high = widened(values, half, (low, high), (-1.0, 1.0))
        return Answer(
            values=values.tolist(),
            standard_errors=errors.tolist(),
            lower=low.tolist(),
            upper=high.tolist(),
            limits=(-1.0, 1.0),
        )

    def forecast(self, noise: AdditiveNoise, reach: Reach, assume: Assume | None) -> Forecast:
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
            table=tuple((n, min(even / n, 1.0)) for n in _TABLE),
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
    if isinstance(ddof, bool) or ddof not in (0, 1):
        raise InvalidParameter("ddof", ddof, expected="1 (divide by n - 1) or 0 (divide by n)")
    sides = (Side.of("x_bounds", x, x_bounds), Side.of("y_bounds", y, y_bounds))
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
    sides = (Side.of("x_bounds", x, x_bounds), Side.of("y_bounds", y, y_bounds))
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
    lengths = Lengths.of([_covariance_weights(a, b, nothing) for a, b in corners], noisy)

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
