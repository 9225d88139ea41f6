r"""Mean and second moment of rows cut to a ball, from one release that fits the budget.

Rows are scaled so that the ball has radius 1. The sums of u and of sqrt 2 u u^T move together by at
most 5/2 under the replacement of a row, that of u u^T alone by sqrt 2; the matrix counts by its
Frobenius norm. Noise is normal, or, for pure budgets, spherical with a radius of the gamma law,
which has half the variance of Laplace noise (docs/proofs/components.md).
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from unacorda.bits import RandomBits
from unacorda.errors import InvalidParameter
from unacorda.inference.budgets import check_budget, gdp_budget, shareable
from unacorda.inference.records import Floats
from unacorda.inference.sums import ROOT_TWO, ROUNDED, packed, row_sum, slack, unpacked
from unacorda.mechanisms.additive.norms import KNorm
from unacorda.mechanisms.additive.real import Gaussian
from unacorda.privacy import events
from unacorda.privacy.guarantees import GDP, ZCDP, ApproxDP, Guarantee, PureDP

__all__ = ["BallMoments", "ball_moments", "in_ball", "length_of", "whole_budget"]

_FAR: Final = 2.0**200
_MOST: Final = 1 << 14
"""The longest vector that gets spherical noise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BallMoments:
    """Released: the mean and the second moment about it, in units of the ball, and their noise.

    mean: p numbers, zeros where it was not asked; covariance: p x p, the noise of the mean taken
    out on average, eigenvalues of any sign; mean_noise: deviation of each number of the mean;
    matrix_noise: that of a diagonal number, sqrt 2 times that of the others.
    """

    mean: Floats
    covariance: Floats
    mean_noise: float
    matrix_noise: float
    event: events.Event


def whole_budget(budget: Guarantee, *, length: int) -> PureDP | ZCDP | GDP:
    """The budget in the currency in which noise on a vector of this length is the least.

    Spherical noise has deviation sqrt(length + 1) / epsilon a number, normal noise 1 / mu.
    InvalidParameter for a pure budget and a vector too long for spherical noise.

    >>> whole_budget(ApproxDP(1, 1e-6), length=5), whole_budget(ApproxDP(1, 1e-6), length=65)
    (PureDP(epsilon=1.0), GDP(mu=0.236704380664))
    """
    checked = check_budget(budget)
    if isinstance(checked, ApproxDP) and checked.delta:
        normal = gdp_budget(checked)
        fits = length <= _MOST and (length + 1) * normal.mu_squared <= checked.epsilon**2
        return PureDP(checked.epsilon) if fits else normal
    found = shareable(checked, releases=length)
    if isinstance(found, PureDP) and length > _MOST:
        expected = f"one with a delta, such as ApproxDP(1, 1e-6): pure noise on {length} numbers "
        raise InvalidParameter("budget", budget, expected=expected + "would drown them all")
    return found


def length_of(features: int, *, with_mean: bool) -> int:
    """How many numbers are released."""
    return features * (features + 1) // 2 + (features if with_mean else 0)


def in_ball(x: Floats, *, centre: Floats, unit: Floats) -> Floats:
    """(x - centre) / unit, cut to length 1 towards 0; what is no number counts as the centre.

    >>> rows = np.array([[3.0, 4.0], [30.0, 40.0], [np.nan, 40.0]])
    >>> in_ball(rows, centre=np.zeros(2), unit=np.full(2, 10.0)).tolist()
    [[0.3, 0.4], [0.6, 0.8], [0.0, 1.0]]
    """
    with np.errstate(over="ignore", invalid="ignore"):
        rows = (x - centre) / unit
    np.clip(rows, -_FAR, _FAR, out=rows)
    np.copyto(rows, 0.0, where=np.isnan(rows))
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    rows /= np.maximum(lengths, 1.0)[:, None]
    return np.asarray(rows)


def ball_moments(
    x: Floats,
    *,
    centre: Floats,
    unit: Floats,
    with_mean: bool,
    budget: PureDP | ZCDP | GDP,
    bits: RandomBits,
) -> BallMoments:
    """The noisy moments of the rows of x, n x p, cut by `in_ball`; without the mean about 0.

    Source: docs/proofs/components.md, Theorem 1 (sensitivity); Hardt and Talwar 2010,
    arXiv:0907.3754, Remark 4.2 (spherical noise); Dwork, Talwar, Thakurta, Zhang 2014 (normal
    noise on the second moment).
    """
    n, p = x.shape
    length = length_of(p, with_mean=with_mean)
    weight = math.sqrt(2) if with_mean else 1.0

    def part(block: slice) -> Floats:
        here = in_ball(x[block], centre=centre, unit=unit)
        numbers = weight * packed(here.T @ here)
        return np.concatenate([here.sum(axis=0), numbers]) if with_mean else numbers

    longest = (Fraction(7, 4) if with_mean else Fraction(1)) * ROUNDED
    move = (Fraction(5, 2) if with_mean else ROOT_TWO) * ROUNDED
    move += slack(rows=n, size=length, row_bound=longest)
    exact = row_sum(part, rows=n, size=length, row_bound=longest)
    if isinstance(budget, PureDP):
        # Read as floats, both neighbours' sums are off by 2^-53 of their length at most.
        move += Fraction(n, 1 << 52) * longest
        round_noise = KNorm.for_guarantee(budget, norm=2, sensitivity=move, dimension=length)
        sums = np.array([math.ldexp(step, exact.unit_log2) for step in exact.steps])
        released = np.asarray(round_noise.release(sums, bits=bits), dtype=np.float64) / n
        event, deviation = round_noise.event, round_noise.standard_deviation / n
    else:
        noise = Gaussian.for_guarantee(gdp_budget(budget), l2_sensitivity=move)
        released = exact.released(noise, bits=bits) / n
        event, deviation = noise.event, noise.standard_deviation / n
    second = unpacked(released[-(p * (p + 1) // 2) :], p) / weight
    mean = released[:p] if with_mean else np.zeros(p)
    mean_noise = deviation if with_mean else 0.0
    about = second - np.outer(mean, mean) + mean_noise**2 * np.eye(p)
    return BallMoments(
        mean=mean,
        covariance=about * (n / max(n - 1, 1) if with_mean else 1.0),
        mean_noise=mean_noise,
        matrix_noise=deviation / weight,
        event=event,
    )
