"""Equal steps with losses between two edges: docs/proofs/edges.md, against independent sums."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from typing import Any

import mpmath
import numpy as np
import pytest

from unacorda import accounting, events
from unacorda.accounting import accountant
from unacorda.accounting.contour.parts import flatten
from unacorda.accounting.edges import engine
from unacorda.accounting.edges.ladders import Grid, Ladder
from unacorda.accounting.edges.steps import Steps, Way, steps_of
from unacorda.accounting.edges.topmost import delta_near_top, epsilon_near_top
from unacorda.errors import UnsupportedEvent
from unacorda.privacy.events import Event
from unacorda.privacy.neighbors import AddRemove, ReplaceOne

MP = mpmath.MPContext()
MP.dps = 34

LAWS = [
    ("1", "1"),
    ("0.1", "1"),
    ("0.07", "0.01"),
    ("1000", "1e-6"),
    ("2", "0.999"),
    ("1", "1e-7"),
]
RARE = ("0.064", "5.4e-9")


def sampled(noise: str, rate: str, count: int = 3) -> Event:
    one = events.Laplace(noise_multiplier=Fraction(noise))
    drawn = one if rate == "1" else one.poisson_sampled(rate=Fraction(rate))
    return drawn * count


def drawn_discrete(scale: str, rate: str, count: int) -> Event:
    one = events.DiscreteLaplace(scale=Fraction(scale), sensitivity=1)
    return one.poisson_sampled(rate=Fraction(rate)) * count


def steps(event: Event) -> Steps:
    return steps_of(flatten([(event, 1)]), AddRemove)


def nodes_of(grid: Grid) -> list[Any]:
    start, step = (MP.mpf(one.numerator) / one.denominator for one in (grid.start, grid.step))
    return [start + step * i for i in range(len(grid.masses))]


def width(found: Any) -> float:
    return float((found.upper - found.lower) / found.upper) if found.upper else 0.0


def profile_of_one(noise: str, rate: str, *, remove: bool) -> Callable[[Any], Any]:
    """The profile of one step at any epsilon, by the antiderivatives of both densities."""
    u, q = 1 / MP.mpf(noise), MP.mpf(rate)

    def rest(z: Any, x: Any) -> Any:  # of (f - x) Q from z to u, and of (1 - x f) Q from -u to z
        low, high = (z, u) if remove else (-u, z)
        plain = (MP.exp(-(low + u) / 2) - MP.exp(-(high + u) / 2)) / 2
        steep = (MP.exp((high - u) / 2) - MP.exp((low - u) / 2)) / 2
        mean = (1 - q) * plain + q * steep
        return mean - x * plain if remove else plain - x * mean

    def value(epsilon: Any) -> Any:
        x = MP.exp(epsilon)
        total = MP.mpf(0)
        for z, mass in ((-u, MP.mpf(1) / 2), (u, MP.exp(-u) / 2)):
            f = 1 - q + q * MP.exp(z)
            total += mass * max(f - x if remove else 1 - x * f, MP.mpf(0))
        turned = ((x if remove else 1 / x) - (1 - q)) / q
        z = min(max(MP.log(turned), -u), u) if turned > 0 else -u
        return total + rest(z, x)

    return value


def profile_of_two(noise: str, rate: str, epsilon: Any, *, remove: bool) -> Any:
    """Of two steps: the profile of one, in the mean over the loss of the other."""
    u, q = 1 / MP.mpf(noise), MP.mpf(rate)
    one = profile_of_one(noise, rate, remove=remove)

    def at(z: Any) -> Any:
        f = 1 - q + q * MP.exp(z)
        loss = MP.log(f) if remove else -MP.log(f)
        return (f if remove else 1) * one(epsilon - loss)

    total = at(-u) / 2 + at(u) * MP.exp(-u) / 2
    ends = [MP.log(1 - q + q * MP.exp(z)) for z in (-u, u)]
    kinks = []
    for end in ends:
        x = (MP.exp(epsilon - end) - (1 - q)) / q if remove else 0
        if not remove:
            x = (MP.exp(-epsilon - end) - (1 - q)) / q
        if x > 0 and -u < MP.log(x) < u:
            kinks.append(MP.log(x))
    places = [-u, *sorted(kinks), u]
    for low, high in pairwise(places):
        total += MP.quad(lambda z: at(z) * MP.exp(-(z + u) / 2) / 4, [low, (low + high) / 2, high])
    return total


@pytest.mark.parametrize(("noise", "rate"), [*LAWS, RARE])
def test_laws_on_a_ladder_hold_the_profile_of_one_step_between_them(noise: str, rate: str) -> None:
    for way in steps(sampled(noise, rate)).ways:
        truth = profile_of_one(noise, rate, remove=way.remove)
        for rungs in (5, 60):
            ladder = Ladder.of(way, rungs)
            for k in range(1, 12):
                place = way.width * (k / 12 + 0.003)
                exact = truth(MP.mpf(way.bottom) + place)
                sides = [
                    MP.fsum(
                        MP.mpf(float(mass)) * max(-MP.expm1(place - node - sign * ladder.drift), 0)
                        for mass, node in zip(grid.masses, nodes_of(grid), strict=True)
                    )
                    for grid, sign in ((ladder.below, -1), (ladder.above, 1))
                ]
                assert sides[0] <= exact <= sides[1]
            low, high = float(np.sum(ladder.below.masses)), float(np.sum(ladder.above.masses))
            assert low <= 1.0 <= high < 1 + 1e-9


@pytest.mark.long
@pytest.mark.parametrize(("noise", "rate"), LAWS)
def test_two_steps_agree_with_a_mean_over_one_of_them(noise: str, rate: str) -> None:
    event = sampled(noise, rate, 2)
    flat = flatten([(event, 1)])
    ways = steps(event).ways
    for share in (0.1, 0.9):
        epsilon = Fraction(float(2 * ways[0].top * share))
        at = MP.mpf(epsilon.numerator) / epsilon.denominator
        truth = max(profile_of_two(noise, rate, at, remove=way.remove) for way in ways)
        found = engine.delta_of(flat, epsilon)
        slip = 1e-15 * (1 + 1 / float(truth)) * float(truth)
        assert found.lower - slip <= truth <= found.upper + slip
        assert width(found) < 1e-4
        back = engine.epsilon_of(flat, Fraction(float(truth)))
        assert back.lower * (1 - 1e-12) <= epsilon <= back.upper * (1 + 1e-12)
        assert width(back) < 1e-4


@pytest.mark.parametrize(
    ("scale", "rate", "count", "delta"),
    [(3, "0.2", 40, 1e-10), (50, "0.01", 500, 1e-60), (0.4, "1e-5", 300, 1e-30)],
)
def test_sampled_discrete_noise_agrees_with_the_binomial_sum(
    scale: float, rate: str, count: int, delta: float
) -> None:
    event = events.DiscreteLaplace(scale=scale, sensitivity=1).poisson_sampled(rate=Fraction(rate))
    found = engine.epsilon_of(flatten([(event * count, 1)]), Fraction(delta))
    assert width(found) < 1e-4
    u, q = 1 / MP.mpf(str(scale)), MP.mpf(rate)
    high, low = 1 - q + q * MP.exp(u), 1 - q + q * MP.exp(-u)
    top = 1 / (1 + MP.exp(-u))

    def truth(epsilon: float) -> Any:
        sums = []
        for remove in (True, False):
            best, other = (MP.log(high), MP.log(low)) if remove else (-MP.log(low), -MP.log(high))
            share = high * top * MP.exp(-u) if remove else top
            total = MP.mpf(0)
            for j in range(count + 1):
                loss = (count - j) * best + j * other
                if loss > epsilon:
                    ways = MP.binomial(count, j) * share ** (count - j) * (1 - share) ** j
                    total -= ways * MP.expm1(epsilon - loss)
            sums.append(total)
        return max(sums)

    assert truth(found.lower) >= delta * (1 - 1e-15)
    assert truth(found.upper) <= delta * (1 + 1e-15)
    told = engine.delta_of(flatten([(event * count, 1)]), Fraction(found.upper))
    assert told.lower <= truth(found.upper) <= told.upper


@pytest.mark.long
def test_a_binomial_sum_of_many_copies_agrees_with_one_of_34_digits() -> None:
    count, scale, rate = 10**8, MP.mpf("3000"), MP.mpf("0.4")
    flat = flatten([(drawn_discrete("3000", "0.4", count), 1)])
    found = engine.epsilon_of(flat, Fraction(1, 10**200))
    assert width(found) < 1e-10
    u = 1 / scale
    high, low = 1 + rate * MP.expm1(u), 1 + rate * MP.expm1(-u)
    share = high * MP.exp(-u) / (1 + MP.exp(-u))
    best, other = MP.log(high), MP.log(low)
    for epsilon, sign in ((found.lower, 1), (found.upper, -1)):
        j = int((count * best - MP.mpf(epsilon)) / (best - other))
        term = MP.exp(
            MP.loggamma(count + 1)
            - MP.loggamma(j + 1)
            - MP.loggamma(count - j + 1)
            + (count - j) * MP.log(share)
            + j * MP.log(1 - share)
        )
        total = MP.mpf(0)
        for i in range(j, j - 20_000, -1):
            total -= term * MP.expm1(MP.mpf(epsilon) - (count - i) * best - i * other)
            term *= i * share / ((count - i + 1) * (1 - share))
        assert sign * (total / MP.mpf("1e-200") - 1) > -1e-12


@pytest.mark.long
@pytest.mark.parametrize(
    ("noise", "rate"), [("1", "1"), ("0.3", "0.2"), ("50", "1e-4"), ("9", "0.9")]
)
def test_near_the_largest_loss_two_steps_are_told_nearly_exactly(noise: str, rate: str) -> None:
    for way in steps(sampled(noise, rate, 2)).ways:
        for gap in (1e-3, 1e-6):
            epsilon = Fraction(float(way.largest - way.width * gap))
            at = MP.mpf(epsilon.numerator) / epsilon.denominator
            found = delta_near_top(way, epsilon)
            assert found is not None
            truth = profile_of_two(noise, rate, at, remove=way.remove)
            assert found.lower <= truth * (1 + 1e-12)
            assert truth <= found.upper * (1 + 1e-12)
            assert width(found) < 100 * gap
            back = epsilon_near_top(way, Fraction(found.upper))
            assert back is not None
            assert back.lower <= epsilon


def test_beyond_the_largest_loss_nothing_is_left() -> None:
    way = steps(sampled("0.3", "0.2", 5)).ways[0]
    beyond = Fraction(math.nextafter(float(way.largest), math.inf))
    found = delta_near_top(way, beyond)
    assert found is not None
    assert found.upper == 0.0
    assert delta_near_top(way, Fraction(float(way.largest) / 2)) is None


KNOWN = [
    (sampled("0.4618", "1", 326), 3.8e-236),
    (sampled("7.312", "5.3434e-7", 127), 6.7e-281),
    (sampled("0.0683", "0.0166", 6), 3.75e-202),
    pytest.param(sampled("1890", "3.1e-5", 12_000), 1e-40, marks=pytest.mark.slow),
    pytest.param(sampled("43115", "6e-4", 100_000), 1e-12, marks=pytest.mark.slow),
    pytest.param(sampled("0.2366", "1.6465e-9", 205), 2.6e-236, marks=pytest.mark.slow),
    (sampled("113.6", "1", 180_000_000_000), 1e-10),
    (sampled("0.059593", "2.189e-9", 15_657_051_038), 1.7e-241),
    (sampled("1e6", "1", 60_000_000), 1e-300),
    (sampled("0.81942", "1.37398e-9", 21_785_305_812), 1.1e-27),
    (sampled("0.90304", "4.29077e-9", 1_974_532), 1.5e-290),
    (drawn_discrete("1.2163", "5.4846e-8", 782_303_947_978), 1.2e-14),
]


@pytest.mark.parametrize(("event", "delta"), KNOWN)
def test_what_was_wide_is_narrow(event: Event, delta: float) -> None:
    found = accounting.epsilon_interval(event, delta=delta, tolerance=0)
    assert 0 < width(found) < 1e-4
    told = accounting.delta_interval(event, epsilon=found.upper, tolerance=0)
    assert told.upper == 0.0 or width(told) < 1e-4
    assert told.lower <= delta * (1 + 1e-12)


def test_many_copies_agree_with_a_sum_of_34_digits() -> None:
    """Another abscissa, step and precision than the engine's; no bound is asked of the sum."""
    count, u = 180_000_000_000, 1 / MP.mpf("113.6")
    found = accounting.epsilon_interval(sampled("113.6", "1", count), delta=1e-10)
    c, h, epsilon = MP.mpf("0.0015"), MP.mpf("0.00009"), MP.mpf(found.upper)

    def height(s: Any) -> Any:
        first = (s + 1) / (2 * s + 1) * MP.exp(s * u)
        return count * MP.log(first + s / (2 * s + 1) * MP.exp(-(s + 1) * u)) - s * epsilon

    total = MP.mpf(0)
    for n in range(60):
        s = c + 1j * n * h
        total += (MP.exp(height(s)) / (s * (s + 1))).real * (0.5 if n == 0 else 1)
    delta = total * h / MP.pi
    assert abs(delta / MP.mpf("1e-10") - 1) < 1e-8


@pytest.mark.slow
def test_many_steps_of_a_rare_sample_agree_with_an_integral() -> None:
    """Inversion at another abscissa; the cumulant by Gauss and Legendre, panel by panel."""
    noise, rate, count, delta = 0.064, 5.4e-9, 12_487_425, 1.2e-153
    steps = flatten([(sampled("0.064", "5.4e-9", count), 1)])
    found = engine.epsilon_of(steps, Fraction(delta))
    assert width(found) < 1e-6
    told = engine.delta_of(steps, Fraction(found.upper))
    assert width(told) < 1e-4
    u, c, h = 1 / noise, 130.0, 1.7
    s = c + 1j * h * np.arange(170)
    nodes, weights = np.polynomial.legendre.leggauss(60)
    ends = np.linspace(-u, u, 120)
    half = np.diff(ends)[:, None] / 2
    z = (ends[:-1, None] + half + half * nodes).ravel()
    mass = (half * weights).ravel() * np.exp(-(z + u) / 2) / 4
    z = np.concatenate((z, [-u, u]))
    mass = np.concatenate((mass, [0.5, math.exp(-u) / 2]))
    loss = np.log1p(rate * np.expm1(z))
    moments = np.expm1(np.multiply.outer(s, loss)) @ (mass * (1 + rate * np.expm1(z)))
    heights = count * np.log1p(moments) - s * found.upper
    terms = np.exp(heights - math.log(delta)) / (s * (s + 1))
    sum_of_all = (h / math.pi) * (float(np.sum(terms.real)) - terms[0].real / 2)
    assert told.lower / delta * (1 - 1e-5) < sum_of_all < told.upper / delta * (1 + 1e-5)
    assert abs(sum_of_all - 1) < 1e-4


def test_other_events_are_left_to_other_engines() -> None:
    for event in (
        events.Gaussian(noise_multiplier=1) * 3,
        events.Composed(
            parts=(events.Laplace(noise_multiplier=1), events.Laplace(noise_multiplier=2))
        ),
        events.TruncatedLaplace(noise_multiplier=1, bound=5),
    ):
        with pytest.raises(UnsupportedEvent):
            engine.epsilon_of(flatten([(event, 1)]), Fraction(1, 10**6))
    drawn = flatten([(sampled("1", "0.1"), 1)], neighbors=ReplaceOne)
    with pytest.raises(UnsupportedEvent):
        engine.delta_of(drawn, Fraction(1), neighbors=ReplaceOne)


@pytest.mark.long
def test_the_engines_are_named_in_findings() -> None:
    _, asked = accountant.priced(sampled("0.4618", "1", 326), delta=3.8e-236)
    assert asked[-1].engine == "near the largest loss"
    _, asked = accountant.priced(sampled("10", "0.1", 50), delta=1e-10)
    assert asked[-1].engine == "sums between two edges (FFT)"


def test_groups_have_their_node_in_the_middle() -> None:
    way = steps(sampled("0.2", "0.3")).ways[0]
    assert isinstance(way, Way)
    assert Ladder.of(way, 500).spread(3.0) < 0.1
    assert Ladder.of(way, 5000).spread(3.0) < 1e-3
