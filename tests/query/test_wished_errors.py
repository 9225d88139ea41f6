"""Budgets from wished errors: promised, not more than needed, and refused where none will do."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.support.cases import in_subtests
from tests.support.seams import ledger_of, verify_record

import unacorda
from unacorda import ApproxDP, PureDP
from unacorda.bits import SeededBits
from unacorda.errors import BudgetExceeded, InvalidParameter, WrongUnit

FRAME = pd.DataFrame({"id": [1, 1, 2, 3], "age": [30, 30, 41, 62], "sex": list("FFMF")})
ASSUME = unacorda.Assume(rows=400, values={"age": [20, 30, 45, 70]})
BUDGETS: dict[str, Any] = {
    "PureDP": PureDP(3),
    "ZCDP": unacorda.ZCDP(3, delta=1e-9),
    "GDP": unacorda.GDP(3),
    "ApproxDP": ApproxDP(3, 1e-6),
    "RenyiDP": unacorda.RenyiDP(8, 3),
}


def opened(account: Any) -> unacorda.Session:
    return unacorda.Session(
        {"t": FRAME}, unit=unacorda.Person("id", max_rows=2), budget=account, bits=SeededBits(1)
    )


@pytest.fixture(params=BUDGETS)
def budget(request: pytest.FixtureRequest) -> Any:
    return BUDGETS[request.param]


@pytest.fixture
def session(budget: Any) -> Iterator[unacorda.Session]:
    with opened(budget * 100) as made:
        yield made


def question(session: unacorda.Session) -> Any:
    return session.table("t").agg(
        n=unacorda.count(weight=2), s=unacorda.sum("age", 0, 100), m=unacorda.mean("age", 0, 100)
    )


@pytest.mark.long
def test_a_suggested_budget_reaches_its_errors_and_little_less_does_not(
    session: unacorda.Session, budget: Any
) -> None:
    delta = getattr(budget, "delta", 0) if not isinstance(budget, unacorda.GDP) else 0
    for wished in ({"n": 12}, {"n": 12, "s": 700}, {"m": 1.5, "n": 9}):
        query = question(session)
        found = session.suggest_budget(query, error=wished, delta=delta, assuming=ASSUME)
        assert type(found) is type(budget)
        promise = session.explain(query, budget=found, assuming=ASSUME)
        errors = {name: promise.standard_error(name) or np.inf for name in wished}
        assert all(errors[name] <= wished[name] for name in wished)
        # 3% less: of mu squared, of which there would be 6%.
        part = Fraction(94 if isinstance(budget, unacorda.GDP) else 97, 100)
        less = found.with_additive([found.additive[0] * part, *found.additive[1:]])
        promise = session.explain(query, budget=less, assuming=ASSUME)
        assert any((promise.standard_error(name) or 0) > wished[name] for name in wished)
    assert session.spent == session.budget * 0


@pytest.mark.long
def test_a_split_for_errors_is_cheaper_than_the_even_one(
    session: unacorda.Session, budget: Any
) -> None:
    """A count with ten times the error of the other: the even split would have to buy both."""
    wished = {"few": 40, "many": 4}
    query = session.table("t").agg(few=unacorda.count(), many=unacorda.count("age"))
    release = session.evaluate(query, budget=budget, errors=wished)
    for name, error in wished.items():
        stated = release.answers[name].standard_errors[0]
        assert stated is not None
        assert stated <= error
        assert stated > 0.85 * error or name == "few"
    assert all(a <= b for a, b in zip(release.charge.additive, budget.additive, strict=True))
    even = session.suggest_budget(
        query,
        error={"many": 4},
        delta=0 if isinstance(budget, unacorda.GDP) else getattr(budget, "delta", 0),
    )
    assert release.charge.additive[0] < 0.75 * even.additive[0]
    assert verify_record(release.to_json(), ledger=ledger_of(session)).holds


def test_the_others_share_what_is_left(session: unacorda.Session, budget: Any) -> None:
    query = session.table("t").agg(
        n=unacorda.count(),
        s=unacorda.sum("age", 0, 10),
        a=unacorda.count("sex"),
        b=unacorda.count("sex", weight=3),
    )
    release = session.evaluate(query, budget=budget, errors={"n": 5})
    stated = {name: answer.standard_errors[0] for name, answer in release.answers.items()}
    assert stated["n"] == pytest.approx(5, rel=0.02)
    assert all(error is not None for error in stated.values())
    assert (stated["a"] or 0) > (stated["b"] or 0) > 0
    assert release.request == budget


def test_errors_of_several_questions_are_refused(session: unacorda.Session, budget: Any) -> None:
    query = session.table("t").agg(n=unacorda.count())
    asked: Any = [query, query]
    with pytest.raises(InvalidParameter, match="one question"):
        session.evaluate(asked, budget=budget, errors=5)
    with pytest.raises(InvalidParameter, match="one question"):
        session.explain(asked, budget=budget, errors=5)


@pytest.mark.statistical
def test_a_split_for_errors_errs_as_wished() -> None:
    """6,000 cells: the root mean square is within 6% but with chance below 1e-7."""
    cells = 6_000
    frame = pd.DataFrame({"id": range(cells), "cell": range(cells)})
    with unacorda.Session(
        {"t": frame},
        unit=unacorda.Person("id", max_rows=1),
        budget=PureDP(10**4),
        bits=SeededBits(9),
    ) as session:
        query = session.table("t").group_by("cell", keys=range(cells))
        query = query.agg(n=unacorda.count(), p=unacorda.count_people())
        release = session.evaluate(query, budget=PureDP(10), errors={"n": 3, "p": 30})
        for name, error in (("n", 3), ("p", 30)):
            noise = np.array(release.answers[name].values, dtype=float) - 1
            assert float(np.sqrt(np.mean(noise**2))) == pytest.approx(error, rel=0.06)
        assert session.spent < PureDP("0.6")


def test_too_little_is_refused_with_what_would_be_enough(
    session: unacorda.Session, budget: Any
) -> None:
    query = question(session)
    with pytest.raises(InvalidParameter, match=r"budget=.*at least .*without"):
        session.evaluate(query, budget=budget, errors={"n": 0.01})
    both = session.table("t").agg(n=unacorda.count(), m=unacorda.count())
    with pytest.raises(InvalidParameter, match="at least") as caught:
        session.evaluate(both, budget=budget / 100, errors={"n": 1, "m": 2})
    assert session.spent == session.budget * 0
    told = caught.value.expected.partition("at least ")[2].partition(" for the")[0]
    enough = eval(told, {name: getattr(unacorda, name) for name in BUDGETS})
    more = enough * 1.001 if not isinstance(enough, ApproxDP) else enough
    release = session.evaluate(both, budget=more, errors={"n": 1, "m": 2})
    assert (release.answers["n"].standard_errors[0] or 9) <= 1
    assert (release.answers["m"].standard_errors[0] or 9) <= 2


@pytest.fixture
def pure() -> Iterator[unacorda.Session]:
    with opened(PureDP(1000)) as made:
        yield made


@in_subtests(
    "error",
    [
        0,
        -1,
        float("nan"),
        float("inf"),
        "many",
        None,
        [],
        {},
        {"x": 1},
        {"n": 0},
        {"n": None},
        5,
        {"n": 10**400},
    ],
)
def test_wishes_that_are_none_are_refused(pure: unacorda.Session, error: Any) -> None:
    query = question(pure)
    with pytest.raises(InvalidParameter, match="error"):
        pure.suggest_budget(query, error=error)
    if error is not None:
        with pytest.raises(InvalidParameter, match="errors"):
            pure.evaluate(query, budget=PureDP(1), errors=error)
    assert pure.spent == PureDP(0)


def test_what_no_budget_reaches_is_refused(pure: unacorda.Session) -> None:
    table = pure.table("t")
    coarse = table.agg(q=unacorda.median("age", 0, 100, resolution=25))
    values = unacorda.Assume(rows=50, values={"age": [30, 40, 60]})
    with pytest.raises(InvalidParameter, match="some budget"):
        pure.suggest_budget(coarse, error=0.001, assuming=values)
    with pytest.raises(InvalidParameter, match="some budget"):
        pure.suggest_budget(table.agg(n=unacorda.sum("age", 0, 10**9)), error=1e-9)
    with pytest.raises(InvalidParameter, match="known beforehand"):
        pure.suggest_budget(table.agg(m=unacorda.mean("age", 0, 100)), error=1)
    with pytest.raises(InvalidParameter, match="known beforehand"):
        pure.evaluate(table.agg(m=unacorda.max("age", 0, 100)), budget=PureDP(1), errors=3)


def test_a_select_gets_a_budget_of_any_kind_the_account_takes() -> None:
    with opened(unacorda.ZCDP(10, delta=1e-5)) as session:
        text = "SELECT sex, COUNT(*) AS n FROM t GROUP BY sex"
        keys = {"sex": ["F", "M"]}
        for kind, delta in ((None, 0), (PureDP, 0), (unacorda.GDP, 0), (ApproxDP, "1e-6")):
            found = session.suggest_budget(text, error=5, kind=kind, delta=delta, keys=keys)
            promise = session.explain(text, budget=found, keys=keys)
            assert (promise.standard_error("n") or 9) <= 5
        for bad in ({"kind": ApproxDP}, {"kind": int}, {"kind": unacorda.RenyiDP}, {"delta": 1}):
            with pytest.raises(InvalidParameter):
                session.suggest_budget(text, error=5, keys=keys, **bad)
        release = session.evaluate(text, budget=unacorda.ZCDP(1), errors=5, keys=keys)
        assert (release.answers["n"].standard_errors[0] or 9) <= 5
        with pytest.raises(BudgetExceeded):
            session.evaluate(text, budget=unacorda.ZCDP(10**5), errors=0.05, keys=keys)
    with opened(PureDP(1)) as session, pytest.raises(WrongUnit):
        session.suggest_budget("SELECT COUNT(*) AS n FROM t", error=5, kind=unacorda.ZCDP)


@pytest.mark.long
@pytest.mark.parametrize("margins", ["rollup", "cube"])
def test_the_finest_level_of_tables_that_add_up_errs_as_wished(
    session: unacorda.Session, margins: Any
) -> None:
    """Every released standard error of the level is within the wish, and little less is not."""
    delta = getattr(session.budget, "delta", 0) and "1e-6"
    keys: Any = {"sex": ["F", "M"], "age": [30, 41, 62]}
    query = session.table("t").group_by("sex", "age", keys=keys, margins=margins)
    query = query.agg(n=unacorda.count())
    found = session.suggest_budget(query, error=12, delta=delta)
    rows = session.evaluate(query, budget=found).to_dicts()
    largest = max(row["n_se"] for row in rows if row["margin"] == "sex, age")
    told = session.explain(query, budget=found).standard_error("n", "sex, age")
    assert told == pytest.approx(largest, rel=1e-12)
    assert 0.9 < largest / 12 <= 1  # pure noise is discrete, and budgets have three digits


def test_a_split_reaches_the_errors_of_tables_that_add_up(pure: unacorda.Session) -> None:
    start = pure.table("t").group_by("sex", "age", keys=[("F", 30), ("M", 41)], margins="rollup")
    query = start.agg(n=unacorda.count(), s=unacorda.sum("age", 0, 100))
    release = pure.evaluate(query, budget=PureDP(900), errors={"n": 3, "s": 900})
    rows = [row for row in release.to_dicts() if row["margin"] == "sex, age"]
    assert 2.7 < max(row["n_se"] for row in rows) <= 3
    assert 850 < max(row["s_se"] for row in rows) <= 900
    assert "finest level" in str(pure.explain(query, budget=PureDP(1), detail=True))
    with pytest.raises(InvalidParameter, match="level='zip'"):
        pure.explain(query, budget=PureDP(1)).standard_error("n", "zip")
    wrongs: tuple[Any, ...] = ({"n": {"sex": 3}}, {"n": {}})
    for wrong in wrongs:
        with pytest.raises(InvalidParameter, match=r"error\['n'\]"):
            pure.suggest_budget(query, error=wrong)


def test_a_budget_that_lacks_its_delta_is_told_so() -> None:
    with opened(ApproxDP(4, "1e-5")) as session:
        for kind, of in ((None, "the account's budget is ApproxDP"), (ApproxDP, "kind=ApproxDP")):
            with pytest.raises(InvalidParameter, match=of) as caught:
                session.suggest_budget("SELECT COUNT(*) AS n FROM t", error=10, kind=kind)
            assert caught.value.value is None  # none was given
