"""What a question is grouped by, and keys from tables."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import datetime as dt
import itertools
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from unacorda import checks
from unacorda.errors import InvalidParameter
from unacorda.query.expressions.language import Column, Kind, identifier
from unacorda.query.noise.selection import PrivateKeys
from unacorda.query.plan.relation import Group
from unacorda.query.schema.facts import (
    MOST_KEYS,
    Categories,
    Key,
    check_few,
    check_keys,
    key_kinds,
    plain_key,
    tuples_of,
)
from unacorda.query.schema.sources import is_table
from unacorda.query.schema.table import TableSchema

_WHOLE = re.compile(r"-?(0|[1-9][0-9]*)")


def without_tables(scope: TableSchema, columns: Mapping[str, str], keys: Any) -> Any:
    """The keys of `group_by`, where public tables stand replaced by the lists that they hold.

    columns: by its name in a table the column to group by.
    """
    if isinstance(keys, Mapping):
        return {
            name: _keys_of_table(scope, {name: columns[name]}, values, argument=f"keys[{name!r}]")
            if name in columns and is_table(values)
            else values
            for name, values in keys.items()
        }
    listed = keys is None or not is_table(keys)
    return keys if listed else _keys_of_table(scope, columns, keys, argument="keys")


def _keys_of_table(
    scope: TableSchema, columns: Mapping[str, str], source: object, *, argument: str
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
        known = {name.casefold(): name for name in reversed(names)}
        table = f"a table with the columns {', '.join(names)}"
        for name in columns:
            expected = f"one with the column {name!r}, as every column of group_by"
            checks.demand(name.casefold() in known, argument, table, expected=expected)
            found.append(known[name.casefold()])
        return found

    rows = scope.read_public(source, choose, most=MOST_KEYS + 1)
    checks.demand(rows, argument, "a table without lines", expected="at least one key")
    few = len(rows) <= MOST_KEYS
    checks.demand(few, argument, "a longer table", expected=f"at most {MOST_KEYS:,} lines")
    values = []
    for name, group, column in zip(found, columns.values(), zip(*rows, strict=True), strict=True):
        expected = (
            "a value in every line: leave such lines out, or list the keys, in which None stands "
            "for rows without a value"
        )
        line, place = f"a line without {name!r}", f"{argument}, column {name!r}"
        checks.demand(None not in column, argument, line, expected=expected)
        if all(isinstance(value, str) for value in column):
            kinds = {reading.kind for reading in scope.column(group, argument="group_by")}
            values.append(typed_keys(place, column, kinds))
        else:
            values.append([plain_key(place, value) for value in column])
    keys = list(zip(*values, strict=True)) if len(columns) > 1 else values[0]
    if len(set(keys)) < len(keys):
        again = next(key for key, times in Counter(keys).items() if times > 1)
        named = ", ".join(map(identifier, found))
        expected = f"each key in one line of the table: keep {named} alone, each once"
        raise InvalidParameter(argument, again, expected=expected)
    return keys


_TRUTHS = {"true": True, "false": False}


def _integer(key: str) -> int:
    if not _WHOLE.fullmatch(key) or len(key) > 20:
        raise ValueError(key)
    return int(key)


_READERS: Mapping[Kind, tuple[Callable[[str], Key], str]] = {
    Kind.DATE: (dt.date.fromisoformat, "dates, as YYYY-MM-DD"),
    Kind.BOOLEAN: (lambda key: _TRUTHS[key.lower()], "true or false"),
    Kind.INTEGER: (_integer, "whole numbers, since the column holds numbers"),
    Kind.TEXT: (str, "text"),
}


def typed_keys(argument: str, written: Sequence[str], kinds: set[Kind]) -> list[Key]:
    """Keys that are written as text, as values of a column that may be read as these kinds.

    A column of whole numbers, dates, booleans or text takes keys of that kind. One of text that is
    not declared takes whole numbers where every key is one (01 is not), booleans where every key is
    true or false, and text otherwise. Raises InvalidParameter, naming `argument`, for a key that
    does not fit.

    >>> typed_keys("keys", ["2024-01-31"], {Kind.DATE})
    [datetime.date(2024, 1, 31)]
    """
    kind = Kind.TEXT
    if kinds == {Kind.DATE}:
        kind = Kind.DATE
    elif kinds == {Kind.BOOLEAN} or (
        Kind.BOOLEAN in kinds and {key.lower() for key in written} <= _TRUTHS.keys()
    ):
        kind = Kind.BOOLEAN
    elif any(one.numeric for one in kinds):
        whole = all(_WHOLE.fullmatch(key) for key in written)
        if whole or all(one.numeric for one in kinds):  # in the latter the first is at fault
            kind = Kind.INTEGER
    read, expected = _READERS[kind]
    found: list[Key] = []
    for key in written:
        with suppress(ValueError, KeyError):
            found.append(read(key))
            continue
        raise InvalidParameter(argument, key, expected=expected)
    return found


_MOST_PUBLIC = 1_000  # cells for each private key
_FOUND = {Kind.TEXT, Kind.INTEGER, Kind.DATE, Kind.BOOLEAN}


def grouped(
    scope: TableSchema, columns: Sequence[str], keys: Any
) -> tuple[tuple[Group, ...], tuple[tuple[Key, ...], ...], PrivateKeys | None]:
    """The groups, the keys of those whose keys are public, and how the others' are found.

    keys: as `group_by` takes them. Raises InvalidParameter, naming the hint.
    """
    keys = without_tables(scope, {name: name for name in columns}, keys)
    if isinstance(keys, PrivateKeys):
        keys = {name: _declared(scope, name) or keys for name in columns}
    given = keys if isinstance(keys, Mapping) else {}
    expected = f"one list for each of {tuple(columns)}"
    checks.demand(set(given) <= set(columns), "keys", sorted(map(str, given)), expected=expected)
    found = {name: how for name, how in given.items() if isinstance(how, PrivateKeys)}
    hows = list(found.values())
    expected = "the same private_keys(...) for all columns: they are found together"
    checks.demand(len(set(hows)) <= 1, "keys", hows, expected=expected)
    public = [name for name in columns if name not in found]
    if found:
        keys = {name: values for name, values in given.items() if name not in found}
    listed = _keys(scope, public, keys) if public else ((),)
    few = not found or len(listed) <= _MOST_PUBLIC
    several = f"{len(listed):,} combinations of public keys"
    checks.demand(few, "keys", several, expected=f"at most {_MOST_PUBLIC:,} next to private ones")
    read = {name: _private_column(scope, name) for name in found}
    for place, name in enumerate(public):
        read[name] = public_column(scope, name, [key[place] for key in listed])
    groups = (Group(label=name, column=read[name], private=name in found) for name in columns)
    return tuple(groups), listed, next(iter(hows), None)


def _keys(scope: TableSchema, columns: Sequence[str], keys: Any) -> tuple[tuple[Key, ...], ...]:
    keys = {} if keys is None else keys
    if isinstance(keys, Mapping):
        given = {n: keys[n] if n in keys else _public_values(scope, n) for n in columns}
        lists = [check_keys(f"keys[{name!r}]", given[name]) for name in columns]
        check_few(lists)
        return tuple(itertools.product(*lists))
    if len(columns) == 1:
        listed = tuple((key,) for key in check_keys("keys", keys))
        check_few([listed])
        return listed
    return tuples_of(columns, keys)


def _public_values(scope: TableSchema, name: str) -> Sequence[Key]:
    declared = _declared(scope, name)
    if declared is not None:
        return declared
    raise InvalidParameter(
        "keys",
        None,
        expected=f"the public values of {name!r}",
        lacks="keys",
        column=name,
        hint="keys=[...], or declare "
        f"columns={{{name!r}: unacorda.Categories([...])}}. Values are never read from the data, "
        f"unless they are found privately: keys={{{name!r}: unacorda.private_keys()}}, which "
        "spends a delta",
    )


def _declared(scope: TableSchema, name: str) -> Sequence[Key] | None:
    """The values of a column that are public without being listed."""
    fact = scope.facts.get(scope.resolve(name, argument="group_by"))
    if isinstance(fact, Categories):
        return fact.values
    readings = scope.column(name, argument="group_by")
    if len(readings) == 1 and readings[0].kind is Kind.BOOLEAN:
        return (False, True)
    return None


def _private_column(scope: TableSchema, name: str) -> Column:
    """The reading whose values are found; an untyped column is text."""
    column = scope.column(name, argument="group_by")[0]
    if column.kind in _FOUND:
        return column
    hint = "CAST(... AS DATE)" if column.kind is Kind.TIMESTAMP else "FLOOR(...)"
    raise InvalidParameter(
        "keys",
        f"private_keys() of {name!r}",
        expected=f"a column of text, whole numbers, dates or booleans, not of {column.kind.value}s",
        hint=f"derive classes first, such as derive(k={hint!r})",
    )


def public_column(scope: TableSchema, name: str, keys: Sequence[Key]) -> Column:
    """The reading of a column that these keys fit; InvalidParameter where there is none."""
    kinds = key_kinds(keys)
    readings = scope.column(name, argument="group_by")
    for column in readings:
        if column.kind in kinds:
            return column
    hint = ""
    if readings[0].kind is Kind.TIMESTAMP:
        hint = "s: group by the day, CAST(... AS DATE), or by another part such as MONTH(...)"
    raise InvalidParameter(
        "keys",
        list(keys)[:3],
        expected=f"keys of the type of {name!r}, which holds {readings[0].kind.value}{hint}",
    )
