"""Laws of the loss that are given by their atoms."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from unacorda.accounting.profiles.boxes import Array

_SHARES = 64
_LARGEST = 1e-11


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscreteLoss:
    """Finite losses and their masses under P, and the mass of infinite loss.

    error: of any loss, absolute; trust: of any mass, relative; infinity_above: where the mass of
    infinite loss is not known, its upper bound; spacing: see `lattice_of`; lower: whether the law
    stands for another one from below, not from above.
    """

    losses: Array = field(repr=False)
    masses: Array = field(repr=False)
    infinity: float = 0.0
    infinity_above: float = 0.0
    error: float = 0.0
    trust: float = 0.0
    spacing: Fraction | None = None
    lower: bool = False

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the largest finite loss."""
        if not len(self.losses):
            return 0.0, 0.0
        return float(np.min(self.losses)), float(np.max(self.losses))


def lattice_of(losses: Array) -> Fraction | None:
    """A number of which all losses are whole multiples, but for 1e-11 of it; None if none is.

    Bound       none: who counts an atom as at a multiple has to count how far away it is.
    Source      trial division of the least loss.
    """
    sizes = np.unique(np.abs(losses))
    sizes = sizes[sizes > 1e-9]
    if not 0 < len(sizes) <= 1 << 16:
        return None
    least, largest = float(sizes[0]), float(sizes[-1])
    for share in range(1, _SHARES + 1):
        many = round(largest * share / least)
        if many > 1 << 20:
            return None
        spacing = largest / many  # the largest loss tells it best
        away = np.abs(losses - np.rint(losses / spacing) * spacing)
        if float(np.max(away)) <= min(_LARGEST * spacing, 1e-13 * (1 + largest)):
            return Fraction(spacing)
    return None


def common_divisor(numbers: Collection[Fraction]) -> Fraction:
    """The greatest number of which all are whole multiples; 0 where all are 0.

    Bound       exact.
    Source      the definition.
    """
    denominator = math.lcm(*(number.denominator for number in numbers))
    return Fraction(math.gcd(*(int(number * denominator) for number in numbers)), denominator)


_U = 2.0**-53


def chords_above(places: Array, x: Array, values: Array) -> DiscreteLoss:
    """The law whose profile is the broken line through (0, 1) and the points, rounded up."""
    left, right = falls(x, values)
    masses = (np.maximum(left - right, 0.0) + 16 * _U * (left + right)) * x
    last = float(values[-1])
    return DiscreteLoss(losses=places, masses=masses, infinity_above=last, trust=16 * _U)


def falls(x: Array, values: Array) -> tuple[Array, Array]:
    """Minus the slopes of the broken line from (0, 1), before and after each point."""
    slopes = -np.diff(np.append(1.0, values)) / np.diff(np.append(0.0, x))
    return slopes, np.append(slopes[1:], 0.0)


def minorant(x: Array, values: Array) -> NDArray[np.int64]:
    """The corners of the convex minorant of points, x ascending; both ends are corners."""
    kept: list[int] = []
    for index in range(len(x)):
        while len(kept) > 1:
            a, b = kept[-2], kept[-1]
            line = (values[b] - values[a]) * (x[index] - x[a])
            if line < (values[index] - values[a]) * (x[b] - x[a]):
                break
            kept.pop()
        kept.append(index)
    return np.asarray(kept, dtype=np.int64)
