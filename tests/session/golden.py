"""What questions answered and what was refused before, kept in files.

Of questions the digest, the plan, the event, the charge and the released table under the noise of a
seed; of refusals the class and the argument that is named.

`python -m tests.session.golden` writes the files anew, which is done alone, in a commit that says
what has changed and why.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd
from tests.session import refusals

import unacorda
from unacorda import GDP, ZCDP, ApproxDP, PureDP
from unacorda.errors import UnacordaError
from unacorda.privacy.guarantees import Guarantee

__all__ = ["ANSWERED", "QUESTIONS", "REFUSALS", "REFUSED", "opened", "refusal", "told"]

_DATA = Path(__file__).parents[1] / "data"
ANSWERED, REFUSED = _DATA / "golden_questions.json", _DATA / "golden_refusals.json"

_ROWS = range(240)
PEOPLE = pd.DataFrame(
    {
        "who": [row * 7 % 150 for row in _ROWS],
        "county": [["ash", "birch", "Ceder", None][row * row % 4] for row in _ROWS],
        "age": pd.array([None if row % 17 == 3 else 18 + row * 11 % 70 for row in _ROWS], "Int64"),
        "income": [float("nan") if row % 19 == 5 else row * 37 % 101 * 1.5 - 5 for row in _ROWS],
        "sick": [row % 3 == 0 for row in _ROWS],
        "day": [pd.Timestamp("2024-01-01") + pd.Timedelta(days=row % 90) for row in _ROWS],
        "tags": [["a;b", "b", "", "a;b;c;a"][row % 4] for row in _ROWS],
    }
)
VISITS = pd.DataFrame(
    {"who": [row % 150 for row in range(300)], "cost": [row * 13 % 40 for row in range(300)]}
)
TOWNS = pd.DataFrame({"county": ["ash", "birch", "Ceder"], "state": ["N", "N", "S"]})
TABLES = {"people": PEOPLE, "visits": VISITS}

AGE, INCOME = (0, 100), (-10, 150)
COUNTIES = ["ash", "birch", "Ceder"]
COLUMNS = {
    "age": unacorda.Bounds(*AGE),
    "county": unacorda.Categories(COUNTIES),
    "cost": unacorda.Bounds(0, 50),
}

Ask = Callable[[Any], Any]


def _agg(**aggregates: Any) -> Ask:
    return lambda people: people.agg(**aggregates)


def _by_county(**aggregates: Any) -> Ask:
    return lambda people: people.group_by("county").agg(**aggregates)


BUILT: Mapping[str, Ask] = {
    "count": _agg(n=unacorda.count()),
    "count of a column": _agg(n=unacorda.count("age")),
    "people": _agg(n=unacorda.count_people()),
    "people with a value": _by_county(n=unacorda.count_people("income")),
    "count if": _by_county(n=unacorda.count_if("age > 40 AND sick")),
    "sum": _by_county(s=unacorda.sum("income", *INCOME)),
    "sum without bounds": _agg(s=unacorda.sum("income")),
    "mean": _by_county(m=unacorda.mean("age")),
    "two means": _by_county(m=unacorda.mean("age"), i=unacorda.mean("income", *INCOME)),
    "weights": _agg(m=unacorda.mean("age", weight=3), n=unacorda.count(weight=1)),
    "variance": _agg(v=unacorda.variance("age")),
    "deviation": _by_county(v=unacorda.stdev("income", *INCOME, ddof=0)),
    "covariance": _agg(c=unacorda.covariance("age", "income", AGE, INCOME)),
    "correlation": _agg(c=unacorda.correlation("age", "income", AGE, INCOME)),
    "ratio": _agg(r=unacorda.ratio("income", "age", INCOME, AGE)),
    "weighted mean": _agg(w=unacorda.weighted_mean("income", "age", INCOME, AGE)),
    "proportion": _by_county(p=unacorda.proportion("sick")),
    "vector": _agg(v=unacorda.vector_sum(["age", "income"], norm=100)),
    "median": _by_county(m=unacorda.median("age")),
    "quantile": _agg(q=unacorda.quantile("income", 0.9, *INCOME)),
    "quantile with an interval": _agg(q=unacorda.median("age", interval=0.3)),
    "quantiles": _agg(q=unacorda.quantiles("age", [0.1, 0.5, 0.9])),
    "interquartile range": _agg(q=unacorda.iqr("age")),
    "least and most": _agg(low=unacorda.min("age"), high=unacorda.max("age")),
    "histogram": _agg(h=unacorda.histogram("age", edges=[0, 20, 40, 60, 80, 100])),
    "histogram of equal bins": _agg(h=unacorda.histogram("age", bins=5)),
    "distinct": _by_county(d=unacorda.count_distinct("age")),
    "top": _agg(t=unacorda.top("county", 2)),
    "bounds": _agg(b=unacorda.find_bounds("income")),
    "where": lambda people: people.where("age >= 30 OR sick").agg(n=unacorda.count()),
    "where twice": lambda people: (
        people.where("age >= 30").where("day < '2024-02-15'").agg(n=unacorda.count())
    ),
    "derive": lambda people: (
        people.derive(decade="FLOOR(age / 10) * 10", both="COALESCE(income, 0) + age")
        .group_by("decade", keys=range(0, 100, 10))
        .agg(s=unacorda.sum("both", 0, 250))
    ),
    "months": lambda people: (
        people.derive(month="DATE_TRUNC('month', CAST(day AS DATE))")
        .group_by("month", keys=unacorda.dates("2024-01-01", "2024-03-31", every="month"))
        .agg(n=unacorda.count())
    ),
    "private keys": lambda people: people.group_by("county", keys=unacorda.private_keys()).agg(
        n=unacorda.count()
    ),
    "given and private keys": lambda people: people.group_by(
        "sick", "county", keys={"sick": [True, False], "county": unacorda.private_keys()}
    ).agg(n=unacorda.count(), m=unacorda.mean("age")),
    "a product of keys": lambda people: people.group_by(
        "county", "sick", keys={"sick": [True, False]}
    ).agg(n=unacorda.count()),
    "rollup": lambda people: people.group_by(
        "county", "sick", keys={"sick": [True, False]}, margins="rollup"
    ).agg(n=unacorda.count(), s=unacorda.sum("age")),
    "cube": lambda people: people.group_by(
        "county", "sick", keys={"sick": [True, False]}, margins="cube"
    ).agg(n=unacorda.count()),
    "explode": lambda people: (
        people.explode("tags", separator=";", most=3)
        .group_by("tags", keys=["a", "b", "c"])
        .agg(n=unacorda.count(), p=unacorda.count_people())
    ),
    "public join": lambda people: (
        people.join("towns", on="county").group_by("state", keys=["N", "S"]).agg(n=unacorda.count())
    ),
}

SELECTS: Mapping[str, str] = {
    "SELECT count": "SELECT COUNT(*) AS n FROM people",
    "SELECT count if": "SELECT COUNT(*) FILTER (WHERE age > 40) AS n FROM people",
    "SELECT people": "SELECT COUNT(DISTINCT who) AS n FROM people WHERE sick",
    "SELECT distinct": "SELECT COUNT(DISTINCT age) AS n FROM people",
    "SELECT sum": "SELECT county, SUM(age) AS s FROM people GROUP BY county",
    "SELECT clamped": "SELECT SUM(LEAST(GREATEST(income, 0), 100)) AS s FROM people",
    "SELECT mean": "SELECT county, AVG(age) AS m, COUNT(*) AS n FROM people GROUP BY county",
    "SELECT median": "SELECT MEDIAN(age) AS m FROM people WHERE county = 'ash'",
    "SELECT quantile": "SELECT QUANTILE_CONT(age, 0.25) AS q FROM people",
    "SELECT quantiles": "SELECT QUANTILE_CONT(age, [0.25, 0.75]) AS q FROM people",
    "SELECT least": "SELECT MIN(age) AS low, MAX(age) AS high FROM people",
    "SELECT spread": "SELECT STDDEV(age) AS s, VAR_POP(age) AS v FROM people",
    "SELECT correlation": "SELECT CORR(age, cost) AS c FROM people JOIN visits USING (who)",
    "SELECT where": "SELECT COUNT(*) n FROM people WHERE county IN ('ash', 'birch') AND NOT sick",
    "SELECT case": "SELECT SUM(CASE WHEN sick THEN age ELSE 0 END) AS s FROM people",
    "SELECT order": "SELECT county, COUNT(*) AS n FROM people GROUP BY county ORDER BY n DESC",
    "SELECT limit": "SELECT county, COUNT(*) n FROM people GROUP BY 1 ORDER BY n LIMIT 2",
    "SELECT having": "SELECT county, COUNT(*) AS n FROM people GROUP BY county HAVING n > 50",
    "SELECT computed": "SELECT SUM(age) / COUNT(*) AS m FROM people",
    "SELECT boolean": "SELECT sick, COUNT(*) AS n FROM people GROUP BY sick",
    "SELECT rollup": "SELECT county, sick, COUNT(*) n FROM people GROUP BY ROLLUP (county, sick)",
    "SELECT inner": "SELECT AVG(a) AS m FROM (SELECT age AS a FROM people WHERE sick) AS t",
    "SELECT with": "WITH t AS (SELECT age * 2 AS a FROM people) SELECT MEDIAN(a) AS m FROM t",
    "SELECT join": "SELECT state, COUNT(*) n FROM people JOIN towns USING (county) GROUP BY state",
    "SELECT private join": "SELECT SUM(cost) AS s FROM people JOIN visits USING (who)",
    "SELECT histogram": "SELECT HISTOGRAM(age, [20, 40, 60]) AS h FROM people",
}
KEYS: Mapping[str, Any] = {
    "SELECT boolean": {"sick": [True, False]},
    "SELECT rollup": {"sick": [True, False]},
    "SELECT join": {"state": ["N", "S"]},
}
QUESTIONS = [*BUILT, *SELECTS]

BUDGETS: tuple[tuple[Guarantee, Guarantee], ...] = (
    (ApproxDP(20, "1e-2"), ApproxDP(2, "1e-5")),
    (PureDP(20), PureDP(2)),
    (GDP(20, delta="1e-2"), GDP(1, delta="1e-5")),
    (ZCDP(20), ZCDP("1/2")),
)
"""Accounts, and what a question may cost; each question takes those of its place in turn."""


def opened(account: Guarantee, *, place: int = 0, **options: Any) -> unacorda.Session:
    """A session over the tables; every fifth one limits people by their groups.

    No limit cuts: which rows it would keep depends on the engine's hash, and so on its version.
    """
    people = (
        unacorda.Person("who", max_rows=8)
        if place % 5
        else unacorda.Person("who", max_groups=4, max_rows_per_group=8)
    )
    given: dict[str, Any] = {
        "tables": TABLES,
        "unit": people,
        "budget": account,
        "columns": COLUMNS,
        "public": {"towns": TOWNS},
        "bits": unacorda.SeededBits(place),
    } | options
    return unacorda.Session(given.pop("tables"), **given)


def told(name: str) -> dict[str, Any]:
    """Everything that a question says, with the noise of a seed."""
    place = QUESTIONS.index(name)
    account, budget = BUDGETS[0 if "private keys" in name else place % len(BUDGETS)]
    with opened(account, place=place) as session:
        if name in BUILT:
            release = session.evaluate(BUILT[name](session.table("people")), budget=budget)
        else:
            release = session.sql(SELECTS[name], budget=budget, keys=KEYS.get(name))
        whole = json.loads(release.to_json())
        kept = ("format", "digest", "rows", "request", "spent", "event", "query", "computed")
        return {part: whole[part] for part in kept} | {"debited": _exact(session.spent)}


def refusal(name: str, *, sessions: Sequence[unacorda.Session]) -> list[str | None]:
    """The class of what is raised, and the argument that it names.

    sessions: of an account of pure and one of approximate differential privacy.
    """
    try:
        REFUSALS[name](sessions[name in refusals.MODELS])
    except UnacordaError as error:
        return [type(error).__name__, getattr(error, "argument", None)]
    raise AssertionError(name + " is not refused")


def _exact(spent: Guarantee) -> list[str]:
    return [str(Fraction(part)) for part in spent.additive]


def _selected(text: str) -> Callable[[Any], Any]:
    return lambda session: session.sql(text, budget=PureDP(1))


def _opened(options: Callable[[], dict[str, Any]]) -> Callable[[Any], Any]:
    return lambda _session: opened(**{"account": PureDP(1), **options()}).close()


def _fitted(make: Callable[[], Any], options: dict[str, Any]) -> Callable[[Any], Any]:
    given = {"features": ["age"], "target": "income", **options}
    return lambda session: session.fit(make(), "people", **given)


REFUSALS: Mapping[str, Callable[[Any], Any]] = {
    **refusals.BUILT,
    **{text: _selected(text) for text in refusals.SELECTS},
    **{name: _opened(options) for name, options in refusals.SESSIONS.items()},
    **{name: _fitted(*model) for name, model in refusals.MODELS.items()},
}


if __name__ == "__main__":
    answered = {name: told(name) for name in QUESTIONS}
    with opened(PureDP(20)) as pure, opened(ApproxDP(20, "1e-2")) as approximate:
        refused = {name: refusal(name, sessions=(pure, approximate)) for name in REFUSALS}
    for path, found in ((ANSWERED, answered), (REFUSED, refused)):
        path.write_text(json.dumps(found, indent=1) + "\n")
