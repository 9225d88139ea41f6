"""The engine by its name: DuckDB in this process, or others, imported only where they are used."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unacorda.addresses import shown
from unacorda.errors import InvalidParameter
from unacorda.query.engines.engine import Engine

__all__ = ["open_engine"]

_POSTGRES = ("postgresql", "postgres", "postgresql+psycopg")


def open_engine(
    engine: object,
    tables: Mapping[str, Any],
    memory_limit: str,
    threads: int | None,
    timeout: float | None,
) -> Engine:
    """The opened engine.

    engine: "duckdb", a SparkSession, the address of a PostgreSQL server, or a SQLAlchemy
    Engine of one. timeout: after how many seconds a call of it is interrupted. Raises
    InvalidParameter, SourceUnreadable, and MissingExtra for one that is not installed.
    """
    text = engine if isinstance(engine, str) else ""
    scheme, there, _ = text.partition("://")
    package = type(engine).__module__.partition(".")[0]
    if text == "duckdb":
        from unacorda.query.engines.duckdb import DuckDB

        return DuckDB(tables, memory_limit=memory_limit, threads=threads, timeout=timeout)
    if package == "pyspark":
        from unacorda.query.engines.spark import Spark

        return Spark(tables, spark=engine, timeout=timeout)
    if (there and scheme in _POSTGRES) or package == "sqlalchemy":
        from unacorda.query.engines.postgres import Postgres

        return Postgres(tables, server=engine, timeout=timeout)
    raise InvalidParameter(
        "engine",
        shown(engine),
        expected="'duckdb', a SparkSession, 'postgresql://user@host/database' or a "
        "SQLAlchemy Engine of such a database",
    )
