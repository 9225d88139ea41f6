"""Several tables on every engine: joined, united, exploded and split as on DuckDB."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pytest
from tests.query.engines_alike import LOOSE, OTHERS, counted, opened_on
from tests.query.shared_hash import plant_shared_hash
from tests.support.seams import How, Person, Query, Session, Unit
from tests.tiers import mostly_slow

import unacorda

pytestmark = [
    pytest.mark.usefixtures("_shared_hash"),
    pytest.mark.parametrize("engine", OTHERS),
    pytest.mark.filterwarnings("ignore:keys. two keys look alike"),
]

_drawn = random.Random(12)
_KEYS = ("a", "A", "", "é", "e\u0301", None)
_NUMBERS = (0.0, -0.0, 1.5, math.nan, math.inf, 2.0**53, None)
SIZES = {"left": 60, "right": 40, "public": 25}
LEFT, RIGHT, PUBLIC = (
    pa.table(
        {
            "who": pa.array([_drawn.choice([None, *range(9)]) for _ in range(size)], kind),
            "key": [_drawn.choice(_KEYS) for _ in range(size)],
            "at": pa.array([_drawn.choice(_NUMBERS) for _ in range(size)], pa.float64()),
            name: pa.array([_drawn.choice([None, *range(10)]) for _ in range(size)], pa.int32()),
            "tags": [_drawn.choice([None, "", ".", "x", "x.y", "y..x.z"]) for _ in range(size)],
        }
    )
    for (name, size), kind in zip(SIZES.items(), (pa.int64(), pa.int32(), pa.int8()), strict=True)
)
"""Few different keys, so that most stand in several rows; and those that meet nothing."""


@pytest.fixture
def _shared_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    plant_shared_hash(monkeypatch)


def on_both(
    engine: str, unit: Unit, ask: Callable[[Session], list[tuple[Session, Query]]]
) -> list[dict[str, Any]]:
    """All integers of some questions, which are the same on DuckDB and on another engine."""
    found = []
    for each in ("duckdb", engine):
        tables = {"t": LEFT, "right": RIGHT}
        with opened_on(each, tables, unit=unit, public={"public": PUBLIC}) as session:
            found.append([counted(one, query) for one, query in ask(session)])
    assert found[0] == found[1]
    return found[1]


def joined(session: Session) -> list[tuple[Session, Query]]:
    left, right = session.table("t"), session.table("right")
    of_public = unacorda.sum("public", 0, 9)
    hows: list[How] = ["inner", "left"]
    found = [
        left.join("public", on, how=how, columns=["public"]).agg(n=unacorda.count(), s=of_public)
        for on, how in zip(("at", ["key", "at"]), hows, strict=True)
    ]
    if isinstance(session.unit, Person):
        for pairs, how in zip((["who", "key"], ["who", "at"]), hows, strict=True):
            both = left.join(right, on=pairs, how=how, columns=["right"], max_rows=(3, 2))
            found.append(both.agg(n=unacorda.count(), s=unacorda.sum("right", 0, 9)))
    united = left.derive(v="left").union(right.derive(v="right"))
    found.append(
        united.group_by("key", keys=list(_KEYS)).agg(n=unacorda.count(), s=unacorda.sum("v", 0, 9))
    )
    parts = united.explode("tags", separator=".", most=2, into="tag")
    found.append(parts.group_by("tag", keys=["", "x", "y", "z"]).agg(n=unacorda.count()))
    return [(session, query) for query in found]


UNITS: Mapping[str, Unit] = {
    "bound": Person("who", max_rows=4, max_groups=2, max_rows_per_group=3),
    "rows": unacorda.Row(),
    "wide": Person("who", max_rows=1_000),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", mostly_slow(UNITS))
def test_missing_and_repeated_keys_meet_alike(engine: str, name: str) -> None:
    """Also where a bound binds on the way to a join, and in the end."""
    found = on_both(engine, UNITS[name], joined)
    assert all(one["sums"] for one in found)


def multiplied(session: Session) -> list[tuple[Session, Query]]:
    left, right = session.table("t"), session.table("right")
    parts = left.explode("tags", separator=".", most=3, into="tag")
    twice = parts.where("tag <> 'z'").explode("tag", separator="x", most=2)
    met = left.derive(v="left * 2").join("public", "key", columns=["public"], how="left")
    both = parts.join(
        right.join("public", "key", columns=["public"]), columns=["public"], max_rows=(2, 3)
    )
    united = left.union(right).explode("tags", separator=".", most=2)
    of_public, of_left = unacorda.sum("public", 0, 9), unacorda.sum("v", 0, 18)
    return [
        (session, twice.group_by("tag", keys=["", "x", "y"]).agg(n=unacorda.count())),
        (session, met.explode("tags", separator=".", most=2).agg(s=of_public, v=of_left)),
        (session, both.agg(n=unacorda.count(), s=of_public)),
        (session, united.agg(n=unacorda.count())),
    ]


@pytest.mark.parametrize("limits", [{"max_rows": 3}, {"max_groups": 2, "max_rows_per_group": 2}])
def test_rows_are_bound_alike_before_they_are_multiplied(
    engine: str, limits: Mapping[str, Any]
) -> None:
    found = on_both(engine, Person("who", **limits), multiplied)
    assert all(one["sums"] for one in found)


def test_texts_are_split_at_signs_not_patterns(engine: str) -> None:
    tags = pa.table({"who": [1, 2, 3, 4], "tag": ["a.*b", "", None, "..x."]})
    with opened_on(engine, {"tags": tags}, unit=LOOSE) as session:
        parts = session.table("tags").explode("tag", separator=".", most=3)
        query = parts.group_by("tag", keys=["", "a", "*b", "x"]).agg(n=unacorda.count())
        assert counted(session, query)["sums"] == {0: (3,), 1: (1,), 2: (1,), 3: (1,)}


def test_texts_that_are_copied_end_after_as_many_characters(engine: str) -> None:
    """Characters of any width, with and without a step that copies them."""
    notes = pa.table(
        {"who": [1, 2], "note": ["é," * 9_000, "\U0001f3b9" * 10_001], "key": ["a"] * 2}
    )
    with opened_on(engine, {"t": notes}, unit=LOOSE, public={"public": PUBLIC}) as session:
        for most, kept in ((1, "18000, 10001"), (2, "10000")):
            parts = session.table("t").explode("note", most=most, into="part")
            # A condition on the part is met behind the step, by the text that was carried along.
            condition = f"length(note) IN ({kept}) AND part IS NOT NULL"
            query = parts.where(condition).agg(n=unacorda.count())
            assert counted(session, query)["sums"] == {0: (most + 1 if most > 1 else 2,)}


PARTS = ["a", "A", "é", None]


def split(session: Session, most: int) -> list[tuple[Session, Query]]:
    parts = session.split("key", keys=PARTS, max_parts=most, budget=unacorda.ApproxDP(1, 0))
    inner = parts["a"].split("at", keys=[0, None], budget=unacorda.ApproxDP(1, 0))
    asked = [(part, name) for part in parts.values() for name in ("t", "right")]
    asked += [(part, "t") for part in inner.values()]
    return [
        (part, part.table(name).agg(n=unacorda.count(), p=unacorda.count_people()))
        for part, name in asked
    ]


@pytest.mark.slow
def test_people_are_in_the_same_parts_on_every_engine(engine: str) -> None:
    """Of two tables, with parts of parts, for those who have rows in several."""
    counts = on_both(engine, Person("who", max_rows=1_000), lambda session: split(session, 2))
    assert sum(one["sums"].get(0, (0, 0))[0] for one in counts[:8]) > 20


@pytest.mark.slow
def test_a_person_is_in_as_many_parts_with_an_engine_s_own_hash(engine: str) -> None:
    lines = [
        (who, key)
        for table in (LEFT, RIGHT)
        for who, key in zip(table["who"].to_pylist(), table["key"].to_pylist(), strict=True)
        if who is not None and key in PARTS
    ]
    has = {who: len({key for other, key in lines if other == who}) for who, _ in lines}
    with opened_on(engine, {"t": LEFT, "right": RIGHT}, unit=LOOSE) as session:
        parts = session.split("key", keys=PARTS, max_parts=2, budget=unacorda.ApproxDP(1, 0))
        found = 0
        for part in parts.values():
            both = part.table("t").union(part.table("right")).agg(p=unacorda.count_people())
            found += counted(part, both)["sums"][0][0]
        assert found == sum(min(count, 2) for count in has.values())
        assert found < sum(has.values())
