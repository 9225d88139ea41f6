"""What acts on the released table: computed columns, HAVING, ORDER BY, LIMIT and OFFSET.

All are post-processing. An expression there is one over the names of released columns; an
aggregate in it stands for the released column that it is.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from sqlglot import exp

from unacorda.errors import UnsafeExpression
from unacorda.query.expressions import errors
from unacorda.query.expressions.reader import Reader
from unacorda.query.expressions.tree import Literal, Name, Node, Operation, text_of
from unacorda.query.sql.aggregates import Aggregates
from unacorda.query.sql.source import given, written
from unacorda.query.sql.types import Item, Ordering

__all__ = ["Outputs", "mark"]

_HAVING = (
    "HAVING keeps the released rows whose noisy numbers satisfy it, so that it may use released "
    "columns only. Select the aggregate, which then takes its part of the budget: SELECT county, "
    "COUNT(*) AS n FROM visits GROUP BY county HAVING n >= 50."
)
_ORDER = "Order by a column of the SELECT list, or compute with such columns."
_SELECTED = "Put it behind GROUP BY, or inside an aggregate such as AVG(x)."


@dataclass(frozen=True, slots=True, kw_only=True)
class Outputs:
    """The released columns of one SELECT; every method raises UnsafeExpression.

    names: the columns that were selected, as they are shown, by their names without capitals.
    groups: the shown name of each group by its mark. items: aggregates without their alias, by it.
    beside: aggregates that computed columns made necessary, filled while reading.
    """

    text: str
    aggregates: Aggregates
    names: dict[str, str]
    groups: dict[str, str]
    items: dict[str, Item]
    beside: list[Item] = field(default_factory=list)

    def computed(self, node: exp.Expression) -> str:
        """A column made of aggregates, each of which is asked for if it is not selected."""
        return self.expression(node, clause="SELECT", hint="")

    def having(self, clause: exp.Expression | None) -> str | None:
        """The condition on released rows."""
        if clause is None:
            return None
        return self.expression(clause.this, clause="HAVING", hint=_HAVING)

    def orderings(self, clause: exp.Expression | None, order: list[str]) -> Iterator[Ordering]:
        """The sort keys; order: the released columns by position."""
        for ordered in clause.expressions if clause is not None else ():
            if not isinstance(ordered, exp.Ordered) or not given(ordered) <= {
                "this",
                "desc",
                "nulls_first",
            }:
                raise self.aggregates.fault(
                    "it orders in an unknown way", "Write ORDER BY n DESC.", ordered
                )
            place = ordered.this
            number = int(place.name) if isinstance(place, exp.Literal) and place.is_int else 0
            if 1 <= number <= len(order):
                key = text_of(Name(order[number - 1]))
            else:
                key = self.expression(place, clause="ORDER BY", hint=_ORDER)
            yield Ordering(
                expression=key,
                descending=bool(ordered.args.get("desc")),
                nulls_first=bool(ordered.args.get("nulls_first")),
                place=errors.of_node(self.text, ordered),
            )

    def whole(self, clause: exp.Expression | None, word: str) -> int | None:
        """The literal whole number of LIMIT or OFFSET."""
        if clause is None:
            return None
        found: Node | None = None
        if given(clause) == {"expression"}:
            found = Reader(text=self.text).read(clause.expression)
        value = found.value if isinstance(found, Literal) else None
        if type(value) is not int or value < 0:
            raise self.aggregates.fault(
                f"its {word} is no literal whole number", f"Write {word} 10.", clause
            )
        return value

    def expression(self, node: object, *, clause: str, hint: str) -> str:
        """An expression over released columns, in the input language."""
        shown = self.group(node)
        if shown is not None:
            return text_of(Name(shown))

        def special(part: exp.Expression) -> Node | None:
            item = self.aggregates.aggregate(part)
            if item is not None:
                return Name(self.column_of(item, part, clause, hint))
            if isinstance(part, exp.AggFunc | exp.Filter | exp.WithinGroup | exp.Window):
                self.aggregates.refuse_others(part)
            return None

        reader = replace(self.aggregates.source.reader, special=special)
        found = self.released(reader.read(node), node, clause, hint)
        if isinstance(found, Literal):
            raise self.missing(node, clause, hint)
        return written(self.text, found, node)

    def group(self, node: object) -> str | None:
        """The group that a whole expression is, as it is shown; aliases come first."""
        if not isinstance(node, exp.Expression) or node.find(exp.AggFunc):
            return None
        source = self.aggregates.source
        found = source.reader.read(node)
        if isinstance(found, Name) and found.name.casefold() in self.names:
            return self.names[found.name.casefold()]
        with contextlib.suppress(UnsafeExpression):
            return self.groups.get(mark(source.resolve(found, node)))
        return None

    def column_of(self, item: Item, node: object, clause: str, hint: str) -> str:
        """The released column that an aggregate is."""
        if item.parts != ("",):
            raise self.aggregates.fault(
                f"{clause} computes with several quantiles at once, at {errors.fragment(node)!r}",
                "Select them under a name and write the name of one of their columns, as in p_25.",
                node,
            )
        for alias, known in self.items.items():
            if known == item:
                return alias
        if hint:
            raise self.missing(node, clause, hint)
        taken = {name.casefold() for name in (*self.names.values(), *self.items)}
        alias = next(n for n in self.aggregates.names_for(item, node) if n.casefold() not in taken)
        self.items[alias] = item
        self.beside.append(replace(item, alias=alias, place=errors.of_node(self.text, node)))
        return alias

    def released(self, node: Node, at: object, clause: str, hint: str) -> Node:
        """The same over the names of released columns."""
        match node:
            case Name(name):
                shown = self.names.get(name.casefold())
                if shown is None and name in self.items:
                    shown = name
                if shown is None:
                    with contextlib.suppress(UnsafeExpression):
                        shown = self.groups.get(mark(self.aggregates.source.resolve(node, at)))
                if shown is None:
                    raise self.missing(at, clause, hint)
                return Name(shown)
            case Operation(operands=operands):
                found = tuple(self.released(part, at, clause, hint) for part in operands)
                return replace(node, operands=found)
            case _:
                return node

    def missing(self, node: object, clause: str, hint: str) -> UnsafeExpression:
        """The refusal of something that is no released column."""
        shown = errors.fragment(node)
        return self.aggregates.fault(
            f"{clause} has {shown!r}, which is no output column", hint or _SELECTED, node
        )


def mark(node: Node) -> str:
    """What tells group expressions apart; a bare name does not care about case."""
    return text_of(node).casefold() if isinstance(node, Name) else text_of(node)
