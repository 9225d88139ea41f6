"""One run of a mechanism that is run again: how it is given, and how its loss is read."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
import numbers
from fractions import Fraction
from typing import Protocol, TypeAlias, TypeVar

from tacet.bits import RandomBits
from tacet.errors import InvalidParameter

__all__ = ["Number", "Run", "is_nan", "number_of"]

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
