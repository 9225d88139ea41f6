r"""Ranges of columns that nobody declared, found from released counts.

Each number is counted in one of some hundred bins: by its sign and by powers of four. The range is
that of the bins that stand out of their noise, so that it is up to four times too wide, which the
metric does not mind, and values of few people may lie beyond it.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Final

import numpy as np

from unacorda.inference.records import Floats
from unacorda.inference.regression.rows import share_of
from unacorda.inference.sums import ROOT_TWO, NoisySums

__all__ = ["SHARE", "edges", "find_ranges", "range_of"]

SHARE: Final = 0.05
"""Of mu^2, what ranges cost that are left out."""

_POWERS: Final = (-40, 60)
_DEVIATIONS: Final = 4.0
"""A bin stands out from so many deviations of its noise on."""


def edges() -> Floats:
    """The edges of the bins, rising, negative ones first; 0 is one of them."""
    sizes = 2.0 ** np.arange(_POWERS[0], _POWERS[1] + 1, 2)
    return np.concatenate([-sizes[::-1], [0.0], sizes])


def find_ranges(
    columns: Sequence[Floats], own: Floats, sums: NoisySums
) -> list[tuple[float, float]]:
    """Ranges of columns, paid together from `SHARE` of mu^2; each row is in one bin of each."""
    ends = edges()
    size = len(ends) + 1

    def part(block: slice) -> Floats:
        places = (np.searchsorted(ends, column[block], side="right") for column in columns)
        counted = [np.bincount(one, weights=own[block], minlength=size) for one in places]
        return np.concatenate(counted)

    longest = math.nextafter(math.sqrt(len(columns)), math.inf)
    counts, deviation = sums.mean(
        part,
        size=size * len(columns),
        row_bound=Fraction(longest),
        sensitivity=Fraction(longest) * ROOT_TWO,
        share=share_of(SHARE),
    )
    return [range_of(one, deviation) for one in counts.reshape(len(columns), size)]


def range_of(counts: Floats, deviation: float) -> tuple[float, float]:
    """The range of the bins that stand out; of bins around 0 where none does.

    >>> counts = np.zeros(len(edges()) + 1)
    >>> counts[np.searchsorted(edges(), [20.0, 70.0], side="right")] = 1.0
    >>> range_of(counts, 0.01)
    (16.0, 256.0)
    """
    ends = edges()
    seen = np.nonzero(counts > _DEVIATIONS * deviation)[0]
    if not len(seen):
        return -1.0, 1.0
    lower = ends[max(int(seen[0]) - 1, 0)]
    upper = ends[min(int(seen[-1]), len(ends) - 1)]
    return (float(lower), float(upper)) if lower < upper else (float(lower) - 1, float(upper) + 1)
