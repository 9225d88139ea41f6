"""Likelihood ratios that are sums of exponentials, on the real line and in rectangles about it.

f(z) = sum of w_i e^(s_i z - h_i), w_i > 0 of sum 1, s_i >= 0. For |y| <= pi / (2 max s) all its
terms at x + iy have arguments between 0 and s y, so |f(x + iy)| lies between cos(s y / 2) f(x) and
f(x), and its argument between 0 and s y, s the largest slope.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from unacorda.accounting.contour.series import UNIT, Floats

__all__ = ["Opposed", "Ratio", "Sums", "drawn_ratio"]


class Ratio(Protocol):
    """ln f, increasing on the interval where it is asked, with bounds about it."""

    @property
    def steepest(self) -> float:
        """The slope that sets how far from the real line the bounds hold: pi / (2 steepest)."""

    def log(self, z: Floats) -> tuple[Floats, Floats]:
        """The values of ln f at points, and bounds of their absolute errors."""

    def moduli(self, low: Floats, high: Floats, y: Floats) -> tuple[Floats, Floats]:
        """Bounds of ln |f| from below and above, low <= Re z <= high, |Im z| <= y."""

    def argument(self, low: Floats, high: Floats, y: Floats) -> Floats:
        """A bound of |arg f| there."""

    def slope(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Bounds of g = (ln f)' on [low, high]."""

    def bend(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Bounds of g' / g on [low, high]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """The sum of exponentials itself. weights, slopes, falls: w, s, h; floats, 4 units each."""

    weights: Floats
    slopes: Floats
    falls: Floats

    @property
    def steepest(self) -> float:
        """The largest slope."""
        return float(self.slopes.max())

    def log(self, z: Floats) -> tuple[Floats, Floats]:
        """By the form of the smaller error: log1p of a sum of expm1, or a scaled sum."""
        load = np.multiply.outer(self.slopes, z)
        e = load - self.falls[:, None]
        slip = 6 * UNIT * (np.abs(load) + np.abs(self.falls)[:, None])
        levels = e + np.log(self.weights)[:, None]
        top = levels.max(axis=0)
        shares = np.exp(levels - top)
        total = shares.sum(axis=0)
        far = top + np.log(total)
        shares /= total
        moved = (shares * slip).sum(axis=0)
        spread = (shares * np.abs(levels - top)).sum(axis=0)
        far_error = moved + UNIT * (4 * np.abs(top) + 8 * spread + 4 * len(self.weights) + 24)
        if len(self.weights) == 1:
            return e[0], slip[0] + 1e-300
        rises = self.weights[:, None] * np.expm1(np.minimum(e, 300.0))
        rise = rises.sum(axis=0)
        near = np.log1p(np.maximum(rise, -1 + 1e-16))
        size = np.abs(rises).sum(axis=0) * (len(self.weights) + 10)
        near_error = moved + UNIT * size * np.exp(-np.minimum(far, 700.0)) + 5 * UNIT * np.abs(near)
        better = (near_error < far_error) & (e.max(axis=0) < 300.0)
        return np.where(better, near, far), np.where(better, near_error, far_error)

    def _mean(self, z: Floats) -> tuple[Floats, Floats]:
        """The value and g = (ln f)', rounded up and down by a margin where used."""
        levels = np.multiply.outer(self.slopes, z) - self.falls.reshape(-1, *([1] * z.ndim))
        levels += np.log(self.weights).reshape(-1, *([1] * z.ndim))
        top = levels.max(axis=0)
        shares = np.exp(levels - top)
        total = shares.sum(axis=0)
        return top + np.log(total), np.tensordot(self.slopes, shares, axes=1) / total

    def moduli(self, low: Floats, high: Floats, y: Floats) -> tuple[Floats, Floats]:
        """F rises on the real line; |f| is at least cos(s y / 2) of it."""
        least, most = self._mean(low)[0], self._mean(high)[0]
        return least + np.log(np.cos(0.5 * self.steepest * y)) - 1e-9, most + 1e-9

    def argument(self, low: Floats, high: Floats, y: Floats) -> Floats:  # noqa: ARG002
        """At most s y <= pi / 2, and sin(arg f) <= y f' / |f|, where g = f'/f rises."""
        turn = self.steepest * y
        sine = self._mean(high)[1] * y / np.cos(0.5 * turn)
        bound: Floats = np.minimum(turn, np.arcsin(np.minimum(sine, 1.0))) * (1 + 1e-9)
        return bound

    def slope(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """G rises: ln f is convex."""
        return self._mean(low)[1] * (1 - 1e-9), self._mean(high)[1] * (1 + 1e-9)

    def bend(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """G' is the variance of the slopes under shares: g (s - g) for slopes 0 and s, else less.

        Source      Bhatia and Davis 2000, for the upper bound.
        """
        least, most = self.slope(low, high)
        room = 1e-9 * self.steepest
        upper = np.maximum(self.steepest - least + room, 0.0)
        if len(self.slopes) == 2 and float(self.slopes.min()) == 0:
            return np.maximum(self.steepest - most - room, 0.0), upper
        return np.zeros_like(upper), upper


@dataclass(frozen=True, slots=True, kw_only=True)
class Opposed:
    """F(z) / F(-z) for z >= 0: one unit of a Poisson sample replaced by its opposite."""

    one: Sums

    @property
    def steepest(self) -> float:
        """That of F."""
        return self.one.steepest

    def log(self, z: Floats) -> tuple[Floats, Floats]:
        """The difference; both errors count."""
        above, above_error = self.one.log(z)
        below, below_error = self.one.log(-z)
        return above - below, above_error + below_error + UNIT * np.abs(above - below)

    def moduli(self, low: Floats, high: Floats, y: Floats) -> tuple[Floats, Floats]:
        """Numerator and denominator apart."""
        first, second = self.one.moduli(low, high, y), self.one.moduli(-high, -low, y)
        return first[0] - second[1], first[1] - second[0]

    def argument(self, low: Floats, high: Floats, y: Floats) -> Floats:
        """Both turn the same way."""
        return self.one.argument(low, high, y) + self.one.argument(-high, -low, y)

    def slope(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """g(z) + g(-z)."""
        first, second = self.one.slope(low, high), self.one.slope(-high, -low)
        return first[0] + second[0], first[1] + second[1]

    def bend(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """(g'(z) - g'(-z)) / (g(z) + g(-z))."""
        least, most = self.slope(low, high)
        first, second = self._turn(low, high), self._turn(-high, -low)
        under, over = first[0] - second[1], first[1] - second[0]
        lower = np.where(under < 0, under / least, under / most)
        return lower, np.where(over > 0, over / least, over / most)

    def _turn(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """G' = g * (g' / g)."""
        slope, bend = self.one.slope(low, high), self.one.bend(low, high)
        return slope[0] * bend[0], slope[1] * bend[1]


def drawn_ratio(rate: float) -> Sums:
    """1 - rate + rate e^z."""
    if rate == 1:
        return Sums(weights=np.ones(1), slopes=np.ones(1), falls=np.zeros(1))
    return Sums(weights=np.array([1 - rate, rate]), slopes=np.array([0.0, 1.0]), falls=np.zeros(2))
