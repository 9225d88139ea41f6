"""Losses: derivatives against differences in high precision, constants that are the least."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from tests.support.cases import in_subtests

from unacorda.errors import InvalidParameter
from unacorda.inference.losses import (
    Check,
    Huber,
    LogCosh,
    Logistic,
    Loss,
    Poisson,
    SmoothedHuber,
    Tukey,
)

SMOOTH: list[tuple[Any, float, Callable[..., object]]] = [
    (SmoothedHuber(1.5), 0.0, lambda t: 2.25 * (mpmath.sqrt(1 + (t / 1.5) ** 2) - 1)),
    (LogCosh(0.7), 0.0, lambda t: mpmath.mpf("0.49") * mpmath.log(mpmath.cosh(t / 0.7))),
    (Logistic(), 1.0, lambda t: mpmath.log(1 + mpmath.exp(t)) - t),
    (Logistic(), 0.0, lambda t: mpmath.log(1 + mpmath.exp(t))),
    (Poisson(1e9), 3.0, lambda t: mpmath.exp(t) - 3 * t),
    (Huber(1.3), 0.0, lambda t: t * t / 2 if abs(t) <= 1.3 else 1.3 * abs(t)),
    (Tukey(3.5), 0.0, lambda t: 3.5**2 * (1 - max(1 - (t / 3.5) ** 2, 0) ** 3) / 6),
]


@pytest.mark.parametrize(("loss", "target", "truth"), SMOOTH, ids=range(len(SMOOTH)))
def test_scores_and_curvatures_are_derivatives_of_the_formula(
    loss: Any, target: float, truth: Callable[..., object]
) -> None:
    for t in (-3.0, -0.4, 0.0, 0.9, 4.0):
        at, y = np.array([t]), np.array([target])
        given = [loss.score(at, y)[0], loss.curvature(at, y)[0]]
        with mpmath.workdps(40):
            expected = [float(mpmath.diff(truth, t, k, h=mpmath.mpf(10) ** -8)) for k in (1, 2)]
        np.testing.assert_allclose(given, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    "loss",
    [Huber(1.3), Tukey(4.0), Poisson(5.0), Check(0.3, bandwidth=0.5)],
    ids=str,
)
def test_curvatures_are_slopes_of_scores(loss: Any) -> None:
    t = np.linspace(-9, 9, 200_001)
    target = np.full_like(t, 1.0)
    step = t[1] - t[0]
    score = loss.score(t, target)
    rate, curvature = np.diff(score) / step, loss.curvature(t, target)
    away = np.abs(np.diff(curvature)) < 0.5
    np.testing.assert_allclose(rate[away], curvature[1:][away], atol=1e-3)


def test_the_score_of_a_smoothed_check_is_the_mean_of_that_of_the_check_over_its_kernel() -> None:
    wide = 0.8 * mpmath.sqrt(7)  # the kernel's deviation is then 0.8

    def kernel(s: object) -> object:
        return mpmath.mpf(15) / 16 * (1 - (s / wide) ** 2) ** 2 / wide

    assert mpmath.quad(lambda s: s * s * kernel(s), [-wide, wide]) == pytest.approx(0.64)
    for t in (-3.0, -1.5, 0.0, 0.4, 2.0, 5.0):
        truth = mpmath.quad(kernel, [-wide, max(-wide, min(wide, t))]) - 0.3
        given = Check(0.3, bandwidth=0.8).score(np.array(t), np.array(0.0))
        assert float(given) == pytest.approx(float(truth), rel=1e-9)


ALL: list[Loss] = [
    Huber(1.3),
    SmoothedHuber(2.0),
    LogCosh(0.5),
    Tukey(4.685),
    Logistic(),
    Poisson(7.0),
    Check(0.2, bandwidth=0.1),
]


@pytest.mark.parametrize("loss", ALL, ids=str)
def test_bounds_hold_everywhere_and_are_reached(loss: Loss) -> None:
    line = np.concatenate([np.linspace(-12, 12, 48_001), [-1e308, -1e30, 1e30, 1e308]])
    prediction, target = np.meshgrid(line, np.array([-1e308, -3.0, 0.0, 1.0, 6.9, 7.0, 1e308]))
    with np.errstate(over="ignore"):
        score = loss.score(prediction, target)
        curvature = loss.curvature(prediction, target)
    assert np.abs(score).max() <= loss.score_bound
    assert curvature.max() <= loss.curvature_bound
    assert np.abs(score).max() >= loss.score_bound * (1 - 1e-4)
    assert curvature.max() >= loss.curvature_bound * (1 - 1e-3)


def test_tukey_bends_down_to_minus_four_fifths() -> None:
    r = np.linspace(-5, 5, 100_001)
    assert Tukey(4.0).curvature(np.zeros_like(r), r).min() == pytest.approx(-0.8, abs=1e-6)


@in_subtests("wrong", [0.0, -1.0, math.inf, math.nan])
@in_subtests("kind", [Huber, SmoothedHuber, LogCosh, Tukey, Poisson])
def test_constants_that_cannot_be_are_refused(kind: Callable[[float], Loss], wrong: float) -> None:
    with pytest.raises(InvalidParameter, match="finite number above 0"):
        kind(wrong)
    with pytest.raises(InvalidParameter, match=r"^tau="):
        Check(wrong, bandwidth=1)
