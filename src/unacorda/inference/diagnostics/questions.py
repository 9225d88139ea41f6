r"""Diagnostics of linear predictors over a table of a session, as SQL: no row leaves the engine.

The score table is one histogram of log odds, in which those of the second class are shifted far to
the right; its edges are the log odds of the score edges. The residual table needs two vectors and a
histogram, in one scan. The link from linear predictor to prediction is tested at public points.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, logit

from unacorda.errors import InvalidParameter
from unacorda.inference.diagnostics.residuals import (
    BY_BINS,
    HISTOGRAM,
    SHARES,
    TOTALS,
    WEIGHT,
    ResidualTable,
)
from unacorda.inference.diagnostics.scores import ScoreTable
from unacorda.inference.diagnostics.scoring import answers_of, score_edges
from unacorda.inference.expressions import (
    EXPONENTIAL,
    PREDICTION,
    column,
    exponential_columns,
    literal,
)
from unacorda.inference.records import Floats, check_budget, gdp_budget, public_pair, public_size
from unacorda.mechanisms.additive.real import Gaussian
from unacorda.mechanisms.contributions import SumRequest
from unacorda.mechanisms.parameters import whole
from unacorda.privacy.events import Event
from unacorda.privacy.guarantees import GDP, Guarantee
from unacorda.privacy.rounding import root_up

_FAR: Final = 64.0
"""Log odds end here, on both sides, and those of the second class begin at three times as much."""

_MOST_BINS: Final = 256
_FLAT: Final = 1e-6
"""The least slope of which a feature is moved until the predictor has moved by 1."""


@dataclass(slots=True, kw_only=True)
class TableDiagnosis(ABC):
    """A question to a table about a public linear predictor, made by `diagnosis`.

    Parameters
    ----------
    budget
        Any guarantee that normal noise keeps.
    coef, intercept
        Of the linear predictor.
    names
        Of the features, where the model has them, else None.
    table_
        The answer, once it has been asked: a `ScoreTable` or a `ResidualTable`.

    Examples
    --------
    >>> import unacorda
    >>> class Line:
    ...     coef_, intercept_ = np.array([2.0]), 1.0
    ...
    ...     def predict(self, X):
    ...         return X @ self.coef_ + self.intercept_
    >>> asked = diagnosis(Line(), budget=unacorda.GDP(1), target_bounds=(0, 10), residual_bound=1)
    >>> asked.coef, asked.table_ is None
    ((2.0,), True)
    """

    budget: Guarantee
    coef: tuple[float, ...]
    intercept: float
    names: tuple[str, ...] | None
    table_: Any = None

    def fit_table(self, table: Any) -> None:
        """Queries a table of a session; called by `unacorda.Session.fit`.

        Parameters
        ----------
        table
            The session's table.
        """
        given = tuple(table.features)
        if len(given) != len(self.coef) or self.names not in (None, given):
            expected = f"the {len(self.coef)} features of the model, in their order"
            if self.names is not None:
                expected += f": {list(self.names)}"
            raise InvalidParameter("features", list(given), expected=expected)
        budget = gdp_budget(self.budget)
        terms = [literal(self.intercept)]
        terms += [f"{literal(slope)} * x{place}" for place, slope in enumerate(self.coef)]
        event = Gaussian.for_guarantee(budget, l2_sensitivity=1).event
        self.table_ = self._ask(table, {PREDICTION: " + ".join(terms)}, budget=budget, event=event)

    @abstractmethod
    def _ask(self, table: Any, line: dict[str, str], *, budget: GDP, event: Event) -> Any:
        """The table of diagnostics."""


@dataclass(slots=True, kw_only=True)
class ScoreQuestion(TableDiagnosis):
    """A question for the table of scores."""

    edges: tuple[float, ...]
    classes: tuple[float, float]

    def _ask(self, table: Any, line: dict[str, str], *, budget: GDP, event: Event) -> Any:
        inner = logit(np.array(self.edges[1:-1])).tolist()
        first, second = (literal(one) for one in self.classes)
        clipped = np.clip(column(PREDICTION), -_FAR, _FAR)
        place = (
            f"CASE WHEN y = {second} THEN {clipped + 3 * _FAR} WHEN y = {first} THEN {clipped} END"
        )
        wish = SumRequest(
            vector=[place],
            value="1",
            edges=[*inner, 1.5 * _FAR, *(one + 3 * _FAR for one in inner)],
            bound=Fraction(1),
            budget=budget,
        )
        ((counts, deviation),) = table.sums([line], [wish])
        negatives, positives = np.array(counts, dtype=np.float64).reshape(2, -1)
        return ScoreTable(
            edges=np.array(self.edges),
            positives=positives,
            negatives=negatives,
            missing=(math.nan, math.nan),
            deviation=deviation,
            noise="normal",
            event=event,
            guarantee=self.budget,
            protects=table.protects,
        )


@dataclass(slots=True, kw_only=True)
class ResidualQuestion(TableDiagnosis):
    """A question for the table of residuals."""

    edges: tuple[float, ...]
    residual_bound: float
    target_bounds: tuple[float, float]
    exponential: bool

    def _ask(self, table: Any, line: dict[str, str], *, budget: GDP, event: Event) -> Any:
        low, high = self.target_bounds
        residual = (column("y") - column(self._fitted)) / self.residual_bound
        target = (column("y") - (low + high) / 2) / ((high - low) / 2)
        columns = [
            line,
            *(exponential_columns() if self.exponential else []),
            {"r": str(residual)},
            {
                "u": str(np.clip(column("r"), -1.0, 1.0)),
                "v": str(np.clip(target, -1.0, 1.0)),
                "cut": "CASE WHEN abs(r) > 1 THEN 1 ELSE 0 END",
            },
        ]
        by_bins = [
            f"CASE WHEN {inside} THEN {term} ELSE 0 END"
            for inside in self._bins()
            for term in ("1", f"{literal(WEIGHT)} * u", f"{literal(WEIGHT)} * u * u")
        ]
        vectors = [by_bins, ["u"], ["1", "cut", "u * u", "abs(u)", "v", "v * v"]]
        edges: list[list[float]] = [[], np.linspace(-1, 1, HISTOGRAM + 1)[1:-1].tolist(), []]
        bounds = [BY_BINS.l2_squared, Fraction(1), TOTALS.l2_squared]
        wishes = [
            SumRequest(
                vector=vector,
                value="1",
                edges=ends,
                bound=Fraction(root_up(square)),
                budget=budget * share,
            )
            for vector, ends, square, share in zip(vectors, edges, bounds, SHARES, strict=True)
        ]
        found = table.sums(columns, wishes)
        sums, histogram, totals = (np.array(part, dtype=np.float64) for part, _ in found)
        deviations = [noise for _, noise in found]
        return ResidualTable(
            edges=np.array(self.edges),
            sums=sums.reshape(-1, 3),
            missing=math.nan,
            histogram=histogram,
            totals=totals,
            deviations=(deviations[0], deviations[1], deviations[2]),
            noise="normal",
            residual_bound=self.residual_bound,
            target_bounds=self.target_bounds,
            event=event,
            guarantee=self.budget,
            protects=table.protects,
        )

    @property
    def _fitted(self) -> str:
        """The column of the prediction."""
        return EXPONENTIAL if self.exponential else PREDICTION

    def _bins(self) -> list[str]:
        """Conditions of the bins of the prediction, the outermost ones open."""
        inner = [literal(one) for one in self.edges[1:-1]]
        if not inner:
            return ["1 = 1"]
        between = [
            f"{self._fitted} >= {low} AND {self._fitted} < {high}"
            for low, high in itertools.pairwise(inner)
        ]
        return [f"{self._fitted} < {inner[0]}", *between, f"{self._fitted} >= {inner[-1]}"]


def diagnosis(
    model: Any,
    *,
    budget: Guarantee,
    bins: int | ArrayLike | None = None,
    target_bounds: tuple[float, float] | None = None,
    residual_bound: float | None = None,
) -> TableDiagnosis:
    """Make a question to a table about a fitted linear predictor, for `Session.fit`.

    Its answer, in `table_`, is the `ScoreTable` of a logistic regression, or the `ResidualTable` of
    a linear or a Poisson regression, over the rows of the table. A row with a missing number is not
    counted.

    Parameters
    ----------
    model
        Fitted, with `coef_` and `intercept_` for the features of the table, in their order. Its
        predictions are compared with these at a few public points.
    budget
        Any guarantee that normal noise keeps; it is spent whole.
    bins
        Of the score, 64 of them or public edges; of the prediction, 20.
    target_bounds
        Of a regression, as for `residual_table`; by default those of the fit.
    residual_bound
        Of a regression: public, in the unit of the target.

    Returns
    -------
    TableDiagnosis
        For `Session.fit`, after which its `table_` has the answer.

    Raises
    ------
    InvalidParameter
        For a model whose predictions are not such a function of the linear predictor, and for
        labels that are not numbers.
    MissingBound
        For a regression without bounds.

    Examples
    --------
    >>> import pandas, unacorda
    >>> drawn = np.random.default_rng(1)
    >>> X = drawn.normal(size=(5000, 2))
    >>> y = (drawn.random(5000) < 1 / (1 + np.exp(-X @ [1.0, -1.0]))).astype(float)
    >>> from unacorda import inference
    >>> model = inference.LogisticRegression(
    ...     budget=unacorda.GDP(1), feature_bounds=(-3, 3), bits=unacorda.SeededBits(1)
    ... ).fit(X[:2500], y[:2500])
    >>> rest = pandas.DataFrame({"a": X[2500:, 0], "b": X[2500:, 1], "y": y[2500:]})
    >>> with unacorda.Session(
    ...     {"t": rest}, unit=unacorda.Row(), budget=unacorda.GDP(1), bits=unacorda.SeededBits(1)
    ... ) as session:
    ...     asked = diagnosis(model, budget=unacorda.GDP(1))
    ...     table = session.fit(asked, "t", features=["a", "b"], target="y").table_
    >>> 0.75 < table.auc().value < 0.85
    True
    """
    coef: Any = getattr(model, "coef_", None)
    intercept: Any = getattr(model, "intercept_", None)
    classifier = hasattr(model, "predict_proba")
    slopes = np.zeros(0) if coef is None else np.ravel(coef).astype(np.float64)
    expected = (
        "a fitted line, logistic regression of two classes or Poisson regression, whose coef_ and "
        "intercept_ say what it predicts"
    )
    if not slopes.size or np.size(intercept) != 1:
        raise InvalidParameter("model", type(model).__name__, expected=expected)
    link = _link(model, slopes, float(np.ravel(intercept)[0]), classifier=classifier)
    if link is None:
        raise InvalidParameter("model", type(model).__name__, expected=expected)
    names = getattr(model, "feature_names_in_", None)
    shared: dict[str, Any] = {
        "budget": check_budget(budget),
        "coef": tuple(slopes.tolist()),
        "intercept": float(np.ravel(intercept)[0]),
        "names": None if names is None else tuple(map(str, names)),
    }
    gdp_budget(budget)
    if classifier:
        labels = np.asarray(model.classes_)
        if labels.dtype.kind not in "biuf" or labels.shape != (2,):
            expected = "two numbers, such as (0, 1) with a condition as target"
            raise InvalidParameter("classes", labels.tolist(), expected=expected)
        edges = score_edges(64 if bins is None else bins)
        first, second = labels.astype(np.float64).tolist()
        return ScoreQuestion(edges=tuple(edges.tolist()), classes=(first, second), **shared)
    given = getattr(model, "target_bounds_", None) if target_bounds is None else target_bounds
    ends = public_pair("target_bounds", given, of="y")
    size = public_size(residual_bound=residual_bound)
    number = whole("bins", 20 if bins is None else bins, least=1, most=_MOST_BINS)
    return ResidualQuestion(
        edges=tuple(np.linspace(*ends, number + 1).tolist()),
        residual_bound=size,
        target_bounds=ends,
        exponential=link == "exponential",
        **shared,
    )


def _link(
    model: Any, slopes: Floats, intercept: float, *, classifier: bool
) -> Literal["line", "exponential", "logistic"] | None:
    """How the model makes its prediction of the linear predictor; None where in another way.

    It is asked at the origin and where each feature, and all of them, move the predictor by 1.
    """
    moves = np.divide(1.0, slopes, out=np.ones_like(slopes), where=np.abs(slopes) > _FLAT)
    points = np.vstack([np.zeros(len(slopes)), np.diag(moves), moves / len(slopes)])
    line = points @ slopes + intercept
    found = answers_of(model, points, "predict_proba" if classifier else "predict")
    if classifier:
        fits = found.ndim == 2 and found.shape[1] == 2 and np.allclose(found[:, 1], expit(line))
        return "logistic" if fits else None
    if found.shape != line.shape:
        return None
    if np.allclose(found, line):
        return "line"
    return "exponential" if np.allclose(found, np.exp(np.minimum(line, _FAR))) else None
