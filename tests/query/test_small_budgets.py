"""Very small budgets are answered, or refused in the caller's words before anything is spent."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import pandas as pd
import pytest
from tests.support.cases import in_subtests
from tests.tiers import mostly_slow

import unacorda
from unacorda import GDP, ZCDP, ApproxDP, PureDP
from unacorda.accounting.charges import charge
from unacorda.errors import InvalidParameter
from unacorda.privacy.events import Exponential, compose
from unacorda.privacy.guarantees import Guarantee, bounded_range_within

AGES, WORDS = [i % 80 for i in range(200)], ["a", "b"] * 100
FRAME = pd.DataFrame({"id": range(200), "age": AGES, "w": range(200), "k": WORDS})
COLUMNS = {
    "age": unacorda.Bounds(0, 100),
    "w": unacorda.Bounds(0, 200),
    "k": unacorda.Categories(["a", "b"]),
}

AGGREGATES: dict[str, Callable[[], Any]] = {
    "count": unacorda.count,
    "sum": lambda: unacorda.sum("age"),
    "sum without bounds": lambda: unacorda.sum("id"),
    "mean": lambda: unacorda.mean("age"),
    "variance": lambda: unacorda.variance("age"),
    "median": lambda: unacorda.median("age"),
    "quantiles": lambda: unacorda.quantiles("age", [0.1, 0.5, 0.9]),
    "bounds": lambda: unacorda.find_bounds("age"),
    "top": lambda: unacorda.top("k", 1),
    "histogram": lambda: unacorda.histogram("age", bins=4),
}
BUDGETS: list[Guarantee] = [
    make
    for amount in ("1e-160", "1e-4", "1e-6", "1e-9", "1e-12", "1e-30", "1e-100", "1e-300")
    for make in (PureDP(amount), ZCDP(amount), GDP(amount), ApproxDP(amount, "1e-9"))
]
TOLD = "its noise leaves the range of numbers"


def session(**more: Any) -> unacorda.Session:
    unit = unacorda.Person("id", max_rows=2)
    options: dict[str, Any] = {"columns": COLUMNS, "budget": GDP(1), **more}
    return unacorda.Session({"t": FRAME}, unit=unit, **options)


def account(budget: Guarantee) -> Guarantee:
    kind: Any = type(budget)
    return ApproxDP(1, "1e-3") if isinstance(budget, ApproxDP) else kind(1)


@pytest.mark.parametrize("budget", mostly_slow(BUDGETS, quick=5))
def test_it_is_answered_or_refused_in_the_words_of_the_caller(budget: Guarantee) -> None:
    with session(budget=account(budget)) as opened:
        for name, make in AGGREGATES.items():
            query, before = opened.table("t").agg(x=make()), opened.spent
            error = refusal(partial(opened.evaluate, query, budget=budget))
            if error is None:
                assert opened.spent - before == budget or not isinstance(budget, GDP), name
                continue
            assert (error.argument, error.value) == ("budget", budget), name
            assert TOLD in str(error)
            assert opened.spent == before


def refusal(way: Callable[[], object]) -> InvalidParameter | None:
    """What is raised for what cannot be asked."""
    try:
        way()
    except InvalidParameter as error:
        return error
    return None


@pytest.mark.long
@in_subtests("amount", ["1e-3", "1e-4", "1e-6", "1e-9"])
@in_subtests("name", ["median", "quantiles", "bounds", "sum without bounds"])
def test_selections_spend_small_gaussian_budgets(name: str, amount: str) -> None:
    """Their prices were rounded up to 2^-80, which is more than they may cost."""
    with session() as opened:
        query = opened.table("t").agg(x=AGGREGATES[name]())
        opened.evaluate(query, budget=GDP(amount))
        assert opened.spent == GDP(amount)


def test_an_event_that_costs_more_is_no_charge_for_a_small_request() -> None:
    epsilon = bounded_range_within(GDP("1e-9"))
    event = Exponential(epsilon=epsilon)
    assert charge(event, GDP("1e-9"), GDP(1)) == GDP("1e-9")
    for more in (Exponential(epsilon=epsilon * Fraction(10_001, 10_000)), compose([event, event])):
        with pytest.raises(InvalidParameter):
            charge(more, GDP("1e-9"), GDP(1))


@pytest.mark.parametrize("budget", [ZCDP("1e-300"), GDP("1e-160"), PureDP("1e-160")])
def test_batches_looks_and_searches_name_the_budget_of_the_caller(budget: Guarantee) -> None:
    with session(budget=account(budget)) as opened:
        count = opened.table("t").agg(n=unacorda.count())
        ways: list[Callable[[], object]] = [
            lambda: opened.evaluate([count, count], budget=budget),
            lambda: opened.sql("SELECT COUNT(*) AS n FROM t", budget=budget),
            lambda: opened.explain(count, budget=budget),
            lambda: opened.find_bounds("t", "age", budget=budget),
        ]
        for way in ways:
            with pytest.raises(InvalidParameter) as caught:
                way()
            assert caught.value.argument == "budget"
            assert TOLD in str(caught.value)
        with pytest.raises(InvalidParameter) as caught:
            opened.describe("t", budget=budget)
        assert caught.value.argument == "budget"
        assert opened.spent == budget - budget
    search = unacorda.auto(budget=budget)
    with pytest.raises(InvalidParameter) as caught:
        unacorda.Session(
            {"t": FRAME}, unit=unacorda.Person("id", max_rows=search), budget=account(budget)
        )
    assert (caught.value.argument, caught.value.value) == ("budget", budget)


@pytest.mark.parametrize("budget", [GDP("1e-30"), GDP("1e-160"), ZCDP("1e-300")])
def test_fits_name_the_budget_of_the_caller(budget: Guarantee) -> None:
    model = unacorda.inference.LinearRegression(budget=budget)
    with session(budget=account(budget)) as opened:
        error = refusal(lambda: opened.fit(model, "t", features=["age"], target="w"))
        assert error is not None
        assert (error.argument, error.value) == ("budget", budget)


@pytest.mark.parametrize("budget", mostly_slow(BUDGETS, quick=5))
def test_a_look_is_whole_or_refused_before_its_first_question(budget: Guarantee) -> None:
    """Votes and counts take smaller budgets than the searches that come after them."""
    texts = pd.DataFrame({"id": range(50), "a": list(map(str, range(50))), "b": [True, False] * 25})
    unit = unacorda.Person("id", max_rows=2)
    with unacorda.Session({"t": texts}, unit=unit, budget=account(budget)) as opened:
        before = opened.spent
        error = refusal(partial(opened.describe, "t", budget=budget))
        if error is not None:
            assert (error.argument, error.value) == ("budget", budget)
            assert TOLD in str(error)
            assert opened.spent == before
