"""The exponential mechanism, exactly, one choice or one per row of a matrix of scores.

Candidate i is chosen with probability proportional to w_i exp(epsilon s_i / (2 sensitivity)),
by inversion of the cumulative weights. The weights are computed in float64 relative to the best
candidate, with a proved bound on the error of every partial sum; where a uniform number comes
within that bound of a partial sum, the row is decided in exact arithmetic with as many more bits
as that takes. The law is therefore exact, candidates of weight e^-1000 included.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacet import checks
from tacet.bits import RandomBits, SecureBits
from tacet.errors import InvalidParameter
from tacet.mechanisms.refine import LazyUniform, exp_bounds
from tacet.privacy import events

__all__ = ["Exponential"]

Real: TypeAlias = float | Fraction
Floats: TypeAlias = NDArray[np.float64]

_SECURE = SecureBits()
_CHUNK: Final = 1 << 16  # matrix entries computed at once
_ROUNDING: Final = 2.0**-50  # see docs/proofs/noise.md, section 7
_FACTOR_REACH: Final = Fraction(1 << 500)
_LARGEST_FLOAT: Final = float(np.finfo(np.float64).max)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exponential:
    r"""Choose candidate i with probability proportional to exp(epsilon score_i / (2 sensitivity)).

    epsilon: above 0; sensitivity: by how much any one score can move between neighbours, above 0.
    Both may be Fractions; a float means the decimal it prints as.
    Source: McSherry and Talwar 2007, Theorem 6; bounded range: Durfee and Rogers 2019,
    arXiv:1905.04273, Lemma 4.1.

    >>> Exponential(epsilon=1.0, sensitivity=1).event
    Exponential(epsilon=1.0)
    """

    epsilon: Real
    sensitivity: Real

    def __post_init__(self) -> None:
        for name in ("epsilon", "sensitivity"):
            value = getattr(self, name)
            if checks.exact(name, value) <= 0:
                raise InvalidParameter(name, value, expected="a number above 0")
        if not 1 / _FACTOR_REACH <= self.factor <= _FACTOR_REACH:
            raise InvalidParameter(
                "sensitivity",
                self.sensitivity,
                expected="epsilon / (2 sensitivity) between 2^-500 and 2^500",
            )

    @property
    def event(self) -> events.Exponential:
        """What one choice costs."""
        return events.Exponential(epsilon=self.epsilon)

    @property
    def factor(self) -> Fraction:
        """The exponent per unit of score, epsilon / (2 sensitivity), exactly."""
        epsilon = checks.exact("epsilon", self.epsilon)
        return epsilon / (2 * checks.exact("sensitivity", self.sensitivity))

    def release(
        self,
        scores: ArrayLike | Sequence[Fraction],
        *,
        weights: ArrayLike | None = None,
        bits: RandomBits | None = None,
    ) -> int:
        """The index of the chosen candidate.

        scores: one dimension, at least one candidate, of integers, floats or Fractions. NaN
        counts as 0, infinities as the largest float. weights: public, finite, not negative, not
        all 0, one for each candidate; all 1 by default.
        Raises InvalidParameter for another shape or dtype.
        """
        row = _rows(scores, dimensions=1)
        return int(self._choose(row, _weights(weights, row.shape[1]), bits or _SECURE)[0])

    def release_rows(
        self,
        scores: ArrayLike,
        *,
        weights: ArrayLike | None = None,
        bits: RandomBits | None = None,
    ) -> NDArray[np.int64]:
        """The index of the chosen candidate in each row, drawn independently.

        scores: two dimensions, (rows, candidates), of integers or floats; weights: public, one
        for each candidate. The event of all rows together depends on how a person's rows are
        bounded: where one person moves the scores of one row only, it is `event`, once.
        """
        matrix = _rows(scores, dimensions=2)
        return self._choose(matrix, _weights(weights, matrix.shape[1]), bits or _SECURE)

    def log_probabilities(self, scores: ArrayLike, *, weights: ArrayLike | None = None) -> Floats:
        """Natural logarithms of the probabilities with which `release` chooses, in float64.

        scores: one dimension or more, candidates along the last. Private: for error prediction.
        """
        array = np.asarray(scores)
        matrix = _rows(array.reshape(-1, array.shape[-1]) if array.ndim else array, dimensions=2)
        exponents = self._exponents(matrix)
        given = _weights(weights, matrix.shape[1])
        with np.errstate(divide="ignore"):
            if given is not None:
                exponents += np.log(given.astype(np.float64))
            top = exponents.max(axis=1, keepdims=True)
            exponents -= top
            exponents -= np.log(np.exp(exponents).sum(axis=1, keepdims=True))
        return exponents.reshape(array.shape)

    def _exponents(self, matrix: NDArray[Any]) -> Floats:
        """The exponents, factor (score - best of the row), each to within 2^-51 relative."""
        best = matrix.max(axis=1, keepdims=True)
        with np.errstate(over="ignore", under="ignore"):
            if matrix.dtype.kind in "iu":
                # The difference of two 64-bit integers fits in uint64, whatever their signs.
                gap = np.subtract(best.view(np.uint64), matrix.view(np.uint64)).astype(np.float64)
            elif matrix.dtype.kind == "f":
                gap = np.subtract(best, matrix)
            else:
                gap = np.frompyfunc(_float, 1, 1)(best - matrix).astype(np.float64)
            exponents: Floats = np.multiply(gap, -float(self.factor))
        return exponents

    def _choose(
        self, matrix: NDArray[Any], weights: NDArray[Any] | None, bits: RandomBits
    ) -> NDArray[np.int64]:
        if weights is not None:
            # Candidates of weight 0 leave first, so that none of them can be the best.
            kept = np.flatnonzero(weights)
            return kept[self._invert(matrix[:, kept], weights[kept], bits)].astype(np.int64)
        return self._invert(matrix, None, bits)

    def _invert(
        self, matrix: NDArray[Any], weights: NDArray[Any] | None, bits: RandomBits
    ) -> NDArray[np.int64]:
        rows, candidates = matrix.shape
        chosen = np.empty(rows, dtype=np.int64)
        relative = None
        if weights is not None:
            heaviest = max(map(Fraction, weights.tolist()))
            relative = np.array([float(Fraction(w) / heaviest) for w in weights.tolist()])
        slack = (candidates + 64) * _ROUNDING
        step = max(_CHUNK // candidates, 1)
        for start in range(0, rows, step):
            part = matrix[start : start + step]
            words = bits.words(part.shape[0])
            cumulative = self._exponents(part)
            with np.errstate(under="ignore"):
                np.exp(cumulative, out=cumulative)
                if relative is not None:
                    cumulative *= relative
            np.cumsum(cumulative, axis=1, out=cumulative)
            total = cumulative[:, -1]
            goal = np.multiply(words, 2.0**-64) * total
            reach = slack * np.maximum(total, 1.0)
            low = np.argmax(cumulative > (goal - reach)[:, None], axis=1)
            high = np.argmax(cumulative > (goal + reach)[:, None], axis=1)
            doubtful = (low != high) | (goal + reach >= total)
            for index in np.flatnonzero(doubtful).tolist():
                uniform = LazyUniform(int(words[index]), length=64, bits=bits)
                low[index] = self._choose_exactly(part[index], weights, uniform)
            chosen[start : start + step] = low
        return chosen

    def _choose_exactly(
        self, scores: NDArray[Any], weights: NDArray[Any] | None, uniform: LazyUniform
    ) -> int:
        """The least index i with U total < w_0 + ... + w_i, by brackets of growing precision."""
        values = [Fraction(score) for score in scores.tolist()]
        bases = [Fraction(weight) for weight in (weights.tolist() if weights is not None else ())]
        best = max(values)
        exponents = [self.factor * (value - best) for value in values]
        while True:
            places = uniform.places + len(values).bit_length()
            low, high = _cumulative_bounds(exponents, bases, places)
            # U lies in [value, value + 1] / 2^length, the total in [low, high].
            first = uniform.value * low[-1]
            last = (uniform.value + 1) * high[-1]
            below = sum(bound << uniform.length <= first for bound in high)
            reached = sum(bound << uniform.length < last for bound in low)
            if below == reached:
                return below
            uniform.extend()


def _cumulative_bounds(
    exponents: Sequence[Fraction], bases: Sequence[Fraction], places: int
) -> tuple[list[int], list[int]]:
    """Integers that bracket each partial sum of base e^exponent, times 2^places."""
    known = {exponent: exp_bounds(exponent, places) for exponent in set(exponents)}
    lows, highs = zip(*(known[exponent] for exponent in exponents), strict=True)
    if bases:
        pairs = zip(lows, highs, bases, strict=True)
        scaled = [
            (
                low * base.numerator // base.denominator,
                -(-high * base.numerator // base.denominator),
            )
            for low, high, base in pairs
        ]
        lows, highs = zip(*scaled, strict=True)
    return list(accumulate(lows)), list(accumulate(highs))


def _rows(scores: ArrayLike | Sequence[Fraction], *, dimensions: int) -> NDArray[Any]:
    """The scores as a matrix of int64, uint64, float64 or exact Python numbers."""
    array = np.asarray(scores)
    if array.ndim != dimensions or array.shape[-1] == 0:
        raise InvalidParameter(
            "scores", array.shape, expected=f"{dimensions} dimension(s) and at least one candidate"
        )
    matrix = array.reshape(-1, array.shape[-1])
    kind, width = matrix.dtype.kind, matrix.dtype.itemsize
    if kind in "biu":
        return np.ascontiguousarray(matrix, np.uint64 if (kind, width) == ("u", 8) else np.int64)
    if kind == "f" and width <= 8:
        floats = matrix.astype(np.float64)
        return np.nan_to_num(floats, nan=0.0, posinf=_LARGEST_FLOAT, neginf=-_LARGEST_FLOAT)
    if kind == "O" and all(isinstance(score, int | Fraction) for score in matrix.flat):
        return matrix
    raise InvalidParameter(
        "scores", array.dtype, expected="integers, floats of at most 64 bits or Fractions"
    )


def _weights(weights: ArrayLike | None, candidates: int) -> NDArray[Any] | None:
    """The base measure, checked, or None where it is uniform."""
    if weights is None:
        return None
    array = np.asarray(weights)
    expected = f"{candidates} finite numbers, 0 or above, not all 0"
    if array.shape != (candidates,) or array.dtype.kind not in "iufO":
        raise InvalidParameter("weights", weights, expected=expected)
    if not all(0 <= weight < math.inf for weight in array.tolist()) or not any(array.tolist()):
        raise InvalidParameter("weights", weights, expected=expected)
    return array


def _float(value: Fraction | int) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf
