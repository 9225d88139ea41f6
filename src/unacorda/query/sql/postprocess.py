"""What a SELECT does with the released table: computed columns, HAVING, ORDER BY, LIMIT, OFFSET.

All of it is post-processing of released values and public keys: it reads no data and costs nothing.

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
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from sqlglot import exp

from unacorda.query.aggregates.base import Answer
from unacorda.query.aggregates.hierarchy import MARGIN
from unacorda.query.expressions.language import Column, Expression, Kind
from unacorda.query.expressions.parse import parse
from unacorda.query.plan.query import Query
from unacorda.query.results.release import Release
from unacorda.query.sql.aggregates import Item
from unacorda.query.sql.source import placed


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
    margins: Literal["rollup", "cube"] | None
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
    errors: list[float | None] = []
    ends: list[tuple[float | None, float | None]] = []
    for line, value in enumerate(values):
        up, down, low, high = ([column[line] for column in moved[n::4]] for n in range(4))
        near, far = _pairs(value, up, down), _pairs(value, low, high)
        errors.append(None if near is None else math.hypot(*((a - b) / 2 for a, b in near)))
        if far is None:
            ends.append((None, None))
        else:
            below = math.hypot(*(max(0.0, value - min(pair)) for pair in far))
            above = math.hypot(*(max(0.0, max(pair) - value) for pair in far))
            ends.append((value - below, value + above))
    lower, upper = ([end[side] for end in ends] for side in (0, 1))
    return Answer(values=values, standard_errors=errors, lower=lower, upper=upper)


def _pairs(
    value: float | None, one: Sequence[float | None], other: Sequence[float | None]
) -> list[tuple[float, float]] | None:
    """The value where each input is moved one way and the other; None where one is undefined."""
    if any(x is None or not math.isfinite(x) for x in (value, *one, *other)):
        return None
    return list(zip(one, other, strict=True))  # type: ignore[arg-type]
