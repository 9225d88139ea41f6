"""Scores of candidates, and the exponent that one unit of score is worth.

Scores count as the exact numbers they are, integers, floats or Fractions: nothing is rounded to a
grid, so the sensitivity of a mechanism is that of the scores as they were computed. Refusals
depend on shape and dtype alone.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import checks, elements
from unacorda.elements import Exact
from unacorda.errors import InvalidParameter

__all__ = [
    "Floats",
    "Real",
    "check_selection",
    "exact_score",
    "exponents",
    "factor_of",
    "one_row",
    "score_rows",
]

Real: TypeAlias = float | Fraction
Floats: TypeAlias = NDArray[np.float64]

_FACTOR_REACH: Final = Fraction(1 << 500)
_LARGEST_FLOAT: Final = float(np.finfo(np.float64).max)


def check_selection(*, epsilon: Real, sensitivity: Real, monotone: bool, count: int = 1) -> None:
    """Refuse numbers of which no selection can be made."""
    for name, value in (("epsilon", epsilon), ("sensitivity", sensitivity)):
        if checks.exact(name, value) <= 0:
            raise InvalidParameter(name, value, expected="a number above 0")
    if not isinstance(monotone, bool):
        raise InvalidParameter("monotone", monotone, expected="True or False")
    checks.positive_integer(count=count)
    factor = factor_of(epsilon, sensitivity, monotone=monotone, count=count)
    if not 1 / _FACTOR_REACH <= factor <= _FACTOR_REACH:
        raise InvalidParameter(
            "sensitivity",
            sensitivity,
            expected="epsilon / sensitivity between 2^-499 and 2^499",
        )


def factor_of(epsilon: Real, sensitivity: Real, *, monotone: bool, count: int = 1) -> Fraction:
    """The exponent per unit of score, exactly: epsilon / (2 count sensitivity).

    Twice that where scores are monotone. Its inverse is the scale of the noise on a score.
    """
    moves = checks.exact("sensitivity", sensitivity) * (1 if monotone else 2)
    return checks.exact("epsilon", epsilon) / (count * moves)


def score_rows(scores: ArrayLike | Sequence[Fraction], *, dimensions: int) -> NDArray[Any]:
    """The scores as a matrix of int64, uint64, float64 or exact Python numbers.

    NaN counts as 0, infinities as the largest float.
    """
    expected = "integers, floats of at most 64 bits or Fractions"
    array = elements.numbers("scores", scores, dimensions=dimensions, expected=expected)
    if array.ndim != dimensions or array.shape[-1] == 0:
        raise InvalidParameter(
            "scores", array.shape, expected=f"{dimensions} dimension(s) and at least one candidate"
        )
    matrix = array.reshape(-1, array.shape[-1])
    kind, width = matrix.dtype.kind, matrix.dtype.itemsize
    if kind in "biu":
        return np.ascontiguousarray(matrix, np.uint64 if (kind, width) == ("u", 8) else np.int64)
    if kind == "f":
        floats = np.ascontiguousarray(matrix, np.float64)
        ends = (floats.min(initial=0.0), floats.max(initial=0.0))  # NaN where there is one
        if math.isfinite(ends[0]) and math.isfinite(ends[1]):
            return floats
        return np.nan_to_num(floats, nan=0.0, posinf=_LARGEST_FLOAT, neginf=-_LARGEST_FLOAT)
    exact = np.empty(matrix.size, dtype=object)
    exact[:] = [_exact(score) for score in matrix.reshape(-1).tolist()]
    return exact.reshape(matrix.shape)


def one_row(scores: ArrayLike | Sequence[Fraction], *, least: int = 1) -> NDArray[Any]:
    """The scores of one choice, in one dimension; `least`: how many there must be."""
    row: NDArray[Any] = score_rows(scores, dimensions=1)[0]
    if row.size < least:
        raise InvalidParameter("scores", row.shape, expected=f"at least {least} candidates")
    return row


def exponents(scores: NDArray[Any], reference: NDArray[Any], *, factor: Fraction) -> Floats:
    """Each factor (score - reference), to within 2^-51 relative; beyond the range infinite.

    reference: of the dtype of the scores, in a shape that fits them.
    """
    with np.errstate(over="ignore", under="ignore"):
        if scores.dtype.kind in "iu":
            # The difference of two 64-bit integers fits in uint64, whatever their signs.
            larger, smaller = np.maximum(scores, reference), np.minimum(scores, reference)
            distance = np.subtract(larger.view(np.uint64), smaller.view(np.uint64))
            difference = distance.astype(np.float64)
            np.negative(difference, out=difference, where=scores < reference)
        elif scores.dtype.kind == "f":
            difference = np.subtract(scores, reference)
        else:
            difference = np.frompyfunc(_float, 1, 1)(scores - reference).astype(np.float64)
        products: Floats = np.multiply(difference, float(factor), out=difference)
    return products


def exact_score(score: Any) -> Fraction:
    """One entry of a row as the exact number it is."""
    return Fraction(score.item() if isinstance(score, np.generic) else score)


def _exact(score: Exact) -> int | Fraction:
    if not isinstance(score, float):
        return score
    if math.isnan(score):
        return 0
    return Fraction(max(-_LARGEST_FLOAT, min(score, _LARGEST_FLOAT)))


def _float(value: Fraction | int) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
