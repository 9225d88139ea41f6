"""The loss of one step on a grid that holds both edges, from above and from below.

Losses are told from the least one, so that node 0 and node m are the atoms. What lies between two
nodes is put on them: above, so that both masses are kept; below, gathered from about each node.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from tacet.accounting.edges.steps import Way
from tacet.accounting.pld.convolution import Side, Tilted, tilted
from tacet.accounting.pld.grid import Law
from tacet.accounting.profiles.boxes import Array
from tacet.privacy.enclosure import context

__all__ = ["Ladder"]

_U = 2.0**-53
_MOST_STARTS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Ladder:
    """One step on nodes 0..m; the loss of node i is `bottom` of the way plus i steps.

    above, below: masses of the laws that lie above and below; drift: how far a loss may lie on the
    wrong side of its node; between: about the mass between the atoms, by nodes.
    """

    step: Fraction
    above: Array
    below: Array
    drift: float

    @classmethod
    def of(cls, way: Way, rungs: int) -> Ladder:
        """With so many cells between the atoms.

        Source      docs/proofs/edges.md, Lemmas 2 and 3.
        """
        u, width, mp = float(way.steps.edge), float(way.width), context()
        h = width / rungs
        least, most = float(mp.exp(way.least)), float(mp.exp(way.most))
        above, below = np.zeros(rungs + 1), np.zeros(rungs + 1)
        drift = (100.0 + 8.0 * u) * _U * width
        if way.steps.inner:
            places, losses = _places(way, rungs)
            drift += float(np.max(np.abs(losses - h * np.arange(rungs + 1))))
            drift += 16.0 * u * _U * _steepest(way)  # of the middle of a group
            above = _split(way, places, h, sure=(300.0 + 16.0 * u) * _U + 8.0 * drift / h)
            below = _gathered(way, places)
        ends = np.array([0, rungs])
        above[ends] += np.array([least, most]) * (1 + 8 * _U)
        below[ends] += np.array([least, most]) * (1 - 8 * _U)
        above, below = above * (1 + 8 * _U), below * (1 - 8 * _U)
        return cls(step=Fraction(h), above=above, below=below, drift=drift)

    def spread(self, tilt: float) -> float:
        """About how far the laws above and below lie apart under a tilt, relative to either."""
        with np.errstate(under="ignore"):
            weights = np.exp(tilt * float(self.step) * np.arange(1 - len(self.above), 1))
            below = float(self.below @ weights)
            return float((self.above - self.below) @ weights) / max(below, 1e-300)

    def law(self, tilt: float, side: Side) -> Tilted:
        """The law above (1) or below (-1) under a tilt."""
        weights = self.above if side > 0 else self.below
        found = tilted(
            Law(first=0, weights=weights, infinity=0.0), step=self.step, tilt=tilt, side=side
        )
        return replace(found, drift=self.drift)


def _places(way: Way, rungs: int) -> tuple[Array, Array]:
    """Places y from 0 to 2 u at which the loss is about that of each node, and the loss there.

    y is z + u where the unit is removed, u - z where it is added. The losses are within
    (60 + 4 u) 2^-53 of themselves.
    """
    u, rate = float(way.steps.edge), way.steps.rate
    q, rest = float(rate), float(1 - rate)
    nodes = float(way.width) / rungs * np.arange(rungs + 1)
    if way.remove:
        kappa = q / (q + rest * math.exp(u))
        y = np.log1p(np.expm1(nodes) / kappa)
        y = _ascending(y, u)
        return y, np.log1p(kappa * np.expm1(y))
    kappa, left = q / (q + rest * math.exp(-u)), rest / (q * math.exp(u) + rest)
    fall = -np.expm1(-nodes)  # 1 - e^-loss
    near = -np.log1p(-np.minimum(fall / kappa, 0.5))
    beyond = 1 - fall / kappa if left > 0.5 else (np.exp(-nodes) - left) / kappa
    y = np.where(fall < 0.5 * kappa, near, -np.log(np.maximum(beyond, 1e-300)))
    y = _ascending(y, u)
    share = -kappa * np.expm1(-y)
    far = -np.log(left + kappa * np.exp(-y))
    return y, np.where(share < 0.5, -np.log1p(-np.minimum(share, 0.5)), far)


def _ascending(y: Array, u: float) -> Array:
    """Places in order, within [0, 2 u], which the first and last are."""
    y = np.clip(y, 0.0, 2 * u)
    y[0], y[-1] = 0.0, 2 * u
    return np.maximum.accumulate(y)


def _steepest(way: Way) -> float:
    """The largest slope of the loss in y."""
    rate = way.steps.rate
    return float(rate) / (float(rate) + float(1 - rate) * math.exp(-float(way.steps.edge)))


def _masses(way: Way, y: Array, wide: Array) -> Array:
    """The masses of cells that begin at y, and how wide they are."""
    u, rate = float(way.steps.edge), way.steps.rate
    q, rest, inner = float(rate), float(1 - rate), float(way.steps.inner)
    rise: Array = inner * math.exp(-u) * np.exp(0.5 * y) * np.expm1(0.5 * wide)
    if way.remove:
        rise = q * rise + rest * inner * np.exp(-0.5 * y) * -np.expm1(-0.5 * wide)
    return rise


def _split(way: Way, places: Array, h: float, *, sure: float) -> Array:
    """Each cell's mass on the nodes at both ends, so that it and its mean e^-loss are kept."""
    u, rate = float(way.steps.edge), way.steps.rate
    q, rest, inner = float(rate), float(1 - rate), float(way.steps.inner)
    y, wide = places[:-1], np.diff(places)
    charge = sure + 8.0 * u * _U / np.maximum(wide, 1e-300)
    over = inner * math.exp(-u) * np.exp(0.5 * y) * (2 * np.sinh(0.25 * wide)) ** 2
    over *= (q if way.remove else q / (q + rest * np.exp(y - u))) / -math.expm1(-h)
    found = np.zeros(len(places))
    found[1:] = over * (1 + charge)
    mass = _masses(way, y, wide)
    found[:-1] += np.maximum(mass * (1 + charge) - over * (1 - charge), 0.0)
    return found


def _gathered(way: Way, places: Array) -> Array:
    """The masses gathered on nodes, from about each: what they lose on average is at the middle.

    From both edges on to a node between, to which what is left over falls; from the upper one
    alone where the lower cells are wide.
    """
    u, last = float(way.steps.edge), len(places) - 1
    middle = last // 2 if last > 4 and 2 * places[1] <= places[4] else 0
    low = _ends(places[: middle + 1])
    low = low[low <= places[-1]]
    middle = len(low) - 1
    high = places[-1] - _ends(places[-1] - places[:middle:-1])[::-1]  # of the nodes after middle
    high = np.maximum(high, low[-1])
    starts = np.concatenate((low[:-1], [low[-1]], high[:-1]))
    ends = np.concatenate((low[1:], high))
    wide = np.maximum(ends - starts, 0.0)
    mass = _masses(way, starts, wide)
    mass *= np.maximum(1 - (300.0 + 16.0 * u) * _U - 100.0 * u * _U / np.maximum(wide, 1e-300), 0.0)
    found = np.zeros(last + 1)
    found[1 : middle + 1] = mass[:middle]
    found[middle] += mass[middle]
    found[middle + 1 : last] = mass[middle + 1 :]
    return found


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
