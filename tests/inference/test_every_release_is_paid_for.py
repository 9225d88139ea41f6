"""What estimates and tests really release, together, never costs more than their budget."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from tests.tiers import mostly_long, mostly_slow

from unacorda import (
    GDP,
    ZCDP,
    ApproxDP,
    PureDP,
    RenyiDP,
    ReplaceOne,
    accounting,
    inference,
    mechanisms,
)
from unacorda.inference import search as searching
from unacorda.inference.regression import sparse
from unacorda.mechanisms.additive.integer import DiscreteLaplace
from unacorda.mechanisms.additive.real import Gaussian, Laplace
from unacorda.mechanisms.selection.exponential import PiecewiseConstantExponential
from unacorda.mechanisms.selection.noisy_max import TopK
from unacorda.mechanisms.shaped.vectors import KNorm
from unacorda.privacy import events
from unacorda.privacy.events import Event
from unacorda.privacy.guarantees import Guarantee

X = np.random.default_rng(1).normal(5, 1, 400)
Y = np.random.default_rng(2).normal(5, 1, 300)
TABLE = np.stack([X, X[::-1], X + X[::-1]], axis=1)
KINDS = np.arange(400) % 3
BOUNDS: dict[str, Any] = {"lower": 0, "upper": 10}
PAIRS = [(0, 10), (0, 10)]
EDGES = np.linspace(0, 10, 9)


class Adds:
    """A public model."""

    def predict(self, x: Any) -> Any:
        return x.sum(axis=1)


ASKED: Mapping[str, Callable[[Guarantee], object]] = {
    "mean": lambda b: inference.mean(X, budget=b, **BOUNDS),
    "proportion": lambda b: inference.proportion(X > 5, budget=b),
    "clipped_mean": lambda b: inference.clipped_mean(X, budget=b),
    "clipped_mean in bounds": lambda b: inference.clipped_mean(X, budget=b, **BOUNDS),
    "find_bounds": lambda b: inference.find_bounds(X, budget=b),
    "variance": lambda b: inference.variance(X, budget=b, **BOUNDS),
    "stdev": lambda b: inference.stdev(X, budget=b, **BOUNDS),
    "local_frequencies": lambda b: inference.local_frequencies(KINDS, categories=3, budget=b),
    "local_frequencies of many": lambda b: inference.local_frequencies(
        KINDS, categories=1000, budget=b
    ),
    "local_mean": lambda b: inference.local_mean(X, budget=b, **BOUNDS),
    "median": lambda b: inference.median(X, budget=b, **BOUNDS),
    "quantile": lambda b: inference.quantile(X, 0.9, budget=b, **BOUNDS),
    "iqr": lambda b: inference.iqr(X, budget=b, **BOUNDS),
    "quantile, narrow": lambda b: inference.quantile(X, 0.9, budget=b, interval=0.9, **BOUNDS),
    "iqr, sharp": lambda b: inference.iqr(X, budget=b, interval=0.1, **BOUNDS),
    "covariance_matrix": lambda b: inference.covariance_matrix(
        np.stack([X, X[::-1]], axis=1), bounds=PAIRS, budget=b
    ),
    "correlation_matrix": lambda b: inference.correlation_matrix(
        np.stack([X, X[::-1]], axis=1), bounds=PAIRS, budget=b
    ),
    "histogram": lambda b: inference.histogram(X, edges=EDGES, budget=b),
    "density": lambda b: inference.density(X, budget=b, **BOUNDS),
    "distribution": lambda b: inference.distribution(X, edges=EDGES, budget=b),
    "score_table": lambda b: inference.score_table(None, X / 10, X > 5, budget=b),
    "score_table by quantiles": lambda b: inference.score_table(
        None, X / 10, X > 5, budget=b, bins=8, binning="quantiles"
    ),
    "class_tables": lambda b: inference.class_tables(
        None, TABLE / 20, KINDS, classes=[0, 1, 2], budget=b
    ),
    "importance": lambda b: inference.importance(
        Adds(), TABLE, X, budget=b, reference=TABLE[:50], residual_bound=20
    ),
    "importance by histograms": lambda b: inference.importance(
        Adds(), TABLE, X, budget=b, feature_bounds=(0, 20), residual_bound=20
    ),
    "residual_table": lambda b: inference.residual_table(
        None, X, X[::-1], budget=b, target_bounds=(0, 10)
    ),
    "residual_table in a bound": lambda b: inference.residual_table(
        None, X, X[::-1], budget=b, target_bounds=(0, 10), residual_bound=4
    ),
    "binomial_test": lambda b: inference.binomial_test(X > 5, budget=b),
    "fit_test": lambda b: inference.fit_test(KINDS, shares=[1, 1, 1], budget=b, draws=99),
    "independence_test": lambda b: inference.independence_test(
        KINDS, KINDS[::-1], categories=(3, 3), budget=b, draws=99
    ),
    "t_test": lambda b: inference.t_test(X, 5, budget=b, draws=99, **BOUNDS),
    "mann_whitney_test": lambda b: inference.mann_whitney_test(X, Y, budget=b, draws=99),
    "signed_rank_test": lambda b: inference.signed_rank_test(X - 5, budget=b, draws=99),
    "PCA": lambda b: inference.PCA(budget=b, feature_bounds=(0, 10)).fit(TABLE),
    "PCA of scaled features": lambda b: inference.PCA(
        budget=b, feature_bounds=(0, 10), scale=True
    ).fit(TABLE),
    "PCA without bounds": lambda b: inference.PCA(budget=b, bounds_share=0.2).fit(TABLE),
    "RobustScaler without bounds": lambda b: inference.RobustScaler(budget=b).fit(TABLE),
}
GROUPED: Mapping[str, tuple[int, Callable[[Guarantee], object]]] = {
    "two_sample_t_test": (
        2,
        lambda b: inference.two_sample_t_test(X, Y, budget=b, draws=99, **BOUNDS),
    ),
    "anova": (3, lambda b: inference.anova([X, Y, X], budget=b, draws=99, **BOUNDS)),
}
"""Groups of different people: each is released with the whole budget, one release a group."""

TOGETHER = {"two_proportions_test"}
"""One release for both groups, of which a replaced person changes one number."""

LOCAL: list[type] = [
    mechanisms.local.Duchi,
    mechanisms.local.Directions,
    mechanisms.local.HadamardResponse,
    mechanisms.local.Hybrid,
    mechanisms.local.LocalHashing,
    mechanisms.local.Piecewise,
    mechanisms.RandomizedResponse,
    mechanisms.local.SubsetSelection,
    mechanisms.local.UnaryEncoding,
]
FREE = {
    "diagnosis",
    "binomial_power",
    "power_curve",
    "losses",
    "mean_randomizer",
    "frequency_randomizer",
}
FREE |= {"vector_randomizer", "diagnosis"}
"""What releases nothing."""

BUDGETS = [PureDP(1), ApproxDP(1, 1e-6), ZCDP("0.5"), GDP(1), RenyiDP(8, 2)]


@pytest.fixture
def released(monkeypatch: pytest.MonkeyPatch) -> list[Event]:
    """From now on the events of all mechanisms that release anything."""
    seen: list[Event] = []
    depth = 0

    def watch(mechanism: type, name: str) -> None:
        real = getattr(mechanism, name)

        def noting(self: Any, *arguments: Any, **named: Any) -> Any:
            nonlocal depth
            if depth == 0:
                seen.append(self.event)
            depth += 1
            try:
                return real(self, *arguments, **named)
            finally:
                depth -= 1

        monkeypatch.setattr(mechanism, name, noting)

    for mechanism in (Gaussian, Laplace, DiscreteLaplace):
        watch(mechanism, "release")
        watch(mechanism, "release_exact")
    watch(PiecewiseConstantExponential, "release")
    watch(KNorm, "release")
    for reports in LOCAL:  # one call for all people, of whom each sends one report
        watch(reports, "encode")
    watch(TopK, "release")
    return seen


def within(spent: Event, budget: Guarantee) -> bool:
    """By the accountant, not by what shared the budget out."""
    match budget:
        case PureDP(epsilon):
            return accounting.epsilon(spent, delta=0, neighbors=ReplaceOne) <= epsilon
        case ApproxDP(epsilon, delta):
            return accounting.delta(spent, epsilon=epsilon, neighbors=ReplaceOne) <= delta
        case ZCDP(rho):
            return accounting.rho(spent, neighbors=ReplaceOne) <= rho
        case GDP():
            normal = events.Gaussian(noise_multiplier=1 / budget.mu)
            return all(
                accounting.delta(spent, epsilon=e, neighbors=ReplaceOne)
                <= accounting.delta(normal, epsilon=e) * (1 + 1e-9)
                for e in (0.01, 0.5, 1.0, 3.0)
            )
        case RenyiDP(alpha, epsilon):
            return accounting.renyi(spent, alpha=alpha, neighbors=ReplaceOne) <= epsilon


@pytest.mark.parametrize("budget", mostly_long(BUDGETS, quick=2), ids=repr)
@pytest.mark.parametrize("name", ASKED)
def test_all_releases_together_are_within_the_budget(
    name: str, budget: Guarantee, released: list[Event]
) -> None:
    ASKED[name](budget)
    assert released
    assert within(events.compose(released), budget)
    # And they use it: twice as much would not be.
    assert not within(events.compose(released, count=4), budget)


@pytest.mark.parametrize("budget", BUDGETS, ids=repr)
@pytest.mark.parametrize("name", GROUPED)
def test_each_group_is_released_once_within_the_budget(
    name: str, budget: Guarantee, released: list[Event]
) -> None:
    groups, ask = GROUPED[name]
    ask(budget)
    assert len(released) == groups
    assert all(within(event, budget) for event in released)


@pytest.mark.parametrize("budget", BUDGETS, ids=repr)
def test_two_proportions_are_one_release(budget: Guarantee, released: list[Event]) -> None:
    inference.two_proportions_test(X > 5, Y > 5, budget=budget, draws=99)
    assert len(released) == 1
    assert within(released[0], budget)


@pytest.mark.parametrize("budget", mostly_slow(BUDGETS[1:], quick=2), ids=repr)
def test_who_selects_and_who_fits_are_each_within_the_budget(
    budget: Guarantee, released: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sparse, "rehearse", lambda *args, **named: None)  # of zeros, not of people
    line = inference.LinearRegression(budget=budget, feature_bounds=(0, 10), target_bounds=(0, 10))
    many = np.random.default_rng(3).normal(5, 1, (4000, 3))
    inference.SparseRegression(line, n_features=2).fit(many, many[:, 0])
    selecting = released[:3]  # two quartiles of the target, then both features
    assert [type(event) for event in selecting] == [events.Exponential] * 2 + [events.Repeated]
    fitting = released[3:]
    assert {type(event) for event in fitting} == {events.Gaussian}
    for part in (selecting, fitting):
        assert within(events.compose(part), budget)
        assert not within(events.compose(part, count=4), budget)


@pytest.mark.long
@pytest.mark.parametrize("budget", mostly_slow([ApproxDP(1, 1e-6), RenyiDP(8, 2)]), ids=repr)
def test_who_fits_and_who_judges_are_each_within_the_budget_of_a_run(
    budget: Guarantee, released: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "rehearse", lambda *args, **named: None)  # of zeros
    many = np.random.default_rng(3).normal(5, 1, (10_000, 3))
    bounds: dict[str, Any] = {"feature_bounds": (0, 10), "target_bounds": (0, 10)}
    line = inference.LinearRegression(budget=GDP("0.1"), tuning=1.0, **bounds)  # a run has that
    line.fit(many, many[:, 0])
    each = len(released) + 1  # of a fit and of its score
    released.clear()
    search = inference.HeldOutSearch(
        line.set_params(budget=budget), {"tuning": [1.0, 2.0]}, tries=3, error_bound=5.0
    ).fit(many, many[:, 0])
    assert within(search.event_, budget)
    assert len(released) % each == 0
    for start in range(0, len(released), each):
        run = released[start : start + each]
        assert within(events.compose(run[:-1]), search.run_budget_)
        assert within(run[-1], search.run_budget_)
        assert not within(events.compose(run), search.run_budget_)


@pytest.mark.long
@pytest.mark.parametrize("budget", mostly_slow([ApproxDP(1, 1e-6), RenyiDP(8, 2)]), ids=repr)
def test_folds_and_the_last_fit_are_each_within_their_budgets(
    budget: Guarantee, released: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "rehearse", lambda *args, **named: None)  # of zeros
    many = np.random.default_rng(3).normal(5, 1, (30_000, 3))
    bounds: dict[str, Any] = {"feature_bounds": (0, 10), "target_bounds": (0, 10)}
    line = inference.LinearRegression(budget=GDP("0.1"), tuning=1.0, **bounds)  # a run has that
    line.fit(many, many[:, 0])
    each = len(released)  # of a fit
    released.clear()
    search = inference.CrossValidatedSearch(
        line.set_params(budget=budget), {"tuning": [1.0, 2.0]}, folds=3, tries=2, error_bound=5.0
    ).fit(many, many[:, 0])
    assert within(search.event_, budget)
    *runs, last = released[:-each], released[-each:]
    assert within(events.compose(last), search.last_budget_)
    assert len(runs[0]) % (3 * each + 1) == 0
    for start in range(0, len(runs[0]), 3 * each + 1):
        run = runs[0][start : start + 3 * each + 1]
        # Whoever is replaced is in two of the three fits, and judges once.
        assert within(events.compose(run[each:]), search.run_budget_)
        assert within(events.compose(run[: 2 * each] + run[-1:]), search.run_budget_)
        assert not within(events.compose(run), search.run_budget_)


def test_nothing_that_releases_is_left_out() -> None:
    """Regressions say their event themselves; see their own tests."""
    parts = {"SparseRegression", "HeldOutSearch", "CrossValidatedSearch"}
    functions = {
        name
        for name in dir(inference)
        if (name[0].islower() and name not in FREE) or name in {"PCA", "RobustScaler"} | parts
    }
    assert (
        functions
        == {name.split()[0].rstrip(",") for name in ASKED} | set(GROUPED) | TOGETHER | parts
    )
