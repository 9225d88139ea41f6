"""Designs on which regressions are tried: dummies, skewed, correlated and loose features."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from unacorda.inference.records import Floats

__all__ = ["DESIGNS", "Design", "logit_fit", "ols", "poisson_fit", "quantile_errors"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """Features of n people and public bounds of them; scale: that of a coefficient of size 1."""

    draw: Callable[[np.random.Generator, int], Floats]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    scale: tuple[float, ...]

    @property
    def bounds(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """As estimators take them."""
        return self.lower, self.upper

    def coefficients(self, size: float = 1.0) -> Floats:
        """An intercept and slopes of alternating signs, of this size in deviations."""
        signs = np.resize([1.0, -0.6, 0.8, -0.4], len(self.scale))
        return np.concatenate([[0.0], size * signs / np.array(self.scale)])


def _autoregressive(p: int) -> Design:
    root = np.linalg.cholesky(0.9 ** np.abs(np.subtract.outer(np.arange(p), np.arange(p))))

    def draw(rng: np.random.Generator, n: int) -> Floats:
        found: Floats = rng.normal(size=(n, p)) @ root.T
        return found

    return Design(
        draw=draw,
        lower=(-3.0,) * p,
        upper=(3.0,) * p,
        scale=(1.0,) * p,
    )


def _dummies(p: int, share: float) -> Design:
    return Design(
        draw=lambda rng, n: np.asarray(rng.random((n, p)) < share, dtype=np.float64),
        lower=(0.0,) * p,
        upper=(1.0,) * p,
        scale=(1.0,) * p,
    )


def _one_hot(rng: np.random.Generator, n: int) -> Floats:
    found = rng.choice(5, size=n, p=[0.6, 0.2, 0.1, 0.06, 0.04])
    return np.asarray(found[:, None] == np.arange(1, 5), dtype=np.float64)


def _income(rng: np.random.Generator, n: int) -> Floats:
    return np.column_stack(
        [rng.lognormal(10.3, 0.7, n), rng.uniform(18, 90, n), rng.random(n) < 0.05]
    ).astype(np.float64)


DESIGNS: dict[str, Design] = {
    "AR .9, p 4": _autoregressive(4),
    "AR .9, p 10": _autoregressive(10),
    "1 dummy 10 %": _dummies(1, 0.1),
    "3 dummies 10 %": _dummies(3, 0.1),
    "3 dummies 5 %": _dummies(3, 0.05),
    "8 dummies 10 %": _dummies(8, 0.1),
    "8 dummies 5 %": _dummies(8, 0.05),
    "one-hot": Design(draw=_one_hot, lower=(0.0,) * 4, upper=(1.0,) * 4, scale=(1.0,) * 4),
    "exponential": Design(
        draw=lambda rng, n: rng.exponential(size=(n, 3)),
        lower=(0.0,) * 3,
        upper=(5.0,) * 3,
        scale=(1.0,) * 3,
    ),
    "income, loose": Design(
        draw=_income,
        lower=(0.0, -100.0, 0.0),
        upper=(2.5e6, 500.0, 1.0),
        scale=(30_000.0, 20.0, 1.0),
    ),
    "t3": Design(
        draw=lambda rng, n: rng.standard_t(3, size=(n, 3)),
        lower=(-5.0,) * 3,
        upper=(5.0,) * 3,
        scale=(1.0,) * 3,
    ),
    "mean 50": Design(
        draw=lambda rng, n: rng.normal(50.0, 1.0, size=(n, 3)),
        lower=(-100.0,) * 3,
        upper=(100.0,) * 3,
        scale=(1.0,) * 3,
    ),
}


def ols(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Least squares with an intercept, and the sandwich's standard errors."""
    a = np.column_stack([np.ones(len(x)), x])
    inverse = np.linalg.inv(a.T @ a)
    theta = inverse @ (a.T @ y)
    scored = a * (y - a @ theta)[:, None]
    return theta, np.sqrt(np.diag(inverse @ (scored.T @ scored) @ inverse))


def _newton(
    x: Floats,
    y: Floats,
    start: float,
    mean: Callable[[Floats], Floats],
    variance: Callable[[Floats], Floats],
) -> tuple[Floats, Floats]:
    a = np.column_stack([np.ones(len(x)), x])
    middle, width = a[:, 1:].mean(axis=0), np.maximum(a[:, 1:].std(axis=0), 1e-12)
    scaled = np.column_stack([np.ones(len(x)), (x - middle) / width])
    theta = np.zeros(a.shape[1])
    theta[0] = start
    for _ in range(40):
        eta = scaled @ theta
        bent = (scaled * variance(eta)[:, None]).T @ scaled + 1e-9 * np.eye(len(theta))
        step = np.linalg.solve(bent, scaled.T @ (y - mean(eta)))
        theta += step / max(1.0, float(np.linalg.norm(step)) / 2)
    eta = scaled @ theta
    inverse = np.linalg.inv(
        (scaled * variance(eta)[:, None]).T @ scaled + 1e-9 * np.eye(len(theta))
    )
    scored = scaled * (y - mean(eta))[:, None]
    back = np.diag(np.concatenate([[1.0], 1 / width]))
    back[0, 1:] = -middle / width
    covariance = back @ inverse @ (scored.T @ scored) @ inverse @ back.T
    return back @ theta, np.sqrt(np.diag(covariance))


def logit_fit(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """The maximum likelihood fit of two classes, and the sandwich's standard errors."""
    share = float(np.clip(y.mean(), 1e-3, 1 - 1e-3))
    return _newton(x, y, math.log(share / (1 - share)), expit, lambda eta: expit(eta) * expit(-eta))


def poisson_fit(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """The maximum likelihood fit of counts, and the sandwich's standard errors."""
    start = math.log(max(float(y.mean()), 1e-3))
    return _newton(
        x,
        y,
        start,
        lambda eta: np.exp(np.minimum(eta, 30)),
        lambda eta: np.exp(np.minimum(eta, 30)),
    )


def quantile_errors(x: Floats, *, quantile: float, density: float) -> Floats:
    """Standard errors of quantile regression where the density of errors is the same for all."""
    a = np.column_stack([np.ones(len(x)), x])
    known = math.sqrt(quantile * (1 - quantile)) / density
    return np.asarray(known * np.sqrt(np.diag(np.linalg.inv(a.T @ a))))
