"""Shuffled local reports, all of one randomizer: delta, from both sides for randomized response.

Others' reports are a blanket for one. With a the excess of one law of the report over the other,
divided by e^{eps0} - 1, b that of the other over the one, and c what is left, the two laws are
e^{eps0} a + b + c and a + e^{eps0} b + c. Every other report is of a + b + e^{-eps0} c with the
mass of that, whatever its sender holds. So the attacker sees how many reports are of a, of b and
of c: t = t_a + t_b of both, r of c, and given these the likelihoods of t_a are
1 +- rho (2 t_a/t - 1) times a fair binomial one,

    rho = tanh(eps0/2) / (1 + (1 - l)/l (g r)/(h t)),    l, g, h: the masses of e^{eps0} a + b in
                                                         the report, of a + b and of c in others.

Everything here is proved in docs/proofs/amplification.md, Section 9.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import heapq
import itertools
import math
from dataclasses import dataclass

import numpy as np

from unacorda.accounting.profiles.boxes import Array
from unacorda.balls import Ball, ball, float_down, float_up, least
from unacorda.errors import InvalidParameter
from unacorda.extras import later
from unacorda.privacy.conversions.arguments import Real, cached, non_negative, share, whole

scipy = later("scipy")

_TRUSTED = 1e-9
"""Relative error granted to binomial masses, and to tails, which are SciPy's."""
_REACH = 9.5
"""Standard deviations around the mean that are looked at run by run."""
_FARTHEST = 38.0
"""And how many of them below it are, more coarsely: they decide deltas below 1e-16."""
_NEAR, _FAR, _LEFT = 80, 24, 8
"""Runs of numbers of reports: within the first, the second, and below them."""
_CUTS = np.array(
    [-30, -22, -17, -13, -_REACH, -7, -4.5, -3, -2.25, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2.25, 3]
)
"""Where numbers of reports of c are cut into runs, in standard deviations."""
_STEP = 0.01
"""The first stretch of overlaps, relative."""
_LARGEST_COUNT = 10**9
LARGEST_EPSILON = 30.0
"""Above it nothing is computed here."""
_SEEN = 10**7


def delta_of_shuffled_reports(
    local_epsilon: Real, *, distance: Real, count: int, epsilon: Real
) -> float:
    r"""Bounds delta, at `epsilon`, of `count` shuffled reports of one pure randomizer.

    distance: a bound of the total variation distance of the reports of any two inputs, at most
    tanh(local_epsilon/2).

    Statement   the largest, over the mass A of a, at most distance/(e^{eps0} - 1), of the delta of
                the module's pair with l = (e^{eps0} + 1) A, g = 2 A, h = e^{-eps0} (1 - l).
    Bound       upper, rounded up, under replacement; A is covered by stretches, t and r by runs.
    Edges       epsilon >= local_epsilon -> 0.0; local_epsilon above 30 -> 1.0, not computed; more
                than 1e9 reports count as 1e9.
    Source      docs/proofs/amplification.md, Section 9; Feldman, McMillan, Talwar 2022,
                arXiv:2208.04591; Wang et al. 2024, arXiv:2304.05007 (pairs with a distance).

    >>> delta_of_shuffled_reports(1.0, distance=0.3, count=1_000, epsilon=0.15) < 1e-6
    True
    """
    non_negative(local_epsilon=local_epsilon, epsilon=epsilon)
    share(distance=distance)
    local, at = float_up(ball(local_epsilon)), float_down(ball(epsilon))
    n = min(whole(count=count), _LARGEST_COUNT)
    return _largest_delta(local, float_up(ball(distance)), n, at)


@cached
def _largest_delta(local: float, distance: float, n: int, epsilon: float) -> float:
    if epsilon >= local or distance == 0:
        return 0.0
    if local > LARGEST_EPSILON:
        return 1.0
    grown = ball(local).exp()
    most = least([ball(distance) / ball(local).expm1(), 1 / (grown + 1)])
    bound, passed, step = 0.0, ball(0.0), ball(_STEP)
    lean = float_up((ball(local) / 2).tanh())

    def blanket(overlap: Ball, clones: Ball) -> float:
        own = (grown + 1) * overlap
        pair = _Blanket(
            own=min(1.0, float_up(own)),
            lean=lean,
            clones=float_down(clones),
            common=float_down((1 - own) / grown),
        )
        return pair.delta(n - 1, epsilon)

    while passed < (2 * grown / (grown + 1)).log():
        further = 2 * passed + step
        bound = max(bound, blanket(most * (-passed).exp(), 2 * most * (-further).exp()))
        passed = further
    last = most * (-passed).exp()
    return max(bound, blanket(last, (grown + 1) * last / grown))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Blanket:
    """The pair of the module: own and lean of the one report, clones and common of each other."""

    own: float
    lean: float
    clones: float
    common: float

    def delta(self, others: int, epsilon: float) -> float:
        """Delta from above: it falls in t given rho, and in r, so runs count as their worst."""
        mean, spread = _moments(others, self.clones)
        far, near = (max(1.0, math.floor(mean - r * spread)) for r in (_FARTHEST, _REACH))
        stop = min(others + 1.0, math.ceil(mean + _REACH * spread) + 2)
        places = (1.0, far, near, stop)
        runs = [
            np.linspace(*pair, many)
            for pair, many in zip(itertools.pairwise(places), (_LEFT, _FAR, _NEAR), strict=True)
        ]
        firsts = np.unique(np.floor(np.concatenate(runs)))
        ends = np.append(firsts[1:], others + 2.0)  # t is at most n
        one = _between(others, self.clones, firsts - 1, ends - 1)
        masses = self.own * one + (1 - self.own) * _between(others, self.clones, firsts, ends)
        last = ends - 1
        if self.own == 1 or self.common == 0:
            rho = np.full(len(firsts), self.lean)
            return self._sum(masses, _given(firsts, rho, epsilon))
        left = np.maximum(others - last, 0.0)  # reports that may be of c, at least
        chance = self.common / (1 - self.clones)
        middle, width = left * chance, np.sqrt(left * chance * (1 - chance))
        cuts = np.floor(middle[:, None] + width[:, None] * _CUTS).clip(0, left[:, None])
        cuts = np.concatenate((np.zeros((len(firsts), 1)), cuts), axis=1)
        ends = np.append(cuts[:, 1:], left[:, None] + 1, axis=1)
        shares = _between(left[:, None], chance, cuts, ends)
        odds = (1 - self.own) / self.own * self.clones / self.common * (1 - 1e-14)
        rho = self.lean / (1 + odds * cuts / last[:, None])
        given = _given(firsts[:, None], rho, epsilon)
        return self._sum(masses, np.sum(shares * given, axis=1))

    def _sum(self, masses: Array, given: Array) -> float:
        total = math.fsum(masses * given) * (1 + _TRUSTED)
        return min(1.0, total + 1e-300)


def lower_delta_of_three_categories(
    local_epsilon: Real, *, categories: int, count: int, epsilon: Real
) -> float:
    r"""Delta that shuffled answers of randomized response with 3 or more categories have at least.

    Statement   one answer is of the first or of the second category, all others of the third; the
                attacker sees how many answers are of the first, and of the second.
    Bound       lower, rounded down.
    Edges       epsilon >= local_epsilon -> 0.0; local_epsilon above 30 or more than 10^7 answers
                -> 0.0, not computed.
    Source      the definition of delta, for one pair of datasets; docs/proofs/amplification.md.
    """
    non_negative(local_epsilon=local_epsilon, epsilon=epsilon)
    n, k = whole(count=count), whole(categories=categories)
    at, local = float_up(ball(epsilon)), float_down(ball(local_epsilon))
    if at >= local or local > LARGEST_EPSILON or n > _SEEN or k < 3:
        return 0.0
    each = 1 / (math.exp(local) + k - 1)
    own = (math.exp(local) + 1) * each
    mean, spread = _moments(n - 1, 2 * each)
    first = max(1.0, math.floor(mean - _REACH * spread))
    t = np.arange(first, min(float(n), mean + _REACH * spread + 2) + 1)
    less, error = _binomial(n - 1, 2 * each, t - 1)
    same, other = _binomial(n - 1, 2 * each, t)
    shown, hidden = own * less, (1 - own) * same
    masses = shown + hidden
    rho = (
        math.tanh(local / 2)
        * (1 - 1e-13)
        * np.divide(shown, masses, out=np.zeros_like(masses), where=masses > 0)
    )
    rho *= (1 - error) * (1 - other)
    found = math.fsum(masses * (1 - error - other) * _given(t, rho, at, sign=-1))
    return max(0.0, found * (1 - _TRUSTED))


def _moments(trials: int, chance: float) -> tuple[float, float]:
    return trials * chance, math.sqrt(trials * chance * (1 - chance))


def _binomial(trials: int, chance: float, x: Array) -> tuple[Array, float]:
    """Probabilities within the trials, else 0, and their relative error."""
    inside = np.clip(x, 0.0, float(trials))
    logs, error = log_binomial(trials, chance, inside)
    found: Array = np.where(x == inside, np.exp(logs), 0.0)
    return found, 2 * float(np.max(error))


def at_least(trials: Array | float, chance: float, k: Array) -> Array:
    """P[count >= k] of a binomial law.

    Bound       none: SciPy's error is the caller's to add.
    Source      the incomplete beta function.
    """
    inside = (k > 0) & (k <= trials)
    a, b = np.where(inside, k, 1.0), np.where(inside, trials - k + 1.0, 1.0)
    found: Array = np.where(inside, scipy.special.betainc(a, b, chance), np.where(k <= 0, 1.0, 0.0))
    return found


def _between(trials: Array | float, chance: float, first: Array, end: Array) -> Array:
    """P[first <= count < end], from above, by the smaller of both tails."""
    high = first > trials * chance
    over, later = at_least(trials, chance, first), at_least(trials, chance, end)
    under = at_least(trials, 1 - chance, trials - end + 1)
    sooner = at_least(trials, 1 - chance, trials - first + 1)
    mass = np.where(high, over - later, under - sooner)
    found: Array = np.maximum(mass, 0.0) + _TRUSTED * np.where(high, over, under)
    return found


def _given(t: Array, rho: Array, epsilon: float, *, sign: int = 1) -> Array:
    """Delta given t and rho, from above, or from below with sign -1: of the best event t_a >= x.

    The sum of the fair binomial terms from x on, times 2 t_a/t - 1, is x/t times the first.
    """
    cut = math.tanh(epsilon / 2) / np.maximum(rho, 1e-300)
    x = np.ceil(t * (1 + np.minimum(cut, 2.0)) / 2)
    inside = x <= t
    trials, place = np.broadcast_to(t, x.shape)[inside], x[inside]
    first = np.zeros_like(x)
    second = np.zeros_like(x)
    logs, _ = log_binomial(trials, 0.5, place)
    first[inside] = rho[inside] * (1 + math.exp(epsilon)) * place / trials * np.exp(logs)
    tail = scipy.special.betainc(place, trials - place + 1.0, 0.5)
    second[inside] = math.expm1(epsilon) * tail
    gap = first * (1 + sign * _TRUSTED) - second * (1 - sign * _TRUSTED)
    found: Array = np.maximum(gap, 0.0)
    return found


_UNIT = 2.0**-53


def log_binomial(trials: int | Array, chance: float, x: Array) -> tuple[Array, Array]:
    """The log of the binomial probabilities and a bound of their error.

    By x log((n p)/x) + (n - x) log(n q/(n - x)) and Stirling's remainders: its parts are as small
    as the answer near the mean.

    Bound       both, by the error.
    Source      Loader 2000, "Fast and accurate computation of binomial probabilities".
    """
    n = np.asarray(trials, dtype=np.float64)
    y = n - x
    inner = (x > 0) & (y > 0)
    a, b = np.where(inner, x, 1.0), np.where(inner, y, 1.0)
    remainders = _stirling(np.maximum(n, 2.0)) - _stirling(a) - _stirling(b)
    parts = -_deviance(a, np.where(inner, n * chance, 1.0)) - _deviance(
        b, np.where(inner, n * (1 - chance), 1.0)
    )
    value = remainders + parts + 0.5 * np.log(np.maximum(n, 2.0) / (2 * np.pi * a * b))
    edge = np.where(x > 0, n * math.log(chance), n * math.log1p(-chance))
    result = np.where(inner, value, edge)
    # n p and n (1 - p) carry one rounding each, which moves the deviance by |x - n p| of it
    error = _UNIT * (256 + 64 * np.abs(result) + 32 * np.abs(a - n * chance))
    return result, error + 1e-13


def _deviance(x: Array, mean: Array) -> Array:
    """The deviance x log(x/mean) + mean - x."""
    t = (x - mean) / mean
    near = np.abs(t) < 0.05
    small = np.where(near, t, 0.0)
    # (1 + t) log(1 + t) - t = sum over k >= 2 of (-1)^k t^k / (k (k - 1))
    series = np.zeros_like(small)
    for k in range(18, 1, -1):
        series = series * small + (1.0 if k % 2 == 0 else -1.0) / (k * (k - 1))
    far = scipy.special.xlogy(1 + t, 1 + t) - t
    value: Array = mean * np.where(near, series * small**2, far)
    return value


def _stirling(x: Array) -> Array:
    """log(x!) - (x log x - x + log(2 pi x)/2)."""
    big = np.maximum(x, 16.0)
    inverse = 1 / big
    square = inverse**2
    tail = square * (1 / 1260 - square * (1 / 1680 - square * (1 / 1188)))
    series = inverse * (1 / 12 - square * (1 / 360) + square * tail)
    exact = scipy.special.gammaln(x + 1) - (x * np.log(x) - x + 0.5 * np.log(2 * np.pi * x))
    value: Array = np.where(x < 16, exact, series)
    return value


@dataclass(frozen=True, slots=True)
class CountLaw:
    """Masses of a law of counts, from `start` on, to a relative error.

    edge: how much of a mass may be missing where another count is added: what is left out of each
    summand lies where its law, which is unimodal, is below the masses at the ends.
    """

    start: int
    masses: Array
    error: float
    edge: float

    @classmethod
    def binomial(cls, trials: int, chance: float, *, reach: float) -> CountLaw:
        """The binomial law, within `reach` standard deviations and a few counts.

        Bound       both, by the error and the edge.
        Source      log_binomial.
        """
        mean, spread = trials * chance, math.sqrt(trials * chance * (1 - chance))
        start = max(0, math.floor(mean - reach * spread - reach))
        stop = min(trials, math.ceil(mean + reach * spread + reach))
        logs, error = log_binomial(trials, chance, np.arange(start, stop + 1.0))
        masses = np.exp(logs)
        edge = max(float(masses[0]) * (start > 0), float(masses[-1]) * (stop < trials))
        return cls(start, masses, 2 * float(np.max(error)), edge)

    def plus(self, other: CountLaw) -> CountLaw:
        """The law of the sum of two independent counts.

        Bound       both, by the error and the edge.
        Source      the definition.
        """
        masses = np.convolve(self.masses, other.masses)
        terms = min(len(self.masses), len(other.masses))
        error = self.error + other.error + 2 * (terms + 4) * _UNIT
        return CountLaw(self.start + other.start, masses, error, self.edge + other.edge)

    def turned(self, whole: int) -> CountLaw:
        """The law of `whole` less the count.

        Bound       both, by the error and the edge.
        Source      the definition.
        """
        start = whole - self.start - len(self.masses) + 1
        return CountLaw(start, self.masses[::-1], self.error, self.edge)


_SUMMED = 40.0
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
    grown = ball(min(local_epsilon, 64)).exp()
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
    at, e0 = float_up(ball(epsilon)), float_down(ball(local_epsilon))
    if at >= e0 or n > 10**7 or e0 > 30:
        return 0.0
    s = 1 / (1 + math.exp(e0))
    mean, reach = (n - 1) * s, _SUMMED * (math.sqrt(n * s) + 1)
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
_CLOSE = 0.1
"""Ranges whose bound exceeds what one dataset attains by less are not cut further."""
_FAINT = 1e-17
"""Nor are those whose bound is below this: it is near what is missing of the laws."""
_MOST_RANGES = 400
_LARGEST_BITS = 1 << 20


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
    local, at = float_up(ball(local_epsilon)), float_down(ball(epsilon))
    return _largest_delta_of_bits(local, min(whole(count=count), _LARGEST_BITS), at)


@cached
def _largest_delta_of_bits(local: float, n: int, epsilon: float) -> float:
    if epsilon >= local:
        return 0.0
    if local > LARGEST_EPSILON:
        return 1.0
    other = float_down(1 / (1 + ball(local).exp()))
    best = _event_of(n - 1, 0, 0, other).delta(epsilon)
    ranges = [(-_delta_of_range(0, n - 1, n, other, epsilon), 0, n - 1)]
    for _ in range(_MOST_RANGES):
        bound, low, high = ranges[0]
        if low == high or -bound <= max(best * (1 + _CLOSE), _FAINT):
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
