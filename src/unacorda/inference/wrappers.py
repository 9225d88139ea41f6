"""Estimators around an estimator, which predict as the one that they have fitted."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import checks
from unacorda.bits import RandomBits, SeededBits
from unacorda.errors import InvalidParameter
from unacorda.inference.contract import (
    BaseEstimator,
    SharedBits,
    available_if,
    check_is_fitted,
    clone,
    get_tags,
)
from unacorda.inference.inputs import features
from unacorda.inference.records import Floats

__all__ = ["Wrapper", "parts_of", "rehearse", "size_of"]


def _shown(name: str) -> Callable[[Any], bool]:
    """Tests for a method of this name of the estimator inside."""
    return lambda self: hasattr(self.estimator, name)


class Wrapper(SharedBits, BaseEstimator):  # type: ignore[misc]
    """An estimator with a parameter `estimator` and, once fitted, the fitted one, `estimator_`."""

    estimator: Any
    estimator_: Any

    def __sklearn_is_fitted__(self) -> bool:
        """True once a fit has come to its end; one that failed has spent its budget as well."""
        return hasattr(self, "estimator_")

    def _columns(self, X: ArrayLike) -> Floats:
        """The features of new rows as the fitted estimator takes them."""
        return features(self, X, reset=False)

    def _inside(self, X: ArrayLike) -> tuple[Any, Floats]:
        check_is_fitted(self)
        return self.estimator_, self._columns(X)

    def predict(self, X: ArrayLike) -> Any:
        """Predictions of the fitted estimator, row by row; X may be any rows, it is no release."""
        fitted, x = self._inside(X)
        return fitted.predict(x)

    @available_if(_shown("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: ArrayLike) -> Floats:
        """The probabilities of the classes, one row each."""
        fitted, x = self._inside(X)
        return np.asarray(fitted.predict_proba(x))

    @available_if(_shown("decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: ArrayLike) -> Floats:
        """The log odds of the second class for each row."""
        fitted, x = self._inside(X)
        return np.asarray(fitted.decision_function(x))

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """The fitted estimator's exact score on these rows: not to be published of private ones."""
        fitted, x = self._inside(X)
        return float(fitted.score(x, y))

    @property
    def classes_(self) -> Any:
        """The labels of a classifier."""
        return self.estimator_.classes_

    def __sklearn_tags__(self) -> Any:
        """The abilities that scikit-learn reads: those of the estimator inside."""
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags, tags.regressor_tags = inner.classifier_tags, inner.regressor_tags
        tags.target_tags, tags.input_tags = inner.target_tags, inner.input_tags
        return tags


def size_of(name: str, share: float, *, rows: int) -> int:
    """The number of rows in a share of them, at least one and not all.

    InvalidParameter for a share that is not strictly between 0 and 1, and for fewer than two rows.
    """
    wanted = checks.probability(**{name: share})
    if rows < 2:
        raise InvalidParameter("X", (rows,), expected="two rows or more: n_samples=1 has no parts")
    return min(max(round(rows * wanted), 1), rows - 1)


def parts_of(rows: int, first: int, *, bits: RandomBits) -> tuple[NDArray[Any], NDArray[Any]]:
    """Positions of rows in two parts, `first` and the others, drawn blindly.

    The parts are public: any partition that does not look at the data would protect as well.

    >>> [len(part) for part in parts_of(10, 4, bits=SeededBits(1))]
    [4, 6]
    """
    shuffled = np.random.default_rng(bits.below(1 << 64)).permutation(rows)
    return np.sort(shuffled[:first]), np.sort(shuffled[first:])


def rehearse(estimator: Any, *, rows: int, features: int, classes: Any = None) -> None:
    """Fit a copy to so many rows of zeros, so that what no data could repair is refused at once.

    classes: of a classifier, of which every row gets the first. What the fit raises is raised; it
    can tell of parameters and of sizes alone.
    """
    target = np.zeros(rows) if classes is None else np.repeat(np.asarray(classes)[:1], rows)
    copy = clone(estimator)
    seeded = {name: SeededBits(0) for name in copy.get_params() if name.split("__")[-1] == "bits"}
    copy.set_params(**seeded).fit(np.zeros((rows, features)), target)
