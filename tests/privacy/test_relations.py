"""What implies what: round trips lose, never gain, and no kind implies what no theorem gives."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.cases import in_subtests

from unacorda.errors import InvalidParameter, WrongUnit
from unacorda.privacy import conversions
from unacorda.privacy.guarantees import (
    GDP,
    ZCDP,
    ApproxDP,
    Guarantee,
    PureDP,
    RenyiDP,
    gdp_of,
    renyi_of,
    zcdp_of,
)

SIZES = st.fractions(min_value=Fraction(1, 10**6), max_value=30, max_denominator=10**9)
DELTAS = st.sampled_from([Fraction(1, 10**12), Fraction("1e-6"), Fraction(1, 10)])


@pytest.mark.long
@settings(max_examples=30, deadline=None)
@given(SIZES, DELTAS)
def test_the_largest_within_implies_its_target_and_a_larger_does_not(
    size: Fraction, delta: Fraction
) -> None:
    pure: list[Guarantee] = [ZCDP(size), GDP(size), RenyiDP(4, size), ApproxDP(size, delta)]
    pairs: list[tuple[Any, Any]] = [(PureDP.within(target), target) for target in pure]
    pairs += [(ApproxDP.within(target), target) for target in (ZCDP(size, delta), GDP(size, delta))]
    pairs += [(kind.within(ApproxDP(size, delta)), ApproxDP(size, delta)) for kind in (ZCDP, GDP)]
    pairs += [(kind.within(RenyiDP(4, size)), RenyiDP(4, size)) for kind in (ZCDP, GDP)]
    pairs += [(GDP.within(ZCDP(size, delta)), ZCDP(size, delta))]
    for largest, target in pairs:
        assert largest.implies(target)
        larger = largest.with_additive(
            [largest.additive[0] * Fraction(10**6 + 1, 10**6), *largest.additive[1:]]
        )
        assert not larger.implies(target)


@pytest.mark.long
@settings(max_examples=30, deadline=None)
@given(SIZES, DELTAS)
def test_there_and_back_changes_the_last_digits_only(size: Fraction, delta: Fraction) -> None:
    zcdp, gdp = zcdp_of(PureDP(size)), gdp_of(PureDP(size))
    assert zcdp is not None
    assert gdp is not None
    for back in (PureDP.within(zcdp), PureDP.within(gdp)):
        assert float(back.epsilon / size) == pytest.approx(1, rel=1e-9)
    assert PureDP.within(ZCDP(size)).implies(ZCDP(size))
    half = GDP.within(ApproxDP(size, delta))
    assert ZCDP.within(ApproxDP(size, delta)).rho <= half.mu_squared / 2


def test_within_its_own_kind_it_is_the_order() -> None:
    assert PureDP(1).implies(PureDP(2))
    assert not PureDP(2).implies(PureDP(1))
    assert ZCDP(1, 1e-9).implies(ZCDP(1, 1e-8))
    assert not ZCDP(1, 1e-8).implies(ZCDP(2, 1e-9))
    assert GDP(1).implies(GDP(1))
    assert RenyiDP(8, 1).implies(RenyiDP(8, 1))


def test_a_divergence_of_higher_order_says_more() -> None:
    assert RenyiDP(8, 1).implies(RenyiDP(4, 1))
    assert not RenyiDP(4, 1).implies(RenyiDP(8, 1))


def test_known_implications() -> None:
    assert PureDP(1).implies(ZCDP(0.4622))
    assert not PureDP(1).implies(ZCDP(0.4621))
    assert PureDP(1).implies(GDP(1.2321))
    assert not PureDP(1).implies(GDP(1.2320))
    assert GDP(1).implies(ZCDP(0.5))
    assert GDP(1, 1e-9).implies(ZCDP(0.5, 1e-9))
    assert not GDP(1, 1e-9).implies(ZCDP(0.5))
    assert ZCDP(0.5).implies(ApproxDP(5.222, 1e-6))
    assert not ZCDP(0.5).implies(ApproxDP(5.221, 1e-6))
    assert GDP(1).implies(ApproxDP(4.8866, 1e-6))
    assert not GDP(1).implies(ApproxDP(4.8865, 1e-6))
    assert ZCDP(0.5).implies(RenyiDP(8, 4))
    assert RenyiDP(8, 1).implies(ApproxDP(3, 1e-6))
    assert ApproxDP(1, 1e-6).implies(ZCDP(0.4622, 1e-6))
    assert ApproxDP(1, 1e-6).implies(GDP(1.2321, 1e-6))


def test_a_smaller_epsilon_is_bought_with_delta() -> None:
    delta = conversions.approx_dp_delta_from_pure(1, epsilon=Fraction(9, 10))
    assert PureDP(1).implies(ApproxDP(0.9, delta + 1e-12))
    assert not PureDP(1).implies(ApproxDP(0.9, delta - 1e-12))
    assert ApproxDP(1, 1e-6).implies(ApproxDP(0.9, delta + 2e-6))
    assert not ApproxDP(1, 1e-6).implies(ApproxDP(0.9, delta))


@in_subtests(
    ("guarantee", "other"),
    [
        (ZCDP(1e-6), GDP(10)),
        (ZCDP(1e-6), PureDP(10)),
        (GDP(1e-6), PureDP(10)),
        (RenyiDP(8, 1e-6), ZCDP(10)),
        (RenyiDP(8, 1e-6), GDP(10)),
        (RenyiDP(8, 1e-6), PureDP(10)),
        (ApproxDP(1e-6, 1e-9), PureDP(10)),
        (ApproxDP(1e-6, 1e-9), RenyiDP(2, 10)),
        (ZCDP(1e-6, 1e-9), RenyiDP(2, 10)),
        (GDP(1e-6, 1e-9), RenyiDP(2, 10)),
        (ZCDP(1e-6, 1e-3), ApproxDP(10, 1e-4)),
    ],
)
def test_nothing_is_implied_without_a_theorem(guarantee: Guarantee, other: Guarantee) -> None:
    assert not guarantee.implies(other)


def test_no_loss_implies_everything_and_delta_one_is_always_kept() -> None:
    for kind in (PureDP(0), ZCDP(0), GDP(0), ApproxDP(0, 0), RenyiDP(2, 0)):
        for other in (PureDP(0), ZCDP(0), GDP(0), ApproxDP(0, 0), RenyiDP(9, 0)):
            assert kind.implies(other)
    assert PureDP(100).implies(ApproxDP(0, 1))
    assert RenyiDP(2, 100).implies(ZCDP(0, 1))
    assert ApproxDP(1, 0).implies(PureDP(1))


@pytest.mark.parametrize(
    ("kind", "target"),
    [
        (ZCDP, PureDP(1)),
        (ZCDP, GDP(1)),
        (GDP, PureDP(1)),
        (ApproxDP, RenyiDP(2, 1)),
    ],
)
def test_within_needs_a_theorem(kind: Any, target: Guarantee) -> None:
    with pytest.raises(WrongUnit):
        kind.within(target)


@pytest.mark.parametrize("delta", [0, 1])
def test_within_approximate_dp_needs_a_delta(delta: int) -> None:
    for kind in (ZCDP, GDP):
        with pytest.raises(InvalidParameter, match="delta"):
            kind.within(ApproxDP(1, delta))


def test_prices_lie_on_the_grid() -> None:
    zcdp, gdp = zcdp_of(PureDP(0.1)), gdp_of(PureDP(0.1))
    renyi = renyi_of(PureDP(0.1), alpha=Fraction(4))
    for guarantee in (zcdp, gdp, renyi, ZCDP.within(ApproxDP(1, 1e-6)), PureDP.within(GDP(1))):
        assert guarantee is not None
        assert 2**80 % guarantee.additive[0].denominator == 0
