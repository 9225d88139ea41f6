r"""Noisy Newton steps for a loss with a bounded score and curvature.

Each step uses the last released curvature, as a metric or as it is. Weights depend only on the
features and released numbers, so scores keep their mean (Kunsch, Stefanski, Carroll 1989). In the
last phase metric, radius and weights are fixed, so that the final gradients, M and Q belong to one
estimating equation.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from unacorda.inference.losses import Loss
from unacorda.inference.records import Floats
from unacorda.inference.regression.bounds import (
    Pull,
    Tail,
    best_radius,
    can_show_pull,
    cap_of,
    gradient_bound,
    lengths_below,
    lengths_of,
    pull_edge,
    pull_of_far,
    pull_of_skewed,
    radius_counts,
    sure_end_of,
    within_of,
)
from unacorda.inference.regression.covariance import (
    Fitted,
    Step,
    fit_of,
    sampling_errors,
    shrunk,
    thrift,
)
from unacorda.inference.regression.rows import (
    GRADIENT,
    MATRIX,
    Counts,
    Gradient,
    Matrix,
    OctaveCounts,
    Release,
    RowBlock,
    Rows,
    Total,
    share_of,
)
from unacorda.inference.sums import Moment, floored, inverse_root, norm_of

_LONGEST: Final = 3.0
"""Steps before the last two are at most so many roots of d long, in the metric of the curvature."""

_JOINT: Final = 0.2
"""About the length of gradients, of the longest row times the largest score."""

_NOISE_OF_STEPS, _NOISE_OF_MATRICES = 0.45, 0.3
"""Noise allowed, of the sampling error of a coefficient, and of a curvature of norm 1."""

_OF_SKEWNESS: Final = 2.0
"""That much of this noise is always allowed, times the skewness of scores, and no more than all."""

_NO_NOISE: Final = 0.005
"""Noise of a curvature, of norm 1, that a smaller bound would not be worth a scan for."""

_NEAR: Final = 0.8
"""Eigenvalues of a curvature within this and its inverse keep the metric."""

_CLEAR: Final = 0.05
"""So does noise of a curvature, of norm 1 in its own metric, where there is little of it."""

_PULL: Final = 0.02
"""Of the counts of lengths before the last phase, besides those of each, and of the directions of
the longest gradients."""

_FAR, _SCORES = 0.25, 0.03
"""The part of the rows whose features are far, about, and of mu^2 for the mean of their scores."""

_FARTHER: Final = 64.0
"""The square of the radius of the last phase, where gradients are cut and few rows may hold much of
M, in multiples of that of `best_radius`: few people may lie where noise hides them."""

_FINAL: Final = 2
"""Steps that are averaged at the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """Shares of mu^2 for matrices, counts and the end; `steps` share the rest."""

    steps: tuple[float, ...]
    curvature: float
    radius: float
    cap: float
    last: float
    scores: float
    level: float

    def thrifty(self, f: float) -> Shares:
        """The same with so much of the shares of matrices; steps get the rest."""
        matrices = ("curvature", "last", "scores")
        return dataclasses.replace(self, **{name: getattr(self, name) * f for name in matrices})


@dataclass(frozen=True, slots=True, kw_only=True)
class Descent:
    """A fit, and the released pooled curvature for its gates."""

    fitted: Fitted
    curvature: Moment
    """M of the end, before eigenvalues are raised, in the coefficients of `Rows.back`."""
    before: Floats
    """M as it was before the last phase."""
    level: float
    """The released trace of Q."""
    cut: float
    """The share of rows whose gradient is cut, by counts; 0 where none is."""
    pull: float
    """How far the longest gradients point one way: 0 if that is not seen, or not asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Path:
    """Where steps led, with the penalty in the last metric and the curvatures of the last phase.

    before: the curvature that was known when the last phase began.
    """

    theta: Floats
    penalty: Floats
    steps: list[Step]
    found: list[Moment]
    before: Floats
    last: Floats
    tail: Tail


@dataclass(frozen=True, slots=True, kw_only=True)
class DescentScore:
    """Minus the weighted score of a row. A fitted model keeps it: it holds no row."""

    loss: Loss
    square: float

    def __call__(self, row: RowBlock) -> Any:
        """The descent scores of a block of rows."""
        return -_weighted_score(self.loss, self.square, row)


def _weighted_score(loss: Loss, square: float, row: RowBlock) -> Any:
    top = loss.score_bound
    score = np.clip(loss.score(row.prediction, row.target), -top, top)
    return row.weight(square) * score


@dataclass(slots=True, kw_only=True)
class Newton:
    """Newton's steps from a start.

    loss: of (prediction, target); start: coefficients of the whitened rows; curvature: used for M
    there; tolerance: of `best_radius`; one_metric: keep the metric of the start, and shrink
    matrices to multiples of I; ample: with so little noise rows may stay in a metric far from that
    of the curvature, and the last phase uses one curvature for its steps; loose: the loss's bounds
    may be far too large, so counts show where scores and curvatures end; cut: also clip gradients,
    by the counts of their lengths, at no less than so many radii; skewness: of scores that are cut,
    if the model holds; then it is asked before the last phase whether the longest gradients point
    one way, and errors contain what clipping them may have moved; far: the variance of a score over
    its bound, if the model holds; then it is asked before the last phase whether scores of rows
    with far features point one way, as the model then does not hold and weights move the fit; 0:
    that is not asked; heavy: cap curvatures only if their noise requires it, as few rows may hold
    much of M; inside: M is that of rows whose gradient is not clipped, which matters if many are;
    stretch: the factor of a first step of this squared length; penalty: a matrix, in the
    coefficients of the whitened rows.
    """

    rows: Rows
    loss: Loss
    start: Floats
    curvature: Floats
    shares: Shares
    tolerance: float
    one_metric: bool = False
    ample: bool = False
    loose: bool = False
    cut: float | None = None
    skewness: float | None = None
    heavy: bool = False
    far: float = 0.0
    inside: bool = False
    stretch: Callable[[float], float] | None = None
    penalty: Floats | None = None

    _square: float = 0.0
    _longest: float = 0.0
    _score_end: float = math.inf
    _curvature_end: float = math.inf
    _within: float = 1.0
    _pull: Pull | None = None
    _moved: float = 0.0

    def run(self) -> Descent:
        """Spends the rest of the budget."""
        way = self._steps()
        rows, theta, penalty = self.rows, way.theta, way.penalty
        convex = getattr(self.loss, "convex", True)
        end, scores, level = self._end(theta, signed=not convex)
        pooled = _pooled([*way.found, end]) if convex else end
        if self.one_metric:
            pooled = _rounded(pooled)
        bent = floored(pooled.matrix, pooled.norm)
        penalized = bent + penalty
        sampling = rows.repeated * sampling_errors(
            bent, penalized, scores, level=level, number=rows.number
        )
        if self._pull is not None:
            pulled = self._pull.direction * (self._moved / rows.number)
            moved = np.linalg.solve(penalized, pulled)
            sampling = sampling + np.outer(moved, moved)
        fitted = fit_of(
            rows,
            theta,
            path=way.steps,
            last=way.last,
            sampling=sampling,
            curvature=penalized,
            penalty=None if self.penalty is None else penalty,
            bound=self._longest,
            score=DescentScore(loss=self.loss, square=self._square),
            steps=len(self.shares.steps),
            beyond=way.tail.at(self._square) / rows.number,
        )
        return Descent(
            fitted=fitted,
            curvature=pooled,
            before=way.before,
            level=level,
            cut=1 - self._within,
            pull=0.0 if self._pull is None else self._pull.strength,
        )

    def _steps(self) -> _Path:
        rows, d = self.rows, self.rows.size
        count = len(self.shares.steps)
        phase = count - _FINAL
        lengths = self._step_shares(count)
        theta, root = self.start, inverse_root(self.curvature)
        penalty = np.zeros((d, d)) if self.penalty is None else self.penalty
        steps: list[Step] = []
        found: list[Moment] = []
        precision, last, tail = 0.0, np.zeros(d), Tail(squares=np.ones(1), beyond=np.zeros(1))
        before = np.eye(d)
        for step, share in enumerate(lengths):
            if step <= phase:
                if not np.array_equal(root, np.eye(d)):
                    rows.transform(root)
                    theta = np.asarray(np.linalg.solve(root, theta))
                    penalty, before = root.T @ penalty @ root, np.eye(d)
                ahead = sum(lengths[-_FINAL:]) if step == phase else 4 * share
                tail = self._choose_bounds(theta, ahead, last=step == phase)
                root = np.eye(d)
            asked: list[Release] = [
                Gradient(of=self._score, bound=self._longest, share=share_of(share))
            ]
            if step == 0:
                moment = Moment(matrix=np.eye(d) - penalty, deviation=0.0)
            elif step <= phase or not self.ample:
                asked.append(self._curvature(theta, self.shares.curvature, last=step >= phase))
            gradient, *moments = rows.ask(*asked, theta=theta)
            if moments:
                (moment,) = moments
                if step >= phase:
                    found.append(moment)
            bent = self._bent(
                _pooled(found) if step > phase else moment, penalty, before, known=step == 0
            )
            precision = (precision if step > phase else 0.0) + share
            preconditioner = np.asarray(np.linalg.inv(bent) * (share / precision), dtype=np.float64)
            last = -preconditioner @ (gradient.values + penalty @ theta)
            if step < phase:
                last = self._shortened(last, gradient.deviation, before, first=step == 0)
                if not self.one_metric:
                    before, own = bent, inverse_root(bent)
                    clear = moment.norm * _norm(own) ** 2 <= _CLEAR
                    if not (_near_identity(bent) or (self.ample and clear)):
                        root = own
            else:
                steps.append(Step(preconditioner=preconditioner, noise=gradient.deviation))
            theta = theta + last
        return _Path(
            theta=theta,
            penalty=penalty,
            steps=steps,
            found=found,
            before=before,
            last=last,
            tail=tail,
        )

    def _step_shares(self, count: int) -> list[float]:
        """The shares of gradients, out of the rest after matrices and counts."""
        one, phases = self.shares, count - _FINAL + 1
        spent = one.radius * phases + (one.curvature + one.cap) * (count - 1 - self.ample)
        spent += one.last + one.cap + one.scores + one.level
        if self.loose:
            spent += 2 * one.cap * phases
        if self.cut is not None:
            spent += 2 * one.cap * phases
        if self._pulls:
            spent += 2 * _PULL
        if self._asks_far:
            spent += _SCORES
        left = (self.rows.left - spent) * (1 - 1e-6)
        return [left * share for share in one.steps]

    @property
    def _pulls(self) -> bool:
        return self.skewness is not None and can_show_pull(self.rows, share=_PULL)

    @property
    def _asks_far(self) -> bool:
        return self.far > 0 and can_show_pull(self.rows, share=_SCORES)

    def _choose_bounds(self, theta: Floats, ahead: float, *, last: bool) -> Tail:
        """The radius of a phase and the bound of its gradients; ahead: the share of its steps."""
        rows, top = self.rows, self.loss.score_bound
        radius = radius_counts(rows, share=self.shares.radius)
        typical, ends = top, []
        if self.loose:
            ends = [
                self._sizes(self.loss.score, top),
                self._sizes(self.loss.curvature, self.loss.curvature_bound),
            ]
        counts, *found = rows.ask(radius, *ends, theta=theta)
        self._score_end, self._curvature_end = top, self.loss.curvature_bound
        if self.loose:
            self._score_end = sure_end_of(found[0], top)
            self._curvature_end = sure_end_of(found[1], self.loss.curvature_bound)
            typical = self._score_end * (1.0 if self.cut is None else _JOINT)
        if last and self._asks_far:
            self._pull = self._pull_of_far(theta, counts)
        # What weights hide where gradients are not cut; else they are cut, and hardly weighed.
        hidden = self._pull if self.cut is None else None
        self._square, tail = best_radius(
            rows, counts, share=ahead, score=typical, tolerance=self.tolerance, pull=hidden
        )
        if hidden is not None:
            self._moved = top * hidden.moved(math.sqrt(self._square))
        skewed = last and self.heavy and self._pulls and thrift(rows) < 1
        if skewed or self._pull is not hidden:
            self._square *= _FARTHER
        self._longest = math.sqrt(self._square) * self._score_end
        if self.cut is not None:
            self._choose_longest(theta, ahead, pulls=last and self._pulls)
        return tail

    def _pull_of_far(self, theta: Floats, counts: Counts) -> Pull | None:
        """The pull of rows with far features, by counts of |a|^2."""
        beyond = np.cumsum(counts.counts[::-1])[::-1][1:]
        place, top = int(np.argmax(beyond <= _FAR * self.rows.number)), self._score_end
        edge = float(counts.edges[place])

        def direction(row: RowBlock) -> Any:
            one = np.clip(self.loss.score(row.prediction, row.target), -top, top) / top
            one = row.own * one / np.sqrt(np.maximum(row.square, 1e-90))
            return np.where(row.square > edge, one, 0.0)

        (scores,) = self.rows.ask(
            Gradient(of=direction, bound=1.0, share=share_of(_SCORES)), theta=theta
        )
        lengths = dataclasses.replace(lengths_of(counts), edges=np.sqrt(counts.edges))
        far = max(float(beyond[place]), 1.0)
        few = thrift(self.rows) >= 1
        return pull_of_far(scores, self.rows, lengths, beyond=far, variance=self.far, few=few)

    def _choose_longest(self, theta: Floats, ahead: float, *, pulls: bool) -> None:
        """The bound of gradients, and the pull of the longest of them."""
        rows, most, share = self.rows, self._longest, 2 * self.shares.cap
        asked = lengths_below(most, of=self._length, share=share + (_PULL if pulls else 0), bins=40)
        (found,) = rows.ask(asked, theta=theta)
        lengths = lengths_of(found)
        if self._pull is not None:
            self._pull = self._pull.of_gradients(lengths)
        if pulls and self.skewness is not None:
            edge, place = pull_edge(rows, lengths, share=_PULL)

            def direction(row: RowBlock) -> Any:
                one = np.sign(self.loss.score(row.prediction, row.target))
                one = one / np.sqrt(np.maximum(row.square, 1e-90))
                return np.where(self._length(row) > edge, row.own * one, 0.0)

            (farthest,) = rows.ask(
                Gradient(of=direction, bound=1.0, share=share_of(_PULL)), theta=theta
            )
            longest = pull_of_skewed(farthest, rows, lengths, place=place, skewness=self.skewness)
            if longest.bent or self._pull is None:
                self._pull = longest
        chosen = gradient_bound(rows, lengths, share=ahead, most=_NOISE_OF_STEPS, pull=self._pull)
        # Where scores are skewed, what is cut moves the fit, and a larger bound is worth its noise.
        one = rows.noise(GRADIENT, 1.0, ahead) * math.sqrt(rows.number)
        worth = min(_OF_SKEWNESS * (self.skewness or 0.0), 0.5 if self.ample else 1.0)
        least = worth * _NOISE_OF_STEPS / one
        least = min(max(least, (self.cut or 0.0) * math.sqrt(self._square)), most)
        self._longest = max(min(chosen.bound, most), least)
        self._within = within_of(lengths, self._longest)
        if self._pull is not None:
            self._moved = self._pull.moved(self._longest)

    def _sizes(self, function: Any, top: float) -> OctaveCounts:
        """Counts of the size of a score or a curvature."""

        def size(row: RowBlock) -> Any:
            return np.abs(function(row.prediction, row.target))

        return lengths_below(top, of=size, share=self.shares.cap, bins=30)

    def _score(self, row: RowBlock) -> Any:
        return _weighted_score(self.loss, self._square, row)

    def _bending(self, row: RowBlock, *, signed: bool, last: bool) -> Any:
        top = self.loss.curvature_bound
        least = -top if signed else 0.0
        found = row.weight(self._square) * np.clip(
            self.loss.curvature(row.prediction, row.target), least, top
        )
        if not (self.inside and last):
            return found
        # A gradient that is cut does not change with the coefficients.
        return np.where(self._length(row) <= self._longest, found, 0.0)

    def _length(self, row: RowBlock) -> Any:
        return np.abs(self._score(row)) * np.sqrt(row.square)

    def _cap(self, theta: Floats, share: float, *, signed: bool, last: bool) -> float:
        """Where counts of w v |a|^2 end, if that is below the sure bound by enough to matter."""
        top, size = self._square * self._curvature_end, self.rows.size
        if norm_of(self.rows.noise(MATRIX, top, share), size) <= _NO_NOISE:
            return top
        asked = lengths_below(
            top,
            of=lambda row: np.abs(self._bending(row, signed=signed, last=last)) * row.square,
            share=self.shares.cap,
            bins=30,
        )
        (found,) = self.rows.ask(asked, theta=theta)
        noise = self.rows.noise(MATRIX, 1.0, self.shares.curvature)
        affordable = min(_NOISE_OF_MATRICES / norm_of(noise, size), top)
        # Below a part of that, noise is no reason to cut curvatures that counts may have missed.
        least = affordable / (1.5 if self.heavy else 3 if self.cut is None else 2)
        return max(
            cap_of(found, top, affordable=math.inf if self.cut is None else affordable), least
        )

    def _curvature(
        self, theta: Floats, share: float, *, last: bool, signed: bool = False
    ) -> Matrix:
        return Matrix(
            of=lambda row: self._bending(row, signed=signed, last=last),
            bound=self._cap(theta, share, signed=signed, last=last),
            share=share_of(share),
            signed=signed,
        )

    def _bent(self, moment: Moment, penalty: Floats, before: Floats, *, known: bool) -> Floats:
        """The matrix of a step: at least a quarter of the one before, and above the noise."""
        if self.one_metric and not known:
            moment = _rounded(moment)
        root = inverse_root(before)
        back = np.linalg.inv(root)
        least = max(0.25, moment.norm * _norm(root) ** 2)
        return np.asarray(back @ floored(root @ (moment.matrix + penalty) @ root, least) @ back)

    def _shortened(self, step: Floats, noise: float, before: Floats, *, first: bool) -> Floats:
        longest = _LONGEST * math.sqrt(len(step))
        length = math.sqrt(float(step @ before @ step))
        if length > longest:
            step = step * (longest / length)
        if first and self.stretch is not None:
            step = step * self.stretch(max(0.0, float(step @ step) - len(step) * noise**2))
        return step

    def _end(self, theta: Floats, *, signed: bool) -> tuple[Moment, Moment, float]:
        """M, Q and the trace of Q where the steps ended; M takes all that counts have left."""
        most, shares = self._longest**2, self.shares
        asked = self._curvature(theta, shares.last, last=True, signed=signed)
        over = self.rows.left * (1 - 1e-6) - shares.scores - shares.level
        end, scores, (level, noise) = self.rows.ask(
            dataclasses.replace(asked, share=max(asked.share, share_of(over))),
            Matrix(
                of=lambda row: np.square(self._score(row)),
                bound=most,
                share=share_of(shares.scores),
            ),
            Total(
                of=lambda row: np.square(self._score(row)) * row.square,
                bound=most,
                share=share_of(shares.level),
            ),
            theta=theta,
        )
        return end, scores, max(level, noise)


def _norm(matrix: Floats) -> float:
    return float(np.linalg.norm(matrix, 2))


def _near_identity(matrix: Floats) -> bool:
    """True if a released curvature is so near I that its metric may stay."""
    values = np.linalg.eigvalsh(matrix)
    return bool(values[0] >= _NEAR and values[-1] * _NEAR <= 1)


def _pooled(parts: list[Moment]) -> Moment:
    """The mean of released matrices by the inverse of their variances."""
    weights = np.array([part.deviation**-2 for part in parts])
    mean = sum(w * part.matrix for w, part in zip(weights, parts, strict=True))
    return Moment(matrix=np.asarray(mean / weights.sum()), deviation=float(weights.sum() ** -0.5))


def _rounded(moment: Moment) -> Moment:
    """A matrix drawn to a multiple of I, as a curvature that differs little between people is."""
    d = len(moment.matrix)
    trace = max(float(np.trace(moment.matrix)), moment.deviation)
    matrix, kept = shrunk(moment, trace / d * np.eye(d))
    return Moment(matrix=matrix, deviation=moment.deviation * max(kept, 1 / d))
