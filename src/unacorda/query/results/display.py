"""Numbers and estimates as text, with the digits that their intervals leave."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from typing import Any

_SMALL = 1e-4  # where digits behind the point are more than a reader wants to count


def estimate(value: Any, lower: float | None, upper: float | None) -> str:
    """Write an estimate with its interval, rounded to the digits that the interval leaves.

    >>> estimate(23376.84, 20609.2, 26144.5), estimate(5.616, 0.58, 10.65), estimate(12.0, 5, 40)
    ('23,377 ± 2,768', '5.6 ± 5.0', '12 (5 to 40)')
    >>> estimate(229, 220.0, 238.0), estimate(-0.3, -12.4, 11.8), estimate(0.25, None, 0.5)
    ('229 ± 9', '0 ± 12', '0.25 (at most 0.5)')
    >>> estimate(6.2e-8, -1.5e-8, 1.39e-7)
    '6.2e-08 ± 7.7e-08'
    >>> estimate(1e-9, 9.98e-10, 1e-9)
    '1e-09 (9.98e-10 to 1e-09)'
    """
    if value is None or lower is None or upper is None:
        end = "" if upper is None or value is None else f" (at most {number(upper)})"
        return f"{number(value)}{end}"
    below, above = value - lower, upper - value
    margin = max(below, above)
    even = abs(below - above) <= 0.05 * margin
    if not 0 < margin < math.inf:
        ends = f"± {number(margin)}" if even else f"({number(lower)} to {number(upper)})"
        return f"{number(value)} {ends}"
    digits = min(max(0, 1 - math.floor(math.log10(margin))), 15)
    form = f"z,.{0 if isinstance(value, int) else digits}f"
    if abs(value) < _SMALL and margin < _SMALL:
        largest = max(abs(value), abs(lower), abs(upper))
        apart = min(max(2 + math.floor(math.log10(largest / margin)), 2), 15)
        form = ".2g" if even else f".{apart}g"
    if even:
        return f"{float(value):{form}} ± {float(margin):{form}}"
    return f"{float(value):{form}} ({float(lower):{form}} to {float(upper):{form}})"


def number(value: Any) -> str:
    """Write a value of a cell; of a number at least four digits where it has as many.

    >>> number(None), number(True), number(2024), number(0.123456), number(12345.6)
    ('NULL', 'true', '2024', '0.1235', '12,346')
    """
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case float() if not math.isfinite(value):
            return str(value)
        case float() if value == round(value) or abs(value) >= 10_000:
            return f"{value:z,.0f}" if abs(value) < 1e15 else f"{value:.4g}"
        case float():
            return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.1f}"
        case _:
            return str(value)
