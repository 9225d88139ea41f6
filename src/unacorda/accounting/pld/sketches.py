"""Rough laws and their cumulants, from which sums are planned; nothing here is certified."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from unacorda.accounting.pld.grid import law_above
from unacorda.accounting.profiles.boxes import Array
from unacorda.accounting.profiles.curves import Curve

_ORDERS = 128
_SCALE = np.geomspace(1e-9, 1e4, 600)
_STEEPEST = 1e5  # the largest tilt times the largest loss
_MILD = 0.1  # an order at which rare and huge losses do not outweigh all others


@dataclass(frozen=True, slots=True, kw_only=True)
class Sketch:
    """Cumulants of one copy of each part at many orders, counts, ranges and deviations."""

    orders: Array = field(repr=False)
    cumulants: Array = field(repr=False)
    counts: tuple[int, ...]
    ranges: tuple[tuple[float, float], ...]
    deviations: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Rough:
    """A law of one part, too coarse to prove anything."""

    low: float
    high: float
    losses: Array = field(repr=False)
    logs: Array = field(repr=False)
    variance: float


def sketch(parts: Sequence[tuple[Curve, int]], known: dict[int, Rough]) -> Sketch:
    """The cumulants of the parts, each on its whole range, from a few hundred nodes.

    known: rough laws of curves by their identity, to be kept between sketches.
    """
    nodes = int(np.clip((1 << 14) // len(parts), 256, 2048))
    for curve, _ in parts:
        if id(curve) not in known:
            known[id(curve)] = _rough(curve, nodes)
    laws = [known[id(curve)] for curve, _ in parts]
    variance = math.fsum(count * law.variance for (_, count), law in zip(parts, laws, strict=True))
    longest = max(max(abs(law.low), abs(law.high)) for law in laws)
    if variance < 1e-20 * longest**2:  # a sum that does not vary at all
        variance = 1e-6 * longest**2
    scale = 1 / math.sqrt(max(variance, 1e-16))
    least = min(1e-2 * scale, _MILD)
    orders = np.concatenate(
        (-scale * np.geomspace(1e3, 1e-2, 32), [0.0], np.geomspace(least, scale * 1e6, _ORDERS))
    )
    cumulants = np.zeros((len(parts), len(orders)))
    for row, law in zip(cumulants, laws, strict=True):
        if not len(law.losses):
            continue
        exponents = law.logs + orders[:, None] * law.losses
        peaks = np.max(exponents, axis=1)
        with np.errstate(under="ignore"):
            row[:] = peaks + np.log(np.sum(np.exp(exponents - peaks[:, None]), axis=1))
    return Sketch(
        orders=orders,
        cumulants=cumulants,
        counts=tuple(count for _, count in parts),
        ranges=tuple((law.low, law.high) for law in laws),
        deviations=tuple(math.sqrt(max(law.variance, 0.0)) for law in laws),
    )


def _rough(curve: Curve, nodes: int) -> Rough:
    if curve.atoms is not None:
        low, high = curve.atoms.ends
        weights, losses = curve.atoms.masses, curve.atoms.losses
    else:
        low, high = _range(curve)
        step = Fraction(max((high - low) / nodes, 1e-12))
        if curve.atomic and curve.spacing is not None and curve.spacing > 4 * step:
            step = curve.spacing / math.floor(curve.spacing / (2 * step))
        first, last = math.floor(low / step), math.ceil(high / step) + 1
        weights = law_above(curve, step=step, first=first, last=last).weights
        losses = np.asarray(np.arange(first, last + 1) * float(step))
    present = weights > 0
    logs: Array = np.log(weights[present])
    return Rough(low, high, losses[present], logs, _variance(weights, losses))


def heights(drawn: Sketch) -> Array:
    """The cumulant of the sum at all orders."""
    heights: Array = np.asarray(drawn.counts, dtype=np.float64) @ drawn.cumulants
    return heights


def tilts_of(drawn: Sketch) -> tuple[Array, Array]:
    """The orders that may be tilts, and the cumulant of the sum there."""
    orders = drawn.orders
    longest = max(max(abs(low), abs(high)) for low, high in drawn.ranges)
    positive = (orders > 0) & (orders * longest <= _STEEPEST)
    positive[np.flatnonzero(orders > 0)[0]] = True
    positive[-1] = False
    return orders[positive], heights(drawn)[positive]


def _range(curve: Curve) -> tuple[float, float]:
    """Losses between which all of the law lies (below: but for 2e-14 of it)."""
    # where a profile is only bounded from above, its lower side is of another law, or says nothing
    above = curve.attained is not None or float(curve(np.zeros(1)).lower[0]) == 0.0
    low = min(_first(_SCALE, lambda x: _gap(curve, -x, above=above) <= 2e-14), 40.0)
    return -low, highest(curve, drop=1e-305)


def highest(curve: Curve, *, drop: float) -> float:
    """The loss above which but about `drop` of the law lies."""
    limit = float(curve.infinity_above or curve.infinity)
    return _first(_SCALE, lambda x: curve(x).upper <= limit * (1 + 1e-13) + drop)


def _gap(curve: Curve, losses: Array, *, above: bool) -> Array:
    found = curve(losses)
    return (found.upper if above else found.lower) + np.expm1(losses)


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
