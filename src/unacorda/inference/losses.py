r"""Losses of a prediction, with the constants that privacy and convergence depend on.

A loss is a function of (prediction, target). `score_bound` bounds the derivative by the prediction,
so it is the Lipschitz constant of the loss. Times the length of a record's features it bounds what
one record adds to a gradient. `curvature_bound` bounds the second derivative; it is the Lipschitz
constant of the score. The loss itself is not needed.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from unacorda import checks
from unacorda.inference.expressions import exp
from unacorda.inference.records import Floats

_FAR = 1e60
"""Residuals are clipped here, in units of the loss, so that their squares stay finite."""


class Loss(Protocol):
    """A loss for estimators; each function takes and returns float64 arrays.

    The loss itself is not needed; its derivative psi suffices. Functions that use only operators
    and NumPy's abs, sqrt, square, exp, tanh, sign, minimum, maximum, clip and where can also be
    fitted to tables: called with symbols, they give SQL.

    Examples
    --------
    >>> loss: Loss = Huber(1.0)
    >>> loss.score_bound, loss.curvature_bound
    (1.0, 1.0)
    """

    __slots__ = ()

    @property
    def score_bound(self) -> float:
        """At least |score| at every prediction and target."""
        ...

    @property
    def curvature_bound(self) -> float:
        """At least the curvature at every prediction and target."""
        ...

    def score(self, prediction: Floats, target: Floats) -> Floats:
        """Return the derivative of the loss by the prediction.

        Parameters
        ----------
        prediction, target
            One number per row.

        Returns
        -------
        ndarray
            One number per row.
        """
        ...

    def curvature(self, prediction: Floats, target: Floats) -> Floats:
        """Return the derivative of the score by the prediction.

        Parameters
        ----------
        prediction, target
            One number per row.

        Returns
        -------
        ndarray
            One number per row; where some may be negative, `convex = False`.
        """
        ...


@dataclass(frozen=True, slots=True)
class _OfResiduals(Loss):
    """A loss of r = target - prediction, like r^2 / 2 near 0; c: above 0, in the target's unit."""

    c: float

    def __post_init__(self) -> None:
        checks.positive(c=self.c)

    @property
    def score_bound(self) -> float:
        """The bound c of the residuals that count."""
        return self.c

    @property
    def curvature_bound(self) -> float:
        """1, reached at 0."""
        return 1.0


@dataclass(frozen=True, slots=True)
class Huber(_OfResiduals):
    """r^2 / 2 up to |r| = c, then a straight line; r = target - prediction.

    Source: Huber 1964.

    Parameters
    ----------
    c
        Above 0, in the unit of the target. 1.345 standard deviations have 95 % of the efficiency of
        least squares under normal errors.

    Raises
    ------
    InvalidParameter
        For a number that is not above 0.

    Examples
    --------
    >>> Huber(1.0).score(np.array([0.0]), np.array([0.5, 3.0])).tolist()
    [-0.5, -1.0]
    """

    def score(self, prediction: Floats, target: Floats) -> Floats:
        """Return the derivative by the prediction."""
        return -np.clip(target - prediction, -self.c, self.c)

    def curvature(self, prediction: Floats, target: Floats) -> Floats:
        """Return the second derivative, 1 up to c and 0 beyond."""
        return np.where(np.abs(target - prediction) <= self.c, 1.0, 0.0)


@dataclass(frozen=True, slots=True)
class SmoothedHuber(_OfResiduals):
    """c^2 (sqrt(1 + (r / c)^2) - 1): like r^2 / 2 near 0, like c |r| far away, smooth everywhere.

    Source: Charbonnier and others 1994 (pseudo-Huber).

    Parameters
    ----------
    c
        Above 0, in the unit of the target.

    Raises
    ------
    InvalidParameter
        For a number that is not above 0.

    Examples
    --------
    >>> SmoothedHuber(1.0).score(np.array(0.0), np.array(1.0)).round(3)
    np.float64(-0.707)
    """

    def score(self, prediction: Floats, target: Floats) -> Floats:
        """Return the derivative by the prediction."""
        u = np.clip((target - prediction) / self.c, -_FAR, _FAR)
        score: Floats = -self.c * np.clip(u / np.sqrt(1 + u * u), -1.0, 1.0)
        return score

    def curvature(self, prediction: Floats, target: Floats) -> Floats:
        """Return the second derivative."""
        u = np.clip((target - prediction) / self.c, -_FAR, _FAR)
        square = 1 + u * u
        curvature: Floats = 1 / (square * np.sqrt(square))
        return curvature


@dataclass(frozen=True, slots=True)
class LogCosh(_OfResiduals):
    """c^2 log cosh(r / c): like r^2 / 2 near 0, like c |r| far away.

    Parameters
    ----------
    c
        Above 0, in the unit of the target.

    Raises
    ------
    InvalidParameter
        For a number that is not above 0.

    Examples
    --------
    >>> LogCosh(1.0).score(np.array(0.0), np.array(1e9))
    np.float64(-1.0)
    """

    def score(self, prediction: Floats, target: Floats) -> Floats:
        """Return the derivative by the prediction."""
        return -self.c * np.tanh((target - prediction) / self.c)

    def curvature(self, prediction: Floats, target: Floats) -> Floats:
        """Return the second derivative, 1 / cosh(r / c)^2."""
        falling = exp(-np.abs((target - prediction) / self.c))
        curvature: Floats = np.square(2 * falling / (1 + falling * falling))
        return curvature


@dataclass(frozen=True, slots=True)
class Tukey(_OfResiduals):
    """c^2 (1 - (1 - (r / c)^2)^3) / 6 up to |r| = c, constant beyond: outliers have no influence.

    It is not convex: the curvature is negative from |r| = c / sqrt 5 on, so a fit must start near
    the solution.

    Source: Beaton and Tukey 1974.

    Parameters
    ----------
    c
        Above 0, in the unit of the target. 4.685 standard deviations have 95 % of the efficiency of
        least squares under normal errors.

    Raises
    ------
    InvalidParameter
        For a number that is not above 0.

    Examples
    --------
    >>> Tukey(1.0).score(np.array(0.0), np.array([5.0, -5.0])).tolist()
    [-0.0, 0.0]
    """

    convex: ClassVar[bool] = False

    @property
    def score_bound(self) -> float:
        """16 c / (25 sqrt 5), reached at |r| = c / sqrt 5, rounded up."""
        return math.nextafter(16 / (25 * math.sqrt(5)), 1.0) * self.c * (1 + 2**-50)

    def _rest(self, prediction: Floats, target: Floats) -> tuple[Floats, Floats]:
        u = np.clip((target - prediction) / self.c, -1.0, 1.0)
        return u, (1 - u) * (1 + u)

    def score(self, prediction: Floats, target: Floats) -> Floats:
        """Return the derivative by the prediction."""
        u, rest = self._rest(prediction, target)
        return -self.c * u * rest**2

    def curvature(self, prediction: Floats, target: Floats) -> Floats:
        """Return the second derivative, of either sign."""
        u, rest = self._rest(prediction, target)
        return rest * (1 - 5 * u**2)


@dataclass(frozen=True, slots=True)
class Logistic(Loss):
    """log(1 + e^prediction) - target * prediction, target 0 or 1 (others are clamped to [0, 1]).

    The score is the probability less the target: within [-1, 1]. Source: Bach 2010 (K = 1).

    >>> Logistic().score(np.array([0.0]), np.array([1.0]))
    array([-0.5])
    """

    score_bound = 1.0
    curvature_bound = 0.25

    def score(self, prediction: Floats, target: Floats) -> Floats:
        """Return the derivative by the prediction."""
        odds = exp(prediction)
        score: Floats = odds / (1 + odds) - np.clip(target, 0.0, 1.0)
        return score

    def curvature(self, prediction: Floats, target: Floats) -> Floats:  # noqa: ARG002
        """Return the second derivative, p (1 - p)."""
        odds = exp(prediction)
        curvature: Floats = odds / (1 + odds) / (1 + odds)
        return curvature


@dataclass(frozen=True, slots=True)
class Poisson(Loss):
    """e^prediction - target * prediction, counts and means clipped at `most`.

    Parameters
    ----------
    most
        Public, above 0: the largest plausible count (and mean). If neither counts nor means exceed
        it, the estimate is the usual one. Without such a bound one person could change the sum by
        any amount.

    Raises
    ------
    InvalidParameter
        For a number that is not above 0.

    Examples
    --------
    >>> Poisson(50.0).score(np.array([0.0, 900.0]), np.array([3.0, 3.0])).tolist()
    [-2.0, 47.0]
    """

    most: float

    def __post_init__(self) -> None:
        checks.positive(most=self.most)

    @property
    def score_bound(self) -> float:
        """The largest count."""
        return self.most

    @property
    def curvature_bound(self) -> float:
        """The largest mean."""
        return self.most

    def score(self, prediction: Floats, target: Floats) -> Floats:
        """Return the derivative by the prediction."""
        score: Floats = np.minimum(exp(prediction), self.most) - np.clip(target, 0.0, self.most)
        return score

    def curvature(self, prediction: Floats, target: Floats) -> Floats:  # noqa: ARG002
        """Return the fitted mean, and 0 where that is above `most`: the score is flat there."""
        mean = exp(prediction)
        curvature: Floats = np.where(mean < self.most, mean, 0.0)
        return curvature


@dataclass(frozen=True, slots=True)
class Check(Loss):
    """The loss of a quantile, r (tau - 1[r < 0]), smoothed by a kernel (1 - u^2)^2 on [-1, 1].

    It uses only sums and products, which are the same on every machine.

    Source: Fernandes, Guerre, Horta 2021 (convolution smoothing).

    Parameters
    ----------
    tau
        The quantile, between 0 and 1.
    bandwidth
        The standard deviation of the kernel, above 0, in the unit of the target.

    Raises
    ------
    InvalidParameter
        For numbers out of their range.

    Examples
    --------
    >>> Check(0.9, bandwidth=0.1).score(np.array(0.0), np.array([5.0, -5.0])).round(9).tolist()
    [-0.9, 0.1]
    """

    tau: float
    bandwidth: float

    def __post_init__(self) -> None:
        checks.positive(bandwidth=self.bandwidth)
        checks.demand(0 < self.tau < 1, "tau", self.tau, expected="strictly between 0 and 1")

    @property
    def reach(self) -> float:
        """Half the width of the kernel, whose deviation is 1 / sqrt 7 of it."""
        return self.bandwidth * math.sqrt(7)

    @property
    def score_bound(self) -> float:
        """The larger of tau and 1 - tau."""
        return max(self.tau, 1 - self.tau)

    @property
    def curvature_bound(self) -> float:
        """The kernel's height, 15 / (16 reach), rounded up."""
        return (1 + 2**-50) * 15 / (16 * self.reach)

    def score(self, prediction: Floats, target: Floats) -> Floats:
        """Return the derivative by the prediction."""
        u = np.clip((prediction - target) / self.reach, -1.0, 1.0)
        s = u * u
        below = 0.5 + u * (15 - s * (10 - 3 * s)) / 16
        return np.clip(below - self.tau, -self.tau, 1 - self.tau)

    def curvature(self, prediction: Floats, target: Floats) -> Floats:
        """Return the second derivative: the kernel's height at the target."""
        u = np.clip((prediction - target) / self.reach, -1.0, 1.0)
        rest = 1 - u * u
        curvature: Floats = 15 / (16 * self.reach) * (rest * rest)
        return curvature
