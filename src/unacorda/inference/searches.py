r"""What searches for a hyper-parameter share: candidates, budgets inside, and who judges how.

A search fits candidates under smaller budgets than they were given, and scores them by numbers
from 0 to 1, one a judging row, so that a replaced row moves their sum by 1 at most.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import itertools
import operator
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import checks
from unacorda.bits import RandomBits
from unacorda.errors import InvalidParameter, MissingBound
from unacorda.inference.budgets import check_budget
from unacorda.inference.contract import Pipeline, clone, get_tags
from unacorda.inference.inputs import features, label_column, paired
from unacorda.inference.noisy_sums import NoisySums
from unacorda.inference.records import Floats
from unacorda.inference.sparse import SparseRegression
from unacorda.privacy.guarantees import GDP, Guarantee

__all__ = ["Candidate", "Rows", "budgets_of", "candidates_of", "mean_merit", "rows_of", "score_of"]

Rows: TypeAlias = tuple[Floats, NDArray[Any]]
"""Features and targets."""


def rows_of(search: Any, X: ArrayLike, y: ArrayLike) -> tuple[Floats, NDArray[Any], float | None]:
    """Features, targets, and the size of errors that counts as the worst; None for labels.

    Raises InvalidParameter for shapes and dtypes, MissingBound for a regression without the size.
    """
    if get_tags(search.estimator).estimator_type == "classifier":
        x = features(search, X, reset=True)
        return x, label_column(y, rows=len(x)), None
    if search.error_bound is None:
        raise MissingBound(
            "error_bound", expected="a public size of errors; larger ones count as this"
        )
    bound = checks.positive(error_bound=search.error_bound)
    x, target, _ = paired(search, X, y)
    return x, target, bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """Some values of the parameters, and the unfitted estimator that has them."""

    parameters: dict[str, Any]
    estimator: Any

    @staticmethod
    def of(
        search: Any, parameters: dict[str, Any], *, shares: dict[str, Fraction], budget: GDP
    ) -> Candidate:
        """The estimator of a search with these values, its budgets being shares of this one."""
        base = clone(search.estimator)
        base.set_params(**{name: budget * share for name, share in shares.items()})
        base.set_params(**dict.fromkeys(_named(base, "bits"), search.bits))
        found = clone(base).set_params(**parameters)
        if _named(found) != _named(base):
            raise InvalidParameter(
                "grid",
                list(parameters),
                expected="values that leave the estimators inside, and so their budgets, as they "
                "are",
            )
        return Candidate(parameters=parameters, estimator=found)

    def fitted(self, rows: Rows) -> Any:
        """A copy, fitted to these rows, without a warning, which would tell of them."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return clone(self.estimator).fit(*rows)

    def judged(self, rows: Rows, judges: Rows, *, error_bound: float | None) -> tuple[Any, Floats]:
        """A fit to some rows, and one number of each judging row from 0, the worst, to 1."""
        x, target = judges
        fitted = self.fitted(rows)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            predicted = np.asarray(fitted.predict(x))
        if predicted.shape != target.shape:
            raise InvalidParameter("estimator", predicted.shape, expected="one prediction a row")
        if error_bound is None:
            return fitted, np.asarray(predicted == target, dtype=np.float64)
        with np.errstate(all="ignore"):
            errors = np.abs(predicted - target) / error_bound
        return fitted, 1.0 - np.clip(np.nan_to_num(errors, nan=1.0), 0.0, 1.0)


def mean_merit(merits: Floats, *, budget: GDP, bits: RandomBits) -> tuple[float, float]:
    """The noisy mean of merits within the whole budget, and the deviation of its noise."""
    sums = NoisySums(rows=len(merits), budget=budget, bits=bits)
    score, noise = sums.mean(
        lambda rows: merits[rows].sum(keepdims=True),
        size=1,
        row_bound=Fraction(1),
        sensitivity=Fraction(1),
        share=Fraction(1),
    )
    return float(score[0]), noise


def score_of(score: float, noise: float, *, error_bound: float | None) -> tuple[float, float]:
    """The accuracy, or minus the mean absolute error, and the deviation of its noise."""
    if error_bound is None:
        return score, noise
    return (score - 1.0) * error_bound, noise * error_bound


def budgets_of(estimator: Any) -> tuple[Guarantee, dict[str, Fraction]]:
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
    budgets = {name: check_budget(value) for name, value in _named(estimator).items()}
    if len({type(budget) for budget in budgets.values()}) != 1:
        raise InvalidParameter(
            "estimator", estimator, expected="budgets of one kind, at least one of them"
        )
    whole = functools.reduce(operator.add, budgets.values())
    return whole, {k: budget.additive[0] / whole.additive[0] for k, budget in budgets.items()}


def _named(estimator: Any, last: str = "budget") -> dict[str, Any]:
    """The parameters of this name of the estimator and of all inside it."""
    inside = estimator.get_params(deep=True)
    return {name: value for name, value in inside.items() if name.split("__")[-1] == last}


def _is_private(step: Any) -> bool:
    """Whether it has a budget, or fits each part of it once, the parts looked at alone, or nothing.

    What fits copies of its parts, as bagging does, would spend their budgets several times.
    """
    if isinstance(step, type) or not hasattr(step, "get_params"):
        return False
    if "budget" in step.get_params(deep=False) or isinstance(step, Pipeline | SparseRegression):
        return True
    return not (_named(step) or get_tags(step).requires_fit)


def candidates_of(estimator: Any, grid: object) -> list[dict[str, Any]]:
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
