"""Every sum of few steps, against sums in 34 digits and pairs whose outcomes are multiplied out."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from fractions import Fraction
from typing import Any

import mpmath
import pytest
from tests.accounting.stairs import delta_of_stairs, sampled_stairs

from unacorda.accounting.accountant import delta_interval as accounted_delta
from unacorda.accounting.accountant import epsilon_interval as accounted
from unacorda.accounting.contour.parts import flatten
from unacorda.accounting.lattices import compositions, few_steps
from unacorda.errors import UnsupportedEvent
from unacorda.privacy.events import (
    DiscreteGaussian,
    Event,
    Gaussian,
    Pure,
    RandomizedResponse,
    Staircase,
)
from unacorda.privacy.neighbors import ReplaceOne

MP = mpmath.MPContext()
MP.dps = 34


@pytest.mark.parametrize(
    ("epsilon", "split", "rate", "count", "delta"),
    [
        ("0.5", "0.3", "0.1", 30, 1e-6),
        ("1.176", "0.253", "1.07e-5", 18, 1.95e-56),
        ("1.08", "0.345", "0.545", 23, 1.4e-216),
        ("1", "0.861", "1", 28, 2.45e-139),
    ],
)
def test_stairs_hold_the_sums_of_their_losses(
    epsilon: str, split: str, rate: str, count: int, delta: float
) -> None:
    flat = flatten([(sampled_stairs(epsilon, split, rate), count)])
    found = few_steps.epsilon_of(flat, Fraction(delta))
    assert found.width < 1e-7 * found.upper
    assert delta_of_stairs(epsilon, split, rate, count, found.lower) >= delta * (1 - 1e-12)
    assert delta_of_stairs(epsilon, split, rate, count, found.upper) <= delta * (1 + 1e-12)
    at = Fraction(found.upper) * Fraction(19, 20)
    told = few_steps.delta_of(flat, at)
    assert told.lower <= delta_of_stairs(epsilon, split, rate, count, float(at)) <= told.upper
    assert told.width < 1e-4 * told.upper


def test_two_steps_of_sampled_integers_hold_their_products() -> None:
    """Discrete Gaussian noise: both laws by the definition, far beyond what matters."""
    sigma, rate, delta = MP.mpf("0.527"), MP.mpf("3.31e-6"), 8.64e-18
    one = DiscreteGaussian(sigma=Fraction("0.527"), sensitivity=1)
    flat = flatten([(one.poisson_sampled(rate=Fraction("3.31e-6")), 2)])
    found = few_steps.epsilon_of(flat, Fraction(delta))
    assert found.width < 1e-9 * found.upper
    places = range(-16, 18)
    mass = {k: MP.exp(-(k**2) / (2 * sigma**2)) for k in range(-17, 18)}
    whole = MP.fsum(mass.values())

    def truth(epsilon: float) -> Any:
        both = []
        null = {k: mass[k] / whole for k in places}
        with_unit = {k: (1 - rate) * null[k] + rate * mass[k - 1] / whole for k in places}
        for p, q in ((with_unit, null), (null, with_unit)):
            level = MP.exp(MP.mpf(epsilon))
            both.append(
                MP.fsum(max(p[i] * p[j] - level * q[i] * q[j], 0) for i in places for j in places)
            )
        return max(both)

    assert truth(found.lower) >= delta * (1 - 1e-10)
    assert truth(found.upper) <= delta * (1 + 1e-10)


def test_pure_mechanisms_agree_with_their_lattice() -> None:
    events: list[tuple[Event, int]] = [(Pure(epsilon=Fraction(1, 3)), 20)]
    for delta in (1e-3, 1e-12):
        found = few_steps.epsilon_of(flatten(events), Fraction(delta))
        truth = compositions.epsilon_interval(events, delta=delta)
        assert found.lower <= truth.upper
        assert truth.lower <= found.upper
        assert found.width < 1e-9 * found.upper


def test_no_lower_end_without_a_pair_that_has_the_law() -> None:
    one = RandomizedResponse(epsilon=1, categories=3).fixed_size_sampled(size=10, population=100)
    found = few_steps.epsilon_of(
        flatten([(one, 20)], neighbors=ReplaceOne), Fraction(1, 10**6), neighbors=ReplaceOne
    )
    assert found.lower == 0.0 < found.upper < 3.0


def test_what_was_wide_is_narrow() -> None:
    event = sampled_stairs("1.08", "0.345", "0.545") * 23
    found = accounted(event, delta=Fraction("1.4e-216"))
    assert found.width < 1e-9 * found.upper
    told = accounted_delta(event, epsilon=Fraction(found.upper) * Fraction(99, 100))
    assert told.width < 1e-6 * told.upper


def test_other_events_are_left_to_other_engines() -> None:
    stairs = Staircase(epsilon=1, split=Fraction(1, 3)).poisson_sampled(rate=0.1)
    for event in (Gaussian(noise_multiplier=1) * 3, stairs * 5000):
        with pytest.raises(UnsupportedEvent):
            few_steps.epsilon_of(flatten([(event, 1)]), Fraction(1, 10**6))
    with pytest.raises(UnsupportedEvent):
        few_steps.epsilon_of(flatten([(stairs, 3)]), Fraction(1, 10**290))
