"""Jumps added to the profile of a bulk, against references of other kinds."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from scipy.interpolate import CubicSpline
from scipy.special import ndtr
from tests.tiers import mostly_slow

from unacorda.accounting import accountant
from unacorda.accounting.contour import engine as contour
from unacorda.accounting.jumps import engine
from unacorda.accounting.jumps.bulk import bulk_of
from unacorda.accounting.jumps.compound import compound, log_more
from unacorda.accounting.jumps.laws import jumps_above, jumps_below
from unacorda.accounting.pld.sampled_cells import Mark, SampledGaussian
from unacorda.accounting.profiles.boxes import Array
from unacorda.errors import InvalidParameter, UnsupportedEvent
from unacorda.privacy.estimates import Interval
from unacorda.privacy.events import Event, Gaussian, Laplace
from unacorda.privacy.neighbors import ReplaceOne

mp.mp.dps = 30


def steps(rate: float, noise: float, count: int) -> list[tuple[Event, int]]:
    return [(Gaussian(noise_multiplier=noise).poisson_sampled(rate=rate), count)]


def width(found: Interval) -> float:
    return (found.upper - found.lower) / found.upper


def marked_profile(step: SampledGaussian, mark: Mark, epsilon: float) -> mp.mpf:
    """E (1 - e^(epsilon - L))+ over the outputs of a step, each with its mark's probability."""
    q, mean, at = mp.mpf(step.rate), mp.mpf(step.mean), mp.exp(mp.mpf(epsilon))
    place, spread = mp.mpf(mark.place), mp.mpf(mark.width)
    start = (mp.log((at - 1 + q) / q) + mean * mean / 2) / mean
    ends = [start + mp.mpf(k) / 12 for k in range(16)]  # it falls like e^(-start x)
    ends += [start + k for k in (2, 3, 5, 8)]
    return mp.quad(
        lambda x: (
            mp.ncdf((x - place) / spread)
            * mp.npdf(x)
            * (1 - q + q * mp.exp(mean * x - mean * mean / 2) - at)
        ),
        ends,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rate", "noise", "mark", "epsilon"),
    mostly_slow(
        [
            (1.03e-9, 0.6155, Mark(6.9, 0.15), 4.3e-4),
            (2.2e-9, 1.65, Mark(19.0, 0.3), 0.065),
            (8.3e-9, 0.84, Mark(11.0, 0.2), 20.0),
        ]
    ),
)
def test_jumps_on_a_grid_hold_their_profile(
    rate: float, noise: float, mark: Mark, epsilon: float
) -> None:
    step = SampledGaussian(rate, 1 / noise)
    nodes, last = 4096, 2048
    h = 2 * epsilon / nodes
    low, times = mark.place - 9 * mark.width, 20.0
    above = jumps_above(step, mark, h=h, nodes=nodes, low=low, last=last, lift=0.0, log_times=times)
    below = jumps_below(step, mark, h=h, nodes=nodes, low=low, last=last, log_times=times)
    assert above is not None
    assert below is not None
    places = h * np.arange(nodes + 1)
    for share in (0.1, 0.3, 0.5, 0.8, 0.95):
        at = share * epsilon
        truth = float(marked_profile(step, mark, at) * mp.exp(times))
        high = float(above.masses @ np.maximum(-np.expm1(at - places), 0.0)) + above.far[0]
        own = np.maximum(-np.expm1(at + below.drift - places), 0.0)
        least = float(below.masses @ own) - below.far[0] * math.expm1(at - below.far[1])
        assert least <= truth * (1 + 1e-11)
        assert truth <= high * (1 + 1e-11)
        assert high - least <= 0.05 * truth


def test_an_exponential_of_a_measure_is_the_sum_of_its_powers() -> None:
    numbers = np.random.default_rng(4).random(40) * np.exp(-0.3 * np.arange(40))
    jumps = np.concatenate(([1e-3, 0.0, 0.0], 0.05 * numbers[3:], np.zeros(80)))
    whole = np.zeros(len(jumps) * 12)
    power = np.zeros_like(whole)
    power[0] = 1.0
    for number in range(1, 12):
        whole += power
        power = np.convolve(power, jumps)[: len(whole)] / number
    found = compound(jumps)
    assert found is not None
    exact = whole[: len(jumps)]
    assert np.all(np.abs(found.masses - exact) <= (found.error + 1e-13) * exact + 1e-17)
    rest = float(whole[len(jumps) :].sum())
    assert rest * (1 - 1e-12) <= found.beyond <= 3 * rest
    assert compound(np.append(np.zeros(20), 3.0)) is None  # the mean is too near to the end


def test_no_product_of_rare_jumps_underflows() -> None:
    jumps = np.zeros(9)
    jumps[3] = 1e-160
    found = compound(jumps)
    assert found is not None
    assert found.masses[6] == pytest.approx(0.5e-320, rel=0.01)
    assert found.masses[3] == pytest.approx(1e-160)


def test_more_jumps_than_are_counted_are_bounded() -> None:
    most, log = log_more(0.5, -100.0)
    rest = mp.nsum(lambda k: mp.mpf(0.5) ** k / mp.factorial(k), [most + 1, mp.inf])
    assert float(mp.log(rest)) <= log < -100.0
    assert log_more(0.5, -90.0)[0] <= most


class _Bulk:
    """The profile of the steps without a mark, by a plain trapezoid rule for every integral."""

    def __init__(self, step: SampledGaussian, count: int, mark: Mark) -> None:
        self.count = count
        x = np.arange(-13.0, mark.place + 9.5 * mark.width, 0.004)
        self.weight = 0.004 * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
        self.weight *= ndtr((mark.place - x) / mark.width)
        self.over = step.rate * np.expm1(step.mean * (x - step.mean / 2))
        self.loss = np.log1p(self.over)
        spread = math.hypot(1.0, mark.width)
        null, moved = (float(ndtr((s - mark.place) / spread)) for s in (0.0, step.mean))
        self.null = null
        self.drift = step.rate * (null - moved)
        self.log_mass = count * math.log1p(-null + self.drift)

    def profile(self, epsilons: Array, c: float) -> Array:
        """Of the measure, not divided by its mass."""
        h = c / 50
        t = h * np.arange(900)
        s = c + 1j * t
        y = np.multiply.outer(s + 1, self.loss)
        small = y * y / 2 + y**3 / 6 + y**4 / 24 + y**5 / 120
        excess = np.where(np.abs(y) < 1e-3, small, np.exp(y) - 1 - y)
        own = self.over - self.loss
        own = np.where(np.abs(self.over) < 1e-4, self.over**2 / 2 - self.over**3 / 3, own)
        lifted = excess @ self.weight - (s + 1) * float(own @ self.weight)
        log_m = self.count * np.log1p(lifted - self.null + (s + 1) * self.drift)
        kernel = np.exp(log_m) / (s * (s + 1))
        kernel[0] *= 0.5
        turned = np.exp(-np.multiply.outer(epsilons, s)) @ kernel
        found: Array = h / math.pi * turned.real - math.exp(self.log_mass - 2 * math.pi * c / h)
        return found


_CASE = (1.03e-9, 0.6155, 360_000_000, 0.0004292)


@pytest.mark.long
@pytest.mark.parametrize("place", mostly_slow([6.6, 7.0]))
def test_the_profile_of_a_bulk_lies_between_its_sides(place: float) -> None:
    rate, noise, count, epsilon = _CASE
    step, mark = SampledGaussian(rate, 1 / noise), Mark(place, 0.15)
    found = bulk_of(step, count, fewer=0, mark=mark, log_delta=-30.6, top=epsilon, tilt=8 / epsilon)
    assert found is not None
    plain = _Bulk(step, count, mark)
    # abscissas near the saddle points: elsewhere digits of the reference cancel
    for c, shares in ((5e3, (-0.6, -0.2)), (1.2e4, (0.0, 0.2)), (2.8e4, (0.6, 0.7))):
        at = epsilon * np.array(shares)
        truth = plain.profile(at, c) / math.exp(plain.log_mass)
        low, high = found.sides(at, np.ones(len(at)))
        assert np.all(low <= truth * (1 + 1e-6))
        assert np.all(truth <= high * (1 + 1e-6))
        assert np.all(high - low <= 1e-5 * truth)
    # far below the sum of the losses all is known but the mass itself; far above nothing is left
    low, high = found.sides(np.array([-1.0, -0.01]), np.ones(2))
    assert np.all(low <= -np.expm1([-1.0, -0.01]) * (1 + 1e-9))
    assert np.all(high <= -np.expm1([-1.0, -0.01]) * (1 + 1e-6))


@pytest.mark.slow
def test_delta_is_that_of_none_one_two_and_three_jumps_by_plain_integrals() -> None:
    rate, noise, count, epsilon = _CASE
    step, mark = SampledGaussian(rate, 1 / noise), Mark(6.8, 0.2)  # another cut than the engine's
    plain = _Bulk(step, count, mark)
    near = np.linspace(-0.9, 1.0, 160) * epsilon
    parts = np.split(near, np.searchsorted(near, epsilon * np.array([-0.1, 0.3, 0.6, 0.85])))
    pairs = zip(parts, (6e3, 1.6e4, 2.2e4, 3e4, 4e4), strict=True)
    profile = np.concatenate([plain.profile(part, c) for part, c in pairs])
    smooth = CubicSpline(near, np.log(profile))
    # below all losses: the masses under both laws
    mass, other = plain.log_mass, count * math.log1p(-plain.null)

    def bulk(at: Array) -> Array:
        inside = np.exp(smooth(np.maximum(at, near[0])))
        below = -math.exp(mass) * np.expm1(at + other - mass)
        found: Array = np.where(at < near[0], below, inside)
        return found

    x = np.linspace(5.0, 14.0, 40_001)
    loss = np.log1p(step.rate * np.expm1(step.mean * (x - step.mean / 2)))
    jumps = count * (x[1] - x[0]) * np.exp(-x * x / 2 + loss) / math.sqrt(2 * math.pi)
    jumps *= ndtr((x - mark.place) / mark.width)
    alone = float(jumps @ bulk(epsilon - loss))
    coarse = jumps[:-1].reshape(-1, 20).sum(axis=1)
    places = (jumps * loss)[:-1].reshape(-1, 20).sum(axis=1) / coarse
    two = 0.5 * float(
        sum(m * (coarse @ bulk(epsilon - places - p)) for m, p in zip(coarse, places, strict=True))
    )
    three = two**2 / (2 * alone)  # a large one and two small ones, as two is one and one
    truth = float(bulk(np.array([epsilon]))[0]) + alone + two + three
    found = engine.delta_interval(steps(rate, noise, count), epsilon=epsilon)
    assert width(found) < 2e-5
    assert found.lower < truth * (1 + 5e-6)
    assert truth * (1 - 5e-6) < found.upper


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rate", "noise", "count", "delta", "known"),
    mostly_slow(
        [  # the ends are those of the other engines, which take long or are wide
            (1.03e-9, 0.6155, 360_000_000, 5e-14, (0.000429196, 0.000429291)),
            (2.2e-9, 1.65, 190_000_000_000, 1.5e-173, (0.0423, 0.1643)),
            (2.106e-08, 1.868, 31_183_609_539, 3.071e-222, (0.406, 0.862)),
            (8.288e-09, 0.8385, 543_135_398_569, 9.923e-295, (24.335, 27.277)),
            (1.543e-09, 0.9186, 62_923_476_315, 5.145e-44, (0.011773, 0.011801)),
            (5.343e-09, 1.353, 481_136_524, 2.672e-195, (3.215091, 3.215121)),
            (2.206e-09, 1.318, 37_175_862, 9.707e-64, (0.00079197, 0.00079202)),
        ]
    ),
)
def test_rare_jumps_over_a_tiny_bulk_are_narrow(
    rate: float, noise: float, count: int, delta: float, known: tuple[float, float]
) -> None:
    found = engine.epsilon_interval(steps(rate, noise, count), delta=delta)
    assert known[0] <= found.lower <= found.upper <= known[1]
    assert width(found) < 2e-5
    back = engine.delta_interval(steps(rate, noise, count), epsilon=found.upper)
    assert back.lower <= delta
    again = engine.delta_interval(steps(rate, noise, count), epsilon=found.lower)
    assert again.upper >= delta


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rate", "noise", "count", "delta"),
    mostly_slow(
        [(5.9e-9, 0.5595, 721_937_745_075, 2.0e-238), (4.5e-9, 0.559, 20_299_017_482, 3.3e-124)]
    ),
)
def test_contours_meet_jumps_over_a_bulk_where_both_are_narrow(
    rate: float, noise: float, count: int, delta: float
) -> None:
    exact = contour.epsilon_interval(steps(rate, noise, count), delta=delta)
    found = engine.epsilon_interval(steps(rate, noise, count), delta=delta)
    assert width(exact) < 1e-6
    assert found.lower <= exact.upper
    assert exact.lower <= found.upper
    assert width(found) < 1e-3


@pytest.mark.slow
def test_the_accountant_asks_for_jumps_over_a_bulk() -> None:
    rate, noise, count, _ = _CASE
    event = Gaussian(noise_multiplier=noise).poisson_sampled(rate=rate) * count
    found, asked = accountant.priced(event, delta=Fraction(5, 10**14))
    assert [one.engine for one in asked] == ["contour quadrature", "jumps over a bulk"]
    assert width(found) < 1e-5


def test_what_is_not_known_is_refused() -> None:
    known = steps(1e-8, 1.0, 10**7)
    with pytest.raises(UnsupportedEvent):
        engine.epsilon_interval(steps(1e-8, 1.0, 99), delta=1e-9)
    with pytest.raises(UnsupportedEvent):
        engine.epsilon_interval([*known, (Laplace(noise_multiplier=1), 1)], delta=1e-9)
    with pytest.raises(UnsupportedEvent):
        engine.delta_interval(known, epsilon=0.1, neighbors=ReplaceOne)
    for delta in (0, 1, -0.1, math.nan, 1e-301):
        with pytest.raises(InvalidParameter):
            engine.epsilon_interval(known, delta=delta)
    with pytest.raises(InvalidParameter):
        engine.delta_interval(known, epsilon=-1e-9)
