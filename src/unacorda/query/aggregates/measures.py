"""What is read of the bounded rows: exact integers, of terms whose ends are public.

An aggregate says what it reads in values of these classes, and an engine takes no others, nor
subclasses. So there is no sum whose terms are not clamped: what one row adds lies between `ends`,
whatever it holds, and those follow from the question alone.

Ladders: people by how far their own number climbs a public row of rungs.

A person's number in a cell is one value made of their bounded rows there: their sum, their greatest
value, how many they are. On a ladder of public rungs L_0 < L_1 < ... the engine counts people by
how many rungs lie strictly below their number, and adds up their numbers, if asked for. From these
exact integers follow, for every rung at once, how many people pass it and what the sum is of all
numbers cut at it. A person is one of these counts, however many rows they bring.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, final

import numpy as np

from unacorda.query.aggregates.grid import Floats, Integers, bisection
from unacorda.query.expressions.language import Expression, Kind, double
from unacorda.query.noise.additive import grid_unit
from unacorda.query.schema.units import Person, Unit, id_columns


@dataclass(frozen=True, slots=True, kw_only=True)
class Clamp:
    """A public range as integers of a public unit: value = integer times 2^unit_log2.

    The bounds are rounded to the unit first, and values are clamped again as integers, since
    rounding after clamping could pass a bound. The unit depends on the bounds alone.
    """

    lower: int
    upper: int
    unit_log2: int

    @staticmethod
    @functools.lru_cache(maxsize=1_024)
    def of(lower: Fraction, upper: Fraction, *, whole: bool) -> Clamp:
        """The range as integers; whole: the values are known to be whole numbers."""
        return Clamp.rounded(lower, upper, unit_log2=grid_unit(lower, upper, whole=whole))

    @staticmethod
    def rounded(lower: Fraction, upper: Fraction, *, unit_log2: int) -> Clamp:
        """The range in this unit, at least one unit wide."""
        unit = Fraction(2) ** unit_log2
        low, high = round(lower / unit), round(upper / unit)
        return Clamp(lower=low, upper=max(high, low + 1), unit_log2=unit_log2)

    @property
    def width(self) -> int:
        """Of the range, in its unit."""
        return self.upper - self.lower

    @property
    def half(self) -> float:
        """Half the width as a number."""
        return self.absolute(Fraction(self.width, 2))

    @property
    def range(self) -> tuple[float, float]:
        """Both ends as numbers."""
        return self.absolute(self.lower), self.absolute(self.upper)

    def centered(self, values: Floats) -> Floats:
        """Values put on [-1, 1], clamped."""
        return np.clip((values - self.absolute(self.lower)) / self.half - 1, -1.0, 1.0)

    def sql(self, value: str) -> str:
        """SQL for the clamped integer of a nullable double; total, and NULL for NULL."""
        # Values between the ends times a power of two do not pass them, nor does what is rounded
        # then; those beyond are not multiplied, since that could pass the range of doubles.
        low, high = self.absolute(self.lower), self.absolute(self.upper)
        scale = 2.0**-self.unit_log2
        assert low * scale == self.lower
        assert high * scale == self.upper
        return (
            f"CAST(CASE WHEN {value} <= {double(low)} THEN {double(low * scale)} "
            f"WHEN {value} >= {double(high)} THEN {double(high * scale)} "
            f"ELSE round({value} * {double(scale)}) END AS BIGINT)"
        )

    def absolute(self, integer: int | Fraction) -> float:
        """An integer of the unit as a number."""
        return float(integer * Fraction(2) ** self.unit_log2)


def clamp_of(expression: Expression, lower: Fraction | None, upper: Fraction | None) -> Clamp:
    """The public range of a bound aggregate as integers."""
    assert lower is not None
    assert upper is not None
    return Clamp.of(lower, upper, whole=expression.kind is Kind.INTEGER)


def clamping_note(lower: Fraction | None, upper: Fraction | None) -> str:
    """The sentence that names clamping without guessing its size."""
    assert lower is not None
    assert upper is not None
    return f"values are clamped to [{float(lower):g}, {float(upper):g}]; by how much is not known"


class RowTerm(ABC):
    """An integer of one row. value, values: names of columns of the bounded rows, doubles."""

    __slots__ = ()

    @property
    @abstractmethod
    def ends(self) -> tuple[int, int]:
        """The least and the greatest that it is, of whatever row; it may be NULL, which adds 0."""

    @property
    @abstractmethod
    def sql(self) -> str:
        """SQL of it; total."""

    @property
    @abstractmethod
    def reads(self) -> str:
        """SQL of a condition without which it is 0 or NULL."""


@final
@dataclass(frozen=True, slots=True)
class Clamped(RowTerm):
    """A number clamped to a range; above: less the lower end of it."""

    value: str
    clamp: Clamp
    above: bool = False

    @property
    def ends(self) -> tuple[int, int]:
        least = self.clamp.lower if self.above else 0
        return self.clamp.lower - least, self.clamp.upper - least

    @property
    def sql(self) -> str:
        clamped = self.clamp.sql(self.value)
        return f"({clamped} - ({self.clamp.lower}))" if self.above else clamped

    @property
    def reads(self) -> str:
        """That the number is present, and not 0 where that adds nothing."""
        zero = not self.above and self.clamp.lower <= 0 <= self.clamp.upper
        return f"{self.value} <> 0e0" if zero else _all_present([self.value])


@final
@dataclass(frozen=True, slots=True)
class Times(RowTerm):
    """The product of two terms."""

    first: RowTerm
    second: RowTerm

    def __post_init__(self) -> None:
        _check(self.first, _TERMS)
        _check(self.second, _TERMS)

    @property
    def ends(self) -> tuple[int, int]:
        """The least and the greatest product of their ends."""
        products = [a * b for a in self.first.ends for b in self.second.ends]
        return min(products), max(products)

    @property
    def sql(self) -> str:
        return f"{self.first.sql} * {self.second.sql}"

    @property
    def reads(self) -> str:
        return f"{self.first.reads} AND {self.second.reads}"


UNITS_LOG2 = 40
"""The length is about 2^40 units: 2^80 rows fit into 128 bits."""

_CUT = 2.0**20
"""Single numbers are cut at so many lengths, so that their squares stay finite."""
_NOTHING = 2.0**-60
"""Those of less than so many lengths are 0, so that their squares do not vanish by themselves."""


@final
@dataclass(frozen=True, slots=True)
class Shortened(RowTerm):
    """One number of a vector that is cut to a length, in units of which the length has about 2^40.

    values: the vector; place: of the number; length: in the l2 norm.
    """

    values: tuple[str, ...]
    place: int
    length: float

    @property
    def unit_log2(self) -> int:
        """It is in units of 2^unit_log2."""
        return math.frexp(self.length)[1] - UNITS_LOG2

    @property
    def radius(self) -> int:
        """The longest vector of such terms, in units.

        Squares, their sum, a root, a quotient and two products err by less than 2^-40 of the length
        together; rounding to units by half a unit a number.
        """
        exact = Fraction(self.length) * Fraction(2) ** -self.unit_log2
        rounded = math.isqrt(len(self.values)) + 1
        return math.ceil(exact * (1 + Fraction(1, 1 << 40))) + rounded

    @property
    def ends(self) -> tuple[int, int]:
        """No number is longer than the vector."""
        return -self.radius, self.radius

    @property
    def sql(self) -> str:
        """SQL of it, where no number is NULL."""
        end = double(self.length * _CUT)
        nothing = double(self.length * _NOTHING)
        inside = [
            f"CASE WHEN abs({value}) < {nothing} THEN 0e0 "
            f"ELSE greatest(least({value}, {end}), -{end}) END"
            for value in self.values
        ]
        square = " + ".join(f"({number}) * ({number})" for number in inside)
        scale, length = double(2.0**-self.unit_log2), double(self.length)
        whole = double(self.length * self.length)
        factor = (
            f"CASE WHEN {square} <= {whole} THEN {scale} "
            f"ELSE {length} / sqrt({square}) * {scale} END"
        )
        return f"CAST(round(({inside[self.place]}) * ({factor})) AS BIGINT)"

    @property
    def reads(self) -> str:
        """That its own number is present."""
        return _all_present([self.values[self.place]])


class Measure(ABC):
    """An exact integer over the bounded rows of a cell."""

    __slots__ = ()

    counts_people = False
    """Whether it reads several rows of one person in another way than rows of several."""

    @abstractmethod
    def sql(self, unit: Unit) -> str:
        """SQL of it; NULL counts as 0."""

    @property
    @abstractmethod
    def reads(self) -> str | None:
        """SQL of a condition: other rows could go without changing it. None: no row could."""


@final
@dataclass(frozen=True, slots=True)
class PresentCount(Measure):
    """How many rows, or how many in which all of these are present."""

    values: tuple[str, ...] = ()

    def sql(self, unit: Unit) -> str:
        if len(self.values) > 1:
            return f"count({_present(self.values, '1')})"
        return f"count({''.join(self.values) or '*'})"

    @property
    def reads(self) -> str | None:
        return _all_present(self.values) if self.values else None


@final
@dataclass(frozen=True, slots=True)
class TrueCount(Measure):
    """How many rows in which a condition holds."""

    value: str

    def sql(self, unit: Unit) -> str:
        return f"count(CASE WHEN {self.value} THEN 1 END)"

    @property
    def reads(self) -> str | None:
        return self.value


@final
@dataclass(frozen=True, slots=True)
class ValueCount(Measure):
    """How many different values; numeric: they are numbers, of which -0.0 is 0.0."""

    value: str
    numeric: bool

    def sql(self, unit: Unit) -> str:
        return f"count(DISTINCT {self.value}{' + 0.0e0' if self.numeric else ''})"

    @property
    def reads(self) -> str | None:
        return _all_present([self.value])


@final
@dataclass(frozen=True, slots=True)
class PeopleCount(Measure):
    """How many units (people) have a row, or one in which `value` is present."""

    value: str | None = None

    counts_people = True

    def sql(self, unit: Unit) -> str:
        present = "" if self.value is None else f" FILTER ({self.value} IS NOT NULL)"
        if not isinstance(unit, Person):
            return f"count(*){present}"
        ids = ", ".join(id_columns(unit))
        return f"count(DISTINCT {ids if len(unit.id) == 1 else f'({ids})'}){present}"

    @property
    def reads(self) -> str | None:
        return None if self.value is None else _all_present([self.value])


@final
@dataclass(frozen=True, slots=True)
class SumOf(Measure):
    """The sum of a term over rows, of those in which all of `present` are present."""

    term: RowTerm
    present: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check(self.term, _TERMS)

    def sql(self, unit: Unit) -> str:
        summed = self.term.sql
        return f"sum({_present(self.present, summed) if self.present else summed})"

    @property
    def reads(self) -> str | None:
        """What the term reads, where all of `present` are."""
        more = [_all_present(self.present)] if self.present else []
        return " AND ".join([self.term.reads, *more])


def _all_present(values: Sequence[str]) -> str:
    return " AND ".join(f"{value} IS NOT NULL" for value in values)


def _present(values: Sequence[str], result: str) -> str:
    """SQL of a result over rows in which all values are present, NULL elsewhere."""
    return f"CASE WHEN {_all_present(values)} THEN {result} END"


_TERMS = (Clamped, Times, Shortened)
_MEASURES = (PresentCount, TrueCount, ValueCount, PeopleCount, SumOf)


def check_measure(value: object) -> None:
    """Raise TypeError for what is no measure: the terms of another sum may have no ends."""
    _check(value, _MEASURES)


def _check(value: object, kinds: tuple[type, ...]) -> None:
    if type(value) not in kinds:
        names = ", ".join(kind.__name__ for kind in kinds)
        raise TypeError(f"{type(value).__name__} is none of {names}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """What to count people by.

    number: SQL of a person's number over their bounded rows of a cell, NULL where they have none;
    rungs: public, rising, whole numbers where the number is HUGEINT; summed: whether the numbers
    are added up too, which they can be where they are whole and not negative; overall: whether
    the number is of all their rows before bounding, in place of the bounded rows of each cell;
    reads: as of a measure.
    """

    number: str
    rungs: tuple[float, ...]
    type: Literal["HUGEINT", "DOUBLE"]
    summed: bool = False
    overall: bool = False
    reads: str | None = None

    def sql(self, unit: Unit, rows: str = "bounded") -> str:
        """SELECT (cell, bin, n, s) over these rows: people by the number of rungs they pass."""
        cell = "0::UTINYINT AS cell" if self.overall else "cell"
        people = f"SELECT {cell}, {self.number} AS t FROM {rows}"
        if isinstance(unit, Person):
            by = [*([] if self.overall else ["cell"]), *id_columns(unit)]
            people += f" GROUP BY {', '.join(by)}"
        total = "sum(t)::VARCHAR" if self.summed else "NULL::VARCHAR"
        whole = self.type == "HUGEINT"
        below = [f"t <= {f'{rung}::HUGEINT' if whole else double(rung)}" for rung in self.rungs]
        passed = bisection(0, len(below), before=below.__getitem__, leaf=str)
        return (
            f"SELECT cell, bin, count(*) AS n, {total} AS s FROM (SELECT cell, t, "
            f"{passed} AS bin FROM ({people}) AS people "
            "WHERE t IS NOT NULL) GROUP BY cell, bin"
        )


def growing_rungs(top: int) -> tuple[int, ...]:
    """Whole numbers from 1 that rise by factors of about 5/4, until one is at the top or above.

    >>> growing_rungs(15)
    (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15)
    """
    rungs = [1]
    while rungs[-1] < top:
        rungs.append(max(rungs[-1] + 1, rungs[-1] * 5 // 4))
    return tuple(rungs)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Climbers:
    """The exact integers of one ladder; private, nothing prints them.

    people: by cell and number of rungs passed, one column more than there are rungs; totals: by
    cell the sums of the numbers of each such group that has people.
    """

    people: Integers
    totals: Sequence[Mapping[int, int]]

    def above(self) -> Integers:
        """By cell and rung, how many people pass the rung."""
        passing = np.cumsum(self.people[:, ::-1], axis=1)[:, ::-1]
        return passing[:, 1:]

    def clipped(self, rungs: Sequence[int], at: Sequence[int]) -> list[int]:
        """By cell the sum of everyone's number, each cut at that cell's rung."""
        found = []
        for people, totals, rung in zip(self.people, self.totals, at, strict=True):
            below = sum(total for passed, total in totals.items() if passed <= rung)
            found.append(below + int(people[rung + 1 :].sum()) * rungs[rung])
        return found


def per_person(aggregate: str, sql: str, unit: Unit) -> str:
    """SQL of a person's number: an aggregate over their rows, or what it is for a single row."""
    return f"{aggregate}({sql})" if isinstance(unit, Person) else sql
