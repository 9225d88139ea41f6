"""The profile of a whole composition as a curve, for what is made of compositions.

The laws of the parts are laid on one grid. Their sum is found under a few tilts, each of which
knows other masses well; at every node the best of what they prove is taken. The masses make two
laws, one whose profile is above, one below: docs/proofs/pld.md, Theorem 3.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from unacorda.accounting.pld.combining import combined
from unacorda.accounting.pld.convolution import Side, Sum, tilted, total
from unacorda.accounting.pld.grid import Law, law_above, law_below
from unacorda.accounting.pld.planning import Leaf, Stage, views
from unacorda.accounting.pld.settling import settled_atoms
from unacorda.accounting.pld.sketches import sketch
from unacorda.accounting.pld.sources import curve_of_atoms
from unacorda.accounting.pld.stages import Part
from unacorda.accounting.profiles.atoms import Atoms
from unacorda.accounting.profiles.boxes import Array, Box
from unacorda.accounting.profiles.curves import Curve, nothing

_U = 2.0**-53
_GOALS = (-0.1, -14.0, -60.0, -140.0)
"""Logarithms of delta that the tilts are for: deviations at even distances.

One more tilt tells the masses under Q, which the round-off of others would hide at low losses.
"""
_GRID = 1 << 14
_LARGEST = 690.0
_NOTHING = 1e-14
_FALLS = (1e-2, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 1e3)


def curve_of_sum(parts: Sequence[Part]) -> Curve:
    """The profile of the composition of the parts, from above; from below it is `attained`.

    Bound       both: of the composition of the upper curves, and of the lower ones.
    Source      docs/proofs/pld.md, Theorem 3.
    """
    above = _curve([(part.above, part.times) for part in parts], side=1)
    below = _curve([(part.below, part.times) for part in parts], side=-1)

    def evaluate(epsilon: Box) -> Box:
        least = (-epsilon.expm1()).at_least(0.0).lower
        return Box(least, np.maximum(above.evaluate(epsilon).upper, least))

    most = above.infinity if above.infinity_above is None else above.infinity_above
    return Curve(
        evaluate=evaluate,
        infinity=min(below.infinity, most),
        infinity_above=most,
        atoms=above.atoms,
        attained=below,
    )


def _curve(parts: Sequence[tuple[Curve | None, int]], *, side: Side) -> Curve:
    """The sum rounded to one side."""
    known = combined([(curve, count) for curve, count in parts if curve is not None])
    if not known:
        return nothing()
    if len(known) == 1 and known[0][1] == 1:
        return known[0][0]
    tilts = views(known, sketch(known, {}), grid=_GRID, fine=True, log_deltas=_GOALS)
    laws = [
        (_laid(known[term.part][0], term, tilts[0].step, side=side), count)
        for term, count in tilts[0].terms
        if isinstance(term, Leaf)
    ]
    sums = [_sum(laws, view, side=side) for view in tilts]
    return curve_of_atoms(_atoms(sums, side=side))


@dataclass(frozen=True, slots=True)
class _Laid:
    """A law on the grid, and how far its losses may lie on the wrong side of the nodes."""

    law: Law
    drift: float


def _laid(curve: Curve, leaf: Leaf, step: Fraction, *, side: Side) -> _Laid:
    if curve.atoms is None:
        build = law_above if side > 0 else law_below
        return _Laid(build(curve, step=step, first=leaf.first, last=leaf.last), 0.0)
    spacing = curve.atoms.spacing
    aligned = spacing is not None and (spacing / step).denominator == 1
    found = settled_atoms(
        curve.atoms, step=step, tilt=0.0, side=side, spread=side > 0, aligned=aligned
    )
    weights = found.values * (math.exp(found.height) * (1 + side * 8 * _U))
    return _Laid(Law(first=found.first, weights=weights, infinity=found.infinity), found.drift)


def _sum(laws: Sequence[tuple[_Laid, int]], view: Stage, *, side: Side) -> tuple[Sum, float]:
    """The sum under one tilt, and the drift of its losses."""
    terms = [
        (tilted(laid.law, step=view.step, tilt=view.window.tilt, side=side), count)
        for laid, count in laws
    ]
    drift = sum(count * laid.drift for laid, count in laws)
    # where a tilt is too steep for the floats, nothing is said
    with np.errstate(over="ignore", invalid="ignore"):
        return total(terms, step=view.step, window=view.window, side=side), drift


def _atoms(sums: Sequence[tuple[Sum, float]], *, side: Side) -> Atoms:
    """At every node the least mass that is proved to be enough, or the largest that is there."""
    one, drift = sums[0]
    numbers = np.arange(one.window.first, one.window.first + one.window.size)
    losses: Array = np.asarray(numbers * float(one.step))
    found = [_masses(each, losses, side=side) for each, _ in sums]
    best = np.minimum if side > 0 else np.maximum
    masses: Array = best.reduce(found)
    most = min(each.infinity + each.beyond for each, _ in sums) * (1 + 8 * _U)
    if (
        side > 0
    ):  # what lies below the window, and next to nothing, is raised to where there is more
        masses[0] += _below(one)
        risen = np.cumsum(masses)
        start = min(int(np.searchsorted(risen, _NOTHING)), len(masses) - 1)
        masses[start] = risen[start] * (1 + 2 * _U * len(masses))
        masses[:start] = 0.0
    held = masses > 0
    return Atoms(
        losses=losses[held],
        masses=masses[held],
        infinity=max(each.infinity for each, _ in sums) * (1 - 8 * _U),
        infinity_above=min(most, 1.0),
        error=drift + 8 * _U * max(abs(one.top), abs(one.bottom)),
        spacing=one.step,
        lower=side < 0,
    )


def _masses(found: Sum, losses: Array, *, side: Side) -> Array:
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


def _below(found: Sum) -> float:
    """A bound of the mass below the window."""
    width = max(found.top - found.bottom, 1e-12)
    bounds = []
    for fall in _FALLS:
        order = -fall * 100 / width
        value, error = found.cumulant(order)
        exponent = value + error - order * found.bottom
        bounds.append(math.exp(min(exponent + 1e-9 * (1 + abs(exponent)), 0.0)))
    return min(bounds)
