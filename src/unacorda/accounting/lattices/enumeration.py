"""Losses on no common lattice: every sum of one half against the sorted sums of the other."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from unacorda.accounting.contour.quadrature import Sides
from unacorda.accounting.contour.series import UNIT, Floats
from unacorda.accounting.lattices.laws import Composition, Law
from unacorda.accounting.profiles.boxes import running_sum

__all__ = ["Halves"]

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
