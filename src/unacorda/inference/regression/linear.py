r"""Linear regression, with and without a ridge penalty, by steps with clipped gradients.

The norm of a row's gradient w |a| |r| is clipped to a released bound. Among all estimators of
bounded influence this one has the least variance (Hampel; Krasker and Welsch 1982), and noise is
proportional to the bound. The bound grows with the number of rows until it clips no row.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from unacorda import checks
from unacorda.inference.records import Floats, public_size
from unacorda.inference.regression.bounds import (
    GradientBound,
    Lengths,
    ParetoTail,
    Pull,
    can_show_pull,
    gradient_bound,
    lengths_below,
    lengths_of,
    level_bound,
    median_of,
    pull_edge,
    pull_of,
    within_of,
)
from unacorda.inference.regression.covariance import (
    HIDDEN_FEATURES,
    HIDDEN_UNCLIPPED,
    LEAST_THRIFT,
    Fitted,
    Metric,
    Step,
    fit_of,
    fixed_radius,
    gram,
    pooled,
    sampling_errors,
    shrunk,
    thrift,
    whiten,
)
from unacorda.inference.regression.estimator import LineRegression
from unacorda.inference.regression.rows import (
    Gradient,
    Matrix,
    RowBlock,
    Rows,
    Total,
    Unit,
    share_of,
)
from unacorda.inference.sums import Moment, floored
from unacorda.privacy.guarantees import Guarantee


class _SquaresRegression(LineRegression):
    """The least squares fit that `LinearRegression` and `RidgeRegression` share."""

    def _fit_squares(
        self, rows: Rows, asked: Guarantee, *, tuning: float | None = None, penalty: float = 0.0
    ) -> None:
        unit, metric = self._unit, whiten(rows)
        held = self._penalty(rows, penalty)
        found = LeastSquares(rows=rows, metric=metric, unit=unit, tuning=tuning, penalty=held).fit()
        self._keep_line(rows, found, asked=asked, unit=unit)
        self.scale_ = found.diagnostics["scale"] * unit.half
        self.diagnostics_["scale"] = self.scale_


@dataclass(kw_only=True, eq=False, repr=False)
class LinearRegression(_SquaresRegression):
    r"""Fits a line by least squares, with valid intervals, private under replacement of one row.

    It estimates the least squares line of the population for any distribution of the errors, except
    for the effect of clipping. `diagnostics_["cut"]` estimates the share of clipped gradients from
    released counts; it falls with n. Long gradients may point one way, for example if the mean is
    not linear and few rows determine the slope. Then no row is weighted, gradients are clipped at a
    larger bound, and intervals are wider by the possible shift from clipping. Rows with a number
    that is not finite have weight 0. Error messages contain only public facts: shapes, dtypes,
    bounds, and a budget too small for n and p.

    Source: Hampel 1974 and Krasker, Welsch 1982 (bounded influence of least variance);
    Avella-Medina, Bradshaw, Loh 2023, arXiv:2103.11003 (noisy steps); docs/proofs/regression.md.

    Parameters
    ----------
    budget
        Any guarantee that normal noise keeps; each fit spends it whole.
    feature_bounds, target_bounds
        Public (lower, upper) where most values lie; for features each one number or one per
        feature. Nothing is clipped to them, and they may be hundreds of times too wide. By default
        they are found privately (`feature_bounds_`, `target_bounds_`).
    bounds_share
        The share of the budget that finds bounds, where some are left out, from 1e-6 to 0.25.
    tuning
        Clips gradients at this many robust deviations, such as 3, so that outliers have little
        influence. Intervals are then valid if errors are symmetric given the features.
    bits
        Omit it for secure noise; `SeededBits` makes a fit reproducible, and not private.

    Attributes
    ----------
    coef_, intercept_, scale_
        The fit; scale_ is the standard deviation of residuals.
    sampling_error_, privacy_error_, covariance_
        Errors of the intercept, then the coefficients.
    cannot_
        The reasons for infinite intervals, in words, and what helps; empty where they are finite.
    notes_
        How weights and elements of any type were read, in words; types alone decide which there
        are.
    feature_bounds_, target_bounds_, found_bounds_
        The bounds, given or found, and which were found: positions of features, and "target".
    diagnostics_
        "rows"; the share "beyond" the radius (with less weight); the share "cut"; the "pull" of the
        longest gradients (1: all one way, 0: not visible, else at least .7); the "signal" of the
        second moment over its noise, below 1 without intervals; the "scale", about the root mean
        square of residuals; the "last step" over the length that its error explains.
    event_, guarantee_
        The privacy event, and the guarantee.

    Examples
    --------
    >>> import numpy as np
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

    tuning: float | None = None

    def _check(self) -> None:
        if self.tuning is not None:
            public_size(tuning=self.tuning)

    def _run(self, rows: Rows, asked: Guarantee) -> None:
        self._fit_squares(rows, asked, tuning=self.tuning)


@dataclass(kw_only=True, eq=False, repr=False)
class RidgeRegression(_SquaresRegression):
    r"""Fits a ridge regression, with valid intervals, private under replacement of one row.

    Intervals are for the penalized solution.

    Parameters
    ----------
    penalty
        The fit minimizes half the mean squared residual plus penalty / 2 times the sum of squared
        slopes. Slopes are for features in units of a fifth of the width of their bounds.
    budget, feature_bounds, target_bounds, bounds_share, bits
        As for `LinearRegression`; attributes too.

    Examples
    --------
    >>> import numpy as np
    >>> import unacorda
    >>> drawn = np.random.default_rng(1)
    >>> X = drawn.normal(size=(5000, 2))
    >>> y = X @ [1.0, -2.0] + drawn.normal(size=5000)
    >>> free, held = (
    ...     RidgeRegression(
    ...         penalty=penalty,
    ...         budget=unacorda.GDP(1),
    ...         feature_bounds=(-3, 3),
    ...         target_bounds=(-10, 10),
    ...         bits=unacorda.SeededBits(1),
    ...     ).fit(X, y)
    ...     for penalty in (0.0, 1.0)
    ... )
    >>> bool(abs(held.coef_).sum() < 0.7 * abs(free.coef_).sum())
    True
    """

    penalty: float = 1.0

    def _check(self) -> None:
        checks.non_negative(penalty=self.penalty)

    def _run(self, rows: Rows, asked: Guarantee) -> None:
        self._fit_squares(rows, asked, penalty=self.penalty)


_STEPS: Final = (0.03, 0.06, 0.11, 0.37, 0.43)
_COUNTED, _GRAM, _CURVATURE, _SCORES, _LEVEL = 0.008, 0.10, 0.06, 0.03, 0.01
_TAIL_COUNTED, _PULL, _SIDE, _HALF = 0.025, 0.02, 0.01, 0.04
"""Of the counts before the last steps, of the directions of the longest gradients, of their number
on each side of the line, and of the directions of the longer half of all, the last of which needs
less of more people."""

_RECOUNTED: Final = 0.08
"""Of counting the tail once more where it pulls, taken from the last steps."""

_FARTHEST: Final = 1e3
"""Residuals are clipped at this many half widths of the target's bounds."""

_NONE_CUT: Final = 0.999
"""A share of rows whose gradient is not cut, from which on the others do not show in M."""

_TYPICAL: Final = 0.6745
"""The median of |Z| of a standard normal Z."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SquaresDescent:
    """The end of steps, the steps, and the bound of the last ones.

    pulled: the mean gradient that clipping may have removed in one direction; shape, level: bounds
    of gradients for the matrix of their squares and for its trace; gram, second: the second moment
    as it is released, and pooled; square: the squared radius of weights in it.
    """

    theta: Floats
    steps: list[Step]
    last: Floats
    cut: GradientBound
    pull: Pull | None
    pulled: Floats
    shape: float
    level: float
    gram: Moment
    second: Moment
    square: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedResidual:
    """The weighted residual of a row. A fitted model keeps it: it holds no row."""

    unit: Unit
    square: float

    def __call__(self, row: RowBlock) -> Any:
        """The weighted residuals of a block of rows."""
        residual = np.clip(self.unit.of(row.target) - row.prediction, -_FARTHEST, _FARTHEST)
        return row.weight(self.square) * residual


@dataclass(slots=True, kw_only=True)
class LeastSquares:
    """Steps on whitened rows, and the errors of where they end.

    tuning: the bound of gradients, in robust deviations; None: as large as noise allows. penalty: a
    matrix, in the coefficients of the whitened rows.
    """

    rows: Rows
    metric: Metric
    unit: Unit
    tuning: float | None = None
    penalty: Floats | None = None
    ratio: float = 0.45
    square: float = 0.0

    def descend(
        self,
        shares: Sequence[float],
        *,
        gram_share: float,
        counted: float,
        averaged: int,
        pulls: bool = False,
    ) -> SquaresDescent:
        """Steps that spend these shares; the last ones are averaged and share one bound.

        pulls: before the last steps, test with the further share `_pull_share` whether the longest
        gradients point one way. If they do, the last steps weigh no row, and have a larger bound.
        """
        rows, d = self.rows, self.rows.size
        self.square = square = fixed_radius(rows, self.metric, share=gram_share)
        released = gram(rows, square, gram_share)
        second = pooled(self.metric, released)
        bent = floored(second.matrix, second.norm)
        theta, steps, last, precision = np.zeros(d), list[Step](), np.zeros(d), 0.0
        alone, total = len(shares) - averaged, sum(shares[-averaged:])
        pull: Pull | None = None
        lengths = Lengths(edges=np.ones(1), counts=np.zeros(1), deviation=0.0)
        rest = 1.0  # of the shares of the last steps
        for step, planned in enumerate(shares):
            final = step >= alone
            if step <= alone:
                if final and pulls:
                    lengths, pull = self._pull(theta, counted, before=lengths, second=second)
                    if pull.bent:
                        self.square = math.inf
                        rest = 1 - _RECOUNTED / total
                        total -= _RECOUNTED
                else:
                    lengths = self._lengths(theta, counted)
                cut = gradient_bound(
                    rows,
                    lengths,
                    share=total if final else planned,
                    most=self.ratio if final else 1.0,
                    pull=pull,
                )
                if self.tuning is not None and final:
                    bound = min(cut.bound, self.tuning * median_of(lengths) / _TYPICAL)
                    cut = GradientBound(bound=bound, within=within_of(lengths, bound))
            share = planned * rest
            (gradient,) = rows.ask(
                Gradient(of=self.score, bound=cut.bound, share=share_of(share)), theta=theta
            )
            precision = (precision if step > alone else 0.0) + share
            inverse = np.linalg.inv(cut.within * bent + self._penalty)
            preconditioner = np.asarray(inverse * (share / precision), dtype=np.float64)
            steps.append(Step(preconditioner=preconditioner, noise=gradient.deviation))
            last = preconditioner @ (gradient.values - self._penalty @ theta)
            theta = theta + last
        pulled = np.zeros(d)
        if pull is not None:
            pulled = pull.direction * (pull.moved(cut.bound) / rows.number)
        return SquaresDescent(
            theta=theta,
            steps=steps,
            last=last,
            cut=cut,
            pull=pull,
            pulled=pulled,
            shape=min(cut.bound, lengths.upper_edge(0.995)),
            level=level_bound(rows, lengths, share=_LEVEL, most=cut.bound),
            gram=released,
            second=second,
            square=square,
        )

    def fit(self) -> Fitted:
        """Spends the rest of the budget; coefficients are in half widths of the target."""
        rows = self.rows
        f = max(0.25, thrift(rows))
        curved, grammed = _CURVATURE * f, _GRAM * f
        pulls = self.tuning is None and can_show_pull(rows, share=_PULL)
        counted = 4 * _COUNTED + (self._pull_share if pulls else 0)
        left = (rows.left - grammed - counted - curved - _SCORES - _LEVEL) * (1 - 1e-6)
        found = self.descend(
            [left * share for share in _STEPS],
            gram_share=grammed,
            counted=_COUNTED,
            averaged=2,
            pulls=pulls,
        )
        theta, bound = found.theta, found.cut.bound

        def kept(row: RowBlock) -> Any:
            return np.where(self._length(row) <= bound, row.weight(self.square), 0.0)

        def squared(row: RowBlock) -> Any:
            return np.square(self.score(row))

        # Where noise is small and no row is cut, the Gram matrix is M, and Q has M's share too.
        known = thrift(rows) <= LEAST_THRIFT and found.cut.within >= _NONE_CUT
        asked = [] if known else [Matrix(of=kept, bound=found.square, share=share_of(curved))]
        *inside, scores, (level, noise) = rows.ask(
            *asked,
            Matrix(
                of=squared,
                bound=found.shape**2,
                share=share_of(_SCORES + (curved if known else 0)),
            ),
            Total(
                of=lambda row: np.square(np.minimum(self._length(row), found.level)),
                bound=found.level**2,
                share=share_of(_LEVEL),
            ),
            theta=theta,
        )
        # Gates trust no whitening: without people its noise leaves I, too.
        alone, second = found.gram, found.second
        if inside:
            alone, second = (self._pooled(inside[0], one) for one in (alone, second))
        signal = float(np.linalg.eigvalsh(alone.matrix)[0]) / alone.norm
        of_gram = float(np.linalg.eigvalsh(found.gram.matrix)[0]) / found.gram.norm
        curvature = floored(second.matrix, second.norm)
        penalized = curvature + self._penalty
        sampling = rows.repeated * sampling_errors(
            curvature,
            penalized,
            scores,
            level=max(level, noise),
            number=rows.number,
            trace=max(float(np.trace(scores.matrix)), scores.deviation),
        )
        moved = np.linalg.solve(penalized, found.pulled)
        sampling = sampling + np.outer(moved, moved)
        closed = []
        if of_gram < 1:
            closed.append(HIDDEN_FEATURES)
        elif signal < 1.5:
            closed.append(HIDDEN_UNCLIPPED)
        return fit_of(
            rows,
            theta,
            path=found.steps,
            last=found.last,
            sampling=sampling,
            curvature=penalized,
            penalty=self.penalty,
            bound=bound,
            score=self.score,
            steps=len(_STEPS),
            beyond=self.metric.tail.at(self.square) / rows.number,
        ).judged(
            closed,
            signal=min(signal / 1.5, of_gram),
            cut=1 - found.cut.within,
            pull=0.0 if found.pull is None else found.pull.strength,
            scale=math.sqrt(max(level, noise) / float(np.trace(curvature))),
        )

    def _pooled(self, inside: Moment, second: Moment) -> Moment:
        """M of the rows that are not cut, drawn to a multiple of the Gram matrix."""
        square = max(float(np.sum(second.matrix**2)), 1e-300)
        overlap = float(np.sum(inside.matrix * second.matrix)) / square
        times = min(max(0.2, overlap), 1.0)
        noise = times * second.deviation
        both = Moment(matrix=inside.matrix, deviation=math.hypot(inside.deviation, noise))
        _, kept = shrunk(both, times * second.matrix)
        precisions = inside.deviation**-2, noise**-2
        part = kept + (1 - kept) * precisions[0] / sum(precisions)
        matrix = part * inside.matrix + (1 - part) * times * second.matrix
        deviation = math.hypot(part * inside.deviation, (1 - part) * noise)
        return Moment(matrix=matrix, deviation=deviation)

    def _lengths(self, theta: Floats, share: float) -> Lengths:
        top = 4 * math.sqrt(self.square)
        asked = lengths_below(top, of=self._length, share=share)
        (found,) = self.rows.ask(asked, theta=theta)
        return lengths_of(found)

    @property
    def _pull_share(self) -> float:
        return _TAIL_COUNTED + _PULL + 2 * _SIDE * self._many + self._half_share

    @property
    def _many(self) -> bool:
        """Whether people are many enough for the features to count a few far rows."""
        return thrift(self.rows) < 1

    @property
    def _half_share(self) -> float:
        return _HALF * max(0.25, thrift(self.rows))

    def _pull(
        self, theta: Floats, share: float, *, before: Lengths, second: Moment
    ) -> tuple[Lengths, Pull]:
        """The pull of long gradients, by earlier counts, and the lengths that are to be cut.

        Where there is none these are those of `_lengths`; else of rows that are not weighted, whose
        tail is counted again.
        """
        edge, place = pull_edge(self.rows, before, share=_PULL)
        middle, top, unit = median_of(before), float(before.edges[-1]), self.unit
        # Errors that depend on no feature move the mean gradient as the intercept does.
        intercept = second.matrix @ np.linalg.solve(self.rows.back, np.eye(self.rows.size)[0])

        def residual(row: RowBlock) -> Any:
            return np.clip(unit.of(row.target) - row.prediction, -_FARTHEST, _FARTHEST)

        def length(row: RowBlock) -> Any:
            return np.abs(residual(row)) * np.sqrt(row.square)

        def directions(least: float, share: float) -> Gradient:
            def direction(row: RowBlock) -> Any:
                one = np.sign(residual(row)) / np.sqrt(np.maximum(row.square, 1e-90))
                return np.where(length(row) > least, row.own * one, 0.0)

            return Gradient(of=direction, bound=1.0, share=share_of(share))

        def beyond(sign: float) -> Total:
            def counted(row: RowBlock) -> Any:
                far = sign * residual(row) * np.sqrt(row.square) > 2**0.5 * edge
                return np.where(far, row.own, 0.0)

            return Total(of=counted, bound=1.0, share=share_of(_SIDE))

        weighted, free, farthest, longer, *sides = self.rows.ask(
            lengths_below(top, of=self._length, share=share),
            lengths_below(top, of=length, share=_TAIL_COUNTED),
            directions(edge, _PULL),
            directions(middle, self._half_share),
            *(beyond(sign) for sign in (1.0, -1.0) if self._many),
            theta=theta,
        )
        lengths = lengths_of(free)
        few = thrift(self.rows)
        pull = pull_of(farthest, longer, self.rows, lengths, place=place, thrift=few)
        if sides:
            above, below = sides
            pull = pull.or_one_sided(above, below, self.rows, intercept)
        if not pull.bent:
            return lengths_of(weighted), pull
        (again,) = self.rows.ask(lengths_below(top, of=length, share=_RECOUNTED), theta=theta)
        lengths = lengths.pooled(lengths_of(again))
        return lengths, dataclasses.replace(pull, tail=ParetoTail.of(lengths))

    @property
    def score(self) -> WeightedResidual:
        """The factor of a whitened row in its gradient, before clipping."""
        return WeightedResidual(unit=self.unit, square=self.square)

    def _length(self, row: RowBlock) -> Any:
        return np.abs(self.score(row)) * np.sqrt(row.square)

    @property
    def _penalty(self) -> Floats:
        size = self.rows.size
        return np.zeros((size, size)) if self.penalty is None else self.penalty
