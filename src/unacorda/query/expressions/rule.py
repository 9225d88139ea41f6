"""How a node of sqlglot is read: what a rule may ask of the reader, and the simplest rules."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from sqlglot import exp

from unacorda.errors import UnsafeExpression
from unacorda.query.expressions.tree import Node, Operation

__all__ = [
    "MOST_POSITION",
    "Read",
    "Reading",
    "Rule",
    "bare",
    "fixed",
    "given",
    "listed",
    "maybe_not",
    "one",
    "rules",
    "two",
]

MOST_POSITION = 1_000_000
"""The last character of a text that a position may name."""


class Reading(Protocol):
    """What a rule may ask of the reader; all but `text` raise UnsafeExpression."""

    @property
    def text(self) -> str:
        """The whole text, for messages."""

    @property
    def qualifiers(self) -> frozenset[str]:
        """Table names that may precede a column."""

    def node(self, node: object) -> Node:
        """The tree of a node that stands one level further down."""

    def nodes(self, *nodes: object) -> tuple[Node, ...]:
        """The trees of several nodes."""

    def refuse(self, node: object, mend: str | None = None) -> UnsafeExpression:
        """The refusal of the form in which an allowed node was written."""

    def unknown(self, node: object) -> UnsafeExpression:
        """The refusal of a node that no rule allows."""

    def whole(self, node: object, within: exp.Expression, *, least: int, most: int) -> int:
        """A literal whole number in a range."""

    def literal(self, node: object, within: exp.Expression, mend: str) -> str:
        """A text literal."""

    def word(self, node: object, within: exp.Expression, known: tuple[str, ...]) -> str:
        """One of some words, such as the unit of a date, in capitals."""


Read = Callable[[Reading, exp.Expression], Node]


@dataclass(frozen=True, slots=True)
class Rule:
    """How one kind of node is read, and which arguments of it are known."""

    read: Read
    arguments: frozenset[str]


def rules(table: dict[type[object], tuple[Read, str]]) -> dict[type[object], Rule]:
    """Rules by the kind of node, from a reading and the names of the arguments it knows."""
    return {kind: Rule(read, frozenset(keys.split())) for kind, (read, keys) in table.items()}


def given(node: exp.Expression) -> list[str]:
    """The arguments that a node carries."""
    return [key for key, value in node.args.items() if value not in (None, False, [], "")]


def bare(node: object) -> object:
    """The node without brackets around it."""
    while isinstance(node, exp.Paren) and given(node) == ["this"]:
        node = node.this
    return node


def fixed(name: str, *keys: str) -> Read:
    """A rule for an operation whose operands are these arguments, all of them required."""

    def read(reader: Reading, node: exp.Expression) -> Node:
        return Operation(name, reader.nodes(*(node.args.get(key) for key in keys)))

    return read


def one(name: str) -> Read:
    """A rule for an operation of one operand."""
    return fixed(name, "this")


def two(name: str) -> Read:
    """A rule for an operation of two operands."""
    return fixed(name, "this", "expression")


def listed(name: str, *, most: int | None = None) -> Read:
    """A rule for an operation of any number of operands, or at most some."""

    def read(reader: Reading, node: exp.Expression) -> Node:
        first = [node.this] if node.args.get("this") is not None else []
        operands = [*first, *node.expressions]
        if most is not None and len(operands) > most:
            raise reader.refuse(node, f"Write at most {most} parts; derive some of them first.")
        return Operation(name, reader.nodes(*operands))

    return read


def maybe_not(node: exp.Expression, found: Node) -> Node:
    """The negation where sqlglot holds one as an argument of the node."""
    return Operation("NOT", (found,)) if node.args.get("negate") else found
