r"""Poisson regression by noisy Newton steps, its counts clipped at a public bound."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from unacorda.bits import RandomBits
from unacorda.errors import MissingBound
from unacorda.inference.contract import RegressorMixin
from unacorda.inference.inputs import predicted
from unacorda.inference.losses import Poisson
from unacorda.inference.records import Floats, public_size
from unacorda.inference.regression.classes import fit_rare, mean_target
from unacorda.inference.regression.estimator import Regression
from unacorda.inference.regression.rows import Rows
from unacorda.privacy.guarantees import Guarantee

__all__ = ["PoissonRegression"]


class PoissonRegression(RegressorMixin, Regression):  # type: ignore[misc]
    r"""Poisson regression with valid intervals, private under replacement of one row.

    The logarithm of the mean is linear in the features. Errors are those of the sandwich, so that
    the variance of counts need not be their mean.

    Parameters
    ----------
    budget : any guarantee that normal noise keeps; each fit spends it whole.
    feature_bounds : public (lower, upper), each one number or one a feature, where most values lie;
        nothing is clipped at them. Left out, ranges are found for a twentieth of the budget.
    largest : public; counts and fitted means above it count as if they were it, and counts below 0
        as 0. As long as few counts are above it, it biases nothing; a loose one costs little.
    bits : leave it out; SeededBits makes a fit reproducible, and not private.

    Attributes
    ----------
    coef_, intercept_, dispersion_ : the fit; the dispersion is about the variance over the mean.
    sampling_error_, privacy_error_, covariance_ : errors of the intercept, then the coefficients.
    cannot_, diagnostics_, event_, guarantee_ : as of `LogisticRegression`.

    Rows with a number that is not finite have weight 0.

    Source: McCullagh and Nelder 1989, chapter 6; docs/proofs/regression.md.

    >>> import unacorda
    >>> drawn = np.random.default_rng(1)
    >>> X = drawn.normal(size=(10_000, 2))
    >>> y = drawn.poisson(np.exp(0.5 + X @ [0.3, -0.2]))
    >>> model = PoissonRegression(
    ...     budget=unacorda.GDP(1), feature_bounds=(-3, 3), largest=15, bits=unacorda.SeededBits(1)
    ... ).fit(X, y)
    >>> bool(abs(model.coef_ - [0.3, -0.2]).max() < 0.1)
    True
    """

    def __init__(
        self,
        *,
        budget: Guarantee,
        feature_bounds: tuple[ArrayLike, ArrayLike] | None = None,
        largest: float | None = None,
        bits: RandomBits | None = None,
    ) -> None:
        self.budget = budget
        self.feature_bounds = feature_bounds
        self.largest = largest
        self.bits = bits

    def _check(self) -> None:
        if self.largest is None:
            raise MissingBound(
                "largest", expected="a public bound of the counts, known without looking at them"
            )
        public_size(largest=self.largest)

    def _run(self, rows: Rows, asked: Guarantee) -> None:
        assert self.largest is not None
        loss = Poisson(float(self.largest))
        mean, noise = mean_target(rows, most=loss.most)
        mean = min(max(mean, 2 * noise, loss.most / 1e4), loss.most)
        # Of rare events each has a score of about 1, and few may stand behind a feature.
        uncut = 1 + math.sqrt(mean) if mean < 1 else 0.0
        found = fit_rare(
            rows,
            loss,
            prediction=math.log(mean),
            curvature=mean,
            loose=True,
            cut=uncut,
            heavy=mean >= 1,
        )
        parameters = self._tell(rows, found, asked=asked)
        self.intercept_, self.coef_ = float(parameters[0]), parameters[1:]
        self.dispersion_ = self.diagnostics_["dispersion"]

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn asks of an estimator's abilities: targets that are not negative."""
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        tags.regressor_tags.poor_score = True
        return tags

    def predict(self, X: ArrayLike) -> Floats:
        """The fitted mean of each row."""
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(predicted(self, X)))
