"""A session answers only what was begun in it: every door, asked every question from elsewhere."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Any

import pyarrow as pa
import pytest
from tests.support.cases import in_subtests
from tests.support.seams import (
    Admitted,
    Engine,
    PublicSelect,
    Query,
    Session,
    SqlContext,
    compile_query,
    ledger_of,
)

import unacorda
from unacorda import GDP, PureDP
from unacorda.errors import InvalidParameter
from unacorda.inference import LinearRegression

PEOPLE = pa.table(
    {
        "id": list(range(40)),
        "part": ["a", "b"] * 20,
        "inner": ["u", "u", "v", "v"] * 10,
        "x": [k / 40 for k in range(40)],
        "y": [k / 40 for k in range(40)],
    }
)
PLACES = pa.table({"part": ["a", "b"], "place": ["north", "south"]})
SECRETS = pa.table({"id": list(range(40)), "secret": [1.0] * 40})
TENTH = GDP("0.1")
SYNTHETIC: dict[str, Any] = {
    "columns": ["x"],
    "bins": {"x": [0, 0.5, 1]},
    "workload": 1,
}
OVER_TIME: dict[str, Any] = {
    "by": "make_date(2025, 1, 1)",
    "start": "2025-01-01",
    "steps": 2,
    "person": unacorda.OverTime(max_steps=1),
    "budget": TENTH,
}

pytestmark = pytest.mark.filterwarnings("ignore:The ledger is in memory")

Begin = Callable[[], Query]
"""Makes a question without groups and aggregates; may refuse to."""


class World:
    """One session over people that are replaced, what it is divided into, and sessions beside."""

    def __init__(self) -> None:
        tables = {"t": PEOPLE, "more": PEOPLE}
        replaced = unacorda.Person("id", max_rows=2, neighbors=unacorda.ReplaceOne)

        def opened(**options: Any) -> Session:
            given = {
                "unit": replaced,
                "public": {"places": PLACES},
                "budget": GDP(10**6),
                **options,
            }
            return Session(given.pop("tables", tables), **given)

        def divided(session: Session, column: str, keys: list[str]) -> dict[Any, Session]:
            return session.split(column, keys=keys, budget=GDP(10**4))

        self.root = opened()
        self.analyst = self.root.for_analyst("ana", GDP(10**5))
        parts = divided(self.root, "part", ["a", "b"])
        again = divided(self.root, "part", ["a", "b"])
        by_analyst = divided(self.analyst, "part", ["a", "b"])
        nested = divided(parts["a"], "inner", ["u", "v"])
        self.beside = {
            "another session": opened(),
            "other data": opened(tables={"t": PEOPLE.slice(3), "more": PEOPLE}),
            "a unit of rows": opened(unit=unacorda.Row()),
            "another limit": opened(unit=unacorda.Person("id", max_rows=1)),
            "another relation": opened(unit=unacorda.Person("id", max_rows=2)),
            "a private table as public": opened(public={"places": PLACES, "secrets": SECRETS}),
        }
        self.within = {
            "the session": self.root,
            "an analyst's": self.analyst,
            "a part": parts["a"],
            "its sibling": parts["b"],
            "a part of another split": again["a"],
            "a part of an analyst's": by_analyst["a"],
            "a nested part": nested["u"],
            "its nested sibling": nested["v"],
        }

    def close(self) -> None:
        for session in (self.root, *self.beside.values()):
            session.close()

    def state(self) -> list[Any]:
        """What every session has spent, and how many entries their ledgers have."""
        sessions = [*self.within.values(), *self.beside.values()]
        ledgers = [self.root, *self.beside.values()]
        entries = [len(list(ledger_of(one).entries("session"))) for one in ledgers]
        return [*(one.spent for one in sessions), *entries]

    def foreign(self, target: str) -> dict[str, Begin]:
        """Every question that was not begun in a session; the whole's is also its analysts'."""
        session, whole = self.within[target], {"the session", "an analyst's"}
        same = whole if target in whole else {target}
        found: dict[str, Begin] = {}
        for name, other in {**self.within, **self.beside}.items():
            if name not in same:
                for place, begin in placed(session, other).items():
                    found[f"{name}, {place}"] = begin
        dummy, another = (
            self.beside[name] for name in ("a private table as public", "another session")
        )

        def joined() -> Query:
            return dummy.table("t").join("secrets", "id")

        found["joined with a private table as public"] = joined
        found["united with such a join"] = lambda: session.table("t").union(joined())
        found["joined with a public table of another session"] = lambda: another.table("t").join(
            "places", "part"
        )
        return found


def placed(session: Session, other: Session) -> dict[str, Begin]:
    """Questions of another session, alone and put together with one of this session."""

    def begun() -> Query:
        return other.table("t")

    def mine() -> Query:
        return session.table("t")

    return {
        "alone": begun,
        "to the right of a union": lambda: mine().union(begun()),
        "to the left of a union": lambda: begun().union(mine()),
        "to the right of a join": lambda: mine().join(begun(), columns={"z": "x"}, max_rows=2),
        "below two joins": lambda: (
            mine()
            .join(mine(), columns={"other": "x"}, max_rows=2)
            .where("other >= 0")
            .join(begun().where("x >= 0"), columns={"third": "x"}, max_rows=2)
        ),
    }


def counted(query: Query) -> Query:
    return query.agg(n=unacorda.count())


def own(session: Session) -> Query:
    return counted(session.table("t"))


def model() -> LinearRegression:
    return LinearRegression(budget=GDP(1_000), feature_bounds=(0, 1), target_bounds=(0, 1))


DOORS: Mapping[str, Callable[[Session, Query], object]] = {
    "evaluate": lambda s, q: s.evaluate(counted(q), budget=TENTH),
    "evaluate, of a list": lambda s, q: s.evaluate([own(s), counted(q)], budget=TENTH),
    "evaluate, of a dict": lambda s, q: s.evaluate({"a": own(s), "b": counted(q)}, budget=TENTH),
    "evaluate, with errors": lambda s, q: s.evaluate(counted(q), budget=TENTH, errors=100),
    "explain": lambda s, q: s.explain(counted(q), budget=TENTH),
    "explain, of a list": lambda s, q: s.explain([counted(q), own(s)], budget=TENTH),
    "suggest_budget": lambda s, q: s.suggest_budget(counted(q), error=5),
    "suggest_bounds": lambda s, q: s.suggest_bounds(counted(q), budget=TENTH),
    "find_bounds": lambda s, q: s.find_bounds(q, "x", budget=TENTH),
    "fit": lambda s, q: s.fit(model(), q, features=["x"], target="y"),
    "describe": lambda s, q: s.describe(q, budget=TENTH),  # type: ignore[arg-type]
    "evaluate, synthetic": lambda s, q: s.evaluate(q.synthesize(**SYNTHETIC), budget=PureDP(1)),
    "explain, synthetic": lambda s, q: s.explain(q.synthesize(**SYNTHETIC), budget=PureDP(1)),
    "over_time": lambda s, q: s.over_time(counted(q), name="daily", **OVER_TIME),
    "suggest_over_time": lambda s, q: s.suggest_over_time(
        counted(q), before=2, **{k: v for k, v in OVER_TIME.items() if k != "person"}
    ),
    "explain_over_time": lambda s, q: s.explain_over_time(counted(q), **OVER_TIME),
}
"""By method, and how it is called, a session asked a question."""

BY_NAME: Mapping[str, Callable[[Session, str], object]] = {
    "table": lambda s, name: s.table(name),
    "find_bounds": lambda s, name: s.find_bounds(name, "secret", budget=TENTH),
    "fit": lambda s, name: s.fit(model(), name, features=["secret"], target="secret"),
    "describe": lambda s, name: s.describe(name, budget=TENTH),
    "evaluate": lambda s, name: s.evaluate(f"SELECT count(*) AS n FROM {name}", budget=TENTH),
    "explain": lambda s, name: s.explain(f"SELECT count(*) AS n FROM {name}", budget=TENTH),
    "suggest_budget": lambda s, name: s.suggest_budget(
        f"SELECT count(*) AS n FROM {name}", error=5
    ),
    "sql": lambda s, name: s.sql(f"SELECT count(*) AS n FROM {name}", budget=TENTH),
    "sql, joined": lambda s, name: s.sql(
        f"SELECT count(*) AS n FROM t JOIN {name} ON t.id = {name}.id", budget=TENTH
    ),
    "read_json": lambda s, name: s.read_json({"table": name, "aggregates": {"n": {"count": {}}}}),
    "read_sql": lambda s, name: s.read_sql(f"SELECT count(*) AS n FROM {name}"),
}
"""The same for those that take a table's name, or SQL."""

READS_NO_DATA = "computes a number from any question and what was released before"
NO_DOORS = {
    "best_limits": READS_NO_DATA,
    "close": "ends a session",
    "for_analyst": "takes a name and a budget",
    "for_purpose": "takes a text",
    "interrupt": "ends what runs, and takes nothing",
    "split": "takes a column and its keys; the tables are the session's own",
}
"""Methods that take no question, or read no data for it, and why."""

TARGETS = ["the session", "an analyst's", "a part", "a part of an analyst's", "a nested part"]


@pytest.fixture(scope="module", name="world")
def _world() -> Iterator[World]:
    world = World()
    yield world
    world.close()


@in_subtests("door", DOORS)
@in_subtests("target", TARGETS)
def test_a_question_from_elsewhere_is_refused_and_nothing_is_spent(
    world: World, target: str, door: str
) -> None:
    session, ask, before = world.within[target], DOORS[door], world.state()
    answered = []
    for name, begin in world.foreign(target).items():
        try:
            ask(session, begin())
        except InvalidParameter:
            continue
        answered.append(name)
    assert answered == []
    assert world.state() == before


@in_subtests("door", BY_NAME)
@in_subtests("target", TARGETS)
def test_a_name_from_elsewhere_is_refused_and_nothing_is_spent(
    world: World, target: str, door: str
) -> None:
    before = world.state()
    for name in ("secrets", "places", "missing"):
        with pytest.raises(InvalidParameter):
            BY_NAME[door](world.within[target], name)
    assert world.state() == before


@pytest.mark.long
@pytest.mark.parametrize("target", TARGETS)
def test_its_own_questions_pass(world: World, target: str) -> None:
    session = world.within[target]
    joined = session.table("t").join("places", "part").where("place = 'north'")
    united = joined.union(session.table("more"))
    for door, ask in DOORS.items():
        parted = door.endswith("over_time") and "part" in target  # of the people none is answered
        if door != "describe" and not parted:  # which takes a name
            ask(session, united if door.startswith("evaluate") else joined)
    if target in ("the session", "an analyst's"):  # one whole, with several accounts
        world.root.explain(own(world.analyst), budget=TENTH)
        world.analyst.explain(own(world.root), budget=TENTH)


def test_no_door_is_left_out() -> None:
    """Whatever a session offers is asked from elsewhere above, or takes no question."""
    public = {
        name for name, method in inspect.getmembers(Session, callable) if not name.startswith("_")
    }
    asked = {door.partition(",")[0] for door in (*DOORS, *BY_NAME)}
    assert public == asked | set(NO_DOORS)
    assert not asked & set(NO_DOORS)
    for name in {name for name in public if NO_DOORS.get(name) != READS_NO_DATA}:
        for parameter in inspect.signature(getattr(Session, name)).parameters.values():
            if re.search(r"\b(Query|Several)\b", str(parameter.annotation)):
                assert any(door.partition(",")[0] == name for door in DOORS), (name, parameter)
    # A part, a nested one and an analyst's are sessions of the same class: no further doors.
    world = World()
    try:
        assert {type(one) for one in world.within.values()} == {Session}
    finally:
        world.close()


@pytest.mark.long
def test_an_engine_runs_nothing_that_its_session_did_not_admit() -> None:
    """What forgets to ask whether a question was begun here has nothing that could be run."""
    world = World()
    try:
        session, other = world.root, world.beside["another session"]
        engine: Any = session._engine
        query = own(session)
        admitted = session._admission.admit(query, salt=1)
        foreign = other._admission.admit(own(other), salt=1)
        statement = compile_query(query, SqlContext(unit=session.unit, scan=engine.scan, salt=1))
        raw = [query, statement, statement.counts, "SELECT 1", foreign, None]
        keys = query_with_keys(session)
        for wrong in [*raw, keys]:  # such are found first
            with pytest.raises(TypeError, match="admits"):
                engine.run(wrong)
            with pytest.raises(TypeError, match="admits"):
                engine.hold(wrong, keep=False, answered=lambda: None)
        for wrong in [*raw, admitted]:
            with pytest.raises(TypeError, match="admits"):
                engine.find(wrong)
        with closing(engine.find(keys)) as keyed:
            for wrong in raw:
                with pytest.raises(TypeError, match="admits"):
                    keyed.run(wrong)
        assert engine.run(admitted).sums
    finally:
        world.close()


def query_with_keys(session: Session) -> Admitted:
    query = session.table("t").group_by("part", keys=unacorda.private_keys())
    return session._admission.admit(counted(query), salt=1)


def test_nothing_but_a_session_admits() -> None:
    with Session({"t": PEOPLE}, unit=unacorda.Row(), budget=GDP(1)) as session:
        admitted = session._admission.admit(own(session), salt=1)
        given: dict[str, Any] = {
            name: getattr(admitted, name) for name in ("query", "engine", "sql")
        }
        for key in (None, object(), admitted):
            with pytest.raises(TypeError):
                Admitted(**given, key=key)
        with pytest.raises((TypeError, ValueError)):
            dataclasses.replace(admitted, query=own(session))  # type: ignore[call-arg]
        with pytest.raises(dataclasses.FrozenInstanceError):
            admitted.query = own(session)  # type: ignore[misc]


def test_public_tables_alone_are_read_without_a_charge() -> None:
    with Session({"t": PEOPLE}, unit=unacorda.Row(), budget=GDP(1)) as session:
        scan = session._engine.scan("t")
        with pytest.raises(TypeError):
            session._engine.look(f"SELECT count(*) FROM {scan}")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        PublicSelect(sql="SELECT 1", key=object())


def test_every_door_of_every_engine_takes_admitted_questions_alone() -> None:
    """What runs SQL over private tables has no parameter for SQL."""
    free = {
        "close": "ends it",
        "interrupt": "ends what runs",
        "scan": "tells the name of a relation",
        "check": "translates, and runs nothing",
        "check_open": "reads no table",
        "check_sources": "reads no table",
    }
    public = {
        name
        for name, method in inspect.getmembers(Engine, inspect.isfunction)
        if not name.startswith("_")
    }
    assert public == {"run", "find", "hold", "look", *free}
    _, looked = inspect.signature(Engine.look).parameters.values()
    assert looked.annotation == "PublicSelect"
    for name in ("run", "find", "hold"):
        _, first, *rest = inspect.signature(getattr(Engine, name)).parameters.values()
        assert first.annotation == "Admitted"
        assert {one.annotation for one in rest} <= {"bool", "Callable[[], object]"}
