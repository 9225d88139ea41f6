"""Read FROM, JOIN, sub-selects and WITH: which table, and what its names mean.

A sub-select filters rows and names columns; it becomes conditions and derived columns of the one
question, and its names are looked up here. A name that it does not list can not be used outside.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from sqlglot import exp

from unacorda.errors import InvalidParameter, UnsafeExpression
from unacorda.query.expressions import errors
from unacorda.query.expressions.parse import remember
from unacorda.query.expressions.reader import Reader
from unacorda.query.expressions.syntax import MOST_CHARACTERS, MOST_LEVELS
from unacorda.query.expressions.tree import Name, Node, Operation, depth_of, text_of
from unacorda.query.sql.types import Condition, Derived, Joined, SelectUnion, Step

__all__ = [
    "ROW_WISE",
    "UNION_ALL",
    "Source",
    "clauses",
    "free_name",
    "from_clause",
    "given",
    "joined",
    "kept",
    "shown_name",
    "taken_by",
    "united",
    "written",
]


ROW_WISE = "Write SELECT of columns and row-wise expressions, FROM and WHERE there."
"""What may stand in a sub-select."""
UNION_ALL = (
    "Write UNION ALL between two SELECTs that list the same columns, by the same names and in "
    "the same order."
)
"""What may be written between row-wise SELECTs."""

_BEHIND = "\x00"  # between a table and its column; no name holds it

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


def given(node: exp.Expression) -> set[str]:
    """The arguments a node of sqlglot carries."""
    return {key for key, value in node.args.items() if value not in (None, False, [], "")}


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What a FROM offers: a table, the steps to take first, and the columns by name.

    name: of the table or sub-select, for messages. columns: by their names without capitals, what
    each means over the table and its derived columns, with the name as it was written. every:
    whether the other columns of the table may be used too; known: its columns, none where they are
    not known. qualifier: what may precede a column.
    qualified: of several tables, what a column means behind a table's name; ambiguous: the names
    that mean nothing by themselves, since several tables have them.
    """

    text: str
    table: str
    name: str
    qualifier: str
    steps: tuple[Step, ...] = ()
    columns: Mapping[str, tuple[str, Node]] = field(default_factory=dict)
    every: bool = True
    known: tuple[str, ...] = ()
    qualified: Mapping[tuple[str, str], Node] = field(default_factory=dict)
    ambiguous: frozenset[str] = frozenset()

    @property
    def reader(self) -> Reader:
        """Reads expressions over these columns, before `resolve`."""
        if self.qualified:
            return Reader(text=self.text, special=self._behind_a_table)
        return Reader(text=self.text, qualifiers=frozenset({self.qualifier}))

    def look(self, table: str | None, name: str, at: object) -> Node:
        """What a column means here, behind the name of a table or by itself."""
        known = self.columns.get(name.casefold())
        plain = name
        if table and self.qualified:
            found = self.qualified.get((table.casefold(), name.casefold()))
            if found is not None:
                return found
            name = f"{table}.{name}"
        elif name.casefold() in self.ambiguous:
            tables = [t for t, column in self.qualified if column == name.casefold()]
            written = (
                " or ".join(f"{table}.{name}"[:60] for table in tables[:2]) or f"a.{name}"[:60]
            )
            raise UnsafeExpression(
                self.text,
                reason=f"several of its tables have a column {name[:60]!r}",
                hint=f"Write the table before it: {written}.",
                place=_place_of_name(self.text, at, plain),
            )
        elif known is not None:
            return known[1]
        elif self.every and self._may_be(name):
            return Name(name)
        listed = [shown for shown, _ in self.columns.values()]
        listed += [other for other in self.known if self.every and other not in listed]
        raise UnsafeExpression(
            self.text,
            reason=f"{name[:60]!r} is no column of {self.name[:60]!r}",
            hint=errors.resembling(name, listed)
            + f"Its columns are {', '.join(listed[:50])}"
            + ("." if self.every else "; list others in its SELECT."),
            place=_place_of_name(self.text, at, plain),
        )

    def _may_be(self, name: str) -> bool:
        """Whether the table has such a column, as far as is known."""
        return not self.known or name.casefold() in {other.casefold() for other in self.known}

    def _behind_a_table(self, node: exp.Expression) -> Node | None:
        """A column that is written with its table, under a name that only `resolve` knows."""
        if not isinstance(node, exp.Column) or given(node) != {"this", "table"}:
            return None
        return Name(f"{node.table}{_BEHIND}{node.name}")

    def read(self, node: object) -> Node:
        """What an expression over these columns means over the table. Raises UnsafeExpression."""
        return self.resolve(self.reader.read(node), node)

    def shown(self, column: Name) -> str:
        """What a column of the table is called here."""
        for name, meant in self.columns.values():
            if meant == column:
                return name
        return column.name

    def resolve(self, node: Node, at: object) -> Node:
        """The same with every name looked up; at: where it stands, for messages."""
        match node:
            case Name(name):
                table, behind, column = name.rpartition(_BEHIND)
                return self.look(table if behind else None, column, at)
            case Operation(operands=operands):
                return replace(node, operands=tuple(self.resolve(x, at) for x in operands))
            case _:
                return node


def shown_name(projection: exp.Expression) -> str:
    """What a selected column is called: its alias, or the name of a bare column; else nothing."""
    if isinstance(projection, exp.Alias):
        return str(projection.alias)
    return str(projection.name) if isinstance(projection, exp.Column) else ""


def written(text: str, node: Node, at: object) -> str:
    """The node in the input language; who is given that text finds the node again."""
    found = text_of(node)
    if len(found) > MOST_CHARACTERS:
        raise UnsafeExpression(
            text,
            reason="a part of it is too long",
            hint="Write it shorter.",
            place=errors.of_node(text, at),
        )
    if depth_of(node) <= MOST_LEVELS:  # else it is refused where it is read
        remember(found, node)
    return found


def kept(text: str, node: Node, where: exp.Expression) -> Condition:
    """The rows of a WHERE; node: what it means."""
    return Condition(expression=written(text, node, where), place=errors.of_node(text, where))


def taken_by(steps: Iterable[Step]) -> set[str]:
    """The names of columns that steps make, without capitals."""
    made = {step.name.casefold() for step in steps if isinstance(step, Derived)}
    joins = (step for step in steps if isinstance(step, Joined))
    return made | {label.casefold() for step in joins for label, _ in step.columns}


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


def _place_of_name(text: str, at: object, name: str) -> tuple[int, int] | None:
    if isinstance(at, exp.Expression):
        for column in at.find_all(exp.Column):
            if column.name == name:
                return errors.of_node(text, column)
    return errors.of_node(text, at)


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
