"""Delta just below the largest loss: nearly all steps lose the most they can.

With E the largest loss, delta at E - y is a sum over the number k of steps that lose less,

    p^T sum over k of C(T, k) times the mean of (1 - e^-(y - x)) over deficits x below y,

and over so short a way the density of each deficit hardly changes.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

from unacorda.accounting.edges.steps import Way
from unacorda.privacy.enclosure import context, float_down, float_up, mpf
from unacorda.privacy.estimates import Interval

__all__ = ["delta_near_top", "epsilon_near_top"]

_BITS = 400
_SURE = 150  # bits of the largest loss that are right, of 256
_MOST_MEAN = 3_000.0
_LARGEST = 30
_REST = 2.0**-130
_ROUNDED = Fraction(1, 2**120)  # more than all roundings, of at least 200 bits
_STEPS = 80


class _Sides(NamedTuple):
    """Bounds of the logarithm of delta."""

    lower: Any
    upper: Any


class _Height(NamedTuple):
    """How far one side of ln delta is above a goal."""

    way: Way
    side: int
    goal: Any

    def at(self, gap: Any) -> Any:
        return _sides(self.way, gap)[self.side] - self.goal


def delta_near_top(way: Way, epsilon: Fraction) -> Interval | None:
    """Delta of one direction at an epsilon near the largest loss; None where it is not near.

    Bound       both.
    Source      docs/proofs/edges.md, Theorem 1.
    """
    mp = context()
    gap, least = way.largest - mpf(epsilon), mp.ldexp(way.largest, -_SURE)
    if gap <= -least:
        return Interval(0.0, 0.0)
    if gap > _reach(way):
        return None
    with mp.workprec(_BITS):
        upper = _sides(way, gap + least).upper
        lower = _sides(way, gap - least).lower if gap > least else -mp.inf
        low, high = (mp.exp(side) for side in (lower, upper))
    return Interval(float_down(low), min(1.0, float_up(high) + 5e-324))


def epsilon_near_top(way: Way, delta: Fraction) -> Interval | None:
    """The least epsilon of one direction at a delta, where that is near the largest loss.

    Bound       both.
    Source      docs/proofs/edges.md, Theorem 1.
    """
    mp = context()
    most = _reach(way)
    goal = mp.log(mpf(delta))
    if not most > 0 or _too_little(way, most, goal):
        return None
    with mp.workprec(_BITS):
        if not _sides(way, most).lower > goal:
            return None
        ends = []
        for side in (0, 1):
            low, high = _bracket(_Height(way, side, goal).at, way, most)
            ends.append(way.largest - (high if side == 0 else low))
        slip = mp.ldexp(way.largest, -_SURE)
        return Interval(float_down(max(ends[0] - slip, 0)), float_up(max(ends[1] + slip, 0)))


def _reach(way: Way) -> Any:
    """The largest gap that is looked at."""
    mp = context()
    u, q = mpf(way.steps.edge), mpf(way.steps.rate)
    if way.remove:  # so far that z moves by 1
        most = -mp.log1p(mp.expm1(-1) * q * mp.exp(u) / way.f)
    else:
        most = mp.log1p(mp.expm1(1) * q * mp.exp(-u) / way.f)
    most = min(most, way.width * (1 - mpf(_ROUNDED)), mp.mpf(_LARGEST))
    return min(most, _MOST_MEAN / (way.steps.count * way.density), way.largest)


def _too_little(way: Way, gap: Any, goal: Any) -> bool:
    """Whether delta at this gap surely does not reach the goal: a rough look at its upper end."""
    count = way.steps.count
    level = float(count * way.most) + math.log(float(min(gap, 1)))
    level += 2 * math.sqrt(float(count * way.density * gap) * math.exp(1.5 * _turn(way, gap)))
    return level < float(goal) - 40.0


def _turn(way: Way, gap: Any) -> float:
    """How far z lies from the place of the largest loss where so much is lost less."""
    mp = context()
    u, q = mpf(way.steps.edge), mpf(way.steps.rate)
    if way.remove:
        share = -way.f * mp.expm1(-gap) * mp.exp(-u) / q
        return float(-mp.log1p(-share)) if share < 1 else math.inf
    return float(mp.log1p(way.f * mp.expm1(gap) * mp.exp(u) / q))


def _sides(way: Way, gap: Any) -> _Sides:
    """Ln delta at the largest loss less this gap, which is above 0."""
    mp = context()
    whole = way.steps.count * way.most
    slip = mpf(_ROUNDED) * (1 + abs(whole))
    turn = mp.mpf(_turn(way, gap)) * (1 + mpf(2.0**-40)) * 3 / 2
    lower, upper = (_sum(way, gap, way.density * mp.exp(side)) for side in (-turn, turn))
    return _Sides(mp.log(lower[0]) + whole - slip, mp.log(upper[1]) + whole + slip)


def _sum(way: Way, gap: Any, density: Any) -> tuple[Any, Any]:
    """The sum over k of C(T, k) density^k a_k, over p^T, from both sides."""
    mp, count = context(), way.steps.count
    weights, size, k = [mp.mpf(1)], mp.mpf(1), 0
    mean = count * density * gap
    while k < count:
        size *= mean / ((k + 1) * (k + 2))  # of a term, over that of k = 0, at most
        k += 1
        weights.append(weights[-1] * density * (count - k + 1) / k)
        if size < _REST and mean < (k + 1) * (k + 2) / 2:
            break
    rest = gap * 2 * size if k < count else mp.mpf(0)
    value = _last(gap, k)
    total = weights[k] * value
    powers = [mp.mpf(1)]
    for j in range(1, k + 1):
        powers.append(powers[-1] * gap / j)
    for j in range(k, 0, -1):
        value = powers[j] - value  # a_(j - 1) = y^j / j! - a_j
        total += weights[j - 1] * value
    return total, total + rest


def _last(gap: Any, k: int) -> Any:
    """a_k = sum over j from 1 of (-1)^(j + 1) y^(k + j) / (k + j)!."""
    mp = context()
    term = gap ** (k + 1) / mp.factorial(k + 1)
    total, j = mp.mpf(0), k + 1
    while True:
        total += term
        j += 1
        term *= -gap / j
        if j > gap and abs(term) < mp.ldexp(total, -_BITS):
            return total


def _bracket(height: Callable[[Any], Any], way: Way, most: Any) -> tuple[Any, Any]:
    """Gaps close together: at the first a rising function is at most 0, at the second above."""
    mp = context()
    low, high = mp.mpf(0), most
    below, above = None, height(high)
    guess = high / 2
    enough = mp.ldexp(way.largest, -70)
    for turn in range(_STEPS):
        if high - low <= max(enough, mp.ldexp(high, -80)):
            break
        value = height(guess)
        if value > 0:
            high, above = guess, value
        else:
            low, below = guess, value
        if below is None:  # delta is at least in proportion to the gap
            guess = high * mp.exp(-above) / 2
            continue
        # between them on logarithms, and a little beyond, so that both ends come near
        share = -below / (above - below)
        step = mp.log(high / low)
        place = mp.log(low) + step * share
        nudge = step * mp.ldexp(1, -20) if turn % 2 else -step * mp.ldexp(1, -20)
        if turn % 5 == 4:
            place = mp.log(low) + step / 2
        guess = mp.exp(place + nudge)
        if not low < guess < high:
            guess = mp.sqrt(low * high)
    return low, high
