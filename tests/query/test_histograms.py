"""Histograms, distinct values and top values, against counts in plain Python."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import bisect
import datetime as dt
import itertools
import math
import random
from collections import Counter
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from tests.query.many_cells import ask, repeated, values_of
from tests.support.cases import in_subtests
from tests.support.seams import CONFIDENCE, Reach, double, literal, place_among, place_between

import unacorda
from unacorda.bits import SeededBits
from unacorda.errors import InvalidParameter, MissingBound, UnacordaError

LARGE = unacorda.PureDP(10**5)  # the noise is 0
ODD = [None, math.nan, math.inf, -math.inf, -0.0, 0.0, 1.0, 1.5, 2.0, 2.5, 9.0, 1e308, -1e308]


def opened(data: dict[str, Any], **options: Any) -> unacorda.Session:
    length = len(next(iter(data.values())))
    table = pa.table({"id": np.arange(length), **data})
    options.setdefault("unit", unacorda.Person("id", max_rows=1))
    return unacorda.Session(
        {"t": table}, budget=unacorda.PureDP(10**6), bits=SeededBits(1), **options
    )


def lines(data: dict[str, Any], aggregate: Any, *, keys: Any = None, **options: Any) -> Any:
    with opened(data, **options) as session:
        query = session.table("t")
        if keys is not None:
            query = query.group_by("g", keys=keys)
        return session.evaluate(query.agg(a=aggregate), budget=LARGE).to_dicts()


# ---- places --------------------------------------------------------------------------------------


@pytest.mark.long
def test_places_are_those_of_bisection() -> None:
    source = random.Random(3)
    connection = duckdb.connect()
    for count in (2, 3, 7, 64, 1_001):
        edges = sorted({source.gauss(0, 3) for _ in range(count)})
        values = [source.gauss(0, 4) for _ in range(60)] + edges[:40] + edges[-2:]
        sql = place_between("v", [double(edge) for edge in edges])
        found = connection.execute(
            f"SELECT v, {sql} FROM (SELECT unnest($1::DOUBLE[]) AS v)", [values]
        ).fetchall()
        for value, place in found:
            last = value == edges[-1]
            assert place == bisect.bisect_right(edges, value) - last
        assert connection.execute(f"SELECT {sql} FROM (SELECT NULL::DOUBLE AS v)").fetchone() == (
            None,
        )


def test_listed_texts_are_found_by_their_code_points() -> None:
    texts = ["", "a", "B", "é", "e\u0301", "z'", "😀", "\uffff", "ß", "ss", "\n", "A" * 99]
    listed = [(literal(text), texts.index(text)) for text in sorted(texts)]
    sql = place_among("v", listed)
    asked: list[str | None] = [*texts, "b", "E\u0301", None]
    query = f"SELECT v, {sql} FROM (SELECT unnest($1::VARCHAR[]) AS v)"
    found = duckdb.execute(query, [asked]).fetchall()
    numbers = {text: number for number, text in enumerate(texts)}
    assert found == [(text, numbers.get(str(text))) for text in asked]


# ---- given edges ---------------------------------------------------------------------------------


def test_bins_have_their_lower_edge_and_the_last_its_upper_one() -> None:
    rows = lines({"x": pa.array(ODD)}, unacorda.histogram("x", [0, 1, 2, "2.5"]))
    assert [(row["a_from"], row["a_to"], row["a"]) for row in rows] == [
        (None, 0.0, 2),
        (0.0, 1.0, 2),
        (1.0, 2.0, 2),
        (2.0, 2.5, 2),
        (2.5, None, 3),
    ]
    assert sum(row["a"] for row in rows) == len(ODD) - 2  # NULL and NaN are absent


def test_bins_of_every_group_stand_in_the_order_of_keys_and_edges() -> None:
    source = np.random.default_rng(2)
    g, x = source.integers(0, 3, 400), source.normal(0, 2, 400)
    edges = [-2.5, -0.5, 0.25, 3.0]
    rows = lines({"g": g, "x": x}, unacorda.histogram("x", edges), keys=[2, 0, 7])
    assert [row["g"] for row in rows] == [2] * 5 + [0] * 5 + [7] * 5
    for row in rows:
        inside = x[g == row["g"]]
        low = -math.inf if row["a_from"] is None else row["a_from"]
        high = math.inf if row["a_to"] is None else row["a_to"]
        assert row["a"] == np.sum((inside >= low) & (inside < high))


def test_a_printed_histogram_shows_its_edges() -> None:
    with opened({"x": [1.0, 2.0]}) as session:
        query = session.table("t").agg(a=unacorda.histogram("x", [0, 1, 2]))
        text = str(session.evaluate(query, budget=LARGE))
    head, first, *_ = text.split("\n")
    assert head.split() == ["a_from", "a_to", "a"]
    assert first.split()[:2] == ["NULL", "0"]
    with opened({"x": [1.0, 2.0]}) as session:
        query = session.table("t").agg(a=unacorda.top("x", 1, [3, 2]))
        text = str(session.evaluate(query, budget=LARGE))
    head, first, *_ = text.split("\n")
    assert head.split() == ["a_value", "a"]
    assert first.split()[0] == "2"


def test_a_histogram_costs_what_a_count_does() -> None:
    def errors(unit: Any) -> list[float]:
        found = []
        with opened({"x": [1.0, 2.0]}, unit=unit) as session:
            for made in (unacorda.histogram("x", range(100)), unacorda.count("x")):
                query = session.table("t").agg(a=made)
                error = session.explain(query, budget=unacorda.PureDP("1/5")).standard_error("a")
                assert error is not None
                found.append(error)
        return found

    bins, whole = errors(unacorda.Person("id", max_rows=2))
    assert bins == whole
    # Where a unit is replaced it leaves one bin and enters another.
    bins, whole = errors(unacorda.Row(neighbors=unacorda.ReplaceOne))
    assert bins == pytest.approx(2 * whole, rel=0.02)


def test_a_reach_in_parts_is_that_of_more_groups() -> None:
    reach = Reach.within(max_groups=2, max_rows_per_group=3, cells=4, replaced=True)
    assert reach.split(5) == Reach(rows=6, touched=6, per_cell=3, cells=20, replaced=True)
    assert reach.split(1) == reach


@in_subtests(
    ("edges", "options", "named"),
    [
        (None, {}, "edges"),
        ([1], {}, "edges"),
        ("12", {}, "edges"),
        (5, {}, "edges"),
        ([1, 1], {}, r"edges\[1\]"),
        ([0, 2, 1], {}, r"edges\[2\]"),
        ([0, math.nan], {}, r"edges\[1\]"),
        ([0, math.inf], {}, r"edges\[1\]"),
        ([0, "1.0000000000000000000001", 1], {}, r"edges\[2\]"),
        (range(1_002), {}, "edges"),
        (itertools.count(), {}, "edges"),
        ([0, 10**400], {}, "edges"),
        ([0, 1], {"bins": 3}, "bins"),
        ([0, 1], {"lower": 0}, "lower"),
        ([0, 1], {"resolution": 5}, "resolution"),
        (None, {"bins": 1}, "bins"),
        (None, {"bins": 101}, "bins"),
        (None, {"bins": 2.5}, "bins"),
        (None, {"bins": 2, "lower": 0}, "upper"),
        (None, {"bins": 2, "lower": 1, "upper": 0}, "lower"),
    ],
    ids=str,
)
def test_edges_that_are_none_are_refused(edges: Any, options: Any, named: str) -> None:
    with pytest.raises(InvalidParameter, match=named):
        unacorda.histogram("x", edges, **options)


def test_found_edges_need_bounds_and_a_histogram_stands_alone() -> None:
    with opened({"x": [1.0]}) as session:
        with pytest.raises(MissingBound):
            session.table("t").agg(a=unacorda.histogram("x", bins=2))
        with pytest.raises(InvalidParameter, match="alone"):
            session.table("t").agg(a=unacorda.histogram("x", [0, 1]), n=unacorda.count())


@pytest.mark.statistical
def test_the_error_promised_is_the_error_measured() -> None:
    """300 cells by 4 bins: the root mean square of 1,200 errors, to within 15 % (false alarm 1e-7).

    The fourth moment of Laplace noise is 6 times the square of its variance, so that the relative
    standard error of the variance is sqrt(5 / 1200) = 6.5 %, half of it for the root.
    """
    values, cells = [0.5, 1.5, 1.5, 2.5, 9.0], 300
    made = unacorda.histogram("x", [1, 2, 3])
    asked = ask(
        repeated(values, cells=cells), {"a": made}, budget=unacorda.PureDP(1), seed=4, cells=cells
    )
    truth = np.tile([1, 2, 1, 1], cells)
    told = asked.promise.standard_error("a")
    assert told is not None
    assert np.sqrt(np.mean(asked.errors("a", truth) ** 2)) == pytest.approx(told, rel=0.18)
    assert np.mean(asked.covered("a", truth)) > 0.92


# ---- found edges ---------------------------------------------------------------------------------


@pytest.mark.parametrize("resolution", [1, 1e-6])
def test_counts_between_found_edges_are_exact(resolution: float) -> None:
    source = np.random.default_rng(5)
    g = source.integers(0, 2, 900)
    x = np.round(source.exponential(100, 900))  # many are equal
    made = unacorda.histogram("x", bins=7, lower=0, upper=1_000, resolution=resolution)
    rows = lines({"g": g, "x": x}, made, keys=[0, 1, 5])
    assert len(rows) == 21
    for key in (0, 1, 5):
        own = [row for row in rows if row["g"] == key]
        inside = np.clip(x[g == key], 0, 1_000)
        assert sum(row["a"] for row in own) == len(inside)
        assert (own[0]["a_from"], own[-1]["a_to"]) == (0.0, 1_000.0)
        # A value counts as the nearest point of the grid.
        half = resolution / 2 + 1_000 * 2.0**-14 * (resolution < 1)
        for number, row in enumerate(own):
            last = number == 6
            assert row["a_from"] <= row["a_to"]
            below = inside < row["a_to"] - half if not last else inside <= 1_000
            first = inside >= row["a_from"] - half
            assert row["a"] == np.sum(first & below)
        if key != 5:
            assert max(row["a"] for row in own) < 2 * len(inside) / 7


def test_the_price_of_found_edges_is_within_the_request() -> None:
    with opened({"x": np.arange(50.0)}) as session:
        query = session.table("t").agg(a=unacorda.histogram("x", bins=4, lower=0, upper=50))
        explained = session.explain(query, budget=unacorda.PureDP(1))
        assert session.evaluate(query, budget=unacorda.PureDP(1)).charge == unacorda.PureDP(1)
    assert explained.forecasts["a"].rank_error is not None
    assert explained.standard_error("a") == pytest.approx(math.sqrt(2) / 0.75, rel=0.05)


# ---- distinct values -----------------------------------------------------------------------------


@in_subtests(
    ("values", "expected"),
    [
        (
            pa.array(ODD),
            len({min(max(v, -1e100), 1e100) for v in ODD if v is not None and not math.isnan(v)}),
        ),
        (pa.array(["a", "A", "é", "e\u0301", None, "a", ""]), 5),
        (pa.array([True, None, True]), 1),
        (pa.array([dt.date(2024, 1, 1), dt.date(2024, 1, 2), None, dt.date(2024, 1, 1)]), 2),
        (pa.array([2**53 - 1, 2**53 - 2, 7, 7, None]), 3),
        (pa.array([], pa.int64()), 0),
    ],
    ids=["numbers", "texts", "booleans", "dates", "integers", "empty"],
)
def test_distinct_values_of_every_type(values: Any, expected: int) -> None:
    (row,) = lines({"x": values}, unacorda.count_distinct("x"))
    assert row["a"] == expected


def test_distinct_values_of_expressions_and_groups() -> None:
    columns = {"g": [0, 0, 1, 1, 1], "x": [-0.0, 0.0, 1.0, 1.0, 4.0]}
    rows = lines(columns, unacorda.count_distinct("x * -1"), keys=[1, 0, 9])
    assert [row["a"] for row in rows] == [2, 1, 0]


def test_the_noise_of_distinct_values_grows_with_the_rows_of_a_person() -> None:
    found = []
    for rows in (1, 8):
        with opened({"x": [1.0]}, unit=unacorda.Person("id", max_rows=rows)) as session:
            query = session.table("t").agg(a=unacorda.count_distinct("x"))
            error = session.explain(query, budget=unacorda.PureDP("1/2")).standard_error("a")
            assert error is not None
            found.append(error)
    assert found[1] == pytest.approx(8 * found[0], rel=0.02)


# ---- top values ----------------------------------------------------------------------------------


def test_the_most_frequent_listed_values_come_first() -> None:
    source = random.Random(1)
    values = source.choices(["a", "b", "c", "d", None], weights=[5, 9, 2, 20, 30], k=600)
    columns = {"g": [source.randrange(2) for _ in values], "x": pa.array(values)}
    rows = lines(columns, unacorda.top("x", 2, ["c", "z", "b", "a"]), keys=[1, 0])
    for key in (0, 1):
        counts = Counter(v for v, g in zip(values, columns["g"], strict=True) if g == key)
        expected = sorted("abc", key=lambda value: -counts[value])[:2]
        own = [row for row in rows if row["g"] == key]
        assert [row["a_value"] for row in own] == expected
        assert [row["a"] for row in own] == [counts[value] for value in expected]


@pytest.mark.parametrize(
    ("values", "listed"),
    [
        ([3, 3, -1, None, 5], [5, -1, 3]),
        ([True, False, True], [False, True]),
        (
            [dt.date(2024, 1, 1)] * 2 + [dt.date(2023, 5, 5)],
            [dt.date(2023, 5, 5), dt.date(2024, 1, 1)],
        ),
        (["3", "3", "x"], ["3"]),
    ],
    ids=str,
)
def test_values_of_every_type_are_told(values: list[Any], listed: list[Any]) -> None:
    rows = lines({"x": pa.array(values)}, unacorda.top("x", 1, listed))
    assert rows[0]["a_value"] == values[0]
    assert rows[0]["a"] == values.count(values[0])


def test_untyped_text_is_read_as_its_values_need(tmp_path: Any) -> None:
    path = tmp_path / "t.csv"
    path.write_text("id,x\n1,7\n2,7.0\n3,seven\n4,8\n")
    with unacorda.Session(
        {"t": str(path)}, unit=unacorda.Row(), budget=unacorda.PureDP(10**6), bits=SeededBits(1)
    ) as session:
        query = session.table("t").agg(a=unacorda.top("x", 2, [8, 7]))
        rows = session.evaluate(query, budget=LARGE).to_dicts()
    assert [(row["a_value"], row["a"]) for row in rows] == [(7, 2), (8, 1)]


def test_declared_categories_are_the_values() -> None:
    rows = lines(
        {"x": ["a", "b", "b"]},
        unacorda.top("x", 1),
        columns={"x": unacorda.Categories(["b", "a"])},
    )
    assert (rows[0]["a_value"], rows[0]["a"]) == ("b", 2)


def test_values_that_are_not_public_are_refused_with_the_mend() -> None:
    with opened({"x": ["a"]}) as session, pytest.raises(InvalidParameter) as caught:
        session.table("t").agg(a=unacorda.top("x", 1))
    assert "values=[...]" in str(caught.value)
    assert "selected privately" in str(caught.value)


@in_subtests(
    ("k", "values"),
    [
        *((0, ["a"]), (2, ["a"]), (1, []), (1, "abc"), (1, ["a", "a"]), (1, ["a", 1])),
        *((1, ["a", None]), (1, [0.5]), (1, range(5_001)), (1.5, ["a"])),
    ],
    ids=str,
)
def test_what_is_no_list_of_values_is_refused(k: Any, values: Any) -> None:
    with pytest.raises(UnacordaError):
        unacorda.top("x", k, values)


@pytest.mark.statistical
def test_intervals_hold_for_the_values_that_were_chosen() -> None:
    """500 cells in which eight values are equally frequent: choosing favours noise upward.

    All eight are covered in 95 % of cells or more; below 92 % with probability 1e-3 at most, and
    the seed is fixed. Intervals for a single value would cover the largest of eight far less often.
    """
    cells = 500
    made = unacorda.top("x", 1, list(range(8)))
    table = repeated([float(value) for value in range(8) for _ in range(3)], cells=cells)
    asked = ask(table, {"a": made}, budget=unacorda.PureDP(1), seed=6, cells=cells)
    assert np.mean(asked.covered("a", 3.0)) > 0.92
    values = values_of(asked.release, "a")
    single = unacorda.count().noise(
        unacorda.PureDP(1), Reach.within(max_rows=1, cells=1, replaced=False)
    )
    assert np.mean(np.abs(values - 3) <= single.half_width(CONFIDENCE)) < 0.9
