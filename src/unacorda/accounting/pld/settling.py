"""Masses anywhere are moved to the nodes of a grid.

Each mass is split between its two neighboring nodes so that both it and its e^{-loss} are kept (it
is spread), which errs by the square of the step, or all of it falls to the node below. Masses are
tilted; only ratios of neighbors' tilts are formed.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from unacorda.accounting.pld.convolution import (
    Cumulant,
    Side,
    Sum,
    Tilted,
    cumulant_of,
    nowhere,
)
from unacorda.accounting.profiles.atoms import Atoms
from unacorda.accounting.profiles.boxes import Array

_U = 2.0**-53


@dataclass(frozen=True, slots=True)
class _Places:
    """Where masses lie: the node at or below each, and the distance to it, below one step."""

    nodes: NDArray[np.int64]
    offsets: Array = field(repr=False)


@dataclass(frozen=True, slots=True)
class _Moved:
    """Tilted masses from a node on, and their relative error."""

    first: int
    values: Array = field(repr=False)
    charge: float


def settled_sum(found: Sum, *, step: Fraction, side: Side, spread: bool = True) -> Tilted:
    """A sum on one grid as a law on another, under the same tilt.

    spread: whether masses are split between two nodes; otherwise they fall to the node below.

    Bound       upper or lower, as the side says, of the sum's law, or of that law once spread; see
                docs/proofs/pld.md, Lemmas 5 and 6.
    """
    window, width = found.window, float(found.step)
    numbers = np.arange(window.first, window.first + window.size)
    losses: Array = np.asarray(numbers * width)
    values = np.maximum(found.values, 0.0)
    wrapped = (_exp(found.above) + _exp(found.below)) * (1 + 8 * _U)
    ratio = step / found.step
    drift, slip = found.drift, 0.0
    if ratio.denominator == 1:
        nodes = numbers // int(ratio)
        places = _Places(nodes, np.asarray((numbers - nodes * int(ratio)) * width))
    else:
        places, away = _placed(losses, 8 * _U * np.abs(losses), step=step, side=side)
        values = values * np.exp(side * window.tilt * away)
        slip = float(np.max(away))
    moved = _moved(places, values, step=step, tilt=window.tilt, spread=spread)
    # every value may end up at the node above, multiplied by the tilt between
    growth = math.exp(min((window.tilt + 1) * float(step), 700.0))
    charge = found.charge(0.0) * 2 + moved.charge
    noise = (found.noise + found.spread + 2 * wrapped + charge * float(np.sum(values))) * growth
    return Tilted(
        first=moved.first,
        values=moved.values,
        height=found.exponent,
        cumulant=_least(
            _spread(found.cumulant, step=step, slip=slip),
            cumulant_of(
                moved.first, moved.values, height=found.exponent, step=step, tilt=window.tilt
            ),
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


def _spread(cumulant: Cumulant, *, step: Fraction, slip: float) -> Cumulant:
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
    atoms: Atoms,
    *,
    step: Fraction,
    tilt: float,
    side: Side,
    spread: bool = True,
    aligned: bool = False,
) -> Tilted:
    """Atoms as a law on a grid, under a tilt.

    spread: as in `settled_sum`. aligned: they lie within their error of nodes, so they count as
    there, and may drift.

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
        places = _Places(nodes, np.zeros_like(losses))
        values = values * (1 + side * math.expm1(2 * tilt * drift))
    else:
        error = atoms.error + 8 * _U * np.abs(losses)
        places, away = _placed(losses, error, step=step, side=side)
        values = values * np.exp(side * tilt * away) * (1 + side * 16 * _U)
    moved = _moved(places, values, step=step, tilt=tilt, spread=spread)
    values = moved.values * (1 + side * moved.charge)
    return Tilted(
        first=moved.first,
        values=values,
        height=height,
        cumulant=cumulant_of(moved.first, values, height=height, step=step, tilt=tilt),
        infinity=infinity,
        drift=drift,
    )


def _placed(losses: Array, errors: Array, *, step: Fraction, side: Side) -> tuple[_Places, Array]:
    """Nodes and offsets such that node + offset is beyond each loss, and by how much at most."""
    width = float(step)
    nodes = np.floor(losses / width)
    slack = errors + 8 * _U * (np.abs(losses) + width)
    offsets = losses - nodes * width + side * slack
    over = (offsets >= width).astype(np.float64) - (offsets < 0)
    nodes, offsets = nodes + over, np.clip(offsets - over * width, 0.0, width)
    # where the slack is wider than a step, losses fall as many nodes as that takes
    far = np.ceil(slack / width) * (slack > width / 4)
    places = _Places((nodes + side * far).astype(np.int64), offsets)
    return places, (slack * 2 + far * width) * (1 + 4 * _U)


def _moved(places: _Places, values: Array, *, step: Fraction, tilt: float, spread: bool) -> _Moved:
    """The tilted masses at the nodes: each split between its two neighbors, or all below."""
    width = float(step)
    first = int(np.min(places.nodes))
    cells = places.nodes - first
    count = int(np.max(cells)) + 2
    whole = -math.expm1(-width)
    offsets = places.offsets
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
    return _Moved(first, np.asarray(right + left, dtype=np.float64), charge)


def _exp(value: float) -> float:
    return math.exp(value) if value < 709 else math.inf
