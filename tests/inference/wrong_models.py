"""Curves of skewed features that no line fits: classes, medians and losses of residuals."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import expit
from tests.inference.designs import logit_fit

from unacorda import GDP, inference
from unacorda.inference.losses import Check, LogCosh, Loss
from unacorda.inference.records import Floats

FEATURES: dict[str, tuple[Callable[[np.random.Generator, int], Floats], Any]] = {
    "lognormal": (
        lambda drawn, n: np.column_stack([drawn.lognormal(0, 0.8, n), drawn.normal(size=n)]),
        ([0, -4], [20, 4]),
    ),
    "t3": (lambda drawn, n: drawn.standard_t(3, size=(n, 2)), (-10, 10)),
    "exponential, dummy": (
        lambda drawn, n: np.column_stack([drawn.exponential(size=n), drawn.random(n) < 0.1]).astype(
            np.float64
        ),
        ([0, 0], [10, 1]),
    ),
}
CURVES: dict[str, Callable[[Floats], Floats]] = {
    "line": lambda eta: eta,
    "square": lambda eta: eta + 0.3 * eta**2,
    "saturating": lambda eta: 3 * np.tanh(eta),
}
CHANCES: dict[str, Callable[[Floats], Floats]] = {
    "line": expit,
    "square": lambda eta: expit(eta + 0.5 * eta**2 - 1),
    "saturating": lambda eta: np.where(eta > 0, 0.8, 0.2),
}
LOSSES: dict[str, Loss] = {"median": Check(0.5, bandwidth=0.05), "loss": LogCosh(1.0)}


def least(loss: Loss, x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """The fit of the least mean loss, the intercept first, and the sandwich's standard errors."""
    middle, spread = x.mean(axis=0), x.std(axis=0)
    rows = np.column_stack([np.ones(len(x)), (x - middle) / spread])
    theta = np.linalg.lstsq(rows, y, rcond=None)[0]
    for _ in range(200):
        eta = rows @ theta
        bent = (rows * (loss.curvature(eta, y) + 0.05)[:, None]).T @ rows
        step = np.linalg.solve(bent, rows.T @ loss.score(eta, y))
        theta = theta - step / max(1.0, 2 * float(np.linalg.norm(step)))
    eta = rows @ theta
    inverse = np.linalg.inv((rows * loss.curvature(eta, y)[:, None]).T @ rows)
    scored = rows * loss.score(eta, y)[:, None]
    back = np.diag(np.append(1.0, 1 / spread))
    back[0, 1:] = -middle / spread
    covariance = back @ inverse @ (scored.T @ scored) @ inverse @ back.T
    return np.asarray(back @ theta), np.sqrt(np.diag(covariance))


def fit_without_privacy(kind: str, x: Floats, y: Floats) -> tuple[Floats, Floats]:
    return logit_fit(x, y) if kind == "classes" else least(LOSSES[kind], x, y)


@lru_cache
def truth(kind: str, features: str, curve: str) -> tuple[Floats, Floats, Floats]:
    """Of 200,000 people the middle and the spread of features, and the fit."""
    drawn = np.random.default_rng(9)
    x = FEATURES[features][0](drawn, 200_000)
    middle, spread = x.mean(axis=0), x.std(axis=0)
    y = targets(kind, curve, (x - middle) / spread, drawn)
    return middle, spread, fit_without_privacy(kind, x, y)[0]


def targets(kind: str, curve: str, x: Floats, drawn: np.random.Generator) -> Floats:
    """Classes or numbers of people whose features have mean 0 and deviation 1."""
    eta = 0.8 * x.sum(axis=1)
    if kind == "classes":
        return (drawn.random(len(x)) < CHANCES[curve](eta - 0.3)).astype(np.float64)
    return CURVES[curve](eta) + drawn.normal(size=len(x))


def wrong_model(kind: str, features: str, **more: Any) -> Any:
    """A private regression of a kind at GDP(1), with the bounds of its features."""
    options: dict[str, Any] = {"budget": GDP(1), "feature_bounds": FEATURES[features][1], **more}
    if kind == "classes":
        return inference.LogisticRegression(**options)
    if kind == "median":
        return inference.QuantileRegression(target_bounds=(-20, 20), **options)
    return inference.MEstimator(loss=LOSSES[kind], target_bounds=(-20, 20), **options)
