"""Reads arrays and frames for estimators, checked by shape and dtype, never by value."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import warnings
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import elements
from unacorda.errors import InvalidParameter
from unacorda.inference.contract import DataConversionWarning, check_is_fitted, validate_data
from unacorda.inference.records import Floats, column, matrix

__all__ = ["features", "how_many", "label_column", "labels", "paired", "predicted", "weighed"]


def how_many(name: str, wanted: object, *, features: int) -> int:
    """The number of features or of directions that is asked for, from 1 to how many there are."""
    whole = isinstance(wanted, int | np.integer) and not isinstance(wanted, bool)
    if not whole or not 1 <= cast("int", wanted) <= features:
        expected = f"a whole number from 1 to n_features={features}"
        raise InvalidParameter(name, wanted, expected=expected)
    return int(cast("int", wanted))


def paired(
    estimator: Any, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
) -> tuple[Floats, Floats, Floats]:
    """Features, targets and what each row counts: 0 unless all its numbers are finite.

    Notes the number and the names of the features on the estimator. Raises InvalidParameter for
    shapes and dtypes that cannot be used.
    """
    x = features(estimator, X, reset=True)
    target = column("y", _one_column(y))
    if len(x) != len(target):
        raise InvalidParameter("y", target.shape, expected=f"{len(x)} numbers, one a row of X")
    present = np.isfinite(x).all(axis=1) & np.isfinite(target)
    return x, target, weighed(present.astype(np.float64), sample_weight)


def weighed(present: Floats, sample_weight: ArrayLike | None) -> Floats:
    """The weight of each row: 1 or 0, or of present rows their own weight, clipped to [0, 1].

    A weight that is no number counts as 0. InvalidParameter for shapes and dtypes alone.
    """
    if sample_weight is None:
        return present
    given = column("sample_weight", sample_weight)
    if len(given) != len(present):
        expected = f"{len(present)} numbers, one a row of X"
        raise InvalidParameter("sample_weight", given.shape, expected=expected)
    return np.clip(np.nan_to_num(given, nan=0.0), 0.0, 1.0) * present


def features(estimator: Any, X: ArrayLike, *, reset: bool) -> Floats:
    """The features as a matrix; unless `reset`, of the columns that the fit had."""
    if hasattr(X, "tocsr"):
        kind = type(X).__name__
        raise InvalidParameter("X", kind, expected="a dense array: sparse data are not supported")
    given = elements.floats(
        "X",
        X,
        dimensions=2,
        width=None if reset else getattr(estimator, "n_features_in_", None),
        expected="integers or floats of at most 64 bits: Complex data not supported",
    )
    if given.ndim == 1:
        expected = "two dimensions, one row a person. Reshape your data"
        raise InvalidParameter("X", given.shape, expected=expected)
    for what, size in zip(("sample(s)", "feature(s)"), given.shape, strict=False):
        if size == 0:
            found = f"0 {what} (shape={given.shape}) while a minimum of 1 is required"
            raise InvalidParameter("X", given.shape, expected=f"some of each: found {found}")
    x = matrix("X", given)
    # Of what came, names of columns alone are looked at.
    named = X if hasattr(X, "columns") else x
    validate_data(estimator, named, reset=reset, skip_check_array=True)
    return x


def _one_column(y: Any) -> Any:
    """The targets; a column of them as one dimension, with a warning."""
    if y is None:
        expected = "one value a row: a fit requires y to be passed, but the target y is None"
        raise InvalidParameter("y", y, expected=expected)
    shape = getattr(y, "shape", None)
    if isinstance(shape, tuple) and len(shape) == 2 and shape[1] == 1:
        message = "A column-vector y was passed when a 1d array was expected."
        warnings.warn(message, DataConversionWarning, stacklevel=4)
        return y.iloc[:, 0] if hasattr(y, "iloc") else y[:, 0]
    return y


def labels(y: ArrayLike, classes: Any, *, rows: int) -> tuple[Floats, Floats]:
    """1 where a label is the second class, else 0; and 1 where it is one of both, else 0.

    Labels are compared as numbers or as text, each as what it is: the number 1 is not the text
    "1". Raises InvalidParameter for shapes and dtypes that cannot be used.
    """
    codes, found = _label_codes(y, rows=rows)
    first, second = (
        np.array([label == elements.label(one) for label in found], dtype=np.float64)
        for one in classes.tolist()
    )
    return second[codes], (first + second)[codes]


def label_column(y: ArrayLike, *, rows: int) -> NDArray[Any]:
    """The label of each of so many rows, an object each: a number, a text, or None."""
    codes, found = _label_codes(y, rows=rows)
    return np.array([*found, None], dtype=object)[codes]


def _label_codes(y: ArrayLike, *, rows: int) -> tuple[NDArray[np.int64], list[Any]]:
    codes, found = elements.codes("y", _one_column(y), kinds="biufU")
    if len(codes) != rows:
        raise InvalidParameter("y", codes.shape, expected=f"one dimension, {rows} labels")
    return codes, found


def predicted(estimator: Any, X: ArrayLike) -> Floats:
    """The linear predictor of each row, from coef_ and intercept_."""
    check_is_fitted(estimator)
    x = features(estimator, X, reset=False)
    values: Floats = x @ np.ravel(estimator.coef_) + estimator.intercept_
    return values
