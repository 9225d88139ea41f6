"""Rules of random allocation: a unit takes part in steps drawn at random; balls and bins.

With X the likelihood ratio P/Q of a step under Q, the ratio of all t steps is
R = (X_1 + ... + X_t)/t of independent copies. For the Renyi divergences: upward, E R^a is a sum of
moments of X with positive coefficients. Downward, E R^{-b} = E G(Y/t) with Y of the gamma law of
shape b and G(u) = (e^u E e^{-uX})^t, which is convex and has G(0) = 1: docs/proofs/allocation.md.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np

from unacorda.accounting.divergences import LARGEST_ORDER, between_orders
from unacorda.accounting.laws import FiniteLoss, by_squaring, composed_loss
from unacorda.accounting.profiles import curves
from unacorda.accounting.profiles.allocated import (
    AllocationPair,
    Tails,
    allocated,
    falling_law,
    rising_law,
)
from unacorda.accounting.profiles.amplified import two_steps
from unacorda.accounting.profiles.boxes import Array, box
from unacorda.accounting.profiles.curves import PrivacyProfile
from unacorda.accounting.profiles.draws import location_family
from unacorda.accounting.rules import base
from unacorda.accounting.rules.composition import squared_mu
from unacorda.accounting.rules.sampling import renyi_of_replaced
from unacorda.balls import Ball, ball, float_up
from unacorda.errors import UnsupportedEvent
from unacorda.extras import later
from unacorda.numerics import bisect
from unacorda.privacy.conversions.arguments import Real
from unacorda.privacy.events import Event, Gaussian, RandomAllocation, compose
from unacorda.privacy.neighbors import AddRemove, Neighbors, ReplaceOne
from unacorda.privacy.rounding import float_above, root_down


@base.rules_for(RandomAllocation)
class AllocationRules(base.Rules[RandomAllocation]):
    """One use exactly, by the average of the steps' ratios; several as one allocation for each."""

    symmetric_if_replaced = sampled = one_unit = slow_moments = True
    theorem = "a unit in steps drawn at random: the average of the steps' ratios"
    source = "Feldman and Shenfeld 2025; docs/proofs/allocation.md"

    def inside(self, event: RandomAllocation) -> tuple[Event, ...]:
        return (event.event,)

    def plain(self, event: RandomAllocation) -> Event:
        one = base.plain(event.event)
        if event.uses == event.steps:
            return _in_every_step(one, event.uses)
        return event if one is event.event else replace(event, event=one)

    def below(self, event: RandomAllocation, neighbors: Neighbors) -> Event | None:
        return (
            super().below(event, neighbors)
            if base.dominated(event.event, AddRemove) == event.event
            else None
        )

    def split(self, event: RandomAllocation) -> Event:
        """One allocation for each use, to a share of the steps of its own."""
        short, longer = divmod(event.steps, event.uses)
        if event.uses in (1, event.steps):
            return base.plain(event)
        one = base.plain(event.event)
        parts: list[Event] = []
        for share, count in ((short, event.uses - longer), (short + 1, longer)):
            if count and share == 1:
                parts.append(_in_every_step(one, count))
            elif count:
                parts.append(compose([one.randomly_allocated(steps=share)], count=count))
        return compose(parts)

    def apart(
        self, event: RandomAllocation, asked: base.Profile
    ) -> tuple[Event, PrivacyProfile] | None:
        if event.uses in (1, event.steps):
            return None
        return self.split(event), _attained(event, asked)

    def without_mass(self, event: RandomAllocation, neighbors: Neighbors) -> tuple[Fraction, Event]:
        # steps that fail beside the unit's own leave fewer to hide among: no amplification
        used = compose([event.event], count=event.uses)
        mass, rest = base.without_mass(used, neighbors)
        return (mass, rest) if mass else (Fraction(0), event)

    def renyi(self, event: RandomAllocation, alpha: Fraction, neighbors: Neighbors) -> Fraction:
        if event.uses > 1 or event.steps == event.uses:
            return base.renyi_of_event(self.split(event), alpha, neighbors)
        if neighbors is ReplaceOne:
            one_step = functools.partial(_divergence, event.event, event.steps)
            return renyi_of_replaced(event.event, alpha, one_step)
        return _divergence(event.event, event.steps, alpha)

    def rho(self, event: RandomAllocation, neighbors: Neighbors) -> Fraction:
        one = base.under_replacement(event.event) if neighbors is ReplaceOne else event.event
        return base.rules_of(one).rho(one, neighbors) * event.uses

    def finite_loss(self, event: RandomAllocation, neighbors: Neighbors) -> FiniteLoss | None:
        alone = base.finite_loss(event.event, AddRemove)
        if alone is None or (alone.mass and neighbors is ReplaceOne):
            return None
        times = 2 * event.uses if neighbors is ReplaceOne else event.uses
        return composed_loss([(alone, times)])._replace(attained=False)

    def curve(self, event: RandomAllocation, asked: base.Profile) -> PrivacyProfile:
        if event.uses == event.steps:
            return asked.of(base.plain(event))
        if event.uses == 1 and asked.neighbors is not ReplaceOne:
            pair = _pair(event, opposite=False)
            tails = _tails(event.event, event.steps, asked.neighbors, asked.inside)
            return allocated(tails, remove=asked.remove, pair=pair)
        if event.uses > 1:
            whole = asked.of(self.split(event))
        else:
            forward, backward = asked.both(event, neighbors=AddRemove)
            whole = two_steps(forward, backward, Fraction(1), attained=curves.nothing())
        return curves.between(
            _attained(event, asked), whole.evaluate, infinity_above=whole.most_infinity
        )


def _attained(event: RandomAllocation, asked: base.Profile) -> PrivacyProfile:
    """The profile of one pair, by sums of one statistic; of no loss where none is known."""
    pair = _pair(event, opposite=asked.neighbors is ReplaceOne)
    return curves.nothing() if pair is None else pair.profile(remove=asked.remove)


@functools.lru_cache(maxsize=8)
def _pair(event: RandomAllocation, *, opposite: bool) -> AllocationPair | None:
    """The pair that noise on a number attains; None for other events. It is remembered."""
    one = event.event
    square = squared_mu(one)
    if square:
        one = Gaussian(noise_multiplier=1 / Fraction(root_down(square)))
    noise = location_family(one)
    if noise is None:
        return None
    return AllocationPair(noise=noise, steps=event.steps, uses=event.uses, opposite=opposite)


def _in_every_step(event: Event, count: int) -> Event:
    """A unit is in these steps always, but the numbers still compare it with none."""
    return compose([event.poisson_sampled(rate=1)], count=count)


@functools.lru_cache(maxsize=8)
def _tails(event: Event, steps: int, neighbors: Neighbors, inside: base.CurveOf | None) -> Tails:
    """Remembered: they hold large tables."""
    return Tails(*base.Profile(neighbors=neighbors, inside=inside).both(event), steps)


@functools.lru_cache(maxsize=8192)
def _divergence(event: Event, steps: int, alpha: Fraction) -> Fraction:
    """Under add/remove: one of `steps` steps, the larger of both directions."""
    whole = base.renyi_of_event(event, alpha, AddRemove)
    if alpha > LARGEST_ORDER:
        return whole
    removed = renyi_removed(lambda a: _moments(event, steps, a)[a], alpha=alpha)
    transform = _transform(event, steps)
    if transform is None:
        added = base.renyi_of_event(event, 1 + (alpha - 1) / steps, AddRemove)
    else:
        added = Fraction(
            renyi_added(transform, lambda a: base.renyi_of_event(event, a, AddRemove), alpha=alpha)
        )
    return min(whole, max(Fraction(removed), added))


def _moments(event: Event, steps: int, order: int) -> list[Ball]:
    largest = next(size for size in (8, 32, 128, LARGEST_ORDER) if size >= order)
    return _moments_up_to(event, steps, largest)


@functools.lru_cache(maxsize=64)
def _moments_up_to(event: Event, steps: int, largest: int) -> list[Ball]:
    return whole_moments(
        lambda n: float_above(base.renyi_of_event(event, Fraction(n), AddRemove)),
        steps=steps,
        largest=largest,
    )


@functools.lru_cache(maxsize=16)
def _transform(event: Event, steps: int) -> LaplaceTransform | None:
    try:
        forward, backward = base.Profile().both(event)
    except UnsupportedEvent:
        return None
    return LaplaceTransform(forward, backward, steps)


scipy = later("scipy")

_PLACES = 3000
_RATIO = 0.02
_LAST = math.log(1e8)
_ROUGH = 1e-13
"""Relative errors of sums of positive floats here are below this."""


def whole_moments(divergence: Callable[[int], float], *, steps: int, largest: int) -> list[Ball]:
    r"""E R^a - 1 for a = 0, 1, ..., largest, from bounds of D_n(P || Q) at whole orders.

    Statement   a! [x^a] (sum over n of E X^n x^n / n!)^t / t^a, E X^n = e^{(n-1) D_n}.
    Bound       upper: every term is positive.
    Source      docs/proofs/allocation.md, Section 2 (Feldman and Shenfeld 2025, Gaussian noise).
    """
    first = [ball(1.0), ball(1.0)]
    factorial = ball(1.0)
    for n in range(2, largest + 1):
        factorial *= n
        first.append(((n - 1) * ball(divergence(n))).exp() / factorial)
    first = first[: largest + 1]
    grown = _power_at_once(first, steps) if steps >= largest else by_squaring(first, steps, _times)
    found, scale = [], ball(1.0)
    for a, value in enumerate(grown):
        scale = scale * a / steps if a else scale
        found.append((value * scale - 1).max(0))
    return found


def renyi_removed(moments: Callable[[int], Ball], *, alpha: Real) -> float:
    r"""Renyi divergence of the allocated outputs over those without the unit.

    moments: E R^a - 1 from above, at whole orders a.

    Statement   log(E R^a)/(a - 1); between whole orders (a - 1) D_a is interpolated, from 0 at 1.
    Bound       upper, rounded up.
    Edges       alpha above 256 -> inf.
    Source      whole_moments; van Erven and Harremoes 2014, Thm. 11 (convexity).
    """
    return between_orders(lambda k: moments(k).log1p(), alpha)


class LaplaceTransform:
    """log E e^{-uX} of the ratio X of one step, from above, at u that grow by one factor.

    grown: t (u + log E e^{-uX}); fallen: t log E e^{-uX}; largest: what x is cut to; the
    remainder is counted.

    Bound       upper: e^{-ux} is convex, and `rising_law` and `falling_law` spread X.
    Source      docs/proofs/allocation.md, Section 3.
    """

    def __init__(self, forward: PrivacyProfile, backward: PrivacyProfile, steps: int) -> None:
        """Lay it out from the curves of (P, Q) and (Q, P) of one step."""
        places = _places(forward)
        weights, beyond = rising_law(forward, places)
        fallen = falling_law(backward, places)
        u = np.exp(np.arange(math.log(1e-6 / steps), _LAST, _RATIO))
        lifted, plain = np.empty_like(u), np.empty_like(u)
        for start in range(0, len(u), 256):
            part = u[start : start + 256]
            powers = part[:, None] * places
            near = np.minimum(powers, 1e-2)
            series = near**2 * (
                0.5 - near * (1 / 6 - near * (1 / 24 - near / 120 * (1 - near / 6)))
            )
            with np.errstate(under="ignore"):
                decayed = np.exp(-powers)
            # beyond 1e-2 the kernel e^{-y} - 1 + y is off by 1e-16 (2 + y) at most
            kernel = np.where(
                powers < 1e-2, series * (1 + 1e-12), decayed - 1 + powers + 4e-16 * (2 + powers)
            )
            rise = (kernel @ weights) * (1 + _ROUGH) + part * beyond
            direct = (decayed @ fallen) * (1 + _ROUGH) + 1e-300
            inner = np.minimum(part, 0.5)
            low = _log_gap(inner) + np.log1p(rise / (1 - inner)) * (1 + 4e-16)
            mass = np.maximum(1 - part + rise, 0.0) + 1e-15 * (1 + part + rise)
            logs = np.log(np.minimum(np.minimum(mass, direct), 1.0)) * (1 - 4e-16)
            plain[start : start + 256] = logs
            high = logs + part * (1 + 4e-16) + 1e-15
            lifted[start : start + 256] = np.where(part < 0.5, low, high)
        self.steps, self.u = steps, u
        self.grown = np.maximum.accumulate(np.maximum(lifted, 0.0)) * steps * (1 + 4e-16)
        self.fallen = np.minimum(plain, 0.0) * steps


def _places(curve: PrivacyProfile) -> Array:
    """Places of X from 0 on, closer together where it is near 1 for mild noise."""
    limit = 1e-13 + 1.01 * float(curve.infinity)
    _, end = bisect(
        lambda at: float(curve(box(np.asarray(at))).upper) <= limit, 0.0, 300.0, rounds=40
    )
    reach = max(end, 1e-6)
    places: Array = np.concatenate(([0.0], np.exp(np.linspace(-2 * reach, reach, _PLACES))))
    return places


def renyi_added(
    transform: LaplaceTransform, divergence: Callable[[Fraction], Real], *, alpha: Real
) -> float:
    r"""Renyi divergence of the outputs without the unit over the allocated ones.

    divergence: a bound of D_a(Q || P) of one step, at any order.

    Statement   log(E R^{-b})/b, b = a - 1: the gamma law's masses on cells times chords of G, up to
                where that law ends; beyond, t^b/Gamma(b) times the integral of
                u^{b-1} (E e^{-uX})^t by chords, and at last by e^{-z} <= (r/(e z))^r. Never above
                D_{1 + b/t}(Q || P).
    Bound       upper, rounded up.
    Source      docs/proofs/allocation.md, Section 3; Feldman and Shenfeld 2025 (the last bound).
    """
    steps, b = transform.steps, Fraction(alpha) - 1
    loose = float_up(ball(divergence(1 + b / steps)))
    shape = float(b)
    if shape < 1e-6 or shape > 1e5 or math.isinf(loose):
        return loose
    y = np.concatenate(([0.0], transform.u * steps))
    count = int(np.searchsorted(y, shape + 15 * math.sqrt(shape) + 40)) + 1
    near = min(count, len(y))
    if transform.grown[near - 2] > 700:
        return loose
    y, above = y[:near], np.concatenate(([0.0], np.expm1(transform.grown[: near - 1])))
    zeroth, first = _gamma_masses(shape, y), shape * _gamma_masses(shape + 1, y)
    share = np.clip((first - y[:-1] * zeroth) / np.diff(y), 0.0, zeroth)
    # masses are differences of functions believed to 1e-12, and cells a fiftieth of y wide
    total = math.fsum(above[:-1] * zeroth + np.diff(above) * share)
    total += 1e-8 * math.fsum(above[1:] * zeroth)
    beyond = _beyond(transform, divergence, b=b, start=near - 2)
    return min(loose, float_up((ball(total) + ball(beyond)).log1p() / ball(b)))


def _beyond(
    transform: LaplaceTransform, divergence: Callable[[Fraction], Real], *, b: Fraction, start: int
) -> float:
    """t^b / Gamma(b) times the integral of u^{b-1} (E e^{-uX})^t from u[start] on."""
    steps, shape = transform.steps, float(b)
    logs, fallen = np.log(transform.u[start:]), transform.fallen[start:]
    front = shape * math.log(steps) - float(scipy.special.gammaln(shape))
    # over a cell from u to c u, of u^{b-1} and of u^{b-1} (v - u)/((c - 1) u), over u^b
    whole = math.expm1(shape * _RATIO) / shape
    later = math.expm1((shape + 1) * _RATIO) / (shape + 1) - whole
    later = min(max(later / math.expm1(_RATIO) * (1 + 1e-9), 0.0), whole)
    heights = front + shape * logs[:-1]
    terms = np.logaddexp(
        heights + fallen[:-1] + math.log(max(whole - later, 1e-300)),
        heights + fallen[1:] + math.log(max(later, 1e-300)),
    )
    r = Fraction(2 * b + 4) / steps
    power = float(r * steps)  # twice b and 4
    bound = power * (math.log(float(r)) - 1 + float(divergence(1 + r)))
    final = front + bound - (power - shape) * float(logs[-1]) - math.log(power - shape)
    size = 1e-12 * (1 + abs(front) + abs(bound) + power * (40 + math.log(steps)))
    if max(float(np.max(terms)), final) > 600:
        return math.inf
    return (math.fsum(np.exp(terms)) + math.exp(final)) * math.exp(size) * (1 + 1e-9)


def _gamma_masses(shape: float, y: Array) -> Array:
    """Of the gamma law, between neighbors of y, from the tail that is smaller."""
    below, above = scipy.special.gammainc(shape, y), scipy.special.gammaincc(shape, y)
    masses: Array = np.maximum(np.where(y[1:] < shape, np.diff(below), -np.diff(above)), 0.0)
    return masses


def _log_gap(u: Array) -> Array:
    """U + log(1 - u) from above, for 0 <= u < 1/2; it is negative."""
    small = u < 0.02
    near = np.where(small, u, 0.0)
    series = near**2 * (-0.5 - near * (1 / 3 + near * (1 / 4 + near / 5)))  # the rest is below 0
    return np.where(small, series * (1 - 1e-14), u + np.log1p(-u) + 4e-16)


def _power_at_once(series: list[Ball], steps: int) -> list[Ball]:
    """The power of a truncated series, not below its degree: all terms are positive then."""
    grown = [ball(1.0)]
    for n in range(1, len(series)):
        terms = [(k * (steps + 1) - n) * series[k] for k in range(1, n + 1)]
        grown.append(_dot(terms, grown[::-1]) / n)
    return grown


def _times(one: list[Ball], two: list[Ball]) -> list[Ball]:
    return [_dot(one[: n + 1], two[n::-1]) for n in range(len(one))]


def _dot(one: list[Ball], two: list[Ball]) -> Ball:
    return sum((x * y for x, y in zip(one, two, strict=True)), ball(0))
