"""Sparse regression from tables: what arrays find, gaps, people with several rows, coverage."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.tiers import mostly_slow

import unacorda
from unacorda import GDP, ZCDP, AddRemove, ApproxDP, ReplaceOne, SeededBits, accounting, inference
from unacorda.inference.table_quartiles import table_quartiles
from unacorda.privacy.guarantees import Guarantee
from unacorda.privacy.neighbors import Neighbors

Floats = np.ndarray[Any, np.dtype[np.float64]]
QUIET = GDP(10**6)


def people(n: int, p: int, effects: dict[int, float], *, seed: int) -> pd.DataFrame:
    drawn = np.random.default_rng(seed)
    x = drawn.normal(size=(n, p))
    table = pd.DataFrame(x, columns=[f"f{place}" for place in range(p)])
    table["y"] = 3 + sum(x[:, j] * e for j, e in effects.items()) + drawn.normal(size=n)
    table["who"] = np.arange(n)
    return table


def line(budget: Guarantee, **options: Any) -> Any:
    given = {"feature_bounds": (-2.5, 2.5), "target_bounds": (-20, 20)} | options
    return inference.LinearRegression(budget=budget, **given)


def logistic(budget: Guarantee) -> Any:
    return inference.LogisticRegression(budget=budget, feature_bounds=(-2.5, 2.5))


def counts(budget: Guarantee) -> Any:
    return inference.PoissonRegression(budget=budget, feature_bounds=(-2.5, 2.5), largest=40)


def fitted(
    inner: Any,
    table: pd.DataFrame,
    *,
    target: str = "y",
    unit: Any = None,
    seed: int = 1,
    **more: Any,
) -> Any:
    options = {"n_features": 2} | more
    features = [name for name in table.columns if name.startswith("f")]
    with unacorda.Session(
        {"t": table},
        unit=unit or unacorda.Person("who", max_rows=1),
        budget=inner.budget,
        bits=SeededBits(seed),
    ) as session:
        model = inference.SparseRegression(inner, **options)
        session.fit(model, "t", features=features, target=target)
        assert session.spent.additive[0] <= inner.budget.additive[0]
        return model


INNER = [(line, "y"), (logistic, "y > 3"), (counts, "greatest(floor(y), 0)")]


@pytest.mark.parametrize(("inner", "target"), mostly_slow(INNER))
@pytest.mark.parametrize("neighbors", mostly_slow([AddRemove, ReplaceOne]))
def test_it_finds_and_fits_what_arrays_do(inner: Any, target: str, neighbors: Neighbors) -> None:
    # The scores of both are tens of deviations above the others'.
    table = people(8000, 12, {2: 1.0, 7: -0.8}, seed=1)
    unit = unacorda.Person("who", max_rows=1, neighbors=neighbors)
    model = fitted(inner(GDP(2)), table, target=target, unit=unit)
    x, y = table[[f"f{j}" for j in range(12)]], table["y"]
    told = {"y": y, "y > 3": y > 3}.get(target, np.maximum(np.floor(y), 0))
    theirs = inference.SparseRegression(inner(GDP(2)), n_features=2, bits=SeededBits(1)).fit(
        x, told
    )
    assert model.selected_.tolist() == theirs.selected_.tolist() == [2, 7]
    errors = np.hypot(model.estimator_.sampling_error_, model.estimator_.privacy_error_)[1:]
    off = np.ravel(model.coef_ - theirs.coef_)[[2, 7]]
    assert (np.abs(off) < 8 * errors).all()
    assert model.estimator_.diagnostics_["rows"] == pytest.approx(6000, abs=300)
    assert list(model.feature_names_in_) == list(x.columns)
    assert [row["name"] for row in model.summary().to_dicts()] == ["intercept", "f2", "f7"]
    assert model.predict(x).shape == (8000,)
    assert model.score(x, told) == pytest.approx(theirs.score(x, told), abs=0.05)


def test_without_noise_the_others_get_the_fit_of_their_rows() -> None:
    table = people(1500, 3, {1: 2.0}, seed=2)
    model = fitted(line(QUIET), table, n_features=1)
    # Who fits is not told: a fit to everybody errs otherwise, by about as much.
    everybody = line(QUIET, bits=SeededBits(1)).fit(table[["f1"]], table["y"])
    errors = everybody.sampling_error_[1:]
    assert model.selected_.tolist() == [1]
    assert np.abs(model.coef_[1] - everybody.coef_[0]) < 5 * errors[0]
    assert model.coef_[1] != pytest.approx(everybody.coef_[0], rel=1e-9)


@pytest.mark.parametrize("budget", [GDP(1), ApproxDP(1, 1e-6), ZCDP("0.3")], ids=repr)
def test_both_parts_have_the_whole_budget(budget: Guarantee) -> None:
    table = people(8000, 4, {1: 2.0}, seed=3)
    model = fitted(line(budget), table, n_features=1)
    whole = GDP.within(budget)
    spent = [
        accounting.rho(event)
        for event in (model.selection_event_, model.estimator_.event_, model.event_)
    ]
    assert max(spent) <= float(whole.mu_squared) / 2
    assert min(spent[1:]) > 0.99 * float(whole.mu_squared) / 2
    assert spent[0] > 0.5 * float(whole.mu_squared) / 2


def test_a_missing_feature_selects_as_the_middle_and_keeps_nobody_from_the_fit() -> None:
    table = people(6000, 4, {1: 2.0}, seed=4)
    drawn = np.random.default_rng(4)
    for name in ("f0", "f2", "f3"):
        table.loc[drawn.random(6000) < 0.5, name] = np.nan
    table.loc[drawn.random(6000) < 0.2, "f1"] = np.inf
    table.loc[drawn.random(6000) < 0.1, "y"] = np.nan
    model = fitted(line(GDP(2)), table, n_features=1)
    assert model.selected_.tolist() == [1]
    known = np.isfinite(table["f1"]) & np.isfinite(table["y"])
    assert model.estimator_.diagnostics_["rows"] == pytest.approx(0.75 * known.sum(), abs=250)
    assert model.coef_[1] == pytest.approx(2.0, abs=0.2)


@pytest.mark.parametrize("unit", [unacorda.Row(), unacorda.Person("who", max_rows=3)], ids=str)
def test_rows_alone_and_several_of_a_person(unit: Any) -> None:
    table = people(9000, 6, {0: 1.0, 5: -1.0}, seed=5)
    table["who"] //= 3
    model = fitted(line(GDP(3)), table, unit=unit)
    assert model.selected_.tolist() == [0, 5]
    assert model.coef_[[0, 5]] == pytest.approx([1.0, -1.0], abs=0.2)


def test_quartiles_are_those_of_the_column() -> None:
    drawn = np.random.default_rng(6)
    table = pd.DataFrame(
        {"x": drawn.normal(50, 3, 4000), "z": drawn.exponential(9, 4000), "y": 1.0}
    )
    table.loc[:3, "x"] = [-1e300, 1e300, np.nan, np.inf]

    class Asks:
        budget = QUIET

        def fit_table(self, asking: Any) -> None:
            loose = asking.chosen([0, 1])
            self.found = table_quartiles(
                loose,
                ["x0", "x1"],
                ends=[(0.0, 1000.0), (0.0, 30.0)],
                rows=loose.count(GDP(1))[0],
                share=Fraction(1),
                pay=lambda share: QUIET * share / 4,
            )

    asks = Asks()
    with unacorda.Session({"t": table}, unit=unacorda.Row(), budget=QUIET) as session:
        session.fit(asks, "t", features=["x", "z"], target="y")
    # Half a thousandth of the range, but for three rows of four thousand.
    assert asks.found[0] == pytest.approx([48.0, 52.0], abs=0.7)
    assert asks.found[1] == pytest.approx(np.quantile(table["z"], [0.25, 0.75]).tolist(), abs=0.05)


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("unit", [unacorda.Row(), unacorda.Person("who", max_rows=1)], ids=str)
def test_intervals_cover_after_selection(unit: Any) -> None:
    # 3 features of 12 have an effect, 5 are selected: 2 by chance. 40 samples of 5 intervals at
    # 0.95: fewer than 168 of 200 with p < 1e-7.
    effects, covered = {0: 1.0, 1: -0.7, 2: 0.5}, 0
    for seed in range(40):
        table = people(2500, 12, effects, seed=seed)
        model = fitted(line(GDP(2)), table, n_features=5, unit=unit, seed=seed)
        truth = np.array([effects.get(j, 0.0) for j in model.selected_])
        lower, upper = model.conf_int()[1:].T
        covered += int(((lower <= truth) & (truth <= upper)).sum())
    assert covered >= 168
