r"""Standard errors of a fit, in two parts, from released matrices alone.

Sampling: the sandwich V = M^-1 Q M^-1 / n, M the mean curvature and Q the mean square of the
scores. Privacy: step t is theta <- theta - P_t (gradient + noise), so that near the end its error
becomes S <- A_t S A_t^T + P_t nu_t^2 P_t^T with A_t = I - P_t M. Counting the noise of the last
step alone would give intervals that cover too seldom.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from unacorda.inference.means import positive_part
from unacorda.inference.noisy_sums import Moment
from unacorda.inference.records import Floats

__all__ = ["Errors", "Step", "standard_errors"]

_SIGNAL: Final = 2.0
"""Least eigenvalue of M, in norms of its noise, from which on intervals are given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step: theta <- theta - preconditioner (gradient + noise of this deviation)."""

    preconditioner: Floats
    noise: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """Covariances of the coefficients, in whitened units, and what they hang on.

    sampling, privacy: d x d; signal: the least eigenvalue of M over the norm of its noise;
    contraction: the norm of the product of all A_t: the part of the way from the start to the
    solution that the steps did not go.
    """

    sampling: Floats
    privacy: Floats
    signal: float
    contraction: float

    @property
    def enough(self) -> bool:
        """Whether the curvature stands out of its noise, so that errors can be told."""
        return self.signal >= _SIGNAL


def standard_errors(
    steps: list[Step],
    moved: Floats,
    *,
    curvature: Moment,
    scores: Moment,
    rows: float,
    repeated: int = 1,
    unit: float = 1.0,
    penalty: Floats | float = 0.0,
    penalty_error: Floats | float = 0.0,
) -> Errors:
    """Both covariances, from the noisy means of curvatures and of squared scores.

    moved: the way from the start to the end of the steps. The part of it that is still to go is
    estimated too, and its square counts as an error of privacy, which forbids more steps.
    unit: of the scores over the curvature (sigma, where residuals are told in sigmas);
    penalty: what is added to the curvature, exactly. rows: how many there are, public or released:
    it cancels but for the penalty; penalty_error: the deviation of the penalty's gradient, which
    is the penalty's times the relative one of the rows. repeated: how many rows one person may
    have: the square of a sum of so many scores is at most so many times the sum of their squares,
    so that errors are those of rows of a person that agree.
    Bound   where `enough` is False both are infinite: noise hides the curvature in some
            direction, and intervals would cover too seldom. This is decided by released values.
    Source: Huber 1967 (sandwich); docs/proofs/regression.md, section 5 (recursion).
    """
    size = len(curvature.matrix)
    signal = float(np.linalg.eigvalsh(curvature.matrix)[0]) / curvature.norm
    bent = curvature.floored(curvature.norm)
    middle = _shrunk(scores, towards=bent)
    bent = bent + penalty
    inverse = np.linalg.inv(bent)
    privacy, way = np.zeros((size, size)), np.eye(size)
    for step in steps:
        left = np.eye(size) - step.preconditioner @ bent
        noise = step.preconditioner * step.noise
        privacy = left @ privacy @ left.T + noise @ noise.T
        way = left @ way
    to_go = way @ moved
    off = inverse @ (np.zeros(size) + penalty_error)
    privacy = privacy + np.outer(to_go, to_go) + np.outer(off, off)
    sampling: Floats = unit**2 * repeated * inverse @ middle @ inverse / rows
    if signal < _SIGNAL:
        sampling, privacy = (np.full((size, size), math.inf) for _ in range(2))
    return Errors(
        sampling=sampling,
        privacy=privacy,
        signal=signal,
        contraction=float(np.linalg.norm(way, 2)),
    )


def _shrunk(scores: Moment, *, towards: Floats) -> Floats:
    """The mean of squared scores, with as little noise as it bears.

    Of errors that are alike for everybody it is a multiple of the curvature. The nearest multiple
    is known well; of the difference to it there remains what noise of its size does not explain
    (James and Stein's way): all where noise is small, nothing where noise would make all of it.
    Eigenvalues raised to a floor one by one would add up to too much.
    """
    size, length = len(towards), float(np.linalg.norm(towards))
    times = positive_part(
        float(np.sum(scores.matrix * towards)) / length**2, scores.deviation / length
    )
    beside = scores.matrix - times * towards
    noise = scores.deviation**2 * size * (size + 1) / 2
    kept = 1 - min(1.0, noise / max(float(np.sum(beside**2)), 1e-300))
    shrunk = Moment(matrix=times * towards + kept * beside, deviation=kept * scores.deviation)
    return shrunk.floored(shrunk.deviation)
