"""What each engine proves of an event: the order in which they are asked, and when they are not."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TypeAlias

import numpy as np

from unacorda.accounting import prices
from unacorda.accounting.amplification import events as rewritten
from unacorda.accounting.derived import Intervals, derived_bounds
from unacorda.accounting.divergences.finite import FiniteLoss
from unacorda.accounting.engines import (
    Engine,
    Measure,
    by_loss_grids,
    engines_of,
)
from unacorda.accounting.moments import delta_from_renyi, epsilon_from_renyi
from unacorda.accounting.rewriting import leaves
from unacorda.accounting.rules.base import dominated, dominating, finite_loss, pure_of, rules_of
from unacorda.errors import InternalError, InvalidParameter, UnsupportedEvent
from unacorda.privacy import conversions
from unacorda.privacy.estimates import Interval
from unacorda.privacy.events import Event, RandomAllocation, Shuffled
from unacorda.privacy.neighbors import Neighbors, ReplaceOne
from unacorda.privacy.rounding import float_above, float_below

__all__ = [
    "TOLERANCE",
    "Finding",
    "Findings",
    "Meeting",
    "delta_findings",
    "epsilon_findings",
]

TOLERANCE = 1e-4
"""How wide an answer may be where nothing else is asked for: see `Meeting.within`."""

_COARSE = 1.0
"""A tolerance of which the first grid is enough: its upper end is often right to 1e-4."""
_KNOWN = 1e-2
"""Where grids leave less than this open, guarantees and moments have nothing to add."""
_NO_DELTA = 1e-300
"""A delta that is not above this is not looked at again."""
_FAINT = 1e-30
"""Of a delta below this, Renyi divergences may well tell that it is none."""

_REACHED = "a pair that the event allows; docs/proofs/matrices.md"
_MOMENTS = "Asoodeh et al. 2020, Theorem 3"
_CLONES = "Feldman, McMillan, Talwar 2022; docs/proofs/amplification.md"
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


Findings: TypeAlias = Iterator[Finding]
"""In the order in which engines are asked."""


@dataclass(slots=True)
class Meeting:
    """Where intervals meet that all hold one number of an event.

    event: what they speak of; measure: and which number of it; low, high: where they meet; added:
    whether any was added.
    """

    event: Event
    measure: Measure
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

    def within(self, tolerance: float) -> bool:
        """Whether no more than the tolerance is left open.

        It is relative to the upper end, of epsilons below 1 absolute.

        Bound       none: it only compares.
        Source      the definition.
        """
        unit = max(self.high, 1.0) if self.measure == "epsilon" else self.high
        return self.high < math.inf and self.high - self.low <= tolerance * unit


def epsilon_findings(
    event: Event,
    limit: Fraction,
    neighbors: Neighbors,
    intervals: Intervals,
    *,
    tolerance: float,
    quick: bool = False,
) -> Findings:
    """What is proved of the epsilon at a delta; `intervals` prices other events on the way.

    tolerance: as `Meeting.within` takes it; engines are not asked beyond. quick: grids stay coarse,
    and moments are not asked if these give an upper end.

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
                _CLONES,
            )
        )
        yield from found
        if found:
            return
    several = rewritten.shuffled_parts(event)
    known = event
    if several:
        found = list(_whole(event, neighbors, "epsilon", limit, tolerance=tolerance))
        yield from found
        if any(finding.interval.upper < math.inf for finding in found):
            return
        share = limit / (2 * several) if several > 1 or not isinstance(event, Shuffled) else 0
        known = rewritten.without_shuffling(event, delta=Fraction(share))
    plain = rewritten.pure_selections(dominating(known, neighbors), neighbors)
    below = dominated(event, neighbors)
    if below is not None and below not in (plain, event):
        yield from _asked(
            "one pair of neighbours",
            lambda: Interval(intervals(below, neighbors, delta=limit).lower, math.inf),
            _REACHED,
        )
    asking = _Asking("epsilon", limit, tolerance=tolerance, below=below)
    meet = Meeting(plain, "epsilon")
    yield from asking.numerical(meet, engines_of(plain, neighbors))
    if meet.added and isinstance(plain, RandomAllocation):
        return  # its moments are slow to find, and no better than its profile
    for name, bound, source in derived_bounds(plain, neighbors, intervals, delta=limit):
        yield from _asked(name, bound, source)
    entire = dominating(known, neighbors)
    if entire != plain:
        meet = Meeting(entire, "epsilon")
    grids = by_loss_grids(entire, neighbors, tolerance=_COARSE if quick else tolerance)
    needed = not meet.within(tolerance)
    yield from asking.numerical(meet, [grids])
    if needed and meet.within(_KNOWN):
        return
    if not any(rules_of(part).sampled for part in leaves(plain)):
        yield from _asked(
            "guarantees",
            lambda: Interval(0.0, float_above(prices.approx_dp_price(plain, delta=limit).epsilon)),
            "Gaussian DP, zCDP and sums: Dong, Roth, Su 2022; Canonne, Kamath, Steinke 2020",
        )
    if quick and meet.high < math.inf:
        return
    yield from _asked(
        "Renyi divergences",
        lambda: Interval(0.0, epsilon_from_renyi(plain, delta=limit, neighbors=neighbors)),
        _MOMENTS,
    )


def delta_findings(
    event: Event,
    at: Fraction,
    neighbors: Neighbors,
    intervals: Intervals,
    *,
    tolerance: float,
) -> Findings:
    """What is proved of the delta at an epsilon; otherwise as `epsilon_findings`.

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
                _CLONES,
            )
        )
        yield from found
        if found:
            return
    if rewritten.shuffled_parts(event):
        found = list(_whole(event, neighbors, "delta", at, tolerance=tolerance))
        yield from found
        if any(finding.interval.upper < 1 for finding in found):
            return
    known = rewritten.without_shuffling(event, delta=Fraction(0))
    plain = rewritten.pure_selections(dominating(known, neighbors), neighbors)
    below = dominated(event, neighbors)
    if below is not None and below not in (plain, event):
        yield from _asked(
            "one pair of neighbours",
            lambda: Interval(intervals(below, neighbors, epsilon=at).lower, 1.0),
            _REACHED,
        )
    asking = _Asking("delta", at, tolerance=tolerance, below=below)
    meet = Meeting(plain, "delta")
    yield from asking.numerical(meet, engines_of(plain, neighbors))

    def by_moments() -> Interval:
        return Interval(0.0, delta_from_renyi(plain, epsilon=at, neighbors=neighbors))

    early = meet.low == 0.0 and _NO_DELTA < meet.high < _FAINT
    if early:
        for finding in _asked("Renyi divergences", by_moments, _MOMENTS):
            meet.add(finding.engine, finding.interval)
            yield finding
    if meet.high <= _NO_DELTA:
        return
    if meet.added and isinstance(plain, RandomAllocation):
        return  # its moments are slow to find, and no better than its profile
    for name, bound, source in derived_bounds(plain, neighbors, intervals, epsilon=at):
        yield from _asked(name, bound, source)
    entire = dominating(known, neighbors)
    if entire != plain:
        meet = Meeting(entire, "delta")
    needed = not meet.within(tolerance)
    yield from asking.numerical(meet, [by_loss_grids(entire, neighbors, tolerance=tolerance)])
    if not early and not (needed and meet.within(_KNOWN)):
        yield from _asked("Renyi divergences", by_moments, _MOMENTS)


def _whole(
    event: Event, neighbors: Neighbors, measure: Measure, at: Fraction, *, tolerance: float
) -> Findings:
    """What grids find of a composition with its shuffled parts as they are, if these are pure."""
    shuffled = [part for part in leaves(event) if isinstance(part, Shuffled)]
    if any(pure_of(part.event, ReplaceOne) is None for part in shuffled):
        return
    entire = dominating(event, neighbors)
    asking = _Asking(measure, at, tolerance=tolerance, below=event)
    grids = by_loss_grids(entire, neighbors, tolerance=tolerance)
    yield from asking.numerical(Meeting(entire, measure), [grids])


@dataclass(frozen=True, slots=True)
class _Asking:
    """What numerical engines are asked. below: the event that a pair of neighbours attains."""

    measure: Measure
    at: Fraction
    tolerance: float
    below: Event | None

    def numerical(
        self, meet: Meeting, engines: Iterable[tuple[str, Engine, str]]
    ) -> Iterator[Finding]:
        """What the engines find, until they leave the tolerance open or less.

        Where the event that they know stands for another from above, lower ends say nothing.
        """
        exactly = self.below == meet.event
        for name, ask, source in engines:
            if meet.within(self.tolerance):
                return
            for finding in _asked(name, partial(ask, self.measure, self.at), source):
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
