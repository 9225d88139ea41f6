"""Balls hold the exact number, and floats are rounded outward from them."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from fractions import Fraction

import pytest
from flint import arb, ctx
from hypothesis import given
from hypothesis import strategies as st

from unacorda import balls
from unacorda.balls import (
    BITS,
    ball,
    bracket,
    float_down,
    float_up,
    fraction_up,
    greatest,
    ldexp,
    least,
    precision,
    root,
)


@given(st.fractions(min_value=0))
def test_floats_enclose_a_fraction(value: Fraction) -> None:
    low, high = float_down(ball(value)), float_up(ball(value))
    assert Fraction(low) <= value
    assert high == math.inf or value <= Fraction(high)
    assert high <= math.nextafter(math.nextafter(low, math.inf), math.inf)


@given(st.fractions(min_value=0))
def test_a_tenfold_sum_encloses_the_product(value: Fraction) -> None:
    summed = sum([ball(value)] * 10, ball(0))
    assert Fraction(float_down(summed)) <= 10 * value
    assert float_up(summed) == math.inf or 10 * value <= Fraction(float_up(summed))


@given(st.floats(min_value=0, allow_nan=False, allow_infinity=False))
def test_a_float_is_itself(value: float) -> None:
    assert float_up(ball(value)) == float_down(ball(value)) == value
    assert math.copysign(1, float_up(-ball(0.0))) == 1


@pytest.mark.parametrize(
    ("value", "low", "high"),
    [
        (arb(10) ** 400, 1.7976931348623157e308, math.inf),
        (arb(10) ** -400, 0.0, 5e-324),
        (-(arb(10) ** -400), 0.0, 0.0),
        (arb(0).log(), 0.0, math.inf),
        (arb.nan(), 0.0, math.inf),
        (arb(-1).sqrt(), 0.0, math.inf),
        (arb(0, 1).log(), 0.0, math.inf),
        (arb(math.inf), math.inf, math.inf),
    ],
)
def test_ends(value: arb, low: float, high: float) -> None:
    assert float_up(value) == high
    assert float_down(value) <= low


def test_lowered_precision_is_raised_and_bounds_hold_meanwhile() -> None:
    third = Fraction(1, 3)
    before = ctx.prec
    try:
        ctx.prec = 20
        rough = arb(1) / 3
        assert Fraction(float_down(rough)) <= third <= Fraction(float_up(rough))
        assert float(ball(third).rad()) < 2.0**-250
        with precision(1000):
            assert float(ball(third).rad()) < 2.0**-990
            with precision(50):
                assert ctx.prec == 1000
        assert ctx.prec == BITS
    finally:
        ctx.prec = before


def test_threads_with_many_digits_do_not_disturb_each_other() -> None:
    radii: list[float] = []

    def work(bits: int) -> None:
        for _ in range(200):
            with precision(bits):
                radii.append(math.log2(float(ball(Fraction(1, 3)).exp().rad())) + bits)

    threads = [threading.Thread(target=work, args=(bits,)) for bits in (300, 400, 900)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(radii) == 600
    assert max(radii) < 4


@given(st.fractions(), st.integers(0, 300))
def test_a_bracket_is_that_of_the_fraction(value: Fraction, places: int) -> None:
    low, high = bracket(lambda: ball(value), places)
    assert low <= value * 2**places <= high <= low + 2


@given(st.integers(0, 10**30), st.integers(1, 2000))
def test_a_bracket_is_that_of_the_integer_root(value: int, places: int) -> None:
    low, high = bracket(lambda: ball(value).sqrt(), places)
    root = math.isqrt(value << 2 * places)
    assert low <= root <= high <= low + 2
    assert (root * root == value << 2 * places) or root < high


@pytest.mark.parametrize("log2", [10, 200, 2000])
def test_a_bracket_reads_on_where_digits_cancel(log2: int) -> None:
    tiny = Fraction(1, 3 << log2)
    low, high = bracket(lambda: ((1 + ball(tiny)) - 1) / ball(tiny), 100)
    assert low <= 1 << 100 <= high <= low + 2


def test_a_bracket_holds_where_precision_is_lowered_meanwhile() -> None:
    digits = [20, 20, 20]

    def rough() -> arb:
        if digits:
            ctx.prec = digits.pop()
        return arb(1) / 3

    low, high = bracket(rough, 128)
    assert low <= Fraction(1 << 128, 3) <= high <= low + 2
    assert not digits
    assert ctx.prec == BITS


def test_a_bracket_holds_where_precision_is_lowered_between_its_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    digits, floor = [20, 53, 100], balls._floor

    def lowering(end: arb) -> int:
        if digits:
            ctx.prec = digits.pop()
        return floor(end)

    monkeypatch.setattr(balls, "_floor", lowering)
    low, high = bracket(lambda: ball(2).sqrt(), 128)
    assert low <= math.isqrt(2 << 256) < high <= low + 2
    assert not digits


@pytest.mark.parametrize("undefined", [lambda: ball(0).log(), arb.nan, lambda: arb(math.inf)])
def test_what_is_undefined_has_no_bracket(undefined: Callable[[], arb]) -> None:
    with pytest.raises(ArithmeticError, match="bracket"):
        bracket(undefined, 64)


@given(st.integers(), st.integers(-3000, 3000))
def test_a_scaled_integer_is_exact(value: int, exponent: int) -> None:
    scaled = ldexp(value, exponent)
    assert scaled.is_exact()
    assert fraction_up(scaled) == value * Fraction(2) ** exponent


@given(st.fractions())
def test_an_upper_end_is_above(value: Fraction) -> None:
    top = fraction_up(ball(value))
    assert value <= top <= value + abs(value) / 2**250


def test_a_sum_that_cancels_is_still_above() -> None:
    third = ball(Fraction(1, 3))
    assert 0 < float_up(third - third / 2 - third / 2) < 1e-60


def test_the_greatest_and_the_least_hold_both_where_it_is_not_certain_which_it_is() -> None:
    third = ball(Fraction(1, 3))
    wide = third + arb(0, 1e-30)
    assert greatest([third, wide]).contains(third + 1e-31)
    assert least([wide, third]).contains(third - 1e-31)
    assert greatest([third, third / 2]) > third / 2
    assert greatest([ball(1), ball(math.inf), ball(0)]).is_exact()
    assert least([ball(1), ball(0)]) == 0


@given(st.fractions(min_value=0, max_value=10**6))
def test_roots_hold_the_root_also_where_a_ball_reaches_below_0(value: Fraction) -> None:
    for wide in (ball(value), ball(value) + arb(0, 1e-40)):
        found = root(wide)
        assert Fraction(float_down(found)) ** 2 <= value <= Fraction(float_up(found)) ** 2
