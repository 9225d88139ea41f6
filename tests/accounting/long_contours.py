"""References for the contour engine: long arithmetic, laws of the loss as lists, plain sums."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

import mpmath

__all__ = ["MP", "Points", "boole", "convolved", "half_line", "holds", "long_delta", "mixed", "own"]

MP = mpmath.mp.clone()
MP.dps = 34

Points = list[tuple[Any, Any]]
"""Masses under P, or weights of a rule for them, each with its loss."""


def long_delta(
    laws: list[tuple[Points, int]], epsilon: float, *, c: float, x: float, mu: float = 0.0
) -> Any:
    """delta of copies of laws, and of a Gaussian pair N(mu, 1), by the trapezoid rule at c.

    Aliases at a distance x are left in; c and x are the caller's, unlike the engine's. It ends at
    four small terms in a row: copies must be so many that atoms alone leave nothing.
    """
    h, e = 2 * MP.pi / MP.mpf(x), MP.mpf(epsilon)
    now = [[mass * MP.exp(MP.mpf(c) * loss) for mass, loss in law] for law, _ in laws]
    turns = [[MP.expj(h * loss) for _, loss in law] for law, _ in laws]
    total, small, n, first = MP.mpf(0), 0, 0, None
    while small < 4:
        s = MP.mpc(c, n * h)
        term = MP.exp(s * (s + 1) * MP.mpf(mu) ** 2 / 2 - s * e) / (s * (s + 1))
        for values, (_, count) in zip(now, laws, strict=True):
            term *= MP.fsum(values) ** count
        term /= 2 if n == 0 else 1
        first = abs(term) if first is None else first
        total += term.real
        small = small + 1 if abs(term) < MP.mpf(10) ** -22 * first else 0
        now = [
            [value * turn for value, turn in zip(values, turn_of, strict=True)]
            for values, turn_of in zip(now, turns, strict=True)
        ]
        n += 1
        assert n < 5000
    return h / MP.pi * total


def holds(
    interval: tuple[float, float],
    laws: list[tuple[Points, int]],
    delta: float,
    *,
    mu: float = 0.0,
    part: float = 0.8,
) -> bool:
    """Whether delta lies between the reference's values at both ends, within 1e-12.

    part: places c; the less, the farther from where rare jumps would fill the aliases.
    """
    lower, upper = interval
    c = float(-part * MP.log(delta)) / upper
    x = 4 * upper + 70 / c
    low, high = (long_delta(laws, e, c=c, x=x, mu=mu) for e in (lower, upper))
    return bool(low >= delta * (1 - 1e-12) and high <= delta * (1 + 1e-12))


def own(pairs: Iterable[tuple[Any, Any]]) -> Points:
    """The loss under P of masses (p, q) on one set."""
    return [(p, MP.log(p / q)) for p, q in pairs if p > 0 and q > 0]


def mixed(pairs: Iterable[tuple[Any, Any]], rate: float, *, remove: bool) -> Points:
    """The loss of the mixture rate P + (1 - rate) Q against Q, or of Q against the mixture."""
    q = MP.mpf(rate)
    both = [(q * first + (1 - q) * second, second) for first, second in pairs]
    return own(both if remove else [(second, first) for first, second in both])


def convolved(laws: list[Points]) -> Points:
    """The sum of independent losses, equal ones joined."""
    total: dict[Any, Any] = {MP.mpf(0): MP.mpf(1)}
    for law in laws:
        following: dict[Any, Any] = {}
        for (left, first), (second, right) in itertools.product(total.items(), law):
            key = MP.mpf(MP.nstr(left + right, 28))
            following[key] = following.get(key, 0) + first * second
        total = following
    return [(mass, loss) for loss, mass in total.items()]


def boole(
    first: Callable[[Any], Any], second: Callable[[Any], Any], ends: list[Any], pieces: int
) -> list[tuple[Any, Any]]:
    """Masses (p, q) of two densities by Boole's rule between neighboring ends."""
    found = []
    for left, right in itertools.pairwise(ends):
        for j in range(pieces + 1):
            x = left + (right - left) * j / pieces
            share = {0: 7, pieces: 7}.get(j, (14, 32, 12, 32)[j % 4])
            weight = MP.mpf(2 * share) / 45 * (right - left) / pieces
            found.append((weight * first(x), weight * second(x)))
    return found


def half_line(density: Callable[[Any], Any], points: int) -> list[tuple[Any, Any]]:
    """Points z > 0 and weights times density there: the exp-sinh rule."""
    found = []
    for j in range(-points, points + 1):
        u = MP.mpf(4) * j / points
        z = MP.exp(MP.pi / 2 * MP.sinh(u))
        weight = MP.mpf(4) / points * MP.pi / 2 * MP.cosh(u) * z * density(z)
        if weight > MP.mpf(10) ** -60:
            found.append((z, weight))
    return found
