"""What is printed can be: an estimate lies in its interval, and an interval never is a point."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.support.cases import in_subtests
from tests.support.seams import NOTHING, Answer
from tests.tiers import mostly_slow

import unacorda

SEEDS = range(10)
NUMBER = r"(-?[\d,]+(?:\.\d+)?(?:e[-+]\d+)?)"

# Values at an end of their range, where half of all noise lies beyond what is possible.
AT_AN_END: dict[str, tuple[Callable[[], Any], tuple[float, float]]] = {
    "count": (unacorda.count, (0, math.inf)),
    "count_people": (unacorda.count_people, (0, math.inf)),
    "sum": (lambda: unacorda.sum("none", 0, 100), (0, math.inf)),
    "mean": (lambda: unacorda.mean("high", 0, 100), (0, 100)),
    "proportion": (lambda: unacorda.proportion("high > 50"), (0, 1)),
    "ratio": (lambda: unacorda.ratio("none", "high", (0, 100), (0, 100)), (0, math.inf)),
    "weighted_mean": (lambda: unacorda.weighted_mean("high", "high", (0, 100), (0, 100)), (0, 100)),
    "variance": (lambda: unacorda.variance("high", 0, 100), (0, 5_000)),
    "stdev": (lambda: unacorda.stdev("high", 0, 100), (0, math.sqrt(5_000))),
    "covariance": (
        lambda: unacorda.covariance("even", "even", (0, 100), (0, 100)),
        (-5_000, 5_000),
    ),
    "correlation": (lambda: unacorda.correlation("even", "even", (0, 100), (0, 100)), (-1, 1)),
}


def table(rows: int) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "id": np.arange(rows),
            "g": ["a"] * rows,
            "high": np.full(rows, 100.0),
            "none": np.zeros(rows),
            "even": 100.0 * (np.arange(rows) % 2),
        }
    )


def releases(make: Callable[[], Any], *, rows: int, epsilon: float) -> list[unacorda.Release]:
    """Of a group with rows and of one without, under many noises."""
    found = []
    for seed in SEEDS:
        with unacorda.Session(
            {"t": table(rows)},
            unit=unacorda.Person("id", max_rows=1),
            budget=unacorda.PureDP(10),
            bits=unacorda.SeededBits(seed),
        ) as session:
            query = session.table("t").group_by("g", keys=["a", "b"]).agg(x=make())
            found.append(session.evaluate(query, budget=unacorda.PureDP(epsilon)))
    return found


@pytest.mark.long
@pytest.mark.parametrize("name", mostly_slow(AT_AN_END, quick=6))
@pytest.mark.parametrize(("rows", "epsilon"), mostly_slow([(300, 1), (20, 0.05)]))
def test_estimates_lie_in_their_intervals_and_those_in_what_is_possible(
    name: str, rows: int, epsilon: float
) -> None:
    make, (low, high) = AT_AN_END[name]
    clamping = []
    for release in releases(make, rows=rows, epsilon=epsilon):
        raw, clamped = release.answers["x"], release.clamped().answers["x"]
        lines = str(release).splitlines()[1:3]
        for place, line in enumerate(lines):
            value, a, b = clamped.values[place], clamped.lower[place], clamped.upper[place]
            assert low <= value <= high
            assert low <= (low if a is None else a) <= value <= (high if b is None else b) <= high
            assert a is None or b is None or a < b
            before = raw.lower[place], raw.upper[place]
            assert before[0] is None or before[1] is None or before[0] < before[1]
            clamping.append(raw.values[place] != value)
            if not clamped.usable[place]:
                assert line.rstrip().endswith(NOTHING)
            elif found := re.search(rf"{NUMBER} \({NUMBER} to {NUMBER}\)$", line):
                shown, first, last = (float(part.replace(",", "")) for part in found.groups())
                assert first <= shown <= last
                assert first < last
            elif found := re.search(rf"{NUMBER} ± {NUMBER}$", line):
                assert float(found[2].replace(",", "")) > 0
            cells = list(release.cells())[place]
            assert (cells[-1] == NOTHING) == line.endswith(NOTHING)
    # The estimate of a correlation is within its limits by itself.
    assert any(clamping) or name == "correlation", "no noise of this size shows clamping"


@pytest.mark.long
def test_a_mean_of_nobody_is_no_usable_answer() -> None:
    found = [
        str(release)
        for release in releases(lambda: unacorda.mean("high", 0, 100), rows=20, epsilon=0.05)
    ]
    assert sum(NOTHING in text for text in found) > len(found) / 2


@pytest.mark.long
@pytest.mark.parametrize(
    "make",
    [
        lambda: unacorda.median("high", 0, 100, interval=0.5),
        lambda: unacorda.quantiles("high", [0.1, 0.9], 0, 100, interval=0.5),
        lambda: unacorda.iqr("high", 0, 100, interval=0.5),
    ],
)
def test_a_quantile_whose_interval_is_its_whole_range_is_no_usable_answer(
    make: Callable[[], Any],
) -> None:
    unknown = 0
    for release in releases(make, rows=20, epsilon=1e-6):
        lines = str(release).splitlines()[1:3]
        for answer in release.answers.values():
            for line, low, high in zip(lines, answer.lower, answer.upper, strict=True):
                if (low, high) == (0, 100):
                    assert NOTHING in line
                    unknown += 1
        whole = [list(one.usable) for one in release.answers.values()]
        for place, cells in enumerate(release.cells()):
            assert cells.count(NOTHING) == sum(not usable[place] for usable in whole)
    assert unknown > len(SEEDS)


@pytest.mark.long
def test_a_quantile_without_an_interval_is_shown() -> None:
    for release in releases(lambda: unacorda.median("high", 0, 100), rows=20, epsilon=1e-6):
        assert NOTHING not in str(release)


@pytest.mark.long
@pytest.mark.parametrize(
    ("low", "high"),
    mostly_slow([(5, 5.000001), (1e9, 1e9 + 1), (0, 1e-9), (99_999, 100_000)], quick=2),
)
def test_narrow_intervals_are_shown_with_the_digits_that_tell_their_ends_apart(
    low: float, high: float
) -> None:
    for make in (
        lambda: unacorda.mean("high", low, high),
        lambda: unacorda.median("high", low, high, interval=0.5),
    ):
        for release in releases(make, rows=300, epsilon=9):
            line = str(release).splitlines()[1]
            if found := re.search(rf"{NUMBER} \({NUMBER} to {NUMBER}\)$", line):
                shown, first, last = (float(part.replace(",", "")) for part in found.groups())
                assert first <= shown <= last
                assert first < last


@in_subtests(
    ("value", "ends", "limits", "expected"),
    [
        (-30, (-42, -18), (0, math.inf), (0, 0, 12)),
        (-5, (-17, 7), (0, math.inf), (0, 0, 12)),
        (5, (-7, 17), (0, math.inf), (5, 0, 17)),
        (130, (118, 142), (0, 100), (100, 88, 100)),
        (13_428, (0, 100), (0, 100), (100, 0, 100)),
        (50, (40, 60), (0, 100), (50, 40, 60)),
        (-3, (None, None), (0, 100), (0, None, None)),
    ],
)
def test_clamping_keeps_half_of_an_interval_and_all_of_it_that_is_possible(
    value: float, ends: Any, limits: tuple[float, float], expected: tuple[Any, ...]
) -> None:
    answer = Answer(
        values=[value], standard_errors=[1.0], lower=[ends[0]], upper=[ends[1]], limits=limits
    )
    once = answer.clamped()
    assert (once.values[0], once.lower[0], once.upper[0]) == expected
    assert once.clamped() == once


def test_errors_are_about_the_kept_rows_where_rows_can_be_dropped() -> None:
    texts = []
    for unit in (unacorda.Person("id", max_rows=1), unacorda.Row()):
        with unacorda.Session({"t": table(20)}, unit=unit, budget=unacorda.PureDP(10)) as session:
            query = session.table("t").agg(n=unacorda.count(), s=unacorda.sum("high", 0, 9))
            texts.append(str(session.explain(query, budget=unacorda.PureDP(1), detail=True)))
    assert texts[0].count("of the exact answer on the kept rows") == 2
    assert "of the exact answer\n" in texts[1]
    assert "kept rows" not in texts[1]


@pytest.mark.long
def test_a_first_look_shows_no_mean_outside_its_range() -> None:
    texts = []
    for seed in range(12):
        with unacorda.Session(
            {"t": table(12)},
            unit=unacorda.Person("id", max_rows=1),
            budget=unacorda.PureDP("0.02"),
            columns={"high": unacorda.Bounds(0, 100)},
            bits=unacorda.SeededBits(seed),
        ) as session:
            found = session.describe("t", budget=session.budget)
            texts += re.findall(r"mean +(.*)", str(found))
    assert any(NOTHING in text for text in texts)
    for text in texts:
        if NOTHING not in text:
            shown = re.match(rf"{NUMBER} (?:\({NUMBER} to {NUMBER}\)|± )", text)
            assert shown is not None
