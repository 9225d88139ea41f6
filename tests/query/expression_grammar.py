"""Random expressions of the language, and a table of the nastiest rows to evaluate them on."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import duckdb
from hypothesis import strategies as st
from tests.support.seams import DERIVED, Column, Kind, held, in_years

__all__ = ["COLUMNS", "expressions", "nasty_table", "texts_of"]

COLUMNS = {
    "x": Column("x", Kind.NUMBER),
    "y": Column("y", Kind.NUMBER),
    "ratio": Column("ratio", Kind.NUMBER, -1.0, 1.0),
    "age": Column("age", Kind.INTEGER, 0, 120),
    "n": Column("n", Kind.INTEGER),
    "s": Column("s", Kind.TEXT),
    "u": Column("u", Kind.TEXT),
    "b": Column("b", Kind.BOOLEAN),
    "d": Column("d", Kind.DATE),
    "t": Column("t", Kind.TIMESTAMP),
}

_NUMBERS = (
    "NULL",
    "'inf'",
    "'-inf'",
    "0e0",
    "'-0.0'",
    "1e308",
    "1e100",
    "-1e-100",
    "3e-99",
    "-1.7976931348623157e308",
    "5e-324",
    "-2.2250738585072014e-308",
    "9007199254740993e0",
    "9223372036854775807e0",
    "-9223372036854775808e0",
    "1e0",
    "-0.5e0",
    "2.5e0",
    "1e15",
)
_TEXTS = (
    "NULL",
    "''",
    "'nan'",
    "'inf'",
    "'1e999'",
    "' 12.5 '",
    "'9223372036854775808'",
    "'2024-02-30'",
    "'infinity'",
    "'5877642-06-25 (BC)'",
    "'294247-01-10 04:00:54.775806'",
    "'2024-01-01 00:00:00 Europe/Berlin'",
    "'true'",
    "repeat('ab%_', 30000)",
    "'epoch'",
    "'0000-01-01'",
    "chr(0) || chr(7) || chr(27)",
    "'👩‍👩‍👧‍👦 ẞİı' || chr(769) || chr(8206)",
)
_DATES = (
    "NULL",
    "'infinity'",
    "'-infinity'",
    "'5877642-06-25 (BC)'",
    "'5881580-07-10'",
    "'0001-01-01'",
    "'1970-01-01'",
    "'2024-02-29'",
)
_TIMES = (
    "NULL",
    "'infinity'",
    "'-infinity'",
    "'290309-12-22 (BC) 00:00:00'",
    "'294247-01-10 04:00:54.775806'",
    "'1969-12-31 23:59:59.999999'",
    "'2024-02-29 12:00:00'",
    "'0001-01-01 00:00:00'",
)


def nasty_table(connection: duckdb.DuckDBPyConnection) -> None:
    """The table `nasty`, as columns are read: every pair of extreme numbers, the others in turn."""
    rows = []
    for i, x in enumerate(_NUMBERS):
        for j, y in enumerate(_NUMBERS):
            k = i * len(_NUMBERS) + j
            rows.append(
                f"(CAST({x} AS DOUBLE), CAST({y} AS DOUBLE), "
                f"CAST({('NULL', '-1', '1', '0', '-0.0', '0.3')[k % 6]} AS DOUBLE), "
                f"CAST({('NULL', '0', '120', '37')[k % 4]} AS DOUBLE), "
                f"round(CAST({_NUMBERS[(i + j) % len(_NUMBERS)]} AS DOUBLE)), "
                f"CAST({_TEXTS[k % len(_TEXTS)]} AS VARCHAR), "
                f"CAST({_TEXTS[(k * 7 + i) % len(_TEXTS)]} AS VARCHAR), "
                f"CAST({('NULL', 'TRUE', 'FALSE')[k % 3]} AS BOOLEAN), "
                f"CAST({_DATES[(i + 3 * j) % len(_DATES)]} AS DATE), "
                f"CAST({_TIMES[(3 * i + j) % len(_TIMES)]} AS TIMESTAMP))"
            )
    connection.execute(
        "CREATE TABLE raw (x DOUBLE, y DOUBLE, ratio DOUBLE, age DOUBLE, n DOUBLE, "
        "s VARCHAR, u VARCHAR, b BOOLEAN, d DATE, t TIMESTAMP)"
    )
    connection.execute(f"INSERT INTO raw VALUES {', '.join(rows)}")
    read = {
        **{name: held(name, undefined=True) for name in ("x", "y", "ratio", "age", "n")},
        "d": in_years("d", "DATE"),
        "t": in_years("t", "TIMESTAMP"),
    }
    replaced = ", ".join(f"{sql} AS {name}" for name, sql in read.items())
    connection.execute(f"CREATE TABLE nasty AS SELECT * REPLACE ({replaced}) FROM raw")


_number_atoms = st.sampled_from(
    ["x", "y", "ratio", "age", "n", "NULL", "0", "1", "-1", "2", "7", "10", "100", "0.5", "-0.0"]
) | st.sampled_from(["1e100", "1e-100", "9007199254740992", "-1e100", "3e-90"])
_text_atoms = st.sampled_from(["s", "u", "''", "'a'", "'it''s ;--'", "'12'", "'x%_'", "NULL"])
_truth_atoms = st.sampled_from(["b", "TRUE", "FALSE", "NULL", "NOT b"])
_date_atoms = st.sampled_from(
    ["d", "DATE '2024-02-29'", "DATE '0001-01-01'", "TRY_CAST(s AS DATE)"]
)
_time_atoms = st.sampled_from(["t", "TIMESTAMP '1969-12-31 23:59:59'", "TRY_CAST(u AS TIMESTAMP)"])


def expressions(*, levels: int = 4) -> st.SearchStrategy[tuple[Kind, str]]:
    """Texts of the language with the kind that each should have (NUMBER also for INTEGER)."""
    return st.sampled_from(list(_BUILDERS)).flatmap(
        lambda kind: st.tuples(st.just(kind), _of(kind, levels))
    )


def texts_of(kind: Kind, *, levels: int) -> st.SearchStrategy[str]:
    """Texts of the language that should have this kind."""
    return _of(kind, levels)


def _of(kind: Kind, levels: int) -> st.SearchStrategy[str]:
    atoms = _ATOMS[kind]
    if levels == 0:
        return atoms
    return st.one_of(atoms, st.deferred(lambda: _BUILDERS[kind](levels - 1)))


def _fill(kind: Kind, levels: int, *templates: str) -> st.SearchStrategy[str]:
    """Templates in which {n} {s} {b} {d} {t} stand for operands of a kind, each drawn anew."""

    @st.composite
    def filled(draw: st.DrawFn) -> str:
        template = draw(st.sampled_from(templates))
        parts = template.split("{")
        text = parts[0]
        for part in parts[1:]:
            text += f"({draw(_of(_LETTERS[part[0]], levels))})" + part[2:]
        return text

    return filled()


def _choices(letter: str) -> list[str]:
    return [
        template.replace("@", "{" + letter + "}")
        for template in (
            "CASE WHEN {b} THEN @ WHEN {b} THEN @ ELSE @ END",
            "CASE n WHEN {n} THEN @ WHEN 1 THEN @ END",
            "CASE s WHEN 'a' THEN @ WHEN {s} THEN NULL ELSE @ END",
            "COALESCE(@, @)",
            "COALESCE(@, @, NULL)",
            "NULLIF(@, @)",
            "IF({b}, @, @)",
            "LEAST(@, @, NULL)",
            "GREATEST(@, @)",
        )
    ]


def _numbers(levels: int) -> st.SearchStrategy[str]:
    return _fill(
        Kind.NUMBER,
        levels,
        *_choices("n"),
        *(f"{{n}} {sign} {{n}}" for sign in ("+", "-", "*", "/", "%", "^") * 2),
        "-{n}",
        *(f"{name}({{n}})" for name in ("ABS", "FLOOR", "CEIL", "ROUND", "SIGN", "SQRT")),
        *(f"{name}({{n}})" for name in ("LN", "LOG2", "LOG10", "EXP")),
        "POWER({n}, 2)",
        "POWER({n}, -0.5)",
        "POWER({n}, {n})",
        "ROUND({n}, 15)",
        "ROUND({n}, 2)",
        "ROUND({n}, -15)",
        "LEAST(GREATEST({n}, 0), 10)",
        *(f"{name}({{n}})" for name in ("TRUNC", "CBRT", "SIN", "COS", "TAN", "ASIN", "ACOS")),
        *(f"{name}({{n}})" for name in ("ATAN", "RADIANS", "DEGREES")),
        "ATAN2({n}, {n})",
        *(
            # Of columns: operands that stand several times have to be short.
            f"{name}({', '.join(['x', 'y', 'n'][: len(operands.split())])})"
            for name, (operands, _) in DERIVED.items()
        ),
        "PI()",
        "{b} + {n}",
        "ABS({b})",
        "LENGTH({s})",
        "STRPOS({s}, {s})",
        "POSITION('a' IN {s})",
        *(f"EXTRACT({part} FROM {{d}})" for part in ("YEAR", "MONTH", "DAY", "DOW", "QUARTER")),
        *(f"EXTRACT({part} FROM {{d}})" for part in ("WEEK", "DOY", "ISODOW", "ISOYEAR")),
        *(f"EXTRACT({part} FROM {{t}})" for part in ("DECADE", "CENTURY", "EPOCH", "WEEK")),
        *(f"EXTRACT({part} FROM {{t}})" for part in ("YEAR", "HOUR", "MINUTE", "SECOND")),
        *(f"DATE_SUB('{unit}', {{d}}, {{d}})" for unit in ("day", "week", "month", "year")),
        *(f"DATE_SUB('{unit}', {{t}}, {{t}})" for unit in ("hour", "second", "quarter")),
        "DATE_PART('year', AGE({d}, {t}))",
        "DATE_PART('isodow', {t})",
        *(f"DATE_DIFF('{unit}', {{d}}, {{d}})" for unit in ("day", "week", "month", "year")),
        *(f"DATE_DIFF('{unit}', {{t}}, {{t}})" for unit in ("hour", "second", "quarter")),
        "DATE_DIFF('day', {d}, {t})",
        "YEAR({d})",
        *(f"TRY_CAST({{s}} AS {name})" for name in ("DOUBLE", "INTEGER", "BIGINT")),
        *(f"CAST({{n}} AS {name})" for name in ("DOUBLE", "BIGINT", "SMALLINT", "TINYINT")),
        "CAST({b} AS INTEGER)",
        "CAST({b} AS DOUBLE)",
    )


def _truths(levels: int) -> st.SearchStrategy[str]:
    signs = ("=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")
    return _fill(
        Kind.BOOLEAN,
        levels,
        *_choices("b"),
        *(f"{{{k}}} {sign} {{{k}}}" for sign in signs for k in "nsbdt"),
        "{d} < {t}",
        "{t} = {d}",
        "{n} BETWEEN {n} AND {n}",
        "{s} NOT BETWEEN {s} AND 'm'",
        "{n} IN (1, -0.0, NULL, 2.5, 1e100)",
        "{n} NOT IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)",
        "{s} IN ('a', '', 'it''s')",
        "{d} IN ('2024-02-29', DATE '0001-01-01')",
        "{d} BETWEEN '1900-01-01' AND '2024-01-01'",
        "{t} > '2024-01-01'",
        *(f"{{{k}}} IS NULL" for k in "nsbdt"),
        "{b} IS NOT TRUE",
        "{s} LIKE '%a_'",
        r"{s} LIKE '\'",
        "{s} NOT LIKE ''",
        "{s} ILIKE '%İ%'",
        "STARTS_WITH({s}, {s})",
        "ENDS_WITH({s}, {s})",
        "CONTAINS({s}, {s})",
        "{b} AND {b} AND {b}",
        "{b} OR {b}",
        "NOT {b}",
        "CAST({s} AS BOOLEAN)",
        "CAST({n} AS BOOLEAN)",
    )


def _texts(levels: int) -> st.SearchStrategy[str]:
    return _fill(
        Kind.TEXT,
        levels,
        *_choices("s"),
        "LOWER({s})",
        "UPPER({s})",
        "TRIM({s})",
        "LTRIM({s}, 'ab')",
        "RTRIM({s}, '')",
        "LEFT({s}, 3)",
        "RIGHT({s}, 1000000)",
        "REPLACE({s}, 'b', 'bbbbbbbbbb')",
        "REPLACE({s}, 'ab', '')",
        "LPAD({s}, 10000, 'xy')",
        "RPAD({s}, 0, 'é')",
        "SPLIT_PART({s}, '%', 2)",
        "SPLIT_PART({s}, 'a', 1000000)",
        "CONCAT_WS('-', {s}, {s})",
        "STRFTIME(d, '%a %A %w %d %-d %b %B %m %-m %y %Y %j %U %W %V %G %u %%')",
        "STRFTIME(t, '%H %-H %I %-I %p %M %-M %S %-S')",
        "DAYNAME({d})",
        "MONTHNAME({t})",
        "SUBSTRING({s}, 1, 3)",
        "SUBSTRING({s}, 1000000)",
        "SUBSTRING({s}, 2, 1000000)",
        "{s} || {s}",
        "CONCAT({s}, {s}, {s})",
        *(f"CAST({{{k}}} AS VARCHAR)" for k in "bdt"),
        "CAST(ROUND({n}) AS VARCHAR)",
        "CAST(n AS VARCHAR)",
    )


def _dates(levels: int) -> st.SearchStrategy[str]:
    return _fill(
        Kind.DATE,
        levels,
        *_choices("d"),
        "CAST({t} AS DATE)",
        "DATE({t})",
        "TRY_CAST({s} AS DATE)",
        *(f"DATE_TRUNC('{unit}', {{d}})" for unit in ("year", "quarter", "month", "week", "day")),
        *(f"{{d}} + INTERVAL 100000 {unit}" for unit in ("YEAR", "QUARTER", "MONTH")),
        *(f"{{d}} - INTERVAL 100000 {unit}" for unit in ("YEAR", "WEEK", "DAY")),
        "LAST_DAY({d})",
        "LAST_DAY({t})",
        "MAKE_DATE({n}, {n}, {n})",
        "MAKE_DATE({n}, 2, 29)",
    )


def _times(levels: int) -> st.SearchStrategy[str]:
    return _fill(
        Kind.TIMESTAMP,
        levels,
        *_choices("t"),
        "CAST({d} AS TIMESTAMP)",
        "TRY_CAST({s} AS TIMESTAMP)",
        "COALESCE({d}, {t})",
        *(f"DATE_TRUNC('{unit}', {{t}})" for unit in ("year", "week", "day", "hour", "second")),
        *(f"{{t}} + INTERVAL 100000 {unit}" for unit in ("YEAR", "MONTH", "DAY", "SECOND")),
        *(f"{{t}} - INTERVAL 100000 {unit}" for unit in ("YEAR", "HOUR", "MINUTE")),
        "TO_TIMESTAMP({n})",
        "TRY_STRPTIME({s}, '%Y-%m-%d')",
        "TRY_STRPTIME({s}, '%d.%m.%y %H:%M:%S')",
    )


_LETTERS = {
    "n": Kind.NUMBER,
    "s": Kind.TEXT,
    "b": Kind.BOOLEAN,
    "d": Kind.DATE,
    "t": Kind.TIMESTAMP,
}
_ATOMS = {
    Kind.NUMBER: _number_atoms,
    Kind.TEXT: _text_atoms,
    Kind.BOOLEAN: _truth_atoms,
    Kind.DATE: _date_atoms,
    Kind.TIMESTAMP: _time_atoms,
}
_BUILDERS = {
    Kind.NUMBER: _numbers,
    Kind.BOOLEAN: _truths,
    Kind.TEXT: _texts,
    Kind.DATE: _dates,
    Kind.TIMESTAMP: _times,
}
