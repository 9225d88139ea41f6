"""Local shares: which reports are chosen, sensitivities, events, intervals that cover."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.support.cases import in_subtests
from tests.tiers import mostly_slow

from unacorda import GDP, ApproxDP, PureDP, ReplaceOne, SeededBits, accounting, mechanisms
from unacorda.bits import ScriptedBits
from unacorda.errors import InvalidParameter
from unacorda.inference import frequency_randomizer, local_frequencies
from unacorda.inference.estimates.local import NoisyCategories
from unacorda.mechanisms.additive.real import Gaussian
from unacorda.privacy.guarantees import Guarantee


@in_subtests("epsilon", [0.2, 1.0, 3.0, 6.0])
@in_subtests("k", [2, 3, 10, 100])
def test_the_least_total_variance_is_chosen(epsilon: float, k: int) -> None:
    chosen = frequency_randomizer(categories=k, budget=PureDP(epsilon))
    least = chosen.variance(count=1, frequency=Fraction(1, k))
    for other in (
        mechanisms.RandomizedResponse(epsilon=epsilon, categories=k),
        mechanisms.local.UnaryEncoding(epsilon=epsilon, categories=k),
        mechanisms.local.UnaryEncoding(epsilon=epsilon, categories=k, variant="symmetric"),
        mechanisms.local.SubsetSelection(epsilon=epsilon, categories=k),
        mechanisms.local.HadamardResponse(epsilon=epsilon, categories=k),
    ):
        assert least <= other.variance(count=1, frequency=Fraction(1, k)) * (1 + 1e-12)


@pytest.mark.parametrize(
    ("k", "budget", "most_bytes", "kind"),
    [
        (2, PureDP(1), 1024, mechanisms.RandomizedResponse),
        (10, PureDP(4), 1024, mechanisms.RandomizedResponse),
        (100, PureDP(1), 1024, mechanisms.local.SubsetSelection),
        (100, PureDP(1), 8, mechanisms.local.HadamardResponse),
        (10**6, PureDP(1), 1024, mechanisms.local.LocalHashing),
        (100, GDP(1), 1024, NoisyCategories),
        (100, GDP(1), 100, mechanisms.local.SubsetSelection),
        (100, ApproxDP(1, 1e-6), 1024, mechanisms.local.SubsetSelection),
    ],
)
def test_which_reports_a_budget_gets(
    k: int, budget: Guarantee, most_bytes: int, kind: type
) -> None:
    found = frequency_randomizer(categories=k, budget=budget, most_bytes=most_bytes)
    assert isinstance(found, kind)


def test_two_noisy_categories_differ_by_what_is_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    real = Gaussian.release

    def noting(self: Gaussian, x: Any, **named: Any) -> Any:
        seen.append((np.asarray(x), self.l2_sensitivity))
        return real(self, x, **named)

    monkeypatch.setattr(Gaussian, "release", noting)
    reports = NoisyCategories(categories=5, noise_multiplier=2)
    reports.encode([0, 1, 4, 99, -3], bits=SeededBits(1))
    ((rows, claimed),) = seen
    gaps = ((rows[:, None] - rows[None]) ** 2).sum(axis=2)
    assert Fraction(float(gaps.max())) <= Fraction(claimed) ** 2
    assert gaps.max() == pytest.approx(float(claimed) ** 2, rel=1e-12)
    assert rows.argmax(axis=1).tolist() == [0, 1, 4, 4, 0]


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("budget", mostly_slow([PureDP(0.5), PureDP(3), GDP(1)]), ids=repr)
@pytest.mark.parametrize("k", [3, 20])
def test_intervals_cover(budget: Guarantee, k: int) -> None:
    drawn, bits = np.random.default_rng(k), SeededBits(k)
    truth = np.arange(1, k + 1) / (k * (k + 1) / 2)
    covered = []
    for _ in range(200):
        people = drawn.choice(k, size=2000, p=truth)
        shares = local_frequencies(people, categories=k, budget=budget, bits=bits)
        lower, upper = shares.interval(0.95)
        covered.append((lower <= truth) & (truth <= upper))
    # Of 200 surveys the share for one category deviates by 0.0154; 5.5 of them are 0.085.
    assert np.mean(covered, axis=0).min() > 0.95 - 0.085
    assert 0.92 < np.mean(covered) < 0.98


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("budget", [PureDP(1), GDP(1)], ids=repr)
def test_intervals_cover_within_two_points(budget: Guarantee) -> None:
    drawn, bits = np.random.default_rng(9), SeededBits(9)
    truth = np.array([0.6, 0.25, 0.1, 0.05, 0.0])
    covered = []
    for _ in range(4000):
        people = drawn.choice(5, size=1000, p=truth)
        lower, upper = local_frequencies(people, categories=5, budget=budget, bits=bits).interval()
        covered.append((lower <= truth) & (truth <= upper))
    # 5.3 deviations of 0.0034 for each category.
    assert np.abs(np.mean(covered, axis=0) - 0.95).max() < 0.0185


def test_each_report_costs_no_more_than_the_budget() -> None:
    for k in (2, 7, 5000):
        event = frequency_randomizer(categories=k, budget=PureDP(1.5)).event
        assert accounting.epsilon(event, delta=0, neighbors=ReplaceOne) <= 1.5
        event = frequency_randomizer(categories=k, budget=ApproxDP(1, 1e-6)).event
        assert accounting.delta(event, epsilon=1, neighbors=ReplaceOne) <= 1e-6


@in_subtests(
    ("change", "named"),
    [
        ({"x": []}, "x"),
        ({"x": np.array([[1]])}, "x"),
        ({"x": np.array([0.5])}, "x"),
        ({"x": np.array(["a"])}, "x"),
        ({"budget": 1.0}, "budget"),
        ({"budget": PureDP(1e-300)}, "budget"),
        ({"categories": 1}, "categories"),
        ({"categories": 2.5}, "categories"),
        ({"categories": 10**10}, "categories"),
        ({"most_bytes": 0}, "most_bytes"),
        ({"most_bytes": 7, "categories": 1000}, "budget"),
    ],
)
def test_arguments_that_cannot_be_used_are_named(change: dict[str, Any], named: str) -> None:
    given: dict[str, Any] = {"x": [0, 1, 2], "categories": 3, "budget": PureDP(1)}
    with pytest.raises(InvalidParameter, match=f"^{named}="):
        local_frequencies(bits=ScriptedBits([]), **(given | change))


@pytest.mark.parametrize("reports", [[], [[1.0, 2.0]], [[1, 2, 3]], "a", None])
def test_servers_refuse_what_no_device_sends(reports: Any) -> None:
    with pytest.raises(InvalidParameter, match=r"^reports="):
        NoisyCategories(categories=3, noise_multiplier=1).aggregate(reports)
