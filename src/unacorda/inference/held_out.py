r"""The choice of a hyper-parameter: the best of a random number of private fits, on held-out rows.

Rows that fit and rows that judge are different people, so that one run costs what its fit costs,
and its score nothing beside. Cross-validation would charge everybody for all folds but one.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike, NDArray

from unacorda.bits import RandomBits, source_of
from unacorda.errors import FitFailed
from unacorda.inference.records import Floats
from unacorda.inference.searches import (
    Candidate,
    budgets_of,
    candidates_of,
    mean_merit,
    rows_of,
    score_of,
)
from unacorda.inference.tries import runs_within
from unacorda.inference.wrappers import Wrapper, parts_of, rehearse, size_of
from unacorda.mechanisms.retry.best import BestOf
from unacorda.privacy.guarantees import GDP

__all__ = ["HeldOutSearch"]


class HeldOutSearch(Wrapper):
    r"""A regression or classifier with the parameters that do best on held-out rows, privately.

    estimator: an unfitted estimator of `unacorda.inference`, or a pipeline of them; its budget, or
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
        asked, shares = budgets_of(self.estimator)
        grid = candidates_of(self.estimator, self.grid)
        tries = 4.0 * len(grid) if self.tries is None else self.tries
        x, target, bound = rows_of(self, X, y)
        judges = size_of("held_out", self.held_out, rows=len(x))
        runs = runs_within(asked, shape=self.shape, tries=tries)
        candidates = [
            Candidate.of(self, parameters, shares=shares, budget=runs.each) for parameters in grid
        ]
        for candidate in candidates:
            rehearse(candidate.estimator, rows=len(x) - judges, features=x.shape[1])

        source = source_of(self.bits)
        # Said before anything is asked: a search that fails has spent it all the same.
        self.event_, self.guarantee_, self.run_budget_ = runs.event, asked, runs.each
        judging, fitting = parts_of(len(x), judges, bits=source)
        trial = _Trial(
            candidates=candidates,
            rows=(x[fitting], target[fitting]),
            judges=(x[judging], target[judging]),
            error_bound=bound,
            budget=runs.each,
        )
        found = BestOf(event=runs.event).release(trial.run, bits=source)
        if found is None or found[0] is None:
            raise FitFailed
        best, score = found[0], float(found[1])
        self.best_params_, self.estimator_ = best.parameters, best.estimator
        self.best_score_, self.score_error_ = score_of(score, best.noise, error_bound=bound)
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

    candidates: list[Candidate]
    rows: tuple[Floats, NDArray[Any]]
    judges: tuple[Floats, NDArray[Any]]
    error_bound: float | None
    budget: GDP

    def run(self, *, bits: RandomBits) -> tuple[_Outcome | None, float]:
        """The pair that `BestOf` asks for; what fails has no outcome and the worst score."""
        candidate = self.candidates[bits.below(len(self.candidates))]
        try:
            fitted, merits = candidate.judged(self.rows, self.judges, error_bound=self.error_bound)
        except Exception:  # noqa: BLE001  # whatever it is, it may hang on the rows
            return None, -math.inf
        score, noise = mean_merit(merits, budget=self.budget, bits=bits)
        return _Outcome(parameters=candidate.parameters, estimator=fitted, noise=noise), score
