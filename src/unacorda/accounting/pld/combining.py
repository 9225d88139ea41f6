"""Few atoms are summed one by one: sums of small finite laws need no grid."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from unacorda.accounting.laws import ThreePoints
from unacorda.accounting.pld.sources import curve_of_atoms
from unacorda.accounting.profiles.atoms import Atoms
from unacorda.accounting.profiles.boxes import Array
from unacorda.accounting.profiles.curves import Curve

_U = 2.0**-53
_MOST = 1 << 10
"""Atoms of a power; squares of such numbers of pairs are formed."""
_PAIRS = 1 << 18
_SAME = 64 * _U
_SMALL, _LARGE = 1e-9, 600.0
"""Losses that atoms stand for."""


def combined(parts: Sequence[tuple[Curve, int]]) -> list[tuple[Curve, int]]:
    """The parts, those of few atoms replaced by one part that is their sum."""
    rest: list[tuple[Curve, int]] = []
    found: Atoms | None = None
    for curve, count in sorted(parts, key=lambda part: _size(*part)):
        many = _size(curve, count)
        if curve.atoms is None or many > _MOST:
            rest.append((curve, count))
            continue
        alone = _power(curve.atoms, count)
        if found is None:
            found = alone
        elif len(found.losses) * len(alone.losses) <= _PAIRS:
            found = _sum(found, alone)
        else:
            rest.append((curve, count))
    if found is not None:
        rest.append((curve_of_atoms(found), 1))
    return rest


def few_points(points: ThreePoints) -> Curve | None:
    """The profile of randomised response by its atoms; None for other laws, or beyond floats.

    Bound       both.
    Source      Kairouz, Oh, Viswanath 2015, Theorem 3.3.
    """
    epsilon = float(points.epsilon)
    if points.categories is None or not _SMALL < epsilon < _LARGE:
        return None
    low = math.exp(-epsilon)
    top = float(1 - points.infinite) / (1 + (points.categories - 1) * low)
    losses, masses = [epsilon, -epsilon], [top, top * low]
    if points.categories > 2:
        losses.append(0.0)
        masses.append((points.categories - 2) * low * top)
    mass = float(points.infinite)
    return curve_of_atoms(
        Atoms(
            losses=np.array(losses),
            masses=np.array(masses),
            infinity=mass * (1 - 2 * _U),
            infinity_above=mass * (1 + 2 * _U),
            error=2 * _U * epsilon,
            trust=16 * _U,
            spacing=points.epsilon,
        )
    )


def _size(curve: Curve, count: int) -> float:
    """How many atoms a sum of copies has, unless some fall together."""
    if curve.atoms is None:
        return math.inf
    kinds = max(len(curve.atoms.losses), 1)
    if count == 1 or kinds == 1:
        return float(kinds)
    if count > _MOST or kinds > _MOST:  # more than twice as many atoms as that
        return math.inf
    exponent = math.lgamma(count + kinds) - math.lgamma(kinds) - math.lgamma(count + 1)
    return round(math.exp(exponent)) if exponent < 40 else math.inf


def _power(atoms: Atoms, count: int) -> Atoms:
    result: Atoms | None = None
    while True:
        if count & 1:
            result = atoms if result is None else _sum(result, atoms)
        count >>= 1
        if not count:
            assert result is not None
            return result
        atoms = _sum(atoms, atoms)


def _sum(one: Atoms, two: Atoms) -> Atoms:
    """The sum of two independent losses, equal atoms joined."""
    losses = np.add.outer(one.losses, two.losses).ravel()
    masses = np.multiply.outer(one.masses, two.masses).ravel()
    reach = float(np.max(np.abs(losses), initial=0.0))
    order = np.argsort(losses, kind="stable")
    losses, masses = losses[order], masses[order]
    wide, most = 0.0, 1
    if len(losses):
        starts = np.flatnonzero(np.append(True, np.diff(losses) > _SAME * (1 + reach)))
        ends = np.append(starts[1:], len(losses)) - 1
        most = int(np.max(ends - starts)) + 1
        wide = float(np.max(losses[ends] - losses[starts]))
        joined: Array = np.add.reduceat(masses, starts)
        losses, masses = losses[starts], joined
    return replace(
        one,
        losses=losses,
        masses=masses,
        infinity=_infinite(one, one.infinity, two, two.infinity) * (1 - 64 * _U),
        infinity_above=_infinite(one, one.infinity_above, two, two.infinity_above) * (1 + 64 * _U),
        error=(one.error + two.error + wide + 4 * _U * reach) * (1 + 4 * _U),
        trust=(one.trust + two.trust) * (1 + one.trust) + (64 + 2 * most) * _U,
        spacing=None,
    )


def _infinite(one: Atoms, first: float, two: Atoms, second: float) -> float:
    """The mass of sums with an infinite term."""
    return first * (math.fsum(two.masses) + second) + math.fsum(one.masses) * second
