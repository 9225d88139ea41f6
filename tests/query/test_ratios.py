"""Ratios, proportions, weighted means, counts by condition: exact, and as far off as promised."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.query.many_cells import Floats, ask
from tests.query.two_columns import RAGGED, one_answer, two_columns, typical_first
from tests.support.seams import Ratio

import unacorda
from unacorda import count_if, proportion, ratio, weighted_mean
from unacorda.errors import InvalidParameter, MissingBound

pytestmark = pytest.mark.statistical

CELLS = 3_000
SOURCE = np.random.default_rng(9)
_X = SOURCE.gamma(2, 10, 60)
PAIRS: dict[str, tuple[Floats, Floats]] = {
    "dependent": (_X, _X / 2 + SOURCE.gamma(2, 20, 60)),
    "at the ends": (np.array([0.0, 100.0, 500.0] * 20), np.array([150.0, 1e9, 0.0] * 20)),
    "two rows": (np.array([10.0, 90.0]), np.array([2.0, 30.0])),
}
BUDGETS: dict[str, Any] = {"Laplace": unacorda.PureDP(16), "normal": unacorda.ZCDP(16)}
AGGREGATES: dict[str, Any] = {
    "ratio": lambda: ratio("x", "y", (0, 100), (0, 150)),
    "signed": lambda: ratio("x", "y", (-20, 100), (1, 150)),
    "weighted": lambda: weighted_mean("y", "x", (0, 150), (1, 30)),
    "proportion": lambda: proportion("x > 20"),
}


def _truths(x: Floats, y: Floats) -> dict[str, float]:
    w = np.clip(x, 1, 30)
    held = np.clip(y, 0, 150)
    return {
        "ratio": float(np.clip(x, 0, 100).sum() / held.sum()),
        "signed": float(np.clip(x, -20, 100).sum() / np.clip(y, 1, 150).sum()),
        "weighted": float((w * held).sum() / w.sum()),
        "proportion": float(np.mean(x > 20)),
    }


def test_almost_without_noise_they_are_those_of_rows_where_both_are_present() -> None:
    x, y = RAGGED
    held = np.array([30.0, 50.0, 1e9, 20.0]), np.array([2.0, 119.0, 60.0, -1e9])
    for name, truth in _truths(*held).items():
        if name != "proportion":
            found = one_answer(x, y, AGGREGATES[name]())
            assert found.values[0] == pytest.approx(truth, rel=1e-3)


def test_conditions_that_are_not_known_are_left_out_of_shares_and_not_counted() -> None:
    x = [30.0, None, 5.0, 40.0, math.nan, 60.0] * 40
    found = one_answer(x, x, proportion("x > 20"))
    assert found.values[0] == pytest.approx(3 / 4, rel=1e-3)
    assert one_answer(x, x, count_if("x > 20")).values[0] == 120
    assert one_answer(x, x, count_if("x IS NULL OR x = 5")).values[0] == 120


@pytest.mark.long
@pytest.mark.parametrize(("kind", "name"), typical_first(PAIRS, BUDGETS))
def test_they_err_as_promised_and_their_intervals_cover(kind: str, name: str) -> None:
    """Within 12% for 3,000 draws: 5.8 standard deviations at a kurtosis of 6, the most there is."""
    x, y = PAIRS[kind]
    asked = ask(
        two_columns(x, y, cells=CELLS),
        {aggregate: make() for aggregate, make in AGGREGATES.items()},
        budget=BUDGETS[name],
        seed=41,
        cells=CELLS,
        assuming=unacorda.Assume(
            rows=len(x),
            values={"x": x.tolist(), "y": y.tolist(), "x > 20": (x > 20).astype(float).tolist()},
        ),
    )
    for aggregate, truth in _truths(x, y).items():
        # Of two rows one draw in thousands divides by next to nothing.
        asked.check(aggregate, truth, within=None if kind == "two rows" else 0.12)
        low, high = asked.ends(aggregate)
        assert ((truth < low) | (truth > high)).any() or kind == "two rows"


@pytest.mark.parametrize("signed", [(0, 100), (-100, 0), (-20, 100), (5, 100)])
def test_a_ratio_s_numbers_move_no_further_than_told_and_need_less_noise(
    signed: tuple[int, int],
) -> None:
    """Against both sums with half of the budget each, at ratios about 1 of the largest."""
    lower, upper = signed
    with unacorda.Session(
        {"t": pa.table({"x": [0.0], "y": [0.0]})}, unit=unacorda.Row(), budget=unacorda.PureDP(1)
    ) as session:
        asked = session.table("t").agg(a=ratio("x", "y", signed, (0, 150))).aggregates["a"]
    assert isinstance(asked, Ratio)
    largest = max(abs(lower), abs(upper))
    for strategy, power in ((asked.strategies.l1, 1), (asked.strategies.l2, 2)):
        matrix = np.array(strategy.matrix, dtype=float)
        told = max(np.sum(np.abs(np.array(c, dtype=float)) ** power) for c in strategy.removed)
        told = float(told) ** (1 / power) / strategy.fine
        for x, y in itertools.product(np.linspace(lower, upper, 9), np.linspace(0, 150, 9)):
            moved = np.sum(np.abs(matrix @ [x / largest, y / 150]) ** power) ** (1 / power)
            assert moved <= told * (1 + 1e-9)
        theirs = 2.0 if power == 1 else math.sqrt(2.0)
        for t in (0.5, 1.0, 2.0):
            weights = np.array([1.0, -t if upper > 0 else t])
            ours = told * np.linalg.norm(weights @ np.linalg.inv(matrix))
            assert ours < (0.8 if lower >= 0 or upper <= 0 else 1.01) * theirs * math.hypot(1, t)


def test_what_cannot_divide_or_weigh_is_refused_by_name() -> None:
    table = pa.table({"x": [1.0], "y": [2.0]})
    with unacorda.Session({"t": table}, unit=unacorda.Row(), budget=unacorda.PureDP(1)) as session:
        query = session.table("t")
        with pytest.raises(InvalidParameter, match="denominator_bounds"):
            query.agg(a=ratio("x", "y", (0, 1), (-1, 1)))
        with pytest.raises(InvalidParameter, match="weights_bounds"):
            query.agg(a=weighted_mean("x", "y", (0, 1), (-1, 1)))
        for make in (ratio, weighted_mean):
            with pytest.raises(MissingBound, match="'y'"):
                query.agg(a=make("x", "y", (0, 1)))
            with pytest.raises(InvalidParameter):
                make("x", "y", (0, 0), (0, 1))
        for condition in (count_if, proportion):
            with pytest.raises(InvalidParameter, match="condition"):
                query.agg(a=condition("x + 1"))
