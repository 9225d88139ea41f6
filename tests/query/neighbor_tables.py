"""Thousands of small nasty tables and a neighbor of each, and what a release adds noise to.

All small tables lie in one wide table, told apart by the column `pair`; their neighbors lie in
another. People's ids are different in different pairs and the same on both sides, so that one
question, grouped by `pair`, asks every small table at once under the same salt.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from tests.query.neighbor_cuts import counts_of, cut_losses
from tests.support.seams import (
    AdditiveNoise,
    Aggregate,
    AutomaticSum,
    BinCounts,
    BoundedMean,
    BoundedQuantile,
    BoundedSum,
    BoundedVariance,
    ClampingSearch,
    Correlation,
    Count,
    CountDistinct,
    CountIf,
    CountPeople,
    Covariance,
    EqualBins,
    Exact,
    Extreme,
    FoundBins,
    FoundBounds,
    Person,
    Proportion,
    QuantileDraws,
    Quantiles,
    QuartileRange,
    Query,
    Ratio,
    RowsKept,
    RowsPerPerson,
    Selection,
    Session,
    SqlContext,
    Statement,
    TableSchema,
    Tallies,
    ThresholdSearch,
    Top,
    VectorSum,
    WeightedMean,
    compile_query,
    correlation,
    covariance,
    exact_of,
    rank_error,
    ranks,
    ratio,
    vector_sum,
    weighted_mean,
)

import unacorda
from unacorda.bits import SeededBits
from unacorda.mechanisms.selection.exponential import Exponential
from unacorda.privacy.neighbors import Neighbors, ReplaceOne

__all__ = [
    "AGGREGATES",
    "DERIVED",
    "PIPELINES",
    "Limits",
    "Pairs",
    "Recorder",
    "make_pairs",
    "vectors",
]

AGGREGATES: Mapping[type, Mapping[str, Callable[[], Aggregate]]] = {
    Count: {
        "rows": unacorda.count,
        "present": lambda: unacorda.count("x"),
        "notes": lambda: unacorda.count("note"),
        "conditions": lambda: unacorda.count("CASE WHEN whole > 2 THEN 1 END"),
    },
    CountPeople: {
        "people": unacorda.count_people,
        "people_with_note": lambda: unacorda.count_people("note"),
        "people_who": lambda: unacorda.count_people("CASE WHEN whole > 2 THEN 1 END"),
    },
    CountIf: {
        "if_large": lambda: unacorda.count_if("x > 2"),
        "if_text": lambda: unacorda.count_if("note IN ('z', '3') OR x IS NULL"),
    },
    Proportion: {
        "share_large": lambda: unacorda.proportion("x > 2"),
        "share_text": lambda: unacorda.proportion("note <> 'z'"),
    },
    BoundedVariance: {
        "variance_from_zero": lambda: unacorda.variance("x", 0, 10),
        "variance_no_dyadic": lambda: unacorda.variance("x", "-1/3", 0.7, ddof=0),
        "variance_far_off": lambda: unacorda.variance("x", 2**40, 2**40 + 1),
        "variance_huge": lambda: unacorda.variance("x", -(10**100), 10**99),
        "variance_text": lambda: unacorda.variance("note", -2, 3),
        "stdev_whole": lambda: unacorda.stdev("whole", -4, 9),
    },
    Covariance: {
        "covariance": lambda: covariance("x", "whole", (0, 10), (-4, 9)),
        "covariance_text": lambda: covariance("note", "x", (-2, 3), ("-1/3", 0.7), ddof=0),
        "covariance_huge": lambda: covariance("x", "x", (-(10**100), 10**99), (2**40, 2**40 + 1)),
    },
    Correlation: {
        "correlation": lambda: correlation("x", "whole", (0, 10), (-4, 9)),
        "correlation_text": lambda: correlation("note", "x", (-2, 3), ("-1/3", 0.7)),
    },
    WeightedMean: {
        "weighted": lambda: weighted_mean("x", "whole", (-3, 10), (0, 9)),
        "weighted_text": lambda: weighted_mean("note", "x", ("-1/3", 0.7), (2, 3)),
    },
    VectorSum: {
        "vectors": lambda: vector_sum(["x", "whole"], norm=3),
        "vectors_of_one": lambda: vector_sum(["note"], norm="1/3"),
        "vectors_huge": lambda: vector_sum(["x", "-x", "whole"], norm=10**90),
    },
    Ratio: {
        "ratio": lambda: ratio("x", "whole", (0, 10), (0, 9)),
        "ratio_signed": lambda: ratio("x", "note", (-(10**99), 10**100), (1, 3)),
        "ratio_below_zero": lambda: ratio("whole", "x", (-4, -1), (0, "1e-100")),
    },
    BoundedSum: {
        "sum_from_zero": lambda: unacorda.sum("x", 0, 10),
        "sum_across_zero": lambda: unacorda.sum("x", -3, 10),
        "sum_below_zero": lambda: unacorda.sum("x", -10, -2),
        "sum_no_dyadic": lambda: unacorda.sum("x", "-1/3", 0.7),
        "sum_huge": lambda: unacorda.sum("x", -(10**99), 10**100),
        "sum_tiny": lambda: unacorda.sum("x", 0, "1e-100"),
        "sum_whole": lambda: unacorda.sum("whole", -4, 9),
        "sum_whole_in_parts": lambda: unacorda.sum("whole", -0.25, 2.5),
        "sum_text": lambda: unacorda.sum("note", -2, 3),
        "sum_expression": lambda: unacorda.sum("x * whole - 1", -5, 1),
    },
    AutomaticSum: {
        "total": lambda: unacorda.sum("x"),
        "total_whole": lambda: unacorda.sum("whole"),
        "total_text": lambda: unacorda.sum("note"),
        "total_positive": lambda: unacorda.sum("CASE WHEN x > 0 THEN x END"),
        "total_expression": lambda: unacorda.sum("x * whole - 1"),
    },
    FoundBounds: {
        "bounds": lambda: unacorda.find_bounds("x"),
        "bounds_whole": lambda: unacorda.find_bounds("whole"),
        "bounds_text": lambda: unacorda.find_bounds("note"),
    },
    RowsKept: {"kept": unacorda.rows_kept},
    RowsPerPerson: {"rows_each": lambda: RowsPerPerson(most=5)},
    BoundedMean: {
        "mean_from_zero": lambda: unacorda.mean("x", 0, 10),
        "mean_across_zero": lambda: unacorda.mean("x", -3, 10),
        "mean_no_dyadic": lambda: unacorda.mean("x", "0.1", "0.7"),
        "mean_huge": lambda: unacorda.mean("x", -(10**100), 10**99),
        "mean_whole": lambda: unacorda.mean("whole", -4, 9),
        "mean_text": lambda: unacorda.mean("note", -2, 3),
    },
    BoundedQuantile: {
        "median": lambda: unacorda.median("x", -10, 10, resolution=2.5),
        "low": lambda: unacorda.quantile("x", 0.1, 0, 10, resolution=2, interval=0.5),
        "third": lambda: unacorda.quantile("whole", "1/3", -4, 9, resolution=1, interval=0.9),
        "high": lambda: unacorda.quantile("note", 0.97, -2, 3, resolution=5, interval=0.3),
        "least": lambda: unacorda.quantile("x", 0, -10, 10, resolution=5, interval=0.5),
        "most": lambda: unacorda.quantile("x", 1, -10, 10, resolution=5, interval=0.5),
    },
    Quantiles: {
        "quartiles": lambda: unacorda.quantiles("x", [0.25, 0.5, 0.75], -10, 10, resolution=2.5),
        "tails": lambda: unacorda.quantiles("whole", [0.05, 0.1, 0.95], -4, 9, resolution=1),
        "close": lambda: unacorda.quantiles("note", [0.5, 0.51], -2, 3, resolution=1),
        "one": lambda: unacorda.quantiles("x", ["1/3"], 0, 10, resolution=2),
        "ends": lambda: unacorda.quantiles("x", [0, 0.4, 1], -10, 10, resolution=5),
    },
    QuartileRange: {"iqr": lambda: unacorda.iqr("x", -10, 10, resolution=2.5)},
    BinCounts: {
        "bins": lambda: unacorda.histogram("x", [-3, 0, 0.1, 3, 10]),
        "bins_whole": lambda: unacorda.histogram("whole", [1, 2]),
    },
    EqualBins: {
        "found_bins": lambda: unacorda.histogram("x", bins=3, lower=-10, upper=10, resolution=2.5)
    },
    CountDistinct: {
        "distinct": lambda: unacorda.count_distinct("x"),
        "distinct_notes": lambda: unacorda.count_distinct("note"),
    },
    Top: {"top_notes": lambda: unacorda.top("note", 2, ["z", "", "abc", "-2", "none"])},
    Extreme: {
        "greatest": lambda: unacorda.max("x", -10, 10, resolution=2.5),
        "least_of": lambda: unacorda.min("x", 0, 10, resolution=2),
        "greatest_whole": lambda: unacorda.max("whole", -4, 9, resolution=1),
        "least_text": lambda: unacorda.min("note", -2, 3, resolution="5/3"),
    },
}
"""For every aggregate there is, the questions its sensitivity is tested on."""

PIPELINES: Mapping[str, Callable[[Query], Query]] = {
    "plain": lambda query: query,
    "where": lambda query: query.where("x > -2 OR whole IS NULL OR note = 'z'"),
    "derive": lambda query: query.derive(z="x * 2 - whole").where("z < 8 OR z IS NULL"),
}

DERIVED: Mapping[str, Callable[[], Aggregate]] = {
    "sum_derived": lambda: unacorda.sum("z", -5, 5),
    "mean_derived": lambda: unacorda.mean("z", 0, 5),
    "median_derived": lambda: unacorda.median("z", -5, 5, resolution="5/3"),
}

REGIONS = ("a", "b", None)  # the public keys; rows of other regions are left out

_NUMBERS = (
    *(None, math.nan, math.inf, -math.inf, -0.0, 0.0, 5e-324, -5e-324, 1e308, -1e308),
    *(0.1, 0.7, 1 / 3, -1 / 3, 1.0, 1.5, 2.5, -2.5, 3.0, 3.0, 3.0, 7.0, 9.999999999999998, 10.0),
    *(1e-100, -3.0, -10.0, 1e16, 0.30000000000000004),
)
_WHOLES = (None, 0, 1, 1, 2, 3, 5, 9, -1, -4, -5, 2**53 + 1, -(2**63), 2**63 - 1)
_TEXTS = (
    None,
    "",
    "z",
    "abc",
    "nan",
    "inf",
    "-inf",
    "1e999",
    " 2 ",
    "3",
    "3.0",
    "-2",
    "1,5",
    "0x1",
)

Line = dict[str, Any]
Limits = Mapping[str, Any]
"""The arguments of `Person` that bound her rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """Small tables and their neighbors. gone: the ids, by pair, of those who differ."""

    count: int
    tables: Mapping[str, pa.Table]
    ids: tuple[str, ...]
    gone: frozenset[tuple[Any, ...]]


def make_pairs(
    *, count: int, ids: str, neighbors: Neighbors, rows: bool, text: bool, seed: int
) -> Pairs:
    """Random small tables.

    ids: 'integer', 'float', 'text' or 'two'. rows: neighbors differ in one row, else in one
    person. text: all columns are text, as in a CSV file.
    """
    source = random.Random(seed)
    left: list[Line] = []
    right: list[Line] = []
    gone: set[tuple[Any, ...]] = set()
    names = ("who", "part") if ids == "two" else ("who",)
    for pair in range(count):
        table = [
            line
            for local in range(source.randint(1, 5))
            for line in _person(source, pair, _identity(source, ids, pair, local))
        ][:40]
        source.shuffle(table)
        victim = source.choice(table)
        key = _key(victim, names)
        gone.add(key)
        kept = [line for line in table if line is not victim]
        if not rows:
            kept = [line for line in table if _key(line, names) != key]
        if neighbors is ReplaceOne:
            fresh = {n: victim[n] for n in ("who", "part")}
            if source.random() < 0.5:
                fresh = _identity(source, ids, pair, 9)
            newcomer = _person(source, pair, fresh)
            gone.add(_key(newcomer[0], names))
            kept += newcomer[:1] if rows else newcomer
            source.shuffle(kept)
        left += table
        right += kept
    tables = {"left": _arrow(left, ids, text=text), "right": _arrow(right, ids, text=text)}
    written = frozenset(_as_engine(key, ids, text=text) for key in gone)
    return Pairs(count=count, tables=tables, ids=names, gone=written)


def _identity(source: random.Random, ids: str, pair: int, local: int) -> Line:
    number = pair * 10 + local
    missing = source.random() < 0.08
    match ids:
        case "integer":
            who: Any = number - 5
        case "float":
            who = source.choice([float(number), float(number), number + 0.5, -0.0 + number])
            who = math.nan if source.random() < 0.05 else who
        case _:
            who = source.choice([f"{number}", f" {number}", f"é{number}'", f"{number}\n"])
    part = None if source.random() < 0.08 else source.choice(["", "L", "l"])
    return {"who": None if missing else who, "part": part}


def _person(source: random.Random, pair: int, identity: Line) -> list[Line]:
    owned = source.choice([1, 1, 2, 3, 5, 12])
    extreme = source.choice([None, None, None, (1e308, 9, "3"), (-1e308, -4, "-2"), (10.0, 5, "z")])
    home = source.choice([None, "a", "b", "other", "any"])
    lines: list[Line] = []
    for _ in range(owned):
        x, whole, note = extreme or (
            source.choice([source.choice(_NUMBERS), source.gauss(0, 5)]),
            source.choice(_WHOLES),
            source.choice(_TEXTS),
        )
        region = source.choice(["a", "b", None, "other"]) if home == "any" else home
        lines.append(
            {"pair": pair, **identity, "region": region, "x": x, "whole": whole, "note": note}
        )
    if source.random() < 0.3:
        lines += [dict(lines[0]) for _ in range(source.randint(1, 4))]  # identical rows
    return lines


def _key(line: Line, names: tuple[str, ...]) -> tuple[Any, ...]:
    # NaN differs from itself; as an id it is no id.
    values = (line[name] for name in names)
    return tuple(None if isinstance(v, float) and math.isnan(v) else v for v in values)


def _as_engine(key: tuple[Any, ...], ids: str, *, text: bool) -> tuple[Any, ...]:
    if text:
        return tuple(None if value is None else str(value) for value in key)
    if ids == "float" and key[0] is not None:
        return (int(key[0]) if key[0] == int(key[0]) else None,)
    return key


def _arrow(lines: list[Line], ids: str, *, text: bool) -> pa.Table:
    kinds = {
        "pair": pa.int64(),
        "who": {"integer": pa.int64(), "float": pa.float64()}.get(ids, pa.string()),
        "part": pa.string(),
        "region": pa.string(),
        "x": pa.float64(),
        "whole": pa.int64(),
        "note": pa.string(),
    }
    columns = {}
    for name, kind in kinds.items():
        values = [line[name] for line in lines]
        if text:
            values = [None if v is None else str(v) for v in values]
        columns[name] = pa.array(values, type=pa.string() if text else kind, from_pandas=False)
    return pa.table(columns)


class _Seen(Exception):
    """The numbers have been recorded."""


@dataclass(slots=True, kw_only=True)
class Recorder:
    """Stands where noise would stand, and keeps the numbers that it is given."""

    laplace: bool = True
    seen: list[Any] = field(default_factory=list)

    def release(self, values: list[int], *, bits: object) -> NoReturn:
        self.seen.append(list(values))
        raise _Seen  # what an aggregate does with noisy sums has no part in this

    def doubles(self, values: list[int], *, bits: object) -> NoReturn:
        self.release(values, bits=bits)


def empty_scope() -> TableSchema:
    """The scope of a table with the columns of the small ones."""
    table = _arrow([], "integer", text=False)
    with Session({"t": table}, unit=unacorda.Row(), budget=unacorda.PureDP(1)) as session:
        return session.table("t").scope


def statement_of(session: Session, query: Query, *, salt: int) -> Statement:
    return compile_query(query, SqlContext(unit=session.unit, scan=session._engine.scan, salt=salt))


def tallies_of(session: Session, query: Query, *, salt: int) -> Tallies:
    """The exact integers of a question."""
    return session._engine.run(session._admission.admit(query, salt=salt))


def vectors(
    session: Session, query: Query, noises: Mapping[str, Any], *, salt: int
) -> dict[str, list[NDArray[Any]]]:
    """What each aggregate's release hands to its mechanisms, the noise left out.

    noises: as `allocate` gives them, for the numbers a mechanism is asked about. Integers of any
    size for sums and counts, for Laplace noise and for normal noise, which may be added to others;
    one matrix of losses for every draw of a quantile.
    """
    tallies = tallies_of(session, query, salt=salt)
    found = {}
    for name, aggregate in query.aggregates.items():
        recorder, noise = Recorder(), noises[name]
        if isinstance(noise, FoundBins):
            (counted,) = exact_of(query, name, tallies).rankings
            found[name] = [*cut_losses(counted.counts, noise.cutting), counts_of(counted.counts)]
            continue
        if isinstance(noise, QuantileDraws):
            (counted,) = exact_of(query, name, tallies).rankings
            found[name] = cut_losses(counted.counts, noise)
            continue
        if isinstance(noise, ClampingSearch | ThresholdSearch):
            found[name] = _climbs(exact_of(query, name, tallies), aggregate)
            continue
        exact = exact_of(query, name, tallies)
        if isinstance(aggregate, RowsKept):
            found[name] = [exact.people[0].people.astype(object)] * 2
            continue
        if isinstance(noise, Selection):
            found[name] = _drawn_from(exact, aggregate, noise)
            continue
        for laplace in (True, False) if isinstance(noise, AdditiveNoise) else (True,):
            recorder.laplace = laplace
            with contextlib.suppress(_Seen):
                aggregate.answers(exact, recorder, SeededBits(0))
        found[name] = [np.array(values, dtype=object) for values in recorder.seen]
    return found


def _climbs(exact: Exact, aggregate: Aggregate) -> list[NDArray[Any]]:
    """For each ladder who passes each rung, then the cut sums at some rungs, in units of these."""
    found: list[NDArray[Any]] = [people.above() for people in exact.people]
    if isinstance(aggregate, AutomaticSum):
        rungs = aggregate.rungs
        for people in exact.people:
            cells = len(people.people)
            sums = [
                [Fraction(value, rungs[at]) for value in people.clipped(rungs, [at] * cells)]
                for at in range(0, len(rungs), 9)
            ]
            found.append(np.array(sums, dtype=object).T)
    return found


def _drawn_from(exact: Exact, aggregate: Aggregate, noise: Selection) -> list[NDArray[Any]]:
    """The losses of every draw, of all points of the grid."""
    (counted,) = exact.rankings
    if isinstance(aggregate, Extreme):
        greatest, beyond = aggregate.side == "max", aggregate.beyond(noise.point)
        shift = -beyond if greatest else beyond
        return [ranks.rank_losses(counted.counts, Fraction(int(greatest)), shift=shift)]
    assert isinstance(aggregate, BoundedQuantile)
    shifts = [0]
    if noise.end is not None:
        reach = math.floor(rank_error(aggregate, aggregate.q, noise.end, miss=0.025)) + 1
        shifts += [-reach, reach]
    return [ranks.rank_losses(counted.counts, aggregate.q, shift=shift) for shift in shifts]


def sensitivity_of(mechanism: Any) -> Fraction:
    """The number a mechanism was told, exactly."""
    value = (
        mechanism.sensitivity
        if isinstance(mechanism, Exponential)
        else getattr(mechanism, "l1_sensitivity", None) or mechanism.l2_sensitivity
    )
    return Fraction(value) if isinstance(value, int | Fraction) else Fraction(repr(value))


def unit_of(ids: tuple[str, ...], *, limits: Limits | None, neighbors: Neighbors) -> Any:
    if limits is None:
        return unacorda.Row(neighbors=neighbors)
    return Person(ids, **limits, neighbors=neighbors)
