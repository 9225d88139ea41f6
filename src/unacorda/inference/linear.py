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

from unacorda.bits import RandomBits, source_of
from unacorda.inference.budgets import check_budget, gdp_budget
from unacorda.inference.contract import BaseEstimator
from unacorda.inference.designs import FAR, Scaling, scaling
from unacorda.inference.fitted import Intervals
from unacorda.inference.inputs import paired
from unacorda.inference.loss_texts import cut_text, number
from unacorda.inference.noisy_sums import NoisySums
from unacorda.inference.people import Arrays
from unacorda.inference.plans import Budgeting, Steps, rest
from unacorda.inference.predictors import LinearPredictor
from unacorda.inference.records import Floats, public_pair, public_size
from unacorda.inference.row_values import Matrix, People, RowValue, Source
from unacorda.inference.sandwich import Errors, Step, standard_errors
from unacorda.inference.table_people import open_table
from unacorda.inference.tables import Table, table_range, table_scaling
from unacorda.privacy.guarantees import Guarantee

__all__ = ["LinearRegression", "RobustSteps", "robust_plan"]

_STEP: Final = 1.3
"""About 1 / (mean w times the share of residuals within c): a Newton step on normal errors."""

_WEIGHT: Final = 0.8
"""About the mean weight; it sets the length of the steps of sigma, not where they end."""

_AVERAGED: Final = 2
"""How many steps the last one is averaged with."""

_GROWTHS: Final = [(Fraction(2), 7), (Fraction(3, 2), 7)]


class LinearRegression(Intervals, LinearPredictor, BaseEstimator):  # type: ignore[misc]
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

    >>> import unacorda
    >>> drawn = np.random.default_rng(1)
    >>> X = drawn.normal(size=(2000, 2))
    >>> y = 3 + X @ [1.0, -2.0] + drawn.normal(size=2000)
    >>> model = LinearRegression(
    ...     budget=unacorda.GDP(1),
    ...     feature_bounds=(-3, 3),
    ...     target_bounds=(-10, 15),
    ...     bits=unacorda.SeededBits(1),
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

    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> LinearRegression:
        """Fit to one row a person, X n x p and y of n numbers; spends the budget.

        sample_weight: as for `MEstimator.fit`.
        """
        asked, budget = check_budget(self.budget), gdp_budget(self.budget)
        tuning = public_size(tuning=self.tuning)
        x, target, counts = paired(self, X, y, sample_weight)
        scales = scaling(self.feature_bounds, features=x.shape[1])
        low, high = public_pair("target_bounds", self.target_bounds, of="y")
        half = (high - low) / 2
        with np.errstate(over="ignore", invalid="ignore"):
            target = np.nan_to_num((target - (low + half)) / half)
        sums = NoisySums(rows=len(x), budget=budget, bits=source_of(self.bits))
        weighted = sample_weight is not None
        source = Arrays(x=x, target=target, counts=counts, sums=sums, weighted=weighted)
        self._fit(source, asked, scales, tuning, low=low, half=half)
        return self

    def fit_table(self, table: Table) -> LinearRegression:
        """Fit to a table of a session, which hands it in: see `unacorda.Session.fit`."""
        asked, budget = check_budget(self.budget), gdp_budget(self.budget)
        tuning = public_size(tuning=self.tuning)
        scales = table_scaling(self.feature_bounds, table)
        low, high = public_pair("target_bounds", table_range(self.target_bounds, table), of="y")
        half = (high - low) / 2
        target = f"(y - {number(low + half)}) / {number(half)}"
        source = open_table(self, table, budget=budget, target=cut_text(target, -FAR, FAR))
        self._fit(source, asked, scales, tuning, low=low, half=half)
        return self

    def _fit(
        self,
        source: Source,
        asked: Guarantee,
        scales: Scaling,
        tuning: float,
        *,
        low: float,
        half: float,
    ) -> None:
        budgeting = Budgeting.of(source, asked, size=scales.size)
        plan = _plan(budgeting, tuning, spent=source.spent)
        people = source.whitened(scales, share=plan.gram)
        theta, sigma, errors = RobustSteps(people=people, tuning=tuning).run(plan)
        parameters = self._tell(people, theta, errors, asked=asked, steps=plan.steps, unit=half)
        self.intercept_, self.coef_ = float(parameters[0] + low + half), parameters[1:]
        self.scale_ = sigma * half
        self.diagnostics_["scale"] = self.scale_


@dataclass(frozen=True, slots=True, kw_only=True)
class RobustPlan:
    gram: Fraction
    curvature: Fraction
    scores: Fraction
    steps: Steps


def _plan(budgeting: Budgeting, tuning: float, *, spent: Fraction) -> RobustPlan:
    size = budgeting.size
    gram = budgeting.matrix(trace_bound=size, norm=0.003, most=Fraction(11, 100))
    curvature = budgeting.matrix(trace_bound=size, norm=0.05, most=Fraction(8, 100))
    scores = budgeting.matrix(trace_bound=size, norm=0.05, most=Fraction(4, 100))
    steps = robust_plan(budgeting, rest([spent, gram, curvature, scores]), tuning)
    return RobustPlan(gram=gram, curvature=curvature, scores=scores, steps=steps)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RobustSteps:
    """The steps, in whitened features and a target of unit half width."""

    people: People
    tuning: float

    def run(self, plan: RobustPlan) -> tuple[Floats, float, Errors]:
        """The whitened coefficients, sigma, and the errors of the former."""
        theta, sigma, taken = self.descend(plan.steps)
        matrices = [
            Matrix(of=_within(sigma, self.tuning), share=plan.curvature),
            Matrix(of=_psi(sigma, self.tuning), share=plan.scores, squared=True),
        ]
        _, (curvature, scores) = self.people.ask(theta, matrices=matrices)
        errors = standard_errors(
            taken,
            theta,
            curvature=curvature,
            scores=scores,
            rows=self.people.rows,
            repeated=self.people.repeated,
            unit=sigma,
        )
        return theta, sigma, errors

    def descend(self, steps: Steps) -> tuple[Floats, float, list[Step]]:
        """Where the steps end: the whitened coefficients, sigma, and what the steps were."""
        theta, sigma = np.zeros(self.people.size), 1.0
        taken: list[Step] = []
        precision, alone = 0.0, len(steps.shares) - _AVERAGED
        for step, share in enumerate(steps.shares):
            gradient, spread, noise = self.people.residuals(
                theta, sigma, tuning=self.tuning, kappa=_kappa(self.tuning), share=share
            )
            # Each step points to an end with noise of variance sigma^2 / share: the last ones are
            # averaged by it, so that little of the share before the last is wasted.
            before = precision if step > alone else 0.0
            precision = before + float(share) / sigma**2
            length = _STEP * float(share) / (sigma**2 * precision)
            whole = np.eye(self.people.size)
            taken.append(Step(preconditioner=length * whole, noise=sigma * noise))
            theta = theta + length * sigma * gradient
            sigma *= _rescaled(spread / _WEIGHT, self.tuning)
        return theta, sigma, taken


def _psi(sigma: float, c: float) -> RowValue:
    """The residual in sigmas, cut."""
    return RowValue(
        values=lambda p, y: np.clip((y - p) / sigma, -c, c),
        text=lambda p, y: cut_text(f"({y} - {p}) / {number(sigma)}", -c, c),
        bound=c,
    )


def _within(sigma: float, c: float) -> RowValue:
    """Whether the residual is not cut."""
    return RowValue(
        values=lambda p, y: np.asarray(np.abs((y - p) / sigma) <= c, dtype=np.float64),
        text=lambda p, y: (
            f"CASE WHEN abs(({y} - {p}) / {number(sigma)}) <= {number(c)} THEN 1 ELSE 0 END"
        ),
        bound=1.0,
    )


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
