"""Sub-selects that group by the person ask what `per_person` asks."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from tests.support.cases import in_subtests
from tests.support.seams import Fact, Query

import unacorda
from unacorda import any_, count_, first_, last_, max_, mean_, min_, sum_
from unacorda.errors import InvalidParameter, MissingBound, UnsafeExpression

LABS = {
    "id": [1, 1, 2, 3],
    "day": [1, 2, 1, 1],
    "test": ["hdl", "ldl", "hdl", "ldl"],
    "value": [40.0, 50.0, 60.0, 70.0],
    "dose": [1, 2, 3, 4],
    "sex": ["f", "f", "m", "f"],
}
PEOPLE = {"id": [1, 2, 3], "age": [30, 40, 50]}
FACTS: dict[str, Fact] = {"value": unacorda.Bounds(0, 300), "sex": unacorda.Categories(["f", "m"])}


def session_of(unit: unacorda.Person | unacorda.Row | None = None) -> unacorda.Session:
    return unacorda.Session(
        {"labs": pa.table(LABS), "people": pa.table(PEOPLE)},
        unit=unacorda.Person("id", max_rows=5) if unit is None else unit,
        columns=FACTS,
        budget=unacorda.PureDP(100),
    )


Build = Callable[[Query, Query], Query]
SAME: dict[str, tuple[str, Build]] = {
    "the greatest": (
        (
            "SELECT AVG(m) AS a FROM (SELECT id, MAX(value) AS m FROM labs WHERE test = 'hdl' "
            "GROUP BY id)"
        ),
        lambda labs, _: (
            labs.where("\"test\" = 'hdl'").per_person(m=max_("value")).agg(a=unacorda.mean("m"))
        ),
    ),
    "with": (
        (
            "WITH p AS (SELECT labs.id AS who, LAST(value ORDER BY day) AS l, "
            "MIN_BY(value, day) AS f FROM labs GROUP BY who HAVING COUNT(*) > 2 AND l > 3) "
            "SELECT AVG(p.l - f) AS a, COUNT(DISTINCT who) AS n FROM p WHERE who < 9"
        ),
        lambda labs, _: (
            labs.per_person(l=last_("value", by="day"), f=first_("value", by="day"), value=count_())
            .where('"value" > 2 AND "l" > 3')
            .where('"id" < 9')
            .agg(a=unacorda.mean('"l" - "f"'), n=unacorda.count_people())
        ),
    ),
    "groups and conditions": (
        (
            "SELECT sex, COUNT(*) AS n FROM (SELECT MIN(sex) AS sex, BOOL_OR(test = 'hdl') "
            "AS ever, SUM(dose) FILTER (WHERE test = 'ldl') AS s, COUNT(value) AS c FROM labs "
            "GROUP BY person) WHERE ever AND c > 1 AND s > 3 GROUP BY sex"
        ),
        lambda labs, _: (
            labs.per_person(
                sex=min_("sex"),
                ever=any_("\"test\" = 'hdl'"),
                s=sum_('CASE WHEN "test" = \'ldl\' THEN "dose" ELSE NULL END'),
                c=count_("value"),
            )
            .where('"ever" AND "c" > 1 AND "s" > 3')
            .group_by("sex")
            .agg(n=unacorda.count())
        ),
    ),
    "computed with": (
        (
            "SELECT AVG(spread) AS a FROM (SELECT id, MAX(value) - MIN(value) AS spread FROM labs "
            "GROUP BY 1)"
        ),
        lambda labs, _: (
            labs.per_person(value=max_("value"), **{"value (2)": min_("value")})
            .derive(spread='"value" - "value (2)"')
            .agg(a=unacorda.mean("spread"))
        ),
    ),
    "joined": (
        (
            "SELECT AVG(m) AS a FROM (SELECT id, AVG(value) AS m FROM labs GROUP BY id) a "
            "JOIN people p ON p.id = a.id WHERE p.age > 35"
        ),
        lambda labs, people: (
            labs.per_person(m=mean_("value"))
            .join(people, columns=["age"], max_rows=(1, 5))
            .where('"age" > 35')
            .agg(a=unacorda.mean("m"))
        ),
    ),
    "joined with values": (
        (
            "SELECT COUNT(*) AS n FROM (SELECT id, MAX(value) AS m FROM labs GROUP BY id) AS a "
            "JOIN (SELECT id, MIN(age) AS age FROM people GROUP BY id) AS b USING (id) "
            "WHERE m > age"
        ),
        lambda labs, people: (
            labs.per_person(m=max_("value"))
            .join(people.per_person(age=min_("age")), columns=["age"])
            .where('"m" > "age"')
            .agg(n=unacorda.count())
        ),
    ),
}


@in_subtests("name", SAME)
def test_a_select_asks_what_the_steps_ask(name: str) -> None:
    text, build = SAME[name]
    with session_of() as session:
        query = build(session.table("labs"), session.table("people"))
        budget = unacorda.PureDP(1)
        ours, theirs = (session.explain(one, budget=budget) for one in (text, query))
        assert ours.to_dict() == theirs.to_dict()
        release = session.evaluate(text, budget=budget)
        stated = release.to_json()
        assert unacorda.Release.verify(stated).holds
        assert query.digest() in stated


def test_an_id_that_is_an_expression_can_be_selected() -> None:
    table = pa.table({"email": ["A", "a", "b", None], "x": [1.0, 2.0, 3.0, 4.0]})
    person = unacorda.Person("lower(email)", max_rows=1)
    with unacorda.Session({"t": table}, unit=person, budget=unacorda.PureDP(2000)) as session:
        for who in ("LOWER(email) AS who", "person AS who"):
            text = f"SELECT COUNT(*) AS n, COUNT(who) AS m FROM (SELECT {who}, MAX(x) AS x FROM t "
            text += "GROUP BY lower(email)) WHERE who <> 'b' AND x = 2"
            (line,) = session.evaluate(text, budget=unacorda.PureDP(900)).to_dicts()
            assert (round(line["n"]), round(line["m"])) == (1, 1)


def in_select(inside: str) -> str:
    return f"SELECT COUNT(*) AS n FROM ({inside})"


REFUSED: dict[str, tuple[str, type[InvalidParameter], str]] = {
    "another column too": (
        "SELECT id, test, MAX(value) AS m FROM labs GROUP BY id, test",
        UnsafeExpression,
        r"'test', which is not the person. Group it by the person \(id\) alone",
    ),
    "no person": (
        "SELECT test, MAX(value) AS m FROM labs GROUP BY test",
        UnsafeExpression,
        "FILTER",
    ),
    "a column that is not aggregated": (
        "SELECT id, test, MAX(value) AS m FROM labs GROUP BY id",
        UnsafeExpression,
        r"neither aggregated nor the person.*MIN\(test\)",
    ),
    "no bounds": (
        "SELECT id, AVG(dose) AS m FROM labs GROUP BY id",
        MissingBound,
        r"AVG\(dose\).*LEAST\(GREATEST\(x, 0\), 100\)",
    ),
    "a median": (
        "SELECT id, MEDIAN(value) AS m FROM labs GROUP BY id",
        UnsafeExpression,
        "BOOL_OR",
    ),
    "distinct values": (
        "SELECT id, COUNT(DISTINCT test) AS m FROM labs GROUP BY id",
        UnsafeExpression,
        "in another way",
    ),
    "no order": (
        "SELECT id, FIRST(value) AS m FROM labs GROUP BY id",
        UnsafeExpression,
        "ORDER BY",
    ),
    "two orders": (
        "SELECT id, FIRST(value ORDER BY day, dose) AS m FROM labs GROUP BY id",
        UnsafeExpression,
        "with one column",
    ),
    "no name": ("SELECT id, MAX(value) FROM labs GROUP BY id", UnsafeExpression, "AS highest"),
    "a name twice": (
        "SELECT id, MAX(value) AS m, MIN(value) AS M FROM labs GROUP BY id",
        UnsafeExpression,
        "two columns",
    ),
    "all columns": ("SELECT * FROM labs GROUP BY id", UnsafeExpression, r"rows \(\*\)"),
    "all groups": ("SELECT id FROM labs GROUP BY ALL", UnsafeExpression, "another way"),
    "an order of lines": (
        "SELECT id, MAX(value) AS m FROM labs GROUP BY id ORDER BY m",
        UnsafeExpression,
        "ORDER BY",
    ),
    "no group": ("SELECT MAX(value) AS m FROM labs", UnsafeExpression, "GROUP BY id"),
    "a condition that is none": (
        "SELECT id, BOOL_OR(value) AS m FROM labs GROUP BY id",
        InvalidParameter,
        r"SELECT='BOOL_OR\(value\)'",
    ),
}


@in_subtests("name", REFUSED)
def test_what_a_sub_select_of_people_can_not_do(name: str) -> None:
    inside, kind, said = REFUSED[name]
    with session_of() as session:
        with pytest.raises(kind, match=said) as caught:
            session.evaluate(in_select(inside), budget=unacorda.PureDP(1))
        assert "^" in str(caught.value)
        assert session.spent == unacorda.PureDP(0)


def test_single_rows_have_no_person_in_a_select() -> None:
    text = in_select("SELECT id, MAX(value) AS m FROM labs GROUP BY id")
    with session_of(unacorda.Row()) as session, pytest.raises(UnsafeExpression, match="Person"):
        session.evaluate(text, budget=unacorda.PureDP(1))


@in_subtests(
    ("value", "said"),
    [
        ("MAX(dose)", "columns={'dose': unacorda.Bounds(0, 100)}"),
        ("LAST(dose ORDER BY day)", "columns={'dose': unacorda.Bounds(0, 100)}"),
        ("COUNT(*)", "LEAST(GREATEST(m, 0), 100)"),
        ("SUM(value)", "LEAST(GREATEST(m, 0), 100)"),
    ],
)
def test_bounds_are_asked_for_of_the_column_of_the_table(value: str, said: str) -> None:
    text = f"SELECT AVG(m) AS a FROM (SELECT id, {value} AS m FROM labs GROUP BY id)"
    with session_of() as session, pytest.raises(InvalidParameter) as caught:
        session.evaluate(text, budget=unacorda.PureDP(1))
    assert said in str(caught.value)
    assert caught.value.column in ("dose", None)
