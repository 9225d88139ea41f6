"""`unacorda query`: one private answer from a data file."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
from collections.abc import Mapping
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
    Delta,
    Epsilon,
    LedgerUrl,
    MaxGroups,
    MaxRows,
    MaxRowsPerGroup,
    Mu,
    PersonColumns,
    Rho,
    SingleRows,
)
from unacorda.cli.datafile import DataFile
from unacorda.cli.explained import print_explanation
from unacorda.cli.failures import EXIT_CODES, ExitCode, reporting
from unacorda.cli.keys import key_table, key_texts
from unacorda.cli.ledgers import Below, account_of, accounts, below_of, is_new, opened
from unacorda.cli.mends import no_account
from unacorda.cli.options import AUTO, SEARCH_SHARE, Price, facts_of, unit_of
from unacorda.cli.output import check_target, stored
from unacorda.cli.question import CommandQuestion
from unacorda.cli.suggested import print_suggestions, wished_errors
from unacorda.errors import InvalidParameter
from unacorda.query.schema.quoting import escape

if TYPE_CHECKING:
    from unacorda.privacy.guarantees import Guarantee
    from unacorda.query.aggregates.hierarchy import GivenLevelWeights
    from unacorda.query.results.release import Release

__all__ = ["HELP", "SUMMARY", "query"]

SUMMARY = "Answer one SELECT about a table of people."

HELP = f"""Answer one SELECT about a table of people, with differential privacy.

The SELECT may hold COUNT, SUM, AVG, MEDIAN, QUANTILE(x, 0.9), STDDEV, CORR, HISTOGRAM and others,
with WHERE, GROUP BY, HAVING, ORDER BY and LIMIT, over one table. The table is called as its file
(visits.csv is visits; other signs than letters, digits and _ become _), and also data.

Every value of GROUP BY must be listed, with --keys or --columns: it is never read off the data.
Or --private-keys finds those that enough people have, and spends a --delta.
Means, quantiles and variances need public bounds of their columns, with --bounds or --columns; a
SUM has less error with them.

\b
Examples:
  unacorda query visits.csv --unit person_id --max-rows 10 --epsilon 1 \\
      --bounds age=0:120 --keys county=A,B,C \\
      "SELECT county, AVG(age) AS mean_age FROM visits GROUP BY county"
  unacorda query people.parquet --row --epsilon 0.5 --explain \\
      "SELECT COUNT(*) AS n FROM people"
  unacorda query people.parquet --row --error n=10 \\
      "SELECT COUNT(*) AS n FROM people"
  unacorda query visits.csv --unit person_id --max-rows 10 --rho 0.01 \\
      --ledger sqlite:///budget.db --dataset visits-2024 --budget rho=0.1 \\
      "SELECT COUNT(*) AS n FROM visits WHERE age >= 65"

--max-rows auto finds how many rows of a person to keep, privately, for a tenth of the budget; with
--ledger once per account, and later questions and looks read it there.

Without --ledger, nothing remembers what was spent. With one, --budget opens the account the first
time; later it is left out or equal, and questions beyond it are refused. --sub-account spends from
a limit below the account too: --limit opens it.

{EXIT_CODES}"""

_UNKEPT = (
    "there is no --ledger, so nothing durable remembers what this answer cost. Each further "
    "question about these people adds to it, and nothing stops you."
)
_MARGINS = (
    "A margin holds with 95% probability for each cell, and counts the noise alone: what clamping "
    "to bounds and the limit on rows do comes on top."
)


def query(
    data: Data,
    sql: Annotated[str, typer.Argument(metavar="SELECT", help="The question.", show_default=False)],
    *,
    unit: PersonColumns = None,
    max_rows: MaxRows = None,
    max_groups: MaxGroups = None,
    max_rows_per_group: MaxRowsPerGroup = None,
    row: SingleRows = False,
    epsilon: Epsilon = None,
    delta: Delta = None,
    rho: Rho = None,
    mu: Mu = None,
    bounds: BoundsOf = None,
    keys: Annotated[
        list[str] | None,
        typer.Option(
            "--keys",
            metavar="COLUMN=A,B,C|COLUMN=@FILE|@TABLE",
            help="The public values of a group column: a line of CSV, or a file with one a line; "
            "or a public .csv or .parquet table with the values of all group columns, as @FILE. "
            "They are whole numbers, dates (YYYY-MM-DD) or true and false where the column is; in "
            "a CSV file, whole numbers, or true and false, where all of them are and the column is "
            "not declared as text. May be repeated.",
            show_default=False,
        ),
    ] = None,
    private: Annotated[
        list[str] | None,
        typer.Option(
            "--private-keys",
            metavar="COLUMN",
            help="A group column whose values are found: those that enough people have. Needs "
            "--delta. May be repeated; the columns are then found by their combinations.",
            show_default=False,
        ),
    ] = None,
    columns: ColumnsFile = None,
    delimiter: Delimiter = None,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain",
            help="Print what would happen, cost and err, instead of asking: reads no data and "
            "spends nothing.",
        ),
    ] = False,
    assuming: Annotated[
        str | None,
        typer.Option(
            "--assuming",
            metavar="FILE",
            help="Beside --explain or --error: a public or synthetic table with the same columns, "
            "on which the question is tried out with and without the limits on a person's rows.",
            show_default=False,
        ),
    ] = None,
    error: Annotated[
        list[str] | None,
        typer.Option(
            "--error",
            metavar="X|COLUMN=X",
            help="In place of a budget: print the least budgets with which standard errors are at "
            "most X, of all columns or of one; of ROLLUP and CUBE that of the finest level. Reads "
            "no data and spends nothing. May be repeated.",
            show_default=False,
        ),
    ] = None,
    level_weights: Annotated[
        str | None,
        typer.Option(
            "--level-weights",
            metavar="X,Y,...|overall",
            help="Of ROLLUP and CUBE the parts of the budget by level, coarse to fine, or overall: "
            "the least error of all numbers together, whatever it is at coarse levels.",
            show_default=False,
        ),
    ] = None,
    ledger: LedgerUrl = None,
    dataset: Dataset = None,
    budget: AccountBudget = None,
    analyst: Annotated[
        str | None,
        typer.Option("--analyst", metavar="TEXT", help="Noted in the ledger.", show_default=False),
    ] = None,
    purpose: Annotated[
        str | None,
        typer.Option("--purpose", metavar="TEXT", help="Noted in the ledger.", show_default=False),
    ] = None,
    sub_account: Annotated[
        str | None,
        typer.Option(
            "--sub-account",
            metavar="NAME",
            help="An analyst or a project, whose limit is debited too, and who is noted.",
            show_default=False,
        ),
    ] = None,
    limit: Annotated[
        str | None,
        typer.Option(
            "--limit",
            metavar="KIND=X",
            help="The limit of --sub-account, such as epsilon=0.5: opens it; later left out or "
            "equal.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            metavar="FILE",
            help="Write the table to a new .csv, .json or .parquet file. If that fails, the "
            "table is printed: an answer that was paid for is not lost.",
            show_default=False,
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Let --output replace a file.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON, with how the answer was made.")
    ] = False,
) -> None:
    """The verb; its help is `HELP`."""
    with reporting():
        price = Price(epsilon=epsilon, delta=delta, rho=rho, mu=mu)
        wanted = wished_errors(error) if error else None
        if wanted is not None and (price.main or explain or ledger or output):
            raise InvalidParameter(
                "--error", error, expected="it without a budget, --explain, --ledger and --output"
            )
        if wanted is not None and max_rows == AUTO:
            expected = "a number beside --error, which reads no data and so finds none"
            raise InvalidParameter("--max-rows", max_rows, expected=expected)
        request = (price if wanted is None else Price(epsilon="1")).guarantee()
        table = key_table(keys or [])
        question = CommandQuestion(
            file=DataFile(data=data, delimiter=delimiter),
            sql=sql,
            unit=unit_of(
                persons=unit or [],
                max_rows=max_rows,
                max_groups=max_groups,
                max_rows_per_group=max_rows_per_group,
                row=row,
                request=request,
            ),
            facts=facts_of(bounds or [], columns),
            keys={} if table is not None else key_texts(keys or []),
            table=table,
            private=tuple(private or ()),
            request=request,
            level_weights=_weights(level_weights),
            assuming=assuming,
        )
        if assuming is not None and not explain and wanted is None:
            raise InvalidParameter(
                "--assuming", assuming, expected="it beside --explain or --error"
            )
        kept_only = {"--dataset": dataset, "--analyst": analyst, "--purpose": purpose}
        part = {"--sub-account": sub_account, "--limit": limit}
        account = account_of(ledger, {**kept_only, **part}, budget)
        below = below_of(sub_account, limit, analyst)
        hint = question.file.look()
        if hint is not None:
            show.notice(escape(hint))
        if wanted is not None:
            print_suggestions(question, wanted, delta=delta, as_json=as_json)
            return
        if explain:
            _explain(question, ledger, dataset, account, below, as_json=as_json)
            return
        if output is not None:
            check_target(output, overwrite=overwrite)
        notes = {"analyst": analyst, "purpose": purpose}
        release = _answered(question, ledger, dataset, account, below, notes=notes)
        if ledger is None:
            show.notice(_UNKEPT)
        kept = output is not None and stored(release, output)
        if as_json:
            show.line(release.to_json())
        elif not kept:
            name = dataset if below is None else f"{dataset}/{below.name}"
            _print_release(release, account=name if ledger is not None else None)
        if output is not None and not kept:
            raise typer.Exit(ExitCode.FAILED)


def _weights(text: str | None) -> GivenLevelWeights:
    if text is None or text.strip() == "overall":
        return None if text is None else "overall"
    return [part.strip() for part in text.split(",")]


def _explain(
    question: CommandQuestion,
    ledger: str | None,
    dataset: str | None,
    budget: Guarantee | None,
    below: Below | None,
    *,
    as_json: bool,
) -> None:
    """Explain, under the account's terms where there is one; make none."""
    wanted = question
    shown: dict[str, bool] = {"as_json": as_json, "public": question.assuming is not None}
    if wanted.searches:
        question = wanted.unsearched
    if ledger is None or dataset is None:
        _note_search(wanted, question)
        with question.session(budget=question.request) as session:
            print_explanation(question.explain(session), has_account=False, **shown)
        return
    known = accounts(ledger)
    if dataset in known:
        with contextlib.ExitStack() as stack:
            book = stack.enter_context(opened(ledger, must_exist=True))
            account: dict[str, Any] = {"budget": budget, "dataset": dataset, "ledger": book}
            if wanted.searches:
                question = wanted.known(**account) or question
            _note_search(wanted, question)
            session = stack.enter_context(question.session(**account))
            if below is not None and not below.is_new(book, dataset):
                session = session.for_analyst(below.name, below.limit)
            print_explanation(question.explain(session), has_account=True, **shown)
        return
    if budget is None:
        show.notice(escape(no_account(dataset, known)))
    _note_search(wanted, question)
    with question.session(budget=budget or question.request) as session:
        explanation = question.explain(session)
    print_explanation(explanation, has_account=budget is not None, **shown)


def _note_search(wanted: CommandQuestion, question: CommandQuestion) -> None:
    """Say how many rows of a person the explanation is about, where they were not given."""
    if not wanted.searches:
        return
    rows = f"{question.unit.limits['max_rows']:,}"
    if question.request == wanted.request:
        show.notice(f"the account knows that {rows} rows of a person are to be kept: --max-rows.")
        return
    search = wanted.request * SEARCH_SHARE
    show.notice(
        escape(
            f"finding how many rows of a person to keep comes first and costs {search}. This is "
            f"explained for {rows}, the most that can be found: with fewer, errors are smaller."
        )
    )


def _answered(
    question: CommandQuestion,
    ledger: str | None,
    dataset: str | None,
    budget: Guarantee | None,
    below: Below | None,
    *,
    notes: Mapping[str, str | None],
) -> Release:
    with show.working("Asking ..."):
        if ledger is None or dataset is None:
            if question.searches:
                question = question.found(budget=question.request)
                _note_found(question)
            with question.session(budget=question.request) as session:
                return question.answer(session)
        new = is_new(ledger, dataset, budget)
        if new:
            if below is not None:
                below.check_new(budget)
            question.rehearse(budget=budget, account=dataset)
        with contextlib.ExitStack() as stack:
            book = stack.enter_context(opened(ledger, must_exist=False))
            account: dict[str, Any] = {"budget": budget, "dataset": dataset, "ledger": book}
            if question.searches:
                if below is not None:  # which would leave a search without its question
                    below.check_left(question.unsearched.request, None if new else book, dataset)
                question = question.found(**account, **notes)
                _note_found(question)
            session = stack.enter_context(question.session(**account, **notes))
            if below is None:
                return question.answer(session)
            below.is_new(book, dataset)
            return question.answer(session.for_analyst(below.name, below.limit))


def _note_found(question: CommandQuestion) -> None:
    rows = f"{question.unit.limits['max_rows']:,}"
    show.notice(f"at most {rows} rows of a person count: a number that was found privately.")


def _print_release(release: Release, *, account: str | None) -> None:
    show.print_grid(show.release_grid(release))
    show.line()
    if any(low is not None for answer in release.answers.values() for low in answer.lower):
        show.line(show.wrapped(_MARGINS))
    if release.found is not None:
        show.line(show.wrapped(escape(f"{release.found.sentence}.")))
    left = "" if account is None else f"; {release.remaining} is left in account {account!r}"
    show.line(escape(f"Spent {release.charge}{left}."))
