"""From a query to DuckDB SQL: normalise, filter, key, bound every person, then count.

The order is the guarantee. Row-wise steps come first; then rows without an id or a public key are
dropped; then each person is bound to her limits, as `bounding` has it; nothing after that
multiplies a row. What leaves the engine is one line of exact integers a cell (and, for quantiles,
one a cell and bin).
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from dataclasses import dataclass

from tacet.query.bounding import bound_rows
from tacet.query.plan import Derive, Filter, Query
from tacet.query.sqltext import identifier, literal
from tacet.query.units import Person, Unit

__all__ = ["Statement", "compile_query"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """SQL for one question: what is bounded, and what is counted over it.

    bounded: a SELECT of the rows that count. counts: the SELECT of one line of integers a cell,
    reading a relation named `bounded`. rankings: SELECTs of (cell, g), of which the k-th is kept
    as `ranking<k>` where it is asked about again: by finer[k], with lists as parameters; None where
    the histogram says everything. histograms: for each ranking its SELECT of (cell, bin, rows).
    ladders: for each ladder its SELECT of (cell, bin, people, sum of their numbers). The
    integers that may pass 64 bits leave as text.
    """

    bounded: str
    counts: str
    rankings: tuple[str | None, ...]
    finer: tuple[str | None, ...]
    histograms: tuple[str, ...]
    ladders: tuple[str, ...]


def compile_query(query: Query, *, unit: Unit, scan: str, salt: int) -> Statement:
    """The SQL of a query over the relation `scan`; salt: 128 bits drawn for this question."""
    inputs = query.inputs
    counts = "".join(f", {sql}::VARCHAR AS a{index}" for index, sql in enumerate(query.measures))
    rows = _rows(query, unit=unit, scan=scan)
    bounded = (
        bound_rows(
            rows,
            unit=unit,
            cells=len(query.keys),
            columns=["cell", *(f"v{i}" for i in range(len(inputs)))],
            salt=salt,
        )
        if isinstance(unit, Person)
        else rows
    )
    return Statement(
        bounded=bounded,
        counts=f"SELECT cell{counts} FROM bounded GROUP BY cell",
        rankings=tuple(r.relation(unit) if r.shift else None for r in query.rankings),
        finer=tuple(
            r.finer(f"ranking{number}") if r.shift else None
            for number, r in enumerate(query.rankings)
        ),
        histograms=tuple(
            r.first(f"ranking{number}" if r.shift else f"({r.relation(unit)}) AS ranked")
            for number, r in enumerate(query.rankings)
        ),
        ladders=tuple(ladder.sql(unit) for ladder in query.ladders),
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
        ids = [identity.sql for identity in query.identities]
        parts += [f"{sql} AS u{index}" for index, sql in enumerate(ids)]
    cell = "keys.cell" if query.groups else "0::UTINYINT"
    parts += [f"{cell} AS cell"]
    parts += [f"{sql} AS v{index}" for index, sql in enumerate(query.inputs)]
    text = f"SELECT {', '.join(parts)} FROM ({text}) AS steps{_join_keys(query)}"
    if isinstance(unit, Person):
        present = " AND ".join(f"{sql} IS NOT NULL" for sql in ids)
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
    typed = [
        f"{name}::{group.type} AS {name}" for name, group in zip(names, query.groups, strict=True)
    ]
    casts = ", ".join([*typed, f"cell::{width} AS cell"])
    conditions = []
    for index, group in enumerate(query.groups):
        nullable = any(key[index] is None for key in query.keys)
        same = "IS NOT DISTINCT FROM" if nullable else "="
        conditions.append(f"steps.{identifier(group.name)} {same} keys.{names[index]}")
    return (
        f" JOIN (SELECT {casts} FROM (VALUES {lines}) AS listed({', '.join(names)}, cell)) AS keys "
        f"ON {' AND '.join(conditions)}"
    )
