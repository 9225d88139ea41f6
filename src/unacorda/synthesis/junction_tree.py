"""Junction trees: cliques of columns, and sums over all cells by messages between cliques."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Beliefs", "Columns", "Floats", "JunctionTree", "broadcast", "sum_to", "tree_cells"]

Columns: TypeAlias = tuple[int, ...]
"""Places of columns, in increasing order."""

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Beliefs:
    """What the messages give: all marginals over cliques and separators, each of sum 1.

    log_total: the logarithm of the sum over all cells of the product of the factors.
    """

    log_total: float
    cliques: tuple[Floats, ...]
    separators: tuple[Floats, ...]


class JunctionTree:
    """A junction tree whose cliques hold the given sets of columns.

    Columns are eliminated in the order of the least clique; cliques are joined by the largest
    separators first (Prim). A forest is joined by separators without columns.

    Parameters
    ----------
    sizes
        How many cells each column has, at least 1.
    sets
        The sets of columns that some clique must hold.

    Source: Koller and Friedman 2009, "Probabilistic Graphical Models", Section 9.4 (elimination)
    and Chapter 10 (clique trees).

    >>> tree = JunctionTree((2, 3, 4), [(0, 1), (1, 2)])
    >>> tree.cliques
    ((0, 1), (1, 2))
    >>> tree.cells
    18
    """

    def __init__(self, sizes: Sequence[int], sets: Iterable[Columns]) -> None:
        self.sizes = tuple(sizes)
        self.cliques = _eliminate(self.sizes, sets)
        self.order, self.parents = _join(self.cliques)
        self.children: list[list[int]] = [[] for _ in self.cliques]
        for place in self.order[1:]:
            self.children[self.parents[place]].append(place)
        self.separators = tuple(
            tuple(a for a in clique if a in self.cliques[parent]) if parent >= 0 else ()
            for clique, parent in zip(self.cliques, self.parents, strict=True)
        )
        self.shapes = tuple(tuple(self.sizes[a] for a in clique) for clique in self.cliques)
        self.cells = sum(math.prod(shape) for shape in self.shapes)
        self._homes: dict[Columns, int | None] = {}

    def home(self, columns: Columns) -> int | None:
        """The place of the least clique that holds the columns; None where no clique does."""
        if columns not in self._homes:
            asked = set(columns)
            inside = [i for i, clique in enumerate(self.cliques) if asked <= set(clique)]
            least = min(inside, key=lambda i: math.prod(self.shapes[i]), default=None)
            self._homes[columns] = least
        return self._homes[columns]

    def calibrate(self, factors: Sequence[Floats]) -> Beliefs:
        """Pass messages up and down the tree.

        factors: of each clique the logarithm of its factor, of its shape; -inf is a factor of 0.
        One exponential a clique, relative to the largest term, so nothing overflows. Where all
        cells have a factor of 0, `log_total` is -inf and the beliefs are 0.
        """
        count = len(self.cliques)
        terms: list[Floats] = [np.empty(0)] * count
        sums: list[Floats] = [np.empty(0)] * count
        logs: list[Floats] = [np.empty(0)] * count
        for i in reversed(self.order):
            total: Any = factors[i]
            for child in self.children[i]:
                total = total + broadcast(
                    logs[child], self.separators[child], self.cliques[i], self.sizes
                )
            clique, separator = self.cliques[i], self.separators[i]
            out = tuple(axis for axis, a in enumerate(clique) if a not in separator)
            top = _reduced(np.maximum, total, out)
            top = np.where(np.isneginf(top), 0.0, top)
            terms[i] = np.exp(total - top)
            sums[i] = _reduced(np.add, terms[i], out).reshape([self.sizes[a] for a in separator])
            with np.errstate(divide="ignore"):
                logs[i] = np.log(sums[i]) + top.reshape(sums[i].shape)
        beliefs: list[Floats] = [np.empty(0)] * count
        between: list[Floats] = [np.ones(())] * count
        for i in self.order:
            separator = self.separators[i]
            if self.parents[i] >= 0:
                above = self.parents[i]
                between[i] = sum_to(beliefs[above], self.cliques[above], separator)
            share = np.divide(between[i], sums[i], out=np.zeros_like(sums[i]), where=sums[i] > 0)
            beliefs[i] = terms[i] * broadcast(share, separator, self.cliques[i], self.sizes)
        return Beliefs(
            log_total=float(logs[self.order[0]]),
            cliques=tuple(beliefs),
            separators=tuple(between),
        )


def broadcast(table: Floats, held: Columns, columns: Columns, sizes: Sequence[int]) -> Floats:
    """The table over `held` as one over `columns`, with axes of length 1 for those not held."""
    return table.reshape([sizes[a] if a in held else 1 for a in columns])


def sum_to(table: Floats, columns: Columns, kept: Columns) -> Floats:
    """The table over `columns`, summed over all that are not kept."""
    out = tuple(axis for axis, a in enumerate(columns) if a not in kept)
    if not out:
        return table
    shape = [size for axis, size in enumerate(table.shape) if axis not in out]
    return _reduced(np.add, table, out).reshape(shape)


def _reduced(operation: np.ufunc, table: Floats, axes: tuple[int, ...]) -> Floats:
    """The table reduced over increasing axes, which keep the length 1.

    Axis by axis from the first: several at once leave short inner loops, ten times as slow.
    """
    if axes and axes[0] == table.ndim - len(axes):  # the last ones lie together in memory
        return np.asarray(operation.reduce(table, axis=axes, keepdims=True))
    for axis in axes:
        table = operation.reduce(table, axis=axis, keepdims=True)
    return table


def tree_cells(sizes: Sequence[int], sets: Iterable[Columns]) -> int:
    """How many cells the cliques of the junction tree have together.

    >>> tree_cells((2, 3, 4), [(0, 1), (1, 2), (0, 2)])
    24
    """
    return sum(math.prod(sizes[a] for a in c) for c in _eliminate(tuple(sizes), sets))


def _eliminate(sizes: tuple[int, ...], sets: Iterable[Columns]) -> tuple[Columns, ...]:
    """The largest cliques that arise where columns are eliminated, the least clique first."""
    near = {a: {a} for a in range(len(sizes))}
    for columns in sets:
        for a in columns:
            near[a].update(columns)
    cells = {a: math.prod(sizes[b] for b in near[a]) for a in near}
    cliques: list[set[int]] = []
    while near:
        first = min(near, key=cells.__getitem__)
        clique = near.pop(first)
        if not any(clique <= other for other in cliques):
            cliques.append(clique)
        for a in clique - {first}:
            new = clique - near[a]
            near[a] = (near[a] | new) - {first}
            cells[a] = cells[a] // sizes[first] * math.prod(sizes[b] for b in new)
    return tuple(tuple(sorted(clique)) for clique in cliques)


def _join(cliques: tuple[Columns, ...]) -> tuple[list[int], list[int]]:
    """An order of the cliques from the root, and of each its parent; -1 for the root."""
    parents = [-1] * len(cliques)
    order = [0]
    best = {i: (len(set(cliques[i]) & set(cliques[0])), 0) for i in range(1, len(cliques))}
    while best:
        i = max(best, key=lambda j: (best[j][0], -j))
        parents[i] = best.pop(i)[1]
        order.append(i)
        for j in best:
            shared = len(set(cliques[j]) & set(cliques[i]))
            if shared > best[j][0]:
                best[j] = (shared, i)
    return order, parents
