"""Which losses a statistic has: one arm a family."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from unacorda.errors import InvalidParameter
from unacorda.mechanisms.adaptive.losses import ranks, sums
from unacorda.mechanisms.adaptive.losses.grid import Grid
from unacorda.mechanisms.adaptive.losses.modes import behind_the_mode
from unacorda.mechanisms.adaptive.losses.runs import Runs, Steps
from unacorda.mechanisms.adaptive.losses.slopes import grid_of_slopes, slope
from unacorda.mechanisms.adaptive.losses.variance import MOST, values_of, variance
from unacorda.mechanisms.adaptive.records import clamped
from unacorda.mechanisms.adaptive.slope import Slope
from unacorda.mechanisms.adaptive.statistics import (
    KthLargest,
    Mean,
    Mode,
    OrderStatistic,
    Quantile,
    RankStatistic,
    Sum,
    Variance,
)
from unacorda.mechanisms.noise.rounding import floor_log2
from unacorda.privacy.neighbors import AddRemove, Neighbors, ReplaceOne

__all__ = [
    "Known",
    "answers_of",
    "check_statistic",
    "grid_of",
    "most_of",
    "moves_one_way",
    "runs_of",
]

_MOST: Final = 1 << 20
_VARIANCES_LOG2: Final = 20  # the default grid of variances divides their interval so many times

Known: TypeAlias = RankStatistic | Mean | Variance | Sum | Mode | Slope
"""The statistics that have losses here."""


def check_statistic(statistic: object) -> None:
    """Refuse what has no losses here."""
    if not isinstance(statistic, Known):
        raise InvalidParameter(
            "statistic",
            statistic,
            expected="an order statistic, quantile, minimum, maximum, mean, variance, sum, mode or "
            "slope of unacorda.mechanisms.adaptive; else release_losses takes your own losses",
        )
    if isinstance(statistic, Sum) and statistic.upper is None:
        raise InvalidParameter("statistic", statistic, expected="a sum with an upper bound")


def grid_of(statistic: Known, log2: int | None, *, answers: tuple[Fraction, Fraction]) -> Grid:
    """The grid of the answers, whose step is also that of the values."""
    if isinstance(statistic, Mode):
        return Grid(0, len(statistic.categories) - 1, 0)
    if isinstance(statistic, Slope):
        return grid_of_slopes(statistic, log2)
    if isinstance(statistic, Variance):
        coarse = floor_log2(answers[1]) - _VARIANCES_LOG2
        finest = Grid.within(*answers, None).log2
        return Grid.within(*answers, max(coarse, finest) if log2 is None else log2)
    low, high = Fraction(statistic.lower), Fraction(statistic.upper or 0)
    values = Grid.within(low, high, None, reach=max(map(abs, answers)))
    if log2 is not None:
        values = Grid.within(low, high, log2, reach=max(map(abs, answers)))
    return Grid.within(*answers, values.log2)


def answers_of(statistic: Known) -> tuple[Fraction, Fraction]:
    """The interval of the answers; of no meaning for a mode."""
    if isinstance(statistic, Mode):
        return Fraction(0), Fraction(1)
    low, high = Fraction(statistic.lower), Fraction(statistic.upper or 0)
    return (Fraction(0), (high - low) ** 2 / 4) if isinstance(statistic, Variance) else (low, high)


def most_of(statistic: Known | None) -> int:
    """Where losses end, however small epsilon is."""
    return MOST if isinstance(statistic, Variance) else _MOST


def moves_one_way(statistic: Known, neighbors: Neighbors) -> bool:
    """Whether all losses, up to a number that all share, move one way between two neighbours."""
    return isinstance(statistic, Mode) and neighbors is AddRemove


def runs_of(
    statistic: Known, values: ArrayLike, *, neighbors: Neighbors, grid: Grid, most: int
) -> Runs:
    """The loss of every step of the grid. Private."""
    if isinstance(statistic, Mode):
        return behind_the_mode(statistic.counts(values))
    replace = neighbors is ReplaceOne
    if isinstance(statistic, Slope):
        return slope(statistic, values, grid=grid, most=most, replace=replace)
    low, high = Fraction(statistic.lower), Fraction(statistic.upper or 0)
    inner = values_of(low, high) if isinstance(statistic, Variance) else _at(low, high, grid.log2)
    steps = np.sort(inner.steps(clamped(values, lower=float(low), upper=float(high))))
    if isinstance(statistic, Variance):
        return variance(steps, values=inner, grid=grid, most=most, replace=replace)
    if isinstance(statistic, Sum):
        return sums.total(steps, values=inner, grid=grid, most=most, replace=replace)
    if isinstance(statistic, Mean):
        middle = (low + high) / 2
        return sums.mean(steps, grid=grid, most=most, replace=replace, empty=middle)
    if replace:
        return ranks.rank_among(statistic.place(steps.size), steps, grid=grid, most=most)
    return _rank_added_or_removed(statistic, steps, grid=grid, most=most)


def _at(low: Fraction, high: Fraction, log2: int) -> Grid:
    step = Fraction(2) ** log2
    return Grid(ceil(low / step), floor(high / step), log2)


def _rank_added_or_removed(
    statistic: RankStatistic, steps: Steps, *, grid: Grid, most: int
) -> Runs:
    match statistic:
        case OrderStatistic(rank=rank):
            return ranks.fixed_rank(rank, steps, grid=grid, most=most)
        case KthLargest(k=k):
            return ranks.from_the_top(k, steps, grid=grid, most=most)
        case Quantile(q=q):
            return ranks.quantile(Fraction(q), steps, grid=grid, most=most)
        case _:
            raise AssertionError(statistic)
