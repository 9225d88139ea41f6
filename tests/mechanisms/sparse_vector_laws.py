"""Exact laws of the sparse vector technique, for any noise of the threshold and the questions.

A law sums over the threshold noise; given it, the questions are independent coins. Nothing here
knows how the mechanism draws or what it claims.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from mpmath import mp, mpf
from numpy.typing import NDArray
from scipy.special import ndtr

Floats = NDArray[np.float64]
Answers = tuple[int | None, ...]
"""One answer a question until the stop: None where below, else the gap in steps or 0."""


@dataclass(frozen=True)
class Noise:
    """P(X = k), P(X >= k), P(X < k) of integers, and where a sum over X may begin and end."""

    mass: Callable[[Any], Floats]
    tail: Callable[[Any], Floats]
    below: Callable[[Any], Floats]
    low: int
    high: int


def one_sided(scale: Fraction) -> Noise:
    s = float(scale)
    q = math.exp(-1 / s)
    return Noise(
        mass=lambda k: np.where(k >= 0, (1 - q) * np.exp(-np.maximum(k, 0) / s), 0.0),
        tail=lambda k: np.exp(-np.maximum(k, 0) / s),
        below=lambda k: -np.expm1(-np.maximum(k, 0) / s),
        low=0,
        high=math.ceil(80 * s),
    )


def two_sided(scale: Fraction) -> Noise:
    s = float(scale)
    q = math.exp(-1 / s)

    def tail(k: Any) -> Floats:
        far = np.exp(-np.where(k > 0, k, 1 - k) / s) / (1 + q)
        found: Floats = np.where(k > 0, far, 1 - far)
        return found

    return Noise(
        mass=lambda k: (1 - q) / (1 + q) * np.exp(-np.abs(k) / s),
        tail=tail,
        below=lambda k: tail(1 - k),
        low=-math.ceil(80 * s),
        high=math.ceil(80 * s),
    )


def rounded_normal(sigma: float | Fraction) -> Noise:
    s = float(sigma)
    reach = math.ceil(14 * s) + 1

    def below(k: Any) -> Floats:
        found: Floats = ndtr((np.asarray(k) - 0.5) / s)
        return found

    def mass(k: Any) -> Floats:
        far = np.abs(k)  # a difference of small tails, not of numbers near 1
        found: Floats = ndtr((0.5 - far) / s) - ndtr((-0.5 - far) / s)
        return found

    return Noise(
        mass=mass, tail=lambda k: below(1 - np.asarray(k)), below=below, low=-reach, high=reach
    )


def nothing() -> Noise:
    return Noise(
        mass=lambda k: np.where(k == 0, 1.0, 0.0),
        tail=lambda k: np.where(k <= 0, 1.0, 0.0),
        below=lambda k: np.where(k > 0, 1.0, 0.0),
        low=0,
        high=0,
    )


def law(
    steps: Sequence[int],
    *,
    level: int,
    threshold: Noise,
    question: Noise,
    count: int,
    gaps: int = 0,
    noisy_values: bool = False,
) -> dict[Answers, float]:
    """The probability of every sequence of answers that ends at the stop or the last question.

    gaps: tell the gap of each answer above, up to this one (0: only that it is above);
    noisy_values: a planted fault, tell the compared value in place of the gap.
    """
    rho = np.arange(threshold.low, threshold.high + 1)
    weight = threshold.mass(rho)
    found: dict[Answers, float] = {}

    def walk(index: int, left: int, told: Answers, mass: Floats) -> None:
        if left == 0 or index == len(steps):
            found[told] = math.fsum(mass.tolist())
            return
        needed = level + rho - steps[index]
        walk(index + 1, left, (*told, None), mass * question.below(needed))
        if not gaps:
            walk(index + 1, left - 1, (*told, 0), mass * question.tail(needed))
        for gap in range(gaps):
            if noisy_values:
                passes = (level + gap >= level + rho).astype(float)
                chance = passes * question.mass(level + gap - steps[index])
            else:
                chance = question.mass(needed + gap)
            walk(index + 1, left - 1, (*told, gap), mass * chance)

    walk(0, count, (), weight)
    return found


def losses(one: dict[Answers, float], other: dict[Answers, float]) -> Floats:
    """ln P(answers) / P'(answers) for all answers that are possible under both."""
    assert one.keys() == other.keys()
    pairs = [(one[key], other[key]) for key in one if one[key] > 0 or other[key] > 0]
    with np.errstate(divide="ignore"):
        return np.array([np.log(a) - np.log(b) for a, b in pairs])


def stretch(
    below: Sequence[tuple[int, int]],
    above: Sequence[int],
    *,
    level: int,
    threshold_scale: Fraction,
    query_scale: Fraction,
    reach: int,
) -> mpf:
    """P(many questions below, then those of `above` above), to the working digits of mpmath.

    below: pairs of a value and how often it is asked; one-sided noise, summed up to `reach`.
    """
    p = mp.exp(-mpf(threshold_scale.denominator) / threshold_scale.numerator)
    q = mp.exp(-mpf(query_scale.denominator) / query_scale.numerator)
    terms = []
    for rho in range(reach):
        term = (1 - p) * p**rho
        for value, times in below:
            term *= (1 - q ** max(level + rho - value, 0)) ** times
        for value in above:
            term *= q ** max(level + rho - value, 0)
        terms.append(term)
    return mp.fsum(terms)
