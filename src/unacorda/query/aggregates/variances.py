r"""Variances and standard deviations: from three noisy sums of which no row moves all far.

The sums are those of `strategies.SQUARED`, of the values put on [-1, 1]. From them follow noisy
N = number of rows, S = sum of u and Q = sum of u^2, and with m = S / N the variance
(Q - 2 m S + m^2 N) / (N - ddof), in squares of half the width of the range.

Its error is that of the sum of (u - m)^2 - v, v the variance: at -1, 0 and 1 this polynomial is
(1 + m)^2 - v, m^2 - v and (1 - m)^2 - v. For values in the middle of their range, m = 0, normal
noise gives tau sqrt(2 (1 - v)^2 + v^2) / N, where noisy counts, sums and sums of squares with a
third of the budget each give tau sqrt(3 (1 + v^2)) / N (under Laplace noise 2 (1 - v)^2 + 4 v^2 in
place of 9 (1 + v^2)). These are sums about the middle of the range; about 0, as they are commonly
taken, they err by several times as much where 0 is an end.

The interval is of the kind told in `regions`, with the mean in its box.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
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
from unacorda.query.aggregates.aggregate import Single
from unacorda.query.aggregates.answers import Answer, Assume, Exact, Forecast, widened
from unacorda.query.aggregates.arguments import bounds_of, expression_of, given_bounds, weight_of
from unacorda.query.aggregates.regions import MAIN, Lengths, ends, mean_box, noise_quantile
from unacorda.query.aggregates.strategies import SQUARED, Noisy, moment_clamp, simulated_error
from unacorda.query.aggregates.sums import Clamp, clamping_note
from unacorda.query.noise.additive import AdditiveNoise, Share
from unacorda.query.schema.table import Scope
from unacorda.query.schema.units import Reach, Unit

__all__ = ["Variance", "stdev", "variance", "variance_ends"]

Floats = NDArray[np.float64]

_TABLE = (100, 1_000, 10_000, 100_000, 1_000_000)
_EVENLY = "the errors by rows are for values spread evenly over the range"


@dataclass(frozen=True, slots=True, kw_only=True)
class Variance(Single):
    """The variance of a number column over rows where it is present, or its root.

    ddof: what is taken from the number of rows before it divides. root: the standard deviation.
    """

    tag: ClassVar[str] = "variance"

    column: str
    lower: Fraction | None
    upper: Fraction | None
    ddof: int
    root: bool

    def bound_to(self, scope: Scope) -> Variance:
        """The same, its column looked up and its bounds known."""
        expression = expression_of(self.column, scope)
        lower, upper = bounds_of(self.column, expression, self.lower, self.upper)
        return dataclasses.replace(self, expressions=(expression,), lower=lower, upper=upper)

    @property
    def assumes(self) -> tuple[str, ...]:
        """Its column."""
        return (self.column,)

    @property
    def clamp(self) -> Clamp:
        """The public range in integers."""
        return moment_clamp(self.expression, self.lower, self.upper)

    def measures(self, values: Sequence[str], unit: Unit) -> tuple[str, ...]:
        """SQL over the bounded rows, each an exact integer a cell."""
        del unit
        (value,) = values
        above = f"({self.clamp.sql(value)} - ({self.clamp.lower}))"
        return (f"count({value})", f"sum({above})", f"sum({above} * {above})")

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
        return Answer(
            values=(values * scale).tolist(),
            standard_errors=(errors * scale).tolist(),
            lower=(low * scale).tolist(),
            upper=(high * scale).tolist(),
            limits=(0.0, scale * (math.sqrt(most) if self.root else most)),
        )

    def forecast(self, noise: AdditiveNoise, reach: Reach, assume: Assume | None) -> Forecast:
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
            table=tuple((n, unit * min(even / n, 1.0)) for n in _TABLE),
            notes=(clamping_note(self.lower, self.upper), *([] if assume else [_EVENLY])),
        )

    def _simulated(self, still: Noisy, assume: Assume, *, laplace: bool) -> float:
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
    if isinstance(ddof, bool) or ddof not in (0, 1):
        raise InvalidParameter("ddof", ddof, expected="1 (divide by n - 1) or 0 (divide by n)")
    low, high = given_bounds(lower, upper)
    return Variance(
        column=column, lower=low, upper=high, ddof=int(ddof), root=root, weight=weight_of(weight)
    )


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
    lengths = Lengths.of(weights, noisy)

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
