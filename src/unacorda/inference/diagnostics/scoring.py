"""Rows that judge a model: its predictions for them, their owners, and scores of a fit by them.

Owners have a contribution bound, and the noise hides one of them. A scoring gives a bounded vector
of each row, and noisy sums of the vectors give the score: a mean of losses in [0, 1], the score
table for the area, or the sums of R^2.
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
from numpy.typing import ArrayLike, NDArray

from unacorda import checks, elements
from unacorda.bits import RandomBits
from unacorda.checks import demand
from unacorda.errors import InvalidParameter, MissingBound
from unacorda.inference.diagnostics.cells import CLEAR
from unacorda.inference.diagnostics.scores import area
from unacorda.inference.records import Floats, column, matrix, public_pair
from unacorda.inference.sums import ROOT_TWO, NoisySums, additive_noise
from unacorda.mechanisms.additive.real import Gaussian, Laplace
from unacorda.mechanisms.parameters import whole
from unacorda.privacy.guarantees import GDP, Guarantee
from unacorda.privacy.neighbors import Neighbors, ReplaceOne, check_neighbors
from unacorda.privacy.rounding import root_up

ScoringChoice: TypeAlias = (
    Literal["accuracy", "absolute_error", "auc", "log_loss", "brier", "r2"]
    | Callable[[Any, Any], Any]
    | None
)
"""The name of a score, or a loss of predictions and targets for each row; None: the default."""

_MOST_ROWS: Final = 1 << 20
_MOST_BINS: Final = 4096
_BINS: Final = 32
_LOG_LOSS: Final = 5.0
"""The log loss of a row that counts as the worst, if no bound is given: a probability of 0.7 %."""


def known_classes(model: Any, classes: object) -> list[Any]:
    """The public labels: those that are given, or those of the model; else InvalidParameter."""
    given: Any = getattr(model, "classes_", None) if classes is None else classes
    listed = [0, 1] if given is None else [elements.label(one) for one in list(given)]
    if len(listed) < 2 or len(set(listed)) != len(listed):
        expected = "the public labels, two or more and all different, such as (0, 1)"
        raise InvalidParameter("classes", classes, expected=expected)
    return listed


def class_codes(y: ArrayLike, classes: list[Any], *, rows: int) -> NDArray[np.int64]:
    """The place of each label among the classes; -1 for another label or none."""
    codes, found = elements.codes("y", y, kinds="biufU")
    demand(codes.shape == (rows,), "y", codes.shape, expected=f"one dimension, {rows} labels")
    places = [classes.index(one) if one in classes else -1 for one in found]
    return np.array([*places, -1], dtype=np.int64)[codes]


def class_scores(model: Any, X: ArrayLike, *, classes: int) -> Floats:
    """The probability of each class, one row each; NaN in rows that have a missing number.

    model: with `predict_proba`, or a function of X, or None where X are the scores. A single score
    a row is that of the second of two classes.
    """
    scores = elements.floats("X", X) if model is None else answers_of(model, X, "predict_proba")
    if scores.ndim == 1 and classes == 2:
        scores = np.column_stack([1 - scores, scores])
    if scores.ndim != 2 or scores.shape[1] != classes:
        expected = f"a probability of each of {classes} classes a row"
        if classes == 2:
            expected += ", or one of the second class"
        raise InvalidParameter("model", scores.shape, expected=expected)
    return scores


def fitted_values(model: Any, X: ArrayLike) -> Floats:
    """The prediction of each row; NaN in rows that have a missing number.

    model: with `predict`, or a function of X, or None where X are the predictions.
    """
    values = column("X", X, least=0) if model is None else answers_of(model, X, "predict")
    demand(values.ndim == 1, "model", values.shape, expected="one prediction per row")
    return values


def answers_of(model: Any, X: ArrayLike, name: str) -> Floats:
    """The answers of a model to rows of numbers.

    For a row with a number that is not finite, or beyond 32 bits, the model gets a row of zeros and
    the answer is NaN. Other packages' models raise errors at such rows, which would reveal that
    there is one.
    """
    ask: Callable[[Floats], Any] | None = getattr(model, name, None)
    if ask is None and callable(model) and not isinstance(model, type):
        ask = model
    if ask is None:
        expected = f"a fitted model with {name}, a function of X, or None with {name}(X) as X"
        raise InvalidParameter("model", type(model).__name__, expected=expected)
    x = matrix("X", X, least=0)
    present = np.asarray((np.abs(x) <= np.finfo(np.float32).max).all(axis=1))  # NaN is not
    rows = np.where(present[:, None], x, 0.0)
    failed = False
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            answers = np.array(ask(rows), dtype=np.float64)
    except Exception:  # noqa: BLE001  # its text may show a row
        failed = True
    if failed:
        expected = f"one that answers every row of {x.shape[1]} finite numbers, which it did not"
        raise InvalidParameter("model", type(model).__name__, expected=expected)
    if answers.ndim == 2 and answers.shape[1] == 1:
        answers = answers[:, 0]
    if answers.ndim not in (1, 2) or len(answers) != len(x):
        expected = f"an answer to each of {len(x)} rows"
        raise InvalidParameter("model", answers.shape, expected=expected)
    answers[~present] = np.nan
    return answers


@dataclass(frozen=True, slots=True, kw_only=True)
class RowNorms:
    """The largest norms of the vector of a row, and of the difference of two such vectors.

    A missing row is the vector 0, so that `apart` is at least as large as the norm of one.
    """

    l1: Fraction
    l2_squared: Fraction
    apart_l1: Fraction
    apart_l2_squared: Fraction

    @classmethod
    def of_counts(cls, histograms: int = 1) -> RowNorms:
        """Of a row that is counted in one bin of each of several histograms.

        >>> RowNorms.of_counts(3).apart_l2_squared
        Fraction(6, 1)
        """
        one = Fraction(histograms)
        return cls(l1=one, l2_squared=one, apart_l1=2 * one, apart_l2_squared=2 * one)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowOwners:
    """The most rows of a person, and the relation between neighbors.

    A person's vector is the sum over their rows, so its sensitivity is `rows` times that of one row
    (the triangle inequality). This is attained if all rows of a person are equal.

    >>> from unacorda.privacy.guarantees import GDP
    >>> owners = RowOwners(rows=3)
    >>> float(owners.noise(GDP(1), RowNorms.of_counts()).l2_sensitivity)
    4.242640687119286
    """

    rows: int = 1
    neighbors: Neighbors = ReplaceOne

    def __post_init__(self) -> None:
        whole("rows_per_person", self.rows, least=1, most=_MOST_ROWS)
        check_neighbors(self.neighbors)

    @property
    def replaced(self) -> bool:
        """True if one person's rows become others; else they come or go."""
        return self.neighbors is ReplaceOne

    @property
    def protects(self) -> str:
        """The privacy unit, in words."""
        change = "replaced" if self.replaced else "added or removed"
        return f"one row {change}" if self.rows == 1 else f"{self.rows} rows of a person {change}"

    def noise(self, budget: Guarantee, norms: RowNorms) -> Gaussian | Laplace:
        """The least noise, normal or Laplace, for the sum of vectors of these norms."""
        l1 = norms.apart_l1 if self.replaced else norms.l1
        square = norms.apart_l2_squared if self.replaced else norms.l2_squared
        return additive_noise(
            budget, l1=self.rows * l1, l2=self.rows * Fraction(root_up(Fraction(square)))
        )

    def kept(self, person: ArrayLike | None, *, number: int) -> NDArray[np.bool_]:
        """Which of `number` rows count: of each person the first ones, `rows` at the most.

        person: the owner of each row, or None if the caller promises that no owner has more. A row
        without an owner does not count.

        >>> RowOwners(rows=2).kept(["a", "b", "a", "a", None], number=5).tolist()
        [True, True, True, False, False]
        """
        if person is None:
            return np.ones(number, dtype=np.bool_)
        codes, labels = elements.codes("person", person)
        if codes.shape != (number,):
            raise InvalidParameter("person", codes.shape, expected=f"{number} owners, one per row")
        order = np.argsort(codes, kind="stable")
        first = np.searchsorted(codes[order], codes[order], side="left")
        kept = np.empty(number, dtype=np.bool_)
        kept[order] = np.arange(number) - first < self.rows
        known = np.array([label is not None for label in labels], dtype=np.bool_)
        return np.asarray(kept & known[codes]) if number else kept


def score_edges(bins: object) -> Floats:
    """Edges of even bins of [0, 1], or those that are given, rising from 0 to 1."""
    if isinstance(bins, int | np.integer) and not isinstance(bins, bool):
        return np.linspace(0, 1, whole("bins", bins, least=2, most=_MOST_BINS) + 1)
    edges = elements.floats("bins", bins, dimensions=1)
    rising = edges.ndim == 1 and 3 <= edges.size <= _MOST_BINS + 1
    if not (rising and (np.diff(edges) > 0).all() and edges[0] == 0 and edges[-1] == 1):
        expected = f"how many, from 2 to {_MOST_BINS}, or public edges that rise from 0 to 1"
        raise InvalidParameter("bins", bins, expected=expected)
    return edges


def score_bins(scores: Floats, edges: Floats) -> NDArray[np.int64]:
    """The bin of each score, open above but the last; that of NaN is one more, of its own."""
    places = np.searchsorted(edges[1:-1], scores, side="right")
    return np.where(np.isnan(scores), len(edges) - 1, places).astype(np.int64)


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
