"""Records of several releases: every charge counts once, and none is hidden behind another."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import copy
import json
from typing import Any

import pandas as pd
import pytest

import tacet
from tacet.errors import InvalidParameter
from tacet.query.replay import SEVERAL
from tacet.query.several_releases import verify_record

FRAME = pd.DataFrame({"id": range(40), "x": range(40)})


def session(budget: Any) -> tacet.Session:
    return tacet.Session({"t": FRAME}, unit=tacet.Person("id", max_rows=1), budget=budget)


def releases(*budgets: Any) -> list[dict[str, Any]]:
    """The plain values of counts, each of a session and with a salt of its own."""
    found = []
    for budget in budgets:
        with session(budget) as one:
            query = one.table("t").agg(n=tacet.count())
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


def test_charges_of_two_questions_are_added() -> None:
    one, other, both = releases(tacet.PureDP(1), tacet.PureDP(2), tacet.PureDP(3))
    assert told(record(one, other, spent=both)) == {"0": "ok", "1": "ok", "spent": "ok"}
    assert told(record(one, other, spent=other))["spent"] == "differs"


def test_no_question_hides_its_charge_behind_the_salt_of_another() -> None:
    one, other = releases(tacet.PureDP(1), tacet.PureDP(1))
    other["salt"] = one["salt"]
    found = told(record(one, other, spent=one))
    assert found["1: salt"] == "differs"


def test_a_place_of_a_batch_stands_once_and_with_one_charge() -> None:
    with session(tacet.PureDP(1)) as one:
        query = one.table("t").agg(n=tacet.count())
        plain = json.loads(one.evaluate([query, query], budget=tacet.PureDP(1)).to_json())
    assert told(json.dumps(plain)) == {"0": "ok", "1": "ok", "spent": "ok"}
    twice = copy.deepcopy(plain)
    twice["releases"]["2"] = twice["releases"]["1"]
    assert told(json.dumps(twice))["2: salt"] == "differs"
    dearer = copy.deepcopy(plain)
    (charge,) = releases(tacet.PureDP(2))
    dearer["releases"]["1"]["exact"]["charge"] = charge["exact"]["charge"]
    assert told(json.dumps(dearer))["1: salt"] == "differs"


@pytest.mark.parametrize(
    "budgets",
    [(tacet.PureDP(1), tacet.ZCDP(1)), (tacet.RenyiDP(2, 1), tacet.RenyiDP(8, 1))],
    ids=["two kinds", "two orders"],
)
def test_charges_that_do_not_add_up_are_a_difference(budgets: tuple[Any, Any]) -> None:
    one, other = releases(*budgets)
    found = verify_record(record(one, other, spent=one))
    assert "several kinds" in found.checks[-1].detail
    assert not found.holds


@pytest.mark.parametrize("given", [None, {}, [], {"0": {}}, {"0": 5}, 3])
def test_what_is_no_record_is_refused(given: Any) -> None:
    with pytest.raises(InvalidParameter):
        verify_record(json.dumps({"format": SEVERAL, "releases": given}))
