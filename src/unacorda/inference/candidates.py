"""Candidates of a search: values of a grid in an estimator, within shares of its budget."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import itertools
import operator
import warnings
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda.bits import RandomBits
from unacorda.errors import InvalidParameter
from unacorda.inference.budgets import check_budget
from unacorda.inference.contract import (
    Pipeline,
    clone,
    features,
    get_tags,
    label_column,
    paired,
)
from unacorda.inference.diagnostics.scoring import Scoring, scoring_of
from unacorda.inference.records import Floats
from unacorda.inference.regression.sparse import SparseRegression
from unacorda.privacy.guarantees import GDP, Guarantee

GridRows: TypeAlias = tuple[Floats, NDArray[Any]]
"""Features and targets."""


def judged_rows(search: Any, X: ArrayLike, y: ArrayLike) -> tuple[Floats, NDArray[Any], Scoring]:
    """Features, targets, and the scoring of a search."""
    classifier = get_tags(search.estimator).estimator_type == "classifier"
    scoring = scoring_of(
        search.scoring, search.estimator, classifier=classifier, bound=search.error_bound
    )
    if classifier:
        x = features(search, X, reset=True)
        return x, label_column(y, rows=len(x)), scoring
    x, target, _ = paired(search, X, y)
    return x, target, scoring


def candidate_of(
    estimator: Any,
    parameters: dict[str, Any],
    *,
    shares: dict[str, Fraction],
    budget: GDP,
    bits: RandomBits | None,
) -> Any:
    """The unfitted estimator with these values, its budgets being shares of this one."""
    base = clone(estimator)
    base.set_params(**{name: budget * share for name, share in shares.items()})
    base.set_params(**dict.fromkeys(parameters_named(base, "bits"), bits))
    found = clone(base).set_params(**parameters)
    if parameters_named(found) != parameters_named(base):
        raise InvalidParameter(
            "grid",
            list(parameters),
            expected="values that leave the estimators inside, and so their budgets, as they are",
        )
    return found


def fitted_to(candidate: Any, rows: GridRows) -> Any:
    """A copy, fitted to these rows without warnings, since warnings could depend on them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return clone(candidate).fit(*rows)


def quietly_fitted(candidate: Any, rows: GridRows) -> Any:
    """The fit, or None if it fails, since the cause may depend on the rows."""
    try:
        return fitted_to(candidate, rows)
    except Exception:  # noqa: BLE001
        return None


def shared_budget(estimator: Any) -> tuple[Guarantee, dict[str, Fraction]]:
    """The sum of the budgets inside, and the share of each by the name of its parameter."""
    if not hasattr(estimator, "get_params") or isinstance(estimator, type):
        raise InvalidParameter(
            "estimator", estimator, expected="an unfitted estimator of unacorda.inference"
        )
    for step in [estimator, *estimator.get_params(deep=True).values()]:
        if hasattr(step, "fit") and not _is_private(step):
            raise InvalidParameter(
                "estimator",
                type(step).__name__,
                expected="one with a budget of its own, or a Pipeline of such: what it learns "
                "from the rows would not be private",
            )
    budgets = {name: check_budget(value) for name, value in parameters_named(estimator).items()}
    if len({type(budget) for budget in budgets.values()}) != 1:
        raise InvalidParameter(
            "estimator", estimator, expected="budgets of one kind, at least one of them"
        )
    whole = functools.reduce(operator.add, budgets.values())
    return whole, {k: budget.additive[0] / whole.additive[0] for k, budget in budgets.items()}


def parameters_named(estimator: Any, last: str = "budget") -> dict[str, Any]:
    """The parameters of this name of the estimator and of all inside it."""
    inside = estimator.get_params(deep=True)
    return {name: value for name, value in inside.items() if name.split("__")[-1] == last}


def _is_private(step: Any) -> bool:
    """True for a step with a budget, one that fits each part once, or one that fits nothing.

    A step that fits copies of its parts, as bagging does, would spend their budgets several times.
    """
    if isinstance(step, type) or not hasattr(step, "get_params"):
        return False
    if "budget" in step.get_params(deep=False) or isinstance(step, Pipeline | SparseRegression):
        return True
    return not (parameters_named(step) or get_tags(step).requires_fit)


def combinations(estimator: Any, grid: object) -> list[dict[str, Any]]:
    """Every combination of the values."""
    if not isinstance(grid, Mapping) or not grid:
        expected = "a dictionary that names parameters and lists the values of each"
        raise InvalidParameter("grid", grid, expected=expected)
    known = set(estimator.get_params(deep=True))
    for name, values in grid.items():
        if name not in known or str(name).split("__")[-1] in {"budget", "bits"}:
            raise InvalidParameter(
                "grid", name, expected="names of the estimator's parameters, budget and bits apart"
            )
        if not isinstance(values, list | tuple | np.ndarray) or len(values) == 0:
            expected = f"a list of one or more values of {name}"
            raise InvalidParameter("grid", values, expected=expected)
    return [dict(zip(grid, chosen, strict=True)) for chosen in itertools.product(*grid.values())]
