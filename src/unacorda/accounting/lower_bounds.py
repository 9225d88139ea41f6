"""Lower bounds on the error of all mechanisms with a guarantee, by fingerprinting and packing.

With t = 2 sinh(epsilon/2), the square root of the largest chi-squared divergence that pure
epsilon-DP allows, every statement here is proved in docs/proofs/lower_bounds.md.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from flint import arb

from unacorda.balls import Ball, ball, float_down
from unacorda.checks import Number, exact
from unacorda.numerics import least_whole
from unacorda.privacy.conversions.arguments import non_negative, share, whole

_NARROWER = Fraction(9, 10)
_NARROWINGS = 100
_SMALLER = 0.9
_PLACE = 2.4
"""x sinh(x/2) = 2 cosh(x/2) near it: the number of rows, times epsilon, by which counts differ."""
_LARGEST = 1 << 53
"""Half of no larger number of rows is looked for: half of these is a float."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeastErrors:
    """Errors that no mechanism with a given guarantee can avoid on all data.

    Attributes
    ----------
    mean
        For a mean of vectors with entries from -1 to 1: the root mean squared error per coordinate,
        relative to the mean of the population.
    count
        For a count: the root mean squared error.
    histogram
        For a histogram with `dimension` bins: an error that some bin has with probability 1/2 or
        more.

    Examples
    --------
    >>> from unacorda import accounting
    >>> least = accounting.lower_bound(dimension=1, people=1000, epsilon=1)
    >>> round(least.mean, 4), round(least.count, 3)
    (0.0307, 0.648)
    """

    mean: float
    count: float
    histogram: float


def lower_bound(*, dimension: int, people: int, epsilon: Number, delta: Number = 0) -> LeastErrors:
    r"""Bounds from below the error of every (epsilon, delta)-DP mechanism on `people` rows.

    The guarantee is under ReplaceOne.

    Statement: mean: 1/(1 + sqrt n), (2/3 - 14 n delta/3)/(2/sqrt 3 + n t/sqrt d), and, over w
    below pi/2, (A(w) - 4 n delta sin w (1 + sin w)/cos w)/(pi/w + n t/sqrt d) with
    A(w) = sin w/w pi^2/(pi^2 - w^2): the largest. count: over s from 1 to n,
    (s/2) sqrt(1 - delta_s)/cosh(epsilon s/2), delta_s that of a group of s. histogram:
    s/2, s at most n the largest with (d-1) e^{-epsilon s} (1 - 2 delta_s) >= 1.

    Bound: lower, rounded down; w and s are searched on a grid, and each is valid.

    Edges: no delta leaves the mean below 1/(1 + sqrt n); one bin -> histogram 0.0.

    Source: Steinke 2022, arXiv:2210.00597, Theorem 25; Hardt and Talwar 2010, arXiv:0907.3754;
    docs/proofs/lower_bounds.md.

    Parameters
    ----------
    dimension
        The number of coordinates of the mean, and of bins of the histogram, 1 or more.
    people
        The number of rows, 1 or more.
    epsilon
        0 or above.
    delta
        From 0 to 1.

    Returns
    -------
    LeastErrors
        Of means, counts and histograms, each in its own unit.

    Raises
    ------
    InvalidParameter
        For a number out of range.

    Examples
    --------
    >>> found = lower_bound(dimension=100, people=1_000, epsilon=0.1)
    >>> round(found.mean, 4), round(found.count, 2), found.histogram
    (0.072, 6.63, 22.5)
    """
    d, n = whole(dimension=dimension), whole(people=people)
    e, miss = exact("epsilon", epsilon), exact("delta", delta)
    non_negative(epsilon=e)
    share(delta=miss)
    x, lost = ball(e), ball(miss)
    return LeastErrors(
        mean=_least_of_mean(d, n, x, lost),
        count=_least_of_count(n, x, lost),
        histogram=_least_of_histogram(d, n, x, lost),
    )


def _least_of_mean(d: int, n: int, x: Ball, delta: Ball) -> float:
    shown = n * _distance(x) / ball(d).sqrt()
    missed = n * delta
    found = [
        1 / (1 + ball(n).sqrt()),
        (ball(2) - 14 * missed) / 3 / (2 / ball(3).sqrt() + shown),
    ]
    pi = arb.pi()
    for k in range(1, _NARROWINGS):
        w = pi / 2 * ball(_NARROWER**k)
        sine = w.sin()
        moved = sine / w * pi**2 / (pi**2 - w**2)
        failed = 4 * missed * sine * (1 + sine) / w.cos()
        found.append((moved - failed) / (pi / w + shown))
    return float_down(max(found))


def _distance(x: Ball) -> Ball:
    """The square root of the largest chi-squared divergence of laws within e^x of each other."""
    return 2 * (x / 2).sinh()


def _least_of_count(n: int, x: Ball, delta: Ball) -> float:
    found = ball(0)
    place = float(n) if x * n < _PLACE else min(float(n), float(_PLACE / x))
    while place > _SMALLER:
        for s in {max(1, math.floor(place)), min(n, math.ceil(place))}:
            held = 1 - _delta_of_rows(s, x, delta)
            if held > 0:
                found = found.max(s * held.sqrt() / (x * s / 2).cosh() / 2)
        place *= _SMALLER
    return float_down(found)


def _least_of_histogram(d: int, n: int, x: Ball, delta: Ball) -> float:

    def distinct(s: int) -> bool:
        kept = (-x * s).exp() * (1 - 2 * _delta_of_rows(s, x, delta))
        return s > n or float_down((d - 1) * kept) < 1

    return min(least_whole(distinct, start=1) - 1, _LARGEST) / 2


def _delta_of_rows(s: int, x: Ball, delta: Ball) -> Ball:
    """Delta at s x where s rows change: of a group of s."""
    return delta * ((s * x).expm1() / x.expm1() if x > 0 else s)
