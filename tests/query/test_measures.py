"""What an engine counts is of terms that lie between public ends, whatever a row holds."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import duckdb
import numpy as np
import pytest
from tests.query.engines_alike import counted
from tests.support.cases import in_subtests
from tests.support.seams import (
    Clamp,
    Clamped,
    Count,
    Measure,
    PeopleCount,
    Query,
    RowTerm,
    Shortened,
    SumOf,
    Times,
)

import unacorda

HOSTILE = [
    *(None, math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324, -5e-324, 1e308, -1e308),
    *(1.0, -1.0, 0.1, 1 / 3, 49.999999999999, 50.00000000001, 99.5, 100.0, 1e15, -7.25),
    *np.random.default_rng(3).normal(20, 60, 200).tolist(),
]
RANGES: list[tuple[Any, Any]] = [
    (0, 100),
    (-50, 50),
    (-(10**9), 3),
    (Fraction(1, 3), Fraction(2, 3)),
    (7, 10**12),
]
CLAMPS = [
    Clamp.of(Fraction(a), Fraction(b), whole=whole) for a, b in RANGES for whole in (False, True)
]


@pytest.fixture(scope="module")
def rows() -> Iterator[duckdb.DuckDBPyConnection]:
    """Every pair of hostile numbers."""
    pairs = [*itertools.product(HOSTILE[:20], HOSTILE[:20]), *itertools.pairwise(HOSTILE)]
    with duckdb.connect(":memory:") as connection:
        connection.execute("CREATE TABLE t (x DOUBLE, y DOUBLE)")
        connection.executemany("INSERT INTO t VALUES (?, ?)", pairs)
        yield connection


def terms() -> list[RowTerm]:
    found: list[RowTerm] = []
    for clamp in CLAMPS:
        found += [Clamped("x", clamp), Clamped("x", clamp, above=True)]
    first, second = CLAMPS[0], CLAMPS[1]
    for a, b in itertools.product((False, True), repeat=2):
        found.append(Times(Clamped("x", first, above=a), Clamped("y", second, above=b)))
    lengths = (1.0, 1e-90, 1e90, 3.5)
    return found + [Shortened(("x", "y"), place, n) for n in lengths for place in (0, 1)]


def values(rows: duckdb.DuckDBPyConnection, term: RowTerm) -> list[int]:
    asked = f"SELECT {term.sql} FROM t WHERE x IS NOT NULL AND y IS NOT NULL"
    return [value for (value,) in rows.execute(asked).fetchall() if value is not None]


@in_subtests("term", terms(), ids=str)
def test_no_row_adds_more_than_its_ends(rows: duckdb.DuckDBPyConnection, term: RowTerm) -> None:
    least, most = term.ends
    found = values(rows, term)
    assert found
    assert least <= min(found)
    assert max(found) <= most
    if isinstance(term, Clamped):
        assert {least, most} <= set(found)  # and no less: infinities are at the ends


def test_a_vector_is_no_longer_than_its_radius(rows: duckdb.DuckDBPyConnection) -> None:
    for length in (1.0, 1e-90, 1e90, 3.5):
        both = [Shortened(("x", "y"), place, length) for place in (0, 1)]
        found = [values(rows, term) for term in both]
        longest = max(a * a + b * b for a, b in zip(*found, strict=True))
        assert longest <= both[0].radius ** 2
        assert longest >= (0.999 * both[0].radius) ** 2


right: Any = Clamp.sql


@pytest.mark.parametrize(
    "wrong",
    [
        lambda clamp, value: f"CAST({value} * {2.0**-clamp.unit_log2} AS BIGINT)",
        lambda clamp, value: right(clamp, value).replace("WHEN", "WHEN FALSE AND", 1),
        lambda clamp, value: right(clamp, value).replace("ELSE round(", "ELSE 1 + round("),
    ],
    ids=["not clamped", "one end open", "one unit more"],
)
def test_planted_faults_are_found(
    rows: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch, wrong: Any
) -> None:
    monkeypatch.setattr(Clamp, "sql", wrong)
    with pytest.raises((AssertionError, duckdb.Error)):
        check_ends(rows)


def check_ends(rows: duckdb.DuckDBPyConnection) -> None:
    for term in terms():
        least, most = term.ends
        found = values(rows, term)
        assert least <= min(found)
        assert max(found) <= most


def test_the_range_of_a_product_is_that_of_all_products() -> None:
    for a, b in itertools.product([CLAMPS[0], Clamp(lower=-3, upper=2, unit_log2=0)], repeat=2):
        product = Times(Clamped("x", a), Clamped("y", b))
        grid = [np.linspace(clamp.lower, clamp.upper, 11) for clamp in (a, b)]
        every = np.multiply.outer(*grid)
        assert product.ends == (every.min(), every.max())


AGGREGATES = {
    "count": unacorda.count(),
    "people": unacorda.count_people(),
    "values": unacorda.count_distinct("y"),
    "if": unacorda.count_if("x > 3"),
    "sum": unacorda.sum("x", -5, 100),
    "mean": unacorda.mean("x", 3, 50),
    "share": unacorda.proportion("x > 3"),
    "weighted": unacorda.weighted_mean("x", "y", (-5, 100), (0, 7)),
    "ratio": unacorda.ratio("x", "y", (0, 9), (0, 7)),
    "variance": unacorda.variance("x", -5, 100),
    "covariance": unacorda.covariance("x", "y", (-5, 5), (1, 7)),
    "correlation": unacorda.correlation("x", "y", (-5, 5), (1, 7)),
    "vector": unacorda.vector_sum(["x", "y"], norm=3),
}


def query_of(session: unacorda.Session, aggregate: Any) -> Query:
    return session.table("t").agg(a=aggregate)


@in_subtests("name", AGGREGATES)
def test_one_row_moves_every_integer_by_no_more_than_its_ends(name: str) -> None:
    """Through the engine: groups of the same rows, each but the first with a hostile row more."""
    import pandas as pd

    hostile = [(None, None), *itertools.product(HOSTILE[1:12], HOSTILE[1:12:3])]
    rows = [
        (group, x, y)
        for group, added in enumerate(hostile)
        for x, y in [(1.0, 2.0), (4.0, 3.0), added][: 3 if group else 2]
    ]
    frame = pd.DataFrame(rows, columns=["g", "x", "y"])
    given: Any = {"unit": unacorda.Row(), "budget": unacorda.PureDP(1)}
    with unacorda.Session({"t": frame}, **given) as session:
        grouped = session.table("t").group_by("g", keys=range(len(hostile)))
        query = grouped.agg(a=AGGREGATES[name])
        sums = counted(session, query)["sums"]
        one, *others = (sums[cell] for cell in range(len(hostile)))
    for measure, before, *after in zip(query.measures, one, *others, strict=True):
        least, most = measure.term.ends if isinstance(measure, SumOf) else (0, 1)
        for added, number in zip(hostile[1:], after, strict=True):
            assert min(least, 0) <= number - before <= max(most, 0), (measure, added)


class EverySum(Measure):
    """A measure of somebody's own."""

    reads = None

    def sql(self, unit: Any) -> str:
        return "sum(v0)"


class EveryValue(RowTerm):
    """A term of somebody's own, which says that it has ends."""

    ends = (0, 1)
    sql = "v0"
    reads = "true"


def test_what_is_no_measure_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A text of SQL, which may sum anything, ends before anything is reserved."""
    import pandas as pd

    frame = pd.DataFrame({"x": [1.0]})
    with unacorda.Session({"t": frame}, unit=unacorda.Row(), budget=unacorda.PureDP(1)) as session:
        query = query_of(session, unacorda.count())
        for wrong in ("sum(x)", EverySum()):
            monkeypatch.setattr(Count, "measures", lambda self, values, wrong=wrong: (wrong,))
            with pytest.raises(TypeError, match="is none of PresentCount"):
                session.evaluate(query, budget=unacorda.PureDP(1))
            assert session.spent == unacorda.PureDP(0)
    with pytest.raises(TypeError, match="is none of Clamped"):
        SumOf(EveryValue())
    with pytest.raises(TypeError, match="is none of Clamped"):
        Times(Clamped("x", CLAMPS[0]), EveryValue())


def test_people_are_told_apart_by_the_count_of_them_alone() -> None:
    kinds = {kind.__name__ for kind in Measure.__subclasses__() if kind.counts_people}
    assert kinds == {PeopleCount.__name__}
