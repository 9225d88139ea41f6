"""`unacorda demo`: two private answers about public data, next to the exact ones."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import as_file, files
from typing import TYPE_CHECKING, Any

import click

from unacorda.cli import params, render
from unacorda.cli.errors import EXIT_CODES
from unacorda.cli.query import explained

if TYPE_CHECKING:
    from unacorda.privacy.guarantees import Guarantee
    from unacorda.query.results.explanation import Explanation
    from unacorda.query.results.release import Release
    from unacorda.query.schema.facts import Fact
    from unacorda.query.schema.units import Unit

__all__ = ["demo"]

HELP = f"""Show two private answers next to the exact ones, on bundled public data.

Incomes of 1,000 Californians, where a person has one row; and the delays of 336,776 flights, where
an aircraft has up to 575 and is protected with all of them. Noise is fresh on each run.

\b
Examples:
  unacorda demo
  unacorda demo --json

{EXIT_CODES}"""

_WIDTH = 79

_INCOME = """\
SELECT CASE WHEN educ < 9  THEN 'no diploma'
            WHEN educ < 10 THEN 'high school'
            WHEN educ < 13 THEN 'some college'
            WHEN educ < 14 THEN 'bachelor'
            ELSE 'master or more' END AS education,
       COUNT(*) AS people, AVG(income) AS mean_income,
       MEDIAN(income) AS median_income
FROM pums GROUP BY education"""

_DELAYS = """\
SELECT carrier, COUNT(*) AS flights, AVG(arr_delay) AS mean_delay,
       MEDIAN(arr_delay) AS median_delay
FROM flights GROUP BY carrier"""

_KEPT = """\
WITH aircraft AS (
  SELECT tailnum, least(1.0, {most} / count(*)) AS share FROM flights GROUP BY tailnum)
SELECT carrier, round(sum(share)) FROM flights JOIN aircraft USING (tailnum) GROUP BY carrier"""

_MOST_FLIGHTS = 100

_SCHOOLS = ("no diploma", "high school", "some college", "bachelor", "master or more")

_AIRLINES = {
    "9E": "Endeavor",
    "AA": "American",
    "AS": "Alaska",
    "B6": "JetBlue",
    "DL": "Delta",
    "EV": "ExpressJet",
    "F9": "Frontier",
    "FL": "AirTran",
    "HA": "Hawaiian",
    "MQ": "Envoy",
    "OO": "SkyWest",
    "UA": "United",
    "US": "US Airways",
    "VX": "Virgin",
    "WN": "Southwest",
    "YV": "Mesa",
}

_WELCOME = (
    "unacorda answers questions about tables of people with calibrated noise, so that no answer "
    "tells whether any one person is in the table. Here are two, about data that anyone may see: "
    "only therefore can the exact answers stand next to the private ones. With your own data you "
    "would see the private ones alone."
)

_AFTER_INCOME = (
    "In each pair the exact number is on the left and the private one on the right; ± is 95% "
    "probability, for the noise. Larger groups are answered better, because the noise has the "
    "same size whatever the group's. Incomes above 150,000 counted as 150,000, a limit set without "
    "looking at the data: it keeps the noise small and pulls the means down, most where incomes "
    "are high. The medians have no margin here; of small groups they are rough."
)

_AFTER_DELAYS = (
    "The noise hides a whole aircraft with all its flights. To make that possible at most "
    f"{_MOST_FLIGHTS} flights of one aircraft are used, drawn at random: 'kept' is how many that "
    "leaves on average, and is what the private count estimates. Airlines with many thousands "
    "are answered well. Those with a few hundred are hidden, as they have to be: SkyWest's 32 "
    "flights could as well be one aircraft's. Impossible values were corrected (no count below 0), "
    "which costs nothing, since it looks at the noisy numbers alone."
)

_NEXT = """\
What to try next
  Look before you ask; it is free and reads no data:
    unacorda query people.csv --unit person_id --max-rows 10 --epsilon 1 \\
        --explain "SELECT COUNT(*) AS n FROM people"
  Ask about your own file, with a ledger that remembers what was spent:
    unacorda query people.csv --unit person_id --max-rows 10 --epsilon 0.5 \\
        --bounds age=0:120 --keys county=A,B,C \\
        --ledger sqlite:///budget.db --dataset people --budget epsilon=2 \\
        "SELECT county, AVG(age) AS mean_age FROM people GROUP BY county"
    unacorda ledger show --ledger sqlite:///budget.db
  All options: unacorda query --help"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _DemoPart:
    """One question of the demonstration, over one bundled file."""

    title: str
    file: str
    table: str
    sql: str
    unit: Unit
    facts: Mapping[str, Fact]
    keys: Mapping[str, list[str]]
    budget: Guarantee
    request: Guarantee
    intro: str
    after: str
    table_of: Callable[[_Answered], render.TextTable]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answered:
    """A question with its answers. exact, kept: by the value of the group column."""

    part: _DemoPart
    explanation: Explanation
    release: Release
    exact: Mapping[str, tuple[float, ...]]
    kept: Mapping[str, float]


@click.command(help=HELP, short_help="Show two private answers next to the exact ones.")
@params.json_option
def demo(*, as_json: bool) -> None:
    """The verb; its help is `HELP`."""
    if not as_json:
        render.line(render.wrapped(_WELCOME, width=_WIDTH))
    found = []
    for part in (_income(), _delays()):
        with render.working("Asking ..."):
            answered = _ask(part)
        found.append(_plain(answered))
        if not as_json:
            _print(answered)
    if as_json:
        render.as_json({"parts": found})
    else:
        render.line(f"\n{_NEXT}")


def _income() -> _DemoPart:
    from unacorda.privacy.guarantees import PureDP
    from unacorda.query.schema.facts import Bounds
    from unacorda.query.schema.units import Person

    return _DemoPart(
        title="1. Income by education: 1,000 Californians (US Census)",
        file="pums.csv",
        table="pums",
        sql=_INCOME,
        unit=Person("pid", max_rows=1),
        facts={"income": Bounds(0, 150_000), "educ": Bounds(1, 16)},
        keys={"education": list(_SCHOOLS)},
        budget=PureDP(2),
        request=PureDP(1),
        intro="Each person has one row. This data set may spend epsilon = 2 in all; the question "
        "spends 1.",
        after=_AFTER_INCOME,
        table_of=_income_table,
    )


def _delays() -> _DemoPart:
    from unacorda.privacy.conversions.approximate import approx_dp_from_zcdp
    from unacorda.privacy.guarantees import ZCDP
    from unacorda.query.schema.facts import Bounds
    from unacorda.query.schema.units import Person

    implied = approx_dp_from_zcdp(0.5, delta=1e-6)
    return _DemoPart(
        title="2. Delay by airline: 336,776 flights from New York (US BTS, 2013)",
        file="flights.parquet",
        table="flights",
        sql=_DELAYS,
        unit=Person("tailnum", max_rows=_MOST_FLIGHTS),
        facts={"arr_delay": Bounds(-60, 180)},
        keys={"carrier": list(_AIRLINES)},
        budget=ZCDP("0.5"),
        request=ZCDP("0.4"),
        intro="Here an aircraft is what is protected, with all its flights, up to 575. The budget "
        f"is rho = 0.5 of zero-concentrated DP, which implies epsilon = {implied:.2f} at delta = "
        "one in a million; the question spends 0.4.",
        after=_AFTER_DELAYS,
        table_of=_delay_table,
    )


def _ask(part: _DemoPart) -> _Answered:
    """The question explained, answered privately, and answered exactly."""
    from unacorda.query.session import Session

    with as_file(files("unacorda.cli").joinpath("data", part.file)) as path:
        with Session(
            {part.table: path}, unit=part.unit, columns=part.facts, budget=part.budget
        ) as session:
            query, _ = session.read_sql(part.sql, keys=part.keys)
            explanation = session.explain(query, budget=part.request)
            release = session.sql(part.sql, budget=part.request, keys=part.keys)
        exact, kept = _exactly(part, str(path))
    return _Answered(
        part=part, explanation=explanation, release=release.clamped(), exact=exact, kept=kept
    )


def _exactly(part: _DemoPart, path: str) -> tuple[dict[str, tuple[float, ...]], dict[str, float]]:
    """The same SELECT without privacy, and how many rows bounding keeps on average."""
    import duckdb

    with duckdb.connect(":memory:") as connection:
        reader = connection.read_parquet if path.endswith(".parquet") else connection.read_csv
        reader(path).create(part.table)
        exact = {row[0]: row[1:] for row in connection.execute(part.sql).fetchall()}
        if part.table != "flights":
            return exact, {}
        counted = connection.execute(_KEPT.format(most=_MOST_FLIGHTS)).fetchall()
        return exact, dict(counted)


def _income_table(answered: _Answered) -> render.TextTable:
    heads = ("", "people", "private", "mean income", "private", "median", "private")
    rows = []
    for place, school in enumerate(_SCHOOLS):
        people, mean, median = answered.exact[school]
        exact = (f"{people}", f"{mean:z,.0f}", f"{median:z,.0f}")
        rows.append((school, *_pairs(exact, answered.release, place)))
    return render.TextTable(heads=heads, rows=tuple(rows), left=1, repeated=1)


def _delay_table(answered: _Answered) -> render.TextTable:
    heads = ("", "flights", "kept", "private", "mean", "private", "median", "private")
    rows = []
    for place, (code, airline) in enumerate(_AIRLINES.items()):
        flights, mean, median = answered.exact[code]
        exact = (f"{answered.kept[code]:,.0f}", f"{mean:z.1f}", f"{median:z.0f}")
        rows.append((airline, f"{flights:,}", *_pairs(exact, answered.release, place)))
    return render.TextTable(heads=heads, rows=tuple(rows), left=1, repeated=1)


def _pairs(exact: tuple[str, ...], release: Release, place: int) -> list[str]:
    """Each exact text followed by the private one."""
    cells = []
    for text, name in zip(exact, release.answers, strict=True):
        cells += [text, _cell(release, name, place)]
    return cells


def _cell(release: Release, name: str, place: int) -> str:
    answer = release.answers[name]
    value, low, high = answer.values[place], answer.lower[place], answer.upper[place]
    if low is None or high is None:
        return f"{value:z,.0f}"
    reach = max(value - low, high - value)  # the longer side, so that one number covers both
    return render.estimate(value, value - reach, value + reach)


def _print(answered: _Answered) -> None:
    part = answered.part
    render.line()
    render.heading(part.title)
    render.line()
    render.line(render.wrapped(part.intro, width=_WIDTH))
    render.line()
    render.line("\n".join(f"  {text}" for text in part.sql.splitlines()))
    render.line()
    render.line(render.wrapped("The plan, which is free to see and reads no data:", width=_WIDTH))
    render.line()
    render.line(render.wrapped(str(answered.explanation), width=_WIDTH))
    render.line()
    render.print_table(part.table_of(answered))
    render.line()
    render.line(render.wrapped(part.after, width=_WIDTH))
    render.line()
    render.line(f"Spent {answered.release.charge}, left {answered.release.remaining}.")


def _plain(answered: _Answered) -> dict[str, Any]:
    part, release = answered.part, answered.release
    names = list(release.answers)
    (group,) = part.keys
    return {
        "title": part.title,
        "sql": part.sql,
        "protects": str(part.unit),
        "budget": repr(part.budget),
        "explanation": explained(answered.explanation, has_account=True),
        "exact": [
            {group: key, **dict(zip(names, answered.exact[key], strict=True))}
            for key in part.keys[group]
        ],
        "private": release.to_dicts(),
        "spent": repr(release.charge),
        "remaining": repr(release.remaining),
    }
