"""The matrix mechanism: its law, its price, its errors, what it refuses."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from tests.mechanisms.correlated.linear_maps import noise_map
from tests.support.cases import in_subtests

from unacorda import accounting, mechanisms
from unacorda.bits import SeededBits
from unacorda.checks import exact
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.correlated import strategies
from unacorda.mechanisms.correlated.grid import Grid
from unacorda.mechanisms.correlated.matrix import MatrixMechanism
from unacorda.mechanisms.correlated.workloads import Prefixes, Ranges

Floats = NDArray[np.float64]

NOISE: dict[str, Any] = {"sigma": 4, "sensitivity": 1}
ROWS = np.array([[1.0, 1, 1, 1, 1], [1, 1, 0, 0, 0], [0, 0, 1, -1, 0.5]])


def made(strategy: Any = None, workload: Any = ROWS, **changes: Any) -> MatrixMechanism:
    chosen = strategies.hierarchical(5, branching=2) if strategy is None else strategy
    return MatrixMechanism(workload=workload, strategy=chosen, **NOISE | changes)


class NoBits:
    """Random bits that must not be drawn."""

    secure = False

    def words(self, count: int) -> NDArray[np.uint64]:
        raise AssertionError("bits were drawn")

    def below(self, bound: int) -> int:
        raise AssertionError("bits were drawn")


def test_it_is_at_the_face() -> None:
    assert mechanisms.MatrixMechanism is MatrixMechanism


# ---- the law


@pytest.mark.parametrize("name", ["hierarchical", "haar", "identity", "optimal"])
def test_each_measurement_has_one_draw_which_counts_as_it_should(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    strategy = {
        "hierarchical": strategies.hierarchical(5, branching=2),
        "haar": strategies.haar(5),
        "identity": strategies.identity(5),
        "optimal": strategies.optimal(ROWS).matrix,
    }[name]
    mechanism = made(strategy)
    true = ROWS @ np.linalg.pinv(mechanism.strategy)
    unit = 2.0**mechanism.grid.release_log2
    found = noise_map(monkeypatch, lambda: mechanism.release(np.zeros(5)), len(strategy))
    assert found / unit == pytest.approx(true, abs=1e-7)
    errors = mechanism.grid.deviation * np.linalg.norm(true, axis=1)
    assert mechanism.standard_errors() == pytest.approx(errors, rel=1e-6)
    mean = math.sqrt(float((errors**2).mean()))
    assert mechanism.expected_error == pytest.approx(mean, rel=1e-6)
    assert mechanism.lower_bound <= mechanism.expected_error * (1 + 1e-9)


def test_what_is_measured_is_the_exact_product(monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism = made(grid_log2=0)
    values = np.random.default_rng(4).integers(-(10**12), 10**12, 5)
    seen: list[Any] = []

    def keeping(_: Grid, high: Floats, low: Floats, **rest: Any) -> Floats:
        seen.append((high, low, rest))
        return np.zeros(high.size)

    monkeypatch.setattr(Grid, "release", keeping)
    mechanism.release(values)
    high, low, rest = seen[0]
    for row, top, bottom in zip(mechanism.strategy, high, low, strict=True):
        true = sum(Fraction(float(c)) * int(v) for c, v in zip(row, values, strict=True))
        assert Fraction(int(top) * 2**28 + int(bottom), 2 ** rest["scale_log2"]) == true


@pytest.mark.long
@pytest.mark.statistical
def test_the_noise_has_its_covariance() -> None:
    # 8000 releases of 3 answers: false alarms of 1e-7; 10% off is rejected, and so are
    # independent errors of the same sizes.
    mechanism = made()
    decoder = ROWS @ np.linalg.pinv(mechanism.strategy)
    covariance = decoder @ decoder.T * 16
    bits = SeededBits(5)
    x = np.array([3, 0, -7, 10**6, 2])
    noise = np.array([mechanism.release(x, bits=bits) - ROWS @ x for _ in range(8000)])

    def p(errors: Floats) -> float:
        whitened = np.linalg.solve(np.linalg.cholesky(covariance), errors.T)
        tail = stats.chi2(errors.size)
        return float(2 * min(tail.cdf((whitened**2).sum()), tail.sf((whitened**2).sum())))

    assert p(noise) > 1e-7
    assert p(noise / 0.9) < 1e-9
    assert p(noise / 1.1) < 1e-9
    alone = np.random.default_rng(1).normal(size=noise.shape) * mechanism.standard_errors()
    assert p(alone) < 1e-9


def test_answers_are_near_the_truth_and_agree() -> None:
    x = np.arange(20) ** 3
    for workload in (Prefixes(20), Ranges(20)):
        sharp = made(strategies.haar(20), workload, sigma=1e-4)
        assert sharp.release(x) == pytest.approx(workload.answers(x.astype(float)), abs=0.01)
    cells = sharp.release_cells(x, bits=SeededBits(1))
    assert np.array_equal(sharp.workload.answers(cells), sharp.release(x, bits=SeededBits(1)))


def test_values_at_the_ends_do_not_overflow() -> None:
    wide = made(strategies.identity(5), grid_log2=0)
    found = wide.release([np.inf, -np.inf, np.nan, -0.0, 1e300])
    assert found[0] == pytest.approx(2.0**56, rel=1e-9)


# ---- the price


def squared_move(strategy: Floats, moved: int) -> float:
    """The farthest over all sets of cells and all signs."""
    worst = 0.0
    for chosen in itertools.combinations(range(strategy.shape[1]), moved):
        for signs in itertools.product((1, -1), repeat=moved):
            worst = max(worst, float(((strategy[:, chosen] @ signs) ** 2).sum()))
    return worst


@pytest.mark.parametrize("seed", range(4))
def test_the_price_is_that_of_the_largest_column(seed: int) -> None:
    strategy = np.random.default_rng(seed).normal(size=(7, 5))
    mechanism = made(strategy)
    columns = [sum(Fraction(float(c)) ** 2 for c in mechanism.strategy[:, j]) for j in range(5)]
    multiplier = exact("noise_multiplier", mechanism.event.noise_multiplier)
    assert multiplier**2 <= 16 / max(columns)
    assert multiplier**2 >= 16 / max(columns) * (1 - Fraction(1, 10**14))
    rho = accounting.rho(mechanism.event)
    assert rho == pytest.approx(float(max(columns)) / 32, rel=1e-12)


@pytest.mark.parametrize("moved", [2, 3, 5])
def test_several_cells_cost_no_less_than_the_worst_of_them(moved: int) -> None:
    for strategy in (
        strategies.hierarchical(5, branching=2),
        strategies.haar(5),
        np.random.default_rng(moved).normal(size=(7, 5)),
        np.ones((1, 5)),
    ):
        mechanism = made(strategy, np.ones((1, 5)) @ strategy.T @ strategy, moved=moved)
        true = squared_move(mechanism.strategy, moved)
        assert 32 * float(accounting.rho(mechanism.event)) >= true * (1 - 1e-12)
    apart = made(strategies.identity(5), moved=moved)
    assert 32 * float(accounting.rho(apart.event)) == pytest.approx(moved, rel=1e-9)
    total = made(np.ones((1, 5)), np.ones((1, 5)), moved=moved)
    assert 32 * float(accounting.rho(total.event)) == pytest.approx(moved**2, rel=1e-9)


def test_the_event_counts_what_the_grid_adds() -> None:
    third = made(strategies.identity(5), sensitivity=Fraction(1, 3), grid_log2=-1)
    assert exact("noise_multiplier", third.event.noise_multiplier) == 8


def test_the_mean_of_columns_is_not_enough() -> None:
    # The fault: noise for the root mean square of the columns instead of the largest.
    strategy = np.diag([1.0, 1, 1, 1, 2])
    mechanism = made(strategy)
    wrong = 32 * float((strategy**2).sum() / 5) / 32
    assert wrong < squared_move(strategy, 1) == 32 * float(accounting.rho(mechanism.event))


# ---- what it refuses


@in_subtests(
    ("changes", "match"),
    [
        ({"sigma": 0}, "sigma=0"),
        ({"sigma": float("inf")}, "sigma=inf"),
        ({"sensitivity": -1}, "sensitivity=-1"),
        ({"moved": 0}, "moved=0"),
        ({"moved": 6}, "moved=6"),
        ({"grid_log2": 1.5}, "grid_log2=1.5"),
        ({"grid_log2": 901}, "grid_log2=901"),
        ({"strategy": np.eye(4)}, "strategy=.*5 columns"),
        ({"strategy": np.zeros((2, 5))}, "strategy="),
        ({"strategy": np.eye(5) * 1e-12}, "scale it and sigma"),
        ({"strategy": np.eye(5) * 1e12}, "scale it and sigma"),
        ({"strategy": np.eye(5)[:2]}, "each query can be computed"),
        ({"strategy": [[np.nan] * 5]}, "strategy=.*finite"),
        ({"workload": np.zeros((1, 5))}, "workload="),
        ({"workload": "a"}, "workload="),
    ],
)
def test_parameters_that_mean_nothing_are_refused(changes: dict[str, Any], match: str) -> None:
    with pytest.raises(InvalidParameter, match=match):
        made(**changes)


SECRET = 424_242_424


@pytest.mark.parametrize(
    "x",
    [
        SECRET,
        [SECRET],
        np.array([[SECRET] * 5]),
        np.array([str(SECRET)] * 5),
        np.array([SECRET * 1j] * 5),
    ],
)
def test_histograms_of_another_shape_or_dtype_are_refused(x: Any) -> None:
    with pytest.raises(InvalidParameter, match="x=") as caught:
        made().release(x, bits=NoBits())
    assert str(SECRET) not in str(caught.value)


def test_it_shows_no_matrices() -> None:
    assert repr(made()) == (
        "MatrixMechanism(3 queries, 11 measurements of 5 cells, sigma=4, sensitivity=1, moved=1)"
    )
