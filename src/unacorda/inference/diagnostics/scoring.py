"""Scores of a fit by rows that judge it, as sums of bounded vectors of rows.

A scoring gives a vector of each row, and noisy sums of the vectors give the score: a mean of losses
in [0, 1], the score table for the area, or the sums of R^2.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from unacorda import checks
from unacorda.bits import RandomBits
from unacorda.errors import InvalidParameter, MissingBound
from unacorda.inference.diagnostics.cells import CLEAR
from unacorda.inference.diagnostics.classification import score_bins, score_edges
from unacorda.inference.diagnostics.scores import area
from unacorda.inference.records import Floats, public_pair
from unacorda.inference.sums import ROOT_TWO, NoisySums
from unacorda.privacy.guarantees import GDP
from unacorda.privacy.rounding import root_up

ScoringChoice: TypeAlias = (
    Literal["accuracy", "absolute_error", "auc", "log_loss", "brier", "r2"]
    | Callable[[Any, Any], Any]
    | None
)
"""The name of a score, or a loss of predictions and targets for each row; None: the default."""

_BINS: Final = 32
_LOG_LOSS: Final = 5.0
"""The log loss of a row that counts as the worst, if no bound is given: a probability of 0.7 %."""


class Scoring(ABC):
    """A score of which larger is better, from noisy means of vectors of rows.

    size: the length of a row's vector; row_bound: the bound of its l2 norm; sensitivity: of the sum
    to a replaced row; worst: the worst possible values of a row.
    """

    size: int
    row_bound: Fraction
    sensitivity: Fraction
    worst: tuple[float, ...]

    @abstractmethod
    def of_rows(self, fitted: Any, x: Floats, target: NDArray[Any]) -> Floats:
        """What is kept of each row, shape (n, w)."""

    def quietly(self, fitted: Any, x: Floats, target: NDArray[Any]) -> Floats:
        """What is kept of each row; the worst of all where the fit has failed, or fails at them."""
        try:
            return self.of_rows(fitted, x, target)
        except Exception:  # noqa: BLE001  # whatever it is, it may depend on the rows
            return np.tile(np.array(self.worst), (len(target), 1))

    def part(self, kept: Floats) -> Floats:
        """The sum of the vectors of rows."""
        return np.asarray(kept.sum(axis=0))

    @abstractmethod
    def score(self, means: Floats, *, noise: float) -> tuple[float, float]:
        """The score and the deviation that the noise of each mean gives it."""


@dataclass(frozen=True, slots=True)
class _MeanLoss(Scoring):
    """Minus a mean loss, each loss clipped to [0, bound]; NaN counts as the bound."""

    loss: Callable[[Any, Floats, NDArray[Any]], Any]
    bound: float
    best: float = 0.0

    size = 1
    row_bound = sensitivity = Fraction(1)
    worst = (1.0,)

    def of_rows(self, fitted: Any, x: Floats, target: NDArray[Any]) -> Floats:
        with np.errstate(all="ignore"):
            losses = np.asarray(self.loss(fitted, x, target), dtype=np.float64)
            if losses.shape != target.shape:
                expected = f"one loss of each of {len(target)} rows"
                raise InvalidParameter("scoring", losses.shape, expected=expected)
            shares = np.nan_to_num(losses / self.bound, nan=1.0)
        return np.clip(shares, 0.0, 1.0)[:, None]

    def score(self, means: Floats, *, noise: float) -> tuple[float, float]:
        return self.best - self.bound * float(means[0]), self.bound * noise


@dataclass(frozen=True, slots=True)
class _Area(Scoring):
    """The area under the ROC curve of a classifier of two classes, from a table of its scores."""

    size = 2 * _BINS
    row_bound = Fraction(1)
    sensitivity = ROOT_TWO
    worst = (-1.0,)

    def of_rows(self, fitted: Any, x: Floats, target: NDArray[Any]) -> Floats:
        scores, codes = _probabilities(fitted, x, target)
        if scores.shape[1] != 2:
            raise InvalidParameter("scoring", "auc", expected="a classifier of two classes")
        places = score_bins(scores[:, 1], score_edges(_BINS)) + codes * _BINS
        known = ~np.isnan(scores[:, 1]) & (codes >= 0)
        return np.where(known, places, -1.0)[:, None]

    def part(self, kept: Floats) -> Floats:
        places = kept[kept >= 0].astype(np.int64)
        return np.bincount(places, minlength=self.size).astype(np.float64)

    def score(self, means: Floats, *, noise: float) -> tuple[float, float]:
        negatives, positives = means.reshape(2, _BINS)
        if min(positives.sum(), negatives.sum()) < CLEAR * noise * math.sqrt(_BINS):
            return 0.0, math.inf
        found, slopes = area(positives, negatives)
        return found, noise * math.sqrt(float(slopes @ slopes))


@dataclass(frozen=True, slots=True)
class _ExplainedVariance(Scoring):
    """R^2, from the sums of u^2, v and v^2: residuals and targets in units of their bounds."""

    residual_bound: float
    target_bounds: tuple[float, float]

    size = 3
    row_bound = Fraction(root_up(Fraction(3)))
    sensitivity = Fraction(root_up(Fraction(5)))
    worst = (1.0, 0.0, 0.0)

    def of_rows(self, fitted: Any, x: Floats, target: NDArray[Any]) -> Floats:
        low, high = self.target_bounds
        with np.errstate(all="ignore"):
            u = np.nan_to_num((target - _predicted(fitted, x, target)) / self.residual_bound, nan=1)
            v = np.nan_to_num((target - low) / (high - low) * 2 - 1, nan=0.0)
        u, v = np.clip(u, -1.0, 1.0), np.clip(v, -1.0, 1.0)
        return np.column_stack([u * u, v, v * v])

    def score(self, means: Floats, *, noise: float) -> tuple[float, float]:
        low, high = self.target_bounds
        unit = (2 * self.residual_bound / (high - low)) ** 2
        errors, mean, square = (float(one) for one in means)
        variance = square - mean**2
        slope = noise * math.sqrt(1 + 4 * mean**2)
        if variance < CLEAR * slope:
            return -math.inf, math.inf
        ratio = unit * errors / variance
        return 1 - ratio, math.hypot(unit * noise, ratio * slope) / variance


def noisy_score(
    scoring: Scoring, kept: Floats, *, budget: GDP, bits: RandomBits
) -> tuple[float, float]:
    """The score by rows, of which `kept` holds what is kept, and the deviation of its noise."""
    sums = NoisySums(rows=len(kept), budget=budget, bits=bits)
    means, noise = sums.mean(
        lambda rows: scoring.part(kept[rows]),
        size=scoring.size,
        row_bound=scoring.row_bound,
        sensitivity=scoring.sensitivity,
        share=Fraction(1),
    )
    return scoring.score(means, noise=noise)


def scoring_of(
    choice: ScoringChoice, estimator: Any, *, classifier: bool, bound: float | None
) -> Scoring:
    """The scoring by its name, or by an own loss, for a classifier or a regression.

    bound: public, the size of a loss or an error that counts as the worst. Raises InvalidParameter
    for a name that does not suit the estimator, and MissingBound.
    """
    regressions, classifiers = ("absolute_error", "r2"), ("accuracy", "auc", "log_loss", "brier")
    names: tuple[str, ...] = classifiers if classifier else regressions
    name = names[0] if choice is None else choice
    if not callable(name) and name not in names:
        expected = f"one of {', '.join(map(repr, names))}, or a loss of predictions and targets"
        raise InvalidParameter("scoring", choice, expected=expected)
    if name in ("auc", "log_loss", "brier") and not hasattr(estimator, "predict_proba"):
        raise InvalidParameter("scoring", choice, expected="'accuracy': it has no predict_proba")
    size = None if bound is None else checks.positive(error_bound=bound)
    if name == "auc":
        return _Area()
    if name == "log_loss":
        return _MeanLoss(_log_loss, _LOG_LOSS if size is None else size)
    if name in ("accuracy", "brier"):
        wrong = name == "accuracy"
        return _MeanLoss(_wrong if wrong else _brier, 1.0, best=1.0 if wrong else 0.0)
    if size is None:
        raise MissingBound(
            "error_bound", expected="a public bound on errors; larger ones are clipped to it"
        )
    if name == "r2":
        return _ExplainedVariance(size, _target_bounds(estimator))
    own: Any = name if callable(name) else lambda predicted, target: np.abs(predicted - target)
    return _MeanLoss(lambda fitted, x, y: own(_predicted(fitted, x, y), y), size)


def _target_bounds(estimator: Any) -> tuple[float, float]:
    """The public bounds of the target that the estimator is given; else MissingBound."""
    given = [
        value
        for name, value in estimator.get_params(deep=True).items()
        if name.split("__")[-1] == "target_bounds" and value is not None
    ]
    return public_pair("target_bounds", given[0] if given else None, of="y")


def _predicted(fitted: Any, x: Floats, target: NDArray[Any]) -> NDArray[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        predicted = np.asarray(fitted.predict(x))
    if predicted.shape != target.shape:
        raise InvalidParameter("estimator", predicted.shape, expected="one prediction per row")
    return predicted


def _wrong(fitted: Any, x: Floats, target: NDArray[Any]) -> Floats:
    return np.asarray(_predicted(fitted, x, target) != target, dtype=np.float64)


def _probabilities(fitted: Any, x: Floats, target: NDArray[Any]) -> tuple[Floats, NDArray[Any]]:
    """Probabilities of the classes, and the place of each row's label among them, or -1."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scores = np.asarray(fitted.predict_proba(x), dtype=np.float64)
    codes = np.full(len(target), -1, dtype=np.int64)
    for place, one in enumerate(fitted.classes_.tolist()):
        codes[target == one] = place
    return scores, codes


def _log_loss(fitted: Any, x: Floats, target: NDArray[Any]) -> Floats:
    scores, codes = _probabilities(fitted, x, target)
    own = scores[np.arange(len(codes)), np.maximum(codes, 0)]
    return np.where(codes >= 0, -np.log(own), np.inf)


def _brier(fitted: Any, x: Floats, target: NDArray[Any]) -> Floats:
    scores, codes = _probabilities(fitted, x, target)
    hot = np.eye(scores.shape[1])[np.maximum(codes, 0)]
    return np.where(codes >= 0, ((scores - hot) ** 2).sum(axis=1) / 2, np.inf)
