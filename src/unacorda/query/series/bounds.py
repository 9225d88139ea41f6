"""Bounds on the steps of a person, by the error that they are expected to bring a series.

With a larger bound more noise is added, and with a smaller one more rows are dropped. From a
released histogram of people by number of rows before the series begins both are known for every
bound, if people go on as before: a person with n rows in N steps is taken to have one every N / n
steps. Which bound errs least is postprocessing.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unacorda import checks
from unacorda.over_time.bounds import OverTime, SlidingWindow, Wanted
from unacorda.over_time.encoders import HORIZON
from unacorda.privacy.guarantees import Guarantee
from unacorda.query.aggregates.linear import CountPeople
from unacorda.query.aggregates.row_counts import RowHistogram
from unacorda.query.plan.query import Query
from unacorda.query.row_bounds import BoundErrors, error_lines, rows_question
from unacorda.query.series.plan import SeriesPlan

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepBound(BoundErrors):
    """What is expected of a bound on steps: root mean squares over all steps.

    Of the first kind of sums that is wanted, in the mean over groups.
    """

    person: OverTime


@dataclass(frozen=True, slots=True, kw_only=True)
class SuggestedSteps:
    """Contribution bounds with the least expected error for a series.

    Attributes
    ----------
    person
        The bounds, for `Session.over_time`.
    budget
        The budget that is left for the series.
    expected
        The expected noise and the expected error from dropped rows, for each bound compared.
    spent
        The cost of the private histogram from which the bounds were computed.

    Examples
    --------
    >>> import pandas
    >>> import unacorda
    >>> days = [f"2026-01-{day:02}" for day in range(1, 31)]
    >>> visits = pandas.DataFrame({"id": range(600), "seen": days * 20})
    >>> unit, bits = unacorda.Person("id", max_rows=1), unacorda.SeededBits(1)
    >>> with unacorda.Session(
    ...     {"visits": visits}, unit=unit, budget=unacorda.ZCDP(1), bits=bits
    ... ) as session:
    ...     found = session.suggest_over_time(
    ...         session.table("visits").agg(n=unacorda.count()),
    ...         before=10,
    ...         budget=unacorda.ZCDP(1),
    ...         by="seen",
    ...         start="2026-01-11",
    ...         steps=10,
    ...     )
    >>> print(found.person)
    1 row in each of the first 2 steps
    >>> found.spent, found.budget
    (ZCDP(rho=0.1), ZCDP(rho=0.9))
    """

    person: OverTime
    budget: Guarantee
    expected: tuple[StepBound, ...]
    spent: Guarantee

    def __str__(self) -> str:
        least = next(n for n, one in enumerate(self.expected) if one.person == self.person)
        bounds = {str(one.person): one for one in self.expected}
        return "\n".join(error_lines("bound", bounds, least=least, left=1))


def earlier_rows(plan: SeriesPlan, *, before: int) -> Query:
    """The histogram of people by number of rows in the steps before the series begins."""
    step = plan.step.text
    rows = plan.query.rows.where(f"({step}) >= {-before} AND ({step}) < 0")
    return rows_question(dataclasses.replace(plan.query, rows=rows))


def errors_of_bounds(
    plan: SeriesPlan, budget: Guarantee, histogram: RowHistogram, *, before: int
) -> tuple[StepBound, ...]:
    """What is expected of bounds by powers of two, for good and anew in each `before` steps.

    plan: the series, with any bound; budget: all of it is the series'. histogram: of people by
    number of rows in `before` steps.
    """
    names = [n for n, a in plan.query.aggregates.items() if not isinstance(a, CountPeople)]
    checks.demand(names, "query", "people so far", expected="a question whose rows are bounded")
    length, kind = plan.steps or HORIZON, plan.wanted[0]
    times = np.arange(1, length + 1) / before  # in units of the window that was seen
    renews = plan.steps is not None and before < length
    powers = [1 << doubling for doubling in range(before.bit_length() if renews else 0)]
    bounds = [OverTime(max_steps=power, within=before) for power in powers]
    bounds += [OverTime(max_steps=1 << doubling) for doubling in range(length.bit_length())]
    found = []
    for person in bounds:
        bounded = dataclasses.replace(plan, person=person, budget=budget).settled()
        noise = bounded.noises[names[0]].standard_errors(kind, length)
        assert person.max_steps is not None
        if person.within is not None:
            lost = times * histogram.dropped(person.max_steps)
        else:
            limits = person.max_steps / times
            lost = times * np.array([histogram.dropped(limit) for limit in limits])
        dropped = _of_kind(lost, kind) / len(plan.query.keys)
        found.append(
            StepBound(
                person=person,
                noise=float(np.sqrt(np.mean(noise**2))),
                dropped=float(np.sqrt(np.mean(dropped**2))),
            )
        )
    return tuple(found)


def _of_kind(totals: Floats, kind: Wanted) -> Floats:
    """Sums of a kind, of totals."""
    if kind == "totals":
        return totals
    width = kind.width if isinstance(kind, SlidingWindow) else 1
    before = np.zeros_like(totals)
    before[width:] = totals[:-width]
    return totals - before
