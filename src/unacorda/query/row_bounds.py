"""Bounds on the rows of a person, by the error that they are expected to bring a question.

With a larger bound on rows more noise is added, and with a smaller one more rows are dropped. From
a released histogram of people by number of rows both are known for every bound: the noise is that
of a count of rows in each group, with the question's own budget, and of the rows dropped each group
is taken to have an equal part. Which bound errs least is postprocessing: it costs nothing more.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from unacorda.checks import demand
from unacorda.display import aligned
from unacorda.errors import InvalidParameter
from unacorda.privacy.guarantees import Guarantee
from unacorda.query.aggregates.row_counts import KeptRows, RowHistogram, RowsKept
from unacorda.query.allocation import shares_of
from unacorda.query.noise.additive import additive_noise, of_counts
from unacorda.query.plan.query import Query
from unacorda.query.schema.units import Person, Reach

_MOST = 1_000_000  # rows of one person


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundErrors:
    """What is expected of a bound: the deviation of the noise, and what dropped rows take away."""

    noise: float
    dropped: float

    @property
    def error(self) -> float:
        """The root of the mean squared error."""
        return math.hypot(self.noise, self.dropped)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowBound(BoundErrors):
    """What is expected of a bound on rows, in a count of rows and in the mean over groups."""

    max_rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SuggestedBounds:
    """A contribution bound on rows with the least expected error for a question.

    Attributes
    ----------
    query
        The question with this bound, ready for `Session.evaluate`.
    budget
        The budget that is left for it.
    max_rows
        The bound.
    expected
        The expected noise and the expected error from dropped rows, for each bound compared.
    kept
        The share of rows that the bound keeps.
    spent
        The cost of the private histogram from which the bound was computed.

    Examples
    --------
    >>> import pandas
    >>> import unacorda
    >>> rows = [person for person in range(3000) for _ in range(1 + person % 4)]
    >>> unit, bits = unacorda.Person("id", max_rows=10), unacorda.SeededBits(1)
    >>> visits = pandas.DataFrame({"id": rows})
    >>> with unacorda.Session(
    ...     {"visits": visits}, unit=unit, budget=unacorda.PureDP(2), bits=bits
    ... ) as session:
    ...     question = session.table("visits").agg(n=unacorda.count())
    ...     found = session.suggest_bounds(question, budget=unacorda.PureDP(2))
    ...     release = session.evaluate(found.query, budget=found.budget)
    >>> found.max_rows, found.spent, found.budget
    (4, PureDP(epsilon=0.2), PureDP(epsilon=1.8))
    >>> len(rows), release["n"]
    (7500, [7499])
    """

    query: Query
    budget: Guarantee
    max_rows: int
    expected: tuple[RowBound, ...]
    kept: KeptRows
    spent: Guarantee

    def to_dict(self) -> dict[str, Any]:
        """Return the bound, the errors and the budgets as plain values, for JSON.

        Returns
        -------
        dict
            All fields but the question.
        """
        return {
            "max_rows": self.max_rows,
            "budget": repr(self.budget),
            "spent": repr(self.spent),
            "kept": self.kept.to_dict(),
            "expected": [
                {"max_rows": one.max_rows, "noise": one.noise, "dropped": one.dropped}
                for one in self.expected
            ],
        }

    def __str__(self) -> str:
        best = [one.max_rows for one in self.expected].index(self.max_rows)
        shown = self.expected[max(best - 3, 0) : best + 4]
        lines = error_lines(
            "max_rows",
            {f"{one.max_rows:,}": one for one in shown},
            least=shown.index(self.expected[best]),
        )
        note = "expected in a count of rows of each group, if rows are dropped from all alike"
        return "\n".join([*lines, note, self.kept.sentence])


def error_lines(
    head: str, expected: Mapping[str, BoundErrors], *, least: int, left: int = 0
) -> list[str]:
    """A table of bounds with their errors, of which one is the least; left: as of `aligned`."""
    cells = [
        [bound, *(f"{x:,.0f}" for x in (one.noise, one.dropped, one.error))]
        for bound, one in expected.items()
    ]
    lines = aligned([(head, "noise", "dropped", "error"), *cells], left=left)
    lines[least + 1] += "  <- least"
    return lines


def rows_question(query: Query) -> Query:
    """The histogram of people by number of rows in a question, before bounding.

    Where keys are found they are not yet known, and the rows are those of all keys.
    """
    groups = query.groups if query.private is None else ()
    keys = query.keys if groups else ((),)
    found = query.only(groups=groups, keys=keys)
    if query.aggregates and query.private is None:  # rows that none of these reads are not bounded
        found = dataclasses.replace(found, rows=query.filtered())
    return found.agg(rows=RowsKept(aside=True))


def errors_by_bound(
    query: Query, budget: Guarantee, histogram: RowHistogram
) -> tuple[RowBound, ...]:
    """What is expected of every bound that drops rows, and of the least that drops none.

    query: with aggregates; budget: all of it is the question's.
    """
    groups = 1 if query.private is not None else len(query.keys)
    parts = [part for name, part in query.parts().items() if name not in query.aside]
    part = sum(parts, Fraction(0)) / len(parts)
    found = []
    for rung in histogram.rungs:
        if rung > _MOST:
            break
        unit = query.limited
        assert isinstance(unit, Person)
        most = query.rows.most
        reach = Reach.of(unit.with_rows(rung), cells=query.cells, most=most)
        noises = []
        for share in shares_of(budget):
            try:
                noise = additive_noise(share * part, of_counts(reach), unit_log2=0, counts=True)
            except (InvalidParameter, ArithmeticError, ValueError):
                continue  # a share that no scale keeps
            noises.append(noise.standard_deviation)
        if not noises:
            break
        dropped = histogram.dropped(rung)
        found.append(RowBound(max_rows=rung, noise=min(noises), dropped=dropped / groups))
        if dropped == 0:
            break
    demand(found, "budget", budget, expected="a budget that some noise keeps")
    return tuple(found)


def best_bound(expected: Sequence[RowBound], *, most: int = _MOST) -> int:
    """The bound with the least expected error, of equal ones the smallest; at most this number."""
    allowed = [one for one in expected if one.max_rows <= most]
    return min(allowed, key=lambda one: (one.error, one.max_rows)).max_rows


def check_suggestible(query: Query) -> None:
    """Raise InvalidParameter where no bound on rows can be chosen."""
    person = isinstance(query.unit, Person)
    expected = "a question about people with several rows: Person('id', max_rows=...)"
    demand(person and query.drops_rows, "query", query, expected=expected)
    expected = (
        "a question in which max_rows= alone bounds rows, without max_groups=, "
        "max_rows_per_group=, joins of private tables and explode"
    )
    demand(query.bounded_by_rows, "query", query, expected=expected)
