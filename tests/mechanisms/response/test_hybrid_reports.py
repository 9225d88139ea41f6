"""Numbers told by a place or by a bit: law, ratios, means, an error alike for all values."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from fractions import Fraction

import numpy as np
import pytest
from tests.mechanisms.response.report_laws import (
    WHOLE,
    Law,
    at_most_exp,
    chi_square,
    hockey_stick,
    worst_ratio,
)

from unacorda import ReplaceOne, accounting
from unacorda.bits import SeededBits
from unacorda.mechanisms.response import hybrid, numbers
from unacorda.mechanisms.response.hybrid import Hybrid
from unacorda.mechanisms.response.numbers import Duchi, Piecewise

EPSILONS = ["1/10", "1/2", "1", "3", "7"]


@pytest.fixture
def coarse(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The same code with 8 steps between places, so that everything can be enumerated."""
    for module in (numbers, hybrid):
        monkeypatch.setattr(module, "STEPS", 8)
    for cached in (numbers._duchi, numbers._piecewise):
        cached.cache_clear()
    yield 8
    for cached in (numbers._duchi, numbers._piecewise):
        cached.cache_clear()


def made(epsilon: str) -> Hybrid:
    return Hybrid(epsilon=Fraction(epsilon), lower=Fraction(-1, 3), upper=Fraction(5))


def law(mechanism: Hybrid, place: int, steps: int) -> Law:
    """The law of the report of the value at this place."""
    window, near = mechanism.places.window, Fraction(mechanism.places.chances, WHOLE)
    least, step = mechanism.bit.chances
    one, share = Fraction(least + place * step, WHOLE), Fraction(mechanism.chances, WHOLE)
    told: dict[Hashable, Fraction] = {
        y: share * (near / window if place <= y < place + window else (1 - near) / steps)
        for y in range(steps + window)
    }
    told |= {steps + window: (1 - share) * (1 - one), steps + window + 1: (1 - share) * one}
    return told


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_ratios_of_all_values_are_at_most_e_to_the_epsilon(epsilon: str, coarse: int) -> None:
    mechanism = made(epsilon)
    laws = [law(mechanism, place, coarse) for place in range(coarse + 1)]
    assert all(sum(one.values()) == 1 for one in laws)
    assert at_most_exp(worst_ratio(laws), Fraction(epsilon))
    assert not at_most_exp(worst_ratio(laws), Fraction(epsilon) * Fraction(99, 100))
    for at in (0.0, 0.3, 1.0, 3.0):
        priced = accounting.delta(mechanism.event, epsilon=at, neighbors=ReplaceOne)
        assert max(hockey_stick(a, b, math.exp(at)) for a in laws for b in laws) <= priced + 1e-15


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_reports_are_unbiased_and_err_alike_for_all_values(epsilon: str, coarse: int) -> None:
    mechanism = made(epsilon)
    variances = []
    for place in range(coarse + 1):
        value = float(-Fraction(1, 3) + Fraction(16, 3) * Fraction(place, coarse))
        told = law(mechanism, place, coarse)
        decoded = mechanism.decode(np.array(list(told), dtype=np.int64))
        mass = np.array([float(one) for one in told.values()])
        assert mass @ decoded == pytest.approx(value, abs=1e-9)
        variances.append(float(mass @ (decoded - value) ** 2))
        found = mechanism.variance(count=5, x=value)
        assert found == pytest.approx(variances[-1] / 5, rel=1e-9)
    assert max(variances) == pytest.approx(min(variances), rel=1e-9)
    assert mechanism.variance(count=1) == pytest.approx(variances[0], rel=1e-9)


@pytest.mark.statistical
def test_reports_have_their_law(coarse: int) -> None:
    mechanism = made("2")
    for place in (0, 3, 8):
        x = float(-Fraction(1, 3) + Fraction(16, 3) * Fraction(place, coarse))
        told = mechanism.encode(np.full(60_000, x), bits=SeededBits(place)).tolist()
        assert chi_square(told, law(mechanism, place, coarse)) > 1e-8
        assert chi_square(told, law(mechanism, (place + 5) % 9, coarse)) < 1e-9


@pytest.mark.parametrize("epsilon", [0.62, 1.0, 2.0, 5.0])
def test_the_largest_error_is_below_that_of_both(epsilon: float) -> None:
    given = {"epsilon": epsilon, "lower": -1, "upper": 1}
    mine = Hybrid(**given).variance(count=1)
    assert mine < min(Duchi(**given).variance(count=1), Piecewise(**given).variance(count=1))
    # Formulas of the paper, for epsilon above 0.61.
    e, t = math.exp(epsilon), math.exp(epsilon / 2)
    known = (t + 3) / (3 * t * (t - 1)) + (e + 1) ** 2 / (t * (e - 1) ** 2)
    assert mine == pytest.approx(known, rel=1e-7)


@pytest.mark.slow
@pytest.mark.statistical
def test_intervals_of_the_mean_cover() -> None:
    # 2000 surveys of 400: five standard deviations of 0.95 are 0.025.
    mechanism, bits = Hybrid(epsilon=2.0, lower=0, upper=10), SeededBits(3)
    drawn = np.random.default_rng(5).uniform(1, 7, (2000, 400))
    reports = mechanism.encode(drawn, bits=bits)
    found = [mechanism.aggregate(row).interval(0.95) for row in reports]
    assert 0.925 < np.mean([lower <= 4 <= upper for lower, upper in found]) < 0.975
    errors = [mechanism.aggregate(row).sampling_error for row in reports]
    # The roots of noisy variances, cut at 0: about the true one, 6 / sqrt(12 * 400).
    assert 0.6 < np.mean(errors) / (6 / math.sqrt(12 * 400)) < 1.2


def test_one_report_has_an_error_too() -> None:
    mechanism = Hybrid(epsilon=1, lower=0, upper=1)
    found = mechanism.aggregate(mechanism.encode([0.5], bits=SeededBits(1)))
    assert found.privacy_error == pytest.approx(mechanism.variance(count=1) ** 0.5)
    assert 0 <= found.sampling_error <= 0.5
