"""A few steps of finite laws, sampled or not: every sum of their losses, without a lattice.

How often each atom occurs in the copies of a law is run through; the sums of one half of the steps
are held against the sorted sums of the other.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from unacorda.accounting.contour.closed import Constant, FiniteLaw, ThreePoint
from unacorda.accounting.contour.factor import Factor
from unacorda.accounting.contour.infinite import with_infinite, without_infinite
from unacorda.accounting.contour.parts import SYMMETRIC, Direction, attained, noises_of, parts_of
from unacorda.accounting.contour.plan import abscissas, curve, saddle_for_delta
from unacorda.accounting.contour.series import UNIT, Floats
from unacorda.accounting.inversion import crossing
from unacorda.accounting.lattices.enumeration import Halves, Sums
from unacorda.errors import UnsupportedEvent
from unacorda.privacy.enclosure import float_down
from unacorda.privacy.estimates import Interval
from unacorda.privacy.events import (
    Approximate,
    DiscreteLaplace,
    Event,
    Exponential,
    Gaussian,
    GaussianMixture,
    Laplace,
    Pure,
    TruncatedLaplace,
    ZeroConcentrated,
)
from unacorda.privacy.neighbors import AddRemove, Neighbors
from unacorda.privacy.rounding import float_above

__all__ = ["delta_of", "epsilon_of"]

_MOST_SUMS = 1 << 16  # of either half
_MOST_COPIES = 1_000
_LARGEST = 600.0
_SMALLEST = 1e-270
_NEAR = -46.0
_NOTHING = -740.0
"""Ln of masses that are below the floats, or stand for none."""
_LEAST_REST = 1e-6
_TWO_LOSSES = Pure | Approximate | DiscreteLaplace
_DENSE = Gaussian | GaussianMixture | Laplace | TruncatedLaplace | Exponential | ZeroConcentrated


@dataclass(frozen=True, slots=True, kw_only=True)
class _Steps:
    """Copies of one law: losses, logarithms of their probabilities, and how far both are off.

    lost: a bound of the mass that the atoms leave out, and of the relative error of theirs.
    """

    loss: Floats
    log_mass: Floats
    loss_error: float
    mass_error: float
    count: int
    lost: float = 0.0

    @property
    def size(self) -> float:
        """How many sums there are."""
        kinds = self.loss.size
        exponent = math.lgamma(self.count + kinds) - math.lgamma(kinds)
        exponent -= math.lgamma(self.count + 1)
        return math.exp(min(exponent, 100.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Way:
    """One direction: all sums, what the atoms leave out, and the probability of infinite loss."""

    halves: Halves
    lost: float
    infinite: Any
    factors: Sequence[Factor]

    def at(self, epsilon: Fraction) -> Interval:
        """Both sides of delta of the finite losses."""
        blur = Fraction(self.halves.blur)
        lower = self.halves.at(epsilon + blur).lower * (1 - self.lost)
        upper = self.halves.at(epsilon - blur).upper * (1 + self.lost) + self.lost
        return Interval(max(lower, 0.0), min(upper, 1.0))


def epsilon_of(
    events: Sequence[tuple[Event, int]], target: Fraction, *, neighbors: Neighbors = AddRemove
) -> Interval:
    """The least epsilon of few steps with finitely many losses.

    events: as `flatten` gives them. Raises UnsupportedEvent for others, where there are too many
    sums, and for a delta below 1e-270.

    Bound       both sides, rounded outward.
    Source      docs/proofs/lattices.md, section 3.
    """
    low = high = 0.0
    log_delta = math.log(float_above(target))
    for way in _ways(events, neighbors, log_delta):
        left = without_infinite(way.infinite, target)
        if left <= 0:
            raise _unsupported(events)
        goal = float_down(left)
        if goal < _SMALLEST:
            raise _unsupported(events)
        halves = replace(way.halves, log_unit=math.log(goal))
        slack = way.lost / goal

        def sides(x: float, halves: Halves = halves, way: _Way = way, slack: float = slack) -> Any:
            found = halves.at(Fraction(x))
            return replace(
                found,
                lower=found.lower * (1 - way.lost) * (1 - 1e-13),
                upper=(found.upper * (1 + way.lost) + slack) * (1 + 1e-13),
            )

        c, near = saddle_for_delta(curve(way.factors, abscissas(way.factors)), math.log(goal))
        first, last = crossing(sides, min(max(near, 0.0), _LARGEST), slope=c)
        blur = way.halves.blur * 1.1
        # just below the largest loss delta is steeper than any slope that is stepped by
        top = max(float(np.max(halves.first) + halves.second[-1]), 0.0) + blur
        if top < last and sides(top).upper <= 1.0:
            last = top
        low, high = max(low, first - blur), max(high, last + blur)
    return Interval(max(low, 0.0) if attained(events) else 0.0, high)


def delta_of(
    events: Sequence[tuple[Event, int]], epsilon: Fraction, *, neighbors: Neighbors = AddRemove
) -> Interval:
    """The least delta; otherwise as epsilon_of.

    Bound       both sides, rounded outward.
    Source      docs/proofs/lattices.md, section 3.
    """
    log_delta = _NEAR
    for _ in range(2):  # the second time with all atoms that matter for such a delta
        low = high = 0.0
        for way in _ways(events, neighbors, log_delta):
            found = with_infinite(way.infinite, way.at(epsilon))
            low, high = max(low, found.lower), max(high, found.upper)
        if low < _SMALLEST:
            raise _unsupported(events)
        if math.log(low) > log_delta:
            break
        log_delta = math.log(low)
    return Interval(low if attained(events) else 0.0, high)


def _ways(
    events: Sequence[tuple[Event, int]], neighbors: Neighbors, log_delta: float
) -> Iterator[_Way]:
    """The directions in question; one where both are alike."""
    ways: tuple[Direction, ...] = ("remove", "add")
    alike = all(isinstance(event, SYMMETRIC) for event, _ in events)
    dense = any(isinstance(noise, _DENSE) for event, _ in events for noise in noises_of(event))
    if dense or not events or any(count > _MOST_COPIES for _, count in events):
        raise _unsupported(events)
    for direction in ways[:1] if alike else ways:
        parts = parts_of(events, direction=direction, log_delta=log_delta, neighbors=neighbors)
        if parts is None or not parts.factors or parts.infinite >= 1:
            raise _unsupported(events)
        steps = [one for factor in parts.factors for one in _steps(factor, events)]
        shift = sum(factor.loss for factor in parts.factors if isinstance(factor, Constant))
        slip = sum(factor.error for factor in parts.factors if isinstance(factor, Constant))
        made = _halves(steps, shift, slip)
        if made is None:
            raise _unsupported(events)
        lost = 2 * sum(one.count * one.lost for one in steps)
        yield _Way(halves=made, lost=lost, infinite=parts.infinite, factors=parts.factors)


def _steps(factor: Factor, events: Sequence[tuple[Event, int]]) -> list[_Steps]:
    """The laws of a part."""
    match factor:
        case Constant():
            return []
        case FiniteLaw(atoms=atoms, remove=remove, count=count, lost=lost):
            log_mass = atoms.log_mass + (atoms.log_ratio if remove else 0.0)
            told = log_mass > _NOTHING
            off = float(np.max(atoms.log_ratio_error[told]))
            return [
                _Steps(
                    loss=(atoms.log_ratio if remove else -atoms.log_ratio)[told],
                    log_mass=log_mass[told],
                    loss_error=off,
                    mass_error=float(np.max(atoms.log_mass_error[told])) + off,
                    count=count,
                    lost=lost,
                )
            ]
        case ThreePoint(epsilon=epsilons, top=tops, counts=counts):
            return [
                _three(float(epsilon), float(top), int(count), events)
                for epsilon, top, count in zip(epsilons, tops, counts, strict=True)
            ]
        case _:
            raise _unsupported(events)


def _three(epsilon: float, top: float, count: int, events: Sequence[tuple[Event, int]]) -> _Steps:
    """Losses epsilon, 0 and -epsilon; top: the mass of the first, within a rounding."""
    low = top * math.exp(-epsilon)
    rest = 1 - top - low
    masses, losses, slip = [top, low], [epsilon, -epsilon], 0.0
    if not all(isinstance(event, _TWO_LOSSES) for event, _ in events):
        if not rest > _LEAST_REST:
            raise _unsupported(events)
        masses.append(rest)
        losses.append(0.0)
        slip = 1 / rest
    return _Steps(
        loss=np.array(losses),
        log_mass=np.log(masses),
        loss_error=2 * UNIT * epsilon,
        mass_error=16 * UNIT * (1 + epsilon + slip),
        count=count,
    )


def _halves(steps: Sequence[_Steps], shift: float, slip: float) -> Halves | None:
    """Both halves, each with about half of the steps; None where there are too many sums."""
    largest = sum(one.count * float(np.max(np.abs(one.loss))) for one in steps) + abs(shift)
    if largest > _LARGEST or any(one.count > _MOST_COPIES for one in steps):
        return None
    apart = [
        replace(one, count=count)
        for one in steps
        for count in (-(-one.count // 2), one.count // 2)
        if count
    ]
    sizes, both = (
        [1.0, 1.0],
        [Sums(np.array([shift]), np.ones(1), 0.0), Sums(np.zeros(1), np.ones(1), 0.0)],
    )
    chosen: list[list[_Steps]] = [[], []]
    for one in sorted(apart, key=lambda one: -one.size):
        side = int(sizes[1] < sizes[0])
        sizes[side] *= one.size
        chosen[side].append(one)
    if max(sizes) > _MOST_SUMS:
        return None
    for side, several in enumerate(chosen):
        for one in several:
            both[side] = _joined(both[side], _sums(one))
    blur = slip + sum(one.count * one.loss_error for one in steps) * 1.01
    kinds = sum(one.loss.size for one in apart)
    blur += 8 * UNIT * (largest + 1) * (kinds + 4)
    return Halves.between(both[0], both[1], blur=blur)


def _sums(one: _Steps) -> Sums:
    """The sums of so many copies: how often each atom occurs, in all ways."""
    logs = _log_factorials(one.count)
    left = np.array([one.count])
    loss, height = np.zeros(1), np.array([logs[one.count]])
    for value, log_mass in zip(one.loss[:-1], one.log_mass[:-1], strict=True):
        sizes = left + 1
        starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
        times = np.arange(int(sizes.sum())) - starts
        loss = np.repeat(loss, sizes) + times * value
        height = np.repeat(height, sizes) + times * log_mass - logs[times]
        left = np.repeat(left, sizes) - times
    loss = loss + left * one.loss[-1]
    height = height + left * one.log_mass[-1] - logs[left]
    largest = one.count * float(np.max(np.abs(one.log_mass))) + 3 * float(logs[-1]) + 1
    error = one.count * one.mass_error + 4 * UNIT * (one.loss.size + 4) * largest
    with np.errstate(under="ignore"):
        return Sums(loss, np.exp(height), math.expm1(error) + 8 * UNIT)


def _joined(first: Sums, second: Sums) -> Sums:
    with np.errstate(under="ignore"):
        return Sums(
            np.add.outer(first.loss, second.loss).ravel(),
            np.multiply.outer(first.mass, second.mass).ravel(),
            (first.error + second.error + UNIT) * (1 + first.error),
        )


@functools.lru_cache(maxsize=32)
def _log_factorials(count: int) -> Floats:
    """Logarithms of 0! to count!, each within two roundings."""
    whole, found = 1, [0.0]
    for number in range(1, count + 1):
        whole *= number
        found.append(math.log(whole))
    return np.array(found)


def _unsupported(events: Sequence[tuple[Event, int]]) -> UnsupportedEvent:
    return UnsupportedEvent(
        tuple(event for event, _ in events),
        kind="sums over few steps",
        try_instead="Few steps with few different losses.",
    )
