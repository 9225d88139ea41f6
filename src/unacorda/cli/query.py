"""`unacorda query`: one private answer from a data file."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unacorda.checks import demand, exact
from unacorda.cli import params, render
from unacorda.cli.errors import EXIT_CODES, ExitCode, no_account
from unacorda.cli.ledger import PayingAccount, account, accounts, opened
from unacorda.cli.missing import Missing
from unacorda.cli.output import check_target, output, stored
from unacorda.cli.params import SEARCH_SHARE
from unacorda.cli.question import CommandQuestion
from unacorda.cli.tables import DataTables, data, terms_of
from unacorda.errors import InvalidParameter, UnacordaError
from unacorda.privacy.guarantees import left_of
from unacorda.query.expressions.quoting import escape

if TYPE_CHECKING:
    from unacorda.query.aggregates.hierarchy import GivenLevelWeights
    from unacorda.query.results.explanation import Explanation
    from unacorda.query.results.release import Release
    from unacorda.query.schema.facts import Fact

__all__ = ["UNKEPT", "explained", "query"]

HELP = f"""Answer one SELECT about a table of people, with differential privacy.

The SELECT may hold COUNT, SUM, AVG, MEDIAN, QUANTILE(x, 0.9), STDDEV, CORR, HISTOGRAM and others,
with WHERE, JOIN, GROUP BY, HAVING, ORDER BY and LIMIT. The table of a file is called as the file
(visits.csv is visits; other signs than letters, digits and _ become _), and also data. --table
names several. A file unacorda.toml stands in for DATA, --table and options that are left out.

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

UNKEPT = (
    "there is no --ledger, so nothing durable remembers what this {asked} cost. Each further "
    "question about these people adds to it, and nothing stops you."
)
_MARGINS = (
    "A margin holds with 95% probability for each cell, about the exact answer{about}, and counts "
    "the noise alone{rest}."
)

StandardErrors = Fraction | dict[str, Fraction]
"""One for all columns, or by column."""


def _standard_errors(texts: Sequence[str]) -> StandardErrors | None:
    """Standard errors: one for all columns, or by column; None where none are given.

    >>> _standard_errors(["n=10", "mean_age=0.5"])
    {'n': Fraction(10, 1), 'mean_age': Fraction(1, 2)}
    """
    found: dict[str, Fraction] = {}
    for text in texts:
        name, sign, value = text.rpartition("=")
        column = name.strip()
        fits = bool(sign) is bool(column) and column not in found and (sign or len(texts) == 1)
        expected = "NAME=X for each column of the answer, each once, or one X for all of them; of "
        expected += "ROLLUP and CUBE that is the error of the finest level"
        demand(fits, "--error", text, expected=expected)
        found[column] = exact("--error", value.strip())
        demand(found[column] > 0, "--error", text, expected="a standard error above 0")
    return found.get("", found) if found else None


def _level_weights(_name: str, text: str) -> GivenLevelWeights:
    return "overall" if text.strip() == "overall" else [one.strip() for one in text.split(",")]


@click.command(help=HELP, short_help="Answer one SELECT about a table of people.")
@data("SELECT")
@params.unit(
    groups=True,
    max_rows="The most rows of one person that a question uses, over all groups together; auto "
    "finds the number privately, for a tenth of the budget, once per account.",
)
@params.price()
@params.facts
@params.keys
@params.flag(
    "--explain",
    "Print what would happen, cost and err, instead of asking: reads no data and spends nothing.",
)
@params.flag(
    "--detail",
    "With --explain: print the rows, the noise and what other budgets would buy too.",
)
@params.option(
    "--assuming",
    "FILE",
    "With --explain or --error: a public or synthetic table with the same columns, on which "
    "the question is tried out with and without the limits on a person's rows.",
)
@params.option(
    "--error errors",
    "X|COLUMN=X",
    "In place of a budget: print the least budgets with which standard errors are at most X, "
    "of all columns or of one; of ROLLUP and CUBE that of the finest level. Reads no data and "
    "spends nothing. May be repeated.",
    multiple=True,
)
@params.flag(
    "--no-kept",
    "Leave out the estimate of the share of rows that --max-rows keeps, which costs a twentieth "
    "of the budget.",
)
@params.option(
    "--level-weights",
    params.Read(_level_weights, "X,Y,...|overall"),
    "Of ROLLUP and CUBE the parts of the budget by level, coarse to fine, or overall: the "
    "least error of all numbers together, whatever it is at coarse levels.",
)
@account(notes=True)
@output(
    "Write the table to a new .csv, .json or .parquet file. If that fails, the table is printed: "
    "an answer that was paid for is not lost."
)
@params.flag("--json as_json", "Print JSON, with how the answer was made.")
def query(
    *,
    data: DataTables | None,
    text: str | None,
    whose: dict[str, Any],
    price: Mapping[str, str],
    facts: Mapping[str, Fact],
    explain: bool,
    detail: bool,
    assuming: str | None,
    errors: Sequence[str],
    account: PayingAccount | None,
    output: Path | None,
    overwrite: bool,
    as_json: bool,
    **asked: Any,
) -> int | None:
    """The verb; its help is `HELP`. asked: keys, level weights and no_kept, as in a question."""
    wanted = _standard_errors(errors)
    demand(explain or not detail, "--detail", detail, expected="--explain with it")
    if wanted is not None:
        alone = not (price.keys() - {"delta"} or explain or account or output)
        expected = "it without a budget, --explain, --ledger and --output"
        demand(alone, "--error", list(errors), expected=expected)
        expected = "a number with --error, which reads no data and so finds none"
        given = whose["max_rows"]
        demand(given != params.AUTO, "--max-rows", given, expected=expected)
    elif not explain:
        expected = "--explain or --error with it"
        demand(assuming is None, "--assuming", assuming, expected=expected)
    missing = Missing(text)
    sought = price if wanted is None else {"epsilon": "1"}
    unit, request = terms_of(data, whose, sought, missing=missing)
    sql = missing.needed(text, "SELECT")
    if data is None or sql is None:
        raise missing.error()
    data.look()
    if assuming is None and (explain or wanted is not None) and data.settings is not None:
        assuming = data.settings.stand_in
    question = CommandQuestion(
        data=data,
        sql=sql,
        unit=unit,
        request=request,
        facts=data.facts(facts),
        assuming=assuming,
        **asked,
    )
    if missing.faults:
        missing.faults += question.lacking()
        raise missing.error()
    try:
        if wanted is not None:
            _suggest(question, wanted, delta=price.get("delta"), as_json=as_json)
            return None
        if explain:
            _explain(question, account, detail=detail, as_json=as_json)
            return None
        if output is not None:
            check_target(output, "table", overwrite=overwrite)
        release = _answered(question, account)
    except InvalidParameter as fault:  # raised before anything is spent
        if fault.lacks is None:
            raise
        missing.faults += question.lacking() or [fault]
        raise missing.error() from None
    if account is None:
        render.notice(UNKEPT.format(asked="answer"))
    kept = output is not None and stored(release, output)
    if as_json:
        render.line(release.to_json())
    elif not kept:
        _print_release(release, account)
    return None if kept or output is None else ExitCode.FAILED


def _suggest(
    question: CommandQuestion, errors: StandardErrors, *, delta: str | None, as_json: bool
) -> None:
    """Print the least budget of every kind, as options; raises what is wrong with all of them."""
    from unacorda.query.settings import guarantee_of

    own = Fraction(0) if delta is None else exact("--delta", delta)
    rest = {} if delta is None else {"delta": delta}
    found: dict[str, dict[str, str]] = {}
    faults: list[UnacordaError] = []
    for kind in ("epsilon", "rho", "mu"):
        try:
            with question.session(budget=guarantee_of({kind: "1", **rest})) as session:
                least = question.suggest(session, errors, delta=own)
        except InvalidParameter as fault:
            faults.append(fault)
        else:
            found[kind] = {kind: f"{float(getattr(least, kind)):.10g}", **rest}
    if not found:
        raise faults[0]
    if as_json:
        render.as_json({"budgets": found})
        return
    render.line("The least budgets that reach this, each by itself:")
    for numbers in found.values():
        written = " ".join(f"--{name} {value}" for name, value in numbers.items())
        render.line(escape(f"  {written}"))
    _print_free(question)


def _print_free(question: CommandQuestion) -> None:
    render.line()
    read = "Nothing" if question.assuming is None else "Nothing but the public table"
    render.line(f"{read} was read and nothing was spent.")


def _explain(
    question: CommandQuestion, account: PayingAccount | None, *, detail: bool, as_json: bool
) -> None:
    """Explain, under the account's terms where there is one; make none."""
    wanted = question
    if wanted.searches:
        question = wanted.unsearched
    known = () if account is None else accounts(account.ledger)
    budget = None if account is None else account.budget
    with contextlib.ExitStack() as stack:
        if account is not None and account.dataset in known:
            book = stack.enter_context(opened(account.ledger, must_exist=True))
            terms = account.terms(book)
            question = wanted.known(**terms) or question
            session = stack.enter_context(question.session(**terms))
            session, has_account = account.below(session, book, opens=False), True
        else:
            if account is not None and budget is None:
                render.notice(escape(no_account(account.dataset, known)))
            session = stack.enter_context(question.session(budget=budget or question.request))
            has_account = budget is not None
        if wanted.searches:
            _note_search(wanted, question)
        explanation = question.explain(session)
    if as_json:
        render.as_json(explained(explanation, has_account=has_account))
        return
    if not detail:
        from unacorda.query.results.explanation import HEADS

        rows = tuple(explanation.errors)
        render.print_table(render.TextTable(heads=HEADS, rows=rows, left=1, repeated=1))
        render.line()
    for text in explanation.page if detail else explanation.remarks:
        if has_account or not text.startswith("What is left: "):
            render.line(render.wrapped(escape(text)))
    if not detail:
        render.line("--detail shows the rows, the noise, and what other budgets would buy.")
    _print_free(question)


def explained(explanation: Explanation, *, has_account: bool) -> dict[str, Any]:
    """The explanation in plain values; without an account nothing is left or affordable."""
    unknown = {} if has_account else {"left": None, "affordable": None}
    return {**explanation.to_dict(), **unknown}


def _note_search(wanted: CommandQuestion, question: CommandQuestion) -> None:
    """Say how many rows of a person the explanation is about, where they were not given."""
    rows = f"{question.unit.limits['max_rows']:,}"
    said = f"the account knows that {rows} rows of a person are to be kept: --max-rows."
    if question.request != wanted.request:
        said = (
            "finding how many rows of a person to keep comes first and costs "
            f"{wanted.request * SEARCH_SHARE}. This is explained for {rows}, the most that can be "
            "found: with fewer, errors are smaller."
        )
    render.notice(escape(said))


def _answered(question: CommandQuestion, account: PayingAccount | None) -> Release:
    with render.working("Asking ..."), contextlib.ExitStack() as stack:
        if account is None:
            if question.searches:
                question = _found(question, budget=question.request)
            return question.answer(stack.enter_context(question.session(budget=question.request)))
        new = account.is_new()
        if new:
            account.check_limit()
            question.rehearse(budget=account.budget, account=account.dataset)
        book = stack.enter_context(opened(account.ledger, must_exist=False))
        terms = account.terms(book)
        if question.searches:
            # Or a search would be paid for that is left without its question.
            account.check_left(question.unsearched.request, None if new else book)
            question = _found(question, **terms)
        session = stack.enter_context(question.session(**terms))
        return question.answer(account.below(session, book))


def _found(question: CommandQuestion, **account: Any) -> CommandQuestion:
    """The question with the rows of a person that were found, which is said."""
    question = question.found(**account)
    rows = f"{question.unit.limits['max_rows']:,}"
    render.notice(f"at most {rows} rows of a person count: a number that was found privately.")
    return question


def _clamps(release: Release) -> bool:
    """Whether values are clamped, by which answers may differ from those of the data."""
    return any(one.clamped for one in release.query.aggregates.values())


def _print_release(release: Release, account: PayingAccount | None) -> None:
    render.print_table(render.release_table(release))
    render.line()
    if any(low is not None for answer in release.answers.values() for low in answer.lower):
        rest = ": what clamping to bounds does comes on top" if _clamps(release) else ""
        margins = _MARGINS.format(about=release.about, rest=rest)
        render.line(render.wrapped(escape(margins)))
    for text in (*release.legend, *release.readings):
        render.line(render.wrapped(escape(text)))
    if release.found is not None:
        render.line(render.wrapped(escape(f"{release.found.sentence}.")))
    if release.kept is not None:
        render.line(render.wrapped(escape(f"{release.kept.sentence}.")))
    left = left_of(release.remaining, release.budget)
    left = "" if account is None else f" Account {account.name!r}: {left}."
    render.line(escape(f"Spent {release.charge}.{left}"))
