"""FROM and WITH: one table, or row-wise SELECTs over it, as the source that they offer."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from sqlglot import exp

from unacorda.errors import InvalidParameter, UnsafeExpression
from unacorda.query.expressions import places, refusals
from unacorda.query.expressions.tree import Name, Node
from unacorda.query.sql.source import (
    ROW_WISE,
    UNION_ALL,
    Source,
    clauses,
    free_name,
    given,
    kept,
    shown_name,
    taken_by,
    written,
)
from unacorda.query.sql.types import Derived

__all__ = ["from_clause"]

_PLAIN = "Write FROM and the name of one table of the session, or of an entry of WITH."
_CLAUSES = {"expressions", "from", "from_", "where", "joins"}
_MOST_SELECTS = 20
_MOST_STEPS = 100


def from_clause(
    text: str,
    tree: exp.Select,
    columns_of: Callable[[str], Collection[str]],
    *,
    joined: Callable[[Source, Source, exp.Join], Source],
    united: Callable[[Source, Source, exp.Expression], Source],
) -> Source:
    """What the FROM of a SELECT offers, its WITH included. Raises UnsafeExpression.

    joined, united: how two sources are put together.
    """
    sources: dict[str, Source] = {}
    makers = _Sources(text=text, columns_of=columns_of, known=sources, joined=joined, united=united)
    clause = tree.args.get("with_") or tree.args.get("with")
    if clause is not None:
        for common in makers.listed(clause):
            name = common.alias
            if name.casefold() in sources:
                raise makers.fault(f"WITH names {name[:60]!r} twice", "Name each once.", common)
            made = makers.selected(common.this, name)
            sources[name.casefold()] = made
    return makers.of(tree)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sources:
    """Makes sources of tables, sub-selects and the entries of WITH (known, by name)."""

    text: str
    columns_of: Callable[[str], Collection[str]]
    known: dict[str, Source]
    joined: Callable[[Source, Source, exp.Join], Source]
    united: Callable[[Source, Source, exp.Expression], Source]
    level: int = 0

    def fault(self, reason: str, mend: str, at: object) -> UnsafeExpression:
        return UnsafeExpression(
            self.text, reason=reason, mend=mend, place=places.of_node(self.text, at)
        )

    def listed(self, clause: exp.Expression) -> list[exp.CTE]:
        """The entries of WITH."""
        if given(clause) != {"expressions"}:
            raise self.fault("it uses WITH RECURSIVE", "Write WITH name AS (SELECT ...).", clause)
        if len(clause.expressions) > _MOST_SELECTS:
            raise self.fault(f"WITH has more than {_MOST_SELECTS} entries", "Write fewer.", clause)
        for common in clause.expressions:
            alias = common.args.get("alias")
            plain = isinstance(common, exp.CTE) and given(common) <= {
                "this",
                "alias",
                "materialized",
            }
            if not plain or alias is None or given(alias) != {"this"}:
                raise self.fault(
                    f"an entry of WITH has an unknown form, at {refusals.fragment(common)!r}",
                    "Write WITH name AS (SELECT a, b AS c FROM table WHERE ...).",
                    common,
                )
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
        if joins:
            self.columns_of(found.table)  # what comes first is a table of people
        for join in joins:
            found = self.joined(found, self.relation(join.this), join)
        return found

    def relation(self, relation: exp.Expression) -> Source:
        """What a table, an entry of WITH or a sub-select offers."""
        alias = relation.args.get("alias")
        plain_alias = alias is None or given(alias) == {"this"}
        if (
            isinstance(relation, exp.Subquery)
            and plain_alias
            and given(relation) <= {"this", "alias"}
        ):
            return self.selected(relation.this, alias.name if alias else "")
        plain = isinstance(relation, exp.Table) and isinstance(relation.this, exp.Identifier)
        if not plain or not plain_alias or not given(relation) <= {"this", "alias"}:
            shown = refusals.fragment(relation)
            raise self.fault(f"it reads more than a plain table, at {shown!r}", _PLAIN, relation)
        name = relation.this.name
        qualifier = alias.name if alias else name
        if name.casefold() in self.known:
            return replace(self.known[name.casefold()], qualifier=qualifier)
        known = self.columns(name, relation)
        return Source(text=self.text, table=name, name=name, qualifier=qualifier, known=known)

    def columns(self, table: str, at: exp.Expression) -> tuple[str, ...]:
        """Those of a table of the session."""
        mend = ""
        try:
            return tuple(self.columns_of(table))
        except InvalidParameter as error:
            mend = f"Write {error.expected}."
        raise self.fault(f"{table[:60]!r} is none of the tables of people", mend, at)

    def selected(self, tree: object, name: str) -> Source:
        """What a row-wise SELECT offers."""
        while isinstance(tree, exp.Subquery) and given(tree) == {"this"}:
            tree = tree.this
        if isinstance(tree, exp.SetOperation) and self.level <= _MOST_SELECTS:
            return self.together(tree, name)
        if not isinstance(tree, exp.Select):
            shown = refusals.fragment(tree)
            raise self.fault(f"a sub-select is none, at {shown!r}", ROW_WISE, tree)
        if self.level > _MOST_SELECTS:
            raise refusals.too_deep(self.text)
        clauses(self.text, tree, _CLAUSES)
        source = replace(self, level=self.level + 1).of(tree)
        where = tree.args.get("where")
        steps = source.steps
        if where is not None:
            steps += (kept(self.text, source.read(where.this), where),)
        all_columns = {column.casefold() for column in self.columns_of(source.table)}
        taken = all_columns | taken_by(steps)
        columns: dict[str, tuple[str, Node]] = {}
        every = False
        stars = any(isinstance(projection, exp.Star) for projection in tree.expressions)
        for projection in tree.expressions:
            node = projection.this if isinstance(projection, exp.Alias) else projection
            if isinstance(node, exp.Star) and not given(node):
                if every or set(columns) & set(source.columns):
                    raise self.fault("it selects a column twice", "Select it once.", node)
                every = source.every
                columns |= source.columns
                continue
            self.refuse_aggregates(node)
            found = source.read(node)
            shown = shown_name(projection)
            if not shown:
                raise self.fault(
                    f"{refusals.fragment(node)!r} has no name in a sub-select",
                    "Name it with AS: SELECT FLOOR(age / 10) AS decade.",
                    node,
                )
            hidden = stars and source.every and shown.casefold() in all_columns
            if shown.casefold() in columns or hidden:
                raise self.fault(
                    f"two columns of a sub-select are named {shown[:60]!r}",
                    "Name them apart with AS.",
                    projection,
                )
            if not isinstance(found, Name):
                label = free_name(shown, taken)
                taken.add(label.casefold())
                place = places.of_node(self.text, node)
                expression = written(self.text, found, node)
                steps += (Derived(name=label, expression=expression, place=place),)
                found = Name(label)
            columns[shown.casefold()] = (shown, found)
        if len(steps) > _MOST_STEPS:
            raise self.fault(
                f"it takes more than {_MOST_STEPS} steps", "Derive fewer columns.", tree
            )
        return Source(
            text=self.text,
            table=source.table,
            name=name or "the sub-select",
            qualifier=name,
            steps=steps,
            columns=columns,
            every=every,
            known=source.known,
        )

    def together(self, tree: exp.SetOperation, name: str) -> Source:
        """What two row-wise SELECTs offer one after the other."""
        # Without ALL equal rows would be one.
        if not isinstance(tree, exp.Union) or given(tree) != {"this", "expression"}:
            raise UnsafeExpression(
                self.text,
                reason=f"it puts SELECTs together by another {tree.key.upper()} than UNION ALL"
                if isinstance(tree, exp.Union)
                else f"it puts SELECTs together by {tree.key.upper()}",
                mend=UNION_ALL,
                place=places.between(self.text, tree),
            )
        inner = replace(self, level=self.level + 1)
        sides = [inner.selected(part, name) for part in (tree.this, tree.expression)]
        return self.united(sides[0], sides[1], tree)

    def refuse_aggregates(self, node: object) -> None:
        found = node.find(exp.AggFunc, exp.Window) if isinstance(node, exp.Expression) else None
        if found is not None:
            raise self.fault(
                f"a sub-select aggregates, at {refusals.fragment(found)!r}",
                "Aggregate in the outer SELECT only; ORDER BY, LIMIT and HAVING stand there too.",
                found,
            )
