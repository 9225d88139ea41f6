"""From a query to DuckDB SQL: normalise, filter, key, bound every person, then count.

The order is the guarantee. Row-wise steps come first, of which none makes several rows of one
before each person is bound to as many as count of them (`relations`); then rows without an id or a
public key are dropped; then each person is bound to their limits, as `bounding` has it; nothing
after that multiplies a row. What leaves the engine is one line of exact integers a cell (and, for
quantiles, one a cell and bin).
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from unacorda.query.aggregates.measures import PeopleCount, check_measure
from unacorda.query.engines.bounding import bound_rows
from unacorda.query.engines.relations import Located, relation
from unacorda.query.plan.query import Query
from unacorda.query.schema.quoting import identifier
from unacorda.query.schema.units import Person, Unit

__all__ = [
    "KeyCountSql",
    "KeyTable",
    "Statement",
    "compile_chosen",
    "compile_found",
    "compile_query",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyTable:
    """The cells: a SELECT of (k0, ..., cell) with lists as parameters. Nothing prints them."""

    sql: str
    columns: tuple[Sequence[object], ...] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyCountSql:
    """SQL that finds private keys: the bounded rows, and how many people have each key.

    keys: the cells of public keys, as `keys`, where there are any. held: a SELECT of the bounded
    rows (u0, ..., cell, k0, ..., v0, ...), with cells of public keys alone. counted: a SELECT of
    (place, people, k0, ...) over `held`, with the places 0, 1, ... in an order that is a function
    of the keys.
    """

    keys: KeyTable | None
    held: str
    counted: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """SQL for one question: what is bounded, and what is counted over it.

    keys: the cells, kept as `keys`, where there are any. bounded: a SELECT of the rows that count.
    counts: the SELECT of one line of integers a cell, `measures` of them, reading a relation named
    `bounded`, as the others do. rankings: for each ranking its SELECT of (cell, place, rows).
    ladders: for each ladder its SELECT of (cell, bin, people, sum of their numbers). The
    integers that may pass 64 bits leave as text.
    """

    measures: int
    keys: KeyTable | None
    bounded: str
    counts: str
    rankings: tuple[str, ...]
    ladders: tuple[str, ...]

    @property
    def scans(self) -> int:
        """How many SELECTs read `bounded`."""
        return self.counted + len(self.rankings) + len(self.ladders)

    @property
    def counted(self) -> bool:
        """Whether `counts` is asked: where nothing else is, it tells whether the engine answers."""
        return self.measures > 0 or not (self.rankings or self.ladders)


def compile_query(
    query: Query, *, unit: Unit, scan: Located, salt: int, narrow: bool = False, once: bool = True
) -> Statement:
    """The SQL of a query.

    scan: where each table is; salt: 128 bits drawn for this question; narrow: whether the engine
    is quicker to order wide rows by few columns, and to join; once: whether it computes what WITH
    names a single time.
    """
    keys = _public_keys(query)
    bounded = _bounded(query, ["cell"], unit=unit, scan=scan, salt=salt, narrow=narrow, once=once)
    return _counted(query, unit=unit, keys=keys, bounded=bounded)


def compile_found(
    query: Query, *, unit: Unit, scan: Located, salt: int, narrow: bool = False, once: bool = True
) -> KeyCountSql:
    """The SQL that finds the private keys of a query; arguments as of `compile_query`."""
    names = _private_names(query)
    listed = ", ".join(names)
    people = PeopleCount().sql(unit)
    return KeyCountSql(
        keys=_public_keys(query),
        held=_bounded(
            query, ["cell", *names], unit=unit, scan=scan, salt=salt, narrow=narrow, once=once
        ),
        counted=f"SELECT row_number() OVER (ORDER BY {listed}) - 1 AS place, * FROM "
        f"(SELECT {people} AS people, {listed} FROM held GROUP BY {listed})",
    )


def compile_chosen(
    query: Query, *, unit: Unit, places: Sequence[int], parts: Sequence[int]
) -> Statement:
    """The SQL of a query whose private keys have been found, over what `KeyCountSql` left behind.

    places, parts: of each cell in order the place of its private keys, and the cell of its public
    ones.
    """
    names = _private_names(query)
    found = ", ".join(f"found.{name}" for name in names)
    numbers = f"unnest($1::BIGINT[]) AS place, unnest($2::UINTEGER[]) AS part, {_numbers(places)}"
    same = " AND ".join(f"held.{name} IS NOT DISTINCT FROM keys.{name}" for name in names)
    values = "".join(f", held.{name}" for name in _others(query, unit))
    return _counted(
        query,
        unit=unit,
        keys=KeyTable(
            sql=f"SELECT {found}, part, cell FROM (SELECT {numbers}) AS listed JOIN found "
            "USING (place)",
            columns=(places, parts),
        ),
        bounded=f"SELECT keys.cell AS cell{values} FROM held JOIN keys ON held.cell = keys.part "
        f"AND {same}",
    )


def _counted(query: Query, *, unit: Unit, keys: KeyTable | None, bounded: str) -> Statement:
    counts = ""
    for index, measure in enumerate(query.measures):
        check_measure(measure)
        counts += f", {measure.sql(unit)}::VARCHAR AS a{index}"
    return Statement(
        measures=len(query.measures),
        keys=keys,
        bounded=bounded,
        counts=f"SELECT cell{counts} FROM bounded GROUP BY cell",
        rankings=tuple(ranking.sql(unit) for ranking in query.rankings),
        ladders=tuple(ladder.sql(unit) for ladder in query.ladders),
    )


def _bounded(
    query: Query,
    cell: Sequence[str],
    *,
    unit: Unit,
    scan: Located,
    salt: int,
    narrow: bool,
    once: bool,
) -> str:
    """SELECT of the rows that count; cell: the columns that tell cells apart."""
    if not isinstance(unit, Person):
        return _rows(query, query.inputs, unit=unit, scan=scan, salt=salt, once=once)
    carried = _carried(query)
    bounded = bound_rows(
        _rows(query, carried, unit=unit, scan=scan, salt=salt, once=once),
        unit=unit,
        cells=query.cells,
        cell=cell,
        values=[f"v{index}" for index in range(len(carried))],
        salt=salt,
        narrow=narrow,
        once=once,
    )
    if carried == query.inputs:
        return bounded
    ids = [f"u{index}" for index in range(len(unit.id))]
    columns = [f"v{index} AS {column}" for index, column in enumerate(carried)]
    values = [f"{sql} AS v{index}" for index, sql in enumerate(query.inputs)]
    return (
        f"SELECT {', '.join([*cell, *values, *ids])} FROM "
        f"(SELECT {', '.join([*cell, *columns, *ids])} FROM ({bounded}) AS kept) AS columns"
    )


def _carried(query: Query) -> tuple[str, ...]:
    """SQL of what a row is bound with: fewer values are sooner put in order.

    Its columns, where they are fewer than the aggregated expressions, which are then computed of
    the rows that stay.
    """
    names = {name for a in query.aggregates.values() for x in a.expressions for name in x.columns}
    inputs = query.inputs
    return tuple(map(identifier, sorted(names))) if 0 < len(names) < len(inputs) else inputs


def _rows(
    query: Query, values: Sequence[str], *, unit: Unit, scan: Located, salt: int, once: bool
) -> str:
    """SELECT (u0, ..., cell, k0, ..., v0, ...): the rows before anyone is bound, with values."""
    text = relation(
        query.rows,
        query.names,
        scan=scan,
        salt=salt,
        unit=unit,
        once=once,
    )
    ids = [identity.sql for identity in query.rows.identities]
    parts = [f"{sql} AS u{index}" for index, sql in enumerate(ids)]
    parts += ["keys.cell AS cell" if query.public_groups else "0::UTINYINT AS cell"]
    private = zip(query.private_groups, _private_names(query), strict=True)
    parts += [f"{group.found} AS {name}" for group, name in private]
    parts += [f"{sql} AS v{index}" for index, sql in enumerate(values)]
    text = f"SELECT {', '.join(parts)} FROM ({text}) AS steps{_join_keys(query)}"
    if isinstance(unit, Person):
        present = " AND ".join(f"{sql} IS NOT NULL" for sql in ids)
        text += f" WHERE {present}"
    return text


def _public_keys(query: Query) -> KeyTable | None:
    """The public keys and the numbers of their cells."""
    groups = query.public_groups
    if not groups:
        return None
    lists = [f"unnest(${n}::{group.type}[]) AS k{n - 1}" for n, group in enumerate(groups, 1)]
    return KeyTable(
        sql=f"SELECT {', '.join(lists)}, {_numbers(query.keys)}",
        columns=tuple(list(column) for column in zip(*query.keys, strict=True)),
    )


def _numbers(cells: Sequence[object]) -> str:
    width = "UTINYINT" if len(cells) < 256 else "UINTEGER"
    return f"unnest(range({len(cells)}))::{width} AS cell"


def _join_keys(query: Query) -> str:
    """Join with the public keys: every row gets the number of its cell, or goes."""
    conditions = []
    for index, group in enumerate(query.public_groups):
        nullable = any(key[index] is None for key in query.keys)
        same = "IS NOT DISTINCT FROM" if nullable else "="
        conditions.append(f"steps.{identifier(group.name)} {same} keys.k{index}")
    return f" JOIN keys ON {' AND '.join(conditions)}" if conditions else ""


def _private_names(query: Query) -> list[str]:
    return [f"k{index}" for index, group in enumerate(query.groups) if group.private]


def _others(query: Query, unit: Unit) -> list[str]:
    """The columns of bounded rows beside their cells."""
    ids = [f"u{index}" for index in range(len(unit.id))] if isinstance(unit, Person) else []
    return [*ids, *(f"v{index}" for index in range(len(query.inputs)))]
