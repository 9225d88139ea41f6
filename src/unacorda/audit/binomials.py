"""Tails of the binomial law and bounds on its rate, rounded to the safe side."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from scipy import special

_ROUNDED = 1 + 1e-9
"""SciPy's incomplete beta functions are right to about 1e-13, and are trusted to 1e-9."""


def at_least(right: int, guesses: int, rate: float) -> float:
    """P[Bin(guesses, rate) >= right], rounded up.

    >>> round(at_least(2, 3, 0.5), 6)
    0.5
    """
    if right <= 0:
        return 1.0
    if right > guesses:
        return 0.0
    return min(1.0, float(special.betainc(right, guesses - right + 1, rate)) * _ROUNDED)


def rate_above(successes: int, trials: int, *, error: float) -> float:
    """Clopper and Pearson's upper bound on a rate, which fails with probability at most `error`.

    >>> round(rate_above(0, 100, error=0.05), 5)
    0.02951
    """
    if successes >= trials:
        return 1.0
    return min(1.0, float(special.betainccinv(successes + 1, trials - successes, error)) * _ROUNDED)


def rate_below(successes: int, trials: int, *, error: float) -> float:
    """Clopper and Pearson's lower bound.

    >>> round(rate_below(100, 100, error=0.05), 5)
    0.97049
    """
    return 1 - rate_above(trials - successes, trials, error=error)
