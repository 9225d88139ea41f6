"""Frames as DuckDB can copy them without looking at their values."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import numbers
import re
from typing import Any

from unacorda.errors import InvalidParameter, MissingExtra

__all__ = ["columns_of"]

_ENGINE_READS = re.compile(
    r"bool(ean)?|u?int\d+|U?Int\d+|float(16|32|64)|Float\d+"
    r"|(datetime|timedelta)64\[.*\]|.*\[pyarrow\]"
)
"""Types of pandas columns that the engine copies as they are; all others become text."""


def columns_of(table: str, value: Any) -> tuple[Any, dict[str, str]]:
    """A frame to register with the engine, and its columns' names there and in the session.

    Object columns of pandas hold anything: each value becomes text, or is missing. (The engine
    would guess a type from a sample of them, and fail on a row that does not fit it.) So do the
    types that the engine does not know: categories, periods, sparse columns. Raises
    InvalidParameter for column names that are no text, empty, or equal but for capitals.
    """
    kind = type(value).__module__.split(".")[0]
    names = list(value.column_names) if kind == "pyarrow" else list(value.columns)
    if not all(isinstance(name, str) and name and "\x00" not in name for name in names):
        raise InvalidParameter(f"tables[{table!r}]", names, expected="column names that are text")
    if not names or len({name.casefold() for name in names}) < len(names):
        raise InvalidParameter(
            f"tables[{table!r}]", names, expected="column names that differ by more than capitals"
        )
    renamed = {f"c{index}": name for index, name in enumerate(names)}
    if kind == "pandas":
        return _pandas(value, list(renamed)), renamed
    arrow = _arrow(value) if kind == "polars" else value
    return arrow.rename_columns(list(renamed)), renamed


def _pandas(frame: Any, names: list[str]) -> Any:
    copied = frame.copy(deep=False)
    copied.columns = names
    copied.index = range(len(copied))
    for name in names:
        column = copied[name]
        if not _ENGINE_READS.fullmatch(str(column.dtype)):
            copied[name] = _texts(column)
    return copied


def _texts(column: Any) -> Any:
    import numpy as np
    import pandas as pd

    values = np.empty(len(column), dtype=object)
    for index, value in enumerate(column):
        values[index] = _text(value)
    try:
        import pyarrow as pa

        return pd.Series(pd.arrays.ArrowExtensionArray(pa.array(values, type=pa.string())))
    except ImportError:
        return pd.Series(values, dtype=object)


def _text(value: Any) -> str | None:
    """The value as text; None where it is missing or cannot be written in valid Unicode."""
    try:
        if value is None or type(value).__name__ in {"NAType", "NaTType"}:
            return None
        if isinstance(value, numbers.Number) and value != value:  # noqa: PLR0124  # NaN
            return None
        text = str(value)
        text.encode()
    except Exception:  # noqa: BLE001  # a value's own methods may raise anything
        return None
    return text


def _arrow(frame: Any) -> Any:
    try:
        return frame.to_arrow()
    except ImportError:
        pass
    raise MissingExtra("pyarrow", extra="frames")
