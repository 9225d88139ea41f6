r"""Histograms with public or found edges, and the most frequent of public values.

Bins are disjoint, as cells are: the counts of all bins of all cells have the sensitivity of one
count over as many groups. With given edges, a bin includes its lower edge and excludes its upper
one; the last bin includes both, as is usual. Values below the first edge and above the last are
counted in two further bins, which cost nothing.

Found edges are quantiles that cut the rows into bins of about equal counts (`quantiles`). They cost
a fourth of the budget; the rest is for the counts. Edges are released numbers, so the counts
between them are exact before noise is added.

**The most frequent values** of a column, among a public list, with their numbers of rows. A row has
one value, so the counts of all listed values together have the sensitivity of one count. All of
them get noise once, and the k largest noisy counts are released. To select k times first and count
afterwards would split the budget: the counts would be noisier, and from k = 2 on also the
selection.

The largest of many noisy numbers tends to have upward noise. So the intervals are wide enough to
hold for all listed values at once, and hence for the selected ones. The standard error of a
selected count is not known.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Final

import numpy as np

from unacorda import checks
from unacorda.bits import RandomBits
from unacorda.checks import Number
from unacorda.errors import InvalidParameter
from unacorda.privacy import events
from unacorda.query.aggregates.base import (
    Answer,
    Assumption,
    Exact,
    Forecast,
    Single,
    expression_of,
    weight_of,
)
from unacorda.query.aggregates.grid import Ranking, bisection
from unacorda.query.aggregates.linear import Linear, released
from unacorda.query.aggregates.quantile_tree import QuantileDraws
from unacorda.query.aggregates.quantiles import GridAggregate, finding, given
from unacorda.query.expressions.language import Kind, Written, double, literal, written
from unacorda.query.noise.additive import (
    CONFIDENCE,
    AdditiveNoise,
    Sensitivity,
    Share,
    additive_noise,
    of_counts,
)
from unacorda.query.schema.keys import Key, check_keys, key_kinds
from unacorda.query.schema.table import Categories, TableSchema
from unacorda.query.schema.units import Reach

_MOST_EDGES = 1_001
_MOST_FOUND = 100
_MOST_VALUES = 5_000
_FINDING: Final = Fraction(1, 4)  # of the share, for found edges
_EDGES = "a bin has its lower edge, the last one between edges its upper edge too"


def place_between(value: str, edges: Sequence[str]) -> str:
    """SQL of a value's bin: 0 below the first edge, i from the i-th edge on; NULL for NULL.

    edges: SQL literals, rising, at least two. A value beyond the last edge has one more. A value at
    the last edge counts as below it, so that the last bin between edges is closed.
    """

    def before(at: int) -> str:
        return f"{value} {'<=' if at == len(edges) - 1 else '<'} {edges[at]}"

    place = bisection(0, len(edges), before=before, leaf=str)
    return f"CASE WHEN {value} IS NOT NULL THEN {place} END"


def place_among(
    value: str, listed: Sequence[tuple[str, int]], *, otherwise: int | None = None
) -> str:
    """SQL of the number of a listed value; `otherwise`, or NULL, for other values and for NULL.

    listed: SQL literals, rising as the engine compares them, each with its number.
    """
    end = "END" if otherwise is None else f"ELSE {otherwise} END"

    def leaf(at: int) -> str:
        text, number = listed[at]
        return f"CASE WHEN {value} = {text} THEN {number} {end}"

    return bisection(0, len(listed) - 1, before=lambda at: f"{value} <= {listed[at][0]}", leaf=leaf)


@dataclass(frozen=True, slots=True, kw_only=True)
class BinCounts(Linear):
    """Rows by bin between given edges, with one more bin on either side."""

    tag: ClassVar[str] = "histogram"
    functions: ClassVar[tuple[str, ...]] = ("histogram",)
    reads: ClassVar[Mapping[str, Kind | None]] = {"column": Kind.NUMBER}
    counts: ClassVar[bool] = True

    column: str
    edges: tuple[float, ...]

    @property
    def lines(self) -> int:
        """One row for each bin, and one for each side."""
        return len(self.edges) + 1

    @property
    def integers(self) -> int:
        return self.lines

    @property
    def each(self) -> str:
        return f", in each of {self.lines:,} bins"

    @property
    def notes(self) -> tuple[str, ...]:
        """The bin of a value at an edge."""
        return (f"{_EDGES}; the first line is what lies below all edges, the last what lies above",)

    def rankings(self, values: Sequence[str]) -> tuple[Ranking, ...]:
        place = place_between(values[0], [double(edge) for edge in self.edges])
        return (Ranking(place=place, steps=self.lines - 1),)

    def sensitivity(self, reach: Reach) -> Sensitivity:
        """The sensitivity of one count over as many groups."""
        return of_counts(reach.split(self.lines))

    def integers_of(self, exact: Exact) -> Sequence[int]:
        (counted,) = exact.rankings
        found: list[int] = counted.counts.ravel().tolist()
        return found

    def answers(self, exact: Exact, noise: AdditiveNoise, bits: RandomBits) -> Mapping[str, Answer]:
        """Noisy counts, bin by bin, each with the edges it lies between."""
        ((part, found),) = Linear.answers(self, exact, noise, bits).items()
        cells = len(found.values) // self.lines
        beside = {"from": [None, *self.edges] * cells, "to": [*self.edges, None] * cells}
        return {part: dataclasses.replace(found, beside=beside)}


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundBins:
    """The cuts that find the edges, and the noise of the counts."""

    cutting: QuantileDraws
    counts: AdditiveNoise

    @property
    def event(self) -> events.Event:
        return self.cutting.event + self.counts.event

    @property
    def log_scale(self) -> float:
        return self.cutting.log_scale + self.counts.log_scale


@dataclass(frozen=True, slots=True, kw_only=True)
class EqualBins(GridAggregate):
    """Rows by bin, with edges found so that all bins have about equal counts."""

    tag: ClassVar[str] = "equalbins"
    functions: ClassVar[tuple[str, ...]] = ("histogram",)
    renamed: ClassVar[Mapping[str, str]] = {"wanted": ""}

    wanted: tuple[Fraction, ...]

    def arguments(self) -> dict[str, Any]:
        return {**GridAggregate.arguments(self), "bins": self.lines}

    @property
    def lines(self) -> int:
        return len(self.wanted) + 1

    def noise(self, share: Share, reach: Reach) -> FoundBins:
        moved = of_counts(reach.split(self.lines))
        return FoundBins(
            cutting=finding(share * _FINDING, reach, self.wanted),
            counts=additive_noise(share * (1 - _FINDING), moved, unit_log2=0, counts=True),
        )

    def answers(self, exact: Exact, noise: Any, bits: RandomBits) -> Mapping[str, Answer]:
        """Noisy counts, bin by bin, each with the edges it lies between."""
        (counted,) = exact.rankings
        low, high = self.limits
        places = noise.cutting.rising(counted, self.grid.slots, bits).T
        ends = np.zeros((counted.cells, 1), np.int64), counted.totals[:, None]
        counts = np.diff(np.hstack([ends[0], counted.below(places), ends[1]]), axis=1)
        answer = released(counts.ravel().tolist(), noise.counts, bits)
        edges = self.grid.values(places).tolist()
        return {
            "": dataclasses.replace(
                answer,
                beside={
                    "from": [edge for cell in edges for edge in (low, *cell)],
                    "to": [edge for cell in edges for edge in (*cell, high)],
                },
            )
        }

    def forecast(self, noise: Any, reach: Reach, assume: Assumption | None) -> Forecast:
        """Forecast the error of each count, and the largest rank error of the edges."""
        return Forecast(
            noise=f"{noise.counts}, in each of {self.lines:,} bins; their edges by the "
            f"{noise.cutting.words}",
            sensitivity=of_counts(reach.split(self.lines)).reason,
            standard_error=noise.counts.standard_deviation,
            half_width=noise.counts.half_width(CONFIDENCE),
            rank_error=noise.cutting.rank_error(slots=int(self.grid.slots[-1])),
            notes=(
                *self.notes,
                "the rank error is that of the edges; counts are those between the edges found",
                f"{_EDGES}; where many values are equal, edges may be so too, and a bin empty",
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Top(Single):
    """The `size` listed values with the largest noisy counts of rows, the largest first."""

    tag: ClassVar[str] = "top"
    functions: ClassVar[tuple[str, ...]] = ("top",)
    renamed: ClassVar[Mapping[str, str]] = {"size": "k", "listed": "values"}

    column: str
    size: int
    listed: tuple[Key, ...] | None

    @property
    def lines(self) -> int:
        return self.size

    @property
    def integers(self) -> int:
        return len(self.listed or ())

    def bound_to(self, scope: TableSchema) -> Top:
        listed = self._declared(scope) if self.listed is None else self.listed
        expression = expression_of(self.column, scope, kind=key_kinds(listed)[-1])
        return dataclasses.replace(self, expressions=(expression,), listed=listed)

    def rankings(self, values: Sequence[str]) -> tuple[Ranking, ...]:
        listed = self._values()
        order = sorted(range(len(listed)), key=listed.__getitem__)  # type: ignore[arg-type]
        numbered = [(literal(listed[number]), number) for number in order]
        return (Ranking(place=place_among(values[0], numbered), steps=max(len(listed) - 1, 1)),)

    def noise(self, share: Share, reach: Reach) -> AdditiveNoise:
        moved = of_counts(reach.split(len(self._values())))
        return additive_noise(share, moved, unit_log2=0, counts=True)

    def release(self, exact: Exact, noise: AdditiveNoise, bits: RandomBits) -> Answer:
        """The largest noisy counts of every cell, each with its value."""
        (counted,) = exact.rankings
        listed = self._values()
        counts = counted.counts[:, : len(listed)]
        noisy, width = noise.release(counts.ravel().tolist(), bits=bits), self._half_width(noise)
        values: list[int | float] = []
        names: list[Key] = []
        for start in range(0, len(noisy), len(listed)):
            own = noisy[start : start + len(listed)]
            # Of equal numbers the one that is listed first.
            for at in sorted(range(len(own)), key=own.__getitem__, reverse=True)[: self.size]:
                values.append(count if isinstance(count := own[at], int) else float(count))
                names.append(listed[at])
        return Answer(
            values=values,
            standard_errors=[None] * len(values),
            lower=[value - width for value in values],
            upper=[value + width for value in values],
            beside={"value": names},
            limits=(0.0, float("inf")),
        )

    def forecast(self, noise: AdditiveNoise, reach: Reach, assume: Assumption | None) -> Forecast:
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
            f"columns={{{self.column!r}: unacorda.Categories([...])}}. Values are never read from "
            "the data: where no list of them is public, group by the column with keys that are "
            "selected privately",
        )


def histogram(
    column: Written,
    edges: Iterable[Number] | None = None,
    *,
    bins: int | None = None,
    lower: Number | None = None,
    upper: Number | None = None,
    resolution: Number | None = None,
    weight: Number = 1,
) -> BinCounts | EqualBins:
    """Count rows by bin of a number column; the release has one row per bin.

    With edges, a bin includes its lower edge and excludes its upper one; the last bin includes
    both. Values below all edges and above all edges are counted in two further rows, whose `from`
    or `to` is None.

    With bins, edges are found privately for a fourth of this aggregate's budget, between the
    bounds, as `quantiles` finds them. Values beyond the bounds count in the outer bins.

    Parameters
    ----------
    column
        A column or an expression of numbers.
    edges
        2 to 1,001 public numbers in rising order, in the column's unit.
    bins
        In place of edges: 2 to 100 bins of about equal counts.
    lower, upper, resolution
        With bins only: as in `quantile`.
    weight
        As in `count`.

    Returns
    -------
    BinCounts or EqualBins
        An aggregate, for `Query.agg`.

    Raises
    ------
    InvalidParameter
        If neither or both of edges and bins are given, for edges that do not rise, and for numbers
        out of their range.
    MissingBound
        Where one bound is given without the other.

    Examples
    --------
    >>> histogram("age", [0, 18, 65, 120]).lines
    5
    >>> histogram("income", bins=4, lower=0, upper=500_000).wanted[0]
    Fraction(1, 4)
    """
    if bins is None:
        checks.demand(edges is not None, "edges", None, expected="public edges=[...], or bins=")
        for name, value in (("lower", lower), ("upper", upper), ("resolution", resolution)):
            checks.demand(value is None, name, value, expected="bins= with it")
        return BinCounts(column=written(column), edges=_edges(edges), weight=weight_of(weight))
    checks.demand(edges is None, "bins", bins, expected="either edges=[...] or bins=, not both")
    count = checks.positive_integer(bins=bins)
    checks.demand(2 <= count <= _MOST_FOUND, "bins", bins, expected=f"2 to {_MOST_FOUND}")
    return EqualBins(
        column=written(column),
        wanted=tuple(Fraction(number, count) for number in range(1, count)),
        **given(lower, upper, resolution=resolution, weight=weight),
    )


def _edges(edges: object) -> tuple[float, ...]:
    expected = f"2 to {_MOST_EDGES:,} numbers, rising"
    if isinstance(edges, str | bytes | Mapping) or not isinstance(edges, Iterable):
        raise InvalidParameter("edges", edges, expected=expected)
    listed = list(itertools.islice(edges, _MOST_EDGES + 1))
    count = len(listed)
    checks.demand(2 <= count <= _MOST_EDGES, "edges", f"{count:,} edges", expected=expected)
    exact = [checks.exact(f"edges[{index}]", edge) for index, edge in enumerate(listed)]
    fits = all(abs(edge) <= 2**1000 for edge in exact)
    checks.demand(fits, "edges", edges, expected="numbers between -2^1000 and 2^1000")
    found = tuple(float(edge) + 0.0 for edge in exact)
    for index, (below, above) in enumerate(itertools.pairwise(found), start=1):
        expected = f"a number above {listed[index - 1]}, the edge before it"
        checks.demand(below < above, f"edges[{index}]", listed[index], expected=expected)
    return found


def top(column: Written, k: int, values: Iterable[Key] | None = None, *, weight: Number = 1) -> Top:
    """Find the k most frequent values of a column, with their numbers of rows.

    The release has one row for each of the k, the most frequent first, with the value as `value`.

    Parameters
    ----------
    column
        A column or an expression.
    k
        The number of values to find, from 1 to the number of values that are listed.
    values
        At most 5,000 public values of one type: text, whole numbers, booleans or dates; by default
        the declared `Categories` of the column. Rows with other values are not counted.
    weight
        As in `count`.

    Returns
    -------
    Top
        An aggregate, for `Query.agg`.

    Raises
    ------
    InvalidParameter
        For a k out of its range, an invalid list of values, and a weight that is not above 0.

    Examples
    --------
    >>> top("county", 3, ["A", "B", "C", "D"]).lines
    3
    """
    size = checks.positive_integer(k=k)
    listed = None if values is None else _checked(check_keys("values", values), size)
    absent = listed is not None and None in listed
    checks.demand(
        not absent, "values", None, expected="values other than None, which means missing"
    )
    return Top(column=written(column), size=size, listed=listed, weight=weight_of(weight))


def _checked(values: tuple[Key, ...], size: int) -> tuple[Key, ...]:
    count, expected = len(values), f"1 to {_MOST_VALUES:,} values"
    checks.demand(1 <= count <= _MOST_VALUES, "values", f"{count:,}", expected=expected)
    checks.demand(size <= count, "k", size, expected=f"at most {count:,}, as values are listed")
    return values
