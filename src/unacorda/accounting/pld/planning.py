"""Plans: grids, tilts and windows, from coarse laws; long compositions are summed in stages.

Nothing here is certified and nothing needs to be: a bad plan makes the interval wide, not wrong.
A stage sums some copies of one law on a grid fine enough for them; its sum is moved to the grid of
the next stage. As windows grow with the root of the number of copies, the errors of all stages
together stay near that of one of them.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from unacorda.accounting.pld.convolution import Window
from unacorda.accounting.pld.grid import law_above
from unacorda.accounting.profiles.boxes import Array
from unacorda.accounting.profiles.curves import PrivacyProfile, common_divisor

LARGEST = 1 << 22
"""Nodes of the largest grid, of a part or of the window."""

_OUTSIDE = 46.0  # e^-46 = 1e-20 of the tilted mass may lie beyond either end of the window
_DIRECT = 64  # copies that one stage sums
_LATTICE = 1 << 18  # nodes of a stage on a lattice of its own
_FINER_LATTICE = 4  # times as fine as what their sum is moved to are the lattices of few atoms
_FINER = 6
_SHARE = 0.1
_NODES = LARGEST // 32  # of a law that one stage lays on its grid
_WIDER = 8  # windows of more times the grid tell nothing that is worth their time
_ROOM = 1 << 20  # nodes over which the sum of a stage may be spread
_MILDER = 12.0  # a window half as wide is worth e^12 times as much round-off
_COARSE = 50.0  # a step may not be longer than so many units of 1 / tilt


@dataclass(frozen=True, slots=True)
class Leaf:
    """A part to be laid on the grid of its stage: first and last node."""

    part: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Stage:
    """A grid, a window, and what is summed there, each so many times."""

    step: Fraction
    window: Window
    terms: tuple[tuple[Term, int], ...]


Term: TypeAlias = Leaf | Stage


def plan(
    parts: Sequence[tuple[PrivacyProfile, int]],
    drawn: Sketch,
    *,
    grid: int,
    epsilon: float | None = None,
    log_delta: float | None = None,
) -> Stage:
    """A plan for the delta at `epsilon`, or for the epsilon at e^`log_delta`."""
    tilts, rises = tilts_of(drawn)
    if epsilon is None:
        assert log_delta is not None
        epsilon = float(np.min((rises - log_delta) / tilts))
    exponents = rises - tilts * epsilon
    cumulant, least = heights(drawn), float(np.min(exponents))
    goal = min(least, 0.0) - 3.0 if log_delta is None else log_delta

    def planner(index: int) -> _Planner:
        tilt = float(tilts[index])
        return _Planner(parts=parts, drawn=drawn, grid=grid, tilt=tilt, goal=goal)

    def width(index: int) -> float:
        bottom, top, _, _ = planner(index).reach(cumulant)
        return top - bottom

    best = int(np.argmin(exponents))
    milder = np.flatnonzero(exponents[: best + 1] <= least + _MILDER).tolist()
    narrowest = min(milder, key=width)
    if width(narrowest) < width(best) / 2:
        best = narrowest
    exact = all(_is_lattice(curve) for curve, _ in parts)
    while True:
        found = planner(best).whole(cumulant)
        if exact or best == 0 or float(tilts[best] * found.step) <= _COARSE:
            return found
        best = max(best - 4, 0)


def views(
    parts: Sequence[tuple[PrivacyProfile, int]],
    drawn: Sketch,
    *,
    grid: int,
    fine: bool,
    log_deltas: Sequence[float],
) -> list[Stage]:
    """One stage under several tilts on one grid: each for the epsilon at one delta, and -1.

    Under the last one, the law is that of the other hypothesis. fine: whether the grid is to be
    finer where there are many copies of one part.
    """
    tilts, rises = tilts_of(drawn)
    best = [float(tilts[np.argmin((rises - goal) / tilts)]) for goal in log_deltas]

    def planner(tilt: float) -> _Planner:
        return _Planner(parts=parts, drawn=drawn, grid=grid, tilt=tilt, goal=min(log_deltas))

    def reaches(tilts: Sequence[float]) -> list[tuple[float, float, float, float]]:
        return [planner(tilt).reach(heights(drawn)) for tilt in tilts]

    known = reaches([*best, -1.0])
    bottom, top = min(reach[0] for reach in known), max(reach[1] for reach in known)
    longest = max(high - low for low, high in drawn.ranges)
    finest = (top - bottom) / (_LATTICE - 8)
    wanted = max((top - bottom) / (grid - 8), longest / _NODES)
    for count, deviation in zip(drawn.counts, drawn.deviations, strict=True):
        if fine and count > 1:  # what each copy errs by is added up
            wanted = min(wanted, max(_SHARE * deviation / math.sqrt(count), finest))
    step = _step([curve for curve, _ in parts], wanted, top - bottom)
    if not all(_is_lattice(curve) for curve, _ in parts):
        best = [min(tilt, _COARSE / float(step)) for tilt in best]
    best.append(-1.0)
    terms = tuple(
        (planner(best[0]).leaf(index, step), count) for index, count in enumerate(drawn.counts)
    )
    return [
        Stage(step, planner(tilt).window((bottom, top, reach[2], reach[3]), step), terms)
        for tilt, reach in zip(best, reaches(best), strict=True)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Planner:
    """What all stages of a plan share."""

    parts: Sequence[tuple[PrivacyProfile, int]]
    drawn: Sketch
    grid: int
    tilt: float
    goal: float

    def whole(self, heights: Array) -> Stage:
        """The last stage, which sums all parts."""
        reach = self.reach(heights)
        width = reach[1] - reach[0]
        longest = max(high - low for low, high in self.drawn.ranges)
        wanted = max(width / (self.grid - 8), longest / _NODES)
        step = _step([curve for curve, _ in self.parts], wanted, width)

        def terms_at(step: Fraction) -> list[tuple[Term, int]]:
            apart = [index for index in range(len(self.parts)) if self._is_apart(index, step)]
            terms: list[tuple[Term, int]] = []
            for index, count in enumerate(self.drawn.counts):
                if index not in apart:
                    terms.extend(self._terms(index, count, step))
            if apart:
                terms.append((self._together(apart, step), 1))
            return terms

        return self._stage(step, reach, terms_at)

    def _stage(
        self,
        step: Fraction,
        reach: tuple[float, float, float, float],
        terms_at: Callable[[Fraction], list[tuple[Term, int]]],
    ) -> Stage:
        """A stage on this step, or on one on which the windows of its terms have room."""
        for _ in range(4):
            terms = terms_at(step)
            widest = [term.window.size * term.step for term, _ in terms if isinstance(term, Stage)]
            if not widest or max(widest) <= step * _ROOM:
                break
            step = max(widest) / _ROOM
        return Stage(step, self.window(reach, step), tuple(terms))

    def _is_apart(self, part: int, step: Fraction) -> bool:
        """Whether the part has atoms that miss the grid."""
        curve = self.parts[part][0]
        spacing = curve.lattice
        if spacing is None:
            return curve.atoms is not None
        return (spacing / step).denominator != 1

    def _together(self, apart: Sequence[int], step: Fraction) -> Stage:
        """Parts whose atoms miss the grid, on a finer one: together their atoms lie densely."""
        counts = np.asarray([self.drawn.counts[part] for part in apart], dtype=np.float64)
        reach = self.reach(counts @ self.drawn.cumulants[apart])
        longest = max(self.drawn.ranges[part][1] - self.drawn.ranges[part][0] for part in apart)
        room = float(step) * min(
            _LATTICE / 4 / max(reach[1] - reach[0], 1e-300), _NODES / max(longest, 1e-300)
        )
        finer = math.floor(math.log2(max(room, 1.0)))

        def terms_at(below: Fraction) -> list[tuple[Term, int]]:
            terms: list[tuple[Term, int]] = []
            for part in apart:
                terms.extend(self._terms(part, self.drawn.counts[part], below))
            return terms

        return self._stage(step / 2 ** min(finer, _FINER), reach, terms_at)

    def _terms(self, part: int, count: int, step: Fraction) -> list[tuple[Term, int]]:
        """How the grid of this step gets so many copies of a part."""
        curve = self.parts[part][0]
        spacing = curve.lattice
        whole = curve.atomic or curve.atoms is not None
        if spacing is not None and (spacing / step).denominator == 1 and whole:
            return [(self.leaf(part, step), count)]
        if spacing is not None and (spacing / step).denominator != 1:
            alone = self._lattice(part, count, spacing, step, whole=whole)
            if alone is not None:
                return [(alone, 1)]
        if count <= _DIRECT:
            return [(self.leaf(part, step), count)]
        levels = math.ceil(math.log(count) / math.log(_DIRECT))
        outer = min(math.ceil(count ** (1 / levels)), count)
        inner = count // outer
        heights = inner * self.drawn.cumulants[part]
        reach = self.reach(heights)
        finer = math.floor(math.log2(max(float(step) * self.grid / (reach[1] - reach[0]), 1.0)))
        low, high = self.drawn.ranges[part]
        finest = math.floor(math.log2(max(float(step) * _NODES / max(high - low, 1e-300), 1.0)))
        finer = min(finer, finest)
        if finer < 1:
            return [(self.leaf(part, step), count)]
        below = step / 2**finer
        stage = Stage(below, self.window(reach, below), tuple(self._terms(part, inner, below)))
        terms: list[tuple[Term, int]] = [(stage, outer)]
        if count > outer * inner:
            terms.append((self.leaf(part, step), count - outer * inner))
        return terms

    def _lattice(
        self, part: int, count: int, spacing: Fraction, step: Fraction, *, whole: bool
    ) -> Stage | None:
        """The part summed on its own lattice, or on a finer one that holds its atoms."""
        reach = self.reach(count * self.drawn.cumulants[part])
        width = reach[1] - reach[0]
        if whole and width / spacing <= _LATTICE:
            own = spacing
        elif spacing > step:
            wanted = max(float(step) / _FINER_LATTICE, width / self.grid)
            own = spacing / math.ceil(spacing / Fraction(wanted))
        else:
            return None
        return Stage(own, self.window(reach, own), tuple(self._terms(part, count, own)))

    def leaf(self, part: int, step: Fraction) -> Leaf:
        """A sixteenth of the range is left free below, for the lower law."""
        curve, count = self.parts[part]
        low, high = self.drawn.ranges[part]
        if curve.atoms is None:
            drop = math.exp(max(self.goal - 37.0 - math.log(count * len(self.parts)), -700.0))
            high = min(highest(curve, drop=drop), high)
        margin = (high - low) / 16
        first, last = math.floor((low - margin) / step) - 2, math.ceil(high / step) + 1
        return Leaf(part, max(first, last - LARGEST), last)

    def reach(self, heights: Array) -> tuple[float, float, float, float]:
        """Bottom and top of a window for the law of these cumulants, and orders for both."""
        orders, tilt = self.drawn.orders, self.tilt
        height = float(np.interp(tilt, orders, heights))
        reach = math.inf
        for _ in range(2):  # the second time without orders so large that round-off rules them
            above = (orders > tilt) & (orders - tilt <= reach)
            below = (orders < tilt) & (tilt - orders <= reach)
            above[np.flatnonzero(orders > tilt)[:1]] = True
            below[np.flatnonzero(orders < tilt)[-1:]] = True
            tops = (heights[above] - height + _OUTSIDE) / np.maximum(orders[above] - tilt, 1e-12)
            bottoms = (height - heights[below] - _OUTSIDE) / (tilt - orders[below])
            top, higher = float(np.min(tops)), float(orders[above][np.argmin(tops)])
            bottom, lower = float(np.max(bottoms)), float(orders[below][np.argmax(bottoms)])
            reach = 100.0 / max(top - bottom, 1e-9)
        return bottom, max(top, bottom + 1e-9), higher, lower

    def window(self, reach: tuple[float, float, float, float], step: Fraction) -> Window:
        bottom, top, higher, lower = reach
        first, last = math.floor(bottom / step) - 2, math.ceil(top / step) + 2
        most = min(LARGEST, max(_WIDER * self.grid, _LATTICE))
        size = min(most, max(16, 1 << (last - first).bit_length()))
        return Window(first=first, size=size, tilt=self.tilt, higher=higher, lower=lower)


def _step(curves: Sequence[PrivacyProfile], wanted: float, width: float) -> Fraction:
    """A step near the wanted one of which every atom's place is a multiple, if there is one."""
    spacings = [curve.lattice for curve in curves]
    known = {one for one in spacings if one is not None}
    near = Fraction(min(wanted, 0.25))
    if not known:
        return near
    common = common_divisor(known)
    lattices = all(_is_lattice(curve) for curve in curves)
    if lattices and common >= width / _LATTICE:
        return common
    if common >= wanted:
        return common / math.ceil(common / near)
    return near


def _is_lattice(curve: PrivacyProfile) -> bool:
    return curve.atomic if curve.atoms is None else curve.atoms.spacing is not None


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


def sketch(parts: Sequence[tuple[PrivacyProfile, int]], known: dict[int, Rough]) -> Sketch:
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


def _rough(curve: PrivacyProfile, nodes: int) -> Rough:
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
    """The orders that may be tilts, and Chernoff's bound of ln delta at epsilon 0 by each."""
    orders = drawn.orders
    longest = max(max(abs(low), abs(high)) for low, high in drawn.ranges)
    positive = (orders > 0) & (orders * longest <= _STEEPEST)
    positive[np.flatnonzero(orders > 0)[0]] = True
    positive[-1] = False
    tilts = orders[positive]
    kernel = tilts * np.log(tilts) - (1 + tilts) * np.log1p(tilts)
    return tilts, heights(drawn)[positive] + kernel


def _range(curve: PrivacyProfile) -> tuple[float, float]:
    """Losses between which all of the law lies (below: but for 2e-14 of it)."""
    # where a profile is only bounded from above, its lower side is of another law, or says nothing
    above = curve.attained is not None or float(curve(np.zeros(1)).lower[0]) == 0.0
    low = min(_first(_SCALE, lambda x: _gap(curve, -x, above=above) <= 2e-14), 40.0)
    return -low, highest(curve, drop=1e-305)


def highest(curve: PrivacyProfile, *, drop: float) -> float:
    """The loss above which but about `drop` of the law lies."""
    limit = float(curve.most_infinity)
    return _first(_SCALE, lambda x: curve(x).upper <= limit * (1 + 1e-13) + drop)


def _gap(curve: PrivacyProfile, losses: Array, *, above: bool) -> Array:
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
