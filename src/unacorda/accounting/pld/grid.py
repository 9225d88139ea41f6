"""Laws of the privacy loss on a grid whose profiles lie above, or below, a given profile.

A law is any non-negative measure on the grid and at infinity; its profile is the sum of
w (1 - e^{epsilon - loss})+ and the mass at infinity. If the profile lies above (below) another one
everywhere, the same holds after composition with anything: docs/proofs/pld.md, Lemma 1.
Weights are found from values of the profile at the nodes x = e^loss, where it is convex.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from unacorda.accounting.profiles.boxes import Array, Box, box, up
from unacorda.accounting.profiles.curves import PrivacyProfile
from unacorda.extras import later

scipy = later("scipy")

_U = 2.0**-53
_CHARGE = 16 * _U  # of a quotient of differences by expm1: see docs/proofs/pld.md, Lemma 4
_PASSES = 20
_MENDED = 1e-12
_FINER = 4
_AHEAD = 32
_EXCESS = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """A measure of the loss: weights[i] at (first + i) times the step, and a mass at infinity."""

    first: int
    weights: Array = field(repr=False)
    infinity: float


def places(first: int, count: int, step: Fraction) -> Box:
    """The losses of `count` nodes from number `first` on, enclosed."""
    width = box(step)
    numbers = np.arange(first, first + count, dtype=np.float64)
    return box(numbers) * width


def law_above(curve: PrivacyProfile, *, step: Fraction, first: int, last: int) -> Law:
    """A law on nodes first..last whose profile is nowhere below the curve.

    The profile between two nodes is a chord, above a convex function; below the first node the
    chord to (0, 1); what lies beyond the last node goes to infinity. Where the curve is known so
    roughly that this makes mass, nodes above a chord of others are left out.

    Bound       upper.
    Source      Doroshenko, Ghazi, Kamath, Kumar, Manurangsi 2022 (connect the dots).
    """
    values = np.minimum.accumulate(curve(places(first, last - first + 1, step)).upper)
    top = _top(curve, step)
    if top is not None and first <= top <= last:
        values[top - first :] = float(box(curve.most_infinity).upper)  # not rounded
    weights = _kinks(values, np.arange(len(values)), step)
    if float(np.sum(weights)) + float(values[-1]) > 1 + _EXCESS:
        weights = _kinks(values, np.flatnonzero(_corners(values, step)), step)
    return Law(first=first, weights=weights, infinity=float(values[-1]))


def _kinks(values: Array, kept: NDArray[np.int64], step: Fraction) -> Array:
    """The weights of the law whose profile is the broken line through (0, 1) and kept nodes."""
    left, right = _slopes(values, kept, step)
    left[0] = 1.0 - values[0]
    weights = np.zeros_like(values)
    weights[kept] = np.maximum(left - right, 0.0) + _CHARGE * (left + right)
    return weights


def law_below(
    curve: PrivacyProfile, *, step: Fraction, first: int, last: int, spread: bool = False
) -> Law:
    """A law on nodes first..last whose profile is nowhere above the curve.

    spread: nowhere above the curve after its losses were spread to the nodes, as `law_above` does.

    At each node the profile is lowered by as much as a chord of the next cells can lie above a
    convex function with these values, though not below 1 - x at the left end; of the lowered
    points the convex minorant is taken. Finite mass beyond the last node is dropped.

    Bound       lower.
    """
    nodes = places(first, last - first + 1, step)
    floor = float(box(curve.infinity).lower)
    if spread or lies_on(curve, step):
        values = np.maximum.accumulate(curve(nodes).lower[::-1])[::-1]
        drops = np.zeros_like(values)  # linear between the nodes: chords are exact
    else:
        found = curve(places(first * _FINER, (last - first) * _FINER + 1, step / _FINER))
        fine = np.maximum.accumulate(found.lower[::-1])[::-1]
        values = fine[::_FINER]
        drops = _drops(fine, np.maximum(found.upper - fine, 0.0), step)
    points = values - drops
    points = points - max(float(points[-1]) - floor, 0.0) * (1 + 4 * _U)
    line = (-nodes.expm1()).lower  # every profile is at least 1 - x
    if spread:
        points = np.maximum(np.maximum(points, floor), line)
        points[-1] = floor
    else:
        _level_end(points, values, curve, floor, first=first, step=step)
    zero = min(-first, len(points))
    if not _raise_start(points, line, values, step, exact=not drops.any(), before=zero):
        weights = np.zeros_like(points)
        if 0 <= zero < len(points):
            weights[zero] = 1.0 - 16 * _U  # the grid shows no more than that there is no gain
        return Law(first=first, weights=weights, infinity=0.0)
    kept = _convex_minorant(points, step)
    left, right = _slopes(points, kept, step)
    weights = np.zeros_like(points)
    weights[kept], infinity = _paid(left - right - _CHARGE * (left + right), floor)
    # Left of the first kink the law's profile is a line, which stays below 1 - x if it is not
    # steeper. Slopes are compared after multiplication by x at the first node; where rounding
    # made one a little steeper, a factor mends it.
    slopes = right * np.exp(-(kept * float(step)) * (1 - 8 * _U)) * (1 + _CHARGE)
    steepest = math.exp(float(nodes.lower[0])) * (1 - _CHARGE)
    factors = np.divide(steepest, slopes, out=np.ones_like(slopes), where=slopes > steepest)
    start = int(np.flatnonzero(factors >= 1 - _MENDED)[0])  # the last slope is 0
    weights[: kept[start] + 1] = 0.0
    factor = float(factors[start]) * (1 - 4 * _U)
    return Law(first=first, weights=weights * factor, infinity=infinity * factor)


def lies_on(curve: PrivacyProfile, step: Fraction) -> bool:
    """Whether all atoms of the curve, which has nothing else, lie on nodes."""
    on_nodes = curve.spacing is not None and (curve.spacing / step).denominator == 1
    return curve.atomic and on_nodes


def _top(curve: PrivacyProfile, step: Fraction) -> int | None:
    """The number of the node at the largest finite loss, where that is known and on a node."""
    if curve.peak is None or curve.spacing is None:
        return None
    number = curve.spacing / step
    return int(number) if number.denominator == 1 else None


def _level_end(
    points: Array, values: Array, curve: PrivacyProfile, floor: float, *, first: int, step: Fraction
) -> None:
    """Put the last nodes on the floor, from the cell before the first one below it, in place.

    Where an atom of known mass at the largest loss lies on a node, the line that belongs to it
    alone bounds the curve from below, and only the node before is lowered to it.
    """
    under = np.flatnonzero(points < floor)
    start = int(under[0]) if len(under) else len(points) - 1
    number = _top(curve, step)
    if curve.peak is not None and number is not None and 1 < number - first <= start + 1:
        top = number - first
        _, behind = _growth(step, 1)
        line = floor + float(curve.peak) * float(behind) * (1 - _CHARGE)
        points[top - 1] = min(line * (1 - 4 * _U), float(values[top - 1]))
        points[top:] = floor
        return
    if values[start] > floor or points[start] < floor:
        start = max(start - 1, 0)
    points[start:] = floor


def _raise_start(
    points: Array, line: Array, values: Array, step: Fraction, *, exact: bool, before: int
) -> bool:
    """Put the first nodes on the line 1 - x, as far as lowering went below it, in place.

    The chord from the last of them, node a, to the next then starts higher than `_drops` counted
    on, so node a + 1 is lowered by the whole kink at a times the cell, which is enough. Where the
    lowering is far smaller than that, as beside an atom on the grid, the line is lowered instead.
    False where the line would have to reach the node of loss 0, number `before`.
    """
    below = np.flatnonzero(points < line)
    if not len(below):
        points[0] = line[0]
        return True
    last = int(below[-1])
    shift = float(np.max(line[: last + 1] - points[: last + 1])) * (1 + 8 * _U)
    if exact or shift < _leap(values, last, step) * float(step):
        points[: last + 1] = np.minimum(points[: last + 1], line[: last + 1] - shift)
        return last < before or exact
    while last + 2 < len(points):
        lowered = float(values[last + 1]) - _leap(values, last, step)
        points[last + 1] = min(float(points[last + 1]), lowered)
        if points[last + 1] >= line[last + 1]:
            break
        last += 1
    points[: last + 1] = line[: last + 1]
    return last < before


def _leap(values: Array, node: int, step: Fraction) -> float:
    """The kink at a node times the cell to its right: how far a line may run past a chord."""
    ahead, behind = _growth(step, 1)
    right = (values[node] - values[min(node + 1, len(values) - 1)]) / ahead
    left = (1.0 - values[0]) if node == 0 else (values[node - 1] - values[node]) / behind
    kink = max(float(left - right), 0.0) + _CHARGE * float(left + right)
    return kink * float(ahead) * (1 + 64 * _U)


def _growth(step: Fraction, cells: float | NDArray[np.int64]) -> tuple[Array, Array]:
    """e^{cells step} - 1 and 1 - e^{-cells step}."""
    width = np.asarray(cells * float(step))
    with np.errstate(over="ignore"):
        return np.expm1(width), -np.expm1(-width)


def _drops(fine: Array, widths: Array, step: Fraction) -> Array:
    """How far each node is lowered: the most that a chord of its two cells can be too high.

    The curve is known at _FINER places a cell. In a small cell a convex function lies above the
    lines through the two places before and the two places after it: with kinks d1, d2 at its ends,
    at most d1 d2 / (d1 + d2) times the cell's length below its chord. To this comes how far the
    places lie below the chord of the whole cell. Where values are known only to `widths`, these
    are added.
    """
    ahead, behind = _growth(step / _FINER, 1)
    falls = -np.diff(fine)
    right = np.append(falls, 0.0) / ahead
    left = np.concatenate(([max(1.0 - float(fine[0]), 0.0)], falls / behind))
    kinks = np.maximum(left - right, 0.0) + _CHARGE * (left + right)
    one, two = kinks[:-1], kinks[1:] * math.exp(-float(step / _FINER))
    both = one + two
    small = np.divide(one * two, both, out=np.zeros_like(both), where=both > 0) * ahead
    wide = np.maximum(widths[:-1], widths[1:])
    reach = np.maximum(wide, np.maximum(np.append(wide[1:], 0.0), np.append(0.0, wide[:-1])))
    small = small + (2 + 2 * math.exp(float(step))) * reach
    starts, ends = fine[:-1:_FINER], fine[_FINER::_FINER]
    length = math.expm1(float(step))
    below = np.zeros_like(starts)
    for index in range(1, _FINER):
        share = math.expm1(float(step) * index / _FINER) / length
        chord = starts - (starts - ends) * share
        place = fine[index::_FINER][: len(starts)]
        below = np.maximum(below, chord - place + 16 * _U * (starts - ends))
    gaps: Array = up(below + small.reshape(-1, _FINER).max(axis=1), ulps=64)
    drops: Array = np.maximum(np.append(gaps, 0.0), np.append(0.0, gaps))
    return drops


def _convex_minorant(points: Array, step: Fraction) -> NDArray[np.int64]:
    """Numbers of nodes that span a function below the points, convex but for rounding.

    Slopes in x = e^loss are made ascending by pooling neighbors, in linear time. What rounding
    does to that choice is harmless: a node that a chord might pass above is kept after all.
    """
    chosen = _corners(points, step)
    for _ in range(_PASSES):
        over = _over(points, np.flatnonzero(chosen), float(step))
        if not over.any():
            return np.flatnonzero(chosen)
        chosen |= over
    return np.arange(len(points))


def _corners(points: Array, step: Fraction) -> NDArray[np.bool_]:
    """Which nodes the convex minorant touches, about: a subset with both ends."""
    # whatever the unit of x, and e^loss may be beyond the floats: nodes count from the middle
    numbers = np.arange(len(points) - 1) - len(points) // 2
    cells = np.exp(np.clip(numbers * float(step), -600.0, 600.0))
    slopes = np.diff(points) / cells
    largest = float(np.max(np.abs(slopes), initial=0.0))
    if not 0 < largest < math.inf:
        return np.ones(len(points), dtype=np.bool_)
    pooled = scipy.optimize.isotonic_regression(slopes / largest, weights=cells)
    chosen = np.zeros(len(points), dtype=np.bool_)
    chosen[pooled.blocks] = True
    return chosen


def _over(points: Array, kept: NDArray[np.int64], width: float) -> NDArray[np.bool_]:
    """Which nodes may lie below the chords between kept ones."""
    numbers = np.arange(len(points))
    lengths = np.diff(kept)
    before = np.append(np.repeat(kept[:-1], lengths), kept[-2])
    after = np.append(np.repeat(kept[1:], lengths), kept[-1])
    ahead = (after - numbers) * -width
    whole = np.expm1((after - before) * -width)
    # the shares of both ends in the chord: both are sums and products of positive numbers
    first = np.expm1(ahead) / whole
    second = np.exp(ahead) * np.expm1((numbers - before) * -width) / whole
    charge = _U * (64 + 4 * np.abs(ahead))
    chords = points[before] * first + points[after] * second
    sizes = np.abs(points[before]) * first + np.abs(points[after]) * second
    over: NDArray[np.bool_] = chords + sizes * charge > points
    over[kept] = False
    return over


def _paid(weights: Array, infinity: float) -> tuple[Array, float]:
    """Weights and mass at infinity without negative ones: each is taken off the next to its right.

    Mass moved to a smaller loss lowers a profile, so this rounds down. If a debt is left at
    infinity, no mass is kept at all.
    """
    paid = np.append(weights, infinity)
    debtors = np.flatnonzero(weights < 0)
    start = 0
    while (place := int(np.searchsorted(debtors, start))) < len(debtors):
        start = int(debtors[place])
        width, paying = _AHEAD, -1
        while paying < 0:
            ahead = paid[start : start + width]
            slips = 2 * _U * np.arange(2, len(ahead) + 2) * np.cumsum(np.abs(ahead))
            left = np.cumsum(ahead) - slips
            paying = int(np.argmax(left >= 0)) if (left >= 0).any() else -1
            if paying < 0 and start + width >= len(paid):
                return np.zeros_like(weights), 0.0
            width *= 8
        paid[start : start + paying] = 0.0
        paid[start + paying] = left[paying]
        start += paying
    return paid[:-1], float(paid[-1])


def _slopes(points: Array, kept: NDArray[np.int64], step: Fraction) -> tuple[Array, Array]:
    """At each kept node, minus the slope of the profile before it and after it, times x."""
    cells = np.diff(kept)
    ahead, behind = _growth(step, 1 if len(kept) == len(points) else cells)
    falls = -np.diff(points[kept])
    right = np.append(falls / ahead, 0.0)
    return np.concatenate((right[:1], falls / behind)), right  # no kink at the left end
