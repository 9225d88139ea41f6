"""Removal losses: against removal of every set of people, and their sensitivity, exhaustively."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import unacorda
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.data_dependent import (
    DistinctCount,
    KthLargest,
    Maximum,
    Median,
    Sum,
)
from unacorda.mechanisms.data_dependent.removal import (
    geometric_grid,
    least_value,
    removal_losses,
    rising,
)
from unacorda.mechanisms.data_dependent.sensitivities import check_sensitivity

Data = tuple[float, ...]

BIGGEST = Maximum(lower=0, upper=7)
SECOND = KthLargest(k=2, lower=0, upper=7)
TOTAL = Sum(lower=0, upper=None)
CUT = Sum(lower=0, upper=4)
ITEMS = DistinctCount()

PLAIN: list[tuple[Any, Callable[[Sequence[float]], float]]] = [
    (BIGGEST, lambda x: max((min(max(v, 0), 7) for v in x), default=0)),
    (SECOND, lambda x: sorted([0, 0] + [min(max(v, 0), 7) for v in x])[-2]),
    (TOTAL, lambda x: sum(max(v, 0) for v in x)),
    (CUT, lambda x: sum(min(max(v, 0), 4) for v in x)),
    (ITEMS, lambda x: len(set(x))),
]
GRID = rising([0, 0.5, 1, 2, 3, 5, 7, 8, 13])
DOMAIN = (-1, 0, 1, 3, 6, 9)


def enumerated(x: Data, plain: Callable[[Sequence[float]], float]) -> list[int]:
    """The least number of people to remove, by removing every set of them."""
    values = [
        (len(gone), plain([v for i, v in enumerate(x) if i not in gone]))
        for size in range(len(x) + 1)
        for gone in itertools.combinations(range(len(x)), size)
    ]
    return [min(size for size, value in values if value <= point) for point in GRID]


def data_sets(most: int) -> list[Data]:
    return [
        x for size in range(most + 1) for x in itertools.combinations_with_replacement(DOMAIN, size)
    ]


def as_array(x: Data) -> Any:
    return np.array(x, dtype=np.int64)


@pytest.mark.parametrize(("statistic", "plain"), PLAIN)
def test_losses_are_the_least_number_of_people(statistic: Any, plain: Any) -> None:
    for x in data_sets(5):
        assert removal_losses(statistic, as_array(x), grid=GRID).tolist() == enumerated(x, plain)


@pytest.mark.parametrize("statistic", [statistic for statistic, _ in PLAIN])
def test_a_person_adds_nothing_or_one_to_every_loss(statistic: Any) -> None:
    moved = 0
    for x in data_sets(4):
        here = removal_losses(statistic, as_array(x), grid=GRID)
        for person in DOMAIN:
            there = removal_losses(statistic, as_array((*x, person)), grid=GRID)
            assert set((there - here).tolist()) <= {0, 1}
            moved += int((there - here).sum())
    assert moved > 100


@pytest.mark.parametrize("statistic", [statistic for statistic, _ in PLAIN])
def test_another_person_in_ones_place_moves_all_losses_one_way(statistic: Any) -> None:
    for x in data_sets(4):
        found = [removal_losses(statistic, as_array((*x, one)), grid=GRID) for one in DOMAIN]
        for here, there in itertools.combinations(found, 2):
            moves = set((there - here).tolist())
            assert moves <= {0, 1} or moves <= {0, -1}


@pytest.mark.long
@pytest.mark.parametrize("neighbors", [unacorda.AddRemove, unacorda.ReplaceOne])
def test_the_public_checker_passes_losses_and_catches_wrong_ones(neighbors: Any) -> None:
    def checked(loss: Callable[[list[Any]], Any]) -> bool:
        return bool(check_sensitivity(loss, domain=DOMAIN, n=4, neighbors=neighbors))

    def losses_of(statistic: Any) -> Callable[[list[Any]], Any]:
        return lambda x: removal_losses(statistic, as_array(tuple(x)), grid=GRID).tolist()

    for statistic, _ in PLAIN:
        assert checked(losses_of(statistic))

    def most_frequent_first(items: list[Any]) -> list[int]:
        holders = sorted((items.count(item) for item in set(items)), reverse=True)
        return [sum(holders[: max(len(holders) - int(point), 0)]) for point in GRID]

    def excess_in_units(totals: list[Any]) -> list[float]:
        return [max(sum(max(v, 0) for v in totals) - point, 0) for point in GRID]

    assert not checked(most_frequent_first)
    assert not checked(excess_in_units)


@pytest.mark.long
@given(
    st.lists(st.floats(0, 1e30), max_size=12),
    st.sampled_from([(1, 1e6), (1e-3, 50), (1e12, 1e30), (5, 1e300)]),
)
def test_sums_of_any_size_are_exact(values: list[float], ends: tuple[float, float]) -> None:
    grid = rising(geometric_grid(*ends, ratio=7))
    unit = Fraction(2) ** grid.unit_log2
    totals = sorted(round(Fraction(value) / unit) * unit for value in values)
    expected = []
    for point in grid:
        kept, held = 0, Fraction(0)
        while kept < len(totals) and held + totals[kept] <= point:
            held += totals[kept]
            kept += 1
        expected.append(len(totals) - kept)
    found = removal_losses(TOTAL, np.array(values), grid=grid)
    assert found.tolist() == expected
    assert (np.diff(found) <= 0).all()


@pytest.mark.long
def test_many_large_totals_do_not_overflow() -> None:
    grid = rising([0, 10, 2**40])
    losses = removal_losses(TOTAL, np.full(3_000_000, float(2**40)), grid=grid)
    assert losses.tolist() == [3_000_000, 3_000_000, 2_999_999]


def test_values_compare_exactly_with_points_between_floats() -> None:
    third = 1 / 3  # the float, below 1/3
    grid = rising([0, Fraction(third) - Fraction(1, 10**30), Fraction(1, 3), 1])
    assert removal_losses(Maximum(lower=0, upper=2), [third], grid=grid).tolist() == [1, 1, 0, 0]


@pytest.mark.parametrize("statistic", [BIGGEST, SECOND, TOTAL, CUT])
def test_missing_and_extreme_values_count_as_documented(statistic: Any) -> None:
    odd = [math.nan, -math.inf, -0.0, math.inf, 1e308, 3.0]
    plain = [0.0, 0.0, 0.0, 1e200, 1e200, 3.0]
    found, expected = (removal_losses(statistic, x, grid=GRID) for x in (odd, plain))
    assert found.tolist() == expected.tolist()


def test_no_data_needs_no_removal() -> None:
    for statistic, _ in PLAIN:
        assert removal_losses(statistic, [], grid=GRID).tolist() == [0] * len(GRID)


def test_text_is_counted_by_item() -> None:
    losses = removal_losses(ITEMS, ["a", "b", "b", "c"], grid=rising([0, 1, 2, 3]))
    assert losses.tolist() == [4, 2, 1, 0]


def test_least_values_and_what_a_person_can_lower() -> None:
    assert least_value(Maximum(lower=-3, upper=5)) == -3
    assert least_value(KthLargest(k=2, lower=0.5, upper=5)) == Fraction(1, 2)
    assert least_value(TOTAL) == least_value(ITEMS) == 0
    for other in (Median(lower=0, upper=1), Sum(lower=-1, upper=1), "sum", None):
        with pytest.raises(InvalidParameter, match="can only raise"):
            least_value(other)


# ---- grids


def test_a_geometric_grid_grows_to_its_end() -> None:
    grid = geometric_grid(0.5, 1000, ratio="1.1")
    assert grid[:2] == (0.0, 0.5)
    assert grid[-1] == 1000
    ratios = np.array(grid[2:]) / np.array(grid[1:-1])
    assert (ratios <= 1.1 + 1e-12).all()
    assert (ratios[:-1] > 1.1 - 1e-12).all()
    assert geometric_grid(1, 5, ratio=1.001, whole=True) == (0, 1, 2, 3, 4, 5)
    assert geometric_grid(3, 3) == (0, 3)
    assert geometric_grid(1e-300, 1e300, ratio=1e100)[-1] == 1e300


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("first", {"first": 0}),
        ("first", {"first": math.nan}),
        ("last", {"last": 0.5}),
        ("last", {"last": math.inf}),
        ("ratio", {"ratio": 1}),
        ("ratio", {"ratio": 1 + 1e-12}),
    ],
)
def test_other_grids_are_refused(name: str, changed: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter, match=name):
        geometric_grid(**({"first": 1, "last": 1000} | changed))


@pytest.mark.parametrize("grid", [[], [1], [0, 0], [2, 1], [0, math.nan], [0, math.inf]])
def test_what_is_no_rising_grid_is_refused(grid: Any) -> None:
    with pytest.raises(InvalidParameter, match="grid"):
        rising(grid)
    with pytest.raises(InvalidParameter, match="without data"):
        rising([-1, 3], least=Fraction(0))
