"""Where the sum of the steps is looked at: tilt, window and grid. Nothing here is certified."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from unacorda.accounting.contour.plan import Curve, saddle_for_delta, saddle_for_epsilon
from unacorda.accounting.edges.ladders import Ladder
from unacorda.accounting.edges.steps import Way
from unacorda.accounting.pld.convolution import Window
from unacorda.accounting.profiles.boxes import Array

__all__ = ["Plan", "Sketch"]

_COARSE = 256
_OUTSIDE = 46.0  # e^-46 of the tilted mass may lie beyond either end of the window
_GOAL = 1e-5  # of delta: what the grid may cost
_FEWEST, _MOST, _LARGEST = 1 << 11, 1 << 20, 1 << 22
_ORDERS = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One step on a grid, and a window with its tilt; near: about the epsilon in question.

    Losses are told from the least one of all steps together.
    """

    ladder: Ladder
    window: Window
    near: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Sketch:
    """The cumulant of all steps at many orders, of either sign, about."""

    way: Way
    losses: Array
    logs: Array
    orders: Array
    heights: Array

    @classmethod
    def of(cls, way: Way) -> Sketch:
        """From a coarse law."""
        ladder = Ladder.of(way, _COARSE if way.steps.inner else 1)
        masses, losses = ladder.above.masses, ladder.above.losses
        mean = float(masses @ losses)
        deviation = math.sqrt(way.steps.count * float(masses @ (losses - mean) ** 2))
        scale = 1 / max(deviation, 1e-300)
        logs = np.log(np.maximum(masses, 1e-300))
        steepest = max(1e4 * scale, 50.0 * way.steps.count / float(way.width))
        positive = np.geomspace(1e-2 * scale, steepest, _ORDERS)
        beyond = steepest * np.array([1.5, 3.0, 10.0, 100.0])
        orders = np.concatenate([-positive[::-4], [0.0], positive, beyond])
        heights = way.steps.count * _moments(logs, losses, orders)[0]
        return cls(way=way, losses=losses, logs=logs, orders=orders, heights=heights)

    @property
    def curve(self) -> Curve:
        """At positive orders, with derivatives."""
        positive = self.orders[self.orders > 0][:_ORDERS]
        parts = [self.way.steps.count * part for part in _moments(self.logs, self.losses, positive)]
        return Curve(c=positive, k=parts[0], k1=parts[1], k2=np.maximum(parts[2], 1e-300))

    def plan(self, *, epsilon: float | None = None, log_delta: float | None = None) -> Plan | None:
        """For the delta at an epsilon, or the epsilon at a delta; None where no grid serves."""
        curve = self.curve
        if epsilon is None:
            assert log_delta is not None
            tilt, near = saddle_for_delta(curve, log_delta)
        else:
            tilt, near = saddle_for_epsilon(curve, epsilon)[0], epsilon
        window = self._reach(tilt)
        width = window[1] - window[0]
        ladder = self._ladder(tilt, width)
        if ladder is None:
            return None
        step = float(ladder.above.step)
        first, last = math.floor(window[0] / step) - 2, math.ceil(window[1] / step) + 2
        size = 1 << (last - first).bit_length()
        if size > _LARGEST:
            return None
        return Plan(
            ladder=ladder,
            window=Window(first=first, size=size, tilt=tilt, higher=window[2], lower=window[3]),
            near=near,
        )

    def _reach(self, tilt: float) -> tuple[float, float, float, float]:
        """Bottom and top of the window, and orders for both."""
        height = self.way.steps.count * float(
            _moments(self.logs, self.losses, np.array([tilt]))[0][0]
        )
        above, below = self.orders > tilt * 1.001, self.orders < tilt * 0.999
        tops = (self.heights[above] - height + _OUTSIDE) / (self.orders[above] - tilt)
        bottoms = (height - self.heights[below] - _OUTSIDE) / (tilt - self.orders[below])
        higher, lower = int(np.argmin(tops)), int(np.argmax(bottoms))
        return (
            float(bottoms[lower]),
            float(tops[higher]),
            float(self.orders[above][higher]),
            float(self.orders[below][lower]),
        )

    def _ladder(self, tilt: float, width: float) -> Ladder | None:
        """With as many cells as make the laws above and below alike, if the window has room."""
        steps, long = self.way.steps, float(self.way.width)
        if not steps.inner:
            return Ladder.of(self.way, 1)
        most = min(max(int(long * _MOST / width), 4), _MOST)
        rungs = min(max(math.ceil(long * _FEWEST / width), 4), most)
        while True:
            ladder = Ladder.of(self.way, rungs)
            excess = steps.count * ladder.spread(tilt) / _GOAL
            if excess <= 1 or rungs == most:
                return ladder
            rungs = min(math.ceil(rungs * min(max(1.1 * math.sqrt(excess), 1.3), 8.0)), most)


def _moments(logs: Array, losses: Array, orders: Array) -> tuple[Array, Array, Array]:
    """The cumulant of one step at these orders, with two derivatives."""
    exponents = np.multiply.outer(orders, losses) + logs
    peaks = exponents.max(axis=1, keepdims=True)
    weights = np.exp(exponents - peaks)
    total = weights.sum(axis=1)
    first = weights @ losses / total
    second = np.maximum(weights @ (losses * losses) / total - first * first, 0.0)
    return peaks[:, 0] + np.log(total), first, second
