"""Expressions as Python values mean what their text means: one tree, one record, one digest."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import datetime as dt
import math
import operator
from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.query.exact_answers import opened
from tests.support.seams import Query

import unacorda
from unacorda import col
from unacorda.errors import InvalidParameter, UnsafeExpression
from unacorda.query.expressions.language import ColumnExpression

FRAME = pl.DataFrame(
    {
        "x": [1.0, 2.0],
        "n": [1, 2],
        "odd \"name'": [1, 2],
        "s": ["a", "b"],
        "b": [True, False],
        "d": [dt.date(2024, 1, 1), None],
    }
)
Pair = tuple[Any, str]
"""A Python value, and the text of it, with every bracket."""

_NUMBERS: st.SearchStrategy[Pair] = st.sampled_from(
    [(col(name), f'"{name.replace(chr(34), chr(34) * 2)}"') for name in ("x", "n", "odd \"name'")]
)
_CONSTANTS: st.SearchStrategy[Pair] = st.one_of(
    st.integers(0, 2**53).map(lambda n: (n, str(n))),
    st.floats(1e-90, 1e90).map(lambda x: (x, repr(x))),
)
_ARITHMETIC = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}
_COMPARED = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_COMPARED |= {"=": operator.eq, "<>": operator.ne}


def _both(signs: dict[str, Any], one: Any, other: Any) -> st.SearchStrategy[Pair]:
    pairs = st.tuples(st.sampled_from(list(signs)), one, other)
    return pairs.map(lambda t: (signs[t[0]](t[1][0], t[2][0]), f"({t[1][1]} {t[0]} {t[2][1]})"))


def _larger(part: st.SearchStrategy[Pair]) -> st.SearchStrategy[Pair]:
    return st.one_of(
        _both({**_ARITHMETIC, "%": operator.mod}, part, part),
        _both(_ARITHMETIC, part, _CONSTANTS),
        _both(_ARITHMETIC, _CONSTANTS, part),
        part.map(lambda p: (-p[0], f"(-{p[1]})")),
    )


NUMBERS = st.recursive(_NUMBERS, _larger, max_leaves=5)
_TESTS: st.SearchStrategy[Pair] = st.one_of(
    _both(_COMPARED, NUMBERS, NUMBERS),
    _both(_COMPARED, NUMBERS, _CONSTANTS),
    NUMBERS.map(lambda p: (p[0].is_null(), f"({p[1]} IS NULL)")),
    NUMBERS.map(lambda p: (p[0].is_not_null(), f"({p[1]} IS NOT NULL)")),
    NUMBERS.map(lambda p: (p[0].between(0, 2.5), f"({p[1]} BETWEEN 0 AND 2.5)")),
    NUMBERS.map(lambda p: (p[0].is_in([1, 2]), f"({p[1]} IN (1, 2))")),
    st.just((col("s").is_in(["a", "it's"]), "(s IN ('a', 'it''s'))")),
    st.just((col("d") >= dt.date(2024, 2, 29), "(d >= DATE '2024-02-29')")),
    st.just((col("b") == True, "(b = TRUE)")),  # noqa: E712
)
CONDITIONS = st.recursive(
    _TESTS,
    lambda part: st.one_of(
        _both({"AND": operator.and_, "OR": operator.or_}, part, part),
        part.map(lambda p: (~p[0], f"(NOT {p[1]})")),
    ),
    max_leaves=5,
)


@pytest.fixture(scope="module")
def table() -> Iterator[Query]:
    with opened(FRAME) as session:
        yield session.table("t")


@pytest.mark.long
@settings(max_examples=100, deadline=None)
@given(number=NUMBERS, condition=CONDITIONS)
def test_both_forms_give_equal_questions(table: Query, number: Pair, condition: Pair) -> None:
    counted = {"n": unacorda.count()}
    values, texts = (
        table.where(one).derive(z=other).where("z > 0").agg(**counted)
        for one, other in zip(condition, number, strict=True)
    )
    assert values == texts
    assert values.to_dict() == texts.to_dict()
    assert values.digest() == texts.digest()


AGGREGATES: dict[str, tuple[Any, str]] = {
    "count": (unacorda.count, "x"),
    "people": (unacorda.count_people, "x"),
    "count_if": (unacorda.count_if, "b"),
    "distinct": (unacorda.count_distinct, "s"),
    "sum": (lambda c: unacorda.sum(c, 0, 1), "x"),
    "vector": (lambda c: unacorda.vector_sum([c, "n"], norm=1), "x"),
    "mean": (lambda c: unacorda.mean(c, 0, 1), "x"),
    "proportion": (unacorda.proportion, "b"),
    "weighted": (lambda c: unacorda.weighted_mean(c, "n", (0, 1), (0, 1)), "x"),
    "quantile": (lambda c: unacorda.quantile(c, 0.5, 0, 1), "x"),
    "quantiles": (lambda c: unacorda.quantiles(c, [0.5], 0, 1), "x"),
    "median": (lambda c: unacorda.median(c, 0, 1), "x"),
    "iqr": (lambda c: unacorda.iqr(c, 0, 1), "x"),
    "histogram": (lambda c: unacorda.histogram(c, [0, 1]), "x"),
    "bins": (lambda c: unacorda.histogram(c, bins=2, lower=0, upper=1), "x"),
    "top": (lambda c: unacorda.top(c, 1, ["a", "b"]), "s"),
    "ratio": (lambda c: unacorda.ratio(c, "n", (0, 1), (0, 1)), "x"),
    "variance": (lambda c: unacorda.variance(c, 0, 1), "x"),
    "stdev": (lambda c: unacorda.stdev(c, 0, 1), "x"),
    "covariance": (lambda c: unacorda.covariance(c, "n", (0, 1), (0, 1)), "x"),
    "correlation": (lambda c: unacorda.correlation("n", c, (0, 1), (0, 1)), "x"),
    "min": (lambda c: unacorda.min(c, 0, 1), "x"),
    "max": (lambda c: unacorda.max(c, 0, 1), "x"),
    "bounds": (unacorda.find_bounds, "x"),
}


@pytest.mark.parametrize("name", AGGREGATES)
def test_every_aggregate_takes_a_column_as_a_value(table: Query, name: str) -> None:
    make, column = AGGREGATES[name]
    value, text = table.agg(a=make(col(column))), table.agg(a=make(column))
    assert value.to_dict() == text.to_dict()


def test_an_expression_in_an_aggregate_is_its_text(table: Query) -> None:
    hours = col("n") / 60
    value = table.agg(a=unacorda.mean(hours, 0, 1))
    assert value.to_dict() == table.agg(a=unacorda.mean(str(hours), 0, 1)).to_dict()


PERSON_VALUES: dict[str, Any] = {
    "max_": lambda c, d: unacorda.max_(c),
    "min_": lambda c, d: unacorda.min_(c),
    "any_": lambda c, d: unacorda.any_("b" if isinstance(c, str) else col("b")),
    "all_": lambda c, d: unacorda.all_("b" if isinstance(c, str) else col("b")),
    "first_": lambda c, d: unacorda.first_(c, by=d),
    "last_": lambda c, d: unacorda.last_(c, by=d),
    "count_": lambda c, d: unacorda.count_(c),
    "sum_": lambda c, d: unacorda.sum_(c, 0, 1),
    "mean_": lambda c, d: unacorda.mean_(c, 0, 1),
}


@pytest.mark.parametrize("name", PERSON_VALUES)
def test_every_value_of_a_person_takes_a_column_as_a_value(name: str) -> None:
    make = PERSON_VALUES[name]
    with opened(FRAME, unit=unacorda.Person("n", max_rows=2)) as session:
        per_person = session.table("t").per_person
        value = per_person(v=make(col("x"), col("d"))).agg(n=unacorda.count())
        text = per_person(v=make("x", "d")).agg(n=unacorda.count())
    assert value.to_dict() == text.to_dict()


def test_groups_and_lists_in_texts_take_columns(table: Query) -> None:
    counted = {"n": unacorda.count()}
    value = table.explode(col("s"), most=2).group_by(col("s"), keys=["a"]).agg(**counted)
    text = table.explode("s", most=2).group_by("s", keys=["a"]).agg(**counted)
    assert value.to_dict() == text.to_dict()


def test_values_of_other_packages_are_plain_values(table: Query) -> None:
    noon = dt.datetime(2024, 1, 1, 12, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    assert str(col("x") > np.float64(0.5)) == '"x" > 0.5'
    assert str(col("n") == np.int64(3)) == '"n" = 3'
    assert str(col("t") < noon) == "\"t\" < TIMESTAMP '2024-01-01 10:00:00'"
    assert repr(-col("x")) == '<expression -"x">'
    assert table.where(col("x") > np.float64(0.5)) == table.where("x > 0.5")


def test_an_expression_is_neither_true_nor_false() -> None:
    for wrong in (
        lambda: (col("x") > 1) and (col("x") < 2),
        lambda: not col("b"),
        lambda: 0 < col("x") < 1,
        lambda: col("s") in ["a", "b"],
    ):
        with pytest.raises(TypeError, match=r"Write & for `and`.*is_in"):
            wrong()


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        (lambda: col("x") == None, "is_null"),  # noqa: E711
        (lambda: col("x") != None, "is_not_null"),  # noqa: E711
        (lambda: col("s").is_in([]), "at least one value"),
        (lambda: col("s").is_in(["a", None]), "none of them None"),
        (lambda: col("s").is_in("ab"), "a list of values"),
        (lambda: col("x") + math.nan, "finite number"),
        (lambda: col("x") > math.inf, "finite number"),
        (lambda: col("x") * [1], "a column, a finite number"),
        (lambda: col(""), "the name of a column"),
        (lambda: col(3), "the name of a column"),  # type: ignore[arg-type]
    ],
)
def test_what_has_no_meaning_is_refused(wrong: Any, hint: str) -> None:
    with pytest.raises(InvalidParameter, match=hint):
        wrong()


@pytest.mark.parametrize(
    ("wrong", "fault", "hint"),
    [
        (col("y") > 1, InvalidParameter, "a column of the table"),
        (col("d") > 1, InvalidParameter, "of one kind"),
        (col("x") + 1, InvalidParameter, "a boolean"),
        (col("n") > 2**53 + 1, UnsafeExpression, "9007199254740993"),
    ],
)
def test_the_text_of_it_is_read_as_any_other(
    table: Query, wrong: ColumnExpression, fault: type[Exception], hint: str
) -> None:
    with pytest.raises(fault, match=hint):
        table.where(wrong)
