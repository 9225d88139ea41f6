"""Clipped contributions: never longer than the bound, nobody's business but one's own."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.tiers import mostly_slow

from unacorda.errors import InvalidParameter
from unacorda.mechanisms.contributions import clip_rows, clip_users, clipping_sensitivity
from unacorda.privacy.neighbors import ReplaceOne

Norm = Literal["l1", "l2"]

EDGES = [0.0, -0.0, math.inf, -math.inf, math.nan, 5e-324, -1e308, 2.0**62, 0.5, 1e9, -3.0]
FLOATS = st.floats(-40, 40) | st.floats() | st.sampled_from(EDGES)
NORMS = st.sampled_from(["l1", "l2"])
BOUNDS = st.sampled_from([1, 2, 5, 37, 1000, 2**20, 2**31 - 1])


def matrices(*, rows: int = 8) -> Any:
    return st.integers(1, 5).flatmap(
        lambda columns: st.lists(
            st.lists(FLOATS, min_size=columns, max_size=columns), min_size=1, max_size=rows
        ).map(np.array)
    )


def size(row: list[int], norm: Norm) -> int:
    """The norm, or its square in l2, exactly."""
    return sum(map(abs, row)) if norm == "l1" else sum(x * x for x in row)


def most(bound: int, norm: Norm) -> int:
    return bound if norm == "l1" else bound * bound


def in_steps(value: float, unit_log2: int) -> int:
    if math.isnan(value):
        return 0
    if math.isinf(value):
        return 2**62 if value > 0 else -(2**62)
    return min(max(round(Fraction(value) / Fraction(2) ** unit_log2), -(2**62)), 2**62)


def clip(values: Any, norm: Norm, bound: int, unit_log2: int = 0) -> NDArray[np.int64]:
    return clip_rows(values, **bounded(norm, bound, unit_log2))


def bounded(norm: Norm, bound: int, unit_log2: int = 0) -> dict[str, Any]:
    return {norm: bound * Fraction(2) ** unit_log2, "unit_log2": unit_log2}


@pytest.mark.long
@given(values=matrices(), norm=NORMS, bound=BOUNDS, unit=st.integers(-30, 30))
@example(np.array([[2.0**31, -(2.0**31)]]), "l2", 2**31 - 1, 0)
@example(np.array([[math.inf] * 4, [math.nan] * 4]), "l1", 1, 5)
def test_no_row_is_longer_than_the_bound_and_short_ones_stay(
    values: NDArray[np.float64], norm: Norm, bound: int, unit: int
) -> None:
    clipped = clip(values, norm, bound, unit)
    assert clipped.dtype == np.int64
    for row, given_row in zip(clipped.tolist(), values.tolist(), strict=True):
        steps = [in_steps(value, unit) for value in given_row]
        assert size(row, norm) <= most(bound, norm)
        if size(steps, norm) <= most(bound, norm):
            assert row == steps
            continue
        # Scaled by the same factor, to within the rounding that is promised.
        length = math.sqrt(size(steps, norm)) if norm == "l2" else size(steps, norm)
        slack = 1 + bound * 2.0**-28 * math.sqrt(len(row)) + 1e-9
        for clipped_step, step in zip(row, steps, strict=True):
            ideal = step * (bound / length)
            assert abs(abs(clipped_step) - abs(ideal)) <= slack
            assert clipped_step * step >= 0


@pytest.mark.parametrize("bound", [2**31 - 1, 2**27, 3])
@pytest.mark.parametrize("columns", mostly_slow([2, 3, 9, 300, 5000]))
@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_many_columns(norm: Norm, columns: int, bound: int) -> None:
    rng = np.random.default_rng(columns)
    for high in (4, 2**20, 2**31, 2**62):
        values = rng.integers(-high, high, (20, columns))
        for row, steps in zip(clip(values, norm, bound).tolist(), values.tolist(), strict=True):
            assert size(row, norm) <= most(bound, norm)
            if size(steps, norm) <= most(bound, norm):
                assert row == steps
            elif bound > 100 * columns:
                assert size(row, norm) > 0.99 * most(bound, norm)


@pytest.mark.long
@given(values=matrices(rows=20), norm=NORMS, bound=BOUNDS)
def test_what_becomes_of_a_row_depends_on_it_alone(
    values: NDArray[np.float64], norm: Norm, bound: int
) -> None:
    together = clip(values, norm, bound, -3)
    for place, row in enumerate(values):
        assert clip(row[np.newaxis], norm, bound, -3).tolist() == [together[place].tolist()]


def test_chunks_do_not_show() -> None:
    values = np.random.default_rng(1).normal(size=(70_001, 3))
    whole = clip(values, "l2", 2**30, -30)
    pieces = [
        clip(values[start : start + 9973], "l2", 2**30, -30) for start in range(0, 70_001, 9973)
    ]
    assert (np.concatenate(pieces) == whole).all()
    turned = clip(np.asfortranarray(values)[::-1], "l2", 2**30, -30)
    assert (turned[::-1] == whole).all()


def test_a_clip_in_floats_is_longer_than_its_bound() -> None:
    # What this file is about: the checks above see it.
    values = np.random.default_rng(2).normal(size=(1000, 3))
    scaled = values / np.linalg.norm(values, axis=1, keepdims=True)
    squares = [sum(Fraction(x) ** 2 for x in row) for row in scaled.tolist()]
    assert sum(square > 1 for square in squares) > 200
    exact = clip_rows(values, l2=1, unit_log2=-30)
    assert all(size(row, "l2") <= 2**60 for row in exact.tolist())


def test_no_step_is_lost_where_the_scaled_row_is_whole() -> None:
    assert clip(np.array([[30, -40]]), "l2", 5).tolist() == [[3, -4]]
    assert clip(np.array([[300, -400, 0]]), "l2", 50).tolist() == [[30, -40, 0]]
    assert clip(np.array([[6, -2]]), "l1", 4).tolist() == [[3, -1]]
    assert clip([7, -7, 3], "l2", 5).tolist() == [5, -5, 3]
    assert clip([2**40], "l1", 2**31 - 1).tolist() == [2**31 - 1]


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_strange_values_have_a_documented_meaning(norm: Norm) -> None:
    values = [[math.nan, 3.0], [math.inf, 5.0], [-math.inf, math.nan], [-0.0, 0.4], [1e300, 1.0]]
    assert clip(np.array(values), norm, 10).tolist() == [[0, 3], [10, 0], [-10, 0], [0, 0], [10, 0]]
    both = clip(np.array([[math.inf, -math.inf]]), norm, 10).tolist()
    assert both == ([[5, -5]] if norm == "l1" else [[7, -7]])
    assert clip(np.array([2**63 - 1, -(2**63)]), norm, 10).tolist() == [10, -10]
    assert clip(np.array([2**64 - 1, 3], np.uint64), norm, 10).tolist() == [10, 3]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int8, np.uint16, np.bool_])
def test_other_dtypes(dtype: Any) -> None:
    assert clip(np.array([[1, 0], [1, 1]], dtype), "l1", 1).tolist() == [[1, 0], [0, 0]]


def test_nothing_and_little() -> None:
    assert clip(np.empty((0, 3)), "l2", 5).shape == (0, 3)
    assert clip([], "l1", 5).tolist() == []
    assert clip_users([], [], l1=1, unit_log2=0).tolist() == []
    assert clip_users(np.empty((0, 2)), [], l2=1, unit_log2=0).shape == (0, 2)
    assert clip_users([[1.0, 2.0]], ["a"], l2=9, unit_log2=0, columns=2).tolist() == [[1, 2]]


# Users.

ROWS = st.lists(st.tuples(st.integers(0, 4), st.tuples(FLOATS, FLOATS)), min_size=1, max_size=25)


def by_user(rows: list[tuple[int, tuple[float, float]]], terms: dict[str, Any]) -> dict[int, Any]:
    names = sorted({name for name, _ in rows})
    clipped = clip_users(np.array([row for _, row in rows]), [name for name, _ in rows], **terms)
    return dict(zip(names, clipped.tolist(), strict=True))


@pytest.mark.long
@given(rows=ROWS, norm=NORMS, bound=BOUNDS, unit=st.integers(-20, 4))
@example([(0, (-(2.0**62), -2.0)), (0, (-1.0, 2.0**62)), (0, (0.0, 2.0**62))], "l1", 2, 0)
def test_a_user_is_her_rows_added_and_clipped(
    rows: list[tuple[int, tuple[float, float]]], norm: Norm, bound: int, unit: int
) -> None:
    terms = bounded(norm, bound, unit)
    for name, clipped in by_user(rows, terms).items():
        totals = [
            sum(in_steps(row[column], unit) for owner, row in rows if owner == name)
            for column in (0, 1)
        ]
        ended = [min(max(total, -(2**62)), 2**62) for total in totals]
        assert size(clipped, norm) <= most(bound, norm)
        assert clipped == clip(np.array([ended]), norm, bound).tolist()[0]


@pytest.mark.long
@given(rows=ROWS, norm=NORMS, bound=BOUNDS, seed=st.integers(0, 2**32))
def test_neighbors_are_within_the_sensitivity_in_any_order(
    rows: list[tuple[int, tuple[float, float]]], norm: Norm, bound: int, seed: int
) -> None:
    terms = bounded(norm, bound, -2)
    rng = np.random.default_rng(seed)
    whole = np.array(list(by_user(rows, terms).values()))
    turned = [rows[place] for place in rng.permutation(len(rows))]
    left = [row for row in turned if row[0] != rows[0][0]]
    fewer = np.array(list(by_user(left, terms).values())) if left else np.zeros((0, 2), np.int64)
    moved = (whole.sum(axis=0) - fewer.sum(axis=0)).tolist()
    reach = clipping_sensitivity(**terms)
    assert size(moved, norm) <= most(reach, norm)
    other = [*left, (9, (math.inf, -7.0)), (9, (3.0, math.nan))]
    exchanged = np.array(list(by_user(other, terms).values()))
    moved = (whole.sum(axis=0) - exchanged.sum(axis=0)).tolist()
    reach = clipping_sensitivity(**terms, neighbors=ReplaceOne)
    assert size(moved, norm) <= most(reach, norm)


def test_the_sensitivity_is_attained() -> None:
    assert clipping_sensitivity(l2=2.5, unit_log2=-2) == 10 == clip([9.0], "l2", 10, -2).sum()
    swing = clip([9.0], "l2", 10, -2) - clip([-9.0], "l2", 10, -2)
    assert clipping_sensitivity(l2=2.5, unit_log2=-2, neighbors=ReplaceOne) == 20 == swing.sum()


def test_a_user_with_very_many_rows() -> None:
    large = np.full(200_000, 2.0**61)
    names = np.repeat(["a", "b"], 100_000)
    mixed = np.where(np.arange(200_000) % 2 == 0, large, -large)
    mixed[-1] = 7 - 2.0**61 + 2.0**61  # "b" is left with one 2^61 and 7
    assert clip_users(large, names, l1=100, unit_log2=0).tolist() == [100, 100]
    assert clip_users(mixed, names, l1=100, unit_log2=0).tolist() == [0, 100]
    ones = clip_users(np.ones(200_000), names, l2=2**20, unit_log2=0)
    assert ones.tolist() == [100_000, 100_000]


@pytest.mark.parametrize(
    "names",
    [
        ["a", "b", "a"],
        np.array(["a", "b", "a"], object),
        np.array(["a", "b", "a"], np.bytes_),
        [3, 5, 3],
        np.array([0, 2**64 - 1, 0], np.uint64),
        [False, True, False],
    ],
    ids=repr,
)
def test_users_of_several_kinds(names: Any) -> None:
    assert clip_users([1, 2, 4], names, l1=100, unit_log2=0).tolist() == [5, 2]


@pytest.mark.parametrize(
    "names", [["a"], np.array([["a"], ["b"]]), np.array([1.5, 2.5]), {"a": 1, "b": 2}, None]
)
def test_other_users_are_refused(names: Any) -> None:
    with pytest.raises(InvalidParameter, match="users"):
        clip_users([1.0, 2.0], names, l1=1, unit_log2=0)


@pytest.mark.parametrize(
    "values", [np.array(["a"]), np.array([1j]), 3.0, np.zeros((2, 2, 2)), np.zeros((3, 0))]
)
def test_other_values_are_refused(values: Any) -> None:
    with pytest.raises(InvalidParameter, match="values"):
        clip_rows(values, l1=1, unit_log2=0)


@pytest.mark.parametrize(
    "terms",
    [
        {"unit_log2": 0},
        {"l1": 1, "l2": 1, "unit_log2": 0},
        {"l1": 0, "unit_log2": 0},
        {"l1": -1, "unit_log2": 0},
        {"l2": 0.9, "unit_log2": 0},
        {"l2": 2**31, "unit_log2": 0},
        {"l2": math.inf, "unit_log2": 0},
        {"l1": 1, "unit_log2": 2000},
        {"l1": 1, "unit_log2": True},
    ],
    ids=str,
)
def test_other_bounds_are_refused(terms: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        clip_rows([1.0], **terms)
    with pytest.raises(InvalidParameter):
        clipping_sensitivity(**terms)


def test_other_relations_are_refused() -> None:
    relation: Any = "zero out"
    with pytest.raises(InvalidParameter, match="neighbors"):
        clipping_sensitivity(l1=1, unit_log2=0, neighbors=relation)
