"""What stands below a release: marks, their legend, clamping, and answers without an interval."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.query.exact_answers import opened
from tests.support.seams import NOTHING, Answer, Release

import unacorda
from unacorda import PureDP

FRAME = pd.DataFrame(
    {
        "id": np.arange(3_000) % 1_500,
        "x": np.random.default_rng(1).uniform(0, 100, 3_000),
        "y": np.random.default_rng(2).uniform(0, 50, 3_000),
        "s": list("abc") * 1_000,
    }
)

INTERVALS: dict[str, Any] = {
    "count": unacorda.count(),
    "people": unacorda.count_people(),
    "count_if": unacorda.count_if("x > 50"),
    "distinct": unacorda.count_distinct("s"),
    "sum": unacorda.sum("x", 0, 100),
    "total": unacorda.sum("x"),
    "vector": unacorda.vector_sum(["x", "y"], norm=100),
    "mean": unacorda.mean("x", 0, 100),
    "proportion": unacorda.proportion("x > 50"),
    "weighted": unacorda.weighted_mean("x", "y", (0, 100), (0, 50)),
    "quantile": unacorda.quantile("x", 0.9, 0, 100, interval=0.5),
    "quantiles": unacorda.quantiles("x", [0.1, 0.5], 0, 100, interval=0.5),
    "iqr": unacorda.iqr("x", 0, 100, interval=0.5),
    "histogram": unacorda.histogram("x", [0, 50, 100]),
    "bins": unacorda.histogram("x", bins=3, lower=0, upper=100),
    "top": unacorda.top("s", 2, ["a", "b", "c"]),
    "ratio": unacorda.ratio("x", "y", (0, 100), (0, 50)),
    "variance": unacorda.variance("x", 0, 100),
    "stdev": unacorda.stdev("x", 0, 100),
    "covariance": unacorda.covariance("x", "y", (0, 100), (0, 50)),
    "correlation": unacorda.correlation("x", "y", (0, 100), (0, 50)),
}
"""Every aggregate whose noise gives an interval."""

NONE: dict[str, tuple[Any, str]] = {
    "quantile": (
        unacorda.quantile("x", 0.9, 0, 100),
        "a: no interval (interval=0.5, MEDIAN_WITH_INTERVAL",
    ),
    "quantiles": (
        unacorda.quantiles("x", [0.1, 0.5], 0, 100),
        "); its rank is off by at most",
    ),
    "iqr": (unacorda.iqr("x", 0, 100), "); its rank is off by at most"),
    "min": (unacorda.min("x", 0, 100), "are below it with 95% probability"),
    "max": (unacorda.max("x", 0, 100), "exceed it with 95% probability"),
}
"""Those of which the noise bounds ranks or people alone, and what is stated of them."""


def released(aggregate: Any, epsilon: float = 1) -> Release:
    unit = unacorda.Person("id", max_rows=2)
    with opened(FRAME, unit=unit, budget=PureDP(10)) as session:
        query = session.table("t").agg(a=aggregate)
        return session.evaluate(query, budget=PureDP(str(epsilon)))


@pytest.mark.parametrize("name", INTERVALS)
def test_every_number_that_can_have_an_interval_has_one(name: str) -> None:
    release = released(INTERVALS[name])
    for answer in release.answers.values():
        assert None not in answer.lower
        assert None not in answer.upper
    assert "no interval" not in str(release)


@pytest.mark.parametrize("name", NONE)
def test_an_answer_without_an_interval_states_what_is_known_of_it(name: str) -> None:
    aggregate, stated = NONE[name]
    release = released(aggregate)
    assert all(answer.lower[0] is None for answer in release.answers.values())
    assert stated in str(release)
    assert stated in release._repr_html_()


def test_clamped_values_and_clamped_totals_are_stated() -> None:
    assert "a: x is clamped to [0, 100]" in str(released(unacorda.mean("x", 0, 100)))
    both = str(released(INTERVALS["ratio"]))
    assert "a: x is clamped to [0, 100]" in both
    assert "a: y is clamped to [0, 50]" in both
    assert "clamped" not in str(released(unacorda.count()))
    assert "the sum of clamped totals" in str(released(unacorda.sum("x")))


def test_marks_and_their_legend_appear_where_they_are_needed() -> None:
    precise, star = str(released(unacorda.count())), "*: the 95% interval is wider than the value"
    assert "*" not in precise
    little = str(released(unacorda.count(), epsilon=0.001))
    assert ") *" in little
    assert star in little
    nothing = str(released(unacorda.mean("x", 0, 100), epsilon=0.001))
    assert nothing.splitlines()[1].strip() == NOTHING
    assert f"{NOTHING}: with this noise every possible value fits" in nothing
    assert star not in nothing
    assert NOTHING in str(released(unacorda.find_bounds("x"), epsilon=0.001))


@given(value=st.floats(-100, 100), below=st.floats(0, 300), above=st.floats(0, 300))
def test_a_star_means_that_the_interval_is_wider_than_the_value(
    value: float, below: float, above: float
) -> None:
    answer = Answer(
        values=[value, 1.0],
        standard_errors=[1.0, 0.0],
        lower=[value - below, 1.0],
        upper=[value + above, 1.0],
    )
    wide = (value + above) - (value - below) > abs(value)
    assert answer.imprecise == [wide, False]
    assert answer.marks == ([" *", "  "] if wide else ["", ""])
    assert dataclasses.replace(answer, is_range=True).marks == ["", ""]
    unknown = dataclasses.replace(answer, lower=[None, 1.0])
    assert unknown.marks == ["", ""]


RANKED = {
    "p": unacorda.median("x", 0, 100),
    "q": unacorda.quantiles("x", [0.1, 0.9], 0, 100),
    "r": unacorda.iqr("x", 0, 100),
    "hi": unacorda.max("x", 0, 100),
    "lo": unacorda.min("x", 0, 100),
}
"""Answers whose noise is known in ranks alone."""


@pytest.mark.parametrize("column", [None, "x"])
def test_a_rank_of_fewer_rows_than_its_error_is_no_usable_answer(column: str | None) -> None:
    with opened(FRAME, unit=unacorda.Person("id", max_rows=2), budget=PureDP(200)) as session:
        query = session.table("t").agg(n=unacorda.count(column), **RANKED)
        little = session.evaluate(query, budget=PureDP("0.01"))
        enough = session.evaluate(query, budget=PureDP(100))
        without = session.evaluate(session.table("t").agg(**RANKED), budget=PureDP("0.01"))
    ranked = [name for name in little.answers if name != "n"]
    assert len(ranked) == 6
    for name in ranked:
        answer = little.answers[name]
        assert not any(answer.usable)
        assert (answer.lower[0], answer.upper[0]) == answer.limits
        assert enough.answers[name].lower == [None]
        assert without.answers[name].lower == [None]
    assert str(little).splitlines()[1].count(NOTHING) == 6
    assert NOTHING not in str(enough)


def test_each_group_is_judged_by_its_own_count() -> None:
    with opened(FRAME, budget=PureDP(10)) as session:
        query = session.table("t").group_by("s", keys=["a", "none"])
        query = query.agg(n=unacorda.count(), other=unacorda.count("y"), p=RANKED["p"])
        release = session.evaluate(query, budget=PureDP(3))
        other = session.table("t").agg(n=unacorda.count("y"), p=RANKED["p"])
        unknown = session.evaluate(other, budget=PureDP("0.001"))
    assert release.answers["p"].usable == [True, False]
    assert release.answers["p"].lower == [None, 0]
    assert unknown.answers["p"].lower == [None], "rows with y may be fewer than those with x"


def test_a_group_is_judged_by_its_count_of_people_too() -> None:
    unit = unacorda.Person("id", max_rows=2)
    asked = {"n": unacorda.count_people(), "p": RANKED["p"]}
    with opened(FRAME, unit=unit, budget=PureDP(100)) as session:
        start = session.table("t")
        two = session.evaluate(
            start.group_by("s", keys=["a", "none"]).agg(**asked), budget=PureDP(3)
        )
        # Of three groups only two are counted of a person, and the rows may lie in the third.
        three = session.evaluate(
            start.group_by("s", keys=["a", "none", "nil"]).agg(**asked), budget=PureDP(3)
        )
        other = start.agg(n=unacorda.count_people("y"), p=RANKED["p"])
        unknown = session.evaluate(other, budget=PureDP("0.001"))
    assert two.answers["p"].usable == [True, False]
    assert NOTHING in str(two)
    assert three.answers["p"].lower == [None] * 3
    assert unknown.answers["p"].lower == [None], "rows with y may be fewer than those with x"
