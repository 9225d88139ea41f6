r"""The widest of discounted gaps: sup over pairs i < j of exp(-smoothness k(i, j)) (z_j - z_i).

The costs here are k(i, j) = of_right(j) - of_left(i), `of_right` not falling. For j < j' the
difference of their discounted gaps, as a function of the left value alone, is linear and does not
fall. So the best right end does not move left where the left end moves right, and all rows of a
rectangle are solved by halving, a level at a time, in O((rows + columns) log rows).

Source: Nissim, Raskhodnikova, Smith 2007, section 3.1 (the recursion for the median).
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Rectangles:
    """Left ends from `top` to before `bottom`, right ends from `first` to before `stop`."""

    top: Integers
    bottom: Integers
    first: Integers
    stop: Integers

    def some(self) -> Rectangles:
        """Those that hold a pair."""
        kept = (self.top < self.bottom) & (self.first < self.stop)
        return Rectangles(self.top[kept], self.bottom[kept], self.first[kept], self.stop[kept])


def staircase(stops: Integers) -> list[Rectangles]:
    """Rectangles that make up the pairs i < j < stops[i], for stops that do not rise with i.

    A list of as many levels as halving takes; those of one level share no row. They may hold
    pairs with j <= i too, whose gaps are not positive.
    """
    levels, rows = [], stops.size
    top, bottom = np.array([0]), np.array([rows])
    first = np.array([1])
    while top.size:
        middle = (top + bottom) // 2
        reach = stops[middle]
        levels.append(Rectangles(top, middle + 1, first, reach).some())
        top, bottom, first = (
            np.concatenate(parts)
            for parts in (
                (top, middle + 1),
                (middle, bottom),
                (np.maximum(first, reach), np.maximum(first, middle + 2)),
            )
        )
        kept = top < bottom
        top, bottom, first = top[kept], bottom[kept], first[kept]
    return levels


@np.errstate(over="ignore", under="ignore")  # what underflows is below every answer of use
def widest(
    values: Floats, of_right: Integers, of_left: Integers, parts: Rectangles, *, smoothness: float
) -> float:
    """The widest discounted gap of the rectangles, or 0.

    values: in rising order, their differences at most 1. What is below 2^-960 may be lost; for the
    rest the relative error is 2^-50 / smoothness for every level of the halving.
    """
    # The discounts as mantissa and exponent, as they may span more than floats do.
    logarithm = (of_right - of_right[0]) * (-smoothness / np.log(2.0))
    exponent = np.floor(logarithm)
    mantissa = np.exp2(logarithm - exponent)
    whole = exponent.astype(np.int64)
    best, parts = 0.0, parts.some()
    while parts.top.size:
        middle = (parts.top + parts.bottom) // 2
        lengths = parts.stop - parts.first
        begins = np.cumsum(lengths) - lengths
        columns = np.arange(lengths.sum()) + np.repeat(parts.first - begins, lengths)
        base = whole[np.clip(middle + 1, parts.first, parts.stop - 1)]
        gaps = mantissa[columns] * (values[columns] - np.repeat(values[middle], lengths))
        powers = np.clip(whole[columns] - np.repeat(base, lengths), -2100, 2100)
        gaps = np.ldexp(gaps, powers.astype(np.int32))
        highest = np.maximum.reduceat(gaps, begins)
        hits = np.flatnonzero(gaps == np.repeat(highest, lengths))
        column = columns[hits[np.searchsorted(hits, begins)]]
        cost = of_right[column] - of_left[middle]
        found = np.exp(-smoothness * cost) * (values[column] - values[middle])
        best = max(best, float(found.max()))
        parts = Rectangles(
            np.concatenate([parts.top, middle + 1]),
            np.concatenate([middle, parts.bottom]),
            np.concatenate([parts.first, column]),
            np.concatenate([column + 1, parts.stop]),
        ).some()
    return best
