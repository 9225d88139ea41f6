r"""M-estimation with a caller's own loss, with or without a ridge penalty."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np
from numpy.typing import ArrayLike

from unacorda import checks
from unacorda.bits import RandomBits
from unacorda.errors import InvalidParameter
from unacorda.inference.losses import Loss
from unacorda.inference.predictors import LinearPredictor
from unacorda.inference.records import Floats, public_size
from unacorda.inference.regression.continuous import fit_from, mean_curvature, pilot_of
from unacorda.inference.regression.estimator import Regression
from unacorda.inference.regression.expressions import sql_of
from unacorda.inference.regression.rows import Rows
from unacorda.inference.tables import Table
from unacorda.privacy.guarantees import Guarantee

__all__ = ["MEstimator", "checked_loss"]


class MEstimator(LinearPredictor, Regression):
    r"""The linear predictor that minimizes a mean loss, private under replacement of one row.

    A tenth of the budget finds a line by least squares, gradients cut, to start from.

    Parameters
    ----------
    loss : an object like those of `unacorda.inference.losses`: functions score and curvature of
        (prediction, target), and the numbers score_bound and curvature_bound. The loss itself is
        not asked for, so that psi alone will do: score is minus psi(target - prediction), and
        curvature is psi', with `convex = False` where psi falls. What a score or a curvature is
        beyond its bound is clipped, and what is no number counts as 0, so that a loss that breaks
        its word breaks no guarantee; its functions must answer row by row, and not raise.
    budget : any guarantee that normal noise keeps; each fit spends it whole.
    feature_bounds, target_bounds : as for `LinearRegression`; left out, ranges are found.
    penalty : a ridge penalty, penalty / 2 times the sum of squared slopes, of features in units of
        a fifth of the width of their bounds; intervals are then about the penalized solution.
    bits : leave it out; SeededBits makes a fit reproducible, and not private.

    Attributes
    ----------
    coef_, intercept_ : the fit.
    sampling_error_, privacy_error_, covariance_ : errors of the intercept, then the coefficients.
    cannot_, diagnostics_, event_, guarantee_ : as of `LinearRegression`.

    Rows with a number that is not finite have weight 0.

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
    ...     target_bounds=(-20, 20),
    ...     bits=unacorda.SeededBits(1),
    ... ).fit(X, y)
    >>> bool(abs(model.coef_ - [1, -2]).max() < 0.15)
    True

    With psi alone, here r / (1 + |r|):

    >>> class Bent:
    ...     score_bound = curvature_bound = 1.0
    ...
    ...     def score(self, prediction, target):
    ...         return (prediction - target) / (1 + abs(target - prediction))
    ...
    ...     def curvature(self, prediction, target):
    ...         return 1 / (1 + abs(target - prediction)) ** 2
    >>> bent = model.set_params(loss=Bent()).fit(X, y)
    >>> bool(abs(bent.coef_ - [1, -2]).max() < 0.15)
    True
    """

    _needs_target_bounds = True

    def __init__(
        self,
        *,
        loss: Loss,
        budget: Guarantee,
        feature_bounds: tuple[ArrayLike, ArrayLike] | None = None,
        target_bounds: tuple[float, float] | None = None,
        penalty: float = 0.0,
        bits: RandomBits | None = None,
    ) -> None:
        self.loss = loss
        self.budget = budget
        self.feature_bounds = feature_bounds
        self.target_bounds = target_bounds
        self.penalty = penalty
        self.bits = bits

    def _check(self) -> None:
        checked_loss(self.loss)
        checks.non_negative(penalty=self.penalty)

    def fit_table(self, table: Table) -> MEstimator:
        """Fit to a table of a session, which hands it in: see `unacorda.Session.fit`.

        InvalidParameter for a loss that cannot be written as SQL.
        """
        loss = checked_loss(self.loss)
        for function in (loss.score, loss.curvature):
            sql_of(function, "p", "t", argument="loss")
        return super().fit_table(table)

    def _run(self, rows: Rows, asked: Guarantee) -> None:
        loss, unit = checked_loss(self.loss), self._unit
        pilot = pilot_of(rows, unit)
        one = np.linalg.solve(rows.back, np.eye(rows.size)[0])
        start = pilot.theta * unit.half + one * unit.middle
        found = fit_from(
            rows,
            loss,
            pilot,
            start=start,
            curvature=mean_curvature(rows, loss, start),
            penalty=self._penalty(rows, self.penalty),
            loose=True,
            cut=0.0,
        )
        parameters = self._tell(rows, found, asked=asked)
        self.intercept_, self.coef_ = float(parameters[0]), parameters[1:]


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
