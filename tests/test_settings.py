"""Files of settings: what a block may hold, and what is refused, with its place."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from unacorda.errors import InvalidParameter
from unacorda.privacy.guarantees import GDP, ZCDP, PureDP
from unacorda.query.schema.table import Bounds, Categories
from unacorda.settings import guarantee_of, numbers_of, read_settings

WHOLE = """
[server]
ledger = "sqlite:///budget.db"
[datasets.visits-2026]
tables = { visits = "visits.parquet", old = "clinic.duckdb::visits" }
public = { counties = "/data/counties.csv" }
unit = { person = "patient", max_rows = 10 }
budget = { rho = 0.5, delta = 1e-9 }
query_budget = { rho = 0.1 }
columns = { age = { bounds = [0, 120] }, county = { categories = ["A", "B"] } }
stand_in = "made-up.parquet"
memory_limit = "1GB"
analysts = { ana = { rho = 0.1 }, ben = { rho = 0.05 } }
"""
LEAST = '[datasets.d]\ntables = { t = "t.csv" }\n'


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "unacorda.toml"
    path.write_text(text)
    return path


def test_every_key_is_read_exactly(tmp_path: Path) -> None:
    settings = read_settings(written(tmp_path, WHOLE))
    assert settings.ledger == f"sqlite:///{tmp_path / 'budget.db'}"
    found = settings.dataset(None)
    assert found is settings.dataset("visits-2026")
    assert found.tables == {
        "visits": str(tmp_path / "visits.parquet"),
        "old": str(tmp_path / "clinic.duckdb::visits"),
    }
    assert found.public == {"counties": "/data/counties.csv"}
    assert found.unit == {"person": ("patient",), "max_rows": 10}
    assert (found.budget, found.query_budget) == (ZCDP("1/2", "1e-9"), ZCDP("1/10"))
    assert found.columns == {"age": Bounds(0, 120), "county": Categories(["A", "B"])}
    assert found.stand_in == str(tmp_path / "made-up.parquet")
    assert found.memory_limit == "1GB"
    assert found.analysts == {"ana": ZCDP("0.1"), "ben": ZCDP("0.05")}


def test_tables_of_an_engine_are_no_paths(tmp_path: Path) -> None:
    text = '[datasets.d]\nengine = "postgresql://reader@db/x"\ntables = { t = "clinic.visits" }\n'
    found = read_settings(written(tmp_path, f"{text}budget = {{ epsilon = 0.1 }}")).dataset("d")
    assert found.tables == {"t": "clinic.visits"}
    assert found.budget == PureDP("1/10")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "a block [datasets.NAME]"),
        ("[dataset.d]", "='dataset' cannot be used: expected 'datasets'?"),
        ("[datasets.d]", "expected tables in "),
        (LEAST + "colums = {}", "datasets.d='colums' cannot be used: expected 'columns'?"),
        (LEAST + "unit = { persons = 'id' }", "d.unit='persons' cannot be used: expected 'person'"),
        (
            LEAST + "budget = { epsilom = 1 }",
            "d.budget='epsilom' cannot be used: expected 'epsilon'",
        ),
        (LEAST + "budget = { delta = 0.1 }", "expected one of epsilon"),
        (LEAST + "budget = { epsilon = nan }", "d.budget, epsilon="),
        (LEAST + "budget = 3", "d.budget=3 cannot be used: expected a table"),
        (LEAST + "unit = {}", "expected person with the column of the person, or row = true"),
        (LEAST + "unit = { row = true, person = 'id' }", "and not both"),
        (LEAST + "unit = { person = 'id', max_rows = 0 }", "d.unit.max_rows=0"),
        (LEAST + "unit = { row = true, max_rows = 2 }", "without limits on rows"),
        (LEAST + "columns = { age = { bounds = [5, 1] } }", "d.columns.age="),
        (LEAST + "columns = { age = {} }", "d.columns.age={} cannot be used"),
        (LEAST + "public = { T = 'z.csv' }", "d.tables='T' cannot be used"),
        (LEAST + "analysts = { ana = { rho = 1, mst = 1 } }", "d.analysts.ana='mst'"),
        (LEAST + "tables = {}", "expected TOML: "),
        ("[server]\nlistn = 1\n" + LEAST, "server='listn' cannot be used"),
        ("[datasets.d]\ntables = { t = 3 }", "d.tables.t=3 cannot be used: expected a text"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InvalidParameter) as caught:
        read_settings(written(tmp_path, text))
    assert said in str(caught.value)
    assert len(str(caught.value)) < 600


def test_one_of_several_is_named(tmp_path: Path) -> None:
    both = LEAST + LEAST.replace("datasets.d", "datasets.e")
    settings = read_settings(written(tmp_path, both))
    assert settings.dataset("e").name == "e"
    for name in (None, "f"):
        with pytest.raises(InvalidParameter, match="d, e"):
            settings.dataset(name)


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="--settings"):
        read_settings(tmp_path / "nix.toml")
    (tmp_path / "x.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidParameter, match="UTF-8"):
        read_settings(tmp_path / "x.toml")


@pytest.mark.parametrize("square", [Fraction(3, 4), Fraction(2), Fraction(1, 7 * 10**40)])
def test_a_budget_of_its_numbers_costs_no_more(square: Fraction) -> None:
    budget = GDP.from_squared(square)
    made = guarantee_of(numbers_of(budget))
    assert isinstance(made, GDP)
    assert 1 - Fraction(1, 10**13) < made.mu_squared / square < 1
