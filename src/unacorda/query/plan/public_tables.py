"""Public tables: joined to, never protected; what is in them may be read and shown.

From a public table a question may take the range of a number, the values of a column as keys, and
how many rows share a key. None of it depends on anyone whom a session protects.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import InitVar, dataclass
from typing import Any, Final, final

from unacorda.errors import InvalidParameter
from unacorda.query.expressions.language import Column, Kind, double
from unacorda.query.schema.facts import Categories, Fact
from unacorda.query.schema.table import ColumnReading, TableSchema

_MOST_VALUES = 10_000  # that are read from a column as keys
_KEYS = {Kind.TEXT, Kind.INTEGER, Kind.DATE, Kind.BOOLEAN}


@dataclass(frozen=True, slots=True, kw_only=True)
class Public:
    """A public table, as a question sees it: what is stated of one that is not at hand.

    scope: what its columns mean, before anything is read from it; ranges: of numbers, by column;
    count: how many rows share a key at most.
    """

    scope: TableSchema
    ranges: Mapping[str, tuple[float, float]] = dataclasses.field(default_factory=dict)
    count: int = 0

    def leaves(self, label: str) -> tuple[ColumnReading, ...]:
        """The readings of a column, numbers with the range that they have there."""
        read = [(leaf, self._range(leaf)) for leaf in self.scope.leaves[label]]
        return tuple(leaf if ends is None else _ranged(leaf, *ends) for leaf, ends in read)

    def fact(self, label: str) -> Fact | None:
        """What was declared of a column, or the values that it has, where they are keys and few."""
        return self.scope.facts.get(label)

    def most(self, keys: Sequence[str]) -> int:
        """The largest number of rows that share a key; keys: SQL, of which none may be NULL."""
        del keys
        return self.count

    def _range(self, leaf: ColumnReading) -> tuple[float, float] | None:
        return self.ranges.get(leaf.label) if leaf.column.kind.numeric else None


_KEY: Final = object()


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PublicSelect:
    """A SELECT over one public table. Only a table that was opened as public makes one."""

    sql: str
    key: InitVar[object]

    def __post_init__(self, key: object) -> None:
        if key is not _KEY:
            raise TypeError("what is read of a public table is selected by that table alone")


def public_sql(asked: object) -> str:
    """The SQL that an engine may run without a charge; TypeError for all that is no such SELECT."""
    if not isinstance(asked, PublicSelect):
        raise TypeError("without a charge an engine reads public tables alone")
    return asked.sql


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked(Public):
    """A public table that an engine holds, read where nothing is stated.

    source: as the session was given it; relation: SQL of it; look: runs a SELECT over public
    tables alone. What is found is kept.
    """

    source: object = dataclasses.field(repr=False, compare=False)
    relation: str
    look: Callable[[PublicSelect], Sequence[tuple[Any, ...]]]
    known: dict[str, Any] = dataclasses.field(default_factory=dict, repr=False, compare=False)

    def fact(self, label: str) -> Fact | None:
        """See `Public.fact`."""
        declared, found = self.scope.facts.get(label), self.scope.leaves[label]
        if declared is not None or not found or found[0].column.kind not in _KEYS:
            return declared
        listed = self._asked(f"SELECT DISTINCT {found[0].sql} AS x", f" LIMIT {_MOST_VALUES + 2}")
        values: list[Any] = [value for (value,) in listed if value is not None]
        if found[0].column.kind is Kind.INTEGER:
            values = [int(value) for value in values]
        if not 0 < len(values) <= _MOST_VALUES:
            return None
        with suppress(InvalidParameter), warnings.catch_warnings():  # what no key can be
            warnings.simplefilter("ignore")
            return Categories(sorted(values))
        return None

    def most(self, keys: Sequence[str]) -> int:
        """See `Public.most`."""
        names = [f"j{index}" for index in range(len(keys))]
        selected = ", ".join(f"{sql} AS {name}" for sql, name in zip(keys, names, strict=True))
        present = " AND ".join(f"{name} IS NOT NULL" for name in names)
        ((found,),) = self._asked(
            f"SELECT coalesce(max(n), 0) FROM (SELECT count(*) AS n FROM (SELECT {selected}",
            f") WHERE {present} GROUP BY {', '.join(names)})",
        )
        return int(found)

    def _range(self, leaf: ColumnReading) -> tuple[float, float] | None:
        if not leaf.column.kind.numeric or math.isfinite(leaf.column.lower):
            return None
        inner = f"SELECT min(x), max(x) FROM (SELECT {leaf.sql} AS x"
        ((low, high),) = self._asked(inner, ")")
        if low is None:
            return None
        if low == high:  # a range has two ends
            low, high = min(low, 0.0), max(high, 0.0) or float(low == 0)
        return low, high

    def _asked(self, head: str, tail: str) -> Sequence[tuple[Any, ...]]:
        sql = f"{head} FROM {self.relation}{tail}"
        if sql not in self.known:
            self.known[sql] = self.look(PublicSelect(sql=sql, key=_KEY))
        found: Sequence[tuple[Any, ...]] = self.known[sql]
        return found


def _ranged(leaf: ColumnReading, lower: float, upper: float) -> ColumnReading:
    """The reading of a number, clamped to a range that is known of its column."""
    present, clamped = f"{leaf.sql} IS NOT NULL", f"least({leaf.sql}, {double(upper)})"
    sql = f"CASE WHEN {present} THEN greatest({clamped}, {double(lower)}) END"  # NULL is ignored
    column = leaf.column
    found = Column(column.name, column.kind, lower, upper)
    return dataclasses.replace(leaf, sql=sql, column=found)


def join_key(kind: Kind, sql: str) -> str:
    """SQL of what is compared in a join; NULL meets nothing.

    Numbers are compared as doubles, of which those of 2^53 and more stand for several whole ones:
    they meet nothing.
    """
    return f"CASE WHEN abs({sql}) < 9007199254740992e0 THEN {sql} END" if kind.numeric else sql
