"""Every function of the expression language, and values that tell engines apart."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
import operator
import random
from collections.abc import Callable, Sequence
from typing import Any

import duckdb
import pyarrow as pa
from tests.support.seams import ColumnReading, Kind, parse, readings

__all__ = [
    "ALIKE",
    "COLUMNS",
    "NEAR",
    "READINGS",
    "differences",
    "statement",
    "table",
    "types",
    "types_of",
]

_KINDS = {
    **dict.fromkeys("ab", Kind.NUMBER),
    **dict.fromkeys("ij", Kind.INTEGER),
    **dict.fromkeys("tu", Kind.TEXT),
    **dict.fromkeys("fg", Kind.BOOLEAN),
    **dict.fromkeys("de", Kind.DATE),
    **dict.fromkeys("sr", Kind.TIMESTAMP),
}
_DUCKDB = {
    Kind.NUMBER: "DOUBLE",
    Kind.INTEGER: "BIGINT",
    Kind.TEXT: "VARCHAR",
    Kind.BOOLEAN: "BOOLEAN",
    Kind.DATE: "DATE",
    Kind.TIMESTAMP: "TIMESTAMP",
}

_ALIKE = """
a + b | a - b | a * b | a / b | a % b | -a | (a + b) * (a - b) / (b * b - 1) % 7 | abs(a)
floor(a) | ceil(a) | trunc(a) | round(a) | round(a / 10) | sign(a) | sqrt(a) | sqrt(a * a + b * b)
round(a, 1) | round(a, 3) | round(a, 15) | round(a, -1) | round(a, -3)
radians(a) | degrees(a) | clamp(a, -1, b) | hypot(a, b) | square(a) | pi() * a | i % 3 | i / j
a * b * a | a / b / b | (a - b) * (a - b) * (a - b) | a * a - b * b | i * j + 1 | square(square(a))
a = b | a <> b | a < b | a <= b | a is distinct from b | a is not distinct from b
a between b and 3 | a in (0, 1, 2.5) | a is null | i in (1, 2, 3) | not f | f and g | f or g
f and a > 1 or not g | case when a > 1 then 2 else b end | case i when 1 then 'x' else t end
coalesce(a, b, 1) | nullif(a, b) | nullif(t, u) | least(a, b) | greatest(a, b, 3) | greatest(t, u)
least(d, e) | if(f, a, b) | f + 1 | f = g
lower(t) | upper(t) | trim(t) | ltrim(t) | rtrim(t) | trim(t, 'aé ') | ltrim(t, 'a') | rtrim(t, 'b')
left(t, 3) | left(t, 0) | right(t, 3) | right(t, 0) | substring(t, 2, 3) | substring(t, 1, 0)
substring(t, 4) | split_part(t, '-', 1) | split_part(t, '-', 2) | split_part(t, 'a', 3)
replace(t, 'a', 'b') | replace(t, '-', '') | lpad(t, 5, '0') | rpad(t, 5, 'xy') | lpad(t, 2, 'é')
t || u | concat(t, u, 'x') | concat_ws('-', t, u) | length(t) | strpos(t, u) | strpos(t, '')
t = u | t < u | t <> 'a' | t in ('a', 'A', '') | t like 'a%' | t like '%\\%' | t like '_'
t like '%' | t like '%é_' | t like '${x}'
 t ilike 'A%' | t ilike '%É%' | t ilike 'ß%' | t not like 'a'
starts_with(t, u) | ends_with(t, u) | contains(t, u) | contains(t, '') | t between 'a' and 'b'
try_cast(t as double) | try_cast(t as boolean) | try_cast(t as date) | try_cast(t as timestamp)
try_cast(a as integer)
try_cast(a as bigint) | try_cast(a as tinyint) | try_cast(a as smallint) | try_cast(i as varchar)
try_cast(a as boolean) | try_cast(f as varchar) | try_cast(f as double) | try_cast(d as varchar)
try_cast(t as integer) | try_cast(t as bigint)
try_cast(s as varchar) | try_cast(s as date) | try_cast(d as timestamp) | cast(i as varchar) || '%'
d = e | d < e | d >= '2024-01-31' | s < r | s >= d | s = '2024-02-29 23:59:59'
d in ('2024-02-29', '1970-01-01') | coalesce(d, e)
extract(year from d) | extract(month from d) | extract(day from d) | extract(quarter from d)
extract(week from d) | extract(isoyear from d) | extract(dow from d) | extract(isodow from d)
extract(doy from d) | extract(decade from d) | extract(century from d) | extract(epoch from d)
extract(year from s) | extract(hour from s) | extract(minute from s) | extract(second from s)
extract(epoch from s) | extract(week from s) | extract(dow from s)
date_diff('year', d, e) | date_diff('quarter', d, e) | date_diff('month', d, e)
date_diff('week', d, e) | date_diff('day', d, e) | date_diff('hour', s, r)
date_diff('minute', s, r) | date_diff('second', s, r) | date_diff('day', s, r)
date_diff('month', s, r) | date_diff('week', s, r) | date_diff('year', s, d)
date_sub('year', d, e) | date_sub('quarter', d, e) | date_sub('month', d, e)
date_sub('week', d, e) | date_sub('day', d, e) | date_sub('hour', s, r) | date_sub('month', s, r)
date_sub('second', s, r) | date_sub('day', s, r) | date_part('year', age(d, e))
date_part('year', age(s, r)) | date_trunc('year', d) | date_trunc('quarter', d)
date_trunc('month', d) | date_trunc('week', d) | date_trunc('day', d) | date_trunc('month', s)
date_trunc('week', s) | date_trunc('hour', s) | date_trunc('minute', s) | date_trunc('second', s)
d + interval 7 day | d - interval 1 month | d + interval 100000 year | d + interval 3 quarter
s - interval 3 month | s + interval 90 minute | s + interval 1 week | s + interval 100000 second
d + interval 1 year | last_day(d) | last_day(s) | dayname(d) | monthname(d)
to_timestamp(a) | to_timestamp(i * 1e6) | make_date(i, j, 1) | make_date(2000 + i, 2, j)
date_trunc('month', try_cast(t as date)) | extract(year from try_cast(t as date))
strftime(d, '%Y-%m-%d') | strftime(d, '%d.%-m.%y %j %a %A %b %B %%')
strftime(d, '%G-%V %u %w %U %W') | strftime(s, '%H:%M:%S %I %p %-H')
strftime(s, '') | strftime(d, 'it''s {}')
try_strptime(t, '%Y-%m-%d') | try_strptime(t, '%d.%m.%y') | try_strptime(t, '%Y/%m/%d %H:%M:%S')
try_strptime(t, '(%m)') | extract(month from try_strptime(t, '%m/%d/%Y'))
"""

_NEAR = """
ln(a) | log2(a) | log10(a) | exp(a) | power(a, b) | a ** 2 | a ** -3 | a ** 0.5 | sin(a) | cos(a)
tan(a) | asin(a) | acos(a) | atan(a) | atan2(a, b) | cbrt(a) | exp(-abs(a)) | power(abs(a), i)
"""

_NUMBERS: Sequence[float | None] = (
    *(None, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.1, 0.3, 3.0, 7.0, -7.3, 1e-9),
    *(0.49999999999999994, 5e-324, 2.0**52 + 0.5, 2.0**53, -(2.0**53) - 2, 2.0**62, 2.0**63),
    *(
        -(2.0**63),
        1e22,
        -1e300,
        1.7976931348623157e308,
        float("inf"),
        float("-inf"),
        127.5,
        32767.5,
    ),
    *(2147483647.5, 1.005, 2.675, 123456.789, -1234.5, 62135596800.0, 253402300799.5, 1e6, 86399.9),
    *(1e100, -1e100, 1e-100, -1e-100, 1.1e100, 9e-101, 3e99, 7e-99, 2.0**-332, 1e75, 1e-75, 1e-16),
    *(2.0**-280, 1.5 * 2.0**-332, -1e-83, 230.5, -230.5),
    *(345.5, -345.5, 700.0, 0.9999999999999999, 1.0000000000000002, float("nan")),
)
_WHOLES: Sequence[int | None] = (
    *(None, 0, 1, 2, 3, -1, -7, 12, 13, 29, 30, 31, 100, 2024, 9999, 10000),
    *(2**53, -(2**62), 2**53 + 1, 10**18, 2**63 - 1, -(2**63)),
)
_TEXTS: Sequence[str | None] = (
    *(
        None,
        "",
        "a",
        "A",
        "b",
        "abc",
        "ABC",
        " a ",
        "\ta\n",
        "é",
        "É",
        "e\u0301",
        "ß",
        "ẞ",
        "straße",
    ),
    *("İ", "ı", "ſ", "K", "Ǆ", "ǅ", "ﬁ", "Σς", "😀a", "a😀b", "\u00a0a\u3000", "a-b", "a-b-c", "-"),
    *("a%b", "a_b", "a\\b", "\\", "${x}", "it's", '"q"', "`", "aaaaaaa", "日本語", "\x01", "\x7f"),
    *("1", "1.5", " 2 ", "1e3", "1_000", "1__0", "_1", "1_", "1d", "0x10", "+5", "+-5", "-+5", "."),
    *(
        "1e999",
        "-1e999",
        "1e-999",
        "inf",
        "-Infinity",
        "+inf",
        "nan",
        "-NaN",
        "infinitum",
        "1,5",
        "٣",
    ),
    *(
        "1.",
        ".5",
        "-.5e2",
        "1e",
        "1e+",
        "e5",
        "1 2",
        "- 5",
        "0.1",
        "9007199254740993",
        "1._5",
        "1_.5",
    ),
    *("true", "TRUE", "t", "f", "yes", "No", "y", "n", "0", " true", "on", "2", "tRue"),
    *(
        "2024-01-31",
        "2024-1-3",
        " 2024-02-29 ",
        "2023-02-29",
        "2024/01/31",
        "2024 01 31",
        "24-01-01",
    ),
    *("2024\\01\\31", "2024-01/31", "2024-01-31x", "20240131", "2024-01", "2024", "-44-03-15"),
    *("0044-03-15 (BC)", "12000-01-01", "0000-01-01", "5881580-07-10", "5881580-07-11", "epoch"),
    *(
        "infinity",
        "-infinity",
        "Infinity ",
        "2024-01-311",
        "2024-13-01",
        "2024-00-01",
        "2024-01-00",
    ),
    *(
        "2024-01-31 12:30",
        "2024-01-31T12:30:15",
        "2024-01-31 25:00",
        "2024-01-31 12",
        "2024-01-31 ",
    ),
    *(
        "2024-01-31 12:30:15.123456",
        "2024-01-31 12:30:61",
        "2024-01-31 12:30:15Z",
        "00002024-01-01",
    ),
    *("2024-01-31 24:00:00", "2024-01-31 24:00:01", "2024-01-31 1:2", "2024-01-31 1:2:3.", "inf "),
    *(
        "2024-01-31 12:30:15+02",
        "2024-01-31 12:30:15 +02:30",
        "2024-01-31 12:30:15-2",
        " -Infinity",
    ),
    *(
        "2024-01-31 12:30:15  Z",
        "2024-01-31 12:30:15UTC",
        "2024-01-31 12:30 Europe/Berlin",
        "- 1-1-1",
    ),
    *(
        "2024-01-31 (bc)",
        "2024-01-31  (BC)",
        "0044-03-15 (BC) 12:30:15",
        "-0001-01-01 (BC)",
        "0-1-1",
    ),
    *(
        "2024-01-31T 12:30",
        "2024-01-31 T12:30",
        "2024-01-31\t12:30",
        "2024-01-31 012:30",
        "+infinity",
    ),
    *("294247-01-10 04:00:54.775806", "294247-01-10 04:00:54.775808", "290309-12-22 (BC) 00:00:00"),
    *("290309-12-21 (BC) 23:00", "290309-12-22 (BC)", "294247-01-10", "294247-01-11", "infinity x"),
    *(
        "31.01.24",
        "31.1.70",
        "1.13.2024",
        "30.2.2024",
        "2024/1/31 7:5:9",
        "01/31/2024",
        " (7) ",
        "(0)",
    ),
    *("2024-01-31 12:30:15.1234567", "2024-01-31\x0b", "2024-01-31\xa0", "99999999999-01-01"),
)
_DATES: Sequence[str | None] = (
    *(None, "1970-01-01", "1969-12-31", "2024-02-29", "2024-01-31", "2023-12-31", "2000-02-29"),
    *("1900-03-01", "0001-01-01", "9999-12-31", "2020-12-28", "2021-01-03", "2021-01-04"),
    *("2024-03-31", "2024-02-28", "12000-06-15", "0044-03-15 (BC)", "0001-12-31 (BC)", "infinity"),
    *("-infinity", "1582-10-10", "290000-01-01", "5881580-07-10", "1999-12-27", "0100-12-31"),
    *("9999-11-30", "9998-12-31", "0002-01-01", "0001-02-28", "10000-01-01"),
)
_TIMES: Sequence[str | None] = (
    *(None, "1970-01-01 00:00:00", "1969-12-31 23:59:59.999999", "2024-02-29 23:59:59"),
    *("2024-02-29 12:30:15.5", "2000-01-01 00:00:00.000001", "0001-01-01 00:00:00"),
    *("9999-12-31 23:59:59.999999", "2024-01-31 10:00:00", "2023-12-31 23:59:59.75", "infinity"),
    *("-infinity", "2024-03-31 09:59:59", "1582-10-10 01:02:03", "0044-03-15 (BC) 12:00:00"),
    *("12000-01-01 05:06:07", "2021-01-04 00:00:00", "2024-01-01 00:00:00"),
    *("9999-12-31 22:30:00", "0001-01-01 01:30:00", "10000-01-01 00:00:00"),
)
_LISTS: dict[Kind, Sequence[Any]] = {
    Kind.NUMBER: _NUMBERS,
    Kind.INTEGER: _WHOLES,
    Kind.TEXT: _TEXTS,
    Kind.BOOLEAN: (None, True, False),
    Kind.DATE: _DATES,
    Kind.TIMESTAMP: _TIMES,
}


READINGS: dict[str, ColumnReading] = {
    name: readings(name, _DUCKDB[kind], None, sql=f'"{name}"')[0] for name, kind in _KINDS.items()
}
"""How columns are read, whatever they hold."""
COLUMNS = {name: reading.column for name, reading in READINGS.items()}


def _split(text: str) -> list[str]:
    return [part.strip() for line in text.strip().splitlines() for part in _parts(line)]


def _parts(line: str) -> list[str]:
    return [part.replace("\x00", "||") for part in line.replace("||", "\x00").split("|")]


ALIKE, NEAR = _split(_ALIKE), _split(_NEAR)


def table(rows: int, *, seed: int) -> pa.Table:
    """Rows in which every value of every kind stands beside random others of all kinds."""
    drawn = random.Random(seed)
    connection = duckdb.connect(":memory:")
    columns = {}
    for name, kind in _KINDS.items():
        values = list(_LISTS[kind])
        values += drawn.choices(values, k=max(0, rows - len(values)))
        drawn.shuffle(values)
        written = _DUCKDB[kind]
        columns[name] = connection.sql(
            f"SELECT unnest($1::{'VARCHAR' if kind in (Kind.DATE, Kind.TIMESTAMP) else written}[])"
            f"::{written} AS c",
            params=[values[:rows]],
        ).to_arrow_table()["c"]
    connection.close()
    return pa.table({"n": pa.array(range(rows), pa.int64()), **columns})


There = Callable[[str], Sequence[Sequence[Any]]]
"""Another engine: the lines of a SELECT from `data` in DuckDB's SQL, translated."""

_AT_ONCE = 40


def differences(there: There, data: pa.Table, texts: Sequence[str]) -> list[str]:
    """Where another engine's value is not DuckDB's: the expression, the row, both values."""
    wrong = []
    with duckdb.connect(":memory:") as connection:
        connection.register("data", data)
        for start in range(0, len(texts), _AT_ONCE):
            part = texts[start : start + _AT_ONCE]
            sql = statement(part)
            ours = sorted(connection.execute(sql).fetchall(), key=operator.itemgetter(0))
            theirs = sorted(there(sql), key=operator.itemgetter(0))
            assert len(ours) == len(theirs)
            for (at, *one), (_, *other) in zip(ours, theirs, strict=True):
                wrong += [
                    f"{text}: row {at}: {a!r} and {b!r}"
                    for text, a, b in zip(part, one, other, strict=True)
                    if not _equal(a, b, near=text in NEAR)
                ]
    return wrong


def statement(texts: Sequence[str]) -> str:
    """A SELECT of n and the values of expressions over the columns of `data` as they are read."""
    found = [parse(text, columns=COLUMNS) for text in texts]
    used = set().union(*(one.columns for one in found))
    listed = "".join(
        f', {reading.sql} AS "{reading.column.name}"'
        for reading in READINGS.values()
        if reading.column.name in used
    )
    values = "".join(f", {one.sql} AS x{number}" for number, one in enumerate(found))
    return f"SELECT n{values} FROM (SELECT n{listed} FROM data)"


def _equal(ours: Any, theirs: Any, *, near: bool) -> bool:
    if near and None not in (ours, theirs):
        return math.isclose(ours, theirs, rel_tol=1e-12, abs_tol=1e-15)
    return bool(ours == theirs)


def types() -> dict[str, str]:
    """The types of the columns of `data`."""
    return {"n": "BIGINT", **{name: types_of(kind) for name, kind in _KINDS.items()}}


def types_of(kind: Kind) -> str:
    """How a translation calls the type of a column."""
    return {Kind.NUMBER: "DOUBLE", Kind.INTEGER: "BIGINT", Kind.TEXT: "TEXT"}.get(kind, kind.name)
