"""What a caller writes wrong is refused by name and with the hint, before anything is spent."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import datetime as dt
import itertools
import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.query.exact_answers import opened
from tests.support.cases import in_subtests
from tests.support.seams import Session, ledger_of
from tests.tiers import mostly_slow

import unacorda
from unacorda.errors import InvalidParameter, MissingBound, UnacordaError, UnsafeExpression
from unacorda.privacy.guarantees import PureDP

SECRET = "Ms Smith"
NAN, INF = float("nan"), float("inf")
FRAME = pl.DataFrame(
    {
        "id": [1, 2, 3],
        "age": [30, 40, 50],
        "pay": [1e3, 2e3, 3e3],
        "name": [SECRET, SECRET, None],
        "born": [dt.date(1990, 1, 1)] * 3,
        "n_se": ["a", "b", "c"],
        "tags": [[1], [2], [3]],
    }
)
COLUMNS = "id, age, pay, name, born, n_se"

Ask = Callable[[Session], Any]
Mistake = tuple[Ask, type[UnacordaError], str, str]


def agg(**aggregates: Callable[[], Any]) -> Ask:
    """Evaluate, so that a mistake that nobody notices is spent on."""

    def ask(session: Session) -> Any:
        query = session.table("t").agg(**{name: make() for name, make in aggregates.items()})
        return session.evaluate(query, budget=PureDP(0.5))

    return ask


def where(condition: Any) -> Ask:
    return lambda s: s.evaluate(
        s.table("t").where(condition).agg(n=unacorda.count()), budget=PureDP(0.5)
    )


def by(*columns: Any, keys: Any = None) -> Ask:
    return lambda s: s.evaluate(
        s.table("t").group_by(*columns, keys=keys).agg(n=unacorda.count()), budget=PureDP(0.5)
    )


NAMES: dict[str, Mistake] = {
    "an unknown table": (
        lambda s: s.table("visits"),
        InvalidParameter,
        "table",
        "one of the session's tables: t",
    ),
    "a list of tables": (lambda s: s.table(["t"]), InvalidParameter, "table", "tables: t"),  # type: ignore[arg-type]
    "an unknown column": (
        agg(n=lambda: unacorda.count("agee")),
        InvalidParameter,
        "column",
        COLUMNS,
    ),
    "a column near another": (where("agee > 1"), InvalidParameter, "where", "Did you mean 'age'"),
    "an unknown group": (by("county", keys=["A"]), InvalidParameter, "group_by", COLUMNS),
    "a number for a column": (
        agg(n=lambda: unacorda.count(5)),  # type: ignore[arg-type]
        InvalidParameter,
        "column",
        "an expression in SQL, as text",
    ),
    "a column of lists": (
        agg(n=lambda: unacorda.count("tags")),
        InvalidParameter,
        "column",
        "numbers, text, booleans, dates or instants",
    ),
    "the mean of text": (
        agg(m=lambda: unacorda.mean("name || 'x'", 0, 1)),
        InvalidParameter,
        "column",
        "a number where",
    ),
    "a sum of dates": (
        agg(m=lambda: unacorda.sum("born", 0, 1)),
        InvalidParameter,
        "column",
        "number",
    ),
    "a number as a condition": (where("age + 1"), InvalidParameter, "where", "a boolean where"),
    "text that meets a number": (where("age = 'old'"), InvalidParameter, "where", "of one kind"),
    "no condition": (where(None), InvalidParameter, "where", "an expression in SQL, as text"),
    "a taken name": (
        lambda s: s.table("t").derive(age="1"),
        InvalidParameter,
        "age",
        "a new name: a column of that name exists",
    ),
    "nothing derived": (lambda s: s.table("t").derive(), InvalidParameter, "derive", "expression"),
    "nothing asked": (lambda s: s.table("t").agg(), InvalidParameter, "agg", "unacorda.count()"),
    "a word for an aggregate": (agg(n=lambda: "count"), InvalidParameter, "n", "unacorda.count()"),
    "an aggregate that hides another": (
        agg(n=unacorda.count, n_se=unacorda.count),
        InvalidParameter,
        "n_se",
        "no group and no other aggregate",
    ),
    "the same the other way round": (
        agg(n_se=unacorda.count, n=unacorda.count),
        InvalidParameter,
        "n",
        "no group and no other aggregate",
    ),
    "an aggregate that hides a group": (
        by("n_se", keys=["a"]),
        InvalidParameter,
        "n",
        "no group and no other aggregate",
    ),
    "a step behind the end": (
        lambda s: s.table("t").agg(n=unacorda.count()).where("age > 1"),
        InvalidParameter,
        "where",
        "before agg()",
    ),
    "two ends": (
        lambda s: s.table("t").agg(n=unacorda.count()).agg(m=unacorda.count()),
        InvalidParameter,
        "agg",
        "before agg()",
    ),
    "two groupings": (
        lambda s: s.table("t").group_by("name", keys=["a"]).group_by("age", keys=[1]),
        InvalidParameter,
        "group_by",
        "one group_by with all columns",
    ),
    "a query without aggregates": (
        lambda s: s.evaluate(s.table("t"), budget=PureDP(0.5)),
        InvalidParameter,
        "query",
        "agg(",
    ),
    "a number for a query": (
        lambda s: s.evaluate(1, budget=PureDP(0.5)),  # type: ignore[call-overload]
        InvalidParameter,
        "query",
        "session.table(",
    ),
    "a query of another session": (
        lambda s: s.evaluate(opened(FRAME).table("t").agg(n=unacorda.count()), budget=PureDP(0.5)),
        InvalidParameter,
        "query",
        "this session's table(",
    ),
}
NUMBERS: dict[str, Mistake] = {
    "bounds the wrong way": (
        agg(m=lambda: unacorda.mean("age", 10, 0)),
        InvalidParameter,
        "lower",
        "below upper",
    ),
    "bounds that meet": (
        agg(m=lambda: unacorda.sum("age", 5, 5)),
        InvalidParameter,
        "lower",
        "below",
    ),
    "half a range": (agg(m=lambda: unacorda.mean("age", 0)), MissingBound, "upper", "both a lower"),
    "no range": (
        agg(m=lambda: unacorda.mean("pay")),
        MissingBound,
        "lower",
        "unacorda.Bounds(0, 100)",
    ),
    "no range of a quotient": (
        agg(m=lambda: unacorda.mean("pay / age")),
        MissingBound,
        "lower",
        "every column it is made of",
    ),
    "a range too wide": (
        agg(m=lambda: unacorda.sum("age", 0, Fraction(2) ** 501)),
        InvalidParameter,
        "upper",
        "1e100",
    ),
    "a weight of nothing": (
        agg(n=lambda: unacorda.count(weight=0)),
        InvalidParameter,
        "weight",
        "a number above 0",
    ),
    "a quantile beyond 1": (
        agg(q=lambda: unacorda.quantile("age", 1.5, 0, 9)),
        InvalidParameter,
        "q",
        "from 0 to 1",
    ),
    "a quantile with many digits": (
        agg(q=lambda: unacorda.quantile("age", Fraction(1, 3_000_001), 0, 9)),
        InvalidParameter,
        "q",
        "six decimals",
    ),
    "a resolution in words": (
        agg(q=lambda: unacorda.median("age", 0, 9, resolution="fine")),
        InvalidParameter,
        "resolution",
        "a finite",
    ),
    "no resolution": (
        agg(q=lambda: unacorda.median("age", 0, 9, resolution=0)),
        InvalidParameter,
        "resolution",
        "distance of the bounds",
    ),
    "too fine a resolution": (
        agg(q=lambda: unacorda.median("age", 0, 9, resolution=2.0**-58)),
        InvalidParameter,
        "resolution",
        "distance of the bounds",
    ),
    "a resolution beyond all doubles": (
        agg(q=lambda: unacorda.median("age", 0, 9, resolution=10**400)),
        InvalidParameter,
        "resolution",
        "distance of the bounds",
    ),
    "too coarse a resolution": (
        agg(q=lambda: unacorda.median("age", 0, 9, resolution=10**6)),
        InvalidParameter,
        "resolution",
        "distance of the bounds",
    ),
    "too many values and keys": (
        lambda s: (
            s.table("t")
            .group_by("age", keys=range(50_000))
            .agg(q=unacorda.top("age", 3, range(5_000)))
        ),
        InvalidParameter,
        "q",
        "fewer keys, or fewer bins or values",
    ),
    "the whole share for an interval": (
        agg(q=lambda: unacorda.median("age", 0, 9, interval=1)),
        InvalidParameter,
        "interval",
        "below 1",
    ),
}
for bad, end in itertools.product((NAN, INF, -INF, "many", None, True, 1j, [1]), (0, 1)):
    ends = [(0, bad), (bad, 9)][end]
    NUMBERS[f"{ends} as bounds"] = (
        agg(m=lambda ends=ends: unacorda.mean("age", *ends)),  # type: ignore[misc]
        InvalidParameter,
        "lower" if end else "upper",
        "a lower" if bad is None else "a finite number",
    )

UNSAFE = {
    "a subquery": "age > (SELECT 1)",
    "a list of a subquery": "age IN (SELECT age FROM t)",
    "existence": "EXISTS (SELECT 1)",
    "a window": "row_number() OVER () > 1",
    "an aggregate": "age > avg(age)",
    "randomness": "random() < 0.5",
    "a UUID": "uuid() = name",
    "a file": "read_text('/etc/passwd') = name",
    "a table of files": "age > (FROM read_csv('/etc/passwd'))",
    "the clock": "now() > born",
    "the environment": "getenv('HOME') = name",
    "settings": "current_setting('memory_limit') = name",
    "an error on purpose": "error('x')",
    "an unknown function": "soundex(name) = 'a'",
    "a function of the caller": "my_function(age)",
    "a lambda": "list_filter([age], x -> x > 1)",
    "a parameter": "age > ?",
    "a named parameter": "age > $1",
    "a second statement": "age > 1; DROP TABLE t",
    "a comment left open": "age > 1 /* ",
    "a quote left open": "name = 'a",
    "a column of positions": "#1 > 1",
    "all columns": "COLUMNS(*) > 1",
    "a star": "*",
    "nothing": "",
    "nonsense": "age >",
    "a column of a table": "other.age > 1",
    "a system column": "rowid > 1 AND t.rowid > 1",
}

KEYS: dict[str, tuple[Any, str]] = {
    "no keys": (None, "Values are never read from the data"),
    "an empty list": ([], "at least one value"),
    "a word": ("abc", "a list of public values"),
    "a number": (5, "a list of public values"),
    "a key twice": (["a", "b", "a"], "no value twice"),
    "keys of two types": (["a", 1], "values of one type"),
    "one and true": ([1, True], "values of one type"),
    "floats": ([1.5], "cut numbers into classes"),
    "NaN": ([NAN], "cut numbers into classes"),
    "NumPy's floats": (np.array([1.5, 2.0]), "cut numbers into classes"),
    "decimals": ([Decimal(1)], "text, a whole number"),
    "bytes": ([b"a"], "text, a whole number"),
    "lists": ([["a"]], "text, a whole number"),
    "an array of rows": (np.array([[1, 2], [3, 4]]), "text, a whole number"),
    "dictionaries": ([{"a": 1}], "text, a whole number"),
    "instants": ([dt.datetime(2024, 1, 1, tzinfo=dt.UTC)], "without a time of day"),
    "text with U+0000": (["a\0b"], "without U+0000"),
    "half a sign": (["\ud800"], "valid Unicode"),
    "huge numbers": ([2**53], "below 2^53"),
    "too many keys": (itertools.count(), "at most 1,000,000"),
    "a mapping of other columns": ({"age": [1]}, "one list for each of"),
    "a mapping to a word": ({"name": "abc"}, "a list of public values"),
}
TUPLES: dict[str, tuple[Any, str]] = {
    "single values": (["ab", "cd"], "one value for each of name, age"),
    "too short": ([("a",)], "one value for each of name, age"),
    "no tuples": ([], "a list of tuples"),
    "a number": (7, "a list of tuples"),
    "a pair twice": ([("a", 1), ["a", 1]], "no key twice"),
    "mixed types": ([("a", 1), ("b", True)], "values of one type"),
    "lists inside": ([("a", [])], "text, a whole number"),
    "a text in place of a number": ([("a", "b")], "keys of the type of 'age'"),
    "half a mapping": ({"name": ["a"]}, "the public values of 'age'"),
    "too many together": (
        {"name": map(str, range(1_100)), "age": range(1_000)},
        "at most 1,000,000",
    ),
    "too many pairs": ((("a", i) for i in itertools.count()), "at most 1,000,000"),
}


def refused(ask: Ask, kind: type[UnacordaError], argument: str, words: str) -> None:
    with opened(FRAME, unit=unacorda.Person("id", max_rows=2), budget=PureDP(1)) as session:
        with pytest.raises(kind, match=re.escape(words)) as caught:
            ask(session)
        assert session.spent == PureDP(0)
        assert ledger_of(session).entries(session._dataset) == ()
    assert isinstance(caught.value, InvalidParameter)
    assert caught.value.argument.startswith(argument)
    assert SECRET not in str(caught.value)
    assert len(str(caught.value)) < 1_000


@pytest.mark.parametrize("case", mostly_slow([*NAMES, *NUMBERS]))
def test_a_wrong_name_or_number_is_refused_by_name(case: str) -> None:
    refused(*{**NAMES, **NUMBERS}[case])


@pytest.mark.parametrize("case", mostly_slow(UNSAFE, quick=6))
def test_what_is_not_row_wise_and_total_is_refused_wherever_it_stands(case: str) -> None:
    text = UNSAFE[case]
    for ask, argument in (
        (where(text), ("where", "expression")),
        (lambda s: s.table("t").derive(y=text), ("y", "expression")),
        (agg(n=lambda: unacorda.count(text)), ("column", "expression")),
    ):
        with opened(FRAME) as session:
            with pytest.raises(InvalidParameter, match="cannot be used") as caught:
                ask(session)
            assert session.spent == PureDP(0)
        assert caught.value.argument in argument
        if case not in ("a column of a table", "a system column"):
            assert isinstance(caught.value, UnsafeExpression)
            assert caught.value.hint


@pytest.mark.long
@in_subtests("case", KEYS)
def test_keys_that_cannot_stand_are_refused(case: str) -> None:
    keys, words = KEYS[case]
    refused(by("name", keys=keys), InvalidParameter, "keys", words)


@in_subtests("case", TUPLES)
def test_pairs_of_keys_that_cannot_stand_are_refused(case: str) -> None:
    keys, words = TUPLES[case]
    refused(by("name", "age", keys=keys), InvalidParameter, "keys", words)


@pytest.mark.parametrize("columns", [(), ("name", "name"), (5,), (None,)])
def test_groups_that_cannot_stand_are_refused(columns: tuple[Any, ...]) -> None:
    refused(by(*columns, keys=["a"]), InvalidParameter, "group_by", "column names")
