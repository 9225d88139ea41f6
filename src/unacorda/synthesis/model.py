r"""Graphical models of a table, fitted to noisy marginals by ridge regression of its potentials.

The model is p(x) proportional to exp(sum of theta_c(x_c) over the measured sets c of columns). The
potentials theta are the minimum of

    N log Z(theta) - sum_c <theta_c, y_c> + sum_c tau_c sigma_c^2 |theta_c|^2 / 2,

where y_c is the noisy marginal, shifted to the sum N, sigma_c its noise and tau_c the ridge. It is
convex, and the dual of: the distribution next to what was measured, in half the squares over
sigma^2, plus tau N times its negative entropy. With tau 0 it is Private-PGM; tau keeps noise in
empty cells from being followed, and the problem well conditioned.

Source: McKenna, Sheldon, Miklau 2019, arXiv:1901.09136, "Graphical-model based estimation and
inference for differential privacy", Section 3; the ridge: docs/proofs/synthesis.md, section 4.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from unacorda.errors import InvalidParameter
from unacorda.extras import later
from unacorda.synthesis.junction_tree import (
    Beliefs,
    Columns,
    Floats,
    JunctionTree,
    broadcast,
    sum_to,
)

__all__ = ["MarginalModel", "NoisyMarginal", "average", "fit_model", "ridge_of"]

optimize: Any = later("scipy.optimize")

_FEWEST: Final = 10.0  # sigma over the rows of the smallest mean cell that counts
_MOST: Final = 4.0  # the rows of the largest one over sigma
_ITERATIONS: Final = 200
_TOLERANCE: Final = 1e-9
_NO_FACTOR: Final = 0.0
_FEW_CELLS: Final = 1 << 13


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
    """The convex function of all potentials, as one vector, scaled to curvatures near 1."""

    def __init__(
        self,
        empty: MarginalModel,
        marginals: Sequence[NoisyMarginal],
        *,
        rows: float,
        ridge: float | None,
    ) -> None:
        self.tree, self.rows = empty.tree, rows
        self.sets = [seen.columns for seen in marginals]
        self.base = _zeros(self.tree)
        for columns, cells in empty.possible.items():
            _add(self.base, self.tree, columns, np.where(cells, _NO_FACTOR, -math.inf))
        self.ends = np.cumsum([0, *(seen.counts.size for seen in marginals)])
        self.above = _least_supersets(self.sets, empty.tree.sizes)
        targets, variances, ridges = [], [], []
        for seen in marginals:
            can = np.ones(seen.counts.shape, np.bool_)
            if empty.possible:
                can = empty.marginal(seen.columns) > 0
            shift = (rows - float(seen.counts[can].sum())) / int(can.sum())
            targets.append(np.where(can, seen.counts + shift, 0.0).ravel())
            tau = ridge_of(seen, rows=rows) if ridge is None else ridge
            variances.append(np.full(seen.counts.size, seen.variance))
            ridges.append(np.full(seen.counts.size, tau * seen.variance))
        self.target = np.concatenate([np.zeros(0), *targets])
        self.ridge = np.concatenate([np.zeros(0), *ridges])
        deviation = np.sqrt(np.concatenate([np.zeros(0), *variances]))
        curvature = np.maximum(self.target, 0.0) + deviation + self.ridge
        self.scale = 1 / np.sqrt(curvature)

    def potentials(self, scaled: Floats) -> dict[Columns, Floats]:
        theta = scaled * self.scale
        return {
            columns: theta[self.ends[i] : self.ends[i + 1]].reshape(
                [self.tree.sizes[a] for a in columns]
            )
            for i, columns in enumerate(self.sets)
        }

    def value(self, scaled: Floats) -> tuple[float, Floats]:
        """The function over N, and its gradient."""
        factors = [table.copy() for table in self.base]
        tables = self.potentials(scaled)
        for columns, above in self.above.items():
            if above is None:
                _add(factors, self.tree, columns, tables[columns])
            else:
                wide = broadcast(tables[columns], columns, above, self.tree.sizes)
                tables[above] = tables[above] + wide
        beliefs = self.tree.calibrate(factors)
        found: dict[Columns, Floats] = {}
        for columns, above in reversed(self.above.items()):
            if above is None:
                home = self.tree.home(columns)
                assert home is not None
                found[columns] = sum_to(beliefs.cliques[home], self.tree.cliques[home], columns)
            else:
                found[columns] = sum_to(found[above], above, columns)
        theta = scaled * self.scale
        value = self.rows * beliefs.log_total - theta @ self.target
        value += (self.ridge * theta) @ theta / 2
        marginals = np.concatenate([np.zeros(0), *(found[c].ravel() for c in self.sets)])
        gradient = self.rows * marginals - self.target + self.ridge * theta
        return value / self.rows, gradient * self.scale / self.rows

    def minimize(
        self, start: Mapping[Columns, Floats], *, iterations: int, tolerance: float
    ) -> Floats:
        first = np.zeros(self.target.size)
        for i, columns in enumerate(self.sets):
            if columns in start:
                first[self.ends[i] : self.ends[i + 1]] = start[columns].ravel()
        if not first.size:
            return first
        found = optimize.minimize(
            self.value,
            first / self.scale,
            jac=True,
            method="L-BFGS-B",
            options={
                "maxiter": iterations,
                "maxcor": 10,
                "ftol": tolerance,
                "gtol": 1e6 * tolerance / math.sqrt(self.rows),
            },
        )
        best: Floats = found.x
        return best


def _least_supersets(
    sets: Sequence[Columns], sizes: Sequence[int]
) -> dict[Columns, Columns | None]:
    """Of each set, smaller ones first, the one with the fewest cells that holds it and more."""
    found: dict[Columns, Columns | None] = {}
    for columns in sorted(sets, key=len):
        holding = [other for other in sets if set(columns) < set(other)]
        cells = {other: math.prod(sizes[a] for a in other) for other in holding}
        found[columns] = min(cells, key=cells.__getitem__, default=None)
    return found


def _zeros(tree: JunctionTree) -> list[Floats]:
    return [np.zeros(shape) for shape in tree.shapes]


def _add(factors: list[Floats], tree: JunctionTree, columns: Columns, theta: Floats) -> None:
    home = tree.home(columns)
    assert home is not None
    factors[home] += broadcast(theta, columns, tree.cliques[home], tree.sizes)
