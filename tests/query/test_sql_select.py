"""What an analyst's SELECT may ask, in which parts it is handed on, and what is refused."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from fractions import Fraction

import pytest
from sqlglot import exp
from tests.support.cases import in_subtests
from tests.support.seams import (
    Column,
    Computed,
    Condition,
    Derived,
    Item,
    Kind,
    Ordering,
    Select,
    SelectGroup,
    offered,
    parse,
    parse_select,
)

from unacorda.errors import InvalidParameter, UnsafeExpression

VARIANCE_POP = offered.OF_ONE[exp.VariancePop]
STDEV, STDEV_POP = offered.OF_ONE[exp.Stddev], offered.OF_ONE[exp.StddevPop]
CORRELATION = offered.OF_TWO[exp.Corr]
_ROWS = Item(alias="count", aggregate=offered.COUNT_ROWS)


def items(text: str) -> tuple[Item | SelectGroup | Computed, ...]:
    return parse_select(f"SELECT {text} FROM visits").items


def quantile(alias: str, level: Fraction) -> Item:
    return Item(alias=alias, aggregate=offered.QUANTILE, argument='"x"', quantiles=(level,))


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
    assert parse_select(text) == Select(
        table="visits",
        steps=(
            Condition(expression="\"age\" >= 18 AND \"sex\" IN ('F', 'M')"),
            Derived(name="decade", expression='FLOOR("age" / 10) * 10'),
        ),
        groups=("county", "decade"),
        shown=("area", "decade"),
        items=(
            SelectGroup(alias="area", column="county"),
            SelectGroup(alias="decade", column="decade"),
            Item(alias="n", aggregate=offered.COUNT_ROWS),
            Item(alias="avg_income", aggregate=offered.OF_ONE["MEAN"], argument='"income" / 12'),
        ),
        order_by=(
            Ordering(expression='"n"', descending=True),
            Ordering(expression='"area"', nulls_first=True),
            Ordering(expression='"decade"'),
        ),
        limit=5,
    )


@in_subtests(
    ("text", "expected"),
    [
        ("COUNT(*)", _ROWS),
        ("COUNT()", _ROWS),
        ("COUNT(1)", _ROWS),
        ("count(x)", Item(alias="count_x", aggregate=offered.COUNT, argument='"x"')),
        (
            "COUNT(DISTINCT person)",
            Item(
                alias="count_distinct_person",
                aggregate=offered.COUNT_DISTINCT,
                argument="person",
            ),
        ),
        (
            'COUNT(DISTINCT "person id") AS people',
            Item(alias="people", aggregate=offered.COUNT_DISTINCT, argument="person id"),
        ),
        ("SUM(x)", Item(alias="sum_x", aggregate=offered.OF_ONE[exp.Sum], argument='"x"')),
        (
            "SUM(CASE WHEN x > 1 THEN y ELSE 0 END)",
            Item(
                alias="sum_x_y",
                aggregate=offered.OF_ONE[exp.Sum],
                argument='CASE WHEN "x" > 1 THEN "y" ELSE 0 END',
            ),
        ),
        ("AVG(x) AS m", Item(alias="m", aggregate=offered.OF_ONE["MEAN"], argument='"x"')),
        ("MEAN(x)", Item(alias="avg_x", aggregate=offered.OF_ONE["MEAN"], argument='"x"')),
        ("MEDIAN(x)", quantile("median_x", Fraction(1, 2))),
        ("VAR_SAMP(x)", Item(alias="variance_x", aggregate=offered.OF_ONE["VAR"], argument='"x"')),
        ("VAR(x)", Item(alias="variance_x", aggregate=offered.OF_ONE["VAR"], argument='"x"')),
        (
            "VAR_POP(x)",
            Item(alias="var_pop_x", aggregate=VARIANCE_POP, argument='"x"'),
        ),
        (
            "STDDEV_SAMP(x)",
            Item(alias="stddev_x", aggregate=STDEV, argument='"x"'),
        ),
        ("stddev(x)", Item(alias="stddev_x", aggregate=STDEV, argument='"x"')),
        (
            "STDDEV_POP(x) s",
            Item(alias="s", aggregate=STDEV_POP, argument='"x"'),
        ),
        (
            "CORR(x, y)",
            Item(alias="corr_x_y", aggregate=CORRELATION, argument='"x"', second='"y"'),
        ),
        ("IQR(x)", Item(alias="iqr_x", aggregate=offered.OF_ONE["IQR"], argument='"x"')),
        ("QUANTILE(x, 0.1)", quantile("quantile_x", Fraction(1, 10))),
        ("QUANTILE_CONT(x, 0.25)", quantile("quantile_x", Fraction(1, 4))),
        (
            "PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY x)",
            quantile("quantile_x", Fraction(9, 10)),
        ),
    ],
)
def test_aggregates(text: str, expected: Item) -> None:
    assert items(text) == (expected,)


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
    (found,) = items("QUANTILE_CONT(x, [0.25, 0.5, 0.999]) AS p")
    assert isinstance(found, Item)
    assert found.columns == ("p_25", "p_50", "p_99_9")
    for text in ("PERCENTILE_CONT([0.25, 0.5, 0.999]) WITHIN GROUP (ORDER BY x) AS p",):
        assert items(text) == (found,)
    select = parse_select(
        "SELECT k, QUANTILE(x, [0.25, 0.75]) AS p FROM t GROUP BY k HAVING p_25 > 1 ORDER BY P_75"
    )
    assert (select.having, select.order_by) == ('"p_25" > 1', (Ordering(expression='"p_75"'),))


def test_names_that_nobody_gave_are_numbered_where_they_repeat() -> None:
    found = items("COUNT(*), COUNT(*), SUM(x), SUM(x), AVG(y) AS sum_x_2")
    assert [item.alias for item in found] == ["count", "count_2", "sum_x", "sum_x_3", "sum_x_2"]


@in_subtests(
    ("text", "groups", "derived"),
    [
        ("SELECT county, COUNT(*) FROM t GROUP BY county", ("county",), ()),
        ("SELECT County, COUNT(*) FROM t GROUP BY county", ("county",), ()),
        ("SELECT county, sex, COUNT(*) FROM t GROUP BY ALL", ("county", "sex"), ()),
        ("SELECT COUNT(*) FROM t GROUP BY county", ("county",), ()),
        ("SELECT COUNT(*), county FROM t GROUP BY 2", ("county",), ()),
        ("SELECT county AS a, COUNT(*) FROM t GROUP BY a", ("county",), ()),
        ('SELECT t."the county", COUNT(*) FROM t GROUP BY "the county"', ("the county",), ()),
        (
            "SELECT UPPER(county) AS c, COUNT(*) FROM t GROUP BY UPPER(county)",
            ("c",),
            (Derived(name="c", expression='UPPER("county")'),),
        ),
        (
            "SELECT YEAR(day) y, COUNT(*) FROM t GROUP BY 1 ORDER BY YEAR(day)",
            ("y",),
            (Derived(name="y", expression='EXTRACT(YEAR FROM "day")'),),
        ),
    ],
)
def test_groups(text: str, groups: tuple[str, ...], derived: tuple[Derived, ...]) -> None:
    found = parse_select(text)
    assert (found.groups, found.steps) == (groups, derived)


@pytest.mark.parametrize("key", ["n", "N", "COUNT(*)", "2", "count( * )"])
def test_order_by_means_an_output_column(key: str) -> None:
    found = parse_select(f"SELECT county, COUNT(*) AS n FROM t GROUP BY county ORDER BY {key} DESC")
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
        ("SELECT COUNT(*) FROM a JOIN b ON a.x = b.x", "JOIN"),
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
        parse_select(text)
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
        ("SELECT COUNT(*) FROM a JOIN b ON a.x = b.x", "b ON a.x = b.x"),
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
        parse_select(text)
    assert refusal.value.place is not None
    assert text[slice(*refusal.value.place)] == part
    line, mark = str(refusal.value).splitlines()[-2:]
    assert line.strip() in [one.strip() for one in text.splitlines()]
    assert mark.strip() == "^" * len(part)
    assert line[mark.index("^") : mark.index("^") + len(part)] == part


def test_text_that_is_no_text_is_an_invalid_parameter() -> None:
    with pytest.raises(InvalidParameter):
        parse_select(None)  # type: ignore[arg-type]


def test_every_part_can_be_parsed_again() -> None:
    columns = {name: Column(name, Kind.NUMBER) for name in ("x", "y")}
    columns["s"] = Column("s", Kind.TEXT)
    found = parse_select(
        "SELECT FLOOR(x) % 7 AS k, SUM(LEAST(x * -y, 3) - (1 - x)), COUNT(NULLIF(s, 'it''s')) "
        "FROM t WHERE NOT (x > 1 OR y IS NULL) AND s || 'a' NOT LIKE '%b' GROUP BY k"
    )
    texts: list[str | None] = [
        step.expression for step in found.steps if isinstance(step, Condition | Derived)
    ]
    texts += [item.argument for item in found.items if isinstance(item, Item)]
    for text in texts:
        assert text is not None
        assert parse(text, columns=columns).text == text


def test_a_quoted_file_is_only_the_name_of_a_table() -> None:
    # The session looks the name up among its own tables; nothing is opened.
    assert parse_select("SELECT COUNT(*) FROM 'x.csv'").table == "x.csv"
