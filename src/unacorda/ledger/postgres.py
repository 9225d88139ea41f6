"""The store in a PostgreSQL database, which many machines share."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import sqlalchemy
from sqlalchemy.dialects import postgresql

from unacorda.addresses import ESCAPED, Server, shown
from unacorda.errors import InvalidParameter, LedgerFailed
from unacorda.extras import require
from unacorda.ledger.forks import no_fork, tell_of_forks
from unacorda.ledger.tables import TABLES, Statements, TableTransaction, prepare

__all__ = ["PostgresStore"]

_WAIT_SECONDS = 60
_CONNECTIONS = 8
_PREPARING = 7_461_636_574  # "unacorda" in hexadecimal digits: any number, always the same
_STATEMENTS = Statements(postgresql.dialect(paramstyle="pyformat"), locking=True)  # type: ignore[no-untyped-call]


class PostgresStore:
    """Accounts in the tables of a database; who may write there may spend.

    A transaction that writes locks the row of its account first, so that writers about one dataset
    wait for each other, on whatever machine, and those about others do not. A commit is on the
    server's disk before it returns: `synchronous_commit=off` is put on, and a server that runs with
    `fsync=off` is refused. A client that stops in the middle loses its transaction, at once where
    its connection ends and else after a minute.

    Triggers refuse to update, delete or truncate. Threads take connections from a pool of at most
    eight; a fork waits until none is used, and the child makes its own.
    """

    durable = True

    def __init__(self, url: str) -> None:
        require("psycopg", extra="postgres")
        self._engine, self._server = _engine(url)
        self.name = self._server.name
        sqlalchemy.event.listen(self._engine, "connect", _configure)
        lock = f"SELECT pg_advisory_xact_lock({_PREPARING})"
        with no_fork(), self._translated():
            prepare(self._engine, self.name, guards=_guards(), lock=lock)
            self._refuse_forgetful()
        tell_of_forks(self)

    @contextlib.contextmanager
    def writing(self, dataset: str) -> Iterator[TableTransaction]:
        """Begin; reading the account then locks its row until the end."""
        del dataset
        with self._transaction(held=True) as transaction:
            yield transaction

    @contextlib.contextmanager
    def reading(self) -> Iterator[TableTransaction]:
        """Read; each statement sees what stands when it begins."""
        with self._transaction(held=False) as transaction:
            yield transaction

    def close(self) -> None:
        """Close the connections; new ones are made where the store is used again."""
        with no_fork():
            self._engine.dispose()

    def before_fork(self) -> None:
        """Nothing: the parent keeps its connections, and none is in use now."""

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
                yield TableTransaction(connection.execute, _STATEMENTS, held=held)
                connection.commit()
            except BaseException:
                # Whatever happened, this connection may be in the middle of it.
                taken.invalidate()
                raise

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

    def _refuse_forgetful(self) -> None:
        with self._engine.connect() as connection:
            if connection.exec_driver_sql("SHOW fsync").scalar() != "on":
                expected = "a server with fsync=on: this one may forget what was spent"
                raise InvalidParameter("ledger", self.name, expected=expected)

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
        isolation_level="READ COMMITTED",
        pool_size=_CONNECTIONS,
        max_overflow=0,
        pool_timeout=_WAIT_SECONDS,
        pool_pre_ping=True,
    )
    return made, server


def _configure(connection: Any, _record: object) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT set_config('lock_timeout', %(wait)s, false),"
            " set_config('idle_in_transaction_session_timeout', %(wait)s, false),"
            " set_config('synchronous_commit', CASE current_setting('synchronous_commit')"
            " WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, false)",
            {"wait": f"{_WAIT_SECONDS}s"},
        )
    connection.commit()


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
