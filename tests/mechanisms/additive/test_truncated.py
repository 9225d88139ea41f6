"""Truncated Laplace noise: the gridded law against its price, the bits, the folklore bound."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy import stats
from tests.mechanisms.divergences import exceeds, farthest
from tests.mechanisms.laws import as_mpf, standard_laplace
from tests.mechanisms.test_replay import Counting, agreed
from tests.support.cases import in_subtests
from tests.tiers import mostly_slow

from unacorda import accounting
from unacorda.bits import ScriptedBits, SeededBits
from unacorda.checks import exact
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.noise.continuous import cut_laplace_chunk
from unacorda.mechanisms.shaped.numbers import TruncatedLaplace
from unacorda.privacy import events
from unacorda.privacy.guarantees import ApproxDP, PureDP

EPSILONS = (0.0, 0.2, 0.5, 0.8, 1.0, 2.0)


def law(x: Fraction, *, scale: Fraction, bound: Fraction, grid: Fraction) -> dict[int, mpf]:
    """The law of the released number of grid steps, from the distribution function."""
    t, a = as_mpf(scale), as_mpf(bound)

    def below(z: mpf) -> mpf:
        z = min(max(z, -a), a)
        half = mp.expm1(-abs(z) / t) / mp.expm1(-a / t) / 2
        return mpf("0.5") + (half if z >= 0 else -half)

    first = math.floor((x - bound) / grid) - 1
    last = math.ceil((x + bound) / grid) + 1
    edges = [below(as_mpf(Fraction(2 * k + 1, 2) * grid - x)) for k in range(first - 1, last + 1)]
    masses = [right - left for left, right in pairwise(edges)]
    return {k: mass for k, mass in enumerate(masses, first) if mass > 0}


@pytest.mark.parametrize(
    ("scale", "bound"), [("1", "5"), ("2", "1"), ("1/2", "3"), ("3", "3/4"), ("1", "1/2")]
)
def test_the_gridded_law_keeps_the_price(scale: str, bound: str) -> None:
    with mp.workprec(200):
        shape: dict[str, Any] = {"scale": Fraction(scale), "bound": Fraction(bound)}
        mechanism = TruncatedLaplace(sensitivity=1, grid_log2=-3, **shape)
        pairs = [
            tuple(law(y, grid=Fraction(1, 8), **shape) for y in (x, x + move))
            for x in (Fraction(0), Fraction(1, 16), Fraction(1, 3))
            for move in (Fraction(1), Fraction(3, 4), Fraction(1, 10))
        ]
        pairs_ = [(one, two) for one, two in pairs]
        assert exceeds(mechanism.event, pairs_, epsilons=EPSILONS) == []
        # Where the ends fall between cells of the grid, nothing is lost by rounding.
        full = [
            tuple(law(y, grid=Fraction(1, 8), **shape) for y in (Fraction(1, 16), Fraction(17, 16)))
        ]
        for epsilon in EPSILONS:
            claimed = accounting.delta(mechanism.event, epsilon=epsilon)
            assert float(farthest([(one, two) for one, two in full], epsilon)) == pytest.approx(
                claimed, rel=0.1 if 0 < epsilon < 1 / float(Fraction(scale)) else 1e-9
            )


@pytest.mark.long
def test_the_folklore_bound_is_caught() -> None:
    # (1 + ln(1 / (2 delta))) / epsilon is too small from epsilon = ln(e + 1 - 2 delta) on.
    with mp.workprec(200):
        delta = Fraction(1, 1000)
        for epsilon, private in ((1, True), (2, False), (8, False)):
            bound = Fraction(1 + math.log(500)).limit_denominator(10**6) / epsilon
            one = law(Fraction(0), scale=Fraction(1, epsilon), bound=bound, grid=Fraction(1, 128))
            two = law(Fraction(1), scale=Fraction(1, epsilon), bound=bound, grid=Fraction(1, 128))
            promise = events.Approximate(epsilon=epsilon, delta=delta)
            caught = exceeds(promise, [(one, two)], epsilons=(float(epsilon),))
            assert bool(caught) is not private
            right = TruncatedLaplace.for_guarantee(ApproxDP(epsilon, delta), sensitivity=1)
            assert (exact("bound", right.bound) > bound) is not private


@in_subtests("epsilon", [0.01, 1.0, 8.0])
@in_subtests("delta", [1e-12, 1e-3, 0.3, 0.9])
@in_subtests("keys", [1, 4])
def test_a_guarantee_is_kept_and_used_up(epsilon: float, delta: float, keys: int) -> None:
    target = ApproxDP(epsilon, delta)
    mechanism = TruncatedLaplace.for_guarantee(target, sensitivity="0.3", l0_sensitivity=keys)
    one = mechanism.event.event if isinstance(mechanism.event, events.Repeated) else mechanism.event
    claimed = accounting.delta(one, epsilon=epsilon / keys)
    assert claimed <= delta / keys * (1 + 1e-12) + 1e-17  # the accountant's own width
    if delta / keys <= 0.5:
        assert claimed >= delta / keys * (1 - 1e-9) - 1e-17


@pytest.mark.parametrize(
    "ratio", mostly_slow([Fraction(1, 7), Fraction(5, 3), Fraction(1 << 20), Fraction(1 << 36)])
)
@pytest.mark.parametrize(
    "reach", [Fraction(20), Fraction(3, 2), Fraction(1, 10), Fraction(1, 1 << 38)]
)
def test_floors_replay_from_the_same_words(ratio: Fraction, reach: Fraction) -> None:
    with mp.workprec(250):
        size = 800
        offsets = [Fraction(i, size) for i in range(size)]
        source = Counting(72)
        floors = cut_laplace_chunk(
            np.array([float(o) for o in offsets]),
            lambda i: offsets[i],
            ratio=ratio,
            bits=source,
            reach=reach,
        ).tolist()
        for word, offset, floor in zip(
            source.given[:size].view(np.int64).tolist(), offsets, floors, strict=True
        ):
            low, high = sorted(abs(end) for end in standard_laplace(word))
            turns = agreed(low / as_mpf(reach), high / as_mpf(reach))
            sign = 1 if word >= 0 else -1
            ends = [
                as_mpf(offset) + sign * as_mpf(ratio) * (z - turns * as_mpf(reach))
                for z in (low, high)
            ]
            assert floor == agreed(*sorted(ends))


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("bound", [0.9, 2.0, 11.0])
def test_noise_has_its_law(bound: float) -> None:
    mechanism = TruncatedLaplace(scale=1.5, sensitivity=1, bound=bound)
    noise = mechanism.release(np.full(60_000, 0.4), bits=SeededBits(8)) - 0.4
    assert np.abs(noise).max() <= bound + 2.0**-20

    def below(scale: float, end: float) -> Any:
        whole = stats.laplace(scale=scale)
        return lambda z: (
            (whole.cdf(np.clip(z, -end, end)) - whole.cdf(-end)) / (1 - 2 * whole.cdf(-end))
        )

    assert stats.kstest(noise, below(1.5, bound)).pvalue > 1e-7
    assert stats.kstest(noise * 1.1, below(1.5, bound)).pvalue < 1e-9
    assert stats.kstest(noise / 1.1, below(1.5, bound)).pvalue < 1e-9


@pytest.mark.parametrize("bound", [0.6, 2.0, 30.0])
def test_deviation_and_half_widths(bound: float) -> None:
    mechanism = TruncatedLaplace(scale=1.5, sensitivity=1, bound=bound, grid_log2=-30)
    whole = 1 - math.exp(-bound / 1.5)
    z = np.linspace(0, bound, 2_000_001)
    second = np.trapezoid(z * z * np.exp(-z / 1.5) / 1.5 / whole, z)
    assert mechanism.standard_deviation == pytest.approx(math.sqrt(second), rel=1e-6)
    for confidence in (0.01, 0.5, 0.9, 0.999):
        width = mechanism.error_bound(confidence)
        assert -math.expm1(-width / 1.5) / whole == pytest.approx(confidence, rel=1e-6)
        assert -math.expm1(-width / 1.5) / whole >= confidence
    assert bound <= mechanism.error_bound(1) <= bound + 2.0**-30


def test_outputs_lie_on_the_grid_whatever_the_input() -> None:
    mechanism = TruncatedLaplace(scale=0.7, sensitivity=0.1, bound=9)
    x = np.array([0.1, -0.0, math.nan, math.inf, -math.inf, 1e300, 5e-324, 2.0**52 + 1])
    noisy = mechanism.release(x, bits=SeededBits(4))
    assert np.isfinite(noisy).all()
    steps = np.ldexp(noisy, -mechanism.grid_log2)
    small = np.abs(steps) < 2.0**53
    assert (steps[small] == np.rint(steps[small])).all()
    same = mechanism.release(np.array([math.nan, 0.0, -0.0]), bits=ScriptedBits([5] * 9))
    assert same[0] == same[1] == same[2]
    assert type(mechanism.release(3)) is float
    assert mechanism.release(np.zeros((2, 0))).shape == (2, 0)
    with pytest.raises(InvalidParameter, match="x"):
        mechanism.release(np.array(["a"]), bits=ScriptedBits([]))


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"scale": 0}, "scale"),
        ({"sensitivity": float("inf")}, "sensitivity"),
        ({"bound": 0.49}, "bound"),
        ({"bound": -3}, "bound"),
        ({"l0_sensitivity": 1.5}, "l0_sensitivity"),
        ({"grid_log2": -60}, "grid_log2"),
    ],
)
def test_wrong_numbers_are_refused(fields: dict[str, Any], name: str) -> None:
    with pytest.raises(InvalidParameter, match=name):
        TruncatedLaplace(**({"scale": 1, "sensitivity": 1, "bound": 5} | fields))


def test_wrong_guarantees_are_refused() -> None:
    wrong: list[Any] = [PureDP(1), ApproxDP(1, 0), ApproxDP(0, 0.1), 1.0]
    for guarantee in wrong:
        with pytest.raises(InvalidParameter):
            TruncatedLaplace.for_guarantee(guarantee, sensitivity=1)
    with pytest.raises(InvalidParameter, match="confidence"):
        TruncatedLaplace(scale=1, sensitivity=1, bound=5).error_bound(0)
