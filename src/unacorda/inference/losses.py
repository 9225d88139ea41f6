r"""Losses of a prediction, with the constants that privacy and convergence hang on.

A loss is a function of (prediction, target). `score_bound` bounds the derivative by the
prediction: it is the Lipschitz constant of the loss, and times the length of a record's features
the most that one record adds to a gradient. `curvature_bound` bounds the second derivative: the
Lipschitz constant of the score. `self_concordance` is the least K with |third derivative| <=
K * second derivative everywhere (Sun and Tran-Dinh 2019, arXiv:1703.04599, Definition 2, of order
2), None where there is none; with it Newton's steps converge from everywhere, damped.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from scipy.special import expit

from unacorda import checks
from unacorda.errors import InvalidParameter
from unacorda.inference.records import Floats

__all__ = [
    "Check",
    "Huber",
    "LogCosh",
    "Logistic",
    "Loss",
    "Poisson",
    "SmoothedHuber",
    "Tukey",
]


class Loss(Protocol):
    """What an estimator asks of a loss; each function takes and gives float64 arrays.

    The loss itself is not asked for: psi, its derivative, may stand alone.
    """

    @property
    def score_bound(self) -> float:
        """At least |score| at every prediction and target."""
        ...

    @property
    def curvature_bound(self) -> float:
        """At least the curvature at every prediction and target."""
        ...

    def score(self, prediction: Floats, target: Floats) -> Floats:
        """The derivative of the loss by the prediction."""
        ...

    def curvature(self, prediction: Floats, target: Floats) -> Floats:
        """The derivative of the score by the prediction; with negative ones `convex = False`."""
        ...


@dataclass(frozen=True, slots=True)
class Huber:
    """r^2 / 2 up to |r| = c, then a straight line; r = target - prediction.

    c: above 0, in the unit of the target; 1.345 deviations have 95 % of the efficiency of least
    squares under normal errors. Source: Huber 1964.

    >>> Huber(1.0).score(np.array([0.0]), np.array([0.5, 3.0])).tolist()
    [-0.5, -1.0]
    """

    c: float
    self_concordance: ClassVar[float | None] = None

    def __post_init__(self) -> None:
        checks.positive(c=self.c)

    @property
    def score_bound(self) -> float:
        """The bound c of the residuals that count."""
        return self.c

    @property
    def curvature_bound(self) -> float:
        """1."""
        return 1.0

    def value(self, prediction: Floats, target: Floats) -> Floats:
        """The loss itself."""
        size = np.abs(target - prediction)
        near = np.minimum(size, self.c)
        return near * (size - near / 2)

    def score(self, prediction: Floats, target: Floats) -> Floats:
        """Its derivative by the prediction."""
        return -np.clip(target - prediction, -self.c, self.c)

    def curvature(self, prediction: Floats, target: Floats) -> Floats:
        """Its second derivative, 1 up to c and 0 beyond."""
        return np.asarray(np.abs(target - prediction) <= self.c, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class SmoothedHuber:
    """c^2 (sqrt(1 + (r / c)^2) - 1): like r^2 / 2 near 0, like c |r| far away, smooth everywhere.

    c: above 0, in the unit of the target. Source: Charbonnier and others 1994 (pseudo-Huber).

    >>> round(float(SmoothedHuber(2.0).value(np.array(0.0), np.array(0.01))), 8)
    5e-05
    """

    c: float

    def __post_init__(self) -> None:
        checks.positive(c=self.c)

    @property
    def score_bound(self) -> float:
        """The bound c of the residuals that count."""
        return self.c

    @property
    def curvature_bound(self) -> float:
        """1."""
        return 1.0

    @property
    def self_concordance(self) -> float:
        """3 / (2 c): |third| / second = 3 |u| / (c (1 + u^2)), u = r / c, is largest at u = 1."""
        return 1.5 / self.c

    def value(self, prediction: Floats, target: Floats) -> Floats:
        """The loss itself."""
        u = (target - prediction) / self.c
        # sqrt(1 + u^2) - 1 without cancellation near 0.
        value: Floats = self.c**2 * u * (u / (1 + np.hypot(1.0, u)))
        return value

    def score(self, prediction: Floats, target: Floats) -> Floats:
        """Its derivative by the prediction."""
        u = np.clip((target - prediction) / self.c, -1e100, 1e100)
        score: Floats = -self.c * np.clip(u / np.hypot(1.0, u), -1.0, 1.0)
        return score

    def curvature(self, prediction: Floats, target: Floats) -> Floats:
        """Its second derivative."""
        return np.asarray(np.hypot(1.0, (target - prediction) / self.c) ** -3.0)


@dataclass(frozen=True, slots=True)
class LogCosh:
    """c^2 log cosh(r / c): like r^2 / 2 near 0, like c |r| far away.

    c: above 0, in the unit of the target.

    >>> LogCosh(1.0).score(np.array(0.0), np.array(1e9))
    np.float64(-1.0)
    """

    c: float

    def __post_init__(self) -> None:
        checks.positive(c=self.c)

    @property
    def score_bound(self) -> float:
        """The bound c of the residuals that count."""
        return self.c

    @property
    def curvature_bound(self) -> float:
        """1."""
        return 1.0

    @property
    def self_concordance(self) -> float:
        """2 / c: third / second = -2 tanh(r / c) / c."""
        return 2 / self.c

    def value(self, prediction: Floats, target: Floats) -> Floats:
        """The loss itself."""
        u = np.abs(target - prediction) / self.c
        return self.c**2 * (u + np.log1p(np.exp(-2 * u)) - math.log(2))

    def score(self, prediction: Floats, target: Floats) -> Floats:
        """Its derivative by the prediction."""
        return -self.c * np.tanh((target - prediction) / self.c)

    def curvature(self, prediction: Floats, target: Floats) -> Floats:
        """Its second derivative, 1 / cosh(r / c)^2."""
        falling = np.exp(-np.abs(target - prediction) / self.c)
        return np.asarray((2 * falling / (1 + falling**2)) ** 2)


@dataclass(frozen=True, slots=True)
class Tukey:
    """c^2 (1 - (1 - (r / c)^2)^3) / 6 up to |r| = c, constant beyond: far outliers do not count.

    c: above 0, in the unit of the target; 4.685 deviations have 95 % of the efficiency of least
    squares under normal errors. Not convex: the curvature is negative from |r| = c / sqrt 5 on,
    so that a fit has to begin near its end. Source: Beaton and Tukey 1974.

    >>> Tukey(1.0).score(np.array(0.0), np.array([5.0, -5.0])).tolist()
    [-0.0, 0.0]
    """

    c: float
    self_concordance: ClassVar[float | None] = None
    convex: ClassVar[bool] = False

    def __post_init__(self) -> None:
        checks.positive(c=self.c)

    @property
    def score_bound(self) -> float:
        """16 c / (25 sqrt 5), reached at |r| = c / sqrt 5, rounded up."""
        return math.nextafter(16 / (25 * math.sqrt(5)), 1.0) * self.c * (1 + 2**-50)

    @property
    def curvature_bound(self) -> float:
        """1, reached at 0; at least -4/5."""
        return 1.0

    def _rest(self, prediction: Floats, target: Floats) -> tuple[Floats, Floats]:
        u = np.clip((target - prediction) / self.c, -1.0, 1.0)
        return u, (1 - u) * (1 + u)

    def value(self, prediction: Floats, target: Floats) -> Floats:
        """The loss itself."""
        _, rest = self._rest(prediction, target)
        return self.c**2 * (1 - rest**3) / 6

    def score(self, prediction: Floats, target: Floats) -> Floats:
        """Its derivative by the prediction."""
        u, rest = self._rest(prediction, target)
        return -self.c * u * rest**2

    def curvature(self, prediction: Floats, target: Floats) -> Floats:
        """Its second derivative, of either sign."""
        u, rest = self._rest(prediction, target)
        return rest * (1 - 5 * u**2)


@dataclass(frozen=True, slots=True)
class Logistic:
    """log(1 + e^prediction) - target * prediction, target 0 or 1 (others are cut to [0, 1]).

    The score is the probability less the target: within [-1, 1]. Source: Bach 2010 (K = 1).

    >>> Logistic().score(np.array([0.0]), np.array([1.0]))
    array([-0.5])
    """

    score_bound: ClassVar[float] = 1.0
    curvature_bound: ClassVar[float] = 0.25
    self_concordance: ClassVar[float] = 1.0

    def value(self, prediction: Floats, target: Floats) -> Floats:
        """The loss itself."""
        return np.logaddexp(0.0, prediction) - np.clip(target, 0.0, 1.0) * prediction

    def score(self, prediction: Floats, target: Floats) -> Floats:
        """Its derivative by the prediction."""
        return np.asarray(expit(prediction)) - np.clip(target, 0.0, 1.0)

    def curvature(self, prediction: Floats, target: Floats) -> Floats:  # noqa: ARG002
        """Its second derivative, p (1 - p)."""
        p: Floats = expit(-np.abs(prediction))
        return p * (1 - p)


@dataclass(frozen=True, slots=True)
class Poisson:
    """e^prediction - target * prediction, counts and means cut at `most`.

    most: above 0, public: the largest count (and mean) that is believed in. As long as neither a
    count nor a mean is above it, the estimate is the usual one; without such a cut one person
    could move the sum by any amount. steady: rows with a mean above it get the weight steady /
    mean, so that no curvature is above it. The weight hangs on the features alone, and the score
    has mean 0 at the truth as before; `most` or more weights nobody.

    >>> Poisson(50.0).score(np.array([0.0, 900.0]), np.array([3.0, 3.0])).tolist()
    [-2.0, 47.0]
    >>> Poisson(50.0, steady=5.0).score(np.array([0.0, 900.0]), np.array([3.0, 3.0])).tolist()
    [-2.0, 4.7]
    """

    most: float
    steady: float = math.inf
    self_concordance: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        checks.positive(most=self.most)
        if not self.steady > 0:
            raise InvalidParameter("steady", self.steady, expected="a number above 0")

    @property
    def score_bound(self) -> float:
        """The largest count."""
        return self.most

    @property
    def curvature_bound(self) -> float:
        """The largest mean, or `steady`."""
        return min(self.most, self.steady)

    def _mean(self, prediction: Floats) -> Floats:
        limit = math.log(self.most)
        below = np.minimum(np.exp(np.minimum(prediction, limit)), self.most)
        return np.asarray(np.where(prediction < limit, below, self.most), dtype=np.float64)

    def value(self, prediction: Floats, target: Floats) -> Floats:
        """The loss itself, a straight line from the prediction log(most) on."""
        top, bend = math.log(self.most), math.log(self.curvature_bound)
        counts, least = np.clip(target, 0.0, self.most), self.curvature_bound
        near, far = np.minimum(prediction, bend), np.clip(prediction, bend, top)
        whole = np.exp(near) - counts * near
        weighted = least * (far - bend) + counts * np.expm1(bend - far)
        over = np.maximum(prediction - top, 0.0) * least * (1 - counts / self.most)
        return np.asarray(whole + weighted + over)

    def score(self, prediction: Floats, target: Floats) -> Floats:
        """Its derivative by the prediction."""
        mean = self._mean(prediction)
        off = mean - np.clip(target, 0.0, self.most)
        if self.steady < self.most:
            off *= self.steady / np.maximum(mean, self.steady)
        return off

    def curvature(self, prediction: Floats, target: Floats) -> Floats:  # noqa: ARG002
        """The mean of its second derivative, where means are true and below `most`."""
        return np.minimum(self._mean(prediction), self.curvature_bound)


@dataclass(frozen=True, slots=True)
class Check:
    """The loss of a quantile, r (tau - 1[r < 0]), smoothed by a kernel (1 - u^2)^2 on [-1, 1].

    tau: the quantile, in (0, 1); bandwidth: above 0, in the unit of the target: the deviation of
    the kernel. It is made of sums and products alone, which are the same everywhere.
    Source: Fernandes, Guerre, Horta 2021 (convolution smoothing).

    >>> Check(0.9, bandwidth=0.1).score(np.array(0.0), np.array([5.0, -5.0])).round(9).tolist()
    [-0.9, 0.1]
    """

    tau: float
    bandwidth: float
    self_concordance: ClassVar[float | None] = None

    def __post_init__(self) -> None:
        checks.positive(bandwidth=self.bandwidth)
        if not 0 < self.tau < 1:
            raise InvalidParameter("tau", self.tau, expected="strictly between 0 and 1")

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

    def value(self, prediction: Floats, target: Floats) -> Floats:
        """The loss itself."""
        residual = target - prediction
        u = np.clip(residual / self.reach, -1.0, 1.0)
        s = u * u
        bent = u / 2 + (15 * s - 5 * s * s + s * s * s + 5) / 32
        beyond = np.maximum(residual - self.reach, 0.0)
        return np.asarray(self.reach * bent + beyond + residual * (self.tau - 1))

    def score(self, prediction: Floats, target: Floats) -> Floats:
        """Its derivative by the prediction."""
        u = np.clip((prediction - target) / self.reach, -1.0, 1.0)
        s = u * u
        below = 0.5 + u * (15 - s * (10 - 3 * s)) / 16
        return np.asarray(np.clip(below - self.tau, -self.tau, 1 - self.tau))

    def curvature(self, prediction: Floats, target: Floats) -> Floats:
        """Its second derivative: the kernel's height at the target."""
        u = np.clip((prediction - target) / self.reach, -1.0, 1.0)
        rest = 1 - u * u
        return np.asarray(15 / (16 * self.reach) * (rest * rest))
