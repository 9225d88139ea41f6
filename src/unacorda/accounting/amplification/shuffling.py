"""Amplification by shuffling: local reports whose senders are forgotten.

One unit's report hides among clones. Each of the other n - 1 reports is, with probability g and
whatever its sender holds, drawn from the two laws that the one report may have, evenly. Given the
number c of clones the attacker sees how many of c + 1 reports came from the first law: A + D or
A + 1 - D with A ~ Bin(c, 1/2) and D a coin with odds e^{eps0}. In shares u = x/(c + 1),

    P(x) - e^e Q(x) = 2 Bin(c+1, 1/2)(x) (2p - 1)(1 + e^e) (u - u*),
    u* = (e^e p - (1 - p)) / ((2p - 1)(1 + e^e)),       p = e^{eps0}/(1 + e^{eps0}),

so delta given c is one sum of positive terms. It falls in c (one more clone can be added by the
attacker), hence runs of c are bounded by their first member. The pair is symmetric: one direction.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from unacorda.accounting.amplification.binomials import log_binomial, mass_between
from unacorda.privacy.conversions.arguments import Real, cached, non_negative, whole
from unacorda.privacy.enclosure import context, float_down, float_up, mpf

_Array = npt.NDArray[np.float64]
_UNIT = 2.0**-53
_LARGEST_COUNT = 10**9
_RUNS = 128
_ENUMERATED = 512
_BLOCKS = 128
"""Blocks of places in a standard deviation, where there are more places than that."""
_REACH = 9.5
"""Standard deviations of the number of clones that are looked at run by run."""


def delta_of_shuffled(local_epsilon: Real, *, count: int, epsilon: Real) -> float:
    r"""Delta, at `epsilon`, of `count` shuffled reports that are each local_epsilon-DP.

    Statement   that of the pair of the module with g = e^{-local_epsilon}.
    Bound       upper, rounded up, under replacement; also where senders are put in random order
                first, and later ones choose their randomizer after seeing earlier reports.
    Edges       epsilon >= local_epsilon -> 0.0;  more than 1e9 reports count as 1e9.
    Source      Feldman, McMillan, Talwar 2021, arXiv:2012.12803, Section 3 (counts of clones).

    >>> delta_of_shuffled(1.0, count=10_000, epsilon=0.15) < 1e-6
    True
    """
    non_negative(local_epsilon=local_epsilon, epsilon=epsilon)
    clones = float_down(context().exp(-mpf(local_epsilon)))
    return _delta(
        float_up(mpf(local_epsilon)), whole(count=count), clones, float_down(mpf(epsilon))
    )


@cached
def _delta(local_epsilon: float, count: int, clones: float, epsilon: float) -> float:
    """E over c ~ Bin(count - 1, clones) of the delta given c, from above."""
    if epsilon >= local_epsilon:
        return 0.0
    trials = min(count, _LARGEST_COUNT) - 1
    mean, spread = trials * clones, math.sqrt(trials * clones * (1 - clones))
    start = max(0, math.floor(mean - _REACH * spread))
    while start > 0 and _log_tail(trials, clones, start) > -750:
        start = max(0, start - 1 - math.floor(2 * spread))
    near = max(start, math.floor(mean - _REACH * spread))
    stop = min(trials, math.ceil(mean + _REACH * spread) + 1)
    if stop - start + 1 <= 2 * _RUNS:
        firsts = np.arange(start, stop + 1, dtype=np.int64)
    else:
        runs = [np.linspace(start, near, 33), np.linspace(near, stop, _RUNS)]
        firsts = np.unique(np.floor(np.concatenate(runs)).astype(np.int64))
    ends = np.append(firsts[1:], trials + 1)
    total = 0.0
    for first, end in zip(firsts.tolist(), ends.tolist(), strict=True):
        total += mass_between(trials, clones, first, end) * _given(local_epsilon, first, epsilon)
    left = math.exp(_log_tail(trials, clones, start)) if start > 0 else 0.0
    least = math.nextafter((total + left) * (1 + 1e-12), math.inf)
    return min(1.0, least)


def _log_tail(trials: int, clones: float, start: int) -> float:
    """An upper bound of log P[c < start], by Chernoff."""
    share_below = (start - 1) / trials
    if share_below >= clones:
        return 0.0
    relative = (1 - share_below) * math.log((1 - share_below) / (1 - clones))
    if share_below > 0:
        relative += share_below * math.log(share_below / clones)
    return -trials * relative * (1 - 1e-9)


def _given(local_epsilon: float, clones: int, epsilon: float) -> float:
    """Delta given the number of clones, from above."""
    n = clones + 1
    lean = math.tanh(local_epsilon / 2)  # 2p - 1
    # (e^e p - (1 - p))/((2p-1)(1 + e^e)) = 1/2 + tanh(e/2)/(2 (2p - 1))
    cut = 0.5 + math.tanh(epsilon / 2) / (2 * lean)
    if cut > 1 + 1e-12:
        return 0.0
    spread = math.sqrt(n) / 2
    first = max(0, math.floor(n * cut) - 1)
    last = min(n, math.ceil(max(first, n / 2) + 12 * spread + 40))
    block = max(1, math.floor(spread / _BLOCKS))
    x = np.arange(first, last + 1, block, dtype=np.float64)
    last = min(n, int(x[-1]) + block - 1)
    log_pmf, error = log_binomial(n, 0.5, x)
    height = 2 * lean * (1 + math.exp(epsilon))
    over = np.maximum(x / n - cut, 0.0) + 8 * _UNIT
    terms = np.exp(log_pmf + error) * _block_sums(n, x, over, block) * height
    total = math.fsum(terms)
    if last < n:  # beyond, each binomial term is at most this share of the one before
        shrink = (n - last) / (last + 1)
        total += math.exp(float(log_pmf[-1])) * height * shrink / (1 - shrink)
    return min(1.0, total * (1 + 1e-12) + 1e-300)


def _block_sums(trials: int, x: _Array, over: _Array, block: int) -> _Array:
    """Sums over the next `block` places of over + j/n times how the binomial term has changed.

    The terms' ratio falls, so they lie below the powers of the first ratio, and these below the
    chord of the block.
    """
    if block == 1:
        return over
    ratio = np.maximum(trials - x, 0.0) / (x + 1)
    drop = 1 - np.power(ratio, block)
    m = float(block)
    zeroth = m - drop * (m - 1) / 2
    first = m * (m - 1) / 2 - drop * (m - 1) * (2 * m - 1) / 6
    sums: _Array = (over * zeroth + first / trials) * (1 + 1e-12)
    return sums
