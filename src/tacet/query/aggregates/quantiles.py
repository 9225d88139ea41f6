r"""Quantiles: the exponential mechanism over a public grid, from exact counts.

Values are rounded to the nearest point of a public grid, e_0 < ... < e_M, so that ties are atoms.
A candidate e is wrong by the distance of q n from the ranks that e covers,

    loss(e) = max(#{x < e} - q n, q n - #{x <= e}, 0),

which is 0 at the quantile also where many values are tied (|#{x < e} - q n| is not: with all
values equal it is the same at every candidate). Its sensitivity is worked out in
`sensitivity.of_ranks`; the factor 2 of the mechanism stays, since n moves too. How a point is drawn
from a grid that is too fine to be counted point by point is told in `ranks`.

The cells are disjoint and one unit's rows are spread over them, so a unit that brings k_j rows to
cell j moves the log-probabilities there within a range of epsilon k_j / k: what the answers of all
cells cost together, and how that depends on the limits on a person's rows, is worked out in
`query.draws`.

**Intervals.** With `interval=` a stated share of the budget buys two more draws, one aimed r ranks
below q n and one r above, where r bounds the rank error of each with probability 97.5 %. The
lowest point of the grid counts as covering all ranks below 0, the highest all above n, so that the
bound holds for every table, also where n is small: L <= quantile <= U with probability 95 %. The
bound grows with the logarithm of the number of points: a coarser grid gives narrower intervals.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from tacet import checks
from tacet.bits import RandomBits
from tacet.checks import Number
from tacet.errors import InvalidParameter
from tacet.mechanisms.selection.exponential import Exponential
from tacet.privacy import events
from tacet.query.aggregates.aggregate import Single
from tacet.query.aggregates.answers import Answer, Assume, Exact, Forecast
from tacet.query.aggregates.arguments import (
    CONFIDENCE,
    bounds_of,
    expression_of,
    given_bounds,
    weight_of,
)
from tacet.query.aggregates.ranks import draw_points, rank_losses
from tacet.query.aggregates.sums import clamping_note
from tacet.query.draws import draws_for
from tacet.query.expressions.types import Expression, Kind
from tacet.query.noise import Share
from tacet.query.ranking import Ranking
from tacet.query.scope import Scope
from tacet.query.sensitivity import of_ranks
from tacet.query.sqltext import double
from tacet.query.units import Reach

__all__ = ["Quantile", "Selection", "median", "quantile"]

_STEPS = 2**20
_MOST_STEPS = 2**40
_MOST_RANKS = 2**40  # more than any table has rows
_MOST_FORESEEN = 2**20  # steps of the grid on which errors are foretold


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The draws of one quantile: the point, and where bought the two ends of its interval.

    event: what those of all cells together cost.
    """

    point: Exponential
    end: Exponential | None
    event: events.Event

    @property
    def loudness(self) -> float:
        """The logarithm of the noise, to compare ways to spend one budget."""
        return -math.log(float(self.point.factor))


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantile(Single):
    """The q-quantile of a number column over rows where it is present.

    steps: the grid has steps + 1 points, evenly from lower to upper. interval: the share of this
    aggregate's budget that buys an interval, 0 for none.
    """

    column: str
    q: Fraction
    lower: Fraction | None
    upper: Fraction | None
    steps: int | None
    interval: Fraction

    def bound_to(self, scope: Scope) -> Quantile:
        """The same, its column looked up, its bounds and its grid known."""
        expression = expression_of(self.column, scope)
        lower, upper = bounds_of(self.column, expression, self.lower, self.upper)
        steps = self.steps or steps_for(expression, lower, upper)
        return dataclasses.replace(
            self, expressions=(expression,), lower=lower, upper=upper, steps=steps
        )

    def rankings(self, values: Sequence[str]) -> tuple[Ranking, ...]:
        """The rows by the grid point next to a nullable double."""
        low, high, steps = self._grid()
        return (Ranking(place=place_of(values[0], low, high, steps), steps=steps),)

    @property
    def ranking(self) -> Ranking:
        """Its grid."""
        return self.rankings(["value"])[0]

    @property
    def integers(self) -> int:
        """One for each bin."""
        return self.ranking.bins

    @property
    def in_units(self) -> bool:
        """Its answer is in the unit of its column."""
        return True

    @property
    def assumes(self) -> tuple[str, ...]:
        """Its column."""
        return (self.column,)

    def noise(self, share: Share, reach: Reach) -> Selection:
        """The draws within the share."""
        # Losses are kept times the denominator of q, so that they are whole numbers.
        moves, unit = partial(of_ranks, quantile=self.q), self.q.denominator
        point = draws_for(share * (1 - self.interval), reach, moves, unit=unit)
        if not self.interval:
            return Selection(point=point.mechanism, end=None, event=point.event)
        end = draws_for(share * (self.interval / 2), reach, moves, unit=unit)
        return Selection(
            point=point.mechanism, end=end.mechanism, event=point.event + end.event * 2
        )

    def release(self, exact: Exact, noise: Selection, bits: RandomBits) -> Answer:
        """One grid point a cell, and the interval's ends where they were bought."""
        (counted,) = exact.rankings
        low, high, steps = self._grid()
        reach: int | None = None
        if noise.end is not None:
            error = self._rank_error(noise.end, miss=0.025)
            reach = math.floor(error) + 1 if error < _MOST_RANKS else None
        aims = [(0, noise.point)]
        if noise.end is not None and reach is not None:
            aims += [(-reach, noise.end), (reach, noise.end)]
        drawn = [
            low
            + ((high - low) / steps)
            * draw_points(
                counted.counts,
                counted.finer,
                ranking=self.ranking,
                q=self.q,
                shift=shift,
                mechanism=mechanism,
                bits=bits,
            )
            for shift, mechanism in aims
        ]
        values = drawn[0].tolist()
        nothing: list[float | None] = [None] * len(values)
        if noise.end is None:
            return Answer(
                values=values,
                standard_errors=nothing,
                lower=nothing,
                upper=nothing,
                limits=(low, high),
            )
        if reach is None:  # with so much noise nothing is known but the range
            ends = [low] * len(values), [high] * len(values)
            return Answer(
                values=values,
                standard_errors=nothing,
                lower=ends[0],
                upper=ends[1],
                limits=(low, high),
            )
        # A grid point stands for all values half a step around it.
        half = (high - low) / steps / 2
        lower, upper = drawn[1] - half, drawn[2] + half
        return Answer(
            values=values,
            standard_errors=nothing,
            lower=np.maximum(np.minimum(lower, upper), low).tolist(),
            upper=np.minimum(np.maximum(lower, upper), high).tolist(),
            limits=(low, high),
        )

    def forecast(self, noise: Selection, reach: Reach, assume: Assume | None) -> Forecast:
        """The rank error, and under assumptions the error itself."""
        low, high, steps = self._grid()
        assumed = None if assume is None else assume.of(self.column)
        error = None
        if assume is not None and assumed is not None:
            error = self._expected_error(assumed, assume.rows, noise.point)
        step = (high - low) / steps
        notes = [
            clamping_note(self.lower, self.upper),
            f"answers are multiples of {step:g} from {low:g}; a value counts as the nearest one",
        ]
        if noise.end is None:
            notes.append("no interval: write interval=0.5 to spend half of this share on one")
        return Forecast(
            noise=f"exponential mechanism with epsilon = {float(noise.point.epsilon):.6g}",
            sensitivity=of_ranks(reach, quantile=self.q).reason,
            standard_error=error,
            assumed_rows=None if error is None or assume is None else assume.rows,
            rank_error=self._rank_error(noise.point, miss=1 - float(CONFIDENCE)),
            notes=tuple(notes),
        )

    def _expected_error(
        self, values: NDArray[np.float64], rows: int, mechanism: Exponential
    ) -> float:
        """Root mean squared error about the exact quantile of `rows` rows with this law."""
        low, high, steps = self._grid()
        steps = min(steps, _MOST_FORESEEN)
        inside = np.clip(np.floor((values - low) * (steps / (high - low)) + 0.5), 0, steps)
        counts = np.bincount(inside.astype(np.int64), minlength=steps + 1)
        share = rows / len(values)
        loss = rank_losses(counts[None, :], self.q)[0] * share
        chances = np.exp(mechanism.log_probabilities(-loss))
        truth = np.sort(np.clip(values, low, high))[max(math.ceil(self.q * len(values)) - 1, 0)]
        grid = low + np.arange(steps + 1) * ((high - low) / steps)
        return float(np.sqrt(np.sum(chances * (grid - truth) ** 2)))

    def _rank_error(self, mechanism: Exponential, *, miss: float) -> float:
        """The number of ranks that the mechanism's error passes with probability at most `miss`.

        Some candidate has loss 0, so the loss of the drawn one passes t with probability at most
        (steps + 1) exp(-epsilon t / (2 sensitivity)): McSherry and Talwar 2007, Theorem 6.
        """
        steps = self._grid()[2]
        return math.log((steps + 1) / miss) / float(mechanism.factor) / self.q.denominator

    def _grid(self) -> tuple[float, float, int]:
        assert self.lower is not None
        assert self.upper is not None
        assert self.steps is not None
        return float(self.lower), float(self.upper), self.steps


def steps_for(expression: Expression, lower: Fraction, upper: Fraction) -> int:
    """The default grid: every whole number where values and bounds are whole, else 2^20 steps."""
    span = upper - lower
    whole = expression.kind is Kind.INTEGER and lower.denominator == span.denominator == 1
    return int(span) if whole and span <= _MOST_STEPS else _STEPS


def checked_steps(steps: int | None) -> int | None:
    """The caller's number of steps, or None for the default."""
    if steps is not None and checks.positive_integer(steps=steps) > _MOST_STEPS:
        raise InvalidParameter("steps", steps, expected=f"at most 2^40 = {_MOST_STEPS:,} steps")
    return steps


def place_of(value: str, low: float, high: float, steps: int) -> str:
    """SQL for the number of the grid point next to a nullable double; total."""
    # Cut first: a product that passes the range of doubles would raise.
    within = f"greatest(least({value}, {double(high)}), {double(low)})"
    place = f"floor(({within} - {double(low)}) * {double(steps / (high - low))} + 0.5e0)"
    inside = f"CAST(greatest(least({place}, {double(steps)}), 0e0) AS BIGINT)"
    return f"CASE WHEN {value} IS NOT NULL THEN {inside} END"


def quantile(
    column: str,
    q: Number,
    lower: Number | None = None,
    upper: Number | None = None,
    *,
    steps: int | None = None,
    interval: Number = 0,
    weight: Number = 1,
) -> Quantile:
    """Find the q-quantile of a number column, 0 <= q <= 1, within a public range.

    Left out, the bounds are those declared of the column. steps: answers are one of steps + 1
    evenly spaced points, at most 2^40; by default every whole number for a column of whole numbers
    between whole bounds, else 2^20 steps. Many steps make answers fine where the bounds are far
    apart, few make the bound on the rank error, and with it the interval, somewhat less. interval:
    the share of this aggregate's budget, below 1, that buys a 95% interval; 0 for none. Weight as
    in `count`.

    >>> quantile("income", 0.9, 0, 500_000).q
    Fraction(9, 10)
    """
    part, share = checks.exact("q", q), checks.exact("interval", interval)
    if not 0 <= part <= 1:
        raise InvalidParameter("q", q, expected="a number from 0 to 1")
    if part.denominator > 10**6:
        raise InvalidParameter("q", q, expected="a number with at most six decimals")
    if not 0 <= share < 1:
        raise InvalidParameter("interval", interval, expected="a share from 0 to below 1")
    checked_steps(steps)
    low, high = given_bounds(lower, upper)
    return Quantile(
        column=column,
        q=part,
        lower=low,
        upper=high,
        steps=steps,
        interval=share,
        weight=weight_of(weight),
    )


def median(
    column: str,
    lower: Number | None = None,
    upper: Number | None = None,
    *,
    steps: int | None = None,
    interval: Number = 0,
    weight: Number = 1,
) -> Quantile:
    """Find the median: `quantile` with q = 1/2.

    >>> median("age", 0, 120, interval=0.5).interval
    Fraction(1, 2)
    """
    return quantile(column, "1/2", lower, upper, steps=steps, interval=interval, weight=weight)
