"""Joins with a public table and with a person's rows elsewhere, unions, and parts of the people.

A join that is offered keeps what a person has a function of their own rows. Public rows are
no one's, so that any columns may be compared with theirs. Of two private tables only rows of one
person may meet: otherwise one person's rows would decide how often another's count.

A split binds every person, once and for all questions, to at most `max_parts` of the parts that
they have rows in; a part holds the rows of the people bound to it that lie in it. One person is
then met by the questions of at most `max_parts` parts, so that the parent owes the sum of the
largest spends of so many (`ParallelComposition`).
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import get_args

from unacorda import checks
from unacorda.errors import InvalidParameter
from unacorda.query.expressions.language import Column, Kind, identifier, twin
from unacorda.query.plan.relation import (
    MOST_COPIES,
    BothSides,
    How,
    KeyPair,
    Lookup,
    Matched,
    PeoplePart,
    Relation,
    UnionAll,
)
from unacorda.query.schema.keys import Key, check_keys
from unacorda.query.schema.sources import join_key
from unacorda.query.schema.table import (
    INTEGERS,
    Categories,
    ColumnReading,
    Fact,
    TableSchema,
    joint_ids,
)
from unacorda.query.schema.units import Row, Unit

On = str | Sequence[str] | Mapping[str, str] | None
"""Columns to compare: by one name in both tables, or {left: right}."""
Columns = Iterable[str] | Mapping[str, str] | None
"""Columns of the other table to take along, also {new name: its name}."""

_MOST_TABLES = 16


def looked_up(rows: Relation, table: str, *, on: On, how: How, columns: Columns) -> Relation:
    """The rows with columns of a public table beside them; see `Query.join`."""
    if table not in rows.public:
        known = ", ".join(map(repr, rows.public)) or "none here"
        raise InvalidParameter(
            "join",
            table,
            expected=f"a public table, given as Session(..., public={{...}}): {known}; or rows of "
            "another private table with the same people, session.table(...), and max_rows=",
        )
    public = rows.public[table]
    scope = public.scope
    checks.choice(get_args(How), how=how)
    named = _named(on, rows.scope, scope)
    pairs = tuple(_pair(rows.scope, scope, left, right) for left, right in named.items())
    names = _names(rows.scope, scope, columns, skip=set(named.values()))
    leaves = {
        new: tuple(
            dataclasses.replace(leaf, column=_column(new, leaf.column), label=new)
            for leaf in public.leaves(old)
        )
        for new, old in names.items()
    }
    facts = {new: _missing(fact, how) for new, old in names.items() if (fact := public.fact(old))}
    keys = [
        join_key(pair.right.kind, f"({leaf.sql})")
        for pair in pairs
        for leaf in scope.leaves[pair.right_label]
        if leaf.column.name == pair.right.name
    ]
    step = Lookup(
        table=table,
        public=public,
        how=how,
        pairs=pairs,
        most=public.most(keys),
        names=names,
        leaves=leaves,
    )
    return rows.after(step, rows.scope.with_columns(leaves, facts)).checked("join", table)


def matched(
    rows: Relation,
    other: Relation,
    *,
    on: On,
    how: How,
    columns: Columns,
    max_rows: int | tuple[int, int] | None,
) -> Relation:
    """Rows of one person from two private tables, side by side; see `Query.join`."""
    left, right = rows.scope, other.scope
    checks.choice(get_args(How), how=how)
    expected = (
        "a public table (Session(..., public={...})), since unacorda.Row() protects single rows "
        "and of two private tables many could meet one: protect unacorda.Person('id', "
        "max_rows=...), and join on the id"
    )
    checks.demand(left.ids, "join", right.table, expected=expected)
    if max_rows is None and rows.most_of_person == other.most_of_person == 1:
        max_rows = 1
    most = _limits(max_rows, left.table, right.table)
    people = dict(zip(left.ids, right.ids, strict=True))
    named = people if on is None else _named(on, left, right, people=people)
    pairs = tuple(
        _pair(left, right, one, two) for one, two in named.items() if people.get(one) != two
    )
    names = _names(left, right, columns, skip={*named.values(), *people.values()})
    offered: _Offered = {
        label: [(column, (column.name, None)) for column in left.readings(label)]
        for label in left.names
    }
    for new, old in names.items():
        offered[new] = [(column, (None, column.name)) for column in right.readings(old)]
    facts = {label: fact for label, fact in left.facts.items() if offered[label]}
    facts |= {
        new: _missing(right.facts[old], how) for new, old in names.items() if old in right.facts
    }
    source = functools.partial(Matched, how=how, max_rows=most, pairs=pairs, names=names)
    return _together(
        source, rows, other, offered, facts=facts, table=f"{left.table} with {right.table}"
    )


def united(rows: Relation, other: Relation) -> Relation:
    """The rows of both, with the columns that both have; see `Query.union`."""
    left, right = rows.scope, other.scope
    shared = {label: theirs for label in left.names if (theirs := right.alike(label)) is not None}
    offered: _Offered = {
        label: [
            (_hull(one, two), (one.name, two.name))
            for one in left.readings(label)
            for two in right.readings(theirs)
            if _comparable(one, two)
        ]
        for label, theirs in shared.items()
    }
    facts = {
        label: left.facts[label]
        for label, theirs in shared.items()
        if offered[label] and label in left.facts and left.facts[label] == right.facts.get(theirs)
    }
    return _together(
        UnionAll, rows, other, offered, facts=facts, table=f"{left.table} and {right.table}"
    )


_Offered = dict[str, list[tuple[Column, BothSides]]]
"""By label the readings of a column, and what each is called on both sides."""


def _together(
    kind: Callable[..., Matched | UnionAll],
    rows: Relation,
    other: Relation,
    offered: _Offered,
    *,
    facts: Mapping[str, Fact],
    table: str,
) -> Relation:
    """Rows over both sides; people are distinguished by what the two have in common."""
    left, right = rows.scope, other.scope
    leaves: dict[str, tuple[ColumnReading, ...]] = {}
    columns: dict[str, BothSides] = {}
    for label, read in offered.items():
        for column, names in read:
            made = _column(label, column)
            if made.name not in columns:  # of two readings of one kind the first
                columns[made.name] = names
                leaf = ColumnReading(sql=identifier(made.name), column=made, label=label)
                leaves[label] = (*leaves.get(label, ()), leaf)
    pairs = zip(left.ids.items(), right.ids.values(), strict=True)
    tables = left.table, right.table
    types = {name: _common_type(name, one.type, two.type, tables) for (name, one), two in pairs}
    scope = TableSchema(
        table=table, leaves=leaves, ids=joint_ids(types), facts=facts, read_public=left.read_public
    )
    source = kind(left=rows, right=other, columns=columns)
    found = Relation(source=source, scope=scope, public=rows.public)
    count = len(found.tables)
    expected = f"at most {_MOST_TABLES} in one question"
    checks.demand(count <= _MOST_TABLES, "tables", count, expected=expected)
    return found.checked("join", table)


def _common_type(name: str, one: str, two: str, tables: tuple[str, str]) -> str:
    """The type in which people of two tables are compared; InvalidParameter where there is none."""
    if one == two and (one != "DECIMAL" or tables[0] == tables[1]):
        return one
    if one != two and {one, two} <= INTEGERS - {"UHUGEINT"}:
        return "HUGEINT"
    known = {"VARCHAR": "text", "UUID": "UUIDs", "DATE": "dates", "DECIMAL": "decimal numbers"}
    ones, twos = (known.get(kind, "whole numbers") for kind in (one, two))
    raise InvalidParameter(
        "id",
        name,
        expected=f"ids of one type: they are {ones} in {tables[0]!r} and "
        f"{twos} in {tables[1]!r}. Write the id as an expression that gives the same "
        f"type, such as unacorda.Person('CAST({name} AS VARCHAR)', max_rows=...)",
    )


_MOST_PARTS = 1_000


def parted(
    starts: Mapping[str, Relation],
    unit: Unit,
    column: str,
    *,
    keys: Iterable[Key],
    max_parts: int,
    salt: int,
) -> dict[Key, dict[str, Relation]]:
    """By key the rows that each table of a part begins with: of tables that have the column.

    salt: 128 bits, for the life of the split. Raises InvalidParameter, naming the hint.
    """
    listed = check_keys("keys", keys)
    most = checks.positive_integer(max_parts=max_parts)
    parts = len(listed)
    checks.demand(parts <= _MOST_PARTS, "keys", parts, expected=f"at most {_MOST_PARTS:,} parts")
    fits = most == 1 or not isinstance(unit, Row)
    checks.demand(fits, "max_parts", max_parts, expected="1: a single row is in one part")
    members = {name: rows for name, rows in starts.items() if column in rows.scope}
    expected = f"a column of the tables: {', '.join(starts)}"
    checks.demand(members, "column", column, expected=expected)
    columns = {name: rows.scope.column_of_keys(column, listed) for name, rows in members.items()}
    first, *others = (rows.scope for rows in members.values())
    types = [one.type for one in first.ids.values()]  # in which people of all tables are one
    for scope in (first, *others):
        types = [
            _common_type(name, known, there.type, (first.table, scope.table))
            for known, (name, there) in zip(types, scope.ids.items(), strict=True)
        ]
    step = functools.partial(
        PeoplePart,
        label=column,
        keys=listed,
        max_parts=most,
        salt=salt,
        members=tuple((rows, columns[name]) for name, rows in members.items()),
        types=tuple(types),
    )
    return {
        key: {n: rows.after(step(key=key, column=columns[n])) for n, rows in members.items()}
        for key in listed
    }


def _limits(max_rows: object, left: str, right: str) -> tuple[int, int]:
    """How many rows of a person enter a join from each side."""
    given = max_rows if isinstance(max_rows, tuple | list) else (max_rows, max_rows)
    expected = (
        f"how many rows of a person enter the join from {left!r} and from {right!r}, "
        "such as max_rows=(3, 5): without bounds one person may make any number of rows"
    )
    checks.demand(max_rows is not None and len(given) == 2, "max_rows", max_rows, expected=expected)
    one, two = (checks.positive_integer(max_rows=part) for part in given)
    expected = f"a product of at most {MOST_COPIES:,} rows"
    checks.demand(one * two <= MOST_COPIES, "max_rows", max_rows, expected=expected)
    return one, two


def _named(
    on: On, left: TableSchema, right: TableSchema, *, people: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The columns to compare, by the names that the tables have for them."""
    people = {} if people is None else people
    listed = [on] if isinstance(on, str) else on
    given: dict[str, str] = {}
    if isinstance(listed, Mapping):
        given = dict(listed)
    elif isinstance(listed, list | tuple):
        given = {name: name for name in listed if isinstance(name, str)}
    fits = given and listed is not None and len(given) == len(listed)
    expected = "a column that both have, a list of them, or {left: right}"
    checks.demand(fits, "on", on, expected=expected)
    if any(given.get(one) != two for one, two in people.items()):
        one, *others = people
        shown = repr(dict(people) if others or people[one] != one else one)
        sql = f"ON {' AND '.join(f'{one} = {two}' for one, two in people.items())}"
        if all(one == two for one, two in people.items()):
            sql = f"USING ({', '.join(people)})"
        raise InvalidParameter(
            "on",
            on,
            expected=f"the person's id among the columns, on={shown}: otherwise rows of different "
            "people meet, and what one person adds to an answer depends on how many rows others "
            "have. A table that is not about people is joined as a public one. In SQL the id is "
            f"compared as in {sql}",
        )
    found = {one: two for one, two in given.items() if people.get(one) == two}
    for one, two in given.items():
        if one not in found:
            found[left.resolve(one, argument="on")] = right.resolve(two, argument="on")
    return found


def _pair(left: TableSchema, right: TableSchema, one: str, two: str) -> KeyPair:
    """The readings in which two columns are compared, those nearest to the first ones."""
    ours, theirs = left.column(one, argument="on"), right.column(two, argument="on")
    places = itertools.product(range(len(ours)), range(len(theirs)))
    fitting = [(x, y) for x, y in places if _comparable(ours[x], theirs[y])]
    if fitting:
        x, y = min(fitting, key=lambda place: (sum(place), place))
        return KeyPair(left=ours[x], left_label=one, right=theirs[y], right_label=two)
    simple = one if one.isidentifier() else "x"
    raise InvalidParameter(
        "on",
        one if one == two else f"{one} = {two}",
        expected=f"columns of one type: {one!r} of {left.table!r} holds {ours[0].kind.value}, and "
        f"{two!r} of {right.table!r} {theirs[0].kind.value}. Derive one that fits before the join, "
        f'such as derive({simple}_text="CAST({simple} AS VARCHAR)")',
    )


def _comparable(one: Column, two: Column) -> bool:
    return one.kind is two.kind or (one.kind.numeric and two.kind.numeric)


def _names(
    left: TableSchema, right: TableSchema, columns: Columns, *, skip: set[str]
) -> dict[str, str]:
    """The columns to take along, by their new names."""
    if columns is None:
        columns = [name for name in right.names if name not in skip and right.readings(name)]
    elif isinstance(columns, str) or not isinstance(columns, Iterable):
        raise InvalidParameter("columns", columns, expected="a list of columns, or {new: old}")
    given = columns if isinstance(columns, Mapping) else {name: name for name in columns}
    found: dict[str, str] = {}
    for new, old in given.items():
        label = right.resolve(old, argument="columns")
        right.column(label, argument="columns")
        fits = checks.is_text(new) and "\x00" not in new
        checks.demand(fits, "columns", new, expected="names that are text")
        if left.alike(new) is not None or twin([*found, new]):
            raise InvalidParameter(
                "columns",
                new,
                expected=f"new names: {left.table!r} has that column too (capitals do not tell "
                "names apart). Choose with columns=[...], or rename with "
                f"columns={{'other_{label}': {label!r}}}",
            )
        found[new] = label
    return found


def _column(label: str, column: Column) -> Column:
    return dataclasses.replace(column, name=f"{label} as {column.kind.value}")


def _hull(one: Column, two: Column) -> Column:
    """A column that holds the values of both."""
    kind = one.kind if one.kind is two.kind else Kind.NUMBER
    lower, upper = min(one.lower, two.lower), max(one.upper, two.upper)
    return Column(one.name, kind, lower, upper, one.size.hull(two.size))


def _missing(fact: Fact, how: How) -> Fact:
    """What is known of a column of the other table; without a match it is NULL."""
    if how == "inner" or not isinstance(fact, Categories) or None in fact.values:
        return fact
    return Categories((*fact.values, None))
