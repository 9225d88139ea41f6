"""The columns of a SELECT: its aggregates, and what it does with the released table.

The latter is computed columns, HAVING, ORDER BY, LIMIT and OFFSET. All of it is post-processing of
released values and public keys: it reads no data and costs nothing.

**The error of a computed column.** Each aggregate has noise of its own, independent of the rest.
With f the expression at the released values, and f_i where the i-th of them is moved by a standard
error up or down, the standard error is the root of the sum of ((f_i+ - f_i-) / 2)^2: the first
order of the law of propagation of errors, with steps as long as the errors themselves. The ends of
the interval are f moved by the root of the sum of the squares of what f loses (or gains) when the
i-th value stands at an end of its own 95% interval: for a sum of independent terms with symmetric
intervals that is the usual one, and for a ratio it keeps the skewness. Both are approximate, and
None wherever an input has none or f is undefined at one of these points.

Source: Zou and Donner 2008, Statistics in Medicine 27(10), section 2 (limits of a function from the
limits of its parts).
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any
from typing import Literal as Choice

from sqlglot import exp

from unacorda import checks
from unacorda.errors import InvalidParameter
from unacorda.query.aggregates.base import Aggregate, Answer
from unacorda.query.aggregates.extremes import max as greatest
from unacorda.query.aggregates.extremes import min as least
from unacorda.query.aggregates.hierarchy import MARGIN
from unacorda.query.aggregates.histograms import histogram, top
from unacorda.query.aggregates.linear import count, count_distinct, count_if, count_people
from unacorda.query.aggregates.linear import sum as total
from unacorda.query.aggregates.means import mean
from unacorda.query.aggregates.quantiles import iqr, quantile, quantiles
from unacorda.query.aggregates.variances import correlation, covariance, stdev, variance
from unacorda.query.expressions import errors
from unacorda.query.expressions.language import (
    Column,
    Expression,
    Kind,
    Literal,
    Name,
    Node,
    Operation,
    text_of,
)
from unacorda.query.expressions.parse import parse
from unacorda.query.expressions.reader import given
from unacorda.query.plan.query import Query
from unacorda.query.results.release import Release
from unacorda.query.schema.table import Categories
from unacorda.query.sql.from_clause import Offered, Source, only_where, placed, plain, written


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One aggregate of the SELECT list.

    alias: its name in the output, empty where none was given yet. name: its head in the names of
    columns that are given none. arguments: the texts of its expressions in the input language; of
    top values the second is the column. at: it as it was written.
    """

    alias: str = ""
    name: str
    aggregate: Aggregate
    arguments: tuple[str, ...] = ()
    at: exp.Expression | None = field(default=None, compare=False, repr=False)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of its columns in the released table, those of errors left out."""
        return tuple(f"{self.alias}{part}" for part in self.aggregate.parts)


_INTERVAL, _HALF = "_WITH_INTERVAL", Fraction(1, 2)
"""The end of the names of quantiles that spend half of their budget on intervals."""

_Call = tuple[str, Callable[..., Aggregate]]
_MEAN: _Call = ("avg", mean)
_VARIANCE: _Call = ("variance", functools.partial(variance, ddof=1))
_STDEV: _Call = ("stddev", functools.partial(stdev, ddof=1))

OF_ONE: dict[type[object] | str, _Call] = {
    exp.Sum: ("sum", total),
    exp.Avg: _MEAN,
    "MEAN": _MEAN,
    exp.Min: ("min", least),
    exp.Max: ("max", greatest),
    exp.Variance: _VARIANCE,
    "VAR": _VARIANCE,
    exp.VariancePop: ("var_pop", functools.partial(variance, ddof=0)),
    exp.Stddev: _STDEV,
    exp.StddevSamp: _STDEV,
    exp.StddevPop: ("stddev_pop", functools.partial(stdev, ddof=0)),
    exp.CountIf: ("count_if", count_if),
    "IQR": ("iqr", iqr),
    f"IQR{_INTERVAL}": ("iqr", functools.partial(iqr, interval=_HALF)),
}
"""Of one expression, by how sqlglot holds them, or by their names where it does not know them."""

OF_TWO: dict[type[object] | str, _Call] = {
    exp.CovarSamp: ("covar_samp", functools.partial(covariance, ddof=1)),
    exp.CovarPop: ("covar_pop", functools.partial(covariance, ddof=0)),
    exp.Corr: ("corr", correlation),
}
"""Of two expressions."""

OFFERED = (
    "The aggregates are COUNT(*), COUNT(x), COUNT(DISTINCT person), COUNT(DISTINCT column), "
    + ", ".join(
        [
            *(f"{name}(x)" for name in dict.fromkeys(name.upper() for name, _ in OF_ONE.values())),
            *(f"{name.upper()}(x, y)" for name, _ in OF_TWO.values()),
        ]
    )
    + ", MEDIAN(x), MEDIAN_WITH_INTERVAL(x), QUANTILE(x, 0.9), QUANTILE(x, [0.1, 0.9]), "
    "QUANTILE_WITH_INTERVAL(x, 0.9), PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY x), "
    "HISTOGRAM(x, [0, 10, 20]), HISTOGRAM_NUMERIC(x, 10) and APPROX_TOP_K(column, 10), each also "
    "with FILTER (WHERE condition)."
)
"""What a refusal says of them."""


_INSTEAD: dict[type[object], str] = {
    exp.Filter: "Write AVG(x) FILTER (WHERE condition). ",
    exp.PercentileDisc: "Write QUANTILE(x, 0.5). ",
    exp.ApproxQuantile: "Write QUANTILE(x, 0.5). ",
    exp.ApproxDistinct: "Write COUNT(DISTINCT x). ",
}


_BOTH = {"this", "expression"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregates:
    """Reads aggregates of one SELECT; every method raises UnsafeExpression.

    source: the columns that may be used.
    """

    source: Source

    def refuse_others(self, node: object) -> None:
        """Raises where a node is or holds an aggregate or window, none of which is offered."""
        if not isinstance(node, exp.Expression):
            return
        window = node.find(exp.Window)
        if window is not None:
            reason = f"it uses a window function (OVER), at {errors.fragment(window)!r}"
            raise self.source.fault(reason, OFFERED, window)
        if node.find(exp.AggFunc) is None:
            return
        whole = isinstance(node, exp.AggFunc | exp.Filter | exp.WithinGroup | exp.IgnoreNulls)
        what = "an aggregate that is not offered" if whole else "an expression over an aggregate"
        hint = _INSTEAD.get(type(node), "" if whole else "Compute with the released columns. ")
        shown = errors.quoted(self.source.text, node)
        raise self.source.fault(f"it selects {what}, at {shown!r}", hint + OFFERED, node)

    def aggregate(self, node: object, test: Node | None = None) -> Item | None:
        """The aggregate a node is, still without an alias; None where it is something else.

        test: what must hold for the rows that it is taken of.
        """
        match node:
            case exp.Filter(this=inner, expression=exp.Where() as where) if given(node) == _BOTH:
                found = self.aggregate(inner, self.source.read(where.this))
                return None if found is None else replace(found, at=node)
            case exp.Count():
                return self.count(node, test)
            case exp.Median() if given(node) == {"this"}:
                return self.quantile(node, node.this, exp.Literal.number("0.5"), test)
            case exp.ApproxTopK() if given(node) == _BOTH:
                return self.top(node, test)
            case exp.Quantile() if given(node) == {"this", "quantile"}:
                return self.quantile(node, node.this, node.args["quantile"], test)
            case exp.PercentileCont() if given(node) == _BOTH:
                return self.quantile(node, node.this, node.expression, test)
            case exp.WithinGroup(this=exp.PercentileCont() as inner) if given(inner) == {"this"}:
                order = node.expression.expressions
                if len(order) == 1 and not order[0].args.get("desc"):
                    return self.quantile(node, order[0].this, inner.this, test)
                reason = "its quantile is not ordered by one ascending expression"
                raise self.source.fault(reason, OFFERED, node)
            case exp.Anonymous(expressions=[inner]) if node.name.upper() == f"MEDIAN{_INTERVAL}":
                return self.quantile(node, inner, exp.Literal.number("0.5"), test, interval=_HALF)
            case exp.Anonymous(expressions=[inner, q]) if (
                node.name.upper() == f"QUANTILE{_INTERVAL}"
            ):
                return self.quantile(node, inner, q, test, interval=_HALF)
            case exp.Anonymous():
                head: type[object] | str = node.name.upper()
                parts = node.expressions
            case exp.Expression() if given(node) <= _BOTH:
                head = type(node)
                parts = [node.args[key] for key in ("this", "expression") if key in given(node)]
            case _:
                return None
        if head in ("HISTOGRAM", "HISTOGRAM_NUMERIC") and len(parts) == 2:
            return self.histogram(node, parts, test)
        call = {1: OF_ONE, 2: OF_TWO}.get(len(parts), {}).get(head)
        if call is None:
            return None
        texts = (self.argument(parts[0], test), *map(self.argument, parts[1:]))
        return self.item(node, call, texts, *map(plain, texts))

    def item(
        self,
        node: exp.Expression,
        call: _Call,
        texts: tuple[str, ...],
        *operands: Any,
        **options: Any,
    ) -> Item:
        """The aggregate that a call makes; node: the whole of it; texts: what it is taken of."""
        name, function = call
        with placed("SELECT", self.source.text, node):
            aggregate = function(*operands, **options)
        return Item(name=name, aggregate=aggregate, arguments=texts, at=node)

    def count(self, node: exp.Count, test: Node | None) -> Item | None:
        """COUNT in its forms; None for one with more inside."""
        inner = node.this
        if not given(node) <= {"this", "big_int"}:
            return None
        if isinstance(inner, exp.Distinct):
            return self.distinct(node, inner, test)
        star = inner is None or isinstance(inner, exp.Star)
        counted: Node = Literal(1) if star else self.source.read(inner)
        if not isinstance(counted, Literal) or counted.value is None:
            text = written(self.source.text, only_where(test, counted), inner)
            return self.item(node, ("count", count), (text,), text)
        if test is None:
            return self.item(node, ("count", count), ())
        text = written(self.source.text, test, node.parent)
        return self.item(node, OF_ONE[exp.CountIf], (text,), plain(text))

    def distinct(self, node: exp.Count, inner: exp.Distinct, test: Node | None) -> Item:
        """COUNT(DISTINCT x), and COUNT(DISTINCT CASE WHEN c THEN x END), of people or values."""
        source, query = self.source, self.source.people
        person = "person" not in map(str.casefold, query.scope.names)  # else it is that column
        if person and "person" not in source.first:
            # The person may be called so, whatever their column is.
            called = Offered(table="", shown="person", meant=None)
            source = replace(source, columns=(*source.columns, called))
        found = source.read(inner.expressions[0]) if len(inner.expressions) == 1 else None
        value: Node | None = None if test is None else only_where(test, Literal(1))
        match found:
            case Operation("CASE", (condition, Name(column), Literal(None))):
                value = only_where(test, only_where(condition, Literal(1)))
            case Name(column) if given(inner) == {"expressions"}:
                pass
            case _:
                reason = "it counts distinct values of more than a column"
                hint = "Write COUNT(DISTINCT person), or the name of a column."
                raise source.fault(reason, hint, inner)
        text = None if value is None else written(source.text, value, inner)
        named = [*(query.unit.id if len(query.unit.id) == 1 else ()), *(["person"] * person)]
        if column.casefold() in map(str.casefold, named):
            return self.item(node, ("count_distinct", count_people), (column,), text)
        quoted = text_of(Name(column))
        of = column if text is None else f"CASE WHEN ({text}) IS NOT NULL THEN {quoted} END"
        return self.item(node, ("count_distinct", count_distinct), (column,), of)

    def argument(self, node: object, test: Node | None = None) -> str:
        """What an aggregate is taken of."""
        if isinstance(node, exp.Distinct | exp.Order | exp.Limit):
            shown = errors.fragment(node)
            raise self.source.fault(f"it aggregates in a special way, at {shown!r}", OFFERED, node)
        return written(self.source.text, only_where(test, self.source.read(node)), node)

    def quantile(
        self,
        node: exp.Expression,
        inner: object,
        levels: object,
        test: Node | None,
        *,
        interval: Fraction = Fraction(0),
    ) -> Item:
        """A quantile of an expression, or several in a list; interval: the share that buys one."""
        text = self.argument(inner, test)
        if not isinstance(levels, exp.Array):
            level = self.fraction(levels)
            name = "median" if level == Fraction(1, 2) else "quantile"
            one: _Call = (name, quantile)
            return self.item(node, one, (text,), plain(text), level, interval=interval)
        found = [self.fraction(level) for level in levels.expressions]
        try:
            call: _Call = ("quantiles", quantiles)
            return self.item(node, call, (text,), plain(text), found, interval=interval)
        except InvalidParameter as error:
            hint = f"Write {error.expected}."
        raise self.source.fault("its list of quantiles is of no use", hint, levels)

    def histogram(self, node: exp.Expression, parts: list[Any], test: Node | None) -> Item:
        """HISTOGRAM(x, [edges]), and HISTOGRAM_NUMERIC(x, bins)."""
        inner, how = parts
        text = self.argument(inner, test)
        call: _Call = (node.name.lower(), histogram)
        if node.name.upper() == "HISTOGRAM_NUMERIC":
            return self.item(node, call, (text,), plain(text), bins=self.size(how))
        values = [self.constant(edge) for edge in how.expressions]
        numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
        if not isinstance(how, exp.Array) or len(numbers) < max(2, len(values)):
            reason = f"its edges {errors.fragment(how)!r} are no list of numbers"
            hint = "Write HISTOGRAM(x, [0, 10, 20]), or HISTOGRAM_NUMERIC(x, 10) to find edges."
            raise self.source.fault(reason, hint, how)
        for place, (before, edge) in enumerate(itertools.pairwise(numbers), 1):
            if not before < edge:
                reason = f"its edge {edge} is not above the one before it"
                hint = "Write edges that rise: HISTOGRAM(x, [0, 10, 20])."
                raise self.source.fault(reason, hint, how.expressions[place])
        return self.item(node, call, (text,), plain(text), numbers)

    def top(self, node: exp.ApproxTopK, test: Node | None) -> Item:
        """APPROX_TOP_K(column, k); under a condition the column's declared values are listed."""
        column = self.source.read(node.this)
        if not isinstance(column, Name):
            reason = f"it takes the top of {errors.fragment(node.this)!r}, which is no column"
            raise self.source.fault(reason, "Name a column whose values are declared.", node)
        text = written(self.source.text, only_where(test, column), node.this)
        size, listed = self.size(node.expression), None
        if test is not None:
            scope = self.source.people.scope
            fact = scope.facts.get(scope.alike(column.name) or column.name)
            if isinstance(fact, Categories):
                listed = [value for value in fact.values if value is not None]
        of = column.name if listed is None else plain(text)
        return self.item(node, ("approx_top_k", top), (text, column.name), of, size, listed)

    def constant(self, node: object) -> object:
        """The value of a literal; None for all else."""
        found = self.source.read(node)
        return found.value if isinstance(found, Literal) else None

    def size(self, node: object) -> int:
        """A literal whole number of bins or values."""
        value = self.constant(node)
        if type(value) is int and value >= 1:
            return value
        reason = f"its number {errors.fragment(node)} is not whole and above 0"
        hint = "Write a literal, as in HISTOGRAM_NUMERIC(x, 10) or APPROX_TOP_K(x, 10)."
        raise self.source.fault(reason, hint, node)

    def fraction(self, node: object) -> Fraction:
        """A literal from 0 to 1."""
        value = self.constant(node)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1:
            return checks.exact("quantile", value)
        reason = f"its quantile {errors.fragment(node)} is no number from 0 to 1"
        raise self.source.fault(
            reason, "Write one literal from 0 to 1, as in QUANTILE(x, 0.9).", node
        )


def names_for(item: Item, node: exp.Expression) -> Iterator[str]:
    """Names for an item that was given none, best first; node: as it was written."""
    columns = node.find_all(exp.Column, bfs=False)
    first = "_".join([item.name, *dict.fromkeys(column.name for column in columns)])
    return itertools.chain([first], (f"{first}_{number}" for number in itertools.count(2)))


# ---- what is done with the released table --------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Computed:
    """An output column made of released ones.

    expression: in the input language, over the names of released columns: aggregates
    and groups as they are shown. at: it as it was written.
    """

    alias: str
    expression: str
    at: exp.Expression | None = field(default=None, compare=False, repr=False)

    @property
    def columns(self) -> tuple[str, ...]:
        """The name of its column in the released table, those of errors left out."""
        return (self.alias,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordering:
    """One sort key of the released table, an expression over released columns.

    at: it as it was written.
    """

    expression: str
    descending: bool = False
    nulls_first: bool = False
    at: exp.Expression | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Select:
    """A SELECT as `Session.read_sql` parsed it.

    HAVING, ORDER BY, LIMIT and OFFSET apply to the released table, and cost nothing.

    Attributes
    ----------
    text
        The SELECT as it was written.
    rows
        Its FROM, JOIN and WHERE: a question without groups and aggregates.
    groups, shown
        The group columns in the order of GROUP BY, and their names in the released table.
    groups_at, having_at
        GROUP BY and HAVING as they were written, for error messages.
    margins
        "rollup" or "cube" for GROUP BY ROLLUP or CUBE, otherwise None.
    items
        The output columns in order, without the groups.
    inner
        Aggregates that appear only inside computed columns. They are released too.
    having
        The condition on rows of the released table.
    order_by
        The sort keys.
    limit, offset
        The number of rows to return, and to skip before.

    Examples
    --------
    >>> import pandas
    >>> import unacorda
    >>> visits = pandas.DataFrame({"id": [1, 2, 3], "age": [30, 41, 62]})
    >>> unit = unacorda.Person("id", max_rows=1)
    >>> text = "SELECT COUNT(*) AS n, COUNT_IF(age >= 40) AS older FROM visits LIMIT 1"
    >>> with unacorda.Session({"visits": visits}, unit=unit, budget=unacorda.PureDP(1)) as session:
    ...     question, select = session.read_sql(text)
    >>> question
    table('visits').agg(n, older)
    >>> select.outputs, select.limit
    (('n', 'older'), 1)
    """

    text: str
    rows: Query
    groups: tuple[str, ...]
    shown: tuple[str, ...]
    groups_at: tuple[exp.Expression, ...] = field(compare=False, repr=False)
    margins: Choice["rollup", "cube"] | None
    items: tuple[Item | Computed, ...]
    inner: tuple[Item, ...]
    having: str | None
    having_at: exp.Expression | None = field(compare=False, repr=False)
    order_by: tuple[Ordering, ...]
    limit: int | None
    offset: int

    @property
    def aggregates(self) -> tuple[Item, ...]:
        """All aggregates to be asked."""
        return (*(item for item in self.items if isinstance(item, Item)), *self.inner)

    @property
    def labels(self) -> tuple[str, ...]:
        """The columns of the released table that say what a line is about."""
        return self.shown if self.margins is None else (MARGIN, *self.shown)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the answers in the released table, without their errors."""
        return tuple(name for item in (*self.items, *self.inner) for name in item.columns)

    @property
    def group_names(self) -> dict[str, str]:
        """The group columns by each name that means one: as it is shown, or the column's own."""
        return {name: name for name in self.groups} | dict(
            zip(self.shown, self.groups, strict=True)
        )


def check_arrangement(select: Select, query: Query) -> None:
    """Raise InvalidParameter for what could not be done with the release; reads nothing."""
    _Arrangement.of(select, query)


def arranged(release: Release, select: Select) -> Release:
    """The release in the columns, order, length and names that the SELECT asked for."""
    plan = _Arrangement.of(select, release.query)
    answers = dict(release.answers)
    for name, expression in plan.computed.items():
        answers[name] = _computed(expression, plan.columns, release)
    values = {name: answer.values for name, answer in answers.items()}
    indices = list(range(len(release.keys)))
    if plan.having is not None:
        (kept,) = _evaluated([plan.having], plan.columns, release, values)
        indices = [i for i in indices if kept[i] is True]
    sorted_by = _evaluated(plan.order, plan.columns, release, values)
    for ordering, keys in reversed(list(zip(select.order_by, sorted_by, strict=True))):
        # Python's sort is stable, so that earlier orderings win.
        present = [i for i in indices if keys[i] is not None]
        absent = [i for i in indices if keys[i] is None]
        present.sort(key=keys.__getitem__, reverse=ordering.descending)
        indices = [*absent, *present] if ordering.nulls_first else [*present, *absent]
    indices = indices[select.offset :][: select.limit]
    return dataclasses.replace(
        release,
        groups=select.labels,
        keys=tuple(release.keys[i] for i in indices),
        answers={name: answers[name].picked(indices) for name in select.outputs},
        computed={name: expression.text for name, expression in plan.computed.items()},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Arrangement:
    """The expressions of a SELECT over the released table.

    columns: those of it by name, with the kinds that expressions over them count on.
    """

    columns: Mapping[str, Column]
    computed: Mapping[str, Expression]
    having: Expression | None
    order: Sequence[Expression]

    @classmethod
    def of(cls, select: Select, query: Query) -> _Arrangement:
        def read(part: str, clause: str, at: object, known: Any, kind: Kind | None) -> Expression:
            with placed(clause, select.text, at):
                return parse(part, columns=known, argument=clause, expect=kind)

        kinds = dict.fromkeys(select.outputs, Kind.NUMBER) | dict.fromkeys(select.labels, Kind.TEXT)
        kinds |= {s: g.column.kind for s, g in zip(select.shown, query.groups, strict=True)}
        order = (*select.labels, *select.outputs)
        columns = {name: Column(name, kinds[name]) for name in order}
        made = [item for item in select.items if isinstance(item, Computed)]
        inputs = {n: c for n, c in columns.items() if n not in {item.alias for item in made}}
        having = select.having
        return cls(
            columns=columns,
            computed={
                item.alias: read(item.expression, "SELECT", item.at, inputs, Kind.NUMBER)
                for item in made
            },
            having=None
            if having is None
            else read(having, "HAVING", select.having_at, columns, Kind.BOOLEAN),
            order=[
                read(one.expression, "ORDER BY", one.at, columns, None) for one in select.order_by
            ],
        )


_Values = Mapping[str, Sequence[Any]]


def _evaluated(
    expressions: Sequence[Expression],
    columns: Mapping[str, Column],
    release: Release,
    values: _Values,
) -> list[list[Any]]:
    """Expressions over the group columns and these values, which may repeat the lines."""
    from unacorda.query.engines.duckdb import evaluated

    keys = release.keys
    times = max(len(column) for column in values.values()) // max(len(keys), 1)
    groups = list(columns)[: len(release.groups)]
    every = {name: [key[i] for key in keys] * times for i, name in enumerate(groups)} | dict(values)
    used = {name for expression in expressions for name in expression.columns}
    used.add(next(iter(values)))  # so that there is a column, also for PI()
    return evaluated({n: (columns[n], every[n]) for n in every if n in used}, expressions)


def _computed(expression: Expression, columns: Mapping[str, Column], release: Release) -> Answer:
    """The values of a computed column with their errors; see the head of this file."""
    answers = release.answers
    base = {name: list(answers[name].values) for name in answers}
    variants: list[_Values] = [base]
    for name in answers:
        if name not in expression.columns:
            continue
        answer = answers[name]
        spread = list(zip(answer.values, answer.standard_errors, strict=True))
        up = [None if error is None else value + error for value, error in spread]
        down = [None if error is None else value - error for value, error in spread]
        variants += [base | {name: ends} for ends in (up, down, answer.lower, answer.upper)]
    stacked = {name: [v for variant in variants for v in variant[name]] for name in base}
    (found,) = _evaluated([expression], columns, release, stacked)
    lines = len(release.keys)
    values, *moved = (found[i * lines : (i + 1) * lines] for i in range(len(variants)))
    deviations: list[float | None] = []
    ends: list[tuple[float | None, float | None]] = []
    for line, value in enumerate(values):
        up, down, low, high = ([column[line] for column in moved[n::4]] for n in range(4))
        near, far = _pairs(value, up, down), _pairs(value, low, high)
        deviations.append(None if near is None else math.hypot(*((a - b) / 2 for a, b in near)))
        if far is None:
            ends.append((None, None))
        else:
            below = math.hypot(*(max(0.0, value - min(pair)) for pair in far))
            above = math.hypot(*(max(0.0, max(pair) - value) for pair in far))
            ends.append((value - below, value + above))
    lower, upper = ([end[side] for end in ends] for side in (0, 1))
    return Answer(values=values, standard_errors=deviations, lower=lower, upper=upper)


def _pairs(
    value: float | None, one: Sequence[float | None], other: Sequence[float | None]
) -> list[tuple[float, float]] | None:
    """The value where each input is moved one way and the other; None where one is undefined."""
    if any(x is None or not math.isfinite(x) for x in (value, *one, *other)):
        return None
    return list(zip(one, other, strict=True))  # type: ignore[arg-type]
