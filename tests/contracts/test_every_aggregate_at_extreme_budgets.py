"""Whatever the budget, an aggregate is refused before anything is spent, or it answers."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math

import pyarrow as pa
import pytest
from tests.query import neighbor_tables

import unacorda
from unacorda.bits import SeededBits
from unacorda.errors import InvalidParameter
from unacorda.privacy.guarantees import Guarantee

TABLE = pa.table(
    {
        "who": [1, 2, 2, 3, 4],
        "region": ["a", "b", None, "a", "a"],
        "x": [0.5, -math.inf, 1e308, None, 7.0],
        "whole": [1, -(2**62), None, 0, 3],
        "note": ["3", "z", None, "-1e999", "nan"],
    }
)
# One question of each family: the noise of the others differs in its numbers alone.
MAKERS = {kind.__name__: next(iter(m.values())) for kind, m in neighbor_tables.AGGREGATES.items()}
AMOUNTS = ("1e-300", "1e-155", "1e-100", "1e-30", "1e-16", "1e-9", "1e-4", "1e3", "1e6")
KINDS = (unacorda.PureDP, unacorda.ZCDP, unacorda.GDP)
EVERY: list[Guarantee] = [kind(amount) for kind in KINDS for amount in AMOUNTS]
EVERY += [unacorda.ApproxDP(amount, "1e-6") for amount in AMOUNTS]
QUICK: set[Guarantee] = {unacorda.PureDP("1e-100"), unacorda.ZCDP("1e-300"), unacorda.PureDP("1e6")}


@pytest.mark.long
@pytest.mark.parametrize(
    "budget", [b if b in QUICK else pytest.param(b, marks=pytest.mark.slow) for b in EVERY]
)
def test_it_is_refused_for_nothing_or_answers(budget: Guarantee) -> None:
    unit = unacorda.Person("who", max_rows=2, neighbors=unacorda.ReplaceOne)
    whole = budget * len(MAKERS)
    with unacorda.Session({"t": TABLE}, unit=unit, budget=whole, bits=SeededBits(1)) as session:
        for make in MAKERS.values():
            spent = session.spent
            query = session.table("t").group_by("region", keys=["a", "b"]).agg(answer=make())
            try:
                release = session.evaluate(query, budget=budget)
            except InvalidParameter:
                assert session.spent == spent
            else:
                assert len(release.to_dicts()) == 2 * query.lines
                assert release.clamped().to_json()
                assert str(session.explain(query, budget=budget, detail=True))


def test_there_is_one_of_each() -> None:
    assert len(MAKERS) == len(neighbor_tables.AGGREGATES)
