"""What every fitted regression answers: intervals and a table, from released values alone."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import copy
import dataclasses
import math
import statistics
from typing import Any

import numpy as np

from unacorda import checks
from unacorda.inference.contract import check_is_fitted, clone
from unacorda.inference.plans import Steps
from unacorda.inference.records import Floats
from unacorda.inference.row_values import People
from unacorda.inference.sandwich import Errors
from unacorda.inference.summaries import Summary
from unacorda.privacy.guarantees import Guarantee

__all__ = ["Intervals", "SharedBits", "covariances"]


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
        )

    def _tell(
        self,
        people: People,
        theta: Floats,
        errors: Errors,
        *,
        asked: Guarantee,
        steps: Steps,
        unit: float = 1.0,
    ) -> Floats:
        """Keep what a fit says of itself; the parameters in the units of the features.

        unit: of the target. Without steps nothing is known of where they would have led.
        """
        if not steps.shares:
            errors = dataclasses.replace(errors, signal=0.0)
        self.n_iter_ = len(steps.shares)
        sampling, privacy = covariances(people, errors, unit=unit)
        self.covariance_ = sampling + privacy
        self.sampling_error_ = np.sqrt(np.diag(sampling))
        self.privacy_error_ = np.sqrt(np.diag(privacy))
        self.event_, self.guarantee_ = people.event, asked
        self.protects_ = people.protects
        self.diagnostics_ = {
            "rows": float(people.rows),
            "signal": errors.signal,
            "left over": errors.contraction,
        }
        parameters: Floats = unit * (people.back @ theta)
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


def covariances(design: People, errors: Errors, *, unit: float = 1.0) -> tuple[Floats, Floats]:
    """Covariances, sampling and privacy, of the coefficients in the units of the features.

    unit: of the target. Infinite ones where the errors cannot be told.
    """
    if not errors.enough:
        infinite = np.full((design.size, design.size), math.inf)
        return infinite, infinite
    back = design.back * unit
    return back @ errors.sampling @ back.T, back @ errors.privacy @ back.T
