"""Prices and profiles of staircase, cut and mixed noise and of draws with replacement."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import special
from tests.accounting.long_contours import MP
from tests.accounting.profile_bounds import profile_bounds
from tests.tiers import mostly_slow

from unacorda.accounting.accountant import delta_interval, epsilon_interval
from unacorda.accounting.amplification.sampling import draws
from unacorda.accounting.explanation import explain
from unacorda.accounting.prices import (
    approx_dp_price,
    gdp_price,
    pure_epsilon,
    pure_price,
    renyi,
    renyi_price,
    rho,
    zcdp_price,
)
from unacorda.accounting.rules.base import Direction
from unacorda.errors import UnsupportedEvent
from unacorda.privacy.events import (
    Approximate,
    DiscreteLaplace,
    Event,
    Gaussian,
    GaussianMixture,
    Laplace,
    Pure,
    Staircase,
    TruncatedLaplace,
)
from unacorda.privacy.guarantees import GDP, ZCDP, PureDP
from unacorda.privacy.neighbors import AddRemove, ReplaceOne

BOTH: tuple[Direction, Direction] = ("remove", "add")


def staircase_pairs(epsilon: float, split: float, shift: float) -> list[tuple[Any, Any]]:
    """Masses of shifted and plain staircase noise on the pieces where both are constant."""
    b, g = MP.exp(-MP.mpf(epsilon)), MP.mpf(split)
    height = (1 - b) / (2 * (g + b * (1 - g)))

    def density(x: Any) -> Any:
        level = 0 if abs(x) < g else MP.floor(abs(x) - g) + 1
        return height * b**level

    edges = [sign * (g + k) for sign in (-1, 1) for k in range(120)]
    cuts = sorted({edge + move for edge in edges for move in (0, shift)})
    return [
        ((right - left) * density(middle - shift), (right - left) * density(middle))
        for left, right in itertools.pairwise(cuts)
        if right - left > 1e-20
        for middle in [(left + right) / 2]
    ]


def stick(pairs: list[tuple[Any, Any]], epsilon: float) -> Any:
    return MP.fsum(max(p - MP.exp(MP.mpf(epsilon)) * q, MP.mpf(0)) for p, q in pairs)


# ---------------------------------------------------------------------------------------- staircase


@pytest.mark.parametrize("split", [0.0, 0.25, 0.5, 0.75])
def test_staircase_profile_and_divergence_by_its_density(split: float) -> None:
    event, pairs = Staircase(epsilon=0.75, split=split), staircase_pairs(0.75, split, 1)
    epsilons = np.array([-1.0, -0.75, -0.5, 0.0, 0.25, 0.6875, 0.75, 2.0])
    lower, upper = profile_bounds(event, epsilons)
    for epsilon, low, high in zip(epsilons, lower, upper, strict=True):
        truth = stick(pairs, float(epsilon))
        assert low <= truth + MP.mpf(10) ** -30
        assert truth <= high + MP.mpf(10) ** -30
        assert high - low < 1e-13
    for alpha in (1.5, 2.0, 30.0):
        moment = MP.fsum(p * (p / q) ** (MP.mpf(alpha) - 1) for p, q in pairs)
        exact = MP.log(moment) / (MP.mpf(alpha) - 1)
        found = renyi_price(event, alpha=alpha).epsilon
        assert exact <= found * (1 + Fraction(1, 10**15)) + Fraction(1, 10**20)
        assert float(found) == pytest.approx(float(exact), rel=1e-12)
    assert pure_price(event) == PureDP(Fraction(3, 4))


@pytest.mark.parametrize("split", [0.125, 0.5, 0.875])
def test_staircase_gaussian_dp_is_tight(split: float) -> None:
    mu = gdp_price(Staircase(epsilon=1.0, split=split)).mu
    pairs = sorted(staircase_pairs(1.0, split, 1), key=lambda pair: -pair[0] / pair[1])
    alarm, power, gap = 0.0, 0.0, math.inf
    for p, q in pairs:  # the kinks of the trade-off curve, most telling outcomes first
        alarm, power = alarm + float(q), power + float(p)
        if 1e-9 < alarm < 1 - 1e-9:
            gap = min(gap, 1 - power - float(special.ndtr(special.ndtri(1 - alarm) - mu)))
    assert -1e-9 < gap < 1e-7
    assert gdp_price(Staircase(epsilon=1.0, split=split) * 4).mu == pytest.approx(2 * mu)
    assert mu <= gdp_price(Pure(epsilon=1.0)).mu * (1 + 1e-12)


# -------------------------------------------------------------------------------- cut Laplace noise


@pytest.mark.parametrize("bound", mostly_slow([0.5, 0.625, 1.0, 3.0, 40.0], quick=4))
@pytest.mark.parametrize("scale", [0.5, 4.0])
def test_truncated_laplace_profile_by_its_density(scale: float, bound: float) -> None:
    b, a = MP.mpf(scale), MP.mpf(bound)
    whole = 2 * b * (1 - MP.exp(-a / b))

    def density(x: Any) -> Any:
        return MP.exp(-abs(x) / b) / whole if abs(x) <= a else MP.mpf(0)

    event = TruncatedLaplace(noise_multiplier=scale, bound=bound)
    for epsilon in (-3.0, -0.25, 0.0, 0.125, 1.0, 5.0):
        e = MP.exp(MP.mpf(epsilon))
        kink = MP.mpf(epsilon) * b / 2 + MP.mpf(1) / 2  # where the laws' ratio is e^epsilon
        ends = sorted({-a, a, 1 - a, 1 + a, MP.mpf(0), MP.mpf(1), kink})
        truth = MP.mpf(0)
        for left, right in itertools.pairwise(ends):
            inset = (right - left) * MP.mpf(10) ** -25
            if density((left + right) / 2 - 1) > e * density((left + right) / 2):
                piece = [left + inset, right - inset]
                truth += MP.quad(lambda x: density(x - 1), piece) - e * MP.quad(density, piece)
        lower, upper = profile_bounds(event, [epsilon])
        assert lower[0] <= truth + MP.mpf(10) ** -18
        assert truth - MP.mpf(10) ** -18 <= upper[0]
        assert upper[0] - lower[0] < 1e-12


@pytest.mark.long
def test_truncated_laplace_prices() -> None:
    event = TruncatedLaplace(noise_multiplier=2, bound=20)
    cost = approx_dp_price(event)
    shown = (MP.exp(MP.mpf(-19) / 2) - MP.exp(-10)) / (2 * (1 - MP.exp(-10)))
    assert cost.epsilon == Fraction(1, 2)
    assert shown <= cost.delta <= shown * (1 + 1e-14)
    assert approx_dp_price(event * 3).epsilon == Fraction(3, 2)
    concentrated = zcdp_price(event)
    assert concentrated.delta == cost.delta
    assert concentrated.rho == zcdp_price(Pure(epsilon=Fraction(1, 2))).rho
    assert gdp_price(event).delta == cost.delta
    with pytest.raises(UnsupportedEvent):
        renyi_price(event, alpha=2)
    with pytest.raises(UnsupportedEvent):
        pure_price(event)
    found = epsilon_interval(event * 50, delta=1e-2)
    assert found.upper < min(25.0, float(approx_dp_price(event * 50, delta=1e-2).epsilon))
    assert found.upper - found.lower < 1e-3
    sampled = epsilon_interval(event.poisson_sampled(rate=0.1) * 50, delta=1e-2)
    assert sampled.upper < found.lower


# ----------------------------------------------------------------------------------------- mixtures


MIXTURE = GaussianMixture(noise_multiplier=2, shifts=(0, 1, 3), weights=(0.5, 0.25, 0.25))
NEVER_STILL = GaussianMixture(noise_multiplier=1.5, shifts=(0.5, 2), weights=(0.875, 0.125))


def mixture_delta(event: GaussianMixture, epsilon: float, direction: str) -> Any:
    """By the root of the ratio, found in long arithmetic, and normal tails."""
    e = MP.mpf(epsilon)
    shifts = [MP.mpf(s) / MP.mpf(event.noise_multiplier) for s in event.shifts]
    weights = [MP.mpf(w) for w in event.weights]

    def log_ratio(x: Any) -> Any:
        parts = zip(weights, shifts, strict=True)
        return MP.log(MP.fsum(w * MP.exp(s * x - s * s / 2) for w, s in parts))

    goal = e if direction == "remove" else -e
    low, high = MP.mpf(-400), MP.mpf(400)
    if log_ratio(low) >= goal:
        return max(1 - MP.exp(e), MP.mpf(0)) if direction == "remove" else MP.mpf(0)
    for _ in range(160):
        middle = (low + high) / 2
        low, high = (middle, high) if log_ratio(middle) < goal else (low, middle)
    tail = [w * MP.ncdf(s - low) for w, s in zip(weights, shifts, strict=True)]
    if direction == "remove":
        return MP.fsum(tail) - MP.exp(e) * MP.ncdf(-low)
    return MP.ncdf(low) - MP.exp(e) * (1 - MP.fsum(tail))


@pytest.mark.parametrize("direction", BOTH)
@pytest.mark.parametrize("event", [MIXTURE, NEVER_STILL], ids=["still", "moving"])
def test_mixture_profiles_hold_long_roots(event: GaussianMixture, direction: Direction) -> None:
    for epsilon in (-2.0, -0.7, -0.5, 0.0, 0.25, 0.5, 0.69, 2.0, 8.0):
        truth = mixture_delta(event, epsilon, direction)
        lower, upper = profile_bounds(event, [epsilon], direction=direction)
        assert lower[0] <= truth + MP.mpf(10) ** -28
        assert truth - MP.mpf(10) ** -28 <= upper[0]
        assert upper[0] - lower[0] <= 1e-11 * truth + 1e-15


def test_a_mixture_of_one_shift_is_gaussian() -> None:
    one = GaussianMixture(noise_multiplier=3, shifts=(1.5, 9), weights=(1, 0))
    epsilons = np.array([-1.0, 0.0, 0.5, 3.0])
    for direction in BOTH:
        lower, upper = profile_bounds(one, epsilons, direction=direction)
        low, high = profile_bounds(Gaussian(noise_multiplier=2), epsilons)
        assert np.all(lower <= high)
        assert np.all(low <= upper)
        assert np.allclose(upper, high, rtol=1e-11, atol=1e-15)
    assert zcdp_price(one) == ZCDP(Fraction(1, 8))
    assert gdp_price(one) == GDP.from_squared(Fraction(1, 4))


@pytest.mark.slow
@pytest.mark.parametrize("rate", mostly_slow([1.0, 0.125]))
@pytest.mark.parametrize("event", [MIXTURE, NEVER_STILL], ids=["still", "moving"])
def test_mixture_divergences_hold_long_integrals(event: GaussianMixture, rate: float) -> None:
    shifts = [MP.mpf(s) / MP.mpf(event.noise_multiplier) for s in event.shifts]
    weights = [MP.mpf(w) * rate for w in event.weights]

    def ratio(x: Any) -> Any:
        parts = zip(weights, shifts, strict=True)
        return 1 - rate + MP.fsum(w * MP.exp(s * x - s * s / 2) for w, s in parts)

    step = MP.mpf(1) / 16
    for alpha in (1.25, 3.0, 9.0):
        a = MP.mpf(alpha)
        moments = [
            MP.fsum(
                step * MP.exp(-(x * x) / 2) / MP.sqrt(2 * MP.pi) * ratio(x) ** power
                for x in [step * k for k in range(-700, 700)]
            )
            for power in (a, 1 - a)
        ]
        exact = float(MP.log(max(moments)) / (a - 1))
        found = renyi(event.poisson_sampled(rate=rate), alpha=alpha)
        assert exact <= found * (1 + 1e-13)
        assert found == pytest.approx(exact, rel=1e-8)


def test_mixture_prices_are_those_of_the_largest_shift() -> None:
    assert zcdp_price(MIXTURE) == ZCDP(Fraction(9, 8))
    assert gdp_price(MIXTURE) == GDP.from_squared(Fraction(9, 4))
    # zCDP is reached at large orders, GDP in the tail
    assert renyi(MIXTURE, alpha=2000) / 2000 > 0.999 * 9 / 8
    lower, _ = profile_bounds(MIXTURE, [30.0])
    _, smaller = profile_bounds(Gaussian(noise_multiplier=1 / (0.95 * 1.5)), [30.0])
    assert lower[0] > 5 * smaller[0] > 0
    still = GaussianMixture(noise_multiplier=2, shifts=(0, 5), weights=(1, 0))
    assert pure_price(still) == PureDP(0)
    assert renyi(still, alpha=4) == 0
    assert profile_bounds(still, [0.0])[1][0] == 0
    found = epsilon_interval(MIXTURE, delta=1e-6)
    assert 0 < found.upper - found.lower < 1e-8


# --------------------------------------------------------------------------- draws with replacement


def hits(size: int, population: int) -> list[Any]:
    once = MP.mpf(1) / population
    return [MP.binomial(size, k) * once**k * (1 - once) ** (size - k) for k in range(size + 1)]


@pytest.mark.parametrize(("size", "population"), [(1, 10), (4, 4), (30, 7), (3, 1)])
def test_draws_are_binomial(size: int, population: int) -> None:
    exact = hits(size, population)
    for complete in (False, True):
        weights, rest, rate = draws(size, population, complete=complete)
        assert abs(MP.mpf(rate.numerator) / rate.denominator - (1 - exact[0])) < 1e-30
        for k, weight in enumerate(weights, start=1):
            assert abs(MP.mpf(weight) - exact[k] / (1 - exact[0])) < 1e-25
        assert abs(1 - sum(weights, rest)) < 1e-28


@pytest.mark.parametrize(
    ("event", "shifted"),
    [
        (Gaussian(noise_multiplier=3), lambda k: Gaussian(noise_multiplier=Fraction(3, 2 * k))),
        (Laplace(noise_multiplier=8), lambda k: Laplace(noise_multiplier=Fraction(4, k))),
        (Pure(epsilon=0.125), lambda k: Pure(epsilon=k * 0.25)),
        (
            DiscreteLaplace(scale=4, sensitivity=1),
            lambda k: DiscreteLaplace(scale=4, sensitivity=2 * k),
        ),
    ],
    ids=["Gaussian", "Laplace", "Pure", "DiscreteLaplace"],
)
def test_profile_with_replacement_is_the_weighted_sum(event: Event, shifted: Any) -> None:
    size, population = 4, 25
    sample = event.sampled_with_replacement(size=size, population=population)
    weights = hits(size, population)
    rate = 1 - weights[0]
    for epsilon in (0.0, 0.0625, 0.5):
        inner = float(MP.log(1 + MP.expm1(MP.mpf(epsilon)) / rate))
        truth = MP.mpf(0)
        for k in range(1, size + 1):
            lower, upper = profile_bounds(shifted(k), [inner])
            truth += weights[k] * (MP.mpf(lower[0]) + MP.mpf(upper[0])) / 2
        low, high = profile_bounds(sample, [epsilon, -epsilon], neighbors=ReplaceOne)
        assert high[0] - truth < 1e-10
        dual = 1 - MP.exp(MP.mpf(-epsilon)) * (1 - truth)
        assert high[1] - dual < 1e-10
        if isinstance(event, Gaussian | Laplace):  # less is known to do: test_hits
            assert 0 <= low[0] <= high[0] < 1
            continue
        assert truth <= high[0] * (1 + 1e-12) + 1e-15
        assert low[0] == 0.0
        assert abs(dual - high[1]) < 1e-10
    with pytest.raises(UnsupportedEvent):
        profile_bounds(sample, [0.0], neighbors=AddRemove)


def actual(size: int, population: int, density: Any) -> tuple[Any, Any]:
    """One unit against another, the others all like it: sums with k hits move by 2 k."""
    weights = hits(size, population)
    return (
        lambda x: MP.fsum(w * density(x - 2 * k) for k, w in enumerate(weights)),
        density,
    )


@pytest.mark.long
def test_bounds_with_replacement_are_above_a_mechanism() -> None:
    size, population, sigma = 3, 8, 4.0
    event = Gaussian(noise_multiplier=sigma).sampled_with_replacement(
        size=size, population=population
    )
    first, second = actual(size, population, lambda x: MP.npdf(x, 0, sigma))
    grid = [MP.mpf(k) / 8 for k in range(-400, 480)]
    pairs = [(first(x) / 8, second(x) / 8) for x in grid]
    for epsilon in (0.0, 0.25, 1.0):
        truth = stick(pairs, epsilon)
        found = delta_interval(event, epsilon=epsilon, neighbors=ReplaceOne)
        assert truth <= found.upper + 1e-4
        assert found.lower <= truth + 1e-4
    for alpha in (1.5, 2.0, 6.0):
        moments = [
            MP.fsum(p * (p / q) ** (alpha - 1) for p, q in both)
            for both in (pairs, [(q, p) for p, q in pairs])
        ]
        exact = float(MP.log(max(moments)) / (alpha - 1))
        bound = renyi(event, alpha=alpha, neighbors=ReplaceOne)
        assert exact <= bound < 40 * exact
        whole = renyi(Gaussian(noise_multiplier=sigma / (2 * size)), alpha=alpha)
        assert bound < whole


@pytest.mark.slow
def test_pure_privacy_with_replacement() -> None:
    size, population, scale = 3, 8, 4
    event = DiscreteLaplace(scale=scale, sensitivity=1)
    sample = event.sampled_with_replacement(size=size, population=population)
    found = pure_epsilon(sample, neighbors=ReplaceOne)
    assert found is not None
    first, second = actual(size, population, lambda x: MP.exp(-abs(x) / MP.mpf(scale)))
    largest = max(abs(MP.log(first(x) / second(x))) for x in range(-60, 70))
    assert largest <= found * (1 + 1e-12)
    # all hits to the right: the product over draws of 1 + (e^(2 / scale) - 1) / population
    assert found == pytest.approx(float(largest), rel=1e-6)
    alone = event.sampled_with_replacement(size=1, population=population)
    fixed = event.fixed_size_sampled(size=1, population=population)
    assert pure_epsilon(alone, neighbors=ReplaceOne) == pure_epsilon(fixed, neighbors=ReplaceOne)
    assert rho(sample, neighbors=ReplaceOne) < rho(event * size, neighbors=ReplaceOne)
    with pytest.raises(UnsupportedEvent):
        zcdp_price(sample)
    assert epsilon_interval(sample * 20, delta=1e-5, neighbors=ReplaceOne).upper < 20 * found


# ------------------------------------------------------------------------------ relations and texts


def test_fixed_size_samples_of_staircase_and_cut_noise() -> None:
    """A staircase is read as pure, above its double shift; cut noise by its halved bound."""
    event = Staircase(epsilon=0.5, split=0.25).fixed_size_sampled(size=1, population=4)
    pairs = staircase_pairs(0.5, 0.25, 2)
    inner = float(MP.log(1 + MP.expm1(MP.mpf(0.0625)) * 4))
    _, upper = profile_bounds(event, [0.0625], neighbors=ReplaceOne)
    pure = Pure(epsilon=0.5).fixed_size_sampled(size=1, population=4)
    assert stick(pairs, inner) / 4 <= upper[0] * (1 + 1e-12)
    assert upper[0] == profile_bounds(pure, [0.0625], neighbors=ReplaceOne)[1][0]
    cut = TruncatedLaplace(noise_multiplier=4, bound=6).fixed_size_sampled(size=1, population=4)
    half = TruncatedLaplace(noise_multiplier=2, bound=3)
    _, whole = profile_bounds(half, [inner])
    assert profile_bounds(cut, [0.0625], neighbors=ReplaceOne)[1][0] == pytest.approx(whole[0] / 4)
    shown = TruncatedLaplace(noise_multiplier=4, bound=0.75)
    apart = shown.fixed_size_sampled(size=1, population=4)
    assert profile_bounds(apart, [3.0], neighbors=ReplaceOne)[1][0] == pytest.approx(0.25)


@pytest.mark.long
@pytest.mark.parametrize(
    "event",
    mostly_slow(
        [
            Staircase(epsilon=1.0, split=0.5),
            TruncatedLaplace(noise_multiplier=2, bound=30),
            MIXTURE,
            Gaussian(noise_multiplier=2).sampled_with_replacement(size=5, population=100),
            Approximate(epsilon=1, delta=1e-6).sampled_with_replacement(size=5, population=100),
        ],
        quick=2,
    ),
    ids=["staircase", "truncated", "mixture", "draws", "draws of approximate"],
)
def test_every_engine_agrees_on_one_and_on_several(event: Event) -> None:
    neighbors = ReplaceOne if "Sampled" in type(event).__name__ else AddRemove
    for composition in (event, event * 12):
        told = explain(composition, delta=1e-3, neighbors=neighbors)
        assert told.found
        assert "own" not in told.parts[0].theorem.split()[:4]
        low = max(one.interval.lower for one in told.found)
        assert all(low <= one.interval.upper * (1 + 1e-12) for one in told.found)
