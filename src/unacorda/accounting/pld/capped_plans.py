"""Where losses of sampled steps are capped, how they are tilted, and which window their sum needs.

A plan proves nothing; a bad one makes an interval wide.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from unacorda.accounting.pld.sampled_cells import SampledGaussian
from unacorda.accounting.profiles.boxes import Array

__all__ = ["Plan", "Planner"]

_TILTS = np.geomspace(1e-5, 1e10, 150)
_CLOSER = 3
_CELLS, _FINE = 700, 0.015
_CAPS = 24
_OUTSIDE, _FAR_OUTSIDE = 34.0, 18.0
_ORDERS = np.geomspace(1e-3, 1e3, 40)
_UNLIKELY = -18.0  # ln of the share of delta that a cap may blur
_FEWEST = 8  # cells below a cap
_OFTEN = 3.0  # copies above a cap, in the mean
_LOWEST = 9.0
_HALVINGS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """epsilon: about where delta is the goal; tops: of each part the offset above which is capped.

    low, width: of the window; higher, lower: orders for Chernoff's bounds of what lies outside;
    slope: for that of the sum of the others under the other law, see docs/proofs/capped.md.
    """

    epsilon: float
    tops: tuple[float, ...]
    tilt: float
    low: float
    width: float
    higher: float
    lower: float
    slope: float


@dataclass(frozen=True, slots=True)
class _Part:
    """Planning cells of a step, by increasing offsets: losses, ln of masses and of the others'."""

    offsets: Array = field(repr=False)
    losses: Array = field(repr=False)
    logs: Array = field(repr=False)
    tail: float  # ln of the mass beyond
    count: int

    def cumulants(self, orders: Array, last: int) -> Array:
        """`count` times ln of the sum of the masses of so many cells times e^(order loss)."""
        exponents = self.logs[:last] + np.multiply.outer(orders, self.losses[:last])
        peaks = exponents.max(axis=-1)
        sums = np.exp(exponents - peaks[..., None]).sum(axis=-1)
        found: Array = self.count * (peaks + np.log(sums))
        return found

    def beyond(self, last: int) -> tuple[float, float]:
        """The masses above so many cells, under both laws."""
        mass = float(np.exp(self.logs[last:]).sum()) + math.exp(self.tail)
        other = float(np.exp(self.logs[last:] - self.losses[last:]).sum())
        return mass, other


class Planner:
    """Plans for one composition in one direction."""

    def __init__(
        self, steps: Sequence[tuple[SampledGaussian, int]], *, remove: bool, far: float
    ) -> None:
        """far: shares below e^-far are left out."""
        self._remove = remove
        self._parts = [_part(step, count, remove=remove, far=far) for step, count in steps]

    @classmethod
    def of_pieces(
        cls, step: SampledGaussian, pieces: Sequence[tuple[tuple[float, float], int]]
    ) -> Planner:
        """Of a removed unit, given how many steps have their outputs between which two places."""
        made = cls([], remove=True, far=0.0)
        made._parts = [_piece(step, ends, count) for ends, count in pieces]
        return made

    def whole(self, epsilon: float, goal: float) -> Plan | None:
        """The plan at an epsilon without a cap, where e^goal is all that matters.

        None where the floats do not serve.
        """
        lasts = [len(part.losses) for part in self._parts]
        tilts = _TILTS
        for _ in range(_CLOSER):
            heights = self._sum(tilts, lasts) + _kernel(tilts) - tilts * epsilon
            if not np.isfinite(heights).any():
                return None
            tilt = float(tilts[np.nanargmin(heights)])
            tilts = tilt * (tilts[1] / tilts[0]) ** np.linspace(-1, 1, 25)
        outside = min(max(float(np.nanmin(heights)) - goal, 0.0) + _FAR_OUTSIDE, 200.0)
        low, high, higher, lower = self._window(tilt, lasts, outside=outside)
        high = max(high, epsilon + 1e-3 * abs(epsilon))
        if not (math.isfinite(high - low) and low < high):
            return None
        return Plan(
            epsilon=epsilon,
            tops=(),
            tilt=tilt,
            low=low,
            width=high - low,
            higher=higher,
            lower=lower,
            slope=0.0,
        )

    def reach(self, tilt: float) -> tuple[float, float, float, float]:
        """The window under a tilt: its ends, and the orders that prove them."""
        return self._window(tilt, [len(part.losses) for part in self._parts])

    def best(self, goal: float, *, near: float | None = None, capped: bool = True) -> Plan | None:
        """The plan with the narrowest window for a delta of e^goal.

        near: its epsilon, where it is known. capped: else the highest cap alone is tried.
        """
        caps = self._caps() if capped else [math.inf]
        plans = [self._capped(cap, goal, near) for cap in caps]
        return min((plan for plan in plans if plan), key=lambda plan: plan.width, default=None)

    def likely_log_delta(self, epsilon: float) -> float:
        """About ln of the delta at an epsilon: by Chernoff's bound, or that one loss is larger."""
        heights = self._sum(_TILTS, [len(part.losses) for part in self._parts])
        found = min(float(np.min(heights + _kernel(_TILTS) - _TILTS * epsilon)), 0.0)
        if not self._remove:
            return found
        lasts = [int(np.searchsorted(part.losses, epsilon)) for part in self._parts]
        pairs = zip(self._parts, lasts, strict=True)
        ones = max(part.count * part.beyond(last)[0] for part, last in pairs)
        return min(found, math.log(max(ones, 1e-300)))

    def _caps(self) -> list[float]:
        """Losses at which may be capped, the last one above all."""
        if not self._remove:
            return [math.inf]
        top = max(float(part.losses[-1]) for part in self._parts)
        least = min(float(part.offsets[0]) for part in self._parts)
        least = max(least, 1e-9 * top, 1e-12)
        return [*np.geomspace(least, max(top, 2 * least), _CAPS).tolist()[:-1], math.inf]

    def _capped(self, cap: float, goal: float, near: float | None) -> Plan | None:
        lasts = [
            int(np.searchsorted(part.losses, cap)) if self._remove else len(part.losses)
            for part in self._parts
        ]
        if min(lasts) < _FEWEST:
            return None
        if cap < math.inf:  # of parts that have losses above
            ends = zip(self._parts, lasts, strict=True)
            tops = [part.losses[last - 1] for part, last in ends if last < len(part.losses)]
            cap = float(min(tops, default=math.inf))
        heights = self._sum(_TILTS, lasts)
        beyond = [part.beyond(last) for part, last in zip(self._parts, lasts, strict=True)]
        masses = [
            (part.count * one, part.count * other)
            for part, (one, other) in zip(self._parts, beyond, strict=True)
        ]
        several, other = math.fsum(one for one, _ in masses), math.fsum(one for _, one in masses)
        if several > _OFTEN:
            return None

        def log_delta(epsilon: float) -> float:
            apart = -math.expm1(-several) + math.exp(min(epsilon, 700.0)) * math.expm1(-other)
            inner = float(np.min(heights + _kernel(_TILTS) - _TILTS * epsilon))
            return float(np.logaddexp(inner, math.log(max(apart, 1e-320))))

        offsets = tuple(
            float(part.offsets[last - 1]) for part, last in zip(self._parts, lasts, strict=True)
        )
        epsilon = near if near is not None else _meeting(log_delta, goal)
        if epsilon is None or epsilon >= 0.98 * cap:
            return None
        tilt = float(_TILTS[np.argmin(heights + _kernel(_TILTS) - _TILTS * epsilon)])
        slope = 0.0
        if cap < math.inf and other > 0:
            orders = _ORDERS / (cap - epsilon)
            turned = self._sum(-1 - orders, lasts) - orders * (cap - epsilon)
            slope = float(orders[np.argmin(turned)])
            if epsilon + math.log(other) + other + float(turned.min()) > goal + _UNLIKELY:
                return None
        low, high, higher, lower = self._window(tilt, lasts)
        high = max(high, epsilon + 1e-3 * abs(epsilon))
        return Plan(
            epsilon=epsilon,
            tops=offsets,
            tilt=tilt,
            low=low,
            width=high - low,
            higher=higher,
            lower=lower,
            slope=slope,
        )

    def _sum(self, orders: Array, lasts: Sequence[int]) -> Array:
        total = np.zeros_like(orders)
        for part, last in zip(self._parts, lasts, strict=True):
            total = total + part.cumulants(orders, last)
        return total

    def _window(
        self, tilt: float, lasts: Sequence[int], *, outside: float = _OUTSIDE
    ) -> tuple[float, float, float, float]:
        """Ends outside which the tilted mass is below e^-outside, and orders that prove it."""
        mean = variance = 0.0
        longest = 1e-300
        for part, last in zip(self._parts, lasts, strict=True):
            logs = part.logs[:last] + tilt * part.losses[:last]
            weights = np.exp(logs - logs.max())
            weights /= weights.sum()
            centre = float(weights @ part.losses[:last])
            mean += part.count * centre
            variance += part.count * float(weights @ (part.losses[:last] - centre) ** 2)
            longest = max(longest, float(np.abs(part.losses[:last]).max()))
        deviation = math.sqrt(max(variance, 1e-300))
        gaps = np.geomspace(1e-2 / max(longest, deviation), 1e3 / min(longest, deviation), 50)
        orders = np.concatenate(([tilt], tilt + gaps, tilt - gaps))
        heights = self._sum(orders, lasts)
        n = len(gaps)
        rises = np.where(np.isfinite(heights[1 : n + 1]), heights[1 : n + 1] - heights[0], np.inf)
        drops = np.where(np.isfinite(heights[n + 1 :]), heights[0] - heights[n + 1 :], -np.inf)
        tops, bottoms = (rises + outside) / gaps, (drops - outside) / gaps
        high, low = int(np.argmin(tops)), int(np.argmax(bottoms))
        return (
            float(bottoms[low]),
            float(tops[high]),
            float(tilt + gaps[high]),
            float(tilt - gaps[low]),
        )


def _part(step: SampledGaussian, count: int, *, remove: bool, far: float) -> _Part:
    reach = math.sqrt(2 * far)
    edges = np.linspace(-_LOWEST, reach + (step.mean if remove else 0.0), _CELLS)
    cells = step.cells(edges)
    lump = step.below(float(edges[0]))
    offsets = np.concatenate((lump.offset, cells.offset))
    null = np.concatenate((lump.log_null, cells.log_null))
    above = step.above(float(edges[-1]))
    tail = float(above.log_null[0])
    if remove:
        losses, logs = step.base + offsets, null + step.base + offsets
        tail += step.base + float(above.offset[0])
    else:
        losses, logs = -step.base - offsets, null
    return _Part(offsets, losses, logs, tail, count)


def _kernel(tilts: Array) -> Array:
    """Ln of the largest value of e^(-c d) (1 - e^-d), up to its sign."""
    found: Array = tilts * np.log(tilts) - (1 + tilts) * np.log1p(tilts)
    return found


def _piece(step: SampledGaussian, ends: tuple[float, float], count: int) -> _Part:
    """As `_part`, of what lies between two places, the first maybe -inf."""
    low = max(ends[0], min(-_LOWEST, ends[1] - 1.0))
    many = min(max(math.ceil((ends[1] - low) / _FINE), _CELLS // 2), 4 * _CELLS)
    cells = step.cells(np.linspace(low, ends[1], many))
    null, offsets = cells.log_null, cells.offset
    if ends[0] == -math.inf:
        lump = step.below(low)
        null, offsets = np.append(lump.log_null, null), np.append(lump.offset, offsets)
    losses = step.base + offsets
    return _Part(offsets, losses, null + losses, -math.inf, count)


def _meeting(log_delta: Callable[[float], float], goal: float) -> float | None:
    """About where a falling function meets the goal, above 0."""
    low, high = 1e-12, 1e-11
    if log_delta(low) <= goal:
        return low
    while log_delta(high) > goal:
        low, high = high, high * 8
        if high > 1e7:
            return None
    for _ in range(_HALVINGS):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if log_delta(middle) > goal else (low, middle)
        if high < low * (1 + 1e-6):
            break
    return high
