"""Any number of jumps together: the exponential of a measure on a grid, and what lies beyond it."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from unacorda.accounting.profiles.boxes import Array

__all__ = ["Compound", "compound", "log_more", "times"]

_U = 2.0**-53
_SCALE = 2.0**880


@dataclass(frozen=True, slots=True)
class Compound:
    """Masses of the exponential at the nodes, the relative error of each, and what lies beyond."""

    masses: Array
    error: float
    beyond: float


def compound(jumps: Array) -> Compound | None:
    """The sum over k of the k-th convolution power over k!, k = 0 included, on the same nodes.

    jumps: masses at the nodes 0, 1, 2, ...; beyond: an upper bound of the mass after the last
    node. None where the mean sum is too large for that.

    Bound       both, within the error; the last number is an upper bound.
    Source      Panjer 1981, for Poisson numbers; docs/proofs/jumps.md, Lemma 4.
    """
    last = len(jumps) - 1
    turned = jumps * np.arange(len(jumps))
    present = np.flatnonzero(turned)
    mean = float(turned.sum()) / last * (1 + 1e-9)
    if not present.size or not mean < 0.5:
        return None
    low, high = int(present[0]), int(present[-1])
    found = np.zeros(len(jumps))  # times _SCALE, but at node 0: products of tiny masses underflow
    none = math.exp(float(jumps[0]))
    backwards = turned[::-1]
    for n in range(low, last + 1):
        top = min(n - 1, high)
        # sum over j from low to top of j jumps[j] found[n - j], and j = n
        piece = backwards[last - top : last - low + 1]
        more = float(piece @ found[n - top : n - low + 1]) if top >= low else 0.0
        found[n] = (more + turned[n] * none * _SCALE) / n
    found /= _SCALE
    found[0] = none
    error = (last + 16) * (last // low + 2) * _U * 1.01
    # n W_n = sum of j J_j W_(n-j): summed over n > last this bounds the rest by itself
    tails = np.cumsum(found[::-1])  # tails[j - 1]: the last j nodes
    rest = float(turned[1:] @ tails[:last]) / last
    beyond = rest / (1 - mean) * (1 + 4 * error) * (1 + 1e-9) + 1e-318
    return Compound(found, error, beyond)


def times(first: Array, other: Compound, *, over: int = 1) -> Compound:
    """The convolution of masses with a compound's, over a number, on the same nodes.

    Bound       both, within the error; what lies beyond is an upper bound.
    Source      sums of products of one sign.
    """
    last = len(first)
    one, two = (np.flatnonzero(part) for part in (first, other.masses))
    found, beyond = np.zeros(last), 0.0
    if one.size and two.size:
        scaled = other.masses[two[0] : two[-1] + 1] * _SCALE  # products of tiny masses underflow
        whole = np.convolve(first[one[0] : one[-1] + 1], scaled) / (over * _SCALE)
        start = int(one[0] + two[0])
        kept = whole[: max(last - start, 0)]
        found[start : start + len(kept)] = kept
        beyond = float(whole[len(kept) :].sum())
    error = other.error + (last + 8) * _U * 1.01
    beyond += other.beyond * float(first.sum()) / over
    return Compound(found, error, beyond * (1 + 4 * error) * (1 + 1e-9) + 1e-318)


def log_more(mean: float, goal: float) -> tuple[int, float]:
    """A number that a Poisson sum exceeds hardly ever, and ln of a bound of the mass beyond.

    mean: of the numbers, not divided by e^mean; the bound is below the goal.

    Bound       upper.
    Source      the exponential series: its rest after the power K is at most e^mean times the next.
    """
    log_mean = math.log(max(mean, 1e-300))
    for most in range(1, 100_000):
        log = mean + (most + 1) * log_mean - math.lgamma(most + 2) + 1e-9 * (most + 1)
        if log < goal:
            return most, log
    return most, math.inf
