"""Rows that are judged: the predictions of a model for each, and their owners.

Owners have a contribution bound, and the noise hides one of them.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import elements
from unacorda.checks import demand
from unacorda.errors import InvalidParameter
from unacorda.inference.records import Floats, column, matrix
from unacorda.inference.sums import additive_noise
from unacorda.mechanisms.additive.real import Gaussian, Laplace
from unacorda.mechanisms.parameters import whole
from unacorda.privacy.guarantees import Guarantee
from unacorda.privacy.neighbors import Neighbors, ReplaceOne, check_neighbors
from unacorda.privacy.rounding import root_up

_MOST_ROWS: Final = 1 << 20


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
