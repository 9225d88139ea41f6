"""What every fitted regression answers from released values: intervals, a table, influence."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import copy
import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from unacorda import checks
from unacorda.errors import InvalidParameter
from unacorda.inference.contract import check_is_fitted, clone
from unacorda.inference.inputs import features
from unacorda.inference.records import Floats, column
from unacorda.inference.regression.covariance import Fitted
from unacorda.inference.regression.rows import Row, Rows
from unacorda.inference.summaries import Summary
from unacorda.privacy.guarantees import Guarantee

__all__ = ["Influence", "Intervals", "SharedBits"]


class SharedBits:
    """How an estimator is cloned."""

    def __sklearn_clone__(self) -> Any:
        """An unfitted copy; seeded bits are shared, since a stream of them cannot be copied."""
        given: dict[str, Any] = self.get_params(deep=False)  # type: ignore[attr-defined]
        return type(self)(**{name: _copied(name, value) for name, value in given.items()})


def _copied(name: str, value: Any) -> Any:
    if name == "bits":
        return value
    return clone(value) if hasattr(value, "get_params") else copy.deepcopy(value)


class Intervals(SharedBits):
    """`conf_int` and `summary` of an estimator that has been fitted."""

    coef_: Floats
    intercept_: Any
    sampling_error_: Floats
    privacy_error_: Floats
    guarantee_: Guarantee
    event_: Any
    protects_: str
    covariance_: Floats
    diagnostics_: dict[str, float]
    n_iter_: int
    cannot_: tuple[str, ...] = ()
    _influence: Influence

    def conf_int(self, confidence: float = 0.95) -> Floats:
        """Intervals, one row (lower, upper) a parameter: the intercept, then the coefficients.

        confidence: strictly between 0 and 1. They count the sample and the noise, both as normal,
        and are infinite where noise hides the curvature. Raises InvalidParameter for the
        confidence, and scikit-learn's NotFittedError before `fit`.
        """
        self._check_fitted()
        checks.probability(confidence=confidence)
        z = statistics.NormalDist().inv_cdf((1 + confidence) / 2)
        half = z * np.hypot(self.sampling_error_, self.privacy_error_)
        return np.column_stack([self._parameters - half, self._parameters + half])

    def summary(self, confidence: float = 0.95) -> Summary:
        """A table of the coefficients, their errors in two parts, and what was spent."""
        return Summary(
            title=type(self).__name__,
            names=self._names(),
            values=self._parameters_checked(),
            sampling_errors=self.sampling_error_,
            privacy_errors=self.privacy_error_,
            intervals=self.conf_int(confidence),
            confidence=confidence,
            guarantee=self.guarantee_,
            protects=self.protects_,
            diagnostics=self.diagnostics_,
            cannot=self.cannot_,
        )

    def influence(self, X: ArrayLike, y: ArrayLike) -> Floats:
        """How far one more row would move each coefficient of the fit without noise, times n.

        X, y: rows of anybody's, m x p and m, such as a grid; they are not the people of the fit, of
        whom released matrices alone are used, so that this costs nothing. m x (p + 1), the
        intercept first. Of classes y is 0 or 1.
        Source: Hampel, Ronchetti, Rousseeuw, Stahel 1986, section 2.1; Avella-Medina 2021, Journal
        of the American Statistical Association 116 (bounded influence makes sensitivity bounded).
        """
        self._check_fitted()
        rows, target = features(self, X, reset=False), column("y", y)
        if len(rows) != len(target):
            raise InvalidParameter("y", target.shape, expected=f"{len(rows)} numbers, one a row")
        return self._influence.of(rows, target)

    @property
    def gross_error_sensitivity_(self) -> Floats:
        """The most that `influence` can be, for any row, of each coefficient."""
        self._check_fitted()
        return self._influence.most

    def _tell(
        self,
        rows: Rows,
        found: Fitted,
        *,
        asked: Guarantee,
        unit: float = 1.0,
    ) -> Floats:
        """Keep what a fit says of itself; the parameters in the units of features and target."""
        errors = found.errors
        back = rows.back * unit
        sampling, privacy = (back @ part @ back.T for part in (errors.sampling, errors.privacy))
        if errors.closed:
            sampling = privacy = np.full_like(sampling, math.inf)
        self.n_iter_ = found.steps
        self.covariance_ = sampling + privacy
        self.sampling_error_ = np.sqrt(np.diag(sampling))
        self.privacy_error_ = np.sqrt(np.diag(privacy))
        self.event_, self.guarantee_ = rows.event, asked
        self.protects_ = rows.protects
        self.cannot_ = errors.closed
        self.diagnostics_ = {
            "rows": rows.number,
            "beyond": found.beyond,
            **errors.diagnostics,
            "last step": errors.last_step,
        }
        self._influence = Influence(
            back=rows.back,
            inverse=np.asarray(np.linalg.inv(errors.curvature), dtype=np.float64),
            score=found.score,
            bound=errors.bound,
            theta=found.theta,
            unit=unit,
        )
        parameters: Floats = back @ found.theta
        return parameters

    @property
    def _parameters(self) -> Floats:
        return np.concatenate([np.atleast_1d(self.intercept_), np.ravel(self.coef_)])

    def _parameters_checked(self) -> Floats:
        self._check_fitted()
        return self._parameters

    def _names(self) -> list[str]:
        self._check_fitted()
        named = getattr(self, "feature_names_in_", None)
        given = [f"x{k}" for k in range(self.coef_.size)] if named is None else list(named)
        return ["intercept", *map(str, given)]

    def _check_fitted(self) -> None:
        check_is_fitted(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Influence:
    """The influence function of a fit: its released inverse curvature times a row's gradient."""

    back: Floats
    inverse: Floats
    score: Callable[[Row], Any]
    bound: float
    theta: Floats
    unit: float

    def of(self, x: Floats, target: Floats) -> Floats:
        """That of rows of features and targets."""
        rows = np.column_stack([np.ones(len(x)), x]) @ self.back
        row = Row(
            prediction=rows @ self.theta,
            target=target,
            square=np.einsum("ij,ij->i", rows, rows),
            own=np.ones(len(x)),
        )
        gradient = rows * np.asarray(self.score(row))[:, None]
        length = np.linalg.norm(gradient, axis=1, keepdims=True)
        gradient *= np.minimum(1.0, self.bound / np.maximum(length, 1e-300))
        found: Floats = self.unit * gradient @ self.inverse @ self.back.T
        return found

    @property
    def most(self) -> Floats:
        """The most that it can be, of each coefficient."""
        found: Floats = np.linalg.norm(self.back @ self.inverse, axis=1)
        return self.unit * self.bound * found
