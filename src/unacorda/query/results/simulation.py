"""Assumptions about private data, and the bias of a question on a public table.

The plan runs on a public table, such as last year's or a synthetic one, with and without the
contribution bounds. The private tables are not touched.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from unacorda.bits import SeededBits
from unacorda.checks import demand
from unacorda.errors import InvalidParameter
from unacorda.privacy.guarantees import Guarantee, PureDP
from unacorda.query.aggregates.base import Assumed, Assumption
from unacorda.query.allocation import Allocation, allocate
from unacorda.query.engines.compile import SqlContext, compile_found, compile_query
from unacorda.query.engines.duckdb import PublicTables
from unacorda.query.engines.engine import answers_of, exact_by_name, with_found_keys
from unacorda.query.expressions.language import identifier
from unacorda.query.noise.selection import KeyRule
from unacorda.query.plan.codec import decode
from unacorda.query.plan.query import Query
from unacorda.query.plan.relation import Lookup, PeoplePart
from unacorda.query.results.record import question_of
from unacorda.query.schema.keys import Key
from unacorda.query.schema.sources import Looked, is_table
from unacorda.query.schema.table import Bounds, Fact, plain_type, readings
from unacorda.query.schema.units import Person, Reach, Unit, id_columns

SAMPLE = 5_000
"""How many values of a public table stand for all of them."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Assume(Assumption):
    """Assumptions about the data, from which errors that depend on it can be forecast.

    It does not touch the private data.

    Parameters
    ----------
    rows
        The number of rows in a cell, after contribution bounding, whose value is present.
    values
        By column, as the aggregate names it: public numbers with the assumed distribution of its
        values. Quantiles need them. Means without them are assumed to lie at an end of their range.
    rows_per_person
        Public numbers of rows per person, to forecast how many rows are dropped.
    rows_kept
        The share of all rows that contribution bounding keeps, from 0 to 1, if it is known.
    table
        Set by `from_table` only. Each question then takes these numbers from the rows of this table
        that it is about, and runs on them with and without contribution bounds.

    Examples
    --------
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

        Parameters
        ----------
        table
            A file (CSV, Parquet, `unacorda.Csv`) or a data frame.

        Raises
        ------
        InvalidParameter
            For an argument that is not a table, and for a table without rows.
        SourceUnreadable
            For a file that cannot be read.

        Examples
        --------
        >>> import pandas
        >>> last_year = pandas.DataFrame({"age": [20, 30, 40], "town": ["A", "B", "B"]})
        >>> Assume.from_table(last_year).rows
        3
        """
        expected = "a file (CSV, Parquet, unacorda.Csv) or a data frame"
        demand(is_table(table), "table", table, expected=expected)
        with closing(PublicTables({"table": table})) as tables:
            scan = tables.scan("table")
            ((rows,),) = tables.rows(f"SELECT count(*) FROM {scan}")
            demand(rows, "table", "no rows", expected="a table with rows")
            values = {}
            for name, kind in tables.schema["table"].items():
                read = readings(name, kind, None, sql=identifier(name))
                numbers = [one.sql for one in read if one.column.kind.numeric]
                if not numbers:
                    continue
                value = f"TRY_CAST({numbers[0]} AS DOUBLE)"
                found = tables.rows(
                    f"SELECT {value} FROM {scan} WHERE isfinite({value}) "
                    f"ORDER BY hash({identifier(name)}) LIMIT {SAMPLE}"
                )
                if found:
                    values[name] = [x for (x,) in found]
        return cls(rows=rows, values=values, table=table)


def _sources_of(query: Query, assuming: Assume) -> dict[str, object]:
    """The tables to try a question out on, by their names in it; its public ones are themselves.

    Raises InvalidParameter for a question about several private tables, or a part of the people.
    """
    names = list(dict.fromkeys(table.name for table in query.rows.tables))
    steps = [step for member in query.rows.members for step in member.steps]
    sources = {names[0]: assuming.table}
    lookups = [step for step in steps if isinstance(step, Lookup)]
    for step in lookups:
        sources[step.table] = step.public.source if isinstance(step.public, Looked) else None
    fits = {
        "one private table": len(names) == 1,
        "all of the people": not any(isinstance(step, PeoplePart) for step in steps),
        "public tables that are files or frames": all(
            is_table(sources[step.table]) or isinstance(sources[step.table], list | tuple)
            for step in lookups
        ),
    }
    for about, there in fits.items():
        expected = f"numbers, as unacorda.Assume(rows=500): a table is for a question about {about}"
        demand(there, "assuming", "a table", expected=expected)
    return sources


@contextmanager
def rows_assumed(
    query: Query, assuming: Assume, *, ask: Callable[[Query], Query]
) -> Iterator[Callable[[str], list[Any]]]:
    """Evaluate a SELECT over `held`, the bounded rows of the assumed public table.

    query: with any aggregates; ask: replaces them by the wanted ones. Raises InvalidParameter if
    the table cannot answer the question, and SourceUnreadable.
    """
    with closing(PublicTables(_sources_of(query, assuming))) as tables:
        asked, unit = _on_public(query, None, tables)
        yield _bounded(ask(asked), unit, tables)


def check_assumption(assuming: object, *queries: Query) -> None:
    """Raise InvalidParameter for a wrong assumption, or for a column that is not used."""
    if not isinstance(assuming, Assume):
        expected = "unacorda.Assume(rows=500, values={'age': [20, 30, 40]}), or "
        expected += "unacorda.Assume.from_table(...) of a public table"
        raise InvalidParameter("assuming", assuming, expected=expected)
    known = [name for q in queries for a in q.aggregates.values() for name in a.assumes]
    listed = ", ".join(dict.fromkeys(known)) or "none here"
    for name in assuming.values if assuming.table is None else ():
        expected = f"columns as the aggregates name them: {listed}"
        demand(name in known, "assuming", name, expected=expected)


_NOTHING = "  there is nothing to compare: no key is found, or answers have several lines"
_FEW = 12  # lines that are shown one by one
_ALL_ROWS = 1_000_000  # of a person: no limit may be more
_SILENT = PureDP(10**6)  # noise far below what one row adds


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedColumn:
    """One column of answers, line by line; None where there is no number.

    limited: within the limits on a person's rows; unlimited: without them; noise: the standard
    error of what would be released, None if unknown.
    """

    limited: tuple[float | None, ...]
    unlimited: tuple[float | None, ...]
    noise: float | None

    @property
    def bias(self) -> tuple[float | None, ...]:
        """The bias of the answers by contribution bounding."""
        pairs = zip(self.limited, self.unlimited, strict=True)
        return tuple(None if x is None or y is None else x - y for x, y in pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedBias:
    """Answers on a public table with and without contribution bounds.

    keys: the group of each line; columns: by aggregate, those with one line for a group.
    """

    keys: tuple[tuple[Key, ...], ...]
    columns: Mapping[str, SimulatedColumn]

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain values."""
        return {
            "keys": [[None if k is None else str(k) for k in key] for key in self.keys],
            "columns": {
                name: {
                    "limited": list(column.limited),
                    "unlimited": list(column.unlimited),
                    "bias": list(column.bias),
                    "noise": column.noise,
                }
                for name, column in self.columns.items()
            },
        }

    @property
    def words(self) -> list[str]:
        """Describe each row if there are few, else the typical and the worst one."""
        lines = ["What the limits on a person's rows would do, tried out on the public table"]
        groups = [",".join(f" {'NULL' if k is None else k}" for k in key) for key in self.keys]
        for name, column in self.columns.items():
            noise = "" if column.noise is None else f", next to noise of {column.noise:.4g}"
            whole = zip(groups, column.limited, column.unlimited, column.bias, strict=True)
            found = [(key, x, y, bias) for key, x, y, bias in whole if bias is not None]
            if found and len(found) <= _FEW:
                lines += [
                    f"  {name}{key}: {x:,.6g}, not {y:,.6g}: {bias:+.4g}{noise}"
                    for key, x, y, bias in found
                ]
            elif found:
                worst = max((bias for *_, bias in found), key=abs)
                mean = math.fsum(abs(bias) for *_, bias in found) / len(found)
                lines.append(
                    f"  {name}: off by {mean:.4g} in the mean of {len(found):,} lines, by "
                    f"{worst:+.4g} at most{noise}"
                )
        return lines if len(lines) > 1 else [*lines, _NOTHING]


def assumed_of(query: Query, assuming: Assume | None, *, account: Guarantee) -> Assumed:
    """Collect the assumed numbers that each aggregate's error depends on.

    account: private keys are assumed to be those that its whole budget would find in the public
    table. Raises InvalidParameter if the table cannot answer the question, and SourceUnreadable.
    """
    if assuming is None or assuming.table is None:
        return dict.fromkeys(query.aggregates, assuming)
    rule = None if query.private is None else allocate(query, account).rule
    with closing(PublicTables(_sources_of(query, assuming))) as tables:
        return _assumed(*_on_public(query, rule, tables), tables)


def simulated(
    query: Query, allocation: Allocation, assuming: Assume | None
) -> tuple[Assumed, SimulatedBias | None]:
    """Collect the assumed numbers that errors depend on, and the bias of the contribution bounds.

    allocation: the noise of the question. The bias is None without a table, and if the unit is a
    row, which has no bounds. Raises as `assumed_of` does.
    """
    if assuming is None or assuming.table is None:
        return dict.fromkeys(query.aggregates, assuming), None
    with closing(PublicTables(_sources_of(query, assuming))) as tables:
        asked, unit = _on_public(query, allocation.rule, tables)
        assumed = _assumed(asked, unit, tables)
        if not isinstance(unit, Person):
            return assumed, None
        if asked.lines != 1 or not asked.keys:
            return assumed, SimulatedBias(keys=(), columns={})
        limited = _answers(asked, unit, tables)
        most = max((n for k in assumed.values() if k for n in k.rows_per_person or ()), default=1)
        unlimited = _answers(asked, _with_rows(unit, most), tables)
    columns = {}
    for name, forecast in allocation.forecasts(asked, assumed).items():
        for column in (f"{name}{part}" for part in asked.aggregates[name].parts):
            columns[column] = SimulatedColumn(
                limited=limited[column], unlimited=unlimited[column], noise=forecast.standard_error
            )
    return assumed, SimulatedBias(keys=asked.released_keys, columns=columns)


def _on_public(query: Query, rule: KeyRule | None, tables: PublicTables) -> tuple[Query, Unit]:
    """The same question of the public table, whatever its types, with all its keys and limits."""
    stated = query.to_dict()
    for table, columns in _columns_of(stated):
        types = tables.schema[table]
        lacking = ", ".join(name for name in columns if name not in types)
        given = f"a table with the columns {', '.join(types)}"
        expected = f"the columns that the question reads of {table!r}; it lacks {lacking}"
        demand(not lacking, "assuming", given, expected=expected)
        for name, column in columns.items():
            column["type"] = plain_type(types[name])
            # What declared bounds cut is to be seen: the aggregates have bounds of their own.
            if isinstance(decode(column.get("fact"), Fact | None, at="fact"), Bounds):
                value = f"TRY_CAST({identifier(name)} AS DOUBLE)"
                scan = tables.scan(table)
                ends = f"SELECT min({value}), max({value}) FROM {scan} WHERE isfinite({value})"
                ((low, high),) = tables.rows(ends)
                if low is not None:
                    fact = column["fact"]
                    fact |= {"lower": min(low, fact["lower"]), "upper": max(high, fact["upper"])}
    asked = question_of(stated)
    if rule is None:
        return asked, asked.limited
    context = SqlContext(unit=asked.limited, scan=tables.scan, salt=0, narrow=True)
    found = compile_found(asked, context)
    with closing(tables.keyed(found)) as held:
        answered, *_ = with_found_keys(asked, held, rule=rule, bits=SeededBits(0))
    return answered, query.limited


def _columns_of(stated: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each table of a question in plain values, with its columns."""
    if "table" in stated:
        yield stated["table"], stated["columns"]
    for side in stated.get("of", ()):
        yield from _columns_of(side)
    for step in stated["steps"]:
        if "lookup" in step:
            yield step["lookup"], step["columns"]


def _with_rows(unit: Person, most: int) -> Person:
    """The same people, with so many rows and no other limit."""
    return Person(unit.id, max_rows=most, neighbors=unit.neighbors)


def _bounded(query: Query, unit: Unit, tables: PublicTables) -> Callable[[str], list[Any]]:
    """What a SELECT gives over `held`, the rows of a question with the limits of a unit."""
    statement = compile_query(query, SqlContext(unit=unit, scan=tables.scan, salt=0))
    return partial(tables.rows, statement=statement)


def _assumed(query: Query, unit: Unit, tables: PublicTables) -> Assumed:
    """What public tables say of the rows that would count, and of rows per person before that."""
    if not query.keys:
        return dict.fromkeys(query.aggregates)
    read = _bounded(query, unit, tables)
    per_person, share = None, None
    if isinstance(unit, Person):
        all_rows = _bounded(query, _with_rows(unit, _ALL_ROWS), tables)
        ids = ", ".join(id_columns(unit))
        per_person = [n for (n,) in all_rows(f"SELECT count(*) FROM held GROUP BY {ids}")] or None
        ((kept,),) = read("SELECT count(*) FROM held")
        share = None if per_person is None else kept / sum(per_person)
    found: dict[str, Assumption | None] = {}
    for name, aggregate in query.aggregates.items():
        columns = {
            label: f"v{query.inputs.index(expression.sql)}::DOUBLE"
            for label, expression in zip(aggregate.assumes, aggregate.expressions, strict=False)
        }
        present = " AND ".join(f"isfinite({value})" for value in columns.values()) or "true"
        ((rows,),) = read(f"SELECT count(*) FROM held WHERE {present}")
        sample = []
        if columns and rows:
            sample = read(
                f"SELECT {', '.join(columns.values())} FROM held WHERE {present} "
                f"ORDER BY hash(held) LIMIT {SAMPLE}"
            )
        values = map(list, zip(*sample, strict=True))
        found[name] = None
        if rows:
            found[name] = Assumption(
                rows=max(1, round(rows / len(query.keys))),
                values=dict(zip(columns, values, strict=True)),
                rows_per_person=per_person,
                rows_kept=share,
            )
    return found


def _answers(query: Query, unit: Unit, tables: PublicTables) -> dict[str, tuple[float | None, ...]]:
    """The answers by column, almost without noise."""
    statement = compile_query(query, SqlContext(unit=unit, scan=tables.scan, salt=0))
    reach = Reach.of(unit, cells=query.cells)
    noises = {name: one.noise(_SILENT, reach) for name, one in query.aggregates.items()}
    silent = Allocation(reach=reach, noises=noises)
    exact = exact_by_name(query, tables.tallies(statement))
    answers = answers_of(query, silent, exact, SeededBits(0))
    return {
        name: tuple(float(v) if isinstance(v, int | float) else None for v in answer.values)
        for name, answer in answers.items()
    }
