"""Fits of copies that scikit-learn makes are counted, and a single fit warns of nothing."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import warnings
from collections.abc import Callable, MutableMapping
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import BaggingRegressor
from sklearn.model_selection import GridSearchCV, ShuffleSplit, cross_val_score
from sklearn.pipeline import make_pipeline

from unacorda import GDP, RenyiDP, inference
from unacorda.inference import contract

BOUNDS: dict[str, Any] = {"feature_bounds": (-4, 4), "target_bounds": (-9, 9)}
DRAWN = np.random.default_rng(1)
X = DRAWN.normal(size=(900, 2))
Y = X @ [1.0, -1.0] + DRAWN.normal(size=900)


def line() -> Any:
    return inference.LinearRegression(budget=GDP(1), **BOUNDS)


def scaled() -> Any:
    return make_pipeline(inference.RobustScaler(budget=GDP(1), feature_bounds=(-9, 9)), line())


def search() -> Any:
    ridge = inference.RidgeRegression(budget=RenyiDP(8, 2), **BOUNDS)
    return inference.HeldOutSearch(ridge, {"penalty": [0.1, 1.0]}, tries=3, error_bound=5.0)


def warned(act: Callable[[], Any]) -> list[str]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        act()
    return [str(one.message) for one in found if one.category is UserWarning]


def test_cross_validation_names_the_budget_of_all_its_fits() -> None:
    model = line()
    first, *_, last = found = warned(lambda: cross_val_score(model, X, Y, cv=5))
    assert len(found) == 4
    assert "fitted 2 copies of one LinearRegression" in first
    assert "CrossValidatedSearch" in first
    assert "fitted 5 copies" in last
    assert str(GDP(1) * 5) in last
    *_, again = warned(lambda: cross_val_score(model, X, Y, cv=2))
    assert "fitted 7 copies" in again
    assert str(GDP(1) * 7) in again


def test_each_point_of_a_grid_is_counted_with_its_own_budget() -> None:
    grid = {"budget": [GDP(1), GDP(2)]}
    *_, last = warned(lambda: GridSearchCV(line(), grid, cv=2, refit=False).fit(X, Y))
    assert "fitted 4 copies" in last
    assert str(GDP(1) * 2 + GDP(2) * 2) in last
    mixed = {"budget": [GDP(1), RenyiDP(8, 2)]}
    *_, last = warned(lambda: GridSearchCV(line(), mixed, cv=2, refit=False).fit(X, Y))
    assert f"{GDP(1) * 2} and {RenyiDP(8, 4)}" in last


@pytest.mark.long
def test_every_step_and_every_search_counts_by_itself() -> None:
    found = warned(lambda: cross_val_score(scaled(), X, Y, cv=2))
    assert sorted(text.split(",")[0].split()[-1] for text in found) == [
        "LinearRegression",
        "RobustScaler",
    ]
    (one,) = warned(lambda: cross_val_score(search(), X, Y, cv=2))
    assert "copies of one HeldOutSearch" in one
    assert str(RenyiDP(8, 4)) in one
    assert len(warned(lambda: BaggingRegressor(line(), n_estimators=3).fit(X, Y))) == 2


@pytest.mark.long
@pytest.mark.parametrize(
    "fit",
    [
        lambda: line().fit(X, Y),
        lambda: scaled().fit(X, Y),
        lambda: [clone(model).fit(X, Y) for model in [line()] * 3],
        lambda: TransformedTargetRegressor(line()).fit(X, Y),
        lambda: cross_val_score(line(), X, Y, cv=ShuffleSplit(1, random_state=0)),
        lambda: GridSearchCV(line(), {"tuning": [3.0]}, cv=ShuffleSplit(1), refit=False).fit(X, Y),
        lambda: search().fit(X, Y),
        lambda: cross_val_score(search(), X, Y, cv=ShuffleSplit(1, random_state=0)),
        lambda: cross_val_score(
            inference.SparseRegression(line(), n_features=1), X, Y, cv=ShuffleSplit(1)
        ),
    ],
)
def test_a_single_fit_warns_of_nothing(fit: Callable[[], Any]) -> None:
    assert warned(fit) == []


class Forgetful(MutableMapping[Any, Any]):
    """The counts of a process that copies arrive in: it knows none of them."""

    def __getitem__(self, key: Any) -> Any:
        raise KeyError(key)

    def __setitem__(self, key: Any, value: Any) -> None: ...
    def __delitem__(self, key: Any) -> None: ...
    def __len__(self) -> int:
        return 0

    def __iter__(self) -> Any:
        return iter(())


def test_worker_processes_state_what_several_fits_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contract, "_COPIES", Forgetful())
    found = warned(lambda: cross_val_score(line(), X, Y, cv=2))
    assert len(found) == 2
    assert all(f"5 fits spend up to {GDP(1) * 5}" in text for text in found)
