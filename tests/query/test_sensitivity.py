"""The closed forms of sensitivities against every contribution that one unit can make."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from tacet.query.aggregates.ranks import rank_losses
from tacet.query.sensitivity import (
    Sensitivity,
    of_counts,
    of_people,
    of_ranks,
    of_splits,
    of_sums,
)
from tacet.query.units import Reach

Vector = tuple[int, ...]
Row = tuple[int, int | None]
"""The cell a row falls into, and its value; None where it is absent."""

REACHES = [
    Reach(rows=rows, cells=cells, replaced=replaced)
    for rows in (1, 2, 3)
    for cells in (1, 2, 3)
    for replaced in (False, True)
]


def contributions(
    reach: Reach, values: Sequence[int | None], added: Callable[[Sequence[Row]], Vector]
) -> set[Vector]:
    """What one unit can add to the answer, with at most `rows` rows anywhere."""
    single = list(itertools.product(range(reach.cells), values))
    return {
        added(rows)
        for count in range(reach.rows + 1)
        for rows in itertools.combinations_with_replacement(single, count)
    }


def largest(found: set[Vector], reach: Reach) -> tuple[Fraction, Fraction]:
    """The largest l1 norm and the largest squared l2 norm of a change between neighbours."""
    others = found if reach.replaced else {(0,) * len(next(iter(found)))}
    changes = [[a - b for a, b in zip(x, y, strict=True)] for x in found for y in others]
    return (
        Fraction(max(sum(map(abs, change)) for change in changes)),
        Fraction(max(sum(part * part for part in change) for change in changes)),
    )


def by_cell(reach: Reach, weight: Callable[[int | None], int]) -> Callable[[Sequence[Row]], Vector]:
    def added(rows: Sequence[Row]) -> Vector:
        totals = [0] * reach.cells
        for cell, value in rows:
            totals[cell] += weight(value)
        return tuple(totals)

    return added


def assert_exact(claimed: Sensitivity, found: tuple[Fraction, Fraction]) -> None:
    assert (claimed.l1, claimed.l2_squared) == found


@pytest.mark.parametrize("reach", REACHES, ids=str)
def test_counts(reach: Reach) -> None:
    found = contributions(reach, [None, 0], by_cell(reach, lambda _: 1))
    assert_exact(of_counts(reach), largest(found, reach))
    present = contributions(reach, [None, 0], by_cell(reach, lambda value: int(value is not None)))
    assert_exact(of_counts(reach), largest(present, reach))


@pytest.mark.parametrize("reach", REACHES, ids=str)
def test_people(reach: Reach) -> None:
    def added(rows: Sequence[Row]) -> Vector:
        return tuple(int(any(cell == at for at, _ in rows)) for cell in range(reach.cells))

    found = contributions(reach, [0], added)
    assert_exact(of_people(reach), largest(found, reach))


@pytest.mark.parametrize("bounds", [(0, 3), (-2, 3), (-3, 2), (-3, -1), (1, 3), (-3, 3), (0, 1)])
@pytest.mark.parametrize("reach", REACHES, ids=str)
def test_sums(reach: Reach, bounds: tuple[int, int]) -> None:
    lower, upper = bounds
    values = [None, *range(lower, upper + 1)] if reach.rows < 3 else [None, lower, 0, upper]
    values = [v for v in values if v is None or lower <= v <= upper]
    found = contributions(reach, values, by_cell(reach, lambda value: value or 0))
    assert_exact(of_sums(reach, lower=lower, upper=upper), largest(found, reach))


@pytest.mark.parametrize("reach", REACHES, ids=str)
def test_splits(reach: Reach) -> None:
    width = 3
    low, high = (
        by_cell(reach, lambda v: v or 0),
        by_cell(reach, lambda v: 0 if v is None else 3 - v),
    )
    values = [None, *range(width + 1)] if reach.rows < 3 else [None, 0, 1, width]
    found = contributions(reach, values, lambda rows: low(rows) + high(rows))
    assert_exact(of_splits(reach, width=width), largest(found, reach))


# ---- ranks: here the change depends on the rows of the others too


def tables(cells: int, points: int, rows: int) -> Iterator[NDArray[np.int64]]:
    """Every histogram of so many rows over cells and grid points."""
    for places in itertools.combinations_with_replacement(range(cells * points), rows):
        counts = np.bincount(np.array(places, dtype=np.int64), minlength=cells * points)
        yield counts.reshape(cells, points).astype(np.int64)


@pytest.mark.parametrize(
    "q", [Fraction(0), Fraction(1, 2), Fraction(1, 3), Fraction(9, 10), Fraction(1)]
)
@pytest.mark.parametrize(
    "reach", [reach for reach in REACHES if reach.rows * reach.cells <= 4], ids=str
)
def test_ranks(reach: Reach, q: Fraction) -> None:
    """No candidate's loss moves further, summed over cells; some candidate's does as far."""
    points = 3 if reach.cells < 3 else 2
    own = [x for n in range(reach.rows + 1) for x in tables(reach.cells, points, n)]
    claimed = of_ranks(reach, quantile=q).l1 * q.denominator
    most = 0
    for rest in (x for n in (0, 3, 5) for x in tables(reach.cells, points, n)):
        if reach.cells == 3 and rest.sum() > 3:
            continue
        for shift in (0, -2, 2):
            losses = np.array([rank_losses(rest + mine, q, shift=shift) for mine in own])
            others = losses if reach.replaced else losses[:1]
            change = np.abs(losses[:, None] - others[None, :])
            moved = int(change.max(axis=-1).sum(axis=-1).max())
            assert moved <= claimed
            most = max(most, moved)
    assert most == claimed


def test_the_shifted_losses_have_a_candidate_without_loss() -> None:
    """Also where the rank that is aimed at lies below the first row or above the last."""
    for rows in (0, 1, 2, 4):
        for counts in tables(1, 3, rows):
            for shift in range(-6, 7):
                assert rank_losses(counts, Fraction(1, 3), shift=shift).min() == 0


@pytest.mark.parametrize(
    "wrong",
    [
        lambda reach: of_counts(Reach(rows=reach.rows, cells=1, replaced=reach.replaced)),
        lambda reach: of_counts(Reach(rows=reach.rows, cells=reach.cells, replaced=False)),
    ],
)
def test_a_closed_form_that_is_too_small_is_found(wrong: Callable[[Reach], Sensitivity]) -> None:
    reach = Reach(rows=2, cells=2, replaced=True)
    found = largest(contributions(reach, [0], by_cell(reach, lambda _: 1)), reach)
    assert (wrong(reach).l1, wrong(reach).l2_squared) != found
