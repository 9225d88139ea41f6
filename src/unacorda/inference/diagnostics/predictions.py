"""Predictions of a model for each row: probabilities of classes, or fitted values."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import elements
from unacorda.checks import demand
from unacorda.errors import InvalidParameter
from unacorda.inference.records import Floats, column, matrix

__all__ = ["answers_of", "class_codes", "class_scores", "fitted_values", "known_classes"]


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
