"""Sums sorted by their numbers of jumps, against exact references of other kinds."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
import time
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from tests.accounting.test_capped_sums import Pair, relative_width, steps
from tests.support.cases import in_subtests
from tests.tiers import mostly_slow

from unacorda.accounting.contour import engine as contour
from unacorda.accounting.pld import capped
from unacorda.accounting.pld.capped_jumps import JumpCases, jump_cases, likely_by_one
from unacorda.accounting.pld.capped_laws import piece_above, piece_below
from unacorda.accounting.pld.capped_masses import Grid
from unacorda.accounting.pld.capped_plans import Planner
from unacorda.accounting.pld.sampled_cells import SampledGaussian

mp.mp.dps = 30


def cases_of(rate: float, noise: float, count: int, epsilon: float, delta: float) -> JumpCases:
    """The bounds near an epsilon, of float parameters that both sides mean exactly."""
    step = SampledGaussian(rate, 1 / noise)
    goal = math.log(delta)
    plan = Planner([(step, count)], remove=True, far=40.0 - goal).best(goal, near=epsilon)
    assert plan is not None
    cases = jump_cases({1: step, -1: step}, count, plan, near=epsilon, goal=goal)
    assert cases is not None
    return cases


@in_subtests(
    ("low", "high"), [(-math.inf, 1.3), (1.3, 4.2), (4.2, 9.0), (-math.inf, -39.0), (2.0, 2.001)]
)
@in_subtests(("rate", "noise", "h"), [(0.01, 0.4, 1e-3), (1e-5, 0.8, 1e-6)])
def test_pieces_of_a_step_hold_their_profiles(
    rate: float, noise: float, h: float, low: float, high: float
) -> None:
    exact = Pair(rate, noise)
    step = SampledGaussian(rate, 1 / noise)
    exact.q, exact.mu = mp.mpf(step.rate), mp.mpf(step.mean)
    grid = Grid(step=h, tilt=2.0, remove=True, most=1 << 17)
    above = piece_above(step, grid, low=low, high=high)
    below = piece_below(step, grid, low=low, high=high)
    if step.offset_at(high) > (1 << 17) * h:
        return
    assert above is not None
    assert below is not None
    for epsilon in (-0.1, 0.0, 1e-6, 3e-4, 0.004, 0.5, 2.0):
        at = mp.mpf(epsilon)
        start = min(max(exact.place(at), mp.mpf(low)), mp.mpf(high))
        own = (1 - exact.q) * between(start, high, 0) + exact.q * between(start, high, exact.mu)
        truth = own - mp.exp(at) * between(start, high, 0)
        ends = []
        for law, origin, side in ((above, 0.0, 1), (below[0], below[1], -1)):
            nodes = (law.first + np.arange(len(law.values))) * h
            masses = law.values * np.exp(law.height - grid.tilt * nodes)
            losses = nodes + origin + step.base + side * law.drift
            ends.append(float(np.sum(masses * np.maximum(-np.expm1(epsilon - losses), 0.0))))
        slack = 1e-11 * float(own) + 1e-300
        assert ends[1] - slack <= float(truth) <= ends[0] + slack
        assert ends[0] - ends[1] <= (0.05 * float(truth) + 3 * h * float(own)) + slack


def between(low: mp.mpf, high: float, mean: mp.mpf) -> mp.mpf:
    if low < mean:
        return mp.ncdf(high - mean) - mp.ncdf(low - mean)
    return mp.ncdf(mean - low) - mp.ncdf(mean - high)


@pytest.mark.long
@pytest.mark.parametrize(
    ("rate", "noise", "epsilon", "reach"),
    mostly_slow(
        [
            (1e-5, 0.7, 6.0, 16),
            (2e-6, 0.5, 14.0, 20),
            pytest.param(1e-3, 0.9, 9.0, 24, marks=pytest.mark.slow),
            pytest.param(1e-7, 1.5, 0.002, 24, marks=pytest.mark.slow),
            pytest.param(1e-4, 0.4, 70.0, 35, marks=pytest.mark.slow),
        ],
        quick=2,
    ),
)
def test_two_steps_far_out_against_an_integral(
    rate: float, noise: float, epsilon: float, reach: int
) -> None:
    truth = Pair(rate, noise).two(epsilon, reach)
    found = capped.delta_interval(steps(rate, noise, 2), epsilon=epsilon)
    assert found.lower <= truth * (1 + mp.mpf(10) ** -14)
    assert found.upper >= truth * (1 - mp.mpf(10) ** -14)
    assert relative_width(found) < 2e-4
    back = capped.epsilon_interval(steps(rate, noise, 2), delta=float(truth))
    assert back.lower <= epsilon * (1 + 1e-11)
    assert back.upper >= epsilon * (1 - 1e-11)
    assert relative_width(back) < 2e-5


@pytest.mark.long
@pytest.mark.parametrize(
    ("rate", "noise", "count", "delta"),
    [
        (1.468e-8, 0.8967, 5762, 3.175e-112),
        pytest.param(2.833e-8, 0.8832, 318_483_808, 4.753e-169, marks=pytest.mark.slow),
    ],
)
def test_numbers_of_jumps_against_contours(
    rate: float, noise: float, count: int, delta: float
) -> None:
    known = contour.epsilon_interval(steps(rate, noise, count), delta=delta, directions="remove")
    assert relative_width(known) < 1e-5
    cases = cases_of(rate, noise, count, known.upper, delta)
    cases.refine(2e-5, times_tilt=True)
    assert cases.above(known.lower) >= delta * (1 - 1e-6)
    assert cases.below(known.upper) <= delta * (1 + 1e-6)
    assert cases.above(known.upper * 1.001) < delta
    assert cases.below(known.lower * 0.999) > delta


@pytest.mark.long
@pytest.mark.parametrize(
    ("rate", "noise", "count", "delta"),
    mostly_slow(
        [
            (1.8e-9, 0.325, 6741, 5.3e-11),  # nearly all mass on one node
            (1.77e-8, 5.44, 9, 1.2e-227),
            (1.743e-8, 0.5501, 33, 3.6e-240),
            pytest.param(2.248e-6, 5.65, 16, 1e-150, marks=pytest.mark.slow),
            pytest.param(0.001317, 0.592, 25, 2.866e-232, marks=pytest.mark.slow),
        ]
    ),
)
def test_narrow_where_few_jumps_decide(rate: float, noise: float, count: int, delta: float) -> None:
    found = capped.epsilon_interval(steps(rate, noise, count), delta=delta)
    assert relative_width(found) < 2e-5
    back = capped.delta_interval(steps(rate, noise, count), epsilon=found.upper)
    assert back.lower <= delta
    assert relative_width(back) < 1e-4
    back = capped.delta_interval(steps(rate, noise, count), epsilon=found.lower)
    assert back.upper >= delta


@pytest.mark.slow
def test_narrow_where_a_jump_costs_next_to_nothing() -> None:
    """Losses far below 1 grow like the exponential of the output: the farthest are left out."""
    kinds, delta = steps(7.517e-9, 3.886, 30_410), 9.62e-274
    found = capped.epsilon_interval(kinds, delta=delta)
    assert relative_width(found) < 2e-5
    above, below = (capped.delta_interval(kinds, epsilon=end) for end in found)
    assert relative_width(below) < 2e-3
    assert below.lower <= delta <= above.upper


def test_one_jump_against_its_law() -> None:
    """Where others hardly move the sum: one jump, and the mean of the rest, moved by both ends."""
    rate, noise, count, delta = 1.8e-9, 0.325, 6741, 5.3e-11
    found = capped.epsilon_interval(steps(rate, noise, count), delta=delta)
    one = Pair(rate, noise)

    def about(epsilon: float) -> mp.mpf:
        # the losses of the others add up to less than 1e-4, but for 1e-7 of the outcomes that count
        return count * one.removed(mp.mpf(epsilon))

    assert about(found.lower - 1e-4) > delta
    assert about(found.upper + 1e-4) < delta


@pytest.mark.long
def test_finer_grids_narrow_the_bounds() -> None:
    cases = cases_of(1e-5, 0.7, 300, 6.0, 1e-50)
    first = cases.above(6.0) - cases.below(6.0)
    lower, upper = cases.below(6.0), cases.above(6.0)
    cases.refine(1e-5)
    assert lower <= cases.above(6.0)
    assert upper >= cases.below(6.0)
    assert cases.above(6.0) - cases.below(6.0) < 0.1 * first


def test_a_place_to_begin_at_is_that_of_one_loss() -> None:
    step = SampledGaussian(1e-5, 1.5)
    exact = Pair(1e-5, 1.5)
    exact.q, exact.mu = mp.mpf(step.rate), mp.mpf(step.mean)
    found = likely_by_one(step, 100, math.log(1e-40))
    t = exact.place(mp.mpf(found))
    mass = (1 - exact.q) * mp.ncdf(-t) + exact.q * mp.ncdf(exact.mu - t)
    assert abs(100 * mass / mp.mpf("1e-40") - 1) < 1e-6


@pytest.mark.long
@pytest.mark.parametrize("delta", mostly_slow([1e-260, 1e-299, Fraction(1, 10**300)], quick=2))
def test_the_smallest_deltas_are_served(delta: float | Fraction) -> None:
    found = capped.epsilon_interval(steps(0.01, 0.3, 4), delta=delta)
    assert relative_width(found) < 2e-5
    goal = mp.mpf(Fraction(delta).numerator) / Fraction(delta).denominator
    with mp.workdps(60):
        ends = [four(0.01, 0.3, end) for end in found]
    assert ends[1] <= goal * (1 + mp.mpf(10) ** -9)
    assert ends[0] >= goal * (1 - mp.mpf(10) ** -9)


def four(rate: float, noise: float, epsilon: float) -> mp.mpf:
    """delta of four steps of which all hit: other outcomes have no such losses.

    Given all hits the sum of the losses is Gaussian, up to shares below 1e-9 of the outcomes.
    """
    q, mu = mp.mpf(repr(rate)), 1 / mp.mpf(repr(noise))
    mean, deviation = 4 * (mu**2 / 2 + mp.log(q)), 2 * mu
    far = (mean - epsilon) / deviation
    rest = mp.exp(epsilon - mean + deviation**2 / 2) * mp.ncdf(far - deviation)
    return q**4 * (mp.ncdf(far) - rest)


@pytest.mark.slow
def test_jumps_begin_at_once_where_noise_is_large() -> None:
    """A loss of 4e-13 is that of an output a million deviations below the first jump."""
    before = time.process_time()
    found = capped.epsilon_interval(steps(1.18e-9, 205_400.0, 217), delta=1.7169e-46)
    assert 0 <= found.lower <= found.upper
    assert time.process_time() - before < 20
