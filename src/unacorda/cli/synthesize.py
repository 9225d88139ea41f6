"""`unacorda synthesize`: a synthetic table with a measured error, and a report of it."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import datetime as dt
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unacorda.checks import demand
from unacorda.cli import params, render
from unacorda.cli.errors import ExitCode
from unacorda.cli.ledger import PayingAccount, account, accounts, opened
from unacorda.cli.missing import Missing
from unacorda.cli.output import check_target, output, stored_as
from unacorda.cli.tables import Asked, asked, assumed, data, print_free
from unacorda.display import counted
from unacorda.errors import InvalidParameter
from unacorda.privacy.guarantees import left_of

if TYPE_CHECKING:
    from unacorda.query.plan.query import Query
    from unacorda.query.plan.synthesis import Cells, Synthesis
    from unacorda.query.session import Session
    from unacorda.synthesis.release import SyntheticTable
    from unacorda.synthesis.rounds import RoundSummary, Watch


_CELLS = "COLUMN=EDGES, such as age=0,18,65,120, COLUMN=COUNT, or COLUMN=A,B,C for a text"
_SEARCHED = (
    "finding how many rows of a person to keep comes first, for a tenth of the budget. This is "
    "explained for {rows:,}, the most that can be found: with fewer there is less noise."
)


def _bins(texts: Sequence[str]) -> dict[str, Cells]:
    """Cells by column: how many, edges, or values of a text; InvalidParameter for others.

    Dates that increase are edges, of a text too.

    >>> _bins(["age=0,18,65", "cost=20", "county=A,B"])
    {'age': [0, 18, 65], 'cost': 20, 'county': ['A', 'B']}
    >>> _bins(["day=2024-01-01,2025-01-01"])["day"][1].year
    2025
    """
    found: dict[str, Cells] = {}
    for text in texts:
        column, listed = params.assignment("--bins", text, form=_CELLS)
        demand(column not in found, "--bins", text, expected="each column once")
        parts = params.listed_in(listed)
        demand(parts, "--bins", text, expected=_CELLS)
        numbers = [_number(part) for part in parts]
        if all(isinstance(one, str) for one in numbers):
            found[column] = _days(parts) or list(parts)
            continue
        edges = [one for one in numbers if not isinstance(one, str)]
        demand(len(edges) == len(parts), "--bins", text, expected=_CELLS)
        alone = edges[0] if len(edges) == 1 else edges
        demand(not isinstance(alone, float), "--bins", text, expected=_CELLS)
        found[column] = alone  # type: ignore[assignment]  # no float is left
    return found


def _days(parts: Sequence[str]) -> list[dt.date]:
    """Two dates or more that increase; none where there are others."""
    try:
        days = [dt.date.fromisoformat(part) for part in parts]
    except ValueError:
        return []
    return days if len(days) > 1 and days == sorted(set(days)) else []


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return text


@params.verb(short_help="Make synthetic rows with a measured error.")
@data()
@params.unit(max_rows="count")
@params.price()
@params.facts
@params.option(
    "--bins",
    "COLUMN=CELLS",
    "The cells of a column: edges of numbers or dates (age=0,18,65,120), how many to find between "
    "public bounds (cost=20), or the values of a text (county=A,B). May be repeated.",
    multiple=True,
)
@params.option(
    "--only",
    params.NAMES,
    "The columns, or conditions such as 'age > 65'. Otherwise all but those named as ids.",
)
@params.option("--skip", params.NAMES, "Columns to leave out.")
@params.option("--where", "CONDITION", "Rows that count, such as \"test = 'hdl'\".")
@params.option(
    "--workload",
    params.one_of("1", "2", "3"),
    "Tables of this many columns shall be close.",
    default="3",
    show_default=True,
)
@params.option(
    "--never",
    "CONDITION",
    "Rows that cannot exist, such as \"sex = 'M' AND pregnant\": there will be none. May be "
    "repeated.",
    multiple=True,
)
@params.option(
    "--rows", params.COUNT, "How many rows are drawn; otherwise about those of the table."
)
@params.flag("--explain", "Print cells and noise instead: reads no data and spends nothing.")
@params.option(
    "--assuming",
    "FILE",
    "With --explain: a public or synthetic table with the same columns, of which rows are "
    "synthesized to see the error.",
)
@account(notes=True)
@params.option("--report", params.FILE, "Write a page with errors and pictures to a new file.")
@output(
    "Write the rows to a new .csv or .parquet file, or to .json all that was released. If that "
    "fails, all of it is printed as JSON: what was paid for is not lost.",
    replaces="--output and --report",
)
@params.flag("--json as_json", "Print all that was released as JSON.")
@asked()
def synthesize(
    *,
    asked: Asked,
    explain: bool,
    assuming: str | None,
    report: Path | None,
    output: Path | None,
    overwrite: bool,
    as_json: bool,
    **stated: Any,
) -> int | None:
    r"""Make synthetic rows that look like those of a table of people, with a measured error.

    Tables of counts over few columns are close to the true ones. --report writes a page that shows
    how close. A synthetic row is not a person, and the rows of one person do not belong together.
    The cells of each column are public: the values that --columns lists, or --bins with the edges
    of numbers or dates, or the values of a text. A single number in --bins finds that many bins
    privately, between public bounds. The values of columns that --columns calls text are found
    privately, too, which needs a --delta. Both use a tenth of the budget. Numbers are spread evenly
    in their bin.

    Examples:
      unacorda synthesize visits.csv --unit patient --max-rows 3 --epsilon 1 \
          --bins age=0,18,40,65,120 --bins county=A,B,C \
          --output synthetic.parquet --report report.html
      unacorda synthesize people.parquet --row --rho 0.1 --bounds income=0:200000 \
          --bins income=20 --only income,sex --never "sex = 'M' AND pregnant" \
          --output people.csv
      unacorda synthesize visits.csv --unit patient --max-rows 3 --epsilon 1 \
          --bins age=0,18,40,65,120 --only age --explain

    The whole budget is spent, even if a run stops early. Without --output the rows are
    printed as CSV. Needs SciPy; .parquet pyarrow; pictures of the report the extra `plots`.
    """
    demand(explain or assuming is None, "--assuming", assuming, expected="--explain with it")
    if assuming is None and explain:
        assuming = asked.data.stand_in
    wanted = _Wanted(table=asked.data.name, bins=_bins(stated.pop("bins")), **stated)
    known = asked.unsearched
    with asked.free() as free:
        plan = wanted.plan(free, missing=asked.missing)
        forecast = free.explain(plan, budget=known.request, assuming=assumed(assuming))
    if explain:
        render.lines(forecast)
        if asked.account is not None:
            _print_left(asked.account, known)
        if asked.searches:
            render.notice(_SEARCHED.format(rows=known.unit.limits["max_rows"]))
        print_free(assuming)
        return None
    check_target(output, "table", overwrite=overwrite)
    check_target(report, "report", overwrite=overwrite)
    with asked.paid("table") as (session, spends):
        made = session.evaluate(wanted.plan(session, watch=_watch()), budget=spends)
        protects = str(session.table(wanted.table).unit)
        left = left_of(session.remaining, session.budget)
    if made.errors is not None:
        mean = made.errors.mean
        value, lower, upper = mean.percents
        value = value if mean.error > 0 else "0%"
        said = f"{len(made.codes):,} rows; on average {value} of them lie in another cell "
        said += f"({lower} to {upper})."
        render.notice(said)
    shown = [
        ("table", wanted.table),
        *([] if wanted.where is None else [("rows that count", wanted.where)]),
        ("protects", protects),
        ("spent", str(asked.request)),
        ("left", "no ledger keeps what is spent" if asked.account is None else left),
        *(("never", text) for text in wanted.never),
    ]
    spent = f"spent {asked.request}; {left}"
    return _kept(made, shown, output=output, report=report, spent=spent, as_json=as_json)


def _kept(
    made: SyntheticTable,
    stated: Sequence[tuple[str, str]],
    *,
    output: Path | None,
    report: Path | None,
    spent: str,
    as_json: bool,
) -> int | None:
    """Write rows and report, and print what has no file."""
    from unacorda.cli.output import encode_rows
    from unacorda.cli.synthesis_report import report_page

    failed = False
    if output is not None:
        ending = output.suffix.lower()
        failed = not stored_as(output, lambda: encode_rows(made, ending), spent=spent)
    if report is not None:
        failed |= not stored_as(report, lambda: report_page(made, stated).encode(), spent=spent)
    if as_json or failed:
        render.raw(made.to_json())
    elif output is None:
        render.raw(encode_rows(made, ".csv").decode().removesuffix("\n"))
    return ExitCode.FAILED if failed else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """What is asked for; nothing is opened.

    table: its name; bins: cells by column; only, skip: of its columns; where: of its rows.
    """

    table: str
    bins: Mapping[str, Cells]
    only: Sequence[str] | None
    skip: Sequence[str] | None
    where: str | None
    workload: str
    never: Sequence[str]
    rows: int | None

    def plan(
        self, session: Session, *, missing: Missing | None = None, watch: Watch | None = None
    ) -> Synthesis[Query]:
        """What the session is asked; missing: for which InvalidParameter names all that lacks."""
        start, columns = session.table(self.table), self._columns(session)
        start = start if self.where is None else start.where(self.where)
        unknown = [name for name in self.bins if name not in columns]
        demand(not unknown, "--bins", ", ".join(unknown), expected="synthesized columns")
        if missing is not None:
            self._check_cells(start, columns, missing)
        return start.synthesize(
            columns,
            bins=self.bins,
            workload=int(self.workload),
            never=self.never,
            rows=self.rows,
            watch=watch,
        )

    def _check_cells(self, start: Query, columns: Sequence[str], missing: Missing) -> None:
        """Raise InvalidParameter with all columns whose cells are not known."""
        for name in columns:
            bins = {name: self.bins[name]} if name in self.bins else {}
            try:
                start.synthesize([name], bins=bins)
            except InvalidParameter as fault:
                if bins:
                    raise _of_bins(fault, name) from None
                if not (fault.column == name or fault.argument == "bins"):
                    raise
                lacks = f"--bins {shlex.quote(f'{name}=CELLS')}"
                missing.faults.append(InvalidParameter(lacks, None, expected=lacks))
        if missing.faults:
            raise missing.error()

    def _columns(self, session: Session) -> list[str]:
        from unacorda.query.describe import choose_columns

        start = session.table(self.table)
        if not self.only:
            return choose_columns(start, session.unit, skip=self.skip or ())[0]
        person = {name.casefold() for name in session.unit.id}
        found = []
        for name in self.only:
            expected = "columns that do not name a person"
            demand(name.casefold() not in person, "--only", name, expected=expected)
            known = name in start.scope
            found.append(start.scope.resolve(name, argument="--only") if known else name)
        left = {name.casefold() for name in self.skip or ()}
        return [name for name in found if name.casefold() not in left]


def _of_bins(fault: InvalidParameter, name: str) -> InvalidParameter:
    """What is wrong with the cells of a column, as the one who wrote them reads it."""
    if fault.argument not in {"bins", "edges"}:
        return fault
    expected = f"edges that increase, such as {name}=0,18,65,120; a count alone needs public "
    return InvalidParameter("--bins", name, expected=f"{expected}bounds, --bounds {name}=LOW:HIGH")


def _print_left(account: PayingAccount, known: Asked) -> None:
    """What is left of an account that there is; none is opened."""
    if account.dataset not in accounts(account.ledger):
        return
    with (
        opened(account.ledger, must_exist=True) as book,
        known.session(**account.terms(book)) as session,
    ):
        below = account.below(session, book, opens=False)
        left = left_of(below.remaining, below.budget)
    render.line(f"Account {account.name!r}: {left}.")


def _watch() -> Watch:
    """Print a line after each round: what it did is released."""
    done = 0

    def watched(summary: RoundSummary) -> None:
        nonlocal done
        done += 1
        tables = counted(len(summary.tables), "table")
        said = f"round {done}: {tables} measured, noise {summary.deviation:.3g} a cell, "
        render.notice(f"{said}{max(summary.left, 0.0):.0%} of the budget for tables left")

    return watched
