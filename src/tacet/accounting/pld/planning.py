"""Plans: the range of each part, the tilt, the window and the step, from coarse laws.

Nothing here is certified and nothing needs to be: a bad plan makes the interval wide, not wrong.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tacet.accounting.pld.convolution import Window
from tacet.accounting.pld.grid import law_above
from tacet.accounting.profiles.boxes import Array
from tacet.accounting.profiles.curves import Curve

__all__ = ["LARGEST", "Plan", "Sketch", "plan", "sketch"]

LARGEST = 1 << 22
"""Nodes of the largest grid, of a part or of the window."""

_ORDERS = 160
_OUTSIDE = 46.0  # e^-46 = 1e-20 of the tilted mass may lie beyond either end of the window


@dataclass(frozen=True, slots=True, kw_only=True)
class Sketch:
    """Cumulants of the sum at many orders, the parts' ranges, and what they were drawn for."""

    orders: Array = field(repr=False)
    cumulants: Array = field(repr=False)
    ranges: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The step, the window, and each part's first and last node."""

    step: Fraction
    window: Window
    nodes: tuple[tuple[int, int], ...]


def sketch(parts: Sequence[tuple[Curve, int]]) -> Sketch:
    """The cumulant of the sum of the parts, each on its whole range, at a few thousand nodes."""
    nodes = int(np.clip((1 << 17) // len(parts), 256, 4096))
    ranges = tuple(_range(curve, drop=1e-305) for curve, _ in parts)
    laws = []
    for (curve, count), (low, high) in zip(parts, ranges, strict=True):
        step = Fraction(max((high - low) / nodes, 1e-12))
        if curve.atomic and curve.spacing is not None and curve.spacing > 4 * step:
            step = curve.spacing / math.floor(curve.spacing / (2 * step))
        first, last = math.floor(low / step), math.ceil(high / step) + 1
        law = law_above(curve, step=step, first=first, last=last)
        losses: Array = np.asarray(np.arange(first, last + 1) * float(step))
        laws.append((law.weights, losses, count))
    variance = math.fsum(count * _variance(weights, losses) for weights, losses, count in laws)
    scale = 1 / math.sqrt(max(variance, 1e-16))
    orders = np.concatenate(
        (-scale * np.geomspace(1e3, 1e-2, 40), [0.0], scale * np.geomspace(1e-2, 1e6, _ORDERS))
    )
    cumulants = np.zeros_like(orders)
    for weights, losses, count in laws:
        present = weights > 0
        logs, places = np.log(weights[present]), losses[present]
        for index, order in enumerate(orders):
            exponents = logs + order * places
            peak = float(np.max(exponents))
            cumulants[index] += count * (peak + math.log(np.sum(np.exp(exponents - peak))))
    return Sketch(orders=orders, cumulants=cumulants, ranges=ranges)


def plan(
    parts: Sequence[tuple[Curve, int]],
    drawn: Sketch,
    *,
    grid: int,
    epsilon: float | None = None,
    log_delta: float | None = None,
) -> Plan:
    """A plan for the delta at `epsilon`, or for the epsilon at e^`log_delta`."""
    orders, heights = drawn.orders, drawn.cumulants
    positive = orders > 0
    tilts, rises = orders[positive], heights[positive]
    kernel = tilts * np.log(tilts) - (1 + tilts) * np.log1p(tilts)
    if epsilon is None:
        assert log_delta is not None
        best = int(np.argmin((rises + kernel - log_delta) / tilts))
        goal = log_delta
    else:
        exponents = rises + kernel - tilts * epsilon
        best = int(np.argmin(exponents))
        goal = float(exponents[best]) - 3.0
    tilt, height = float(tilts[best]), float(rises[best])
    reach = math.inf
    for _ in range(2):  # the second time without orders so large that round-off would rule them
        above = (orders > tilt) & (orders - tilt <= reach)
        below = (orders < tilt) & (tilt - orders <= reach)
        above[-1] |= not above.any()
        below[0] |= not below.any()
        tops = (heights[above] - height + _OUTSIDE) / np.maximum(orders[above] - tilt, 1e-12)
        bottoms = (height - heights[below] - _OUTSIDE) / (tilt - orders[below])
        top, higher = float(np.min(tops)), float(orders[above][np.argmin(tops)])
        bottom, lower = float(np.max(bottoms)), float(orders[below][np.argmax(bottoms)])
        reach = 100.0 / max(top - bottom, 1e-9)
    width = max(top - bottom, 1e-9)
    ranges = []
    for (curve, count), (low, high) in zip(parts, drawn.ranges, strict=True):
        drop = math.exp(max(goal - 37.0 - math.log(count * len(parts)), -700.0))
        ranges.append(_range(curve, drop=drop, within=(low, high)))
    longest = max(high - low for low, high in ranges)
    step = _step(parts, max(width / grid, longest / (LARGEST // 32)), width)
    first, last = math.floor(bottom / step) - 2, math.ceil(top / step) + 2
    size = min(LARGEST, max(16, 1 << (last - first).bit_length()))
    nodes = tuple(_nodes(low, high, step) for low, high in ranges)
    window = Window(first=first, size=size, tilt=tilt, higher=higher, lower=lower)
    return Plan(step=step, window=window, nodes=nodes)


def _nodes(low: float, high: float, step: Fraction) -> tuple[int, int]:
    """First and last node; a sixteenth of the range is left free below, for the lower law."""
    margin = (high - low) / 16
    first, last = math.floor((low - margin) / step) - 2, math.ceil(high / step) + 1
    return max(first, last - LARGEST), last


def _step(parts: Sequence[tuple[Curve, int]], wanted: float, width: float) -> Fraction:
    """A step near the wanted one of which every atom's place is a multiple, if there is one."""
    spacings = [curve.spacing for curve, _ in parts if curve.spacing is not None]
    if not spacings:
        return _near(min(wanted, 0.25))
    common = spacings[0]
    for spacing in spacings[1:]:
        common = _common(common, spacing)
    if all(curve.atomic for curve, _ in parts) and common >= width / (LARGEST // 2):
        return common
    if common >= wanted:
        return common / math.ceil(common / _near(min(wanted, 0.25)))
    if common >= width / (LARGEST // 2):
        return common
    return _near(min(wanted, 0.25))


def _near(value: float) -> Fraction:
    return Fraction(value)


def _common(one: Fraction, two: Fraction) -> Fraction:
    """The greatest number of which both are whole multiples."""
    denominator = math.lcm(one.denominator, two.denominator)
    return Fraction(
        math.gcd(
            one.numerator * (denominator // one.denominator),
            two.numerator * (denominator // two.denominator),
        ),
        denominator,
    )


def _range(
    curve: Curve, *, drop: float, within: tuple[float, float] | None = None
) -> tuple[float, float]:
    """Losses between which all but about `drop` of the law lies (below: 2e-14 of it)."""
    scale = np.geomspace(1e-9, 1e4, 600)
    limit = float(curve.infinity)
    high = _first(scale, lambda x: curve(x).upper <= limit * (1 + 1e-13) + drop)
    low = min(_first(scale, lambda x: _gap(curve, -x) <= 2e-14), 40.0)
    if within is not None:
        high, low = min(high, within[1]), min(low, -within[0])
    return -low, high


def _gap(curve: Curve, losses: Array) -> Array:
    found = curve(losses)
    return found.lower + np.expm1(losses)


def _first(scale: Array, holds: Callable[[Array], NDArray[np.bool_]]) -> float:
    """The least number of the scale from which on the condition holds, else the last one."""
    fails = np.flatnonzero(~holds(scale))
    index = 0 if not len(fails) else min(int(fails[-1]) + 1, len(scale) - 1)
    return float(scale[index])


def _variance(weights: Array, losses: Array) -> float:
    mass = float(np.sum(weights))
    if mass <= 0:
        return 0.0
    mean = float(np.sum(weights * losses)) / mass
    return float(np.sum(weights * (losses - mean) ** 2)) / mass
