"""Regressions of people who trust nobody, as estimators: each person sends one report."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from unacorda import checks
from unacorda.bits import RandomBits, source_of
from unacorda.errors import MissingBound
from unacorda.inference.budgets import check_budget
from unacorda.inference.contract import BaseEstimator
from unacorda.inference.designs import scaling
from unacorda.inference.fitted import Intervals
from unacorda.inference.inputs import features, labels, paired
from unacorda.inference.local_devices import Device
from unacorda.inference.local_regression import LocalFit, dealt, shares
from unacorda.inference.losses import Huber, Logistic, Loss
from unacorda.inference.m_estimator import checked_loss
from unacorda.inference.predictors import LinearPredictor, ManyPeople, TwoClasses, two_classes
from unacorda.inference.records import Floats, public_size
from unacorda.privacy.guarantees import Guarantee

__all__ = ["LocalLinearRegression", "LocalLogisticRegression", "LocalMEstimator"]

_SIGNAL = 2.0


class _Local(Intervals):
    """The fit that all of them share."""

    budget: Guarantee
    feature_bounds: tuple[ArrayLike, ArrayLike] | None
    bits: RandomBits | None

    def _fit_local(self, x: Floats, target: Floats, *, loss: Loss, start: float) -> Floats:
        """The parameters, the intercept first; notes all the rest."""
        asked = check_budget(self.budget)
        scales = scaling(self.feature_bounds, features=x.shape[1])
        device = Device(loss=loss, scales=scales, budget=asked)
        parts = shares(device, len(x), asked=asked)
        bits = source_of(self.bits)
        groups = dealt(parts, len(x), bits=bits)
        begin = np.eye(scales.size)[0] * start
        theta, errors = LocalFit(device=device, x=x, y=target, groups=groups, bits=bits).run(begin)
        back = scales.back()
        total, sampling = (back @ one @ back.T for one in (errors.total, errors.sampling))
        self.cannot_ = ()
        if errors.signal < _SIGNAL:
            total = sampling = np.full_like(total, math.inf)
            self.cannot_ = ("noise hides the curvature in some direction of the features",)
        self.covariance_ = total
        self.sampling_error_ = np.sqrt(np.diag(sampling))
        with np.errstate(invalid="ignore"):
            rest = np.diag(total) - np.diag(sampling)
        self.privacy_error_ = np.sqrt(np.maximum(np.nan_to_num(rest, nan=math.inf), 0.0))
        self.event_, self.guarantee_ = device.event, asked
        self.protects_ = "each report, its row replaced"
        self.diagnostics_ = {"rows": float(len(x)), "signal": errors.signal}
        self.n_iter_ = len(parts) - 2
        parameters: Floats = back @ theta
        return parameters


class LocalMEstimator(_Local, ManyPeople, LinearPredictor, BaseEstimator):  # type: ignore[misc]
    r"""The linear predictor that minimises a mean loss, by one randomised report a person.

    budget: any guarantee, kept for each person whatever becomes of her report; loss, start: as for
    `MEstimator` (a loss whose curvature falls far below its bound, such as that of Poisson
    counts, needs many people); feature_bounds: public (lower, upper), each one number or one a
    feature, where most values lie. bits: leave it out.

    A fit simulates the people: they are dealt out to rounds at random and each is asked once,
    through `unacorda.inference.local_devices.Device`, which is what would run on their devices.
    After fit: coef_, intercept_, sampling_error_ and privacy_error_ (of the intercept, then the
    coefficients; where reports are directions the whole error is told as that of privacy),
    covariance_, event_ (of one person's report), guarantee_, diagnostics_. Intervals are infinite
    where noise hides the curvature, or classes or counts lie too far from the start. Rows with a
    number that is not finite report nothing.
    Raises InvalidParameter for arguments that cannot be used, and for fewer people than the
    budget and the number of parameters need: it takes tens of thousands.
    Source: Duchi, Jordan, Wainwright 2018, arXiv:1604.02390, section 5 (one-pass local descent);
    Polyak and Juditsky 1992 (averages); docs/proofs/regression.md, section 8.

    >>> import unacorda
    >>> from unacorda.inference.losses import LogCosh
    >>> drawn = np.random.default_rng(1)
    >>> X = drawn.normal(size=(50_000, 1))
    >>> y = 1 + X @ [2.0] + drawn.standard_t(3, 50_000)
    >>> model = LocalMEstimator(
    ...     loss=LogCosh(1.0),
    ...     budget=unacorda.PureDP(2),
    ...     feature_bounds=(-3, 3),
    ...     bits=unacorda.SeededBits(1),
    ... ).fit(X, y)
    >>> bool(abs(model.coef_[0] - 2) < 0.15), len(model.conf_int())
    (True, 2)
    """

    def __init__(
        self,
        *,
        loss: Loss,
        budget: Guarantee,
        feature_bounds: tuple[ArrayLike, ArrayLike] | None = None,
        start: float = 0.0,
        bits: RandomBits | None = None,
    ) -> None:
        self.loss = loss
        self.budget = budget
        self.feature_bounds = feature_bounds
        self.start = start
        self.bits = bits

    def fit(self, X: ArrayLike, y: ArrayLike) -> LocalMEstimator:
        """Ask one row a person, X n x p and y of n numbers; each spends her budget."""
        self._fit_all(X, y, loss=checked_loss(self.loss))
        return self

    def _fit_all(self, X: ArrayLike, y: ArrayLike, *, loss: Loss) -> None:
        start = checks.finite(start=self.start)
        x, target, _ = paired(self, X, y)
        parameters = self._fit_local(x, target, loss=loss, start=start)
        self.intercept_, self.coef_ = float(parameters[0]), parameters[1:]


class LocalLinearRegression(LocalMEstimator):
    r"""Linear regression, residuals cut at a public bound, by one randomised report a person.

    residual_bound: public, in the unit of the target; larger residuals count as if they were this
    large; some 1.5 deviations of the errors serve well. start: a public guess of the typical
    target, within some ten residual_bound of it. The others: as for `LocalMEstimator`.

    >>> import unacorda
    >>> drawn = np.random.default_rng(1)
    >>> X = drawn.normal(size=(50_000, 1))
    >>> y = 1 + X @ [2.0] + drawn.normal(size=50_000)
    >>> model = LocalLinearRegression(
    ...     residual_bound=1.5,
    ...     budget=unacorda.GDP(2),
    ...     feature_bounds=(-3, 3),
    ...     bits=unacorda.SeededBits(1),
    ... ).fit(X, y)
    >>> bool(abs(model.coef_[0] - 2) < 0.15)
    True
    """

    def __init__(
        self,
        *,
        budget: Guarantee,
        residual_bound: float | None = None,
        feature_bounds: tuple[ArrayLike, ArrayLike] | None = None,
        start: float = 0.0,
        bits: RandomBits | None = None,
    ) -> None:
        self.budget = budget
        self.residual_bound = residual_bound
        self.feature_bounds = feature_bounds
        self.start = start
        self.bits = bits

    def fit(self, X: ArrayLike, y: ArrayLike) -> LocalLinearRegression:
        """Ask one row a person, X n x p and y of n numbers; each spends her budget."""
        if self.residual_bound is None:
            raise MissingBound(
                "residual_bound", expected="a public size beyond which residuals are cut"
            )
        self._fit_all(X, y, loss=Huber(public_size(residual_bound=self.residual_bound)))
        return self


class LocalLogisticRegression(_Local, ManyPeople, TwoClasses, BaseEstimator):  # type: ignore[misc]
    r"""Logistic regression by one randomised report a person.

    classes: the two labels, public; the probability is that of the second. The others, what a fit
    does and leaves: as for `LocalMEstimator`; coef_ (1 x p) and intercept_ (one number in an
    array) as for `LogisticRegression`. Rows with another label report nothing.

    >>> import unacorda
    >>> drawn = np.random.default_rng(1)
    >>> X = drawn.normal(size=(50_000, 1))
    >>> y = drawn.random(50_000) < 1 / (1 + np.exp(-X @ [1.0]))
    >>> model = LocalLogisticRegression(
    ...     budget=unacorda.PureDP(2), feature_bounds=(-3, 3), bits=unacorda.SeededBits(1)
    ... ).fit(X, y)
    >>> bool(abs(model.coef_[0, 0] - 1) < 0.3)
    True
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

    def fit(self, X: ArrayLike, y: ArrayLike) -> LocalLogisticRegression:
        """Ask one row a person, X n x p and y of n labels; each spends her budget."""
        check_budget(self.budget)
        classes = two_classes(self.classes)
        x = features(self, X, reset=True)
        target, known = labels(y, classes, rows=len(x))
        asked = np.where(known > 0, target, math.nan)
        parameters = self._fit_local(x, asked, loss=Logistic(), start=0.0)
        self.classes_ = classes
        self.intercept_, self.coef_ = parameters[:1], parameters[None, 1:]
        return self
