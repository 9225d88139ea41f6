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

from unacorda.inference.losses import Loss
from unacorda.inference.noisy_sums import Moment
from unacorda.inference.plans import Budgeting, Steps, rest
from unacorda.inference.records import Floats
from unacorda.inference.row_values import Matrix, People, Vector, curvature_of, score_of
from unacorda.inference.sandwich import Errors, Step, standard_errors

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Descent:
    """Where steps ended, in whitened coefficients, what they were, and their last curvatures."""

    theta: Floats
    steps: list[Step]
    curvatures: list[Moment]

    def pooled(self, last: Moment) -> Moment:
        """The mean of the last curvatures and that of the end, by the inverse of their variances.

        Near the end the curvature hardly changes, and has been paid for: its noise, which takes
        eigenvalues down as often as up and so inverses up on average, is less.
        """
        parts = [*self.curvatures, last]
        weights = np.array([part.deviation**-2 for part in parts])
        mean = sum(w * part.matrix for w, part in zip(weights, parts, strict=True))
        return Moment(
            matrix=np.asarray(mean / weights.sum()), deviation=float(weights.sum() ** -0.5)
        )


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Newton:
    """A fit of theta in mean of w loss(a theta, y) + theta' penalty theta / 2.

    penalty: d x d, in whitened coefficients, public or released; least: curvatures below this are
    taken for it in a step, which then is a careful one; longest: no early step is longer.
    """

    people: People
    loss: Loss
    least: float
    penalty: Floats | None = None
    longest: float = _LONGEST

    def run(self, plan: Trail, start: Start) -> tuple[Floats, Errors]:
        """The coefficients, whitened, and their errors by the sandwich."""
        found = self.descend(plan, start)
        theta = found.theta
        curvature, scores = self.sandwich(theta, plan)
        errors = standard_errors(
            found.steps,
            theta - start.theta,
            curvature=found.pooled(curvature) if self._convex else curvature,
            scores=scores,
            rows=self.people.rows,
            repeated=self.people.repeated,
            penalty=self._penalty,
            penalty_error=self._penalty @ theta * (self.people.rows_error / self.people.rows),
        )
        return theta, errors

    def descend(self, plan: Trail, start: Start) -> Descent:
        """The steps."""
        theta = start.theta
        taken: list[Step] = []
        curvatures: list[Moment] = []
        precision, alone = Fraction(), len(plan.steps.shares) - _AVERAGED
        for step, share in enumerate(plan.steps.shares):
            vectors = [Vector(of=score_of(self.loss), share=share)]
            if step == 0 and start.curvature is not None:
                ((gradient, noise),), _ = self.people.ask(theta, vectors=vectors)
                bent = max(start.curvature, self.least) * np.eye(self.people.size)
            else:
                matrices = [Matrix(of=curvature_of(self.loss), share=plan.curvature)]
                ((gradient, noise),), (found,) = self.people.ask(
                    theta, vectors=vectors, matrices=matrices
                )
                bent = found.floored(max(self.least, math.sqrt(2) * found.norm))
                curvatures.append(found)
            precision = (precision if step > alone else 0) + share
            inverse = np.asarray(np.linalg.inv(bent + self._penalty), dtype=np.float64)
            inverse *= float(share / precision)
            way = inverse @ (gradient + self._penalty @ theta)
            if step < alone:
                way *= min(1.0, self.longest / max(float(np.linalg.norm(way)), 1e-300))
            taken.append(Step(preconditioner=inverse, noise=noise))
            theta = theta - way
        return Descent(theta=theta, steps=taken, curvatures=curvatures[-_AVERAGED:])

    def sandwich(self, theta: Floats, plan: Trail) -> tuple[Moment, Moment]:
        """The noisy means of w curvature a a^T and of (w score)^2 a a^T.

        Where the loss is not convex, negative curvatures count in the former, as in no step.
        """
        matrices = [
            Matrix(of=curvature_of(self.loss), share=plan.last, signed=not self._convex),
            Matrix(of=score_of(self.loss), share=plan.scores, squared=True),
        ]
        _, (curvature, scores) = self.people.ask(theta, matrices=matrices)
        return curvature, scores

    def curvature(self, theta: Floats, *, share: Fraction) -> Moment:
        """The noisy mean of w curvature a a^T, of a convex loss."""
        _, (found,) = self.people.ask(
            theta, matrices=[Matrix(of=curvature_of(self.loss), share=share)]
        )
        return found

    @property
    def _convex(self) -> bool:
        return bool(getattr(self.loss, "convex", True))

    @property
    def _penalty(self) -> Floats:
        if self.penalty is None:
            return np.zeros((self.people.size, self.people.size))
        return self.penalty
