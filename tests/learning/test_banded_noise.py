"""Noise correlated over steps: its price, its law, its bits against 1000 digits, planted faults."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from tests.learning.training_normals import DIGITS, KEY, SCALE, ambiguous, normals, rounded

from unacorda import ApproxDP, accounting
from unacorda.errors import InvalidParameter
from unacorda.learning.noise import correlated
from unacorda.learning.noise.banded import Banded
from unacorda.learning.noise.comparison import compare_bands
from unacorda.learning.noise.correlated import CorrelatedNoise
from unacorda.learning.noise.gaussian import add_gaussian_to_array
from unacorda.privacy import events

Floats = NDArray[np.float64]


def released(bands: int, steps: int, size: int) -> Floats:
    """The noise of each step alone, a row for each."""
    noise = CorrelatedNoise(Banded(bands=bands), scale=SCALE, key=KEY, steps=steps)
    rows = np.zeros((steps, size))
    for step, row in enumerate(rows):
        noise.add([row], attempt=0, step=step)
    return rows


# ---- the price


@pytest.mark.long
@pytest.mark.parametrize(
    ("epsilon", "batch_size", "errors"),
    [
        (1, 600, [1, 0.99, 1.02, 1.06, 1.12, 1.21]),
        (3, 600, [1, 0.88, 0.81, 0.79, 0.79, 0.82]),
        (8, 600, [1, 0.83, 0.71, 0.63, 0.58, 0.56]),
        (8, 6000, [1, 0.92, 0.89, 0.86]),
    ],
)
def test_predicted_errors_of_60_000_units_in_8_epochs(
    epsilon: float, batch_size: int, errors: list[float]
) -> None:
    steps = 8 * 60_000 // batch_size
    table = compare_bands(ApproxDP(epsilon, 1e-6), rate=batch_size / 60_000, steps=steps)
    assert [choice.bands for choice in table] == [1, 2, 4, 8, 16, 32][: len(errors)]
    assert [round(choice.error, 2) for choice in table] == errors


def test_one_band_is_priced_as_independent_noise() -> None:
    plain = events.Gaussian(noise_multiplier=1.3).poisson_sampled(rate=0.01) * 200
    alone = Banded(bands=1).event(1.3, rate=0.01, steps=200)
    one, other = (accounting.epsilon(event, delta=1e-6) for event in (plain, alone))
    assert one == pytest.approx(other, rel=1e-9)


def test_prefix_errors_are_those_of_the_inverse_matrix() -> None:
    for bands in (1, 3, 8):
        noise = Banded(bands=bands)
        first = np.zeros(20)
        first[:bands] = noise.coefficients
        matrix = np.array([[first[i - j] if i >= j else 0 for j in range(20)] for i in range(20)])
        sums = np.tril(np.ones((20, 20))) @ np.linalg.inv(matrix)
        expected = np.sqrt((sums**2).sum(axis=1).mean())
        assert noise.prefix_error(20) == pytest.approx(expected, rel=1e-12)


# ---- the law


def whitened(rows: Floats, bands: int) -> Floats:
    """C times the noise, over the scale: independent standard normals."""
    first = Banded(bands=bands).coefficients
    found = np.zeros_like(rows)
    for age, weight in enumerate(first):
        found[age:] += weight * rows[: len(rows) - age]
    return found / SCALE


def largest_deviation(white: Floats) -> float:
    """The largest deviation of the covariance of steps from 1 and 0, in standard errors."""
    steps, size = white.shape
    covariance = white @ white.T / size - np.eye(steps)
    errors = np.sqrt((1 + np.eye(steps)) / size)
    return float(np.abs(covariance / errors).max())


@pytest.mark.parametrize("bands", [1, 2, 5])
def test_the_noise_of_steps_is_that_of_the_matrix_mechanism(bands: int) -> None:
    rows = released(bands, 9, 40_000)
    # 45 entries beyond 6.5 standard errors: false alarm 4e-9.
    assert largest_deviation(whitened(rows, bands)) < 6.5
    assert largest_deviation(whitened(rows, bands + 1)) > 20  # and another matrix is found


def test_one_band_is_independent_noise_bit_for_bit() -> None:
    for step, row in enumerate(released(1, 3, 40_001)):
        alone = np.zeros(row.size)
        add_gaussian_to_array(alone, scale=SCALE, key=KEY, labels=(0, step, 0))
        assert (row == alone).all()


# ---- bits against 1000 digits


def last_row(bands: int, steps: int, size: int) -> list[Any]:
    """The last row of C^-1 N with 1000 digits."""
    with mpmath.workdps(DIGITS):
        first = [mpmath.mpf(c) for c in Banded(bands=bands).coefficients.tolist()]
        rows: list[list[Any]] = []
        for step in range(steps):
            row = normals(KEY, (0, step, 0), size)
            for age in range(1, min(bands, step + 1)):
                row = [z - first[age] * w for z, w in zip(row, rows[-age], strict=True)]
            rows.append(row)
    return rows[-1]


def wrong(bands: int, steps: int, size: int) -> int:
    """How many numbers nearest to a middle differ from their rounding with 1000 digits."""
    found = last_row(bands, steps, size)
    sums = ambiguous(found)
    noise = CorrelatedNoise(Banded(bands=bands), scale=SCALE, key=KEY, steps=steps)
    for step in range(steps - 1):
        noise.advance([size], attempt=0, step=step)
    given = sums.copy()
    noise.add([given], attempt=0, step=steps - 1)
    return int((given != rounded(sums, found)).sum())


@pytest.mark.parametrize(("bands", "steps"), [(1, 3), (2, 1), (2, 7), (4, 12), (8, 5)])
def test_forced_ambiguous_cases_are_rounded_as_with_1000_digits(bands: int, steps: int) -> None:
    assert wrong(bands, steps, 21) == 0


@pytest.mark.long
def test_a_zone_that_is_too_small_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(correlated, "_NORMAL", 0.0)
    monkeypatch.setattr(correlated, "_ABSOLUTE", 0.0)
    monkeypatch.setattr(correlated, "_UNIT", 0.0)
    assert wrong(4, 12, 51) > 0


@pytest.mark.long
def test_usual_cases_are_rounded_as_with_1000_digits() -> None:
    found = last_row(4, 9, 50)
    assert released(4, 9, 50)[-1].tolist() == rounded(np.zeros(50), found).tolist()


# ---- steps


def test_a_step_that_is_skipped_leaves_the_others_as_they_are() -> None:
    noise = CorrelatedNoise(Banded(bands=3), scale=SCALE, key=KEY, steps=6)
    plain = released(3, 6, 100)
    for step in range(6):
        row = np.zeros(100)
        if step in {1, 4}:
            noise.advance([100], attempt=0, step=step)
        else:
            noise.add([row], attempt=0, step=step)
            assert (row == plain[step]).all()


def test_a_step_is_never_drawn_twice_nor_beyond_the_plan() -> None:
    noise = CorrelatedNoise(Banded(bands=2), scale=SCALE, key=KEY, steps=2)
    noise.add([np.zeros(3)], attempt=0, step=0)
    with pytest.raises(InvalidParameter, match="step"):
        noise.add([np.zeros(3)], attempt=0, step=0)
    noise.add([np.zeros(3)], attempt=1, step=0)
    with pytest.raises(InvalidParameter, match="2 steps"):
        noise.add([np.zeros(3)], attempt=1, step=1)


@pytest.mark.parametrize("bands", [0, -1, 2000, 1.5])
def test_bands_are_a_positive_whole_number(bands: Any) -> None:
    with pytest.raises(InvalidParameter, match="bands"):
        Banded(bands=bands)


@pytest.mark.parametrize("rate", [0.0, 1.5, -0.1])
def test_a_rate_is_a_share(rate: float) -> None:
    with pytest.raises(InvalidParameter, match="rate"):
        compare_bands(ApproxDP(1, 1e-6), rate=rate, steps=10)
