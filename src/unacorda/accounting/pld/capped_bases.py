"""Sums of the smallest losses of sampled steps, on finer grids than that of all others.

Nearly all steps have such a loss. On a grid that is wide enough for rare large losses each would be
parted between two nodes, or gathered at one; so they are summed apart, in two stages, and only
their sum is moved to that grid.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from unacorda.accounting.pld.capped_laws import piece_above, piece_below
from unacorda.accounting.pld.capped_masses import Grid, tilted_masses
from unacorda.accounting.pld.capped_plans import Planner
from unacorda.accounting.pld.convolution import Side, Sum, Tilted, Window, total
from unacorda.accounting.pld.sampled_cells import Cells, SampledGaussian
from unacorda.accounting.pld.settling import settled_atoms, settled_sum
from unacorda.accounting.profiles.atoms import Atoms
from unacorda.accounting.profiles.boxes import Array

__all__ = ["MANY", "Apart", "base_apart"]

MANY = 1_000_000
"""Copies whose smallest losses are summed in two stages."""

_U = 2.0**-53
_MARGIN = 64
_FARTHEST = 1e15
_MOSTLY = math.log(0.75)
_REACH = 64  # nodes of the grid of all below which a loss is one of the smallest
_MATTERS = 1e-8
_RARE, _SMALL = 5.0, 1e4  # outputs below, and losses in rates, that are among the smallest
_FEWEST, _MOST = 1 << 14, 1 << 18
_FEWER = 16.0  # such shares of all copies may be left out
_STAGED, _TIMES = 1 << 12, 20  # copies that are summed at once; more are in about as many parts
_WIDE = 16.0  # deviations in a window
_SHARE = 4.0  # of delta, times the nodes: what the grids of the smallest losses may cost
_UNLIKELY, _BEYOND = -16.0, 40.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Apart:
    """Laws with counts whose sum stands for that of offsets of outputs, and what it lacks.

    offset: what the nodes of all together lack of the offsets, within slack; exponent: ln of a
    factor of all masses; missed: the share of the tilted mass that does not count.
    """

    laws: list[tuple[Tilted, int]]
    offset: Fraction = Fraction(0)
    slack: float = 0.0
    exponent: float = 0.0
    missed: float = 0.0


@dataclass(frozen=True, slots=True)
class _Base:
    """Outputs below a place: ln of their mass and the offset of all together, and their errors."""

    place: float
    log_mass: float
    size: float
    error: float
    slip: float

    @classmethod
    def below(cls, step: SampledGaussian, place: float) -> _Base:
        cells = step.below(place)
        size, slip = float(cells.offset[0]), float(cells.offset_error[0])
        log_mass = float(cells.log_null[0]) + step.base + size
        error = float(cells.null_error[0]) + slip + 16 * _U * (abs(log_mass) + size - step.base)
        return cls(place, log_mass, size, error, slip)


def base_apart(
    step: SampledGaussian, count: int, grid: Grid, *, high: float, nodes: int, side: Side
) -> Apart | None:
    """Of so many outputs below `high`: the profile lies nowhere below, or nowhere above.

    A unit is removed. nodes: of the grid; more make it narrower. None where little is gained.

    Bound       to the side.
    Source      docs/proofs/capped.md, Theorems 3 and 4.
    """
    if count < MANY:  # of few each counts: a loss more or less, as one of the base, is too much
        if side < 0:
            return None
        place = min(float(step.places(np.array([grid.step]))[0]), high)
    else:
        reach, small = step.places(np.array([_REACH * grid.step, _SMALL * step.rate])).tolist()
        place = min(max(reach, min(_RARE, small)), high)
    base = _Base.below(step, place)
    if not (count * base.size * grid.step * grid.tilt**2 > _MATTERS and base.log_mass > _MOSTLY):
        return None
    share, rest = _SHARE / nodes, None
    if place < high:
        rest = (_rest_above if side > 0 else _rest_below)(step, grid, base, high)
        if rest is None:
            return None
    if side > 0 or rest is None:
        found = _smallest(step, count, grid, place=place, share=share, side=side)
        if found is None:
            return None
        laws = [(found[0], 1)] + ([(rest, count)] if rest is not None else [])
        return Apart(laws=laws, offset=count * Fraction(found[1]), slack=count * found[2])
    fewer, missed = _enough(rest, count)
    if fewer > _FEWER * share * count:
        return None
    found = _smallest(step, count - fewer, grid, place=place, share=share, side=side)
    if found is None:
        return None
    return Apart(
        laws=[(found[0], 1), (rest, count)],
        offset=(count - fewer) * Fraction(found[1]) + fewer * Fraction(base.size),
        slack=(count - fewer) * found[2] + fewer * (base.slip + 4 * _U * base.size),
        exponent=fewer * (base.log_mass - base.error) * (1 + 4 * _U),
        missed=missed,
    )


def _smallest(
    step: SampledGaussian, count: int, grid: Grid, *, place: float, share: float, side: Side
) -> tuple[Tilted, float, float] | None:
    """The sum of so many offsets of outputs below a place, on the grid.

    And what one offset lacks, within how much.
    """
    first = math.ceil(count / (count / _TIMES) ** 0.4) if count >= _STAGED else count
    times, left = divmod(count, first)
    reaches = {n: _reach(step, n, grid.tilt, place) for n in {first, left, count} - {0}}
    width = max(_width(reaches[n]) for n in (first, left) if n)
    nodes = _nodes(width, count, grid.tilt, share)
    h = width / (nodes - 2 * _MARGIN)
    if not 0 < h < grid.step:
        return None
    finer = Grid(step=h, tilt=grid.tilt, remove=True, most=4 * nodes)
    origin = 0.0
    if side > 0:
        law = piece_above(step, finer, low=-math.inf, high=place)
    else:
        below = piece_below(step, finer, low=-math.inf, high=place)
        law, origin = below if below is not None else (None, 0.0)
    if law is None:
        return None
    lack = step.base + origin

    def summed(laws: list[tuple[Tilted, int]], n: int, h: float, nodes: int) -> Sum | None:
        bottom, _, higher, lower = reaches[n]
        start = float((Fraction(bottom) - n * Fraction(lack)) / Fraction(h))
        if not abs(start) < _FARTHEST:
            return None
        steep = 128.0 / (_MARGIN * h)
        window = Window(
            first=math.floor(start) - _MARGIN,
            size=nodes,
            tilt=grid.tilt,
            higher=min(higher, grid.tilt + steep),
            lower=max(lower, grid.tilt - steep),
        )
        found = total(laws, step=Fraction(h), window=window, side=side)
        return found if max(found.above, found.below) < _UNLIKELY else None

    found = summed([(law, first)], first, h, nodes)
    if times > 1 and found is not None:
        several = _nodes(_width(reaches[count]), times, grid.tilt, share, falls=side < 0)
        wide = _width(reaches[count]) / (several - 2 * _MARGIN)
        laws = [(settled_sum(found, step=Fraction(wide), side=side, spread=side > 0), times)]
        if left:
            few = summed([(law, left)], left, h, nodes)
            if few is None:
                return None
            laws.append((settled_sum(few, step=Fraction(wide), side=side, spread=side > 0), 1))
        found = summed(laws, count, wide, several)
    if found is None:
        return None
    moved = settled_sum(found, step=Fraction(grid.step), side=side, spread=side > 0)
    return moved, origin, 16 * _U * (abs(step.base) + origin) * (1 + 4 * _U)


def _nodes(width: float, copies: int, tilt: float, share: float, *, falls: bool = False) -> int:
    """Of a window in which so many copies, each parted, cost about this share of a delta.

    falls: masses about a node are gathered only as far as those on both sides of it are alike.
    """
    h = math.sqrt(8 * share / copies) / tilt  # h^2 / 4 each to the variance
    if falls:
        deviation = width / _WIDE / math.sqrt(copies)
        h = min(h, math.sqrt(4 * share * deviation / (copies * tilt)))
    return min(max(1 << math.ceil(math.log2(width / h + 1)), _FEWEST), _MOST)


def _reach(
    step: SampledGaussian, count: int, tilt: float, place: float
) -> tuple[float, float, float, float]:
    return Planner.of_pieces(step, [((-math.inf, place), count)]).reach(tilt)


def _width(reach: tuple[float, float, float, float]) -> float:
    return reach[1] - reach[0]


def _rest_above(step: SampledGaussian, grid: Grid, base: _Base, high: float) -> Tilted | None:
    """Nothing, or an output from the base's end to `high` instead of one of the base.

    Source      docs/proofs/capped.md, Theorem 3.
    """
    rest = piece_above(step, grid, low=base.place, high=high)
    if rest is None:
        return None
    numbers, logs = _logs_of(rest, grid, side=1)
    logs = logs - (base.log_mass - base.error)
    least = max((base.size - base.slip) * (1 - 8 * _U), 0.0)
    down = min(math.expm1(least) / math.expm1(grid.step) * (1 - 16 * _U), 0.5)
    shares = math.log(max(down, 1e-300)) + 1e-13, math.log1p(-down) + 1e-14
    return tilted_masses(
        np.concatenate(([0.0], logs + shares[0], logs + shares[1])),
        np.concatenate(([0], numbers - 1, numbers)),
        grid,
        drift=rest.drift,
        side=1,
    )


def _rest_below(step: SampledGaussian, grid: Grid, base: _Base, high: float) -> Tilted | None:
    """As `_rest_above`, from below.

    Source      docs/proofs/capped.md, Theorem 4.
    """
    h = grid.step
    first, last = (math.floor(step.offset_at(place) / h) for place in (base.place, high))
    if last - first > grid.most:
        return None
    halves = np.asarray(np.arange(max(first, 0), last + 1) + 0.5, dtype=np.float64)
    halves = step.places(halves * h)
    halves = halves[(halves > base.place) & (halves < high)]
    edges = np.concatenate(([base.place], halves, [high]))
    if not np.all(np.diff(edges) > 0):
        return None
    cells: Cells = step.grouped(edges)
    logs = cells.log_null + step.base + cells.offset
    errors = cells.null_error + cells.offset_error + 8 * _U * (np.abs(logs) + abs(step.base))
    masses = np.exp(logs - errors - (base.log_mass + base.error)) * (1 - 16 * _U)
    losses = cells.offset - base.size
    known = np.isfinite(masses) & np.isfinite(losses) & (masses > 1e-290)
    if not known.any():
        return None
    slip = float(np.max(cells.offset_error[known])) + base.slip
    atoms = Atoms(losses=losses[known], masses=masses[known], error=slip + 8 * _U * (1 + last) * h)
    rest = settled_atoms(atoms, step=Fraction(h), tilt=grid.tilt, side=-1, spread=False)
    numbers, logs = _logs_of(rest, grid, side=-1)
    return tilted_masses(
        np.append(0.0, logs), np.append(0, numbers), grid, drift=rest.drift, side=-1
    )


def _logs_of(law: Tilted, grid: Grid, *, side: Side) -> tuple[NDArray[np.int64], Array]:
    """The nodes of a law, and ln of its masses without the tilt, to the side."""
    present = law.values > 0
    numbers: NDArray[np.int64] = law.first + np.flatnonzero(present)
    turned = grid.tilt * (numbers * grid.step)
    logs: Array = np.log(law.values[present]) - turned + law.height
    loose = 16 * _U * (np.abs(logs) + 2 * np.abs(turned) + abs(law.height) + 800)
    return numbers, logs + side * loose


def _enough(rest: Tilted, count: int) -> tuple[int, float]:
    """How many of the rest there may be, and the tilted share of that there are more."""
    none = float(rest.values[-rest.first]) if rest.first <= 0 < rest.first + len(rest.values) else 0
    everything = float(np.sum(rest.values))
    mean = count * max(everything - none, 0.0) / everything * (1 + 1e-9)
    most = math.ceil(mean + math.sqrt(2 * _BEYOND * mean) + _BEYOND)
    if most >= count:
        return count, 0.0
    # Chernoff, as e^(mean (t - 1)) bounds the mean of t^number
    return most, math.exp(most - mean - most * math.log(most / mean) + 1e-6 * most) if mean else 0.0
