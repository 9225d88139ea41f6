"""The contract with scikit-learn: its names, input checks, wrapped estimators, and copies.

Raises MissingExtra if scikit-learn is not installed. Arrays and frames are checked by shape and
dtype, never by value.

Cross-validation and grid searches clone an estimator and fit the copies to overlapping rows.
`clone` makes copies share a count with their original. A fit counts if any function of scikit-learn
calls it, and from the second on there is a warning with the composed budget. It does not count if
this package calls it, as its searches price their fits themselves.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import copy
import inspect
import re
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, cast
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import checks, elements
from unacorda.bits import RandomBits, SeededBits
from unacorda.errors import InvalidParameter
from unacorda.extras import require
from unacorda.inference.records import Floats, column, matrix
from unacorda.privacy.guarantees import Guarantee, RenyiDP

_base: Any = require("sklearn.base", extra="inference")
_metaestimators: Any = require("sklearn.utils.metaestimators", extra="inference")
_pipeline: Any = require("sklearn.pipeline", extra="inference")
_utils: Any = require("sklearn.utils", extra="inference")
_validation: Any = require("sklearn.utils.validation", extra="inference")
_exceptions: Any = require("sklearn.exceptions", extra="inference")

BaseEstimator: Any = _base.BaseEstimator
ClassNamePrefixFeaturesOutMixin: Any = _base.ClassNamePrefixFeaturesOutMixin
ClassifierMixin: Any = _base.ClassifierMixin
OneToOneFeatureMixin: Any = _base.OneToOneFeatureMixin
Pipeline: Any = _pipeline.Pipeline
RegressorMixin: Any = _base.RegressorMixin
TransformerMixin: Any = _base.TransformerMixin
DataConversionWarning: Any = _exceptions.DataConversionWarning
available_if: Any = _metaestimators.available_if
clone: Any = _base.clone
get_tags: Any = _utils.get_tags
check_is_fitted: Any = _validation.check_is_fitted
validate_data: Any = _validation.validate_data


class PrivateEstimator:
    """The scikit-learn interface of every estimator: cloning and tags."""

    def __sklearn_clone__(self) -> Any:
        """An unfitted copy; seeded bits are shared, since a stream of them cannot be copied."""
        given: dict[str, Any] = self.get_params(deep=False)  # type: ignore[attr-defined]
        copied = type(self)(**{name: _copied(name, value) for name, value in given.items()})
        note_copy(self, copied)
        return copied

    def __sklearn_tags__(self) -> Any:
        """The tags for scikit-learn: NaN raises no error, and each fit has new noise."""
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.allow_nan = tags.non_deterministic = True
        return tags


def _copied(name: str, value: Any) -> Any:
    if name == "bits":
        return value
    return clone(value) if hasattr(value, "get_params") else copy.deepcopy(value)


def how_many(name: str, wanted: object, *, features: int) -> int:
    """Check the requested number of features or directions, from 1 to the number of all."""
    whole = isinstance(wanted, int | np.integer) and not isinstance(wanted, bool)
    if not whole or not 1 <= cast("int", wanted) <= features:
        expected = f"a whole number from 1 to n_features={features}"
        raise InvalidParameter(name, wanted, expected=expected)
    return int(cast("int", wanted))


def paired(
    estimator: Any, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
) -> tuple[Floats, Floats, Floats]:
    """Features, targets and the weight of each row: 0 unless all its numbers are finite.

    Notes the number and the names of the features on the estimator. Raises InvalidParameter for
    shapes and dtypes that cannot be used.
    """
    x = features(estimator, X, reset=True)
    if is_text(y):
        expected = "numbers; for two classes use LogisticRegression(classes=(first, second))"
        raise InvalidParameter("y", f"text ({public_type(y)})", expected=expected)
    target = column("y", _one_column(y))
    if len(x) != len(target):
        raise InvalidParameter("y", target.shape, expected=f"{len(x)} numbers, one per row of X")
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
    _check_columns(X)
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
    # Of a frame, names of columns alone are looked at.
    named = X if hasattr(X, "columns") else x
    validate_data(estimator, named, reset=reset, skip_check_array=True)
    return x


_NO_NUMBERS: Final = re.compile(
    r"(large_)?(str|utf8)|date|time|duration|period|interval|categorical|enum", re.IGNORECASE
)
"""Kinds of columns of frames, by their dtypes, that hold no number."""

_TEXT: Final = re.compile(r"(large_)?(str|utf8)|bytes|categorical|enum", re.IGNORECASE)
"""Kinds of columns that hold text."""


def public_type(values: Any) -> str:
    """The dtype of an array or a column, that of its categories if it has some, or "list".

    Containers and dtypes are public. Nothing of the elements is looked at.

    >>> public_type(np.array(["no", "yes"])), public_type([0, "yes"]), public_type(np.ones(2))
    ('str', 'list', 'float64')
    """
    return _type_name(getattr(values, "dtype", getattr(values, "type", None)))


def _type_name(dtype: Any) -> str:
    if dtype is None:
        return "list"
    kind = getattr(getattr(dtype, "categories", None), "dtype", dtype)
    return "str" if getattr(kind, "kind", "") == "U" else str(getattr(kind, "name", kind))


def is_text(values: Any) -> bool:
    """True for arrays and columns of text, by their dtype; False for lists and objects."""
    return bool(_TEXT.match(public_type(_single(values))))


def _by_element(kind: str) -> bool:
    return kind.lower() in {"list", "object"}


def stand_in(estimator: Any, y: Any) -> NDArray[Any] | None:
    """One made-up label of the public type of a classifier's labels; None for a regressor."""
    if get_tags(estimator).estimator_type != "classifier":
        return None
    if is_text(y):
        return np.array([""])
    return np.zeros(1, dtype=object if _by_element(public_type(_single(y))) else np.float64)


_TEXT_IS_MISSING: Final = (
    "read one by one, and text is missing, so that its row counts nowhere; write a category as "
    "columns of 0 and 1"
)


def reading_notes(
    X: Any, y: Any, sample_weight: Any = None, *, classes: Any = None
) -> tuple[str, ...]:
    """How elements are read that may be anything, and weights: sentences for a summary.

    Only types decide which of them there are.
    """
    names = [
        str(name)
        for name, dtype in zip(getattr(X, "columns", ()), getattr(X, "dtypes", ()), strict=False)
        if _by_element(_type_name(dtype))
    ]
    notes = []
    if names:
        notes.append(f"columns of objects ({', '.join(names)}) are {_TEXT_IS_MISSING}")
    elif not hasattr(X, "columns") and _by_element(public_type(X)):
        kind = "a list" if public_type(X) == "list" else "an array of objects"
        notes.append(f"X is {kind}: its elements are {_TEXT_IS_MISSING}")
    if _by_element(public_type(_single(y))):
        kind = "a list" if public_type(_single(y)) == "list" else "of objects"
        if classes is None:
            notes.append(f"y is {kind}: its elements are read one by one, and text is missing")
        else:
            notes.append(
                f"y is {kind}: labels other than the classes {_shown_classes(classes)} count "
                "nowhere; name yours with classes=(first, second)"
            )
    if sample_weight is not None:
        notes.append(WEIGHTS_ARE_CLIPPED)
    return tuple(notes)


def note_reading(fitted: Any, X: Any, y: Any) -> None:
    """Note how elements were read on the last step of a fit that was handed a copy of them."""
    last = fitted.steps[-1][1] if isinstance(fitted, Pipeline) else fitted
    if hasattr(last, "notes_"):
        last.notes_ = reading_notes(X, y, classes=getattr(last, "classes", None))


WEIGHTS_ARE_CLIPPED: Final = (
    "weights are clipped to [0, 1]: if they can be above 1, divide them by a public bound near the "
    "largest one, such as 300, and fit again"
)
"""A sentence of the summary of each weighted fit."""


def _shown_classes(classes: Any) -> str:
    """The public labels, and whether they are text."""
    array = np.asarray(classes)
    first, second = array.tolist()
    return f"{first!r} and {second!r} ({'text' if array.dtype.kind == 'U' else 'numbers'})"


def _check_columns(X: Any) -> None:
    """Refuses a frame with a column of text, categories of text, or dates, by its dtype."""
    fields = getattr(X, "schema", ()) if hasattr(X, "to_pylist") else ()  # a table of pyarrow
    named = [(field.name, field.type) for field in fields]
    named += zip(getattr(X, "columns", ()), getattr(X, "dtypes", ()), strict=False)
    for name, dtype in named:
        kind = _type_name(dtype)
        if _NO_NUMBERS.match(kind):
            raise InvalidParameter(
                "X",
                f"column {name!r} of {kind}",
                expected="columns of numbers; write a category of text as columns of 0 and 1, such "
                f"as X[{name!r}] == 'yes'",
            )


def _one_column(y: Any) -> Any:
    """The targets; a column of them as one dimension, with a warning."""
    if y is None:
        expected = "one value a row: a fit requires y to be passed, but the target y is None"
        raise InvalidParameter("y", y, expected=expected)
    single = _single(y)
    if single is not y:
        message = "A column-vector y was passed when a 1d array was expected."
        warnings.warn(message, DataConversionWarning, stacklevel=4)
    return single


def _single(y: Any) -> Any:
    """The targets, of a column of them in one dimension."""
    shape = getattr(y, "shape", None)
    if isinstance(shape, tuple) and len(shape) == 2 and shape[1] == 1:
        return y.iloc[:, 0] if hasattr(y, "iloc") else y[:, 0]
    return y


def labels(y: ArrayLike, classes: Any, *, rows: int) -> tuple[Floats, Floats]:
    """1 where a label is the second class, else 0; and 1 where it is one of both, else 0.

    Labels are compared as numbers or as text, each by its kind: the number 1 is not the text
    "1". Raises InvalidParameter for shapes and dtypes that cannot be used, among them labels of
    text for classes that are numbers, and the reverse.
    """
    text, of_text = classes.dtype.kind == "U", is_text(y)
    if text != of_text and (of_text or not _by_element(public_type(_single(y)))):
        held = f"labels that are {'text' if of_text else 'no text'} ({public_type(_single(y))})"
        expected = f"the classes {_shown_classes(classes)}: none of these labels is one of them. "
        expected += "Name yours, with classes=('no', 'yes') for text"
        raise InvalidParameter("y", held, expected=expected)
    codes, found = _label_codes(y, rows=rows)
    first, second = (
        np.array([label == elements.label(one) for label in found], dtype=np.float64)
        for one in classes.tolist()
    )
    return second[codes], (first + second)[codes]


def label_column(y: ArrayLike, *, rows: int) -> NDArray[Any]:
    """The label of each row: an array of numbers or text as it is, else objects.

    Of objects each is a number, a text, or None.
    """
    codes, found = _label_codes(y, rows=rows)
    given = _single(y)
    if isinstance(given, np.ndarray) and given.dtype.kind in "biufU" and not np.ma.isMA(given):
        return given
    return np.array([*found, None], dtype=object)[codes]


def _label_codes(y: ArrayLike, *, rows: int) -> tuple[NDArray[np.int64], list[Any]]:
    codes, found = elements.codes("y", _one_column(y), kinds="biufU")
    checks.demand(len(codes) == rows, "y", codes.shape, expected=f"one dimension, {rows} labels")
    return codes, found


def predicted(estimator: Any, X: ArrayLike) -> Floats:
    """The linear predictor of each row, from coef_ and intercept_."""
    check_is_fitted(estimator)
    x = features(estimator, X, reset=False)
    values: Floats = x @ np.ravel(estimator.coef_) + estimator.intercept_
    return values


def _shown(name: str) -> Callable[[Any], bool]:
    """Tests for a method of this name of the estimator inside."""
    return lambda self: hasattr(self.estimator, name)


class Wrapper(PrivateEstimator, BaseEstimator):  # type: ignore[misc]
    """An estimator with a parameter `estimator` and, after the fit, the fitted `estimator_`."""

    estimator: Any
    estimator_: Any

    def __sklearn_is_fitted__(self) -> bool:
        """True after a completed fit; a failed fit has spent its budget too."""
        return hasattr(self, "estimator_")

    def _columns(self, X: ArrayLike) -> Floats:
        """The features of new rows as the fitted estimator takes them."""
        return features(self, X, reset=False)

    def _inside(self, X: ArrayLike) -> tuple[Any, Floats]:
        check_is_fitted(self)
        return self.estimator_, self._columns(X)

    def predict(self, X: ArrayLike) -> Any:
        """Returns predictions of the fitted estimator, row by row; no release.

        Parameters
        ----------
        X
            Features of any rows, shape (m, p).
        """
        fitted, x = self._inside(X)
        return fitted.predict(x)

    @available_if(_shown("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: ArrayLike) -> Floats:
        """Returns the probabilities of the classes, one row each.

        Parameters
        ----------
        X
            Features of any rows, shape (m, p).
        """
        fitted, x = self._inside(X)
        return np.asarray(fitted.predict_proba(x))

    @available_if(_shown("decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: ArrayLike) -> Floats:
        """Returns the log odds of the second class for each row.

        Parameters
        ----------
        X
            Features of any rows, shape (m, p).
        """
        fitted, x = self._inside(X)
        return np.asarray(fitted.decision_function(x))

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """Returns the fitted estimator's exact score; do not publish it for private rows.

        Parameters
        ----------
        X
            Features, shape (m, p).
        y
            Targets or labels, shape (m,).
        """
        fitted, x = self._inside(X)
        return float(fitted.score(x, y))

    @property
    def classes_(self) -> Any:
        """The labels of a classifier."""
        return self.estimator_.classes_

    def __sklearn_tags__(self) -> Any:
        """The tags for scikit-learn: those of the wrapped estimator."""
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
    checks.demand(rows >= 2, "X", (rows,), expected="two rows or more: n_samples=1 has no parts")
    return min(max(round(rows * wanted), 1), rows - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Splitter:
    """A random split of rows: each part judges a fit to all other rows."""

    rows: int
    judges: tuple[int, ...]

    @property
    def fewest(self) -> int:
        """The number of rows of the smallest fit."""
        return self.rows - max(self.judges)

    def splits(self, *, bits: RandomBits) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Positions of the rows of each fit and of those that judge it, both rising."""
        shuffled = np.random.default_rng(bits.below(1 << 64)).permutation(self.rows)
        parts = np.split(shuffled, np.cumsum(self.judges))[: len(self.judges)]
        return [(np.delete(np.arange(self.rows), part), np.sort(part)) for part in parts]


def rehearse(
    estimator: Any, *, rows: int, features: int, label: NDArray[Any] | None = None
) -> None:
    """Fits a copy to rows of zeros, to find errors that no data could avoid.

    label: of a classifier; every row gets it. Errors of the fit are raised; they depend only on
    parameters, sizes and public types.
    """
    target = np.zeros(rows) if label is None else np.repeat(label, rows)
    copy = clone(estimator)
    seeded = {name: SeededBits(0) for name in copy.get_params() if name.split("__")[-1] == "bits"}
    copy.set_params(**seeded).fit(np.zeros((rows, features)), target)


_SEARCHES: Final = "sklearn.model_selection"
_CHECKS: Final = "sklearn.utils.estimator_checks"
"""Calls from here fit made-up data."""

_ADVICE: Final = (
    " on the same rows. HeldOutSearch and CrossValidatedSearch of unacorda.inference keep one "
    "budget for a whole search. Scores that scikit-learn computes from the rows are not private"
)


@dataclass(slots=True, kw_only=True)
class _Copies:
    """The fits of all copies of one estimator, and the sums of what they spent."""

    fits: int = 0
    spent: dict[Any, Guarantee] = field(default_factory=dict)

    def add(self, budget: Guarantee) -> None:
        """Counts one more fit. Renyi guarantees add up at one order, the others by their kind."""
        kind = budget.alpha if isinstance(budget, RenyiDP) else type(budget)
        self.fits += 1
        self.spent[kind] = self.spent[kind] + budget if kind in self.spent else budget


_COPIES: Final[WeakKeyDictionary[Any, _Copies]] = WeakKeyDictionary()
_LOCK: Final = threading.Lock()


def note_copy(original: Any, copy: Any) -> None:
    """Lets a copy share the count of its original."""
    with _LOCK:
        _COPIES[copy] = _COPIES.setdefault(original, _Copies())


def count_fit(estimator: Any, budget: Guarantee) -> None:
    """Warns if scikit-learn fits a second or further copy, and states the composed budget.

    Call it from `fit` after the check of its arguments. In worker processes copies have no count;
    there the warning states the cost of several fits.
    """
    callers = _callers()
    if not callers:
        return
    name = type(estimator).__name__
    with _LOCK:
        copies = _COPIES.get(estimator)
        if copies is not None:
            copies.add(budget)
            fits, spent = copies.fits, " and ".join(map(str, copies.spent.values()))
    if copies is None:
        if any(module.startswith(_SEARCHES) for module in callers):
            message = (
                f"scikit-learn fits copies of one {name} in several processes, each with its whole "
                f"budget, {budget}: 5 fits spend up to {budget * 5}{_ADVICE}."
            )
            warnings.warn(message, UserWarning, stacklevel=3)
    elif fits > 1:
        message = (
            f"scikit-learn has fitted {fits} copies of one {name}, each with its whole budget: "
            f"together they spend up to {spent}{_ADVICE if fits == 2 else ' on the same rows'}."
        )
        warnings.warn(message, UserWarning, stacklevel=3)


def _callers() -> list[str]:
    """The modules of scikit-learn that called the fit, the nearest first.

    None of them where a fit of this package, or scikit-learn's checks of estimators, stands around.
    """
    frame = inspect.currentframe()
    for _ in range(3):  # out of here, `count_fit` and `fit`
        frame = frame.f_back if frame is not None else None
    found = []
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.startswith("unacorda.") or module == _CHECKS:
            return []
        if module.startswith("sklearn."):
            found.append(module)
        frame = frame.f_back
    return found
