r"""Features on a public scale, whitened by a released matrix, with weights that bound them.

Each feature is first scaled by public bounds. Then all features are whitened by a private second
moment, so that correlated or badly scaled features lose nothing. Whitened rows get the weight
min(1, r^2 / |a|^2), so that |w a| <= r and w |a|^2 <= r^2 for every row (Mallows 1975). The weight
depends only on the features, so it biases no coefficient.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from unacorda.inference.records import Floats, bounds_of
from unacorda.inference.sums import BLOCK

SPREAD: Final = 2.5
"""Deviations in half the width of public bounds; more or less costs noise only."""

FAR: Final = 1e60
"""Scaled features are cut here, so that their squares stay finite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """Public: a feature x becomes (x - center) * factor. Both have one number per feature."""

    centre: Floats
    factor: Floats

    @property
    def size(self) -> int:
        """The number of parameters: an intercept and one coefficient per feature."""
        return self.centre.size + 1

    def rows(self, x: Floats, present: Floats) -> Floats:
        """One row (1, scaled features) per person; zeros where `present` is 0."""
        rows = np.empty((len(x), self.size))
        rows[:, 0] = present
        with np.errstate(over="ignore", invalid="ignore"):
            for start in range(0, len(x), BLOCK):  # no copy of all of it on the way
                block = slice(start, start + BLOCK)
                scaled = (x[block] - self.centre) * self.factor
                np.clip(scaled, -FAR, FAR, out=rows[block, 1:])
        rows[present == 0] = 0.0
        return rows

    def back(self) -> Floats:
        """The matrix that takes coefficients of scaled features to those of the features."""
        matrix = np.diag(np.concatenate([[1.0], self.factor]))
        matrix[0, 1:] = -self.factor * self.centre
        return matrix


def scaling(feature_bounds: tuple[ArrayLike, ArrayLike] | None, *, features: int) -> Scaling:
    """The scaling of public bounds: a pair (lower, upper), each one number or one per feature."""
    lower, upper = bounds_of(feature_bounds, features=features)
    half = (upper - lower) / 2
    return Scaling(centre=lower + half, factor=SPREAD / half)


def radius_of(size: int) -> Fraction:
    """About the length of a typical row: sqrt(size), as a short fraction."""
    return Fraction(math.ceil(math.sqrt(size) * 64), 64)


def mallows_weights(rows: Floats, radius: Fraction) -> Floats:
    """The weight min(1, radius^2 / |row|^2) of each row."""
    square = float(radius**2)
    weights: Floats = square / np.maximum(np.einsum("ij,ij->i", rows, rows), square)
    return weights
