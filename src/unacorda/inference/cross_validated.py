r"""The choice of a hyper-parameter by cross-validation, and then a fit to everybody.

Each person judges once and is in all fits of a run but one, so that a run costs as many equal
shares as there are folds (docs/proofs/sparse.md, section 6); the last fit has a budget of its own.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import checks
from unacorda.bits import RandomBits, source_of
from unacorda.errors import FitFailed, InvalidParameter
from unacorda.inference.budgets import gdp_budget
from unacorda.inference.searches import (
    Candidate,
    Rows,
    budgets_of,
    candidates_of,
    mean_merit,
    rows_of,
    score_of,
)
from unacorda.inference.tries import runs_within
from unacorda.inference.wrappers import Wrapper, rehearse
from unacorda.mechanisms.retry.best import BestOf
from unacorda.privacy import events
from unacorda.privacy.guarantees import GDP
from unacorda.privacy.rounding import root_down

__all__ = ["CrossValidatedSearch"]

_MOST_FOLDS: Final = 20


class CrossValidatedSearch(Wrapper):
    r"""A regression or classifier with the parameters that do best in cross-validation, privately.

    estimator, grid, tries, shape, error_bound, bits: as for `HeldOutSearch`; the budget of the
    estimator is that of the whole search. folds: into how many parts rows are dealt out, blindly,
    2 or more. A run draws a candidate; for each fold it is fitted to the rows outside and judged by
    those inside. Each fit, and the score, has the root of 1 / folds of the mu of a run: two folds
    mean the least noise. The best of K runs tells the parameters. share: of the budget, for the
    last fit, of the best parameters to all rows; the rest is for the choice.

    It fits everybody, and the last fit pays nothing for the number of runs; but the fits that are
    compared have more noise than the last one has, so that a penalty may be chosen too large.
    `HeldOutSearch` compares what it keeps. docs/regression.md has both beside each other.

    After fit: best_params_, best_estimator_ (fitted to all rows), best_score_, score_error_ (as
    for `HeldOutSearch`), run_budget_, last_budget_, event_, guarantee_.
    Source: Liu and Talwar 2019, arXiv:1811.07971; Papernot and Steinke 2022, arXiv:2110.03620;
    docs/proofs/selection.md; docs/proofs/sparse.md, section 6 (folds).

    >>> import unacorda
    >>> from unacorda.inference import RidgeRegression
    >>> drawn = np.random.default_rng(1)
    >>> X = drawn.normal(size=(20000, 3))
    >>> y = X @ [1.0, -2.0, 0.0] + drawn.normal(size=20000)
    >>> ridge = RidgeRegression(
    ...     budget=unacorda.RenyiDP(8, 2), target_bounds=(-20, 20), feature_bounds=(-3, 3)
    ... )
    >>> search = CrossValidatedSearch(
    ...     ridge, {"penalty": [0.01, 100.0]}, error_bound=5.0, bits=unacorda.SeededBits(1)
    ... ).fit(X, y)
    >>> search.best_params_, round(search.best_score_, 1)
    ({'penalty': 0.01}, -0.8)
    """

    def __init__(
        self,
        estimator: Any,
        grid: Mapping[str, Any],
        *,
        folds: int = 2,
        share: float = 0.5,
        tries: float | None = None,
        shape: float = 1.0,
        error_bound: float | None = None,
        bits: RandomBits | None = None,
    ) -> None:
        self.estimator = estimator
        self.grid = grid
        self.folds = folds
        self.share = share
        self.tries = tries
        self.shape = shape
        self.error_bound = error_bound
        self.bits = bits

    def fit(self, X: ArrayLike, y: ArrayLike) -> CrossValidatedSearch:
        """Search with X, n x p, and y of n targets or labels; spends the whole budget once."""
        asked, shares = budgets_of(self.estimator)
        grid = candidates_of(self.estimator, self.grid)
        tries = 4.0 * len(grid) if self.tries is None else self.tries
        share = _share(self.share)
        x, target, bound = rows_of(self, X, y)
        folds = _folds(self.folds, rows=len(x))
        runs = runs_within(asked * (1 - share), shape=self.shape, tries=tries)
        part, last = runs.each * Fraction(1, folds), gdp_budget(asked * share)
        candidates, finals = (
            [Candidate.of(self, values, shares=shares, budget=budget) for values in grid]
            for budget in (part, last)
        )
        for candidate, final in zip(candidates, finals, strict=True):
            rehearse(candidate.estimator, rows=len(x) - len(x) // folds - 1, features=x.shape[1])
            rehearse(final.estimator, rows=len(x), features=x.shape[1])

        source = source_of(self.bits)
        # Said before anything is asked: a search that fails has spent it all the same.
        single = events.Gaussian(noise_multiplier=root_down(1 / last.mu_squared))
        self.event_ = events.compose([runs.event, single])
        self.guarantee_, self.run_budget_, self.last_budget_ = asked, runs.each, last
        trial = _Trial(
            candidates=candidates,
            rows=(x, target),
            folds=_dealt(len(x), folds, bits=source),
            error_bound=bound,
            budget=part,
        )
        found = BestOf(event=runs.event).release(trial.run, bits=source)
        if found is None or found[0] is None:
            raise FitFailed
        (best, noise), score = found[0], float(found[1])
        fitted = _quietly_fitted(finals[best], (x, target))
        if fitted is None:
            raise FitFailed
        self.best_params_, self.estimator_ = finals[best].parameters, fitted
        self.best_score_, self.score_error_ = score_of(score, noise, error_bound=bound)
        return self

    @property
    def best_estimator_(self) -> Any:
        """The estimator with the best parameters, fitted to all rows."""
        return self.estimator_


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class _Trial:
    """One run: a candidate at random, its fits, the noisy mean of what all rows say of them."""

    candidates: list[Candidate]
    rows: Rows
    folds: list[NDArray[np.int64]]
    error_bound: float | None
    budget: GDP

    def run(self, *, bits: RandomBits) -> tuple[tuple[int, float] | None, float]:
        """Which candidate, the noise of its score, and the score; -inf where a fit fails."""
        place = bits.below(len(self.candidates))
        x, target = self.rows
        merits = np.zeros(len(x))
        try:
            for inside in self.folds:
                outside = np.delete(np.arange(len(x)), inside)
                _, merits[inside] = self.candidates[place].judged(
                    (x[outside], target[outside]),
                    (x[inside], target[inside]),
                    error_bound=self.error_bound,
                )
        except Exception:  # noqa: BLE001  # whatever it is, it may hang on the rows
            return None, -math.inf
        score, noise = mean_merit(merits, budget=self.budget, bits=bits)
        return (place, noise), score


def _quietly_fitted(candidate: Candidate, rows: Rows) -> Any:
    """The fit, or None where it fails, whose cause may hang on the rows."""
    try:
        return candidate.fitted(rows)
    except Exception:  # noqa: BLE001
        return None


def _dealt(rows: int, folds: int, *, bits: RandomBits) -> list[NDArray[np.int64]]:
    """Positions of rows in folds whose sizes differ by one at most, drawn blindly."""
    shuffled = np.random.default_rng(bits.below(1 << 64)).permutation(rows)
    return [np.sort(part) for part in np.array_split(shuffled, folds)]


def _folds(folds: int, *, rows: int) -> int:
    number = checks.positive_integer(folds=folds)
    if not 2 <= number <= _MOST_FOLDS:
        raise InvalidParameter("folds", folds, expected=f"a whole number from 2 to {_MOST_FOLDS}")
    if rows < 2 * number:
        raise InvalidParameter(
            "X", (rows,), expected=f"two rows a fold or more: n_samples={rows} for {number} folds"
        )
    return number


def _share(share: float) -> Fraction:
    exact = checks.exact("share", share)
    if not 0 < exact < 1:
        raise InvalidParameter("share", share, expected="strictly between 0 and 1")
    return exact
