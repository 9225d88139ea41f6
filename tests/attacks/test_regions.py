"""What runs rule out: true error rates are held as often as is said, and a lie is refuted."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr, ndtri
from scipy.stats import binom

from unacorda import GDP
from unacorda.attacks import ErrorRegion, error_region
from unacorda.errors import InvalidParameter
from unacorda.privacy.tradeoff import TradeoffCurve

MU = 1.0


def region(seed: int, runs: int = 600, confidence: float = 0.9) -> ErrorRegion:
    drawn = np.random.default_rng(seed)
    kind = np.arange(runs) % 2 == 1
    return error_region(MU * kind + drawn.normal(size=runs), kind, confidence=confidence)


@pytest.mark.long
@pytest.mark.statistical
def test_the_curve_of_the_truth_passes_all_pairs_as_often_as_is_said() -> None:
    """Of a shift of normal noise the best miss rate is known; it is above no pair."""
    rounds, failed = 2_000, 0
    for seed in range(rounds):
        found = region(seed, runs=120)
        best = ndtr(-ndtri(found.false_alarms) - MU)
        failed += bool((best > found.misses).any())
    # At most one in ten: more than this happens once in a million.
    assert failed <= binom.isf(1e-6, rounds, 0.1)


@pytest.mark.statistical
def test_a_lie_is_refuted_and_the_truth_is_not() -> None:
    found = region(1, runs=20_000)
    assert not found.refutes(TradeoffCurve.of_guarantee(GDP(MU)))
    assert found.refutes(TradeoffCurve.of_guarantee(GDP(0.8 * MU)))
    assert (np.diff(found.false_alarms) >= 0).all()
    assert (np.diff(found.misses) <= 0).all()


def test_one_threshold_is_clopper_and_pearson_on_the_other_half() -> None:
    scores, kind = np.tile([0.0, 0.0, 1.0, 1.0], 20), np.tile([False, False, True, True], 20)
    found = error_region(scores, kind, confidence=0.9, tests=1)
    # 20 runs of each kind are counted, without an error: 1 - x^(1/20) at x = 0.1 / 2.
    assert found.misses[0] == pytest.approx(1 - 0.05 ** (1 / 20), rel=1e-6)
    assert found.false_alarms[0] in (1.0, pytest.approx(found.misses[0]))
    assert repr(found) == "ErrorRegion(1 test, confidence=0.9)"


@pytest.mark.parametrize(
    ("scores", "included", "options", "named"),
    [
        ([1.0, math.nan] * 20, [0, 1] * 20, {}, "scores"),
        ([1.0] * 40, [1] * 40, {}, "included"),
        ([1.0] * 10, [0, 1] * 5, {}, "included"),
        ([1.0] * 40, [0, 1] * 20, {"confidence": 1.0}, "confidence"),
        ([1.0] * 40, [0, 1] * 20, {"tests": 0}, "tests"),
        ([1.0] * 40, [0, 1] * 20, {"tests": 10_000}, "tests"),
    ],
)
def test_what_cannot_be_used_is_named(
    scores: list[float], included: list[int], options: dict[str, float], named: str
) -> None:
    with pytest.raises(InvalidParameter, match=named):
        error_region(scores, included, **options)  # type: ignore[arg-type]
