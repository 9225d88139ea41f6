"""How far a unit reaches into every level of tables that add up: counted out, and attained."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from typing import Any

import pandas as pd
import pytest
from tests.support.cases import in_subtests
from tests.support.seams import allocate
from tests.tiers import mostly_slow

import unacorda

EVEN = list(itertools.product("ab", (1, 2)))
UNEVEN = [("a", 1), ("a", 2), ("a", 3), ("b", 1), ("c", 1)]
LIMITS = [
    {"max_rows": 3},
    {"max_groups": 3, "max_rows_per_group": 1},
    {"max_groups": 2, "max_rows_per_group": 2},
    {"max_rows": 4, "max_rows_per_group": 2},
    {"max_rows": 3, "max_groups": 2, "max_rows_per_group": 2},
]


def placements(cells: int, limits: dict[str, int]) -> list[tuple[int, ...]]:
    """How many rows of a person may stand in each cell."""
    most, groups = limits.get("max_rows", 99), limits.get("max_groups", cells)
    each = limits.get("max_rows_per_group", most)
    return [
        rows
        for rows in itertools.product(range(min(each, most) + 1), repeat=cells)
        if sum(rows) <= most and sum(n > 0 for n in rows) <= groups
    ]


@pytest.mark.long
@in_subtests("neighbors", [unacorda.AddRemove, unacorda.ReplaceOne], ids=str)
@in_subtests("limits", LIMITS, ids=str)
@pytest.mark.parametrize("shape", mostly_slow(["rollup", "cube", "uneven"]))
def test_no_neighbor_moves_a_level_further_than_told_and_one_as_far(
    shape: str, limits: Any, neighbors: Any
) -> None:
    keys = UNEVEN if shape == "uneven" else EVEN
    frame = pd.DataFrame({"id": [0], "r": ["a"], "c": [1], "x": [1]})
    account = unacorda.ZCDP(9)
    told: dict[Any, list[float]] = {}
    with unacorda.Session(
        {"t": frame}, unit=unacorda.Person("id", **limits, neighbors=neighbors), budget=account
    ) as session:
        given: Any = {"r": ["a", "b"], "c": [1, 2]} if shape == "cube" else keys
        margins: Any = "cube" if shape == "cube" else "rollup"
        start = session.table("t").group_by("r", "c", keys=given, margins=margins)
        query: Any = start.agg(n=unacorda.count(), s=unacorda.sum("x", 0, 2))
        for budget in (unacorda.PureDP(1), unacorda.ZCDP(1)):
            noises: Any = allocate(query, budget).noises
            norm = "l1_sensitivity" if isinstance(budget, unacorda.PureDP) else "l2_sensitivity"
            told[type(budget)] = [float(getattr(n.mechanism, norm)) for n in noises["n"].levels]
            doubled = [float(getattr(n.mechanism, norm)) for n in noises["s"].levels]
            assert doubled == pytest.approx([2 * one for one in told[type(budget)]])
    levels = query.aggregates["n"].margins
    sums = [
        [value for level in levels.sums(rows) for value in level]
        for rows in placements(len(keys), limits)
    ]
    ends = list(itertools.accumulate(map(len, levels.nodes), initial=0))
    pairs = itertools.product(sums, sums if neighbors is unacorda.ReplaceOne else [[0] * ends[-1]])
    worst = [[0.0, 0.0] for _ in levels.levels]
    for one, other in pairs:
        moved = [abs(a - b) for a, b in zip(one, other, strict=True)]
        for level, (low, high) in enumerate(itertools.pairwise(ends)):
            own = moved[low:high]
            worst[level][0] = max(worst[level][0], sum(own))
            worst[level][1] = max(worst[level][1], math.sqrt(sum(n * n for n in own)))
    for number, kind in enumerate((unacorda.PureDP, unacorda.ZCDP)):
        for found, most in zip(worst, told[kind], strict=True):
            assert found[number] <= most * (1 + 1e-12)
            if shape != "uneven" and neighbors is unacorda.AddRemove:
                assert found[number] == pytest.approx(most)


def test_where_groups_hold_few_rows_the_finest_level_errs_by_less() -> None:
    """One row in each of five groups moves it by the root of 5, not by 5."""
    keys = [(a, 10 * a + b) for a in range(10) for b in range(10)]
    frame = pd.DataFrame({"id": [0], "r": [0], "c": [1]})
    unit = unacorda.Person("id", max_groups=5, max_rows_per_group=1)
    with unacorda.Session({"t": frame}, unit=unit, budget=unacorda.ZCDP(9)) as session:
        table = session.table("t")
        rollup = table.group_by("r", "c", keys=keys, margins="rollup").agg(n=unacorda.count())
        told = session.explain(rollup, budget=unacorda.ZCDP("0.1"))
        alone = table.group_by("r", "c", keys=keys).agg(n=unacorda.count())
        apart = session.explain(alone, budget=unacorda.ZCDP("0.1") / 3).standard_error("n")
        finest = told.standard_error("n", "r, c")
    assert apart is not None
    assert finest is not None
    assert finest < 0.7 * apart
