r"""Quantile regression: a line by cut least squares first, then Newton steps of the check loss."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

from unacorda import checks
from unacorda.bits import RandomBits
from unacorda.errors import InvalidParameter
from unacorda.inference.contract import RegressorMixin
from unacorda.inference.inputs import predicted
from unacorda.inference.losses import Check
from unacorda.inference.records import Floats
from unacorda.inference.regression.continuous import (
    Scaled,
    fit_from,
    pilot_of,
    residual_quantile,
    residual_scale,
)
from unacorda.inference.regression.estimator import Regression
from unacorda.inference.regression.least_squares import Unit
from unacorda.inference.regression.rows import Rows
from unacorda.privacy.guarantees import Guarantee

__all__ = ["QuantileRegression"]

_RAREST: Final = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class _Quantile:
    """Scores smoothed little, for little bias; curvatures much, for they are a density."""

    near: Check
    wide: Check

    @property
    def score_bound(self) -> float:
        return self.near.score_bound

    @property
    def curvature_bound(self) -> float:
        return self.wide.curvature_bound

    def score(self, prediction: Any, target: Any) -> Any:
        return self.near.score(prediction, target)

    def curvature(self, prediction: Any, target: Any) -> Any:
        return self.wide.curvature(prediction, target)


class QuantileRegression(RegressorMixin, Regression):  # type: ignore[misc]
    r"""A quantile of the target as a line in the features, with valid intervals, private.

    What is estimated is the line of the check loss, smoothed by .15 deviations of the residuals or
    less, which falls with n.

    Parameters
    ----------
    budget : any guarantee that normal noise keeps; each fit spends it whole.
    quantile : of the target given the features, in (0, 1).
    feature_bounds, target_bounds : as for `LinearRegression`; left out, ranges are found.
    bits : leave it out; SeededBits makes a fit reproducible, and not private.

    Attributes
    ----------
    coef_, intercept_ : the fit.
    sampling_error_, privacy_error_, covariance_ : errors of the intercept, then the coefficients.
    cannot_, diagnostics_, event_, guarantee_ : as of `LinearRegression`; "signal" is that of the
        density of the errors at the quantile. It is smoothed by .4 deviations or less: standard
        errors err where it changes much within that.

    Rows with a number that is not finite have weight 0.

    Source: Koenker and Bassett 1978; Fernandes, Guerre, Horta 2021 (smoothing);
    docs/proofs/regression.md.

    >>> import unacorda
    >>> drawn = np.random.default_rng(1)
    >>> X = drawn.normal(size=(10_000, 1))
    >>> y = X[:, 0] + drawn.normal(size=10_000)
    >>> model = QuantileRegression(
    ...     quantile=0.9,
    ...     budget=unacorda.GDP(1),
    ...     feature_bounds=(-3, 3),
    ...     target_bounds=(-10, 10),
    ...     bits=unacorda.SeededBits(1),
    ... ).fit(X, y)
    >>> bool(abs(model.intercept_ - 1.28) < 0.15)
    True
    """

    _needs_target_bounds = True

    def __init__(
        self,
        *,
        budget: Guarantee,
        quantile: float = 0.5,
        feature_bounds: tuple[ArrayLike, ArrayLike] | None = None,
        target_bounds: tuple[float, float] | None = None,
        bits: RandomBits | None = None,
    ) -> None:
        self.budget = budget
        self.quantile = quantile
        self.feature_bounds = feature_bounds
        self.target_bounds = target_bounds
        self.bits = bits

    def _check(self) -> None:
        if not _RAREST <= checks.finite(quantile=self.quantile) <= 1 - _RAREST:
            expected = f"strictly between 0 and 1, and {_RAREST:g} or more from both"
            raise InvalidParameter("quantile", self.quantile, expected=expected)

    def _run(self, rows: Rows, asked: Guarantee) -> None:
        unit, tau = self._unit, float(self.quantile)
        pilot = pilot_of(rows, unit)
        scale = residual_scale(rows, pilot, unit)
        moved = residual_quantile(rows, pilot, unit, quantile=tau, scale=scale)
        # From here on the target is told in released deviations, so that bandwidths are public.
        told = Unit(middle=unit.middle, half=unit.half * scale)
        one = np.linalg.solve(rows.back, np.eye(rows.size)[0])
        loss = _loss(tau, number=rows.number, size=rows.size)
        found = fit_from(
            rows,
            Scaled(loss=loss, unit=told),
            pilot,
            start=(pilot.theta + moved * one) / scale,
            curvature=max(0.05, 1.4 * tau * (1 - tau)),
        )
        parameters = self._tell(rows, found, asked=asked, unit=told.half)
        self.intercept_, self.coef_ = float(parameters[0] + unit.middle), parameters[1:]

    def predict(self, X: ArrayLike) -> Floats:
        """The predicted quantile of each row; X may be anybody's, it is no release."""
        return predicted(self, X)


def _loss(quantile: float, *, number: float, size: int) -> _Quantile:
    """Bandwidths in deviations: small for scores, wide enough for curvatures to be a density."""
    near = min(0.15, 2 * number ** (-1 / 3))
    wide = min(0.4, max(number**-0.2, 0.2) * max(1.0, (size / 5) ** 0.5))
    return _Quantile(near=Check(quantile, bandwidth=near), wide=Check(quantile, bandwidth=wide))
