"""Questions that differ by very few people: told from the questions alone, and never refused."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import unacorda
from unacorda import ZCDP, PureDP
from unacorda.errors import BudgetExceeded, DifferencingWarning
from unacorda.inference import LinearRegression
from unacorda.query.columns import Bounds, Categories, Fact
from unacorda.query.differing import Earlier
from unacorda.query.expressions.parse import reread
from unacorda.query.extents import Public, extent
from unacorda.query.plan import Query
from unacorda.query.together import Together

BUDGET = PureDP("0.01")
FACTS: dict[str, Fact] = {
    "age": Bounds(0, 120),
    "pay": Bounds(0, 200_000),
    "sex": Categories(["F", "M"]),
    "town": Categories([f"T{k}" for k in range(500)]),
}


def frame(rows: int = 40) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "id": range(rows),
            "age": [30] * rows,
            "pay": [1e4] * rows,
            "sex": ["F"] * rows,
            "town": ["T1"] * rows,
            "note": ["x"] * rows,
        }
    )


def opened(
    unit: unacorda.Person | unacorda.Row | None = None,
    rows: int = 40,
    budget: PureDP | ZCDP = PureDP(50),  # noqa: B008  # a value
) -> unacorda.Session:
    return unacorda.Session(
        {"t": frame(rows)},
        unit=unit or unacorda.Person("id", max_rows=1),
        budget=budget,
        columns=FACTS,
    )


@pytest.fixture
def session() -> Iterator[unacorda.Session]:
    with opened() as found:
        yield found


@pytest.fixture(scope="module")
def table() -> Iterator[Query]:
    """A question that is begun, for those that nobody answers."""
    with opened() as found:
        yield found.table("t")


def together(table: Query, condition: str | None) -> Together:
    rows = table if condition is None else table.where(condition)
    return Together.alone(rows.agg(n=unacorda.count()))


def said(table: Query, first: str | None, second: str | None) -> str:
    """What is said of the second question after the first was answered."""
    earlier = Earlier()
    with earlier.asking(together(table, first)):
        pass
    (text,) = earlier.warnings(together(table, second))
    return text


def ask(session: unacorda.Session, condition: str | None) -> None:
    table = session.table("t")
    rows = table if condition is None else table.where(condition)
    session.evaluate(rows.agg(n=unacorda.count()), budget=BUDGET)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (None, "id <> 7"),
        ("id <> 7", None),
        (None, "NOT (id = 7)"),
        (None, "id NOT IN (1, 2, 3)"),
        (None, "id < 7 OR id > 9"),
        (None, "NOT id BETWEEN 3 AND 9"),
        (None, "7 <> id"),
        (None, "ID IS DISTINCT FROM 7"),
        ("id <= 1000", "id <= 1001"),
        ("age > 30", "age > 30 AND id <> 7"),
        ("length(note) > 3 OR id = 7", "length(note) > 3"),
        ("age > 30", "age > 31"),
        ("pay > 30000", "pay > 30500.5"),
        ("age BETWEEN 20 AND 40", "age BETWEEN 20 AND 41"),
        (None, "NOT (sex = 'F' AND age = 31)"),
        (None, "town <> 'T7'"),
        ("town IN ('T1', 'T2') OR age > 30", "town = 'T1' OR age > 30"),
    ],
)
def test_a_difference_of_few_is_told(table: Query, first: str | None, second: str | None) -> None:
    assert "very few people" in said(table, first, second)
    assert "very few people" in said(table, second, first)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (None, None),
        (None, "age > 30"),
        ("age > 30", "30 < age"),
        ("age > 30", "NOT age <= 30"),
        ("age > 30", "age > 40"),
        (None, "age <> 0"),  # whatever lies below counts as 0 too
        (None, "pay < 200000"),
        (None, "sex <> 'F'"),
        (None, "sex = 'F'"),
        (None, "note <> 'x'"),  # nothing is known of notes
        (None, "note = 'x'"),
        (None, "id > 7"),
        ("id = 7", "id = 8"),  # about few, but not about the same
        ("age = 31", "age = 32"),
        (None, "id = 7"),
        ("sex = 'F'", "sex = 'M'"),
        (None, "id % 2 <> 1"),
        (None, "town NOT IN ('T1', 'T2', 'T3', 'T4', 'T5', 'T6')"),
    ],
)
def test_other_differences_are_not(table: Query, first: str | None, second: str | None) -> None:
    assert said(table, first, second) == ""
    assert said(table, second, first) == ""


def test_the_text_says_what_it_means(session: unacorda.Session) -> None:
    ask(session, "age > 30")
    with pytest.warns(DifferencingWarning) as told:
        ask(session, "age > 30 AND id <> 7")
    assert [one.filename for one in told] == [__file__]  # the line that asked
    assert session.spent == PureDP("0.02")
    text = str(told[0].message)
    assert "an earlier one, table('t').where('\"age\" > 30').agg(n)," in text
    assert '(one person): here rows are kept where "id" <> 7, there without this' in text
    assert "the budget pays twice for nearly the same people" in text


def test_an_explanation_says_so_and_spends_nothing(session: unacorda.Session) -> None:
    ask(session, None)
    query = session.table("t").where("id <> 7").agg(n=unacorda.count())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        told = session.explain(query, budget=BUDGET)
        again = session.explain(query, budget=BUDGET)  # an explanation is no question
    assert told.warning == again.warning != ""
    assert f"Warning: {told.warning}" in str(told)
    assert told.to_dict()["warning"] == told.warning
    other = session.explain(session.table("t").agg(n=unacorda.count()), budget=BUDGET)
    assert other.warning == ""
    assert "Warning" not in str(other)
    assert session.spent == BUDGET


def test_as_an_error_it_stops_the_question_before_anything_is_spent(
    session: unacorda.Session,
) -> None:
    ask(session, None)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DifferencingWarning)
        with pytest.raises(DifferencingWarning):
            ask(session, "id <> 7")
    assert session.spent == BUDGET


def test_questions_of_one_batch_are_compared(session: unacorda.Session) -> None:
    table = session.table("t")
    batch = {
        "all": table.agg(n=unacorda.count()),
        "women": table.where("sex = 'F'").agg(n=unacorda.count()),
        "others": table.where("id <> 7").agg(total=unacorda.sum("pay", 0, 10)),
    }
    told = session.explain(batch, budget=BUDGET)
    assert [bool(one.warning) for one in told] == [False, False, True]
    assert str(told).count("Warning: ") == 1
    with pytest.warns(DifferencingWarning) as warned:
        session.evaluate(batch, budget=BUDGET)
    assert [str(one.message) for one in warned] == [told["others"].warning]


def test_selects_groups_and_fits_are_compared_too(session: unacorda.Session) -> None:
    ask(session, None)
    with pytest.warns(DifferencingWarning):
        session.sql("SELECT sex, COUNT(*) AS n FROM t WHERE id <> 7 GROUP BY sex", budget=BUDGET)
    with pytest.warns(DifferencingWarning):
        session.find_bounds(session.table("t").where("id <> 8"), "pay", budget=BUDGET)
    model = LinearRegression(budget=ZCDP(2000, delta=1e-6))
    with opened(budget=ZCDP(9000, delta=1e-3)) as own:
        own.fit(model, "t", features=["age"], target="pay")
        with pytest.warns(DifferencingWarning):
            own.fit(model, own.table("t").where("id <> 9"), features=["age"], target="pay")


def test_parts_and_analysts_share_what_was_asked(session: unacorda.Session) -> None:
    ask(session, None)
    with pytest.warns(DifferencingWarning):
        ask(session.for_analyst("ana", PureDP(1)), "id <> 7")
    parts = session.split("sex", keys=["F", "M"], budget=PureDP(1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ask(parts["F"], None)  # of other people than the whole
        ask(parts["M"], "id <> 7")
    with pytest.warns(DifferencingWarning):
        ask(parts["F"], "id <> 7")


def test_what_was_refused_or_failed_was_not_asked(session: unacorda.Session) -> None:
    with pytest.raises(BudgetExceeded):
        session.evaluate(session.table("t").agg(n=unacorda.count()), budget=PureDP(1000))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ask(session, "id <> 7")


def test_nothing_of_it_depends_on_the_data() -> None:
    texts = []
    for rows in (40, 1):
        with opened(rows=rows) as session:
            ask(session, None)
            query = session.table("t").where("id <> 3 AND age <> 31").agg(n=unacorda.count())
            texts.append(session.explain(query, budget=BUDGET).warning)
    assert texts[0] == texts[1] != ""


def test_an_id_of_two_parts_or_of_an_expression_is_fixed_by_all_of_it() -> None:
    with opened(unacorda.Person(("town", "id"), max_rows=1)) as session:
        ask(session, None)
        ask(session, "NOT (sex = 'F' AND id = 7)")  # in whatever town
        with pytest.warns(DifferencingWarning, match="one person"):
            ask(session, "NOT (town = 'T1' AND id = 7)")
    with opened(unacorda.Person("lower(note)", max_rows=1)) as session:
        ask(session, None)
        for condition in ("note <> 'Ann'", "LOWER(note) <> 'ann'"):
            with pytest.warns(DifferencingWarning, match="(one person|at most 2 people)"):
                ask(session, condition)


def test_of_rows_only_what_is_declared_tells() -> None:
    with opened(unacorda.Row()) as session:
        ask(session, None)
        ask(session, "id <> 7")
        with pytest.warns(DifferencingWarning, match="1 in 500"):
            ask(session, "town <> 'T1'")


def test_derived_columns_mean_what_they_are_made_of(session: unacorda.Session) -> None:
    def rows(name: str, made: str) -> Query:
        return session.table("t").derive(**{name: made}).where(f"{name} > 3")

    ask_of = {"n": unacorda.count()}
    session.evaluate(rows("a", "pay / 2").agg(**ask_of), budget=BUDGET)
    other = rows("a", "pay / 3").where("id <> 7").agg(**ask_of)
    assert session.explain(other, budget=BUDGET).warning == ""
    same = rows("a", "pay/2").where("id <> 7").agg(**ask_of)
    assert session.explain(same, budget=BUDGET).warning != ""


def test_conditions_inside_a_join_count(tmp_path: Path) -> None:
    two = {"t": frame(), "u": frame()[["id", "note"]].rename(columns={"note": "word"})}
    with unacorda.Session(two, unit=unacorda.Person("id", max_rows=1), budget=PureDP(9)) as session:
        left, right = session.table("t"), session.table("u")
        count = {"n": unacorda.count()}
        session.evaluate(left.join(right, max_rows=1).agg(**count), budget=BUDGET)
        narrowed = left.where("id <> 7").join(right, max_rows=1).agg(**count)
        assert session.explain(narrowed, budget=BUDGET).warning != ""
        afterwards = left.join(right, max_rows=1).where("id <> 7").agg(**count)
        assert session.explain(afterwards, budget=BUDGET).warning != ""
        wider = left.join(right, max_rows=2).where("id <> 7").agg(**count)
        assert session.explain(wider, budget=BUDGET).warning == ""


def test_after_a_hundred_other_questions_it_is_forgotten(table: Query) -> None:
    earlier = Earlier()
    for number in range(101):
        with earlier.asking(together(table, f"length(note) > {number}")):
            pass
    assert earlier.warnings(together(table, "length(note) > 1 AND id <> 7")) != ("",)
    assert earlier.warnings(together(table, "length(note) > 0 AND id <> 7")) == ("",)


# An upper bound, against enumeration: `id` and `age` are whole numbers, evenly spread.

numbers = st.integers(min_value=0, max_value=10)
columns = st.sampled_from(["id", "age", "town"])


def comparisons() -> st.SearchStrategy[str]:
    orders = st.builds(
        lambda c, s, v: f"{c} {s} {v}", columns, st.sampled_from(["<", "<=", ">", ">="]), numbers
    )
    equals = st.builds(
        lambda c, s, v: f"{c} {s} {v}", columns, st.sampled_from(["=", "<>"]), numbers
    )
    lists = st.builds(
        lambda c, n, a, b: f"{c} {n}IN ({a}, {b})",
        columns,
        st.sampled_from(["", "NOT "]),
        numbers,
        numbers,
    )
    between = st.builds(lambda c, a, b: f"{c} BETWEEN {a} AND {b}", columns, numbers, numbers)
    return st.one_of(orders, equals, lists, between)


def joined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds(lambda a, w, b: f"({a}) {w} ({b})", inner, st.sampled_from(["AND", "OR"]), inner),
        st.builds(lambda a: f"NOT ({a})", inner),
    )


conditions = st.recursive(comparisons(), joined, max_leaves=6)
PUBLIC = Public(
    facts={("", '"age"'): Bounds(0, 10), ("", '"town"'): Categories(range(11))},
    ids={"": (((("", '"id"'),),),)},
)


def truth(text: str) -> Callable[..., bool]:
    """The condition in Python's own words, whose comparisons mean the same."""
    python = (
        text.replace("<>", "!=")
        .replace(" = ", " == ")
        .replace("NOT IN", "not in")
        .replace("IN (", "in (")
        .replace("AND", "and")
        .replace("OR", "or")
        .replace("NOT", "not")
    )
    python = re.sub(r" BETWEEN (\d+) and (\d+)", r" in range(\1, \2 + 1)", python)
    found: Callable[..., bool] = eval(f"lambda id, age, town: {python}")
    return found


@given(conditions)
def test_nobody_is_left_out_of_the_bound(text: str) -> None:
    found, holds = extent([("", reread(text), True)], PUBLIC), truth(text)
    spread = range(11)
    if found.share == 0:  # whatever the age and the town of a person
        for age, town in itertools.product((0, 1, 5, 10), repeat=2):
            assert sum(holds(one, age, town) for one in range(-2, 13)) <= found.people
    elif found.people == 0:  # of people who are spread evenly, whoever they are
        for one in (0, 5, 50):
            many = sum(holds(one, age, town) for age in spread for town in spread)
            assert many <= found.share * 11**2 * (1 + 1e-9)


def test_the_bound_is_what_it_is_of_single_conditions() -> None:
    for text, people, share in [
        ("id = 3", 1, 0),
        ("id BETWEEN 3 AND 7", 5, 0),
        ("id > 3 AND id < 7.5", 4, 0),
        ("id IN (1, 2) OR id IN (2, 3)", 4, 0),
        ("id < 3", 0, 1),
        ("age = 3", 0, 1 / 11),
        ("age > 2 AND age <= 4", 0, 0.2),
        ("age = 0", 0, 1),
        ("age >= 9", 0, 1),
        ("town = 3 AND age = 3", 0, 1 / 121),
        ("town <> 3", 0, 10 / 11),
        ("town = 3 AND town = 4", 0, 0),
    ]:
        found = extent([("", reread(text), True)], PUBLIC)
        assert [found.people, found.share] == pytest.approx([people, share]), text
