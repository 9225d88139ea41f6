"""Translation to Spark SQL and the choice of an engine, without any Spark."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pytest
from sqlglot import exp
from tests.query import expressions_alike
from tests.query.engines_alike import ENGINES, opened_on
from tests.query.neighbor_tables import AGGREGATES
from tests.support.cases import in_subtests
from tests.support.seams import (
    Aggregate,
    RowsKept,
    SqlContext,
    Untranslatable,
    Values,
    check_statement,
    compile_chosen,
    compile_found,
    compile_query,
    engines,
    translate_to_postgres,
)
from tests.support.seams import TranslatedTable as Table
from tests.support.seams import translate_to_spark as translate

import unacorda
from unacorda.errors import InvalidParameter, MissingExtra

TABLE = pa.table({"x": [1.0]})
KNOWN = {"data": Table(view="v", columns=expressions_alike.types())}


def spark_of(sql: str) -> str:
    return translate(f"SELECT {sql} AS x FROM data", tables=KNOWN).sql


def postgres_of(sql: str) -> str:
    return translate_to_postgres(f"SELECT {sql} AS x FROM data", tables=KNOWN).sql


@pytest.mark.long
@in_subtests("text", [*expressions_alike.ALIKE, *expressions_alike.NEAR])
def test_every_function_is_translated(text: str) -> None:
    sql = expressions_alike.statement([text])
    for translated in (translate, translate_to_postgres):
        assert translated(sql, tables=KNOWN).sql.startswith("SELECT ")


@in_subtests(
    "sql",
    [
        "random()",
        "uuid()",
        "current_date",
        "now()",
        "a::HUGEINT::UUID",
        "[a, b]",
        "(SELECT max(a) FROM data)",
        "list_transform([a], lambda q: q + z)[1]",
        "count(a) OVER (ORDER BY b DESC NULLS FIRST)",
        "t SIMILAR TO 'a'",
        "regexp_matches(t, 'a')",
        "nothing",
        "sum(a)",
        "first(a)",
        "a COLLATE NOCASE || 1",
        "TRY_CAST(t AS DOUBLE)",
        "TRY_CAST(t AS DATE)",
        "CAST(t AS TIMESTAMP)",
        "round(a, 2)",
        "log(3, a)",
        "regexp_extract(t, u, 1)",
        "DATE 'infinity'",
        "d - INTERVAL 1 DAY",
        "concat(a, t)",
        "a ** INTERVAL 1 DAY",
        "count(a) OVER (ORDER BY b NULLS FIRST)",
        "count(a) OVER (ORDER BY b ROWS 1 PRECEDING)",
        "count(a) OVER (w ORDER BY b)",
        "rank(b) OVER (ORDER BY a)",
        "epoch_ms(i)",
        "make_timestamp_ns(i)",
    ],
)
def test_nothing_is_handed_on_as_it_stands(sql: str) -> None:
    for there in (spark_of, postgres_of):
        with pytest.raises(Untranslatable):
            there(sql)


@in_subtests(
    "sql",
    [
        "SELECT a FROM elsewhere",
        "SELECT DISTINCT a FROM data",
        "SELECT a FROM data LIMIT 1",
        "SELECT a FROM data ORDER BY a",
        "SELECT a FROM data QUALIFY row_number() OVER () = 1",
        "SELECT data.a FROM data CROSS JOIN data AS other",
        "SELECT data.a FROM data FULL JOIN data AS other ON data.a = other.a",
        "SELECT a FROM data ASOF JOIN data AS other USING (a)",
        "SELECT a FROM data UNION SELECT a FROM data",
        "SELECT a FROM data EXCEPT SELECT a FROM data",
        "SELECT a FROM data TABLESAMPLE 10%",
        "SELECT a FROM range(5)",
        "SELECT 1 AS a",
        "SELECT a FROM other.data",
        "SELECT * EXCLUDE (a) FROM data",
        "SELECT * REPLACE (b AS a) FROM data",
        "SELECT data.* EXCLUDE (a) FROM data",
        "SELECT b FROM data AS other(b)",
        "SELECT a, count(*) AS n FROM data GROUP BY ALL",
        "SELECT a, count(*) AS n FROM data GROUP BY 1",
        "SELECT count(a) OVER w AS n FROM data WINDOW w AS (ORDER BY b ROWS 1 PRECEDING)",
        "SELECT count(a) OVER (w ORDER BY b) AS n FROM data WINDOW w AS (PARTITION BY b)",
        "WITH part(b) AS (SELECT a FROM data) SELECT b FROM part",
        "WITH RECURSIVE part AS (SELECT a FROM data) SELECT a FROM part",
        "INSERT INTO data SELECT * FROM data",
        "DROP TABLE data",
    ],
)
def test_statements_of_other_forms_are_refused(sql: str) -> None:
    for translated in (translate, translate_to_postgres):
        with pytest.raises(Untranslatable):
            translated(sql, tables=KNOWN)


def test_distinct_rows_are_those_of_whole_lines() -> None:
    for translated in (translate, translate_to_postgres):
        found = translated("SELECT DISTINCT a FROM data", tables=KNOWN, public=True)
        assert found.sql.startswith("SELECT DISTINCT ")
        with pytest.raises(Untranslatable, match="DISTINCT ON"):
            translated("SELECT DISTINCT ON (b) a FROM data", tables=KNOWN, public=True)


@pytest.mark.long
def test_every_part_of_a_deep_expression_is_translated_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A part that is asked twice at every level would be translated a billion times."""
    asked: list[object] = []
    value = Values.value

    def counted(self: Values, node: object) -> Any:
        asked.append(node)
        return value(self, node)

    monkeypatch.setattr(Values, "value", counted)
    text = "LEAST(a - " * 7 + "b" + " * a, i)" * 7
    for translated in (translate, translate_to_postgres):
        asked.clear()
        translated(expressions_alike.statement([text]), tables=KNOWN)
        assert len(asked) < 1_000
    deep = expressions_alike.statement(["LEAST(a - " * 25 + "b" + " * a, i)" * 25])
    with pytest.raises(Untranslatable, match="nested so deeply"):
        translate(deep, tables=KNOWN)


PEOPLE = pa.table(
    {
        "who": pa.array([1], pa.int64()),
        "org": ["a"],
        "region": ["a"],
        "x": [1.0],
        "whole": pa.array([1], pa.int64()),
        "note": ["a"],
    }
)
KINDS = dict(
    zip(PEOPLE.column_names, ("BIGINT", "TEXT", "TEXT", "DOUBLE", "BIGINT", "TEXT"), strict=True)
)


@pytest.mark.long
@in_subtests("makers", AGGREGATES.values(), ids=[kind.__name__ for kind in AGGREGATES])
def test_every_aggregate_is_translated(makers: Mapping[str, Callable[[], Aggregate]]) -> None:
    """Or else it would have to be refused by name: with public keys and with private ones."""
    make = next(iter(makers.values()))
    unit = unacorda.Person(("who", "org"), max_rows=4, max_groups=2, max_rows_per_group=3)
    if isinstance(make(), RowsKept):  # there max_rows alone may bound rows
        unit = unacorda.Person(("who", "org"), max_rows=4)
    with opened_on("duckdb", PEOPLE, unit=unit) as session:
        scan = session._engine.scan
        tables = {scan("t").rpartition(".")[2]: Table(view="v", columns=KINDS)}
        table = session.table("t").where("x > 1")
        query = table.group_by("region", keys=["a", None]).agg(y=make())
        first = compile_query(query, SqlContext(unit=unit, scan=scan, salt=1))
        assert "bounded" in check_statement(first, tables, translate)
        query = table.group_by("region", keys=unacorda.private_keys()).agg(y=make())
        found = compile_found(query, SqlContext(unit=query.limited, scan=scan, salt=1))
        chosen = compile_chosen(query, unit=query.limited, places=[0], parts=[0])
        assert "bounded" in check_statement(
            chosen, check_statement(found, tables, translate), translate
        )


def test_text_is_quoted_whatever_it_holds() -> None:
    assert spark_of(r"'it''s \ ${x}'") == r"SELECT 'it\'s \\ ${x}' AS `x` FROM `v` AS `data`"
    odd = {"data": Table(view="a`b", columns={"c`d": "TEXT"})}
    assert translate('SELECT "c`d" FROM data', tables=odd).sql == (
        "SELECT `data`.`c``d` AS `c``d` FROM `a``b` AS `data`"
    )


def test_an_engine_that_there_is_not_is_refused() -> None:
    for engine in ("sqlite", None, 3, "Spark", ""):
        with pytest.raises(InvalidParameter, match="'duckdb', a SparkSession, 'postgresql:"):
            opened_on(engine, TABLE)  # type: ignore[arg-type]


def test_every_engine_is_compared_with_duckdb() -> None:
    kinds = [kind.place for kind in engines.ENGINES]
    assert kinds[0] == "duckdb.DuckDB"
    assert len(kinds) == len(ENGINES) + 1


def test_a_dialect_says_at_once_what_it_leaves_out() -> None:
    postgres = type(translate_to_postgres.keywords["dialect"])
    whole = {name: value for name, value in vars(postgres).items() if not name.startswith("__")}
    type("Own", (Values,), whole)
    no_mod = {node: how for node, how in whole["writers"].items() if node is not exp.Mod}
    for left_out, wrong in {
        "last_day": {name: value for name, value in whole.items() if name != "last_day"},
        "exp.Mod": {**whole, "writers": no_mod},
        "the type BIGINT, the type BOOLEAN": {**whole, "types": {"DOUBLE": "float8"}},
    }.items():
        with pytest.raises(TypeError, match=f"the dialect Own leaves out {left_out}"):
            type("Own", (Values,), wrong)


@pytest.mark.parametrize("option", [{"memory_limit": "1GB"}, {"threads": 2}])
def test_options_of_one_engine_are_refused_with_others(option: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter, match="engine='duckdb' with it") as refused:
        unacorda.Session(
            {"t": "public.visits"},
            unit=unacorda.Row(),
            budget=unacorda.PureDP(1),
            engine="postgresql://analyst@nowhere/db",
            **option,
        )
    assert refused.value.argument in option


def test_a_driver_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtra, match=r"pip install 'unacorda\[postgres\]'"):
        opened_on("postgresql://analyst:secret@nowhere/db", {"t": "public.visits"})


@pytest.mark.long
def test_other_engines_are_imported_only_where_they_are_used() -> None:
    code = (
        "import sys, unacorda, pyarrow as pa\n"
        "from unacorda import PureDP, Row, Session\n"
        "s = Session({'t': pa.table({'x': [1]})}, unit=Row(), budget=PureDP(1))\n"
        "s.evaluate(s.table('t').agg(n=unacorda.count()), budget=unacorda.PureDP(1))\n"
        "print([name for name in sys.modules if name.startswith(('pyspark', 'py4j', 'psycopg'))])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
