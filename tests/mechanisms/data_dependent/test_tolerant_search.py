"""The search that lives with wrong answers: its exact law, its price, its rank guarantee."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats
from tests.mechanisms.data_dependent.removal_laws import (
    Law,
    discrete_gaussian_at_most,
    discrete_laplace_at_most,
    excess,
    tolerant,
)
from tests.tiers import mostly_slow

from unacorda import accounting
from unacorda.bits import SeededBits
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.additive.integer import DiscreteGaussian, DiscreteLaplace
from unacorda.mechanisms.data_dependent.searches import NoisyBinarySearch, halves_of
from unacorda.mechanisms.data_dependent.shifted_inverse import ShiftedInverse
from unacorda.privacy import events

SLACK = 1e-9
LAPLACE = DiscreteLaplace(scale=Fraction(1, 2), l1_sensitivity=1)
GAUSSIAN = DiscreteGaussian(sigma=Fraction(3, 5), l2_sensitivity=1)
# Noise, its distribution, the largest noise worth a path, the rate 2 / (3 scale), h.
SMALL: list[Any] = [
    pytest.param(LAPLACE, discrete_laplace_at_most(0.5), 12, 4 / 3, 1, id="Laplace, 2 questions"),
    pytest.param(GAUSSIAN, discrete_gaussian_at_most(0.6), 4, 10 / 9, 2, id="Gaussian, 4"),
]


def made(**changed: Any) -> ShiftedInverse:
    given: dict[str, Any] = {"epsilon": 1, "grid": range(64), "solver": "tolerant search"}
    return ShiftedInverse(**(given | changed))


def falling(points: int, most: int) -> list[tuple[int, ...]]:
    every = itertools.product(range(most, -1, -1), repeat=points)
    return [losses for losses in every if list(losses) == sorted(losses, reverse=True)]


def binomial_at_most(trials: int, chance: float, false_alarm: float) -> int:
    return int(stats.binom.isf(false_alarm, trials, chance))


def of_two_points(moved: int, *, at_most: Callable[[int], float], reach: int, h: int) -> float:
    """P(the second of two points), where loss - target is `moved`: at least h + 1 sums above 0.

    Of two points the second is the median where the sum of the noisy answers is above 0.
    """
    pmf = np.array([at_most(k) - at_most(k - 1) for k in range(-reach, reach + 1)])
    far = 2 * h * (reach + abs(moved))
    law = np.zeros((2 * h + 2, 2 * far + 1))
    law[0, far] = 1.0
    for _ in range(2 * h):
        spread = np.array([np.convolve(row, pmf, mode="same") for row in law])
        spread = np.roll(spread, moved, axis=1)
        law = np.zeros_like(spread)
        law[:, : far + 1] = spread[:, : far + 1]
        law[1:, far + 1 :] = spread[:-1, far + 1 :]
    return float(law[h + 1 :].sum())


# ---- the price


@pytest.mark.long
@pytest.mark.parametrize(("noise", "at_most", "reach", "rate", "halves"), SMALL)
def test_neighbors_differ_by_no_more_than_the_event(
    noise: Any, at_most: Any, reach: int, rate: float, halves: int
) -> None:
    search = NoisyBinarySearch(noise=noise, points=3, halves=halves)
    assert search.event == noise.event * (2 * halves)
    curve = {e: accounting.delta(search.event, epsilon=e) for e in (0.0, 1.0, 2.0, 4.0)}
    # The loss of the last point is never asked.
    laws = {
        losses: tolerant(
            (*losses, 0), target=1, at_most=at_most, reach=reach, rate=rate, halves=halves
        )
        for losses in falling(2, 3)
    }
    widest = 0.0
    for one, two in itertools.permutations(laws, 2):
        if max(abs(a - b) for a, b in zip(one, two, strict=True)) > 1:
            continue
        for epsilon, delta in curve.items():
            assert excess(laws[one], laws[two], epsilon=epsilon) <= delta + SLACK
        widest = max(widest, excess(laws[one], laws[two], epsilon=1.0))
    assert widest > 0.2
    if noise is GAUSSIAN:
        # The price of one question would not be enough.
        assert widest > accounting.delta(noise.event, epsilon=1.0)


@pytest.mark.long
def test_the_number_of_questions_is_public_and_the_least_that_is_proved() -> None:
    for points, confidence in ((2, 0.5), (64, 0.95), (1024, 0.95), (65536, 0.999)):
        miss = (1 - Fraction(str(confidence))) / 2
        for gaussian, ratio in ((False, 2 / 3), (True, 9 / 10)):
            h = halves_of(points, miss=miss, gaussian=gaussian)
            assert h == math.ceil(math.log((points - 1) / miss) / -math.log(ratio) - 1e-9)
            noise = DiscreteGaussian(sigma=9, l2_sensitivity=1) if gaussian else None
            mechanism = made(
                grid=range(points),
                confidence=confidence,
                noise=noise,
                epsilon=None if gaussian else Fraction(1, 3),
            )
            each: Any = events.DiscreteLaplace(scale=6 * h, sensitivity=1)
            assert mechanism.event == (noise.event if noise is not None else each) * (2 * h)


# ---- the law of what is drawn


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize(
    ("noise", "at_most", "reach", "rate", "halves"), mostly_slow(SMALL, quick=2)
)
def test_draws_have_the_exact_law(
    noise: Any, at_most: Any, reach: int, rate: float, halves: int
) -> None:
    losses, count = [3, 1, 1, 0], 6_000
    search = NoisyBinarySearch(noise=noise, points=4, halves=halves)
    bits, array = SeededBits(78), np.array(losses)
    drawn = np.bincount(
        [search.choose(array, target=1, bits=bits) for _ in range(count)], minlength=4
    )

    def accepted(law: Law) -> float:
        # Two questions have three medians, two of which are never the first or the last point.
        found = [k for k in range(4) if law[k] > 0]
        assert drawn[found].sum() == count
        expected = np.array([law[k] for k in found]) * count
        squares = (drawn[found] - expected) ** 2 / expected
        return float(stats.chi2.sf(squares.sum(), len(found) - 1))

    said = {"at_most": at_most, "reach": reach, "halves": halves}
    assert accepted(tolerant(losses, target=1, rate=rate, **said)) > 1e-8
    assert accepted(tolerant(losses, target=2, rate=rate, **said)) < 1e-9


@pytest.mark.slow
@pytest.mark.statistical
def test_two_points_have_the_exact_law_at_full_length() -> None:
    # epsilon = 20 over 20 questions: scale 1. False alarm 1e-7 each.
    mechanism, bits = made(grid=range(2), epsilon=20, target=1), SeededBits(5)
    assert mechanism.event == events.DiscreteLaplace(scale=1, sensitivity=1) * 20
    count = 3_000
    got = sum(mechanism.release_losses([1, 0], bits=bits).index for _ in range(count))
    chance = of_two_points(0, at_most=discrete_laplace_at_most(1.0), reach=25, h=10)
    assert stats.binomtest(got, count, chance).pvalue > 1e-7
    assert stats.binomtest(got, count, chance + 0.1).pvalue < 1e-9


# ---- the rank guarantee


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.99])
def test_ranks_hold_exactly_on_two_points(confidence: float) -> None:
    h = halves_of(2, miss=(1 - Fraction(str(confidence))) / 2, gaussian=False)
    mechanism = made(grid=range(2), epsilon=2 * h, confidence=confidence)
    law: dict[str, Any] = {"at_most": discrete_laplace_at_most(1.0), "reach": 25, "h": h}
    miss = (1 - confidence) / 2
    low = of_two_points(-mechanism.target, **law)  # loss 0, and yet the point after it
    deep = mechanism.people + 1 - mechanism.target
    found = 1 - of_two_points(deep, **law)  # a loss above `people` was taken
    assert 0 < low <= miss
    assert found <= miss + SLACK
    assert of_two_points(0, **law) > miss  # without a margin there is no such promise
    search = NoisyBinarySearch(noise=DiscreteLaplace(scale=1, l1_sensitivity=1), points=2, halves=h)
    for target in range(5):
        assert of_two_points(-target, **law) <= search.overshoot(target)


@pytest.mark.long
@pytest.mark.parametrize(
    ("noise", "at_most", "reach", "rate", "halves"), mostly_slow(SMALL, quick=2)
)
def test_the_bound_holds_exactly_for_all_losses_of_three_points(
    noise: Any, at_most: Any, reach: int, rate: float, halves: int
) -> None:
    search = NoisyBinarySearch(noise=noise, points=3, halves=max(halves, 2))
    target, told = 2, []
    bound = search.overshoot(target)
    reach = min(reach, 7)  # what is cut off weighs 1e-6 at most
    for losses in falling(2, 4):
        law = tolerant(
            (*losses, 0),
            target=target,
            at_most=at_most,
            reach=reach,
            rate=rate,
            halves=search.halves,
        )
        above = sum(law[k] for k in (1, 2) if losses[k - 1] == 0)
        below = sum(law[k] for k in (0, 1) if losses[k] >= 2 * target)
        assert above <= bound + SLACK
        assert below <= bound + SLACK
        told.append(above + below)
    assert bound < 0.95
    assert max(told) > 1e-6


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("gaussian", [False, True])
@pytest.mark.parametrize("near", mostly_slow([-1, 0, 1]))
def test_ranks_hold_whatever_the_losses_near_the_target_are(gaussian: bool, near: int) -> None:
    # Many points at about the target, where answers are coins: any of them is a right answer.
    noise = DiscreteGaussian(sigma=20, l2_sensitivity=1) if gaussian else None
    given = {"noise": noise, "epsilon": None if gaussian else 1, "confidence": 0.5}
    mechanism = made(**given)
    count, bits = 300, SeededBits(31)
    middle = [max(mechanism.target + near * mechanism.target // 2, 1)] * 16
    losses = [mechanism.people + 1] * 20 + middle + [0] * 28
    answers = [mechanism.release_losses(losses, bits=bits).index for _ in range(count)]
    most = binomial_at_most(count, 0.25, 1e-7)  # false alarm 1e-7 at the bound itself
    assert sum(index > 36 for index in answers) <= most
    assert sum(index < 20 for index in answers) <= most
    if near == 0:
        # A target of 0 promises nothing, and answers above f show it.
        bare = made(**given, target=0)
        told = [bare.release_losses(losses, bits=bits) for _ in range(count)]
        assert told[0].confidence == 0
        assert sum(released.index > 36 for released in told) > most


@pytest.mark.long
def test_people_that_are_promised_against_the_ascending_search() -> None:
    # At 1/10-zCDP and 95 %: fewer on large grids; at epsilon = 1 more.
    for points, fewest, others in ((2**10, 43, 45), (2**16, 51, 60)):
        asked = 2 * halves_of(points, miss=Fraction(1, 40), gaussian=True)
        noise = DiscreteGaussian(sigma=math.sqrt(5 * asked), l2_sensitivity=1)
        assert made(grid=range(points), epsilon=None, noise=noise).people == fewest
        other = made(
            solver="ascending", grid=range(points), epsilon=math.sqrt(0.8), bounded_range=True
        )
        assert accounting.rho(other.event) <= 0.1 * (1 + 1e-9)
        assert other.people == others
    at_one = {
        solver: made(solver=solver, grid=range(1024)).people
        for solver in ("ascending", "tolerant search")
    }
    assert at_one == {"ascending": 26, "tolerant search": 265}


# ---- extremes, and what is refused


def test_hardly_any_noise_finds_the_target() -> None:
    for epsilon in (10**6, 1e300):
        mechanism = made(epsilon=epsilon, target=3)
        assert mechanism.people == 3
        losses = list(range(63, -1, -1))
        assert mechanism.release_losses(losses, bits=SeededBits(1)).index in (60, 61)


def test_extreme_losses_are_found() -> None:
    for losses, index in (([0] * 64, 0), ([2**62] * 64, 63), ([2**62] * 9 + [0] * 55, 9)):
        for seed in range(10):
            assert made().release_losses(losses, bits=SeededBits(seed)).index == index


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("epsilon", {"epsilon": None}),
        ("epsilon", {"epsilon": 1e-12}),
        ("epsilon", {"noise": LAPLACE}),
        ("noise", {"noise": DiscreteLaplace(scale=1, l1_sensitivity=2), "epsilon": None}),
        ("noise", {"noise": LAPLACE, "epsilon": None, "solver": "ascending"}),
        ("bounded_range", {"bounded_range": True}),
        ("confidence", {"confidence": 1}),
        ("grid", {"grid": [1]}),
    ],
)
def test_bad_parameters_of_the_tolerant_search_are_named(
    name: str, changed: dict[str, Any]
) -> None:
    with pytest.raises(InvalidParameter, match=name):
        made(**changed)
