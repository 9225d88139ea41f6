"""Hostile texts and names: nothing but our own errors, and nothing reaches the engine unquoted."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable

import duckdb
import pytest
from hypothesis import example, given, seed, settings
from hypothesis import strategies as st
from tests.query.select_sessions import read
from tests.support.cases import in_subtests
from tests.support.seams import Column, Kind, parse
from tests.tiers import mostly_slow

from unacorda.errors import UnacordaError, UnsafeExpression

_COLUMNS = {
    "age": Column("age", Kind.INTEGER, 0, 120),
    "s": Column("s", Kind.TEXT),
    "b": Column("b", Kind.BOOLEAN),
    "d": Column("d", Kind.DATE),
}

# Words from which a mutated expression or SELECT is put together.
_WORDS = """
    age s b d 1 -1 0.5 1e999 'x' '' NULL TRUE + - * / // % ^ ** || = == <> != < <= > >= -> ->> ::
    ( ) [ ] { } , ; . : ? $1 @ # ! ~ & | << >> AND OR NOT IN BETWEEN LIKE ILIKE ESCAPE IS NULL
    DISTINCT FROM CASE WHEN THEN ELSE END CAST( TRY_CAST( AS INTEGER DATE '2024-01-01' INTERVAL
    ABS( SUM( COUNT(*) OVER() EXTRACT( YEAR SUBSTRING( COALESCE( ROUND( LOG( DATE_DIFF( random()
    SELECT WHERE GROUP BY ORDER LIMIT HAVING JOIN t UNION WITH EXISTS ANY ALL lambda x: * -- /* */
    FILTER WITHIN COLUMNS( PIVOT QUALIFY UNNEST( VALUES PRAGMA SET ATTACH COPY STRUCT MAP ARRAY
    AVG( MEDIAN( QUANTILE( PERCENTILE_CONT( USING SAMPLE ROLLUP( CUBE( ASC DESC NULLS FIRST
"""


def refused_or_read(text: str) -> None:
    readers: tuple[Callable[[], object], ...] = (
        lambda: parse(text, columns=_COLUMNS),
        lambda: read(text, _COLUMNS),
        lambda: read(f"SELECT COUNT(*) AS n, {text} FROM t GROUP BY ALL", _COLUMNS),
        lambda: read(
            f"SELECT SUM({text}), s FROM t WHERE {text} GROUP BY s ORDER BY {text}", _COLUMNS
        ),
        lambda: read(f"SELECT COUNT(*) FROM {text}", _COLUMNS),
    )
    for reader in readers:
        with contextlib.suppress(UnacordaError):
            reader()


@pytest.mark.long
@seed(30)
@settings(max_examples=400, deadline=None, database=None)
@given(words=st.lists(st.sampled_from(_WORDS.split()), max_size=14))
def test_mutated_sql_raises_only_our_errors(words: list[str]) -> None:
    refused_or_read(" ".join(words))


@pytest.mark.slow
@pytest.mark.timeout(900)
@seed(31)
@settings(max_examples=8_000, deadline=None, database=None)
@given(words=st.lists(st.sampled_from(_WORDS.split()), max_size=30))
def test_much_mutated_sql_raises_only_our_errors(words: list[str]) -> None:
    refused_or_read(" ".join(words))


@pytest.mark.long
@seed(32)
@settings(max_examples=300, deadline=None, database=None)
@given(text=st.text(max_size=40))
@example(text="\ufeffage")
@example(text="'" * 31)
@example(text='"')
@example(text="\\")
@example(text="age\u2028> 3")
@example(text="٣ > age")
@example(text="age > 1e")
@example(text="1__0")
def test_any_text_raises_only_our_errors(text: str) -> None:
    refused_or_read(text)


_NAMES = st.one_of(
    st.sampled_from(
        [
            'a"b',
            '"; DROP TABLE t; --',
            "a\nb",
            "a;b",
            "a'b",
            "a--b",
            "/*",
            "*/",
            "ﬁ",
            "Ä\u0308",
            "\u202etxet",
            "select",
            "NULL",
            "true",
            "current_date",
            "a b",
            " ",
            "unacorda_bound_value",
            "rowid",
            "{}",
            "%s",
            "$1",
            "?",
            "💥",
            "x" * 300,
        ]
    ),
    st.text(
        st.characters(exclude_categories=["Cs"], exclude_characters="\x00"),
        min_size=1,
        max_size=12,
    ),
)


@pytest.mark.long
@seed(33)
@settings(max_examples=100, deadline=None, database=None)
@given(name=_NAMES, content=st.text(st.characters(exclude_categories=["Cs"]), max_size=12))
def test_names_and_literals_stay_what_they_are(name: str, content: str) -> None:
    content = content.replace("\x00", "")
    quoted = '"' + name.replace('"', '""') + '"'
    literal = "'" + content.replace("'", "''") + "'"
    columns = {name: Column(name, Kind.TEXT), "other": Column("other", Kind.NUMBER)}
    found = parse(f"{quoted} || {literal} = {literal} || {quoted}", columns=columns)
    assert found.columns == {name}
    assert parse(found.text, columns=columns) == found
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE t AS SELECT CAST('' AS VARCHAR) AS {quoted}")
        assert connection.execute(f"SELECT {found.sql} FROM t").fetchall() == [(True,)]
        single = parse(literal, columns={})
        assert connection.execute(f"SELECT {single.sql}").fetchall() == [(content,)]
        assert connection.execute("SELECT COUNT(*) FROM t").fetchall() == [(1,)]


def test_the_engine_name_of_a_column_is_used_and_not_the_callers() -> None:
    column = Column('odd"name', Kind.NUMBER)
    found = parse("income + 1", columns={"income": column})
    assert '"odd""name"' in found.sql
    assert found.columns == {'odd"name'}


def test_comments_do_not_reach_the_engine() -> None:
    found = parse("age /* secret */ > 3 -- more", columns=_COLUMNS)
    assert "secret" not in found.sql + found.text
    assert "--" not in found.sql
    assert "/*" not in found.sql


@pytest.mark.long
@pytest.mark.parametrize("levels", mostly_slow([60, 101, 1_000, 4_900]))
@in_subtests(
    ("opening", "closing"),
    [
        *[("(", ")"), ("ABS(", ")"), ("NOT ", ""), ("- ", ""), ("CASE WHEN b THEN ", " END")],
        *[("[", "]"), ("{'a': ", "}"), ("CAST(", " AS DOUBLE)"), ("s || (", ")")],
        ("(SELECT ", ")"),
    ],
)
def test_deep_nesting_is_refused_or_read(opening: str, closing: str, levels: int) -> None:
    text = opening * levels + "age" + closing * levels
    limit = sys.getrecursionlimit()
    refused_or_read(text)
    assert sys.getrecursionlimit() == limit


@pytest.mark.parametrize("text", ["age" + " + 1" * 101, "(" * 101 + "age" + ")" * 101])
def test_more_than_a_hundred_levels_are_refused(text: str) -> None:
    with pytest.raises(UnsafeExpression, match="nested too deeply"):
        parse(text, columns=_COLUMNS)


def test_a_hundred_levels_are_read() -> None:
    assert parse("age" + " + 1" * 99, columns=_COLUMNS).upper == 219


@pytest.mark.long
def test_a_text_of_ten_thousand_characters_is_read_and_a_longer_one_refused() -> None:
    text = "b" + " OR b" * 1_999
    text += " " * (10_000 - len(text))
    assert parse(text, columns=_COLUMNS).kind == Kind.BOOLEAN
    with pytest.raises(UnsafeExpression, match="characters"):
        parse(text + " ", columns=_COLUMNS)
    with pytest.raises(UnsafeExpression, match="characters"):
        read("SELECT COUNT(*) FROM t WHERE " + text, _COLUMNS)


def test_parsing_is_silent(capfd: pytest.CaptureFixture[str]) -> None:
    for text in ("EXPLAIN SELECT 1", "SELECT a FROM t FOR UPDATE", "SHOW TABLES", "a !! b"):
        refused_or_read(text)
    assert capfd.readouterr() == ("", "")
