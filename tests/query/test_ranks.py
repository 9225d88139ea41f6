"""Draws by rank from a grid: the exact law, least and greatest."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from scipy import stats
from tests.query.counted_cells import counted_cells
from tests.query.many_cells import ask, repeated, values_of
from tests.query.neighbor_tables import empty_scope
from tests.support.cases import in_subtests
from tests.support.seams import (
    DuckDB,
    Exact,
    Extreme,
    Person,
    Reach,
    of_totals,
    rank_losses,
)
from tests.tiers import mostly_slow

import unacorda
from unacorda.bits import SeededBits
from unacorda.errors import InvalidParameter

STEPS = 37
VALUES = (0.0, 5.0, 5.0, 6.0, 20.0, 21.0, 21.0, 36.0, 37.0)


def law(values: Sequence[float], steps: int, aim: Fraction, factor: Fraction) -> NDArray[Any]:
    """By hand: exp(-factor loss), the loss by its definition; the aim is not beyond the ranks."""
    weights = []
    for e in range(steps + 1):
        below, at_most = sum(v < e for v in values), sum(v <= e for v in values)
        loss = max(Fraction(below) - aim, aim - at_most, Fraction(0))
        weights.append(math.exp(-float(factor * loss)))
    return np.array(weights) / sum(weights)


def drawn(aggregate: Any, epsilon: float, *, seed: int, values: Sequence[float] = VALUES) -> Any:
    cells = 1_200
    asked = ask(
        repeated(list(values), cells=cells),
        {"answer": aggregate},
        budget=unacorda.PureDP(epsilon),
        seed=seed,
        cells=cells,
    )
    return np.bincount(values_of(asked.release, "answer").astype(int), minlength=STEPS + 1)


def pvalue(seen: NDArray[Any], chances: NDArray[Any]) -> float:
    """Chi-square, points of small chance put together."""
    order = np.argsort(chances)
    expected, found = chances[order] * seen.sum(), seen[order]
    groups = np.cumsum(expected) // 8
    e = np.array([expected[groups == g].sum() for g in np.unique(groups)])
    f = np.array([found[groups == g].sum() for g in np.unique(groups)])
    return float(stats.chisquare(f, e * f.sum() / e.sum()).pvalue)


@pytest.mark.statistical
@pytest.mark.parametrize("epsilon", mostly_slow([0.4, 3.0]))
@pytest.mark.parametrize("q", [Fraction(1, 2), Fraction(1, 10)], ids=str)
def test_a_median_has_the_law_of_the_mechanism(q: Fraction, epsilon: float) -> None:
    """Through the engine, 1,200 cells each. False alarm 1e-7 a case."""
    made = unacorda.quantile("x", q, 0, STEPS, resolution=1)
    seen = drawn(made, epsilon, seed=5)
    factor = Fraction(epsilon) / (2 * max(q, 1 - q))
    chances = law(VALUES, STEPS, q * len(VALUES), factor)
    assert pvalue(seen, chances) > 1e-7
    wrong = law(VALUES, STEPS, q * len(VALUES) + Fraction(1, 2), 2 * factor)
    assert pvalue(seen, wrong) < 1e-7


@pytest.mark.statistical
def test_points_of_the_default_grid_are_drawn_by_their_slots() -> None:
    """1,200 cells of nine equal rows; chi-square over what is at, below and above the value.

    False alarm 1e-7.
    """
    made, values = unacorda.median("x", 0, 40), [16.0] * 9
    grid = made.bound_to(empty_scope()).grid
    asked = ask(
        repeated(values, cells=1_200),
        {"answer": made},
        budget=unacorda.PureDP(2),
        seed=5,
        cells=1_200,
    )
    (at,) = grid.places([16.0])
    edges = np.array([0, at, at + 1, grid.steps + 1])
    drawn = grid.places(values_of(asked.release, "answer"))
    seen = np.bincount(np.searchsorted(edges, drawn, side="right") - 1, minlength=3)

    def chances(slots: NDArray[Any]) -> NDArray[Any]:
        counts = np.bincount(grid.places(values), minlength=grid.steps + 1)
        losses = rank_losses(counts[None], Fraction(1, 2))[0]  # twice, as is the rate
        weights = np.add.reduceat(np.diff(slots) * np.exp(-losses), edges[:-1])
        return np.asarray(weights / weights.sum())

    assert pvalue(seen, chances(grid.slots)) > 1e-7
    assert pvalue(seen, chances(np.arange(grid.steps + 2))) < 1e-7


@pytest.mark.statistical
@pytest.mark.parametrize("side", mostly_slow(["min", "max"]))
def test_extremes_have_their_law(side: str) -> None:
    """Of 9 people; those aimed to be left out are more and fewer than that."""
    make = unacorda.max if side == "max" else unacorda.min
    for epsilon in (1.0, 9.0):
        made = make("x", 0, STEPS, resolution=1)
        one = Reach.within(max_rows=1, cells=1, replaced=False)
        most = made.beyond(made.noise(unacorda.PureDP(epsilon), one).point)
        weights = []
        for e in range(STEPS + 1):
            beyond = sum(v > e if side == "max" else v < e for v in VALUES)
            reached = sum(v >= e if side == "max" else v <= e for v in VALUES)
            # The people who are lacking stand at the far end.
            reached += 10**6 * (e == (0 if side == "max" else STEPS))
            loss = max(beyond - most, most - reached, 0)
            weights.append(math.exp(-epsilon / 2 * loss))
        seen = drawn(made, epsilon, seed=8)
        assert pvalue(seen, np.array(weights) / sum(weights)) > 1e-7
        moved = np.roll(weights, 1)
        assert pvalue(seen, moved / moved.sum()) < 1e-7


def test_everything_is_charged_before_the_engine_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def reached(*_: object, **__: object) -> None:
        raise AssertionError("the engine ran")

    monkeypatch.setattr(DuckDB, "run", reached)
    with unacorda.Session(
        {"t": pa.table({"id": [1], "x": [1.0]})},
        unit=Person("id", max_rows=1),
        budget=unacorda.PureDP(1),
    ) as session:
        for aggregate in (unacorda.median("x", 0, 1), unacorda.max("x", 0, 1), unacorda.sum("x")):
            query = session.table("t").agg(a=aggregate)
            with pytest.raises(unacorda.errors.BudgetExceeded):
                session.evaluate(query, budget=unacorda.PureDP(2))


# ---- least and greatest --------------------------------------------------------------------------


def _persons(reach: Reach, points: int) -> Iterator[NDArray[np.int64]]:
    """Everyone there can be: by cell and point, 1 where her greatest value is."""
    places = list(itertools.product(range(reach.cells), range(points)))
    seen = set()
    for count in range(reach.rows + 1):
        for rows in itertools.combinations_with_replacement(places, count):
            best = {c: max(p for cell, p in rows if cell == c) for c in {cell for cell, _ in rows}}
            seen.add(tuple(sorted(best.items())))
    for one in sorted(seen):
        person = np.zeros((reach.cells, points), dtype=np.int64)
        for cell, point in one:
            person[cell, point] = 1
        yield person


@in_subtests("replaced", [False, True])
@in_subtests(("rows", "cells"), [(1, 1), (3, 1), (1, 2), (2, 2), (2, 3)])
def test_the_loss_of_extremes_moves_as_told(rows: int, cells: int, *, replaced: bool) -> None:
    """Every person beside some others, removed or replaced; both ways to measure a range."""
    reach, points = Reach.within(max_rows=rows, cells=cells, replaced=replaced), 3
    persons = list(_persons(reach, points))
    source, worst = np.random.default_rng(1), Fraction(0)
    rests = [source.integers(0, 4, (cells, points)) for _ in range(6)]
    rests += [np.zeros((cells, points), dtype=np.int64)]
    for rest, beyond, side in itertools.product(rests, (1, 2, 9), (0, 1)):
        shift = -beyond if side else beyond
        losses = [rank_losses(rest + one, Fraction(side), shift=shift) for one in persons]
        for a, b in (
            itertools.combinations(losses, 2) if replaced else ((losses[0], one) for one in losses)
        ):
            delta = a - b
            spread = Fraction(int((delta.max(axis=1) - delta.min(axis=1)).sum()), 2)
            worst = max(worst, Fraction(int(np.abs(delta).max(axis=1).sum())), spread)
    told = of_totals(reach).l1
    assert worst == told


@pytest.mark.parametrize("side", ["min", "max"])
def test_ninety_five_of_a_hundred_answers_lie_where_they_are_promised(side: str) -> None:
    """The probability by the law itself, on nasty counts."""
    steps = 300
    make = unacorda.max if side == "max" else unacorda.min
    made = make("x", 0, steps, resolution=1)
    noise = made.noise(unacorda.PureDP(1), Reach.within(max_rows=1, cells=1, replaced=False))
    most = made.beyond(noise.point)
    source = np.random.default_rng(5)
    for n in (60, 200):
        for spread in (1, 3, 300):
            people = np.bincount(
                np.minimum(source.integers(0, spread, n) + 40, steps), minlength=steps + 1
            )
            counts = people if side == "max" else people[::-1].copy()
            shift = -most if side == "max" else most
            loss = rank_losses(counts[None], Fraction(side == "max"), shift=shift)
            chances = np.exp(noise.point.log_probabilities(-loss))[0]
            passing = counts[::-1].cumsum()[::-1] if side == "max" else counts.cumsum()
            beyond = passing - counts
            good = (passing >= 1) & (beyond < 2 * most)
            assert chances[good].sum() >= 0.95
    assert (
        2 * most - 1
        == made.forecast(
            noise, Reach.within(max_rows=1, cells=1, replaced=False), None
        ).people_error
    )


def test_a_person_counts_once_however_many_rows_she_has() -> None:
    """One person has most rows, all of them large: she cannot carry the greatest value."""
    ids = np.concatenate([np.arange(400), np.full(5_000, 7)])
    x = np.concatenate([np.linspace(0, 50, 400), np.full(5_000, 99.0)])
    with unacorda.Session(
        {"t": pa.table({"id": ids, "x": x})},
        unit=Person("id", max_rows=10_000),
        budget=unacorda.PureDP(10),
        bits=SeededBits(2),
    ) as session:
        query = session.table("t").agg(hi=unacorda.max("x", 0, 100), lo=unacorda.min("x", 0, 100))
        told = session.explain(query, budget=unacorda.PureDP(10), detail=True)
        (row,) = session.evaluate(query, budget=unacorda.PureDP(10)).to_dicts()
    assert 40 < row["hi"] < 51
    assert 0 <= row["lo"] < 5
    assert "aimed at the value that 7 people exceed" in str(told)


def test_extremes_in_sql_and_their_refusals() -> None:
    table = pa.table({"id": np.arange(500), "x": np.arange(500.0), "y": np.arange(500.0)})
    with unacorda.Session(
        {"t": table},
        unit=Person("id", max_rows=1),
        budget=unacorda.PureDP(50),
        columns={"x": unacorda.Bounds(0, 1_000)},
        bits=SeededBits(1),
    ) as session:
        text = "SELECT MIN(x) AS lo, MAX(x), COUNT(*) FROM t"
        release = session.sql(text, budget=unacorda.PureDP(30))
        (row,) = release.to_dicts()
        assert 0 <= row["lo"] < 30
        assert 470 < row["max_x"] < 500
        with pytest.raises(unacorda.errors.MissingBound):
            session.sql("SELECT MAX(y) FROM t", budget=unacorda.PureDP(1))
        with pytest.raises(unacorda.errors.UnsafeExpression):
            session.sql("SELECT MAX(x, 3) FROM t", budget=unacorda.PureDP(1))
    with pytest.raises(InvalidParameter, match="resolution"):
        unacorda.max("x", 0, 1, resolution=2.0**-61)


def test_an_extreme_of_nobody_is_an_end_and_nothing_raises() -> None:
    made = unacorda.max("x", 0, 10, resolution=1).bound_to(empty_scope())
    assert isinstance(made, Extreme)
    noise = made.noise(unacorda.PureDP(4), Reach.within(max_rows=1, cells=1, replaced=False))
    answer = made.release(
        Exact(rankings=(counted_cells(np.zeros((500, 11), dtype=np.int64)),)),
        noise,
        SeededBits(1),
    )
    assert np.mean(np.array(answer.values) == 0) > 0.9
