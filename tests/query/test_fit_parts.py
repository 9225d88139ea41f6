"""Parts of the units of a fit: nobody is in both, nobody moves another, noise for who changes."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.query.fit_wishes import WISHES, Wished

import unacorda
from unacorda import GDP, AddRemove, ReplaceOne
from unacorda.privacy.conversions.gaussian import gdp_from_bounded_range
from unacorda.privacy.neighbors import Neighbors
from unacorda.query.fit_asking import Purse
from unacorda.query.fit_rows import rows_of
from unacorda.query.fit_sums import count_noise, farthest_of, noise_of
from unacorda.query.units import Person, Reach, Row, Unit

SALT = 12345
Line = tuple[Any, Any, Any]


def dealt(
    tables: Sequence[Sequence[Line]], unit: Unit, *, salts: Sequence[int] = (SALT,)
) -> list[list[Counter[Any]]]:
    """The rows (x0, x1, y) of both parts and of all, as multisets, of each table and salt."""
    kinds = {"k": pa.int64(), "who": pa.int64(), "x": pa.float64(), "y": pa.float64()}
    lines = [(number, *line) for number, some in enumerate(tables) for line in some]
    columns = zip(*lines, strict=True)
    table = pa.table({k: pa.array(c, t) for (k, t), c in zip(kinds.items(), columns, strict=True)})
    found = []
    with unacorda.Session({"t": table}, unit=unit, budget=GDP(1)) as session:
        for number, salt in itertools.product(range(len(tables)), salts):
            query = session.table("t").where(f"k = {number}")
            # x1 is -0 where x is.
            rows = rows_of(query, features=["x", "x * 1"], target="y")
            held: Any = rows.held(session._admission.admit(rows.query, salt=7))
            with closing(held):
                sides = [one.relation(gaps=True) for one in (*rows.parts(0.3, salt=salt), rows)]
                told = [held._cursor.execute(held._before + one.text).fetchall() for one in sides]
            found.append([Counter(lines) for lines in told])
    return found


STRANGE = [None, math.nan, math.inf, -math.inf, 0.0, -0.0, 1e308, 5e-324, 3.0]
LINES: list[Line] = [
    *((who, x, float(who % 3)) for who, x in enumerate(STRANGE * 2)),
    *((5, 3.0, 1.0) for _ in range(4)),
    *((6, x, 2.0) for x in (0.0, -0.0, 0.0)),
]
UNITS: list[Unit] = [Row(), Person("who", max_rows=20), Person("who", max_rows=2, hash="md5")]


@pytest.mark.parametrize("unit", UNITS, ids=repr)
def test_two_parts_are_all_rows_and_who_is_removed_changes_one_of_them_by_her_rows(
    unit: Unit,
) -> None:
    who = list(range(len(LINES))) if isinstance(unit, Row) else [line[0] for line in LINES]
    without = [
        [line for line, one in zip(LINES, who, strict=True) if one != gone]
        for gone in dict.fromkeys(who)
    ]
    before, *afters = dealt([LINES, *without], unit)
    assert before[0] + before[1] == before[2]
    changed = [0, 0]
    for after in afters:
        assert all(one <= other for one, other in zip(after, before, strict=True))
        lost = [(before[part] - after[part]).total() for part in (0, 1)]
        assert min(lost) == 0
        assert max(lost) <= (1 if isinstance(unit, Row) else unit.max_rows or 0)
        changed = [a + (b > 0) for a, b in zip(changed, lost, strict=True)]
    assert min(changed) > 0


def test_identical_rows_are_dealt_out_one_by_one_and_another_salt_deals_anew() -> None:
    lines: list[Line] = [(who, 2.0, 3.0) for who in range(1500)]
    for unit in (UNITS[0], UNITS[2]):
        sizes = [found[0].total() for found in dealt([lines], unit, salts=range(2))]
        # 450 expected, a deviation of 18: seven of them.
        assert all(abs(size - 450) < 124 for size in sizes)
        assert len(set(sizes)) > 1


def reach(neighbors: Neighbors, rows: int) -> Reach:
    return Reach.within(max_rows=rows, cells=1, replaced=neighbors is ReplaceOne)


@pytest.mark.parametrize("rows", [1, 7])
@pytest.mark.parametrize("wish", [*WISHES, Wished(vector=["y"], bound=Fraction(1))], ids=repr)
def test_who_leaves_one_part_for_the_other_loses_no_more_than_who_is_replaced(
    wish: Wished, rows: int
) -> None:
    alone, swapped = reach(AddRemove, rows), reach(ReplaceOne, rows)
    # Noise of one deviation a mu under removal: how far a removal moves the sums.
    removal = noise_of(wish, alone).standard_deviation
    plain, parted = (
        noise_of(wish, swapped, parted=one).standard_deviation for one in (False, True)
    )
    assert parted >= plain
    assert 2 * (removal / parted) ** 2 <= 1 + 1e-9
    assert noise_of(wish, alone, parted=True) == noise_of(wish, alone)


@pytest.mark.parametrize("rows", [1, 7])
@pytest.mark.parametrize("mu", [0.01, 1, 30])
def test_so_do_counts_and_choices(mu: float, rows: int) -> None:
    alone, swapped = reach(AddRemove, rows), reach(ReplaceOne, rows)
    budget = GDP(mu)
    noises: list[Any] = [
        count_noise(budget, one, parted=parted).mechanism
        for one, parted in ((alone, False), (swapped, False), (swapped, True))
    ]
    assert noises[1].sigma == pytest.approx(rows / mu)  # replaced within its part
    assert 2 * (rows / noises[2].sigma) ** 2 <= budget.mu_squared
    for one, parted, moved in ((alone, True, 1.0), (swapped, True, 1.0), (swapped, True, 0.5)):
        chosen = farthest_of(budget, one, bound=5, count=3, parted=parted)
        # A score moves so much of what is told, and so much of an epsilon is felt.
        each = Fraction(chosen.epsilon) / 3 * Fraction(moved)
        assert 3 * gdp_from_bounded_range(each) ** 2 <= mu**2 * (min(1, moved))
        told = chosen.sensitivity
        assert told == 5 * rows * (1 if one is alone else 2)


def test_each_part_has_the_whole_of_what_is_left_and_no_more() -> None:
    purse = Purse(GDP(5))
    purse.pay(GDP(3))
    parts = purse.shared_out()
    for one in parts:
        one.pay(GDP(4))
        with pytest.raises(AssertionError):
            one.pay(GDP("0.001"))
    with pytest.raises(AssertionError):
        purse.pay(GDP("0.001"))


def test_sums_that_are_farthest_from_0_are_chosen_by_all_rows_with_a_target() -> None:
    drawn = np.random.default_rng(1)
    x = drawn.normal(size=(400, 3))
    table = pa.table(
        {
            "a": np.where(drawn.random(400) < 0.5, np.nan, -9.0),  # -9 on half of the rows
            "b": np.where(np.arange(400) < 350, 1.0, np.nan),  # 1 on most of them
            "c": x[:, 2],
            "y": np.where(np.arange(400) < 390, 1.0, np.nan),
        }
    )

    class Asks:
        budget = GDP(10**6)

        def fit_table(self, asking: Any) -> None:
            self.best, self.event = asking.best(
                [{"u": "x0 * y"}], ["u", "x1", "x2", "1e9"], bound=8, count=4, budget=GDP(10**6)
            )

    asks = Asks()
    with unacorda.Session({"t": table}, unit=Row(), budget=asks.budget) as session:
        session.fit(asks, "t", features=["a", "b", "c"], target="y")
    # 8 * 390, about -8 * 195, 350, and rounded normal numbers.
    assert asks.best == [3, 0, 1, 2]
