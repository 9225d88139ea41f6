"""Contours beside a small Gaussian, against sums over all losses and residues, long."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import mpmath
import pytest
from tests.accounting.stairs import delta_of_stairs, sampled_stairs
from tests.support.cases import in_subtests
from tests.tiers import mostly_slow

from unacorda.accounting.accountant import delta_interval as delta_accounted
from unacorda.accounting.accountant import epsilon_interval as accounted
from unacorda.accounting.contour import engine, smoothing
from unacorda.accounting.lattices import compositions
from unacorda.errors import UnsupportedEvent
from unacorda.privacy.events import (
    DiscreteGaussian,
    Event,
    Gaussian,
    Laplace,
    Pure,
    Staircase,
    TruncatedLaplace,
)
from unacorda.privacy.neighbors import ReplaceOne

FEW: list[tuple[Event, int]] = [(Laplace(noise_multiplier=1.0 + j / 3), 2) for j in range(4)]
EQUAL: list[tuple[Event, int]] = [(Laplace(noise_multiplier=10.0), 100)]


MIXED: list[tuple[Event, int]] = [(Laplace(noise_multiplier=4.0), 6), (Pure(epsilon=0.3), 4)]


MP = mpmath.mp.clone()
MP.dps = 120


def exact_delta(events: list[tuple[Event, int]], epsilon: Any) -> Any:
    """By residues: e^(-l/2) P(dl) of Laplace noise of rate u has the two-sided transform

        e^(zu) (1 + w)/2 + e^(-zu) (1 - w)/2,    w = 1/(2z),

    up to e^(-u/2), and that of a promise of e two atoms. Opened into signs, the inversion integral
    of the product against sinh is a sum of residues at 1/2, -1/2 and 0 for each choice of them.
    """
    laplace = {
        1 / MP.mpf(str(one.noise_multiplier)): n for one, n in events if isinstance(one, Laplace)
    }
    pure = {MP.mpf(str(one.epsilon)): n for one, n in events if isinstance(one, Pure)}
    terms, at = sum(laplace.values()), MP.mpf(epsilon)
    total = MP.mpf(0)
    groups = [*laplace.items(), *pure.items()]
    for minus in itertools.product(*(range(n + 1) for _, n in groups)):
        y = sum((n - 2 * k) * move for (move, n), k in zip(groups, minus, strict=True)) - at
        if y > 0:
            ways = math.prod(math.comb(n, k) for (_, n), k in zip(groups, minus, strict=True))
            total += ways * _residues(terms, sum(minus[: len(laplace)]), y)
    spread = math.prod((2 * MP.cosh(e / 2)) ** n for e, n in pure.items())
    reach = sum(u * n for u, n in laplace.items())
    return 2 * MP.exp((at - reach) / 2) * total / (MP.mpf(2) ** terms * spread)


def _residues(terms: int, minus: int, y: Any) -> Any:
    """Of e^(zy) (1 + w)^(terms - minus) (1 - w)^minus / (2 (z^2 - 1/4))."""
    powers = [
        sum(
            (-1) ** i * math.comb(minus, i) * math.comb(terms - minus, r - i)
            for i in range(min(minus, r) + 1)
        )
        for r in range(terms + 1)
    ]
    found = -MP.fsum(
        (y / 2) ** q / math.factorial(q) * sum(powers[q + 1 :: 2]) for q in range(terms)
    )
    if minus == 0:
        found += MP.mpf(2) ** (terms - 1) * MP.exp(y / 2)
    if minus == terms:
        found -= MP.mpf(2) ** (terms - 1) * MP.exp(-y / 2)
    return found


def test_the_residues_of_one_step_are_its_closed_form() -> None:
    """Balle, Barthe, Gaboardi 2018, Theorem 3."""
    for epsilon in ("0", "0.2", "0.49"):
        found = exact_delta([(Laplace(noise_multiplier=2), 1)], MP.mpf(epsilon))
        assert MP.almosteq(found, -MP.expm1((MP.mpf(epsilon) - MP.mpf("0.5")) / 2), 1e-100)


@pytest.mark.long
@pytest.mark.parametrize("events", mostly_slow([FEW, EQUAL, MIXED]), ids=["few", "equal", "mixed"])
@pytest.mark.parametrize("delta", [1e-3, 1e-8])
def test_epsilon_holds_the_residues(events: list[tuple[Event, int]], delta: float) -> None:
    found = smoothing.epsilon_interval(events, delta=delta)
    assert exact_delta(events, found.lower) >= MP.mpf(str(delta)) * (1 - MP.mpf(10) ** -30)
    assert exact_delta(events, found.upper) <= MP.mpf(str(delta)) * (1 + MP.mpf(10) ** -30)
    assert found.width <= engine.epsilon_interval(events, delta=delta).width
    if exact_delta(events, found.upper / 0.9) > 0:
        # not at the largest loss, where delta falls within less than the Gaussian adds
        assert found.width < 2e-3 * found.upper


@pytest.mark.parametrize("events", [FEW, EQUAL, MIXED], ids=["few", "equal", "mixed"])
@pytest.mark.parametrize("share", ["0", "0.2", "0.5"])
def test_delta_holds_the_residues(events: list[tuple[Event, int]], share: str) -> None:
    largest = sum(
        count / Fraction(str(event.noise_multiplier))
        for event, count in events
        if isinstance(event, Laplace)
    )
    at = largest * Fraction(share)
    found = smoothing.delta_interval(events, epsilon=at)
    truth = exact_delta(events, MP.mpf(at.numerator) / at.denominator)
    assert found.lower <= truth <= found.upper
    assert found.width <= 2e-3 * found.upper


@pytest.mark.long
def test_pure_mechanisms_hold_their_sums() -> None:
    events: list[tuple[Event, int]] = [
        (Pure(epsilon=Fraction(place, 100)), 1) for place in range(3, 23)
    ]
    for delta in (1e-3, 1e-6):
        found = smoothing.epsilon_interval(events, delta=delta)
        truth = compositions.epsilon_interval(events, delta=delta)
        assert found.lower <= truth.upper
        assert truth.lower <= found.upper
        assert found.width < 1e-3 * found.upper


@in_subtests("noise", [10, 14, 60, 300])
@in_subtests("epsilon", ["0", "0.31", "1.7", "4.6"])
def test_the_theorem_at_large_variances(noise: int, epsilon: str) -> None:
    """2 D(v) - D(v') <= D(0) <= D(v), v' the least number that the theorem allows."""
    v = 1 / noise**2
    other = 4 * v
    for _ in range(60):
        other = 4 * v * math.exp(other / 4)
    other_noise = Fraction(1 / math.sqrt(other)) * Fraction(999_999_999, 10**9)
    near, far = (
        engine.delta_interval([*FEW, (Gaussian(noise_multiplier=one), 1)], epsilon=epsilon)
        for one in (Fraction(noise), other_noise)
    )
    truth = exact_delta(FEW, MP.mpf(epsilon))
    assert truth <= near.upper
    assert 2 * near.lower - far.upper <= truth


@pytest.mark.long
def test_many_weak_scales_are_narrow() -> None:
    events: list[tuple[Event, int]] = [
        (Laplace(noise_multiplier=10.0 * 1.015**place), 1) for place in range(200)
    ]
    found = smoothing.epsilon_interval(events, delta=1e-6)
    assert found.width < 1e-6 * found.upper
    plain = engine.epsilon_interval(events, delta=1e-6)
    assert plain.lower <= found.upper
    assert found.lower <= plain.upper


def test_the_accountant_asks_it_last() -> None:
    found = accounted(Laplace(noise_multiplier=50.0) * 400, delta=1e-6)
    assert found.width < 1e-4 * found.upper


@pytest.mark.parametrize(
    ("epsilon", "split", "rate", "count", "delta"),
    mostly_slow(
        [
            ("0.5", "0.3", "0.1", 30, 1e-6),
            ("1.2", "0.9", "0.01", 12, 1e-9),
            ("0.08", "0.15", "0.7", 40, 1e-3),
        ]
    ),
)
def test_sampled_stairs_hold_the_sums_of_their_losses(
    epsilon: str, split: str, rate: str, count: int, delta: float
) -> None:
    one = Staircase(epsilon=Fraction(epsilon), split=Fraction(split))
    events: list[tuple[Event, int]] = [(one.poisson_sampled(rate=Fraction(rate)), count)]
    found = smoothing.epsilon_interval(events, delta=delta)
    assert found.width < 1e-4 * found.upper
    assert delta_of_stairs(epsilon, split, rate, count, found.lower) >= delta * (1 - 1e-12)
    assert delta_of_stairs(epsilon, split, rate, count, found.upper) <= delta * (1 + 1e-12)
    told = smoothing.delta_interval(events, epsilon=found.upper)
    assert told.lower <= delta_of_stairs(epsilon, split, rate, count, found.upper) <= told.upper
    assert told.width < 1e-4 * told.upper


@pytest.mark.parametrize(
    ("event", "delta"),
    mostly_slow(
        [
            (sampled_stairs("0.373", "0.5", "2.98e-6") * 198_878_324, 2.44e-18),
            (sampled_stairs("3.155", "0.26", "0.417") * 609, 3.74e-17),
            (sampled_stairs("1.776", "0.816", "5.09e-5") * 2_216_368_631, 2.23e-115),
            (sampled_stairs("0.0022", "0.877", "1.6e-6") * 6_519_871_657, 9.54e-62),
            (TruncatedLaplace(noise_multiplier=1.45, bound=52.4) * 42, 3.01e-8),
            (
                DiscreteGaussian(sigma=0.218, sensitivity=1).poisson_sampled(rate=0.515) * 18,
                2.56e-4,
            ),
        ]
    ),
)
def test_what_was_wide_is_narrow(event: Event, delta: float) -> None:
    found = accounted(event, delta=delta)
    assert found.width < 1e-4 * found.upper
    told = delta_accounted(event, epsilon=found.upper)
    assert told.width < 1e-4 * told.upper
    assert told.lower <= delta * (1 + 1e-12)


def test_a_unit_replaced_has_an_upper_end() -> None:
    """The Gaussian beside it speaks of the relation itself; no lower end is claimed."""
    one = Staircase(epsilon=1, split=Fraction(1, 3)).fixed_size_sampled(size=10, population=100)
    found = smoothing.epsilon_interval([(one, 20)], delta=1e-6, neighbors=ReplaceOne)
    plain = engine.epsilon_interval([(one, 20)], delta=1e-6, neighbors=ReplaceOne)
    assert found.lower == 0.0 < found.upper <= plain.upper


def test_refuses_what_needs_it_not() -> None:
    noise = Gaussian(noise_multiplier=1.0)
    for event in (noise, noise.poisson_sampled(rate=0.1), (noise * 2).poisson_sampled(rate=0.1)):
        with pytest.raises(UnsupportedEvent):
            smoothing.epsilon_interval([(event, 1)], delta=1e-6)
