"""The largest privacy parameter that a monotone test rejects."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable

MOST = 700.0


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
        if high > MOST:
            return low
    for _ in range(steps):
        middle = (low + high) / 2
        if p_value(middle) <= error:
            low = middle
        else:
            high = middle
    return low
