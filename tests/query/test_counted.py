"""Counts of ranks read some cells at a time, and kept where there are rows."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from tests.query.neighbor_tables import tallies_of
from tests.support.seams import Counted, DeeperRows, Lines, Ranking, exact_of
from tests.support.seams import counted as reading
from tests.support.seams import ranking as rankings

import unacorda


def tables() -> list[tuple[Ranking, NDArray[np.int64]]]:
    """Grids of single points and of wider bins; cells without rows, with few, and with many."""
    source = np.random.default_rng(3)
    found = []
    for steps in (1, 2, 9, 6_000):
        ranking = Ranking(place="x", steps=steps)
        counts = source.poisson(2.0, (12, ranking.bins))
        counts[:4] *= source.random((4, ranking.bins)) < 0.1
        counts[2], counts[5, 1:] = 0, 0
        found.append((ranking, counts.astype(np.int64)))
    return found


@pytest.mark.parametrize("entries", [1, 40, 10**6])
def test_bins_of_batches_are_the_counts(entries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_MOST_ENTRIES", entries)
    for ranking, counts in tables():
        seen = []
        for batch in Counted.of(ranking, counts).batches():
            for number, cell in enumerate(batch.cells.tolist()):
                seen.append(cell)
                bins = batch.bins.of(number)
                there = bins.sizes > 0
                lows, sizes, weights = bins.lows[there], bins.sizes[there], bins.weights[there]
                # A partition of the grid, its ends by themselves, empty neighbours put together.
                assert lows[0] == 0
                assert (lows[1:] == (lows + sizes)[:-1]).all()
                assert lows[-1] == ranking.steps
                assert sizes[0] == sizes[-1] == 1
                assert ((weights[1:-2] > 0) | (weights[2:-1] > 0)).all()
                # All rows where they were counted.
                at = np.searchsorted(ranking.lows, lows)
                assert weights[weights > 0].tolist() == counts[cell][counts[cell] > 0].tolist()
                assert (ranking.lows[at] == lows).all()
                assert (counts[cell, at] == weights).all()
                below = np.cumsum(counts[cell]) - counts[cell]
                assert (below[at] == bins.before[there]).all()
                # Bins that a cell lacks are beyond all others.
                assert (bins.lows[~there] == ranking.steps + 1).all()
                assert (bins.before[~there] == counts[cell].sum()).all()
                assert not bins.weights[~there].any()
        assert sorted(seen) == list(range(len(counts)))


def test_parts_are_read_when_they_are_needed_and_give_all_cells(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rankings, "_MOST_POINTS", 3)
    source = np.random.default_rng(5)
    table = pa.table(
        {"id": np.arange(900), "cell": source.integers(0, 40, 900), "x": source.random(900)}
    )
    asked: list[tuple[int, int] | None] = []
    right = DeeperRows.first

    def watched(
        deeper: DeeperRows, numbers: Sequence[int], cells: tuple[int, int] | None
    ) -> list[Lines]:
        asked.append(cells)
        return right(deeper, numbers, cells)

    monkeypatch.setattr(DeeperRows, "first", watched)
    with unacorda.Session(
        {"t": table}, unit=unacorda.Person("id", max_rows=1), budget=unacorda.PureDP(9)
    ) as session:
        query = session.table("t").group_by("cell", keys=range(40))
        query = query.agg(
            m=unacorda.median("x", 0, 1, steps=300), b=unacorda.max("x", 0, 1, steps=300)
        )

        def counts() -> list[NDArray[np.int64]]:
            tallies = tallies_of(session, query, salt=1)
            found = [exact_of(query, name, tallies).rankings[0].counts for name in ("m", "b")]
            tallies.close()
            return found

        whole = counts()
        assert asked == [None, None]
        width = whole[0].shape[1]
        monkeypatch.setattr(reading, "MOST_LINES", 15 * width)
        some = counts()
        assert asked[2:] == [(0, 15), (15, 30), (30, 40)] * 2
        release = session.evaluate(query, budget=unacorda.PureDP(1))
        assert len(release.keys) == 40
    assert whole[0].sum() == whole[1].sum() == 900
    assert all((a == b).all() for a, b in zip(whole, some, strict=True))


def test_no_number_of_groups_is_too_large_for_the_default_grid() -> None:
    table = pa.table({"id": [1], "cell": [1], "x": [0.5]})
    with unacorda.Session(
        {"t": table}, unit=unacorda.Person("id", max_rows=1), budget=unacorda.PureDP(9)
    ) as session:
        start = session.table("t").group_by("cell", keys=range(200_000))
        found = start.agg(m=unacorda.quantiles("x", [0.25, 0.5], 0, 1))
        assert session.explain(found, budget=unacorda.PureDP(1)).cost == unacorda.PureDP(1)
