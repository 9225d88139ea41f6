r"""Sparse regression: private selection of features on some rows, and a fit on the rest.

Selection and fit use different people, so both have the whole budget, and the selection does not
depend on the rows of the intervals. It uses noisy covariances of values that are clamped and
rounded to whole numbers. Sums of products are then exact in float64 in any order, without rounding
errors.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda.bits import RandomBits, source_of
from unacorda.errors import InvalidParameter, MissingBound
from unacorda.inference.contract import (
    Splitter,
    Wrapper,
    check_is_fitted,
    clone,
    count_fit,
    features,
    get_tags,
    how_many,
    label_column,
    labels,
    note_reading,
    paired,
    rehearse,
    size_of,
)
from unacorda.inference.records import (
    Floats,
    bounds_of,
    check_budget,
    gdp_budget,
    public_pair,
    selection_epsilon,
)
from unacorda.inference.regression.results import Summary
from unacorda.inference.regression.rows import SPREAD
from unacorda.inference.sums import BLOCK, NoisySums
from unacorda.inference.transformers import RobustScaler
from unacorda.mechanisms.selection.noisy_max import TopK
from unacorda.privacy import events
from unacorda.privacy.guarantees import GDP, Guarantee
from unacorda.privacy.rounding import root_down

_ROUNDED: Final = 1 - Fraction(1, 10**9)
"""So little less than the budget that an accountant's rounding finds `event_` within it."""


@dataclass(eq=False, repr=False)
class SparseRegression(Wrapper):
    r"""Fits a regression on few features out of many, selected privately, with valid intervals.

    Each feature's score is its covariance with the target, both clipped at three quarters of a
    deviation. A deviation is half the width of the bounds over 2.5; for the target it comes from
    private quartiles. The k best noisy scores win. Features are scored one by one: two redundant
    ones may both be selected, and one that matters only together with others may be missed.
    **Intervals are for the model with the selected features only.** They cover its coefficients for
    every selection, because other people's rows made the selection. They do not mean that the other
    features have no effect.

    Source: Durfee and Rogers 2019, arXiv:1905.04273, Section 4.1 (selection); Cox 1975 (splitting
    keeps intervals valid); Fan and Lv 2008 (screening by single correlations);
    docs/proofs/sparse.md.

    Parameters
    ----------
    estimator
        An unfitted `LinearRegression`, `LogisticRegression`, `PoissonRegression`, `RidgeRegression`
        or another regression. Its budget is that of the whole fit, its feature_bounds are those of
        all features, and its bits are not used. A local model is possible, but then it is no longer
        local, since the selection reads the rows.
    n_features
        The number of selected features, k, from 1 to p.
    selection_rows
        The share of the rows, drawn at random, for the selection; the others are for the fit.
    target_bounds
        Public (lower, upper) of the target, if the estimator has none itself.
    bits
        Omit it for secure noise; `SeededBits` makes a fit reproducible, and not private.

    Attributes
    ----------
    selected_
        k column numbers, rising.
    estimator_
        The estimator fitted on these, with its own intervals.
    coef_, intercept_
        Zeros for the features that were not selected.
    selection_event_, event_, guarantee_
        Each person takes part in either the selection or the fit, with `estimator_.event_`; event_
        is a normal mechanism that covers both.

    Examples
    --------
    >>> import unacorda
    >>> from unacorda.inference import LinearRegression
    >>> drawn = np.random.default_rng(1)
    >>> X = drawn.normal(size=(6000, 50))
    >>> y = 3 + X[:, 7] - 2 * X[:, 30] + drawn.normal(size=6000)
    >>> line = LinearRegression(
    ...     budget=unacorda.GDP(1), feature_bounds=(-2.5, 2.5), target_bounds=(-20, 20)
    ... )
    >>> model = SparseRegression(line, n_features=2, bits=unacorda.SeededBits(1)).fit(X, y)
    >>> model.selected_.tolist(), bool(abs(model.coef_[[7, 30]] - [1, -2]).max() < 0.1)
    ([7, 30], True)
    """

    estimator: Any
    _: KW_ONLY
    n_features: int
    selection_rows: float = 0.25
    target_bounds: tuple[float, float] | None = None
    bits: RandomBits | None = None

    def fit(self, X: ArrayLike, y: ArrayLike) -> SparseRegression:
        """Selects features and fits; spends the budget once.

        Parameters
        ----------
        X
            Features, shape (n, p).
        y
            Targets or labels, shape (n,).
        """
        inner = _checked(self.estimator)
        asked, budget = check_budget(inner.budget), gdp_budget(inner.budget) * _ROUNDED
        classes = inner.classes if get_tags(inner).estimator_type == "classifier" else None
        given: NDArray[Any]
        if classes is None:
            ends = self._target_ends(inner)
            x, given, _ = paired(self, X, y)
        else:
            x = features(self, X, reset=True)
            second, known = labels(y, np.asarray(classes), rows=len(x))
            given = label_column(y, rows=len(x))
        count = how_many("n_features", self.n_features, features=x.shape[1])
        lower, upper = bounds_of(inner.feature_bounds, features=x.shape[1])
        first = size_of("selection_rows", self.selection_rows, rows=len(x))
        source = source_of(self.bits)
        part = clone(inner).set_params(budget=budget, bits=self.bits)
        rehearse(
            part.set_params(feature_bounds=(lower[:count], upper[:count])),
            rows=len(x) - first,
            features=count,
            label=None if classes is None else np.asarray(classes)[:1],
        )

        count_fit(self, asked)
        self._promise(asked, budget)
        ((fitting, choosing),) = Splitter(rows=len(x), judges=(first,)).splits(bits=source)
        half = (upper - lower) / 2
        units = grid_values(x[choosing], centre=lower + half, deviation=half / SPREAD)
        if classes is None:
            found = best_by_numbers(
                units, given[choosing], ends=ends, count=count, budget=budget, bits=source
            )
        else:
            found = best_by_labels(
                units,
                second[choosing],
                known[choosing],
                count=count,
                budget=budget,
                bits=source,
            )
        self.selected_, self.selection_event_ = found
        chosen = (lower[self.selected_], upper[self.selected_])
        part.set_params(feature_bounds=chosen)
        part.fit(x[np.ix_(fitting, self.selected_)], given[fitting])
        note_reading(part, X, y)
        self._keep(part)
        return self

    @property
    def budget(self) -> Any:
        """The budget of a fit: that of the estimator inside."""
        return getattr(self.estimator, "budget", None)

    def _promise(self, asked: Guarantee, budget: GDP) -> None:
        self.guarantee_ = asked
        self.event_ = events.Gaussian(noise_multiplier=Fraction(root_down(1 / budget.mu_squared)))

    def _keep(self, fitted: Any) -> None:
        self.estimator_ = fitted
        inside = fitted.coef_
        self.coef_ = np.zeros((*inside.shape[:-1], self.n_features_in_))
        self.coef_[..., self.selected_] = inside
        self.intercept_ = fitted.intercept_

    def conf_int(self, confidence: float = 0.95) -> Floats:
        """Returns intervals (lower, upper) of the intercept, then the selected features in order.

        They are for the model with these features only; see the class. Errors as for
        `LinearRegression`.

        Parameters
        ----------
        confidence
            Strictly between 0 and 1.
        """
        check_is_fitted(self)
        return np.asarray(self.estimator_.conf_int(confidence))

    def summary(self, confidence: float = 0.95) -> Summary:
        """Returns a table of the selected coefficients, errors in two parts, and the budget.

        Parameters
        ----------
        confidence
            Of the intervals, strictly between 0 and 1.
        """
        check_is_fitted(self)
        table: Summary = self.estimator_.summary(confidence)
        named = getattr(self, "feature_names_in_", None)
        names = [f"x{j}" if named is None else str(named[j]) for j in self.selected_]
        return dataclasses.replace(
            table,
            title=f"{type(self).__name__}, {type(self.estimator_).__name__}",
            names=["intercept", *names],
            guarantee=self.guarantee_,
        )

    def _columns(self, X: ArrayLike) -> Floats:
        return features(self, X, reset=False)[:, self.selected_]

    def _target_ends(self, inner: Any) -> tuple[float, float]:
        """Public bounds of the target, from wherever they are given."""
        given = self.target_bounds or getattr(inner, "target_bounds", None)
        if given is None and getattr(inner, "largest", None) is not None:
            given = (0, inner.largest)
        if given is None:
            raise MissingBound(
                "target_bounds",
                expected="public bounds (lower, upper) within which most targets lie",
            )
        return public_pair("target_bounds", given, of="y")


def _checked(estimator: Any) -> Any:
    needed = {"budget", "feature_bounds", "bits"}
    known = hasattr(estimator, "get_params") and not isinstance(estimator, type)
    if not known or not needed <= set(estimator.get_params()) or not hasattr(estimator, "conf_int"):
        raise InvalidParameter(
            "estimator",
            estimator,
            expected="an unfitted regression of unacorda.inference, such as LinearRegression(...)",
        )
    return estimator


UNIT: Final = 1 << 10
"""Steps of a value of 1."""

CUT: Final = 0.75
"""Deviations at which values are cut: docs/proofs/sparse.md, section 2."""

CENTRING: Final = Fraction(1, 5)
"""The share of the budget that centres the target."""

Chosen = tuple[NDArray[np.int64], events.Event]


def grid_values(values: Floats, *, centre: Floats | float, deviation: Floats | float) -> Floats:
    """Whole numbers from -1024 to 1024: deviations from the center, clamped at 3/4, over 3/4.

    NaN counts as the center.

    >>> grid_values(np.array([0.0, 0.375, -9.0, np.nan]), centre=0.0, deviation=1.0).tolist()
    [0.0, 512.0, -1024.0, 0.0]
    """
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = (values - centre) / (deviation * CUT)
    scaled = np.clip(scaled, -1.0, 1.0)
    np.copyto(scaled, 0.0, where=np.isnan(scaled))
    return np.asarray(np.rint(scaled * UNIT) + 0.0)


def absolute_sums(units: Floats, target: Floats) -> NDArray[np.int64]:
    """|sum over rows of unit * target|, one per column, exactly; both are small whole numbers.

    Numbers of at most 2^11 in absolute value; fewer than 2^31 rows.
    Bound   replacing a row moves each by at most 2 max |unit| max |target|
    Source  docs/proofs/sparse.md, section 1
    """
    totals = np.zeros(units.shape[1], dtype=np.int64)
    for start in range(0, len(units), BLOCK):
        rows = slice(start, start + BLOCK)
        totals += (target[rows] @ units[rows]).astype(np.int64)
    return np.abs(totals)


def best_by_numbers(
    units: Floats,
    target: Floats,
    *,
    ends: tuple[float, float],
    count: int,
    budget: GDP,
    bits: RandomBits,
) -> Chosen:
    """The columns with the best scores for a number, rising, and their event.

    units: of `grid_values`; ends: public bounds of the target, whose quartiles are found first.
    """
    scaler = RobustScaler(budget=budget * CENTRING, feature_bounds=ends, bits=bits)
    scaler.fit(target[:, None])
    centred = grid_values(
        target, centre=float(scaler.center_[0]), deviation=float(scaler.scale_[0])
    )
    chosen, event = _best(
        units, centred, most=UNIT, count=count, budget=budget * (1 - CENTRING), bits=bits
    )
    return chosen, events.compose([scaler.event_, event])


def best_by_labels(
    units: Floats,
    second: Floats,
    known: Floats,
    *,
    count: int,
    budget: GDP,
    bits: RandomBits,
) -> Chosen:
    """The columns with the best scores for the second of two labels, rising, and their event.

    second: 1 where a label is the second, else 0; known: 1 where it is one of both, else 0.
    """
    sums = NoisySums(rows=len(second), budget=budget, bits=bits)
    share, _ = sums.mean(
        lambda rows: second[rows].sum(keepdims=True),
        size=1,
        row_bound=Fraction(1),
        sensitivity=Fraction(1),
        share=CENTRING,
    )
    middle = round(min(max(float(share[0]), 0.0), 1.0) * UNIT)
    chosen, event = _best(
        units,
        (second * UNIT - middle) * known,
        most=max(middle, UNIT - middle),
        count=count,
        budget=budget * (1 - CENTRING),
        bits=bits,
    )
    return chosen, events.compose([sums.event, event])


def _best(
    units: Floats, target: Floats, *, most: int, count: int, budget: GDP, bits: RandomBits
) -> Chosen:
    each = selection_epsilon(budget, releases=count)
    mechanism = TopK(epsilon=each * count, sensitivity=2 * UNIT * most, count=count)
    chosen = mechanism.release(absolute_sums(units, target), bits=bits)
    return np.sort(chosen), mechanism.event
