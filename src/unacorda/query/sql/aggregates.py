"""The aggregates that a SELECT may hold, a line each, and how a call of one is read."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from sqlglot import exp

from unacorda import checks
from unacorda.errors import InvalidParameter, UnsafeExpression
from unacorda.query.aggregates.base import Aggregate
from unacorda.query.aggregates.extremes import max as greatest
from unacorda.query.aggregates.extremes import min as least
from unacorda.query.aggregates.histograms import histogram
from unacorda.query.aggregates.linear import count, count_distinct, count_if, count_people
from unacorda.query.aggregates.linear import sum as total
from unacorda.query.aggregates.means import mean
from unacorda.query.aggregates.multi_quantiles import iqr, quantiles
from unacorda.query.aggregates.quantiles import quantile
from unacorda.query.aggregates.top_k import top
from unacorda.query.aggregates.variances import correlation, covariance, stdev, variance
from unacorda.query.expressions import errors
from unacorda.query.expressions.parse import tree_of
from unacorda.query.expressions.tree import Literal, Name, Node, Operation, text_of
from unacorda.query.plan.query import Query
from unacorda.query.schema.facts import Categories
from unacorda.query.schema.units import Person
from unacorda.query.sql.from_clause import Source, given, written
from unacorda.query.sql.types import Item, SqlAggregate, plain

__all__ = [
    "COUNT",
    "COUNT_DISTINCT",
    "COUNT_IF",
    "COUNT_ROWS",
    "EQUAL_BINS",
    "HISTOGRAM",
    "OFFERED",
    "OF_ONE",
    "OF_TWO",
    "QUANTILE",
    "QUANTILES",
    "TOP",
    "Aggregates",
]


_PERSON = "person"


def _one(name: str, function: Callable[..., Aggregate], **options: Any) -> SqlAggregate:
    return SqlAggregate(name, lambda item, _: function(item.column, **options))


def _two(name: str, function: Callable[..., Aggregate], **options: Any) -> SqlAggregate:
    return SqlAggregate(name, lambda item, _: function(item.column, plain(item.second), **options))


COUNT_IF = _one("count_if", count_if)
_MEAN, _VARIANCE = _one("avg", mean), _one("variance", variance, ddof=1)
_STDEV = _one("stddev", stdev, ddof=1)

OF_ONE: dict[type[object] | str, SqlAggregate] = {
    exp.Sum: _one("sum", total),
    exp.Avg: _MEAN,
    "MEAN": _MEAN,
    exp.Min: _one("min", least),
    exp.Max: _one("max", greatest),
    exp.Variance: _VARIANCE,
    "VAR": _VARIANCE,
    exp.VariancePop: _one("var_pop", variance, ddof=0),
    exp.Stddev: _STDEV,
    exp.StddevSamp: _STDEV,
    exp.StddevPop: _one("stddev_pop", stdev, ddof=0),
    exp.CountIf: COUNT_IF,
    "IQR": _one("iqr", iqr),
}
"""Of one expression, by how sqlglot holds them, or by their names where it does not know them."""

OF_TWO: dict[type[object] | str, SqlAggregate] = {
    exp.CovarSamp: _two("covar_samp", covariance, ddof=1),
    exp.CovarPop: _two("covar_pop", covariance, ddof=0),
    exp.Corr: _two("corr", correlation),
}
"""Of two expressions."""

COUNT_ROWS = SqlAggregate("count", lambda _, __: count())
"""COUNT(*): rows, NULLs included."""

COUNT = SqlAggregate("count", lambda item, _: count(item.argument))
"""COUNT(x): rows where x is not NULL."""


def _distinct(item: Item, query: Query) -> Aggregate:
    """People, where the column is the one that names them, or else different values."""
    named = item.argument or ""
    unit = query.unit
    ids = unit.id if isinstance(unit, Person) else ()
    bare = named.casefold()
    own = any(name.casefold() == _PERSON for name in query.scope.names)  # a column called so
    if (bare == _PERSON and not own) or (len(ids) == 1 and bare == ids[0].casefold()):
        return count_people(item.second)
    if item.second is None:
        return count_distinct(named)
    quoted = named.replace('"', '""')
    return count_distinct(f'CASE WHEN ({item.second}) IS NOT NULL THEN "{quoted}" END')


COUNT_DISTINCT = SqlAggregate("count distinct", _distinct)
"""COUNT(DISTINCT x): x is a column's plain name; of people where that is the id or `person`."""

QUANTILE = SqlAggregate("quantile", lambda item, _: quantile(item.column, item.quantiles[0]))
"""MEDIAN(x), QUANTILE(x, q), PERCENTILE_CONT(q) WITHIN GROUP (ORDER BY x)."""

QUANTILES = SqlAggregate("quantiles", lambda item, _: quantiles(item.column, item.quantiles))
"""QUANTILE(x, [q, r]), PERCENTILE_CONT([q, r]) WITHIN GROUP (ORDER BY x)."""

HISTOGRAM = SqlAggregate("histogram", lambda item, _: histogram(item.column, item.edges))
"""HISTOGRAM(x, [0, 10, 20]): a line for each bin."""

EQUAL_BINS = SqlAggregate(
    "histogram_numeric", lambda item, _: histogram(item.column, bins=item.size)
)
"""HISTOGRAM_NUMERIC(x, 10): a line for each bin, whose edges are found."""


def _top(item: Item, query: Query) -> Aggregate:
    """The most frequent values; under a condition the column's declared ones are listed."""
    argument, column = item.column, item.second or ""
    fact = query.scope.facts.get(query.scope.resolve(column, argument="SELECT"))
    if argument == column or not isinstance(fact, Categories):
        return top(column, item.size)
    return top(argument, item.size, [value for value in fact.values if value is not None])


TOP = SqlAggregate("approx_top_k", _top)
"""APPROX_TOP_K(x, 10): a line for each of the most frequent values of a column."""

OFFERED = (
    "The aggregates are COUNT(*), COUNT(x), COUNT(DISTINCT person), COUNT(DISTINCT column), "
    + ", ".join(
        [
            *(f"{name}(x)" for name in dict.fromkeys(one.name.upper() for one in OF_ONE.values())),
            *(f"{one.name.upper()}(x, y)" for one in OF_TWO.values()),
        ]
    )
    + ", MEDIAN(x), QUANTILE(x, 0.9), QUANTILE(x, [0.1, 0.9]), PERCENTILE_CONT(0.9) WITHIN GROUP "
    "(ORDER BY x), HISTOGRAM(x, [0, 10, 20]), HISTOGRAM_NUMERIC(x, 10) and APPROX_TOP_K(column, "
    "10), each also with FILTER (WHERE condition)."
)
"""What a refusal says of them."""


_INSTEAD: dict[type[object], str] = {
    exp.Filter: "Write AVG(x) FILTER (WHERE condition). ",
    exp.PercentileDisc: "Write QUANTILE(x, 0.5). ",
    exp.ApproxQuantile: "Write QUANTILE(x, 0.5). ",
    exp.ApproxDistinct: "Write COUNT(DISTINCT x). ",
}


_HISTOGRAMS = {"HISTOGRAM", "HISTOGRAM_NUMERIC"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregates:
    """Reads aggregates of one SELECT; every method raises UnsafeExpression.

    text: the whole SELECT, for messages; source: the columns that may be used.
    """

    text: str
    source: Source

    def fault(self, reason: str, hint: str, at: object = None) -> UnsafeExpression:
        """A refusal of the SELECT; at: the part that is meant."""
        place = errors.of_node(self.text, at)
        return UnsafeExpression(self.text, reason=reason, hint=hint, place=place)

    def refuse_others(self, node: object) -> None:
        """Raises where a node is or holds an aggregate or window, none of which is offered."""
        if not isinstance(node, exp.Expression):
            return
        window = node.find(exp.Window)
        if window is not None:
            raise self.fault(
                f"it uses a window function (OVER), at {errors.fragment(window)!r}",
                OFFERED,
                window,
            )
        if node.find(exp.AggFunc) is None:
            return
        whole = isinstance(node, exp.AggFunc | exp.Filter | exp.WithinGroup | exp.IgnoreNulls)
        what = "an aggregate that is not offered" if whole else "an expression over an aggregate"
        hint = _INSTEAD.get(type(node), "" if whole else "Compute with the released columns. ")
        shown = errors.quoted(self.text, node)
        raise self.fault(f"it selects {what}, at {shown!r}", hint + OFFERED, node)

    def aggregate(self, node: object) -> Item | None:
        """The aggregate a node is, still without an alias; None where it is something else."""
        match node:
            case exp.Filter(expression=exp.Where() as where) if given(node) == {
                "this",
                "expression",
            }:
                found = self.aggregate(node.this)
                return None if found is None else self.filtered(found, where)
            case exp.Count():
                return self.count(node)
            case exp.Median() if given(node) == {"this"}:
                return self.quantile(node.this, exp.Literal.number("0.5"))
            case exp.Expression() if type(node) in OF_ONE and given(node) == {"this"}:
                kind = OF_ONE[type(node)]
                return Item(alias="", aggregate=kind, argument=self.argument(node.this))
            case exp.Expression() if type(node) in OF_TWO and given(node) == {
                "this",
                "expression",
            }:
                first, second = self.argument(node.this), self.argument(node.expression)
                kind = OF_TWO[type(node)]
                return Item(alias="", aggregate=kind, argument=first, second=second)
            case exp.Anonymous() if node.name.upper() in OF_ONE and len(node.expressions) == 1:
                argument = self.argument(node.expressions[0])
                return Item(alias="", aggregate=OF_ONE[node.name.upper()], argument=argument)
            case exp.Anonymous() if node.name.upper() in OF_TWO and len(node.expressions) == 2:
                first, second = map(self.argument, node.expressions)
                kind = OF_TWO[node.name.upper()]
                return Item(alias="", aggregate=kind, argument=first, second=second)
            case exp.Anonymous() if node.name.upper() in _HISTOGRAMS and len(node.expressions) == 2:
                return self.histogram(node)
            case exp.ApproxTopK() if given(node) == {"this", "expression"}:
                return self.top(node)
            case exp.Quantile() if given(node) == {"this", "quantile"}:
                return self.quantile(node.this, node.args["quantile"])
            case exp.PercentileCont() if given(node) == {"this", "expression"}:
                return self.quantile(node.this, node.expression)
            case exp.WithinGroup(this=exp.PercentileCont() as inner) if given(inner) == {"this"}:
                order = node.expression.expressions
                if len(order) == 1 and not order[0].args.get("desc"):
                    return self.quantile(order[0].this, inner.this)
                raise self.fault(
                    "its quantile is not ordered by one ascending expression", OFFERED, node
                )
            case _:
                return None

    def count(self, node: exp.Count) -> Item | None:
        """COUNT in its forms; None for one with more inside."""
        inner = node.this
        if not given(node) <= {"this", "big_int"}:
            return None
        if inner is None or isinstance(inner, exp.Star):
            return Item(alias="", aggregate=COUNT_ROWS)
        if isinstance(inner, exp.Distinct):
            return self.distinct(inner)
        counted = self.source.read(inner)
        if isinstance(counted, Literal) and counted.value is not None:
            return Item(alias="", aggregate=COUNT_ROWS)
        argument = written(self.text, counted, inner)
        return Item(alias="", aggregate=COUNT, argument=argument)

    def distinct(self, inner: exp.Distinct) -> Item:
        """COUNT(DISTINCT x), and COUNT(DISTINCT CASE WHEN c THEN x END), of people or values."""
        source, word = self.source, "person"
        if source.known and word not in {*map(str.casefold, source.known), *source.columns}:
            # The person may be called so, whatever their column is.
            named = {**source.columns, word: (word, Name(word))}
            source = replace(source, columns=named)
        found = source.read(inner.expressions[0]) if len(inner.expressions) == 1 else None
        second: str | None = None
        match found:
            case Operation("CASE", (test, Name() as column, Literal(None))):
                second = written(self.text, _case(test, Literal(1)), inner)
            case Name() as column if given(inner) == {"expressions"}:
                pass
            case _:
                raise self.fault(
                    "it counts distinct values of more than a column",
                    "Write COUNT(DISTINCT person), or the name of a column.",
                    inner,
                )
        kind = COUNT_DISTINCT
        return Item(alias="", aggregate=kind, argument=column.name, second=second)

    def filtered(self, item: Item, where: exp.Expression) -> Item:
        """The aggregate over the rows that a condition holds for, as one over a CASE."""
        test = self.source.read(where.this)
        if item.aggregate is COUNT_ROWS:
            argument = written(self.text, test, where)
            return replace(item, aggregate=COUNT_IF, argument=argument)
        if item.aggregate is COUNT_DISTINCT:
            value = Literal(1) if item.second is None else self.again(item.second)
            return replace(item, second=written(self.text, _case(test, value), where))
        assert item.argument is not None
        case = _case(test, self.again(item.argument))
        return replace(item, argument=written(self.text, case, where))

    def again(self, argument: str) -> Node:
        """The tree of an argument that was read already."""
        return tree_of(argument, argument="sql")

    def argument(self, node: object) -> str:
        """What an aggregate is taken of."""
        if isinstance(node, exp.Distinct | exp.Order | exp.Limit):
            raise self.fault(
                f"it aggregates in a special way, at {errors.fragment(node)!r}", OFFERED, node
            )
        return written(self.text, self.source.read(node), node)

    def quantile(self, node: object, levels: object) -> Item:
        """A quantile of an expression, or several in a list."""
        argument = self.argument(node)
        if not isinstance(levels, exp.Array):
            level = self.fraction(levels)
            kind = QUANTILE
            return Item(alias="", aggregate=kind, argument=argument, quantiles=(level,))
        found = tuple(self.fraction(level) for level in levels.expressions)
        try:
            parts = quantiles("x", found).parts
        except InvalidParameter as error:
            raise self.fault(
                "its list of quantiles is of no use", f"Write {error.expected}.", levels
            ) from None
        kind = QUANTILES
        return Item(alias="", aggregate=kind, argument=argument, quantiles=found, parts=parts)

    def histogram(self, node: exp.Anonymous) -> Item:
        """HISTOGRAM(x, [edges]), and HISTOGRAM_NUMERIC(x, bins)."""
        inner, how = node.expressions
        argument = self.argument(inner)
        if node.name.upper() == "HISTOGRAM_NUMERIC":
            kind = EQUAL_BINS
            return Item(alias="", aggregate=kind, argument=argument, size=self.size(how))
        edges = [self.source.read(edge) for edge in how.expressions]
        values = [edge.value for edge in edges if isinstance(edge, Literal)]
        numbers = tuple(v for v in values if isinstance(v, int | float) and not isinstance(v, bool))
        if not isinstance(how, exp.Array) or len(numbers) < max(2, len(edges)):
            raise self.fault(
                f"its edges {errors.fragment(how)!r} are no list of numbers",
                "Write HISTOGRAM(x, [0, 10, 20]), or HISTOGRAM_NUMERIC(x, 10) to find edges.",
                how,
            )
        falls = [at for at, (a, b) in enumerate(itertools.pairwise(numbers), 1) if not a < b]
        if falls:
            raise self.fault(
                f"its edge {numbers[falls[0]]} is not above the one before it",
                "Write edges that rise: HISTOGRAM(x, [0, 10, 20]).",
                how.expressions[falls[0]],
            )
        kind = HISTOGRAM
        return Item(alias="", aggregate=kind, argument=argument, edges=numbers)

    def top(self, node: exp.ApproxTopK) -> Item:
        """APPROX_TOP_K(column, k)."""
        column = self.source.read(node.this)
        if not isinstance(column, Name):
            raise self.fault(
                f"it takes the top of {errors.fragment(node.this)!r}, which is no column",
                "Name a column whose values are declared.",
                node,
            )
        argument, size = written(self.text, column, node.this), self.size(node.expression)
        kind = TOP
        return Item(alias="", aggregate=kind, argument=argument, second=column.name, size=size)

    def size(self, node: object) -> int:
        """A literal whole number of bins or values."""
        found = self.source.read(node)
        value = found.value if isinstance(found, Literal) else None
        if type(value) is not int or value < 1:
            raise self.fault(
                f"its number {text_of(found)[:60]} is not whole and above 0",
                "Write a literal, as in HISTOGRAM_NUMERIC(x, 10) or APPROX_TOP_K(x, 10).",
                node,
            )
        return value

    def fraction(self, node: object) -> Fraction:
        """A literal from 0 to 1."""
        found = self.source.read(node)
        value = found.value if isinstance(found, Literal) else None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
            raise self.fault(
                f"its quantile {text_of(found)[:60]} is no number from 0 to 1",
                "Write one literal from 0 to 1, as in QUANTILE(x, 0.9).",
                node,
            )
        return checks.exact("quantile", value)

    def names_for(self, item: Item, node: object) -> Iterator[str]:
        """Names for an item that was given none, best first; node: as it was written."""
        head = "_".join(item.aggregate.name.split())
        if item.quantiles == (Fraction(1, 2),):
            head = "median"
        columns = node.find_all(exp.Column, bfs=False) if isinstance(node, exp.Expression) else ()
        first = "_".join([head, *dict.fromkeys(column.name for column in columns)])
        yield first
        yield from (f"{first}_{number}" for number in itertools.count(2))


def _case(test: Node, value: Node) -> Node:
    return Operation("CASE", (test, value, Literal(None)))
