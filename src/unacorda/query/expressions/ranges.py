r"""Interval arithmetic: where the values of an expression lie, given where its columns lie.

A range [l, u] states that every non-NULL value v of an expression has l <= v <= u; infinities are
values. Each function returns a range of all results for operands in the given ranges, leaving out
results that are NULL or NaN. Where a corner is exact in doubles it is kept as it is, so that
integers stay integers; everywhere else the bound moves outward. Sums, products and quotients of
corners bound the interior because the operations are monotone in each operand (Moore 1966,
Interval Analysis, chapter 3) and rounding to nearest is monotone too.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

_LIBRARY_ERROR = 2.0**-48  # relative; log, exp and pow of the C libraries err below 2^-50


@dataclass(frozen=True, slots=True)
class Range:
    """All numbers v with lower <= v <= upper; empty where lower > upper.

    >>> Range(0.0, 1.0).contains(0.5)
    True
    """

    lower: float
    upper: float

    @property
    def empty(self) -> bool:
        """Whether no number lies in it."""
        return self.lower > self.upper

    def contains(self, value: float) -> bool:
        """Whether the number lies in it."""
        return self.lower <= value <= self.upper


EVERYTHING = Range(-math.inf, math.inf)
EMPTY = Range(math.inf, -math.inf)


LARGEST, SMALLEST = 1e100, 2.0**-332
"""The sizes to which numbers are held: every one that a column has is between them, or 0."""


@dataclass(frozen=True, slots=True)
class Size:
    """Between which sizes numbers are that are not 0; all are multiples of step, a power of 2.

    A sum is a multiple of what its parts are multiples of, however small it is, and rounding it
    leaves it one. step: if it is not known, what the smallest double of these sizes is one of.
    """

    least: float
    most: float
    step: float = 0.0

    def __post_init__(self) -> None:
        if self.step == 0.0:
            last_place = math.ldexp(1.0, math.frexp(self.least)[1] - 53)
            object.__setattr__(self, "step", last_place)

    def within(self, other: Size) -> bool:
        """Whether all of these are sizes of the other."""
        return other.least <= self.least and self.most <= other.most

    def hull(self, other: Size) -> Size:
        """The sizes of both."""
        return Size(
            min(self.least, other.least), max(self.most, other.most), min(self.step, other.step)
        )


PLAIN = Size(SMALLEST, LARGEST)
"""What columns have, and what is held to that."""
FINISHED = Size(2.0**-664, 1e200)
"""What expressions have that have been finished."""


def hull(*ranges: Range) -> Range:
    """The least range that holds all of them.

    >>> hull(Range(0.0, 1.0), EMPTY, Range(5.0, 6.0))
    Range(lower=0.0, upper=6.0)
    """
    return Range(min(r.lower for r in ranges), max(r.upper for r in ranges))


def add(a: Range, b: Range) -> Range:
    """The range of x + y.

    >>> add(Range(0.0, 120.0), Range(1.0, 1.0))
    Range(lower=1.0, upper=121.0)
    >>> add(Range(0.1, 0.1), Range(0.2, 0.2)).lower <= 0.3  # the sum in doubles is above it
    True
    """
    if a.empty or b.empty:
        return EMPTY
    return Range(_sum(a.lower, b.lower)[0], _sum(a.upper, b.upper)[1])


def negate(a: Range) -> Range:
    """The range of -x."""
    return EMPTY if a.empty else Range(-a.upper + 0.0, -a.lower + 0.0)


def multiply(a: Range, b: Range) -> Range:
    """The range of x * y; infinity times zero is left out.

    >>> multiply(Range(-2.0, 3.0), Range(0.0, 5.0))
    Range(lower=-10.0, upper=15.0)
    """
    return _corners(_product, a, b)


def divide(a: Range, b: Range) -> Range:
    """The range of x / y over all y but 0.

    >>> divide(Range(1.0, 8.0), Range(2.0, 4.0))
    Range(lower=0.25, upper=4.0)
    >>> divide(Range(1.0, 8.0), Range(0.0, 4.0))
    Range(lower=0.25, upper=inf)
    """
    # A zero at the end of a part stands for the numbers next to it: x / 0 is the limit.
    below, above = Range(b.lower, min(b.upper, -0.0)), Range(max(b.lower, 0.0), b.upper)
    parts = [EMPTY]
    if below.lower < 0:
        parts.append(negate(_corners(_quotient, a, negate(below))))
    if above.upper > 0:
        parts.append(_corners(_quotient, a, above))
    return hull(*parts)


def remainder(a: Range, b: Range) -> Range:
    """The range of the remainder of x / y with the sign of x, over all y but 0.

    >>> remainder(Range(0.0, 100.0), Range(7.0, 7.0))
    Range(lower=0.0, upper=7.0)
    """
    if a.empty or b.empty:
        return EMPTY
    most = min(absolute(a).upper, absolute(b).upper)
    return Range(0.0 if a.lower >= 0 else -most, 0.0 if a.upper <= 0 else most)


def absolute(a: Range) -> Range:
    """The range of |x|.

    >>> absolute(Range(-3.0, 2.0))
    Range(lower=0.0, upper=3.0)
    """
    if a.empty:
        return EMPTY
    return Range(max(a.lower, -a.upper, 0.0), max(-a.lower, a.upper))


def whole(a: Range) -> Range:
    """The range of any rounding of x to a whole number next to it.

    >>> whole(Range(0.2, 1.5))
    Range(lower=0.0, upper=2.0)
    """
    if a.empty:
        return EMPTY
    lower = a.lower if math.isinf(a.lower) else float(math.floor(a.lower))
    upper = a.upper if math.isinf(a.upper) else float(math.ceil(a.upper))
    return Range(lower, upper)


def round_to(a: Range, digits: int) -> Range:
    """The range of x rounded to so many decimal digits, before the point where negative."""
    if a.empty or digits == 0:
        return whole(a)
    # Half a step, and the error of scaling by a power of ten and back.
    low, high = (
        0.0 if math.isinf(end) else 10.0**-digits + abs(end) * _LIBRARY_ERROR
        for end in (a.lower, a.upper)
    )
    return Range(a.lower - low, a.upper + high)


def root(a: Range) -> Range:
    """The range of the square root of x over x >= 0.

    >>> root(Range(-1.0, 9.0))
    Range(lower=0.0, upper=3.0)
    """
    return _increasing(_square_root, Range(max(a.lower, 0.0), a.upper))


def cube_root(a: Range) -> Range:
    """The range of the cube root of x.

    >>> cube_root(Range(-1.0, 27.0)).upper > 3
    True
    """
    return _increasing(lambda x: _widen(math.cbrt(x)) if math.isfinite(x) else (x, x), a)


def logarithm(a: Range, function: Callable[[float], float]) -> Range:
    """The range of a logarithm (math.log, math.log2, math.log10) of x over x > 0."""
    positive = Range(max(a.lower, math.ulp(0.0)), a.upper)
    return _increasing(lambda x: _widen(function(x)), positive)


def exponential(a: Range) -> Range:
    """The range of e^x.

    >>> exponential(Range(-800.0, 0.0)).upper > 1
    True
    """
    found = _increasing(lambda x: _widen(_limited(math.exp, x)), a)
    return Range(max(found.lower, 0.0), found.upper)


def power(a: Range, b: Range) -> Range:
    """The range of x^y where it is a real number.

    >>> power(Range(0.0, 10.0), Range(2.0, 2.0)).lower
    0.0
    """
    if a.empty or b.empty:
        return EMPTY
    size = absolute(a)
    ends = [_widen(_pow(x, y)) for x in (size.lower, size.upper) for y in (b.lower, b.upper)]
    # Corners suffice: x^y is monotone in x for a fixed y, and in y for a fixed x.
    low, high = max(min(down for down, _ in ends), 0.0), max(up for _, up in ends)
    if a.lower >= 0 or (b.lower == b.upper and b.lower % 2 == 0):
        return Range(low, high)
    return Range(-high, high)  # an odd power of a negative base


def _increasing(function: Callable[[float], tuple[float, float]], a: Range) -> Range:
    """The range of an increasing function, from bounds of its value at a number."""
    return EMPTY if a.empty else Range(function(a.lower)[0], function(a.upper)[1])


def _corners(function: Callable[[float, float], tuple[float, float]], a: Range, b: Range) -> Range:
    if a.empty or b.empty:
        return EMPTY
    ends = [function(x, y) for x in (a.lower, a.upper) for y in (b.lower, b.upper)]
    return Range(min(down for down, _ in ends), max(up for _, up in ends))


def _sum(x: float, y: float) -> tuple[float, float]:
    total = x + y
    if math.isnan(total):
        return -math.inf, math.inf
    return _outward(total, lambda: Fraction(x) + Fraction(y) == Fraction(total), x, y)


def _product(x: float, y: float) -> tuple[float, float]:
    result = 0.0 if x == 0 or y == 0 else x * y
    return _outward(result, lambda: Fraction(x) * Fraction(y) == Fraction(result), x, y)


def _quotient(x: float, y: float) -> tuple[float, float]:
    if x == 0 or math.isinf(y):
        return 0.0, 0.0  # infinity / infinity is left out; its neighbors reach 0 and infinity
    if y == 0 or math.isinf(x):
        limit = math.copysign(math.inf, x)
        return limit, limit
    result = x / y
    return _outward(result, lambda: Fraction(result) * Fraction(y) == Fraction(x))


def _square_root(x: float) -> tuple[float, float]:
    result = math.sqrt(x)
    return _outward(result, lambda: Fraction(result) ** 2 == Fraction(x), x)


def _limited(function: Callable[..., float], *operands: float) -> float:
    """The value of a function that is infinite where it is too large for a double."""
    try:
        return function(*operands)
    except OverflowError:
        return math.inf


def _pow(x: float, y: float) -> float:
    """x^y for x >= 0, with the limit at infinity for 0 to a negative power."""
    return math.inf if x == 0 and y < 0 else _limited(math.pow, x, y)


def _outward(x: float, exact: Callable[[], bool], *operands: float) -> tuple[float, float]:
    """Around a result in doubles; itself where it is exact, or the limit at infinite operands."""
    if any(map(math.isinf, operands)) or (math.isfinite(x) and exact()):
        return x + 0.0, x + 0.0
    return math.nextafter(x, -math.inf), math.nextafter(x, math.inf)


def _widen(x: float) -> tuple[float, float]:
    if math.isinf(x):
        # An overflow: values just below it may stay finite. An infinite operand gives the same
        # bound, which is only wider.
        largest = math.nextafter(math.inf, 0.0)
        return (largest, x) if x > 0 else (x, -largest)
    slack = abs(x) * _LIBRARY_ERROR + math.ulp(0.0)
    return math.nextafter(x - slack, -math.inf), math.nextafter(x + slack, math.inf)
