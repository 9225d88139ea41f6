r"""The probability of many right guesses, with every canary in or out by a fair coin.

Under (epsilon, delta)-DP the number of right guesses among r is stochastically at most Bin(r, q) +
F with q = e^epsilon / (1 + e^epsilon), where F >= 0 is independent of the first term and has a mean
of at most 2 m delta (Steinke, Nasr, Jagielski 2023). The largest effect of F is a linear program
over its distribution, solved here in closed form.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy import special

from unacorda.audit.binomials import at_least
from unacorda.numerics import bisect

_DEVIATIONS = 12.0
_ROUNDED = 1 + 1e-9
_MOST = 700.0


def p_value(
    *, right: int, guesses: int, canaries: int, epsilon: float, delta: float = 0.0
) -> float:
    r"""An upper bound on P[as many right guesses, or more] under (epsilon, delta)-DP.

    Statement   P[Bin >= v] + max over laws of F on {0, 1, ...} with mean at most 2 m delta of
                sum over i of P[F = i] P[v > Bin >= v - i], Bin = Bin(r, q).
    Bound       upper; it does not fall in epsilon, as Bin grows with it in law.
    Source      Steinke, Nasr, Jagielski 2023, arXiv:2305.08846, Theorem 5.2 (whose bound is this
                one's for a mean of F small enough, and is never below it).
    Time        that of a few square roots of r: 1e5 guesses take less than a millisecond.

    >>> f"{p_value(right=90, guesses=100, canaries=1000, epsilon=1.0):.2g}"
    '2.7e-05'
    """
    rate = float(special.expit(epsilon))
    surely = at_least(right, guesses, rate)
    budget = 2.0 * canaries * delta
    if budget == 0:
        return surely
    if surely >= 0.5:
        return 1.0  # no test rejects here, and what follows is about the upper half of the law
    moved = _moved(right, guesses, rate)
    gains = moved / np.arange(1, moved.size + 1)
    best = int(np.argmax(gains))
    if budget <= best + 1:
        extra = budget * float(gains[best])
    else:
        # All of F's mass is moved: by the two whole numbers next to its mean, as gains shrink.
        extra = float(np.interp(budget, np.arange(1, moved.size + 1), moved))
    return min(1.0, surely + extra * _ROUNDED)


def _moved(right: int, guesses: int, rate: float) -> np.ndarray:
    """P[v > Bin >= v - i] for i = 1, 2, ..., up to where nearly all of the law is reached."""
    spread = math.sqrt(guesses * rate * (1 - rate))
    farthest = math.ceil(right - guesses * rate + _DEVIATIONS * spread + _DEVIATIONS)
    below = right - np.arange(1, max(1, min(right, farthest)) + 1)
    log_masses = (
        special.gammaln(guesses + 1)
        - special.gammaln(below + 1)
        - special.gammaln(guesses - below + 1)
        + special.xlogy(below, rate)
        + special.xlog1py(guesses - below, -rate)
    )
    return np.cumsum(np.exp(log_masses))


def largest_rejected(p_value: Callable[[float], float], *, error: float, steps: int = 40) -> float:
    """A value up to which p_value is at most `error`; 0 if it is above already at 0.

    p_value must not decrease: a mechanism that is private at a smaller value is so at every larger
    one. The test rejects at the returned value, so rounding only costs tightness.
    """
    if p_value(0.0) > error:
        return 0.0
    low, high = 0.0, 1.0
    while p_value(high) <= error:
        low, high = high, 2 * high
        if high > _MOST:
            return low
    return bisect(lambda value: p_value(value) > error, low, high, rounds=steps)[0]
