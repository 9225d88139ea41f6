"""Powers of transforms: few heads of very many coins, and frequencies of a smooth law, exactly."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from unacorda.accounting.pld.convolution import (
    LossSum,
    Side,
    Tilted,
    Window,
    cumulant_of,
    raised,
)

mp = mpmath.mp.clone()
mp.dps = 30


def coins(chance: float, count: int, side: Side) -> LossSum:
    """The number of heads, each a loss of 1, under the tilt 1."""
    own = np.array([1 - chance, chance * math.e])
    law = Tilted(
        first=0,
        values=own,
        height=0.0,
        cumulant=cumulant_of(0, own, height=0.0, step=Fraction(1), tilt=1.0),
        infinity=0.0,
    )
    window = Window(first=-128, size=256, tilt=1.0, higher=3.0, lower=0.5)
    return LossSum([(law, count)], step=Fraction(1), window=window, side=side)


@pytest.mark.parametrize("count", [10**3, 10**7, 10**9, 10**12])
def test_heads_of_many_coins_against_their_law(count: int) -> None:
    chance = 3.0 / count
    stay, head = mp.mpf(1 - chance), mp.mpf(chance * math.e) / mp.e  # what the floats mean
    for epsilon in (2.5, 6.0, 20.25):
        truth = mp.fsum(
            mp.binomial(count, k) * stay ** (count - k) * head**k * -mp.expm1(epsilon - k)
            for k in range(math.ceil(epsilon), 120)
        )
        above = coins(chance, count, 1).delta_above(epsilon)
        below = coins(chance, count, -1).delta_below(epsilon)
        assert below <= truth <= above
        assert above - below <= 1e-8 * truth


@pytest.mark.long
@pytest.mark.parametrize("count", [5_000, 10**6, 10**10])
def test_powers_about_their_middle(count: int) -> None:
    """Low frequencies of a smooth law: the exact power, far more narrowly than by squaring."""
    size = 1 << 11
    places = np.arange(size)
    law = np.exp(-0.5 * ((places - 300.3) / 7) ** 2) + 1e-9 * np.exp(-places / 300)
    law /= law.sum()
    found = raised(law, count, rounding=8 * 2.0**-53 * 12, height=0.0)
    plain = 8 * 2.0**-53 * 12 * count
    for k in (0, 1, 3, 40, size // 2):
        z = mp.expjpi(-mp.mpf(2 * k) / size)
        value = mp.fsum(mp.mpf(float(law[j])) * z**j for j in range(size)) / z**found.place
        truth = value**count * mp.exp(-count * mp.mpf(found.height))
        assert abs(mp.mpc(complex(found.power[k])) - truth) <= found.errors[k]
        assert found.errors[k] < 0.2 * plain
