"""Two derivations of one thing: how far a statistic gets with k records, and how many it takes.

The losses of the mechanisms count the records until an answer is reached; local and down
sensitivities tell the farthest answer that k records reach. They share no code beyond the reading
of records, and must agree on data far too large for brute force.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.support.cases import in_subtests

from unacorda import AddRemove, ReplaceOne
from unacorda.mechanisms.data_dependent import (
    DistinctCount,
    KthLargest,
    Maximum,
    Mean,
    Median,
    Minimum,
    OrderStatistic,
    Quantile,
    Sum,
    Variance,
    down_sensitivity,
    local_sensitivity,
)
from unacorda.mechanisms.data_dependent.removal import removal_losses, rising
from unacorda.privacy.neighbors import Neighbors

BOUNDS: dict[str, Any] = {"lower": -7, "upper": 60}
DISTANCES = (1, 2, 5, 13, 60)


def some_data(seed: int) -> list[Any]:
    draw = np.random.default_rng(seed)
    return [
        draw.integers(-7, 61, 37),
        np.minimum(draw.geometric(0.2, 90), 60),
        np.repeat(draw.integers(0, 61, 5), 8),
        np.array([60] * 20 + [-7] * 21),
        np.array([3]),
        np.array([], dtype=np.int64),
    ]


def farthest(statistic: Any, values: Any, *, distance: int, neighbors: Neighbors, log2: int) -> Any:
    """The farthest step of the grid whose loss is at most the distance."""
    answers = statistic.answers
    if isinstance(statistic, Sum):
        answers = (Fraction(-(2**13)), Fraction(2**13))
    grid = statistic.answer_grid(log2, answers=answers)
    runs = statistic.losses(values, neighbors=neighbors, grid=grid, most=80)
    near = runs.losses <= distance
    reached = np.concatenate([runs.starts[near], (runs.starts + runs.counts - 1)[near]])
    here = Fraction(statistic.value(values))
    return max(abs(int(step) * Fraction(2) ** log2 - here) for step in reached)


@in_subtests("neighbors", [AddRemove, ReplaceOne])
@in_subtests(
    "statistic",
    [
        OrderStatistic(rank=20, **BOUNDS),
        KthLargest(k=7, **BOUNDS),
        Quantile(q="3/11", **BOUNDS),
        Quantile(q=0.9, **BOUNDS),
        Median(**BOUNDS),
        Minimum(**BOUNDS),
        Maximum(**BOUNDS),
        Sum(**BOUNDS),
    ],
    ids=str,
)
def test_on_whole_numbers_they_agree_exactly(statistic: Any, neighbors: Neighbors) -> None:
    for values in some_data(1):
        for distance in DISTANCES:
            found = local_sensitivity(statistic, values, distance=distance, neighbors=neighbors)
            assert found == farthest(
                statistic, values, distance=distance, neighbors=neighbors, log2=0
            )


@pytest.mark.parametrize("neighbors", [AddRemove, ReplaceOne])
@pytest.mark.parametrize("statistic", [Mean(**BOUNDS), Variance(**BOUNDS)], ids=str)
def test_of_fractions_they_agree_to_a_step(statistic: Any, neighbors: Neighbors) -> None:
    steps = 2 * 2.0**-20
    for values in some_data(2):
        for distance in (1, 2, 5):
            found = local_sensitivity(statistic, values, distance=distance, neighbors=neighbors)
            other = farthest(statistic, values, distance=distance, neighbors=neighbors, log2=-20)
            # Losses of the variance let fractions of records lie at a bound.
            least_size = max(len(values) - distance, 1)
            more = (67 / least_size) ** 2 / 4 if isinstance(statistic, Variance) else 0.0
            assert found - steps <= float(other) <= found + more + steps


@pytest.mark.parametrize(
    "statistic",
    [
        Maximum(lower=0, upper=60),
        KthLargest(k=5, lower=0, upper=60),
        Sum(lower=0, upper=None),
        DistinctCount(),
    ],
    ids=str,
)
def test_removal_gets_as_far_as_its_losses_say(statistic: Any) -> None:
    grid = rising(range(3000))
    for values in some_data(3):
        people = np.maximum(values, 0)
        losses = removal_losses(statistic, people, grid=grid)
        for distance in DISTANCES:
            least = int(np.flatnonzero(losses <= distance)[0])
            fall = statistic.value(people) - least
            assert down_sensitivity(statistic, people, distance=distance) == fall
