"""What another engine computes of a row is what DuckDB does, and no value makes it fail."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, seed, settings
from tests.query import expressions_alike
from tests.query.engines_alike import OTHERS, opened_on
from tests.query.expression_grammar import expressions
from tests.query.expressions_alike import There
from tests.support.seams import Kind, Untranslatable, parse, quoted, readings

from unacorda.errors import InvalidParameter

pytestmark = [pytest.mark.service, pytest.mark.parametrize("engine", OTHERS)]


def everything(rows: int, *, seed: int) -> pa.Table:
    """All kinds of values, without the dates that PostgreSQL does not have."""
    with contextlib.closing(duckdb.connect(":memory:")) as engine:
        engine.register("data", expressions_alike.table(rows, seed=seed))
        last = "isfinite({0}) AND {0} > DATE '5874897-12-31'"
        days = ", ".join(
            f"CASE WHEN NOT ({last.format(name)}) THEN {name} END AS {name}" for name in "de"
        )
        return engine.sql(f"SELECT * REPLACE ({days}) FROM data").to_arrow_table()


@contextlib.contextmanager
def there(engine: str, table: pa.Table) -> Iterator[There]:
    """An engine's values over a table, as a session reads it; what it raises is seen."""
    with opened_on(engine, table) as session:
        held: Any = session._engine
        with contextlib.closing(held._begin()) as asking:
            yield lambda sql: asking.rows(sql.replace("FROM data", f"FROM {held.scan('t')}"), ())


@pytest.mark.long
def test_every_expression_has_the_same_value(engine: str) -> None:
    """Over NULL, NaN, signed zeros, infinities, ends of time and strange texts.

    Bit for bit, but for the last bits of curves.
    """
    table = everything(220, seed=9)
    texts = [*expressions_alike.ALIKE, *expressions_alike.NEAR]
    with there(engine, table) as values:
        assert not expressions_alike.differences(values, table, texts)


def test_a_wrong_value_would_be_found(engine: str) -> None:
    table = everything(40, seed=1)
    with there(engine, table.set_column(1, "a", table["b"])) as values:
        assert expressions_alike.differences(values, table, ["a + 1"])


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
    """DuckDB and another engine over one hostile table, under the names of the grammar."""

    def __init__(self, seed: int) -> None:
        table = everything(220, seed=seed)
        columns = {name: table[held] for name, held in _NAMED.items()}
        self.data = pa.table({"k": table["n"], **columns})
        read = {name: expressions_alike.READINGS[held] for name, held in _NAMED.items()}
        self.readings = {
            name: readings(name, KINDS[one.column.kind], None, sql=quoted(name))[0]
            for name, one in read.items()
        }

    def differ(self, text: str, values: There) -> bool:
        """Whether an expression has another value there in any row; it must not fail."""
        found = parse(text, columns={n: one.column for n, one in self.readings.items()})
        used = (one for one in self.readings.values() if one.column.name in found.columns)
        listed = "".join(f", {one.sql} AS {quoted(one.column.name)}" for one in used)
        sql = f"SELECT k, {found.sql} AS x0 FROM (SELECT k{listed} FROM data)"
        with duckdb.connect(":memory:") as engine:
            engine.register("data", self.data)
            ours = sorted(engine.execute(sql).fetchall())
        theirs = sorted(tuple(line) for line in values(sql))
        return _CURVED.search(text) is None and ours != theirs


KINDS = {
    Kind.NUMBER: "DOUBLE",
    Kind.INTEGER: "BIGINT",
    Kind.TEXT: "VARCHAR",
    **{kind: kind.name for kind in (Kind.BOOLEAN, Kind.DATE, Kind.TIMESTAMP)},
}


def alike(engine: str, number: int, examples: int, levels: int) -> None:
    both, compared = Both(number), [0]

    with there(engine, both.data) as values:

        @seed(number)
        @settings(
            max_examples=examples,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(drawn=expressions(levels=levels))
        def check(drawn: tuple[Kind, str]) -> None:
            # Typed otherwise, or too deep.
            with contextlib.suppress(InvalidParameter, Untranslatable):
                assert not both.differ(drawn[1], values)
                compared[0] += 1

        check()
    assert compared[0] > 0.9 * examples


def test_random_expressions_are_the_same_and_none_fails(engine: str) -> None:
    alike(engine, 1, 120, levels=3)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(2, 6))
def test_many_random_expressions_are_the_same_and_none_fails(engine: str, number: int) -> None:
    alike(engine, number, 150, levels=4)
