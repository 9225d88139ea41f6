"""An analyst's SELECT as plain values: what to count, sum, average and take quantiles of.

Nothing here knows a table, a column or a budget: it says what was asked, in the input language of
`expressions`, and a session decides whether it may be answered.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import enum
from dataclasses import dataclass
from fractions import Fraction

__all__ = ["Aggregate", "Derived", "Group", "Item", "Ordering", "Select"]


class Aggregate(enum.Enum):
    """What an item computes over the rows of a group."""

    COUNT_ROWS = "count"
    """COUNT(*): rows, NULLs included."""
    COUNT = "count of"
    """COUNT(x): rows where x is not NULL."""
    COUNT_DISTINCT = "count distinct"
    """COUNT(DISTINCT x): x is a column's plain name, which must be the person id or `person`."""
    SUM = "sum"
    MEAN = "avg"
    MIN = "min"
    MAX = "max"
    QUANTILE = "quantile"
    """MEDIAN(x), QUANTILE(x, q), PERCENTILE_CONT(q) WITHIN GROUP (ORDER BY x)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One aggregate of the SELECT list.

    alias: its name in the output. argument: the text of its expression in the input language, the
    plain column name for COUNT_DISTINCT, None for COUNT_ROWS. quantile: strictly between 0 and 1
    for QUANTILE, None otherwise.
    """

    alias: str
    aggregate: Aggregate
    argument: str | None = None
    quantile: Fraction | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """One group column of the SELECT list, shown under an alias.

    column: one of Select.groups.
    """

    alias: str
    column: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Derived:
    """A column to compute for each row before grouping: GROUP BY over an expression."""

    name: str
    expression: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordering:
    """One sort key of the released table; alias names an output column."""

    alias: str
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Select:
    """A SELECT in parts; order_by and limit act on the released table alone.

    table: as written. where: a condition in the input language, to be given to `parse`. derived:
    columns to add before grouping. groups: the names of the group columns, in the order of GROUP
    BY. items: the output columns in order. limit: how many rows of the release to keep.
    """

    table: str
    where: str | None = None
    derived: tuple[Derived, ...] = ()
    groups: tuple[str, ...] = ()
    items: tuple[Item | Group, ...]
    order_by: tuple[Ordering, ...] = ()
    limit: int | None = None
