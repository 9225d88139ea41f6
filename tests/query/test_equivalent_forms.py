"""A condition counts the same rows wherever it stands, and what counts too few is named."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.query.exact_answers import exact
from tests.support.seams import Aggregate, Person, Query, Session, filtered_in_words, rows_question

import unacorda

UNITS = (
    {"max_rows": 1},
    {"max_rows": 3},
    {"max_rows": 100},
    {"max_groups": 1, "max_rows_per_group": 2},
    {"max_rows": 4, "max_groups": 2},
)
REGIONS = ("a", "b", "c")


def tables(seed: int) -> dict[str, pa.Table]:
    source = random.Random(seed)
    who = [source.randrange(12) for _ in range(80)]
    visits = pa.table(
        {
            "who": who,
            "region": [source.choice([*REGIONS, None]) for _ in who],
            "tags": [source.choice(["p,q", "p", "q,r,s", None]) for _ in who],
            "x": pa.array([source.choice([None, -1.0, 0.5, 3.0, 4.0]) for _ in who], pa.float64()),
        }
    )
    ids = list(range(0, 12, 2))
    return {"visits": visits, "people": pa.table({"who": ids, "age": [20 + 5 * i for i in ids]})}


def opened(seed: int, limits: Mapping[str, int]) -> Session:
    zips = pa.table({"region": ["a", "b", "b"], "kind": ["far", "near", "near"]})
    unit = Person("who", **limits)  # type: ignore[arg-type]
    return Session(
        tables(seed),
        unit=unit,
        budget=unacorda.PureDP(9),
        public={"zips": zips},
        bits=unacorda.SeededBits(3),
    )


conditions = st.sampled_from(
    [
        "x > 1",
        "x IS NULL",
        "x IS NOT NULL",
        "region = 'a' OR x < 0",
        "x > 100",
        "who > 3",
        "x = 0.5",
    ]
)
asked = given(
    condition=conditions,
    limits=st.sampled_from(UNITS),
    seed=st.integers(0, 3),
    grouped=st.booleans(),
)


def rows_of(session: Session, query: Query, *, grouped: bool, **aggregates: Any) -> list[int]:
    found = query.group_by("region", keys=REGIONS) if grouped else query
    (answers,) = exact(session, found.agg(**aggregates)).values()
    return [int(Fraction(answer)) for answer in answers]


@pytest.mark.long
@settings(max_examples=25)
@asked
def test_rows_that_fulfil_a_condition_are_as_many_in_every_form(
    condition: str, limits: Mapping[str, int], seed: int, grouped: bool
) -> None:
    case = f"CASE WHEN {condition} THEN 1"
    forms: Mapping[str, Aggregate] = {
        "if": unacorda.count_if(condition),
        "case": unacorda.count(f"{case} END"),
        "sum": unacorda.sum(f"{case} END", 0, 1),
        "sum of zeros": unacorda.sum(f"{case} ELSE 0 END", 0, 1),
        "total": unacorda.sum(f"{case} ELSE 0 END"),
    }
    with opened(seed, limits) as session:
        table = session.table("visits")
        where = rows_of(session, table.where(condition), grouped=grouped, n=unacorda.count())
        for name, form in forms.items():
            assert rows_of(session, table, grouped=grouped, n=form) == where, name


@pytest.mark.long
@settings(max_examples=25)
@asked
def test_people_with_such_a_row_are_as_many_in_every_form(
    condition: str, limits: Mapping[str, int], seed: int, grouped: bool
) -> None:
    case = f"CASE WHEN {condition} THEN 1 END"
    with opened(seed, limits) as session:
        table = session.table("visits")
        where = table.where(condition)
        alone = rows_of(session, where, grouped=grouped, n=unacorda.count_people())
        filtered = rows_of(session, table, grouped=grouped, n=unacorda.count_people(case))
    assert alone == filtered


SELECTS = (
    "SELECT COUNT(*) AS n FROM visits WHERE x > 1",
    "SELECT COUNT(*) AS n FROM (SELECT * FROM visits WHERE x > 1) AS v",
    "WITH v AS (SELECT * FROM visits WHERE x > 1) SELECT COUNT(*) AS n FROM v",
    "SELECT COUNT(*) FILTER (WHERE x > 1) AS n FROM visits",
    "SELECT COUNT_IF(x > 1) AS n FROM visits",
    "SELECT COUNT(CASE WHEN x > 1 THEN who END) AS n FROM visits",
)


@pytest.mark.parametrize("select", SELECTS)
def test_selects_with_the_condition_elsewhere_have_one_answer(select: str) -> None:
    answers = set()
    for text in (SELECTS[0], select):
        with opened(1, {"max_rows": 2}) as session:
            release = session.sql(text, budget=unacorda.PureDP(1))
        assert "filtered" not in str(release)
        answers.add(tuple(release.answers["n"].values))
    assert len(answers) == 1


def test_a_condition_that_not_all_aggregates_have_is_named() -> None:
    with opened(1, {"max_rows": 2}) as session:
        table, budget = session.table("visits"), unacorda.PureDP(1)
        late = "large: filtered after at most 2 rows per who were kept: the count is too low"
        query = table.agg(n=unacorda.count(), large=unacorda.count_if("x > 1"))
        assert f"{late}; use WHERE" in str(session.explain(query, budget=budget))
        release = session.evaluate(query, budget=budget)
        assert f"{late}; use WHERE" in str(release)
        assert f"{late}; use WHERE" in release.provenance
        for alone in (
            table.agg(large=unacorda.count_if("x > 1")),
            table.agg(
                large=unacorda.count_if("x > 1"),
                m=unacorda.mean("CASE WHEN x > 1 THEN x END", 0, 9),
            ),
            table.agg(
                n=unacorda.count(), people=unacorda.count_people("CASE WHEN x > 1 THEN 1 END")
            ),
            table.agg(n=unacorda.count(), m=unacorda.mean("x", 0, 9)),
        ):
            assert "filtered" not in str(session.explain(alone, budget=budget))


def test_questions_asked_together_count_what_each_counts_alone() -> None:
    with opened(1, {"max_rows": 2}) as session:
        table = session.table("visits")
        large, every = table.agg(n=unacorda.count_if("x > 1")), table.agg(n=unacorda.count())
        explained = session.explain([large, every, every], budget=unacorda.PureDP(1))
        assert explained.scans == 2


def joined(visits: Query) -> Query:
    return visits.join("zips", on="region")


JOINS: Mapping[str, tuple[Callable[[Session, str], Query], Callable[[Session, str], Query]]] = {
    "a public table, several rows of which meet one": (
        lambda s, c: s.table("visits").where(c).join("zips", on="region"),
        lambda s, c: s.table("visits").join("zips", on="region").where(c),
    ),
    "the same by a derived column": (
        lambda s, c: s.table("visits").where(c).join("zips", on="region"),
        lambda s, c: s.table("visits").join("zips", on="region").derive(ok=c).where("ok"),
    ),
    "parts of a text": (
        lambda s, c: s.table("visits").where(c).explode("tags", most=3),
        lambda s, c: s.table("visits").explode("tags", most=3).where(c),
    ),
    "the left of two private tables": (
        lambda s, c: s.table("visits").where(c).join(s.table("people"), max_rows=(2, 1)),
        lambda s, c: s.table("visits").join(s.table("people"), max_rows=(2, 1)).where(c),
    ),
    "the left of a left join": (
        lambda s, c: s.table("visits").where(c).join(s.table("people"), how="left", max_rows=2),
        lambda s, c: s.table("visits").join(s.table("people"), how="left", max_rows=2).where(c),
    ),
    "the right of two private tables": (
        lambda s, c: s.table("people").join(s.table("visits").where(c), max_rows=(1, 2)),
        lambda s, c: s.table("people").join(s.table("visits"), max_rows=(1, 2)).where(c),
    ),
    "under another name": (
        lambda s, c: s.table("people").join(s.table("visits").where(c), max_rows=(1, 2)),
        lambda s, c: (
            s.table("people")
            .join(s.table("visits"), columns={"y": "x", "part": "region"}, max_rows=(1, 2))
            .derive(z="y + 0")
            .where(c.replace("x", "z").replace("region", "part"))
        ),
    ),
    "a side within a side": (
        lambda s, c: (
            s.table("visits")
            .where(c)
            .join("zips", on="region")
            .join(s.table("people"), max_rows=(2, 1))
        ),
        lambda s, c: (
            s.table("visits")
            .join("zips", on="region")
            .join(s.table("people"), max_rows=(2, 1))
            .where(c)
        ),
    ),
    "a union of joins": (
        lambda s, c: joined(s.table("visits").where(c)).union(joined(s.table("visits").where(c))),
        lambda s, c: joined(s.table("visits")).union(joined(s.table("visits"))).where(c),
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("name", JOINS)
@pytest.mark.parametrize("limits", [{"max_rows": 1}, {"max_rows": 3}, {"max_rows": 100}], ids=str)
def test_a_condition_behind_a_join_counts_what_it_counts_before(
    name: str, limits: Mapping[str, int]
) -> None:
    before, behind = JOINS[name]
    moved = 0
    for seed, condition in itertools.product(
        range(2), ("x > 1", "region = 'a' OR x < 0", "x = 0.5")
    ):
        with opened(seed, limits) as session:
            for count in (unacorda.count(), unacorda.count_people()):
                first, second = (form(session, condition).agg(n=count) for form in (before, behind))
                assert exact(session, first) == exact(session, second)
                assert filtered_in_words(second) == ()
            if "name" not in name:
                plain, counted = behind(session, "TRUE"), unacorda.count_if(condition)
                where = exact(session, plain.where(condition).agg(n=unacorda.count()))
                assert exact(session, plain.agg(n=counted)) == where
            moved += exact(session, before(session, condition).agg(n=unacorda.count()))["n"][0]
    assert moved > 0


def test_a_condition_that_stays_behind_a_join_is_named() -> None:
    with opened(1, {"max_rows": 2}) as session:
        visits, budget = session.table("visits"), unacorda.PureDP(1)
        late = {
            "\"kind\" = 'near'": visits.join("zips", on="region").where("kind = 'near'"),
            "\"tags\" = 'p'": visits.explode("tags", most=3).where("tags = 'p'"),
            '"age" > "x"': visits.join(session.table("people"), max_rows=(2, 1)).where("age > x"),
            '"age" > 30': visits.join(session.table("people"), how="left", max_rows=(2, 1)).where(
                "age > 30"
            ),
        }
        for condition, query in late.items():
            text = str(session.explain(query.agg(n=unacorda.count()), budget=budget))
            assert f"{condition}: filtered after at most 2" in text, text
            release = session.evaluate(query.agg(n=unacorda.count()), budget=budget)
            assert f"{condition}: filtered after at most 2" in str(release)


def test_a_bound_is_suggested_for_the_rows_that_fulfil_a_common_condition() -> None:
    with opened(1, {"max_rows": 2}) as session:
        table = session.table("visits")
        filtered = rows_question(table.agg(n=unacorda.count_if("x > 1"))).rows
        assert str(filtered) == str(table.where("x > 1").rows)
        mixed = table.agg(n=unacorda.count(), large=unacorda.count_if("x > 1"))
        assert rows_question(mixed).rows == table.rows
