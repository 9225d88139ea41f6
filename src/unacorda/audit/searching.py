"""The largest privacy parameter that a test still rejects, where rejecting is monotone."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable

MOST = 700.0


def largest_rejected(p_value: Callable[[float], float], *, error: float, steps: int = 40) -> float:
    """A value up to which p_value is at most `error`: 0 if it is above at 0 already.

    p_value must not fall: what is private at a smaller value is so at every larger one. The end
    that is returned is one at which it was seen to reject, so that rounding costs tightness alone.
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
