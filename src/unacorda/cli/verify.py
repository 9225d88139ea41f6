"""`unacorda verify`: whether a release is what it says, as far as can be seen without the data."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unacorda.cli import show
from unacorda.cli.failures import EXIT_CODES, ExitCode, reporting
from unacorda.cli.ledgers import opened
from unacorda.cli.options import of_file, read_text
from unacorda.errors import InvalidParameter
from unacorda.query.schema.quoting import escape

if TYPE_CHECKING:
    from unacorda.query.results.record import Verification

__all__ = ["HELP", "SUMMARY", "verify"]

_MOST_BYTES = 1 << 28

SUMMARY = "Compute question, event and price of a release again, without the data."

HELP = f"""Compute question, event and price of a release again, without the data.

FILE is what `unacorda query` or `unacorda describe` wrote with --output FILE.json or --json, or
what `to_json()` of a release, a batch or a description gives in Python; of several releases each
is a line. The question is put together again from what the file states, its digest, its noise
and what that costs are computed again, and each is compared with what the file says. With
--ledger, the entry of this question is looked for too: its digest, salt, event, charge and
request, and that it was answered.

What no file can show is said below the table: that the engine ran this question on those data, that
the noise was drawn fairly, that no released value was changed.

\b
Examples:
  unacorda verify answer.json
  unacorda verify answer.json --ledger sqlite:///budget.db --json

The code is 1 if anything differs, 2 if FILE is no release, 5 if the ledger cannot be used.

{EXIT_CODES}"""


def verify(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="A release as JSON.", show_default=False),
    ],
    *,
    ledger: Annotated[
        str | None,
        typer.Option(
            "--ledger",
            metavar="URL",
            help="Where the charge should stand, such as sqlite:///budget.db.",
            show_default=False,
        ),
    ] = None,
    dataset: Annotated[
        str | None,
        typer.Option(
            "--dataset",
            metavar="NAME",
            help="The account in the ledger; otherwise any.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """The verb; its help is `HELP`."""
    with reporting():
        if dataset is not None and ledger is None:
            raise InvalidParameter(
                "--dataset", dataset, expected="it beside --ledger, which keeps the account"
            )
        if file.is_file() and file.stat().st_size > _MOST_BYTES:
            raise InvalidParameter("FILE", str(file), expected=f"at most {_MOST_BYTES:,} bytes")
        with of_file(file):
            found = _verified(read_text("FILE", file), ledger, dataset)
        if as_json:
            show.line(json.dumps(found.to_dict(), indent=2))
        else:
            _print(found)
        if not found.holds:
            raise typer.Exit(ExitCode.FAILED)


def _verified(text: str, ledger: str | None, dataset: str | None) -> Verification:
    from unacorda.query.results.record import verify_record as verified

    if ledger is None:
        return verified(text)
    with opened(ledger, must_exist=True) as book:
        return verified(text, ledger=book, dataset=dataset)


def _print(found: Verification) -> None:
    from unacorda.query.results.record import NOT_SHOWN

    rows = tuple((escape(one.name), one.outcome, escape(one.detail)) for one in found.checks)
    show.print_grid(show.TextTable(heads=("check", "outcome", ""), rows=rows, left=3, repeated=2))
    show.line()
    show.line("Nothing differs." if found.holds else "It is not what it says.")
    show.line("No file can show")
    for text in NOT_SHOWN:
        show.line(show.wrapped(f"  {text}"))
