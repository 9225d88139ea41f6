"""What draws in many cells cost together, against every way to spread a unit's rows over them."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from tests.support.cases import in_subtests
from tests.support.seams import Draws, Reach, Sensitivity, Share, draws_for, of_ranks, of_totals
from tests.tiers import mostly_long

import unacorda
from unacorda import accounting
from unacorda.privacy import events
from unacorda.privacy.conversions.concentrated import gdp_from_bounded_range
from unacorda.privacy.guarantees import GDP, ZCDP, PureDP

SHARES: list[Share] = [PureDP(1), PureDP(20), ZCDP("1/2"), ZCDP(90), GDP(1), GDP("0.01"), GDP(12)]
LIMITS: list[dict[str, int]] = [
    {"max_rows": 1},
    {"max_rows": 3},
    {"max_groups": 3, "max_rows_per_group": 1},
    {"max_groups": 2, "max_rows_per_group": 2},
    {"max_rows": 3, "max_rows_per_group": 2},
    {"max_rows": 3, "max_groups": 2},
]
REACHES = sorted(
    {
        Reach.within(**limits, cells=cells, replaced=replaced)
        for limits in LIMITS
        for cells in (1, 2, 4)
        for replaced in (False, True)
    },
    key=str,
)


def spreads(reach: Reach) -> Iterator[tuple[int, ...]]:
    """The ways for so many rows of a unit to lie in the cells."""
    for rows in itertools.product(range(reach.per_cell + 1), repeat=reach.cells):
        if sum(rows) <= reach.rows and sum(map(bool, rows)) <= reach.touched:
            yield rows


def rank_moves(reach: Reach, q: Fraction) -> set[tuple[Fraction, ...]]:
    """By cell the largest change of a loss where so many rows go and so many come."""
    others = list(spreads(reach)) if reach.replaced else [(0,) * reach.cells]
    return {
        tuple(
            sorted(
                max(a * q + b * (1 - q), a * (1 - q) + b * q)
                for a, b in zip(gone, come, strict=True)
            )
        )
        for gone in spreads(reach)
        for come in others
    }


def total_moves(reach: Reach) -> set[tuple[Fraction, ...]]:
    """The same for losses that count people."""
    others = list(spreads(reach)) if reach.replaced else [(0,) * reach.cells]
    return {
        tuple(sorted(Fraction(bool(a or b)) for a, b in zip(gone, come, strict=True)))
        for gone in spreads(reach)
        for come in others
    }


def worst(share: Share, rate: Fraction, moves: set[tuple[Fraction, ...]]) -> float:
    """The most that draws at this rate cost, as a part of the share."""
    ranges = [[2 * rate * move for move in cells] for cells in moves]
    match share:
        case PureDP(epsilon=epsilon):
            return float(max(map(sum, ranges)) / epsilon)
        case ZCDP(rho=rho):
            return float(max(sum(e**2 for e in cells) for cells in ranges) / 8 / rho)
        case GDP():
            spent = max(math.fsum(gdp_from_bounded_range(e) ** 2 for e in c) for c in ranges)
            return spent / float(share.mu_squared)


def priced(share: Share, event: events.Event) -> float:
    match share:
        case PureDP(epsilon=epsilon):
            return accounting.epsilon(event, delta=0) / float(epsilon)
        case ZCDP(rho=rho):
            return accounting.rho(event) / float(rho)
        case GDP():
            return 0.0


@pytest.mark.parametrize("share", mostly_long(SHARES, quick=3), ids=str)
@in_subtests("reach", REACHES, ids=str)
def test_no_way_to_spread_rows_costs_more_than_the_share(reach: Reach, share: Share) -> None:
    cases: list[tuple[Callable[[Reach], Sensitivity], int, set[tuple[Fraction, ...]]]] = [
        (partial(of_ranks, quantile=q), q.denominator, rank_moves(reach, q))
        for q in (Fraction(1, 2), Fraction(9, 10))
    ]
    cases.append((of_totals, 1, total_moves(reach)))
    for moves, unit, found in cases:
        draws = draws_for(share, reach, moves, unit=unit)
        # Losses are kept times the unit, and the rate is that much less.
        spent = worst(share, draws.mechanism.factor * unit, found)
        assert spent <= 1
        if not isinstance(share, GDP):
            assert spent > 1 - 1e-9  # the largest rate that there can be
            # Ranges as wide as these cost less than their square says.
            least = 0 if share == ZCDP(90) else 1 - 1e-9
            assert least < priced(share, draws.event) <= 1 + 1e-12
        elif share.mu_squared < 1:
            assert spent > 0.99  # the slope at 0 is what squares rest on


def rate(draws: Draws) -> float:
    return float(draws.mechanism.factor)


def test_squares_are_never_worse_than_one_charge_or_a_charge_for_each_group() -> None:
    reach = Reach.within(max_rows=10, max_rows_per_group=2, cells=50, replaced=False)
    ranks = partial(of_ranks, quantile=Fraction(1, 2))
    found = draws_for(ZCDP("1/2"), reach, ranks, unit=2)
    together, apart = 2 / (2 * 10), 2 / math.sqrt(10) / (2 * 2)
    assert rate(found) == pytest.approx(2 / math.sqrt(5 * 4) / 2)
    assert rate(found) > max(together, apart)


def test_extremes_of_many_groups_cost_by_squares() -> None:
    """Ten groups of a person: the people left out grow with the root of ten, not with ten."""
    table = pa.table({"id": [1], "g": [1], "x": [1.0]})

    def beyond(**limits: int) -> int:
        unit = unacorda.Person("id", **dict[str, Any](limits))
        with unacorda.Session({"t": table}, unit=unit, budget=unacorda.ZCDP(1)) as session:
            query = session.table("t").group_by("g", keys=range(100))
            query = query.agg(most=unacorda.max("x", 0, 10))
            page = session.explain(query, budget=unacorda.ZCDP(1))
            assert page.cost == unacorda.ZCDP(1)
            found = page.forecasts["most"].people_error
            assert found is not None
            return found

    assert beyond(max_rows=10) < 3.3 * beyond(max_rows=1)
    assert beyond(max_rows=40, max_groups=10) == beyond(max_rows=10)
