"""Distinct items of people who hold sets of them: the relaxed losses against every removal."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from unacorda.bits import SeededBits
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.data_dependent import DistinctCount
from unacorda.mechanisms.data_dependent.removal import (
    RATIOS,
    item_set_losses,
    removal_losses,
    rising,
)
from unacorda.mechanisms.data_dependent.shifted_inverse import ShiftedInverse

Sets = tuple[tuple[int, ...], ...]

GRID = (0, 1, 2, 3, 5)
BASKETS = [(), (0,), (1,), (0, 1), (1, 2), (0, 2, 3), (0, 1, 2, 3)]


def pairs(x: Sets) -> dict[str, Any]:
    held = [(person, item) for person, basket in enumerate(x) for item in basket]
    people, items = zip(*held, strict=True) if held else ((), ())
    return {"people": np.array(people, dtype=int), "items": np.array(items, dtype=int)}


def rests(x: Sets) -> list[tuple[int, int]]:
    """How many people are removed, and how many items are left, for every set of them."""
    return [
        (size, len({item for i, basket in enumerate(x) if i not in gone for item in basket}))
        for size in range(len(x) + 1)
        for gone in itertools.combinations(range(len(x)), size)
    ]


def data_sets(most: int) -> list[Sets]:
    return [
        x
        for size in range(most + 1)
        for x in itertools.combinations_with_replacement(BASKETS, size)
    ]


def losses(x: Sets, ratios: Sequence[Any] = RATIOS) -> list[int]:
    return [int(loss) for loss in item_set_losses(**pairs(x), grid=GRID, ratios=ratios)]


@pytest.mark.long
def test_a_flow_is_the_least_of_all_removals() -> None:
    for x in data_sets(3):
        for ratio in (Fraction(1, 3), Fraction(1), Fraction(2), Fraction(3, 2)):
            least = min(left + ratio * gone for gone, left in rests(x))
            found = losses(x, [ratio])
            assert found == [max(-((point - least) // ratio), 0) for point in GRID]


def test_a_whole_ratio_hands_out_items() -> None:
    for x in data_sets(3):
        for cap in (1, 2):
            # Every way to choose at most `cap` items of each basket.
            ways = itertools.product(*(itertools.combinations(b, min(cap, len(b))) for b in x))
            most = max(len({item for basket in way for item in basket}) for way in ways)
            assert losses(x, [cap]) == [max(-((point - most) // cap), 0) for point in GRID]


@pytest.mark.slow
def test_relaxed_losses_are_safe() -> None:
    ratios = [Fraction(1, 2), 1, 2, 4]
    below = 0
    for x in data_sets(3):
        true = [min(gone for gone, left in rests(x) if left <= point) for point in GRID]
        found = losses(x, ratios)
        assert all(a <= b for a, b in zip(found, true, strict=True))
        assert all(one >= two for one, two in itertools.pairwise(found))
        assert [loss == 0 for loss in found][-1]
        below += found != true
        for basket in BASKETS:
            moves = {b - a for a, b in zip(found, losses((*x, basket), ratios), strict=True)}
            assert moves <= {0, 1}
    assert below > 0  # it is a relaxation


def test_one_item_a_person_loses_nothing_with_enough_ratios() -> None:
    ratios = [Fraction(1, k) for k in range(1, 8)]
    for counts in itertools.combinations_with_replacement(range(1, 5), 3):
        items = np.repeat(np.arange(3), counts)
        exact = removal_losses(DistinctCount(), items, grid=rising(GRID))
        found = item_set_losses(np.arange(items.size), items, grid=GRID, ratios=ratios)
        assert found.tolist() == exact.tolist()


@pytest.mark.long
def test_a_person_with_everything_does_not_decide() -> None:
    rng = np.random.default_rng(3)
    people, items = rng.integers(0, 3000, 8000), rng.integers(0, 400, 8000)
    hoarder = np.full(20_000, 9999), np.arange(20_000)
    grid = range(0, 30_000, 20)
    mechanism = ShiftedInverse(epsilon=1, grid=grid)
    both = item_set_losses(
        np.concatenate([people, hoarder[0]]), np.concatenate([items, hoarder[1]]), grid=grid
    )
    released = mechanism.release_losses(both, bits=SeededBits(1))
    assert 360 <= released.value <= 460


def test_no_data_and_bad_data() -> None:
    assert item_set_losses([], [], grid=GRID).tolist() == [0] * 5
    for bad in (
        {"people": np.array([[1]])},
        {"people": np.array([1.5])},
        {"items": [1, 2]},
        {"grid": [-1, 1]},
    ):
        with pytest.raises(InvalidParameter, match=next(iter(bad))):
            item_set_losses(**{"people": [1], "items": [1], "grid": GRID} | bad)
    for ratio in (0, -1, Fraction(1, 10_000)):
        with pytest.raises(InvalidParameter, match="ratios"):
            item_set_losses([1], [1], grid=GRID, ratios=[ratio])
