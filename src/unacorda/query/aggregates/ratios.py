r"""Ratios of two sums: two noisy numbers, chosen from the bounds alone.

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
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from unacorda.bits import RandomBits
from unacorda.checks import Number
from unacorda.query.aggregates.answers import Answer, Assume, Exact, Forecast, widened
from unacorda.query.aggregates.arguments import weight_of
from unacorda.query.aggregates.pairs import OfTwo, Side, assumed_pairs, present, refuse_negative
from unacorda.query.aggregates.regions import noise_quantile
from unacorda.query.aggregates.strategies import (
    Noisy,
    Strategies,
    Strategy,
    simulated_error,
)
from unacorda.query.aggregates.sums import Clamp, clamp_of
from unacorda.query.noise.additive import AdditiveNoise, Share
from unacorda.query.schema.table import Scope
from unacorda.query.schema.units import Reach, Unit

__all__ = ["Ratio", "ratio"]

Floats = NDArray[np.float64]

_TABLE = (100, 1_000, 10_000, 100_000, 1_000_000)
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
class Ratio(OfTwo):
    """The sum of one number column over that of another, both clamped."""

    tag: ClassVar[str] = "ratio"

    def bound_to(self, scope: Scope) -> Ratio:
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

    def measures(self, values: Sequence[str], unit: Unit) -> tuple[str, ...]:
        """SQL over the bounded rows, each an exact integer a cell."""
        del unit
        return tuple(
            f"sum({present(values, clamp.sql(value))})"
            for clamp, value in zip(self.clamps, values, strict=True)
        )

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

    def forecast(self, noise: AdditiveNoise, reach: Reach, assume: Assume | None) -> Forecast:
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
            table=tuple((n, self._scale * _first_order(even, rows=n)) for n in _TABLE),
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
            Side.of("numerator_bounds", numerator, numerator_bounds),
            Side.of("denominator_bounds", denominator, denominator_bounds),
        ),
        weight=weight_of(weight),
    )


@functools.lru_cache(maxsize=64)
def _least(ends: tuple[tuple[int, int], ...], *, unit: int, power: int) -> Strategy:
    """The combinations under which ratios err least.

    ends: the corners of what rows can be, in units of 1 / unit.
    """
    sign = -1.0 if all(x <= 0 for x, _ in ends) else 1.0

    def loudness(matrix: tuple[tuple[int, int], ...]) -> float:
        moved = np.array([[p * x + q * y for p, q in matrix] for x, y in ends], dtype=object) / unit
        length = float(np.max(np.sum(np.abs(moved.astype(float)) ** power, axis=1))) ** (1 / power)
        inverse = np.linalg.inv(np.array(matrix, dtype=float))
        weights = [np.array([1.0, -sign * likely]) for likely in _LIKELY]
        return math.fsum(math.log(length * float(np.linalg.norm(g @ inverse))) for g in weights)

    matrix = min(_COMBINATIONS, key=loudness)
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
