"""Questions that are tried on made-up rows: free, labelled, and nothing of the data."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from tests.server.served import CONFIGURATION, COUNT, Served, served, written
from tests.server.test_routes import problem

import unacorda
from unacorda import ZCDP
from unacorda.query.schema.table import Bounds, Categories, Dates
from unacorda.server.stand_in import StandIn
from unacorda.settings import Dataset

TRY = "/v1/datasets/visits/try"


@pytest.fixture
def ask(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path) as found:
        yield found


def test_it_is_free_labelled_and_reads_no_data(ask: Served, tmp_path: Path) -> None:
    (tmp_path / "visits.csv").unlink()  # nothing of it is read
    grouped = {
        "sql": "SELECT county, COUNT(*) AS n, AVG(age) AS m FROM visits GROUP BY county",
        "budget": {"rho": "0.05"},
    }
    found = ask("POST", TRY, grouped)
    assert found.status_code == 200, found.text
    said = found.json()
    assert said["made_up"] is True
    assert [row["county"] for row in said["release"]["rows"]] == ["A", "B"]
    assert said["release"]["made_up"] is True
    assert ask.spent() == ZCDP(0)
    question = {"table": "visits", "aggregates": {"n": {"count": {}}}}
    (row,) = ask("POST", TRY, {"question": question, "budget": {"rho": "0.05"}}).json()["release"][
        "rows"
    ]
    assert 900 < row["n"] < 1100


@pytest.mark.long
def test_refusals_are_those_of_the_data_set(ask: Served) -> None:
    for body, kind in (
        ({**COUNT, "sql": "SELECT COUNT(*) AS n FROM nix"}, "refused"),
        ({**COUNT, "budget": {"rho": "3"}}, "budget-exceeded"),
        ({"sql": COUNT["sql"]}, "refused"),
        (b"{", "not-json"),
    ):
        problem(ask("POST", TRY, body), kind)
    problem(ask("POST", TRY, COUNT, of="eve"), "not-found")


@pytest.mark.long
def test_a_public_file_stands_in(tmp_path: Path) -> None:
    rows = "\n".join(f"{n},30,A" for n in range(300))
    (tmp_path / "public.csv").write_text(f"patient,age,county\n{rows}\n")
    text = CONFIGURATION.replace('title = "Visits"', 'title = "Visits"\nstand_in = "public.csv"')
    with served(tmp_path, text) as ask:
        (row,) = ask("POST", TRY, {**COUNT, "budget": {"rho": "0.1"}}).json()["release"]["rows"]
        assert 250 < row["n"] < 350


def test_columns_have_their_types_and_facts(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "id": [f"p{n}" for n in range(9)],
            "age": range(9),
            "weight": [0.5] * 9,
            "seen": pd.to_datetime(["2024-05-01"] * 9),
            "odd 'name": ["x"] * 9,
            "sex": ["F"] * 9,
            "on": ["2024-02-03"] * 9,
            "well": [True] * 9,
        }
    )
    facts: Any = {
        "age": Bounds(0, 120),
        "sex": Categories(["F", "M", "it's"]),
        "on": Dates("2024-01-01", "2024-12-31"),
    }
    unit = unacorda.Person("id", max_rows=2)
    with unacorda.Session({"t": frame}, unit=unit, budget=unacorda.PureDP(9), columns=facts) as one:
        made = StandIn(Dataset(name="t", columns=facts), one)
        asked = {
            "question": {
                "table": "t",
                "group_by": ["sex"],
                "aggregates": {
                    "n": {"count": {}},
                    "p": {"count_people": {}},
                    "m": {"mean": {"column": "age"}},
                    "w": {"mean": {"column": "weight", "lower": 0, "upper": 1}},
                },
            }
        }
        rows = made.ask(asked, budget=unacorda.PureDP(8))["release"]["rows"]
        assert [row["sex"] for row in rows] == ["F", "M", "it's"]
        assert all(150 < row["n"] < 500 and 30 < row["m"] < 90 for row in rows)
        made.close()


@pytest.mark.long
def test_what_was_made_up_is_removed(tmp_path: Path) -> None:
    with served(tmp_path) as ask:
        ask("POST", TRY, COUNT)
        folder = Path(ask.service.datasets["visits"].stand_in._folder.name)
        assert list(folder.iterdir())
    assert not folder.exists()
    assert json.loads(json.dumps(str(written(tmp_path))))
