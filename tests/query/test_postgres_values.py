"""What PostgreSQL computes of a row is what DuckDB does, also where it would raise by itself."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import atexit
import contextlib
import math
import random
import re
import struct
from collections.abc import Mapping
from typing import Any

import duckdb
import psycopg
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, seed, settings
from tests.postgres_server import server
from tests.query import expressions_alike
from tests.query.expression_grammar import expressions
from tests.query.expressions_alike import There
from tests.query.postgres_tables import stored
from tests.support.seams import Kind, Untranslatable, parse, quoted, readings
from tests.support.seams import TranslatedTable as Table
from tests.support.seams import translate_to_postgres as translate

from unacorda.errors import InvalidParameter

pytestmark = pytest.mark.service


def values_of(read: Table) -> There:
    """PostgreSQL's values over a table as it is read."""
    table = Table(view="data", columns=read.columns, body=read.body)
    cursor = psycopg.RawCursor(connection())
    cursor.execute("SET timezone = 'UTC'")

    def values(sql: str) -> list[tuple[Any, ...]]:
        return cursor.execute(translate(sql, tables={"data": table}).sql.encode()).fetchall()

    return values


def there(name: str, columns: Mapping[str, str]) -> There:
    """PostgreSQL's values over a stored table."""
    listed = ", ".join(
        f'{quoted(c)} COLLATE "C" AS {quoted(c)}' if kind == "TEXT" else quoted(c)
        for c, kind in columns.items()
    )
    return values_of(Table(view="data", columns=columns, body=f"SELECT {listed} FROM {name}"))


_open: list[psycopg.Connection] = []


def connection() -> psycopg.Connection:
    if not _open:
        _open.append(server().connect())
        atexit.register(_open[0].close)
    return _open[0]


def everything(rows: int, *, seed: int) -> pa.Table:
    """Without the dates that PostgreSQL does not have."""
    with contextlib.closing(duckdb.connect(":memory:")) as engine:
        engine.register("data", expressions_alike.table(rows, seed=seed))
        last = "isfinite({0}) AND {0} > DATE '5874897-12-31'"
        days = ", ".join(
            f"CASE WHEN NOT ({last.format(name)}) THEN {name} END AS {name}" for name in "de"
        )
        return engine.sql(f"SELECT * REPLACE ({days}) FROM data").to_arrow_table()


@pytest.fixture(scope="module")
def data() -> tuple[pa.Table, There]:
    table = everything(220, seed=9)
    return table, there(stored(table), expressions_alike.types())


@pytest.mark.long
def test_every_expression_has_the_same_value(data: tuple[pa.Table, There]) -> None:
    """Over NULL, NaN, signed zeros, infinities, ends of time and strange texts.

    Bit for bit, but for the last bits of curves.
    """
    table, values = data
    texts = [*expressions_alike.ALIKE, *expressions_alike.NEAR]
    assert not expressions_alike.differences(values, table, texts)


def test_a_wrong_value_would_be_found(data: tuple[pa.Table, There]) -> None:
    table, values = data
    assert expressions_alike.differences(values, table.set_column(1, "a", table["b"]), ["a + 1"])


# ---- doubles at the ends of their range --------------------------------------------------------


def of_bits(drawn: random.Random, exponent: int) -> float:
    """A double with this exponent, as its bits have it, and often a round mantissa."""
    mantissa = drawn.choice([0, 1, 2**52 - 1, 2**51, *[drawn.getrandbits(52)] * 6])
    bits = drawn.getrandbits(1) << 63 | min(max(exponent, 0), 2046) << 52 | mantissa
    (found,) = struct.unpack("<d", struct.pack("<Q", bits))
    return float(found)


def pairs(rows: int, *, seed: int) -> pa.Table:
    """Pairs of all doubles, whose products and quotients often are near the last ones."""
    drawn = random.Random(seed)
    ends = (1024, 1023, 1022, -1073, -1074, -1075, -1076, -1077)
    special = [0.0, -0.0, math.inf, -math.inf, None, 1.0, 5e-324, 1.7976931348623157e308]
    first, second = [], []
    for _ in range(rows):
        exponent = drawn.randrange(2047)
        to_end = drawn.choice(ends)
        partner = drawn.choice(
            [
                to_end - (exponent - 1023) + 1023,
                exponent - 1023 - to_end + 1023,
                exponent + drawn.randrange(-3, 4),
                drawn.choice([2046, 2045, 1, 0]),
                drawn.randrange(2047),
            ]
        )
        first.append(of_bits(drawn, exponent))
        value: float | None = of_bits(drawn, partner)
        second.append(drawn.choice(special) if drawn.random() < 0.05 else value)
    return pa.table(
        {
            "n": pa.array(range(rows), pa.int64()),
            "a": pa.array(first, pa.float64()),
            "b": pa.array(second, pa.float64()),
        }
    )


SUMS = (
    "a * b|a / b|a + b|a - b|a % b|a * b + a|a * a / b|a / (a * b)|round(a, 3)|a * b * a * b|a ** 7"
)


def numbers(rows: int, *, seed: int, constants: int) -> list[str]:
    """Expressions whose value differs: none is expected."""
    data = pairs(rows, seed=seed)
    drawn = random.Random(seed)
    known = [repr(abs(of_bits(drawn, drawn.randrange(692, 1354)))) for _ in range(constants)]
    texts = SUMS.split("|")
    for constant in [*known, "1e100", "1e-100", "3", "0.1"]:
        texts += [f"a {sign} {constant}" for sign in "+-*/%"]
        texts += [f"{constant} - a", f"{constant} / a"]
    kinds = {"n": "BIGINT", "a": "DOUBLE", "b": "DOUBLE"}
    return expressions_alike.differences(there(stored(data), kinds), data, texts)


def test_no_sum_product_or_quotient_raises_or_differs() -> None:
    assert not numbers(600, seed=1, constants=2)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 6))
def test_no_sum_product_or_quotient_of_many_raises_or_differs(seed: int) -> None:
    assert not numbers(20_000, seed=seed, constants=12)


def test_by_itself_postgresql_would_raise() -> None:
    """What the guards are for."""
    for sql in ("a * b", "a / b"):
        name = stored(pairs(600, seed=1))
        with pytest.raises(psycopg.DataError, match=r"out of range|division by zero"):
            connection().execute(f"SELECT sum(CAST({sql} AS float8)) FROM {name}".encode())


# ---- random expressions ------------------------------------------------------------------------


_NAMED = {
    "x": "a",
    "y": "b",
    "ratio": "a",
    "age": "i",
    "n": "j",
    "s": "t",
    "u": "u",
    "b": "f",
    "d": "d",
    "t": "s",
}
"""The columns of the grammar, by those of the hostile table."""
_CURVED = re.compile(r"LN|EXP|LOG|\^|POWER|SIN|COS|TAN|CBRT", re.IGNORECASE)


class Both:
    """DuckDB and PostgreSQL over one hostile table, under the names of the grammar."""

    def __init__(self, seed: int) -> None:
        table = everything(220, seed=seed)
        columns = {name: table[held] for name, held in _NAMED.items()}
        self.data = pa.table({"k": table["n"], **columns})
        read = {name: expressions_alike.READINGS[held] for name, held in _NAMED.items()}
        self.readings = {
            name: readings(name, KINDS[one.column.kind], None, sql=quoted(name))[0]
            for name, one in read.items()
        }
        kinds = {n: expressions_alike.types_of(one.column.kind) for n, one in read.items()}
        self.there = there(stored(self.data), {"k": "BIGINT", **kinds})

    def differ(self, text: str) -> bool:
        """Whether an expression has another value there in any row; it must not fail."""
        found = parse(text, columns={n: one.column for n, one in self.readings.items()})
        used = (one for one in self.readings.values() if one.name in found.columns)
        listed = "".join(f", {one.sql} AS {quoted(one.name)}" for one in used)
        sql = f"SELECT k, {found.sql} AS x0 FROM (SELECT k{listed} FROM data)"
        with duckdb.connect(":memory:") as engine:
            engine.register("data", self.data)
            ours = sorted(engine.execute(sql).fetchall())
        theirs = sorted(tuple(line) for line in self.there(sql))
        return _CURVED.search(text) is None and ours != theirs


KINDS = {
    Kind.NUMBER: "DOUBLE",
    Kind.INTEGER: "BIGINT",
    Kind.TEXT: "VARCHAR",
    **{kind: kind.name for kind in (Kind.BOOLEAN, Kind.DATE, Kind.TIMESTAMP)},
}


def alike(number: int, examples: int, levels: int) -> None:
    both, compared = Both(number), [0]

    @seed(number)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(drawn=expressions(levels=levels))
    def check(drawn: tuple[Kind, str]) -> None:
        with contextlib.suppress(InvalidParameter, Untranslatable):  # typed otherwise, or too deep
            assert not both.differ(drawn[1])
            compared[0] += 1

    check()
    assert compared[0] > 0.9 * examples


def test_random_expressions_are_the_same_and_none_fails() -> None:
    alike(1, 150, levels=3)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(2, 6))
def test_many_random_expressions_are_the_same_and_none_fails(number: int) -> None:
    alike(number, 1_000, levels=4)
