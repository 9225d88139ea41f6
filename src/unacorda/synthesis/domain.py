"""Domains of synthetic tables: columns of cells, all of them public."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import datetime as dt
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from unacorda.checks import demand, is_text
from unacorda.errors import InvalidParameter
from unacorda.privacy.events.fields import keep
from unacorda.synthesis.junction_tree import Columns

Scalar: TypeAlias = str | bool | int | float | dt.date | None

_MOST_CELLS: Final = 1 << 16
_PLAIN: Final = (bool, int, float, dt.date, str)  # the types of values that frames have
_FIRST_DAY: Final = dt.date.min.toordinal()
_LAST_DAY: Final = dt.date.max.toordinal()


@dataclass(frozen=True, slots=True, kw_only=True)
class CategoryColumn:
    """A column of listed values, one cell each; a listed None is the cell of missing values.

    Parameters
    ----------
    name
        Of the column, not empty.
    values
        Distinct, at least one.
    other
        The label of a cell for all other values. With None there is no such cell: other values
        count as None if that is listed, else as the first value.

    Raises InvalidParameter for an empty name, no values, equal ones and more than 2^16.

    >>> sex = CategoryColumn(name="sex", values=("F", "M", None), other=None)
    >>> sex.encode(["M", "F", "x", None]).tolist()
    [1, 0, 2, 2]
    >>> sex.decode(np.array([0, 2])).tolist()
    ['F', None]
    """

    name: str
    values: tuple[Scalar, ...]
    other: str | None = "other"

    def __post_init__(self) -> None:
        demand(is_text(self.name), "name", self.name, expected="a non-empty text")
        keep(self, values=tuple(self.values))
        fits = 1 <= len(set(self.labels)) == len(self.labels) <= _MOST_CELLS
        fits = fits and bool(self.values)
        expected = f"of {self.name} 1 to 65,535 different values, `other` apart"
        demand(fits, "values", self.values, expected=expected)

    @property
    def labels(self) -> tuple[Scalar, ...]:
        """What each cell is called."""
        return self.values if self.other is None else (*self.values, self.other)

    @property
    def size(self) -> int:
        """How many cells."""
        return len(self.labels)

    def encode(self, values: Sequence[Any] | NDArray[Any]) -> NDArray[np.int64]:
        """The cell of each value; no value is refused."""
        places = {label: place for place, label in enumerate(self.labels)}
        rest = self.size - 1 if self.other is not None else places.get(None, 0)
        items = np.asarray(values, dtype=object).reshape(-1).tolist()
        cells = [places.get(_scalar(item), rest) for item in items]
        return np.array(cells, np.int64)

    def decode(
        self,
        cells: NDArray[np.int64],
        *,
        generator: np.random.Generator | None = None,  # noqa: ARG002 - as that of bins
    ) -> NDArray[Any]:
        """The label of each cell."""
        labels = np.empty(self.size, dtype=object)
        labels[:] = self.labels
        found: NDArray[Any] = labels[cells]
        return found

    def plain(self, values: NDArray[Any]) -> tuple[type, list[Any]]:
        """The type of decoded values, and these as Python objects.

        Labels of several types, such as numbers and "other", are text.

        >>> size = CategoryColumn(name="size", values=(1, 2))
        >>> size.plain(np.array([1, "other"], object))
        (<class 'str'>, ['1', 'other'])
        """
        kinds = {type(label) for label in self.labels if label is not None}
        kind = kinds.pop() if len(kinds) == 1 else str
        if kind not in _PLAIN or not all(map(_fits_in_a_word, self.labels)):
            kind = str
        found = values.tolist()
        return kind, [None if x is None else str(x) for x in found] if kind is str else found


@dataclass(frozen=True, slots=True, kw_only=True)
class BinnedColumn:
    """A column of numbers or dates in bins, and a last cell for missing ones.

    Values outside the edges count as the nearest edge. Values drawn from cells are spread evenly in
    their bin; whole numbers stay whole, and dates are dates.

    Parameters
    ----------
    name
        Of the column, not empty.
    edges
        Increasing, finite, at least two. A bin includes its lower edge, the last one both. For
        dates they may be dates, and are stored as days, with 1 for January 1 of the year 1.
    whole
        Whether its numbers are whole; then edges are too.
    missing
        Whether missing values have a cell; without one they count as the lowest edge.
    dates
        Whether its values are dates.

    Raises InvalidParameter for an empty name and for edges that are not increasing, not finite, not
    whole (if `whole`), not dates (if `dates`), or more than 2^16.

    >>> age = BinnedColumn(name="age", edges=(0, 18, 65, 120), whole=True, missing=True)
    >>> age.encode([17.0, 18.0, -3.0, 120.0, float("nan")]).tolist()
    [0, 1, 0, 2, 3]
    >>> age.labels
    ('[0, 18)', '[18, 65)', '[65, 120]', None)
    >>> days = dt.date(2024, 1, 1), dt.date(2024, 1, 2)
    >>> seen = BinnedColumn(name="seen", edges=days, dates=True)
    >>> seen.labels, seen.encode([dt.date(2030, 1, 1)]).tolist()
    (('[2024-01-01, 2024-01-02]',), [0])
    """

    name: str
    edges: tuple[float, ...]
    whole: bool = False
    missing: bool = False
    dates: bool = False

    def __post_init__(self) -> None:
        demand(is_text(self.name), "name", self.name, expected="a non-empty text")
        keep(self, whole=self.whole or self.dates)
        try:
            edges = tuple(map(_day if self.dates else float, self.edges))
        except (TypeError, ValueError, OverflowError):
            edges = ()
        fits = 2 <= len(edges) <= _MOST_CELLS and all(map(math.isfinite, edges))
        fits = fits and all(low < high for low, high in itertools.pairwise(edges))
        fits = fits and (not self.whole or all(edge.is_integer() for edge in edges))
        fits = fits and (not self.dates or _FIRST_DAY <= edges[0] <= edges[-1] <= _LAST_DAY)
        what = "dates" if self.dates else "whole numbers" if self.whole else "finite numbers"
        demand(fits, "edges", self.edges, expected=f"2 to 65,536 {what} that increase")
        keep(self, edges=edges)

    @property
    def labels(self) -> tuple[Scalar, ...]:
        """What each cell is called."""
        shown = [self._shown(edge) for edge in self.edges]
        pairs = list(itertools.pairwise(shown))
        ends = [")"] * (len(pairs) - 1) + ["]"]
        texts = [f"[{a}, {b}{end}" for (a, b), end in zip(pairs, ends, strict=True)]
        return (*texts, None) if self.missing else tuple(texts)

    @property
    def size(self) -> int:
        """How many cells."""
        return len(self.edges) - 1 + self.missing

    @property
    def ends(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The least and the largest number of each bin.

        >>> BinnedColumn(name="age", edges=(0, 18, 65), whole=True).ends[1].tolist()
        [17.0, 65.0]
        """
        edges = np.array(self.edges)
        highest = edges[1:].copy()
        if self.whole:
            highest[:-1] -= 1.0
        return edges[:-1], highest

    def encode(self, values: Sequence[Any] | NDArray[Any]) -> NDArray[np.int64]:
        """The cell of each number or date; no value is refused, and NaN and None are missing."""
        if self.dates:
            items = np.asarray(values, dtype=object).reshape(-1).tolist()
            days = [_day(item) if isinstance(item, dt.date) else math.nan for item in items]
            floats = np.array(days, np.float64)
        else:
            floats = np.asarray(values, dtype=np.float64).reshape(-1)
        bins = len(self.edges) - 1
        places = np.searchsorted(np.array(self.edges), floats, side="right") - 1
        cells: NDArray[np.int64] = np.clip(places, 0, bins - 1).astype(np.int64)
        cells[np.isnan(floats)] = bins if self.missing else 0
        return cells

    def decode(
        self, cells: NDArray[np.int64], *, generator: np.random.Generator | None = None
    ) -> NDArray[Any]:
        """A number or date in the bin of each cell, evenly spread; NaN or None where missing.

        generator: by default one with seed 0. Whole numbers are int64 if none can be missing, else
        float64; dates are objects.
        """
        source = generator or np.random.default_rng(0)
        edges, bins = np.array(self.edges), len(self.edges) - 1
        place = np.minimum(cells, bins - 1)
        low, high = edges[place], edges[place + 1]
        uniform = source.random(cells.size)
        if self.whole:
            numbers = low + np.floor(uniform * (high - low + (place == bins - 1)))
        else:
            numbers = np.minimum(low + uniform * (high - low), high)
        if self.dates:
            found = np.empty(cells.size, dtype=object)
            days = map(dt.date.fromordinal, np.asarray(numbers, np.int64).tolist())
            found[:] = [None if at == bins else day for at, day in zip(cells, days, strict=True)]
            return found
        if self.whole and not self.missing:
            return np.asarray(numbers, np.int64)
        return np.where(cells == bins, math.nan, numbers)

    def plain(self, values: NDArray[Any]) -> tuple[type, list[Any]]:
        """The type of decoded values, and these as Python objects, None for missing ones."""
        if self.dates:
            return dt.date, values.tolist()
        kept = [None if math.isnan(value) else value for value in values.tolist()]
        if self.whole:
            return int, [None if value is None else int(value) for value in kept]
        return float, kept

    def _shown(self, edge: float) -> str:
        if self.dates:
            return dt.date.fromordinal(int(edge)).isoformat()
        short = f"{edge:g}"
        return short if float(short) == edge else repr(int(edge) if edge.is_integer() else edge)


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """The columns of a synthetic table.

    columns: at least one, of different names. Raises InvalidParameter for others.

    >>> domain = Domain(
    ...     columns=(
    ...         CategoryColumn(name="sex", values=("F", "M")),
    ...         BinnedColumn(name="age", edges=(0, 18, 65, 120)),
    ...     )
    ... )
    >>> domain.sizes, domain.places(["age"])
    ((3, 3), (1,))
    """

    columns: tuple[CategoryColumn | BinnedColumn, ...]

    def __post_init__(self) -> None:
        keep(self, columns=tuple(self.columns))
        fits = 1 <= len(set(self.names)) == len(self.names)
        demand(fits, "columns", self.names, expected="one or more columns of different names")

    @property
    def names(self) -> tuple[str, ...]:
        """Of the columns."""
        return tuple(column.name for column in self.columns)

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many cells each column has."""
        return tuple(column.size for column in self.columns)

    def places(self, names: Sequence[str]) -> Columns:
        """The places of some columns, in increasing order; InvalidParameter for unknown names."""
        known = self.names
        for name in names:
            if name not in known:
                raise InvalidParameter("columns", name, expected=f"one of {', '.join(known)}")
        return tuple(sorted({known.index(name) for name in names}))


def _fits_in_a_word(label: Scalar) -> bool:
    """Whether Arrow has room for it, where it is a whole number."""
    return not isinstance(label, int) or -(1 << 63) <= label < 1 << 63


def _scalar(item: Any) -> Any:
    """The value as a dictionary finds it: NaN is a missing one, what has no hash an unknown one."""
    if isinstance(item, float) and math.isnan(item):
        return None
    try:
        hash(item)
    except TypeError:
        return _UNKNOWN
    return item


def _day(value: Any) -> float:
    """The number of a date; a number is one already."""
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return float(value.toordinal())
    return float(value)


_UNKNOWN: Final = object()
