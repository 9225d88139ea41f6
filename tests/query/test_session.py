"""What a session spends, and that it never spends more than it has."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import threading
from fractions import Fraction
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.query.exact_answers import exact, opened
from tests.support.cases import in_subtests
from tests.support.seams import Count, Session, ledger_of

import unacorda
from unacorda.accounting.charges import request_price
from unacorda.errors import BudgetExceeded, InvalidParameter
from unacorda.privacy.guarantees import GDP, ZCDP, ApproxDP, Guarantee, PureDP, RenyiDP

FRAME = pl.DataFrame(
    {
        "id": [i // 3 for i in range(300)],
        "age": [i % 90 for i in range(300)],
        "sex": ["f", "m", None] * 100,
    }
)
PERSON = unacorda.Person("id", max_rows=3)


def everything(session: Session) -> Any:
    return (
        session.table("t")
        .where("age >= 18")
        .derive(decade="floor(age / 10)")
        .group_by("sex", "decade", keys={"sex": ["f", "m", None], "decade": [2, 3]})
        .agg(
            n=unacorda.count(),
            people=unacorda.count_people(weight=3),
            total=unacorda.sum("age", 0, 90, weight="1/7"),
            mean=unacorda.mean("age", 0, 90, weight=0.1),
            middle=unacorda.median("age", 0, 90, weight=2, interval="1/3"),
        )
    )


WIDE = unacorda.Person("id", max_rows=400)


def many_people(session: Session) -> Any:
    """A person in 400 cells at once: l1 sensitivity 400, l2 sensitivity 20."""
    table = session.table("t").derive(cell="id * 1000 + age")
    return table.group_by("cell", keys=range(500)).agg(people=unacorda.count_people())


QUESTIONS = {
    "one count": lambda s: s.table("t").agg(n=unacorda.count()),
    "one sum": lambda s: s.table("t").agg(n=unacorda.sum("age", 0, 90)),
    "everything": everything,
    "many people": many_people,
}
TENTHS: dict[str, tuple[Guarantee, Guarantee]] = {
    "PureDP": (PureDP(1), PureDP(0.1)),
    "ApproxDP without delta": (ApproxDP(1, 0), PureDP(0.1)),
    "ZCDP": (ZCDP(1), ZCDP(0.1)),
    "GDP": (GDP(1), GDP(1) / 10),
    "RenyiDP": (RenyiDP(8, 1), RenyiDP(8, 0.1)),
    "RenyiDP asked in ZCDP": (RenyiDP(8, 1), ZCDP("1/80")),
}


@pytest.mark.long
@in_subtests(
    ("unit", "question"),
    [*((unit, "one count") for unit in TENTHS), *(("ZCDP", question) for question in QUESTIONS)],
)
def test_ten_tenths_are_the_whole(unit: str, question: str) -> None:
    budget, tenth = TENTHS[unit]
    with opened(FRAME, unit=WIDE, budget=budget) as session:
        query = QUESTIONS[question](session)
        for number in range(10):
            release = session.evaluate(query, budget=tenth)
            assert release.remaining == session.remaining
            assert session.spent + session.remaining == budget
            assert session.spent == budget * Fraction(number + 1, 10)
        assert session.remaining == budget * 0
        with pytest.raises(BudgetExceeded, match="Ask for less"):
            session.evaluate(query, budget=tenth / 1_000)
        assert session.spent == budget


@pytest.mark.long
def test_ten_tenths_of_both_epsilon_and_delta_are_the_whole() -> None:
    with opened(FRAME, unit=WIDE, budget=ApproxDP(1, "1e-5")) as session:
        for _ in range(10):
            session.evaluate(many_people(session), budget=ApproxDP(0.1, "1e-6"))
        assert session.spent == ApproxDP(1, "1e-5")


@pytest.mark.long
def test_parts_of_what_remains_are_spent_to_the_end() -> None:
    with opened(FRAME, unit=PERSON, budget=ZCDP("1/3", delta="1e-6")) as session:
        query = everything(session)
        for _ in range(20):
            session.evaluate(query, budget=session.remaining / 4)
        session.evaluate(query, budget=session.remaining)
        assert session.spent == ZCDP("1/3")
        assert session.remaining == ZCDP(0, delta="1e-6")


# ---- what a budget buys --------------------------------------------------------------------------

LAPLACE = {"count": unacorda.count(), "sum": unacorda.sum("age", 0, 90)}
MEDIAN = {"median": unacorda.median("age", 0, 90)}
CHARGES: list[tuple[Guarantee, Guarantee, dict[str, Any], Guarantee]] = [
    # account, request, aggregates, what is charged (an upper bound within 2^-40 where irrational)
    (PureDP(9), PureDP(0.5), LAPLACE | MEDIAN, PureDP(0.5)),
    (ApproxDP(9, "1e-3"), PureDP(0.5), LAPLACE | MEDIAN, ApproxDP(0.5, 0)),
    (ApproxDP(9, "1e-3"), ApproxDP(0.5, "1e-6"), LAPLACE, ApproxDP(0.5, 0)),
    (ZCDP(9), PureDP(1), {"count": unacorda.count()}, ZCDP("0.46211715726000975850")),
    (ZCDP(9), PureDP(1), MEDIAN, ZCDP("1/8")),
    (ZCDP(9), ZCDP(0.5), LAPLACE | MEDIAN, ZCDP(0.5)),
    (ZCDP(9), ZCDP(0.5, delta=0), LAPLACE, ZCDP(0.5)),
    (ZCDP(9, "1e-3"), ZCDP(0.5, "1e-6"), LAPLACE, ZCDP(0.5)),
    (ZCDP(9), GDP(0.5), LAPLACE, ZCDP("1/8")),
    (GDP(9), GDP(0.5), LAPLACE | MEDIAN, GDP(0.5)),
    # mu = 2 Phi^-1(e / (1 + e))
    (GDP(9), PureDP(1), {"count": unacorda.count()}, GDP("1.23203538534490285568")),
    (RenyiDP(2, 9), ZCDP(0.5), LAPLACE | MEDIAN, RenyiDP(2, 1)),
    (RenyiDP(2, 9), GDP(0.5), LAPLACE, RenyiDP(2, "1/4")),
    (RenyiDP(2, 9), RenyiDP(2, 0.5), LAPLACE | MEDIAN, RenyiDP(2, 0.5)),
]


@pytest.mark.long
@in_subtests("number", range(len(CHARGES)))
def test_every_pair_of_the_table_is_charged_as_stated(number: int) -> None:
    account, request, aggregates, charge = CHARGES[number]
    with opened(FRAME, budget=account) as session:
        query = session.table("t").agg(**aggregates)
        explained = session.explain(query, budget=request)
        assert session.spent == account * 0
        release = session.evaluate(query, budget=request)
        assert explained.cost == release.charge == session.spent
    for spent, stated, most in zip(
        release.charge.additive,
        charge.additive,
        request_price(request, account).additive,
        strict=True,
    ):
        assert abs(spent - stated) <= Fraction(1, 2**40)
        assert spent <= most


def test_approximate_budgets_buy_the_better_noise() -> None:
    request = ApproxDP(1, "1e-6")
    with opened(FRAME, unit=WIDE, budget=ApproxDP(2, "1e-5")) as session:
        one = session.evaluate(session.table("t").agg(n=unacorda.count()), budget=request)
        assert one.charge == ApproxDP(1, 0)
        many = session.evaluate(many_people(session), budget=request)
        assert many.charge == request
        laplace = session.explain(many_people(session), budget=PureDP(1)).standard_error("people")
        normal = session.explain(many_people(session), budget=request).standard_error("people")
    assert laplace is not None
    assert normal is not None
    assert many.answers["people"].standard_errors[0] == normal < laplace / 3
    assert one.answers["n"].standard_errors[0] == pytest.approx(400 * 2**0.5, rel=1e-3)


def test_weights_split_the_budget() -> None:
    for budget, ratio in ((PureDP(1), 3.0), (ZCDP(1), 3**0.5), (GDP(1), 3**0.5)):
        with opened(FRAME, budget=budget) as session:
            query = session.table("t").agg(
                a=unacorda.sum("age", 0, 90, weight=3), b=unacorda.sum("age", 0, 90, weight=1)
            )
            explanation = session.explain(query, budget=budget)
            assert explanation.parts == {"a": 0.75, "b": 0.25}
            large, small = explanation.standard_error("b"), explanation.standard_error("a")
            assert large is not None
            assert small is not None
            assert large / small == pytest.approx(ratio, rel=1e-6)


def test_explaining_is_free_and_says_what_evaluating_does() -> None:
    with opened(FRAME, unit=PERSON, budget=PureDP(0.5)) as session:
        query = everything(session)
        rich = session.explain(query, budget=PureDP(50))
        assert rich.cost == PureDP(50)
        explanation = session.explain(
            query,
            budget=PureDP(0.5),
            assuming=unacorda.Assume(rows=20, values={"age": [20, 30]}),
            detail=True,
        )
        assert session.spent == PureDP(0)
        release = session.evaluate(query, budget=PureDP(0.5))
        for name in ("n", "people", "total"):
            assert release.answers[name].standard_errors == [explanation.standard_error(name)] * 6
        text = str(explanation)
        assert "6 public keys" in text
        assert "drop rows without id (whether or not there are any)" in text
        assert "at most 3 rows of each person" in text
        assert explanation.standard_error("middle") is not None


# ---- noise ---------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_seed_fixes_every_number_and_no_seed_none() -> None:
    found = []
    for seed in (5, 5, 6, None, None):
        with opened(FRAME, unit=PERSON, seed=seed) as session:
            release = session.evaluate(everything(session), budget=PureDP(0.5))
        found.append((release.to_dicts(), release.salt))
        assert release.reproducible == (seed is not None)
    assert found[0] == found[1]
    assert len({repr(each) for each in found}) == 4
    assert len({salt for _, salt in found}) == 4


def test_with_enough_budget_the_answers_are_the_exact_ones() -> None:
    with opened(FRAME, unit=PERSON, budget=PureDP(10**6)) as session:
        query = everything(session)
        truth = exact(session, query)
        release = session.evaluate(query, budget=PureDP(10**6))
    assert release.answers["n"].values == truth["n"]
    assert release.answers["people"].values == truth["people"]
    for at in range(6):
        assert release.answers["total"].values[at] == pytest.approx(truth["total"][at], abs=0.1)
        total, count = truth["mean"][at]
        mean = total / max(count, 1) if count else 45
        assert release.answers["mean"].values[at] == pytest.approx(float(mean), abs=0.05)


# ---- threads and lifetimes -----------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("durable", [False, True])
def test_ten_threads_never_overspend(durable: bool, tmp_path: Path) -> None:
    options = {"ledger": f"sqlite:///{tmp_path / 'b.db'}", "dataset": "d"} if durable else {}
    outcomes: list[str] = []
    with opened(FRAME, unit=PERSON, seed=None, **options) as session:
        query = session.table("t").agg(n=unacorda.count(), m=unacorda.median("age", 0, 90))
        start = threading.Barrier(10)

        def ask() -> None:
            start.wait()
            for _ in range(3):
                try:
                    release = session.evaluate(query, budget=PureDP(0.1))
                    outcomes.append("answered" if release.columns else "empty")
                except BudgetExceeded:
                    outcomes.append("refused")

        threads = [threading.Thread(target=ask) for _ in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert session.spent == PureDP(1)
        assert session.remaining == PureDP(0)
        assert ledger_of(session).verify(session._dataset) == 20
    assert sorted(outcomes) == ["answered"] * 10 + ["refused"] * 20


def test_a_session_closes_with_its_block_also_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), opened(FRAME) as session:
        raise ZeroDivisionError
    with pytest.raises(InvalidParameter, match="open a new one"):
        session.evaluate(session.table("t").agg(n=unacorda.count()), budget=PureDP(0.5))
    assert "epsilon 1 of 1 left" in repr(session)


def test_a_ledger_that_is_handed_in_stays_open_and_is_shared() -> None:
    from tests.support.seams import open_ledger

    ledger = open_ledger(None)
    for number in range(1, 4):
        with opened(FRAME, ledger=ledger, dataset="d") as session:
            session.evaluate(session.table("t").agg(n=unacorda.count()), budget=PureDP("0.25"))
        assert ledger.spent("d") == PureDP(Fraction(number, 4))
    assert ledger.verify("d") == 6


def test_a_question_is_a_value_that_can_be_asked_again_and_built_upon() -> None:
    with opened(FRAME) as session:
        table = session.table("t")
        women = table.where("sex = 'f'")
        assert exact(session, table.agg(n=unacorda.count())) == {"n": [300]}
        assert exact(session, women.agg(n=unacorda.count())) == {"n": [100]}
        assert exact(session, women.where("age < 45").agg(n=unacorda.count())) == {"n": [55]}
        assert women.agg(n=unacorda.count()).digest() == women.agg(n=unacorda.count()).digest()
        assert women.agg(n=unacorda.count()).digest() != table.agg(n=unacorda.count()).digest()
        assert isinstance(women.agg(n=unacorda.count()).aggregates["n"], Count)
