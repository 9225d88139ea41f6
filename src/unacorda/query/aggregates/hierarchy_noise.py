"""Noise of all levels of a tree at once, and how it is shared among them.

**The law**: what a node of a tree of counts errs by. The noise z_v of every node v is the sum of
that of its cells, and all of it together has probability proportional to exp(-sum over all nodes of
r_v |z_v|), r_v the rate of the node's level (`tree_noise`). From below, the sum of a node's parts
has the law

    p_v(z) ~ exp(-r_v |z|) (p_a * p_b * ...)(z)          over its parts a, b, ...

as far as the node and what is below it are concerned. From above, a message m_v(z) says how
probable the rest of the tree is where the node's noise is z: m = 1 at the root, and for a part a of
v it is the convolution of exp(-r_v |z|) m_v(z) with the laws of the other parts. The node's noise
then has probability proportional to p_v(z) m_v(z). Convolutions are taken by Fourier transforms on
a lattice of as many steps as are needed; where scales are large its step is a part of the smallest
scale, and standard deviations are right to four digits.

Nodes with the same parts have the same p, and with the same ancestors beside the same law: each is
found once.

**The noise.** Where every level has Laplace noise of its own, the fit that makes tables add up
throws part of it away, but the budget was spent on all of it. Here the noise adds up to begin with.
Each cell c has a whole number z_c of noise, each node the sum z_v of that of its cells, and all of
it together has

    P(z) proportional to exp(-sum over levels l of (1 / b_l) sum over the nodes v of l of |z_v|).

**Theorem.** If a unit moves the counts of level l by D_l at most, in the sum of absolute values,
the counts with this noise are epsilon-DP for epsilon = sum of D_l / b_l. *Proof.* The answer is
x + z, x the exact cells, so that it is some y with probability P(y - x), and with P(y - x') for a
neighbour x'. At every level the sums of |.| over the nodes differ by D_l at most, by the triangle
inequality, and the normaliser is one for all x. QED

That is the price of Laplace noise of scale b_l at each level. But where two levels tell the same (a
node with one part), the scales 1 / (1 / b + 1 / b') come of it, and of the fit only the root mean
square. Nodes with many parts gain less, those of few parts much.

**How it is drawn**, exactly. Cells are drawn by discrete Laplace noise. A node's parts are kept if
a geometric number G of scale b_l, P(G >= k) = exp(-k / b_l), is not below |z_v|; else all that is
below the node is drawn again, and so up to the root. What is kept has the law above. How often it
is drawn depends on the noise alone, never on the counts.

Source: the exponential mechanism with a norm as its loss, McSherry and Talwar 2007, and Hardt and
Talwar 2010, arXiv:0907.3754 (K-norm), with the norm of all levels; proof above.

**Shares** of a budget for the levels. The shares taken minimise the mean of V / A over all released
numbers, V the variance of a number and A that of its level asked apart with an equal part of the
budget, among those under which no level's V is above a limit: what the least squares fit of levels
asked apart leaves there. V is a function of all shares that has no formula, and the best are found
by the simplex search of Nelder and Mead 1965.

What is promised does not rest on the search: the price of the noise is that of all shares
together, whichever they are, and what they make of errors is computed when they are known.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from unacorda import checks
from unacorda.bits import RandomBits
from unacorda.mechanisms import samplers
from unacorda.mechanisms.additive.integer import DiscreteLaplace
from unacorda.privacy.events import Event, Pure
from unacorda.query.noise.additive import AdditiveNoise

__all__ = [
    "Shape",
    "TreeLaw",
    "TreeNoise",
    "even_shape",
    "loudness_of",
    "shape_of",
    "tree_law",
    "tree_noise",
    "tree_shares",
]

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


_LEAST = 1e-300
_MOST_COPIES = 64
_MOST_DRAWN = 2**20  # cells at once


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeNoise:
    """Noise of all levels at once.

    levels: discrete Laplace noise of each level's scale and sensitivity, coarse to fine; law: what
    the noise of all of them is like, by nodes.
    """

    levels: tuple[AdditiveNoise, ...]
    law: TreeLaw

    @staticmethod
    def of(levels: Sequence[AdditiveNoise], shape: Shape) -> TreeNoise | None:
        """The noise with the scales of these levels; None where it would take long to draw.

        A function of public numbers alone: the levels' noise and how many parts nodes have.
        """
        laws = [level.mechanism for level in levels]
        if not all(isinstance(one, DiscreteLaplace) for one in laws):
            return None
        law = tree_law(shape, tuple(1 / float(scale) for scale in _scales(levels)))
        return None if law is None else TreeNoise(levels=tuple(levels), law=law)

    @property
    def event(self) -> Event:
        """What all levels together cost."""
        epsilon = Fraction(0)
        for level, scale in zip(self.levels, _scales(self.levels), strict=True):
            if isinstance(level.mechanism, DiscreteLaplace):
                epsilon += checks.exact("sensitivity", level.mechanism.l1_sensitivity) / scale
        return Pure(epsilon=epsilon)

    @property
    def log_scale(self) -> float:
        """The logarithm of the noise, the mean over levels."""
        return loudness_of(self.law.means)

    def __str__(self) -> str:
        scales = ", ".join(f"{float(scale):.6g}" for scale in _scales(self.levels))
        return f"discrete Laplace noise of all levels at once, of scales {scales}"

    def drawn(
        self, parents: Sequence[Integers], sizes: Sequence[int], bits: RandomBits
    ) -> Integers:
        """Noise of every cell; parents, sizes: as in `tree_noise`."""
        return tree_noise(parents, sizes, _scales(self.levels), kept=self.law.kept, bits=bits)


def loudness_of(variances: Sequence[float]) -> float:
    """The logarithm of the noise, the mean over levels."""
    return math.fsum(math.log(max(one, _LEAST)) / 2 for one in variances) / len(variances)


def _scales(levels: Sequence[AdditiveNoise]) -> tuple[Fraction, ...]:
    found = []
    for level in levels:
        assert isinstance(level.mechanism, DiscreteLaplace)
        found.append(checks.exact("scale", level.mechanism.scale))
    return tuple(found)


def tree_noise(
    parents: Sequence[Integers],
    sizes: Sequence[int],
    scales: Sequence[Fraction],
    *,
    kept: Sequence[float],
    bits: RandomBits,
) -> Integers:
    """Noise of every cell, in their order.

    parents: of each level but the first, of its nodes; sizes: how many nodes each level has, of
    the first one for each tree, each with noise of its own;
    kept: how often a node's parts are kept, about, which decides how many are tried at once.
    """
    orders = _orders(parents, sizes)
    counts = [
        np.bincount(above, minlength=size) for above, size in zip(parents, sizes, strict=False)
    ]
    sorted_counts = [found[order] for found, order in zip(counts, orders, strict=False)]
    # Nodes in an order in which the parts of each stand together: those of node k of a level from
    # starts[k] on in the level below.
    starts = [np.cumsum(found) - found for found in sorted_counts]
    cells = [np.ones(sizes[-1], dtype=np.int64)]
    for start in starts[::-1]:
        cells.append(np.add.reduceat(cells[-1], start))
    tree = _Tree(
        starts=starts, counts=sorted_counts, cells=cells[::-1], scales=scales, kept=kept, bits=bits
    )
    noise = np.empty(sizes[-1], dtype=np.int64)
    noise[orders[-1]] = tree.drawn(0, np.arange(sizes[0]))
    return noise


def _orders(parents: Sequence[Integers], sizes: Sequence[int]) -> list[Integers]:
    """Of each level its nodes, those of one parent together, parents in their order."""
    orders = [np.arange(sizes[0], dtype=np.int64)]
    for above, size in zip(parents, sizes[1:], strict=True):
        place = np.empty(len(orders[-1]), dtype=np.int64)
        place[orders[-1]] = np.arange(len(orders[-1]))
        orders.append(np.argsort(place[above], kind="stable").astype(np.int64))
        assert len(orders[-1]) == size
    return orders


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tree:
    """cells: by level, how many cells each node has."""

    starts: Sequence[Integers]
    counts: Sequence[Integers]
    cells: Sequence[Integers]
    scales: Sequence[Fraction]
    kept: Sequence[float]
    bits: RandomBits

    def drawn(self, level: int, nodes: Integers) -> Integers:
        """The noise of the cells of these nodes, one behind the other; nodes may be named twice."""
        if level == len(self.counts):
            scale = self.scales[level]
            return samplers.discrete_laplace(scale=scale, size=len(nodes), bits=self.bits)
        sizes = self.cells[level][nodes]
        found = np.empty(int(sizes.sum()), dtype=np.int64)
        ends = np.cumsum(sizes) - sizes
        pending = np.arange(len(nodes))
        while pending.size:
            copies = self._copies(level, int(sizes[pending].sum()))
            tried = np.repeat(pending, copies)
            parts = _ranges(self.starts[level][nodes[tried]], self.counts[level][nodes[tried]])
            noise, lengths = self.drawn(level + 1, parts), sizes[tried]
            begins = np.cumsum(lengths) - lengths
            sums = np.add.reduceat(noise, begins)
            limits = samplers.geometric(scale=self.scales[level], size=len(tried), bits=self.bits)
            good = np.flatnonzero(limits >= np.abs(sums))
            # The first of each node's copies that is kept.
            places, first = np.unique(tried[good], return_index=True)
            good = good[first]
            found[_ranges(ends[places], sizes[places])] = noise[
                _ranges(begins[good], lengths[good])
            ]
            pending = np.setdiff1d(pending, places, assume_unique=True)
        return found

    def _copies(self, level: int, cells: int) -> int:
        """How many times every node is tried at once; a function of public numbers alone."""
        wanted = math.ceil(1.5 / max(self.kept[level], 1 / _MOST_COPIES))
        return max(1, min(wanted, _MOST_COPIES, _MOST_DRAWN // max(cells, 1)))


def _ranges(starts: Integers, counts: Integers) -> Integers:
    """The numbers of all ranges, one behind the other."""
    ends = np.cumsum(counts)
    found: Integers = np.arange(int(counts.sum())) + np.repeat(starts - (ends - counts), counts)
    return found


_GRID = 2**10  # of shares
_LIMIT = 0.997  # of limits: the law is told to two digits in searches, and shares are rounded
_STEEP = 100.0  # what a level costs that is above its limit
_SCALE = 64.0  # of the loudest noise: beyond a few, laws no longer change their form
_FEW_KINDS = 12  # of nodes; of trees with more, one with as many parts everywhere stands for them
_COARSE_SHARES = 0.4  # of the finest level's share, of the others to begin with
_CALLS = 60  # at most, of the law, for each level
_STILL = 1e-5  # a simplex on which costs differ by less is the last


@functools.lru_cache(maxsize=64)
def tree_shares(
    shape: Shape, units: tuple[float, ...], limits: tuple[float, ...] | None = None
) -> tuple[Fraction, ...]:
    """The share of every level, coarse to fine; they add up to 1.

    units: the scale of each level's noise, relative to one another, for the same share; limits: by
    level, of the mean of V / A.

    >>> shares = tree_shares(even_shape([10, 10]), (1.0,) * 3, (1.0,) * 3)
    >>> [round(float(share), 1) for share in shares]
    [0.3, 0.2, 0.5]
    """
    sizes = _sizes(shape)
    if shape.size > _FEW_KINDS:
        shape = even_shape(
            [max(1, round(below / above)) for above, below in itertools.pairwise(sizes)]
        )
    levels, numbers = len(sizes), np.array(sizes, dtype=np.float64)
    scales = _SCALE * np.array(units) / max(units)
    apart = 2 * (levels * scales) ** 2
    most = np.full(levels, np.inf) if limits is None else _LIMIT * np.array(limits)

    def cost(logs: Floats) -> float:
        shares = _shares(logs)
        law = tree_law(shape, tuple((shares / scales).tolist()), coarse=True)
        if law is None:
            return math.inf
        ratios = np.array(law.means) / apart
        beyond = 0.0 if limits is None else np.maximum(ratios - most, 0).sum()
        return float(ratios @ numbers / numbers.sum() + _STEEP * beyond)

    start = np.array([math.log(_COARSE_SHARES)] * (levels - 1) + [0.0])
    best, least = _searched(cost, start, calls=_CALLS * levels)
    if not math.isfinite(least):
        return (Fraction(1, levels),) * levels
    steps = [max(math.ceil(share * _GRID), 1) for share in _shares(best)]
    steps[-1] = max(_GRID - sum(steps[:-1]), 1)
    whole = sum(steps)
    return tuple(Fraction(step, whole) for step in steps)


def _searched(
    cost: Callable[[Floats], float], start: Floats, *, calls: int
) -> tuple[Floats, float]:
    """Where a function is least, near the start, and how much it is there."""
    points = [start, *(start + step for step in np.diag(np.full(len(start), 0.5)))]
    found = sorted(
        ((cost(at), place, at) for place, at in enumerate(points)), key=lambda point: point[:2]
    )
    asked = len(points)

    def tried(at: Floats) -> tuple[float, int, Floats]:
        nonlocal asked
        asked += 1
        return cost(at), asked, at

    while asked < calls and found[-1][0] - found[0][0] > _STILL * found[0][0]:
        middle = np.mean([at for _, _, at in found[:-1]], axis=0)
        away = middle - found[-1][2]
        one = tried(middle + away)
        if one[0] < found[0][0]:
            one = min(one, tried(middle + 2 * away), key=_cost)
        elif one[0] >= found[-2][0]:
            inside = 0.5 if one[0] < found[-1][0] else -0.5
            one = min(one, tried(middle + inside * away), key=_cost)
        if one[0] < found[-1][0]:
            found[-1] = one
        else:
            found[1:] = [tried((at + found[0][2]) / 2) for _, _, at in found[1:]]
        found.sort(key=lambda point: point[:2])
    return found[0][2], found[0][0]


def _cost(point: tuple[float, int, Floats]) -> float:
    return point[0]


def _shares(logs: Floats) -> Floats:
    found = np.maximum(np.exp(logs - logs.max()), 1 / _GRID)
    return np.asarray(found / found.sum(), dtype=np.float64)


def _sizes(shape: Shape) -> Sequence[int]:
    """How many nodes there are at each level."""
    found, many = [1], [1]
    for kinds, below in zip(shape.kinds, shape.kinds[1:], strict=False):
        counts = [0] * len(below)
        for parts, nodes in zip(kinds, many, strict=True):
            for kind, count in parts:
                counts[kind] += nodes * count
        many = counts
        found.append(sum(counts))
    return found
