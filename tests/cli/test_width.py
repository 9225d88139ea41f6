"""Terminals of 80 columns: nothing is cut, and no cell goes over two lines."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.conftest import Run
from tests.cli.terminal import on_terminal
from tests.support.cases import in_subtests
from tests.support.cli_seams import estimate, number, table_blocks

SIGNS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
WIDE = (
    "SELECT county, day, COUNT(*) AS n, COUNT(DISTINCT person) AS people, AVG(age) AS avg_age, "
    "SUM(age) AS sum_age, MEDIAN(age) AS median_age, QUANTILE(age, 0.9) AS high_age, "
    "AVG(age * 2) AS double_age FROM visits GROUP BY county, day"
)


def lines_of(text: str) -> list[str]:
    """What stands on the terminal in the end: a spinner's line is overwritten."""
    return [SIGNS.sub("", line.rpartition("\x1b[2K")[2]) for line in text.split("\n")]


@pytest.mark.slow
def test_a_wide_release_comes_in_blocks_with_its_keys_and_every_digit(visits: str) -> None:
    ran = on_terminal(
        "query", visits, "--unit", "person", "--max-rows", "2", "--epsilon", "3000",
        "--bounds", "age=0:120", "--keys", "county=A,B", "--keys", "day=2024-01-01,2024-01-02",
        WIDE,
    )  # fmt: skip
    assert ran.code == 0
    assert "…" not in ran.out
    lines = lines_of(ran.out)
    assert max(map(len, lines)) <= 80
    heads = [line.split() for line in lines if line.startswith("county")]
    assert len(heads) > 1
    assert all(names[:2] == ["county", "day"] for names in heads)
    assert [name for names in heads for name in names[2:]] == [
        "n", "people", "avg_age", "sum_age", "median_age", "high_age", "double_age",
    ]  # fmt: skip
    assert sum(line.startswith("A  ") for line in lines) == 2 * len(heads)
    # 200 rows of county A with ages 20, 22, ..., 68; noise far below one: p < 1e-9.
    assert any(re.match(r"A +2024-01-01 +200 ± 0 ", line) for line in lines)


@pytest.mark.long
def test_the_cost_of_an_entry_is_whole(visits: str, ledger: str, run: Run) -> None:
    book = ("--ledger", ledger, "--dataset", "v")
    for price in ("0.125", "0.0625"):
        asked = (
            "query", visits, "--row", "--epsilon", price, *book, "--budget", "epsilon=2",
            "--analyst", "Ada", "--purpose", "the report that is due at the end of the year",
            "SELECT COUNT(*) AS n FROM visits",
        )  # fmt: skip
        assert run(*asked).code == 0
    ran = on_terminal("ledger", "show", *book)
    lines = lines_of(ran.out)
    assert "…" not in ran.out
    assert max(map(len, lines)) <= 80
    assert any(re.match(r"1 +20\d\d-\d\d-\d\d \d\d:\d\d +yes +epsilon 0.125 ", s) for s in lines)
    assert any(re.match(r"2 .* epsilon 0.0625 ", line) for line in lines)
    assert any(line.endswith("the report that is due at the end of the year") for line in lines)


@pytest.mark.slow
def test_each_row_of_the_demonstration_is_one_line() -> None:
    lines = lines_of(on_terminal("demo").out)
    assert max(map(len, lines)) <= 80
    for name in ("no diploma", "master or more", "Endeavor", "SkyWest", "Mesa"):
        (row,) = [line for line in lines if line.startswith(f"{name} ")]
        assert row.count("±") + row.count("none") >= 2


@pytest.mark.long
@given(
    widths=st.lists(st.integers(0, 40), min_size=1, max_size=9),
    repeated=st.integers(0, 2),
    width=st.integers(10, 120),
)
def test_blocks_hold_every_column_once_and_fit_where_they_can(
    widths: list[int], repeated: int, width: int
) -> None:
    repeated = min(repeated, len(widths) - 1)
    blocks = table_blocks(widths, width, repeated=repeated)
    others = [place for block in blocks for place in block[repeated:]]
    assert others == list(range(repeated, len(widths)))
    for block in blocks:
        assert block[:repeated] == list(range(repeated))
        fits = sum(widths[place] for place in block) + 2 * (len(block) - 1) <= width
        assert fits or len(block) == repeated + 1


@pytest.mark.parametrize("value", [-0.0, -0.3, -0.04])
def test_zero_has_no_sign(value: float) -> None:
    assert not estimate(value, value - 30, value + 30).startswith("-0")
    assert number(-0.0) == "0"


@pytest.mark.slow
def test_long_messages_wrap_on_a_terminal_and_not_in_a_pipe(visits: str, spawn: Run) -> None:
    asked = ("query", visits, "--row", "--epsilon", "1", "SELECT COUNT(*) AS n FROM visits")
    lines = lines_of(on_terminal(*asked).out)
    (first,) = [place for place, line in enumerate(lines) if line.startswith("note: ")]
    assert max(map(len, lines)) <= 79
    assert "nothing remembers" in " ".join(lines[first:])
    assert spawn(*asked).err.count("\n") == 1


@in_subtests(
    "verb",
    [
        ("query",),
        ("demo",),
        ("account",),
        ("calibrate",),
        ("ledger", "show"),
        ("ledger", "init"),
        (),
    ],
)
def test_help_fits(run: Run, verb: tuple[str, ...]) -> None:
    assert max(map(len, run(*verb, "--help").out.splitlines())) <= 80


@pytest.mark.parametrize(
    "arguments",
    [
        ("query", "SELECT NIX(age) AS n FROM visits"),  # all functions are listed
        pytest.param(
            ("query", f"SELECT {', '.join(f'AVG(a{n}) AS a{n}' for n in range(400))} FROM visits"),
            marks=pytest.mark.slow,
        ),
        ("query", f"SELECT AVG({'x' * 3000}) AS n FROM visits"),
        ("query", WIDE),
        ("fit", f"age ~ {' + '.join(f'C(c{n})' for n in range(400))}"),
        ("describe",),
    ],
)
def test_the_longest_messages_fit_one_screen(
    run: Run, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    path = tmp_path / "visits.csv"
    columns = [*(f"{letter}{n}" for letter in "ac" for n in range(400)), "age", "county", "day"]
    path.write_text(",".join([*columns, "person"]) + "\n")
    verb, *rest = arguments
    ran = run(verb, str(path), *rest)  # which checks it
    assert ran.code == 2
    assert ran.err.startswith("error: ")
