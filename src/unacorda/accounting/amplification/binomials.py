"""Binomial laws: probabilities with their errors, and masses of stretches, from above."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from unacorda.accounting.profiles.boxes import Array
from unacorda.extras import later

scipy = later("scipy")

_UNIT = 2.0**-53


def mass_between(trials: int, chance: float, first: int, end: int) -> float:
    """P[first <= count < end] of a binomial law.

    Bound       upper; SciPy's incomplete beta function is granted a relative error of 1e-11.
    Source      the definition.
    """
    middle = trials * chance
    if first > middle:  # the chance of `first` or more, no cancellation of near-ones
        mass = at_least(trials, chance, first) - (
            at_least(trials, chance, end) if end <= trials else 0.0
        )
        size = at_least(trials, chance, first)
    else:
        size = _at_most(trials, chance, end - 1)
        mass = size - (_at_most(trials, chance, first - 1) if first > 0 else 0.0)
    return min(1.0, max(0.0, mass) + 1e-11 * size)


def _at_most(trials: int, chance: float, k: int) -> float:
    return 1.0 if k >= trials else float(scipy.special.betainc(trials - k, k + 1, 1 - chance))


def at_least(trials: int, chance: float, k: int) -> float:
    """P[count >= k] of a binomial law.

    Bound       none: SciPy's error is the caller's to add.
    Source      the incomplete beta function.
    """
    return 1.0 if k <= 0 else float(scipy.special.betainc(k, trials - k + 1, chance))


def log_binomial(trials: int | Array, chance: float, x: Array) -> tuple[Array, Array]:
    """The log of the binomial probabilities and a bound of their error.

    By x log((n p)/x) + (n - x) log(n q/(n - x)) and Stirling's remainders: its parts are as small
    as the answer near the mean.

    Bound       both, by the error.
    Source      Loader 2000, "Fast and accurate computation of binomial probabilities".
    """
    n = np.asarray(trials, dtype=np.float64)
    y = n - x
    inner = (x > 0) & (y > 0)
    a, b = np.where(inner, x, 1.0), np.where(inner, y, 1.0)
    remainders = _stirling(np.maximum(n, 2.0)) - _stirling(a) - _stirling(b)
    parts = -_deviance(a, np.where(inner, n * chance, 1.0)) - _deviance(
        b, np.where(inner, n * (1 - chance), 1.0)
    )
    value = remainders + parts + 0.5 * np.log(np.maximum(n, 2.0) / (2 * np.pi * a * b))
    edge = np.where(x > 0, n * math.log(chance), n * math.log1p(-chance))
    result = np.where(inner, value, edge)
    # n p and n (1 - p) carry one rounding each, which moves the deviance by |x - n p| of it
    error = _UNIT * (256 + 64 * np.abs(result) + 32 * np.abs(a - n * chance))
    return result, error + 1e-13


def _deviance(x: Array, mean: Array) -> Array:
    """The deviance x log(x/mean) + mean - x."""
    t = (x - mean) / mean
    near = np.abs(t) < 0.05
    small = np.where(near, t, 0.0)
    # (1 + t) log(1 + t) - t = sum over k >= 2 of (-1)^k t^k / (k (k - 1))
    series = np.zeros_like(small)
    for k in range(18, 1, -1):
        series = series * small + (1.0 if k % 2 == 0 else -1.0) / (k * (k - 1))
    far = scipy.special.xlogy(1 + t, 1 + t) - t
    value: Array = mean * np.where(near, series * small**2, far)
    return value


def _stirling(x: Array) -> Array:
    """log(x!) - (x log x - x + log(2 pi x)/2)."""
    big = np.maximum(x, 16.0)
    inverse = 1 / big
    square = inverse**2
    tail = square * (1 / 1260 - square * (1 / 1680 - square * (1 / 1188)))
    series = inverse * (1 / 12 - square * (1 / 360) + square * tail)
    exact = scipy.special.gammaln(x + 1) - (x * np.log(x) - x + 0.5 * np.log(2 * np.pi * x))
    value: Array = np.where(x < 16, exact, series)
    return value


@dataclass(frozen=True, slots=True)
class CountLaw:
    """Masses of a law of counts, from `start` on, to a relative error.

    edge: how much of a mass may be missing where another count is added: what is left out of each
    summand lies where its law, which is unimodal, is below the masses at the ends.
    """

    start: int
    masses: Array
    error: float
    edge: float

    @classmethod
    def binomial(cls, trials: int, chance: float, *, reach: float) -> CountLaw:
        """The binomial law, within `reach` standard deviations and a few counts.

        Bound       both, by the error and the edge.
        Source      log_binomial.
        """
        mean, spread = trials * chance, math.sqrt(trials * chance * (1 - chance))
        start = max(0, math.floor(mean - reach * spread - reach))
        stop = min(trials, math.ceil(mean + reach * spread + reach))
        logs, error = log_binomial(trials, chance, np.arange(start, stop + 1.0))
        masses = np.exp(logs)
        edge = max(float(masses[0]) * (start > 0), float(masses[-1]) * (stop < trials))
        return cls(start, masses, 2 * float(np.max(error)), edge)

    def plus(self, other: CountLaw) -> CountLaw:
        """The law of the sum of two independent counts.

        Bound       both, by the error and the edge.
        Source      the definition.
        """
        masses = np.convolve(self.masses, other.masses)
        terms = min(len(self.masses), len(other.masses))
        error = self.error + other.error + 2 * (terms + 4) * _UNIT
        return CountLaw(self.start + other.start, masses, error, self.edge + other.edge)

    def turned(self, whole: int) -> CountLaw:
        """The law of `whole` less the count.

        Bound       both, by the error and the edge.
        Source      the definition.
        """
        start = whole - self.start - len(self.masses) + 1
        return CountLaw(start, self.masses[::-1], self.error, self.edge)
