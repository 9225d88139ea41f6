"""The closed forms of sensitivities against every contribution that one unit can make."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.support.cases import in_subtests
from tests.support.seams import (
    Reach,
    Sensitivity,
    of_counts,
    of_people,
    of_ranks,
    of_splits,
    of_sums,
    of_vectors,
    rank_losses,
)
from tests.tiers import mostly_slow

Vector = tuple[int, ...]
Row = tuple[int, int | None]
"""The cell a row falls into, and its value; None where it is absent."""

LIMITS: list[dict[str, int]] = [
    *({"max_rows": rows} for rows in (1, 2, 3, 4)),
    *({"max_groups": m, "max_rows_per_group": r} for m, r in ((1, 1), (1, 2), (2, 1), (2, 2))),
    *({"max_rows": rows, "max_groups": m} for rows, m in ((2, 1), (3, 2), (2, 3))),
    *({"max_rows": rows, "max_rows_per_group": r} for rows, r in ((2, 1), (3, 2), (4, 3))),
    *(
        {"max_rows": rows, "max_groups": m, "max_rows_per_group": r}
        for rows, m, r in ((3, 2, 2), (9, 3, 1), (2, 3, 9))
    ),
]
REACHES = sorted(
    {
        Reach.within(**limits, cells=cells, replaced=replaced)
        for limits in LIMITS
        for cells in (1, 2, 3)
        for replaced in (False, True)
    },
    key=str,
)


def contributions(
    reach: Reach, values: Sequence[int | None], added: Callable[[Sequence[Row]], Vector]
) -> set[Vector]:
    """What one unit can add to the answer within its limits."""
    single = list(itertools.product(range(reach.cells), values))
    return {
        added(rows)
        for count in range(reach.rows + 1)
        for rows in itertools.combinations_with_replacement(single, count)
        if _within(reach, [cell for cell, _ in rows])
    }


def _within(reach: Reach, cells: Sequence[int]) -> bool:
    each = Counter(cells)
    return len(each) <= reach.touched and max(each.values(), default=0) <= reach.per_cell


def largest(found: set[Vector], reach: Reach) -> tuple[Fraction, Fraction]:
    """The largest l1 norm and the largest squared l2 norm of a change between neighbors."""
    own = np.array(sorted(found), dtype=np.int64)
    others = own if reach.replaced else np.zeros_like(own[:1])
    l1 = max(int(np.abs(own - other).sum(axis=1).max()) for other in others)
    l2 = max(int(((own - other) ** 2).sum(axis=1).max()) for other in others)
    return Fraction(l1), Fraction(l2)


def by_cell(reach: Reach, weight: Callable[[int | None], int]) -> Callable[[Sequence[Row]], Vector]:
    def added(rows: Sequence[Row]) -> Vector:
        totals = [0] * reach.cells
        for cell, value in rows:
            totals[cell] += weight(value)
        return tuple(totals)

    return added


def assert_exact(claimed: Sensitivity, found: tuple[Fraction, Fraction]) -> None:
    assert (claimed.l1, claimed.l2_squared) == found


@in_subtests("reach", REACHES, ids=str)
def test_counts(reach: Reach) -> None:
    found = contributions(reach, [None, 0], by_cell(reach, lambda _: 1))
    assert_exact(of_counts(reach), largest(found, reach))
    present = contributions(reach, [None, 0], by_cell(reach, lambda value: int(value is not None)))
    assert_exact(of_counts(reach), largest(present, reach))


@in_subtests("reach", REACHES, ids=str)
def test_people(reach: Reach) -> None:
    def added(rows: Sequence[Row]) -> Vector:
        return tuple(int(any(cell == at for at, _ in rows)) for cell in range(reach.cells))

    found = contributions(reach, [0], added)
    assert_exact(of_people(reach), largest(found, reach))


@pytest.mark.long
@in_subtests("bounds", [(0, 3), (-2, 3), (-3, 2), (-3, -1), (1, 3), (-3, 3), (0, 1)])
@in_subtests("reach", REACHES, ids=str)
def test_sums(reach: Reach, bounds: tuple[int, int]) -> None:
    lower, upper = bounds
    values = [None, *range(lower, upper + 1)] if reach.rows < 3 else [None, lower, 0, upper]
    values = [v for v in values if v is None or lower <= v <= upper]
    found = contributions(reach, values, by_cell(reach, lambda value: value or 0))
    assert_exact(of_sums(reach, lower=lower, upper=upper), largest(found, reach))


@in_subtests("reach", REACHES, ids=str)
def test_splits(reach: Reach) -> None:
    width = 3
    low, high = (
        by_cell(reach, lambda v: v or 0),
        by_cell(reach, lambda v: 0 if v is None else 3 - v),
    )
    values = [None, *range(width + 1)] if reach.rows < 3 else [None, 0, 1, width]
    found = contributions(reach, values, lambda rows: low(rows) + high(rows))
    assert_exact(of_splits(reach, width=width), largest(found, reach))


@in_subtests(
    "corners",
    [
        [(2, 1), (-1, 3)],
        [(1, 0, 2), (1, 4, 2), (0, -1, 3)],  # none is in the hull of zero and the others
        [(3, 0), (-1, 1), (-1, -2)],  # zero lies within
        [(0,)],
    ],
)
@in_subtests("reach", [reach for reach in REACHES if reach.rows < 4], ids=str)
def test_vectors(reach: Reach, corners: list[Vector]) -> None:
    """Rows at the corners, or absent."""
    rows: list[int | None] = [None, *range(len(corners))]
    parts = [
        by_cell(reach, lambda at, part=part: 0 if at is None else corners[at][part])  # type: ignore[misc]
        for part in range(len(corners[0]))
    ]
    found = contributions(reach, rows, lambda own: tuple(x for part in parts for x in part(own)))
    assert_exact(of_vectors(reach, corners), largest(found, reach))
    assert_exact(of_vectors(reach, [*corners, *corners[:1]]), largest(found, reach))


# ---- ranks: here the change depends on the rows of the others too


def tables(cells: int, points: int, rows: int) -> Iterator[NDArray[np.int64]]:
    """Every histogram of so many rows over cells and grid points."""
    for places in itertools.combinations_with_replacement(range(cells * points), rows):
        counts = np.bincount(np.array(places, dtype=np.int64), minlength=cells * points)
        yield counts.reshape(cells, points).astype(np.int64)


@pytest.mark.parametrize(
    "q", mostly_slow([Fraction(0), Fraction(1, 2), Fraction(1, 3), Fraction(9, 10), Fraction(1)])
)
@in_subtests(
    "reach",
    [r for r in REACHES if r.rows * r.cells <= 4 or r.rows <= r.cells == 3 > r.per_cell],
    ids=str,
)
def test_ranks(reach: Reach, q: Fraction) -> None:
    """No candidate's loss moves further, summed over cells; some candidate's does as far."""
    points = 3 if reach.cells < 3 else 2
    own = [x for n in range(reach.rows + 1) for x in tables(reach.cells, points, n)]
    own = [x for x in own if _within(reach, np.repeat(range(reach.cells), x.sum(axis=1)).tolist())]
    claimed = of_ranks(reach, quantile=q)
    l1, l2_squared = claimed.l1 * q.denominator, claimed.l2_squared * q.denominator**2
    most = squared = 0
    # The others are the same in every cell: what one cell does has no part in another.
    for rest in (
        np.repeat(x, reach.cells, axis=0) for n in (0, 3, 5) for x in tables(1, points, n)
    ):
        for shift in (0, -2, 2):
            losses = np.array([rank_losses(rest + mine, q, shift=shift) for mine in own])
            others = losses if reach.replaced else losses[:1]
            change = np.abs(losses[:, None] - others[None, :]).max(axis=-1)
            most = max(most, int(change.sum(axis=-1).max()))
            squared = max(squared, int((change**2).sum(axis=-1).max()))
    assert (Fraction(most), Fraction(squared)) == (l1, l2_squared)


def test_the_shifted_losses_have_a_candidate_without_loss() -> None:
    """Also where the rank that is aimed at lies below the first row or above the last."""
    for rows in (0, 1, 2, 4):
        for counts in tables(1, 3, rows):
            for shift in range(-6, 7):
                assert rank_losses(counts, Fraction(1, 3), shift=shift).min() == 0


@pytest.mark.parametrize(
    "wrong",
    [
        lambda reach: of_counts(
            Reach.within(max_rows=reach.rows, cells=1, replaced=reach.replaced)
        ),
        lambda reach: of_counts(
            Reach.within(max_rows=reach.rows, cells=reach.cells, replaced=False)
        ),
    ],
)
def test_a_closed_form_that_is_too_small_is_found(wrong: Callable[[Reach], Sensitivity]) -> None:
    reach = Reach.within(max_rows=2, cells=2, replaced=True)
    found = largest(contributions(reach, [0], by_cell(reach, lambda _: 1)), reach)
    assert (wrong(reach).l1, wrong(reach).l2_squared) != found
