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

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from unacorda.query.aggregates.margins import Places

__all__ = ["level_shares"]

_GRID = 2**12  # of shares
_LIMIT = 1 - 2**-9  # of V / A: noise that is rounded to whole numbers has not quite its variance
_SLACK = 0.01  # of a step of the grid: what a solution may be off before it is rounded up
_STARTS = ((0.0, 0.0), (0.0, 1.0), (0.5, 1.0), (0.8, 0.0), (0.95, 0.0))
# How far from the even split to the finest level alone, and from its weights to those all alike.
_BETTER = 1 - 1e-6  # times an earlier solution, which a later one has to beat
_BEYOND = 1 + 2**-13  # times a limit, to which searches come near from both sides
_STEPS = 600  # at most
_STILL = 1e-9  # a step by less than this is the last one
_SHORTER = 50.0  # after so many steps those of the limits are half as long


@dataclass(frozen=True, slots=True, kw_only=True)
class _ShareSplit:
    """The problem, a place for each level, and one for each interaction, named by the same columns.

    inner, outer: of each level those inside it, and those it is inside of; parts: d_T / n; fits:
    s_l^2 / A_l; rates: s_l over the variance of the level's noise, for all of the budget; weights:
    of each level in the mean over all released numbers; laplace: whether precision goes with the
    square of a share.
    """

    inner: tuple[tuple[int, ...], ...]
    outer: tuple[tuple[int, ...], ...]
    parts: tuple[float, ...]
    fits: tuple[float, ...]
    rates: tuple[float, ...]
    weights: tuple[float, ...]
    laplace: bool

    @staticmethod
    def of(
        levels: Sequence[Places], nodes: Sequence[int], units: Sequence[float], *, laplace: bool
    ) -> _ShareSplit:
        columns, every = [frozenset(level) for level in levels], range(len(levels))
        inner = tuple(tuple(t for t in every if columns[t] <= whole) for whole in columns)
        outer = tuple(tuple(k for k in every if part <= columns[k]) for part in columns)
        dimensions: list[int] = []
        for level, inside in enumerate(inner):  # what is inside a level stands before it
            dimensions.append(nodes[level] - sum(dimensions[t] for t in inside if t != level))
        cells, whole = max(nodes), sum(nodes)
        apart = [unit * float(len(levels) ** (2 if laplace else 1)) for unit in units]
        return _ShareSplit(
            inner=inner,
            outer=outer,
            parts=tuple(dimension / cells for dimension in dimensions),
            fits=tuple((cells / n) * (cells / n) / a for n, a in zip(nodes, apart, strict=True)),
            rates=tuple(cells / n / unit for n, unit in zip(nodes, units, strict=True)),
            weights=tuple(n / whole for n in nodes),
            laplace=laplace,
        )

    def precisions(self, shares: Sequence[float]) -> list[float]:
        """g_T by interaction."""
        own = [
            rate * share * share if self.laplace else rate * share
            for rate, share in zip(self.rates, shares, strict=True)
        ]
        return [_sum(own, levels) for levels in self.outer]

    def ratios(self, shares: Sequence[float]) -> list[float]:
        """V / A by level."""
        found = [p / g for p, g in zip(self.parts, self.precisions(shares), strict=True)]
        return [
            fit * _sum(found, inside) for fit, inside in zip(self.fits, self.inner, strict=True)
        ]

    def falls(self, shares: Sequence[float], weights: Sequence[float]) -> list[float]:
        """By how much the sum of V / A by these weights falls, for a little more of each share."""
        costs = [weight * fit for weight, fit in zip(weights, self.fits, strict=True)]
        found = [
            _sum(costs, levels) * part / (g * g)
            for levels, part, g in zip(self.outer, self.parts, self.precisions(shares), strict=True)
        ]
        return [
            rate * (share if self.laplace else 1.0) * _sum(found, inside)
            for rate, share, inside in zip(self.rates, shares, self.inner, strict=True)
        ]

    def solved(self, start: Sequence[float], *, alike: float, limited: bool) -> list[float]:
        """The best shares on the way of a search from here; the start, if all are beyond limits.

        alike: how far limited levels are raised to the weight of the finest to begin with.
        """
        most = max(self.weights)
        shares, raised = list(start), [alike * (most - weight) for weight in self.weights]
        weights, best, least = list(self.weights), shares, math.inf
        for step in range(_STEPS):
            ratios = self.ratios(shares)
            value = self.mean(ratios)
            if value < least and (not limited or max(ratios) <= _LIMIT * _BEYOND):
                best, least = shares, value
            if limited:
                length = 0.5 / (1.0 + step / _SHORTER)
                beyond = [ratio - _LIMIT for ratio in ratios]
                raised = [
                    max(0.0, more + length * excess * (weight + more))
                    for more, excess, weight in zip(raised, beyond, self.weights, strict=True)
                ]
                weights = [
                    weight + max(0.0, more + 0.5 * excess * (weight + more))
                    for more, excess, weight in zip(raised, beyond, self.weights, strict=True)
                ]
            falls = self.falls(shares, weights)
            steepest = max(falls)
            before, moved = (
                shares,
                [
                    share * _root(fall / steepest, cube=self.laplace)
                    for share, fall in zip(shares, falls, strict=True)
                ],
            )
            shares = _scaled([max(share, 1 / _GRID) for share in _scaled(moved)])
            if max(abs(a - b) for a, b in zip(before, shares, strict=True)) < _STILL:
                break
        return best

    def best(self, *, limited: bool) -> list[float]:
        """The best shares found from several starts; the even split is always allowed."""
        count = len(self.weights)
        finest = [float(weight == max(self.weights)) for weight in self.weights]
        best = [1 / count] * count
        least = self.mean(self.ratios(best))
        for part, alike in _STARTS:
            if alike and not limited:
                continue
            start = [(1 - part) / count + part * one for one in _scaled(finest)]
            found = self.solved(start, alike=alike, limited=limited)
            ratios = self.ratios(found)
            within = not limited or max(ratios) <= 1
            if within and self.mean(ratios) < least * _BETTER:
                best, least = found, self.mean(ratios)
        return best

    def mean(self, ratios: Sequence[float]) -> float:
        """Over all released numbers."""
        return _sum([w * r for w, r in zip(self.weights, ratios, strict=True)], range(len(ratios)))


def _sum(values: Sequence[float], places: Sequence[int]) -> float:
    """Added one after the other: `sum` of floats is another number from Python 3.12 on."""
    total = 0.0
    for place in places:
        total += values[place]
    return total


def _scaled(values: Sequence[float]) -> list[float]:
    whole = _sum(values, range(len(values)))
    return [value / whole for value in values]


def _root(value: float, *, cube: bool) -> float:
    """The square root; or x^(1/4) x^(1/16), near the cube root, which libraries round unlike."""
    if not cube:
        return math.sqrt(value)
    fourth = math.sqrt(math.sqrt(value))
    return fourth * math.sqrt(math.sqrt(fourth))


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
    found = _ShareSplit.of(levels, nodes, units, laplace=laplace).best(limited=limited)
    # Coarse levels at their limits are rounded up, so that they stay within.
    steps = [max(math.ceil(share * _GRID - _SLACK), 1) for share in found]
    finest = max(_GRID - sum(steps[:-1]), 1)
    whole = sum(steps[:-1]) + finest
    return tuple(Fraction(step, whole) for step in (*steps[:-1], finest))
