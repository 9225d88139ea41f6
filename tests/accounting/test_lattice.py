"""The optimal composition of equal promises against literal sums and its edges."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import in_subtests
from tests.tiers import mostly_slow

from unacorda.accounting.contour.engine import epsilon_interval
from unacorda.accounting.lattices import compositions
from unacorda.accounting.pld.distribution import PrivacyLossDistribution
from unacorda.errors import InvalidParameter
from unacorda.privacy.estimates import Interval
from unacorda.privacy.events import Approximate, Gaussian

mp = mpmath.MPContext()
mp.dps = 120


def equal_delta(pure: Any, delta: Any = 0, *, count: int, epsilon: Any) -> Interval:
    promise = Approximate(epsilon=Fraction(pure), delta=Fraction(delta))
    return compositions.delta_interval([(promise, count)], epsilon=epsilon)


def equal_epsilon(pure: Any, delta: Any = 0, *, count: int, total: Any) -> Interval:
    promise = Approximate(epsilon=Fraction(pure), delta=Fraction(delta))
    return compositions.epsilon_interval([(promise, count)], delta=total)


def literal(pure: Any, delta: Any, count: int, epsilon: Any) -> Any:
    p = 1 / (1 + mp.exp(-pure))
    terms = [
        mp.binomial(count, many)
        * p**many
        * (1 - p) ** (count - many)
        * (1 - mp.exp(epsilon - (2 * many - count) * pure))
        for many in range(count + 1)
        if (2 * many - count) * pure > epsilon
    ]
    return 1 - (1 - delta) ** count * (1 - mp.fsum(terms))


@in_subtests("count", [1, 2, 17, 300])
@in_subtests("epsilon", ["0", "0.05", "1", "12.3"])
def test_sums_are_enclosed(count: int, epsilon: str) -> None:
    for delta in ("0", "1e-9"):
        found = equal_delta("0.1", delta, count=count, epsilon=epsilon)
        truth = literal(mp.mpf("0.1"), mp.mpf(delta), count, mp.mpf(epsilon))
        assert found.lower <= truth + mp.mpf(10) ** -110
        assert truth - mp.mpf(10) ** -110 <= found.upper
        assert found.width <= 1e-11 * found.upper


def test_a_million_mechanisms_and_tiny_deltas() -> None:
    found = equal_delta("0.001", count=10**6, epsilon="36")
    assert 1e-305 < found.lower <= found.upper < 1e-250
    assert found.width <= 1e-9 * found.upper


def test_the_transform_agrees() -> None:
    event = Approximate(epsilon=0.1, delta=1e-7) * 1000
    by_sum = equal_delta("0.1", "1e-7", count=1000, epsilon="20")
    found = PrivacyLossDistribution.from_event(event).delta_interval(20.0)
    assert found.lower <= by_sum.upper
    assert by_sum.lower <= found.upper


def test_edges_and_refusals() -> None:
    assert equal_delta(0, count=5, epsilon=0) == (0.0, 0.0)
    assert equal_delta(1, 1, count=5, epsilon=0).upper == 1.0
    with pytest.raises(InvalidParameter, match="epsilon"):
        equal_delta(1, count=1, epsilon=-1)
    with pytest.raises(InvalidParameter, match="delta"):
        equal_epsilon(1, count=1, total=1)
    assert equal_epsilon(0, count=5, total=0) == (0.0, 0.0)
    assert equal_epsilon(2, count=5, total=0) == (10.0, 10.0)
    assert equal_epsilon(2, "0.1", count=5, total="0.4").upper == math.inf


@pytest.mark.parametrize("count", [1, 3, 16])
@pytest.mark.parametrize("pure", ["0.02", "0.7", "3"])
def test_the_published_vertices_of_the_region(count: int, pure: str) -> None:
    """Kairouz, Oh, Viswanath 2015, Theorem 3.3: at (k - 2i) pure, delta has this closed form."""
    e = mp.mpf(pure)
    for i in range(count // 2 + 1):
        terms = [
            mp.binomial(count, many)
            * (mp.exp((count - many) * e) - mp.exp((count - 2 * i + many) * e))
            for many in range(i)
        ]
        truth = mp.fsum(terms) / (1 + mp.exp(e)) ** count
        at = (count - 2 * i) * Fraction(pure)
        found = equal_delta(pure, count=count, epsilon=at)
        assert found.lower <= truth <= found.upper
        assert found.width <= 1e-10 * found.upper
        if i:
            share = Fraction(str(mp.nstr(truth, 40)))
            place = equal_epsilon(pure, count=count, total=share)
            assert place.lower <= at * (1 + Fraction(1, 10**30))
            assert at * (1 - Fraction(1, 10**30)) <= place.upper
            if truth < 0.9:  # near 1, delta hardly tells epsilons apart
                assert place.width <= 1e-9 * float(at) + 1e-10


@pytest.mark.long
@pytest.mark.parametrize(
    ("pure", "count", "total"),
    mostly_slow(
        [("0.1", 1000, "1e-6"), ("1", 7, "1e-9"), ("0.001", 2000, "1e-10"), ("5", 40, "0.3")],
        quick=3,
    ),
)
def test_epsilon_is_where_the_literal_sum_meets_delta(pure: str, count: int, total: str) -> None:
    found = equal_epsilon(pure, "1e-15", count=count, total=total)
    assert found.width <= 1e-10 * found.upper
    low, high = (literal(mp.mpf(pure), mp.mpf("1e-15"), count, mp.mpf(end)) for end in found)
    assert high <= mp.mpf(total) <= low


@pytest.mark.parametrize("count", [10**7, 10**9, 10**12])
def test_ever_so_many_mechanisms(count: int) -> None:
    """Against the normal limit: the error of the central limit theorem is below 1/sqrt(count)."""
    pure = Fraction(1, math.isqrt(count))
    found = equal_epsilon(pure, count=count, total="1e-5")
    assert found.width <= 1e-8 * found.upper
    limit = epsilon_interval([(Gaussian(noise_multiplier=1), 1)], delta="1e-5")
    assert found.upper == pytest.approx(limit.upper, rel=10 / math.sqrt(count))


@pytest.mark.long
@given(
    pure=st.fractions(Fraction(1, 10**9), 20),
    count=st.integers(1, 10**12),
    epsilon=st.fractions(0, 100),
)
def test_delta_rises_with_the_count_and_falls_with_epsilon(
    pure: Fraction, count: int, epsilon: Fraction
) -> None:
    found = equal_delta(pure, count=count, epsilon=epsilon)
    assert 0 <= found.lower <= found.upper <= 1
    more = equal_delta(pure, count=count + 1, epsilon=epsilon)
    assert found.lower <= more.upper
    less = equal_delta(pure, count=count, epsilon=epsilon * Fraction(11, 10))
    assert less.lower <= found.upper


@pytest.mark.slow
@given(
    pure=st.fractions(Fraction(1, 10**9), 20),
    count=st.integers(1, 10**12),
    total=st.floats(1e-300, 0.9),
)
def test_epsilon_rises_with_the_count_and_falls_with_delta(
    pure: Fraction, count: int, total: float
) -> None:
    found = equal_epsilon(pure, count=count, total=total)
    assert 0 <= found.lower <= found.upper <= count * pure * (1 + Fraction(1, 10**12))
    more = equal_epsilon(pure, count=count + 1, total=total)
    assert found.lower <= more.upper
    looser = equal_epsilon(pure, count=count, total=total * 1.05)
    assert looser.lower <= found.upper
