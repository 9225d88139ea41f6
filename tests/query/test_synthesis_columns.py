"""Columns of synthetic tables: cells of hostile values, edges and texts that are found, dates."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import datetime as dt
import itertools
import math
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pandas
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.query.engines_alike import OTHERS, opened_on

import unacorda
from unacorda import GDP, ZCDP, ApproxDP, PureDP, SeededBits
from unacorda.accounting.charges import charge
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.partitions.thresholded import ThresholdedGaussian
from unacorda.query.aggregates.quantile_tree import row_weight
from unacorda.query.expressions.language import Expression, Kind, Name
from unacorda.query.plan.synthesis import SoughtBins
from unacorda.query.schema.units import Person
from unacorda.query.synthesize import Spending
from unacorda.synthesis.domain import BinnedColumn, CategoryColumn
from unacorda.synthesis.release import SyntheticTable

NO_NOISE = ZCDP(1_000_000)
SURE = ZCDP(1_000_000, delta="1e-9")
HOSTILE = [
    *(None, math.nan, math.inf, -math.inf, 0.0, -0.0, 1e308, -1e308, 5e-324, -5e-324),
    *(0.1, 0.5, 1.0, math.nextafter(1, 0), math.nextafter(1, 2), 999.0, 1000.0, 1000.5, -7.25),
]
DAYS = [dt.date(1, 1, 1), dt.date(2023, 12, 31), dt.date(2024, 1, 1), dt.date(2024, 2, 29)]
DAYS += [dt.date(2024, 12, 31), dt.date(9999, 12, 31)]


def opened(table: Any, **given: Any) -> unacorda.Session:
    choices: dict[str, Any] = {
        "unit": unacorda.Row(),
        "budget": ZCDP(10**8, delta="0.1"),
        "bits": SeededBits(1),
    }
    return unacorda.Session({"t": table}, **choices | given)


def made(session: unacorda.Session, columns: Any, **given: Any) -> SyntheticTable:
    """What is asked of a table, without noise and without measured errors."""
    budget = given.pop("budget", NO_NOISE)
    asked = session.table("t").synthesize(columns, report=0, **{"workload": 1, **given})
    return session.evaluate(asked, budget=budget)


def counts(found: SyntheticTable, place: int = 0) -> list[float]:
    """As they were measured, of one column."""
    measured: list[float] = found.marginals[place,].counts.tolist()
    return measured


def test_a_thousand_bins_hold_what_they_should() -> None:
    drawn = np.random.default_rng(2)
    values = [*HOSTILE, *drawn.normal(500, 400, size=3_000).tolist()]
    edges = np.unique(drawn.uniform(0, 1000, size=1_200)).tolist()
    with opened(pa.table({"x": pa.array(values, pa.float64())})) as session:
        found = made(session, ["x"], bins={"x": edges})
    column = found.plan.domain.columns[0]
    assert column.size == 1_200
    placed = np.bincount(column.encode([math.nan if v is None else v for v in values]))
    assert counts(found) == placed.tolist()


def test_hundreds_of_listed_values_hold_what_they_should() -> None:
    drawn = np.random.default_rng(3)
    words = [chr(33 + one) * 2 + "'é\"" + str(one) for one in range(90)] + [
        "",
        "Z",
        "a",
        "\U0001f600",
    ]
    words += [f"w{one}" for one in range(300)]
    values = [*drawn.choice(words, size=5_000).tolist(), None, "unlisted", "w"]
    listed = drawn.permutation(words).tolist()
    with opened(pa.table({"x": values})) as session:
        found = made(session, ["x"], bins={"x": [*listed, None]})
        plain = made(session, ["x"], bins={"x": listed})
    seen = Counter(values)
    assert counts(found) == [*(seen[one] for one in listed), 1, 2]
    assert counts(plain) == [*(seen[one] for one in listed), 3]


def test_whole_numbers_of_any_size_and_booleans_fall_into_their_cells() -> None:
    wholes = [-(2**63), 2**63 - 1, 2**53 + 1, None, 0, 5, 10]
    table = pa.table(
        {"n": pa.array(wholes, pa.int64()), "b": [True, None, False, None] + [True] * 3}
    )
    facts = {"n": unacorda.Bounds(0, 10)}
    with opened(table, columns=facts) as session:
        found = made(session, ["n", "b"], bins={"n": [0, 5, 10]})
        all_wholes = made(session, ["n"], bins={"n": 10})
    assert counts(found) == [2, 4, 1]
    assert counts(found, 1) == [1, 4, 2]
    column = all_wholes.plan.domain.columns[0]
    assert isinstance(column, BinnedColumn)
    assert column.edges == tuple(map(float, range(11)))  # public: nothing was found
    drawn = all_wholes.columns()["n"]
    kept = drawn[~np.isnan(drawn)]
    assert ((kept == np.floor(kept)) & (kept >= 0) & (kept <= 10)).all()


@pytest.mark.parametrize("as_text", [False, True])
def test_dates_fall_into_bins_and_come_back_as_dates(as_text: bool) -> None:
    days: list[Any] = [*DAYS * 20, *[None] * 7]
    column = [str(day) if day else "no day" for day in days] if as_text else days
    edges = ["2024-01-01", dt.date(2024, 3, 1), "2024-12-31"]
    with opened(pa.table({"seen": column}), columns={"seen": unacorda.Dates()}) as session:
        found = made(session, ["seen"], bins={"seen": edges}, never=["seen < DATE '2024-03-01' "])
        free = made(session, ["seen"], bins={"seen": edges})
    assert counts(found) == [80, 40, 7]
    rows = free.columns()["seen"].tolist()
    there = [day for day in rows if day is not None]
    assert len(rows) - len(there) == 7
    assert all(dt.date(2024, 1, 1) <= day <= dt.date(2024, 12, 31) for day in there)
    assert all(type(day) is dt.date for day in there)
    assert set(found.columns()["seen"]) == {None, *filter(None, found.columns()["seen"])}
    assert all(day is None or day >= dt.date(2024, 3, 1) for day in found.columns()["seen"])
    again = SyntheticTable.from_json(free.to_json())
    assert again.columns()["seen"].tolist() == rows
    assert free.to_arrow()["seen"].to_pylist() == rows
    assert list(free.to_pandas()["seen"]) == rows
    with pytest.raises(InvalidParameter, match="bins of numbers"):
        free.measured.mean("seen")
    late = free.sample(50, where={"seen": dt.date(2024, 5, 1)})["seen"]
    assert min(late) >= dt.date(2024, 3, 1)


def test_edges_of_dates_are_found_in_their_declared_range() -> None:
    drawn = np.random.default_rng(4)
    days = [
        dt.date(2024, 1, 1) + dt.timedelta(days=int(one) ** 2 // 30)
        for one in drawn.integers(0, 90, 4_000)
    ]
    facts = {"seen": unacorda.Dates("2024-01-01", "2024-12-31")}
    with opened(pa.table({"seen": days}), columns=facts) as session:
        found = made(session, ["seen"], bins={"seen": 9})
    column = found.plan.domain.columns[0]
    assert isinstance(column, BinnedColumn)
    assert column.dates
    assert column.labels[0] is not None
    assert str(column.labels[0]).startswith("[2024-01-01, ")
    assert all(edge.is_integer() for edge in column.edges)
    assert 6 <= len(column.edges) <= 10
    ordinals = np.sort([day.toordinal() for day in days])
    quantiles = np.quantile(ordinals, np.arange(1, 7) / 7, method="inverted_cdf")
    assert set(quantiles) <= set(column.edges)


def test_found_edges_are_quantiles_and_cuts_of_equal_width() -> None:
    values = np.random.default_rng(5).gamma(2, 40, size=5_000)
    facts = {"cost": unacorda.Bounds(0, 1000)}
    with opened(pandas.DataFrame({"cost": values}), columns=facts) as session:
        found = made(session, ["cost"], bins={"cost": 20})
    column = found.plan.domain.columns[0]
    assert isinstance(column, BinnedColumn)
    edges = np.array(column.edges)
    assert len(edges) == 21
    even = np.linspace(0, 1000, 7)[1:-1]
    assert all(abs(edges - one).min() < 1 for one in even)
    quantiles = np.quantile(values, np.arange(1, 15) / 15)
    assert all(abs(edges - one).min() < 1 for one in quantiles)


def test_a_value_that_many_rows_have_gets_a_bin_of_its_own() -> None:
    values = [0.0] * 3_000 + np.random.default_rng(6).uniform(0, 100, size=1_000).tolist()
    for kind in (pa.float64(), pa.int64()):
        table = pa.table({"x": pa.array(np.floor(values).tolist(), pa.float64()).cast(kind)})
        with opened(table, columns={"x": unacorda.Bounds(-50, 100)}) as session:
            found = made(session, ["x"], bins={"x": 16})
        column = found.plan.domain.columns[0]
        assert isinstance(column, BinnedColumn)
        at = column.edges.index(0)
        assert column.edges[at + 1] <= 1
        assert counts(found)[at] == sum(math.floor(one) == 0 for one in values)


@pytest.mark.parametrize("rows", [[], [None, None], [3.0], [math.nan], [1e300, -1e300]])
def test_edges_are_found_of_hardly_anything(rows: list[Any]) -> None:
    table = pa.table(
        {"x": pa.array(rows, pa.float64()), "t": pa.array(["a"] * len(rows), pa.string())}
    )
    facts = {"x": unacorda.Bounds(0, 10), "t": unacorda.Text()}
    with opened(table, columns=facts) as session:
        for budget in (ZCDP(1, delta="1e-6"), ApproxDP(1, "1e-6")):
            found = made(session, ["x", "t"], bins={"x": 8}, budget=budget)
            assert found.plan.domain.columns[0].size <= 9
            assert found.plan.domain.columns[1].labels == ("other",)


@given(
    st.integers(-5, 40),
    st.integers(1, 60),
    st.integers(1, 200),
    st.lists(st.floats(0, 1), max_size=99),
    st.booleans(),
)
def test_no_bin_of_found_edges_is_without_a_value(
    low: int, width: int, bins: int, parts: list[float], whole: bool
) -> None:
    nothing = Expression(
        sql="x",
        kind=Kind.NUMBER,
        lower=0,
        upper=1,
        columns=frozenset(["x"]),
        node=Name("x"),
        text="x",
    )
    sought = SoughtBins(
        expression=nothing,
        name="x",
        bins=max(2, min(bins, width)) if whole else max(2, bins),
        lower=Fraction(low),
        upper=Fraction(low + max(width, 2)),
        whole=whole,
        dates=False,
    )
    count = len(sought.quantiles.wanted)
    drawn = sorted((parts * 99 + [0.5] * 99)[:count])
    values = [low + part * max(width, 2) for part in drawn]
    column = sought.found([float(round(one)) for one in values] if whole else values)
    assert column.size - 1 <= sought.bins
    assert (column.edges[0], column.edges[-1]) == (low, low + max(width, 2))
    if whole:
        assert all(edge.is_integer() for edge in column.edges)
    assert len(set(column.labels)) == column.size


def test_texts_are_found_that_enough_people_have() -> None:
    towns = ["A"] * 400 + ["it's"] * 300 + ["rare"] * 3 + [None] * 200
    whose = [*range(400), *range(300), 1, 1, 1, *range(200)]
    table = pa.table({"who": whose, "town": towns})
    facts = {"town": unacorda.Text()}
    unit = Person("who", max_rows=4)
    with opened(table, columns=facts, unit=unit) as session:
        found = made(session, ["town"], budget=ZCDP(50, delta="1e-6"))
    assert found.plan.domain.columns[0].labels == ("A", "it's", None, "other")
    assert found.columns()["town"].tolist().count("A") == pytest.approx(400, abs=9)


@pytest.mark.long
def test_a_text_of_one_person_is_not_found_however_many_rows_have_it() -> None:
    table = pa.table({"who": [*range(300), *[1] * 200], "t": ["a"] * 300 + ["mine"] * 200})
    for seed in range(20):
        with opened(table, unit=Person("who", max_rows=500), bits=SeededBits(seed)) as session:
            found = made(
                session,
                ["t"],
                bins={"t": unacorda.private_keys()},
                budget=ZCDP(10**7, delta="1e-9"),
            )
        assert found.plan.domain.columns[0].labels == ("a", "other")


def test_no_more_texts_are_found_than_the_tables_have_room_for() -> None:
    drawn = np.random.default_rng(7)
    words = [f"w{one:03}" for one in range(300)]
    table = pa.table({"t": drawn.choice(words, size=60_000), "x": drawn.random(60_000)})
    facts = {"t": unacorda.Text(), "x": unacorda.Bounds(0, 1)}
    with opened(table, columns=facts) as session:
        asked = session.table("t").synthesize(["t", "x"], bins={"x": 9}, max_cells=500)
        assert "49 at most" in str(session.explain(asked, budget=SURE))
        found = session.evaluate(asked, budget=SURE)
        with pytest.raises(InvalidParameter, match="max_cells"):
            session.table("t").synthesize(["t", "x"], bins={"x": 9}, max_cells=19)
    labels = found.plan.domain.columns[0].labels
    assert len(labels) == 50
    assert set(labels[:-1]) <= set(words)


BUDGETS = [
    ZCDP("0.3", delta="1e-7"),
    ApproxDP(1, "1e-6"),
    ApproxDP(3, "1e-9"),
    ApproxDP("0.1", "0.01"),
]


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("unit", [unacorda.Row(), Person("who", max_rows=3)])
@pytest.mark.parametrize("neighbors", [unacorda.AddRemove, unacorda.ReplaceOne])
def test_steps_cost_no_more_than_the_whole_and_the_whole_no_more_than_the_budget(
    budget: Any, unit: Any, neighbors: Any
) -> None:
    unit = (
        Person("who", max_rows=3, neighbors=neighbors)
        if isinstance(unit, Person)
        else unacorda.Row(neighbors=neighbors)
    )
    table = pa.table({"who": range(50), "t": ["a"] * 50, "u": ["b"] * 50, "x": [0.5] * 50})
    facts = {"t": unacorda.Text(), "u": unacorda.Text(), "x": unacorda.Bounds(0, 1)}
    with opened(table, unit=unit, budget=budget, columns=facts) as session:
        asked = session.table("t").synthesize(["t", "u", "x"], bins={"x": 6}, finding="0.3")
        found = session.evaluate(asked, budget=budget)
        spent = session.spent
    assert budget.implies(spent) or spent <= budget
    steps, whole = (
        charge(one, ZCDP(100, delta=1), ZCDP(100, delta=1)) for one in (found.steps, found.event)
    )
    assert whole.additive[0] * Fraction(99, 100) < steps.additive[0] <= whole.additive[0]
    assert steps.additive[1] <= whole.additive[1]


@pytest.mark.parametrize("neighbors", [unacorda.AddRemove, unacorda.ReplaceOne])
def test_texts_are_found_within_gaussian_dp(neighbors: Any) -> None:
    budget = GDP(1, "1e-6")
    table = pa.table({"t": ["a"] * 500, "x": np.linspace(0, 1, 500)})
    facts = {"t": unacorda.Text(), "x": unacorda.Bounds(0, 1)}
    unit = unacorda.Row(neighbors=neighbors)
    with opened(table, unit=unit, budget=budget, columns=facts) as session:
        found = made(session, ["t", "x"], bins={"x": 6}, budget=budget)
        assert session.spent == budget
    assert found.plan.domain.columns[0].labels == ("a", "other")
    most = GDP(100, delta=1)
    steps, whole = (charge(one, most, most).additive for one in (found.steps, found.event))
    assert whole == pytest.approx(budget.additive)
    assert steps <= whole
    assert steps[1] <= whole[1]
    assert steps[0] > whole[0] * Fraction(9, 10)


@pytest.mark.parametrize("budget", [ZCDP("0.3"), PureDP(1), GDP(1), unacorda.RenyiDP(4, 1)])
def test_edges_are_found_within_budgets_of_every_kind(budget: Any) -> None:
    table = pa.table({"x": np.linspace(0, 1, 300), "y": np.linspace(0, 1, 300)})
    facts = {"x": unacorda.Bounds(0, 1), "y": unacorda.Bounds(0, 1)}
    with opened(table, budget=budget, columns=facts) as session:
        found = made(session, ["x", "y"], bins={"x": 6, "y": [0, 0.5, 1]}, budget=budget)
        kind = type(budget) if not isinstance(budget, unacorda.RenyiDP) else ZCDP
        most = charge(found.event, kind(10**6), kind(10**6))
        assert charge(found.steps, kind(10**6), kind(10**6)).additive[0] <= most.additive[0]
        assert session.spent <= budget


@pytest.mark.parametrize("engine", OTHERS)
def test_other_engines_find_the_same_cells_and_count_the_same(engine: str) -> None:
    numbers = [*HOSTILE, *np.random.default_rng(8).normal(500, 400, size=300).tolist()]
    size = len(numbers)
    towns = (["é", "e\u0301", "A", "a", "Z", None, "it's"] * size)[:size]
    table = pa.table(
        {
            "x": pa.array(numbers, pa.float64()),
            "y": pa.array(numbers[::-1], pa.float64()),
            "t": towns,
            "w": towns[::-1],
            "d": (DAYS * size)[:size],
        }
    )
    facts = {"x": unacorda.Bounds(0, 1000), "t": unacorda.Text()}
    edges = np.linspace(-10, 1000, 200).tolist()
    given: dict[str, Any] = {
        "bins": {"x": 12, "y": edges, "w": ["Z", "a", "é", None], "d": DAYS[1:5]},
        "workload": 1,
    }
    found = []
    for each in ("duckdb", engine):
        with opened_on(each, table, unit=unacorda.Row(), budget=SURE, columns=facts) as session:
            asked = session.table("t").synthesize(["x", "y", "t", "w", "d"], **given)
            found.append(session.evaluate(asked, budget=SURE))
    one, two = found
    assert one.plan.domain == two.plan.domain
    for place in range(5):
        assert counts(one, place) == counts(two, place)


@pytest.mark.parametrize("neighbors", [unacorda.AddRemove, unacorda.ReplaceOne])
@pytest.mark.parametrize("rows", [1, 3])
def test_what_finds_cells_is_made_for_all_rows_of_a_unit(rows: int, neighbors: Any) -> None:
    """By brute force: how many values have other people, and how far ranks move, at most."""
    table = pa.table({"who": [1], "t": ["a"], "x": [0.5]})
    facts = {"t": unacorda.Text(), "x": unacorda.Bounds(0, 1)}
    unit = Person("who", max_rows=rows, neighbors=neighbors)
    with opened(table, unit=unit, columns=facts) as session:
        query = session.table("t").synthesize(["t", "x"], bins={"x": 2})
        spending = Spending.of(query, query.query.reach, ZCDP(1, delta="1e-6"))
    replaced = neighbors is unacorda.ReplaceOne
    moved, ranks = 0, Fraction(0)
    for came in itertools.product("abcdef", repeat=rows):
        for went in itertools.product("abcdef", repeat=rows) if replaced else [()]:
            moved = max(moved, len({*came} ^ {*went}))
    # A row below the median moves #below - n / 2 by 1/2, as does one above it: twice that is whole.
    for above in itertools.product((-1, 1), repeat=rows):
        for below in itertools.product((-1, 1), repeat=rows) if replaced else [()]:
            ranks = max(ranks, abs(Fraction(sum(above) - sum(below), 2)))
    mechanism = spending.rules["t"].mechanism
    assert isinstance(mechanism, ThresholdedGaussian)
    assert mechanism.l0_sensitivity == moved
    (draw,) = spending.draws["x"].mechanisms.values()  # type: ignore[attr-defined]
    of_row = draw.sensitivity / (2 * row_weight())
    assert of_row >= ranks
    assert of_row <= ranks * (1 if not replaced else 2)


def test_listed_values_that_are_found_keep_the_word_for_others() -> None:
    table = pa.table({"t": ["other"] * 500})
    with opened(table, columns={"t": unacorda.Text()}) as session:
        found = made(session, ["t"], budget=SURE)
    column = found.plan.domain.columns[0]
    assert isinstance(column, CategoryColumn)
    assert column.labels == ("other", "(other)")
