"""The contour engine on Poisson-subsampled Gaussians, against long arithmetic of other steps."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
import random
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.accounting.by_contours import delta_interval, epsilon_interval
from tests.accounting.contour_references import cut_law_delta
from tests.tiers import mostly_slow

from unacorda.accounting.contour.engine import Directions
from unacorda.accounting.contour.parts import flatten, parts_of
from unacorda.accounting.contour.plan import abscissas, curve, saddle_for_epsilon
from unacorda.accounting.contour.sampled_gaussian import (
    SampledGaussian,
)
from unacorda.accounting.rules.base import Direction
from unacorda.privacy.events import Event, Gaussian


def steps(q: float, sigma: float, count: int) -> list[tuple[Event, int]]:
    return [(Gaussian(noise_multiplier=sigma).poisson_sampled(rate=q), count)]


def reference(
    q: float,
    sigma: float,
    count: int,
    epsilon: float,
    *,
    remove: bool,
    c: float,
    x: float,
    digits: int = 24,
) -> Any:
    """delta + its aliases, 34 digits: plain sums over z and over the contour.

    c and x (the alias shift) are the caller's; the step in z is an eighth to a half of the
    engine's, the grid is not centred, and nothing is restricted. None where it takes too long.
    """
    mp = mpmath.mp.clone()
    mp.dps = 34
    rate, mu = mp.mpf(q), 1 / mp.mpf(sigma)
    step = min(mp.mpf("0.15"), mp.mpf("0.1") / mu)
    half = int(22 / step)
    zs = [step * (j + mp.mpf(1) / 3) for j in range(-half, half + int(mu / step) + 1)]
    logs = [mp.log(1 - rate + rate * mp.exp(mu * z - mu * mu / 2)) for z in zs]
    power = c + 1 if remove else -c
    weights = [
        step * mp.exp(-z * z / 2 + mp.mpf(power) * log) / mp.sqrt(2 * mp.pi)
        for z, log in zip(zs, logs, strict=True)
    ]
    m = mp.fsum(weights)
    kept = [
        (weight / m, log if remove else -log)
        for weight, log in zip(weights, logs, strict=True)
        if weight / m > mp.mpf(10) ** -40 / count
    ]
    h, e = 2 * mp.pi / mp.mpf(x), mp.mpf(epsilon)
    turns = [mp.expj(h * loss) for _, loss in kept]
    now = [mp.mpc(weight) for weight, _ in kept]
    total, small, n, first = mp.mpf(0), 0, 0, None
    while small < 4:
        s = mp.mpc(c, n * h)
        term = mp.fsum(now) ** count / (s * (s + 1)) * (mp.mpf(1) / 2 if n == 0 else 1)
        first = abs(term) if first is None else first
        total += (term * mp.expj(-n * h * e)).real
        small = small + 1 if abs(term) < mp.mpf(10) ** -digits * first else 0
        now = [value * turn for value, turn in zip(now, turns, strict=True)]
        n += 1
        if n > 3000 or n * len(kept) > 250_000:
            return None
    return h / mp.pi * mp.exp(count * mp.log(m) - c * e) * total


def saddle(q: float, sigma: float, count: int, epsilon: float, direction: Direction) -> float:
    parts = parts_of(flatten(steps(q, sigma, count)), direction=direction, log_delta=-30.0)
    assert parts is not None
    whole = curve(parts.factors, abscissas(parts.factors))
    return saddle_for_epsilon(whole, epsilon)[0]


def check(q: float, sigma: float, count: int, delta: float, direction: Direction) -> bool:
    """Whether the interval is narrow and the reference sure; it must then hold the truth."""
    found = epsilon_interval(steps(q, sigma, count), delta=delta, directions=direction)
    if found.upper == 0 or found.upper - found.lower > 1e-6 * found.upper:
        return False
    for part in (0.93, 0.7, 0.5):
        # aliases k > 0 beyond the phase transition spoil the reference: two far shifts must agree
        c = part * saddle(q, sigma, count, found.upper, direction)
        truths = []
        for stretch in (1.0, 1.5):
            x = stretch * ((25 - math.log(delta)) / c * 1.7 + min(4 * found.upper, 20.0))
            truths += [
                reference(q, sigma, count, e, remove=direction == "remove", c=c, x=x) for e in found
            ]
        if None not in truths and abs(truths[1] / truths[3] - 1) < 1e-13:
            assert truths[2] >= delta * (1 - 1e-13)
            assert truths[3] <= delta * (1 + 1e-13)
            return True
    return False


@pytest.mark.parametrize(
    ("case", "epsilon", "width"),
    [
        ((0.01, 1.0, 10**3, 1e-5), 1.8282367, 1e-10),
        ((0.01, 1.0, 10**4, 1e-5), 6.1877124, 1e-11),
        ((0.01, 1.0, 10**5, 1e-5), 25.5731070, 1e-11),
        ((0.001, 0.6, 50_000, 1e-5), 4.3800978, 1e-9),
        ((0.001, 1.0, 10**6, 1e-5), 6.0261313, 1e-10),
        ((0.01, 1.0, 10**3, 1e-11), 3.5998748, 1e-9),
        ((0.01, 1.0, 10**3, 1e-15), 4.8545377, 1e-8),
        ((1e-4, 1.0, 10**6, 1e-9), 0.7137002, 1e-8),
    ],
)
def test_reference_values_within_narrow_intervals(
    case: tuple[float, float, int, float], epsilon: float, width: float
) -> None:
    *step, delta = case
    q, sigma, count = step
    found = epsilon_interval(steps(q, sigma, int(count)), delta=delta)
    assert 0 < found.upper - found.lower <= width * found.upper
    assert found.upper == pytest.approx(epsilon, rel=3e-7)


def test_the_least_noise_of_the_reference_calibration() -> None:
    found = epsilon_interval(steps(0.01, 2.1273754, 10_000), delta=1e-5)
    assert found.upper == pytest.approx(2.0, rel=1e-6)


RANDOM = random.Random(2024)
CASES = [
    (
        min(10 ** RANDOM.uniform(-3.5, 0), 0.9),
        10 ** RANDOM.uniform(-0.3, 1.3),
        int(10 ** RANDOM.uniform(2.3, 8)),
        10 ** RANDOM.uniform(-30, -3),
    )
    for _ in range(11)
]


# few steps need many terms of the reference
@pytest.mark.long
@pytest.mark.parametrize(
    ("q", "sigma", "count", "delta"),
    [pytest.param(*case, marks=pytest.mark.slow) if case[2] < 500 else case for case in CASES],
)
@pytest.mark.parametrize("direction", ["remove", pytest.param("add", marks=pytest.mark.slow)])
def test_holds_the_truth_of_long_arithmetic(
    q: float, sigma: float, count: int, delta: float, direction: Direction
) -> None:
    if check(q, sigma, count, delta, direction):
        return
    # near the phase transition plain sums spoil the reference: the law is cut first
    found = epsilon_interval(steps(q, sigma, count), delta=delta, directions=direction)
    assert direction == "remove"
    above = cut_law_delta(q, sigma, count, found.upper, delta)
    below = cut_law_delta(q, sigma, count, found.lower, delta)
    assert above is not None
    assert below is not None
    assert above <= delta * (1 + 1e-11)
    assert below >= delta * (1 - 1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_holds_the_truth_in_a_large_box(seed: int) -> None:
    draw = random.Random(seed)
    narrow = 0
    for _ in range(8):
        q, sigma = min(10 ** draw.uniform(-4, 0), 0.9), 10 ** draw.uniform(-0.3, 1.3)
        count, delta = int(10 ** draw.uniform(1.5, 9)), 10 ** draw.uniform(-30, -3)
        narrow += check(q, sigma, count, delta, draw.choice(["remove", "add"]))
    assert narrow >= 3


def test_add_has_the_loss_with_the_other_sign() -> None:
    """With the sign of the loss confused, add would equal or exceed remove."""
    remove, add = (
        epsilon_interval(steps(0.01, 1.0, 1000), delta=1e-5, directions=direction)
        for direction in ("remove", "add")
    )
    assert remove.lower > 1.25 * add.upper
    # the loss under add is at most -count ln(1 - q)
    assert add.upper < -1000 * math.log1p(-0.01)
    certain = epsilon_interval(steps(0.01, 1.0, 3), delta=1e-9, directions="add")
    assert certain.upper <= -3 * math.log1p(-0.01) * (1 + 1e-6)


@pytest.mark.parametrize("sigma", [3.8, 10.0, 40.0, 1000.0])
def test_large_noise_keeps_a_positive_cumulant(sigma: float) -> None:
    """A step of 0.2 sigma^2 in z, too coarse above sigma = 3.7, gave K < 0 and epsilon 0."""
    found = epsilon_interval(steps(0.05, sigma, 10_000), delta=1e-10)
    central = 0.05 * 100 / sigma * math.sqrt(2 * math.log(1e10))
    assert 0.5 * central < found.lower <= found.upper < 1.5 * central
    assert found.upper - found.lower < 1e-9 * found.upper


@pytest.mark.long
def test_many_steps_keep_their_digits() -> None:
    """A series cut too early erred by 1e-12 a step, which many steps amplified."""
    count = 10**8
    found = epsilon_interval(steps(1e-4, 2.0, count), delta=1e-7)
    assert found.upper - found.lower < 1e-9 * found.upper
    c = 0.9 * saddle(1e-4, 2.0, count, found.upper, "remove")
    truth = reference(1e-4, 2.0, count, found.upper, remove=True, c=c, x=4 * found.upper + 60 / c)
    assert abs(truth / mpmath.mpf(1e-7) - 1) < 1e-8


@pytest.mark.parametrize("direction", ["remove", "add", "both"])
def test_delta_and_epsilon_are_inverse(direction: Directions) -> None:
    composition = steps(0.02, 1.2, 700)
    for delta in (1e-3, 1e-8, 1e-20):
        found = epsilon_interval(composition, delta=delta, directions=direction)
        at_lower = delta_interval(composition, epsilon=found.lower, directions=direction)
        at_upper = delta_interval(composition, epsilon=found.upper, directions=direction)
        assert at_lower.upper >= delta >= at_upper.lower
        assert at_lower.lower == pytest.approx(delta, rel=1e-6)


def test_tiny_deltas_and_great_counts() -> None:
    smallest = epsilon_interval(steps(0.1, 2.0, 1000), delta=1e-299)
    assert 0 < smallest.upper - smallest.lower < 1e-8 * smallest.upper
    most = epsilon_interval(steps(1e-6, 1.0, 10**12), delta=1e-6)
    assert 0 < most.upper - most.lower < 1e-7 * most.upper
    half = epsilon_interval(steps(0.1, 2.0, 1000), delta=0.5)
    assert 0 < half.upper - half.lower < 1e-8


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(
    q=st.floats(1e-3, 0.9),
    sigma=st.floats(0.7, 20.0),
    count=st.integers(50, 10**6),
    low=st.floats(0.0, 8.0),
    more=st.floats(1e-6, 4.0),
)
def test_delta_falls_with_epsilon(
    q: float, sigma: float, count: int, low: float, more: float
) -> None:
    first = delta_interval(steps(q, sigma, count), epsilon=low)
    second = delta_interval(steps(q, sigma, count), epsilon=low + more)
    assert 0 <= first.lower <= first.upper <= 1
    assert second.lower <= first.upper


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(
    q=st.floats(1e-3, 0.5),
    sigma=st.floats(0.7, 20.0),
    count=st.integers(50, 10**6),
    factor=st.floats(1.0, 1.5),
)
def test_less_noise_or_more_steps_never_cost_less(
    q: float, sigma: float, count: int, factor: float
) -> None:
    found = epsilon_interval(steps(q, sigma, count), delta=1e-7)
    noisier = epsilon_interval(steps(q, sigma * factor, count), delta=1e-7)
    longer = epsilon_interval(steps(q, sigma, int(count * factor)), delta=1e-7)
    denser = epsilon_interval(steps(min(q * factor, 0.99), sigma, count), delta=1e-7)
    assert noisier.lower <= found.upper
    assert found.lower <= longer.upper
    assert found.lower <= denser.upper


@pytest.mark.parametrize(
    ("q", "sigma", "count", "delta"),
    mostly_slow(
        [
            (1e-9, 0.05, 10, 1e-5),
            (0.5, 1e6, 10**12, 1e-5),
            (0.999999, 0.05, 1, 1e-300),
            (1e-9, 1e6, 1, 0.5),
            (0.3, 0.05, 10**12, 1e-10),
            (0.9, 50.0, 2, 1e-40),
        ],
        quick=3,
    ),
)
def test_extremes_give_valid_intervals_quickly(
    q: float, sigma: float, count: int, delta: float
) -> None:
    found = epsilon_interval(steps(q, sigma, count), delta=delta)
    assert 0 <= found.lower <= found.upper
    assert not math.isnan(found.upper)


def test_chernoff_bound_of_the_restricted_law_is_above_the_cumulant() -> None:
    for direction in ("remove", "add"):
        parts = parts_of(
            flatten(steps(0.01, 1.0, 1000)), direction=direction, log_delta=math.log(1e-9)
        )
        assert parts is not None
        (law,) = parts.factors
        assert isinstance(law, SampledGaussian)
        for c in (0.5, 2.0, 5.0):
            made = law.tilt(c, last=1.0, most=4000)
            assert made is not None
            above = law.log_m_upper(c)
            assert made.log_m - made.log_m_error <= above
            assert above == pytest.approx(made.log_m, rel=1e-8)


def test_the_cumulant_is_known_at_the_least_abscissas_too() -> None:
    """A share of 1e-10 of it is far too much where it is a million."""
    for direction in ("remove", "add"):
        parts = parts_of(
            flatten(steps(0.02714, 0.08562, 190_441_020_935)),
            direction=direction,
            log_delta=math.log(3e-53),
        )
        assert parts is not None
        (law,) = parts.factors
        assert isinstance(law, SampledGaussian)
        for c in (3e-6, 1e-5):
            made = law.tilt(c, last=1e-9, most=20_000)
            assert made is not None
            above = law.log_m_upper(c)
            assert made.log_m - made.log_m_error <= above
            assert above - made.log_m < 0.1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("q", "sigma", "count", "delta"),
    mostly_slow(
        [
            (0.0363, 0.0913, 142_810_179, 3.3e-15),
            (0.2, 0.2, 400, 0.1),
            (0.008932, 0.1041, 3_686_797, 3.651e-241),  # jumps lie apart from the bulk
            pytest.param(0.0006, 0.08, 10**7, 1e-200, marks=pytest.mark.slow),
        ]
    ),
)
def test_faint_noise_and_many_steps_are_narrow(
    q: float, sigma: float, count: int, delta: float
) -> None:
    """Each step in the sample loses tens: epsilon is huge, and known to nine digits."""
    found = epsilon_interval(steps(q, sigma, count), delta=delta, directions="remove")
    assert found.upper - found.lower <= 2e-9 * found.upper
    loss = 1 / (2 * sigma**2) + math.log(q)
    deviation = math.sqrt(count * q * (loss**2 + sigma**-2))
    c = 0.8 * math.sqrt(-2 * math.log(delta)) / deviation
    x = (57 - math.log(delta)) / c
    for epsilon, sign in ((found.lower * (1 - 1e-12), 1), (found.upper * (1 + 1e-12), -1)):
        truth = reference(q, sigma, count, epsilon, remove=True, c=c, x=x)
        assert truth is not None
        assert -1e-13 <= sign * (truth / delta - 1) <= 1e-3


@pytest.mark.long
@pytest.mark.parametrize(
    ("q", "sigma", "count", "c", "last"),
    mostly_slow([(0.02, 0.8, 50, 3.0, 60.0), (0.002, 0.08, 40_000, 5e-4, 0.05)]),
)
def test_the_tail_bound_is_above_all_later_nodes(
    q: float, sigma: float, count: int, c: float, last: float
) -> None:
    for direction in ("remove", "add"):
        parts = parts_of(
            flatten(steps(q, sigma, count)), direction=direction, log_delta=math.log(1e-7)
        )
        assert parts is not None
        (law,) = parts.factors
        made = law.tilt(c, last=last, most=20_000)
        assert made is not None
        t = np.linspace(0.0, last, 601)
        log, error = made.nodes(t)
        bounds = [made.tail(float(place)) for place in t[1:]]
        assert bounds[-1] < -5 or (count > 50 and direction == "add")
        assert all(now >= after - 1e-6 for now, after in itertools.pairwise(bounds[300:]))
        for index, bound in enumerate(bounds, start=1):
            assert np.all(log.real[index:] - error[index:] <= bound + 1e-9)
