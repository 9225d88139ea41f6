"""Local, down and smooth sensitivities against brute force over all small datasets."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import itertools
import math
import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.mechanisms.data_dependent.small_data import SmallData
from tests.support.cases import in_subtests
from tests.tiers import mostly_slow

from unacorda import AddRemove, ReplaceOne, ZeroOut
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.data_dependent import (
    DistinctCount,
    KthLargest,
    Maximum,
    Mean,
    Median,
    Minimum,
    Mode,
    OrderStatistic,
    Quantile,
    Sum,
    Variance,
    down_sensitivity,
    local_sensitivity,
    smooth_sensitivity,
)
from unacorda.mechanisms.data_dependent.statistics import ranks
from unacorda.privacy.neighbors import Neighbors

BOUNDS: dict[str, Any] = {"lower": 0, "upper": 8}
RANKS: list[Any] = [
    *(OrderStatistic(rank=rank, **BOUNDS) for rank in (0, 2)),
    *(KthLargest(k=k, **BOUNDS) for k in (1, 3)),
    *(Quantile(q=q, **BOUNDS) for q in ("1/3", "2/3", "9/10", "3/7")),
    *(Median(**BOUNDS), Minimum(**BOUNDS), Maximum(**BOUNDS)),
]
MOMENTS: list[Any] = [Mean(**BOUNDS), Variance(**BOUNDS)]
SUMS: list[Any] = [Sum(lower=-1, upper=8), Sum(lower=-8, upper=1)]
COUNTS: list[Any] = [Mode(categories=(8, 0, 3)), DistinctCount()]
DOMAIN = (0, 1, 3, 8)
RATES = (0.05, 0.4, 1.5, 6.0)
RELATIONS = [AddRemove, ReplaceOne]
ALL = [
    (statistic, neighbors)
    for statistic in RANKS + MOMENTS + SUMS + COUNTS
    for neighbors in RELATIONS
]


def up(number: Any) -> float:
    """The least float at or above."""
    nearest = float(number)
    return nearest if Fraction(nearest) >= number else math.nextafter(nearest, math.inf)


def answer(statistic: Any, data: list[Any]) -> Any:
    value = statistic.value(data)
    return value if not isinstance(statistic, Mode) else statistic.categories.index(value)


def distance_of(statistic: Any, one: Any, other: Any) -> Any:
    return int(one != other) if isinstance(statistic, Mode) else abs(one - other)


@pytest.fixture(scope="module")
def graphs() -> dict[Neighbors, SmallData]:
    return {neighbors: SmallData(DOMAIN, 5, neighbors) for neighbors in RELATIONS}


@pytest.mark.long
@in_subtests("neighbors", RELATIONS)
@in_subtests("statistic", RANKS + COUNTS + SUMS, ids=str)
def test_local_and_down_sensitivities_are_the_farthest_answers(
    statistic: Any, neighbors: Neighbors, graphs: dict[Neighbors, SmallData]
) -> None:
    if statistic == DistinctCount():
        graph = SmallData((0, 1, 3, 4, 8, 9), 5, neighbors)  # always a value that is not there
    elif isinstance(statistic, Sum):
        graph = SmallData((-1, 0, 5, 8) if statistic.upper == 8 else (-8, -5, 0, 1), 5, neighbors)
    else:
        graph = graphs[neighbors]
    values = {data: answer(statistic, list(data)) for data in graph.data}
    for start in graph.data:
        reach = graph.size - len(start) if neighbors is AddRemove else 3
        if len(start) == graph.size:
            continue
        around = graph.within(start, 3)
        for distance in range(1, min(reach, 3) + 1):
            moves = [
                distance_of(statistic, values[data], values[start])
                for data, steps in around.items()
                if steps <= distance
            ]
            assert local_sensitivity(
                statistic, list(start), distance=distance, neighbors=neighbors
            ) == max(moves)
            falls = max(
                distance_of(statistic, values[part], values[start])
                for count in range(max(0, len(start) - distance), len(start) + 1)
                for part in itertools.combinations(start, count)
            )
            assert down_sensitivity(statistic, list(start), distance=distance) == falls


@pytest.mark.parametrize("neighbors", mostly_slow(RELATIONS))
@pytest.mark.parametrize("statistic", MOMENTS, ids=str)
def test_those_of_means_and_variances_are_the_farthest_answers(
    statistic: Any, neighbors: Neighbors
) -> None:
    """A domain that holds the bounds and, for some data, the means that do the most."""
    graph = SmallData(tuple(range(0, 9, 2)), 5, neighbors)
    values = graph.answers(statistic.value)
    met = 0
    for start in graph.data:
        if neighbors is AddRemove and len(start) > 3:
            continue
        for distance in (1, 2):
            want = graph.local(start, values, distance)
            got = local_sensitivity(statistic, list(start), distance=distance, neighbors=neighbors)
            # Between the grid's numbers there may be a better place for one record, at most 1 off.
            assert up(want) <= got <= float(want) + 1 / max(len(start) - 1, 1)
            met += got == up(want)
            assert down_sensitivity(statistic, list(start), distance=distance) == up(
                graph.down(start, values, distance)
            )
    assert met > len(graph.data) / 3


@pytest.mark.parametrize(("statistic", "neighbors"), mostly_slow(ALL, quick=7), ids=str)
def test_smooth_sensitivities_are_discounted_local_ones(
    statistic: Any, neighbors: Neighbors, graphs: dict[Neighbors, SmallData]
) -> None:
    graph = graphs[neighbors]
    local = {
        data: local_sensitivity(statistic, list(data), neighbors=neighbors) for data in graph.data
    }
    highest = max(8.0, *local.values())
    for start in graph.data:
        # Under add/remove only those that are not too large are in the graph.
        far = graph.size - len(start) if neighbors is AddRemove else len(start)
        if far < 3 and len(start) != graph.size:
            continue
        around = graph.within(start, far)
        for rate in RATES:
            want = max(math.exp(-rate * steps) * local[data] for data, steps in around.items())
            beyond = highest * math.exp(-rate * (far + 1)) if neighbors is AddRemove else 0.0
            got = smooth_sensitivity(statistic, list(start), smoothness=rate, neighbors=neighbors)
            assert local[start] <= got
            assert want <= got <= max(want, beyond) * (1 + 1e-9) + 1e-250


@pytest.mark.parametrize(("statistic", "neighbors"), mostly_slow(ALL, quick=10), ids=str)
def test_neighbors_differ_by_no_more_than_the_smoothness(
    statistic: Any, neighbors: Neighbors, graphs: dict[Neighbors, SmallData]
) -> None:
    graph = graphs[neighbors]
    for rate in (2**-16, 0.7):
        found = {
            data: smooth_sensitivity(statistic, list(data), smoothness=rate, neighbors=neighbors)
            for data in graph.data
        }
        for data in graph.data:
            for other in graph.beside[data]:
                assert found[data] <= math.exp(rate) * (1 + 2**-50) * found[other]


def costs_by_search(statistic: Any, count: int) -> dict[tuple[int, int], int]:
    """For s records up to a gap and u from it on, how many must change for it to matter.

    The statistic stands left of the gap where its place is below s; the gap matters to data for
    which one record more or less moves the statistic across it.
    """
    top = 2 * count + 6

    def left(below: int, above: int) -> bool:
        return bool(statistic.place(below + above) < below)

    matters = [
        (below, above)
        for below, above in itertools.product(range(top), repeat=2)
        if any(
            left(*other) != left(below, above)
            for other in (
                (below + 1, above),
                (below, above + 1),
                (below - 1, above),
                (below, above - 1),
            )
            if min(other) >= 0
        )
    ]
    return {
        (below, above): min(abs(below - s) + abs(above - u) for s, u in matters)
        for below, above in itertools.product(range(count + 1), repeat=2)
    }


@pytest.mark.long
@in_subtests("reach", [1, 3, 256])
@in_subtests("statistic", RANKS, ids=str)
def test_halving_finds_the_widest_gap_of_all_pairs(
    statistic: Any, reach: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranks, "_FIRST_REACH", reach)
    draw = random.Random(reach)
    for count in (1, 2, 7, 12):
        costs = costs_by_search(statistic, count)
        for rate in (0.004, 0.1, 0.7):
            values = sorted(8 * draw.random() ** draw.choice([1, 6, 20]) for _ in range(count))
            ends = [0.0, *values, 8.0]
            pairs = list(itertools.combinations(range(count + 2), 2))
            want = max(
                math.exp(-rate * (j - i - 1 + costs[i, count + 1 - j])) * (ends[j] - ends[i])
                for i, j in pairs
            )
            got = smooth_sensitivity(statistic, values, smoothness=rate, neighbors=AddRemove)
            assert want <= got <= want * (1 + 1e-8)
            place = statistic.place(count)
            want = max(
                (
                    math.exp(-rate * (j - i - 1)) * (ends[j] - ends[i])
                    for i, j in pairs
                    if i - 1 <= place <= j - 1 and 0 <= place < count
                ),
                default=0.0,
            )
            got = smooth_sensitivity(statistic, values, smoothness=rate, neighbors=ReplaceOne)
            assert want <= got <= want * (1 + 1e-8)


@pytest.mark.long
@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=60),
    st.sampled_from([2**-16, 0.01, 0.3]),
    st.sampled_from(RELATIONS),
)
def test_a_quantile_sees_its_mirror_image(
    values: list[int], rate: float, neighbors: Neighbors
) -> None:
    """The k-th smallest of the values is the k-th largest of their negatives."""
    low = OrderStatistic(rank=len(values) // 3, lower=0, upper=40)
    high = KthLargest(k=len(values) // 3 + 1, lower=-40, upper=0)
    negated = [-x for x in values]
    smooth = [
        smooth_sensitivity(statistic, data, smoothness=rate, neighbors=neighbors)
        for statistic, data in ((low, values), (high, negated))
    ]
    assert math.isclose(*smooth, rel_tol=1e-8)
    assert local_sensitivity(low, values, neighbors=neighbors) == local_sensitivity(
        high, negated, neighbors=neighbors
    )


def test_the_smoothing_of_a_known_example() -> None:
    """Values 0, 0, 1 in [0, 1], replacing records: at distance 1 the median can move by 1."""
    found = smooth_sensitivity(
        Median(lower=0, upper=1), [0, 0, 1], smoothness=0.5, neighbors=ReplaceOne
    )
    assert math.isclose(found, 1.0, rel_tol=1e-10)
    found = smooth_sensitivity(
        Median(lower=0, upper=1), [0, 0, 0, 0, 0], smoothness=0.5, neighbors=ReplaceOne
    )
    assert math.isclose(found, math.exp(-1), rel_tol=1e-10)


def test_local_sensitivities_are_rounded_up_and_no_more() -> None:
    third = local_sensitivity(Mean(lower=0, upper=1), [0, 0, 0], neighbors=ReplaceOne)
    assert Fraction(third) > Fraction(1, 3) > Fraction(math.nextafter(third, 0))
    assert local_sensitivity(Mean(lower=0, upper=1), [0, 0, 0, 0], neighbors=ReplaceOne) == 0.25


def test_without_an_upper_bound_only_removal_has_an_end() -> None:
    total = Sum(lower=0, upper=None)
    for neighbors in RELATIONS:
        assert local_sensitivity(total, [1, 2], neighbors=neighbors) == math.inf
        assert smooth_sensitivity(total, [1], smoothness=1, neighbors=neighbors) == math.inf
    assert down_sensitivity(total, [1, 2, float("inf"), 3]) == np.finfo(float).max
    assert down_sensitivity(total, [1, 2, 7, 3], distance=2) == 10
    # Nobody is there to be replaced.
    assert local_sensitivity(total, [], neighbors=ReplaceOne) == 0


@in_subtests("neighbors", RELATIONS)
@in_subtests("statistic", RANKS + MOMENTS + SUMS, ids=str)
def test_odd_values_count_as_they_do_for_the_statistic(
    statistic: Any, neighbors: Neighbors
) -> None:
    odd = [float("nan"), float("inf"), -float("inf"), -0.0, 3]
    low, high = float(statistic.lower), float(statistic.upper)
    plain = [0, high, low, 0, 3]
    assert local_sensitivity(statistic, odd, neighbors=neighbors) == local_sensitivity(
        statistic, plain, neighbors=neighbors
    )
    assert down_sensitivity(statistic, odd) == down_sensitivity(statistic, plain)
    assert down_sensitivity(statistic, []) == 0
    if neighbors is ReplaceOne:
        assert smooth_sensitivity(statistic, [], smoothness=1, neighbors=neighbors) == 0
        assert local_sensitivity(statistic, [], neighbors=neighbors) == 0
    else:
        assert smooth_sensitivity(statistic, [], smoothness=1, neighbors=neighbors) > 0


def test_what_is_far_away_is_small_but_not_nothing() -> None:
    """With all values equal the median moves only if thousands of records do."""
    median = Median(lower=0, upper=1)
    assert local_sensitivity(median, [0.5] * 3001) == 0
    assert smooth_sensitivity(median, [0.5] * 3001, smoothness=0.1) == pytest.approx(
        0.5 * math.exp(-0.1 * 1500), rel=1e-4
    )
    assert 0 < smooth_sensitivity(median, [0.5] * 3001, smoothness=3) < 1e-270


@in_subtests("scale", [1e-30, 1e-20, 1e20, 1e300])
@in_subtests("statistic", RANKS, ids=str)
def test_units_do_not_matter(statistic: Any, scale: float) -> None:
    power = 2.0 ** round(math.log2(scale))
    scaled = dataclasses.replace(statistic, lower=0, upper=8 * Fraction(power))
    values = np.array([0.5, 1.0, 1.0, 3.5, 7.0, 2.0])
    for neighbors in RELATIONS:
        found = smooth_sensitivity(statistic, values, smoothness=0.3, neighbors=neighbors)
        assert smooth_sensitivity(
            scaled, values * power, smoothness=0.3, neighbors=neighbors
        ) == pytest.approx(found * power)
        assert (
            local_sensitivity(scaled, values * power, neighbors=neighbors)
            == local_sensitivity(statistic, values, neighbors=neighbors) * power
        )


def test_what_no_float_holds_is_infinite() -> None:
    wide = Variance(lower=0, upper=2**600)
    for found in (
        local_sensitivity(wide, [1.0, 2.0]),
        smooth_sensitivity(wide, [1.0, 2.0], smoothness=1, neighbors=ReplaceOne),
    ):
        assert found == math.inf


@in_subtests(
    ("ask", "argument"),
    [
        (lambda: local_sensitivity(Median, [1]), "statistic"),  # type: ignore[arg-type]
        (lambda: local_sensitivity(Median(**BOUNDS), [1], distance=0), "distance"),
        (lambda: local_sensitivity(Median(**BOUNDS), [1], neighbors=ZeroOut), "neighbors"),
        (lambda: local_sensitivity(Median(**BOUNDS), np.array(["a"])), "values"),
        (lambda: down_sensitivity("median", [1]), "statistic"),  # type: ignore[arg-type]
        (lambda: down_sensitivity(Median(**BOUNDS), [1], distance=True), "distance"),
        (lambda: smooth_sensitivity(3, [1], smoothness=1), "statistic"),  # type: ignore[arg-type]
        (lambda: smooth_sensitivity(Median(**BOUNDS), [1], smoothness=0), "smoothness"),
        (lambda: smooth_sensitivity(Median(**BOUNDS), [1], smoothness=float("nan")), "smoothness"),
        (
            lambda: smooth_sensitivity(Median(**BOUNDS), [1], smoothness=1, neighbors=ZeroOut),
            "neighbors",
        ),
        (
            lambda: smooth_sensitivity(Variance(lower=0, upper=1e-40), [1], smoothness=1),
            "statistic",
        ),
        (lambda: smooth_sensitivity(Mean(**BOUNDS), np.array([[1]]), smoothness=1), "values"),
        (lambda: smooth_sensitivity(Mean(lower=0, upper=1e-40), [1], smoothness=1), "statistic"),
    ],
)
def test_bad_parameters_are_named(ask: Any, argument: str) -> None:
    with pytest.raises(InvalidParameter) as raised:
        ask()
    assert raised.value.argument == argument


def discounted_reach(data: Any, rate: float, neighbors: Neighbors) -> float:
    """A known mistake: how far k + 1 records take the median, discounted by k. Its centre moves."""
    return max(
        math.exp(-rate * k)
        * local_sensitivity(Median(**BOUNDS), list(data), distance=k + 1, neighbors=neighbors)
        for k in range(7)
    )


def nothing_but_local(data: Any, _: float, neighbors: Neighbors) -> float:
    """A known mistake: the local sensitivity itself."""
    return local_sensitivity(Median(**BOUNDS), list(data), neighbors=neighbors)


@pytest.mark.parametrize("neighbors", RELATIONS)
@pytest.mark.parametrize("wrong", [discounted_reach, nothing_but_local])
def test_known_mistakes_are_no_smooth_bounds(
    wrong: Any, neighbors: Neighbors, graphs: dict[Neighbors, SmallData]
) -> None:
    graph = graphs[neighbors]
    found = {data: wrong(data, 0.05, neighbors) for data in graph.data}
    assert any(
        found[data] > math.exp(0.05) * (1 + 2**-50) * found[other]
        for data in graph.data
        for other in graph.beside[data]
    )
