"""What may be assumed of private data: numbers, or those of a public table that is like it."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from unacorda.errors import InvalidParameter
from unacorda.query.aggregates.answers import Assumption
from unacorda.query.plan.public_tables import Looked
from unacorda.query.plan.query import Query
from unacorda.query.plan.relation import PeoplePart
from unacorda.query.schema.quoting import identifier
from unacorda.query.schema.sources import is_table
from unacorda.query.schema.table import plain_type

__all__ = ["SAMPLE", "Assume", "check_assumption", "sources_of"]

SAMPLE = 5_000
"""How many values of a public table stand for all of them."""

_WHOLE = {f"{sign}{size}INT" for sign in ("", "U") for size in ("TINY", "SMALL", "BIG", "HUGE")}
_NUMBERS = {*_WHOLE, "INTEGER", "UINTEGER", "FLOAT", "DOUBLE", "DECIMAL", "VARCHAR"}
"""Types of columns that may hold numbers: those of a CSV file are all texts."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Assume(Assumption):
    """What a reader assumes of the data, so that errors that depend on it can be forecast.

    rows: rows in a cell, after bounding, whose value is present; values: for a column as the
    aggregate names it, public numbers whose law it is assumed to follow. Quantiles need values;
    means without values are taken at an end of their range. rows_per_person: public numbers of how
    many rows people have, to say how many of them go; rows_kept: which share of all rows the limits
    on a person leave, where that is known. Nothing of it touches the private data.

    table: `from_table` alone sets it. Each question then takes these numbers from the rows of the
    table that it is about, and is tried out on it with and without the limits on a person's rows.

    >>> Assume(rows=500, values={"age": [20, 30, 40, 50]}).rows
    500
    """

    table: Any = field(default=None, compare=False)

    def __repr__(self) -> str:
        values = ", ".join(f"{len(found):,} of {name!r}" for name, found in self.values.items())
        return f"Assume(rows={self.rows}{f', values: {values}' if values else ''})"

    @classmethod
    def from_table(cls, table: Any) -> Assume:
        """Assume that the data is like a public or synthetic table: a file or a frame.

        Raises InvalidParameter for what is no table or has no rows, SourceUnreadable for a file
        that cannot be read.

        >>> import pandas
        >>> last_year = pandas.DataFrame({"age": [20, 30, 40], "town": ["A", "B", "B"]})
        >>> Assume.from_table(last_year).rows
        3
        """
        from unacorda.query.engines.public import PublicTables  # loads DuckDB

        if not is_table(table):
            raise InvalidParameter(
                "table", table, expected="a file (CSV, Parquet, unacorda.Csv) or a data frame"
            )
        with closing(PublicTables({"table": table})) as tables:
            scan = tables.scan("table")
            ((rows,),) = tables.rows(f"SELECT count(*) FROM {scan}")
            if not rows:
                raise InvalidParameter("table", "no rows", expected="a table with rows")
            values = {}
            for name, kind in tables.types("table").items():
                if plain_type(kind) not in _NUMBERS:
                    continue
                value = f"TRY_CAST({identifier(name)} AS DOUBLE)"
                found = tables.rows(
                    f"SELECT {value} FROM {scan} WHERE isfinite({value}) "
                    f"ORDER BY hash({identifier(name)}) LIMIT {SAMPLE}"
                )
                if found:
                    values[name] = [x for (x,) in found]
        return cls(rows=rows, values=values, table=table)


def sources_of(query: Query, assuming: Assume) -> dict[str, object]:
    """The tables to try a question out on, by their names in it; its public ones are themselves.

    Raises InvalidParameter for a question about several private tables, or a part of the people.
    """
    numbers = "numbers, as unacorda.Assume(rows=500): a table is for a question about"
    names = list(dict.fromkeys(table.name for table in query.rows.tables))
    if len(names) > 1:
        raise InvalidParameter("assuming", "a table", expected=f"{numbers} one private table")
    if any(isinstance(step, PeoplePart) for base in query.rows.bases for step in base.steps):
        raise InvalidParameter("assuming", "a table", expected=f"{numbers} all of the people")
    sources = {names[0]: assuming.table}
    for step in query.rows.lookups:
        held = step.public.source if isinstance(step.public, Looked) else None
        if not is_table(held) and not isinstance(held, list | tuple):
            raise InvalidParameter(
                "assuming", "a table", expected=f"{numbers} public tables that are files or frames"
            )
        sources[step.table] = held
    return sources


def check_assumption(assuming: object, *queries: Query) -> None:
    """InvalidParameter for what is no assumption, or about a column that no one asks about."""
    if assuming is None:
        return
    if not isinstance(assuming, Assume):
        raise InvalidParameter(
            "assuming",
            assuming,
            expected="unacorda.Assume(rows=500, values={'age': [20, 30, 40]}), or "
            "unacorda.Assume.from_table(...) of a public table",
        )
    if assuming.table is not None:
        return
    known = [name for q in queries for a in q.aggregates.values() for name in a.assumes]
    for name in assuming.values:
        if name not in known:
            listed = ", ".join(dict.fromkeys(known)) or "none here"
            raise InvalidParameter(
                "assuming", name, expected=f"columns as the aggregates name them: {listed}"
            )
