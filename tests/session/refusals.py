"""What is refused before anything is spent: of each, the class of the error and what it names."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import unacorda
from unacorda import GDP, ZCDP, ApproxDP, PureDP, RenyiDP

__all__ = ["BUILT", "MODELS", "SELECTS", "SESSIONS"]

Refused = Callable[[Any], Any]
"""A function of a session over the tables of `tests.session.golden`."""

_NOTHING = PureDP(1)


def _agg(make: Callable[[], Any]) -> Refused:
    return lambda session: session.evaluate(session.table("people").agg(n=make()), budget=_NOTHING)


def _paid(budget: Any) -> Refused:
    return lambda session: session.evaluate(
        session.table("people").agg(n=unacorda.count()), budget=budget
    )


def _rows(step: Callable[[Any], Any]) -> Refused:
    return lambda session: session.evaluate(
        step(session.table("people")).agg(n=unacorda.count()), budget=_NOTHING
    )


BUILT: Mapping[str, Refused] = {
    # Budgets
    "a price of no kind": _paid(1.0),
    "no price": _paid(None),
    "a budget of nothing": _paid(PureDP(0)),
    "a budget of another kind": _paid(RenyiDP(2, 1)),
    "a budget of concentrated kind": _paid(ZCDP(1)),
    "a budget of a curve": _paid(GDP(1)),
    "a delta that the account lacks": _paid(ApproxDP(1, "1e-6")),
    "more than there is": _paid(PureDP(10**6)),
    "an infinite budget": lambda session: session.evaluate(
        session.table("people").agg(n=unacorda.count()), budget=PureDP(float("inf"))
    ),
    # Aggregates
    "an unknown column": _agg(lambda: unacorda.sum("salary", 0, 1)),
    "a table in a column": _agg(lambda: unacorda.sum("visits.cost", 0, 1)),
    "bounds that fall": _agg(lambda: unacorda.sum("income", 5, 1)),
    "bounds that are one": _agg(lambda: unacorda.mean("income", 5, 5)),
    "a bound that is text": _agg(lambda: unacorda.mean("income", "low", 5)),
    "a bound that is infinite": _agg(lambda: unacorda.mean("income", 0, float("inf"))),
    "a bound that is no number": _agg(lambda: unacorda.mean("income", float("nan"), 5)),
    "a mean without bounds": _agg(lambda: unacorda.mean("income")),
    "a median without bounds": _agg(lambda: unacorda.median("income")),
    "a sum of text": _agg(lambda: unacorda.sum("county", 0, 1)),
    "a mean of days": _agg(lambda: unacorda.mean("day", 0, 1)),
    "a condition that is a number": _agg(lambda: unacorda.count_if("age")),
    "a share of a number": _agg(lambda: unacorda.proportion("age + 1")),
    "a quantile beyond one": _agg(lambda: unacorda.quantile("age", 1.5)),
    "a quantile below zero": _agg(lambda: unacorda.quantile("age", -0.1)),
    "no quantiles": _agg(lambda: unacorda.quantiles("age", [])),
    "a weight of nothing": _agg(lambda: unacorda.count(weight=0)),
    "a weight below zero": _agg(lambda: unacorda.count(weight=-1)),
    "a weight of text": _agg(lambda: unacorda.count(weight="much")),
    "edges that fall": _agg(lambda: unacorda.histogram("age", edges=[5, 1])),
    "one edge": _agg(lambda: unacorda.histogram("age", edges=[5])),
    "no bins": _agg(lambda: unacorda.histogram("age", bins=0)),
    "bins and edges": _agg(lambda: unacorda.histogram("age", edges=[0, 1], bins=2)),
    "no top": _agg(lambda: unacorda.top("county", 0)),
    "top of what is not listed": _agg(lambda: unacorda.top("tags", 2)),
    "a norm of nothing": _agg(lambda: unacorda.vector_sum(["age"], norm=0)),
    "a vector of nothing": _agg(lambda: unacorda.vector_sum([], norm=1)),
    "degrees of freedom": _agg(lambda: unacorda.variance("age", ddof=2)),
    "what is no aggregate": _agg(lambda: 3),
    "a text for an aggregate": _agg(lambda: "count"),
    "no aggregate": lambda session: session.table("people").agg(),
    "aggregates twice": lambda session: (
        session.table("people").agg(n=unacorda.count()).agg(m=unacorda.count())
    ),
    "two names of one": lambda session: session.table("people").agg(
        n=unacorda.count(), N=unacorda.count()
    ),
    "a name that is an error's": lambda session: session.table("people").agg(
        n=unacorda.count(), n_se=unacorda.count()
    ),
    "a name that is a group's": lambda session: (
        session.table("people").group_by("county").agg(county=unacorda.count())
    ),
    # Steps
    "where a number": _rows(lambda people: people.where("age + 1")),
    "where nothing": _rows(lambda people: people.where("")),
    "where no text": _rows(lambda people: people.where(True)),
    "where half a text": _rows(lambda people: people.where("age >")),
    "where a function of chance": _rows(lambda people: people.where("random() < 0.5")),
    "where the time": _rows(lambda people: people.where("day < now()")),
    "where a subquery": _rows(lambda people: people.where("age > (SELECT 3)")),
    "where an aggregate": _rows(lambda people: people.where("age > AVG(age)")),
    "where a window": _rows(lambda people: people.where("ROW_NUMBER() OVER () < 3")),
    "where a pattern": _rows(lambda people: people.where("regexp_matches(county, 'a')")),
    "where an unknown function": _rows(lambda people: people.where("shrink(age) > 1")),
    "where two statements": _rows(lambda people: people.where("sick; DROP TABLE people")),
    "where a file": _rows(lambda people: people.where("county IN (FROM 'x.csv')")),
    "where a parameter": _rows(lambda people: people.where("age > ?")),
    "where a star": _rows(lambda people: people.where("* > 1")),
    "derive what there is": _rows(lambda people: people.derive(age="age + 1")),
    "derive other capitals": _rows(lambda people: people.derive(AGE="age + 1")),
    "derive nothing": _rows(lambda people: people.derive()),
    "derive no text": _rows(lambda people: people.derive(x=3)),
    "derive an unknown column": _rows(lambda people: people.derive(x="salary")),
    "explode without a bound": _rows(lambda people: people.explode("tags")),
    "explode a number": _rows(lambda people: people.explode("age", most=3)),
    "explode into nothing": _rows(lambda people: people.explode("tags", most=0)),
    "explode too much": _rows(lambda people: people.explode("tags", most=10**6)),
    "explode twice too much": _rows(
        lambda people: people.explode("tags", most=100).explode("county", most=100)
    ),
    "join an unknown table": _rows(lambda people: people.join("villages", on="county")),
    "join on an unknown column": _rows(lambda people: people.join("towns", on="village")),
    "join itself": _rows(lambda people: people.join(people, on="who")),
    "join on no person": _rows(lambda people: people.join("visits", on="county")),
    "unite with what is nothing": _rows(lambda people: people.union(3)),
    "group by an unknown column": _rows(lambda people: people.group_by("village", keys=["a"])),
    "group by without keys": _rows(lambda people: people.group_by("tags")),
    "group by no keys": _rows(lambda people: people.group_by("sick", keys=[])),
    "group by keys twice": _rows(lambda people: people.group_by("county", keys=["ash", "ash"])),
    "group by keys of another type": _rows(lambda people: people.group_by("sick", keys=["x"])),
    "group by too many keys": _rows(lambda people: people.group_by("age", keys=range(10**8))),
    "group by the same twice": _rows(lambda people: people.group_by("county", "county")),
    "group by nothing": _rows(lambda people: people.group_by()),
    "group by an unknown margin": _rows(
        lambda people: people.group_by("county", margins="sideways")
    ),
    "private keys for no delta": _rows(
        lambda people: people.group_by("tags", keys=unacorda.private_keys())
    ),
    "a question without aggregates": lambda session: session.evaluate(
        session.table("people"), budget=_NOTHING
    ),
    "a question that is none": lambda session: session.evaluate(3, budget=_NOTHING),
    "no questions": lambda session: session.evaluate([], budget=_NOTHING),
    "a table that is not there": lambda session: session.table("villages"),
    "a public table": lambda session: session.table("towns"),
    "a table that is no name": lambda session: session.table(3),
    "errors that are no wish": lambda session: session.evaluate(
        session.table("people").agg(n=unacorda.count()), budget=_NOTHING, errors="few"
    ),
    "errors below zero": lambda session: session.evaluate(
        session.table("people").agg(n=unacorda.count()), budget=_NOTHING, errors=-1
    ),
    "an error that no budget reaches": lambda session: session.suggest_budget(
        session.table("people").agg(n=unacorda.count()), error=0
    ),
    "an error of a stranger": lambda session: session.suggest_budget(
        session.table("people").agg(n=unacorda.count()), error={"m": 3}
    ),
    "a look at nothing": lambda session: session.describe("villages", budget=_NOTHING),
    "a look for too much": lambda session: session.describe("people", budget=PureDP(10**6)),
    "bounds of an unknown column": lambda session: session.find_bounds(
        "people", "salary", budget=_NOTHING
    ),
    "bounds of text": lambda session: session.find_bounds("people", "county", budget=_NOTHING),
    "bounds in groups": lambda session: session.find_bounds(
        session.table("people").group_by("county"), "age", budget=_NOTHING
    ),
    "an analyst without a name": lambda session: session.for_analyst("", _NOTHING),
    "an analyst of another kind": lambda session: session.for_analyst("ann", GDP(1)),
    "parts of an unknown column": lambda session: session.split(
        "village", keys=["a"], max_parts=1, budget=_NOTHING
    ),
    "parts of nobody": lambda session: session.split(
        "county", keys=["ash"], max_parts=0, budget=_NOTHING
    ),
}

SELECTS: tuple[str, ...] = (
    "",
    "SELEC 1",
    "SELECT 1",
    "SELECT * FROM people",
    "SELECT age FROM people",
    "SELECT COUNT(*) FROM villages",
    "SELECT COUNT(*) FROM towns",
    "SELECT SUM(salary) FROM people",
    "SELECT SUM(county) FROM people",
    "SELECT AVG(income) FROM people",
    "SELECT STRING_AGG(county) FROM people",
    "SELECT ARRAY_AGG(age) FROM people",
    "SELECT FIRST(age) FROM people",
    "SELECT COUNT(*) FROM people WHERE age > (SELECT AVG(age) FROM people)",
    "SELECT COUNT(*) FROM people WHERE EXISTS (SELECT 1 FROM visits)",
    "SELECT COUNT(*) FROM people TABLESAMPLE 10 PERCENT",
    "SELECT COUNT(*) FROM 'people.csv'",
    "SELECT COUNT(*) FROM read_csv('people.csv')",
    "SELECT COUNT(*) FROM people, visits",
    "SELECT COUNT(*) FROM people CROSS JOIN visits",
    "SELECT COUNT(*) FROM people JOIN visits ON people.who > visits.who",
    "SELECT COUNT(*) FROM people JOIN visits USING (cost)",
    "SELECT tags, COUNT(*) FROM people GROUP BY tags",
    "SELECT county, COUNT(*) FROM people",
    "SELECT COUNT(*) FROM people GROUP BY age + 1",
    "SELECT county, COUNT(*) FROM people GROUP BY GROUPING SETS ((county))",
    "SELECT COUNT(*) OVER () FROM people",
    "SELECT COUNT(*) FROM people QUALIFY TRUE",
    "SELECT COUNT(*) FROM people UNION SELECT COUNT(*) FROM visits",
    "SELECT DISTINCT county FROM people",
    "SELECT COUNT(*) AS n FROM people ORDER BY age",
    "SELECT COUNT(*) AS n FROM people LIMIT n",
    "SELECT COUNT(*) AS n FROM people HAVING age > 3",
    "INSERT INTO people VALUES (1)",
    "DROP TABLE people",
    "COPY people TO 'x'",
    "ATTACH 'x'",
    "SELECT COUNT(*) FROM people; SELECT 2",
    "SELECT QUANTILE_CONT(age, 2) FROM people",
    "SELECT QUANTILE_CONT(age, sick) FROM people",
    "SELECT HISTOGRAM(age, [3, 1]) FROM people",
    "WITH t AS (SELECT COUNT(*) AS n FROM people) SELECT SUM(n) FROM t",
    "SELECT COUNT(*) FROM (SELECT village FROM people) AS t",
    "SELECT COUNT(*) FROM people AS p WHERE people.age > 3",
)

SESSIONS: Mapping[str, Callable[[], dict[str, Any]]] = {
    "no unit": lambda: {"unit": None},
    "a unit that is a text": lambda: {"unit": "who"},
    "a person without a bound": lambda: {"unit": unacorda.Person("who")},
    "a person of no column": lambda: {"unit": unacorda.Person("nobody", max_rows=1)},
    "no budget": lambda: {"account": None},
    "columns of a stranger": lambda: {"columns": {"salary": unacorda.Bounds(0, 1)}},
    "a column of no kind": lambda: {"columns": {"age": 3}},
    "no tables": lambda: {"tables": {}},
    "a table that is a number": lambda: {"tables": {"people": 3}},
    "a file that is not there": lambda: {"tables": {"people": "nowhere.csv"}},
    "a purpose that is no text": lambda: {"purpose": 3},
    "no memory": lambda: {"memory_limit": "none"},
    "bits of no kind": lambda: {"bits": 3},
    "a timeout below zero": lambda: {"timeout": -1},
    "an engine of no kind": lambda: {"engine": "abacus"},
}

MODELS: Mapping[str, tuple[Callable[[], Any], dict[str, Any]]] = {
    "a model of no kind": (lambda: 3, {}),
    "a model of arrays": (
        lambda: unacorda.inference.SparseRegression(
            unacorda.inference.LinearRegression(budget=GDP(1)), n_features=1
        ),
        {},
    ),
    "a budget that normal noise lacks": (
        lambda: unacorda.inference.LinearRegression(budget=PureDP(1)),
        {},
    ),
    "a feature of text": (
        lambda: unacorda.inference.LinearRegression(budget=ApproxDP(1, "1e-6")),
        {"features": ["county"]},
    ),
    "no features": (
        lambda: unacorda.inference.LinearRegression(budget=ApproxDP(1, "1e-6")),
        {"features": []},
    ),
    "an unknown target": (
        lambda: unacorda.inference.LinearRegression(budget=ApproxDP(1, "1e-6")),
        {"target": "salary"},
    ),
    "a target of text": (
        lambda: unacorda.inference.LinearRegression(budget=ApproxDP(1, "1e-6")),
        {"target": "county"},
    ),
}
