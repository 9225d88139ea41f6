"""The best of a random number of runs: its law, what it costs, and what it takes."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf
from tests.mechanisms.retry.tries_laws import (
    Tries,
    best_of,
    chi_square_p,
    drawn_from,
    geometric,
    largest_loss,
    masses,
    steep_pair,
)
from tests.support.cases import in_subtests
from tests.tiers import mostly_slow

from unacorda import accounting
from unacorda.bits import RandomBits, ScriptedBits, SeededBits
from unacorda.errors import InvalidParameter
from unacorda.mechanisms import BestOf, DiscreteLaplace
from unacorda.privacy.events import Gaussian, Laplace, NegativeBinomialTries, PoissonTries, Pure
from unacorda.privacy.guarantees import PureDP

ONE = Pure(epsilon=1)
LOGARITHMIC = NegativeBinomialTries(event=ONE, shape=0, stop=0.05)
POISSON = PoissonTries(event=ONE, mean=2)
LAW = [Fraction(1, 2), Fraction(3, 10), Fraction(1, 5)]
SCORES: list[Any] = [-1.5, Fraction(1, 3), 7]


@pytest.fixture(autouse=True)
def _digits() -> Iterator[None]:
    with mp.workdps(40):
        yield


def run(*, bits: RandomBits) -> tuple[str, Any]:
    place = drawn_from(LAW, bits)
    return "abc"[place], SCORES[place]


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("event", mostly_slow([geometric(0.1), LOGARITHMIC, POISSON]), ids=str)
def test_the_release_has_the_law_of_the_best(event: Tries) -> None:
    best, bits = BestOf(event=event), SeededBits(81)
    seen: Counter[Any] = Counter(best.release(run, bits=bits) for _ in range(5000))
    law = best_of([mpf(1) / 2, mpf(3) / 10, mpf(1) / 5], masses(event, 1500))
    named: dict[Any, Any] = dict(zip([*zip("abc", SCORES, strict=True), None], law, strict=True))
    assert chi_square_p(seen, named) > 1e-7
    once: dict[Any, Any] = {("a", -1.5): 0.5, ("b", Fraction(1, 3)): 0.3, ("c", 7): 0.2, None: 0}
    assert chi_square_p(seen, once) < 1e-9


@pytest.mark.long
@pytest.mark.statistical
def test_equal_scores_are_as_likely_as_single_runs_make_them() -> None:
    def tied(*, bits: RandomBits) -> tuple[int, float]:
        return drawn_from(LAW, bits), 0.0

    best, bits = BestOf(event=geometric(0.05)), SeededBits(82)
    seen = Counter((best.release(tied, bits=bits) or (9, 0.0))[0] for _ in range(3000))
    assert chi_square_p(seen, dict(enumerate(LAW))) > 1e-7


def scripted(*pairs: Any) -> Any:
    left = iter(pairs)

    def one(*, bits: RandomBits) -> Any:
        return next(left)

    return one


def exactly(runs: int) -> ScriptedBits:
    """Bits under which the geometric law of stop 1/2 draws this many runs."""
    return ScriptedBits([(1 << 64) - 3 * (1 << 63 - runs)])


HALF = BestOf(event=geometric(0.5))


@pytest.mark.parametrize("runs", [1, 2, 5, 30])
def test_there_are_as_many_runs_as_drawn(runs: int) -> None:
    calls = []

    def one(*, bits: RandomBits) -> tuple[int, int]:
        calls.append(bits)
        return len(calls), -len(calls)

    source = exactly(runs)
    assert HALF.release(one, bits=source) == (1, -1)
    assert calls == [source] * runs


@in_subtests(
    ("scores", "winner"),
    [
        ([1, 2, 2], 1),
        ([0.0, -0.0, 0], 0),
        ([math.nan, -math.inf, -1e308], 2),
        ([math.nan, -math.inf], 0),
        ([-math.inf, math.nan], 0),
        ([math.inf, 10**400], 0),
        ([10**400, Fraction(10**400 + 1)], 1),
        ([0.1, Fraction(1, 10)], 0),  # the float is the larger by 2^-57 or so
        ([Fraction(1, 10), 0.1], 1),
        ([np.float32(0.5), np.int64(3), np.float64(2.5)], 1),
    ],
)
def test_the_order_of_scores(scores: list[Any], winner: int) -> None:
    pairs = list(enumerate(scores))
    found = HALF.release(scripted(*pairs), bits=exactly(len(scores)))
    assert found is pairs[winner]


@pytest.mark.parametrize(
    "wrong", [None, 1.0, "ab", ("a",), ("a", 1, 2), ["a", 1], ("a", None), ("a", "7"), ("a", True)]
)
def test_what_is_no_pair_is_refused_without_showing_it(wrong: Any) -> None:
    with pytest.raises(InvalidParameter) as caught:
        HALF.release(scripted(wrong), bits=exactly(1))
    assert "7" not in str(caught.value)


def test_an_array_is_no_score() -> None:
    with pytest.raises(InvalidParameter, match="score='ndarray'"):
        HALF.release(scripted(("a", np.array(1.0))), bits=exactly(1))


def test_none_where_there_is_no_run() -> None:
    assert BestOf(event=POISSON).release(scripted(), bits=ScriptedBits([0])) is None


def test_what_a_run_raises_is_raised() -> None:
    def fails(*, bits: RandomBits) -> Any:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        HALF.release(fails, bits=exactly(1))


def test_any_mechanism_with_its_data_is_a_run() -> None:
    noisy = functools.partial(DiscreteLaplace(scale=1, l1_sensitivity=1).release, 5)

    def scored(*, bits: RandomBits) -> tuple[str, int]:
        return "five", noisy(bits=bits)

    found = HALF.release(scored, bits=SeededBits(83))
    assert found is not None
    assert found[0] == "five"


CAPPED = NegativeBinomialTries(event=ONE, shape=1, stop=0.5, most=6)


@pytest.mark.parametrize("pad", [False, True])
def test_padding_runs_on_and_changes_nothing(pad: bool) -> None:
    for word in (5, 1 << 63, 3 << 62, (1 << 64) - 9):
        calls: list[int] = []

        def one(*, bits: RandomBits, calls: list[int] = calls) -> tuple[int, int]:
            calls.append(len(calls) + 1)
            return calls[-1], calls[-1]  # later runs are the better ones

        found = BestOf(event=CAPPED, pad=pad).release(one, bits=ScriptedBits([word]))
        assert found is not None
        assert len(calls) == (6 if pad else found[0])
        assert found[0] == {5: 1, 1 << 63: 1, 3 << 62: 2}.get(word, 6)


@pytest.mark.long
@pytest.mark.statistical
def test_a_padded_release_has_the_law_of_the_best() -> None:
    best, bits = BestOf(event=CAPPED, pad=True), SeededBits(84)
    seen: Counter[Any] = Counter(best.release(run, bits=bits) for _ in range(5000))
    law = best_of([mpf(1) / 2, mpf(3) / 10, mpf(1) / 5], masses(CAPPED, 6))
    named: dict[Any, Any] = dict(zip([*zip("abc", SCORES, strict=True), None], law, strict=True))
    assert chi_square_p(seen, named) > 1e-7


@pytest.mark.parametrize(
    "wrong",
    [
        {"event": LOGARITHMIC, "pad": True},
        {"event": CAPPED, "pad": None},
        {"event": NegativeBinomialTries(event=ONE, shape=1, stop=0.5, most=2**21)},
    ],
    ids=str,
)
def test_wrong_caps_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        BestOf(**wrong)


@pytest.mark.parametrize("wrong", [ONE, None, 3, geometric])
def test_other_events_are_refused(wrong: Any) -> None:
    with pytest.raises(InvalidParameter, match="event"):
        BestOf(event=wrong)


@pytest.mark.slow
def test_the_mean() -> None:
    for event in (
        geometric(0.01),
        LOGARITHMIC,
        POISSON,
        NegativeBinomialTries(event=ONE, shape=-0.5, stop=0.1),
        NegativeBinomialTries(event=ONE, shape=2.5, stop=0.2),
    ):
        exact = mp.fsum(k * mass for k, mass in enumerate(masses(event, 4000)))
        assert BestOf(event=event).mean == pytest.approx(float(exact), rel=1e-9)
    assert BestOf(event=NegativeBinomialTries(event=ONE, shape=3, stop=1)).mean == 1


# What it costs: steep pairs of runs, enumerated.


def priced(event: Tries) -> float:
    return float(accounting.price(event, PureDP).epsilon)


@pytest.mark.long
@pytest.mark.parametrize("stop", mostly_slow([0.3, 0.01]))
def test_the_geometric_price_is_reached(stop: float) -> None:
    one, two = steep_pair(mpf(1), mpf(10) ** -9)
    tries = masses(geometric(stop), 4000)
    reached = float(largest_loss(best_of(one, tries), best_of(two, tries)))
    assert priced(geometric(stop)) * (1 - 1e-6) < reached <= priced(geometric(stop))


def test_three_epsilon_is_what_many_geometric_runs_cost() -> None:
    assert 2.99 < priced(geometric(1e-4)) < 3
    assert 1.99 < priced(NegativeBinomialTries(event=ONE, shape=0, stop=1e-4)) < 2


def test_a_known_number_of_runs_is_seen() -> None:
    tries = [mpf(0)] * 100 + [mpf(1)]
    one, two = steep_pair(mpf(1), mpf(10) ** -9)
    assert largest_loss(best_of(one, tries), best_of(two, tries)) > 99


def test_stopping_all_that_go_on_at_a_cap_is_seen() -> None:
    event = NegativeBinomialTries(event=ONE, shape=0, stop=1e-6)
    tries = masses(event, 30)
    tries[-1] += 1 - mp.fsum(tries)
    one, two = steep_pair(mpf(1), mpf(10) ** -9, top=mpf("0.1"))
    assert largest_loss(best_of(one, tries), best_of(two, tries)) > priced(event) + 0.5


def test_the_price_of_one_run_is_too_low() -> None:
    one, two = steep_pair(mpf(1), mpf(10) ** -9)
    tries = masses(LOGARITHMIC, 1500)
    assert largest_loss(best_of(one, tries), best_of(two, tries)) > 1.5


def test_a_true_score_beside_a_private_candidate_has_no_price() -> None:
    # Candidates are drawn alike, so choosing one costs nothing; their true counts are 3 and 4,
    # or 3 and 3: the second pair never shows a 4.
    tries = masses(geometric(0.1), 400)
    half = [mpf(1) / 2, mpf(1) / 2]
    with_her = dict(zip([3, 4], best_of(half, tries), strict=False))
    without = {3: mpf(1)}
    assert with_her[4] > 0.9
    assert 4 not in without


@pytest.mark.long
def test_the_price_of_a_noisy_base_is_that_of_its_event() -> None:
    for event in (Laplace(noise_multiplier=5), Gaussian(noise_multiplier=5)):
        tries = NegativeBinomialTries(event=event, shape=0, stop=0.02)
        assert BestOf(event=tries).event is tries
        alone = accounting.epsilon(event, delta=1e-6)
        assert alone < accounting.epsilon(BestOf(event=tries).event, delta=1e-6) < 3 * alone
