"""Code and settings that are the database's change no answer of PostgreSQL, and run in none."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from tests.postgres_server import server
from tests.query.engines_alike import counted
from tests.query.postgres_tables import url
from tests.settings_turned import HOSTILE, PLANS, UNPINNED, address_with, role_with
from tests.support.seams import Session, postgres_asking

import unacorda
from unacorda.bits import SeededBits
from unacorda.errors import EngineFailed, InvalidParameter, SourceChanged
from unacorda.postgres import LEDGER, READING, SETTINGS

pytestmark = pytest.mark.service

_numbers = itertools.count(1)


class Place:
    """A schema of an owner who is no superuser, and a reader of its tables."""

    def __init__(self) -> None:
        number = next(_numbers)
        self.schema, self.owner, self.reader = f"ward_{number}", f"owner_{number}", f"read_{number}"
        with contextlib.closing(server().connect()) as there:
            there.execute(
                f"CREATE ROLE {self.owner} LOGIN; CREATE ROLE {self.reader} LOGIN;"
                f"CREATE SCHEMA {self.schema} AUTHORIZATION {self.owner};"
                f"GRANT USAGE ON SCHEMA {self.schema} TO {self.reader};"
                f"ALTER DEFAULT PRIVILEGES FOR ROLE {self.owner} GRANT SELECT ON TABLES TO "
                f"{self.reader}".encode()
            )

    def run(self, *statements: str, user: str | None = None) -> None:
        with contextlib.closing(
            psycopg.connect(
                host=str(server().folder),
                user=user or self.owner,
                dbname="postgres",
                autocommit=True,
                options=f"-c search_path={self.schema}",
            )
        ) as there:
            for statement in statements:
                there.execute(statement.encode())

    def open(self, table: str = "t", *, engine: object = None, **options: Any) -> Session:
        options = {"unit": unacorda.Row(), **options}
        return Session(
            {"t": f"{self.schema}.{table}"},
            budget=unacorda.ApproxDP(1000, "1e-3"),
            bits=SeededBits(7),
            engine=engine or url().replace("postgres@", f"{self.reader}@"),
            **options,
        )


@pytest.fixture
def place() -> Place:
    return Place()


def number(session: Session, condition: str) -> int:
    asked = session.table("t").agg(n=unacorda.count_if(condition))
    (found,) = counted(session, asked)["sums"].values()
    return int(found[0])


def people(session: Session) -> int:
    (found,) = counted(session, session.table("t").agg(n=unacorda.count()))["sums"].values()
    return int(found[0])


# ---- types -------------------------------------------------------------------------------------

MOOD = (
    "CREATE TYPE mood AS ENUM ('sad', 'happy')",
    "CREATE TABLE t (feels mood)",
    "INSERT INTO t VALUES ('sad'), ('sad'), ('happy')",
)
LIE = (
    "CREATE FUNCTION lie(mood) RETURNS text LANGUAGE sql AS $$ SELECT 'happy' $$",
    "CREATE CAST (mood AS text) WITH FUNCTION lie(mood) AS IMPLICIT",
)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("over", ["mood", "feeling"])
def test_a_cast_of_an_enumeration_s_owner_is_not_run(place: Place, when: str, over: str) -> None:
    """The owner of a type may say what `CAST(... AS text)` does, at any time."""
    place.run(MOOD[0], "CREATE DOMAIN feeling AS mood")
    place.run(MOOD[1].replace("feels mood", f"feels {over}"), MOOD[2])
    if when == "before":
        place.run(*LIE)
    with place.open() as session:
        if when == "after":
            place.run(*LIE)
        for _ in range(2):
            assert number(session, "feels = 'happy'") == 1
        keyed = session.table("t").group_by("feels", keys=["sad", "happy"])
        assert counted(session, keyed.agg(n=unacorda.count()))["sums"] == {0: (2,), 1: (1,)}


def test_a_domain_s_condition_is_not_asked_and_makes_no_error(place: Place) -> None:
    """What is missing in a column of a domain, or in a CASE over it, is NULL and no more."""
    place.run(
        "CREATE FUNCTION broken(anyelement) RETURNS boolean LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'seen'; END $$"
    )
    kinds = {
        "smallint": "7",
        "bigint": "7",
        "float8": "7.5",
        "numeric(9,2)": "7.5",
        "numeric(30,0)": "7",
        "numeric": "7.5",
        "boolean": "true",
        "date": "'2024-02-29'",
        "timestamp": "'2024-02-29'",
        "timestamptz": "'2024-02-29'",
        "text": "'a'",
        "varchar(5)": "'a'",
        "char(5)": "'a'",
        "uuid": "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'",
    }
    columns = []
    for place_of, kind in enumerate(kinds):
        place.run(f"CREATE DOMAIN d{place_of} AS {kind} NOT NULL")
        columns.append(f"c{place_of} d{place_of}")
    place.run(
        f"CREATE TABLE t (n bigint, {', '.join(columns)})",
        f"INSERT INTO t SELECT i, {', '.join(kinds.values())} FROM generate_series(1, 3) AS i",
    )
    for place_of in range(len(kinds)):
        place.run(f"ALTER DOMAIN d{place_of} ADD CHECK (broken(VALUE)) NOT VALID")
    with place.open() as session:
        for place_of in range(len(kinds)):
            c = f"c{place_of}"
            assert number(session, f"CASE WHEN n > 1 THEN {c} END IS NOT NULL") == 2, c
            assert number(session, f"NULLIF({c}, {c}) IS NULL") == 3, c
            assert number(session, f"COALESCE(CASE WHEN n > 2 THEN {c} END, {c}) = {c}") == 3, c


def test_types_are_known_by_number_and_not_by_name(place: Place) -> None:
    place.run(
        "CREATE TYPE \"text\" AS (a int); CREATE TYPE \"date\" AS ENUM ('1', '2');"
        "CREATE TYPE span AS RANGE (subtype = int);"
        f'CREATE TABLE t (a {place.schema}."text", b {place.schema}."date", c span, d int[], '
        "e pg_catalog.text)"
    )
    with place.open() as session:
        kinds = session._engine.schema["t"]
        assert kinds["b"] == kinds["e"] == "VARCHAR"
        for name in "acd":
            with pytest.raises(InvalidParameter):
                session.table("t").agg(n=unacorda.count(name))


# ---- functions that a plan may call ------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE INDEX ON {t} (seen(x))",
        "CREATE INDEX ON {t} (x) WHERE seen(1) = 1",
        "ALTER TABLE {t} ADD CHECK (seen(1) = 1)",
        "CREATE STATISTICS s ON x, seen(x) FROM {t}",
    ],
)
@pytest.mark.parametrize("of", ["t", "part"])
def test_functions_of_users_that_planning_may_call_are_refused(
    place: Place, statement: str, of: str
) -> None:
    """Planning computes what is constant in an index, a condition or a statistic of a table."""
    place.run(
        "CREATE TABLE t (x int) PARTITION BY RANGE (x)",
        "CREATE TABLE part PARTITION OF t FOR VALUES FROM (0) TO (99)",
        "INSERT INTO t VALUES (1)",
        "CREATE FUNCTION seen(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT $1'",
        "CREATE INDEX ON t (abs(x))",
    )
    with place.open() as session:
        assert people(session) == 1
        if of == "t" and "STATISTICS" in statement:
            place.run("CREATE TABLE plain (x int)")
        place.run(statement.format(t=of))
        query = session.table("t").agg(n=unacorda.count())
        with pytest.raises(SourceChanged):
            session.evaluate(query, budget=unacorda.PureDP(1))
        session._engine.check_sources = lambda: None  # type: ignore[method-assign]
        with pytest.raises(EngineFailed):
            session.evaluate(query, budget=unacorda.PureDP(1))
    with pytest.raises(InvalidParameter, match="function of a user"):
        place.open()


def test_functions_that_a_user_adds_to_an_extension_are_refused_too(place: Place) -> None:
    """Whoever made an extension, as anybody may make a trusted one, may put functions into it."""
    place.run(
        "CREATE TABLE t (x int)",
        "CREATE FUNCTION seen(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT $1'",
        "CREATE INDEX ON t (x) WHERE seen(1) = 1",
    )
    seen = f"plpgsql ADD FUNCTION {place.schema}.seen"
    place.run(f"ALTER EXTENSION {seen}", user="postgres")
    try:
        with pytest.raises(InvalidParameter, match="function of a user"):
            place.open()
        place.run(f"ALTER FUNCTION {place.schema}.seen OWNER TO postgres", user="postgres")
        with place.open() as session:
            assert list(session._engine.schema["t"]) == ["x"]
    finally:
        place.run(f"ALTER EXTENSION {seen.replace('ADD', 'DROP')}", user="postgres")


# ---- tables that change ------------------------------------------------------------------------


def between(
    monkeypatch: pytest.MonkeyPatch, name: str, act: Callable[[], None], *, late: bool
) -> None:
    """Do something just before, or just after, a step of every question."""
    step = getattr(postgres_asking._PostgresQuery, name)

    def both(self: Any, *arguments: Any) -> Any:
        if not late:
            act()
        found = step(self, *arguments)
        if late:
            act()
        return found

    monkeypatch.setattr(postgres_asking._PostgresQuery, name, both)


PARTS = (
    "CREATE TABLE t (x int) PARTITION BY RANGE (x)",
    "CREATE TABLE first PARTITION OF t FOR VALUES FROM (0) TO (10)",
    "INSERT INTO t VALUES (1), (2)",
    "CREATE TABLE second (x int)",
    "INSERT INTO second VALUES (11)",
)
FIRST_SECOND = ("first", "second")
ATTACH = "ALTER TABLE t ATTACH PARTITION second FOR VALUES FROM (10) TO (20)"


def test_a_partition_that_is_attached_meanwhile_is_noticed(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.run(*PARTS)
    with place.open() as session:
        query = session.table("t").agg(n=unacorda.count())
        done: list[None] = []

        def attach() -> None:
            if not done:
                place.run(ATTACH)
                done.append(None)

        with monkeypatch.context() as patched:
            between(patched, "_check", attach, late=True)
            with pytest.raises(EngineFailed):
                session.evaluate(query, budget=unacorda.PureDP(1))
        assert done
        assert people(session) == 3  # between two questions a table may grow


def test_the_right_to_read_a_partitioned_table_is_enough(place: Place) -> None:
    place.run(*PARTS, ATTACH, *(f"REVOKE ALL ON {t} FROM {place.reader}" for t in FIRST_SECOND))
    with place.open() as session:
        assert people(session) == 3


def test_a_partition_on_another_server_is_refused_also_after_opening(place: Place) -> None:
    place.run(*PARTS)
    with place.open() as session:
        place.run(
            "CREATE FOREIGN DATA WRAPPER none; CREATE SERVER far FOREIGN DATA WRAPPER none;"
            f"CREATE FOREIGN TABLE {place.schema}.third PARTITION OF {place.schema}.t "
            "FOR VALUES FROM (20) TO (30) SERVER far",
            user="postgres",
        )
        try:
            with pytest.raises(SourceChanged):
                session.evaluate(
                    session.table("t").agg(n=unacorda.count()), budget=unacorda.PureDP(1)
                )
        finally:
            place.run("DROP FOREIGN DATA WRAPPER none CASCADE", user="postgres")


def test_rows_of_tables_that_inherit_are_never_read(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.run("CREATE TABLE t (x int)", "INSERT INTO t VALUES (1), (2)")
    with place.open() as session:
        between(
            monkeypatch,
            "_check",
            lambda: place.run(f"CREATE TABLE heir_{next(_numbers)} () INHERITS (t)"),
            late=True,
        )
        assert people(session) == 2
        with pytest.raises(SourceChanged):
            session.evaluate(session.table("t").agg(n=unacorda.count()), budget=unacorda.PureDP(1))
    with pytest.raises(InvalidParameter, match="inherit"):
        place.open()


@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize(
    "rewrite", ["ALTER TABLE t SET UNLOGGED", "REFRESH MATERIALIZED VIEW m", "TRUNCATE t, u"]
)
def test_rows_are_seen_as_they_stand_once_all_is_locked(
    place: Place, monkeypatch: pytest.MonkeyPatch, rewrite: str, early: bool
) -> None:
    """A table that is rewritten after the snapshot, and before it is locked, seems to be empty."""
    place.run(
        "CREATE TABLE t (x int)",
        "INSERT INTO t VALUES (1), (2)",
        "CREATE MATERIALIZED VIEW m AS SELECT * FROM t",
        "CREATE TABLE u (x int)",
    )
    expected = {"t": 0 if rewrite.startswith("TRUNCATE") else 2, "m": 2}
    session = Session(
        {name: f"{place.schema}.{name}" for name in "tm"},
        unit=unacorda.Row(),
        budget=unacorda.PureDP(10),
        bits=SeededBits(7),
        engine=url(),
    )
    lock = postgres_asking._PostgresQuery._lock
    calls: list[None] = []

    def late(self: Any, tables: Any) -> None:
        if not calls:
            if early:
                self._cursor.execute("SELECT 1")  # takes a snapshot
            place.run(rewrite)
        calls.append(None)
        lock(self, tables)

    for name, rows in expected.items():
        calls.clear()
        monkeypatch.setattr(postgres_asking._PostgresQuery, "_lock", late)
        asked = session.table(name).agg(n=unacorda.count())
        assert counted(session, asked)["sums"] == ({0: (rows,)} if rows else {}), name
        assert len(calls) == (2 if early and not (name == "m" and "UNLOGGED" in rewrite) else 1)
    session.close()


def test_policies_that_come_after_opening_are_refused(place: Place) -> None:
    place.run("CREATE TABLE t (x int)", "INSERT INTO t VALUES (1), (2)")
    with place.open() as session:
        assert people(session) == 2
        place.run(
            "ALTER TABLE t ENABLE ROW LEVEL SECURITY",
            "CREATE POLICY chance ON t USING (random() < 0.5)",
        )
        query = session.table("t").agg(n=unacorda.count())
        with pytest.raises(SourceChanged):
            session.evaluate(query, budget=unacorda.PureDP(1))
        session._engine.check_sources = lambda: None  # type: ignore[method-assign]
        with pytest.raises(EngineFailed):
            session.evaluate(query, budget=unacorda.PureDP(1))


# ---- settings ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def strange() -> Place:
    """A table of what settings read and write in several ways."""
    made = Place()
    made.run(
        "CREATE TYPE mood AS ENUM ('sad', 'happy'); CREATE TABLE t (who text, feels mood, "
        "day date, at timestamptz, cost numeric(9, 3), x float8, code uuid);"
        "INSERT INTO t SELECT (ARRAY['NULL', 'null', NULL, '日本', 'a\\b', E'it''s', '', '01/02'])"
        "[1 + i % 8], (ARRAY['sad', 'happy', NULL]::mood[])[1 + i % 3], "
        "date '2024-02-01' + i % 5, timestamptz '2024-02-29 23:30:00+00' + i * interval '7 hour', "
        "i / 8.0, 0.1::float8 + i, md5((i % 9)::text)::uuid FROM generate_series(1, 400) AS i"
    )
    return made


def answers(engine: str, place: Place) -> list[Any]:
    """Integers of questions about all that a setting could touch, and keys that are found."""
    found: list[Any] = []
    with place.open(engine=engine, unit=unacorda.Person("code", max_rows=1000)) as session:
        t = session.table("t")
        keys = ["NULL", None, "null", "日本", "a\\b", "it's", "", "01/02"]
        conditions = (
            *("who = 'NULL'", "who IS NULL", "who = '日本'", "who LIKE 'a\\%'", "feels = 'sad'"),
            *("at > '2024-03-01 00:00:00'", "CAST(at AS VARCHAR) LIKE '2024-03-01%'", "x > 0.1"),
            *("CAST(day AS VARCHAR) = '2024-02-03'", "TRY_CAST(who AS DOUBLE) IS NULL"),
        )
        asked = {f"n{i}": unacorda.count_if(text) for i, text in enumerate(conditions)}
        found.append(counted(session, t.agg(**asked)))
        by_key = t.group_by("who", keys=keys).agg(
            rows=unacorda.count(),
            cost=unacorda.sum("cost", 0, 100),
            hours=unacorda.sum("extract(hour from at)", 0, 24),
            later=unacorda.count_if("at + interval 5 hour > day + interval 20 day"),
            codes=unacorda.count_distinct("code"),
        )
        found.append(counted(session, by_key))
        middle = t.agg(m=unacorda.median("x", 0, 1000, resolution=0.01))
        found.append(session.evaluate(middle, budget=unacorda.PureDP(50)).to_dicts())
        for name in ("who", "day", "feels"):
            hidden = t.group_by(name, keys=unacorda.private_keys()).agg(rows=unacorda.count())
            release = session.evaluate(hidden, budget=unacorda.ApproxDP(80, "1e-5"))
            found.append(release.to_dicts())
    return found


@pytest.fixture(scope="module")
def plain(strange: Place) -> list[Any]:
    return answers(url(), strange)


TURNED = {**HOSTILE, "search_path": "evil,pg_catalog"}
ALONE = [pytest.param({n: v}, id=n, marks=pytest.mark.slow) for n, v in (TURNED | PLANS).items()]


@pytest.mark.parametrize("way", ["role", "address"])
@pytest.mark.parametrize(
    "settings", [pytest.param(TURNED, id="all"), pytest.param(PLANS, id="plans"), *ALONE]
)
def test_no_setting_of_a_role_or_an_address_changes_an_answer(
    strange: Place, plain: list[Any], settings: dict[str, str], way: str
) -> None:
    with contextlib.closing(server().connect()) as there:
        there.execute(
            "CREATE SCHEMA IF NOT EXISTS evil; CREATE OR REPLACE FUNCTION evil.length(text) "
            "RETURNS int LANGUAGE sql AS 'SELECT 1000'"
        )
    if way == "role":
        address = role_with(url(), settings)
    else:
        address = url() + "&options=" + address_with(settings)
    assert answers(address, strange) == plain


def test_every_pinned_setting_holds_within_a_question(strange: Place) -> None:
    pinned = {one.name: one.value for one in (*SETTINGS, *READING)}
    with contextlib.closing(server().connect()) as there:
        usual = {name for (name,) in there.execute("SELECT name FROM pg_settings").fetchall()}
    with strange.open(engine=role_with(url(), TURNED)) as session:
        asking: Any = session._engine._begin()
        try:
            shown = dict(asking._cursor.execute("SELECT name, setting FROM pg_settings").fetchall())
            asking._cursor.execute("SELECT pg_sleep(1)")  # longer than the role allows
        finally:
            asking.close()
    for name, value in pinned.items():
        if name in usual:
            said = value.strip("'").replace("60s", "60000")
            assert shown[name].replace('"', "") == said, name
    assert shown["transaction_isolation"] == "repeatable read"
    assert shown["transaction_read_only"] == "on"


def test_every_setting_of_a_server_is_pinned_or_left_alone_for_a_reason() -> None:
    """A version with one more asks whoever moves to it to decide."""
    with contextlib.closing(server().connect()) as there:
        settable = {
            name
            for (name,) in there.execute(
                "SELECT name FROM pg_settings WHERE context IN "
                "('user', 'superuser', 'backend', 'superuser-backend')"
            ).fetchall()
        }
    pinned = {one.name for one in (*SETTINGS, *READING, *LEDGER)}
    left = {name for name in settable if any(re.match(p, name) for p in UNPINNED)}
    assert settable - pinned == left - pinned
    assert all(one.why for one in (*SETTINGS, *READING, *LEDGER))
    turned = {*HOSTILE, "search_path"}
    assert pinned <= turned | {"default_table_access_method"}
