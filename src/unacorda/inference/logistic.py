r"""Logistic regression by noisy Newton steps."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from unacorda.bits import RandomBits
from unacorda.inference.inputs import features, labels, weighed
from unacorda.inference.losses import Logistic
from unacorda.inference.predictors import TwoClasses, second_class, two_classes
from unacorda.inference.records import Floats
from unacorda.inference.regression.classes import fit_rare, log_odds, mean_target
from unacorda.inference.regression.estimator import Regression
from unacorda.inference.regression.rows import Rows
from unacorda.privacy.guarantees import Guarantee

__all__ = ["LogisticRegression"]


class LogisticRegression(TwoClasses, Regression):
    r"""Logistic regression with valid intervals, private under replacement of one row.

    What is estimated is the maximum likelihood fit; rows whose features lie far out weigh less
    where noise asks for it (`diagnostics_["beyond"]`), which moves no coefficient of a model that
    holds.

    Parameters
    ----------
    budget : any guarantee that normal noise keeps; each fit spends it whole.
    feature_bounds : public (lower, upper), each one number or one a feature, where most values lie;
        nothing is clipped at them. Left out, ranges are found for a twentieth of the budget.
    classes : the two labels, public; the probability is that of the second.
    bits : leave it out; SeededBits makes a fit reproducible, and not private.

    Attributes
    ----------
    classes_, coef_ (1 x p), intercept_ (one number in an array) : the fit.
    sampling_error_, privacy_error_, covariance_ : errors of the intercept, then the coefficients.
    cannot_ : why intervals are infinite, in words: classes that features separate, or events so
        rare that fewer than 40 people stand behind a direction, have no honest interval.
    diagnostics_ : "rows", the share "beyond" the radius, the "noise of curvature" (norm, in units
        of the curvature), the "people" behind the least informed direction, the "last step".
    event_, guarantee_ : what the accountant prices, and what was promised.

    Rows with a feature that is not finite, or with another label, have weight 0.

    Source: Avella-Medina, Bradshaw, Loh 2023, arXiv:2103.11003 (noisy Newton); Kunsch, Stefanski,
    Carroll 1989 (weights by the features alone); docs/proofs/regression.md.

    >>> import unacorda
    >>> drawn = np.random.default_rng(1)
    >>> X = drawn.normal(size=(5000, 2))
    >>> y = drawn.random(5000) < 1 / (1 + np.exp(-X @ [1.0, -1.0]))
    >>> model = LogisticRegression(
    ...     budget=unacorda.GDP(1), feature_bounds=(-3, 3), bits=unacorda.SeededBits(1)
    ... ).fit(X, y)
    >>> model.coef_.shape, bool(abs(model.coef_ - [1, -1]).max() < 0.2)
    ((1, 2), True)
    """

    def __init__(
        self,
        *,
        budget: Guarantee,
        feature_bounds: tuple[ArrayLike, ArrayLike] | None = None,
        classes: tuple[Any, Any] = (0, 1),
        bits: RandomBits | None = None,
    ) -> None:
        self.budget = budget
        self.feature_bounds = feature_bounds
        self.classes = classes
        self.bits = bits

    def _check(self) -> None:
        two_classes(self.classes)

    def _records(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None
    ) -> tuple[Floats, Floats, Floats]:
        x = features(self, X, reset=True)
        target, known = labels(y, two_classes(self.classes), rows=len(x))
        return x, target, weighed(known * np.isfinite(x).all(axis=1), sample_weight)

    def _target_text(self) -> str:
        return second_class(two_classes(self.classes))

    def _run(self, rows: Rows, asked: Guarantee) -> None:
        mean, noise = mean_target(rows, most=1.0)
        least = min(max(0.002, 2 * noise), 0.5)
        share = min(max(mean, least), 1 - least)
        found = fit_rare(
            rows,
            Logistic(),
            prediction=log_odds(share),
            curvature=share * (1 - share),
            stretch=lambda square: _stretch(round(2 * log_odds(share)) / 2, square),
        )
        parameters = self._tell(rows, found, asked=asked)
        self.classes_ = two_classes(self.classes)
        self.intercept_, self.coef_ = parameters[:1], parameters[None, 1:]


def _stretch(intercept: float, square: float) -> float:
    """By what the first step from a constant is multiplied.

    For normal predictors its slopes are E[s'(eta)] / v of the true ones (Brillinger 1983), v the
    variance at the start; nine tenths of that is undone. square: the step's squared length in the
    metric of the start. A function of released numbers.

    >>> _stretch(0.0, 0.0), 1.2 < _stretch(0.0, 0.3) < 1.4
    (1.0, True)
    """
    share = float(expit(intercept))
    size = float(np.sqrt(square / (share * (1 - share))))
    if size < 1e-3:
        return 1.0
    seen, spreads = _shrinkage(intercept)
    return float(max(1.0, 0.9 * np.interp(size, seen, spreads) / size))


@lru_cache(maxsize=64)
def _shrinkage(intercept: float) -> tuple[Floats, Floats]:
    """Deviations of a normal predictor as a first step sees them, and as they are."""
    points, weights = np.polynomial.hermite_e.hermegauss(61)
    weights = weights / weights.sum()
    share = float(expit(intercept))
    spreads, seen = np.concatenate([[1e-6], np.linspace(0.1, 5, 50)]), []
    for spread in spreads:
        low, high = intercept - 30, intercept + 30  # the intercept that keeps the share of ones
        for _ in range(40):
            middle = (low + high) / 2
            if weights @ expit(middle + spread * points) > share:
                high = middle
            else:
                low = middle
        chance = expit(middle + spread * points)
        seen.append(spread * float(weights @ (chance * (1 - chance))) / (share * (1 - share)))
    return np.maximum.accumulate(np.array(seen)), spreads
