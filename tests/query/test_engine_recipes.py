"""The recipes for PostgreSQL and Spark run, and their answers are near the exact ones."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import duckdb
import pytest
from tests.postgres_server import server
from tests.support.local_spark import local_spark

import unacorda

DOCS = Path(__file__).parents[2] / "docs" / "howto"
FLIGHTS = Path(unacorda.__file__).parent / "cli" / "data" / "flights.parquet"
ADDRESS = "postgresql://analyst@db.example/warehouse"


def recipe(name: str) -> str:
    """The code of a page."""
    return "\n".join(
        re.findall(r"^```python\n(.*?)^```", (DOCS / name).read_text(), re.MULTILINE | re.DOTALL)
    )


def shown(name: str) -> list[tuple[str, str, str]]:
    """The lines of the exact table of a page: origin, aircraft, flights."""
    exact = (DOCS / name).read_text().partition("Exact, by")[2]
    return re.findall(r"^ +([A-Z]{3}) +([\d,]+) +([\d,]+)$", exact, re.MULTILINE)


def exact() -> list[tuple[str, int, int]]:
    with duckdb.connect() as connection:
        return connection.execute(
            "SELECT origin, COUNT(DISTINCT tailnum), COUNT(*) "
            f"FROM '{FLIGHTS}' WHERE tailnum IS NOT NULL GROUP BY origin ORDER BY origin"
        ).fetchall()


def check(names: dict[str, Any], page: str) -> None:
    truth = exact()
    assert [(origin, f"{a:,}", f"{n:,}") for origin, a, n in truth] == shown(page)
    for row, (origin, aircraft, flights) in zip(names["release"].to_dicts(), truth, strict=True):
        assert row["origin"] == origin
        # Seven standard errors are passed about once in 10^10 runs.
        assert abs(row["aircraft"] - aircraft) <= 7 * row["aircraft_se"]
        assert abs(row["flights"] - flights) <= 7 * row["flights_se"]


@pytest.mark.service
def test_the_recipe_for_postgresql(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with duckdb.connect() as reader:
        rows = reader.execute(f"SELECT tailnum, origin FROM '{FLIGHTS}'").fetchall()
    with server().connect() as connection:
        connection.execute("CREATE TABLE public.flights (tailnum text, origin text)")
        with connection.cursor().copy("COPY public.flights FROM STDIN") as copied:
            for row in rows:
                copied.write_row(row)
        try:
            names: dict[str, Any] = {}
            address = server().url.replace("+psycopg", "")
            exec(recipe("postgresql.md").replace(ADDRESS, address), names)
            check(names, "postgresql.md")
            names["session"].close()
        finally:
            connection.execute("DROP TABLE public.flights")


@pytest.mark.service
def test_the_recipe_for_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"spark": local_spark(memory="1g", threads=2)}
    code, started = re.subn(
        r"^spark = \(\n.*?^\)\n", "", recipe("spark.md"), flags=re.MULTILINE | re.DOTALL
    )
    assert started == 1
    # Spark may have been started elsewhere, where its relative paths begin.
    exec(code.replace('"flights.parquet"', f'"{FLIGHTS}"'), names)
    check(names, "spark.md")
    names["session"].close()
