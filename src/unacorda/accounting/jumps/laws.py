"""Jumps of a sampled Gaussian step on a grid of losses, from above and from below.

A jump is an output whose noisy copy lies above a place. A unit is removed.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unacorda.accounting.pld.capped_masses import Grid, tail_at
from unacorda.accounting.pld.sampled_cells import Cells, Mark, SampledGaussian
from unacorda.accounting.profiles.boxes import Array

__all__ = ["Jumps", "jumps_above", "jumps_below", "raised"]

_U = 2.0**-53
_ROUNDS = 6
_UNTILTED = Grid(step=1.0, tilt=0.0, remove=True, most=1)
_UNEVEN = 2  # nodes from the lowest, between which masses change too fast to be balanced
_STRAY = 0.01  # of a step: how far a loss may be off its node before floats are too coarse
_SLIGHT = 1e-7  # of a step: by how much all nodes may best lie lower, for each jump


@dataclass(frozen=True, slots=True)
class Jumps:
    """Masses of jumps, times e^log_times, at the nodes 0, h, 2 h, ...; losses lie `drift` lower.

    far: the mass and the loss of what lies beyond the grid; the loss may be infinite.
    """

    masses: Array
    drift: float
    far: tuple[float, float]


def jumps_above(
    step: SampledGaussian,
    mark: Mark,
    *,
    h: float,
    nodes: int,
    low: float,
    last: int,
    lift: float,
    log_times: float,
) -> Jumps | None:
    """Jumps, raised by `lift`: the profile lies nowhere below.

    h, nodes: of the grid; low: outputs below about this are raised to it; last: the node from
    which on losses are parted between it and infinity; log_times: ln of what masses are
    multiplied by. None where the grid does not serve.

    Bound       upper.
    Source      docs/proofs/jumps.md, Lemma 2.
    """
    first = max(math.floor(_loss_at(step, low) / h), 0)
    if not first + 1 < last < nodes:
        return None
    numbers = np.arange(first, last + 1, dtype=np.float64)
    edges: Array = step.places(numbers * h - step.base)
    if not np.all(np.diff(edges) > 0):
        return None
    z, z_error = step.z(edges)
    at = Cells(log_null=z, null_error=z_error, z=z, z_error=z_error)
    stray = float(np.max(np.abs(at.offset + step.base - numbers * h) + at.offset_error))
    stray += 8 * _U * (abs(step.base) + last * h)
    if not stray < _STRAY * h:
        return None
    cells = step.grouped(edges, mark)
    logs, errors = _log_masses(step, cells)
    masses = np.exp(logs + errors + log_times) * (1 + 1e-12)
    lowest = numbers[:-1] * h - stray
    away = cells.offset + step.base + cells.offset_error + 8 * _U * last * h - lowest
    share = np.clip(-np.expm1(-away) / -math.expm1(-h - 2 * stray) * (1 + 1e-13), 0.0, 1.0)
    found = np.zeros(nodes + 1)
    found[first + 1 : last + 1] += masses * share
    found[first:last] += masses * (1 - share) * (1 + 4 * _U)
    found[first + 1] += math.exp(float(mark.log_share(edges[:1])[0][0]) + log_times + 1e-9)
    # beyond, all the mass under the other law is at the last node, and the rest at infinity
    mixed, null, error = tail_at(step, float(edges[-1]), _UNTILTED)
    near = last * h - stray + null
    found[last] += math.exp(near + error + log_times + 8 * _U * abs(near)) * (1 + 1e-12)
    rest = -math.expm1(min(near - mixed - 2 * error - 8 * _U * (abs(near) + abs(mixed)), 0.0))
    infinite = math.exp(mixed + error + log_times) * rest * (1 + 1e-12)
    lifted = raised(found, stray + lift, h=h)
    return None if lifted is None else Jumps(lifted, 0.0, (infinite, math.inf))


def raised(masses: Array, lift: float, *, h: float) -> Array | None:
    """Masses at the nodes 0, h, 2 h, ... whose losses are raised, parted between nodes.

    None where they are raised by a step or more.

    Bound       upper.
    Source      docs/proofs/jumps.md, Lemma 2.
    """
    up = math.expm1(-lift) / math.expm1(-h) * (1 + 1e-13)
    if not up < 1:
        return None
    found = masses * (1 - up * (1 - 1e-12)) * (1 + 8 * _U)
    found[1:] += masses[:-1] * up
    return found * (1 + 8 * _U)


def jumps_below(
    step: SampledGaussian,
    mark: Mark,
    *,
    h: float,
    nodes: int,
    low: float,
    last: int,
    log_times: float,
) -> Jumps | None:
    """Jumps with outputs above `low`, beyond the node `last` as one: the profile is nowhere above.

    Arguments are those of `jumps_above`.

    Bound       lower.
    Source      docs/proofs/jumps.md, Lemma 3.
    """
    first = max(math.floor(_loss_at(step, low) / h), 0)
    if not first + 1 < last < nodes:
        return None
    low = min(low, float(step.places(np.array([(first + 0.25) * h - step.base]))[0]))
    numbers: Array = np.arange(first, last + 1, dtype=np.float64)
    moved = np.zeros(len(numbers))
    edges: Array = np.empty(0)
    for trial in range(_ROUNDS + 1):
        halves: Array = step.places((numbers + 0.5) * h + moved - step.base)
        edges = np.concatenate(([low], halves))
        if not np.all(np.diff(edges) > 0):
            return None
        if trial == _ROUNDS:
            break
        cells = step.grouped(edges, mark)
        beside = cells.offset + step.base - numbers * h
        # where neighbours lack alike, both edges move by what they lack
        change = np.append(0.5 * (beside[1:] + beside[:-1]), beside[-1])
        moved = moved - np.where(numbers > first + _UNEVEN, np.nan_to_num(change), 0.0)
        moved = np.clip(moved, -0.3 * h, 0.3 * h)
    cells = step.grouped(edges, mark)
    logs, errors = _log_masses(step, cells)
    masses = np.exp(logs - errors + log_times) * (1 - 1e-12)
    slip = cells.offset_error + 16 * _U * (abs(step.base) + cells.offset)
    lacking = numbers * h - (cells.offset + step.base) + slip
    drift = _SLIGHT * h + 4 * float(slip[-1])  # round-off of the largest losses, and of places
    falls = np.where(lacking <= drift, 0, np.ceil(np.maximum(lacking, 0.0) / h * (1 + 1e-9)))
    fallen: NDArray[np.int64] = np.asarray(numbers - falls, dtype=np.int64)
    good = (fallen >= 0) & np.isfinite(masses)
    gathered = np.bincount(fallen[good], weights=masses[good], minlength=nodes + 1)
    found: Array = np.asarray(gathered, dtype=np.float64)
    share = float(mark.log_share(edges[-1:])[0][0]) - 1e-9
    mixed, null, error = tail_at(step, float(edges[-1]), _UNTILTED)
    far = math.exp(mixed - error + share + log_times) * (1 - 1e-12)
    loss = mixed - null - 2 * error - 8 * _U * (abs(mixed) + abs(null))
    return Jumps(found * (1 - len(numbers) * 4 * _U), drift * (1 + 8 * _U), (far, loss))


def _loss_at(step: SampledGaussian, place: float) -> float:
    return step.base + step.offset_at(place)


def _log_masses(step: SampledGaussian, cells: Cells) -> tuple[Array, Array]:
    logs = cells.log_null + step.base + cells.offset
    errors = cells.null_error + cells.offset_error + 8 * _U * (np.abs(logs) + abs(step.base))
    return logs, errors
