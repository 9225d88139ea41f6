"""`unacorda series`: the same question of a table that grows, for one price."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unacorda.checks import demand
from unacorda.cli import params, render
from unacorda.cli.ledger import PayingAccount, account, opened, required_ledger
from unacorda.cli.tables import Asked, DataTables, asked, data
from unacorda.errors import InvalidParameter
from unacorda.privacy.guarantees import left_of

if TYPE_CHECKING:
    from unacorda.over_time.bounds import OverTime, Wanted
    from unacorda.query.plan.query import Query
    from unacorda.query.series.answers import SeriesAnswers
    from unacorda.query.session import Session

_HELP = """Ask the same question of a growing table at each step, for one price paid at the start.

Example:
  unacorda series open visits.csv --unit patient --by seen_on --start 2025-01-01 \\
      --steps 365 --max-steps 10 --name visits-daily --rho 0.5 \\
      --ledger sqlite:///budget.db --dataset visits --budget rho=1 \\
      "SELECT COUNT(*) AS n FROM visits"
  unacorda series answer visits.csv --unit patient --name visits-daily \\
      --until 2025-01-31 --ledger sqlite:///budget.db --dataset visits
"""


_name = params.option("--name", "NAME", "The name of the series.", required=True)

series = params.InOrder("series", help=_HELP)


def _wanted(name: str, text: str) -> tuple[Wanted, ...]:
    """What is wanted, as totals,steps,window28."""
    from unacorda.over_time.bounds import check_wanted, window

    found: list[Any] = []
    for part in text.split(","):
        width = part.strip().removeprefix("window")
        found.append(window(int(width)) if width.isdigit() else part.strip())
    try:
        return check_wanted(found)
    except InvalidParameter:
        expected = "totals, steps, window28, or several of them with commas"
        raise InvalidParameter(name, text, expected=expected) from None


def _person(**limits: int | None) -> OverTime | None:
    """The contribution bound of a person, None where no option gives one."""
    from unacorda.over_time.bounds import OverTime

    return None if set(limits.values()) == {None} else OverTime(**limits)


_bound = params.gathered(
    "person",
    _person,
    params.option("--max-steps", params.COUNT, "A person counts in their first steps, for good."),
    params.option(
        "--rows-per-step max_rows_per_step",
        params.COUNT,
        "The most rows of a person that count in one step.",
    ),
    params.option(
        "--within",
        params.COUNT,
        "The length of a period, in steps: --max-steps counts anew in each.",
    ),
    params.option(
        "--rows-in-all max_rows",
        params.COUNT,
        "The most rows of a person that count in all steps together.",
    ),
)


_calendar = params.gathered(
    "calendar",
    dict,
    params.option("--by", "COLUMN", "When a row became visible: a column of dates.", required=True),
    params.option(
        "--every",
        params.one_of("hour", "day", "week", "month"),
        "The length of a step.",
        default="day",
    ),
    params.option("--start", "DAY", "The first step.", required=True),
    params.option("--steps", params.COUNT, "How many there will be; left out, there is no end."),
    params.option(
        "--wanted", params.Read(_wanted, "KINDS"), "Such as totals,window28.", default="totals"
    ),
)

_share = params.number(above=0, below=1)


_asked = asked("SELECT", price="--rho 0.5", max_rows=1, complete=True)
"""How many rows of a person count is said by --max-steps."""


@series.command("suggest")
@data("SELECT")
@_calendar
@params.option("--before", params.COUNT, "How many steps before --start are read.", required=True)
@params.option(
    "--share", _share, "The part of the price for the histogram.", default="0.1", show_default=True
)
@params.unit()
@params.price()
@params.facts
@params.keys
@account(notes=True, required=True)
@params.json_option
@_asked
def _suggest(*, asked: Asked, calendar: Mapping[str, Any], as_json: bool, **given: Any) -> None:
    r"""Find how to bind people in a series, by the rows before its start, and pay for it.

    A part of the price buys a private histogram of people by number of rows in the --before steps
    before --start. From it follow the noise and the dropped rows of every bound, if people go on as
    before; the one that errs least is printed, with what is left of the price for `series open`.

    Example:
      unacorda series suggest visits.csv --unit patient --by seen_on --start 2025-01-01 \
          --steps 365 --before 30 --rho 0.5 \
          --ledger sqlite:///budget.db --dataset visits --budget rho=1 \
          "SELECT COUNT(*) AS n FROM visits"
    """
    with asked.paid("series") as (session, budget):
        found = session.suggest_over_time(
            _question(asked, session), budget=budget, **calendar, **given
        )
        left = left_of(session.remaining, session.budget)
    bound = {"max_steps": found.person.max_steps, "within": found.person.within}
    if as_json:
        expected = [
            {"bound": str(one.person), "noise": one.noise, "dropped": one.dropped}
            for one in found.expected
        ]
        costs = {"spent": found.spent, "budget": found.budget}
        render.as_json({**bound, **costs, "expected": expected})
        return
    written = " ".join(
        f"--{name.replace('_', '-')} {number}" for name, number in bound.items() if number
    )
    render.lines(found)
    render.line(
        f"Open the series with {written}, for {found.budget}. "
        f"Spent: {found.spent}. {_named(asked)}: {left}."
    )


@series.command("open")
@data("SELECT")
@_name
@_calendar
@_bound
@params.option(
    "--kept", _share, "The share of the price for what share of rows the bound keeps, such as 0.05."
)
@params.flag("--explain", "Print errors and cost alone.")
@params.unit()
@params.price()
@params.facts
@params.keys
@account(notes=True, required=True)
@params.json_option
@_asked
def _open(
    *,
    asked: Asked,
    name: str,
    calendar: Mapping[str, Any],
    explain: bool,
    as_json: bool,
    **given: Any,
) -> None:
    r"""Open a series: its whole price is reserved, and nothing is read.

    SELECT holds COUNT, COUNT with FILTER, SUM with bounds and COUNT(DISTINCT person) of one table,
    by groups with public keys. A person is protected with all rows that they will ever have: of
    these the first --max-steps steps count, for good, or of each period of --within steps. You
    promise that rows are only added, and that neither --by, the date at which a row became visible,
    nor the id nor what WHERE reads ever changes.

    With --explain errors and cost are printed, and nothing is reserved.

    Example:
      unacorda series open visits.csv --unit patient --by seen_on --start 2025-01-01 \
          --steps 365 --max-steps 10 --name visits-daily --rho 0.5 \
          --ledger sqlite:///budget.db --dataset visits --budget rho=1 \
          "SELECT COUNT(*) AS n FROM visits"
    """
    given |= {"budget": asked.request, **calendar}
    with asked.free() as free:
        forecast = free.explain_over_time(_question(asked, free), **given)
    if not explain:
        with asked.paid("series") as (session, _):
            session.over_time(_question(asked, session), name=name, **given)
            left = left_of(session.remaining, session.budget)
    if as_json:
        errors = {
            answer: {kind: found.tolist() for kind, found in kinds.items()}
            for answer, kinds in forecast.errors.items()
        }
        render.as_json({"series": name, "cost": forecast.cost, "errors": errors})
        return
    render.lines(forecast)
    if not explain:
        render.line(f"Series {name!r} is open. {_named(asked)}: {left}.")


@series.command("answer")
@data()
@_name
@params.option("--until", "DAY", "The last step to answer; it has ended.", required=True)
@params.unit()
@account(notes=True, required=True)
@params.json_option
def _answer(
    *,
    data: DataTables | None,
    name: str,
    until: str,
    whose: dict[str, Any],
    account: PayingAccount,
    as_json: bool,
) -> None:
    r"""Answer all steps of a series up to a day, of the table as it is now. Costs nothing.

    What has been answered stands in the ledger and never changes.

    Example:
      unacorda series answer visits.csv --unit patient --name visits-daily \
          --until 2025-01-31 --ledger sqlite:///budget.db --dataset visits
    """
    demand(data is not None, "DATA", None, expected="the table as it is now")
    assert data is not None
    whose = data.whose(whose)
    unit = params.unit_of(**whose, max_rows=None if whose["row"] else 1)
    account.is_new()
    with (
        opened(account.ledger, must_exist=False) as book,
        data.session(unit=unit, **account.terms(book)) as session,
        render.working("Answering ..."),
    ):
        answers = account.below(session, book).over_time(name=name).answer_until(until)
    _print(answers, as_json=as_json)


@series.command("show")
@_name
@required_ledger
@params.option("--dataset", "NAME", "The account's name.", required=True)
@params.option("--picture", "FILE", "Draw totals, or what was wanted first, with their bands.")
@params.json_option
def _show(*, name: str, ledger: str, dataset: str, picture: str | None, as_json: bool) -> None:
    r"""Show the answers of a series so far. Reads the ledger alone.

    Example:
      unacorda series show --name visits-daily --ledger sqlite:///budget.db \
          --dataset visits --picture visits.svg
    """
    from unacorda.query.series.answers import read_answers

    with opened(ledger, must_exist=True) as book:
        answers = read_answers(book, dataset, name)
    if picture is not None:
        first = next(iter(answers.plan.query.aggregates))
        axes = answers.plot(answers.plan.wanted[0], first)
        with params.of_file(Path(picture)):
            axes.figure.savefig(Path(picture))
    _print(answers, as_json=as_json)


def _question(asked: Asked, session: Session) -> Query:
    """The question of a SELECT of which every step has all lines."""
    query, select = session.read_sql(asked.text, keys=asked.keys)
    plain = not (select.having or select.order_by or select.limit)
    expected = "a SELECT without HAVING, ORDER BY and LIMIT: every step has all lines"
    demand(plain, "SELECT", asked.text, expected=expected)
    return query


def _named(asked: Asked) -> str:
    assert asked.account is not None  # its options are required
    return f"Account {asked.account.name!r}"


def _print(answers: SeriesAnswers, *, as_json: bool) -> None:
    if as_json:
        length = answers.plan.calendar.every
        lines = [{**line, length: line[length].isoformat()} for line in answers.to_dicts()]
        kept = {} if answers.plan.kept is None else {"kept": answers.kept()}
        for line in kept.get("kept", ()):
            line[length] = line[length].isoformat()
        render.as_json({"series": answers.name, "answers": lines, **kept})
        return
    render.lines(repr(answers))
