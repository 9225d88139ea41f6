"""Public keys from --keys: read as what the column holds, never off the data."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from unacorda.cli.options import assignment, read_text
from unacorda.errors import InvalidParameter

if TYPE_CHECKING:
    from unacorda.query.plan.query import Query
    from unacorda.query.schema.facts import Key
    from unacorda.query.sql.types import Select

__all__ = ["group_of", "key_table", "key_texts", "keys_by_group"]

_FORM = "COLUMN=A,B,C, COLUMN=@FILE with one key a line, or @TABLE.csv alone"


def key_table(options: Sequence[str]) -> str | None:
    """The file that holds the keys of all columns, where one is given, and then alone.

    >>> key_table(["@counties.csv"])
    'counties.csv'
    """
    from unacorda.query.schema.sources import is_table

    tables = [text[1:] for text in options if text.startswith("@")]
    if not tables:
        return None
    (table, *_) = tables
    if len(options) > 1 or not is_table(table):
        raise InvalidParameter(
            "--keys",
            f"@{table}",
            expected="one .csv, .tsv or .parquet file with the keys of all group columns",
        )
    return table


def key_texts(options: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The keys of each column as they were written.

    A list is one line of CSV: quotes keep a comma, and blanks behind a comma are dropped.

    >>> key_texts(['county=A, B,"C, D"'])
    {'county': ('A', 'B', 'C, D')}
    """
    found: dict[str, tuple[str, ...]] = {}
    for text in options:
        column, listed = assignment("--keys", text, form=_FORM)
        if column in found:
            raise InvalidParameter("--keys", text, expected="each column once")
        keys = (
            _from_file(column, listed[1:]) if listed.startswith("@") else _from_list(text, listed)
        )
        if not keys:
            raise InvalidParameter("--keys", text, expected=_FORM)
        found[column] = keys
    return found


def keys_by_group(
    texts: Mapping[str, Sequence[str]], *, select: Select, query: Query
) -> dict[str, list[Key]]:
    """The keys as values of the columns that the SELECT groups by.

    query: the question before its groups, so that derived columns are known. A column of whole
    numbers, dates, booleans or text takes keys of that kind. A column of a CSV file without a
    declaration takes whole numbers where every key is one (01 is not), and text otherwise.

    Raises InvalidParameter for keys of other columns and for keys that do not fit.
    """
    from unacorda.query.plan.groups import typed_keys

    found: dict[str, list[Key]] = {}
    for column, written in texts.items():
        name = group_of(column, select, option="--keys")
        kinds = {reading.kind for reading in query.scope.column(name, argument="--keys")}
        found[name] = typed_keys(f"--keys, {column!r}", written, kinds)
    return found


def group_of(column: str, select: Select, *, option: str) -> str:
    """The group column of this name, or of its alias; InvalidParameter where there is none."""
    groups = select.group_names
    names = [groups[name] for name in groups if name.casefold() == column.casefold()]
    if not names:
        listed = ", ".join(select.shown) or "none, since it has no GROUP BY"
        raise InvalidParameter(
            option, column, expected=f"a column that the SELECT groups by: {listed}"
        )
    return names[0]


def _from_list(text: str, listed: str) -> tuple[str, ...]:
    try:
        rows = list(csv.reader([listed], skipinitialspace=True, strict=True))
    except csv.Error:
        rows = []
    if len(rows) != 1:
        raise InvalidParameter("--keys", text, expected=_FORM)
    return tuple(rows[0])


def _from_file(column: str, name: str) -> tuple[str, ...]:
    lines = read_text("--keys", Path(name)).split("\n")
    keys = tuple(line for line in (line.removesuffix("\r") for line in lines) if line)
    if keys and keys[0].strip().casefold() == column.casefold():  # it would be a key of its own
        raise InvalidParameter(
            "--keys",
            f"{column}=@{name}",
            expected="keys alone, one a line, where the first line is the column's name. Take it "
            "out, or write --keys @TABLE.csv for a table with a header",
        )
    return keys
