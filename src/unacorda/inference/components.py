r"""Principal components of a private second moment, with errors and a word on what is noise."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
import statistics
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

from unacorda import checks
from unacorda.bits import RandomBits, source_of
from unacorda.errors import InvalidParameter, MissingBound
from unacorda.inference.ball_moments import ball_moments, length_of, whole_budget
from unacorda.inference.contract import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    check_is_fitted,
)
from unacorda.inference.designs import bounds_of
from unacorda.inference.fitted import SharedBits
from unacorda.inference.inputs import features, how_many
from unacorda.inference.records import Floats
from unacorda.inference.scalers import RobustScaler
from unacorda.inference.spectra import Spectrum, spectrum
from unacorda.privacy import events
from unacorda.privacy.guarantees import Guarantee

__all__ = ["PCA"]

_SCALING: Final = Fraction(1, 5)
"""The share of the budget that finds quartiles, where they are asked for."""

_REACH: Final = 2.5
"""How many deviations of every feature a row of scaled features keeps."""


class PCA(SharedBits, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    r"""Principal components, private under replacement of one row.

    n_components: how many, from 1 to the number of features; None for all. budget: any guarantee,
    spent whole by each fit. feature_bounds: public (lower, upper), each one number or one a
    feature, where most values lie. center: True releases the mean beside the second moment and
    takes it out; False takes the middles of the bounds (or quartiles) for the means. scale: True
    divides features by private deviations, found with a fifth of the budget from quartiles, as
    `RobustScaler` does; rows are then cut around the middles of the quartiles. row_norm: public;
    rows farther than this from the middle are moved to this distance, in the unit of the features
    (of deviations, if scale); by default the distance of the corner of the bounds, so that no row
    within the bounds is cut, or 2.5 sqrt(p). Noise grows with its square. bits: leave it out;
    SeededBits makes a fit reproducible, and not private.

    After fit: components_ (k x p), explained_variance_, explained_variance_ratio_, of the rows as
    they were cut; sampling_error_ and privacy_error_ of the explained variances; distinct_ (k
    booleans): whether a component stands apart from its neighbours by twice the noise, and if not,
    then its direction means nothing, and its privacy error is the norm of the noise; angle_error_
    (k): about how far a distinct component is off, in radians, pi / 2 for the others; mean_,
    scale_, covariance_ (p x p, of the scaled features, positive semidefinite), event_, guarantee_,
    diagnostics_ (noise: the norm of that of covariance_; signal: the gap below the last component,
    in sizes of what blurs it). A missing value counts as the middle. Sampling errors are those of
    a normal population.
    Noise is normal, or spherical for pure budgets. (Adding a Wishart matrix, proposed for pure
    budgets, is not private: what it releases lies above the true matrix, so that some outputs are
    possible for one of two neighbours alone.)
    Source: Dwork, Talwar, Thakurta, Zhang 2014 (noise on the second moment); Anderson 2003,
    section 13.5 (sampling errors); docs/proofs/components.md.

    >>> import unacorda
    >>> drawn = np.random.default_rng(1)
    >>> X = drawn.normal(size=(5000, 3)) * [3.0, 1.0, 0.1]
    >>> model = PCA(2, budget=unacorda.GDP(1), feature_bounds=(-8, 8), bits=unacorda.SeededBits(1))
    >>> model.fit_transform(X).shape, model.distinct_.tolist()
    ((5000, 2), [True, True])
    >>> bool(abs(model.explained_variance_ - [9, 1]).max() < 0.5)
    True
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        budget: Guarantee,
        feature_bounds: tuple[ArrayLike, ArrayLike] | None = None,
        center: bool = True,
        scale: bool = False,
        row_norm: float | None = None,
        bits: RandomBits | None = None,
    ) -> None:
        self.n_components = n_components
        self.budget = budget
        self.feature_bounds = feature_bounds
        self.center = center
        self.scale = scale
        self.row_norm = row_norm
        self.bits = bits

    def fit(self, X: ArrayLike, y: Any = None) -> PCA:  # noqa: ARG002  # the contract
        """Find the components of X, n x p; spends the budget. y is not used."""
        for name, flag in (("center", self.center), ("scale", self.scale)):
            if not isinstance(flag, bool | np.bool_):
                raise InvalidParameter(name, flag, expected="True or False")
        x = features(self, X, reset=True)
        n, p = x.shape
        lower, upper = self._bounds(p)
        count = p
        if self.n_components is not None:
            count = how_many("n_components", self.n_components, features=p)
        corner = _REACH * math.sqrt(p) if self.scale else float(np.linalg.norm((upper - lower) / 2))
        radius = corner if self.row_norm is None else checks.positive(row_norm=self.row_norm)
        source = source_of(self.bits)
        length = length_of(p, with_mean=bool(self.center))
        whole = whole_budget(self.budget, length=length)
        spent: list[events.Event] = []
        middle, self.scale_ = lower + (upper - lower) / 2, np.ones(p)
        if self.scale:
            scaler = RobustScaler(
                budget=whole * _SCALING, feature_bounds=(lower, upper), bits=source
            ).fit(x)
            middle, self.scale_ = scaler.center_, scaler.scale_
            spent.append(scaler.event_)
            whole = whole * (1 - _SCALING)
        found = ball_moments(
            x,
            centre=middle,
            unit=self.scale_ * radius,
            with_mean=bool(self.center),
            budget=whole,
            bits=source,
        )
        self.mean_ = middle + found.mean * self.scale_ * radius
        self.event_ = events.compose([*spent, found.event])
        self.guarantee_ = self.budget
        self._tell(spectrum(found, rows=n), rows=n, count=count, unit=radius**2)
        return self

    def _tell(self, told: Spectrum, *, rows: int, count: int, unit: float) -> None:
        first = slice(count)
        values = np.maximum(told.values, 0.0)
        total = max(float(values.sum()), 1e-300)
        self.n_components_ = count
        self.components_ = told.vectors.T[first]
        self.covariance_ = unit * (told.vectors * values) @ told.vectors.T
        self.distinct_ = told.distinct[first]
        self.angle_error_ = told.angle_error[first]
        self.explained_variance_ = unit * told.variances[first]
        self.explained_variance_ratio_ = np.minimum(told.variances[first] / total, 1.0)
        self.sampling_error_ = unit * told.sampling_error[first]
        self.privacy_error_ = unit * told.privacy_error[first]
        self.diagnostics_ = {
            "rows": float(rows),
            "noise": unit * told.norm,
            "signal": float(told.after[count - 1]),
        }

    def conf_int(self, confidence: float = 0.95) -> Floats:
        """Intervals of the explained variances, one row (lower, upper) each, cut at 0.

        confidence: strictly between 0 and 1; sample and noise count, both as normal.
        """
        check_is_fitted(self)
        checks.probability(confidence=confidence)
        z = statistics.NormalDist().inv_cdf((1 + confidence) / 2)
        half = z * np.hypot(self.sampling_error_, self.privacy_error_)
        value = self.explained_variance_
        return np.column_stack([np.maximum(value - half, 0.0), value + half])

    def transform(self, X: ArrayLike) -> Floats:
        """The scores ((X - mean_) / scale_) components_^T, row by row; no release."""
        check_is_fitted(self)
        x = features(self, X, reset=False)
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(((x - self.mean_) / self.scale_) @ self.components_.T)

    def inverse_transform(self, X: ArrayLike) -> Floats:
        """The features that have these scores, n x k, and lie in the span of the components."""
        check_is_fitted(self)
        scores = np.asarray(X, dtype=np.float64)
        if scores.ndim != 2 or scores.shape[1] != self.n_components_:
            expected = f"two dimensions, {self.n_components_} scores a row"
            raise InvalidParameter("X", scores.shape, expected=expected)
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(scores @ self.components_ * self.scale_ + self.mean_)

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def _bounds(self, count: int) -> tuple[Floats, Floats]:
        if self.feature_bounds is None:
            raise MissingBound(
                "feature_bounds",
                expected="public bounds (lower, upper) within which most values of the features "
                "lie, each one number or one a feature",
            )
        return bounds_of(self.feature_bounds, features=count)
