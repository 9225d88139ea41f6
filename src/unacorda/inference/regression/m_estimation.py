r"""M-estimators: a caller's own loss, and quantile regression by the smoothed check loss.

The fit starts from a line by clipped least squares, and takes Newton steps of the loss in one
metric.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np

from unacorda import checks
from unacorda.errors import InvalidParameter
from unacorda.inference.expressions import sql_of
from unacorda.inference.losses import Check, Loss
from unacorda.inference.records import Floats, public_size
from unacorda.inference.regression.bounds import lengths_below, lengths_of
from unacorda.inference.regression.covariance import (
    HIDDEN_CURVATURE,
    Fitted,
    Metric,
    thrift,
    whiten,
)
from unacorda.inference.regression.estimator import LineRegression
from unacorda.inference.regression.linear import LeastSquares
from unacorda.inference.regression.newton import Newton, Shares
from unacorda.inference.regression.rows import RowBlock, Rows, Total, Unit, share_of
from unacorda.inference.regression.tables import Table
from unacorda.inference.sums import floored
from unacorda.privacy.guarantees import Guarantee


@dataclass(kw_only=True, eq=False, repr=False)
class MEstimator(LineRegression):
    r"""Fits the linear predictor that minimizes a mean loss, private under replacement of one row.

    A tenth of the budget finds a starting line by least squares with clipped gradients. Rows with a
    number that is not finite have weight 0.

    Source: Avella-Medina, Bradshaw, Loh 2023, arXiv:2103.11003; docs/proofs/regression.md.

    Parameters
    ----------
    loss
        An object like those of `unacorda.inference.losses`: functions score and curvature of
        (prediction, target), and the numbers score_bound and curvature_bound. The loss itself is
        not needed; psi suffices: score is minus psi(target - prediction), and curvature is psi',
        with `convex = False` if psi decreases anywhere. Scores and curvatures beyond their bounds
        are clipped, and NaN counts as 0, so wrong bounds break no guarantee. The functions must
        work row by row, and must not raise.
    penalty
        A ridge penalty: penalty / 2 times the sum of squared slopes, for features in units of a
        fifth of the width of their bounds. Intervals are then for the penalized solution.
    budget, feature_bounds, target_bounds, bounds_share, bits
        As for `LinearRegression`.

    Attributes
    ----------
    coef_, intercept_
        The fit.
    sampling_error_, privacy_error_, covariance_
        Errors of the intercept, then the coefficients.
    cannot_, diagnostics_, event_, guarantee_
        As of `LinearRegression`.

    Examples
    --------
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

    loss: Loss
    penalty: float = 0.0

    def _check(self) -> None:
        checked_loss(self.loss)
        checks.non_negative(penalty=self.penalty)

    def fit_table(self, table: Table) -> MEstimator:
        """Fits to a table of a session, which hands it in: see `unacorda.Session.fit`.

        Parameters
        ----------
        table
            The session's table.

        Raises
        ------
        InvalidParameter
            For a loss that cannot be written as SQL.
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
            far=0.5,
        )
        self._keep_line(rows, found, asked=asked)


def checked_loss(loss: object) -> Loss:
    """Check that a loss is complete and works row by row; else InvalidParameter."""
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
    """True if a function answers each row alike among other rows, tried on made-up ones.

    No proof, but it catches functions that standardize, sort or center.
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


_RAREST: Final = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class _Quantile:
    """The check loss of targets in a unit.

    near: of scores, smoothed little, for little bias; wide: of curvatures, smoothed much, for they
    are a density.
    """

    near: Check
    wide: Check
    unit: Unit

    @property
    def score_bound(self) -> float:
        return self.near.score_bound

    @property
    def curvature_bound(self) -> float:
        return self.wide.curvature_bound

    def score(self, prediction: Any, target: Any) -> Any:
        return self.near.score(prediction, self.unit.of(target))

    def curvature(self, prediction: Any, target: Any) -> Any:
        return self.wide.curvature(prediction, self.unit.of(target))


@dataclass(kw_only=True, eq=False, repr=False)
class QuantileRegression(LineRegression):
    r"""Fits a quantile of the target as a linear function of the features, with valid intervals.

    It is private under replacement of one row. It estimates the line of the check loss, smoothed by
    at most .15 deviations of the residuals; the smoothing falls with n. Rows with a number that is
    not finite have weight 0.

    Source: Koenker and Bassett 1978; Fernandes, Guerre, Horta 2021 (smoothing);
    docs/proofs/regression.md.

    Parameters
    ----------
    quantile
        Of the target given the features, in (0, 1).
    budget, feature_bounds, target_bounds, bounds_share, bits
        As for `LinearRegression`.

    Attributes
    ----------
    coef_, intercept_
        The fit.
    sampling_error_, privacy_error_, covariance_
        Errors of the intercept, then the coefficients.
    cannot_, diagnostics_, event_, guarantee_
        As of `LinearRegression`; "signal" is that of the density of the errors at the quantile. The
        density is smoothed by at most .4 deviations; if it changes much within that distance,
        standard errors are off.

    Examples
    --------
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

    quantile: float = 0.5

    def _check(self) -> None:
        if not _RAREST <= checks.finite(quantile=self.quantile) <= 1 - _RAREST:
            expected = f"strictly between 0 and 1, and {_RAREST:g} or more from both"
            raise InvalidParameter("quantile", self.quantile, expected=expected)

    def _run(self, rows: Rows, asked: Guarantee) -> None:
        unit, tau = self._unit, float(self.quantile)
        pilot = pilot_of(rows, unit)
        scale = residual_scale(rows, pilot, unit)
        moved = residual_quantile(rows, pilot, unit, quantile=tau, scale=scale)
        # From here on the target is in released deviations, so that bandwidths are public.
        scaled = Unit(middle=unit.middle, half=unit.half * scale)
        one = np.linalg.solve(rows.back, np.eye(rows.size)[0])
        found = fit_from(
            rows,
            _loss(tau, scaled, number=rows.number, size=rows.size),
            pilot,
            start=(pilot.theta + moved * one) / scale,
            curvature=max(0.05, 1.4 * tau * (1 - tau)),
            far=math.sqrt(tau * (1 - tau)) / max(tau, 1 - tau),
        )
        self._keep_line(rows, found, asked=asked, unit=scaled)


def _loss(quantile: float, unit: Unit, *, number: float, size: int) -> _Quantile:
    """Bandwidths in deviations: small for scores, wide enough for curvatures to be a density."""
    near = min(0.15, 2 * number ** (-1 / 3))
    wide = min(0.4, max(number**-0.2, 0.2) * max(1.0, (size / 5) ** 0.5))
    return _Quantile(
        near=Check(quantile, bandwidth=near), wide=Check(quantile, bandwidth=wide), unit=unit
    )


_GRAM, _PILOT, _COUNTED, _ONE = 0.06, 0.1, 0.005, 0.001
_SPLIT: Final = (0.1, 0.15, 0.25, 0.5)
_TUNING: Final = 2.0
_TYPICAL: Final = 0.6745
_SHARES: Final = Shares(
    steps=(0.06, 0.09, 0.40, 0.45),
    curvature=0.04,
    radius=0.006,
    cap=0.004,
    last=0.06,
    scores=0.03,
    level=0.01,
)
_SIGNAL: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pilot:
    """A line by cut least squares. theta: whitened, in half widths; gram: floored."""

    theta: Floats
    gram: Floats
    metric: Metric
    thrifty: float


def pilot_of(rows: Rows, unit: Unit) -> Pilot:
    """The starting line of other losses, for about a tenth of the budget."""
    metric = whiten(rows)
    f = max(0.25, thrift(rows))
    squares = LeastSquares(rows=rows, metric=metric, unit=unit, tuning=_TUNING, ratio=1.0)
    found = squares.descend(
        [_PILOT * f * share for share in _SPLIT],
        gram_share=_GRAM * f,
        counted=_COUNTED,
        averaged=1,
    )
    bent = floored(found.second.matrix, found.second.norm)
    return Pilot(theta=found.theta, gram=bent, metric=metric, thrifty=f)


def residual_scale(rows: Rows, pilot: Pilot, unit: Unit) -> float:
    """About the standard deviation of residuals, by the median of released counts."""
    asked = lengths_below(
        4.0, of=lambda row: np.abs(unit.of(row.target) - row.prediction), share=10 * _ONE
    )
    (found,) = rows.ask(asked, theta=pilot.theta)
    lengths = lengths_of(found)
    counts = np.cumsum(np.maximum(lengths.counts, 0.0))
    place = min(int(np.searchsorted(counts, counts[-1] / 2)), len(lengths.edges) - 1)
    return float(lengths.edges[place]) / _TYPICAL / 2**0.25


def residual_quantile(
    rows: Rows, pilot: Pilot, unit: Unit, *, quantile: float, scale: float
) -> float:
    """Find a quantile of residuals by a noisy binary search within eight deviations."""
    low, high = -8 * scale, 8 * scale
    for _ in range(10):
        middle = (low + high) / 2

        def below(row: RowBlock, middle: float = middle) -> Any:
            return np.where(unit.of(row.target) - row.prediction <= middle, row.own, 0.0)

        ((share, _noise),) = rows.ask(
            Total(of=below, bound=1.0, share=share_of(_ONE)), theta=pilot.theta
        )
        if share < quantile:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def mean_curvature(rows: Rows, loss: Loss, theta: Floats) -> float:
    """The mean curvature at the start, kept above its noise."""
    top = loss.curvature_bound
    asked = Total(
        of=lambda row: row.own * np.clip(loss.curvature(row.prediction, row.target), 0.0, top),
        bound=top,
        share=share_of(10 * _ONE),
    )
    ((mean, noise),) = rows.ask(asked, theta=theta)
    return max(float(mean), 2 * float(noise), 0.01 * top)


def fit_from(
    rows: Rows,
    loss: Loss,
    pilot: Pilot,
    *,
    start: Floats,
    curvature: float,
    penalty: Floats | None = None,
    loose: bool = False,
    cut: float | None = None,
    far: float = 0.0,
) -> Fitted:
    """Fit from a start near the solution, in the metric of the Gram matrix.

    Source: docs/proofs/regression.md, section 4.
    """
    bent = curvature * pilot.gram
    found = Newton(
        rows=rows,
        loss=loss,
        start=start,
        curvature=bent if penalty is None else bent + penalty,
        shares=_SHARES.thrifty(pilot.thrifty),
        tolerance=0.15,
        one_metric=True,
        loose=loose,
        cut=cut,
        far=far,
        penalty=penalty,
    ).run()
    pooled = found.curvature
    signal = float(np.linalg.eigvalsh(pooled.matrix)[0]) / pooled.norm
    closed = []
    if signal < _SIGNAL:
        closed.append(HIDDEN_CURVATURE)
    return found.fitted.judged(closed, signal=signal / _SIGNAL, pull=found.pull)
