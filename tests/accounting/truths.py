"""Questions whose answers are known from elsewhere: by enumeration, or in closed form, long.

Each is a function that asks the accountant and compares. They take some milliseconds each, and
what they compare with shares no code with the package.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

import mpmath
import numpy as np
from tests.accounting.finite_pairs import Pair, largest_delta, response

from unacorda import GDP, ZCDP, ApproxDP, PureDP
from unacorda.accounting import delta_interval, epsilon_interval, parallel, renyi, rho
from unacorda.accounting.filters import Filter
from unacorda.accounting.laws import of_points
from unacorda.accounting.pld.distribution import PrivacyLossDistribution
from unacorda.accounting.pld.stages import Part
from unacorda.accounting.prices import pure_epsilon
from unacorda.accounting.profiles import curves
from unacorda.accounting.profiles.noises import finite
from unacorda.privacy.estimates import Interval
from unacorda.privacy.events import (
    Approximate,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Exponential,
    Gaussian,
    Laplace,
    MatrixFactorization,
    NegativeBinomialTries,
    Pure,
    RandomizedResponse,
    TreeAggregation,
    TruncatedLaplace,
)
from unacorda.privacy.neighbors import AddRemove, Neighbors, ReplaceOne

__all__ = ["TRUTHS"]

MP = mpmath.mp.clone()
MP.dps = 30

TRUTHS: dict[str, Callable[[], None]] = {}


def _truth(ask: Callable[[], None]) -> Callable[[], None]:
    TRUTHS[ask.__name__.removeprefix("_")] = ask
    return ask


def _holds(found: Interval, true: Any, *, wide: float, error: float = 0.0) -> None:
    """The interval holds a number that is known within a relative error, and is so narrow."""
    assert MP.mpf(found.lower) <= true * (1 + error), "the lower end is above the truth"
    assert MP.mpf(found.upper) >= true * (1 - error), "the upper end is below the truth"
    assert found.upper - found.lower <= wide * max(found.upper, 1e-300)


def _not_below(upper: float, true: Any, *, within: float = math.inf) -> None:
    """A price that is no interval: not below the truth, and not far above it."""
    assert MP.mpf(upper) >= true, "below the truth"
    assert MP.mpf(upper) <= true * (1 + within)


# ---- normal noise ------------------------------------------------------------------------------


def _normal_delta(mu: Any, epsilon: Any) -> Any:
    mu, e = MP.mpf(mu), MP.mpf(epsilon)
    return MP.ncdf(mu / 2 - e / mu) - MP.exp(e) * MP.ncdf(-mu / 2 - e / mu)


@_truth
def _one_gaussian() -> None:
    found = delta_interval(Gaussian(noise_multiplier=1.0), epsilon=1)
    _holds(found, _normal_delta(1, 1), wide=1e-11)


@_truth
def _gaussians_of_two_scales() -> None:
    event = Gaussian(noise_multiplier=2.0) * 9 + Gaussian(noise_multiplier=4.0) * 3
    found = epsilon_interval(event, delta=1e-6)
    mu, delta = MP.sqrt(MP.mpf(9) / 4 + MP.mpf(3) / 16), MP.mpf(10) ** -6
    assert _normal_delta(mu, found.lower) >= delta >= _normal_delta(mu, found.upper)
    assert found.upper - found.lower <= 1e-11 * found.upper


@_truth
def _a_coarse_grid() -> None:
    noise, answer = curves.gaussian(Fraction(1, 4)), finite(of_points(Fraction("0.3"), 2))
    parts = Part(noise, noise, 1), Part(answer, answer, 3)
    loss = PrivacyLossDistribution(parts=parts, grid=1 << 9)
    yes, true = 1 / (1 + MP.exp(-MP.mpf("0.3"))), MP.mpf(0)
    for many in range(4):
        share = MP.binomial(3, many) * yes**many * (1 - yes) ** (3 - many)
        true += share * _normal_delta(MP.mpf(1) / 2, 2 - MP.mpf("0.3") * (2 * many - 3))
    _holds(loss.delta_interval(2.0), true, wide=0.05)


def _sampled_delta(rate: float, epsilon: Any, *, remove: bool, mu: Any = 1) -> Any:
    """Of noise multiplier 1 / mu, one step, by the place at which the ratio is e^epsilon."""
    q, e, mu = MP.mpf(str(rate)), MP.mpf(epsilon), MP.mpf(mu)
    ratio = (MP.exp(e if remove else -e) - (1 - q)) / q
    if ratio <= 0:
        return MP.mpf(0) if not remove else 1 - MP.exp(e)
    z = MP.log(ratio) / mu + mu / 2
    if remove:
        mixed = (1 - q) * MP.ncdf(-z) + q * MP.ncdf(mu - z)
        return mixed - MP.exp(e) * MP.ncdf(-z)
    mixed = (1 - q) * MP.ncdf(z) + q * MP.ncdf(z - mu)
    return MP.ncdf(z) - MP.exp(e) * mixed


@_truth
def _one_sampled_gaussian() -> None:
    event = Gaussian(noise_multiplier=1.0).poisson_sampled(rate=0.1)
    for epsilon in ("0.05", "0.3"):
        true = max(_sampled_delta(0.1, epsilon, remove=way) for way in (True, False))
        _holds(delta_interval(event, epsilon=epsilon), true, wide=1e-8)


@_truth
def _two_sampled_gaussians() -> None:
    event = Gaussian(noise_multiplier=1.0).poisson_sampled(rate=0.1) * 2
    _holds(delta_interval(event, epsilon="0.5"), _delta_of_two_sampled(), wide=1e-8, error=1e-20)


@cache
def _delta_of_two_sampled(mu: str = "1") -> Any:
    """Of noise multipliers 1 and 1 / mu."""
    q, e = MP.mpf("0.1"), MP.mpf("0.5")

    def after(z: Any) -> Any:
        loss = MP.log(1 - q + q * MP.exp(z - MP.mpf(1) / 2))
        mixed = (1 - q) * MP.npdf(z) + q * MP.npdf(z - 1)
        return mixed * _sampled_delta(0.1, e - loss, remove=True, mu=mu)

    return MP.quad(after, [-12, -4, -1, 1, 2, 3, 4, 5, 7, 13])


@_truth
def _moments_of_a_sampled_gaussian() -> None:
    q, alpha = MP.mpf("0.02"), 5
    moment = MP.fsum(
        MP.binomial(alpha, k) * (1 - q) ** (alpha - k) * q**k * MP.exp(MP.mpf(k * k - k) / 8)
        for k in range(alpha + 1)
    )
    event = Gaussian(noise_multiplier=2.0).poisson_sampled(rate=0.02) * 7
    _not_below(renyi(event, alpha=alpha), 7 * MP.log(moment) / (alpha - 1), within=1e-12)


@_truth
def _concentration_of_gaussians() -> None:
    event = Gaussian(noise_multiplier=3.0) * 5 + Gaussian(noise_multiplier=7.0)
    _not_below(rho(event), MP.mpf(5) / 18 + MP.mpf(1) / 98, within=1e-14)


@_truth
def _promises_of_other_kinds() -> None:
    """Normal noise of the price that is found keeps the promise, and with GDP all of it."""
    delta = MP.mpf(10) ** -6
    promise = ApproxDP(1, "1e-6")
    concentrated, normal = ZCDP.within(promise).rho, GDP.within(promise).mu_squared
    for squared, least in ((2 * concentrated, 0.1), (normal, 1 - 1e-9)):
        spent = _normal_delta(MP.sqrt(MP.mpf(squared.numerator) / squared.denominator), 1)
        assert least * delta <= spent <= delta


# ---- Laplace noise -----------------------------------------------------------------------------


def _laplace_delta(scale: Any, epsilon: Any) -> Any:
    most, e = 1 / MP.mpf(scale), MP.mpf(epsilon)
    if e >= most:
        return MP.mpf(0)
    return 1 - MP.exp(e) if e <= -most else 1 - MP.exp((e - most) / 2)


@_truth
def _two_laplaces() -> None:
    event = Laplace(noise_multiplier=2) * 2
    _holds(delta_interval(event, epsilon="0.4"), _delta_of_two_laplaces(), wide=1e-4, error=1e-18)


@cache
def _delta_of_two_laplaces() -> Any:
    e = MP.mpf("0.4")

    def after(x: Any) -> Any:
        loss = (abs(x - 1) - abs(x)) / 2
        return MP.exp(-abs(x) / 2) / 4 * _laplace_delta(2, e - loss)

    return MP.quad(after, [-200, -60, -20, 0, MP.mpf("0.6"), 1, 20, 60, 200])


@_truth
def _two_sampled_laplaces() -> None:
    event = Laplace(noise_multiplier=1).poisson_sampled(rate=0.2) * 2
    true = _delta_of_two_sampled_laplaces()
    _holds(delta_interval(event, epsilon="0.15"), true, wide=1e-4, error=1e-15)


@cache
def _delta_of_two_sampled_laplaces() -> Any:
    q, e = MP.mpf("0.2"), MP.mpf("0.15")
    edge = MP.log(1 - q + q * MP.exp(-1))

    def one(epsilon: Any) -> Any:
        if epsilon <= edge:
            return 1 - MP.exp(epsilon)
        inner = MP.log(1 + (MP.exp(epsilon) - 1) / q)
        return q * _laplace_delta(1, inner)

    def after(x: Any) -> Any:
        ratio = MP.exp(abs(x - 1) - abs(x))  # of the other's noise, around 0, to its own, around 1
        mixed = (q * MP.exp(-abs(x)) + (1 - q) * MP.exp(-abs(x - 1))) / 2
        return mixed * one(e - MP.log(1 - q + q * ratio))

    # Where the loss of the other step passes an end of its range, the integrand has a corner.
    corners = [e - MP.log(1 - q + q * MP.exp(1)), e - edge]
    places = [(1 - MP.log((MP.exp(c) - 1 + q) / q)) / 2 for c in corners if MP.exp(c) > 1 - q]
    return MP.quad(after, sorted([-90, -30, 0, *(p for p in places if 0 < p < 1), 1, 30, 90]))


@_truth
def _one_sampled_laplace() -> None:
    q, e = MP.mpf("0.2"), MP.mpf("0.1")
    true = q * _laplace_delta(1, MP.log(1 + (MP.exp(e) - 1) / q))
    event = Laplace(noise_multiplier=1).poisson_sampled(rate=0.2)
    _holds(delta_interval(event, epsilon="0.1"), true, wide=1e-7)


@_truth
def _truncated_noise() -> None:
    """Where one table's noise cannot be, the other's shows it: of mass e^-x, to the bound."""
    scale, bound = MP.mpf(2), MP.mpf(9)
    inside = 1 - MP.exp(-bound / scale)
    apart = (MP.exp(-(bound - 1) / scale) - MP.exp(-bound / scale)) / (2 * inside)
    event = TruncatedLaplace(noise_multiplier=2, bound=9)
    _holds(delta_interval(event, epsilon=1), apart, wide=1e-7)


def _lattice(law: Callable[[int], float], shift: int, reach: int) -> Pair:
    places = range(-reach, reach + 1)
    masses = np.array([law(place) for place in places])
    masses /= masses.sum()
    return Pair.of(masses[shift:], masses[:-shift])


@_truth
def _three_discrete_laplaces() -> None:
    pair = _lattice(lambda k: math.exp(-abs(k) / 2), 1, 90)
    event = DiscreteLaplace(scale=2, sensitivity=1) * 3
    true = largest_delta(pair**3, 0.7)
    _holds(delta_interval(event, epsilon="0.7"), true, wide=1e-6, error=1e-9)


@_truth
def _discrete_gaussians() -> None:
    for shift, count, epsilon, wide in ((1, 1, 0.3, 1e-9), (1, 2, 0.5, 1e-9), (2, 2, 1.5, 0.5)):
        pair = _lattice(lambda k: math.exp(-k * k / 8), shift, 40)
        event = DiscreteGaussian(sigma=2, sensitivity=shift) * count
        true = largest_delta(pair**count, epsilon)
        _holds(delta_interval(event, epsilon=epsilon), true, wide=wide, error=2e-10)


# ---- promises ----------------------------------------------------------------------------------


@_truth
def _seven_responses() -> None:
    event = RandomizedResponse(epsilon=1, categories=2) * 7
    true = largest_delta(response(1.0) ** 7, 2.2)
    _holds(delta_interval(event, epsilon="2.2"), true, wide=1e-8, error=1e-11)


@_truth
def _six_promises() -> None:
    found = delta_interval(Pure(epsilon=0.5) * 6, epsilon="1.2")
    _holds(found, largest_delta(response(0.5) ** 6, 1.2), wide=1e-8, error=1e-11)


@_truth
def _approximate_promises() -> None:
    event = Approximate(epsilon=0.3, delta=0.001) * 4
    kept = 0.999**4
    true = 1 - kept * (1 - largest_delta(response(0.3) ** 4, 0.5))
    _holds(delta_interval(event, epsilon="0.5"), true, wide=1e-8, error=1e-11)
    top = 1 / (1 + MP.exp(-MP.mpf("0.3")))
    finite = MP.fsum(
        MP.binomial(4, many)
        * top**many
        * (1 - top) ** (4 - many)
        * _normal_delta(1, MP.mpf("0.5") - MP.mpf("0.3") * (2 * many - 4))
        for many in range(5)
    )
    found = delta_interval(event + Gaussian(noise_multiplier=1.0), epsilon="0.5")
    _holds(found, 1 - MP.mpf("0.999") ** 4 * (1 - finite), wide=1e-8)


@_truth
def _pure_sums() -> None:
    third = Fraction(1, 3)
    found = pure_epsilon(Pure(epsilon=third) * 5 + Laplace(noise_multiplier=7))
    assert found is not None
    assert Fraction(found) >= 5 * third + Fraction(1, 7)
    assert Fraction(found) <= 5 * third + Fraction(1, 7) + Fraction(1, 10**15)
    assert Fraction(epsilon_interval(Pure(epsilon=third), delta=0).upper) >= third


@_truth
def _moments_of_a_response() -> None:
    high, low = MP.exp(1) / (1 + MP.exp(1)), 1 / (1 + MP.exp(1))
    moment = high**3 / low**2 + low**3 / high**2
    event = RandomizedResponse(epsilon=1, categories=2)
    _not_below(renyi(event, alpha=3), MP.log(moment) / 2, within=1e-13)


# ---- samples -----------------------------------------------------------------------------------


@cache
def _mixture_delta(chances: tuple[float, ...], epsilon: float, *, apart: bool = False) -> float:
    """Of sum_k chances[k] N(k, 1) against sum_k chances[k] N(-k, 1), by plain sums; from below.

    apart: of sum_k chances[k] N(2 k, 1) against N(0, 1).
    """
    step = 1e-3
    z = np.arange(-14 - len(chances), 14 + 2 * len(chances), step)
    laws = [
        sum((c * np.exp(-((z - k * move) ** 2) / 2) for k, c in enumerate(chances)), 0 * z)
        for move in ((2, 0) if apart else (1, -1))
    ]
    gaps = laws[0] - math.exp(epsilon) * laws[1]
    return float(np.sum(gaps[gaps > 0])) * step / math.sqrt(2 * math.pi) * (1 - 1e-4)


@_truth
def _draws_with_replacement() -> None:
    """One of 4 people who adds 1 or takes 1, drawn 3 times: how often is binomial.

    The others add nothing, or take 1 as well.
    """
    chances = tuple(math.comb(3, k) * 0.25**k * 0.75 ** (3 - k) for k in range(4))
    event = Gaussian(noise_multiplier=1.0).sampled_with_replacement(size=3, population=4)
    for epsilon in (0.5, 3.0):
        found = delta_interval(event, epsilon=epsilon, neighbors=ReplaceOne)
        assert found.upper >= _mixture_delta(chances, epsilon)
        reached = _mixture_delta(chances, epsilon, apart=True)
        assert found.lower * (1 - 2e-4) <= reached <= found.upper
        assert found.upper <= 1.04 * reached


@_truth
def _a_fixed_size() -> None:
    """Half of two people: the sample holds the one who is replaced, or not."""
    event = Gaussian(noise_multiplier=1.0).fixed_size_sampled(size=1, population=2)
    for epsilon in (0.5, 1.5):
        found = delta_interval(event, epsilon=epsilon, neighbors=ReplaceOne)
        assert found.upper >= _mixture_delta((0.5, 0.5), epsilon)


@_truth
def _an_allocation() -> None:
    event = Gaussian(noise_multiplier=1.0).randomly_allocated(steps=2)
    for epsilon in (0.3, 0.8):
        found, true = delta_interval(event, epsilon=epsilon), _delta_of_allocation(epsilon)
        assert found.upper >= true
        assert true * 0.999 <= found.lower <= true * (1 + 2e-4)


@cache
def _delta_of_allocation(epsilon: float) -> float:
    """One of two steps, by plain sums over both; from below."""
    step = 0.01
    z = np.arange(-8, 9, step)
    x, y = np.meshgrid(z, z)
    plain = np.exp(-(x * x + y * y) / 2)
    mixed = plain * (np.exp(x - 0.5) + np.exp(y - 0.5)) / 2
    gaps = [mixed - math.exp(epsilon) * plain, plain - math.exp(epsilon) * mixed]
    return max(float(np.sum(gap[gap > 0])) for gap in gaps) * step**2 / (2 * math.pi) * (1 - 1e-4)


@_truth
def _shuffled_answers() -> None:
    """How many of 2,000 answers are 1, where one person's is 0 or 1 and all others' are 0."""
    low = 1 / (math.exp(2) + 1)
    others = _binomial(1999, low)
    first = np.convolve(others, [1 - low, low])
    second = np.convolve(others, [low, 1 - low])
    event = RandomizedResponse(epsilon=2, categories=2).shuffled(count=2000)
    found = delta_interval(event, epsilon="0.05", neighbors=ReplaceOne)
    assert found.upper >= largest_delta(Pair.of(first, second), 0.05) * (1 - 1e-9)


def _binomial(trials: int, chance: float) -> Any:
    counts = range(trials + 1)
    logs = [
        math.lgamma(trials + 1) - math.lgamma(k + 1) - math.lgamma(trials - k + 1) for k in counts
    ]
    return np.array(
        [
            math.exp(log + k * math.log(chance) + (trials - k) * math.log1p(-chance))
            for k, log in zip(counts, logs, strict=True)
        ]
    )


@_truth
def _the_best_of_many() -> None:
    """The better of two outcomes, of a geometric number of responses: its law is known."""
    stop = 0.25

    def best(low: float) -> list[float]:
        none = stop * low / (1 - (1 - stop) * low)
        return [none, 1 - none]

    pair = response(0.5)
    first, second = best(float(pair.p[0])), best(float(pair.q[0]))
    base = RandomizedResponse(epsilon=0.5, categories=2)
    event = NegativeBinomialTries(event=base, shape=1, stop=stop)
    for epsilon in (0.6, 0.8):
        true = largest_delta(Pair.of(first, second), epsilon)
        assert delta_interval(event, epsilon=epsilon).upper >= true * (1 - 1e-12)


@_truth
def _exponential_mechanisms() -> None:
    """Eight coins whose loss is two thirds of the range, or a third of it below 0."""
    edge, share, count = 0.6, 2 / 3, 8
    chance = math.expm1(-(1 - share) * edge) / math.expm1(-edge)
    other = chance * math.exp(-share * edge)
    first, second = _binomial(count, chance), _binomial(count, other)
    for epsilon in (1.0, 2.0, 2.8):
        true = largest_delta(Pair.of(first, second), epsilon)
        assert delta_interval(Exponential(epsilon=edge) * count, epsilon=epsilon).upper >= true


# ---- correlated noise --------------------------------------------------------------------------


def _largest_move(matrix: Any, participations: int, separation: int) -> float:
    """The largest norm of a sum of columns that are so far apart, and so many."""
    steps = matrix.shape[1]
    return max(
        float(np.linalg.norm(matrix[:, list(chosen)].sum(axis=1)))
        for number in range(1, participations + 1)
        for chosen in itertools.combinations(range(steps), number)
        if all(b - a >= separation for a, b in itertools.pairwise(chosen))
    )


def _as_one_gaussian(event: Event, moved: float) -> None:
    found = delta_interval(event, epsilon=1)
    true = _normal_delta(moved / 2, 1)
    _holds(found, true, wide=1e-9, error=1e-11)


@_truth
def _a_matrix() -> None:
    encoder, steps = (1.0, 0.5, 0.25), 7
    matrix = sum(weight * np.eye(steps, k=-place) for place, weight in enumerate(encoder))
    event = MatrixFactorization(
        noise_multiplier=2, encoder=encoder, steps=steps, participations=3, separation=3
    )
    _as_one_gaussian(event, _largest_move(matrix, 3, 3))


@_truth
def _a_banded_matrix_on_cyclic_samples() -> None:
    """Columns of norms 5 and, cut by the last row, 3: the group of the first of three steps."""
    banded = MatrixFactorization(noise_multiplier=5, encoder=(3, 4), steps=3, separation=2)
    found = delta_interval(banded.cyclic_poisson_sampled(rate=0.1), epsilon="0.5")
    _holds(found, _delta_of_two_sampled("0.6"), wide=1e-8, error=1e-20)


@_truth
def _a_tree() -> None:
    steps = 8
    nodes = [
        [int(start <= leaf < start + size) for leaf in range(steps)]
        for size in (1, 2, 4, 8)
        for start in range(0, steps, size)
    ]
    event = TreeAggregation(noise_multiplier=2, steps=steps, participations=2, separation=2)
    _as_one_gaussian(event, _largest_move(np.array(nodes, float), 2, 2))


# ---- budgets -----------------------------------------------------------------------------------


@_truth
def _a_filter() -> None:
    spent = Filter(ZCDP("0.5"))
    for _ in range(3):
        assert spent.admits(ZCDP("0.15"))
        spent = spent.spend(ZCDP("0.15"))
    assert not spent.admits(ZCDP("0.0500000001"))
    assert spent.spent == ZCDP("0.45")
    both = Filter(ApproxDP(1, "1e-6")).spend(ApproxDP("0.4", "6e-7"))
    assert not both.admits(ApproxDP("0.4", "6e-7"))


@_truth
def _parts_of_people() -> None:
    owed = parallel.ParallelComposition(PureDP(3), max_parts=2)
    for part, cost in (("a", "0.5"), ("b", "0.25"), ("c", "1"), ("b", "0.5")):
        owed.spend(part, PureDP(cost))
    assert owed.owed == PureDP("1.75")
    assert parallel.pair_price(PureDP(1)) == PureDP(2)
    assert parallel.pair_price(ZCDP("0.1")) == ZCDP("0.4")


@_truth
def _groups_of_people() -> None:
    """Who is replaced leaves and comes: twice the move of normal noise."""
    event = Gaussian(noise_multiplier=4.0).poisson_sampled(rate=1)
    neighbors: Neighbors = ReplaceOne
    _holds(
        delta_interval(event, epsilon="0.5", neighbors=neighbors),
        _normal_delta("0.5", "0.5"),
        wide=1e-8,
    )
    _holds(
        delta_interval(event, epsilon="0.5", neighbors=AddRemove),
        _normal_delta("0.25", "0.5"),
        wide=1e-8,
    )
