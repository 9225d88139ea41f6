"""The groups of a question: their columns, and the keys that it is answered for."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unacorda.errors import InvalidParameter
from unacorda.query.expressions.types import Column, Kind
from unacorda.query.key_tables import without_tables
from unacorda.query.noise.key_selection import PrivateKeys
from unacorda.query.schema.facts import Categories, Key, check_few, check_keys, key_kinds, tuples_of
from unacorda.query.schema.quoting import identifier
from unacorda.query.schema.table import Scope

__all__ = ["Group", "grouped", "public_column"]

_MOST_BESIDE = 1_000  # cells for each private key
_FOUND = {Kind.TEXT, Kind.INTEGER, Kind.DATE, Kind.BOOLEAN}


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A column to group by.

    label: as the caller wrote it; column: the reading its keys fit; private: its keys are found.
    """

    label: str
    column: Column
    private: bool = False

    @property
    def name(self) -> str:
        """Its SQL identifier."""
        return self.column.name

    @property
    def found(self) -> str:
        """SQL of a row's private key, which Python can hold; NULL where it can not."""
        name = identifier(self.name)
        match self.column.kind:
            case Kind.INTEGER:
                whole = f"abs({name}) < 9007199254740992e0"
                return f"CAST(CASE WHEN {whole} THEN {name} END AS BIGINT)"
            case Kind.DATE:
                ends = "DATE '0001-01-01' AND DATE '9999-12-31'"
                return f"CASE WHEN {name} BETWEEN {ends} THEN {name} END"
            case _:
                return name

    @property
    def type(self) -> str:
        """The SQL type its keys are compared in."""
        numeric = self.column.kind.numeric
        return (
            "DOUBLE"
            if numeric
            else "VARCHAR"
            if self.column.kind is Kind.TEXT
            else (self.column.kind.name)
        )


def grouped(
    scope: Scope, columns: Sequence[str], keys: Any
) -> tuple[tuple[Group, ...], tuple[tuple[Key, ...], ...], PrivateKeys | None]:
    """The groups, the keys of those whose keys are public, and how the others' are found.

    keys: as `group_by` takes them. Raises InvalidParameter, naming the mend.
    """
    keys = without_tables(scope, columns, keys)
    if isinstance(keys, PrivateKeys):
        keys = {name: _declared(scope, name) or keys for name in columns}
    if isinstance(keys, Mapping) and not set(keys) <= set(columns):
        raise InvalidParameter(
            "keys", sorted(map(str, keys)), expected=f"one list for each of {tuple(columns)}"
        )
    private, found = _private(keys)
    public = [name for name in columns if name not in found]
    if private is not None:
        keys = {name: values for name, values in keys.items() if name not in found}
    listed = _keys(scope, public, keys) if public else ((),)
    if private is not None and len(listed) > _MOST_BESIDE:
        raise InvalidParameter(
            "keys",
            f"{len(listed):,} combinations of public keys",
            expected=f"at most {_MOST_BESIDE:,} beside private ones",
        )
    groups = []
    for name in columns:
        if name in found:
            column = _private_column(scope, name)
        else:
            place = public.index(name)
            column = public_column(scope, name, [key[place] for key in listed])
        groups.append(Group(label=name, column=column, private=name in found))
    return tuple(groups), listed, private


def _private(keys: Any) -> tuple[PrivateKeys | None, frozenset[str]]:
    """How private keys are found, and the columns that have them."""
    if not isinstance(keys, Mapping):
        return None, frozenset()
    asked = {name: how for name, how in keys.items() if isinstance(how, PrivateKeys)}
    if len(set(asked.values())) > 1:
        raise InvalidParameter(
            "keys",
            list(asked.values()),
            expected="the same private_keys(...) for all columns: they are found together",
        )
    return next(iter(asked.values()), None), frozenset(asked)


def _keys(scope: Scope, columns: Sequence[str], keys: Any) -> tuple[tuple[Key, ...], ...]:
    if keys is None:
        keys = {name: _public_values(scope, name) for name in columns}
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


def _public_values(scope: Scope, name: str) -> Sequence[Key]:
    declared = _declared(scope, name)
    if declared is not None:
        return declared
    raise InvalidParameter(
        "keys",
        None,
        expected=f"the public values of {name!r}: keys=[...], or declare "
        f"columns={{{name!r}: unacorda.Categories([...])}}. Values are never read off the data, "
        f"unless they are found privately: keys={{{name!r}: unacorda.private_keys()}}, which "
        "spends a delta",
    )


def _declared(scope: Scope, name: str) -> Sequence[Key] | None:
    """The values of a column that are public without being listed."""
    fact = scope.facts.get(scope.resolve(name, argument="group_by"))
    if isinstance(fact, Categories):
        return fact.values
    readings = scope.column(name, argument="group_by")
    if len(readings) == 1 and readings[0].kind is Kind.BOOLEAN:
        return (False, True)
    return None


def _private_column(scope: Scope, name: str) -> Column:
    """The reading whose values are found; an untyped column is text."""
    column = scope.column(name, argument="group_by")[0]
    if column.kind in _FOUND:
        return column
    mend = "CAST(... AS DATE)" if column.kind is Kind.TIMESTAMP else "FLOOR(...)"
    raise InvalidParameter(
        "keys",
        f"private_keys() of {name!r}",
        expected="a column of text, whole numbers, dates or booleans, not of "
        f"{column.kind.value}s: derive classes first, such as derive(k={mend!r})",
    )


def public_column(scope: Scope, name: str, keys: Sequence[Key]) -> Column:
    """The reading of a column that these keys fit; InvalidParameter where there is none."""
    kinds = key_kinds(keys)
    readings = scope.column(name, argument="group_by")
    for column in readings:
        if column.kind in kinds:
            return column
    mend = ""
    if readings[0].kind is Kind.TIMESTAMP:
        mend = "s: group by the day, CAST(... AS DATE), or by another part such as MONTH(...)"
    raise InvalidParameter(
        "keys",
        list(keys)[:3],
        expected=f"keys of the type of {name!r}, which holds {readings[0].kind.value}{mend}",
    )
