"""Synthetic tables of a session: counts by the engine over bounded rows, of which none leaves it.

The engine bounds the rows once, with one salt for the whole release. Cells that are not public are
found first, of these rows: edges of bins as private quantiles, values of texts as private keys.
Then each row is written as the places of its cells, which are functions of that row and of what is
public or released by then; every count is of them. The whole budget is reserved before the engine
runs, and nothing is given back: a synthesis that dies stays spent.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from unacorda.accounting.charges import charge, request_price
from unacorda.bits import RandomBits
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.parameters import readable
from unacorda.privacy.events import Approximate, Event, ZeroConcentrated, compose
from unacorda.privacy.guarantees import GDP, ZCDP, ApproxDP, Guarantee
from unacorda.privacy.neighbors import AddRemove, Neighbors, ReplaceOne
from unacorda.query.aggregates.base import Exact
from unacorda.query.aggregates.linear import Linear, count
from unacorda.query.aggregates.measures import Measure, PresentCount
from unacorda.query.aggregates.quantile_tree import QuantileDraws
from unacorda.query.engines.compile import Statement, people_by_value
from unacorda.query.engines.dialects.statements import LAYER
from unacorda.query.engines.engine import Admitted, HeldRows, sql_of
from unacorda.query.execution import ExecutionContext, check_engine, salt_from
from unacorda.query.noise.additive import Sensitivity, of_counts
from unacorda.query.noise.selection import KeyRule, hits_of, key_rule
from unacorda.query.plan.query import Query
from unacorda.query.plan.synthesis import (
    PublicCells,
    SoughtBins,
    SoughtValues,
    Synthesis,
    place_sql,
)
from unacorda.query.results.simulation import Assume, check_assumption, rows_assumed
from unacorda.query.schema.table import TableSchema
from unacorda.query.schema.units import Reach
from unacorda.synthesis.charges import GaussianShares, Shares, shares_within
from unacorda.synthesis.domain import BinnedColumn, CategoryColumn, Domain
from unacorda.synthesis.forecast import SynthesisForecast, forecast
from unacorda.synthesis.junction_tree import Columns
from unacorda.synthesis.release import SyntheticTable, synthesize
from unacorda.synthesis.tables import CodedRows

_KEPT_CELLS: Final = 1 << 22
_ANY_KEYS: Final = 1 << 62
_CHANCE: Final = Fraction(95, 100)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowValues(Linear):
    """Values of bounded rows, which are counted in scans of their own; by itself a count."""

    tag: ClassVar[str] = "rowvalues"
    counts: ClassVar[bool] = True
    filter: ClassVar[None] = None

    columns: tuple[str, ...]

    def bound_to(self, scope: TableSchema) -> RowValues:
        """As it is: its expressions are known."""
        del scope
        return self

    def measures(self, values: Sequence[str]) -> tuple[Measure, ...]:
        """All rows are read."""
        del values
        return (PresentCount(),)

    def sensitivity(self, reach: Reach) -> Sensitivity:
        """That of a count of rows."""
        return of_counts(reach)


def synthesize_rows(
    context: ExecutionContext, asked: Synthesis[Query], *, budget: Guarantee
) -> SyntheticTable:
    """Synthesize the rows within a budget; raises as `Session.evaluate` does."""
    check_engine(context.admission.engine)
    salt = salt_from(context.bits)
    request_price(budget, context.budget)  # refuses a budget of another unit
    query = _valued(context.admission.check(asked.query), asked)
    spending = Spending.of(asked, query.reach, budget)
    admitted = context.admission.admit(query, salt=salt)
    _check(admitted, asked)
    reservation = context.reserve(
        spending.event,
        budget,
        cost=charge(spending.event, budget, context.budget),
        digest=_digest(query, asked),
        salt=salt,
        unit=query.unit,
    )
    reach = query.reach
    keep = bool(asked.sought) and admitted.engine.room > 0  # they are scanned more than once
    with closing(context.hold(admitted, reservation, keep=keep)) as held:
        columns = [
            one.column
            if isinstance(one, PublicCells)
            else _found(admitted, held, one, spending, context.bits)
            for one in asked.columns
        ]
        plan = asked.plan.over(columns)
        made = synthesize(
            _EngineCounts(held, plan.domain, _names(query, asked), keep=admitted.engine.room > 0),
            plan,
            budget=spending.rest,
            rows_per_unit=reach.rows,
            neighbors=_neighbors(reach),
            unit=str(query.unit),
            promise=budget,
            bits=context.bits,
            watch=asked.watch,
        )
    steps = compose([*spending.events, made.steps])
    return dataclasses.replace(made, event=spending.event, steps=steps)


def foresee(
    asked: Synthesis[Query], *, budget: Guarantee, assuming: Assume | None = None
) -> SynthesisForecast:
    """The noise of `synthesize_rows` with these arguments; raises as it does.

    assuming: of which the number of rows is used; a public table is synthesized itself, for the
    error, where all cells are public.
    """
    if assuming is not None:
        check_assumption(assuming)
    reach = asked.query.reach
    spending = Spending.of(asked, reach, budget)
    tried = assuming is not None and assuming.table is not None and not asked.sought
    assumed = None if assuming is None else assuming.rows
    noise = forecast(
        asked.plan,
        budget=spending.rest,
        rows_per_unit=reach.rows,
        neighbors=_neighbors(reach),
        assuming=_public_rows(asked, assuming) if assuming and tried else assumed,
    )
    found = {one.name: spending.words(one) for one in asked.sought}
    texts = {one.name for one in asked.sought if isinstance(one, SoughtValues)}
    cells = {name: count for name, count in noise.columns.items() if name not in texts}
    return dataclasses.replace(noise, columns=cells, found=found, event=spending.event)


def _public_rows(asked: Synthesis[Query], assuming: Assume) -> CodedRows:
    """The rows of an assumed table within the limits of a person, as the places of their cells."""
    ask, domain = partial(_valued, asked=asked), asked.plan.domain
    coded = _coded(domain.columns, _names(ask(asked.query), asked), rows="held")
    present = {f"n{a}": count(one.expression.text) for a, one in enumerate(asked.columns)}
    counted = asked.query.agg(**present)  # which reads all columns
    with rows_assumed(counted, assuming, ask=ask) as read:
        codes = np.array(read(coded), np.int64).reshape(-1, len(domain.columns))
    return CodedRows(codes, sizes=domain.sizes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """How a budget is shared. Nothing here depends on data.

    draws, rules: by column, how edges and values are found; rest: what is left for all else;
    event: of the whole.
    """

    draws: Mapping[str, QuantileDraws]
    rules: Mapping[str, KeyRule]
    rest: Guarantee
    event: Event

    @staticmethod
    def of(asked: Synthesis[Query], reach: Reach, budget: Guarantee) -> Spending:
        """Of a budget; InvalidParameter where it has no delta and texts need one."""
        texts = [one for one in asked.sought if isinstance(one, SoughtValues)]
        base, delta = _split_delta(budget, [one.name for one in texts])
        shares = shares_within(base)
        if not asked.sought:
            return Spending(draws={}, rules={}, rest=base, event=shares.event)
        total = asked.finding * shares.total
        each = shares.guarantee(total / len(asked.sought))
        draws, rules = {}, {}
        for one in asked.sought:
            if isinstance(one, SoughtBins):
                draws[one.name] = one.quantiles.noise(each, reach)
            else:
                keyed = Reach.within(max_rows=reach.rows, cells=_ANY_KEYS, replaced=reach.replaced)
                rules[one.name] = key_rule(
                    each, delta=delta / len(texts), hits=hits_of(keyed), replaced=keyed.replaced
                )
        event: Event = shares.event
        if texts:
            event = _with_delta(shares, delta)
        rest = shares.guarantee(shares.total - total)
        return Spending(draws=draws, rules=rules, rest=rest, event=event)

    @property
    def events(self) -> list[Event]:
        """What it costs to find the cells."""
        drawn = [one.event for one in self.draws.values()]
        return [*drawn, *(one.event for one in self.rules.values())]

    def words(self, column: SoughtBins | SoughtValues) -> str:
        """How the cells of a column are found."""
        if isinstance(column, SoughtBins):
            ranks = max(self.draws[column.name].deviations.values())
            return f"{column.bins} bins at most, the ranks of edges within {ranks:,.3g} rows"
        least = self.rules[column.name].people_for(_CHANCE)
        return f"values that {least:,} or more have, {column.most:,} at most"


def _with_delta(shares: Shares, delta: Fraction) -> Event:
    """The whole budget, with the delta that finds texts."""
    if isinstance(shares, GaussianShares):
        return compose([shares.event, Approximate(epsilon=0, delta=readable(delta))])
    return ZeroConcentrated(rho=readable(shares.total), delta=readable(delta))


def _split_delta(budget: Guarantee, texts: Sequence[str]) -> tuple[Guarantee, Fraction]:
    """The budget for all else, and the delta that finds texts."""
    delta = Fraction(0)
    match budget:
        case ApproxDP(epsilon=epsilon, delta=whole) if texts and 0 < whole < 1:
            delta = whole / 2
            return ApproxDP(epsilon, delta), delta
        case ZCDP(delta=delta) | GDP(delta=delta):
            budget = budget.with_additive([budget.additive[0], Fraction(0)])
        case _:
            pass
    if texts and not 0 < delta < 1:
        example = {ZCDP: "ZCDP(0.1, 1e-6)", GDP: "GDP(0.5, 1e-6)"}.get(type(budget))
        expected = f"one with a delta, as {example or 'ApproxDP(1, 1e-6)'}: the values of "
        expected += f"{', '.join(texts)} are found with it. "
        expected += f"Or list them, bins={{{texts[0]!r}: ['A', 'B']}}"
        raise InvalidParameter("budget", budget, expected=expected)
    return budget, delta


def _neighbors(reach: Reach) -> Neighbors:
    return ReplaceOne if reach.replaced else AddRemove


def _valued(query: Query, asked: Synthesis[Query]) -> Query:
    """The rows, each with its values."""
    values = RowValues(
        columns=tuple(one.expression.text for one in asked.columns),
        expressions=tuple(one.expression for one in asked.columns),
    )
    return dataclasses.replace(query, aggregates={}).agg(values=values)


def _names(query: Query, asked: Synthesis[Query]) -> list[str]:
    """Which of the bounded columns each value is."""
    names = {sql: f"v{place}" for place, sql in enumerate(query.inputs)}
    return [names[one.expression.sql] for one in asked.columns]


def _coded(
    columns: Sequence[CategoryColumn | BinnedColumn], names: Sequence[str], *, rows: str = "bounded"
) -> str:
    """SELECT of the places of the cells of each row."""
    places = [
        f"CAST({place_sql(column, name)} AS INTEGER) AS p{at}"
        for at, (column, name) in enumerate(zip(columns, names, strict=True))
    ]
    return f"SELECT {', '.join(places)} FROM {rows}"


def _counts(domain: Domain, columns: Columns, *, coded: str = "coded") -> str:
    """SELECT of the counts over some columns, a line for each cell that has rows."""
    place = "0"
    for a in columns:
        place = f"({place}) * {domain.sizes[a]} + CAST(p{a} AS BIGINT)"
    rows = f"SELECT {place} AS cell FROM {coded}"
    return f"SELECT cell, count(*)::VARCHAR AS a0 FROM ({rows}) AS {LAYER} GROUP BY cell"


def _check(admitted: Admitted, asked: Synthesis[Query]) -> None:
    """Raise UnsupportedConstruct where the engine lacks anything that it will be asked."""
    statement, unit = sql_of(admitted, admitted.engine, Statement), admitted.query.limited
    every = _names(admitted.query, asked)
    names = {one.name: name for one, name in zip(asked.columns, every, strict=True)}
    columns = [
        one.column if not isinstance(one, SoughtValues) else one.found(["a"])
        for one in asked.columns
    ]
    domain = Domain(columns=tuple(columns))
    coded = f"({_coded(columns, every)}) AS coded"
    sought = [
        one.quantiles.rankings((one.number(names[one.name]),))[0].sql(unit)
        if isinstance(one, SoughtBins)
        else people_by_value(names[one.name], unit, rows="bounded")
        for one in asked.sought
    ]
    counts = _counts(domain, tuple(range(len(columns)))[:2], coded=coded)
    admitted.engine.check(
        admitted.query, dataclasses.replace(statement, counts=counts, rankings=tuple(sought))
    )


def _found(
    admitted: Admitted,
    held: HeldRows,
    column: SoughtBins | SoughtValues,
    spending: Spending,
    bits: RandomBits,
) -> BinnedColumn | CategoryColumn:
    """The cells of a column, found privately."""
    query, unit = admitted.query, admitted.query.limited
    name = {sql: f"v{place}" for place, sql in enumerate(query.inputs)}[column.expression.sql]
    if isinstance(column, SoughtBins):
        quantiles = column.quantiles
        (ranking,) = quantiles.rankings((column.number(name),))
        counted = held.ranked(ranking, unit=unit)
        draws = spending.draws[column.name]
        found = quantiles.drawn(Exact(rankings=(counted,)), draws, bits)
        return column.found([one for (one,) in found])
    keyed = held.keyed(people_by_value(name, unit, rows="bounded"), value=name)
    places = spending.rules[column.name].named(keyed.people, most=column.most, bits=bits)
    values = [key for (key,) in keyed.keys(places.tolist())] if len(places) else []
    return column.found(sorted(values, key=lambda one: (one is None, one or "")))


class _EngineCounts:
    """Exact counts of the bounded rows by their cells."""

    def __init__(self, held: HeldRows, domain: Domain, names: Sequence[str], *, keep: bool) -> None:
        self._held, self._domain = held, domain
        self._kept: dict[Columns, NDArray[np.int64]] = {}
        coded = _coded(domain.columns, names)
        if keep:
            held.keep("coded", coded)
            held.forget("bounded")
        else:
            held.name("coded", coded)

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many cells each column has."""
        return self._domain.sizes

    def counts(self, columns: Columns) -> NDArray[np.int64]:
        """How many rows lie in each cell over the columns."""
        if columns in self._kept:
            return self._kept[columns]
        found = self._held.run(_counts(self._domain, columns), measures=1)
        shape = tuple(self.sizes[a] for a in columns)
        table = np.zeros(math.prod(shape), np.int64)
        table[found.cells] = np.array(found.sums[0], np.int64)
        if sum(kept.size for kept in self._kept.values()) + table.size < _KEPT_CELLS:
            self._kept[columns] = table.reshape(shape)
        return table.reshape(shape)


def _digest(query: Query, asked: Synthesis[Query]) -> str:
    """Of what is synthesized: a function of the question alone."""
    columns = [repr(one) for one in asked.columns]
    stated = {"rows": query.to_dict(), "columns": columns, "plan": repr(asked.plan)}
    stated["finding"] = str(asked.finding)
    return hashlib.sha256(json.dumps(stated).encode()).hexdigest()
