"""Bins of many lines side by side, of which only those with rows are apart from each other.

A line is a cell, or a part of one. Neighbouring bins without rows are one bin, since all of their
places have the same rows below them: a line has no more bins than about twice its rows, however
fine the grid is.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unacorda.query.aggregates.grid_counts import Asked, Refined

__all__ = ["Bins", "Runs", "bit_lengths", "counted_up", "smaller", "spans"]

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bins:
    """Bins, lines by bins: first place, places, weight of rows, and weight of all below.

    Weights are whole numbers, of any size where they are objects. Bins need not be in order, and
    some may have no places: where a line has fewer than others, and where they were replaced.
    """

    lows: Integers
    sizes: Integers
    weights: Any
    before: Any

    def of(self, lines: Any) -> Bins:
        """The bins of some lines."""
        return Bins(
            lows=self.lows[lines],
            sizes=self.sizes[lines],
            weights=self.weights[lines],
            before=self.before[lines],
        )

    def replaced(self, gone: tuple[Integers, Integers], by: Bins) -> Bins:
        """Others beside those that stay; gone: the lines and columns of those that do not."""
        sizes, weights = self.sizes.copy(), self.weights.copy()
        sizes[gone], weights[gone] = 0, 0
        return Bins(
            lows=np.concatenate([self.lows, by.lows], axis=1),
            sizes=np.concatenate([sizes, by.sizes], axis=1),
            weights=np.concatenate([weights, by.weights], axis=1),
            before=np.concatenate([self.before, by.before], axis=1),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """Bins of many lines one after the other, in order; lines: which each is of, rising."""

    lines: Integers
    lows: Integers
    sizes: Integers
    weights: Any
    before: Any

    @property
    def lengths(self) -> Integers:
        """How many bins each line has, up to the last one that has any."""
        return np.bincount(self.lines).astype(np.int64)

    def padded(self, count: int, *, end: int = 0) -> Bins:
        """The same as so many lines side by side; end: the place where missing ones stand.

        These follow the others of their line, and have what the last of those ends with below.
        """
        lengths = np.bincount(self.lines, minlength=count)
        columns = counted_up(lengths)
        shape = (count, int(lengths.max(initial=0)))
        lows, sizes = np.full(shape, end, np.int64), np.zeros(shape, np.int64)
        weights, before = (np.zeros(shape, self.weights.dtype) for _ in range(2))
        some = np.flatnonzero(lengths)
        last = np.cumsum(lengths)[some] - 1
        before[some] = (self.before[last] + self.weights[last])[:, None]
        at = self.lines, columns
        lows[at], sizes[at], weights[at], before[at] = (
            self.lows,
            self.sizes,
            self.weights,
            self.before,
        )
        return Bins(lows=lows, sizes=sizes, weights=weights, before=before)


def counted_up(lengths: Integers) -> Integers:
    """0, 1, ... for each length up to below it, one after the other."""
    ends = np.cumsum(lengths)
    return np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - lengths, lengths)


def bit_lengths(values: Integers) -> Integers:
    """How many binary digits whole numbers of at most 2^52 have, 0 or above."""
    return np.frexp(values.astype(np.float64))[1].astype(np.int64)


def smaller(asked: Asked, found: Refined | None) -> tuple[Integers, Integers, Integers, Integers]:
    """Runs that fill what was asked about, in points: number, first point, points, rows."""
    firsts, lasts, shifts = (
        np.asarray(column, dtype=np.int64) for column in (asked.lows, asked.highs, asked.shifts)
    )
    nothing = np.zeros(0, np.int64)
    lines, children, counts = (
        (nothing,) * 3 if found is None else (found.lines, found.children, found.counts)
    )
    lines, children, lengths, counts = spans(
        lines, children, counts, ((lasts - firsts) >> shifts) + 1
    )
    lows = firsts[lines] + (children << shifts[lines])
    sizes = np.minimum(lows + (lengths << shifts[lines]), lasts[lines] + 1) - lows
    return lines, lows, sizes, counts


def spans(
    lines: Integers, places: Integers, rows: Integers, widths: Integers
) -> tuple[Integers, Integers, Integers, Integers]:
    """Runs that fill every line: the line, the first place, how many there are, and the rows.

    lines, places: where there are rows, or a run is to be by itself, each once, in any order;
    widths: how many places each line has, 1 or more.
    """
    starts = np.cumsum(widths) - widths
    whole = int(widths.sum())
    keys = starts[lines] + places
    order = np.argsort(keys, kind="stable")
    keys, rows = keys[order], rows[order]
    marks = np.sort(np.concatenate([starts, keys, keys + 1]), kind="stable")
    marks = marks[(np.diff(marks, prepend=-1) > 0) & (marks < whole)]
    found = np.zeros(len(marks), rows.dtype)
    found[np.searchsorted(marks, keys)] = rows
    of = np.searchsorted(starts, marks, side="right") - 1
    return of, marks - starts[of], np.diff(np.append(marks, whole)), found
