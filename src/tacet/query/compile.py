"""From a query to DuckDB SQL: normalise, filter, key, bound every person, then count.

The order is the guarantee. Row-wise steps come first; then rows without an id or a public key are
dropped; then each person is bound to her rows; nothing after that multiplies a row. What leaves
the engine is one line of exact integers a cell (and, for quantiles, one a cell and bin).

**How a person is bound.** Her rows are put in an order given by a salted hash of her id and of
every column in use, with those columns as tie-breaks, so that rows which are still level are
identical and their order is without effect. Of her n rows the k that follow a salted start in
that order are kept, round the end. The choice is a function of her own rows and the salt alone:
removing another person changes nothing of it, and computing it again gives the same rows. It keeps
exactly min(k, n) rows whatever the start is, and every row with the same chance k/n, also where
rows are identical (the k least hashes would prefer rare rows to repeated ones).
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tacet.query.plan import Derive, Filter, Query
from tacet.query.sqltext import identifier, literal
from tacet.query.units import Person, Unit

__all__ = ["Statement", "compile_query"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """SQL for one question: what is bounded, and what is counted over it.

    bounded: a SELECT of the rows that count. counts: the SELECT of one line of integers a cell,
    reading a relation named `bounded`. histograms: for each quantile its SELECT of (cell, bin,
    rows). The integers that may pass 64 bits leave as text.
    """

    bounded: str
    counts: str
    histograms: tuple[str, ...]


def compile_query(query: Query, *, unit: Unit, scan: str, salt: int) -> Statement:
    """The SQL of a query over the relation `scan`; salt: 128 bits drawn for this question."""
    inputs = query.inputs
    counts = "".join(f", {sql}::VARCHAR AS a{index}" for index, sql in enumerate(query.measures))
    rows = _rows(query, unit=unit, scan=scan)
    bounded = (
        _bound(rows, unit=unit, columns=["cell", *(f"v{i}" for i in range(len(inputs)))], salt=salt)
        if isinstance(unit, Person)
        else rows
    )
    return Statement(
        bounded=bounded,
        counts=f"SELECT cell{counts} FROM bounded GROUP BY cell",
        histograms=tuple(
            f"SELECT cell, bin, count(*) AS n FROM (SELECT cell, {bins} AS bin FROM bounded) "
            "WHERE bin IS NOT NULL GROUP BY cell, bin"
            for bins in query.bins
        ),
    )


def _rows(query: Query, *, unit: Unit, scan: str) -> str:
    """SELECT (u0, ..., cell, v0, ...): the rows of the question before anyone is bound."""
    leaves = ", ".join(f"{leaf.sql} AS {identifier(leaf.name)}" for leaf in query.leaves)
    text = f"SELECT {leaves or '1 AS nothing'} FROM {scan}"
    for step in query.steps:
        match step:
            case Filter(expression=expression):
                text = f"SELECT * FROM ({text}) WHERE {expression.sql}"
            case Derive(name=name, expression=expression):
                text = f"SELECT *, {expression.sql} AS {identifier(name)} FROM ({text})"
    parts = []
    if isinstance(unit, Person):
        ids = [identifier(leaf.name) for leaf in query.id_leaves]
        parts += [f"{name} AS u{index}" for index, name in enumerate(ids)]
    cell = "keys.cell" if query.groups else "0::UTINYINT"
    parts += [f"{cell} AS cell"]
    parts += [f"{sql} AS v{index}" for index, sql in enumerate(query.inputs)]
    text = f"SELECT {', '.join(parts)} FROM ({text}) AS steps{_join_keys(query)}"
    if isinstance(unit, Person):
        present = " AND ".join(f"{name} IS NOT NULL" for name in ids)
        text += f" WHERE {present}"
    return text


def _join_keys(query: Query) -> str:
    """Join with the public keys: every row gets the number of its cell, or goes."""
    if not query.groups:
        return ""
    lines = ", ".join(
        f"({', '.join(literal(part) for part in key)}, {number})"
        for number, key in enumerate(query.keys)
    )
    names = [f"k{index}" for index in range(len(query.groups))]
    width = "UTINYINT" if len(query.keys) < 256 else "UINTEGER"
    casts = ", ".join([*names, f"cell::{width} AS cell"])
    conditions = []
    for index, group in enumerate(query.groups):
        nullable = any(key[index] is None for key in query.keys)
        same = "IS NOT DISTINCT FROM" if nullable else "="
        conditions.append(
            f"steps.{identifier(group.name)} {same} {_typed(group.type, names[index])}"
        )
    return (
        f" JOIN (SELECT {casts} FROM (VALUES {lines}) AS listed({', '.join(names)}, cell)) AS keys "
        f"ON {' AND '.join(conditions)}"
    )


def _bound(rows: str, *, unit: Person, columns: Sequence[str], salt: int) -> str:
    k = unit.max_rows
    ids = ", ".join(f"u{index}" for index in range(len(unit.id)))
    high, low = salt >> 64, salt & (2**64 - 1)
    keyed = f"{high}::UBIGINT, {low}::UBIGINT, {ids}"
    content = ", ".join(columns)
    start = f"floor((hash({keyed}) >> 12)::DOUBLE / 4503599627370496.0e0 * owned)"
    ranked = (
        f"SELECT {content}, {ids}, row_number() OVER (PARTITION BY {ids} "
        f"ORDER BY hash({keyed}, {content}), {content}) - 1 AS place, "
        f"count(*) OVER (PARTITION BY {ids}) AS owned FROM ({rows})"
    )
    placed = f"SELECT *, {start} AS first FROM ({ranked})"
    # Places 0 .. owned - 1, each once; for any first in [0, owned] this keeps min(k, owned).
    return (
        f"SELECT {content}, {ids} FROM ({placed}) WHERE CASE WHEN place >= first "
        f"THEN place < first + {k} ELSE place + owned < first + {k} END"
    )


def _typed(sql_type: str, name: str) -> str:
    return f"keys.{name}::{sql_type}"
