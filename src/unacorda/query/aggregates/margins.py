"""Tables that add up: noise at every level, then the least squares estimate that fits them all.

A question has cells; a level is a coarser table, each of whose nodes is the sum of some cells.
Every level is measured with noise of its own, of variance s_l^2. Of all tables of cells the one is
taken whose sums over nodes are nearest to what was measured, in squares weighted by 1 / s_l^2. It
is the linear unbiased estimate of least variance, and sums of it are the other levels'.

**Rollups** (each level splits the nodes of the one before). Upwards, a node's estimate is the mean
of its own number and the sum of its children, weighted by their inverse variances; downwards, what
the children's sum misses of their parent is dealt out in proportion to their variances (Hay,
Rastogi, Miklau, Suciu 2010, for equal noise; here for any variances).

**Cubes** (sums over all subsets of the columns of a full table). A table over the columns S is made
up of interactions, one for each subset T: its sums over the other columns, centred along each of T.
Interactions of different T are orthogonal, so that each is the weighted mean of what the tables
over S, T inside S, say of it: with noise of variance s_S^2 |S| / |T| (as in ResidualPlanner, Xiao,
He, Zhang, Kifer 2023).
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from unacorda import checks
from unacorda.checks import Number
from unacorda.errors import InvalidParameter
from unacorda.query.schema.facts import Key

__all__ = [
    "MARGIN",
    "GivenLevelWeights",
    "LevelWeights",
    "Margins",
    "Places",
    "check_level_weights",
    "check_margins",
]

MARGIN = "margin"
"""The column of a release that names the columns a line is about."""

Places = tuple[int, ...]
LevelWeights = tuple[Fraction, ...] | Literal["overall"] | None
"""Parts of the budget by level; "overall": such that all numbers together err least."""
GivenLevelWeights = Sequence[Number] | Literal["overall"] | None
"""The same as a caller writes them."""
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_MOST_COLUMNS = 6


@dataclass(frozen=True, kw_only=True)
class Margins:
    """The levels of a question. keys: of its cells; kind: which levels there are.

    Where keys are found, there are none beforehand; width: the number of columns.
    Levels are named by the places of their columns, coarse to fine: of a rollup (), (0,), (0, 1),
    ...; of a cube all subsets, and then the keys are all combinations. weights: of the levels in
    the budget, where the caller chose them, or "overall".
    """

    kind: Literal["rollup", "cube"]
    keys: tuple[tuple[Key, ...], ...]
    weights: LevelWeights = None
    width: int = 0

    @cached_property
    def levels(self) -> tuple[Places, ...]:
        """The columns of every level."""
        return _levels(self.kind, len(self.keys[0]) if self.keys else self.width)

    @cached_property
    def nodes(self) -> tuple[dict[tuple[Key, ...], int], ...]:
        """Of each level the nodes by their parts of keys, in the order of the first cells."""
        found = []
        for level in self.levels:
            parts = dict.fromkeys(tuple(key[place] for place in level) for key in self.keys)
            found.append({part: number for number, part in enumerate(parts)})
        return tuple(found)

    @cached_property
    def node_of(self) -> tuple[Integers, ...]:
        """Of each level the node that a cell lies in."""
        return tuple(
            np.array(
                [nodes[tuple(key[place] for place in level)] for key in self.keys], dtype=np.int64
            )
            for level, nodes in zip(self.levels, self.nodes, strict=True)
        )

    def names(self, labels: Sequence[str]) -> tuple[str, ...]:
        """Of each level the names of its columns, as `MARGIN` has them."""
        return tuple(", ".join(labels[i] for i in level) or "all" for level in self.levels)

    def lines(self, labels: Sequence[str]) -> tuple[tuple[Key, ...], ...]:
        """Of every node of every level the names of its columns, then its parts, or NULL."""
        found = []
        for name, level, nodes in zip(self.names(labels), self.levels, self.nodes, strict=True):
            for node in nodes:
                parts = dict(zip(level, node, strict=True))
                found.append((name, *(parts.get(place) for place in range(len(labels)))))
        return tuple(found)

    def sums(self, cells: Sequence[int]) -> list[list[int]]:
        """The exact integers of each level."""
        found = []
        for nodes, places in zip(self.nodes, self.node_of, strict=True):
            totals = [0] * len(nodes)
            for cell, place in zip(cells, places.tolist(), strict=True):
                totals[place] += cell
            found.append(totals)
        return found

    def fitted(self, measured: Sequence[Floats], variances: Sequence[float]) -> list[Floats]:
        """The tables that add up and are nearest to what was measured at each level."""
        if self.kind == "rollup" or not self.keys:
            return self._down(measured, variances)[0]
        return self._interactions(measured, variances)[0]

    def fitted_variances(self, variances: Sequence[float]) -> list[Floats]:
        """The variance of every number of `fitted`, from those of the levels' noise."""
        nothing = [np.zeros(len(nodes)) for nodes in self.nodes]
        if self.kind == "rollup" or not self.keys:
            return self._down(nothing, variances)[1]
        return self._interactions(nothing, variances)[1]

    @cached_property
    def parents(self) -> tuple[Integers, ...]:
        """Of each level but the first the node above each node."""
        found = []
        for above, below, nodes in zip(
            self.node_of, self.node_of[1:], self.nodes[1:], strict=False
        ):
            parents = np.zeros(len(nodes), dtype=np.int64)
            parents[below] = above
            found.append(parents)
        return tuple(found)

    def _down(
        self, measured: Sequence[Floats], variances: Sequence[float]
    ) -> tuple[list[Floats], list[Floats]]:
        last = len(self.levels) - 1
        means = [np.asarray(values, dtype=np.float64) for values in measured]
        spreads = [np.full(len(nodes), v) for nodes, v in zip(self.nodes, variances, strict=True)]
        for level in range(last - 1, -1, -1):
            parents, size = self.parents[level], len(self.nodes[level])
            total = np.bincount(parents, weights=means[level + 1], minlength=size)
            spread = np.bincount(parents, weights=spreads[level + 1], minlength=size)
            weight = spread / (spread + spreads[level])  # of the node's own number
            means[level] = weight * means[level] + (1 - weight) * total
            spreads[level] = weight * spreads[level]
        for level in range(last):
            parents, size = self.parents[level], len(self.nodes[level])
            below, spread = means[level + 1], spreads[level + 1]
            total = np.bincount(parents, weights=below, minlength=size)
            whole = np.bincount(parents, weights=spread, minlength=size)
            part = spread / whole[parents]
            means[level + 1] = below + part * (means[level] - total)[parents]
            spreads[level + 1] = spread - part**2 * (whole - spreads[level])[parents]
        return means, spreads

    @cached_property
    def _sizes(self) -> tuple[int, ...]:
        return tuple(len(dict.fromkeys(column)) for column in zip(*self.keys, strict=True))

    def _interactions(
        self, measured: Sequence[Floats], variances: Sequence[float]
    ) -> tuple[list[Floats], list[Floats]]:
        sizes = self._sizes
        tables = {
            level: np.asarray(values, dtype=np.float64).reshape([sizes[i] for i in level])
            for level, values in zip(self.levels, measured, strict=True)
        }
        noise = dict(zip(self.levels, variances, strict=True))
        size = {level: math.prod(sizes[i] for i in level) for level in self.levels}
        parts: dict[Places, Floats] = {}
        spread: dict[Places, float] = {}
        for inner in self.levels:
            over = [level for level in self.levels if set(inner) <= set(level)]
            weights = np.array([size[inner] / (noise[level] * size[level]) for level in over])
            whole = float(weights.sum())
            parts[inner] = sum(
                (
                    w / whole * _centred(tables[level], level, inner)
                    for w, level in zip(weights, over, strict=True)
                ),
                np.zeros([sizes[i] for i in inner]),
            )
            spread[inner] = math.prod(1 - 1 / sizes[i] for i in inner) / whole
        fitted, found = [], []
        for level in self.levels:
            inside = [inner for inner in self.levels if set(inner) <= set(level)]
            table, variance = np.zeros([sizes[i] for i in level]), 0.0
            for inner in inside:
                beyond = size[level] // size[inner]
                shape = [sizes[i] if i in inner else 1 for i in level]
                table = table + parts[inner].reshape(shape) / beyond
                variance += spread[inner] / beyond**2
            fitted.append(table.reshape(-1))
            found.append(np.full(size[level], variance))
        return fitted, found


def check_margins(kind: object, keys: Sequence[tuple[Key, ...]], *, found: int) -> None:
    """Raise InvalidParameter for levels that there are not, or that these keys can not have.

    found: how many columns have keys that are found.
    """
    if kind is None:
        return
    if kind not in {"rollup", "cube"}:
        raise InvalidParameter("margins", kind, expected="'rollup', 'cube' or None")
    columns = [dict.fromkeys(column) for column in zip(*keys, strict=True)]
    if kind == "cube" and found > 1:
        raise InvalidParameter(
            "margins",
            kind,
            expected="private keys of one column at most, since the combinations of several that "
            "are found are no full table: write margins='rollup', or list the keys of the others",
        )
    if kind == "cube" and tuple(itertools.product(*columns)) != tuple(keys):
        raise InvalidParameter(
            "margins", kind, expected="keys as a mapping of lists, or margins='rollup'"
        )
    if kind == "cube" and len(columns) + found > _MOST_COLUMNS:
        raise InvalidParameter("margins", kind, expected=f"at most {_MOST_COLUMNS} columns")


def check_level_weights(
    weights: object, kind: str | None, columns: int, *, found: int = 0
) -> LevelWeights:
    """Weights of the levels as exact numbers; InvalidParameter for what are none of these levels.

    found: how many columns have keys that are found.

    >>> check_level_weights([1, 1, 4], "rollup", 2)
    (Fraction(1, 1), Fraction(1, 1), Fraction(4, 1))
    """
    if weights is None:
        return None
    count = 0 if kind is None else len(_levels(kind, columns))
    expected = f"a positive number for each of the {count} levels, coarse to fine, or 'overall'"
    if kind is None:
        raise InvalidParameter("level_weights", weights, expected="it beside margins=")
    if weights == "overall":
        if found:
            raise InvalidParameter(
                "level_weights", weights, expected="a list: how many keys are found is not known"
            )
        return "overall"
    if not isinstance(weights, list | tuple) or len(weights) != count:
        raise InvalidParameter("level_weights", weights, expected=expected)
    exact = tuple(checks.exact("level_weights", weight) for weight in weights)
    if min(exact) <= 0:
        raise InvalidParameter("level_weights", weights, expected=expected)
    return exact


def _levels(kind: str, columns: int) -> tuple[Places, ...]:
    width = range(columns)
    if kind == "rollup":
        return tuple(tuple(width[:count]) for count in range(columns + 1))
    return tuple(s for count in range(columns + 1) for s in itertools.combinations(width, count))


def _centred(table: Floats, level: Places, inner: Places) -> Floats:
    """The interaction of some of a table's columns."""
    found = table.sum(axis=tuple(axis for axis, i in enumerate(level) if i not in inner))
    for axis in range(len(inner)):
        found = found - found.mean(axis=axis, keepdims=True)
    return np.asarray(found, dtype=np.float64)
