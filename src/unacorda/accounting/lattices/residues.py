"""Few Laplace mechanisms: delta as a finite sum of residues, in long integers.

Under e^(-L/2) P one Laplace loss of rate u = 1/b is symmetric: e^(-u/2) times atoms 1/2 at u and -u
and the density 1/4 between. So with n losses, U the sum of their u, and K over all 2^n signs,

    delta(epsilon) = 2 e^((epsilon - U)/2) 2^-n sum over K with y > 0 of R_k(y),

y the sum of +-u minus epsilon, k the number of minus signs and R_k(y) the sum of the residues of
e^(zy) (1 + 1/2z)^(n - k) (1 - 1/2z)^k / (2 z^2 - 1/2). Binary laws on -e and e only add signs.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from unacorda import checks
from unacorda.accounting.contour import engine as contour
from unacorda.accounting.contour.infinite import without_infinite
from unacorda.accounting.contour.parts import flatten
from unacorda.accounting.contour.quadrature import Sides
from unacorda.accounting.inversion import crossing
from unacorda.accounting.lattices.laws import composition_of
from unacorda.checks import Number, exact
from unacorda.errors import InvalidParameter, UnsupportedEvent
from unacorda.privacy.enclosure import context, float_down, float_up, mpf
from unacorda.privacy.estimates import Interval
from unacorda.privacy.events import Event, Laplace

__all__ = ["delta_interval", "epsilon_interval", "few_laplace"]

_MOST_WORK = 50_000  # signs times mechanisms
_MOST_BITS = 8_000
_MOST_KINDS = 40
_HEAVY = 16.0  # beyond this S the contour is narrow
_SMALLEST = 1e-300


@dataclass(frozen=True, slots=True, kw_only=True)
class _Signs:
    """Sums of signed losses, descending, in units of 1 / scale, with k and how often they occur.

    count: n; rate: U; factor: ln of the product of p e^(-e/2) of the binary laws; infinite: the
    probability of an infinite loss.
    """

    places: list[tuple[int, int, int]]
    scale: int
    count: int
    rate: Fraction
    factor: Any
    infinite: Any

    @property
    def largest(self) -> Fraction:
        """The largest finite loss."""
        return Fraction(self.places[0][0], self.scale)

    def delta(self, epsilon: Fraction, bits: int) -> tuple[Any, Any]:
        """Delta of the finite losses at any real epsilon, and a bound of its error.

        Source      docs/proofs/lattices.md, section 4.
        """
        mp, n = context(), self.count
        table = _coefficients(n)
        denominator = 2 * self.scale * epsilon.denominator
        offset = epsilon.numerator * self.scale
        total, ways = 0, 0
        with mp.workprec(bits + 64):
            ends, reach = mp.mpf(0), 0
            for place, minus, many in self.places:
                above = place * epsilon.denominator - offset
                if above <= 0:
                    break
                half = (above << bits) // denominator  # y / 2
                reach = max(reach, half)
                value = 0
                row = table[minus]
                for q in range(n - 1, 0, -1):
                    value = ((value + (row[q] << bits)) * half >> bits) // q
                total -= many * (value + (row[0] << bits))
                ways += many
                if minus in (0, n):
                    exponent = mp.mpf(above) / denominator
                    sign = many << n if minus == 0 else -(many << n)
                    ends += sign * mp.exp(exponent if minus == 0 else -exponent) / 2
            scale = mp.exp(mpf(epsilon - self.rate) / 2 + self.factor) * mp.ldexp(2, -n)
            size = n + 3 * (reach >> bits) + 7
            found = scale * (mp.ldexp(total, -bits) + ends)
            return found, scale * ways * mp.ldexp(1, size - bits)

    def sides(self, epsilon: Fraction) -> tuple[Any, Any]:
        """Delta of the finite losses within a relative 2^-60, with as many bits as that takes."""
        if epsilon >= self.largest:
            return context().mpf(0), context().mpf(0)
        bits = 100 + self.count + math.ceil(1.5 * (self.largest - epsilon))
        value, error = self.delta(epsilon, bits)
        while error * 2**60 > value and bits < _MOST_BITS:
            short = context().mag(error) - context().mag(max(value, error / 2**60))
            bits += max(80 + short, bits // 2)
            value, error = self.delta(epsilon, bits)
        return max(value - error, 0 * error), value + error


def epsilon_interval(composition: Iterable[tuple[Event, int]], *, delta: Number) -> Interval:
    """The least epsilon of (epsilon, delta)-DP of few Laplace and binary mechanisms.

    composition: events with their numbers of copies; delta: strictly between 0 and 1.
    Raises UnsupportedEvent for other events, and where signs times mechanisms are too many.

    Bound       both sides, next to each other.
    Source      docs/proofs/lattices.md, section 4.

    >>> found = epsilon_interval([(Laplace(noise_multiplier=1.0), 2)], delta=1e-6)
    >>> round(found.lower, 9), found.width < 1e-14
    (1.999996, True)
    """
    target = exact("delta", delta)
    if not 0 < target < 1:
        raise InvalidParameter("delta", delta, expected="a number strictly between 0 and 1")
    events = flatten(composition)
    signs = _signs(events)
    left = without_infinite(signs.infinite, target)
    if left <= 0:
        return Interval(0.0, math.inf)
    if left < _SMALLEST:
        return Interval(0.0, float_up(mpf(signs.largest)))
    known = contour.epsilon_interval(events, delta=delta)
    start = 0.5 * (known.lower + min(known.upper, float(signs.largest)))

    def at(epsilon: float) -> Sides:
        low, high = (float(side / left) for side in signs.sides(Fraction(epsilon)))
        return Sides(near=low, lower=low * (1 - 1e-15), upper=high * (1 + 1e-15))

    low, high = crossing(at, start, slope=1.0)
    return Interval(max(low, known.lower), min(high, known.upper, float_up(mpf(signs.largest))))


def delta_interval(composition: Iterable[tuple[Event, int]], *, epsilon: Number) -> Interval:
    """The least delta of (epsilon, delta)-DP of few Laplace and binary mechanisms.

    epsilon: 0 or above; otherwise as `epsilon_interval`.

    Bound       both sides, next to each other.
    Source      docs/proofs/lattices.md, section 4.

    >>> delta_interval([(Laplace(noise_multiplier=1.0), 2)], epsilon=2)
    Interval(lower=0.0, upper=0.0)
    """
    number = checks.exact("epsilon", epsilon)
    if number < 0:
        raise InvalidParameter("epsilon", epsilon, expected="a number, 0 or above")
    signs = _signs(flatten(composition))
    low, high = signs.sides(number)
    rest = 1 - signs.infinite
    return Interval(
        float_down(signs.infinite + rest * low),
        min(1.0, float_up(signs.infinite + rest * high)),
    )


def few_laplace(events: Sequence[tuple[Event, int]]) -> bool:
    """Whether Laplace mechanisms are so few or so weak that their atoms spoil a contour's tail.

    Bound       none: it chooses engines.
    Source      the atoms of all weigh about e^-S, S the sum of 1/(2b).
    """
    weight = 0.0
    for event, count in events if len(events) < _MOST_KINDS else ():
        if isinstance(event, Laplace):
            weight += 0.5 * count / float(exact("noise_multiplier", event.noise_multiplier))
    return 0 < weight < _HEAVY


def _signs(events: Iterable[tuple[Event, int]]) -> _Signs:
    """All sums of signs, equal ones counted together."""
    mp = context()
    rates: dict[Fraction, int] = {}
    others: list[tuple[Event, int]] = []
    for event, count in events:
        if isinstance(event, Laplace):
            u = 1 / exact("noise_multiplier", event.noise_multiplier)
            rates[u] = rates.get(u, 0) + count
        else:
            others.append((event, count))
    binary = composition_of(others)
    size = math.prod(count + 1 for count in (*rates.values(), *(m for _, m in binary.laws)))
    count = sum(rates.values())
    if not count or size * count > _MOST_WORK or any(law.categories > 2 for law, _ in binary.laws):
        raise _unsupported(events)
    losses = [*rates, *(law.epsilon for law, _ in binary.laws)]
    scale = math.lcm(*(loss.denominator for loss in losses))
    steps = [(int(u * scale), many, 1) for u, many in rates.items()]
    steps += [(int(law.epsilon * scale), many, 0) for law, many in binary.laws]
    places: dict[tuple[int, int], int] = {(0, 0): 1}
    for step, many, one in steps:
        following: dict[tuple[int, int], int] = {}
        for (place, minus), ways in places.items():
            for i in range(many + 1):
                key = (place + (many - 2 * i) * step, minus + one * i)
                following[key] = following.get(key, 0) + ways * math.comb(many, i)
        places = following
    factor = mp.mpf(0)
    for law, many in binary.laws:
        half = mpf(law.epsilon) / 2
        factor -= many * mp.log(2 * mp.cosh(half))
    return _Signs(
        places=sorted(((a, k, ways) for (a, k), ways in places.items()), reverse=True),
        scale=scale,
        count=count,
        rate=sum((u * many for u, many in rates.items()), start=Fraction(0)),
        factor=factor,
        infinite=binary.infinite,
    )


@functools.lru_cache(maxsize=4)
def _coefficients(count: int) -> list[list[int]]:
    """For each k the numbers c_q, q < n: sums over i of [x^(q+1+2i)] (1 + x)^(n-k) (1 - x)^k."""
    powers = [math.comb(count, r) for r in range(count + 1)]
    table: list[list[int]] = []
    for _ in range(count + 1):
        sums = [*powers, 0, 0]
        for r in range(count, -1, -1):
            sums[r] += sums[r + 2]
        table.append(sums[1 : count + 1])
        before, carried = 0, 0
        following: list[int] = []
        for number in powers:  # times (1 - x), divided by (1 + x)
            carried = number - before - carried
            before = number
            following.append(carried)
        powers = following
    return table


def _unsupported(events: Iterable[tuple[Event, int]]) -> UnsupportedEvent:
    return UnsupportedEvent(
        tuple(event for event, _ in events),
        kind="sums of residues",
        try_instead="The contour engine: many Laplace mechanisms are its strength.",
    )
