"""Falling back where a run fails: what it costs, by enumeration, and what it does."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf
from tests.mechanisms.divergences import exceeds, farthest, hockey_stick

from unacorda.bits import RandomBits, ScriptedBits, SeededBits
from unacorda.errors import InvalidParameter
from unacorda.mechanisms import Laplace
from unacorda.mechanisms.retry import AbsorbFailure
from unacorda.privacy.events import Approximate
from unacorda.privacy.guarantees import ZCDP, ApproxDP, PureDP

Law = dict[Any, Any]


@pytest.fixture(autouse=True)
def _digits() -> Iterator[None]:
    with mp.workdps(40):
        yield


def absorbed(law: Law, good: set[Any], fallback: Any) -> Law:
    """The law of the release: what is not good becomes the fallback."""
    found: Law = {}
    for outcome, mass in law.items():
        told = outcome if outcome in good else fallback
        found[told] = found.get(told, mpf(0)) + mass
    return found


def tight_pair(epsilon: Any, failure: Any) -> tuple[Law, Law]:
    """Outputs "a" that fails for the second alone, "b" for the first alone, "c" for nobody."""
    grown = mp.exp(epsilon)
    one = {"a": grown * failure, "b": failure, "c": 1 - (1 + grown) * failure}
    two = {"a": failure, "b": grown * failure, "c": 1 - (1 + grown) * failure}
    return absorbed(one, {"a", "c"}, "mine"), absorbed(two, {"b", "c"}, "yours")


def test_the_price_is_reached() -> None:
    event = AbsorbFailure(guarantee=PureDP(1), limit=0, failure=0.05).event
    one, two = tight_pair(mpf(1), mpf("0.05"))
    assert hockey_stick(one, two, 1) == pytest.approx(0.1859140914, abs=1e-9)
    assert exceeds(event, [(one, two)], epsilons=(1.0,)) == []
    assert float(event.delta) == pytest.approx(float(hockey_stick(one, two, 1)), rel=1e-12)


def test_delta_plus_the_failures_is_too_small() -> None:
    known = Approximate(epsilon=1, delta=0.05)
    assert exceeds(known, [tight_pair(mpf(1), mpf("0.05"))], epsilons=(1.0,)) == [1.0]


@pytest.mark.long
@given(
    one=st.lists(st.integers(1, 50), min_size=5, max_size=5),
    two=st.lists(st.integers(1, 50), min_size=5, max_size=5),
    good=st.tuples(st.sets(st.integers(0, 4)), st.sets(st.integers(0, 4))),
    fallbacks=st.tuples(st.integers(0, 5), st.integers(0, 5)),
    epsilon=st.sampled_from([0.0, 0.25, 1.0]),
)
def test_no_pair_is_farther_apart_than_it_costs(
    one: list[int],
    two: list[int],
    good: tuple[set[int], set[int]],
    fallbacks: tuple[int, int],
    epsilon: float,
) -> None:
    laws = [{k: mpf(v) / sum(row) for k, v in enumerate(row)} for row in (one, two)]
    delta = farthest([(laws[0], laws[1])], epsilon)
    failure = max(
        mp.fsum(mass for outcome, mass in law.items() if outcome not in kept)
        for law, kept in zip(laws, good, strict=True)
    )
    if delta + (1 + mp.exp(epsilon)) * failure >= mpf("0.999"):
        return
    up = Fraction(1, 10**15)
    event = AbsorbFailure(
        guarantee=ApproxDP(epsilon, Fraction(float(delta)) + up),
        limit=0,
        failure=Fraction(float(failure)) + up,
    ).event
    pair = tuple(absorbed(*each) for each in zip(laws, good, fallbacks, strict=True))
    assert exceeds(event, [(pair[0], pair[1])], epsilons=(epsilon,)) == []


def steady(output: Any) -> Any:
    def run(*, bits: RandomBits) -> Any:
        return output

    return run


@pytest.mark.parametrize(
    ("loss", "told"),
    [
        (2, "run"),
        (Fraction(20, 10), "run"),
        (-math.inf, "run"),
        (-(10**400), "run"),
        (2.0000000000000004, "fallback"),
        (math.inf, "fallback"),
        (math.nan, "fallback"),
        (10**400, "fallback"),
    ],
)
def test_the_fallback_stands_in_above_the_limit_alone(loss: Any, told: str) -> None:
    mechanism = AbsorbFailure(guarantee=PureDP(1), limit=2, failure=0.01)
    found = mechanism.release(steady("run"), loss=lambda _: loss, fallback=lambda: "fallback")
    assert found == told


def test_a_limit_is_the_decimal_it_prints_as() -> None:
    mechanism = AbsorbFailure(guarantee=PureDP(1), limit=0.1, failure=0.01)
    losses: list[Any] = [Fraction(1, 10), 0.1]  # the float is above a tenth
    told = [
        mechanism.release(steady(place), loss=losses.__getitem__, fallback=lambda: "fallback")
        for place in (0, 1)
    ]
    assert told == [0, "fallback"]


def test_a_mechanism_and_its_data_are_a_run() -> None:
    noise, truth = Laplace(scale=1, l1_sensitivity=1), 5
    mechanism = AbsorbFailure(guarantee=PureDP(1), limit=3, failure=math.exp(-3))
    losses = []
    for seed in range(200):
        found = mechanism.release(
            functools.partial(noise.release, truth),
            loss=lambda output: abs(output - truth),
            fallback=lambda: float(truth),
            bits=SeededBits(seed),
        )
        losses.append(abs(found - truth))
    assert 2 < max(losses) <= 3
    assert 1 <= losses.count(0) < 30


def test_the_run_gets_the_bits_that_were_given() -> None:
    bits = ScriptedBits([7])

    def run(*, bits: RandomBits) -> int:
        return int(bits.words(1)[0])

    mechanism = AbsorbFailure(guarantee=PureDP(1), limit=9, failure=0)
    assert mechanism.release(run, loss=lambda x: x, fallback=lambda: 0, bits=bits) == 7


def test_the_event_is_rounded_up() -> None:
    event = AbsorbFailure(guarantee=ApproxDP(2, 1e-6), limit=1, failure=1e-7).event
    assert event.epsilon == 2
    exact = mpf(10) ** -6 + (1 + mp.exp(2)) * mpf(10) ** -7
    assert exact <= mpf(event.delta) <= exact * (1 + mpf(10) ** -13)
    sure = AbsorbFailure(guarantee=ApproxDP(2, 1e-6), limit=1, failure=0)
    assert sure.event == Approximate(epsilon=2, delta=1e-6)
    assert sure.event == AbsorbFailure(guarantee=ApproxDP(2, 1e-6), limit=1, failure=0).event


@pytest.mark.parametrize(
    "wrong",
    [
        {"guarantee": ZCDP(1)},
        {"guarantee": 1},
        {"limit": math.nan},
        {"failure": -0.1},
        {"failure": 1},
        {"failure": 0.27},  # (1 + e) 0.27 > 1
        {"failure": None},
    ],
    ids=str,
)
def test_wrong_terms_are_refused(wrong: dict[str, Any]) -> None:
    terms: dict[str, Any] = {"guarantee": PureDP(1), "limit": 1, "failure": 0.01, **wrong}
    with pytest.raises(InvalidParameter, match=next(iter(wrong))):
        AbsorbFailure(**terms)


@pytest.mark.parametrize("loss", [None, "3", True, 1j])
def test_a_loss_that_is_no_number_is_refused_without_showing_it(loss: Any) -> None:
    mechanism = AbsorbFailure(guarantee=PureDP(1), limit=2, failure=0.01)
    with pytest.raises(InvalidParameter, match="loss") as caught:
        mechanism.release(steady(1), loss=lambda _: loss, fallback=lambda: 0)
    assert "3" not in str(caught.value)


@pytest.mark.parametrize("epsilon", [800, 1e200])
def test_an_epsilon_that_leaves_no_delta_is_refused(epsilon: float) -> None:
    with pytest.raises(InvalidParameter, match="failure"):
        AbsorbFailure(guarantee=PureDP(epsilon), limit=100, failure=1e-9)
