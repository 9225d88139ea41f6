"""Estimates: errors add in squares, intervals cover as often as they say."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import pytest

from unacorda.errors import InvalidParameter
from unacorda.privacy.estimates import Estimate, Interval


def test_errors_add_in_squares() -> None:
    assert Estimate(value=1, sampling_error=5, privacy_error=12).standard_error == 13


def test_normal_interval() -> None:
    interval = Estimate(value=10, sampling_error=3, privacy_error=4).interval(0.95)
    assert interval == pytest.approx((10 - 9.7998199, 10 + 9.7998199))
    assert isinstance(interval, Interval)
    assert interval.width == pytest.approx(19.5996398)


def test_laplace_interval_is_exact_without_sampling() -> None:
    scale = 2.0
    estimate = Estimate(
        value=0, sampling_error=0, privacy_error=scale * math.sqrt(2), noise="laplace"
    )
    assert estimate.interval(0.95).upper == pytest.approx(scale * math.log(20))


@pytest.mark.statistical
@pytest.mark.parametrize("noise", ["normal", "laplace"])
@pytest.mark.parametrize("ratio", [0.05, 1.0, 50.0])
def test_coverage(noise: Literal["normal", "laplace"], ratio: float) -> None:
    generator = np.random.default_rng(5)
    count, confidence = 400_000, 0.95
    sampling = generator.normal(scale=ratio, size=count)
    if noise == "normal":
        private = generator.normal(scale=1.0, size=count)
    else:
        private = generator.laplace(scale=1 / math.sqrt(2), size=count)
    half = (
        Estimate(value=0, sampling_error=ratio, privacy_error=1.0, noise=noise)
        .interval(confidence)
        .upper
    )
    covered = int(np.count_nonzero(np.abs(sampling + private) <= half))
    deviation = math.sqrt(count * confidence * (1 - confidence))
    assert abs(covered - count * confidence) < 5.5 * deviation  # false alarm below 4e-8
    shorter = int(np.count_nonzero(np.abs(sampling + private) <= half * 0.97))
    assert abs(shorter - count * confidence) > 5.5 * deviation


def test_no_error_no_width() -> None:
    estimate = Estimate(value=3, sampling_error=0, privacy_error=0, noise="laplace")
    assert estimate.interval(0.99) == (3, 3)


@pytest.mark.parametrize(
    "fields",
    [
        {"value": math.nan, "sampling_error": 0.0, "privacy_error": 0.0},
        {"value": 0.0, "sampling_error": -1.0, "privacy_error": 0.0},
        {"value": 0.0, "sampling_error": 0.0, "privacy_error": math.inf},
    ],
)
def test_refuses_wrong_numbers(fields: dict[str, float]) -> None:
    with pytest.raises(InvalidParameter):
        Estimate(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("confidence", [0.0, 1.0, 95.0, math.nan])
def test_refuses_a_confidence_that_is_no_probability(confidence: float) -> None:
    with pytest.raises(InvalidParameter, match="confidence"):
        Estimate(value=0, sampling_error=1, privacy_error=1).interval(confidence)
