"""Sums of little sensitivity that moments follow from, and regions of confidence of these.

**Which numbers are noised**: few, and no row moves them far. Values are put on [-1, 1]: u = (x - c)
/ h with c the middle of the bounds and h half their width. What follows from sums of 1, u and u^2
(a variance, say) is not best found from these three sums with noise each, but from three others
that are linear in them. Every row adds to the three others a vector whose norm is 1 at most,
wherever x lies, so that one noise of that sensitivity serves all.

One variable. The polynomials u (u - 1) / 2, 1 - u^2 and u (u + 1) / 2 are 1 at one of -1, 0 and 1
and 0 at the other two. Write a = |u|.

- l2 norm: its square is 1 - (3/2) a^2 (1 - a^2), at most 1 and equal to it at all three points.
- l1 norm: with the second one halved it is a + (1 - a^2) / 2 = 1 - (1 - a)^2 / 2, at most 1.

A sum of q(u) for a polynomial q of degree 2 is then q(-1), q(0) and q(1) times the three sums, and
under noise of standard deviation tau has error tau sqrt(q(-1)^2 + q(0)^2 + q(1)^2); with q(0)
doubled in the l1 norm. No noise of whatever kind that protects sums of all such q could do with
less than max |q|, that of asking for this q alone.

Two variables, for sums of u v beside u, v and 1. The products (1 +- u) (1 +- v) / 4 are not
negative and add up to 1, which is their l1 norm; error tau sqrt(the sum of q^2 over the corners).
In the l2 norm 0.4, 0.4 u, 0.4 v and 0.72 u v have norm sqrt(0.9984) at most, at the corners, and
the product, which matters most, has the least noise.

Two variables with their squares, for correlations. The four squares (3 +- 5 u +- 5 v)^2 with
100 (1 - u^2) and 100 (1 - v^2) are not negative and add up to 236, which is their l1 norm. In the
l2 norm 24 - 12 (u^2 + v^2), 9 u, 9 v, 9 u^2, 9 v^2 and 16 u v: the square of the norm is convex in
u^2 as in v^2, so that it is largest at 0, at an end or at a corner: 576, 306 or 580. The weights
were chosen by computing errors of correlations over a range of means, deviations and correlations.

**Intervals** for numbers that solve an equation between noisy moments. What is wanted, theta,
solves sum of f(row; eta, theta) = 0 over the rows of a cell, f a combination of moments with
weights g(eta, theta), where eta are numbers that are not known either: the means, for a variance.
With noisy moments the left side is the noise alone, of standard deviation tau |g inverse|, at the
true eta and theta. So theta is in

    {theta : |T(eta, theta)| <= z tau |g(eta, theta) inverse| for an eta in a box}

unless that noise is beyond its quantile z (4.5% of all cases) or eta is outside the box (0.5%, the
boxes being made likewise): 95% by the union bound. Where T depends on eta in the second order
alone, as it does here, the box costs next to nothing; what is left is the 4.5%.

All T here are linear in theta, as are all g. Both the largest T over the box plus z tau times the
largest length, and the same of -T, are then convex in theta, so that the set where both are not
negative is an interval, whose ends bisection finds.

The quantile z: a sum of independent Laplace noises with weights of length 1 has no larger one than
a single Laplace noise at these levels; a normal noise has its own. (The tests compute it by the
exact law for weights of all kinds.)
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import itertools
import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np

from unacorda.bits import RandomBits
from unacorda.mechanisms.noise.rounding import floor_log2
from unacorda.privacy.guarantees import PureDP
from unacorda.query.aggregates.base import (
    TABLE_ROWS,
    Answer,
    Assumption,
    Exact,
    Forecast,
    Single,
    halve,
)
from unacorda.query.aggregates.grid import Floats
from unacorda.query.aggregates.measures import Clamp
from unacorda.query.expressions.language import Expression, Kind
from unacorda.query.noise.additive import (
    AdditiveNoise,
    Sensitivity,
    Share,
    additive_noise,
    of_vectors,
)
from unacorda.query.schema.units import Reach

Vectors = tuple[tuple[int, ...], ...]

_BITS = 31  # of the width of a range in its unit, so that squares fit in 63
_DRAWS = 40_000
_PIECES = 8  # of [0, 1] and of [-1, 0], in the polygon about a curve


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """Linear combinations of moments, as integers, for noise in one norm.

    matrix: a row for each number that is noised, a column for each moment. removed, replaced:
    integer vectors, `fine` times as large as what rows add, with which `of_vectors` finds how far a
    unit that comes or goes, or is replaced, moves the numbers in the norm of the strategy.
    """

    matrix: Vectors
    removed: Vectors
    replaced: Vectors
    fine: int = 1

    def sensitivity(self, reach: Reach, *, one: int) -> Sensitivity:
        """How far one unit moves the numbers, where the moment of 1 is counted in units of `one`.

        Of the two norms, only that of the strategy is meant.
        """
        found = _moved(reach, self.replaced if reach.replaced else self.removed)
        part = Fraction(one, self.fine)
        return Sensitivity(
            l1=found.l1 * part, l2_squared=found.l2_squared * part**2, reason=found.reason
        )

    @property
    def inverse(self) -> Floats:
        """From the numbers back to the moments."""
        return np.asarray(np.linalg.inv(np.array(self.matrix, dtype=np.float64)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Noisy:
    """Noisy moments of values on [-1, 1], one line per cell, and how their noise is tied together.

    A combination with weights g (one for each moment) has noise of standard deviation
    `deviation` times the length of g @ inverse.
    """

    moments: Floats
    inverse: Floats
    deviation: float

    def errors(self, weights: Floats) -> Floats:
        """Standard deviations of the noise of combinations, one line of weights a cell."""
        return np.asarray(self.deviation * np.linalg.norm(weights @ self.inverse, axis=-1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategies:
    """The strategies of the two norms for one set of moments."""

    l1: Strategy
    l2: Strategy

    def of(self, *, laplace: bool) -> Strategy:
        """The one whose norm the noise is for."""
        return self.l1 if laplace else self.l2


@dataclass(frozen=True, slots=True, kw_only=True)
class OfMoments(Single):
    """What solves an equation between moments: its noise, its answers and what they err by.

    To add one is to say its moments with their strategies, the solution on a scale of its own, of
    which `scale` is the unit, and its interval.
    """

    even: ClassVar[str]
    """For which values a forecast lists errors where none are assumed, in words."""

    @property
    @abstractmethod
    def strategies(self) -> Strategies:
        """Which combinations of the moments are noised."""

    @property
    @abstractmethod
    def one(self) -> int:
        """What one row adds to the moment of 1, in the unit of the exact moments."""

    @property
    def unit(self) -> float:
        """The same in the unit of the noise, in which numbers are near 1."""
        return float(self.one * Fraction(2) ** -self.one.bit_length())

    @property
    @abstractmethod
    def numbers(self) -> str:
        """What the noise is added to, in words."""

    @property
    @abstractmethod
    def clamping(self) -> tuple[str, ...]:
        """The sentences that name clamping."""

    @property
    @abstractmethod
    def scale(self) -> float:
        """What one unit of the solution is."""

    @abstractmethod
    def moments(self, sums: Sequence[Sequence[int]]) -> list[list[int]]:
        """Exact moments from the measures, a list of cells for each."""

    @abstractmethod
    def estimates(self, noisy: Noisy) -> tuple[Floats, Floats]:
        """Solutions, and the standard deviations of their noise to first order."""

    @abstractmethod
    def answer(self, noisy: Noisy, *, laplace: bool) -> Answer:
        """The estimates with their intervals, in the unit of the answer."""

    @abstractmethod
    def expected(self, assume: Assumption) -> tuple[Floats, float]:
        """The moments of one row under assumptions, and the exact solution."""

    @abstractmethod
    def first_order(self, still: Noisy, rows: int, assume: Assumption | None) -> float:
        """The error of so many rows; still: how their noise is tied together."""

    def noise(self, share: Share, reach: Reach) -> AdditiveNoise:
        """The least noise within the share, for all numbers together, in units near 1 row."""
        strategy, one = self.strategies.of(laplace=isinstance(share, PureDP)), self.one
        sensitivity = strategy.sensitivity(reach, one=one)
        return additive_noise(share, sensitivity, unit_log2=-one.bit_length(), counts=False)

    def _solved(self, numbers: Floats, noise: AdditiveNoise) -> Noisy:
        inverse = self.strategies.of(laplace=noise.laplace).inverse / self.unit
        deviation = noise.standard_deviation
        return Noisy(moments=numbers @ inverse.T, inverse=inverse, deviation=deviation)

    def release(self, exact: Exact, noise: AdditiveNoise, bits: RandomBits) -> Answer:
        matrix = self.strategies.of(laplace=noise.laplace).matrix
        numbers = noise.doubles(_combined(matrix, self.moments(exact.sums)), bits=bits)
        noisy = self._solved(numbers.reshape(-1, len(matrix)), noise)
        return self.answer(noisy, laplace=noise.laplace)

    def forecast(self, noise: AdditiveNoise, reach: Reach, assume: Assumption | None) -> Forecast:
        """The error: a table over the number of rows, or a number under assumptions."""
        strategy, laplace = self.strategies.of(laplace=noise.laplace), noise.laplace
        still = self._solved(np.zeros((1, len(strategy.matrix))), noise)
        error = None
        if assume is not None:
            moments, true = self.expected(assume)
            drawn = _drawn(still, assume.rows * moments, laplace=laplace)
            off = self.estimates(drawn)[0] - true
            error = self.scale * float(np.sqrt(np.mean(off**2)))
        return Forecast(
            noise=f"{noise} on each of {self.numbers}",
            sensitivity=strategy.sensitivity(reach, one=self.one).reason,
            standard_error=error,
            assumed_rows=None if assume is None else assume.rows,
            table=tuple((n, self.scale * self.first_order(still, n, assume)) for n in TABLE_ROWS),
            notes=(*self.clamping, *([] if assume else [self.even])),
        )


def _drawn(still: Noisy, moments: Floats, *, laplace: bool) -> Noisy:
    """Moments under fixed draws of the noise."""
    source = np.random.default_rng(0)
    scale = still.deviation / (math.sqrt(2) if laplace else 1)
    draw = source.laplace if laplace else source.normal
    noise = draw(0.0, scale, (_DRAWS, len(still.inverse))) @ still.inverse.T
    return replace(still, moments=moments + noise)


def _combined(matrix: Vectors, moments: Sequence[Sequence[int]]) -> list[int]:
    """All rows of a matrix times the moments of each cell, exactly; cell by cell."""
    rows = np.array(matrix, dtype=object)
    cells = np.array([list(map(int, column)) for column in moments], dtype=object)
    cells = cells.reshape(rows.shape[1], -1)  # also where there is no cell
    largest = np.abs(cells).max(initial=0) * np.abs(rows).sum(axis=1).max()
    if largest < 1 << 62:
        rows, cells = rows.astype(np.int64), cells.astype(np.int64)
    found: list[int] = (rows @ cells).T.ravel().tolist()
    return found


@functools.lru_cache(maxsize=256)
def _moved(reach: Reach, corners: Vectors) -> Sensitivity:
    return of_vectors(
        reach,
        corners,
        each=f"each adds to {len(corners[0])} sums a vector that is no longer than that of values "
        "at a bound",
    )


def moment_clamp(expression: Expression, lower: Fraction | None, upper: Fraction | None) -> Clamp:
    """The public range in integers whose squares fit in 63 bits; a function of the bounds alone.

    Whole numbers keep the unit 1 where they can; other ranges are 2^30 units wide at least, unless
    the bounds are so near each other that doubles are no finer.
    """
    assert lower is not None
    assert upper is not None
    return _clamp(lower, upper, whole=expression.kind is Kind.INTEGER)


@functools.lru_cache(maxsize=256)
def _clamp(lower: Fraction, upper: Fraction, *, whole: bool) -> Clamp:
    largest = max(abs(lower), abs(upper))
    whole = whole and lower.denominator == upper.denominator == 1
    if whole and largest <= 2**52 and upper - lower < 2**_BITS:
        return Clamp(lower=int(lower), upper=int(upper), unit_log2=0)
    unit_log2 = max(floor_log2(upper - lower) + 1 - _BITS, floor_log2(largest) - 52)
    return Clamp.rounded(lower, upper, unit_log2=unit_log2)


def _polygon(matrix: Vectors) -> Iterator[tuple[int, ...]]:
    """Corners of a polygon about {matrix @ (1, u, u^2)}, 2 (2 _PIECES)^2 times as large.

    A parabola between two points lies in the triangle of these and of the point where its tangents
    there meet, which is matrix @ (1, (s + t) / 2, s t).
    """
    for s in range(-_PIECES, _PIECES + 1):
        for t in {s, min(s + 1, _PIECES)}:
            moments = (2 * _PIECES**2, (s + t) * _PIECES, 2 * s * t)
            yield tuple(
                sum(weight * moment for weight, moment in zip(row, moments, strict=True))
                for row in matrix
            )


_HALVED = ((0, -1, 1), (1, 0, -1), (0, 1, 1))
_THREE = ((0, -1, 1), (2, 0, -2), (0, 1, 1))
SQUARED = Strategies(
    # In the l1 norm two rows differ by no more than both norms together, and do at two ends.
    l1=Strategy(matrix=_HALVED, removed=((2, 0, 0),), replaced=((2, 0, 0), (0, 0, 2))),
    l2=Strategy(
        matrix=_THREE,
        removed=((4 * _PIECES**2, 0, 0),),
        replaced=tuple(dict.fromkeys(_polygon(_THREE))),
        fine=2 * _PIECES**2,
    ),
)
"""For sums of 1, u and u^2; the numbers are twice those of the text above."""


def _corners(matrix: Vectors) -> Vectors:
    """What rows at the four corners add; what others add is between them."""
    return tuple(
        tuple(a + b * u + c * v + d * u * v for a, b, c, d in matrix)
        for u in (-1, 1)
        for v in (-1, 1)
    )


_PRODUCTS = ((1, 1, 1, 1), (1, -1, 1, -1), (1, 1, -1, -1), (1, -1, -1, 1))
_WEIGHED = ((10, 0, 0, 0), (0, 10, 0, 0), (0, 0, 10, 0), (0, 0, 0, 18))
PAIRED = Strategies(
    l1=Strategy(matrix=_PRODUCTS, removed=_corners(_PRODUCTS), replaced=_corners(_PRODUCTS)),
    l2=Strategy(matrix=_WEIGHED, removed=_corners(_WEIGHED), replaced=_corners(_WEIGHED)),
)
"""For sums of 1, u, v and u v; the numbers are 4 and 25 times those of the text above."""


def _patches(matrix: Vectors, *, pieces: int) -> Iterator[tuple[int, ...]]:
    """As `_polygon`, about the surface over (u, v) in [-1, 1]^2, 4 pieces^2 times as large.

    Over a rectangle of a grid the surface lies in the hull of its control points, for which u, u^2
    in [s, t] become (s + t) / 2 and s t at some s, t among its ends, and so do v, v^2.
    """
    grid = range(-pieces, pieces + 1)
    sides = [(s, t) for s in grid for t in {s, min(s + 1, pieces)}]
    for (a, b), (c, d) in itertools.product(sides, sides):
        first, second = 2 * pieces * (a + b), 2 * pieces * (c + d)
        moments = (4 * pieces**2, first, second, 4 * a * b, 4 * c * d, (a + b) * (c + d))
        yield tuple(
            sum(weight * moment for weight, moment in zip(row, moments, strict=True))
            for row in matrix
        )


_SQUARES = (
    *((9, 30 * s, 30 * t, 25, 25, 50 * s * t) for s in (1, -1) for t in (1, -1)),
    (100, 0, 0, -100, 0, 0),
    (100, 0, 0, 0, -100, 0),
)
_SPREAD = (
    (24, 0, 0, -12, -12, 0),
    (0, 9, 0, 0, 0, 0),
    (0, 0, 9, 0, 0, 0),
    (0, 0, 0, 9, 0, 0),
    (0, 0, 0, 0, 9, 0),
    (0, 0, 0, 0, 0, 16),
)
CROSSED = Strategies(
    l1=Strategy(
        matrix=_SQUARES,
        removed=((236 * 16, 0, 0, 0, 0, 0),),
        replaced=tuple(dict.fromkeys(_patches(_SQUARES, pieces=2))),
        fine=16,
    ),
    l2=Strategy(
        matrix=_SPREAD,
        removed=((0, 36, 36, 36, 36, 64),),
        replaced=tuple(dict.fromkeys(_patches(_SPREAD, pieces=1))),
        fine=4,
    ),
)
"""For sums of 1, u, v, u^2, v^2 and u v."""


MAIN = 0.045
"""With which probability the noise of the equation itself may be beyond its quantile."""

_HALVINGS = 60


def mean_box(noisy: Noisy, at: int, *, z: float) -> tuple[Floats, Floats]:
    """Where in [-1, 1] a mean may be: Fieller's set for the moment `at` over that of 1.

    All m with (S - m N)^2 <= z^2 variance(S - m N); all of [-1, 1] where that is no interval.
    """
    n, s = noisy.moments[:, 0], noisy.moments[:, at]
    # In a unit of its own for each cell, so that no fourth power leaves the range of doubles.
    unit = np.maximum(np.maximum(np.abs(n), np.abs(s)), noisy.deviation)
    n, s, noise = n / unit, s / unit, (z * noisy.deviation / unit) ** 2
    gram = noisy.inverse @ noisy.inverse.T
    square = n**2 - gram[0, 0] * noise
    half = n * s - gram[0, at] * noise
    inside = half**2 - square * (s**2 - gram[at, at] * noise)
    known = (square > 0) & (inside >= 0)
    root, divisor = np.sqrt(np.where(known, inside, 0.0)), np.where(known, square, 1.0)
    low = np.where(known, (half - root) / divisor, -1.0)
    high = np.where(known, (half + root) / divisor, 1.0)
    # Rounding: differences of numbers of the size of n^2.
    slack = 1e-7 * np.where(known, n**2 / divisor, 0.0)
    low, high = np.clip(low - slack, -1, 1), np.clip(high + slack, -1, 1)
    return low, high


def linear_ends(
    noisy: Noisy,
    weights: Sequence[Floats],
    totals: Sequence[Floats],
    guess: Floats,
    *,
    rows: Floats,
    z: float,
    limits: tuple[float, float],
) -> tuple[Floats, Floats]:
    """The ends of all theta for which |totals - rows theta| can be noise of quantile z.

    weights: of the moments in the total at every corner of the box, (cells, moments) each; theta is
    taken from that of the first. Every entry of g inverse is largest at a corner.
    """
    # Not by BLAS, whose threads take longer to meet than so small a matrix to multiply.
    images = [np.einsum("nk,kj->nj", g, noisy.inverse) for g in weights]
    low, high = functools.reduce(np.minimum, images), functools.reduce(np.maximum, images)
    least, most = np.min(totals, axis=0), np.max(totals, axis=0)

    def width(theta: Floats) -> Floats:
        fallen = theta[:, None] * noisy.inverse[0]
        largest = np.maximum(high - fallen, fallen - low)
        return np.asarray(z * noisy.deviation * np.sqrt(np.einsum("nj,nj->n", largest, largest)))

    return ends(
        lambda theta: most - rows * theta + width(theta),
        lambda theta: rows * theta - least + width(theta),
        guess,
        limits=limits,
    )


def ends(
    above: Callable[[Floats], Floats],
    below: Callable[[Floats], Floats],
    guess: Floats,
    *,
    limits: tuple[float, float],
) -> tuple[Floats, Floats]:
    """The ends of {theta within the limits : above(theta) >= 0 and below(theta) >= 0}.

    above falls below 0 on an upper part of them, if at all, and below on a lower part. Where
    nothing is left, the guess, cut to the limits, stands alone.
    """
    bottom, top = (np.full_like(guess, limit) for limit in limits)
    guess = np.clip(guess, *limits)
    upper = _last(above, bottom, top)
    lower = -_last(lambda t: below(-t), -top, -bottom)
    empty = ~(lower <= upper)
    return np.where(empty, guess, lower), np.where(empty, guess, upper)


def _last(holds: Callable[[Floats], Floats], first: Floats, last: Floats) -> Floats:
    """The last point where a function is not negative that is so up to a point; -inf for none."""
    everywhere, nowhere = holds(last) >= 0, holds(first) < 0
    _, outside = halve(lambda at: holds(at) >= 0, first, last, rounds=_HALVINGS)
    return np.where(everywhere, last, np.where(nowhere, -np.inf, outside))
