"""Counts by place, put together to bins that fill every cell."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from tests.query.counted_cells import counted_cells
from tests.support.seams import GridCounts
from tests.support.seams import counted as reading

import unacorda


def tables() -> list[NDArray[np.int64]]:
    """Cells without rows, with few, and with many, on grids of few and of many places."""
    source = np.random.default_rng(3)
    found = []
    for steps in (1, 2, 9, 6_000):
        counts = source.poisson(2.0, (12, steps + 1))
        counts[:4] *= source.random((4, steps + 1)) < 0.1
        counts[2], counts[5, 1:] = 0, 0
        found.append(counts.astype(np.int64))
    return found


@pytest.mark.parametrize("entries", [1, 40, 10**6])
def test_bins_of_batches_are_the_counts(entries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_MOST_ENTRIES", entries)
    for counts in tables():
        seen, last = [], counts.shape[1] - 1
        for cells, batch in counted_cells(counts).batches():
            for number, cell in enumerate(cells.tolist()):
                seen.append(cell)
                bins = batch.of(number)
                there = bins.sizes > 0
                lows, sizes, weights = bins.lows[there], bins.sizes[there], bins.weights[there]
                # A partition of the grid, its ends by themselves, empty neighbors put together.
                assert lows[0] == 0
                assert (lows[1:] == (lows + sizes)[:-1]).all()
                assert lows[-1] == last
                assert sizes[0] == sizes[-1] == 1
                assert (sizes[weights > 0] == 1).all()
                assert ((weights[1:-2] > 0) | (weights[2:-1] > 0)).all()
                # All rows where they were counted.
                assert (counts[cell, lows][sizes == 1] == weights[sizes == 1]).all()
                assert weights.sum() == counts[cell].sum()
                below = np.cumsum(counts[cell]) - counts[cell]
                assert (below[lows] == bins.before[there]).all()
                # Bins without places have no rows, and stand in order with the others.
                assert not bins.weights[~there].any()
                assert (np.diff(bins.before) == bins.weights[:-1]).all()
                assert bins.before[-1] + bins.weights[-1] == counts[cell].sum()
        assert sorted(seen) == list(range(len(counts)))


def test_rows_below_places_are_counted() -> None:
    source = np.random.default_rng(4)
    for counts in tables():
        places = source.integers(0, counts.shape[1], (len(counts), 5))
        below = np.hstack([np.zeros((len(counts), 1), np.int64), np.cumsum(counts, axis=1)])
        counted = counted_cells(counts)
        assert (counted.below(places) == np.take_along_axis(below, places, axis=1)).all()
        assert (counted.totals == counts.sum(axis=1)).all()
        assert (counted.counts == counts).all()


def test_lines_may_come_in_any_order_and_in_pieces() -> None:
    counts = np.array([[0, 3, 0, 2], [1, 0, 0, 4]])
    cells, places = np.nonzero(np.vstack([counts, counts]))
    lines = cells % 2, places, np.vstack([counts, counts])[cells, places]
    order = np.random.default_rng(1).permutation(len(cells))
    counted = GridCounts.of(3, 2, tuple(column[order] for column in lines))  # type: ignore[arg-type]
    assert (counted.counts == 2 * counts).all()
    ((_, bins),) = counted.batches()
    assert bins.weights.sum() == 2 * counts.sum()


def test_no_number_of_groups_is_too_large_for_the_default_grid() -> None:
    table = pa.table({"id": [1], "cell": [1], "x": [0.5]})
    with unacorda.Session(
        {"t": table}, unit=unacorda.Person("id", max_rows=1), budget=unacorda.PureDP(9)
    ) as session:
        start = session.table("t").group_by("cell", keys=range(200_000))
        found = start.agg(m=unacorda.quantiles("x", [0.25, 0.5], 0, 1))
        assert session.explain(found, budget=unacorda.PureDP(1)).cost == unacorda.PureDP(1)
