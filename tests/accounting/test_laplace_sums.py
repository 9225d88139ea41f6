"""Sums of Laplace losses against long arithmetic by other contours and by convolution."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
import random
from typing import Any

import mpmath
import numpy as np
import pytest

from tacet.accounting.contour.engine import delta_interval, epsilon_interval
from tacet.accounting.contour.laplace import LaplaceSum
from tacet.accounting.contour.laplace_cells import Turning
from tacet.privacy.events import Event, Gaussian, Laplace, Pure

mp = mpmath.MPContext()
mp.dps = 34


def scales_between(low: float, high: float, count: int, seed: int) -> list[float]:
    draw = random.Random(seed)
    return [low * (high / low) ** draw.random() for _ in range(count)]


def by_contour(scales: list[float], epsilon: float, *, c: float, x: float) -> Any:
    """Delta by the trapezoid rule at abscissa c, aliases at distance x, in 34 digits.

    Both aliases are below e^(-c x): c, x are chosen by the caller so that they do not matter.
    """
    h, e = 2 * mp.pi / x, mp.mpf(epsilon)
    rates = [1 / mp.mpf(b) for b in scales]
    total, n = mp.mpf(0), 0
    while True:
        s = mp.mpc(c, n * h)
        first, second = (s + 1) / (2 * s + 1), s / (2 * s + 1)
        value = mp.mpc(1)
        for u in rates:
            turn = mp.exp(s * u)
            value *= first * turn + second * mp.exp(-u) / turn
        term = value * mp.exp(-s * e) / (s * (s + 1)) * (mp.mpf("0.5") if n == 0 else 1)
        total += term.real
        n += 1
        if n > 5 and abs(term) < mp.mpf(10) ** -16 * abs(total):
            return h / mp.pi * total
        assert n < 400


@pytest.mark.parametrize(
    ("low", "high", "count", "delta"),
    [(10.0, 200.0, 1000, 1e-6), (1.0, 20.0, 300, 1e-10), (1.0, 20.0, 200, 1e-5)],
)
def test_many_different_scales_hold_long_arithmetic(
    low: float, high: float, count: int, delta: float
) -> None:
    scales = scales_between(low, high, count, 11)
    found = epsilon_interval([(Laplace(noise_multiplier=b), 1) for b in scales], delta=delta)
    assert found.width < 1e-8 * found.upper
    c = -0.7 * math.log(delta) / found.upper
    x = 4 * found.upper + 50 / c
    # what the reference leaves out is below 1e-12: far below the width that is tested
    values = [by_contour(scales, end, c=c, x=x) for end in found]
    assert values[0] >= delta * (1 - 1e-12)
    assert values[1] <= delta * (1 + 1e-12)


def test_delta_of_many_scales_holds_long_arithmetic() -> None:
    scales = scales_between(10.0, 200.0, 400, 3)
    composition = [(Laplace(noise_multiplier=b), 1) for b in scales]
    composition.append((Laplace(noise_multiplier=7.0), 40))
    found = delta_interval(composition, epsilon=6)
    truth = by_contour([*scales, *[7.0] * 40], 6.0, c=3.0, x=40.0)
    assert found.lower <= truth <= found.upper
    assert found.width < 1e-6 * found.upper


def test_stretches_are_bounds_of_the_transform() -> None:
    draw = random.Random(1)
    for size, largest in ((40, 0.3), (8, 3.0), (100, 40.0)):
        u = np.array([largest * draw.random() ** 2 + 1e-4 for _ in range(size)])
        counts = np.array([float(draw.choice((1, 1, 3))) for _ in range(size)])
        c = draw.uniform(0.1, 6.0)
        law = LaplaceSum(u=u, counts=counts)
        at = law.tilt(c, last=1.0, most=1000)
        assert at is not None
        turning = Turning(u=u, counts=counts, above=at.above, c=c)
        for start in (0.0, 3.0, 30.0, 1e4):
            edges = start + np.linspace(0.0, 8.0, 17)
            levels = turning.levels(edges[:-1], edges[1:])
            for first, last, level in zip(edges[:-1], edges[1:], levels, strict=True):
                inside = np.linspace(first, last, 9)
                logs, errors = at.nodes(inside)
                assert np.all(logs.real - errors <= level + 1e-9 * abs(level))


def test_the_tail_integral_is_a_bound() -> None:
    """Against the sum over many more nodes and the plain bound beyond them."""
    scales = np.array(scales_between(10.0, 200.0, 60, 5))
    law = LaplaceSum(u=1 / scales, counts=np.ones(60))
    c, h, start = 2.0, 0.5, 20
    at = law.tilt(c, last=1.0, most=1000)
    assert at is not None
    found = at.tail_integral(start=start, h=h, lead=at.tail, goal=1e-9)
    t = h * np.arange(start + 1, 400_000)
    size = 0.0
    for block in np.array_split(t, 40):
        size += float(np.exp(at.nodes(block)[0].real) @ (h / (c * c + block * block)))
    assert size <= found
    plain = math.exp(at.tail(start * h)) * math.atan2(c, start * h) / c
    assert found < 0.01 * plain


def test_five_hundred_mixed_mechanisms_are_narrow() -> None:
    scales = scales_between(2.0, 20.0, 12, 8)
    composition: list[tuple[Event, int]] = [(Laplace(noise_multiplier=b), 1) for b in scales]
    composition += [
        (Pure(epsilon=0.5), 5),
        (Gaussian(noise_multiplier=10.0), 100),
        (Gaussian(noise_multiplier=1.0).poisson_sampled(rate=0.01), 383),
    ]
    found = epsilon_interval(composition, delta=1e-6)
    assert found.width < 1e-8 * found.upper
    # more mechanisms cost no less
    less = epsilon_interval(composition[1:], delta=1e-6)
    assert less.lower <= found.upper
