"""`unacorda describe`: a first look at a table, within one budget."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from unacorda.cli import params, render
from unacorda.cli.errors import ExitCode
from unacorda.cli.ledger import account
from unacorda.cli.output import check_target, output, stored
from unacorda.cli.tables import Asked, asked, data


@params.verb(short_help="Take a first look at a table of people.")
@data()
@params.unit(max_rows="a question uses (auto where this is left out)")
@params.price(buys=" Common values of text are then found too.")
@params.facts
@params.option(
    "--only",
    params.NAMES,
    "The columns to look at. Otherwise all but those that are named as ids or row numbers.",
)
@params.option("--skip", params.NAMES, "Columns to leave out.")
@account()
@params.option(
    "--html",
    params.FILE,
    "Write a page with pictures, which needs nothing else, to a new file. If that fails, the "
    "text is printed: what was paid for is not lost.",
)
@output(
    "Write every answer with how it was made to a new .json file for unacorda verify.",
    replaces="--html and --output",
)
@params.json_option
@asked(max_rows=params.AUTO, complete=True)
def describe(
    *,
    asked: Asked,
    only: Sequence[str] | None,
    skip: Sequence[str] | None,
    html: Path | None,
    output: Path | None,
    overwrite: bool,
    as_json: bool,
) -> int | None:
    r"""Take a first look at a table of people: what its columns hold, how many people have a
    value, ranges, means, quantiles and a picture of each, all within one budget.

    Declare what a column holds with --columns or --bounds; the type of a Parquet or DuckDB column
    is known. For columns of a CSV file that are not declared, a private vote decides, for a tenth
    of the budget: a column holds numbers, dates or booleans if the values of four people in five
    convert. Ranges that are not declared are found privately, as round numbers. Values of text
    columns are never read from the data: declare them as categories, or give --delta to find the
    values that many people share. With few people or a small budget, votes and ranges can be wrong.

    Examples:
      unacorda describe visits.csv --unit person_id --epsilon 1
      unacorda describe people.parquet --row --rho 0.1 --html first-look.html --output look.json
      unacorda describe visits.csv --unit person_id --max-rows 10 --epsilon 1 \
          --bounds age=0:120 --ledger sqlite:///budget.db --dataset visits-2024 --budget epsilon=3

    Without --max-rows, the number of rows of a person that may count is found privately, for a
    tenth of the budget; with --ledger only once per account, also for `unacorda query --max-rows
    auto`.
    """
    from unacorda.query.describe import choose_columns

    check_target(html, "page", overwrite=overwrite)
    check_target(output, "record", overwrite=overwrite)
    table, chosen = asked.data.name, {"only": only or (), "skip": skip or ()}
    if only or skip:  # a column that there is not is refused before anything is paid
        with asked.free() as free:
            choose_columns(free.table(table), free.unit, **chosen)
    with render.progress("Looking") as advance, asked.paid("look") as (session, spends):
        found = session.describe(table, budget=spends, progress=advance, **chosen)
    kept = html is not None and stored(found, html)
    recorded = output is None or stored(found, output)
    if as_json:
        render.raw(found.to_json())
    elif not kept:
        render.lines(found)
    return None if recorded and (kept or html is None) else ExitCode.FAILED
