"""One run of a mechanism that is run again: how it is given, and how its loss is read."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
import numbers
from fractions import Fraction
from typing import Protocol, TypeAlias, TypeVar

from unacorda import checks
from unacorda.bits import RandomBits
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.parameters import Real, readable
from unacorda.privacy.guarantees import ApproxDP, PureDP

Output_co = TypeVar("Output_co", covariant=True)

Number: TypeAlias = int | float | Fraction


class Run(Protocol[Output_co]):
    """One run: all its randomness comes from ``bits``.

    A mechanism and its data make one: ``functools.partial(mechanism.release, data)``.
    """

    def __call__(self, *, bits: RandomBits) -> Output_co:
        """One output, drawn afresh."""
        ...


def number_of(argument: str, value: object) -> Number:
    """A score or a loss as Python compares it exactly; -0.0 is 0.0.

    Raises InvalidParameter, which names its type alone, for what is no real number.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        kind = type(value).__name__
        raise InvalidParameter(argument, kind, expected="an int, a float or a Fraction")
    if isinstance(value, Fraction):
        return value
    return int(value) if isinstance(value, numbers.Integral) else float(value)


def is_nan(value: Number) -> bool:
    """Whether the number is none."""
    return isinstance(value, float) and math.isnan(value)


def too_high(loss: object, limit: Fraction) -> bool:
    """Whether a loss is above the limit, exactly; NaN is."""
    number = number_of("loss", loss)
    return is_nan(number) or number > limit


def guarantee_of_run(guarantee: object, *, name: str = "guarantee") -> tuple[Fraction, Fraction]:
    """Epsilon and delta of one run."""
    if isinstance(guarantee, PureDP):
        return guarantee.epsilon, Fraction(0)
    if isinstance(guarantee, ApproxDP):
        return guarantee.epsilon, guarantee.delta
    raise InvalidParameter(name, guarantee, expected="PureDP or ApproxDP, of one run")


def probability(name: str, value: checks.Number) -> Real:
    """The number as it prints, if it is 0 or above and below 1; else InvalidParameter."""
    number = checks.exact(name, value)
    if not 0 <= number < 1:
        raise InvalidParameter(name, value, expected="a probability below 1")
    return readable(number)
