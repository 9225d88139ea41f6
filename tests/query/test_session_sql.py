"""A SELECT asks the same question as the builder, and its release is the table it describes."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest
from tests.query.exact_answers import opened

import tacet
from tacet.privacy.guarantees import PureDP
from tacet.query.plan import Query
from tacet.query.session import Session

FRAME = pl.DataFrame(
    {
        "id": [i // 2 for i in range(400)],
        "age": [i % 90 for i in range(400)],
        "pay": [float(i) for i in range(400)],
        "county": ["A", "B", "C", None] * 100,
        "Group by": ["x", "y"] * 200,
    }
)
FACTS = {"age": tacet.Bounds(0, 120), "county": tacet.Categories(["A", "B", "C"])}
BUDGET = PureDP(0.5)


def session() -> Session:
    return opened(FRAME, unit=tacet.Person("id", max_rows=2), columns=FACTS)


def agg(**aggregates: Any) -> Callable[[Query], Query]:
    return lambda table: table.agg(**aggregates)


PAIRS: dict[str, tuple[str, Callable[[Query], Query]]] = {
    "a count": ("SELECT COUNT(*) AS n FROM t", agg(n=tacet.count())),
    "names without AS": (
        "select count(*), count(age) from t",
        agg(count=tacet.count(), count_age=tacet.count("age")),
    ),
    "people": ("SELECT COUNT(DISTINCT id) AS p FROM t", agg(p=tacet.count_people())),
    "people by that word": (
        "SELECT COUNT(DISTINCT person) AS p FROM t",
        agg(p=tacet.count_people()),
    ),
    "declared bounds": (
        "SELECT SUM(age) AS s, AVG(age) AS m FROM t",
        agg(s=tacet.sum("age"), m=tacet.mean("age")),
    ),
    "bounds of an expression": (
        "SELECT AVG(LEAST(GREATEST(pay, 0), 300)) AS m FROM t",
        agg(m=tacet.mean("least(greatest(pay, 0), 300)")),
    ),
    "quantiles": (
        """SELECT MEDIAN(age) AS a, QUANTILE(age, 0.9) AS b,
        PERCENTILE_CONT(0.25) WITHIN GROUP (ORDER BY age) AS c FROM t""",
        agg(a=tacet.median("age"), b=tacet.quantile("age", 0.9), c=tacet.quantile("age", "1/4")),
    ),
    "a condition": (
        "SELECT COUNT(*) AS n FROM t WHERE age BETWEEN 18 AND 65 AND county IN ('A', 'B')",
        lambda t: t.where("age BETWEEN 18 AND 65 AND county IN ('A', 'B')").agg(n=tacet.count()),
    ),
    "declared keys": (
        "SELECT county, COUNT(*) AS n FROM t GROUP BY county",
        lambda t: t.group_by("county").agg(n=tacet.count()),
    ),
    "a strange name": (
        'SELECT "Group by", COUNT(*) AS n FROM t GROUP BY "Group by"',
        lambda t: t.group_by("Group by", keys=["x", "y"]).agg(n=tacet.count()),
    ),
    "an expression": (
        "SELECT FLOOR(age / 10) AS decade, COUNT(*) AS n FROM t GROUP BY decade",
        lambda t: (
            t.derive(decade="FLOOR(age / 10)")
            .group_by("decade", keys=[1, 2, 3])
            .agg(n=tacet.count())
        ),
    ),
    "two groups": (
        "SELECT county, FLOOR(age / 10) AS decade, COUNT(*) AS n FROM t GROUP BY 1, 2",
        lambda t: (
            t.derive(decade="FLOOR(age / 10)")
            .group_by("county", "decade", keys={"county": ["A", "B", "C"], "decade": [1, 2, 3]})
            .agg(n=tacet.count())
        ),
    ),
}
KEYS = {"Group by": ["x", "y"], "decade": [1, 2, 3]}


@pytest.mark.parametrize("case", PAIRS)
def test_a_select_is_answered_as_the_builder_answers(case: str) -> None:
    """Under one seed: the same numbers, the same price, the same bounds on people."""
    text, build = PAIRS[case]
    keys = {name: values for name, values in KEYS.items() if name in text}
    with session() as first, session() as second:
        selected = first.sql(text, budget=BUDGET, keys=keys)
        built = second.evaluate(build(second.table("t")), budget=BUDGET)
    assert selected.to_dicts() == built.to_dicts()
    assert selected.columns == built.columns
    assert selected.charge == built.charge
    assert selected.salt == built.salt
    assert selected.provenance[0] == built.provenance[0]


def test_order_and_limit_arrange_the_release_and_cost_nothing() -> None:
    text = "SELECT county, COUNT(*) AS n, AVG(age) AS m FROM t GROUP BY county"
    with session() as one:
        whole = one.sql(text, budget=BUDGET)
    rows = whole.to_dicts()
    for order, expected in {
        " ORDER BY n DESC": sorted(rows, key=lambda row: -row["n"]),
        " ORDER BY n": sorted(rows, key=lambda row: row["n"]),
        " ORDER BY 3 DESC LIMIT 2": sorted(rows, key=lambda row: -row["m"])[:2],
        " ORDER BY COUNT(*) LIMIT 1": sorted(rows, key=lambda row: row["n"])[:1],
        " ORDER BY county DESC": rows[::-1],
        " LIMIT 0": [],
        " LIMIT 99": rows,
    }.items():
        with session() as other:
            found = other.sql(text + order, budget=BUDGET)
        assert found.to_dicts() == expected, order
        assert found.charge == whole.charge
        assert found.columns == whole.columns
        assert str(found).splitlines()[0].split() == ["county", "n", "m"]


def test_missing_keys_come_where_the_select_says() -> None:
    text = "SELECT county AS c, COUNT(*) AS n FROM t GROUP BY county ORDER BY c"
    keys = {"county": ["B", None, "A"]}
    for nulls, expected in (
        ("", ["A", "B", None]),
        (" NULLS FIRST", [None, "A", "B"]),
        (" DESC NULLS LAST", ["B", "A", None]),
    ):
        with session() as one:
            release = one.sql(text + nulls, budget=BUDGET, keys=keys)
        assert [row["c"] for row in release.to_dicts()] == expected
        assert release.groups == ("c",)


def test_reading_a_select_costs_nothing_and_can_be_explained() -> None:
    with session() as one:
        query, select = one.read_sql("SELECT county, AVG(age) AS m FROM t GROUP BY county")
        assert select.groups == ("county",)
        explanation = one.explain(query, budget=BUDGET)
        assert one.spent == PureDP(0)
        assert "3 public keys" in str(explanation)


def test_names_of_columns_do_not_care_about_capitals() -> None:
    with session() as one, session() as other:
        low = one.sql("select COUNTY, avg(AGE) as m from t group by County", budget=BUDGET)
        high = other.sql("SELECT county, AVG(age) AS m FROM t GROUP BY county", budget=BUDGET)
    assert [row["m"] for row in low.to_dicts()] == [row["m"] for row in high.to_dicts()]
