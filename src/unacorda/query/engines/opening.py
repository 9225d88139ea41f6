"""The engine by its name: DuckDB in this process, or others, imported only where they are used."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from unacorda.addresses import shown
from unacorda.errors import InvalidParameter
from unacorda.query.engines.engine import Engine

__all__ = ["ENGINES", "KnownEngine", "open_engine"]

_POSTGRES = ("postgresql", "postgres", "postgresql+psycopg")


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownEngine:
    """One engine: how a session is given it, and where it is.

    given: in words; takes: whether it is what was given; module, kind: of the class; argument: what
    its constructor calls what was given, None where that says no more than the name; options: of a
    session that are its own.
    """

    given: str
    takes: Callable[[object], bool]
    module: str
    kind: str
    argument: str | None = None
    options: frozenset[str] = frozenset()


def _made_by(engine: object, package: str) -> bool:
    return type(engine).__module__.partition(".")[0] == package


def _postgres(engine: object) -> bool:
    scheme, there, _ = (engine if isinstance(engine, str) else "").partition("://")
    return (bool(there) and scheme in _POSTGRES) or _made_by(engine, "sqlalchemy")


ENGINES = (
    KnownEngine(
        given="'duckdb'",
        takes=lambda engine: isinstance(engine, str) and engine == "duckdb",
        module="duckdb",
        kind="DuckDB",
        options=frozenset({"memory_limit", "threads"}),
    ),
    KnownEngine(
        given="a SparkSession",
        takes=lambda engine: _made_by(engine, "pyspark"),
        module="spark",
        kind="Spark",
        argument="spark",
    ),
    KnownEngine(
        given="'postgresql://user@host/database' or a SQLAlchemy Engine of such a database",
        takes=_postgres,
        module="postgres",
        kind="Postgres",
        argument="server",
    ),
)
"""All engines there are."""


def open_engine(
    engine: object, tables: Mapping[str, Any], *, timeout: float | None, **options: object
) -> Engine:
    """The opened engine.

    engine: one of those that `ENGINES` take. timeout: after how many seconds a call of it is
    interrupted. options: others, None where they are left out. Raises InvalidParameter, also for an
    option that the engine has not, SourceUnreadable, and MissingExtra for one that is not
    installed.
    """
    for known in ENGINES:
        if not known.takes(engine):
            continue
        given = {name: value for name, value in options.items() if value is not None}
        for name, value in given.items():
            if name not in known.options:
                having = " or ".join(one.given for one in ENGINES if name in one.options)
                raise InvalidParameter(name, value, expected=f"it with engine={having} alone")
        if known.argument is not None:
            given[known.argument] = engine
        module = importlib.import_module(f"unacorda.query.engines.{known.module}")
        opened: Engine = getattr(module, known.kind)(tables, timeout=timeout, **given)
        return opened
    expected = ", ".join(known.given for known in ENGINES)
    raise InvalidParameter("engine", shown(engine), expected=expected)
