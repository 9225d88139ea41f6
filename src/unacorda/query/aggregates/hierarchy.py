"""Counts and sums at several levels that add up: the levels, their shares of a budget, the fit.

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

**Shares of the budget.** The fit makes the errors of all levels depend on all shares. With the
variance v_l of a level's noise and s_l cells in each of its nodes, an interaction T has precision
g_T = sum of s_l / v_l over the levels l that contain T, and the numbers of level l, whose columns
make up the interactions T inside l, err by

    V_l = s_l^2 sum over T in l of d_T / (n g_T),     d_T the dimension of T, n the number of cells

exactly so in a cube and in a rollup whose nodes all have as many parts, and nearly so, as a mean
over the level, where the number of parts differs.

Asked apart with equal parts of the budget, level l errs by A_l. The shares taken minimise the mean
of V / A over all released numbers, among those under which no V_l is above A_l. Where nodes have
many parts the limits bind: a coarse level then errs as it would alone, and all that the fit saves
goes to the finest one. How little is left to save, and that under normal noise no other linear
unbiased answer saves more, is shown in docs/proofs/margins.md.

**How they are found.** Let G_l be by how much the mean of c_k V_k / A_k falls for a little more of
a_l. Where noise is normal, a_l is set to a_l sqrt(G_l) over their sum, again and again: then the
mean only falls, and what stays is the optimum (Yu 2010, for problems of this form). Under Laplace
noise V falls as the square of shares, and the cube root is the step. The limits enter as weights:
c_k grows while V_k is above its limit and shrinks while it is below, by steps that become shorter.
Under Laplace noise there may be several optima, and the best found from several starts is taken.

The shares are functions of public numbers alone: how many keys there are, and how far a unit
reaches into each level. They are computed by a fixed number of steps of additions,
multiplications, divisions and square roots in one order, which IEEE 754 defines to the last digit,
and then rounded to a grid: every machine and every version of Python finds the same, so that a
release can be checked anywhere.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import bisect
import dataclasses
import functools
import itertools
import math
import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

import numpy as np

from unacorda import checks
from unacorda.bits import RandomBits
from unacorda.checks import Number
from unacorda.errors import InvalidParameter
from unacorda.privacy.events import Event, compose
from unacorda.query.aggregates.base import Aggregate, Answer, Assumption, Exact, Forecast, Single
from unacorda.query.aggregates.grid import Flags, Floats, Integers
from unacorda.query.aggregates.linear import BoundedSum, Count, CountPeople
from unacorda.query.aggregates.measures import Measure
from unacorda.query.noise.additive import AdditiveNoise, Share
from unacorda.query.schema.keys import Key
from unacorda.query.schema.table import TableSchema
from unacorda.query.schema.units import Reach

MARGIN = "margin"
"""The column of a release that names the columns a line is about."""

Places = tuple[int, ...]
LevelWeights = tuple[Fraction, ...] | Literal["overall"] | None
"""Parts of the budget by level; "overall": such that all numbers together err least."""
GivenLevelWeights = Sequence[Number] | Literal["overall"] | None
"""The same as a caller writes them."""

_MOST_COLUMNS = 6
_GRID = 2**12  # of shares
_LIMIT = 1 - 2**-9  # of V / A: noise that is rounded to whole numbers has not quite its variance
_SLACK = 0.01  # of a step of the grid: what a solution may be off before it is rounded up
_STARTS = ((0.0, 0.0), (0.0, 1.0), (0.5, 1.0), (0.8, 0.0), (0.95, 0.0))
# How far from the even split to the finest level alone, and from its weights to those all alike.
_BETTER = 1 - 1e-6  # times an earlier solution, which a later one has to beat
_BEYOND = 1 + 2**-13  # times a limit, to which searches come near from both sides
_ROUNDS = 600  # at most
_STILL = 1e-9  # a step by less than this is the last one
_SHORTER = 50.0  # steps after which the multipliers of the limits move by half as much
_STEPS = 32  # of the way from the even split to the best
_LEAST = 1e-200
_ROUNDING = 1 + 1e-9  # of variances in doubles
_NORMAL, _LAPLACE = 1.95997, 2.11830  # 95% quantiles over the standard deviation


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
        parts = (dict.fromkeys(_parts(level, self.keys)) for level in self.levels)
        return tuple({node: number for number, node in enumerate(nodes)} for nodes in parts)

    @cached_property
    def node_of(self) -> tuple[Integers, ...]:
        """Of each level the node that a cell lies in."""
        return tuple(
            np.array([nodes[part] for part in _parts(level, self.keys)], dtype=np.int64)
            for level, nodes in zip(self.levels, self.nodes, strict=True)
        )

    @property
    def size(self) -> int:
        """How many nodes all levels have together."""
        if self.kind == "cube":
            return math.prod(len(set(column)) + 1 for column in zip(*self.keys, strict=True))
        return sum(map(len, self.nodes))

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
            totals = np.zeros(len(nodes), dtype=object)
            np.add.at(totals, places, np.array(cells, dtype=object))
            found.append(totals.tolist())
        return found

    def fit(
        self, measured: Sequence[Floats], variances: Sequence[float]
    ) -> tuple[list[Floats], list[Floats]]:
        """The tables that add up and are nearest to what was measured; the variance of each number.

        measured: the numbers of each level; variances: those of the levels' noise.
        """
        if self.kind == "rollup" or not self.keys:
            return self._down(measured, variances)
        return self._interactions(measured, variances)

    def fitted_variances(self, variances: Sequence[float]) -> list[Floats]:
        """The variance of every number of a fit, from those of the levels' noise."""
        return self.fit([np.zeros(len(nodes)) for nodes in self.nodes], variances)[1]

    @cached_property
    def parents(self) -> tuple[Integers, ...]:
        """Of each level but the first the node above each node."""
        parents = tuple(np.zeros(len(nodes), dtype=np.int64) for nodes in self.nodes[1:])
        for above, below, found in zip(self.node_of, self.node_of[1:], parents, strict=False):
            found[below] = above
        return parents

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

    def _interactions(
        self, measured: Sequence[Floats], variances: Sequence[float]
    ) -> tuple[list[Floats], list[Floats]]:
        # Tables keep all axes, of length 1 for the columns that they sum over.
        lengths = [len(dict.fromkeys(column)) for column in zip(*self.keys, strict=True)]
        tables = {
            level: np.asarray(values, dtype=np.float64).reshape(
                [length if i in level else 1 for i, length in enumerate(lengths)]
            )
            for level, values in zip(self.levels, measured, strict=True)
        }
        noise = dict(zip(self.levels, variances, strict=True))
        parts: dict[Places, Floats] = {}
        spread: dict[Places, float] = {}
        for inner in self.levels:
            size = tables[inner].size
            over = [level for level in self.levels if {*inner} <= {*level}]
            weights = np.array([size / (noise[level] * tables[level].size) for level in over])
            whole = float(weights.sum())
            parts[inner] = np.zeros_like(tables[inner])
            for weight, level in zip(weights, over, strict=True):
                parts[inner] += weight / whole * _centred(tables[level], inner)
            spread[inner] = math.prod(1 - 1 / lengths[i] for i in inner) / whole
        fitted, found = [], []
        for level, given in tables.items():
            table, variance = np.zeros_like(given), 0.0
            for inner, part in parts.items():
                if {*inner} <= {*level}:
                    beyond = given.size // part.size
                    table += part / beyond
                    variance += spread[inner] / beyond**2
            fitted.append(table.reshape(-1))
            found.append(np.full(given.size, variance))
        return fitted, found


def check_margins(kind: object, keys: Sequence[tuple[Key, ...]], *, found: int) -> None:
    """Raise InvalidParameter for levels that there are not, or that these keys can not have.

    found: how many columns have keys that are found.
    """
    columns, expected = [dict.fromkeys(column) for column in zip(*keys, strict=True)], ""
    if not isinstance(kind, str) or kind not in {"rollup", "cube"}:
        expected = "'rollup', 'cube' or None"
    elif kind == "cube" and found > 1:
        expected = (
            "private keys of one column at most, since the combinations of several that are found "
            "are no full table: write margins='rollup', or list the keys of the others"
        )
    elif kind == "cube" and not _is_full(columns, keys):
        expected = "keys as a mapping of lists, or margins='rollup'"
    elif kind == "cube" and len(columns) + found > _MOST_COLUMNS:
        expected = f"at most {_MOST_COLUMNS} columns"
    if expected:
        raise InvalidParameter("margins", kind, expected=expected)


def _is_full(columns: Sequence[Iterable[Key]], keys: Sequence[tuple[Key, ...]]) -> bool:
    """Whether the keys are all combinations in order; these are counted before one is made."""
    parts = [tuple(column) for column in columns]
    full = math.prod(map(len, parts)) == len(keys)
    return full and all(map(operator.eq, itertools.product(*parts), keys))


def check_level_weights(
    weights: object, kind: str | None, columns: int, *, found: int = 0
) -> LevelWeights:
    """Weights of the levels as exact numbers; InvalidParameter for what are none of these levels.

    found: how many columns have keys that are found.

    >>> check_level_weights([1, 1, 4], "rollup", 2)
    (Fraction(1, 1), Fraction(1, 1), Fraction(4, 1))
    """
    if kind is None:
        raise InvalidParameter("level_weights", weights, expected="margins= with it")
    if weights == "overall":
        expected = "a list: how many keys are found is not known"
        checks.demand(not found, "level_weights", weights, expected=expected)
        return "overall"
    count = len(_levels(kind, columns))
    if isinstance(weights, list | tuple) and len(weights) == count:
        exact = tuple(checks.exact("level_weights", weight) for weight in weights)
        if min(exact) > 0:
            return exact
    expected = f"a positive number for each of the {count} levels, coarse to fine, or 'overall'"
    raise InvalidParameter("level_weights", weights, expected=expected)


def _levels(kind: str, columns: int) -> tuple[Places, ...]:
    width = range(columns)
    if kind == "rollup":
        return tuple(tuple(width[:count]) for count in range(columns + 1))
    return tuple(s for count in range(columns + 1) for s in itertools.combinations(width, count))


def _parts(level: Places, keys: Sequence[tuple[Key, ...]]) -> Iterator[tuple[Key, ...]]:
    """What keys hold in the columns of a level."""
    return (tuple(key[place] for place in level) for key in keys)


def _centred(table: Floats, inner: Places) -> Floats:
    """The interaction of some of a table's columns."""
    others = tuple(axis for axis in range(table.ndim) if axis not in inner)
    found: Floats = table.sum(axis=others, keepdims=True)
    for axis in inner:
        found = found - found.mean(axis=axis, keepdims=True)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _ShareSplit:
    """The problem, a place for each level, and one for each interaction, named by the same columns.

    inside: by level which interactions are; parts: d_T / n; fits: s_l^2 / A_l; rates: s_l over the
    variance of the level's noise, for all of the budget; weights: of each level in the mean over
    all released numbers; laplace: whether precision goes with the square of a share.
    """

    inside: Flags
    parts: Floats
    fits: Floats
    rates: Floats
    weights: Floats
    laplace: bool

    @staticmethod
    def of(
        levels: Sequence[Places], nodes: Sequence[int], units: Sequence[float], *, laplace: bool
    ) -> _ShareSplit:
        inside = np.array([[{*part} <= {*level} for part in levels] for level in levels])
        dimensions: list[int] = []
        for own, count in zip(inside, nodes, strict=True):
            before = itertools.compress(dimensions, own)  # what is inside a level stands before it
            dimensions.append(count - sum(before))
        of_node, variances = max(nodes) / np.array(nodes), np.array(units)
        return _ShareSplit(
            inside=inside,
            parts=np.array(dimensions) / max(nodes),
            fits=of_node * of_node / (variances * len(levels) ** (2 if laplace else 1)),
            rates=of_node / variances,
            weights=np.array(nodes) / sum(nodes),
            laplace=laplace,
        )

    def precisions(self, shares: Floats) -> Floats:
        """g_T by interaction."""
        own = self.rates * shares
        return _sums(own * shares if self.laplace else own, self.inside.T)

    def ratios(self, shares: Floats) -> Floats:
        """V / A by level."""
        return self.fits * _sums(self.parts / self.precisions(shares), self.inside)

    def falls(self, shares: Floats, weights: Floats) -> Floats:
        """By how much the sum of V / A by these weights falls, for a little more of each share."""
        precisions = self.precisions(shares)
        found = _sums(weights * self.fits, self.inside.T) * self.parts / (precisions * precisions)
        rates = self.rates * shares if self.laplace else self.rates
        return rates * _sums(found, self.inside)

    def solved(self, start: Floats, *, alike: float, limited: bool) -> Floats:
        """The best shares on the way of a search from here; the start, if all are beyond limits.

        alike: how far limited levels are raised to the weight of the finest to begin with.
        """
        shares, weights = start, self.weights
        raised = alike * (weights.max() - weights)
        best, least = shares, math.inf
        for step in range(_ROUNDS):
            ratios = self.ratios(shares)
            value = self.mean(ratios)
            if value < least and (not limited or ratios.max() <= _LIMIT * _BEYOND):
                best, least = shares, value
            if limited:
                length, excess = 0.5 / (1.0 + step / _SHORTER), ratios - _LIMIT
                raised = np.maximum(raised + length * excess * (self.weights + raised), 0.0)
                more = np.maximum(raised + 0.5 * excess * (self.weights + raised), 0.0)
                weights = self.weights + more
            falls = self.falls(shares, weights)
            moved = shares * _root(falls / falls.max(), cube=self.laplace)
            moved = np.maximum(moved / _summed(moved), 1 / _GRID)
            before, shares = shares, moved / _summed(moved)
            if np.abs(shares - before).max() < _STILL:
                break
        return best

    def best(self, *, limited: bool) -> Floats:
        """The best shares found from several starts; the even split is always allowed."""
        even = np.full(len(self.weights), 1.0) / len(self.weights)
        finest = np.where(self.weights == self.weights.max(), 1.0, 0.0)
        best, least = even, self.mean(self.ratios(even))
        for part, alike in _STARTS:
            if alike and not limited:
                continue
            start = (1 - part) / len(even) + part * (finest / _summed(finest))
            found = self.solved(start, alike=alike, limited=limited)
            ratios = self.ratios(found)
            within = not limited or ratios.max() <= 1
            if within and self.mean(ratios) < least * _BETTER:
                best, least = found, self.mean(ratios)
        return best

    def mean(self, ratios: Floats) -> float:
        """Over all released numbers."""
        return float(_summed(self.weights * ratios))


def _sums(values: Floats, among: Flags) -> Floats:
    """By line of `among` the sum of these values."""
    sums: Floats = _summed(np.where(among, values, 0.0))
    return sums


def _summed(values: Floats) -> Any:
    """Added one after the other: `sum` adds in an order of its own."""
    return np.cumsum(values, axis=-1)[..., -1]


def _root(values: Floats, *, cube: bool) -> Floats:
    """Square roots; or x^(1/4) x^(1/16), near the cube root, which libraries round unlike."""
    if not cube:
        return np.sqrt(values)
    fourths = np.sqrt(np.sqrt(values))
    return fourths * np.sqrt(np.sqrt(fourths))


@functools.lru_cache(maxsize=64)
def level_shares(
    levels: tuple[Places, ...],
    nodes: tuple[int, ...],
    units: tuple[float, ...],
    *,
    laplace: bool,
    limited: bool = True,
) -> tuple[Fraction, ...]:
    """The share of every level, coarse to fine; they add up to 1.

    nodes: of each level; units: the variance of each level's noise, relative to one another, for
    the same share; laplace: whether shares are of an epsilon that Laplace noise spends, otherwise
    of what is inverse to a variance; limited: whether no level may err more than asked apart.

    >>> [str(share) for share in level_shares(((), (0,)), (1, 100), (1.0, 1.0), laplace=False)]
    ['127/256', '129/256']
    """
    found = _ShareSplit.of(levels, nodes, units, laplace=laplace).best(limited=limited).tolist()
    # Coarse levels at their limits are rounded up, so that they stay within.
    steps = [max(math.ceil(share * _GRID - _SLACK), 1) for share in found]
    finest = max(_GRID - sum(steps[:-1]), 1)
    whole = sum(steps[:-1]) + finest
    return tuple(Fraction(step, whole) for step in (*steps[:-1], finest))


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelNoise:
    """Noise of each level's own, coarse to fine; means: variances of what is released, by level."""

    levels: tuple[AdditiveNoise, ...]
    means: tuple[float, ...]

    @property
    def event(self) -> Event:
        return compose([level.event for level in self.levels])

    @property
    def log_scale(self) -> float:
        """The logarithm of the noise, the mean over levels."""
        logs = (math.log(max(mean, _LEAST)) / 2 for mean in self.means)
        return math.fsum(logs) / len(self.means)


@dataclass(frozen=True, slots=True, kw_only=True)
class Consistent(Single):
    """A count or a sum at every level of a rollup or a cube."""

    of: Count | CountPeople | BoundedSum
    margins: Margins

    def over(self, keys: tuple[tuple[Key, ...], ...]) -> Consistent:
        """The same where these keys have been found."""
        return dataclasses.replace(self, margins=dataclasses.replace(self.margins, keys=keys))

    def bound_to(self, scope: TableSchema) -> Consistent:
        return self

    @property
    def clamped(self) -> tuple[tuple[str, float, float], ...]:
        """Those of the aggregate at every level."""
        return self.of.clamped

    def measures(self, values: Sequence[str]) -> tuple[Measure, ...]:
        """Those of the finest level: all others are sums of them."""
        return self.of.measures(values)

    def noise(self, share: Share, reach: Reach) -> LevelNoise:
        """By the caller's weights, or the best by which no level errs more than asked apart."""
        reaches, weights = self._reaches(reach), self.margins.weights
        if isinstance(weights, tuple):
            whole = sum(weights, Fraction(0))
            return self._made(share, reaches, [weight / whole for weight in weights])
        even = Fraction(1, len(reaches))
        apart = self._made(share, reaches, [even] * len(reaches))
        if not self.margins.keys:  # it is any number of nodes that will be found
            return apart
        shares = level_shares(
            self.margins.levels,
            self._sizes,
            _units(apart.levels),
            laplace=apart.levels[0].laplace,
            limited=weights is None,
        )
        if weights == "overall":
            return self._made(share, reaches, shares)
        limits = [_square(level) * _ROUNDING for level in apart.levels]

        @functools.cache
        def mixed(step: int) -> LevelNoise:
            part = Fraction(step, _STEPS)
            return self._made(share, reaches, [part * one + (1 - part) * even for one in shares])

        def beyond(step: int) -> bool:
            means = mixed(step).means
            return not all(mean <= limit for mean, limit in zip(means, limits, strict=True))

        # All the way, but where nodes have unlike numbers of parts or noise is rounded.
        if not beyond(_STEPS):
            return mixed(_STEPS)
        found = bisect.bisect_left(range(1, _STEPS), 1, key=beyond)
        return mixed(found) if found else apart

    def _reaches(self, reach: Reach) -> list[Reach]:
        """How far a unit reaches into each level: into no more nodes than it reaches into cells.

        A node of several cells may hold as many rows of it as all of them together.
        """
        margins = self.margins
        if margins.keys:
            held = [int(np.bincount(nodes).max()) for nodes in margins.node_of]
            pairs = list(zip(self._sizes, held, strict=True))
        else:
            cells, finest = reach.cells, max(map(len, margins.levels))
            pairs = [
                (cells if level else 1, 1 if len(level) == finest else reach.touched)
                for level in margins.levels
            ]
        return [
            Reach.within(
                max_rows=reach.rows,
                max_groups=min(reach.touched, nodes),
                max_rows_per_group=reach.per_cell * min(held, reach.touched),
                cells=nodes,
                replaced=reach.replaced,
            )
            for nodes, held in pairs
        ]

    @property
    def _sizes(self) -> tuple[int, ...]:
        """How many nodes each level has."""
        return tuple(len(nodes) for nodes in self.margins.nodes)

    def _made(
        self, share: Share, reaches: Sequence[Reach], parts: Sequence[Fraction]
    ) -> LevelNoise:
        """Noise of each level's own, for its part of the share, and what the fit leaves of it."""
        pairs = zip(parts, reaches, strict=True)
        levels = tuple(self.of.noise(share * part, one) for part, one in pairs)
        means = [_square(level) for level in levels]
        if self.margins.keys:
            means = [float(level.mean()) for level in self.margins.fitted_variances(means)]
        return LevelNoise(levels=levels, means=tuple(means))

    def release(self, exact: Exact, noise: LevelNoise, bits: RandomBits) -> Answer:
        """The tables that add up, one behind the other."""
        sums = self.margins.sums(exact.sums[0])
        measured = [
            level.doubles(values, bits=bits)
            for level, values in zip(noise.levels, sums, strict=True)
        ]
        tables, variances = self.margins.fit(measured, [_square(level) for level in noise.levels])
        values, errors = np.concatenate(tables), np.sqrt(np.concatenate(variances))
        width = errors * (_LAPLACE if noise.levels[0].laplace else _NORMAL)
        return Answer(
            values=values.tolist(),
            standard_errors=errors.tolist(),
            lower=(values - width).tolist(),
            upper=(values + width).tolist(),
            limits=(-math.inf if isinstance(self.of, BoundedSum) else 0.0, math.inf),
        )

    def forecast(self, noise: LevelNoise, reach: Reach, assume: Assumption | None) -> Forecast:
        inner = self.of.forecast(noise.levels[-1], reach, assume)
        if self.margins.keys:
            variances = self.margins.fitted_variances([_square(level) for level in noise.levels])
            largest = tuple(math.sqrt(level.max()) for level in variances)
            levels = "; ".join(
                f"{size:,} nodes {error:.4g}"
                for size, error in zip(self._sizes, largest, strict=True)
            )
        else:
            largest = tuple(one.standard_deviation for one in noise.levels)
            levels = "; ".join(f"at most {error:.4g}" for error in largest)
            levels += ". Sums are those over the keys that are found"
        words = f"at each level: {'; '.join(map(str, noise.levels))}; then the least squares fit"
        return Forecast(
            noise=f"{words} that adds up",
            sensitivity=f"{inner.sensitivity}, at each level",
            levels=largest,
            notes=(*inner.notes, f"expected error by level (largest standard deviation): {levels}"),
        )


def consistent(name: str, aggregate: Aggregate, margins: Margins, reach: Reach) -> Consistent:
    """The aggregate at every level; InvalidParameter where it does not add up."""
    if isinstance(aggregate, CountPeople) and reach.touched > 1:
        raise InvalidParameter(
            name,
            aggregate.tag,
            expected="people of one group each, with margins: one person may be counted in "
            f"{reach.touched:,} groups, so that sums over groups are more than the people there "
            "are, and do not add up. Protect Person(..., max_groups=1), or ask for the people of "
            "each level in a question of its own: session.evaluate([...]) asks them together",
        )
    if not isinstance(aggregate, Count | CountPeople | BoundedSum):
        raise InvalidParameter(
            name,
            aggregate.tag,
            expected="count(), sum() with bounds, or count_people() where a person has rows in one "
            "group, with margins: other answers do not add up",
        )
    return Consistent(
        of=aggregate, margins=margins, weight=aggregate.weight, expressions=aggregate.expressions
    )


def _square(level: AdditiveNoise) -> float:
    """The variance of a level; above zero, so that numbers without noise can be weighed too."""
    return max(level.standard_deviation**2, _LEAST)


def _units(levels: Sequence[AdditiveNoise]) -> tuple[float, ...]:
    """The levels' noise for the same share, relative to the largest: squares of sensitivities."""
    scales = [level.scale for level in levels]
    return tuple(round(float((scale / max(scales)) ** 2), 9) for scale in scales)
