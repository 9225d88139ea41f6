"""Every regression with the rows that it is tried on, for suites over all of them."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from unacorda import GDP, inference
from unacorda.inference import losses
from unacorda.inference.records import Floats

__all__ = ["BOUNDS", "REGRESSIONS", "TRUTH", "Case", "parameters"]

TRUTH = np.array([0.5, 0.4, -0.3])
"""Intercept and slopes of what every case is drawn from."""

BOUNDS = {"feature_bounds": (-3, 3), "target_bounds": (-8, 10)}


def _features(n: int, drawn: np.random.Generator) -> tuple[Floats, Floats]:
    x = drawn.normal(size=(n, 2))
    return x, TRUTH[0] + x @ TRUTH[1:]


def _line(n: int, drawn: np.random.Generator) -> tuple[Floats, Floats]:
    x, at = _features(n, drawn)
    return x, at + drawn.standard_t(4, n)


def _classes(n: int, drawn: np.random.Generator) -> tuple[Floats, Floats]:
    x, at = _features(n, drawn)
    return x, (drawn.random(n) < expit(at)).astype(np.float64)


def _counts(n: int, drawn: np.random.Generator) -> tuple[Floats, Floats]:
    x, at = _features(n, drawn)
    return x, drawn.poisson(np.exp(at)).astype(np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A regression by name, with options of its own, and rows that suit it."""

    of: str
    options: dict[str, Any]
    draw: Callable[[int, np.random.Generator], tuple[Floats, Floats]] = _line
    bounds: tuple[str, ...] = ("feature_bounds", "target_bounds")

    def make(self, bits: Any = None, **options: Any) -> Any:
        """An unfitted model."""
        bounds = {name: BOUNDS[name] for name in self.bounds}
        chosen = {"budget": GDP(1), "bits": bits} | bounds | self.options | options
        return getattr(inference, self.of)(**chosen)


_FEATURES = ("feature_bounds",)

REGRESSIONS: dict[str, Case] = {
    "linear": Case(of="LinearRegression", options={}),
    "robust": Case(of="LinearRegression", options={"tuning": 3.0}),
    "ridge": Case(of="RidgeRegression", options={"penalty": 0.3}),
    "logistic": Case(of="LogisticRegression", options={}, draw=_classes, bounds=_FEATURES),
    "poisson": Case(
        of="PoissonRegression", options={"largest": 30}, draw=_counts, bounds=_FEATURES
    ),
    "median": Case(of="QuantileRegression", options={}),
    "huber": Case(of="MEstimator", options={"loss": losses.Huber(2.0)}),
    "tukey": Case(of="MEstimator", options={"loss": losses.Tukey(6.0)}),
}


def parameters(model: Any) -> Floats:
    """The intercept, then the coefficients."""
    return np.concatenate([np.ravel(model.intercept_), np.ravel(model.coef_)])
