"""Exact laws of integer noise and the chi-square test against them."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
from mpmath import mp, mpf
from numpy.typing import NDArray
from scipy import stats

Tail = Callable[[float], float]
"""P(|X| >= k) for an integer k >= 1."""

Integers = NDArray[np.int64]


def discrete_laplace_tail(scale: Fraction) -> Tail:
    t = float(scale)
    return lambda k: float(2 * np.exp(-k / t) / (1 + np.exp(-1 / t)))


def geometric_tail(scale: Fraction) -> Tail:
    t = float(scale)
    return lambda k: float(np.exp(-k / t))


def discrete_gaussian_tail(sigma: Fraction) -> Tail:
    s = float(sigma)
    if s > 3000:  # the rounded normal is the same to within 1e-8 relative
        return lambda k: float(2 * stats.norm.sf((k - 0.5) / s))
    reach = int(14 * s) + 3
    weights = np.exp(-0.5 * (np.arange(reach + 1) / s) ** 2)
    sums = np.cumsum(weights[::-1])[::-1]
    total = 2 * sums[0] - 1
    return lambda k: float(2 * sums[int(k)] / total) if k <= reach else 0.0


def chi_square_p(magnitudes: Integers, tail: Tail, *, width: float) -> float:
    """The p-value of magnitudes under a law, in up to 60 cells of about equal probability."""
    edges = [0]
    step = max(1, round(width / 12))
    while tail(edges[-1] + step) * magnitudes.size > 40 and len(edges) < 60:
        edges.append(edges[-1] + step)
    probabilities = np.array([1.0] + [tail(edge) for edge in edges[1:]] + [0.0])
    expected = -np.diff(probabilities) * magnitudes.size
    observed = np.histogram(magnitudes, bins=[*edges, np.inf])[0]
    return float(stats.chi2.sf(((observed - expected) ** 2 / expected).sum(), len(edges) - 1))


def sign_p(draws: Integers) -> float:
    """The p-value of as many draws above as below zero."""
    above, below = int((draws > 0).sum()), int((draws < 0).sum())
    return float(stats.binomtest(above, above + below).pvalue) if above + below else 1.0


def standard_laplace(word: int) -> tuple[mpf, mpf]:
    """The ends between which the Laplace number of a signed word lies, to the working digits."""
    magnitude = word if word >= 0 else -word - 1
    ends = [-mp.log(mpf(value) / 2**63) for value in (magnitude + 1, max(magnitude, mpf("1e-99")))]
    return (ends[0], ends[1]) if word >= 0 else (-ends[1], -ends[0])


def as_mpf(value: Fraction) -> mpf:
    return mpf(value.numerator) / value.denominator


def signed(words: NDArray[np.uint64]) -> list[int]:
    numbers: list[int] = words.view(np.int64).tolist()
    return numbers
