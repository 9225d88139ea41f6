"""Staircase noise by its definition, in 34 digits: nothing here is the library's."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import mpmath

from unacorda.privacy.events import Event, Staircase

__all__ = ["delta_of_stairs", "sampled_stairs", "stairs"]

MP = mpmath.MPContext()
MP.dps = 34


def sampled_stairs(epsilon: str, split: str, rate: str) -> Event:
    one = Staircase(epsilon=Fraction(epsilon), split=Fraction(split))
    return one.poisson_sampled(rate=Fraction(rate))


def stairs(epsilon: str, split: str) -> dict[int, Any]:
    """P(loss = k epsilon) of staircase noise under a shift by 1, piece by piece of the density."""
    height, gamma = MP.exp(-MP.mpf(epsilon)), Fraction(split)
    far = int(80 / float(epsilon)) + 2

    def level(x: Fraction) -> int:
        return 0 if abs(x) < gamma else math.floor(abs(x) - gamma) + 1

    own = [sign * (gamma + k) for k in range(far) for sign in (-1, 1)]
    ends = sorted({*own, *(1 + end for end in own)})
    found: dict[int, Any] = {-1: MP.mpf(0), 0: MP.mpf(0), 1: MP.mpf(0)}
    for left, right in itertools.pairwise(ends):
        middle = (left + right) / 2
        first, second = level(middle - 1), level(middle)
        found[second - first] += (
            height**first * MP.mpf((right - left).numerator) / (right - left).denominator
        )
    whole = MP.fsum(found.values())
    return {steps: mass / whole for steps, mass in found.items()}


def delta_of_stairs(epsilon: str, split: str, rate: str, count: int, at: float) -> Any:
    """Of so many sampled steps: the sum over how often each loss occurs; the worse direction."""
    q, unit, both = MP.mpf(rate), MP.mpf(epsilon), []
    null = {k: mass * MP.exp(-k * unit) for k, mass in stairs(epsilon, split).items()}
    ratio = {k: 1 - q + q * MP.exp(k * unit) for k in null}
    for sign in (1, -1):
        mass = {k: null[k] * (ratio[k] if sign > 0 else 1) for k in null}
        loss = {k: sign * MP.log(ratio[k]) for k in null}
        total = MP.mpf(0)
        for i in range(count + 1):
            for j in range(count + 1 - i):
                found = i * loss[1] + j * loss[-1]
                if found > at:
                    ways = MP.binomial(count, i) * MP.binomial(count - i, j)
                    share = mass[1] ** i * mass[-1] ** j * mass[0] ** (count - i - j)
                    total -= ways * share * MP.expm1(MP.mpf(at) - found)
        both.append(total)
    return max(both)
