"""Fixed-point sums: exact, free of order, and as sensitive as declared."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unacorda.errors import InvalidParameter
from unacorda.mechanisms.contributions import (
    fixed_point_bounds,
    fixed_point_sensitivity,
    fixed_point_sum,
)
from unacorda.privacy.neighbors import Neighbors, ReplaceOne

FLOATS = st.floats(width=64) | st.floats(-10, 10) | st.sampled_from([1e16, -1e16, 0.5, 2.5])
BOUNDS = st.tuples(st.integers(-50, 50), st.integers(-50, 50)).map(sorted)


def exact(values: list[float], low: int, high: int, unit: int) -> int:
    """The definition, one value at a time."""
    total = 0
    for value in values:
        if math.isnan(value):
            continue
        if math.isinf(value):
            step = high if value > 0 else low
        else:
            step = round(Fraction(value) / Fraction(2) ** unit)
        total += min(max(step, low), high)
    return total


@pytest.mark.long
@given(values=st.lists(FLOATS, max_size=30), bounds=BOUNDS, unit=st.integers(-12, 12))
def test_the_sum_is_its_definition(values: list[float], bounds: list[int], unit: int) -> None:
    lower, upper = bounds
    low, high = fixed_point_bounds(lower=lower, upper=upper, unit_log2=unit)
    total = fixed_point_sum(np.array(values, float), lower=lower, upper=upper, unit_log2=unit)
    assert total == exact(values, low, high, unit)
    assert type(total) is int


@pytest.mark.long
@given(
    values=st.lists(FLOATS, min_size=1, max_size=20),
    other=FLOATS,
    bounds=BOUNDS,
    unit=st.integers(-20, 4),
    seed=st.integers(0, 2**32),
)
def test_neighbors_differ_by_at_most_the_sensitivity_in_any_order(
    values: list[float], other: float, bounds: list[int], unit: int, seed: int
) -> None:
    # Casacuberta et al. 2022: a float sum breaks this by reordering and by rounding.
    lower, upper = bounds
    terms: dict[str, Any] = {"lower": lower, "upper": upper, "unit_log2": unit}
    whole = fixed_point_sum(np.array(values), **terms)
    shuffled = np.random.default_rng(seed).permutation(values)
    fewer = fixed_point_sum(shuffled[1:], **terms)
    replaced = fixed_point_sum(np.append(shuffled[1:], other), **terms)
    assert abs(whole - fewer) <= fixed_point_sensitivity(**terms)
    assert abs(whole - replaced) <= fixed_point_sensitivity(**terms, neighbors=ReplaceOne)


def test_the_sensitivity_is_attained() -> None:
    terms: dict[str, Any] = {"lower": -1, "upper": 3, "unit_log2": -3}
    assert fixed_point_sum([3.0], **terms) == fixed_point_sensitivity(**terms) == 24
    swing = fixed_point_sum([3.0], **terms) - fixed_point_sum([-1.0], **terms)
    assert swing == fixed_point_sensitivity(**terms, neighbors=ReplaceOne) == 32
    positive: dict[str, Any] = {"lower": 2, "upper": 3, "unit_log2": 0}
    # Where a row may be NaN, replacing one moves the sum by more than the width of the bounds.
    assert fixed_point_sum([3.0], **positive) - fixed_point_sum([np.nan], **positive) == 3
    assert fixed_point_sensitivity(**positive, rows=4, neighbors=ReplaceOne) == 12


def test_sums_that_floats_get_wrong() -> None:
    single = np.append(np.full(1, 2.0**24, np.float32), np.ones(1000, np.float32))
    assert fixed_point_sum(single, lower=0, upper=2**25, unit_log2=0) == 2**24 + 1000
    big = np.array([2**62 - 1, 2**62 - 3, 2**62 - 7, -(2**63)])
    bound = 2**62
    total = fixed_point_sum(big, lower=-bound, upper=bound, unit_log2=0)
    assert total == 3 * 2**62 - 11 - 2**62
    many = np.full(200_000, 2**62 - 1)
    assert fixed_point_sum(many, lower=0, upper=bound, unit_log2=0) == 200_000 * (2**62 - 1)
    modular = np.array([2**63, 2**63, 5], np.uint64)
    assert fixed_point_sum(modular, lower=0, upper=10, unit_log2=0) == 25
    cancelling = [1e16, 1.0, -1e16]
    assert fixed_point_sum(cancelling, lower=-(2**60), upper=2**60, unit_log2=0) == 1


@pytest.mark.long
@given(
    values=st.lists(st.integers(-(2**63), 2**63 - 1), max_size=10),
    unsigned=st.lists(st.integers(0, 2**64 - 1), max_size=10),
    unit=st.integers(-80, 80),
    bounds=BOUNDS,
)
def test_integers_of_any_unit(
    values: list[int], unsigned: list[int], unit: int, bounds: list[int]
) -> None:
    low, high = bounds
    terms: dict[str, Any] = {
        "lower": low * Fraction(2) ** unit,
        "upper": high * Fraction(2) ** unit,
        "unit_log2": unit,
    }
    for array in (np.array(values, np.int64), np.array(unsigned, np.uint64)):
        expected = sum(
            min(max(round(Fraction(v) / Fraction(2) ** unit), low), high) for v in array.tolist()
        )
        assert fixed_point_sum(array, **terms) == expected


@pytest.mark.parametrize(
    "wrong", [{"lower": 2}, {"upper": float("nan")}, {"unit_log2": 2000}, {"unit_log2": -70}]
)
def test_wrong_terms_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        fixed_point_sum([1.0], **{"lower": 0, "upper": 1, "unit_log2": 0, **wrong})


def test_other_dtypes_and_relations_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="values"):
        fixed_point_sum(np.array(["a"]), lower=0, upper=1, unit_log2=0)
    relation: Neighbors = "zero out"  # type: ignore[assignment]  # under test
    with pytest.raises(InvalidParameter, match="neighbors"):
        fixed_point_sensitivity(lower=0, upper=1, unit_log2=0, neighbors=relation)
