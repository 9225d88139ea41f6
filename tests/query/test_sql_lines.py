"""SELECTs whose aggregate makes several lines: histograms and top values."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
from tests.support.cases import in_subtests
from tests.support.seams import Query

import unacorda
from unacorda import PureDP
from unacorda.errors import UnacordaError

BUDGET = PureDP(4)
FRAME = pd.DataFrame({"county": list("AAABBC") * 40, "age": [*range(120), *range(120)], "pay": 5.0})


def session() -> unacorda.Session:
    """The same answers every time."""
    return unacorda.Session(
        {"t": FRAME},
        unit=unacorda.Row(),
        budget=PureDP(9),
        columns={"county": unacorda.Categories(["A", "B", "C"]), "age": unacorda.Bounds(0, 120)},
        bits=unacorda.SeededBits(4),
    )


def agg(**asked: Any) -> Callable[[Query], Query]:
    return lambda table: table.agg(**asked)


PAIRS: dict[str, tuple[str, Callable[[Query], Query]]] = {
    "a histogram": (
        "SELECT HISTOGRAM(age, [-1, 18, 65.5, 120]) AS h FROM t WHERE county = 'A'",
        lambda t: t.where("county = 'A'").agg(h=unacorda.histogram("age", [-1, 18, 65.5, 120])),
    ),
    "a histogram by group": (
        "SELECT county, HISTOGRAM(age + 1, [0, 9]) FILTER (WHERE pay > 3) AS h FROM t GROUP BY 1",
        lambda t: t.group_by("county").agg(
            h=unacorda.histogram("CASE WHEN pay > 3 THEN age + 1 END", [0, 9])
        ),
    ),
    "bins that are found": (
        "SELECT HISTOGRAM_NUMERIC(age, 4) AS h FROM t",
        agg(h=unacorda.histogram("age", bins=4)),
    ),
    "top values": ("SELECT APPROX_TOP_K(county, 2) AS v FROM t", agg(v=unacorda.top("county", 2))),
    "top values of some rows": (
        "SELECT APPROX_TOP_K(County, 2) FILTER (WHERE age > 9) AS v FROM t",
        agg(v=unacorda.top("CASE WHEN age > 9 THEN county END", 2, ["A", "B", "C"])),
    ),
}


@pytest.mark.parametrize("case", PAIRS)
def test_a_select_is_answered_as_the_builder_answers(case: str) -> None:
    text, build = PAIRS[case]
    with session() as first, session() as second:
        selected = first.sql(text, budget=BUDGET)
        built = second.evaluate(build(second.table("t")), budget=BUDGET)
    assert selected.to_dicts() == built.to_dicts()
    assert selected.charge == built.charge
    assert len(selected.to_dicts()) > 1


@in_subtests(
    ("text", "words"),
    [
        ("SELECT HISTOGRAM(age, 0, 10) FROM t", "HISTOGRAM"),
        ("SELECT HISTOGRAM(age) FROM t", "a column and its edges"),
        ("SELECT STRING_AGG(county) FROM t", "at 'STRING_AGG.county.'"),
        ("SELECT APPROX_COUNT_DISTINCT(age) FROM t", "COUNT.DISTINCT x."),
        ("SELECT TOP 3 COUNT(*) FROM t", "LIMIT 3"),
        ("SELECT MEDIAN(pay) FROM t", "MEDIAN.*public bounds for 'pay'"),
        ("SELECT HISTOGRAM(age, 10) FROM t", "no list of numbers"),
        ("SELECT HISTOGRAM(age, [5]) FROM t", "no list of numbers"),
        ("SELECT HISTOGRAM(age, [5, 'a']) FROM t", "no list of numbers"),
        ("SELECT HISTOGRAM(age, [5, 4]) AS h FROM t", "edge 4 is not above"),
        ("SELECT HISTOGRAM_NUMERIC(age, 0) FROM t", "not whole and above 0"),
        ("SELECT HISTOGRAM_NUMERIC(pay, 5) FROM t", "public bounds for 'pay'"),
        ("SELECT APPROX_TOP_K(county, 9) FROM t", "at most 3"),
        ("SELECT APPROX_TOP_K(pay, 2) FROM t", "of public values.*Categories"),
        ("SELECT APPROX_TOP_K(age + 1, 2) FROM t", "no column"),
        ("SELECT COUNT(*), APPROX_TOP_K(county, 2) FROM t", "no other aggregate next to"),
        ("SELECT HISTOGRAM(age, [0, 1]) / COUNT(*) AS r FROM t", "no other aggregate next to"),
    ],
)
def test_histograms_and_top_values_that_cannot_be_are_refused(text: str, words: str) -> None:
    with session() as one, pytest.raises(UnacordaError, match=words):
        one.read_sql(text)


def test_lines_of_a_histogram_are_arranged() -> None:
    text = "SELECT HISTOGRAM(age, [0, 30, 60, 90]) AS h FROM t ORDER BY h DESC LIMIT 2"
    with session() as one:
        found = one.sql(text, budget=BUDGET).to_dicts()
    assert len(found) == 2
    assert found[0]["h"] >= found[1]["h"]
    assert {"h_from", "h_to"} <= set(found[0])
