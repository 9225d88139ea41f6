"""The findings of engines on an event, and the order in which they run."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Literal, TypeAlias

import numpy as np

from unacorda.accounting.amplification import events as rewritten
from unacorda.accounting.amplification.sampling import draws
from unacorda.accounting.contour import engine as contour
from unacorda.accounting.contour.parts import flatten
from unacorda.accounting.pld.distribution import (
    PrivacyLossDistribution,
    falling_below,
    worst_delta,
    worst_epsilon,
)
from unacorda.accounting.pld.parts import parts_of, same_in_both_directions
from unacorda.accounting.prices import approx_dp_price, renyi
from unacorda.accounting.profiles.boxes import Array
from unacorda.accounting.profiles.curves import PrivacyProfile
from unacorda.accounting.rules import base
from unacorda.balls import ball, float_down
from unacorda.errors import InternalError, InvalidParameter, UnsupportedEvent
from unacorda.numerics import golden_section
from unacorda.privacy import conversions
from unacorda.privacy.conversions.group import approx_dp_of_group
from unacorda.privacy.estimates import Interval
from unacorda.privacy.events import Composed, Event, RandomAllocation, ReplacementSampled, Shuffled
from unacorda.privacy.neighbors import AddRemove, Neighbors, ReplaceOne
from unacorda.privacy.rounding import float_above, float_below

TOLERANCE = 1e-4
"""How wide an answer may be where nothing else is asked for: see `Meeting.within`."""

_COARSE = 1.0
"""A tolerance of which the first grid is enough: its upper end is often right to 1e-4."""
_NEAR = 5e-3
"""Where a closed form leaves less than this share of its upper end open, a search asks no other."""
_KNOWN = 1e-2
"""Where grids leave less than this open, guarantees and moments have nothing to add."""
_NO_DELTA = 1e-300
"""A delta that is not above this is not looked at again."""
_FAINT = 1e-30
"""Of a delta below this, Renyi divergences may well tell that it is none."""

_REACHED = "a pair that the event allows; docs/proofs/matrices.md"
_MOMENTS = "Asoodeh et al. 2020, Theorem 3"
_BLANKETS = "Feldman, McMillan, Talwar 2022; docs/proofs/amplification.md"
_OPTIMAL = "Kairouz, Oh, Viswanath 2015"
_ROUNDED = Fraction(1, 1 << 48)
"""More than was added to an epsilon by rounding it up, relative to it."""
_NOTHING_PROVED = Interval(0.0, math.inf)


@dataclass(frozen=True, slots=True)
class CertifiedInterval:
    """What one engine proved: its name, the interval, and the source of its theorem."""

    engine: str
    interval: Interval
    source: str


Measure: TypeAlias = Literal["epsilon", "delta"]
Intervals: TypeAlias = Callable[[Event, Neighbors, Measure, Fraction], Interval]
"""Prices another event: its epsilon at a delta, or its delta at an epsilon."""
Findings: TypeAlias = Iterator[CertifiedInterval]
"""In the order in which engines are asked."""


@dataclass(slots=True)
class Meeting:
    """The intersection of intervals that all hold one number of an event.

    event, measure: the number in question; low, high: the intersection; added: whether any interval
    was added.
    """

    event: Event
    measure: Measure
    low: float = 0.0
    high: float = math.inf
    added: bool = False
    _lowest: str = "the range of all answers"
    _highest: str = "the range of all answers"

    def add(self, engine: str, interval: Interval) -> None:
        """Intersect with the interval of an engine; InternalError if nothing is left.

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
        """Whether the interval is no wider than the tolerance.

        It is relative to the upper end, or absolute for epsilons below 1.

        Bound       none: it only compares.
        Source      the definition.
        """
        unit = max(self.high, 1.0) if self.measure == "epsilon" else self.high
        return self.high < math.inf and self.high - self.low <= tolerance * unit


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceQuestion:
    """A question about an event: its epsilon at a delta, or its delta at an epsilon.

    at: that delta or epsilon; intervals: prices other events on the way; tolerance: as for
    `Meeting.within`, after which no engine runs; quick: grids stay coarse, and moments are skipped
    if grids give an upper end; only_upper: slow lower ends are left out.
    """

    measure: Measure
    at: Fraction
    neighbors: Neighbors
    intervals: Intervals
    tolerance: float
    quick: bool = False
    only_upper: bool = False

    @property
    def ceiling(self) -> float:
        """The answer of which nothing is known."""
        return math.inf if self.measure == "epsilon" else 1.0

    def findings(self, event: Event) -> Findings:
        """Asks engines for intervals that hold the answer, the quickest first.

        Bound       both, each.
        Source      in each finding.
        """
        yield from self._promised(event)
        if self.measure == "epsilon" and not self.at:
            return
        whole = list(self._shuffled(event))
        yield from whole
        if any(finding.interval.upper < self.ceiling for finding in whole):
            return
        known = self._without_shuffling(event)
        plain = rewritten.pure_selections(base.dominating(known, self.neighbors), self.neighbors)
        below = base.dominated(event, self.neighbors)
        if below is not None and below not in (plain, event):
            yield from _asked(
                "one pair of neighbors",
                lambda: Interval(
                    self.intervals(below, self.neighbors, self.measure, self.at).lower, self.ceiling
                ),
                _REACHED,
            )
        meet = Meeting(plain, self.measure)
        engines = engines_of(plain, self.neighbors, only_upper=self.only_upper, quick=self.quick)
        yield from self._numerical(meet, engines, below=below)
        if self._found(meet):
            return
        early = self.measure == "delta" and meet.low == 0.0 and _NO_DELTA < meet.high < _FAINT
        if early:
            for finding in self._by_moments(plain):
                meet.add(finding.engine, finding.interval)
                yield finding
        if self.measure == "delta" and meet.high <= _NO_DELTA:
            return
        if meet.added and isinstance(plain, RandomAllocation):
            return  # its moments are slow to find, and no better than its profile
        yield from self._by_pairs(plain)
        entire = base.dominating(known, self.neighbors)
        if entire != plain:
            meet = Meeting(entire, self.measure)
        coarsely = _COARSE if self.quick else self.tolerance
        grids = by_loss_grids(entire, self.neighbors, tolerance=coarsely, quick=self.quick)
        needed = not meet.within(self.tolerance)
        yield from self._numerical(meet, [grids], below=below)
        if needed and meet.within(_KNOWN):
            return
        if self.measure == "epsilon":
            yield from self._guarantees(plain)
        spare = self.quick or any(base.rules_of(part).slow_moments for part in base.leaves(plain))
        if not early and not (spare and meet.high < math.inf):
            yield from self._by_moments(plain)

    def _found(self, meet: Meeting) -> bool:
        """Whether a search has found enough."""
        return self.quick and meet.high < math.inf and meet.high - meet.low <= _NEAR * meet.high

    def _promised(self, event: Event) -> Findings:
        """What composition of plain promises gives."""
        loss = base.finite_loss(event, self.neighbors)
        if loss is None:
            return
        name, source = "pure composition", "Dwork et al. 2006"
        if loss.mass:
            name = "composition of promises"
            source = f"{_OPTIMAL}, Theorem 3.3; Balle, Barthe, Gaboardi 2018"
        if self.measure == "delta":
            finite = conversions.approx_dp_delta_from_pure(
                float_above(loss.epsilon), epsilon=self.at
            )
            whole = float_above(loss.mass + (1 - loss.mass) * Fraction(finite))
            yield CertifiedInterval(name, Interval(0.0, whole), _OPTIMAL)
        elif loss.mass <= self.at:
            sharp = loss.attained and loss.mass == self.at
            least = float_below(loss.epsilon * (1 - _ROUNDED)) if sharp else 0.0
            yield CertifiedInterval(name, Interval(least, float_above(loss.epsilon)), source)

    def _shuffled(self, event: Event) -> Findings:
        """What is known of shuffled releases of pure reports."""
        if isinstance(event, Shuffled):
            ask = (
                partial(rewritten.epsilon_of_shuffled_event, event, delta=self.at)
                if self.measure == "epsilon"
                else partial(rewritten.delta_of_shuffled_event, event, epsilon=float_below(self.at))
            )
            found = list(_asked("shuffled reports", ask, _BLANKETS))
            yield from found
            if found:
                return
        shuffled = [part for part in base.leaves(event) if isinstance(part, Shuffled)]
        if not shuffled or any(base.pure_of(part.event, ReplaceOne) is None for part in shuffled):
            return
        entire = base.dominating(event, self.neighbors)
        grids = by_loss_grids(entire, self.neighbors, tolerance=self.tolerance)
        yield from self._numerical(Meeting(entire, self.measure), [grids], below=event)

    def _without_shuffling(self, event: Event) -> Event:
        """The event with shuffled parts as promises, of half the delta together if one is given."""
        several = rewritten.shuffled_parts(event)
        share = Fraction(0)
        if self.measure == "epsilon" and several and not isinstance(event, Shuffled):
            share = self.at / (2 * several)
        return rewritten.without_shuffling(event, delta=share)

    def _by_pairs(self, plain: Event) -> Findings:
        """Replacement as two steps, where allocated units leave and come."""
        parts = list(base.leaves(plain))
        allocated = any(isinstance(part, RandomAllocation) for part in parts)
        if self.neighbors is not ReplaceOne or not allocated:
            return
        if not all(base.rules_of(part).one_unit for part in parts):
            return

        def step(at: Fraction) -> float:
            return self.intervals(plain, AddRemove, self.measure, at).upper

        def ask() -> Interval:
            if self.measure == "epsilon":
                return Interval(0.0, epsilon_of_pairs(step, delta=self.at))
            return Interval(0.0, delta_of_pairs(step, epsilon=self.at))

        yield from _asked("one unit leaves, another comes", ask, "Vadhan 2017, Lemma 2.2")

    def _guarantees(self, plain: Event) -> Findings:
        if not any(base.rules_of(part).sampled for part in base.leaves(plain)):
            yield from _asked(
                "guarantees",
                lambda: Interval(0.0, float_above(approx_dp_price(plain, delta=self.at).epsilon)),
                "Gaussian DP, zCDP and sums: Dong, Roth, Su 2022; Canonne, Kamath, Steinke 2020",
            )

    def _by_moments(self, plain: Event) -> Findings:
        def ask() -> Interval:
            if self.measure == "epsilon":
                upper = epsilon_from_renyi(plain, delta=self.at, neighbors=self.neighbors)
            else:
                upper = delta_from_renyi(plain, epsilon=self.at, neighbors=self.neighbors)
            return Interval(0.0, upper)

        yield from _asked("Renyi divergences", ask, _MOMENTS)

    def _numerical(
        self,
        meet: Meeting,
        engines: Iterable[tuple[str, Engine, str]],
        *,
        below: Event | None,
    ) -> Findings:
        """What the engines find, until they leave the tolerance open or less.

        below: the event that a pair of neighbors attains; where the event that they know stands
        for another from above, lower ends say nothing.
        """
        exactly = below == meet.event
        for name, ask, source in engines:
            if meet.within(self.tolerance) or self._found(meet):
                return
            for finding in _asked(name, partial(ask, self.measure, self.at), source):
                own = finding.interval
                meet.add(name, own)
                yield (
                    finding
                    if exactly
                    else CertifiedInterval(name, Interval(0.0, own.upper), source)
                )


def _asked(name: str, ask: Callable[[], Interval], source: str) -> Iterator[CertifiedInterval]:
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
    yield CertifiedInterval(name, interval, source)


def delta_of_pairs(delta_at: Callable[[Fraction], float], *, epsilon: Fraction) -> float:
    """Delta, at `epsilon`, under replacement, from the delta of adding or removing one unit.

    Statement   (1 + e^{epsilon/2}) delta(epsilon/2), at most 1.
    Bound       upper, rounded up.
    Source      approx_dp_of_group of two.
    """
    half = epsilon / 2
    return approx_dp_of_group(half, delta=min(1.0, delta_at(half)), size=2)[1]


def epsilon_of_pairs(epsilon_at: Callable[[Fraction], float], *, delta: Fraction) -> float:
    """Epsilon, at `delta`, under replacement, from the epsilon of adding or removing one unit.

    Statement   2 x, where x is at least the epsilon at delta / (1 + e^x).
    Bound       upper, rounded up: an x is kept only where that holds.
    Source      approx_dp_of_group of two.
    """
    guess = epsilon_at(delta / 2)
    for _ in range(8):
        if guess > 600:
            return math.inf
        share = float_down(ball(delta) / (1 + ball(guess).exp()))
        found = epsilon_at(Fraction(share)) if share else math.inf
        if found <= guess:
            return 2 * guess
        guess = found * 1.002
    return math.inf


# An event with a delta of its own is a pair of which a mass is unknown and the rest is an event
# without a delta. Sampling at rate q leaves q times the mass: with P = (1-m) P' + m T and Q =
# (1-m) Q' + m B, T and B apart, the mixture q P + (1-q) Q is (1 - q m) A + q m T and Q is (1 - q
# m) C + q m B, where (A, C) is the sampled pair (q P' + (1-q) Q', Q') or, independently of the
# data, (B, B): joint quasi-convexity bounds its divergence by that of the sampled pair.

_COARSE_ORDERS = [2.0**k for k in range(-5, 15)]
_FINE_ORDERS = 14


def epsilon_from_renyi(event: Event, *, delta: Fraction, neighbors: Neighbors) -> float:
    r"""Epsilon, at `delta`, of an event by way of its Renyi divergences.

    Statement   min over some orders a of approx_dp_from_renyi(D_a), at the delta that is left
                next to the event's own mass; inf where none is left.
    Bound       upper, rounded up: every order gives a valid bound, the best is searched.
    Source      Asoodeh et al. 2020, Theorem 3; the module's text for masses.
    """
    mass, rest = base.without_mass(event, neighbors)
    left = conversions.delta_of_part(delta, part=min(mass, Fraction(1)))
    if not left:
        return math.inf
    return _least_by_orders(
        partial(renyi, rest, neighbors=neighbors),
        closed=partial(conversions.approx_dp_from_renyi_closed, delta=left),
        optimal=partial(conversions.approx_dp_from_renyi, delta=left),
    )


def delta_from_renyi(event: Event, *, epsilon: Fraction, neighbors: Neighbors) -> float:
    r"""Delta, at `epsilon`, of an event by way of its Renyi divergences.

    Statement   min over some orders a of approx_dp_delta_from_renyi(D_a), and the event's own mass.
    Bound       upper, rounded up.
    Source      as epsilon_from_renyi.
    """
    mass, rest = base.without_mass(event, neighbors)
    least = _least_by_orders(
        partial(renyi, rest, neighbors=neighbors),
        closed=partial(conversions.approx_dp_delta_from_renyi_closed, epsilon=epsilon),
        optimal=partial(conversions.approx_dp_delta_from_renyi, epsilon=epsilon),
    )
    total = conversions.delta_of_mixture(min(least, 1.0), part=min(mass, Fraction(1)))
    return float_above(total)


def _least_by_orders(
    spent: Callable[..., float], *, closed: Callable[..., float], optimal: Callable[..., float]
) -> float:
    """The least that divergences allow: by the optimal form, about the closed form's best order.

    spent: the divergence of an order alpha; closed, optimal: what one allows at its order. Orders
    that are best in the optimal form lie lower.
    """
    found = _best(lambda alpha: closed(spent(alpha=alpha), alpha=alpha))
    best = min(found, key=lambda b: found[b])
    shares = (0.5, 0.7, 0.85, 1.0, 1.1)
    near = [1 + Fraction(_order(math.log(best * share))) for share in shares]
    return min(optimal(spent(alpha=alpha), alpha=alpha) for alpha in near)


def _best(value: Callable[[Fraction], float]) -> dict[float, float]:
    """Values at orders 1 + b, by a coarse grid of b and a golden section around its best."""
    found: dict[float, float] = {}

    def at(b: float) -> float:
        if b not in found:
            found[b] = value(1 + Fraction(b))
        return found[b]

    best = 0
    for place, b in enumerate(_COARSE_ORDERS):
        if at(b) < at(_COARSE_ORDERS[best]):
            best = place
        elif place > best + 3 and math.isfinite(at(_COARSE_ORDERS[best])):
            break
    low = math.log(_COARSE_ORDERS[max(best - 1, 0)])
    high = math.log(_COARSE_ORDERS[min(best + 1, len(_COARSE_ORDERS) - 1)])
    golden_section(lambda place: at(_order(place)), low, high, rounds=_FINE_ORDERS - 1)
    return found


def _order(logarithm: float) -> float:
    """A float with few digits: exact arithmetic on orders stays short."""
    b = math.exp(logarithm)
    digits = 2.0 ** (math.frexp(b)[1] - 20)
    return round(b / digits) * digits


_DIRECTIONS: tuple[base.Direction, ...] = ("remove", "add")
_GRID, _LEAST_GRID = 1 << 16, 1 << 12
_FEW_HITS, _COARSER = 4, 3
"""Where one unit may be drawn oftener than so, grids are coarser, by so many halvings at most."""
_KINDS = 128
"""Of more kinds of events grids are coarser, too: by a quarter for four times as many."""
_ACCURACY = 1e-5
_MOST = 10**12
"""Copies of one event above which grids take minutes and tell nothing."""

Engine: TypeAlias = Callable[[Measure, Fraction], Interval]
"""(what is asked, at what delta or epsilon) -> an interval that holds it."""


def engines_of(
    event: Event, neighbors: Neighbors, *, only_upper: bool = False, quick: bool = False
) -> Iterator[tuple[str, Engine, str]]:
    """Name, engine and source of the engines that may price the event, which has no shuffled part.

    only_upper: slow lower ends are left out; quick: lattices are coarser.

    Bound       both, of each: an engine that does not know the event raises UnsupportedEvent.
    Source      given with each.
    """
    flat = flatten([(event, 1)], neighbors=neighbors)

    def closed(measure: Measure, at: Fraction) -> Interval:
        ends = float_below(at), float_above(at)
        alike = same_in_both_directions(event, neighbors)
        known = [
            base.curve_of(event, direction=direction, neighbors=neighbors, quick=quick)
            for direction in (_DIRECTIONS[:1] if alike else _DIRECTIONS)
        ]

        def profile(epsilons: Array) -> tuple[Array, Array]:
            found = [curve(epsilons) for curve in known]
            return (
                np.maximum.reduce([one.lower for one in found]),
                np.maximum.reduce([one.upper for one in found]),
            )

        if measure == "epsilon" and all(curve.sides for curve in known):
            return _by_sides(known, ends, only_upper=only_upper)
        if measure == "epsilon":
            low, high = falling_below(profile, ends)
            if low == 0.0 < high:  # no lower side that is worth following: the upper one alone
                high = falling_below(lambda at: (profile(at)[1],) * 2, ends)[1]
            return Interval(low, high)
        lower, upper = profile(np.asarray(ends))
        return Interval(float(lower[1]), float(upper[0]))

    def quadrature(measure: Measure, at: Fraction) -> Interval:
        ask = contour.epsilon_of if measure == "epsilon" else contour.delta_of
        return ask(flat, at, neighbors=neighbors)

    if not isinstance(event, Composed) or base.only_gaussian(event):
        yield "closed form", closed, "the profile of the event: Zhu, Dong, Wang 2022"
    yield "contour quadrature", quadrature, "docs/proofs/contour.md"


def _by_sides(
    known: Sequence[PrivacyProfile], level: tuple[float, float], *, only_upper: bool
) -> Interval:
    """The epsilon of the worst of curves whose sides take long: each alone, the lower one last."""

    def upper(epsilons: Array) -> tuple[Array, Array]:
        return (np.maximum.reduce([curve.upper(epsilons, level[0]) for curve in known]),) * 2

    def lower(epsilons: Array) -> tuple[Array, Array]:
        return (np.maximum.reduce([curve.lower(epsilons) for curve in known]),) * 2

    _, high = falling_below(upper, level)
    if only_upper or not 0 < high < math.inf:
        return Interval(0.0, high)
    start = np.append(0.0, high * (1 - np.geomspace(1.0, 1e-5, 12)[1:]))
    return Interval(falling_below(lower, level, start=np.append(start, high))[0], high)


def by_loss_grids(
    event: Event, neighbors: Neighbors, *, tolerance: float, quick: bool = False
) -> tuple[str, Engine, str]:
    """The engine of privacy loss distributions, slower but for all events with a profile.

    tolerance: of the answer, as the accountant's; grids reach 1e-5 at best. quick: only the upper
    end of an epsilon, from coarser lattices.

    Bound       both; below, of pairs that the event allows.
    Source      docs/proofs/pld.md.
    """
    alike = same_in_both_directions(event, neighbors)

    def answer(measure: Measure, at: Fraction) -> Interval:
        if any(count > _MOST for _, count in flatten([(event, 1)])):
            raise UnsupportedEvent(
                event, kind="loss grids", try_instead="Their work is capped; ask of fewer copies."
            )
        flat = flatten([(event, 1)])
        hits = max((_hits(one) for one, _ in flat), default=1)
        kinds = len({one for one, _ in flat})
        coarser = min((hits // _FEW_HITS).bit_length(), _COARSER)
        coarser = max(coarser, 2 * math.ceil(math.log(max(kinds, _KINDS) / _KINDS, 4)))
        losses = [
            PrivacyLossDistribution(
                parts=parts_of(event, direction=direction, neighbors=neighbors, quick=quick),
                grid=max(_GRID >> coarser, _LEAST_GRID),
                accuracy=max(tolerance, _ACCURACY),
            )
            for direction in (_DIRECTIONS[:1] if alike else _DIRECTIONS)
        ]
        if measure == "epsilon":
            return worst_epsilon(losses, delta=at, only_upper=quick)
        return worst_delta(losses, epsilon=at)

    return "privacy loss distribution (FFT)", answer, "docs/proofs/pld.md"


def _hits(event: Event) -> int:
    """How often a sample with replacement may hold one unit: each number has a profile."""
    if isinstance(event, ReplacementSampled):
        return len(draws(event.size, event.population)[0])
    return 1
