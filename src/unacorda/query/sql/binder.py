"""From an analyst's SELECT to the question that it asks."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from unacorda.errors import InvalidParameter, MissingBound, UnsafeExpression
from unacorda.query.aggregates.hierarchy import MARGIN, GivenLevelWeights
from unacorda.query.noise.key_selection import GivenKeys
from unacorda.query.plan.groups import keys_of_table
from unacorda.query.plan.query import Query, answer_columns
from unacorda.query.plan.relation import MOST_COPIES
from unacorda.query.schema.sources import is_table
from unacorda.query.schema.table import TableSchema
from unacorda.query.schema.units import Person, Unit
from unacorda.query.sql.aggregates import TOP
from unacorda.query.sql.parse import parse_select
from unacorda.query.sql.postprocess import check_arrangement
from unacorda.query.sql.types import (
    Condition,
    Derived,
    Item,
    Joined,
    Select,
    SelectGroup,
    SelectUnion,
    Step,
    placed,
    plain,
)

__all__ = [
    "question",
    "rows",
]


def question(
    text: str,
    *,
    start: Callable[[str], Query],
    keys: GivenKeys,
    level_weights: GivenLevelWeights = None,
) -> tuple[Query, Select]:
    """The question that a SELECT asks, and the SELECT as it was read.

    start: from a table's name to a query without steps; keys: public values by group column, by
    the name in the SELECT or of the column itself, a table with columns of these names, or a list,
    for several columns of tuples in the order of GROUP BY. level_weights: of ROLLUP and CUBE, as
    `group_by` takes them. Raises UnsafeExpression and InvalidParameter.
    """
    query, select = rows(text, start=start)
    if level_weights is not None and select.margins is None:
        raise InvalidParameter(
            "level_weights", level_weights, expected="it beside GROUP BY ROLLUP(...) or CUBE(...)"
        )
    if select.groups:
        with _grouping(text, select, made=query.scope.derived):
            found = _keys(select, keys, query)
            query = query.group_by(
                *select.groups, keys=found, margins=select.margins, level_weights=level_weights
            )
    elif keys is not None and not (isinstance(keys, Mapping) and not keys):
        raise InvalidParameter("keys", keys, expected="keys only with a GROUP BY")
    try:
        query = query.agg(
            **{item.alias: item.aggregate.build(item, query) for item in select.aggregates}
        )
    except InvalidParameter as error:
        for item in select.aggregates:
            with placed("SELECT", text, item.place):
                _check(item, query, alone=len(select.aggregates) == 1)
                if error.argument == item.alias:  # it does not suit the groups or the rows
                    raise
        with _grouping(text, select, made=query.scope.derived):
            raise
    check_arrangement(select, query, text)
    return query, select


def _check(item: Item, query: Query, *, alone: bool) -> None:
    """Raise what is wrong with one aggregate, in the words of SQL; alone: it is the only one."""
    fault: InvalidParameter | None = None
    try:
        lines = item.aggregate.build(item, query).bound_to(query.scope).lines
        if lines != 1 and not alone:
            fault = InvalidParameter(
                "SELECT",
                item.written,
                expected="no other aggregate beside one that makes several lines: ask for the "
                "others in a SELECT of their own",
            )
    except UnsafeExpression:
        raise
    except MissingBound as error:
        names = dict.fromkeys(re.findall(r'"((?:[^"]|"")+)"', item.written))
        lacking = next((part for part in (item.argument, item.second) if part), "")
        if item.second is not None and error.column == plain(item.second):
            lacking = item.second  # of two columns
            names = {name: None for name in names if f'"{name}"' in lacking}
        declared = ", ".join(f"{name!r}: unacorda.Bounds(0, 100)" for name in names)
        fault = MissingBound(
            "SELECT",
            item.written,
            expected=f"public bounds for {plain(lacking)!r}",
            column=plain(lacking),
            hint=f"declare columns={{{declared}}}, or write LEAST(GREATEST(x, 0), 100)",
        )
        if not names:
            expected = "a column: of a constant there is nothing to find. COUNT(*) counts rows"
            fault = InvalidParameter("SELECT", item.written, expected=expected)
    except InvalidParameter as error:
        fault = error.about("SELECT", item.written)
        if item.aggregate is TOP and error.argument == "values":
            fault = InvalidParameter(
                "SELECT",
                item.written,
                expected="a column of public values",
                lacks="keys",
                column=item.second,
                hint=f"declare columns={{{item.second!r}: unacorda.Categories([...])}}. Where no "
                "list of them is public, GROUP BY it with unacorda.private_keys()",
            )
    if fault is not None:
        raise fault


def rows(text: str, *, start: Callable[[str], Query]) -> tuple[Query, Select]:
    """The rows that a SELECT is about, as a question without groups and aggregates; see above."""
    tables = _Tables(start)
    select = parse_select(text, columns_of=tables.names)
    _check_names(text, select)
    return tables.rows(text, select.table, select.steps), select


class _Tables:
    """The tables of a session, private ones to begin with, public ones to join."""

    def __init__(self, start: Callable[[str], Query]) -> None:
        self._start = start
        self._begun: Query | None = None

    def names(self, table: str) -> tuple[str, ...]:
        """The columns of a table."""
        if self._begun is not None and table in self._begun.rows.public:
            return self._begun.rows.public[table].scope.names
        self._begun = self._start(table)
        return self._begun.scope.names

    def rows(self, text: str, table: str, steps: Iterable[Step]) -> Query:
        """The rows of a table after these steps of a SELECT."""
        query = self._start(table)
        for step in steps:
            match step:
                case Condition(expression=condition):
                    with placed("WHERE", text, step.place):
                        query = query.where(condition)
                case Derived(name=name, expression=expression):
                    with placed("SELECT", text, step.place):
                        query = query.derive(**{name: expression})
                case Joined():
                    other = self._right_side(query, text, step)
                    with placed("JOIN", text, step.place):
                        query = _joined(query, other, step)
                case SelectUnion(table=other, steps=inner):
                    right = self.rows(text, other, inner)
                    with placed("UNION ALL", text, step.place):
                        query = query.union(right)
        return query

    def _right_side(self, query: Query, text: str, step: Joined) -> Query | None:
        """The private rows to join; None for a public table."""
        if step.table not in query.rows.public:
            return self.rows(text, step.table, step.steps)
        with placed("JOIN", text, step.place):
            if step.steps:
                raise InvalidParameter(
                    "sql",
                    step.table,
                    expected="a public table by its name alone, without a sub-select; a condition "
                    "on it goes behind WHERE",
                )
        return None


def _joined(query: Query, other: Query | None, step: Joined) -> Query:
    """A query with the columns of another table; other: its rows, where it is private."""
    on = dict(step.on)
    if other is None:
        columns = _readable(query.rows.public[step.table].scope, step)
        return query.join(step.table, on, how=step.how, columns=columns)
    most = _most_rows(query.unit)
    people = dict(zip(query.scope.ids, other.scope.ids, strict=True))
    if any(on.get(one) != two for one, two in people.items()):
        same = all(one == two for one, two in people.items())
        pairs = " AND ".join(f"{one} = {two}" for one, two in people.items())
        written = f"USING ({', '.join(people)})" if same else f"ON {pairs}"
        raise InvalidParameter(
            "sql",
            on,
            expected=f"the person's id among what is compared, as in {written}: otherwise rows of "
            "different people meet, and what one person adds to an answer depends on how many rows "
            "others have. A table that is not about people is joined as a public one",
        )
    columns = _readable(other.scope, step)
    return query.join(other, on, how=step.how, columns=columns, max_rows=most)


def _readable(scope: TableSchema, step: Joined) -> dict[str, str]:
    """The columns to take along, without those of types that no expression reads."""
    return {new: old for new, old in step.columns if old in scope.derived or scope.leaves.get(old)}


def _most_rows(unit: Unit) -> int | None:
    """How many rows of a person enter a join from each side, where SQL does not say."""
    if not isinstance(unit, Person):
        return None  # such a join is refused
    if unit.max_rows is not None:
        return min(unit.max_rows, math.isqrt(MOST_COPIES))
    raise InvalidParameter(
        "max_rows",
        None,
        expected="unacorda.Person(..., max_rows=...): a JOIN of private tables takes as many rows "
        "of a person from each side as they may bring into a question, up to "
        f"{math.isqrt(MOST_COPIES)}",
    )


@contextmanager
def _grouping(text: str, select: Select, *, made: Collection[str]) -> Iterator[None]:
    """Tell what is wrong with groups and their keys at the place of the group.

    made: the columns that are no table's, which errors call by the names that the SELECT shows.
    """
    fault: InvalidParameter | None = None
    try:
        yield
    except InvalidParameter as error:
        fault = error
    if fault is None:
        return
    places = [place for place in select.group_places if place is not None]
    argument = fault.argument.partition("[")[0]
    if not places or argument not in {"keys", "group_by", "margins"}:
        raise fault
    place = min(places)[0], max(places)[1]
    groups = zip(select.groups, select.shown, select.group_places, strict=True)
    for name, shown, own in groups:
        said = (fault.argument, fault.expected, fault.value, fault.hint)
        if own is not None and any(isinstance(s, str) and repr(name) in s for s in said):
            column = shown if name in made else name
            written = (fault.argument, fault.expected, fault.hint)
            argument, *rest = (text.replace(repr(name), repr(column)) for text in written)
            fault = fault.about(
                argument, fault.value, expected=rest[0], hint=rest[1], column=column
            )
            place = own
            break
    raise fault.placed(text, place)


def _check_names(text: str, select: Select) -> None:
    taken = {*select.shown, *([] if select.margins is None else [MARGIN])}
    for item in (*select.items, *select.inner):
        if isinstance(item, SelectGroup):
            continue
        parts = item.parts if isinstance(item, Item) else ("",)
        columns = answer_columns(item.alias, parts)
        if columns & taken:
            shared = ", ".join(map(repr, sorted(columns & taken)))
            with placed("SELECT", text, item.place):
                raise InvalidParameter(
                    "sql",
                    item.alias,
                    expected="output columns that differ, also from the columns that each "
                    "aggregate gets beside its own (name_se, name_low, name_high), and two would "
                    f"be named {shared}: name them apart with AS",
                )
        taken |= columns


def _keys(select: Select, keys: Any, query: Query) -> GivenKeys:
    """The keys by the names of the columns; tables are read by the names in the SELECT."""
    if is_table(keys):
        columns = dict(zip(select.shown, select.groups, strict=True))
        return keys_of_table(query.scope, columns, keys)
    if keys is None or not isinstance(keys, Mapping):
        return keys  # which group_by checks
    names = select.group_names
    unknown = [key for key in keys if key not in names]
    if unknown:
        raise InvalidParameter(
            "keys",
            sorted(map(str, unknown)),
            expected=f"columns of GROUP BY: {', '.join(select.shown) or 'none'}",
        )
    found = {
        names[key]: keys_of_table(query.scope, {key: names[key]}, values, argument=f"keys[{key!r}]")
        if is_table(values)
        else values
        for key, values in keys.items()
    }
    if len(found) < len(keys):
        raise InvalidParameter("keys", list(keys), expected="each group column once")
    return found
