r"""Quantile regression: a robust line first, then noisy Newton steps of the check loss."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import math
import statistics
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from unacorda import checks
from unacorda.bits import RandomBits, source_of
from unacorda.errors import InvalidParameter
from unacorda.inference.budgets import check_budget, gdp_budget
from unacorda.inference.contract import BaseEstimator, RegressorMixin
from unacorda.inference.designs import FAR, Scaling, scaling
from unacorda.inference.fitted import Intervals
from unacorda.inference.inputs import paired, predicted
from unacorda.inference.linear import RobustSteps, robust_plan
from unacorda.inference.loss_texts import curvature_text, cut_text, number, score_text
from unacorda.inference.losses import Check
from unacorda.inference.newton import Newton, Start, trail
from unacorda.inference.noisy_sums import NoisySums
from unacorda.inference.people import Arrays
from unacorda.inference.plans import Budgeting
from unacorda.inference.records import Floats, public_pair
from unacorda.inference.row_values import Source
from unacorda.inference.table_people import open_table
from unacorda.inference.tables import Table, table_range, table_scaling
from unacorda.privacy.guarantees import Guarantee

__all__ = ["QuantileRegression"]

_GROWTHS: Final = [(Fraction(3), 5), (Fraction(2), 5)]
_PILOT: Final = Fraction(30, 100)
_TUNING: Final = 1.345
_RAREST: Final = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class _Quantile:
    """Scores smoothed little, for little bias; curvatures much, for they are a density."""

    near: Check
    wide: Check

    @property
    def score_bound(self) -> float:
        return self.near.score_bound

    @property
    def curvature_bound(self) -> float:
        return self.wide.curvature_bound

    def score(self, prediction: Floats, target: Floats) -> Floats:
        return self.near.score(prediction, target)

    def curvature(self, prediction: Floats, target: Floats) -> Floats:
        return self.wide.curvature(prediction, target)

    def score_sql(self, prediction: str, target: str) -> str:
        return score_text(self.near)(prediction, target)

    def curvature_sql(self, prediction: str, target: str) -> str:
        return curvature_text(self.wide)(prediction, target)


class QuantileRegression(Intervals, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    r"""A quantile of the target as a line in the features, with valid intervals, private.

    quantile: of the target given the features, in (0, 1); budget: any guarantee that normal noise
    keeps, spent whole by each fit, under the replacement of one row; feature_bounds, target_bounds:
    public (lower, upper), where most values lie, as for `LinearRegression`; bits: leave it out;
    SeededBits makes a fit reproducible, and not private.

    After fit: coef_, intercept_, sampling_error_ and privacy_error_ (of the intercept, then the
    coefficients), covariance_, event_, guarantee_, diagnostics_. Rows with a number that is not
    finite have weight 0. The density of the errors at the quantile, which standard errors hang on,
    is smoothed by half a deviation or less: they err where it changes much within that.
    Source: Koenker and Bassett 1978; Fernandes, Guerre, Horta 2021 (smoothing);
    docs/proofs/regression.md.

    >>> import unacorda
    >>> drawn = np.random.default_rng(1)
    >>> X = drawn.normal(size=(10_000, 1))
    >>> y = X[:, 0] + drawn.normal(size=10_000)
    >>> model = QuantileRegression(
    ...     quantile=0.9,
    ...     budget=unacorda.GDP(1),
    ...     feature_bounds=(-3, 3),
    ...     target_bounds=(-10, 10),
    ...     bits=unacorda.SeededBits(1),
    ... ).fit(X, y)
    >>> bool(abs(model.intercept_ - 1.28) < 0.15)
    True
    """

    def __init__(
        self,
        *,
        budget: Guarantee,
        quantile: float = 0.5,
        feature_bounds: tuple[ArrayLike, ArrayLike] | None = None,
        target_bounds: tuple[float, float] | None = None,
        bits: RandomBits | None = None,
    ) -> None:
        self.budget = budget
        self.quantile = quantile
        self.feature_bounds = feature_bounds
        self.target_bounds = target_bounds
        self.bits = bits

    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> QuantileRegression:
        """Fit to one row a person, X n x p and y of n numbers; spends the budget.

        sample_weight: as for `MEstimator.fit`.
        """
        asked, budget = check_budget(self.budget), gdp_budget(self.budget)
        self._check_quantile()
        x, target, counts = paired(self, X, y, sample_weight)
        scales = scaling(self.feature_bounds, features=x.shape[1])
        low, high = public_pair("target_bounds", self.target_bounds, of="y")
        half = (high - low) / 2
        with np.errstate(over="ignore", invalid="ignore"):
            target = np.nan_to_num((target - (low + half)) / half)
        sums = NoisySums(rows=len(x), budget=budget, bits=source_of(self.bits))
        weighted = sample_weight is not None
        source = Arrays(x=x, target=target, counts=counts, sums=sums, weighted=weighted)
        self._fit(source, asked, scales, low=low, half=half)
        return self

    def fit_table(self, table: Table) -> QuantileRegression:
        """Fit to a table of a session, which hands it in: see `unacorda.Session.fit`."""
        asked, budget = check_budget(self.budget), gdp_budget(self.budget)
        self._check_quantile()
        scales = table_scaling(self.feature_bounds, table)
        low, high = public_pair("target_bounds", table_range(self.target_bounds, table), of="y")
        half = (high - low) / 2
        target = f"(y - {number(low + half)}) / {number(half)}"
        source = open_table(self, table, budget=budget, target=cut_text(target, -FAR, FAR))
        self._fit(source, asked, scales, low=low, half=half)
        return self

    def _check_quantile(self) -> None:
        if not _RAREST <= checks.finite(quantile=self.quantile) <= 1 - _RAREST:
            expected = f"strictly between 0 and 1, and {_RAREST:g} or more from both"
            raise InvalidParameter("quantile", self.quantile, expected=expected)

    def _fit(
        self, source: Source, asked: Guarantee, scales: Scaling, *, low: float, half: float
    ) -> None:
        normal = statistics.NormalDist()
        away = normal.inv_cdf(self.quantile)
        typical = 0.8 * normal.pdf(away)
        budgeting = Budgeting.of(source, asked, size=scales.size)
        loss = _loss(self.quantile, budgeting, typical)
        gram = budgeting.matrix(trace_bound=scales.size, norm=0.01, most=Fraction(8, 100))
        pilot = robust_plan(budgeting, _PILOT, _TUNING)
        plan = trail(
            budgeting,
            loss,
            spent=gram + _PILOT + source.spent,
            typical=typical,
            growths=_GROWTHS,
            known_start=False,
        )
        if not pilot.shares:  # what noise drowns there is no place to go on from
            plan = dataclasses.replace(plan, steps=pilot)
        people = source.whitened(scales, share=gram)
        theta, sigma, _ = RobustSteps(people=people, tuning=_TUNING).descend(pilot)
        # From here on the target is told in released sigmas, so that bandwidths are public.
        one = np.linalg.solve(people.back, np.eye(scales.size)[0])
        start = Start(theta=theta / sigma + away * one)
        people = people.scaled(sigma)
        newton = Newton(people=people, loss=loss, least=0.3 * typical, longest=math.inf)
        found, errors = newton.run(plan, start)
        parameters = self._tell(
            people, found, errors, asked=asked, steps=plan.steps, unit=sigma * half
        )
        self.intercept_, self.coef_ = float(parameters[0] + low + half), parameters[1:]

    def predict(self, X: ArrayLike) -> Floats:
        """The predicted quantile of each row; X may be anybody's, it is no release."""
        return predicted(self, X)


def _loss(quantile: float, budgeting: Budgeting, typical: float) -> _Quantile:
    """Bandwidths in sigmas, by public numbers: wide enough that noise leaves a density."""
    near = min(0.1, budgeting.rows ** (-1 / 3))
    noise = budgeting.noise(Fraction(10, 100), sensitivity=math.sqrt(2) * budgeting.size)
    heard = noise * math.sqrt(2 * budgeting.size) / (math.sqrt(2 * math.pi) * 0.25 * typical)
    wide = min(max(budgeting.rows**-0.2, heard), 0.5)
    return _Quantile(near=Check(quantile, bandwidth=near), wide=Check(quantile, bandwidth=wide))
