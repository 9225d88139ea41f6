"""Tables made anew, found again, or brought from an older schema to this one."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy
from sqlalchemy import insert, literal, select

from unacorda.errors import LedgerMismatch
from unacorda.ledger.tables import (
    SCHEMA_VERSION,
    SINCE_3,
    TABLES,
    accounts,
    entries,
    metadata,
    versions,
)

__all__ = ["prepare"]


def prepare(
    engine: sqlalchemy.Engine, name: str, *, guards: Iterable[str], lock: str | None = None
) -> None:
    """Make the tables, or migrate those that are there, in one transaction: all or nothing.

    name: of the ledger, for messages. guards: statements by which the database refuses to change
    or delete lines. lock: a statement that keeps others from preparing meanwhile.
    Raises LedgerMismatch for tables of a newer schema, and for others of the same names.
    """
    with engine.begin() as connection:
        if lock is not None:
            connection.exec_driver_sql(lock)
        found = _version(connection, name)
        if found == SCHEMA_VERSION:
            return
        if found is not None and not 1 <= found < SCHEMA_VERSION:
            raise LedgerMismatch(
                f"The ledger {name} has schema version {found}; this unacorda reads version "
                f"{SCHEMA_VERSION} and older ones. Use the unacorda that wrote it, or a newer one."
            )
        if found == 1:
            _set_aside(connection)
        if found == 2:  # as it was then
            _widen(connection)
        else:
            metadata.create_all(connection, checkfirst=False)
        if found == 1:
            _take_over(connection)
        connection.execute(insert(versions).values(version=SCHEMA_VERSION))
        for statement in guards if found != 2 else ():
            connection.exec_driver_sql(statement)


def _version(connection: sqlalchemy.Connection, name: str) -> int | None:
    there = sqlalchemy.inspect(connection)
    known = [table for table in TABLES if there.has_table(table)]
    if not known:
        return None
    columns = {column["name"] for table in known for column in there.get_columns(table)}
    if set(TABLES) != set(known) or not {"version", "dataset", "sequence"} <= columns:
        raise LedgerMismatch(
            f"The ledger {name} has tables {', '.join(known)} that no unacorda made. Open one in "
            "another place, or rename these."
        )
    return connection.execute(select(sqlalchemy.func.max(versions.c.version))).scalar()


def _set_aside(connection: sqlalchemy.Connection) -> None:
    """Rename the tables of schema 1, which only SQLite files have."""
    for table in TABLES:
        for verb in ("update", "delete"):
            connection.exec_driver_sql(f"DROP TRIGGER IF EXISTS {table}_no_{verb}")
        connection.exec_driver_sql(f"ALTER TABLE {table} RENAME TO {table}_1")


def _widen(connection: sqlalchemy.Connection) -> None:
    """Add the columns that schema 2 did not have: empty, where they change no digest."""
    for name in SINCE_3:
        kind = entries.c[name].type.compile(connection.dialect)
        connection.exec_driver_sql(f"ALTER TABLE {entries.name} ADD COLUMN {name} {kind}")
    (index,) = (index for index in entries.indexes if index.name == "unacorda_splits")
    index.create(connection)


def _take_over(connection: sqlalchemy.Connection) -> None:
    """Copy every line of schema 1 as it stands; what is new is empty, and changes no digest."""
    later = ("sub_account", "sub_spent", *SINCE_3)
    for table in (accounts, entries):
        old = sqlalchemy.table(
            f"{table.name}_1", *(sqlalchemy.column(c.name) for c in table.columns)
        )
        copied = [
            literal(None).label(c.name) if c.name in later else old.c[c.name] for c in table.columns
        ]
        names = [c.name for c in table.columns]
        connection.execute(insert(table).from_select(names, select(*copied)))
    for table_name in TABLES:
        connection.exec_driver_sql(f"DROP TABLE {table_name}_1")
