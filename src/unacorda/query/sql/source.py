"""What the FROM of a SELECT offers: rows, their columns by name, and how expressions are read.

A sub-select filters rows and names columns; it becomes steps of the one question, and its names are
looked up here. A name that it does not list can not be used outside.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace

from sqlglot import exp

from unacorda.errors import InvalidParameter, UnsafeExpression
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
from unacorda.query.plan.query import Query

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
