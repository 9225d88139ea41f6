r"""Standardising by private quartiles, as a step of a pipeline with its own share of a budget."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

from unacorda.bits import RandomBits, source_of
from unacorda.inference.budgets import check_budget, selection_epsilon
from unacorda.inference.contract import (
    BaseEstimator,
    OneToOneFeatureMixin,
    SharedBits,
    TransformerMixin,
    check_is_fitted,
)
from unacorda.inference.estimates.quantiles import quartiles
from unacorda.inference.inputs import features
from unacorda.inference.records import Floats, bounds_of
from unacorda.privacy import events
from unacorda.privacy.guarantees import Guarantee

__all__ = ["RobustScaler", "centre_and_scale"]

_POINTS: Final = 1 << 20
_QUARTILES: Final = 1.3489795003921634
"""The distance of the quartiles of a normal law, in deviations."""

_NARROWEST: Final = 1 / 1000
"""Of the range: what a scale is at least, so that a constant feature stays finite."""


def centre_and_scale(quartiles: Floats, width: Floats) -> tuple[Floats, Floats]:
    """The middles of quartiles, one pair a feature, and what stands for a deviation.

    width: of the features' ranges, of which a scale is no less than a thousandth.
    """
    first, third = quartiles.T
    return (first + third) / 2, np.maximum(np.abs(third - first) / _QUARTILES, width * _NARROWEST)


@dataclass(kw_only=True, eq=False, repr=False)
class RobustScaler(SharedBits, OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    r"""Centre and scale features by private quartiles.

    budget: any guarantee, kept under the replacement of one row, shared equally by two quartiles a
    feature; feature_bounds: public (lower, upper), each one number or one a feature; values beyond
    count as the bound while quartiles are sought, but are not cut by `transform`. bits: leave it
    out; SeededBits makes a fit reproducible, and not private.

    After fit: center_ (the middle of the quartiles), scale_ (their distance over 1.349, that of a
    normal law's in deviations, and at least a thousandth of the range), event_, guarantee_. NaN
    counts as the middle of the bounds. In a pipeline the budgets of the steps add up: each step
    looks at the data anew. Features of few values, such as 0 and 1, are better left as they are.
    Some 50 log(range / scale) features / epsilon people are needed.
    Source: Smith 2011, Algorithm 2; docs/proofs/quantiles.md.

    >>> import unacorda
    >>> X = np.random.default_rng(1).normal(50, 3, size=(5000, 2))
    >>> scaler = RobustScaler(
    ...     budget=unacorda.GDP(1), feature_bounds=(0, 1000), bits=unacorda.SeededBits(1)
    ... ).fit(X)
    >>> bool(abs(scaler.center_ - 50).max() < 1), bool(abs(scaler.scale_ - 3).max() < 1)
    (True, True)
    """

    budget: Guarantee
    feature_bounds: tuple[ArrayLike, ArrayLike] | None = None
    bits: RandomBits | None = None

    def fit(self, X: ArrayLike, y: Any = None) -> RobustScaler:  # noqa: ARG002  # the contract
        """Find the quartiles of each column of X, n x p; spends the budget. y is not used."""
        asked = check_budget(self.budget)
        x = features(self, X, reset=True)
        lower, upper = bounds_of(self.feature_bounds, features=x.shape[1])
        count = 2 * x.shape[1]
        epsilon = selection_epsilon(asked, releases=count)
        source = source_of(self.bits)
        found = [
            quartiles(values, lower=low, upper=high, points=_POINTS, epsilon=epsilon, bits=source)
            for values, low, high in zip(x.T, lower.tolist(), upper.tolist(), strict=True)
        ]
        self.center_, self.scale_ = centre_and_scale(np.array(found), upper - lower)
        self.event_ = events.compose([events.Exponential(epsilon=epsilon)], count=count)
        self.guarantee_ = asked
        return self

    def transform(self, X: ArrayLike) -> Floats:
        """(X - center_) / scale_, row by row; no release."""
        check_is_fitted(self)
        x = features(self, X, reset=False)
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray((x - self.center_) / self.scale_)

    def inverse_transform(self, X: ArrayLike) -> Floats:
        """X * scale_ + center_, row by row."""
        check_is_fitted(self)
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(features(self, X, reset=False) * self.scale_ + self.center_)
