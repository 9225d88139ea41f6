"""Frames of pandas, polars and Arrow as tables of an engine.

How a column is read is decided by its type alone, so that no value fails. A reading gives NULL
where a value does not fit its type. A type that the engine cannot read so is named by a type of no
reading, and a question that uses such a column is refused.

What a type allows and the engine does not hold (an instant in seconds beyond those that
microseconds can say, text that is not UTF-8) is handed over raw, as whole numbers or bytes, and
converted in SQL that gives NULL where a value does not fit. A column of a type without a reading is
not looked at.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import numbers
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import duckdb

from unacorda import checks
from unacorda.extras import require
from unacorda.query.expressions.language import identifier
from unacorda.query.schema.table import plain_type, readings

PARQUET_OPTIONS = "hive_partitioning=false, utf8_validation='replace', can_have_nan=true"
"""Of the reader of Parquet: bytes that are no UTF-8 become question marks, NaN may be anywhere."""

_FIRST_DAY, _FIRST_INSTANT = "5877642-06-25 (BC)", "290309-12-22 (BC) 00:00:00"
"""The least finite values; DuckDB holds lesser ones, and fails when it writes them as text."""
_LAST_INSTANT = "294247-01-10 04:00:54"
"""The last whole second that there is in microseconds."""

_BEGINNINGS = {
    "DATE": f"DATE '{_FIRST_DAY}'",
    "TIMESTAMP": f"TIMESTAMP '{_FIRST_INSTANT}'",
    "TIMESTAMP WITH TIME ZONE": f"TIMESTAMPTZ '{_FIRST_INSTANT}+00'",
}
_EXACT = {
    *("BOOLEAN", "INTEGER", "BIGINT", "DOUBLE"),
    *("DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "TIMESTAMP_NS", "TIMESTAMPTZ_NS"),
}
"""Types that hold what the file holds, so that its statistics are of what is read."""
_LONGEST_DECIMAL = 16  # bytes


def within(column: str, sql_type: str) -> str:
    """SQL of a column in which a value that its type does not have is NULL.

    >>> within("d", "DECIMAL(3,1)")
    "CASE WHEN d BETWEEN CAST('-99.9' AS DECIMAL(3,1)) AND CAST('99.9' AS DECIMAL(3,1)) THEN d END"
    """
    base = plain_type(sql_type)
    if base in {"TIMESTAMP_S", "TIMESTAMP_MS"}:
        ends = f"{base} '{_FIRST_INSTANT}' AND {base} '{_LAST_INSTANT}'"
        return f"CASE WHEN {column} BETWEEN {ends} THEN {column} END"
    if base in _BEGINNINGS:
        return f"CASE WHEN {column} >= {_BEGINNINGS[base]} THEN {column} END"
    if base == "DECIMAL" and not sql_type.endswith("]"):
        digits, scale = (int(part) for part in sql_type.partition("(")[2].rstrip(")").split(","))
        most = f"{'9' * (digits - scale)}.{'9' * scale}".rstrip(".")
        least, most = (f"CAST('{sign}{most}' AS {sql_type})" for sign in ("-", ""))
        return f"CASE WHEN {column} BETWEEN {least} AND {most} THEN {column} END"
    return column


def scanned(source: str, types: Mapping[str, str], *, parquet: bool = False) -> str:
    """The relation of a source with its columns as they are read.

    Where statistics of a Parquet file are not those of what is read (of replaced text, of numbers
    that are cut to their type), TRY keeps conditions from being answered by them: a row would be
    found or not by what other rows hold.
    """
    listed = []
    changed = parquet
    for name, sql_type in types.items():
        column = identifier(name)
        sql = within(column, sql_type)
        if not readings(name, sql_type, None, sql=column):
            sql = "NULL"  # the planner looks at statistics even of columns that nothing uses
        elif parquet and plain_type(sql_type) not in _EXACT:
            sql = f"TRY({sql})"
        changed |= sql != column
        listed.append(column if sql == column else f"{sql} AS {column}")
    return f"(SELECT {', '.join(listed)} FROM {source})" if changed else source


def parquet_columns(elements: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The columns themselves, out of a Parquet schema, which lists all fields within them.

    elements: the whole file first; of each the name, the physical type, its length, the number of
    fields that follow and are within it, the older and the newer annotation.
    """
    found = []
    inner = 0  # fields that are still to come of a column
    for element in elements[1:]:
        if inner == 0:
            found.append(element)
            inner = 1
        inner += (element[3] or 0) - 1
    return found


def parquet_type(sql_type: str, column: tuple[Any, ...]) -> str:
    """The type of a Parquet file's column, or one that it cannot be read in without reading.

    sql_type: the engine's; column: as in `parquet_columns`.
    """
    _, physical, length, children, older, newer = column
    base = plain_type(sql_type)
    if children:
        return sql_type
    # The engine makes microseconds while it reads, and fails at a value that does not fit.
    if base in _BEGINNINGS and ("MILLIS=Milli" in (newer or "") or older == "TIMESTAMP_MILLIS"):
        return "PARQUET MILLISECONDS"
    # So it does with numbers of more bytes than it has, whatever their declared digits.
    if base == "DECIMAL" and (physical == "BYTE_ARRAY" or (length or 0) > _LONGEST_DECIMAL):
        return "PARQUET DECIMAL IN BYTES"
    return sql_type


_MASKED = re.compile(r"boolean|U?Int\d+|Float\d+")
"""Types of pandas that hold numbers beside what is missing."""
_WIDE = ("Int128", "UInt128")
"""Whole numbers of polars that Arrow does not have; they are read as decimals of 38 digits."""
_NOTHING = "NULL::BLOB"

_DAY = 86_400_000  # milliseconds
_LAST_DAY = 2_147_483_646
_LONGEST = 4_000  # digits of a whole number; a larger one is infinite


def columns_of(table: str, value: Any) -> tuple[Any, str]:
    """A table to register with the engine, and the SELECT list over it of the frame's columns.

    Raises InvalidParameter for column names that are no text, empty, or equal but for capitals, and
    MissingExtra without pyarrow.
    """
    kind = type(value).__module__.split(".")[0]
    names = list(value.column_names) if kind == "pyarrow" else list(value.columns)
    fits = all(checks.is_text(name) and "\x00" not in name for name in names)
    expected = "column names that are text"
    if fits:
        fits = len(names) == len({name.casefold() for name in names}) > 0
        expected = "column names that differ by more than capitals"
    checks.demand(fits, f"tables[{table!r}]", names, expected=expected)
    pa = require("pyarrow", extra="frames")
    held: dict[str, Any] = {"rows": pa.nulls(len(value))}
    read = []
    for number, name in enumerate(names):
        found, sql = _column(value, name, number, kind)
        if found is not None:
            held[f"c{number}"] = found
        read.append(f"{sql.format(f'c{number}')} AS {identifier(name)}")
    return pa.table(held), ", ".join(read)


def copied(table: str, value: Any) -> Any:
    """The frame as an Arrow table of plain types, by the same rules; raises as `columns_of`."""
    frame, listed = columns_of(table, value)
    with duckdb.connect(":memory:") as connection:
        connection.execute("SET temp_directory = ''")  # nothing of it is written to disk
        connection.register("frame", frame)
        return connection.sql(f"SELECT {listed} FROM frame").to_arrow_table()


def canonical(value: Any) -> str | None:
    """A cell of an object column as text, by itself; None where it is missing or has no text.

    Numbers that are equal are one text, whatever their types: whole ones in digits, others in the
    shortest digits that read as them; true is 1 and false is 0.

    >>> canonical(1), canonical(1.0), canonical(True), canonical(Decimal("1.00")), canonical("1")
    ('1', '1', '1', '1', '1')
    >>> canonical(0.1), canonical(Decimal("0.10")), canonical(float("nan"))
    ('0.1', '0.1', None)
    """
    try:
        if isinstance(value, str):
            text = str.__str__(value)
        elif value is None or type(value).__name__ in {"NAType", "NaTType"}:
            return None
        elif type(value).__module__ == "numpy" and type(value).__name__.startswith("bool"):
            text = "1" if value else "0"
        elif isinstance(value, numbers.Number):
            written = _digits(value)
            if written is None:
                return None
            text = written
        else:
            text = str(value)
        text.encode()
    except Exception:  # noqa: BLE001  # a value's own methods may raise anything
        return None
    return text


def _digits(value: Any) -> str | None:
    if value != value:  # noqa: PLR0124  # NaN
        return None
    if isinstance(value, Decimal):
        if not value.is_finite() or value.adjusted() >= _LONGEST:
            return "inf" if value > 0 else "-inf"
        if value != value.to_integral_value():
            text, mark, exponent = str(value).partition("E")
            return text.rstrip("0").removesuffix(".") + mark + exponent
    if isinstance(value, numbers.Integral | Decimal):
        whole = int(value)
        if abs(whole) >= 10**_LONGEST:
            return "inf" if whole > 0 else "-inf"
        return str(whole)
    if isinstance(value, Fraction):
        near = float(value)
        return str(value.numerator) if value.denominator == 1 else repr(near)
    if isinstance(value, numbers.Real):
        near = float(value)
        return str(int(near)) if near.is_integer() else repr(near)
    if isinstance(value, numbers.Complex) and value.imag == 0:
        return _digits(value.real)
    return str(value)


def _column(frame: Any, name: str, number: int, kind: str) -> tuple[Any, str]:
    """A column of Arrow, and SQL in which {} stands for it; None where it has no reading."""
    if kind == "pyarrow":
        return _arrow(frame.column(number))
    if kind == "polars":
        return _polars(frame.get_column(name))
    return _pandas(frame.iloc[:, number])


def _polars(column: Any) -> tuple[Any, str]:
    dtype = str(column.dtype)
    if dtype == "Object":
        return _texts(column.to_list())
    if dtype in _WIDE:
        found, sql = _arrow(column.cast(type(column)([""]).dtype).to_arrow())
        return found, f"TRY_CAST({sql} AS DECIMAL(38,0))"
    return _arrow(column.to_arrow())


def _pandas(column: Any) -> tuple[Any, str]:
    import numpy as np

    pa = require("pyarrow", extra="frames")
    dtype = column.dtype
    if isinstance(dtype, np.dtype):
        values = column.to_numpy()
        if dtype.kind in "biu" or (dtype.kind == "f" and dtype.itemsize <= 8):
            return _arrow(pa.array(values.astype(dtype.newbyteorder("="), copy=False)))
        if dtype.kind == "M":
            return pa.array(values.view("int64")), _instant(np.datetime_data(dtype)[0])
        return (None, _NOTHING) if dtype.kind == "m" else _texts(column)
    if type(dtype).__name__ == "DatetimeTZDtype":
        return _pandas(column.dt.tz_convert(None))
    if _MASKED.fullmatch(str(dtype)) or type(dtype).__name__ == "ArrowDtype":
        return _arrow(pa.array(column.array))
    if type(dtype).__name__ == "StringDtype" and dtype.storage == "pyarrow":
        return _arrow(pa.array(column.array))
    return _texts(column)


def _texts(values: Iterable[Any]) -> tuple[Any, str]:
    pa = require("pyarrow", extra="frames")
    return pa.array([canonical(value) for value in values], type=pa.large_string()), "{}"


def _arrow(column: Any) -> tuple[Any, str]:
    """An Arrow column as it can be handed over without looking at its values."""
    import pyarrow.compute as pc

    pa = require("pyarrow", extra="frames")
    kind, is_a = column.type, pa.types
    if isinstance(kind, pa.BaseExtensionType):
        column = _chunkwise(column, lambda chunk: chunk.storage, kind.storage_type)
        if kind.extension_name == "arrow.uuid":
            return column, "TRY_CAST(hex({}) AS UUID)"
        return _arrow(column)
    if is_a.is_dictionary(kind):
        return _arrow(column.cast(kind.value_type))
    if is_a.is_run_end_encoded(kind):
        return _arrow(pc.run_end_decode(column))
    if is_a.is_string(kind) or is_a.is_large_string(kind) or is_a.is_string_view(kind):
        raw = pa.binary_view() if is_a.is_string_view(kind) else pa.large_binary()
        return column.cast(raw), "decode({}, 'replace')"
    if is_a.is_timestamp(kind):
        return column.cast(pa.int64()), _instant(kind.unit)
    if is_a.is_date64(kind):
        return column.cast(pa.int64()), _day("{0}")
    if is_a.is_date32(kind):
        return column, within("{0}", "DATE")
    if is_a.is_decimal(kind):
        return _decimal(column)
    if is_a.is_float16(kind):
        return column.cast(pa.float32()), "{}"
    if (
        is_a.is_null(kind)
        or is_a.is_boolean(kind)
        or is_a.is_integer(kind)
        or is_a.is_floating(kind)
    ):
        return column, "{}"
    return None, _NOTHING


def _chunkwise(column: Any, change: Callable[[Any], Any], kind: Any) -> Any:
    pa = require("pyarrow", extra="frames")
    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array([change(chunk) for chunk in column.chunks], type=kind)
    return change(column)


def _decimal(column: Any) -> tuple[Any, str]:
    """Decimals in the widest type, whose digits are compared with those of their own."""
    pa = require("pyarrow", extra="frames")
    kind = column.type
    if kind.bit_width > 128 or not 0 <= kind.scale <= kind.precision:
        return column.cast(pa.float64()), "{}"
    own, wide = f"DECIMAL({kind.precision},{kind.scale})", pa.decimal128(38, kind.scale)
    if kind.bit_width == 128:  # a cast would look at the values
        held = _chunkwise(column, lambda chunk: chunk.view(wide), wide)
    else:
        held = column.cast(wide)
    return held, f"TRY_CAST({within('{0}', own)} AS {own})"


def _instant(unit: str) -> str:
    """SQL of an instant, of a whole number of ticks since 1970."""
    if unit == "ns":  # the ends of 64 bits are no instants, as pandas and the engine have it
        ends = "BETWEEN -9223372036854775806 AND 9223372036854775806"
        return f"make_timestamp_ns(CASE WHEN {{0}} {ends} THEN {{0}} END)"
    per_tick = {"s": 10**6, "ms": 10**3, "us": 1}[unit]
    least, most = 9_223_372_022_400_000_000 // per_tick, (2**63 - 2) // per_tick
    held = f"CASE WHEN {{0}} BETWEEN -{least} AND {most} THEN {{0}} * {per_tick} END"
    return f"make_timestamp({held})"


def _day(ticks: str) -> str:
    """SQL of the day on which so many milliseconds since 1970 end."""
    begun = f"({ticks} - (({ticks} % {_DAY}) + {_DAY}) % {_DAY}) // {_DAY}"
    held = f"{ticks} BETWEEN -{_LAST_DAY * _DAY} AND {_LAST_DAY * _DAY}"
    return f"CASE WHEN {held} THEN DATE '1970-01-01' + CAST({begun} AS INTEGER) END"
