"""How far neighboring tables lie apart where noise is added, against what it was told."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from tests.query.neighbor_cuts import cut_moves
from tests.query.neighbor_tables import (
    AGGREGATES,
    DERIVED,
    PIPELINES,
    REGIONS,
    Limits,
    Pairs,
    make_pairs,
    sensitivity_of,
    statement_of,
    unit_of,
    vectors,
)
from tests.support.seams import (
    AdditiveNoise,
    Aggregate,
    ClampingSearch,
    FoundBins,
    QuantileDraws,
    Query,
    Selection,
    ThresholdSearch,
    allocate,
)

import unacorda
from unacorda.privacy.neighbors import Neighbors

__all__ = [
    "EVERY",
    "UNITS",
    "Moves",
    "Pipeline",
    "moves_of",
    "open_session",
    "rows_of_others",
    "sweep",
]

UNITS: Mapping[str, tuple[str, Limits | None]] = {
    "one row": ("integer", {"max_rows": 1}),
    "two rows": ("float", {"max_rows": 2}),
    "three rows": ("text", {"max_rows": 3}),
    "six rows of two ids": ("two", {"max_rows": 6}),
    "single rows": ("integer", None),
    "two rows in each of two groups": ("text", {"max_groups": 2, "max_rows_per_group": 2}),
    "five rows in one group": ("two", {"max_groups": 1, "max_rows_per_group": 5}),
    "three rows, one in a group": ("integer", {"max_rows": 3, "max_rows_per_group": 1}),
    "four rows in two groups": ("float", {"max_rows": 4, "max_groups": 2}),
    "all limits": ("integer", {"max_rows": 5, "max_groups": 2, "max_rows_per_group": 3}),
}
# The first of each pair gives the draws of intervals a far aim, the second a near one.
BUDGETS = (
    (unacorda.PureDP(1), unacorda.ZCDP(0.5)),
    (unacorda.PureDP(60), unacorda.ZCDP(900)),
)
EVERY = {name: make for family in AGGREGATES.values() for name, make in family.items()}

Pipeline = str | Callable[[unacorda.Session, str], Query]
"""The name of one of `PIPELINES`, or what begins a question about one side."""

Moves = dict[tuple[str, str], Fraction]
"""By aggregate and norm the largest move found, as a share of what the mechanism was told."""


def open_session(
    pairs: Pairs, *, limits: Limits | None, neighbors: Neighbors, **options: Any
) -> unacorda.Session:
    unit = unit_of(pairs.ids, limits=limits, neighbors=neighbors)
    return unacorda.Session(dict(pairs.tables), unit=unit, budget=unacorda.PureDP(1), **options)


def question(
    session: unacorda.Session,
    side: str,
    *,
    pipeline: Pipeline,
    grouped: bool,
    aggregates: Mapping[str, Callable[[], Aggregate]],
    pairs: int | None,
) -> Query:
    """One question about all small tables, or with pairs=None about one of them."""
    query = (
        PIPELINES[pipeline](session.table(side))
        if isinstance(pipeline, str)
        else pipeline(session, side)
    )
    keys: dict[str, Any] = {} if pairs is None else {"pair": range(pairs)}
    if grouped:
        keys["region"] = REGIONS
    if keys:
        query = query.group_by(*keys, keys=keys)
    return query.agg(**{name: make() for name, make in aggregates.items()})


def moves_of(
    session: unacorda.Session,
    *,
    pipeline: Pipeline,
    grouped: bool,
    aggregates: Mapping[str, Callable[[], Aggregate]],
    pairs: int | None,
    salt: int,
) -> Moves:
    """How far the worst of these neighbors moves each aggregate, exactly, in both norms."""
    many = {name: make for name, make in aggregates.items() if make().lines != 1}
    if many and len(aggregates) > 1:  # each of them is asked alone
        alone = [{name: make} for name, make in many.items()]
        rest = {name: make for name, make in aggregates.items() if name not in many}
        together: Moves = {}
        for part in [*alone, rest] if rest else alone:
            together |= moves_of(
                session, pipeline=pipeline, grouped=grouped, aggregates=part, pairs=pairs, salt=salt
            )
        return together
    single, left, right = (
        question(
            session,
            side,
            pipeline=pipeline,
            grouped=grouped,
            aggregates=aggregates,
            pairs=count,
        )
        for side, count in (("left", None), ("left", pairs), ("right", pairs))
    )
    pure, concentrated = (allocate(single, budget).noises for budget in BUDGETS[salt % 2])
    before, after = (vectors(session, query, pure, salt=salt) for query in (left, right))
    found: Moves = {}
    for name, noise in pure.items():
        if isinstance(noise, Selection):
            told = [sensitivity_of(draw) for draw in (noise.point, noise.end or noise.point)]
            found[name, "range"] = max(
                _range(x, y, pairs=pairs or 1) / told[draw > 0]
                for draw, (x, y) in enumerate(zip(before[name], after[name], strict=True))
            )
            pieces = list(zip(before[name], after[name], strict=True))
            if salt % 2:
                continue  # where epsilon is large, a wide range costs less than its square says
            found[name, "squares"] = _squares(concentrated[name], pieces, pairs=pairs or 1)
            continue
        if isinstance(noise, FoundBins):
            *losses, counts = before[name]
            *moved_losses, moved_counts = after[name]
            share = cut_moves(losses, moved_losses, noise.cutting, pairs=pairs or 1)
            found[name, "range"] = share
            for norm, bins in (("l1", noise), ("l2", concentrated[name])):
                assert isinstance(bins, FoundBins)
                moved = _norm(counts, moved_counts, norm, pairs=pairs or 1, unit_log2=0)
                most = sensitivity_of(bins.counts.mechanism)
                found[name, norm] = moved / (most**2 if norm == "l2" else most)
            continue
        if isinstance(noise, QuantileDraws):
            share = cut_moves(before[name], after[name], noise, pairs=pairs or 1)
            found[name, "range"] = share
            continue
        if isinstance(noise, ClampingSearch | ThresholdSearch):
            pieces = list(zip(before[name], after[name], strict=True))
            found |= _climbing(name, noise, pieces, pairs=pairs or 1)
            continue
        both = (("l1", noise), ("l2", concentrated[name]))
        for (norm, told_noise), x, y in zip(both, before[name], after[name], strict=True):
            assert isinstance(told_noise, AdditiveNoise)
            moved = _norm(x, y, norm, pairs=pairs or 1, unit_log2=told_noise.unit_log2)
            told_exactly = sensitivity_of(told_noise.mechanism)
            found[name, norm] = moved / (told_exactly**2 if norm == "l2" else told_exactly)
    return found


def _squares(noise: Any, pieces: list[tuple[Any, Any]], *, pairs: int) -> Fraction:
    """The zCDP of draws whose log-probabilities move within these ranges, of what was paid for."""
    end = noise.end or noise.point
    spent: Any = np.zeros(pairs)
    for draw, (x, y) in enumerate(pieces):
        delta = (x - y).reshape(pairs, -1, x.shape[-1])
        ranges = (delta.max(axis=2) - delta.min(axis=2)).astype(float)
        rate = float((end if draw else noise.point).factor)
        spent += ((ranges * rate) ** 2).sum(axis=1) / 8
    share = spent.max() / unacorda.accounting.rho(noise.event)
    return Fraction(share * (1 - 1e-9))  # which floats and a rate rounded down leave in doubt


def _climbing(
    name: str, noise: ClampingSearch | ThresholdSearch, pieces: list[tuple[Any, Any]], *, pairs: int
) -> Moves:
    """How far people on ladders move: in how many parts, by how much, and in which directions."""
    search = noise.search if isinstance(noise, ClampingSearch) else noise
    ladders = len(pieces) // 2 if isinstance(noise, ClampingSearch) else len(pieces)
    moves = [(y - x).reshape(pairs, -1, x.shape[-1]) for x, y in pieces]
    counts = np.concatenate(moves[:ladders], axis=1)
    # Each ladder of `runs` is paid for by itself; those of two signs are paid for together.
    felt = [m.any(axis=2).sum(axis=1).max() for m in moves[:ladders]]
    parts = int(max(felt) if search.runs > 1 else counts.any(axis=2).sum(axis=1).max())
    up, down = np.maximum(counts, 0).max(axis=2), np.maximum(-counts, 0).max(axis=2)
    found = {
        (name, "parts"): Fraction(parts, search.hits),
        (name, "people"): Fraction(int(np.abs(counts).max())),
        (name, "one direction"): Fraction(int((up + down).max())),
    }
    if ladders < len(pieces):
        found[name, "cut sums"] = Fraction(np.abs(np.concatenate(moves[ladders:], axis=1)).max())
    return found


def _norm(x: Any, y: Any, norm: str, *, pairs: int, unit_log2: int) -> Fraction:
    delta = np.abs(x - y).reshape(pairs, -1)
    if norm == "l1":
        return int(delta.sum(axis=1).max()) * Fraction(2) ** unit_log2
    return int((delta * delta).sum(axis=1).max()) * Fraction(4) ** unit_log2


def _range(x: Any, y: Any, *, pairs: int) -> Fraction:
    """The largest change of any one loss in a cell, or half their range, summed over cells."""
    delta = (x - y).reshape(pairs, -1, x.shape[-1])
    largest = np.abs(delta).max(axis=2).sum(axis=1).max()
    spread = (delta.max(axis=2) - delta.min(axis=2)).sum(axis=1).max()
    return max(Fraction(int(largest)), Fraction(int(spread), 2))


def sweep(
    *,
    kinds: Mapping[str, tuple[str, Limits | None]],
    neighbors: Neighbors,
    count: int,
    seed: int,
    every: int = 1,
) -> Iterator[tuple[Moves, str]]:
    """The moves of all aggregates, or of one in so many, over units, sources, pipelines, groups."""
    salts = itertools.count(seed << 70)
    for kind, (ids, limits) in kinds.items():
        for text in (False, True) if ids != "float" else (False,):
            pairs = make_pairs(
                count=count,
                ids=ids,
                neighbors=neighbors,
                rows=limits is None,
                text=text,
                seed=next(salts),
            )
            with open_session(pairs, limits=limits, neighbors=neighbors) as session:
                for pipeline, grouped in itertools.product(PIPELINES, (False, True)):
                    derived = DERIVED if pipeline == "derive" else {}
                    # What is asked alone is asked of plain rows only, which saves many questions.
                    asked = {
                        name: make
                        for name, make in list({**EVERY, **derived}.items())[::every]
                        # About all small tables together, some aggregates are one answer.
                        if (pipeline == "plain" or make().lines == 1) and not make().overall
                    }
                    where = f"{kind}, text={text}, {pipeline}, grouped={grouped}"
                    yield (
                        moves_of(
                            session,
                            pipeline=pipeline,
                            grouped=grouped,
                            aggregates=asked,
                            pairs=count,
                            salt=next(salts),
                        ),
                        where,
                    )


def rows_of_others(
    kind: str, neighbors: Neighbors, *, pipeline: str = "plain"
) -> tuple[Counter[str], Counter[str]]:
    """The rows that count, on both sides, of those who are on both."""
    ids, limits = UNITS[kind]
    pairs = make_pairs(
        count=120, ids=ids, neighbors=neighbors, rows=False, text=False, seed=len(pipeline)
    )
    found = []
    with open_session(pairs, limits=limits, neighbors=neighbors) as session:
        for side in pairs.tables:
            query = question(
                session,
                side,
                pipeline=pipeline,
                grouped=True,
                aggregates={
                    name: make
                    for name, make in EVERY.items()
                    if make().lines == 1 and not make().overall
                },
                pairs=pairs.count,
            )
            statement = statement_of(session, query, salt=2**127 + 5)
            assert statement.keys is not None
            cursor = session._engine._connection.cursor()  # type: ignore[attr-defined]
            cursor.execute(
                f"CREATE TEMP TABLE keys AS {statement.keys.sql}", list(statement.keys.columns)
            )
            rows = cursor.execute(statement.bounded).fetchall()
            width = len(pairs.ids)
            found.append(Counter(repr(row) for row in rows if row[-width:] not in pairs.gone))
    return found[0], found[1]
