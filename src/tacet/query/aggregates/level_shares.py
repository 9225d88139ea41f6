r"""How a budget is split over the levels of tables that add up.

The fit of `margins` makes the errors of all levels depend on all shares. With the variance v_l of a
level's noise and s_l cells in each of its nodes, an interaction T has precision
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

The shares are functions of public numbers alone: how many keys there are, and how far a unit
reaches into each level. They are rounded to a grid, so that every machine finds the same.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from tacet.query.margins import Places

__all__ = ["level_shares"]

Floats = NDArray[np.float64]

_GRID = 2**12  # of shares
_LIMIT = 1 - 2**-9  # of V / A: noise that is rounded to whole numbers has not quite its variance
_SLACK = 0.01  # of a step of the grid: what a solution may be off before it is rounded up
_STARTS = (0.0, 0.5, 0.8)  # of the way from the even split to the finest level alone
_BETTER = 1e-6  # by how much one solution has to beat an earlier one, relative


@dataclass(frozen=True, slots=True, kw_only=True)
class _Split:
    """The problem in arrays, a place for each level, and one for each interaction.

    cells: in a node of each level; parts: d_T / n; inside: which interactions are in which level;
    units: variance of each level's noise, for all of the budget; power: of a share in a precision.
    """

    cells: Floats
    parts: Floats
    inside: Floats
    units: Floats
    power: int

    @staticmethod
    def of(
        levels: Sequence[Places], nodes: Sequence[int], units: Sequence[float], *, laplace: bool
    ) -> _Split:
        inside = np.array([[set(inner) <= set(level) for inner in levels] for level in levels])
        sizes = np.array(nodes, dtype=np.float64)
        found = inside.astype(np.float64)
        return _Split(
            cells=sizes.max() / sizes,
            parts=np.linalg.solve(found, sizes) / sizes.max(),
            inside=found,
            units=np.array(units),
            power=2 if laplace else 1,
        )

    @property
    def count(self) -> int:
        return len(self.cells)

    @property
    def apart(self) -> Floats:
        """The variances of levels that are asked apart, with equal parts of the budget."""
        return self.units * float(self.count**self.power)

    def ratios(self, shares: Floats) -> Floats:
        """V / A by level."""
        precision = self.inside.T @ (self.cells * shares**self.power / self.units)
        fitted = self.cells**2 * (self.inside @ (self.parts / precision))
        return np.asarray(fitted / self.apart)

    def slopes(self, shares: Floats) -> Floats:
        """The derivatives of `ratios`, a line for each level."""
        precision = self.inside.T @ (self.cells * shares**self.power / self.units)
        joint = (self.inside * (self.parts / precision**2)) @ self.inside.T
        own = self.power * shares ** (self.power - 1) * self.cells / self.units
        return -((self.cells**2 / self.apart)[:, None]) * joint * own

    @property
    def weights(self) -> Floats:
        """Of each level in the mean over all released numbers."""
        return np.asarray(1 / self.cells / (1 / self.cells).sum())

    def solved(self, start: Floats, *, limited: bool) -> Floats:
        """The best shares that a search from here finds; Laplace noise may have several optima."""
        weights = self.weights
        whole = {"type": "eq", "fun": lambda x: x.sum() - 1, "jac": lambda x: np.ones(len(x))}
        no_worse = {
            "type": "ineq",
            "fun": lambda x: _LIMIT - self.ratios(x),
            "jac": lambda x: -self.slopes(x),
        }
        limits: list[Any] = [whole, no_worse] if limited else [whole]
        found = optimize.minimize(
            lambda x: float(weights @ self.ratios(x)),
            start,
            jac=lambda x: weights @ self.slopes(x),
            bounds=[(1 / _GRID, 1.0)] * self.count,
            constraints=limits,
            method="SLSQP",
            options={"maxiter": 200, "ftol": 1e-11},
        )
        return np.asarray(found.x)

    def best(self, *, limited: bool) -> Floats:
        """The best shares found from several starts; the even split is always allowed."""
        even = np.full(self.count, 1 / self.count)
        finest = (self.cells == 1) / (self.cells == 1).sum()
        best, least = even, float(self.weights @ self.ratios(even))
        for part in _STARTS:
            found = self.solved((1 - part) * even + part * finest, limited=limited)
            if not np.all(np.isfinite(found)):
                continue
            ratios = self.ratios(found)
            value = float(self.weights @ ratios)
            if value < least * (1 - _BETTER) and not (limited and ratios.max() > 1):
                best, least = found, value
        return best


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
    found = _Split.of(levels, nodes, units, laplace=laplace).best(limited=limited)
    # Coarse levels at their limits are rounded up, so that they stay within.
    steps = [max(math.ceil(share * _GRID - _SLACK), 1) for share in found.tolist()]
    finest = max(_GRID - sum(steps[:-1]), 1)
    whole = sum(steps[:-1]) + finest
    return tuple(Fraction(step, whole) for step in (*steps[:-1], finest))
