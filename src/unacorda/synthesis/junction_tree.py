"""Junction trees: cliques of columns, and sums over all cells by messages between cliques."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Columns: TypeAlias = tuple[int, ...]
"""Places of columns, in increasing order."""

Floats: TypeAlias = NDArray[np.float64]

_LEAST_SUM: Final = 1e-150


@dataclass(frozen=True, slots=True, kw_only=True)
class Beliefs:
    """The result of message passing: all marginals over cliques and separators, with sum 1.

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
        self.cliques = ColumnGraph(self.sizes, sets).cliques()
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
        """The position of the least clique that holds the columns, or None."""
        if columns not in self._homes:
            asked = set(columns)
            inside = [i for i, clique in enumerate(self.cliques) if asked <= set(clique)]
            least = min(inside, key=lambda i: math.prod(self.shapes[i]), default=None)
            self._homes[columns] = least
        return self._homes[columns]

    def calibrate(self, factors: Sequence[Floats]) -> Beliefs:
        """Pass messages up and down the tree.

        factors: of each clique the logarithm of its factor, of its shape; -inf is a factor of 0.
        One exponential per clique, relative to the largest term, so nothing overflows. If all cells
        have a factor of 0, `log_total` is -inf and the beliefs are 0.
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

    def calibrate_products(
        self, factors: Sequence[Floats], *, log_scale: float = 0.0
    ) -> Beliefs | None:
        """Pass messages of the factors themselves, which takes a third of the time of logarithms.

        factors: of each clique, from 0 to 1; the beliefs overwrite them; log_scale: the logarithm
        of their common divisor. Returns None if a sum is so small that terms may have underflowed:
        then pass their logarithms to `calibrate`.
        """
        count = len(self.cliques)
        sums: list[Floats] = [np.empty(0)] * count
        log_total = log_scale
        for i in reversed(self.order):
            clique, term = self.cliques[i], factors[i]
            for child in self.children[i]:
                message = sums[child] / sums[child].max()
                term *= broadcast(message, self.separators[child], clique, self.sizes)
            sums[i] = sum_to(term, clique, self.separators[i])
            if not sums[i].min() >= _LEAST_SUM:
                return None
            log_total += math.log(sums[i].max())
        between: list[Floats] = [np.ones(())] * count
        for i in self.order:
            separator = self.separators[i]
            if self.parents[i] >= 0:
                above = self.parents[i]
                between[i] = sum_to(factors[above], self.cliques[above], separator)
            share = between[i] / sums[i]
            np.multiply(
                factors[i], broadcast(share, separator, self.cliques[i], self.sizes), out=factors[i]
            )
        return Beliefs(log_total=log_total, cliques=tuple(factors), separators=tuple(between))


class FactorTree:
    """The product of the tables of a clique, and sums over its cells to each of them.

    Tables are joined in pairs, those of the least product first, and sums return the same way. Only
    the last joins read all cells of the clique.

    Parameters
    ----------
    clique
        Its columns.
    sets
        The columns of the tables, all within the clique.
    sizes
        How many cells each column has.

    >>> tree = FactorTree((0, 1), [(0,), (1,)], (2, 2))
    >>> product = np.empty((2, 2))
    >>> tree.multiply([np.array([1.0, 2.0]), np.array([1.0, 3.0])], out=product)
    >>> product.tolist()
    [[1.0, 3.0], [2.0, 6.0]]
    >>> [table.tolist() for table in tree.sums(product)]
    [[4.0, 8.0], [3.0, 9.0]]
    """

    def __init__(self, clique: Columns, sets: Sequence[Columns], sizes: Sequence[int]) -> None:
        self.clique, self.sizes = clique, sizes
        self.held = list(sets)
        self.count = len(sets)
        self.joins: list[tuple[int, int]] = []
        left = set(range(self.count))
        costs = {pair: self._cells(*pair) for pair in itertools.combinations(sorted(left), 2)}
        while len(left) > 1:
            first, second = pair = min(costs, key=costs.__getitem__)
            left -= {first, second}
            costs = {one: cost for one, cost in costs.items() if not {*one} & {*pair}}
            new = len(self.held)
            self.held.append(tuple(sorted({*self.held[first], *self.held[second]})))
            costs |= {(old, new): self._cells(old, new) for old in left}
            left.add(new)
            self.joins.append(pair)
        whole = [(new, pair) for new, pair in enumerate(self.joins, self.count)]
        self._shapes = [
            tuple(
                tuple(sizes[a] if a in self.held[part] else 1 for a in self.held[new])
                for part in pair
            )
            for new, pair in whole
        ]
        self._axes = [
            tuple(
                tuple(axis for axis, a in enumerate(self.held[new]) if a not in self.held[part])
                for part in pair
            )
            for new, pair in whole
        ]
        self._own = [tuple(sizes[a] for a in held) for held in self.held]

    def _cells(self, first: int, second: int) -> int:
        """Of the product of two tables."""
        return math.prod(self.sizes[a] for a in {*self.held[first], *self.held[second]})

    def multiply(self, tables: Sequence[Floats], *, out: Floats) -> None:
        """Write the product of the tables, over all columns of the clique."""
        if not tables:
            out.fill(1.0)
            return
        found = list(tables)
        for (first, second), (left, right) in zip(self.joins, self._shapes, strict=True):
            a, b = found[first].reshape(left), found[second].reshape(right)
            if len(found) == len(self.held) - 1 and self.held[-1] == self.clique:
                np.multiply(a, b, out=out)
                return
            found.append(a * b)
        out[...] = broadcast(found[-1], self.held[-1], self.clique, self.sizes)

    def sums(self, belief: Floats) -> list[Floats]:
        """The sums of the cells of the clique over all columns but those of each table."""
        if not self.count:
            return []
        found: list[Floats] = [belief] * len(self.held)
        found[-1] = sum_to(belief, self.clique, self.held[-1])
        for new in range(len(self.held) - 1, self.count - 1, -1):
            pair, axes = self.joins[new - self.count], self._axes[new - self.count]
            for part, out in zip(pair, axes, strict=True):
                found[part] = _total(found[new], out).reshape(self._own[part])
        return found[: self.count]


def broadcast(table: Floats, held: Columns, columns: Columns, sizes: Sequence[int]) -> Floats:
    """The table over `held` as one over `columns`, with axes of length 1 for those not held."""
    return table.reshape([sizes[a] if a in held else 1 for a in columns])


def sum_to(table: Floats, columns: Columns, kept: Columns) -> Floats:
    """The table over `columns`, summed over all that are not kept."""
    out = _outside(columns, kept)
    if not out:
        return table
    shape = [size for axis, size in enumerate(table.shape) if axis not in out]
    return _total(table, out).reshape(shape)


@lru_cache(maxsize=1 << 12)
def _outside(columns: Columns, kept: Columns) -> tuple[int, ...]:
    """The axes of the columns that are not kept."""
    return tuple(axis for axis, a in enumerate(columns) if a not in kept)


def _total(table: Floats, axes: tuple[int, ...]) -> Floats:
    """The sums over increasing axes; those that are left may be one.

    Axes that lie next to each other are one to NumPy: fewer and longer loops.
    """
    shape, steps = _runs(table.shape, axes)
    found = table.reshape(shape)
    for axis in steps:
        found = np.add.reduce(found, axis=axis)
    return found


@lru_cache(maxsize=1 << 12)
def _runs(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[tuple[int, ...], list[int]]:
    """A shape with axes joined where all or none are summed over, and which to sum over in turn."""
    merged: list[int] = []
    gone: list[bool] = []
    for axis, size in enumerate(shape):
        if gone and gone[-1] == (axis in axes):
            merged[-1] *= size
        else:
            merged.append(size)
            gone.append(axis in axes)
    places = [axis for axis, summed in enumerate(gone) if summed]
    return tuple(merged), [axis - before for before, axis in enumerate(places)]


def _reduced(operation: np.ufunc, table: Floats, axes: tuple[int, ...]) -> Floats:
    """The table reduced over increasing axes, which keep the length 1.

    Axis by axis from the first: several at once leave short inner loops, ten times as slow.
    """
    if axes and axes[0] == table.ndim - len(axes):  # the last ones lie together in memory
        return np.asarray(operation.reduce(table, axis=axes, keepdims=True))
    for axis in axes:
        table = operation.reduce(table, axis=axis, keepdims=True)
    return table


class ColumnGraph:
    """The graph of columns that are together in some set, and its junction tree.

    Parameters
    ----------
    sizes
        How many cells each column has.
    sets
        The sets of columns that some clique must hold.
    within
        A graph of these columns, whose sets are held too.

    >>> graph = ColumnGraph((2, 3, 4), [(0, 1), (1, 2)])
    >>> graph.cliques()
    ((0, 1), (1, 2))
    >>> graph.cells, graph.joined((0, 2)).cells
    (18, 24)
    """

    def __init__(
        self, sizes: Sequence[int], sets: Iterable[Columns], *, within: ColumnGraph | None = None
    ) -> None:
        self.sizes = tuple(sizes)
        # Of each column those it lies together with, and of sets of columns the cells; as bits.
        alone = [1 << a for a in range(len(self.sizes))]
        self.near: list[int] = alone if within is None else list(within.near)
        self.products: dict[int, int] = {} if within is None else within.products
        for columns in sets:
            together = _bits(columns)
            for a in columns:
                self.near[a] |= together

    def joined(self, columns: Columns) -> ColumnGraph:
        """The graph in which these columns lie together too."""
        together = _bits(columns)
        held = all(self.near[a] | together == self.near[a] for a in columns)
        return self if held else ColumnGraph(self.sizes, [columns], within=self)

    @cached_property
    def cells(self) -> int:
        """How many cells the cliques of the junction tree have together."""
        return sum(self._product(clique) for clique in self._eliminate())

    def cliques(self) -> tuple[Columns, ...]:
        """The largest cliques that arise where columns are eliminated, the least clique first."""
        return tuple(tuple(_places(clique)) for clique in self._eliminate())

    def _eliminate(self) -> list[int]:
        near, product = list(self.near), self._product
        cells = {a: product(held) for a, held in enumerate(near)}
        cliques: list[int] = []
        while cells:
            first = min(cells, key=cells.__getitem__)
            del cells[first]
            clique, gone = near[first], 1 << first
            if not any(clique | other == other for other in cliques):
                cliques.append(clique)
            for a in _places(clique ^ gone):
                near[a] = (near[a] | clique) ^ gone
                cells[a] = product(near[a])
        return cliques

    def _product(self, held: int) -> int:
        """The cells of a set of columns."""
        found = self.products.get(held)
        if found is None:
            found = self.products[held] = math.prod(self.sizes[a] for a in _places(held))
        return found


def _bits(columns: Columns) -> int:
    """A set of columns as bits."""
    found = 0
    for a in columns:
        found |= 1 << int(a)
    return found


def _places(held: int) -> list[int]:
    """The columns of a set of bits."""
    found = []
    while held:
        least = held & -held
        found.append(least.bit_length() - 1)
        held ^= least
    return found


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
