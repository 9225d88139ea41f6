"""The tables of a ledger in a database, and the few statements that are run on them.

They are written in SQLAlchemy Core and compiled once for a database's dialect; the compiled text is
then run by the driver itself, which takes a tenth of the time.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Unpack

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
from unacorda.ledger.chain import account_fields, read_account
from unacorda.ledger.entries import FIELDS, AccountTerms, Entry
from unacorda.ledger.stores import Which

SCHEMA_VERSION = 6
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
_KEY = ("dataset", "sequence")
_KINDS = {"int": BigInteger, "bool": Boolean}


def _column(field: dataclasses.Field[Any]) -> Column[Any]:
    kind, _, none = str(field.type).partition(" | ")
    return Column(field.name, _KINDS.get(kind, String), nullable=bool(none))


entries = Table(
    "unacorda_entries",
    metadata,
    Column("dataset", String, primary_key=True),
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    *(_column(field) for field in dataclasses.fields(Entry) if field.name not in _KEY),
)

_split = entries.c.split.is_not(None)
_search = entries.c.search.is_not(None)
_series = entries.c.series.is_not(None)
_stepped = entries.c.state == "stepped"

for _name, _unique, _columns, _where in (
    # A reservation ends once, a sub-account is opened once, and a step is made once, also where a
    # program is wrong.
    ("ends", True, ["reservation"], entries.c.state.in_(["committed", "voided"])),
    ("openings", True, ["sub_account"], entries.c.state == "opened"),
    ("limits", False, ["sub_account", "state"], entries.c.state.in_(["opened", "limited"])),
    ("sub_accounts", False, ["sub_account", "sequence"], entries.c.sub_account.is_not(None)),
    ("splits", False, ["sequence"], _split),
    ("searches", False, ["search"], _search),
    ("series", False, ["series"], _series),
    ("steps", True, ["reservation", "step"], _stepped),
):
    Index(
        f"unacorda_{_name}",
        *(entries.c[column] for column in ("dataset", *_columns)),
        unique=_unique,
        sqlite_where=_where,
        postgresql_where=_where,
    )


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
                f"{SCHEMA_VERSION}. Use the unacorda that wrote it, or open a ledger elsewhere.",
                ledger=name,
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
            "another place, or rename these.",
            ledger=name,
        )
    newest = connection.execute(select(sqlalchemy.func.max(versions.c.version))).scalar()
    return int(newest or 0)


_SINGLE = ("sequence", "ends", "opens")
"""By which there is one entry at most: its order is not asked, so that its own index is used."""


_MOST = sqlalchemy.text("LIMIT :most")


_FEW = ("opened", "limits")


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
        opened = sqlalchemy.text("state = 'opened'")
        limits = sqlalchemy.text("state IN ('opened', 'limited')")
        stepped = sqlalchemy.text("state = 'stepped'")
        column = entries.c
        account = select(accounts).where(accounts.c.dataset == bindparam("dataset"))
        # In the order of the fields of Entry, so that a row makes one without looking names up.
        every = select(*(column[name] for name in FIELDS)).where(
            column.dataset == bindparam("dataset")
        )
        which = {
            "": every,
            "sequence": every.where(column.sequence == bindparam("sequence")),
            "ends": every.where(column.reservation == bindparam("ends"), ends),
            "opens": every.where(column.sub_account == bindparam("opens"), opened),
            "opened": every.where(opened),
            "limits": every.where(column.sub_account == bindparam("limits"), limits),
            "sub_account": every.where(column.sub_account == bindparam("sub_account")),
            "splits_after": every.where(_split, column.sequence > bindparam("splits_after")),
            "search": every.where(_search, column.search == bindparam("search")),
            "series": every.where(_series, column.series == bindparam("series")),
            "steps_of": every.where(column.reservation == bindparam("steps_of"), stepped),
        }
        self.account = text(account)
        self.held = text(account.with_for_update() if locking else account)
        self.datasets = text(select(accounts.c.dataset))
        self.add_account = text(accounts.insert()) + " ON CONFLICT (dataset) DO NOTHING"
        self.append = text(entries.insert())
        # Of many entries few are meant: their order is no reason to walk along all of them.
        few = sqlalchemy.text("sequence + 0"), sqlalchemy.text("sequence + 0 DESC")
        up, down = (
            {name: few[n] if name in _FEW else order for name in which}
            for n, order in enumerate((column.sequence, column.sequence.desc()))
        )
        self.entries = {name: text(found.order_by(up[name])) for name, found in which.items()}
        page = {
            name: which[name].where(column.sequence > bindparam("after")).order_by(column.sequence)
            for name in ("", "sub_account")
        }
        self.pages = {name: text(one.suffix_with(_MOST)) for name, one in page.items()}
        one = sqlalchemy.text("LIMIT 1")
        self.last = {
            name: text(found.order_by(down[name]).suffix_with(one))
            for name, found in which.items()
            if name not in _SINGLE
        } | {name: self.entries[name] for name in _SINGLE}


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

    def account(self, dataset: str) -> AccountTerms | None:
        row = self._run(self._account, {"dataset": dataset}).fetchone()
        return None if row is None else _account(*row)

    def datasets(self) -> Sequence[str]:
        return [row[0] for row in self._run(self._statements.datasets, {})]

    def add_account(self, account: AccountTerms) -> None:
        fields = account_fields(account)
        row = {**fields, "terms": json.dumps(fields["terms"])}
        self._run(self._statements.add_account, row)

    def last(self, dataset: str, **which: Unpack[Which]) -> Entry | None:
        if abs(which.get("sequence", 0)) >= 1 << 63:  # no column holds it
            return None
        row = self._found(self._statements.last, dataset, which).fetchone()
        return None if row is None else _entry(row)

    def entries(self, dataset: str, **which: Unpack[Which]) -> Sequence[Entry]:
        return [_entry(row) for row in self._found(self._statements.entries, dataset, which)]

    def page(
        self, dataset: str, *, after: int, most: int, sub_account: str | None
    ) -> Sequence[Entry]:
        """The first entries with a higher sequence."""
        asked = {"dataset": dataset, "after": after, "most": most}
        if sub_account is None:
            return [_entry(row) for row in self._run(self._statements.pages[""], asked)]
        asked["sub_account"] = sub_account
        return [_entry(row) for row in self._run(self._statements.pages["sub_account"], asked)]

    def append(self, entry: Entry) -> None:
        """Add the next entry, and look whether it is there as it was written."""
        self._run(self._statements.append, {name: getattr(entry, name) for name in FIELDS})
        self.added.append(entry)
        self._check(entry)

    def check_added(self) -> None:
        """LedgerMismatch where what was added is not there as it was written."""
        for entry in self.added:
            self._check(entry)

    def _check(self, entry: Entry) -> None:
        if self.last(entry.dataset, sequence=entry.sequence) != entry:
            raise LedgerMismatch(
                f"Entry {entry.sequence} of account {entry.dataset!r} is not kept as it was "
                "written: a trigger or a rule of the database swallows or changes what is "
                "added. Remove it."
            )

    def _found(self, statements: Mapping[str, str], dataset: str, which: Which) -> Any:
        return self._run(statements["".join(which)], {"dataset": dataset, **which})


def _entry(row: Sequence[Any]) -> Entry:
    values = dict(zip(FIELDS, row, strict=True))
    values["reproducible"] = bool(values["reproducible"])  # SQLite keeps 0 and 1
    return Entry(**values)


@functools.lru_cache(maxsize=256)  # it never changes, and is read with every reservation
def _account(dataset: str, budget: str, terms: str, opened: str) -> AccountTerms:
    try:
        return read_account(dataset, budget, json.loads(terms), opened)
    except (InvalidParameter, ValueError, TypeError, AttributeError):
        pass
    raise LedgerMismatch(f"Account {dataset!r} was changed: its budget or terms cannot be read.")
