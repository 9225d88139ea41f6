"""Read a sub-select that groups by the person: one value per person, from all of their rows.

    SELECT AVG(highest) FROM (SELECT id, MAX(value) AS highest FROM labs GROUP BY id)

Its aggregates become values of `per_person`; what is computed with them, and HAVING, are steps of
the question about people.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from sqlglot import exp

from unacorda.errors import InvalidParameter, MissingBound, UnsafeExpression
from unacorda.query.expressions import errors
from unacorda.query.expressions.language import Literal, Name, Node, Operation, text_of
from unacorda.query.expressions.reader import Reader, bare, given
from unacorda.query.plan.per_person import (
    all_,
    any_,
    count_,
    first_,
    last_,
    max_,
    mean_,
    min_,
    sum_,
)
from unacorda.query.plan.person_values import PersonValue
from unacorda.query.sql.aggregates import plain
from unacorda.query.sql.source import (
    Offered,
    Source,
    free_name,
    shown_name,
    unbounded,
    written,
)

__all__ = ["PERSON_SELECT", "person_source"]

PERSON_SELECT = (
    "A sub-select may aggregate the rows of each person, with MIN, MAX, SUM, AVG, COUNT, BOOL_OR, "
    "BOOL_AND, FIRST(x ORDER BY day) and LAST(x ORDER BY day), each also with FILTER: SELECT id, "
    "MAX(value) AS highest FROM labs GROUP BY id."
)
"""What may be aggregated in a sub-select."""

_OF_ONE: dict[type[object] | str, Callable[[str], PersonValue]] = {
    exp.Min: min_,
    exp.Max: max_,
    exp.AnyValue: min_,
    exp.Sum: sum_,
    exp.Avg: mean_,
    "MEAN": mean_,
    exp.LogicalOr: any_,
    exp.LogicalAnd: all_,
}
"""Of one expression, by how sqlglot holds them."""
_BY_ANOTHER = {exp.ArgMin: first_, exp.ArgMax: last_}
_BOTH = {"this", "expression"}
_AGGREGATES = (exp.AggFunc, exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.Window)


def person_source(source: Source, tree: exp.Select, name: str) -> Source:
    """What a sub-select that groups by the person offers.

    source: its FROM after WHERE; name: of the sub-select. Raises UnsafeExpression and
    InvalidParameter.
    """
    clause = tree.args["group"]
    with source.stepping("GROUP BY", clause):
        query = source.people
    if not query.scope.ids:
        reason = "it uses GROUP BY in a sub-select, and no id says which rows are one person's"
        hint = (
            "Protect unacorda.Person('id', max_rows=...) for values of people, or write GROUP BY "
            "in the outer SELECT."
        )
        raise source.fault(reason, hint, clause)
    reading = _PersonReading(source=source, ids=_ids(source))
    reading.check_groups(clause, tree)
    selected: list[tuple[str, Node, exp.Expression]] = []
    for projection in tree.expressions:
        node = projection.this if isinstance(projection, exp.Alias) else projection
        shown = reading.shown(projection, node, [one for one, _, _ in selected])
        selected.append((shown, reading.read(node, shown), node))
    having = tree.args.get("having")
    kept = None
    if having is not None:
        kept = reading.read(having.this, "", {one.casefold(): node for one, node, _ in selected})
    with source.stepping("SELECT", tree):
        query = replace(query, rows=query.rows.per_person(reading.values))
    people = replace(source, query=query, taken=frozenset(map(str.casefold, query.scope.names)))
    if kept is not None:
        condition = written(source.text, kept, having)
        with source.stepping("HAVING", having):
            people = replace(people, query=people.people.where(condition))
    columns = []
    for shown, found, node in selected:
        meant = found
        if not isinstance(meant, Name):
            label = free_name(shown, people.taken)
            people, meant = people.derive(label, found, node), Name(label)
        columns.append(Offered(table=name, shown=shown, meant=meant.name))
    listed = replace(people, name=name or "the sub-select", columns=tuple(columns))
    return listed.called(name)


def _ids(source: Source) -> dict[str, str | None]:
    """By the text of each expression that names a person the column that it is, where it is one."""
    scope = source.people.scope
    found: dict[str, str | None] = {}
    for name in scope.ids:
        if (column := scope.alike(name)) is not None:
            found[_mark(Name(column))] = column
        else:
            found[scope.parse(name, argument="unit").text] = None
    return found


def _mark(node: Node) -> str:
    """The identity of an expression; a bare name does not care about case."""
    return text_of(node).casefold() if isinstance(node, Name) else text_of(node)


@dataclass(frozen=True, slots=True, kw_only=True)
class _PersonReading:
    """The reading of one sub-select.

    ids: see `_ids`. values: those of people by label, filled while reading.
    """

    source: Source
    ids: dict[str, str | None]
    values: dict[str, PersonValue] = field(default_factory=dict)

    def check_groups(self, clause: exp.Group, tree: exp.Select) -> None:
        """Raise UnsafeExpression unless it groups by all that names a person, and no more."""
        if given(clause) != {"expressions"}:
            reason = "its sub-select groups in another way than by columns"
            raise self.source.fault(reason, PERSON_SELECT, clause)
        grouped: set[str] = set()
        named = {one.alias.casefold(): one.this for one in tree.expressions if one.alias}
        for part in clause.expressions:
            at = named.get((self.source.alone(part) or "").casefold(), part)
            number = int(part.name) if isinstance(part, exp.Literal) and part.is_int else 0
            if 1 <= number <= len(tree.expressions):
                at = tree.expressions[number - 1].unalias()
            if self.is_person(at):
                grouped |= set(self.ids)
                continue
            mark = _mark(self.source.read(at))
            if mark not in self.ids:
                people = ", ".join(self.source.people.scope.ids)
                hint = (
                    f"Group it by the person ({people}) alone, and aggregate the rest: "
                    "MIN(sex) AS sex for what is the same in all of their rows, MAX(value) FILTER "
                    "(WHERE test = 'hdl') AS hdl for values of some rows."
                )
                reason = (
                    f"its sub-select groups by {errors.fragment(at)!r}, which is not the person"
                )
                raise self.source.fault(reason, hint, part)
            grouped.add(mark)
        if grouped != set(self.ids):
            people = ", ".join(self.source.people.scope.ids)
            reason = "its sub-select groups by a part of what names a person"
            raise self.source.fault(reason, f"Write GROUP BY {people}.", clause)

    def is_person(self, node: object) -> bool:
        """Whether it is the word `person`, which means the id where no column is called so."""
        name = self.source.alone(node)
        return (
            name is not None and name.casefold() == "person" and "person" not in self.source.first
        )

    def shown(self, projection: exp.Expression, node: exp.Expression, taken: list[str]) -> str:
        """The name of a selected column."""
        if isinstance(node, exp.Star):
            reason = "its sub-select groups by the person and selects rows (*)"
            raise self.source.fault(reason, PERSON_SELECT, node)
        shown = shown_name(projection)
        if not shown:
            reason = f"{errors.fragment(node)!r} has no name in a sub-select"
            raise self.source.fault(reason, "Name it with AS: MAX(value) AS highest.", node)
        if shown.casefold() in map(str.casefold, taken):
            reason = f"two columns of a sub-select are named {shown[:60]!r}"
            raise self.source.fault(reason, "Name them apart with AS.", projection)
        return shown

    def read(self, node: object, shown: str, aliases: dict[str, Node] | None = None) -> Node:
        """What an expression means over the values of people.

        shown: the name of the column, for a value that it is; aliases: what else has a name.
        """
        whole, known = bare(node), frozenset(self.source.qualifiers)

        def special(part: exp.Expression) -> Node | None:
            value = self.value(part)
            if value is not None:
                return Name(self.label(value, shown if part is whole else "value"))
            if isinstance(part, _AGGREGATES):
                reason = f"its sub-select aggregates in another way, at {errors.fragment(part)!r}"
                raise self.source.fault(reason, PERSON_SELECT, part)
            if self.is_person(part) and len(self.ids) == 1:
                return self.person(next(iter(self.ids)))
            if None in self.ids.values() and not isinstance(part, exp.Column):
                with contextlib.suppress(UnsafeExpression):
                    mark = _mark(self.source.read(part))
                    return self.person(mark) if mark in self.ids else None
            if not isinstance(part, exp.Column):
                return None
            name = self.source.alone(part)
            if aliases is not None and name is not None and name.casefold() in aliases:
                return aliases[name.casefold()]
            mark = _mark(self.source.read(part))
            if mark not in self.ids:
                shown_part = errors.fragment(part)
                reason = f"{shown_part!r} is neither aggregated nor the person in a sub-select"
                hint = f"Write MIN({shown_part}), MAX({shown_part}) or another aggregate of it."
                raise self.source.fault(reason, hint, part)
            return self.person(mark)

        return Reader(text=self.source.text, qualifiers=known, special=special).read(whole)

    def person(self, mark: str) -> Name:
        """What names a person: a column, or the one value that an expression has in their rows."""
        column = self.ids[mark]
        return Name(self.label(min_(mark), "person") if column is None else column)

    def label(self, value: PersonValue, shown: str) -> str:
        """The column of people that a value is."""
        for label, known in self.values.items():
            if known == value:
                return label
        ids = (name.casefold() for name in self.source.people.scope.ids)
        label = free_name(shown, {*ids, *map(str.casefold, self.values)})
        self.values[label] = value
        return label

    def value(self, node: object, test: Node | None = None) -> PersonValue | None:
        """The value that an aggregate is, of rows that a condition holds for; None for others."""
        match node:
            case exp.Filter(this=inner, expression=exp.Where() as where) if given(node) == _BOTH:
                return self.value(inner, self.source.read(where.this))
            case exp.IgnoreNulls(this=inner):
                return self.value(inner, test)
            case exp.Count():
                return self.count(node, test)
            case exp.CountIf() if given(node) == {"this"}:
                condition = self.source.read(node.this)
                both = condition if test is None else Operation("AND", (test, condition))
                return count_(self.text(_case(both, Literal(1)), node))
            case exp.First(this=exp.Order() as ordered) | exp.Last(this=exp.Order() as ordered):
                return self.ordered(node, ordered, test)
            case exp.ArgMin() | exp.ArgMax() if given(node) == _BOTH:
                column, by = self.argument(node.this, test), self.argument(node.expression)
                return self.checked(_BY_ANOTHER[type(node)](column, by=by), node)
            case exp.Anonymous(expressions=[inner]):
                function = _OF_ONE.get(node.name.upper())
            case exp.Expression(this=inner) if given(node) == {"this"}:
                function = _OF_ONE.get(type(node))
            case _:
                return None
        return (
            None if function is None else self.checked(function(self.argument(inner, test)), node)
        )

    def count(self, node: exp.Count, test: Node | None) -> PersonValue | None:
        """COUNT(*) and COUNT(x)."""
        inner = node.this
        if not given(node) <= {"this", "big_int"} or isinstance(inner, exp.Distinct):
            return None
        if inner is not None and not isinstance(inner, exp.Star):
            return self.checked(count_(self.argument(inner, test)), node)
        return count_() if test is None else count_(self.text(_case(test, Literal(1)), node))

    def ordered(self, node: exp.Expression, order: exp.Order, test: Node | None) -> PersonValue:
        """FIRST(x ORDER BY y) and LAST."""
        parts = order.expressions
        if len(parts) != 1 or parts[0].args.get("nulls_first"):
            reason = f"it takes the first row in an unknown order, at {errors.fragment(node)!r}"
            hint = "Write FIRST(x ORDER BY day), with one column; rows without it are passed over."
            raise self.source.fault(reason, hint, node)
        last = isinstance(node, exp.Last) is not bool(parts[0].args.get("desc"))
        column, by = self.argument(order.this, test), self.argument(parts[0].this)
        return self.checked((last_ if last else first_)(column, by=by), node)

    def argument(self, node: object, test: Node | None = None) -> str:
        """What an aggregate is taken of."""
        return plain(self.text(_case(test, self.source.read(node)), node))

    def text(self, node: Node, at: object) -> str:
        """The node in the input language."""
        return written(self.source.text, node, at)

    def checked(self, value: PersonValue, at: exp.Expression) -> PersonValue:
        """The value, if its rows have one; what is wrong is raised about this place."""
        try:
            value.columns("value", self.source.people.scope)
        except UnsafeExpression:
            raise
        except InvalidParameter as error:
            place = errors.of_node(self.source.text, at)
            shown = errors.fragment(at) if place is None else self.source.text[slice(*place)]
            fault = error.about("SELECT", shown)
            if isinstance(error, MissingBound):
                text, people = error.column or "", self.source.people
                names = unbounded(people, text_of(Name(text)) if text in people.scope else text)
                declared = ", ".join(f"{name!r}: unacorda.Bounds(0, 100)" for name in names)
                hint = f"declare columns={{{declared}}}, or write LEAST(GREATEST(x, 0), 100)"
                column = names[0] if len(names) == 1 else f'"{text}"'
                fault = fault.about(fault.argument, fault.value, hint=hint, column=column)
        else:
            return value
        raise fault if place is None else fault.placed(self.source.text, place)


def _case(test: Node | None, value: Node) -> Node:
    """The value of the rows that a condition holds for."""
    return value if test is None else Operation("CASE", (test, value, Literal(None)))
