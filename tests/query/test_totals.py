"""Sums without bounds: exact integers, prices, laws, what is told."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats
from tests.query.many_cells import repeated
from tests.query.neighbor_tables import empty_scope, tallies_of
from tests.support.cases import in_subtests
from tests.support.seams import (
    AutomaticSum,
    ClampingSearch,
    Climbers,
    DuckDB,
    Exact,
    Reach,
    exact_of,
    search_for,
)
from tests.tiers import mostly_slow

import unacorda
from unacorda.accounting.charges import charge
from unacorda.bits import SeededBits

VALUES = (None, math.nan, math.inf, -math.inf, -0.0, 5e-324, 1e308, -1e308, 0.1, -2.5, 7.0, 1e13)


def nasty(rows: int = 400) -> pa.Table:
    source = np.random.default_rng(3)
    return pa.table(
        {
            "id": pa.array(source.integers(0, 60, rows)),
            "cell": pa.array(source.integers(0, 3, rows)),
            "x": pa.array([VALUES[i] for i in source.integers(0, len(VALUES), rows)]),
            "whole": pa.array(source.integers(-(2**62), 2**62, rows)),
        }
    )


def climbers(table: pa.Table, aggregate: Any, *, unit: Any) -> tuple[Any, tuple[Climbers, ...]]:
    with unacorda.Session({"t": table}, unit=unit, budget=unacorda.PureDP(1)) as session:
        query = session.table("t").group_by("cell", keys=range(4)).agg(a=aggregate)
        tallies = tallies_of(session, query, salt=1)
        return query.aggregates["a"], exact_of(query, "a", tallies).people


def totals_by_hand(
    table: pa.Table, column: str, made: AutomaticSum, *, person: bool
) -> dict[Any, int]:
    """By cell and person the whole units, by exact arithmetic."""
    end = made.rungs[-1]
    found: dict[Any, int] = defaultdict(int)
    for number, line in enumerate(table.to_pylist()):
        value = line[column]
        if value is None or math.isnan(value):
            continue
        value = float(value)  # as the engine holds numbers
        scaled = Fraction(int(math.copysign(end, value)))
        if math.isfinite(value):
            scaled = max(
                min(Fraction(value) / Fraction(2) ** made.unit_log2, Fraction(end)), Fraction(-end)
            )
        below = math.floor(scaled)
        away = scaled - below
        # The engine rounds halves away from 0.
        up = away > Fraction(1, 2) or (away == Fraction(1, 2) and scaled > 0)
        found[line["cell"], line["id"] if person else number] += below + int(up)
    return found


@pytest.mark.long
@pytest.mark.parametrize("column", mostly_slow(["x", "whole"]))
@pytest.mark.parametrize("person", [True, False])
def test_ladders_hold_the_exact_integers_of_every_rung(column: str, *, person: bool) -> None:
    unit = unacorda.Person("id", max_rows=1_000) if person else unacorda.Row()
    table = nasty()
    made, people = climbers(table, unacorda.sum(column), unit=unit)
    by_hand = totals_by_hand(table, column, made, person=person)
    assert made.signs == (1, -1)
    for sign, found in zip(made.signs, people, strict=True):
        above = found.above()
        for cell in range(4):
            own = [max(sign * t, 0) for (where, _), t in by_hand.items() if where == cell]
            assert above[cell].tolist() == [sum(t > rung for t in own) for rung in made.rungs]
        for at in range(0, len(made.rungs), 11):
            cut = [
                sum(
                    min(max(sign * t, 0), made.rungs[at])
                    for (c, _), t in by_hand.items()
                    if c == cell
                )
                for cell in range(4)
            ]
            assert found.clipped(made.rungs, [at] * 4) == cut


def test_signs_are_those_that_the_range_allows() -> None:
    scope = empty_scope()
    for text, signs in (
        ("x", (1, -1)),
        ("CASE WHEN x > 0 THEN x END", (1, -1)),
        ("ABS(x)", (1,)),
        ("-ABS(x)", (-1,)),
    ):
        made = unacorda.sum(text).bound_to(scope)
        assert isinstance(made, AutomaticSum)
        assert made.signs == signs
    # Negative rows of someone whose total is positive lower it, and are no part of the other sign.
    table = pa.table({"id": [1, 1, 2], "cell": [0, 0, 0], "x": [5.0, -3.0, -4.0]})
    _, (up, down) = climbers(table, unacorda.sum("x"), unit=unacorda.Person("id", max_rows=9))
    made = unacorda.sum("x").bound_to(scope)
    assert isinstance(made, AutomaticSum)
    last = [len(made.rungs) - 1] * 4
    assert up.clipped(made.rungs, last)[0] == 2 * 2**32
    assert down.clipped(made.rungs, last)[0] == 4 * 2**32


# ---- what it costs -------------------------------------------------------------------------------

REACHES = [
    Reach.within(max_rows=r, cells=c, replaced=replaced)
    for r in (1, 3)
    for c in (1, 2, 9)
    for replaced in (False, True)
]
BUDGETS = [
    (unacorda.PureDP("0.7"), unacorda.PureDP(9)),
    (unacorda.ZCDP("0.3"), unacorda.ZCDP(9)),
    (unacorda.GDP("0.9"), unacorda.GDP(9)),
]


@pytest.mark.parametrize("reach", mostly_slow(REACHES, quick=8), ids=str)
@in_subtests(("share", "account"), BUDGETS, ids=str)
def test_all_parts_that_one_unit_reaches_cost_at_most_the_share(
    share: Any, account: Any, reach: Reach
) -> None:
    for text in ("x", "ABS(x)"):
        made: Any = unacorda.sum(text).bound_to(empty_scope())
        noise = made.noise(share, reach)
        felt = min(reach.rows, reach.cells)
        if reach.replaced:
            felt = min(2 * felt, reach.cells * len(made.signs))
        assert noise.hits == noise.search.hits == felt
        cost = charge(noise.event, share, account)
        assert cost.additive[0] <= share.additive[0]
        assert cost.additive[0] >= share.additive[0] * Fraction(3, 5)  # and it is made use of


def test_the_price_does_not_depend_on_the_level() -> None:
    made: Any = unacorda.sum("x").bound_to(empty_scope())
    for share, _ in BUDGETS:
        noise = made.noise(share, Reach.within(max_rows=2, cells=5, replaced=False))
        events = {repr(noise.noise(level).event) for level in (1, 2, 3, 92681, 2**76)}
        assert len(events) == 1


# ---- the law -------------------------------------------------------------------------------------


def _chances(above: Sequence[int], search: Any) -> list[float]:
    """The law of the first rung found, from the definition: one threshold, fresh query noise.

    All of it in whole numbers; the last rung is found where no other is.
    """
    noisy = search.solver._search(search.allowed).comparison
    s_t, s_q = float(noisy.threshold_scale), float(noisy.query_scale)
    grid = np.arange(int(60 * s_t) + 1)
    weights = np.exp(-grid / s_t) * -math.expm1(-1 / s_t)
    rest, found = np.ones_like(weights), []
    for count in above[:-1]:
        passing = np.exp(-np.maximum(noisy.level + grid + count, 0) / s_q)
        found.append(float((weights * rest * passing).sum()))
        rest = rest * (1 - passing)
    return [*found, 1 - math.fsum(found)]


@pytest.mark.statistical
@pytest.mark.parametrize("share", mostly_slow([unacorda.PureDP(1), unacorda.ZCDP("0.5")]), ids=str)
def test_levels_have_the_law_of_the_search(share: Any) -> None:
    """20,000 searches each; false alarm 1e-7 a case."""
    search = search_for(share, rungs=8, hits=1)
    above = np.array([30, 18, 12, 9, 5, 2, 0, 0], dtype=np.int64)
    found = search.find(np.tile(above, (20_000, 1)), SeededBits(5))
    seen = np.bincount(found, minlength=len(above))
    chances = np.array(_chances(above.tolist(), search))
    assert stats.chisquare(seen, chances / chances.sum() * seen.sum()).pvalue > 1e-7
    wrong = np.array(_chances((above + 1).tolist(), search))
    assert stats.chisquare(seen, wrong / wrong.sum() * seen.sum()).pvalue < 1e-7


@pytest.mark.long
@pytest.mark.statistical
def test_sums_are_unbiased_about_the_cut_sum_and_covered_by_their_intervals() -> None:
    """Given the level: 20,000 cells of one law. False alarm below 1e-7."""
    made = unacorda.sum("x").bound_to(empty_scope())
    assert isinstance(made, AutomaticSum)
    noise = made.noise(unacorda.PureDP(1), Reach.within(max_rows=1, cells=1, replaced=False))
    cells, unit = 20_000, 2**32
    people = np.zeros((cells, len(made.rungs) + 1), dtype=np.int64)
    rung = made.rungs.index(8 * unit)
    people[:, rung] = 200  # who has between 5.66 and 8
    totals = [{rung: 200 * 7 * unit}] * cells
    nobody = np.zeros_like(people)
    exact = Exact(
        people=(
            Climbers(people=people, totals=totals),
            Climbers(people=nobody, totals=[{}] * cells),
        )
    )
    answer = made.release(exact, noise, SeededBits(8))
    highs = np.array(answer.beside["to"])
    cut = np.where(highs >= 8, 1400.0, 200 * highs)
    errors = np.array(answer.values) - cut
    scaled = errors / np.array([float(se) for se in answer.standard_errors if se is not None])
    assert abs(scaled.mean()) < 6 / math.sqrt(cells)
    assert abs(scaled.std() - 1) < 0.1
    low, high = (np.array(end, dtype=np.float64) for end in (answer.lower, answer.upper))
    covered = float(np.mean((low <= cut) & (cut <= high)))
    assert covered > 0.95 - 6 * math.sqrt(0.95 * 0.05 / cells)
    # Most searches end at the rung that holds everyone or one beside it.
    assert np.mean(np.abs(np.log2(highs) - 3) <= 1) > 0.8


@pytest.mark.slow
@pytest.mark.statistical
def test_a_heavy_tailed_sum_is_near() -> None:
    """Relative error of a lognormal sum; seeds are fixed."""
    source = np.random.default_rng(1)
    values = source.lognormal(7, 1, 10_000)
    table = pa.table({"id": np.arange(10_000), "x": values})
    errors = []
    for seed in range(15):
        with unacorda.Session(
            {"t": table},
            unit=unacorda.Person("id", max_rows=1),
            budget=unacorda.PureDP(1),
            bits=SeededBits(seed),
        ) as session:
            release = session.evaluate(
                session.table("t").agg(s=unacorda.sum("x")), budget=unacorda.PureDP(1)
            )
            errors.append(abs(release.answers["s"].values[0] / values.sum() - 1))
    assert sorted(errors)[7] < 0.02
    assert sorted(errors)[12] < 0.05


# ---- what is shown -------------------------------------------------------------------------------


def opened(table: Any, **options: Any) -> unacorda.Session:
    settings: dict[str, Any] = {
        "unit": unacorda.Person("id", max_rows=2),
        "budget": unacorda.PureDP(10),
        "bits": SeededBits(1),
    }
    return unacorda.Session({"t": table}, **settings | options)


@pytest.mark.long
def test_the_release_shows_the_levels_beside_the_sum() -> None:
    table = pa.table(repeated([3.0] * 300, cells=2))
    with opened(table, budget=unacorda.PureDP(40)) as session:
        query = session.table("t").group_by("cell", keys=[0, 1]).agg(s=unacorda.sum("x"))
        release = session.evaluate(query, budget=unacorda.PureDP(20))
        assert release.columns == ("cell", "s", "s_se", "s_low", "s_high", "s_from", "s_to")
        for row in release.to_dicts():
            assert row["s_low"] <= row["s"] <= row["s_high"]
            assert row["s_to"] == pytest.approx(4, rel=0.5)
            assert row["s"] == pytest.approx(900, rel=0.3)
        assert str(release.to_pandas()["s_to"].dtype) == "float64"
        ordered = session.sql(
            "SELECT cell, SUM(x) AS s FROM t GROUP BY cell ORDER BY s DESC LIMIT 1",
            budget=unacorda.PureDP(5),
            keys={"cell": [0, 1]},
        )
        assert len(ordered.to_dicts()) == 1
        assert set(ordered.to_dicts()[0]) == {"cell", "s", *(f"s{e}" for e in ("_se", "_low"))} | {
            "s_high",
            "s_from",
            "s_to",
        }
        assert release.clamped().to_dicts()


def test_explain_says_what_is_known_beforehand_and_what_is_not() -> None:
    with opened(pa.table(repeated([1.0], cells=2))) as session:
        query = session.table("t").agg(s=unacorda.sum("x"), b=unacorda.find_bounds("x"))
        told = session.explain(query, budget=unacorda.PureDP(1), detail=True)
        assert session.spent == unacorda.PureDP(0)
    for name in ("s", "b"):
        forecast = told.forecasts[name]
        assert forecast.standard_error is None
        assert forecast.people_error is not None
        assert 10 < forecast.people_error < 100
    assert "how far beyond is not known" in str(told)
    assert "is known neither beforehand nor afterwards" in str(told)
    assert told.to_dict()["aggregates"]["s"]["people_error"] == told.forecasts["s"].people_error


def test_declared_bounds_are_used_where_there_are_some() -> None:
    with opened(
        pa.table(repeated([1.0], cells=1)), columns={"x": unacorda.Bounds(0, 9)}
    ) as session:
        query = session.table("t").agg(s=unacorda.sum("x"), t=unacorda.sum("x * x"))
        assert {type(a).__name__ for a in query.aggregates.values()} == {"BoundedSum"}


def test_a_crash_leaves_the_charge_and_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    right = DuckDB.run
    with opened(pa.table(repeated([1.0, 2.0], cells=2))) as session:

        def fails(engine: Any, asked: Any) -> Any:
            assert session.spent == unacorda.PureDP(3)  # reserved before anything is read
            return right(engine, asked)

        monkeypatch.setattr(DuckDB, "run", fails)
        session.evaluate(session.table("t").agg(s=unacorda.sum("x")), budget=unacorda.PureDP(3))


def test_numbers_of_people_have_no_text() -> None:
    people = Climbers(people=np.array([[424242]]), totals=[{0: 424242}])
    assert "424242" not in f"{people}{[people]!r}"
    assert Counter(people.above().shape) == Counter((1, 0))


def test_noise_is_the_one_that_is_told() -> None:
    made = unacorda.sum("x").bound_to(empty_scope())
    assert isinstance(made, AutomaticSum)
    reach = Reach.within(max_rows=4, cells=3, replaced=False)
    noise = made.noise(unacorda.PureDP(1), reach)
    assert isinstance(noise, ClampingSearch)
    # Half the share for the noise, over three parts: scale 6 per unit of the level.
    assert noise.noise(1).standard_deviation * 2**32 == pytest.approx(6 * math.sqrt(2), rel=1e-6)
    assert noise.search.solver.epsilon == Fraction(1, 6)
