"""Synthetic rows as data frames, each column of one type."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from unacorda.extras import require
from unacorda.synthesis.domain import BinnedColumn, CategoryColumn, Domain

if TYPE_CHECKING:
    import pandas
    import pyarrow


def plain_values(
    column: BinnedColumn | CategoryColumn, values: NDArray[Any]
) -> tuple[type, list[Any]]:
    """The type of a column, and its values as Python objects, with None for missing ones.

    values: as `decode` gives them. Labels of several types, such as numbers and "other", are text.

    >>> import numpy as np
    >>> plain_values(CategoryColumn(name="size", values=(1, 2)), np.array([1, "other"], object))
    (<class 'str'>, ['1', 'other'])
    """
    if isinstance(column, BinnedColumn):
        if column.dates:
            return dt.date, values.tolist()
        kept = [None if value != value else value for value in values.tolist()]  # noqa: PLR0124 - NaN
        if column.whole:
            return int, [None if value is None else int(value) for value in kept]
        return float, kept
    kinds = {type(label) for label in column.labels if label is not None}
    kind = kinds.pop() if len(kinds) == 1 else str
    if kind not in _KINDS or not all(map(_fits, column.labels)):
        kind = str
    found = values.tolist()
    return kind, [None if x is None else str(x) for x in found] if kind is str else found


def _fits(label: Any) -> bool:
    """Whether Arrow has room for it, where it is a whole number."""
    return not isinstance(label, int) or -(1 << 63) <= label < 1 << 63


_KINDS = (bool, int, float, dt.date, str)


def pandas_frame(domain: Domain, columns: Mapping[str, NDArray[Any]]) -> pandas.DataFrame:
    """Rows by column as a pandas data frame; whole numbers are Int64 if some are missing."""
    library = require("pandas", extra="frames")
    found: dict[str, Any] = dict(columns)
    for column in domain.columns:
        if isinstance(column, BinnedColumn) and column.whole and column.missing:
            kind, values = plain_values(column, columns[column.name])
            if kind is int:
                found[column.name] = library.array(values, dtype="Int64")
    frame: pandas.DataFrame = library.DataFrame(found)
    return frame


def arrow_table(domain: Domain, columns: Mapping[str, NDArray[Any]]) -> pyarrow.Table:
    """Rows by column as an Arrow table."""
    arrow = require("pyarrow", extra="frames")
    types = dict(
        zip(
            _KINDS,
            (arrow.bool_(), arrow.int64(), arrow.float64(), arrow.date32(), arrow.string()),
            strict=True,
        )
    )
    found = {}
    for column in domain.columns:
        kind, values = plain_values(column, columns[column.name])
        found[column.name] = arrow.array(values, type=types[kind])
    table: pyarrow.Table = arrow.table(found)
    return table
