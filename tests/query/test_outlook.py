"""What explanations say of other budgets and of assumed data."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pytest
from tests.support.cases import in_subtests
from tests.support.seams import Explanation

import unacorda
from unacorda import PureDP
from unacorda.errors import InvalidParameter

FRAME = pd.DataFrame({"id": [1, 1, 2, 3], "age": [30, 30, 41, 62], "sex": list("FFMF")})
ACCOUNTS: dict[str, tuple[Any, Any]] = {
    "PureDP": (PureDP(9), PureDP(1)),
    "ZCDP": (unacorda.ZCDP(9, 0.1), unacorda.ZCDP("1/2", 1e-9)),
    "GDP": (unacorda.GDP(9), unacorda.GDP(1)),
    "ApproxDP": (unacorda.ApproxDP(9, 0.1), unacorda.ApproxDP(1, 1e-6)),
    "RenyiDP": (unacorda.RenyiDP(8, 9), unacorda.RenyiDP(8, 1)),
}


def opened(unit: Any, account: Any = None) -> unacorda.Session:
    return unacorda.Session({"t": FRAME}, unit=unit, budget=account or PureDP(9))


@pytest.fixture
def session() -> Iterator[unacorda.Session]:
    with opened(unacorda.Person("id", max_rows=4)) as made:
        yield made


def question(session: unacorda.Session) -> Any:
    return (
        session.table("t")
        .group_by("sex", keys=["F", "M"])
        .agg(
            n=unacorda.count(),
            total=unacorda.sum("age", 0, 50),
            mean=unacorda.mean("age", 0, 100),
            mid=unacorda.median("age", 0, 100),
            top=unacorda.max("age", 0, 100),
        )
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ACCOUNTS)
def test_the_table_says_what_each_budget_would_promise(name: str) -> None:
    account, request = ACCOUNTS[name]
    with opened(unacorda.Person("id", max_rows=4), account) as session:
        query = question(session)
        found = session.explain(query, budget=request).outlook.budgets
        assert len(found) == 4
        assert found[2][0] == request
        for budget, errors in found[: 1 if name == "ApproxDP" else 4]:
            assert type(budget) is type(request)
            forecasts = session.explain(query, budget=budget).forecasts
            assert errors["n"].value == forecasts["n"].standard_error
            assert errors["mid"].value == forecasts["mid"].rank_error
            assert errors["top"].value == forecasts["top"].people_error
            assert errors["mean"].value == dict(forecasts["mean"].table)[1_000]
            assert [errors[n].unit for n in ("n", "mid", "top", "mean")] == [
                *("", "ranks, 95%", "people, 95%"),
                "1,000 rows",
            ]
        whole = [budget.additive[0] for budget, _ in found]
        square = 2 if name == "GDP" else 1
        assert [number / whole[2] for number in whole] == [
            pytest.approx(part**square) for part in (0.1, 0.5, 1, 2)
        ]
        rest = {budget.additive[1:] for budget, _ in found}
        assert rest == {request.additive[1:]}  # delta is not part of it


def cuts(session: unacorda.Session, **assumed: Any) -> str:
    assume = unacorda.Assume(rows=100, **assumed)
    return " | ".join(
        session.explain(question(session), budget=PureDP(1), assuming=assume).outlook.cuts
    )


def test_what_bounds_would_cut_is_counted(session: unacorda.Session) -> None:
    said = cuts(session, rows_per_person=[1, 2, 4, 5, 8], values={"age": [20, 40, 60, 120]})
    # 5 of 20 rows go: 1 of 5 and 4 of 8; two of five people have more than four.
    assert "rows per person: 25% of the rows are dropped, of 40% of the people" in said
    assert "total: 50% of the values of age are clamped to [0, 50]" in said
    assert "moves their mean by -20" in said  # (-10 - 70) / 4
    assert "mean: 25% of the values of age are clamped to [0, 100]" in said
    assert "moves their mean by -5" in said
    assert cuts(session) == ""
    with opened(unacorda.Person("id", max_groups=5, max_rows_per_group=2)) as other:
        # Both keys, two rows in each: at most four rows.
        assert "at least 25% of the rows are dropped" in cuts(
            other, rows_per_person=[1, 2, 4, 5, 8]
        )


def test_the_noise_stands_beside_the_range(session: unacorda.Session) -> None:
    found = session.explain(question(session), budget=PureDP(1))
    error = found.standard_error("total")
    assert error is not None
    assert found.beside == {
        "total": f"noise against the range of one value, 0 to 50: {error / 50:,.0f} times as wide"
    }
    assume = unacorda.Assume(rows=10**6, values={"age": [50]})
    found = session.explain(question(session), budget=PureDP(1), assuming=assume, detail=True)
    assert f"{found.standard_error('mean'):.3g}% of it" in found.beside["mean"]
    assert found.beside["mean"] in str(found)


def test_an_outlook_is_plain_values_and_lines(session: unacorda.Session) -> None:
    found: Explanation = session.explain(question(session), budget=PureDP(1), detail=True)
    plain = json.loads(json.dumps(found.to_dict()))["outlook"]
    assert [line["budget"] for line in plain["budgets"]] == [
        f"PureDP(epsilon={number})" for number in (0.1, 0.5, 1.0, 2.0)
    ]
    lines = str(found).splitlines()
    head = next(line for line in lines if "epsilon=0.1" in line)
    assert head.split() == [f"epsilon={number}" for number in (0.1, 0.5, 1.0, 2.0)]
    assert len({len(line) for line in lines[lines.index(head) :][:6]}) == 1


@in_subtests("rows", [[], [0], [1, -2], [1.5], "many", 3, [[1]], [True], [10**12], [None]])
def test_rows_per_person_that_are_none_are_refused(rows: Any) -> None:
    with pytest.raises(InvalidParameter, match="rows_per_person"):
        unacorda.Assume(rows=5, rows_per_person=rows)
