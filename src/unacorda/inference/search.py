r"""Choice of hyperparameters: a grid of candidates, fitted privately and judged by held-out rows.

Each row gives a number from 0 to 1, so a replaced row changes the sum by at most 1. If fit and
score use different people, both cost as much as one of them.

A validation curve fits every candidate. C fits to the same rows share the budget; the scores are
one release, with sqrt(C) times the sensitivity of one score. The best of them is computed from
released scores and costs nothing.

A search keeps the best of a random number of runs. A run draws a candidate, fits it with a smaller
budget, and scores it. In cross-validation each person judges once and is in all other fits of a
run, so a run costs as many equal shares as there are folds (docs/proofs/sparse.md, section 6).
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import itertools
import math
import operator
import warnings
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from typing import Any, Final, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import checks
from unacorda.accounting.calibration import calibrate
from unacorda.accounting.selection import stop_of
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
from unacorda.inference.diagnostics.cells import critical
from unacorda.inference.diagnostics.scoring import (
    Scoring,
    ScoringChoice,
    noisy_score,
    scoring_of,
)
from unacorda.inference.records import Floats, check_budget, data_frame, gdp_budget
from unacorda.inference.regression.sparse import SparseRegression
from unacorda.inference.sums import NoisySums
from unacorda.mechanisms.parameters import exact_root_down, whole
from unacorda.mechanisms.retry.best import BestOf
from unacorda.privacy import events
from unacorda.privacy.guarantees import GDP, ApproxDP, Guarantee, RenyiDP
from unacorda.privacy.neighbors import ReplaceOne
from unacorda.privacy.rounding import root_up

_MOST_FOLDS: Final = 20
_TOLERANCE: Final = 1e-3

GridRows: TypeAlias = tuple[Floats, NDArray[Any]]
"""Features and targets."""

Splits: TypeAlias = list[tuple[NDArray[np.int64], NDArray[np.int64]]]
"""Positions of the rows of each fit, and of those that judge it."""


class GridWrapper(Wrapper):
    """An estimator that fits the candidates of a grid to some rows and judges them by others."""

    grid: Mapping[str, Any]
    scoring: ScoringChoice
    error_bound: float | None
    bits: RandomBits | None

    @property
    def best_estimator_(self) -> Any:
        """The fitted estimator with the best parameters."""
        return self.estimator_

    def _judged(self, X: ArrayLike, y: ArrayLike) -> tuple[Floats, NDArray[Any], Scoring]:
        """Features, targets, and the scoring."""
        classifier = get_tags(self.estimator).estimator_type == "classifier"
        scoring = scoring_of(
            self.scoring, self.estimator, classifier=classifier, bound=self.error_bound
        )
        if classifier:
            x = features(self, X, reset=True)
            return x, label_column(y, rows=len(x)), scoring
        x, target, _ = paired(self, X, y)
        return x, target, scoring

    def _candidates(
        self, grid: list[dict[str, Any]], shares: dict[str, Fraction], budget: GDP
    ) -> list[Any]:
        """Unfitted candidates, whose budgets are shares of this one."""
        base = clone(self.estimator)
        base.set_params(**{name: budget * share for name, share in shares.items()})
        base.set_params(**dict.fromkeys(parameters_named(base, "bits"), self.bits))
        inside = parameters_named(base)
        found = [clone(base).set_params(**parameters) for parameters in grid]
        for parameters, candidate in zip(grid, found, strict=True):
            if parameters_named(candidate) != inside:
                raise InvalidParameter(
                    "grid",
                    list(parameters),
                    expected="values that leave the estimators inside, and so their budgets, as "
                    "they are",
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
class ValidationCurve(GridWrapper):
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
        x, target, scoring = self._judged(X, y)
        splitter = Splitter(rows=len(x), judges=(size_of("held_out", self.held_out, rows=len(x)),))
        whole_budget = gdp_budget(asked)
        each: GDP = whole_budget * Fraction(1, len(grid))
        candidates = self._candidates(grid, shares, each)
        label = stand_in(self.estimator, y)
        for candidate in candidates:
            rehearse(candidate, rows=splitter.fewest, features=x.shape[1], label=label)
        source = source_of(self.bits)
        count_fit(self, asked)
        self.event_ = events.Gaussian(noise_multiplier=exact_root_down(1 / whole_budget.mu_squared))
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
        columns |= {"score": self.scores_, "noise_error": self.score_errors_}
        return data_frame(**columns | {"lower": self.scores_ - half, "upper": self.scores_ + half})


class PrivateSearch(GridWrapper):
    """A search for hyperparameters; subclasses choose the judging rows and the last fit."""

    tries: float | None
    shape: float
    fresh: float | None = None

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
        x, target, scoring = self._judged(X, y)
        splitter = self._splitter(len(x))
        runs = runs_within(asked * (1 - last_share), shape=self.shape, tries=tries)
        part = runs.each * Fraction(1, len(splitter.judges))
        last = gdp_budget(asked * last_share) if last_share else None
        candidates = self._candidates(grid, shares, part)
        finals = [] if last is None else self._candidates(grid, shares, last)
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
            single = events.Gaussian(noise_multiplier=exact_root_down(1 / last.mu_squared))
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


@functools.lru_cache(maxsize=64)
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
