"""The grid engine where one unit of a sample is replaced, and on mixtures of Gaussians."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest
from tests.accounting.by_grids import delta_interval, epsilon_interval
from tests.accounting.long_contours import MP, Points, boole, half_line, holds, long_delta, own
from tests.tiers import mostly_slow

from unacorda.accounting.contour.engine import Directions
from unacorda.privacy.events import (
    Approximate,
    DiscreteLaplace,
    Event,
    Exponential,
    Gaussian,
    GaussianMixture,
    Laplace,
    Pure,
    RandomizedResponse,
    TruncatedLaplace,
)
from unacorda.privacy.neighbors import ReplaceOne

BOTH: tuple[Directions, Directions] = ("remove", "add")


def gaussian_delta(mu: Any, e: Any) -> Any:
    return MP.ncdf(mu / 2 - e / mu) - MP.exp(e) * MP.ncdf(-mu / 2 - e / mu)


def symmetric(above: list[tuple[Any, Any]], rate: float) -> Points:
    """The law under P of the pair whose profile is rate times delta(ln(1 + (e^eps - 1) / rate)).

    above: losses z > 0 of the base with their masses under Q.
    """
    p = MP.mpf(rate)
    points = []
    for z, mass in above:
        loss = MP.log(1 - p + p * MP.exp(z))
        points += [(mass * MP.exp(loss), loss), (mass, -loss)]
    rest = 1 - MP.fsum(mass for mass, _ in points)
    return [*points, (rest, MP.mpf(0))]


def normal_above(mu: float, points: int = 200) -> list[tuple[Any, Any]]:
    m = MP.mpf(mu)
    return half_line(
        lambda z: MP.exp(-((z + m * m / 2) ** 2) / (2 * m * m)) / (m * MP.sqrt(2 * MP.pi)), points
    )


@pytest.mark.long
def test_the_reference_law_has_the_amplified_profile() -> None:
    rate, mu = 0.125, 1.0
    law = symmetric(normal_above(mu, 1500), rate)
    assert abs(MP.fsum(p for p, _ in law) - 1) < 1e-25
    assert abs(MP.fsum(p * MP.exp(-loss) for p, loss in law) - 1) < 1e-25
    for epsilon in (0.0, 0.03125, 0.25, 1.0):
        e = MP.mpf(epsilon)
        inner = MP.log(1 + MP.expm1(e) / rate)
        exact = rate * gaussian_delta(MP.mpf(mu), inner)
        found = MP.fsum(p * max(1 - MP.exp(e - loss), MP.mpf(0)) for p, loss in law)
        assert abs(found - exact) < 1e-5  # of a kinked function
        at = delta_interval(
            [(Gaussian(noise_multiplier=2.0).fixed_size_sampled(size=1, population=8), 1)],
            epsilon=epsilon,
            neighbors=ReplaceOne,
        )
        assert at.lower <= exact <= at.upper


@pytest.mark.long
@pytest.mark.parametrize(
    ("sigma", "rate", "count", "delta"),
    mostly_slow(
        [
            (2.0, 0.0078125, 500, 1e-5),
            (2.0, 0.125, 60, 1e-9),
            (8.0, 0.5, 300, 1e-6),
            pytest.param(1.0, 0.03125, 200, 1e-3, marks=pytest.mark.slow),
        ]
    ),
)
def test_fixed_size_gaussian_holds_long_sums(
    sigma: float, rate: float, count: int, delta: float
) -> None:
    event = Gaussian(noise_multiplier=sigma).fixed_size_sampled(
        size=int(128 * rate), population=128
    )
    law = symmetric(normal_above(2 / sigma), rate)
    found = epsilon_interval([(event, count)], delta=delta, neighbors=ReplaceOne)
    assert holds((found.upper * (1 - 1e-3), found.upper), [(law, count)], delta, part=0.6)


@pytest.mark.long
def test_fixed_size_gaussian_beside_plain_noise() -> None:
    event = Gaussian(noise_multiplier=2.0).fixed_size_sampled(size=16, population=128)
    law = symmetric(normal_above(1.0), 0.125)
    steps: list[tuple[Event, int]] = [(event, 1), (Gaussian(noise_multiplier=2.0), 1)]
    found = epsilon_interval(steps, delta=1e-6, neighbors=ReplaceOne)
    assert holds((found.upper * (1 - 1e-3), found.upper), [(law, 1)], 1e-6, mu=0.5)


def binomial(size: int, population: int, kept: int) -> tuple[list[Any], Any]:
    """Masses of 1, 2, ... hits among `size` draws, over that of any hit; and that mass."""
    once = MP.mpf(1) / population
    masses = [
        MP.binomial(size, k) * once**k * (1 - once) ** (size - k)
        for k in range(1, min(size, kept) + 1)
    ]
    rate = 1 - (1 - once) ** size
    return [mass / rate for mass in masses], rate


def shifted_hits(weights: list[Any], rate: Any, sigma: int) -> Points:
    """The loss where a unit's k draws move a sum by 2k: all other units give the opposite."""
    points = []
    for y in (MP.mpf(i) / 4 for i in range(-160, 200)):
        plain = MP.npdf(y, 0, sigma)
        hit = MP.fsum(w * MP.npdf(y, 2 * k, sigma) for k, w in enumerate(weights, start=1))
        mixed = (1 - rate) * plain + rate * hit
        points.append((mixed / 4, MP.log(mixed / plain)))
    return points


@pytest.mark.long
def test_gaussian_with_replacement_lies_between_a_pair_and_equal_shares() -> None:
    """Below is a pair that occurs; above, Theorem 10 of Balle, Barthe, Gaboardi 2018."""
    size, population, count, delta = 5, 100, 300, 1e-5
    weights, rate = binomial(size, population, 5)
    event = Gaussian(noise_multiplier=3.0).sampled_with_replacement(
        size=size, population=population
    )
    found = epsilon_interval([(event, count)], delta=delta, neighbors=ReplaceOne)
    pair = shifted_hits(weights, rate, 3)
    assert holds((found.lower, found.lower * (1 + 1e-3)), [(pair, count)], delta, part=0.5)
    above = [
        (z, weight * mass)
        for k, weight in enumerate(weights, start=1)
        for z, mass in normal_above(2 * k / 3.0)
    ]
    alike, c = symmetric(above, rate), 1.2
    x = 4 * found.upper + 70 / c
    assert long_delta([(alike, count)], found.upper, c=c, x=x) > 10 * delta
    assert found.upper < 1.15 * found.lower


@pytest.mark.long
def test_draws_with_replacement_of_one_unit_are_the_group() -> None:
    event = Gaussian(noise_multiplier=4.0).sampled_with_replacement(size=3, population=1)
    found = epsilon_interval([(event, 20)], delta=1e-6, neighbors=ReplaceOne)
    plain = epsilon_interval([(Gaussian(noise_multiplier=4.0 / 6), 20)], delta=1e-6)
    assert found.upper == pytest.approx(plain.upper, rel=1e-4)
    assert found.upper >= plain.lower


FINITE: list[tuple[Event, list[tuple[float, float]]]] = [
    (Pure(epsilon=0.25), [(0.5, 1 / (1 + math.exp(-0.5)))]),
    (
        RandomizedResponse(epsilon=1.0, categories=3),
        [(1.0, 1 / (1 + 2 * math.exp(-1.0)))],
    ),
    (
        DiscreteLaplace(scale=4, sensitivity=1),
        [(0.5, 1 / (1 + math.exp(-0.25)))],
    ),
]


@pytest.mark.long
@pytest.mark.parametrize(("event", "above"), FINITE, ids=[str(e)[:30] for e, _ in FINITE])
def test_fixed_size_finite_laws_hold_long_sums(
    event: Event, above: list[tuple[float, float]]
) -> None:
    """Beside noise of sigma 1; above: losses above 0 under replacement, masses under P."""
    steps: list[tuple[Event, int]] = [
        (event.fixed_size_sampled(size=16, population=128), 30),
        (Gaussian(noise_multiplier=1.0), 1),
    ]
    law = symmetric([(MP.mpf(z), mass * MP.exp(-MP.mpf(z))) for z, mass in above], 0.125)
    found = epsilon_interval(steps, delta=1e-6, neighbors=ReplaceOne)
    assert holds((found.upper * (1 - 1e-3), found.upper), [(law, 30)], 1e-6, mu=1.0)


def laplace_above(b: float) -> list[tuple[Any, Any]]:
    """Under the double shift: an atom at 2/b, and the density between."""
    top = 2 / MP.mpf(b)
    inner = boole(lambda z: MP.mpf(1), lambda z: MP.exp(-(z + top) / 2) / 4, [MP.mpf(0), top], 400)
    ends = [top * k / 400 for k in range(401)]
    return [(top, MP.exp(-top) / 2)] + [(z, q) for z, (_, q) in zip(ends, inner, strict=True)]


@pytest.mark.long
def test_fixed_size_laplace_holds_long_sums() -> None:
    event = Laplace(noise_multiplier=2.0).fixed_size_sampled(size=16, population=128)
    law = symmetric(laplace_above(2.0), 0.125)
    found = epsilon_interval([(event, 300)], delta=1e-6, neighbors=ReplaceOne)
    assert holds((found.upper * (1 - 1e-3), found.upper), [(law, 300)], 1e-6)


@pytest.mark.long
def test_fixed_size_bounded_range_and_truncated_noise() -> None:
    """Bounded range doubles; cut noise of a half bound under a whole shift is all shown."""
    event = Exponential(epsilon=0.5).fixed_size_sampled(size=16, population=128)
    length = MP.mpf(1)
    above = boole(
        lambda z: z,
        lambda z: MP.exp(-(z + length) / 2) / (2 * (1 - MP.exp(-length))),
        [MP.mpf(0), length],
        400,
    )
    ends = [length * k / 400 for k in range(401)]
    law = symmetric([(z, q) for z, (_, q) in zip(ends, above, strict=True)], 0.125)
    found = epsilon_interval([(event, 400)], delta=1e-6, neighbors=ReplaceOne)
    assert holds((found.upper * (1 - 1e-3), found.upper), [(law, 400)], 1e-6)
    cut = TruncatedLaplace(noise_multiplier=8.0, bound=1).fixed_size_sampled(size=1, population=8)
    at = delta_interval([(cut, 1)], epsilon=0.5, neighbors=ReplaceOne)
    assert at.upper == pytest.approx(0.125, rel=1e-9) or at.upper == 1.0


@pytest.mark.long
def test_a_failure_of_a_replaced_unit_is_shown_with_the_rate() -> None:
    event = Approximate(epsilon=0.25, delta=1e-4).fixed_size_sampled(size=16, population=128)
    at = delta_interval(
        [(event, 3), (Gaussian(noise_multiplier=2.0), 1)], epsilon=30.0, neighbors=ReplaceOne
    )
    # the group of two: delta (e^(2 eps) - 1) / (e^eps - 1) = delta (e^eps + 1)
    mass = 0.125 * 1e-4 * (1 + math.exp(0.25))
    assert at.upper == pytest.approx(1 - (1 - mass) ** 3, rel=1e-9)


# ---------------------------------------------------- a Poisson sample, one unit replaced


def whole_line(first: Any, second: Any, ends: tuple[float, float], step: float) -> Points:
    """The trapezoid rule for two densities."""
    low, high = ends
    count = math.ceil((high - low) / step)
    places = [MP.mpf(low) + step * (k + MP.mpf(1) / 3) for k in range(count)]
    return own((step * first(x), step * second(x)) for x in places)


def normal(x: Any, mean: Any) -> Any:
    return MP.exp(-((x - mean) ** 2) / 2) / MP.sqrt(2 * MP.pi)


@pytest.mark.long
@pytest.mark.parametrize(
    ("sigma", "rate", "count", "delta"), [(2.0, 0.0625, 100, 1e-6), (1.0, 0.015625, 400, 1e-5)]
)
def test_poisson_samples_under_replacement_hold_long_sums(
    sigma: float, rate: float, count: int, delta: float
) -> None:
    mu, q = 1 / MP.mpf(sigma), MP.mpf(rate)
    law = whole_line(
        lambda x: (1 - q) * normal(x, 0) + q * normal(x, mu),
        lambda x: (1 - q) * normal(x, 0) + q * normal(x, -mu),
        (-14.0, 14.0),
        0.125,
    )
    event = Gaussian(noise_multiplier=sigma).poisson_sampled(rate=rate)
    found = epsilon_interval([(event, count)], delta=delta, neighbors=ReplaceOne)
    assert found.upper - found.lower < 1e-3 * found.upper
    assert holds(found, [(law, count)], delta)
    removed = epsilon_interval([(event, count)], delta=delta)
    assert removed.upper < found.lower < 2 * removed.upper + 1


def test_opposite_units_are_the_worst_replacement_in_the_plane() -> None:
    """The sum over a fine grid of (P - ratio Q)+ for units anywhere in the unit disc."""
    q, sigma, step = 0.25, 0.75, 0.05
    axis = np.arange(-6, 6, step)
    x, y = np.meshgrid(axis, axis)

    def density(a: float, b: float) -> Any:
        square = (x - a) ** 2 + (y - b) ** 2
        return np.exp(-square / (2 * sigma**2)) / (2 * math.pi * sigma**2)

    base = (1 - q) * density(0, 0)

    def stick(first: tuple[float, float], second: tuple[float, float], ratio: float) -> float:
        above, below = base + q * density(*first), base + q * density(*second)
        return float(np.maximum(above - ratio * below, 0).sum()) * step * step

    draw = random.Random(3)
    for ratio in (0.5, 1.0, 1.2, 2.0, 4.0):
        worst = stick((1, 0), (-1, 0), ratio)
        for _ in range(25):
            radii = [math.sqrt(draw.random()), 1.0]
            places = [
                (r * math.cos(angle), r * math.sin(angle))
                for r, angle in zip(
                    radii, (draw.uniform(0, 6.3), draw.uniform(0, 6.3)), strict=True
                )
            ]
            draw.shuffle(places)
            assert stick(places[0], places[1], ratio) <= worst + 1e-6


# ------------------------------------------------------------------------- mixtures of Gaussians


@pytest.mark.long
@pytest.mark.parametrize("direction", BOTH)
@pytest.mark.parametrize("rate", mostly_slow([1.0, 0.125]))
def test_gaussian_mixtures_hold_long_sums(rate: float, direction: Directions) -> None:
    weights, shifts, sigma, count = [0.75, 0.125, 0.125], [0.0, 1.0, 2.5], 2.0, 150
    event: Event = GaussianMixture(
        noise_multiplier=sigma, shifts=tuple(shifts), weights=tuple(weights)
    )

    def moved(x: Any) -> Any:
        inside = MP.fsum(
            w * normal(x, MP.mpf(s) / sigma) for w, s in zip(weights, shifts, strict=True)
        )
        return rate * inside + (1 - rate) * normal(x, 0)

    def still(x: Any) -> Any:
        return normal(x, 0)

    pair = (moved, still) if direction == "remove" else (still, moved)
    law = whole_line(*pair, (-14.0, 15.0), 0.125)
    for delta in (1e-4, 1e-10):
        found = epsilon_interval(
            [(event.poisson_sampled(rate=rate), count)], delta=delta, directions=direction
        )
        assert found.upper - found.lower < 1e-3 * found.upper
        assert holds(found, [(law, count)], delta, part=0.6)


@pytest.mark.long
def test_a_mixture_of_one_or_two_shifts_is_a_gaussian_or_its_sample() -> None:
    one = GaussianMixture(noise_multiplier=3.0, shifts=(1.5,), weights=(1,))
    plain = epsilon_interval([(Gaussian(noise_multiplier=2.0), 40)], delta=1e-6)
    found = epsilon_interval([(one, 40)], delta=1e-6)
    assert found.upper == pytest.approx(plain.upper, rel=1e-4)
    two = GaussianMixture(noise_multiplier=2.0, shifts=(0, 1), weights=(0.9, 0.1))
    sample = Gaussian(noise_multiplier=2.0).poisson_sampled(rate=0.1)
    for direction in BOTH:
        first = epsilon_interval([(two, 200)], delta=1e-6, directions=direction)
        second = epsilon_interval([(sample, 200)], delta=1e-6, directions=direction)
        assert first.lower <= second.upper
        assert second.lower <= first.upper
        assert first.upper == pytest.approx(second.upper, rel=1e-4)
