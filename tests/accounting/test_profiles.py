"""Profiles of events: bounds around 60-digit values, symmetric pairs, sampling."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import special
from tests.accounting.profile_bounds import profile_bounds
from tests.support.cases import in_subtests
from tests.tiers import mostly_slow

from unacorda.accounting.profiles import boxes
from unacorda.accounting.rules.base import Direction, curve_of
from unacorda.errors import InvalidParameter, UnsupportedEvent
from unacorda.privacy.events import (
    Approximate,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Exponential,
    Gaussian,
    Laplace,
    Pure,
    RandomizedResponse,
    ZeroConcentrated,
)
from unacorda.privacy.neighbors import AddRemove, ReplaceOne

mp = mpmath.MPContext()
mp.dps = 60


def gaussian(epsilon: Any, mu: Any) -> Any:
    return mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)


def finite(pairs: list[tuple[Any, Any]], epsilon: Any) -> Any:
    return mp.fsum(max(p - mp.exp(epsilon) * q, mp.mpf(0)) for p, q in pairs)


def laplace(epsilon: Any, pure: Any) -> Any:
    if epsilon >= pure:
        return mp.mpf(0)
    if epsilon <= -pure:
        return -mp.expm1(epsilon)
    return -mp.expm1((epsilon - pure) / 2)


def coins(epsilon: Any, length: Any) -> Any:
    """The maximum over pairs of coins whose odds differ by e^length, by brute force."""
    best = max(mp.mpf(0), -mp.expm1(epsilon))
    for step in range(-400, 401):
        place = length * step / 200 - length / 2
        q = 1 / (1 + mp.exp(-place))
        p = 1 / (1 + mp.exp(-place - length))
        best = max(best, p - mp.exp(epsilon) * q)
    return best


def discrete(weight: Callable[[int], Any], shift: int, reach: int) -> list[tuple[Any, Any]]:
    table = {x: weight(x) for x in range(-reach - shift, reach + shift + 1)}
    total = mp.fsum(table.values())
    return [(table[x] / total, table[x - shift] / total) for x in range(-reach, reach + shift + 1)]


TENTH = mp.mpf(1) / 10
THIRD = mp.mpf(1) / 3
RR3 = [
    (mp.exp(TENTH) / (mp.exp(TENTH) + 2), 1 / (mp.exp(TENTH) + 2)),
    (1 / (mp.exp(TENTH) + 2), mp.exp(TENTH) / (mp.exp(TENTH) + 2)),
    (1 / (mp.exp(TENTH) + 2), 1 / (mp.exp(TENTH) + 2)),
]
RR2 = [
    (1 / (1 + mp.exp(-3)), 1 / (1 + mp.exp(3))),
    (1 / (1 + mp.exp(3)), 1 / (1 + mp.exp(-3))),
]
DGAUSS = discrete(lambda x: mp.exp(-(mp.mpf(x) ** 2) / 8), 1, 60)
DLAPLACE = discrete(lambda x: mp.exp(-mp.mpf(abs(x)) / 3), 4, 500)
DLAPLACE_SMALL = discrete(lambda x: mp.exp(-mp.mpf(abs(x)) * 2), 1, 120)

CASES: list[tuple[Event, Callable[[Any], Any], float]] = [
    (Gaussian(noise_multiplier=0.1), lambda e: gaussian(e, mp.mpf(10)), 400.0),
    (Gaussian(noise_multiplier=1), lambda e: gaussian(e, mp.mpf(1)), 36.0),
    (Gaussian(noise_multiplier=10), lambda e: gaussian(e, TENTH), 3.6),
    (Gaussian(noise_multiplier=1e5), lambda e: gaussian(e, mp.mpf(10) ** -5), 3.6e-4),
    (Gaussian(noise_multiplier=2) * 3, lambda e: gaussian(e, mp.sqrt(3) / 2), 30.0),
    (Laplace(noise_multiplier=3), lambda e: laplace(e, THIRD), 0.5),
    (Laplace(noise_multiplier=0.01), lambda e: laplace(e, mp.mpf(100)), 120.0),
    (RandomizedResponse(epsilon=0.1, categories=3), lambda e: finite(RR3, e), 0.2),
    (Pure(epsilon=3), lambda e: finite(RR2, e), 4.0),
    (Approximate(epsilon=3, delta=0.125), lambda e: 0.125 + 0.875 * finite(RR2, e), 4.0),
    (DiscreteGaussian(sigma=2, sensitivity=1), lambda e: finite(DGAUSS, e), 5.0),
    (DiscreteLaplace(scale=3, sensitivity=4), lambda e: finite(DLAPLACE, e), 2.0),
    (DiscreteLaplace(scale=0.5, sensitivity=1), lambda e: finite(DLAPLACE_SMALL, e), 3.0),
]


@pytest.mark.parametrize(
    ("event", "truth", "reach"),
    mostly_slow(CASES, quick=7),
    ids=lambda v: None if callable(v) else str(v)[:40],
)
def test_bounds_enclose_long_values_and_are_narrow(
    event: Event, truth: Callable[[Any], Any], reach: float
) -> None:
    near = np.array([0.0, 1e-8, -1e-8, 1e-300, reach / 3])
    epsilons = np.concatenate((near, np.linspace(-reach, reach, 41)))
    lower, upper = profile_bounds(event, epsilons)
    for epsilon, low, high in zip(epsilons, lower, upper, strict=True):
        exact = max(truth(mp.mpf(float(epsilon))), mp.mpf(0))
        assert low <= exact <= high
        if exact > 1e-290:
            assert high - low <= 1e-10 * exact + 2e-15 * (reach < 50)


@pytest.mark.long
@in_subtests(("event", "truth", "reach"), CASES, ids=lambda v: None if callable(v) else str(v)[:40])
@pytest.mark.parametrize("rate", mostly_slow([Fraction(1, 2), Fraction(1, 1000)]))
def test_poisson_sampling_in_both_directions(
    event: Event, truth: Callable[[Any], Any], reach: float, rate: Fraction
) -> None:
    q = mp.mpf(rate.numerator) / rate.denominator
    sampled = event.poisson_sampled(rate=rate)

    def remove(epsilon: Any) -> Any:
        left = (mp.exp(epsilon) - 1 + q) / q
        return q * truth(mp.log(left)) if left > 0 else -mp.expm1(epsilon)

    def add(epsilon: Any) -> Any:  # the pair turned round
        return -mp.expm1(epsilon) + mp.exp(epsilon) * remove(-epsilon)

    epsilons = np.concatenate(([1e-9, -1e-9], np.linspace(-1.5, min(reach, 5.0), 25)))
    both: list[tuple[Direction, Callable[[Any], Any]]] = [("remove", remove), ("add", add)]
    for direction, value in both:
        lower, upper = profile_bounds(sampled, epsilons, direction=direction)
        for epsilon, low, high in zip(epsilons, lower, upper, strict=True):
            exact = max(value(mp.mpf(float(epsilon))), mp.mpf(0))
            assert low <= exact + mp.mpf(10) ** -45
            assert exact - mp.mpf(10) ** -45 <= high
            assert high - low <= 1e-9 * exact + 1e-14


def test_small_deltas_keep_their_digits() -> None:
    event = Gaussian(noise_multiplier=1)
    lower, upper = profile_bounds(event, [36.9])
    assert 1e-300 < lower[0] < upper[0] < 1e-285
    assert upper[0] / lower[0] - 1 < 1e-11


@pytest.mark.long
def test_the_exponential_mechanism_has_the_maximum_over_coins() -> None:
    event = Exponential(epsilon=2)
    epsilons = np.linspace(-2.5, 2.5, 21)
    lower, upper = profile_bounds(event, epsilons)
    for epsilon, low, high in zip(epsilons, lower, upper, strict=True):
        reached = coins(mp.mpf(float(epsilon)), mp.mpf(2))
        assert reached <= high
        assert low <= reached + 1e-4  # the brute force has a grid
        assert high - low < 1e-13


def test_concentrated_bounds_part_but_hold() -> None:
    lower, upper = profile_bounds(ZeroConcentrated(rho=0.5), [0.0, 1.0, 5.0, -1.0])
    gauss_low, gauss_high = profile_bounds(Gaussian(noise_multiplier=1), [0.0, 1.0, 5.0, -1.0])
    assert np.all(lower <= gauss_high)
    assert np.all(gauss_low <= upper)
    assert upper[2] < 3e-4
    order = 5.5  # any order gives a valid bound; the best lies near (epsilon + rho)/(2 rho)
    at_order = math.exp((order - 1) * (order * 0.5 - 5)) / order * (1 - 1 / order) ** (order - 1)
    assert upper[2] <= at_order * (1 + 1e-9)


def test_discrete_gaussian_of_wide_sensitivity_lies_between_a_shift_and_zcdp() -> None:
    event = DiscreteGaussian(sigma=4, sensitivity=2)
    lower, upper = profile_bounds(event, [0.1, 1.0])
    pairs = discrete(lambda x: mp.exp(-(mp.mpf(x) ** 2) / 32), 2, 100)
    for epsilon, low, high in zip([0.1, 1.0], lower, upper, strict=True):
        assert low <= finite(pairs, mp.mpf(epsilon)) <= high


def test_fixed_size_sampling_is_the_scaled_profile_and_symmetric() -> None:
    event = Gaussian(noise_multiplier=1).fixed_size_sampled(size=10, population=1000)
    lower, upper = profile_bounds(event, [0.05, -0.05], neighbors=ReplaceOne)
    inner = mp.log(1 + mp.expm1(mp.mpf(0.05)) * 100)
    # Replacing one unit moves the sum twice as far as adding one, of which the event speaks.
    exact = gaussian(inner, mp.mpf(2)) / 100
    turned = -mp.expm1(mp.mpf(-0.05)) + mp.exp(mp.mpf(-0.05)) * exact
    assert lower[0] <= exact <= upper[0] < float(exact) * (1 + 1e-11)
    assert lower[1] <= turned <= upper[1] < float(turned) * (1 + 1e-11)
    with pytest.raises(UnsupportedEvent, match="ReplaceOne"):
        profile_bounds(event, [0.0], neighbors=AddRemove)


def test_edges_and_infinite_epsilon() -> None:
    lower, upper = profile_bounds(Approximate(epsilon=1, delta=0.25), [math.inf, -math.inf, 1.0])
    assert lower[0] == upper[0] == 0.25
    assert lower[1] == upper[1] == 1.0
    assert lower[2] == 0.25
    none, zero = profile_bounds(Pure(epsilon=0), [0.0, 1.0, 2000.0])
    assert np.all(none == 0)
    assert np.all(zero <= 1e-300)
    _, beyond = profile_bounds(Laplace(noise_multiplier=10), [0.1, 1e300, 0.11])
    assert np.all(beyond == 0)
    assert profile_bounds(Pure(epsilon=1), np.zeros((2, 3)))[0].shape == (2, 3)


def test_curves_fall_and_are_bounded_by_their_symmetric_pair() -> None:
    epsilons = np.linspace(-4, 4, 801)
    for event, _, _ in CASES:
        found = curve_of(event)(epsilons)
        assert np.all(found.lower[1:] <= found.upper[:-1])
        assert np.all(found.lower <= found.upper)
        turned = -np.expm1(epsilons) + np.exp(epsilons) * found.upper[::-1]
        assert np.all(found.lower <= turned + 1e-12)


def test_refusals() -> None:
    with pytest.raises(InvalidParameter, match="direction"):
        profile_bounds(Pure(epsilon=1), [1.0], direction="both")  # type: ignore[arg-type]
    with pytest.raises(UnsupportedEvent):
        profile_bounds(Pure(epsilon=1) + Gaussian(noise_multiplier=1), [1.0])
    with pytest.raises(UnsupportedEvent):
        profile_bounds(Pure(epsilon=1).shuffled(count=10), [1.0])
    with pytest.raises(UnsupportedEvent):
        profile_bounds(Pure(epsilon=1).fixed_size_sampled(size=1, population=9), [1.0])


@pytest.mark.long
def test_functions_of_numpy_and_scipy_have_the_errors_that_are_charged() -> None:
    generator = np.random.default_rng(7)
    small = 10 ** generator.uniform(-12, 1, 500)
    points = np.concatenate((generator.uniform(-30, 30, 1500), small))
    rising: list[tuple[Any, Any]] = [(np.exp, mp.exp), (np.expm1, mp.expm1)]
    for function, exact in rising:
        for x, value in zip(points, function(points), strict=True):
            truth = exact(mp.mpf(float(x)))
            assert abs(value - truth) <= abs(truth) * mp.mpf(2) ** -50
    positive = np.abs(points)
    logarithms: list[tuple[Any, Any]] = [(np.log, mp.log), (np.log1p, mp.log1p)]
    for function, exact in logarithms:
        for x, value in zip(positive, function(positive), strict=True):
            truth = exact(mp.mpf(float(x)))
            assert abs(value - truth) <= abs(truth) * mp.mpf(2) ** -50
    places = np.concatenate((generator.uniform(-1, 8, 1000), generator.uniform(8, 40, 500)))
    for x, value in zip(places, special.erfcx(places), strict=True):
        t = mp.mpf(float(x))
        truth = mp.exp(t * t) * mp.erfc(t)
        assert abs(value - truth) <= truth * mp.mpf(2) ** -49
    for x, value in zip(places, special.ndtr(places), strict=True):
        truth = mp.ncdf(mp.mpf(float(x)))
        assert abs(value - truth) <= truth * mp.mpf(2) ** -49


@pytest.mark.long
def test_running_sums_keep_their_error() -> None:
    terms = np.random.default_rng(3).uniform(0, 1, 40_000) ** 8
    sums, error = boxes.running_sum(terms)
    exact = Fraction(0)
    for index, term in enumerate(terms):
        exact += Fraction(float(term))
        if index % 1000 == 0 or index == len(terms) - 1:
            assert abs(Fraction(float(sums[index])) - exact) <= exact * Fraction(error)
    assert error < 2e-13
