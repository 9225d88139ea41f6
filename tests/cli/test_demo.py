"""`unacorda demo`: bundled data, private answers beside exact ones."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Run

import unacorda.cli

DATA = Path(unacorda.cli.__file__).parent / "data"


@pytest.mark.long
def test_reads_well_in_80_columns_without_colour(run: Run) -> None:
    ran = run("demo")
    assert (ran.code, ran.err) == (0, "")
    assert max(map(len, ran.out.splitlines())) <= 80
    assert "\x1b" not in ran.out
    for words in (
        "questions about public data",
        "expected error",
        "epsilon 1 of 2 left",
        "rho 0.1 of 0.5 left",
        "United",
        "What to try next",
    ):
        assert words in ran.out


@pytest.mark.long
def test_json_holds_exact_and_private_answers(run: Run) -> None:
    income, delays = json.loads(run("demo", "--json").out)["parts"]
    assert sum(row["people"] for row in income["exact"]) == 1000
    assert sum(row["flights"] for row in delays["exact"]) == 336_776
    # The private counts are near the exact ones: 30 scales of discrete Laplace, p < 1e-12.
    for exact, private in zip(income["exact"], income["private"], strict=True):
        assert exact["education"] == private["education"]
        assert abs(exact["people"] - private["people"]) < 30 * 3
    assert income["remaining"] == "PureDP(epsilon=1.0)"


def test_licences_name_every_bundled_file() -> None:
    text = (DATA / "LICENCES.md").read_text()
    for path in DATA.iterdir():
        assert path.name == "LICENCES.md" or f"`{path.name}`" in text
