"""Certified arithmetic below the conversions: many digits inside, floats rounded outward."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import mpmath

from unacorda import numerics

BITS = 256
"""Working precision of conversions. Each keeps its own error below 2^-120, relative."""

_SLACK = 100
"""Results are widened by 2^-100, relative, before they are rounded to a float."""

numerics.lengthen_constants()
_local = threading.local()


def context() -> Any:
    """The thread's own mpmath context: mpmath's global one is shared, its precision too."""
    if not hasattr(_local, "context"):
        _local.context = mpmath.MPContext()
        _local.context.prec = BITS
    return _local.context


def mpf(value: float | Fraction) -> Any:
    """The number in the working precision; a float is the number it holds."""
    mp = context()
    if isinstance(value, Fraction):
        return mp.mpf(value.numerator) / value.denominator
    return mp.mpf(value) if isinstance(value, int) else mp.mpf(float(value))


def float_up(value: Any) -> float:
    """A float that is not below the non-negative number `value` stands for."""
    mp = context()
    if value == 0:
        return 0.0
    raised = value * (1 + mp.ldexp(1, -_SLACK))
    nearest = float(raised)
    return nearest if mp.mpf(nearest) >= raised else math.nextafter(nearest, math.inf)


def float_down(value: Any) -> float:
    """A float, 0 or above, that is not above the number `value` stands for."""
    mp = context()
    lowered = value * (1 - mp.ldexp(1, -_SLACK))
    if lowered <= 0:
        return 0.0
    nearest = float(lowered)
    return nearest if mp.mpf(nearest) <= lowered else math.nextafter(nearest, 0.0)


def sum_up(terms: Sequence[Any]) -> float:
    """A float that is not below the sum, nor below 0, whatever cancels: errors are added."""
    mp = context()
    total = mp.fsum(terms) + mp.ldexp(mp.fsum(terms, absolute=True), 24 - BITS)
    return float_up(total) if total > 0 else 0.0
