"""Contours beside a small Gaussian, against exact sums over losses and residues."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from tests.tiers import mostly_slow

from tacet.accounting.accountant import epsilon_interval as accounted
from tacet.accounting.contour import engine, smoothing
from tacet.accounting.lattices import compositions, residues
from tacet.errors import UnsupportedEvent
from tacet.privacy.events import Event, Gaussian, Laplace, Pure

FEW: list[tuple[Event, int]] = [(Laplace(noise_multiplier=1.0 + j / 3), 2) for j in range(4)]
EQUAL: list[tuple[Event, int]] = [(Laplace(noise_multiplier=10.0), 100)]
MIXED: list[tuple[Event, int]] = [(Laplace(noise_multiplier=4.0), 6), (Pure(epsilon=0.3), 4)]


@pytest.mark.parametrize("events", mostly_slow([FEW, EQUAL, MIXED]), ids=["few", "equal", "mixed"])
@pytest.mark.parametrize("delta", [1e-3, 1e-8])
def test_epsilon_holds_the_residues(events: list[tuple[Event, int]], delta: float) -> None:
    found = smoothing.epsilon_interval(events, delta=delta)
    truth = residues.epsilon_interval(events, delta=delta)
    assert found.lower <= truth.upper
    assert truth.lower <= found.upper
    plain = engine.epsilon_interval(events, delta=delta)
    assert found.width <= plain.width
    if truth.upper < 0.9 * residues.epsilon_interval(events, delta=1e-30).upper:
        # not at the largest loss, where delta falls within less than the Gaussian adds
        assert found.width < 0.5 * plain.width
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
    truth = residues.delta_interval(events, epsilon=at)
    assert found.lower <= truth.upper
    assert truth.lower <= found.upper
    assert found.width <= 2e-3 * found.upper


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


@pytest.mark.parametrize("noise", [10, 14, 60, 300])
@pytest.mark.parametrize("epsilon", ["0", "0.31", "1.7", "4.6"])
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
    truth = residues.delta_interval(FEW, epsilon=epsilon)
    assert truth.lower <= near.upper
    assert 2 * near.lower - far.upper <= truth.upper


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


def test_refuses_what_needs_it_not() -> None:
    for event in (
        Gaussian(noise_multiplier=1.0),
        Laplace(noise_multiplier=1.0).poisson_sampled(rate=0.1),
    ):
        with pytest.raises(UnsupportedEvent):
            smoothing.epsilon_interval([(event, 1)], delta=1e-6)
