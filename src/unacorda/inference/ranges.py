"""Ranges of columns without given bounds, from noisy histograms by signs and powers of four.

Bins are public, so no bound is needed. The range covers the bins that exceed their noise. It may be
up to four times too wide, and a few rows may lie beyond it.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from fractions import Fraction
from statistics import NormalDist
from typing import Final

import numpy as np

from unacorda import checks
from unacorda.bits import RandomBits
from unacorda.errors import InvalidParameter
from unacorda.inference.records import Floats
from unacorda.inference.sums import noisy_counts
from unacorda.mechanisms.additive.real import Laplace
from unacorda.privacy import events
from unacorda.privacy.guarantees import Guarantee

BOUNDS_SHARE: Final = 0.05
"""The share of the budget that finds bounds, by default."""

_MOST_SHARE: Final = 0.25
_POWERS: Final = (-40, 60)
_DEVIATIONS: Final = 4.0
"""Standard deviations of normal noise from which on a bin stands out."""


def check_share(bounds_share: float) -> Fraction:
    """Returns the share of the budget that finds bounds, as a short fraction, rounded down.

    InvalidParameter unless it is from 1e-6 to 1/4.

    >>> check_share(0.1)
    Fraction(1, 10)
    """
    share = checks.finite(bounds_share=bounds_share)
    if not 1e-6 <= share <= _MOST_SHARE:
        raise InvalidParameter(
            "bounds_share",
            bounds_share,
            expected=f"a share of the budget, from 1e-6 to {_MOST_SHARE}",
        )
    return Fraction(math.floor(share * 10**9), 10**9)


def edges() -> Floats:
    """The edges of the bins, rising, negative ones first; 0 is one of them."""
    sizes = 2.0 ** np.arange(_POWERS[0], _POWERS[1] + 1, 2)
    return np.concatenate([-sizes[::-1], [0.0], sizes])


def range_of(counts: Floats, deviation: float) -> tuple[float, float]:
    """The range of the bins that exceed their noise; (-1, 1) if none does, or only that of 0.

    If most rows are 0, noise may hide the others. A count at 0 does not show their size, and dummy
    variables are the most common case.

    >>> counts = np.zeros(len(edges()) + 1)
    >>> counts[np.searchsorted(edges(), [20.0, 70.0], side="right")] = 1.0
    >>> range_of(counts, 0.01)
    (16.0, 256.0)
    """
    ends = edges()
    seen = np.nonzero(counts > _DEVIATIONS * deviation)[0]
    if not len(seen):
        return -1.0, 1.0
    lower = float(ends[max(int(seen[0]) - 1, 0)])
    upper = float(ends[min(int(seen[-1]), len(ends) - 1)])
    if -(2.0 ** _POWERS[0]) <= lower and upper <= 2.0 ** _POWERS[0]:
        return -1.0, 1.0
    return (lower, upper) if lower < upper else (lower - 1, upper + 1)


def column_ranges(
    x: Floats, *, budget: Guarantee, bits: RandomBits
) -> tuple[Floats, Floats, events.Event]:
    """Finds the ranges of all columns of a matrix within the whole budget; returns the event too.

    A replaced row changes two counts of each column by one. NaN is not counted.
    """
    columns = x.shape[1]
    ends = edges()
    size = len(ends) + 1
    counts = np.zeros((columns, size), dtype=np.int64)
    for place, column in enumerate(x.T):
        known = column[~np.isnan(column)]
        counts[place] = np.bincount(np.searchsorted(ends, known, side="right"), minlength=size)
    found, noise = noisy_counts(counts.reshape(-1), budget=budget, bits=bits, moved=2 * columns)
    deviation = noise.standard_deviation
    if isinstance(noise, Laplace):  # as rarely exceeded as so many deviations of normal noise
        tail = -math.log(2 * NormalDist().cdf(-_DEVIATIONS)) / math.sqrt(2)
        deviation *= tail / _DEVIATIONS
    ranges = [range_of(one, deviation) for one in found.reshape(columns, size)]
    lower, upper = np.array(ranges).T
    return lower, upper, noise.event
