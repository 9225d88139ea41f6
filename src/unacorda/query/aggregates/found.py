r"""Bounds that are found privately: the range of a column, the number of a person's rows.

Each is the rung of a public ladder that at most a few people pass, found by `search`: for the upper
bound people climb by their greatest value, for the lower one by the opposite of their least, for
the number of rows by how many they have. One person is one count in these questions, so that
nothing has to be bounded before. What is found is a released number and so public.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import bisect
import dataclasses
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from unacorda.bits import RandomBits
from unacorda.checks import Number
from unacorda.query.aggregates.aggregate import Single
from unacorda.query.aggregates.answers import Answer, Assume, Exact, Forecast
from unacorda.query.aggregates.arguments import expression_of, weight_of
from unacorda.query.aggregates.threshold_counts import Ladder, per_person
from unacorda.query.expressions.types import Kind
from unacorda.query.noise.additive import Share
from unacorda.query.noise.sensitivity import of_totals
from unacorda.query.noise.threshold_search import Search, search_for
from unacorda.query.schema.table import Scope
from unacorda.query.schema.units import Person, Reach, Unit

__all__ = ["WIDEST", "FoundBounds", "RowsPerPerson", "find_bounds"]

_DECADES = range(-9, 16)
_DIGITS = (1, 2, 5)
WIDEST = (-5e15, 5e15)
"""The widest range that can be found."""


@functools.cache
def _round_numbers(*, whole: bool) -> tuple[float, ...]:
    up = [
        float(digit * Fraction(10) ** decade)
        for decade in _DECADES
        if decade >= 0 or not whole
        for digit in _DIGITS
    ]
    return (*(-rung for rung in reversed(up)), 0.0, *up)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundBounds(Single):
    """The range of a number column that all but few people keep to, on round numbers."""

    tag: ClassVar[str] = "foundbounds"

    column: str

    def bound_to(self, scope: Scope) -> FoundBounds:
        """The same, its column looked up."""
        return dataclasses.replace(self, expressions=(expression_of(self.column, scope),))

    @property
    def rungs(self) -> tuple[float, ...]:
        """The public numbers that a bound can be: 0 and +-1, 2, 5 times a power of ten."""
        return _round_numbers(whole=any(x.kind is Kind.INTEGER for x in self.expressions))

    @property
    def integers(self) -> int:
        """One for each rung."""
        return len(self.rungs)

    def ladders(self, values: Sequence[str], unit: Unit) -> tuple[Ladder, ...]:
        """People by their greatest value, and by the opposite of their least."""
        (value,) = values
        numbers = (per_person("max", value, unit), f"-({per_person('min', value, unit)})")
        return tuple(Ladder(number=sql, rungs=self.rungs, type="DOUBLE") for sql in numbers)

    def noise(self, share: Share, reach: Reach) -> Search:
        """A search for either end, within half of the share each."""
        hits = int(of_totals(reach).l1)
        return search_for(share, rungs=len(self.rungs), hits=hits, runs=2)

    def release(self, exact: Exact, noise: Search, bits: RandomBits) -> Answer:
        """By cell the range: its ends as `lower` and `upper`, its middle as value."""
        up, down = (
            [self.rungs[rung] for rung in noise.find(people.above(), bits)]
            for people in exact.people
        )
        ends = [self._range(0.0 - low, high) for low, high in zip(down, up, strict=True)]
        nothing: list[float | None] = [None] * len(ends)
        return Answer(
            values=[low / 2 + high / 2 for low, high in ends],
            standard_errors=nothing,
            lower=[low for low, _ in ends],
            upper=[high for _, high in ends],
            is_range=True,
        )

    def forecast(self, noise: Search, reach: Reach, assume: Assume | None) -> Forecast:
        """What is known beforehand: how many people lie outside, not how far."""
        del assume
        return Forecast(
            noise=f"AboveThreshold with epsilon = {float(noise.solver.epsilon):.6g}, for each end",
            sensitivity=of_totals(reach).reason,
            people_error=noise.passing,
            notes=(
                f"bounds are 0 or 1, 2 or 5 times a power of ten, up to {self.rungs[-1]:g}",
                "the released value is the middle of the range, its interval the range",
                "where there are too few people the range is wider than their values",
            ),
        )

    def _range(self, low: float, high: float) -> tuple[float, float]:
        if low == high:
            place = bisect.bisect_left(self.rungs, high)
            if place + 1 < len(self.rungs):
                return low, self.rungs[place + 1]
            return self.rungs[place - 1], high
        # The ends cross where both searches stopped at once, for want of people.
        return min(low, high), max(low, high)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsPerPerson(Single):
    """How many rows all but few people have at most, up to a public end."""

    tag: ClassVar[str] = "rowsperperson"

    most: int

    def bound_to(self, scope: Scope) -> RowsPerPerson:
        """The same; there is no column to look up."""
        del scope
        return self

    @property
    def rungs(self) -> tuple[int, ...]:
        """The public numbers that may be found: whole, by factors of about 5/4, up to the end."""
        rungs = [1]
        while rungs[-1] < self.most:
            rungs.append(min(max(rungs[-1] + 1, rungs[-1] * 5 // 4), self.most))
        return tuple(rungs)

    @property
    def integers(self) -> int:
        """One for each rung."""
        return len(self.rungs)

    def ladders(self, values: Sequence[str], unit: Unit) -> tuple[Ladder, ...]:
        """People by how many rows they have."""
        del values
        number = "count(*)::HUGEINT" if isinstance(unit, Person) else "1::HUGEINT"
        return (Ladder(number=number, rungs=self.rungs, type="HUGEINT"),)

    def noise(self, share: Share, reach: Reach) -> Search:
        """The search within the share."""
        hits = int(of_totals(reach).l1)
        return search_for(share, rungs=len(self.rungs), hits=hits)

    def release(self, exact: Exact, noise: Search, bits: RandomBits) -> Answer:
        """By cell the number found."""
        found = noise.find(exact.people[0].above(), bits)
        nothing: list[float | None] = [None] * len(found)
        return Answer(
            values=[self.rungs[rung] for rung in found],
            standard_errors=nothing,
            lower=nothing,
            upper=nothing,
        )

    def forecast(self, noise: Search, reach: Reach, assume: Assume | None) -> Forecast:
        """What is known beforehand: how many people have more rows."""
        del assume
        return Forecast(
            noise=f"AboveThreshold with epsilon = {float(noise.solver.epsilon):.6g}",
            sensitivity=of_totals(reach).reason,
            people_error=noise.passing,
        )


def find_bounds(column: str, *, weight: Number = 1) -> FoundBounds:
    """Find public bounds of a number column privately: few people have values outside of them.

    For columns whose range no rule or law of nature tells. The answer's interval is the range,
    its value the middle; `Session.find_bounds` gives it as `Bounds`. Weight as in `count`.

    >>> find_bounds("income").column
    'income'
    """
    return FoundBounds(column=column, weight=weight_of(weight))
