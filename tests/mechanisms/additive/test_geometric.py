"""Two-sided geometric (discrete Laplace) noise: its law, its price, its bounds."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf
from tests.mechanisms.divergences import exceeds, farthest
from tests.mechanisms.laws import chi_square_p, discrete_laplace_tail, sign_p

from unacorda.bits import ScriptedBits, SeededBits
from unacorda.checks import exact
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.additive.integer import DiscreteGaussian, DiscreteLaplace
from unacorda.privacy import events
from unacorda.privacy.guarantees import GDP, ZCDP, ApproxDP, PureDP

EPSILONS = (0.0, 0.2, 0.5, 0.69, 1.0)
FAR = 300


def of_epsilon(epsilon: Any, *, l1_sensitivity: Any = 1, **bounds: Any) -> DiscreteLaplace:
    return DiscreteLaplace.for_guarantee(PureDP(epsilon), l1_sensitivity=l1_sensitivity, **bounds)


def law(
    x: int, *, epsilon: float, lower: int, upper: int, twice_zero: bool = False
) -> dict[int, mpf]:
    """The law of the released count, enumerated; a fault counts minus zero as another zero."""
    q = mp.exp(-mpf(epsilon))
    masses: dict[int, mpf] = {}
    for k in range(-FAR, FAR + 1):
        share = q ** abs(k) * (2 if twice_zero and k == 0 else 1)
        cut = min(max(x + k, lower), upper)
        masses[cut] = masses.get(cut, mpf(0)) + share
    total = mp.fsum(masses.values())
    return {k: mass / total for k, mass in masses.items()}


def neighboring(**how: Any) -> list[tuple[dict[int, mpf], dict[int, mpf]]]:
    counts = range(how["lower"], how["upper"])
    return [(law(x, **how), law(x + 1, **how)) for x in counts]


@pytest.mark.long
@pytest.mark.parametrize("bounds", [(0, 6), (0, 1), (-2, 40)])
def test_the_law_keeps_the_price_of_its_event(bounds: tuple[int, int]) -> None:
    with mp.workprec(200):
        mechanism = of_epsilon(0.7, lower=bounds[0], upper=bounds[1])
        pairs = neighboring(epsilon=0.7, lower=bounds[0], upper=bounds[1])
        assert exceeds(mechanism.event, pairs, epsilons=EPSILONS) == []
        # Nothing less would do: at 0.5 the bounded law reaches what the event says.
        assert exceeds(events.DiscreteLaplace(scale=1.6, sensitivity=1), pairs, epsilons=EPSILONS)
        assert float(farthest(pairs, 0.5)) == pytest.approx(
            float((1 - mp.exp(mpf(-0.2))) / (1 + mp.exp(mpf(-0.7)))), rel=1e-9
        )


def test_a_sign_that_counts_zero_twice_is_caught() -> None:
    with mp.workprec(200):
        pairs = neighboring(epsilon=0.7, lower=0, upper=6, twice_zero=True)
        assert exceeds(of_epsilon(0.7).event, pairs, epsilons=EPSILONS)


@pytest.mark.statistical
def test_released_counts_have_the_law() -> None:
    mechanism = of_epsilon(0.4, l1_sensitivity=2)
    noise = mechanism.release(np.full(200_000, 7), bits=SeededBits(11)) - 7
    right, wrong = exact("scale", mechanism.scale), exact("scale", 5.5)
    assert right == 5
    assert chi_square_p(np.abs(noise), discrete_laplace_tail(right), width=5) > 1e-7
    assert chi_square_p(np.abs(noise), discrete_laplace_tail(wrong), width=5) < 1e-12
    assert sign_p(noise) > 1e-7


def test_bounds_cut_what_the_same_noise_would_give() -> None:
    free, bounded = of_epsilon(0.1), of_epsilon(0.1, lower=0, upper=10)
    counts = np.arange(2_000).reshape(40, 50) % 11
    loose = free.release(counts, bits=SeededBits(3))
    np.testing.assert_array_equal(
        bounded.release(counts, bits=SeededBits(3)), np.clip(loose, 0, 10)
    )
    assert loose.min() < 0
    assert loose.max() > 10
    one = of_epsilon(0.1, lower=5).release(5, bits=ScriptedBits([1 << 63]))
    assert one == 5  # the farthest negative noise
    assert of_epsilon(0.1, upper=3).release_exact([10**30]) == [3]
    assert type(bounded.release(np.int32(3))) is int


def test_bounds_cost_nothing() -> None:
    free, bounded = of_epsilon(0.3, l1_sensitivity=4), of_epsilon(0.3, l1_sensitivity=4, lower=0)
    assert bounded.event == free.event == events.DiscreteLaplace(scale=free.scale, sensitivity=4)
    assert exact("scale", free.scale) == exact("scale", "40/3")
    assert bounded.standard_deviation == free.standard_deviation
    assert bounded.error_bound(0.9) == free.error_bound(0.9)
    assert free.release_exact([10**40], bits=SeededBits(1)) == bounded.release_exact(
        [10**40], bits=SeededBits(1)
    )


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"scale": 0}, "scale"),
        ({"scale": float("nan")}, "scale"),
        ({"l1_sensitivity": 0}, "l1_sensitivity"),
        ({"lower": 0.5}, "lower"),
        ({"upper": True}, "upper"),
        ({"upper": 2**63}, "upper"),
        ({"lower": 3, "upper": 2}, "upper"),
        ({"scale": 1e13}, "scale"),
    ],
)
def test_wrong_numbers_are_refused(fields: dict[str, Any], name: str) -> None:
    with pytest.raises(InvalidParameter, match=name):
        DiscreteLaplace(**{"scale": 1, "l1_sensitivity": 1, **fields})


def test_floats_are_refused_before_a_bit_is_drawn() -> None:
    with pytest.raises(InvalidParameter, match="x"):
        of_epsilon(1).release(np.array([1.5]), bits=ScriptedBits([]))


def test_integer_noise_for_a_guarantee() -> None:
    pure = DiscreteLaplace.for_guarantee(PureDP("0.3"), l1_sensitivity=2)
    assert pure.event == events.DiscreteLaplace(scale=Fraction(20, 3), sensitivity=2)
    rho = DiscreteGaussian.for_guarantee(ZCDP(0.3, delta=1e-9), l2_sensitivity=3)
    sigma = exact("sigma", rho.sigma)
    assert 9 / (2 * sigma**2) <= exact("rho", 0.3) < 9 / (2 * sigma**2) * exact("slack", "1.000001")
    wrong: list[Any] = [PureDP(0), ApproxDP(1, 1e-6), 1.0]
    for guarantee in wrong:
        with pytest.raises(InvalidParameter, match="guarantee"):
            DiscreteLaplace.for_guarantee(guarantee, l1_sensitivity=1)
    others: list[Any] = [ZCDP(0), GDP(1), 1.0]
    for guarantee in others:
        with pytest.raises(InvalidParameter, match="guarantee"):
            DiscreteGaussian.for_guarantee(guarantee, l2_sensitivity=1)
