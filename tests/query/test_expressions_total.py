"""No expression of the language raises on any row, and its values lie in its range."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator

import duckdb
import pytest
from hypothesis import HealthCheck, given, seed, settings
from tests.query.expression_grammar import COLUMNS, expressions, nasty_table
from tests.support.cases import in_subtests
from tests.support.seams import PARTS, UNITS, Expression, Kind, parse
from tests.tiers import mostly_slow

_SETTINGS = (
    ("SET threads=1",),
    ("SET threads=2", "PRAGMA disable_optimizer"),
    ("SET threads=1", "SET TimeZone='America/New_York'", "SET default_null_order='nulls_first'"),
    ("SET threads=1", "SET ieee_floating_point_ops=false", "SET integer_division=true"),
)
_RELAXED = settings(
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
_OF_INSTANTS = ("HOUR", "MINUTE", "SECOND")
_Connections = list[duckdb.DuckDBPyConnection]


@pytest.fixture(scope="module")
def connections() -> Iterator[_Connections]:
    opened = []
    for lines in _SETTINGS:
        connection = duckdb.connect()
        nasty_table(connection)
        for line in lines:
            connection.execute(line)
        opened.append(connection)
    yield opened
    for connection in opened:
        connection.close()


def evaluate(connection: duckdb.DuckDBPyConnection, found: Expression) -> None:
    """Runs an expression as a column and as a filter, and checks what it promises."""
    connection.execute(f"CREATE OR REPLACE TEMP TABLE r AS SELECT {found.sql} AS v FROM nasty")
    test = "v" if found.kind == Kind.BOOLEAN else "v IS NOT NULL"
    filtered = f"SELECT COUNT(*) FROM (SELECT *, {found.sql} AS v FROM nasty) WHERE {test}"
    stored = f"SELECT COUNT(*) FROM r WHERE {test}"
    assert connection.execute(filtered).fetchall() == connection.execute(stored).fetchall()
    if found.kind.numeric:
        outside = (
            "isnan(v) OR v < ? OR v > ? OR (v <> 0 AND abs(v) NOT BETWEEN ? AND ?) OR v % ? <> 0"
        )
        if not found.text.startswith('"'):  # bare columns are handed on as they are
            outside += " OR (v = 0 AND CAST(v AS VARCHAR) = '-0.0')"
        if found.kind == Kind.INTEGER:
            outside += " OR floor(v) <> v"
        query = f"SELECT v FROM r WHERE v IS NOT NULL AND ({outside})"
        size = found.size
        ends = [found.lower, found.upper, size.least, size.most, size.step]
        assert size.least >= 2.0**-664
        assert size.most <= 1e200
        assert connection.execute(query, ends).fetchall() == []


def check(connections: _Connections, kind: Kind, text: str) -> None:
    found = parse(text, columns=COLUMNS, expect=kind)
    assert parse(found.text, columns=COLUMNS, expect=kind) == found
    for connection in connections:
        evaluate(connection, found)


@pytest.mark.long
@seed(20)
@settings(_RELAXED, max_examples=120)
@given(drawn=expressions(levels=4))
def test_random_expressions_never_raise(connections: _Connections, drawn: tuple[Kind, str]) -> None:
    check(connections, *drawn)


@pytest.mark.slow
@seed(21)
@settings(_RELAXED, max_examples=1_500)
@given(drawn=expressions(levels=6))
def test_many_random_expressions_never_raise(
    connections: _Connections, drawn: tuple[Kind, str]
) -> None:
    check(connections, *drawn)


_UNARY = (
    "-{}",
    *(f"{name}({{}})" for name in ("TRUNC", "CBRT", "SIN", "COS", "TAN", "ASIN", "ACOS", "ATAN")),
    *(f"{name}({{}})" for name in ("RADIANS", "DEGREES")),
    *(f"EXTRACT(EPOCH FROM {name}({{}}))" for name in ("TO_TIMESTAMP",)),
    *(f"{name}({{}})" for name in ("ABS", "FLOOR", "CEIL", "ROUND", "SIGN", "SQRT", "EXP")),
    *(f"{name}({{}})" for name in ("LN", "LOG2", "LOG10")),
    *(f"ROUND({{}}, {digits})" for digits in (-15, -3, -1, 1, 3, 15)),
    *(f"POWER({{}}, {power})" for power in (-3, -2, -0.5, 0, 0.5, 1, 2, 3, 7, 1000)),
    *(f"POWER({base}, {{}})" for base in (-2, 0, 0.5, 1, 2)),
    *(f"TRY_CAST({{}} AS {name})" for name in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")),
    "TRY_CAST(TRY_CAST({} AS BOOLEAN) AS DOUBLE)",
    "TRY_CAST(TRY_CAST(FLOOR({}) AS VARCHAR) AS DOUBLE)",
)
_BINARY = (
    *(f"{{}} {sign} {{}}" for sign in ("+", "-", "*", "/", "%")),
    *(f"{name}({{}}, {{}})" for name in ("POWER", "NULLIF", "LEAST", "GREATEST", "COALESCE")),
    "ATAN2({}, {})",
    "YEAR(MAKE_DATE({}, {}, 29))",
    *(
        f"TRY_CAST({{}} {sign} {{}} AS INTEGER)"
        for sign in ("=", "<>", "<", "<=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")
    ),
)


@pytest.mark.parametrize("template", mostly_slow(_UNARY, quick=4))
def test_functions_of_one_number_never_raise(connections: _Connections, template: str) -> None:
    for operand in ("x", "ratio", "age", "n", "x * y", "x + y", "x / y", "-0.0", "1e100"):
        check(connections, Kind.NUMBER, template.format(f"({operand})"))


def test_a_constant_of_zero_to_a_negative_power_is_missing(connections: _Connections) -> None:
    for power in (-3, -0.5):
        check(connections, Kind.NUMBER, f"POWER(-0.0, {power})")


@pytest.mark.parametrize("template", mostly_slow(_BINARY, quick=8))
def test_functions_of_two_numbers_never_raise(connections: _Connections, template: str) -> None:
    for left, right in (("x", "y"), ("ratio", "x"), ("n", "age"), ("x * y", "x - y"), ("y", "0")):
        check(connections, Kind.NUMBER, template.format(f"({left})", f"({right})"))


@in_subtests("part", ["YEAR", "QUARTER", "MONTH", "DAY", "DOW"])
@in_subtests("column", ["d", "t", "TRY_CAST(d AS TIMESTAMP)", "TRY_CAST(s AS DATE)"])
def test_parts_of_extreme_dates_never_raise(
    connections: _Connections, part: str, column: str
) -> None:
    check(connections, Kind.NUMBER, f"EXTRACT({part} FROM {column})")


@in_subtests("unit", ["year", "quarter", "month", "week", "day"])
@in_subtests("pair", ["d, TRY_CAST(t AS DATE)", "t, TRY_CAST(d AS TIMESTAMP)", "d, t"])
def test_differences_of_extreme_dates_never_raise(
    connections: _Connections, unit: str, pair: str
) -> None:
    check(connections, Kind.NUMBER, f"DATE_DIFF('{unit}', {pair})")


_PLAIN = (
    *(f"EXTRACT({part} FROM {{}})" for part in PARTS if part not in _OF_INSTANTS),
    *(f"DATE_TRUNC('{unit}', {{}})" for unit in UNITS if unit not in _OF_INSTANTS),
    *(f"{{}} + INTERVAL 100000 {unit}" for unit in UNITS if unit not in _OF_INSTANTS),
    *(f"{{}} - INTERVAL 100000 {unit}" for unit in UNITS if unit not in _OF_INSTANTS),
    *("LAST_DAY({})", "DAYNAME({})", "MONTHNAME({})"),
    *(f"STRFTIME({{}}, '%{sign}')" for sign in "aAwdbBmyYjUWVGu%"),
    *(f"STRFTIME({{}}, '%-{sign}')" for sign in "dm"),
)
_TIMED = (
    *(f"EXTRACT({part} FROM {{}})" for part in _OF_INSTANTS),
    *(f"DATE_TRUNC('{unit}', {{}})" for unit in _OF_INSTANTS),
    *(f"{{}} + INTERVAL 100000 {unit}" for unit in _OF_INSTANTS),
    *(f"DATE_SUB('{unit}', t, {{}})" for unit in UNITS),
    *(f"STRFTIME({{}}, '%{sign}')" for sign in ("H", "I", "p", "M", "S", "-H", "-I", "-M", "-S")),
)


@pytest.mark.parametrize("template", mostly_slow([*_PLAIN, *_TIMED]))
def test_functions_of_one_moment_never_raise(connections: _Connections, template: str) -> None:
    operands = ["t", "TRY_CAST(s AS TIMESTAMP)", "t + INTERVAL 100000 YEAR"]
    if template in _PLAIN:
        operands += ["d", "d - INTERVAL 100000 YEAR", "MAKE_DATE(x, y, age)"]
    for operand in operands:
        text = template.format(f"({operand})")
        check(connections[:1], parse(text, columns=COLUMNS).kind, text)


@pytest.mark.parametrize("sign", mostly_slow("yYdmHMS", quick=3))
def test_no_text_makes_the_reading_of_a_time_raise(connections: _Connections, sign: str) -> None:
    for text in (f"TRY_STRPTIME(s, '%{sign}')", f"TRY_STRPTIME(s || '12' || u, '%{sign}')"):
        check(connections, Kind.TIMESTAMP, text)


_DEEP = {
    "division chain": "x" + " / y" * 99,
    "remainder chain": "x" + " % y" * 99,
    "power chain": "x" + " ^ y" * 99,
    "concatenation chain": "s" + " || u" * 99,
    "sum chain": "x" + " - y" * 99,
    "nested roots": "SQRT(x - " * 25 + "y" + ")" * 25,
    "nested denominators": "1 / (x + " * 25 + "y" + ")" * 25,
    "nested NULLIF": "NULLIF(y * " * 25 + "x" + ", x)" * 25,
    "nested LEAST": "LEAST(y * " * 25 + "x" + ", x * y)" * 25,
    "nested powers": "POWER(x * y, " * 25 + "x" + " * y)" * 25,
    "nested CASE": "CASE WHEN x * y > x THEN y ELSE x * " * 20 + "y" + " END" * 20,
    "long OR": " OR ".join(f"x = {i}" for i in range(700)),
    "long IN": f"x IN ({', '.join(str(i) for i in range(1500))})",
    "nots": "NOT " * 60 + "b",
    "minuses": "x" + " -" * 41 + " y",
}


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    mostly_slow(
        [pytest.param(name, marks=pytest.mark.slow if "power" in name else ()) for name in _DEEP],
        quick=2,
    ),
)
def test_the_deepest_expressions_still_run(connections: _Connections, name: str) -> None:
    found = parse(_DEEP[name], columns=COLUMNS)
    assert len(found.sql) < 400 * len(_DEEP[name]) + 1_000  # guards double nothing at any level
    for connection in connections:
        evaluate(connection, found)


@pytest.mark.long
def test_literals_reach_the_engine_exactly(connections: _Connections) -> None:
    numbers = random.Random(5)
    values = [0.1, 1e22, 1e23, 1.2e-100, 1e100, 9.999999999999999e99, 2.0**53]
    values += [float(f"{numbers.random():.17g}e{numbers.randrange(-99, 100)}") for _ in range(300)]
    for value in values:
        found = parse(repr(value), columns={})
        assert (found.lower, found.upper) == (value, value)
        rows = connections[0].execute(f"SELECT {found.sql}").fetchall()
        assert rows == [(value,)]


def test_a_long_operand_is_bound_to_a_name_that_hides_no_column(
    connections: _Connections,
) -> None:
    # A column with the very name of the binding still means the column.
    name = "unacorda_bound_value"
    column = dataclasses.replace(COLUMNS["x"], name=name)
    text = "SQRT(ABS(" + " + ".join([name] * 20) + ")) + NULLIF(" + " + ".join([name] * 20) + ", 1)"
    found = parse(text, columns={name: column})
    plain = parse(text.replace(name, "x"), columns=COLUMNS)
    rows = connections[0].execute(
        f"SELECT COUNT(*) FROM (SELECT {found.sql} AS a, {plain.sql} AS b "
        f"FROM (SELECT *, x AS {name} FROM nasty)) WHERE a IS DISTINCT FROM b"
    )
    assert rows.fetchall() == [(0,)]
