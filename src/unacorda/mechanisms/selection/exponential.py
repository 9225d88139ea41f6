r"""The exponential mechanism over candidates and over an interval.

Candidate i is chosen with probability proportional to w_i exp(epsilon s_i / (2 sensitivity)),
by inversion of the cumulative weights. The weights are computed in float64 relative to the best
candidate, with a proved bound on the error of every partial sum. If a uniform number is within that
bound of a partial sum, the row is decided in exact arithmetic with as many more bits as necessary.
Rows of thousands of candidates use Gumbel noise instead, which has the same distribution (see
`contest`), since the error of sums of many weights is too large. Both ways the distribution is
exact, also for candidates of weight e^-1000.

Over an interval scores are piecewise constant. The answer is a point of a public grid from lower to
upper, with probability proportional to exp(epsilon score / (2 sensitivity)) at that point. A piece
with N points of the grid is chosen with weight N exp(...), counted exactly, and then one of its
points uniformly. So the pieces may depend on the data (their edges may be data points): the release
is a draw from a public set of points with the probabilities of the exponential mechanism, for all
edges.

If the edges are the sorted values of a column and the score of a piece is minus the distance of its
rank from q n, this is the quantile mechanism of Smith (2011).
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from math import ceil, floor
from typing import Any, Final, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import checks, elements
from unacorda.bits import RandomBits, source_of
from unacorda.checks import Number
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.noise.refinement import LazyUniform, exp_bounds
from unacorda.mechanisms.noise.rounding import floor_log2
from unacorda.mechanisms.parameters import whole
from unacorda.mechanisms.protocol import RangeCalibrated
from unacorda.mechanisms.selection.contest import noisy_argmax
from unacorda.mechanisms.selection.scores import (
    Floats,
    Real,
    check_selection,
    exponents,
    factor_of,
    odds_loss,
    one_row,
    score_rows,
)
from unacorda.privacy import events

_CHUNK: Final = 1 << 16  # matrix entries computed at once
_ROUNDING: Final = 2.0**-50  # see docs/proofs/noise.md, section 7
_LONGEST: Final = 1 << 12  # candidates of a row from which the contest is quicker
_POINTS_LOG2: Final = 40  # the default grid divides the interval about so many times
_EXACT_LOG2: Final = 52  # float64 holds all multiples of the grid up to that many steps
_GRID_REACH: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Exponential(RangeCalibrated):
    r"""Choose candidate i with probability proportional to exp(epsilon score_i / (2 sensitivity)).

    epsilon and sensitivity may be Fractions; a float means the decimal it prints as.

    Source: McSherry and Talwar 2007, Theorem 6; bounded range: Durfee and Rogers 2019,
    arXiv:1905.04273, Section 4.2; monotone: docs/proofs/noisy_max.md, section 2.

    Parameters
    ----------
    epsilon
        Above 0.
    sensitivity
        The sensitivity of any one score, above 0.
    monotone
        Whether all scores change in the same direction between two given neighbors, as counts do if
        a person is added or removed (but not if one is replaced). Then the 2 is dropped.

    Examples
    --------
    >>> Exponential(epsilon=1.0, sensitivity=1).event
    Exponential(epsilon=1.0)
    """

    epsilon: Real
    sensitivity: Real
    monotone: bool = False

    def __post_init__(self) -> None:
        check_selection(epsilon=self.epsilon, sensitivity=self.sensitivity, monotone=self.monotone)

    @property
    def event(self) -> events.Exponential:
        """What one choice costs."""
        return events.Exponential(epsilon=self.epsilon)

    @property
    def factor(self) -> Fraction:
        """The exponent per unit of score, epsilon / (2 sensitivity) or twice that, exactly."""
        return factor_of(self.epsilon, self.sensitivity, monotone=self.monotone)

    def release(
        self,
        scores: ArrayLike | Sequence[Fraction],
        *,
        weights: ArrayLike | None = None,
        bits: RandomBits | None = None,
    ) -> int:
        """Release the index of the chosen candidate.

        Parameters
        ----------
        scores
            One dimension, at least one candidate, of integers, floats or Fractions. NaN counts as
            0, infinities as the largest float.
        weights
            Public, finite, not negative, not all 0, one for each candidate; all 1 by default.
        bits
            By default a secure source.

        Raises
        ------
        InvalidParameter
            For another shape or dtype.
        """
        row = score_rows(scores, dimensions=1)
        given = _weights(weights, row.shape[1])
        return int(choose(row, given, factor=self.factor, bits=source_of(bits))[0])

    def release_rows(
        self,
        scores: ArrayLike,
        *,
        weights: ArrayLike | None = None,
        bits: RandomBits | None = None,
    ) -> NDArray[np.int64]:
        """Release the index of the chosen candidate in each row, drawn independently.

        The event of all rows together depends on the contribution bounds. If a person changes the
        scores of only one row, it is `event`, once.

        Parameters
        ----------
        scores
            Two dimensions, (rows, candidates), of integers or floats.
        weights
            Public, one for each candidate.
        bits
            By default a secure source.

        Raises
        ------
        InvalidParameter
            For another shape or dtype.
        """
        matrix = score_rows(scores, dimensions=2)
        given = _weights(weights, matrix.shape[1])
        return choose(matrix, given, factor=self.factor, bits=source_of(bits))

    def log_probabilities(self, scores: ArrayLike, *, weights: ArrayLike | None = None) -> Floats:
        """Compute logarithms of the probabilities with which `release` chooses. NOT PRIVATE.

        They are natural logarithms, for error prediction.

        Parameters
        ----------
        scores
            One dimension or more, candidates along the last.
        weights
            As for `release`.
        """
        array = elements.numbers("scores", scores)
        matrix = array.reshape(-1, array.shape[-1]) if array.size else array
        matrix = score_rows(matrix, dimensions=2)
        logs = _below_best(matrix, self.factor)
        given = _weights(weights, matrix.shape[1])
        with np.errstate(divide="ignore"):
            if given is not None:
                logs += np.log(given.astype(np.float64))
            top = logs.max(axis=1, keepdims=True)
            logs -= top
            logs -= np.log(np.exp(logs).sum(axis=1, keepdims=True))
        return logs.reshape(array.shape)

    def error_bound(
        self, confidence: Number, *, candidates: int, weights: ArrayLike | None = None
    ) -> float:
        """Bound the loss of the chosen score below the best one, for all scores.

        It holds with probability `confidence` or more, in the unit of the scores, rounded up, and
        is the least such number. Source: docs/proofs/noisy_max.md, section 4.

        Parameters
        ----------
        confidence
            Between 0 and 1.
        candidates
            How many there are, 1 or more.
        weights
            As for `release`; the best is then the best of the candidates whose weight is not 0.

        Examples
        --------
        >>> choice = Exponential(epsilon=1, sensitivity=1)
        >>> round(choice.error_bound(0.95, candidates=1000), 3)
        19.702
        """
        others = Fraction(checks.positive_integer(candidates=candidates) - 1)
        given = _weights(weights, candidates)
        if given is not None:
            exact = [Fraction(weight) for weight in given.tolist() if weight]
            others = sum(exact) / min(exact) - 1
        return odds_loss(1 / self.factor, confidence=confidence, odds=others)


def choose(
    matrix: NDArray[Any], weights: NDArray[Any] | None, *, factor: Fraction, bits: RandomBits
) -> NDArray[np.int64]:
    """Choose a candidate of each row, with probability proportional to weight e^(factor score).

    weights: finite, 0 or above, not all 0 of a row; of one dimension for all rows, of two for each
    its own, whole numbers below 2^63; None where they are equal.
    """
    if weights is not None and weights.ndim == 1:
        # Candidates of weight 0 leave first, so that none of them can be the best.
        kept = np.flatnonzero(weights)
        if kept.size < weights.size:
            chosen = choose(matrix[:, kept], weights[kept], factor=factor, bits=bits)
            return kept[chosen].astype(np.int64)
    own = weights is not None and weights.ndim == 2
    if own or matrix.shape[1] < _LONGEST:
        return _invert(matrix, weights, factor=factor, bits=bits)
    won = [
        noisy_argmax(row, factor=factor, noise="gumbel", count=1, bits=bits, weights=weights)[
            0
        ].index
        for row in matrix
    ]
    return np.array(won, dtype=np.int64)


def _below_best(matrix: NDArray[Any], factor: Fraction) -> Floats:
    """The exponents, factor (score - best of the row)."""
    return exponents(matrix, matrix.max(axis=1, keepdims=True), factor=factor)


def _invert(
    matrix: NDArray[Any], weights: NDArray[Any] | None, *, factor: Fraction, bits: RandomBits
) -> NDArray[np.int64]:
    rows, candidates = matrix.shape
    chosen = np.empty(rows, dtype=np.int64)
    relative = None
    if weights is not None:
        relative = _relative(weights)
    own = weights is not None and weights.ndim == 2
    # The best candidate of a row may weigh little beside others of its own. So errors are counted
    # by what terms are: e^x for an x to within 2^-51 |x| is off by less than 375 2^-50 of it.
    slack = (candidates + (464 if own else 64)) * _ROUNDING
    step = max(_CHUNK // candidates, 1)
    for start in range(0, rows, step):
        part = matrix[start : start + step]
        words = bits.words(part.shape[0])
        cumulative = _below_best(part, factor)
        with np.errstate(under="ignore"):
            np.exp(cumulative, out=cumulative)
            if relative is not None:
                cumulative *= relative[start : start + step] if own else relative
        np.cumsum(cumulative, axis=1, out=cumulative)
        total = cumulative[:, -1]
        goal = np.multiply(words, 2.0**-64) * total
        reach = slack * (total if own else np.maximum(total, 1.0))
        low = np.argmax(cumulative > (goal - reach)[:, None], axis=1)
        high = np.argmax(cumulative > (goal + reach)[:, None], axis=1)
        doubtful = (low != high) | (goal + reach >= total)
        for index in np.flatnonzero(doubtful).tolist():
            uniform = LazyUniform(int(words[index]), length=64, bits=bits)
            given = weights[start + index] if own and weights is not None else weights
            low[index] = _invert_exactly(part[index], given, uniform, factor=factor)
        chosen[start : start + step] = low
    return chosen


def _relative(weights: NDArray[Any]) -> Floats:
    """Each weight over the heaviest, to within 2^-51 relative."""
    if weights.dtype.kind == "O":
        heaviest = max(map(Fraction, weights.tolist()))
        return np.array([float(Fraction(weight) / heaviest) for weight in weights.tolist()])
    floats = weights.astype(np.float64)
    with np.errstate(under="ignore"):
        shares: Floats = np.divide(floats, floats.max(), out=floats)
    return shares


def _invert_exactly(
    scores: NDArray[Any], weights: NDArray[Any] | None, uniform: LazyUniform, *, factor: Fraction
) -> int:
    """The least index i with U total < w_0 + ... + w_i, by brackets of growing precision."""
    values = [Fraction(score) for score in scores.tolist()]
    bases = [Fraction(weight) for weight in (weights.tolist() if weights is not None else ())]
    best = max(values)
    powers = [factor * (value - best) for value in values]
    while True:
        places = uniform.places + len(values).bit_length()
        low, high = _cumulative_bounds(powers, bases, places)
        # U lies in [value, value + 1] / 2^length, the total in [low, high].
        first = uniform.value * low[-1]
        last = (uniform.value + 1) * high[-1]
        below = sum(bound << uniform.length <= first for bound in high)
        reached = sum(bound << uniform.length < last for bound in low)
        if below == reached:
            return below
        uniform.extend()


def _cumulative_bounds(
    powers: Sequence[Fraction], bases: Sequence[Fraction], places: int
) -> tuple[list[int], list[int]]:
    """Integers that bracket each partial sum of base e^exponent, times 2^places."""
    known = {exponent: exp_bounds(exponent, places) for exponent in set(powers)}
    lows, highs = zip(*(known[exponent] for exponent in powers), strict=True)
    if bases:
        pairs = zip(lows, highs, bases, strict=True)
        scaled = [
            (
                low * base.numerator // base.denominator,
                -(-high * base.numerator // base.denominator),
            )
            for low, high, base in pairs
        ]
        lows, highs = zip(*scaled, strict=True)
    return list(accumulate(lows)), list(accumulate(highs))


def _weights(weights: ArrayLike | None, candidates: int) -> NDArray[Any] | None:
    """The base measure, checked, or None where it is uniform."""
    if weights is None:
        return None
    array = elements.numbers("weights", weights, dimensions=1)
    expected = f"{candidates} finite numbers, 0 or above, not all 0"
    if array.shape != (candidates,) or array.dtype.kind not in "iufO":
        raise InvalidParameter("weights", weights, expected=expected)
    if not ((array >= 0) & (array < math.inf)).all() or not array.any():
        raise InvalidParameter("weights", weights, expected=expected)
    return array


@dataclass(frozen=True, slots=True, kw_only=True)
class PiecewiseConstantExponential(RangeCalibrated):
    """Choose a point x of [lower, upper], P(x) proportional to exp(epsilon score(x) / (2 Delta)).

    Source: McSherry and Talwar 2007, Theorem 6; Smith 2011, Algorithm 2 (pieces).

    Parameters
    ----------
    epsilon, sensitivity, monotone
        As for `Exponential`. The sensitivity is that of the score at every single point.
    lower, upper
        The ends of the interval, public.
    grid_log2
        The points are the multiples of 2^grid_log2. By default there are about 2^40 of them, or
        fewer if float64 cannot represent so many.

    Examples
    --------
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
        checks.demand(lower < upper, "upper", self.upper, expected=f"a number above {self.lower}")
        coarsest = floor_log2(upper - lower)
        finest = floor_log2(max(abs(lower), abs(upper))) - _EXACT_LOG2
        wanted = cast("int | None", self.grid_log2)
        grid = max(coarsest - _POINTS_LOG2, finest) if wanted is None else wanted
        # A step of at most the length of the interval, so that it holds a point.
        least, most = max(finest, -_GRID_REACH), min(coarsest, _GRID_REACH)
        object.__setattr__(self, "grid_log2", whole("grid_log2", grid, least=least, most=most))

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
        """Choose a point.

        Parameters
        ----------
        edges
            The points at which the score changes, in increasing order: one dimension, floats or
            integers of at most 64 bits, which count as float64. Edges outside the interval count as
            its ends, NaN counts as 0, and an edge below an earlier one counts as that one.
        scores
            One more than edges. scores[k] holds from edges[k - 1] to below edges[k].
        bits
            By default a secure source.

        Returns
        -------
        float
            The chosen point.

        Raises
        ------
        InvalidParameter
            For another shape or dtype.
        """
        row = one_row(scores)
        starts, counts = self._pieces(edges, row.size)
        factor = factor_of(self.epsilon, self.sensitivity, monotone=self.monotone)
        source = source_of(bits)
        piece = int(choose(row[None, :], counts, factor=factor, bits=source)[0])
        step = int(starts[piece]) + _evenly(int(counts[piece]), source)
        return float(np.ldexp(float(step), self.grid_log2))

    def error_bound(self, confidence: Number, *, width: Real = 0) -> float:
        """Bound how far the chosen point's score is below the best score.

        Source: docs/proofs/noisy_max.md, section 4.

        Parameters
        ----------
        confidence
            The bound holds with this probability or more, for all scores.
        width
            The length of a part of the interval that has the best score; 0 for a single point of
            the grid.

        Returns
        -------
        float
            In the unit of the scores, rounded up.

        Raises
        ------
        InvalidParameter
            For a confidence or a width out of its range.

        Examples
        --------
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


def _edges(edges: ArrayLike, *, pieces: int) -> NDArray[np.float64]:
    array = elements.floats("edges", edges, dimensions=1)
    if array.shape != (pieces - 1,):
        raise InvalidParameter(
            "edges", array.shape, expected=f"{pieces - 1} of them, one fewer than scores"
        )
    return array
