"""A question tried out on a public table: what its limits would cut, beside its noise.

The plan runs twice on a table that everybody may know, such as last year's published one or a
synthetic one: as it is asked, and with limits and bounds so wide that they cut nothing of that
table. The private table is not touched.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tacet.bits import SeededBits
from tacet.errors import InvalidParameter
from tacet.privacy.guarantees import PureDP
from tacet.query.aggregates.aggregate import Aggregate
from tacet.query.aggregates.answers import Answer, Assume
from tacet.query.aggregates.pairs import OfTwo
from tacet.query.allocation import Allocation
from tacet.query.columns import Bounds, Key
from tacet.query.compile import compile_query
from tacet.query.counting import begun, finished, first_statement
from tacet.query.engines.public import PublicTable
from tacet.query.engines.sources import Csv, is_table
from tacet.query.exact import exact_of
from tacet.query.plan import Query
from tacet.query.replay import question_of
from tacet.query.scope import plain_type
from tacet.query.sqltext import identifier
from tacet.query.units import Person, Reach, Unit

__all__ = ["Rehearsal", "Supposed", "Trial", "numbers_of", "rehearsed"]

Supposed = Assume | Csv | str | os.PathLike[str] | Any
"""What may be supposed of the data: numbers, or a public table with columns of the same names."""

_SILENT = PureDP(10**6)  # noise far below what one row adds
_ALL_ROWS = 1_000_000  # of a person: no limit may be more
_SAMPLE = 5_000
_FEW = 12  # cells that are told one by one


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
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
    """What a question would answer on a public table, with and without its limits.

    keys: what each line is about; trials: by column; assume: what the table says of the numbers
    that errors depend on, None where no rows are left.
    """

    keys: tuple[tuple[Key, ...], ...]
    trials: Mapping[str, Trial]
    assume: Assume | None

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
        lines = ["What the limits would do, tried out on the public table"]
        for name, trial in self.trials.items():
            for key, x, y, bias, noise in zip(
                self.keys, trial.bounded, trial.free, trial.bias, trial.noise, strict=True
            ):
                if len(self.keys) <= _FEW and bias is not None:
                    about = "".join(f" {'NULL' if k is None else k}," for k in key).rstrip(",")
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


def numbers_of(assuming: Supposed | None) -> Assume | None:
    """What is supposed without a table."""
    found: Any = assuming
    return None if is_table(assuming) else found  # which is checked where it is used


def rehearsed(query: Query, allocation: Allocation, source: object) -> Rehearsal:
    """Try a question out on a public table; allocation: its noise.

    Raises InvalidParameter where the question is about several tables, or the table lacks a column
    that it reads, or has one of a type that it can not be asked of, and SourceUnreadable.
    """
    with closing(PublicTable(source, name=query.table)) as table:
        asked = _asked_of(query, table)
        if asked.private is not None:
            asked = _with_found_keys(asked, allocation, table)
        if not asked.keys:
            return Rehearsal(keys=(), trials={}, assume=None)
        unit = asked.limited if query.private is None else query.limited
        held = _Held(asked, table)
        limited, noisy = _answers(asked, unit, table, allocation)
        free, _ = _answers(*_unlimited(asked, table), table, None)
        assume = held.assume()
    trials = {}
    for name, aggregate in asked.aggregates.items():
        forecast = aggregate.forecast(allocation.noises[name], allocation.reach, assume)
        for column in (f"{name}{part}" for part in aggregate.parts if aggregate.lines == 1):
            errors = noisy[column].standard_errors
            trials[column] = Trial(
                bounded=_numbers(limited[column].values),
                free=_numbers(free[column].values),
                noise=tuple(forecast.standard_error if e is None else e for e in errors),
            )
    return Rehearsal(keys=asked.released_keys, trials=trials, assume=assume)


class _Held:
    """The rows of a question on a public table before anyone is bound."""

    def __init__(self, query: Query, table: PublicTable) -> None:
        self.query, self.table = query, table
        unit = query.unit
        self.ids = len(unit.id) if isinstance(unit, Person) else 0
        if isinstance(unit, Person):
            unit = Person(unit.id, max_rows=_ALL_ROWS, neighbors=unit.neighbors)
        self.statement = compile_query(query, unit=unit, scan=table.engine.scan, salt=0)

    def read(self, select: str) -> list[tuple[Any, ...]]:
        """A SELECT over `held`."""
        return self.table.rows(select, keys=self.statement.keys, held=self.statement.bounded)

    def per_person(self) -> list[int]:
        """How many rows each person has."""
        names = ", ".join(f"u{place}" for place in range(self.ids))
        return [n for (n,) in self.read(f"SELECT count(*) FROM held GROUP BY {names}")]

    def ends(self, sql: str) -> tuple[float, float] | None:
        """The least and the greatest finite value of an aggregated expression."""
        value = f"v{self.query.inputs.index(sql)}::DOUBLE"
        ((low, high),) = self.read(f"SELECT min(x), max(x) FROM {_finite(value)}")
        return None if low is None else (low, high)

    def assume(self) -> Assume | None:
        """What the table says of rows, values and rows per person."""
        ((rows,),) = self.read("SELECT count(*) FROM held")
        if rows == 0:
            return None
        columns = {
            name: f"v{self.query.inputs.index(expression.sql)}::DOUBLE"
            for aggregate in self.query.aggregates.values()
            for name, expression in zip(aggregate.assumes, aggregate.expressions, strict=False)
        }
        present = " AND ".join(f"isfinite({value})" for value in columns.values())
        sample = (
            self.read(
                f"SELECT {', '.join(columns.values())} FROM held WHERE {present} "
                f"ORDER BY hash(held) LIMIT {_SAMPLE}"
            )
            if columns
            else []
        )
        return Assume(
            rows=max(1, round(rows / max(1, len(self.query.keys)))),
            values=dict(zip(columns, map(list, zip(*sample, strict=True)), strict=True))
            if sample
            else {},
            rows_per_person=self.per_person() if self.ids else None,
        )


def _asked_of(query: Query, table: PublicTable) -> Query:
    """The same question about a table with the same columns, whatever types they have."""
    stated = query.to_dict()
    types = table.types
    if "columns" not in stated or any("lookup" in step for step in stated["steps"]):
        raise InvalidParameter(
            "assuming", "a table", expected="tacet.Assume(...) for rows of several tables"
        )
    lacking = [name for name in stated["columns"] if name not in types]
    if lacking:
        raise InvalidParameter(
            "assuming",
            f"a table with the columns {', '.join(types)}",
            expected=f"one with the columns of the question; it lacks {', '.join(lacking)}",
        )
    for name, column in stated["columns"].items():
        column["type"] = plain_type(types[name])
    return question_of(stated)


def _with_found_keys(query: Query, allocation: Allocation, table: PublicTable) -> Query:
    """The question with keys as they would be found in the public table."""
    first = first_statement(table.engine, query, salt=0)
    with closing(begun(table.engine, query, first)) as held:
        return finished(query, held, rule=allocation.rule, bits=SeededBits(0))[0]


def _unlimited(query: Query, table: PublicTable) -> tuple[Query, Unit]:
    """The question with bounds that cut nothing, and the unit with such limits."""
    stated = query.to_dict()
    for name, column in stated["columns"].items():
        fact = query.scope.facts.get(name)
        if isinstance(fact, Bounds):
            value = f"TRY_CAST({identifier(name)} AS DOUBLE)"
            ((low, high),) = table.rows(f"SELECT min(x), max(x) FROM {_finite(value, table.scan)}")
            if low is not None:
                column["fact"] |= {"lower": min(low, fact.lower), "upper": max(high, fact.upper)}
    unit: Unit = query.unit
    wide = question_of(stated)
    held = _Held(wide, table)
    if isinstance(unit, Person):
        most = max(held.per_person(), default=1)
        unit = Person(unit.id, max_rows=min(most, _ALL_ROWS), neighbors=unit.neighbors)
    aggregates = {name: _widened(wide, name, held) for name in query.asked}
    free = dataclasses.replace(wide, unit=unit, aggregates={}, asked={})
    return free.agg(**aggregates), unit


def _widened(query: Query, name: str, held: _Held) -> Aggregate:
    """An aggregate as it was asked, with bounds that cut nothing."""
    asked, bound = query.asked[name], query.aggregates[name]
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


def _answers(
    query: Query, unit: Unit, table: PublicTable, allocation: Allocation | None
) -> tuple[dict[str, Answer], dict[str, Answer]]:
    """The answers almost without noise, and those with it, of aggregates with a line a cell."""
    statement = compile_query(query, unit=unit, scan=table.engine.scan, salt=0)
    reach, bits = Reach.of(unit, cells=query.cells), SeededBits(0)
    silent: dict[str, Answer] = {}
    noisy: dict[str, Answer] = {}
    with closing(table.engine.run(statement, measures=len(query.measures))) as tallies:
        for name, aggregate in query.aggregates.items():
            if aggregate.lines != 1:
                continue
            exact = exact_of(query, name, tallies)
            found = aggregate.answers(exact, aggregate.noise(_SILENT, reach), bits)
            silent |= {f"{name}{part}": answer for part, answer in found.items()}
            if allocation is not None:
                found = aggregate.answers(exact, allocation.noises[name], bits)
                noisy |= {f"{name}{part}": answer for part, answer in found.items()}
    return silent, noisy


def _finite(value: str, scan: str = "held") -> str:
    return f"(SELECT {value} AS x FROM {scan} WHERE isfinite({value}))"


def _numbers(values: Sequence[Any]) -> tuple[float | None, ...]:
    return tuple(float(v) if isinstance(v, int | float) else None for v in values)
