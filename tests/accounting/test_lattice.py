"""Optimal homogeneous composition against literal sums and its edges."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import Any

import mpmath
import pytest

from tacet.accounting.lattice import homogeneous_delta
from tacet.accounting.pld.distribution import PrivacyLossDistribution
from tacet.errors import InvalidParameter
from tacet.privacy.events import Approximate

mp = mpmath.MPContext()
mp.dps = 120


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


@pytest.mark.parametrize("count", [1, 2, 17, 300])
@pytest.mark.parametrize("epsilon", ["0", "0.05", "1", "12.3"])
def test_sums_are_enclosed_to_the_last_digit(count: int, epsilon: str) -> None:
    for delta in ("0", "1e-9"):
        found = homogeneous_delta("0.1", delta, count=count, epsilon=epsilon)
        truth = literal(mp.mpf("0.1"), mp.mpf(delta), count, mp.mpf(epsilon))
        assert found.lower <= truth + mp.mpf(10) ** -110
        assert truth - mp.mpf(10) ** -110 <= found.upper
        assert found.width <= 1e-15 * found.upper


def test_a_million_mechanisms_and_tiny_deltas() -> None:
    found = homogeneous_delta("0.001", count=10**6, epsilon="36")
    assert 1e-305 < found.lower <= found.upper < 1e-250
    assert found.width <= 1e-15 * found.upper


def test_the_transform_agrees() -> None:
    event = Approximate(epsilon=0.1, delta=1e-7) * 1000
    by_sum = homogeneous_delta("0.1", "1e-7", count=1000, epsilon="20")
    found = PrivacyLossDistribution.from_event(event).delta_interval(20.0)
    assert found.lower <= by_sum.upper
    assert by_sum.lower <= found.upper


def test_edges_and_refusals() -> None:
    assert homogeneous_delta(0, count=5, epsilon=0) == (0.0, 0.0)
    assert homogeneous_delta(1, 1, count=5, epsilon=0).upper == 1.0
    with pytest.raises(InvalidParameter, match="delta"):
        homogeneous_delta(1, 2, count=1, epsilon=0)
    with pytest.raises(InvalidParameter, match="pure"):
        homogeneous_delta(-1, count=1, epsilon=0)
    with pytest.raises(InvalidParameter, match="epsilon"):
        homogeneous_delta(1, count=1, epsilon=-1)
