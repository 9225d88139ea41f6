"""`unacorda verify`: whether a release is what it says, as far as can be seen without the data."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
from pathlib import Path

import click

from unacorda.checks import demand, read_text
from unacorda.cli import params, render
from unacorda.cli.errors import ExitCode
from unacorda.cli.ledger import dataset_option, ledger_option, opened

_MOST_BYTES = 1 << 28


@params.verb(short_help="Recompute question, event and price of a release, without the data.")
@click.argument("file", metavar="FILE", type=params.FILE, help="A release as JSON.")
@ledger_option
@dataset_option
@params.json_option
def verify(*, file: Path, ledger: str | None, dataset: str | None, as_json: bool) -> int | None:
    """Recompute question, event and price of a release, without the data.

    FILE is what `unacorda query` or `unacorda describe` wrote with --output FILE.json or --json, or
    what `to_json()` of a release, a batch or a description gives in Python. For several releases,
    each has a line. The question is rebuilt from what the file states. Its digest, its noise and
    its price are recomputed, and each is compared with the file. With --ledger, the entry of this
    question is checked too: its digest, salt, event, charge and request, and that it was answered.

    No file can prove that the engine ran this question on those data, that the noise was drawn
    fairly, or that no released value was changed. The output says so.

    Examples:
      unacorda verify answer.json
      unacorda verify answer.json --ledger sqlite:///budget.db --json

    The exit code is 1 if anything differs, 2 if FILE is no release, 5 if the ledger cannot be used.
    """
    from unacorda.query.results.record import NOT_SHOWN, verify_record

    expected = "--ledger with it, which keeps the account"
    demand(dataset is None or ledger is not None, "--dataset", dataset, expected=expected)
    small = not file.is_file() or file.stat().st_size <= _MOST_BYTES
    demand(small, "FILE", str(file), expected=f"at most {_MOST_BYTES:,} bytes")
    with params.of_file(file), contextlib.ExitStack() as stack:
        text = read_text("FILE", file)
        book = None if ledger is None else stack.enter_context(opened(ledger, must_exist=True))
        found = verify_record(text, ledger=book, dataset=dataset)
    if as_json:
        render.as_json(found.to_dict())
    else:
        rows = ((one.name, one.outcome, one.detail) for one in found.checks)
        render.print_table(("check", "outcome", ""), rows, left=3, repeated=2)
        render.raw("\nNothing differs." if found.holds else "\nIt is not what it says.")
        render.raw("No file can show")
        for said in NOT_SHOWN:
            render.paragraph(f"  {said}")
    return None if found.holds else ExitCode.FAILED
