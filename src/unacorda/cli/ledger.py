"""`unacorda ledger`: look into a ledger."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unacorda.cli import show
from unacorda.cli.accounts import print_account, repriced, shown
from unacorda.cli.arguments import (
    AccountBudget,
    Dataset,
    LedgerUrl,
    PersonColumns,
    SingleRows,
)
from unacorda.cli.failures import EXIT_CODES, reporting
from unacorda.cli.ledgers import account_of, is_new, opened
from unacorda.cli.mends import no_account
from unacorda.cli.options import assignment, budget_of, read_text, unit_of
from unacorda.errors import InvalidParameter, LedgerMismatch
from unacorda.query.schema.quoting import escape

if TYPE_CHECKING:
    from unacorda.ledger.ledger import Ledger

__all__ = ["app"]

_HELP = """Open accounts in a ledger of budgets, look into it, verify and export it.

\b
Example:
  unacorda ledger show --ledger sqlite:///budget.db
"""

_INIT = f"""Open the account of a data set before anyone asks about it, and sub-accounts.

The account keeps its budget and what it protects for good; `unacorda query` then needs no --budget.
How many rows of a person a question uses is that question's own (--max-rows), and noted with it.
A sub-account, of an analyst or a project, is a limit of its own below it: what is charged there
counts in both. Nothing is set aside for it. Where the account is open already, under the same
budget and unit, sub-accounts are added.

\b
Examples:
  unacorda ledger init --ledger sqlite:///budget.db --dataset visits-2024 \\
      --budget rho=0.5,delta=1e-8 --unit person_id
  unacorda ledger init --ledger postgresql://office@db/budgets \\
      --dataset visits-2024 --budget epsilon=3 --row \\
      --sub-account ana=epsilon=0.5

PostgreSQL needs the extra `postgres`. Who may write to the place of a ledger can also spend.

{EXIT_CODES}"""

_SHOW = f"""Show accounts: budget, what is spent and left, and every entry. Changes nothing.

An entry without an answer is a question whose process ended before the answer was computed: it
stays spent. One that was called off before it read anything cost nothing.

--reprice 1e-6 prices the whole history again, as (epsilon, delta)-DP at that delta: by the
numerical accountant, which holds if the noise of every question was settled before the first
answer, and by an odometer, which holds always. No budget grows by it.

\b
Examples:
  unacorda ledger show --ledger sqlite:///budget.db
  unacorda ledger show --ledger sqlite:///budget.db --dataset visits-2024 \\
      --verify --json

--verify checks the hashes that chain the entries, and their sums; a ledger that fails ends with
code 5. Who may write the file can also write new hashes: keep the last digest (--json shows it)
elsewhere to notice that.

{EXIT_CODES}"""

_VERIFY = f"""Check hashes and sums, in a ledger or in an export of one account.

Prints the last digest of each account. Keep it elsewhere, and give it later with --digest: then it
also shows if entries were dropped from the end, or all of them were written anew.

\b
Examples:
  unacorda ledger verify --ledger sqlite:///budget.db
  unacorda ledger verify --ledger sqlite:///budget.db --dataset visits-2024 \\
      --digest 0c3f...
  unacorda ledger verify visits.jsonl

A ledger that fails ends with code 5.

{EXIT_CODES}"""

_EXPORT = f"""Print an account with all its entries, as JSON, one object a line.

The first line is the account; each other one an entry, with all that its hash was made of, so that
`unacorda ledger verify FILE` needs nothing else.

\b
Example:
  unacorda ledger export --ledger sqlite:///budget.db --dataset visits-2024 \\
      > visits.jsonl

{EXIT_CODES}"""

app = typer.Typer(help=_HELP, no_args_is_help=True, rich_markup_mode=None)


_Url = Annotated[str, typer.Option("--ledger", metavar="URL", help="Such as sqlite:///budget.db.")]


@app.command("init", help=_INIT)
def init_ledger(
    *,
    ledger: _Url,
    dataset: Annotated[str, typer.Option("--dataset", metavar="NAME", help="The account's name.")],
    budget: AccountBudget = None,
    unit: PersonColumns = None,
    row: SingleRows = False,
    sub_account: Annotated[
        list[str] | None,
        typer.Option(
            "--sub-account",
            metavar="NAME=KIND=X",
            help="A limit below the account's, such as ana=epsilon=0.5. May be repeated.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """The verb; its help is `_INIT`."""
    with reporting():
        # Limits on rows are no terms: any will do.
        whose = unit_of(persons=unit or [], max_rows=None if row else "1", row=row)
        parts = [
            assignment("--sub-account", text, form="NAME=KIND=X, such as ana=epsilon=0.5")
            for text in sub_account or []
        ]
        limits = [
            (name, budget_of(text, option="--sub-account", name=f"{name}=")) for name, text in parts
        ]
        account = account_of(ledger, {"--dataset": dataset}, budget)
        is_new(ledger, dataset, account)
        with opened(ledger, must_exist=False) as book:
            book.open_account(dataset, account, whose.terms)
            for name, limit in limits:
                book.open_sub_account(dataset, name, limit)
            found = shown(book, dataset, verify=False)
        if as_json:
            show.line(json.dumps(found, indent=2))
        else:
            print_account(found)


@app.command("verify", help=_VERIFY)
def verify_ledger(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE]", help="An export, instead of a ledger.", show_default=False
        ),
    ] = None,
    *,
    ledger: LedgerUrl = None,
    dataset: Dataset = None,
    digest: Annotated[
        str | None,
        typer.Option(
            "--digest",
            metavar="HEX",
            help="A digest kept elsewhere, which an entry must have; with --dataset, or FILE.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """The verb; its help is `_VERIFY`."""
    with reporting():
        if (file is None) == (ledger is None):
            expected = "either --ledger or the FILE of an export"
            raise InvalidParameter("--ledger", ledger, expected=expected)
        if digest is not None and file is None and dataset is None:
            expected = "it beside --dataset: each account has its own"
            raise InvalidParameter("--digest", digest, expected=expected)
        if file is not None:
            if dataset is not None:
                raise InvalidParameter("--dataset", dataset, expected="it beside --ledger")
            found = [_exported(read_text("FILE", file), digest)]
        else:
            with opened(str(ledger), must_exist=True) as book:
                names = _chosen(book, dataset)
                found = [_verified(book, name, digest) for name in names]
        if as_json:
            show.line(json.dumps({"accounts": found}, indent=2))
            return
        for one in found:
            show.line(escape(f"{one['dataset']}: {one['entries']} entries chain and add up"))
            show.line(f"  last digest: {one['digest'] or 'none yet'}")


@app.command("export", help=_EXPORT)
def export_ledger(
    *,
    ledger: _Url,
    dataset: Annotated[str, typer.Option("--dataset", metavar="NAME", help="The account.")],
) -> None:
    """The verb; its help is `_EXPORT`."""
    with reporting(), opened(ledger, must_exist=True) as book:
        from unacorda.ledger.export import export_account

        for name in _chosen(book, dataset):
            for line in export_account(book, name):
                show.line(line)


def _chosen(book: Ledger, dataset: str | None) -> tuple[str, ...]:
    """The accounts that are meant; LedgerMismatch for a name that is none."""
    known = book.datasets()
    if dataset is not None and dataset not in known:
        raise LedgerMismatch(no_account(dataset, known))
    return known if dataset is None else (dataset,)


def _verified(book: Ledger, name: str, digest: str | None) -> dict[str, Any]:
    count = book.verify(name, containing=digest)
    last = book.entries(name)[-1:]
    return {"dataset": name, "entries": count, "digest": last[0].digest if last else None}


def _exported(text: str, digest: str | None) -> dict[str, Any]:
    from unacorda.ledger.export import read_export
    from unacorda.ledger.replay import verify_entries

    account, entries = read_export(text.splitlines())
    count = verify_entries(account, entries, containing=digest)
    last = entries[-1].digest if entries else None
    return {"dataset": account.dataset, "entries": count, "digest": last}


@app.command("show", help=_SHOW)
def show_ledger(
    *,
    ledger: _Url,
    dataset: Annotated[
        str | None,
        typer.Option(
            "--dataset", metavar="NAME", help="One account; otherwise all.", show_default=False
        ),
    ] = None,
    verify: Annotated[bool, typer.Option("--verify", help="Check hashes and sums.")] = False,
    delta: Annotated[
        str | None,
        typer.Option(
            "--reprice",
            metavar="DELTA",
            help="Price the history again, at this delta.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with full entries.")] = False,
) -> None:
    """The verb; its help is `_SHOW`."""
    with reporting(), opened(ledger, must_exist=True) as book:
        names = _chosen(book, dataset)
        found = [shown(book, name, verify=verify) for name in names]
        for one in found if delta is not None else ():
            one["repriced"] = repriced(book, one["dataset"], str(delta))
        if as_json:
            show.line(json.dumps({"accounts": found}, indent=2))
            return
        if not found:
            show.line("This ledger has no accounts.")
        for place, account in enumerate(found):
            if place:
                show.line()
            print_account(account)
