r"""Poisson regression by noisy Newton steps, its counts cut at a public bound."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

from unacorda.bits import RandomBits, source_of
from unacorda.errors import MissingBound
from unacorda.inference.budgets import check_budget, gdp_budget
from unacorda.inference.contract import BaseEstimator, RegressorMixin
from unacorda.inference.designs import Scaling, scaling
from unacorda.inference.fitted import Intervals
from unacorda.inference.inputs import paired, predicted
from unacorda.inference.loss_texts import cut_text, number
from unacorda.inference.losses import Poisson
from unacorda.inference.means import positive_part
from unacorda.inference.newton import Newton, Start, Trail, trail
from unacorda.inference.noisy_sums import Moment, NoisySums
from unacorda.inference.people import Arrays
from unacorda.inference.plans import Budgeting
from unacorda.inference.records import Floats, public_size
from unacorda.inference.row_values import People, RowValue, Source, curvature_of
from unacorda.inference.sandwich import standard_errors
from unacorda.inference.table_people import open_table
from unacorda.inference.tables import Table, table_scaling
from unacorda.privacy.guarantees import Guarantee

__all__ = ["PoissonRegression"]

_GROWTHS: Final = [(Fraction(3), 5), (Fraction(2), 5)]
_FIRST: Final = Fraction(2, 100)
_MOST_PEARSON: Final = 30.0
_STEADY: Final = 3.0
"""Rows weigh less from so many mean counts on, at the least."""
_HEARD: Final = 0.15
"""What the noise of the curvature may be beside the mean count, before rows weigh less."""


class PoissonRegression(Intervals, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    r"""Poisson regression with valid intervals, private under replacement of one row.

    The logarithm of the mean is linear in the features. budget: any guarantee that normal noise
    keeps, spent whole by each fit; feature_bounds: public (lower, upper), each one number or one a
    feature, where most values lie; nothing is cut at them. largest: public; counts and fitted means
    above it count as if they were it (and counts below 0 as 0). As long as true means stay below
    it and few counts are above it, it biases nothing; the noise grows with it. bits: leave it out;
    SeededBits makes a fit reproducible, and not private.

    Rows whose fitted mean is so many times the mean count weigh less, in proportion: features
    decide it, so that no coefficient is biased, and noise hides less of the curvature. How many
    times, 3 or more, follows n and the budget; with many people nobody weighs less.
    Standard errors are those of a variance of phi times the mean; phi, the dispersion, is the
    private mean of squared Pearson residuals, each cut at 30; of people with weights they are too
    large, by about the root of the mean weight over the mean squared one. Intervals are infinite
    where noise hides the curvature, or moves logarithms of means by more than a quarter (an eighth
    where people have weights, whose mean is to be 1/8 or more). Under GDP(1), of 200 fits without
    weights so many had finite ones, which covered so often where 95 % was said:

    ====================================================  =========  ==========  ==========
    slopes; mean count; largest                             n = 500        1000        2000
    ====================================================  =========  ==========  ==========
    0.4; 1.1; 8                                           96 %, .95  all, .95    all, .98
    0.5, 0.5; 3.5; 30                                     32 %, .91  94 %, .95   all, .96
    0.3, -0.2, 0.1, 0; 1.8; 12                            18 %, .88  all, .95    all, .95
    0.8, -0.5, 0.3, 0; 2.7; 40                            none       2 %         60 %, .92
    ====================================================  =========  ==========  ==========

    After fit: coef_, intercept_, dispersion_, sampling_error_ and privacy_error_ (of the intercept,
    then the coefficients), covariance_, event_, guarantee_, diagnostics_. Rows with a number that
    is not finite have weight 0. Errors name what is public alone, as for `LinearRegression`.
    Source: McCullagh and Nelder 1989, chapter 6; docs/proofs/regression.md.

    >>> import unacorda
    >>> drawn = np.random.default_rng(1)
    >>> X = drawn.normal(size=(10_000, 2))
    >>> y = drawn.poisson(np.exp(0.5 + X @ [0.3, -0.2]))
    >>> model = PoissonRegression(
    ...     budget=unacorda.GDP(1), feature_bounds=(-3, 3), largest=15, bits=unacorda.SeededBits(1)
    ... ).fit(X, y)
    >>> bool(abs(model.coef_ - [0.3, -0.2]).max() < 0.1)
    True
    """

    def __init__(
        self,
        *,
        budget: Guarantee,
        feature_bounds: tuple[ArrayLike, ArrayLike] | None = None,
        largest: float | None = None,
        bits: RandomBits | None = None,
    ) -> None:
        self.budget = budget
        self.feature_bounds = feature_bounds
        self.largest = largest
        self.bits = bits

    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> PoissonRegression:
        """Fit to one row a person, X n x p and y of n counts; spends the budget.

        sample_weight: as for `MEstimator.fit`.
        """
        asked, budget = check_budget(self.budget), gdp_budget(self.budget)
        loss = self._loss()
        x, target, weight = paired(self, X, y, sample_weight)
        scales = scaling(self.feature_bounds, features=x.shape[1])
        sums = NoisySums(rows=len(x), budget=budget, bits=source_of(self.bits))
        target = np.where(weight > 0, np.clip(np.nan_to_num(target), 0.0, loss.most), 0.0)
        weighted = sample_weight is not None
        source = Arrays(x=x, target=target, counts=weight, sums=sums, weighted=weighted)
        self._fit(source, asked, scales, loss)
        return self

    def fit_table(self, table: Table) -> PoissonRegression:
        """Fit to a table of a session, which hands it in: see `unacorda.Session.fit`."""
        asked, budget = check_budget(self.budget), gdp_budget(self.budget)
        loss = self._loss()
        scales = table_scaling(self.feature_bounds, table)
        source = open_table(self, table, budget=budget, target=cut_text("y", 0, loss.most))
        self._fit(source, asked, scales, loss)
        return self

    def _loss(self) -> Poisson:
        if self.largest is None:
            raise MissingBound(
                "largest", expected="a public bound of the counts, known without looking at them"
            )
        return Poisson(public_size(largest=self.largest))

    def _fit(self, source: Source, asked: Guarantee, scales: Scaling, loss: Poisson) -> None:
        size, typical = scales.size, loss.most / 8
        budgeting = Budgeting.of(source, asked, size=size)
        gram = budgeting.matrix(trace_bound=size, norm=0.01, most=Fraction(8, 100))
        plan = trail(
            budgeting,
            loss,
            spent=gram + _FIRST + source.spent,
            typical=typical,
            growths=_GROWTHS,
            known_start=True,
        )
        counted, noise = source.target_mean(most=loss.most, share=_FIRST)
        first = min(max(positive_part(counted, noise), loss.most / 1e4), loss.most)
        people = source.whitened(scales, share=gram)
        start = np.linalg.solve(people.back, np.eye(size)[0]) * math.log(first)
        weighted = Poisson(loss.most, steady=_steady(budgeting, plan, first))
        newton = Newton(people=people, loss=weighted, least=first / 20)
        found = newton.descend(plan, Start(theta=start, curvature=0.8 * first))
        theta = found.theta
        bent = found.pooled(newton.curvature(theta, share=plan.last))
        phi = _dispersion(people, theta, loss, share=plan.scores)
        scores = Moment(matrix=phi * bent.matrix, deviation=phi * bent.deviation)
        errors = standard_errors(
            found.steps,
            theta - start,
            curvature=bent,
            scores=scores,
            rows=people.rows,
            repeated=people.repeated,
        )
        reach = 0.5 if source.least_mean_weight == 1 else 0.25
        # Means are no lines: where noise moves logarithms by a quarter, errors are not normal. Of
        # people with weights fewer tell more, so that an eighth is too much.
        moved = math.sqrt(max(float(np.trace(errors.privacy)), 1e-300))
        if errors.enough:
            errors = replace(errors, signal=min(errors.signal, reach / moved))
        told = people.rows / people.repeated
        if reach < 0.5 and told < source.effective * source.least_mean_weight:
            errors = replace(errors, signal=0.0)  # shares were planned for weights above these
        parameters = self._tell(people, theta, errors, asked=asked, steps=plan.steps)
        self.intercept_, self.coef_ = float(parameters[0]), parameters[1:]
        self.dispersion_ = self.diagnostics_["dispersion"] = phi

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn asks of an estimator's abilities: targets that are not negative."""
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        tags.regressor_tags.poor_score = True
        return tags

    def predict(self, X: ArrayLike) -> Floats:
        """The fitted mean of each row."""
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(predicted(self, X)))


def _steady(budgeting: Budgeting, plan: Trail, first: float) -> float:
    """From which mean on rows weigh less, so that noise leaves a curvature; first: the mean count.

    From released and public numbers alone. Where there are many people it is above every mean.
    """
    share = plan.last + 2 * plan.curvature
    noise = budgeting.noise(share, sensitivity=math.sqrt(2)) / budgeting.mean_weight
    return first * max(_STEADY, _HEARD / (noise * budgeting.size * math.sqrt(2 * budgeting.size)))


def _dispersion(people: People, theta: Floats, loss: Poisson, *, share: Fraction) -> float:
    """The noisy mean of w times the squared Pearson residual, over that of w."""
    mean = curvature_of(loss)

    def square(p: Floats, y: Floats) -> Floats:
        fitted = np.maximum(loss.curvature(p, y), 1e-300)
        return np.minimum((y - fitted) ** 2 / fitted, _MOST_PEARSON)

    def text(p: str, y: str) -> str:
        fitted = f"greatest({mean.text(p, y)}, 1e-300)"
        square = f"({y} - {fitted}) * ({y} - {fitted}) / {fitted}"
        return f"least({square}, {number(_MOST_PEARSON)})"

    pearson = RowValue(values=square, text=text, bound=_MOST_PEARSON)
    whole = RowValue(
        values=lambda p, _: np.full(len(p), _MOST_PEARSON),
        text=lambda *_: number(_MOST_PEARSON),
        bound=_MOST_PEARSON,
    )
    # 3 / 2 is more than sqrt 2.
    length = Fraction(_MOST_PEARSON) * 3 / 2
    released, noise = people.weighted(theta, [pearson, whole], length=length, share=share)
    above = positive_part(float(released[0]), noise)
    return above / max(float(released[1]) / _MOST_PEARSON, noise / _MOST_PEARSON, 1e-3)
