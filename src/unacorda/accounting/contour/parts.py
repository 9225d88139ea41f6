"""From events to the parts of one direction: which laws of the loss dominate them."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from unacorda.accounting.contour.factor import Factor
from unacorda.accounting.contour.maker import Maker
from unacorda.accounting.laws import TooExtreme
from unacorda.accounting.rules.base import Direction, rules_of, under_replacement, units_replaced
from unacorda.checks import exact
from unacorda.errors import UnsupportedEvent
from unacorda.privacy.events import (
    Composed,
    Event,
    PoissonSampled,
    Repeated,
)
from unacorda.privacy.neighbors import AddRemove, Neighbors, ReplaceOne

__all__ = ["Parts", "attained", "flatten", "parts_of"]

_COMPOSITION = Repeated | Composed


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts of one direction, and the probability that some loss is infinite.

    infinite: a number of the working precision; 0 where no part has infinite losses.
    """

    factors: tuple[Factor, ...]
    infinite: Any


def flatten(
    composition: Iterable[tuple[Event, int]], *, neighbors: Neighbors = AddRemove
) -> tuple[tuple[Event, int], ...]:
    """Atomic events with their counts: repetitions multiplied out, compositions opened.

    A sample of everybody is no sample, but its numbers compare a unit with none: under ReplaceOne
    they are read as `under_replacement` does, and so are those of Gaussian mixtures.
    """
    counts: dict[Event, int] = {}
    for event, count in composition:
        for part in event.parts if isinstance(event, Composed) else (event,):
            alone, times = (part.event, part.count) if isinstance(part, Repeated) else (part, 1)
            one = _plain(units_replaced(alone, neighbors), neighbors)
            if isinstance(one, _COMPOSITION):
                for inner, many in flatten([(one, times * count)], neighbors=neighbors):
                    counts[inner] = counts.get(inner, 0) + many
            else:
                counts[one] = counts.get(one, 0) + times * count
    return tuple((event, count) for event, count in counts.items() if count)


def _plain(event: Event, neighbors: Neighbors) -> Event:
    """A sample of everybody is no sample; of a sample's sample the rates multiply."""
    if isinstance(event, PoissonSampled):
        rate = exact("rate", event.rate)
        inner = _plain(event.event, AddRemove)  # its numbers compare a unit with none
        if isinstance(inner, PoissonSampled):
            return PoissonSampled(event=inner.event, rate=rate * exact("rate", inner.rate))
        if rate == 1 and neighbors is not ReplaceOne:
            return inner
        if rate == 1:
            with contextlib.suppress(UnsupportedEvent):
                return under_replacement(inner)
        return PoissonSampled(event=inner, rate=event.rate)
    return event


def attained(events: Sequence[tuple[Event, int]]) -> bool:
    """Whether one pair of tables has these laws, so that their lower bounds speak of it.

    The laws of bounded range and of replaced units dominate; composed, no pair need reach them.
    """
    alone = sum(count for _, count in events) == 1
    return all(rules_of(event).attains_law(event, alone=alone) for event, _ in events)


def parts_of(
    events: Sequence[tuple[Event, int]],
    *,
    direction: Direction,
    log_delta: float,
    neighbors: Neighbors = AddRemove,
) -> Parts | None:
    """The parts; None where one is too extreme for floats.

    events: as `flatten` gives them; log_delta: ln of about the delta in question.
    Raises UnsupportedEvent for an event whose loss has no dominating law here.
    """
    maker = Maker(
        remove=direction == "remove",
        log_delta=log_delta,
        steps=sum(count for _, count in events) + 1,
        neighbors=neighbors,
    )
    try:
        for event, count in events:
            maker.take(event, count)
    except TooExtreme:
        return None
    factors, infinite = maker.whole()
    return Parts(factors=factors, infinite=infinite)
