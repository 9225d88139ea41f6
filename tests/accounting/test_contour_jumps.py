"""The contour engine where rare jumps of a subsampled Gaussian decide: against long arithmetic."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

import mpmath
import numpy as np
import pytest
from tests.accounting.by_contours import delta_interval, epsilon_interval
from tests.accounting.contour_references import cut_law_delta
from tests.tiers import mostly_slow

from unacorda.accounting.contour.jumps import JumpSplit, rough_epsilon, split, sum_of_terms
from unacorda.accounting.contour.parts import flatten, parts_of
from unacorda.accounting.contour.sampled_gaussian import (
    SHARE_ERROR,
    Cut,
    SampledGaussian,
)
from unacorda.accounting.rules.base import Direction
from unacorda.privacy.events import Approximate, Event, Gaussian, Laplace, Pure


def steps(q: float, sigma: float, count: int) -> list[tuple[Event, int]]:
    return [(Gaussian(noise_multiplier=sigma).poisson_sampled(rate=q), count)]


def exact_one_step(q: float, sigma: float, epsilon: Any, *, remove: bool) -> Any:
    """delta of one step in closed form: f = e^epsilon (or f = e^-epsilon) at one place."""
    mp = mpmath.mp
    mu, rate, e = 1 / mp.mpf(sigma), mp.mpf(q), mp.mpf(epsilon)
    level = mp.exp(e if remove else -e) - (1 - rate)
    if level <= 0:
        return 1 - mp.exp(e) if remove else mp.mpf(0)
    place = (mp.log(level / rate) + mu * mu / 2) / mu
    if remove:
        own = (1 - rate) * mp.ncdf(-place) + rate * mp.ncdf(mu - place)
        return own - mp.exp(e) * mp.ncdf(-place)
    other = (1 - rate) * mp.ncdf(place) + rate * mp.ncdf(place - mu)
    return mp.ncdf(place) - mp.exp(e) * other


def exact_two_steps(q: float, sigma: float, epsilon: float, *, remove: bool) -> Any:
    """delta of two steps: the closed form of one, integrated over the loss of the other."""
    mp = mpmath.mp
    mu, rate, e = 1 / mp.mpf(sigma), mp.mpf(q), mp.mpf(epsilon)

    def integrand(z: Any) -> Any:
        ratio = 1 - rate + rate * mp.exp(mu * z - mu * mu / 2)
        loss = mp.log(ratio) if remove else -mp.log(ratio)
        own = mp.npdf(z) * (ratio if remove else 1)
        return own * exact_one_step(q, sigma, e - loss, remove=remove)

    # where one step's loss alone reaches epsilon the integrand bends
    level = mp.exp(e if remove else -e) - (1 - rate)
    kink = (mp.log(level / rate) + mu * mu / 2) / mu if level > 0 else mp.mpf(0)
    places = sorted({mp.mpf(place) for place in range(-14, 15, 2)} | {kink, mu})
    return mp.quad(integrand, places)


@pytest.mark.slow
@pytest.mark.parametrize("count", mostly_slow([1, 2]))
@pytest.mark.parametrize(
    ("q", "sigma", "delta"),
    [
        (0.1, 2.0, 1e-10),
        pytest.param(0.01, 1.0, 1e-6, marks=pytest.mark.slow),
        pytest.param(1e-3, 0.7, 1e-5, marks=pytest.mark.slow),
        (1e-4, 1.0, 1e-7),
    ],
)
def test_one_and_two_steps_hold_their_closed_forms(
    q: float, sigma: float, delta: float, count: int
) -> None:
    with mpmath.workdps(25):
        for remove in (True, False):
            direction: Direction = "remove" if remove else "add"
            found = epsilon_interval(steps(q, sigma, count), delta=delta, directions=direction)
            for end, below in ((found.upper, True), (found.lower, False)):
                if end == math.inf or (end == 0 and not below):
                    continue
                exact = exact_one_step if count == 1 else exact_two_steps
                truth = exact(q, sigma, end, remove=remove)
                assert truth <= delta * (1 + 1e-12) if below else truth >= delta * (1 - 1e-12)
                held = delta_interval(steps(q, sigma, count), epsilon=end, directions=direction)
                assert held.lower * (1 - 1e-14) <= truth <= held.upper * (1 + 1e-14)


def test_pieces_may_be_rarer_than_floats_can_tell() -> None:
    """One step, split at places beyond which lies as little as e^-28 of a delta of 1e-297."""
    q, sigma, log_delta = 1e-6, 1.62, math.log(1e-297)
    law = sampled(q, sigma, 1, 1e-297)
    parts = split([law], log_delta=log_delta, aims=[part * log_delta for part in (0.2, 0.45, 0.9)])
    assert parts is not None
    for epsilon in (8.7, 8.8, 8.826, 8.9):
        made, _ = sum_of_terms(parts, epsilon=epsilon, log_unit=log_delta, work=4_000_000)
        sides = made.at(epsilon)
        with mpmath.workdps(25):
            truth = float(exact_one_step(q, sigma, epsilon, remove=True) / mpmath.mpf("1e-297"))
        assert sides.lower <= truth <= sides.upper < 1e3 * truth
        assert sides.near == pytest.approx(truth, rel=0.02)


NEAR_TRANSITION = [
    (1e-4, 1.0, 10**6, 1e-9),
    pytest.param(0.01, 1.0, 1000, 1e-15, marks=pytest.mark.slow),
    (0.0031, 1.45, 521, 1.52e-9),
    pytest.param(0.000278, 0.951, 360_204, 1.89e-11, marks=pytest.mark.slow),
    pytest.param(0.0017, 1.56, 371, 2.34e-12, marks=pytest.mark.slow),
    pytest.param(0.000129, 1.44, 1739, 1.03e-8, marks=pytest.mark.slow),
    (0.000133, 0.949, 62_415, 1.6e-4),
]


@pytest.mark.slow
@pytest.mark.parametrize(("q", "sigma", "count", "delta"), mostly_slow(NEAR_TRANSITION, quick=2))
def test_holds_the_truth_near_the_phase_transition(
    q: float, sigma: float, count: int, delta: float
) -> None:
    found = epsilon_interval(steps(q, sigma, count), delta=delta, directions="remove")
    assert 0 < found.upper - found.lower < 1e-7 * found.upper
    above = cut_law_delta(q, sigma, count, found.upper, delta)
    below = cut_law_delta(q, sigma, count, found.lower, delta)
    assert above is not None
    assert below is not None
    assert above <= delta * (1 + 1e-11)
    assert below >= delta * (1 - 1e-11)
    held = delta_interval(steps(q, sigma, count), epsilon=found.upper, directions="remove")
    assert held.lower * (1 - 1e-11) <= above <= held.upper * (1 + 1e-11)
    assert held.upper - held.lower < 1e-4 * held.upper


@pytest.mark.long
@pytest.mark.parametrize(
    ("q", "sigma", "count", "delta"),
    mostly_slow(
        [
            (1.468e-8, 0.8967, 5762, 3.175e-112),  # nothing can be split at one place
            (2.833e-8, 0.8832, 318_483_808, 4.753e-169),
            pytest.param(6.127e-9, 0.6348, 1_234_539_595, 1.773e-8, marks=pytest.mark.slow),
        ]
    ),
)
def test_more_places_are_tried_where_one_does_not_serve(
    q: float, sigma: float, count: int, delta: float
) -> None:
    found = epsilon_interval(steps(q, sigma, count), delta=delta, directions="remove")
    assert found.upper - found.lower < 5e-5 * found.upper
    assert delta_interval(steps(q, sigma, count), epsilon=found.upper).lower <= delta
    assert delta_interval(steps(q, sigma, count), epsilon=found.lower).upper >= delta


@pytest.mark.slow
def test_the_pieces_of_a_step_make_the_step() -> None:
    """The laws of bulk and jumps, weighted, add up to the law; every mass by another method."""
    mp = mpmath.mp.clone()
    mp.dps = 30
    for q, sigma in ((0.01, 1.0), (0.003, 0.6)):
        law = sampled(q, sigma, 500, 1e-9)
        parts = split([law], log_delta=math.log(1e-9), aims=[-4.0, -15.0])
        assert parts is not None
        rate, mu = mp.mpf(q), 1 / mp.mpf(sigma)
        step = mp.mpf("0.06") * min(sigma, 1)
        grid = [step * j for j in range(-int(14 / step), int(22 / step))]
        for piece in pieces_of(parts):
            cut = piece.cut
            assert cut is not None
            m = dict.fromkeys((0, 1, 3.5), mp.mpf(0))
            for z in grid:
                up = mp.ncdf((z - cut.low) / cut.width) if cut.low > -math.inf else 1
                off = 1 - mp.ncdf((cut.high - z) / cut.width)
                f = 1 - rate + rate * mp.exp(mu * z - mu * mu / 2)
                for power in m:
                    m[power] += step * mp.npdf(z) * (up - off) * f**power
            assert abs(mp.log(m[1]) - cut.log_norm) <= cut.norm_error + 1e-18
            assert abs((m[1] - m[0]) / m[1] - cut.drift) <= cut.drift_error + 1e-18
            assert mp.log(m[0] / m[1]) <= cut.log_null
            one = piece if piece.count == 1 else sampled_copy(piece)
            made = one.tilt(2.5, last=1.0, most=8000)
            assert made is not None
            assert abs(mp.log(m[3.5] / m[1]) - made.log_m) <= made.log_m_error + 1e-12
            above = one.log_m_upper(2.5)
            assert made.log_m - made.log_m_error <= above
            assert above == pytest.approx(made.log_m, abs=1e-6)


@pytest.mark.long
@pytest.mark.parametrize(
    ("q", "sigma", "count", "delta", "epsilon"),
    mostly_slow(
        [
            (0.003012, 24440.0, 31_142_254_190, 0.0087, 5.17713e-05),
            (1.086e-5, 1.541, 5_701_823_258, 2.9e-26, 6.264432),
            (0.01, 1.0, 1000, 1e-9, 3.0),
        ]
    ),
)
def test_a_rare_jump_leaves_the_rest_its_mass_times_many_steps(
    q: float, sigma: float, count: int, delta: float, epsilon: float
) -> None:
    """A bulk of mass 1 - 1e-13 and less: of its logarithm 1e-16 is no rounding error any more."""
    law = sampled(q, sigma, count, delta)
    parts = split([law], log_delta=math.log(delta), aims=[math.log(delta)])
    assert parts is not None
    bulk = next(law for law in pieces_of(parts) if not law.jumps)
    cut = bulk.cut
    assert cut is not None
    with mpmath.workdps(40):
        spread, mu = mpmath.sqrt(1 + mpmath.mpf(cut.width) ** 2), 1 / mpmath.mpf(sigma)
        tails = [mpmath.erfc((cut.high - mean) / spread / mpmath.sqrt(2)) / 2 for mean in (0, mu)]
        truth = mpmath.log1p(-(1 - mpmath.mpf(q)) * tails[0] - mpmath.mpf(q) * tails[1])
        assert abs(truth - cut.log_norm) <= cut.norm_error
    assert cut.norm_error * count < 1e-6
    made, _ = sum_of_terms(parts, epsilon=epsilon, log_unit=math.log(delta), work=20_000_000)
    told = made.at(epsilon)
    known = delta_interval(steps(q, sigma, count), epsilon=epsilon, directions="remove")
    assert told.lower * delta <= known.upper
    assert known.lower <= told.upper * delta
    assert known.lower <= known.upper


def sampled(q: float, sigma: float, count: int, delta: float) -> SampledGaussian:
    parts = parts_of(flatten(steps(q, sigma, count)), direction="remove", log_delta=math.log(delta))
    assert parts is not None
    (law,) = parts.factors
    assert isinstance(law, SampledGaussian)
    return law


def sampled_copy(law: SampledGaussian) -> SampledGaussian:
    return replace(law, count=1)


def pieces_of(parts: JumpSplit) -> list[SampledGaussian]:
    found: dict[tuple[float, float], SampledGaussian] = {}
    for term in parts.terms:
        for factor in term.factors:
            assert isinstance(factor, SampledGaussian)
            assert factor.cut is not None
            found[factor.cut.low, factor.cut.high] = factor
    return list(found.values())


@pytest.mark.long
def test_the_tail_bound_of_a_piece_is_above_all_later_nodes() -> None:
    parts = split([sampled(0.02, 0.8, 50, 1e-7)], log_delta=math.log(1e-7), aims=[-5.0, -12.0])
    assert parts is not None
    for piece in pieces_of(parts):
        made = piece.tilt(3.0, last=40.0, most=20_000)
        assert made is not None
        t = np.linspace(0.0, 40.0, 401)
        log, error = made.nodes(t)
        bounds = [made.tail(float(place)) for place in t[1::8]]
        assert bounds[-1] < -2
        for index, bound in zip(range(1, t.size, 8), bounds, strict=True):
            sure = error[index:] < 1.0  # the others drown in round-off
            assert np.all((log.real[index:] - error[index:])[sure] <= bound + 1e-9)
        # and not far above them
        assert bounds[-1] < 0.4 * log.real[-1]


@pytest.mark.long
def test_weights_of_a_cut_are_right_within_their_error() -> None:
    mp = mpmath.mp.clone()
    mp.dps = 40

    def normal(z: Any) -> Any:
        return mp.erfc(-z / mp.sqrt(2)) / 2

    x = np.concatenate([np.linspace(-14.0, 18.0, 129), np.linspace(2.9, 3.1, 41)])
    for low, high in ((-math.inf, 3.0), (3.0, math.inf), (3.0, 4.5), (-1.0, 9.0)):
        cut = Cut(low=low, high=high, width=0.5)
        level, error = cut.log_share_and_error(x)
        assert np.all(error <= 1e4 * SHARE_ERROR * (1 + np.abs(level)) * (1 + x**2))
        for place, value, slip in zip(x, level, error, strict=True):
            z = mp.mpf(float(place))
            above = normal((z - low) / 0.5) if low > -math.inf else mp.mpf(1)
            beyond = normal((z - high) / 0.5) if high < math.inf else mp.mpf(0)
            if low == -math.inf:
                truth = mp.log(normal((high - z) / 0.5))
            elif place > 0.5 * (low + high) and high < math.inf:
                truth = mp.log(normal((high - z) / 0.5) - normal((low - z) / 0.5))
            else:
                truth = mp.log(above - beyond)
            assert abs(truth - value) <= slip + mp.mpf(10) ** -36


@pytest.mark.slow
def test_other_places_of_the_cut_tell_the_same_delta() -> None:
    law = sampled(0.0031, 1.45, 521, 1.5e-9)
    log_delta = math.log(1.5e-9)
    near = rough_epsilon([law], log_delta=log_delta)
    sides = []
    for aims in ([-20.3], [-12.0], [-6.0, -18.0], [-3.0, -9.0, -19.0]):
        parts = split([law], log_delta=log_delta, aims=aims)
        assert parts is not None
        made, _ = sum_of_terms(parts, epsilon=near, log_unit=log_delta, work=20_000_000)
        sides.append(made.at(near))
        assert 0.3 < sides[-1].near < 3.0
        assert sides[-1].upper - sides[-1].lower < 1e-5
    assert max(side.lower for side in sides) <= min(side.upper for side in sides)


@pytest.mark.long
def test_jumps_within_a_mixed_composition() -> None:
    """Other factors, and a second part that is split too, keep bounds of each other."""
    first = Gaussian(noise_multiplier=1.0).poisson_sampled(rate=0.002)
    second = Gaussian(noise_multiplier=0.9).poisson_sampled(rate=0.0015)
    plain = Gaussian(noise_multiplier=20.0)
    mixed: list[tuple[Event, int]] = [(first, 300), (second, 200), (plain, 2)]
    found = epsilon_interval(mixed, delta=1e-12)
    assert 0 < found.upper - found.lower < 1e-6 * found.upper
    less = epsilon_interval(mixed[:1], delta=1e-12)
    more = epsilon_interval([(second, 500), (plain, 2)], delta=1e-12)
    assert less.lower < found.upper
    at = delta_interval(mixed, epsilon=found.upper)
    assert at.lower <= 1e-12
    assert at.upper >= 0.9e-12
    assert more.upper > less.lower
    with_laplace = epsilon_interval([*mixed, (Laplace(noise_multiplier=50.0), 1)], delta=1e-12)
    assert found.lower - 1e-9 <= with_laplace.upper <= found.upper + 0.02 + 1e-9


def test_a_delta_below_the_mass_of_infinite_losses_costs_infinity() -> None:
    event = Approximate(epsilon=0.5, delta=1e-6)
    composition: list[tuple[Event, int]] = [(event, 3), *steps(0.01, 1.0, 100)]
    assert epsilon_interval(composition, delta=2.9e-6) == (math.inf, math.inf)
    found = epsilon_interval(composition, delta=3.1e-6)
    assert 0 < found.lower <= found.upper < math.inf
    held = delta_interval(composition, epsilon=50.0)
    assert 2.99e-6 < held.lower <= held.upper < 3.01e-6
    assert epsilon_interval([(event, 1), (Pure(epsilon=1.0), 1)], delta=1e-9).lower == math.inf


def draws(number: int, seed: int) -> list[tuple[float, float, int, float]]:
    """Log-uniform in the box in which narrow intervals are promised."""
    draw = random.Random(seed)
    return [
        (
            min(10 ** draw.uniform(-4, 0), 1.0),
            10 ** draw.uniform(math.log10(0.5), math.log10(50)),
            int(10 ** draw.uniform(2, 9)),
            10 ** draw.uniform(-15, -3),
        )
        for _ in range(number)
    ]


@pytest.mark.long
@pytest.mark.parametrize(
    ("q", "sigma", "count", "delta"),
    mostly_slow(
        [
            case if place < 5 else pytest.param(*case, marks=pytest.mark.slow)
            for place, case in enumerate(draws(12, 78))
        ]
    ),
)
def test_holds_the_truth_in_the_box(q: float, sigma: float, count: int, delta: float) -> None:
    found = epsilon_interval(steps(q, sigma, count), delta=delta, directions="remove")
    assert found.upper < math.inf
    if found.upper == 0.0 or found.lower == 0.0:
        return
    above = cut_law_delta(q, sigma, count, found.upper, delta) if q < 1 else None
    below = cut_law_delta(q, sigma, count, found.lower, delta) if q < 1 else None
    if above is None or below is None:
        return
    assert above <= delta * (1 + 1e-11)
    assert below >= delta * (1 - 1e-11)


@pytest.mark.slow
def test_intervals_are_narrow_in_the_box() -> None:
    """98 of 100 within 1e-8 of epsilon (1e-12 where it is next to nothing)."""
    cases = draws(300, 5)
    narrow = 0
    for q, sigma, count, delta in cases:
        found = epsilon_interval(steps(q, sigma, count), delta=delta)
        narrow += found.upper - found.lower <= max(1e-8 * found.upper, 1e-12)
    assert narrow >= 0.98 * len(cases)
