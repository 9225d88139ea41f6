r"""Pipeline steps: scaling by private quartiles, and principal components.

Components come from the noisy mean and second moment of rows clipped to a ball, which is scaled to
radius 1. If a row is replaced, the sums of u and of sqrt 2 u u^T together change by at most 5/2,
and that of u u^T alone by sqrt 2, with the Frobenius norm for the matrix. Noise is normal, or, for
pure budgets, spherical with a gamma-distributed radius, which has half the variance of Laplace
noise. Eigenvalues and directions have errors, and a flag if they are noise
(docs/proofs/components.md).
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

from unacorda import checks
from unacorda.bits import RandomBits, source_of
from unacorda.errors import InvalidParameter
from unacorda.inference.contract import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    OneToOneFeatureMixin,
    PrivateEstimator,
    TransformerMixin,
    check_is_fitted,
    count_fit,
    features,
    how_many,
)
from unacorda.inference.estimates.quantiles import quartiles
from unacorda.inference.records import (
    Floats,
    bounds_of,
    check_budget,
    gdp_budget,
    half_width,
    selection_epsilon,
    shareable,
)
from unacorda.inference.sums import (
    BOUNDS_SHARE,
    ROOT_TWO,
    ROUNDED,
    check_share,
    column_ranges,
    packed,
    row_sum,
    slack,
    unpacked,
)
from unacorda.mechanisms.additive.real import Gaussian
from unacorda.mechanisms.shaped.vectors import KNorm
from unacorda.privacy import events
from unacorda.privacy.guarantees import GDP, ZCDP, ApproxDP, Guarantee, PureDP

_POINTS: Final = 1 << 20
_QUARTILES: Final = 1.3489795003921634
"""The distance of the quartiles of a normal law, in deviations."""

_FARTHER: Final = 4.0
_NARROWEST: Final = 1 / 1000
"""Of the range: the least scale, so that a constant feature stays finite."""


@dataclass(kw_only=True, eq=False, repr=False)
class RobustScaler(PrivateEstimator, OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    r"""Centers and scales features by private quartiles.

    NaN counts as the middle of the bounds. In a pipeline the budgets of the steps compose. Do not
    scale features with few values, such as 0 and 1. Some 50 log(range / scale) features / epsilon
    people are needed.

    Source: Smith 2011, Algorithm 2; docs/proofs/quantiles.md.

    Parameters
    ----------
    budget
        Any guarantee, kept under the replacement of one row, shared equally by two quartiles per
        feature.
    feature_bounds
        Public (lower, upper), each one number or one per feature. Values beyond them are clamped to
        find the quartiles, but `transform` does not clip them. By default they are found privately,
        up to four times too wide.
    bounds_share
        The share of the budget that finds bounds that are left out, from 1e-6 to 0.25.
    bits
        Omit it for secure noise; `SeededBits` makes a fit reproducible, and not private.

    Attributes
    ----------
    center_
        The middle of the quartiles, shape (p,).
    scale_
        Their distance over 1.349, the distance for a normal distribution in deviations, and at
        least a thousandth of the range, shape (p,).
    feature_bounds_
        Given or found.
    event_, guarantee_
        The privacy event, and the guarantee.

    Examples
    --------
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
    bounds_share: float = BOUNDS_SHARE
    bits: RandomBits | None = None

    def fit(self, X: ArrayLike, y: Any = None) -> RobustScaler:  # noqa: ARG002  # the contract
        """Finds the quartiles of each column; spends the budget.

        Parameters
        ----------
        X
            Features, shape (n, p).
        y
            Not used.
        """
        asked, share = check_budget(self.budget), check_share(self.bounds_share)
        x = features(self, X, reset=True)
        count, source = 2 * x.shape[1], source_of(self.bits)
        if found := self.feature_bounds is None:
            whole = shareable(asked, releases=2 * count)
            epsilon = selection_epsilon(whole * (1 - share), releases=count)
        else:
            lower, upper = bounds_of(self.feature_bounds, features=x.shape[1])
            epsilon = selection_epsilon(asked, releases=count)
        count_fit(self, asked)
        spent: list[events.Event] = []
        if found:
            lower, upper, event = column_ranges(x, budget=whole * share, bits=source)
            spent.append(event)
        scaling = _scaling(x, lower, upper, found=found, epsilon=epsilon, bits=source)
        self.feature_bounds_ = scaling.bounds
        self.center_, self.scale_ = scaling.center, scaling.scale
        self.event_ = events.compose([*spent, scaling.event])
        self.guarantee_ = asked
        return self

    def transform(self, X: ArrayLike) -> Floats:
        """Returns (X - center_) / scale_, row by row; no release.

        Parameters
        ----------
        X
            Features, shape (m, p).
        """
        check_is_fitted(self)
        x = features(self, X, reset=False)
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray((x - self.center_) / self.scale_)

    def inverse_transform(self, X: ArrayLike) -> Floats:
        """Returns X * scale_ + center_, row by row.

        Parameters
        ----------
        X
            Scaled features, shape (m, p).
        """
        check_is_fitted(self)
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(features(self, X, reset=False) * self.scale_ + self.center_)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scaling:
    """Middles and distances of quartiles, within bounds of columns."""

    center: Floats
    scale: Floats
    bounds: tuple[Floats, Floats]
    event: events.Event


def _scaling(
    x: Floats, lower: Floats, upper: Floats, *, found: bool, epsilon: Fraction, bits: RandomBits
) -> _Scaling:
    """Finds both quartiles of each column, epsilon each.

    found: bounds are those of `column_ranges`; rows that noise hid there may be on the other side
    of 0, or farther out, so that quartiles are sought there too.
    """
    low, high = lower, upper
    if found:
        high = _FARTHER * np.maximum(np.abs(lower), np.abs(upper))
        low = -high
    ends = [
        quartiles(values, lower=first, upper=last, points=_POINTS, epsilon=epsilon, bits=bits)
        for values, first, last in zip(x.T, low.tolist(), high.tolist(), strict=True)
    ]
    first, third = np.array(ends).T
    spread = np.abs(third - first) / _QUARTILES
    return _Scaling(
        center=(first + third) / 2,
        scale=np.maximum(spread, (upper - lower) * _NARROWEST),
        bounds=(lower, upper),
        event=events.compose([events.Exponential(epsilon=epsilon)], count=2 * x.shape[1]),
    )


_SCALING: Final = Fraction(1, 5)
"""The share of the budget that finds quartiles, where they are asked for."""

_REACH: Final = 2.5
"""Deviations of every feature that a row of scaled features keeps."""


@dataclass(eq=False, repr=False)
class PCA(PrivateEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    r"""Finds principal components, private under the replacement of one row.

    A missing value counts as the middle. Sampling errors are those of a normal population. Noise is
    normal, or spherical for pure budgets. (Wishart noise, which was proposed for pure budgets, is
    not private: the released matrix lies above the true one, so some outputs are possible for only
    one of two neighbors.)

    Source: Dwork, Talwar, Thakurta, Zhang 2014 (noise on the second moment); Anderson 2003, section
    13.5 (sampling errors); docs/proofs/components.md.

    Parameters
    ----------
    n_components
        From 1 to the number of features; None for all.
    budget
        Any guarantee, spent whole by each fit.
    feature_bounds
        Public (lower, upper), each one number or one per feature, where most values lie. By default
        they are found privately; a fifth of the rest of the budget then finds quartiles, and rows
        are clipped around their middles.
    bounds_share
        The share of the budget that finds bounds that are left out, from 1e-6 to 0.25.
    center
        True releases the mean with the second moment and subtracts it; False uses the middles of
        the bounds (or quartiles) as means.
    scale
        True divides features by private deviations, found with a fifth of the budget from
        quartiles, as `RobustScaler` does; rows are then clipped around the middles of the
        quartiles.
    row_norm
        The public clipping radius: rows farther than this from the middle are moved to this
        distance, in the unit of the features (of deviations, if scale). By default the distance of
        the corner of the bounds, so that no row within the bounds is clipped, or 2.5 sqrt(p);
        without bounds 2.5 times the norm of the deviations from quartiles. Noise grows with its
        square.
    bits
        Omit it for secure noise; `SeededBits` makes a fit reproducible, and not private.

    Attributes
    ----------
    components_
        Shape (k, p).
    explained_variance_, explained_variance_ratio_
        Of the clipped rows, shape (k,).
    sampling_error_, privacy_error_
        Of the explained variances.
    distinct_
        True if a component differs from its neighbors by twice the noise. Otherwise its direction
        has no meaning, and its privacy error is the norm of the noise.
    angle_error_
        The approximate angle error of a distinct component, in radians; pi / 2 for the others.
    mean_, scale_, covariance_
        Of features; the covariance of scaled ones, shape (p, p), positive semidefinite.
    feature_bounds_, row_norm_
        Given or found; rows are clipped to row_norm_.
    event_, guarantee_
        The privacy event, and the guarantee.
    diagnostics_
        "noise": the norm of the noise of covariance_; "signal": the gap below the last component,
        in units of its blur.

    Examples
    --------
    >>> import unacorda
    >>> drawn = np.random.default_rng(1)
    >>> X = drawn.normal(size=(5000, 3)) * [3.0, 1.0, 0.1]
    >>> model = PCA(2, budget=unacorda.GDP(1), feature_bounds=(-8, 8), bits=unacorda.SeededBits(1))
    >>> model.fit_transform(X).shape, model.distinct_.tolist()
    ((5000, 2), [True, True])
    >>> bool(abs(model.explained_variance_ - [9, 1]).max() < 0.5)
    True
    """

    n_components: int | None = None
    _: KW_ONLY
    budget: Guarantee
    feature_bounds: tuple[ArrayLike, ArrayLike] | None = None
    bounds_share: float = BOUNDS_SHARE
    center: bool = True
    scale: bool = False
    row_norm: float | None = None
    bits: RandomBits | None = None

    def fit(self, X: ArrayLike, y: Any = None) -> PCA:  # noqa: ARG002  # the contract
        """Finds the components; spends the budget.

        Parameters
        ----------
        X
            Features, shape (n, p).
        y
            Not used.
        """
        for name, flag in (("center", self.center), ("scale", self.scale)):
            if not isinstance(flag, bool | np.bool_):
                raise InvalidParameter(name, flag, expected="True or False")
        x = features(self, X, reset=True)
        n, p = x.shape
        share, count = check_share(self.bounds_share), p
        if self.feature_bounds is not None:
            lower, upper = bounds_of(self.feature_bounds, features=p)
        if self.row_norm is not None:
            checks.positive(row_norm=self.row_norm)
        if self.n_components is not None:
            count = how_many("n_components", self.n_components, features=p)
        source = source_of(self.bits)
        length = length_of(p, with_mean=bool(self.center))
        whole = whole_budget(self.budget, length=length)
        count_fit(self, self.budget)
        spent: list[events.Event] = []
        if found := self.feature_bounds is None:
            lower, upper, event = column_ranges(x, budget=whole * share, bits=source)
            spent.append(event)
            whole = whole * (1 - share)
        self.feature_bounds_ = lower, upper
        middle, self.scale_ = lower + (upper - lower) / 2, np.ones(p)
        radius = float(np.linalg.norm((upper - lower) / 2))
        if self.scale or found:
            epsilon = selection_epsilon(whole * _SCALING, releases=2 * p)
            scaling = _scaling(x, lower, upper, found=found, epsilon=epsilon, bits=source)
            middle, radius = scaling.center, _REACH * math.sqrt(p)
            if self.scale:
                self.scale_ = scaling.scale
            else:
                radius = _REACH * float(np.linalg.norm(scaling.scale))
            spent.append(scaling.event)
            whole = whole * (1 - _SCALING)
        radius = radius if self.row_norm is None else float(self.row_norm)
        self.row_norm_ = radius
        moments = ball_moments(
            x,
            centre=middle,
            unit=self.scale_ * radius,
            with_mean=bool(self.center),
            budget=whole,
            bits=source,
        )
        self.mean_ = middle + moments.mean * self.scale_ * radius
        self.event_ = events.compose([*spent, moments.event])
        self.guarantee_ = self.budget
        self._keep(spectrum(moments, rows=n), rows=n, count=count, unit=radius**2)
        return self

    def _keep(self, found: Spectrum, *, rows: int, count: int, unit: float) -> None:
        first = slice(count)
        values = np.maximum(found.values, 0.0)
        total = max(float(values.sum()), 1e-300)
        self.n_components_ = count
        self.components_ = found.vectors.T[first]
        self.covariance_ = unit * (found.vectors * values) @ found.vectors.T
        self.distinct_ = found.distinct[first]
        self.angle_error_ = found.angle_error[first]
        self.explained_variance_ = unit * found.variances[first]
        self.explained_variance_ratio_ = np.minimum(found.variances[first] / total, 1.0)
        self.sampling_error_ = unit * found.sampling_error[first]
        self.privacy_error_ = unit * found.privacy_error[first]
        self.diagnostics_ = {
            "rows": float(rows),
            "noise": unit * found.norm,
            "signal": float(found.after[count - 1]),
        }

    def conf_int(self, confidence: float = 0.95) -> Floats:
        """Returns intervals of the explained variances, one row (lower, upper) each, at least 0.

        Parameters
        ----------
        confidence
            Strictly between 0 and 1; sample and noise count, both as normal.
        """
        check_is_fitted(self)
        half = half_width(confidence, self.sampling_error_, self.privacy_error_)
        value = self.explained_variance_
        return np.column_stack([np.maximum(value - half, 0.0), value + half])

    def transform(self, X: ArrayLike) -> Floats:
        """Returns the scores ((X - mean_) / scale_) components_^T, row by row; no release.

        Parameters
        ----------
        X
            Features, shape (m, p).
        """
        check_is_fitted(self)
        x = features(self, X, reset=False)
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(((x - self.mean_) / self.scale_) @ self.components_.T)

    def inverse_transform(self, X: ArrayLike) -> Floats:
        """Returns the features with these scores in the span of the components.

        Parameters
        ----------
        X
            Scores, shape (m, k).
        """
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


_FAR: Final = 2.0**200
_MOST: Final = 1 << 14
"""The longest vector that gets spherical noise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BallMoments:
    """Released: the mean and the second moment about it, in units of the ball, and their noise.

    mean: p numbers, zeros where it was not asked; covariance: p x p, the noise of the mean taken
    out on average, eigenvalues of any sign; mean_noise: deviation of each number of the mean;
    matrix_noise: that of a diagonal number, sqrt 2 times that of the others.
    """

    mean: Floats
    covariance: Floats
    mean_noise: float
    matrix_noise: float
    event: events.Event


def whole_budget(budget: Guarantee, *, length: int) -> PureDP | ZCDP | GDP:
    """The budget in the currency in which noise on a vector of this length is the least.

    Spherical noise has deviation sqrt(length + 1) / epsilon a number, normal noise 1 / mu.
    InvalidParameter for a pure budget and a vector too long for spherical noise.

    >>> whole_budget(ApproxDP(1, 1e-6), length=5), whole_budget(ApproxDP(1, 1e-6), length=65)
    (PureDP(epsilon=1.0), GDP(mu=0.236704380664))
    """
    checked = check_budget(budget)
    if isinstance(checked, ApproxDP) and checked.delta:
        normal = gdp_budget(checked)
        fits = length <= _MOST and (length + 1) * normal.mu_squared <= checked.epsilon**2
        return PureDP(checked.epsilon) if fits else normal
    found = shareable(checked, releases=length)
    if isinstance(found, PureDP) and length > _MOST:
        expected = f"one with a delta, such as ApproxDP(1, 1e-6): pure noise on {length} numbers "
        raise InvalidParameter("budget", budget, expected=expected + "would drown them all")
    return found


def length_of(features: int, *, with_mean: bool) -> int:
    """The number of released numbers."""
    return features * (features + 1) // 2 + (features if with_mean else 0)


def in_ball(x: Floats, *, centre: Floats, unit: Floats) -> Floats:
    """(x - centre) / unit, cut to length 1 towards 0; NaN counts as the centre.

    >>> rows = np.array([[3.0, 4.0], [30.0, 40.0], [np.nan, 40.0]])
    >>> in_ball(rows, centre=np.zeros(2), unit=np.full(2, 10.0)).tolist()
    [[0.3, 0.4], [0.6, 0.8], [0.0, 1.0]]
    """
    with np.errstate(over="ignore", invalid="ignore"):
        rows = (x - centre) / unit
    np.clip(rows, -_FAR, _FAR, out=rows)
    np.copyto(rows, 0.0, where=np.isnan(rows))
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    rows /= np.maximum(lengths, 1.0)[:, None]
    return np.asarray(rows)


def ball_moments(
    x: Floats,
    *,
    centre: Floats,
    unit: Floats,
    with_mean: bool,
    budget: PureDP | ZCDP | GDP,
    bits: RandomBits,
) -> BallMoments:
    """The noisy moments of the rows of x, n x p, cut by `in_ball`; without the mean about 0.

    Source: docs/proofs/components.md, Theorem 1 (sensitivity); Hardt and Talwar 2010,
    arXiv:0907.3754, Remark 4.2 (spherical noise); Dwork, Talwar, Thakurta, Zhang 2014 (normal
    noise on the second moment).
    """
    n, p = x.shape
    length = length_of(p, with_mean=with_mean)
    weight = math.sqrt(2) if with_mean else 1.0

    def part(block: slice) -> Floats:
        here = in_ball(x[block], centre=centre, unit=unit)
        numbers = weight * packed(here.T @ here)
        return np.concatenate([here.sum(axis=0), numbers]) if with_mean else numbers

    longest = (Fraction(7, 4) if with_mean else Fraction(1)) * ROUNDED
    move = (Fraction(5, 2) if with_mean else ROOT_TWO) * ROUNDED
    move += slack(rows=n, size=length, row_bound=longest)
    exact = row_sum(part, rows=n, size=length, row_bound=longest)
    if isinstance(budget, PureDP):
        # Read as floats, both neighbors' sums are off by 2^-53 of their length at most.
        move += Fraction(n, 1 << 52) * longest
        round_noise = KNorm.for_guarantee(budget, norm=2, sensitivity=move, dimension=length)
        sums = np.array([math.ldexp(step, exact.unit_log2) for step in exact.steps])
        released = np.asarray(round_noise.release(sums, bits=bits), dtype=np.float64) / n
        event, deviation = round_noise.event, round_noise.standard_deviation / n
    else:
        noise = Gaussian.for_guarantee(gdp_budget(budget), l2_sensitivity=move)
        released = exact.released(noise, bits=bits) / n
        event, deviation = noise.event, noise.standard_deviation / n
    second = unpacked(released[-(p * (p + 1) // 2) :], p) / weight
    mean = released[:p] if with_mean else np.zeros(p)
    mean_noise = deviation if with_mean else 0.0
    about = second - np.outer(mean, mean) + mean_noise**2 * np.eye(p)
    return BallMoments(
        mean=mean,
        covariance=about * (n / max(n - 1, 1) if with_mean else 1.0),
        mean_noise=mean_noise,
        matrix_noise=deviation / weight,
        event=event,
    )


_CLEAR: Final = 2.0
"""A gap in sizes of its blur, from which on the directions on both sides are separate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spectrum:
    """The spectrum of released moments, direction by direction, the largest eigenvalue first.

    vectors: one a column; values: eigenvalues as they were released; variances: these, what noise
    and sample add to them on average taken out where the direction is distinct; sampling_error,
    privacy_error: of variances; distinct: whether both gaps around it are clear; angle_error: in
    radians; after: the gap below each in sizes of its blur; norm: of the noise alone.
    """

    vectors: Floats
    values: Floats
    variances: Floats
    sampling_error: Floats
    privacy_error: Floats
    distinct: Floats
    angle_error: Floats
    after: Floats
    norm: float


def spectrum(found: BallMoments, *, rows: int) -> Spectrum:
    """The spectrum of a released covariance of so many rows; no further release.

    Source: docs/proofs/components.md, section 3; Anderson 2003, section 13.5 (sampling errors of
    a normal population); Weyl 1912 (an eigenvalue moves by no more than the norm of the noise).

    >>> from unacorda.privacy import events
    >>> released = BallMoments(
    ...     mean=np.zeros(2),
    ...     covariance=np.diag([0.1, 0.4]),
    ...     mean_noise=0.0,
    ...     matrix_noise=0.01,
    ...     event=events.Pure(epsilon=1),
    ... )
    >>> found = spectrum(released, rows=10**6)
    >>> found.values.round(6).tolist(), found.distinct.tolist(), found.privacy_error.tolist()
    ([0.4, 0.1], [True, True], [0.01, 0.01])
    """
    values, vectors = (array[..., ::-1] for array in np.linalg.eigh(found.covariance))
    size = values.size
    # The largest number of each direction is positive, so that its sign is determined.
    largest = vectors[np.abs(vectors).argmax(axis=0), np.arange(size)]
    vectors = vectors * np.where(largest < 0, -1.0, 1.0)

    mean = (vectors.T @ found.mean) ** 2
    crossed = found.mean_noise**2 * (mean[:, None] + mean)
    private = found.matrix_noise**2 / 2 + crossed
    positive = np.maximum(values, 0.0)
    sampled = np.outer(positive, positive) / rows
    norm = math.hypot(
        found.matrix_noise * math.sqrt(2 * size),
        2 * found.mean_noise * math.sqrt(size * float(mean.sum())),
    )

    drawn = 2 * np.sqrt(positive * positive.sum() / rows)
    blur = np.hypot(norm, drawn)
    gaps = values[:-1] - values[1:]
    after = np.append(gaps / np.maximum(blur[:-1], 1e-300), math.inf)
    before = np.insert(gaps / np.maximum(blur[1:], 1e-300), 0, math.inf)
    distinct = np.minimum(after, before) >= _CLEAR

    apart = values[:, None] - values
    np.fill_diagonal(apart, math.inf)
    apart[apart == 0.0] = 1e-300  # never of a distinct direction
    with np.errstate(over="ignore"):
        added = ((private + sampled) / apart).sum(axis=1)
        turned = np.sqrt(((private + sampled) / apart**2).sum(axis=1))
    own = np.sqrt(found.matrix_noise**2 + 2 * crossed.diagonal())
    return Spectrum(
        vectors=vectors,
        values=values,
        variances=np.maximum(np.where(distinct, values - added, values), 0.0),
        sampling_error=np.where(distinct, positive * math.sqrt(2 / rows), drawn),
        privacy_error=np.where(distinct, own, norm),
        distinct=distinct,
        angle_error=np.where(distinct, np.minimum(turned, math.pi / 2), math.pi / 2),
        after=after,
        norm=norm,
    )
