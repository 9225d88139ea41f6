"""A question tried out on public tables: what its limits would cut, beside its noise.

The limits are those on a person's rows, in all and on either side of a join, the parts of a text
that are taken, the parts of the people that one may be in, and the bounds of numbers.

The plan runs twice on tables that everybody may know, such as last year's published ones or
synthetic ones: as it is asked, and with limits and bounds so wide that they cut nothing of those
tables. The private tables are not touched.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from unacorda.bits import SeededBits
from unacorda.errors import InvalidParameter
from unacorda.privacy.guarantees import Guarantee, PureDP
from unacorda.query.aggregates.answers import Answer, Assume, Assumed
from unacorda.query.aggregates.base import Aggregate
from unacorda.query.aggregates.ratios import OfTwo
from unacorda.query.aggregates.top_k import Top
from unacorda.query.allocation import Allocation, allocate_together
from unacorda.query.engines.compile import compile_found, compile_query
from unacorda.query.engines.exact_counts import Given
from unacorda.query.engines.key_counts import with_found_keys
from unacorda.query.engines.public import PublicTables
from unacorda.query.plan.codec import decode
from unacorda.query.plan.partition import people_of
from unacorda.query.plan.query import Query
from unacorda.query.plan.relation import (
    MOST_PARTS,
    Explode,
    Matched,
    PeoplePart,
    Relation,
    SourceTable,
    Step,
    UnionAll,
)
from unacorda.query.results.assumptions import Supposed, are_tables, numbers_of, sources_of
from unacorda.query.results.record import question_of
from unacorda.query.schema.facts import Bounds, Fact, Key
from unacorda.query.schema.quoting import identifier
from unacorda.query.schema.table import plain_type
from unacorda.query.schema.units import Person, Reach, Unit

__all__ = [
    "ColumnTrial",
    "PublicRows",
    "Rehearsal",
    "asked_of",
    "assumed_of",
    "lifted",
    "rehearsed",
    "unclamped",
]

_FEW = 12  # lines that are shown one by one


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnTrial:
    """One column of answers, line by line.

    bounded: under the limits; free: without them; noise: the standard error, None if unknown.
    """

    bounded: tuple[float | None, ...]
    free: tuple[float | None, ...]
    noise: tuple[float | None, ...]

    @property
    def bias(self) -> tuple[float | None, ...]:
        """What the limits would do to the answers."""
        pairs = zip(self.bounded, self.free, strict=True)
        return tuple(None if x is None or y is None else x - y for x, y in pairs)

    @property
    def lines(self) -> tuple[tuple[float, float, float, float | None], ...]:
        """(bounded, free, bias, noise) of the lines that have numbers."""
        every = zip(self.bounded, self.free, self.noise, strict=True)
        return tuple((x, y, x - y, e) for x, y, e in every if x is not None and y is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """What a question would answer on public tables, with and without its limits.

    keys: what each line is about: its group, and the bin or the value of which it tells, where a
    group has several lines; trials: by column; assumed: by aggregate, what the tables say of the
    numbers that errors depend on.
    """

    keys: tuple[tuple[Key, ...], ...]
    trials: Mapping[str, ColumnTrial]
    assumed: Assumed

    def to_dict(self) -> dict[str, Any]:
        """All of it in plain values."""
        return {
            "keys": [[None if k is None else str(k) for k in key] for key in self.keys],
            "columns": {
                name: {
                    "bounded": list(trial.bounded),
                    "free": list(trial.free),
                    "bias": list(trial.bias),
                    "noise": list(trial.noise),
                }
                for name, trial in self.trials.items()
            },
        }

    @property
    def words(self) -> list[str]:
        """For people: each line where there are few, else the typical and the worst."""
        lines = ["What the limits would do, tried out on public tables"]
        for name, trial in self.trials.items():
            for key, x, y, bias, noise in zip(
                self.keys, trial.bounded, trial.free, trial.bias, trial.noise, strict=True
            ):
                if len(self.keys) <= _FEW and bias is not None:
                    about = ",".join(f" {'NULL' if k is None else k}" for k in key)
                    beside = "" if noise is None else f", beside noise of {noise:.4g}"
                    lines.append(f"  {name}{about}: {x:,.6g}, not {y:,.6g}: {bias:+.4g}{beside}")
            found = trial.lines
            if len(self.keys) > _FEW and found:
                worst = max(found, key=lambda line: abs(line[2]))
                mean = math.fsum(abs(bias) for _, _, bias, _ in found) / len(found)
                noises = sorted(noise for *_, noise in found if noise is not None)
                beside = f", beside noise of {noises[len(noises) // 2]:.4g}" if noises else ""
                lines.append(
                    f"  {name}: off by {mean:.4g} in the mean of {len(found):,} lines, by "
                    f"{worst[2]:+.4g} at most{beside}"
                )
        return lines if len(lines) > 1 else [*lines, "  there is nothing to compare"]


_ALL_ROWS = 1_000_000  # of a person: no limit may be more


class PublicRows:
    """The rows of a question on public tables. unit: by default one that bounds no one."""

    def __init__(self, query: Query, tables: PublicTables, *, unit: Unit | None = None) -> None:
        self.query, self.tables = query, tables
        own = query.unit
        self.ids = len(own.id) if isinstance(own, Person) else 0
        if unit is None and isinstance(own, Person):
            own = _unbound_person(own, _ALL_ROWS)
        self.statement = compile_query(query, unit=unit or own, scan=tables.scan, salt=0)

    def read(self, select: str) -> list[tuple[Any, ...]]:
        """A SELECT over `held`."""
        return self.tables.rows(select, keys=self.statement.keys, held=self.statement.bounded)

    def count(self) -> int:
        """How many rows there are."""
        ((found,),) = self.read("SELECT count(*) FROM held")
        return int(found)

    def per_person(self) -> list[int]:
        """How many rows each person has."""
        names = ", ".join(f"u{place}" for place in range(self.ids))
        return [n for (n,) in self.read(f"SELECT count(*) FROM held GROUP BY {names}")]

    def ends(self, sql: str) -> tuple[float, float] | None:
        """The least and the greatest finite value of an aggregated expression."""
        value = f"v{self.query.inputs.index(sql)}::DOUBLE"
        ((low, high),) = self.read(f"SELECT min(x), max(x) FROM {_finite(value)}")
        return None if low is None else (low, high)


def asked_of(query: Query, tables: PublicTables) -> Query:
    """The same question about tables with the same columns, whatever types they have.

    Raises InvalidParameter where a table lacks a column, or it is of a type that does not fit.
    """
    stated = query.to_dict()
    for table, columns in _columns_of(stated):
        types = tables.types(table)
        lacking = [name for name in columns if name not in types]
        if lacking:
            raise InvalidParameter(
                "assuming",
                f"a table {table!r} with the columns {', '.join(types)}",
                expected=f"one with the columns of the question; it lacks {', '.join(lacking)}",
            )
        for name, column in columns.items():
            column["type"] = plain_type(types[name])
    return _made(stated)


def lifted(query: Query, tables: PublicTables) -> tuple[Query, Unit]:
    """The question with limits and bounds that cut nothing, and the unit with such limits."""
    wide = _made(_undeclared(query, tables), unbound=True)
    held = PublicRows(wide, tables)
    unit: Unit = query.unit
    if isinstance(unit, Person):
        most = max(held.per_person(), default=1)
        unit = _unbound_person(unit, min(most, _ALL_ROWS))
    aggregates = {name: _widened(wide, name, held) for name in query.asked}
    free = dataclasses.replace(wide, unit=unit, aggregates={}, asked={})
    return free.agg(**aggregates), unit


def unclamped(query: Query, tables: PublicTables) -> Query:
    """The question with its limits, whose expressions see values before declared bounds cut them.

    The bounds of its aggregates stay.
    """
    return _made(_undeclared(query, tables))


def _undeclared(query: Query, tables: PublicTables) -> dict[str, Any]:
    """The question in plain values, with declared bounds so wide that they cut nothing."""
    stated = query.to_dict()
    declared: dict[str, list[tuple[dict[str, Any], str]]] = {}
    for table, columns in _columns_of(stated):
        for name, column in columns.items():
            fact = column.get("fact")
            if isinstance(decode(fact, Fact | None, at="fact"), Bounds):
                declared.setdefault(name, []).append((column["fact"], tables.scan(table)))
    for name, found in declared.items():
        # Tables that are put together have one range: so are the bounds declared.
        value = f"TRY_CAST({identifier(name)} AS DOUBLE)"
        every = " UNION ALL ".join(f"SELECT x FROM {_finite(value, scan)}" for _, scan in found)
        ((low, high),) = tables.rows(f"SELECT min(x), max(x) FROM ({every})")
        for fact, _ in found if low is not None else ():
            fact |= {"lower": min(low, fact["lower"]), "upper": max(high, fact["upper"])}
    return stated


def _columns_of(stated: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each table of a question in plain values, with its columns."""
    if "table" in stated:
        yield stated["table"], stated["columns"]
    for side in stated.get("of", ()):
        yield from _columns_of(side)
    for step in stated["steps"]:
        if "lookup" in step:
            yield step["lookup"], step["columns"]


def _made(stated: Mapping[str, Any], *, unbound: bool = False) -> Query:
    """The question that is stated; parts hold the people of all its tables.

    unbound: without limits before those of the unit.
    """
    query = question_of(stated)
    rows = _unbound(query.rows) if unbound else query.rows
    bases: dict[str, Relation] = {}
    for base in rows.bases:
        assert isinstance(base.source, SourceTable)
        bases.setdefault(base.source.name, _begun(base))
    return dataclasses.replace(query, rows=_peopled(rows, list(bases.values())))


def _peopled(rows: Relation, bases: list[Relation]) -> Relation:
    """The same rows, of which every part knows the people of these tables."""
    if isinstance(rows.source, Matched | UnionAll):
        left, right = (_peopled(side, bases) for side in rows.sides)
        return dataclasses.replace(rows, source=_over(rows.source, left, right))
    if not any(isinstance(step, PeoplePart) for step in rows.steps):
        return rows
    steps: list[Step] = []
    for place, step in enumerate(rows.steps):
        if isinstance(step, PeoplePart):
            members = []
            for base in bases:
                if len(base.steps) > place and isinstance(same := base.steps[place], PeoplePart):
                    before = dataclasses.replace(base, steps=base.steps[:place])
                    members.append((_peopled(before, bases), same.column))
            types = people_of([member for member, _ in members])
            steps.append(dataclasses.replace(step, members=tuple(members), types=types))
        else:
            steps.append(step)
    return dataclasses.replace(rows, steps=tuple(steps))


def _begun(base: Relation) -> Relation:
    """The rows of a table with the parts that they begin with."""
    assert isinstance(base.source, SourceTable)
    parts = tuple(itertools.takewhile(lambda step: isinstance(step, PeoplePart), base.steps))
    return Relation(source=base.source, scope=base.source.scope, steps=parts)


def _unbound(rows: Relation) -> Relation:
    """The same rows, none of which is left out or cut."""
    source = rows.source
    if isinstance(source, Matched | UnionAll):
        source = _over(source, *(_unbound(side) for side in rows.sides))
    if isinstance(source, Matched):
        source = dataclasses.replace(source, max_rows=(_ALL_ROWS, _ALL_ROWS))
    steps: list[Step] = []
    for step in rows.steps:
        match step:
            case Explode():
                steps.append(dataclasses.replace(step, most=MOST_PARTS))
            case PeoplePart(keys=keys):
                steps.append(dataclasses.replace(step, max_parts=len(keys)))
            case _:
                steps.append(step)
    return dataclasses.replace(rows, source=source, steps=tuple(steps))


def _over(source: Matched | UnionAll, left: Relation, right: Relation) -> Matched | UnionAll:
    return dataclasses.replace(source, left=left, right=right)


def _widened(query: Query, name: str, held: PublicRows) -> Aggregate:
    """An aggregate as it was asked, with bounds that cut nothing, of all values there are."""
    asked, bound = query.asked[name], query.aggregates[name]
    if isinstance(asked, Top) and isinstance(bound, Top):
        return dataclasses.replace(asked, size=bound.integers)
    ends = [held.ends(x.sql) if x.kind.numeric else None for x in bound.expressions]
    if isinstance(asked, OfTwo):
        sides = zip(asked.sides, bound.sides if isinstance(bound, OfTwo) else (), ends, strict=True)
        return dataclasses.replace(
            asked, sides=tuple(_wider(side, known, end) for side, known, end in sides)
        )
    if ends and hasattr(asked, "lower") and hasattr(asked, "upper"):
        asked = _wider(asked, bound, ends[0])
    return asked


def _wider(asked: Any, bound: Any, ends: tuple[float, float] | None) -> Any:
    """The same with a range that holds its own and these ends."""
    if ends is None:
        return asked
    low, high = map(Fraction, ends)
    lower, upper = getattr(bound, "lower", None), getattr(bound, "upper", None)
    if lower is not None and upper is not None:
        low, high = min(low, lower), max(high, upper)
    return dataclasses.replace(asked, lower=low, upper=high if low < high else low + 1)


def _unbound_person(unit: Person, rows: int) -> Person:
    """The same people, with so many rows and no other limit; parts are drawn as they were."""
    return Person(unit.id, max_rows=rows, neighbors=unit.neighbors, hash=unit.hash)


def _finite(value: str, scan: str = "held") -> str:
    return f"(SELECT {value} AS x FROM {scan} WHERE isfinite({value}))"


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
    lines = _LineMatch(asked.lines, wide.lines)
    trials: dict[str, ColumnTrial] = {}
    labels: list[Key] = []
    for name, aggregate in asked.aggregates.items():
        forecast = aggregate.forecast(allocation.noises[name], allocation.reach, assumed[name])
        for column in (f"{name}{part}" for part in aggregate.parts):
            own, other = limited[column], free[column]
            labels, places = lines.labels(own), lines.matched(own, other)
            errors = noisy[column].standard_errors
            trials[column] = ColumnTrial(
                bounded=_numbers(own.values),
                free=_numbers([None if at is None else other.values[at] for at in places]),
                noise=tuple(forecast.standard_error if e is None else e for e in errors),
            )
            if lines.moved(own, other):  # the ends of bins were found, and are not the same
                trials[f"{column}_to"] = ColumnTrial(
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
    before, kept = PublicRows(query, tables), PublicRows(query, tables, unit=unit)
    per_person = (before.per_person() or None) if before.ids else None
    share = kept.count() / before.count() if per_person is not None else None
    # What bounds cut is seen in values that they have not cut yet.
    raw = unclamped(query, tables)
    uncut = PublicRows(raw, tables, unit=unit)
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
    given = Given.of(query, tables.run(statement))
    for name, aggregate in query.aggregates.items():
        exact = given.exact(name)
        found = aggregate.answers(exact, aggregate.noise(_SILENT, reach), bits)
        silent |= {f"{name}{part}": answer for part, answer in found.items()}
        if allocation is not None:
            found = aggregate.answers(exact, allocation.noises[name], bits)
            noisy |= {f"{name}{part}": answer for part, answer in found.items()}
    return silent, noisy


@dataclasses.dataclass(frozen=True, slots=True)
class _LineMatch:
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
        """For each line the place of what is about the same without limits."""
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
