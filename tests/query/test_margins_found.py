"""Tables that add up over keys that are found, and of people who are in one group each."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.query.exact_answers import opened
from tests.support.seams import allocate, verify_record

import unacorda
from unacorda.errors import InvalidParameter
from unacorda.privacy.guarantees import GDP, ZCDP, ApproxDP, PureDP

LINES = [(n, "NS"[n % 2], f"{'NS'[n % 2]}{n % 6}", n % 3) for n in range(1_200)]
LINES += [(5_000, "N", "rare", 0), (5_001, "W", "rarer", 1)]
TABLE = pl.DataFrame(LINES, schema=["id", "region", "county", "x"], orient="row")
BUDGETS = [ApproxDP(4, "1e-6"), ZCDP(1, "1e-6"), GDP(1, "1e-6")]


def asked(session: unacorda.Session, *columns: str, **options: Any) -> Any:
    query = session.table("t").group_by(*columns, **options)
    return query.agg(n=unacorda.count(), s=unacorda.sum("x", 0, 2))


@pytest.mark.long
@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_a_rollup_over_found_keys_adds_up_and_is_verified(budget: Any) -> None:
    unit = unacorda.Person("id", max_rows=1)
    with opened(TABLE, unit=unit, budget=budget) as session:
        query = asked(session, "region", "county", keys=unacorda.private_keys(), margins="rollup")
        told = session.explain(query, budget=budget, detail=True)
        release = session.evaluate(query, budget=budget)
    assert "Sums are those over the keys that are found" in str(told)
    rows = release.to_dicts()
    assert [row["margin"] for row in rows] == ["all"] + ["region"] * 2 + ["region, county"] * 6
    assert not {"rare", "rarer"} & {row["county"] for row in rows}
    for name in ("n", "s"):
        whole = [row[name] for row in rows]
        assert math.isclose(whole[0], whole[1] + whole[2], abs_tol=1e-6)
        assert math.isclose(whole[0], sum(whole[3:]), abs_tol=1e-6)
    assert abs(rows[0]["n"] - 1_200) < 6 * rows[0]["n_se"] + 1
    parts: Any = allocate(query, budget).noises["n"]
    for row in rows:
        level = 0 if row["margin"] == "all" else 1 if row["margin"] == "region" else 2
        assert row["n_se"] <= parts.levels[level].standard_deviation * (1 + 1e-9)
    checked = verify_record(release.to_json())
    assert checked.holds, str(checked)


def test_a_cube_of_found_and_listed_keys_adds_up_in_every_direction() -> None:
    budget = ApproxDP(4, "1e-6")
    keys = {"x": [0, 1, 2], "county": unacorda.private_keys()}
    with opened(TABLE, unit=unacorda.Person("id", max_rows=1), budget=budget) as session:
        weights = [1, 1, 2, 4]
        query = asked(session, "x", "county", keys=keys, margins="cube", level_weights=weights)
        release = session.evaluate(query, budget=budget)
    found = dict(zip(release.keys, release.answers["n"].values, strict=True))
    counties = [county for level, _, county in found if level == "county"]
    assert len(counties) == 6
    assert len(found) == (1 + 3) * (1 + 6)
    for county in counties:
        parts = sum(found["x, county", x, county] for x in range(3))
        assert math.isclose(found["county", None, county], parts, abs_tol=1e-6)
    by_x = sum(found["x", x, None] for x in range(3))
    assert math.isclose(found["all", None, None], by_x, abs_tol=1e-6)
    assert verify_record(release.to_json()).holds


@pytest.mark.parametrize("margins", ["rollup", "cube"])
def test_where_no_key_is_found_there_are_no_lines(margins: Any) -> None:
    budget = ApproxDP("0.01", "1e-9")
    with opened(TABLE.head(3), unit=unacorda.Person("id", max_rows=1), budget=budget) as session:
        query = asked(session, "county", keys=unacorda.private_keys(), margins=margins)
        release = session.evaluate(query, budget=budget)
    assert release.to_dicts() == []
    assert verify_record(release.to_json()).holds


@pytest.mark.parametrize("neighbors", [unacorda.AddRemove, unacorda.ReplaceOne])
@pytest.mark.parametrize("limits", [{"max_rows": 1}, {"max_groups": 1, "max_rows_per_group": 3}])
def test_people_of_one_group_each_add_up(limits: Any, neighbors: Any) -> None:
    unit = unacorda.Person("id", **limits, neighbors=neighbors)
    counties = sorted({(r, c) for _, r, c, _ in LINES})
    with opened(TABLE, unit=unit, budget=ZCDP(9)) as session:
        start = session.table("t").group_by("region", "county", keys=counties, margins="rollup")
        release = session.evaluate(start.agg(p=unacorda.count_people()), budget=ZCDP(9))
    values = release.answers["p"].values
    errors = [e for e in release.answers["p"].standard_errors if e is not None]
    truth = [1_202, 601, 600, 1]
    assert np.all(np.abs(np.array(values[:4]) - truth) < 6 * np.array(errors[:4]) + 0.5)
    assert math.isclose(values[0], sum(values[1:4]), abs_tol=1e-6)


@pytest.mark.parametrize("neighbors", [unacorda.AddRemove, unacorda.ReplaceOne])
def test_no_neighbor_moves_people_of_a_level_further_than_told(neighbors: Any) -> None:
    """Whoever comes, goes or is another, in whichever of the cells: every level, both norms."""
    cells = [("a", 1), ("a", 2), ("b", 1), ("b", 2)]
    unit = unacorda.Person("id", max_groups=1, max_rows_per_group=2, neighbors=neighbors)
    frame = pl.DataFrame({"id": [0], "r": ["a"], "c": [1]})
    with opened(frame, unit=unit, budget=PureDP(1)) as session:
        start = session.table("t").group_by("r", "c", keys=cells, margins="rollup")
        query = start.agg(p=unacorda.count_people())
    of, margins = query.aggregates["p"].of, query.aggregates["p"].margins  # type: ignore[attr-defined]
    noise: Any = allocate(query, PureDP(1)).noises["p"]
    base = [3, 1, 0, 2]
    worst = [0] * len(margins.levels)
    for gone in (None, 0, 1, 2, 3):
        for come in (None, 0, 1, 2, 3):
            one = (gone is None) != (come is None)
            if one is not (neighbors is unacorda.AddRemove) or gone is come is None:
                continue
            other = list(base)
            for cell, change in ((gone, -1), (come, 1)):
                if cell is not None:
                    other[cell] += change
            pairs = zip(margins.sums(base), margins.sums(other), strict=True)
            moved = [sum(abs(x - y) for x, y in zip(*pair, strict=True)) for pair in pairs]
            worst = [max(x, y) for x, y in zip(worst, moved, strict=True)]
    assert isinstance(of, type(unacorda.count_people()))
    # Pure DP: a level's epsilon is what it moves by over its scale; all together are the budget.
    scales = [float(level.mechanism.scale) for level in noise.levels]
    assert sum(moved / scale for moved, scale in zip(worst, scales, strict=True)) <= 1 + 1e-9


def test_people_who_may_be_in_several_groups_are_refused_with_what_to_do() -> None:
    unit = unacorda.Person("id", max_rows=3)
    with opened(TABLE, unit=unit, budget=PureDP(1)) as session:
        start = session.table("t").group_by("region", keys=["N", "S"], margins="rollup")
        with pytest.raises(InvalidParameter, match=r"2 groups.*max_groups=1.*evaluate\(\[") as e:
            start.agg(p=unacorda.count_people())
    assert "do not add up" in str(e.value)
