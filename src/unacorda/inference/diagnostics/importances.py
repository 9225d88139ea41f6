r"""Importance of features: the increase of a model's loss if a feature is drawn at random.

A permuted column would make all rows depend on each other. Here every row gets values drawn from a
public distribution that does not depend on the rows, so its losses depend only on that row and on
random draws. The sums have the sensitivity of one row for all draws, so the release is private
(joint convexity). More draws per row cost nothing. Proof: docs/proofs/diagnostics.md, section 6.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda.bits import RandomBits, source_of
from unacorda.checks import demand
from unacorda.errors import InvalidParameter, MissingBound
from unacorda.inference.diagnostics.cells import Diagnostic, NoisyCells
from unacorda.inference.diagnostics.scoring import (
    RowNorms,
    RowOwners,
    answers_of,
    class_codes,
    known_classes,
)
from unacorda.inference.records import (
    Floats,
    bounds_of,
    check_budget,
    column,
    data_frame,
    matrix,
    public_size,
    shareable,
)
from unacorda.inference.sums import law_of, release_numbers
from unacorda.mechanisms.parameters import whole
from unacorda.privacy import events
from unacorda.privacy.guarantees import Guarantee
from unacorda.privacy.neighbors import Neighbors, ReplaceOne

_LOG2: Final = 20
"""Losses are multiples of 2^-20."""

_CELLS: Final = 32
_LAWS: Final = Fraction(1, 4)
"""The share of the budget for histograms of the features, where no reference is given."""

_MOST_DRAWS: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Importance:
    """Noisy sums of losses, with and without each feature drawn; all of it may be published.

    Parameters
    ----------
    features
        Their names.
    sums
        The noisy sums: of the losses with each feature drawn (or of their differences from the
        losses of the actual rows), of the losses of the actual rows, and the number of rows.
    differences
        True if the sums are of differences.
    deviation
        The standard deviation of the noise of each sum.
    noise
        The distribution of the noise: "normal" or "laplace".
    unit
        Of the losses: 1, or the square of the residual's bound.
    event
        The event for the accountant.
    guarantee
        The guarantee.

    Examples
    --------
    >>> from unacorda.privacy import events
    >>> from unacorda.privacy.guarantees import GDP
    >>> found = Importance(
    ...     features=["age"],
    ...     sums=np.array([900.0, 500.0, 1000.0]),
    ...     differences=False,
    ...     deviation=5.0,
    ...     noise="normal",
    ...     unit=1.0,
    ...     event=events.Gaussian(noise_multiplier=1),
    ...     guarantee=GDP(1),
    ... )
    >>> found.loss().value
    0.5
    """

    features: list[str]
    sums: Floats
    differences: bool
    deviation: float
    noise: Literal["normal", "laplace"]
    unit: float
    event: events.Event
    guarantee: Guarantee

    @property
    def _cells(self) -> NoisyCells:
        return NoisyCells(counts=self.sums, deviation=self.deviation, law=self.noise)

    def loss(self, *, confidence: float = 0.95) -> Diagnostic:
        """Returns the mean loss of the actual rows.

        Parameters
        ----------
        confidence
            Of the interval, which includes only the noise, strictly between 0 and 1.
        """
        size = len(self.sums)
        return self._cells.ratio(
            self.unit * np.eye(size)[-2],
            np.eye(size)[-1],
            confidence=confidence,
            limits=(0.0, self.unit),
            moments=np.full((1, 3), np.nan),
        )

    def frame(self, *, confidence: float = 0.95) -> Any:
        """Returns one line per feature: the increase of the mean loss if it is drawn at random.

        Parameters
        ----------
        confidence
            Of the intervals, which include only the noise, strictly between 0 and 1.
        """
        size, count = len(self.sums), len(self.features)
        over = np.eye(size)[:count]
        if not self.differences:
            over = over - np.eye(size)[-2]
        found = self._cells.ratios(
            self.unit * over,
            np.broadcast_to(np.eye(size)[-1], (count, size)),
            confidence=confidence,
            limits=(-self.unit, self.unit),
            moments=np.full((count, 3), np.nan),
        )
        return data_frame(
            feature=self.features,
            importance=found.value,
            noise_error=found.noise_error,
            lower=found.lower,
            upper=found.upper,
        )

    def _repr_html_(self) -> str:
        return str(self.frame().to_html(float_format="{:.4g}".format))

    def __repr__(self) -> str:
        return f"Importance({len(self.features)} features, {self.guarantee})"


def importance(
    model: Any,
    X: ArrayLike,
    y: ArrayLike,
    *,
    budget: Guarantee,
    reference: ArrayLike | None = None,
    feature_bounds: tuple[ArrayLike, ArrayLike] | None = None,
    residual_bound: float | None = None,
    classes: tuple[Any, Any] | None = None,
    draws: int = 8,
    names: Sequence[str] | None = None,
    rows_per_person: int = 1,
    person: ArrayLike | None = None,
    neighbors: Neighbors = ReplaceOne,
    bits: RandomBits | None = None,
) -> Importance:
    r"""Releases the increase of a model's mean loss if each feature is drawn at random.

    The loss of a classifier of two classes is (probability - class)^2; that of a regression is the
    squared residual, clamped at a bound. Correlated features share their importance, as the model
    can do without one of them. A row with a missing number is not counted.

    Source: Breiman 2001, Machine Learning 45 (permutation importance), with draws from a public law
    in place of a permutation; docs/proofs/diagnostics.md, section 6.

    Parameters
    ----------
    model
        A public model: a classifier with `predict_proba`, or a regression with `predict`.
    X, y
        Features, shape (n, p), and labels or targets, shape (n,).
    budget
        Any guarantee; all of it is spent.
    reference
        Public rows, shape (m, p), from whose columns values are drawn, such as synthetic rows. By
        default a quarter of the budget pays for a histogram of each feature.
    feature_bounds
        Public (lower, upper) of these histograms, each one number or one per feature.
    residual_bound
        The public clamping bound of a regression's residuals.
    classes
        The two labels, public; by default those of the model, else (0, 1).
    draws
        How many values are drawn for each row; more cost no budget.
    names
        Of the features; by default those of X or of the model, else x0, x1 and so on.
    rows_per_person, person, neighbors, bits
        As for `score_table`.

    Returns
    -------
    Importance
        The noisy sums, from which each importance and its interval follow.

    Raises
    ------
    InvalidParameter
        For shapes, dtypes and parameters that cannot be used, and for a model that raises an error.
    MissingBound
        Without a reference and bounds of the features, or of residuals.

    Examples
    --------
    >>> import unacorda
    >>> drawn = np.random.default_rng(1)
    >>> X = drawn.normal(size=(20_000, 2))
    >>> class Doubled:
    ...     def predict(self, X):
    ...         return 2 * X[:, 0]
    >>> found = importance(
    ...     Doubled(),
    ...     X,
    ...     2 * X[:, 0] + drawn.normal(size=20_000),
    ...     reference=drawn.normal(size=(1000, 2)),
    ...     residual_bound=10,
    ...     budget=unacorda.GDP(1),
    ...     bits=unacorda.SeededBits(1),
    ... )
    >>> found.frame()["importance"].round().tolist()
    [8.0, 0.0]
    """
    asked, owners = check_budget(budget), RowOwners(rows=rows_per_person, neighbors=neighbors)
    count, x = whole("draws", draws, least=1, most=_MOST_DRAWS), matrix("X", X, least=0)
    width, source = x.shape[1], source_of(bits)
    named = _names(model, X, names, width=width)
    losses = _losses(model, y, rows=len(x), classes=classes, residual_bound=residual_bound)
    if reference is None and feature_bounds is None:
        raise MissingBound(
            "feature_bounds",
            expected="public bounds of the features, or public rows as reference=, such as "
            "synthetic ones",
        )
    public = None if reference is None else matrix("reference", reference, width=width)
    if public is not None and public.shape[1] != width:
        raise InvalidParameter("reference", public.shape, expected=f"{width} columns, as X has")
    if public is not None and not np.isfinite(public).all():
        raise InvalidParameter("reference", "a value that is not finite", expected="finite numbers")
    as_they_are = losses.of(x)
    kept = owners.kept(person, number=len(x)) & ~np.isnan(as_they_are)
    drawn = np.random.default_rng(source.below(1 << 64))
    left, spent = asked, []
    if public is None:
        assert feature_bounds is not None
        left = shareable(asked, releases=2)
        lower, upper = bounds_of(feature_bounds, features=width)
        noise = owners.noise(left * _LAWS, RowNorms.of_counts(width))
        with np.errstate(all="ignore"):
            cells = np.floor((x[kept] - lower) / (upper - lower) * _CELLS)
        places = np.clip(cells, 0, _CELLS - 1).astype(np.int64) + np.arange(width) * _CELLS
        counts = np.bincount(places.ravel(), minlength=width * _CELLS)
        found = np.maximum(release_numbers(noise, counts.tolist(), bits=source), 0.0)
        heights = found.reshape(width, _CELLS)
        public = _values(heights, lower, upper, drawn=drawn)
        left, spent = left * (1 - _LAWS), [noise.event]
    base = _steps(as_they_are)
    sums = []
    for place in range(width):
        whole_sum = np.zeros(len(x))
        for _ in range(count):
            moved = x.copy()
            moved[:, place] = public[drawn.integers(0, len(public), len(x)), place]
            whole_sum += losses.of(moved)
        own = _steps(whole_sum / count)
        sums.append(int((own if owners.replaced else own - base)[kept].sum()))
    sums += [int(base[kept].sum()), int(kept.sum()) << _LOG2]
    noise = owners.noise(left, _norms(width))
    return Importance(
        features=named,
        sums=release_numbers(noise, sums, unit_log2=-_LOG2, bits=source),
        differences=not owners.replaced,
        deviation=noise.standard_deviation,
        noise=law_of(noise),
        unit=losses.unit,
        event=events.compose([*spent, noise.event]),
        guarantee=asked,
    )


def _norms(features: int) -> RowNorms:
    """Of losses in [0, 1], or of their differences in [-1, 1], one a feature, one, and a count.

    Where a row is replaced losses are summed, where it comes or goes their differences; none of
    them is larger than 1 in either case, and the count stays where both rows count.
    """
    size = Fraction(features + 2)
    return RowNorms(l1=size, l2_squared=size, apart_l1=size, apart_l2_squared=size)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Losses:
    """The loss of each row in [0, 1], NaN where a number is missing."""

    model: Any
    target: Floats
    bound: float | None

    @property
    def unit(self) -> float:
        return 1.0 if self.bound is None else self.bound**2

    def of(self, x: Floats) -> Floats:
        if self.bound is None:
            answers = answers_of(self.model, x, "predict_proba")
            answers = answers[:, -1] if answers.ndim == 2 else answers
            with np.errstate(all="ignore"):  # a warning would show a row
                return np.asarray(np.clip((answers - self.target) ** 2, 0.0, 1.0))
        answers = answers_of(self.model, x, "predict")
        with np.errstate(all="ignore"):
            return np.asarray(np.clip(((answers - self.target) / self.bound) ** 2, 0.0, 1.0))


def _losses(
    model: Any,
    y: ArrayLike,
    *,
    rows: int,
    classes: tuple[Any, Any] | None,
    residual_bound: float | None,
) -> _Losses:
    if hasattr(model, "predict_proba"):
        labels = known_classes(model, classes)
        demand(len(labels) == 2, "classes", labels, expected="two labels")
        codes = class_codes(y, labels, rows=rows).astype(np.float64)
        return _Losses(model=model, target=np.where(codes < 0, np.nan, codes), bound=None)
    bound = public_size(residual_bound=residual_bound)
    target = column("y", y, least=0)
    demand(len(target) == rows, "y", target.shape, expected=f"{rows} numbers, one per row of X")
    return _Losses(model=model, target=target, bound=bound)


def _names(model: Any, X: Any, names: Sequence[str] | None, *, width: int) -> list[str]:
    given = names
    for owner, attribute in ((X, "columns"), (model, "feature_names_in_")):
        if given is None:
            given = getattr(owner, attribute, None)
    listed = [f"x{place}" for place in range(width)] if given is None else list(map(str, given))
    demand(len(listed) == width, "names", listed, expected=f"{width} names, one per feature")
    return listed


def _steps(losses: Floats) -> NDArray[np.int64]:
    steps: NDArray[np.int64] = np.rint(np.nan_to_num(losses, nan=0.0) * 2.0**_LOG2).astype(np.int64)
    return steps


def _values(heights: Floats, lower: Floats, upper: Floats, *, drawn: np.random.Generator) -> Floats:
    """Rows of values of each feature by itself, drawn from its released histogram."""
    columns = []
    for own, low, high in zip(heights, lower, upper, strict=True):
        shares = own / own.sum() if own.sum() > 0 else np.full(_CELLS, 1 / _CELLS)
        cells = drawn.choice(_CELLS, size=4096, p=shares)
        columns.append(low + (high - low) * (cells + drawn.random(4096)) / _CELLS)
    return np.column_stack(columns)
