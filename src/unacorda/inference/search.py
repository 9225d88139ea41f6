r"""Choice of hyperparameters: the best of a random number of private fits, by noisy scores.

A run draws a candidate, fits it with a smaller budget, and scores it on held-out rows. Each row
gives a number from 0 to 1, so a replaced row changes the sum by at most 1. If fit and score use
different people, a run costs as much as its fit, and the score costs nothing more. In
cross-validation each person judges once and is in all other fits of a run, so a run costs as many
equal shares as there are folds (docs/proofs/sparse.md, section 6).
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import checks
from unacorda.accounting.calibration import calibrate
from unacorda.accounting.selection import stop_of
from unacorda.bits import RandomBits, source_of
from unacorda.errors import FitFailed, InvalidParameter
from unacorda.inference.contract import (
    Splitter,
    Wrapper,
    count_fit,
    note_reading,
    rehearse,
    size_of,
    stand_in,
)
from unacorda.inference.diagnostics.scoring import (
    Scoring,
    ScoringChoice,
    noisy_score,
)
from unacorda.inference.records import gdp_budget
from unacorda.inference.validation import (
    GridRows,
    candidate_of,
    combinations,
    fitted_to,
    judged_rows,
    quietly_fitted,
    shared_budget,
)
from unacorda.mechanisms.retry.best import BestOf
from unacorda.privacy import events
from unacorda.privacy.guarantees import GDP, ApproxDP, Guarantee, RenyiDP
from unacorda.privacy.neighbors import ReplaceOne
from unacorda.privacy.rounding import root_down

_MOST_FOLDS: Final = 20
_TOLERANCE: Final = 1e-3

Splits: TypeAlias = list[tuple[NDArray[np.int64], NDArray[np.int64]]]
"""Positions of the rows of each fit, and of those that judge it."""


class PrivateSearch(Wrapper):
    """A search for hyperparameters; subclasses choose the judging rows and the last fit."""

    grid: Mapping[str, Any]
    tries: float | None
    shape: float
    fresh: float | None = None
    scoring: ScoringChoice
    error_bound: float | None
    bits: RandomBits | None

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Searches and keeps the best fit; spends the whole budget once.

        Parameters
        ----------
        X
            Features, shape (n, p).
        y
            Targets or labels, shape (n,).
        """
        asked, shares = shared_budget(self.estimator)
        grid = combinations(self.estimator, self.grid)
        tries = 4.0 * len(grid) if self.tries is None else self.tries
        last_share = self._last_share()
        x, target, scoring = judged_rows(self, X, y)
        splitter = self._splitter(len(x))
        runs = runs_within(asked * (1 - last_share), shape=self.shape, tries=tries)
        part = runs.each * Fraction(1, len(splitter.judges))
        last = gdp_budget(asked * last_share) if last_share else None
        candidates, finals = (
            [
                candidate_of(self.estimator, one, shares=shares, budget=budget, bits=self.bits)
                for one in grid
                if budget is not None
            ]
            for budget in (part, last)
        )
        label = stand_in(self.estimator, y)
        for place, candidate in enumerate(candidates):
            rehearse(candidate, rows=splitter.fewest, features=x.shape[1], label=label)
            if finals:
                rehearse(finals[place], rows=len(x), features=x.shape[1], label=label)

        source = source_of(self.bits)
        count_fit(self, asked)
        # Set before anything is asked: a search that fails has spent it all the same.
        self.event_: events.Event = runs.event
        self.guarantee_, self.run_budget_ = asked, runs.each
        if last is not None:
            single = events.Gaussian(noise_multiplier=root_down(1 / last.mu_squared))
            self.event_, self.last_budget_ = events.compose([runs.event, single]), last
        splits = splitter.splits(bits=source)
        splits, fresh = self._fresh_judges(splits, bits=source)
        trial = _Trial(
            candidates=candidates,
            rows=(x, target),
            splits=splits,
            scoring=scoring,
            budget=part,
        )
        found = BestOf(event=runs.event).release(trial.run, bits=source)
        if found is None or found[0] is None:
            raise FitFailed
        (best, noise, fitted), score = found[0], float(found[1])
        if finals:
            fitted = quietly_fitted(finals[best], (x, target))
            if fitted is None:
                raise FitFailed
        note_reading(fitted, X, y)
        self.best_params_, self.estimator_ = grid[best], fitted
        self.best_score_, self.score_error_ = score, noise
        if fresh is not None:
            kept = scoring.quietly(fitted, x[fresh], target[fresh])
            self.fresh_score_, self.fresh_error_ = noisy_score(
                scoring, kept, budget=runs.each, bits=source
            )
        return self

    @property
    def best_estimator_(self) -> Any:
        """The fitted estimator with the best parameters."""
        return self.estimator_

    @abstractmethod
    def _splitter(self, rows: int) -> Splitter:
        """The split of rows between fits and judges."""

    def _fresh_judges(
        self, splits: Splits, *, bits: RandomBits
    ) -> tuple[Splits, NDArray[np.int64] | None]:
        """The splits of the runs, and the rows that judge the best fit alone, once."""
        if self.fresh is None:
            return splits, None
        ((fitting, judging),) = splits
        judges = size_of("fresh", self.fresh, rows=len(judging))
        ((rest, fresh),) = Splitter(rows=len(judging), judges=(judges,)).splits(bits=bits)
        return [(fitting, judging[rest])], judging[fresh]

    def _last_share(self) -> Fraction:
        """The share of the budget for a last fit to all rows; 0 keeps the fit of the best run."""
        return Fraction(0)


@dataclass(eq=False, repr=False)
class HeldOutSearch(PrivateSearch):
    r"""Searches privately for the best hyperparameters on held-out rows.

    A run draws a candidate, fits it to the other rows and scores it on the held-out ones, both with
    noise. The best of K runs is kept with its fit. K is random and never shown, so many runs cost
    little more than one: under ApproxDP(1, 1e-6) and a mean of 20 runs, each may spend 0.6 of the
    mu of a single fit. Intervals of best_estimator_ ignore the selection. The duration of a fit
    depends on K, and no guarantee covers it: do not publish it. Pipeline steps without a budget
    must not learn from the data, must treat each row separately, and must not fail for any row's
    values. Every candidate is first fitted to zeros, so that one that can never be fitted raises an
    error before data are read. A fit that fails on the rows has the worst score; if the best score
    is that one, FitFailed is raised.

    Source: Liu and Talwar 2019, arXiv:1811.07971; Papernot and Steinke 2022, arXiv:2110.03620;
    docs/proofs/selection.md; docs/proofs/sparse.md, section 3 (two parts).

    Parameters
    ----------
    estimator
        An unfitted regression or classifier of `unacorda.inference`, or a pipeline of them. Its
        budget, or the sum over its steps, is that of the whole search: ApproxDP with a delta, or
        RenyiDP.
    grid
        A list of values for each parameter that is tried, by name as in `set_params`; every
        combination is a candidate.
    tries
        The mean of K, 1 or more, by default four times the number of candidates. A candidate may be
        drawn several times, or never.
    shape
        The shape of the distribution of K, a truncated negative binomial: 1 is geometric, 0
        logarithmic.
    held_out
        The share of rows, drawn blindly, that judges.
    fresh
        The share of these that judges only the best fit, once, so that its score is unbiased. These
        people are in no run. Their score has the budget of a run, so `event_` covers them.
    scoring
        For classifiers "accuracy" (the default), "auc", "log_loss" or "brier"; for regressions
        "absolute_error" (the default) or "r2", which needs the estimator's `target_bounds`; or a
        loss of predictions and targets, one number per row. Losses count with a minus.
    error_bound
        A public bound to which absolute errors, residuals or losses are clipped; by default 5 for
        log losses.
    bits
        Omit it for secure noise; `SeededBits` makes a fit reproducible, and not private.

    Attributes
    ----------
    best_params_, best_estimator_
        Fitted to the rows that were not held out.
    best_score_, score_error_
        The noisy score: accuracy, minus the mean absolute error, or that of `scoring`; and the
        standard deviation of its noise. The best of several noisy scores is a little too good.
    fresh_score_, fresh_error_
        The score of the best fit by the `fresh` rows, if any.
    run_budget_, event_, guarantee_
        The budget of one run, the privacy event, and the guarantee.

    Examples
    --------
    >>> import numpy as np
    >>> import unacorda
    >>> from unacorda.inference import RidgeRegression
    >>> drawn = np.random.default_rng(1)
    >>> X = drawn.normal(size=(20000, 3))
    >>> y = X @ [1.0, -2.0, 0.0] + drawn.normal(size=20000)
    >>> ridge = RidgeRegression(
    ...     budget=unacorda.RenyiDP(8, 2), target_bounds=(-20, 20), feature_bounds=(-3, 3)
    ... )
    >>> search = HeldOutSearch(
    ...     ridge, {"penalty": [0.01, 100.0]}, error_bound=5.0, bits=unacorda.SeededBits(1)
    ... ).fit(X, y)
    >>> search.best_params_, round(search.best_score_, 1)
    ({'penalty': 0.01}, -0.8)
    """

    estimator: Any
    grid: Mapping[str, Any]
    _: KW_ONLY
    tries: float | None = None
    shape: float = 1.0
    held_out: float = 0.2
    fresh: float | None = None
    scoring: ScoringChoice = None
    error_bound: float | None = None
    bits: RandomBits | None = None

    def _splitter(self, rows: int) -> Splitter:
        judges = size_of("held_out", self.held_out, rows=rows)
        if self.fresh is not None:
            size_of("fresh", self.fresh, rows=judges)
        return Splitter(rows=rows, judges=(judges,))


@dataclass(eq=False, repr=False)
class CrossValidatedSearch(PrivateSearch):
    r"""Searches privately for the best hyperparameters in cross-validation.

    A run draws a candidate. For each fold it is fitted to the rows outside and judged by those
    inside. Each fit, and the score, has the root of 1 / folds of the mu of a run: two folds have
    the least noise. The parameters of the best of K runs are fitted to all rows, and this last fit
    pays nothing for the number of runs. But the compared fits have more noise than the last one, so
    the chosen penalty may be too large. `HeldOutSearch` compares the fits that it keeps.
    docs/model-choice.md compares both.

    Source: Liu and Talwar 2019, arXiv:1811.07971; Papernot and Steinke 2022, arXiv:2110.03620;
    docs/proofs/selection.md; docs/proofs/sparse.md, section 6 (folds).

    Parameters
    ----------
    estimator, grid, tries, shape, scoring, error_bound, bits
        As for `HeldOutSearch`; the budget of the estimator is that of the whole search.
    folds
        The number of random parts of the rows, 2 or more.
    share
        The share of the budget for the last fit, to all rows; the rest is for the selection.

    Attributes
    ----------
    best_params_, best_estimator_
        Fitted to all rows.
    best_score_, score_error_
        As for `HeldOutSearch`.
    run_budget_, last_budget_, event_, guarantee_
        Budgets of one run and of the last fit, the privacy event, and the guarantee.

    Examples
    --------
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

    estimator: Any
    grid: Mapping[str, Any]
    _: KW_ONLY
    folds: int = 2
    share: float = 0.5
    tries: float | None = None
    shape: float = 1.0
    scoring: ScoringChoice = None
    error_bound: float | None = None
    bits: RandomBits | None = None

    def _last_share(self) -> Fraction:
        exact = checks.exact("share", self.share)
        checks.demand(0 < exact < 1, "share", self.share, expected="strictly between 0 and 1")
        return exact

    def _splitter(self, rows: int) -> Splitter:
        number = checks.positive_integer(folds=self.folds)
        if not 2 <= number <= _MOST_FOLDS:
            expected = f"a whole number from 2 to {_MOST_FOLDS}"
            raise InvalidParameter("folds", self.folds, expected=expected)
        if rows < 2 * number:
            expected = f"two rows a fold or more: n_samples={rows} for {number} folds"
            raise InvalidParameter("X", (rows,), expected=expected)
        return Splitter(
            rows=rows, judges=tuple(rows // number + (k < rows % number) for k in range(number))
        )


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class _Trial:
    """One run: a candidate at random, its fits, the noisy score by the judging rows."""

    candidates: list[Any]
    rows: GridRows
    splits: Splits
    scoring: Scoring
    budget: GDP

    def run(self, *, bits: RandomBits) -> tuple[tuple[int, float, Any] | None, float]:
        """A candidate's place, the noise of its score, its last fit; and the score, or -inf."""
        place = bits.below(len(self.candidates))
        x, target = self.rows
        kept = []
        try:
            for fitting, judging in self.splits:
                fitted = fitted_to(self.candidates[place], (x[fitting], target[fitting]))
                kept.append(self.scoring.of_rows(fitted, x[judging], target[judging]))
        except Exception:  # noqa: BLE001  # whatever it is, it may depend on the rows
            return None, -math.inf
        score, noise = noisy_score(
            self.scoring, np.concatenate(kept), budget=self.budget, bits=bits
        )
        return (place, noise, fitted), score


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBudget:
    """The budget of one run, and the event of the best of them."""

    each: GDP
    event: events.NegativeBinomialTries


@lru_cache(maxsize=64)
def runs_within(budget: Guarantee, *, shape: float, tries: float) -> RunBudget:
    """Runs of the truncated negative binomial law, whose best keeps the budget.

    shape: eta, above -1; tries: the mean number of runs, 1 or more. Raises InvalidParameter for GDP
    and zCDP, as no theorem prices the best of such runs in them, and for pure budgets. Bound
    upper: the event is priced under the replacement of one row, within the budget. Source
    Papernot and Steinke 2022, arXiv:2110.03620, Theorem 2; docs/proofs/selection.md.

    >>> runs = runs_within(RenyiDP(8, 2), shape=1.0, tries=20.0)
    >>> round(runs.each.mu, 2), runs.event.stop
    (0.27, 0.05)
    """
    if not isinstance(budget, RenyiDP) and not (isinstance(budget, ApproxDP) and budget.delta):
        raise InvalidParameter(
            "budget",
            budget,
            expected="ApproxDP with a delta or RenyiDP, such as ApproxDP(1, 1e-6): the best of a "
            "random number of runs with normal noise has no price in another kind",
        )
    stop = stop_of(shape=shape, tries=tries)

    def best(noise: float) -> events.NegativeBinomialTries:
        run = events.Gaussian(noise_multiplier=noise)
        return events.NegativeBinomialTries(event=run, shape=shape, stop=stop)

    try:
        noise = calibrate(best, target=budget, neighbors=ReplaceOne, tolerance=_TOLERANCE)
    except InvalidParameter:
        raise InvalidParameter(
            "budget",
            budget,
            expected=f"more epsilon, a larger alpha, or fewer tries than {tries:g}: the choice "
            "among runs costs more than this whatever the noise of a run is",
        ) from None
    return RunBudget(
        each=GDP.from_squared(1 / checks.exact("noise", noise) ** 2), event=best(noise)
    )
