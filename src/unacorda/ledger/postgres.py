"""The store in a PostgreSQL database, which many machines share."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

import sqlalchemy
from sqlalchemy.dialects import postgresql

from unacorda.addresses import ESCAPED, Server, shown
from unacorda.errors import InvalidParameter, LedgerFailed
from unacorda.extras import require
from unacorda.ledger.forks import no_fork, tell_of_forks
from unacorda.ledger.tables import (
    TABLES,
    Statements,
    TableTransaction,
    accounts,
    entries,
    prepare,
)
from unacorda.postgres import LEDGER, beginning, pinned

_WAIT_SECONDS = 60
_CONNECTIONS = 8
_PREPARING = 7_461_636_574  # "unacorda" in hexadecimal digits: any number, always the same
_DIALECT = postgresql.dialect(paramstyle="pyformat")  # type: ignore[no-untyped-call]
_PLACE = (
    "SELECT nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
    f"WHERE c.oid = to_regclass('{entries.name}')"
)
_SOUND = (
    "SELECT current_setting('fsync'), count(*) FROM pg_class "
    "WHERE oid IN ({oids}) AND relkind = 'r' AND relpersistence = 'p'"
)

_END = "SET CONSTRAINTS ALL IMMEDIATE; SET LOCAL synchronous_commit = on; COMMIT"
"""Code of a trigger may have put off checks, or the wait for the disk."""


class PostgresStore:
    """Accounts in the tables of a database; write access means permission to spend.

    A writing transaction first locks the row of its account. So writers of one dataset wait for
    each other, on any machine, and those of other datasets do not. A commit is on the server's disk
    before it returns: each transaction turns `synchronous_commit` on, and a server with `fsync=off`
    is refused. A client that stops in the middle loses its transaction, at once if its connection
    ends, else after a minute.

    Settings of a role or an address are overridden (`unacorda.postgres`), and a policy that would
    hide rows is an error. The schema is that of the tables when the store was opened. Triggers
    refuse to update, delete or truncate. Threads take connections from a pool of at most eight; a
    fork waits until none is used, and the child makes its own.
    """

    durable = True

    def __init__(self, url: str) -> None:
        require("psycopg", extra="postgres")
        self._engine, self._server = _engine(url)
        self.name = self._server.name
        sqlalchemy.event.listen(self._engine, "begin", _prepare)
        lock = f"SELECT pg_advisory_xact_lock({_PREPARING})"
        with no_fork(), self._translated():
            prepare(self._engine, self.name, guards=_guards(), lock=lock)
            schema = self._check_place()
        self._statements = Statements(_DIALECT, locking=True, schema=schema)
        place = _DIALECT.identifier_preparer.quote_identifier(schema)
        names = [f"{place}.{table.name}" for table in (accounts, entries)]
        oids = ", ".join("'" + name.replace("'", "''") + "'::regclass" for name in names)
        # No one puts something else in their place between the look and what follows.
        lock = f"LOCK TABLE {', '.join(names)} IN ACCESS SHARE MODE"
        self._sound = f"{lock}; {_SOUND.format(oids=oids)}"
        tell_of_forks(self)

    def writing(self) -> AbstractContextManager[TableTransaction]:
        """Begin; reading the account then locks its row until the end."""
        return self._transaction(held=True)

    def reading(self) -> AbstractContextManager[TableTransaction]:
        """Read; each statement sees the state at its beginning."""
        return self._transaction(held=False)

    def close(self) -> None:
        """Close the connections; later use makes new ones."""
        with no_fork():
            self._engine.dispose()

    def before_fork(self) -> None:
        """Do nothing: the parent keeps its connections, and none is in use now."""

    def after_fork_in_child(self) -> None:
        """Leave the connections to the parent process, and begin with an empty pool."""
        self._engine.dispose(close=False)

    @contextlib.contextmanager
    def _transaction(self, *, held: bool) -> Iterator[TableTransaction]:
        with (
            no_fork(),
            self._translated(),
            contextlib.closing(self._engine.raw_connection()) as taken,
        ):
            connection: Any = taken.driver_connection
            try:
                connection.autocommit = True  # BEGIN says more than the driver's would
                self._begin(connection)
                transaction = TableTransaction(connection.execute, self._statements, held=held)
                yield transaction
                connection.execute(_END, prepare=False)
                if transaction.added:  # what a trigger does while it ends comes after all else
                    self._begin(connection)
                    transaction.check_added()
                    connection.execute("COMMIT")
            except BaseException:
                # Whatever happened, this connection may be in the middle of it.
                taken.invalidate()
                raise

    def _begin(self, connection: Any) -> None:
        """Begin a transaction in which nothing that a role, a database or an address sets counts.

        Checks that wait for the end are made at once, so that what they do is seen.
        """
        begin = beginning(
            "ISOLATION LEVEL READ COMMITTED, READ WRITE, NOT DEFERRABLE",
            _settings(connection.info.server_version),
        )
        cursor = connection.execute(
            f"{begin}; SET CONSTRAINTS ALL IMMEDIATE; {self._sound}", prepare=False
        )
        while cursor.nextset():
            pass
        fsync, tables = cursor.fetchone()
        if fsync != "on":
            raise LedgerFailed(self.name, reason="fsync is off, so that the server may forget")
        if tables != 2:
            raise LedgerFailed(self.name, reason="its tables are no plain, logged tables any more")

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        from psycopg import Error

        reason: str | None = None
        try:
            yield
        except (Error, sqlalchemy.exc.SQLAlchemyError) as error:
            reason = self._server.reason(error)
        if reason is not None:
            failed = LedgerFailed(self.name, reason=reason)
            try:
                raise failed
            finally:
                failed.__context__ = None  # the driver's error holds its connection's password

    def _check_place(self) -> str:
        """The schema of the tables; InvalidParameter for a server that may forget."""
        with self._engine.connect() as connection:
            if connection.exec_driver_sql("SHOW fsync").scalar() != "on":
                expected = "a server with fsync=on: this one may forget what was spent"
                raise InvalidParameter("ledger", self.name, expected=expected)
            return str(connection.exec_driver_sql(_PLACE).scalar())

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self._engine.dispose()


def _engine(url: str) -> tuple[sqlalchemy.Engine, Server]:
    parsed = server = None
    try:
        parsed = sqlalchemy.make_url(url).set(drivername="postgresql+psycopg")
        parts = {
            "host": parsed.host,
            "port": parsed.port,
            "dbname": parsed.database,
            "user": parsed.username,
            "password": parsed.password,
            **parsed.query,
        }
        server = Server.of(url, parts)
    except (sqlalchemy.exc.ArgumentError, ValueError):
        pass
    if parsed is None or server is None:
        expected = f'an address such as "postgresql://user:password@host/database", {ESCAPED}'
        raise InvalidParameter("ledger", shown(url), expected=expected)
    made = sqlalchemy.create_engine(
        parsed,
        execution_options={"isolation_level": "READ COMMITTED", "postgresql_readonly": False},
        pool_size=_CONNECTIONS,
        max_overflow=0,
        pool_timeout=_WAIT_SECONDS,
        pool_pre_ping=True,
    )
    return made, server


def _settings(version: int) -> Mapping[str, str]:
    wait = f"'{_WAIT_SECONDS}s'"
    waits = {"lock_timeout": wait, "idle_in_transaction_session_timeout": wait}
    return pinned(version, *LEDGER, **waits)


def _prepare(connection: sqlalchemy.Connection) -> None:
    """Pin what tables are made under, but for the schema, which the address or the role says."""
    version = connection.connection.driver_connection.info.server_version  # type: ignore[union-attr]
    for name, value in _settings(version).items():
        if name != "search_path":
            connection.exec_driver_sql(f"SET LOCAL {name} = {value}")


def _guards() -> Iterator[str]:
    yield (
        "CREATE OR REPLACE FUNCTION unacorda_append_only() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'a ledger is append-only'; END $$"
    )
    for table in TABLES:
        yield (
            f"CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
            "FOR EACH STATEMENT EXECUTE FUNCTION unacorda_append_only()"
        )
