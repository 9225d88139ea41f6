"""Profiles of events: the curve delta(epsilon) of one direction, with floats on both sides."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from unacorda.accounting.profiles.boxes import Array
from unacorda.accounting.profiles.curves import Curve
from unacorda.accounting.rules.base import CurveOf, Direction, Profile
from unacorda.errors import InvalidParameter
from unacorda.privacy.events import Event
from unacorda.privacy.neighbors import AddRemove, Neighbors


def profile_bounds(
    event: Event,
    epsilons: ArrayLike,
    *,
    direction: Direction = "remove",
    neighbors: Neighbors = AddRemove,
) -> tuple[Array, Array]:
    """Bounds of delta(epsilon) = sup over A of P(A) - e^epsilon Q(A), one direction.

    epsilons: floats of any shape, negative and infinite ones too; each means the number it holds.
    direction: see Direction; the worse of both is the event's delta. neighbors: sampling is
    priced only under the relation that its theorem names. The numbers inside a fixed-size sample
    speak of adding or removing one unit, as everywhere, and are read here for replacing one.
    Returns (lower, upper), arrays of that shape with lower <= delta <= upper.
    Raises UnsupportedEvent for compositions other than of Gaussian events, shuffled ones, and
    sampling schemes under another relation; InvalidParameter for NaN and unknown words.

    Bound       both, of the worst pair that the event allows; for ZeroConcentrated, and discrete
                Gaussian noise of l2 sensitivity sqrt(2) or more, of the supremum over pairs.
    Source      the functions of `curves` and `amplified`; docs/proofs/pld.md.

    >>> from unacorda.privacy.events import Gaussian
    >>> lower, upper = profile_bounds(Gaussian(noise_multiplier=1.0), [1.0])
    >>> float(lower[0]) <= 0.12693673750664397 <= float(upper[0])
    True
    """
    asked = np.asarray(epsilons, dtype=np.float64)
    if np.isnan(asked).any():
        raise InvalidParameter("epsilons", epsilons, expected="numbers, none of them NaN")
    found = curve_of(event, direction=direction, neighbors=neighbors)(asked)
    return found.lower, found.upper


def curve_of(
    event: Event,
    *,
    direction: Direction = "remove",
    neighbors: Neighbors = AddRemove,
    inside: CurveOf | None = None,
) -> Curve:
    """The profile of one direction of an event as a Curve; see profile_bounds.

    inside: the curves of compositions, selections and shuffled events, wherever they stand in the
    event; None: these are refused.

    Bound       both, as profile_bounds.
    Source      the rules of the event's kind.
    """
    if direction not in ("remove", "add"):
        raise InvalidParameter("direction", direction, expected="'remove' or 'add'")
    return Profile(direction=direction, neighbors=neighbors, inside=inside).of(event)
