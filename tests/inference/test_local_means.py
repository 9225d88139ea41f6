"""Local means: which reports are chosen, that each costs the budget, and intervals that cover."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from tests.support.cases import in_subtests
from tests.tiers import mostly_slow

from unacorda import GDP, ZCDP, ApproxDP, PureDP, RenyiDP, ReplaceOne, SeededBits, accounting
from unacorda.bits import ScriptedBits
from unacorda.errors import InvalidParameter, MissingBound
from unacorda.inference import local_mean, mean_randomizer
from unacorda.inference.estimates.local import NoisyNumber
from unacorda.mechanisms import Laplace
from unacorda.mechanisms.additive.real import Gaussian
from unacorda.mechanisms.local import Duchi, Hybrid, Piecewise
from unacorda.privacy import events
from unacorda.privacy.guarantees import Guarantee


@pytest.mark.parametrize("epsilon", [0.05, 0.3, 0.6, 0.7, 1.0, 1.3, 2.0, 4.0, 8.0])
def test_the_least_variance_is_chosen_and_laplace_noise_never_has_it(epsilon: float) -> None:
    given: dict[str, Any] = {"epsilon": epsilon, "lower": -1, "upper": 1}
    chosen = mean_randomizer(lower=-1, upper=1, budget=PureDP(epsilon)).variance(count=1)
    for kind in (Duchi, Piecewise, Hybrid):
        assert chosen <= kind(**given).variance(count=1)
    laplace = Laplace.for_guarantee(PureDP(epsilon), l1_sensitivity=2)
    assert chosen < laplace.standard_deviation**2


@pytest.mark.parametrize(
    ("budget", "kind"),
    [
        (PureDP(0.5), Duchi),
        (PureDP(1), Hybrid),
        (ApproxDP(1, 0), Hybrid),
        (ApproxDP(1, 1e-6), Hybrid),
        (ApproxDP(0.1, 0.1), NoisyNumber),
        (GDP(1), NoisyNumber),
        (ZCDP(0.5), Hybrid),
        (ZCDP(0.1), NoisyNumber),
    ],
)
def test_which_reports_a_budget_gets(budget: Guarantee, kind: type) -> None:
    assert isinstance(mean_randomizer(lower=0, upper=9, budget=budget), kind)


def test_a_noisy_number_moves_by_its_range_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[np.ndarray[Any, Any]] = []
    real = Gaussian.release

    def noting(self: Gaussian, x: Any, **named: Any) -> Any:
        seen.append(np.asarray(x))
        assert np.ptp(seen[-1]) <= float(self.l2_sensitivity)
        return real(self, x, **named)

    monkeypatch.setattr(Gaussian, "release", noting)
    reports = NoisyNumber(lower=-3, upper=7, noise_multiplier=2)
    assert reports.event == events.Gaussian(noise_multiplier=2)
    rows = [-3, 7, 1e300, -1e300, math.inf, -math.inf, math.nan, 0.1, -0.0]
    reports.encode(rows, bits=SeededBits(1))
    assert np.ptp(seen[0]) == 1 << 30
    assert (seen[0] == np.rint(seen[0])).all()
    assert isinstance(reports.encode(3.0, bits=SeededBits(1)), float)
    assert reports.encode(np.zeros((2, 3))).shape == (2, 3)


def share_covered(budget: Guarantee, *, n: int, surveys: int, seed: int) -> float:
    drawn, bits = np.random.default_rng(seed), SeededBits(seed)
    covered = 0
    for _ in range(surveys):
        found = local_mean(drawn.gamma(2, 1, n), lower=0, upper=40, budget=budget, bits=bits)
        lower, upper = found.interval(0.95)
        covered += lower <= 2 <= upper
    return covered / surveys


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize(
    "budget", mostly_slow([PureDP(0.5), PureDP(2), PureDP(8), GDP(1)]), ids=repr
)
def test_intervals_cover(budget: Guarantee) -> None:
    # 400 surveys: 5 deviations of 0.0109; a share below 0.885 has a chance below 1e-6.
    assert share_covered(budget, n=1000, surveys=400, seed=1) > 0.885


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("budget", [PureDP(0.5), PureDP(2), PureDP(8), GDP(1), GDP(5)], ids=repr)
def test_intervals_cover_and_are_hardly_too_wide(budget: Guarantee) -> None:
    # 6000 surveys: 5.2 deviations of 0.0028 are 0.0146. No error is taken to be below that of the
    # noise alone, so that an interval errs towards too wide: up to 0.97 is seen.
    assert 0.935 < share_covered(budget, n=500, surveys=6000, seed=2) < 0.98


@pytest.mark.slow
@pytest.mark.statistical
def test_errors_are_what_they_are_said_to_be() -> None:
    drawn, bits = np.random.default_rng(3), SeededBits(3)
    for budget in (PureDP(1), PureDP(4), GDP(2)):
        found = [
            local_mean(drawn.uniform(0, 8, 2000), lower=0, upper=10, budget=budget, bits=bits)
            for _ in range(300)
        ]
        # The deviation of 300 draws is off by 4 %: five of them.
        off = float(np.std([one.value - 4 for one in found]))
        assert off == pytest.approx(np.mean([one.standard_error for one in found]), rel=0.22)


def test_each_report_costs_no_more_than_the_budget() -> None:
    for budget, at in ((PureDP(1.5), 1.5), (ApproxDP(1, 1e-6), 1.0)):
        event = mean_randomizer(lower=0, upper=1, budget=budget).event
        assert accounting.epsilon(event, delta=1e-6, neighbors=ReplaceOne) <= at
    event = mean_randomizer(lower=0, upper=1, budget=RenyiDP(8, 2)).event
    assert accounting.renyi(event, alpha=8, neighbors=ReplaceOne) <= 2


@in_subtests("value", [math.nan, math.inf, -math.inf, 1e308, 0.0])
@in_subtests("budget", [PureDP(0.5), PureDP(3), GDP(1)], ids=repr)
def test_data_of_any_kind_answer_in_numbers(value: float, budget: Guarantee) -> None:
    found = local_mean([value] * 5, lower=-1, upper=2, budget=budget, bits=SeededBits(1))
    assert math.isfinite(found.value)
    assert math.isfinite(found.standard_error)
    one = local_mean([value], lower=-1, upper=2, budget=budget, bits=SeededBits(1))
    assert math.isfinite(one.standard_error)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"x": []}, "x"),
        ({"x": np.array([[1.0]])}, "x"),
        ({"x": np.array(["a"])}, "x"),
        ({"budget": 1.0}, "budget"),
        ({"budget": PureDP(0)}, "budget"),
        ({"budget": PureDP(1e-300)}, "budget"),
        ({"lower": 5}, "upper"),
        ({"upper": math.inf}, "upper"),
    ],
)
def test_arguments_that_cannot_be_used_are_named(change: dict[str, Any], named: str) -> None:
    given: dict[str, Any] = {"x": [1.0, 2.0], "lower": 0, "upper": 3, "budget": PureDP(1)}
    with pytest.raises(InvalidParameter, match=f"^{named}="):
        local_mean(bits=ScriptedBits([]), **(given | change))
    with pytest.raises(MissingBound):
        local_mean([1.0], lower=None, upper=1, budget=PureDP(1))  # type: ignore[arg-type]


@pytest.mark.parametrize("reports", [[], ["a"], [1], 2.0, None])
def test_servers_refuse_what_no_device_sends(reports: Any) -> None:
    with pytest.raises(InvalidParameter, match=r"^reports="):
        NoisyNumber(lower=0, upper=1, noise_multiplier=1).aggregate(reports)
