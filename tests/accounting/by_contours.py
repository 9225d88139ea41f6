"""Compositions asked of the contour engine alone."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Iterable

from unacorda.accounting.contour.engine import Directions, delta_of, epsilon_of
from unacorda.accounting.contour.parts import flatten
from unacorda.checks import Number, exact
from unacorda.privacy.estimates import Interval
from unacorda.privacy.events import Event
from unacorda.privacy.neighbors import AddRemove, Neighbors

__all__ = ["delta_interval", "epsilon_interval"]


def epsilon_interval(
    steps: Iterable[tuple[Event, int]],
    *,
    delta: Number,
    directions: Directions = "both",
    neighbors: Neighbors = AddRemove,
) -> Interval:
    """The least epsilon at a delta."""
    events, at = flatten(steps, neighbors=neighbors), exact("delta", delta)
    return epsilon_of(events, at, directions=directions, neighbors=neighbors)


def delta_interval(
    steps: Iterable[tuple[Event, int]],
    *,
    epsilon: Number,
    directions: Directions = "both",
    neighbors: Neighbors = AddRemove,
) -> Interval:
    """The least delta at an epsilon."""
    events, at = flatten(steps, neighbors=neighbors), exact("epsilon", epsilon)
    return delta_of(events, at, directions=directions, neighbors=neighbors)
