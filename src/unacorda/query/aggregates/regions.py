r"""Intervals for numbers that solve an equation between noisy moments, with the stated confidence.

What is wanted, theta, solves sum of f(row; eta, theta) = 0 over the rows of a cell, f a combination
of moments with weights g(eta, theta), where eta are numbers that are not known either: the means,
for a variance. With noisy moments the left side is the noise alone, of standard deviation
tau |g inverse|, at the true eta and theta. So theta is in

    {theta : |T(eta, theta)| <= z tau |g(eta, theta) inverse| for an eta in a box}

unless that noise is beyond its quantile z (4.5% of all cases) or eta is outside the box (0.5%, the
boxes being made likewise): 95% by the union bound. Where T depends on eta in the second order
alone, as it does here, the box costs next to nothing; what is left is the 4.5%.

All T here are linear in theta, as are all g. Both the largest T over the box plus z tau times the
largest length, and the same of -T, are then convex in theta, so that the set where both are not
negative is an interval, whose ends bisection finds.

The quantile z: a sum of independent Laplace noises with weights of length 1 has no larger one than
a single Laplace noise at these levels; a normal noise has its own. (The tests compute it by the
exact law for weights of all kinds.)
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from unacorda.query.aggregates.strategies import Noisy

__all__ = ["MAIN", "Lengths", "ends", "mean_box", "noise_quantile"]

Floats = NDArray[np.float64]

MAIN = 0.045
"""With which probability the noise of the equation itself may be beyond its quantile."""

_ROUNDED_UP = 1 + 2.0**-18  # the grid's rounding is below 2^-19
_HALVINGS = 60


def noise_quantile(beyond: float, *, laplace: bool) -> float:
    """z: any combination of noises is beyond z standard deviations with at most this chance.

    beyond: at most 0.05.
    """
    z = -math.log(beyond) / math.sqrt(2) if laplace else -float(ndtri(beyond / 2))
    return z * _ROUNDED_UP


def mean_box(noisy: Noisy, at: int, *, z: float) -> tuple[Floats, Floats]:
    """Where in [-1, 1] a mean may be: Fieller's set for the moment `at` over that of 1.

    All m with (S - m N)^2 <= z^2 variance(S - m N); all of [-1, 1] where that is no interval.
    """
    n, s = noisy.moments[:, 0], noisy.moments[:, at]
    # In a unit of its own for each cell, so that no fourth power leaves the range of doubles.
    unit = np.maximum(np.maximum(np.abs(n), np.abs(s)), noisy.deviation)
    n, s, noise = n / unit, s / unit, (z * noisy.deviation / unit) ** 2
    gram = noisy.inverse @ noisy.inverse.T
    square = n**2 - gram[0, 0] * noise
    half = n * s - gram[0, at] * noise
    inside = half**2 - square * (s**2 - gram[at, at] * noise)
    known = (square > 0) & (inside >= 0)
    root, divisor = np.sqrt(np.where(known, inside, 0.0)), np.where(known, square, 1.0)
    low = np.where(known, (half - root) / divisor, -1.0)
    high = np.where(known, (half + root) / divisor, 1.0)
    # Rounding: differences of numbers of the size of n^2.
    slack = 1e-7 * np.where(known, n**2 / divisor, 0.0)
    low, high = np.clip(low - slack, -1, 1), np.clip(high + slack, -1, 1)
    return low, high


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """How long g inverse is at most, over all g of a box, cell by cell.

    least, most: of every entry of g inverse; slope: by how much it falls as the weight of the first
    moment, which is the same all over the box, does.
    """

    least: Floats
    most: Floats
    slope: Floats

    @staticmethod
    def of(weights: list[Floats], noisy: Noisy) -> Lengths:
        """weights: a (cells, moments) array for every corner; every entry is largest at one."""
        # Not by BLAS, whose threads take longer to meet than so small a matrix to multiply.
        images = [np.einsum("nk,kj->nj", g, noisy.inverse) for g in weights]
        return Lengths(
            least=functools.reduce(np.minimum, images),
            most=functools.reduce(np.maximum, images),
            slope=noisy.inverse[0],
        )

    def largest(self, less: Floats) -> Floats:
        """An upper bound, with the weight of the first moment less by so much in every cell."""
        fallen = less[:, None] * self.slope
        largest = np.maximum(self.most - fallen, fallen - self.least)
        return np.asarray(np.sqrt(np.einsum("nj,nj->n", largest, largest)))


def ends(
    above: Callable[[Floats], Floats],
    below: Callable[[Floats], Floats],
    guess: Floats,
    *,
    low: float,
    high: float,
) -> tuple[Floats, Floats]:
    """The ends of {theta in [low, high] : above(theta) >= 0 and below(theta) >= 0}.

    above falls below 0 on an upper part of [low, high], if at all, and below on a lower part. Where
    nothing is left, the guess, cut to the range, stands alone.
    """
    bottom, top = np.full_like(guess, low), np.full_like(guess, high)
    guess = np.clip(guess, low, high)
    upper = _last(above, bottom, top)
    lower = -_last(lambda t: below(-t), -top, -bottom)
    empty = ~(lower <= upper)
    return np.where(empty, guess, lower), np.where(empty, guess, upper)


def _last(holds: Callable[[Floats], Floats], first: Floats, last: Floats) -> Floats:
    """The last point where a function is not negative that is so up to a point; -inf for none."""
    everywhere, nowhere = holds(last) >= 0, holds(first) < 0
    inside, outside = first, last
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2
        fine = holds(middle) >= 0
        inside, outside = np.where(fine, middle, inside), np.where(fine, outside, middle)
    return np.where(everywhere, last, np.where(nowhere, -np.inf, outside))
