"""Generated questions, and what a package answers to them under the noise of a seed.

    python -m tests.session.generated 0 2000

prints a line for each of these seeds: plan, event, charge and released table, or the refusal.
`scripts/compare` runs it with this package and with another commit's, and prints what differs. Uses
the public face alone.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

from tests.session.golden import COLUMNS, TABLES, TOWNS

import unacorda
from unacorda.errors import UnacordaError

__all__ = ["answers"]

Made = Callable[[random.Random], Any]

CONDITIONS = (
    "age >= {n}",
    "income < {n}",
    "sick",
    "NOT sick OR age < {n}",
    "county IN ('ash', 'birch')",
    "county IS NULL",
    "income IS NOT NULL AND age BETWEEN {n} AND {m}",
    "CAST(day AS DATE) < DATE '2024-02-15'",
    "LENGTH(county) > 3",
    "age % 7 = {d}",
    "COALESCE(income, {n}) * 2 > age",
    "county LIKE '%e%'",
)
NUMBERS = (
    "age",
    "income",
    "age + income",
    "income * 2 - {n}",
    "ABS(income)",
    "CASE WHEN sick THEN age END",
)
BUDGETS = (
    unacorda.PureDP(1),
    unacorda.PureDP(100),
    unacorda.ApproxDP(1, 1e-6),
    unacorda.ZCDP(0.5),
    unacorda.GDP(1),
    unacorda.GDP(20),
)
UNITS = (
    unacorda.Person("who", max_rows=1),
    unacorda.Person("who", max_rows=3),
    unacorda.Person("who", max_groups=2, max_rows_per_group=2),
    unacorda.Person("who", max_rows=4, neighbors=unacorda.ReplaceOne),
    unacorda.Row(),
)


OF_PEOPLE: Any = {name: fact for name, fact in COLUMNS.items() if name != "cost"}


def _filled(text: str, draw: random.Random) -> str:
    return text.format(n=draw.randint(0, 90), m=draw.randint(30, 100), d=draw.randint(0, 6))


def _number(draw: random.Random) -> str:
    return _filled(draw.choice(NUMBERS), draw)


def _ends(draw: random.Random) -> tuple[float, float]:
    lower = draw.choice([0, -10, 0.5, 18])
    return lower, lower + draw.choice([1, 50, 132.5, 1000])


AGGREGATES: tuple[Made, ...] = (
    lambda draw: unacorda.count(),
    lambda draw: unacorda.count(_number(draw)),
    lambda draw: unacorda.count_people(),
    lambda draw: unacorda.count_people(_number(draw)),
    lambda draw: unacorda.count_if(_filled(draw.choice(CONDITIONS), draw)),
    lambda draw: unacorda.proportion(_filled(draw.choice(CONDITIONS), draw)),
    lambda draw: unacorda.sum(_number(draw), *_ends(draw)),
    lambda draw: unacorda.mean(_number(draw), *_ends(draw)),
    lambda draw: unacorda.variance(_number(draw), *_ends(draw)),
    lambda draw: unacorda.stdev(_number(draw), *_ends(draw)),
    lambda draw: unacorda.covariance("age", _number(draw), _ends(draw), _ends(draw)),
    lambda draw: unacorda.correlation("age", "income", _ends(draw), _ends(draw)),
    lambda draw: unacorda.ratio("income", "age", _ends(draw), (0, 100)),
    lambda draw: unacorda.weighted_mean("income", "age", _ends(draw), (0, 100)),
    lambda draw: unacorda.vector_sum(["age", "income"], norm=draw.randint(1, 200)),
    lambda draw: unacorda.median(_number(draw), *_ends(draw)),
    lambda draw: unacorda.quantile(_number(draw), draw.choice([0.1, 0.25, 0.9]), *_ends(draw)),
    lambda draw: unacorda.min(_number(draw), *_ends(draw)),
    lambda draw: unacorda.max(_number(draw), *_ends(draw)),
    lambda draw: unacorda.count_distinct("age"),
)
ALONE: tuple[Made, ...] = (
    lambda draw: unacorda.quantiles(_number(draw), [0.25, 0.5, 0.75], *_ends(draw)),
    lambda draw: unacorda.iqr(_number(draw), *_ends(draw)),
    lambda draw: unacorda.histogram("age", edges=sorted(draw.sample(range(100), 5))),
    lambda draw: unacorda.top("county", 2),
    lambda draw: unacorda.sum("income"),
)


def _rows(session: unacorda.Session, draw: random.Random) -> Any:
    query = session.table("people")
    for _ in range(draw.choice([0, 0, 1, 1, 2])):
        query = query.where(_filled(draw.choice(CONDITIONS), draw))
    return query


def _keys(query: Any, draw: random.Random) -> Any:
    match draw.choice(["county", "sick", "decade", "state", "tags", "", ""]):
        case "county":
            return query.group_by("county")
        case "sick":
            return query.group_by("sick", keys={"sick": [True, False]})
        case "decade":
            return query.derive(decade="FLOOR(age / 10) * 10").group_by(
                "decade", keys=range(0, 100, 10)
            )
        case "state":
            return query.join("towns", on="county").group_by("state", keys=["N", "S"])
        case "tags":
            return query.explode("tags", separator=";", most=2).group_by("tags", keys=["a", "c"])
        case _:
            return query


def _question(session: unacorda.Session, draw: random.Random) -> Any:
    query = _keys(_rows(session, draw), draw)
    if draw.random() < 0.15:
        return query.agg(one=draw.choice(ALONE)(draw))
    count = draw.choice([1, 1, 2, 3])
    return query.agg(**{f"a{place}": draw.choice(AGGREGATES)(draw) for place in range(count)})


def _select(draw: random.Random) -> str:
    listed = [
        "COUNT(*) AS n",
        "COUNT(DISTINCT who) AS p",
        f"SUM(GREATEST(0, LEAST({_number(draw)}, 100))) AS s",
        "AVG(age) AS m",
        f"COUNT(*) FILTER (WHERE {_filled(draw.choice(CONDITIONS), draw)}) AS f",
        "MEDIAN(age) AS q",
    ]
    items = draw.sample(listed, draw.randint(1, 3))
    where = f" WHERE {_filled(draw.choice(CONDITIONS), draw)}" if draw.random() < 0.6 else ""
    if draw.random() < 0.5:
        return f"SELECT {', '.join(items)} FROM people{where}"
    order = draw.choice(["", " ORDER BY county DESC", " ORDER BY 2 LIMIT 2"])
    return f"SELECT county, {', '.join(items)} FROM people{where} GROUP BY county{order}"


def answers(seeds: range) -> Iterator[str]:
    """A line for each question: what it was answered, or by which error it was refused."""
    for seed in seeds:
        draw = random.Random(seed)
        unit, budget = draw.choice(UNITS), draw.choice(BUDGETS)
        pure = isinstance(budget, unacorda.PureDP | unacorda.ApproxDP)
        account = unacorda.ApproxDP(10**6, 1e-3) if pure and draw.random() < 0.5 else budget
        with unacorda.Session(
            TABLES if isinstance(unit, unacorda.Person) else {"people": TABLES["people"]},
            unit=unit,
            budget=account,
            columns=OF_PEOPLE,
            public={"towns": TOWNS},
            bits=unacorda.SeededBits(seed),
        ) as session:
            try:
                asked = _select(draw) if draw.random() < 0.3 else _question(session, draw)
                found = json.loads(session.evaluate(asked, budget=budget).to_json())
                spent = str(session.spent)
            except UnacordaError as error:
                argument = getattr(error, "argument", None)
                yield json.dumps([seed, type(error).__name__, argument])
                continue
        yield json.dumps([seed, spent, found], sort_keys=True)


if __name__ == "__main__":
    for line in answers(range(*map(int, sys.argv[1:]))):
        print(line)
