r"""Linear regression, with and without a ridge penalty, by steps whose gradients are cut once."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from numpy.typing import ArrayLike

from unacorda import checks
from unacorda.bits import RandomBits
from unacorda.inference.records import public_size
from unacorda.inference.regression.estimator import Regression
from unacorda.inference.regression.least_squares import LeastSquares
from unacorda.inference.regression.metric import whiten
from unacorda.inference.regression.results import LinearPredictor
from unacorda.inference.regression.rows import Rows
from unacorda.privacy.guarantees import Guarantee

__all__ = ["LinearRegression", "RidgeRegression"]


class LinearRegression(LinearPredictor, Regression):
    r"""Least squares with valid intervals, private under replacement of one row.

    What is estimated is the least squares line of the population, whatever the errors look like,
    as far as no gradient is cut: `diagnostics_["cut"]` is the share that is, by released counts. It
    falls with n; 0 means that the estimate is that of ordinary least squares.

    Parameters
    ----------
    budget : any guarantee that normal noise keeps; each fit spends it whole.
    feature_bounds, target_bounds : public (lower, upper), of features each one number or one a
        feature, where most values lie. Nothing is clipped at them, and they may be hundreds of
        times too wide. Left out, ranges are found for a twentieth of the budget
        (`feature_bounds_`, `target_bounds_`).
    tuning : cut gradients at this many robust deviations, such as 3, for a line that outliers do
        not carry away. Intervals then hold for errors that are symmetric given the features.
    bits : leave it out; SeededBits makes a fit reproducible, and not private.

    Attributes
    ----------
    coef_, intercept_, scale_ : the fit; scale_ is the standard deviation of residuals.
    sampling_error_, privacy_error_, covariance_ : errors of the intercept, then the coefficients.
    cannot_ : why intervals are infinite, in words; empty where they are finite.
    diagnostics_ : "rows", the share "beyond" the radius (who weigh less), the share "cut", the
        "signal" of the second moment over its noise, the "last step" over what explains it.
    event_, guarantee_ : what the accountant prices, and what was promised.

    Rows with a number that is not finite have weight 0. Errors name what is public alone: shapes,
    dtypes, bounds, and a budget too small for n and p.

    Source: Hampel 1974 and Krasker, Welsch 1982 (bounded influence of least variance);
    Avella-Medina, Bradshaw, Loh 2023, arXiv:2103.11003 (noisy steps); docs/proofs/regression.md.

    >>> import numpy as np
    >>> import unacorda
    >>> drawn = np.random.default_rng(1)
    >>> X = drawn.normal(size=(2000, 2))
    >>> y = 3 + X @ [1.0, -2.0] + drawn.normal(size=2000)
    >>> model = LinearRegression(
    ...     budget=unacorda.GDP(1),
    ...     feature_bounds=(-3, 3),
    ...     target_bounds=(-10, 15),
    ...     bits=unacorda.SeededBits(1),
    ... ).fit(X, y)
    >>> model.conf_int().shape, bool(abs(model.coef_ - [1, -2]).max() < 0.15)
    ((3, 2), True)
    """

    _needs_target_bounds = True

    def __init__(
        self,
        *,
        budget: Guarantee,
        feature_bounds: tuple[ArrayLike, ArrayLike] | None = None,
        target_bounds: tuple[float, float] | None = None,
        tuning: float | None = None,
        bits: RandomBits | None = None,
    ) -> None:
        self.budget = budget
        self.feature_bounds = feature_bounds
        self.target_bounds = target_bounds
        self.tuning = tuning
        self.bits = bits

    def _check(self) -> None:
        if self.tuning is not None:
            public_size(tuning=self.tuning)

    def _run(self, rows: Rows, asked: Guarantee) -> None:
        self._line(rows, asked, tuning=self.tuning, penalty=0.0)

    def _line(self, rows: Rows, asked: Guarantee, *, tuning: float | None, penalty: float) -> None:
        unit, metric = self._unit, whiten(rows)
        found = LeastSquares(
            rows=rows,
            metric=metric,
            unit=unit,
            tuning=tuning,
            penalty=self._penalty(rows, penalty),
        ).fit()
        self._keep_line(rows, found, asked=asked, unit=unit)
        self.scale_ = found.errors.diagnostics["scale"] * unit.half
        self.diagnostics_["scale"] = self.scale_


class RidgeRegression(LinearRegression):
    r"""Ridge regression with valid intervals, private under replacement of one row.

    penalty: penalty / 2 times the sum of squared slopes is added to half the mean squared residual,
    slopes of features in units of a fifth of the width of their bounds; intervals are about the
    penalized solution. The others: as for `LinearRegression`.

    >>> import numpy as np
    >>> import unacorda
    >>> drawn = np.random.default_rng(1)
    >>> X = drawn.normal(size=(5000, 2))
    >>> y = X @ [1.0, -2.0] + drawn.normal(size=5000)
    >>> free, held = (
    ...     RidgeRegression(
    ...         penalty=penalty,
    ...         budget=unacorda.GDP(1),
    ...         feature_bounds=(-3, 3),
    ...         target_bounds=(-10, 10),
    ...         bits=unacorda.SeededBits(1),
    ...     ).fit(X, y)
    ...     for penalty in (0.0, 1.0)
    ... )
    >>> bool(abs(held.coef_).sum() < 0.7 * abs(free.coef_).sum())
    True
    """

    def __init__(
        self,
        *,
        budget: Guarantee,
        feature_bounds: tuple[ArrayLike, ArrayLike] | None = None,
        target_bounds: tuple[float, float] | None = None,
        penalty: float = 1.0,
        bits: RandomBits | None = None,
    ) -> None:
        self.budget = budget
        self.feature_bounds = feature_bounds
        self.target_bounds = target_bounds
        self.penalty = penalty
        self.bits = bits

    def _check(self) -> None:
        checks.non_negative(penalty=self.penalty)

    def _run(self, rows: Rows, asked: Guarantee) -> None:
        self._line(rows, asked, tuning=None, penalty=self.penalty)
