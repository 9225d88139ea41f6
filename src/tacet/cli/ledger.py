"""`tacet ledger`: look into a ledger."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacet.cli import show
from tacet.cli.failures import EXIT_CODES, reporting
from tacet.cli.ledgers import opened
from tacet.cli.mends import no_account
from tacet.errors import LedgerMismatch

if TYPE_CHECKING:
    from tacet.ledger.entries import Account, Entry
    from tacet.ledger.ledger import Ledger

__all__ = ["app"]

_HELP = """Look into a ledger of budgets.

\b
Example:
  tacet ledger show --ledger sqlite:///budget.db
"""

_SHOW = f"""Show accounts: budget, what is spent and left, and every entry. Changes nothing.

An entry without an answer is a question whose process ended before the answer was computed: it
stays spent.

\b
Examples:
  tacet ledger show --ledger sqlite:///budget.db
  tacet ledger show --ledger sqlite:///budget.db --dataset visits-2024 \\
      --verify --json

--verify checks the hashes that chain the entries, and their sums; a ledger that fails ends with
code 5. Who may write the file can also write new hashes: keep the last digest (--json shows it)
elsewhere to notice that.

{EXIT_CODES}"""

app = typer.Typer(help=_HELP, no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _group() -> None:
    """Keep `show` a verb of its own, though it is the only one."""


@app.command("show", help=_SHOW)
def show_ledger(
    *,
    ledger: Annotated[
        str, typer.Option("--ledger", metavar="URL", help="Such as sqlite:///budget.db.")
    ],
    dataset: Annotated[
        str | None,
        typer.Option(
            "--dataset", metavar="NAME", help="One account; otherwise all.", show_default=False
        ),
    ] = None,
    verify: Annotated[bool, typer.Option("--verify", help="Check hashes and sums.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with full entries.")] = False,
) -> None:
    """The verb; its help is `_SHOW`."""
    with reporting(), opened(ledger, must_exist=True) as book:
        known = book.datasets()
        if dataset is not None and dataset not in known:
            raise LedgerMismatch(no_account(dataset, known))
        names = known if dataset is None else (dataset,)
        found = [_account(book, name, verify=verify) for name in names]
        if as_json:
            show.line(json.dumps({"accounts": found}, indent=2))
            return
        if not found:
            show.line("This ledger has no accounts.")
        for place, account in enumerate(found):
            if place:
                show.line()
            _print(account)


def _account(book: Ledger, name: str, *, verify: bool) -> dict[str, Any]:
    """All of an account in plain values; LedgerMismatch where it is not there or was changed."""
    account: Account = book.account(name)
    entries = book.entries(name)
    answered = {entry.reservation for entry in entries if entry.state == "committed"}
    return {
        "dataset": account.dataset,
        "budget": str(account.budget),
        "spent": str(book.spent(name)),
        "remaining": str(book.remaining(name)),
        "terms": dict(account.terms),
        "opened": account.opened,
        "verified": book.verify(name) if verify else None,
        "entries": [
            {**_plain(entry), "answered": entry.reservation in answered} for entry in entries
        ],
    }


def _plain(entry: Entry) -> dict[str, Any]:
    """An entry with its JSON texts as values."""
    fields = dataclasses.asdict(entry)
    for name in ("event", "request", "charge", "spent"):
        fields[name] = json.loads(fields[name]) if fields[name] else None
    return fields


def _print(account: dict[str, Any]) -> None:
    show.heading(show.clean(account["dataset"]))
    unit = account["terms"].get("unit")
    facts = {
        "budget": account["budget"],
        "spent": account["spent"],
        "left": account["remaining"],
        "protects": unit,
        "opened": f"{_minute(account['opened'])} UTC",
    }
    for name, text in facts.items():
        if text is not None:
            show.line(show.clean(f"{name + ':':10}{text}"))
    if account["verified"] is not None:
        show.line(f"verified: {account['verified']} entries chain and add up")
    questions = [entry for entry in account["entries"] if entry["state"] == "reserved"]
    if not questions:
        show.line("No questions yet.")
        return
    show.line()
    rows = [
        (
            str(entry["sequence"]),
            _minute(entry["time"]),
            "yes" if entry["answered"] else "no",
            *(show.clean(text) for text in _words(entry)),
        )
        for entry in questions
    ]
    heads = ("entry", "time (UTC)", "answered", "cost", "analyst", "purpose")
    show.print_grid(show.Grid(heads=heads, rows=tuple(rows), left=len(heads), repeated=1))


def _minute(time: str) -> str:
    return time[:16].replace("T", " ")


def _words(entry: dict[str, Any]) -> tuple[str, str, str]:
    from tacet.privacy.guarantees import guarantee_from_json

    cost = guarantee_from_json(json.dumps(entry["charge"]))
    return _short(str(cost)), entry["analyst"] or "-", entry["purpose"] or "-"


def _short(guarantee: str) -> str:
    """A guarantee's numbers without its kind, which the account's budget names.

    >>> _short("ZCDP(rho=0.5, delta=1e-08)"), _short("PureDP(epsilon=0.5)")
    ('rho 0.5, delta 1e-08', 'epsilon 0.5')
    """
    _, _, numbers = guarantee.removesuffix(")").partition("(")
    return numbers.replace("=", " ")
