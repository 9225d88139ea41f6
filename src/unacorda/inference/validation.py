"""Validation curves: noisy scores of all candidates of a grid on held-out rows.

Fits and scores use different people, so each part has the whole budget. C fits to the same rows
share theirs. The scores are one release, with sqrt(C) times the sensitivity of one score. The best
of them is computed from released scores and costs nothing.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import itertools
import math
import operator
import warnings
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda.bits import RandomBits, source_of
from unacorda.errors import FitFailed, InvalidParameter
from unacorda.inference.contract import (
    Pipeline,
    Splitter,
    Wrapper,
    clone,
    count_fit,
    features,
    get_tags,
    label_column,
    note_reading,
    paired,
    rehearse,
    size_of,
    stand_in,
)
from unacorda.inference.diagnostics.cells import critical, data_frame
from unacorda.inference.diagnostics.scoring import Scoring, ScoringChoice, scoring_of
from unacorda.inference.records import Floats, check_budget, gdp_budget
from unacorda.inference.regression.sparse import SparseRegression
from unacorda.inference.sums import NoisySums
from unacorda.mechanisms.parameters import whole
from unacorda.privacy import events
from unacorda.privacy.guarantees import GDP, Guarantee
from unacorda.privacy.rounding import root_down, root_up

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


@dataclass(eq=False, repr=False)
class ValidationCurve(Wrapper):
    r"""Fits every candidate of a grid and scores all of them on held-out rows.

    C fits share the budget, so each has 1 / C of its mu^2. For many candidates `HeldOutSearch` is
    better, which shows only the best one. Candidates that fail on the rows have the worst score; if
    all fail, FitFailed is raised. The largest of noisy scores is a little too good.

    Source: docs/proofs/diagnostics.md, section 5.

    Parameters
    ----------
    estimator
        An unfitted regression or classifier of `unacorda.inference`, or a pipeline of them. Its
        budget, or the sum over its steps, is that of the whole curve: any guarantee that normal
        noise keeps.
    grid
        A list of values for each parameter that is tried, by name as in `set_params`; every
        combination is a candidate.
    held_out
        The share of rows, drawn blindly, that judges.
    scoring, error_bound, bits
        As for `HeldOutSearch`.

    Attributes
    ----------
    candidates_, estimators_
        The parameters of each candidate, and its fit; None where it failed.
    scores_, score_errors_
        Noisy scores, larger ones being better, and the deviations of their noise.
    best_params_, best_estimator_
        Those of the largest score.
    fit_budget_, event_, guarantee_
        The budget of one fit, the event of a person, who fits or judges, and the guarantee.

    Examples
    --------
    >>> import unacorda
    >>> from unacorda.inference import RidgeRegression
    >>> drawn = np.random.default_rng(1)
    >>> X = drawn.normal(size=(20000, 3))
    >>> y = X @ [1.0, -2.0, 0.0] + drawn.normal(size=20000)
    >>> ridge = RidgeRegression(
    ...     budget=unacorda.GDP(1), target_bounds=(-20, 20), feature_bounds=(-3, 3)
    ... )
    >>> curve = ValidationCurve(
    ...     ridge,
    ...     {"penalty": [0.01, 1.0, 100.0]},
    ...     scoring="r2",
    ...     error_bound=5.0,
    ...     bits=unacorda.SeededBits(1),
    ... ).fit(X, y)
    >>> curve.best_params_, [bool(score > 0.4) for score in curve.scores_]
    ({'penalty': 0.01}, [True, True, False])
    """

    estimator: Any
    grid: Mapping[str, Any]
    _: KW_ONLY
    held_out: float = 0.2
    scoring: ScoringChoice = None
    error_bound: float | None = None
    bits: RandomBits | None = None

    def explain(self, rows: int) -> dict[str, Any]:
        """Returns the noise of fits to a number of rows, without data.

        It has the number of candidates, of fitting and of judging rows, the budget of each fit, and
        the deviation of the noise of a mean of numbers in [0, 1], such as the accuracy.

        Parameters
        ----------
        rows
            The number of rows, 2 or more.
        """
        number = whole("rows", rows, least=2, most=1 << 60)
        asked, _ = shared_budget(self.estimator)
        count = len(combinations(self.estimator, self.grid))
        judges = size_of("held_out", self.held_out, rows=number)
        budget = gdp_budget(asked)
        return {
            "candidates": count,
            "rows that fit": number - judges,
            "rows that judge": judges,
            "budget of a fit": budget * Fraction(1, count),
            "noise of a score": math.sqrt(count) / budget.mu / judges,
        }

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fits and scores all candidates; spends the whole budget once.

        Parameters
        ----------
        X
            Features, shape (n, p).
        y
            Targets or labels, shape (n,).
        """
        asked, shares = shared_budget(self.estimator)
        grid = combinations(self.estimator, self.grid)
        x, target, scoring = judged_rows(self, X, y)
        splitter = Splitter(rows=len(x), judges=(size_of("held_out", self.held_out, rows=len(x)),))
        whole_budget = gdp_budget(asked)
        each: GDP = whole_budget * Fraction(1, len(grid))
        candidates = [
            candidate_of(self.estimator, one, shares=shares, budget=each, bits=self.bits)
            for one in grid
        ]
        label = stand_in(self.estimator, y)
        for candidate in candidates:
            rehearse(candidate, rows=splitter.fewest, features=x.shape[1], label=label)
        source = source_of(self.bits)
        count_fit(self, asked)
        self.event_ = events.Gaussian(noise_multiplier=root_down(1 / whole_budget.mu_squared))
        self.guarantee_, self.fit_budget_ = asked, each
        ((fitting, judging),) = splitter.splits(bits=source)
        found, kept = [], []
        for candidate in candidates:
            fitted = quietly_fitted(candidate, (x[fitting], target[fitting]))
            note_reading(fitted, X, y)
            found.append(fitted)
            kept.append(scoring.quietly(fitted, x[judging], target[judging]))
        sums = NoisySums(rows=len(judging), budget=whole_budget, bits=source)
        root = Fraction(root_up(Fraction(len(grid))))
        means, noise = sums.mean(
            lambda block: np.concatenate([scoring.part(one[block]) for one in kept]),
            size=scoring.size * len(grid),
            row_bound=scoring.row_bound * root,
            sensitivity=scoring.sensitivity * root,
            share=Fraction(1),
        )
        scores = [scoring.score(one, noise=noise) for one in means.reshape(len(grid), scoring.size)]
        self.scores_: Floats = np.array([score for score, _ in scores])
        self.score_errors_: Floats = np.array([error for _, error in scores])
        self.candidates_, self.estimators_ = grid, found
        best = int(np.argmax(np.where([one is not None for one in found], self.scores_, -np.inf)))
        if found[best] is None:
            raise FitFailed
        self.best_params_, self.estimator_ = grid[best], found[best]
        return self

    @property
    def best_estimator_(self) -> Any:
        """The fitted estimator with the largest score."""
        return self.estimator_

    def frame(self, confidence: float = 0.95) -> Any:
        """Returns one line per candidate: its parameters, score, error and interval.

        Parameters
        ----------
        confidence
            Of the intervals, each by itself, strictly between 0 and 1.
        """
        half = critical(confidence, "normal") * self.score_errors_
        columns: dict[str, Any] = {
            name: [one[name] for one in self.candidates_] for name in self.candidates_[0]
        }
        return data_frame(
            {
                **columns,
                "score": self.scores_,
                "noise_error": self.score_errors_,
                "lower": self.scores_ - half,
                "upper": self.scores_ + half,
            }
        )
