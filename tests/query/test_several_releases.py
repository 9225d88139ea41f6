"""Records of several releases: every charge counts once, and none is hidden behind another."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import copy
import json
from typing import Any

import pandas as pd
import pytest
from tests.support.cases import in_subtests
from tests.support.seams import SEVERAL, ledger_of, open_ledger, verify_record

import unacorda
from unacorda.errors import InvalidParameter

FRAME = pd.DataFrame({"id": range(40), "x": range(40)})
SEED = unacorda.SeededBits(3)


def session(budget: Any) -> unacorda.Session:
    return unacorda.Session({"t": FRAME}, unit=unacorda.Person("id", max_rows=1), budget=budget)


def releases(*budgets: Any) -> list[dict[str, Any]]:
    """The plain values of counts, each of a session and with a salt of its own."""
    found = []
    for budget in budgets:
        with session(budget) as one:
            query = one.table("t").agg(n=unacorda.count())
            found.append(json.loads(one.evaluate(query, budget=budget).to_json()))
    return found


def record(*asked: dict[str, Any], spent: dict[str, Any]) -> str:
    """A file of these releases; spent: the one whose charge is told as that of all."""
    return json.dumps(
        {
            "format": SEVERAL,
            "spent": spent["spent"],
            "exact": {"spent": spent["exact"]["charge"]},
            "releases": {str(place): one for place, one in enumerate(asked)},
        }
    )


def told(text: str) -> dict[str, str]:
    return {check.name: check.outcome for check in verify_record(text).checks}


@pytest.mark.long
def test_charges_of_two_questions_are_added() -> None:
    one, other, both = releases(unacorda.PureDP(1), unacorda.PureDP(2), unacorda.PureDP(3))
    assert told(record(one, other, spent=both)) == {"0": "ok", "1": "ok", "spent": "ok"}
    assert told(record(one, other, spent=other))["spent"] == "differs"


def test_no_question_hides_its_charge_behind_the_salt_of_another() -> None:
    one, other = releases(unacorda.PureDP(1), unacorda.PureDP(1))
    other["salt"] = one["salt"]
    found = told(record(one, other, spent=one))
    assert found["1: salt"] == "differs"


def test_a_place_of_a_batch_stands_once_and_with_one_charge() -> None:
    with session(unacorda.PureDP(1)) as one:
        query = one.table("t").agg(n=unacorda.count())
        plain = json.loads(one.evaluate([query, query], budget=unacorda.PureDP(1)).to_json())
    assert told(json.dumps(plain)) == {"0": "ok", "1": "ok", "spent": "ok"}
    twice = copy.deepcopy(plain)
    twice["releases"]["2"] = twice["releases"]["1"]
    assert told(json.dumps(twice))["2: salt"] == "differs"
    dearer = copy.deepcopy(plain)
    (charge,) = releases(unacorda.PureDP(2))
    dearer["releases"]["1"]["exact"]["charge"] = charge["exact"]["charge"]
    assert told(json.dumps(dearer))["1: salt"] == "differs"


@pytest.mark.parametrize(
    "budgets",
    [(unacorda.PureDP(1), unacorda.ZCDP(1)), (unacorda.RenyiDP(2, 1), unacorda.RenyiDP(8, 1))],
    ids=["two kinds", "two orders"],
)
def test_charges_that_do_not_add_up_are_a_difference(budgets: tuple[Any, Any]) -> None:
    one, other = releases(*budgets)
    found = verify_record(record(one, other, spent=one))
    assert "several kinds" in found.checks[-1].detail
    assert not found.holds


@in_subtests("given", [None, {}, [], {"0": {}}, {"0": 5}, 3])
def test_what_is_no_record_is_refused(given: Any) -> None:
    with pytest.raises(InvalidParameter):
        verify_record(json.dumps({"format": SEVERAL, "releases": given}))


@pytest.fixture(scope="module")
def looked() -> dict[str, Any]:
    """The plain values of a first look whose session found how many rows of a person to keep."""
    unit = unacorda.Person("id", max_rows=unacorda.auto(budget=unacorda.PureDP(2), most=9))
    tables = {"t": FRAME, "other": FRAME[["id"]]}
    with unacorda.Session(tables, unit=unit, budget=unacorda.PureDP(9), bits=SEED) as one:
        text = one.describe("t", budget=unacorda.PureDP(3)).to_json()
        assert verify_record(text, ledger=ledger_of(one)).holds
        with one.for_analyst("a", unacorda.PureDP(1)) as part:
            below = json.loads(part.describe("t", budget=unacorda.PureDP(1)).to_json())
    assert verify_record(json.dumps(below)).holds  # what another session paid for stands there
    found: dict[str, Any] = json.loads(text)
    assert (found["before"], len(found["searches"])) == ("PureDP(epsilon=2.0)", 2)
    assert told(text)["before"] == told(text)["spent"] == "ok"
    return found


def put(plain: dict[str, Any], path: tuple[Any, ...], value: Any) -> str:
    """The text with another value at one place."""
    changed = copy.deepcopy(plain)
    part = changed
    for name in path[:-1]:
        part = part[name]
    part[path[-1]] = value
    return json.dumps(changed)


@in_subtests(
    ("path", "value", "check"),
    [
        (("before",), "PureDP(epsilon=1.0)", "before"),
        (("before",), None, "before"),
        (("exact", "before"), {"guarantee": "PureDP", "epsilon": "1"}, "before"),
        (("searches",), {}, "before"),
        (("searches", "t", "query", "table"), "u", "search in t: batch"),
        (("searches", "t", "query", "aggregates", "rows", "most"), 8, "search in t: batch"),
        (("searches", "t", "exact", "request", "epsilon"), "1", "search in t: event"),
        (("spent",), "PureDP(epsilon=5.0)", "spent"),
    ],
)
def test_a_look_tells_what_was_paid_before_and_for_itself(
    looked: dict[str, Any], path: tuple[Any, ...], value: Any, check: str
) -> None:
    found = told(put(looked, path, value))
    assert found[check] == "differs"


@pytest.mark.long
def test_searches_are_in_the_ledger_too(looked: dict[str, Any]) -> None:
    found = verify_record(json.dumps(looked), ledger=open_ledger(None))
    names = [check.name for check in found.checks if check.outcome == "differs"]
    assert {"search in t: entry", "search in other: entry"} <= set(names)


@pytest.mark.parametrize("searches", [[], 3, {"t": {}}, {"t": None}])
def test_searches_that_are_none_are_refused(looked: dict[str, Any], searches: Any) -> None:
    with pytest.raises(InvalidParameter):
        verify_record(put(looked, ("searches",), searches))
