"""What estimators are handed: arrays and frames, checked by shape and dtype, never by value."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tacet.errors import InvalidParameter
from tacet.inference.contract import check_is_fitted, validate_data
from tacet.inference.records import Floats, column, matrix
from tacet.mechanisms.arrays import array_of

__all__ = ["features", "labels", "paired", "predicted"]


def paired(estimator: Any, X: ArrayLike, y: ArrayLike) -> tuple[Floats, Floats, Floats]:
    """Features, targets and who is present: 1 where all of a row's numbers are finite, else 0.

    Notes the number and the names of the features on the estimator. Raises InvalidParameter for
    shapes and dtypes that cannot be used.
    """
    x = features(estimator, X, reset=True)
    if y is None:
        raise InvalidParameter("y", y, expected="one number a row: a fit requires y to be passed")
    target = column("y", y)
    if len(x) != len(target):
        raise InvalidParameter("y", target.shape, expected=f"{len(x)} numbers, one a row of X")
    present = np.isfinite(x).all(axis=1) & np.isfinite(target)
    return x, target, present.astype(np.float64)


def features(estimator: Any, X: ArrayLike, *, reset: bool) -> Floats:
    """The features as a matrix; unless `reset`, of the columns that the fit had."""
    x = matrix("X", X)
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    return x


def labels(y: ArrayLike, classes: Any, *, rows: int) -> tuple[Floats, Floats]:
    """1 where a label is the second class, else 0; and 1 where it is one of both, else 0.

    Text is compared as text. Raises InvalidParameter for shapes and dtypes that cannot be used.
    """
    if y is None:
        raise InvalidParameter("y", y, expected="one label a row: a fit requires y to be passed")
    given = array_of("y", y)
    if given.ndim != 1 or len(given) != rows:
        raise InvalidParameter("y", given.shape, expected=f"one dimension, {rows} labels")
    if given.dtype.kind in "OUS" or classes.dtype.kind == "U":
        given, classes = given.astype(str), classes.astype(str)
    elif given.dtype.kind not in "biuf":
        raise InvalidParameter("y", given.dtype, expected="numbers or text")
    second = np.asarray(given == classes[1], dtype=np.float64)
    return second, second + (given == classes[0])


def predicted(estimator: Any, X: ArrayLike) -> Floats:
    """The linear predictor of each row, from coef_ and intercept_."""
    check_is_fitted(estimator)
    x = features(estimator, X, reset=False)
    values: Floats = x @ np.ravel(estimator.coef_) + estimator.intercept_
    return values
