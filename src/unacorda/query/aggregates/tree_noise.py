r"""Noise that adds up: drawn at all levels of a tree of counts at once.

Where every level has Laplace noise of its own, the fit that makes tables add up throws part of it
away, but the budget was spent on all of it. Here the noise adds up to begin with. Each cell c has a
whole number z_c of noise, each node the sum z_v of that of its cells, and all of it together has

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
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from unacorda import checks
from unacorda.bits import RandomBits
from unacorda.mechanisms import samplers
from unacorda.mechanisms.additive.integer import DiscreteLaplace
from unacorda.privacy.events import Event, Pure
from unacorda.query.aggregates.tree_law import Shape, TreeLaw, tree_law
from unacorda.query.noise.additive import AdditiveNoise

__all__ = ["TreeNoise", "loudness_of", "tree_noise"]

Integers = NDArray[np.int64]

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
    def loudness(self) -> float:
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
