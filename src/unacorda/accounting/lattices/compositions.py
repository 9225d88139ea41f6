"""Optimal composition: delta and epsilon of laws of few losses, as narrow as floats allow."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from fractions import Fraction

import numpy as np

from unacorda import checks
from unacorda.accounting.contour.infinite import with_infinite, without_infinite
from unacorda.accounting.contour.plan import (
    chernoff_epsilon,
    log_kappa,
    saddle_for_delta,
    saddle_for_epsilon,
)
from unacorda.accounting.contour.quadrature import Sides, chernoff_delta, chernoff_upper
from unacorda.accounting.inversion import crossing
from unacorda.accounting.lattices.enumeration import Halves
from unacorda.accounting.lattices.laws import Composition, composition_of
from unacorda.accounting.lattices.quadrature import Circle, CircleSum
from unacorda.checks import Number
from unacorda.errors import InvalidParameter
from unacorda.privacy.enclosure import context, float_down
from unacorda.privacy.estimates import Interval
from unacorda.privacy.events import Event

__all__ = ["delta_interval", "delta_of", "epsilon_interval", "epsilon_of"]

_SMALLEST = 1e-304
_PASSES = 4
_NARROW = 1e-11
_CLOSE = 1e-9  # beyond this width all sums are looked at


def epsilon_interval(composition: Iterable[tuple[Event, int]], *, delta: Number) -> Interval:
    r"""The least epsilon of (epsilon, delta)-DP of pure, approximate and randomised responses.

    composition: events with their numbers of copies; delta: from 0, below 1. Wide where the losses
    neither lie on a lattice that is coarse enough nor have at most 2^40 different sums.
    Raises UnsupportedEvent for other events.

    Bound       both sides, rounded outward; tight, as the dominating laws compose.
    Source      Kairouz, Oh, Viswanath 2015, Theorem 3.3; Murtagh, Vadhan 2016, Theorem 1.5;
                docs/proofs/lattices.md.

    >>> from unacorda.privacy.events import Pure
    >>> found = epsilon_interval([(Pure(epsilon=0.1), 1000)], delta=1e-6)
    >>> round(found.lower, 9), round(found.upper, 9)
    (19.344671448, 19.344671448)
    """
    target = checks.exact("delta", delta)
    if not 0 <= target < 1:
        raise InvalidParameter("delta", delta, expected="a number from 0, below 1")
    return epsilon_of(composition_of(composition), target)


def delta_interval(composition: Iterable[tuple[Event, int]], *, epsilon: Number) -> Interval:
    """The least delta of (epsilon, delta)-DP; otherwise as `epsilon_interval`.

    Bound       both sides, rounded outward.
    Source      as epsilon_interval.

    >>> from unacorda.privacy.events import Pure
    >>> delta_interval([(Pure(epsilon=1), 2)], epsilon=2)
    Interval(lower=0.0, upper=0.0)
    """
    at = checks.exact("epsilon", epsilon)
    if at < 0:
        raise InvalidParameter("epsilon", epsilon, expected="a number, 0 or above")
    return delta_of(composition_of(composition), at)


def epsilon_of(composition: Composition, target: Fraction) -> Interval:
    """The least epsilon at a delta from 0, below 1.

    Bound       both sides.
    Source      docs/proofs/lattices.md.
    """
    infinite = composition.infinite
    largest = Interval(_below(composition.largest), -_below(-composition.largest))
    if infinite == 0 and target == 0:
        return largest
    left = without_infinite(infinite, target)
    if left <= 0:
        return Interval(0.0, math.inf)
    if not composition.laws:
        return Interval(0.0, 0.0)
    goal = float_down(left)
    best = Interval(0.0, largest.upper)
    if goal < _SMALLEST:
        return best
    log_delta = math.log(goal)
    circle = Circle.of(composition)
    c, near = saddle_for_delta(circle.whole, log_delta)
    for _ in range(_PASSES):
        near = min(max(near, 0.0), best.upper)
        made = circle.sum_at(c=c, epsilon=near, log_unit=log_delta)
        if made is None:
            break
        best = _both(best, crossing(_at(made), near, slope=made.c))
        near = 0.5 * (best.lower + best.upper)
        if best.width <= _NARROW * best.upper:
            return best
        c, _ = saddle_for_epsilon(circle.whole, near)
    if best.width > _CLOSE * best.upper and (halves := Halves.of(composition)):
        low, high = crossing(_at(replace(halves, log_unit=log_delta)), near, slope=c)
        best = _both(best, (low - halves.blur * 1.01, high + halves.blur * 1.01))
    if best.lower == 0 and best.upper > 0:
        at_zero = delta_of(replace(composition, infinite=context().mpf(0)), Fraction(0))
        if at_zero.upper <= goal:
            return Interval(0.0, 0.0)
        other, _ = chernoff_epsilon(circle.whole, log_delta)
        above = chernoff_upper([circle.law], other, log_delta=log_delta - 1e-13)
        best = _both(best, (0.0, above))
    return best


def delta_of(composition: Composition, epsilon: Fraction) -> Interval:
    """The least delta at an epsilon from 0.

    Bound       both sides.
    Source      docs/proofs/lattices.md.
    """
    if not composition.laws or epsilon >= composition.largest:
        return with_infinite(composition.infinite, Interval(0.0, 0.0))
    circle = Circle.of(composition)
    whole, at = circle.whole, float(epsilon)
    c, guess = saddle_for_epsilon(whole, at)
    best = Interval(0.0, 1.0)
    for _ in range(_PASSES):
        log_unit = min(max(guess, math.log(_SMALLEST)), 0.0)
        made = circle.sum_at(c=c, epsilon=at, log_unit=log_unit)
        if made is None:
            break
        near, found = _told(made, epsilon)
        best = _both(best, found)
        if best.width <= 10 * _NARROW * best.upper or near <= 0:
            break
        guess = math.log(near)
    if best.width > _CLOSE * best.upper and (halves := Halves.of(composition)):
        blur = Fraction(halves.blur)
        found = halves.at(epsilon + blur).lower, halves.at(epsilon - blur).upper
        best = _both(best, found)
    if best.width > best.upper / 2:
        other = float(whole.c[int(np.argmin(whole.k + log_kappa(whole.c) - whole.c * at))])
        above = chernoff_delta([circle.law], other, epsilon=_below(epsilon))
        best = _both(best, (0.0, above))
    return with_infinite(composition.infinite, best)


def _at(made: CircleSum | Halves) -> Callable[[float], Sides]:
    return lambda x: made.at(Fraction(x))


def _both(first: Interval, second: tuple[float, float]) -> Interval:
    """The numbers in both intervals, of which each holds the truth."""
    low, high = max(first.lower, second[0]), min(first.upper, second[1])
    return Interval(min(low, high), high)


def _below(value: Fraction) -> float:
    near = float(value)
    return near if Fraction(near) <= value else math.nextafter(near, -math.inf)


def _told(made: CircleSum, epsilon: Fraction) -> tuple[float, tuple[float, float]]:
    """The value near delta, and both sides, in the unit 1."""
    sides, unit = made.at(epsilon), math.exp(made.log_unit)
    pad = 1e-15 * (1 + abs(made.log_unit))
    upper = sides.upper * unit * (1 + pad) + 5e-324
    return sides.near * unit, (sides.lower * unit * (1 - pad), upper)
