"""Tables of a PostgreSQL server: which there are, what is refused, and what goes wrong."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import datetime as dt
import decimal
import itertools
import random
from collections.abc import Iterator
from typing import Any

import psycopg
import pyarrow as pa
import pytest
import sqlalchemy
from tests.postgres_server import Server, server
from tests.query.engines_alike import TABLE, counted, forged, opened_on
from tests.query.postgres_tables import stored, url
from tests.support.seams import PostgresAsking, Query, Session, Statement, Unit

import unacorda
from unacorda.bits import SeededBits
from unacorda.errors import (
    EngineFailed,
    InvalidParameter,
    SourceChanged,
    SourceUnreadable,
)

pytestmark = pytest.mark.service

_numbers = itertools.count(1)


@pytest.fixture
def there() -> Iterator[psycopg.Connection]:
    """A connection beside the engine, in a schema of its own."""
    with contextlib.closing(server().connect()) as connection:
        name = f"clinic_{next(_numbers)}"
        connection.execute(f"CREATE SCHEMA {name}".encode())
        connection.execute(f"SET search_path = {name}".encode())
        yield connection


def schema(there: psycopg.Connection) -> str:
    found = there.execute("SELECT current_schema()").fetchone()
    assert found is not None
    return str(found[0])


def opened(source: object, *, unit: Unit | None = None, engine: object = None) -> Session:
    return Session(
        {"t": source},
        unit=unacorda.Row() if unit is None else unit,
        budget=unacorda.ApproxDP(100, "1e-3"),
        bits=SeededBits(7),
        engine=engine or url(),
    )


def rows(session: Session) -> int:
    (found,) = counted(session, session.table("t").agg(n=unacorda.count()))["sums"].values()
    return int(found[0])


# ---- types -------------------------------------------------------------------------------------


def test_columns_of_every_type_count_the_same(there: psycopg.Connection) -> None:
    """As DuckDB counts an Arrow table of the same values."""
    many = 60
    drawn = random.Random(8)
    days = [dt.date(1969, 12, 30) + dt.timedelta(days=drawn.randrange(9)) for _ in range(many)]
    numbers = [decimal.Decimal(drawn.randrange(-(10**18), 10**18)) / 1000 for _ in range(many)]
    leap_day = 1_709_164_800_000_000  # 2024-02-29
    moments = [leap_day + drawn.randrange(24) * 3_600_000_000 + 7 for _ in range(many)]
    wide = [decimal.Decimal(drawn.randrange(-(10**37), 10**19)) for _ in range(many)]
    table = pa.table(
        {
            "key": pa.array([drawn.choice(["01", "1", "é", "z", "Z", None]) for _ in range(many)]),
            "day": pa.array(days, pa.date32()),
            "cost": pa.array(numbers, pa.decimal128(18, 3)),
            "wide": pa.array(wide, pa.decimal128(38, 0)),
            "at": pa.array(moments, pa.timestamp("us")),
            "zoned": pa.array(moments, pa.timestamp("us", tz="America/New_York")),
            "small": pa.array([drawn.choice([None, -128, 127]) for _ in range(many)], pa.int8()),
            "single": pa.array([drawn.random() for _ in range(many)], pa.float32()),
            "flag": pa.array([drawn.choice([None, True, False]) for _ in range(many)]),
        }
    )

    def ask(query: Query) -> Query:
        return (
            query.where("at > '2024-02-29 01:00' OR flag")
            .derive(hour="extract(hour from zoned)", month="date_trunc('month', day)")
            .group_by("month", keys=[dt.date(1969, 12, 1), dt.date(1970, 1, 1)])
            .agg(
                cost=unacorda.sum("cost", -(10**15), 10**15),
                wide=unacorda.sum("wide", -(10**38), 0),
                wides=unacorda.count_distinct("CAST(wide AS DOUBLE)"),
                hours=unacorda.sum("hour", 0, 24),
                small=unacorda.mean("small", -200, 200),
                single=unacorda.variance("single", 0, 1),
                days=unacorda.count_distinct("day"),
                keys=unacorda.count_distinct("key"),
                late=unacorda.count_if("key > 'Y'"),
                true=unacorda.count_if("flag"),
            )
        )

    found = []
    unit = unacorda.Person("cost", max_rows=50)
    for engine in ("duckdb", "postgresql"):
        with opened_on(engine, table, unit=unit) as session:
            found.append(counted(session, ask(session.table("t"))))
    assert found[0] == found[1]
    assert len(found[0]["sums"]) == 2


def test_types_that_duckdb_does_not_have_are_read_as_written(there: psycopg.Connection) -> None:
    there.execute(
        "CREATE TYPE mood AS ENUM ('sad', 'happy'); CREATE DOMAIN age AS int CHECK (VALUE > 0);"
        "CREATE TABLE t (id uuid, feels mood, years age, code char(5), short varchar(3), "
        "free numeric, fine numeric(30, 20), list int[], doc jsonb, span interval);"
        "INSERT INTO t (id, feels, years, code, short, free, fine) VALUES "
        "('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'sad', 5, 'a', 'é', 1e400, 1.5),"
        "('A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11', 'happy', 7, 'a  ', 'b', -1e-400, 2.5),"
        "(null, null, null, null, null, 'NaN', 'NaN'),"
        "('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12', 'sad', 9, 'c', 'b', '-Infinity', 0.25)"
    )
    with opened(f"{schema(there)}.t", unit=unacorda.Person("id", max_rows=9)) as session:
        t = session.table("t")
        query = t.group_by("feels", keys=["sad", "happy"]).agg(n=unacorda.count_people())
        assert counted(session, query)["sums"] == {0: (2,), 1: (1,)}
        assert counted(session, t.agg(n=unacorda.count_people()))["sums"] == {0: (2,)}
        conditions = {
            "code = 'a'": 2,
            "short = 'é'": 1,
            "free = 1e100": 1,
            "free = 0": 1,
            "free = -1e100": 1,
            "free IS NULL": 0,
            "fine > 1": 2,
            "feels = 'happy'": 1,
        }
        for condition, expected in conditions.items():
            asked = t.agg(n=unacorda.count_if(condition))
            assert counted(session, asked)["sums"].get(0, (0,)) == (expected,), condition
        with pytest.raises(InvalidParameter):
            t.agg(n=unacorda.count("list"))
    with opened(f"{schema(there)}.t") as session:
        for condition, expected in {
            "free IS NULL": 1,
            "fine IS NULL": 1,
            "years IS NULL": 1,
        }.items():
            asked = session.table("t").agg(n=unacorda.count_if(condition))
            assert counted(session, asked)["sums"][0][0] == expected, condition


def test_names_and_collations_of_any_sort(there: psycopg.Connection) -> None:
    long = "ä" * 31
    there.execute(
        f'CREATE TABLE "a ""b""" ("{long}" text COLLATE "unicode", "x y" float8, v text);'
        'INSERT INTO "a ""b""" VALUES '
        f"('a', 1, 'ä'), ('B', 2, E'a\\\\b'), ('b', 'NaN', '%')".encode()
    )
    with opened(f'{schema(there)}."a ""b"""') as session:
        t = session.table("t")
        for condition, expected in {
            f"\"{long}\" < 'a'": 1,  # by code point, not as a dictionary has it
            f"lower(\"{long}\") = 'b'": 2,
            '"x y" >= 1': 2,
            "upper(v) = 'Ä'": 1,
            "v LIKE '%\\%'": 1,  # a backslash is one
            "v LIKE 'a\\_'": 1,
        }.items():
            asked = t.agg(n=unacorda.count_if(condition))
            assert counted(session, asked)["sums"][0][0] == expected, condition


# ---- which tables there are --------------------------------------------------------------------


def test_only_what_is_stored_is_a_table(there: psycopg.Connection) -> None:
    name = schema(there)
    there.execute(
        "CREATE TABLE t (a int); INSERT INTO t VALUES (1), (2);"
        "CREATE VIEW noisy AS SELECT * FROM t WHERE random() < 0.5;"
        "CREATE MATERIALIZED VIEW kept AS SELECT * FROM t;"
        "CREATE TABLE parts (a int) PARTITION BY RANGE (a);"
        "CREATE TABLE part PARTITION OF parts FOR VALUES FROM (0) TO (9);"
        "INSERT INTO parts VALUES (1);"
        'CREATE TABLE twins (a int, "A" int); CREATE SEQUENCE s'
    )
    for source, expected in {"t": 2, "kept": 2, "parts": 1, "T": 2}.items():
        with opened(f"{name}.{source}") as session:
            assert rows(session) == expected
    refused = {
        f"{name}.noisy": "materialise",
        f"{name}.s": "no table",
        f"{name}.none": "no table that this user can see",
        f'{name}."T"': "no table that this user can see",
        f"{name}.twins": "capitals",
        "t": "schema.table",
        f"{name}.t; DROP TABLE t": "schema.table",
        "visits.csv": "no table",
    }
    for source, said in refused.items():
        with pytest.raises(InvalidParameter, match=said):
            opened(source)
    with pytest.raises(InvalidParameter, match="duckdb"):
        opened(TABLE)


def test_who_sees_some_rows_only_is_refused(there: psycopg.Connection) -> None:
    """A policy can hide random(), as a view can."""
    name = schema(there)
    there.execute(
        f"CREATE ROLE reader_{name} LOGIN; GRANT USAGE ON SCHEMA {name} TO reader_{name};"
        "CREATE TABLE plain (a int); INSERT INTO plain VALUES (1);"
        "CREATE TABLE secret (a int); CREATE TABLE t (a int);"
        f"GRANT SELECT ON plain, t TO reader_{name};"
        "ALTER TABLE t ENABLE ROW LEVEL SECURITY;"
        "CREATE POLICY chance ON t USING (random() < 0.5)".encode()
    )
    address = url().replace("postgres@", f"reader_{name}@")
    with opened(f"{name}.plain", engine=address) as session:  # who may only read
        session.evaluate(session.table("t").agg(n=unacorda.count()), budget=unacorda.PureDP(1))
    with pytest.raises(InvalidParameter, match="row security"):
        opened(f"{name}.t", engine=address)
    with pytest.raises(InvalidParameter, match="GRANT SELECT"):
        opened(f"{name}.secret", engine=address)


def test_servers_that_are_not_there_are_named_without_a_password(tmp_path: object) -> None:
    address = f"postgresql://ann:topsecret@/db?host={tmp_path}"
    with pytest.raises(SourceUnreadable, match="cannot be asked") as failed:
        opened("public.t", engine=address)
    assert "topsecret" not in str(failed.value)
    with pytest.raises(InvalidParameter, match="postgresql://user@host") as refused:
        opened("public.t", engine="postgresql://ann:topsecret@host:port/db?x")
    assert "topsecret" not in str(refused.value)


def test_a_database_in_another_encoding_is_refused(there: psycopg.Connection) -> None:
    name = f"latin_{schema(there)}"
    there.execute(f"CREATE DATABASE {name} ENCODING 'LATIN1' TEMPLATE template0".encode())
    with pytest.raises(InvalidParameter, match="UTF8"):
        opened("public.t", engine=url().replace("/postgres?", f"/{name}?"))


def test_an_engine_of_sqlalchemy_is_taken_as_it_connects(
    there: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    """Its listeners are heard, and none of its own connections is touched."""
    name = schema(there)
    there.execute("CREATE TABLE t AS SELECT i AS x FROM generate_series(1, 100) AS i")
    seen: list[int] = []
    made = sqlalchemy.create_engine(url(), pool_size=1, max_overflow=0, pool_timeout=1, echo=True)

    @sqlalchemy.event.listens_for(made, "connect")
    def heard(connection: psycopg.Connection[Any], _record: object) -> None:
        seen.append(1)
        connection.row_factory = psycopg.rows.dict_row
        connection.execute("SELECT 1")  # and leaves a transaction open

    query = {"n": unacorda.count(), "m": unacorda.median("x", 0, 1000, resolution=0.01)}
    with made.connect() as kept:  # all that its pool has
        kept.exec_driver_sql("SET ROLE pg_monitor")
        caplog.clear()
        with opened(f"{name}.t", engine=made) as session:
            assert rows(session) == 100
            release = session.evaluate(session.table("t").agg(**query), budget=unacorda.PureDP(50))
            seeds = [release.to_dicts(), session.spent]
            before = len(seen)
            there.execute("DROP TABLE t")
            with pytest.raises(SourceChanged):
                session.evaluate(session.table("t").agg(**query), budget=unacorda.PureDP(1))
        assert before > 3
        assert not kept.closed
        assert not any("generate_series" in r.getMessage() or name in r.getMessage()
                       for r in caplog.records)  # fmt: skip
    there.execute("CREATE TABLE t AS SELECT i AS x FROM generate_series(1, 100) AS i")
    with opened(f"{name}.t") as session:
        rows(session)
        release = session.evaluate(session.table("t").agg(**query), budget=unacorda.PureDP(50))
        assert seeds == [release.to_dicts(), session.spent]
    made.dispose()


def test_engines_of_other_databases_are_refused_and_no_password_is_shown(tmp_path: object) -> None:
    with pytest.raises(InvalidParameter, match=r"an Engine of sqlite.*postgresql\+psycopg://"):
        opened("public.t", engine=sqlalchemy.create_engine("sqlite://"))
    with pytest.raises(InvalidParameter, match="a SQLAlchemy Engine"):
        opened("public.t", engine=sqlalchemy.make_url(url()))
    for address in ("mysql://ann:topsecret@host/db", "postgres+asyncpg://ann:topsecret@host/db"):
        with pytest.raises(InvalidParameter, match="SQLAlchemy Engine") as refused:
            opened("public.t", engine=address)
        assert "topsecret" not in str(refused.value) + repr(refused.value.value)
    gone = f"postgresql+psycopg://ann:topsecret@/db?host={tmp_path}"
    with pytest.raises(SourceUnreadable, match="cannot be asked") as failed:
        opened("public.t", engine=sqlalchemy.create_engine(gone))
    assert "topsecret" not in str(failed.value)
    assert failed.value.__context__ is None


# ---- one question sees one table ---------------------------------------------------------------


def test_a_question_of_several_reads_sees_one_state(
    there: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = schema(there)
    there.execute("CREATE TABLE t AS SELECT i AS x FROM generate_series(1, 100) AS i")
    with opened(f"{name}.t") as session:
        query = session.table("t").agg(m=unacorda.median("x", 0, 1000), n=unacorda.count())
        right = PostgresAsking.fetch

        def disturbed(asking: PostgresAsking, *given: Any) -> dict[str, list[Any]]:
            found = right(asking, *given)
            there.execute("INSERT INTO t SELECT 5 FROM generate_series(1, 1000)")
            return found

        monkeypatch.setattr(PostgresAsking, "fetch", disturbed)
        found = counted(session, query)
        monkeypatch.undo()
        assert found["sums"] == {0: (100,)}
        assert sum(count for *_, count in found["histograms"][0]) == 100
        assert rows(session) == 2100


def test_a_table_that_is_another_one_is_noticed(there: psycopg.Connection) -> None:
    name = schema(there)
    there.execute("CREATE TABLE t (a int); INSERT INTO t VALUES (1)")
    with opened(f"{name}.t") as session:
        query = session.table("t").agg(n=unacorda.count())
        for change in (
            "ALTER TABLE t ADD COLUMN b int",
            "ALTER TABLE t DROP COLUMN b, ALTER COLUMN a TYPE bigint",
            "DROP TABLE t",
            "CREATE VIEW t AS SELECT CAST(1 AS int) AS a WHERE random() < 0.5",
        ):
            there.execute(change)
            with pytest.raises(SourceChanged, match="new session"):
                session.evaluate(query, budget=unacorda.PureDP(1))
        assert session.spent == unacorda.ApproxDP(0, 0)
        session._engine.check_sources = lambda: None  # type: ignore[method-assign]
        with pytest.raises(EngineFailed):  # the question itself looks again
            session.evaluate(query, budget=unacorda.PureDP(1))


def test_nothing_is_written_and_no_function_of_a_user_is_called(there: psycopg.Connection) -> None:
    name = schema(there)
    there.execute(
        "CREATE TABLE t (a text, x float8); INSERT INTO t VALUES ('a', 1), ('b', 2);"
        "CREATE FUNCTION public.length(text) RETURNS int LANGUAGE sql AS 'SELECT 1000'"
    )
    here = f"ALTER ROLE postgres SET search_path = public, {name}, pg_catalog"
    try:
        there.execute(here.encode())
        with opened(f"{name}.t", unit=unacorda.Person("a", max_rows=1)) as session:
            asked = session.table("t").agg(n=unacorda.count_if("length(a) > 1"))
            assert counted(session, asked)["sums"] == {}  # no row fulfils it
            asking: Any = session._engine._begin()
            with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
                asking._cursor.execute(f"INSERT INTO {name}.t VALUES ('c', 3)")
            asking.close()
    finally:
        there.execute("ALTER ROLE postgres RESET search_path; DROP FUNCTION public.length(text)")


def statement(bounded: str) -> Statement:
    return Statement(
        measures=1,
        keys=None,
        bounded=bounded,
        counts="SELECT cell, sum(x)::VARCHAR AS a0 FROM bounded GROUP BY cell",
        rankings=(),
        ladders=(),
    )


# ---- faults ------------------------------------------------------------------------------------


def test_failures_tell_nothing_and_stay_spent(caplog: pytest.LogCaptureFixture) -> None:
    """A sum of 9223372036854775807 and itself: the server's words would show neither."""
    table = pa.table({"x": pa.array([2**63 - 1] * 2, pa.int64())})
    with opened(stored(table)) as session:
        broken = statement("SELECT x + x AS x, 0::UTINYINT AS cell FROM source0")
        with pytest.raises(EngineFailed) as failed:
            session._engine.run(forged(session, broken))
        assert failed.value.__cause__ is None
        assert failed.value.__context__ is None
        assert not caplog.records


@pytest.mark.long
def test_a_server_that_goes_away_tells_nothing_and_the_spend_stays() -> None:
    running = Server()
    with contextlib.closing(running.connect()) as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS a")
    with opened("public.t", engine=running.url) as session:
        query = session.table("t").agg(n=unacorda.count())
        session._engine.check_sources = lambda: None  # type: ignore[method-assign]
        running.crash()
        with pytest.raises(EngineFailed):
            session.evaluate(query, budget=unacorda.PureDP(1))
        assert session.spent == unacorda.ApproxDP(1, 0)
        running.start()
        session.evaluate(query, budget=unacorda.PureDP(1))
        assert session.spent == unacorda.ApproxDP(2, 0)


def test_keys_of_every_sort_are_found_and_listed() -> None:
    many = 400
    drawn = random.Random(4)
    table = pa.table(
        {
            "who": [drawn.randrange(200) for _ in range(many)],
            "day": pa.array([drawn.choice([0, 1, None]) for _ in range(many)], pa.date32()),
            "n": pa.array([drawn.choice([-1, 2**40, None]) for _ in range(many)], pa.int64()),
            "f": pa.array([drawn.choice([True, False, None]) for _ in range(many)]),
        }
    )
    found = []
    for engine in ("duckdb", "postgresql"):
        with opened_on(engine, table, unit=unacorda.Person("who", max_rows=50)) as session:
            asked: dict[str, list[Any]] = {
                "day": [dt.date(1970, 1, 1), None],
                "n": [None, 2**40, 5],
                "f": [None, True],
            }
            for name, keys in asked.items():
                t = session.table("t")
                listed = t.group_by(name, keys=keys).agg(rows=unacorda.count())
                found.append(counted(session, listed))
                hidden = t.group_by(name, keys=unacorda.private_keys()).agg(rows=unacorda.count())
                release = session.evaluate(hidden, budget=unacorda.ApproxDP(8, "1e-5"))
                found.append({"found": release.to_dicts()})
    half = len(found) // 2
    assert found[:half] == found[half:]
