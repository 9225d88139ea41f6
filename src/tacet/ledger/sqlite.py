"""The ledger in a SQLite file: it outlives the process, and processes share one budget by it."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sqlite3
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import sqlalchemy
from sqlalchemy import Boolean, Column, Integer, MetaData, String, Table, UniqueConstraint, select

from tacet.errors import InvalidParameter, LedgerFailed, LedgerMismatch
from tacet.ledger import chain
from tacet.ledger.protocol import Account, Entry, Reservation
from tacet.privacy.events import Event
from tacet.privacy.guarantees import Guarantee, guarantee_from_json

__all__ = ["SCHEMA_VERSION", "SqliteLedger"]

SCHEMA_VERSION = 1
"""Stored in the file; another version is LedgerMismatch."""

_WAIT_SECONDS = 60

_metadata = MetaData()
_versions = Table("tacet_schema", _metadata, Column("version", Integer, primary_key=True))
_accounts = Table(
    "tacet_accounts",
    _metadata,
    Column("dataset", String, primary_key=True),
    Column("budget", String, nullable=False),
    Column("terms", String, nullable=False),
    Column("opened", String, nullable=False),
)
_entries = Table(
    "tacet_entries",
    _metadata,
    Column("dataset", String, primary_key=True),
    Column("sequence", Integer, primary_key=True, autoincrement=False),
    Column("state", String, nullable=False),
    Column("reservation", Integer, nullable=False),
    Column("event", String, nullable=False),
    Column("request", String, nullable=False),
    Column("charge", String, nullable=False),
    Column("spent", String, nullable=False),
    Column("plan_digest", String, nullable=False),
    Column("salt", String, nullable=False),
    Column("analyst", String),
    Column("purpose", String),
    Column("time", String, nullable=False),
    Column("reproducible", Boolean, nullable=False),
    Column("previous", String, nullable=False),
    Column("digest", String, nullable=False),
    UniqueConstraint("dataset", "reservation", "state"),
)


class SqliteLedger:
    """Budgets in a file, made with mode 0600, shared by threads and processes of one machine.

    Each reservation is one transaction that takes the write lock first, reads the last entry,
    asks the filter and appends; it is on the disk before `reserve` returns (write-ahead log with
    synchronous=FULL). Triggers refuse to update or delete an entry. A connection lives for one
    call, so a fork shares none. Keep the file on a local disk: SQLite's locks are not reliable on
    network file systems.
    """

    durable = True

    def __init__(self, path: Path) -> None:
        if not path.parent.is_dir():
            raise InvalidParameter("ledger", str(path), expected="a file in a folder that exists")
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        self._path = path
        self._engine = sqlalchemy.create_engine(
            sqlalchemy.URL.create("sqlite", database=str(path)),
            poolclass=sqlalchemy.NullPool,
            connect_args={"timeout": _WAIT_SECONDS, "isolation_level": None},
        )
        sqlalchemy.event.listen(self._engine, "connect", _configure)
        sqlalchemy.event.listen(self._engine, "begin", _begin)
        try:
            self._prepare()
        except _NotALedger:
            expected = "a SQLite file, or a name for a new one"
            raise InvalidParameter("ledger", str(path), expected=expected) from None

    def open_account(
        self, dataset: str, budget: Guarantee | None, terms: Mapping[str, str]
    ) -> Account:
        """Open the dataset's account, or find it again under the same budget and terms."""
        with self._writing() as connection:
            found = _account(connection, dataset)
            if found is not None:
                return chain.matching_account(found, budget, terms)
            account = chain.new_account(dataset, budget, terms)
            connection.execute(
                _accounts.insert().values(
                    dataset=dataset,
                    budget=account.budget.to_json(),
                    terms=json.dumps(dict(account.terms)),
                    opened=account.opened,
                )
            )
            return account

    def account(self, dataset: str) -> Account:
        """The account of a dataset; LedgerMismatch where there is none."""
        with self._reading() as connection:
            return _known_account(connection, dataset)

    def datasets(self) -> tuple[str, ...]:
        """The names of all accounts, sorted."""
        with self._reading() as connection:
            names = connection.execute(select(_accounts.c.dataset)).scalars()
            return tuple(sorted(names))

    def reserve(
        self,
        dataset: str,
        *,
        charge: Guarantee,
        event: Event,
        request: Guarantee,
        plan_digest: str,
        salt: bytes,
        analyst: str | None,
        purpose: str | None,
        reproducible: bool,
    ) -> Reservation:
        """Debit the charge durably; BudgetExceeded, and nothing written, where less is left."""
        chain.refuse_reproducible(reproducible=reproducible)
        with self._writing() as connection:
            entry = chain.reserved_entry(
                _known_account(connection, dataset),
                _last(connection, dataset),
                charge=charge,
                event=event,
                request=request,
                plan_digest=plan_digest,
                salt=salt,
                analyst=analyst,
                purpose=purpose,
                reproducible=reproducible,
            )
            _append(connection, entry)
        return Reservation(dataset=dataset, sequence=entry.sequence, charge=charge)

    def commit(self, reservation: Reservation) -> None:
        """Note that the reserved question was computed: a new entry."""
        with self._writing() as connection:
            _known_account(connection, reservation.dataset)
            mine = _entries.c.dataset == reservation.dataset
            committed = select(_entries.c.sequence).where(
                mine,
                _entries.c.reservation == reservation.sequence,
                _entries.c.state == "committed",
            )
            if connection.execute(committed).first() is not None:
                raise InvalidParameter("reservation", reservation, expected="one not yet committed")
            reserved = _first(
                connection,
                select(_entries).where(mine, _entries.c.sequence == reservation.sequence),
            )
            last = _last(connection, reservation.dataset)
            _append(connection, chain.committed_entry(last, reserved, reservation))

    def spent(self, dataset: str) -> Guarantee:
        """The sum of all charges."""
        with self._reading() as connection:
            account = _known_account(connection, dataset)
            return chain.filter_after(account, _last(connection, dataset)).spent

    def remaining(self, dataset: str) -> Guarantee:
        """What is left of the budget."""
        with self._reading() as connection:
            account = _known_account(connection, dataset)
            return chain.filter_after(account, _last(connection, dataset)).remaining

    def entries(self, dataset: str) -> tuple[Entry, ...]:
        """All entries of a dataset, oldest first."""
        with self._reading() as connection:
            _known_account(connection, dataset)
            return _all(connection, dataset)

    def verify(self, dataset: str) -> int:
        """The number of entries, after hashes and sums were checked; LedgerMismatch otherwise."""
        with self._reading() as connection:
            account = _known_account(connection, dataset)
            return chain.verify_entries(account, _all(connection, dataset))

    def close(self) -> None:
        """Release the engine; connections never outlive a call."""
        self._engine.dispose()

    def _prepare(self) -> None:
        with self._writing() as connection:
            _metadata.create_all(connection)
            found = connection.execute(select(_versions.c.version)).scalar()
            if found is None:
                connection.execute(_versions.insert().values(version=SCHEMA_VERSION))
                for statement in _guards():
                    connection.exec_driver_sql(statement)
            elif found != SCHEMA_VERSION:
                raise LedgerMismatch(
                    f"The ledger {self._path} has schema version {found}; this tacet reads "
                    f"version {SCHEMA_VERSION}."
                )

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sqlalchemy.Connection]:
        """One transaction that holds the write lock from its first statement."""
        with self._transaction(self._engine.execution_options(tacet_writes=True)) as connection:
            yield connection

    @contextlib.contextmanager
    def _reading(self) -> Iterator[sqlalchemy.Connection]:
        with self._transaction(self._engine) as connection:
            yield connection

    @contextlib.contextmanager
    def _transaction(self, engine: sqlalchemy.Engine) -> Iterator[sqlalchemy.Connection]:
        try:
            with engine.begin() as connection:
                yield connection
        except sqlalchemy.exc.DBAPIError as error:
            reason = str(error.orig)
            if not isinstance(error, sqlalchemy.exc.OperationalError) and "database" in reason:
                raise _NotALedger(str(self._path), reason=reason) from None
            raise LedgerFailed(str(self._path), reason=reason) from None


class _NotALedger(LedgerFailed):
    """The file is there and is no SQLite database."""


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
    writes = connection.get_execution_options().get("tacet_writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _guards() -> Iterator[str]:
    for table in ("tacet_entries", "tacet_accounts", "tacet_schema"):
        for verb in ("UPDATE", "DELETE"):
            yield (
                f"CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table} "
                "BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END"
            )


def _account(connection: sqlalchemy.Connection, dataset: str) -> Account | None:
    row = connection.execute(select(_accounts).where(_accounts.c.dataset == dataset)).first()
    if row is None:
        return None
    return Account(
        dataset=row.dataset,
        budget=guarantee_from_json(row.budget),
        terms=tuple(sorted(json.loads(row.terms).items())),
        opened=row.opened,
    )


def _known_account(connection: sqlalchemy.Connection, dataset: str) -> Account:
    account = _account(connection, dataset)
    if account is None:
        raise LedgerMismatch(f"There is no account named {dataset!r} in this ledger.")
    return account


def _of_dataset(dataset: str) -> sqlalchemy.Select[Any]:
    return select(_entries).where(_entries.c.dataset == dataset)


def _last(connection: sqlalchemy.Connection, dataset: str) -> Entry | None:
    newest = _of_dataset(dataset).order_by(_entries.c.sequence.desc()).limit(1)
    return _first(connection, newest)


def _first(connection: sqlalchemy.Connection, query: sqlalchemy.Select[Any]) -> Entry | None:
    row = connection.execute(query).mappings().first()
    return None if row is None else Entry(**row)


def _all(connection: sqlalchemy.Connection, dataset: str) -> tuple[Entry, ...]:
    rows = connection.execute(_of_dataset(dataset).order_by(_entries.c.sequence)).mappings()
    return tuple(Entry(**row) for row in rows)


def _append(connection: sqlalchemy.Connection, entry: Entry) -> None:
    connection.execute(_entries.insert().values(**dataclasses.asdict(entry)))
