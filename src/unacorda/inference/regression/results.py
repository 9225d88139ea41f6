"""Results of fitted regressions: predictions, intervals, a table of coefficients, influence."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, ndtr

from unacorda.display import escape
from unacorda.errors import InvalidParameter
from unacorda.extras import require
from unacorda.inference.contract import (
    ClassifierMixin,
    PrivateEstimator,
    RegressorMixin,
    check_is_fitted,
    features,
    labels,
    predicted,
)
from unacorda.inference.diagnostics.classification import score_table
from unacorda.inference.diagnostics.residuals import ResidualTable, residual_table
from unacorda.inference.diagnostics.scores import ScoreTable
from unacorda.inference.expressions import literal
from unacorda.inference.records import Floats, column, half_width
from unacorda.inference.regression.covariance import Fitted
from unacorda.inference.regression.rows import RowBlock, Rows
from unacorda.privacy.guarantees import Guarantee


class Intervals(PrivateEstimator):
    """`conf_int` and `summary` of a fitted estimator."""

    coef_: Floats
    intercept_: Any
    sampling_error_: Floats
    privacy_error_: Floats
    guarantee_: Guarantee
    event_: Any
    protects_: str
    covariance_: Floats
    diagnostics_: dict[str, float]
    n_iter_: int
    cannot_: tuple[str, ...] = ()
    notes_: tuple[str, ...] = ()
    _influence: Influence
    bounds_share: float
    feature_bounds_: tuple[Floats, Floats]
    target_bounds_: tuple[float, float]
    found_bounds_: list[int | str]
    largest_: float

    def conf_int(self, confidence: float = 0.95) -> Floats:
        """Returns confidence intervals, one row (lower, upper) per parameter, the intercept first.

        They include sampling and privacy errors, both as normal, and are infinite if noise hides
        the curvature.

        Parameters
        ----------
        confidence
            Strictly between 0 and 1.

        Raises
        ------
        InvalidParameter
            For the confidence.
        NotFittedError
            Of scikit-learn, before `fit`.
        """
        check_is_fitted(self)
        half = half_width(confidence, self.sampling_error_, self.privacy_error_)
        return np.column_stack([self._parameters - half, self._parameters + half])

    def summary(self, confidence: float = 0.95) -> Summary:
        """Returns a table of the coefficients, their errors in two parts, and the spent budget.

        Parameters
        ----------
        confidence
            Of the intervals, strictly between 0 and 1.
        """
        check_is_fitted(self)
        named = getattr(self, "feature_names_in_", None)
        given = [f"x{k}" for k in range(self.coef_.size)] if named is None else list(named)
        return Summary(
            title=type(self).__name__,
            names=["intercept", *map(str, given)],
            values=self._parameters,
            sampling_errors=self.sampling_error_,
            privacy_errors=self.privacy_error_,
            intervals=self.conf_int(confidence),
            confidence=confidence,
            guarantee=self.guarantee_,
            protects=self.protects_,
            diagnostics=self.diagnostics_,
            cannot=self.cannot_,
            notes=self.notes_,
            bounds=self._bounds_text([escape(str(name)) for name in given]),
        )

    def _bounds_text(self, names: list[str]) -> str:
        """The bounds that the fit found, and what the largest count does, in words."""
        found = getattr(self, "found_bounds_", ())
        cut = "nothing is clamped at them"
        if hasattr(self, "largest_"):
            cut = f"counts above {self.largest_:g} count as {self.largest_:g}"
        if not found:
            return cut if hasattr(self, "largest_") else ""
        texts = []
        for one in found:
            if one == "target":
                name, (low, high) = one, self.target_bounds_
            else:
                name, (low, high) = names[one], [ends[one] for ends in self.feature_bounds_]
            texts.append(f"{name} [{low:g}, {high:g}]")
        return f"{', '.join(texts)}: found for {self.bounds_share:.3g} of the budget; {cut}"

    def influence(self, X: ArrayLike, y: ArrayLike) -> Floats:
        """Returns the influence of one more row on each coefficient of the fit without noise.

        It is the change of the coefficient by the row, times n. It costs nothing, since it uses
        only released matrices of the fit and none of its rows.

        Source: Hampel, Ronchetti, Rousseeuw, Stahel 1986, section 2.1; Avella-Medina 2021, Journal
        of the American Statistical Association 116 (bounded influence makes sensitivity bounded).

        Parameters
        ----------
        X
            Features of any rows, such as a grid, shape (m, p).
        y
            Their targets, shape (m,); of classes 0 or 1.

        Returns
        -------
        array of shape (m, p + 1)
            The intercept first.
        """
        check_is_fitted(self)
        rows = features(self, X, reset=False)
        target = _per_row("y", y, rows)
        return self._influence.of(rows, target)

    @property
    def gross_error_sensitivity_(self) -> Floats:
        """The largest `influence` of any row on each coefficient."""
        check_is_fitted(self)
        return self._influence.most

    def _keep(
        self,
        rows: Rows,
        found: Fitted,
        *,
        asked: Guarantee,
        unit: float = 1.0,
    ) -> Floats:
        """Keeps a fit's errors and event; returns parameters in units of features and target."""
        back = rows.back * unit
        sampling, privacy = (back @ part @ back.T for part in (found.sampling, found.privacy))
        if found.closed:
            sampling = privacy = np.full_like(sampling, math.inf)
        self.n_iter_ = found.steps
        self.covariance_ = sampling + privacy
        self.sampling_error_ = np.sqrt(np.diag(sampling))
        self.privacy_error_ = np.sqrt(np.diag(privacy))
        self.event_, self.guarantee_ = rows.event, asked
        self.protects_ = rows.protects
        self.cannot_ = found.closed
        self.diagnostics_ = {
            "rows": rows.number,
            "beyond": min(found.beyond, 1.0),
            **found.diagnostics,
            "last step": found.last_step,
        }
        self._influence = Influence(
            back=rows.back,
            inverse=np.asarray(np.linalg.inv(found.curvature), dtype=np.float64),
            score=found.score,
            bound=found.bound,
            theta=found.theta,
            unit=unit,
        )
        parameters: Floats = back @ found.theta
        return parameters

    @property
    def _parameters(self) -> Floats:
        return np.concatenate([np.atleast_1d(self.intercept_), np.ravel(self.coef_)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Influence:
    """The influence function of a fit: its released inverse curvature times a row's gradient."""

    back: Floats
    inverse: Floats
    score: Callable[[RowBlock], Any]
    bound: float
    theta: Floats
    unit: float

    def of(self, x: Floats, target: Floats) -> Floats:
        """The influence of rows of features and targets."""
        rows = np.column_stack([np.ones(len(x)), x]) @ self.back
        row = RowBlock(
            prediction=rows @ self.theta,
            target=target,
            square=np.einsum("ij,ij->i", rows, rows),
            own=np.ones(len(x)),
        )
        gradient = rows * np.asarray(self.score(row))[:, None]
        length = np.linalg.norm(gradient, axis=1, keepdims=True)
        gradient *= np.minimum(1.0, self.bound / np.maximum(length, 1e-300))
        found: Floats = self.unit * gradient @ self.inverse @ self.back.T
        return found

    @property
    def most(self) -> Floats:
        """The largest influence on each coefficient."""
        found: Floats = np.linalg.norm(self.back @ self.inverse, axis=1)
        return self.unit * self.bound * found


_MEANINGS: Final = {
    "beyond": "share of rows with less weight",
    "signal": "signal over its noise",
    "cut": "share of gradients clipped",
    "pull": "pull of the longest gradients",
    "scale": "deviation of the residuals",
    "noise of curvature": "noise of curvature (0.3 at most)",
    "people": "people behind the weakest direction",
    "dispersion": "dispersion (1 if the model holds)",
    "last step": "last step over its error (3.5 at most)",
}
"""How the text of a fit names its diagnostics; docs/regression-summary.md defines them."""

_COUNTS: Final = frozenset({"rows", "people"})
"""Diagnostics that are numbers of rows or people."""

_VISIBLE: Final = 0.0001
"""The share of rows from which on the text of a fit speaks of them."""

_COLUMNS = ("coef", "std err", "sampling", "privacy", "z", "P>|z|")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Summary:
    """A table of coefficients with their sampling errors, privacy errors, tests and intervals.

    All of it is computed from released values and may be published.

    Attributes
    ----------
    title
        The head of the printed table.
    names
        The names of the coefficients, the intercept first.
    values, sampling_errors, privacy_errors
        One number for each coefficient.
    intervals
        A row (lower, upper) for each coefficient.
    confidence
        The confidence of the intervals.
    guarantee
        What was spent.
    diagnostics
        Further released numbers by name, such as the number of rows.
        docs/regression-summary.md defines each.
    protects
        The privacy unit, in words.
    cannot
        The reasons for infinite intervals, if there are any.
    bounds
        The bounds that the fit found privately, in words.
    notes
        How values and weights were read that may be of any kind, in words; by types alone.

    Examples
    --------
    >>> import numpy as np
    >>> import unacorda
    >>> from unacorda.inference import LinearRegression
    >>> drawn = np.random.default_rng(1)
    >>> X = drawn.normal(size=(2000, 2))
    >>> y = 3 + X @ [1.0, -2.0] + drawn.normal(size=2000)
    >>> summary = (
    ...     LinearRegression(
    ...         budget=unacorda.GDP(1),
    ...         feature_bounds=(-3, 3),
    ...         target_bounds=(-10, 15),
    ...         bits=unacorda.SeededBits(1),
    ...     )
    ...     .fit(X, y)
    ...     .summary()
    ... )
    >>> table = summary.to_pandas()
    >>> table.index.tolist(), table["coef"].round().tolist()
    (['intercept', 'x0', 'x1'], [3.0, 1.0, -2.0])
    >>> bool((summary.privacy_errors < summary.standard_errors).all())
    True
    """

    title: str
    names: list[str]
    values: Floats
    sampling_errors: Floats
    privacy_errors: Floats
    intervals: Floats
    confidence: float
    guarantee: Guarantee
    diagnostics: dict[str, float]
    protects: str = "one row replaced"
    cannot: tuple[str, ...] = ()
    bounds: str = ""
    notes: tuple[str, ...] = ()

    @property
    def standard_errors(self) -> Floats:
        """The square roots of the sums of both squared errors."""
        return np.asarray(np.hypot(self.sampling_errors, self.privacy_errors))

    @property
    def z(self) -> Floats:
        """Each coefficient divided by its standard error; NaN if that error is infinite."""
        errors = self.standard_errors
        return np.where(np.isfinite(errors), self.values / errors, math.nan)

    @property
    def p_values(self) -> Floats:
        """Two-sided p-values of the hypothesis that a coefficient is 0."""
        return np.asarray(2 * ndtr(-np.abs(self.z)))

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return one dictionary for each coefficient.

        Returns
        -------
        list of dict
            The name, the value, its errors, z, the p-value and the interval.
        """
        numbers = np.column_stack([self._numbers(), self.intervals]).tolist()
        keys = (*_COLUMNS, "lower", "upper")
        return [
            {"name": name, **dict(zip(keys, row, strict=True))}
            for name, row in zip(self.names, numbers, strict=True)
        ]

    def to_pandas(self) -> Any:
        """Return a pandas data frame with one row for each coefficient.

        Returns
        -------
        pandas.DataFrame
            Indexed by the names.

        Raises
        ------
        MissingExtra
            Without pandas.
        """
        pandas = require("pandas", extra="frames")
        return pandas.DataFrame(self.to_dicts()).set_index("name")

    def _numbers(self) -> Floats:
        return np.column_stack(
            [
                self.values,
                self.standard_errors,
                self.sampling_errors,
                self.privacy_errors,
                self.z,
                self.p_values,
            ]
        )

    def __str__(self) -> str:
        shown = [escape(name) for name in self.names]
        wide = max(9, *map(len, shown))
        facts = {"spent": f"{self.guarantee}, {self.protects}"}
        facts |= {
            _MEANINGS.get(name, name): f"{max(value, 0.0):,.0f}"
            if name in _COUNTS
            else f"{value:.4g}"
            for name, value in self.diagnostics.items()
        }
        left = max(len(name) for name in facts)
        line = "-" * (wide + 10 * 8)
        percent = f"[{100 * self.confidence:g}%"
        head = "".join(f"{name:>10}" for name in (*_COLUMNS, percent, "]"))
        body = [
            f"{name:<{wide}}" + "".join(_cell(number) for number in [*numbers, *interval])
            for name, numbers, interval in zip(
                shown, self._numbers().tolist(), self.intervals.tolist(), strict=True
            )
        ]
        if self.bounds:
            facts["bounds"] = self.bounds
        listed = [
            row
            for name, text in facts.items()
            for row in textwrap.wrap(
                text,
                len(line),
                initial_indent=f"{name:<{left}}  ",
                subsequent_indent=" " * (left + 2),
            )
        ]
        remarks = [f"cannot tell errors: {reason}" for reason in self.cannot]
        remarks += [*self._weighing(), *self.notes]
        why = [row for text in remarks for row in textwrap.wrap(text, len(line))]
        return "\n".join([self.title, *listed, line, " " * wide + head, *body, line, *why])

    def _weighing(self) -> list[str]:
        """Sentences about the rows that count less, if a visible share of them does."""
        found = []
        if (beyond := self.diagnostics.get("beyond", 0.0)) >= _VISIBLE:
            found.append(
                f"{beyond:.2%} of the rows have features so far out that they weigh less: where "
                "the model is wrong there, this is not the fit of all rows"
            )
        if (cut := self.diagnostics.get("cut", 0.0)) >= _VISIBLE:
            found.append(
                f"{cut:.2%} of the gradients are clipped: where residuals have long tails, this is "
                "not quite the fit without privacy"
            )
        if self.diagnostics.get("pull", 0.0) > 0 and not self.cannot:
            found.append(
                "the longest gradients point one way, as where the model does not fit or errors "
                "are skewed: intervals allow for what weights and clipping may have moved"
            )
        return found

    __repr__ = __str__


def _cell(number: float) -> str:
    if math.isnan(number):
        return f"{'-':>10}"
    text = f"{number:.4g}" if 1e-4 <= abs(number) < 1e5 else f"{number:.2g}"
    return f"{text:>10}" if len(text) < 10 else f"{number:>10.3g}"


class PublicRegression(RegressorMixin):  # type: ignore[misc]
    """A regression that is public after the fit."""

    def diagnose(
        self, X: ArrayLike, y: ArrayLike, *, budget: Guarantee, **choices: Any
    ) -> ResidualTable:
        """Releases the residual table of other rows; see `residual_table`.

        Parameters
        ----------
        X
            Features of rows that did not fit it, shape (n, p).
        y
            Their targets, shape (n,).
        budget
            Any guarantee; it is spent whole, apart from that of the fit.
        choices
            Further arguments of `residual_table`.
        """
        check_is_fitted(self)
        return residual_table(self, X, y, budget=budget, **choices)

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Returns the exact R^2 of rows without missing numbers; do not publish it.

        Parameters
        ----------
        X
            Features, shape (m, p).
        y
            Targets, shape (m,).
        sample_weight
            Weights, shape (m,), by default 1.

        Returns
        -------
        float
            NaN if the targets of all these rows are equal.
        """
        found: Floats = self.predict(X)
        target, weights = _per_row("y", y, found), _weights(sample_weight, found)
        known = np.isfinite(found) & np.isfinite(target) & np.isfinite(weights)
        found, target, weights = found[known], target[known], weights[known]
        with np.errstate(all="ignore"):
            mean = weights @ target / weights.sum()
            spread = weights @ np.square(target - mean)
            return float(1 - weights @ np.square(target - found) / spread) if spread else math.nan


class LinearPredictor(PublicRegression):
    """A regression whose prediction is linear in the features."""

    def predict(self, X: ArrayLike) -> Floats:
        """Returns the linear predictor of each row, NaN if a feature is missing; no release.

        It has no interval. One for the mean at x is (1, x) @ coefficients, plus or minus 1.96 roots
        of (1, x) @ `covariance_` @ (1, x); it does not allow for the spread of single targets.

        Parameters
        ----------
        X
            Features of any rows, shape (m, p).
        """
        return predicted(self, X)


class TwoClasses(ClassifierMixin):  # type: ignore[misc]
    """A classifier whose log odds of the second of two classes are linear in the features."""

    classes_: Any

    def decision_function(self, X: ArrayLike) -> Floats:
        """Returns the log odds of the second class, NaN if a feature is missing; no release.

        Parameters
        ----------
        X
            Features of any rows, shape (m, p).
        """
        return predicted(self, X)

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Returns the probabilities of both classes, NaN if a feature is missing; no release.

        Parameters
        ----------
        X
            Features of any rows, shape (m, p).
        """
        second = expit(self.decision_function(X))
        return np.column_stack([1 - second, second])

    def predict(self, X: ArrayLike) -> Any:
        """Returns the likelier class of each row; no release.

        A row with a missing feature gets the first class, since labels have no missing value and an
        error would reveal one: `np.isnan(model.decision_function(X))` finds such rows.

        Parameters
        ----------
        X
            Features of any rows, shape (m, p).
        """
        second = self.decision_function(X) > 0
        return self.classes_[second.astype(np.int64)]

    def diagnose(
        self, X: ArrayLike, y: ArrayLike, *, budget: Guarantee, **choices: Any
    ) -> ScoreTable:
        """Releases the score table of other rows; see `score_table`.

        Parameters
        ----------
        X
            Features of rows that did not fit it, shape (n, p).
        y
            Their labels, shape (n,).
        budget
            Any guarantee; it is spent whole, apart from that of the fit.
        choices
            Further arguments of `score_table`.
        """
        check_is_fitted(self)
        return score_table(self, X, y, budget=budget, **choices)

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Returns the exact accuracy on rows with all features; do not publish it.

        Parameters
        ----------
        X
            Features, shape (m, p).
        y
            Labels, shape (m,); one that is neither class is never right.
        sample_weight
            Weights, shape (m,), by default 1.

        Returns
        -------
        float
            NaN if no row has all features.
        """
        odds = self.decision_function(X)
        second, known = labels(y, self.classes_, rows=len(odds))
        weights = np.nan_to_num(_weights(sample_weight, odds), posinf=0.0, neginf=0.0)
        weights[~np.isfinite(odds)] = 0.0
        right = (known > 0) & ((odds > 0) == (second > 0))
        return float(weights @ right / total) if (total := weights.sum()) else math.nan

    def __sklearn_tags__(self) -> Any:
        """The tags for scikit-learn: two classes."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def _per_row(argument: str, values: ArrayLike, rows: Floats) -> Floats:
    """A number of each row; InvalidParameter for more or fewer."""
    found = column(argument, values)
    if len(found) != len(rows):
        raise InvalidParameter(argument, found.shape, expected=f"{len(rows)} numbers, one per row")
    return found


def _weights(sample_weight: ArrayLike | None, rows: Floats) -> Floats:
    """The weight of each row, 1 by default."""
    if sample_weight is None:
        return np.ones(len(rows))
    return _per_row("sample_weight", sample_weight, rows)


class ManyPeople:
    """An estimator that needs many people."""

    def __sklearn_tags__(self) -> Any:
        """The tags for scikit-learn: many people are needed."""
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        for kind in (tags.regressor_tags, tags.classifier_tags):
            if kind is not None:
                kind.poor_score = True
        return tags


def two_classes(classes: object) -> Any:
    """Both labels as an array, if they are two and different; else InvalidParameter."""
    expected = "the two labels, public and different, such as (0, 1) or ('no', 'yes')"
    if not isinstance(classes, tuple | list) or len(classes) != 2:
        raise InvalidParameter("classes", classes, expected=expected)
    array = np.asarray(classes)
    if array.shape != (2,) or array.dtype.kind not in "biufU" or array[0] == array[1]:
        raise InvalidParameter("classes", classes, expected=expected)
    return array


def second_class(classes: Any) -> str:
    """SQL of a target y: 1 for the second class, 0 for the first, NULL for another.

    Raises InvalidParameter for labels that are text, as the target of a table is a number.
    """
    if classes.dtype.kind == "U":
        raise InvalidParameter(
            "classes",
            tuple(classes.tolist()),
            expected="numbers for a table, such as the default (0, 1) with a condition as "
            f"target: target=\"answer = '{classes[1]}'\"",
        )
    first, second = (literal(float(label)) for label in classes)
    return f"CASE WHEN y = {second} THEN 1 WHEN y = {first} THEN 0 END"
