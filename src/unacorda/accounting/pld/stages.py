"""From parts and a plan to the enclosed law of their sum, stage by stage."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from unacorda.accounting.pld.combining import combined
from unacorda.accounting.pld.convolution import Side, Sum, Tilted, tilted, total
from unacorda.accounting.pld.grid import law_above, law_below
from unacorda.accounting.pld.planning import Leaf, Stage, plan
from unacorda.accounting.pld.settling import settled_atoms, settled_sum
from unacorda.accounting.pld.sketches import Rough, Sketch, sketch
from unacorda.accounting.profiles.curves import Curve, nothing

__all__ = ["Part", "Question", "Sums"]


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

    def below(self, grid: int, *, ease: float = 1.0) -> Sum:
        """The sum rounded down; ease: a share of the logarithm of delta, to plan for instead."""
        return _built(self._below, self._plan(self._below, 1, grid, ease), side=-1)

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


def _laid(curve: Curve, leaf: Leaf, stage: Stage, *, side: Side) -> Tilted:
    """One law on the grid of its stage."""
    step, tilt = stage.step, stage.window.tilt
    if curve.atoms is not None:
        aligned = _holds(curve.atoms.spacing, step)
        return settled_atoms(curve.atoms, step=step, tilt=tilt, side=side, aligned=aligned)
    build = law_above if side > 0 else law_below
    law = build(curve, step=step, first=leaf.first, last=leaf.last)
    return tilted(law, step=step, tilt=tilt, side=side)


def _holds(spacing: Fraction | None, step: Fraction) -> bool:
    return spacing is not None and (spacing / step).denominator == 1
