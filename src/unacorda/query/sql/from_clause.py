"""FROM, JOIN, sub-selects and WITH: the rows that a SELECT is about, and their columns by name.

A sub-select filters rows and names columns; it becomes steps of the one question, and its names are
looked up here. A name that it does not list cannot be used outside. One that groups by the person
makes one row of each, from all of their rows:

    SELECT AVG(highest) FROM (SELECT id, MAX(value) AS highest FROM labs GROUP BY id)

Its aggregates become values of `per_person`; what is computed with them, and HAVING, are steps of
the question about people.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace

from sqlglot import exp

from unacorda.errors import InvalidParameter, MissingBound, UnsafeExpression
from unacorda.query.expressions import errors
from unacorda.query.expressions.language import (
    Kind,
    Literal,
    Name,
    Node,
    Operation,
    depth_of,
    text_of,
)
from unacorda.query.expressions.parse import remember
from unacorda.query.expressions.reader import MOST_CHARACTERS, MOST_LEVELS, Reader, bare, given
from unacorda.query.plan.person_values import (
    PersonValue,
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
from unacorda.query.plan.query import Query
from unacorda.query.plan.relation import MOST_COPIES, How
from unacorda.query.schema.sources import Public
from unacorda.query.schema.units import Person

Start = Callable[[str], Query]
"""From the name of a table of people to a question without steps; else InvalidParameter."""

ROW_WISE = "Write SELECT of columns and row-wise expressions, FROM and WHERE there."
"""What may stand in a sub-select."""
UNION_ALL = (
    "Write UNION ALL between two SELECTs that list the same columns, by the same names and in "
    "the same order."
)
"""What may be written between row-wise SELECTs."""

_NAMES = {
    "joins": ("JOIN or a second table", "Join tables behind FROM."),
    "having": ("HAVING", ROW_WISE),
    "group": ("GROUP BY", ROW_WISE),
    "order": ("ORDER BY", ROW_WISE),
    "limit": ("LIMIT", ROW_WISE),
    "distinct": ("SELECT DISTINCT", "Name the columns behind GROUP BY and add COUNT(*)."),
    "with_": ("WITH inside of a sub-select", "Write WITH once, before the outer SELECT."),
    "qualify": ("QUALIFY", "Write HAVING with an aggregate of the SELECT list."),
    "offset": ("OFFSET", ROW_WISE),
    "sample": ("a sample of the table", "Ask about the whole table."),
    "into": ("INTO", "The release is the result; store it yourself."),
    "locks": ("FOR UPDATE or FOR SHARE", "Leave it out: nothing here changes rows."),
    "kind": ("SELECT AS", "Write SELECT and the columns."),
}


def clauses(text: str, tree: exp.Expression, known: Collection[str]) -> None:
    """Raise UnsafeExpression for a clause of a SELECT that is not among the known ones."""
    for key in sorted(given(tree) - set(known)):
        value = tree.args[key]
        first = value[0] if isinstance(value, list) else value
        name, hint = _NAMES.get(
            key, (key.strip("_").replace("_", " ").upper(), "Leave the clause out.")
        )
        shown = errors.fragment(first).strip()
        at = f", at {shown!r}" if shown else ""
        place = errors.of_node(text, first if isinstance(first, exp.Expression) else tree)
        whole = errors.of_node(text, tree)
        if isinstance(first, exp.Distinct):  # aggregates may say DISTINCT too
            place = errors.of_word(text, "DISTINCT", within=whole)
        elif isinstance(first, exp.Lock) and whole is not None:
            place = errors.of_word(text, "FOR", within=(whole[0], len(text)))
        raise UnsafeExpression(text, reason=f"it uses {name}{at}", hint=hint, place=place)


def identity(node: Node) -> str:
    """The identity of an expression; a bare name does not care about case."""
    return text_of(node).casefold() if isinstance(node, Name) else text_of(node)


def only_where(test: Node | None, value: Node) -> Node:
    """The value of the rows that a condition holds for."""
    return value if test is None else Operation("CASE", (test, value, Literal(None)))


def fault(text: str, reason: str, hint: str, at: object) -> UnsafeExpression:
    """A refusal of the SELECT; at: the part that is meant."""
    return UnsafeExpression(text, reason=reason, hint=hint, place=errors.of_node(text, at))


@contextmanager
def placed(clause: str, text: str, at: object) -> Iterator[None]:
    """Raise what is raised inside as about a part of a SELECT; of no known place as it is."""
    try:
        yield
    except UnsafeExpression:
        raise
    except InvalidParameter as error:
        place = errors.of_node(text, at)
        if place is None:
            raise
        found = error.about(clause, text[slice(*place)]).placed(text, place)
    else:
        return
    raise found from None  # one error, not a chain of three


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """A column that a FROM offers: behind which table's name, and as it was written there.

    meant: the column of the rows that it means, None for a table's own, which is spelled as the
    caller does.
    """

    table: str
    shown: str
    meant: str | None

    @property
    def key(self) -> str:
        """Its name without capitals."""
        return self.shown.casefold()


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What a FROM offers: rows, and columns by name.

    table: the first table. query: the rows after all steps; None for a public table, which is
    joined as it is. name: of the table or sub-select, for messages; qualifiers: what may precede a
    column, one for each table that was joined. columns: where several have one name, it means
    nothing without its table. taken: names that no new column may have, without capitals.
    """

    text: str
    table: str
    query: Query | None
    name: str
    qualifiers: tuple[str, ...]
    columns: tuple[Offered, ...]
    taken: frozenset[str]

    @property
    def first(self) -> dict[str, Offered]:
        """By each name without capitals the first column that has it."""
        found: dict[str, Offered] = {}
        for one in self.columns:
            found.setdefault(one.key, one)
        return found

    @property
    def people(self) -> Query:
        """The rows, to which steps may be added; InvalidParameter for a public table."""
        if self.query is None:
            raise InvalidParameter(
                "sql",
                self.table,
                expected="a public table by its name alone, without a sub-select; a condition on "
                "it goes behind WHERE",
            )
        return self.query

    def fault(self, reason: str, hint: str, at: object) -> UnsafeExpression:
        """A refusal of the SELECT; at: the part that is meant."""
        return fault(self.text, reason, hint, at)

    def look(self, table: str | None, name: str, at: object) -> str:
        """The column that a name means here, behind the name of a table or by itself."""
        found = [
            one
            for one in self.columns
            if one.key == name.casefold()
            and (not table or one.table.casefold() == table.casefold())
        ]
        if len(found) == 1:
            return found[0].meant or name
        if found:
            choices = " or ".join(f"{one.table}.{name}"[:60] for one in found[:2])
            raise self.fault(
                f"several of its tables have a column {name[:60]!r}",
                f"Write the table before it: {choices}.",
                at,
            )
        shown = f"{table}.{name}" if table else name
        listed = [one.shown for one in self.first.values()]
        own = any(one.meant is None for one in self.columns)
        raise self.fault(
            f"{shown[:60]!r} is no column of {self.name[:60]!r}",
            f"{errors.resembling(shown, listed)}Its columns are {', '.join(listed[:50])}"
            + ("." if own else "; list others in its SELECT."),
            at,
        )

    def read(self, node: object) -> Node:
        """What an expression over these columns means over the rows. Raises UnsafeExpression."""
        known = frozenset(self.qualifiers)
        return Reader(text=self.text, qualifiers=known, special=self._meant).read(node)

    def _meant(self, node: exp.Expression) -> Node | None:
        name = self.alone(node)
        if name is not None:
            return Name(self.look(None, name, node))
        several = len(self.qualifiers) > 1
        if several and isinstance(node, exp.Column) and given(node) == {"this", "table"}:
            return Name(self.look(node.table, node.name, node))
        return None

    def alone(self, node: object) -> str | None:
        """The name of a column that is written by itself, or behind the only table there is."""
        node = bare(node)
        if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Identifier):
            return None
        behind = [node.table] == [*self.qualifiers] and node.args.get("db") is None
        return str(node.name) if behind or given(node) == {"this"} else None

    def new_name(self, projection: exp.Expression, taken: Iterable[str], *, example: str) -> str:
        """The name of a column of a sub-select; taken: those of others."""
        shown = shown_name(projection)
        if not shown:
            reason = f"{errors.fragment(projection)!r} has no name in a sub-select"
            raise self.fault(reason, f"Name it with AS: {example}.", projection)
        if shown.casefold() in map(str.casefold, taken):
            reason = f"two columns of a sub-select are named {shown[:60]!r}"
            raise self.fault(reason, "Name them apart with AS.", projection)
        return shown

    def shown(self, column: Name) -> str:
        """What a column of the rows is called here."""
        known = (one.shown for one in self.first.values() if one.meant == column.name)
        return next(known, column.name)

    def stepping(self, clause: str, at: object) -> AbstractContextManager[None]:
        """Raise what a step raises as about this clause; a public table is only joined."""
        return placed("JOIN" if self.query is None else clause, self.text, at)

    def where(self, clause: exp.Expression) -> Source:
        """The rows that a WHERE keeps."""
        condition = written(self.text, self.read(clause.this), clause.this)
        with self.stepping("WHERE", clause):
            return replace(self, query=self.people.where(condition))

    def derive(self, label: str, node: Node, at: object) -> Source:
        """The rows with a column more, which has no name here yet."""
        expression = written(self.text, node, at)
        with self.stepping("SELECT", at):
            query = self.people.derive(**{label: expression})
        return replace(self, query=query, taken=self.taken | {label.casefold()})

    def listed(self) -> Source:
        """The same, every column under its own name."""
        columns = (replace(one, meant=one.meant or one.shown) for one in self.columns)
        return replace(self, columns=tuple(columns))

    def called(self, name: str) -> Source:
        """The same behind another name."""
        columns = (replace(one, table=name) for one in self.first.values())
        return replace(self, qualifiers=(name,), columns=tuple(columns))


def shown_name(projection: exp.Expression) -> str:
    """What a selected column is called: its alias, or the name of a bare column; else nothing."""
    if isinstance(projection, exp.Alias):
        return str(projection.alias)
    return str(projection.name) if isinstance(projection, exp.Column) else ""


def written(text: str, node: Node, at: object) -> str:
    """The node in the input language; who is given that text finds the node again."""
    found = text_of(node)
    if len(found) > MOST_CHARACTERS:
        raise fault(text, "a part of it is too long", "Write it shorter.", at)
    if depth_of(node) <= MOST_LEVELS:  # else it is refused where it is read
        remember(found, node)
    return found


def unbounded(query: Query, text: str) -> list[str]:
    """The number columns of tables that a number is made of and that have no declared bounds."""
    names = query.scope.parse(text, argument="column", expect=Kind.NUMBER).columns
    found = {leaf.label: leaf.column for leaf in query.rows.origins(names)}
    return [one for one, read in found.items() if read.kind.numeric and math.isinf(read.lower)]


def bounds_hint(names: Iterable[str]) -> str:
    """What to do about a number made of columns that have no bounds."""
    declared = ", ".join(f"{name!r}: unacorda.Bounds(0, 100)" for name in names)
    return f"open the session with columns={{{declared}}}, or write LEAST(GREATEST(x, 0), 100)"


def free_name(name: str, taken: Collection[str]) -> str:
    """The name, or else with the first number behind it that makes it a new one.

    taken: without capitals.

    >>> free_name("age", {"age", "age (2)"})
    'age (3)'
    """
    number, found = 1, name
    while found.casefold() in taken:
        number += 1
        found = f"{name} ({number})"
    return found


def plain(argument: str) -> str:
    """An argument; a column alone by its own name."""
    bare = argument.removeprefix('"').removesuffix('"')
    return bare if argument == f'"{bare}"' and '"' not in bare else argument


# ---- a sub-select that groups by the person ------------------------------------------------------

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
    return replace(people, name=name or "the sub-select", columns=tuple(columns)).called(name)


def _ids(source: Source) -> dict[str, str | None]:
    """By the text of each expression that names a person the column that it is, where it is one."""
    scope = source.people.scope
    found: dict[str, str | None] = {}
    for name in scope.ids:
        if (column := scope.alike(name)) is not None:
            found[identity(Name(column))] = column
        else:
            found[scope.parse(name, argument="unit").text] = None
    return found


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
            mark = identity(self.source.read(at))
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
        return self.source.new_name(projection, taken, example="MAX(value) AS highest")

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
                    mark = identity(self.source.read(part))
                    return self.person(mark) if mark in self.ids else None
            if not isinstance(part, exp.Column):
                return None
            name = self.source.alone(part)
            if aliases is not None and name is not None and name.casefold() in aliases:
                return aliases[name.casefold()]
            mark = identity(self.source.read(part))
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
                return count_(self.text(only_where(both, Literal(1)), node))
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
        return count_() if test is None else count_(self.text(only_where(test, Literal(1)), node))

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
        return plain(self.text(only_where(test, self.source.read(node)), node))

    def text(self, node: Node, at: object) -> str:
        """The node in the input language."""
        return written(self.source.text, node, at)

    def checked(self, value: PersonValue, at: exp.Expression) -> PersonValue:
        """The value, if its rows have one; what is wrong is raised about this place."""
        people = self.source.people
        with placed("SELECT", self.source.text, at):
            try:
                value.columns("value", people.scope)
            except MissingBound as error:
                text = error.column or ""
                names = unbounded(people, text_of(Name(text)) if text in people.scope else text)
                column = names[0] if len(names) == 1 else f'"{text}"'
                hint = bounds_hint(names)
                raise error.about(error.argument, error.value, hint=hint, column=column) from None
        return value


# ---- JOIN and UNION ALL --------------------------------------------------------------------------

_FORMS = (
    "Write a JOIN b USING (id) or a LEFT JOIN b ON a.id = b.person. Two tables of people are "
    "joined on the person; on a public one any columns are compared."
)
_ON = (
    "Write equalities of columns there, with AND between them: ON a.id = b.person AND a.day = "
    "b.day. Other conditions go behind WHERE."
)


def joined(left: Source, right: Source, join: exp.Join) -> Source:
    """What two sources offer side by side. Raises UnsafeExpression for other than equi-joins."""
    left, right = left.listed(), right.listed()
    how = _how(left, right, join)
    on = _on(left, right, join)
    taken, columns = set(left.taken), list(left.columns)
    new: dict[str, str] = {}
    for one in right.columns:
        if one.meant is None or one.meant in on.values():
            continue
        label = one.shown
        if one.key in taken or one.key in left.first:
            label = free_name(f"{one.table}.{one.shown}", taken)
        taken.add(label.casefold())
        new[label] = one.meant
        columns.append(replace(one, meant=label))
    with left.stepping("JOIN", join):
        query = _with_columns(left.people, right, on, how, new)
    return replace(
        left,
        query=query,
        name=f"{left.name} with {right.name}",
        qualifiers=left.qualifiers + right.qualifiers,
        columns=tuple(columns),
        taken=frozenset(taken),
    )


def _with_columns(
    query: Query, right: Source, on: Mapping[str, str], how: How, columns: Mapping[str, str]
) -> Query:
    """The rows with columns of another source, but for those that no expression reads."""
    other = right.query
    scope = query.rows.public[right.table].scope if other is None else other.scope
    columns = {n: o for n, o in columns.items() if o in scope.derived or scope.leaves.get(o)}
    if other is None:
        return query.join(right.table, on, how=how, columns=columns)
    single = [side.rows.most_of_person == 1 for side in (query, other)]
    most = math.isqrt(MOST_COPIES)  # of a person from each side; SQL does not say how many
    if isinstance(query.unit, Person) and not all(single):
        if query.unit.max_rows is None:
            raise InvalidParameter(
                "max_rows",
                None,
                expected="unacorda.Person(..., max_rows=...): a JOIN of private tables takes as "
                "many rows of a person from each side as they may bring into a question, up to "
                f"{most}",
            )
        most = min(query.unit.max_rows, most)
    limits = tuple(1 if one else most for one in single)
    return query.join(other, on, how=how, columns=columns, max_rows=(limits[0], limits[1]))


def _how(left: Source, right: Source, join: exp.Join) -> How:
    side, kind = (str(join.args.get(name) or "").upper() for name in ("side", "kind"))
    known = given(join) <= {"this", "side", "kind", "on", "using"}
    if not known or side not in {"", "LEFT"} or kind not in {"", "INNER", "OUTER"}:
        shown = errors.fragment(join).strip()
        raise left.fault(f"it uses a JOIN of another kind, at {shown!r}", _FORMS, join)
    if len(given(join) & {"on", "using"}) != 1:
        reason = "it uses a JOIN of a second table without columns to compare"
        raise left.fault(reason, _FORMS, join)
    (name,) = right.qualifiers
    if name.casefold() in map(str.casefold, left.qualifiers):
        hint = "Name them apart: FROM visits AS a JOIN visits AS b USING (id)."
        raise left.fault(f"its JOIN has two tables named {name[:60]!r}", hint, join)
    return "left" if side == "LEFT" else "inner"


def _on(left: Source, right: Source, join: exp.Join) -> dict[str, str]:
    """The columns that are compared, by their names on both sides."""
    words = join.args.get("using") or ()
    pairs = [(left.look(None, w.name, w), right.look(None, w.name, w)) for w in words]
    if not words:
        condition = bare(join.args["on"])
        parts = condition.flatten() if isinstance(condition, exp.And) else (condition,)
        pairs = [_equality(left, right, bare(part)) for part in parts]
    on = dict(pairs)
    if len(on) < len(pairs):
        reason = "its JOIN compares a column of the left side with two of the right"
        raise left.fault(reason, "Compare it once, and write the other equality in WHERE.", join)
    return on


def _equality(left: Source, right: Source, part: object) -> tuple[str, str]:
    def is_right(column: exp.Column) -> bool:
        if column.table:
            return bool(column.table.casefold() == right.qualifiers[0].casefold())
        name = column.name.casefold()
        return name in right.first and name not in left.first

    reason = f"its JOIN compares {errors.fragment(part)!r}"
    if not isinstance(part, exp.EQ):
        raise left.fault(reason, _ON, part)
    one, two = part.this, part.expression
    if not isinstance(one, exp.Column) or not isinstance(two, exp.Column):
        raise left.fault(reason, _ON, part)
    if is_right(one) and not is_right(two):
        one, two = two, one
    if is_right(one) or not is_right(two):
        raise left.fault(f"{reason}, which are not columns of both sides", _ON, part)
    return left.look(one.table, one.name, one), right.look(two.table, two.name, two)


def united(left: Source, right: Source, tree: exp.Expression) -> Source:
    """What two row-wise SELECTs offer one after the other."""
    left, right = left.listed(), right.listed()
    if list(left.first) != list(right.first):
        raise left.fault("the parts of its UNION ALL list other columns", UNION_ALL, tree)
    columns = []
    for one, two in zip(left.columns, right.columns, strict=True):
        label = one.meant
        if one.meant != two.meant:
            label = free_name(one.shown, left.taken | right.taken)
            left = left.derive(label, Name(str(one.meant)), tree)
            right = right.derive(label, Name(str(two.meant)), tree)
        columns.append(replace(one, meant=label))
    with left.stepping("UNION ALL", tree):
        query = left.people.union(right.people)
    return replace(left, query=query, columns=tuple(columns))


# ---- FROM and WITH -------------------------------------------------------------------------------

_PLAIN = "Write FROM and the name of one table of the session, or of an entry of WITH."
_CLAUSES = {"expressions", "from", "from_", "where", "joins"}
_MOST_SELECTS = 20
_MOST_STEPS = 100


def from_clause(text: str, tree: exp.Select, start: Start) -> Source:
    """What the FROM of a SELECT offers, its WITH included. Raises UnsafeExpression."""
    makers = _Sources(text=text, start=start)
    clause = tree.args.get("with_") or tree.args.get("with")
    for common in () if clause is None else makers.listed(clause):
        name = common.alias
        if name.casefold() in makers.entries:
            raise makers.fault(f"WITH names {name[:60]!r} twice", "Name each once.", common)
        makers.entries[name.casefold()] = makers.selected(common.this, name)
    return makers.of(tree)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sources:
    """Makes sources of tables, sub-selects and the entries of WITH.

    entries: those of WITH by name; public: the public tables, known with the first of people.
    """

    text: str
    start: Start
    entries: dict[str, Source] = field(default_factory=dict)
    public: dict[str, Public] = field(default_factory=dict)
    level: int = 0

    def fault(self, reason: str, hint: str, at: object) -> UnsafeExpression:
        return fault(self.text, reason, hint, at)

    def listed(self, clause: exp.Expression) -> list[exp.CTE]:
        """The entries of WITH."""
        if given(clause) != {"expressions"}:
            raise self.fault("it uses WITH RECURSIVE", "Write WITH name AS (SELECT ...).", clause)
        if len(clause.expressions) > _MOST_SELECTS:
            raise self.fault(f"WITH has more than {_MOST_SELECTS} entries", "Write fewer.", clause)
        for common in clause.expressions:
            alias = common.args.get("alias")
            known = given(common) <= {"this", "alias", "materialized"}
            plain = isinstance(common, exp.CTE) and known
            if not plain or alias is None or given(alias) != {"this"}:
                reason = f"an entry of WITH has an unknown form, at {errors.fragment(common)!r}"
                hint = "Write WITH name AS (SELECT a, b AS c FROM table WHERE ...)."
                raise self.fault(reason, hint, common)
        return list(clause.expressions)

    def of(self, tree: exp.Expression) -> Source:
        """What the FROM of a SELECT offers, with all that is joined to it."""
        clause = tree.args.get("from_") or tree.args.get("from")
        if not isinstance(clause, exp.From):
            raise self.fault("it has no FROM", _PLAIN, tree)
        found = self.relation(clause.this)
        joins = tree.args.get("joins") or ()
        if len(joins) > _MOST_SELECTS:
            raise self.fault(f"it has more than {_MOST_SELECTS} JOINs", "Write fewer.", tree)
        if found.query is None and (joins or self.level == 0):
            self.begun(found.table, clause.this)  # which refuses a public table
        for join in joins:
            found = joined(found, self.relation(join.this), join)
        return found

    def begun(self, table: str, at: exp.Expression) -> Query:
        """The rows of a table of people."""
        try:
            query = self.start(table)
        except InvalidParameter as error:
            hint = f"Write {error.expected}."
        else:
            self.public.update(query.rows.public)
            return query
        raise self.fault(f"{table[:60]!r} is none of the tables of people", hint, at)

    def relation(self, relation: exp.Expression) -> Source:
        """What a table, an entry of WITH or a sub-select offers."""
        alias = relation.args.get("alias")
        plain = given(relation) <= {"this", "alias"} and (alias is None or given(alias) == {"this"})
        match relation:
            case exp.Subquery() if plain:
                return self.selected(relation.this, alias.name if alias else "")
            case exp.Table(this=exp.Identifier(name=name)) if plain:
                qualifier = alias.name if alias else name
            case _:
                reason = f"it reads more than a plain table, at {errors.fragment(relation)!r}"
                raise self.fault(reason, _PLAIN, relation)
        if name.casefold() in self.entries:
            return self.entries[name.casefold()].called(qualifier)
        query = None if name in self.public else self.begun(name, relation)
        names = (self.public[name] if query is None else query).scope.names
        return Source(
            text=self.text,
            table=name,
            query=query,
            name=name,
            qualifiers=(qualifier,),
            columns=tuple(Offered(table=qualifier, shown=one, meant=None) for one in names),
            taken=frozenset(map(str.casefold, names)),
        )

    def selected(self, tree: object, name: str) -> Source:
        """What a SELECT offers that is row-wise, or groups by the person."""
        while isinstance(tree, exp.Subquery) and given(tree) == {"this"}:
            tree = tree.this
        if isinstance(tree, exp.SetOperation) and self.level <= _MOST_SELECTS:
            return self.together(tree, name)
        if not isinstance(tree, exp.Select):
            raise self.fault(f"a sub-select is none, at {errors.fragment(tree)!r}", ROW_WISE, tree)
        if self.level > _MOST_SELECTS:
            raise errors.too_deep(self.text)
        grouped = tree.args.get("group") is not None
        clauses(self.text, tree, _CLAUSES | {"group", "having"} if grouped else _CLAUSES)
        source = replace(self, level=self.level + 1).of(tree)
        where = tree.args.get("where")
        if where is not None:
            source = source.where(where)
        if grouped:
            return person_source(source, tree, name)
        columns: dict[str, Offered] = {}
        for projection in tree.expressions:
            node = projection.this if isinstance(projection, exp.Alias) else projection
            if isinstance(node, exp.Star) and not given(node):
                if set(columns) & set(source.first):
                    raise self.fault("it selects a column twice", "Select it once.", node)
                columns |= source.first
                continue
            found = node.find(exp.AggFunc, exp.Window)
            if found is not None:
                reason = f"a sub-select aggregates, at {errors.fragment(found)!r}"
                raise self.fault(reason, f"Aggregate in the outer SELECT. {PERSON_SELECT}", found)
            meant, example = source.read(node), "SELECT FLOOR(age / 10) AS decade"
            shown = source.new_name(projection, columns, example=example)
            if not isinstance(meant, Name):
                if source.query is not None and len(source.query.rows.steps) >= _MOST_STEPS:
                    reason = f"it takes more than {_MOST_STEPS} steps"
                    raise self.fault(reason, "Derive fewer columns.", tree)
                label = free_name(shown, source.taken)
                source, meant = source.derive(label, meant, node), Name(label)
            columns[shown.casefold()] = Offered(table=name, shown=shown, meant=meant.name)
        listed = replace(source, name=name or "the sub-select", columns=tuple(columns.values()))
        return listed.called(name)

    def together(self, tree: exp.SetOperation, name: str) -> Source:
        """What two row-wise SELECTs offer one after the other."""
        # Without ALL equal rows would be one.
        if not isinstance(tree, exp.Union) or given(tree) != {"this", "expression"}:
            word = tree.key.upper()
            way = f"another {word} than UNION ALL" if isinstance(tree, exp.Union) else word
            reason, place = f"it puts SELECTs together by {way}", errors.between(self.text, tree)
            raise UnsafeExpression(self.text, reason=reason, hint=UNION_ALL, place=place)
        inner = replace(self, level=self.level + 1)
        left, right = (inner.selected(part, name) for part in (tree.this, tree.expression))
        return united(left, right, tree)
