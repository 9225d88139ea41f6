"""Synthetic tables that are asked for: columns, and the public cells that their values fall into.

The cells of a column are public, or how to find them is: edges are then found as private quantiles
next to edges of equal width, and the values of a text as private keys. How many cells come of that
at most is public before anything is read, so that every table that counts has few enough.

**Mixed edges.** Quantiles alone leave wide outer bins, which spoil means; equal widths alone put
most rows into few bins, which spoils all else. So three fourths of the inner edges are quantiles,
and one fourth cuts the public range into equal parts. Edges of whole numbers and of dates are
whole, so that no bin is without a value.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import datetime as dt
import itertools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final, Generic, TypeAlias, TypeVar

import numpy as np

from unacorda import checks
from unacorda.checks import Number, demand
from unacorda.errors import InvalidParameter
from unacorda.query.aggregates.base import expression_of
from unacorda.query.aggregates.grid import bisection
from unacorda.query.aggregates.histograms import place_among
from unacorda.query.aggregates.quantiles import Quantiles
from unacorda.query.expressions.language import (
    Expression,
    Kind,
    Literal,
    Name,
    Node,
    Operation,
    Written,
    double,
    literal,
    text_of,
    written,
)
from unacorda.query.expressions.reader import meaning
from unacorda.query.noise.selection import PrivateKeys
from unacorda.query.schema.keys import Key, check_keys
from unacorda.query.schema.table import Categories, Dates, TableSchema, Text
from unacorda.synthesis.domain import BinnedColumn, CategoryColumn, Domain
from unacorda.synthesis.plan import Condition, SynthesisPlan

Cells: TypeAlias = int | Sequence[float] | Sequence[Key] | PrivateKeys
"""Of a column: edges of its bins, or how many to find; the values of a text, or `private_keys()`.
"""

_MOST_BINS: Final = 10_000
_MOST_VALUES: Final = 10_000  # of a text that are found
_MOST_QUANTILES: Final = 99
_OTHER: Final = "other"
_FIRST: Final = "DATE '0001-01-01'"


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicCells:
    """A column whose cells are public. expression: the value of a row."""

    expression: Expression
    column: CategoryColumn | BinnedColumn

    @property
    def name(self) -> str:
        """Of the column."""
        return self.column.name


@dataclass(frozen=True, slots=True, kw_only=True)
class SoughtBins:
    """A column of numbers or dates, whose edges are found: at most `bins` bins.

    lower, upper: the public range; of dates as days.
    """

    expression: Expression
    name: str
    bins: int
    lower: Fraction
    upper: Fraction
    whole: bool
    dates: bool

    @property
    def column(self) -> BinnedColumn:
        """As many bins, of equal width: what is known beforehand."""
        return self._binned(np.linspace(float(self.lower), float(self.upper), self.bins + 1)[1:-1])

    @property
    def quantiles(self) -> Quantiles:
        """The quantiles that are edges."""
        count = min(self.bins - 1 - self._even, _MOST_QUANTILES)
        return Quantiles(
            column=self.name,
            wanted=tuple(Fraction(place, count + 1) for place in range(1, count + 1)),
            interval=Fraction(0),
            lower=self.lower,
            upper=self.upper,
            resolution=Fraction(1) if self.whole else None,
            expressions=(self.expression,),
        )

    def number(self, value: str) -> str:
        """SQL of the number that a value is in the range."""
        if not self.dates:
            return value
        return f"(CAST(date_diff('day', {_FIRST}, {value}) AS DOUBLE) + 1e0)"

    def found(self, quantiles: Sequence[float]) -> BinnedColumn:
        """The bins of some quantiles, and edges of equal width.

        A number that several quantiles fall on has a bin of its own.

        >>> from unacorda.query.expressions.language import Column
        >>> from unacorda.query.expressions.parse import parse
        >>> age = parse("age", columns={"age": Column("age", Kind.INTEGER, 0, 120)})
        >>> ends = {"lower": Fraction(0), "upper": Fraction(120)}
        >>> sought = SoughtBins(expression=age, name="age", bins=6, **ends, whole=True, dates=False)
        >>> sought.found([18, 30, 30, 45]).edges
        (0.0, 18.0, 30.0, 31.0, 45.0, 60.0, 120.0)
        """
        low, high = float(self.lower), float(self.upper)
        count = self.bins - 1 - self._even
        # Where they are fewer than asked for, what lies between two is cut evenly.
        at = np.linspace(0, len(quantiles) + 1, count + 2)[1:-1]
        inner = np.interp(at, np.arange(len(quantiles) + 2), [low, *quantiles, high])
        inner = np.rint(inner) if self.whole else inner
        even = np.linspace(low, high, self._even + 2)[1:-1]
        once, times = np.unique(inner, return_counts=True)
        after = np.diff([*once, high])[times > 1]
        beyond = once[times > 1] + (1 if self.whole else after / 100)
        return self._binned(np.concatenate([inner, beyond, even]))

    @property
    def _even(self) -> int:
        """How many edges are of equal width."""
        return round((self.bins - 1) / 4)

    def _binned(self, inner: Any) -> BinnedColumn:
        low, high = float(self.lower), float(self.upper)
        edges = np.unique(np.clip([low, *inner, high], low, high))
        if self.whole:
            edges = np.unique(np.rint(edges))
        else:
            edges[1:-1] = [
                _short(edge, min(after - edge, edge - before))
                for before, edge, after in zip(edges, edges[1:], edges[2:], strict=False)
            ]
        return BinnedColumn(
            name=self.name,
            edges=tuple(np.unique(edges).tolist()),
            whole=self.whole,
            missing=True,
            dates=self.dates,
        )


def _short(edge: float, gap: float) -> float:
    """A number with few digits within a hundredth of a gap."""
    return round(float(edge), 2 - math.floor(math.log10(gap)))


@dataclass(frozen=True, slots=True, kw_only=True)
class SoughtValues:
    """A column of text, whose values are found as private keys: at most `most`."""

    expression: Expression
    name: str
    most: int

    @property
    def column(self) -> CategoryColumn:
        """A stand-in of as many values, of which none is known."""
        return CategoryColumn(name=self.name, values=tuple(range(self.most)), other=_OTHER)

    def found(self, values: Sequence[Key]) -> CategoryColumn:
        """The cells of some values: where there are none, all values have one."""
        if not values:
            return CategoryColumn(name=self.name, values=(_OTHER,), other=None)
        return _listed(self.name, tuple(values))


ColumnCells: TypeAlias = PublicCells | SoughtBins | SoughtValues


def place_sql(column: CategoryColumn | BinnedColumn, value: str) -> str:
    """SQL of the place of a value's cell, the same in every engine.

    >>> age = BinnedColumn(name="age", edges=(0, 18, 65, 120), whole=True, missing=True)
    >>> print(place_sql(age, "v0"))
    CASE WHEN v0 IS NULL THEN 3 ELSE CASE WHEN v0 < 65.0e0 THEN CASE WHEN v0 < 18.0e0 THEN 0 \
ELSE 1 END ELSE 2 END END
    """
    if isinstance(column, BinnedColumn):
        bins = len(column.edges) - 1

        def below(place: int) -> str:
            edge = column.edges[place + 1]
            day = column.dates and literal(dt.date.fromordinal(int(edge)))
            return f"{value} < {day or double(edge)}"

        missing, found = bins, bisection(0, bins - 1, before=below, leaf=str)
        return f"CASE WHEN {value} IS NULL THEN {missing if column.missing else 0} ELSE {found} END"
    return _listed_place(column, value)


def _listed_place(column: CategoryColumn, value: str) -> str:
    places = {label: place for place, label in enumerate(column.values)}
    missing = places.pop(None, None)
    rest = column.size - 1 if column.other is not None else missing or 0
    ordered: list[Any] = sorted(places)  # texts by code point, here and in engines
    listed = [(literal(one), places[one]) for one in ordered]
    found = place_among(value, listed, otherwise=rest) if listed else str(rest)
    nothing = rest if missing is None else missing
    return f"CASE WHEN {value} IS NULL THEN {nothing} ELSE {found} END"


Q = TypeVar("Q")


@dataclass(frozen=True, slots=True, kw_only=True)
class Synthesis(Generic[Q]):
    """A synthetic table that is asked for: `session.evaluate(synthesis, budget=...)` makes it.

    Made by `session.table(...).synthesize(...)`.
    query: the rows; columns: of the table, each with the cells of its values; choices: of
    `SynthesisPlan`; finding: the share of the budget that finds cells which are not public; watch:
    called after each round.
    """

    query: Q
    columns: tuple[ColumnCells, ...]
    choices: Mapping[str, Any]
    finding: Fraction
    watch: Callable[[Any], None] | None = field(default=None, compare=False, repr=False)

    @property
    def sought(self) -> tuple[SoughtBins | SoughtValues, ...]:
        """The columns whose cells are found."""
        return tuple(one for one in self.columns if not isinstance(one, PublicCells))

    @property
    def plan(self) -> SynthesisPlan:
        """The public decisions, with stand-ins for the columns that are sought."""
        domain = Domain(columns=tuple(one.column for one in self.columns))
        never = [
            read_condition(one, domain) if isinstance(one, str) else one
            for one in self.choices.get("never", ())
        ]
        return SynthesisPlan(domain=domain, **{**self.choices, "never": never})


def synthesis_of(
    query: Q,
    scope: TableSchema,
    *,
    columns: Sequence[Written],
    bins: Mapping[str, Cells],
    finding: Number,
    watch: Callable[[Any], None] | None,
    choices: Mapping[str, Any],
) -> Synthesis[Q]:
    """The synthesis of some columns; raises InvalidParameter as `Query.synthesize` does."""
    several = isinstance(columns, list | tuple) and len(columns) > 0
    demand(several, "columns", columns, expected="a list of columns or expressions")
    names = [written(one) for one in columns]
    demand(isinstance(bins, Mapping), "bins", bins, expected="a mapping of columns to cells")
    unknown = [name for name in bins if name not in names]
    demand(not unknown, "bins", unknown, expected="synthesized columns")
    share = checks.exact("finding", finding)
    demand(0 < share < 1, "finding", finding, expected="a share of the budget, such as 0.1")
    never = choices.get("never", ())
    listed = isinstance(never, list | tuple)
    demand(listed, "never", never, expected="a list of conditions, such as [\"sex = 'M'\"]")
    found = Synthesis(
        query=query,
        columns=tuple(_cells_of(scope, name, bins.get(name)) for name in names),
        choices=dict(choices),
        finding=share,
        watch=watch,
    )
    found = _with_most(found)
    _check_never(found)
    return found


def _with_most(asked: Synthesis[Q]) -> Synthesis[Q]:
    """The same; of texts that are sought, as many values as the tables of the workload have room.

    It is a function of public numbers, so that nothing that is found is too much.
    """
    texts = {place for place, one in enumerate(asked.columns) if isinstance(one, SoughtValues)}
    if not texts:
        return asked
    plan = asked.plan  # refuses what does not fit with a single value
    most = _MOST_VALUES
    for table in plan.tables:
        count = len(texts & set(table))
        others = math.prod(plan.domain.sizes[a] for a in table if a not in texts)
        if count:
            room = plan.max_cells // others
            cells = round(room ** (1 / count)) + 1
            while cells**count > room:
                cells -= 1
            most = min(most, cells - 1)
    columns = tuple(
        dataclasses.replace(one, most=most) if isinstance(one, SoughtValues) else one
        for one in asked.columns
    )
    return dataclasses.replace(asked, columns=columns)


def _check_never(asked: Synthesis[Any]) -> None:
    """Raise InvalidParameter for conditions on cells that are not known yet."""
    plan = asked.plan
    sought = {one.name: one for one in asked.sought}
    for condition in plan.never:
        for name, wanted in condition.items():
            labels = wanted if isinstance(wanted, list | tuple | set | frozenset) else [wanted]
            known = isinstance(sought.get(name), SoughtBins) and all(x is None for x in labels)
            expected = f"conditions on cells that are public: of {name!r} they are found, but for "
            expected += f"NULL of numbers. Write bins={{{name!r}: [...]}}"
            demand(name not in sought or known, "never", condition, expected=expected)


def _cells_of(scope: TableSchema, name: str, cells: Any) -> ColumnCells:
    """The cells of a column, or how they are found."""
    fact = scope.facts.get(scope.resolve(name, argument="columns")) if name in scope else None
    if cells is None and isinstance(fact, Categories):
        kind = Kind.of(next((value for value in fact.values if value is not None), ""))
        expression = expression_of(name, scope, kind=kind, argument="columns")
        return PublicCells(expression=expression, column=_listed(name, fact.values))
    if isinstance(cells, PrivateKeys) or (cells is None and isinstance(fact, Text)):
        plain = cells is None or cells == PrivateKeys()
        expected = "private_keys() without choices of its own: all columns share finding="
        demand(plain, "bins", cells, expected=expected)
        expression = expression_of(name, scope, kind=Kind.TEXT, argument="columns")
        return SoughtValues(expression=expression, name=name, most=1)
    if _is_date(scope, name, cells, fact):
        expression = expression_of(name, scope, kind=Kind.DATE, argument="columns")
        return _dates(name, expression, cells, fact)
    if texts := _texts(cells):
        expression = expression_of(name, scope, kind=Kind.TEXT, argument="columns")
        return PublicCells(expression=expression, column=_listed(name, check_keys("bins", texts)))
    kinds = _kinds(scope, name)
    if kinds == {Kind.BOOLEAN}:
        expression = expression_of(name, scope, kind=Kind.BOOLEAN, argument="columns")
        column = CategoryColumn(name=name, values=(False, True, None), other=None)
        return PublicCells(expression=expression, column=column)
    untyped = len(kinds) > 1 and cells is None  # text that numbers could be read of
    if untyped or not any(kind.numeric for kind in kinds):
        raise InvalidParameter(
            "columns",
            name,
            expected="a column whose cells are public, or can be found",
            hint=f"columns={{{name!r}: unacorda.Categories([...])}}, unacorda.Bounds(...), "
            f"unacorda.Dates() or unacorda.Text(), or write bins={{{name!r}: [...]}}: edges, or "
            "the values of a text, or unacorda.private_keys()",
            column=name,
        )
    return _numbers(name, expression_of(name, scope, argument="columns"), cells)


def _kinds(scope: TableSchema, name: str) -> set[Kind]:
    """What the values of a column can be read as."""
    if name in scope:
        return {one.kind for one in scope.column(name, argument="columns")}
    return {expression_of(name, scope, kind=None, argument="columns").kind}


def _texts(cells: Any) -> list[Any]:
    """The cells, where they are a list of texts, NULL among them."""
    if cells is None or not isinstance(cells, Sequence) or isinstance(cells, str):
        return []
    texts = [one for one in cells if isinstance(one, str) or one is None]
    return texts if len(texts) == len(cells) else []


def _is_date(scope: TableSchema, name: str, cells: Any, fact: object) -> bool:
    """Whether a column holds dates, or is text that the cells say to be dates."""
    listed = isinstance(cells, Sequence) and not isinstance(cells, str) and len(cells) > 0
    given = listed and all(isinstance(one, dt.date) for one in cells)
    return isinstance(fact, Dates) or given or _kinds(scope, name) == {Kind.DATE}


def _dates(name: str, expression: Expression, cells: Any, fact: object) -> ColumnCells:
    """Bins of dates: edges that are given, or a number of bins within the declared range."""
    expected = f"edges that increase, bins={{{name!r}: ['2024-01-01', '2024-07-01']}}, or how "
    expected += f"many bins where columns={{{name!r}: unacorda.Dates('2024-01-01', '2024-12-31')}}"
    count = _count(cells)
    if count is None:
        edges = _days(cells)
        increase = len(edges) > 1 and all(a < b for a, b in itertools.pairwise(edges))
        demand(increase, "bins", cells, expected=expected)
        column = BinnedColumn(name=name, edges=tuple(edges), missing=True, dates=True)
        return PublicCells(expression=expression, column=column)
    ends = _days([fact.first, fact.last]) if isinstance(fact, Dates) and fact.first else []
    demand(ends and 1 <= count <= _MOST_BINS, "bins", {name: cells}, expected=expected)
    return _sought(name, expression, count, (Fraction(ends[0]), Fraction(ends[1])), dates=True)


def _days(cells: Any) -> list[int]:
    """Dates, or texts of dates, as days; none where any is no date."""
    try:
        read = [dt.date.fromisoformat(one) if isinstance(one, str) else one for one in cells]
        return [one.toordinal() for one in read]
    except (TypeError, ValueError, AttributeError):
        return []


def _numbers(name: str, number: Expression, cells: Any) -> ColumnCells:
    """Bins of numbers: edges that are given, or a number of bins within the public range."""
    whole = number.kind is Kind.INTEGER
    expected = "the edges of bins, or how many to find for a column with Bounds: "
    expected += f"bins={{{name!r}: [0, 18, 65, 120]}}"
    count = _count(cells)
    if count is None:
        demand(cells is not None, "bins", None, expected=expected)
        column = BinnedColumn(name=name, edges=cells, whole=whole, missing=True)
        return PublicCells(expression=number, column=column)
    lower, upper = number.lower, number.upper
    fits = math.isfinite(lower) and math.isfinite(upper) and 1 <= count <= _MOST_BINS
    if fits and whole:
        lower, upper = math.floor(lower), math.ceil(upper)
    demand(fits and lower < upper, "bins", {name: cells}, expected=expected)
    ends = Fraction(lower), Fraction(upper)
    return _sought(name, number, count, ends, whole=whole)


def _sought(
    name: str,
    expression: Expression,
    count: int,
    ends: tuple[Fraction, Fraction],
    *,
    whole: bool = True,
    dates: bool = False,
) -> ColumnCells:
    """Bins to be found, or those of single whole numbers where they are no more."""
    lower, upper = ends
    if whole:
        count = min(count, int(upper - lower))
    found = SoughtBins(
        expression=expression,
        name=name,
        bins=count,
        lower=lower,
        upper=upper,
        whole=whole,
        dates=dates,
    )
    if found.bins == 1 or (whole and found.bins == upper - lower):
        return PublicCells(expression=expression, column=found.column)
    return found


def _count(cells: Any) -> int | None:
    """A number of bins; None for what is none."""
    if isinstance(cells, bool):
        return None
    try:
        return operator.index(cells)
    except TypeError:
        return None


def _listed(name: str, values: tuple[Key, ...]) -> CategoryColumn:
    other = _OTHER
    while other in values:
        other = f"({other})"
    return CategoryColumn(name=name, values=values, other=other)


# ---- conditions that no synthetic row meets, as they are written: sex = 'M' AND pregnant --------

_FORM: Final = "conditions on single columns joined by AND, such as sex = 'M' AND pregnant"
_TURNED: Final = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}


def read_condition(text: str, domain: Domain) -> Condition:
    """By column, the cells of the rows that a text names; InvalidParameter where they are none.

    >>> sex = CategoryColumn(name="sex", values=("F", "M"), other=None)
    >>> age = BinnedColumn(name="age", edges=(0, 18, 65, 120), whole=True)
    >>> read_condition("sex <> 'F' AND age < 18", Domain(columns=(sex, age)))
    {'sex': ['M'], 'age': ['[0, 18)']}
    """
    found: dict[str, list[Any]] = {}
    for part in _conjuncts(meaning(text)):
        column, labels = _condition_cells(part, text, domain)
        kept = found.get(column.name, list(column.labels))
        found[column.name] = [label for label in kept if label in labels]
    for name, labels in found.items():
        if not labels:
            expected = f"conditions on {name!r} that one row can meet"
            raise InvalidParameter("never", text, expected=expected)
    return found


def _conjuncts(node: Node) -> list[Node]:
    match node:
        case Operation("AND", operands):
            return [part for one in operands for part in _conjuncts(one)]
        case _:
            return [node]


def _condition_cells(
    node: Node, text: str, domain: Domain
) -> tuple[CategoryColumn | BinnedColumn, list[Any]]:
    """The column of a condition, and the labels of the cells that meet it."""
    whole = _column_of(node, domain)
    if whole is not None:  # a column of conditions, or one of booleans
        return whole, _labels_of(whole, [True], text)
    match node:
        case Operation("NOT", (Operation("IS NULL", (one,)),)):
            column = _known(one, text, domain)
            return column, [label for label in column.labels if label is not None]
        case Operation("NOT", (one,)):
            column = _known(one, text, domain)
            return column, _labels_of(column, [False], text)
        case Operation("IS NULL", (one,)):
            column = _known(one, text, domain)
            return column, _labels_of(column, [None], text)
        case Operation("=" | "IN", (one, *others)):
            column = _known(one, text, domain)
            return column, _labels_of(column, [_value_of(other, text) for other in others], text)
        case Operation("<>" | "!=", (one, Literal(value))):
            column = _known(one, text, domain)
            rest = {*_labels_of(column, [value], text), None}
            return column, [label for label in column.labels if label not in rest]
        case Operation(("<" | "<=" | ">" | ">=") as sign, (Literal(value), one)):
            return _ordered(one, _TURNED[sign], value, text, domain)
        case Operation(("<" | "<=" | ">" | ">=") as sign, (one, Literal(value))):
            return _ordered(one, sign, value, text, domain)
        case _:
            raise InvalidParameter("never", text, expected=_FORM)


def _ordered(
    node: Node, sign: str, value: Any, text: str, domain: Domain
) -> tuple[BinnedColumn, list[Any]]:
    """The bins below an edge, or those above it."""
    column = _known(node, text, domain)
    if isinstance(column, BinnedColumn) and column.dates:
        (value,) = _days([value]) or [value]
    if not isinstance(column, BinnedColumn) or not isinstance(value, int | float):
        expected = f"a column of numbers or dates, and one of them; not {column.name}"
        raise InvalidParameter("never", text, expected=expected)
    if column.whole and sign in {"<=", ">"}:
        sign, value = {"<=": "<", ">": ">="}[sign], value + 1
    edges = column.edges
    if sign not in {"<", ">="} or value not in edges[1:-1]:
        starts = [str(label)[1:].partition(",")[0] for label in column.labels[1:11]]
        inner = ", ".join(starts[: len(edges) - 2]) or "there is none"
        expected = f"whole bins: {column.name} < EDGE or {column.name} >= EDGE, one of {inner}"
        raise InvalidParameter("never", text, expected=expected)
    pairs = zip(column.labels, itertools.pairwise(edges), strict=False)
    return column, [label for label, (low, _) in pairs if (low >= value) is (sign == ">=")]


def _labels_of(column: CategoryColumn | BinnedColumn, values: list[Any], text: str) -> list[Any]:
    for value in values:
        if not any(label == value and type(label) is type(value) for label in column.labels):
            known = ", ".join("NULL" if one is None else str(one) for one in column.labels[:10])
            expected = f"of {column.name} one of {known}"
            if isinstance(column, BinnedColumn) and value is not None:
                expected = f"whole bins of {column.name}, with < or >= and one of their edges"
            raise InvalidParameter("never", text, expected=expected)
    return values


def _value_of(node: Node, text: str) -> Any:
    match node:
        case Literal(value) if value is not None:  # nothing equals NULL
            return value
        case _:
            raise InvalidParameter("never", text, expected=_FORM)


def _known(node: Node, text: str, domain: Domain) -> CategoryColumn | BinnedColumn:
    column = _column_of(node, domain)
    if column is None:
        names = ", ".join(domain.names[:20])
        raise InvalidParameter("never", text, expected=f"{_FORM}; of the columns {names}")
    return column


def _column_of(node: Node, domain: Domain) -> CategoryColumn | BinnedColumn | None:
    """The synthesized column that a condition is or names, whatever its capitals."""
    for column in domain.columns:
        match node:
            case Name(name) if name.casefold() == column.name.casefold():
                return column
            case Operation() if _same(column.name, node):
                return column
    return None


def _same(name: str, node: Node) -> bool:
    try:
        return text_of(meaning(name)) == text_of(node)
    except InvalidParameter:  # a name that is no expression
        return False
