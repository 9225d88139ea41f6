"""Noise on a number: the tails and losses of a location family, and the probabilities of cells."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from unacorda.accounting.profiles.boxes import Array
from unacorda.checks import exact
from unacorda.extras import later
from unacorda.privacy.events import Event, Gaussian, Laplace

scipy = later("scipy")

GRAIN = 2.0**-30
"""Shifts and ends of cells are multiples of this: their differences are exact."""
_U = 2.0**-53
_SPECIAL = 2 * 16 * 2 * _U
"""Of two tails, relative to the larger: SciPy's are assumed to err by at most 16 units."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocationFamily:
    """Symmetric noise on a number, in units of its scale.

    move: how far one unit moves the number; tail: the probability that noise exceeds a number,
    within 16 units of rounding; loss: of a shift at a place; edge: beyond the shifts by this losses
    are constant, or what is left has next to no mass; far: shifts are not told apart beyond this.
    """

    move: Fraction
    tail: Callable[[Array], Array]
    loss: Callable[[Array, Array], Array]
    edge: float
    far: float


def location_family(event: Event) -> LocationFamily | None:
    """Reads an event as noise on a number; None where it is none, or no shifts of it are known.

    Bound       exact.
    Source      the event.
    """
    match event:
        case Gaussian(noise_multiplier=m):
            return LocationFamily(
                move=1 / exact("noise_multiplier", m),
                tail=lambda x: np.asarray(scipy.special.ndtr(-x)),
                loss=lambda shift, x: shift * (x - shift / 2),
                edge=9.0,
                far=37.0,
            )
        case Laplace(noise_multiplier=m):
            return LocationFamily(
                move=1 / exact("noise_multiplier", m),
                tail=_laplace_tail,
                loss=lambda shift, x: np.abs(x) - np.abs(x - shift),
                edge=0.0,
                far=600.0,
            )
        case _:
            return None


def _laplace_tail(x: Array) -> Array:
    half = np.exp(-np.abs(x)) / 2
    return np.asarray(np.where(x > 0, half, 1 - half))


def on_grain(shift: Fraction) -> float:
    """Rounds a shift down to a multiple of the grain.

    Bound       lower.
    Source      the definition.
    """
    return math.floor(shift / Fraction(GRAIN)) * GRAIN


def cell_masses(noise: LocationFamily, points: Array, *, side: int) -> Array:
    """Computes the probabilities of the cells between the points and beyond both ends.

    side: 1 rounds them up, -1 down.

    Bound       upper or lower, as the side says.
    Source      Higham 2002, Section 3.1 (round-off).
    """
    above, below = noise.tail(points), noise.tail(-points)
    right = points[:-1] > 0  # of both tails the smaller one loses less
    inner = np.where(right, above[:-1] - above[1:], below[1:] - below[:-1])
    slip = _SPECIAL * np.where(right, above[:-1], below[1:])
    ends = np.array([below[0], above[-1]]) * (1 + side * _SPECIAL)
    found: Array = np.concatenate((ends[:1], np.maximum(inner + side * slip, 0.0), ends[1:]))
    return found
