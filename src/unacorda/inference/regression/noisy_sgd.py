r"""Noisy stochastic gradient descent: clipped gradients of random batches, with noise.

It needs no bound of the loss, and serves for comparison. Clipping changes the equations that the
coefficients solve, so they converge to another point; docs/regression-tables.md shows by how much.
The other estimators weight rows instead.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import ArrayLike

from unacorda import accounting, checks
from unacorda.bits import RandomBits, source_of
from unacorda.errors import InvalidParameter
from unacorda.inference.contract import BaseEstimator, PrivateEstimator, count_fit, paired
from unacorda.inference.losses import Loss
from unacorda.inference.records import Floats, check_budget, takes_normal_noise
from unacorda.inference.regression.results import LinearPredictor, ManyPeople
from unacorda.inference.regression.rows import scaling
from unacorda.mechanisms.additive.real import Gaussian
from unacorda.mechanisms.contributions import clip_rows
from unacorda.privacy import events
from unacorda.privacy.guarantees import GDP, Guarantee
from unacorda.privacy.neighbors import ReplaceOne

_WORDS: Final = 1 << 64
_FINE: Final = 28
_MOST_STEPS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Squared:
    """r^2 / 2, r = target - prediction: least squares. Only clipping bounds its score.

    >>> Squared().score(np.array([1.0]), np.array([4.0])).tolist()
    [-3.0]
    """

    score_bound: ClassVar[float] = math.inf
    curvature_bound: ClassVar[float] = 1.0

    def score(self, prediction: Floats, target: Floats) -> Floats:
        """Its derivative by the prediction."""
        return np.asarray(prediction - target)

    def curvature(self, prediction: Floats, target: Floats) -> Floats:  # noqa: ARG002
        """Its second derivative, 1."""
        return np.ones_like(prediction)


@dataclass(kw_only=True, eq=False, repr=False)
class NoisySGD(PrivateEstimator, ManyPeople, LinearPredictor, BaseEstimator):  # type: ignore[misc]
    r"""Fits a linear predictor by noisy stochastic gradients, for comparison.

    There are no standard errors, since clipping biases the estimate by an unknown amount. Sampling
    amplifies privacy under ApproxDP and RenyiDP. Under GDP and ZCDP batches are priced as if the
    sample were public, so sampling_rate=1 is best there. Rows with a number that is not finite have
    gradient 0.

    Source: Abadi et al. 2016, arXiv:1607.00133 (the algorithm); the price is the accountant's, of
    Poisson samples under replacement.

    Parameters
    ----------
    loss
        With score and curvature as in `unacorda.inference.losses`, or `Squared()`.
    budget
        Any guarantee that normal noise keeps, under the replacement of one row, spent whole by each
        fit.
    clip
        The l2 norm to which gradients are clipped, for scaled features and an intercept.
    sampling_rate
        The probability of each person to be in a batch, independently; above 0, at most 1.
    steps
        The number of batches.
    learning_rate
        The length of each step, in scaled features.
    feature_bounds
        Public (lower, upper) that determine the scale. Nothing is clipped to them.
    start
        A public prediction to begin from.
    bits
        Omit it for secure noise; `SeededBits` makes a fit reproducible, and not private.

    Attributes
    ----------
    coef_, intercept_
        Of the mean of the later half of all iterates.
    noise_multiplier_
        The standard deviation of the noise over clip.
    event_, guarantee_
        The privacy event, and the guarantee.

    Raises
    ------
    InvalidParameter
        For arguments that cannot be used.

    Examples
    --------
    >>> import unacorda
    >>> from unacorda.inference.losses import Logistic
    >>> drawn = np.random.default_rng(1)
    >>> X = drawn.normal(size=(5000, 2))
    >>> y = drawn.random(5000) < 1 / (1 + np.exp(-X @ [1.0, -1.0]))
    >>> model = NoisySGD(
    ...     loss=Logistic(),
    ...     budget=unacorda.ApproxDP(2, 1e-6),
    ...     feature_bounds=(-3, 3),
    ...     bits=unacorda.SeededBits(1),
    ... ).fit(X, y)
    >>> bool(abs(model.coef_ - [1, -1]).max() < 0.35)
    True
    """

    loss: Loss
    budget: Guarantee
    clip: float = 1.0
    sampling_rate: float = 0.05
    steps: int = 200
    learning_rate: float = 0.5
    feature_bounds: tuple[ArrayLike, ArrayLike] | None = None
    start: float = 0.0
    bits: RandomBits | None = None

    def fit(self, X: ArrayLike, y: ArrayLike) -> NoisySGD:
        """Fits to one row per person; spends the budget.

        Parameters
        ----------
        X
            Features, shape (n, p).
        y
            Targets, shape (n,).
        """
        budget = _budget(self.budget)
        if isinstance(self.loss, type) or not hasattr(self.loss, "score"):
            raise InvalidParameter("loss", self.loss, expected="an object with a score")
        clip = checks.positive(clip=self.clip)
        if not 1e-100 <= clip <= 1e100:
            raise InvalidParameter("clip", clip, expected="from 1e-100 to 1e100")
        rate, steps = _rate(self.sampling_rate), checks.positive_integer(steps=self.steps)
        if steps > _MOST_STEPS:
            raise InvalidParameter("steps", steps, expected=f"at most {_MOST_STEPS}")
        length = checks.positive(learning_rate=self.learning_rate)
        begin = checks.finite(start=self.start)
        x, target, present = paired(self, X, y)
        scales = scaling(self.feature_bounds, features=x.shape[1])
        noise = noise_for(budget, sampling_rate=rate, steps=steps)
        descent = _Descent(
            rows=scales.rows(x, present),
            target=np.where(present > 0, target, 0.0),
            loss=self.loss,
            clip=clip,
            noise=noise,
            rate=rate,
            bits=source_of(self.bits),
        )
        count_fit(self, budget)
        theta = descent.run(np.eye(scales.size)[0] * begin, steps=steps, length=length)
        parameters = scales.back() @ theta
        self.intercept_, self.coef_ = float(parameters[0]), parameters[1:]
        self.noise_multiplier_ = noise
        self.event_ = _event(budget, noise, sampling_rate=rate, steps=steps)
        self.guarantee_ = budget
        self.n_iter_ = steps
        return self


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class _Descent:
    """Scaled rows and targets (private), and how they are asked."""

    rows: Floats
    target: Floats
    loss: Loss
    clip: float
    noise: float
    rate: Fraction
    bits: RandomBits

    def run(self, theta: Floats, *, steps: int, length: float) -> Floats:
        """The mean of the later half of all iterates."""
        clip = checks.exact("clip", self.clip)
        noise = Gaussian(sigma=checks.exact("noise", self.noise) * clip, l2_sensitivity=clip)
        people = len(self.rows) * float(self.rate)
        total, kept = np.zeros_like(theta), 0
        for step in range(steps):
            sums = self.sums(theta)
            released = noise.release_exact(sums, unit_log2=self.unit_log2, bits=self.bits)
            theta = theta - length / people * np.array([float(number) for number in released])
            if 2 * step >= steps - 1:
                total, kept = total + theta, kept + 1
        return total / kept

    def sums(self, theta: Floats) -> list[int]:
        """The sum of the clipped gradients of a fresh batch, in exact steps of the grid."""
        threshold = np.uint64(min(math.floor(self.rate * _WORDS), _WORDS - 1))
        batch = np.flatnonzero(self.bits.words(len(self.rows)) < threshold)
        total = self.clipped(batch, theta).sum(axis=0)
        return [int(number) for number in total]

    def clipped(self, batch: Any, theta: Floats) -> Any:
        """Each row's gradient, in exact steps of the grid, no longer than the clip."""
        rows = self.rows[batch]
        with np.errstate(all="ignore"):  # a warning would depend on the data
            score = np.nan_to_num(self.loss.score(rows @ theta, self.target[batch]))
            gradients = rows * np.clip(score, -1e200, 1e200)[:, None]
        return clip_rows(gradients, l2=checks.exact("clip", self.clip), unit_log2=self.unit_log2)

    @property
    def unit_log2(self) -> int:
        """Of the grid: the clip is about 2^28 of its steps."""
        return math.floor(math.log2(self.clip)) - _FINE


def noise_for(budget: Guarantee, *, sampling_rate: Fraction, steps: int) -> float:
    """The least noise multiplier with which these batches keep the budget.

    Neighbors replace one row: a batch loses it and gains another, each with the rate.

    >>> from unacorda import RenyiDP
    >>> [
    ...     round(noise_for(budget, sampling_rate=Fraction(1, 100), steps=100), 2)
    ...     for budget in (RenyiDP(8, 2), GDP(1))
    ... ]
    [1.29, 20.0]
    """
    return _noise_for(_budget(budget), sampling_rate, steps)


@functools.lru_cache(maxsize=64)
def _noise_for(budget: Guarantee, rate: Fraction, steps: int) -> float:
    return accounting.calibrate(
        lambda noise: _event(budget, noise, sampling_rate=rate, steps=steps),
        target=budget,
        neighbors=ReplaceOne,
        tolerance=1e-4,
    )


def _event(budget: Guarantee, noise: float, *, sampling_rate: Fraction, steps: int) -> events.Event:
    """The event of the batches, as the accountant of this kind of budget takes it.

    In Gaussian DP sampled batches have no price of their own: then the coins count as seen. Given
    them, somebody who is replaced moves the sum of a batch by two clips or not at all.
    Source: docs/proofs/regression.md, section 9.
    """
    if isinstance(budget, GDP):
        return events.Gaussian(noise_multiplier=checks.exact("noise", noise) / 2) * steps
    return events.Gaussian(noise_multiplier=noise).poisson_sampled(rate=sampling_rate) * steps


def _budget(budget: object) -> Guarantee:
    checked = check_budget(budget)
    if not takes_normal_noise(checked):
        raise InvalidParameter(
            "budget",
            budget,
            expected="ApproxDP with a delta, RenyiDP, ZCDP or GDP, such as ApproxDP(1, 1e-6), "
            "since normal noise keeps no pure guarantee",
        )
    return checked


def _rate(sampling_rate: float) -> Fraction:
    rate = checks.exact("sampling_rate", sampling_rate)
    if not 0 < rate <= 1:
        raise InvalidParameter("sampling_rate", sampling_rate, expected="above 0, at most 1")
    return rate
