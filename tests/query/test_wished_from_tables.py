"""Budgets from wished errors that depend on the data, which a public table stands in for."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.support.seams import ledger_of, verify_record

import unacorda
from unacorda import ApproxDP, Assume, PureDP
from unacorda.bits import SeededBits
from unacorda.errors import InvalidParameter

CELLS, EACH = 300, 400


def table(seed: int) -> pd.DataFrame:
    """Many cells of as many rows each, of people with one row, some without an age."""
    random = np.random.default_rng(seed)
    size = CELLS * EACH
    age = random.gamma(9, 5, size)
    return pd.DataFrame(
        {
            "id": range(size),
            "cell": np.repeat(range(CELLS), EACH),
            "age": np.where(random.random(size) < 0.5, age, np.nan),
            "pay": 20 * age + random.normal(0, 50, size),
        }
    )


PRIVATE, PUBLIC = table(1), table(2)


@pytest.fixture
def session() -> Iterator[unacorda.Session]:
    with unacorda.Session(
        {"t": PRIVATE},
        unit=unacorda.Person("id", max_rows=1),
        budget=ApproxDP(10**4, "0.1"),
        bits=SeededBits(4),
    ) as made:
        yield made


def question(session: unacorda.Session, **aggregates: Any) -> Any:
    return session.table("t").group_by("cell", keys=range(CELLS)).agg(**aggregates)


@pytest.mark.slow
@pytest.mark.statistical
def test_errors_are_as_wished_where_the_public_table_is_like_the_private_one(
    session: unacorda.Session,
) -> None:
    """300 cells: errors of this law are within 25% but with chance below 1e-7."""
    query = question(
        session,
        m=unacorda.mean("age", 0, 120),
        p=unacorda.proportion("pay > 900"),
        r=unacorda.ratio("pay", "age", (0, 4_000), (0, 120)),
        q=unacorda.median("pay", 0, 4_000, resolution=10),
    )
    wished = {"m": 2.0, "p": 0.02, "r": 1.5, "q": 25.0}
    release = session.evaluate(
        query, budget=PureDP(100), errors=wished, assuming=Assume.from_table(PUBLIC)
    )
    assert verify_record(release.to_json(), ledger=ledger_of(session)).holds
    cells = PRIVATE.groupby("cell")
    both = PRIVATE.dropna().groupby("cell")
    truth = {
        "m": cells["age"].mean(),
        "p": cells["pay"].agg(lambda pay: (pay > 900).mean()),
        "r": both["pay"].agg(lambda pay: pay.clip(0, 4_000).sum()) / both["age"].sum(),
        "q": cells["pay"].quantile(0.5, interpolation="lower"),
    }
    for name, exact in truth.items():
        off = np.array(release.answers[name].values, dtype=float) - exact.to_numpy()
        found = float(np.sqrt(np.mean(off**2)))
        assert 0.75 * wished[name] < found < 1.25 * wished[name], name


@pytest.mark.long
def test_a_suggested_budget_is_for_rows_that_count(session: unacorda.Session) -> None:
    query = question(session, m=unacorda.mean("age", 0, 120))
    found = session.suggest_budget(query, error=1, kind=PureDP, assuming=Assume.from_table(PUBLIC))
    told = session.explain(query, budget=found, assuming=Assume.from_table(PUBLIC))
    assert told.standard_error("m") == pytest.approx(1, rel=0.02)
    present = PUBLIC["age"].notna().sum() / CELLS
    assert told.forecasts["m"].assumed_rows == round(present)
    # With the private table itself for the public one, as near as two samples of one law are.
    same = session.suggest_budget(query, error=1, kind=PureDP, assuming=Assume.from_table(PRIVATE))
    assert same.additive[0] == pytest.approx(found.additive[0], rel=0.05)
    assert not any(session.spent.additive)


@pytest.mark.long
def test_rows_are_counted_after_people_are_bound() -> None:
    frame = pd.DataFrame({"id": [0] * 900 + [*range(1, 101)], "x": 5.0})
    with unacorda.Session(
        {"t": frame.iloc[:0]}, unit=unacorda.Person("id", max_rows=3), budget=PureDP(9)
    ) as session:
        query = session.table("t").agg(m=unacorda.mean("x", 0, 10))
        told = session.explain(query, budget=PureDP(1), assuming=Assume.from_table(frame))
        assert told.forecasts["m"].assumed_rows == 103
        assert "rows per person: 89.7% of the rows are dropped" in str(told)


@pytest.mark.long
def test_private_keys_are_those_that_all_of_the_budget_would_find() -> None:
    frame = pd.DataFrame({"id": range(1_000), "x": 5.0, "town": ["A"] * 500 + ["B"] * 500})
    rare = pd.DataFrame({"id": range(10**4, 10**4 + 50), "x": 5.0, "town": map(str, range(50))})
    with unacorda.Session(
        {"t": frame.iloc[:0]}, unit=unacorda.Person("id", max_rows=1), budget=ApproxDP(5, "1e-6")
    ) as session:
        start = session.table("t").group_by("town", keys=unacorda.private_keys())
        query = start.agg(m=unacorda.mean("x", 0, 10))
        found = [
            session.suggest_budget(
                query, error=0.1, delta="1e-6", assuming=Assume.from_table(public)
            )
            for public in (frame, pd.concat([frame, rare]))
        ]
        assert found[0] == found[1]  # nobody would find the rare ones
        told = session.explain(query, budget=found[0], assuming=Assume.from_table(frame))
        assert told.standard_error("m") == pytest.approx(0.1, rel=0.03)


@pytest.mark.long
def test_what_no_row_tells_of_is_refused(session: unacorda.Session) -> None:
    query = question(session, m=unacorda.mean("age", 0, 120), n=unacorda.count())
    empty = PUBLIC.assign(age=np.nan)
    with pytest.raises(InvalidParameter, match="a public table in which rows count"):
        session.suggest_budget(
            query, error={"m": 1}, delta="1e-6", assuming=Assume.from_table(empty)
        )
    found = session.suggest_budget(
        query, error={"n": 9}, delta="1e-6", assuming=Assume.from_table(empty)
    )
    assert found == session.suggest_budget(query, error={"n": 9}, delta="1e-6")
    with pytest.raises(InvalidParameter, match="errors= with it"):
        session.evaluate(query, budget=PureDP(1), assuming=Assume.from_table(PUBLIC))
    with pytest.raises(InvalidParameter, match="lacks age"):
        session.evaluate(
            query,
            budget=PureDP(1),
            errors={"m": 9},
            assuming=Assume.from_table(PUBLIC.drop(columns="age")),
        )
    assert not any(session.spent.additive)
