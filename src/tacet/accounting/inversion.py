"""Where a monotone question about a number turns from no to yes."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable

__all__ = ["passing"]


def passing(holds: Callable[[float], bool]) -> tuple[float, float]:
    """Two numbers near each other, of which the first does not hold and the second does.

    holds: False for small numbers, True for large ones; asked from 0 to 10^6, beyond which the
    second is inf. Where 0 holds both are 0.

    Bound       both: each end is one that was asked.
    Source      bisection.

    >>> low, high = passing(lambda x: x * x >= 2)
    >>> low < 2**0.5 <= high < low * (1 + 1e-14)
    True
    """
    if holds(0.0):
        return 0.0, 0.0
    low, high = 0.0, 1.0
    while not holds(high):
        low, high = high, high * 4
        if high > 1e6:
            return low, math.inf
    while low == 0.0 and high > 1e-300:
        low, high = (0.0, high / 1024) if holds(high / 1024) else (high / 1024, high)
    while high - low > 1e-15 * high:
        middle = low + (high - low) / 2
        if middle in (low, high):
            break
        low, high = (low, middle) if holds(middle) else (middle, high)
    return low, high
