"""Bounds of a profile at plain numbers of epsilon, as tests ask for them."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from unacorda.accounting.profiles.boxes import Array
from unacorda.accounting.rules.base import Direction, curve_of
from unacorda.privacy.events import Event
from unacorda.privacy.neighbors import AddRemove, Neighbors

__all__ = ["profile_bounds"]


def profile_bounds(
    event: Event,
    epsilons: ArrayLike,
    *,
    direction: Direction = "remove",
    neighbors: Neighbors = AddRemove,
) -> tuple[Array, Array]:
    """Bounds of delta of one direction at each epsilon, from below and from above."""
    curve = curve_of(event, direction=direction, neighbors=neighbors)
    found = curve(np.asarray(epsilons, dtype=np.float64))
    return found.lower, found.upper
