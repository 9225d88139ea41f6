"""The tables of a ledger in a database, and the few statements that are run on them.

They are written in SQLAlchemy Core and compiled once for a database's dialect; the compiled text is
then run by the driver itself, which takes a tenth of the time.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import sqlalchemy
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    bindparam,
    select,
)

from unacorda.errors import InvalidParameter, LedgerMismatch
from unacorda.ledger.chain import terms_of
from unacorda.ledger.entries import Account, Entry
from unacorda.privacy.guarantees import guarantee_from_json

__all__ = [
    "SCHEMA_VERSION",
    "TABLES",
    "Statements",
    "TableTransaction",
    "prepare",
]

SCHEMA_VERSION = 4
"""Stored with the tables; any other one is refused."""

TABLES = ("unacorda_schema", "unacorda_accounts", "unacorda_entries")

metadata = MetaData()
versions = Table(
    "unacorda_schema",
    metadata,
    Column("version", Integer, primary_key=True, autoincrement=False),
)
accounts = Table(
    "unacorda_accounts",
    metadata,
    Column("dataset", String, primary_key=True),
    Column("budget", String, nullable=False),
    Column("terms", String, nullable=False),
    Column("opened", String, nullable=False),
)
entries = Table(
    "unacorda_entries",
    metadata,
    Column("dataset", String, primary_key=True),
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    Column("state", String, nullable=False),
    Column("reservation", BigInteger, nullable=False),
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
    Column("sub_account", String),
    Column("sub_spent", String),
    Column("split", BigInteger),
    Column("part", String),
    Column("part_charge", String),
    Column("definition", String),
    Column("limits", String),
    Column("search", String),
    Column("found", String),
)

_ends = entries.c.state.in_(["committed", "voided"])
_opens = entries.c.state == "opened"
_named = entries.c.sub_account.is_not(None)
_split = entries.c.split.is_not(None)
_search = entries.c.search.is_not(None)


def _index(name: str, *columns: Any, where: Any, unique: bool) -> None:
    Index(name, *columns, unique=unique, sqlite_where=where, postgresql_where=where)


# A reservation ends once, and a sub-account is opened once, also where a program is wrong.
_index("unacorda_ends", entries.c.dataset, entries.c.reservation, where=_ends, unique=True)
_index("unacorda_openings", entries.c.dataset, entries.c.sub_account, where=_opens, unique=True)
_index(
    "unacorda_sub_accounts",
    entries.c.dataset,
    entries.c.sub_account,
    entries.c.sequence,
    where=_named,
    unique=False,
)
_index("unacorda_splits", entries.c.dataset, entries.c.sequence, where=_split, unique=False)
_index("unacorda_searches", entries.c.dataset, entries.c.search, where=_search, unique=False)

# The order of the fields of Entry, so that a row makes one without looking names up.
_columns = [entries.c[field.name] for field in dataclasses.fields(Entry)]
_NAMES = tuple(field.name for field in dataclasses.fields(Entry))
_newest_first = entries.c.sequence.desc()


def prepare(
    engine: sqlalchemy.Engine, name: str, *, guards: Iterable[str], lock: str | None = None
) -> None:
    """Make the tables where there are none, in one transaction: all or nothing.

    name: of the ledger, for messages. guards: statements by which the database refuses to change
    or delete lines. lock: a statement that keeps others from preparing meanwhile.
    Raises LedgerMismatch for tables of another schema, and for others of the same names.
    """
    with engine.begin() as connection:
        if lock is not None:
            connection.exec_driver_sql(lock)
        found = _version(connection, name)
        if found == SCHEMA_VERSION:
            return
        if found is not None:
            raise LedgerMismatch(
                f"The ledger {name} has schema version {found}; this unacorda reads version "
                f"{SCHEMA_VERSION}. Use the unacorda that wrote it, or open a ledger elsewhere."
            )
        metadata.create_all(connection, checkfirst=False)
        connection.execute(versions.insert().values(version=SCHEMA_VERSION))
        for statement in guards:
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
    newest = connection.execute(select(sqlalchemy.func.max(versions.c.version))).scalar()
    return int(newest or 0)


class Statements:
    """The statements as text for one dialect, whose parameters are named.

    locking: end the reading of an account with FOR UPDATE, by which a transaction holds it.
    schema: of the tables, where it is not left to the database.
    """

    def __init__(
        self, dialect: sqlalchemy.Dialect, *, locking: bool, schema: str | None = None
    ) -> None:
        def text(statement: Any) -> str:
            return str(
                statement.compile(
                    dialect=dialect,
                    schema_translate_map=None if schema is None else {None: schema},
                    render_schema_translate=schema is not None,
                )
            )

        # As plain text, not parameters: the indexes WHERE state ... are used for such alone.
        ends = sqlalchemy.text("state IN ('committed', 'voided')")
        opens = sqlalchemy.text("state = 'opened'")
        mine = entries.c.dataset == bindparam("dataset")
        named = entries.c.sub_account == bindparam("sub_account")
        account = select(accounts).where(accounts.c.dataset == bindparam("dataset"))
        every = select(*_columns).where(mine)
        self.account = text(account)
        self.held = text(account.with_for_update() if locking else account)
        self.datasets = text(select(accounts.c.dataset))
        self.add_account = text(accounts.insert()) + " ON CONFLICT (dataset) DO NOTHING"
        self.last = text(every.order_by(_newest_first).suffix_with(sqlalchemy.text("LIMIT 1")))
        self.entry = text(every.where(entries.c.sequence == bindparam("sequence")))
        self.ending = text(
            every.where(
                entries.c.reservation == bindparam("reservation"),
                ends,
            )
        )
        self.opening = text(every.where(named, opens))
        self.last_of = text(
            every.where(named).order_by(_newest_first).suffix_with(sqlalchemy.text("LIMIT 1"))
        )
        self.sub_accounts = text(
            select(entries.c.sub_account).where(mine, opens).order_by(entries.c.sequence)
        )
        of_splits = every.where(_split, entries.c.sequence > bindparam("after"))
        self.of_splits = text(of_splits.order_by(entries.c.sequence))
        of_search = every.where(_search, entries.c.search == bindparam("search"))
        self.of_search = text(of_search.order_by(entries.c.sequence))
        self.entries = text(every.order_by(entries.c.sequence))
        self.append = text(entries.insert())


class TableTransaction:
    """A `Transaction` over the tables. run: the driver's `execute`, which gives a cursor.

    added: the entries that it appended.
    """

    def __init__(
        self, run: Callable[[str, dict[str, Any]], Any], statements: Statements, *, held: bool
    ) -> None:
        self._run, self._statements = run, statements
        self._account = statements.held if held else statements.account
        self.added: list[Entry] = []

    def account(self, dataset: str) -> Account | None:
        """The account of a dataset."""
        row = self._run(self._account, {"dataset": dataset}).fetchone()
        return None if row is None else _account(*row)

    def datasets(self) -> Sequence[str]:
        """The names of all accounts."""
        return [row[0] for row in self._run(self._statements.datasets, {})]

    def add_account(self, account: Account) -> None:
        """Add an account, where there is none of its name."""
        row = {
            "dataset": account.dataset,
            "budget": account.budget.to_json(),
            "terms": json.dumps(dict(account.terms)),
            "opened": account.opened,
        }
        self._run(self._statements.add_account, row)

    def last(self, dataset: str) -> Entry | None:
        """The newest entry."""
        return self._one(self._statements.last, dataset=dataset)

    def entry(self, dataset: str, sequence: int) -> Entry | None:
        """The entry of a sequence."""
        if abs(sequence) >= 1 << 63:  # no column holds it
            return None
        return self._one(self._statements.entry, dataset=dataset, sequence=sequence)

    def ending(self, dataset: str, reservation: int) -> Entry | None:
        """The entry that committed or voided a reservation."""
        return self._one(self._statements.ending, dataset=dataset, reservation=reservation)

    def opening(self, dataset: str, sub_account: str) -> Entry | None:
        """The entry that opened a sub-account."""
        return self._one(self._statements.opening, dataset=dataset, sub_account=sub_account)

    def last_of(self, dataset: str, sub_account: str) -> Entry | None:
        """The newest entry that names a sub-account."""
        return self._one(self._statements.last_of, dataset=dataset, sub_account=sub_account)

    def sub_accounts(self, dataset: str) -> Sequence[str]:
        """The names of the sub-accounts."""
        return [row[0] for row in self._run(self._statements.sub_accounts, {"dataset": dataset})]

    def of_splits(self, dataset: str, after: int) -> Sequence[Entry]:
        """The newer entries about splits."""
        values = {"dataset": dataset, "after": after}
        return [_entry(row) for row in self._run(self._statements.of_splits, values)]

    def of_search(self, dataset: str, search: str) -> Sequence[Entry]:
        """The entries about a search."""
        values = {"dataset": dataset, "search": search}
        return [_entry(row) for row in self._run(self._statements.of_search, values)]

    def entries(self, dataset: str) -> Sequence[Entry]:
        """All entries of a dataset."""
        return [_entry(row) for row in self._run(self._statements.entries, {"dataset": dataset})]

    def append(self, entry: Entry) -> None:
        """Add the next entry, and look whether it is there as it was written."""
        self._run(self._statements.append, {name: getattr(entry, name) for name in _NAMES})
        self.added.append(entry)
        self.check_added()

    def check_added(self) -> None:
        """LedgerMismatch where what was added is not there as it was written."""
        for entry in self.added:
            if self.entry(entry.dataset, entry.sequence) != entry:
                raise LedgerMismatch(
                    f"Entry {entry.sequence} of account {entry.dataset!r} is not kept as it was "
                    "written: a trigger or a rule of the database swallows or changes what is "
                    "added. Remove it."
                )

    def _one(self, statement: str, **values: Any) -> Entry | None:
        row = self._run(statement, values).fetchone()
        return None if row is None else _entry(row)


def _entry(row: Sequence[Any]) -> Entry:
    values = dict(zip(_NAMES, row, strict=True))
    values["reproducible"] = bool(values["reproducible"])  # SQLite keeps 0 and 1
    return Entry(**values)


@functools.lru_cache(maxsize=256)  # it never changes, and is read with every reservation
def _account(dataset: str, budget: str, terms: str, opened: str) -> Account:
    try:
        return Account(
            dataset=dataset,
            budget=guarantee_from_json(budget),
            terms=terms_of(json.loads(terms)),
            opened=opened,
        )
    except (InvalidParameter, ValueError, TypeError, AttributeError):
        pass
    raise LedgerMismatch(f"Account {dataset!r} was changed: its budget or terms cannot be read.")
