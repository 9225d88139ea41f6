"""The optimal conversion from Renyi divergences: never below any pair, and reached by two coins."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unacorda.privacy import conversions as c

CASES = [
    (Fraction(4), 0.1, 0.01),
    (Fraction(2), 0.7, 1e-5),
    (Fraction(32), 1.0, 1e-6),
    (Fraction(33, 32), 0.01, 1e-3),
    (Fraction(8), 1e-6, 1e-4),
    (Fraction(3), 20.0, 1e-3),
    (Fraction(1200), 2.0, 1e-12),
]


def _divergence(p: mpmath.mpf, q: mpmath.mpf, alpha: Fraction) -> mpmath.mpf:
    a = mpmath.mpf(alpha.numerator) / alpha.denominator
    total = p**a * q ** (1 - a)
    if p < 1:
        total += (1 - p) ** a * (1 - q) ** (1 - a)
    return mpmath.log(total) / (a - 1)


@pytest.mark.parametrize(("alpha", "spent", "delta"), CASES, ids=[f"case{i}" for i in range(7)])
def test_two_coins_reach_the_optimal_epsilon(alpha: Fraction, spent: float, delta: float) -> None:
    """Just below the answer a pair of coins within the divergence breaks (epsilon, delta)."""
    epsilon = c.approx_dp_from_renyi(spent, alpha=alpha, delta=delta)
    with mpmath.workdps(60):
        lower = mpmath.mpf(epsilon) * (1 - mpmath.mpf(10) ** -5)
        d = mpmath.mpf(delta)

        def far(x: mpmath.mpf) -> mpmath.mpf:
            return _divergence(d + mpmath.exp(x), mpmath.exp(x - lower), alpha)

        # p - delta on a logarithmic scale, by thirds: the divergence is convex in p
        low, high = mpmath.log(d) - 30, mpmath.log(1 - d) - mpmath.mpf(10) ** -30
        for _ in range(160):
            left, right = low + (high - low) / 3, high - (high - low) / 3
            low, high = (low, right) if far(left) < far(right) else (left, high)
        assert far(low) < spent
        assert far(low) > spent * 0.9  # and not far within, or the test would say little


@pytest.mark.slow
@given(
    st.lists(st.integers(1, 40), min_size=2, max_size=5),
    st.lists(st.integers(1, 40), min_size=2, max_size=5),
    st.fractions(Fraction(17, 16), 40),
    st.fractions(0, 3),
)
def test_no_finite_pair_exceeds_it(
    first: list[int], second: list[int], alpha: Fraction, epsilon: Fraction
) -> None:
    size = min(len(first), len(second))
    p = [Fraction(x, sum(first[:size])) for x in first[:size]]
    q = [Fraction(x, sum(second[:size])) for x in second[:size]]
    with mpmath.workdps(60):
        a = mpmath.mpf(alpha.numerator) / alpha.denominator
        weight = mpmath.fsum(
            (mpmath.mpf(x.numerator) / x.denominator) ** a
            * (mpmath.mpf(y.numerator) / y.denominator) ** (1 - a)
            for x, y in zip(p, q, strict=True)
        )
        spent = math.nextafter(float(mpmath.log(weight) / (a - 1)), math.inf)
        growth = mpmath.exp(mpmath.mpf(epsilon.numerator) / epsilon.denominator)
        delta = mpmath.fsum(
            max(
                mpmath.mpf(0),
                mpmath.mpf(x.numerator) / x.denominator - growth * y.numerator / y.denominator,
            )
            for x, y in zip(p, q, strict=True)
        )
        spent = max(spent, 0.0) + 1e-15
        assert delta <= c.approx_dp_delta_from_renyi(spent, alpha=alpha, epsilon=epsilon)


@pytest.mark.slow
@given(
    st.floats(1e-9, 50.0),
    st.floats(1.001, 1e4),
    st.floats(1e-300, 0.9),
)
def test_it_is_at_most_the_closed_form_and_inverts(
    spent: float, alpha: float, delta: float
) -> None:
    epsilon = c.approx_dp_from_renyi(spent, alpha=alpha, delta=delta)
    assert 0 <= epsilon <= c.approx_dp_from_renyi_closed(spent, alpha=alpha, delta=delta)
    again = c.approx_dp_delta_from_renyi(spent, alpha=alpha, epsilon=epsilon)
    if delta > 1e-280:
        assert again <= delta * (1 + 1e-9)
    if epsilon > 0 and delta > 1e-280:
        largest = c.renyi_from_approx_dp(epsilon, delta=delta, alpha=alpha)
        assert spent * (1 - 1e-9) - 1e-12 <= largest
        assert c.approx_dp_from_renyi(largest, alpha=alpha, delta=delta) <= epsilon * (1 + 1e-12)


def test_the_gain_is_real() -> None:
    """Where delta is not small, an order's closed form loses a lot."""
    optimal = c.approx_dp_from_renyi(0.1, alpha=4, delta=0.01)
    assert optimal < 0.6 * c.approx_dp_from_renyi_closed(0.1, alpha=4, delta=0.01)
    assert c.approx_dp_from_renyi(0.0, alpha=4, delta=0.0) == 0.0
    assert c.approx_dp_from_renyi(0.1, alpha=4, delta=0.0) == math.inf
    assert c.approx_dp_from_renyi(0.1, alpha=4, delta=1.0) == 0.0
