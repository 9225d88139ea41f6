"""How a budget is split over the levels of a tree whose noise adds up (`tree_noise`).

The shares taken minimise the mean of V / A over all released numbers, V the variance of a number
and A that of its level asked apart with an equal part of the budget, among those under which no
level's V is above a limit: what the least squares fit of levels asked apart leaves there. V is a
function of all shares that has no formula, and the best are found by the simplex search of Nelder
and Mead 1965.

What is promised does not rest on the search: the price of the noise is that of all shares
together, whichever they are, and what they make of errors is computed when they are known.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from unacorda.query.aggregates.tree_law import Shape, even_shape, tree_law

__all__ = ["tree_shares"]

Floats = NDArray[np.float64]

_GRID = 2**10  # of shares
_LIMIT = 0.997  # of limits: the law is told to two digits in searches, and shares are rounded
_STEEP = 100.0  # what a level costs that is above its limit
_SCALE = 64.0  # of the loudest noise: beyond a few, laws no longer change their form
_FEW_KINDS = 12  # of nodes; of trees with more, one with as many parts everywhere stands for them
_COARSE = 0.4  # of the finest level's share, of the others to begin with
_CALLS = 60  # at most, of the law, for each level
_STILL = 1e-5  # a simplex on which costs differ by less is the last


@functools.lru_cache(maxsize=64)
def tree_shares(
    shape: Shape, units: tuple[float, ...], limits: tuple[float, ...] | None = None
) -> tuple[Fraction, ...]:
    """The share of every level, coarse to fine; they add up to 1.

    units: the scale of each level's noise, relative to one another, for the same share; limits: by
    level, of the mean of V / A.

    >>> shares = tree_shares(even_shape([10, 10]), (1.0,) * 3, (1.0,) * 3)
    >>> [round(float(share), 1) for share in shares]
    [0.3, 0.2, 0.5]
    """
    sizes = _sizes(shape)
    if shape.size > _FEW_KINDS:
        shape = even_shape(
            [max(1, round(below / above)) for above, below in itertools.pairwise(sizes)]
        )
    levels, numbers = len(sizes), np.array(sizes, dtype=np.float64)
    scales = _SCALE * np.array(units) / max(units)
    apart = 2 * (levels * scales) ** 2
    most = np.full(levels, np.inf) if limits is None else _LIMIT * np.array(limits)

    def cost(logs: Floats) -> float:
        shares = _shares(logs)
        law = tree_law(shape, tuple((shares / scales).tolist()), coarse=True)
        if law is None:
            return math.inf
        ratios = np.array(law.means) / apart
        beyond = 0.0 if limits is None else np.maximum(ratios - most, 0).sum()
        return float(ratios @ numbers / numbers.sum() + _STEEP * beyond)

    start = np.array([math.log(_COARSE)] * (levels - 1) + [0.0])
    best, least = _searched(cost, start, calls=_CALLS * levels)
    if not math.isfinite(least):
        return (Fraction(1, levels),) * levels
    steps = [max(math.ceil(share * _GRID), 1) for share in _shares(best)]
    steps[-1] = max(_GRID - sum(steps[:-1]), 1)
    whole = sum(steps)
    return tuple(Fraction(step, whole) for step in steps)


def _searched(
    cost: Callable[[Floats], float], start: Floats, *, calls: int
) -> tuple[Floats, float]:
    """Where a function is least, near the start, and how much it is there."""
    points = [start, *(start + step for step in np.diag(np.full(len(start), 0.5)))]
    found = sorted(
        ((cost(at), place, at) for place, at in enumerate(points)), key=lambda point: point[:2]
    )
    asked = len(points)

    def tried(at: Floats) -> tuple[float, int, Floats]:
        nonlocal asked
        asked += 1
        return cost(at), asked, at

    while asked < calls and found[-1][0] - found[0][0] > _STILL * found[0][0]:
        middle = np.mean([at for _, _, at in found[:-1]], axis=0)
        away = middle - found[-1][2]
        one = tried(middle + away)
        if one[0] < found[0][0]:
            one = min(one, tried(middle + 2 * away), key=_cost)
        elif one[0] >= found[-2][0]:
            inside = 0.5 if one[0] < found[-1][0] else -0.5
            one = min(one, tried(middle + inside * away), key=_cost)
        if one[0] < found[-1][0]:
            found[-1] = one
        else:
            found[1:] = [tried((at + found[0][2]) / 2) for _, _, at in found[1:]]
        found.sort(key=lambda point: point[:2])
    return found[0][2], found[0][0]


def _cost(point: tuple[float, int, Floats]) -> float:
    return point[0]


def _shares(logs: Floats) -> Floats:
    found = np.maximum(np.exp(logs - logs.max()), 1 / _GRID)
    return np.asarray(found / found.sum(), dtype=np.float64)


def _sizes(shape: Shape) -> Sequence[int]:
    """How many nodes there are at each level."""
    found, many = [1], [1]
    for kinds, below in zip(shape.kinds, shape.kinds[1:], strict=False):
        counts = [0] * len(below)
        for parts, nodes in zip(kinds, many, strict=True):
            for kind, count in parts:
                counts[kind] += nodes * count
        many = counts
        found.append(sum(counts))
    return found
