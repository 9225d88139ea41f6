r"""Least and greatest values, beyond which about t people lie, with t public.

The greatest value belongs to one person. Under any mechanism that hides this person, every number
above it is nearly as likely an answer. So the answer is a number that few people exceed. A person
counts once in each cell, by their own greatest point of a public grid; a candidate e is wrong by

    loss(e) = max(#{people above e} - t, t - #{people at or above e}, 0),

the loss of the rank n - t, and is drawn as in `grid`. With N points and f = epsilon / (2 Delta), t
is the least whole number with N exp(-f t) <= 1/20. With probability 95 % the loss is then below t.
So fewer than 2 t people exceed the answer, and at least one reaches it: it lies between the value
that 2 t people exceed and the greatest. (With t = 0 the answer would be anywhere above the greatest
value: this is the shifted inverse, Fang, Dong, Yi 2022, solved by the exponential mechanism.) If a
cell has fewer than t people, the missing ranks lie at the far end of the range.

**Sensitivity.** A person added to a cell moves n by 1 and each #{people at or below e} by 0 or 1,
so both differences in the loss change by at most 1, also at the ends of the grid, where one of them
is left out. One person's rows make one number in each of at most min(r, cells) cells, and in fewer
if their groups are bounded. If a person is replaced, counts of one cell also change by at most 1,
in at most twice as many cells. `noise.selection` derives the cost of all cells together.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal

from unacorda.bits import RandomBits
from unacorda.checks import Number
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.selection.exponential import Exponential
from unacorda.query.aggregates.base import Answer, Assumption, Exact, Forecast, Single
from unacorda.query.aggregates.grid import Ranking
from unacorda.query.aggregates.quantiles import GridAggregate, Selection, drawn, given
from unacorda.query.expressions.language import Written, written
from unacorda.query.noise.additive import CONFIDENCE, Share, of_totals
from unacorda.query.noise.selection import draws_for
from unacorda.query.schema.units import Reach

_MOST_PEOPLE = 2**40  # to leave out; more than there are


@dataclass(frozen=True, slots=True, kw_only=True)
class Extreme(GridAggregate, Single):
    """The least or the greatest value of a number column, without a few people."""

    tag: ClassVar[str] = "extreme"
    functions: ClassVar[tuple[str, ...]] = ("min", "max")
    renamed: ClassVar[Mapping[str, str]] = {"side": ""}
    assumes: ClassVar[tuple[str, ...]] = ()  # how far beyond the answer people lie is not forecast

    side: Literal["min", "max"]

    @property
    def function(self) -> str:
        return self.side

    def rankings(self, values: Sequence[str]) -> tuple[Ranking, ...]:
        """People by their own extreme, each once in a cell."""
        (rows,) = GridAggregate.rankings(self, values)
        return (dataclasses.replace(rows, people=self.side),)

    def beyond(self, point: Exponential) -> int:
        """The number of people beyond the target of a draw."""
        odds = math.log(int(self.grid.slots[-1]) / (1 - float(CONFIDENCE)))
        return math.ceil(odds / float(point.factor))

    def noise(self, share: Share, reach: Reach) -> Selection:
        """The draws within the share, if it suffices to aim at a rank."""
        draws = draws_for(share, reach, of_totals)
        if self.beyond(draws.mechanism) > _MOST_PEOPLE:  # `allocate` says so of the budget
            raise InvalidParameter("share", share, expected=f"at most {_MOST_PEOPLE:,} left out")
        return Selection(point=draws.mechanism, event=draws.event)

    def release(self, exact: Exact, noise: Selection, bits: RandomBits) -> Answer:
        q, beyond = Fraction(self.side == "max"), self.beyond(noise.point)
        places = self.draw(exact, q, noise.point, bits, shift=-beyond if q else beyond)
        return drawn(self.grid.values(places).tolist(), limits=self.limits)

    def forecast(self, noise: Selection, reach: Reach, assume: Assumption | None) -> Forecast:
        """Forecast how many people lie beyond the answer; how far beyond is not known."""
        (clamping, points), beyond = self.notes, self.beyond(noise.point)
        names = ("greatest", "exceed") if self.side == "max" else ("least", "are below")
        return Forecast(
            noise=f"exponential mechanism with epsilon = {float(noise.point.epsilon):.6g}, aimed "
            f"at the value that {beyond:,} people {names[1]}",
            sensitivity=of_totals(reach).reason,
            people_error=2 * beyond - 1,
            least_rows=beyond,
            reading=f"no interval; of a group of more than {beyond:,} people at most "
            f"{2 * beyond - 1:,} {names[1]} it with 95% probability, of others it tells nothing",
            notes=(
                clamping,
                f"95% of answers reach the {names[0]} value of somebody",
                "a coarser resolution leaves out fewer people",
                points,
                f"where a cell has no more than {beyond:,} people, the answer tells nothing",
            ),
        )


def max(  # noqa: A001  # the public word is unacorda.max
    column: Written,
    lower: Number | None = None,
    upper: Number | None = None,
    *,
    resolution: Number | None = None,
    weight: Number = 1,
) -> Extreme:
    """Find the greatest value, without a few people: a value that only they exceed.

    `explain` says beforehand how many.

    Parameters
    ----------
    column, lower, upper, resolution, weight
        As in `quantile`.

    Returns
    -------
    Extreme
        An aggregate, for `Query.agg`.

    Raises
    ------
    InvalidParameter
        For numbers out of their range.
    MissingBound
        Where one bound is given without the other.

    Examples
    --------
    >>> max("age", 0, 120).side
    'max'
    """
    chosen = given(lower, upper, resolution=resolution, weight=weight)
    return Extreme(column=written(column), side="max", **chosen)


def min(  # noqa: A001  # the public word is unacorda.min
    column: Written,
    lower: Number | None = None,
    upper: Number | None = None,
    *,
    resolution: Number | None = None,
    weight: Number = 1,
) -> Extreme:
    """Find the least value, without a few people: only theirs are below it.

    `explain` says beforehand how many.

    Parameters
    ----------
    column, lower, upper, resolution, weight
        As in `quantile`.

    Returns
    -------
    Extreme
        An aggregate, for `Query.agg`.

    Raises
    ------
    InvalidParameter
        For numbers out of their range.
    MissingBound
        Where one bound is given without the other.

    Examples
    --------
    >>> min("age", 0, 120).side
    'min'
    """
    chosen = given(lower, upper, resolution=resolution, weight=weight)
    return Extreme(column=written(column), side="min", **chosen)
