"""Counts and sums at several levels that add up, and their shares of a budget; see `margins`.

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

import dataclasses
import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from unacorda.bits import RandomBits
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.additive.integer import DiscreteGaussian, DiscreteLaplace
from unacorda.mechanisms.additive.real import Gaussian, Laplace
from unacorda.privacy.events import Event, compose
from unacorda.query.aggregates.base import Aggregate, Answer, Assumption, Exact, Forecast, Single
from unacorda.query.aggregates.linear import Count, CountPeople, Sum
from unacorda.query.aggregates.margins import Margins, Places
from unacorda.query.aggregates.measures import Measure
from unacorda.query.noise.additive import AdditiveNoise, Share
from unacorda.query.schema.facts import Key
from unacorda.query.schema.table import TableSchema
from unacorda.query.schema.units import Reach

__all__ = ["Consistent", "LevelNoise", "consistent", "level_shares"]


_GRID = 2**12  # of shares
_LIMIT = 1 - 2**-9  # of V / A: noise that is rounded to whole numbers has not quite its variance
_SLACK = 0.01  # of a step of the grid: what a solution may be off before it is rounded up
_STARTS = ((0.0, 0.0), (0.0, 1.0), (0.5, 1.0), (0.8, 0.0), (0.95, 0.0))
# How far from the even split to the finest level alone, and from its weights to those all alike.
_BETTER = 1 - 1e-6  # times an earlier solution, which a later one has to beat
_BEYOND = 1 + 2**-13  # times a limit, to which searches come near from both sides
_ROUNDS = 600  # at most
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
        for step in range(_ROUNDS):
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


# How far from the even split to the finest level alone, and from its weights to those all alike.


_STEPS = 32  # of the way from the even split to the best
_LEAST = 1e-200
_ROUNDING = 1 + 1e-9  # of variances in doubles
_NORMAL, _LAPLACE = 1.95997, 2.11830  # 95% quantiles over the standard deviation


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelNoise:
    """Noise of each level's own, coarse to fine; means: variances of what is released, by level."""

    levels: tuple[AdditiveNoise, ...]
    means: tuple[float, ...]

    @property
    def event(self) -> Event:
        """What all levels together cost."""
        return compose([level.event for level in self.levels])

    @property
    def log_scale(self) -> float:
        """The logarithm of the noise, the mean over levels."""
        logs = (math.log(max(mean, _LEAST)) / 2 for mean in self.means)
        return math.fsum(logs) / len(self.means)


@dataclass(frozen=True, slots=True, kw_only=True)
class Consistent(Single):
    """A count or a sum at every level of a rollup or a cube."""

    of: Count | CountPeople | Sum
    margins: Margins

    @staticmethod
    def at(aggregate: Count | CountPeople | Sum, margins: Margins) -> Consistent:
        """The same aggregate at these levels."""
        return Consistent(
            of=aggregate,
            margins=margins,
            weight=aggregate.weight,
            expressions=aggregate.expressions,
        )

    def over(self, keys: tuple[tuple[Key, ...], ...]) -> Consistent:
        """The same where these keys have been found."""
        return dataclasses.replace(self, margins=dataclasses.replace(self.margins, keys=keys))

    def bound_to(self, scope: TableSchema) -> Consistent:
        """The same: its column is looked up already."""
        del scope
        return self

    def measures(self, values: Sequence[str]) -> tuple[Measure, ...]:
        """Those of the finest level: all others are sums of them."""
        return self.of.measures(values)

    def noise(self, share: Share, reach: Reach) -> LevelNoise:
        """The noise of each level: by the caller's weights, or the best by which none errs more.

        None errs more than asked apart.
        """
        known = bool(self.margins.keys)  # else it is any number of nodes that will be found
        reaches = self._reaches(reach)
        weights = self.margins.weights
        if isinstance(weights, tuple):
            whole = sum(weights, Fraction(0))
            parts = [weight / whole for weight in weights]
            return self._made(self._levels(share, reaches, parts))
        even = Fraction(1, len(reaches))
        apart = self._levels(share, reaches, [even] * len(reaches))
        best = self._made(apart)
        if not known:
            return best
        limits = [_square(level) * _ROUNDING for level in apart]
        chosen = self._shares(apart)
        if weights == "overall":
            return self._made(self._levels(share, reaches, chosen))
        low, high = 0, _STEPS + 1
        while high - low > 1:
            # All the way, but where nodes have unlike numbers of parts or noise is rounded.
            at = _STEPS if high > _STEPS else (low + high) // 2
            part = Fraction(at, _STEPS)
            mixed = [part * one + (1 - part) * even for one in chosen]
            found = self._made(self._levels(share, reaches, mixed))
            if all(error <= limit for error, limit in zip(found.means, limits, strict=True)):
                best, low = found, at
            else:
                high = at
        return best

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
        return [_within(reach, nodes=nodes, held=held) for nodes, held in pairs]

    @property
    def _sizes(self) -> tuple[int, ...]:
        """How many nodes each level has."""
        return tuple(len(nodes) for nodes in self.margins.nodes)

    def _shares(self, apart: Sequence[AdditiveNoise]) -> tuple[Fraction, ...]:
        """Of all levels the best; apart: the levels' noise with even shares."""
        return level_shares(
            self.margins.levels,
            self._sizes,
            tuple(_units(apart)),
            laplace=apart[0].laplace,
            limited=self.margins.weights is None,
        )

    def _levels(
        self, share: Share, reaches: Sequence[Reach], parts: Sequence[Fraction]
    ) -> tuple[AdditiveNoise, ...]:
        pairs = zip(parts, reaches, strict=True)
        return tuple(self.of.noise(share * part, one) for part, one in pairs)

    def _made(self, levels: tuple[AdditiveNoise, ...]) -> LevelNoise:
        """Noise of each level's own, and what is left of it."""
        means = [_square(level) for level in levels]
        if self.margins.keys:
            means = [float(level.mean()) for level in self._variances(levels)]
        return LevelNoise(levels=levels, means=tuple(means))

    def _variances(self, levels: Sequence[AdditiveNoise]) -> list[NDArray[np.float64]]:
        """Of the released numbers of each level, whose noise is its own."""
        return self.margins.fitted_variances([_square(level) for level in levels])

    def release(self, exact: Exact, noise: LevelNoise, bits: RandomBits) -> Answer:
        """The tables that add up, one behind the other."""
        sums = self.margins.sums(exact.sums[0])
        measured = [
            level.doubles(values, bits=bits)
            for level, values in zip(noise.levels, sums, strict=True)
        ]
        variances = [_square(level) for level in noise.levels]
        values = np.concatenate(self.margins.fitted(measured, variances))
        errors = np.array(self.standard_errors(noise))
        width = errors * (_LAPLACE if noise.levels[0].laplace else _NORMAL)
        return Answer(
            values=values.tolist(),
            standard_errors=errors.tolist(),
            lower=(values - width).tolist(),
            upper=(values + width).tolist(),
            limits=self._limits,
        )

    def standard_errors(self, noise: LevelNoise) -> list[float]:
        """Of every number of a release, in their order: those of the noise alone."""
        found: list[float] = np.sqrt(np.concatenate(self._variances(noise.levels))).tolist()
        return found

    @property
    def _limits(self) -> tuple[float, float]:
        """Between which the exact answer is known to lie."""
        return (0.0 if isinstance(self.of, Count | CountPeople) else -math.inf, math.inf)

    def forecast(self, noise: LevelNoise, reach: Reach, assume: Assumption | None) -> Forecast:
        """The error of each level, known beforehand."""
        inner = self.of.forecast(noise.levels[-1], reach, assume)
        if self.margins.keys:
            every = np.split(self.standard_errors(noise), np.cumsum(self._sizes)[:-1])
            largest = tuple(float(level.max()) for level in every)
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
    if not isinstance(aggregate, Count | CountPeople | Sum):
        raise InvalidParameter(
            name,
            aggregate.tag,
            expected="count(), sum() with bounds, or count_people() where a person has rows in one "
            "group, with margins: other answers do not add up",
        )
    return Consistent.at(aggregate, margins)


def _within(reach: Reach, *, nodes: int, held: int) -> Reach:
    """How far a unit reaches into a level of so many nodes; held: the most cells of one node."""
    return Reach.within(
        max_rows=reach.rows,
        max_groups=min(reach.touched, nodes),
        max_rows_per_group=reach.per_cell * min(held, reach.touched),
        cells=nodes,
        replaced=reach.replaced,
    )


def _square(level: AdditiveNoise) -> float:
    """The variance of a level; above zero, so that numbers without noise can be weighed too."""
    return max(level.standard_deviation**2, _LEAST)


def _units(levels: Sequence[AdditiveNoise]) -> list[float]:
    """The levels' noise for the same share, relative to the largest: squares of sensitivities."""
    squares = [_scale(level) ** 2 for level in levels]
    return [round(float(square / max(squares)), 9) for square in squares]


def _scale(noise: AdditiveNoise) -> Fraction:
    match noise.mechanism:
        case Laplace(scale=scale) | DiscreteLaplace(scale=scale):
            return Fraction(scale)
        case Gaussian(sigma=sigma) | DiscreteGaussian(sigma=sigma):
            return Fraction(sigma)
