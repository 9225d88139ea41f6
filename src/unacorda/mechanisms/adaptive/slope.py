"""The slope of a line through the origin, by least squares: what is asked of pairs."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import checks, elements
from unacorda.checks import Number
from unacorda.errors import InvalidParameter

__all__ = ["Slope", "pairs_of"]

_BOUNDS = ("x_lower", "x_upper", "y_lower", "y_upper", "lower", "upper")


@dataclass(frozen=True, slots=True, kw_only=True)
class Slope:
    """The slope b of the line y = b x with the least squares: sum of x y over sum of x^2.

    A record is a pair (x, y). The slope ends at lower and upper; where all x are 0, so for empty
    data, it is the number between them that is nearest to 0. For a line through another public
    point (a, c) take x - a and y - c.
    x_lower, x_upper, y_lower, y_upper, lower, upper: public, each lower one below its upper one.

    >>> Slope(x_lower=0, x_upper=9, y_lower=0, y_upper=99, lower=0, upper=50).value(
    ...     [(1, 2), (2, 7)]
    ... )
    Fraction(16, 5)
    """

    x_lower: Number
    x_upper: Number
    y_lower: Number
    y_upper: Number
    lower: Number
    upper: Number

    def __post_init__(self) -> None:
        for name in _BOUNDS:
            object.__setattr__(self, name, checks.exact(name, getattr(self, name)))
        for low, high in zip(_BOUNDS[::2], _BOUNDS[1::2], strict=True):
            if getattr(self, low) >= getattr(self, high):
                raise InvalidParameter(high, getattr(self, high), expected=f"a number above {low}")

    def value(self, values: ArrayLike) -> Fraction:
        """The answer itself. NOT private: never release it."""
        x, y = pairs_of(values)
        known = [
            (Fraction(a), Fraction(b))
            for a, b in zip(
                np.clip(x, float(self.x_lower), float(self.x_upper)).tolist(),
                np.clip(y, float(self.y_lower), float(self.y_upper)).tolist(),
                strict=True,
            )
        ]
        squares = sum((a * a for a, _ in known), Fraction(0))
        slope = sum((a * b for a, b in known), Fraction(0)) / squares if squares else Fraction(0)
        return min(max(slope, Fraction(self.lower)), Fraction(self.upper))


def pairs_of(values: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """First and second numbers of the records, NaN as 0.

    Raises InvalidParameter unless there are two columns of integers or floats.
    """
    array = elements.floats("values", values, dimensions=2, width=2)
    if array.size == 0 and array.ndim == 1:
        array = array.reshape(0, 2)
    if array.ndim != 2 or array.shape[1] != 2:
        raise InvalidParameter("values", array.shape, expected="two columns, a record a row")
    numbers = np.array(array)
    numbers[np.isnan(numbers)] = 0.0
    return numbers[:, 0], numbers[:, 1]
