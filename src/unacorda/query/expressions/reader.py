"""From sqlglot's tree to ours: an allow-list of nodes, and of what may stand in each of them.

Nothing of sqlglot's own rendering reaches the engine, and an argument the list does not know
refuses the node, so that no part of what was written is silently left out.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sqlglot import exp

from unacorda.errors import UnsafeExpression
from unacorda.query.expressions import refusals
from unacorda.query.expressions.calls import CALLS, NAMED
from unacorda.query.expressions.forms import FORMS
from unacorda.query.expressions.rule import Rule, bare, given
from unacorda.query.expressions.syntax import MOST_LEVELS
from unacorda.query.expressions.tree import Literal, Node

__all__ = ["Reader"]

_RULES = {**FORMS, **CALLS}
_NAMED = {name: Rule(read, frozenset({"this", "expressions"})) for name, read in NAMED.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """Reads nodes of one text.

    text: the whole text, for messages; qualifiers: table names that may precede a column;
    level: how many nodes stand above; special: what is asked first what a node means, where more
    than rows is read.
    """

    text: str
    qualifiers: frozenset[str] = frozenset()
    level: int = 0
    special: Callable[[exp.Expression], Node | None] | None = None

    def read(self, node: object) -> Node:
        """Our tree of a node.

        Raises UnsafeExpression naming the first part that is not allowed.
        """
        try:
            return self.node(node)
        except RecursionError:
            raise refusals.too_deep(self.text) from None

    def node(self, node: object) -> Node:
        """Our tree of a node that stands one level further down."""
        node = bare(node)
        if self.level > MOST_LEVELS:
            raise refusals.too_deep(self.text)
        if self.special is not None and isinstance(node, exp.Expression):
            found = self.special(node)
            if found is not None:
                return found
        rule = _rule(node) if isinstance(node, exp.Expression) else None
        if rule is None or not isinstance(node, exp.Expression):
            raise self.unknown(node)
        if not set(given(node)) <= rule.arguments:
            raise self.refuse(node)
        return rule.read(replace(self, level=self.level + 1), node)

    def nodes(self, *nodes: object) -> tuple[Node, ...]:
        """Our trees of several nodes."""
        return tuple(self.node(node) for node in nodes)

    def refuse(self, node: object, mend: str | None = None) -> UnsafeExpression:
        """The refusal of the form in which an allowed node was written."""
        return refusals.refusal(self.text, node, form=True, mend=mend)

    def unknown(self, node: object) -> UnsafeExpression:
        """The refusal of a node that no rule allows."""
        return refusals.refusal(self.text, node)

    def whole(self, node: object, within: exp.Expression, *, least: int, most: int) -> int:
        """A literal whole number in a range.

        Raises UnsafeExpression for anything else.
        """
        found = self.node(node)
        if isinstance(found, Literal) and type(found.value) is int and least <= found.value <= most:
            return found.value
        raise self.refuse(within, f"Write a literal whole number from {least} to {most} there.")

    def literal(self, node: object, within: exp.Expression, mend: str) -> str:
        """A text literal.

        Raises UnsafeExpression for anything else.
        """
        found = self.node(node) if node is not None else None
        if isinstance(found, Literal) and isinstance(found.value, str):
            return found.value
        raise self.refuse(within, mend)

    def word(self, node: object, within: exp.Expression, known: tuple[str, ...]) -> str:
        """One of some words, such as the unit of a date, in capitals.

        Raises UnsafeExpression for anything else.
        """
        name = node.name.upper() if isinstance(node, exp.Var | exp.Literal) else ""
        if name not in known:
            raise self.refuse(within, f"Write one of {', '.join(known)} there.")
        return name


def _rule(node: exp.Expression) -> Rule | None:
    if isinstance(node, exp.Anonymous):
        return _NAMED.get(str(node.name).upper())
    return _RULES.get(type(node))
