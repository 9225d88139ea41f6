"""How far below the best a choice lies: exact laws at the worst scores, and at others."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from tests.mechanisms.selection_laws import order_law
from tests.mechanisms.test_tree_selection import law as tree_law
from tests.support.cases import in_subtests
from tests.tiers import mostly_slow

from unacorda.bits import SeededBits
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.selection.exponential import Exponential, PiecewiseConstantExponential
from unacorda.mechanisms.selection.noisy_max import PermuteAndFlip, TopK
from unacorda.mechanisms.selection.stable import StableSelection
from unacorda.mechanisms.selection.tree import TreeSelection

GIVEN: dict[str, Any] = {"epsilon": 1, "sensitivity": 2}  # a scale of 4
NOISES: tuple[Any, ...] = ("gumbel", "exponential")
CONFIDENCES = (0.2, 0.5, 0.9, 0.99)


def missed(scores: Sequence[float], noise: str, bound: float, *, count: int = 1) -> float:
    """The probability that one of those told lies more than `bound` below the count-th largest."""
    level = sorted(scores)[-count]
    found = order_law([score / 4 for score in scores], noise, count)
    return math.fsum(
        mass for told, mass in found.items() if min(scores[i] for i in told) < level - bound
    )


# ---- noisy maxima


@in_subtests("noise", NOISES)
@in_subtests("candidates", [2, 3, 7])
@in_subtests("confidence", CONFIDENCES)
def test_the_worst_scores_reach_the_bound_of_one_choice(
    noise: Any, candidates: int, confidence: float
) -> None:
    bound = TopK(count=1, noise=noise, **GIVEN).error_bound(confidence, candidates=candidates)

    def at(distance: float) -> float:
        return missed([0.0] + [-distance] * (candidates - 1), noise, distance * (1 - 1e-9))

    assert at(max(bound, 1e-3) * (1 + 1e-6)) <= 1 - confidence + 1e-12
    if bound > 0:
        assert at(bound * 0.999) > 1 - confidence  # no less will do


@in_subtests("noise", ["gumbel", "exponential"])
@in_subtests("others", [1, 3])
@in_subtests("confidence", CONFIDENCES)
def test_the_worst_scores_nearly_reach_the_bound_of_two(
    noise: Any, others: int, confidence: float
) -> None:
    top = TopK(count=2, epsilon=2, sensitivity=2, noise=noise)
    bound = top.error_bound(confidence, candidates=2 + others)

    def at(distance: float) -> float:
        return missed([0.0, 0.0] + [-distance] * others, noise, distance * (1 - 1e-9), count=2)

    reached = at(max(bound, 1e-3) * (1 + 1e-6))
    assert reached <= 1 - confidence + 1e-12
    assert reached > 0.94 * (1 - confidence) or confidence < 0.9
    assert bound == 0 or reached > 0.7 * (1 - confidence)


@pytest.mark.long
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("seed", [0, *(pytest.param(k, marks=pytest.mark.slow) for k in (1, 2))])
def test_no_scores_are_worse(noise: Any, seed: int) -> None:
    generator = np.random.default_rng(seed)
    one = TopK(count=1, noise=noise, **GIVEN)
    two = TopK(count=2, epsilon=2, sensitivity=2, noise="gumbel" if seed else "exponential")
    for _ in range(5):
        size = int(generator.integers(3, 6))
        scores = (-generator.exponential(generator.choice([1, 5, 20]), size)).round(2).tolist()
        for confidence in CONFIDENCES:
            bound = one.error_bound(confidence, candidates=size)
            assert missed(scores, noise, bound) <= 1 - confidence
            bound = two.error_bound(confidence, candidates=size)
            assert missed(scores, two.noise, bound, count=2) <= 1 - confidence


@pytest.mark.long
def test_bounds_of_one_law_are_one_number() -> None:
    for confidence in (0.3, 0.95, 1 - 1e-12, Fraction(10**50 - 1, 10**50)):
        for candidates in (1, 2, 10, 10**6, 10**12):
            asked: dict[str, Any] = {"confidence": confidence, "candidates": candidates}
            ours = Exponential(**GIVEN).error_bound(**asked)
            by_noise = {
                noise: TopK(count=1, noise=noise, **GIVEN).error_bound(**asked) for noise in NOISES
            }
            flipped = PermuteAndFlip(**GIVEN).error_bound(**asked)
            assert ours == pytest.approx(by_noise["gumbel"], rel=1e-14)
            assert flipped == by_noise["exponential"]
            assert flipped <= ours
            sure = Fraction(str(confidence))
            expected = 4 * math.log((candidates - 1) * sure / (1 - sure) or 1)
            assert ours == pytest.approx(max(expected, 0.0), rel=1e-12)
    half = Exponential(monotone=True, **GIVEN).error_bound(0.9, candidates=50)
    assert half * 2 == Exponential(**GIVEN).error_bound(0.9, candidates=50)


def test_weights_count_for_the_worst_case() -> None:
    chooser, weights = Exponential(**GIVEN), np.array([Fraction(1, 3), 0, 2, 5])
    bound = chooser.error_bound(0.8, candidates=4, weights=weights)
    # The lightest candidate may be the best one.
    assert bound == pytest.approx(4 * math.log(7 * 3 * 0.8 / 0.2))
    for distance, few in ((bound * (1 + 1e-9), True), (bound * (1 - 1e-9), False)):
        chances = np.exp(
            chooser.log_probabilities([0.0, 99, -distance, -distance], weights=weights)
        )
        assert bool(chances[2:].sum() <= 0.2) is few
    assert chooser.error_bound(0.8, candidates=2, weights=[0, 3]) == 0


def test_points_of_the_best_stretch_count() -> None:
    given: dict[str, Any] = {"epsilon": 2, "sensitivity": 1, "lower": 0, "upper": 10}
    coarse = PiecewiseConstantExponential(grid_log2=-2, **given)  # 41 points, a scale of 1
    for width, best in ((0, 1), (0.2, 1), (1, 4), (1.1, 4), (10, 40)):
        bound = coarse.error_bound(0.9, width=width)
        odds = (41 - best) / best
        assert bound == pytest.approx(max(math.log(odds * 0.9 / 0.1), 0))
    # Every half-open stretch of length 1.1 holds at least four points.
    for low in np.arange(0, 8, 0.05):
        edges = [low, low + 1.1]
        _, counts = coarse._pieces(edges, 3)
        assert counts[1] >= 4
    wrong: list[Any] = [-1, 11, math.nan, None]
    for other in wrong:
        with pytest.raises(InvalidParameter, match="width"):
            coarse.error_bound(0.9, width=other)


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("kind", mostly_slow([Exponential, PermuteAndFlip]))
def test_a_thousand_candidates_fail_as_often_as_the_bound_says(kind: Any) -> None:
    mechanism, bits, draws = kind(**GIVEN), SeededBits(121), 3000
    bound = mechanism.error_bound(0.8, candidates=1000)
    for distance, rate in ((bound, 0.2), (bound - 4, 0.2)):
        scores = np.full(1000, -distance)
        scores[17] = 0
        failed = sum(mechanism.release(scores, bits=bits) != 17 for _ in range(draws))
        p = stats.binomtest(failed, draws, rate).pvalue
        assert p > 1e-7 if distance == bound else p < 1e-12


# ---- the tree


def worst_tree(levels: int, bound: float, sigma: float) -> list[float]:
    """Scores of 2^levels leaves that cost more than `bound` nearly as often as any can.

    Found by trying wrong turns of many costs, from the leaves upwards, for what may still be lost.
    """
    spread, costs = 2 * sigma, np.linspace(0, 1, 17)[1:]

    def best(levels: int, left: float) -> tuple[float, list[float]]:
        if left < 0:
            return 1.0, [0.0] * 2**levels
        if levels == 0:
            return 0.0, [0.0]
        straight, leaves = best(levels - 1, left)
        found = (straight, leaves + leaves)
        for cost in (costs * (left + 1e-6)).tolist():
            turned, others = best(levels - 1, left - cost)
            chance = straight + float(stats.norm.sf(cost / spread)) * (turned - straight)
            if chance > found[0]:
                found = (chance, leaves + [score - cost for score in others])
        return found

    return best(levels, bound)[1]


def tree_missed(scores: Sequence[float], sigma: float, branching: int, bound: float) -> float:
    chances = tree_law(list(scores), sigma, branching)
    lost: NDArray[np.bool_] = np.array(scores) < max(scores) - bound
    return float(chances[lost].sum())


@pytest.mark.long
@pytest.mark.parametrize("confidence", mostly_slow([0.5, 0.9, 0.99]))
@pytest.mark.parametrize("levels", [1, 2, 3])
def test_the_worst_tree_nearly_reaches_the_bound(levels: int, confidence: float) -> None:
    walk = TreeSelection(noise_multiplier=2, sensitivity=3)
    size = 2**levels
    bound, sigma = walk.error_bound(confidence, candidates=size), walk.sigma(size)
    if bound > 1e-3:
        assert tree_missed(worst_tree(levels, bound, sigma), sigma, 2, bound) <= 1 - confidence
        less = bound * 0.96
        assert tree_missed(worst_tree(levels, less, sigma), sigma, 2, less) > 1 - confidence
        # The noise of one level less: the bound would be too small.
        small = TreeSelection(noise_multiplier=2, sensitivity=2.4)
        low = small.error_bound(confidence, candidates=size)
        assert tree_missed(worst_tree(levels, low, sigma), sigma, 2, low) > 1 - confidence


@pytest.mark.parametrize(("branching", "size"), [(2, 5), (2, 8), (4, 3), (4, 4), (4, 13), (8, 8)])
def test_no_tree_is_worse(branching: int, size: int) -> None:
    walk = TreeSelection(noise_multiplier=1, sensitivity=1, branching=branching, monotone=True)
    generator, sigma = np.random.default_rng(size), walk.sigma(size)
    nearest = 0.0
    for confidence in (0.6, 0.95):
        bound = walk.error_bound(confidence, candidates=size)
        ladder = [-k.bit_count() * bound / 2 * (1 + 1e-9) for k in range(size)]
        flat = [0.0] + [-bound * (1 + 1e-9)] * (size - 1)
        tried = [ladder, flat]
        for _ in range(6):
            spread = generator.choice([0.5, 1, 2]) * bound
            tried.append((-generator.exponential(spread, size)).tolist())
        for scores in tried:
            chance = tree_missed(scores, sigma, branching, bound)
            assert chance <= 1 - confidence + 1e-12
            nearest = max(nearest, chance / (1 - confidence))
    assert nearest > (0.4 if branching == 2 else 0.1)


@pytest.mark.slow
def test_walks_of_any_size() -> None:
    walk = TreeSelection(noise_multiplier=1, sensitivity=1)
    assert walk.error_bound(0.9, candidates=1) == 0
    sizes = [walk.error_bound(0.9, candidates=n) for n in (2, 3, 5, 9, 1000, 10**6)]
    assert sizes == sorted(sizes)
    assert sizes[0] == pytest.approx(2 * stats.norm.ppf(0.9), rel=2e-3)
    rising = [walk.error_bound(c, candidates=64) for c in (0.3, 0.6, 0.9, 0.999, 1 - 1e-9)]
    assert rising == sorted(rising)
    # Worse than the exponential mechanism at the same rho, as the open problem has it.
    fair = Exponential(epsilon=2, sensitivity=1)
    assert sizes[-1] > 2 * fair.error_bound(0.9, candidates=10**6)
    far = Fraction(10**199 - 1, 10**199)
    assert math.isfinite(walk.error_bound(far, candidates=2**40))
    with pytest.raises(InvalidParameter, match="confidence"):
        walk.error_bound(Fraction(10**300 - 1, 10**300), candidates=4)
    with pytest.raises(InvalidParameter, match="candidates"):
        walk.error_bound(0.9, candidates=2**63)


# ---- the lead


@in_subtests("monotone", [False, True])
@in_subtests("confidence", [1e-4, 0.01, 0.5, 0.95, 1 - 1e-9])
def test_a_leader_ahead_of_the_bound_is_told(confidence: float, monotone: bool) -> None:
    leader = StableSelection(epsilon=0.5, delta=1e-4, sensitivity=0.3, monotone=monotone)
    bound = leader.lead_bound(confidence)
    assert leader.probability(bound + 1e-9) >= Fraction(str(confidence))
    if bound > 0:
        assert leader.probability(bound - 1e-9) < Fraction(str(confidence))


# ---- what is refused


EVERY: dict[str, Any] = {
    "exponential": Exponential(**GIVEN),
    "flip": PermuteAndFlip(**GIVEN),
    "top": TopK(count=2, **GIVEN),
    "top exponential": TopK(count=2, noise="exponential", **GIVEN),
    "tree": TreeSelection(noise_multiplier=1, sensitivity=1),
}


@pytest.mark.parametrize("name", EVERY)
def test_other_questions_are_refused(name: str) -> None:
    for confidence in (0, 1, -0.1, 1.5, math.nan, None, "x"):
        with pytest.raises(InvalidParameter, match="confidence"):
            EVERY[name].error_bound(confidence, candidates=5)
    for candidates in (0, -1, 2.5, None, True):
        with pytest.raises(InvalidParameter, match="candidates"):
            EVERY[name].error_bound(0.9, candidates=candidates)
    if "top" in name:
        with pytest.raises(InvalidParameter, match="candidates"):
            EVERY[name].error_bound(0.9, candidates=1)
    with pytest.raises(InvalidParameter, match="confidence"):
        StableSelection(epsilon=1, delta=0.1, sensitivity=1).lead_bound(1)
    with pytest.raises(InvalidParameter, match="weights"):
        Exponential(**GIVEN).error_bound(0.9, candidates=2, weights=[1])
