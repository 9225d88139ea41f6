"""What the five kinds of guarantee share: operators on the numbers that add, and their text."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import abc
import json
import math
from collections.abc import Sequence
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Self

from unacorda import checks
from unacorda.checks import Number
from unacorda.errors import InvalidParameter, WrongUnit

__all__ = ["Additive", "amount", "decimal", "root_decimal", "share"]


class Additive(abc.ABC):
    """The operators and the order of one kind of guarantee; it holds no data.

    A kind says which of its numbers add under composition (`additive`), and how to make a value
    of its kind from such numbers (`with_additive`).
    """

    __slots__ = ()

    @property
    @abc.abstractmethod
    def additive(self) -> tuple[Fraction, ...]:
        """The numbers that add under composition."""

    @abc.abstractmethod
    def with_additive(self, numbers: Sequence[Fraction]) -> Self:
        """A guarantee of this kind (and this order, for Renyi) with these additive numbers."""

    def comparable_with(self, other: object) -> bool:
        """Whether `other` is of this kind."""
        return type(self) is type(other)

    def _pairs(self, other: object) -> list[tuple[Fraction, Fraction]]:
        if not isinstance(other, Additive):
            kind = type(self).__name__
            raise WrongUnit(self, other, hint=f"A {kind} adds to and compares with a {kind}.")
        if not self.comparable_with(other):
            kind = type(self).__name__
            hint = (
                f"Convert first: {kind}.within(...) where it exists, or ask .implies(...)."
                if kind != "RenyiDP"
                else "Renyi guarantees meet at one order alpha; ask .implies(...) otherwise."
            )
            raise WrongUnit(self, other, hint=hint)
        return list(zip(self.additive, other.additive, strict=True))

    def __add__(self, other: Additive) -> Self:
        return self.with_additive([mine + theirs for mine, theirs in self._pairs(other)])

    def __radd__(self, other: object) -> Self:
        if other == 0:  # sum() starts from 0
            return self
        return self.with_additive([mine + theirs for mine, theirs in self._pairs(other)])

    def __sub__(self, other: Additive) -> Self:
        left = [mine - theirs for mine, theirs in self._pairs(other)]
        if min(left) < 0:
            raise InvalidParameter("other", other, expected=f"at most {self!r}")
        return self.with_additive(left)

    def __mul__(self, factor: Number) -> Self:
        scale = checks.exact("factor", factor)
        if scale < 0:
            raise InvalidParameter("factor", factor, expected="a number, 0 or above")
        return self.with_additive([number * scale for number in self.additive])

    __rmul__ = __mul__

    def __truediv__(self, divisor: Number) -> Self:
        scale = checks.exact("divisor", divisor)
        if scale <= 0:
            raise InvalidParameter("divisor", divisor, expected="a number above 0")
        return self.with_additive([number / scale for number in self.additive])

    def __le__(self, other: Additive) -> bool:
        return all(mine <= theirs for mine, theirs in self._pairs(other))

    def __lt__(self, other: Additive) -> bool:
        return self <= other and self != other

    def __ge__(self, other: Additive) -> bool:
        return all(mine >= theirs for mine, theirs in self._pairs(other))

    def __gt__(self, other: Additive) -> bool:
        return self >= other and self != other

    def to_json(self) -> str:
        """The guarantee as JSON text; numbers are exact fractions, written as text."""
        names: tuple[str, ...] = tuple(self.__dataclass_fields__)  # type: ignore[attr-defined]
        fields = {name: str(getattr(self, name)) for name in names}
        return json.dumps({"guarantee": type(self).__name__, **fields})


def amount(name: str, value: Number) -> Fraction:
    """The argument, exactly, if it is 0 or above; else InvalidParameter."""
    number = checks.exact(name, value)
    if number < 0:
        raise InvalidParameter(name, value, expected="a finite number, 0 or above")
    return number


def share(name: str, value: Number) -> Fraction:
    """The argument, exactly, if it lies in [0, 1]; else InvalidParameter."""
    number = checks.exact(name, value)
    if not 0 <= number <= 1:
        raise InvalidParameter(name, value, expected="a number from 0 to 1")
    return number


def decimal(value: Fraction) -> str:
    """The number as a float prints where that is exact, else 12 digits of it, rounded up.

    Upward, because a guarantee that is printed must not promise more than is kept.

    >>> decimal(Fraction(1, 10)), decimal(Fraction(1, 3))
    ('0.1', '0.333333333334')
    """
    nearest = float(value) if value < 10**300 else 0.0
    if Fraction(repr(nearest)) == value:
        return repr(nearest)
    context = Context(prec=12, rounding=ROUND_CEILING)
    quotient = context.divide(Decimal(value.numerator), Decimal(value.denominator))
    if nearest > 1e-300:
        return f"{float(quotient):.12g}"
    return f"{quotient.normalize(context):g}"


def root_decimal(square: Fraction) -> str:
    """The square root of a rational number as text: exact where short, else 12 digits, up."""
    root = _exact_root(square)
    if root is not None:
        return decimal(root)
    context = Context(prec=30)
    quotient = context.divide(Decimal(square.numerator), Decimal(square.denominator))
    return decimal(Fraction(quotient.sqrt(context).next_plus(context)))


def _exact_root(square: Fraction) -> Fraction | None:
    """The square root of a rational number where it is rational, else None."""
    above, below = math.isqrt(square.numerator), math.isqrt(square.denominator)
    root = Fraction(above, below)
    return root if root * root == square else None
