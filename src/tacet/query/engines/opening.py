"""The engine by its name: DuckDB in this process, or others, imported only where they are used."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tacet.errors import InvalidParameter
from tacet.query.engines.protocol import Engine

__all__ = ["open_engine"]

_POSTGRES = ("postgresql", "postgres", "postgresql+psycopg")


def open_engine(
    engine: object, tables: Mapping[str, Any], memory_limit: str, threads: int | None
) -> Engine:
    """The opened engine: "duckdb", "spark", a SparkSession, or the address of a PostgreSQL server.

    Raises InvalidParameter, SourceUnreadable, MissingExtra for one that is not installed.
    """
    if engine == "duckdb":
        from tacet.query.engines.duckdb import DuckDB

        return DuckDB(tables, memory_limit=memory_limit, threads=threads)
    if isinstance(engine, str) and engine.partition("://")[0] in _POSTGRES:
        from tacet.query.engines.postgres import Postgres

        return Postgres(tables, address=engine)
    session = None if isinstance(engine, str) and engine == "spark" else engine
    if engine != "spark" and not type(engine).__module__.startswith("pyspark."):
        raise InvalidParameter(
            "engine",
            engine,
            expected="'duckdb', 'spark', a SparkSession or 'postgresql://user@host/database'",
        )
    from tacet.query.engines.spark import Spark

    return Spark(tables, spark=session, memory_limit=memory_limit, threads=threads)
