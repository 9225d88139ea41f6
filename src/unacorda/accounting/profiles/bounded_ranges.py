"""The profile of several mechanisms of bounded range, each chosen by what came before.

A mechanism of epsilon-bounded range is, at worst, a coin whose loss is t or t - epsilon, 0 < t <
epsilon, and an analyst who chooses the next mechanism chooses t. The optimal composition is a
recursion over the number of mechanisms, which is run here on a lattice of losses, once from above
and once from below.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import math
from fractions import Fraction

import numpy as np

from unacorda.accounting.pld.sources import curve_of_both, finite_pair, largest_pair
from unacorda.accounting.profiles import curves
from unacorda.accounting.profiles.boxes import Array, Box
from unacorda.accounting.profiles.curves import PrivacyProfile
from unacorda.deadlines import check_deadline
from unacorda.extras import later
from unacorda.privacy.rounding import float_above, float_below

scipy = later("scipy")

MOST_AT_ONCE = 256
"""Mechanisms whose choices are optimized together; more are composed in blocks."""
_CELLS = 1 << 13
_LEAST_CELLS, _MOST_CELLS = 1 << 6, 1 << 9
_QUICK_CELLS, _QUICK_LEAST, _QUICK_MOST = 1 << 10, 1 << 5, 1 << 8
"""For searches: upper ends are about a thousandth above those of fine lattices."""
_REACH = 6.0
"""In ranges times the root of the count: losses beyond have a mass of e^-72, by Hoeffding."""
_LARGEST = 600.0
_SLACK = 2.0**-48
"""Relative error that is charged for the few float operations of a step."""
_COINS = np.linspace(0.5, 0.98, 25)


@functools.lru_cache(maxsize=64)
def bounded_ranges(
    edge: Fraction, count: int, *, fine: bool = True, quick: bool = False
) -> PrivacyProfile | None:
    """The profile of `count` mechanisms of `edge`-bounded range; None where floats do not hold it.

    count: from 2 to MOST_AT_ONCE; fine: False for a coarser lattice, where there are many kinds;
    quick: for one that is the coarser the larger the count, for searches, and no pair below.

    Statement   d_k(x) = sup over t of p d_{k-1}(x - t) + (1 - p) d_{k-1}(x - t + edge), where
                p = (1 - e^{t - edge}) / (1 - e^{-edge}), and d_0(x) = max(0, 1 - e^x).
    Bound       both, of the supremum over all choices; `attained` is the same coin every time.
    Source      Dong, Durfee, Rogers 2020, arXiv:1909.13830; docs/proofs/bounded_range.md.
    """
    if float_above(edge) * count > _LARGEST or not float_below(edge) > 1e-100:
        return None
    cells = max(_LEAST_CELLS, min(_CELLS // count, _MOST_CELLS) if fine else 0)
    if quick:
        cells = min(max(_QUICK_CELLS // count, _QUICK_LEAST), _QUICK_MOST)
    steps = float_above(edge / cells), float_below(edge / cells)
    upper = _Recursion(step=steps[0], cells=cells, count=count, side=1).values()
    lower = _Recursion(step=steps[1], cells=cells, count=count, side=-1).values()
    law = curve_of_both(np.asarray(steps[0] * np.arange(len(upper))), upper, upper)

    def evaluate(epsilon: Box) -> Box:
        least = (-epsilon.expm1()).at_least(0.0).lower
        known = _between(epsilon.upper, steps[1], lower, upper)
        return Box(np.maximum(known, least), np.maximum(law.evaluate(epsilon).upper, least))

    pair = curves.nothing() if quick else one_coin(edge, count)
    return PrivacyProfile(evaluate=evaluate, infinity_above=law.infinity_above, attained=pair)


class _Recursion:
    """The recursion on multiples of a step, `cells` of which are the range.

    From below (side -1) only coins are tried whose losses are nodes. From above (side 1) the value
    of all coins between two nodes is bounded by those at both and by the curvature between them.
    """

    def __init__(self, *, step: float, cells: int, count: int, side: int) -> None:
        self.step, self.cells, self.count, self.side = step, cells, count, side
        edge = step * cells
        reach = count * edge**2 / 8 + _REACH * math.sqrt(count) * edge + 2 * edge
        self.nodes = min(math.ceil(reach / step), count * cells)
        left = step * np.arange(cells, -1, -1)  # edge - t
        self.chances = np.expm1(-left) / math.expm1(-edge)
        self.shrunk = np.exp(-step * np.arange(self.nodes + 1))
        self.lost = -np.expm1(-step * np.arange(self.nodes + 1))
        self.fall = math.exp(-step)
        self.bends = np.exp(step - left) * math.expm1(step) / (-4 * math.expm1(-edge))

    def values(self) -> Array:
        """Bounds at the nodes from 0 on."""
        found = np.zeros(self.nodes + 1)  # 1 - e^x at and above 0
        for _ in range(self.count):
            check_deadline()
            found = self._rounded(self._next(found))
        return found

    def _next(self, values: Array) -> Array:
        # below 0 by symmetry: exchanging the hypotheses turns t into edge - t
        cells, size = self.cells, len(values)
        mirrored = self._rounded(self.shrunk * values + self.lost)
        beyond = np.full(cells, values[-1] if self.side > 0 else 0.0)
        known = np.concatenate((mirrored[cells:0:-1], values, beyond))
        best = values.copy()  # the coin of t = 0 tells nothing
        before, gap = values, values - known[2 * cells :]
        for place in range(1, cells + 1):
            start = cells - place
            low = known[start + cells : start + cells + size]
            wide = known[start : start + size] - low
            value = low + self.chances[place] * wide
            if self.side > 0:
                bend = self.bends[place] * np.maximum(wide - self.fall * gap, 0.0)
                np.maximum(best, np.maximum(before, value) + bend, out=best)
                before, gap = value, wide
            else:
                np.maximum(best, value, out=best)
        return best

    def _rounded(self, values: Array) -> Array:
        return np.clip(values * (1 + self.side * _SLACK), 0.0, 1.0)


def _between(epsilons: Array, step: float, lower: Array, upper: Array) -> Array:
    """Lower bounds between nodes: a convex function lies above its secants, made longer.

    lower, upper: bounds at the nodes from 0 on; the function is convex in e^epsilon.
    """
    ends = len(lower) - 1
    low, high = np.append(lower, [0.0, 0.0]), np.append(upper, [upper[-1]] * 2) * (1 + 4 * _SLACK)
    place = np.clip(epsilons, 0.0, step * (ends + 1)) / step
    node = np.minimum(np.floor(place), ends).astype(np.int64)
    after, before = step * (place - node), step * (node + 1 - place)
    left = np.expm1(after) / -math.expm1(-step)
    right = -np.expm1(-before) / math.expm1(step)
    one, two, three = low[node], low[node + 1], high[np.minimum(node + 2, ends + 2)]
    by_left = one - left * np.maximum(high[np.maximum(node - 1, 0)] - one, 0.0)
    by_right = two - right * (three - two)
    found = np.maximum.reduce((np.where(node > 0, by_left, 0.0), by_right, two))
    found -= 16 * _SLACK * high[node]
    return np.where((epsilons >= 0) & (epsilons <= step * ends), np.maximum(found, 0.0), 0.0)


@functools.lru_cache(maxsize=64)
def one_coin(edge: Fraction, count: int) -> PrivacyProfile:
    """The profile of one coin, of those that may be tossed every time.

    Of several, that whose epsilon is nowhere far from the largest at three deltas.

    Bound       lower: of one mechanism of bounded range.
    Source      docs/proofs/bounded_range.md, step 1.
    """
    held = float_below(edge) * (1 - _SLACK)
    hits = np.arange(count + 1)
    chances = np.expm1((_COINS - 1) * held) / math.expm1(-held)
    pairs = []
    for share, chance in zip(_COINS, chances, strict=True):
        masses = scipy.stats.binom.pmf(hits, count, chance)
        pairs.append((masses, masses * np.exp((count * (1 - share) - hits) * held)))
    first = float(chances[largest_pair(pairs)])
    second = 1 / (1 + (1 - first) / first * math.exp(held))
    return finite_pair([first, 1 - first], [second, 1 - second])
