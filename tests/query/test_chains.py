"""Chains of cuts: their law, what a unit tells through them, their errors, and when they serve."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from scipy import stats
from tests.query.counted_cells import counted_cells
from tests.query.many_cells import ask, repeated, values_of
from tests.query.test_several_quantiles import neighboring
from tests.support.cases import in_subtests
from tests.support.seams import (
    Chain,
    Cutting,
    Reach,
    chain_draws,
    chain_moves,
    cuts,
    cutting,
    finding,
    verify_record,
)
from tests.tiers import mostly_slow

import unacorda
from unacorda.bits import SeededBits

ONE = Reach.within(max_rows=1, cells=1, replaced=False)
QUARTILES = [Fraction(1, 4), Fraction(1, 2), Fraction(3, 4)]
DECILES = [Fraction(k, 10) for k in range(1, 10)]
UNEVEN = [Fraction(1, 10), Fraction(2, 3)]
PLACES = 2


def losses(
    counts: Sequence[int],
    wanted: Sequence[Fraction],
    total: int,
    slots: Sequence[int] | None = None,
) -> dict[tuple[int, ...], Fraction]:
    """Of every chain by its places, from the definition; rows are even over a point's places.

    slots: of each point, else 1.
    """
    pairs = zip(counts, slots or [1] * len(counts), strict=True)
    mass = [Fraction(c, own * PLACES) for c, own in pairs for _ in range(own * PLACES)]
    below = [Fraction(0), *itertools.accumulate(mass)]
    shares = [b - a for a, b in itertools.pairwise([Fraction(0), *wanted, Fraction(1)])]
    found = {}
    for places in itertools.combinations_with_replacement(range(len(mass)), len(wanted)):
        ends = [Fraction(0), *(below[place] for place in places), below[-1]]
        parts = [b - a for a, b in itertools.pairwise(ends)]
        zipped = zip(parts, shares, strict=True)
        found[places] = sum((abs(n - share * total) for n, share in zipped), Fraction(0))
    return found


def law(
    counts: Sequence[int],
    wanted: Sequence[Fraction],
    total: int,
    rate: Fraction,
    slots: Sequence[int] | None = None,
) -> dict[tuple[int, ...], float]:
    """Chances of the points of all cuts together."""
    found: dict[tuple[int, ...], float] = {}
    widths = PLACES * np.array(slots or [1] * len(counts))
    point_of = np.repeat(np.arange(len(counts)), widths).tolist()
    for places, loss in losses(counts, wanted, total, slots).items():
        points = tuple(point_of[place] for place in places)
        found[points] = found.get(points, 0.0) + math.exp(-float(rate * loss))
    whole = math.fsum(found.values())
    return {points: weight / whole for points, weight in found.items()}


def pvalue(seen: dict[Any, int], chances: dict[Any, float]) -> float:
    """Of a chi-square test with events that were rare put together."""
    total, e, f = sum(seen.values()), [0.0], [0.0]
    for event in sorted(chances, key=chances.__getitem__):
        e[-1] += chances[event] * total
        f[-1] += seen.get(event, 0)
        if e[-1] >= 8:
            e.append(0.0)
            f.append(0.0)
    e[-2:], f[-2:] = [sum(e[-2:])], [sum(f[-2:])]
    return float(stats.chisquare(f, np.array(e) * sum(f) / sum(e)).pvalue)


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("rate", [Fraction(1, 2), Fraction(4)], ids=str)
@pytest.mark.parametrize(
    ("counts", "total"),
    mostly_slow([([3, 0, 2, 1], 6), ([1, 5, 0, 0], 3), ([0, 0, 0, 0], 2), ([9, 1, 2, 0], 20)]),
)
def test_chains_have_their_law(
    counts: list[int], total: int, rate: Fraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    """800 draws; chi-square, false alarm 1e-8 a case. A rate a third off is noticed somewhere."""
    monkeypatch.setattr(chain_draws, "PLACES_LOG2", 1)
    monkeypatch.setattr(cuts, "PLACES_LOG2", 1)
    cells = 800
    found = chain_draws.chain_places(
        counted_cells(np.array([counts] * cells)),
        np.arange(5),
        wanted=UNEVEN,
        totals=[total] * cells,
        rate=rate,
        bits=SeededBits(5),
    )
    seen: dict[Any, int] = {}
    for points in found.T.tolist():
        seen[tuple(points)] = seen.get(tuple(points), 0) + 1
    assert pvalue(seen, law(counts, UNEVEN, total, rate)) > 1e-8
    if counts[0] == 3 and rate < 1:
        assert pvalue(seen, law(counts, UNEVEN, total, rate * 3)) < 1e-8


@pytest.mark.long
@pytest.mark.statistical
def test_chains_of_points_with_more_slots_have_their_law(monkeypatch: pytest.MonkeyPatch) -> None:
    """2,000 draws; chi-square, false alarm 1e-8. The law of points that are alike is another."""
    for part in (chain_draws, cuts):
        monkeypatch.setattr(part, "PLACES_LOG2", 1)
    counts, slots, rate = [3, 0, 2, 1], [4, 1, 1, 2], Fraction(1, 2)
    found = chain_draws.chain_places(
        counted_cells(np.array([counts] * 2_000)),
        np.concatenate([[0], np.cumsum(slots)]),
        wanted=UNEVEN,
        totals=[6] * 2_000,
        rate=rate,
        bits=SeededBits(6),
    )
    seen: dict[Any, int] = {}
    for points in found.T.tolist():
        seen[tuple(points)] = seen.get(tuple(points), 0) + 1
    assert pvalue(seen, law(counts, UNEVEN, 6, rate, slots)) > 1e-8
    assert pvalue(seen, law(counts, UNEVEN, 6, rate)) < 1e-8


@pytest.mark.long
@pytest.mark.statistical
def test_a_question_draws_from_the_law_about_a_noisy_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """256 cells. Chi-square, false alarm 1e-8."""
    monkeypatch.setattr(chain_draws, "PLACES_LOG2", 1)
    monkeypatch.setattr(cuts, "PLACES_LOG2", 1)
    monkeypatch.setattr(cutting, "_WORTH", -10.0)  # also where it is not worth it
    values, points, cells, budget = [0.0, 1.0, 1.0, 1.0, 3.0, 4.0], 5, 256, unacorda.PureDP(4)
    made = unacorda.quantiles("x", QUARTILES, 0, points - 1, resolution=1)
    noise: Any = made.noise(budget, ONE)
    assert isinstance(noise, Chain)
    asked = ask(repeated(values, cells=cells), {"a": made}, budget=budget, seed=3, cells=cells)
    drawn = [values_of(asked.release, f"a{part}").astype(int).tolist() for part in made.parts]
    seen: dict[Any, int] = {}
    for cell in zip(*drawn, strict=True):
        seen[cell] = seen.get(cell, 0) + 1
    counts = [values.count(v) for v in range(points)]
    tail = math.exp(-1 / float(noise.count.mechanism.scale))  # type: ignore[union-attr]
    chances: dict[Any, float] = {}
    wrong: dict[Any, float] = {}
    for total in range(-30, 40):
        weight = tail ** abs(total - len(values))
        for rate, into in ((noise.rate, chances), (noise.rate * 4, wrong)):
            for event, chance in law(counts, QUARTILES, max(total, 0), rate).items():
                into[event] = into.get(event, 0.0) + weight * chance
    for found in (chances, wrong):
        whole = math.fsum(found.values())
        found.update({event: chance / whole for event, chance in found.items()})
    assert pvalue(seen, chances) > 1e-8
    assert pvalue(seen, wrong) < 1e-8


@in_subtests("wanted", [QUARTILES, UNEVEN], ids=["quartiles", "uneven"])
@pytest.mark.parametrize(
    "reach",
    mostly_slow(
        [
            ONE,
            Reach.within(max_rows=2, cells=1, replaced=False),
            Reach.within(max_rows=2, cells=2, replaced=False),
            Reach.within(max_rows=1, cells=1, replaced=True),
            Reach.within(max_rows=1, cells=2, replaced=True),
        ],
        quick=3,
    ),
    ids=str,
)
def test_chains_of_all_groups_tell_no_more_than_their_share(
    reach: Reach, wanted: list[Fraction]
) -> None:
    """By enumeration, given the counts: the sum over cells of the ranges of log-ratios."""
    (noise, *_) = Chain.options(unacorda.PureDP(2), reach, wanted, {})
    told = float(Fraction(noise.draws.mechanism.epsilon))
    known: dict[Any, NDArray[Any]] = {}

    def exponents(row: Any, total: int) -> NDArray[Any]:
        key = (*row.tolist(), total)
        if key not in known:
            found = losses(key[:-1], wanted, total)
            known[key] = -np.array([float(noise.rate * loss) for loss in found.values()])
        return known[key]

    most = 0.0
    for total in (0, 3):
        for left, right in neighboring(reach, most=4):
            for one, other in itertools.product(left, right):
                moved = [
                    exponents(a, total) - exponents(b, total)
                    for a, b in zip(one, other, strict=True)
                ]
                most = max(most, sum(float(np.ptp(part)) for part in moved))
    assert most <= told * (1 + 1e-12)
    assert most > 0.8 * told


def test_a_row_that_is_replaced_counts_twice() -> None:
    limits: Any = {"max_rows": 2, "cells": 3}
    assert chain_moves(Reach.within(**limits, replaced=False)).l1 == 2
    assert chain_moves(Reach.within(**limits, replaced=True)).l1 == 4
    assert chain_moves(Reach.within(**limits, replaced=True)).l2_squared == 16


@pytest.mark.long
@pytest.mark.parametrize(
    ("scale", "total", "rate"),
    mostly_slow(
        [
            (1, 1_000, Fraction(2, 5)),
            (1, 700, Fraction(2, 5)),
            (1, 0, Fraction(1, 3)),
            (0, 7, Fraction(1)),
            (1, 1_000, Fraction(10**5)),
            (2**30, 1_000 << 30, Fraction(2, 5)),
            (1, 1_000, Fraction(1, 10**6)),
        ],
        quick=4,
    ),
)
def test_no_proposal_is_too_rare(
    scale: int, total: int, rate: Fraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a chance to accept were above 1 the law would not be exact; near 1 it may come."""
    chances = []
    accepted = chain_draws._accepted

    def watched(chain: Any, loss: Any, f: Fraction, bits: Any) -> bool:
        if loss is not None:
            top, bottom = chain.chance.numerator, chain.chance.denominator
            log = float(-f * loss - chain.normaliser) + math.log(top) - math.log(bottom)
            chances.append(log)
        return accepted(chain, loss, f, bits)

    monkeypatch.setattr(chain_draws, "_accepted", watched)
    counts = np.bincount(np.random.default_rng(1).integers(10, 90, 1_000), minlength=121) * scale
    found = chain_draws.chain_places(
        counted_cells(np.array([counts] * 4)),
        np.arange(122),
        wanted=DECILES,
        totals=[total] * 4,
        rate=rate,
        bits=SeededBits(1),
    )
    assert (np.diff(found, axis=0) >= 0).all()
    assert max(chances) <= 0
    assert len(chances) < 200


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("budget", mostly_slow([unacorda.PureDP(1), unacorda.GDP("0.6")]), ids=str)
def test_errors_of_chains_are_as_promised(budget: Any) -> None:
    """50 cells, five quantiles each, of 2,000 rows that do not repeat: to within 15 %.

    The mean of 250 squares, tied together within cells, has a standard error near 12 %.
    """
    rows, cells = 2_000, 50
    wanted = [Fraction(k, 6) for k in range(1, 6)]
    counts = np.zeros((cells, 2_401), dtype=np.int64)
    counts[:, 200 : 200 + rows] = 1
    noise = min(Chain.options(budget, ONE, wanted, {}), key=lambda chain: chain.log_scale)
    found = noise.places(counted_cells(counts), np.arange(2_402), SeededBits(2))
    errors = np.array([np.array(found[q]) - 199.5 - float(q) * rows for q in wanted])
    told = math.sqrt(sum(sd**2 for sd in noise.deviations.values()) / len(wanted))
    assert float(np.sqrt(np.mean(errors**2))) == pytest.approx(told, rel=0.15)
    assert (np.abs(errors) < noise.rank_error(slots=2_401)).all()


def test_the_better_way_is_taken_and_is_never_worse_than_one_by_one() -> None:
    deciles = finding(unacorda.PureDP(1), ONE, tuple(DECILES))
    cuts = Cutting.within(unacorda.PureDP(1), ONE, DECILES, {})
    assert isinstance(deciles, Chain)
    assert deciles.log_scale < cuts.log_scale - 0.5  # by two fifths
    assert isinstance(finding(unacorda.ZCDP("0.1"), ONE, tuple(DECILES)), Cutting)
    many = Reach.within(max_rows=1, cells=10_000, replaced=False)
    assert isinstance(finding(unacorda.PureDP(1), many, tuple(DECILES)), Cutting)
    assert isinstance(finding(unacorda.PureDP(1), ONE, (Fraction(0), *DECILES)), Cutting)
    for share in (unacorda.PureDP(1), unacorda.ZCDP("0.1"), unacorda.GDP(1)):
        for wanted in (QUARTILES, DECILES, UNEVEN, [Fraction(9, 10), Fraction(99, 100)]):
            best = finding(share, ONE, tuple(wanted))
            assert best.log_scale <= Cutting.within(share, ONE, wanted, {}).log_scale


@pytest.mark.parametrize("resolution", [None, 1e-9])
def test_deciles_of_a_table_are_found_within_the_budget(
    resolution: float | None,
) -> None:
    values = np.random.default_rng(3).lognormal(3, 1, 3_000)
    budget = unacorda.PureDP(2)
    with unacorda.Session(
        {"t": pa.table({"id": np.arange(3_000), "x": values})},
        unit=unacorda.Person("id", max_rows=1),
        budget=budget,
        bits=SeededBits(1),
    ) as session:
        asked = unacorda.quantiles("x", DECILES, 0, 1_000, resolution=resolution, interval="0.2")
        query = session.table("t").agg(x=asked)
        told = str(session.explain(query, budget=budget, detail=True))
        release = session.evaluate(query, budget=budget)
    assert release.charge == budget
    assert "for all 9 cuts at once, after a count" in told
    assert verify_record(release.to_json()).holds
    found = [release.answers[f"x_{k}0"].values[0] for k in range(1, 10)]
    assert found == sorted(found)
    ranks = [float((values < value).mean()) for value in found]
    assert ranks == pytest.approx([k / 10 for k in range(1, 10)], abs=0.02)


def test_a_table_without_rows_has_deciles() -> None:
    table = pa.table({"id": pa.array([], pa.int64()), "x": pa.array([], pa.float64())})
    with unacorda.Session({"t": table}, unit=unacorda.Row(), budget=unacorda.PureDP(1)) as session:
        query = session.table("t").agg(x=unacorda.quantiles("x", DECILES, 0, 1, resolution=1))
        (row,) = session.evaluate(query, budget=unacorda.PureDP(1)).to_dicts()
    found = [row[f"x_{k}0"] for k in range(1, 10)]
    assert found == sorted(found)
