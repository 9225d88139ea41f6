"""Dates and instants at both ends of every type that PostgreSQL has: an answer, never a failure."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Sequence
from typing import Any

import duckdb
import psycopg
import pyarrow as pa
import pytest
from tests.postgres_server import server
from tests.query import expressions_alike
from tests.query.engines_alike import counted
from tests.query.expressions_alike import ALIKE, COLUMNS
from tests.query.postgres_tables import url
from tests.query.test_postgres_values import values_of
from tests.support import extremes
from tests.support.seams import Column, Kind, Session, Untranslatable, parse
from tests.support.seams import translate_to_postgres as translate

import unacorda
from unacorda.bits import SeededBits
from unacorda.errors import InvalidParameter

pytestmark = pytest.mark.service

DATES = (
    *(None, "-infinity", "4714-11-24 BC", "4714-11-25 BC", "0001-12-31 BC", "0001-01-01"),
    *("1969-12-31", "1970-01-01", "9999-12-31", "10000-01-01", "294247-01-10", "294247-01-11"),
    *("294276-12-31", "294277-01-01", "5874897-12-30", "5874897-12-31", "infinity"),
)
INSTANTS = (
    *(None, "-infinity", "4714-11-24 00:00:00 BC", "4714-11-24 00:00:00.000001 BC"),
    *("0001-12-31 23:59:59.999999 BC", "0001-01-01 00:00:00", "1969-12-31 23:59:59.999999"),
    *("1970-01-01 00:00:00", "9999-12-31 23:59:59.999999", "294246-12-31 23:59:59.999999"),
    *("294247-01-10 04:00:54.775806", "294247-01-10 04:00:54.775807"),
    *("294247-01-10 04:00:54.775808", "294276-12-31 00:00:00", "294276-12-31 23:59:59.999999"),
    *("9999-12-31 00:00:00", "infinity"),
)
LAST = "294247-01-10 04:00:54.775806"
"""DuckDB's last instant: what is later is as late as can be."""
TYPES = ("timestamp", "timestamptz(3)", "timestamp(0)", "timestamptz")
SHARED = {
    "d": extremes.of_dates("d"),
    "s": extremes.of_instants("s"),
    "e": extremes.of_dates("d", "e"),
    "r": extremes.of_instants("s", "r"),
    "both": extremes.of_instants("d", "s"),
}
"""All that the language can do with one value, beside a constant or another column."""
QUICK = (("timestamptz(3)", "d"), ("timestamptz(3)", "s"))
MOMENTS = [
    text
    for text in ALIKE
    if {name[0] for name in parse(text, columns=COLUMNS).columns} <= set("desr")
]
_numbers = itertools.count(1)


def pairs() -> list[tuple[str | None, ...]]:
    """Every date beside every date and every instant, every instant beside every instant."""
    assert len(DATES) == len(INSTANTS)
    both = itertools.product(range(len(DATES)), repeat=2)
    found = {
        row
        for i, j in both
        for row in (
            (DATES[i], DATES[j], INSTANTS[i], INSTANTS[j]),
            (DATES[j], DATES[i], INSTANTS[i], INSTANTS[j]),
        )
    }
    return sorted(found, key=str)


def made(kind: str, rows: Sequence[tuple[str | None, ...]]) -> str:
    """A table of the server with an `n`, two dates and two instants of a type."""
    name = f"public.moments_{next(_numbers)}"
    with contextlib.closing(server().connect()) as there:
        there.execute(
            f"CREATE TABLE {name} (n bigint, d date, e date, s {kind}, r {kind})".encode()
        )
        with there.cursor().copy(f"COPY {name} FROM STDIN".encode()) as copy:
            for number, row in enumerate(rows):
                copy.write_row((number, *row))
    return name


def held(name: str, *, most: str = LAST) -> pa.Table:
    """The same rows in DuckDB, with what it does not have at the end of time."""

    def moment(column: str, kind: str) -> str:
        late = f"{column} > '{most}'" if kind == "timestamp" else "false"
        return (
            f"CASE WHEN {late} THEN 'infinity' ELSE regexp_replace({column}::{kind}::text, "
            f"'^([0-9]+-[0-9]+-[0-9]+)(.*) BC$', '\\1 (BC)\\2') END"
        )

    kinds = {"d": "date", "e": "date", "s": "timestamp", "r": "timestamp"}
    listed = ", ".join(moment(column, kind) for column, kind in kinds.items())
    with contextlib.closing(server().connect()) as there:
        there.execute("SET TimeZone = 'UTC'")
        rows = there.execute(f"SELECT n, {listed} FROM {name} ORDER BY n".encode()).fetchall()
    texts = dict(zip(("n", *kinds), zip(*rows, strict=True), strict=True))
    with duckdb.connect(":memory:") as connection:
        connection.register("texts", pa.table(texts))
        casts = ", ".join(f"{column}::{kind} AS {column}" for column, kind in kinds.items())
        return connection.sql(f"SELECT n, {casts} FROM texts").to_arrow_table()


def session(name: str) -> Session:
    return Session(
        {"t": name},
        unit=unacorda.Row(),
        budget=unacorda.PureDP(1000),
        bits=SeededBits(7),
        engine=url(),
    )


@pytest.mark.parametrize(
    "kind", [TYPES[0], *(pytest.param(kind, marks=pytest.mark.slow) for kind in TYPES[1:])]
)
def test_every_function_of_dates_and_instants_is_answered_at_both_ends(kind: str) -> None:
    """As DuckDB answers it: beyond the years of the language there is none."""
    name = made(kind, pairs())
    with session(name) as opened:
        table = opened._engine._opened[0].table  # type: ignore[attr-defined]
    assert len(MOMENTS) >= 80
    assert not expressions_alike.differences(values_of(table), held(name), MOMENTS)


@pytest.mark.parametrize(
    ("kind", "other"),
    [
        pytest.param(kind, other, marks=[pytest.mark.slow] * ((kind, other) not in QUICK))
        for kind in TYPES[1:]
        for other in SHARED
    ],
)
def test_no_expression_of_dates_and_instants_fails_at_an_end(kind: str, other: str) -> None:
    """What PostgreSQL has no equal of is refused whatever the values are."""
    name = made(kind, pairs())
    with session(name) as opened:
        columns = {"d": Kind.DATE, "e": Kind.DATE, "s": Kind.TIMESTAMP, "r": Kind.TIMESTAMP}
        scope = {name: Column(name, kind) for name, kind in columns.items()}
        table = opened._engine._opened[0].table  # type: ignore[attr-defined]
        expressions, refused = [], []
        for text in SHARED[other]:
            try:
                expression = parse(text, columns=scope)
                translate(f"SELECT {expression.sql} AS x FROM data", tables={"data": table})
            except (InvalidParameter, Untranslatable):
                refused.append(text)
            else:
                expressions.append(text)
        assert len(expressions) > len(refused), refused
        assert not extremes.failing(opened, expressions)


def test_the_usual_sentinel_of_no_end_is_answered_in_a_question() -> None:
    name = made("timestamp", [("5874897-12-31", None, "294276-12-31", "294276-12-31 23:59:59")])
    with session(name) as opened:
        query = opened.table("t").agg(
            epoch=unacorda.sum("extract(epoch from s)", 0, 1),
            since=unacorda.count_if("date_diff('second', r, s) > 0"),
            late=unacorda.count_if("s > '2024-01-01'"),
            never=unacorda.count_if("s IS NULL"),
            days=unacorda.sum("extract(year from d)", 0, 10_000_000),
        )
        assert counted(opened, query)["sums"]


@pytest.mark.parametrize(
    "text",
    [
        *("5881580-07-10", "5874898-01-01", "294276-12-31", "infinity", "-infinity", "epoch"),
        *("2024-1-3", "24-01-01", "2024-02-30", "0000-01-01", "0044-03-15 (BC)", "today", "now"),
        *("20240131", "2024-01-31 24:00:00", "2024-01-31 10:00:00+02"),
    ],
)
def test_a_constant_that_is_written_otherwise_is_no_date(text: str) -> None:
    """PostgreSQL would read most of these, some of them as the present day."""
    with session(made("timestamp", [("2024-01-31", None, "2024-01-31 10:00:00", None)])) as opened:
        for kind, column in (("DATE", "d"), ("TIMESTAMP", "s")):
            read = f"TRY_CAST('{text}' AS {kind})"
            query = opened.table("t").agg(
                n=unacorda.count_if(f"{column} > {read}"), m=unacorda.count_if(f"{read} IS NULL")
            )
            assert counted(opened, query)["sums"] == {0: (0, 1)}


def test_by_itself_postgresql_would_raise() -> None:
    """What the reading of instants is for."""
    name = made("timestamp", [(None, None, "294276-12-31", None)])
    with (
        contextlib.closing(server().connect()) as there,
        pytest.raises(psycopg.DataError, match="out of range"),
    ):
        there.execute(
            f"SELECT CAST(extract(EPOCH FROM s) * 1000000 AS bigint) FROM {name}".encode()
        )


def test_what_is_compared_is_all_of_a_type() -> None:
    """Its first and last value: one step further PostgreSQL has none."""
    ends: list[tuple[str, str, str]] = [
        ("date", "4714-11-23 BC", "5874898-01-01"),
        ("timestamp", "4714-11-23 23:59:59.999999 BC", "294277-01-01 00:00:00"),
    ]
    with contextlib.closing(server().connect()) as there:
        for kind, before, after in ends:
            for text in (before, after):
                found: Any = there.execute("SELECT pg_input_is_valid(%s, %s)", (text, kind))
                assert found.fetchone() == (False,)
