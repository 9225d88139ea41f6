r"""Graphical models of a table, fitted to noisy marginals by ridge regression of its potentials.

The model is p(x) proportional to exp(sum of theta_c(x_c) over the measured sets c of columns). The
potentials theta are the minimum of

    N log Z(theta) - sum_c <theta_c, y_c> + sum_c tau_c sigma_c^2 |theta_c|^2 / 2,

where y_c is the noisy marginal, shifted to the sum N, sigma_c its noise and tau_c the ridge. It is
convex, and its dual is to find the distribution that minimizes half the squared differences to the
measurements over sigma^2, plus tau N times its negative entropy. With tau 0 it is Private-PGM; tau
reduces overfitting to noise in empty cells, and keeps the problem well conditioned.

Source: McKenna, Sheldon, Miklau 2019, arXiv:1901.09136, "Graphical-model based estimation and
inference for differential privacy", Section 3; the ridge: docs/proofs/synthesis.md, section 4.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from unacorda.errors import InvalidParameter
from unacorda.synthesis.junction_tree import (
    Beliefs,
    Columns,
    FactorTree,
    Floats,
    JunctionTree,
    broadcast,
    sum_to,
)

_FEWEST: Final = 10.0  # sigma over the rows of the smallest mean cell that counts
_MOST: Final = 4.0  # the rows of the largest one over sigma
_ITERATIONS: Final = 200
_TOLERANCE: Final = 1e-9
_NO_FACTOR: Final = 0.0
_FEW_CELLS: Final = 1 << 13
_FIRST_STEP: Final = 0.3  # of the rows: curvatures are near 1 over these
_REMEMBERED: Final = 10  # moves
_STEPS: Final = 20
_DECREASE: Final = 1e-4
_CURVATURE: Final = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyMarginal:
    """A released table of counts over some columns.

    columns: increasing places; counts: of the shape of their cells; variance: of the noise in each
    cell, above 0.
    """

    columns: Columns
    counts: Floats
    variance: float


def average(first: NoisyMarginal, second: NoisyMarginal) -> NoisyMarginal:
    """Two measurements of one table as one: their mean, weighted by 1 / variance.

    >>> one = NoisyMarginal(columns=(0,), counts=np.array([1.0, 5.0]), variance=1.0)
    >>> two = NoisyMarginal(columns=(0,), counts=np.array([4.0, 5.0]), variance=2.0)
    >>> average(one, two).counts.tolist()
    [2.0, 5.0]
    """
    weight = second.variance / (first.variance + second.variance)
    return NoisyMarginal(
        columns=first.columns,
        counts=weight * first.counts + (1 - weight) * second.counts,
        variance=weight * first.variance,
    )


def ridge_of(seen: NoisyMarginal, *, rows: float) -> float:
    """Tau of a table: 1 / m, with m rows in the mean cell, from sigma / 10 to 4 sigma.

    A cell that holds m rows is believed as if the logarithm of what it differs by from the rest of
    the model had the deviation 1: then tau sigma^2 = sigma^2 / m. Tables whose noise drowns the
    mean cell bend the model less, but for cells far above the noise: there m counts as sigma / 10.
    Where the mean cell is far above the noise, cells near it still are not: m counts as 4 sigma.

    >>> ridge_of(NoisyMarginal(columns=(0,), counts=np.zeros(200), variance=25.0), rows=1_000)
    0.2
    """
    deviation = math.sqrt(seen.variance)
    mean = max(rows, 1.0) / seen.counts.size
    return 1 / min(max(mean, deviation / _FEWEST), deviation * _MOST)


class MarginalModel:
    """A distribution over all cells of a table, in the form of a junction tree.

    Parameters
    ----------
    sizes
        How many cells each column has.
    potentials
        The logarithms of the factors, by their columns.
    possible
        By columns, the cells that can hold rows (structural zeros are False).

    Raises InvalidParameter where no cell can hold rows.

    >>> model = MarginalModel((2, 2), {(0,): np.log([0.25, 0.75])})
    >>> model.marginal((0, 1)).round(3).tolist()
    [[0.125, 0.125], [0.375, 0.375]]
    """

    def __init__(
        self,
        sizes: Sequence[int],
        potentials: Mapping[Columns, Floats],
        *,
        possible: Mapping[Columns, NDArray[np.bool_]] | None = None,
        tree: JunctionTree | None = None,
    ) -> None:
        self.sizes = tuple(sizes)
        self.potentials = dict(potentials)
        self.possible = dict(possible or {})
        self.tree = tree or JunctionTree(self.sizes, [*self.potentials, *self.possible])
        self._conditionals: dict[int, Floats] = {}
        if self.possible and self.beliefs.log_total == -math.inf:
            expected = "conditions that leave some cell possible"
            raise InvalidParameter("possible", None, expected=expected)

    @cached_property
    def beliefs(self) -> Beliefs:
        """The marginals over the cliques of the tree."""
        factors = _zeros(self.tree)
        for columns, theta in self.potentials.items():
            _add(factors, self.tree, columns, theta)
        for columns, cells in self.possible.items():
            _add(factors, self.tree, columns, np.where(cells, _NO_FACTOR, -math.inf))
        return self.tree.calibrate(factors)

    def where(self, cells: Mapping[int, Sequence[int]]) -> MarginalModel:
        """The distribution of rows whose columns lie in the given cells.

        cells: by place of a column, its cells that are kept. Raises InvalidParameter where the
        model gives them no probability.

        >>> model = MarginalModel((2, 2), {(0, 1): np.log([[0.1, 0.4], [0.3, 0.2]])})
        >>> model.where({0: [0]}).marginal((1,)).round(3).tolist()
        [0.2, 0.8]
        """
        possible = dict(self.possible)
        for column, kept in cells.items():
            mask = np.zeros(self.sizes[column], np.bool_)
            mask[list(kept)] = True
            possible[(column,)] = mask & possible.get((column,), True)
        return MarginalModel(self.sizes, self.potentials, possible=possible, tree=self.tree)

    def marginal(self, columns: Columns) -> Floats:
        """Probabilities of the cells over some columns, which are increasing places.

        Columns of several cliques are joined by elimination on the part of the tree that holds
        them.
        """
        home = self.tree.home(columns)
        if home is not None:
            return sum_to(self.beliefs.cliques[home], self.tree.cliques[home], columns)
        return _Elimination(self, columns).table()

    def conditional(self, clique: int) -> Floats:
        """The belief of a clique, given the columns of its separator."""
        if clique in self._conditionals:
            return self._conditionals[clique]
        tree, beliefs = self.tree, self.beliefs
        below = broadcast(
            beliefs.separators[clique], tree.separators[clique], tree.cliques[clique], self.sizes
        )
        belief = beliefs.cliques[clique]
        zeros = np.zeros_like(belief)
        some = np.broadcast_to(below > 0, belief.shape)
        found: Floats = np.divide(belief, below, out=zeros, where=some)
        self._conditionals[clique] = found
        return found


class _Elimination:
    """Marginals over columns that no clique holds, from the leaves of a subtree to its root."""

    def __init__(self, model: MarginalModel, columns: Columns) -> None:
        self.model, self.columns = model, columns
        tree, asked = model.tree, set(columns)
        self.children = {i: set(tree.children[i]) for i in range(len(tree.cliques))}
        for i in reversed(tree.order[1:]):
            own = set(tree.cliques[i]) - set(tree.separators[i])
            if not self.children[i] and not own & asked:
                self.children[tree.parents[i]].discard(i)
        self.root = tree.order[0]
        while len(self.children[self.root]) == 1:
            (child,) = self.children[self.root]
            if asked & (set(tree.cliques[self.root]) - set(tree.separators[child])):
                break
            self.root = child

    def table(self) -> Floats:
        found, columns = self._message(self.root)
        assert columns == self.columns
        return found

    def _message(self, place: int) -> tuple[Floats, Columns]:
        tree, root = self.model.tree, place == self.root
        base = self.model.beliefs.cliques[place] if root else self.model.conditional(place)
        parts: list[tuple[Floats, Columns]] = [(base, tree.cliques[place])]
        parts += [self._message(child) for child in sorted(self.children[place])]
        kept = set(self.columns) | (set() if root else set(tree.separators[place]))
        columns = tuple(sorted(kept & {a for _, held in parts for a in held}))
        operands: list[Any] = []
        for table, held in parts:
            operands += [table, list(held)]
        # To look for an order of products takes longer than few of them.
        cells = math.prod(self.model.sizes[a] for a in {a for _, held in parts for a in held})
        several = "greedy" if len(parts) > 1 and cells > _FEW_CELLS else False
        found: Floats = np.einsum(*operands, list(columns), optimize=several)
        return found, columns


def fit_model(
    sizes: Sequence[int],
    marginals: Sequence[NoisyMarginal],
    *,
    rows: float,
    ridge: float | None = None,
    possible: Mapping[Columns, NDArray[np.bool_]] | None = None,
    start: Mapping[Columns, Floats] | None = None,
    iterations: int = _ITERATIONS,
    tolerance: float = _TOLERANCE,
) -> MarginalModel:
    """Fit the model to noisy marginals.

    Parameters
    ----------
    sizes
        How many cells each column has.
    marginals
        The released tables, each set of columns once.
    rows
        How many rows the table has, in public; at least 1 is assumed.
    ridge
        tau of all tables, above 0; by default of each that of `ridge_of`.
    possible
        The cells that can hold rows, by columns.
    start
        Potentials to begin with, as of the model before.
    iterations, tolerance
        When to stop: by steps, or where a step changes the function by this part of it.

    Source: the module.

    >>> seen = NoisyMarginal(columns=(0,), counts=np.array([30.0, 10.0]), variance=1e-6)
    >>> fit_model((2, 2), [seen], rows=40).marginal((0,)).round(3).tolist()
    [0.75, 0.25]
    """
    count = max(float(rows), 1.0)
    empty = MarginalModel(
        sizes,
        {seen.columns: np.zeros_like(seen.counts) for seen in marginals},
        possible=possible,
    )
    problem = _Problem(empty, marginals, rows=count, ridge=ridge)
    scaled = problem.minimize(start or {}, iterations=iterations, tolerance=tolerance)
    return MarginalModel(sizes, problem.potentials(scaled), possible=possible, tree=empty.tree)


class _Problem:
    """The convex function of all potentials, as one vector, scaled to curvatures near 1.

    Columns are in the order of their sizes here: loops over the last axis are long.
    """

    def __init__(
        self,
        empty: MarginalModel,
        marginals: Sequence[NoisyMarginal],
        *,
        rows: float,
        ridge: float | None,
    ) -> None:
        self.rows = rows
        by_size = sorted(range(len(empty.sizes)), key=empty.sizes.__getitem__)
        sizes = [empty.sizes[a] for a in by_size]
        self.place = {a: place for place, a in enumerate(by_size)}
        self.given = [seen.columns for seen in marginals]
        self.sets = [self._sorted(columns) for columns in self.given]
        self.masks = {
            self._sorted(columns): self._turned(np.where(cells, _NO_FACTOR, -math.inf), columns)
            for columns, cells in empty.possible.items()
        }
        self.tree = JunctionTree(sizes, [*self.sets, *self.masks])
        self.products = [np.empty(shape) for shape in self.tree.shapes]
        self.ends = np.cumsum([0, *(seen.counts.size for seen in marginals)])
        self.lengths = np.diff(self.ends)
        self.parts = [slice(start, end) for start, end in itertools.pairwise(self.ends.tolist())]
        self.shapes = [tuple(sizes[a] for a in columns) for columns in self.sets]
        homes = [self.tree.home(columns) for columns in self.sets]
        self.at = [
            [i for i, home in enumerate(homes) if home == k] for k in range(len(self.tree.cliques))
        ]
        self.factors = [
            FactorTree(clique, [self.sets[i] for i in held], sizes)
            for clique, held in zip(self.tree.cliques, self.at, strict=True)
        ]
        targets, variances, ridges = [], [], []
        for seen in marginals:
            can = np.ones(seen.counts.shape, np.bool_)
            if empty.possible:
                can = empty.marginal(seen.columns) > 0
            shift = (rows - float(seen.counts[can].sum())) / int(can.sum())
            target = np.where(can, seen.counts + shift, 0.0)
            targets.append(self._turned(target, seen.columns).ravel())
            tau = ridge_of(seen, rows=rows) if ridge is None else ridge
            variances.append(np.full(seen.counts.size, seen.variance))
            ridges.append(np.full(seen.counts.size, tau * seen.variance))
        self.target = np.concatenate([np.zeros(0), *targets])
        self.ridge = np.concatenate([np.zeros(0), *ridges])
        self.deviation = np.sqrt(np.concatenate([np.zeros(0), *variances]))
        curvature = np.maximum(self.target, 0.0) + self.deviation + self.ridge
        self.scale = 1 / np.sqrt(curvature)

    def _sorted(self, columns: Columns) -> Columns:
        """The places of the columns by size."""
        return tuple(sorted(self.place[a] for a in columns))

    def _turned(self, table: NDArray[Any], columns: Columns) -> NDArray[Any]:
        """A table over columns with its axes by size."""
        return table.transpose(np.argsort([self.place[a] for a in columns]))

    def potentials(self, scaled: Floats) -> dict[Columns, Floats]:
        theta = scaled * self.scale
        found = {}
        for columns, table in zip(self.given, self._tables(theta), strict=True):
            places = [self.place[a] for a in columns]
            found[columns] = table.transpose(np.argsort(np.argsort(places)))
        return found

    def start(self, potentials: Mapping[Columns, Floats]) -> Floats:
        """The vector of these potentials; without, those of single columns are of their counts."""
        first = np.zeros(self.target.size)
        for columns, part in zip(self.given, self.parts, strict=True):
            if columns in potentials:
                first[part] = self._turned(potentials[columns], columns).ravel()
            elif len(columns) == 1 and not self.masks:
                logs = np.log(np.maximum(self.target[part], self.deviation[part]))
                first[part] = logs - logs.mean()
        scaled: Floats = first / self.scale
        return scaled

    def value(self, scaled: Floats) -> tuple[float, Floats]:
        """The function over N, and its gradient."""
        theta = scaled * self.scale
        beliefs = self._beliefs(theta)
        marginals = np.empty_like(theta)
        for held, factors, belief in zip(self.at, self.factors, beliefs.cliques, strict=True):
            for i, table in zip(held, factors.sums(belief), strict=True):
                marginals[self.parts[i]] = table.ravel()
        bent = self.ridge * theta
        value = self.rows * beliefs.log_total + float(theta @ (bent / 2 - self.target))
        gradient = self.rows * marginals - self.target + bent
        return value / self.rows, gradient * self.scale / self.rows

    def _beliefs(self, theta: Floats) -> Beliefs:
        """Of the model with these potentials."""
        if not self.masks:
            tops = np.maximum.reduceat(theta, self.ends[:-1])
            tables = self._tables(np.exp(theta - np.repeat(tops, self.lengths)))
            for held, factors, product in zip(self.at, self.factors, self.products, strict=True):
                factors.multiply([tables[i] for i in held], out=product)
            scale = float(tops.sum())
            found = self.tree.calibrate_products(self.products, log_scale=scale)
            if found is not None:
                return found
        logs = _zeros(self.tree)
        pairs = zip(self.sets, self._tables(theta), strict=True)
        for columns, table in itertools.chain(pairs, self.masks.items()):
            _add(logs, self.tree, columns, table)
        return self.tree.calibrate(logs)

    def _tables(self, vector: Floats) -> list[Floats]:
        """A vector as a table for each set of columns."""
        return [
            vector[part].reshape(shape) for part, shape in zip(self.parts, self.shapes, strict=True)
        ]

    def minimize(
        self, start: Mapping[Columns, Floats], *, iterations: int, tolerance: float
    ) -> Floats:
        first = self.start(start)
        if not first.size:
            return first
        slope = 1e6 * tolerance / math.sqrt(self.rows)
        return _descend(
            self.value,
            first,
            iterations=iterations,
            tolerance=tolerance,
            slope=slope,
            first=_FIRST_STEP * self.rows,
        )


def _descend(
    function: Callable[[Floats], tuple[float, Floats]],
    point: Floats,
    *,
    iterations: int,
    tolerance: float,
    slope: float,
    first: float,
) -> Floats:
    """Minimize a smooth convex function from a point, by L-BFGS.

    function: its value and gradient; tolerance: of the value, relative; slope: of the gradient;
    first: the first step along it. Source: Nocedal and Wright 2006, "Numerical Optimization",
    Algorithms 7.4 and 7.5; steps meet the conditions of Wolfe (3.6), found by parabolas.
    """
    value, gradient = function(point)
    moves: deque[tuple[Floats, Floats, float]] = deque(maxlen=_REMEMBERED)
    for _ in range(iterations):
        if np.abs(gradient).max() <= slope:
            break
        direction = _direction(gradient, moves)
        down = float(gradient @ direction)
        step = 1.0 if moves else first
        low, high, found = 0.0, math.inf, None
        for _ in range(_STEPS):
            there = point + step * direction
            next_value, next_gradient = function(there)
            rise = next_value - value - step * down
            if not rise <= (_DECREASE - 1) * step * down:
                # The least of the parabola through both values and the slope, not too near.
                least = -down * step**2 / (2 * rise) if math.isfinite(rise) else low
                high, step = step, min(max(least, (9 * low + step) / 10), (low + step) / 2)
                continue
            found = there, next_value, next_gradient
            if float(next_gradient @ direction) >= _CURVATURE * down:
                break
            low, step = step, 2 * step if high == math.inf else (step + high) / 2
        if found is None:
            if not moves:
                break
            moves.clear()  # they point nowhere that is lower; begin again along the gradient
            continue
        there, next_value, next_gradient = found
        change, bend = there - point, next_gradient - gradient
        if (along := float(change @ bend)) > 0:
            moves.append((change, bend, along))
        fall = (value - next_value) / max(abs(value), abs(next_value), 1.0)
        point, value, gradient = there, next_value, next_gradient
        if fall <= tolerance:
            break
    return point


def _direction(gradient: Floats, moves: Sequence[tuple[Floats, Floats, float]]) -> Floats:
    """Down, by the curvature that the moves of points and gradients show."""
    found, step = -gradient, np.empty_like(gradient)
    weights = []
    for change, bend, along in reversed(moves):
        weights.append(float(change @ found) / along)
        found -= np.multiply(bend, weights[-1], out=step)
    if moves:
        _, bend, along = moves[-1]
        found *= along / float(bend @ bend)
    for (change, bend, along), weight in zip(moves, reversed(weights), strict=True):
        found += np.multiply(change, weight - float(bend @ found) / along, out=step)
    return found


def _zeros(tree: JunctionTree) -> list[Floats]:
    return [np.zeros(shape) for shape in tree.shapes]


def _add(factors: list[Floats], tree: JunctionTree, columns: Columns, theta: Floats) -> None:
    home = tree.home(columns)
    assert home is not None
    factors[home] += broadcast(theta, columns, tree.cliques[home], tree.sizes)
