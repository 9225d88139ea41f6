"""Bounds and the number of rows of a person that are found privately, and paid for."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.query.many_cells import repeated
from tests.support.seams import DuckDB, ledger_of

import unacorda
from unacorda.bits import SeededBits
from unacorda.errors import BudgetExceeded, InvalidParameter


def opened(table: Any, **options: Any) -> unacorda.Session:
    settings: dict[str, Any] = {
        "unit": unacorda.Person("id", max_rows=2),
        "budget": unacorda.PureDP(10),
        "bits": SeededBits(1),
    }
    return unacorda.Session({"t": table}, **settings | options)


# ---- bounds that are found -----------------------------------------------------------------------


def test_bounds_are_found_and_paid_for() -> None:
    source = np.random.default_rng(2)
    table = pa.table({"id": np.arange(4_000), "x": source.normal(50, 10, 4_000)})
    with opened(table) as session:
        bounds = session.find_bounds("t", "x", budget=unacorda.PureDP(1))
        assert session.spent == unacorda.PureDP(1)
        inside = np.mean(source.normal(50, 10, 4_000) > bounds.lower)
        assert inside > 0.9
        assert 50 <= bounds.upper <= 200
        assert -50 <= bounds.lower <= 50
        few = session.table("t").where("x < 0 AND x > 0")
        nothing = session.find_bounds(few, "x", budget=unacorda.PureDP(5))
        assert nothing.lower < -(10**10)
        assert nothing.upper > 10**10
        with pytest.raises(BudgetExceeded):
            session.find_bounds("t", "x", budget=unacorda.PureDP(5))


@pytest.mark.parametrize(
    ("value", "low", "high"), [(5.0, 5, 10), (0.0, 0, 1e-9), (-20.0, -20, -10), (1e300, 2e15, 5e15)]
)
def test_equal_values_lie_between_two_rungs(value: float, low: float, high: float) -> None:
    table = pa.table({"id": np.arange(3_000), "x": np.full(3_000, value)})
    with opened(table, budget=unacorda.PureDP(1000)) as session:
        bounds = session.find_bounds("t", "x", budget=unacorda.PureDP(900))
    assert (bounds.lower, bounds.upper) == (low, high)
    assert math.copysign(1, bounds.lower) == 1 or low < 0


def test_groups_are_refused_where_one_range_is_asked_for() -> None:
    with opened(pa.table(repeated([1.0], cells=2))) as session:
        grouped = session.table("t").group_by("cell", keys=[0, 1])
        with pytest.raises(InvalidParameter, match=r"agg\(range=unacorda.find_bounds"):
            session.find_bounds(grouped, "x", budget=unacorda.PureDP(1))
        release = session.evaluate(
            grouped.agg(range=unacorda.find_bounds("x")), budget=unacorda.PureDP(1)
        )
        assert [row["range_low"] < row["range_high"] for row in release.to_dicts()] == [True, True]
        assert session.spent == unacorda.PureDP(1)


def test_a_range_is_printed_by_its_ends() -> None:
    table = pa.table({"id": np.arange(3_000), "x": np.full(3_000, 5.0)})
    with opened(table, budget=unacorda.PureDP(1000)) as session:
        query = session.table("t").agg(range=unacorda.find_bounds("x"))
        release = session.evaluate(query, budget=unacorda.PureDP(900))
    assert "5 to 10" in str(release).splitlines()[1]
    assert release.to_dicts()[0]["range"] == 7.5


# ---- the number of a person's rows ---------------------------------------------------------------


def rows_table(people: int = 3_000) -> pa.Table:
    owned = np.where(np.arange(people) % 10 == 0, 7, 2)
    return pa.table({"id": np.repeat(np.arange(people), owned)})


def test_max_rows_is_found_before_any_question_and_paid_for() -> None:
    unit = unacorda.Person("id", max_rows=unacorda.auto(budget=unacorda.PureDP(2), most=50))
    assert unit.max_rows == 50
    with opened(rows_table(), unit=unit) as session:
        assert isinstance(session.unit, unacorda.Person)
        assert session.unit.max_rows == 7
        assert session.spent == unacorda.PureDP(2)
        told = session.explain(
            session.table("t").agg(n=unacorda.count()), budget=unacorda.PureDP(1), detail=True
        )
        assert "7 rows of a person: a number that was found privately" in str(told)
        assert told.standard_error("n") == pytest.approx(7 * math.sqrt(2), rel=0.01)
        assert len(ledger_of(session).entries("session")) == 2
        release = session.evaluate(
            session.table("t").agg(n=unacorda.count()), budget=unacorda.PureDP(2)
        )
        assert any("found privately" in line for line in release.provenance)


@pytest.mark.long
def test_a_first_look_names_what_the_search_cost() -> None:
    unit = unacorda.Person("id", max_rows=unacorda.auto(budget=unacorda.PureDP(2), most=50))
    table = rows_table().append_column("x", pa.array([1.0] * rows_table().num_rows))
    with opened(table, unit=unit, budget=unacorda.PureDP(9)) as session:
        look = session.describe("t", budget=unacorda.PureDP(4))
        with session.for_analyst("a", unacorda.PureDP(1)) as part:
            assert not part.searches
    assert (look.before, look.request) == (unacorda.PureDP(2), unacorda.PureDP(4))
    assert look.spent + unacorda.PureDP(2) == unacorda.PureDP(9) - look.remaining
    for text in (str(look), look.to_html()):
        assert f"{look.spent + unacorda.PureDP(2)}: epsilon 2 to find how many" in text
    assert json.loads(look.to_json())["before"] == "PureDP(epsilon=2.0)"
    with opened(table, unit=unacorda.Person("id", max_rows=7)) as session:
        look = session.describe("t", budget=unacorda.PureDP(1))
    assert look.before is None
    assert f"spent {look.spent}; " in str(look)


@pytest.mark.long
def test_several_tables_share_the_search() -> None:
    unit = unacorda.Person("id", max_rows=unacorda.auto(budget=unacorda.ZCDP(1), most=50))
    with unacorda.Session(
        {
            "a": rows_table().append_column("x", pa.array([1.0] * rows_table().num_rows)),
            "b": pa.table({"id": np.arange(2_000)}),
        },
        unit=unit,
        budget=unacorda.ZCDP(3),
        bits=SeededBits(2),
    ) as session:
        assert session.unit.max_rows == 7  # type: ignore[union-attr]
        assert session.spent == unacorda.ZCDP(1)
        assert len(ledger_of(session).entries("session")) == 2  # both tables in one reservation
        look = session.describe("a", budget=unacorda.ZCDP(1))
        assert look.before == unacorda.ZCDP(1)
        assert unacorda.Release.verify(look.to_json(), ledger=ledger_of(session)).holds


def test_a_search_beyond_the_budget_reads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def reached(*_: object, **__: object) -> None:
        raise AssertionError("the engine ran")

    monkeypatch.setattr(DuckDB, "run", reached)
    unit = unacorda.Person("id", max_rows=unacorda.auto(budget=unacorda.PureDP(2)))
    with pytest.raises(BudgetExceeded):
        opened(rows_table(9), unit=unit, budget=unacorda.PureDP(1))


def test_a_search_is_written_rightly_or_refused() -> None:
    for options in ({"budget": 1.0}, {"budget": unacorda.PureDP(1), "most": 0}):
        with pytest.raises(InvalidParameter):
            unacorda.auto(**options)
    assert repr(unacorda.Person("id", max_rows=3)) == (
        "Person(id=('id',), max_rows=3, neighbors=AddRemove)"
    )
