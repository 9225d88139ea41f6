"""Theorems of sampling and shuffling, and loss distributions, name what they refuse."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from scipy import stats
from tests.support.cases import in_subtests

from unacorda.accounting.amplification import sampling, shuffling
from unacorda.accounting.filters import Account, RenyiFilter
from unacorda.accounting.individual import IndividualFilter, gaussian_costs
from unacorda.accounting.pld.distribution import (
    PrivacyLossDistribution,
    worst_delta,
    worst_epsilon,
)
from unacorda.errors import InvalidParameter, UnacordaError
from unacorda.privacy.events import Gaussian
from unacorda.privacy.guarantees import ZCDP, ApproxDP
from unacorda.privacy.neighbors import AddRemove

GOOD: dict[str, Any] = {
    "epsilon": 0.5,
    "delta": 1e-6,
    "rate": 0.1,
    "count": 1000,
    "categories": 3,
    "distance": 0.3,
    "local_epsilon": 1.0,
    "size": 10,
    "population": 100,
}
NO_NUMBERS = [None, "1", True, [1.0], 1j, math.nan, math.inf, -1.0, Decimal("0.5"), object()]
THEOREMS: list[Callable[..., Any]] = [
    sampling.approx_dp_of_sample,
    sampling.approx_dp_within_sample,
    sampling.pure_of_replaced_sample,
    sampling.sampling_worth,
    shuffling.delta_of_shuffled_bits,
    shuffling.delta_of_shuffled_reports,
    shuffling.lower_delta_of_three_categories,
    shuffling.delta_of_shuffled_response,
    shuffling.lower_delta_of_shuffled_response,
]
LIMIT = ApproxDP(1, 1e-6)
PAIR = PrivacyLossDistribution.from_pmfs([0.75, 0.25], [0.25, 0.75])


@pytest.mark.parametrize("theorem", THEOREMS, ids=lambda f: f.__name__)
def test_theorems_of_samples_and_reports_name_what_they_refuse(theorem: Callable[..., Any]) -> None:
    parameters = inspect.signature(theorem).parameters
    names = [name for name, one in parameters.items() if one.default is inspect.Parameter.empty]
    usual = {name: GOOD[name] for name in names}
    theorem(**usual)
    for name in names:
        extra = [0, 2.5] if name in ("count", "size", "population", "categories") else []
        for wrong in [*NO_NUMBERS, *extra]:
            with pytest.raises(InvalidParameter) as caught:
                theorem(**{**usual, name: wrong})
            assert caught.value.argument == name
            assert caught.value.value is wrong


QUESTIONS: list[tuple[str, Callable[[Any], Any], list[Any]]] = [
    ("epsilon", PAIR.delta_interval, [None, "1", True, [1.0], 1j, math.nan, math.inf, 10**400]),
    ("delta", PAIR.epsilon_interval, [*NO_NUMBERS, 1.5]),
    ("count", PAIR.self_compose, [*NO_NUMBERS, 0, 2.5]),
    ("other", PAIR.compose, [None, 1, "x", [PAIR]]),
    (
        "p",
        lambda p: PrivacyLossDistribution.from_pmfs(p, [0.5, 0.5]),
        [None, "1", 1.0, 1j, ["1"], []],
    ),
    ("q", lambda q: PrivacyLossDistribution.from_pmfs([0.5, 0.5], q), [*NO_NUMBERS, [10**400, 0]]),
    ("losses", PrivacyLossDistribution.from_samples, [None, 1.0, "12", [], ["1"], [1j], [None]]),
    (
        "confidence",
        lambda share: PrivacyLossDistribution.from_samples([0.1], confidence=share),
        [*NO_NUMBERS, 0, 1],
    ),
    ("profile", PrivacyLossDistribution.from_profile, [*NO_NUMBERS, ([0, 1],), ("ab", "cd")]),
    ("grid", lambda grid: PrivacyLossDistribution.from_pmfs([1], [1], grid=grid), NO_NUMBERS),
    ("p", lambda p: PrivacyLossDistribution.from_scipy(p, stats.norm(0, 1)), [1, None, "norm"]),
    (
        "q",
        lambda q: PrivacyLossDistribution.from_scipy(stats.norm(0, 1), q),
        [1, None, stats.poisson(3)],
    ),
    (
        "points",
        lambda points: PrivacyLossDistribution.from_scipy(
            stats.norm(0, 1), stats.norm(1, 1), points=points
        ),
        [1.0, "ab", [1.0], [2.0, 1.0], [[1.0, 2.0]], [0.0, math.nan]],
    ),
    ("events", PrivacyLossDistribution.from_event, [*NO_NUMBERS, "Gaussian"]),
    (
        "direction",
        lambda way: PrivacyLossDistribution.from_event(
            Gaussian(noise_multiplier=1.0), direction=way
        ),
        [None, "both", 1],
    ),
    (
        "neighbors",
        lambda relation: PrivacyLossDistribution.from_event(
            Gaussian(noise_multiplier=1.0).fixed_size_sampled(size=2, population=9),
            neighbors=relation,
        ),
        [None, "add", AddRemove],
    ),
    ("losses", lambda several: worst_delta(several, epsilon=1.0), [None, 1, [], [1], PAIR]),
    ("losses", lambda several: worst_epsilon(several, delta=0.1), [None, 1, [], [1], PAIR]),
    ("orders", lambda orders: RenyiFilter(LIMIT, orders=orders), [None, True, 2, "8", 1j]),
    ("name", lambda name: Account(LIMIT, name=name), [None, 1, b"x", ["x"]]),
    ("above", lambda above: Account(LIMIT, above=above), ["x", True, LIMIT, object()]),
    ("people", lambda n: IndividualFilter(limit=ZCDP(1), people=n), [*NO_NUMBERS, 0, 10**400]),
    ("norms", lambda norms: gaussian_costs(norms, sigma=1.0), [np.array(["x"]), np.array([1j])]),
    ("sigma", lambda sigma: gaussian_costs([1.0], sigma=sigma), [*NO_NUMBERS, 0]),
]


@in_subtests(
    ("argument", "ask", "wrongs"), QUESTIONS, ids=[f"{k}-{q[0]}" for k, q in enumerate(QUESTIONS)]
)
def test_loss_distributions_name_what_they_refuse(
    argument: str, ask: Callable[[Any], Any], wrongs: list[Any]
) -> None:
    for wrong in wrongs:
        with pytest.raises(UnacordaError) as caught:
            ask(wrong)
        assert isinstance(caught.value, InvalidParameter), wrong
        assert caught.value.argument == argument, wrong
        assert caught.value.expected
        assert len(str(caught.value)) < 500


def test_a_law_may_be_listed_as_any_numbers() -> None:
    for laws in (([1, 3], [3, 1]), (np.array([1.0, 3.0]), (3.0, 1.0))):
        p, q = ([float(w) / 4 for w in law] for law in laws)
        assert PrivacyLossDistribution.from_pmfs(p, q).delta(0.0) == pytest.approx(0.5)
    loss = PrivacyLossDistribution.from_event([Gaussian(noise_multiplier=2.0)] * 4)
    whole = PrivacyLossDistribution.from_event(Gaussian(noise_multiplier=1.0))
    assert loss.delta(1.0) == pytest.approx(whole.delta(1.0), rel=1e-9)
    assert PrivacyLossDistribution.from_event([]).delta(0.0) == pytest.approx(0, abs=1e-12)
