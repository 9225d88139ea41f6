"""Quartiles of columns of a table, by counts in bins and in bins of bins, with normal noise."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from unacorda.inference.loss_texts import cut_text, number
from unacorda.inference.records import Floats
from unacorda.inference.tables import Table, Wish
from unacorda.privacy.guarantees import GDP

__all__ = ["table_quartiles"]

_BINS: Final = 32
"""In each of two scans: the ends of their bins are a thousandth of the range apart."""

_RANKS: Final = (0.25, 0.75)


def table_quartiles(
    table: Table,
    columns: Sequence[str],
    *,
    ends: Sequence[tuple[float, float]],
    rows: float,
    share: Fraction,
    pay: Callable[[Fraction], GDP],
) -> Floats:
    """The first and third quartile of each column, to a thousandth of its public range.

    ends: that range; what is beyond counts as its end. rows: how many there are, released; share:
    of mu^2, for all of it, which `pay` takes out of what there is, part by part.
    """
    each = share / (2 * len(columns))
    whole = [
        _Bins(text=text, low=low, high=high, last=True) for text, (low, high) in _all(columns, ends)
    ]
    counts = _counted(table, whole, [pay(each) for _ in whole])
    found = [
        (bins, *_place(count, rank * rows))
        for bins, count in zip(whole, counts, strict=True)
        for rank in _RANKS
    ]
    finer = [bins.within(place) for bins, place, _ in found]
    counts = _counted(table, finer, [pay(each / 2) for _ in finer])
    points = [
        bins.point(count, rank * rows - below)
        for bins, count, (_, _, below), rank in zip(
            finer, counts, found, _RANKS * len(columns), strict=True
        )
    ]
    return np.array(points).reshape(-1, len(_RANKS))


def _all(
    columns: Sequence[str], ends: Sequence[tuple[float, float]]
) -> list[tuple[str, tuple[float, float]]]:
    cut = [cut_text(f"({text})", *end) for text, end in zip(columns, ends, strict=True)]
    return list(zip(cut, ends, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bins:
    """Equal parts of a range of a number. last: whether its upper end is in the last of them."""

    text: str
    low: float
    high: float
    last: bool

    @property
    def place(self) -> str:
        """SQL of the bin that a number is in, below 0 or too large where it is in none."""
        width = number((self.high - self.low) / _BINS)
        place = f"floor(({self.text} - {number(self.low)}) / {width})"
        return f"least({place}, {_BINS - 1})" if self.last else place

    def within(self, place: int) -> _Bins:
        """The bins of one of them."""
        edges = np.linspace(self.low, self.high, _BINS + 1)
        low, high = float(edges[place]), float(edges[place + 1])
        return _Bins(text=self.text, low=low, high=high, last=self.last and place == _BINS - 1)

    def point(self, counts: Floats, rank: float) -> float:
        """Where the row of a rank lies, as if those of a bin were spread evenly over it."""
        place, before = _place(counts, rank)
        along = min(max((rank - before) / max(float(counts[place]), 1.0), 0.0), 1.0)
        return self.low + (self.high - self.low) * (place + along) / _BINS


def _counted(table: Table, asked: Sequence[_Bins], budgets: Sequence[GDP]) -> list[Floats]:
    """Noisy counts by bin, in one scan: a row is in one bin at most, a vector of length 1."""
    places = {f"bin{number}": bins.place for number, bins in enumerate(asked)}
    wishes = [
        Wish(
            vector=[f"CASE WHEN {name} = {place} THEN 1 ELSE 0 END" for place in range(_BINS)],
            value="1",
            bound=Fraction(1),
            budget=budget,
        )
        for name, budget in zip(places, budgets, strict=True)
    ]
    return [np.array(values) for values, _ in table.sums([places], wishes)]


def _place(counts: Floats, rank: float) -> tuple[int, float]:
    """The bin that holds the row of a rank, and how many rows there are before that bin."""
    before = np.concatenate([[0.0], np.maximum.accumulate(np.cumsum(counts))])
    place = min(int(np.searchsorted(before[1:], rank)), _BINS - 1)
    return place, float(before[place])
