r"""Regression under local privacy: each person sends one report, in one of some rounds.

People are dealt out to rounds at random. Some report the second moments of their features, which
set the length of careful first steps; others report the curvature near the end, and the last
rounds take Newton's steps with it, whose ends are averaged. Standard errors come from that
curvature and from how the gradients' reports scatter. docs/proofs/regression.md, section 8.

A device knows its own features and target and public facts: bounds, the loss and, from the
server, the coefficients so far. It sends one vector in a ball, randomized, and never another.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import checks, elements
from unacorda.bits import RandomBits, source_of
from unacorda.errors import InvalidParameter
from unacorda.inference.contract import (
    BaseEstimator,
    count_fit,
    features,
    labels,
    paired,
    reading_notes,
)
from unacorda.inference.estimates.local import NoisyVector, VectorReports, vector_randomizer
from unacorda.inference.losses import Huber, Logistic, Loss, Poisson
from unacorda.inference.records import Floats, check_budget, public_size
from unacorda.inference.regression.covariance import HIDDEN_CURVATURE
from unacorda.inference.regression.m_estimation import checked_loss
from unacorda.inference.regression.results import (
    Intervals,
    LinearPredictor,
    ManyPeople,
    TwoClasses,
    two_classes,
)
from unacorda.inference.regression.rows import Scaling, scaling
from unacorda.inference.sums import Moment, floored, inverse_root, packed, unpacked
from unacorda.mechanisms.local.directions import Directions
from unacorda.privacy import events
from unacorda.privacy.guarantees import Guarantee

_EARLY: Final = [Fraction(part, 80) for part in (2, 2, 3, 4, 5)]
_LATE: Final = [Fraction(part, 80) for part in (7, 14, 19, 24)]
"""Shares of those who report gradients: in careful steps, then in Newton's steps."""

_MOMENT_NORM: Final = 0.15
_CURVATURE_NORM: Final = 0.08
"""Noise allowed in matrices, as an operator norm, against the bound of their mean."""

_NARROWEST: Final = 0.01
"""No second moment in any direction is taken to be less."""

_CAREFUL: Final = 1.25
"""Whitened features have second moments below 2, of which a step divided by this goes too far."""

_FEWEST: Final = 10
_LARGEST_NORM: Final = 0.5
_LONGEST: Final = 3.0
_SIGNAL: Final = 2.0
_FARTHEST: Final = 1.0
"""Logarithms of odds or means that change by more make the reported curvature another one."""
_LEAST: Final = 0.02
"""No mean curvature is taken to be below this share of the loss's bound."""


@dataclass(kw_only=True, eq=False, repr=False)
class _LocalRegression(Intervals, BaseEstimator):  # type: ignore[misc]
    """The fit that all of them share."""

    budget: Guarantee
    feature_bounds: tuple[ArrayLike, ArrayLike] | None = None
    bits: RandomBits | None = None

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
            self.cannot_ = (HIDDEN_CURVATURE,)
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


@dataclass(kw_only=True, eq=False, repr=False)
class _LocalLine(ManyPeople, LinearPredictor, _LocalRegression):
    """A local regression of numbers."""

    start: float = 0.0

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fits to one report per person, which spends their budget.

        Parameters
        ----------
        X
            Features, shape (n, p).
        y
            Targets, shape (n,).
        """
        loss, start = self._checked_loss(), checks.finite(start=self.start)
        x, target, _ = paired(self, X, y)
        parameters = self._fit_local(x, target, loss=loss, start=start)
        count_fit(self, self.guarantee_)
        self.notes_ = reading_notes(X, y)
        self.intercept_, self.coef_ = float(parameters[0]), parameters[1:]
        return self

    @abstractmethod
    def _checked_loss(self) -> Loss:
        """The loss of a fit; refuses wrong parameters."""


@dataclass(kw_only=True, eq=False, repr=False)
class LocalMEstimator(_LocalLine):
    r"""Fits the linear predictor that minimizes a mean loss, by one randomized report per person.

    A fit simulates the people: they are dealt out to rounds at random and each sends one report,
    through `unacorda.inference.regression.local.Device`, which is the code for their devices. It
    takes tens of thousands of people. Rows with a number that is not finite report nothing.

    Source: Duchi, Jordan, Wainwright 2018, arXiv:1604.02390, section 5 (one-pass local descent);
    Polyak and Juditsky 1992 (averages); docs/proofs/regression.md, section 8.

    Parameters
    ----------
    loss
        As for `MEstimator`; a loss whose curvature falls far below its bound, such as that of
        Poisson counts, needs many people.
    budget
        Any guarantee, kept for each person whatever becomes of their report.
    feature_bounds
        Public (lower, upper), each one number or one per feature, where most values lie.
    start
        A public prediction to begin from.
    bits
        Omit it for secure noise; `SeededBits` makes a fit reproducible, and not private.

    Attributes
    ----------
    coef_, intercept_
        The fit.
    sampling_error_, privacy_error_, covariance_
        Errors of the intercept, then the coefficients; where reports are directions the whole error
        counts as privacy error.
    cannot_
        The reason for infinite intervals, in words: noise hides the curvature, or classes or counts
        lie too far from the start.
    event_, guarantee_, diagnostics_
        The event is that of one person's report.

    Raises
    ------
    InvalidParameter
        For arguments that cannot be used, and for fewer people than the budget and the number of
        parameters need.

    Examples
    --------
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

    loss: Loss

    def _checked_loss(self) -> Loss:
        return checked_loss(self.loss)


@dataclass(kw_only=True, eq=False, repr=False)
class LocalLinearRegression(_LocalLine):
    r"""Fits a line to clipped residuals, by one randomized report per person.

    Parameters
    ----------
    residual_bound
        Public, in the unit of the target; larger residuals count as if they were this large. Some
        1.5 deviations of the errors serve well.
    start
        A public guess of the typical target, within some ten residual_bound of it.
    budget, feature_bounds, bits
        As for `LocalMEstimator`; attributes and errors too.

    Examples
    --------
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

    residual_bound: float | None = None

    def _checked_loss(self) -> Loss:
        return Huber(public_size(residual_bound=self.residual_bound))


@dataclass(kw_only=True, eq=False, repr=False)
class LocalLogisticRegression(ManyPeople, TwoClasses, _LocalRegression):
    r"""Fits a logistic regression by one randomized report per person.

    Rows with another label report nothing. `coef_` has shape (1, p) and `intercept_` shape (1,), as
    for `LogisticRegression`.

    Parameters
    ----------
    classes
        The two labels, public; the probability is that of the second.
    budget, feature_bounds, bits
        As for `LocalMEstimator`; attributes and errors too.

    Examples
    --------
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

    classes: tuple[Any, Any] = (0, 1)

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fits to one report per person, which spends their budget.

        Parameters
        ----------
        X
            Features, shape (n, p).
        y
            Labels, shape (n,).
        """
        check_budget(self.budget)
        classes = two_classes(self.classes)
        x = features(self, X, reset=True)
        target, known = labels(y, classes, rows=len(x))
        asked = np.where(known > 0, target, math.nan)
        parameters = self._fit_local(x, asked, loss=Logistic(), start=0.0)
        count_fit(self, self.guarantee_)
        self.notes_ = reading_notes(X, y, classes=classes)
        self.classes_ = classes
        self.intercept_, self.coef_ = parameters[:1], parameters[None, 1:]
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A device's reports, for any number of devices: rows of features x and targets y, one each.

    loss: of (prediction, target), as for `MEstimator`; scales: of the public bounds of features;
    budget: of the one report that a device sends; root: what the server has the scaled features
    multiplied by, which whitens them. Scores and curvatures are cut to the bounds that the loss
    states. Rows with a number that is not finite report a vector of length 0.
    """

    loss: Loss
    scales: Scaling
    budget: Guarantee
    root: Floats | None = None

    @property
    def event(self) -> events.Event:
        """The event of a person's one report, of whichever kind it is.

        Both kinds have normal noise of one multiplier, or directions of one epsilon; of these the
        one that separates vectors more often is as costly as the other at least.
        """
        either = (self.gradients.event, self.matrices.event)
        known = [one for one in either if isinstance(one, events.RandomizedResponse)]
        if len(known) == 2:
            return min(known, key=lambda one: one.categories)
        return next((one for one in either if isinstance(one, events.Pure)), either[0])

    @property
    def gradients(self) -> VectorReports:
        """Reports of a gradient, at most the typical length of a row times the score's bound."""
        radius = self._radius * Fraction(self.loss.score_bound)
        return vector_randomizer(size=self.scales.size, radius=radius, budget=self.budget)

    @property
    def matrices(self) -> VectorReports:
        """Reports of a matrix v a a', 0 <= v |a|^2 <= 1, about its centre."""
        d = self.scales.size
        size, radius = d * (d + 1) // 2, _root_up(1 - Fraction(1, d))
        like = self.gradients
        if isinstance(like, NoisyVector):
            return NoisyVector(size=size, radius=radius, noise_multiplier=like.noise_multiplier)
        return Directions(epsilon=like.epsilon, size=size, radius=radius)

    def gradient(
        self, x: ArrayLike, y: ArrayLike, *, theta: Floats, bits: RandomBits | None = None
    ) -> Floats:
        """Reports of the weighted gradients at theta, one row each, unbiased."""
        rows, weights, target = self._read(x, y)
        bound = self.loss.score_bound
        with np.errstate(all="ignore"):  # a warning would depend on the data
            score = self.loss.score(rows @ theta, target)
        weights = weights * np.clip(np.nan_to_num(score), -bound, bound)
        return np.asarray(self.gradients.release(rows * weights[:, None], bits=bits))

    def moment(self, x: ArrayLike, *, bits: RandomBits | None = None) -> Floats:
        """Reports of the weighted matrices of the features, packed, one row each, unbiased."""
        given = self._rows(x)
        rows, weights, _ = self._read(given, np.zeros(len(given)))
        return self._matrices(rows, weights, bits=bits)

    def curvature(
        self, x: ArrayLike, y: ArrayLike, *, theta: Floats, bits: RandomBits | None = None
    ) -> Floats:
        """Reports of the weighted curvatures at theta, over their bound, packed, unbiased.

        Negative ones count as 0.
        """
        rows, weights, target = self._read(x, y)
        bound = self.loss.curvature_bound
        with np.errstate(all="ignore"):  # a warning would depend on the data
            bent = self.loss.curvature(rows @ theta, target)
        share = np.clip(np.nan_to_num(bent), 0.0, bound) / bound
        return self._matrices(rows, weights * share, bits=bits)

    def matrix(self, reports: Floats) -> Floats:
        """The mean matrix of packed reports, in the unit of the rows."""
        return unpacked(reports.mean(axis=0), self.scales.size)

    def matrix_deviation(self, count: int) -> float:
        """About the deviation of a diagonal number of the mean matrix of so many reports."""
        return math.sqrt(self.matrices.variance / count) * float(self._radius**2)

    def _matrices(self, rows: Floats, weights: Floats, *, bits: RandomBits | None) -> Floats:
        d, square = self.scales.size, float(self._radius**2)
        upper = np.triu_indices(d)
        factor = np.where(upper[0] == upper[1], 1.0, math.sqrt(2)) / square
        centre = packed(np.eye(d)) / d  # of the least ball around all of them
        vectors = rows[:, upper[0]] * rows[:, upper[1]] * factor * weights[:, None]
        reports = np.asarray(self.matrices.release(vectors - centre, bits=bits))
        return (reports + centre) * square

    def _rows(self, x: ArrayLike) -> Floats:
        return elements.floats("x", x, dimensions=2, width=self.scales.size)

    def _read(self, x: ArrayLike, y: ArrayLike) -> tuple[Floats, Floats, Floats]:
        """Whitened rows, their weights and targets.

        The weight is min(1, radius^2 / |row|^2) (Mallows 1975), so that |weight row| <= radius.
        """
        given, target = self._rows(x), elements.floats("y", y, dimensions=1)
        present = np.isfinite(given).all(axis=1) & np.isfinite(target)
        rows = self.scales.rows(given, present.astype(np.float64))
        if self.root is not None:
            rows = rows @ self.root
        square = float(self._radius**2)
        weights = square / np.maximum(np.einsum("ij,ij->i", rows, rows), square)
        return rows, weights, np.where(present, target, 0.0)

    @property
    def _radius(self) -> Fraction:
        """About the length of a typical row: sqrt(size), as a short fraction."""
        return Fraction(math.ceil(math.sqrt(self.scales.size) * 64), 64)


def _root_up(square: Fraction) -> Fraction:
    scale = 10**12
    return Fraction(math.isqrt(int(square * scale**2)) + 1, scale)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalErrors:
    """Covariances of the scaled coefficients: of all of it, and of sampling alone; the signal."""

    total: Floats
    sampling: Floats
    signal: float


class _Taken(NamedTuple):
    """A late step: how many reported gradients, its length, and the squares of their reports."""

    people: int
    length: float
    squares: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalFit:
    """The server's side: x and y are asked through the device alone, each row once."""

    device: Device
    x: Floats
    y: Floats
    groups: list[NDArray[np.int64]]
    bits: RandomBits

    def run(self, start: Floats) -> tuple[Floats, LocalErrors]:
        """The scaled coefficients and their errors."""
        moment = self._moment(self.device.moment(self.x[self.groups[0]], bits=self.bits))
        root = inverse_root(moment.matrix, max(_NARROWEST, moment.norm))
        white = replace(self, device=replace(self.device, root=root))
        first: Floats = np.asarray(np.linalg.solve(root, start), dtype=np.float64)
        theta, errors = white.descend(first)
        return root @ theta, LocalErrors(
            total=root @ errors.total @ root.T,
            sampling=root @ errors.sampling @ root.T,
            signal=errors.signal,
        )

    def descend(self, theta: Floats) -> tuple[Floats, LocalErrors]:
        """From here on in whitened coefficients, by all groups but the first."""
        early = len(_EARLY)
        bound = self.device.loss.curvature_bound
        longest = _LONGEST * (self.device.loss.score_bound / bound)
        for group in self._some(self.groups[1 : 1 + early]):
            way = self._gradients(group, theta).mean(axis=0) / (_CAREFUL * bound)
            way *= min(1.0, longest / max(float(np.linalg.norm(way)), 1e-300))
            theta = theta - way
        group = self.groups[1 + early]
        reports = self.device.curvature(self.x[group], self.y[group], theta=theta, bits=self.bits)
        found = self._moment(reports)
        least = max(_LEAST, math.sqrt(2) * found.norm)
        inverse: Floats = np.asarray(
            np.linalg.inv(bound * floored(found.matrix, least)), np.float64
        )
        taken: list[_Taken] = []
        near, people = theta, 0
        for place, group in enumerate(self._some(self.groups[2 + early :])):
            reports = self._gradients(group, theta)
            # the first step goes most of the way
            people = len(group) + (people if place > 1 else 0)
            length, mean = len(group) / people, reports.mean(axis=0)
            taken.append(_Taken(len(group), length, (reports - mean).T @ (reports - mean)))
            theta = theta - length * (inverse @ mean)
        errors = self._errors(found, inverse, taken)
        if isinstance(self.device.loss, Logistic | Poisson):
            # Newton's steps fall short then, as they do wherever classes are separated.
            moved = max(float(np.linalg.norm(theta - near)), 1e-300)
            errors = replace(errors, signal=min(errors.signal, _SIGNAL * _FARTHEST / moved))
        return theta, errors

    def _errors(self, found: Moment, inverse: Floats, taken: list[_Taken]) -> LocalErrors:
        size = self.device.scales.size
        signal = float(np.linalg.eigvalsh(found.matrix)[0]) / found.norm
        bent = self.device.loss.curvature_bound * floored(found.matrix, max(_LEAST, found.norm))
        free = sum(one.people - 1 for one in taken)
        scatter: Floats = sum((one.squares for one in taken), np.zeros((size, size))) / max(free, 1)
        noise = min(self.device.gradients.variance, float(np.trace(scatter)) / size)
        own = floored(scatter - noise * np.eye(size), 0.0)
        total, sampling = np.zeros((size, size)), np.zeros((size, size))
        for one in taken:
            step = one.length * inverse
            left = np.eye(size) - step @ bent
            total = left @ total @ left.T + step @ scatter @ step.T / one.people
            sampling = left @ sampling @ left.T + step @ own @ step.T / one.people
        return LocalErrors(total=total, sampling=sampling, signal=signal)

    @staticmethod
    def _some(groups: list[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
        """The groups that are not empty; of few people not every round gets one."""
        return [group for group in groups if len(group)]

    def _moment(self, reports: Floats) -> Moment:
        return Moment(
            matrix=self.device.matrix(reports),
            deviation=self.device.matrix_deviation(len(reports)),
        )

    def _gradients(self, group: NDArray[np.int64], theta: Floats) -> Floats:
        return self.device.gradient(self.x[group], self.y[group], theta=theta, bits=self.bits)


def shares(device: Device, people: int, *, asked: Guarantee) -> list[Fraction]:
    """The share of the people in each round, by public numbers alone.

    InvalidParameter for too few people: where a round would be empty, or noise hide the matrices.
    """
    size, few = device.scales.size, math.ceil(100 / people)  # one of few people at least
    if people < _FEWEST:
        raise InvalidParameter(
            "X", f"n_samples={people}", expected=f"{_FEWEST} people or more, some for each round"
        )
    norm = device.matrix_deviation(people) * math.sqrt(2 * size)  # if all of them reported it
    moment = _share(norm / _MOMENT_NORM, least=max(4, few), most=12)
    curvature = _share(norm / _CURVATURE_NORM, least=max(8, few), most=30)
    if norm / math.sqrt(curvature) > _LARGEST_NORM:
        times = (norm / math.sqrt(curvature) / _LARGEST_NORM) ** 2
        raise InvalidParameter(
            "budget",
            asked,
            expected=f"a larger one, or {math.ceil(times * 10) / 10:g} times the people (here "
            f"n_samples={people}, for {size} parameters): noise would hide the curvature",
        )
    rest = 1 - moment - curvature
    return [moment, *(rest * part for part in _EARLY), curvature, *(rest * one for one in _LATE)]


def dealt(parts: list[Fraction], people: int, *, bits: RandomBits) -> list[NDArray[np.int64]]:
    """The people of each round, dealt out at random, each to one round."""
    order = np.argsort(bits.words(people), kind="stable")
    ends = [math.floor(sum(parts[: place + 1]) * people) for place in range(len(parts))]
    return [order[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]


def _share(root: float, *, least: int, most: int) -> Fraction:
    """The square of the root in whole percents, between two of them."""
    return Fraction(min(max(math.ceil(min(root, 1.0) ** 2 * 100), least), most), 100)
