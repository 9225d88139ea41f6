"""Conversions name what they refuse, and are right for numbers that no float holds."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import inspect
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from tests.support.cases import in_subtests

from unacorda.errors import InvalidParameter
from unacorda.privacy import conversions as c

GOOD: dict[str, Any] = {
    "alpha": 2.0,
    "delta": 0.1,
    "part": 0.05,
    "size": 2,
    "stretch": 2.0,
    "epsilons": [1.0],
    "deltas": [0.1],
}
LISTS = {"epsilons", "deltas"}
NO_NUMBERS = [
    None,
    "1",
    b"1",
    True,
    [1.0],
    {},
    1j,
    math.nan,
    math.inf,
    -1.0,
    Decimal("0.5"),
    np.array([1.0, 2.0]),
    np.array(1.0),
    object(),
]
TINY = Fraction(1, 10**400)


def called(name: str, **changes: Any) -> Any:
    function = getattr(c, name)
    given = {p: GOOD.get(p, 1.0) for p in inspect.signature(function).parameters} | changes
    first = given.pop(next(iter(inspect.signature(function).parameters)))
    return function(first, **given)


def answer(name: str, parameter: str, value: Any) -> tuple[Any, InvalidParameter | None]:
    """The numbers found, or the refusal."""
    try:
        found = called(name, **{parameter: value})
    except InvalidParameter as refusal:
        return (), refusal
    return found if isinstance(found, tuple) else (found,), None


def parameters() -> list[tuple[str, str]]:
    return [(name, p) for name in dir(c) for p in inspect.signature(getattr(c, name)).parameters]


@in_subtests(("name", "parameter"), parameters())
def test_what_is_no_number_is_refused_by_name_and_value(name: str, parameter: str) -> None:
    called(name)  # what equals a number that is remembered is refused all the same
    for wrong in NO_NUMBERS:
        with pytest.raises(InvalidParameter) as caught:
            called(name, **{parameter: [wrong] if parameter in LISTS else wrong})
        assert caught.value.argument == parameter
        assert caught.value.value is wrong
        assert "expected a" in str(caught.value)


@pytest.mark.parametrize(("name", "parameter"), [p for p in parameters() if p[1] in LISTS])
def test_what_is_no_list_is_refused(name: str, parameter: str) -> None:
    for wrong in (1.0, None, "12", object()):
        with pytest.raises(InvalidParameter, match="a list of numbers") as caught:
            called(name, **{parameter: wrong})
        assert caught.value.argument == parameter
    if "deltas" in inspect.signature(getattr(c, name)).parameters and parameter == "epsilons":
        with pytest.raises(InvalidParameter, match="2 of them"):
            called(name, epsilons=[1.0, 1.0])


@in_subtests(("name", "parameter"), parameters())
def test_numbers_of_numpy_and_fractions_are_numbers(name: str, parameter: str) -> None:
    plain = called(name)
    value = GOOD.get(parameter, 1.0)
    for kind in (np.float64, Fraction):
        given = [kind(value[0])] if parameter in LISTS else kind(value)
        if kind is Fraction or parameter not in LISTS:
            assert called(name, **{parameter: given}) == pytest.approx(plain, rel=1e-12)


@pytest.mark.long
@in_subtests(("name", "parameter"), parameters())
@in_subtests("number", [10**400, TINY, 5e-324, 1.7e308], ids=["huge", "tiny", "least", "largest"])
def test_no_number_ends_in_another_error(name: str, parameter: str, number: Any) -> None:
    given = [number] if parameter in LISTS else number
    found, refused = answer(name, parameter, given)
    if refused is None:
        assert all(one is None or one >= 0 for one in found)
    else:
        assert refused.argument == parameter
        assert len(str(refused)) < 400


def test_a_delta_below_every_float_is_still_a_delta() -> None:
    with mpmath.workdps(60):
        tail = 400 * mpmath.log(10)
        epsilon = c.approx_dp_from_gdp(1.0, delta=TINY)
        half = mpmath.mpf(epsilon)
        truth = mpmath.ncdf(0.5 - half) - mpmath.exp(half) * mpmath.ncdf(-0.5 - half)
        assert truth <= mpmath.exp(-tail)
        assert epsilon == pytest.approx(float(0.5 + mpmath.sqrt(2 * tail)), rel=1e-14)
        closed = 1 + (tail - mpmath.log(3)) / 2 + mpmath.log(mpmath.mpf(2) / 3)
        assert c.approx_dp_from_renyi(1.0, alpha=3, delta=TINY) == pytest.approx(float(closed))
    back = c.renyi_from_approx_dp(500.0, delta=TINY, alpha=3)
    assert 499.9 < c.approx_dp_from_renyi(back, alpha=3, delta=TINY) <= 500
    assert c.pure_from_zcdp(TINY) == pytest.approx(math.sqrt(2) * 1e-200, rel=1e-12)
    assert c.pure_from_renyi(TINY, alpha=2) <= 1e-200


def test_sums_beyond_floats_are_infinite() -> None:
    assert c.advanced_composition([1.7e308] * 3, delta=0) == math.inf
    assert c.basic_composition([1.5e308] * 2, deltas=[0, 0])[0] == 2 * Fraction(1.5e308)
