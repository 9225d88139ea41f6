r"""The exponential mechanism over an interval, for scores that are constant on pieces of it.

The answer is a point of a public grid, lower to upper, with probability proportional to
exp(epsilon score / (2 sensitivity)) at that point. A piece that holds N points of the grid is
chosen with weight N exp(...), counted exactly, then one of its points, evenly. So the pieces may
follow the data (their edges may be data points): what is released is a draw from a public set of
points, whose probabilities are those of the exponential mechanism, whatever the edges are.

Where the edges are the sorted values of a column and the score of a piece is minus the
distance of its rank from q n, this is the quantile mechanism of Smith (2011).
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor
from typing import Final, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import checks, elements
from unacorda.bits import RandomBits, SecureBits
from unacorda.checks import Number
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.protocol import RangeCalibrated
from unacorda.mechanisms.refine import LazyUniform
from unacorda.mechanisms.rounded import floor_log2
from unacorda.mechanisms.selection.exponential import choose
from unacorda.mechanisms.selection.losses import odds_loss
from unacorda.mechanisms.selection.scores import Real, check_selection, factor_of, one_row
from unacorda.privacy import events

__all__ = ["PiecewiseConstantExponential", "pieces_of_steps"]

_SECURE = SecureBits()
_POINTS_LOG2: Final = 40  # the default grid divides the interval about so many times
_EXACT_LOG2: Final = 52  # float64 holds all multiples of the grid up to that many steps
_GRID_REACH: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class PiecewiseConstantExponential(RangeCalibrated):
    r"""Choose a point x of [lower, upper], P(x) proportional to exp(epsilon score(x) / (2 Delta)).

    lower, upper: public, lower < upper; epsilon, sensitivity (Delta, at every single point),
    monotone: as for `Exponential`; grid_log2: the points are the multiples of 2^grid_log2, by
    default about 2^40 of them, fewer where float64 does not hold so many.
    Source: McSherry and Talwar 2007, Theorem 6; Smith 2011, Algorithm 2 (pieces).

    >>> from unacorda.bits import SeededBits
    >>> median = PiecewiseConstantExponential(
    ...     epsilon=1, sensitivity=1, lower=0, upper=10, grid_log2=-3
    ... )
    >>> median.event
    Exponential(epsilon=1)
    >>> median.release([2, 4, 5], scores=[-1500, -500, 0, -1500], bits=SeededBits(1))
    4.0
    """

    epsilon: Real
    sensitivity: Real
    lower: Real
    upper: Real
    monotone: bool = False
    grid_log2: int = cast("int", None)  # an int once it is made; None asks for the default

    def __post_init__(self) -> None:
        check_selection(epsilon=self.epsilon, sensitivity=self.sensitivity, monotone=self.monotone)
        lower, upper = self._interval()
        if lower >= upper:
            raise InvalidParameter("upper", self.upper, expected=f"a number above {self.lower}")
        coarsest = floor_log2(upper - lower)
        finest = floor_log2(max(abs(lower), abs(upper))) - _EXACT_LOG2
        grid = self.grid_log2
        if grid is None:
            grid = max(coarsest - _POINTS_LOG2, finest)
        elif not _is_whole(grid):
            raise InvalidParameter("grid_log2", grid, expected="a whole number")
        # A step of at most the length of the interval, so that it holds a point.
        if not max(finest, -_GRID_REACH) <= grid <= min(coarsest, _GRID_REACH):
            raise InvalidParameter(
                "grid_log2",
                grid,
                expected=f"from {max(finest, -_GRID_REACH)} to {min(coarsest, _GRID_REACH)}",
            )
        object.__setattr__(self, "grid_log2", int(grid))

    @property
    def event(self) -> events.Exponential:
        """What one release costs."""
        return events.Exponential(epsilon=self.epsilon)

    def release(
        self,
        edges: ArrayLike,
        *,
        scores: ArrayLike | Sequence[Fraction],
        bits: RandomBits | None = None,
    ) -> float:
        """The chosen point.

        edges: where the score changes, in rising order, one dimension, floats or integers of at
        most 64 bits, which count as float64; scores: one more than edges, scores[k] from
        edges[k - 1] on up to below edges[k]. Edges beyond the interval end there, NaN counts as 0,
        and an edge below an earlier one as that one. Raises InvalidParameter for another shape or
        dtype.
        """
        row = one_row(scores)
        starts, counts = self._pieces(edges, row.size)
        factor = factor_of(self.epsilon, self.sensitivity, monotone=self.monotone)
        source = bits or _SECURE
        piece = int(choose(row[None, :], counts, factor=factor, bits=source)[0])
        step = int(starts[piece]) + _evenly(int(counts[piece]), source)
        return float(np.ldexp(float(step), self.grid_log2))

    def error_bound(self, confidence: Number, *, width: Real = 0) -> float:
        """How far below the best score that of the chosen point lies, at most.

        width: the length of a stretch of the interval on which the score is surely the best, 0
        for a single point of the grid. Whatever the scores are otherwise, with probability
        `confidence` or more, in the unit of the scores, rounded up.
        Source: docs/proofs/noisy_max.md, section 4.

        >>> median = PiecewiseConstantExponential(epsilon=1, sensitivity=1, lower=0, upper=10)
        >>> [round(median.error_bound(0.95, width=width), 2) for width in (0, 0.01)]
        [61.79, 19.7]
        """
        lower, upper = self._interval()
        stretch = checks.exact("width", width)
        if not 0 <= stretch <= upper - lower:
            raise InvalidParameter("width", width, expected="from 0 to the length of the interval")
        step = Fraction(2) ** self.grid_log2
        points = floor(upper / step) - ceil(lower / step) + 1
        # A stretch without one of its ends may hold no more than this.
        best = max(floor(stretch / step), 1)
        factor = factor_of(self.epsilon, self.sensitivity, monotone=self.monotone)
        return odds_loss(1 / factor, confidence=confidence, odds=Fraction(points, best) - 1)

    def _interval(self) -> tuple[Fraction, Fraction]:
        return checks.exact("lower", self.lower), checks.exact("upper", self.upper)

    def _pieces(self, edges: ArrayLike, pieces: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        lower, upper = self._interval()
        step = Fraction(2) ** self.grid_log2
        return pieces_of_steps(
            edges,
            pieces,
            first=ceil(lower / step),
            last=floor(upper / step),
            grid_log2=self.grid_log2,
        )


def pieces_of_steps(
    edges: ArrayLike, pieces: int, *, first: int, last: int, grid_log2: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first point of each piece in steps of 2^grid_log2, and how many points it holds.

    edges: as for `PiecewiseConstantExponential.release`, one fewer than there are pieces; points
    are the steps from first to last.
    """
    inner = np.nan_to_num(_edges(edges, pieces=pieces), nan=0.0, posinf=np.inf, neginf=-np.inf)
    with np.errstate(over="ignore", under="ignore"):
        scaled = np.ldexp(inner, -grid_log2)
    # Tiny positive edges must not vanish before the ceiling.
    scaled[(scaled == 0) & (inner > 0)] = 0.5
    steps = np.clip(np.ceil(scaled), first, last + 1).astype(np.int64)
    np.maximum.accumulate(steps, out=steps)
    ends = np.concatenate([[first], steps, [last + 1]]).astype(np.int64)
    return ends[:-1], np.diff(ends)


def _evenly(count: int, bits: RandomBits) -> int:
    """An integer, exactly uniform on {0, ..., count - 1}, floor(U count).

    One word nearly always: drawing again, as `below` does, would take a time that depends on the
    number of points in a piece, and so on where the private edges are.
    """
    uniform = LazyUniform(int(bits.words(1)[0]), length=64, bits=bits)
    while True:
        first = uniform.value * count >> uniform.length
        if first == ((uniform.value + 1) * count - 1) >> uniform.length:
            return first
        uniform.extend()


def _is_whole(value: object) -> bool:
    """Whether a value is a whole number, whatever the caller's types promised."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _edges(edges: ArrayLike, *, pieces: int) -> NDArray[np.float64]:
    array = elements.floats("edges", edges, dimensions=1)
    if array.shape != (pieces - 1,):
        raise InvalidParameter(
            "edges", array.shape, expected=f"{pieces - 1} of them, one fewer than scores"
        )
    return array
