"""Sums of vectors: exact on every row there is, cut to their length, noise by the length alone."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from tests.support.cases import in_subtests
from tests.support.seams import Reach, of_balls, vector_sum

import unacorda
from unacorda.bits import SeededBits
from unacorda.errors import InvalidParameter
from unacorda.privacy.guarantees import Guarantee

LOUD = unacorda.PureDP(10**6)
STRANGE = [None, math.nan, math.inf, -math.inf, 0.0, -0.0, 1e308, -1e308, 5e-324, 3.0, -4.0, 1.0]


def asked(
    rows: list[tuple[float | None, float | None]],
    *,
    norm: float,
    budget: Guarantee | None = None,
    neighbors: unacorda.privacy.neighbors.Neighbors = unacorda.AddRemove,
) -> dict[str, float]:
    x, y = (pa.array(column, pa.float64()) for column in zip(*rows, strict=True))
    table = pa.table({"x": x, "y": y})
    spent = budget or LOUD
    with unacorda.Session(
        {"t": table}, unit=unacorda.Row(neighbors=neighbors), budget=spent, bits=SeededBits(1)
    ) as session:
        query = session.table("t").agg(g=vector_sum(["x", "y"], norm=norm))
        (line,) = session.evaluate(query, budget=spent).to_dicts()
    return line


@pytest.mark.parametrize("norm", [0.25, 5, 1e9, 1e90])
def test_every_row_counts_as_its_cut_vector(norm: float) -> None:
    rows = [(a, b) for a in STRANGE for b in STRANGE]
    x, y = (pa.array(column, pa.float64()) for column in zip(*rows, strict=True))
    table = pa.table({"x": x, "y": y, "k": range(len(rows))})
    with unacorda.Session(
        {"t": table}, unit=unacorda.Row(), budget=LOUD, bits=SeededBits(1)
    ) as session:
        query = session.table("t").group_by("k", keys=range(len(rows)))
        lines = session.evaluate(query.agg(g=vector_sum(["x", "y"], norm=norm)), budget=LOUD)
    for line, row in zip(lines.to_dicts(), rows, strict=True):
        # NaN is no number; single ones are cut at 2^20 lengths.
        expected = [0.0, 0.0]
        if not any(value is None or math.isnan(value) for value in row):
            numbers = [float(value) for value in row if value is not None]
            vector = np.clip(numbers, -norm * 2.0**20, norm * 2.0**20)
            expected = list(vector / max(float(np.linalg.norm(vector)) / norm, 1.0))
        assert [line["g_0"], line["g_1"]] == pytest.approx(expected, abs=norm * 1e-4)


def test_sums_add_up_over_rows_and_groups() -> None:
    drawn = np.random.default_rng(1)
    values = drawn.normal(size=(2000, 2)) * 3
    table = pa.table({"x": values[:, 0], "y": values[:, 1], "k": np.arange(2000) % 3})
    with unacorda.Session(
        {"t": table}, unit=unacorda.Row(), budget=LOUD, bits=SeededBits(1)
    ) as session:
        query = session.table("t").group_by("k", keys=[0, 1, 2, 7])
        query = query.agg(g=vector_sum(["x", "2 * y"], norm=4), n=unacorda.count())
        lines = session.evaluate(query, budget=LOUD).to_dicts()
    vectors = values * [1, 2]
    cut = vectors * np.minimum(1, 4 / np.linalg.norm(vectors, axis=1))[:, None]
    for line in lines:
        expected = cut[np.arange(2000) % 3 == line["k"]].sum(axis=0)
        assert [line["g_0"], line["g_1"]] == pytest.approx(list(expected), abs=1e-3)
    assert lines[3]["n"] == 0


@pytest.mark.parametrize("neighbors", [unacorda.AddRemove, unacorda.ReplaceOne])
def test_noise_follows_the_length_alone(neighbors: unacorda.privacy.neighbors.Neighbors) -> None:
    line = asked([(1.0, 2.0)], norm=4, budget=unacorda.ZCDP("0.5"), neighbors=neighbors)
    moved = 4 if neighbors is unacorda.AddRemove else 8
    assert line["g_0_se"] == pytest.approx(moved, rel=1e-6)
    assert line["g_1_se"] == pytest.approx(moved, rel=1e-6)


def test_its_sensitivity_is_reached_along_a_diagonal() -> None:
    reach = Reach.within(max_rows=3, max_rows_per_group=2, cells=5, replaced=False)
    told = of_balls(reach, radius=10, size=4)
    # Two rows in one cell, one in another, each (5, 5, 5, 5), which is 10 long.
    moved = np.array([[10, 10, 10, 10], [5, 5, 5, 5]])
    assert told.l2_squared == (moved**2).sum() == 500
    assert float(told.l1) == np.abs(moved).sum() == 60


@in_subtests(
    ("columns", "norm", "named"),
    [
        ("x", 1, "columns"),
        ([], 1, "columns"),
        (["x"] * 1001, 1, "columns"),
        (["x"], 0, "norm"),
        (["x"], math.inf, "norm"),
        (["x"], "1e101", "norm"),
    ],
)
def test_arguments_that_cannot_be_used_are_named(columns: object, norm: object, named: str) -> None:
    with pytest.raises(InvalidParameter, match=rf"^{named}="):
        vector_sum(columns, norm=norm)  # type: ignore[arg-type]


def test_it_is_explained_before_anything_is_spent() -> None:
    table = pa.table({"x": [1.0], "y": [2.0]})
    with unacorda.Session({"t": table}, unit=unacorda.Row(), budget=unacorda.ZCDP(1)) as session:
        query = session.table("t").agg(g=vector_sum(["x", "y"], norm=4))
        text = str(session.explain(query, budget=unacorda.ZCDP("0.5"), detail=True))
        assert "cut to that length" in text
        assert session.spent == unacorda.ZCDP(0)
