"""Running again until a test accepts: what it costs, by enumeration, and what it does."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from tests.mechanisms.divergences import farthest, hockey_stick
from tests.mechanisms.retry.tries_laws import chi_square_p, drawn_from
from tests.support.cases import in_subtests

from unacorda.bits import RandomBits, ScriptedBits, SeededBits
from unacorda.errors import InvalidParameter
from unacorda.mechanisms import DiscreteLaplace
from unacorda.mechanisms.retry import ConditionOnSuccess
from unacorda.mechanisms.retry.success import acceptance
from unacorda.privacy.guarantees import ZCDP, ApproxDP, PureDP

Law = dict[Any, Any]


@pytest.fixture(autouse=True)
def _digits() -> Iterator[None]:
    with mp.workdps(40):
        yield


def made(**terms: Any) -> ConditionOnSuccess:
    given: dict[str, Any] = {
        "guarantee": PureDP(0.5),
        "test": ApproxDP(0.5, 1e-7),
        "sensitivity": 1,
        "limit": 0,
        "failure": 0.5,
        "rounds": 200,
        **terms,
    }
    return ConditionOnSuccess(**given)


def released(
    masses: Sequence[Any], levels: Sequence[int], chances: Sequence[Any], rounds: int
) -> Law:
    """The law of the whole loop: of each output, and of None after all rounds are refused."""
    accepted = [m * chances[min(j, len(chances) - 1)] for m, j in zip(masses, levels, strict=True)]
    refused = 1 - mp.fsum(accepted)
    tries = mp.fsum(refused**k for k in range(rounds))
    return {**{k: m * tries for k, m in enumerate(accepted)}, None: refused**rounds}


def chances_of(test: ApproxDP) -> list[Any]:
    return [mpf(chance) / 2**128 for chance in acceptance(test.epsilon, test.delta)]


def promised(mechanism: ConditionOnSuccess, pair: tuple[Law, Law]) -> bool:
    """Whether the pair keeps what the event promises."""
    event = mechanism.event
    allowed = mpf(Fraction(event.delta).numerator) / Fraction(event.delta).denominator
    return bool(farthest([pair], float(event.epsilon)) <= allowed + mpf(10) ** -18)


# The chances of acceptance.


@pytest.mark.parametrize(
    "test", [ApproxDP(0.5, 1e-7), ApproxDP(3, 0.2), ApproxDP(1e-2, 1e-9), ApproxDP(1000, 1e-20)]
)
def test_neighboring_chances_keep_the_guarantee_of_the_test(test: ApproxDP) -> None:
    chances = acceptance(test.epsilon, test.delta)
    grown, least = mp.exp(mpf(test.epsilon.numerator) / test.epsilon.denominator), 2**128
    delta = mpf(test.delta.numerator) / test.delta.denominator
    assert chances[0] == 2**128
    assert chances[-1] == 0
    for nearer, farther in itertools.pairwise(chances):
        assert nearer - farther >= 0
        assert mpf(nearer) <= grown * farther + delta * least
    # And as large as that allows, to the rounding: the first step alone may be a smaller one.
    for nearer, farther in itertools.pairwise(chances[1:]):
        assert mpf(nearer) >= (grown * farther + delta * least) * (1 - mpf(10) ** -9) - 2


def test_it_refuses_about_half_as_far_above_as_truncated_noise() -> None:
    mechanism = made()
    truncated = 2 * math.log(1 + math.expm1(0.5) / 2e-7) / 0.5  # of both tails
    assert mechanism.worst_loss == 31
    assert mechanism.worst_loss < 0.53 * truncated


# What it costs.


Side = tuple[list[Any], tuple[int, ...]]
"""The masses of the outputs of one run, and the levels of their losses."""


def near_worst(epsilon: Any, last: int, share: Any, sliver: Any) -> tuple[Side, Side]:
    """Two neighbors: most of the failures are refused for sure.

    Up to a share of 1 / (1 + e^-epsilon) the masses are epsilon-DP. One output, a sliver, is the
    likelier under the first by the run and by the test.
    """
    grown = mp.exp(epsilon)
    failing = share - grown * sliver
    first = [1 - failing - grown * sliver, failing, grown * sliver]
    second = [1 - failing / grown - sliver, failing / grown, sliver]
    return (first, (0, last, 5)), (second, (0, last, 6))


@pytest.mark.parametrize(("share", "rounds"), [("0.5", 200), ("0.05", 30), ("0.3", 60)])
def test_the_epsilon_is_nearly_reached(share: str, rounds: int) -> None:
    mechanism = made(failure=share, rounds=rounds)
    chances = chances_of(mechanism.test)
    sides = near_worst(mpf("0.5"), len(chances) - 1, mpf(share), mpf(10) ** -4)
    one, two = (released(masses, levels, chances, rounds) for masses, levels in sides)
    assert promised(mechanism, (one, two))
    reached = float(mp.log(one[2] / two[2]))
    assert 0.999 * float(mechanism.event.epsilon) < reached
    lowered = 0.97 * float(mechanism.event.epsilon)
    assert hockey_stick(one, two, lowered) > mpf(float(mechanism.event.delta))


def test_the_price_of_one_run_and_its_test_is_too_low() -> None:
    mechanism = made()
    chances = chances_of(mechanism.test)
    one, two = (
        released(masses, levels, chances, 200)
        for masses, levels in near_worst(mpf("0.5"), len(chances) - 1, mpf("0.5"), mpf(10) ** -4)
    )
    assert hockey_stick(one, two, 1.0) > 10 * mpf(float(mechanism.event.delta))


def test_a_test_of_the_true_loss_has_no_price() -> None:
    mechanism = made(failure="0.05")
    sharp = [mpf(1), mpf(0)]
    one = released([mpf("0.95"), mpf("0.05")], (0, 0), sharp, 50)
    two = released([mpf("0.95"), mpf("0.05")], (0, 1), sharp, 50)
    assert hockey_stick(one, two, 5.0) == pytest.approx(0.05)
    assert not promised(mechanism, (one, two))


def test_stopping_early_costs_less_than_running_on() -> None:
    epsilons = [float(made(rounds=rounds).event.epsilon) for rounds in (1, 2, 3, 10, 100)]
    assert epsilons[0] == 1.0
    assert epsilons == sorted(epsilons)
    once = made(rounds=1).event
    assert float(once.delta) == pytest.approx(0.5 + 1e-7)


def known(epsilon: float, delta: float, failure: float) -> tuple[float, float]:
    """The form of the source, for runs and tests of the same epsilon and delta."""
    lost = 2 * delta / (1 - failure)
    return 4 * epsilon - math.log1p(-lost), lost


@in_subtests("epsilon", [0.1, 1.0, 3.0])
@in_subtests("failure", [0.001, 0.1, 0.5, 0.9])
def test_it_never_costs_more_than_the_known_bound(epsilon: float, failure: float) -> None:
    delta, rounds = 1e-6, 20_000
    both = ApproxDP(epsilon, delta)
    event = made(guarantee=both, test=both, failure=failure, rounds=rounds).event
    limit = known(epsilon, delta, failure)
    assert float(event.epsilon) <= limit[0]
    assert float(event.delta) <= limit[1] * (1 + 1e-12)
    if failure < 0.5:
        assert float(event.epsilon) < limit[0] * 0.6


ROWS = st.lists(st.integers(0, 40), min_size=4, max_size=4).filter(any)


@pytest.mark.long
@settings(max_examples=150)
@given(
    rows=st.tuples(ROWS, ROWS),
    moved=st.lists(st.tuples(st.integers(0, 8), st.integers(-1, 1)), min_size=4, max_size=4),
    epsilon=st.sampled_from(["0", "0.3", "1"]),
    test=st.sampled_from([ApproxDP(0.5, 0.01), ApproxDP(0.2, 0.05), ApproxDP(2, 0.1)]),
    rounds=st.sampled_from([1, 2, 7, 60]),
)
def test_no_pair_is_farther_apart_than_it_costs(
    rows: tuple[list[int], list[int]],
    moved: list[tuple[int, int]],
    epsilon: str,
    test: ApproxDP,
    rounds: int,
) -> None:
    laws = [[mpf(mass) / sum(row) for mass in row] for row in rows]
    places = [[level for level, _ in moved], [max(level + move, 0) for level, move in moved]]
    up = Fraction(1, 10**15)
    delta = farthest([(dict(enumerate(laws[0])), dict(enumerate(laws[1])))], float(epsilon))
    failure = max(
        mp.fsum(mass for mass, level in zip(law, place, strict=True) if level)
        for law, place in zip(laws, places, strict=True)
    )
    try:
        mechanism = made(
            guarantee=ApproxDP(epsilon, min(Fraction(float(delta)) + up, Fraction(1))),
            test=test,
            failure=Fraction(float(failure)) + up,
            rounds=rounds,
        )
    except InvalidParameter:
        return  # what would be promised is nothing
    chances = chances_of(test)
    one, two = (
        released(law, place, chances, rounds) for law, place in zip(laws, places, strict=True)
    )
    assert promised(mechanism, (one, two))


# What it does.

LAW = [Fraction(1, 2), Fraction(1, 4), Fraction(1, 4)]


def run(*, bits: RandomBits) -> int:
    return drawn_from(LAW, bits)


@pytest.mark.long
@pytest.mark.statistical
def test_the_release_has_the_law_of_the_loop() -> None:
    mechanism = made(test=ApproxDP(1, 0.05), failure="0.5", rounds=2)
    losses, levels = [0, 0.5, 1.2], [0, 1, 2]
    bits = SeededBits(91)
    seen: Counter[Any] = Counter(
        mechanism.release(run, loss=losses.__getitem__, bits=bits) for _ in range(12_000)
    )
    masses = [mpf(1) / 2, mpf(1) / 4, mpf(1) / 4]
    assert chi_square_p(seen, released(masses, levels, chances_of(mechanism.test), 2)) > 1e-7
    for wrong in ([0, 1, 3], [0, 2, 2]):
        law = released(masses, wrong, chances_of(mechanism.test), 2)
        assert chi_square_p(seen, law) < 1e-9


def test_all_rounds_are_run_and_take_the_same_bits() -> None:
    for told in (-1, 2, math.inf):
        calls: list[int] = []

        def one(*, bits: RandomBits, calls: list[int] = calls) -> int:
            calls.append(len(calls))
            return calls[-1]

        def loss(_: int, told: float = told) -> float:
            return told

        bits = ScriptedBits([1] * 14)
        found = made(rounds=7).release(one, loss=loss, bits=bits)
        assert found == (None if told == math.inf else 0)
        assert calls == list(range(7))
        assert bits.left == 0


@in_subtests(
    ("loss", "level"),
    [
        (-math.inf, 0),
        (-5, 0),
        (0.1, 0),  # the limit is 1/10, and the float above it by 2^-57 or so ...
        (Fraction(1, 10), 0),
        (0.3, 1),
        (Fraction(35, 100), 1),
        (Fraction(35, 100) + Fraction(1, 10**30), 2),
        (math.inf, -1),
        (math.nan, -1),
        (1e300, -1),
        (10**400, -1),
    ],
)
def test_the_level_of_a_loss(loss: Any, level: int) -> None:
    mechanism = made(limit=0.1, sensitivity=0.25, rounds=1)
    chance = acceptance(mechanism.test.epsilon, mechanism.test.delta)[level]
    if loss == 0.1 and isinstance(loss, float):
        level, chance = 1, acceptance(mechanism.test.epsilon, mechanism.test.delta)[1]  # ... so 1
    for number, accepted in ((chance - 1, True), (chance, False)):
        if 0 <= number < 2**128:
            bits = ScriptedBits([number >> 64, number & (2**64 - 1)])
            found = mechanism.release(lambda *, bits: "out", loss=lambda _: loss, bits=bits)
            assert (found == "out") is accepted


def test_no_output_is_worse_than_promised() -> None:
    noise, truth = DiscreteLaplace(scale=2, l1_sensitivity=1), 40
    mechanism = made(test=ApproxDP(2, 0.01), limit=4, failure=0.12, rounds=12)
    assert mechanism.worst_loss == 7
    assert float(mechanism.no_output) == pytest.approx(0.12**12)
    run_it = functools.partial(noise.release, truth)
    losses = []
    for seed in range(300):
        found = mechanism.release(
            run_it, loss=lambda output: abs(output - truth), bits=SeededBits(seed)
        )
        assert found is not None
        losses.append(abs(found - truth))
    assert 4 < max(losses) <= 7


@in_subtests(
    "wrong",
    [
        {"guarantee": ZCDP(1)},
        {"test": PureDP(1)},
        {"test": ApproxDP(1, 0)},
        {"test": ApproxDP(0, 0.1)},
        {"test": ApproxDP(1, 1)},
        {"test": ApproxDP(1e-6, 1e-9)},
        {"sensitivity": 0},
        {"limit": math.inf},
        {"failure": 1},
        {"failure": -1},
        {"rounds": 0},
        {"rounds": 1.5},
        {"rounds": 1, "failure": 0.9999999999},
    ],
    ids=str,
)
def test_wrong_terms_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter, match=next(iter(wrong))):
        made(**wrong)


@pytest.mark.parametrize("loss", [None, "3", True])
def test_a_loss_that_is_no_number_is_refused_without_showing_it(loss: Any) -> None:
    with pytest.raises(InvalidParameter, match="loss") as caught:
        made().release(lambda *, bits: 1, loss=lambda _: loss)
    assert "3" not in str(caught.value)
