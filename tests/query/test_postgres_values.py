"""What PostgreSQL computes of a row is what DuckDB does, also where it would raise by itself."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import atexit
import math
import random
import struct
from collections.abc import Mapping
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from tests.postgres_server import server
from tests.query import expressions_alike
from tests.query.expressions_alike import There
from tests.query.postgres_tables import stored
from tests.support.seams import TranslatedTable as Table
from tests.support.seams import quoted
from tests.support.seams import translate_to_postgres as translate

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
