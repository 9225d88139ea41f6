"""The square-root mechanism: its law, its price, its errors, in a stream and all at once."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import linalg, stats
from tests.mechanisms.correlated.linear_maps import noise_map
from tests.support.cases import in_subtests
from tests.tiers import mostly_slow

from unacorda import accounting
from unacorda.bits import SeededBits
from unacorda.mechanisms.correlated.prefix_sums import BinaryTree
from unacorda.mechanisms.correlated.toeplitz import SquareRootToeplitz

Floats = NDArray[np.float64]

WRITTEN: dict[str, Any] = {"sigma": 4, "l2_sensitivity": 1}


def encoder(mechanism: SquareRootToeplitz) -> Floats:
    column = np.zeros(mechanism.steps)
    column[: mechanism.bands] = [float(c) for c in mechanism.event.encoder]  # type: ignore[arg-type]
    whole: Floats = np.asarray(linalg.toeplitz(column, np.zeros(mechanism.steps)), np.float64)
    return whole


def decoder(mechanism: SquareRootToeplitz) -> Floats:
    """A C^-1 for the prefix sums A."""
    ones = np.tril(np.ones((mechanism.steps, mechanism.steps)))
    return np.linalg.solve(encoder(mechanism).T, ones.T).T.astype(np.float64)


# ---- the law


@pytest.mark.parametrize(("steps", "bands"), [(1, 1), (9, None), (9, 1), (9, 3), (20, 4)])
def test_each_step_has_one_draw_which_counts_as_it_should(
    monkeypatch: pytest.MonkeyPatch, steps: int, bands: Any
) -> None:
    root = SquareRootToeplitz(**WRITTEN, steps=steps, bands=bands)
    unit = 2.0**root.grid.release_log2
    true = decoder(root)

    def whole() -> Any:
        return root.release(np.zeros(steps))

    def one_by_one() -> Any:
        stream = root.start()
        return [stream.add(0) for _ in range(steps)]

    for run in (whole, one_by_one):
        assert noise_map(monkeypatch, run, steps) / unit == pytest.approx(true, abs=1e-11)
    errors = root.grid.deviation * np.linalg.norm(true, axis=1)
    assert root.standard_errors() == pytest.approx(errors, rel=1e-10)
    assert root.standard_errors(1) == pytest.approx(errors[:1], rel=1e-10)


def test_what_is_encoded_is_the_exact_product(monkeypatch: pytest.MonkeyPatch) -> None:
    # Without noise the released steps are C x to the nearest, ties upwards, in fractions.
    root = SquareRootToeplitz(**WRITTEN, steps=40, bands=6)
    values = np.random.default_rng(4).integers(-(10**6), 10**6, 40)
    kept: list[Floats] = []
    monkeypatch.setattr(
        "unacorda.mechanisms.correlated.grid.gaussian_chunk",
        lambda offsets, exact, **_: np.array([float(exact(i) // 1) for i in range(offsets.size)]),
    )

    def keeping(_: Floats, noisy: Floats) -> Floats:
        kept.append(noisy)
        return noisy

    monkeypatch.setattr("unacorda.mechanisms.correlated.toeplitz.decoded", keeping)
    root.release(values)
    column: Any = root.event.encoder
    step = Fraction(2) ** root.grid.release_log2
    for t in range(40):
        true = sum(column[k] * int(values[t - k]) for k in range(min(6, t + 1)))
        assert kept[0][t, 0] == float(math.floor(true / step + Fraction(1, 2)) * step)


def noise_of(root: SquareRootToeplitz, runs: int, *, streamed: bool, seed: int) -> Floats:
    bits, rows = SeededBits(seed), []
    for _ in range(runs):
        if streamed:
            stream = root.start(bits=bits)
            rows.append(np.array([stream.add(0) for _ in range(root.steps)]))
        else:
            rows.append(root.release(np.zeros(root.steps), bits=bits))
    return np.array(rows)


def law_p(noise: Floats, covariance: Floats) -> float:
    whitened = np.linalg.solve(np.linalg.cholesky(covariance), noise.T)
    tail = stats.chi2(noise.size)
    return float(2 * min(tail.cdf((whitened**2).sum()), tail.sf((whitened**2).sum())))


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("bands", mostly_slow([None, 3]))
@pytest.mark.parametrize("streamed", [True, False])
def test_the_noise_has_its_covariance(streamed: bool, bands: Any) -> None:
    # 1000 runs of 7 steps: false alarms of 1e-7; 10% off is rejected, and independent errors of
    # the same size are.
    root = SquareRootToeplitz(**WRITTEN, steps=7, bands=bands)
    covariance = decoder(root) @ decoder(root).T * 16
    noise = noise_of(root, 1000, streamed=streamed, seed=3)
    assert law_p(noise, covariance) > 1e-7
    assert law_p(noise / 0.9, covariance) < 1e-9
    assert law_p(noise / 1.1, covariance) < 1e-9
    alone = np.random.default_rng(1).normal(size=noise.shape) * root.standard_errors()
    assert law_p(alone, covariance) < 1e-9


# ---- the price


def worst_square(c: Floats, participations: int, separation: int) -> float:
    worst = 0.0
    for many in range(1, participations + 1):
        for chosen in itertools.combinations(range(len(c)), many):
            if all(b - a >= separation for a, b in itertools.pairwise(chosen)):
                worst = max(worst, float((c[:, chosen].sum(axis=1) ** 2).sum()))
    return worst


@in_subtests("bands", [None, 1, 4])
@in_subtests(("participations", "separation"), [(1, 1), (2, 1), (3, 2), (2, 5)])
def test_the_price_is_that_of_the_worst_pattern(
    bands: Any, participations: int, separation: int
) -> None:
    # Coefficients that do not increase: the bound is met, so the price is exact.
    root = SquareRootToeplitz(
        **WRITTEN, steps=10, bands=bands, participations=participations, separation=separation
    )
    square = worst_square(encoder(root), participations, separation)
    assert float(accounting.rho(root.event)) == pytest.approx(square / 32, rel=1e-12)


def test_the_event_counts_what_the_grid_adds() -> None:
    vectors = SquareRootToeplitz(sigma=2, l2_sensitivity=1, steps=4, dimension=5, grid_log2=-3)
    assert vectors.event.noise_multiplier == Fraction(2) / (1 + Fraction(3, 8))


# ---- errors


@pytest.mark.parametrize("steps", [16, 1024, 2**16])
def test_the_largest_error_has_its_asymptotics(steps: int) -> None:
    # sigma and the sensitivity are both the norm of the first column; its square is
    # (ln n + gamma + 4 ln 2) / pi, and 1 / (8 n) or less beside it.
    root = SquareRootToeplitz(**WRITTEN, steps=steps)
    limit = (math.log(steps) + np.euler_gamma + 4 * math.log(2)) / math.pi
    square = float((root.coefficients**2).sum())
    assert square == pytest.approx(limit, abs=0.2 / steps + 1e-4)
    largest = root.standard_errors()[-1] / root.grid.deviation
    assert largest**2 == pytest.approx(limit, abs=0.2 / steps + 2e-3)
    if steps <= 1024:
        assert 32 * float(accounting.rho(root.event)) == pytest.approx(square, rel=1e-9)


@pytest.mark.long
def test_it_beats_the_tree_by_what_is_said() -> None:
    for steps, at_most in ((2**10, 0.56), (2**16, 0.52), (2**20, 0.51)):
        root = SquareRootToeplitz(**WRITTEN, steps=steps)
        tree = BinaryTree(**WRITTEN, steps=steps)
        moved = math.sqrt(float((root.coefficients**2).sum())), math.sqrt(steps.bit_length())
        for size in (np.max, lambda errors: math.sqrt(np.mean(errors**2))):
            ratio = (
                size(root.standard_errors()) * moved[0] / (size(tree.standard_errors()) * moved[1])
            )
            assert ratio < at_most


def test_errors_grow_and_more_bands_lessen_them() -> None:
    before = np.full(500, np.inf)
    for bands in (1, 4, 16, 64, 500):
        errors = SquareRootToeplitz(**WRITTEN, steps=500, bands=bands).standard_errors()
        assert np.all(np.diff(errors) >= -1e-9)
        assert np.all(errors <= before + 1e-9)
        before = errors


@pytest.mark.long
@pytest.mark.parametrize("bands", [None, 1, 7, 300])
def test_answers_are_near_the_truth(bands: Any) -> None:
    values = np.random.default_rng(1).integers(0, 100, 3000)
    root = SquareRootToeplitz(
        sigma=Fraction(1, 1000), l2_sensitivity=1, steps=3000, bands=bands, grid_log2=-20
    )
    truth = np.cumsum(values)
    assert np.abs(root.release(values) - truth).max() < 0.5
    assert root.release(values[:5]) == pytest.approx(truth[:5], abs=0.1)
    stream = root.start()
    found = [stream.add(int(value)) for value in values[:1000]]
    assert np.abs(found - truth[:1000]).max() < 0.5


def test_vectors_are_summed_number_by_number() -> None:
    values = np.random.default_rng(1).normal(size=(21, 3))
    root = SquareRootToeplitz(sigma=1e-5, l2_sensitivity=1, steps=21, dimension=3, bands=5)
    assert root.release(values) == pytest.approx(np.cumsum(values, axis=0), abs=1e-3)
    stream = root.start()
    found = np.array([stream.add(value) for value in values])
    assert found == pytest.approx(np.cumsum(values, axis=0), abs=1e-3)


def test_values_at_the_ends_do_not_overflow() -> None:
    root = SquareRootToeplitz(sigma=1, l2_sensitivity=1, steps=3000, grid_log2=0)
    found = root.release(np.full(3000, np.inf))
    assert found[:800] == pytest.approx(np.arange(1, 801) * 2.0**56, rel=1e-9)
    assert np.all(np.isfinite(found))  # what is encoded ends at 2^61 steps
    stream = root.start()
    down = [stream.add(-np.inf) for _ in range(300)]
    assert down == pytest.approx(-np.arange(1, 301) * 2.0**56, rel=1e-9)


def test_memory_is_that_of_the_bands() -> None:
    stream = SquareRootToeplitz(**WRITTEN, steps=2**40, bands=8, dimension=2).start()
    counter: Any = stream._counter
    for _ in range(100):
        stream.add([1, 2])
        held = (counter._high, counter._low, counter._estimates, counter._coefficients)
        assert [one.size for one in held] == [16, 16, 16, 16]
