"""What an analyst's SELECT may ask, in which parts it is handed on, and what is refused."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from tests.query import select_sessions
from tests.query.select_sessions import steps_of
from tests.support.cases import in_subtests
from tests.support.seams import Column, Kind, Ordering, Select, parse

import unacorda
from unacorda.errors import InvalidParameter, UnsafeExpression

_COLUMNS = (
    *("x", "y", "s", "a", "b", "n", "id"),
    *("age", "sex", "income", "county", "day"),
    "the county",
)


def read(text: str) -> Select:
    return select_sessions.read(text, _COLUMNS)


def items(text: str) -> list[tuple[str, Any]]:
    """The aggregates by the names of their columns."""
    return [(item.alias, item.aggregate) for item in read(f"SELECT {text} FROM visits").aggregates]


def test_a_whole_select_in_parts() -> None:
    text = """
        SELECT v.county AS area, FLOOR(v.age / 10) * 10 AS decade,
               COUNT(*) AS n, AVG(v.income / 12)  -- a month
        FROM visits AS v
        WHERE v.age >= 18 AND v.sex IN ('F', 'M')
        GROUP BY county, decade
        ORDER BY n DESC, area NULLS FIRST, 2
        LIMIT 5;
    """
    found = read(text)
    assert found.rows.scope.table == "visits"
    assert steps_of(found) == [
        "\"age\" >= 18 AND \"sex\" IN ('F', 'M')",
        'decade = FLOOR("age" / 10) * 10',
    ]
    assert (found.groups, found.shown) == (("county", "decade"), ("area", "decade"))
    assert [(item.alias, item.aggregate) for item in found.aggregates] == [
        ("n", unacorda.count()),
        ("avg_income", unacorda.mean('"income" / 12')),
    ]
    assert found.order_by == (
        Ordering(expression='"n"', descending=True),
        Ordering(expression='"area"', nulls_first=True),
        Ordering(expression='"decade"'),
    )
    assert (found.having, found.limit, found.offset) == (None, 5, 0)


@in_subtests(
    ("text", "alias", "expected"),
    [
        ("COUNT(*)", "count", unacorda.count()),
        ("COUNT()", "count", unacorda.count()),
        ("COUNT(1)", "count", unacorda.count()),
        ("count(x)", "count_x", unacorda.count('"x"')),
        ("COUNT(DISTINCT person)", "count_distinct_person", unacorda.count_people()),
        ('COUNT(DISTINCT "the county") AS n', "n", unacorda.count_distinct("the county")),
        ("SUM(x)", "sum_x", unacorda.sum("x")),
        (
            "SUM(CASE WHEN x > 1 THEN y ELSE 0 END)",
            "sum_x_y",
            unacorda.sum('CASE WHEN "x" > 1 THEN "y" ELSE 0 END'),
        ),
        ("AVG(x) AS m", "m", unacorda.mean("x")),
        ("MEAN(x)", "avg_x", unacorda.mean("x")),
        ("MEDIAN(x)", "median_x", unacorda.median("x")),
        ("VAR_SAMP(x)", "variance_x", unacorda.variance("x", ddof=1)),
        ("VAR(x)", "variance_x", unacorda.variance("x", ddof=1)),
        ("VAR_POP(x)", "var_pop_x", unacorda.variance("x", ddof=0)),
        ("STDDEV_SAMP(x)", "stddev_x", unacorda.stdev("x", ddof=1)),
        ("stddev(x)", "stddev_x", unacorda.stdev("x", ddof=1)),
        ("STDDEV_POP(x) s", "s", unacorda.stdev("x", ddof=0)),
        ("CORR(x, y)", "corr_x_y", unacorda.correlation("x", "y")),
        ("IQR(x)", "iqr_x", unacorda.iqr("x")),
        ("IQR_WITH_INTERVAL(x)", "iqr_x", unacorda.iqr("x", interval=0.5)),
        ("median_with_interval(x)", "median_x", unacorda.median("x", interval=0.5)),
        (
            "QUANTILE_WITH_INTERVAL(x, 0.1)",
            "quantile_x",
            unacorda.quantile("x", 0.1, interval=0.5),
        ),
        (
            "QUANTILE_WITH_INTERVAL(x, [0.1, 0.9])",
            "quantiles_x",
            unacorda.quantiles("x", [0.1, 0.9], interval=0.5),
        ),
        ("QUANTILE(x, 0.1)", "quantile_x", unacorda.quantile("x", Fraction(1, 10))),
        ("QUANTILE_CONT(x, 0.25)", "quantile_x", unacorda.quantile("x", 0.25)),
        (
            "PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY x)",
            "quantile_x",
            unacorda.quantile("x", 0.9),
        ),
    ],
)
def test_aggregates(text: str, alias: str, expected: Any) -> None:
    assert items(text) == [(alias, expected)]


@in_subtests(
    ("text", "same"),
    [
        ("COUNT(*) FILTER (WHERE x > 1)", "COUNT_IF(x > 1)"),
        ("COUNT_IF(y > 2) FILTER (WHERE x > 1)", "COUNT_IF(CASE WHEN x > 1 THEN y > 2 END)"),
        ("AVG(y) FILTER (WHERE x > 1)", "AVG(CASE WHEN x > 1 THEN y END)"),
        ("COUNT(y) FILTER (WHERE x > 1)", "COUNT(CASE WHEN x > 1 THEN y END)"),
        (
            "PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY y) FILTER (WHERE x > 1)",
            "QUANTILE(CASE WHEN x > 1 THEN y END, 0.9)",
        ),
        (
            "COUNT(DISTINCT id) FILTER (WHERE x > 1)",
            "COUNT(DISTINCT CASE WHEN x > 1 THEN id END)",
        ),
    ],
)
def test_a_filter_is_a_case(text: str, same: str) -> None:
    assert items(f"{text} AS a") == items(f"{same} AS a")


def test_several_quantiles_are_several_columns() -> None:
    text = "QUANTILE_CONT(x, [0.25, 0.5, 0.999]) AS p"
    assert items(text) == [("p", unacorda.quantiles("x", [0.25, 0.5, 0.999]))]
    assert read(f"SELECT {text} FROM t").outputs == ("p_25", "p_50", "p_99_9")
    assert items("PERCENTILE_CONT([0.25, 0.5, 0.999]) WITHIN GROUP (ORDER BY x) AS p") == items(
        text
    )
    select = read(
        "SELECT s, QUANTILE(x, [0.25, 0.75]) AS p FROM t GROUP BY s HAVING p_25 > 1 ORDER BY P_75"
    )
    assert (select.having, select.order_by) == ('"p_25" > 1', (Ordering(expression='"p_75"'),))


def test_aggregates_that_only_stand_in_others_are_released_by_a_name() -> None:
    found = read("SELECT SUM(x) / COUNT(*) AS r FROM t HAVING sum_x > 3 ORDER BY count")
    assert [item.alias for item in found.inner] == ["sum_x", "count"]
    assert (found.having, found.order_by) == ('"sum_x" > 3', (Ordering(expression='"count"'),))


def test_aggregates_that_sqlglot_does_not_know_may_be_computed_with() -> None:
    found = read("SELECT MEAN(x) + 1 AS m FROM t GROUP BY s HAVING MEAN(x) > 3 AND s = 'a'")
    assert [item.alias for item in found.inner] == ["avg_x"]
    assert found.having == '"avg_x" > 3 AND "s" = \'a\''


def test_names_that_nobody_gave_are_numbered_where_they_repeat() -> None:
    found = items("COUNT(*), COUNT(*), SUM(x), SUM(x), AVG(y) AS sum_x_2")
    assert [alias for alias, _ in found] == ["count", "count_2", "sum_x", "sum_x_3", "sum_x_2"]


@in_subtests(
    ("text", "groups", "derived"),
    [
        ("SELECT county, COUNT(*) FROM t GROUP BY county", ("county",), []),
        ("SELECT County, COUNT(*) FROM t GROUP BY county", ("county",), []),
        ("SELECT county, sex, COUNT(*) FROM t GROUP BY ALL", ("county", "sex"), []),
        ("SELECT COUNT(*) FROM t GROUP BY county", ("county",), []),
        ("SELECT COUNT(*), county FROM t GROUP BY 2", ("county",), []),
        ("SELECT county AS a, COUNT(*) FROM t GROUP BY a", ("county",), []),
        ('SELECT t."the county", COUNT(*) FROM t GROUP BY "the county"', ("the county",), []),
        (
            "SELECT UPPER(county) AS c, COUNT(*) FROM t GROUP BY UPPER(county)",
            ("c",),
            ['c = UPPER("county")'],
        ),
        (
            "SELECT YEAR(day) z, COUNT(*) FROM t GROUP BY 1 ORDER BY YEAR(day)",
            ("z",),
            ['z = EXTRACT(YEAR FROM "day")'],
        ),
    ],
)
def test_groups(text: str, groups: tuple[str, ...], derived: list[str]) -> None:
    found = read(text)
    assert (found.groups, steps_of(found)) == (groups, derived)


@pytest.mark.parametrize("key", ["n", "N", "COUNT(*)", "2", "count( * )"])
def test_order_by_means_an_output_column(key: str) -> None:
    found = read(f"SELECT county, COUNT(*) AS n FROM t GROUP BY county ORDER BY {key} DESC")
    assert found.order_by == (Ordering(expression='"n"', descending=True),)


@in_subtests(
    ("text", "word"),
    [
        ("SELECT * FROM t", "rows (*)"),
        ("SELECT t.* FROM t", "uses *"),
        ("SELECT age FROM t", "no aggregate"),
        ("SELECT age, COUNT(*) FROM t", "GROUP BY"),
        ("SELECT COUNT(*)", "no FROM"),
        ("SELECT COUNT(*) FROM a, b", "second table"),
        ("SELECT COUNT(*) FROM a NATURAL JOIN b", "JOIN"),
        ("SELECT COUNT(*) FROM a ASOF JOIN b USING (x)", "JOIN"),
        ("SELECT COUNT(*) FROM read_csv('x.csv')", "plain table"),
        ("SELECT COUNT(*) FROM range(3)", "plain table"),
        ("SELECT COUNT(*) FROM other.t", "plain table"),
        ("SELECT COUNT(*) FROM t TABLESAMPLE 10%", "plain table"),
        ("SELECT COUNT(*) FROM t AS v(x)", "plain table"),
        ("SELECT COUNT(*) FROM (VALUES (1)) v", "plain table"),
        ("SELECT COUNT(*) FROM t USING SAMPLE 5", "sample"),
        ("SELECT DISTINCT COUNT(*) FROM t", "DISTINCT"),
        ("SELECT COUNT(*) FROM t QUALIFY TRUE", "QUALIFY"),
        ("SELECT COUNT(*) INTO x FROM t", "INTO"),
        ("SELECT COUNT(*) FROM t FOR UPDATE", "FOR UPDATE"),
        ("SELECT COUNT(*) FROM t UNION SELECT COUNT(*) FROM t", "UNION"),
        ("SELECT COUNT(*) FROM t EXCEPT SELECT 1", "EXCEPT"),
        ("(SELECT COUNT(*) FROM t)", "SELECT"),
        ("FROM t SELECT COUNT(*)", "SELECT"),
        ("DROP TABLE t", "SELECT"),
        ("EXPLAIN SELECT COUNT(*) FROM t", "SELECT"),
        ("SELECT COUNT(*) FROM t; SELECT 1", "semicolon"),
        ("SELECT COUNT(*) FROM t;;", "semicolon"),
        ("SELECT COUNT(*) FROM t WHERE x IN (SELECT 1)", "subquery"),
        ("SELECT COUNT(*) FROM t WHERE SUM(x) > 1", "aggregate SUM"),
        ("SELECT COUNT(*) FROM t WHERE u.x > 1", "column's name"),
        ("SELECT COUNT(*) FROM t AS v WHERE t.x > 1", "column's name"),
        ("SELECT COUNT(*) FROM t WHERE random() < 0.1", "random"),
        ("SELECT SUM(x) / COUNT(*) FROM t", "has no name"),
        ("SELECT ROUND(AVG(x)) FROM t", "has no name"),
        ("SELECT CAST(COUNT(*) AS INTEGER) FROM t", "has no name"),
        ("SELECT SUM(AVG(x)) FROM t", "aggregate AVG"),
        ("SELECT COUNT(*) OVER () FROM t", "window"),
        ("SELECT RANK() OVER (ORDER BY x), COUNT(*) FROM t", "window"),
        ("SELECT MIN(x, 3) FROM t", "MIN"),
        ("SELECT MAX(DISTINCT x) FROM t", "DISTINCT x"),
        ("SELECT STRING_AGG(x, ',') FROM t", "not offered"),
        ("SELECT LIST(x) FROM t", "not offered"),
        ("SELECT ARG_MAX(x, y) FROM t", "not offered"),
        ("SELECT FIRST(x) FROM t", "FIRST"),
        ("SELECT APPROX_COUNT_DISTINCT(x) FROM t", "not offered"),
        ("SELECT QUANTILE_DISC(x, 0.5) FROM t", "not offered"),
        ("SELECT SUM(DISTINCT x) FROM t", "DISTINCT x"),
        ("SELECT SUM(x ORDER BY y) FROM t", "ORDER BY y"),
        ("SELECT COUNT(DISTINCT LOWER(x)) FROM t", "more than a column"),
        ("SELECT COUNT(DISTINCT x, y) FROM t", "more than a column"),
        ("SELECT QUANTILE(x, -0.1) FROM t", "from 0 to 1"),
        ("SELECT QUANTILE(x, 1.5) FROM t", "from 0 to 1"),
        ("SELECT QUANTILE(x, y) FROM t", "from 0 to 1"),
        ("SELECT QUANTILE(x, TRUE) FROM t", "from 0 to 1"),
        ("SELECT PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY x DESC) FROM t", "ascending"),
        ("SELECT a, b, COUNT(*) FROM t GROUP BY a, ROLLUP (b)", "ROLLUP"),
        ("SELECT a, b, COUNT(*) FROM t GROUP BY CUBE (a), CUBE (b)", "CUBE"),
        ("SELECT a, b, COUNT(*) FROM t GROUP BY GROUPING SETS ((a), (b))", "GROUPING SETS"),
        ("SELECT a, b, COUNT(*) FROM t GROUP BY ROLLUP ((a, b))", "row of values"),
        ("SELECT COUNT(*) FROM t GROUP BY ROLLUP ()", "no column"),
        ("SELECT a AS margin, COUNT(*) FROM t GROUP BY ROLLUP (margin)", "tells sums apart"),
        ("SELECT county, COUNT(*) FROM t GROUP BY GROUPING SETS ((county), ())", "GROUPING"),
        ("SELECT county, COUNT(*) FROM t GROUP BY county, County", "twice"),
        ("SELECT COUNT(*) FROM t GROUP BY 1", "constant"),
        ("SELECT COUNT(*) FROM t GROUP BY LOWER(x)", "no name"),
        ("SELECT LOWER(x), COUNT(*) FROM t GROUP BY 1", "no name"),
        ("SELECT 'a' AS k, COUNT(*) FROM t GROUP BY k", "no name"),
        ("SELECT YEAR(day) AS day, COUNT(*) FROM t GROUP BY 1", "both a column"),
        ("SELECT YEAR(day) AS x, SUM(x) FROM t GROUP BY 1", "both a column"),
        ("SELECT YEAR(day) AS x, COUNT(*) FROM t WHERE X > 1 GROUP BY 1", "both a column"),
        ("SELECT COUNT(*) AS n, SUM(x) AS N FROM t", "two output columns"),
        ("SELECT COUNT(*) FROM t ORDER BY x", "no output column"),
        ("SELECT COUNT(*) FROM t ORDER BY SUM(x)", "no output column"),
        ("SELECT COUNT(*) FROM t ORDER BY 2", "no output column"),
        ("SELECT COUNT(*) FROM t ORDER BY ALL", "VAR"),
        ("SELECT COUNT(*) FROM t LIMIT 10%", "LIMIT"),
        ("SELECT COUNT(*) FROM t LIMIT -1", "LIMIT"),
        ("SELECT COUNT(*) FROM t LIMIT (SELECT 1)", "subquery"),
        ("SELECT COUNT(*) FROM t LIMIT n", "LIMIT"),
        ("SELECT COUNT(*) FROM t LIMIT 1 OFFSET -1", "OFFSET"),
        ("SELECT COUNT(*) FROM t FETCH FIRST 3 ROWS ONLY", "LIMIT"),
        ("SELECT county, COUNT(*) FROM t GROUP BY county HAVING SUM(x) > 5", "HAVING has 'SUM(x)'"),
        ("SELECT county, COUNT(*) FROM t GROUP BY county HAVING x > 5", "HAVING has 'x > 5'"),
        ("SELECT COUNT(*) FROM t HAVING TRUE", "HAVING has 'TRUE'"),
        ("SELECT COUNT(*) FROM t HAVING COUNT(*) > (SELECT 1)", "subquery"),
        ("SELECT COUNT(*) FROM t HAVING random() > 0.5", "random"),
        ("SELECT COUNT(*) FROM t HAVING STRING_AGG(x, ',') > 'a'", "not offered"),
        ("SELECT COUNT(*) FROM t HAVING COUNT(*) OVER () > 1", "window"),
        ("SELECT x + COUNT(*) AS y FROM t", "SELECT has"),
        ("SELECT COUNT(*) + KURTOSIS(x) AS y FROM t", "not offered"),
        ("SELECT COUNT(*) + SUM(COUNT(*)) AS y FROM t", "aggregate COUNT"),
        ("SELECT SUM(x) FILTER (WHERE COUNT(*) > 1) FROM t", "aggregate COUNT"),
        ("SELECT COUNT(DISTINCT CASE WHEN x > 1 THEN x + 1 END) FROM t", "more than a column"),
        ("SELECT QUANTILE(x, [0.5, 0.5]) FROM t", "list of quantiles"),
        ("SELECT QUANTILE(x, []) FROM t", "list of quantiles"),
        ("SELECT QUANTILE(x, [2, 0.5]) FROM t", "from 0 to 1"),
        ("SELECT QUANTILE(x, [y]) FROM t", "from 0 to 1"),
        ("SELECT QUANTILE(x, [0.1, 0.2]) + 1 AS z FROM t", "several quantiles"),
        ("SELECT QUANTILE(x, [0.1, 0.2]) AS z FROM t HAVING z > 1", "no output column"),
        ("SELECT STRING_AGG(x, ',') FILTER (WHERE x > 1) FROM t", "not offered"),
    ],
)
def test_refusals_name_the_clause(text: str, word: str) -> None:
    with pytest.raises(UnsafeExpression) as refusal:
        read(text)
    assert word.lower() in refusal.value.reason.lower() + refusal.value.hint.lower()
    assert refusal.value.hint
    assert refusal.value.place is not None
    part = text[slice(*refusal.value.place)]
    assert part.strip() == part != ""


@in_subtests(
    ("text", "part"),
    [
        ("SELECT county, COUNT(*) FROM t GROUP BY county HAVING SUM(x) > 5", "SUM(x)"),
        ("SELECT COUNT(*) FROM t WHERE x > 1 AND random() < 0.1", "random()"),
        ("SELECT COUNT(*) FROM t QUALIFY x > 1", "x > 1"),
        ("SELECT VAR_SAMPLE(x), COUNT(*) FROM t", "VAR_SAMPLE(x)"),
        ("SELECT COUNT(*)\nFROM t\nORDER BY\n  age + 1", "age + 1"),
        ("SELECT COUNT(*) FROM t WHERE x IN (SELECT y FROM u)", "(SELECT y FROM u)"),
        ("SELECT COUNT(*) FROM t WHERE x > (SELECT MAX(y) FROM u)", "(SELECT MAX(y) FROM u)"),
        ("SELECT COUNT(*) FROM t WHERE EXISTS (SELECT 1 FROM u)", "(SELECT 1 FROM u)"),
        ("WITH a AS (SELECT x FROM t) SELECT SUM(y) FROM a", "y"),
        ("SELECT COUNT(*) FROM t WHERE a b", "b"),
    ],
)
def test_refusals_show_the_place(text: str, part: str) -> None:
    with pytest.raises(UnsafeExpression) as refusal:
        read(text)
    assert refusal.value.place is not None
    assert text[slice(*refusal.value.place)] == part
    line, mark = str(refusal.value).splitlines()[-2:]
    assert line.strip() in [one.strip() for one in text.splitlines()]
    assert mark.strip() == "^" * len(part)
    assert line[mark.index("^") : mark.index("^") + len(part)] == part


def test_tables_of_rows_that_are_protected_are_not_joined() -> None:
    with pytest.raises(InvalidParameter, match=r"JOIN='b ON a.x = b.x'.*unacorda.Row") as refusal:
        read("SELECT COUNT(*) FROM a JOIN b ON a.x = b.x")
    assert "^" * len("b ON a.x = b.x") in refusal.value.drawing


def test_text_that_is_no_text_is_an_invalid_parameter() -> None:
    with pytest.raises(InvalidParameter):
        read(None)  # type: ignore[arg-type]


def test_every_part_can_be_parsed_again() -> None:
    columns = {name: Column(name, Kind.NUMBER) for name in ("x", "y")}
    columns["s"] = Column("s", Kind.TEXT)
    found = read(
        "SELECT FLOOR(x) % 7 AS k, SUM(LEAST(x * -y, 3) - (1 - x)), COUNT(NULLIF(s, 'it''s')) "
        "FROM t WHERE NOT (x > 1 OR y IS NULL) AND s || 'a' NOT LIKE '%b' GROUP BY k"
    )
    texts = [step.removeprefix("k = ") for step in steps_of(found)]
    texts += [text for item in found.aggregates for text in item.arguments]
    assert len(texts) == 4
    for text in texts:
        assert parse(text, columns=columns).text == text


def test_a_quoted_file_is_only_the_name_of_a_table() -> None:
    # The session looks the name up among its own tables; nothing is opened.
    assert read("SELECT COUNT(*) FROM 'x.csv'").rows.scope.table == "x.csv"
