"""Sensitivities of the mode and of the number of distinct values.

The mode is 0/1: its distance from another category is 1. A value that no record has can always be
thought of, so a distinct count can always rise.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from unacorda.mechanisms.adaptive.records import multiplicities
from unacorda.mechanisms.adaptive.statistics import Mode
from unacorda.privacy.neighbors import Neighbors, ReplaceOne

__all__ = [
    "distinct_down",
    "distinct_local",
    "distinct_smooth",
    "mode_down",
    "mode_local",
    "mode_smooth",
]


def mode_local(statistic: Mode, values: ArrayLike, *, distance: int, neighbors: Neighbors) -> int:
    """1 where `distance` records can change the mode, else 0."""
    return int(_to_another_mode(statistic, values, neighbors) <= distance)


def mode_down(statistic: Mode, values: ArrayLike, *, distance: int) -> int:
    """1 where removing `distance` records can change the mode, else 0."""
    gaps, highest = _gaps(statistic, values)
    return int(bool((gaps <= min(distance, highest)).any()))


def mode_smooth(
    statistic: Mode, values: ArrayLike, *, smoothness: float, neighbors: Neighbors
) -> float:
    """The discount of the distance to the nearest data whose mode one more record can change."""
    steps = _to_another_mode(statistic, values, neighbors) - 1
    return 0.0 if steps == math.inf else max(math.exp(-smoothness * steps), 2.0**-900)


def distinct_local(values: ArrayLike, *, distance: int, neighbors: Neighbors) -> int:
    """The k-local sensitivity of the number of distinct values."""
    if neighbors is not ReplaceOne:
        return distance
    _, repeats = multiplicities(values)
    count, different = int(repeats.sum()), repeats.size
    # New values take the places of repeated ones; or the rarest values fall to the most frequent.
    return max(min(distance, count - different), _vanished(np.sort(repeats)[:-1], distance))


def distinct_down(values: ArrayLike, *, distance: int) -> int:
    """How many distinct values can vanish where so many records are removed."""
    _, repeats = multiplicities(values)
    return _vanished(np.sort(repeats), distance)


def distinct_smooth(values: ArrayLike, *, neighbors: Neighbors) -> float:
    """1, as a single record can always matter, but where a single one is replaced."""
    _, repeats = multiplicities(values)
    return 0.0 if neighbors is ReplaceOne and repeats.sum() < 2 else 1.0


def _vanished(repeats: np.ndarray[tuple[int], np.dtype[np.int64]], distance: int) -> int:
    """How many of the rarest values have no more than so many records together."""
    return int(np.searchsorted(np.cumsum(repeats), distance, side="right"))


def _gaps(
    statistic: Mode, values: ArrayLike
) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], int]:
    """How far each other category is behind, in records that come or go; the mode's count."""
    counts = statistic.counts(values)
    first = int(counts.argmax())
    gaps = counts[first] - counts + (np.arange(counts.size) > first)
    return np.delete(gaps, first), int(counts[first])


def _to_another_mode(statistic: Mode, values: ArrayLike, neighbors: Neighbors) -> float:
    """How many records have to change before the mode does; infinite where it cannot."""
    gaps, _ = _gaps(statistic, values)
    nothing = neighbors is ReplaceOne and not multiplicities(values)[0]
    if not gaps.size or nothing:
        return math.inf
    nearest = int(gaps.min())
    # Replacing a record of the mode by one of the other closes the gap by two.
    return -(-nearest // 2) if neighbors is ReplaceOne else nearest
