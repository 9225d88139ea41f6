"""What each engine proves of an event: the order in which they are asked, and when they are not."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TypeAlias

import numpy as np

from unacorda.accounting import prices, stand_ins
from unacorda.accounting.amplification import events as rewritten
from unacorda.accounting.amplification.relations import holds_sample
from unacorda.accounting.derived import Intervals, derived_bounds
from unacorda.accounting.divergences import approximate as by_renyi
from unacorda.accounting.divergences.pure import FiniteLoss, finite_loss
from unacorda.accounting.engines import (
    Engine,
    Measure,
    by_caps,
    by_edges,
    by_jumps,
    by_loss_grids,
    by_turning,
    engines_of,
)
from unacorda.errors import InternalError, InvalidParameter, UnsupportedEvent
from unacorda.privacy import conversions
from unacorda.privacy.estimates import Interval
from unacorda.privacy.events import Event, RandomAllocation, Shuffled
from unacorda.privacy.neighbors import Neighbors
from unacorda.privacy.rounding import float_above, float_below

__all__ = [
    "CLOSE",
    "NARROW",
    "Finding",
    "Findings",
    "Meeting",
    "delta_findings",
    "epsilon_findings",
]

NARROW = 1e-8
"""An interval this narrow, relative to its upper end, is not looked at again."""
CLOSE = 1e-4
"""Nor is one this narrow by the engines that lose more than that themselves."""
_EDGED = 2e-5
"""Nor by those of sums between two edges, which lose about as much."""
_CAPPED = 5e-5
"""Nor by that of sums below caps, which loses less."""
_JUMPS = 1e-4
"""Nor by that one, which takes long then, where jumps over a bulk have been added."""

_TURNED = 1e-2
"""One this narrow at least is looked at by way of epsilon."""

_NO_DELTA = 1e-300
"""A delta that is not above this is not looked at again."""
_FAINT = 1e-30
"""Of a delta below this, Renyi divergences may well tell that it is none."""

_REACHED = "a pair that the event allows; docs/proofs/matrices.md"
_MOMENTS = "Asoodeh et al. 2020, Theorem 3"
_OPTIMAL = "Kairouz, Oh, Viswanath 2015"
_ROUNDED = Fraction(1, 1 << 48)
"""More than was added to an epsilon by rounding it up, relative to it."""
_NOTHING_PROVED = Interval(0.0, math.inf)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one engine proved: its name, the interval, and the source of its theorem."""

    engine: str
    interval: Interval
    source: str


Findings: TypeAlias = Iterator[Finding | None]
"""In the order in which engines are asked; None before those that lose more than CLOSE."""


@dataclass(slots=True)
class Meeting:
    """Where intervals meet that all hold one number of an event.

    event: what they speak of; low, high: where they meet; added: whether any was added.
    """

    event: Event
    low: float = 0.0
    high: float = math.inf
    added: bool = False
    _lowest: str = "the range of all answers"
    _highest: str = "the range of all answers"

    def add(self, engine: str, interval: Interval) -> None:
        """Intersect with what this engine proved; InternalError where nothing is left.

        Bound       both.
        Source      each engine's.
        """
        self.added = True
        if interval.lower > self.low:
            self.low, self._lowest = interval.lower, engine
        if interval.upper < self.high:
            self.high, self._highest = interval.upper, engine
        if not self.low <= self.high:  # in every build: no assert
            raise InternalError(
                self.event,
                contradiction=f"{self._lowest!r} proves at least {self.low!r}, "
                f"{self._highest!r} at most {self.high!r}",
            )

    def within(self, enough: float) -> bool:
        """Whether what is left open is this narrow, relative to its upper end.

        Bound       none: it only compares.
        Source      the definition.
        """
        return self.high < math.inf and self.high - self.low <= enough * self.high


def epsilon_findings(
    event: Event, limit: Fraction, neighbors: Neighbors, intervals: Intervals
) -> Findings:
    """What is proved of the epsilon at a delta; `intervals` prices other events on the way.

    Bound       both, each.
    Source      in each finding.
    """
    loss = finite_loss(event, neighbors)
    if loss is not None and loss.mass <= limit:
        name, source = _basic(loss)
        sharp = loss.attained and loss.mass == limit
        least = float_below(loss.epsilon * (1 - _ROUNDED)) if sharp else 0.0
        yield _finding(name, Interval(least, float_above(loss.epsilon)), source)
    if not limit:
        return
    if isinstance(event, Shuffled):
        found = list(
            _asked(
                "clones",
                lambda: rewritten.epsilon_of_shuffled_event(event, delta=limit),
                "Feldman, McMillan, Talwar 2021",
            )
        )
        yield from found
        if found:
            return
    several = rewritten.shuffled_parts(event)
    known = event
    if several:
        share = limit / (2 * several) if several > 1 or not isinstance(event, Shuffled) else 0
        known = rewritten.without_shuffling(event, delta=Fraction(share))
    plain = stand_ins.upper_stand_in(known, neighbors)
    below = stand_ins.lower_stand_in(event, neighbors)
    exactly = below is not None and below == plain
    if below is not None and below not in (plain, event):
        yield from _asked(
            "one pair of neighbours",
            lambda: Interval(intervals(below, neighbors, delta=limit).lower, math.inf),
            _REACHED,
        )
    meet = Meeting(plain)
    engines = engines_of(plain, neighbors)
    yield from _numerical(engines, "epsilon", limit, exactly=exactly, meet=meet, enough=NARROW)
    engines = iter([by_edges(plain, neighbors)])
    yield from _numerical(engines, "epsilon", limit, exactly=exactly, meet=meet, enough=_EDGED)
    engines = iter([by_jumps(plain, neighbors)])
    enough = _CAPPED
    for finding in _numerical(engines, "epsilon", limit, exactly=exactly, meet=meet, enough=enough):
        enough = _JUMPS
        yield finding
    engines = iter([by_caps(plain, neighbors)])
    yield from _numerical(engines, "epsilon", limit, exactly=exactly, meet=meet, enough=enough)
    if meet.added and isinstance(plain, RandomAllocation):
        return  # its moments are slow to find, and no better than its profile
    for name, bound, source in derived_bounds(plain, neighbors, intervals, delta=limit):
        yield from _asked(name, bound, source)
    yield None
    entire = stand_ins.whole_stand_in(known, neighbors)
    if entire != plain:
        exactly, meet = below == entire, Meeting(entire)
    engines = iter([by_loss_grids(entire, neighbors)])
    yield from _numerical(engines, "epsilon", limit, exactly=exactly, meet=meet, enough=CLOSE)
    yield None
    if not holds_sample(plain):
        yield from _asked(
            "guarantees",
            lambda: Interval(0.0, float_above(prices.approx_dp_price(plain, delta=limit).epsilon)),
            "Gaussian DP, zCDP and sums: Dong, Roth, Su 2022; Canonne, Kamath, Steinke 2020",
        )
    yield from _asked(
        "Renyi divergences",
        lambda: Interval(0.0, by_renyi.epsilon_from_renyi(plain, delta=limit, neighbors=neighbors)),
        _MOMENTS,
    )


def delta_findings(
    event: Event, at: Fraction, neighbors: Neighbors, intervals: Intervals
) -> Findings:
    """What is proved of the delta at an epsilon; `intervals` prices other events on the way.

    Bound       both, each.
    Source      in each finding.
    """
    loss = finite_loss(event, neighbors)
    if loss is not None:
        finite = conversions.approx_dp_delta_from_pure(float_above(loss.epsilon), epsilon=at)
        whole = float_above(loss.mass + (1 - loss.mass) * Fraction(finite))
        yield _finding(_basic(loss)[0], Interval(0.0, whole), _OPTIMAL)
    low = float_below(at)
    if isinstance(event, Shuffled):
        found = list(
            _asked(
                "clones",
                lambda: rewritten.delta_of_shuffled_event(event, epsilon=low),
                "Feldman, McMillan, Talwar 2021",
            )
        )
        yield from found
        if found:
            return
    known = rewritten.without_shuffling(event, delta=Fraction(0))
    plain = stand_ins.upper_stand_in(known, neighbors)
    below = stand_ins.lower_stand_in(event, neighbors)
    exactly = below is not None and below == plain
    if below is not None and below not in (plain, event):
        yield from _asked(
            "one pair of neighbours",
            lambda: Interval(intervals(below, neighbors, epsilon=at).lower, 1.0),
            _REACHED,
        )
    meet = Meeting(plain)
    engines = engines_of(plain, neighbors)
    yield from _numerical(engines, "delta", at, exactly=exactly, meet=meet, enough=NARROW)

    def by_moments() -> Interval:
        return Interval(0.0, by_renyi.delta_from_renyi(plain, epsilon=at, neighbors=neighbors))

    early = meet.low == 0.0 and _NO_DELTA < meet.high < _FAINT
    if early:
        for finding in _asked("Renyi divergences", by_moments, _MOMENTS):
            meet.add(finding.engine, finding.interval)
            yield finding
    if meet.high <= _NO_DELTA:
        return
    engines = iter([by_edges(plain, neighbors)])
    yield from _numerical(engines, "delta", at, exactly=exactly, meet=meet, enough=_EDGED)
    engines = iter([by_jumps(plain, neighbors)])
    enough = _CAPPED
    for finding in _numerical(engines, "delta", at, exactly=exactly, meet=meet, enough=enough):
        enough = _JUMPS
        yield finding
    if meet.low > _NO_DELTA and meet.high < 1 and enough == _JUMPS and meet.within(_TURNED):
        engines = iter([by_turning(plain, neighbors, Interval(meet.low, meet.high))])
        yield from _numerical(engines, "delta", at, exactly=exactly, meet=meet, enough=enough)
    engines = iter([by_caps(plain, neighbors)])
    yield from _numerical(engines, "delta", at, exactly=exactly, meet=meet, enough=enough)
    if meet.high <= _NO_DELTA:
        return
    if meet.added and isinstance(plain, RandomAllocation):
        return  # its moments are slow to find, and no better than its profile
    for name, bound, source in derived_bounds(plain, neighbors, intervals, epsilon=at):
        yield from _asked(name, bound, source)
    yield None
    entire = stand_ins.whole_stand_in(known, neighbors)
    if entire != plain:
        exactly, meet = below == entire, Meeting(entire)
    engines = iter([by_loss_grids(entire, neighbors)])
    yield from _numerical(engines, "delta", at, exactly=exactly, meet=meet, enough=CLOSE)
    yield None
    if not early:
        yield from _asked("Renyi divergences", by_moments, _MOMENTS)


def _numerical(
    engines: Iterator[tuple[str, Engine, str]],
    measure: Measure,
    at: Fraction,
    *,
    exactly: bool,
    meet: Meeting,
    enough: float,
) -> Iterator[Finding]:
    """What the engines find, until they leave `enough` open or less.

    exactly: else the event they know stands for another from above, and lower ends say nothing.
    """
    for name, ask, source in engines:
        if meet.within(enough):
            return
        for finding in _asked(name, partial(ask, measure, at), source):
            own = finding.interval
            meet.add(name, own)
            yield finding if exactly else _finding(name, Interval(0.0, own.upper), source)


def _asked(name: str, ask: Callable[[], Interval], source: str) -> Iterator[Finding]:
    """The finding, or none where the engine does not know the event or has no delta left.

    An engine whose floats overflow, or leave what a function is defined for, has proved nothing.
    """
    try:
        with np.errstate(over="raise", invalid="raise", divide="raise"):
            interval = ask()
    except UnsupportedEvent:
        return
    except InvalidParameter as refusal:
        if refusal.argument != "delta":
            raise
        return
    except (ArithmeticError, ValueError):
        interval = _NOTHING_PROVED
    yield _finding(name, interval, source)


def _basic(loss: FiniteLoss) -> tuple[str, str]:
    """What composition of plain promises is called, and its source."""
    if loss.mass:
        return "composition of promises", f"{_OPTIMAL}, Theorem 3.3; Balle, Barthe, Gaboardi 2018"
    return "pure composition", "Dwork et al. 2006"


def _finding(name: str, interval: Interval, source: str) -> Finding:
    return Finding(engine=name, interval=interval, source=source)
