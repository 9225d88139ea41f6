r"""Choice of hyperparameters: the best of a random number of private fits, by noisy scores.

A run draws a candidate, fits it under a smaller budget than it was given, and scores it by numbers
from 0 to 1, one a judging row, so that a replaced row moves their sum by 1 at most. Where rows that
fit and rows that judge are different people, a run costs as much as its fit, and its score nothing
more. In cross-validation each person judges once and is in all fits of a run but one, so that a
run costs as many equal shares as there are folds (docs/proofs/sparse.md, section 6).
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
from functools import lru_cache
from typing import Any, Final, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import checks
from unacorda.accounting.calibration.calibrate import calibrate
from unacorda.accounting.selection import log_mean_tries
from unacorda.bits import RandomBits, source_of
from unacorda.errors import FitFailed, InvalidParameter, MissingBound
from unacorda.inference.budgets import check_budget, gdp_budget
from unacorda.inference.contract import (
    Pipeline,
    Splitter,
    Wrapper,
    clone,
    features,
    get_tags,
    label_column,
    paired,
    rehearse,
    size_of,
)
from unacorda.inference.copies import count_fit
from unacorda.inference.records import Floats
from unacorda.inference.regression.sparse import SparseRegression
from unacorda.inference.sums import NoisySums
from unacorda.mechanisms.retry.best import BestOf
from unacorda.privacy import events
from unacorda.privacy.guarantees import GDP, ApproxDP, Guarantee, RenyiDP
from unacorda.privacy.neighbors import ReplaceOne
from unacorda.privacy.rounding import root_down

__all__ = ["CrossValidatedSearch", "HeldOutSearch", "runs_within", "stop_of"]

_MOST_FOLDS: Final = 20
_TOLERANCE: Final = 1e-3
_MOST_TRIES: Final = 1e6

Rows: TypeAlias = tuple[Floats, NDArray[Any]]
"""Features and targets."""


class PrivateSearch(Wrapper):
    """A search for hyperparameters; a subclass chooses the rows that judge and the last fit."""

    grid: Mapping[str, Any]
    tries: float | None
    shape: float
    error_bound: float | None
    bits: RandomBits | None

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Searches, and keeps the best fit; spends the whole budget once.

        Parameters
        ----------
        X
            Features, shape (n, p).
        y
            Targets or labels, shape (n,).
        """
        asked, shares = _shared_budget(self.estimator)
        grid = _combinations(self.estimator, self.grid)
        tries = 4.0 * len(grid) if self.tries is None else self.tries
        last_share = self._last_share()
        x, target, bound = self._rows(X, y)
        splitter = self._splitter(len(x))
        runs = runs_within(asked * (1 - last_share), shape=self.shape, tries=tries)
        part = runs.each * Fraction(1, len(splitter.judges))
        last = gdp_budget(asked * last_share) if last_share else None
        candidates, finals = (
            [] if budget is None else [self._candidate(one, shares, budget) for one in grid]
            for budget in (part, last)
        )
        for place, candidate in enumerate(candidates):
            rehearse(candidate, rows=splitter.fewest, features=x.shape[1])
            if finals:
                rehearse(finals[place], rows=len(x), features=x.shape[1])

        source = source_of(self.bits)
        count_fit(self, asked)
        # Set before anything is asked: a search that fails has spent it all the same.
        self.event_: events.Event = runs.event
        self.guarantee_, self.run_budget_ = asked, runs.each
        if last is not None:
            single = events.Gaussian(noise_multiplier=root_down(1 / last.mu_squared))
            self.event_, self.last_budget_ = events.compose([runs.event, single]), last
        trial = _Trial(
            candidates=candidates,
            rows=(x, target),
            splits=splitter.splits(bits=source),
            error_bound=bound,
            budget=part,
        )
        found = BestOf(event=runs.event).release(trial.run, bits=source)
        if found is None or found[0] is None:
            raise FitFailed
        (best, noise, fitted), score = found[0], float(found[1])
        if finals:
            fitted = _quietly_fitted(finals[best], (x, target))
            if fitted is None:
                raise FitFailed
        self.best_params_, self.estimator_ = grid[best], fitted
        self.best_score_, self.score_error_ = score, noise
        if bound is not None:  # minus the mean absolute error
            self.best_score_, self.score_error_ = (score - 1.0) * bound, noise * bound
        return self

    @property
    def best_estimator_(self) -> Any:
        """The fitted estimator with the best parameters."""
        return self.estimator_

    @abstractmethod
    def _splitter(self, rows: int) -> Splitter:
        """The split of rows between fits and judges."""

    def _last_share(self) -> Fraction:
        """The share of the budget for a last fit to all rows; 0 keeps the fit of the best run."""
        return Fraction(0)

    def _rows(self, X: ArrayLike, y: ArrayLike) -> tuple[Floats, NDArray[Any], float | None]:
        """Features, targets, and the size of errors that counts as the worst; None for labels."""
        if get_tags(self.estimator).estimator_type == "classifier":
            x = features(self, X, reset=True)
            return x, label_column(y, rows=len(x)), None
        if self.error_bound is None:
            raise MissingBound(
                "error_bound", expected="a public size of errors; larger ones count as this"
            )
        bound = checks.positive(error_bound=self.error_bound)
        x, target, _ = paired(self, X, y)
        return x, target, bound

    def _candidate(
        self, parameters: dict[str, Any], shares: dict[str, Fraction], budget: GDP
    ) -> Any:
        """The unfitted estimator with these values, its budgets being shares of this one."""
        base = clone(self.estimator)
        base.set_params(**{name: budget * share for name, share in shares.items()})
        base.set_params(**dict.fromkeys(_named(base, "bits"), self.bits))
        found = clone(base).set_params(**parameters)
        if _named(found) != _named(base):
            raise InvalidParameter(
                "grid",
                list(parameters),
                expected="values that leave the estimators inside, and so their budgets, as they "
                "are",
            )
        return found


@dataclass(eq=False, repr=False)
class HeldOutSearch(PrivateSearch):
    r"""Searches privately for the hyperparameters that do best on held-out rows.

    A run draws a candidate, fits it to the rows that are not held out and scores it on those that
    are, both with noise; the best of K runs is kept, with its fit. K is random and never shown,
    which is why many runs cost little more than one: under ApproxDP(1, 1e-6) and 20 runs in the
    mean each may spend 0.6 of the mu that a single fit could. Intervals of best_estimator_ do not
    count that it was chosen. The duration of a fit depends on K, which no guarantee covers: do not
    publish it. Steps of a pipeline without a budget may learn nothing, must treat each row by
    itself, and must not fail for the values of one. Every candidate is first fitted to zeros, so
    that a candidate that cannot be fitted at all is an error before anything is read. A fit that
    fails on the rows has the worst score; FitFailed where the best has it.

    Parameters
    ----------
    estimator
        An unfitted regression or classifier of `unacorda.inference`, or a pipeline of them; its
        budget, or the sum of those of its steps, is that of the whole search: ApproxDP with a
        delta, or RenyiDP.
    grid
        A list of values for each parameter that is tried, by name as in `set_params`; every
        combination is a candidate.
    tries
        The mean of K, 1 or more, by default four times the number of candidates; a candidate may be
        drawn often, or never.
    shape
        Of the law of K, a truncated negative binomial one: 1 is geometric, 0 logarithmic.
    held_out
        The share of rows, drawn blindly, that judges.
    error_bound
        Public, for regressions, in the unit of the target; an error of this size or more counts as
        one of this size.
    bits
        Left out for secure noise; `SeededBits` makes a fit reproducible, and not private.

    Attributes
    ----------
    best_params_, best_estimator_
        Fitted to the rows that were not held out.
    best_score_, score_error_
        The accuracy, or minus the mean absolute error, both noisy (the best of several is a little
        too good), and the standard deviation of the noise.
    run_budget_, event_, guarantee_
        The budget of one run, the event for the accountant, and the promise.

    Source: Liu and Talwar 2019, arXiv:1811.07971; Papernot and Steinke 2022, arXiv:2110.03620;
    docs/proofs/selection.md; docs/proofs/sparse.md, section 3 (two parts).

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
    error_bound: float | None = None
    bits: RandomBits | None = None

    def _splitter(self, rows: int) -> Splitter:
        return Splitter(rows=rows, judges=(size_of("held_out", self.held_out, rows=rows),))


@dataclass(eq=False, repr=False)
class CrossValidatedSearch(PrivateSearch):
    r"""Searches privately for the hyperparameters that do best in cross-validation.

    A run draws a candidate; for each fold it is fitted to the rows outside and judged by those
    inside. Each fit, and the score, has the root of 1 / folds of the mu of a run: two folds mean
    the least noise. The parameters of the best of K runs are fitted to all rows, and the last fit
    pays nothing for the number of runs; but the fits that are compared have more noise than the
    last one has, so that a penalty may be chosen too large. `HeldOutSearch` compares the fits that
    it keeps. docs/regression.md compares both.

    Parameters
    ----------
    estimator, grid, tries, shape, error_bound, bits
        As for `HeldOutSearch`; the budget of the estimator is that of the whole search.
    folds
        The number of parts that rows are dealt out to, blindly, 2 or more.
    share
        Of the budget, for the last fit, of the best parameters to all rows; the rest is for the
        choice.

    Attributes
    ----------
    best_params_, best_estimator_
        Fitted to all rows.
    best_score_, score_error_
        As for `HeldOutSearch`.
    run_budget_, last_budget_, event_, guarantee_
        Budgets of one run and of the last fit, the event for the accountant, and the promise.

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

    estimator: Any
    grid: Mapping[str, Any]
    _: KW_ONLY
    folds: int = 2
    share: float = 0.5
    tries: float | None = None
    shape: float = 1.0
    error_bound: float | None = None
    bits: RandomBits | None = None

    def _last_share(self) -> Fraction:
        exact = checks.exact("share", self.share)
        if not 0 < exact < 1:
            raise InvalidParameter("share", self.share, expected="strictly between 0 and 1")
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
    """One run: a candidate at random, its fits, the noisy mean of the scores of judging rows."""

    candidates: list[Any]
    rows: Rows
    splits: list[tuple[NDArray[np.int64], NDArray[np.int64]]]
    error_bound: float | None
    budget: GDP

    def run(self, *, bits: RandomBits) -> tuple[tuple[int, float, Any] | None, float]:
        """A candidate's place, the noise of its score, its last fit; and the score, or -inf."""
        place = bits.below(len(self.candidates))
        x, target = self.rows
        merits, judged = np.zeros(len(x)), np.zeros(len(x), dtype=bool)
        try:
            for fitting, judging in self.splits:
                fitted = _fitted(self.candidates[place], (x[fitting], target[fitting]))
                merits[judging] = self._merits(fitted, (x[judging], target[judging]))
                judged[judging] = True
        except Exception:  # noqa: BLE001  # whatever it is, it may depend on the rows
            return None, -math.inf
        merits = merits[judged]
        sums = NoisySums(rows=len(merits), budget=self.budget, bits=bits)
        score, noise = sums.mean(
            lambda rows: merits[rows].sum(keepdims=True),
            size=1,
            row_bound=Fraction(1),
            sensitivity=Fraction(1),
            share=Fraction(1),
        )
        return (place, noise, fitted), float(score[0])

    def _merits(self, fitted: Any, judges: Rows) -> Floats:
        """One number of each judging row from 0, the worst, to 1."""
        x, target = judges
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            predicted = np.asarray(fitted.predict(x))
        if predicted.shape != target.shape:
            raise InvalidParameter("estimator", predicted.shape, expected="one prediction a row")
        if self.error_bound is None:
            return np.asarray(predicted == target, dtype=np.float64)
        with np.errstate(all="ignore"):
            errors = np.abs(predicted - target) / self.error_bound
        return np.asarray(1.0 - np.clip(np.nan_to_num(errors, nan=1.0), 0.0, 1.0))


def _fitted(candidate: Any, rows: Rows) -> Any:
    """A copy, fitted to these rows, without a warning, which would depend on them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return clone(candidate).fit(*rows)


def _quietly_fitted(candidate: Any, rows: Rows) -> Any:
    """The fit, or None where it fails, whose cause may depend on the rows."""
    try:
        return _fitted(candidate, rows)
    except Exception:  # noqa: BLE001
        return None


def _shared_budget(estimator: Any) -> tuple[Guarantee, dict[str, Fraction]]:
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
    """True for a step with a budget, one that fits each part once, or one that fits nothing.

    A step that fits copies of its parts, as bagging does, would spend their budgets several times.
    """
    if isinstance(step, type) or not hasattr(step, "get_params"):
        return False
    if "budget" in step.get_params(deep=False) or isinstance(step, Pipeline | SparseRegression):
        return True
    return not (_named(step) or get_tags(step).requires_fit)


def _combinations(estimator: Any, grid: object) -> list[dict[str, Any]]:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBudget:
    """The budget of one run, and the event of the best of them."""

    each: GDP
    event: events.NegativeBinomialTries


@lru_cache(maxsize=64)
def runs_within(budget: Guarantee, *, shape: float, tries: float) -> RunBudget:
    """Runs of the truncated negative binomial law, whose best keeps the budget.

    shape: eta, above -1; tries: the mean number of runs, 1 or more. InvalidParameter for GDP and
    zCDP, in which no theorem prices the best of such runs, and for pure budgets.
    Bound       upper: the event is priced under the replacement of one row, within the budget.
    Source      Papernot and Steinke 2022, arXiv:2110.03620, Theorem 2; docs/proofs/selection.md.

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


def stop_of(*, shape: float, tries: float) -> float:
    """The gamma with which the truncated negative binomial law has this mean, to six digits.

    Source: Papernot and Steinke 2022, Definition 1.

    >>> stop_of(shape=1.0, tries=20.0), stop_of(shape=0.0, tries=1.0)
    (0.05, 1.0)
    """
    eta = checks.finite(shape=shape)
    if eta <= -1:
        raise InvalidParameter("shape", shape, expected="a number above -1")
    if not 1 <= checks.finite(tries=tries) <= _MOST_TRIES:
        raise InvalidParameter("tries", tries, expected="a number from 1 to a million")
    low, high, wanted = -60.0, 0.0, math.log(tries)  # of log gamma
    for _ in range(60):
        middle = (low + high) / 2
        more = log_mean_tries(shape=eta, stop=math.exp(middle)) > wanted
        low, high = (middle, high) if more else (low, middle)
    stop = float(f"{math.exp(high):.6g}")
    if not 0 < stop <= 1 or log_mean_tries(shape=eta, stop=stop) < wanted + math.log(0.99):
        raise InvalidParameter(
            "tries", tries, expected=f"fewer: a law of shape {shape} has no such mean here"
        )
    return stop
