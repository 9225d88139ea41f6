"""Several quantiles in one release, and the range between the quartiles: trees and chains of cuts.

Where each of m quantiles is drawn by itself, the budget is split m ways. Here cuts are made one
after the other in parts of the rows (`quantile_tree`), each of them exactly by the exponential
mechanism, and all parts of a level cost what one costs; or all at once (`joint_quantiles`), where
that is expected to err less. Answers never cross.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from unacorda import checks
from unacorda.bits import RandomBits
from unacorda.checks import Number
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.selection.exponential import Exponential
from unacorda.privacy import events
from unacorda.privacy.guarantees import PureDP
from unacorda.query.aggregates.base import Answer, Assumption, Exact, Forecast
from unacorda.query.aggregates.grid_counts import GridCounts
from unacorda.query.aggregates.joint_quantiles import Chain
from unacorda.query.aggregates.quantile_tree import (
    PLACES_LOG2,
    QuantileTree,
    TreeCut,
    cut_places,
    mechanism_of,
    moves_of,
    plan_for,
    row_weight,
)
from unacorda.query.aggregates.quantiles import (
    GridAggregate,
    ends_about,
    given,
    interval_share,
    without_errors,
)
from unacorda.query.noise.additive import CONFIDENCE, Noise, Share
from unacorda.query.noise.selection import Draws, draws_for
from unacorda.query.noise.sensitivity import of_ranks
from unacorda.query.schema.units import Reach

__all__ = [
    "Cutting",
    "GridQuantiles",
    "Quantiles",
    "QuartileRange",
    "finding",
    "iqr",
    "quantiles",
]

_WORTH = 0.1  # by how much the logarithm of errors has to fall for draws that take longer


@dataclass(frozen=True, slots=True, kw_only=True)
class Cutting:
    """The cuts of all levels, and where bought the ends of intervals.

    levels: what draws of each level are made by, for splits of steepness 1, and what those of all
    cells cost; mechanisms: of each split; ends: of each wanted quantile, of either end.
    """

    plan: QuantileTree
    levels: tuple[Draws, ...]
    mechanisms: Mapping[TreeCut, Exponential]
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
    def log_scale(self) -> float:
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

    def rank_error(self, *, slots: int) -> float:
        """By so many ranks at most every wanted quantile is off, with 95% probability.

        A cut's loss passes t with probability at most (places) exp(-f t), since some place has
        loss 0 but for a share of 2^-16 of one point's rows: McSherry and Talwar 2007, Theorem 6.
        """
        misses = len(self.mechanisms) / (1 - float(CONFIDENCE))
        reach = math.log(slots * misses) + PLACES_LOG2 * math.log(2)
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

    def places(
        self, counted: GridCounts, slots: NDArray[np.int64], bits: RandomBits
    ) -> Mapping[Fraction, NDArray[np.int64]]:
        """By quantile the places of the grid that its cut falls on, in every cell."""
        mechanisms = self.mechanisms
        return cut_places(counted, slots, plan=self.plan, mechanisms=mechanisms, bits=bits)

    @property
    def _rates(self) -> dict[Fraction, float]:
        """By cut, the exponent that a rank is worth."""
        return {
            split.at: float(mechanism.factor * (split.share.denominator * row_weight()))
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
    chain = min(chains, key=lambda one: one.log_scale, default=None)
    if chain is None or chain.log_scale > cutting.log_scale - worth:
        return cutting
    return chain


def _ends_for(share: Share, reach: Reach, wanted: Sequence[Fraction]) -> dict[Fraction, Draws]:
    """The draws of either end of an interval about each quantile, together within the share."""
    each = share * Fraction(1, 2 * len(wanted))
    return {
        q: draws_for(each, reach, functools.partial(of_ranks, quantile=q), unit=q.denominator)
        for q in wanted
    }


_MOST = 100
_CLOSEST = Fraction(1, 10**6)
_QUARTILES = (Fraction(1, 4), Fraction(3, 4))


@dataclass(frozen=True, slots=True, kw_only=True)
class GridQuantiles(GridAggregate):
    """What is made of several quantiles of a number column, over rows where it is present.

    wanted: rising.
    """

    wanted: tuple[Fraction, ...]

    @property
    def assumes(self) -> tuple[str, ...]:
        """Its column."""
        return (self.column,)

    def noise(self, share: Share, reach: Reach) -> Noise:
        """The cuts within the share."""
        return finding(share, reach, self.wanted)

    def places(self, exact: Exact, noise: Cutting | Chain, bits: RandomBits) -> NDArray[np.int64]:
        """The places on the grid, quantiles by cells; in every cell they rise."""
        (counted,) = exact.rankings
        found = noise.places(counted, self.grid.slots, bits)
        # Those of one tree do not cross; draws by themselves may, and are nearer in order.
        points = np.array([found[q] for q in self.wanted], dtype=np.int64)
        return np.sort(points, axis=0)

    def drawn(self, exact: Exact, noise: Cutting | Chain, bits: RandomBits) -> list[list[float]]:
        """The wanted quantiles, each of all cells; in every cell they rise."""
        values: list[list[float]] = self.grid.values(self.places(exact, noise, bits)).tolist()
        return values

    def forecast(self, noise: Cutting | Chain, reach: Reach, assume: Assumption | None) -> Forecast:
        """The rank error, and under assumptions the error itself."""
        errors = self._expected(noise, assume)
        typical = ", ".join(f"{_percent(q)}%: {sd:,.3g}" for q, sd in noise.deviations.items())
        return Forecast(
            noise=noise.words,
            sensitivity=of_ranks(reach, quantile=self.wanted[0]).reason,
            standard_error=errors,
            assumed_rows=None if errors is None or assume is None else assume.rows,
            rank_error=noise.rank_error(slots=int(self.grid.slots[-1])),
            notes=(
                *self.notes,
                f"expected rank errors, where values hardly repeat: {typical}",
            ),
        )

    def error_of(self, errors: Sequence[float]) -> float:
        """What stands for the error of all its answers, given those of the quantiles."""
        return math.sqrt(math.fsum(error**2 for error in errors) / len(errors))

    def _expected(self, noise: Cutting | Chain, assume: Assumption | None) -> float | None:
        values = None if assume is None else assume.of(self.column)
        if assume is None or values is None:
            return None
        ordered = np.sort(np.clip(values, *self.limits))
        chances = (np.arange(2_000) + 0.5) / 2_000
        laplace = np.where(chances < 0.5, np.log(2 * chances), -np.log(2 - 2 * chances))
        errors = []
        for q, deviation in noise.deviations.items():
            ranks = float(q) + laplace * (deviation / math.sqrt(2) / assume.rows)
            found = np.quantile(ordered, np.clip(ranks, 0, 1))
            errors.append(float(np.sqrt(np.mean((found - np.quantile(ordered, float(q))) ** 2))))
        return self.error_of(errors)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bracketed(GridQuantiles):
    """Several quantiles, with an interval for each where it is bought.

    interval: the share of this aggregate's budget that buys intervals, 0 for none.
    """

    interval: Fraction

    def noise(self, share: Share, reach: Reach) -> Noise:
        """The cuts and the ends of intervals within the share."""
        return finding(share, reach, self.wanted, interval=self.interval)

    def ends(
        self, exact: Exact, noise: Cutting | Chain, bits: RandomBits, *, miss: float
    ) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """Of every wanted quantile, cell by cell, numbers below and above it but for `miss`."""
        (counted,) = exact.rankings
        return [
            ends_about(self, counted, q, draws.mechanism, miss=miss, bits=bits)
            for q, draws in noise.ends.items()
        ]

    def forecast(self, noise: Cutting | Chain, reach: Reach, assume: Assumption | None) -> Forecast:
        """The rank error, and under assumptions the error itself."""
        found = GridQuantiles.forecast(self, noise, reach, assume)
        if self.interval:
            return found
        note = "no intervals: write interval=0.5 to spend half of this share on them"
        return dataclasses.replace(found, notes=(*found.notes, note))


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantiles(Bracketed):
    """Several quantiles of a number column, each an answer."""

    tag: ClassVar[str] = "quantiles"

    @property
    def parts(self) -> tuple[str, ...]:
        """Each quantile in percent, as it stands in the name of a column."""
        return tuple(f"_{_percent(q).replace('.', '_')}" for q in self.wanted)

    def answers(self, exact: Exact, noise: Any, bits: RandomBits) -> Mapping[str, Answer]:
        """One grid point a cell, for each quantile."""
        drawn = self.drawn(exact, noise, bits)
        found = {
            part: without_errors(values, limits=self.limits)
            for part, values in zip(self.parts, drawn, strict=True)
        }
        ends = self.ends(exact, noise, bits, miss=0.025)
        for part, (lower, upper) in zip(self.parts, ends, strict=False):
            found[part] = dataclasses.replace(
                found[part], lower=lower.tolist(), upper=upper.tolist()
            )
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class QuartileRange(Bracketed):
    """The distance between the two quartiles of a number column."""

    tag: ClassVar[str] = "spread"

    def answers(self, exact: Exact, noise: Any, bits: RandomBits) -> Mapping[str, Answer]:
        """The distance by cell, and beside it the quartiles it lies between."""
        first, third = self.drawn(exact, noise, bits)
        low, high = self.limits
        found = [above - below for below, above in zip(first, third, strict=True)]
        answer = without_errors(found, limits=(0.0, high - low))
        if noise.ends:
            # Four ends, of which one or more misses with probability 5 % at most.
            (a, b), (c, d) = self.ends(exact, noise, bits, miss=0.0125)
            answer = dataclasses.replace(
                answer, lower=np.maximum(c - b, 0).tolist(), upper=np.maximum(d - a, 0).tolist()
            )
        return {"": dataclasses.replace(answer, beside={"from": first, "to": third})}

    def error_of(self, errors: Sequence[float]) -> float:
        """That of a difference, at most: what both have in common cancels."""
        return math.sqrt(math.fsum(error**2 for error in errors))


def _percent(q: Fraction) -> str:
    """A quantile in percent, to four decimals, without zeros at the end."""
    return f"{float(q * 100):.4f}".rstrip("0").rstrip(".")


def quantiles(
    column: str,
    q: Sequence[Number],
    lower: Number | None = None,
    upper: Number | None = None,
    *,
    resolution: Number | None = None,
    interval: Number = 0,
    weight: Number = 1,
) -> Quantiles:
    """Find several quantiles of a number column at once, with less noise than one by one.

    q: at most 100 numbers from 0 to 1, at least a millionth apart. The answers stand under the
    name of the aggregate and the quantile in percent: `income=unacorda.quantiles("income", [0.25,
    0.5, 0.999])` gives `income_25`, `income_50` and `income_99_9`. They never cross. interval:
    the share of this aggregate's budget, below 1, that buys a 95% interval for each of them; 0 for
    none. Bounds, resolution and weight as in `quantile`.

    >>> quantiles("income", [0.9, 0.1], 0, 500_000).parts
    ('_10', '_90')
    """
    return Quantiles(
        column=column,
        wanted=_wanted(q),
        interval=interval_share(interval),
        **given(lower, upper, resolution=resolution, weight=weight),
    )


def iqr(
    column: str,
    lower: Number | None = None,
    upper: Number | None = None,
    *,
    resolution: Number | None = None,
    interval: Number = 0,
    weight: Number = 1,
) -> QuartileRange:
    """Find the interquartile range of a number column: the distance between its quartiles.

    The quartiles themselves are released beside it, as its `from` and `to`. interval:
    the share of this aggregate's budget, below 1, that buys a 95% interval of the range; 0 for
    none. Bounds, resolution and weight as in `quantile`.

    >>> iqr("age", 0, 120).column
    'age'
    """
    return QuartileRange(
        column=column,
        wanted=_QUARTILES,
        interval=interval_share(interval),
        **given(lower, upper, resolution=resolution, weight=weight),
    )


def _wanted(q: object) -> tuple[Fraction, ...]:
    """The quantiles, rising, checked."""
    expected = f"a list of 1 to {_MOST} numbers from 0 to 1, such as [0.25, 0.5, 0.75]"
    if isinstance(q, str | bytes | Mapping) or not isinstance(q, Sequence | np.ndarray):
        raise InvalidParameter("q", q, expected=expected)
    if not 1 <= len(q) <= _MOST:
        raise InvalidParameter("q", q, expected=expected)
    wanted = sorted(checks.exact(f"q[{index}]", value) for index, value in enumerate(q))
    if not 0 <= wanted[0] <= wanted[-1] <= 1:
        raise InvalidParameter("q", q, expected=expected)
    if any(part.denominator > 10**6 for part in wanted):
        raise InvalidParameter("q", q, expected="numbers with at most six decimals")
    if any(b - a < _CLOSEST for a, b in itertools.pairwise(wanted)):
        raise InvalidParameter("q", q, expected="quantiles at least a millionth apart")
    return tuple(wanted)
