"""Questions as JSON: what is written is read again as the same question, and nothing else is."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.session import generated, golden
from tests.support.cases import in_subtests

import unacorda
from unacorda.errors import InvalidParameter, UnacordaError, UnsafeExpression

ACCOUNT = unacorda.ApproxDP(3, "1e-6")

WHOLE: dict[str, Any] = {
    "table": "people",
    "steps": [
        {"where": "age >= 18"},
        {"derive": {"decade": "FLOOR(age / 10) * 10"}},
        {"join": "towns", "on": "county", "how": "left"},
    ],
    "group_by": ["state", "decade"],
    "keys": {"state": ["N", "S"], "decade": [20, 30]},
    "margins": "rollup",
    "level_weights": [1, 2, "1/3"],
    "aggregates": {
        "n": {"count": {}},
        "s": {"sum": {"column": "income", "lower": 0, "upper": 99.5, "weight": "1/3"}},
    },
}

COUNTED: dict[str, Any] = {"table": "people", "aggregates": {"n": {"count": {}}}}

OF_PEOPLE: dict[str, Callable[[Any], Any]] = {
    "two tables": lambda session: session.table("people").join(
        session.table("visits").where("who > 3"), max_rows=(2, 3)
    ),
    "a union": lambda session: session.table("people").union(session.table("people").where("sick")),
    "people": lambda session: session.table("people").per_person(
        high=unacorda.max_("age"),
        low=unacorda.min_("age"),
        ever=unacorda.any_("sick"),
        always=unacorda.all_("sick"),
        rows=unacorda.count_(),
        known=unacorda.count_("income"),
        paid=unacorda.sum_("income", 0, 50),
        usual=unacorda.mean_("income", 0, 50),
        first=unacorda.first_("county", by="day"),
        last=unacorda.last_("county", by="day"),
    ),
    "a text in parts": lambda session: session.table("people").explode(
        "tags", separator=";", most=3, into="tag"
    ),
}


@pytest.fixture(scope="module")
def session() -> Iterator[unacorda.Session]:
    with golden.opened(ACCOUNT, place=1) as opened:
        yield opened


def same(session: Any, query: Any) -> None:
    text = query.to_json()
    again = session.read_json(text)
    assert again.digest() == query.digest()
    assert again == query
    assert again.to_json() == text
    assert session.read_json(json.loads(text)) == query


@in_subtests("name", golden.BUILT)
def test_every_built_question_comes_back(session: unacorda.Session, name: str) -> None:
    same(session, golden.BUILT[name](session.table("people")))


@in_subtests("name", golden.SELECTS)
def test_every_select_comes_back(session: unacorda.Session, name: str) -> None:
    query, _ = session.read_sql(golden.SELECTS[name], keys=golden.KEYS.get(name))
    same(session, query)


@in_subtests("name", OF_PEOPLE)
def test_tables_beside_tables_come_back(session: unacorda.Session, name: str) -> None:
    same(session, OF_PEOPLE[name](session).where("who > 1").agg(n=unacorda.count()))


def test_made_up_questions_come_back(session: unacorda.Session) -> None:
    draw = random.Random(3)
    for _ in range(40):
        same(session, generated._question(session, draw))


def test_what_people_write_is_read(session: unacorda.Session) -> None:
    query = session.read_json(json.dumps(WHOLE))
    built = (
        session.table("people")
        .where("age >= 18")
        .derive(decade="FLOOR(age / 10) * 10")
        .join("towns", on="county", how="left")
        .group_by(
            "state",
            "decade",
            keys={"state": ["N", "S"], "decade": [20, 30]},
            margins="rollup",
            level_weights=[1, 2, "1/3"],
        )
        .agg(n=unacorda.count(), s=unacorda.sum("income", 0, "99.5", weight="1/3"))
    )
    assert query == built
    same(session, built)


def test_numbers_are_read_as_decimals(session: unacorda.Session) -> None:
    of_age = '{"mean": {"column": "age", "lower": 0.1, "upper": 9}}'
    text = f'{{"table": "people", "aggregates": {{"s": {of_age}}}}}'
    built = session.table("people").agg(s=unacorda.mean("age", "0.1", 9))
    assert session.read_json(text) == built


def test_a_part_reads_the_question_of_the_whole(session: unacorda.Session) -> None:
    parts = session.split("county", keys=["ash", "birch"], budget=unacorda.ApproxDP(1, 0))
    query = session.table("people").where("age > 3").agg(n=unacorda.count())
    own = parts["ash"].read_json(query.to_json())
    assert own != query
    assert own.to_json() == query.to_json()
    with pytest.raises(InvalidParameter, match="begun with this session"):
        session.explain(own, budget=unacorda.ApproxDP("0.1", 0))


POINTED: tuple[tuple[dict[str, Any], str], ...] = (
    ({"table": "nix"}, "/table"),
    ({"table": ["people"]}, "/table"),
    ({"steps": {}}, "/steps"),
    ({"steps": [{"where": "age >= 18"}, {"where": "random() < 1"}]}, "/steps/1"),
    ({"steps": [{"where": "age", "derive": {}}]}, "/steps/0"),
    ({"steps": [{"where": "age > 1", "most": 1}]}, "/steps/0"),
    ({"steps": [{"derive": {"x": "age +"}}]}, "/steps/0/derive"),
    ({"steps": [{"per_person": {"x": {"median": {"column": "age"}}}}]}, "/steps/0/per_person/x"),
    ({"steps": [{"union": {"table": "nix"}}]}, "/steps/0/union/table"),
    ({"group_by": "county"}, "/group_by"),
    ({"group_by": ["county"], "keys": [1.5]}, "/keys/0"),
    ({"group_by": ["county"], "keys": {"county": {"keys": {}}}}, "/keys/county"),
    ({"aggregates": {"a/b": {"mean": {"column": "age", "lower": 5, "upper": 3}}}}, "/a~1b"),
    ({"aggregates": {"n": {"mean": {"column": "age", "extra": 5}}}}, "/aggregates/n/mean"),
    ({"aggregates": {"n": {"mean": {}}}}, "/aggregates/n/mean"),
    ({"aggregates": {"n": {"mean": {"column": {"a": 1}}}}}, "/aggregates/n/mean/column"),
    ({"aggregates": {"n": {"Mean": {"column": "age"}}}}, "/aggregates/n"),
    ({"aggregates": {"n": {"agg": {}}}}, "/aggregates/n"),
    ({"aggregates": {"n": {"count": {}, "sum": {}}}}, "/aggregates/n"),
    ({"aggregates": {}}, "/aggregates"),
    ({"aggregates": {"n": {"count": {"weight": -1}}}}, "/aggregates/n/count"),
)


@in_subtests(("change", "pointer"), POINTED, ids=str)
def test_a_refusal_says_where(
    session: unacorda.Session, change: dict[str, Any], pointer: str
) -> None:
    base = {"table": "people", "aggregates": {"n": {"count": {}}}}
    with pytest.raises(InvalidParameter) as refused:
        session.read_json(base | change)
    assert pointer in refused.value.pointer
    assert str(refused.value).startswith(refused.value.pointer)
    assert session.spent == unacorda.ApproxDP(0, 0)


NO_JSON = (
    "",
    "7",
    "null",
    "[]",
    '{"table": "people"',
    '{"table": "people", "table": "visits", "aggregates": {"n": {"count": {}}}}',
    '{"table": "people", "aggregates": {"n": {"count": {"weight": NaN}}}}',
    '{"table": "people", "aggregates": {"n": {"count": {"weight": Infinity}}}}',
    '{"table": "people", "aggregates": {"n": {"count": {"weight": 1e999999999}}}}',
    '{"table": "people", "aggregates": {"n": {"count": {"weight": ' + "9" * 5000 + "}}}}",
    '{"table": "people", "extra": 1, "aggregates": {"n": {"count": {}}}}',
    "[" * 100_000,
    "[" * 20_000 + "]" * 20_000,
    '{"table": "people", "steps": ' + "[" * 40 + "]" * 40 + ', "aggregates": {}}',
    " " * 70_000,
)


@in_subtests("text", NO_JSON, ids=lambda text: text[:40])
def test_what_is_no_question_is_refused(session: unacorda.Session, text: str) -> None:
    with pytest.raises(InvalidParameter):
        session.read_json(text)


MANY: dict[str, list[dict[str, Any]]] = {
    "conditions": [{"where": "age > 1"}] * 257,
    "columns": [{"derive": {f"d{n}": "age" for n in range(257)}}],
    "people of people": [{"per_person": {"age": {"max": {"column": "age"}}}}] * 17,
}


def test_weights_have_so_many_digits_that_they_add_up(session: unacorda.Session) -> None:
    counts = {"n": {"count": {"weight": f"1/{3**200}"}}}
    with pytest.raises(InvalidParameter, match=r"^/aggregates/n/count: weight.*2\^256"):
        session.read_json({**COUNTED, "aggregates": counts})


@in_subtests("name", MANY)
def test_what_would_take_long_to_read_is_refused(session: unacorda.Session, name: str) -> None:
    with pytest.raises(InvalidParameter, match=r"^/steps.*at most"):
        session.read_json({**COUNTED, "steps": MANY[name]})


HOSTILE: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 10**30, 0.5, "", "x", "'; DROP TABLE people", "\x00", "\ud800"),
    *([], [None], [[]], [[1, 2], [3]], {}, {"a": 1}, {"private_keys": {}}, {"count": {}}),
    *("(SELECT 1)", "read_csv('/etc/passwd')", "1/0", "__class__", [0, 1], "a" * 20_000),
)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """All objects and lists within, each with every key."""
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from places(value[key])


def changed(seed: int) -> Any:
    """The whole question, a few of whose places hold something else, or have another name."""
    draw, stated = random.Random(seed), copy.deepcopy(WHOLE)
    for _ in range(draw.randint(1, 3)):
        inside, key = draw.choice(list(places(stated)))
        if isinstance(inside, dict) and draw.random() < 0.3:
            names = ["where", "derive", "explode", "join", "union", "per_person", "keys", "q"]
            inside[draw.choice(names)] = inside.pop(key)
        else:
            inside[key] = copy.deepcopy(draw.choice(HOSTILE))
    return stated


@pytest.mark.parametrize(
    "seeds", [range(400), pytest.param(range(400, 20_000), marks=pytest.mark.slow)]
)
def test_whatever_stands_there_it_is_read_or_refused(
    session: unacorda.Session, seeds: range
) -> None:
    """Never by another error, and what is read is a question that the session takes."""
    read = 0
    for seed in seeds:
        try:
            query = session.read_json(changed(seed))
        except UnacordaError:
            continue
        read += 1
        assert session.read_json(query.to_json()) == query
    assert read
    assert session.spent == unacorda.ApproxDP(0, 0)


def test_an_expression_keeps_its_class(session: unacorda.Session) -> None:
    stated = {**WHOLE, "steps": [{"where": "age > (SELECT 1)"}]}
    with pytest.raises(UnsafeExpression, match=r"^/steps/0: "):
        session.read_json(stated)
