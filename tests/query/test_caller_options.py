"""Budgets, SELECTs and options of a session that cannot be taken, and what to write instead."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from tests.query.exact_answers import opened
from tests.query.test_caller_mistakes import FRAME, SECRET, refused
from tests.support.cases import in_subtests
from tests.support.seams import Session
from tests.tiers import mostly_slow

import unacorda
from unacorda.errors import (
    BudgetExceeded,
    InvalidParameter,
    MissingBound,
    UnacordaError,
    UnsafeExpression,
    WrongUnit,
)
from unacorda.privacy.guarantees import GDP, ZCDP, ApproxDP, Guarantee, PureDP, RenyiDP

CONVERSIONS = {kind.__name__: kind for kind in (PureDP, ApproxDP, ZCDP, GDP, RenyiDP)}
NAN, INF = float("nan"), float("inf")


@in_subtests(
    ("budget", "kind", "words"),
    [
        (PureDP(0), InvalidParameter, "above zero"),
        (0.5, InvalidParameter, "a guarantee such as"),
        ("0.5", InvalidParameter, "a guarantee such as"),
        (None, InvalidParameter, "a guarantee such as"),
        (PureDP, InvalidParameter, "a guarantee such as"),
        (PureDP("1e-400"), InvalidParameter, "neither so small nor so large"),
        (PureDP("1e400"), InvalidParameter, "at most 1,000,000"),
        (PureDP(1.0000001), BudgetExceeded, "Ask for less"),
        (ApproxDP(0.5, 1), InvalidParameter, "a delta below 1"),
        (ApproxDP(0.5, 1e-9), WrongUnit, "PureDP.within"),
    ],
)
def test_budgets_that_buy_nothing_are_refused(
    budget: Any, kind: type[Exception], words: str
) -> None:
    with opened(FRAME) as session:
        query = session.table("t").agg(n=unacorda.count())
        with pytest.raises(kind, match=re.escape(words)) as caught:
            session.evaluate(query, budget=budget)
        assert session.spent == PureDP(0)
        assert session.remaining == PureDP(1)
        if isinstance(caught.value, InvalidParameter):
            assert caught.value.argument == "budget"


def test_a_negative_budget_cannot_even_be_written() -> None:
    for make in (PureDP, ZCDP, GDP):
        with pytest.raises(InvalidParameter, match="0 or above"):
            make(-0.1)


ACCOUNTS: list[Guarantee] = [
    *(PureDP(1), ApproxDP(1, "1e-3"), ZCDP(1, "1e-3"), GDP(2, "1e-3"), RenyiDP(2, 1))
]
REQUESTS: list[Guarantee] = [
    *(PureDP("0.5"), ApproxDP("0.5", "1e-6"), ZCDP("0.1"), ZCDP("0.1", "1e-6")),
    *(GDP("0.5"), GDP("0.5", "1e-6"), RenyiDP(2, "0.1"), RenyiDP(3, "0.1")),
]
TAKEN = {
    "PureDP": {0},
    "ApproxDP": {0, 1},
    "ZCDP": {0, 1, 2, 3, 4, 5},
    "GDP": {0, 4, 5},
    "RenyiDP": {0, 2, 4, 6},
}


@pytest.mark.long
@pytest.mark.parametrize("account", mostly_slow(ACCOUNTS, quick=3), ids=str)
def test_budgets_of_another_unit_are_refused_with_a_conversion_that_works(
    account: Guarantee,
) -> None:
    for number, request in enumerate(REQUESTS):
        if number in TAKEN[type(account).__name__]:
            continue
        with opened(FRAME, budget=account) as session:
            query = session.table("t").agg(n=unacorda.count())
            for ask in (session.evaluate, session.explain):
                with pytest.raises(WrongUnit) as caught:
                    ask(query, budget=request)
            assert session.spent == account * 0
            assert str(request) in str(caught.value)
            found = re.search(r"Ask with (\w+\.within\(.*\))\.$", str(caught.value))
            if found is None:
                assert "ask with delta=0" in str(caught.value)
                continue
            mended = eval(found[1], CONVERSIONS)
            session.evaluate(query, budget=mended)
            assert session.spent != account * 0


SELECTS = {
    "no aggregate": ("SELECT age FROM t GROUP BY age", UnsafeExpression, "only aggregates leave"),
    "rows": ("SELECT * FROM t", UnsafeExpression, "selects rows"),
    "another verb": ("DROP TABLE t", UnsafeExpression, "begins neither with SELECT"),
    "two statements": ("SELECT COUNT(*) FROM t; SELECT 1", UnsafeExpression, "semicolon"),
    "a file": ("SELECT COUNT(*) FROM '/etc/passwd'", UnacordaError, "cannot be used"),
    "a function": (
        "SELECT COUNT(*) FROM read_csv('x')",
        UnsafeExpression,
        "more than a plain table",
    ),
    "an unknown table": ("SELECT COUNT(*) FROM u", InvalidParameter, "tables: t"),
    "a join": ("SELECT COUNT(*) FROM t CROSS JOIN t AS u", UnsafeExpression, "cannot be used"),
    "having": (
        "SELECT COUNT(*) AS n FROM t HAVING COUNT(age) > 1",
        UnsafeExpression,
        "no output column",
    ),
    "no bounds": ("SELECT AVG(pay) FROM t", MissingBound, "unacorda.Bounds(0, 100)"),
    "no keys": ("SELECT name, COUNT(*) FROM t GROUP BY name", InvalidParameter, "Categories"),
    "values of no column": ("SELECT COUNT(DISTINCT names) FROM t", InvalidParameter, "'name'"),
    "columns that hide one another": (
        "SELECT COUNT(*) AS n, COUNT(age) AS n_se FROM t",
        InvalidParameter,
        "each aggregate gets next to its own",
    ),
    "a group that hides an error": (
        "SELECT age >= 18 AS n_se, COUNT(*) AS n FROM t GROUP BY n_se",
        InvalidParameter,
        "name them apart with AS",
    ),
    "no text": (None, InvalidParameter, "text"),
}


@in_subtests("case", SELECTS)
def test_a_select_that_cannot_be_answered_is_refused(case: str) -> None:
    text, kind, words = SELECTS[case]
    refused(lambda s: s.sql(text, budget=PureDP(0.5)), kind, "", words)  # type: ignore[arg-type]


@pytest.mark.parametrize("keys", [[("a", "b")], {"age": [1]}, 5, "name"])
def test_keys_of_a_select_that_fit_no_group_are_refused(keys: Any) -> None:
    text = "SELECT name, COUNT(*) FROM t GROUP BY name"
    words = "columns of GROUP BY: name" if isinstance(keys, dict) else "public values"
    words = "text, a whole number" if isinstance(keys, list) else words
    refused(lambda s: s.sql(text, budget=PureDP(0.5), keys=keys), InvalidParameter, "keys", words)


def test_keys_without_groups_are_refused() -> None:
    refused(
        lambda s: s.sql("SELECT COUNT(*) FROM t", budget=PureDP(0.5), keys={"name": ["a"]}),
        InvalidParameter,
        "keys",
        "a GROUP BY with keys=",
    )


OPTIONS: dict[str, tuple[dict[str, Any], str, str]] = {
    "no tables": ({"tables": {}}, "tables", "a mapping of table names"),
    "a list of tables": ({"tables": [FRAME]}, "tables", "a mapping of table names"),
    "a numbered table": ({"tables": {1: FRAME}}, "tables", "a mapping of table names"),
    "a table without name": ({"tables": {"": FRAME}}, "tables", "a mapping of table names"),
    "a word for a unit": ({"unit": "id"}, "unit", "unacorda.Person('id column', max_rows=...)"),
    "a unit nobody has": (
        {"unit": unacorda.Person("pid", max_rows=1)},
        "unit",
        "id, age, pay, name",
    ),
    "a number for a budget": ({"budget": 1.0}, "budget", "unacorda.PureDP(1)"),
    "no budget": ({"budget": None}, "budget", "a budget"),
    "facts as a list": ({"columns": ["age"]}, "columns", "facts by column name"),
    "a fact of no column": (
        {"columns": {"Age": unacorda.Text()}},
        "columns",
        "age, born, id, n_se",
    ),
    "a pair for a fact": (
        {"columns": {"age": (0, 9)}},
        "columns['age']",
        "unacorda.Bounds(0, 120)",
    ),
    "a number for a ledger": ({"ledger": 5}, "ledger", "sqlite:///budget.db"),
    "another ledger": ({"ledger": "mysql://x"}, "ledger", "sqlite:///"),
    "an empty name": ({"dataset": "  "}, "dataset", "non-empty"),
    "an unspeakable name": ({"dataset": "\ud800"}, "dataset", "non-empty"),
    "a number for an analyst": ({"analyst": 5}, "analyst", "text, or None"),
    "bytes for a purpose": ({"purpose": b"x"}, "purpose", "text, or None"),
    "a seed for bits": ({"bits": 7}, "bits", "unacorda.SeededBits(7)"),
    "no size": ({"memory_limit": "lots"}, "memory_limit", "a size such as '2GB'"),
    "a negative size": ({"memory_limit": "-1GB"}, "memory_limit", "a size such as '2GB'"),
    "too little": ({"memory_limit": "1MB"}, "memory_limit", "at least '10MB'"),
    "no threads": ({"threads": 0}, "threads", "a whole number"),
}


@in_subtests("case", OPTIONS)
def test_a_session_that_cannot_open_says_which_argument(case: str) -> None:
    change, argument, words = OPTIONS[case]
    options = {"tables": {"t": FRAME}, "unit": unacorda.Row(), "budget": PureDP(1), **change}
    with pytest.raises(InvalidParameter, match=re.escape(words)) as caught:
        Session(**options)
    assert caught.value.argument == argument
    assert SECRET not in str(caught.value)


@in_subtests(
    ("make", "argument"),
    [
        (lambda: unacorda.Person(5, max_rows=1), "id"),  # type: ignore[arg-type]
        (lambda: unacorda.Person("", max_rows=1), "id"),
        (lambda: unacorda.Person((), max_rows=1), "id"),
        (lambda: unacorda.Person(("a", "a"), max_rows=1), "id"),
        (lambda: unacorda.Person("a", max_rows=0), "max_rows"),
        (lambda: unacorda.Person("a", max_rows=1.5), "max_rows"),  # type: ignore[arg-type]
        (lambda: unacorda.Person("a", max_rows=10**7), "max_rows"),
        (lambda: unacorda.Row(neighbors=unacorda.ZeroOut), "neighbors"),
        (lambda: unacorda.Bounds(5, 5), "lower"),
        (lambda: unacorda.Bounds(0, INF), "upper"),
        (lambda: unacorda.Categories([]), "values"),
        (lambda: unacorda.Categories(["a", "a"]), "values"),
        (lambda: unacorda.Categories("abc"), "values"),
        (lambda: unacorda.Csv("t.csv", delimiter=";;"), "delimiter"),
        (lambda: unacorda.Csv("t.csv", delimiter='"'), "quote"),
        (lambda: unacorda.Csv("t.csv", quote="é"), "quote"),
        (lambda: unacorda.Assume(rows=0), "rows"),
        (lambda: unacorda.Assume(rows=1, values={"age": [NAN]}), "values['age']"),
    ],
)
def test_a_value_that_cannot_be_is_refused_where_it_is_made(
    make: Callable[[], Any], argument: str
) -> None:
    with pytest.raises(InvalidParameter, match="expected") as caught:
        make()
    assert caught.value.argument == argument


def test_a_closed_session_spends_nothing() -> None:
    session = opened(FRAME)
    query = session.table("t").agg(n=unacorda.count())
    session.close()
    session.close()
    with pytest.raises(InvalidParameter, match="open a new one"):
        session.evaluate(query, budget=PureDP(0.5))
    assert session.spent == PureDP(0)
