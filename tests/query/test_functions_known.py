"""Every function that DuckDB or sqlglot knows is refused, or total, and means what it says."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator

import duckdb
import pytest
import sqlglot.expressions
from tests.query.expression_grammar import COLUMNS, nasty_table
from tests.support.cases import in_subtests
from tests.support.seams import DERIVED, FUNCTIONS, Expression, Kind, parse

from unacorda.errors import InvalidParameter

_OPERANDS = (
    *("", "x", "s", "b", "d", "t", "x, y", "s, u", "d, t", "x, 2", "2, x", "s, 2", "s, 'a'"),
    *("'a', s", "'month', d", "d, 'month'", "'year', d, t", "s, 1, 2", "s, 'a', 'b'", "s, 'a', 2"),
    *("x, y, n", "n, n, n", "b, x, y", "s, '%Y-%m-%d'", "d, INTERVAL 1 DAY", "s, 5, 'x'", "*"),
)


@pytest.fixture(scope="module")
def nasty() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        nasty_table(connection)
        yield connection


@pytest.fixture(scope="module")
def ordinary() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone='UTC'")
        connection.execute(
            "CREATE TABLE t AS SELECT (i + 1) / 11.0::DOUBLE AS x, (i % 3 + 1)::DOUBLE AS y, "
            "0.5::DOUBLE AS ratio, (i * 7 % 90)::DOUBLE AS age, (i % 12 + 1)::DOUBLE AS n, "
            "chr(97 + i::INTEGER) || 'ba-' || (i % 5) AS s, "
            "'a' || (i % 2) AS u, i % 2 = 0 AS b, DATE '2019-12-28' + (i * 97)::INTEGER AS d, "
            "TIMESTAMP '2021-03-04 05:06:07' + to_hours(i::INTEGER * 77) AS t FROM range(10) r(i)"
        )
        yield connection


@pytest.mark.parametrize("name", DERIVED)
def test_a_function_that_is_written_in_the_language_is_none_of_the_parser_s(name: str) -> None:
    assert name not in sqlglot.expressions.FUNCTION_BY_NAME


def names() -> list[str]:
    with duckdb.connect() as connection:
        rows = connection.execute(
            "SELECT DISTINCT function_name FROM duckdb_functions()"
        ).fetchall()
    found = {str(name).upper() for (name,) in rows if str(name).isidentifier()}
    return sorted(found | {name.upper() for name in sqlglot.expressions.FUNCTION_BY_NAME})


def read(functions: list[str]) -> Iterator[tuple[str, Expression]]:
    """Calls of these functions that the language has."""
    for name in functions:
        for operands in _OPERANDS:
            text = f"{name}({operands})"
            with contextlib.suppress(InvalidParameter):
                yield text, parse(text, columns=COLUMNS)


_NAMES = names()
_ELSEWHERE = ("EXTRACT", "TRY_CAST", "MAKE_DATE", *DERIVED)  # no dates of doubles, or unknown
_TYPES = {
    Kind.TEXT: "VARCHAR",
    Kind.BOOLEAN: "BOOLEAN",
    Kind.DATE: "DATE",
    Kind.TIMESTAMP: "TIMESTAMP",
}


@pytest.mark.long
@pytest.mark.parametrize(
    "part", [0, *(pytest.param(part, marks=pytest.mark.slow) for part in range(1, 12))]
)
def test_every_known_function_is_refused_or_answers_on_every_row(
    nasty: duckdb.DuckDBPyConnection, part: int
) -> None:
    accepted = 0
    for text, found in read(_NAMES[part::12]):
        accepted += 1
        assert parse(found.text, columns=COLUMNS) == found, text
        try:
            nasty.execute(f"SELECT {found.sql} FROM nasty").fetchall()
        except duckdb.Error as error:
            pytest.fail(f"{text}: {error}")
    assert accepted


@pytest.mark.long
@in_subtests("name", FUNCTIONS)
def test_a_function_means_what_it_means_in_the_engine(
    ordinary: duckdb.DuckDBPyConnection, name: str
) -> None:
    """On ordinary rows, the text as it was written and the SQL that is made of it agree."""
    compared = 0
    for text, found in read([name]):
        kind = "DOUBLE" if found.kind.numeric else _TYPES[found.kind]
        made = ordinary.execute(f"SELECT CAST({found.sql} AS {kind}) FROM t ORDER BY x").fetchall()
        try:
            plain = f"SELECT CAST({text} AS {kind}) FROM t ORDER BY x"
            expected = ordinary.execute(plain).fetchall()
        except duckdb.Error:
            continue  # a spelling that sqlglot knows and the engine does not
        compared += 1
        for (one,), (other,) in zip(made, expected, strict=True):
            same = math.isclose(one, other) if isinstance(one, float) and other else one == other
            assert same, (text, one, other)
    assert compared or name in _ELSEWHERE
