"""How fitted coefficients predict, and what scikit-learn is told of it."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from unacorda.errors import InvalidParameter
from unacorda.inference.contract import ClassifierMixin, RegressorMixin
from unacorda.inference.expressions import literal
from unacorda.inference.inputs import predicted
from unacorda.inference.records import Floats

__all__ = ["LinearPredictor", "ManyPeople", "TwoClasses", "second_class", "two_classes"]


class LinearPredictor(RegressorMixin):  # type: ignore[misc]
    """A regression whose prediction is linear in the features."""

    def predict(self, X: ArrayLike) -> Floats:
        """The linear predictor of each row; X may be anybody's, it is no release."""
        return predicted(self, X)


class TwoClasses(ClassifierMixin):  # type: ignore[misc]
    """A classifier whose log odds of the second of two classes are linear in the features."""

    classes_: Any

    def decision_function(self, X: ArrayLike) -> Floats:
        """The log odds of the second class for each row; no release."""
        return predicted(self, X)

    def predict_proba(self, X: ArrayLike) -> Floats:
        """The probabilities of both classes, one row each."""
        second = expit(self.decision_function(X))
        return np.column_stack([1 - second, second])

    def predict(self, X: ArrayLike) -> Any:
        """The likelier class of each row."""
        second = self.decision_function(X) > 0
        return self.classes_[second.astype(np.int64)]

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn asks of an estimator's abilities: two classes."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


class ManyPeople:
    """What tells little of few people, and deals people out anew in each fit."""

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn asks of an estimator's abilities: it needs many people."""
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        for kind in (tags.regressor_tags, tags.classifier_tags):
            if kind is not None:
                kind.poor_score = True
        tags.non_deterministic = True
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

    InvalidParameter for labels that are text, as the target of a table is a number.
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
