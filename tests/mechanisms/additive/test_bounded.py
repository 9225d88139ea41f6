"""Bounded Laplace noise: the enumerated law, the least scale, the coin, the edges."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf
from scipy import stats
from tests.mechanisms.divergences import exceeds
from tests.mechanisms.laws import as_mpf
from tests.support.cases import in_subtests

from unacorda.bits import ScriptedBits, SeededBits
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.noise.refinement import LazyUniform
from unacorda.mechanisms.shaped import numbers
from unacorda.mechanisms.shaped.numbers import BoundedLaplace, least_scale
from unacorda.privacy import events

EPSILONS = (0.0, 0.5, 0.9, 1.0, 1.1)


def law(x: int, *, length: int, scale: Fraction) -> dict[int, mpf]:
    """P(y) proportional to e^(-|y - x| / scale) on {0, ..., length}."""
    weights = [mp.exp(-abs(y - x) / as_mpf(scale)) for y in range(length + 1)]
    total = mp.fsum(weights)
    return {y: weight / total for y, weight in enumerate(weights)}


def largest_loss(scale: Fraction, *, moved: int, length: int) -> mpf:
    laws = [law(x, length=length, scale=scale) for x in range(length + 1)]
    return max(
        mp.log(laws[x][y] / laws[z][y])
        for x in range(length + 1)
        for z in range(length + 1)
        if abs(x - z) <= moved
        for y in range(length + 1)
    )


@pytest.mark.long
@in_subtests("epsilon", ["0.01", "0.7", "1", "5"])
@in_subtests(("moved", "length"), [(1, 1), (1, 2), (1, 12), (3, 7), (5, 5), (2, 30)])
def test_the_scale_is_the_least_that_keeps_epsilon(epsilon: str, moved: int, length: int) -> None:
    with mp.workprec(200):
        goal = Fraction(epsilon)
        scale = least_scale(goal, moved=moved, length=length)
        loss = largest_loss(scale, moved=moved, length=length)
        assert loss <= as_mpf(goal)
        assert loss > as_mpf(goal) * (1 - mpf("1e-13"))
        # The scale of plain Laplace noise is not enough, unless every move is to the other end.
        plain = largest_loss(moved / goal, moved=moved, length=length)
        assert (plain > as_mpf(goal) * (1 + mpf("1e-9"))) is (moved < length)


def test_long_ranges_have_the_scale_of_half_a_line() -> None:
    # With the upper end far away the loss is d/s + ln((1 + q - q^(d+1)) / 1).
    with mp.workprec(200):
        scale = as_mpf(least_scale(Fraction(1), moved=3, length=10**9))
        q = mp.exp(-1 / scale)
        assert abs(3 / scale + mp.log(1 + q - q**4) - 1) < mpf("1e-12")


def test_the_event_holds_and_the_plain_scale_is_caught() -> None:
    with mp.workprec(200):
        mechanism = BoundedLaplace(epsilon=1, sensitivity=2, lower=0, upper=9, grid_log2=0)
        scale = Fraction(mechanism.scale)

        def pairs(scale: Fraction) -> list[Any]:
            laws = [law(x, length=9, scale=scale) for x in range(10)]
            return [(laws[x], laws[x + d]) for x in range(10) for d in (1, 2) if x + d < 10]

        assert exceeds(mechanism.event, pairs(scale), epsilons=EPSILONS) == []
        assert exceeds(events.Pure(epsilon=0.99), pairs(scale), epsilons=(0.99,))
        assert exceeds(mechanism.event, pairs(Fraction(2)), epsilons=EPSILONS)


@pytest.mark.statistical
@pytest.mark.parametrize("x", [0, 1, 4, 7])
def test_draws_have_the_law(x: int) -> None:
    mechanism = BoundedLaplace(epsilon=0.8, sensitivity=1, lower=0, upper=7, grid_log2=0)
    drawn = mechanism.release(np.full(200_000, float(x)), bits=SeededBits(x))
    counts = np.bincount(drawn.astype(int), minlength=8)

    def p_value(scale: Fraction) -> float:
        expected = np.array([float(p) for p in law(x, length=7, scale=scale).values()])
        return float(stats.chisquare(counts, expected * counts.sum()).pvalue)

    scale = Fraction(str(mechanism.scale))
    assert p_value(scale) > 1e-7
    assert p_value(scale * Fraction(11, 10)) < 1e-9


def test_the_coin_is_the_same_in_exact_arithmetic(monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism = BoundedLaplace(epsilon=0.5, sensitivity=1, lower=-3, upper=4)
    x = np.linspace(-3, 4, 1500)
    quick = mechanism.release(x, bits=SeededBits(3))
    monkeypatch.setattr(numbers, "_SLACK", 10.0)  # nothing is decided by floats
    np.testing.assert_array_equal(quick, mechanism.release(x, bits=SeededBits(3)))


def test_the_coin_reads_on_where_its_first_bits_agree() -> None:
    with mp.workprec(200):
        q = mp.exp(-1 / as_mpf(Fraction(7, 3)))
        chance = (1 - q**4) / (1 + q - q**4 - q**3)
        first = int(mp.floor(chance * mpf(2) ** 64))
        second = int(mp.floor(chance * mpf(2) ** 128)) - (first << 64)
    for words, up in (
        ([first - 1], True),
        ([first + 1], False),
        ([first, second - 1], True),
        ([first, second + 1], False),
    ):
        bits = ScriptedBits(words[1:])
        uniform = LazyUniform(words[0], length=64, bits=bits)
        assert numbers._goes_up(uniform, 4, 2, Fraction(7, 3)) is up
        assert bits.left == 0


@given(x=st.floats(-1000, 1000), moved=st.integers(0, 50))
def test_rounding_moves_no_farther_than_x(x: float, moved: int) -> None:
    other = x + moved * 0.25
    if Fraction(other) - Fraction(x) != Fraction(moved, 4):
        return  # the sum itself was rounded
    ends: dict[str, int] = {"first": -(10**6), "last": 10**6}
    one, two = numbers._nearest(np.array([x, other]), -2, **ends).tolist()
    assert two - one == moved


def test_halves_to_even_would_move_twice_as_far() -> None:
    ends: dict[str, int] = {"first": -10, "last": 10}
    assert numbers._nearest(np.array([-0.5, 0.5, 1.5, 2.5]), 0, **ends).tolist() == [0, 1, 2, 3]
    assert np.rint([0.5, 1.5]).tolist() == [0.0, 2.0]
    below = np.array([math.nextafter(0.5, 0), -math.nextafter(0.5, 1), -5e-324])
    assert numbers._nearest(below, 0, **ends).tolist() == [0, -1, 0]


@pytest.mark.parametrize("epsilon", [1e-4, 0.5, 40.0])
@pytest.mark.parametrize(("lower", "upper"), [(0, 1), ("-0.3", "0.1"), (-(10**9), 10**9)])
def test_answers_lie_within_the_bounds_on_the_grid(epsilon: float, lower: Any, upper: Any) -> None:
    mechanism = BoundedLaplace(epsilon=epsilon, sensitivity=0.3, lower=lower, upper=upper)
    x = np.array([0.05, -0.0, math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324])
    for bits in (SeededBits(4), ScriptedBits([1 << 62] * 16, then=SeededBits(1))):
        noisy = mechanism.release(x, bits=bits)
        assert (noisy >= float(Fraction(lower))).all()
        assert (noisy <= float(Fraction(upper))).all()
        steps = np.ldexp(noisy, -mechanism.grid_log2)
        assert (steps == np.rint(steps)).all()
    same = mechanism.release(np.array([math.nan, 0.0, -0.0]), bits=ScriptedBits([1 << 62] * 6))
    assert same[0] == same[1] == same[2]
    assert mechanism.release(10**400) <= float(Fraction(upper))


def test_shapes_types_and_l0() -> None:
    mechanism = BoundedLaplace(epsilon=1, sensitivity=1, lower=0, upper=9, l0_sensitivity=4)
    assert mechanism.event == events.Pure(epsilon=1) * 4
    assert type(mechanism.release(1)) is float
    assert mechanism.release(np.zeros((2, 0, 3))).shape == (2, 0, 3)
    assert mechanism.release([[1, 2], [3, 4]]).dtype == np.float64
    whole = BoundedLaplace(epsilon=1, sensitivity=1, lower=0, upper=9, grid_log2=0)
    assert set(np.unique(whole.release(np.arange(10).repeat(50)))) <= set(range(10))
    with pytest.raises(InvalidParameter, match="x"):
        mechanism.release(np.array(["a"]), bits=ScriptedBits([]))


@in_subtests(
    ("fields", "name"),
    [
        ({"epsilon": 0}, "epsilon"),
        ({"sensitivity": -1}, "sensitivity"),
        ({"lower": 5}, "upper"),
        ({"lower": float("-inf")}, "lower"),
        ({"upper": float("nan")}, "upper"),
        ({"l0_sensitivity": 0}, "l0_sensitivity"),
        ({"grid_log2": 4}, "grid_log2"),
        ({"grid_log2": 0.5}, "grid_log2"),
        ({"upper": 10**20}, "grid_log2"),
        ({"grid_log2": -45}, "grid_log2"),
    ],
)
def test_wrong_numbers_are_refused(fields: dict[str, Any], name: str) -> None:
    with pytest.raises(InvalidParameter, match=name):
        BoundedLaplace(**({"epsilon": 1, "sensitivity": 1, "lower": 0, "upper": 5} | fields))
