r"""A score for outputs, learned from samples: how much likelier one input makes them.

Outputs become a few public features each; every feature is cut into bins, or taken value by value
where it has few; the score adds up the logarithms of the ratios of counts (naive Bayes). It need
not be the best score: whatever it is, the verdict on fresh samples holds.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["Score"]

Floats = NDArray[np.float64]

_BINS: Final = 48
_SMOOTHED: Final = 2.0
_WIDEST: Final = 64
_ALONE: Final = 6
_JOINT: Final = 6
_BULK: Final = 20


def _shape(outputs: Sequence[Any]) -> tuple[int, ...] | None:
    """Of each output, if all are numbers, or lines of numbers of one length; else None."""
    table = _table(outputs)
    return None if table is None or table.ndim > 2 or not table.size else table.shape[1:]


def _features(outputs: Sequence[Any], *, numeric: bool) -> list[NDArray[Any]]:
    """Features of outputs, each an array of one value an output, which hangs on that one alone.

    Numbers give themselves and the place of their lowest set bit, which tells noise that was added
    in floating point; lines of numbers these for each place, and sums, extremes and how many are
    equal; short lines are taken as a whole too; anything else is a name.
    """
    table = _table(outputs) if numeric else None
    if table is None:
        return [_names(outputs)]
    if table.ndim == 1:
        table = table[:, None]
    columns = list(table.T[:_WIDEST])
    found: list[NDArray[Any]] = [*columns, *(_lowest_bit(column) for column in columns[:2])]
    if table.shape[1] > 1:
        with np.errstate(all="ignore"):
            found += [table.sum(axis=1), table.max(axis=1), table.min(axis=1)]
            found.append((np.diff(np.sort(table, axis=1), axis=1) != 0).sum(axis=1) + 1.0)
            found.append(table[:, 0] - table[:, 1])
            found.append(np.argmax(np.nan_to_num(table), axis=1).astype(np.float64))
    if 1 < table.shape[1] <= _JOINT:
        found.append(_names(outputs))
    return found


@dataclass(frozen=True, slots=True, repr=False)
class Score:
    """The sum over some features of the logarithms of their ratios; higher for the first input.

    shape: of outputs that are numbers, from which it was learned; None where they are names.
    """

    parts: Sequence[_Part | _Slope]
    shape: tuple[int, ...] | None

    @classmethod
    def candidates(cls, first: Sequence[Any], second: Sequence[Any]) -> list[Score]:
        """From outputs on the first input and on the second: each feature alone, and all together.

        >>> (score, *_) = Score.candidates(["a"] * 90 + ["b"] * 10, ["a"] * 10 + ["b"] * 90)
        >>> np.sign(score(["a", "b"])).tolist()
        [1.0, -1.0]
        """
        shape = _shape([*first, *second])
        numeric = shape is not None
        features = (_features(outputs, numeric=numeric) for outputs in (first, second))
        pairs = enumerate(zip(*features, strict=True))
        parts = [_Part.learned(index, one, other) for index, (one, other) in pairs]
        alone = [cls([part], shape) for part in (*parts[:_ALONE], *parts[_WIDEST:])]
        return [*alone, cls(parts, shape), *cls._lines(first, second)] if parts[1:] else alone

    @classmethod
    def _lines(cls, first: Sequence[Any], second: Sequence[Any]) -> list[Score]:
        """One straight line through all columns, which few samples of many columns can teach."""
        tables = [_table(outputs) for outputs in (first, second)]
        if any(table is None or table.ndim != 2 or table.shape[1] < 2 for table in tables):
            return []
        one, other = (table for table in tables if table is not None)
        width = min(one.shape[1], _WIDEST)
        slopes = [_Slope.learned(k, one[:, k], other[:, k]) for k in range(width)]
        return [cls(slopes, one.shape[1:])]

    def __call__(self, outputs: Sequence[Any]) -> Floats:
        """One score an output, whatever the others are: so verdicts on samples hold.

        A kind of output that was not seen before is scored as if nothing were known.
        """
        known, chosen = np.ones(len(outputs), dtype=np.bool_), outputs
        if self.shape is not None and _shape(outputs) != self.shape:
            known = np.array([_shape([output]) == self.shape for output in outputs])
            chosen = [output for output, like in zip(outputs, known, strict=True) if like]
        total = np.zeros(len(outputs))
        if len(chosen) > 0:
            features = _features(chosen, numeric=self.shape is not None)
            for part in self.parts:
                total[known] += part(features[part.index])
        return total


@dataclass(frozen=True, slots=True, repr=False)
class _Part:
    """One feature: known values, or the edges of bins, and the logarithms of their ratios.

    ratios: one a value or bin, then that of what was not seen or is NaN.
    """

    index: int
    places: NDArray[Any]
    binned: bool
    ratios: Floats

    @classmethod
    def learned(cls, index: int, first: NDArray[Any], second: NDArray[Any]) -> _Part:
        both = np.concatenate([first, second])
        places = np.unique(both) if both.dtype == object else np.unique(both[~np.isnan(both)])
        binned = places.size > _BINS and both.dtype != object
        if binned:
            finite = both[np.isfinite(both)]
            places = np.unique(np.quantile(finite, np.linspace(0, 1, _BINS + 1)[1:-1]))
        one, other = (
            np.bincount(_codes(values, places, binned=binned), minlength=places.size + 2)
            for values in (first, second)
        )
        return cls(index, places, binned, np.log(one + _SMOOTHED) - np.log(other + _SMOOTHED))

    def __call__(self, values: NDArray[Any]) -> Floats:
        found: Floats = self.ratios[_codes(values, self.places, binned=self.binned)]
        return found


@dataclass(frozen=True, slots=True, repr=False)
class _Slope:
    """A column taken to be normal with one variance: its part of the logarithm is a line.

    What is not finite or beyond the bulk of what was seen counts as its nearest end, NaN as 0.
    """

    index: int
    low: float
    high: float
    slope: float

    @classmethod
    def learned(cls, index: int, first: Floats, second: Floats) -> _Slope:
        both = np.concatenate([first, second])
        known = both[np.isfinite(both)]
        if known.size < _BULK:
            return cls(index, 0.0, 0.0, 0.0)
        low, high = (float(end) for end in np.quantile(known, (0.02, 0.98)))
        with np.errstate(over="ignore", invalid="ignore"):
            one, other = (np.clip(np.nan_to_num(part), low, high) for part in (first, second))
            deviation = math.sqrt((float(np.var(one)) + float(np.var(other))) / 2)
            gap = float(np.mean(one) - np.mean(other))
            spread = max(deviation, abs(gap) * 1e-6)
            slope = gap / spread**2 if spread else 0.0
        return cls(index, low, high, slope if math.isfinite(slope) else 0.0)

    def __call__(self, values: NDArray[Any]) -> Floats:
        centred = np.clip(np.nan_to_num(values), self.low, self.high) - (self.low + self.high) / 2
        found: Floats = self.slope * centred
        return found


def _codes(values: NDArray[Any], places: NDArray[Any], *, binned: bool) -> NDArray[np.intp]:
    """Which place or bin each value is; the last code is for NaN and for what is not known."""
    codes = np.searchsorted(places, values)
    if not places.size:  # everything that was seen is NaN
        return np.ones_like(codes)
    if not binned:
        known = np.append(places, places[:1])[np.minimum(codes, places.size)] == values
        return np.where(known & (codes < places.size), codes, places.size + 1)
    return np.where(np.isnan(values), places.size + 1, codes)


def _lowest_bit(values: Floats) -> Floats:
    """log2 of the lowest set bit of each number: how fine the grid is that it lies on."""
    mantissa, exponent = np.frexp(np.where(np.isfinite(values), values, 0.0))
    whole = np.abs(np.ldexp(mantissa, 53)).astype(np.int64)
    lowest = whole & -whole
    return np.where(whole > 0, np.log2(np.maximum(lowest, 1)) + exponent - 53, 9999.0)


def _table(outputs: Sequence[Any]) -> Floats | None:
    if any(isinstance(output, str | bytes) for output in outputs):
        return None  # NumPy would read text that looks like a number as one
    try:
        return np.array(outputs, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):  # of whole numbers beyond all floats
        return None


def _names(outputs: Sequence[Any]) -> NDArray[Any]:
    return np.array([_name(output) for output in outputs], dtype=object)


def _name(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return repr(value.tolist())
    return repr(value.item() if isinstance(value, np.generic) else value)
