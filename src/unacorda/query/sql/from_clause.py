"""FROM: tables, sub-selects, joins and unions."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from sqlglot import exp

from unacorda.errors import InvalidParameter, UnsafeExpression
from unacorda.query.expressions import errors
from unacorda.query.expressions.tree import Name, Node, text_of
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
from unacorda.query.sql.types import Derived, Joined, SelectUnion

__all__ = [
    "from_clause",
    "joined",
    "united",
]

_FORMS = (
    "Write a JOIN b USING (id) or a LEFT JOIN b ON a.id = b.person. Two tables of people are "
    "joined on the person; on a public one any columns are compared."
)
_ON = (
    "Write equalities of columns there, with AND between them: ON a.id = b.person AND a.day = "
    "b.day. Other conditions go behind WHERE."
)
_ColumnsOf = Callable[[str], Collection[str]]


def joined(left: Source, right: Source, join: exp.Join, *, columns_of: _ColumnsOf) -> Source:
    """What two sources offer side by side. Raises UnsafeExpression for other than equi-joins."""
    pairing = _Pairing(
        text=left.text,
        left=with_columns(left, columns_of),
        right=with_columns(right, columns_of),
        join=join,
    )
    how = pairing.how()
    on = pairing.on()
    left, right = pairing.left, pairing.right
    names = {label.casefold() for label in _labels(left, columns_of)}
    columns = dict(left.columns)
    qualified = dict(left.qualified)
    ambiguous = set(left.ambiguous)
    new: list[tuple[str, str]] = []
    for key, (shown, meant) in right.columns.items():
        assert isinstance(meant, Name)
        if any(meant.name == theirs for _, theirs in on):
            continue
        label = shown
        if shown.casefold() in names or key in columns:
            label = free_name(f"{right.qualifier}.{shown}", names)
            ambiguous |= {key} if key in columns else set()
        names.add(label.casefold())
        new.append((label, meant.name))
        columns.setdefault(key, (shown, Name(label)))
        qualified[right.qualifier.casefold(), key] = Name(label)
    step = Joined(
        table=right.table,
        steps=right.steps,
        on=on,
        how=how,
        columns=tuple(new),
        place=errors.of_node(left.text, join),
    )
    return replace(
        left,
        name=f"{left.name} with {right.name}",
        steps=(*left.steps, step),
        columns=columns,
        qualified=qualified,
        ambiguous=frozenset(ambiguous),
    )


def united(left: Source, right: Source, tree: exp.Expression, *, columns_of: _ColumnsOf) -> Source:
    """What two row-wise SELECTs offer one after the other."""
    left, right = with_columns(left, columns_of), with_columns(right, columns_of)
    if list(left.columns) != list(right.columns):
        raise _Fault(text=left.text).of(
            "the parts of its UNION ALL list other columns", UNION_ALL, tree
        )
    place = errors.of_node(left.text, tree)
    names = {label.casefold() for side in (left, right) for label in _labels(side, columns_of)}
    columns = {}
    sides = [left, right]
    for key, (shown, meant) in left.columns.items():
        other, label = right.columns[key][1], shown
        if meant != other:
            label = free_name(shown, names)
            names.add(label.casefold())
            sides = [
                replace(
                    side,
                    steps=(
                        *side.steps,
                        Derived(name=label, expression=text_of(node), place=place),
                    ),
                )
                for side, node in zip(sides, (meant, other), strict=True)
            ]
        columns[key] = (shown, meant if meant == other else Name(label))
    step = SelectUnion(table=right.table, steps=sides[1].steps, place=place)
    return replace(
        left,
        steps=(*sides[0].steps, step),
        columns=columns,
        qualified={},
        ambiguous=frozenset(),
        every=False,
    )


def with_columns(source: Source, columns_of: _ColumnsOf) -> Source:
    """The source with all its columns listed by name, also behind its qualifier."""
    columns = dict(source.columns)
    if source.every:
        columns |= {
            name.casefold(): (name, Name(name))
            for name in columns_of(source.table)
            if name.casefold() not in columns
        }
    own = source.qualifier.casefold()
    qualified = dict(source.qualified)
    if not qualified:
        qualified = {
            (own, key): meant for key, (_, meant) in columns.items() if isinstance(meant, Name)
        }
    return replace(source, columns=columns, qualified=qualified, every=False)


def _labels(source: Source, columns_of: _ColumnsOf) -> Iterator[str]:
    """All names that are taken in the rows of a source."""
    yield from columns_of(source.table)
    for step in source.steps:
        if isinstance(step, Derived):
            yield step.name
        elif isinstance(step, Joined):
            yield from (label for label, _ in step.columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fault:
    text: str

    def of(self, reason: str, hint: str, at: object) -> UnsafeExpression:
        place = errors.of_node(self.text, at)
        return UnsafeExpression(self.text, reason=reason, hint=hint, place=place)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pairing:
    """Reads one JOIN; every method raises UnsafeExpression."""

    text: str
    left: Source
    right: Source
    join: exp.Join

    def fault(self, reason: str, hint: str, at: object = None) -> UnsafeExpression:
        return _Fault(text=self.text).of(reason, hint, at if at is not None else self.join)

    def how(self) -> Literal["inner", "left"]:
        side, kind = (str(self.join.args.get(name) or "").upper() for name in ("side", "kind"))
        known = given(self.join) <= {"this", "side", "kind", "on", "using"}
        conditions = [name for name in ("on", "using") if self.join.args.get(name)]
        if not known or side not in {"", "LEFT"} or kind not in {"", "INNER", "OUTER"}:
            shown = errors.fragment(self.join).strip()
            raise self.fault(f"it uses a JOIN of another kind, at {shown!r}", _FORMS)
        if len(conditions) != 1:
            raise self.fault("it uses a JOIN of a second table without columns to compare", _FORMS)
        if not self.left.columns or not self.right.columns:
            raise self.fault("it uses a JOIN of tables whose columns are not known", _FORMS)
        if self.left.qualifier.casefold() == self.right.qualifier.casefold() or any(
            one == self.right.qualifier.casefold() for one, _ in self.left.qualified
        ):
            raise self.fault(
                f"its JOIN has two tables named {self.right.qualifier[:60]!r}",
                "Name them apart: FROM visits AS a JOIN visits AS b USING (id).",
            )
        return "left" if side == "LEFT" else "inner"

    def on(self) -> tuple[tuple[str, str], ...]:
        """The columns that are compared, by their names on both sides."""
        using = self.join.args.get("using")
        if using:
            pairs = [self.found(None, word.name, word) for word in using]
            return tuple(
                (one, self.theirs(None, word.name, word))
                for one, word in zip(pairs, using, strict=True)
            )
        condition: exp.Expression = self.join.args["on"]
        while isinstance(condition, exp.Paren):
            condition = condition.this
        parts = list(condition.flatten()) if isinstance(condition, exp.And) else [condition]
        return tuple(self.equality(part) for part in parts)

    def equality(self, part: exp.Expr) -> tuple[str, str]:
        while isinstance(part, exp.Paren):
            part = part.this
        sides = (part.this, part.expression) if isinstance(part, exp.EQ) else ()
        if len(sides) != 2 or not all(isinstance(side, exp.Column) for side in sides):
            raise self.fault(f"its JOIN compares {errors.fragment(part)!r}", _ON, part)
        one, two = sides
        if self.is_right(one) and not self.is_right(two):
            one, two = two, one
        if not self.is_right(two) or self.is_right(one):
            raise self.fault(
                f"its JOIN compares {errors.fragment(part)!r}, which are not columns of both sides",
                _ON,
                part,
            )
        return self.found(one.table, one.name, one), self.theirs(two.table, two.name, two)

    def is_right(self, column: exp.Column) -> bool:
        if column.table:
            return bool(column.table.casefold() == self.right.qualifier.casefold())
        name = column.name.casefold()
        return name in self.right.columns and name not in self.left.columns

    def found(self, table: str | None, name: str, at: object) -> str:
        node = self.left.look(table, name, at)
        assert isinstance(node, Name)
        return node.name

    def theirs(self, table: str | None, name: str, at: object) -> str:
        node = self.right.look(table, name, at)
        assert isinstance(node, Name)
        return node.name


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

    def fault(self, reason: str, hint: str, at: object) -> UnsafeExpression:
        return UnsafeExpression(
            self.text, reason=reason, hint=hint, place=errors.of_node(self.text, at)
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
                    f"an entry of WITH has an unknown form, at {errors.fragment(common)!r}",
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
            shown = errors.fragment(relation)
            raise self.fault(f"it reads more than a plain table, at {shown!r}", _PLAIN, relation)
        name = relation.this.name
        qualifier = alias.name if alias else name
        if name.casefold() in self.known:
            return replace(self.known[name.casefold()], qualifier=qualifier)
        known = self.columns(name, relation)
        return Source(text=self.text, table=name, name=name, qualifier=qualifier, known=known)

    def columns(self, table: str, at: exp.Expression) -> tuple[str, ...]:
        """Those of a table of the session."""
        hint = ""
        try:
            return tuple(self.columns_of(table))
        except InvalidParameter as error:
            hint = f"Write {error.expected}."
        raise self.fault(f"{table[:60]!r} is none of the tables of people", hint, at)

    def selected(self, tree: object, name: str) -> Source:
        """What a row-wise SELECT offers."""
        while isinstance(tree, exp.Subquery) and given(tree) == {"this"}:
            tree = tree.this
        if isinstance(tree, exp.SetOperation) and self.level <= _MOST_SELECTS:
            return self.together(tree, name)
        if not isinstance(tree, exp.Select):
            shown = errors.fragment(tree)
            raise self.fault(f"a sub-select is none, at {shown!r}", ROW_WISE, tree)
        if self.level > _MOST_SELECTS:
            raise errors.too_deep(self.text)
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
                    f"{errors.fragment(node)!r} has no name in a sub-select",
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
                place = errors.of_node(self.text, node)
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
                hint=UNION_ALL,
                place=errors.between(self.text, tree),
            )
        inner = replace(self, level=self.level + 1)
        sides = [inner.selected(part, name) for part in (tree.this, tree.expression)]
        return self.united(sides[0], sides[1], tree)

    def refuse_aggregates(self, node: object) -> None:
        found = node.find(exp.AggFunc, exp.Window) if isinstance(node, exp.Expression) else None
        if found is not None:
            raise self.fault(
                f"a sub-select aggregates, at {errors.fragment(found)!r}",
                "Aggregate in the outer SELECT only; ORDER BY, LIMIT and HAVING stand there too.",
                found,
            )
