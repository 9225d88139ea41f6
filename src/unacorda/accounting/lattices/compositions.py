"""Optimal composition: delta and epsilon of laws of few losses, as narrow as floats allow."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from unacorda import checks
from unacorda.accounting.contour.invert import with_infinite, without_infinite
from unacorda.accounting.contour.plan import (
    chernoff_epsilon,
    log_kappa,
    saddle_for_delta,
    saddle_for_epsilon,
)
from unacorda.accounting.contour.quadrature import Sides, chernoff_delta, chernoff_upper
from unacorda.accounting.contour.series import UNIT, Floats
from unacorda.accounting.inversion import crossing
from unacorda.accounting.lattices.laws import Composition, Law, composition_of
from unacorda.accounting.lattices.quadrature import Circle, CircleSum
from unacorda.accounting.profiles.boxes import running_sum
from unacorda.checks import Number
from unacorda.errors import InvalidParameter
from unacorda.privacy.enclosure import context, float_down
from unacorda.privacy.estimates import Interval
from unacorda.privacy.events import Event

__all__ = ["Halves", "delta_interval", "delta_of", "epsilon_interval", "epsilon_of"]


# Losses on no common lattice: every sum of one half against the sorted sums of the other.

_MOST_SUMS = 1 << 20
_MOST_COPIES = 4_000  # their law is formed by convolution
_LARGEST = 600.0
_LOST = 1e-290  # what underflow may hide, all atoms together


@dataclass(frozen=True, slots=True)
class _Sums:
    """_Sums of losses, their probabilities, and the relative error of those."""

    loss: Floats
    mass: Floats
    error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Halves:
    """The sums of two halves of a composition, those of the second sorted, with sums of the tail.

    first, weight: losses of the first half and their probabilities; second: losses of the second
    half, ascending; plain, tilted: sums over the losses from each on of p and of p e^-loss;
    error: relative, of the products of both halves' numbers; blur: how far a loss may be off.
    """

    first: Floats
    weight: Floats
    second: Floats
    plain: Floats
    tilted: Floats
    error: float
    blur: float
    log_unit: float = 0.0

    @classmethod
    def of(cls, composition: Composition) -> Halves | None:
        """Both halves; None where one has above 2^20 sums, or losses are too large for floats."""
        largest = float(composition.largest)
        if largest > _LARGEST or any(count > _MOST_COPIES for _, count in composition.laws):
            return None
        sizes = [
            (count * (1 if law.categories == 2 else 2) + 1, law, count)
            for law, count in composition.laws
        ]
        halves: list[list[tuple[Law, int]]] = [[], []]
        atoms = [1, 1]
        for size, law, count in sorted(sizes, key=lambda one: -one[0]):
            side = 0 if atoms[0] < atoms[1] else 1
            halves[side].append((law, count))
            atoms[side] *= size
        if max(atoms) > _MOST_SUMS:
            return None
        first, second = (_sums(half) for half in halves)
        order = np.argsort(second.loss)
        loss, mass = second.loss[order], second.mass[order]
        plain, wrong = running_sum(mass[::-1])
        tilted, _ = running_sum((mass * np.exp(-loss))[::-1])
        return cls(
            first=first.loss,
            weight=first.mass,
            second=loss,
            plain=np.append(plain[::-1], 0.0),
            tilted=np.append(tilted[::-1], 0.0),
            error=1.1 * (first.error + second.error + wrong + 80 * UNIT),
            blur=16 * UNIT * (largest + 1) * (len(sizes) + 2),
        )

    @property
    def c(self) -> float:
        """About the slope of the logarithm; any number serves."""
        return 1.0

    def at(self, epsilon: Fraction) -> Sides:
        """Both sides of delta of the losses as floats: the true losses lie within `blur`."""
        rest = float(epsilon) - self.first
        place = np.searchsorted(self.second, rest, side="right")
        plain = self.plain[place]
        tilted = np.where(plain > 0, np.exp(np.minimum(rest, 700.0)), 0.0) * self.tilted[place]
        total, wrong = _sum(self.weight * np.maximum(plain - tilted, 0.0))
        size, _ = _sum(self.weight * plain)
        slip = (2 * self.error + wrong + 8 * UNIT) * (1 + wrong) * size + _LOST
        unit = math.exp(-self.log_unit)
        return Sides(
            near=total * unit,
            lower=max(total - slip, 0.0) * unit * (1 - 1e-13),
            upper=(total + slip) * unit * (1 + 1e-13),
        )


def _sum(terms: Floats) -> tuple[float, float]:
    """The sum of non-negative terms, and its relative error."""
    sums, error = running_sum(terms)
    return float(sums[-1]), error


def _sums(half: list[tuple[Law, int]]) -> _Sums:
    """All sums of one half."""
    loss, mass, error = np.zeros(1), np.ones(1), 0.0
    for law, count in half:
        one = _copies(law, count)
        loss = np.add.outer(loss, one.loss).ravel()
        mass = np.multiply.outer(mass, one.mass).ravel()
        error += one.error + UNIT
    return _Sums(loss, mass, error)


def _copies(law: Law, count: int) -> _Sums:
    """The law of the sum of equal losses, by convolution: all terms are positive."""
    low, middle, high = law.masses()
    base = np.array([low, high] if law.categories == 2 else [low, middle, high])
    found, error = np.ones(1), 0.0
    square, wrong, left = base, UNIT, count
    while left:
        if left & 1:
            error += wrong + (min(found.size, square.size) + 2) * UNIT
            found = np.convolve(found, square)
        left >>= 1
        if left:
            wrong = 2 * wrong + (square.size + 2) * UNIT
            square = np.convolve(square, square)
    steps = np.arange(found.size, dtype=np.float64)
    loss = float(law.step) * steps - float(law.epsilon * count)
    return _Sums(loss, found, error * 1.01)


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
