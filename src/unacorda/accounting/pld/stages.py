"""From parts and a plan to the enclosed law of their sum, stage by stage."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from unacorda.accounting.pld.combining import combined
from unacorda.accounting.pld.convolution import Side, Sum, Tilted, tilted, total
from unacorda.accounting.pld.grid import law_above, law_below, lies_on
from unacorda.accounting.pld.planning import Leaf, Stage, plan
from unacorda.accounting.pld.settling import settled_atoms, settled_sum
from unacorda.accounting.pld.sketches import Rough, Sketch, sketch
from unacorda.accounting.profiles.curves import Curve, nothing

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

    above: Curve | None
    below: Curve | None
    times: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a sum is asked for: the delta at an epsilon, or the epsilon at a delta."""

    epsilon: float | None = None
    log_delta: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LowerBound:
    """A lower bound of a profile, from the profile of its losses after they were spread to grids.

    below: a lower bound of the spread losses' profile; above: an upper bound of the profile;
    spread: the sum, over all moves of a loss to a grid, of the squares of the grids' steps;
    largest: a finite loss and a mass that lies there, or farther up.
    """

    below: Sum
    above: Sum
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

    def __init__(self, parts: Sequence[Part], question: Question) -> None:
        """Parts of both sides; one sketch serves where both are of the same curves."""
        self._question = question
        self._above = _chosen([(part.above, part.times) for part in parts])
        self._below = _chosen([(part.below, part.times) for part in parts])
        if all(part.above is part.below for part in parts):
            self._below = self._above
        self._drawn: tuple[Sketch, Sketch] | None = None

    @property
    def single(self) -> tuple[Curve, Curve] | None:
        """The curves above and below, where nothing is left to be summed."""
        alone = len(self._above) == len(self._below) == 1
        if not alone or self._above[0][1] > 1 or self._below[0][1] > 1:
            return None
        return self._above[0][0], self._below[0][0]

    def above(self, grid: int) -> Sum:
        """The sum rounded up."""
        return _built(self._above, self._plan(self._above, 0, grid), side=1)

    def below(self, grid: int, above: Sum, *, ease: float = 1.0) -> LowerBound:
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
        self, parts: Sequence[tuple[Curve, int]], side: int, grid: int, ease: float = 1.0
    ) -> Stage:
        if self._drawn is None:
            known: dict[int, Rough] = {}
            above = sketch(self._above, known)
            same = self._below is self._above
            self._drawn = above, above if same else sketch(self._below, known)
        asked, drawn = self._question, self._drawn[side]
        goal = None if asked.log_delta is None else asked.log_delta * ease
        return plan(parts, drawn, grid=grid, epsilon=asked.epsilon, log_delta=goal)


def _chosen(parts: Sequence[tuple[Curve | None, int]]) -> list[tuple[Curve, int]]:
    known = [(curve, count) for curve, count in parts if curve is not None]
    return combined(known) or [(nothing(), 1)]


def _built(parts: Sequence[tuple[Curve, int]], stage: Stage, *, side: Side) -> Sum:
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
        return total(laws, step=stage.step, window=stage.window, side=side)


def _spread(parts: Sequence[tuple[Curve, int]], stage: Stage) -> float:
    """The sum, over all moves of a loss to the nodes of a grid, of the squares of its steps."""
    found = 0.0
    for term, count in stage.terms:
        if isinstance(term, Leaf):
            curve = parts[term.part][0]
            if curve.atoms is None:
                moved = not lies_on(curve, stage.step)
            else:
                moved = not _holds(curve.atoms.spacing, stage.step)
            inner = 0.0
        else:
            moved, inner = not _holds(term.step, stage.step), _spread(parts, term)
        found += count * (inner + (float(stage.step) ** 2 if moved else 0.0))
    return found


def _largest(parts: Sequence[tuple[Curve, int]]) -> tuple[float, float]:
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


def _laid(curve: Curve, leaf: Leaf, stage: Stage, *, side: Side) -> Tilted:
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
