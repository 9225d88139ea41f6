"""Broken lines through points of a profile, as laws of the loss: lines in e^epsilon."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unacorda.accounting.profiles.atoms import Atoms
from unacorda.accounting.profiles.boxes import Array

_U = 2.0**-53


def chords_above(places: Array, x: Array, values: Array) -> Atoms:
    """The law whose profile is the broken line through (0, 1) and the points, rounded up."""
    left, right = falls(x, values)
    masses = (np.maximum(left - right, 0.0) + 16 * _U * (left + right)) * x
    last = float(values[-1])
    return Atoms(losses=places, masses=masses, infinity_above=last, trust=16 * _U)


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
