"""How DuckDB reads the columns of a source: decided by their types alone, so that no value fails.

A reading gives NULL where a value does not fit its type. A type that the engine cannot read so is
named by a type of no reading, and a question that uses such a column is refused.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from unacorda.query.schema.quoting import identifier
from unacorda.query.schema.table import plain_type, readings

__all__ = ["PARQUET_OPTIONS", "parquet_types", "scanned", "within"]

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


def parquet_types(
    described: Sequence[tuple[str, str]], elements: Sequence[tuple[Any, ...]]
) -> dict[str, str]:
    """The types of a Parquet file's columns, those that it cannot be read in without reading.

    described: the engine's names and types. elements: of the footer's schema the physical type,
    its length, the number of children, the older and the newer annotation.
    """
    top = _top(elements)
    if len(top) != len(described):
        return {}
    return {
        name: _readable(sql_type, elements[at])
        for (name, sql_type), at in zip(described, top, strict=True)
    }


def _top(elements: Sequence[tuple[Any, ...]]) -> list[int]:
    """Where the columns of the outermost level stand in a schema, which lists children in place."""
    found, at = [], 1

    def after(place: int) -> int:
        behind = place + 1
        for _ in range(elements[place][2] or 0):
            behind = after(behind)
        return behind

    while at < len(elements):
        found.append(at)
        at = after(at)
    return found


def _readable(sql_type: str, element: tuple[Any, ...]) -> str:
    physical, length, children, older, newer = element
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
