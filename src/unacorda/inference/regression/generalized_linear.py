r"""Generalized linear models, logistic and Poisson regression, by noisy Newton steps.

Their curvature vanishes with rare events. The fit starts at the constant prediction of the released
mean, where M is known up to that mean. Gates check the noise of the pooled curvature, and the
number of people behind the least informed direction.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from unacorda.inference.contract import features, labels, predicted, weighed
from unacorda.inference.losses import Logistic, Loss, Poisson
from unacorda.inference.records import Floats, public_size
from unacorda.inference.regression.covariance import (
    LEAST_THRIFT,
    Fitted,
    fixed_radius,
    gram,
    thrift,
    whiten,
)
from unacorda.inference.regression.estimator import Regression
from unacorda.inference.regression.newton import Newton, Shares
from unacorda.inference.regression.results import (
    PublicRegression,
    TwoClasses,
    second_class,
    two_classes,
)
from unacorda.inference.regression.rows import Rows, Total, power, share_of
from unacorda.inference.sums import floored, inverse_root
from unacorda.privacy.guarantees import Guarantee


@dataclass(kw_only=True, eq=False, repr=False)
class LogisticRegression(TwoClasses, Regression):
    r"""Fits a logistic regression, with valid intervals, private under replacement of one row.

    It estimates the maximum likelihood fit. If the noise requires it, rows with extreme features
    have less weight (`diagnostics_["beyond"]`); if the model holds, this changes no coefficient.
    Rows with a feature that is not finite, or with another label, have weight 0.

    Source: Avella-Medina, Bradshaw, Loh 2023, arXiv:2103.11003 (noisy Newton); Kunsch, Stefanski,
    Carroll 1989 (weights by the features alone); docs/proofs/regression.md.

    Parameters
    ----------
    budget
        Any guarantee that normal noise keeps; each fit spends it whole.
    feature_bounds
        Public (lower, upper), each one number or one per feature, where most values lie. Nothing is
        clipped to them. By default they are found privately (`feature_bounds_`).
    bounds_share
        The share of the budget that finds bounds, where some are left out, from 1e-6 to 0.25.
    classes
        The two public labels; probabilities are those of the second.
    bits
        Omit it for secure noise; `SeededBits` makes a fit reproducible, and not private.

    Attributes
    ----------
    classes_, coef_, intercept_
        The fit; coef_ has shape (1, p), intercept_ shape (1,).
    sampling_error_, privacy_error_, covariance_
        Errors of the intercept, then the coefficients.
    cannot_
        The reason for infinite intervals, in words. There is no valid interval if features separate
        the classes, or if events are so rare that fewer than 40 people inform a direction.
    notes_
        As of `LinearRegression`.
    diagnostics_
        "rows"; the share "beyond" the radius; the "noise of curvature" (norm, in units of the
        curvature); the "people" behind the least informed direction, about its number of events,
        with noise; the "pull" of people with far features, above 0 if the model is seen not to
        hold; the "dispersion", 1 if the model holds; the "last step" over the length that its error
        explains.
    event_, guarantee_
        The privacy event, and the guarantee.

    Examples
    --------
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

    classes: tuple[Any, Any] = (0, 1)

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
            far=0.25,
        )
        parameters = self._keep(rows, found, asked=asked)
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


@dataclass(kw_only=True, eq=False, repr=False)
class PoissonRegression(PublicRegression, Regression):
    r"""Fits a Poisson regression, with valid intervals, private under replacement of one row.

    The logarithm of the mean is linear in the features. Errors come from the sandwich estimator, so
    the variance of counts need not equal their mean. Long gradients may point one way, if counts
    vary far more than Poisson counts or if the mean is not the exponential of a line. Then
    gradients are clipped at a larger bound, and intervals are wider by the possible shift from
    clipping; see docs/regression.md. Rows with a number that is not finite have weight 0.

    Source: McCullagh and Nelder 1989, chapter 6; docs/proofs/regression.md.

    Parameters
    ----------
    largest
        A public upper bound of most counts. Counts and fitted means are clipped to 16 times it
        (`largest_`), and counts below 0 become 0, so a loose one costs little. By default it is
        found like other bounds.
    budget, feature_bounds, bounds_share, bits
        As for `LogisticRegression`.

    Attributes
    ----------
    coef_, intercept_, dispersion_, largest_
        The fit; the dispersion is about the variance over the mean; where counts are clipped.
    sampling_error_, privacy_error_, covariance_
        Errors of the intercept, then the coefficients.
    cannot_, diagnostics_, event_, guarantee_
        As of `LogisticRegression`; further diagnostics are the share "cut" of gradients, and the
        "pull" of the longest gradients, as of `LinearRegression`.

    Examples
    --------
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

    largest: float | None = None

    _needs_target_bounds = True

    def _check(self) -> None:
        if self.largest is not None:
            public_size(largest=self.largest)

    def _target_ends(self, given: object) -> tuple[float, float] | None:
        if self.largest is not None:
            return 0.0, float(self.largest)
        ends = super()._target_ends(given)
        return None if ends is None or ends[1] <= 0 else (0.0, ends[1])

    def _run(self, rows: Rows, asked: Guarantee) -> None:
        most = self.target_bounds_[1]
        if "target" in self.found_bounds_:
            most = max(most, 1.0)
        self.largest_ = _LOOSE * most
        mean, noise = mean_target(rows, most=most)
        mean = min(max(mean, 2 * noise, most / 1e4), most)
        # Of rare events each has a score of about 1, and few may stand behind a feature.
        uncut = 1 + math.sqrt(mean) if mean < 1 else 0.0
        found = fit_rare(
            rows,
            Poisson(self.largest_),
            prediction=math.log(mean),
            curvature=mean,
            loose=True,
            cut=uncut,
            skewness=1 / math.sqrt(mean),
            heavy=mean >= 1,
            far=0.1 if mean >= 1 else 0.0,
        )
        self._keep_line(rows, found, asked=asked)
        self.dispersion_ = self.diagnostics_["dispersion"]

    def __sklearn_tags__(self) -> Any:
        """The tags for scikit-learn: targets are not negative."""
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        tags.regressor_tags.poor_score = True
        return tags

    def predict(self, X: ArrayLike) -> Floats:
        """Returns the fitted mean of each row; no release.

        Parameters
        ----------
        X
            Features of any rows, shape (m, p).
        """
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(predicted(self, X)))


_LOOSE: Final = 16.0
"""Counts and means are clipped at this times their bound, as a few may lie far beyond it."""

_MORE_PEOPLE: Final = "fit with more rows, a larger budget or fewer features"
_APART: Final = "merge or leave out categories that are all of one class, or add rows or budget"
_DETERMINED: Final = (
    "merge rare categories, and leave out a feature that is constant or that others determine, "
    "such as one of a full set of dummies; or add rows or budget"
)
"""What helps if a gate closes."""

_MEAN, _GRAM = 0.008, 0.06
_PEOPLE: Final = 40
_FEW: Final = Shares(
    steps=(0.08, 0.12, 0.38, 0.42),
    curvature=0.06,
    radius=0.006,
    cap=0.004,
    last=0.08,
    scores=0.03,
    level=0.01,
)
_MANY: Final = Shares(
    steps=(0.05, 0.04, 0.06, 0.09, 0.36, 0.40),
    curvature=0.03,
    radius=0.006,
    cap=0.004,
    last=0.05,
    scores=0.03,
    level=0.01,
)


def mean_target(rows: Rows, *, most: float) -> tuple[float, float]:
    """The noisy mean of the target, clipped to [0, most], and the deviation of its noise."""
    asked = Total(
        of=lambda row: row.own * np.clip(row.target, 0.0, most),
        bound=most,
        share=share_of(_MEAN),
    )
    (found,) = rows.ask(asked)
    mean, noise = found
    return mean, noise


def fit_rare(
    rows: Rows,
    loss: Loss,
    *,
    prediction: float,
    curvature: float,
    stretch: Callable[[float], float] | None = None,
    loose: bool = False,
    cut: float | None = None,
    skewness: float | None = None,
    heavy: bool = False,
    far: float = 0.0,
) -> Fitted:
    """Fit from a constant prediction, where the mean curvature is known.

    heavy: few rows may hold much of the curvature, so matrices get a larger share of the budget,
    and their caps are as large as noise allows. The other arguments are those of `Newton`. Source:
    docs/proofs/regression.md, section 4.
    """
    metric = whiten(rows)
    d, thrifty = rows.size, thrift(rows)
    f = max(0.75 if heavy else 0.25, thrifty)
    second = gram(rows, fixed_radius(rows, metric, share=_GRAM * f), _GRAM * f)
    before = rows.back
    bent = floored(second.matrix, second.norm)
    found = Newton(
        rows=rows,
        loss=loss,
        start=np.linalg.solve(before, np.eye(d)[0]) * prediction,
        curvature=curvature * bent,
        shares=(_FEW if f == 1 else _MANY).thrifty(f),
        tolerance=0.06 if f == 1 else 0.15,
        ample=thrifty <= LEAST_THRIFT,
        stretch=stretch,
        loose=loose,
        cut=cut,
        skewness=skewness,
        heavy=heavy,
        far=far,
        inside=cut is not None and thrifty > 0.3,
    ).run()
    pooled = found.curvature
    # M in the metric of the Gram matrix: of how many people's worth the least direction is.
    way = np.linalg.inv(np.linalg.solve(before, rows.back))
    root = inverse_root(bent)
    informed = np.linalg.eigvalsh(root @ way.T @ pooled.matrix @ way @ root)[0]
    people = rows.number / rows.repeated * float(informed)
    rest = inverse_root(found.before)
    values = np.linalg.eigvalsh(rest @ pooled.matrix @ rest)
    noise = pooled.norm * float(np.linalg.norm(rest, 2)) ** 2
    mu = power(rows) * rows.repeated / rows.number
    # A larger radius of the last phase adds to the curvature.
    most = math.inf if heavy else 2
    closed = []
    if noise > 0.3:
        closed.append(f"noise hides the curvature; {_MORE_PEOPLE}")
    elif not 0.4 <= values[0] <= values[-1] <= most:
        closed.append(
            f"the curvature still changed in the last steps, as of separated classes; {_APART}"
        )
    if people < _PEOPLE * max(1.0, 1 / mu):
        closed.append(f"too few events stand behind some direction of the features; {_DETERMINED}")
    diagnostics = {
        "noise of curvature": noise,
        "people": people,
        "pull": found.pull,
        "dispersion": found.level / max(float(np.trace(pooled.matrix)), pooled.deviation),
    }
    if cut is not None:
        diagnostics["cut"] = found.cut
    return found.fitted.judged(closed, **diagnostics)


def log_odds(share: float) -> float:
    """log(p / (1 - p))."""
    return math.log(share / (1 - share))
