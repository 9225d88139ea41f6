"""Marginal tables: their law, their price, and that no strategy has less variance."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats
from tests.mechanisms.correlated.linear_maps import noise_map
from tests.support.cases import in_subtests

from unacorda import accounting, mechanisms
from unacorda.bits import SeededBits
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.correlated.marginals import Marginals
from unacorda.mechanisms.correlated.strategies import optimal, svd_bound
from unacorda.privacy import events

Floats = NDArray[np.float64]

SIZES = (2, 3, 2)
CASES: list[Any] = [
    (SIZES, ((),)),
    (SIZES, ((0,), (1,), (2,))),
    (SIZES, ((0, 1), (1, 2), (0, 2))),
    (SIZES, ((), (1,), (0, 1, 2))),
    ((4, 1, 2), ((0, 1), (2,))),
]


def query_rows(sizes: tuple[int, ...], query: tuple[int, ...]) -> Floats:
    """The rows of one marginal over the full table."""
    row: NDArray[np.floating[Any]] = np.eye(1)
    for place, size in enumerate(sizes):
        row = np.kron(row, np.eye(size) if place in query else np.ones((1, size)))
    return row.astype(np.float64)


def projection(sizes: tuple[int, ...], subset: tuple[int, ...]) -> Floats:
    """What is measured for one interaction: the projected marginal."""
    row: NDArray[np.floating[Any]] = np.eye(1)
    for place, size in enumerate(sizes):
        own = np.eye(size) - np.ones((size, size)) / size
        row = np.kron(row, own if place in subset else np.ones((1, size)))
    return row.astype(np.float64)


def encoder(marginals: Marginals) -> Floats:
    """All measurements, each over its noise."""
    return np.concatenate(
        [projection(marginals.sizes, s) / float(n) for s, n in marginals.noise.items()]
    )


def workload(marginals: Marginals) -> Floats:
    return np.concatenate([query_rows(marginals.sizes, q) for q in marginals.queries])


def flat(tables: dict[Any, Floats]) -> Floats:
    return np.concatenate([table.reshape(-1) for table in tables.values()])


def records_of(sizes: tuple[int, ...], count: int, seed: int) -> NDArray[np.int64]:
    return np.random.default_rng(seed).integers(0, sizes, (count, len(sizes)))


def test_they_are_at_the_face() -> None:
    assert mechanisms.correlated.Marginals is Marginals


# ---- the law


@pytest.mark.parametrize(("sizes", "queries"), CASES)
def test_each_measurement_has_one_draw_and_errors_are_those_of_least_squares(
    monkeypatch: pytest.MonkeyPatch, sizes: Any, queries: Any
) -> None:
    own = Marginals(sizes=sizes, queries=queries, sigma=4)
    rows = encoder(own)
    best = workload(own) @ np.linalg.pinv(rows.T @ rows) @ workload(own).T
    none = np.zeros((0, len(sizes)), np.int64)
    steps = [
        2.0 ** own._grid(s).release_log2 / math.prod(sizes[i] for i in s) for s in own.interactions
    ]
    cells = [math.prod(sizes[i] for i in s) for s in own.interactions]
    found = noise_map(monkeypatch, lambda: flat(own.release(none)), sum(cells))
    noises = np.repeat([float(own.noise[s]) for s in own.interactions], cells)
    scaled = found / np.repeat(steps, cells) * noises
    assert scaled @ scaled.T == pytest.approx(best, rel=1e-7, abs=1e-7)
    errors = flat({q: np.full([sizes[i] for i in q], e) for q, e in own.standard_errors().items()})
    assert errors == pytest.approx(np.sqrt(np.diag(best)), rel=1e-6)
    assert own.expected_error == pytest.approx(math.sqrt(np.diag(best).mean()), rel=1e-6)


@pytest.mark.slow
@pytest.mark.statistical
def test_the_noise_has_its_size() -> None:
    # 2500 releases: whitened on the range of its covariance; false alarms of 1e-7.
    own = Marginals(sizes=SIZES, queries=((0, 1), (2,)), sigma=4)
    rows = encoder(own)
    covariance = workload(own) @ np.linalg.pinv(rows.T @ rows) @ workload(own).T
    records = records_of(SIZES, 50, 1)
    truth = workload(own) @ np.bincount(
        np.ravel_multi_index(tuple(records.T), SIZES), minlength=math.prod(SIZES)
    )
    bits = SeededBits(6)
    noise = np.array([flat(own.release(records, bits=bits)) - truth for _ in range(2500)])
    values, vectors = np.linalg.eigh(covariance)
    seen = values > 1e-9 * values[-1]

    def p(errors: Floats) -> float:
        squares = ((errors @ vectors[:, seen]) ** 2 / values[seen]).sum()
        tail = stats.chi2(len(errors) * seen.sum())
        return float(2 * min(tail.cdf(squares), tail.sf(squares)))

    assert np.abs(noise @ vectors[:, ~seen]).max() < 1e-6
    assert p(noise) > 1e-7
    assert p(noise / 0.9) < 1e-9
    assert p(noise / 1.1) < 1e-9


def test_tables_are_right_and_agree() -> None:
    sizes = (3, 4, 2)
    sharp = Marginals(sizes=sizes, queries=((0, 1), (2,), (1, 0, 2), ()), sigma=1e-4)
    records = records_of(sizes, 1000, 2)
    found = sharp.release(records)
    full, _ = np.histogramdd(records, bins=[np.arange(size + 1) - 0.5 for size in sizes])
    assert found[0, 1, 2] == pytest.approx(full, abs=0.01)
    assert found[2,] == pytest.approx(full.sum(axis=(0, 1)), abs=0.01)
    assert found[()] == pytest.approx(1000, abs=0.01)
    noisy = Marginals(sizes=sizes, queries=((0, 1), (2,), (0, 1, 2), ()), sigma=9).release(records)
    assert noisy[0, 1, 2].sum(axis=2) == pytest.approx(noisy[0, 1], abs=1e-6)
    assert noisy[0, 1, 2].sum(axis=(0, 1)) == pytest.approx(noisy[2,], abs=1e-6)
    assert noisy[2,].sum() == pytest.approx(float(noisy[()]), abs=1e-6)


@pytest.mark.long
def test_many_attributes_need_no_full_table() -> None:
    sizes = (8,) * 20
    pairs = Marginals(sizes=sizes, queries=tuple(itertools.combinations(range(20), 2)), sigma=10)
    assert len(pairs.interactions) == 1 + 20 + 190
    tables = pairs.release(records_of(sizes, 1000, 3))
    assert len(tables) == 190
    assert {table.shape for table in tables.values()} == {(8, 8)}


def test_records_outside_count_as_the_nearest_within() -> None:
    own = Marginals(sizes=(2, 3), queries=((0, 1),), sigma=1e-4)
    found = own.release(np.array([[-5, 99], [2**62, -(2**62)]]))[0, 1]
    assert np.rint(found).astype(int).tolist() == [[0, 0, 1], [1, 0, 0]]
    large = own.release(np.array([[2**64 - 1, 1]], np.uint64))[0, 1]
    assert np.rint(large).astype(int).tolist() == [[0, 0, 0], [0, 1, 0]]


# ---- the price


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=4),
    st.data(),
    st.sampled_from([Fraction(1, 3), Fraction(4), Fraction(1000)]),
)
def test_no_more_is_spent_than_is_said(
    sizes: list[int], data: st.DataObject, sigma: Fraction
) -> None:
    every = [
        subset
        for count in range(len(sizes) + 1)
        for subset in itertools.combinations(range(len(sizes)), count)
    ]
    queries = data.draw(st.lists(st.sampled_from(every), min_size=1, unique=True))
    own = Marginals(sizes=tuple(sizes), queries=tuple(queries), sigma=sigma)
    spent = Fraction(0)
    for subset, noise in own.noise.items():
        square = Fraction(1)
        for i in subset:  # a column of I - J / n
            square *= (1 - Fraction(1, sizes[i])) ** 2 + (sizes[i] - 1) * Fraction(1, sizes[i]) ** 2
        spent += square / noise**2
    assert 1 - Fraction(1, 10**11) <= spent * sigma**2 <= 1
    assert own.event == events.Gaussian(noise_multiplier=sigma)


@pytest.mark.parametrize(("sizes", "queries"), CASES)
def test_every_record_moves_the_measurements_by_the_price(sizes: Any, queries: Any) -> None:
    own = Marginals(sizes=sizes, queries=queries, sigma=4)
    squares = (encoder(own) ** 2).sum(axis=0)
    assert squares == pytest.approx(np.full(math.prod(sizes), 1 / 16), rel=1e-9)
    assert accounting.rho(own.event) == pytest.approx(1 / 32)
    three = Marginals(sizes=sizes, queries=queries, sigma=4, rows=3)
    assert accounting.rho(three.event) == pytest.approx(9 / 32)


def test_noise_that_ignores_how_often_a_record_counts_is_caught() -> None:
    # The fault: each interaction has the noise that one alone would need.
    own = Marginals(sizes=SIZES, queries=((0, 1), (1, 2)), sigma=4)
    wrong = np.concatenate([projection(SIZES, s) / 4 for s in own.interactions])
    assert (wrong**2).sum(axis=0).max() > 1.5 / 16


# ---- errors


@pytest.mark.parametrize(("sizes", "queries"), CASES)
def test_the_total_variance_is_the_least_there_is(sizes: Any, queries: Any) -> None:
    own = Marginals(sizes=sizes, queries=queries, sigma=1)
    rows = workload(own)
    total = len(rows) * own.expected_error**2
    assert total == pytest.approx(svd_bound(rows), rel=1e-6)
    assert total <= optimal(rows).total_variance * (1 + 1e-6)


# ---- what it refuses


@in_subtests(
    ("changes", "match"),
    [
        ({"sizes": ()}, "queries=0"),
        ({"sizes": (2, 0)}, "sizes=0"),
        ({"sizes": 3}, "sizes=3"),
        ({"sizes": "23"}, "sizes='23'"),
        ({"sizes": (2, 2.5)}, "sizes=2.5"),
        ({"sizes": (2**12, 2**12)}, "tables of at most"),
        ({"queries": ()}, "queries="),
        ({"queries": ((0, 0),)}, "different attributes"),
        ({"queries": ((0, 1), (1, 0))}, "different marginals"),
        ({"queries": ((2,),)}, "queries=2"),
        ({"queries": ((-1,),)}, "queries=-1"),
        ({"queries": (0, 1)}, "queries=0"),
        ({"sigma": 0}, "sigma=0"),
        ({"sigma": 2**21}, "sigma=2097152"),
        ({"rows": 0}, "rows=0"),
    ],
)
def test_parameters_that_mean_nothing_are_refused(changes: dict[str, Any], match: str) -> None:
    good: dict[str, Any] = {"sizes": (2, 3), "queries": ((0, 1),), "sigma": 4}
    with pytest.raises(InvalidParameter, match=match):
        Marginals(**good | changes)


class NoBits:
    """Random bits that must not be drawn."""

    secure = False

    def words(self, count: int) -> NDArray[np.uint64]:
        raise AssertionError("bits were drawn")

    def below(self, bound: int) -> int:
        raise AssertionError("bits were drawn")


@pytest.mark.parametrize(
    "records",
    [
        5,
        None,
        np.array([1, 2]),
        np.array([[1, 2, 3]]),
        np.array([[0.5, 1]]),
        np.array([["a", "b"]]),
    ],
)
def test_records_of_another_shape_or_dtype_are_refused(records: Any) -> None:
    own = Marginals(sizes=(2, 3), queries=((0, 1),), sigma=4)
    with pytest.raises(InvalidParameter, match="records="):
        own.release(records, bits=NoBits())
