"""What verbs that ask a data file take, written once: arguments and options with their help."""

# SPDX-License-Identifier: Apache-2.0

from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "AccountBudget",
    "BoundsOf",
    "ColumnsFile",
    "Data",
    "Dataset",
    "Delimiter",
    "Delta",
    "Epsilon",
    "LedgerUrl",
    "MaxGroups",
    "MaxRows",
    "MaxRowsPerGroup",
    "Mu",
    "PersonColumns",
    "Rho",
    "SingleRows",
]

Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A file in .csv, .tsv (also .gz) or .parquet (patterns of these too), or "
        "file.duckdb::table.",
        show_default=False,
    ),
]
PersonColumns = Annotated[
    list[str] | None,
    typer.Option(
        "--unit",
        metavar="COLUMN",
        help="The column that names a person, or an expression such as 'lower(email)'; give it "
        "again where several do so together.",
        show_default=False,
    ),
]
MaxRows = Annotated[
    str | None,
    typer.Option(
        "--max-rows",
        metavar="N|auto",
        help="The most rows of one person that a question uses, over all groups together; auto "
        "finds the number privately, for a tenth of the budget, once per account.",
        show_default=False,
    ),
]
MaxGroups = Annotated[
    str | None,
    typer.Option(
        "--max-groups",
        metavar="N",
        help="The most groups of a question that the rows of one person fall into. With "
        "--max-rows-per-group, --max-rows may be left out.",
        show_default=False,
    ),
]
MaxRowsPerGroup = Annotated[
    str | None,
    typer.Option(
        "--max-rows-per-group",
        metavar="N",
        help="The most rows of one person in one group; without GROUP BY all rows are one.",
        show_default=False,
    ),
]
SingleRows = Annotated[
    bool,
    typer.Option(
        "--row", help="Protect single rows: right only where no person has more than one."
    ),
]
Epsilon = Annotated[
    str | None,
    typer.Option(
        "--epsilon",
        metavar="X",
        help="Pure DP; with --delta, approximate DP.",
        show_default=False,
    ),
]
Delta = Annotated[
    str | None,
    typer.Option(
        "--delta",
        metavar="X",
        help="With --epsilon, --rho or --mu, which then may fail with this probability; 0 "
        "where it is left out.",
        show_default=False,
    ),
]
Rho = Annotated[
    str | None,
    typer.Option("--rho", metavar="X", help="Zero-concentrated DP.", show_default=False),
]
Mu = Annotated[
    str | None, typer.Option("--mu", metavar="X", help="Gaussian DP.", show_default=False)
]
BoundsOf = Annotated[
    list[str] | None,
    typer.Option(
        "--bounds",
        metavar="COLUMN=LOW:HIGH",
        help="Public bounds of a number column; values beyond count as the nearest bound. "
        "May be repeated.",
        show_default=False,
    ),
]
ColumnsFile = Annotated[
    Path | None,
    typer.Option(
        "--columns",
        metavar="FILE.json",
        help='Facts by column: {"age": {"bounds": [0, 120]}, "county": {"categories": '
        '["A", "B", null]}, "day": {"dates": true}, "zip": {"text": true}}. null stands for '
        "rows without a value.",
        show_default=False,
    ),
]
Delimiter = Annotated[
    str | None,
    typer.Option(
        "--delimiter",
        metavar="SIGN",
        help="The sign between the columns of a CSV file, such as ';' or tab. Otherwise a "
        "comma, and a tab in .tsv.",
        show_default=False,
    ),
]
LedgerUrl = Annotated[
    str | None,
    typer.Option(
        "--ledger",
        metavar="URL",
        help="Where the spend is kept: sqlite:///budget.db or postgresql://user@host/database.",
        show_default=False,
    ),
]
Dataset = Annotated[
    str | None,
    typer.Option(
        "--dataset",
        metavar="NAME",
        help="The account in the ledger.",
        show_default=False,
    ),
]
AccountBudget = Annotated[
    str | None,
    typer.Option(
        "--budget",
        metavar="KIND=X",
        help="The account's whole budget, such as epsilon=3 or rho=0.5,delta=1e-8.",
        show_default=False,
    ),
]
