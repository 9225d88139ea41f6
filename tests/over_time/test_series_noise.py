"""The noise of steps: its law, its grid, and estimates that never change."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from unacorda import SeededBits
from unacorda.over_time.bounds import OverTime, Wanted, window
from unacorda.over_time.encoders import Encoder, choose_encoder
from unacorda.over_time.noise import SeriesNoise
from unacorda.over_time.sensitivity import squared_sensitivity

KINDS: tuple[Wanted, ...] = ("steps", "totals", window(3))


def stream(noise: SeriesNoise, values: np.ndarray, bits: SeededBits) -> list[list[int]]:
    exact = values.tolist()
    return [
        noise.release([exact[at] for at in range(step, -1, -1)], bits=bits)
        for step in range(len(exact))
    ]


@pytest.mark.parametrize(
    ("bands", "runs", "near"),
    [
        (3, 4_000, 0.07),
        pytest.param(1, 100_000, 0.02, marks=pytest.mark.slow),
        pytest.param(8, 100_000, 0.02, marks=pytest.mark.slow),
    ],
)
def test_estimates_have_the_stated_mean_and_covariance(bands: int, runs: int, near: float) -> None:
    noise = SeriesNoise(encoder=Encoder.of_power(Fraction(2, 5), bands), sigma=Fraction(7, 2))
    truth = np.array([5, 0, 0, 17, 3, 1, 0, 9])
    values = np.repeat(truth[:, None], runs, axis=1)
    released = stream(noise, values, SeededBits(5))
    found = noise.estimates(released, "steps") - values
    sizes = noise.standard_errors("steps", 8)
    # A mean is beyond 5.5 of its deviations in one of 26 million runs.
    assert np.all(np.abs(found.mean(axis=1)) < 5.5 * sizes / math.sqrt(runs))
    decoder = np.linalg.inv(_matrix(noise.encoder, 8))
    expected = noise.deviation**2 * decoder @ decoder.T
    assert np.allclose(np.cov(found), expected, atol=1.5 * near * noise.deviation**2)
    for kind in KINDS:
        deviations = noise.estimates(released, kind).std(axis=1)
        stated = noise.standard_errors(kind, 8)
        # A deviation is off by `near` of itself in one of a hundred million runs.
        assert np.allclose(deviations, stated, rtol=near)
        assert not np.allclose(deviations, (1 + 2.5 * near) * stated, rtol=near)


def _matrix(encoder: Encoder, steps: int) -> np.ndarray:
    return np.asarray(
        sum(c * np.eye(steps, k=-at) for at, c in enumerate(encoder.coefficients[:steps]))
    )


@pytest.mark.parametrize(
    ("kind", "stated"), [("totals", 21.2), (window(28), 15.0)], ids=["totals", "windows"]
)
def test_a_year_errs_as_it_is_said(kind: Wanted, stated: float) -> None:
    person = OverTime(max_steps=10)
    encoder = choose_encoder(person, (kind,), steps=365)
    square = squared_sensitivity(encoder.column, person, steps=365, replaced=False, signed=False)
    noise = SeriesNoise(encoder=encoder, sigma=Fraction(math.sqrt(square)))  # rho 1/2
    values = np.zeros((365, 60), np.int64)
    found = noise.estimates(stream(noise, values, SeededBits(8)), kind)
    assert math.sqrt(np.mean(found**2)) == pytest.approx(stated, rel=0.05)


def test_no_noise_gives_the_sums_back() -> None:
    noise = SeriesNoise(encoder=Encoder.of_power(Fraction(1, 2), 6), sigma=Fraction(1, 2**30))
    values = np.array([[1, -5], [2, 0], [0, 7], [4, 4], [0, 0], [10**6, -(10**6)]])
    found = stream(noise, values, SeededBits(3))
    assert np.allclose(noise.estimates(found, "steps"), values, atol=1e-6)
    assert np.allclose(noise.estimates(found, "totals"), values.cumsum(axis=0), atol=1e-6)
    width = values.cumsum(axis=0)
    width[3:] -= values.cumsum(axis=0)[:-3]
    assert np.allclose(noise.estimates(found, window(3)), width, atol=1e-6)


def test_integers_beyond_64_bits_stay_exact() -> None:
    noise = SeriesNoise(encoder=Encoder.of_power(Fraction(1, 2), 3), sigma=Fraction(1, 2**20))
    large = 3 * 10**30
    first = noise.release([[large]], bits=SeededBits(1))[0]
    second = noise.release([[large + 1]], bits=SeededBits(1))[0]
    assert second - first == 2**-noise.grid_log2


def test_earlier_estimates_never_change() -> None:
    noise = SeriesNoise(encoder=Encoder.of_power(Fraction(2, 5), 20), sigma=Fraction(3))
    released = stream(noise, np.arange(20).reshape(20, 1), SeededBits(4))
    for kind in KINDS:
        whole = noise.estimates(released, kind)
        for count in (1, 7, 19):
            assert np.array_equal(noise.estimates(released[:count], kind), whole[:count])


def test_a_step_reads_no_more_than_its_bands() -> None:
    noise = SeriesNoise(encoder=Encoder.of_power(Fraction(2, 5), 2), sigma=Fraction(3))
    near, far = [[4], [5], [6]], [[4], [5], [10**9]]
    one, other = (noise.release(history, bits=SeededBits(2)) for history in (near, far))
    assert one == other


def test_the_grid_follows_from_the_noise_alone() -> None:
    for sigma in (Fraction(1, 3), Fraction(2), Fraction(10**9)):
        noise = SeriesNoise(encoder=Encoder.of_power(Fraction(0), 1), sigma=sigma)
        assert 2**20 <= sigma / Fraction(2) ** noise.grid_log2 < 2**21
        assert noise.deviation == pytest.approx(float(sigma), rel=1e-9)
