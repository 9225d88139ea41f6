"""Compositions asked of the grid engine alone, as `by_contours` takes them."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Iterable

from unacorda.accounting.contour.engine import Directions
from unacorda.accounting.pld.distribution import (
    PrivacyLossDistribution,
    worst_delta,
    worst_epsilon,
)
from unacorda.checks import Number, exact
from unacorda.privacy.estimates import Interval
from unacorda.privacy.events import Event, compose
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
    return worst_epsilon(_losses(steps, directions, neighbors), delta=exact("delta", delta))


def delta_interval(
    steps: Iterable[tuple[Event, int]],
    *,
    epsilon: Number,
    directions: Directions = "both",
    neighbors: Neighbors = AddRemove,
) -> Interval:
    """The least delta at an epsilon."""
    return worst_delta(_losses(steps, directions, neighbors), epsilon=exact("epsilon", epsilon))


def _losses(
    steps: Iterable[tuple[Event, int]], directions: Directions, neighbors: Neighbors
) -> list[PrivacyLossDistribution]:
    whole = compose([event * count if count > 1 else event for event, count in steps])
    return [
        PrivacyLossDistribution.from_event(whole, direction=direction, neighbors=neighbors)
        for direction in ("remove", "add")
        if directions in ("both", direction)
    ]
