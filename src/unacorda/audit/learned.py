r"""A score for outputs, learned from samples: an estimated log-likelihood ratio.

Each output gives a few public features. Every feature is binned, or taken value by value if it has
few values. The score is the sum of the logarithms of the ratios of counts (naive Bayes). Single
features are tried too: as they are, for half-lines, and value by value, for any number of values.
So a repeated output (noise that is missing, or drawn from few seeds) is never merged with others.
It need not be the best score: the verdict on fresh samples is valid for any score.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_BINS: Final = 48
_SMOOTHED: Final = 2.0
_WIDEST: Final = 64
_ALONE: Final = 6
_JOINT: Final = 6
_BULK: Final = 20
_SHOWN: Final = 4
_WHOLE: Final = "the output"


def _shape(outputs: Sequence[Any]) -> tuple[int, ...] | None:
    """Of each output, if all are numbers, or lines of numbers of one length; else None."""
    table = _table(outputs)
    return None if table is None or table.ndim > 2 or not table.size else table.shape[1:]


def _features(outputs: Sequence[Any], *, numeric: bool) -> dict[str, Callable[[], NDArray[Any]]]:
    """Features by name, each an array of one value per output, which depends on that one alone.

    Numbers give themselves and the place of their lowest set bit, which tells noise that was added
    in floating point; lines of numbers these for each place, and sums, extremes and how many are
    equal, and the line as a whole; anything else is a name.
    """
    table = _table(outputs) if numeric else None
    if table is None:
        return {_WHOLE: lambda: _names(outputs)}
    rows = table if table.ndim > 1 else table[:, None]
    if rows.shape[1] == 1:
        return {
            _WHOLE: lambda: rows[:, 0],
            f"the lowest bit of {_WHOLE}": lambda: _lowest_bit(rows[:, 0]),
        }
    found: dict[str, Callable[[], NDArray[Any]]] = {
        _column(k): partial(np.take, rows, k, axis=1) for k in range(min(rows.shape[1], _WIDEST))
    }
    found |= {f"the lowest bit of {_column(k)}": partial(_lowest_bit, rows[:, k]) for k in (0, 1)}
    return found | {
        "the sum": lambda: rows.sum(axis=1),
        "the largest": lambda: rows.max(axis=1),
        "the least": lambda: rows.min(axis=1),
        "how many are different": lambda: (
            (np.diff(np.sort(rows, axis=1), axis=1) != 0).sum(axis=1) + 1.0
        ),
        "the first two's difference": lambda: rows[:, 0] - rows[:, 1],
        "the place of the largest": lambda: np.argmax(np.nan_to_num(rows), axis=1).astype(
            np.float64
        ),
        _WHOLE: lambda: _rows(rows),
    }


def _column(k: int) -> str:
    return f"output[{k}]"


@dataclass(frozen=True, slots=True, repr=False)
class Score:
    """The sum over some features of their log ratios; higher for the first input.

    shape: of the numeric outputs that it was learned from; None for names.
    """

    parts: Sequence[_Feature | _Slope | _Line]
    shape: tuple[int, ...] | None

    @classmethod
    def candidates(cls, first: Sequence[Any], second: Sequence[Any]) -> list[Score]:
        """From outputs on the first input and on the second: each feature alone, and all together.

        >>> (score, *_) = Score.candidates(["a"] * 90 + ["b"] * 10, ["a"] * 10 + ["b"] * 90)
        >>> np.sign(score(["a", "b"])).tolist()
        [1.0, -1.0]
        """
        shape = _shape(first)
        shape = shape if shape == _shape(second) else None
        numeric = shape is not None
        one, other = (_features(outputs, numeric=numeric) for outputs in (first, second))
        hidden = {_column(k) for k in range(_ALONE, _WIDEST)}
        long = shape is not None and shape[0:] > (_JOINT,)
        parts, found = [], []
        for name in one:
            with np.errstate(all="ignore"):
                seen = one[name](), other[name]()
            part = _Feature.learned(name, *seen)
            if not (name == _WHOLE and long):  # too many names for a sum over all parts
                parts.append(part)
            if name in hidden:
                continue
            found.append(cls([part], shape))
            if seen[0].dtype != object:
                found += [cls([_Line(name, sign)], shape) for sign in (1.0, -1.0)]
            if part.binned:
                found.append(cls([_Feature.learned(name, *seen, apart=True)], shape))
        return [*found, cls(parts, shape), *cls._lines(first, second)] if parts[1:] else found

    @classmethod
    def _lines(cls, first: Sequence[Any], second: Sequence[Any]) -> list[Score]:
        """One straight line through all columns, which few samples of many columns can teach."""
        tables = [_table(outputs) for outputs in (first, second)]
        if any(table is None or table.ndim != 2 or table.shape[1] < 2 for table in tables):
            return []
        one, other = (table for table in tables if table is not None)
        width = min(one.shape[1], _WIDEST)
        slopes = [_Slope.learned(_column(k), one[:, k], other[:, k]) for k in range(width)]
        return [cls(slopes, one.shape[1:])]

    def said(self, cut: float, *, above: bool) -> str:
        """The outputs whose score is at least the cut, or below it, in words."""
        (first, *others) = self.parts
        if not others and not isinstance(first, _Slope):
            return first.said(cut, above=above)
        names = [part.name for part in self.parts]
        shown = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
        return f"a score learned of {shown} is {'at least' if above else 'below'} {cut:.4g}"

    def __call__(self, outputs: Sequence[Any]) -> Floats:
        """One score per output, independent of the others, so verdicts on samples are valid.

        A new kind of output gets a neutral score.
        """
        known, chosen = np.ones(len(outputs), dtype=np.bool_), outputs
        if self.shape is not None and _shape(outputs) != self.shape:
            known = np.array([_shape([output]) == self.shape for output in outputs])
            chosen = [output for output, like in zip(outputs, known, strict=True) if like]
        total = np.zeros(len(outputs))
        if len(chosen) > 0:
            features = _features(chosen, numeric=self.shape is not None)
            for part in self.parts:
                with np.errstate(all="ignore"):
                    total[known] += part(features[part.name]())
        return total


@dataclass(frozen=True, slots=True, repr=False)
class _Feature:
    """One feature: known values, or the edges of bins, and the logarithms of their ratios.

    ratios: one a value or bin, then that of what was not seen or is NaN.
    """

    name: str
    places: NDArray[Any]
    binned: bool
    ratios: Floats

    @classmethod
    def learned(
        cls, name: str, first: NDArray[Any], second: NDArray[Any], *, apart: bool = False
    ) -> _Feature:
        """apart: value by value, however many there are."""
        both = np.concatenate([first, second])
        places = np.unique(both) if both.dtype == object else np.unique(both[~np.isnan(both)])
        binned = places.size > _BINS and both.dtype != object and not apart
        if binned:
            finite = both[np.isfinite(both)]
            places = np.unique(np.quantile(finite, np.linspace(0, 1, _BINS + 1)[1:-1]))
        one, other = (
            np.bincount(_codes(values, places, binned=binned), minlength=places.size + 2)
            for values in (first, second)
        )
        return cls(name, places, binned, np.log(one + _SMOOTHED) - np.log(other + _SMOOTHED))

    def __call__(self, values: NDArray[Any]) -> Floats:
        found: Floats = self.ratios[_codes(values, self.places, binned=self.binned)]
        return found

    def said(self, cut: float, *, above: bool) -> str:
        """Where the score is at least the cut, or below it, in words."""
        inside = (self.ratios >= cut) == above
        known, rest = inside[:-2] if not self.binned else inside[:-1], bool(inside[-1])
        if not self.binned:
            order = np.argsort(-self.ratios[:-2] if above else self.ratios[:-2], kind="stable")
            inner, left = (self.places[order[known[order] == here]] for here in (True, False))
            return f"{self.name} is {_listed(inner, left[::-1], rest=rest)}"
        ends = [-math.inf, *self.places.tolist(), math.inf]
        runs: list[list[float]] = []
        for low, high, here in zip(ends, ends[1:], known.tolist(), strict=False):
            if here and runs and runs[-1][1] == low:
                runs[-1][1] = high
            elif here:
                runs.append([low, high])
        shown = " or ".join(f"({low:.6g}, {high:.6g}]" for low, high in runs[:_SHOWN])
        more = f" or in {len(runs) - _SHOWN} more intervals" if len(runs) > _SHOWN else ""
        return f"{self.name} is in {shown or 'none of the bins'}{more}{' or NaN' if rest else ''}"


@dataclass(frozen=True, slots=True, repr=False)
class _Line:
    """A number as it is, or with its sign turned: half-lines are what it tells apart."""

    name: str
    sign: float

    def __call__(self, values: Floats) -> Floats:
        return self.sign * np.where(np.isnan(values), -math.inf * self.sign, values)

    def said(self, cut: float, *, above: bool) -> str:
        """Where the score is at least the cut, or below it, in words."""
        if self.sign > 0:
            return f"{self.name} {'>=' if above else '<'} {cut:.6g}"
        return f"{self.name} {'<=' if above else '>'} {-cut:.6g}"


@dataclass(frozen=True, slots=True, repr=False)
class _Slope:
    """A column taken to be normal with one variance: its part of the logarithm is a line.

    What is not finite or beyond the bulk of what was seen counts as its nearest end, NaN as 0.
    """

    name: str
    low: float
    high: float
    slope: float

    @classmethod
    def learned(cls, name: str, first: Floats, second: Floats) -> _Slope:
        both = np.concatenate([first, second])
        known = both[np.isfinite(both)]
        if known.size < _BULK:
            return cls(name, 0.0, 0.0, 0.0)
        low, high = (float(end) for end in np.quantile(known, (0.02, 0.98)))
        with np.errstate(over="ignore", invalid="ignore"):
            one, other = (np.clip(np.nan_to_num(part), low, high) for part in (first, second))
            deviation = math.sqrt((float(np.var(one)) + float(np.var(other))) / 2)
            gap = float(np.mean(one) - np.mean(other))
            spread = max(deviation, abs(gap) * 1e-6)
            slope = gap / spread**2 if spread else 0.0
        return cls(name, low, high, slope if math.isfinite(slope) else 0.0)

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
    if isinstance(outputs, np.ndarray) and outputs.dtype.kind in "biuf":
        return outputs.astype(np.float64)
    if any(isinstance(output, str | bytes) for output in outputs):
        return None  # NumPy would read text that looks like a number as one
    try:
        return np.array(outputs, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):  # of whole numbers beyond all floats
        return None


def _rows(table: Floats) -> NDArray[Any]:
    """One name a row of numbers."""
    return np.array([repr(row) for row in (table + 0.0).tolist()], dtype=object)


def _listed(known: NDArray[Any], others: NDArray[Any], *, rest: bool) -> str:
    """Values, the few that there are on one side, of all that were seen and those that were not."""
    some, more = (others, "anything but ") if rest else (known, "")
    if rest and not some.size:
        return "anything"
    shown = ", ".join(str(value) for value in some[:_SHOWN].tolist())
    beyond = f" or one of {some.size - _SHOWN:,} more" if some.size > _SHOWN else ""
    return f"{more}{shown or 'none of those seen before'}{beyond}"


def _names(outputs: Sequence[Any]) -> NDArray[Any]:
    return np.array([_name(output) for output in outputs], dtype=object)


def _name(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return repr(value.tolist())
    return repr(value.item() if isinstance(value, np.generic) else value)
