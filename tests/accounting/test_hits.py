"""Draws with replacement against every sample of small populations, and the scheme itself."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from unacorda.accounting import delta_interval, epsilon_interval
from unacorda.accounting.amplification import sampling
from unacorda.accounting.profiles import draws
from unacorda.accounting.profiles.boxes import box
from unacorda.accounting.profiles.draws import location_family
from unacorda.accounting.profiles.noises import boxed
from unacorda.privacy.events import Event, Gaussian, Laplace, Pure
from unacorda.privacy.neighbors import ReplaceOne, ZeroOut

NOISES: list[tuple[Event, Any]] = [
    (Gaussian(noise_multiplier=1.5), stats.norm(scale=1.5)),
    (Laplace(noise_multiplier=2.0), stats.laplace(scale=2.0)),
]
GRID = np.linspace(-60.0, 60.0, 24_001)
STEP = float(GRID[1] - GRID[0])


def stick(p: Any, q: Any, epsilon: float) -> float:
    """The divergence of two densities on the grid."""
    gaps = p - math.exp(epsilon) * q
    return float(np.sum(gaps[gaps > 0])) * STEP


def hits(size: int, population: int) -> list[float]:
    once = 1 / population
    return [math.comb(size, k) * once**k * (1 - once) ** (size - k) for k in range(size + 1)]


def lipschitz(generator: np.random.Generator, samples: list[tuple[int, ...]]) -> Any:
    """A function of samples that moves by 2 at most where one draw is replaced."""
    heights = generator.uniform(-6, 6, size=len(samples))
    codes = np.array(samples)
    apart = np.sum(codes[:, None, :] != codes[None, :, :], axis=2)
    return dict(zip(samples, np.min(heights[None, :] + 2 * apart, axis=1), strict=True))


@pytest.mark.long
@pytest.mark.parametrize(("event", "noise"), NOISES, ids=["gaussian", "laplace"])
@pytest.mark.parametrize(("size", "population"), [(2, 3), (3, 2)])
def test_no_function_of_all_samples_costs_more(
    event: Event, noise: Any, size: int, population: int
) -> None:
    """Units 0, 1, ... and in the last place 8 or 9; every sample is enumerated."""
    others = range(population - 1)
    samples = list(itertools.product([*others, 8, 9], repeat=size))
    sampled = event.sampled_with_replacement(size=size, population=population)
    asked = (0.0, 0.1, 0.4, 1.0, 2.0)
    found = [delta_interval(sampled, epsilon=e, neighbors=ReplaceOne).upper for e in asked]
    for seed in range(12):
        values = lipschitz(np.random.default_rng(seed), samples)
        first, second = (
            sum(
                noise.pdf(GRID - values[sample])
                for sample in itertools.product([*others, unit], repeat=size)
            )
            / population**size
            for unit in (8, 9)
        )
        for epsilon, upper in zip(asked, found, strict=True):
            assert stick(first, second, epsilon) <= upper * (1 + 1e-5)
            assert stick(second, first, epsilon) <= upper * (1 + 1e-5)


@pytest.mark.long
@pytest.mark.parametrize(("event", "noise"), NOISES, ids=["gaussian", "laplace"])
@pytest.mark.parametrize(("neighbors", "move"), [(ReplaceOne, 2), (ZeroOut, 1)])
def test_a_sum_is_enclosed(event: Event, noise: Any, neighbors: Any, move: int) -> None:
    """All others give -1 and the unit 1 or -1; or they give nothing and the unit 1 or nothing."""
    size, population = 4, 50
    sampled = event.sampled_with_replacement(size=size, population=population)
    plain = noise.pdf(GRID)
    mixed = sum(w * noise.pdf(GRID - move * k) for k, w in enumerate(hits(size, population)))
    for epsilon in (0.02, 0.2, 0.6, 1.1):
        truth = max(stick(mixed, plain, epsilon), stick(plain, mixed, epsilon))
        found = delta_interval(sampled, epsilon=epsilon, neighbors=neighbors)
        assert truth * (1 - 1e-5) <= found.upper
        assert found.lower <= truth * (1 + 1e-5) + 1e-12
        assert found.lower >= truth * (1 - 1e-3) - 1e-9
        if neighbors is ReplaceOne:  # what no sum is known to reach is little
            assert found.upper <= truth * 1.02 + 1e-9


@pytest.mark.parametrize(("event", "noise"), NOISES, ids=["gaussian", "laplace"])
def test_two_steps_of_a_sum_are_enclosed(event: Event, noise: Any) -> None:
    size, population, epsilon = 3, 20, 0.7
    chances = hits(size, population)
    sampled = event.sampled_with_replacement(size=size, population=population)
    x = np.linspace(-22.0, 26.0, 1601)
    plain = noise.pdf(x)
    mixed = sum(w * noise.pdf(x - 2 * k) for k, w in enumerate(chances))
    gaps = np.multiply.outer(mixed, mixed) - math.exp(epsilon) * np.multiply.outer(plain, plain)
    truth = float(np.sum(gaps[gaps > 0])) * float(x[1] - x[0]) ** 2
    found = delta_interval(sampled * 2, epsilon=epsilon, neighbors=ReplaceOne)
    assert found.lower <= truth * (1 + 1e-3)
    assert found.lower >= truth * (1 - 5e-3)
    assert truth * (1 - 1e-3) <= found.upper <= 1.2 * truth


@pytest.mark.long
@pytest.mark.statistical
def test_many_steps_against_the_scheme_itself() -> None:
    """Runs of a noisy sum; by Hoeffding a mean errs by more than the slack once in 1e9."""
    generator, size, population, steps, runs = np.random.default_rng(5), 20, 200, 40, 60_000
    event = Gaussian(noise_multiplier=2.0).sampled_with_replacement(
        size=size, population=population
    )
    counts = generator.binomial(size, 1 / population, size=(runs, steps))
    released = generator.normal(size=(runs, steps)) + counts  # two noise multipliers a hit
    ratio = sum(
        w * np.exp(k * released - k * k / 2) for k, w in enumerate(hits(size, population)[:12])
    )
    at = 0.5
    seen = float(np.mean(np.maximum(1 - math.exp(at) / np.prod(ratio, axis=1), 0)))
    slack = math.sqrt(math.log(2e9) / (2 * runs))
    found = delta_interval(event * steps, epsilon=at, neighbors=ReplaceOne)
    assert found.lower <= seen + slack
    assert seen - slack <= found.upper
    assert slack <= 0.2 * found.lower
    assert found.upper <= 1.4 * found.lower


@pytest.mark.parametrize("event", [Gaussian(noise_multiplier=1.0), Pure(epsilon=0.5)])
def test_hits_share_no_more_than_the_others_leave(event: Event) -> None:
    weights, _, rate = sampling.draws(30, 100)
    shares = [box(rate) * boxed(weight) for weight in weights]
    ratios: Callable[..., Any] = draws._ratios(
        location_family(event), list(range(1, len(shares) + 1)), shares, box(1 - rate)
    )
    found = ratios(np.array([0.0, 1e-12, 0.01, 0.3, 2.0, 30.0, 1e4]))
    total = sum(
        float(weight) * float(rate) * ratio for weight, ratio in zip(weights, found, strict=True)
    )
    assert np.all(total <= float(1 - rate))
    assert np.all(total >= float(1 - rate) * (1 - 1e-9))
    assert all(np.all(ratio >= 0) for ratio in found)


@pytest.mark.long
def test_the_question_of_the_page() -> None:
    event = Gaussian(noise_multiplier=1.0).sampled_with_replacement(size=100, population=10_000)
    found = epsilon_interval(event * 200, delta=1e-6, neighbors=ReplaceOne)
    assert 15.0 < found.lower < found.upper < 15.3
