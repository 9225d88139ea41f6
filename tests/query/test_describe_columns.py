"""Which columns a first look shows, and what it knows of whole numbers and of 0 and 1."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.support.seams import Description

import unacorda
from unacorda.errors import InvalidParameter

PEOPLE = 4_000


def look(tmp_path: Path, *, typed: bool = False, **options: object) -> Description:
    """A look at four columns and three ids, with a large budget."""
    drawn = np.random.default_rng(5)
    table = pd.DataFrame(
        {
            "case.id": drawn.permutation(PEOPLE),
            "visit_ID": drawn.permutation(PEOPLE),
            "row": range(PEOPLE),
            "age": drawn.integers(20, 80, PEOPLE),
            "male": (drawn.random(PEOPLE) < 0.4).astype(int),
            "height": drawn.normal(170, 9, PEOPLE).round(1),
            "paid": drawn.integers(0, 9, PEOPLE),
            "remark": ["x"] * PEOPLE,
        }
    )
    table.loc[:399, "remark"] = None
    source: object = table
    if not typed:
        source = str(tmp_path / "t.csv")
        table.to_csv(str(source), index=False)
    with unacorda.Session(
        {"t": source},
        unit=unacorda.Row(),
        budget=unacorda.ZCDP(100),
        columns={"paid": unacorda.Bounds(0, 10)},
        bits=unacorda.SeededBits(5),
    ) as session:
        return session.describe("t", budget=unacorda.ZCDP(100), **options)  # type: ignore[arg-type]


@pytest.mark.long
@pytest.mark.parametrize("typed", [False, True])
def test_ids_are_left_out_and_listed(tmp_path: Path, typed: bool) -> None:
    found = look(tmp_path, typed=typed)
    assert [one.name for one in found.columns] == ["age", "male", "height", "paid", "remark"]
    assert found.left_out == ("case.id", "visit_ID", "row")
    assert "left out, named as ids or row numbers: case.id, visit_ID, row" in str(found)


@pytest.mark.long
def test_columns_are_chosen(tmp_path: Path) -> None:
    found = look(tmp_path, only=["AGE", "row"])
    assert [one.name for one in found.columns] == ["row", "age"]
    assert found.left_out == ()
    found = look(tmp_path, skip=["remark", "height", "row"])
    assert [one.name for one in found.columns] == ["age", "male", "paid"]
    assert found.left_out == ("case.id", "visit_ID")
    for wrong in ({"only": ["nix"]}, {"skip": "age"}, {"only": ["row"], "skip": ["row"]}):
        with pytest.raises(InvalidParameter):
            look(tmp_path, **wrong)


@pytest.mark.parametrize("typed", [False, True])
def test_whole_numbers_and_0_and_1_are_recognized(tmp_path: Path, typed: bool) -> None:
    by_name = {one.name: one for one in look(tmp_path, typed=typed).columns}
    assert by_name["male"].quantiles["50%"] == "0"
    assert by_name["male"].quantiles["95%"] == "1"
    assert by_name["male"].range == ("0", "1")
    assert [bar.label for bar in by_name["male"].bars] == ["0", "1"]
    for name in ("age", "paid"):
        assert all(re.fullmatch(r"\d+", one) for one in by_name[name].quantiles.values())
    assert any("." in one for one in by_name["height"].quantiles.values())
    # The noise of rho = 100 is far below a year.
    low, high = map(float, by_name["age"].intervals["50%"].split(" to "))
    assert low <= 49.5 <= high


def test_missing_values_and_axes_are_shown(tmp_path: Path) -> None:
    found = look(tmp_path)
    by_name = {one.name: one for one in found.columns}
    for name, missing in (("remark", 400), ("age", 0)):
        count = by_name[name].missing
        assert count is not None
        assert count.value == pytest.approx(missing, abs=10)
    page = found.to_html()
    assert page.count(">people</text>") == 4
    assert ">age</text>" in page
    assert "Counts are of people, each once; means and quantiles are of the rows" in page
    assert "Counts are of people, each once; means and quantiles are of the rows" in str(found)
