"""Shuffled answers of randomized response: delta from both sides, for any number of categories."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import heapq
import math

import numpy as np

from unacorda.accounting.amplification.blankets import (
    LARGEST_EPSILON,
    CountLaw,
    at_least,
    delta_of_shuffled_reports,
    log_binomial,
    lower_delta_of_three_categories,
)
from unacorda.errors import InvalidParameter
from unacorda.privacy.conversions.arguments import Real, cached, non_negative, whole
from unacorda.privacy.enclosure import context, float_down, float_up, mpf

_UNIT = 2.0**-53
_REACH = 40.0
"""Roots of the mean around it that are summed: what is beyond is below 1e-300."""


def delta_of_shuffled_response(
    local_epsilon: Real, *, categories: int, count: int, epsilon: Real
) -> float:
    r"""Bounds delta, at `epsilon`, of `count` shuffled answers of k-ary randomized response.

    Statement   delta_of_shuffled_reports with the total variation distance
                (e^{eps0} - 1)/(e^{eps0} + k - 1); for two categories the largest of all datasets.
    Bound       upper, rounded up, under replacement. With three categories or more it holds as
                well for the reports that docs/proofs/local.md, Section 7, prices as these.
    Edges       epsilon >= local_epsilon -> 0.0; local_epsilon above 30 -> 1.0, not computed.
    Source      delta_of_shuffled_bits, delta_of_shuffled_reports.

    >>> delta_of_shuffled_response(1.0, categories=5, count=1_000, epsilon=0.1) < 5e-6
    True
    """
    non_negative(local_epsilon=local_epsilon, epsilon=epsilon)
    k = _categories(categories)
    if k == 2:
        return delta_of_shuffled_bits(local_epsilon, count=count, epsilon=epsilon)
    if local_epsilon == 0:
        return 0.0
    grown = context().exp(min(mpf(local_epsilon), mpf(64)))
    return delta_of_shuffled_reports(
        local_epsilon,
        distance=min(1.0, float_up((grown - 1) / (grown + k - 1))),
        count=count,
        epsilon=epsilon,
    )


def lower_delta_of_shuffled_response(
    local_epsilon: Real, *, categories: int, count: int, epsilon: Real
) -> float:
    r"""Delta that `count` shuffled answers of k-ary randomized response have at least.

    Statement   of two categories, the two datasets are all zeros, and all zeros but a one; the
                attacker sees the number of ones, Bin(n - 1, s) + D or + 1 - D,
                s = 1/(1 + e^{eps0}). Of more, lower_delta_of_three_categories.
    Bound       lower, rounded down.
    Edges       epsilon >= local_epsilon -> 0.0;  more than 10^7 answers -> 0.0, not computed.
    Source      the definition of delta, for one pair of datasets.
    """
    non_negative(local_epsilon=local_epsilon, epsilon=epsilon)
    k = _categories(categories)
    if k > 2:
        return lower_delta_of_three_categories(
            local_epsilon, categories=k, count=count, epsilon=epsilon
        )
    n = whole(count=count)
    at, e0 = float_up(mpf(epsilon)), float_down(mpf(local_epsilon))
    if at >= e0 or n > 10**7 or e0 > 30:
        return 0.0
    s = 1 / (1 + math.exp(e0))
    mean, reach = (n - 1) * s, _REACH * (math.sqrt(n * s) + 1)
    first, last = max(0, math.floor(mean - reach)), min(n - 1, math.ceil(mean + reach))
    log_pmf, error = log_binomial(n - 1, s, np.arange(first, last + 1.0))
    pmf = np.exp(log_pmf)
    more, same = np.append(0.0, pmf), np.append(pmf, 0.0)
    p, q = (1 - s) * more + s * same, s * more + (1 - s) * same
    slack = 4 * float(np.max(error)) + 64 * _UNIT
    found = 0.0
    for one, two in ((p, q), (q, p)):
        gap = one * (1 - slack) - math.exp(at) * two * (1 + slack)
        found = max(found, float(np.sum(np.maximum(gap, 0.0))))
    return max(0.0, found * (1 - 1e-9))


def _categories(categories: int) -> int:
    if whole(categories=categories) < 2:
        raise InvalidParameter("categories", categories, expected="a whole number, 2 or above")
    return int(categories)


# With m others of one, N = Bin(m, 1 - s) + Bin(n - 1 - m, s), s = 1/(1 + e^{eps0}), of masses f and
# tails F, the best event of the pair N + Bern(1 - s), N + Bern(s) is that of c ones or more, and
#
#     delta = max over c of a f(c - 1) - b F(c),    a = 1 - s - e^eps s, b = e^eps - 1,
#
# which rises while (a + b) f(c) > a f(c - 1): f is log-concave. The other order is that of m
# turned round. Datasets are taken together in ranges: of others in doubt the attacker is shown
# those answers that were not fair coins. docs/proofs/amplification.md, Section 10.

_KEPT_REACH = 10.0
"""Standard deviations of binomial laws that are kept."""
_UNLIKELY = 9.5
"""Standard deviations below the mean at which a number of fair coins is taken."""
_NEAR = 0.1
"""Ranges whose bound exceeds what one dataset attains by less are not cut further."""
_FAINT = 1e-17
"""Nor are those whose bound is below this: it is near what is missing of the laws."""
_MOST_RANGES = 400
_LARGEST_COUNT = 1 << 20


def delta_of_shuffled_bits(local_epsilon: Real, *, count: int, epsilon: Real) -> float:
    r"""Bounds delta, at `epsilon`, of `count` shuffled answers of binary randomized response.

    Statement   the largest of all datasets, as in the module.
    Bound       upper, rounded up; by ranges of datasets, cut until the largest bound exceeds what
                one dataset attains by a tenth.
    Edges       epsilon >= local_epsilon -> 0.0; local_epsilon above 30 -> 1.0, not computed; more
                than 2^20 answers count as 2^20.
    Source      docs/proofs/amplification.md, Section 10.

    >>> delta_of_shuffled_bits(1.0, count=1_000, epsilon=0.15) < 2e-7
    True
    """
    non_negative(local_epsilon=local_epsilon, epsilon=epsilon)
    local, at = float_up(mpf(local_epsilon)), float_down(mpf(epsilon))
    return _largest_delta(local, min(whole(count=count), _LARGEST_COUNT), at)


@cached
def _largest_delta(local: float, n: int, epsilon: float) -> float:
    if epsilon >= local:
        return 0.0
    if local > LARGEST_EPSILON:
        return 1.0
    other = float_down(1 / (1 + context().exp(mpf(local))))
    best = _event_of(n - 1, 0, 0, other).delta(epsilon)
    ranges = [(-_delta_of_range(0, n - 1, n, other, epsilon), 0, n - 1)]
    for _ in range(_MOST_RANGES):
        bound, low, high = ranges[0]
        if low == high or -bound <= max(best * (1 + _NEAR), _FAINT):
            break
        middle = (low + high) // 2
        heapq.heapreplace(ranges, (-_delta_of_range(low, middle, n, other, epsilon), low, middle))
        upper = -_delta_of_range(middle + 1, high, n, other, epsilon)
        heapq.heappush(ranges, (upper, middle + 1, high))
    return min(1.0, -ranges[0][0])


def _delta_of_range(low: int, high: int, n: int, other: float, epsilon: float) -> float:
    """Delta where from `low` to `high` of the n - 1 others are of one, from above."""
    doubtful = high - low
    ones, zeros = low, n - 1 - high
    if not doubtful:
        return _event_of(ones, zeros, 0, other).delta(epsilon)
    blind = 2 * other
    mean, spread = doubtful * blind, math.sqrt(doubtful * blind * (1 - blind))
    coins = max(0, math.floor(mean - _UNLIKELY * spread))
    found = _event_of(ones, zeros, coins, other).delta(epsilon)
    if coins:
        fewer = at_least(doubtful, 1 - blind, np.asarray(doubtful - coins + 1.0))
        found += float(fewer) * (1 + 1e-9)
    return found


class _Event:
    """The law of the number of ones among others, as two summands within some deviations.

    others: ones, zeros and fair coins among them; tails: of the second summand.
    """

    def __init__(self, ones: int, zeros: int, coins: int, other: float) -> None:
        self.others, self.other = (ones, zeros, coins), other
        self.first = CountLaw.binomial(ones, other, reach=_KEPT_REACH).turned(ones)
        self.second = CountLaw.binomial(zeros, other, reach=_KEPT_REACH).plus(
            CountLaw.binomial(coins, 0.5, reach=_KEPT_REACH)
        )
        self.tails = np.append(np.cumsum(self.second.masses[::-1])[::-1], 0.0)
        terms = len(self.first.masses) + len(self.second.masses) + 8
        self.error = self.first.error + self.second.error + 4 * terms * _UNIT

    def delta(self, epsilon: float) -> float:
        """The largest of a f(c - 1) - b F(c), from above."""
        grown = math.exp(epsilon)
        slope = math.expm1(epsilon)
        gain = 1 - self.other - grown * self.other + 8 * _UNIT * (1 + grown * self.other)
        if gain <= 0:
            return 0.0
        middle, width = round(self._middle(gain, gain + slope)), 4
        most = sum(self.others) + 1
        while True:
            low, high = max(0, middle - width), min(most, middle + width)
            masses = np.array([self._mass(c) for c in range(low - 1, high + 1)])
            rising = (gain + slope) * masses[1:] * (1 - self.error) >= gain * masses[:-1] * (
                1 + self.error
            )
            falling = (gain + slope) * masses[1:] * (1 + self.error) <= gain * masses[:-1] * (
                1 - self.error
            )
            # delta rises from c to c + 1, or falls: what is outside is no more than what is inside
            if (low == 0 or rising[0]) and (high == most or falling[-1]):
                break
            width *= 4
        outside = self.first.edge + self.second.edge
        kept = masses[1:] * (1 - self.error)
        tails = self._tail(high) * (1 - self.error) + np.append(np.cumsum(kept[-2::-1])[::-1], 0.0)
        found = gain * (masses[:-1] * (1 + self.error) + outside) - slope * tails
        return max(0.0, float(np.max(found))) * (1 + 16 * _UNIT) + 1e-300

    def _middle(self, gain: float, both: float) -> float:
        """About where delta is largest: the mean of the laws that are tilted by (a + b)/a."""
        tilt = both / gain

        def tilted(chance: float) -> float:
            return chance * tilt / (1 - chance + chance * tilt)

        ones, zeros, coins = self.others
        return (
            ones * tilted(1 - self.other) + zeros * tilted(self.other) + coins * tilted(0.5) + 0.5
        )

    def _mass(self, c: int) -> float:
        """P[N = c] within what is kept."""
        place = c - self.first.start - self.second.start  # of both indices, together
        one, two = self.first.masses, self.second.masses
        low, high = max(0, place - len(two) + 1), min(len(one), place + 1)
        if low >= high:
            return 0.0
        return float(one[low:high] @ two[place - high + 1 : place - low + 1][::-1])

    def _tail(self, c: int) -> float:
        """P[N >= c] within what is kept."""
        place = c - self.first.start - self.second.start
        one, tails = self.first.masses, self.tails
        index = np.clip(place - np.arange(len(one)), 0, len(tails) - 1)
        return float(one @ tails[index])


_event_of = functools.lru_cache(maxsize=256)(_Event)
