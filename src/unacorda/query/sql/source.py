"""What a FROM offers: a table or row-wise SELECTs over it, as steps and the names one may use.

A sub-select filters rows and names columns; it becomes conditions and derived columns of the one
question, and its names are looked up here. A name that it does not list can not be used outside.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from unacorda.errors import UnsafeExpression
from unacorda.query.expressions import errors
from unacorda.query.expressions.parse import remember
from unacorda.query.expressions.reader import Reader
from unacorda.query.expressions.syntax import MOST_CHARACTERS, MOST_LEVELS
from unacorda.query.expressions.tree import Name, Node, Operation, depth_of, text_of
from unacorda.query.sql.types import Condition, Derived, Joined, Step

__all__ = [
    "ROW_WISE",
    "UNION_ALL",
    "Source",
    "clauses",
    "free_name",
    "given",
    "kept",
    "shown_name",
    "taken_by",
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
