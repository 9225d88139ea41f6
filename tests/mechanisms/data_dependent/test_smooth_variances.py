"""Smooth sensitivities of variances where records come or go, against all pairs of neighbors."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.mechanisms.data_dependent.small_data import Data, SmallData
from tests.tiers import mostly_slow

from unacorda import AddRemove
from unacorda.mechanisms.data_dependent import Variance, local_sensitivity, smooth_sensitivity
from unacorda.mechanisms.data_dependent.statistics import variances

UNIT = Variance(lower=0, upper=1)
EIGHTHS = tuple(k / 8 for k in range(9))
RATES = (2**-10, 0.1, 0.4, 2.0)


def smooth(data: Data | np.ndarray, rate: float) -> float:
    return smooth_sensitivity(UNIT, list(data), smoothness=rate, neighbors=AddRemove)


def spread(data: Data) -> float:
    return float(np.var(data)) if data else 0.0


@pytest.fixture(scope="module")
def graph() -> SmallData:
    """A fine grid with both bounds: a record that comes may lie on any of it."""
    return SmallData(EIGHTHS, 6, AddRemove)


@pytest.fixture(scope="module")
def nearby(graph: SmallData) -> dict[Data, list[tuple[int, float]]]:
    """For data of at most three records: how far others are, and how far one more moves those."""
    spreads = {data: spread(data) for data in graph.data}
    local = {
        data: max(
            # One more that stands at the mean, which is the best place that is no bound.
            spreads[data] / (len(data) + 1),
            *(abs(spreads[other] - spreads[data]) for other in graph.beside[data]),
        )
        for data in graph.data
        if len(data) < graph.size
    }
    starts = [data for data in graph.data if len(data) <= 3]
    return {
        start: [
            (steps, local[data]) for data, steps in graph.within(start, 5).items() if data in local
        ]
        for start in [*random.Random(5).sample(starts, 30), (), (0.5,), (0.5, 0.5), (0.125, 1.0)]
    }


@pytest.mark.long
def test_it_is_the_supremum_over_all_data_nearby(
    nearby: dict[Data, list[tuple[int, float]]],
) -> None:
    for start, around in nearby.items():
        for rate in RATES:
            want = max(math.exp(-rate * steps) * moved for steps, moved in around)
            assert want * (1 - 1e-12) <= smooth(start, rate) <= want * (1 + 1e-8)


def test_records_that_come_can_do_more_than_records_that_go() -> None:
    """A bound at 0 and then one at 1 do more to {1/2, 1/2} than one at 1 does to {1/2}."""
    found = smooth((0.5, 0.5), 0.01)
    assert found > math.exp(-0.01) * (5 / 72)
    assert 5 / 72 > 1 / 16
    assert smooth((), 0.01) == pytest.approx(math.exp(-0.01) / 4, rel=1e-8)


def supremum(values: list[float], rate: float) -> float:
    """Over all subsets with up to two records at the bounds, and one more or one of theirs less."""
    most = 0.0
    extra: list[Data] = [(), (0.0,), (1.0,), (0.0, 0.0), (0.0, 1.0), (1.0, 1.0)]
    for kept in range(len(values) + 1):
        for chosen in itertools.combinations(range(len(values)), kept):
            for added in extra:
                data = (*(values[k] for k in chosen), *added)
                steps = len(values) - kept + len(added)
                here = spread(data)
                moved = max(
                    here / (len(data) + 1),
                    *(abs(spread((*data, end)) - here) for end in (0.0, 1.0)),
                    *(
                        abs(spread((*(values[k] for k in chosen if k != gone), *added)) - here)
                        for gone in chosen
                    ),
                )
                most = max(most, math.exp(-rate * steps) * moved)
    return most


@pytest.mark.long
@pytest.mark.parametrize("kind", mostly_slow(["anywhere", "clusters", "ends"], quick=2))
def test_it_is_the_supremum_over_all_subsets(kind: str) -> None:
    draw = random.Random(kind)
    for count in (4, 5, 6, 7):
        drawn: dict[str, Callable[[], float]] = {
            "anywhere": draw.random,
            "clusters": lambda: draw.choice([0.2, 0.5, 0.55]) + 0.02 * draw.random(),
            "ends": lambda: draw.choice([0.0, 0.0, 0.02, 0.4, 0.5, 0.97, 1.0, 1.0]),
        }
        data = [drawn[kind]() for _ in range(count)]
        for rate in (0.02, 0.15, 0.6):
            want = supremum(data, rate)
            assert want * (1 - 1e-12) <= smooth(tuple(data), rate) <= want * (1 + 1e-8)


def supremum_by_counts(places: list[float], counts: list[int], rate: float) -> float:
    """The same for many records at few places, the bounds among them: over all counts there."""
    more = [count + 3 * (place in (0, 1)) for place, count in zip(places, counts, strict=True)]
    there = np.indices([count + 1 for count in more])
    steps = sum(abs(there[k] - count) for k, count in enumerate(counts))
    size = np.maximum(there.sum(axis=0), 1)
    mean = sum(there[k] * place for k, place in enumerate(places)) / size
    spreads = sum(there[k] * (place - mean) ** 2 for k, place in enumerate(places)) / size
    most = (np.exp(-rate * steps) * spreads / (size + 1)).max()
    for axis in range(len(places)):
        moved = np.abs(np.diff(spreads, axis=axis))
        last = steps.shape[axis] - 1
        nearer = np.minimum(
            np.take(steps, range(last), axis=axis), np.take(steps, range(1, last + 1), axis=axis)
        )
        most = max(most, (np.exp(-rate * nearer) * moved).max())
    return float(most)


CROWDS = [
    ([0, 0.5, 1], [2, 1, 2]),
    ([0, 0.45, 1], [20, 1, 21]),
    ([0, 0.3, 0.6, 1], [9, 4, 3, 10]),
    ([0, 0.2, 0.3, 1], [7, 2, 2, 20]),
    ([0, 0.45, 0.55, 1], [3, 12, 11, 2]),
    ([0, 0.5, 1], [1, 45, 2]),
    ([0, 0.05, 0.9, 1], [0, 11, 14, 0]),
]


@pytest.mark.parametrize(("places", "counts"), CROWDS)
def test_it_is_the_supremum_for_many_records_at_few_places(
    places: list[float], counts: list[int]
) -> None:
    data = tuple(np.repeat(places, counts))
    for rate in (2**-16, 0.01, 0.04, 0.1, 0.14, 0.25, 0.5, 1.0, 4.0):
        least = supremum_by_counts(places, counts, rate)
        most = supremum_by_counts(places, counts, rate - 2**-36 - 2**-41 / rate)
        assert least <= smooth(data, rate) <= most * (1 + 2**-38 + 2**-43 / rate)


@pytest.mark.long
def test_records_that_go_matter_near_the_data_and_not_far_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Which is why they are searched for a few changes only."""
    cases = [
        (tuple(np.repeat(places, counts)), rate)
        for places, counts in CROWDS
        for rate in (2**-16, 0.01, 0.1, 0.2, 1.0)
    ]
    found = [smooth(*case) for case in cases]
    monkeypatch.setattr(variances, "_SEARCHED", 60)
    assert [smooth(*case) for case in cases] == found
    monkeypatch.setattr(variances, "_SEARCHED", 0)
    assert any(smooth(*case) < 0.99 * s for case, s in zip(cases, found, strict=True))


@pytest.mark.parametrize("kind", ["even", "two hills", "middle", "one end", "no middle"])
def test_what_is_far_away_does_not_count_where_it_is_discounted(kind: str) -> None:
    """With a large smoothness it is the local sensitivity, which is exact."""
    draw = np.random.default_rng(3)
    values = {
        "even": draw.random(400),
        "two hills": draw.beta(0.1, 0.1, 400),
        "middle": draw.normal(0.5, 0.01, 400),
        "one end": draw.random(400) ** 9,
        "no middle": np.repeat([0.0, 0.3, 1.0], [200, 3, 197]),
    }[kind]
    local = local_sensitivity(UNIT, values)
    assert local <= smooth(values, 20) <= local * (1 + 1e-8)


@pytest.mark.long
@given(st.lists(st.integers(0, 64), max_size=150), st.sampled_from([2**-16, 0.01, 0.3]))
def test_it_sees_its_mirror_image_and_is_smooth(values: list[int], rate: float) -> None:
    found = smooth(tuple(k / 64 for k in values), rate)
    assert found == pytest.approx(smooth(tuple(1 - k / 64 for k in values), rate), rel=1e-11)
    for other in ([0, *values], [*values, 37], values[1:]):
        beside = smooth(tuple(k / 64 for k in other), rate)
        assert found <= math.exp(rate) * (1 + 2**-50) * beside
        assert beside <= math.exp(rate) * (1 + 2**-50) * found


def test_units_do_not_matter() -> None:
    values = [0.1, 0.4, 0.4, 0.9, 0.95, 0.2, 0.6]
    wide = Variance(lower=-3, upper=5)
    for rate in RATES:
        scaled = smooth_sensitivity(wide, [8 * x - 3 for x in values], smoothness=rate)
        assert scaled == pytest.approx(64 * smooth(tuple(values), rate), rel=1e-12)
