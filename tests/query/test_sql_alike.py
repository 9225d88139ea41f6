"""A SELECT asks the same question as the builder: the same numbers for the same price."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.query.select_sessions import BUDGET, session
from tests.support.seams import Query
from tests.tiers import mostly_slow

import unacorda


def agg(**asked: Any) -> Callable[[Query], Query]:
    return lambda table: table.agg(**asked)


PAIRS: dict[str, tuple[str, Callable[[Query], Query]]] = {
    "a count": ("SELECT COUNT(*) AS n FROM t", agg(n=unacorda.count())),
    "names without AS": (
        "select count(*), count(age) from t",
        agg(count=unacorda.count(), count_age=unacorda.count("age")),
    ),
    "people": ("SELECT COUNT(DISTINCT id) AS p FROM t", agg(p=unacorda.count_people())),
    "people by that word": (
        "SELECT COUNT(DISTINCT person) AS p FROM t",
        agg(p=unacorda.count_people()),
    ),
    "values of a column": (
        "SELECT COUNT(DISTINCT county) AS v FROM t",
        agg(v=unacorda.count_distinct("county")),
    ),
    "values of some rows": (
        """SELECT COUNT(DISTINCT county) FILTER (WHERE age > 9) AS v,
                  COUNT(DISTINCT CASE WHEN age > 9 THEN county END) AS w FROM t""",
        agg(
            v=unacorda.count_distinct("CASE WHEN age > 9 THEN county END"),
            w=unacorda.count_distinct("CASE WHEN age > 9 THEN county END"),
        ),
    ),
    "declared bounds": (
        "SELECT SUM(age) AS s, AVG(age) AS m FROM t",
        agg(s=unacorda.sum("age"), m=unacorda.mean("age")),
    ),
    "bounds of an expression": (
        "SELECT AVG(LEAST(GREATEST(pay, 0), 300)) AS m FROM t",
        agg(m=unacorda.mean("least(greatest(pay, 0), 300)")),
    ),
    "quantiles": (
        """SELECT MEDIAN(age) AS a, QUANTILE(age, 0.9) AS b,
        PERCENTILE_CONT(0.25) WITHIN GROUP (ORDER BY age) AS c FROM t""",
        agg(
            a=unacorda.median("age"),
            b=unacorda.quantile("age", 0.9),
            c=unacorda.quantile("age", "1/4"),
        ),
    ),
    "ends of a range": (
        "SELECT QUANTILE(age, 0) AS a, PERCENTILE_CONT(1) WITHIN GROUP (ORDER BY age) AS b FROM t",
        agg(a=unacorda.quantile("age", 0), b=unacorda.quantile("age", 1)),
    ),
    "a condition": (
        "SELECT COUNT(*) AS n FROM t WHERE age BETWEEN 18 AND 65 AND county IN ('A', 'B')",
        lambda t: t.where("age BETWEEN 18 AND 65 AND county IN ('A', 'B')").agg(n=unacorda.count()),
    ),
    "declared keys": (
        "SELECT county, COUNT(*) AS n FROM t GROUP BY county",
        lambda t: t.group_by("county").agg(n=unacorda.count()),
    ),
    "a strange name": (
        'SELECT "Group by", COUNT(*) AS n FROM t GROUP BY "Group by"',
        lambda t: t.group_by("Group by", keys=["x", "y"]).agg(n=unacorda.count()),
    ),
    "an expression": (
        "SELECT FLOOR(age / 10) AS decade, COUNT(*) AS n FROM t GROUP BY decade",
        lambda t: (
            t.derive(decade="FLOOR(age / 10)")
            .group_by("decade", keys=[1, 2, 3])
            .agg(n=unacorda.count())
        ),
    ),
    "two groups": (
        "SELECT county, FLOOR(age / 10) AS decade, COUNT(*) AS n FROM t GROUP BY 1, 2",
        lambda t: (
            t.derive(decade="FLOOR(age / 10)")
            .group_by("county", "decade", keys={"county": ["A", "B", "C"], "decade": [1, 2, 3]})
            .agg(n=unacorda.count())
        ),
    ),
}
PAIRS |= {
    "a sub-select": (
        """SELECT AVG(years) AS m FROM (SELECT age AS years FROM t WHERE county = 'A') AS s
           WHERE years > 3""",
        lambda t: t.where("county = 'A'").where("age > 3").agg(m=unacorda.mean("age")),
    ),
    "a common table expression": (
        """WITH adults AS (SELECT *, LEAST(pay / 12, 99) AS monthly FROM t WHERE age >= 18),
                rich AS (SELECT county AS area, monthly AS m FROM adults WHERE monthly > 10)
           SELECT COUNT(*) AS n, SUM(GREATEST(m, 0)) AS s FROM rich WHERE area <> 'B'""",
        lambda t: (
            t.where("age >= 18")
            .derive(monthly="LEAST(pay / 12, 99)")
            .where("monthly > 10")
            .where("county <> 'B'")
            .agg(n=unacorda.count(), s=unacorda.sum("GREATEST(monthly, 0)"))
        ),
    ),
    "a filter": (
        """SELECT AVG(age) FILTER (WHERE county = 'A') AS m,
                  COUNT(*) FILTER (WHERE age > 9) AS n FROM t""",
        agg(
            m=unacorda.mean("CASE WHEN county = 'A' THEN age END"),
            n=unacorda.count_if("age > 9"),
        ),
    ),
    "variances": (
        """SELECT VARIANCE(age) AS v, VAR_POP(age) AS p, STDDEV(age) AS s,
                  STDDEV_POP(LEAST(GREATEST(pay, 0), 9)) AS q, COUNT_IF(pay > 3) AS n FROM t""",
        agg(
            v=unacorda.variance("age"),
            p=unacorda.variance("age", ddof=0),
            s=unacorda.stdev("age"),
            q=unacorda.stdev("LEAST(GREATEST(pay, 0), 9)", ddof=0),
            n=unacorda.count_if("pay > 3"),
        ),
    ),
    "two columns": (
        """SELECT CORR(age, LEAST(GREATEST(pay, 0), 9)) AS r, COVAR_POP(age, age + 1) AS p,
                  COVAR_SAMP(age, age) FILTER (WHERE pay > 9) AS s FROM t""",
        agg(
            r=unacorda.correlation("age", "LEAST(GREATEST(pay, 0), 9)"),
            p=unacorda.covariance("age", "age + 1", ddof=0),
            s=unacorda.covariance("CASE WHEN pay > 9 THEN age END", "age"),
        ),
    ),
    "several quantiles": (
        "SELECT QUANTILE(age, [0.25, 0.75]) AS p, IQR(age) AS r FROM t HAVING p_25 > -1",
        agg(p=unacorda.quantiles("age", ["1/4", "3/4"]), r=unacorda.iqr("age")),
    ),
    "people with a value": (
        """SELECT COUNT(DISTINCT CASE WHEN age > 9 THEN id END) AS p,
                  COUNT(DISTINCT person) FILTER (WHERE age > 9) AS q FROM t""",
        agg(
            p=unacorda.count_people("CASE WHEN age > 9 THEN 1 END"),
            q=unacorda.count_people("CASE WHEN age > 9 THEN 1 END"),
        ),
    ),
    "a sum of a condition": ("SELECT SUM(age > 17) AS s FROM t", agg(s=unacorda.sum("age > 17"))),
}
KEYS = {"Group by": ["x", "y"], "decade": [1, 2, 3]}


@pytest.mark.parametrize("case", mostly_slow(PAIRS, quick=6))
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
