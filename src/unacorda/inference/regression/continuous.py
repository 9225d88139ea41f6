r"""Newton's fit of a loss of residuals, in one metric, from the end of cut least squares."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from unacorda.inference.losses import Loss
from unacorda.inference.records import Floats
from unacorda.inference.regression.bounds import lengths_below, lengths_of
from unacorda.inference.regression.covariance import Fitted, floored
from unacorda.inference.regression.least_squares import LeastSquares, Unit
from unacorda.inference.regression.metric import Metric, norm_of, thrift, whiten
from unacorda.inference.regression.newton import Newton, Shares
from unacorda.inference.regression.rows import Row, Rows, Total, share_of

__all__ = [
    "Pilot",
    "Scaled",
    "fit_from",
    "mean_curvature",
    "pilot_of",
    "residual_quantile",
    "residual_scale",
]

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
class Scaled:
    """A loss of targets in another unit, (y - middle) / half."""

    loss: Loss
    unit: Unit

    @property
    def score_bound(self) -> float:
        """That of the loss."""
        return self.loss.score_bound

    @property
    def curvature_bound(self) -> float:
        """That of the loss."""
        return self.loss.curvature_bound

    def score(self, prediction: Floats, target: Floats) -> Floats:
        """The score at a target in its own unit."""
        return self.loss.score(prediction, self.unit.of(target))

    def curvature(self, prediction: Floats, target: Floats) -> Floats:
        """The curvature at a target in its own unit."""
        return self.loss.curvature(prediction, self.unit.of(target))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pilot:
    """A line by cut least squares. theta: whitened, in half widths; gram: floored."""

    theta: Floats
    gram: Floats
    metric: Metric
    thrifty: float


def pilot_of(rows: Rows, unit: Unit) -> Pilot:
    """The line that other losses start from, for about a tenth of the budget."""
    metric = whiten(rows)
    f = max(0.25, thrift(rows))
    squares = LeastSquares(rows=rows, metric=metric, unit=unit, tuning=_TUNING, ratio=1.0)
    found = squares.descend(
        [_PILOT * f * share for share in _SPLIT],
        gram_share=_GRAM * f,
        counted=_COUNTED,
        averaged=1,
    )
    bent = floored(found.second.matrix, norm_of(found.second.deviation, rows.size))
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
    """A quantile of residuals by a noisy binary search within eight deviations."""
    low, high = -8 * scale, 8 * scale
    for _ in range(10):
        middle = (low + high) / 2

        def below(row: Row, middle: float = middle) -> Any:
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
) -> Fitted:
    """Fit from a start near the end, in the metric of the Gram matrix throughout.

    Source: docs/proofs/regression.md, section 4.
    """
    f = pilot.thrifty
    shares = dataclasses.replace(
        _SHARES,
        curvature=_SHARES.curvature * f,
        last=_SHARES.last * f,
        scores=_SHARES.scores * f,
    )
    bent = curvature * pilot.gram
    newton = Newton(
        rows=rows,
        loss=loss,
        start=start,
        curvature=bent if penalty is None else bent + penalty,
        shares=shares,
        tolerance=0.15,
        one_metric=True,
        loose=loose,
        cut=cut,
        penalty=penalty,
    )
    found = newton.run()
    pooled = found.curvature
    noise = norm_of(pooled.deviation, rows.size)
    signal = float(np.linalg.eigvalsh(pooled.matrix)[0]) / noise
    closed = list(found.errors.closed)
    if signal < _SIGNAL:
        closed.append("noise hides the curvature in some direction of the features")
    if found.errors.last_step > 3.5:
        closed.append("the last step was longer than its error explains")
    errors = dataclasses.replace(
        found.errors, closed=tuple(closed), diagnostics={"signal": signal / _SIGNAL}
    )
    return Fitted(
        theta=found.theta,
        errors=errors,
        score=newton.descent_score,
        steps=len(shares.steps),
        beyond=found.beyond,
    )
