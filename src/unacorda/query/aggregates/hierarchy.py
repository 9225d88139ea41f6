"""Counts and sums at several levels of one question, which add up; see `margins`."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
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
from unacorda.query.aggregates.answers import Answer, Assumption, Exact, Forecast
from unacorda.query.aggregates.base import Aggregate, Single
from unacorda.query.aggregates.level_shares import level_shares
from unacorda.query.aggregates.linear import Count, CountPeople, Sum
from unacorda.query.aggregates.margins import Margins
from unacorda.query.aggregates.measures import Measure
from unacorda.query.noise.additive import AdditiveNoise, Share
from unacorda.query.schema.facts import Key
from unacorda.query.schema.table import TableSchema
from unacorda.query.schema.units import Reach

__all__ = [
    "Consistent",
    "LevelNoise",
    "consistent",
]


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
