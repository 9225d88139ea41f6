"""The most frequent of public values.

The most frequent values of a column, of a public list, with how many rows have each.

A row has one value, so that the counts of all listed values have together the sensitivity of one
count: all of them are counted with noise, once, and the k largest noisy counts are released. To
choose first, k times, and then to count what was chosen would split the budget: its counts are
noisier, and from k = 2 on its choices too.

The largest of many noisy numbers is likelier to have noise upward. So the intervals are wide enough
to hold for all listed values at once, and hence for those that were chosen; a standard error of a
chosen count is not known.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from unacorda import checks
from unacorda.bits import RandomBits
from unacorda.checks import Number
from unacorda.errors import InvalidParameter
from unacorda.query.aggregates.base import (
    Answer,
    Assumption,
    Exact,
    Forecast,
    Single,
    expression_of,
    weight_of,
)
from unacorda.query.aggregates.grid_counts import Ranking
from unacorda.query.expressions.quoting import literal
from unacorda.query.noise.additive import CONFIDENCE, AdditiveNoise, Share, additive_noise
from unacorda.query.noise.sensitivity import of_counts
from unacorda.query.schema.facts import Categories, Key, check_keys, key_kinds
from unacorda.query.schema.table import TableSchema
from unacorda.query.schema.units import Reach

__all__ = [
    "Top",
    "place_among",
    "place_between",
    "top",
]


def place_between(value: str, edges: Sequence[str]) -> str:
    """0 below the first edge, i from the i-th on, one more beyond the last; NULL for NULL.

    edges: SQL literals, rising, at least two. A value at the last edge is below it, so that the
    last of the bins between edges is closed.
    """

    def found(first: int, last: int) -> str:
        if first == last:
            return str(first)
        middle = (first + last) // 2
        sign = "<=" if middle == len(edges) - 1 else "<"
        less = f"{value} {sign} {edges[middle]}"
        return f"CASE WHEN {less} THEN {found(first, middle)} ELSE {found(middle + 1, last)} END"

    return f"CASE WHEN {value} IS NOT NULL THEN {found(0, len(edges))} END"


def place_among(value: str, listed: Sequence[tuple[str, int]]) -> str:
    """The number that stands with a value; NULL for NULL and for values that are not listed.

    listed: SQL literals, rising as the engine compares them, each with its number.
    """

    def found(first: int, last: int) -> str:
        text, number = listed[first]
        if first == last:
            return f"CASE WHEN {value} = {text} THEN {number} END"
        middle = (first + last) // 2
        less = f"{value} <= {listed[middle][0]}"
        return f"CASE WHEN {less} THEN {found(first, middle)} ELSE {found(middle + 1, last)} END"

    return found(0, len(listed) - 1)


_MOST = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Top(Single):
    """The `size` values of a list with the largest noisy counts of rows, the largest first."""

    tag: ClassVar[str] = "top"

    column: str
    size: int
    listed: tuple[Key, ...] | None

    @property
    def lines(self) -> int:
        """One for each of the values that are released."""
        return self.size

    @property
    def integers(self) -> int:
        """One for each listed value."""
        return len(self.listed or ())

    def bound_to(self, scope: TableSchema) -> Top:
        """The same, its column looked up and its values known."""
        listed = self.listed
        if listed is None:
            listed = self._declared(scope)
        kind = key_kinds(listed)[-1]
        expression = expression_of(self.column, scope, kind=kind)
        return dataclasses.replace(self, expressions=(expression,), listed=listed)

    def rankings(self, values: Sequence[str]) -> tuple[Ranking, ...]:
        """The rows by the number of their value in the list."""
        listed = self._values()
        numbers = {value: number for number, value in enumerate(listed)}
        numbered = [(literal(value), numbers[value]) for value in sorted(listed)]  # type: ignore[type-var]
        return (Ranking(place=place_among(values[0], numbered), steps=max(len(listed) - 1, 1)),)

    def noise(self, share: Share, reach: Reach) -> AdditiveNoise:
        """The least noise within the share."""
        moved = of_counts(reach.split(len(self._values())))
        return additive_noise(share, moved, unit_log2=0, counts=True)

    def release(self, exact: Exact, noise: AdditiveNoise, bits: RandomBits) -> Answer:
        """The largest noisy counts of every cell, each with its value."""
        (counted,) = exact.rankings
        listed = self._values()
        counts = counted.counts[:, : len(listed)]
        noisy = noise.release(counts.ravel().tolist(), bits=bits)
        width = self._half_width(noise)
        values: list[int | float] = []
        names: list[Key] = []
        for cell in range(len(counts)):
            own = noisy[cell * len(listed) : (cell + 1) * len(listed)]
            # Of equal numbers the one that is listed first.
            for number in sorted(range(len(own)), key=lambda at: (-own[at], at))[: self.size]:
                count = own[number]
                values.append(count if isinstance(count, int) else float(count))
                names.append(listed[number])
        return Answer(
            values=values,
            standard_errors=[None] * len(values),
            lower=[value - width for value in values],
            upper=[value + width for value in values],
            beside={"value": names},
            limits=(0.0, float("inf")),
        )

    def forecast(self, noise: AdditiveNoise, reach: Reach, assume: Assumption | None) -> Forecast:
        """The error of all counts, before any is chosen."""
        del assume
        count = len(self._values())
        width = self._half_width(noise)
        return Forecast(
            noise=f"{noise}, on the counts of all {count:,} listed values",
            sensitivity=of_counts(reach.split(count)).reason,
            notes=(
                f"standard deviation of the noise: {noise.standard_deviation:.4g}",
                f"in 95% of cells all {count:,} counts on the kept rows are within {width:.4g}",
                "the largest of many noisy counts are likelier to have noise upward",
            ),
        )

    def _half_width(self, noise: AdditiveNoise) -> float:
        """For all listed values of a cell at once."""
        return noise.half_width(1 - (1 - CONFIDENCE) / len(self._values()))

    def _values(self) -> tuple[Key, ...]:
        assert self.listed is not None
        return self.listed

    def _declared(self, scope: TableSchema) -> tuple[Key, ...]:
        fact = None
        if self.column in scope:
            fact = scope.facts.get(scope.resolve(self.column, argument="column"))
        if isinstance(fact, Categories):
            return _checked(tuple(value for value in fact.values if value is not None), self.size)
        raise InvalidParameter(
            "values",
            None,
            expected=f"the public values of {self.column!r}",
            lacks="keys",
            column=self.column,
            hint="values=[...], or declare "
            f"columns={{{self.column!r}: unacorda.Categories([...])}}. Values are never read off "
            "the data: where no list of them is public, group by the column with keys that are "
            "selected privately",
        )


def top(
    column: str,
    k: int,
    values: Iterable[Key] | None = None,
    *,
    weight: Number = 1,
) -> Top:
    """Find the k most frequent values of a column, with the number of rows that have each.

    values: at most 5,000 public values, of one type: text, whole numbers, booleans or dates; left
    out, those that the column is declared to have (`Categories`). Rows with other values are left
    out. One line of the release for each of the k, the most frequent first, with the value as
    `value`. Weight as in `count`.

    >>> top("county", 3, ["A", "B", "C", "D"]).lines
    3
    """
    size = checks.positive_integer(k=k)
    listed = None if values is None else _checked(check_keys("values", values), size)
    if listed is not None and None in listed:
        raise InvalidParameter("values", None, expected="values other than None, which is absent")
    return Top(column=column, size=size, listed=listed, weight=weight_of(weight))


def _checked(values: tuple[Key, ...], size: int) -> tuple[Key, ...]:
    if not 1 <= len(values) <= _MOST:
        raise InvalidParameter("values", f"{len(values):,}", expected=f"1 to {_MOST:,} values")
    if size > len(values):
        raise InvalidParameter("k", size, expected=f"at most {len(values):,}, as values are listed")
    return values
