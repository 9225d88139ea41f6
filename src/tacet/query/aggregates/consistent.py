"""Counts and sums at several levels of one question, which add up; see `margins`."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy import optimize

from tacet.bits import RandomBits
from tacet.errors import InvalidParameter
from tacet.privacy.events import Event, compose
from tacet.privacy.guarantees import PureDP
from tacet.query.aggregates.aggregate import Aggregate, Single
from tacet.query.aggregates.answers import Answer, Assume, Exact, Forecast
from tacet.query.aggregates.counts import Count
from tacet.query.aggregates.sums import Sum
from tacet.query.margins import Margins
from tacet.query.noise import AdditiveNoise, Share
from tacet.query.scope import Scope
from tacet.query.units import Reach, Unit

__all__ = ["Consistent", "LevelNoise", "consistent"]

_GRID = 128  # of shares: coarse, so that every machine finds the same
_NORMAL, _LAPLACE = 1.95997, 2.11830  # 95% quantiles over the standard deviation


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelNoise:
    """The noise of each level, coarse to fine."""

    levels: tuple[AdditiveNoise, ...]

    @property
    def event(self) -> Event:
        """What all levels together cost."""
        return compose([level.event for level in self.levels])

    @property
    def loudness(self) -> float:
        """The logarithm of the noise, the mean over levels."""
        return math.fsum(level.loudness for level in self.levels) / len(self.levels)


@dataclass(frozen=True, slots=True, kw_only=True)
class Consistent(Single):
    """A count or a sum at every level of a rollup or a cube."""

    of: Count | Sum
    margins: Margins

    @staticmethod
    def at(aggregate: Count | Sum, margins: Margins) -> Consistent:
        """The same aggregate at these levels."""
        return Consistent(
            of=aggregate,
            margins=margins,
            weight=aggregate.weight,
            expressions=aggregate.expressions,
        )

    def bound_to(self, scope: Scope) -> Consistent:
        """The same: its column is looked up already."""
        del scope
        return self

    def measures(self, values: Sequence[str], unit: Unit) -> tuple[str, ...]:
        """Those of the finest level: all others are sums of them."""
        return self.of.measures(values, unit)

    def noise(self, share: Share, reach: Reach) -> LevelNoise:
        """The noise of each level, whose shares lower every level's error alike."""
        reaches = [_within(reach, cells=len(nodes)) for nodes in self.margins.nodes]
        shares = self._shares([self.of.noise(share, one) for one in reaches], share)
        return LevelNoise(
            levels=tuple(
                self.of.noise(share * part, one) for part, one in zip(shares, reaches, strict=True)
            )
        )

    def release(self, exact: Exact, noise: LevelNoise, bits: RandomBits) -> Answer:
        """The tables that add up, one behind the other."""
        sums = self.margins.sums(exact.sums[0])
        measured = [
            np.array([float(value) for value in level.release(values, bits=bits)])
            for level, values in zip(noise.levels, sums, strict=True)
        ]
        variances = [level.standard_deviation**2 for level in noise.levels]
        values = np.concatenate(self.margins.fitted(measured, variances))
        errors = np.sqrt(np.concatenate(self.margins.fitted_variances(variances)))
        width = errors * (_LAPLACE if noise.levels[0].laplace else _NORMAL)
        return Answer(
            values=values.tolist(),
            standard_errors=errors.tolist(),
            lower=(values - width).tolist(),
            upper=(values + width).tolist(),
            limits=(0.0, math.inf) if isinstance(self.of, Count) else (-math.inf, math.inf),
        )

    def forecast(self, noise: LevelNoise, reach: Reach, assume: Assume | None) -> Forecast:
        """The error of each level, known beforehand."""
        variances = [level.standard_deviation**2 for level in noise.levels]
        errors = self.margins.fitted_variances(variances)
        inner = self.of.forecast(noise.levels[-1], reach, assume)
        told = "; ".join(
            f"{len(nodes):,} nodes {math.sqrt(float(found.mean())):.4g}"
            for nodes, found in zip(self.margins.nodes, errors, strict=True)
        )
        noises = "; ".join(map(str, noise.levels))
        return Forecast(
            noise=f"at each level: {noises}; then the least squares fit that adds up",
            sensitivity=f"{inner.sensitivity}, at each level",
            notes=(*inner.notes, f"expected error by level (standard deviation): {told}"),
        )

    def _shares(self, whole: Sequence[AdditiveNoise], share: Share) -> list[Fraction]:
        """Shares of the levels under which the level that gains least gains the most."""
        count, power = len(whole), 2 if isinstance(share, PureDP) else 1
        unit = np.array([level.standard_deviation**2 for level in whole])
        unit = np.maximum(unit / unit.max(), 1e-30)
        alone = unit * count**power

        def loss(logs: np.ndarray) -> float:
            parts = np.exp(logs - logs.max())
            parts = np.maximum(parts / parts.sum(), 1 / _GRID)
            found = self.margins.fitted_variances((unit / parts**power).tolist())
            gains = np.log([level.mean() for level in found]) - np.log(alone)
            return float(gains.max() + gains.mean() / 10)

        best = optimize.minimize(
            loss, np.zeros(count), method="Nelder-Mead", options={"maxiter": 60 * count}
        )
        parts = np.exp(best.x - best.x.max())
        counts = np.maximum(np.rint(parts / parts.sum() * _GRID), 1).astype(int).tolist()
        return [Fraction(one, sum(counts)) for one in counts]


def consistent(name: str, aggregate: Aggregate, margins: Margins) -> Consistent:
    """The aggregate at every level; InvalidParameter where it does not add up."""
    if not isinstance(aggregate, Count | Sum):
        raise InvalidParameter(
            name,
            type(aggregate).__name__.lower(),
            expected="count(), or sum() with bounds, with margins: other answers do not add up",
        )
    return Consistent.at(aggregate, margins)


def _within(reach: Reach, *, cells: int) -> Reach:
    """How far a unit reaches into a coarser level: no more rows, in no more nodes."""
    return Reach.within(
        max_rows=reach.rows,
        max_groups=min(reach.touched, cells),
        cells=cells,
        replaced=reach.replaced,
    )
