"""`unacorda describe`: a first look at a table, within one budget."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unacorda.cli import show
from unacorda.cli.arguments import (
    AccountBudget,
    BoundsOf,
    ColumnsFile,
    Data,
    Dataset,
    Delimiter,
    Epsilon,
    LedgerUrl,
    Mu,
    PersonColumns,
    Rho,
    SingleRows,
)
from unacorda.cli.datafile import DataFile
from unacorda.cli.failures import EXIT_CODES, ExitCode, reporting
from unacorda.cli.ledgers import account_of, is_new, opened
from unacorda.cli.options import AUTO, SEARCH_SHARE, Price, facts_of, unit_of
from unacorda.cli.output import check_page, check_record, stored
from unacorda.cli.question import known_rows
from unacorda.query.schema.quoting import escape

if TYPE_CHECKING:
    from unacorda.privacy.guarantees import Guarantee
    from unacorda.query.results.description import Description

__all__ = ["HELP", "SUMMARY", "describe"]

SUMMARY = "Take a first look at a table of people."

HELP = f"""Take a first look at a table of people: what its columns hold, how many people have a
value, ranges, means, quantiles and a picture of each, all within one budget.

What a column holds is declared with --columns or --bounds, or known from the type of a Parquet or
DuckDB column. Columns of a CSV file that are not declared are put to a private vote, for a tenth of
the budget: a column is of numbers, dates or booleans where the values of four people in five
convert. Ranges that are not declared are found privately, on round numbers. Values of text columns
are never read off the data: declare them as categories, or give --delta, for which those that many
people share are found.

\b
Examples:
  unacorda describe visits.csv --unit person_id --epsilon 1
  unacorda describe people.parquet --row --rho 0.1 --html first-look.html --output look.json
  unacorda describe visits.csv --unit person_id --max-rows 10 --epsilon 1 \\
      --bounds age=0:120 --ledger sqlite:///budget.db --dataset visits-2024 --budget epsilon=3

Without --max-rows, how many rows of a person to keep is found privately, for a tenth of the budget;
with --ledger once per account, and `unacorda query --max-rows auto` reads it there.

{EXIT_CODES}"""

_UNKEPT = (
    "there is no --ledger, so nothing durable remembers what this look cost. Each further "
    "question about these people adds to it, and nothing stops you."
)


def describe(
    data: Data,
    *,
    unit: PersonColumns = None,
    max_rows: Annotated[
        str | None,
        typer.Option(
            "--max-rows",
            metavar="N|auto",
            help="The most rows of one person that a question uses; auto, as without it, finds "
            "the number privately.",
            show_default=False,
        ),
    ] = None,
    row: SingleRows = False,
    epsilon: Epsilon = None,
    delta: Annotated[
        str | None,
        typer.Option(
            "--delta",
            metavar="X",
            help="With --epsilon, --rho or --mu; common values of text are then found too.",
            show_default=False,
        ),
    ] = None,
    rho: Rho = None,
    mu: Mu = None,
    bounds: BoundsOf = None,
    columns: ColumnsFile = None,
    delimiter: Delimiter = None,
    ledger: LedgerUrl = None,
    dataset: Dataset = None,
    budget: AccountBudget = None,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html",
            metavar="FILE",
            help="Write a page with pictures, which needs nothing else, to a new file. If that "
            "fails, the text is printed: what was paid for is not lost.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            metavar="FILE",
            help="Write every answer with how it was made to a new .json file for unacorda verify.",
            show_default=False,
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Let --html and --output replace a file.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """The verb; its help is `HELP`."""
    with reporting():
        request = Price(epsilon=epsilon, delta=delta, rho=rho, mu=mu).guarantee()
        searching = None if row or not unit else AUTO
        whose = unit_of(
            persons=unit or [], max_rows=max_rows or searching, row=row, request=request
        )
        file = DataFile(data=data, delimiter=delimiter)
        account = account_of(ledger, {"--dataset": dataset}, budget)
        hint = file.look()
        if hint is not None:
            show.notice(escape(hint))
        if html is not None:
            check_page(html, overwrite=overwrite)
        if output is not None:
            check_record(output, overwrite=overwrite)
        options: dict[str, Any] = {"unit": whose, "columns": facts_of(bounds or [], columns)}
        if ledger is None:
            found = _looked(file, request, budget=request, **options)
            show.notice(_UNKEPT)
        else:
            assert dataset is not None
            is_new(ledger, dataset, account)
            with opened(ledger, must_exist=False) as book:
                found = _looked(
                    file, request, budget=account, ledger=book, dataset=dataset, **options
                )
        kept = html is not None and stored(found, html)
        recorded = output is None or stored(found, output)
        if as_json:
            show.line(found.to_json())
        elif not kept:
            show.line("\n".join(map(escape, str(found).splitlines())))
        if not recorded or (html is not None and not kept):
            raise typer.Exit(ExitCode.FAILED)


def _looked(file: DataFile, request: Guarantee, **session: Any) -> Description:
    """The look, and before it the search for the rows of a person where no one made it yet."""
    from unacorda.query.session import Session

    known_rows(file, request, **session)  # refuses what is more than is left
    with (
        show.progress("Looking") as advance,
        Session({file.name: file.source()}, **session) as opened_session,
    ):
        left = request * (1 - SEARCH_SHARE) if opened_session.searches else request
        return opened_session.describe(file.name, budget=left, progress=advance)
