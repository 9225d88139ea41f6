r"""Quantiles of a column by the exponential mechanism, with errors from the slope around them.

A point's loss is its distance in ranks from the target: for e with L values below it and U at or
below it, max(0, L - q n, q n - U). Replacing one row changes L and U by at most 1, hence the loss
by at most 1. Two further points, some ranks below and above, give the distance between ranks there.
The sampling and privacy errors, which are errors in rank, follow from it.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Final, Literal

import numpy as np
from numpy.typing import ArrayLike

from unacorda import checks
from unacorda.bits import RandomBits, source_of
from unacorda.checks import Number
from unacorda.errors import InvalidParameter
from unacorda.inference.records import Floats, column, public_range, selection_epsilon, shareable
from unacorda.mechanisms.selection.exponential import PiecewiseConstantExponential
from unacorda.privacy.estimates import Estimate
from unacorda.privacy.guarantees import Guarantee

_TWO_THIRDS: Final = Fraction(2, 3)
_POINTS: Final = 1 << 20
"""The default grid cuts the interval into about so many steps."""


def quantile(
    x: ArrayLike,
    q: float,
    *,
    lower: float,
    upper: float,
    budget: Guarantee,
    resolution: float | None = None,
    interval: Number | Literal[False] = _TWO_THIRDS,
    bits: RandomBits | None = None,
) -> Estimate:
    """Estimates a quantile of a bounded column, with sampling and privacy errors.

    A useful answer needs about 50 log(range / resolution) / epsilon people (divided by the smaller
    of q and 1 - q, twice over). With fewer the errors become as wide as the range.

    Source: Smith 2011, Algorithm 2 (the mechanism); docs/proofs/quantiles.md.

    Parameters
    ----------
    x
        One number per person, shape (n,); n is public. Values beyond a bound count as the bound,
        NaN as the middle.
    q
        From 0 to 1; the answer has about q n values below it.
    lower, upper
        Public bounds, in the unit of x.
    budget
        Any guarantee, kept under the replacement of one row.
    resolution
        Answers are multiples of the largest power of two up to this. By default it is 1 if x has an
        integer type (a NumPy, pandas, polars or Arrow column of integers, a range), else about a
        millionth of the range. Only the type is read, which is public, and no value. For whole
        numbers in a list or as floats give 1, or intervals are too narrow.
    interval
        The share of the budget, above 0 and below 1, for two further points, from which the errors
        are computed; the rest is for the value. False spends all on the value; then the errors are
        infinite.
    bits
        Omit it for secure noise; `SeededBits` makes the result reproducible, and not private.

    Returns
    -------
    Estimate
        The value and both its errors, in the unit of x.

    Raises
    ------
    InvalidParameter, MissingBound
        For arguments that cannot be used.

    Examples
    --------
    >>> import unacorda
    >>> estimate = quantile(
    ...     range(10000),
    ...     0.9,
    ...     lower=0,
    ...     upper=10**5,
    ...     budget=unacorda.GDP(1),
    ...     bits=unacorda.SeededBits(1),
    ... )
    >>> 8950 < estimate.value < 9050, 20 < estimate.sampling_error < 40
    (True, True)
    """
    share = checks.finite(q=q)
    checks.demand(0 <= share <= 1, "q", q, expected="from 0 to 1")
    points = _Points.of(x, lower=lower, upper=upper, resolution=resolution)
    epsilon, sides = _shared(budget, interval, quantiles=1)
    (around,) = points.chosen([share], epsilon=epsilon, sides=sides, bits=source_of(bits))
    if sides is None:
        return _alone(around.value)
    n = points.values.size
    return Estimate(
        value=around.value,
        sampling_error=around.slope * math.sqrt(n * share * (1 - share)),
        privacy_error=points.error(around, share, epsilon=epsilon),
        noise="laplace",
    )


def median(
    x: ArrayLike,
    *,
    lower: float,
    upper: float,
    budget: Guarantee,
    resolution: float | None = None,
    interval: Number | Literal[False] = _TWO_THIRDS,
    bits: RandomBits | None = None,
) -> Estimate:
    """Estimates the median of a bounded column: `quantile` at 1/2.

    Parameters
    ----------
    x, lower, upper, budget, resolution, interval, bits
        As for `quantile`.

    Returns
    -------
    Estimate
        The median and both its errors, in the unit of x.

    Raises
    ------
    InvalidParameter
        For shapes, dtypes, bounds and budgets that cannot be used.
    MissingBound
        For a bound that is None.

    Examples
    --------
    >>> import unacorda
    >>> estimate = median(
    ...     range(1001),
    ...     lower=0,
    ...     upper=10**4,
    ...     budget=unacorda.PureDP(1),
    ...     bits=unacorda.SeededBits(2),
    ... )
    >>> 460 < estimate.value < 540
    True
    """
    return quantile(
        x,
        0.5,
        lower=lower,
        upper=upper,
        budget=budget,
        resolution=resolution,
        interval=interval,
        bits=bits,
    )


def iqr(
    x: ArrayLike,
    *,
    lower: float,
    upper: float,
    budget: Guarantee,
    resolution: float | None = None,
    interval: Number | Literal[False] = _TWO_THIRDS,
    bits: RandomBits | None = None,
) -> Estimate:
    """Estimates the interquartile range of a bounded column, with sampling and privacy errors.

    Both quartiles have half of the budget each.

    Source: the joint law of two sample quantiles, Mosteller 1946.

    Parameters
    ----------
    x, lower, upper, budget, resolution, interval, bits
        As for `quantile`.

    Returns
    -------
    Estimate
        The range and both its errors, in the unit of x.

    Raises
    ------
    InvalidParameter
        For shapes, dtypes, bounds and budgets that cannot be used.
    MissingBound
        For a bound that is None.

    Examples
    --------
    >>> import unacorda
    >>> estimate = iqr(
    ...     range(10000), lower=0, upper=10**5, budget=unacorda.GDP(1), bits=unacorda.SeededBits(1)
    ... )
    >>> 4900 < estimate.value < 5100
    True
    """
    points = _Points.of(x, lower=lower, upper=upper, resolution=resolution)
    epsilon, sides = _shared(budget, interval, quantiles=2)
    first, third = points.chosen([0.25, 0.75], epsilon=epsilon, sides=sides, bits=source_of(bits))
    if sides is None:
        return _alone(third.value - first.value)
    squares = 3 * (first.slope**2 + third.slope**2) - 2 * first.slope * third.slope
    return Estimate(
        value=third.value - first.value,
        sampling_error=math.sqrt(points.values.size * squares) / 4,
        privacy_error=math.hypot(
            points.error(first, 0.25, epsilon=epsilon), points.error(third, 0.75, epsilon=epsilon)
        ),
        noise="laplace",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Around:
    """A chosen point, those on its sides, and by how much the value changes a rank there."""

    below: float
    value: float
    above: float
    slope: float


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class _Points:
    """A column within its bounds, and the grid that answers come from."""

    values: Floats
    lower: float
    upper: float
    grid_log2: int

    @staticmethod
    def of(x: ArrayLike, *, lower: float, upper: float, resolution: float | None) -> _Points:
        low, high = public_range(lower, upper, of="x")
        if resolution is not None:
            step = checks.positive(resolution=resolution)
        elif _holds_whole_numbers(x):
            step = min(1.0, (high - low) / 2)
        else:
            step = (high - low) / _POINTS
        if step > (high - low) / 2:
            raise InvalidParameter("resolution", resolution, expected="at most half of the range")
        grid_log2 = _grid_log2(step, lower=low, upper=high)
        return _Points(values=column("x", x), lower=low, upper=high, grid_log2=grid_log2)

    @property
    def step(self) -> float:
        return 2.0**self.grid_log2

    def chosen(
        self,
        shares: Sequence[float],
        *,
        epsilon: Fraction,
        sides: Fraction | None,
        bits: RandomBits,
    ) -> list[_Around]:
        """At each share a point, and the slope from two others: three releases a share.

        epsilon: of the point; sides: of each of the two on its sides, None for no such two.
        """
        n = self.values.size
        ranked = partial(
            ranked_points,
            self.values,
            lower=self.lower,
            upper=self.upper,
            grid_log2=self.grid_log2,
            bits=bits,
        )
        values = ranked([share * n for share in shares], epsilon=epsilon)
        if sides is None:
            return [
                _Around(below=self.lower, value=value, above=self.upper, slope=math.inf)
                for value in values
            ]
        wanted: list[tuple[float, float]] = []
        for share in shares:
            # Far enough that noise hardly moves the distance, near enough for one slope.
            reach = max(2 * math.sqrt(n * share * (1 - share)), 4 * _rank_error(sides), 1.0)
            wanted.append((max(share * n - reach, 0.0), min(share * n + reach, float(n))))
        ends = ranked([rank for pair in wanted for rank in pair], epsilon=sides)
        around = []
        for index, (value, (first, last)) in enumerate(zip(values, wanted, strict=True)):
            below, above = ends[2 * index : 2 * index + 2]
            # Each point was rounded to the grid, by half a step at most.
            slope = (max(above - below, 0.0) + self.step) / (last - first)
            around.append(_Around(below=below, value=value, above=above, slope=slope))
        return around

    def error(self, around: _Around, share: float, *, epsilon: Fraction) -> float:
        """The deviation of a chosen point from the sample's quantile, from released values.

        Ranks are off by Laplace noise where values are dense. Beyond the last values there may be
        a long empty stretch, all of it as many ranks off as people lie on that side: it is chosen
        with a chance of about its length over that of the good points, times
        e^(-epsilon ranks / 2). From one chance in twenty on, the point is of no use there.
        """
        near = around.slope * _rank_error(epsilon)
        good = around.slope * 4 / float(epsilon)
        missed = 0.0
        for ranks, stretch in (
            (share * self.values.size, around.above - self.lower),
            ((1 - share) * self.values.size, self.upper - around.below),
        ):
            # Where the three points were missed themselves, their slope is too large.
            width = max(min(good, stretch / 100), self.step)
            chance = 20 * stretch / width * math.exp(-float(epsilon) * ranks / 2)
            missed += min(chance, 1.0) * stretch
        return math.hypot(near, self.step / math.sqrt(12), missed)

    def __repr__(self) -> str:
        return "_Points(...)"


def ranked_points(
    values: Floats,
    ranks: Sequence[float],
    *,
    lower: float,
    upper: float,
    epsilon: Fraction,
    grid_log2: int,
    bits: RandomBits,
) -> list[float]:
    """For each rank a point of the grid that has about so many values below it.

    values: as for `quantile`; ranks: from 0 to n; epsilon: of each, in bounded range.
    """
    mechanism = PiecewiseConstantExponential(
        epsilon=epsilon, sensitivity=1, lower=lower, upper=upper, grid_log2=grid_log2
    )
    inside = np.clip(np.nan_to_num(values, nan=(lower + upper) / 2, posinf=upper), lower, upper)
    steps = np.rint(np.ldexp(inside, -grid_log2))
    places, counts = np.unique(steps, return_counts=True)
    upto = np.cumsum(counts)
    # A place is a piece of one point; between two places there is a piece with one number below.
    edges = np.stack([places, places + 1], axis=1).reshape(-1)
    below = np.concatenate([[0], np.stack([upto - counts, upto], axis=1).reshape(-1)])
    within = np.concatenate([[0], np.stack([upto, upto], axis=1).reshape(-1)])
    chosen = []
    for rank in ranks:
        losses = np.maximum(0.0, np.maximum(below - rank, rank - within))
        chosen.append(mechanism.release(np.ldexp(edges, grid_log2), scores=-losses, bits=bits))
    return chosen


def quartiles(
    values: Floats, *, lower: float, upper: float, points: int, epsilon: Fraction, bits: RandomBits
) -> tuple[float, float]:
    """Both quartiles, perhaps in the wrong order, from a grid of about so many points."""
    first, third = ranked_points(
        values,
        [len(values) / 4, 3 * len(values) / 4],
        lower=lower,
        upper=upper,
        epsilon=epsilon,
        grid_log2=_grid_log2((upper - lower) / points, lower=lower, upper=upper),
        bits=bits,
    )
    return first, third


def _grid_log2(step: float, *, lower: float, upper: float) -> int:
    """The largest power of two up to a step, no finer than floats between the bounds are."""
    finest = math.frexp(max(abs(lower), abs(upper)))[1] - 53
    return max(math.frexp(step)[1] - 1, finest)


def _alone(value: float) -> Estimate:
    """A value whose errors were not bought."""
    return Estimate(value=value, sampling_error=math.inf, privacy_error=math.inf, noise="laplace")


def _shared(
    budget: Guarantee, interval: Number | Literal[False], *, quantiles: int
) -> tuple[Fraction, Fraction | None]:
    """Epsilon of each point, and of each of the two on its sides, None where there are none."""
    if interval is False:
        whole = shareable(budget, releases=quantiles)
        return selection_epsilon(whole, releases=quantiles), None
    share = checks.exact("interval", interval)
    if not 0 < share < 1:
        raise InvalidParameter(
            "interval", interval, expected="a share of the budget, above 0 and below 1, or False"
        )
    whole = shareable(budget, releases=3 * quantiles)
    return (
        selection_epsilon(whole * (1 - share), releases=quantiles),
        selection_epsilon(whole * share, releases=2 * quantiles),
    )


def _holds_whole_numbers(x: object) -> bool:
    """True for a column whose type is that of integers; nothing is known of a list."""
    dtype = str(getattr(x, "dtype", getattr(x, "type", ""))).lower()
    return isinstance(x, range) or re.match(r"(u?int\d+|bool)", dtype) is not None


def _rank_error(epsilon: Fraction) -> float:
    """The deviation in ranks of a chosen point where values are dense: Laplace, scale 2/epsilon."""
    return 2 * math.sqrt(2) / float(epsilon)
