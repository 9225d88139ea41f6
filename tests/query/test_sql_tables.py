"""SELECTs over several tables ask what the same steps in Python ask."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from tests.support.cases import in_subtests
from tests.support.seams import Query

import unacorda
from unacorda.errors import InvalidParameter, UnsafeExpression

VISITS = {
    "pid": [1, 1, 2, 3],
    "zip": ["a", "b", "a", None],
    "x": [1.0, 2.0, 3.0, 4.0],
    "day": ["d", "e", "d", "e"],
    "odd": [[1], [2], [3], [4]],
}
LABS = {"patient": [1, 2, 2], "x": [0.5, 0.6, 0.7], "day": ["d", "d", "e"], "pid": [9, 9, 9]}
ZIPS = {"zip": ["a", "a", "b"], "pop": [10, 20, 30], "region": ["N", "S", "N"]}


def session_of(**limits: Any) -> unacorda.Session:
    limits = limits or {"max_rows": 4}
    return unacorda.Session(
        {"visits": pa.table(VISITS), "labs": pa.table(LABS)},
        unit=unacorda.Person({"visits": "pid", "labs": "patient"}, **limits),
        budget=unacorda.PureDP(10),
        public={"zips": pa.table(ZIPS)},
    )


Build = Callable[[Query, Query], Query]
SAME: dict[str, tuple[str, Build]] = {
    "using": (
        ("SELECT region, COUNT(*) AS n, SUM(pop) AS s FROM visits JOIN zips USING (zip) "
        "WHERE x > 1 GROUP BY region"),
        lambda v, _: v.join("zips", "zip")
        .where('"x" > 1')
        .group_by("region")
        .agg(n=unacorda.count(), s=unacorda.sum("pop")),
    ),
    "on, with names": (
        ("SELECT COUNT(*) AS n, SUM(z.pop) AS s FROM visits AS v LEFT OUTER JOIN zips z "
        "ON (z.zip = v.zip) WHERE v.x > 1 AND z.region = 'N'"),
        lambda v, _: v.join("zips", "zip", how="left")
        .where("\"x\" > 1 AND \"region\" = 'N'")
        .agg(n=unacorda.count(), s=unacorda.sum("pop")),
    ),
    "people": (
        ("SELECT COUNT(*) AS n, COUNT(DISTINCT v.pid) AS p, COUNT(l.x) AS y FROM visits v "
        "JOIN labs l ON v.pid = l.patient AND l.day = v.day"),
        lambda v, u: v.join(
            u, {"pid": "patient", "day": "day"}, columns={"l.x": "x"}, max_rows=(4, 4)
        ).agg(n=unacorda.count(), p=unacorda.count_people(), y=unacorda.count('"l.x"')),
    ),
    "sides": (
        ("WITH l AS (SELECT patient, x * 2 AS twice FROM labs WHERE day = 'd') "
        "SELECT COUNT(twice) AS n FROM (SELECT pid, zip FROM visits WHERE x > 1) AS v "
        "JOIN l ON pid = patient JOIN zips USING (zip)"),
        lambda v, u: v.where('"x" > 1')
        .join(
            u.where("\"day\" = 'd'").derive(twice='"x" * 2'),
            columns=["twice"],
            max_rows=4,
        )
        .join("zips", "zip", columns=[])
        .agg(n=unacorda.count('"twice"')),
    ),
    "union": (
        ("SELECT COUNT(*) AS n, SUM(LEAST(GREATEST(x, 0), 5)) AS s FROM (SELECT x, day FROM visits "
        "UNION ALL SELECT x, day FROM labs WHERE x > 0.5) AS both WHERE both.day = 'd'"),
        lambda v, u: v.union(u.where('"x" > 0.5'))
        .where("\"day\" = 'd'")
        .agg(n=unacorda.count(), s=unacorda.sum('LEAST(GREATEST("x", 0), 5)')),
    ),
    "the same table twice": (
        "SELECT COUNT(*) AS n FROM visits AS a JOIN visits AS b USING (pid) WHERE b.x > a.x",
        lambda v, _: v.join(
            v, columns={"b.x": "x", "b.zip": "zip", "b.day": "day"}, max_rows=4
        )
        .where('"b.x" > "x"')
        .agg(n=unacorda.count()),
    ),
}  # fmt: skip


@in_subtests("name", SAME)
def test_a_select_is_the_question_in_python(name: str) -> None:
    text, build = SAME[name]
    with session_of() as session:
        asked, _ = session.read_sql(text)
        built = build(session.table("visits"), session.table("labs"))
        assert asked.digest() == built.digest(), (asked, built)
        assert str(session.explain(text, budget=unacorda.PureDP(1)))


REFUSED: dict[str, tuple[str, str]] = {
    "a comma": ("SELECT COUNT(*) FROM visits, zips", "without columns to compare"),
    "a cross join": ("SELECT COUNT(*) FROM visits CROSS JOIN zips", "JOIN of another kind"),
    "a full join": ("SELECT COUNT(*) FROM visits FULL JOIN zips USING (zip)", "of another kind"),
    "an inequality": ("SELECT COUNT(*) FROM visits v JOIN zips z ON v.x < z.pop", "v.x < z.pop"),
    "a constant": ("SELECT COUNT(*) FROM visits v JOIN zips z ON z.pop = 10", "z.pop = 10"),
    "one side": ("SELECT COUNT(*) FROM visits v JOIN zips z ON z.pop = z.zip", "of both sides"),
    "an or": ("SELECT COUNT(*) FROM visits v JOIN zips z ON v.zip = z.zip OR TRUE", "compares"),
    "a column twice": (
        "SELECT COUNT(*) FROM visits v JOIN zips z ON v.zip = z.zip AND v.zip = z.region",
        "compares a column of the left side with two",
    ),
    "two of a name": ("SELECT COUNT(*) FROM visits JOIN visits USING (pid)", "Name them apart"),
    "not on the person": ("SELECT COUNT(*) FROM visits JOIN labs USING (day)", "the person's id"),
    "on another person": ("SELECT COUNT(*) FROM visits JOIN labs USING (pid)", "the person's id"),
    "a name of both": (
        "SELECT COUNT(x) FROM visits v JOIN labs l ON v.pid = l.patient",
        "Write the table before it: v.x or l.x",
    ),
    "a column that is compared": (
        "SELECT COUNT(z.zip) FROM visits v JOIN zips z USING (zip)",
        "'z.zip' is no column of",
    ),
    "an unknown table": ("SELECT COUNT(q.x) FROM visits v JOIN zips z USING (zip)", "'q.x' is no"),
    "a public table first": (
        "SELECT COUNT(*) FROM zips JOIN visits USING (zip)",
        "'zips' is none of the",
    ),
    "a public sub-select": (
        "SELECT COUNT(*) FROM visits JOIN (SELECT zip FROM zips WHERE pop > 1) AS z USING (zip)",
        "a public table by its name alone",
    ),
    "a column of no type": (
        "SELECT COUNT(b.odd) FROM visits a JOIN visits b USING (pid)",
        "a column of the table",
    ),
    "a union without all": (
        "SELECT COUNT(*) FROM (SELECT x FROM visits UNION SELECT x FROM labs)",
        "Write UNION ALL",
    ),
    "a union of other columns": (
        "SELECT COUNT(*) FROM (SELECT x FROM visits UNION ALL SELECT day FROM labs)",
        "list other columns",
    ),
    "a union with itself": (
        (
            "WITH RECURSIVE a AS (SELECT x FROM visits UNION ALL SELECT x FROM a) "
            "SELECT COUNT(*) FROM a"
        ),
        "WITH RECURSIVE",
    ),
    "a union that is not there": (
        "WITH a AS (SELECT x FROM visits UNION ALL SELECT x FROM a) SELECT COUNT(*) FROM a",
        "one of the session's tables",
    ),
    "a union of releases": (
        "SELECT COUNT(*) AS n FROM visits UNION ALL SELECT COUNT(*) AS n FROM labs",
        "UNION",
    ),
}


@pytest.fixture(scope="module")
def shared() -> Iterator[unacorda.Session]:
    with session_of() as session:
        yield session


@in_subtests("name", REFUSED)
def test_refusals_name_the_mend(name: str, shared: unacorda.Session) -> None:
    text, words = REFUSED[name]
    with pytest.raises((UnsafeExpression, InvalidParameter)) as caught:
        shared.sql(text, budget=unacorda.PureDP(1))
    assert words in str(caught.value), str(caught.value)
    assert caught.value.drawing
    assert shared.remaining == unacorda.PureDP(10)


def test_a_join_of_people_needs_a_bound_on_their_rows() -> None:
    text = "SELECT COUNT(*) FROM visits v JOIN labs l ON v.pid = l.patient"
    with session_of(max_groups=2, max_rows_per_group=3) as session:
        with pytest.raises(InvalidParameter, match=r"JOIN=.*Person.*max_rows="):
            session.sql(text, budget=unacorda.PureDP(1))
        session.sql("SELECT COUNT(*) FROM visits JOIN zips USING (zip)", budget=unacorda.PureDP(1))


def test_a_join_of_people_with_many_rows_takes_some_of_them() -> None:
    text = "SELECT COUNT(*) FROM visits v JOIN labs l ON v.pid = l.patient"
    with session_of(max_rows=500) as session:
        query: Any = session.read_sql(text)[0]
        assert query.rows.source.max_rows == (31, 31)  # 961 rows together, of 1,000 at most


def test_columns_of_types_that_nothing_reads_stay_behind() -> None:
    text = "SELECT COUNT(*) AS n FROM visits AS a JOIN visits AS b USING (pid)"
    with session_of() as session:
        query: Any = session.read_sql(text)[0]
        assert "b.odd" not in query.scope.leaves
