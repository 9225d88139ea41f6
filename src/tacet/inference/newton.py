r"""Noisy Newton steps for a loss of the linear predictor, and the errors of where they end.

Each step releases the mean gradient and, but for the first where the curvature is known, the mean
curvature; scores and curvatures are cut to the bounds that the loss states, here, so that a loss
that breaks its word breaks no guarantee.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from tacet.inference.designs import Design
from tacet.inference.losses import Loss
from tacet.inference.noisy_sums import Moment, NoisySums
from tacet.inference.plans import Budgeting, Steps, rest
from tacet.inference.records import Floats
from tacet.inference.sandwich import Errors, Step, standard_errors

__all__ = ["Newton", "Start", "Trail", "trail"]

_AVERAGED: Final = 2
_LONGEST: Final = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Where the steps begin, in whitened coefficients, and the curvature there, if it is known."""

    theta: Floats
    curvature: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trail:
    """The shares of mu^2 of a fit: of the steps' gradients and curvatures, of M and of Q."""

    steps: Steps
    curvature: Fraction
    last: Fraction
    scores: Fraction


def trail(
    budgeting: Budgeting,
    loss: Loss,
    *,
    spent: Fraction,
    typical: float,
    unit: float = 1.0,
    growths: list[tuple[Fraction, int]],
    known_start: bool,
) -> Trail:
    """How the rest of the budget is shared out, by public numbers alone.

    spent: the share that is gone; typical: about the curvature of a person, a guess that moves
    shares and nothing else; unit: about the size of a prediction that matters.
    """
    square, bound = budgeting.size, typical * 0.1
    count = max(count for _, count in growths) - known_start
    bent = loss.curvature_bound * square
    curvature = budgeting.matrix(trace_bound=bent, norm=bound, most=Fraction(24, 100) / count)
    last = budgeting.matrix(trace_bound=bent, norm=bound * 0.4, most=Fraction(10, 100))
    scores = budgeting.matrix(
        trace_bound=loss.score_bound**2 * square,
        norm=typical * loss.score_bound**2 * 0.1,
        most=Fraction(4, 100),
    )
    steps = budgeting.steps(
        rest([spent, curvature * count, last, scores]),
        sensitivity=2 * math.sqrt(budgeting.size) * loss.score_bound / (typical * unit),
        growths=growths,
    )
    return Trail(steps=steps, curvature=curvature, last=last, scores=scores)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Newton:
    """A fit of theta in mean of w loss(a theta, y) + theta' penalty theta / 2.

    penalty: d x d, in whitened coefficients, public or released; least: curvatures below this are
    taken for it in a step, which then is a careful one; longest: no early step is longer.
    """

    design: Design
    target: Floats
    loss: Loss
    least: float
    penalty: Floats | None = None
    longest: float = _LONGEST

    def run(self, plan: Trail, start: Start, sums: NoisySums) -> tuple[Floats, Errors]:
        """The coefficients, whitened, and their errors by the sandwich."""
        theta, taken = self.descend(plan, start, sums)
        errors = standard_errors(
            taken,
            theta - start.theta,
            curvature=self.curvature(theta, sums=sums, share=plan.last, final=True),
            scores=self._scores(theta, sums=sums, share=plan.scores),
            rows=sums.rows,
            penalty=self._penalty,
        )
        return theta, errors

    def descend(self, plan: Trail, start: Start, sums: NoisySums) -> tuple[Floats, list[Step]]:
        """Where the steps end, and what they were."""
        theta = start.theta
        taken: list[Step] = []
        precision, alone = Fraction(), len(plan.steps.shares) - _AVERAGED
        for step, share in enumerate(plan.steps.shares):
            gradient, noise = self._gradient(theta, sums=sums, share=share)
            if step == 0 and start.curvature is not None:
                bent = max(start.curvature, self.least) * np.eye(self.design.size)
            else:
                found = self.curvature(theta, sums=sums, share=plan.curvature)
                bent = found.floored(max(self.least, math.sqrt(2) * found.norm))
            precision = (precision if step > alone else 0) + share
            inverse = np.asarray(np.linalg.inv(bent + self._penalty), dtype=np.float64)
            inverse *= float(share / precision)
            way = inverse @ (gradient + self._penalty @ theta)
            if step < alone:
                way *= min(1.0, self.longest / max(float(np.linalg.norm(way)), 1e-300))
            taken.append(Step(preconditioner=inverse, noise=noise))
            theta = theta - way
        return theta, taken

    def curvature(
        self, theta: Floats, *, sums: NoisySums, share: Fraction, final: bool = False
    ) -> Moment:
        """The noisy mean of w curvature a a^T; what is negative counts in the final one alone."""
        bound = self.loss.curvature_bound
        signed = final and not getattr(self.loss, "convex", True)
        least = -bound if signed else 0.0

        def part(rows: slice) -> Floats:
            with np.errstate(all="ignore"):  # a warning would tell of the data
                bent = self.loss.curvature(self.design.rows[rows] @ theta, self.target[rows])
            within = np.clip(np.nan_to_num(bent), least, bound)
            return self.design.matrix_sum(rows, within * self.design.weights[rows], signed=signed)

        return sums.moment(
            part,
            size=self.design.size,
            trace_bound=self.design.radius**2 * Fraction(bound),
            share=share,
            signed=signed,
        )

    @property
    def _penalty(self) -> Floats:
        if self.penalty is None:
            return np.zeros((self.design.size, self.design.size))
        return self.penalty

    def _score(self, rows: slice, theta: Floats) -> Floats:
        """Weighted scores, each within the bound."""
        bound = self.loss.score_bound
        with np.errstate(all="ignore"):  # a warning would tell of the data
            score = self.loss.score(self.design.rows[rows] @ theta, self.target[rows])
        return np.clip(np.nan_to_num(score), -bound, bound) * self.design.weights[rows]

    def _gradient(self, theta: Floats, *, sums: NoisySums, share: Fraction) -> tuple[Floats, float]:
        longest = self.design.radius * Fraction(self.loss.score_bound)
        return sums.mean(
            lambda rows: self.design.vector_sum(rows, self._score(rows, theta)),
            size=self.design.size,
            row_bound=longest,
            sensitivity=2 * longest,
            share=share,
        )

    def _scores(self, theta: Floats, *, sums: NoisySums, share: Fraction) -> Moment:
        return sums.moment(
            lambda rows: self.design.matrix_sum(rows, self._score(rows, theta) ** 2),
            size=self.design.size,
            trace_bound=(self.design.radius * Fraction(self.loss.score_bound)) ** 2,
            share=share,
        )
