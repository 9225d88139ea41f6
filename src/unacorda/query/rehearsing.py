"""A question tried out on public tables: what its limits would cut, beside its noise.

The plan runs twice on tables that everybody may know, such as last year's published ones or
synthetic ones: as it is asked, and with limits and bounds so wide that they cut nothing of those
tables. The private tables are not touched.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from contextlib import closing
from fractions import Fraction
from typing import Any

from unacorda.bits import SeededBits
from unacorda.privacy.guarantees import Guarantee, PureDP
from unacorda.query.aggregates.aggregate import Aggregate
from unacorda.query.aggregates.answers import Answer, Assume
from unacorda.query.allocation import Allocation, allocate_together
from unacorda.query.engines.compile import compile_found, compile_query
from unacorda.query.engines.exact_counts import Given
from unacorda.query.engines.key_counts import with_found_keys
from unacorda.query.engines.public import PublicTables
from unacorda.query.lifted import Held, asked_of, lifted, unclamped
from unacorda.query.plan.query import Query
from unacorda.query.rehearsal import Rehearsal, Trial
from unacorda.query.schema.facts import Key
from unacorda.query.schema.units import Reach, Unit
from unacorda.query.supposed import Assumed, Supposed, are_tables, numbers_of, sources_of

__all__ = ["assumed_of", "rehearsed"]

_SILENT = PureDP(10**6)  # noise far below what one row adds
_SAMPLE = 5_000


def rehearsed(query: Query, allocation: Allocation, assuming: Supposed) -> Rehearsal:
    """Try a question out on public tables; allocation: its noise.

    Raises InvalidParameter where a table is lacking, or a column that the question reads, or one
    has a type that it can not be asked of, and SourceUnreadable.
    """
    with closing(PublicTables(sources_of(query, assuming))) as tables:
        asked = _with_all_keys(asked_of(query, tables), allocation, tables)
        unit = _limited(query, asked)
        if not asked.keys:
            return Rehearsal(keys=(), trials={}, assumed=dict.fromkeys(query.aggregates))
        assumed = _assumed(asked, unit, tables)
        limited, noisy = _answers(asked, unit, tables, allocation)
        wide, free_unit = lifted(asked, tables)
        free, _ = _answers(wide, free_unit, tables, None)
    lines = _Lines(asked.lines, wide.lines)
    trials: dict[str, Trial] = {}
    labels: list[Key] = []
    for name, aggregate in asked.aggregates.items():
        forecast = aggregate.forecast(allocation.noises[name], allocation.reach, assumed[name])
        for column in (f"{name}{part}" for part in aggregate.parts):
            own, other = limited[column], free[column]
            labels, places = lines.labels(own), lines.matched(own, other)
            errors = noisy[column].standard_errors
            trials[column] = Trial(
                bounded=_numbers(own.values),
                free=_numbers([None if at is None else other.values[at] for at in places]),
                noise=tuple(forecast.standard_error if e is None else e for e in errors),
            )
            if lines.moved(own, other):  # the ends of bins were found, and are not the same
                trials[f"{column}_to"] = Trial(
                    bounded=_numbers(own.beside["to"]),
                    free=_numbers(other.beside["to"]),
                    noise=(None,) * len(places),
                )
    keys = asked.released_keys
    if labels:
        keys = tuple((*keys[at // asked.lines], label) for at, label in enumerate(labels))
    return Rehearsal(keys=keys, trials=trials, assumed=assumed)


def assumed_of(
    queries: Sequence[Query], assuming: Supposed | None, *, account: Guarantee
) -> list[Assumed]:
    """By question, what is supposed of the numbers that each aggregate's error depends on.

    account: keys that are private are supposed to be those which all of it would find in public
    tables. Raises as `rehearsed` does.
    """
    if not are_tables(assuming):
        numbers = numbers_of(assuming)
        return [dict.fromkeys(query.aggregates, numbers) for query in queries]
    found: list[Assumed] = []
    for query in queries:
        with closing(PublicTables(sources_of(query, assuming))) as tables:
            asked = asked_of(query, tables)
            if asked.private is not None:
                (allocation,) = allocate_together([query], account, weights=[Fraction(1)])
                asked = _with_all_keys(asked, allocation, tables)
            known: Assumed = dict.fromkeys(query.aggregates)
            found.append(_assumed(asked, _limited(query, asked), tables) if asked.keys else known)
    return found


def _with_all_keys(query: Query, allocation: Allocation, tables: PublicTables) -> Query:
    """The question with private keys as they would be found in public tables."""
    if query.private is None:
        return query
    assert allocation.rule is not None
    found = compile_found(query, unit=query.limited, scan=tables.scan, salt=0, narrow=True)
    with closing(tables.find(found)) as held:
        return with_found_keys(query, held, rule=allocation.rule, bits=SeededBits(0))[0]


def _limited(query: Query, asked: Query) -> Unit:
    """The unit with all its limits; asked: the same question with all its keys."""
    return asked.limited if query.private is None else query.limited


def _assumed(query: Query, unit: Unit, tables: PublicTables) -> dict[str, Assume | None]:
    """What public tables say of the rows that would count, and of rows per person before that."""
    before, kept = Held(query, tables), Held(query, tables, unit=unit)
    per_person = (before.per_person() or None) if before.ids else None
    share = kept.count() / before.count() if per_person is not None else None
    # What bounds cut is seen in values that they have not cut yet.
    raw = unclamped(query, tables)
    uncut = Held(raw, tables, unit=unit)
    found: dict[str, Assume | None] = {}
    for name, aggregate in query.aggregates.items():
        columns = _numbers_of(query, aggregate)
        ((rows,),) = kept.read(f"SELECT count(*) FROM held WHERE {_present(columns)}")
        if rows == 0:
            found[name] = None
            continue
        theirs = _numbers_of(raw, raw.aggregates[name])
        sample = (
            uncut.read(
                f"SELECT {', '.join(theirs.values())} FROM held WHERE {_present(theirs)} "
                f"ORDER BY hash(held) LIMIT {_SAMPLE}"
            )
            if columns
            else []
        )
        values = map(list, zip(*sample, strict=True))
        found[name] = Assume(
            rows=max(1, round(rows / len(query.keys))),
            values=dict(zip(columns, values, strict=True)),
            rows_per_person=per_person,
            rows_kept=share,
        )
    return found


def _numbers_of(query: Query, aggregate: Aggregate) -> dict[str, str]:
    """SQL over `held` of the numbers that an aggregate's error depends on, by their names."""
    return {
        label: f"v{query.inputs.index(expression.sql)}::DOUBLE"
        for label, expression in zip(aggregate.assumes, aggregate.expressions, strict=False)
    }


def _present(columns: Mapping[str, str]) -> str:
    return " AND ".join(f"isfinite({value})" for value in columns.values()) or "true"


def _answers(
    query: Query, unit: Unit, tables: PublicTables, allocation: Allocation | None
) -> tuple[dict[str, Answer], dict[str, Answer]]:
    """The answers almost without noise, and those with it."""
    statement = compile_query(query, unit=unit, scan=tables.scan, salt=0)
    reach, bits = Reach.of(unit, cells=query.cells), SeededBits(0)
    silent: dict[str, Answer] = {}
    noisy: dict[str, Answer] = {}
    with closing(tables.run(statement)) as tallies:
        given = Given.of(query, tallies)
        for name, aggregate in query.aggregates.items():
            exact = given.exact(name)
            found = aggregate.answers(exact, aggregate.noise(_SILENT, reach), bits)
            silent |= {f"{name}{part}": answer for part, answer in found.items()}
            if allocation is not None:
                found = aggregate.answers(exact, allocation.noises[name], bits)
                noisy |= {f"{name}{part}": answer for part, answer in found.items()}
    return silent, noisy


@dataclasses.dataclass(frozen=True, slots=True)
class _Lines:
    """How many lines a cell has in the answer, and in the one without limits."""

    own: int
    free: int

    @property
    def single(self) -> bool:
        """Whether a line is all that there is of a cell."""
        return self.own == self.free == 1

    def labels(self, answer: Answer) -> list[Key]:
        """What each line of a cell is of: a value, a bin between edges, or the number of a bin."""
        if self.single:
            return []
        named = answer.beside.get("value")
        if named is not None:
            return list(named)
        ends = zip(answer.beside["from"], answer.beside["to"], strict=True)
        return [_between(low, high) for low, high in ends]

    def matched(self, answer: Answer, other: Answer) -> list[int | None]:
        """For each line the place of what is told of the same without limits."""
        if self.single or self.moved(answer, other):
            return list(range(len(answer.values)))
        theirs = self._lines(other)
        places = {(at // self.free, line): at for at, line in enumerate(theirs)}
        own = enumerate(self._lines(answer))
        return [places.get((at // self.own, line)) for at, line in own]

    def moved(self, answer: Answer, other: Answer) -> bool:
        """Whether lines are of bins whose edges differ."""
        if self.single or "value" in answer.beside:
            return False
        return self._lines(answer) != self._lines(other)

    @staticmethod
    def _lines(answer: Answer) -> list[tuple[Any, ...]]:
        return list(zip(*answer.beside.values(), strict=True))


def _between(low: float | None, high: float | None) -> str:
    if low is None:
        return f"below {high:g}"
    return f"above {low:g}" if high is None else f"{low:g} to {high:g}"


def _numbers(values: Sequence[Any]) -> tuple[float | None, ...]:
    return tuple(float(v) if isinstance(v, int | float) else None for v in values)
