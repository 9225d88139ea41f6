"""What a session is opened with, checked; and what the columns of its tables mean."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unacorda import checks
from unacorda.addresses import shown
from unacorda.bits import source_of
from unacorda.errors import BudgetExceeded, InvalidParameter, LedgerMismatch
from unacorda.privacy.guarantees import Guarantee
from unacorda.query.engines.protocol import Engine
from unacorda.query.expressions.types import encodable
from unacorda.query.plan.public_tables import Looked, Public
from unacorda.query.plan.relation import Rows, Table
from unacorda.query.schema.quoting import folded, twin
from unacorda.query.schema.table import (
    Scope,
)
from unacorda.query.schema.units import Person, Row

__all__ = [
    "account_name",
    "check_affordable",
    "check_alive",
    "check_limit",
    "check_notes",
    "check_options",
    "check_tables",
    "public_of",
    "starts_of",
]


def check_tables(tables: Mapping[str, Any], public: Mapping[str, Any] | None) -> None:
    """Raise InvalidParameter unless these are named sources, of which none has two names."""
    expected = "a mapping of table names to sources, such as {'visits': 'visits.csv'}"
    if not _is_mapping(tables) or len(tables) == 0:
        raise InvalidParameter("tables", tables, expected=expected)
    for name in tables:
        if not checks.is_text(name) or "\x00" in name:
            raise InvalidParameter("tables", name, expected=expected)
    _check_names("tables", tables)
    if public is None:
        return
    if not _is_mapping(public) or not all(checks.is_text(n) and "\x00" not in n for n in public):
        expected = "a mapping of names to tables without people, such as {'zips': 'zips.csv'}"
        raise InvalidParameter("public", public, expected=expected)
    _check_names("public", public)
    private = set(map(folded, tables))
    for name in public:
        if folded(name) in private:
            expected = "another name than a private table has (capitals do not tell names apart)"
            raise InvalidParameter("public", name, expected=expected)


def _check_names(argument: str, tables: Mapping[str, Any]) -> None:
    again = twin(tables)
    if again is not None:
        expected = "names of tables that differ by more than capitals"
        raise InvalidParameter(argument, again, expected=expected)


def check_options(
    unit: object, budget: object, columns: object, ledger: object, bits: object
) -> None:
    """Raise InvalidParameter for options of another type."""
    if not isinstance(unit, Person | Row):
        raise InvalidParameter(
            "unit", unit, expected="unacorda.Person('id column', max_rows=...) or unacorda.Row()"
        )
    if budget is not None:
        check_limit(budget)
    if columns is not None and not isinstance(columns, Mapping):
        raise InvalidParameter(
            "columns",
            columns,
            expected="facts by column name, such as {'age': unacorda.Bounds(0, 120)}",
        )
    if not (ledger is None or isinstance(ledger, str) or hasattr(ledger, "open_account")):
        expected = 'None, "sqlite:///budget.db" or "postgresql://user@host/database"'
        raise InvalidParameter("ledger", shown(ledger), expected=expected)
    source_of(bits)


def check_limit(budget: object) -> None:
    """Raise InvalidParameter for what limits nothing."""
    if not isinstance(budget, Guarantee):
        raise InvalidParameter(
            "budget",
            budget,
            expected="a guarantee such as unacorda.PureDP(1) or unacorda.ZCDP(0.5)",
        )


def check_notes(**notes: str | None) -> None:
    """Raise InvalidParameter for notes that no ledger can keep."""
    for argument, note in notes.items():
        if note is not None and not (checks.is_text(note) and encodable(note)):
            raise InvalidParameter(argument, note, expected="text, or None")


def _is_mapping(value: object) -> bool:
    return isinstance(value, Mapping)


def check_alive(*, closed: bool, copied: bool) -> None:
    """Raise unless a session may spend. copied: in a fork, with a budget that lives in memory."""
    if closed:
        raise InvalidParameter("session", "closed", expected="one that is open: open a new one")
    if copied:
        raise LedgerMismatch(
            "This process is a copy of the one that opened the session, and the budget lives "
            "in memory: both would spend it. Use ledger='sqlite:///budget.db'."
        )


def check_affordable(price: Guarantee, left: Guarantee, account: str) -> None:
    """Raise BudgetExceeded where what is left does not pay a price of the same kind."""
    if any(a > b for a, b in zip(price.additive, left.additive, strict=True)):
        raise BudgetExceeded(asked=price, left=left, account=account)


def account_name(dataset: str | None, *, durable: bool) -> str:
    """The account's name in the ledger; InvalidParameter where there must be one and is none."""
    if dataset is None and durable:
        raise InvalidParameter(
            "dataset", None, expected="the account's name in the ledger, such as 'visits-2024'"
        )
    if dataset is not None and not (
        checks.is_text(dataset) and dataset.strip() and encodable(dataset)
    ):
        raise InvalidParameter("dataset", dataset, expected="a name that is not empty")
    return "session" if dataset is None else dataset


def public_of(
    engine: Engine, scopes: Mapping[str, Scope], sources: Mapping[str, object]
) -> dict[str, Public]:
    """The public tables, by name."""
    return {
        name: Looked(
            scope=scopes[name], source=source, relation=engine.scan(name), look=engine.look
        )
        for name, source in sources.items()
    }


def starts_of(
    engine: Engine, scopes: Mapping[str, Scope], public: Mapping[str, object]
) -> dict[str, Rows]:
    """By name the rows of every private table, with all public tables beside them.

    public: their sources, by name.
    """
    beside = public_of(engine, scopes, public)
    return {
        name: Rows(source=Table(name=name, scope=scope), scope=scope, public=beside)
        for name, scope in scopes.items()
        if name not in beside
    }
