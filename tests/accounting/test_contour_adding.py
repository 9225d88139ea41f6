"""The nodes and the tail of a sampled Gaussian in both directions, against sums of other steps.

docs/proofs/contour.md, Lemma 3 and Theorem 4.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest
from tests.tiers import mostly_slow

from unacorda.accounting.contour.parts import flatten, parts_of
from unacorda.accounting.contour.sampled_gaussian import SampledGaussian, SampledGaussianTilt
from unacorda.accounting.rules.base import Direction
from unacorda.privacy.events import Gaussian


def law_of(q: float, sigma: float, count: int, direction: Direction) -> SampledGaussian:
    steps = [(Gaussian(noise_multiplier=sigma).poisson_sampled(rate=q), count)]
    parts = parts_of(flatten(steps), direction=direction, log_delta=math.log(1e-9))
    assert parts is not None
    (law,) = parts.factors
    assert isinstance(law, SampledGaussian)
    return law


def moment(q: float, sigma: float, s: Any, ends: tuple[float, float], *, remove: bool) -> Any:
    """E e^(s L) of one step whose output lies between the ends, in 30 digits."""
    mp = mpmath.mp
    rate, mu = mp.mpf(q), 1 / mp.mpf(sigma)

    def integrand(z: Any) -> Any:
        log = mp.log(1 - rate + rate * mp.exp(mu * z - mu * mu / 2))
        return mp.npdf(z) * mp.exp((s + 1) * log if remove else -s * log)

    return mp.quad(integrand, mp.linspace(*map(mp.mpf, ends), 40), method="gauss-legendre")


CASES = [(0.02, 0.7, 40, 4.0), (0.5, 3.0, 10, 9.0)]


@pytest.mark.long
@pytest.mark.parametrize("direction", mostly_slow(["remove", "add"]))
@pytest.mark.parametrize(("q", "sigma", "count", "c"), CASES)
def test_nodes_are_within_their_errors(
    q: float, sigma: float, count: int, c: float, direction: Direction
) -> None:
    made = law_of(q, sigma, count, direction).tilt(c, last=30.0, most=20_000)
    assert isinstance(made, SampledGaussianTilt)
    t = np.array([0.7, 11.0, 30.0])
    log, error = made.nodes(t)
    assert error[0] < 1e-6
    with mpmath.workdps(30):
        whole = moment(q, sigma, mpmath.mpf(c), made.ends, remove=direction == "remove")
        assert abs(count * mpmath.log(whole) - made.log_m) <= made.log_m_error
        assert made.log_m_error < 1e-7
        for place, value, slip in zip(t, log, error, strict=True):
            one = moment(q, sigma, mpmath.mpc(c, place), made.ends, remove=direction == "remove")
            turned = mpmath.expj(mpmath.mpf(float(place)) * mpmath.mpf(made.mean))
            told = mpmath.exp(mpmath.mpc(complex(value))) * turned
            assert abs(told - (one / whole) ** count) <= math.expm1(float(slip)) * abs(told) + 1e-15


@pytest.mark.parametrize("direction", mostly_slow(["remove", "add"]))
@pytest.mark.parametrize(("q", "sigma", "count", "c"), CASES)
def test_the_tail_is_above_what_plain_sums_tell_of_all_later_nodes(
    q: float, sigma: float, count: int, c: float, direction: Direction
) -> None:
    made = law_of(q, sigma, count, direction).tilt(c, last=60.0, most=20_000)
    assert isinstance(made, SampledGaussianTilt)
    z = np.linspace(*made.ends, 20_011)
    log = np.log1p(q * np.expm1(z / sigma - 0.5 / sigma**2))
    loss = log if direction == "remove" else -log
    weights = np.exp(-0.5 * z * z + (c + 1 if direction == "remove" else -c) * log)
    weights /= weights.sum()
    t = np.geomspace(0.5, 200.0, 120)
    sizes = np.array([abs(np.exp(1j * place * loss) @ weights) for place in t])
    later = count * np.log(np.maximum.accumulate(sizes[::-1])[::-1])
    bounds = np.array([made.tail(float(place)) for place in t])
    sure = later > -20.0 * count  # the others drown in round-off
    assert np.all(later[sure] <= bounds[sure] + 1e-9)
    assert bounds[-1] < -1.0 or direction == "add"
    assert bounds[0] < 0 or later[0] > -0.1
