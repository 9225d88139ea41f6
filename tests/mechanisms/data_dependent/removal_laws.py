"""Exact laws of the searches over removal losses, written from their descriptions alone.

Nothing here knows how a mechanism draws or what it claims; noise is given by its distribution.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Law = dict[int, float]


def ascending(
    losses: Sequence[int], *, target: int, threshold_scale: float, query_scale: float
) -> Law:
    """The first point, but the last, where -loss + nu >= -target + rho, geometric noises.

    query_scale 2 s and threshold_scale s shift the target by the difference of their means.
    """
    p, q = math.exp(-1 / threshold_scale), math.exp(-1 / query_scale)
    shift = round(q / (1 - q) - p / (1 - p))
    rho = np.arange(math.ceil(60 * threshold_scale))
    left = (1 - p) * p**rho
    found: Law = {}
    for index, loss in enumerate(losses[:-1]):
        needed = np.maximum(rho - target + shift + loss, 0)
        found[index] = math.fsum(left * q**needed)
        left = left * (1 - q**needed)
    found[len(losses) - 1] = math.fsum(left)
    return found


def tolerant(
    losses: Sequence[int],
    *,
    target: int,
    at_most: Callable[[int], float],
    reach: int,
    rate: float,
    halves: int,
) -> Law:
    """The answers of a search with weights: every noise up to reach, every coin, every path.

    A state is the sum of the answers that have moved each point, and the medians so far.
    """
    pmf = [(k, at_most(k) - at_most(k - 1)) for k in range(-reach, reach + 1)]
    last = len(losses) - 1
    states: dict[tuple[tuple[int, ...], tuple[int, ...]], float] = {
        ((0,) * len(losses), ()): 1.0,
    }
    for step in range(2 * halves + 1):
        following: dict[tuple[tuple[int, ...], tuple[int, ...]], float] = {}
        for (sums, medians), chance in states.items():
            weights = [math.exp(rate * (one - max(sums))) for one in sums]
            half = math.fsum(weights) / 2
            median = next(i for i in range(last + 1) if math.fsum(weights[: i + 1]) >= half)
            seen = tuple(sorted((*medians, median)))
            after = math.fsum(weights[median + 1 :])
            before = (half - after) / weights[median]
            if median in (0, last):
                before = float(median == last)
            for asked, coin in ((median - 1, before), (median, 1 - before)):
                if coin <= 0:
                    continue
                if step == 2 * halves:
                    following[(), seen] = following.get(((), seen), 0.0) + chance * coin
                    continue
                for noise, mass in pmf:
                    moved = losses[asked] - target + noise
                    key = tuple(one + moved * (i > asked) for i, one in enumerate(sums)), seen
                    following[key] = following.get(key, 0.0) + chance * coin * mass
        states = following
    found = dict.fromkeys(range(last + 1), 0.0)
    for (_, medians), chance in states.items():
        found[medians[halves]] += chance
    return found


def discrete_laplace_at_most(scale: float) -> Callable[[int], float]:
    q = math.exp(-1 / scale)
    return lambda k: 1 - q ** (k + 1) / (1 + q) if k >= 0 else q**-k / (1 + q)


def discrete_gaussian_at_most(sigma: float) -> Callable[[int], float]:
    reach = math.ceil(40 * sigma)
    weights = [math.exp(-k * k / (2 * sigma * sigma)) for k in range(-reach, reach + 1)]
    sums = np.cumsum(weights) / math.fsum(weights)
    return lambda k: float(sums[min(max(k + reach, 0), 2 * reach)])


def excess(one: Law, other: Law, *, epsilon: float) -> float:
    """The hockey-stick divergence at epsilon: the least delta for this pair, in one direction."""
    keys = one.keys() | other.keys()
    gaps = [one.get(key, 0.0) - math.exp(epsilon) * other.get(key, 0.0) for key in keys]
    return math.fsum(max(gap, 0.0) for gap in gaps)
