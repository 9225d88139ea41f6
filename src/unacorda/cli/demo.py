"""`unacorda demo`: two private answers about public data, next to the exact ones."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unacorda.cli import params, render
from unacorda.cli.query import explained
from unacorda.display import estimate
from unacorda.privacy.guarantees import left_of

if TYPE_CHECKING:
    from unacorda.privacy.guarantees import Guarantee
    from unacorda.query.aggregates.base import Answer
    from unacorda.query.results.release import Release
    from unacorda.query.schema.table import Fact
    from unacorda.query.schema.units import Unit


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

_MOST_FLIGHTS = 100

_KEPT = f"""\
WITH aircraft AS (
  SELECT tailnum, least(1.0, {_MOST_FLIGHTS} / count(*)) AS share FROM flights GROUP BY tailnum)
SELECT carrier, round(sum(share)) FROM flights JOIN aircraft USING (tailnum) GROUP BY carrier"""

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
    "reveals whether any one person is in the table. Here are two questions about public data. "
    "Because these data are public, the exact answers can be shown next to the private ones. With "
    "your own data you would see only the private ones."
)

_AFTER_INCOME = (
    "In each pair the exact number is on the left and the private one on the right; ± is a 95% "
    "interval for the noise. Large groups are answered more accurately, because the noise is the "
    "same for every group. Incomes above 150,000 count as 150,000. This bound was set without "
    "looking at the data. It keeps the noise small and makes the means too low, most where incomes "
    "are high. The medians have no interval here; those of small groups are rough."
)

_AFTER_DELAYS = (
    "The noise hides a whole aircraft with all its flights. So at most "
    f"{_MOST_FLIGHTS} flights of one aircraft are used, drawn at random. 'kept' is the number that "
    "remains on average; the private count estimates this number. Airlines with many thousands "
    "of flights are answered well. Those with a few hundred are hidden, as they must be: SkyWest's "
    "32 flights could all be one aircraft's. Impossible values were corrected (no count below 0). "
    "This costs nothing, because it uses only the noisy numbers."
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
class _DemoQuery:
    """One question of the demonstration, over one bundled file.

    group: the column of the groups; names: what stands for each of its values; heads, forms: of
    the exact numbers; kept: counts the rows that bounding keeps on average, which the private
    count estimates where that is not all.
    """

    title: str
    intro: str
    after: str
    file: str
    sql: str
    unit: Unit
    facts: Mapping[str, Fact]
    group: str
    names: Mapping[str, str]
    heads: tuple[str, ...]
    forms: tuple[str, ...]
    budget: Guarantee
    request: Guarantee
    kept: str = ""


@params.verb(short_help="Show two private answers next to the exact ones.")
@params.json_option
def demo(*, as_json: bool) -> None:
    """Show two private answers next to the exact ones, on bundled public data.

    Incomes of 1,000 Californians, where a person has one row; and the delays of 336,776 flights,
    where an aircraft has up to 575 and is protected with all of them. Noise is fresh on each run.

    Examples:
      unacorda demo
      unacorda demo --json
    """
    if not as_json:
        render.raw(render.wrapped(_WELCOME, width=_WIDTH))
    found = [_shown(part, quiet=as_json) for part in _parts()]
    if as_json:
        render.as_json({"parts": found})
    else:
        render.raw(f"\n{_NEXT}")


def _parts() -> Iterator[_DemoQuery]:
    from unacorda.privacy.conversions.approximate import approx_dp_from_zcdp
    from unacorda.privacy.guarantees import ZCDP, PureDP
    from unacorda.query.schema.table import Bounds
    from unacorda.query.schema.units import Person

    yield _DemoQuery(
        title="1. Income by education: 1,000 Californians (US Census)",
        intro="Each person has one row. This dataset may spend epsilon = 2 in all; the question "
        "spends 1.",
        after=_AFTER_INCOME,
        file="pums.csv",
        sql=_INCOME,
        unit=Person("pid", max_rows=1),
        facts={"income": Bounds(0, 150_000), "educ": Bounds(1, 16)},
        group="education",
        names={school: school for school in _SCHOOLS},
        heads=("people", "mean income", "median"),
        forms=("", "z,.0f", "z,.0f"),
        budget=PureDP(2),
        request=PureDP(1),
    )
    implied = approx_dp_from_zcdp(0.5, delta=1e-6)
    yield _DemoQuery(
        title="2. Delay by airline: 336,776 flights from New York (US BTS, 2013)",
        intro="Here an aircraft is what is protected, with all its flights, up to 575. The budget "
        f"is rho = 0.5 of zero-concentrated DP, which implies epsilon = {implied:.2f} at delta = "
        "one in a million; the question spends 0.4.",
        after=_AFTER_DELAYS,
        file="flights.parquet",
        sql=_DELAYS,
        unit=Person("tailnum", max_rows=_MOST_FLIGHTS),
        facts={"arr_delay": Bounds(-60, 180)},
        group="carrier",
        names=_AIRLINES,
        heads=("flights", "kept", "mean", "median"),
        forms=(",", ",.0f", "z.1f", "z.0f"),
        budget=ZCDP("0.5"),
        request=ZCDP("0.4"),
        kept=_KEPT,
    )


def _shown(part: _DemoQuery, *, quiet: bool) -> dict[str, Any]:
    """Answer a question privately and exactly; print both, or give them in plain values."""
    from unacorda.query.session import Session

    table, keys = part.file.partition(".")[0], {part.group: list(part.names)}
    with (
        render.working("Asking ..."),
        as_file(files("unacorda.cli").joinpath("data", part.file)) as path,
        Session({table: path}, unit=part.unit, columns=part.facts, budget=part.budget) as session,
    ):
        query, _ = session.read_sql(part.sql, keys=keys)
        explanation = session.explain(query, budget=part.request)
        release = session.sql(part.sql, budget=part.request, keys=keys).clamped()
        exact, kept = (_exactly(sql, table, path) for sql in (part.sql, part.kept))
    if not quiet:
        render.raw()
        render.heading(part.title)
        _paragraph(part.intro)
        render.raw("\n" + "\n".join(f"  {text}" for text in part.sql.splitlines()))
        _paragraph("The plan, which is free to see and reads no data:")
        _paragraph(str(explanation))
        render.raw()
        _print_table(part, release, exact, kept)
        _paragraph(part.after)
        left = left_of(release.remaining, release.budget)
        render.raw(f"\nSpent {release.charge}; {left}.")
    return {
        "title": part.title,
        "sql": part.sql,
        "protects": str(part.unit),
        "budget": repr(part.budget),
        "explanation": explained(explanation, has_account=True),
        "exact": [
            {part.group: key, **dict(zip(release.answers, exact[key], strict=True))}
            for key in part.names
        ],
        "private": release.to_dicts(),
        "spent": repr(release.charge),
        "remaining": repr(release.remaining),
    }


def _paragraph(text: str) -> None:
    render.raw(f"\n{render.wrapped(text, width=_WIDTH)}")


def _exactly(sql: str, table: str, path: Path) -> dict[str, tuple[float, ...]]:
    """What a SELECT gives without privacy, by its first column."""
    import duckdb

    if not sql:
        return {}
    with duckdb.connect(":memory:") as connection:
        reader = connection.read_parquet if path.suffix == ".parquet" else connection.read_csv
        reader(str(path)).create(table)
        return {key: tuple(row) for key, *row in connection.execute(sql).fetchall()}


def _print_table(
    part: _DemoQuery,
    release: Release,
    exact: Mapping[str, tuple[float, ...]],
    kept: Mapping[str, tuple[float, ...]],
) -> None:
    """A line for each group: exact numbers, and next to each that has one the private."""
    alone = len(part.heads) - len(release.answers)  # exact numbers without a private one
    rows = []
    for place, (key, name) in enumerate(part.names.items()):
        count, *others = exact[key]
        numbers = [count, *kept.get(key, ()), *others]
        shown = [format(number, form) for number, form in zip(numbers, part.forms, strict=True)]
        private = [_cell(answer, place) for answer in release.answers.values()]
        pairs = itertools.chain(*zip(shown[alone:], private, strict=True))
        rows.append((name, *shown[:alone], *pairs))
    paired = [(head, "private") for head in part.heads[alone:]]
    heads = ("", *part.heads[:alone], *itertools.chain(*paired))
    render.print_table(heads, rows, left=1, repeated=1)


def _cell(answer: Answer, place: int) -> str:
    value, low, high = answer.values[place], answer.lower[place], answer.upper[place]
    if not answer.usable[place]:
        return "none"
    if low is None or high is None:
        return f"{value:z,.0f}"
    reach = max(value - low, high - value)  # the longer side, so that one number covers both
    return estimate(value, value - reach, value + reach)
