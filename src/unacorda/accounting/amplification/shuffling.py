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
from scipy import special

from unacorda.errors import InvalidParameter
from unacorda.privacy.conversions.arguments import Real, cached, non_negative, share, whole
from unacorda.privacy.enclosure import context, float_down, float_up, mpf

__all__ = [
    "approx_dp_of_shuffled",
    "delta_of_shuffled",
    "delta_of_shuffled_response",
    "lower_delta_of_shuffled_response",
]

_Array = npt.NDArray[np.float64]
_UNIT = 2.0**-53
_LARGEST_COUNT = 10**9
_RUNS = 128
_ENUMERATED = 512
_BLOCKS = 128
"""Blocks of places in a standard deviation, where there are more places than that."""
_REACH = 9.5
"""Standard deviations of the number of clones that are looked at run by run."""


def approx_dp_of_shuffled(epsilon: Real, *, count: int, delta: Real) -> float:
    r"""Epsilon, at `delta`, of `count` shuffled reports that are each epsilon-DP.

    Statement   log(1 + (e^eps - 1)/(e^eps + 1) (8 sqrt(e^eps log(4/delta)/n) + 8 e^eps/n)), and
                never above epsilon itself; delta_of_shuffled is smaller by a factor.
    Bound       upper, rounded up, under replacement.
    Edges       epsilon > log(n/(16 log(2/delta))) -> InvalidParameter: the theorem is silent.
    Source      Feldman, McMillan, Talwar 2021, arXiv:2012.12803, Thm. 3.1.

    >>> round(approx_dp_of_shuffled(1.0, count=10_000, delta=1e-6), 4)
    0.214
    """
    non_negative(epsilon=epsilon)
    share(delta=delta)
    n, mp = whole(count=count), context()
    if not 0 < delta < 1:
        raise InvalidParameter("delta", delta, expected="a number strictly between 0 and 1")
    grown = mp.exp(mpf(epsilon))
    if grown * 16 * mp.log(2 / mpf(delta)) > n:
        raise InvalidParameter(
            "epsilon",
            epsilon,
            expected="at most log(count / (16 log(2/delta))); delta_of_shuffled has no such limit",
        )
    hidden = 8 * mp.sqrt(grown * mp.log(4 / mpf(delta)) / n) + 8 * grown / n
    return min(float_up(mpf(epsilon)), float_up(mp.log1p(mp.tanh(mpf(epsilon) / 2) * hidden)))


def delta_of_shuffled(local_epsilon: Real, *, count: int, epsilon: Real) -> float:
    r"""Delta, at `epsilon`, of `count` shuffled reports that are each local_epsilon-DP.

    Statement   that of the pair of the module with g = e^{-local_epsilon}.
    Bound       upper, rounded up, under replacement; also where later senders choose their
                randomiser after seeing earlier reports.
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


def delta_of_shuffled_response(
    local_epsilon: Real, *, categories: int, count: int, epsilon: Real
) -> float:
    r"""Delta, at `epsilon`, of `count` shuffled answers of k-ary randomised response.

    Statement   l times that of the pair of the module with g = 2/(e^{eps0} + k - 1): an answer is
                blind with probability k/(e^{eps0} + k - 1), and of two given categories with
                l = (e^{eps0} + 1)/(e^{eps0} + k - 1). For two categories and at most 512 answers
                exactly: the worst of all tables, by the law of the number of ones.
    Bound       upper, rounded up, under replacement: in the general form the attacker is told
                which answers are not blind, and whether the one answer is of the two categories.
    Edges       epsilon >= local_epsilon -> 0.0.
    Source      Balle, Bell, Gascon, Nissim 2019, arXiv:1903.02837 (the blanket); Feldman,
                McMillan, Talwar 2021, Section 5.
    """
    non_negative(local_epsilon=local_epsilon, epsilon=epsilon)
    if whole(categories=categories) < 2:
        raise InvalidParameter("categories", categories, expected="a whole number, 2 or above")
    mp = context()
    grown = mp.exp(mpf(local_epsilon))
    total = grown + categories - 1
    found = _delta(
        float_up(mpf(local_epsilon)),
        whole(count=count),
        float_down(2 / total),
        float_down(mpf(epsilon)),
    )
    bound = min(1.0, float_up(mpf(found) * (grown + 1) / total))
    if categories == 2 and count <= _ENUMERATED and local_epsilon <= 30:
        bound = min(bound, _delta_of_counts(float(local_epsilon), int(count), float(epsilon)))
    return bound


def lower_delta_of_shuffled_response(local_epsilon: Real, *, count: int, epsilon: Real) -> float:
    r"""Delta that `count` shuffled answers of binary randomised response have at least.

    Statement   the two tables are all zeros, and all zeros but a one; the attacker sees the
                number of ones, Bin(n - 1, s) + D or + 1 - D, s = 1/(1 + e^{eps0}).
    Bound       lower, rounded down.
    Edges       epsilon >= local_epsilon -> 0.0;  more than 10^7 answers -> 0.0, not computed.
    Source      the definition of delta, for one pair of tables.
    """
    non_negative(local_epsilon=local_epsilon, epsilon=epsilon)
    n = whole(count=count)
    at, e0 = float_up(mpf(epsilon)), float_down(mpf(local_epsilon))
    if at >= e0 or n > 10**7 or e0 > 30:
        return 0.0
    s = 1 / (1 + math.exp(e0))
    x = np.arange(0, n + 1, dtype=np.float64)
    log_pmf, error = _log_binomial(n - 1, s, x[:-1])
    pmf = np.exp(log_pmf)
    first, second = np.append(0.0, pmf), np.append(pmf, 0.0)
    p, q = (1 - s) * first + s * second, s * first + (1 - s) * second
    slack = 4 * float(np.max(error)) + 64 * _UNIT
    found = 0.0
    for one, two in ((p, q), (q, p)):
        gap = one * (1 - slack) - math.exp(at) * two * (1 + slack)
        found = max(found, float(np.sum(np.maximum(gap, 0.0))))
    return max(0.0, found * (1 - 1e-9))


@cached
def _delta_of_counts(local_epsilon: float, count: int, epsilon: float) -> float:
    """The worst delta over all tables of bits, from above: the number of ones is all one sees."""
    local = math.nextafter(local_epsilon, math.inf)
    grown, s = math.exp(epsilon) * (1 - 8 * _UNIT), 1 / (1 + math.exp(local))
    slack = 256 * (count * (1 + local) + 64) * _UNIT
    found = 0.0
    for ones in range(count):
        true, false = np.arange(ones + 1.0), np.arange(float(count - ones))
        laws = [
            np.exp(_log_binomial(len(x) - 1, chance, x)[0])
            for x, chance in ((true, 1 - s), (false, s))
        ]
        others = np.convolve(laws[0], laws[1])
        first, second = np.append(0.0, others), np.append(others, 0.0)
        p, q = (1 - s) * first + s * second, s * first + (1 - s) * second
        for one, two in ((p, q), (q, p)):
            gap = one * (1 + slack) - grown * two * (1 - slack)
            found = max(found, math.fsum(np.maximum(gap, 0.0)))
    return min(1.0, found + 1e-290)


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
        total += _mass(trials, clones, first, end) * _given(local_epsilon, first, epsilon)
    left = math.exp(_log_tail(trials, clones, start)) if start > 0 else 0.0
    least = math.nextafter((total + left) * (1 + 1e-12), math.inf)
    return min(1.0, least)


def _mass(trials: int, clones: float, first: int, end: int) -> float:
    """P[first <= c < end], from above."""
    middle = trials * clones
    if first > middle:  # the chance of `first` or more, no cancellation of near-ones
        mass = _at_least(trials, clones, first) - (
            _at_least(trials, clones, end) if end <= trials else 0.0
        )
        size = _at_least(trials, clones, first)
    else:
        size = _at_most(trials, clones, end - 1)
        mass = size - (_at_most(trials, clones, first - 1) if first > 0 else 0.0)
    return min(1.0, max(0.0, mass) + 1e-11 * size)


def _at_most(trials: int, clones: float, k: int) -> float:
    return 1.0 if k >= trials else float(special.betainc(trials - k, k + 1, 1 - clones))


def _at_least(trials: int, clones: float, k: int) -> float:
    return 1.0 if k <= 0 else float(special.betainc(k, trials - k + 1, clones))


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
    log_pmf, error = _log_binomial(n, 0.5, x)
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


def _log_binomial(trials: int, chance: float, x: _Array) -> tuple[_Array, _Array]:
    """The log of the binomial probabilities and a bound of their error.

    By x log((n p)/x) + (n - x) log(n q/(n - x)) and Stirling's remainders, as Loader 2000: its
    parts are as small as the answer near the mean.
    """
    n = float(trials)
    if trials == 0:
        return np.zeros_like(x), np.full_like(x, _UNIT)
    y = n - x
    inner = (x > 0) & (y > 0)
    a, b = np.where(inner, x, n / 2), np.where(inner, y, n / 2)
    remainders = _stirling(np.array([n]))[0] - _stirling(a) - _stirling(b)
    parts = -_deviance(a, n * chance) - _deviance(b, n * (1 - chance))
    value = remainders + parts + 0.5 * np.log(n / (2 * np.pi * a * b))
    edge = np.where(x > 0, n * math.log(chance), n * math.log1p(-chance))
    result = np.where(inner, value, edge)
    # n p and n (1 - p) carry one rounding each, which moves the deviance by |x - n p| of it
    error = _UNIT * (256 + 64 * np.abs(result) + 32 * np.abs(a - n * chance))
    return result, error + 1e-13


def _deviance(x: _Array, mean: float) -> _Array:
    """The deviance x log(x/mean) + mean - x."""
    t = (x - mean) / mean
    near = np.abs(t) < 0.05
    small = np.where(near, t, 0.0)
    # (1 + t) log(1 + t) - t = sum over k >= 2 of (-1)^k t^k / (k (k - 1))
    series = np.zeros_like(small)
    for k in range(18, 1, -1):
        series = series * small + (1.0 if k % 2 == 0 else -1.0) / (k * (k - 1))
    far = special.xlogy(1 + t, 1 + t) - t
    value: _Array = mean * np.where(near, series * small**2, far)
    return value


def _stirling(x: _Array) -> _Array:
    """log(x!) - (x log x - x + log(2 pi x)/2)."""
    big = np.maximum(x, 16.0)
    inverse = 1 / big
    square = inverse**2
    tail = square * (1 / 1260 - square * (1 / 1680 - square * (1 / 1188)))
    series = inverse * (1 / 12 - square * (1 / 360) + square * tail)
    exact = special.gammaln(x + 1) - (x * np.log(x) - x + 0.5 * np.log(2 * np.pi * x))
    value: _Array = np.where(x < 16, exact, series)
    return value
