"""Additive mechanisms: events, guarantees, shapes and dtypes, half widths."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import inspect
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from tests.mechanisms.faces import FACES
from tests.mechanisms.laws import discrete_gaussian_tail, discrete_laplace_tail
from tests.support.cases import in_subtests

from unacorda.bits import SeededBits
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.additive.integer import DiscreteGaussian, DiscreteLaplace
from unacorda.mechanisms.additive.real import Gaussian, GridNoise, Laplace
from unacorda.mechanisms.shaped.numbers import Staircase, TruncatedLaplace
from unacorda.privacy import events
from unacorda.privacy.guarantees import GDP, ZCDP, ApproxDP, PureDP

REAL: list[Laplace | Gaussian] = [
    Laplace(scale=3, l1_sensitivity=1),
    Gaussian(sigma=3, l2_sensitivity=1),
]
WHOLE: list[DiscreteLaplace | DiscreteGaussian] = [
    DiscreteLaplace(scale=3, l1_sensitivity=1),
    DiscreteGaussian(sigma=3, l2_sensitivity=1),
]


def test_events_say_exactly_what_is_released() -> None:
    assert Laplace(scale=3, l1_sensitivity=7).event == events.Laplace(
        noise_multiplier=Fraction(3, 7)
    )
    assert Laplace(scale=0.3, l1_sensitivity=0.1).event == events.Laplace(noise_multiplier=3)
    assert Gaussian(sigma=0.1, l2_sensitivity=4).event == events.Gaussian(noise_multiplier=0.025)
    assert DiscreteLaplace(scale=0.5, l1_sensitivity=2).event == events.DiscreteLaplace(
        scale=0.5, sensitivity=2
    )
    assert DiscreteGaussian(sigma=5, l2_sensitivity=3).event == events.DiscreteGaussian(
        sigma=5, sensitivity=3
    )


@pytest.mark.long
@given(
    scale=st.fractions(min_value=Fraction(1, 10**12), max_value=10**12),
    sensitivity=st.fractions(min_value=Fraction(1, 10**12), max_value=10**12),
)
def test_a_multiplier_is_never_rounded(scale: Fraction, sensitivity: Fraction) -> None:
    event = Laplace(scale=scale, l1_sensitivity=sensitivity).event
    # Accountants read a float as it prints.
    claimed = event.noise_multiplier
    exact = Fraction(str(claimed)) if isinstance(claimed, float) else Fraction(claimed)
    assert exact == scale / sensitivity


@given(
    epsilon=st.decimals("0.0001", "50", places=4),
    sensitivity=st.decimals("0.001", "1000", places=3),
)
def test_laplace_for_a_guarantee_spends_it_exactly(epsilon: Decimal, sensitivity: Decimal) -> None:
    mechanism = Laplace.for_guarantee(PureDP(epsilon), l1_sensitivity=sensitivity)
    claimed = mechanism.event.noise_multiplier
    exact = Fraction(str(claimed)) if isinstance(claimed, float) else Fraction(claimed)
    assert exact * PureDP(epsilon).epsilon == 1


@pytest.mark.long
@given(numerator=st.integers(1, 10**15), denominator=st.integers(1, 10**15), root=st.booleans())
def test_gaussian_for_a_guarantee_never_exceeds_it(
    numerator: int, denominator: int, root: bool
) -> None:
    amount = Fraction(numerator, denominator)
    guarantee: GDP | ZCDP = GDP(amount) if root else ZCDP(amount)
    square = amount * amount if root else 2 * amount
    mechanism = Gaussian.for_guarantee(guarantee, l2_sensitivity=0.7)
    multiplier = Fraction(str(mechanism.event.noise_multiplier))
    assert 1 <= multiplier * multiplier * square < 1 + Fraction(1, 10**13)


def test_gaussian_for_approximate_dp_is_the_analytic_one() -> None:
    # Balle and Wang 2018, their code at (1, 1e-5): 3.730631634816464.
    sigma = float(Gaussian.for_guarantee(ApproxDP(1, 1e-5), l2_sensitivity=1).sigma)
    assert sigma == pytest.approx(3.730631634816464, rel=1e-9)
    # delta(epsilon) = Phi(1/(2s) - eps s) - e^eps Phi(-1/(2s) - eps s), also where epsilon > 1.
    for epsilon in (0.1, 1.0, 8.0):
        sigma = float(Gaussian.for_guarantee(ApproxDP(epsilon, 1e-6), l2_sensitivity=1).sigma)
        a, b = 0.5 / sigma, epsilon * sigma
        delta = stats.norm.cdf(a - b) - math.exp(epsilon) * stats.norm.cdf(-a - b)
        assert 0.9999999e-6 < delta <= 1.0000000001e-6


@pytest.mark.parametrize("nothing", [PureDP(0), ApproxDP(1, 0), GDP(0), ZCDP(0, delta=1e-3), 1.0])
def test_a_guarantee_without_room_or_kind_is_refused(nothing: Any) -> None:
    make: Any = Laplace if isinstance(nothing, PureDP) else Gaussian
    name = "l1_sensitivity" if make is Laplace else "l2_sensitivity"
    with pytest.raises(InvalidParameter):
        make.for_guarantee(nothing, **{name: 1})


@in_subtests("mechanism", [*REAL, *WHOLE])
@in_subtests("wrong", [0, -1, float("nan"), float("inf"), None, "x"])
def test_wrong_numbers_are_refused(mechanism: Any, wrong: Any) -> None:
    kind = type(mechanism)
    scale, sensitivity = list(kind.__dataclass_fields__)[:2]
    for name in (scale, sensitivity):
        with pytest.raises(InvalidParameter, match=name):
            kind(**{scale: 1, sensitivity: 1, name: wrong})


# ---- release: shapes, dtypes, ends


@pytest.mark.parametrize("mechanism", REAL)
def test_real_shapes_come_back(mechanism: Laplace | Gaussian) -> None:
    assert type(mechanism.release(1)) is float
    assert type(mechanism.release(1.5)) is float
    assert type(mechanism.release(np.float64(1.5))) is float
    assert type(mechanism.release(2**200)) is float
    for x in ([1, 2], [[1.0], [2.0]], np.ones((2, 0)), np.array(1.0), np.ones(3, np.float32)):
        released = mechanism.release(x)
        assert released.shape == np.shape(x)
        assert released.dtype == np.float64


@pytest.mark.parametrize("mechanism", WHOLE)
def test_whole_shapes_come_back(mechanism: DiscreteLaplace | DiscreteGaussian) -> None:
    assert type(mechanism.release(1)) is int
    assert type(mechanism.release(np.int8(1))) is int
    assert abs(mechanism.release(2**100) - 2**100) < 1000
    for x in ([1, 2], [[1], [2]], np.ones((2, 0), int), np.array(1), np.ones(3, np.uint16)):
        released = mechanism.release(x)
        assert released.shape == np.shape(x)
        assert released.dtype == np.int64
    assert [abs(v - 2**90) < 1000 for v in mechanism.release_exact([2**90] * 3)] == [True] * 3


@in_subtests("mechanism", [*REAL, *WHOLE])
@in_subtests("x", [np.array(["2020-01-01"], "M8[D]"), np.array([1j]), np.array([str(2**80)])])
def test_other_dtypes_are_refused_without_their_values(mechanism: Any, x: Any) -> None:
    with pytest.raises(InvalidParameter, match="dtype") as caught:
        mechanism.release(x)
    assert "2020-01-01" not in str(caught.value)
    assert str(2**80) not in str(caught.value)


@pytest.mark.parametrize("mechanism", WHOLE)
def test_floats_are_no_integers(mechanism: Any) -> None:
    with pytest.raises(InvalidParameter, match="integers"):
        mechanism.release(np.array([1.0]))
    odd = mechanism.release_exact([1.5, "a", None, -0.5, True], bits=SeededBits(1))
    assert odd == mechanism.release_exact([2, 0, 0, 0, 1], bits=SeededBits(1))


def test_the_room_shows_its_mechanisms() -> None:
    from unacorda import mechanisms

    assert mechanisms.Laplace is Laplace
    for face in (mechanisms, *FACES):
        assert dir(face) == sorted(face.__all__) or not hasattr(face, "__path__")
        for name in face.__all__:
            value = getattr(face, name)
            assert inspect.ismodule(value) or value.__name__ == name
    with pytest.raises(AttributeError, match="Laplacian"):
        mechanisms.Laplacian  # type: ignore[attr-defined]  # noqa: B018  # the access is tested


@pytest.mark.parametrize("mechanism", REAL)
def test_no_value_makes_a_release_fail(mechanism: Laplace | Gaussian) -> None:
    strange = [np.nan, np.inf, -np.inf, -0.0, 5e-324, 1.8e308, -1e308]
    assert np.isfinite(mechanism.release(strange, bits=SeededBits(1))).all()
    assert np.isfinite(mechanism.release(np.array([2**63 - 1, -(2**63)]))).all()
    assert mechanism.release(10**400, bits=SeededBits(1)) == 2.0**981  # 2^1000 steps


@pytest.mark.parametrize("mechanism", WHOLE)
def test_integer_arrays_end_at_two_to_the_62(mechanism: DiscreteLaplace | DiscreteGaussian) -> None:
    ends = mechanism.release(np.array([2**63 - 1, -(2**63)]), bits=SeededBits(1))
    same = mechanism.release(np.array([2**62, -(2**62)]), bits=SeededBits(1))
    assert (ends == same).all()
    assert (abs(ends - np.array([2**62, -(2**62)])) < 1000).all()
    top = mechanism.release(np.array([2**64 - 1], np.uint64), bits=SeededBits(1))
    assert abs(int(top[0]) - 2**62) < 1000


def test_large_neighboring_integers_stay_neighbors() -> None:
    # As float64, 2^62 and 2^62 + 1 are one number and 2^62 + 513 lies 1024 above it.
    mechanism = Laplace(scale=0.001, l1_sensitivity=1, grid_log2=0)
    base = 2**62
    for x in ([base, base + 1, base + 513], np.array([base, base + 1, base + 513])):
        exact = mechanism.release_exact(list(map(int, x)), unit_log2=0)
        assert exact == [base, base + 1, base + 513]
    assert mechanism.release(np.array([base + 513])) == float(base + 513)


@pytest.mark.parametrize("mechanism", REAL)
def test_integers_and_floats_get_the_same_noise(mechanism: Laplace | Gaussian) -> None:
    for x in ([3, -4, 10**6], [2**53, -(2**53), 0], [2**60 + 2**10, 5, -(2**62)]):
        as_integers = mechanism.release(np.array(x), bits=SeededBits(3))
        as_floats = mechanism.release(np.array(x, float), bits=SeededBits(3))
        exact = mechanism.release_exact(x, unit_log2=0, bits=SeededBits(3))
        assert as_integers.tolist() == as_floats.tolist() == [float(value) for value in exact]


@pytest.mark.parametrize("mechanism", [*REAL, *WHOLE])
def test_two_releases_differ(mechanism: Any) -> None:
    assert (mechanism.release([0] * 100) != mechanism.release([0] * 100)).any()


# ---- spread and half widths


@in_subtests("scale", [Fraction(1, 5), Fraction(7, 3), Fraction(40), Fraction(250)])
@in_subtests("confidence", [0.05, 0.5, 0.95, 0.999, 1 - 1e-9])
def test_discrete_half_widths_are_the_least(scale: Fraction, confidence: float) -> None:
    cases: list[tuple[Any, Any]] = [
        (DiscreteLaplace(scale=scale, l1_sensitivity=1), discrete_laplace_tail(scale)),
        (DiscreteGaussian(sigma=scale, l2_sensitivity=1), discrete_gaussian_tail(scale)),
    ]
    for mechanism, tail in cases:
        q = mechanism.error_bound(confidence)
        assert type(q) is int
        assert tail(q + 1) <= (1 - confidence) * (1 + 1e-6)
        assert q == 0 or tail(q) >= (1 - confidence) * (1 - 1e-6)


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999, "0.9999999999999"])
def test_real_half_widths_cover_noise_and_rounding(confidence: Any) -> None:
    miss = float(1 - Fraction(str(confidence)))
    for scale in (0.3, 1e6):
        for mechanism, quantile in (
            (Laplace(scale=scale, l1_sensitivity=1), stats.laplace.isf(miss / 2)),
            (Gaussian(sigma=scale, l2_sensitivity=1), stats.norm.isf(miss / 2)),
        ):
            step = 2.0**mechanism.grid_log2
            ideal = scale * quantile
            width = mechanism.error_bound(confidence)
            assert ideal + step / 2 <= width * (1 + 1e-12)
            assert width <= (ideal + step / 2) * (1 + 1e-9)
            on_grid = mechanism.error_bound(confidence, on_grid=True)
            assert on_grid % step == 0
            assert on_grid - step / 2 < ideal * (1 + 1e-9) <= (on_grid + step / 2) * (1 + 2e-9)


def test_on_a_coarse_grid_the_half_width_counts_whole_steps() -> None:
    # P(|Z| < 5/2) = 1 - e^(-5/2) = 0.918 at scale 1: two steps reach 0.9, one does not.
    mechanism = Laplace(scale=1, l1_sensitivity=1, grid_log2=0)
    assert mechanism.error_bound(0.9, on_grid=True) == 2
    assert mechanism.error_bound(0.92, on_grid=True) == 3
    drawn = mechanism.release(np.zeros(40_000), bits=SeededBits(5))
    assert abs((abs(drawn) <= 2).mean() - (1 - math.exp(-2.5))) < 6 * 0.5 / 200


@pytest.mark.parametrize(
    "mechanism", [*REAL, *WHOLE, DiscreteGaussian(sigma=0.4, l2_sensitivity=1)]
)
def test_the_standard_deviation_is_that_of_the_noise(mechanism: Any) -> None:
    # 200,000 draws; the sample deviation strays by at most 0.4% (1 s.d.) for these laws.
    noise = mechanism.release(np.zeros(200_000, int), bits=SeededBits(6))
    assert noise.std() == pytest.approx(mechanism.standard_deviation, rel=0.025)
    assert DiscreteLaplace(scale=1e-9, l1_sensitivity=1).standard_deviation == 0


@pytest.mark.parametrize("confidence", [0, 1, -0.1, 1.1, "x", float("nan")])
def test_a_confidence_lies_between_zero_and_one(confidence: Any) -> None:
    for mechanism in (*REAL, *WHOLE):
        with pytest.raises(InvalidParameter, match="confidence"):
            mechanism.error_bound(confidence)


@pytest.mark.parametrize(
    "mechanism",
    [
        Laplace(scale=3, l1_sensitivity=1),
        Gaussian(sigma=3, l2_sensitivity=1),
        Staircase(epsilon=1, sensitivity=1),
        TruncatedLaplace(scale=3, sensitivity=1, bound=9),
    ],
)
def test_exact_integers_get_the_noise_of_floats(mechanism: GridNoise) -> None:
    values = list(range(-40, 40))
    exact = mechanism.release_exact(values, unit_log2=-2, bits=SeededBits(5))
    doubles = mechanism.release_doubles(values, unit_log2=-2, bits=SeededBits(5))
    floats = mechanism.release(np.array(values) / 4, bits=SeededBits(5))
    assert [float(number) for number in exact] == doubles.tolist() == floats.tolist()
    huge = mechanism.release_exact([10**400], unit_log2=0, bits=SeededBits(5))[0]
    assert abs(huge - 10**400) < 100
