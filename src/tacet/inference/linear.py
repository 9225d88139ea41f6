r"""Linear regression that outliers do not carry away, its scale found along with it.

Huber's joint equations with Mallows weights: mean w a psi(r) = 0 and mean w (psi(r)^2 - kappa) = 0
for the residuals r = (y - a theta) / sigma. Each step releases both means together; the second
costs nothing (docs/proofs/regression.md, section 3).
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from tacet import checks
from tacet.bits import RandomBits, SecureBits
from tacet.inference.budgets import check_budget, gdp_budget
from tacet.inference.contract import BaseEstimator, RegressorMixin
from tacet.inference.designs import Design, scaling, whitened
from tacet.inference.fitted import Intervals
from tacet.inference.inputs import paired, predicted
from tacet.inference.noisy_sums import NoisySums
from tacet.inference.plans import Budgeting, Steps, rest
from tacet.inference.records import Floats, public_range
from tacet.inference.sandwich import Errors, Step, standard_errors
from tacet.privacy.guarantees import Guarantee

__all__ = ["LinearRegression", "RobustSteps", "robust_plan"]

_FREE: Final = Fraction(83, 50)
"""As for means: a square with this factor rides along free (docs/proofs/row_sums.md, section 2)."""

_STEP: Final = 1.3
"""About 1 / (mean w times the share of residuals within c): a Newton step on normal errors."""

_WEIGHT: Final = 0.8
"""About the mean weight; it sets the length of the steps of sigma, not where they end."""

_AVERAGED: Final = 2
"""How many steps the last one is averaged with."""

_GROWTHS: Final = [(Fraction(2), 7), (Fraction(3, 2), 7)]


class LinearRegression(Intervals, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    r"""Robust linear regression with valid intervals, private under replacement of one row.

    budget: any guarantee that normal noise keeps, spent whole by each fit; feature_bounds: public
    (lower, upper), each one number or one a feature, where most values lie; target_bounds: public
    (lower, upper) of the target, likewise. Nothing is cut at these bounds: values beyond them are
    used, with less weight where features lie far out, and bounds that are a few times too wide
    cost little. tuning: residuals beyond this many sigmas count as if they were there (1.345: 95 %
    of the efficiency of least squares under normal errors). bits: leave it out; SeededBits makes a
    fit reproducible, and not private.

    After fit: coef_, intercept_, scale_ (sigma, in the unit of the target), sampling_error_ and
    privacy_error_ (of the intercept, then the coefficients), covariance_, event_ (what the
    accountant prices), guarantee_, diagnostics_. Intervals assume errors that are symmetric given
    the features; they may differ in spread from person to person.
    Rows with a number that is not finite have weight 0. Errors name what is public alone: shapes,
    dtypes, bounds, and a budget too small for n and p.
    Source: Huber 1981, section 7.8 (joint scale); Avella-Medina, Bradshaw, Loh 2023,
    arXiv:2103.11003 (noisy steps); docs/proofs/regression.md.

    >>> import tacet
    >>> drawn = np.random.default_rng(1)
    >>> X = drawn.normal(size=(2000, 2))
    >>> y = 3 + X @ [1.0, -2.0] + drawn.normal(size=2000)
    >>> model = LinearRegression(
    ...     budget=tacet.GDP(1),
    ...     feature_bounds=(-3, 3),
    ...     target_bounds=(-10, 15),
    ...     bits=tacet.SeededBits(1),
    ... ).fit(X, y)
    >>> model.conf_int().shape, bool(abs(model.coef_ - [1, -2]).max() < 0.15)
    ((3, 2), True)
    """

    def __init__(
        self,
        *,
        budget: Guarantee,
        feature_bounds: tuple[ArrayLike, ArrayLike] | None = None,
        target_bounds: tuple[float, float] | None = None,
        tuning: float = 1.345,
        bits: RandomBits | None = None,
    ) -> None:
        self.budget = budget
        self.feature_bounds = feature_bounds
        self.target_bounds = target_bounds
        self.tuning = tuning
        self.bits = bits

    def fit(self, X: ArrayLike, y: ArrayLike) -> LinearRegression:
        """Fit to one row a person, X n x p and y of n numbers; spends the budget."""
        asked, budget = check_budget(self.budget), gdp_budget(self.budget)
        tuning = checks.positive(tuning=self.tuning)
        x, target, present = paired(self, X, y)
        scales = scaling(self.feature_bounds, features=x.shape[1])
        low, high = public_range(*(self.target_bounds or (None, None)), of="y")
        half = (high - low) / 2
        with np.errstate(over="ignore", invalid="ignore"):
            target = np.nan_to_num((target - (low + half)) / half)
        plan = _plan(Budgeting(asked=asked, budget=budget, rows=len(x), size=scales.size), tuning)
        sums = NoisySums(rows=len(x), budget=budget, bits=self.bits or SecureBits())
        rows = scales.rows(x, present)
        design = whitened(rows, present, scales, sums=sums, share=plan.gram)
        theta, sigma, errors = RobustSteps(design=design, target=target, tuning=tuning).run(
            plan, sums
        )
        parameters = self._tell(design, theta, errors, sums=sums, asked=asked, unit=half)
        self.intercept_, self.coef_ = float(parameters[0] + low + half), parameters[1:]
        self.scale_ = sigma * half
        self.diagnostics_["scale"] = self.scale_
        self.n_iter_ = len(plan.steps.shares)
        return self

    def predict(self, X: ArrayLike) -> Floats:
        """The predicted target of each row; X may be anybody's, it is no release."""
        return predicted(self, X)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    gram: Fraction
    curvature: Fraction
    scores: Fraction
    steps: Steps


def _plan(budgeting: Budgeting, tuning: float) -> _Plan:
    size = budgeting.size
    gram = budgeting.matrix(trace_bound=size, norm=0.003, most=Fraction(11, 100))
    curvature = budgeting.matrix(trace_bound=size, norm=0.05, most=Fraction(8, 100))
    scores = budgeting.matrix(trace_bound=size, norm=0.05, most=Fraction(4, 100))
    steps = robust_plan(budgeting, rest([gram, curvature, scores]), tuning)
    return _Plan(gram=gram, curvature=curvature, scores=scores, steps=steps)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RobustSteps:
    """The steps, in whitened features and a target of unit half width."""

    design: Design
    target: Floats
    tuning: float

    def run(self, plan: _Plan, sums: NoisySums) -> tuple[Floats, float, Errors]:
        """The whitened coefficients, sigma, and the errors of the former."""
        theta, sigma, taken = self.descend(plan.steps, sums)
        square = self.design.radius**2
        c = Fraction(self.tuning)
        curvature = sums.moment(
            lambda rows: self._matrix(rows, theta, sigma, squared=False),
            size=self.design.size,
            trace_bound=square,
            share=plan.curvature,
        )
        scores = sums.moment(
            lambda rows: self._matrix(rows, theta, sigma, squared=True),
            size=self.design.size,
            trace_bound=square * c**2,
            share=plan.scores,
        )
        errors = standard_errors(
            taken, theta, curvature=curvature, scores=scores, rows=sums.rows, unit=sigma
        )
        return theta, sigma, errors

    def descend(self, steps: Steps, sums: NoisySums) -> tuple[Floats, float, list[Step]]:
        """Where the steps end: the whitened coefficients, sigma, and what the steps were."""
        theta, sigma = np.zeros(self.design.size), 1.0
        taken: list[Step] = []
        precision, alone = 0.0, len(steps.shares) - _AVERAGED
        for step, share in enumerate(steps.shares):
            gradient, spread, noise = self._gradient(theta, sigma, sums=sums, share=share)
            # Each step points to an end with noise of variance sigma^2 / share: the last ones are
            # averaged by it, so that little of the share before the last is wasted.
            before = precision if step > alone else 0.0
            precision = before + float(share) / sigma**2
            length = _STEP * float(share) / (sigma**2 * precision)
            whole = np.eye(self.design.size)
            taken.append(Step(preconditioner=length * whole, noise=sigma * noise))
            theta = theta + length * sigma * gradient
            sigma *= _rescaled(spread / _WEIGHT, self.tuning)
        return theta, sigma, taken

    def _residuals(self, rows: slice, theta: Floats, sigma: float) -> Floats:
        with np.errstate(all="ignore"):  # a warning would tell of the data
            residuals: Floats = (self.target[rows] - self.design.rows[rows] @ theta) / sigma
        return residuals

    def _gradient(
        self, theta: Floats, sigma: float, *, sums: NoisySums, share: Fraction
    ) -> tuple[Floats, float, float]:
        """Means of w a psi and of w (psi^2 - kappa), and the deviation of the former's noise."""
        c, radius, kappa = Fraction(self.tuning), self.design.radius, _kappa(self.tuning)
        free = float(_FREE * radius / c)

        def part(rows: slice) -> Floats:
            psi = np.clip(self._residuals(rows, theta, sigma), -self.tuning, self.tuning)
            weights = self.design.weights[rows]
            spread = free * (weights @ (psi * psi - kappa))
            return np.append(self.design.vector_sum(rows, weights * psi), spread)

        released, noise = sums.mean(
            part,
            size=self.design.size + 1,
            row_bound=2 * radius * c,
            sensitivity=2 * radius * c,
            share=share,
        )
        return released[:-1], float(released[-1]) / free, noise

    def _matrix(self, rows: slice, theta: Floats, sigma: float, *, squared: bool) -> Floats:
        residuals = self._residuals(rows, theta, sigma)
        weights = self.design.weights[rows]
        if squared:
            psi = np.clip(residuals, -self.tuning, self.tuning)
            return self.design.matrix_sum(rows, (weights * psi) ** 2)
        return self.design.matrix_sum(rows, weights * (np.abs(residuals) <= self.tuning))


def robust_plan(budgeting: Budgeting, left: Fraction, tuning: float) -> Steps:
    """The shares of the steps, out of what is left."""
    sensitivity = 2 * math.sqrt(budgeting.size) * tuning * _STEP
    return budgeting.steps(left, sensitivity=sensitivity, growths=_GROWTHS)


def _square_of(t: Floats, c: float) -> Floats:
    """E psi_c(t Z)^2 of a standard normal Z."""
    b = c / t
    within = 2 * ndtr(b) - 1 - 2 * b * np.exp(-b * b / 2) / math.sqrt(2 * math.pi)
    return np.asarray(t * t * within + 2 * c * c * ndtr(-b))


def _kappa(c: float) -> float:
    """E psi_c(Z)^2 of a standard normal Z.

    >>> round(_kappa(1.345), 6)
    0.710165
    """
    return float(_square_of(np.array(1.0), c))


def _rescaled(excess: float, c: float) -> float:
    """The t with E psi_c(t Z)^2 = kappa + excess, within [1/20, 8]: how much too small sigma is.

    >>> round(_rescaled(0.0, 1.345), 2), round(_rescaled(9.0, 1.345), 6)
    (1.0, 8.0)
    """
    grid = np.exp(np.linspace(math.log(0.05), math.log(8.0), 400))
    return float(np.interp(_kappa(c) + excess, _square_of(grid, c), grid))
