"""Quantiles: the exponential mechanism over a public grid, from exact counts.

Values are rounded to the nearest point of a public grid, e_0 < ... < e_M, so that ties are atoms.
A candidate e is wrong by the distance of q n from the ranks that e covers,

    loss(e) = max(#{x < e} - q n, q n - #{x <= e}, 0),

which is 0 at the quantile also where many values are tied (|#{x < e} - q n| is not: with all
values equal it is the same at every candidate). `sensitivity.of_ranks` derives its sensitivity; the
factor 2 of the mechanism remains, since n changes too. `grid` describes the points and how one is
drawn.

The cells are disjoint and share the rows of a unit. A unit with k_j rows in cell j changes the
log-probabilities there within a range of epsilon k_j / k. `noise.selection` derives the cost of all
cells together, and its dependence on the contribution bounds.

**Intervals.** With `interval=` a stated share of the budget pays for two more draws, one aimed r
ranks below q n and one r above, where r bounds the rank error of each with probability 97.5 %. The
lowest point of the grid covers all ranks below 0, and the highest all above n. So L <= quantile <=
U with probability 95 % for every table, also for small n. The bound grows with the logarithm of the
number of points: a coarser grid gives narrower intervals.

**Several at once.** If each of m quantiles is drawn alone, each gets 1/m of the budget. Here the
rows are cut recursively (`quantile_tree`), each cut by the exponential mechanism, and all parts of
a level cost as much as one. Or all quantiles are drawn at once (`joint_quantiles`), if that has the
smaller expected error. Answers never cross.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from unacorda import checks
from unacorda.bits import RandomBits
from unacorda.checks import Number
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.selection.exponential import Exponential
from unacorda.privacy import events
from unacorda.query.aggregates.base import (
    Answer,
    Assumption,
    Exact,
    Forecast,
    OfColumn,
    Single,
    bounds_of,
    expression_of,
    given_bounds,
    weight_of,
)
from unacorda.query.aggregates.grid import (
    LEAST_RESOLUTION_LOG2,
    Floats,
    Integers,
    PublicGrid,
    Ranking,
    draw_places,
    rank_losses,
)
from unacorda.query.aggregates.joint_quantiles import Chain
from unacorda.query.aggregates.measures import clamping_note
from unacorda.query.aggregates.quantile_tree import Cutting, QuantileDraws
from unacorda.query.expressions.language import Kind, Written, written
from unacorda.query.noise.additive import CONFIDENCE, Share, of_ranks
from unacorda.query.noise.selection import Draws, draws_for
from unacorda.query.schema.table import TableSchema
from unacorda.query.schema.units import Reach

Ends = tuple[Floats, Floats]

_MISS = 0.025  # of either end of an interval
_FEW_ROWS = "of a group with no more rows than its rank may be off it tells nothing: count them too"
_MOST_RANKS = 2**40  # more than any table has rows
_WORTH = 0.1  # by how much the logarithm of errors has to fall for draws that take longer
_MOST = 100
_CLOSEST = Fraction(1, 10**6)
_QUARTILES = (Fraction(1, 4), Fraction(3, 4))


@dataclass(frozen=True, slots=True, kw_only=True)
class GridAggregate(OfColumn):
    """An aggregate of the ranks of a number column on a public grid.

    resolution: the unit of the grid, see `PublicGrid`; by default 1 for columns of whole numbers.
    """

    resolution: Fraction | None

    def bound_to(self, scope: TableSchema) -> Self:
        expression, resolution = expression_of(self.column, scope), self.resolution
        lower, upper = bounds_of(self.column, expression, self.lower, self.upper)
        if resolution is not None:
            _check_resolution(resolution, lower, upper, given=resolution)
        elif expression.kind is Kind.INTEGER:
            resolution = Fraction(1)
        return dataclasses.replace(
            self, expressions=(expression,), lower=lower, upper=upper, resolution=resolution
        )

    def rankings(self, values: Sequence[str]) -> tuple[Ranking, ...]:
        """Rows by the grid point next to a nullable double."""
        return (Ranking(place=self.grid.sql(values[0]), steps=self.grid.steps),)

    @property
    def grid(self) -> PublicGrid:
        """Its grid."""
        assert self.lower is not None
        assert self.upper is not None
        return PublicGrid.of(self.lower, self.upper, self.resolution)

    @property
    def limits(self) -> tuple[float, float]:
        """The ends of the grid."""
        return self.grid.lower, self.grid.upper

    @property
    def notes(self) -> tuple[str, str]:
        """The sentences on the clamping and on the possible values."""
        return clamping_note(self.lower, self.upper), self.grid.words

    def draw(
        self, exact: Exact, q: Fraction, mechanism: Exponential, bits: RandomBits, *, shift: int = 0
    ) -> Integers:
        """Draw a point of the grid for every cell, aimed at the rank q n + shift.

        mechanism: for losses times the denominator of q.
        """
        (counted,) = exact.rankings
        return draw_places(
            counted, self.grid.slots, q=q, shift=shift, mechanism=mechanism, bits=bits
        )

    def assumed(
        self, assume: Assumption | None, error: Callable[[Floats, int], float]
    ) -> dict[str, Any]:
        """The forecast for assumed values; error: a function of these and the number of rows."""
        values = None if assume is None else assume.of(self.column)
        if assume is None or values is None:
            return {}
        return {"standard_error": error(values, assume.rows), "assumed_rows": assume.rows}


def given(
    lower: Number | None, upper: Number | None, *, resolution: Number | None, weight: Number
) -> dict[str, Any]:
    """Check the caller's range, grid and weight.

    Raises InvalidParameter, or MissingBound if only one bound is given.
    """
    low, high = given_bounds(lower, upper)
    unit = None if resolution is None else checks.exact("resolution", resolution)
    if unit is not None and low is not None and high is not None:
        _check_resolution(unit, low, high, given=resolution)
    elif unit is not None:
        checks.demand(unit > 0, "resolution", resolution, expected="a number above 0")
    return {"lower": low, "upper": high, "resolution": unit, "weight": weight_of(weight)}


def _check_resolution(
    resolution: Fraction, lower: Fraction, upper: Fraction, *, given: object
) -> None:
    least = max(abs(lower), abs(upper)) * Fraction(2) ** LEAST_RESOLUTION_LOG2
    expected = f"a number from {float(least):.3g} to {float(upper - lower):g}, the distance "
    fits = resolution > 0 and least <= resolution <= upper - lower
    checks.demand(fits, "resolution", given, expected=f"{expected}of the bounds")


def _interval_share(interval: Number) -> Fraction:
    """The share of an aggregate's budget that buys an interval, checked."""
    share = checks.exact("interval", interval)
    checks.demand(0 <= share < 1, "interval", interval, expected="a share from 0 to below 1")
    return share


def drawn(values: list[float], *, limits: tuple[float, float], ends: Ends | None = None) -> Answer:
    """An answer without a standard error, with its intervals if they were paid for."""
    nothing: list[float | None] = [None] * len(values)
    lower, upper = (nothing, nothing) if ends is None else (end.tolist() for end in ends)
    return Answer(values=values, standard_errors=nothing, lower=lower, upper=upper, limits=limits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The draws of one quantile: the point, and the two ends of its interval if paid for.

    event: the cost of the draws of all cells together.
    """

    point: Exponential
    event: events.Event
    end: Exponential | None = None

    @property
    def log_scale(self) -> float:
        return -math.log(float(self.point.factor))


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedQuantile(GridAggregate, Single):
    """The q-quantile of a number column over rows where it is present.

    interval: the share of this aggregate's budget for an interval, 0 for none.
    """

    tag: ClassVar[str] = "quantile"
    functions: ClassVar[tuple[str, ...]] = ("quantile", "median")
    in_units: ClassVar[bool] = True

    q: Fraction
    interval: Fraction

    def noise(self, share: Share, reach: Reach) -> Selection:
        point = _rank_draws(share * (1 - self.interval), reach, self.q)
        if not self.interval:
            return Selection(point=point.mechanism, event=point.event)
        end = _rank_draws(share * (self.interval / 2), reach, self.q)
        both = point.event + end.event * 2
        return Selection(point=point.mechanism, event=both, end=end.mechanism)

    def release(self, exact: Exact, noise: Selection, bits: RandomBits) -> Answer:
        """One grid point per cell, and the interval's ends if they were paid for."""
        places, ends = self.draw(exact, self.q, noise.point, bits), None
        if noise.end is not None:
            ends = _ends_about(self, exact, self.q, noise.end, miss=_MISS, bits=bits)
        return drawn(self.grid.values(places).tolist(), limits=self.limits, ends=ends)

    def forecast(self, noise: Selection, reach: Reach, assume: Assumption | None) -> Forecast:
        notes, reading = list(self.notes), ""
        error = rank_error(self, self.q, noise.point, miss=1 - float(CONFIDENCE))
        if noise.end is None:
            notes.append("no interval: write interval=0.5 to spend half of this share on one")
            notes.append(_FEW_ROWS)
            reading = rank_reading(error)
        return Forecast(
            noise=f"exponential mechanism with epsilon = {float(noise.point.epsilon):.6g}",
            sensitivity=of_ranks(reach, quantile=self.q).reason,
            rank_error=error,
            least_rows=error if reading else None,
            reading=reading,
            notes=tuple(notes),
            **self.assumed(assume, functools.partial(self._expected_error, noise.point)),
        )

    def _expected_error(self, mechanism: Exponential, values: Floats, rows: int) -> float:
        """Root mean squared error about the exact quantile of `rows` rows with this law."""
        grid = self.grid
        counts = np.bincount(grid.places(values), minlength=grid.steps + 1)
        share = rows / len(values)
        loss = rank_losses(counts[None, :], self.q)[0] * share
        chances = np.exp(mechanism.log_probabilities(-loss, weights=np.diff(grid.slots)))
        truth = np.sort(np.clip(values, grid.lower, grid.upper))
        points = grid.values(np.arange(grid.steps + 1))
        aim = truth[max(math.ceil(self.q * len(values)) - 1, 0)]
        return float(np.sqrt(np.sum(chances * (points - aim) ** 2)))


def rank_reading(error: float) -> str:
    """The note of a release on a quantile without an interval.

    >>> rank_reading(12.5)
    'no interval (interval=0.5, MEDIAN_WITH_INTERVAL); its rank is off by at most 13 rows with \
95% probability'
    """
    most = f"{math.ceil(error):,}" if error < _MOST_RANKS else "any number of"
    return (
        "no interval (interval=0.5, MEDIAN_WITH_INTERVAL); its rank is off by at most "
        f"{most} rows with 95% probability"
    )


def rank_error(made: GridAggregate, q: Fraction, mechanism: Exponential, *, miss: float) -> float:
    """The number of ranks that a draw's error exceeds with probability at most `miss`.

    Some candidate has loss 0, so the loss of the drawn one exceeds t with probability at most
    (slots) exp(-epsilon t / (2 sensitivity)): McSherry and Talwar 2007, Theorem 6.
    """
    return math.log(int(made.grid.slots[-1]) / miss) / float(mechanism.factor) / q.denominator


def _ends_about(
    made: GridAggregate,
    exact: Exact,
    q: Fraction,
    end: Exponential,
    *,
    miss: float,
    bits: RandomBits,
) -> Ends:
    """Numbers that the q-quantile of each cell is above and below, but for `miss` each.

    end: the mechanism of each of the two draws, for losses times the denominator of q.
    """
    error = rank_error(made, q, end, miss=miss)
    if error >= _MOST_RANKS:  # with so much noise nothing is known but the range
        low, high = (np.full(exact.rankings[0].cells, limit) for limit in made.limits)
        return low, high
    reach = math.floor(error) + 1
    # A point stands for all values that count as it.
    first, last = (
        made.grid.ends(made.draw(exact, q, end, bits, shift=shift)) for shift in (-reach, reach)
    )
    return np.minimum(first[0], last[0]), np.maximum(first[1], last[1])


def _rank_draws(share: Share, reach: Reach, q: Fraction) -> Draws:
    """Draws of q-quantiles, for losses times the denominator of q, which are whole numbers."""
    return draws_for(share, reach, functools.partial(of_ranks, quantile=q), unit=q.denominator)


@functools.lru_cache(maxsize=256)
def finding(
    share: Share, reach: Reach, wanted: tuple[Fraction, ...], interval: Fraction = Fraction(0)
) -> QuantileDraws:
    """The method with the least expected error within a share; interval: the part for intervals.

    It depends on public numbers alone: the quantiles, the share and its kind, and the contribution
    bounds.
    """
    ends = {}
    if interval:
        each = share * (interval / (2 * len(wanted)))
        ends = {q: _rank_draws(each, reach, q) for q in wanted}
    rest = share * (1 - interval)
    cutting = Cutting.within(rest, reach, wanted, ends)
    chains = Chain.options(rest, reach, wanted, ends)
    chain = min(chains, key=lambda one: one.log_scale, default=None)
    if chain is None or chain.log_scale > cutting.log_scale - _WORTH:
        return cutting
    return chain


@dataclass(frozen=True, slots=True, kw_only=True)
class GridQuantiles(GridAggregate):
    """An aggregate of several quantiles of a number column, over rows where it is present.

    wanted: rising. interval: the share of this aggregate's budget for intervals, 0 for none.
    """

    wanted: tuple[Fraction, ...]
    interval: Fraction

    def noise(self, share: Share, reach: Reach) -> QuantileDraws:
        return finding(share, reach, self.wanted, self.interval)

    def drawn(self, exact: Exact, noise: QuantileDraws, bits: RandomBits) -> list[list[float]]:
        """The wanted quantiles, each of all cells; in every cell they rise."""
        (counted,) = exact.rankings
        places = noise.rising(counted, self.grid.slots, bits)
        values: list[list[float]] = self.grid.values(places).tolist()
        return values

    def ends(
        self, exact: Exact, noise: QuantileDraws, bits: RandomBits, *, miss: float
    ) -> list[Ends]:
        """Limits of every wanted quantile, cell by cell, that fail with chance `miss`."""
        return [
            _ends_about(self, exact, q, draws.mechanism, miss=miss, bits=bits)
            for q, draws in noise.ends.items()
        ]

    def forecast(self, noise: QuantileDraws, reach: Reach, assume: Assumption | None) -> Forecast:
        typical = ", ".join(f"{_percent(q)}%: {sd:,.3g}" for q, sd in noise.deviations.items())
        notes = [*self.notes, f"expected rank errors, where values hardly repeat: {typical}"]
        error, reading = noise.rank_error(slots=int(self.grid.slots[-1])), ""
        if not self.interval:
            notes.append("no intervals: write interval=0.5 to spend half of this share on them")
            notes.append(_FEW_ROWS)
            reading = rank_reading(error)
        return Forecast(
            noise=noise.words,
            sensitivity=of_ranks(reach, quantile=self.wanted[0]).reason,
            rank_error=error,
            least_rows=error if reading else None,
            reading=reading,
            notes=tuple(notes),
            **self.assumed(assume, functools.partial(self._expected_error, noise)),
        )

    def error_of(self, errors: Sequence[float]) -> float:
        """One error for all its answers, given those of the quantiles."""
        return math.sqrt(math.fsum(error**2 for error in errors) / len(errors))

    def _expected_error(self, noise: QuantileDraws, values: Floats, rows: int) -> float:
        """That of all answers, where a cut's rank is off by Laplace noise of its deviation."""
        ordered = np.sort(np.clip(values, *self.limits))
        chances = (np.arange(2_000) + 0.5) / 2_000
        laplace = np.where(chances < 0.5, np.log(2 * chances), -np.log(2 - 2 * chances))
        errors = []
        for q, deviation in noise.deviations.items():
            ranks = float(q) + laplace * (deviation / math.sqrt(2) / rows)
            found = np.quantile(ordered, np.clip(ranks, 0, 1))
            errors.append(float(np.sqrt(np.mean((found - np.quantile(ordered, float(q))) ** 2))))
        return self.error_of(errors)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantiles(GridQuantiles):
    """Several quantiles of a number column, each an answer."""

    tag: ClassVar[str] = "quantiles"
    functions: ClassVar[tuple[str, ...]] = ("quantiles",)
    renamed: ClassVar[Mapping[str, str]] = {"wanted": "q"}

    @property
    def parts(self) -> tuple[str, ...]:
        """Each quantile in percent, as in the names of columns."""
        return tuple(f"_{_percent(q).replace('.', '_')}" for q in self.wanted)

    def answers(self, exact: Exact, noise: Any, bits: RandomBits) -> Mapping[str, Answer]:
        values = self.drawn(exact, noise, bits)
        ends = self.ends(exact, noise, bits, miss=_MISS)
        return {
            part: drawn(own, limits=self.limits, ends=around)
            for part, own, around in itertools.zip_longest(self.parts, values, ends)
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class QuartileRange(GridQuantiles):
    """The distance between the two quartiles of a number column."""

    tag: ClassVar[str] = "spread"
    functions: ClassVar[tuple[str, ...]] = ("iqr",)
    renamed: ClassVar[Mapping[str, str]] = {"wanted": ""}

    def answers(self, exact: Exact, noise: Any, bits: RandomBits) -> Mapping[str, Answer]:
        """The distance by cell, with the quartiles that it lies between."""
        first, third = self.drawn(exact, noise, bits)
        low, high = self.limits
        found = [above - below for below, above in zip(first, third, strict=True)]
        ends = None
        if noise.ends:
            # Four ends, of which one or more misses with probability 5 % at most.
            (a, b), (c, d) = self.ends(exact, noise, bits, miss=_MISS / 2)
            ends = np.maximum(c - b, 0), np.maximum(d - a, 0)
        answer = drawn(found, limits=(0.0, high - low), ends=ends)
        return {"": dataclasses.replace(answer, beside={"from": first, "to": third})}

    def error_of(self, errors: Sequence[float]) -> float:
        """An upper bound for the difference: common errors cancel."""
        return math.sqrt(math.fsum(error**2 for error in errors))


def _percent(q: Fraction) -> str:
    """A quantile in percent, to four decimals, without zeros at the end."""
    return f"{float(q * 100):.4f}".rstrip("0").rstrip(".")


def quantile(
    column: Written,
    q: Number,
    lower: Number | None = None,
    upper: Number | None = None,
    *,
    resolution: Number | None = None,
    interval: Number = 0,
    weight: Number = 1,
) -> BoundedQuantile:
    """Find the q-quantile of a number column, 0 <= q <= 1, within a public range.

    Answers are points of a public grid of at most 2^20 steps. The points have at most 14 to 17
    binary digits, so that one is within 0.006% of any value, however far apart the bounds are.

    Parameters
    ----------
    column
        A column or an expression of numbers.
    q
        From 0 to 1, with at most six decimals.
    lower, upper
        Public bounds in the column's unit, lower < upper. By default those declared for the column.
    resolution
        The smallest difference that matters, in the column's unit; near 0, answers are multiples of
        it. By default 1 for a column of whole numbers, else tiny compared with the bounds. The
        resolution of the data makes answers more accurate: 1 for ages, 0.01 for prices.
    interval
        The share of this aggregate's budget, from 0 to below 1, for a 95% interval; 0 for none.
    weight
        As in `count`.

    Returns
    -------
    BoundedQuantile
        An aggregate, for `Query.agg`.

    Raises
    ------
    InvalidParameter
        For numbers out of their range.
    MissingBound
        Where one bound is given without the other.

    Examples
    --------
    >>> quantile("income", 0.9, 0, 500_000).q
    Fraction(9, 10)
    """
    part, share = checks.exact("q", q), _interval_share(interval)
    checks.demand(0 <= part <= 1, "q", q, expected="a number from 0 to 1")
    checks.demand(part.denominator <= 10**6, "q", q, expected="a number with at most six decimals")
    return BoundedQuantile(
        column=written(column),
        q=part,
        interval=share,
        **given(lower, upper, resolution=resolution, weight=weight),
    )


def median(
    column: Written,
    lower: Number | None = None,
    upper: Number | None = None,
    *,
    resolution: Number | None = None,
    interval: Number = 0,
    weight: Number = 1,
) -> BoundedQuantile:
    """Find the median of a number column within a public range: `quantile` with q = 1/2.

    Without `interval` the release states how far off the rank may be, in rows. It has no interval
    of the value. In SQL, MEDIAN(x) and MEDIAN_WITH_INTERVAL(x) are the two.

    Parameters
    ----------
    column
        A column or an expression of numbers.
    lower, upper
        Public bounds in the column's unit, lower < upper. They may be far too wide. Left out, they
        are those declared of the column.
    resolution
        The smallest difference that matters, in the column's unit; 1 for a column of whole numbers.
    interval
        The share of this aggregate's budget that buys a 95% interval, from 0 to below 1. With 0.5
        the median itself has the other half. By default 0, for no interval.
    weight
        As in `count`.

    Returns
    -------
    BoundedQuantile
        An aggregate, for `Query.agg`.

    Raises
    ------
    InvalidParameter
        For numbers out of their range.
    MissingBound
        Where one bound is given without the other.

    Examples
    --------
    >>> median("age", 0, 120, interval=0.5).interval
    Fraction(1, 2)
    """
    return quantile(
        column, "1/2", lower, upper, resolution=resolution, interval=interval, weight=weight
    )


def quantiles(
    column: Written,
    q: Sequence[Number],
    lower: Number | None = None,
    upper: Number | None = None,
    *,
    resolution: Number | None = None,
    interval: Number = 0,
    weight: Number = 1,
) -> Quantiles:
    """Find several quantiles of a number column at once, with less noise than one by one.

    The columns have the name of the aggregate and the quantile in percent:
    `income=unacorda.quantiles("income", [0.25, 0.5, 0.999])` gives `income_25`, `income_50` and
    `income_99_9`. They never cross.

    Parameters
    ----------
    column
        A column or an expression of numbers.
    q
        1 to 100 numbers from 0 to 1, with at most six decimals, at least a millionth apart.
    lower, upper, resolution
        As in `quantile`.
    interval
        The share of this aggregate's budget, from 0 to below 1, for a 95% interval of each; 0 for
        none.
    weight
        As in `count`.

    Returns
    -------
    Quantiles
        An aggregate, for `Query.agg`.

    Raises
    ------
    InvalidParameter
        For numbers out of their range.
    MissingBound
        Where one bound is given without the other.

    Examples
    --------
    >>> quantiles("income", [0.9, 0.1], 0, 500_000).parts
    ('_10', '_90')
    """
    return Quantiles(
        column=written(column),
        wanted=_wanted(q),
        interval=_interval_share(interval),
        **given(lower, upper, resolution=resolution, weight=weight),
    )


def iqr(
    column: Written,
    lower: Number | None = None,
    upper: Number | None = None,
    *,
    resolution: Number | None = None,
    interval: Number = 0,
    weight: Number = 1,
) -> QuartileRange:
    """Find the interquartile range of a number column: the distance between its quartiles.

    The quartiles are released too, as its `from` and `to`.

    Parameters
    ----------
    column, lower, upper, resolution, weight
        As in `quantile`.
    interval
        The share of this aggregate's budget, from 0 to below 1, for a 95% interval of the range; 0
        for none.

    Returns
    -------
    QuartileRange
        An aggregate, for `Query.agg`.

    Raises
    ------
    InvalidParameter
        For numbers out of their range.
    MissingBound
        Where one bound is given without the other.

    Examples
    --------
    >>> iqr("age", 0, 120).column
    'age'
    """
    return QuartileRange(
        column=written(column),
        wanted=_QUARTILES,
        interval=_interval_share(interval),
        **given(lower, upper, resolution=resolution, weight=weight),
    )


def _wanted(q: object) -> tuple[Fraction, ...]:
    """The quantiles, rising, checked."""
    expected = f"a list of 1 to {_MOST} numbers from 0 to 1, such as [0.25, 0.5, 0.75]"
    if isinstance(q, str | bytes) or not isinstance(q, Sequence | np.ndarray):
        raise InvalidParameter("q", q, expected=expected)
    checks.demand(1 <= len(q) <= _MOST, "q", q, expected=expected)
    wanted = sorted(checks.exact(f"q[{index}]", value) for index, value in enumerate(q))
    checks.demand(0 <= wanted[0] <= wanted[-1] <= 1, "q", q, expected=expected)
    fits = all(part.denominator <= 10**6 for part in wanted)
    checks.demand(fits, "q", q, expected="numbers with at most six decimals")
    fits = all(b - a >= _CLOSEST for a, b in itertools.pairwise(wanted))
    checks.demand(fits, "q", q, expected="quantiles at least a millionth apart")
    return tuple(wanted)
