"""What is asked: each statistic against its definition, and its documented edges."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import math
import statistics as plain
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import in_subtests

from unacorda.errors import InvalidParameter
from unacorda.mechanisms import data_dependent
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
    Statistic,
    Sum,
    Variance,
)
from unacorda.mechanisms.data_dependent.statistics.base import exact_sum, exact_sum_of_squares

NUMERIC: list[Any] = [
    OrderStatistic(rank=1, lower=-1, upper=5),
    KthLargest(k=2, lower=-1, upper=5),
    Quantile(q=0.3, lower=-1, upper=5),
    Median(lower=-1, upper=5),
    Minimum(lower=-1, upper=5),
    Maximum(lower=-1, upper=5),
    Mean(lower=-1, upper=5),
    Variance(lower=-1, upper=5),
    Sum(lower=-1, upper=5),
]
NAMES = [type(statistic).__name__ for statistic in NUMERIC]

numbers = st.lists(st.integers(-3, 8) | st.floats(-9, 9).map(lambda x: round(x, 2)), max_size=9)


@pytest.mark.long
@given(numbers, st.integers(0, 10), st.integers(1, 99))
def test_order_statistics_are_those_of_the_sorted_values(
    values: list[float], rank: int, percent: int
) -> None:
    inside = sorted(min(max(x, -1), 5) for x in values)
    n = len(inside)
    padded = inside + [5] * 20
    assert OrderStatistic(rank=rank, lower=-1, upper=5).value(values) == padded[rank]
    assert Minimum(lower=-1, upper=5).value(values) == padded[0]
    from_above = inside[::-1] + [-1] * 20
    assert KthLargest(k=rank + 1, lower=-1, upper=5).value(values) == from_above[rank]
    assert Maximum(lower=-1, upper=5).value(values) == from_above[0]
    quantile = Quantile(q=Fraction(percent, 100), lower=-1, upper=5).value(values)
    middle = Median(lower=-1, upper=5).value(values)
    assert middle == Quantile(q=0.5, lower=-1, upper=5).value(values)
    if n:
        assert middle == plain.median_low(inside)
        enough = [x for x in inside if 100 * sum(y <= x for y in inside) >= percent * n]
        assert quantile == min(enough)
    else:
        assert (quantile, middle) == (-1, -1)


@pytest.mark.long
@given(numbers)
def test_means_variances_and_sums_are_exact(values: list[float]) -> None:
    inside = [Fraction(min(max(float(x), -1.0), 5.0)) for x in values]
    assert Sum(lower=-1, upper=5).value(values) == sum(inside)
    totals = [Fraction(max(float(x), 0.0)) for x in values]
    assert Sum(lower=0, upper=None).value(values) == sum(totals)
    if inside:
        assert Mean(lower=-1, upper=5).value(values) == plain.mean(inside)
        assert Variance(lower=-1, upper=5).value(values) == plain.pvariance(inside)
    else:
        assert Mean(lower=-1, upper=5).value(values) == 2
        assert Variance(lower=-1, upper=5).value(values) == 0


@pytest.mark.long
@given(st.lists(st.sampled_from("abcz"), max_size=9))
def test_the_mode_is_the_first_of_the_most_frequent(values: list[str]) -> None:
    mode = Mode(categories=("c", "a", "b"))
    counts = [values.count(category) for category in "cab"]
    assert mode.counts(values).tolist() == counts
    assert mode.value(values) == "cab"[counts.index(max(counts))]
    assert DistinctCount().value(values) == len(Counter(values))


@pytest.mark.parametrize("statistic", NUMERIC, ids=NAMES)
def test_nan_counts_as_zero_and_what_is_beyond_a_bound_as_the_bound(statistic: Any) -> None:
    odd = [float("nan"), float("inf"), -float("inf"), -0.0, 1e300, 7, 2**62]
    assert statistic.value(odd) == statistic.value([0, 5, -1, 0, 5, 5, 5])
    far = dataclasses.replace(statistic, lower=2)
    assert far.value([float("nan")]) == far.value([2])


@pytest.mark.parametrize("statistic", NUMERIC, ids=NAMES)
def test_zero_has_no_sign(statistic: Any) -> None:
    assert str(float(dataclasses.replace(statistic, lower=0).value([-0.0] * 3))) == "0.0"


def test_floats_mean_the_decimal_they_print_as() -> None:
    assert Median(lower=0.1, upper="0.3") == Median(lower=Fraction(1, 10), upper=Fraction(3, 10))
    assert Quantile(q=0.1, lower=0, upper=1).value(range(10)) == 0  # not of rank 1
    assert Median(lower=0.1, upper=1).value([0]) == 0.1


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=20))
def test_exact_sums_are_those_of_the_floats(values: list[float]) -> None:
    numbers = np.array(values, dtype=np.float64)
    assert exact_sum(numbers) == sum(map(Fraction, values))
    assert exact_sum_of_squares(numbers) == sum(Fraction(x) ** 2 for x in values)


def test_exact_sums_of_many_numbers_do_not_fill_up() -> None:
    numbers = np.full(100_000, math.nextafter(-2.0, 0))  # all bits set
    one = Fraction(float(numbers[0]))
    assert exact_sum(numbers) == 100_000 * one
    assert exact_sum_of_squares(numbers) == 100_000 * one**2


@in_subtests(
    ("make", "argument"),
    [
        (lambda: Median(lower=1, upper=1), "upper"),
        (lambda: Mean(lower=2, upper=1), "upper"),
        (lambda: Sum(lower=1, upper=None), "lower"),
        (lambda: Maximum(lower=-float("inf"), upper=1), "lower"),
        (lambda: Maximum(lower=0, upper=10**400), "upper"),
        (lambda: Minimum(lower=Fraction(1), upper=1 + Fraction(1, 2**80)), "upper"),
        (lambda: OrderStatistic(rank=-1, lower=0, upper=1), "rank"),
        (lambda: OrderStatistic(rank=True, lower=0, upper=1), "rank"),
        (lambda: KthLargest(k=0, lower=0, upper=1), "k"),
        (lambda: Quantile(q=1, lower=0, upper=1), "q"),
        (lambda: Mode(categories=()), "categories"),
        (lambda: Mode(categories=("a", 1)), "categories"),
        (lambda: Mode(categories=(1, 1)), "categories"),
        (lambda: Mode(categories=(2**63,)), "categories"),
    ],
)
def test_bad_parameters_are_named(make: Any, argument: str) -> None:
    with pytest.raises(InvalidParameter) as raised:
        make()
    assert raised.value.argument == argument


@pytest.mark.parametrize(
    ("statistic", "values"),
    [
        (Median(lower=0, upper=1), np.array(["a"])),
        (Median(lower=0, upper=1), np.array([[1.0]])),
        (Mean(lower=0, upper=1), 3.0),
        (DistinctCount(), np.array([1.5])),
        (DistinctCount(), np.array([["a"]])),
        (Mode(categories=("a",)), np.array([1.5])),
    ],
)
def test_only_a_shape_or_a_dtype_is_refused(statistic: Statistic, values: Any) -> None:
    with pytest.raises(InvalidParameter) as raised:
        statistic.value(values)
    assert raised.value.argument == "values"


def test_categories_of_another_kind_than_the_data_have_no_records() -> None:
    assert Mode(categories=("1", "2")).counts([1, 2]).tolist() == [0, 0]
    assert Mode(categories=(1, 2)).counts([2, 2, 3]).tolist() == [0, 2]
    assert Mode(categories=(1, 2)).counts([]).tolist() == [0, 0]


def test_the_face_brings_every_statistic() -> None:
    for name in dir(data_dependent):
        assert getattr(data_dependent, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Average'"):
        _ = data_dependent.Average  # type: ignore[attr-defined]
