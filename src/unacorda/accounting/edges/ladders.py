"""The loss of one step on a grid that holds both edges, from above and from below.

Losses are told from the least one. Above, node 0 and node m are the atoms, and what lies between
two nodes is put on them, so that both masses are kept. Below, masses are gathered from about each
node, and what is left over beside the atom that a unit hardly moves is gathered with it.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from unacorda.accounting.edges.steps import Way
from unacorda.accounting.pld.convolution import Side, Tilted, tilted
from unacorda.accounting.pld.grid import Law
from unacorda.accounting.profiles.boxes import Array
from unacorda.privacy.enclosure import context

__all__ = ["Grid", "Ladder"]

_U = 2.0**-53
_MOST_STARTS = 300
_TURNS = 8
_SETTLED = 1e-13  # of the width


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Masses of one step; node i loses `start` plus i steps more than the least loss."""

    start: Fraction
    step: Fraction
    masses: Array

    @property
    def losses(self) -> Array:
        """Of the nodes, over the least loss."""
        return _nodes(float(self.start), float(self.step), len(self.masses))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ladder:
    """One step from both sides; drift: how far a loss may lie on the wrong side of its node."""

    above: Grid
    below: Grid
    drift: float

    @classmethod
    def of(cls, way: Way, rungs: int) -> Ladder:
        """With so many cells between the atoms.

        Source      docs/proofs/edges.md, Lemmas 2 and 3.
        """
        u, width, mp = float(way.steps.edge), float(way.width), context()
        h = width / rungs
        drift = (100.0 + 8.0 * u) * _U * width
        above, below, start = np.zeros(rungs + 1), np.zeros(rungs + 1), 0.0
        if way.steps.inner:
            drift += 16.0 * u * _U * _steepest(way)  # of the middle of a group
            places, off = _places(way, _nodes(0.0, h, rungs + 1))
            above = _split(way, places, h, off=drift + off)
            start, below, lack = _gathered(way, rungs)
            drift += max(off, lack)
        # so far from the atom where f is least
        if not way.remove:
            above, below = above[::-1], below[::-1]
        ends = np.array([0, rungs])
        atoms = np.array([float(mp.exp(way.least)), float(mp.exp(way.most))])
        above[ends] += atoms * (1 + 8 * _U)
        below[ends] += atoms * (1 - 8 * _U)
        return cls(
            above=Grid(start=Fraction(0), step=Fraction(h), masses=above * (1 + 8 * _U)),
            below=Grid(
                start=Fraction(start if way.remove else 0),
                step=Fraction((width - start) / rungs),
                masses=below * (1 - 8 * _U),
            ),
            drift=drift,
        )

    def spread(self, tilt: float) -> float:
        """About how far the laws above and below lie apart under a tilt, relative to either."""
        top = float(self.above.losses[-1])
        with np.errstate(under="ignore"):
            above, below = (
                float(grid.masses @ np.exp(tilt * (grid.losses - top)))
                for grid in (self.above, self.below)
            )
        return (above - below) / max(below, 1e-300)

    def law(self, tilt: float, side: Side) -> Tilted:
        """The law above (1) or below (-1) under a tilt, told from node 0."""
        grid = self.above if side > 0 else self.below
        found = tilted(
            Law(first=0, weights=grid.masses, infinity=0.0), step=grid.step, tilt=tilt, side=side
        )
        return replace(found, drift=self.drift)


def _nodes(start: float, step: float, count: int) -> Array:
    return np.asarray(start + step * np.arange(count), dtype=np.float64)


def _places(way: Way, nodes: Array) -> tuple[Array, float]:
    """Places y = z + u from 0 to 2 u where the loss is off that at z = -u by the nodes.

    The last node is at 2 u. Also how far the losses there are off the nodes; they are evaluated
    within (60 + 4 u) 2^-53 of themselves.
    """
    u, kappa = float(way.steps.edge), _kappa(way)
    y = np.clip(np.log1p(np.expm1(nodes) / kappa), 0.0, 2 * u)
    y[-1] = 2 * u
    y = np.maximum.accumulate(y)
    return y, float(np.max(np.abs(np.log1p(kappa * np.expm1(y)) - nodes)))


def _kappa(way: Way) -> float:
    """The slope of the loss in z at -u, of either sign."""
    u, rate = float(way.steps.edge), way.steps.rate
    return float(rate) / (float(rate) + float(1 - rate) * math.exp(u))


def _steepest(way: Way) -> float:
    """The largest slope of the loss in z, of either sign."""
    rate = way.steps.rate
    return float(rate) / (float(rate) + float(1 - rate) * math.exp(-float(way.steps.edge)))


def _masses(way: Way, y: Array, wide: Array) -> Array:
    """The masses of cells that begin at y, and how wide they are."""
    u, rate = float(way.steps.edge), way.steps.rate
    q, rest, inner = float(rate), float(1 - rate), float(way.steps.inner)
    fall: Array = inner * np.exp(-0.5 * y) * -np.expm1(-0.5 * wide)
    if not way.remove:
        return fall
    return rest * fall + q * inner * math.exp(-u) * np.exp(0.5 * y) * np.expm1(0.5 * wide)


def _split(way: Way, places: Array, h: float, *, off: float) -> Array:
    """Each cell's mass on the nodes at both ends, so that it and its mean e^-loss are kept.

    off: how far the losses at the places may be off the nodes, which lie h apart.
    """
    u, rate = float(way.steps.edge), way.steps.rate
    q, rest, inner = float(rate), float(1 - rate), float(way.steps.inner)
    y, wide, ends = places[:-1], np.diff(places), places[1:]
    charge = (300.0 + 16.0 * u) * _U + 8.0 * u * _U / np.maximum(wide, 1e-300)
    stretch = charge + 8.0 * off / h
    over = q * inner * (2 * np.sinh(0.25 * wide)) ** 2 / -math.expm1(-h)
    if way.remove:
        over *= math.exp(-u) * np.exp(0.5 * y)
    else:
        over *= np.exp(-0.5 * ends) / (q + rest * np.exp(u - ends))
    mass = _masses(way, y, wide)
    found, most = np.zeros(len(places)), over * (1 + stretch)
    less = np.maximum(mass * (1 + charge) - over * (1 - stretch), 0.0)
    more, fewer = (found[1:], found[:-1]) if way.remove else (found[:-1], found[1:])
    more += most
    fewer += less
    return found


def _gathered(way: Way, rungs: int) -> tuple[float, Array, float]:
    """How much loss lies between the atom at z = -u and what is gathered with it, and the masses.

    The nodes lie evenly from there to the other atom. What is gathered on a node loses on average
    what is lost at the middle. Last, how far masses may lie on the wrong side of their nodes.
    """
    width, start, kept = float(way.width), 0.0, rungs
    for turn in range(_TURNS):
        places, off = _places(way, _nodes(start, (width - start) / rungs, rungs + 1))
        ends = places[-1] - _ends(places[-1] - places[:0:-1])  # of the nodes before the last
        kept = min(kept, int(np.count_nonzero(ends >= 0.0)))  # never more again: so it settles
        ends = ends[:kept]
        found = _with_atom(way, float(ends[-1]))
        lack = start - found if way.remove else found - start
        if abs(found - start) <= _SETTLED * width or turn == _TURNS - 1:
            break
        start = found
    u = float(way.steps.edge)
    starts, wide = np.append(ends[1:], 0.0), np.maximum(ends - np.append(ends[1:], 0.0), 0.0)
    mass = _masses(way, starts, wide)
    mass *= np.maximum(1 - (300.0 + 16.0 * u) * _U - 100.0 * u * _U / np.maximum(wide, 1e-300), 0.0)
    found_masses = np.zeros(rungs + 1)
    found_masses[rungs - len(mass) + 1 : rungs] = mass[:-1][::-1]
    found_masses[0] = mass[-1]
    return start, found_masses, max(off, lack, 0.0)


def _with_atom(way: Way, y: float) -> float:
    """How much more or less the atom at z = -u and all up to y lose together than the atom."""
    steps = way.steps
    atom, inner = float(steps.atom), float(steps.inner)
    more = inner * (2 * math.sinh(0.25 * y)) ** 2 / (atom - inner * math.expm1(-0.5 * y))
    return math.log1p(_kappa(way) * more)


def _ends(nodes: Array) -> Array:
    """Ends of groups one after the other, the first at node 0, each with its node in the middle.

    Nodes that the group before has passed have no group. A node that is passed by a rounding has
    one of no mass, and the next one begins as much too early.
    """
    ends = np.zeros_like(nodes)
    first, reached, near = 1, 0.0, 16 * _U * float(nodes[-1])
    for _ in range(_MOST_STARTS):
        if first >= len(nodes):
            return ends
        sign = np.where(np.arange(len(nodes) - first) % 2 == 0, 1.0, -1.0)
        steps = np.concatenate(([-reached], 2 * sign * nodes[first:]))
        found = sign * np.cumsum(steps)[1:]
        passed = np.flatnonzero(found[:-1] > nodes[first + 1 :] + near)
        stop = int(passed[0]) + 1 if passed.size else len(found)
        ends[first : first + stop] = found[:stop]
        reached, begun = float(found[stop - 1]), first + stop
        first = max(int(np.searchsorted(nodes, reached, side="right")), begun)
        ends[begun:first] = reached
    ends[first:] = reached
    return ends
