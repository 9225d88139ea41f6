"""Poisson-sampled Laplace steps: few and many, common and rare, against long arithmetic."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import pytest
from tests.accounting.long_contours import MP, Points, boole, holds, mixed
from tests.tiers import mostly_slow

from unacorda.accounting.contour.engine import epsilon_interval
from unacorda.accounting.contour.panels import Panels
from unacorda.accounting.contour.parts import flatten, parts_of
from unacorda.privacy.events import Laplace

BOTH: tuple[Literal["remove", "add"], ...] = ("remove", "add")


def sampled(noise: float, rate: float, *, remove: bool) -> Points:
    """The loss of one step: two atoms, and Boole's rule for what lies between."""
    u = 1 / MP.mpf(noise)
    # in y from -1 to 1 the ratio is e^(u y)
    pairs = [(MP.exp(-u) / 2, MP.mpf(1) / 2), (MP.mpf(1) / 2, MP.exp(-u) / 2)]
    pairs += boole(
        lambda y: u / 4 * MP.exp(-u * (1 - y) / 2),
        lambda y: u / 4 * MP.exp(-u * (1 + y) / 2),
        [MP.mpf(-1), MP.mpf(1)],
        400,
    )
    return mixed(pairs, rate, remove=remove)


@pytest.mark.slow
@pytest.mark.parametrize("direction", mostly_slow(BOTH))
@pytest.mark.parametrize(
    ("rate", "noise", "count", "delta"),
    [
        (3.45e-5, 16.9, 45_680, 3.8e-6),
        (2.63e-6, 12.9, 106_195_257, 5.3e-8),
        pytest.param(0.402, 0.3, 33_919, 6.8e-15, marks=pytest.mark.slow),
        (8.43e-4, 39.9, 6_194_786, 1.3e-8),
        (1.5e-2, 0.502, 456_627, 3.4e-11),
    ],
)
def test_many_steps_are_narrow_and_hold_long_arithmetic(
    rate: float, noise: float, count: int, delta: float, direction: Literal["remove", "add"]
) -> None:
    event = Laplace(noise_multiplier=noise).poisson_sampled(rate=rate)
    found = epsilon_interval([(event, count)], delta=delta, directions=direction)
    assert found.upper - found.lower <= 1e-8 * found.upper
    law = sampled(noise, rate, remove=direction == "remove")
    assert sum(mass for mass, _ in law) == pytest.approx(1, abs=1e-15)
    wide = (found.lower * (1 - 1e-9), found.upper * (1 + 1e-9))  # the rule's own error
    assert holds(wide, [(law, count)], delta)
    assert not holds((wide[0], found.lower * (1 - 1e-5)), [(law, count)], delta)


@pytest.mark.parametrize("direction", BOTH)
@pytest.mark.parametrize("noise", mostly_slow([0.07, 0.3, 2.0, 50.0], quick=3))
def test_the_tail_bound_is_above_all_later_nodes(
    noise: float, direction: Literal["remove", "add"]
) -> None:
    event = Laplace(noise_multiplier=noise).poisson_sampled(rate=0.01)
    bounds = []
    for count in (1, 40, 100_000):
        parts = parts_of(flatten([(event, count)]), direction=direction, log_delta=math.log(1e-7))
        assert parts is not None
        (law,) = parts.factors
        assert isinstance(law, Panels)
        c, last = 2.0 * min(noise, 1.0), 30 * math.pi / law.width
        made = law.tilt(c, last=last, most=60_000)
        assert made is not None
        t = np.geomspace(last / 3000, last, 400)
        log, error = made.nodes(t)
        bounds = [made.tail(float(place)) for place in t]
        for index, bound in enumerate(bounds):
            assert np.all(log.real[index:] - error[index:] <= bound + 1e-9)
    assert bounds[-1] < -5
