"""Accounts of a ledger as its verbs show them: as plain values, and as text."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import dataclasses
import decimal
import json
from typing import TYPE_CHECKING, Any

from unacorda.cli import show
from unacorda.errors import InvalidParameter
from unacorda.query.schema.quoting import escape

if TYPE_CHECKING:
    from unacorda.ledger.entries import Account, Entry
    from unacorda.ledger.ledger import Ledger

__all__ = ["print_account", "repriced", "shown"]

_ENDS = ("committed", "voided")


def shown(book: Ledger, name: str, *, verify: bool) -> dict[str, Any]:
    """All of an account in plain values; LedgerMismatch where it is not there or was changed."""
    account: Account = book.account(name)
    entries = book.entries(name)
    ends = {entry.reservation: entry.state for entry in entries if entry.state in _ENDS}
    return {
        "dataset": account.dataset,
        "budget": str(account.budget),
        "spent": str(book.spent(name)),
        "remaining": str(book.remaining(name)),
        "terms": dict(account.terms),
        "opened": account.opened,
        "verified": book.verify(name) if verify else None,
        "sub_accounts": {
            part: {
                "budget": str(limit),
                "spent": str(book.spent(name, part)),
                "remaining": str(book.remaining(name, part)),
            }
            for part, limit in book.sub_accounts(name).items()
        },
        "splits": [
            {
                "entry": split.sequence,
                "name": split.name,
                "sub_account": split.sub_account,
                "inside": None if split.inside is None else [split.inside.split, split.inside.key],
                "limit": str(split.limit),
                "max_parts": split.max_parts,
                "spent": {key: str(spent) for key, spent in sums.items()},
            }
            for split, sums in book.splits(name).items()
        ]
        if any(entry.state == "split" for entry in entries)
        else [],
        "entries": [
            {
                **_plain(entry),
                "answered": ends.get(entry.reservation) == "committed",
                "called_off": ends.get(entry.reservation) == "voided",
            }
            for entry in entries
        ],
    }


def repriced(book: Ledger, name: str, delta: str) -> dict[str, Any]:
    """What an account's history costs at a delta; None for a price that there is not."""
    from unacorda.ledger.pricing import odometer, reprice

    found = reprice(book, name, delta=delta)
    reading: float | None = None
    with contextlib.suppress(InvalidParameter):  # an account in Renyi DP, or a delta too small
        reading = odometer(book, name, delta=delta).epsilon
    return {
        "delta": float(found.delta),
        "fixed_epsilon": found.fixed,
        "odometer_epsilon": reading,
    }


def _plain(entry: Entry) -> dict[str, Any]:
    """An entry with its JSON texts as values."""
    fields = dataclasses.asdict(entry)
    for name in (
        "event",
        "request",
        "charge",
        "spent",
        "sub_spent",
        "part_charge",
        "definition",
        "limits",
        "found",
    ):
        fields[name] = json.loads(fields[name]) if fields[name] else None
    return fields


def print_account(account: dict[str, Any]) -> None:
    """Print what `shown` gave: budget and sums, sub-accounts, and a line for each question."""
    show.heading(escape(account["dataset"]))
    facts = {
        "budget": account["budget"],
        "spent": account["spent"],
        "left": account["remaining"],
        "protects": _protected(account["terms"]),
        "opened": f"{_minute(account['opened'])} UTC",
    }
    for name, text in facts.items():
        if text is not None:
            show.line(escape(f"{name + ':':10}{text}"))
    if account["verified"] is not None:
        show.line(f"verified: {account['verified']} entries chain and add up")
    again = account.get("repriced")
    if again is not None:
        at = f"at delta {again['delta']:g}"
        fixed, reading = (_number(again[f"{name}_epsilon"]) for name in ("fixed", "odometer"))
        show.line(f"repriced: epsilon {fixed} {at}, with noise settled before the first answer")
        show.line(f"odometer: epsilon {reading} {at}, however it was chosen")
    for name, part in account["sub_accounts"].items():
        limit, spent, left = (_short(part[key]) for key in ("budget", "spent", "remaining"))
        show.line(escape(f"sub-account {name}: budget {limit}; spent {spent}; left {left}"))
    for split in account["splits"]:
        name = split["name"] or f"of entry {split['entry']}"
        show.line(escape(f"split {name}: the {split['max_parts']} largest parts are owed"))
        for key, spent in split["spent"].items():
            show.line(escape(f"  part {key}: spent {_short(spent)} of {_short(split['limit'])}"))
    questions = [entry for entry in account["entries"] if entry["state"] == "reserved"]
    if not questions:
        show.line("No questions yet.")
        return
    show.line()
    rows = [
        (
            str(entry["sequence"]),
            _minute(entry["time"]),
            "yes" if entry["answered"] else "called off" if entry["called_off"] else "no",
            *(escape(text) for text in _words(entry)),
        )
        for entry in questions
    ]
    heads = ("entry", "time (UTC)", "answered", "cost", "limits", "analyst", "purpose")
    show.print_grid(show.TextTable(heads=heads, rows=tuple(rows), left=len(heads), repeated=1))


def _protected(terms: dict[str, Any]) -> str | None:
    """What the terms of an account protect, in words.

    >>> _protected({"unit": "person", "id": ("pid",)}), _protected({"unit": "row"})
    ("a person by 'pid'", 'a single row')
    """
    unit, ids = terms.get("unit"), terms.get("id")
    if unit == "row":
        return "a single row"
    if unit != "person" or not isinstance(ids, tuple | list):
        return None if unit is None else str(unit)
    by_table = (f"{one[0]}: {_listed(one[1:])}" for one in ids if not isinstance(one, str))
    return f"a person by {'; '.join(by_table) or _listed(ids)}"


def _listed(ids: Any) -> str:
    return ", ".join(repr(one) for one in ids)


def _number(epsilon: float | None) -> str:
    """An upper bound in six digits, rounded up."""
    if epsilon is None:
        return "unknown"
    with decimal.localcontext(prec=6, rounding=decimal.ROUND_CEILING):
        return f"{+decimal.Decimal(epsilon):g}"


def _minute(time: str) -> str:
    return time[:16].replace("T", " ")


def _words(entry: dict[str, Any]) -> tuple[str, str, str, str]:
    from unacorda.privacy.guarantees import guarantee_from_json

    cost = guarantee_from_json(json.dumps(entry["charge"]))
    limits = ", ".join(f"{name} {value:,}" for name, value in (entry["limits"] or {}).items())
    return _short(str(cost)), limits or "-", entry["analyst"] or "-", entry["purpose"] or "-"


def _short(guarantee: str) -> str:
    """A guarantee's numbers without its kind, which the account's budget names.

    >>> _short("ZCDP(rho=0.5, delta=1e-08)"), _short("PureDP(epsilon=0.5)")
    ('rho 0.5, delta 1e-08', 'epsilon 0.5')
    """
    _, _, numbers = guarantee.removesuffix(")").partition("(")
    return numbers.replace("=", " ")
