r"""The law of noise that adds up: what a node of a tree of counts errs by.

The noise z_v of every node v is the sum of that of its cells, and all of it together has
probability proportional to exp(-sum over all nodes of r_v |z_v|), r_v the rate of the node's level
(`tree_noise`). From below, the sum of a node's parts has the law

    p_v(z) ~ exp(-r_v |z|) (p_a * p_b * ...)(z)          over its parts a, b, ...

as far as the node and what is below it are concerned. From above, a message m_v(z) says how
probable the rest of the tree is where the node's noise is z: m = 1 at the root, and for a part a of
v it is the convolution of exp(-r_v |z|) m_v(z) with the laws of the other parts. The node's noise
then has probability proportional to p_v(z) m_v(z). Convolutions are taken by Fourier transforms on
a lattice of as many steps as are needed; where scales are large its step is a part of the smallest
scale, and standard deviations are right to four digits.

Nodes with the same parts have the same p, and with the same ancestors beside the same law: each is
found once.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Shape", "TreeLaw", "even_shape", "shape_of", "tree_law"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Parts = tuple[tuple[int, int], ...]

_MOST_POINTS = 2**17  # of the lattice
_MOST_WORK = 2**22  # points times kinds of nodes
_MOST_DRAWS = 5_000_000.0  # cells, in the mean, until a tree is kept; about half a second
# Steps of the lattice within the smallest scale, and standard deviations and scales to either side.
_FINE = (24.0, 12.0, 36.0)
_COARSE = (8.0, 7.0, 20.0)
_INSIDE = 0.95


@dataclass(frozen=True, slots=True)
class Shape:
    """A tree by its kinds of nodes: by level, coarse to fine, what each kind is made up of.

    kinds: of a level for every kind the (kind of the level below, how many), empty for cells. The
    first level has one kind, the root.
    """

    kinds: tuple[tuple[Parts, ...], ...]

    @property
    def size(self) -> int:
        """How many kinds of nodes there are."""
        return sum(map(len, self.kinds))


def even_shape(fans: Sequence[int]) -> Shape:
    """The tree each of whose levels splits all nodes into so many.

    >>> even_shape([2, 3]).kinds
    ((((0, 2),),), (((0, 3),),), ((),))
    """
    return Shape((*((((0, fan),),) for fan in fans), ((),)))


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeLaw:
    """What the noise of every node is like.

    contexts: by level, which number the law of a node has, by the number of its parent's law and
    its own kind. nodes, variances, half_widths: by level and number; nodes: how many have this law;
    half_widths: of the 95% interval.
    draws: how many cells are drawn, in the mean, until a tree is kept (`tree_noise`); kept: by
    level how often a node's parts are, the rarest.
    """

    contexts: tuple[dict[tuple[int, int], int], ...]
    nodes: tuple[tuple[int, ...], ...]
    variances: tuple[tuple[float, ...], ...]
    half_widths: tuple[tuple[float, ...], ...]
    draws: float
    kept: tuple[float, ...]

    @property
    def means(self) -> tuple[float, ...]:
        """The mean variance of each level's nodes."""
        return tuple(
            math.fsum(n * v for n, v in zip(*level, strict=True)) / sum(level[0])
            for level in zip(self.nodes, self.variances, strict=True)
        )

    def numbers(self, parents: Sequence[Integers], kinds: Sequence[Integers]) -> list[Integers]:
        """Of every node of every level the number of its law; parents: see `shape_of`."""
        found = [np.zeros(1, dtype=np.int64)]
        for known, above, own in zip(self.contexts[1:], parents, kinds[1:], strict=True):
            pairs = zip(found[-1][above].tolist(), own.tolist(), strict=True)
            found.append(np.array([known[pair] for pair in pairs], dtype=np.int64))
        return found


@functools.lru_cache(maxsize=64)
def tree_law(shape: Shape, rates: tuple[float, ...], *, coarse: bool = False) -> TreeLaw | None:
    """The law of a tree's noise; None where it would take long to tell, or to draw from.

    rates: of each level, of a whole number of noise, above 0. coarse: to two digits and without
    half_widths, for searches.
    """
    found = _lattice(shape, rates, _COARSE if coarse else _FINE)
    if found is None:
        return None
    step, points = found
    sizes = np.minimum(np.arange(points), points - np.arange(points)) * step
    tilts = [np.exp(-rate * sizes) for rate in rates]
    above, kept, draws = _upwards(shape, tilts, points)
    if draws > _MOST_DRAWS:
        return None
    contexts: list[dict[tuple[int, int], int]] = [{(0, 0): 0}]
    messages: list[list[Floats]] = [[np.ones(points)]]
    variances, half_widths = [], []
    nodes, total = [[1]], 0
    for level in range(len(rates)):
        below: dict[tuple[int, int], int] = {}
        sent: list[Floats] = []
        many: list[int] = []
        spread, widths = [], []
        for (_, kind), number in contexts[level].items():
            message = messages[level][number]
            law = _inverse(above[level][kind], points) * message
            law /= law.sum()
            spread.append(float(law @ sizes**2))
            widths.append(0.0 if coarse else _half_width(law, step))
            if level + 1 < len(rates):
                outer = np.fft.rfft(tilts[level] * message).real
                parts = shape.kinds[level][kind]
                for (part, count), rest in zip(parts, _rests(parts, above[level + 1]), strict=True):
                    below[number, part] = len(sent)
                    many.append(nodes[level][number] * count)
                    one = _inverse(outer * rest, points)
                    sent.append(one / one.max())
        total += len(sent)
        if total * points > _MOST_WORK:
            return None
        variances.append(tuple(spread))
        half_widths.append(tuple(widths))
        if level + 1 < len(rates):
            contexts.append(below)
            nodes.append(many)
            messages[level].clear()
            messages.append(sent)
    return TreeLaw(
        contexts=tuple(contexts),
        nodes=tuple(map(tuple, nodes)),
        variances=tuple(variances),
        half_widths=tuple(half_widths),
        draws=draws,
        kept=kept,
    )


def _lattice(
    shape: Shape, rates: Sequence[float], detail: tuple[float, float, float]
) -> tuple[float, int] | None:
    """The step and the number of points; None where too many are needed."""
    if shape.size > _MOST_WORK or min(rates) <= 0:
        return None
    fine, deviations, tail = detail
    widest = [1.0]
    spread = [2 / rates[-1] ** 2]  # at most, of the kinds of the level below
    for level in range(len(rates) - 2, -1, -1):
        sums = [sum(spread[kind] * count for kind, count in kind) for kind in shape.kinds[level]]
        widest.append(math.sqrt(max(sums)))
        own = 2 / rates[level] ** 2
        spread = [whole * own / (whole + own) for whole in sums]
    half = deviations * max(widest) + tail / rates[-1] + 16
    step = max(1.0, 1 / max(rates) / fine)
    if not math.isfinite(half) or half / step > _MOST_POINTS / 2:
        return None
    points = 2 ** math.ceil(math.log2(2 * half / step))
    return None if points * shape.size > _MOST_WORK else (step, points)


def _upwards(
    shape: Shape, tilts: Sequence[Floats], points: int
) -> tuple[list[list[Floats]], tuple[float, ...], float]:
    """Fourier transforms of the laws from below, how often they are kept, and cells drawn."""
    found: list[list[Floats]] = [[np.fft.rfft(tilts[-1] / tilts[-1].sum()).real]]
    costs, kept = [1.0], [1.0]
    for level in range(len(tilts) - 2, -1, -1):
        laws, rarest, cost = [], 1.0, []
        for parts in shape.kinds[level]:
            product = np.ones(points // 2 + 1)
            for kind, count in parts:
                product = product * found[-1][kind] ** count
            law = _inverse(product, points) * tilts[level]
            chance = max(float(law.sum()), 1e-300)
            laws.append(np.fft.rfft(law / chance).real)
            rarest = min(rarest, chance)
            cost.append(sum(costs[kind] * count for kind, count in parts) / chance)
        found.append(laws)
        kept.append(rarest)
        costs = cost
    return found[::-1], tuple(kept[::-1]), costs[0]


def _rests(parts: Parts, below: Sequence[Floats]) -> list[Floats]:
    """For every kind of part, the transform of the sum of the other parts."""
    powers = [below[kind] ** count for kind, count in parts]
    ahead = [np.ones_like(below[0])]
    for power in powers[:-1]:
        ahead.append(ahead[-1] * power)
    behind, found = np.ones_like(below[0]), []
    for place in range(len(parts) - 1, -1, -1):
        kind, count = parts[place]
        found.append(ahead[place] * behind * below[kind] ** (count - 1))
        behind = behind * powers[place]
    return found[::-1]


def _inverse(transform: Floats, points: int) -> Floats:
    """Back from a transform; what is below 0 is rounding."""
    return np.maximum(np.fft.irfft(transform, points), 0.0)


def _half_width(law: Floats, step: float) -> float:
    """The least q with P(|noise| <= q) >= 95%; between steps of the lattice the far one."""
    middle = len(law) // 2
    ends = np.cumsum(law[:middle]) * 2 - law[0]
    place = int(np.searchsorted(ends, _INSIDE * (1 - 1e-12)))
    return place * step if step == 1 else math.ceil((place + 0.5) * step)


def shape_of(parents: Sequence[Integers], sizes: Sequence[int]) -> tuple[Shape, list[Integers]]:
    """The kinds of nodes of a tree, and of every node of every level the number of its kind.

    parents: of each level but the first, of its nodes; sizes: how many nodes each level has.
    """
    kinds: list[tuple[Parts, ...]] = [((),)]
    of_nodes = [np.zeros(sizes[-1], dtype=np.int64)]
    for level in range(len(sizes) - 2, -1, -1):
        counted: list[Counter[int]] = [Counter() for _ in range(sizes[level])]
        for parent, kind in zip(parents[level].tolist(), of_nodes[-1].tolist(), strict=True):
            counted[parent][kind] += 1
        made = [tuple(sorted(one.items())) for one in counted]
        known = {parts: number for number, parts in enumerate(dict.fromkeys(made))}
        kinds.append(tuple(known))
        of_nodes.append(np.array([known[parts] for parts in made], dtype=np.int64))
    return Shape(tuple(kinds[::-1])), of_nodes[::-1]
