"""Read FROM, JOIN, sub-selects and WITH: the rows that a SELECT is about.

A sub-select filters rows and names columns; it becomes steps of the one question. One that groups
by the person makes one row of each (`person_select`).
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from unacorda.errors import InvalidParameter, UnsafeExpression
from unacorda.query.expressions import errors
from unacorda.query.expressions.language import Name
from unacorda.query.expressions.reader import bare, given
from unacorda.query.plan.public_tables import Public
from unacorda.query.plan.query import Query
from unacorda.query.plan.relation import MOST_COPIES, How
from unacorda.query.schema.units import Person
from unacorda.query.sql.person_select import PERSON_SELECT, person_source
from unacorda.query.sql.source import (
    ROW_WISE,
    UNION_ALL,
    Offered,
    Source,
    Start,
    clauses,
    fault,
    free_name,
    shown_name,
)

__all__ = ["from_clause"]

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
            reason = f"WITH has more than {_MOST_SELECTS} entries"
            raise self.fault(reason, "Write fewer.", clause)
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
            reason = f"a sub-select is none, at {errors.fragment(tree)!r}"
            raise self.fault(reason, ROW_WISE, tree)
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
            meant, shown = source.read(node), shown_name(projection)
            if not shown:
                reason = f"{errors.fragment(node)!r} has no name in a sub-select"
                hint = "Name it with AS: SELECT FLOOR(age / 10) AS decade."
                raise self.fault(reason, hint, node)
            if shown.casefold() in columns:
                reason = f"two columns of a sub-select are named {shown[:60]!r}"
                raise self.fault(reason, "Name them apart with AS.", projection)
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
