"""Bounds, and sums without given bounds, that are found privately.

**Sums.** Every person's total is clamped at a level that is itself found privately. The bounded
rows of a person in a cell add up to their total, a whole number of a public unit. Positive and
negative totals are two questions about disjoint people. For each, AboveThreshold searches a list of
public levels L for the first that at most a few people exceed (see `selection`). Then the sum of
all totals clamped at L is released with noise for sensitivity L. The level is a released number, so
everything after it may depend on it.

**Cost.** In one part (a cell and a sign) a person changes every count by at most 1, all in one
direction, and the clamped sum by at most L. The search costs its event, and the noise, with the
same multiplier for every L, its own. With at most r rows a person has totals in at most m = min(r,
cells) cells, with one sign in each. So m parts depend on the person, and the others do not. If a
person is replaced, their old and new totals are in at most min(2 m, parts) parts. The price is the
two events that many times.

**Estimand.** It estimates the sum of the clamped totals, with noise of mean 0 and known size, given
L. The sum itself is larger: about `allowed` people exceed L. By how much is not known, and cannot
be for any sum without a bound.

Source: the search, Lyu, Su, Li 2017, arXiv:1603.01699, Algorithm 7; a sum without a few of its
people as a target: Fang, Dong, Yi 2022; proof above.

**Bounds**: the range of a column, or the number of a person's rows. Each is the first number of a
public list that at most a few people exceed, found by `selection`. For the upper bound a person's
greatest value is compared, for the lower one minus their least value, and for the number of rows
their count. One person is one count in these questions, so nothing has to be bounded before. The
result is a released number and so public.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import bisect
import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from unacorda.bits import RandomBits
from unacorda.checks import Number
from unacorda.privacy import events
from unacorda.query.aggregates.base import Answer, Assumption, Exact, Forecast, Single, weight_of
from unacorda.query.aggregates.measures import Thresholds, growing_rungs, per_person
from unacorda.query.expressions.language import Expression, Kind, Written, double, written
from unacorda.query.noise.additive import (
    CONFIDENCE,
    AdditiveNoise,
    Sensitivity,
    Share,
    additive_noise,
    of_totals,
)
from unacorda.query.noise.selection import ThresholdSearch, search_for
from unacorda.query.schema.table import TableSchema
from unacorda.query.schema.units import Person, Reach, Unit

_UNIT_LOG2 = -32  # of numbers that need not be whole; these keep the unit 1
_HIGHEST_LOG2 = 76  # the last rung and the most a row counts for, in units: 2^50 such rows fit
_HIGHEST_WHOLE_LOG2 = 62
_SEARCH = Fraction(1, 2)  # of the share; the rest buys the noise of the sum
_MEANING = (
    "intervals are about the sum of cut totals; by how much that is not the sum is known neither "
    "beforehand nor afterwards"
)
_FEW = "where a cell has hardly more people than may be cut, the level is low and the answer near 0"
_ROUND = tuple(digit * Fraction(10) ** decade for decade in range(-9, 16) for digit in (1, 2, 5))
WIDEST = (-5e15, 5e15)
"""The widest range that can be found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClampingSearch:
    """The mechanism of one sum without bounds. search: the levels; share: of the noise, one part.

    hits: how many parts (a cell and a sign) one unit's change can be felt in.
    """

    search: ThresholdSearch
    share: Share
    unit_log2: int
    hits: int

    @property
    def log_scale(self) -> float:
        return self.search.log_scale + self.noise(1).log_scale

    @property
    def event(self) -> events.Event:
        return self.search.event + self.noise(1).event * self.hits

    def noise(self, level: int) -> AdditiveNoise:
        """The noise of a sum cut at a level, in units."""
        step = Fraction(level)
        sensitivity = Sensitivity(l1=step, l2_squared=step**2, reason="")
        return additive_noise(self.share, sensitivity, unit_log2=self.unit_log2, counts=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderSearch(Single):
    """What is found of each cell on public ladders, by how far its people climb.

    runs: how many ladders are searched; each: to which of them the search goes, in words.
    """

    runs: ClassVar[int] = 1
    each: ClassVar[str] = ""

    @property
    @abstractmethod
    def rungs(self) -> tuple[float, ...]:
        """The public numbers that may be found, rising."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What else a reader of its forecast should know."""
        return ()

    @property
    def integers(self) -> int:
        return len(self.rungs)

    def noise(self, share: Share, reach: Reach) -> ThresholdSearch | ClampingSearch:
        """The searches within the share, which have it together."""
        hits = int(of_totals(reach).l1)
        return search_for(share, rungs=len(self.rungs), hits=hits, runs=self.runs)

    def forecast(self, noise: Any, reach: Reach, assume: Assumption | None) -> Forecast:
        """Forecast how many people exceed the result; by how much is not known."""
        return Forecast(
            noise=f"AboveThreshold with epsilon = {float(noise.solver.epsilon):.6g}{self.each}",
            sensitivity=of_totals(reach).reason,
            people_error=noise.passing,
            notes=self.notes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AutomaticSum(LadderSearch):
    """The sum of a number column without bounds, each person's total clamped at a found level.

    signs: which parts there can be, 1 and -1, by what is known of the column's range.
    """

    tag: ClassVar[str] = "total"
    zeros_add_nothing: ClassVar[bool] = True

    column: str
    signs: tuple[int, ...]

    @staticmethod
    def of(column: str, expression: Expression, weight: Fraction) -> AutomaticSum:
        """The sum of an expression of which no finite range is known."""
        signs = (1,) if expression.lower >= 0 else (-1,) if expression.upper <= 0 else (1, -1)
        return AutomaticSum(column=column, weight=weight, signs=signs, expressions=(expression,))

    def bound_to(self, scope: TableSchema) -> AutomaticSum:
        return self

    @property
    def unit_log2(self) -> int:
        """Totals are whole multiples of 2^unit_log2."""
        return 0 if self._whole else _UNIT_LOG2

    @property
    def rungs(self) -> tuple[int, ...]:
        """The public levels, in units: powers of the root of 2, rounded to whole numbers."""
        highest = _HIGHEST_WHOLE_LOG2 if self._whole else _HIGHEST_LOG2
        return tuple(sorted({math.isqrt(2**power) for power in range(2 * highest + 1)}))

    def ladders(self, values: Sequence[str], unit: Unit) -> tuple[Thresholds, ...]:
        """People by their total, one ladder for each sign; no row raises an error."""
        (value,) = values
        end = double(self._absolute(self.rungs[-1]))
        inside = f"greatest(least({value}, {end}), -{end})"
        scaled = f"CAST(round({inside} * {double(2.0**-self.unit_log2)}) AS HUGEINT)"
        part = f"CASE WHEN {value} IS NOT NULL THEN {scaled} END"
        total = per_person("sum", part, unit)
        return tuple(
            Thresholds(
                # A person without any number has the total 0.
                number=f"greatest({'-' if sign < 0 else ''}coalesce({total}, 0::HUGEINT), "
                "0::HUGEINT)",
                rungs=self.rungs,
                type="HUGEINT",
                summed=True,
                reads=f"{value} <> 0e0",
            )
            for sign in self.signs
        )

    def noise(self, share: Share, reach: Reach) -> ClampingSearch:
        hits = int(of_totals(reach, signs=len(self.signs)).l1)
        return ClampingSearch(
            search=search_for(share * _SEARCH, rungs=len(self.rungs), hits=hits),
            share=share * ((1 - _SEARCH) / hits),
            unit_log2=self.unit_log2,
            hits=hits,
        )

    def release(self, exact: Exact, noise: ClampingSearch, bits: RandomBits) -> Answer:
        """Noisy sums of clamped totals, and the levels at which they were clamped."""
        cells = len(exact.people[0].people)
        values, squares, widths = np.zeros((3, cells))
        ends = {1: np.zeros(cells), -1: np.zeros(cells)}
        confidence = 1 - (1 - CONFIDENCE) / len(self.signs)
        for sign, people in zip(self.signs, exact.people, strict=True):
            found = noise.search.find(people.above(), bits)
            sums = people.clipped(self.rungs, found)
            for rung in sorted(set(found)):
                at = np.flatnonzero(np.array(found) == rung)
                added = noise.noise(self.rungs[rung])
                values[at] += sign * added.doubles([sums[cell] for cell in at], bits=bits)
                squares[at] += added.standard_deviation**2
                widths[at] += added.half_width(confidence)
                ends[sign][at] = sign * self._absolute(self.rungs[rung])
        return Answer(
            values=values.tolist(),
            standard_errors=np.sqrt(squares).tolist(),
            lower=(values - widths).tolist(),
            upper=(values + widths).tolist(),
            beside={"from": ends[-1].tolist(), "to": ends[1].tolist()},
            limits=(-math.inf if -1 in self.signs else 0.0, math.inf if 1 in self.signs else 0.0),
        )

    def forecast(self, noise: ClampingSearch, reach: Reach, assume: Assumption | None) -> Forecast:
        """Forecast how many people are clamped; by how much is not known."""
        one = noise.noise(1)
        law = "Laplace noise" if one.laplace else "normal noise"
        ratio = one.standard_deviation / self._absolute(1)
        low, high = self._absolute(self.rungs[0]), self._absolute(self.rungs[-1])
        parts = "" if len(self.signs) == 1 else ", for positive and for negative totals apart"
        return Forecast(
            noise=f"{law} on the sum of people's totals, each cut at a level that is found "
            f"privately first{parts}",
            sensitivity=of_totals(reach, signs=len(self.signs)).reason,
            people_error=noise.search.passing,
            reading="each person's total is clamped to levels that were found privately; the "
            "interval is about the sum of clamped totals",
            notes=(
                f"the standard error is {ratio:.4g} times the level found, which is released too",
                _MEANING,
                _FEW,
                f"levels: from {low:.3g} to {high:.3g} by factors of the root of 2",
            ),
        )

    @property
    def _whole(self) -> bool:
        return self.expression.kind is Kind.INTEGER

    def _absolute(self, units: int) -> float:
        return math.ldexp(units, self.unit_log2)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundBounds(LadderSearch):
    """The range of a number column that holds almost all people, in round numbers."""

    tag: ClassVar[str] = "foundbounds"
    functions: ClassVar[tuple[str, ...]] = ("find_bounds",)
    reads: ClassVar[Mapping[str, Kind | None]] = {"column": Kind.NUMBER}
    runs: ClassVar[int] = 2
    each: ClassVar[str] = ", for each end"

    column: str

    @property
    def rungs(self) -> tuple[float, ...]:
        """The public numbers that a bound can be: 0 and +-1, 2, 5 times a power of ten."""
        least = int(any(x.kind is Kind.INTEGER for x in self.expressions))
        up = [float(number) for number in _ROUND if number >= least]
        return (*(-rung for rung in reversed(up)), 0.0, *up)

    @property
    def notes(self) -> tuple[str, ...]:
        """Which bounds there are, and what an answer says."""
        return (
            f"bounds are 0 or 1, 2 or 5 times a power of ten, up to {self.rungs[-1]:g}",
            "the released value is the middle of the range, its interval the range",
            "where there are too few people the range is wider than their values",
        )

    def ladders(self, values: Sequence[str], unit: Unit) -> tuple[Thresholds, ...]:
        """People by their greatest value, and by the opposite of their least."""
        (value,) = values
        numbers = (per_person("max", value, unit), f"-({per_person('min', value, unit)})")
        present = f"{value} IS NOT NULL"
        return tuple(
            Thresholds(number=sql, rungs=self.rungs, type="DOUBLE", reads=present)
            for sql in numbers
        )

    def release(self, exact: Exact, noise: ThresholdSearch, bits: RandomBits) -> Answer:
        """By cell the range: its ends as `lower` and `upper`, its middle as value."""
        rungs = self.rungs
        up, down = (
            [rungs[rung] for rung in noise.find(people.above(), bits)] for people in exact.people
        )
        ends = [_range(rungs, 0.0 - low, high) for low, high in zip(down, up, strict=True)]
        return Answer(
            values=[low / 2 + high / 2 for low, high in ends],
            standard_errors=[None] * len(ends),
            lower=[low for low, _ in ends],
            upper=[high for _, high in ends],
            limits=(rungs[0], rungs[-1]),
            is_range=True,
        )


def _range(rungs: Sequence[float], low: float, high: float) -> tuple[float, float]:
    """Two different bounds, in order."""
    if low == high:
        place = min(bisect.bisect_left(rungs, high), len(rungs) - 2)
        return rungs[place], rungs[place + 1]
    # The ends cross where both searches stopped at once, for want of people.
    return min(low, high), max(low, high)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsPerPerson(LadderSearch):
    """The most rows of almost all people, up to a public end."""

    tag: ClassVar[str] = "rowsperperson"

    most: int

    @property
    def rungs(self) -> tuple[int, ...]:
        """The public numbers that may be found: whole, by factors of about 5/4, up to the end."""
        return tuple(min(rung, self.most) for rung in growing_rungs(self.most))

    def ladders(self, values: Sequence[str], unit: Unit) -> tuple[Thresholds, ...]:
        number = "count(*)::HUGEINT" if isinstance(unit, Person) else "1::HUGEINT"
        return (Thresholds(number=number, rungs=self.rungs, type="HUGEINT"),)

    def release(self, exact: Exact, noise: ThresholdSearch, bits: RandomBits) -> Answer:
        found = [self.rungs[rung] for rung in noise.find(exact.people[0].above(), bits)]
        nothing: list[float | None] = [None] * len(found)
        return Answer(values=found, standard_errors=nothing, lower=nothing, upper=nothing)


def find_bounds(column: Written, *, weight: Number = 1) -> FoundBounds:
    """Find bounds of a number column privately that hold the values of almost all people.

    It is for columns without a known range. The answer's interval is the range, and its value is
    the middle; `Session.find_bounds` returns it as `Bounds`.

    Parameters
    ----------
    column
        A column or an expression of numbers.
    weight
        As in `count`.

    Returns
    -------
    FoundBounds
        An aggregate, for `Query.agg`.

    Raises
    ------
    InvalidParameter
        For a weight that is not above 0.

    Examples
    --------
    >>> find_bounds("income").column
    'income'
    """
    return FoundBounds(column=written(column), weight=weight_of(weight))
