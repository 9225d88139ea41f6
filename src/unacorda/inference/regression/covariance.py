r"""Covariances: of the features, by which rows are whitened, and of the estimates, with gates.

The metric of the features is released once: center, spread, two rounds of whitening. Weights,
radius and metric stay fixed afterwards, so that released matrices and later steps use the same
rows. Sampling and privacy errors of a fit are computed from released matrices and steps. A gate
that closes makes intervals infinite, with its reason.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from unacorda.inference.records import Floats
from unacorda.inference.regression.bounds import Tail, tail_of
from unacorda.inference.regression.rows import MATRIX, Matrix, RowBlock, Rows, power, share_of
from unacorda.inference.sums import Moment, floored, inverse_root

_LONGEST_STEP: Final = 3.5

_DETERMINED: Final = (
    "leave out a feature that is constant or that others determine, such as one of a full set of "
    "dummies; or fit with more rows, a larger budget or fewer features"
)

HIDDEN_FEATURES: Final = (
    f"noise hides the second moment of the features in some direction; {_DETERMINED}"
)
"""The reason of a gate, and what helps; so are the next ones."""

HIDDEN_UNCLIPPED: Final = (
    "noise hides the second moment of the features among rows whose gradients are not clipped; "
    "check that target_bounds contain most values, widen them or leave them out; or fit with more "
    "rows, a larger budget or fewer features"
)

HIDDEN_CURVATURE: Final = (
    f"noise hides the curvature in some direction of the features; {_DETERMINED}"
)

LONG_STEP: Final = (
    "the last step was longer than its error explains; check that feature_bounds and target_bounds "
    "contain most values, widen them or leave them out, and fit with a larger budget or more rows"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step: theta <- theta + preconditioner (gradient + noise of this deviation)."""

    preconditioner: Floats
    noise: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """A fit of rows: coefficients of the whitened rows, covariances, and the reasons for none.

    score: v of a row's gradient v a; steps: their number; beyond: the share of rows whose weight is
    reduced; curvature: M, with its penalty; bound: of the length of a row's gradient; last_step:
    the largest last step over its own deviation; closed: reasons for infinite intervals, if any.
    """

    theta: Floats
    score: Callable[[RowBlock], Any]
    steps: int
    beyond: float
    sampling: Floats
    privacy: Floats
    curvature: Floats
    bound: float
    last_step: float
    closed: tuple[str, ...] = ()
    diagnostics: dict[str, float] = field(default_factory=dict)

    def judged(self, closed: Sequence[str], **diagnostics: float) -> Fitted:
        """The same with the reasons of further gates, and their diagnostics."""
        return replace(self, closed=(*closed, *self.closed), diagnostics=diagnostics)


def propagated(steps: Sequence[Step], curvature: Floats) -> Floats:
    """The covariance that the noise of steps leaves: S <- A S A^T + nu^2 P P^T, A = I - P M.

    Source: docs/proofs/regression.md, section 5.
    """
    size = len(curvature)
    total = np.zeros((size, size))
    for step in steps:
        rest = np.eye(size) - step.preconditioner @ curvature
        noise = step.preconditioner * step.noise
        total = rest @ total @ rest.T + noise @ noise.T
    return total


def privacy_errors(steps: Sequence[Step], curvature: Floats, last: Floats) -> Floats:
    """The covariance after the steps: of their noise, and of the remaining distance."""
    to_go = (np.eye(len(curvature)) - steps[-1].preconditioner @ curvature) @ last
    return propagated(steps, curvature) + np.outer(to_go, to_go)


def fit_of(
    rows: Rows,
    theta: Floats,
    *,
    path: Sequence[Step],
    last: Floats,
    sampling: Floats,
    curvature: Floats,
    penalty: Floats | None,
    bound: float,
    score: Callable[[RowBlock], Any],
    steps: int,
    beyond: float,
) -> Fitted:
    """The fit at the end of the steps, with its errors and the gate of the last step.

    path: the steps whose noise remains. With a penalty, privacy errors include the noise in the
    number of rows.
    """
    privacy = privacy_errors(path, curvature, last)
    if penalty is not None:
        off = np.linalg.solve(curvature, penalty @ theta) * (rows.number_error / rows.number)
        privacy = privacy + np.outer(off, off)
    ratio = step_ratio(rows.back, path, curvature, last, sampling + privacy)
    far = (LONG_STEP,) if ratio > _LONGEST_STEP else ()
    return Fitted(
        theta=theta,
        score=score,
        steps=steps,
        beyond=beyond,
        sampling=sampling,
        privacy=privacy,
        curvature=curvature,
        bound=bound,
        last_step=ratio,
        closed=far,
    )


def sampling_errors(
    curvature: Floats,
    penalized: Floats,
    scores: Moment,
    *,
    level: float,
    number: float,
    trace: float | None = None,
) -> Floats:
    """The sandwich (M + K)^-1 Q (M + K)^-1 / n, with Q shrunk to a multiple of M.

    level: the trace of Q, released separately; trace: that of the multiple of M, by default level.
    Raising each eigenvalue of Q to a floor would add up to too much. Source: Huber 1967;
    docs/proofs/regression.md, section 5.
    """
    times = (level if trace is None else trace) / float(np.trace(curvature))
    middle, kept = shrunk(scores, times * curvature)
    middle = floored(middle, kept * scores.deviation)
    middle *= level / float(np.trace(middle))
    inverse = np.linalg.inv(penalized)
    found: Floats = inverse @ middle @ inverse / number
    return found


def shrunk(found: Moment, target: Floats) -> tuple[Floats, float]:
    """Shrink a released matrix to a target as far as its noise explains the difference.

    Also the share of the difference that is kept. Source: James and Stein 1961.
    """
    size, difference = len(target), found.matrix - target
    noise = found.deviation**2 * size * (size + 1) / 2
    kept = 1 - min(1.0, noise / max(float(np.sum(difference**2)), 1e-300))
    return target + kept * difference, kept


def step_ratio(
    back: Floats, steps: Sequence[Step], curvature: Floats, last: Floats, total: Floats
) -> float:
    """The largest ratio of a coefficient's last step to the length from noise and half its error.

    total: the covariance of the coefficients of whitened rows.
    """
    before, end = propagated(steps[:-1], curvature), steps[-1]
    size = len(curvature)
    spread = curvature @ before @ curvature + end.noise**2 * np.eye(size)
    step = end.preconditioner @ spread @ end.preconditioner.T
    variance = np.diag(back @ (step + total / 4) @ back.T)
    return float(np.max(np.abs(back @ last) / np.sqrt(np.maximum(variance, 1e-300))))


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """The counts of |a|^2 beyond each radius after whitening, and where they end.

    noise: the deviation of I, taken for the second moment of the rows.
    """

    tail: Tail
    end: float
    noise: float


LEAST_THRIFT: Final = 0.02
"""The least thrift, from which on a second round of whitening has nothing to add."""


_AFFORDABLE, _CHEAP, _FEW = 0.25, 0.05, 4.0
"""Norms of the noise of the Gram matrix, of norm 1, with the largest radius that rows need, and
with one that costs little; the last is the factor of the latter where people are few, as noise in
the counts then hides more rows."""

_FARTHER: Final = 64.0
"""The largest square of a radius, in multiples of that where counts end."""


def thrift(rows: Rows) -> float:
    """The part of their shares that matrices need; it falls with n mu, as their noise does."""
    needed = 3000 * math.pow(rows.size / 5, 1.5)
    return min(1.0, max(LEAST_THRIFT, (needed / power(rows)) ** 2))


def whiten(rows: Rows) -> Metric:
    """Whiten rows by released numbers; at most .13 of mu^2, less where n mu is large.

    Source: docs/proofs/regression.md, section 2.
    """
    d, f = rows.size, max(0.3, min(1.0, 16 * thrift(rows)))
    means = rows.feature_means(share_of(0.01 * f)).values
    octaves, edges, deviation = rows.feature_octaves(means, share_of(0.04 * f))
    rows.standardize(means, _spread(octaves, edges, deviation))
    counted, per_norm, left = 0.008 * f, math.sqrt(2 * d), math.inf
    # Where n mu is large the first matrix is that of nearly all rows, and one round is enough.
    for share in (0.04 * f, 0.06 * f) if thrift(rows) > LEAST_THRIFT else (0.1 * f,):
        # What 1 % exceed, as far as the noise of the matrix allows: a category of share q has
        # |a|^2 = 1 / q, and with a smaller radius its scale would grow from round to round.
        most = 0.35 / (rows.noise(MATRIX, 1.0, share) * per_norm)
        tail, noise = tail_of(rows, share=counted)
        square = max(
            min(tail.end(max(0.01 * rows.number, 2 * noise)) or tail.squares[0], most), 1.5 * d
        )
        found = gram(rows, square, share)
        root = inverse_root(found.matrix, found.norm)
        left = found.deviation * float(np.linalg.norm(root, 2)) ** 2
        rows.transform(root)
    tail, noise = tail_of(rows, share=counted)
    end = tail.end(max(0.0005 * rows.number, 2 * noise)) or float(tail.squares[0])
    return Metric(tail=tail, end=end, noise=left)


def fixed_radius(rows: Rows, metric: Metric, *, share: float) -> float:
    """The squared radius, which few rows exceed, unless the noise of the Gram matrix forbids it.

    It lies beyond the end of the counts if that costs little, as noise hides some rows there.
    """
    one = rows.noise(MATRIX, 1.0, share) * math.sqrt(2 * rows.size)
    cheap = _CHEAP * max(1.0, _FEW * thrift(rows))
    square = max(min(metric.end, _AFFORDABLE / one), min(_FARTHER * metric.end, cheap / one))
    return max(square, 1.25 * rows.size)


def gram(rows: Rows, square_radius: float, share: float) -> Moment:
    """The released mean of w a a^T."""
    asked = Matrix(
        of=lambda row: row.weight(square_radius), bound=square_radius, share=share_of(share)
    )
    (found,) = rows.ask(asked)
    return Moment(matrix=found.matrix, deviation=found.deviation)


def pooled(metric: Metric, found: Moment) -> Moment:
    """A released second moment, pooled with the multiple of I that the last whitening left.

    By the inverse of their variances, or with less of I as far as they differ by more than noise.
    """
    size, variance = len(found.matrix), found.deviation**2
    target = float(np.trace(found.matrix)) / size * np.eye(size)
    _, kept = shrunk(found, target)
    kept = max(kept, metric.noise**2 / (metric.noise**2 + variance))
    return Moment(
        matrix=target + kept * (found.matrix - target), deviation=math.sqrt(kept * variance)
    )


def _spread(octaves: Floats, edges: Floats, deviation: float) -> Floats:
    """Root mean squares of deviations, by the counts that stand out of their noise."""
    half = math.sqrt(edges[1] / edges[0])
    middle = np.concatenate([edges[:1] / half, edges * half])
    counts = np.where(octaves > 2 * deviation, octaves, 0.0)
    people = counts.sum(axis=1)
    spread = np.sqrt((counts @ middle**2) / np.maximum(people, 1.0))
    return np.where(people > 0, spread, 1.0)
