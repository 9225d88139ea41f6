"""Divergences of orders next to 1 and of faint noise, where sums cancel, in long arithmetic."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from fractions import Fraction
from typing import Any

import mpmath
import pytest
from tests.support.cases import in_subtests
from tests.tiers import mostly_slow

from unacorda.accounting.amplification.sampling import approx_dp_of_sample
from unacorda.accounting.divergences import (
    renyi_of_discrete_laplace,
    renyi_of_law,
    renyi_of_sampled_pure,
)
from unacorda.accounting.laws import of_points

MP: Any = mpmath.MPContext()
MP.dps = 1500

ABOVE_ONE = [Fraction(1, 10**power) for power in (2, 15, 40, 60, 80, 300)]


def number(value: Fraction) -> Any:
    return MP.mpf(value.numerator) / value.denominator


def by_definition(pairs: list[tuple[Any, Any]], above: Fraction) -> Any:
    """log of the sum of p^a q^{1-a}, over a - 1, term by term."""
    a = 1 + number(above)
    return MP.log(MP.fsum(p**a * q ** (1 - a) for p, q in pairs)) / (a - 1)


def geometric_pairs(scale: Fraction, shift: int) -> list[tuple[Any, Any]]:
    """Both laws of integers with geometric noise, the tails beyond the two ends as one each."""
    r = MP.exp(-1 / number(scale))
    inner = [(r**k, r ** (shift - k)) for k in range(1, shift)]
    ends = [(1 / (1 - r), r**shift / (1 - r)), (r**shift / (1 - r), 1 / (1 - r))]
    top = (1 - r) / (1 + r)
    return [(top * p, top * q) for p, q in [*inner, *ends]]


@in_subtests("above", ABOVE_ONE, ids=lambda x: f"1+1e-{len(str(x)) - 3}")
@in_subtests("shift", [1, 3])
@pytest.mark.parametrize(
    "scale",
    mostly_slow(
        [
            2,
            10**6,
            10**20,
            10**40,
        ]
    ),
    ids=lambda x: f"scale {x:.0e}",
)
def test_geometric_noise_is_never_below_its_definition(
    scale: int, shift: int, above: Fraction
) -> None:
    truth = by_definition(geometric_pairs(Fraction(scale), shift), above)
    found = renyi_of_discrete_laplace(scale, sensitivity=shift, alpha=1 + above)
    assert MP.mpf(found) >= truth
    if scale <= 10**20:
        assert found <= float(truth) * (1 + 1e-9)


@in_subtests("above", ABOVE_ONE, ids=lambda x: f"1+1e-{len(str(x)) - 3}")
@in_subtests("epsilon", [1, Fraction(1, 10**10), Fraction(1, 10**40)], ids=str)
def test_randomized_response_is_never_below_its_definition(
    epsilon: Fraction, above: Fraction
) -> None:
    weight = MP.exp(number(Fraction(epsilon)))
    total = weight + 2
    pairs = [(weight / total, 1 / total), (1 / total, weight / total), (1 / total, 1 / total)]
    truth = by_definition(pairs, above)
    found = renyi_of_law(of_points(Fraction(epsilon), 3), alpha=1 + above)
    assert truth <= MP.mpf(found) <= truth * (1 + MP.mpf(10) ** -12)


@pytest.mark.parametrize("alpha", [1e6, 1e150, 1.7e308])
def test_no_divergence_is_larger_than_the_largest_loss(alpha: float) -> None:
    assert renyi_of_discrete_laplace(4.0, sensitivity=2, alpha=alpha) <= 0.5
    assert renyi_of_law(of_points(Fraction(1), 2), alpha=alpha) <= 1
    once, _ = approx_dp_of_sample(1.0, delta=0, rate=0.25)
    assert renyi_of_sampled_pure(1.0, rate=0.25, alpha=alpha) <= once
