"""What a SELECT says, clause by clause, and where it stands.

Nothing here knows a table or a budget: it says what was asked, in the input language of
`expressions`, and a session decides whether it may be answered.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import enum
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

from unacorda.errors import InvalidParameter, MissingBound, UnsafeExpression

__all__ = [
    "AggregateName",
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
    "Step",
    "placed",
]

Place = tuple[int, int] | None
"""Where in the SELECT a part stands: its first character and one past its last, where known."""


class AggregateName(enum.Enum):
    """What an item computes over the rows of a group."""

    COUNT_ROWS = "count"
    """COUNT(*): rows, NULLs included."""
    COUNT = "count of"
    """COUNT(x): rows where x is not NULL."""
    COUNT_DISTINCT = "count distinct"
    """COUNT(DISTINCT x): x is a column's plain name; of people where that is the id or `person`."""
    COUNT_IF = "count_if"
    """COUNT_IF(c), COUNT(*) FILTER (WHERE c)."""
    SUM = "sum"
    MEAN = "avg"
    MIN = "min"
    MAX = "max"
    QUANTILE = "quantile"
    """MEDIAN(x), QUANTILE(x, q), PERCENTILE_CONT(q) WITHIN GROUP (ORDER BY x)."""
    QUANTILES = "quantiles"
    """QUANTILE(x, [q, r]), PERCENTILE_CONT([q, r]) WITHIN GROUP (ORDER BY x)."""
    IQR = "iqr"
    VARIANCE = "variance"
    """VAR_SAMP(x), VARIANCE(x), VAR(x)."""
    VARIANCE_POP = "var_pop"
    STDEV = "stddev"
    """STDDEV(x), STDDEV_SAMP(x)."""
    STDEV_POP = "stddev_pop"
    COVARIANCE = "covar_samp"
    COVARIANCE_POP = "covar_pop"
    CORRELATION = "corr"
    HISTOGRAM = "histogram"
    """HISTOGRAM(x, [0, 10, 20]): a line for each bin."""
    EQUAL_BINS = "histogram_numeric"
    """HISTOGRAM_NUMERIC(x, 10): a line for each bin, whose edges are found."""
    TOP = "approx_top_k"
    """APPROX_TOP_K(x, 10): a line for each of the most frequent values of a column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One aggregate of the SELECT list.

    alias: its name in the output. argument: the text of its expression in the input language, the
    plain column name for COUNT_DISTINCT, None for COUNT_ROWS. second: the other expression of a
    covariance or correlation; of COUNT_DISTINCT one that a person must have a value of; of TOP the
    column. quantiles: from 0 to 1, one for QUANTILE, several for QUANTILES. edges: of
    a HISTOGRAM; size: how many bins or values are released. parts: what follows the alias in the
    names of its columns.
    """

    alias: str
    aggregate: AggregateName
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
        head, *distinct = self.aggregate.value.upper().removesuffix(" OF").split()
        if self.aggregate is AggregateName.QUANTILE:
            (level,) = self.quantiles
            if level == Fraction(1, 2):
                return f"MEDIAN({of})"
            return f"QUANTILE({of}, {float(level):g})"
        plain = self.second is None or distinct or self.aggregate is AggregateName.TOP
        other = "" if plain else f", {self.second}"
        return f"{head}({' '.join([*distinct, of])}{other})"

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
    summed too. items: the output columns in order; beside: aggregates that stand only inside of
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
    beside: tuple[Item, ...] = ()
    having: str | None = None
    having_place: Place = field(default=None, compare=False, repr=False)
    order_by: tuple[Ordering, ...] = ()
    limit: int | None = None
    offset: int = 0

    @property
    def aggregates(self) -> tuple[Item, ...]:
        """All aggregates to be asked."""
        return (*(item for item in self.items if isinstance(item, Item)), *self.beside)

    @property
    def group_names(self) -> dict[str, str]:
        """The group columns by each name that means one: as it is shown, or the column's own."""
        names = dict(zip(self.shown, self.groups, strict=True))
        return names | {group: group for group in self.groups if group not in names}


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
        kind = MissingBound if isinstance(fault, MissingBound) else InvalidParameter
        part = text[slice(*place)]
        raise kind(clause, part, expected=fault.expected).placed(text, place)
