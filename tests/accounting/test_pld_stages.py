"""Sums in stages and on grids, attacked by enumeration, long lattices, contours and quadrature."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
import random
from fractions import Fraction
from typing import Any, Literal

import mpmath
import numpy as np
import pytest
from tests.accounting import by_contours
from tests.tiers import mostly_slow

from unacorda.accounting import accountant
from unacorda.accounting.pld import stages
from unacorda.accounting.pld.convolution import Side
from unacorda.accounting.pld.distribution import (
    PrivacyLossDistribution,
    largest_holding,
    least_holding,
    worst_epsilon,
)
from unacorda.accounting.pld.stages import Part, Sums, settled_atoms
from unacorda.accounting.profiles.curves import DiscreteLoss, lattice_of
from unacorda.privacy.events import (
    DiscreteGaussian,
    Event,
    Gaussian,
    Laplace,
    RandomizedResponse,
    compose,
)
from unacorda.privacy.neighbors import ReplaceOne

mp = mpmath.MPContext()
mp.dps = 50


@pytest.fixture(params=["one by one", "on grids"])
def ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to sum atoms: the second is what laws of many atoms get."""
    if request.param == "on grids":
        monkeypatch.setattr(stages, "_MOST_ATOMS", 0)
    return str(request.param)


def ratios(pairs: list[list[tuple[Fraction, Fraction]]]) -> list[tuple[Fraction, Fraction]]:
    """The product of finite pairs, outcomes of one likelihood ratio joined."""
    found = [(Fraction(1), Fraction(1))]
    for pair in pairs:
        joined: dict[object, tuple[Fraction, Fraction]] = {}
        for (a, b), (p, q) in itertools.product(found, pair):
            x, y = a * p, b * q
            key = x / y if y else "infinite"
            old = joined.get(key, (Fraction(0), Fraction(0)))
            joined[key] = (old[0] + x, old[1] + y)
        found = list(joined.values())
    return found


def exactly(found: list[tuple[Fraction, Fraction]], epsilon: float) -> Any:
    factor = mp.exp(mp.mpf(epsilon))
    return mp.fsum(
        max(
            mp.mpf(p.numerator) / p.denominator - factor * q.numerator / q.denominator,
            mp.mpf(0),
        )
        for p, q in found
    )


def drawn_pair(source: random.Random) -> tuple[list[float], list[float]]:
    size = source.randint(2, 4)
    low = source.choice([0, 1])
    first = [source.randint(low, 10 ** source.randint(0, 4)) for _ in range(size)]
    second = [source.randint(low, 10 ** source.randint(0, 4)) for _ in range(size)]
    first[0] += 1
    second[-1] += 1
    return [x / sum(first) for x in first], [x / sum(second) for x in second]


def meant(masses: list[float]) -> list[Fraction]:
    """What from_pmfs reads: the numbers of the floats, divided by their sum."""
    numbers = [Fraction(mass) for mass in masses]
    return [number / sum(numbers) for number in numbers]


@pytest.mark.long
@pytest.mark.parametrize(
    "seed", mostly_slow([0, 1, 2, *(pytest.param(k, marks=pytest.mark.slow) for k in range(3, 8))])
)
def test_random_finite_pairs_composed_with_themselves_and_others(seed: int, ways: str) -> None:
    source = random.Random(seed)
    pairs, losses = [], []
    for _ in range(source.randint(1, 3)):
        p, q = drawn_pair(source)
        count = source.choice([1, 2])
        pairs += [list(zip(meant(p), meant(q), strict=True))] * count
        losses.append(PrivacyLossDistribution.from_pmfs(p, q).self_compose(count))
    loss = losses[0]
    for other in losses[1:]:
        loss = loss.compose(other)
    truth = ratios(pairs)
    tiny = mp.mpf(10) ** -15
    for epsilon in (0.0, source.uniform(-3, 3), source.uniform(0, 15)):
        value = exactly(truth, epsilon)
        found = loss.delta_interval(epsilon)
        assert found.lower <= value * (1 + tiny)
        assert value <= found.upper * (1 + tiny)
        if ways == "one by one" and value > 1e-9:
            assert found.width <= 1e-10 * found.upper
        elif value > 1e-3:
            assert found.width <= 2e-3 * found.upper
    for delta in (10 ** source.uniform(-12, -1), 0.3):
        asked = loss.epsilon_interval(delta)
        if asked.upper < math.inf:
            assert exactly(truth, asked.upper) <= delta * (1 + tiny)
        else:
            assert mp.fsum(p.numerator / mp.mpf(p.denominator) for p, q in truth if not q) >= (
                delta * (1 - 1e-12)
            )
        if asked.lower > 0:
            assert exactly(truth, asked.lower * (1 - 1e-15)) >= delta * (1 - tiny)


@pytest.mark.parametrize("side", [1, -1])
@pytest.mark.parametrize("step", [Fraction(1, 3), Fraction(1, 50)])
@pytest.mark.parametrize("tilt", [0.5, 12.0])
def test_masses_moved_to_nodes_raise_or_lower_the_profile(
    side: Side, step: Fraction, tilt: float
) -> None:
    generator = np.random.default_rng(3)
    for _ in range(12):
        count = int(generator.integers(1, 60))
        losses = generator.normal(0.3, generator.choice([0.02, 1.0]), count)
        losses[0] = 0.0
        masses = generator.dirichlet(np.ones(count))
        atoms = DiscreteLoss(losses=losses, masses=masses)
        law = settled_atoms(atoms, step=step, tilt=tilt, side=side, spread=side > 0)
        places = np.arange(law.first, law.first + len(law.values)) * float(step)
        weights = law.values * np.exp(law.height - tilt * places)
        asked = np.concatenate((generator.uniform(-2, 3, 40), places[:: max(1, count // 9)]))
        for epsilon in asked:
            truth = math.fsum(masses * np.maximum(-np.expm1(epsilon - losses), 0.0))
            moved = math.fsum(weights * np.maximum(-np.expm1(epsilon - places), 0.0))
            # places and losses are floats here, each off by a rounding
            assert side * (moved - truth) >= -1e-14 * (1 + abs(epsilon))
            furthest = math.fsum(
                masses * np.maximum(-np.expm1(epsilon - losses - side * float(step)), 0.0)
            )
            assert side * (furthest - moved) >= -1e-12


def test_masses_are_spread_with_an_error_of_second_order() -> None:
    losses = np.linspace(-1, 2, 30_001)
    masses = np.exp(-np.square(losses - 0.5) / 0.18)
    masses /= masses.sum()
    epsilon = 0.7
    truth = math.fsum(masses * np.maximum(-np.expm1(epsilon - losses), 0.0))
    errors = []
    for step in (Fraction(1, 25), Fraction(1, 100)):
        atoms = DiscreteLoss(losses=losses, masses=masses)
        law = settled_atoms(atoms, step=step, tilt=3.0, side=1)
        places = np.arange(law.first, law.first + len(law.values)) * float(step)
        weights = law.values * np.exp(law.height - 3.0 * places)
        moved = math.fsum(weights * np.maximum(-np.expm1(epsilon - places), 0.0))
        errors.append(moved - truth)
    assert 0 < errors[1] < errors[0] / 8


@pytest.mark.parametrize("seed", mostly_slow(range(40), quick=4))
def test_sums_on_coarse_grids_bound_what_they_are_made_of_from_below(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Theorem 5, where what losses are moved by is not small, against sums over all outcomes."""
    monkeypatch.setattr(stages, "_MOST_ATOMS", 0)
    source = random.Random(seed)
    pairs: list[list[tuple[Fraction, Fraction]]] = []
    parts: list[Part] = []
    for _ in range(source.randint(1, 3)):
        size = source.randint(2, 4)
        drawn = [[source.random() + 0.01 for _ in range(size)] for _ in range(2)]
        p, q = ([mass / math.fsum(masses) for mass in masses] for masses in drawn)
        count = source.choice([1, 2, 3])
        pairs += [list(zip(meant(p), meant(q), strict=True))] * count
        parts += PrivacyLossDistribution.from_pmfs(p, q).self_compose(count).parts
    truth, near = ratios(pairs), 0
    for epsilon in (0.0, source.uniform(0, 1), source.uniform(0, 3)):
        value, found = exactly(truth, epsilon), 0.0
        sums = Sums(parts, epsilon=epsilon)
        for grid in (1 << 6, 1 << 8, 1 << 10, 1 << 16):
            found = sums.below(grid, sums.above(grid)).delta_below(epsilon)
            assert found <= value * (1 + mp.mpf(10) ** -15)
        near += found > 0.99 * value
    assert near


def test_lattices_are_recognised() -> None:
    assert lattice_of(np.array([-0.3, 0.0, 0.3])) == Fraction(0.3)
    found = lattice_of(np.log([2.0, 4.0, 0.125, 1.0]))
    assert found is not None
    assert float(found) == pytest.approx(math.log(2), rel=1e-12)
    assert lattice_of(np.log([2.0, 3.0])) is None
    assert lattice_of(np.zeros(3)) is None


def binomial(count: int, pure: float, epsilon: float) -> Any:
    """delta of binary randomised response, `count` times."""
    one = mp.mpf(pure)
    p = 1 / (1 + mp.exp(-one))
    total = mp.mpf(0)
    for many in range(count + 1):
        loss = (2 * many - count) * one
        if loss > epsilon:
            weight = mp.binomial(count, many) * p**many * (1 - p) ** (count - many)
            total -= weight * mp.expm1(mp.mpf(epsilon) - loss)
    return total


@pytest.mark.parametrize("count", mostly_slow([2, 3, 64, 65, 1000, 5000]))
@pytest.mark.parametrize("delta", [0.01, 1e-6, 1e-15, 1e-30])
def test_a_pmf_on_a_lattice_composed_many_times(count: int, delta: float) -> None:
    pure = 2.0 / count
    p = 1 / (1 + math.exp(-pure))
    loss = PrivacyLossDistribution.from_pmfs([p, 1 - p], [1 - p, p]).self_compose(count)
    exact = math.log(p) - math.log1p(-p)
    found = loss.epsilon_interval(delta)
    assert found.width <= 1e-9
    assert binomial(count, exact, found.upper + 1e-12 * count) <= delta * (1 + 1e-6)
    if found.lower > 0:
        assert binomial(count, exact, found.lower - 1e-12 * count) >= delta * (1 - 1e-6)


@pytest.mark.long
@pytest.mark.parametrize(
    ("sigma", "count"), mostly_slow([(Fraction(1, 2), 40), (Fraction(2), 16), (Fraction(5), 3)])
)
def test_discrete_gaussians_against_a_long_lattice_convolution(sigma: Fraction, count: int) -> None:
    reach = math.ceil(14 * sigma) + 1
    scale = 1 << 300  # mass beyond 14 sigma is below e^-98, here far below every delta
    square = mp.mpf(sigma.numerator) ** 2 / sigma.denominator**2
    raw = [mp.exp(-mp.mpf(x * x) / (2 * square)) for x in range(-reach, reach + 1)]
    law = np.array([int(weight / mp.fsum(raw) * scale) for weight in raw], dtype=object)
    whole = law
    for _ in range(count - 1):
        whole = np.convolve(whole, law)
    masses = [mp.mpf(int(weight)) / mp.mpf(scale) ** count for weight in whole]
    # noise X with P(X = x); the loss of an outcome x under a shift by 1 is (1 - 2 x)/(2 sigma^2)
    losses = [
        (count - 2 * mp.mpf(x)) / (2 * square) for x in range(-count * reach, count * reach + 1)
    ]

    def truth(epsilon: float) -> Any:
        return mp.fsum(
            -weight * mp.expm1(mp.mpf(epsilon) - loss)
            for weight, loss in zip(masses, losses, strict=True)
            if loss > epsilon
        )

    event = DiscreteGaussian(sigma=sigma, sensitivity=1) * count
    loss = PrivacyLossDistribution.from_event(event)
    for delta in (1e-2, 1e-6, 1e-20):
        found = loss.epsilon_interval(delta)
        assert found.width <= 1e-9 * found.upper
        assert truth(found.upper) <= delta * (1 + 1e-12)
        assert truth(found.lower) >= delta * (1 - 1e-12)


def drawn_event(source: random.Random) -> Event:
    parts: list[Event] = []
    for _ in range(source.randint(1, 3)):
        kind = source.randrange(3)
        many = source.choice([1, 5, 40, 300])
        noise = math.sqrt(many) * source.uniform(0.7, 4)
        if kind == 0:
            parts.append(Gaussian(noise_multiplier=noise) * many)
        elif kind == 1:
            parts.append(Laplace(noise_multiplier=noise) * many)
        else:
            rate = source.choice([0.5, 0.2])
            inner = Gaussian(noise_multiplier=max(rate * noise, 1.5))
            parts.append(inner.poisson_sampled(rate=rate) * many)
    return compose(parts)


@pytest.mark.parametrize("seed", mostly_slow(range(14), quick=2))
def test_grids_agree_with_contours_on_random_compositions(seed: int) -> None:
    source = random.Random(100 + seed)
    event = drawn_event(source)
    delta = 10 ** source.uniform(-12, -3)
    other = by_contours.epsilon_interval([(event, 1)], delta=delta)
    directions: tuple[Literal["remove", "add"], ...] = ("remove", "add")
    losses = [
        PrivacyLossDistribution.from_event(event, direction=direction, grid=1 << 15)
        for direction in directions
    ]
    found = worst_epsilon(losses, delta=delta)
    assert found.lower <= other.upper
    assert other.lower <= found.upper
    assert found.width <= 1e-2 * found.upper
    if other.width <= 1e-6 * other.upper:
        assert found.upper <= other.upper * (1 + 2e-3)


def fixed_size_delta(noise: float, share: float, steps: int, epsilon: float) -> float:
    """The symmetric pair of a fixed-size sample, by quadrature of its cumulant; no grid of losses.

    Under Q a positive loss is ln(1 + p(e^y - 1)), y the positive losses of the inner pair under
    its Q; the rest is symmetric, with an atom at 0.
    """
    mu = 2 / noise
    nodes, weights = np.polynomial.legendre.leggauss(24)
    edges = np.linspace(mu / 2, mu / 2 + 14, 57)
    middle, half = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
    z = (middle[:, None] + half[:, None] * nodes).ravel()
    q = (half[:, None] * weights).ravel() * np.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    loss = np.log1p(share * np.expm1(mu * z - mu * mu / 2))
    atom = 1 - float(np.sum(q * (1 + np.exp(loss))))

    def cumulant(s: Any) -> Any:
        value = np.exp(np.multiply.outer(s + 1, loss)) + np.exp(np.multiply.outer(-s, loss))
        return np.log(value @ q + atom)

    grid = np.geomspace(0.05, 20, 400)
    heights = steps * cumulant(grid) - grid * epsilon - np.log(grid * (grid + 1))
    c = float(grid[np.argmin(heights)])
    t = np.arange(0, 6_000) * 0.008
    s = c + 1j * t
    values = np.concatenate(
        [
            np.exp(steps * cumulant(block) - block * epsilon) / (block * (block + 1))
            for block in np.array_split(s, 24)
        ]
    )
    values[0] /= 2
    return float(np.sum(values.real)) * 0.008 / math.pi


@pytest.mark.slow
def test_fixed_size_samples_against_quadrature() -> None:
    event = Gaussian(noise_multiplier=1).fixed_size_sampled(size=10, population=1000) * 100
    found = accountant.epsilon_interval(event, delta=1e-5, neighbors=ReplaceOne)
    assert fixed_size_delta(1.0, 0.01, 100, found.upper) == pytest.approx(1e-5, rel=3e-4)
    # all units alike but one: the pair of a Poisson sample, of which the contour engine knows
    alike = Gaussian(noise_multiplier=Fraction(1, 2)).poisson_sampled(rate=0.01) * 100
    reached = by_contours.epsilon_interval([(alike, 1)], delta=1e-5, directions="remove")
    assert found.lower <= reached.upper <= found.upper
    assert found.lower >= reached.lower * (1 - 2e-3)
    shallow = Gaussian(noise_multiplier=4).fixed_size_sampled(size=1, population=10) * 50
    upper = accountant.delta_interval(shallow, epsilon=1.0, neighbors=ReplaceOne).upper
    assert upper == pytest.approx(fixed_size_delta(4.0, 0.1, 50, 1.0), rel=3e-4)


@pytest.mark.long
def test_long_compositions_are_summed_in_stages_and_stay_narrow() -> None:
    for count, delta in ((10**5, 1e-6), (10**7, 1e-6)):
        noise = 3.0 * math.sqrt(count)
        event = Laplace(noise_multiplier=noise) * count
        found = PrivacyLossDistribution.from_event(event, grid=1 << 15).epsilon_interval(delta)
        other = by_contours.epsilon_interval([(event, 1)], delta=delta)
        assert found.lower <= other.upper
        assert other.lower <= found.upper
        assert found.width <= 1e-3 * found.upper


def test_searches_end_on_the_safe_side() -> None:
    for goal in (0.5, 1e-9, 1e-200):
        upper = least_holding(lambda x: math.exp(-3 * x), goal)
        lower = largest_holding(lambda x: math.exp(-3 * x), goal, below=upper)
        truth = -math.log(goal) / 3
        assert math.exp(-3 * upper) <= goal < math.exp(-3 * lower)
        assert upper == pytest.approx(truth, rel=1e-11)
        assert lower == pytest.approx(truth, rel=1e-11)
    assert least_holding(lambda _: 0.25, 0.5) == 0.0
    assert least_holding(lambda _: 0.75, 0.5) == math.inf
    assert least_holding(lambda x: 1.0 if x < 2 else 0.0, 0.0) == pytest.approx(2.0, rel=1e-9)
    assert largest_holding(lambda _: 0.0, 0.5, below=3.0) == 0.0


@pytest.mark.long
def test_the_curve_holds_the_best_test_of_five_responses() -> None:
    """Neyman and Pearson: reject where most answers are true, evenly among one number of them."""
    response = RandomizedResponse(epsilon=1.0, categories=2) * 5
    curve = accountant.tradeoff(response, points=40)
    true = math.e / (1 + math.e)
    numbers = [(k, math.comb(5, k)) for k in range(5, -1, -1)]
    for alpha in (0.0, 0.001, 0.01, 0.1, 0.3, 0.6, 1.0):
        power, left = 0.0, alpha
        for k, ways in numbers:
            alarm = ways * (1 - true) ** k * true ** (5 - k)
            share = min(left / alarm, 1.0)
            power += share * ways * true**k * (1 - true) ** (5 - k)
            left -= share * alarm
        found = curve.beta_interval(alpha=alpha)
        assert found.lower <= 1 - power + 1e-12
        assert 1 - power <= found.upper + 1e-12
        assert found.width < 0.04
