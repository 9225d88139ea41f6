"""The store in a SQLite file: it outlives the process, and processes of one machine share it."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import sqlalchemy
from sqlalchemy.dialects import sqlite

from unacorda.errors import InvalidParameter, LedgerFailed
from unacorda.ledger.forks import no_fork, tell_of_forks
from unacorda.ledger.tables import TABLES, Statements, TableTransaction, prepare

_WAIT_SECONDS = 60
_STATEMENTS = Statements(sqlite.dialect(paramstyle="named"), locking=False)


class SqliteStore:
    """Accounts in a file, made with mode 0600, shared by threads and processes of one machine.

    A transaction that writes takes the file's write lock first, and is on the disk when it ends
    (write-ahead log with synchronous=FULL). Triggers refuse to update or delete an entry. Keep the
    file on a local disk: SQLite's locks are not reliable on network file systems.

    One connection is kept, and the threads of a process take turns; it is closed before a fork and
    opened again, because a child that inherits one would hold locks that are not its own. A file
    that was moved or replaced since it was opened is refused: what it is given would be lost. So is
    one of several names, whose logs would not know of each other.
    """

    durable = True

    def __init__(self, path: Path) -> None:
        _check_file(path, _made(path))
        self.name = _name(path)
        self._path = path.absolute()
        self._identity = _identity(self._path)
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._engine = sqlalchemy.create_engine(
            sqlalchemy.URL.create("sqlite", database=str(self._path)),
            poolclass=sqlalchemy.NullPool,
            connect_args={
                "timeout": _WAIT_SECONDS,
                "isolation_level": None,
                "check_same_thread": False,
                "cached_statements": 64,
            },
        )
        sqlalchemy.event.listen(self._engine, "connect", _configure)
        sqlalchemy.event.listen(self._engine, "begin", _begin)
        try:
            with no_fork(), self._translated():
                prepare(self._engine, self.name, guards=_guards())
        except _NotALedger:
            expected = "a SQLite file, or a name for a new one"
            raise InvalidParameter("ledger", _name(path), expected=expected) from None
        tell_of_forks(self)

    def writing(self) -> AbstractContextManager[TableTransaction]:
        """Hold the file's write lock: it is one for all datasets."""
        return self._transaction("BEGIN IMMEDIATE")

    def reading(self) -> AbstractContextManager[TableTransaction]:
        """Read what stands at one moment."""
        return self._transaction("BEGIN")

    def close(self) -> None:
        """Close the connection; it is opened again where the store is used again."""
        with no_fork(), self._lock:
            self._disconnect()

    def before_fork(self) -> None:
        """Close the connection, whose locks a child would take for its own."""
        self._disconnect()

    def after_fork_in_child(self) -> None:
        """Begin with a lock that no thread of the parent holds, and without a connection."""
        self._lock, self._connection = threading.Lock(), None

    @contextlib.contextmanager
    def _transaction(self, begin: str) -> Iterator[TableTransaction]:
        with no_fork(), self._lock, self._translated():
            connection = self._connected()
            try:
                connection.execute(begin)
                yield TableTransaction(connection.execute, _STATEMENTS, held=True)
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    self._undo(connection)

    def _undo(self, connection: sqlite3.Connection) -> None:
        try:
            connection.execute("ROLLBACK")
        except sqlite3.Error:  # closing undoes it too
            self._disconnect()

    def _connected(self) -> sqlite3.Connection:
        if _identity(self._path) != self._identity:
            raise LedgerFailed(self.name, reason="the file was moved, removed or replaced")
        if self._connection is None:
            opened = self._engine.raw_connection()
            connection = opened.driver_connection
            assert isinstance(connection, sqlite3.Connection)
            opened.detach()  # from the engine, which would take it back
            self._connection = connection
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        failed: LedgerFailed | None = None
        try:
            yield
        except (sqlite3.Error, sqlalchemy.exc.DBAPIError) as error:
            origin = error.orig if isinstance(error, sqlalchemy.exc.DBAPIError) else error
            kind = LedgerFailed if isinstance(origin, sqlite3.OperationalError) else _NotALedger
            failed = kind(self.name, reason=str(origin))
        if failed is not None:
            raise failed

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self._disconnect()


class _NotALedger(LedgerFailed):
    """The file is there and is no SQLite database."""


_creating = threading.Lock()
_MOUNTS = Path("/proc/self/mountinfo")


def _name(path: Path) -> str:
    """What messages call the file: of an address of a server, taken for a file, nothing."""
    return "a SQLite file" if "@" in str(path) else str(path)


def _made(path: Path) -> os.stat_result:
    """What the file is, made where there is none; LedgerFailed where that cannot be."""
    try:
        if not path.parent.is_dir():
            raise InvalidParameter("ledger", _name(path), expected="a file in a folder that exists")
        # Closing any file drops all locks that this process has on it: no one may have one yet.
        with no_fork(), _creating, contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        found = path.stat()
        if stat.S_ISREG(found.st_mode):
            return found
        reason = "it is no file"
    except OSError as error:
        reason = error.strerror or type(error).__name__
    raise LedgerFailed(_name(path), reason=reason)


def _check_file(path: Path, found: os.stat_result) -> None:
    """InvalidParameter for a file that has, or may have, several logs."""
    if found.st_nlink > 1 or _mounted_alone(path):
        expected = (
            "a file with one name, in the folder that it lies in: under another hard link, or "
            "mounted without its folder, it has another log, and is spent twice"
        )
        raise InvalidParameter("ledger", _name(path), expected=expected)


def _mounted_alone(path: Path) -> bool:
    """Whether the file is a mount of its own, beside which its log does not lie. Linux tells."""
    try:
        lines = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return False
    places = (line.split(" ")[4] for line in lines)
    name = str(path.resolve())
    return any(name == re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), one) for one in places)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _configure(connection: sqlite3.Connection, _record: object) -> None:
    # Changing a new file to the write-ahead log does not wait for other processes by itself.
    deadline = time.monotonic() + _WAIT_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL").close()
            break
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
    connection.execute("PRAGMA synchronous=FULL").close()


def _begin(connection: sqlalchemy.Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _guards() -> Iterator[str]:
    for table in TABLES:
        for verb in ("UPDATE", "DELETE"):
            yield (
                f"CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table} "
                "BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END"
            )
