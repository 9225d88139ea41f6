"""Numbers as balls that hold the true one, and floats rounded outward from them.

A ball is a number of many digits with a radius. Every operation gives a ball that holds the exact
result for all numbers in its operands, so that a bound follows from any formula as it is written;
precision decides how wide a ball is, never whether it is right. So a comparison is true only if it
is for certain, and `a < b` and `a >= b` may both be false. A ball of which nothing is known, such
as the logarithm of one that holds 0, is NaN; its bounds are infinity above and 0 below.

Source: Johansson 2017, Arb: efficient arbitrary-precision midpoint-radius interval arithmetic.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import functools
import math
import threading
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import Final, TypeAlias

from flint import arb, ctx, fmpq

Ball: TypeAlias = arb

BITS: Final = 256
"""Binary digits that balls have at least."""

_SPARE: Final = 64  # digits beyond those that are asked for
_DOUBLINGS: Final = 12

_FAR: Final = 100.0
"""From here on Arb bounds what the radius of an argument does to erfc by far too much."""

_ONE_AT_A_TIME = threading.RLock()


def ball(value: float | Fraction) -> Ball:
    """The ball of a number; a float is the number it holds.

    Balls have one precision for the process. If another library has lowered it, it is raised again.

    >>> float_up(ball(Fraction(1, 3)) * 3)
    1.0000000000000002
    >>> float_down(ball(2).sqrt())
    1.414213562373095
    """
    _raise_precision()
    if isinstance(value, Fraction):
        return arb(fmpq(value.numerator, value.denominator))
    return arb(value) if isinstance(value, int) else arb(float(value))


def ldexp(value: int, exponent: int) -> Ball:
    """The ball of value 2^exponent alone, however many digits the value has.

    >>> float_up(ldexp(5, -1))
    2.5
    """
    _raise_precision()
    return arb((value, exponent))


def _raise_precision() -> None:
    if ctx.prec < BITS:  # noqa: PLR1730 - what another thread may be changing is not written back
        ctx.prec = BITS


@contextlib.contextmanager
def precision(bits: int) -> Iterator[None]:
    """Balls with at least this many binary digits, for one thread at a time.

    >>> with precision(1000):
    ...     float(ball(Fraction(1, 3)).rad()) < 1e-300
    True
    """
    with _ONE_AT_A_TIME:
        before = max(ctx.prec, BITS)
        ctx.prec = max(before, bits)
        try:
            yield
        finally:
            ctx.prec = before


def float_up(value: Ball) -> float:
    """A float that is not below any number in the ball; infinity if nothing is known of it.

    >>> float_up(ball(Fraction(1, 10)))  # 0.1 is a little more than a tenth
    0.1
    """
    top = value.upper()
    nearest = float(top) + 0.0  # never -0.0
    if math.isnan(nearest):
        return math.inf
    return nearest if arb(nearest) >= top else math.nextafter(nearest, math.inf)


def float_down(value: Ball) -> float:
    """A float, 0 or above, that is not above any number in the ball, unless that is below 0.

    >>> float_down(ball(Fraction(1, 10)))
    0.09999999999999999
    """
    least = value.lower()
    if not least > 0:
        return 0.0
    nearest = float(least)
    return nearest if arb(nearest) <= least else math.nextafter(nearest, 0.0)


def fraction_up(value: Ball) -> Fraction:
    """The upper end of a ball, exactly.

    >>> fraction_up(ball(Fraction(1, 4)))
    Fraction(1, 4)
    """
    whole, exponent = map(int, value.upper().man_exp())
    return Fraction(whole << exponent) if exponent >= 0 else Fraction(whole, 1 << -exponent)


def bracket(compute: Callable[[], Ball], places: int, *, spare: int = _SPARE) -> tuple[int, int]:
    """Integers, at most 2 apart, with low <= x 2^places <= high for the number x.

    Its ball is computed with more and more digits until it is narrow enough.

    Parameters
    ----------
    compute
        A function that gives a ball of x, the narrower the more digits balls have.
    spare
        How many more digits than places to begin with. The time does not depend on x if they
        always suffice.

    Raises
    ------
    ArithmeticError
        If no number of digits suffices, as for the logarithm of 0.

    >>> bracket(lambda: ball(2).sqrt(), 10)
    (1448, 1449)
    """
    unit = arb((1, places))
    for doubling in range(_DOUBLINGS):
        with precision(places + spare << doubling):
            scaled = compute() * unit
            if scaled.is_finite() and scaled.rad() <= 0.25:
                low, high = _floor(scaled.lower()), -_floor((-scaled).lower())
                if high - low <= 2:
                    return low, high
    raise ArithmeticError("no number of digits gives a bracket")


def _floor(end: Ball) -> int:
    # Arb would take longer to floor a longer number.
    whole, exponent = map(int, end.man_exp())
    return whole << exponent if exponent >= 0 else whole >> -exponent


def greatest(values: Iterable[Ball]) -> Ball:
    """The ball of the greatest, of one or more: also where it is not certain which that is.

    >>> float_up(greatest([ball(Fraction(1, 3)), ball(2).sqrt() - 1]))
    0.4142135623730951
    """
    return functools.reduce(
        lambda one, two: one if one >= two else two if two >= one else one.max(two), values
    )


def least(values: Iterable[Ball]) -> Ball:
    """The ball of the least, of one or more: also where it is not certain which that is.

    >>> float_down(least([ball(Fraction(1, 3)), ball(2).sqrt() - 1]))
    0.3333333333333333
    """
    return functools.reduce(
        lambda one, two: one if one <= two else two if two <= one else one.min(two), values
    )


def root(value: Ball) -> Ball:
    """The square root of a number that is not below 0, though its ball may reach there.

    >>> float_up(root(ball(2).sqrt() ** 2 - 2)) < 1e-36
    True
    """
    return value.sqrt() if value >= 0 else arb(0).union(value.upper().max(0).sqrt())


def erfc(x: Ball) -> Ball:
    """The complementary error function; far out by its exponential, which keeps the digits.

    >>> float_up(erfc(ball(1e20)).log()) < -9.99e39
    True
    """
    if not x > _FAR:
        return x.erfc()
    square = x * x
    return (-square).exp() * square.hypgeom_u(ball(0.5), ball(0.5)) / arb.pi().sqrt()


def normal_cdf(x: Ball) -> Ball:
    """The standard normal distribution function.

    >>> float_up(normal_cdf(ball(0)))
    0.5
    """
    return erfc(-x / ball(2).sqrt()) / 2
