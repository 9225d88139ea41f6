"""Interval arithmetic: every value lies in its range, and exact corners stay exact."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import duckdb
import numpy as np
import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from tests.support.cases import in_subtests
from tests.support.seams import EMPTY, EVERYTHING, Column, Kind, Range, parse, ranges, rounded
from tests.tiers import mostly_slow

_NUMBERS = st.one_of(
    st.sampled_from([0.0, 1.0, -1.0, 5e-324, -5e-324, 1e308, -1e308, math.inf, -math.inf, 0.5]),
    st.floats(allow_nan=False),
    st.integers(-20, 20).map(float),
)


@st.composite
def ranges_with_a_value(draw: st.DrawFn) -> tuple[Range, float]:
    value, *ends = draw(_NUMBERS), draw(_NUMBERS), draw(_NUMBERS)
    return Range(min(value, *ends), max(value, *ends)), value


_BINARY: dict[str, tuple[Callable[[Range, Range], Range], Callable[[float, float], float]]] = {
    "add": (ranges.add, lambda x, y: x + y),
    "multiply": (ranges.multiply, lambda x, y: x * y),
    "divide": (ranges.divide, lambda x, y: x / y if y else math.nan),
    "remainder": (ranges.remainder, lambda x, y: float(np.fmod(x, y)) if y else math.nan),
    "power": (ranges.power, lambda x, y: float(np.power(x, y)) if x or y >= 0 else math.nan),
}
_UNARY: dict[str, tuple[Callable[[Range], Range], Callable[[float], float]]] = {
    "negate": (ranges.negate, lambda x: -x),
    "absolute": (ranges.absolute, abs),
    "floor": (ranges.whole, lambda x: float(np.floor(x))),
    "ceil": (ranges.whole, lambda x: float(np.ceil(x))),
    "root": (ranges.root, lambda x: math.sqrt(x) if x >= 0 else math.nan),
    "exponential": (ranges.exponential, lambda x: float(np.exp(x))),
    "round": (lambda a: ranges.round_to(a, 2), lambda x: round(x, 2) if math.isfinite(x) else x),
    "logarithm": (
        lambda a: ranges.logarithm(a, math.log),
        lambda x: float(np.log(x)) if x > 0 else math.nan,
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("name", mostly_slow(_BINARY))
@seed(40)
@settings(max_examples=300, deadline=None, database=None)
@given(first=ranges_with_a_value(), second=ranges_with_a_value())
def test_results_of_two_numbers_lie_in_the_range(
    name: str, first: tuple[Range, float], second: tuple[Range, float]
) -> None:
    bound, function = _BINARY[name]
    (a, x), (b, y) = first, second
    with np.errstate(all="ignore"):
        value = function(x, y)
    if not math.isnan(value):
        assert bound(a, b).contains(value)


@pytest.mark.long
@pytest.mark.parametrize("name", mostly_slow(_UNARY, quick=2))
@seed(41)
@settings(max_examples=200, deadline=None, database=None)
@given(drawn=ranges_with_a_value())
def test_results_of_one_number_lie_in_the_range(name: str, drawn: tuple[Range, float]) -> None:
    bound, function = _UNARY[name]
    a, x = drawn
    with np.errstate(all="ignore"):
        value = function(x)
    if not math.isnan(value):
        assert bound(a).contains(value)


def test_nothing_comes_of_an_empty_range() -> None:
    for binary, _ in _BINARY.values():
        assert binary(EMPTY, EVERYTHING).empty
        assert binary(EVERYTHING, EMPTY).empty
    for unary, _ in _UNARY.values():
        assert unary(EMPTY).empty


@in_subtests(
    ("text", "lower", "upper"),
    [
        ("age", 0, 120),
        ("age + 1", 1, 121),
        ("120 - age", 0, 120),
        ("-age", -120, 0),
        ("age * age", 0, 14_400),
        ("POWER(age, 2)", 0, pytest.approx(14_400, rel=1e-12)),
        ("age / 2", 0, 60),
        ("1 / age", pytest.approx(1 / 120), math.inf),
        ("age % 10", 0, 10),
        ("FLOOR(age / 10)", 0, 12),
        ("ABS(change)", 0, 2),
        ("change * change", -2, 4),
        ("LEAST(GREATEST(free, 0), 10)", 0, 10),
        ("GREATEST(LEAST(free, 10), 0)", 0, 10),
        ("LEAST(free, 10)", -math.inf, 10),
        ("LEAST(age, free)", -math.inf, math.inf),
        ("COALESCE(age, -1)", -1, 120),
        ("COALESCE(1, free)", 1, 1),
        ("CASE WHEN age > 3 THEN 5 ELSE change END", -1, 5),
        ("CASE WHEN age > 3 THEN 5 END", 5, 5),
        ("IF(age > 3, 1, 0)", 0, 1),
        ("NULLIF(age, 0)", 0, 120),
        ("CAST(age > 3 AS INTEGER)", 0, 1),
        ("CAST(change AS INTEGER)", -1, 2),
        ("CAST(free AS TINYINT)", -128, 127),
        ("SQRT(change)", 0, pytest.approx(math.sqrt(2))),
        ("SIGN(free)", -1, 1),
        ("EXP(change)", pytest.approx(math.exp(-1)), pytest.approx(math.exp(2))),
        ("EXTRACT(MONTH FROM day)", 1, 12),
        ("NULL + 1", 0, 0),
        ("SQRT(-1)", 0, 0),
        ("free", -math.inf, math.inf),
        ("free - free", -math.inf, math.inf),
    ],
)
def test_ranges_that_an_analyst_meets(text: str, lower: float, upper: float) -> None:
    columns = {
        "age": Column("age", Kind.INTEGER, 0, 120),
        "change": Column("change", Kind.NUMBER, -1, 2),
        "free": Column("free", Kind.NUMBER),
        "day": Column("day", Kind.DATE),
    }
    found = parse(text, columns=columns)
    assert (found.lower, found.upper) == (lower, upper)


def test_inexact_corners_move_outward() -> None:
    total = ranges.add(Range(0.1, 0.1), Range(0.2, 0.2))
    assert total.lower < 0.1 + 0.2 < total.upper
    third = ranges.divide(Range(1.0, 1.0), Range(3.0, 3.0))
    assert third.lower < 1 / 3 < third.upper


@pytest.mark.long
@seed(43)
@settings(max_examples=2_000, deadline=None, database=None)
@given(
    value=st.floats(-1e100, 1e100) | st.floats(-1e-60, 1e-60) | st.floats(-1e-95, 1e-95),
    power=st.sampled_from([-332, -200, -664]),
)
def test_a_number_in_steps_is_a_multiple_of_them(value: float, power: int) -> None:
    step = 2.0**power
    found = Fraction(rounded(value, step))
    assert (found / Fraction(step)).denominator == 1
    assert abs(found - Fraction(value)) <= max(Fraction(step), Fraction(math.ulp(value)))


@in_subtests(
    ("text", "bounds", "values"),
    [
        ("ROUND(i, 15)", (0, 1e6), [295149.0, 590302.0, 999999.0]),
        ("ATAN2(1e100, x)", (0, 1), [0.0, 0.5, 1.0]),
        ("ATAN2(1100.5, x)", (-20, 20), [0.0, -20.0, 20.0]),
        ("POWER(x, 230)", (-0.07, 0.07), [-0.07, 0.07, 0.0]),
        ("POWER(x, LEAST(GREATEST(y, 0), 1))", (0, 8e99), [8e99, 1.0, 0.0]),
        ("POWER(x, 2000)", (0, 1.12192), [1.12192, 1.0]),
        ("POWER(x, LEAST(GREATEST(y, 0), 1))", (1.2e-100, 1), [1.2e-100, 1.0]),
        ("POWER(x, 230) * 1e100 * 1e100 * 1e100 * 1e65", (-0.07, 0.07), [-0.07, 0.07]),
    ],
)
def test_what_is_stepped_or_jumps_lies_where_it_is_said_to(
    text: str, bounds: tuple[float, float], values: list[float]
) -> None:
    """A size that is too small lets a product overflow, which PostgreSQL raises for one row."""
    low, high = bounds
    kind = Kind.INTEGER if "(i" in text else Kind.NUMBER
    columns = {"y": Column("y", Kind.NUMBER)}
    for name in ("x", "i"):
        columns[name] = Column(name, kind, lower=low, upper=high)
    found = parse(text, columns=columns)
    rows = ", ".join(f"({value!r}::DOUBLE, {value!r}::DOUBLE, 1e0)" for value in values)
    query = f"SELECT {found.sql} FROM (VALUES {rows}) AS t(x, i, y)"
    for (value,) in duckdb.execute(query).fetchall():
        assert found.lower <= value <= found.upper
        assert value == 0 or found.size.least <= abs(value) <= found.size.most


def test_a_number_that_is_made_missing_stays_missing_beneath_a_bound() -> None:
    """NULLIF inside GREATEST(LEAST(...)) is no clamp."""
    found = parse("GREATEST(NULLIF(LEAST(i, 5), 3), 0)", columns={"i": Column("i", Kind.INTEGER)})
    query = f"SELECT {found.sql} FROM (VALUES (3e0), (2e0), (7e0), (-1e0)) AS t(i)"
    assert [value for (value,) in duckdb.execute(query).fetchall()] == [0.0, 2.0, 5.0, 0.0]


@in_subtests("power", [2, 17, 18, 19, 40, 100, 230, 365, -3, -40])
def test_a_base_to_a_constant_is_that_number(power: int) -> None:
    columns = {"x": Column("x", Kind.NUMBER, lower=0, upper=2)}
    found = parse(f"POWER(x, {power})", columns=columns)
    query = f"SELECT {found.sql} FROM (VALUES (1.05e0), (0.7e0), (1e0), (2e0)) AS t(x)"
    values = [value for (value,) in duckdb.execute(query).fetchall()]
    truth = [one**power for one in (1.05, 0.7, 1.0, 2.0)]
    assert values == pytest.approx(truth, rel=1e-12)
