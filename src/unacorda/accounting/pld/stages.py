"""From parts and a plan to the enclosed law of their sum, stage by stage."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unacorda.accounting.laws import Finite, by_squaring
from unacorda.accounting.pld.convolution import (
    Cumulant,
    LossSum,
    Side,
    Tilted,
    cumulant_of,
    exponential,
    nowhere,
    tilted,
)
from unacorda.accounting.pld.grid import Law, law_above, law_below, lies_on
from unacorda.accounting.pld.planning import Leaf, Rough, Sketch, Stage, plan, sketch, views
from unacorda.accounting.pld.sources import curve_of_atoms
from unacorda.accounting.profiles.boxes import Array, Box
from unacorda.accounting.profiles.curves import DiscreteLoss, PrivacyProfile, nothing

_RARE = 1e-5
"""The part of a delta that may come from losses that were spread farther than is looked at."""
_SLIP, _UNITS = 1e-12, 1e-15
"""More than many roundings, and than a few, relative."""
_WIDE, _LEAST = 1.0, 1e-290
"""Where losses are spread so far, or that part is less, nothing is said of finite losses."""


class Part(NamedTuple):
    """One pair, `times` times: a curve nowhere below its profile, one nowhere above it.

    None stands for no loss at all.
    """

    above: PrivacyProfile | None
    below: PrivacyProfile | None
    times: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LowerBound:
    """A lower bound of a profile, from the profile of its losses after they were spread to grids.

    below: a lower bound of the spread losses' profile; above: an upper bound of the profile;
    spread: the sum, over all moves of a loss to a grid, of the squares of the grids' steps;
    largest: a finite loss and a mass that lies there, or farther up.
    """

    below: LossSum
    above: LossSum
    spread: float
    largest: tuple[float, float]

    def delta_below(self, epsilon: float) -> float:
        """A lower bound of the profile at epsilon.

        Bound       lower.
        Source      docs/proofs/pld.md, Theorem 5.
        """
        found, least = self.below.delta_below(epsilon), self.below.infinity * (1 - _SLIP)
        top, mass = self.largest
        if epsilon < top:
            least += mass * -math.expm1(epsilon - top) * (1 - _SLIP)
        if not self.spread:
            return max(found, least)
        rare = _RARE * (found - self.below.infinity)  # infinite losses stay where they are
        if not (self.spread < _WIDE and rare > _LEAST):
            return least
        reach = self.spread / 8 + math.sqrt(-math.log(rare) * self.spread / 2) * (1 + _SLIP)
        share = math.sqrt(math.expm1(self.spread / 4)) / (2 * math.tanh(reach / 2)) * (1 + _SLIP)
        if share >= 1:
            return least
        near = [
            self.above.delta_above(math.nextafter(epsilon + move, -math.inf)) / (1 + math.exp(move))
            for move in (-reach, reach)
        ]
        moved = (share * sum(near) + rare) * (1 + _SLIP)
        return max((found - moved) / (1 - share) * (1 - _SLIP), least)


class Sums:
    """The enclosures of one composition for one question, on finer and finer grids."""

    def __init__(
        self,
        parts: Sequence[Part],
        *,
        epsilon: float | None = None,
        log_delta: float | None = None,
    ) -> None:
        """Parts of both sides; one sketch serves where both are of the same curves.

        epsilon, log_delta: what the sum is asked for, the delta at one or the epsilon at the other.
        """
        self._epsilon, self._log_delta = epsilon, log_delta
        self._above = _chosen([(part.above, part.times) for part in parts])
        self._below = _chosen([(part.below, part.times) for part in parts])
        if all(part.above is part.below for part in parts):
            self._below = self._above
        self._drawn: tuple[Sketch, Sketch] | None = None

    @property
    def single(self) -> tuple[PrivacyProfile, PrivacyProfile] | None:
        """The curves above and below, where nothing is left to be summed."""
        alone = len(self._above) == len(self._below) == 1
        if not alone or self._above[0][1] > 1 or self._below[0][1] > 1:
            return None
        return self._above[0][0], self._below[0][0]

    def above(self, grid: int) -> LossSum:
        """The sum rounded up."""
        return _built(self._above, self._plan(self._above, 0, grid), side=1)

    def below(self, grid: int, above: LossSum, *, ease: float = 1.0) -> LowerBound:
        """Lower bounds, from the sum rounded up and down on this grid.

        above: what `above` gave for it. ease: a share of the logarithm of delta, to plan for.
        """
        stage = self._plan(self._below, 1, grid, ease)
        if self._below is not self._above:
            above = _built(self._below, stage, side=1)
        return LowerBound(
            above=above,
            below=_built(self._below, stage, side=-1),
            spread=_spread(self._below, stage),
            largest=_largest(self._below),
        )

    def _plan(
        self, parts: Sequence[tuple[PrivacyProfile, int]], side: int, grid: int, ease: float = 1.0
    ) -> Stage:
        if self._drawn is None:
            known: dict[int, Rough] = {}
            above = sketch(self._above, known)
            same = self._below is self._above
            self._drawn = above, above if same else sketch(self._below, known)
        goal = None if self._log_delta is None else self._log_delta * ease
        drawn = self._drawn[side]
        return plan(parts, drawn, grid=grid, epsilon=self._epsilon, log_delta=goal)


def _chosen(parts: Sequence[tuple[PrivacyProfile | None, int]]) -> list[tuple[PrivacyProfile, int]]:
    known = [(curve, count) for curve, count in parts if curve is not None]
    return combined(known) or [(nothing(), 1)]


def _built(parts: Sequence[tuple[PrivacyProfile, int]], stage: Stage, *, side: Side) -> LossSum:
    """The sum of a stage, whose terms are laws of parts and sums of other stages."""
    laws = [
        (
            _laid(parts[term.part][0], term, stage, side=side)
            if isinstance(term, Leaf)
            else settled_sum(_built(parts, term, side=side), step=stage.step, side=side),
            count,
        )
        for term, count in stage.terms
    ]
    # a tilt too steep for a coarse grid ends in numbers beyond the floats: then nothing is said
    with np.errstate(over="ignore", invalid="ignore"):
        return LossSum(laws, step=stage.step, window=stage.window, side=side)


def _spread(parts: Sequence[tuple[PrivacyProfile, int]], stage: Stage) -> float:
    """The sum, over all moves of a loss to the nodes of a grid, of the squares of its steps."""
    found = 0.0
    for term, count in stage.terms:
        inner = 0.0
        if isinstance(term, Stage):
            held, inner = _holds(term.step, stage.step), _spread(parts, term)
        elif (atoms := parts[term.part][0].atoms) is not None:
            held = _holds(atoms.spacing, stage.step)
        else:
            held = lies_on(parts[term.part][0], stage.step)
        found += count * (inner + (0.0 if held else float(stage.step) ** 2))
    return found


def _largest(parts: Sequence[tuple[PrivacyProfile, int]]) -> tuple[float, float]:
    """The sum of the largest finite losses of all parts, and its mass, both rounded down.

    The mass is 0 where a part has no atom at its largest loss, or it is not known.
    """
    top, log_mass = 0.0, 0.0
    for curve, count in parts:
        loss, mass = 0.0, 0.0
        if curve.peak is not None and curve.spacing is not None:
            loss, mass = float(curve.spacing), float(curve.peak)
        elif curve.atoms is not None and len(curve.atoms.losses):
            place = int(np.argmax(curve.atoms.losses))
            loss = float(curve.atoms.losses[place]) - curve.atoms.error
            mass = float(curve.atoms.masses[place]) * (1 - curve.atoms.trust)
        if not mass > 0:
            return 0.0, 0.0
        top += count * loss * (1 - math.copysign(_UNITS, loss))
        log_mass += count * (math.log(mass) - _UNITS)
    found = math.exp(log_mass * (1 + _SLIP)) * (1 - _SLIP)
    top *= 1 - math.copysign(_UNITS * (len(parts) + 1), top)
    return (top, found) if found > _LEAST else (0.0, 0.0)


def _laid(curve: PrivacyProfile, leaf: Leaf, stage: Stage, *, side: Side) -> Tilted:
    """One law on the grid of its stage."""
    step, tilt = stage.step, stage.window.tilt
    if curve.atoms is not None:
        aligned = _holds(curve.atoms.spacing, step)
        return settled_atoms(curve.atoms, step=step, tilt=tilt, side=side, aligned=aligned)
    if side > 0:
        law = law_above(curve, step=step, first=leaf.first, last=leaf.last)
    else:
        law = law_below(curve, step=step, first=leaf.first, last=leaf.last, spread=True)
    return tilted(law, step=step, tilt=tilt, side=side)


def _holds(spacing: Fraction | None, step: Fraction) -> bool:
    return spacing is not None and (spacing / step).denominator == 1


# Each mass is split between its two neighboring nodes so that both it and its e^{-loss} are kept
# (it is spread), which errs by the square of the step, or all of it falls to the node below.
# Masses are tilted; only ratios of neighbors' tilts are formed.

_U = 2.0**-53


def settled_sum(found: LossSum, *, step: Fraction, side: Side) -> Tilted:
    """A sum on one grid as a law on another, under the same tilt.

    Bound       upper or lower, as the side says, of the sum's law, or of that law once spread; see
                docs/proofs/pld.md, Lemmas 5 and 6.
    """
    window, width = found.window, float(found.step)
    numbers = np.arange(window.first, window.first + window.size)
    losses: Array = np.asarray(numbers * width)
    values = np.maximum(found.values, 0.0)
    wrapped = (exponential(found.above) + exponential(found.below)) * (1 + 8 * _U)
    ratio = step / found.step
    drift, slip = found.drift, 0.0
    if ratio.denominator == 1:
        nodes = numbers // int(ratio)
        offsets: Array = np.asarray((numbers - nodes * int(ratio)) * width)
    else:
        nodes, offsets, away = _placed(losses, 8 * _U * np.abs(losses), step=step, side=side)
        values = values * np.exp(side * window.tilt * away)
        slip = float(np.max(away))
    first, masses, charge = _moved(nodes, offsets, values, step=step, tilt=window.tilt, spread=True)
    # every value may end up at the node above, multiplied by the tilt between
    growth = math.exp(min((window.tilt + 1) * float(step), 700.0))
    charge += found.charge(0.0) * 2
    noise = (found.noise + found.spread + 2 * wrapped + charge * float(np.sum(values))) * growth
    return Tilted(
        first=first,
        values=masses,
        height=found.exponent,
        cumulant=_least(
            _cumulant_of_spread(found.cumulant, step=step, slip=slip),
            cumulant_of(first, masses, height=found.exponent, step=step, tilt=window.tilt),
        ),
        infinity=found.infinity,
        drift=drift,
        noise=noise,
    )


def _least(first: Cumulant, second: Cumulant) -> Cumulant:
    """The lesser bound: that of the law, or of the values, as all else is in the noise."""

    def at(order: float) -> tuple[float, float]:
        one, other = first(order), second(order)
        return one if one[0] + one[1] <= other[0] + other[1] else other

    return at


def _cumulant_of_spread(cumulant: Cumulant, *, step: Fraction, slip: float) -> Cumulant:
    """A bound of the cumulant after every loss was spread to nodes, and moved by a slip at most."""
    width = float(step)

    def at(order: float) -> tuple[float, float]:
        value, error = cumulant(order)
        moved = abs(order) * width
        bend = math.expm1(width) ** 2 * abs(order * (order + 1)) / 8
        if (abs(order) + 2) * width < 50:
            moved = min(moved, math.log1p(bend * math.exp((abs(order) + 2) * width)))
        return value + (moved + abs(order) * slip) * (1 + 16 * _U), error

    return at


def settled_atoms(
    atoms: DiscreteLoss,
    *,
    step: Fraction,
    tilt: float,
    side: Side,
    spread: bool = True,
    aligned: bool = False,
) -> Tilted:
    """Atoms as a law on a grid, under a tilt.

    spread: whether masses are split between two nodes; otherwise they fall to the node below.
    aligned: they lie within their error of nodes, so they count as there, and may drift.

    Bound       as `settled_sum`.
    """
    infinity = (atoms.infinity_above if side > 0 else atoms.infinity) * (1 + side * 2 * _U)
    present = atoms.masses > 0
    if not present.any():
        return nowhere(infinity)
    losses = atoms.losses[present]
    logs = np.log(atoms.masses[present]) + tilt * losses
    peak = float(np.max(logs))
    with np.errstate(under="ignore"):
        height = peak + math.log(float(np.sum(np.exp(logs - peak))))
    errors = 8 * _U * (np.abs(tilt * losses) + np.abs(logs) + abs(height) + 4) + atoms.trust
    with np.errstate(under="ignore"):
        values = np.exp(logs - height) * (1 + side * errors)
    drift = 0.0
    if aligned:
        nodes = np.rint(losses / float(step)).astype(np.int64)
        away = np.abs(losses - nodes * float(step)) + 8 * _U * np.abs(losses) + atoms.error
        drift = float(np.max(away, initial=0.0)) * (1 + 8 * _U)
        offsets = np.zeros_like(losses)
        values = values * (1 + side * math.expm1(2 * tilt * drift))
    else:
        error = atoms.error + 8 * _U * np.abs(losses)
        nodes, offsets, away = _placed(losses, error, step=step, side=side)
        values = values * np.exp(side * tilt * away) * (1 + side * 16 * _U)
    first, values, charge = _moved(nodes, offsets, values, step=step, tilt=tilt, spread=spread)
    values = values * (1 + side * charge)
    return Tilted(
        first=first,
        values=values,
        height=height,
        cumulant=cumulant_of(first, values, height=height, step=step, tilt=tilt),
        infinity=infinity,
        drift=drift,
    )


def _placed(
    losses: Array, errors: Array, *, step: Fraction, side: Side
) -> tuple[NDArray[np.int64], Array, Array]:
    """Nodes and offsets such that node + offset is beyond each loss, and by how much at most.

    The node is at or below, and the offset is below one step.
    """
    width = float(step)
    nodes = np.floor(losses / width)
    slack = errors + 8 * _U * (np.abs(losses) + width)
    offsets = losses - nodes * width + side * slack
    over = (offsets >= width).astype(np.float64) - (offsets < 0)
    nodes, offsets = nodes + over, np.clip(offsets - over * width, 0.0, width)
    # where the slack is wider than a step, losses fall as many nodes as that takes
    far = np.ceil(slack / width) * (slack > width / 4)
    return (nodes + side * far).astype(np.int64), offsets, (slack * 2 + far * width) * (1 + 4 * _U)


def _moved(
    nodes: NDArray[np.int64],
    offsets: Array,
    values: Array,
    *,
    step: Fraction,
    tilt: float,
    spread: bool,
) -> tuple[int, Array, float]:
    """The tilted masses from a first node on: each split between two neighbors, or all below.

    The last is the relative error of the masses.
    """
    width = float(step)
    first = int(np.min(nodes))
    cells = nodes - first
    count = int(np.max(cells)) + 2
    whole = -math.expm1(-width)
    rest = np.maximum(width - offsets, 0.0)
    up = np.minimum(-np.expm1(-offsets) / whole, 1.0) if spread else np.zeros_like(offsets)
    with np.errstate(under="ignore", over="ignore"):
        # infinite where the tilt is too steep for the step: then nothing is known, and no more said
        rise = np.where((up > 0) & (values != 0), np.exp(tilt * rest), 0.0)
        fall = np.exp(-tilt * offsets)
    most = int(np.max(np.bincount(cells), initial=1))
    charge = 64 * _U * (2 + (tilt + 1) * width) + 2 * _U * most
    down = np.exp(-offsets) * -np.expm1(-rest) / whole if spread else 1.0
    right = np.bincount(cells + 1, weights=values * rise * up, minlength=count)
    left = np.bincount(cells, weights=values * fall * down, minlength=count)
    return first, np.asarray(right + left, dtype=np.float64), charge


# The laws of the parts are laid on one grid. Their sum is found under a few tilts, each of which
# knows other masses well; at every node the best of what they prove is taken. The masses make two
# laws, one whose profile is above, one below: docs/proofs/pld.md, Theorem 3.

_GOALS = (-0.1, -14.0, -60.0, -140.0)
"""Logarithms of delta that the tilts are for: deviations at even distances.

One more tilt tells the masses under Q, which the round-off of others would hide at low losses.
"""
_GRID = 1 << 14
_LARGEST = 690.0
_NOTHING = 1e-14
_FALLS = (1e-2, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 1e3)


def curve_of_sum(parts: Sequence[Part]) -> PrivacyProfile:
    """The profile of the composition of the parts, from above; from below it is `attained`.

    Bound       both: of the composition of the upper curves, and of the lower ones.
    Source      docs/proofs/pld.md, Theorem 3.
    """
    above = _curve([(part.above, part.times) for part in parts], side=1)
    below = _curve([(part.below, part.times) for part in parts], side=-1)

    def evaluate(epsilon: Box) -> Box:
        least = (-epsilon.expm1()).at_least(0.0).lower
        return Box(least, np.maximum(above.evaluate(epsilon).upper, least))

    most = above.most_infinity
    return PrivacyProfile(
        evaluate=evaluate,
        infinity=min(below.infinity, most),
        infinity_above=most,
        atoms=above.atoms,
        attained=below,
    )


def _curve(parts: Sequence[tuple[PrivacyProfile | None, int]], *, side: Side) -> PrivacyProfile:
    """The sum rounded to one side."""
    known = combined([(curve, count) for curve, count in parts if curve is not None])
    if not known:
        return nothing()
    if len(known) == 1 and known[0][1] == 1:
        return known[0][0]
    tilts = views(known, sketch(known, {}), grid=_GRID, fine=True, log_deltas=_GOALS)
    laws = [
        (_laid_untilted(known[term.part][0], term, tilts[0].step, side=side), count)
        for term, count in tilts[0].terms
        if isinstance(term, Leaf)
    ]
    sums = [_tilted_sum(laws, view, side=side) for view in tilts]
    return curve_of_atoms(_atoms(sums, side=side))


def _laid_untilted(
    curve: PrivacyProfile, leaf: Leaf, step: Fraction, *, side: Side
) -> tuple[Law, float]:
    """A law on the grid, and how far its losses may lie on the wrong side of the nodes."""
    if curve.atoms is None:
        build = law_above if side > 0 else law_below
        return build(curve, step=step, first=leaf.first, last=leaf.last), 0.0
    aligned = _holds(curve.atoms.spacing, step)
    found = settled_atoms(
        curve.atoms, step=step, tilt=0.0, side=side, spread=side > 0, aligned=aligned
    )
    weights = found.values * (math.exp(found.height) * (1 + side * 8 * _U))
    return Law(first=found.first, weights=weights, infinity=found.infinity), found.drift


def _tilted_sum(
    laws: Sequence[tuple[tuple[Law, float], int]], view: Stage, *, side: Side
) -> tuple[LossSum, float]:
    """The sum under one tilt, and the drift of its losses."""
    terms = [
        (tilted(law, step=view.step, tilt=view.window.tilt, side=side), count)
        for (law, _), count in laws
    ]
    drift = sum(count * drift for (_, drift), count in laws)
    # where a tilt is too steep for the floats, nothing is said
    with np.errstate(over="ignore", invalid="ignore"):
        return LossSum(terms, step=view.step, window=view.window, side=side), drift


def _atoms(sums: Sequence[tuple[LossSum, float]], *, side: Side) -> DiscreteLoss:
    """At every node the least mass that is proved to be enough, or the largest that is there."""
    one, drift = sums[0]
    numbers = np.arange(one.window.first, one.window.first + one.window.size)
    losses: Array = np.asarray(numbers * float(one.step))
    found = [_masses(each, losses, side=side) for each, _ in sums]
    best = np.minimum if side > 0 else np.maximum
    masses: Array = best.reduce(found)
    most = min(each.infinity + each.beyond for each, _ in sums) * (1 + 8 * _U)
    if side > 0:
        # what lies below the window, and next to nothing, is raised to where there is more
        masses[0] += _below(one)
        risen = np.cumsum(masses)
        start = min(int(np.searchsorted(risen, _NOTHING)), len(masses) - 1)
        masses[start] = risen[start] * (1 + 2 * _U * len(masses))
        masses[:start] = 0.0
    held = masses > 0
    return DiscreteLoss(
        losses=losses[held],
        masses=masses[held],
        infinity=max(each.infinity for each, _ in sums) * (1 - 8 * _U),
        infinity_above=min(most, 1.0),
        error=drift + 8 * _U * max(abs(one.top), abs(one.bottom)),
        spacing=one.step,
        lower=side < 0,
    )


def _masses(found: LossSum, losses: Array, *, side: Side) -> Array:
    """The masses without the tilt: at least what they are, or at most.

    What the transform wraps round only adds; below, so much may have been added at any node.
    """
    powers = found.exponent - found.window.tilt * losses
    slip = max(found.charge(float(end)) for end in losses[[0, -1]])
    with np.errstate(under="ignore", invalid="ignore"):
        scale = np.exp(np.minimum(powers, _LARGEST) + side * slip) * (1 + side * 16 * _U)
        if side > 0:
            values = (np.maximum(found.values, 0.0) + found.error) * scale
            return np.asarray(np.where((powers < _LARGEST) & np.isfinite(values), values, 2.0))
        values = np.maximum(found.values - found.error - found.wrapped, 0.0) * scale
    return np.asarray(np.where((powers < _LARGEST) & np.isfinite(values), values, 0.0))


def _below(found: LossSum) -> float:
    """A bound of the mass below the window."""
    width = max(found.top - found.bottom, 1e-12)
    bounds = []
    for fall in _FALLS:
        order = -fall * 100 / width
        value, error = found.cumulant(order)
        exponent = value + error - order * found.bottom
        bounds.append(math.exp(min(exponent + 1e-9 * (1 + abs(exponent)), 0.0)))
    return min(bounds)


_MOST_ATOMS = 1 << 10
"""Atoms of a power; squares of such numbers of pairs are formed."""
_PAIRS = 1 << 18
_SAME = 64 * _U
_SMALL, _LARGE = 1e-9, 600.0
"""Losses that atoms stand for."""


def combined(parts: Sequence[tuple[PrivacyProfile, int]]) -> list[tuple[PrivacyProfile, int]]:
    """The parts, those of few atoms replaced by one part that is their sum."""
    rest: list[tuple[PrivacyProfile, int]] = []
    found: DiscreteLoss | None = None
    for curve, count in sorted(parts, key=lambda part: _size(*part)):
        many = _size(curve, count)
        if curve.atoms is None or many > _MOST_ATOMS:
            rest.append((curve, count))
            continue
        alone = by_squaring(curve.atoms, count, _sum)
        if found is None:
            found = alone
        elif len(found.losses) * len(alone.losses) <= _PAIRS:
            found = _sum(found, alone)
        else:
            rest.append((curve, count))
    if found is not None:
        rest.append((curve_of_atoms(found), 1))
    return rest


def three_points(law: Finite) -> PrivacyProfile | None:
    """The profile of a law on three points by its atoms; None beyond floats.

    Bound       both.
    Source      the definition.
    """
    largest = max(law.masses)
    if not _SMALL < largest < _LARGE:
        return None
    mass = float(law.infinite)
    return curve_of_atoms(
        DiscreteLoss(
            losses=np.array([float(loss) for loss in law.masses]),
            masses=np.array([float(one * (1 - law.infinite)) for one in law.masses.values()]),
            infinity=mass * (1 - 2 * _U),
            infinity_above=mass * (1 + 2 * _U),
            error=2 * _U * float(largest),
            trust=16 * _U,
            spacing=largest,
        )
    )


def _size(curve: PrivacyProfile, count: int) -> float:
    """How many atoms a sum of copies has, unless some fall together."""
    if curve.atoms is None:
        return math.inf
    kinds = max(len(curve.atoms.losses), 1)
    if count == 1 or kinds == 1:
        return float(kinds)
    if count > _MOST_ATOMS or kinds > _MOST_ATOMS:  # more than twice as many atoms as that
        return math.inf
    exponent = math.lgamma(count + kinds) - math.lgamma(kinds) - math.lgamma(count + 1)
    return round(math.exp(exponent)) if exponent < 40 else math.inf


def _sum(one: DiscreteLoss, two: DiscreteLoss) -> DiscreteLoss:
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


def _infinite(one: DiscreteLoss, first: float, two: DiscreteLoss, second: float) -> float:
    """The mass of sums with an infinite term."""
    return first * (math.fsum(two.masses) + second) + math.fsum(one.masses) * second
