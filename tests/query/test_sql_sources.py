"""Sub-selects and WITH: filters, names and derived columns of the one question."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import pytest
from tests.query import select_sessions
from tests.query.select_sessions import steps_of
from tests.support.cases import in_subtests
from tests.support.seams import Select

from unacorda.errors import UnsafeExpression

_COLUMNS = ("id", "age", "weight", "height", "county", "day", "Mixed")


def read(text: str) -> Select:
    return select_sessions.read(text, _COLUMNS)


def arguments(text: str) -> list[tuple[str, ...]]:
    return [item.arguments for item in read(text).aggregates]


@in_subtests(
    ("text", "expected"),
    [
        (
            "WITH a AS (SELECT * FROM t WHERE age >= 18) SELECT COUNT(*) FROM a WHERE weight > 50",
            ['"age" >= 18', '"weight" > 50'],
        ),
        (
            "SELECT AVG(bmi) FROM (SELECT weight / (height * height) AS bmi FROM t) AS s",
            ['bmi = "weight" / ("height" * "height")'],
        ),
        (
            """WITH a AS (SELECT age AS years, weight FROM t WHERE height > 1),
                    b AS (SELECT years + 1 AS next, weight * 2 AS weight FROM a WHERE years > 18)
               SELECT AVG(next), SUM(weight) FROM b WHERE next < 99""",
            [
                '"height" > 1',
                '"age" > 18',
                'next = "age" + 1',
                'weight (2) = "weight" * 2',
                '"next" < 99',
            ],
        ),
        ("SELECT COUNT(*) FROM ((SELECT * FROM (SELECT * FROM t)))", []),
        ("WITH t AS (SELECT * FROM t WHERE age > 3) SELECT COUNT(*) FROM t", ['"age" > 3']),
        (
            "WITH a AS MATERIALIZED (SELECT *, 1 AS one FROM t) SELECT SUM(one) FROM A WHERE age>3",
            ["one = 1", '"age" > 3'],
        ),
        (
            """WITH a AS (SELECT FLOOR(age / 10) AS d FROM t)
               SELECT FLOOR(d / 2) AS age, COUNT(*) FROM a GROUP BY age""",
            ['d = FLOOR("age" / 10)', 'age (2) = FLOOR("d" / 2)'],
        ),
        (
            """SELECT s.x, COUNT(*) FROM (SELECT v.age AS x FROM t AS v WHERE v.age > 3) AS s
               WHERE s.x < 9 GROUP BY s.x""",
            ['"age" > 3', '"age" < 9'],
        ),
    ],
)
def test_the_steps_of_a_sub_select(text: str, expected: list[str]) -> None:
    assert steps_of(read(text)) == expected


def test_renamed_columns_are_the_columns() -> None:
    found = read(
        "WITH a AS (SELECT id AS who, county AS area, age AS years FROM t) "
        "SELECT area, COUNT(DISTINCT who) AS n, AVG(years) FROM a GROUP BY area HAVING area <> 'A'"
    )
    assert found.groups == ("county",)
    assert found.shown == ("area",)
    assert [item.arguments for item in found.aggregates] == [("id",), ('"age"',)]
    assert found.items[1].alias == "avg_years"
    assert found.having == "\"area\" <> 'A'"
    assert found.group_names == {"area": "county", "county": "county"}


def test_a_group_that_is_not_selected_is_shown_by_its_name() -> None:
    found = read("SELECT COUNT(*) FROM (SELECT county AS area FROM t) GROUP BY area")
    assert (found.groups, found.shown) == (("county",), ("area",))


def test_swapped_names_are_swapped() -> None:
    text = (
        "WITH a AS (SELECT age AS weight, weight AS age FROM t) SELECT SUM(age), SUM(weight) FROM a"
    )
    assert arguments(text) == [('"weight"',), ('"age"',)]


def test_names_care_about_capitals_no_more_than_elsewhere() -> None:
    text = 'WITH a AS (SELECT mixed AS "Ab c" FROM t) SELECT SUM("AB C") FROM A'
    assert arguments(text) == [('"mixed"',)]


@in_subtests(
    ("text", "word"),
    [
        ("WITH a AS (SELECT age FROM t) SELECT SUM(weight) FROM a", "'weight' is no column of 'a'"),
        ("WITH a AS (SELECT age AS b FROM t) SELECT SUM(age) FROM a", "'age' is no column"),
        ("SELECT SUM(age) FROM (SELECT weight FROM t)", "no column of 'the sub-select'"),
        ("SELECT SUM(x.age) FROM (SELECT age FROM t) AS y", "column's name"),
        ("WITH a AS (SELECT age FROM t) SELECT SUM(t.age) FROM a", "column's name"),
        ("WITH a AS (SELECT age + 1 FROM t) SELECT COUNT(*) FROM a", "has no name"),
        ("WITH a AS (SELECT CAST(age AS INTEGER) FROM t) SELECT COUNT(*) FROM a", "has no name"),
        ("WITH a AS (SELECT age AS x, weight AS X FROM t) SELECT COUNT(*) FROM a", "two columns"),
        ("WITH a AS (SELECT *, age + 1 AS AGE FROM t) SELECT COUNT(*) FROM a", "two columns"),
        ("WITH a AS (SELECT *, * FROM t) SELECT COUNT(*) FROM a", "twice"),
        (
            "WITH a AS (SELECT age FROM t), b AS (SELECT age, * FROM a) SELECT COUNT(*) FROM b",
            "twice",
        ),
        ("WITH a AS (SELECT COUNT(*) AS n FROM t) SELECT SUM(n) FROM a", "sub-select aggregates"),
        ("WITH a AS (SELECT ROW_NUMBER() OVER () AS n FROM t) SELECT SUM(n) FROM a", "aggregates"),
        ("WITH a AS (SELECT random() AS n FROM t) SELECT SUM(n) FROM a", "random"),
        ("WITH a AS (SELECT age FROM t WHERE SUM(age) > 1) SELECT COUNT(*) FROM a", "SUM"),
        ("WITH a AS (SELECT age FROM t GROUP BY age) SELECT COUNT(*) FROM a", "GROUP BY"),
        ("WITH a AS (SELECT age FROM t ORDER BY age) SELECT COUNT(*) FROM a", "ORDER BY"),
        ("WITH a AS (SELECT age FROM t LIMIT 3) SELECT COUNT(*) FROM a", "LIMIT"),
        ("WITH a AS (SELECT DISTINCT age FROM t) SELECT COUNT(*) FROM a", "DISTINCT"),
        ("WITH a AS (SELECT age FROM t HAVING age > 1) SELECT COUNT(*) FROM a", "HAVING"),
        ("WITH a AS (SELECT age FROM t, u) SELECT COUNT(*) FROM a", "second table"),
        ("WITH a AS (SELECT age FROM t UNION SELECT 1) SELECT COUNT(*) FROM a", "UNION ALL"),
        ("WITH a AS (SELECT 1 AS x) SELECT COUNT(*) FROM a", "no FROM"),
        ("WITH a AS (VALUES (1)) SELECT COUNT(*) FROM a", "plain table"),
        ("WITH a(x) AS (SELECT age FROM t) SELECT COUNT(*) FROM a", "unknown form"),
        ("WITH RECURSIVE a AS (SELECT age FROM a) SELECT COUNT(*) FROM a", "RECURSIVE"),
        ("WITH a AS (SELECT age FROM t), A AS (SELECT age FROM t) SELECT COUNT(*) FROM a", "twice"),
        ("WITH a AS (WITH b AS (SELECT 1) SELECT * FROM b) SELECT COUNT(*) FROM a", "WITH"),
        ("WITH a AS (DELETE FROM t) SELECT COUNT(*) FROM a", "sub-select"),
        ("WITH a AS (SELECT * EXCLUDE (age) FROM t) SELECT COUNT(*) FROM a", "*"),
        ("WITH a AS (SELECT t.* FROM t) SELECT COUNT(*) FROM a", "*"),
        ("WITH a AS (SELECT age FROM t) SELECT * FROM a", "*"),
        ("WITH a AS (SELECT age FROM t) SELECT age FROM a", "no aggregate"),
        ("SELECT COUNT(*) FROM LATERAL (SELECT age FROM t) AS s", "plain table"),
        ("SELECT COUNT(*) FROM (SELECT age FROM t) AS s(x)", "plain table"),
        ("SELECT COUNT(*) FROM (SELECT age FROM t) TABLESAMPLE 10%", "plain table"),
        ("SELECT COUNT(*) FROM (t)", "sub-select"),
        ("SELECT COUNT(*) FROM (SELECT age FROM t) JOIN u ON TRUE", "JOIN"),
        ("WITH a AS (SELECT age FROM t) DELETE FROM a", "SELECT"),
        ("WITH a AS (SELECT age FROM t)", "not understood"),
    ],
)
def test_what_a_sub_select_can_not_do(text: str, word: str) -> None:
    with pytest.raises(UnsafeExpression) as refusal:
        read(text)
    assert word.lower() in refusal.value.reason.lower() + refusal.value.hint.lower()
    assert refusal.value.hint


@pytest.mark.long
def test_a_long_chain_of_sub_selects_is_read_or_refused() -> None:
    def chain(length: int) -> str:
        entries = ["a0 AS (SELECT age + 1 AS x FROM t)"]
        entries += [f"a{i} AS (SELECT x + x AS x FROM a{i - 1})" for i in range(1, length)]
        return f"WITH {', '.join(entries)} SELECT SUM(x) FROM a{length - 1}"

    found = read(chain(20))
    assert [step.partition(" = ")[0] for step in steps_of(found)] == [
        "x",
        *(f"x ({i})" for i in range(2, 21)),
    ]
    with pytest.raises(UnsafeExpression, match="more than 20"):
        read(chain(21))
    wide = ", ".join(f"age + {i} AS c{i}" for i in range(101))
    with pytest.raises(UnsafeExpression, match="more than 100 steps"):
        read(f"SELECT SUM(c1) FROM (SELECT {wide} FROM t)")
    deep = "(SELECT * FROM " * 60 + "t" + ")" * 60
    with pytest.raises(UnsafeExpression, match="nested"):
        read(f"SELECT COUNT(*) FROM {deep}")
