"""Exact laws of noisy maxima by quadrature, for any scores and either noise.

A law is an integral over the value of the winner, or of the last one told; given it, the others
are independent. Nothing here knows how the mechanisms draw or what they claim. Values are in the
unit of the noise. Integrands are products of exponentials between breaks, which sixty nodes of
Gauss and Legendre on pieces of length two integrate to 1e-13 relative; all terms are positive.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
REACH = 60.0
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(60)


def density(noise: str, x: Floats) -> Floats:
    if noise == "exponential":
        return np.where(x >= 0, np.exp(-np.maximum(x, 0)), 0.0)
    return np.asarray(np.exp(-x - np.exp(-x)))


def below(noise: str, x: Floats) -> Floats:
    """P(X < x)."""
    if noise == "exponential":
        return np.asarray(-np.expm1(-np.maximum(x, 0)))
    return np.asarray(np.exp(-np.exp(-x)))


def above(noise: str, x: Floats) -> Floats:
    """P(X > x), without cancellation."""
    if noise == "exponential":
        return np.asarray(np.exp(-np.maximum(x, 0)))
    return np.asarray(-np.expm1(-np.exp(-x)))


def integral(function: Callable[[Floats], Floats], breaks: Sequence[float]) -> float:
    """From REACH below the least break to REACH above the largest."""
    ends = sorted({*breaks, min(breaks) - REACH, max(breaks) + REACH})
    total = []
    for low, high in itertools.pairwise(ends):
        pieces = max(math.ceil((high - low) / 2), 1)
        edges = np.linspace(low, high, pieces + 1)
        half = np.diff(edges)[:, None] / 2
        x = (edges[:-1, None] + half) + half * _NODES[None, :]
        total.append(float((function(x) * _WEIGHTS[None, :] * half).sum()))
    return math.fsum(total)


def order_law(scores: Sequence[float], noise: str, count: int = 1) -> dict[tuple[int, ...], float]:
    """The probability of every sequence of the first `count` by score plus noise, count 1 or 2."""
    found = {}
    for told in itertools.permutations(range(len(scores)), count):
        rest = [j for j in range(len(scores)) if j not in told]

        def mass(x: Floats, told: Any = told, rest: Any = rest) -> Floats:
            value = density(noise, x - scores[told[-1]])
            for j in rest:
                value = value * below(noise, x - scores[j])
            for j in told[:-1]:
                value = value * above(noise, x - scores[j])
            return value

        found[told] = integral(mass, scores)
    return found


def gap_density(
    scores: Sequence[float], noise: str, told: Sequence[int], gaps: Sequence[float]
) -> float:
    """The density of `told` leading in this order, each by its gap over the next."""
    others = [j for j in range(len(scores)) if j not in told]
    # How far each of them is above the best of the others.
    leads = [math.fsum(gaps[k:]) for k in range(len(told))]

    def mass(x: Floats) -> Floats:
        value = np.zeros_like(x)
        for second in others:
            term = density(noise, x - scores[second])
            for j in others:
                if j != second:
                    term = term * below(noise, x - scores[j])
            value = value + term
        for winner, lead in zip(told, leads, strict=True):
            value = value * density(noise, x + lead - scores[winner])
        return value

    breaks = [scores[i] - lead for i, lead in zip(told, leads, strict=True)]
    return integral(mass, [*scores, *breaks])


def moves(length: int, *, monotone: bool) -> list[tuple[int, ...]]:
    """All moves of every score by 0 or the whole sensitivity 1, up, down, or both."""
    if monotone:
        up = list(itertools.product((0, 1), repeat=length))
        return up + [tuple(-move for move in one) for one in up]
    return list(itertools.product((-1, 0, 1), repeat=length))


def losses(one: dict[Any, float], other: dict[Any, float]) -> Floats:
    """ln P(answer) / P'(answer) for all answers."""
    return np.array([math.log(one[key] / other[key]) for key in one])
