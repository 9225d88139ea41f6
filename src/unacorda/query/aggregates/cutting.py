"""The cuts of a tree within a share of a budget, and whether a chain errs less."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from unacorda.bits import RandomBits
from unacorda.mechanisms.selection.exponential import Exponential
from unacorda.privacy import events
from unacorda.privacy.guarantees import PureDP
from unacorda.query.aggregates.chains import Chain
from unacorda.query.aggregates.counted import Counted
from unacorda.query.aggregates.cuts import PLACES_LOG2, cut_points, mechanism_of
from unacorda.query.aggregates.grid_counts import Aim
from unacorda.query.aggregates.splits import Plan, Split, moves_of, plan_for
from unacorda.query.noise.additive import CONFIDENCE, Share
from unacorda.query.noise.selection import Draws, draws_for
from unacorda.query.noise.sensitivity import of_ranks
from unacorda.query.schema.units import Reach

__all__ = ["Cutting", "finding"]

_WORTH = 0.1  # by how much the logarithm of errors has to fall for draws that take longer


@dataclass(frozen=True, slots=True, kw_only=True)
class Cutting:
    """The cuts of all levels, and where bought the ends of intervals.

    levels: what draws of each level are made by, for splits of steepness 1, and what those of all
    cells cost; mechanisms: of each split; ends: of each wanted quantile, of either end.
    """

    plan: Plan
    levels: tuple[Draws, ...]
    mechanisms: Mapping[Split, Exponential]
    ends: Mapping[Fraction, Draws] = field(default_factory=dict)

    @staticmethod
    def within(
        share: Share, reach: Reach, wanted: Sequence[Fraction], *, interval: Fraction = Fraction(0)
    ) -> Cutting:
        """The cuts of the least expected error within a share; interval: the part for intervals."""
        return _within(share, reach, tuple(wanted), interval)

    @property
    def epsilons(self) -> tuple[Fraction, ...]:
        """Of the draws of each level."""
        return tuple(Fraction(draws.mechanism.epsilon) for draws in self.levels)

    @property
    def event(self) -> events.Event:
        """What all draws of all cells together cost."""
        both = [draws.event for draws in self.ends.values() for _ in range(2)]
        return events.compose([*(draws.event for draws in self.levels), *both])

    @property
    def loudness(self) -> float:
        """The logarithm of the noise, to compare ways to spend one budget."""
        return math.log(math.fsum(sd**2 for sd in self.deviations.values())) / 2

    @property
    def deviations(self) -> dict[Fraction, float]:
        """By wanted quantile the standard deviation of its rank, where values hardly repeat."""
        rates = self._rates
        return {
            q: math.sqrt(2 * math.fsum((c / rates[at]) ** 2 for at, c in shares.items()))
            for q, shares in self.plan.errors.items()
        }

    @property
    def aims(self) -> tuple[Aim, ...]:
        """Where all cuts look."""
        wanted = self.deviations
        return tuple(
            Aim(q=at, scale=wanted[at] / math.sqrt(2) if at in wanted else 1 / rate)
            for at, rate in self._rates.items()
        )

    def rank_error(self, *, points: int) -> float:
        """By so many ranks at most every wanted quantile is off, with 95% probability.

        A cut's loss passes t with probability at most (places) exp(-f t), since some place has
        loss 0 but for a share of 2^-16 of one point's rows: McSherry and Talwar 2007, Theorem 6.
        """
        misses = len(self.mechanisms) / (1 - float(CONFIDENCE))
        reach = math.log(points * misses) + PLACES_LOG2 * math.log(2)
        rates = self._rates
        return max(
            math.fsum(c * reach / rates[at] for at, c in shares.items())
            for shares in self.plan.errors.values()
        )

    @property
    def words(self) -> str:
        """What is done."""
        levels = ", ".join(f"{float(epsilon):.6g}" for epsilon in self.epsilons)
        return (
            f"exponential mechanism with epsilon = {levels} in {len(self.levels)} rounds of cuts, "
            f"{len(self.mechanisms)} in all"
        )

    def points(self, counted: Counted, bits: RandomBits) -> Mapping[Fraction, NDArray[np.int64]]:
        """By quantile the points of the grid that its cut falls on, in every cell."""
        return cut_points(counted, plan=self.plan, mechanisms=self.mechanisms, bits=bits)

    @property
    def _rates(self) -> dict[Fraction, float]:
        """By cut, the exponent that a rank is worth."""
        return {
            split.at: float(mechanism.factor * (split.share.denominator << PLACES_LOG2))
            for split, mechanism in self.mechanisms.items()
        }


@functools.lru_cache(maxsize=256)
def _within(
    share: Share, reach: Reach, wanted: tuple[Fraction, ...], interval: Fraction
) -> Cutting:
    plan = plan_for(wanted, reach, squares=not isinstance(share, PureDP))
    levels = tuple(
        draws_for(
            share * (part * (1 - interval)),
            reach.split(len(level)),
            functools.partial(moves_of, level),
        )
        for level, part in zip(plan.levels, plan.parts, strict=True)
    )
    mechanisms = {
        split: mechanism_of(split, draws.mechanism)
        for level, draws in zip(plan.levels, levels, strict=True)
        for split in level
    }
    ends = _ends_for(share * interval, reach, wanted) if interval else {}
    return Cutting(plan=plan, levels=levels, mechanisms=mechanisms, ends=ends)


def finding(
    share: Share, reach: Reach, wanted: Sequence[Fraction], *, interval: Fraction = Fraction(0)
) -> Cutting | Chain:
    """The way of the least expected error within a share; interval: the part for intervals.

    A function of public numbers alone: the quantiles, the share and its notion, the unit's reach.
    """
    return _found(share, reach, tuple(wanted), interval, _WORTH)


@functools.lru_cache(maxsize=256)
def _found(
    share: Share, reach: Reach, wanted: tuple[Fraction, ...], interval: Fraction, worth: float
) -> Cutting | Chain:
    cutting = Cutting.within(share, reach, wanted, interval=interval)
    chains = Chain.options(share * (1 - interval), reach, wanted, cutting.ends)
    chain = min(chains, key=lambda one: one.loudness, default=None)
    if chain is None or chain.loudness > cutting.loudness - worth:
        return cutting
    return chain


def _ends_for(share: Share, reach: Reach, wanted: Sequence[Fraction]) -> dict[Fraction, Draws]:
    """The draws of either end of an interval about each quantile, together within the share."""
    each = share * Fraction(1, 2 * len(wanted))
    return {
        q: draws_for(each, reach, functools.partial(of_ranks, quantile=q), unit=q.denominator)
        for q in wanted
    }
