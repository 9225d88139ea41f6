"""People whose features and targets are arrays: what a fit asks of them, by noisy sums."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Final

import numpy as np

from unacorda.inference.designs import Design, Scaling, whitened
from unacorda.inference.noisy_sums import LEAST_MEAN, LEVEL, Moment, NoisySums
from unacorda.inference.records import Floats
from unacorda.inference.row_values import Matrix, RowsAre, RowValue, Vector, cut
from unacorda.privacy import events

__all__ = ["ArrayPeople", "Arrays"]

_FREE: Final = Fraction(83, 50)
"""As for means: a square with this factor rides along free (docs/proofs/row_sums.md, section 2)."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Arrays:
    """Features n x p, targets, and what each person counts.

    counts: within [0, 1]; weighted: whether by weights of their own, or as 1 and, where a number
    is missing, 0. Of the former the mean is released before anything else.
    """

    x: Floats
    target: Floats
    counts: Floats
    sums: NoisySums
    weighted: bool = False

    @property
    def effective(self) -> float:
        """How many people there are."""
        return self.sums.rows

    @property
    def rows_are(self) -> RowsAre:
        """Their number is public."""
        return "public"

    @property
    def spent(self) -> Fraction:
        """0, as their number is public, but for the mean of their weights."""
        return LEVEL if self.weighted else Fraction(0)

    @property
    def least_mean_weight(self) -> float:
        """1, or of weights of their own a public guess: about the least with much use."""
        return LEAST_MEAN if self.weighted else 1.0

    def target_mean(self, *, most: float, share: Fraction) -> tuple[float, float]:
        """The noisy mean of the target, which is cut to [0, most], and its noise."""
        self._weigh()
        values = np.clip(np.nan_to_num(self.target), 0.0, most) * self.counts
        released, noise = self.sums.mean(
            lambda rows: values[rows].sum(keepdims=True),
            size=1,
            row_bound=Fraction(most),
            sensitivity=Fraction(most),
            share=share,
        )
        return float(released[0]), noise

    def whitened(self, scales: Scaling, *, share: Fraction) -> ArrayPeople:
        """The people, their features whitened by a released second moment."""
        self._weigh()
        rows = scales.rows(self.x, np.asarray(self.counts > 0, dtype=np.float64))
        design = whitened(rows, self.counts, scales, sums=self.sums, share=share)
        return ArrayPeople(design=design, target=self.target, sums=self.sums)

    def _weigh(self) -> None:
        if self.weighted and self.sums.level_error == 0:
            self.sums.weigh(self.counts, share=LEVEL)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ArrayPeople:
    """One row a person, their number public; neighbours differ by a replaced row.

    target: one number a person; sums: what pays.
    """

    design: Design
    target: Floats
    sums: NoisySums

    @property
    def size(self) -> int:
        """How many parameters there are."""
        return self.design.size

    @property
    def radius(self) -> Fraction:
        """No weighted row is longer."""
        return self.design.radius

    @property
    def back(self) -> Floats:
        """From whitened coefficients to those of the features."""
        return self.design.back

    @property
    def rows(self) -> float:
        """How many people there are, or the released sum of their weights."""
        return self.sums.rows * self.sums.level

    @property
    def rows_error(self) -> float:
        """0, as their number is public, but for the noise in the sum of their weights."""
        return self.sums.rows * self.sums.level_error

    @property
    def repeated(self) -> int:
        """1: each has one row."""
        return 1

    @property
    def protects(self) -> str:
        """Whom the noise hides."""
        return "one row replaced"

    @property
    def event(self) -> events.Event:
        """What has been released so far."""
        return self.sums.event

    def scaled(self, unit: float) -> ArrayPeople:
        """The same with a target in this released unit."""
        with np.errstate(over="ignore"):  # a warning would tell of the data
            target = np.clip(self.target / unit, -1e100, 1e100)
        return replace(self, target=target)

    def ask(
        self, theta: Floats, *, vectors: Sequence[Vector] = (), matrices: Sequence[Matrix] = ()
    ) -> tuple[list[tuple[Floats, float]], list[Moment]]:
        """Noisy means at these coefficients: vectors with the deviation of their noise, moments.

        Source: docs/proofs/regression.md, section 4.
        """
        found = _Predictions(rows=self.design.rows, theta=theta)
        return (
            [self._vector(found, one) for one in vectors],
            [self._matrix(found, one) for one in matrices],
        )

    def residuals(
        self, theta: Floats, sigma: float, *, tuning: float, kappa: float, share: Fraction
    ) -> tuple[Floats, float, float]:
        """Noisy means of w a psi and of w (psi^2 - kappa), and the noise of each of the former.

        Source: docs/proofs/regression.md, section 3.
        """
        c, radius = Fraction(tuning), self.radius
        free = float(_FREE * radius / c)

        def part(rows: slice) -> Floats:
            with np.errstate(all="ignore"):  # a warning would tell of the data
                beside = (self.target[rows] - self.design.rows[rows] @ theta) / sigma
            psi = np.clip(beside, -tuning, tuning)
            weights = self.design.weights[rows]
            spread = free * (weights @ (psi * psi - kappa))
            return np.append(self.design.vector_sum(rows, weights * psi), spread)

        released, noise = self.sums.mean(
            part,
            size=self.size + 1,
            row_bound=2 * radius * c,
            sensitivity=2 * radius * c,
            share=share,
        )
        return released[:-1], float(released[-1]) / free, noise

    def weighted(
        self, theta: Floats, values: Sequence[RowValue], *, length: Fraction, share: Fraction
    ) -> tuple[Floats, float]:
        """Noisy means of w v for several v, none negative, together no longer than `length`.

        Two such vectors are no farther apart than one may be long, times sqrt 2 at most; as none
        is negative, `length` is to bound that too.
        """
        found = _Predictions(rows=self.design.rows, theta=theta)

        def part(rows: slice) -> Floats:
            weights = self.design.weights[rows]
            return np.array([weights @ self._of(one, rows, found, 0.0) for one in values])

        return self.sums.mean(
            part, size=len(values), row_bound=length, sensitivity=length, share=share
        )

    def _of(self, value: RowValue, rows: slice, predicted: _Predictions, least: float) -> Floats:
        """A number of each row, within its bounds."""
        with np.errstate(all="ignore"):  # a warning would tell of the data
            found = value.values(predicted.of(rows), self.target[rows])
        return cut(found, least, value.bound)

    def _vector(self, predicted: _Predictions, asked: Vector) -> tuple[Floats, float]:
        longest = self.radius * Fraction(asked.of.bound)

        def part(rows: slice) -> Floats:
            values = self._of(asked.of, rows, predicted, -asked.of.bound)
            return self.design.vector_sum(rows, values * self.design.weights[rows])

        return self.sums.mean(
            part, size=self.size, row_bound=longest, sensitivity=2 * longest, share=asked.share
        )

    def _matrix(self, predicted: _Predictions, asked: Matrix) -> Moment:
        least = -asked.of.bound if asked.signed or asked.squared else 0.0

        def part(rows: slice) -> Floats:
            values = self._of(asked.of, rows, predicted, least) * self.design.weights[rows]
            if asked.squared:
                values = values**2
            return self.design.matrix_sum(rows, values, signed=asked.signed)

        return self.sums.moment(
            part,
            size=self.size,
            trace_bound=self.radius**2 * asked.trace_bound,
            share=asked.share,
            signed=asked.signed,
        )


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class _Predictions:
    """Linear predictors, each computed once, when its block is first read."""

    rows: Floats
    theta: Floats
    _known: dict[tuple[int, int], Floats] = field(default_factory=dict)

    def of(self, rows: slice) -> Floats:
        """Those of a block."""
        key = rows.start, rows.stop
        if key not in self._known:
            with np.errstate(all="ignore"):  # a warning would tell of the data
                self._known[key] = self.rows[rows] @ self.theta
        return self._known[key]
