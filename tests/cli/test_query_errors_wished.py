"""`unacorda query --error` and `--level-weights`: budgets for wished errors, parts of levels."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
import math

import pytest
from tests.cli.conftest import Run
from tests.support.cases import in_subtests

PERSON = ("--unit", "person", "--max-rows", "2")
COUNT = "SELECT COUNT(*) AS n FROM visits"
LEVELS = "SELECT county, COUNT(*) AS n FROM visits GROUP BY ROLLUP(county)"
KEYS = ("--keys", "county=A,B")


@pytest.mark.long
def test_the_least_budgets_reach_the_error(run: Run, visits: str) -> None:
    ran = run("query", visits, *PERSON, "--error", "n=10", "--json", COUNT)
    assert ran.code == 0
    found = json.loads(ran.out)["budgets"]
    assert found == {
        "epsilon": {"epsilon": "0.298"},  # 5% of it for the share of rows kept
        "rho": {"rho": "0.0211"},
        "mu": {"mu": "0.206"},
    }
    for numbers in found.values():
        ((option, number),) = numbers.items()
        told = run("query", visits, *PERSON, f"--{option}", number, "--json", COUNT)
        (row,) = json.loads(told.out)["rows"]
        assert 9.5 < row["n_se"] <= 10


def test_they_are_printed_as_options(run: Run, visits: str) -> None:
    ran = run("query", visits, *PERSON, "--error", "10", "--delta", "1e-6", COUNT)
    lines = [line.split() for line in ran.out.splitlines()]
    assert lines[1][::2] == ["--epsilon", "--delta"]
    assert lines[2] == ["--rho", "0.0211", "--delta", "1e-6"]
    assert "Nothing was read and nothing was spent." in ran.out
    assert "nothing remembers" not in ran.err


@pytest.mark.long
def test_a_mean_needs_a_table_to_assume(run: Run, visits: str) -> None:
    mean = "SELECT AVG(age) AS m FROM visits"
    asked = ("query", visits, *PERSON, "--bounds", "age=0:120", "--error", "m=1")
    ran = run(*asked, mean)
    assert ran.code == 2
    assert "known beforehand" in ran.err
    ran = run(*asked, "--assuming", visits, "--json", mean)
    assert float(json.loads(ran.out)["budgets"]["epsilon"]["epsilon"]) > 0


@in_subtests(
    ("options", "words"),
    [
        (("--error", "n=10", "--epsilon", "1"), "without a budget"),
        (("--error", "n=10", "--explain"), "--explain"),
        (("--error", "n=0"), "above 0"),
        (("--error", "n=-1"), "above 0"),
        (("--error", "n=x"), "finite number"),
        (("--error", "=1"), "NAME=X"),
        (("--error", "n=1", "--error", "n=2"), "each once"),
        (("--error", "n=1", "--error", "2"), "one X for all"),
        (("--error", "m=1"), "aggregates: n"),
        (("--error", "n@all=1"), "aggregates: n"),
        (("--epsilon", "1", "--level-weights", "1,2"), "ROLLUP"),
    ],
)
def test_what_is_no_wish_is_refused(
    run: Run, visits: str, options: tuple[str, ...], words: str
) -> None:
    ran = run("query", visits, *PERSON, *options, COUNT)
    assert ran.code == 2
    assert words in ran.err.replace("\n", " ")


@pytest.mark.long
def test_levels_are_weighted(run: Run, visits: str) -> None:
    errors = {}
    for weights in ("1,1", "1,9", "overall"):
        ran = run(
            "query", visits, *PERSON, *KEYS, "--epsilon", "1", "--level-weights", weights, "--json",
            LEVELS,
        )  # fmt: skip
        errors[weights] = [row["n_se"] for row in json.loads(ran.out)["rows"]]
    assert all(math.isfinite(error) for found in errors.values() for error in found)
    assert errors["1,9"][1] < errors["1,1"][1]
    ran = run("query", visits, *PERSON, *KEYS, "--epsilon", "1", "--level-weights", "1,x", LEVELS)
    assert ran.code == 2


@pytest.mark.long
def test_errors_of_the_finest_level_and_of_all_columns(run: Run, visits: str) -> None:
    asked = ("query", visits, *PERSON, *KEYS)
    ran = run(*asked, "--error", "n=9", "--json", LEVELS)
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)["budgets"]["rho"]["rho"]
    told = run(*asked, "--rho", found, "--json", LEVELS)
    errors = {row["margin"]: row["n_se"] for row in json.loads(told.out)["rows"]}
    assert 0.97 * 9 < errors["county"] <= 9
    two = "SELECT COUNT(*) AS n, COUNT(DISTINCT person) AS p FROM visits"
    ran = run("query", visits, *PERSON, "--error", "20", "--json", two)
    found = json.loads(ran.out)["budgets"]["rho"]["rho"]
    (row,) = json.loads(run("query", visits, *PERSON, "--rho", found, "--json", two).out)["rows"]
    assert row["n_se"] <= 20
    assert row["p_se"] <= 20
