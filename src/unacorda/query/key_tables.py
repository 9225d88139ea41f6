"""Public tables as keys: a list of counties with their regions, a file of codes."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from typing import Any

from unacorda.errors import InvalidParameter
from unacorda.query.expressions.types import Kind
from unacorda.query.schema.facts import MOST_KEYS, Key, plain_key
from unacorda.query.schema.quoting import identifier
from unacorda.query.schema.sources import is_table
from unacorda.query.schema.table import Scope

__all__ = ["keys_of_table", "typed_keys", "without_tables"]

_WHOLE = re.compile(r"-?(0|[1-9][0-9]*)")


def without_tables(scope: Scope, columns: Sequence[str], keys: Any) -> Any:
    """The keys of `group_by`, where public tables stand replaced by the lists that they hold."""
    if is_table(keys):
        return keys_of_table(scope, dict(zip(columns, columns, strict=True)), keys)
    if isinstance(keys, Mapping) and any(is_table(values) for values in keys.values()):
        return {
            name: keys_of_table(scope, {name: name}, values, argument=f"keys[{name!r}]")
            if is_table(values) and name in columns
            else values
            for name, values in keys.items()
        }
    return keys


def keys_of_table(
    scope: Scope, columns: Mapping[str, str], source: object, *, argument: str = "keys"
) -> list[Any]:
    """The lines of a public table as keys: tuples, or single values where there is one column.

    columns: by its name in the table (capitals do not matter) the column to group by; others are
    not looked at. Text is read as what the column to group by holds, as in `typed_keys`. Raises
    InvalidParameter for a missing column, no lines, too many, a key twice and missing values.
    """
    if scope.read_public is None:
        raise InvalidParameter(argument, source, expected="lists of keys, outside a session")
    found: list[str] = []

    def choose(names: Sequence[str]) -> Sequence[str]:
        found.extend(_column_of(names, name, argument) for name in columns)
        return found

    rows = scope.read_public(source, choose, most=MOST_KEYS + 1)
    if not rows:
        raise InvalidParameter(argument, "a table without lines", expected="at least one key")
    if len(rows) > MOST_KEYS:
        raise InvalidParameter(argument, "a longer table", expected=f"at most {MOST_KEYS:,} lines")
    values = []
    for name, group, column in zip(found, columns.values(), zip(*rows, strict=True), strict=True):
        if None in column:
            raise InvalidParameter(
                argument,
                f"a line without {name!r}",
                expected="a value in every line: leave such lines out, or list the keys, in which "
                "None stands for rows without a value",
            )
        values.append(_read(f"{argument}, column {name!r}", column, _kinds(scope, group)))
    keys = list(zip(*values, strict=True))
    seen = set()
    for key in keys:
        if key in seen:
            raise InvalidParameter(
                argument,
                key if len(key) > 1 else key[0],
                expected="each key in one line of the table: keep "
                f"{', '.join(map(identifier, found))} alone, each once",
            )
        seen.add(key)
    return keys if len(columns) > 1 else values[0]


def typed_keys(argument: str, written: Sequence[str], kinds: set[Kind]) -> list[Key]:
    """Keys that are written as text, as values of a column that may be read as these kinds.

    A column of whole numbers, dates, booleans or text takes keys of that kind. One of text that is
    not declared takes whole numbers where every key is one (01 is not), booleans where every key is
    true or false, and text otherwise. Raises InvalidParameter, naming `argument`, for a key that
    does not fit.

    >>> typed_keys("keys", ["2024-01-31"], {Kind.DATE})
    [datetime.date(2024, 1, 31)]
    """
    if kinds == {Kind.DATE}:
        return [_date(argument, key) for key in written]
    if kinds == {Kind.BOOLEAN} or (Kind.BOOLEAN in kinds and all(map(_is_truth, written))):
        return [_truth(argument, key) for key in written]
    numeric = any(kind.numeric for kind in kinds)
    if numeric and not all(_WHOLE.fullmatch(key) for key in written):
        numeric = all(kind.numeric for kind in kinds)  # then the first of them is at fault
    return [_integer(argument, key) for key in written] if numeric else list(written)


def _kinds(scope: Scope, group: str) -> set[Kind]:
    return {reading.kind for reading in scope.column(group, argument="group_by")}


def _column_of(names: Sequence[str], name: str, argument: str) -> str:
    found = [one for one in names if one.casefold() == name.casefold()]
    if not found:
        raise InvalidParameter(
            argument,
            f"a table with the columns {', '.join(names)}",
            expected=f"one with the column {name!r}, as every column of group_by",
        )
    return found[0]


def _read(argument: str, values: Sequence[Any], kinds: set[Kind]) -> list[Key]:
    if all(isinstance(value, str) for value in values):
        return typed_keys(argument, values, kinds)
    return [plain_key(argument, value) for value in values]


def _integer(argument: str, key: str) -> int:
    if not _WHOLE.fullmatch(key) or len(key) > 20:
        raise InvalidParameter(
            argument, key, expected="whole numbers, since the column holds numbers"
        )
    return int(key)


def _is_truth(key: str) -> bool:
    return key.lower() in {"true", "false"}


def _truth(argument: str, key: str) -> bool:
    if not _is_truth(key):
        raise InvalidParameter(argument, key, expected="true or false")
    return key.lower() == "true"


def _date(argument: str, key: str) -> dt.date:
    try:
        return dt.date.fromisoformat(key)
    except ValueError:
        pass
    raise InvalidParameter(argument, key, expected="dates, as YYYY-MM-DD")
