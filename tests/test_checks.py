"""Checks of arguments: what is taken, what is refused, and what the message says."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unacorda import checks
from unacorda.errors import InvalidParameter


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (0.1, Fraction(1, 10)),
        (1e-6, Fraction(1, 10**6)),
        ("1/3", Fraction(1, 3)),
        ("0.25", Fraction(1, 4)),
        (Decimal("0.3"), Fraction(3, 10)),
        (7, Fraction(7)),
        (np.float64(0.3), Fraction(3, 10)),
        (np.int64(3), Fraction(3)),
        (Fraction(2, 7), Fraction(2, 7)),
    ],
)
def test_a_number_means_the_decimal_it_prints_as(written: Any, meant: Fraction) -> None:
    assert checks.exact("epsilon", written) == meant


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_finite_float_reads_back_to_itself(value: float) -> None:
    assert float(checks.exact("x", value)) == value


@pytest.mark.parametrize(
    "value",
    [
        math.nan,
        math.inf,
        "abc",
        "1/0",
        True,
        None,
        [1],
        1j,
        Decimal("NaN"),
        "inf",
        "1e999999999",
        Decimal("1e-999999999"),
        "1e",
    ],
)
def test_what_is_no_finite_number_is_refused(value: Any) -> None:
    with pytest.raises(InvalidParameter, match="epsilon=") as caught:
        checks.exact("epsilon", value)
    assert caught.value.argument == "epsilon"


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (checks.finite, [0, -1.5, 3], [math.nan, math.inf, "1", True, None]),
        (checks.positive, [1, 0.5], [0, -1, math.nan, math.inf, "1", True]),
        (checks.non_negative, [0, 0.0, 2], [-1e-300, math.nan, math.inf, True]),
        (checks.probability, [0.5, 1e-300], [0, 1, -1, 2, math.nan, True]),
        (checks.positive_integer, [1, 10**30, np.int32(4)], [0, -1, 1.0, "1", True, None]),
    ],
)
def test_ranges(check: Callable[..., Any], good: list[Any], bad: list[Any]) -> None:
    for value in good:
        assert check(x=value) == value
    for value in bad:
        with pytest.raises(InvalidParameter, match="x="):
            check(x=value)


def test_text_is_text_that_is_not_empty() -> None:
    assert [checks.is_text(value) for value in ("a", "", None, 1, b"a")] == [
        True,
        False,
        False,
        False,
        False,
    ]


def test_what_does_not_fit_is_refused_under_its_name() -> None:
    checks.demand([0], "--keys", "A", expected="keys")
    with pytest.raises(
        InvalidParameter, match="--keys='A' cannot be used: expected keys"
    ) as refused:
        checks.demand([], "--keys", "A", expected="keys")
    assert (refused.value.argument, refused.value.value) == ("--keys", "A")


@pytest.mark.parametrize("value", [1, 0, None, "True", [True]])
def test_only_booleans_are_booleans(value: object) -> None:
    checks.boolean(shuffle=True, monotone=False)
    with pytest.raises(InvalidParameter, match=r"monotone=.*True or False"):
        checks.boolean(shuffle=True, monotone=value)


@pytest.mark.parametrize("value", ["left", "", None, 0, ["less"]])
def test_a_choice_is_one_of_its_texts(value: object) -> None:
    checks.choice(("two-sided", "less", "greater"), alternative="less")
    with pytest.raises(InvalidParameter, match="'two-sided', 'less' or 'greater'"):
        checks.choice(("two-sided", "less", "greater"), alternative=value)
