"""What can be done to the rows of a question, before it has groups and aggregates."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from unacorda.errors import InvalidParameter
from unacorda.query.aggregates.aggregate import Aggregate
from unacorda.query.joins import Columns, On, looked_up, matched, united
from unacorda.query.rows import How, Rows, Step
from unacorda.query.schema.table import Scope
from unacorda.query.schema.units import Person, Row, Unit

__all__ = ["RowSteps", "check_copies"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RowSteps(ABC):
    """Rows and the unit that is protected; every step returns a new value."""

    rows: Rows
    unit: Unit

    @property
    def table(self) -> str:
        """What the rows are of, for messages: the table's name."""
        return self.rows.scope.table

    @property
    def scope(self) -> Scope:
        """What names mean after all steps."""
        return self.rows.scope

    @property
    def steps(self) -> tuple[Step, ...]:
        """What is done to the rows."""
        return self.rows.steps

    def where(self, condition: str) -> Self:
        """Keep the rows for which a row-wise SQL condition is true (NULL is not true).

        Raises UnsafeExpression or InvalidParameter, naming the mend.
        """
        self._open("where")
        return dataclasses.replace(self, rows=self.rows.where(condition))

    def derive(self, **columns: str) -> Self:
        """Add columns made by row-wise SQL expressions: `derive(bmi="weight / (height * height)")`.

        Later ones may use earlier ones. A name that is taken already is refused.
        """
        self._open("derive")
        if not columns:
            raise InvalidParameter("derive", columns, expected="name='expression'")
        rows = self.rows
        for label, text in columns.items():
            rows = rows.derive(label, text)
        return dataclasses.replace(self, rows=rows)

    def explode(
        self,
        column: str,
        *,
        separator: str = ",",
        most: int | None = None,
        into: str | None = None,
    ) -> Self:
        """Turn every row into one for each part of a text: `explode("tags", most=5)`.

        column: a column or expression of text; it is split at the separator, and the first `most`
        parts count (it must be given); rows where it is NULL go. into: the name of the column of
        parts, which by default stands in place of the column that was split.

        Where people are protected, their limits hold for the rows that are split, and again for
        what comes out; where single rows are, the noise of counts and sums grows with `most`. One
        row becomes at most 1,000 by all steps and joins of a question together.
        """
        self._before_groups("explode")
        return dataclasses.replace(
            self, rows=self.rows.explode(column, separator=separator, most=most, into=into)
        )

    def join(
        self,
        other: str | RowSteps,
        on: On = None,
        *,
        how: How = "inner",
        columns: Columns = None,
        max_rows: int | tuple[int, int] | None = None,
    ) -> Self:
        """Put columns of another table beside these.

        other: the name of a public table of the session, whose rows may be joined on any columns;
        or rows of another private table, `session.table(...)`, which are joined on the person's id,
        so that all rows that meet are hers. on: the columns to compare, by one name in both or
        `{left: right}`; of private tables by default the id, to which others may be added. NULL
        meets nothing. how: "inner" drops rows that meet none, "left" keeps them with NULLs.
        columns: which columns to take along, all others by default; `{new name: its name}`.
        max_rows: of private tables how many rows of a person enter the join, from each side; their
        product is at most 1,000.

        Where people are protected, their limits hold for the joined rows, and before that for
        those that meet several public ones, 1,000 at most. A single row that is protected may meet
        several, and then counts as so many.
        """
        self._before_groups("join")
        if isinstance(other, RowSteps):
            rows = matched(
                self.rows,
                self._beside("join", other),
                on=on,
                how=how,
                columns=columns,
                max_rows=max_rows,
            )
        else:
            if max_rows is not None:
                expected = "it for private tables alone: of a public one all rows may be met"
                raise InvalidParameter("max_rows", max_rows, expected=expected)
            rows = looked_up(self.rows, other, on=on, how=how, columns=columns)
        return dataclasses.replace(self, rows=rows)

    def union(self, other: RowSteps) -> Self:
        """The rows of both, with the columns that both have: `union(session.table("b"))`.

        A person's limits hold for her rows of both together. Where single rows are protected and
        one table stands on both sides, its rows count twice.
        """
        self._before_groups("union")
        rows = united(self.rows, self._beside("union", other))
        return dataclasses.replace(self, rows=rows)

    @property
    @abstractmethod
    def begun(self) -> bool:
        """Whether there are neither groups nor aggregates yet."""

    @abstractmethod
    def _open(self, step: str) -> None:
        """Raise where it is too late for a step."""

    def _before_groups(self, step: str) -> None:
        self._open(step)
        if not self.begun:
            raise InvalidParameter(step, step, expected="it before group_by()")

    def _beside(self, argument: str, other: object) -> Rows:
        """The rows of another question that is only begun."""
        if not isinstance(other, RowSteps) or not other.begun:
            expected = "rows of a table, session.table(...), without group_by"
            raise InvalidParameter(argument, other, expected=expected)
        if len(other.scope.ids) != len(self.scope.ids):
            raise InvalidParameter(argument, other, expected="rows of a table of the same session")
        return other.rows


def check_copies(
    rows: Rows, unit: Unit, aggregates: Mapping[str, Aggregate], *, private: bool
) -> None:
    """Raise where a protected row counts several times, and people would be told apart.

    private: whether there are keys to be found, by the people who have them.
    """
    if not isinstance(unit, Row) or rows.most == 1:
        return
    expected = (
        f"what counts rows: one row of the table becomes up to {rows.most:,} here, and nothing "
        "tells which belong together. Protect unacorda.Person('id', ...)"
    )
    if private:
        raise InvalidParameter("keys", "private_keys()", expected=expected)
    for name, aggregate in aggregates.items():
        if _tells_people_apart(aggregate):
            raise InvalidParameter(name, type(aggregate).__name__, expected=expected)


def _tells_people_apart(aggregate: Aggregate) -> bool:
    """Whether it reads several rows of one person in another way than rows of several."""
    values = [f"v{index}" for index in range(len(aggregate.expressions))]
    units = Row(), Person("id", max_rows=1)
    one, other = (
        (
            aggregate.measures(values, unit),
            tuple(ranking.relation(unit) for ranking in aggregate.rankings(values)),
            tuple(ladder.sql(unit) for ladder in aggregate.ladders(values, unit)),
        )
        for unit in units
    )
    return one != other
