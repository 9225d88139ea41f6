"""The aggregates an analyst may select, as sqlglot holds them and as items."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from sqlglot import exp

from tacet import checks
from tacet.errors import UnsafeExpression
from tacet.query.expressions import refusals
from tacet.query.expressions.reader import Reader
from tacet.query.expressions.syntax import MOST_CHARACTERS, condition
from tacet.query.expressions.tree import Literal, Name, Node, names, text_of
from tacet.query.sql.types import Aggregate, Item

__all__ = ["OFFERED", "Aggregates", "given"]

OFFERED = (
    "The aggregates are COUNT(*), COUNT(x), COUNT(DISTINCT person), SUM(x), AVG(x), MIN(x), "
    "MAX(x), MEDIAN(x), QUANTILE(x, 0.9) and PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY x)."
)


_INSTEAD: dict[type[object], str] = {
    exp.Filter: "Write AVG(CASE WHEN condition THEN x END), or WHERE. ",
    exp.CountIf: "Write SUM(CASE WHEN condition THEN 1 ELSE 0 END). ",
    exp.PercentileDisc: "Write QUANTILE(x, 0.5). ",
    exp.ApproxQuantile: "Write QUANTILE(x, 0.5). ",
    exp.ApproxDistinct: "Only persons are counted distinctly. ",
}


_PLAIN: dict[type[object], Aggregate] = {
    exp.Sum: Aggregate.SUM,
    exp.Avg: Aggregate.MEAN,
    exp.Min: Aggregate.MIN,
    exp.Max: Aggregate.MAX,
}


def given(node: exp.Expression) -> set[str]:
    """The arguments a node of sqlglot carries."""
    return {key for key, value in node.args.items() if value not in (None, False, [], "")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregates:
    """Reads aggregates of one SELECT; every method raises UnsafeExpression.

    text: the whole SELECT, for messages; reader: reads the expressions inside.
    """

    text: str
    reader: Reader

    def fault(self, reason: str, mend: str) -> UnsafeExpression:
        """A refusal of the SELECT."""
        return UnsafeExpression(self.text, reason=reason, mend=mend)

    def written(self, node: Node) -> str:
        """The node in the input language, short enough to be parsed again."""
        text = text_of(node)
        if len(text) > MOST_CHARACTERS:
            raise self.fault("a part of it is too long", "Write it shorter.")
        return text

    def refuse_others(self, node: object) -> None:
        """Raises where a node is or holds an aggregate or window, none of which is offered."""
        if not isinstance(node, exp.Expression):
            return
        window = node.find(exp.Window)
        if window is not None:
            raise self.fault(
                f"it uses a window function (OVER), at {refusals.fragment(window)!r}", OFFERED
            )
        if node.find(exp.AggFunc) is None:
            return
        whole = isinstance(node, exp.AggFunc | exp.Filter | exp.WithinGroup | exp.IgnoreNulls)
        what = "an aggregate that is not offered" if whole else "an expression over an aggregate"
        mend = _INSTEAD.get(type(node), "" if whole else "Compute with the released columns. ")
        raise self.fault(f"it selects {what}, at {refusals.fragment(node)!r}", mend + OFFERED)

    def aggregate(self, node: object) -> Item | None:
        """The aggregate a node is, still without an alias; None where it is something else."""
        match node:
            case exp.Count():
                return self.count(node)
            case exp.Sum() | exp.Avg() | exp.Median() | exp.Min() | exp.Max() if given(node) == {
                "this"
            }:
                kind = _PLAIN.get(type(node))
                if kind is None:
                    return self.quantile(node.this, Fraction(1, 2))
                return Item(alias="", aggregate=kind, argument=self.argument(node.this))
            case exp.Anonymous() if node.name.lower() == "mean" and len(node.expressions) == 1:
                argument = self.argument(node.expressions[0])
                return Item(alias="", aggregate=Aggregate.MEAN, argument=argument)
            case exp.Quantile() if given(node) == {"this", "quantile"}:
                return self.quantile(node.this, self.fraction(node.args["quantile"]))
            case exp.PercentileCont() if given(node) == {"this", "expression"}:
                return self.quantile(node.this, self.fraction(node.expression))
            case exp.WithinGroup(this=exp.PercentileCont() as inner) if given(inner) == {"this"}:
                order = node.expression.expressions
                if len(order) == 1 and not order[0].args.get("desc"):
                    return self.quantile(order[0].this, self.fraction(inner.this))
                raise self.fault("its quantile is not ordered by one ascending expression", OFFERED)
            case _:
                return None

    def count(self, node: exp.Count) -> Item | None:
        """COUNT in its forms; None for one with more inside."""
        inner = node.this
        if not given(node) <= {"this", "big_int"}:
            return None
        if inner is None or isinstance(inner, exp.Star):
            return Item(alias="", aggregate=Aggregate.COUNT_ROWS)
        if isinstance(inner, exp.Distinct):
            column = self.reader.read(inner.expressions[0]) if len(inner.expressions) == 1 else None
            if given(inner) != {"expressions"} or not isinstance(column, Name):
                raise self.fault(
                    "it counts distinct values of more than a column",
                    "Write COUNT(DISTINCT person), or the name of the person's column.",
                )
            return Item(alias="", aggregate=Aggregate.COUNT_DISTINCT, argument=column.name)
        counted = self.reader.read(inner)
        if isinstance(counted, Literal) and counted.value is not None:
            return Item(alias="", aggregate=Aggregate.COUNT_ROWS)
        return Item(alias="", aggregate=Aggregate.COUNT, argument=self.written(counted))

    def argument(self, node: object) -> str:
        """What an aggregate is taken of."""
        if isinstance(node, exp.Distinct | exp.Order | exp.Limit):
            raise self.fault(
                f"it aggregates in a special way, at {refusals.fragment(node)!r}", OFFERED
            )
        return self.written(self.reader.read(node))

    def quantile(self, node: object, quantile: Fraction) -> Item:
        """A quantile of an expression."""
        argument = self.argument(node)
        return Item(alias="", aggregate=Aggregate.QUANTILE, argument=argument, quantile=quantile)

    def fraction(self, node: object) -> Fraction:
        """A literal strictly between 0 and 1."""
        found = self.reader.read(node)
        value = found.value if isinstance(found, Literal) else None
        if not isinstance(value, int | float) or not 0 < value < 1:
            raise self.fault(
                f"its quantile {text_of(found)[:60]} is no number between 0 and 1",
                "Write one literal strictly between 0 and 1, as in QUANTILE(x, 0.9).",
            )
        return checks.exact("quantile", value)

    def names_for(self, item: Item) -> Iterator[str]:
        """Names for an item that was given none, best first."""
        head = item.aggregate.value.split()[0]
        if item.quantile == Fraction(1, 2):
            head = "median"
        if item.aggregate == Aggregate.COUNT_DISTINCT:
            first = f"count_distinct_{item.argument}"
        elif item.argument is None:
            first = head
        else:
            tree = self.reader.read(condition(item.argument, argument="sql"))
            first = "_".join([head, *dict.fromkeys(names(tree))])
        yield first
        yield from (f"{first}_{number}" for number in itertools.count(2))
