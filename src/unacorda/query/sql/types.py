"""What a SELECT says, clause by clause, and where it stands.

It says what was asked, in the input language of `expressions`, and a session decides whether it may
be answered.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

from unacorda.errors import InvalidParameter, UnsafeExpression
from unacorda.query.aggregates.base import Aggregate
from unacorda.query.plan.query import Query

__all__ = [
    "Computed",
    "Condition",
    "Derived",
    "Item",
    "Joined",
    "Ordering",
    "Place",
    "Select",
    "SelectGroup",
    "SelectUnion",
    "SqlAggregate",
    "Step",
    "placed",
    "plain",
]

Place = tuple[int, int] | None
"""Where in the SELECT a part stands: its first character and one past its last, where known."""


@dataclass(frozen=True, slots=True)
class SqlAggregate:
    """An aggregate that a SELECT may hold.

    name: its head in messages, and in the names of columns that are given none. build: from what
    was read of one to what is asked of the rows.
    """

    name: str
    build: Callable[[Item, Query], Aggregate] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One aggregate of the SELECT list.

    alias: its name in the output. aggregate: one of `sql.offered`. argument: the text of its
    expression in the input language, the plain column name where distinct values are counted, None
    for COUNT(*). second: the other expression of a covariance or correlation; of distinct values
    one that a person must have a value of; of top values the column. quantiles: from 0 to 1. edges:
    of a histogram; size: how many bins or values are released. parts: what follows the alias in the
    names of its columns.
    """

    alias: str
    aggregate: SqlAggregate
    argument: str | None = None
    second: str | None = None
    quantiles: tuple[Fraction, ...] = ()
    edges: tuple[int | float, ...] = ()
    size: int = 0
    parts: tuple[str, ...] = ("",)
    place: Place = field(default=None, compare=False, repr=False)

    @property
    def written(self) -> str:
        """The aggregate as SQL, for messages."""
        of = "*" if self.argument is None else self.argument
        head, *distinct = self.aggregate.name.upper().split()
        if len(self.quantiles) == 1:
            (level,) = self.quantiles
            return f"MEDIAN({of})" if level == Fraction(1, 2) else f"QUANTILE({of}, {level:g})"
        plain = self.second is None or distinct or self.size
        other = "" if plain else f", {self.second}"
        return f"{head}({' '.join([*distinct, of])}{other})"

    @property
    def column(self) -> str:
        """Its argument; a column alone by its own name, which messages then show."""
        return plain(self.argument)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of its columns in the released table, those of errors left out."""
        return tuple(f"{self.alias}{part}" for part in self.parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectGroup:
    """One group column of the SELECT list, shown under an alias.

    column: one of Select.groups.
    """

    alias: str
    column: str

    @property
    def columns(self) -> tuple[str, ...]:
        """The name of its column in the released table."""
        return (self.alias,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Computed:
    """An output column made of released ones.

    expression: in the input language, over the names of released columns: aggregates
    and groups as they are shown.
    """

    alias: str
    expression: str
    place: Place = field(default=None, compare=False, repr=False)

    @property
    def columns(self) -> tuple[str, ...]:
        """The name of its column in the released table, those of errors left out."""
        return (self.alias,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """Rows to keep before anything is counted: an expression in the input language."""

    expression: str
    place: Place = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Derived:
    """A column to compute for each row before grouping.

    name: a name of its own, which no column of the table has.
    """

    name: str
    expression: str
    place: Place = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """Columns of another table to put beside these.

    table, steps: the other rows; on: the columns that are compared, here and there; columns: by
    their names from here on those of the other table that may be taken along.
    """

    table: str
    steps: tuple[Step, ...] = ()
    on: tuple[tuple[str, str], ...]
    how: Literal["inner", "left"]
    columns: tuple[tuple[str, str], ...]
    place: Place = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectUnion:
    """Other rows to add to these, with the columns that both have."""

    table: str
    steps: tuple[Step, ...] = ()
    place: Place = field(default=None, compare=False, repr=False)


Step = Condition | Derived | Joined | SelectUnion
"""What is done to the rows of a table, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordering:
    """One sort key of the released table, an expression over released columns."""

    expression: str
    descending: bool = False
    nulls_first: bool = False
    place: Place = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Select:
    """A SELECT in parts; having, order_by, limit and offset act on the released table alone.

    table: the first, as written. steps: what is done to its rows, in order.
    groups: the names of the group columns, in the order of GROUP BY; shown: their names in the
    released table; group_places: where they are written; margins: by which of their subsets is
    summed too. items: the output columns in order; inner: aggregates that stand only inside of
    computed columns, and are released too.
    having: which rows of the released table to keep; having_place: where that stands.
    limit, offset: how many of them, after how many.
    """

    table: str
    steps: tuple[Step, ...] = ()
    groups: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    group_places: tuple[Place, ...] = field(default=(), compare=False, repr=False)
    margins: Literal["rollup", "cube"] | None = None
    items: tuple[Item | SelectGroup | Computed, ...]
    inner: tuple[Item, ...] = ()
    having: str | None = None
    having_place: Place = field(default=None, compare=False, repr=False)
    order_by: tuple[Ordering, ...] = ()
    limit: int | None = None
    offset: int = 0

    @property
    def aggregates(self) -> tuple[Item, ...]:
        """All aggregates to be asked."""
        return (*(item for item in self.items if isinstance(item, Item)), *self.inner)

    @property
    def group_names(self) -> dict[str, str]:
        """The group columns by each name that means one: as it is shown, or the column's own."""
        names = dict(zip(self.shown, self.groups, strict=True))
        return names | {group: group for group in self.groups if group not in names}


def plain(argument: str | None) -> str:
    """An argument; a column alone by its own name."""
    assert argument is not None
    bare = argument.removeprefix('"').removesuffix('"')
    return bare if argument == f'"{bare}"' and '"' not in bare else argument


@contextmanager
def placed(clause: str, text: str, place: Place) -> Iterator[None]:
    """Raise what is raised inside as about this part of a SELECT; of no known place as it is."""
    fault: InvalidParameter | None = None
    try:
        yield
    except UnsafeExpression:
        raise
    except InvalidParameter as error:
        if place is None:
            raise
        fault = error
    if fault is not None and place is not None:
        raise fault.about(clause, text[slice(*place)]).placed(text, place)
