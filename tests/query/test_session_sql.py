"""The release of a SELECT is the table that it describes."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
import math

import polars as pl
import pytest
from tests.query.exact_answers import opened
from tests.query.select_sessions import BUDGET, FACTS, FRAME, session
from tests.support.cases import in_subtests
from tests.support.seams import Release

import unacorda
from unacorda.errors import InvalidParameter
from unacorda.privacy.guarantees import PureDP


@pytest.mark.long
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


@pytest.mark.long
def test_keys_may_be_named_as_the_select_names_the_column() -> None:
    text = """WITH a AS (SELECT county AS area, FLOOR(age / 10) AS age FROM t)
              SELECT area, FLOOR(age / 2) AS Age, COUNT(*) AS n FROM a GROUP BY 1, 2"""
    with session() as one, pytest.raises(InvalidParameter, match="both a column"):
        one.sql(text, budget=BUDGET, keys={})
    text = text.replace("AS age FROM", "AS decade FROM").replace("FLOOR(age / 2)", "decade % 2")
    for keys in ({"area": ["A"], "Age": [0, 1]}, {"county": ["A"], "Age": [0, 1]}):
        with session() as one:
            release = one.sql(text, budget=BUDGET, keys=keys)
        assert release.groups == ("area", "Age")
        assert release.keys == (("A", 0), ("A", 1))
    with session() as one, pytest.raises(InvalidParameter, match="area, Age"):
        one.sql(text, budget=BUDGET, keys={"age": [0, 1]})
    with session() as one, pytest.raises(InvalidParameter, match="once"):
        one.sql(text, budget=BUDGET, keys={"area": ["A"], "county": ["B"], "Age": [1]})


@pytest.mark.long
def test_having_and_offset_choose_among_released_rows_by_released_values() -> None:
    text = "SELECT county AS c, COUNT(*) AS n, AVG(age) AS m FROM t GROUP BY county"
    with session() as one:
        whole = one.sql(text, budget=BUDGET)
    rows = whole.to_dicts()
    middle = sorted(row["n"] for row in rows)[1]
    for clause, expected in {
        f" HAVING COUNT(*) >= {middle}": [row for row in rows if row["n"] >= middle],
        f" HAVING n > {middle}": [row for row in rows if row["n"] > middle],
        " HAVING county = 'A'": [row for row in rows if row["c"] == "A"],
        " HAVING c = 'A' OR m < 0": [row for row in rows if row["c"] == "A" or row["m"] < 0],
        " HAVING n / 0 > 1": [],
        " HAVING NOT n IS NULL ORDER BY -n": sorted(rows, key=lambda row: -row["n"]),
        " ORDER BY CASE WHEN c = 'B' THEN 0 ELSE 1 END LIMIT 1": [rows[1]],
        " LIMIT 1 OFFSET 1": rows[1:2],
        " OFFSET 2": rows[2:],
        " OFFSET 9": [],
    }.items():
        with session() as other:
            found = other.sql(text + clause, budget=BUDGET)
        assert found.to_dicts() == expected, clause
        assert found.charge == whole.charge
        assert found.query.digest() == whole.query.digest()
        assert Release.verify(found.to_json()).holds


@pytest.mark.parametrize(
    ("clause", "argument"),
    [
        ("HAVING n", "HAVING"),
        ("HAVING c > 3", "HAVING"),
        ("HAVING n || 'x' = 'y'", "HAVING"),
        ("ORDER BY c + 1", "ORDER BY"),
    ],
)
def test_what_can_not_be_done_with_the_release_is_refused_before_it_is_paid_for(
    clause: str, argument: str
) -> None:
    text = f"SELECT county AS c, COUNT(*) AS n FROM t GROUP BY county {clause}"
    with session() as one:
        with pytest.raises(InvalidParameter) as refusal:
            one.sql(text, budget=BUDGET)
        assert refusal.value.argument == argument
        assert one.spent == PureDP(0)


@in_subtests(
    ("text", "words"),
    [
        (
            "SELECT AVG(pay) FROM t",
            "AVG(pay) needs public bounds for 'pay': open the session with columns={'pay':",
        ),
        ("SELECT COUNT(*), MEDIAN(pay) FROM t", "LEAST(GREATEST(x, 0), 100)"),
        ("SELECT CORR(age, pay) FROM t", "CORR(age, pay) needs public bounds"),
        ("SELECT AVG(1) FROM t", "COUNT(*) counts rows"),
        ("SELECT COUNT(*), AVG(county || 'x') FROM t", "expected a number where"),
        ("SELECT SUM(agee) FROM t", "Did you mean 'age'"),
        ("SELECT COUNT(*) FROM t WHERE agee > 3", "'agee' is no column of 't'"),
        ("SELECT COUNT(DISTINCT countyy) FROM t", "Did you mean 'county'"),
        ("SELECT COUNT(*) FROM u", "one of the session's tables: t"),
    ],
)
def test_what_does_not_fit_the_table_is_said_in_the_words_of_sql(text: str, words: str) -> None:
    with session() as one, pytest.raises(InvalidParameter) as refusal:
        one.read_sql(text)
    assert words in str(refusal.value)


def test_computed_columns_are_made_of_what_is_released() -> None:
    text = """SELECT county, SUM(age) / COUNT(*) AS ratio, COUNT(*) AS n, n * 2 - SUM(age) AS odd,
                     CASE WHEN COUNT(*) > 1e9 THEN 1 END AS none
              FROM t GROUP BY county HAVING ratio IS NOT NULL ORDER BY ratio DESC"""
    with session() as one:
        release = one.sql(text, budget=BUDGET)
    for row in release.to_dicts():
        assert row["ratio"] == row["sum_age"] / row["n"]
        assert row["odd"] == row["n"] * 2 - row["sum_age"]
        assert row["odd_se"] == pytest.approx(math.hypot(2 * row["n_se"], row["sum_age_se"]))
        reach = math.hypot(2 * (row["n_high"] - row["n"]), row["sum_age_high"] - row["sum_age"])
        assert row["odd_high"] - row["odd"] == pytest.approx(reach)
        assert row["none"] is None
        assert row["none_se"] is None
    assert [row["ratio"] for row in release.to_dicts()] == sorted(
        (row["ratio"] for row in release.to_dicts()), reverse=True
    )
    heads = ("county", "ratio", "n", "odd", "none", "sum_age")
    assert tuple(str(release).splitlines()[0].split()) == heads
    assert release.clamped().to_dicts()[0]["none"] is None
    assert release.computed["ratio"] == '"sum_age" / "n"'
    assert Release.verify(release.to_json()).holds
    release.to_pandas(), release.to_polars(), release.to_arrow()


def test_columns_may_have_any_name() -> None:
    text = """SELECT county AS line, COUNT(*) AS "line_", SUM(age) AS "a b""c", line_ + 1 AS lines,
                     COUNT(*) + "a b""c" AS released
              FROM t GROUP BY county HAVING line <> 'B' ORDER BY -line_"""
    with session() as one, pytest.raises(InvalidParameter, match="'line_' is no column"):
        one.sql(text, budget=BUDGET)
    with session() as one:
        release = one.sql(text.replace("line_ + 1", "COUNT(*) + 1"), budget=BUDGET)
    assert {row["line"] for row in release.to_dicts()} == {"A", "C"}
    for row in release.to_dicts():
        assert row["lines"] == row["line_"] + 1
        assert row["released"] == row["line_"] + row['a b"c']


@pytest.mark.statistical
def test_the_interval_and_the_error_of_a_ratio_hold() -> None:
    """Of 1,000 ratios of one truth 95% are covered: fewer than 91.5% have a chance below 1e-6."""
    cells = 1_000
    frame = pl.DataFrame(
        {
            "id": list(range(30 * cells)),
            "age": [20 + i % 30 for i in range(30 * cells)],
            "cell": [i // 30 for i in range(30 * cells)],
        }
    )
    text = "SELECT cell, SUM(age) / COUNT(*) AS ratio FROM t GROUP BY cell"
    facts = {"age": unacorda.Bounds(20, 60)}
    unit = unacorda.Person("id", max_rows=1)
    with opened(frame, unit=unit, columns=facts, budget=PureDP(4)) as one:
        rows = one.sql(text, budget=PureDP(4), keys={"cell": list(range(cells))}).to_dicts()
    truth = sum(range(20, 50)) / 30
    covered = sum(row["ratio_low"] <= truth <= row["ratio_high"] for row in rows)
    assert covered >= 0.915 * cells
    spread = math.sqrt(sum((row["ratio"] - truth) ** 2 for row in rows) / cells)
    promised = math.sqrt(sum(row["ratio_se"] ** 2 for row in rows) / cells)
    assert 0.85 < spread / promised < 1.15


@pytest.mark.long
def test_lines_may_be_arranged_where_keys_are_found_privately() -> None:
    text = """SELECT county AS c, "Group by" AS g, COUNT(*) AS n, SUM(age) / COUNT(*) AS r FROM t
              GROUP BY county, "Group by" HAVING n > 3 ORDER BY g DESC, n"""
    for keys, most in (
        (unacorda.private_keys(max_groups=2), 8),
        (unacorda.private_keys(max_groups=1), 0),
    ):
        with opened(
            FRAME if most else FRAME.filter(pl.col("id") < 2),
            unit=unacorda.Person("id", max_rows=2),
            budget=unacorda.ApproxDP(20, 1e-6),
            columns={"age": FACTS["age"]},
        ) as one:
            release = one.sql(
                text,
                budget=unacorda.ApproxDP(20, 1e-6),
                keys={"county": keys, "Group by": ["y", "x"]},
            )
        rows = release.to_dicts()
        assert len(rows) <= most
        assert bool(rows) == bool(most)
        assert all(row["g"] in {"x", "y"} and row["c"] in {"A", "B", "C", None} for row in rows)
        assert rows == sorted(rows, key=lambda row: (-ord(row["g"]), row["n"]))


def test_a_ratio_with_nothing_below_has_no_error() -> None:
    text = "SELECT SUM(age) / (COUNT(*) - COUNT(*)) AS r FROM t"
    with session() as one:
        (row,) = one.sql(text, budget=BUDGET).to_dicts()
    assert (row["r"], row["r_se"], row["r_low"]) == (None, None, None)


def test_reading_a_select_costs_nothing_and_can_be_explained() -> None:
    with session() as one:
        query, select = one.read_sql("SELECT county, AVG(age) AS m FROM t GROUP BY county")
        assert select.groups == ("county",)
        explanation = one.explain(query, budget=BUDGET, detail=True)
        assert one.spent == PureDP(0)
        assert "3 public keys" in str(explanation)


def test_names_of_columns_do_not_care_about_capitals() -> None:
    with session() as one, session() as other:
        low = one.sql("select COUNTY, avg(AGE) as m from t group by County", budget=BUDGET)
        high = other.sql("SELECT county, AVG(age) AS m FROM t GROUP BY county", budget=BUDGET)
    assert [row["m"] for row in low.to_dicts()] == [row["m"] for row in high.to_dicts()]


def test_arithmetic_beyond_all_numbers_is_the_last_number() -> None:
    with session() as opened_:
        release = opened_.sql(
            "SELECT POWER(COUNT(*), 1000) AS huge, -EXP(COUNT(*) + 9000) AS low FROM t",
            budget=BUDGET,
        )
    (row,) = release.to_dicts()
    assert (row["huge"], row["low"]) == (1e200, -math.exp(230.0))
    assert release.clamped().to_dicts()

    def refused(word: str) -> None:
        raise AssertionError(word)

    (written,) = json.loads(release.to_json(), parse_constant=refused)["rows"]
    assert (written["huge"], written["low"]) == (row["huge"], row["low"])
    assert Release.verify(release.to_json()).holds
