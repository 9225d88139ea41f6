"""From a query to DuckDB SQL: normalise, filter, key, bound every person, then count.

The order is the guarantee. Row-wise steps come first; then rows without an id or a public key are
dropped; then each person is bound to her rows; nothing after that multiplies a row. What leaves
the engine is one line of exact integers a cell (and, for quantiles, one a cell and bin).

**How a person is bound.** Her n rows are put in the order of every column in use; rows that are
level are identical, so that their order is without effect. The systematic sample of k rows is kept:
of the rows up to a share x of the order (of all that are level, or none), f(x) = floor(k x + u) are
kept, with u in (0, 1) from a salted hash of her id. Of a group of identical rows that ends at the
share x and begins after x', those are f(x) - f(x'), and which ones is all the same. The choice is a
function of her own rows and the salt alone: removing another person changes nothing of it, and
computing it again gives the same rows. Every row is kept with the same chance k / n (to within
2^-20), also where rows are identical, and the rows kept are spread over her groups and values as
hers are.

**It keeps exactly min(k, n).** A share x is the double next to the quotient of two whole numbers:
the engine's CUME_DIST at the end of a group, and before it (RANK - 1) / n, where PERCENT_RANK =
(RANK - 1) / (n - 1) gives n back exactly. One group's x is the next one's x', and the last one's is
1, so that the counts add up to f(1) - f(0). With k <= 2^20 the error of k x + u is below 2^-30,
while u = (j + 1/2) / 2^20 keeps a distance of 2^-21 from 0 and 1: the sum is k. For m of n > k
rows, f(x) - f(x') is at most m, since k m / n <= m - m / n; for n <= k it is at least m, and no
more than m are there. (A count of a person's rows would say the same more plainly, and made the
whole question a tenth slower.)
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tacet.query.plan import Derive, Filter, Query
from tacet.query.sqltext import double, identifier, literal
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
        _bound(rows, unit=unit, columns=["cell", *(f"v{i}" for i in range(len(inputs)))], salt=salt)
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


def _bound(rows: str, *, unit: Person, columns: Sequence[str], salt: int) -> str:
    k = unit.max_rows
    ids = ", ".join(f"u{index}" for index in range(len(unit.id)))
    high, low = salt >> 64, salt & (2**64 - 1)
    content = ", ".join(columns)
    start = f"((hash({ids}, {high}::UBIGINT, {low}::UBIGINT) >> 44)::DOUBLE + 0.5e0) / 1048576e0"
    ranked = (
        f"SELECT {content}, {ids}, row_number() OVER rows AS place, rank() OVER rows AS head, "
        f"cume_dist() OVER rows AS share, percent_rank() OVER rows AS ahead FROM ({rows}) "
        f"WINDOW rows AS (PARTITION BY {ids} ORDER BY {content})"
    )
    before = "CASE WHEN head = 1 THEN 0e0 ELSE (head - 1) / (round((head - 1) / ahead) + 1e0) END"
    placed = f"SELECT *, {before} AS before, {start} AS u FROM ({ranked})"
    kept = f"floor({double(k)} * share + u) - floor({double(k)} * before + u)"
    return f"SELECT {content}, {ids} FROM ({placed}) WHERE place - head < {kept}"
