"""Sampled Gaussian steps whose rare losses are huge, against exact references of other kinds."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import pytest

from unacorda.accounting import delta_interval, epsilon_interval
from unacorda.privacy.events import Event, Gaussian

MP = mpmath.mp.clone()
MP.dps = 30


def steps(rate: float, noise: float, count: int) -> Event:
    return Gaussian(noise_multiplier=noise).poisson_sampled(rate=rate) * count


class Pair:
    """The exact pair of one step in mpmath, with the rate and noise that a float prints as."""

    def __init__(self, rate: float, noise: float) -> None:
        self.q, self.mu = MP.mpf(repr(rate)), 1 / MP.mpf(repr(noise))

    def loss(self, x: Any) -> Any:
        return MP.log(1 - self.q + self.q * MP.exp(self.mu * x - self.mu**2 / 2))

    def density(self, x: Any) -> Any:
        return (1 - self.q) * MP.npdf(x) + self.q * MP.npdf(x - self.mu)

    def place(self, loss: Any) -> Any:
        """Where the loss is this; -inf below all losses."""
        odds = (MP.exp(loss) - 1 + self.q) / self.q
        return (MP.log(odds) + self.mu**2 / 2) / self.mu if odds > 0 else -MP.inf

    def removed(self, epsilon: Any) -> Any:
        """delta of one step: P(x > t) - e^epsilon Q(x > t), P the law with the unit."""
        t = self.place(epsilon)
        if t == -MP.inf:
            return 1 - MP.exp(epsilon)
        tail = MP.ncdf(-t)
        return (1 - self.q - MP.exp(epsilon)) * tail + self.q * MP.ncdf(self.mu - t)

    def added(self, epsilon: Any) -> Any:
        """The same with both laws exchanged: the loss exceeds epsilon below a place."""
        t = self.place(-epsilon)
        if t == -MP.inf:
            return MP.mpf(0)
        mixed = (1 - self.q) * MP.ncdf(t) + self.q * MP.ncdf(t - self.mu)
        return MP.ncdf(t) - MP.exp(epsilon) * mixed

    def two(self, epsilon: float, reach: int = 11) -> Any:
        """delta of two steps, the worse direction: one is integrated, the other in closed form."""
        e, lowest = MP.mpf(epsilon), MP.log(1 - self.q)
        panels = [*MP.arange(-reach, self.mu + reach, 0.75)]

        def integral(of: Callable[[Any], Any], kink: Any) -> Any:
            bends = [kink + side * MP.mpf(2) ** -k for k in range(-1, 12) for side in (-1, 1)]
            inside = [x for x in (kink, *bends) if abs(x) < self.mu + reach]
            return MP.quad(of, sorted({*panels, *inside}), method="gauss-legendre", maxdegree=4)

        removed = integral(
            lambda x: self.density(x) * self.removed(e - self.loss(x)), self.place(e - lowest)
        )
        added = integral(
            lambda x: MP.npdf(x) * self.added(e + self.loss(x)), self.place(-e - lowest)
        )
        return max(removed, added)


def by_hits(rate: float, noise: float, count: int, epsilon: float) -> Any:
    """delta for faint noise: given the number of hits, the sum of the losses is Gaussian.

    An output of a step without the unit has the loss ln(1 - q), one with it a Gaussian one, up to
    events and relative errors below 1e-14.
    """
    q, mu, e = MP.mpf(repr(rate)), 1 / MP.mpf(repr(noise)), MP.mpf(epsilon)
    assert mu > 16
    total = MP.mpf(0)
    for hits in range(1, 400):
        chance = MP.binomial(count, hits) * q**hits * (1 - q) ** (count - hits)
        mean = count * MP.log(1 - q) + hits * (mu**2 / 2 + MP.log(q / (1 - q)))
        deviation = mu * MP.sqrt(hits)
        far = (mean - e) / deviation
        rest = MP.exp(e - mean + deviation**2 / 2) * MP.ncdf(far - deviation)
        total += chance * (MP.ncdf(far) - rest)
    return total


@pytest.mark.long
@pytest.mark.parametrize(
    ("rate", "noise", "epsilon"),
    [
        (1e-5, 0.2, 2.0),
        (1e-4, 0.36, 0.0015),
        (0.01, 0.5, 0.02),
        pytest.param(0.3, 0.3, 6.0, marks=pytest.mark.slow),
        pytest.param(6e-4, 0.0674, 248.0, marks=pytest.mark.slow),
    ],
)
def test_two_steps_against_an_integral(rate: float, noise: float, epsilon: float) -> None:
    truth = Pair(rate, noise).two(epsilon)
    found = delta_interval(steps(rate, noise, 2), epsilon=epsilon)
    assert found.lower <= truth * (1 + MP.mpf(10) ** -14)
    assert found.upper >= truth * (1 - MP.mpf(10) ** -14)
    back = epsilon_interval(steps(rate, noise, 2), delta=float(truth))
    assert back.lower <= epsilon * (1 + 1e-11)
    assert epsilon * (1 - 1e-11) <= back.upper <= epsilon + 1e-3 * max(epsilon, 1.0)


@pytest.mark.long
@pytest.mark.parametrize(
    ("rate", "noise", "count", "delta"),
    [
        (0.001, 0.05, 1000, 1e-5),
        (1.5e-6, 0.06, 400, 7.7e-5),
        (4.7e-4, 0.0502, 54, 4.2e-5),
        pytest.param(3e-5, 0.06, 9000, 1e-11, marks=pytest.mark.slow),
        pytest.param(0.02, 0.05, 150, 1e-8, marks=pytest.mark.slow),
    ],
)
def test_faint_noise_against_numbers_of_hits(
    rate: float, noise: float, count: int, delta: float
) -> None:
    found = epsilon_interval(steps(rate, noise, count), delta=delta)
    assert found.lower == 0.0 or by_hits(rate, noise, count, found.lower) > delta * (1 - 1e-9)
    assert by_hits(rate, noise, count, found.upper) < delta * (1 + 1e-9)
    # the least epsilon lies at most a thousandth below the upper end
    assert by_hits(rate, noise, count, found.upper * 0.999) > delta


@pytest.mark.long
def test_few_steps_at_rare_hits_are_told_though_their_largest_losses_are_huge() -> None:
    """Where Chernoff's best order follows losses beyond those that matter."""
    found = epsilon_interval(steps(3.17e-5, 0.462, 2), delta=2.34e-7)
    assert 0.0555 < found.lower < found.upper < 0.0556
    assert epsilon_interval(steps(1.19e-5, 0.983, 85), delta=4.55e-10).upper < 0.0025
