"""Poisson-sampled Laplace steps: few and many, common and rare, against long arithmetic."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import Literal

import pytest
from tests.accounting.by_grids import epsilon_interval
from tests.accounting.long_contours import MP, Points, boole, holds, mixed
from tests.tiers import mostly_slow

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
    assert found.upper - found.lower <= 1e-4 * max(found.upper, 1.0)
    law = sampled(noise, rate, remove=direction == "remove")
    assert sum(mass for mass, _ in law) == pytest.approx(1, abs=1e-15)
    wide = (found.lower * (1 - 1e-9), found.upper * (1 + 1e-9))  # the rule's own error
    assert holds(wide, [(law, count)], delta)
    assert not holds((wide[0], found.lower * (1 - 1e-3)), [(law, count)], delta)
