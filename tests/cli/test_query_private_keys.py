"""`unacorda query --private-keys`: keys that are found, and what is said of those that are not."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json

import pytest
from tests.cli.conftest import Run

SELECT = "SELECT county AS place, COUNT(*) AS n FROM visits GROUP BY place ORDER BY place"
PERSON = ("--unit", "person", "--max-rows", "2")
ROOMY = ("--epsilon", "8", "--delta", "1e-3")


@pytest.mark.long
@pytest.mark.parametrize("name", ["county", "PLACE"])
def test_keys_are_found_and_the_answer_says_which_appear(run: Run, visits: str, name: str) -> None:
    ran = run("query", visits, *PERSON, *ROOMY, "--private-keys", name, SELECT)
    assert ran.code == 0
    assert [line.split()[0] for line in ran.out.splitlines()[1:3]] == ["A", "B"]
    assert "keys may be missing" in " ".join(ran.out.split())
    written = run("query", visits, *PERSON, *ROOMY, "--private-keys", name, "--json", SELECT)
    assert [row["place"] for row in json.loads(written.out)["rows"]] == ["A", "B"]


def test_explain_says_from_how_many_people_on(run: Run, visits: str) -> None:
    ran = run("query", visits, *PERSON, *ROOMY, "--private-keys", "county", "--explain", SELECT)
    assert ran.code == 0
    assert "appears 50% of the time" in " ".join(ran.out.split())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--epsilon", "1", "--private-keys", "county"), "delta"),
        ((*ROOMY, "--private-keys", "age"), "--private-keys"),
        ((*ROOMY, "--private-keys", "county", "--private-keys", "place"), "once"),
        ((*ROOMY, "--private-keys", "county", "--keys", "county=A"), "once"),
        (ROOMY, "--private-keys county"),
    ],
)
def test_what_does_not_fit_is_refused(
    run: Run, visits: str, arguments: tuple[str, ...], said: str
) -> None:
    ran = run("query", visits, *PERSON, *arguments, SELECT)
    assert ran.code == 2
    assert said in " ".join(ran.err.split())
