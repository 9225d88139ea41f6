r"""The choice of a hyper-parameter: the best of a random number of private fits, on held-out rows.

Rows that fit and rows that judge are different people, so that one run costs what its fit costs,
and its score nothing beside. Cross-validation would charge everybody for all folds but one.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import itertools
import math
import operator
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacet import checks
from tacet.bits import RandomBits, SecureBits
from tacet.errors import FitFailed, InvalidParameter, MissingBound
from tacet.inference.budgets import check_budget
from tacet.inference.contract import Pipeline, clone, get_tags
from tacet.inference.inputs import features, one_column, paired
from tacet.inference.noisy_sums import NoisySums
from tacet.inference.records import Floats
from tacet.inference.sparse import SparseRegression
from tacet.inference.tries import runs_within
from tacet.inference.wrappers import Wrapper, parts_of, rehearse, size_of
from tacet.mechanisms.retry.best import BestOf
from tacet.privacy.guarantees import GDP, Guarantee

__all__ = ["HeldOutSearch"]


class HeldOutSearch(Wrapper):
    r"""A regression or classifier with the parameters that do best on held-out rows, privately.

    estimator: an unfitted estimator of `tacet.inference`, or a pipeline of them; its budget, or
    the sum of those of its steps, is that of the whole search: ApproxDP with a delta, or RenyiDP.
    grid: a list of values for each parameter that is tried, by name as in `set_params`; every
    combination is a candidate. A run draws a candidate, fits it to the rows that are not held out
    and scores it on those that are, both with noise; the best of K runs is kept, with its fit. K is
    random and never shown, which is what makes many runs cost little more than one: under
    ApproxDP(1, 1e-6) and 20 runs in the mean each may spend 0.6 of the mu that a single fit could.
    tries: the mean of K, 1 or more, by default four times the number of candidates; a candidate
    may be drawn often, or never. shape: of the law of K, a truncated negative binomial one: 1 is
    geometric, 0 logarithmic. held_out: the share of rows, drawn blindly, that judges. error_bound:
    public, for regressions; an error of this size or more counts as one of this size. bits: leave
    it out; SeededBits makes a fit reproducible, and not private.

    After fit: best_params_, best_estimator_ (fitted to the rows that were not held out),
    best_score_ (the accuracy, or minus the mean absolute error, both noisy; the best of several is
    a little too good), score_error_ (the deviation of its noise), run_budget_, event_, guarantee_.
    Intervals of best_estimator_ do not count that it was chosen. How long a fit takes tells of K,
    which no guarantee covers: do not publish it. Steps of a pipeline without a budget may learn
    nothing, must treat each row by itself, and must not fail for what stands in one.
    Every candidate is first fitted to zeros, so that what cannot be fitted at all is an error
    before anything is read. What fails on the rows has the worst score; FitFailed where the best
    has it.
    Source: Liu and Talwar 2019, arXiv:1811.07971; Papernot and Steinke 2022, arXiv:2110.03620;
    docs/proofs/selection.md; docs/proofs/sparse.md, section 3 (two parts).

    >>> import tacet
    >>> from tacet.inference import RidgeRegression
    >>> drawn = np.random.default_rng(1)
    >>> X = drawn.normal(size=(20000, 3))
    >>> y = X @ [1.0, -2.0, 0.0] + drawn.normal(size=20000)
    >>> ridge = RidgeRegression(
    ...     budget=tacet.RenyiDP(8, 2), residual_bound=3.0, feature_bounds=(-3, 3)
    ... )
    >>> search = HeldOutSearch(
    ...     ridge, {"penalty": [0.01, 100.0]}, error_bound=5.0, bits=tacet.SeededBits(1)
    ... ).fit(X, y)
    >>> search.best_params_, round(search.best_score_, 1)
    ({'penalty': 0.01}, -0.8)
    """

    def __init__(
        self,
        estimator: Any,
        grid: Mapping[str, Any],
        *,
        tries: float | None = None,
        shape: float = 1.0,
        held_out: float = 0.2,
        error_bound: float | None = None,
        bits: RandomBits | None = None,
    ) -> None:
        self.estimator = estimator
        self.grid = grid
        self.tries = tries
        self.shape = shape
        self.held_out = held_out
        self.error_bound = error_bound
        self.bits = bits

    def fit(self, X: ArrayLike, y: ArrayLike) -> HeldOutSearch:
        """Search with X, n x p, and y of n targets or labels; spends the whole budget once."""
        asked, shares = _budgets(self.estimator)
        candidates = _candidates(self.estimator, self.grid)
        tries = 4.0 * len(candidates) if self.tries is None else self.tries
        target: NDArray[Any]
        if get_tags(self.estimator).estimator_type == "classifier":
            bound = None
            x = features(self, X, reset=True)
            target = one_column(y)
            if target.ndim != 1 or len(target) != len(x):
                raise InvalidParameter(
                    "y", target.shape, expected=f"one dimension, {len(x)} labels"
                )
        else:
            if self.error_bound is None:
                raise MissingBound(
                    "error_bound", expected="a public size of errors; larger ones count as this"
                )
            bound = checks.positive(error_bound=self.error_bound)
            x, target, _ = paired(self, X, y)
        judges = size_of("held_out", self.held_out, rows=len(x))
        runs = runs_within(asked, shape=self.shape, tries=tries)
        base = clone(self.estimator)
        base.set_params(**{name: runs.each * share for name, share in shares.items()})
        base.set_params(**dict.fromkeys(_named(base, "bits"), self.bits))
        settled = [_settled(base, parameters) for parameters in candidates]
        for candidate in settled:
            rehearse(candidate, rows=len(x) - judges, features=x.shape[1])

        source = self.bits or SecureBits()
        # Said before anything is asked: a search that fails has spent it all the same.
        self.event_, self.guarantee_, self.run_budget_ = runs.event, asked, runs.each
        judging, fitting = parts_of(len(x), judges, bits=source)
        trial = _Trial(
            candidates=list(zip(candidates, settled, strict=True)),
            rows=(x[fitting], target[fitting]),
            judges=(x[judging], target[judging]),
            error_bound=bound,
            budget=runs.each,
        )
        found = BestOf(event=runs.event).release(trial.run, bits=source)
        if found is None or found[0] is None:
            raise FitFailed
        best, score = found[0], float(found[1])
        scale = 1.0 if bound is None else bound
        self.best_params_, self.estimator_ = best.parameters, best.estimator
        self.best_score_ = score if bound is None else (score - 1.0) * bound
        self.score_error_ = scale * best.noise
        return self

    @property
    def best_estimator_(self) -> Any:
        """The fitted estimator of the best run."""
        return self.estimator_


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    parameters: dict[str, Any]
    estimator: Any
    noise: float


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class _Trial:
    """One run: a candidate at random, its fit, its noisy score from 0 to 1."""

    candidates: list[tuple[dict[str, Any], Any]]
    rows: tuple[Floats, NDArray[Any]]
    judges: tuple[Floats, NDArray[Any]]
    error_bound: float | None
    budget: GDP

    def run(self, *, bits: RandomBits) -> tuple[_Outcome | None, float]:
        """The pair that `BestOf` asks for; what fails has no outcome and the worst score."""
        parameters, estimator = self.candidates[bits.below(len(self.candidates))]
        x, y = self.judges
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a warning would tell of the data
                fitted = clone(estimator).fit(*self.rows)
                merits = self._merits(np.asarray(fitted.predict(x)), y)
        except Exception:  # noqa: BLE001  # whatever it is, it may hang on the rows
            return None, -math.inf
        sums = NoisySums(rows=len(x), budget=self.budget, bits=bits)
        score, noise = sums.mean(
            lambda rows: merits[rows].sum(keepdims=True),
            size=1,
            row_bound=Fraction(1),
            sensitivity=Fraction(1),
            share=Fraction(1),
        )
        return _Outcome(parameters=parameters, estimator=fitted, noise=noise), float(score[0])

    def _merits(self, predicted: NDArray[Any], target: NDArray[Any]) -> Floats:
        """One number a judging row, from 0, the worst, to 1, whatever was predicted."""
        if predicted.shape != target.shape:
            raise InvalidParameter("estimator", predicted.shape, expected="one prediction a row")
        if self.error_bound is None:
            if "U" in (predicted.dtype.kind, target.dtype.kind):
                predicted, target = predicted.astype(str), target.astype(str)
            return np.asarray(predicted == target, dtype=np.float64)
        with np.errstate(all="ignore"):
            errors = np.abs(predicted - target) / self.error_bound
        merits: Floats = 1.0 - np.clip(np.nan_to_num(errors, nan=1.0), 0.0, 1.0)
        return merits


def _budgets(estimator: Any) -> tuple[Guarantee, dict[str, Fraction]]:
    """The sum of the budgets inside, and the share of each by the name of its parameter."""
    if not hasattr(estimator, "get_params") or isinstance(estimator, type):
        raise InvalidParameter(
            "estimator", estimator, expected="an unfitted estimator of tacet.inference"
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


def _settled(base: Any, parameters: dict[str, Any]) -> Any:
    """The estimator with a candidate's parameters, and the budgets that it had."""
    found = clone(base).set_params(**parameters)
    if _named(found) != _named(base):
        raise InvalidParameter(
            "grid",
            list(parameters),
            expected="values that leave the estimators inside, and so their budgets, as they are",
        )
    return found


def _candidates(estimator: Any, grid: object) -> list[dict[str, Any]]:
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
