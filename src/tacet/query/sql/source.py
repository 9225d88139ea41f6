"""FROM and WITH: one table, or row-wise SELECTs over it, as steps and the names one may use.

A sub-select filters rows and names columns; it becomes conditions and derived columns of the one
question, and its names are looked up here. A name that it does not list can not be used outside.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from tacet.errors import InvalidParameter, UnsafeExpression
from tacet.query.expressions import places, refusals
from tacet.query.expressions.reader import Reader
from tacet.query.expressions.syntax import MOST_CHARACTERS
from tacet.query.expressions.tree import Name, Node, Operation, text_of
from tacet.query.sql.types import Condition, Derived, Joined, Step

__all__ = [
    "UNION_ALL",
    "Source",
    "clauses",
    "free_name",
    "from_clause",
    "given",
    "kept",
    "shown_name",
    "taken_by",
    "written",
]

_ROW_WISE = "Write SELECT of columns and row-wise expressions, FROM and WHERE there."
UNION_ALL = (
    "Write UNION ALL between two SELECTs that list the same columns, by the same names and in "
    "the same order."
)
"""What may be written between row-wise SELECTs."""

_PLAIN = "Write FROM and the name of one table of the session, or of an entry of WITH."
_CLAUSES = {"expressions", "from", "from_", "where", "joins"}
_MOST_SELECTS = 20
_BEHIND = "\x00"  # between a table and its column; no name holds it
_MOST_STEPS = 100

_NAMES = {
    "joins": ("JOIN or a second table", "Join tables behind FROM."),
    "having": ("HAVING", _ROW_WISE),
    "group": ("GROUP BY", _ROW_WISE),
    "order": ("ORDER BY", _ROW_WISE),
    "limit": ("LIMIT", _ROW_WISE),
    "distinct": ("SELECT DISTINCT", "Name the columns behind GROUP BY and add COUNT(*)."),
    "with_": ("WITH inside of a sub-select", "Write WITH once, before the outer SELECT."),
    "qualify": ("QUALIFY", "Write HAVING with an aggregate of the SELECT list."),
    "offset": ("OFFSET", _ROW_WISE),
    "sample": ("a sample of the table", "Ask about the whole table."),
    "into": ("INTO", "The release is the result; store it yourself."),
}


def given(node: exp.Expression) -> set[str]:
    """The arguments a node of sqlglot carries."""
    return {key for key, value in node.args.items() if value not in (None, False, [], "")}


def clauses(text: str, tree: exp.Expression, known: Collection[str]) -> None:
    """Raise UnsafeExpression for a clause of a SELECT that is not among the known ones."""
    for key in sorted(given(tree) - set(known)):
        value = tree.args[key]
        first = value[0] if isinstance(value, list) else value
        name, mend = _NAMES.get(
            key, (key.strip("_").replace("_", " ").upper(), "Leave the clause out.")
        )
        shown = refusals.fragment(first).strip()
        at = f", at {shown!r}" if shown else ""
        raise UnsafeExpression(
            text, reason=f"it uses {name}{at}", mend=mend, place=places.of_node(text, first)
        )


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
                mend=f"Write the table before it: {written}.",
                place=_place_of_name(self.text, at, name),
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
            mend=refusals.resembling(name, listed)
            + f"Its columns are {', '.join(listed[:50])}"
            + ("." if self.every else "; list others in its SELECT."),
            place=_place_of_name(self.text, at, name),
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
        if isinstance(tree, exp.Union) and self.level <= _MOST_SELECTS:
            if given(tree) != {"this", "expression"}:  # without ALL equal rows would be one
                raise self.fault("it uses another UNION than UNION ALL", UNION_ALL, tree)
            inner = replace(self, level=self.level + 1)
            sides = [inner.selected(part, name) for part in (tree.this, tree.expression)]
            return self.united(sides[0], sides[1], tree)
        if not isinstance(tree, exp.Select):
            shown = refusals.fragment(tree)
            raise self.fault(f"a sub-select is none, at {shown!r}", _ROW_WISE, tree)
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

    def refuse_aggregates(self, node: object) -> None:
        found = node.find(exp.AggFunc, exp.Window) if isinstance(node, exp.Expression) else None
        if found is not None:
            raise self.fault(
                f"a sub-select aggregates, at {refusals.fragment(found)!r}",
                "Aggregate in the outer SELECT only; ORDER BY, LIMIT and HAVING stand there too.",
                found,
            )


def shown_name(projection: exp.Expression) -> str:
    """What a selected column is called: its alias, or the name of a bare column; else nothing."""
    if isinstance(projection, exp.Alias):
        return str(projection.alias)
    return str(projection.name) if isinstance(projection, exp.Column) else ""


def written(text: str, node: Node, at: object) -> str:
    """The node in the input language, short enough to be parsed again."""
    found = text_of(node)
    if len(found) > MOST_CHARACTERS:
        raise UnsafeExpression(
            text,
            reason="a part of it is too long",
            mend="Write it shorter.",
            place=places.of_node(text, at),
        )
    return found


def kept(text: str, node: Node, where: exp.Expression) -> Condition:
    """The rows of a WHERE; node: what it means."""
    return Condition(expression=written(text, node, where), place=places.of_node(text, where))


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
                return places.of_node(text, column)
    return None
