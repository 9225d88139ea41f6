r"""M-estimation with a caller's own loss, with or without a ridge penalty."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Final, cast

import numpy as np
from numpy.typing import ArrayLike

from unacorda import checks
from unacorda.bits import RandomBits, source_of
from unacorda.errors import InvalidParameter, MissingBound
from unacorda.inference.budgets import check_budget, gdp_budget
from unacorda.inference.contract import BaseEstimator
from unacorda.inference.designs import FAR, Scaling, scaling
from unacorda.inference.fitted import Intervals
from unacorda.inference.inputs import paired
from unacorda.inference.loss_texts import curvature_text, cut_text, score_text
from unacorda.inference.losses import Huber, Loss
from unacorda.inference.newton import Newton, Start, trail
from unacorda.inference.noisy_sums import NoisySums
from unacorda.inference.people import Arrays
from unacorda.inference.plans import Budgeting
from unacorda.inference.predictors import LinearPredictor
from unacorda.inference.records import Floats, public_size
from unacorda.inference.row_values import Source
from unacorda.inference.table_people import open_table
from unacorda.inference.tables import Table, table_scaling
from unacorda.privacy.guarantees import Guarantee

__all__ = ["MEstimator", "RidgeRegression", "checked_loss"]

_GROWTHS: Final = [(Fraction(2), 8), (Fraction(3, 2), 8)]


class MEstimator(Intervals, LinearPredictor, BaseEstimator):  # type: ignore[misc]
    r"""The linear predictor that minimises a mean loss, private under replacement of one row.

    budget: any guarantee that normal noise keeps, spent whole by each fit; loss: an object like
    those of `unacorda.inference.losses`: functions score and curvature of (prediction, target), and
    the numbers score_bound and curvature_bound. The loss itself is not asked for, so that psi
    alone will do: score is minus psi(target - prediction), whatever loss it comes from, and
    curvature is psi', with `convex = False` where psi falls. What a score or a curvature is beyond
    its bound is cut, and what is no number counts as 0, so that a loss that breaks its word breaks
    no guarantee; its functions must answer row by row, and not raise. feature_bounds: public
    (lower, upper), each one number or one a feature, where most values lie. start: a public
    prediction to begin from, in the unit of the target, within some ten times score_bound /
    curvature_bound of most targets.
    penalty: a ridge penalty, penalty / 2 times the sum of squared slopes, of features in units of
    their half bounds / 2.5, beside the mean loss; intervals are then about the penalised solution.
    bits: leave it out; SeededBits makes a fit reproducible, and not private.

    After fit: coef_, intercept_, sampling_error_ and privacy_error_ (of the intercept, then the
    coefficients), covariance_, event_, guarantee_, diagnostics_. A loss that is not convex, such as
    Tukey's, needs a start near the end. Rows with a number that is not finite have weight 0.
    Source: Avella-Medina, Bradshaw, Loh 2023, arXiv:2103.11003; docs/proofs/regression.md.

    >>> import unacorda
    >>> from unacorda.inference.losses import LogCosh
    >>> drawn = np.random.default_rng(1)
    >>> X = drawn.normal(size=(5000, 2))
    >>> y = 3 + X @ [1.0, -2.0] + drawn.standard_t(3, 5000)
    >>> model = MEstimator(
    ...     loss=LogCosh(1.0),
    ...     budget=unacorda.GDP(1),
    ...     feature_bounds=(-3, 3),
    ...     bits=unacorda.SeededBits(1),
    ... ).fit(X, y)
    >>> bool(abs(model.coef_ - [1, -2]).max() < 0.1)
    True

    With psi alone, here r / (1 + |r|):

    >>> class Bent:
    ...     score_bound = curvature_bound = 1.0
    ...
    ...     def score(self, prediction, target):
    ...         return (prediction - target) / (1 + abs(target - prediction))
    ...
    ...     def curvature(self, prediction, target):
    ...         return (1 + abs(target - prediction)) ** -2.0
    >>> bent = model.set_params(loss=Bent()).fit(X, y)
    >>> bool(abs(bent.coef_ - [1, -2]).max() < 0.1)
    True
    """

    def __init__(
        self,
        *,
        loss: Loss,
        budget: Guarantee,
        feature_bounds: tuple[ArrayLike, ArrayLike] | None = None,
        start: float = 0.0,
        penalty: float = 0.0,
        bits: RandomBits | None = None,
    ) -> None:
        self.loss = loss
        self.budget = budget
        self.feature_bounds = feature_bounds
        self.start = start
        self.penalty = penalty
        self.bits = bits

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> MEstimator:
        """Fit to one row a person, X n x p and y of n numbers; spends the budget.

        sample_weight: n numbers, one a person, within [0, 1]: what is outside is cut to it, and
        what is no number counts as 0. It multiplies her loss, and is as private as her row; the
        estimate is that of the weighted mean loss. A hundredth of the budget tells the mean weight,
        which is all that is released of weights alone. Divide by a public bound of them, near the
        largest: noise counts as if weights were 1, so that weights of 1/10 cost as much as nine
        tenths of the people. Where all are 0, intervals are infinite.
        """
        loss = checked_loss(self.loss)
        self._fit(X, y, sample_weight, loss=loss, start=self.start, penalty=self.penalty)
        return self

    def fit_table(self, table: Table) -> MEstimator:
        """Fit to a table of a session, which hands it in: see `unacorda.Session.fit`."""
        loss = checked_loss(self.loss)
        self._fit_table(table, loss=loss, start=self.start, penalty=self.penalty)
        return self

    def _fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None,
        *,
        loss: Loss,
        start: float,
        penalty: float,
    ) -> None:
        asked, budget = check_budget(self.budget), gdp_budget(self.budget)
        checks.finite(start=start)
        checks.non_negative(penalty=penalty)
        x, target, counts = paired(self, X, y, sample_weight)
        scales = scaling(self.feature_bounds, features=x.shape[1])
        sums = NoisySums(rows=len(x), budget=budget, bits=source_of(self.bits))
        target = np.where(counts > 0, target, 0.0)
        weighted = sample_weight is not None
        source = Arrays(x=x, target=target, counts=counts, sums=sums, weighted=weighted)
        self._run(source, asked, scales, loss=loss, start=start, penalty=penalty)

    def _fit_table(self, table: Table, *, loss: Loss, start: float, penalty: float) -> None:
        asked, budget = check_budget(self.budget), gdp_budget(self.budget)
        checks.finite(start=start)
        checks.non_negative(penalty=penalty)
        if not (score_text(loss)("p", "t") and curvature_text(loss)("p", "t")):
            raise InvalidParameter(
                "loss",
                loss,
                expected="one that says its score and curvature as SQL too, by methods "
                "score_sql(prediction, target) and curvature_sql(prediction, target), to be fit "
                "from a table",
            )
        scales = table_scaling(self.feature_bounds, table)
        source = open_table(self, table, budget=budget, target=cut_text("y", -FAR, FAR))
        self._run(source, asked, scales, loss=loss, start=start, penalty=penalty)

    def _run(
        self,
        source: Source,
        asked: Guarantee,
        scales: Scaling,
        *,
        loss: Loss,
        start: float,
        penalty: float,
    ) -> None:
        size, typical = scales.size, loss.curvature_bound / 2
        budgeting = Budgeting.of(source, asked, size=size)
        gram = budgeting.matrix(trace_bound=size, norm=0.01, most=Fraction(8, 100))
        plan = trail(
            budgeting,
            loss,
            spent=gram + source.spent,
            typical=typical,
            unit=loss.score_bound / loss.curvature_bound,
            growths=_GROWTHS,
            known_start=False,
        )
        people = source.whitened(scales, share=gram)
        slopes = np.linalg.solve(scales.back(), people.back)[1:]
        newton = Newton(
            people=people,
            loss=loss,
            least=0.2 * loss.curvature_bound,
            penalty=penalty * slopes.T @ slopes,
            longest=math.inf,
        )
        first = np.linalg.solve(people.back, np.eye(size)[0]) * start
        theta, errors = newton.run(plan, Start(theta=first))
        parameters = self._tell(people, theta, errors, asked=asked, steps=plan.steps)
        self.intercept_, self.coef_ = float(parameters[0]), parameters[1:]


class RidgeRegression(MEstimator):
    r"""Ridge regression, residuals cut at a public bound, private under replacement of one row.

    residual_bound: public, in the unit of the target; larger residuals count as if they were this
    large. The noise grows with it; some two deviations of the errors serve well. penalty, start
    (a public guess of the typical target) and the others: as for `MEstimator`.

    >>> import unacorda
    >>> drawn = np.random.default_rng(1)
    >>> X = drawn.normal(size=(5000, 2))
    >>> y = X @ [1.0, -2.0] + drawn.normal(size=5000)
    >>> free, held = (
    ...     RidgeRegression(
    ...         residual_bound=2.0,
    ...         penalty=penalty,
    ...         budget=unacorda.GDP(1),
    ...         feature_bounds=(-3, 3),
    ...         bits=unacorda.SeededBits(1),
    ...     ).fit(X, y)
    ...     for penalty in (0.0, 1.0)
    ... )
    >>> bool(abs(held.coef_).sum() < 0.7 * abs(free.coef_).sum())
    True
    """

    def __init__(
        self,
        *,
        budget: Guarantee,
        residual_bound: float | None = None,
        feature_bounds: tuple[ArrayLike, ArrayLike] | None = None,
        start: float = 0.0,
        penalty: float = 1.0,
        bits: RandomBits | None = None,
    ) -> None:
        self.budget = budget
        self.residual_bound = residual_bound
        self.feature_bounds = feature_bounds
        self.start = start
        self.penalty = penalty
        self.bits = bits

    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> RidgeRegression:
        """Fit to one row a person, X n x p and y of n numbers; spends the budget.

        sample_weight: as for `MEstimator.fit`.
        """
        loss = self._huber()
        self._fit(X, y, sample_weight, loss=loss, start=self.start, penalty=self.penalty)
        return self

    def fit_table(self, table: Table) -> RidgeRegression:
        """Fit to a table of a session, which hands it in: see `unacorda.Session.fit`."""
        self._fit_table(table, loss=self._huber(), start=self.start, penalty=self.penalty)
        return self

    def _huber(self) -> Huber:
        if self.residual_bound is None:
            raise MissingBound(
                "residual_bound", expected="a public size beyond which residuals are cut"
            )
        return Huber(public_size(residual_bound=self.residual_bound))


def checked_loss(loss: object) -> Loss:
    """The loss, if it has what a fit asks of one and answers row by row; else InvalidParameter."""
    needed = ("score", "curvature", "score_bound", "curvature_bound")
    if isinstance(loss, type) or not all(hasattr(loss, name) for name in needed):
        raise InvalidParameter(
            "loss",
            loss,
            expected="an object with score, curvature, score_bound and curvature_bound, such as "
            "unacorda.inference.losses.Huber(1.0)",
        )
    known = cast("Loss", loss)
    public_size(score_bound=known.score_bound)
    public_size(curvature_bound=known.curvature_bound)
    if not all(map(_row_by_row, (known.score, known.curvature))):
        raise InvalidParameter(
            "loss",
            loss,
            expected="score and curvature that answer each row from its own prediction and target, "
            "with an array of as many numbers; what looks at other rows is not private",
        )
    return known


def _row_by_row(function: Callable[[Floats, Floats], Floats]) -> bool:
    """Whether a function answers alike in another company of rows, tried on made-up ones.

    No proof, but it catches what standardises, sorts or centres.
    """
    made_up = np.random.default_rng(0).standard_cauchy((2, 64))
    whole = np.asarray(function(made_up[0], made_up[1]))
    if whole.shape != (64,):
        return False
    for rows in (slice(None, None, -1), slice(5, 6), slice(9, 40)):
        part = np.asarray(function(made_up[0, rows], made_up[1, rows]))
        if part.shape != whole[rows].shape:
            return False
        if not np.allclose(part, whole[rows], rtol=1e-9, atol=1e-12, equal_nan=True):
            return False
    return True
