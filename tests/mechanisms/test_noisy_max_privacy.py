"""Noisy maxima: claimed prices against the exact laws, and planted faults the same checks catch."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf
from tests.mechanisms.selection_laws import gap_density, losses, moves, order_law
from tests.tiers import mostly_slow

from unacorda import accounting, checks
from unacorda.mechanisms.selection.exponential import Exponential
from unacorda.mechanisms.selection.noisy_max import PermuteAndFlip, TopK
from unacorda.privacy import events

SLACK = 1e-9
BASES: list[tuple[float, ...]] = [
    (0, 0),
    (0, -2),
    (0, -9),
    (0, 0, 0),
    (0, -1, -3.5),
    (0, 0, -25),
    (0, -25, -26),
    (0, 0, 0, 0),
    (0, -1, -1, -20),
]


def scaled(scores: Sequence[float], scale: Any) -> list[float]:
    return [float(score) / float(scale) for score in scores]


def loss_ends(
    scale: Any, noise: str, *, monotone: bool, count: int = 1, bases: Any = BASES
) -> tuple[float, float]:
    """The largest loss and the largest range of losses of one pair, at sensitivity 1."""
    worst, widest = 0.0, 0.0
    for base in bases:
        if len(base) <= count:
            continue
        here = order_law(scaled(base, scale), noise, count)
        assert math.fsum(here.values()) == pytest.approx(1, abs=1e-12)
        for move in moves(len(base), monotone=monotone):
            moved = [a + b for a, b in zip(base, move, strict=True)]
            found = losses(here, order_law(scaled(moved, scale), noise, count))
            worst = max(worst, float(np.abs(found).max()))
            widest = max(widest, float(np.ptp(found)))
    return worst, widest


# ---- the guarantees, exactly


@pytest.mark.long
@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize("noise", mostly_slow(["gumbel", "exponential"]))
@pytest.mark.parametrize("epsilon", [0.5, 2])
def test_a_noisy_maximum_loses_epsilon_and_no_less(
    epsilon: float, noise: Any, monotone: bool
) -> None:
    mechanism = TopK(epsilon=epsilon, sensitivity=1, count=1, noise=noise, monotone=monotone)
    worst, widest = loss_ends(mechanism.scale, noise, monotone=monotone)
    assert worst <= epsilon + SLACK
    assert worst > 0.98 * epsilon  # candidates far behind reach it
    if noise == "gumbel":
        assert mechanism.event == events.Exponential(epsilon=checks.exact("epsilon", epsilon)) * 1
        assert widest <= epsilon + SLACK
    else:
        assert mechanism.event == events.Pure(epsilon=epsilon)
        assert widest > 1.05 * epsilon  # so the price of bounded range is not theirs


def test_how_far_permute_and_flip_is_from_bounded_range() -> None:
    for epsilon in (0.1, 1.0, 4.0):
        law = order_law([0.0, 0.0], "exponential"), order_law([0.0, -epsilon], "exponential")
        assert np.ptp(losses(*law)) == pytest.approx(epsilon + math.log(2 - math.exp(-epsilon)))


@pytest.mark.slow
@pytest.mark.parametrize("monotone", [pytest.param(False, marks=pytest.mark.slow), True])
@pytest.mark.parametrize("noise", mostly_slow(["gumbel", "exponential"]))
def test_the_order_of_two_costs_what_its_event_says(noise: Any, monotone: bool) -> None:
    mechanism = TopK(epsilon=2, sensitivity=1, count=2, noise=noise, monotone=monotone)
    bases = [(0, 0, 0), (0, -3, -40), (0, -30, -31), (0, -1, -1, -2)]
    worst, _ = loss_ends(mechanism.scale, noise, monotone=monotone, count=2, bases=bases)
    assert worst <= 2 + SLACK
    assert worst > 1.95
    if noise == "exponential":
        assert mechanism.event == events.Pure(epsilon=2)
    else:  # two events of bounded range, 1 each: less than 2 in every weaker sense
        assert mechanism.event == events.Exponential(epsilon=1) * 2
        nearest = 0.0
        for epsilon in (0.0, 0.7, 1.4):
            claimed = accounting.delta(mechanism.event, epsilon=epsilon)
            assert claimed < 0.75 * accounting.delta(events.Pure(epsilon=2), epsilon=epsilon)
            for base, move in ((b, m) for b in bases for m in moves(len(b), monotone=monotone)):
                moved = [a + b for a, b in zip(base, move, strict=True)]
                here = order_law(scaled(base, mechanism.scale), noise, 2)
                there = order_law(scaled(moved, mechanism.scale), noise, 2)
                stick = sum(max(here[k] - math.exp(epsilon) * there[k], 0) for k in here)
                assert stick <= claimed + SLACK
                nearest = max(nearest, stick / claimed)
        assert nearest > 0.6


@pytest.mark.long
@pytest.mark.parametrize("monotone", mostly_slow([False, True]))
def test_gaps_cost_nothing_more(monotone: bool) -> None:
    # Exponential noise: the theorem of docs/proofs/noisy_max.md, section 3, for k = 1 and 2.
    worst = {1: 0.0, 2: 0.0}
    bases = [(0, 0, 0), (0.5, -2, 1), (3, 2.5, 0, 0), (0, 4, 4, 4)]
    one, two = (
        TopK(epsilon=1, sensitivity=1, count=count, noise="exponential", monotone=monotone)
        for count in (1, 2)
    )
    for base, move in ((b, m) for b in bases for m in moves(len(b), monotone=monotone)):
        moved = [a + b for a, b in zip(base, move, strict=True)]
        for mechanism, gaps in (
            (one, (0.3,)),
            (one, (4.0,)),
            (two, (0.01, 1.0)),
            (two, (2.0, 7.0)),
        ):
            assert mechanism.event == events.Pure(epsilon=1)
            scale = mechanism.scale
            told, wait = range(len(gaps)), scaled(gaps, scale)
            here = gap_density(scaled(base, scale), "exponential", told, wait)
            there = gap_density(scaled(moved, scale), "exponential", told, wait)
            worst[len(gaps)] = max(worst[len(gaps)], abs(math.log(here / there)))
    assert max(worst.values()) <= 1 + SLACK
    assert min(worst.values()) > 1 - 1e-6  # and the price is tight


@pytest.mark.parametrize("seed", range(4))
def test_gaps_cost_nothing_more_wherever_one_looks(seed: int) -> None:
    generator = np.random.default_rng(seed)
    for _ in range(60):
        size = int(generator.integers(2, 7))
        count = int(generator.integers(1, min(size, 4)))
        step = float(generator.choice([0.1, 0.5, 2.0]))
        base = (generator.random(size) * generator.choice([0, 1, 6])).tolist()
        move = generator.choice([-step, step], size)
        gaps = generator.choice([0.01, 0.3, 1, 3], count).tolist()
        here = gap_density(base, "exponential", range(count), gaps)
        there = gap_density((base + move).tolist(), "exponential", range(count), gaps)
        assert abs(math.log(here / there)) <= 2 * count * step + SLACK


# ---- laws that are equal


def test_gumbel_noise_is_the_exponential_mechanism_and_its_peeling() -> None:
    scores = [0.0, 1.0, -2.0, 0.5]
    for count in (1, 2):
        law = order_law(scores, "gumbel", count)
        for told, mass in law.items():
            peeled, left = 1.0, dict(enumerate(scores))
            for index in told:
                peeled *= math.exp(left[index]) / math.fsum(math.exp(s) for s in left.values())
                del left[index]
            assert mass == pytest.approx(peeled, rel=1e-12)


def test_exponential_noise_is_permute_and_flip() -> None:
    for scores in ([0.0, 0.0], [0.0, -1.0, -0.3], [0.0, -2.0, -2.0, -0.1]):
        law = order_law(scores, "exponential")
        for index, mass in enumerate(permute_and_flip(scores)):
            assert law[(index,)] == pytest.approx(float(mass), rel=1e-12)


def permute_and_flip(scores: Sequence[float]) -> list[mpf]:
    """By the definition: all orders, in each the first whose coin falls."""
    coins = [mp.exp(mpf(score) - max(scores)) for score in scores]
    found = [mpf(0)] * len(scores)
    for order in itertools.permutations(range(len(scores))):
        missed = mpf(1)
        for index in order:
            found[index] += missed * coins[index] / math.factorial(len(scores))
            missed *= 1 - coins[index]
    return found


@pytest.mark.long
def test_permute_and_flip_is_never_worse_than_the_exponential_mechanism() -> None:
    better = 0
    generator = np.random.default_rng(4)
    for _ in range(300):
        size = int(generator.integers(2, 6))
        scores = (-generator.exponential(generator.choice([0.3, 2, 8]), size)).tolist()
        best = max(scores)
        weights = [math.exp(score - best) for score in scores]
        ours = math.fsum(
            float(mass) * (best - score)
            for mass, score in zip(permute_and_flip(scores), scores, strict=True)
        )
        theirs = math.fsum(
            weight / math.fsum(weights) * (best - score)
            for weight, score in zip(weights, scores, strict=True)
        )
        assert ours <= theirs * (1 + 1e-12)
        better += ours < 0.9 * theirs
    assert better > 100
    # At most by a factor of 2: two candidates, the second far behind.
    assert float(permute_and_flip([0, -20])[1]) == pytest.approx(math.exp(-20) / 2)


def test_the_scales_are_those_of_the_theorems() -> None:
    for monotone, moved in ((False, 2), (True, 1)):
        given: Any = {"epsilon": 0.5, "sensitivity": 3, "monotone": monotone}
        assert 1 / Exponential(**given).factor == 6 * moved
        for noise in ("gumbel", "exponential"):
            assert TopK(count=4, noise=noise, **given).scale == 24 * moved
        assert PermuteAndFlip(**given).scale == 6 * moved
        assert PermuteAndFlip(**given).event == events.Pure(epsilon=0.5)


# ---- the checks catch what is wrong


@pytest.mark.long
@pytest.mark.parametrize("noise", mostly_slow(["exponential", "gumbel"]))
def test_half_the_scale_loses_twice_epsilon_on_general_scores(noise: str) -> None:
    half = 1.0  # for epsilon = 1: enough where scores are monotone, and only there
    assert loss_ends(half, noise, monotone=True)[0] <= 1 + SLACK
    worst, _ = loss_ends(half, noise, monotone=False)
    assert 1.99 < worst <= 2 + SLACK


@pytest.mark.parametrize("noise", ["gumbel", "exponential"])
def test_the_second_of_two_is_not_free(noise: str) -> None:
    # Top-2 with the noise of one choice.
    mechanism = TopK(epsilon=1, sensitivity=1, count=1)
    bases = [(0, -30, -31), (0, 0, -40)]
    worst, _ = loss_ends(mechanism.scale, noise, monotone=False, count=2, bases=bases)
    assert worst > 1.9


def test_ties_may_not_be_broken_by_the_data() -> None:
    # Integer scores and geometric noise of scale 2: the right one for epsilon = 1 with ties to the
    # lower index; with ties to the larger score the loss is 3/2.
    ratio = math.exp(-0.5)
    reach = range(120)

    def first_wins(scores: tuple[int, int], *, tie_to_first: bool) -> float:
        return math.fsum(
            (1 - ratio) ** 2 * ratio ** (x + y)
            for x in reach
            for y in reach
            if scores[0] + x > scores[1] + y or (tie_to_first and scores[0] + x == scores[1] + y)
        )

    here = first_wins((0, 0), tie_to_first=True)
    assert math.log(here / first_wins((-1, 1), tie_to_first=True)) == pytest.approx(1)
    assert math.log(here / first_wins((-1, 1), tie_to_first=False)) == pytest.approx(1.5)
    # With continuous noise there is no tie to break.
    law = order_law([0.0, 0.0], "exponential")
    assert law[(0,)] == pytest.approx(law[(1,)], rel=1e-13)
