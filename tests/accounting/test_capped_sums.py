"""Sums of sampled Gaussian steps below caps, against exact references of other kinds."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import mpmath as mp
import numpy as np
import pytest
from tests.tiers import mostly_slow

from unacorda.accounting import accountant
from unacorda.accounting.contour import engine as contour
from unacorda.accounting.pld import capped
from unacorda.accounting.pld.capped_laws import law_above, law_below
from unacorda.accounting.pld.capped_masses import Grid
from unacorda.accounting.pld.sampled_cells import SampledGaussian
from unacorda.errors import InvalidParameter, UnsupportedEvent
from unacorda.privacy.estimates import Interval
from unacorda.privacy.events import Event, Gaussian, Laplace
from unacorda.privacy.neighbors import AddRemove, ReplaceOne

mp.mp.dps = 30


def steps(rate: float, noise: float, count: int) -> list[tuple[Event, int]]:
    return [(Gaussian(noise_multiplier=noise).poisson_sampled(rate=rate), count)]


def relative_width(found: Interval) -> float:
    return (found.upper - found.lower) / found.upper


class Pair:
    """The exact pair of one step in mpmath, with the rate and noise that a float prints as."""

    def __init__(self, rate: float, noise: float) -> None:
        self.q, self.mu = mp.mpf(repr(rate)), 1 / mp.mpf(repr(noise))

    def loss(self, x: mp.mpf) -> mp.mpf:
        return mp.log(1 - self.q + self.q * mp.exp(self.mu * x - self.mu**2 / 2))

    def density(self, x: mp.mpf) -> mp.mpf:
        return (1 - self.q) * mp.npdf(x) + self.q * mp.npdf(x - self.mu)

    def place(self, loss: mp.mpf) -> mp.mpf:
        """Where the loss is this; -inf below all losses."""
        odds = (mp.exp(loss) - 1 + self.q) / self.q
        return (mp.log(odds) + self.mu**2 / 2) / self.mu if odds > 0 else -mp.inf

    def removed(self, epsilon: mp.mpf) -> mp.mpf:
        """delta of one step: P(x > t) - e^epsilon Q(x > t), P the law with the unit."""
        t = self.place(epsilon)
        if t == -mp.inf:
            return 1 - mp.exp(epsilon)
        tail = mp.ncdf(-t)
        return (1 - self.q - mp.exp(epsilon)) * tail + self.q * mp.ncdf(self.mu - t)

    def added(self, epsilon: mp.mpf) -> mp.mpf:
        """The same with both laws exchanged: the loss exceeds epsilon below a place."""
        t = self.place(-epsilon)
        if t == -mp.inf:
            return mp.mpf(0)
        mixed = (1 - self.q) * mp.ncdf(t) + self.q * mp.ncdf(t - self.mu)
        return mp.ncdf(t) - mp.exp(epsilon) * mixed

    def two(self, epsilon: float, reach: int = 11) -> mp.mpf:
        """delta of two steps, the worse direction: one is integrated, the other in closed form."""
        e, lowest = mp.mpf(epsilon), mp.log(1 - self.q)
        panels = [*mp.arange(-reach, self.mu + reach, 0.75)]

        def integral(of: Callable[[mp.mpf], mp.mpf], kink: mp.mpf) -> mp.mpf:
            bends = [kink + side * mp.mpf(2) ** -k for k in range(-1, 12) for side in (-1, 1)]
            inside = [x for x in (kink, *bends) if abs(x) < self.mu + reach]
            return mp.quad(of, sorted({*panels, *inside}), method="gauss-legendre", maxdegree=4)

        removed = integral(
            lambda x: self.density(x) * self.removed(e - self.loss(x)), self.place(e - lowest)
        )
        added = integral(
            lambda x: mp.npdf(x) * self.added(e + self.loss(x)), self.place(-e - lowest)
        )
        return max(removed, added)


def by_hits(rate: float, noise: float, count: int, epsilon: float) -> mp.mpf:
    """delta for faint noise: given the number of hits, the sum of the losses is Gaussian.

    An output of a step without the unit has the loss ln(1 - q), one with it a Gaussian one, up to
    events and relative errors below 1e-14.
    """
    q, mu, e = mp.mpf(repr(rate)), 1 / mp.mpf(repr(noise)), mp.mpf(epsilon)
    assert mu > 16
    total = mp.mpf(0)
    for hits in range(1, 400):
        chance = mp.binomial(count, hits) * q**hits * (1 - q) ** (count - hits)
        mean = count * mp.log(1 - q) + hits * (mu**2 / 2 + mp.log(q / (1 - q)))
        deviation = mu * mp.sqrt(hits)
        far = (mean - e) / deviation
        rest = mp.exp(e - mean + deviation**2 / 2) * mp.ncdf(far - deviation)
        total += chance * (mp.ncdf(far) - rest)
    return total


@pytest.mark.long
@pytest.mark.parametrize(
    ("rate", "noise"),
    mostly_slow(
        [
            (1e-7, 0.3),
            (0.3, 5.0),
            (1e-3, 0.05),
            (0.9, 0.5),
        ]
    ),
)
def test_cells_hold_their_masses_and_ratios(rate: float, noise: float) -> None:
    step = SampledGaussian(rate, 1 / noise)
    q, mu = mp.mpf(step.rate), mp.mpf(step.mean)
    edges = np.sort(np.concatenate((np.linspace(-9, 9 + step.mean, 60), [0.1, 0.1 + 1e-9])))
    cells = step.grouped(edges)
    lump, tail = step.below(float(edges[30])), step.above(float(edges[30]))
    ends = [(mp.mpf(a), mp.mpf(b)) for a, b in itertools.pairwise(edges)]
    found = [(cells, i, pair) for i, pair in enumerate(ends)]
    middle = mp.mpf(float(edges[30]))
    found += [(lump, 0, (-mp.inf, middle)), (tail, 0, (middle, mp.inf))]

    def mass(a: mp.mpf, b: mp.mpf) -> mp.mpf:
        return mp.ncdf(b) - mp.ncdf(a) if b < 0 else mp.ncdf(-a) - mp.ncdf(-b)

    with mp.workdps(400):
        for cell, i, (a, b) in found:
            null, moved = mass(a, b), mass(a - mu, b - mu)
            z = mp.log(q / (1 - q) * moved / null)
            assert abs(mp.log(null) - float(cell.log_null[i])) <= cell.null_error[i] < 1e-8
            assert abs(z - float(cell.z[i])) <= cell.z_error[i] < 1e-8
            assert abs(mp.log1p(mp.exp(z)) - float(cell.offset[i])) <= cell.offset_error[i]


@pytest.mark.parametrize("remove", [True, False])
@pytest.mark.parametrize(
    ("rate", "noise", "step", "top"), [(0.01, 0.4, 1e-3, 6), (1e-5, 0.2, 1e-4, 3)]
)
def test_laws_of_one_step_hold_its_profile(
    rate: float, noise: float, step: float, top: float, remove: bool
) -> None:
    exact = Pair(rate, noise)
    sampled = SampledGaussian(rate, 1 / noise)
    exact.q, exact.mu = mp.mpf(sampled.rate), mp.mpf(sampled.mean)
    grid = Grid(step=step, tilt=2.0, remove=remove, most=1 << 17)
    above, below = law_above(sampled, grid, top=top), law_below(sampled, grid, top=top)
    assert above is not None
    assert below is not None
    for epsilon in (0.0, 1e-6, 3e-4, 0.004, 0.5, 2.0):
        at = mp.mpf(epsilon)
        truth = exact.removed(at) if remove else exact.added(at)
        ends = []
        for law, side in ((above, 1), (below, -1)):
            nodes = (law.law.first + np.arange(len(law.law.values))) * step
            masses = law.law.values * np.exp(law.law.height - grid.tilt * nodes)
            losses = nodes + law.base + side * law.law.drift
            value = float(np.sum(masses * np.maximum(-np.expm1(epsilon - losses), 0.0)))
            if law.tail is not None:
                apart = math.exp(law.tail[0]) - math.exp(epsilon + law.tail[1])
                value += max(apart, 0.0)
            ends.append(value)
        slack = 1e-12 * float(truth) + 1e-16
        assert ends[1] - slack <= float(truth) <= ends[0] + slack
        assert ends[0] - ends[1] <= 0.02 * float(truth)


@pytest.mark.long
@pytest.mark.parametrize(
    ("rate", "noise", "epsilon"),
    [
        (1e-5, 0.2, 2.0),
        pytest.param(1e-4, 0.36, 0.0015, marks=pytest.mark.slow),
        pytest.param(0.3, 0.3, 6.0, marks=pytest.mark.slow),
        pytest.param(6e-4, 0.0674, 248.0, marks=pytest.mark.slow),
        (0.01, 0.5, 0.02),
    ],
)
def test_two_steps_against_an_integral(rate: float, noise: float, epsilon: float) -> None:
    truth = Pair(rate, noise).two(epsilon)
    found = capped.delta_interval(steps(rate, noise, 2), epsilon=epsilon)
    assert found.lower <= truth * (1 + mp.mpf(10) ** -14)
    assert found.upper >= truth * (1 - mp.mpf(10) ** -14)
    assert relative_width(found) < 1e-4
    back = capped.epsilon_interval(steps(rate, noise, 2), delta=float(truth))
    assert back.lower <= epsilon * (1 + 1e-11)
    assert back.upper >= epsilon * (1 - 1e-11)


@pytest.mark.long
@pytest.mark.parametrize(
    ("rate", "noise", "count", "delta"),
    mostly_slow(
        [
            (0.001, 0.05, 1000, 1e-5),
            (1.5e-6, 0.06, 400, 7.7e-5),
            (4.7e-4, 0.0502, 54, 4.2e-5),
            (3e-5, 0.06, 9000, 1e-11),
            (0.02, 0.05, 150, 1e-8),
            (0.00176, 0.06196, 3536, 7.844e-263),
        ]
    ),
)
def test_faint_noise_against_numbers_of_hits(
    rate: float, noise: float, count: int, delta: float
) -> None:
    found = capped.epsilon_interval(steps(rate, noise, count), delta=delta)
    assert relative_width(found) < 3e-5
    assert by_hits(rate, noise, count, found.lower) > delta * (1 - 1e-9)
    assert by_hits(rate, noise, count, found.upper) < delta * (1 + 1e-9)
    # the reference would tell an end that is off by a ten-thousandth
    assert by_hits(rate, noise, count, found.upper * 1.0001) < delta
    assert by_hits(rate, noise, count, found.lower * 0.9999) > delta


@pytest.mark.long
@pytest.mark.parametrize(
    ("rate", "noise", "count", "delta"),
    [
        (0.01, 1.0, 1000, 1e-5),
        (0.2, 0.8, 100, 1e-9),
        pytest.param(1e-3, 0.5, 3000, 1e-6, marks=pytest.mark.slow),
        pytest.param(0.9, 2.0, 40, 1e-7, marks=pytest.mark.slow),
        (0.03, 0.4, 300, 1e-3),
        (0.0047, 4.14, 2573, 1e-8),
    ],
)
def test_against_contours(rate: float, noise: float, count: int, delta: float) -> None:
    """Another method with other steps, where it is narrow."""
    known = contour.epsilon_interval(steps(rate, noise, count), delta=delta)
    assert relative_width(known) < 1e-7
    found = capped.epsilon_interval(steps(rate, noise, count), delta=delta)
    assert found.lower <= known.upper
    assert found.upper >= known.lower
    assert relative_width(found) < 1e-4
    own = contour.delta_interval(steps(rate, noise, count), epsilon=found.upper)
    delta_found = capped.delta_interval(steps(rate, noise, count), epsilon=found.upper)
    assert delta_found.lower <= own.upper
    assert delta_found.upper >= own.lower
    assert own.lower <= delta


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((0.01, 0.9, 300), (0.002, 0.5, 200)),
        ((0.2, 0.8, 100), (4.6e-7, 13.3, 45)),  # losses of which no grid tells much
    ],
)
def test_several_kinds_of_steps_against_contours(
    first: tuple[float, float, int], second: tuple[float, float, int]
) -> None:
    parts = steps(*first) + steps(*second)
    known = contour.epsilon_interval(parts, delta=1e-6)
    found = capped.epsilon_interval(parts, delta=1e-6)
    assert found.lower <= known.upper
    assert found.upper >= known.lower
    assert relative_width(known) < 1e-7
    assert relative_width(found) < 1e-4


@pytest.mark.long
def test_more_is_never_cheaper() -> None:
    base = capped.epsilon_interval(steps(1e-4, 0.3, 100), delta=1e-6)
    for more in (steps(1.1e-4, 0.3, 100), steps(1e-4, 0.28, 100), steps(1e-4, 0.3, 120)):
        assert capped.epsilon_interval(more, delta=1e-6).lower > base.upper
    assert capped.epsilon_interval(steps(1e-4, 0.3, 100), delta=2e-6).upper < base.lower


@pytest.mark.long
def test_rare_hits_cost_nothing_at_a_large_delta() -> None:
    found = capped.epsilon_interval(steps(1e-7, 0.1, 100), delta=1e-2)
    assert found == Interval(0.0, 0.0)
    assert capped.delta_interval(steps(1e-7, 0.1, 100), epsilon=0).upper < 1.1e-5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rate", "noise", "count", "delta"),
    mostly_slow(
        [
            (0.001, 0.05, 1000, 1e-5),
            (1.26e-6, 0.0606, 2328, 5.4e-6),
            pytest.param(2.87e-5, 0.219, 334, 5e-3, marks=pytest.mark.slow),
            pytest.param(8.27e-5, 0.36, 2, 9.4e-5, marks=pytest.mark.slow),
            pytest.param(4.2474e-6, 0.1919, 1363, 3.656e-3, marks=pytest.mark.slow),
        ]
    ),
)
def test_the_accountant_is_narrow_where_contours_are_not(
    rate: float, noise: float, count: int, delta: float
) -> None:
    event = Gaussian(noise_multiplier=noise).poisson_sampled(rate=rate) * count
    found, findings = accountant.priced(event, delta=delta)
    assert relative_width(found) <= 1e-4
    assert "sums below caps (FFT)" in [one.engine for one in findings]
    assert "privacy loss distribution (FFT)" not in [one.engine for one in findings]
    delta_found = accountant.delta_interval(event, epsilon=found.upper)
    assert delta_found.lower <= delta


def test_others_are_refused() -> None:
    event = Gaussian(noise_multiplier=0.1).poisson_sampled(rate=0.01)
    with pytest.raises(UnsupportedEvent):
        capped.epsilon_interval([(event, 10)], delta=1e-5, neighbors=ReplaceOne)
    laplace = Laplace(noise_multiplier=0.1).poisson_sampled(rate=0.01)
    with pytest.raises(UnsupportedEvent):
        capped.epsilon_interval([(laplace, 10)], delta=1e-5, neighbors=AddRemove)
    assert capped.delta_interval([(event, 10**11)], epsilon=1).lower > 1 - 1e-12
    with pytest.raises(UnsupportedEvent):
        capped.delta_interval([], epsilon=1)
    for delta in (0, 1, -1):
        with pytest.raises(InvalidParameter):
            capped.epsilon_interval([(event, 10)], delta=delta)
    with pytest.raises(InvalidParameter):
        capped.delta_interval([(event, 10)], epsilon=-1)
